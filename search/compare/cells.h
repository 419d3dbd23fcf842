/* Private to search: the state of a comparison, and its cells: one contender at one size. */
#ifndef CCL_SEARCH_CELLS_H
#define CCL_SEARCH_CELLS_H

#include "search/compare/points.h"

#include <stdatomic.h>

enum { CCL_I_COMPARE_WARNINGS = 8 };

typedef struct ccl_i_nccl ccl_i_nccl_t;

/** One contender made ready. */
typedef struct ccl_i_ready {
    ccl_program_t *own;              /* made here */
    const ccl_program_t *program;    /* for all sizes; NULL: by size, or it does not take part */
    ccl_program_t as[CCL_PROTOCOLS]; /* it under each protocol; borrows from it */
    ccl_schedule_t *made;            /* by size: synthesized here */
    bool by_size, tried;             /* `made` is for size `first`, others are synthesized again */
    uint32_t first;                  /* the first size that is asked for */
    char *settings;                  /* malloc'ed, in the notebook; NULL: it is not */
    double synth_s;
    const ccl_schedule_t *schedule; /* by size: lowered for each; else NULL */
    ccl_program_t **kept;           /* [nsizes] by size: until the winner is known, if small */
    ccl_schedule_t **at;            /* [nsizes] by size, while a cell's protocols are tried */
    ccl_i_nccl_t *nccl;             /* of a library, for all sizes; else NULL */
    ccl_runs_t *runs; /* of its candidates, at all sizes; NULL: no memory, it takes longer */
    ccl_way_t way;
    ccl_status_t status;
    ccl_error_t err;
    char *warnings[CCL_I_COMPARE_WARNINGS]; /* malloc'ed: of the simulator, at the first size */
    uint32_t nwarnings;
    bool nomem;
    atomic_bool finished;          /* all its cells are, and nobody changes them any more */
    atomic_uint_least64_t dropped; /* candidates that its synthesizer had no memory for, any size */
} ccl_i_ready_t;

typedef struct ccl_i_compare {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_compare_options_t *options;
    ccl_comparison_t *out;
    ccl_i_ready_t *ready; /* [ncontenders] */
    char **cell_why;      /* [nsizes][ncontenders] malloc'ed, NULL: it ran */
    bool *known; /* [nsizes][ncontenders] not to be run: the notebook had it, or the race is over */
    bool
        *for_protocol; /* [nsizes][ncontenders] lowered for the cell's protocol, not the options' */
    double *hope_s;    /* [nsizes][ncontenders] who takes longer in the plain way does not run, now
                          or when it is made again; 0: it runs */
    uint32_t *best_of; /* [nsizes] contender of out->best; CCL_NONE: none ran here */
    ccl_lock_t *lock;  /* of out->best and best_of */
    uint32_t *again;   /* cells that are run at another size for ties */
    uint32_t nagain;
    uint32_t *group; /* [ncontenders] those that are made ready and run now, ngroup of them */
    uint32_t ngroup;
    ccl_content_t topology, demand; /* of the notebook */
    ccl_routes_t **routes;          /* [2 threads], made when first needed */
    atomic_uint unsure;             /* cells without a spread, sizes without links: no memory */
    atomic_uint_least64_t done;
    uint64_t total;
    uint32_t threads;
    atomic_uint *running; /* [2 threads] the cell that a worker is at, CCL_NONE: none */
    uint32_t making;      /* contenders, now; under the lock */
    bool bounded;         /* out->bound_s is there */
    bool alone;           /* large programs are made by the first worker, one after the other */
    uint32_t next_alone;  /* of these, into group */
    atomic_uint next;     /* of the others */
    atomic_bool *ended;   /* [threads] workers that will run none of these any more */
    atomic_bool interrupted;
} ccl_i_compare_t;

/**
 * A worker begins with a contender, at a size: report progress; callbacks come from the first
 * worker only.
 * @return false: interrupted; what is not finished stays so.
 */
bool ccl_i_compare_begin(ccl_i_compare_t *c, uint32_t size, uint32_t contender, uint32_t worker);
/** A worker's own routes, made when first asked for. */
ccl_status_t ccl_i_compare_routes(ccl_i_compare_t *c, uint32_t worker, ccl_routes_t **out,
                                  ccl_error_t *err);
/** What was freed in small pieces goes back to the system. */
void ccl_i_compare_give_back(void);
/** It has none until it asks again. */
void ccl_i_compare_end_routes(ccl_i_compare_t *c, uint32_t worker);
/** How contender i is lowered and run: its own way, but for what the caller fixed. */
ccl_way_t ccl_i_compare_way(const ccl_i_compare_t *c, uint32_t i);
/**
 * Those that are made ready and run together next, into c->group: first all that do not depend on
 * the size, then the others; where a gap may end races these go one after the other, and where some
 * may have no hope the first of them before the rest.
 * @param from  CCL_NONE at first.   @return false: all had their turn.
 */
bool ccl_i_compare_next(ccl_i_compare_t *c, uint32_t *from);
/** Is a contender synthesized for each size? */
bool ccl_i_compare_by_size(const ccl_i_compare_t *c, uint32_t contender);
/** Does each contender of the group go from beginning to end (large.c)? */
bool ccl_i_compare_is_large(ccl_i_compare_t *c);
/** May bounds come while large contenders are made? Nobody asks for them before the end. */
bool ccl_i_compare_bounds_later(const ccl_i_compare_t *c);
/** The sizes' bounds, if they are not there. */
ccl_status_t ccl_i_compare_bound(ccl_i_compare_t *c, const ccl_ctx_t *ctx, ccl_error_t *err);
/** They do. */
ccl_status_t ccl_i_compare_large(ccl_i_compare_t *c, ccl_error_t *err);
/** Sizes at which somebody is within the gap of the bound: who is in the group does not run there.
 */
ccl_status_t ccl_i_compare_end_races(ccl_i_compare_t *c, ccl_error_t *err);
/** How long the group may take, by who ran so far. */
void ccl_i_compare_hope(ccl_i_compare_t *c);
/** May a schedule win at a size? @retval CCL_UNSUPPORTED  no, and its cell says so. */
ccl_status_t ccl_i_compare_may_win(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                   const ccl_schedule_t *schedule, ccl_routes_t *routes,
                                   ccl_error_t *err);
/** Make a contender ready: synthesized, lowered, proven. A task of ccl_parallel_for(). */
ccl_status_t ccl_i_compare_prepare(uint32_t index, uint32_t worker, void *user, ccl_error_t *err);
/** Of a contender at the first size: one worker, so no lock. */
void ccl_i_compare_warning(ccl_log_level_t level, const char *subsystem, const char *text,
                           void *user);
/** How a contender runs at a size. */
typedef struct ccl_i_cell_run {
    const ccl_topology_t *topo; /* with the links of the comparison's: its routes fit */
    const ccl_program_t *program;
    ccl_program_t *own; /* the same, for the caller to destroy; NULL: it is kept */
    ccl_sim_options_t sim;
    ccl_sim_result_t *run; /* what lowering simulated of just this; NULL: nothing; to be destroyed
                              by who opened it unless ccl_i_compare_run() took it */
} ccl_i_cell_run_t;
ccl_status_t ccl_i_compare_open(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                ccl_routes_t *routes, ccl_i_cell_run_t *out, ccl_error_t *err);
/** How a cell's schedule is lowered. */
typedef struct ccl_i_cell_lower {
    const ccl_schedule_t *schedule; /* NULL: the contender's */
    const char *proto;              /* NULL: the options' */
    ccl_sim_result_t **run_out;     /* NULL, or gets its run where lowering made it */
    bool prove_later;               /* by the caller */
    bool keep_schedule;             /* for other protocols: the cell's, until its end */
} ccl_i_cell_lower_t;
/** Lower the contender's schedule of a size; proven, unless `as` says that comes later. */
ccl_status_t ccl_i_compare_lower(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                 ccl_routes_t *routes, ccl_i_cell_lower_t as, ccl_program_t **out,
                                 ccl_error_t *err);
/** Proof of what was lowered so. */
ccl_status_t ccl_i_compare_prove(const ccl_i_compare_t *c, uint32_t contender,
                                 const ccl_program_t *program, ccl_error_t *err);
/**
 * One run of a cell, kept as the size's best where it is. Where its options give up, time_s is
 * INFINITY if it is known to take longer.
 */
ccl_status_t ccl_i_compare_run(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                               ccl_i_cell_run_t *how, ccl_routes_t *routes,
                               ccl_compare_cell_t *cell, ccl_error_t *err);
/** Is this one of the protocols that the comparison chooses from, beside its options' own? */
bool ccl_i_compare_protocol(const ccl_i_compare_t *c, ccl_protocol_t protocol);
/** Fill `as`. */
void ccl_i_compare_views(ccl_i_ready_t *r);
/** The other protocols of a cell that has a time: it becomes that of the fastest. */
ccl_status_t ccl_i_compare_choose(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                  ccl_routes_t *routes, const ccl_i_cell_run_t *how,
                                  ccl_compare_cell_t *cell, ccl_error_t *err);
/** The samples of a cell that has a time (samples.c); nothing without draws. */
ccl_status_t ccl_i_compare_sample(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                  ccl_routes_t *routes, ccl_error_t *err);
/** What they come to: ranks, before winners are picked. */
ccl_status_t ccl_i_compare_rank(ccl_i_compare_t *c, ccl_error_t *err);
/** Which sizes' winners are no better than others, and the spreads that say so. */
ccl_status_t ccl_i_compare_ties(ccl_i_compare_t *c, uint32_t threads, ccl_error_t *err);
/** Without memory for it, or time, a cell has no spread, a size no links. */
ccl_status_t ccl_i_compare_unsure(ccl_i_compare_t *c, ccl_status_t status);
/** How far the others are behind the winners, and how sure that is. */
void ccl_i_compare_pair(ccl_i_compare_t *c);
/** A cell as the notebook has it. */
void ccl_i_compare_take(const ccl_point_result_t *r, ccl_compare_cell_t *cell);
/** The notebook's point of a cell. */
ccl_point_t ccl_i_compare_point(const ccl_i_compare_t *c, uint32_t size, uint32_t contender);
/** Frees what a contender was made ready with. */
void ccl_i_compare_forget(ccl_i_ready_t *r, uint32_t nsizes);
/** Whoever is slower than a size's winner by more than this is no tie: a change of a millionth of
   the size brings a slice less, at most 20 % in what was measured (docs/decisions.md). */
#define CCL_I_COMPARE_NEAR 0.25
/** From as many ranks on, what nobody will ask for again is given back at once. */
#define CCL_I_COMPARE_LARGE 256u
/** The contender's cells are finished: forget whom ties and results need no more. Contender
   CCL_NONE: nobody new is. */
void ccl_i_compare_release(ccl_i_compare_t *c, uint32_t contender);
/** All of them, and the array; NULL is fine. */
void ccl_i_compare_forget_all(ccl_i_ready_t *ready, uint32_t ncontenders, uint32_t nsizes);
/** Winners' and the library's runs stay: the result takes over what was made ready. */
ccl_status_t ccl_i_compare_keep(ccl_i_compare_t *c, ccl_error_t *err);
void ccl_i_compare_kept_destroy(ccl_i_kept_t *kept);
/* What stock NCCL runs (nccl.c). */
/** Its programs at all sizes, proven. @retval CCL_UNSUPPORTED  it does not run here. */
ccl_status_t ccl_i_nccl_prepare(ccl_i_compare_t *c, const ccl_ctx_t *ctx, ccl_i_nccl_t **out,
                                ccl_error_t *err);
void ccl_i_nccl_destroy(ccl_i_nccl_t *nccl);
/** Primitives of the largest of them; NULL: 0. */
uint32_t ccl_i_nccl_steps(const ccl_i_nccl_t *nccl, uint32_t nsizes);
void ccl_i_nccl_run(const ccl_i_nccl_t *nccl, uint32_t size, double size_bytes,
                    ccl_i_cell_run_t *out);
/** Its choices, into the cells. */
ccl_status_t ccl_i_nccl_tell(ccl_i_compare_t *c, ccl_error_t *err);
/** Run one cell. A task like ccl_i_compare_prepare(). */
ccl_status_t ccl_i_compare_simulate(uint32_t index, uint32_t worker, void *user, ccl_error_t *err);

#endif
