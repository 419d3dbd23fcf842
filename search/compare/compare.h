/**
 * @file compare.h
 * Which schedule wins: every chosen synthesizer at every size.
 */
#ifndef CCL_SEARCH_COMPARE_H
#define CCL_SEARCH_COMPARE_H

#include "search/notebook/notebook.h"
#include "search/scenario/scenario.h"
#include "synth/synth.h"

CCL_BEGIN_DECLS

/** One contender: a synthesizer, or a schedule or a program of the user's. */
typedef struct ccl_contender {
    const char *name;               /**< column title */
    const ccl_program_t *program;   /**< NULL: `schedule`, or synthesize `name` */
    const ccl_schedule_t *schedule; /**< lowered here; used when there is no program */
    const ccl_way_t *way;           /**< how a schedule is lowered; NULL: the synthesizer's way */
    bool library; /**< what stock NCCL or RCCL runs at each size (validate/nccl/nccl.h); the first
                       of them is what the others' gain is over */
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
    bool protocols; /**< each synthesizer and schedule takes the fastest at each size of lower's
                         protocol and those that the cluster has constants for */
    const char *profile;           /**< name of the profile that was laid over it; NULL: none */
    const ccl_topology_t *machine; /**< the cluster without a profile, by which NCCL chooses; NULL:
                                        the one compared on */
    bool registered;               /**< for NCCL, as in ccl_predictor_nvls() */
    const ccl_draws_t *draws;      /**< every time is also taken in `samples` of them; NULL: none */
    uint32_t samples;
    ccl_rank_t rank; /**< by what over samples the winner is chosen; CCL_RANK_NONE: its time on the
                          cluster as drawn */
    bool keep;       /**< the result has winner_runs and nccl_runs; not with a notebook */
    double gap;  /**< more than 0: where a time is at most (1 + gap) x the bound the race of that
                      size ends: synthesizers that make a schedule for each size
                      (ccl_synth_ops_t.by_size) run one after the other, in the order given, and
                      those that come later do not run there; 0: all run everywhere */
    double hope; /**< more than 0: where a schedule made for a size takes more than this times the
                      fastest before it, in the plain way of lowering with any protocol, it does
                      not run. Synthesizers that make none for a size come first, then the first of
                      the others in the order given, then the rest. Nobody looks for ties then; not
                      with a notebook; 0: all run */
} ccl_compare_options_t;
/** The defaults. */
#define CCL_COMPARE_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .size = sizeof(ccl_compare_options_t), .synth = CCL_SYNTH_OPTIONS_INIT,                    \
        .lower = CCL_LOWER_OPTIONS_INIT, .sim = CCL_SIM_OPTIONS_INIT                               \
    }

/** How near to the bound a winner counts as proven where the options have no gap: 2 %. */
#define CCL_COMPARE_GAP 0.02

typedef struct ccl_compare_cell {
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    const char *proto;   /**< "LL": of the program that ran; static; NULL: none ran */
    const char *why;     /**< then one line, where it takes part; else NULL */
    ccl_origin_t origin; /**< of the program that ran; "": none did */
    double time_s, algbw_GBps, busbw_GBps;
    double low_s, high_s; /**< spread over sizes (1 -+ 1e-6) where ties depend on it, of a winner
                               and those near to it; else time_s */
    uint32_t batches;
    const char *choice;              /**< of a library: "ring LL128 x24", 24 channels; else NULL */
    double step_bytes, buffer_bytes; /**< of a library: that a block sends at a time inside servers;
                                          of a connection there */
    ccl_sim_usage_t usage;
    bool algorithm_only; /**< its program is (ccl_program_t), whatever `ways` says; false where the
                              notebook had it */
    bool ended;          /**< not run, as the race of its size was over: status CCL_UNSUPPORTED */
    bool hopeless;       /**< not run, as it is much slower: status CCL_UNSUPPORTED */
    bool for_protocol;   /**< lowered for `proto`; else for the options', whose program runs under
                              that */
} ccl_compare_cell_t;

/** One contender at one size, over samples of a scenario. */
typedef struct ccl_compare_spread {
    ccl_spread_t spread;
    double rank;         /**< what it is ranked by, seconds; its time without a rank */
    double regret_s;     /**< most that it is slower than the fastest of any sample */
    ccl_paired_t behind; /**< the winner, in the same samples */
    double fastest;      /**< share of samples in which nobody is faster */
} ccl_compare_spread_t;

/** What ran at one size, to be run again elsewhere. */
typedef struct ccl_compare_run {
    const ccl_topology_t *topo;   /**< the cluster as the program's kernels use it: the one compared
                                       on, or the same with other constants; NULL: nobody ran */
    const ccl_program_t *program; /**< proven */
    ccl_sim_options_t sim;        /**< of that run */
} ccl_compare_run_t;
typedef struct ccl_i_kept ccl_i_kept_t;

typedef struct ccl_comparison {
    uint32_t ncontenders, nsizes;
    const char **names;      /**< [ncontenders] */
    const char **why_not;    /**< [ncontenders] NULL, or why it does not take part */
    uint32_t *thread_blocks; /**< [ncontenders] most per GPU, at any size */
    ccl_way_t *ways;         /**< [ncontenders]; of a program only its level is known; see
                                  ccl_compare_cell_t.algorithm_only */
    bool *lowered;           /**< [ncontenders] false: a program of the user's */
    double *sizes_bytes;     /**< [nsizes] */
    double *bound_s; /**< [nsizes] lower bound (ccl_bound) of any protocol: no time is less */
    ccl_compare_cell_t *cells; /**< [nsizes][ncontenders] */
    uint32_t *winner;          /**< [nsizes] contender, CCL_NONE: none ran */
    bool *tie;                 /**< [nsizes] another is within the winner's spread */
    ccl_sim_result_t **best;   /**< [nsizes] full result of the winner; NULL: none, no memory, or
                                    interrupted */
    uint32_t nwarnings;
    const char **warnings; /**< [nwarnings] of the simulator on this cluster, each kind once; the
                                last one of what is missing for lack of memory, if anything is */
    uint32_t resumed;      /**< cells that the notebook had */
    bool interrupted;  /**< cells that were not finished have that status; ties may be missing */
    uint32_t released; /**< contenders whose program was given back before the end, on large
                            clusters */
    uint32_t together; /**< most contenders that were being made into programs at a time */
    uint32_t finished; /**< cells with a time, or with a reason why they have none */
    uint32_t nccl;     /**< contender that is the library; CCL_NONE: none of them */
    const char *nccl_note; /**< what of it is not modelled here, in a line; NULL: nothing; static */
    uint32_t nsamples;     /**< of each time; 0: none */
    double *samples_s;     /**< [nsizes][ncontenders][nsamples]; NaN: not run; NULL: none */
    ccl_compare_spread_t *spreads; /**< [nsizes][ncontenders] of cells with a time; NULL: none */
    ccl_rank_t rank;
    ccl_compare_run_t *winner_runs, *nccl_runs; /**< [nsizes] of winners, and of the library; valid
                                                     with the cluster and the collective compared;
                                                     NULL: not kept */
    ccl_i_kept_t *kept;                         /**< their owner */
    double gap; /**< within which winners are proven: of the options, or CCL_COMPARE_GAP */
    ccl_arena_t arena;
} ccl_comparison_t;

/**
 * Synthesize, lower, verify and simulate every contender at every size, in parallel.
 * Where others are within a quarter of the winner it is run again at (1 -+ 1e-6) times the size,
 * and so are those that are slower than it ever was; a winner inside the spread of another is a
 * tie. Contenders that there is no memory for do not take part, the others go on.
 * @retval CCL_INTERRUPTED  *out has what was finished; destroy it all the same.
 * @retval CCL_ERR_NOMEM    there is none for anybody.
 * @par Determinism  the same for any number of threads, as long as there is memory.
 */
ccl_status_t ccl_compare(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                         const ccl_collective_t *want, const ccl_compare_options_t *options,
                         ccl_comparison_t **out, ccl_error_t *err);
/** How much faster than the library a contender is: its time over this one's; NaN: either has no
    time, or there is no library. @param contender  CCL_NONE: NaN. */
double ccl_comparison_speedup(const ccl_comparison_t *comparison, uint32_t size,
                              uint32_t contender);
/** Is the winner of a size proven: no schedule is faster by more than the gap (time <= (1 + gap) x
    bound)? Without a winner or a bound: false. */
bool ccl_comparison_proven(const ccl_comparison_t *comparison, uint32_t size);
/** An option that the settings of a point lack, so that the notebook is no use; NULL: none.
 */
const char *ccl_compare_untold(const ccl_compare_options_t *options);
/** Do two warnings say the same of different links or transports (which stand before the colon)? */
bool ccl_warnings_alike(const char *a, const char *b);
/** Frees it and all it owns; NULL is fine. */
void ccl_comparison_destroy(ccl_comparison_t *comparison);

CCL_END_DECLS
#endif
