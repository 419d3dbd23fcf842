/*
 * The network alone, driven by random sequences of starts and completions: after every solve each
 * flow has the rate that filling from scratch gives it, whichever solver works (relaxing, filling,
 * automatic), with groups that count a flow several times, caps and contention; and it drains when
 * its bytes are through. The same of flows over most links of a star, which are solved in bundles.
 */
#include "naive.h"
#include "random_cases.h"
#include "sim/maxmin/rates.h"
#include "tests/topologies/topologies.h"

enum { MOST_FLOWS = 64, MOST_PATHS = 96 };

typedef struct mirror {
    naive_flow_t flows[MOST_FLOWS];
    double bytes[MOST_FLOWS];
    uint32_t n;
} mirror_t;

/* A network and its paths, as both see them. */
typedef struct paths {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_net_t *net;
    bool use_links;
    naive_path_t paths[MOST_PATHS];
    double caps[MOST_PATHS];
    uint32_t ids[MOST_PATHS], n;
} paths_t;

static uint64_t checked_rates, weighted, contended,
    capped; /* that the cases are what they should be */

static void check_rates(const ccl_topology_t *topo, const ccl_i_net_t *net, mirror_t *m,
                        bool use_links, double *room, double *weight, const char *what) {
    naive_fill(topo, m->flows, m->n, use_links, room, weight);
    for (uint32_t f = 0; f < m->n; f++) {
        const naive_flow_t *flow = &m->flows[f];
        double got = ccl_i_net_rate(net, flow->user), want = flow->rate_Bps;
        ck_assert_msg(fabs(got - want) <= 1e-12 * want,
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

static void paths_fini(paths_t *p) {
    ccl_i_net_destroy(p->net);
    ccl_routes_destroy(p->routes);
    ccl_topology_destroy(p->topo);
}

static void add_path(paths_t *p, double cap_Bps) {
    ck_assert_uint_ne(p->ids[p->n], CCL_NONE);
    p->caps[p->n] = fmin(cap_Bps, p->paths[p->n].narrowest_Bps);
    p->n++;
}

static void random_paths(paths_t *p, ccl_rng_t *rng, int force) {
    uint32_t n = 2 + ccl_rng_below(rng, 6);
    p->topo = random_topology(rng, n);
    p->routes = ccl_routes_create(p->topo);
    p->net = ccl_i_net_create(p->topo, p->use_links);
    ccl_i_net_force(p->net, force);
    for (uint32_t want = 1 + ccl_rng_below(rng, MOST_PATHS); p->n < want;) {
        const ccl_route_t *route;
        uint32_t src = ccl_rng_below(rng, n), dst = (src + 1 + ccl_rng_below(rng, n - 1)) % n;
        ck_assert_int_eq(
            ccl_routes_get(p->routes, src, dst, ccl_rng_below(rng, 3), &route, NULL), CCL_OK);
        naive_path_set(&p->paths[p->n], p->topo, route);
        double cap = ccl_rng_below(rng, 2) ? INFINITY : random_rate_Bps(rng) / 2;
        p->ids[p->n] = ccl_i_net_path(p->net, route, cap);
        add_path(p, cap);
    }
    ck_assert(ccl_i_net_freeze(p->net));
}

/* ---------------------------------------------------------------- flows over most links */

/* A GPU's links to the switch and back are neighbours. */
static ccl_topology_t *random_star(ccl_rng_t *rng, uint32_t n) {
    ccl_topology_builder_t *b = with_gpus("star", n);
    uint32_t sw = add_device(b, "sw", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    bool even = ccl_rng_below(rng, 2), contention = ccl_rng_below(rng, 3) == 0;
    for (uint32_t g = 0; g < n; g++)
        MUST(ccl_topology_builder_duplex(b, g, sw, "nvlink",
                                         even ? 50e9 : 50e9 * (0.5 + ccl_rng_unit(rng)), 0, 1,
                                         contention && g % 3 == 0 ? 0.05 : 0, e));
    return finish(b);
}

/* From GPU g or to it, by `way`, and all the others or most of them, `other` too, the other way,
   which count several times (never under contention, where the mirror counts caps once). */
static uint32_t wide_shares(ccl_rng_t *rng, const ccl_topology_t *topo, uint32_t g, uint32_t other,
                            uint32_t way, ccl_i_share_t *shares) {
    uint32_t n = topo->nranks, m = 0, more = topo->links[0].contention > 0 ? 0 : 1;
    uint32_t most = 1 + more * (ccl_rng_below(rng, 4) == 0);
    uint32_t few = ccl_rng_below(rng, 3) == 0 ? 2 + ccl_rng_below(rng, n / 2) : 0;
    shares[m++] = (ccl_i_share_t){2 * g + way, 1};
    for (uint32_t i = 0; i < n; i++)
        if (i != g && (i == other || few == 0 || ccl_rng_below(rng, few) != 0))
            shares[m++] = (ccl_i_share_t){2 * i + 1 - way,
                                          most + more * (ccl_rng_below(rng, 16) == 0)};
    return m;
}

static void wide_paths(paths_t *p, ccl_rng_t *rng, int force) {
    uint32_t n = 24 + ccl_rng_below(rng, 20);
    p->topo = random_star(rng, n);
    p->routes = ccl_routes_create(p->topo);
    p->net = ccl_i_net_create(p->topo, p->use_links);
    ccl_i_net_force(p->net, force);
    for (uint32_t want = MOST_PATHS / 2 + ccl_rng_below(rng, MOST_PATHS / 2); p->n < want;) {
        ccl_i_share_t shares[48];
        const ccl_route_t *route;
        naive_path_t *path = &p->paths[p->n];
        uint32_t g = ccl_rng_below(rng, n), other = (g + 1 + ccl_rng_below(rng, n - 1)) % n;
        uint32_t way = ccl_rng_below(rng, 2), m;
        ck_assert_int_eq(
            ccl_routes_get(p->routes, way ? other : g, way ? g : other, 0, &route, NULL), CCL_OK);
        naive_path_set(path, p->topo, route);
        double cap = ccl_rng_below(rng, 2) ? INFINITY : 5e9 * ccl_rng_unit(rng);
        if (ccl_rng_below(rng, 3) == 0) {
            p->ids[p->n] = ccl_i_net_path(p->net, route, cap);
        } else {
            m = wide_shares(rng, p->topo, g, other, way, shares);
            p->ids[p->n] = ccl_i_net_path_of(p->net, route, cap, shares, m);
            for (path->nres = 0; path->nres < m; path->nres++) {
                path->res[path->nres] = shares[path->nres].res;
                path->w[path->nres] = shares[path->nres].weight;
            }
        }
        add_path(p, cap);
    }
    ck_assert(ccl_i_net_freeze(p->net));
}

/* ---------------------------------------------------------------- a sequence */

static void start_some(ccl_rng_t *rng, const paths_t *p, mirror_t *m, uint32_t *users) {
    for (uint32_t k = 1 + ccl_rng_below(rng, 6); k > 0 && m->n < MOST_FLOWS; k--) {
        uint32_t path = ccl_rng_below(rng, p->n);
        double bytes = ccl_rng_below(rng, 2) ? 65536 : 1 + 1e6 * ccl_rng_unit(rng);
        ck_assert(ccl_i_net_start(p->net, p->ids[path], bytes, *users));
        m->bytes[m->n] = bytes;
        m->flows[m->n++] =
            (naive_flow_t){&p->paths[path], bytes, p->caps[path], 0, (*users)++, 0};
    }
}

static void check_sequence(ccl_rng_t *rng, const paths_t *p, const char *what) {
    double *room = calloc(naive_resources(p->topo) + 1, sizeof *room);
    double *weight = calloc(naive_resources(p->topo) + 1, sizeof *weight), now_s = 0;
    mirror_t *m = calloc(1, sizeof *m);
    uint32_t users = 0;
    for (uint32_t round = 0; round < 40; round++) {
        double next_s = ccl_i_net_next_s(p->net), want_s = INFINITY;
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
            drain(p->net, m, now_s, what);
        uint32_t before = m->n;
        if (starts)
            start_some(rng, p, m, &users);
        ck_assert_int_eq(ccl_i_net_changed(p->net), m->n > before || drains);
        ck_assert(ccl_i_net_solve(p->net, now_s));
        ck_assert(!ccl_i_net_changed(p->net));
        check_rates(p->topo, p->net, m, p->use_links, room, weight, what);
    }
    free(m);
    free(room);
    free(weight);
}

START_TEST(test_sequences) {
    for (uint32_t k = 0; k < 120; k++) {
        ccl_rng_t rng;
        char what[64];
        bool use_links = k % 4 != 3;
        ccl_rng_init(&rng, 100 + k);
        snprintf(what, sizeof what, "sequence %u, solver %d, links %d", k, _i, use_links);
        paths_t p = {.use_links = use_links};
        random_paths(&p, &rng, _i);
        check_sequence(&rng, &p, what);
        paths_fini(&p);
    }
}
END_TEST

START_TEST(test_wide) {
    uint32_t bundled = 0;
    for (uint32_t k = 0; k < 60; k++) {
        ccl_rng_t rng;
        char what[64];
        ccl_rng_init(&rng, 300 + k);
        snprintf(what, sizeof what, "wide sequence %u, solver %d", k, _i);
        paths_t p = {.use_links = true};
        wide_paths(&p, &rng, _i);
        bundled += p.net->wide != NULL;
        check_sequence(&rng, &p, what);
        paths_fini(&p);
    }
    if (_i == 0)
        ck_assert_uint_ge(bundled, 20);
    else
        ck_assert_uint_eq(bundled, 0);
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
    tcase_add_loop_test(tcase, test_wide, 0, 4);
    tcase_add_test(tcase, test_cases);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
