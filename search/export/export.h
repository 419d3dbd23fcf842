/**
 * @file export.h
 * Results of a tuning as files for other libraries.
 */
#ifndef CCL_SEARCH_EXPORT_H
#define CCL_SEARCH_EXPORT_H

#include "search/tune/tune.h"

CCL_BEGIN_DECLS

/** A program and the sizes that it is for (its min_bytes and max_bytes). */
typedef struct ccl_export {
    ccl_program_t *program;
    uint32_t run;  /**< of the tuning: what it was made from */
    double time_s; /**< at that run's size, as lowered for the executor */
} ccl_export_t;
/**
 * The best program of each size that an executor can run, each proven within its limits, for the
 * sizes nearest to it (in the logarithm), from the smallest to the greatest that was tuned; equal
 * neighbours are one. Sizes for which none fits are left out.
 * @param out  freed with ccl_exports_destroy().
 * @retval CCL_ERR_INPUT  the tuning's sizes do not ascend.
 */
ccl_status_t ccl_export_programs(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_collective_t *want, const ccl_tuning_t *tuning,
                                 ccl_executor_t executor, ccl_export_t **out, uint32_t *n_out,
                                 ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_exports_destroy(ccl_export_t *exports, uint32_t n);
/**
 * The ring orders of one server as a file for NCCL_GRAPH_FILE: a channel per ring that `ring` finds
 * on the cluster, from the NIC where it comes in to the one where it goes out.
 * @param server    index; CCL_NONE: GPUs that have none.
 * @param channels  0: as many as `ring` thinks best.
 * @retval CCL_UNSUPPORTED  no ring passes the server in one go.
 */
ccl_status_t ccl_export_nccl_graph(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   uint32_t server, uint32_t channels, ccl_text_t *out,
                                   ccl_error_t *err);
/** Does NCCL ask its tuner for collectives of this kind? */
bool ccl_export_nccl_asks(ccl_collective_kind_t kind);
/**
 * Does a cluster, with a profile laid over it, know enough for ccl_export_nccl_tuner()? A thread
 * block's rate, overhead or latency, and costs of LL are needed for every kind of link that
 * connections use.
 * @param profile  NULL: the topology's constants.
 * @retval CCL_UNSUPPORTED  something is missing; says what.
 */
ccl_status_t ccl_export_nccl_tuner_check(const ccl_topology_t *topo, const ccl_profile_t *profile,
                                         ccl_error_t *err);
/**
 * A table for the example tuner plugin of NCCL and RCCL (NCCL_TUNER_CONFIG_FILE): of ring and tree
 * with each protocol, NCCL's own programs, the one that the model says is fastest, by size.
 * @param profile      NULL: the topology's constants.
 * @param sizes_bytes  [nsizes] ascending; ranges as in ccl_export_programs().
 * @retval CCL_UNSUPPORTED  a collective that NCCL does not ask its tuner for, or what
 *                          ccl_export_nccl_tuner_check() refuses.
 */
ccl_status_t ccl_export_nccl_tuner(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   const ccl_profile_t *profile, ccl_collective_kind_t kind,
                                   const double *sizes_bytes, uint32_t nsizes, ccl_text_t *out,
                                   ccl_error_t *err);

CCL_END_DECLS
#endif
