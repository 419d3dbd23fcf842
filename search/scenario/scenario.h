/**
 * @file scenario.h
 * Clusters that vary: distributions of rates, latencies, thread blocks and launches, failures with
 * a probability, and the times of a program over samples of them.
 */
#ifndef CCL_SEARCH_SCENARIO_H
#define CCL_SEARCH_SCENARIO_H

#include "sim/sim.h"

CCL_BEGIN_DECLS

/** What varies. */
typedef enum ccl_vary {
    CCL_VARY_RATE,    /**< "rate": factor of links' bandwidths */
    CCL_VARY_LATENCY, /**< "latency": seconds added to links' latencies */
    CCL_VARY_BLOCKS,  /**< "blocks": factor of what thread blocks pass, reduce and copy a second */
    CCL_VARY_LAUNCH   /**< "launch": seconds added to the launch of a GPU's thread blocks */
} ccl_vary_t;

/** What one draw holds for. */
typedef enum ccl_vary_per {
    CCL_PER_LINK,   /**< a directed link */
    CCL_PER_DEVICE, /**< a GPU; of a link its NIC, else its GPU, else the device it leaves */
    CCL_PER_SERVER, /**< of a link the server of that device; devices without one count alone */
    CCL_PER_CLUSTER
} ccl_vary_per_t;

typedef enum ccl_law_kind {
    CCL_LAW_CONSTANT,  /**< a */
    CCL_LAW_UNIFORM,   /**< between a and b */
    CCL_LAW_NORMAL,    /**< mean a, standard deviation b; drawn again where it is below 0 */
    CCL_LAW_LOGNORMAL, /**< median a; the logarithm has standard deviation b */
    CCL_LAW_GAMMA,     /**< mean a, shape b */
    CCL_LAW_EMPIRICAL  /**< one of the values, all alike */
} ccl_law_kind_t;

typedef struct ccl_law {
    ccl_law_kind_t kind;
    double a, b;
    double *values; /**< [nvalues] owned; NULL but for CCL_LAW_EMPIRICAL */
    uint32_t nvalues;
} ccl_law_t;

/** One thing that varies. */
typedef struct ccl_variation {
    ccl_vary_t what;
    char of[200]; /**< "" all; links of a kind ("net"), or what ccl_topology_select() names */
    ccl_vary_per_t per;
    ccl_law_t law;
} ccl_variation_t;

/** An edit of the cluster (ccl_topology_edit()) that a sample has or has not. */
typedef struct ccl_mishap {
    char edit[200];
    double probability; /**< 0 to 1 */
} ccl_mishap_t;

#define CCL_MISHAPS_MAX 63
#define CCL_SAMPLES_MAX 1000000u

typedef struct ccl_scenario {
    char *name;                  /**< owned; of the file, or the text itself */
    ccl_variation_t *variations; /**< [nvariations] owned */
    uint32_t nvariations;
    ccl_mishap_t *mishaps; /**< [nmishaps] owned; at most CCL_MISHAPS_MAX */
    uint32_t nmishaps;
} ccl_scenario_t;

/**
 * Read a scenario: a file of the form ccllab/scenarios/1, or a text in place of one, such as
 * "rate@net/device=normal(1,0.05); launch=gamma(20us,2); fail:nic:0~1%" (docs/formats.md). A text
 * has an "=" or a "~".
 * @param out  destroy with ccl_scenario_destroy().
 * @retval CCL_ERR_INPUT  with file, line and column where there is a file.
 */
ccl_status_t ccl_scenario_read(const char *file_or_text, ccl_scenario_t **out, ccl_error_t *err);
/** The same from text of a file. @param name  for messages, and its folder for files it names. */
ccl_status_t ccl_scenario_parse(const char *name, const char *text, size_t len,
                                ccl_scenario_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_scenario_destroy(ccl_scenario_t *scenario);
/** One value of a law. */
double ccl_law_draw(const ccl_law_t *law, ccl_rng_t *rng);

/**
 * A scenario on one cluster: what of it each draw touches. Sample k of seed s is always the same,
 * whatever is timed on it (common random numbers), in whatever order.
 */
typedef struct ccl_draws ccl_draws_t;
/**
 * @param topo  as drawn; must outlive it.
 * @retval CCL_ERR_INPUT  the scenario names what the cluster does not have.
 */
ccl_status_t ccl_draws_create(const ccl_scenario_t *scenario, const ccl_topology_t *topo,
                              uint64_t seed, ccl_draws_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_draws_destroy(ccl_draws_t *draws);

/** What runs in each sample. */
typedef struct ccl_drawn_run {
    const ccl_topology_t *topo; /**< of the draws, or one with the same devices and links (other
                                     constants) */
    ccl_routes_t *routes; /**< of topo, for samples in which nothing fails; used by one thread */
    const ccl_program_t *program;
    const ccl_sim_options_t *sim; /**< of each run */
} ccl_drawn_run_t;

/**
 * Times of a program in samples `first` to `first + n - 1`.
 * @param times_s [n] seconds; INFINITY: the program cannot run on what is left.
 * @retval CCL_INTERRUPTED  times of samples that were not run are NaN.
 */
ccl_status_t ccl_draws_time(const ccl_ctx_t *ctx, const ccl_draws_t *draws,
                            const ccl_drawn_run_t *run, uint32_t first, uint32_t n, double *times_s,
                            ccl_error_t *err);
/**
 * All of 0 to n - 1, on all cores, with routes of their own. The same times on any number of
 * threads.
 */
ccl_status_t ccl_draws_time_all(const ccl_ctx_t *ctx, const ccl_draws_t *draws,
                                const ccl_drawn_run_t *run, uint32_t n, double *times_s,
                                ccl_error_t *err);

/* ---------------------------------------------------------------- statistics */

/** A quantile with its 95 % confidence interval by order statistics. */
typedef struct ccl_quantile {
    double value_s;       /**< the least time that the share of samples does not exceed */
    double low_s, high_s; /**< NaN: too few samples for that end */
} ccl_quantile_t;

/** Times over samples. Lost samples count as longer than any time, but in the mean. */
enum { CCL_SPREAD_QUANTILES = 101 };
typedef struct ccl_spread {
    uint32_t n;               /**< samples that were run */
    uint32_t lost;            /**< of them without a time: the program cannot run on what is left */
    double mean_s, mean_ci_s; /**< of those with a time; half of a 95 % confidence interval */
    double sd_s, min_s, max_s;
    ccl_quantile_t p50, p95, p99;
    double cvar95_s; /**< mean of the slowest 5 % (at least one sample); INFINITY with lost ones */
    double quantile_s[CCL_SPREAD_QUANTILES]; /**< [i] the least time that i percent of the samples
                                                do not exceed, [0] the least of all; INFINITY: lost;
                                                NaN: no samples */
} ccl_spread_t;
/** @param times_s  [n]; NaN: not run. */
ccl_status_t ccl_spread(const double *times_s, uint32_t n, ccl_spread_t *out, ccl_error_t *err);
/** The quantile of times. @param sorted_s  [n] ascending. @param p  0 < p < 1. */
ccl_quantile_t ccl_quantile(const double *sorted_s, uint32_t n, double p);

/** By what contenders are ranked over samples. */
typedef enum ccl_rank_kind {
    CCL_RANK_NONE,     /**< by the time on the cluster as drawn */
    CCL_RANK_MEAN,     /**< of samples with a time; lost ones count first */
    CCL_RANK_QUANTILE, /**< level: 0.99 */
    CCL_RANK_CVAR,     /**< mean of the slowest 1 - level */
    CCL_RANK_REGRET    /**< most that it is ever slower than the sample's fastest */
} ccl_rank_kind_t;
typedef struct ccl_rank {
    ccl_rank_kind_t kind;
    double level;
} ccl_rank_t;
/** "mean", "p50", "p99", "p99.9", "cvar95", "regret". @retval CCL_ERR_INPUT  none of these. */
ccl_status_t ccl_rank_parse(const char *text, ccl_rank_t *out, ccl_error_t *err);
/**
 * What a contender is ranked by; less is better.
 * @param best_s  [n] fastest of all contenders in each sample; for CCL_RANK_REGRET only.
 */
ccl_status_t ccl_rank_value(ccl_rank_t rank, const double *times_s, const double *best_s,
                            uint32_t n, double *out, ccl_error_t *err);

/** Differences of two contenders in the same samples, of those that both have a time in. */
typedef struct ccl_paired {
    uint32_t n;
    double mean_s, ci_s; /**< of a - b; half of a 95 % confidence interval */
    double wins;         /**< share of samples, lost ones too, in which a is faster than b */
} ccl_paired_t;
void ccl_paired(const double *a_s, const double *b_s, uint32_t n, ccl_paired_t *out);

/** How synthesis and lowering choose by samples: ctx.judge = &judge.of. */
typedef struct ccl_draws_judge {
    ccl_judge_t of;
    const ccl_draws_t *draws;
    uint32_t samples;
    ccl_rank_t rank;
} ccl_draws_judge_t;
/**
 * @param draws  of `topo`; borrowed, as out is by the contexts that it judges for.
 * @param rank   mean, a quantile or CVaR.
 * @retval CCL_ERR_INPUT  CCL_RANK_REGRET, which is among those that ran; no samples.
 */
ccl_status_t ccl_draws_judge(const ccl_draws_t *draws, const ccl_topology_t *topo, uint32_t samples,
                             ccl_rank_t rank, ccl_draws_judge_t *out, ccl_error_t *err);

CCL_END_DECLS
#endif
