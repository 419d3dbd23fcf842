/* Private to search: lowering for a cluster and a run, and the proof of what came out. */
#ifndef CCL_SEARCH_WAYS_H
#define CCL_SEARCH_WAYS_H

#include "search/search.h"

/** Lower `way`, fitted to the cluster; `base` gives the rest. @param sim  the run looked at. */
ccl_status_t ccl_i_way_lower(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_schedule_t *schedule, ccl_way_t way,
                             const ccl_lower_options_t *base, const ccl_sim_options_t *sim,
                             ccl_lower_stats_t *stats, ccl_program_t **out, ccl_error_t *err);
/**
 * Verify but for deadlock, which the simulator sees with the real FIFOs.
 * @param wrong  the status of a program that is wrong.
 */
ccl_status_t ccl_i_program_prove(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                 ccl_granularity_t granularity, ccl_executor_t executor,
                                 ccl_status_t wrong, ccl_error_t *err);
/** Thread blocks of the GPU that runs most of them at this level. */
uint32_t ccl_i_most_blocks(const ccl_program_t *program, ccl_granularity_t granularity);
/** Statuses that end all work, not only one contender's: lack of memory may be one's alone. */
bool ccl_i_stops_all(ccl_status_t status);
/** A context for work inside a worker: cancellable, silent, one thread. */
ccl_ctx_t ccl_i_worker_ctx(const ccl_ctx_t *ctx);

#endif
