/**
 * @file tune.h
 * The best settings of synthesizers and lowering for each size.
 */
#ifndef CCL_SEARCH_TUNE_H
#define CCL_SEARCH_TUNE_H

#include "search/notebook/lab.h"
#include "search/tune/space.h"
#include "validate/validate.h"

CCL_BEGIN_DECLS

typedef enum ccl_strategy {
    CCL_STRATEGY_HALVING, /**< estimates of many at few sizes, runs of few at all, neighbours */
    CCL_STRATEGY_GRID,    /**< all points of the space */
    CCL_STRATEGY_RANDOM   /**< points drawn at random */
} ccl_strategy_t;

typedef struct ccl_tune_options {
    size_t size;
    const ccl_space_t *space;
    ccl_strategy_t strategy;
    const double *sizes_bytes;
    uint32_t nsizes;
    uint64_t budget_runs;     /**< 0: none; runs and estimates, also those that the notebook had */
    double budget_s;          /**< 0: none; wall time, looked at between rounds */
    double gap;               /**< a size is done when its time is within (1 + gap) of the bound */
    ccl_notebook_t *notebook; /**< NULL: none */
    const char *profile;      /**< name of the profile laid over the cluster; NULL: none */
    const ccl_topology_t *machine; /**< the cluster without a profile, by which NCCL chooses; NULL:
                                        the one that is tuned */
    uint32_t improve; /**< in the end ccl_improve() each size's best with this number of tries; 0:
                         none */
    ccl_lab_t *lab;   /**< of the notebook: processes that share it help (ccl_tune_work()), where
                         there are some; NULL: this one does all */
    bool keep; /**< schedules and programs stay in memory with the result, for ccl_tune_replay():
                    context, topology, collective and these options must be there as long */
} ccl_tune_options_t;
/** The defaults. */
#define CCL_TUNE_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ccl_tune_options_t), NULL, CCL_STRATEGY_HALVING, NULL, 0, 0, 0, 0.01, NULL, NULL,   \
            NULL, 0, NULL, false                                                                \
    }

/** One point of the space. */
typedef struct ccl_tune_point {
    double values[CCL_KNOBS];
    char *settings; /**< canonical JSON */
} ccl_tune_point_t;
/** One point at one size. */
typedef struct ccl_tune_run {
    uint32_t point, size;
    bool estimate, resumed; /**< resumed: it was in the notebook */
    bool scarce; /**< memory was short: a candidate was dropped or (CCL_ERR_NOMEM) the run,
                      which with more of it may come to more; not in the notebook */
    ccl_point_result_t result;
} ccl_tune_run_t;

typedef struct ccl_tuning {
    uint32_t npoints, nsizes, nuntuned;
    ccl_tune_point_t *points; /**< the first nuntuned: each synthesizer, all else auto */
    size_t points_cap;
    double *sizes_bytes;       /**< [nsizes] */
    double *bound_s;           /**< [nsizes] of all clusters that the space's knobs make */
    ccl_nccl_baseline_t *nccl; /**< [nsizes] what stock software takes, timed and not tuned */
    uint32_t *best;            /**< [nsizes] run in full; CCL_NONE: none has a time */
    uint32_t *untuned;         /**< [nsizes] the best of the untuned points */
    bool *done;                /**< [nsizes] within the gap of the bound */
    double gap;                /**< of the options: 0.01 is 1 % */
    uint32_t nruns;
    ccl_tune_run_t *runs; /**< in the order of the search */
    size_t runs_cap;
    double space_points;        /**< points of the space as a grid, doubles counted */
    uint32_t schedules;         /**< that were synthesized */
    double synth_s, eval_s;     /**< work here, summed over threads */
    double lower_s, simulate_s; /**< parts of eval_s: lowering with proof; simulation */
    double notebook_s;          /**< looking points up and writing them down */
    bool interrupted;
    const char *stopped;      /**< "space", "budget", "gap", "interrupted": why it ended; static */
    struct ccl_i_tuner *kept; /**< what options.keep asked for, private; NULL: nothing */
} ccl_tuning_t;

/**
 * Search settings of synthesizers and lowering for a collective on a cluster, per size.
 *
 * First every synthesizer with all else auto, so that the result is never worse than the best of
 * them; then the strategy. Rounds have a fixed number of points; bounds and budgets are looked at
 * between rounds. A point that the notebook has is not run again.
 *
 * @param out  destroy with ccl_tuning_destroy(); set also with CCL_INTERRUPTED, to what is
 * finished.
 * @retval CCL_ERR_INPUT  no synthesizer of the space supports this; no size; no budget for a grid
 * that is too large.
 * @par Determinism  the same for any number of threads but for wall times, unless budget_s ends it.
 * @par Source  coarse to fine: SyCCL's R1 and R2; successive halving: Jamieson and Talwalkar
 * (AISTATS 2016).
 */
ccl_status_t ccl_tune(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                      const ccl_collective_t *want, const ccl_tune_options_t *options,
                      ccl_tuning_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_tuning_destroy(ccl_tuning_t *tuning);
/** What a tuning had no memory for. */
typedef struct ccl_scarcity {
    uint32_t runs, missing; /**< all of them; those that were not made */
    uint32_t partly;        /**< whose schedule had fewer candidates to be chosen from */
    bool all;               /**< no size has a time, and this is why */
} ccl_scarcity_t;
ccl_scarcity_t ccl_tuning_scarcity(const ccl_tuning_t *tuning);
typedef struct ccl_tune_work_options {
    size_t size;
    double idle_s; /**< end when there was no work for this time; 0: never */
    bool launched; /**< end with the process that asks, of the launch that the lab names */
} ccl_tune_work_options_t;
/** The defaults. */
#define CCL_TUNE_WORK_OPTIONS_INIT                                                                 \
    { sizeof(ccl_tune_work_options_t), 0, false }
/**
 * Do what tunings queue in a notebook: schedules and runs, one after the other, with one thread.
 * Any number of processes may do so, and come and go at any time; they need the same build and
 * plugins as the one that tunes, and nothing else. Results are the same whoever does what.
 *
 * @param lab        joined with `works`.
 * @param tasks_out  done here; set also after an error.
 * @retval CCL_INTERRUPTED  what was begun is for others at once.
 * @retval CCL_ERR_IO       the notebook is gone, or launched: the process that asks is.
 */
ccl_status_t ccl_tune_work(const ccl_ctx_t *ctx, ccl_lab_t *lab,
                           const ccl_tune_work_options_t *options, uint64_t *tasks_out,
                           ccl_error_t *err);

typedef enum ccl_front { CCL_FRONT_BLOCKS, CCL_FRONT_SYNTHESIS } ccl_front_t;
/**
 * The Pareto front of a size: runs in full, none of which is beaten in both time and thread blocks
 * (or time of synthesis, which is wall time), cheapest first.
 * @param out  malloc'ed indices of runs.
 */
ccl_status_t ccl_tuning_front(const ccl_tuning_t *tuning, uint32_t size, ccl_front_t front,
                              uint32_t **out, uint32_t *n_out, ccl_error_t *err);
/** What one value of a knob is worth. */
typedef struct ccl_knob_worth {
    ccl_knob_t knob;
    double value;
    uint32_t runs;       /**< in full, with a time */
    uint32_t best_sizes; /**< sizes whose best has it */
    double slowdown;     /**< geometric mean over sizes: best time with it / best time, >= 1 */
} ccl_knob_worth_t;
/** Every value that was run, of every knob with two or more of them. @param out  malloc'ed. */
ccl_status_t ccl_tuning_sensitivity(const ccl_tuning_t *tuning, ccl_knob_worth_t **out,
                                    uint32_t *n_out, ccl_error_t *err);

/**
 * The cluster as a point has it: with its limit of thread blocks and its transports' constants.
 *
 * @param out  destroy with ccl_topology_destroy(); NULL: `topo` itself.
 * @retval CCL_ERR_INPUT  a value that this cluster cannot have.
 */
ccl_status_t ccl_tune_cluster(const ccl_topology_t *topo, const double values[CCL_KNOBS],
                              ccl_topology_t **out, ccl_error_t *err);
/** Nothing of the point is a constant that nobody can choose (knobs latency, overhead, tb_rate). */
bool ccl_tune_can_be_had(const double values[CCL_KNOBS]);

/** What a program of a point is made for; zeros: as it was tuned. */
typedef struct ccl_tune_target {
    ccl_executor_t executor; /**< lowered within its limits; not CCL_EXECUTOR_ANY: at algorithm
                                  level, a block per connection where the point shares them, so it
                                  may be slower than what was tuned */
    bool plan;               /**< for a plan of MSCCL++: likewise, but without limits */
    bool out_of_place;       /**< as ccl_lower_options_t.out_of_place */
    const char *proto;       /**< NULL: the point's */
} ccl_tune_target_t;
/**
 * The schedule and program of a point at a size, made again as ccl_tune() made them.
 *
 * @param topo      the cluster as the point has it: ccl_tune_cluster().
 * @param values    of a point (ccl_tune_point_t.values).
 * @param out       proven; destroy with ccl_program_destroy().
 * @param way_out   NULL, or how it was lowered.
 * @retval CCL_UNSUPPORTED  it does not fit the executor.
 */
ccl_status_t ccl_tune_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const ccl_collective_t *want, const double values[CCL_KNOBS],
                              double size_bytes, const ccl_tune_target_t *target,
                              ccl_program_t **out, ccl_way_t *way_out, ccl_error_t *err);

CCL_END_DECLS
#endif
