/* Maximum flows against all cuts, capacities in whole units, symmetries of known graphs. */
#include <math.h>
#include <stdlib.h>

#include "models/models.h"
#include "tests/topologies/topologies.h"

/* Every cut of small random networks; then capacities are raised and the flow goes on. */
START_TEST(flow_is_the_least_cut) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 5);
    for (int round = 0; round < 300; round++) {
        uint32_t n = 2 + ccl_rng_below(&rng, 6), m = ccl_rng_below(&rng, 20), from[20], to[20];
        int64_t cap[20];
        ccl_maxflow_t *f = ccl_maxflow_create(n);
        ck_assert_ptr_nonnull(f);
        for (uint32_t a = 0; a < m; a++) {
            from[a] = ccl_rng_below(&rng, n);
            to[a] = ccl_rng_below(&rng, n);
            cap[a] = ccl_rng_below(&rng, 10);
            ck_assert_uint_eq(ccl_maxflow_arc(f, from[a], to[a], cap[a]), a);
        }
        int64_t got = 0;
        for (int raise = 0; raise < 2; raise++) {
            int64_t least = INT64_MAX;
            for (uint32_t set = 0; set < 1u << n; set++) {
                int64_t sum = 0;
                if (!(set & 1) || set >> (n - 1) & 1)
                    continue;
                for (uint32_t a = 0; a < m; a++)
                    sum += (set >> from[a] & 1) && !(set >> to[a] & 1) ? cap[a] : 0;
                least = sum < least ? sum : least;
            }
            got += ccl_maxflow_run(f, 0, n - 1, 1000000);
            ck_assert_int_eq(got, least);
            bool side[8];
            int64_t sum = 0;
            ccl_maxflow_side(f, 0, side);
            ck_assert(side[0] && !side[n - 1]);
            for (uint32_t a = 0; a < m; a++) {
                sum += side[from[a]] && !side[to[a]] ? cap[a] : 0;
                ck_assert_int_le(ccl_maxflow_of(f, a), cap[a]);
            }
            ck_assert_int_eq(sum, least);
            for (uint32_t a = 0; a < m; a++)
                ccl_maxflow_capacity(f, a, cap[a] += ccl_rng_below(&rng, 5));
        }
        ccl_maxflow_reset(f);
        ck_assert_int_eq(ccl_maxflow_run(f, 0, n - 1, got / 2), got / 2); /* no more than asked */
        ccl_maxflow_destroy(f);
    }
}
END_TEST

/* A chain of GPUs. */
static ccl_topology_t *with_rates(const double *Bps, uint32_t n) {
    ccl_topology_builder_t *b = with_gpus("chain", n + 1);
    for (uint32_t i = 0; i < n; i++)
        MUST(ccl_topology_builder_duplex(b, i, i + 1, "nvlink", Bps[i], 0, 1, 0, e));
    return finish(b);
}

START_TEST(units) {
    static const struct {
        double Bps[2];
        bool exact;
        int64_t units[2], num, den;
        const char *why;
    } rows[] = {
        {{50e9, 25e9}, true, {2, 1}, 25000000000, 1, "the common divisor"},
        {{42.8571e9, 25e9}, true, {428571, 250000}, 100000, 1, "four decimals of GB/s"},
        {{2.5, 0.25}, true, {10, 1}, 25, 100, "less than a byte per second"},
        {{100e9 / 3, 25e9}, false, {0, 0}, 0, 0, "no decimal fraction: rounded up"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = with_rates(rows[i].Bps, 2);
        ccl_capacity_t *c = NULL;
        ck_assert_int_eq(ccl_capacity_create(topo, &c, NULL), CCL_OK);
        ck_assert_msg(c->exact == rows[i].exact, "%s", rows[i].why);
        ck_assert_uint_eq(c->narcs, 4);
        for (int k = 0; k < 2; k++) {
            double back = (double)c->arcs[2 * k].units * c->unit_Bps;
            ck_assert_msg(back >= rows[i].Bps[k] * (1 - 1e-12), "%s", rows[i].why);
            ck_assert_double_eq_tol(back / rows[i].Bps[k], 1, 1e-9);
            if (rows[i].exact)
                ck_assert_int_eq(c->arcs[2 * k].units, rows[i].units[k]);
        }
        ck_assert_int_eq(c->unit_num, rows[i].num);
        ck_assert_int_eq(c->unit_den, rows[i].den);
        ccl_capacity_destroy(c);
        ccl_topology_destroy(topo);
    }
}
END_TEST

static uint32_t gpu_orbits(const char *spec, uint32_t fixed_rank, uint32_t *arcs_out) {
    ccl_topology_t *topo = topology(spec);
    ccl_capacity_t *c = NULL;
    ccl_automorphisms_t s;
    uint32_t n = 0, arcs = 0;
    ck_assert_int_eq(ccl_capacity_create(topo, &c, NULL), CCL_OK);
    uint32_t fixed = fixed_rank == CCL_NONE ? CCL_NONE : topo->rank_device[fixed_rank];
    ck_assert_int_eq(ccl_automorphisms_find(&c->graph, fixed, &s, NULL), CCL_OK);
    for (uint32_t r = 0; r < topo->nranks; r++)
        n += s.vertex_orbit[topo->rank_device[r]] == topo->rank_device[r];
    for (uint32_t a = 0; a < c->narcs; a++)
        arcs += s.arc_orbit[a] == a;
    for (uint32_t g = 0; g < s.ngenerators; g++) {
        if (fixed != CCL_NONE)
            ck_assert_uint_eq(s.generators[g][fixed], fixed);
        for (uint32_t a = 0; a < c->narcs; a++) { /* arcs go to arcs as wide */
            uint32_t u = s.generators[g][c->arcs[a].from], v = s.generators[g][c->arcs[a].to];
            bool found = false;
            for (uint32_t b = 0; b < c->narcs && !found; b++)
                found = c->arcs[b].from == u && c->arcs[b].to == v &&
                        c->arcs[b].units == c->arcs[a].units;
            ck_assert(found);
        }
    }
    if (arcs_out)
        *arcs_out = arcs;
    ccl_automorphisms_fini(&s);
    ccl_capacity_destroy(c);
    ccl_topology_destroy(topo);
    return n;
}

START_TEST(orbits) {
    static const struct {
        const char *spec;
        uint32_t fixed, gpus, arcs;
        const char *why;
    } rows[] = {
        {"dgx-a100", CCL_NONE, 1, 0, "eight GPUs alike"},
        {"dgx-a100", 0, 0, 0, "a root, and the others by what they share with it"},
        {"servers:4 gpus:4 nvswitch=300GB/s nics:4x25GB/s fabric=single", CCL_NONE, 1, 0,
         "servers and GPUs turn"},
        {"heteccl-h20-4+8", CCL_NONE, 0, 0, "two kinds of server"},
        {"syccl-h800-64", CCL_NONE, 1, 0, "rails"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        uint32_t n = gpu_orbits(rows[i].spec, rows[i].fixed, NULL);
        if (rows[i].gpus)
            ck_assert_msg(n == rows[i].gpus, "%s: %u orbits: %s", rows[i].spec, n, rows[i].why);
        ck_assert_uint_ge(n, 1 + (rows[i].fixed != CCL_NONE));
    }
    /* A line of three GPUs: the ends change places, unless the links differ. */
    static const double same[] = {1e9, 1e9}, other[] = {1e9, 2e9};
    for (int k = 0; k < 2; k++) {
        ccl_topology_t *topo = with_rates(k ? other : same, 2);
        ccl_capacity_t *c = NULL;
        ccl_automorphisms_t s;
        ck_assert_int_eq(ccl_capacity_create(topo, &c, NULL), CCL_OK);
        ck_assert_int_eq(ccl_automorphisms_find(&c->graph, CCL_NONE, &s, NULL), CCL_OK);
        ck_assert_uint_eq(s.vertex_orbit[2], k ? 2 : 0);
        ck_assert_uint_eq(s.vertex_orbit[1], 1);
        ccl_automorphisms_fini(&s);
        ccl_capacity_destroy(c);
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("flows");
    TCase *tc = tcase_create("flows");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, flow_is_the_least_cut);
    tcase_add_test(tc, units);
    tcase_add_test(tc, orbits);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
