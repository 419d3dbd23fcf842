/*
 * The search of cegis with Z3 and its windows of steps; private to z3*.c.
 */
#ifndef CCL_SYNTH_CEGIS_Z3_H
#define CCL_SYNTH_CEGIS_Z3_H

#include "synth/cegis/cegis.h"
#include "synth/solvers/solver_z3.h"

#define CCL_I_CEGIS_WORK_PER_VARIABLE 30u /**< of making the model, in Z3's unit */

typedef struct ccl_i_cegis_search {
    const ccl_i_cegis_problem_t *p;
    const ccl_i_cegis_plan_t *start;
    uint32_t nsteps;
    uint64_t effort; /* left; 0 with `endless` */
    bool endless;
    /* child */
    ccl_child_pipe_t *pipe;
    ccl_i_cegis_plan_t plan; /* candidate */
    ccl_i_cegis_examples_t examples;
    ccl_i_cegis_snapshot_t *snapshots;
    size_t nsnapshots, snapshots_cap;
    uint8_t *tight_hop, *tight_resource; /* counterexamples' constraints, kept for good */
    uint8_t *tight_budget;
    bool tight_sender;
    uint32_t *users_first, *users; /* hops of a resource */
} ccl_i_cegis_search_t;

typedef struct ccl_i_cegis_variable {
    uint32_t chunk, hop, step;
    ccl_i_z3_term_t ast;
} ccl_i_cegis_variable_t;

/** Steps from..nsteps-1 of the plan, after a locked prefix. */
typedef struct ccl_i_cegis_window {
    ccl_i_cegis_search_t *s;
    uint32_t from, steps, n;
    bool pruned;
    ccl_i_z3_t *z3;
    ccl_i_cegis_variable_t *vars; /* by hop, then step, then chunk */
    size_t nvars, vars_cap;
    size_t *hop_first;    /* [nhops + 1] into vars */
    uint16_t *at;         /* [nchunks * nranks] step from which it is there; UINT16_MAX: not yet */
    uint16_t *soon;       /* the same, at the earliest */
    ccl_i_z3_term_t *has; /* [nchunks * nranks * (steps + 1)] NULL: impossible */
    uint32_t nconstraints;
    uint8_t *tight_hop, *tight_resource, *tight_budget; /* asserted in this window */
    bool tight_sender;
} ccl_i_cegis_window_t;

/** Memory, times and variables, without Z3. False: no memory. */
bool ccl_i_cegis_window_init(ccl_i_cegis_window_t *w);
void ccl_i_cegis_window_fini(ccl_i_cegis_window_t *w);
/** Equations 2 and 3, and the goal. */
bool ccl_i_cegis_window_model(ccl_i_cegis_window_t *w);
/** Assert what counterexamples so far have shown to be needed and is not in force here yet. */
bool ccl_i_cegis_window_tighten(ccl_i_cegis_window_t *w);
/** Steps from..checkpoint-1 as in the candidate, until the next pop. */
void ccl_i_cegis_window_lock(ccl_i_cegis_window_t *w, uint32_t checkpoint, const uint8_t *sent);

#endif
