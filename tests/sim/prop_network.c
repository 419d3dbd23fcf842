/*
 * The network alone, driven by random sequences of starts and completions: after every solve each
 * flow has the rate that filling from scratch gives it, whichever solver works (relaxing, filling,
 * automatic), with groups that count a flow several times, caps and contention; and it drains when
 * its bytes are through.
 */
#include "naive.h"
#include "random_cases.h"
#include "sim/maxmin/network.h"

enum { MOST_FLOWS = 64, MOST_PATHS = 96 };

typedef struct mirror {
    naive_flow_t flows[MOST_FLOWS];
    double bytes[MOST_FLOWS];
    uint32_t n;
} mirror_t;

static uint64_t checked_rates, weighted, contended,
    capped; /* that the cases are what they should be */

static void check_rates(const ccl_topology_t *topo, const ccl_i_net_t *net, mirror_t *m,
                        bool use_links, double *room, double *weight, const char *what) {
    naive_fill(topo, m->flows, m->n, use_links, room, weight);
    for (uint32_t f = 0; f < m->n; f++) {
        const naive_flow_t *flow = &m->flows[f];
        double got = ccl_i_net_rate(net, flow->user), want = flow->rate_Bps;
        ck_assert_msg(fabs(got - want) <= 1e-9 * want,
                      "%s: flow %u of %u gets %.12g B/s, filling from scratch %.12g", what, f, m->n,
                      got, want);
        checked_rates++;
        capped += flow->cap_Bps < flow->path->narrowest_Bps && want == flow->cap_Bps;
        for (uint32_t i = 0; i < flow->path->nres; i++) {
            weighted += flow->path->w[i] > 1;
            contended += use_links && flow->path->res[i] < topo->nlinks &&
                         topo->links[flow->path->res[i]].contention > 0;
        }
    }
    ck_assert_uint_eq(ccl_i_net_active(net), m->n);
}

/* What has drained leaves. */
static void drain(ccl_i_net_t *net, mirror_t *m, double now_s, const char *what) {
    const ccl_i_drained_t *list;
    size_t count = ccl_i_net_take(net, now_s, &list);
    ck_assert_uint_ge(count, 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t f = 0;
        while (f < m->n && m->flows[f].user != list[i].user)
            f++;
        ck_assert_msg(f < m->n, "%s: user %u drained twice", what, list[i].user);
        ck_assert_msg(fabs(m->flows[f].left_bytes) <= 1e-9 * m->bytes[f],
                      "%s: drained with %g of %g bytes left", what, m->flows[f].left_bytes,
                      m->bytes[f]);
        m->flows[f] = m->flows[--m->n];
        m->bytes[f] = m->bytes[m->n];
    }
}

static void check_sequence(ccl_rng_t *rng, int force, bool use_links, const char *what) {
    uint32_t n = 2 + ccl_rng_below(rng, 6), npaths = 0, users = 0;
    ccl_topology_t *topo = random_topology(rng, n);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_i_net_t *net = ccl_i_net_create(topo, use_links);
    naive_path_t *paths = calloc(MOST_PATHS, sizeof *paths);
    double *room = calloc(naive_resources(topo) + 1, sizeof *room);
    double *weight = calloc(naive_resources(topo) + 1, sizeof *weight);
    double caps[MOST_PATHS], now_s = 0;
    uint32_t ids[MOST_PATHS];
    mirror_t *m = calloc(1, sizeof *m);
    ccl_i_net_force(net, force);
    for (uint32_t want = 1 + ccl_rng_below(rng, MOST_PATHS); npaths < want; npaths++) {
        const ccl_route_t *route;
        uint32_t src = ccl_rng_below(rng, n), dst = (src + 1 + ccl_rng_below(rng, n - 1)) % n;
        ck_assert_int_eq(ccl_routes_get(routes, src, dst, ccl_rng_below(rng, 3), &route, NULL),
                         CCL_OK);
        naive_path_set(&paths[npaths], topo, route);
        double cap = ccl_rng_below(rng, 2) ? INFINITY : random_rate_Bps(rng) / 2;
        ids[npaths] = ccl_i_net_path(net, route, cap);
        ck_assert_uint_ne(ids[npaths], CCL_NONE);
        caps[npaths] = fmin(cap, paths[npaths].narrowest_Bps);
    }
    ck_assert(ccl_i_net_freeze(net));
    for (uint32_t round = 0; round < 40; round++) {
        double next_s = ccl_i_net_next_s(net), want_s = INFINITY;
        for (uint32_t f = 0; f < m->n; f++)
            want_s = fmin(want_s, now_s + m->flows[f].left_bytes / m->flows[f].rate_Bps);
        ck_assert_msg(m->n == 0 ? isinf(next_s) : fabs(next_s - want_s) <= 1e-9 * want_s,
                      "%s: the next drains at %.12g s, not %.12g", what, want_s, next_s);
        bool starts = m->n == 0 || ccl_rng_below(rng, 2), drains = m->n && ccl_rng_below(rng, 3);
        /* Up to the next completion, or to a moment before it. */
        double to_s = drains ? next_s : m->n ? now_s + (next_s - now_s) * ccl_rng_unit(rng) : now_s;
        for (uint32_t f = 0; f < m->n; f++)
            m->flows[f].left_bytes -= m->flows[f].rate_Bps * (to_s - now_s);
        now_s = to_s;
        if (drains)
            drain(net, m, now_s, what);
        bool started = false;
        for (uint32_t k = starts ? 1 + ccl_rng_below(rng, 6) : 0; k > 0 && m->n < MOST_FLOWS; k--) {
            uint32_t p = ccl_rng_below(rng, npaths);
            double bytes = ccl_rng_below(rng, 2) ? 65536 : 1 + 1e6 * ccl_rng_unit(rng);
            ck_assert(ccl_i_net_start(net, ids[p], bytes, users));
            m->bytes[m->n] = bytes;
            m->flows[m->n++] = (naive_flow_t){&paths[p], bytes, caps[p], 0, users++, 0};
            started = true;
        }
        ck_assert_int_eq(ccl_i_net_changed(net), started || drains);
        ck_assert(ccl_i_net_solve(net, now_s));
        ck_assert(!ccl_i_net_changed(net));
        check_rates(topo, net, m, use_links, room, weight, what);
    }
    free(m);
    free(room);
    free(weight);
    free(paths);
    ccl_i_net_destroy(net);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}

START_TEST(test_sequences) {
    for (uint32_t k = 0; k < 120; k++) {
        ccl_rng_t rng;
        char what[64];
        bool use_links = k % 4 != 3;
        ccl_rng_init(&rng, 100 + k);
        snprintf(what, sizeof what, "sequence %u, solver %d, links %d", k, _i, use_links);
        check_sequence(&rng, _i, use_links, what);
    }
}
END_TEST

START_TEST(test_cases) {
    ck_assert_uint_ge(checked_rates, 50000);
    ck_assert_uint_ge(weighted, 5000);
    ck_assert_uint_ge(contended, 5000);
    ck_assert_uint_ge(capped, 5000);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.sim.network");
    TCase *tcase = tcase_create("network");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_sequences, 0, 4); /* automatic, relax, fill, rebuild */
    tcase_add_test(tcase, test_cases);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
