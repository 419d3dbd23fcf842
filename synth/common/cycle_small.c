/*
 * Hamiltonian paths and cycles of small graphs, exactly: M. Held, R. M. Karp, A dynamic programming
 * approach to sequencing problems, 1962. The widest, and among these the one with the least sum of
 * 1 / weight. A weight is what the rings before it left of an edge, so that sum keeps a ring off
 * edges that others use while free ones would do as well: where no further ring fits at full width,
 * as on a full mesh of four GPUs, rings share every edge evenly and none stays idle.
 */
#include "synth/common/cycle.h"

#include <math.h>
#include <stdlib.h>

typedef struct table {
    const ccl_i_graph_t *g;
    uint32_t m, start, end; /* places in `name` */
    bool cycle;
    double threshold;
    uint32_t name[CCL_I_SMALL_GRAPH]; /* the graph's node at a place: ties go to early places */
    double *cost;                     /* [1 << m][m] of a path from the start over a set to v */
    uint8_t *before;                  /* [1 << m][m] its node before v */
} table_t;

/* What the edge adds; INFINITY: too narrow. */
static double edge(const table_t *t, uint32_t a, uint32_t b) {
    double weight = t->g->weight[(size_t)t->name[a] * t->g->m + t->name[b]];
    return weight > 0 && weight >= t->threshold ? 1 / weight : INFINITY;
}

static bool cheaper(double a, double b) {
    return a < b * (1 - 1e-9) || (isfinite(a) && isinf(b));
}

static void fill(table_t *t) {
    uint32_t m = t->m, sets = 1u << m, first = 1u << t->start;
    for (uint32_t i = 0; i < sets * m; i++)
        t->cost[i] = INFINITY;
    t->cost[first * m + t->start] = 0;
    for (uint32_t set = first; set < sets; set++) {
        for (uint32_t u = 0; u < m; u++) {
            double so_far = t->cost[set * m + u];
            if (!isfinite(so_far) || (!t->cycle && u == t->end))
                continue;
            for (uint32_t v = 0; v < m; v++) {
                if (set >> v & 1)
                    continue;
                uint32_t to = (set | 1u << v) * m + v;
                double cost = so_far + edge(t, u, v);
                if (cheaper(cost, t->cost[to])) {
                    t->cost[to] = cost;
                    t->before[to] = (uint8_t)u;
                }
            }
        }
    }
}

/* The last node of the best path over all nodes; CCL_NONE: there is none. */
static uint32_t last_node(const table_t *t) {
    uint32_t m = t->m, all = (1u << m) - 1, best = CCL_NONE;
    double least = INFINITY;
    for (uint32_t v = 0; v < m; v++) {
        double cost = t->cost[all * m + v] + (t->cycle ? edge(t, v, t->start) : 0);
        if ((t->cycle || t->end == CCL_NONE || v == t->end) && cheaper(cost, least)) {
            least = cost;
            best = v;
        }
    }
    return best;
}

/* The widest edge weight below `most`; 0: none. */
static double next_width(const ccl_i_graph_t *g, double most) {
    double width = 0;
    for (uint32_t a = 0; a < g->m; a++) {
        for (uint32_t b = 0; b < g->m; b++) {
            double weight = g->weight[(size_t)a * g->m + b];
            if (a != b && weight < most && weight > width)
                width = weight;
        }
    }
    return width;
}

static void name_nodes(table_t *t, uint32_t start, uint32_t end, uint64_t variant) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, variant + 1);
    for (uint32_t i = 0; i < t->m; i++)
        t->name[i] = i;
    for (uint32_t i = t->m; variant > 0 && i > 1; i--) {
        uint32_t j = ccl_rng_below(&rng, i), node = t->name[i - 1];
        t->name[i - 1] = t->name[j];
        t->name[j] = node;
    }
    for (uint32_t i = 0; i < t->m; i++) {
        t->start = t->name[i] == start ? i : t->start;
        t->end = t->name[i] == end ? i : t->end;
    }
}

ccl_status_t ccl_i_path_small(const ccl_i_graph_t *g, const ccl_i_path_want_t *want, uint32_t *path,
                              double *bottleneck_out, ccl_error_t *err) {
    size_t cells = (size_t)g->m << g->m;
    table_t t = {.g = g, .m = g->m, .end = CCL_NONE, .cycle = want->cycle};
    t.cost = malloc(cells * sizeof *t.cost);
    t.before = malloc(cells);
    if (!t.cost || !t.before) {
        free(t.cost);
        free(t.before);
        return ccl_fail_nomem(err);
    }
    name_nodes(&t, want->start, want->end, want->variant);
    *bottleneck_out = 0;
    for (double width = next_width(g, INFINITY); width > 0; width = next_width(g, t.threshold)) {
        t.threshold = width * (1 - 1e-9);
        fill(&t);
        uint32_t v = last_node(&t), set = (1u << t.m) - 1;
        if (v == CCL_NONE)
            continue;
        for (uint32_t i = t.m; i-- > 0;) {
            uint32_t u = t.before[set * t.m + v];
            path[i] = t.name[v];
            set &= ~(1u << v);
            v = u;
        }
        *bottleneck_out = width;
        break;
    }
    free(t.cost);
    free(t.before);
    return CCL_OK;
}
