/**
 * @file improve.h
 * Local search over one schedule.
 */
#ifndef CCL_SEARCH_IMPROVE_H
#define CCL_SEARCH_IMPROVE_H

#include "lower/lower.h"

CCL_BEGIN_DECLS

typedef struct ccl_improve_options {
    size_t size;
    ccl_way_t way;             /**< how it is lowered and run */
    ccl_lower_options_t lower; /**< all but the way, the topology and the run; routes may be set */
    ccl_sim_options_t sim;     /**< the run: size_bytes > 0 */
    uint32_t tries;
} ccl_improve_options_t;
/** The defaults. */
#define CCL_IMPROVE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(ccl_improve_options_t),                                                             \
            {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_ALGORITHM},                  \
            CCL_LOWER_OPTIONS_INIT, CCL_SIM_OPTIONS_INIT, 0                                        \
    }
typedef struct ccl_improvement {
    ccl_schedule_t *schedule; /**< the best; destroy with ccl_schedule_destroy() */
    double before_s, time_s;  /**< of the run: at first, in the end; never slower */
    uint32_t tries, valid, accepted;
} ccl_improvement_t;
/**
 * Local search over a schedule for one size: transfers get other sources, relays, steps and
 * channels, two exchange their sources, chunks are cut in halves; mostly where the critical path
 * is. By simulated annealing, so slower schedules are passed through too. Every schedule is proven
 * before it is lowered and run, every program before the search goes on from it.
 *
 * @param out  set on success.
 * @retval CCL_ERR_INPUT  the schedule is wrong, or does not run this way.
 * @par Determinism  the same for a seed.
 * @par Source  simulated annealing: Kirkpatrick, Gelatt and Vecchi (Science 1983).
 */
ccl_status_t ccl_improve(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_schedule_t *schedule, const ccl_improve_options_t *options,
                         ccl_improvement_t *out, ccl_error_t *err);

CCL_END_DECLS
#endif
