/* Private to search: what its comparisons, explanations and tunings share. */
#ifndef CCL_SEARCH_SHARED_H
#define CCL_SEARCH_SHARED_H

#include "make/make.h"

/** How a schedule becomes a program for this run; `base` gives what `way` and `sim` do not. */
ccl_make_options_t ccl_i_make_options(ccl_way_t way, const ccl_lower_options_t *base,
                                      const ccl_sim_options_t *sim);
/** Thread blocks of the GPU that runs most of them at this level. */
uint32_t ccl_i_most_blocks(const ccl_program_t *program, ccl_granularity_t granularity);
/** Statuses that end all work, not only one contender's: lack of memory may be one's alone. */
bool ccl_i_stops_all(ccl_status_t status);
/** A context for work inside a worker: cancellable, silent, one thread. */
ccl_ctx_t ccl_i_worker_ctx(const ccl_ctx_t *ctx);

#endif
