/**
 * @file graph.h
 * Graph mathematics without clusters: maximum flow, automorphisms, canonical forms, linear
 * programs.
 */
#ifndef CCL_GRAPH_GRAPH_H
#define CCL_GRAPH_GRAPH_H

#include "base/base.h"

CCL_BEGIN_DECLS

/** A directed graph with colours; arrays are borrowed from whoever built it. */
typedef struct ccl_graph {
    uint32_t nvertices, narcs;
    const uint32_t (*ends)[2];     /**< [narcs] from, to */
    const uint64_t *vertex_colour; /**< [nvertices] */
    const uint64_t *arc_colour;    /**< [narcs] */
    uint32_t nplaces;              /**< vertices with a place on a circle, for shifts */
    const uint32_t *vertex_at;     /**< [nplaces] */
    const uint32_t *place_of;      /**< [nvertices]; CCL_NONE: has none */
} ccl_graph_t;

/* ---------------------------------------------------------------- symmetry */

/**
 * Numbers for the vertices of an undirected graph that do not depend on how it was numbered: two
 * graphs become equal exactly when they are isomorphic, colours kept.
 *
 * @param ctx        may be NULL; its cancel flag ends the search.
 * @param label_out  [nvertices] the new number of each.
 * @retval CCL_ERR_NOMEM  also where the child process died that bliss runs in.
 * @par Source  Junttila, Kaski (ALENEX 2007), bliss.
 */
ccl_status_t ccl_graph_canonical(const ccl_ctx_t *ctx, uint32_t nvertices, const uint32_t *colour,
                                 size_t nedges, const uint32_t (*edges)[2], uint32_t *label_out,
                                 ccl_error_t *err);

/**
 * An undirected graph with coloured vertices, built vertex by vertex, for bliss, which runs in a
 * child process: it does not check what malloc returns, and throws through C.
 */
typedef struct ccl_undirected {
    uint32_t *colour; /* [nvertices] */
    uint32_t (*edges)[2];
    size_t nvertices, nedges, vertices_cap, edges_cap;
    bool nomem; /* some vertex or edge is missing */
} ccl_undirected_t;

/** Number of the new vertex. Without memory the graph is marked, and refused later. */
uint32_t ccl_undirected_vertex(ccl_undirected_t *graph, uint32_t colour);
void ccl_undirected_edge(ccl_undirected_t *graph, uint32_t a, uint32_t b);
void ccl_undirected_fini(ccl_undirected_t *graph);

typedef struct ccl_undirected_group {
    uint32_t ngenerators;
    double log10_order; /* of the group, approximate */
} ccl_undirected_group_t;

/**
 * One generator of the automorphism group, vertex i to image[i]. Runs in the child, where it may
 * change nothing that outlives it but `state`.
 */
typedef void (*ccl_generator_fn)(const uint32_t *image, void *state, const void *user);

/**
 * Show fn generators of the graph's automorphism group.
 * @param state  `bytes` bytes, without pointers; as fn leaves them on success, else unchanged.
 * @retval CCL_ERR_NOMEM
 */
ccl_status_t ccl_undirected_automorphisms(const ccl_ctx_t *ctx, const ccl_undirected_t *graph,
                                          ccl_generator_fn fn, const void *user, void *state,
                                          size_t bytes, ccl_undirected_group_t *about_out,
                                          ccl_error_t *err);

/**
 * Automorphisms of a graph: permutations of its vertices that keep all colours. Each generator was
 * checked arc by arc; orbits may be finer than those of all automorphisms, never coarser.
 * @par Source  individualization and refinement: McKay, Piperno 2014, section 2.
 */
typedef struct ccl_automorphisms {
    uint32_t ngenerators;
    uint32_t **generators;  /**< [ngenerators][nvertices] image of every vertex */
    uint32_t *vertex_orbit; /**< [nvertices] least vertex of its orbit */
    uint32_t *arc_orbit;    /**< [narcs] least arc of its orbit */
    ccl_arena_t arena;
} ccl_automorphisms_t;
/** @param fixed  a vertex that stays where it is; CCL_NONE: none. */
ccl_status_t ccl_automorphisms_find(const ccl_graph_t *graph, uint32_t fixed,
                                    ccl_automorphisms_t *out, ccl_error_t *err);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_automorphisms_fini(ccl_automorphisms_t *symmetry);
/**
 * One automorphism at a time: the one that takes place `from` to place `to` and goes on as a shift
 * where it may choose, each placed vertex to the place nearest above its own plus to - from (round
 * the end). So it finds rotations: of servers among each other, of GPUs within them, of tori.
 */
typedef struct ccl_shift_search ccl_shift_search_t;
/** @param graph  borrowed. */
ccl_status_t ccl_shift_search_create(const ccl_graph_t *graph, ccl_shift_search_t **out,
                                     ccl_error_t *err);
/**
 * False: the first way tried is no symmetry.
 * @param vertex_out  [nvertices] image of every vertex.
 * @param arc_out     [narcs] image of every arc.
 */
bool ccl_shift_search_run(ccl_shift_search_t *search, uint32_t from, uint32_t to,
                          uint32_t *vertex_out, uint32_t *arc_out);
/** Frees it and all it owns; NULL is fine. */
void ccl_shift_search_destroy(ccl_shift_search_t *search);

/* ---------------------------------------------------------------- flows */

/** Maximum flow over whole numbers. */
typedef struct ccl_maxflow ccl_maxflow_t;
ccl_maxflow_t *ccl_maxflow_create(uint32_t nvertices); /**< NULL: out of memory */
/** Frees it and all it owns; NULL is fine. */
void ccl_maxflow_destroy(ccl_maxflow_t *flow);
/** A new arc without flow; its index, from 0. CCL_NONE: out of memory. */
uint32_t ccl_maxflow_arc(ccl_maxflow_t *flow, uint32_t from, uint32_t to, int64_t capacity);
/** Change a capacity; what the arc carries stays and must fit. */
void ccl_maxflow_capacity(ccl_maxflow_t *flow, uint32_t arc, int64_t capacity);
void ccl_maxflow_reset(ccl_maxflow_t *flow); /**< no flow anywhere */
/** What an arc carries. */
int64_t ccl_maxflow_of(const ccl_maxflow_t *flow, uint32_t arc);
/**
 * Add flow from s to t to what is there, at most `most`; what was added. Less than `most`: the flow
 * is greatest.  @par Source  Dinic 1970.
 */
int64_t ccl_maxflow_run(ccl_maxflow_t *flow, uint32_t s, uint32_t t, int64_t most);
/** After a run that reached the maximum: vertices on s's side of a smallest cut. */
void ccl_maxflow_side(ccl_maxflow_t *flow, uint32_t s, bool *side);

/**
 * Cost of a unit on an arc, at least 0; arcs that are given none have 0. Costs count for the two
 * functions below alone. Flow that grows along ways of least cost only, distances found again
 * before each growth, has the least cost of its amount.
 * @return false: out of memory.
 * @par Source  Busacker, Gowen 1961 (successive shortest ways).
 */
bool ccl_maxflow_cost(ccl_maxflow_t *flow, uint32_t arc, double cost);
/**
 * Least cost of a way through what is left of the arcs, those back along the flow too.
 * @param backward  to s instead of from it.
 * @param dist      [nvertices] INFINITY: no way.
 * @return false: out of memory.
 */
bool ccl_maxflow_distances(ccl_maxflow_t *flow, uint32_t s, bool backward, double *dist);
/**
 * Add flow along ways of least cost only, as much as they hold, at most `most`.
 * @param dist  of ccl_maxflow_distances() from s, with the flow as it is.
 * @return what was added; -1: out of memory.
 */
int64_t ccl_maxflow_cheapest(ccl_maxflow_t *flow, uint32_t s, uint32_t t, const double *dist,
                             int64_t most);

/* ---------------------------------------------------------------- linear programs */

/**
 * A linear program that grows by columns: minimise cost x, rows = right-hand sides, x >= 0.
 * Dense, revised simplex; small programs only.
 */
typedef struct ccl_lp ccl_lp_t;
/** @param rhs  [nrows], >= 0; a starting basis of artificial columns at `big` cost is made. */
ccl_lp_t *ccl_lp_create(uint32_t nrows, const double *rhs, double big);
/** Frees it and all it owns; NULL is fine. */
void ccl_lp_destroy(ccl_lp_t *lp);
/** Add a column; its index, CCL_NONE: out of memory. */
uint32_t ccl_lp_column(ccl_lp_t *lp, double cost, const double *entries);
/** Optimise over the columns there are. False: no end in sight (numerical trouble). */
bool ccl_lp_solve(ccl_lp_t *lp);
double ccl_lp_value(const ccl_lp_t *lp);
const double *ccl_lp_duals(const ccl_lp_t *lp); /**< [nrows], of the last solve */
double ccl_lp_x(const ccl_lp_t *lp, uint32_t column);

CCL_END_DECLS
#endif
