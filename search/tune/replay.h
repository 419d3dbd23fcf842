/**
 * @file replay.h
 * A tuning's best points on a device, and all of them ranked again with what was fitted there.
 */
#ifndef CCL_SEARCH_REPLAY_H
#define CCL_SEARCH_REPLAY_H

#include "search/tune/tune.h"

CCL_BEGIN_DECLS

typedef struct ccl_replay_options {
    size_t size;
    ccl_run_options_t run; /**< device, workers, ranks; size, level, micro-batches: per point */
    uint32_t top;          /**< points of each size that run, the fastest; 0: 3 */
    uint32_t repeats;      /**< interleaved over all points, the least counts; 0: 5 */
    ccl_host_measure_fn measure; /**< NULL: ccl_run_program() */
    void *measure_user;
    double rank_s; /**< wall time for ranking all points again, looked at between rounds; 0: all */
} ccl_replay_options_t;
/** The defaults. */
#define CCL_REPLAY_OPTIONS_INIT                                                                    \
    { sizeof(ccl_replay_options_t), CCL_RUN_OPTIONS_INIT, 0, 0, NULL, NULL, 0 }

/** One tuned point on the device. Ranks count from 1 among those of its size that ran. */
typedef struct ccl_replayed {
    uint32_t run;        /**< of the tuning */
    ccl_status_t status; /**< CCL_OK; CCL_CHECK: wrong data; or why it cannot run there */
    char why[256];       /**< then one line */
    double tuned_s, fitted_s, measured_s; /**< simulated as tuned, with what was fitted; least */
    uint32_t tuned_rank, fitted_rank, measured_rank; /**< 0: it did not run */
} ccl_replayed_t;

/** A point ranked again with what was fitted. Ranks count from 1 among those of its size. */
typedef struct ccl_reranked {
    uint32_t run;      /**< of the tuning */
    uint32_t replayed; /**< which of ccl_replay_t.points it is; CCL_NONE: it did not run */
    double tuned_s, fitted_s;
    uint32_t tuned_rank, fitted_rank; /**< equal times: equal ranks */
} ccl_reranked_t;

typedef struct ccl_replay {
    uint32_t npoints, nran, nconstants;
    ccl_replayed_t *points;      /**< [npoints] size by size, as tuned the fastest first */
    uint32_t nranked, nunranked; /**< points ranked again; those that the budget left no time for */
    ccl_reranked_t *ranked; /**< [nranked] size by size, with what was fitted the fastest first */
    const ccl_constant_t *constants;
    double error_tuned, error_fitted; /**< median of |predicted / measured - 1| */
    double tau_tuned, tau_fitted;     /**< Kendall's, over pairs of a size; NAN: no pair */
    char *profile; /**< JSON "ccllab-profile-1": what was fitted, to be laid over the cluster */
    ccl_arena_t arena;
} ccl_replay_t;
/**
 * Run the fastest points of a tuning on a device, fit an overhead per primitive and a share of the
 * bandwidth for each transport that they use to the least times, and rank all points of the tuning
 * that have a time in full again with these: the same programs, simulated again.
 *
 * @param tuning  of `topo`, which has a rank for each that is run; with options.keep, else only
 * what ran is ranked again (points, not ranked).
 * @param out     destroy with ccl_replay_destroy().
 * @retval CCL_INFEASIBLE   no point of the tuning has a time.
 * @retval CCL_ERR_MISSING  the device is not there. Where no point could run, the first one's
 *                          status and reason are returned.
 */
ccl_status_t ccl_tune_replay(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                             const ccl_collective_t *want, const ccl_tuning_t *tuning,
                             const ccl_replay_options_t *options, ccl_replay_t **out,
                             ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_replay_destroy(ccl_replay_t *replay);

CCL_END_DECLS
#endif
