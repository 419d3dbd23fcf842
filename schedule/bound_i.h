/* Private to schedule: bounds of demands. */
#ifndef CCL_SCHEDULE_BOUND_I_H
#define CCL_SCHEDULE_BOUND_I_H

#include "schedule/bound.h"

/* Shares of demands are rounded down to multiples of 1/PARTS of a message. */
#define CCL_I_BOUND_PARTS ((uint64_t)1 << 20)

/** Tighten by cuts around the parts of ccl_cut_levels_init(); any demand. */
ccl_status_t ccl_i_bound_levels(const ccl_topology_t *topo, const ccl_collective_t *coll,
                                ccl_bandwidth_bound_t *best, ccl_error_t *err);
/** Tighten by flows between servers as nodes; every chunk goes from one rank to one other. */
ccl_status_t ccl_i_bound_servers(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_collective_t *coll, ccl_bandwidth_bound_t *best,
                                 ccl_error_t *err);

#endif
