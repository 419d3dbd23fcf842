/*
 * The latency bound is the longest of the shortest ways over GPUs: random graphs, each pair alone
 * and all pairs at once, beside Floyd and Warshall's.
 */
#include "models/models.h"
#include "tests/base/main.h"
#include "tests/topologies/topologies.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { MOST = 10, GRAPHS = 300 };

typedef struct graph {
    uint32_t n;
    double way_s[MOST][MOST]; /* INFINITY: none */
} graph_t;

/* Links with any latency between a tenth and ten microseconds: a way of several is often the
 * shorter one. */
static ccl_topology_t *random_graph(ccl_rng_t *rng, graph_t *out) {
    double share = 0.3 + 0.7 * ccl_rng_unit(rng);
    ccl_topology_builder_t *b = with_gpus("graph", out->n = 2 + ccl_rng_below(rng, MOST - 1));
    for (uint32_t i = 0; i < out->n; i++)
        for (uint32_t k = 0; k < out->n; k++)
            out->way_s[i][k] = i == k ? 0 : INFINITY;
    for (uint32_t i = 0; i < out->n; i++)
        for (uint32_t k = i + 1; k < out->n; k++) {
            double us = 0.1 * pow(100, ccl_rng_unit(rng));
            if (k > i + 1 && ccl_rng_unit(rng) > share)
                continue; /* the chain keeps it whole */
            add_duplex(b, i, k, "nvlink", 10, us);
            out->way_s[i][k] = out->way_s[k][i] = us * 1e-6;
        }
    return finish(b);
}

static void shortest(graph_t *g) {
    for (uint32_t m = 0; m < g->n; m++)
        for (uint32_t i = 0; i < g->n; i++)
            for (uint32_t k = 0; k < g->n; k++)
                g->way_s[i][k] = fmin(g->way_s[i][k], g->way_s[i][m] + g->way_s[m][k]);
}

START_TEST(test_shortest_ways) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 17);
    for (uint32_t round = 0; round < GRAPHS; round++) {
        graph_t g;
        ccl_topology_t *topo = random_graph(&rng, &g);
        ccl_transport_t t = ccl_model_transport(topo, "nvlink", "Simple");
        ccl_latency_bound_t bound;
        uint8_t moves[MOST * MOST];
        double most_s = 0;
        ck_assert_double_eq(t.overhead_s + t.latency_s, 0); /* links alone */
        shortest(&g);
        for (uint32_t i = 0; i < g.n; i++)
            for (uint32_t k = 0; k < g.n; k++) {
                most_s = fmax(most_s, g.way_s[i][k]);
                if (i == k)
                    continue;
                memset(moves, 0, sizeof moves);
                moves[i * g.n + k] = 1;
                MUST(ccl_model_latency_bound(topo, NULL, moves, NULL, &bound, e));
                ck_assert_double_eq_tol(bound.latency_s, g.way_s[i][k], 1e-9 * g.way_s[i][k]);
                ck_assert_uint_eq(bound.from, i);
                ck_assert_uint_eq(bound.to, k);
            }
        MUST(ccl_model_latency_bound(topo, NULL, NULL, NULL, &bound, e));
        ck_assert_double_eq_tol(bound.latency_s, most_s, 1e-9 * most_s);
        ccl_topology_destroy(topo);
    }
}
END_TEST

RUN_TESTS(test_shortest_ways)
