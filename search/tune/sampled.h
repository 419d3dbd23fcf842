/**
 * @file sampled.h
 * A tuning's best points over samples of a scenario: who stays fast when links and GPUs vary.
 */
#ifndef CCL_SEARCH_SAMPLED_H
#define CCL_SEARCH_SAMPLED_H

#include "search/scenario/scenario.h"
#include "search/tune/tune.h"

CCL_BEGIN_DECLS

typedef struct ccl_tune_sample_options {
    size_t size;
    const ccl_draws_t *draws; /**< of the cluster that was tuned */
    uint32_t samples;         /**< > 0 */
    ccl_rank_t
        rank;     /**< what the best is chosen by; CCL_RANK_NONE: as tuned, times are added only */
    uint32_t top; /**< points of each size, the fastest as tuned; 0: 8 */
} ccl_tune_sample_options_t;
/** The defaults. */
#define CCL_TUNE_SAMPLE_OPTIONS_INIT                                                               \
    { sizeof(ccl_tune_sample_options_t), NULL, 0, {CCL_RANK_NONE, 0}, 0 }

/** One point over the samples. */
typedef struct ccl_sampled {
    uint32_t run;        /**< of the tuning */
    uint32_t tuned_rank; /**< from 1 among those of its size, by the time on the cluster as drawn */
    ccl_spread_t spread;
    double rank_s;   /**< what it is ranked by, less is better */
    double regret_s; /**< most that it is behind the fastest of a sample */
} ccl_sampled_t;

typedef struct ccl_tune_samples {
    uint32_t samples, npoints;
    ccl_rank_t rank;
    ccl_sampled_t *points; /**< [npoints] size by size, the best by rank first */
    ccl_arena_t arena;
} ccl_tune_samples_t;
/**
 * Time the fastest points of each size of a tuning over samples, all in the same ones, and make the
 * best by rank the best of their size.
 *
 * @param tuning  of `topo`; its best[] are set, where options->rank chooses. Settings that most
 * likely give one program (same synthesizer, same time) are one point.
 * @param out     destroy with ccl_tune_samples_destroy().
 * @retval CCL_INFEASIBLE   no point of the tuning has a time.
 * @retval CCL_INTERRUPTED  nothing is changed.
 * @par Determinism  the same for any number of threads.
 */
ccl_status_t ccl_tune_sample(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                             const ccl_collective_t *want, ccl_tuning_t *tuning,
                             const ccl_tune_sample_options_t *options, ccl_tune_samples_t **out,
                             ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_tune_samples_destroy(ccl_tune_samples_t *samples);

CCL_END_DECLS
#endif
