/* Coloured graphs and bliss, which is asked in child processes. */
#include "graph/graph.h"

#include <bliss/bliss_C.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint32_t ccl_undirected_vertex(ccl_undirected_t *g, uint32_t colour) {
    if (!ccl_grow(&g->colour, &g->vertices_cap, g->nvertices + 1, sizeof *g->colour)) {
        g->nomem = true;
        return 0;
    }
    g->colour[g->nvertices] = colour;
    return (uint32_t)g->nvertices++;
}

void ccl_undirected_edge(ccl_undirected_t *g, uint32_t a, uint32_t b) {
    if (!ccl_grow(&g->edges, &g->edges_cap, g->nedges + 1, sizeof *g->edges)) {
        g->nomem = true;
        return;
    }
    g->edges[g->nedges][0] = a;
    g->edges[g->nedges++][1] = b;
}

void ccl_undirected_fini(ccl_undirected_t *g) {
    free(g->colour);
    free(g->edges);
    memset(g, 0, sizeof *g);
}

/* ---------------------------------------------------------------- in the child */

/* Whatever bliss does without memory ends the child, which is reported as that. */
static BlissGraph *build(uint32_t nvertices, const uint32_t *colour, size_t nedges,
                         const uint32_t (*edges)[2]) {
    BlissGraph *graph = bliss_new(0);
    for (uint32_t v = 0; v < nvertices; v++)
        bliss_add_vertex(graph, colour[v]);
    for (size_t e = 0; e < nedges; e++)
        bliss_add_edge(graph, edges[e][0], edges[e][1]);
    return graph;
}

typedef struct canonical {
    uint32_t nvertices;
    const uint32_t *colour;
    size_t nedges;
    const uint32_t (*edges)[2];
} canonical_t;

static ccl_status_t label(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    const canonical_t *c = user;
    BlissStats stats;
    BlissGraph *graph = build(c->nvertices, c->colour, c->nedges, c->edges);
    const unsigned *labels = bliss_find_canonical_labeling(graph, NULL, NULL, &stats);
    (void)err;
    ccl_child_put(pipe, labels, c->nvertices * sizeof *labels);
    bliss_release(graph);
    return CCL_OK;
}

typedef struct search {
    const ccl_undirected_t *graph;
    ccl_generator_fn fn;
    const void *user;
    char *answer; /* an about, then the state; the child's */
    size_t bytes; /* of the state */
} search_t;

static void on_generator(void *user, unsigned n, const unsigned *image) {
    search_t *s = user;
    (void)n;
    s->fn(image, s->answer + sizeof(ccl_undirected_group_t), s->user);
}

static ccl_status_t search(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    search_t *s = user;
    const ccl_undirected_t *g = s->graph;
    BlissStats stats;
    BlissGraph *graph =
        build((uint32_t)g->nvertices, g->colour, g->nedges, (const uint32_t(*)[2])g->edges);
    (void)err;
    memset(&stats, 0, sizeof stats);
    bliss_find_automorphisms(graph, on_generator, s, &stats);
    const ccl_undirected_group_t about = {(uint32_t)stats.nof_generators,
                                          (double)log10l(stats.group_size_approx)};
    memcpy(s->answer, &about, sizeof about);
    ccl_child_put(pipe, s->answer, sizeof about + s->bytes);
    bliss_release(graph);
    return CCL_OK;
}

/* ---------------------------------------------------------------- its answers */

/* @param len  of the answer */
static ccl_status_t ask(const ccl_ctx_t *ctx, ccl_child_fn fn, void *user, size_t len,
                        ccl_child_answer_t *out, ccl_error_t *err) {
    const ccl_child_limits_t none = {0, 0, "symmetry"};
    ccl_ctx_t quiet = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    quiet.progress = NULL; /* there is none */
    CCL_TRY(ccl_child_run(&quiet, &none, fn, user, out, err));
    return out->len == len ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_undirected_automorphisms(const ccl_ctx_t *ctx, const ccl_undirected_t *graph,
                                          ccl_generator_fn fn, const void *user, void *state,
                                          size_t bytes, ccl_undirected_group_t *about_out,
                                          ccl_error_t *err) {
    search_t s = {graph, fn, user, malloc(sizeof *about_out + bytes), bytes};
    ccl_child_answer_t answer = {0};
    if (!s.answer || graph->nomem) {
        free(s.answer);
        return ccl_fail_nomem(err);
    }
    memcpy(s.answer + sizeof *about_out, state, bytes);
    ccl_status_t status = ask(ctx, search, &s, sizeof *about_out + bytes, &answer, err);
    if (status == CCL_OK) {
        memcpy(about_out, answer.data, sizeof *about_out);
        memcpy(state, (const char *)answer.data + sizeof *about_out, bytes);
    }
    free(answer.data);
    free(s.answer);
    return status;
}

ccl_status_t ccl_graph_canonical(const ccl_ctx_t *ctx, uint32_t nvertices, const uint32_t *colour,
                                 size_t nedges, const uint32_t (*edges)[2], uint32_t *label_out,
                                 ccl_error_t *err) {
    canonical_t c = {nvertices, colour, nedges, edges};
    ccl_child_answer_t answer = {0};
    if (nvertices == 0)
        return CCL_OK;
    ccl_status_t status = ask(ctx, label, &c, nvertices * sizeof *label_out, &answer, err);
    if (status == CCL_OK)
        memcpy(label_out, answer.data, nvertices * sizeof *label_out);
    free(answer.data);
    return status;
}
