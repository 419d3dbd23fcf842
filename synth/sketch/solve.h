/*
 * Private to synth: sub-demands of sketches (SyCCL, SIGCOMM 2025, section 5 and appendix A). In a
 * group of GPUs, what is at one must get to all others. Each is put into canonical numbers, so that
 * alike ones are solved once, and solved as an epoch MILP, or answered by a shape that is proven;
 * other synthesizers' trees are answers too.
 */
#ifndef CCL_SYNTH_SKETCH_SOLVE_H
#define CCL_SYNTH_SKETCH_SOLVE_H

#include "synth/exact/milp.h"
#include "synth/registry.h"
#include "synth/sketch/sketch.h"

/** A sub-demand in epochs, GPUs, hops and resources numbered canonically. */
typedef struct ccl_i_part {
    uint32_t n;         /* GPUs */
    uint32_t chunks;    /* at each of them, or at the root */
    uint32_t root;      /* place; CCL_NONE: every GPU is one */
    uint32_t *rank;     /* [n] of each place */
    ccl_i_exchange_t x; /* ranks are places */
    uint32_t *hop;      /* [x.nhops] of the space */
    ccl_collective_t *coll;
    ccl_i_rotation_t rotation; /* order 0: not looked for yet */
    uint32_t *delay, *window, *capacity, *away;
    uint32_t least;     /* epochs that are needed at least */
    ccl_text_t content; /* equal for parts that are alike: isomorphic, in the same epochs */
    ccl_arena_t arena;
} ccl_i_part_t;

/** What becomes a part. */
typedef struct ccl_i_part_want {
    const uint32_t *ranks;    /* ascending */
    uint32_t n, chunks, root; /* root: a rank, or CCL_NONE */
    uint32_t dimensions;      /* bits of those whose hops may be used */
    double chunk_bytes;
    double epochs; /* E: tau over what the fastest link takes for a chunk */
} ccl_i_part_want_t;

/**
 * @param out  finish with ccl_i_part_fini(), also on failure.
 * @retval CCL_ERR_USAGE  an epoch is too short for the slowest hop.
 */
ccl_status_t ccl_i_part_init(const ccl_ctx_t *ctx, ccl_i_part_t *out, const ccl_i_space_t *space,
                             const ccl_i_part_want_t *want, ccl_error_t *err);
void ccl_i_part_fini(ccl_i_part_t *part);

/** Trees of a part: how chunk `variant` at place `from` gets to all places. */
typedef struct ccl_i_trees {
    uint32_t n, variants;
    uint32_t epochs;   /* of an epoch MILP or a proven shape; 0: not known */
    bool proven;       /* no fewer epochs do */
    uint32_t *parent;  /* [n][variants][n] place; CCL_NONE: root of the tree, or no such tree */
    uint32_t *step;    /* same: place in time among all trees */
    uint16_t *channel; /* same: which of several equal routes */
} ccl_i_trees_t;
ccl_i_trees_t *ccl_i_trees_create(uint32_t n, uint32_t variants); /* NULL: out of memory */
void ccl_i_trees_destroy(ccl_i_trees_t *trees);

enum {
    CCL_I_MOST_CUTS = 6
}; /* chunks that others are asked for where their own choice makes no trees */
/** What another synthesizer is asked. */
typedef struct ccl_i_trees_ask {
    const ccl_synth_ops_t *ops;
    const ccl_topology_t *topo; /* the whole cluster, or the part's GPUs numbered by place */
    bool whole;
    uint32_t cut; /* chunks; 0: as many as suit, CCL_I_MOST_CUTS if these make no trees */
    double size_bytes;
} ccl_i_trees_ask_t;
/** Its trees for a part. @param out  NULL: it does not support the part, or its schedule has no
 * equal trees. */
ccl_status_t ccl_i_trees_ask(const ccl_ctx_t *ctx, const ccl_i_trees_ask_t *ask,
                             const ccl_i_part_t *part, ccl_i_trees_t **out, ccl_error_t *err);

/**
 * A shape that needs as many epochs as must be: every GPU sends its own to all others where all
 * hops are there (one switch, all-to-all links); of a single root holders double (one switch).
 * @param out  NULL when none is proven to be best.
 */
ccl_status_t ccl_i_part_shape(const ccl_i_part_t *part, ccl_i_trees_t **out, ccl_error_t *err);

typedef struct ccl_i_part_limits {
    uint32_t nodes;   /* of GLPK's search, for each number of epochs */
    uint32_t tries;   /* numbers of epochs: the least, 1, 2, 4 ... more */
    uint32_t epochs;  /* at most; GLPK's simplex may stall on longer ones, and nothing stops it */
    double variables; /* models with more are not asked */
    double time_s;    /* wall time; 0: none. With it the answer depends on the machine */
} ccl_i_part_limits_t;
/** Whether its MILP is within the limits. Finds the part's rotation, if that may matter. */
ccl_status_t ccl_i_part_askable(ccl_i_part_t *part, const ccl_i_part_limits_t *limits,
                                bool *askable_out, ccl_error_t *err);
/**
 * The epoch MILP: fixed epochs and no objective, from the least number on, the rotation imposed
 * first. @param out  NULL: no answer within the limits. @param limited_out  the time limit struck.
 */
ccl_status_t ccl_i_part_milp(const ccl_ctx_t *ctx, ccl_i_part_t *part,
                             const ccl_i_part_limits_t *limits, ccl_i_trees_t **out,
                             bool *limited_out, ccl_error_t *err);
/** Whether trees do what the part wants in its epochs, hops and capacities kept. */
bool ccl_i_part_check(const ccl_i_part_t *part, const ccl_i_trees_t *trees);

/* ---------------------------------------------------------------- cache (sketch_cache.c) */

/** Hash of the sources that solve sub-demands; sketch_sources.c.in. */
extern const char ccl_i_sketch_sources[];
/** Where answers are kept: `given`, for "auto" the user's cache directory; free. NULL: nowhere. */
char *ccl_i_cache_dir(const char *given);
/**
 * The answer kept for a part. *out is NULL when there is none, or *none_out is set where there is
 * the answer that nothing was found. What is damaged is reported and counts as nothing.
 */
ccl_status_t ccl_i_cache_get(const ccl_ctx_t *ctx, const char *dir, const ccl_i_part_t *part,
                             ccl_i_trees_t **out, bool *none_out, ccl_error_t *err);
/** @param trees  NULL: nothing was found. Failure is reported, and does no harm. */
void ccl_i_cache_put(const ccl_ctx_t *ctx, const char *dir, const ccl_i_part_t *part,
                     const ccl_i_trees_t *trees);

/* ---------------------------------------------------------------- sketches (sketch_solve.c) */

typedef struct ccl_i_solve_options {
    double size_bytes, coarse, fine; /* E1, E2 */
    bool no_shapes;                  /* ask GLPK also where a shape is proven */
    const char *cache;               /* directory; NULL: none */
    const char *borrow;              /* whose trees are answers too; NULL: those of all */
    size_t given;                    /* the first sketches are the user's, solved where they say */
    bool search;                     /* the others get solved forms as well */
    double until_s;                  /* ccl_now_s() after which nothing is asked; 0: no limit */
    ccl_sketch_stats_t *stats;
    uint64_t *dropped; /* sub-demands without an answer for lack of memory are added */
} ccl_i_solve_options_t;

/**
 * Sketches whose sub-demands are solved join the others: for groups in which hops are missing, and
 * for the group of all GPUs.
 * @param limited_out  the time limit struck.
 */
ccl_status_t ccl_i_sketch_solve(const ccl_i_asked_t *asked, ccl_i_space_t *space,
                                const ccl_i_solve_options_t *options, ccl_i_sketches_t *sketches,
                                bool *limited_out, ccl_error_t *err);

/* ---------------------------------------------------------------- other synthesizers' (borrow.c)
 */

/** Whose trees a way to solve takes (a place in ccl_i_solver_names); NULL: the epoch MILP's. */
const ccl_synth_ops_t *ccl_i_solver_ops(uint32_t kind);
/** Is a synthesizer in a list as ccl_sketch_options_t.borrow has it? */
bool ccl_i_sketch_borrows(const char *list, const char *name);
/** A value of option --borrow. */
ccl_status_t ccl_i_sketch_check_borrow(const char *text, ccl_error_t *err);
/** "sketch by hm: all GPUs": whose trees a mix has, and its sketches. */
ccl_status_t ccl_i_sketch_origin(const ccl_i_sketches_t *sketches, const ccl_i_mix_t *mix,
                                 ccl_origin_t origin, ccl_error_t *err);

#endif
