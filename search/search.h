/**
 * @file search.h
 * Which schedule wins: every chosen synthesizer at every size.
 */
#ifndef CCL_SEARCH_SEARCH_H
#define CCL_SEARCH_SEARCH_H

#include "synth/synth.h"
#include "validate/validate.h"

CCL_BEGIN_DECLS

/**
 * The lab notebook, what was tried, in one SQLite file: every evaluated point, with its inputs by
 * content. Several processes may write at once; what ccl_notebook_add() returned from is there
 * after a kill.
 */
typedef struct ccl_notebook ccl_notebook_t;

/** One contender: a synthesizer, or a schedule or a program of the user's. */
typedef struct ccl_contender {
    const char *name;               /**< column title */
    const ccl_program_t *program;   /**< NULL: `schedule`, or synthesize `name` */
    const ccl_schedule_t *schedule; /**< lowered here; used when there is no program */
    const ccl_way_t *way;           /**< how a schedule is lowered; NULL: the synthesizer's way */
} ccl_contender_t;

typedef struct ccl_compare_options {
    size_t size;
    const ccl_contender_t *contenders;
    uint32_t ncontenders;
    const double *sizes_bytes;
    uint32_t nsizes;
    ccl_synth_options_t synth;
    ccl_lower_options_t lower; /**< topology, routes, size, batches and level are set per run */
    ccl_sim_options_t sim;     /**< size_bytes is set per run; granularity: of programs, and of
                                    schedules without a way of their own */
    bool no_verify;            /**< take contenders' own programs without proof */
    unsigned way_bits;        /**< CCL_WAY_*: what lower and sim say of the way holds for contenders
                                   with a way of their own too */
    ccl_notebook_t *notebook; /**< synthesizers' times are looked up there and written down, as
                                   ccl_tune() does with the same settings; NULL: none. Not with what
                                   ccl_compare_untold() names */
    const ccl_topology_t *known_as; /**< the cluster under which they are: with a profile, as it is
                                         for protocol Simple; NULL: the one compared on */
    const char *profile;            /**< name of the profile that was laid over it; NULL: none */
} ccl_compare_options_t;
/** The defaults. */
#define CCL_COMPARE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .size = sizeof(ccl_compare_options_t), .synth = CCL_SYNTH_OPTIONS_INIT,                    \
        .lower = CCL_LOWER_OPTIONS_INIT, .sim = CCL_SIM_OPTIONS_INIT                               \
    }

typedef struct ccl_compare_cell {
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    const char *why;     /**< then one line, where it takes part; else NULL */
    double time_s, algbw_GBps, busbw_GBps;
    double low_s, high_s; /**< spread over sizes (1 -+ 1e-6) where ties depend on it, of a winner
                               and those near to it; else time_s */
    uint32_t batches;
    ccl_sim_usage_t usage;
} ccl_compare_cell_t;

typedef struct ccl_comparison {
    uint32_t ncontenders, nsizes;
    const char **names;      /**< [ncontenders] */
    const char **why_not;    /**< [ncontenders] NULL, or why it does not take part */
    uint32_t *thread_blocks; /**< [ncontenders] most per GPU, at any size */
    ccl_way_t *ways;         /**< [ncontenders]; of a program only its level is known */
    bool *lowered;           /**< [ncontenders] false: a program of the user's */
    double *sizes_bytes;     /**< [nsizes] */
    double *bound_s; /**< [nsizes] lower bound (ccl_bound) of any protocol: no time is less */
    ccl_compare_cell_t *cells; /**< [nsizes][ncontenders] */
    uint32_t *winner;          /**< [nsizes] contender, CCL_NONE: none ran */
    bool *tie;                 /**< [nsizes] another is within the winner's spread */
    ccl_sim_result_t **best;   /**< [nsizes] full result of the winner; NULL: none, or no memory */
    uint32_t nwarnings;
    const char **warnings; /**< [nwarnings] of the simulator on this cluster, each kind once; the
                                last one of what is missing for lack of memory, if anything is */
    uint32_t resumed;      /**< cells that the notebook had */
    ccl_arena_t arena;
} ccl_comparison_t;

/**
 * Synthesize, lower, verify and simulate every contender at every size, in parallel.
 * Where others are within a quarter of the winner it is run again at (1 -+ 1e-6) times the size,
 * and so are those that are slower than it ever was; a winner inside the spread of another is a
 * tie. Contenders that there is no memory for do not take part, the others go on.
 * @retval CCL_ERR_NOMEM  there is none for anybody.
 * @par Determinism  the same for any number of threads, as long as there is memory.
 */
ccl_status_t ccl_compare(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_collective_t *want, const ccl_compare_options_t *options,
                         ccl_comparison_t **out, ccl_error_t *err);
/** An option that the settings of a point lack, so that the notebook is no use; NULL: none.
 */
const char *ccl_compare_untold(const ccl_compare_options_t *options);
/** Do two warnings say the same of different links or transports (which stand before the colon)? */
bool ccl_warnings_alike(const char *a, const char *b);
/** Frees it and all it owns; NULL is fine. */
void ccl_comparison_destroy(ccl_comparison_t *comparison);

/* ---------------------------------------------------------------- one schedule, many ways */

/** One schedule lowered one way, and one run of the program. */
typedef struct ccl_lowered {
    ccl_way_t way;
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    char why[768];       /**< then one line */
    ccl_lower_stats_t stats;
    double time_s, algbw_GBps, busbw_GBps;
    uint32_t batches;
    ccl_sim_usage_t usage;
    uint32_t ntbs, nsteps;    /**< of the program */
    ccl_program_t *program;   /**< when kept */
    ccl_sim_result_t *result; /**< when kept */
} ccl_lowered_t;

typedef struct ccl_lower_ways_options {
    size_t size;
    const ccl_way_t *ways;
    uint32_t nways;
    ccl_lower_options_t lower; /**< all but the way, the topology and the run */
    ccl_sim_options_t sim;     /**< the run: size_bytes > 0; granularity is the way's */
    bool keep;                 /**< programs and results stay, for tables of thread blocks */
} ccl_lower_ways_options_t;
/** The defaults. */
#define CCL_LOWER_WAYS_OPTIONS_INIT                                                                \
    {                                                                                              \
        .size = sizeof(ccl_lower_ways_options_t), .lower = CCL_LOWER_OPTIONS_INIT,                 \
        .sim = CCL_SIM_OPTIONS_INIT                                                                \
    }

/**
 * Lower a schedule every way given, prove each program at its level (with options->lower.executor's
 * limits), and simulate it, in parallel. A way that fails says so in its row; the schedule itself
 * must be right.
 *
 * @param out  array [nways], freed with ccl_lowered_destroy().
 * @retval CCL_CHECK  the schedule is wrong (err names its first fault).
 * @par Determinism  all but stats is the same for any number of threads; the wall times of stats
 * are undisturbed with one.
 */
ccl_status_t ccl_lower_ways(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                            const ccl_schedule_t *schedule, const ccl_lower_ways_options_t *options,
                            ccl_lowered_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_lowered_destroy(ccl_lowered_t *lowered, uint32_t n);

/* ---------------------------------------------------------------- the lab notebook */

/**
 * What writes points: version of ccllab and 12 digits of a hash of the sources that results depend
 * on
 * ("0.1.0+1a2b3c4d5e6f"); static. Builds of the same sources have the same; points of another are
 * kept, listed, and never taken for this one's.
 */
const char *ccl_notebook_tool(void);

/** Content hash as 32 hexadecimal digits (two times FNV-1a; not cryptographic). */
typedef char ccl_content_t[33];

/** What was asked: two points with the same are one point. */
typedef struct ccl_point {
    ccl_content_t topology; /**< of the cluster as resolved: edits and profile included */
    ccl_content_t demand;   /**< of the collective */
    const char *settings;   /**< canonical JSON: sorted keys, no blanks */
    uint64_t seed;
    double size_bytes;
    bool estimate; /**< time of one micro-batch, carried on; not a run of all of them */
} ccl_point_t;

/** What came out. */
typedef struct ccl_point_result {
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    char why[256];       /**< then one line */
    double time_s, algbw_GBps, busbw_GBps;
    double bound_s;         /**< ccl_bound(): no time is less */
    double synth_s, eval_s; /**< wall time: its schedule; lowering, proof and simulation */
    uint32_t thread_blocks; /**< most per GPU */
    uint32_t batches;
    /** As ccl_sim_usage_t; NAN: not known (estimates, points that older versions wrote). */
    double comm_share, mean_idle_share, max_idle_share, link_utilization;
} ccl_point_result_t;

/** Rows of a query as text. */
typedef struct ccl_notebook_rows {
    uint32_t ncolumns, nrows;
    const char **columns; /**< [ncolumns] */
    const char **cells;   /**< [nrows][ncolumns]; NULL: no value */
    bool *number;         /**< [nrows][ncolumns] */
    ccl_arena_t arena;
} ccl_notebook_rows_t;

/**
 * The notebook of a user who names none: $XDG_DATA_HOME/ccllab/notebook.db, or
 * ~/.local/share/ccllab/notebook.db.
 * @retval CCL_ERR_USAGE  neither XDG_DATA_HOME nor HOME is an absolute path.
 */
ccl_status_t ccl_notebook_default_path(char *out, size_t out_len, ccl_error_t *err);
/**
 * Open a notebook; to write, file and folders are made when absent.
 * @retval CCL_ERR_INPUT  the file is something else, or of a later version.
 * @retval CCL_ERR_IO     absent (to read), or not to be written.
 */
ccl_status_t ccl_notebook_open(const char *path, bool write, ccl_notebook_t **out,
                               ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_notebook_close(ccl_notebook_t *notebook);
/**
 * Keep an input (a cluster, a demand, a profile) and return its hash.
 * @param notebook  NULL: only the hash.
 * @param kind      "topology", "demand", "profile".
 */
ccl_status_t ccl_notebook_input(ccl_notebook_t *notebook, const char *kind, const char *name,
                                const char *text, size_t len, ccl_content_t out, ccl_error_t *err);
/**
 * Write a point down; one that is there already, of this ccl_notebook_tool(), stays. Any thread.
 * @param profile  name of the profile that was laid over the cluster; NULL: none.
 */
ccl_status_t ccl_notebook_add(ccl_notebook_t *notebook, const ccl_point_t *point,
                              const ccl_point_result_t *result, const char *profile,
                              ccl_error_t *err);
/** The same point, of this ccl_notebook_tool(). @param found_out  there is one. Any thread. */
ccl_status_t ccl_notebook_find(ccl_notebook_t *notebook, const ccl_point_t *point,
                               ccl_point_result_t *out, bool *found_out, ccl_error_t *err);
/**
 * Rows of a query; table and column names: docs/formats.md.
 * @param sql   one statement that only reads.
 * @param args  [nargs] texts for its parameters ?1 ...; NULL: none.
 * @retval CCL_ERR_INPUT  SQLite's reason, or the statement writes.
 */
ccl_status_t ccl_notebook_query(const ccl_ctx_t *ctx, ccl_notebook_t *notebook, const char *sql,
                                const char *const *args, uint32_t nargs, ccl_notebook_rows_t **out,
                                ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_notebook_rows_destroy(ccl_notebook_rows_t *rows);
/**
 * Drop points of other ccl_notebook_tool()s (all: every point), then inputs that no point has, and
 * give the space back.
 */
ccl_status_t ccl_notebook_gc(ccl_notebook_t *notebook, bool all, uint64_t *points_out,
                             uint64_t *inputs_out, ccl_error_t *err);

/* ---------------------------------------------------------------- tuning */

/** Most options of synthesizers, without the common ones, that the tuner can have. */
enum { CCL_KNOBS_OWN = 32 };
/**
 * What can be tuned; docs/tuning.md says what each is. Those of synthesizers come from their tables
 * of options (ccl_synth_option_table), in that order; so do those of lowering and of a run.
 */
typedef enum ccl_knob {
    CCL_KNOB_WITH,
    CCL_KNOB_CHANNELS,
    CCL_KNOB_CHUNKS,
    CCL_KNOB_OWN, /**< the first of what only some synthesizers have */
    /** This one and those behind it: lowering and the run; before: synthesis. */
    CCL_KNOB_ORDER = CCL_KNOB_OWN + CCL_KNOBS_OWN,
    CCL_KNOB_ALLOCATE,
    CCL_KNOB_GRANULARITY,
    CCL_KNOB_FUSE,
    CCL_KNOB_SLOTS,
    CCL_KNOB_BATCHES,
    CCL_KNOB_PROTO,
    CCL_KNOB_BLOCKS, /**< this one to tb_rate: constants of the cluster, also for synthesis */
    CCL_KNOB_SLICE,
    CCL_KNOB_SLICES,
    CCL_KNOB_PIECE,
    CCL_KNOB_FIFO,
    CCL_KNOB_LATENCY, /**< this one to tb_rate: factors that nobody can choose */
    CCL_KNOB_OVERHEAD,
    CCL_KNOB_TB_RATE,
    CCL_KNOB_IMPROVE, /**< tries of ccl_improve() */
    CCL_KNOBS
} ccl_knob_t;
/** Its option, as its owner declares it; NULL: no such knob, or it is `with`. */
const ccl_option_t *ccl_knob_option(ccl_knob_t knob);
/** "greedy, cegis": which synthesizers look at it, of those that only some do. Returns out. */
const char *ccl_knob_owners(ccl_knob_t knob, char *out, size_t out_len);
/** @retval CCL_ERR_INPUT  there is none of that name; the nearest is named. */
ccl_status_t ccl_knob_find(const char *name, size_t len, ccl_knob_t *out, ccl_error_t *err);
const char *ccl_knob_name(ccl_knob_t knob); /**< "tau_ref"; static; NULL: there is none */
/** "auto", "4", "2us", "hpds", "ring". */
void ccl_knob_text(ccl_knob_t knob, double value, char *out, size_t out_len);

/** `knob` applies only where knob `on` has one of these values. */
typedef struct ccl_space_condition {
    ccl_knob_t knob, on;
    uint32_t nvalues;
    double *values;
} ccl_space_condition_t;

/** Values of each knob: numbers, or indices of choices and synthesizers; NAN: auto. */
typedef struct ccl_space {
    uint32_t nvalues[CCL_KNOBS]; /**< 0: auto; of `with`: all that support what is tuned */
    double *values[CCL_KNOBS];
    size_t caps[CCL_KNOBS];
    uint32_t nconditions;
    size_t conditions_cap;
    ccl_space_condition_t *conditions;
} ccl_space_t;
/** Where the user says nothing: channels, chunks, order, allocation, granularity. */
ccl_status_t ccl_space_create(ccl_space_t **out, ccl_error_t *err);
/** A file in format ccllab/space/1 (docs/formats.md). @retval CCL_ERR_INPUT with its place. */
ccl_status_t ccl_space_read(const char *path, ccl_space_t **out, ccl_error_t *err);
/**
 * "channels=auto,1:16", "tau_ref=1us:64us:4": takes the place of the knob's values.
 * "chunks=1:8 when with=greedy,cegis": also of its conditions; without "when" these stay.
 */
ccl_status_t ccl_space_set(ccl_space_t *space, const char *text, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_space_destroy(ccl_space_t *space);
/** Knobs that do not apply become auto. @param values  `with` is set. */
void ccl_space_point(const ccl_space_t *space, double values[CCL_KNOBS]);
/** Canonical JSON of all that is not auto; malloc'ed, NULL when out of memory. */
char *ccl_space_settings(const double values[CCL_KNOBS]);

typedef enum ccl_strategy {
    CCL_STRATEGY_HALVING, /**< estimates of many at few sizes, runs of few at all, neighbours */
    CCL_STRATEGY_GRID,    /**< all points of the space */
    CCL_STRATEGY_RANDOM   /**< points drawn at random */
} ccl_strategy_t;

/** Measured constants that were laid over a cluster: protocols may have launch times of their own.
 */
typedef struct ccl_tune_constants {
    const ccl_topology_t *plain; /**< the cluster before */
    const ccl_profile_t *profile;
} ccl_tune_constants_t;

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
    uint32_t improve; /**< in the end ccl_improve() each size's best with this number of tries; 0:
                         none */
    ccl_team_t
        *team;     /**< NULL: this process does all; else the others of it do (ccl_tune_work()) */
    uint32_t turn; /**< with team: how many tunings it has done before this one */
    const ccl_tune_constants_t *constants; /**< the topology has them for protocol Simple; NULL: it
                                                has only its own. Longer there than the result */
    bool keep; /**< schedules and programs stay in memory with the result, for ccl_tune_replay():
                    context, topology, collective and these options must be there as long */
} ccl_tune_options_t;
/** The defaults. */
#define CCL_TUNE_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ccl_tune_options_t), NULL, CCL_STRATEGY_HALVING, NULL, 0, 0, 0, 0.01, NULL, NULL,   \
            0, NULL, 0, NULL, false                                                                \
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
    double *sizes_bytes; /**< [nsizes] */
    double *bound_s;     /**< [nsizes] of all clusters that the space's knobs make */
    uint32_t *best;      /**< [nsizes] run in full; CCL_NONE: none has a time */
    uint32_t *untuned;   /**< [nsizes] the best of the untuned points */
    bool *done;          /**< [nsizes] within the gap of the bound */
    double gap;          /**< of the options: 0.01 is 1 % */
    uint32_t nruns;
    ccl_tune_run_t *runs; /**< in the order of the search */
    size_t runs_cap;
    double space_points;                   /**< points of the space as a grid, doubles counted */
    uint32_t schedules;                    /**< that were synthesized */
    double synth_s, eval_s;                /**< work here, summed over threads */
    double lower_s, simulate_s;            /**< parts of eval_s: lowering with proof; simulation */
    double notebook_s;                     /**< looking points up and writing them down */
    const ccl_tune_constants_t *constants; /**< of the options; borrowed */
    bool interrupted;
    bool team_idle;           /**< of a team: all others are there and wait for work */
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
/** How process 0 parts from the others of a team. */
typedef enum ccl_team_parting {
    CCL_TEAM_APART,    /**< some have ended, or are still at work */
    CCL_TEAM_TOGETHER, /**< all processes end in order: MPI can be ended together */
    CCL_TEAM_NEXT      /**< for the next tuning: they call ccl_tune_work() again, with its turn */
} ccl_team_parting_t;
/**
 * What every other process of options->team does while process 0 is in ccl_tune() with the same
 * topology, collective, options and seed: schedules and runs that it is asked for, until process 0
 * ends the team (ccl_tune_team_end()). The notebook is not used.
 *
 * Process 0 sends settings and sizes, gets statuses and results as plain records, and writes these
 * down as they come. What a process that ends had not answered is given to another one; what it is
 * late with (2 s and four times the longest answer so far) also to one that has nothing to do. With
 * none left process 0 goes on alone.
 * @param parting_out  as process 0 ended it.
 * @retval CCL_ERR_IO     process 0 is gone.
 * @retval CCL_ERR_INPUT  process 0 tunes something else.
 */
ccl_status_t ccl_tune_work(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                           const ccl_collective_t *want, const ccl_tune_options_t *options,
                           ccl_team_parting_t *parting_out, ccl_error_t *err);
/**
 * Process 0: ends what the others do in ccl_tune_work(). @param parting  TOGETHER only where none
 * of them is at work and none has ended, in any tuning of the team (ccl_tuning_t.team_idle).
 */
void ccl_tune_team_end(ccl_team_t *team, ccl_team_parting_t parting);

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
 * The cluster as a point has it: with its limit of thread blocks, its transports' constants, and
 * its protocol's launch times.
 *
 * @param constants  NULL: nothing was laid over it.
 * @param out        destroy with ccl_topology_destroy(); NULL: `topo` itself.
 * @retval CCL_ERR_INPUT  a value that this cluster cannot have.
 */
ccl_status_t ccl_tune_cluster(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const ccl_tune_constants_t *constants, const double values[CCL_KNOBS],
                              ccl_topology_t **out, ccl_error_t *err);
/** Nothing of the point is a constant that nobody can choose (knobs latency, overhead, tb_rate). */
bool ccl_tune_can_be_had(const double values[CCL_KNOBS]);

/**
 * The schedule and program of a point at a size, made again as ccl_tune() made them.
 *
 * @param topo      the cluster as the point has it: ccl_tune_cluster().
 * @param values    of a point (ccl_tune_point_t.values).
 * @param executor  lowered within its limits; not CCL_EXECUTOR_ANY: at algorithm level, a block per
 *                  connection where the point shares them, so it may be slower than what was tuned.
 * @param out       proven; destroy with ccl_program_destroy().
 * @param way_out   NULL, or how it was lowered.
 * @retval CCL_UNSUPPORTED  it does not fit the executor.
 */
ccl_status_t ccl_tune_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const ccl_collective_t *want, const double values[CCL_KNOBS],
                              double size_bytes, ccl_executor_t executor, ccl_program_t **out,
                              ccl_way_t *way_out, ccl_error_t *err);

/* ---------------------------------------------------------------- replay */

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

/* ---------------------------------------------------------------- export */

/** A program and the sizes that it is for (its min_bytes and max_bytes). */
typedef struct ccl_export {
    ccl_program_t *program;
    uint32_t run;  /**< of the tuning: what it was made from */
    double time_s; /**< at that run's size, as lowered for the executor */
} ccl_export_t;
/**
 * The best program of each size that an executor can run, each proven within its limits, for the
 * sizes nearest to it (in the logarithm), from the smallest to the greatest that was tuned; equal
 * neighbours are one. Sizes for which none fits are left out.
 * @param out  freed with ccl_exports_destroy().
 * @retval CCL_ERR_INPUT  the tuning's sizes do not ascend.
 */
ccl_status_t ccl_export_programs(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_collective_t *want, const ccl_tuning_t *tuning,
                                 ccl_executor_t executor, ccl_export_t **out, uint32_t *n_out,
                                 ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_exports_destroy(ccl_export_t *exports, uint32_t n);
/**
 * The ring orders of one server as a file for NCCL_GRAPH_FILE: a channel per ring that `ring` finds
 * on the cluster, from the NIC where it comes in to the one where it goes out.
 * @param server    index; CCL_NONE: GPUs that have none.
 * @param channels  0: as many as `ring` thinks best.
 * @retval CCL_UNSUPPORTED  no ring passes the server in one go.
 */
ccl_status_t ccl_export_nccl_graph(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   uint32_t server, uint32_t channels, ccl_text_t *out,
                                   ccl_error_t *err);
/**
 * A table for the example tuner plugin of NCCL and RCCL (NCCL_TUNER_CONFIG_FILE): of ring and tree
 * with each protocol, NCCL's own programs, the one that the model says is fastest, by size.
 * @param profile      NULL: the topology's constants.
 * @param sizes_bytes  [nsizes] ascending; ranges as in ccl_export_programs().
 * @retval CCL_UNSUPPORTED  a collective that NCCL does not ask its tuner for.
 */
ccl_status_t ccl_export_nccl_tuner(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   const ccl_profile_t *profile, ccl_collective_kind_t kind,
                                   const double *sizes_bytes, uint32_t nsizes, ccl_text_t *out,
                                   ccl_error_t *err);

/* ---------------------------------------------------------------- local search */

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

/* ---------------------------------------------------------------- why a run takes its time */

/** Who can make a change. */
typedef enum ccl_remedy {
    CCL_REMEDY_PROGRAM, /**< options of synthesis, lowering and running */
    CCL_REMEDY_SETTING, /**< a setting of the library or runtime: FIFO slots */
    CCL_REMEDY_HARDWARE /**< another cluster */
} ccl_remedy_t;
#define CCL_REMEDIES 3
const char *ccl_remedy_name(ccl_remedy_t remedy); /**< "program", "setting", "hardware"; static */

/** One change and what it does: the same run again with it. */
typedef struct ccl_counterfactual {
    const char *what; /**< "net links of server s2 twice as fast" */
    ccl_remedy_t remedy;
    const char *family;   /**< "micro-batches": of such only one can be chosen; NULL: none */
    const char *edits[4]; /**< ccl_topology_edit() of the cluster, in order */
    uint32_t nedits;
    const char *options; /**< of the command line, such as "--batches 8"; NULL: none */
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    char why[200];       /**< then one line */
    double time_s;
} ccl_counterfactual_t;

typedef struct ccl_explain_options {
    size_t size;
    const ccl_program_t *program;
    const ccl_schedule_t *schedule; /**< what the program was lowered from; NULL: a program's own */
    const char *with;               /**< what synthesized it; NULL: nobody, or not here */
    const ccl_collective_t *want;   /**< of `with` */
    ccl_synth_options_t synth;      /**< of `with` */
    ccl_lower_options_t lower;      /**< of `schedule`, all but the way, topology and run */
    ccl_way_t way;                  /**< of `schedule` */
    ccl_sim_options_t sim;          /**< the run: size_bytes > 0; trace must be NULL */
    uint32_t intervals;             /**< parts of the run that links are looked at in; 0: 20 */
    bool no_what_if;                /**< no counterfactual runs */
} ccl_explain_options_t;
/** The defaults. */
#define CCL_EXPLAIN_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .size = sizeof(ccl_explain_options_t), .synth = CCL_SYNTH_OPTIONS_INIT,                    \
        .lower = CCL_LOWER_OPTIONS_INIT, .sim = CCL_SIM_OPTIONS_INIT                               \
    }

/** What the links of the bound's proof did. */
typedef struct ccl_cut_use {
    uint32_t nlinks;
    double capacity_Bps;  /**< of them all, groups respected */
    double carried_bytes; /**< over all of them */
    double least_bytes;   /**< what any schedule carries over them; 0: not known (flow programs) */
    double busy;          /**< carried / (capacity time), 0..1 */
    double path_s; /**< of the critical path, while what is on it passes bytes over one of them, or
                        of a cut just as tight by symmetry (AllReduce: also by reversal), whatever
                        holds it up: the links, other flows, its thread block */
    double *interval_busy;         /**< [intervals] the same in each part of the run */
    ccl_path_cause_t *interval_on; /**< [intervals] what the critical path mostly did meanwhile */
    /* Of the thread blocks that send over these links, shares of the run, which add up to 1. */
    uint32_t blocks;
    double before, working, waits_data, waits_peer, waits_slot, after;
} ccl_cut_use_t;

typedef struct ccl_explanation {
    ccl_sim_result_t *result; /**< with path and link_bytes */
    ccl_path_sum_t sum;
    ccl_bound_t bound;
    ccl_cut_use_t cut; /**< nlinks 0: the bound has no such links */
    uint32_t intervals;
    ccl_counterfactual_t *tried; /**< [ntried] the shortest time first, those without one last */
    uint32_t ntried;
    uint32_t untried; /**< changes left out because a program of more than 200,000 primitives would
                           be lowered again for each */
    ccl_arena_t arena;
} ccl_explanation_t;
/**
 * Explain a run: its critical path, its distance from the bound, and what would help.
 *
 * Changes are looked for where the critical path spends its time, and each is run: hardware and
 * settings with the same program on the edited cluster, options with what they make of schedule and
 * program. So every figure is that of a separate run.
 *
 * @param out  destroy with ccl_explanation_destroy().
 * @retval CCL_DEADLOCK     the program cannot finish.
 * @retval CCL_UNSUPPORTED  the run is too long to keep its path (ccl_sim_program).
 * @par Determinism  the same for any number of threads.
 */
ccl_status_t ccl_explain(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_explain_options_t *options, ccl_explanation_t **out,
                         ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_explanation_destroy(ccl_explanation_t *explanation);

CCL_END_DECLS
#endif
