/* Private to search: what strategies ask of the tuner. */
#ifndef CCL_SEARCH_STRATEGY_H
#define CCL_SEARCH_STRATEGY_H

#include "search/tune/tune.h"

typedef struct ccl_i_tuner ccl_i_tuner_t;

/** The whole search: untuned points, then the strategy. In strategy.c. */
ccl_status_t ccl_i_tune_search(ccl_i_tuner_t *tuner, ccl_error_t *err);

ccl_tuning_t *ccl_i_tuner_result(ccl_i_tuner_t *tuner);
const ccl_tune_options_t *ccl_i_tuner_options(const ccl_i_tuner_t *tuner);
uint64_t ccl_i_tuner_seed(const ccl_i_tuner_t *tuner);
const ccl_topology_t *ccl_i_tuner_topology(const ccl_i_tuner_t *tuner);
const ccl_collective_t *ccl_i_tuner_collective(const ccl_i_tuner_t *tuner);
/** Index of a point; one that is known keeps its index. */
ccl_status_t ccl_i_tune_point(ccl_i_tuner_t *tuner, const double values[CCL_KNOBS], uint32_t *out,
                              ccl_error_t *err);
/** Ask for a point at a size, unless it was asked for, the size is done, or no run is left. */
ccl_status_t ccl_i_tune_run(ccl_i_tuner_t *tuner, uint32_t point, uint32_t size, bool estimate,
                            ccl_error_t *err);
/** The same, whatever budget is left. */
ccl_status_t ccl_i_tune_extra(ccl_i_tuner_t *tuner, uint32_t point, uint32_t size,
                              ccl_error_t *err);
/** Everything asked for is finished then. */
ccl_status_t ccl_i_tune_flush(ccl_i_tuner_t *tuner, ccl_error_t *err);
/** All sizes are done, or this share of a budget is spent. */
bool ccl_i_tune_spent(const ccl_i_tuner_t *tuner, double share);

#endif
