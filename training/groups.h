/**
 * @file groups.h
 * Private to training: collectives and messages of a step, simulated on the whole cluster.
 */
#ifndef CCL_TRAINING_GROUPS_H
#define CCL_TRAINING_GROUPS_H

#include "training/training.h"

/** Disjoint groups of as many ranks each. */
typedef struct ccl_i_rank_groups {
    uint32_t n, nranks;
    const uint32_t *ranks; /* [n][nranks], ascending in a group */
} ccl_i_rank_groups_t;

/** A collective, and the synthesizers or stock software that may do it. */
typedef struct ccl_i_groups_ask {
    ccl_collective_kind_t kind;
    double size_bytes;
    const ccl_topology_t *machine; /* by which stock software chooses */
    const char *const *with; /* [nwith] */
    uint32_t nwith;
} ccl_i_groups_ask_t;

/**
 * The same collective in all groups at once, each group's by the same synthesizer: the fastest of
 * those named. Groups of one rank need no time.
 * @param by_out  which; borrowed from `with`.
 * @retval CCL_INFEASIBLE  none of them can.
 */
ccl_status_t ccl_i_groups_time(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               const ccl_i_rank_groups_t *groups, const ccl_i_groups_ask_t *ask,
                               double *time_s_out, const char **by_out, ccl_error_t *err);
/**
 * Messages of size_bytes from the first rank of each pair to the second, all at once, over the
 * number of channels (1 to 16) that is fastest.
 * @param pairs  [n][2].
 */
ccl_status_t ccl_i_pairs_time(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const uint32_t *pairs, uint32_t n, double size_bytes,
                              double *time_s_out, ccl_error_t *err);

#endif
