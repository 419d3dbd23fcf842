/* Routes against the definition, by listing every simple route of small random graphs. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "topology_helpers.h"

#define MAX_HOPS 16
#define MAX_ROUTES 20000

typedef struct found {
    uint32_t link[MAX_HOPS], n;
    double wide_Bps, latency_s;
} found_t;

typedef struct search {
    const ccl_topology_t *topo;
    uint32_t dst;
    bool fast_only;
    bool on_path[64];
    uint32_t path[MAX_HOPS];
    found_t *list;
    uint32_t len;
    bool overflow;
} search_t;

static bool is_fast(const ccl_topology_t *topo, uint32_t link) {
    const char *kind = topo->kinds[topo->links[link].kind];
    return strcmp(kind, "nvlink") == 0 || strcmp(kind, "xgmi") == 0;
}

static void all_routes(search_t *s, uint32_t at, uint32_t n) {
    if (at == s->dst) {
        if (s->len == MAX_ROUTES) {
            s->overflow = true;
            return;
        }
        found_t *f = &s->list[s->len++];
        *f = (found_t){.n = n, .wide_Bps = INFINITY};
        for (uint32_t i = 0; i < n; i++) {
            const ccl_link_t *link = &s->topo->links[s->path[i]];
            f->link[i] = s->path[i];
            f->wide_Bps = fmin(f->wide_Bps, link->bandwidth_Bps);
            f->latency_s += link->latency_s;
        }
        return;
    }
    if (n > 0 && s->topo->devices[at].kind == CCL_DEVICE_GPU)
        return;
    ck_assert_uint_lt(n, MAX_HOPS);
    s->on_path[at] = true;
    for (uint32_t l = 0; l < s->topo->nlinks; l++) {
        const ccl_link_t *link = &s->topo->links[l];
        if (link->from != at || s->on_path[link->to] || (s->fast_only && !is_fast(s->topo, l)))
            continue;
        s->path[n] = l;
        all_routes(s, link->to, n + 1);
    }
    s->on_path[at] = false;
}

/* Keep the routes that the definition calls equal, link set by link set, rule by rule. */
static void keep_best(search_t *s) {
    uint32_t hops = UINT32_MAX, kept = 0;
    double wide_Bps = 0, latency_s = INFINITY;
    for (uint32_t i = 0; i < s->len; i++)
        hops = s->list[i].n < hops ? s->list[i].n : hops;
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i].n == hops)
            wide_Bps = fmax(wide_Bps, s->list[i].wide_Bps);
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i].n == hops && s->list[i].wide_Bps == wide_Bps)
            latency_s = fmin(latency_s, s->list[i].latency_s);
    for (uint32_t i = 0; i < s->len; i++)
        if (s->list[i].n == hops && s->list[i].wide_Bps == wide_Bps &&
            s->list[i].latency_s <= latency_s + 1e-15)
            s->list[kept++] = s->list[i];
    s->len = kept;
}

static int u32_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Next links of the kept routes that pass `at`, ascending; returns their number. */
static uint32_t next_links(const search_t *s, uint32_t at, uint32_t *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->len; i++) {
        for (uint32_t k = 0; k < s->list[i].n; k++) {
            uint32_t l = s->list[i].link[k];
            bool known = s->topo->links[l].from != at;
            for (uint32_t q = 0; q < n; q++)
                known |= out[q] == l;
            if (!known)
                out[n++] = l;
        }
    }
    qsort(out, n, sizeof *out, u32_compare);
    return n;
}

static void check_pair(search_t *s, ccl_routes_t *routes, uint32_t a, uint32_t b, uint32_t *forks) {
    static const uint32_t channels[] = {0, 1, 2, 3, 4, 5, 6, 7, 11, 100, UINT32_MAX};
    const ccl_topology_t *topo = s->topo;
    uint32_t src = topo->rank_device[a], next[256];
    s->dst = topo->rank_device[b];
    for (int all = 0; all < 2; all++) {
        s->fast_only = !all;
        s->len = 0;
        all_routes(s, src, 0);
        if (s->len > 0)
            break;
    }
    if (s->overflow)
        return;
    keep_best(s);
    const ccl_route_t *route;
    ccl_error_t err = CCL_ERROR_INIT;
    if (s->len == 0) {
        ck_assert_int_eq(ccl_routes_get(routes, a, b, 0, &route, &err), CCL_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(err.text, topo->devices[src].id));
        ck_assert_ptr_nonnull(strstr(err.text, topo->devices[s->dst].id));
        ck_assert_uint_eq(ccl_routes_width(routes, a, b), 0);
        ck_assert_uint_eq(ccl_routes_period(routes, a, b), 0);
        return;
    }
    uint32_t width = 0;
    for (uint32_t v = 0; v < topo->ndevices; v++) {
        uint32_t m = next_links(s, v, next);
        width = m > width ? m : width;
    }
    *forks += width > 1;
    for (size_t c = 0; c < CCL_ARRAY_LEN(channels); c++) {
        ck_assert_int_eq(ccl_routes_get(routes, a, b, channels[c], &route, NULL), CCL_OK);
        ck_assert_uint_eq(route->nlinks, s->list[0].n);
        uint32_t at = src;
        bool net = false, pcie = false;
        double latency_s = 0;
        for (uint32_t i = 0; i < route->nlinks; i++) {
            uint32_t m = next_links(s, at, next);
            uint64_t turn = (uint64_t)topo->rank_local_index[a] + channels[c];
            uint32_t expected = next[turn % m];
            ck_assert_msg(route->links[i] == expected,
                          "rank %u to %u channel %u hop %u: link %u, by definition %u", a, b,
                          channels[c], i, route->links[i], expected);
            const ccl_link_t *link = &topo->links[expected];
            net |= strcmp(topo->kinds[link->kind], "net") == 0;
            pcie |= strcmp(topo->kinds[link->kind], "pcie") == 0;
            latency_s += link->latency_s;
            at = link->to;
        }
        ck_assert_uint_eq(at, s->dst);
        ck_assert(route->crosses_net == net && route->crosses_pcie == pcie);
        ck_assert(route->latency_s == latency_s);
        ck_assert(route->bottleneck_Bps == s->list[0].wide_Bps);
        ck_assert_uint_eq(route->first_kind, topo->links[route->links[0]].kind);
    }
    ck_assert_uint_eq(ccl_routes_width(routes, a, b), width);
}

START_TEST(brute_force) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 20260);
    search_t *s = calloc(1, sizeof *s);
    s->list = calloc(MAX_ROUTES, sizeof *s->list);
    uint32_t pairs = 0, forks = 0;
    for (int round = 0; round < 400; round++) {
        uint32_t gpus = 2 + ccl_rng_below(&rng, 4), others = ccl_rng_below(&rng, 8);
        ccl_topology_t *topo = random_topology(&rng, gpus, others, ccl_rng_below(&rng, 24), false);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ck_assert_ptr_nonnull(routes);
        s->topo = topo;
        for (uint32_t i = 0; i < gpus; i++) {
            for (uint32_t k = 0; k < gpus; k++) {
                /* By source, where pairs are solved ahead of being asked for, and by destination.
                 */
                uint32_t a = round % 2 ? i : k, b = round % 2 ? k : i;
                if (a == b)
                    continue;
                s->overflow = false;
                memset(s->on_path, 0, sizeof s->on_path);
                check_pair(s, routes, a, b, &forks);
                pairs += !s->overflow;
            }
        }
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    free(s->list);
    free(s);
    /* The graphs must be worth the name: many pairs, many of them with a choice. */
    ck_assert_uint_gt(pairs, 3500);
    ck_assert_uint_gt(forks, 500);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.topologies.routes");
    TCase *tc = tcase_create("definition");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, brute_force);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
