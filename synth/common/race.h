/*
 * Private to synth: a race of candidates. Schedules are made and simulated, on several threads
 * where the family allows it; the fastest is kept. Results do not depend on the number of threads.
 */
#ifndef CCL_SYNTH_RACE_H
#define CCL_SYNTH_RACE_H

#include "synth/common/plan.h"

/** What other protocols than Simple, and more rounds, gain at most: who takes longer than this
    times ccl_synth_options_t.hope_s has none. */
#define CCL_I_SYNTH_CARE 2

/** What one worker makes and simulates candidates with; routes and cluster fill as they are used.
 */
typedef struct ccl_i_racer {
    const ccl_ctx_t *ctx; /**< reports nothing while several may work, can be interrupted */
    ccl_routes_t *routes;
    ccl_i_cluster_t *cluster; /**< NULL but with ccl_i_race_t.clusters */
} ccl_i_racer_t;

/** Result of a candidate. */
typedef struct ccl_i_raced {
    ccl_schedule_t *schedule; /**< while a round runs; afterwards it is freed or in `best` */
    double time_s;            /**< INFINITY: not simulated, or it does not fit */
    double work;              /**< what the simulation cost, in transfers, counted */
    bool made;       /**< false: it cannot be, there was no work left for it, or it is late */
    bool gave_up;    /**< its simulation was ended: ccl_i_race_t.give_up */
    double expected; /**< of its work; only with `in_turn` */
    bool late;       /**< left out, or not simulated, since the time was up */
    ccl_error_t why; /**< CCL_UNSUPPORTED: why it cannot be */
} ccl_i_raced_t;

/** The fastest so far. */
typedef struct ccl_i_race_best {
    ccl_schedule_t *schedule; /**< NULL: none; with ccl_i_race_t.times_only never kept */
    double time_s;
    uint32_t index; /**< in the round that ran last; CCL_NONE: none of that round */
} ccl_i_race_best_t;

/** Unit of the budget. */
typedef enum ccl_i_race_unit {
    CCL_I_RACE_SIMULATED, /**< expected at first, then as counted by the simulation */
    CCL_I_RACE_TRANSFERS  /**< transfers of schedules that are made */
} ccl_i_race_unit_t;

/**
 * Zero is the default of every field that is not named as required. The race owns what is behind
 * `results`; ccl_i_race_fini() frees it.
 */
typedef struct ccl_i_race {
    const ccl_ctx_t *ctx;       /**< may be NULL */
    const ccl_topology_t *topo; /**< required */
    ccl_routes_t *routes;       /**< of the calling thread; NULL: made */
    bool clusters;              /**< workers have a cluster */
    uint32_t threads;           /**< 0: as ctx says */
    const char *phase;          /**< of progress, reported by the calling thread; NULL: no report */
    uint32_t total; /**< candidates of all rounds, for progress; 0: those of the round */

    /**
     * Make candidate `index` of this round. CCL_UNSUPPORTED drops it, any other error ends the
     * race. NULL: `time` needs no schedule.
     */
    ccl_status_t (*make)(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err);
    bool in_turn; /**< make all of a round on the calling thread, with all of ctx; then simulate */
    /**
     * Time candidate `index`. CCL_UNSUPPORTED: it does not fit. NULL: ccl_i_time_schedule() at
     * `level` and `size_bytes`.
     */
    ccl_status_t (*time)(void *user, uint32_t index, const ccl_i_racer_t *with,
                         const ccl_schedule_t *schedule, ccl_i_raced_t *out, ccl_error_t *err);
    void *user;
    ccl_granularity_t level;
    double size_bytes;
    bool skip_lone; /**< the only one made, with none before, is kept without a simulation */
    /**
     * What is slower than the best before a round and than candidate `lead` of it (0: the first)
     * is not simulated to its end. Only with `in_turn`, without `time`.
     */
    bool give_up;
    uint32_t lead; /**< whose simulation comes first; 0 again after the round */
    double most_s; /**< nor is what is slower than this, in any race without `time`; 0: no limit */
    bool times_only; /**< schedules are freed once they are timed */
    double margin;   /**< part by which a later candidate must be faster; 0: any; ties: the first */

    /**
     * Work that candidate `index` will take; only with `in_turn`. It is not made where more than
     * `left`, but the first one always is. NULL: no candidate is left out.
     */
    double (*expect)(void *user, uint32_t index);
    ccl_i_race_unit_t unit;
    double left; /**< work, after all rounds so far; the family may change it between rounds */

    double make_until_s; /**< by ccl_now_s(), 0: never: none but the first is begun after that */
    double time_until_s; /**< the same: none is simulated after that; only with `in_turn` */

    /* ---- results */
    ccl_i_raced_t *results; /**< [n] of the last round */
    ccl_i_race_best_t best;
    double expected, counted; /**< work of the last round: as expected, and as counted; of what was
                                 given up, about what it would have been to its end */
    bool late;                /**< some candidate of any round was left out for lack of time */
    ccl_error_t why;          /**< of the first candidate that was dropped */

    /* ---- private */
    ccl_i_racer_t *racers; /* [nracers] */
    uint32_t nracers, n, done, alone;
    double limit_s;
    size_t cap;
    bool begun, simulate;
} ccl_i_race_t;

/** A round of `n` candidates against each other and the best so far. Error: the race has ended. */
ccl_status_t ccl_i_race_run(ccl_i_race_t *race, uint32_t n, ccl_error_t *err);
/** The best so far, which the race forgets: the next round starts as the first one did. */
ccl_i_race_best_t ccl_i_race_set_aside(ccl_i_race_t *race);
/** The fastest schedule. CCL_UNSUPPORTED: no candidate could be made; with the first one's reason.
 */
ccl_status_t ccl_i_race_take(ccl_i_race_t *race, ccl_schedule_t **out, ccl_error_t *err);
/** The calling thread's means, for what a family does between rounds. */
ccl_status_t ccl_i_race_racer(ccl_i_race_t *race, const ccl_i_racer_t **out, ccl_error_t *err);
void ccl_i_race_fini(ccl_i_race_t *race);

#endif
