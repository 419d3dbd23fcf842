/**
 * @file flow_list.h
 * Flow lists: plain traffic between ranks.
 */
#ifndef CCL_SCHEDULE_FLOW_LIST_H
#define CCL_SCHEDULE_FLOW_LIST_H

#include "base/base.h"

CCL_BEGIN_DECLS

/** Plain network runs: "nranks nflows gpus_per_server", then "id src dst bytes dep" a line. */
typedef struct ccl_flow_list {
    uint32_t nranks, nflows, gpus_per_server;
    uint32_t *src, *dst, *dep; /**< [nflows]; dep: index of a flow or CCL_NONE */
    double *bytes;             /**< [nflows] */
} ccl_flow_list_t;
ccl_status_t ccl_flow_list_read(const char *path, ccl_flow_list_t **out, ccl_error_t *err);
ccl_status_t ccl_flow_list_read_text(const char *name, const char *text, size_t len,
                                     ccl_flow_list_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_flow_list_destroy(ccl_flow_list_t *list);

CCL_END_DECLS
#endif
