/* Exact Hamiltonian paths and cycles of small graphs against all orders of their nodes. */
#include "common.h"
#include "synth/common/cycle.h"

#include <math.h>

typedef struct best {
    const ccl_i_graph_t *g;
    uint32_t end; /* CCL_NONE: any; the start: a cycle */
    uint32_t order[8];
    double width, sum;
} best_t;

static void measure(const ccl_i_graph_t *g, const uint32_t *order, bool cycle, double *width_out,
                    double *sum_out) {
    double width = INFINITY, sum = 0;
    for (uint32_t i = 0; i + (cycle ? 0 : 1) < g->m; i++) {
        double w = g->weight[order[i] * g->m + order[(i + 1) % g->m]];
        width = fmin(width, w);
        sum += 1 / w;
    }
    *width_out = width;
    *sum_out = sum;
}

/* All orders that begin with the first `fixed` nodes. */
static void try_all(best_t *b, uint32_t fixed) {
    uint32_t m = b->g->m;
    bool cycle = b->end == b->order[0];
    if (fixed == m) {
        double width, sum;
        measure(b->g, b->order, cycle, &width, &sum);
        if ((cycle || b->end == CCL_NONE || b->order[m - 1] == b->end) && width > 0 &&
            (width > b->width || (width == b->width && sum < b->sum))) {
            b->width = width;
            b->sum = sum;
        }
        return;
    }
    for (uint32_t i = fixed; i < m; i++) {
        uint32_t node = b->order[i];
        b->order[i] = b->order[fixed];
        b->order[fixed] = node;
        try_all(b, fixed + 1);
        b->order[fixed] = b->order[i];
        b->order[i] = node;
    }
}

static void compare_one(const ccl_i_graph_t *g, uint32_t start, uint32_t end, uint64_t seed) {
    best_t all = {.g = g, .end = end, .sum = INFINITY};
    bool cycle = start == end;
    ccl_i_path_want_t want = {
        .start = start, .end = end, .cycle = cycle, .variant = seed % 3, .most = INFINITY};
    uint32_t path[8], seen = 0;
    double found = -1, width, sum;
    for (uint32_t i = 0; i < g->m; i++)
        all.order[i] = (start + i) % g->m;
    try_all(&all, 1);
    ck_assert_int_eq(ccl_i_path_small(g, &want, path, &found, NULL), CCL_OK);
    ck_assert_msg(found == all.width, "seed %llu: %g wide, not %g", (unsigned long long)seed, found,
                  all.width);
    if (found == 0)
        return;
    for (uint32_t i = 0; i < g->m; i++)
        seen |= 1u << path[i];
    measure(g, path, cycle, &width, &sum);
    ck_assert_msg(seen + 1 == 1u << g->m && path[0] == start && width == all.width &&
                      fabs(sum - all.sum) < 1e-6 * sum &&
                      (cycle || end == CCL_NONE || path[g->m - 1] == end),
                  "seed %llu: no best path", (unsigned long long)seed);
}

START_TEST(test_small) {
    double weight[49];
    for (uint64_t seed = 1; seed <= 300; seed++) {
        ccl_rng_t rng;
        ccl_rng_init(&rng, seed);
        ccl_i_graph_t g = {.m = 2 + ccl_rng_below(&rng, 6), .weight = weight};
        uint32_t holes = ccl_rng_below(&rng, 4), kinds = 1 + ccl_rng_below(&rng, 4);
        for (uint32_t i = 0; i < g.m * g.m; i++) {
            double width = 1 + ccl_rng_below(&rng, kinds);
            weight[i] = i / g.m == i % g.m || ccl_rng_below(&rng, 8) < holes ? 0 : width;
        }
        uint32_t start = ccl_rng_below(&rng, g.m), end = ccl_rng_below(&rng, g.m + 1);
        compare_one(&g, start, end < g.m ? end : CCL_NONE, seed);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.cycle");
    TCase *tcase = tcase_create("small graphs");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_small);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
