/*
 * Private to synth: the parts of cegis (HeteCCL, NSDI 2026, section 5). A problem is a demand on a
 * chunked exchange graph; a plan is who sends which chunk over which hop in which step.
 */
#ifndef CCL_SYNTH_CEGIS_H
#define CCL_SYNTH_CEGIS_H

#include "synth/cegis/chunking.h"

#define CCL_I_CEGIS_LEVELS 6u
#define CCL_I_CEGIS_SLICES 128u /* at most, of a chunk */

typedef struct ccl_i_cegis_chunk {
    uint32_t root;
    uint32_t ntargets; /* without the root */
    const uint32_t *targets;
} ccl_i_cegis_chunk_t;

/** Sets of ranks that partition all of them. Level 0: every rank by itself; the last: all in one.
 */
typedef struct ccl_i_cegis_level {
    uint32_t nzones;
    uint32_t *zone;           /* [nranks] */
    uint32_t *in_chunks;      /* [nzones] no more than this can enter in a step */
    uint32_t *out_chunks;     /* [nzones] leave */
    double *in_Bps, *out_Bps; /* [nzones] the same as rates */
    uint32_t *members;        /* [nzones] */
    uint32_t *cross_first;    /* [nzones + 1] into cross */
    uint32_t *cross;          /* hops that enter the zone */
} ccl_i_cegis_level_t;

typedef struct ccl_i_cegis_problem {
    const ccl_i_exchange_t *x;
    const ccl_i_chunking_t *capacity;
    uint32_t nchunks, nlevels, bound; /* bound: no plan has fewer steps */
    ccl_i_cegis_chunk_t *chunks;
    uint64_t *wants; /* [nchunks][rank_words] targets, root not among them */
    uint32_t rank_words;
    bool one_send;    /* a rank sends a chunk to at most one other in a step: time-reversed, it adds
                         one arrival at a time (appendix I, equation 8) */
    bool relays;      /* ranks that are no targets may have to pass chunks on */
    double load_s;    /* some zone's border is busy for this time */
    double least_s;   /* the same of whole chunks: no plan has a busiest resource below */
    uint32_t *budget; /* [nresources] chunks it carries in load_s; NULL: all steps together may
                         carry any number */
    uint16_t *distance; /* [nranks][nranks] hops */
    uint32_t farthest;  /* of these */
    uint8_t *common; /* [nhops] lowest level on which both ends are in one zone; the last if none */
    ccl_i_cegis_level_t levels[CCL_I_CEGIS_LEVELS];
    ccl_arena_t arena;
} ccl_i_cegis_problem_t;

typedef struct ccl_i_cegis_send {
    uint32_t chunk, hop, step;
} ccl_i_cegis_send_t;

typedef struct ccl_i_cegis_plan {
    ccl_i_cegis_send_t *sends; /* by step */
    size_t len, cap;
    uint32_t nsteps;
} ccl_i_cegis_plan_t;
void ccl_i_cegis_plan_fini(ccl_i_cegis_plan_t *plan);
bool ccl_i_cegis_plan_copy(ccl_i_cegis_plan_t *to, const ccl_i_cegis_plan_t *from);
/** By step, then as they are; nsteps from the last. */
bool ccl_i_cegis_plan_sort(ccl_i_cegis_plan_t *plan);

/* ---------------------------------------------------------------- cegis_problem.c */

/** @param chunks  borrowed. Sets zones, distances, bound and load; no budget. */
ccl_status_t ccl_i_cegis_problem_init(ccl_i_cegis_problem_t *p, const ccl_i_exchange_t *x,
                                      const ccl_i_chunking_t *capacity,
                                      const ccl_i_cegis_chunk_t *chunks, uint32_t nchunks,
                                      bool one_send, ccl_error_t *err);
void ccl_i_cegis_problem_fini(ccl_i_cegis_problem_t *p);
/** Nothing shall be busy for longer than `slack` times load_s: then steps of one slice overlap
 * those of the next without loss. */
ccl_status_t ccl_i_cegis_problem_balance(ccl_i_cegis_problem_t *p, double slack, ccl_error_t *err);
/**
 * Slices of every chunk: as many as balance the time until the last hop starts against the cost of
 * one more. Not rounded, at least 1.
 */
double ccl_i_cegis_slices(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan);
/** How long the busiest resource is busy. */
double ccl_i_cegis_load_s(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan);
static inline bool ccl_i_cegis_wants(const ccl_i_cegis_problem_t *p, uint32_t chunk,
                                     uint32_t rank) {
    return p->wants[(size_t)chunk * p->rank_words + rank / 64] >> (rank % 64) & 1;
}

/* ---------------------------------------------------------------- cegis_greedy.c */

/** What a plan must beat. */
typedef struct ccl_i_cegis_limit {
    uint32_t nsteps;
    double load_s;
} ccl_i_cegis_limit_t;

/**
 * Step by step, what brings a chunk to where it is rarest first, scarce hops first. Keeps every
 * constraint.
 * @param plain  fill links only, whatever they carry: the paper's start, for comparison.
 * @param most   a plan of more steps, or of as many whose busiest resource is busy for as long or
 *               longer, is given up and is empty. NULL: no limit.
 */
ccl_status_t ccl_i_cegis_greedy(const ccl_i_cegis_problem_t *p, bool plain, uint64_t seed,
                                const ccl_i_cegis_limit_t *most, ccl_i_cegis_plan_t *out,
                                ccl_error_t *err);

/* ---------------------------------------------------------------- cegis_check.c */

typedef enum ccl_i_cegis_kind {
    CCL_I_CEGIS_LINK,   /* eq. 4: index is a hop */
    CCL_I_CEGIS_GROUP,  /* eq. 5: index is a resource */
    CCL_I_CEGIS_TWICE,  /* eq. 6: index is chunk * nranks + rank */
    CCL_I_CEGIS_SENDER, /* eq. 8: index is chunk * nranks + rank */
    CCL_I_CEGIS_BUDGET, /* index is a resource that is busy for too long in all steps together */
    CCL_I_CEGIS_CAUSE,  /* eq. 2: the same; never in what the solver gives */
    CCL_I_CEGIS_GOAL    /* a target without its chunk: the same */
} ccl_i_cegis_kind_t;
typedef struct ccl_i_cegis_example {
    ccl_i_cegis_kind_t kind;
    uint32_t index, step, over; /* over: how many too many */
} ccl_i_cegis_example_t;
typedef struct ccl_i_cegis_examples {
    ccl_i_cegis_example_t *items;
    size_t len, cap;
} ccl_i_cegis_examples_t;

/** All violations of a plan, by step. */
ccl_status_t ccl_i_cegis_check(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan,
                               ccl_i_cegis_examples_t *out, ccl_error_t *err);
/** What would be sent from step `nsteps` on is sent at the latest before it, capacities or not. */
ccl_status_t ccl_i_cegis_squeeze(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan,
                                 uint32_t nsteps, ccl_i_cegis_plan_t *out, ccl_error_t *err);
/** Sends of later steps that fit into `step` move there (section 5.2, fill-up). @return moved. */
ccl_status_t ccl_i_cegis_fill(const ccl_i_cegis_problem_t *p, ccl_i_cegis_plan_t *plan,
                              uint32_t step, uint32_t *moved_out, ccl_error_t *err);

/* ---------------------------------------------------------------- cegis_balance.c */

/**
 * Other trees of the same chunks, whose busiest link or group is less busy, in steps that keep
 * capacities (equations 4 and 5; not 8).
 *
 * @param plan  each rank gets a chunk once.
 * @param out   empty if there is no improvement.
 */
ccl_status_t ccl_i_cegis_relieve(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan,
                                 ccl_i_cegis_plan_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- cegis_z3.c */

typedef enum ccl_i_cegis_answer {
    CCL_I_CEGIS_FOUND,
    CCL_I_CEGIS_NONE,   /* proven: no plan of this number of steps */
    CCL_I_CEGIS_UNKNOWN /* effort or time used up */
} ccl_i_cegis_answer_t;

/** One snapshot of the loop. */
typedef struct ccl_i_cegis_snapshot {
    uint32_t nsteps, checkpoint, locked; /* steps looked for; earliest violation; prefix kept */
    uint32_t examples, constraints;      /* counterexamples found; constraints in force */
    uint32_t variables, filled;
    int32_t sat; /* 1 sat, 0 unsat, -1 unknown, -2 the greedy start */
    double solver_s;
    ccl_i_cegis_example_t first; /* earliest counterexample, if any */
} ccl_i_cegis_snapshot_t;

typedef struct ccl_i_cegis_run {
    ccl_i_cegis_answer_t answer;
    ccl_i_cegis_plan_t plan; /* FOUND: valid */
    ccl_i_cegis_snapshot_t *snapshots;
    size_t len, cap;
    uint64_t spent; /* of the effort */
    bool limited;   /* the clock stopped it */
} ccl_i_cegis_run_t;
void ccl_i_cegis_run_fini(ccl_i_cegis_run_t *run);

/** What is searched for. */
typedef struct ccl_i_cegis_ask {
    const ccl_i_cegis_problem_t *p;
    const ccl_i_cegis_plan_t *start;
    uint32_t nsteps;
    uint64_t effort; /* the solver's own count of work (Z3's rlimit) that may be spent: the same on
                        every machine. 0: no limit */
    double time_left_s; /* 0: no limit */
} ccl_i_cegis_ask_t;
/**
 * Counterexample-guided search for a plan of `nsteps` steps from a plan of more (algorithm 1), in a
 * child process.
 */
ccl_status_t ccl_i_cegis_search(const ccl_ctx_t *ctx, const ccl_i_cegis_ask_t *ask,
                                ccl_i_cegis_run_t *run, ccl_error_t *err);

/* ---------------------------------------------------------------- cegis_solve.c */

typedef struct ccl_i_cegis_task {
    const ccl_ctx_t *ctx;
    const ccl_synth_options_t *options;
    ccl_synth_stats_t *stats; /* added to */
    const char *side;         /* "gather" or "reduce", for the trace */
    double deadline_s;        /* of ccl_now_s(); 0: none */
    bool balance;             /* also spread the load: slices will overlap */
    bool start_only;          /* no solver */
    bool solved;              /* set when Z3 found a plan */
    bool limited;             /* set when the deadline or CCL_I_CEGIS_UNKNOWN's clock stopped it */
    uint32_t dropped;         /* searches that Z3 failed at, for lack of memory */
} ccl_i_cegis_task_t;

/** The best plan found: fewest steps, then least load. */
ccl_status_t ccl_i_cegis_solve(ccl_i_cegis_task_t *task, ccl_i_cegis_problem_t *p,
                               ccl_i_cegis_plan_t *out, ccl_error_t *err);

#endif
