/*
 * Hundreds of flows between all pairs of a star's GPUs, or a tree's, with sizes that make each
 * complete alone, so that rates are relaxed from one completion to the next: after every one the
 * rates are max-min fair by the definition (each flow has a full resource on which none is faster,
 * or its cap), no resource carries more than it can, and each flow drains when its bytes are
 * through.
 */
#include "random_cases.h"
#include "sim/maxmin/network.h"
#include "tests/topologies/topologies.h"

enum { MOST_FLOWS = 64 * 63, TREE = 3, KINDS };

/* Rates are what is left now and later: with a length that keeps rounding small. */
#define STEP_S 0.01

typedef struct dense {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_net_t *net;
    const ccl_route_t *route[MOST_FLOWS];
    double bytes[MOST_FLOWS], left_bytes[MOST_FLOWS], rate_Bps[MOST_FLOWS], cap_Bps[MOST_FLOWS];
    bool active[MOST_FLOWS];
    uint32_t ngpus, nflows, nactive;
    double *load_Bps, *fastest_Bps, *demand_Bps; /* of each link */
} dense_t;

/* Two classes of links, every link a little different, or all with contention. */
static ccl_topology_t *star(ccl_rng_t *rng, int kind, uint32_t ngpus) {
    ccl_topology_builder_t *b = with_gpus("star", ngpus);
    uint32_t sw = add_device(b, "sw", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    for (uint32_t g = 0; g < ngpus; g++) {
        double rate_Bps = kind == 1 ? 40e9 * (1 + 0.2 * ccl_rng_unit(rng)) : g % 2 ? 25e9 : 50e9;
        MUST(ccl_topology_builder_duplex(b, g, sw, "nvlink", rate_Bps, 0, 1, kind == 2 ? 0.05 : 0,
                                         e));
    }
    return finish(b);
}

/* Servers of four behind a link of their own: ways of four links beside those of two. */
static ccl_topology_t *tree(uint32_t ngpus) {
    ccl_topology_builder_t *b = with_gpus("tree", ngpus);
    uint32_t fabric = add_device(b, "fabric", CCL_DEVICE_SWITCH, NULL, CCL_NONE), host = 0;
    for (uint32_t g = 0; g < ngpus; g++) {
        char id[16];
        if (g % 4 == 0) {
            snprintf(id, sizeof id, "host%u", g / 4);
            host = add_device(b, id, CCL_DEVICE_HOST, NULL, CCL_NONE);
            add_duplex(b, host, fabric, "net", 24, 0);
        }
        add_duplex(b, g, host, "pcie", 12, 0);
    }
    return finish(b);
}

/* Nearly equal, or of a tree's flows some a thousand times as long as others, which go on alone. */
static double some_bytes(ccl_rng_t *rng, int kind) {
    double x = ccl_rng_unit(rng);
    return kind == TREE ? 1e6 * pow(1000, x) : 1e6 * (0.9 + 0.2 * x);
}

static void add_left(uint32_t user, double left_bytes, void *ctx) {
    ((dense_t *)ctx)->rate_Bps[user] += left_bytes;
}

static void subtract_left(uint32_t user, double left_bytes, void *ctx) {
    ((dense_t *)ctx)->rate_Bps[user] -= left_bytes;
}

static void check_fair(dense_t *d, double now_s, const char *what) {
    memset(d->rate_Bps, 0, sizeof d->rate_Bps);
    ccl_i_net_visit(d->net, now_s, add_left, d);
    ccl_i_net_visit(d->net, now_s + STEP_S, subtract_left, d);
    uint32_t nlinks = d->topo->nlinks;
    memset(d->load_Bps, 0, nlinks * sizeof *d->load_Bps);
    memset(d->fastest_Bps, 0, nlinks * sizeof *d->fastest_Bps);
    memset(d->demand_Bps, 0, nlinks * sizeof *d->demand_Bps);
    for (uint32_t f = 0; f < d->nflows; f++) {
        if (!d->active[f])
            continue;
        d->rate_Bps[f] /= STEP_S;
        for (uint32_t i = 0; i < d->route[f]->nlinks; i++) {
            uint32_t l = d->route[f]->links[i];
            d->load_Bps[l] += d->rate_Bps[f];
            d->demand_Bps[l] += d->cap_Bps[f];
            d->fastest_Bps[l] = fmax(d->fastest_Bps[l], d->rate_Bps[f]);
        }
    }
    for (uint32_t l = 0; l < nlinks; l++) {
        const ccl_link_t *link = &d->topo->links[l];
        double z = d->demand_Bps[l] / link->bandwidth_Bps;
        double cap_Bps = link->bandwidth_Bps / (z <= 1 ? 1 : 1 + link->contention * (z - 1));
        if (d->load_Bps[l] > cap_Bps * (1 + 1e-10))
            ck_abort_msg("%s: link %u carries %.15g of %.15g", what, l, d->load_Bps[l], cap_Bps);
        if (d->load_Bps[l] < cap_Bps * (1 - 1e-10))
            d->fastest_Bps[l] = INFINITY; /* not full: limits nobody */
    }
    for (uint32_t f = 0; f < d->nflows; f++) {
        bool limited = !d->active[f] || d->rate_Bps[f] >= d->cap_Bps[f] * (1 - 1e-10);
        for (uint32_t i = 0; i < d->route[f]->nlinks && !limited; i++)
            limited = d->rate_Bps[f] >= d->fastest_Bps[d->route[f]->links[i]] * (1 - 1e-10);
        if (!limited)
            ck_abort_msg("%s: nothing limits flow %u to %.15g B/s", what, f, d->rate_Bps[f]);
    }
}

static void drain(dense_t *d, double now_s, const char *what) {
    const ccl_i_drained_t *list;
    size_t n = ccl_i_net_take(d->net, now_s, &list);
    ck_assert_uint_ge(n, 1);
    for (size_t i = 0; i < n; i++) {
        uint32_t f = list[i].user;
        ck_assert_msg(d->active[f], "%s: flow %u drained twice", what, f);
        ck_assert_msg(fabs(d->left_bytes[f]) <= 1e-9 * d->bytes[f],
                      "%s: flow %u drained with %g of %g bytes left", what, f, d->left_bytes[f],
                      d->bytes[f]);
        d->active[f] = false;
        d->nactive--;
    }
}

static void check_dense(int kind, uint32_t ngpus, int force, bool caps, bool late) {
    char what[80];
    snprintf(what, sizeof what, "kind %d, %u GPUs, solver %d, caps %d, late %d", kind, ngpus, force,
             caps, late);
    dense_t *d = calloc(1, sizeof *d);
    ccl_rng_t rng;
    ccl_rng_init(&rng, 7);
    d->ngpus = ngpus;
    d->nflows = ngpus * (ngpus - 1);
    d->topo = kind == TREE ? tree(ngpus) : star(&rng, kind, ngpus);
    d->routes = ccl_routes_create(d->topo);
    d->net = ccl_i_net_create(d->topo, true);
    d->load_Bps = calloc(d->topo->nlinks, sizeof *d->load_Bps);
    d->fastest_Bps = calloc(d->topo->nlinks, sizeof *d->fastest_Bps);
    d->demand_Bps = calloc(d->topo->nlinks, sizeof *d->demand_Bps);
    uint32_t paths[MOST_FLOWS], begun = 0;
    for (uint32_t f = 0; f < d->nflows; f++) {
        uint32_t src = f % ngpus, dst = (src + 1 + f / ngpus) % ngpus;
        ck_assert_int_eq(ccl_routes_get(d->routes, src, dst, 0, &d->route[f], NULL), CCL_OK);
        double cap_Bps = caps && f % 3 == 0 ? 1.2e9 + 1e8 * (f % 7) : INFINITY;
        paths[f] = ccl_i_net_path(d->net, d->route[f], cap_Bps);
        ck_assert_uint_ne(paths[f], CCL_NONE);
        d->cap_Bps[f] = fmin(cap_Bps, d->route[f]->bottleneck_Bps);
        d->bytes[f] = d->left_bytes[f] = some_bytes(&rng, kind);
    }
    ck_assert(ccl_i_net_freeze(d->net));
    ccl_i_net_force(d->net, force);
    double now_s = 0;
    uint32_t rounds = 0;
    for (; rounds == 0 || d->nactive > 0; rounds++) {
        double next_s = ccl_i_net_next_s(d->net);
        for (uint32_t f = 0; f < d->nflows && d->nactive > 0; f++)
            d->left_bytes[f] -= d->active[f] ? d->rate_Bps[f] * (next_s - now_s) : 0;
        if (d->nactive > 0) {
            now_s = next_s;
            drain(d, now_s, what);
        }
        /* All at once, or a part first and then one for each that drains. */
        for (uint32_t more = late && begun > 0 ? 1
                             : late            ? d->nflows / 2
                                               : d->nflows;
             more > 0 && begun < d->nflows; more--, begun++) {
            ck_assert(ccl_i_net_start(d->net, paths[begun], d->bytes[begun], begun));
            d->active[begun] = true;
            d->nactive++;
        }
        ck_assert(ccl_i_net_solve(d->net, now_s));
        check_fair(d, now_s, what);
    }
    ck_assert_uint_eq(begun, d->nflows);
    ck_assert_uint_ge(rounds, d->nflows / 4); /* they do complete one by one */
    free(d->load_Bps);
    free(d->fastest_Bps);
    free(d->demand_Bps);
    ccl_i_net_destroy(d->net);
    ccl_routes_destroy(d->routes);
    ccl_topology_destroy(d->topo);
    free(d);
}

START_TEST(test_dense) {
    for (int force = 0; force < 2; force++)
        for (int k = 0; k < 4; k++)
            check_dense(_i, 20, force, k & 1, k & 2);
    /* Enough for levels that lie close and move little. */
    check_dense(_i, 64, 1, false, false);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.sim.dense");
    TCase *tcase = tcase_create("dense");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_dense, 0,
                        KINDS); /* two classes, all different, contention, a tree */
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
