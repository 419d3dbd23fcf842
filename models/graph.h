/*
 * Private to models: coloured graphs, their automorphisms and canonical numbers, by bliss. It does
 * not check what malloc returns and throws through C, so it runs in child processes only, and
 * graph.c is the only file that knows it.
 */
#ifndef CCL_MODELS_GRAPH_H
#define CCL_MODELS_GRAPH_H

#include "models/models.h"

typedef struct ccl_i_graph {
    uint32_t *colour; /* [nvertices] */
    uint32_t (*edges)[2];
    size_t nvertices, nedges, vertices_cap, edges_cap;
    bool nomem; /* some vertex or edge is missing */
} ccl_i_graph_t;

/** Number of the new vertex. Without memory the graph is marked, and refused later. */
uint32_t ccl_i_graph_vertex(ccl_i_graph_t *graph, uint32_t colour);
void ccl_i_graph_edge(ccl_i_graph_t *graph, uint32_t a, uint32_t b);
void ccl_i_graph_fini(ccl_i_graph_t *graph);

typedef struct ccl_i_automorphisms_about {
    uint32_t ngenerators;
    double log10_order; /* of the group, approximate */
} ccl_i_automorphisms_about_t;

/**
 * One generator of the automorphism group, vertex i to image[i]. Runs in the child, where it may
 * change nothing that outlives it but `state`.
 */
typedef void (*ccl_i_generator_fn)(const uint32_t *image, void *state, const void *user);

/**
 * Show fn generators of the graph's automorphism group.
 * @param state  `bytes` bytes, without pointers; as fn leaves them on success, else unchanged.
 * @retval CCL_ERR_NOMEM
 */
ccl_status_t ccl_i_graph_automorphisms(const ccl_ctx_t *ctx, const ccl_i_graph_t *graph,
                                       ccl_i_generator_fn fn, const void *user, void *state,
                                       size_t bytes, ccl_i_automorphisms_about_t *about_out,
                                       ccl_error_t *err);

#endif
