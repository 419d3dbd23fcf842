/**
 * @file verbs.h
 * RDMA devices by libibverbs: which one, which port, which address. What a run does with them is
 * in wire_verbs.c. Without libibverbs at build time nothing can be opened (verbs_none.c).
 */
#ifndef CCL_RUNTIME_VERBS_H
#define CCL_RUNTIME_VERBS_H

#include "base/base.h"

/** A port of an RDMA device, open. */
typedef struct ccl_i_verbs ccl_i_verbs_t;

/**
 * @param want  "DEVICE[:PORT[:GID]]" (GID: index of the port's address table); NULL or "": the
 *              first device with an active port; for RoCE version 2 of the address that is IPv4's.
 * @retval CCL_ERR_MISSING  there is no such device, its port is down, or ccllab was built
 *                              without libibverbs; the error says which.
 */
ccl_status_t ccl_i_verbs_open(const char *want, ccl_i_verbs_t **out, ccl_error_t *err);
void ccl_i_verbs_close(ccl_i_verbs_t *verbs);

#endif
