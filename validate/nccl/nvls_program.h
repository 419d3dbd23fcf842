/* NCCL's AllReduce through NVSwitches (private to validate/nccl). */
#ifndef CCLLAB_VALIDATE_NCCL_NVLS_PROGRAM_H
#define CCLLAB_VALIDATE_NCCL_NVLS_PROGRAM_H

#include "validate/nccl/nccl.h"

/** GPUs of a server that may be heads (NCCL_MAX_NVLS_ARITY). */
enum { CCL_I_NVLS_MOST_HEADS = 32 };

/**
 * NVLS in one server, NVLSTree over several: every GPU, up to 32 of them, is the head of a part of
 * the data in its server; heads of the same index are joined by a double binary tree over the
 * servers.
 * @param topo    servers of equal size whose ranks follow each other.
 * @param choice  channels: of each head.
 */
ccl_status_t ccl_i_nccl_nvls_program(const ccl_topology_t *topo, const ccl_nccl_choice_t *choice,
                                     ccl_program_t **out, ccl_error_t *err);

#endif
