/* Trees of switch connections against a search that lists every path and tries every root. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "tests/topologies/topology_helpers.h"

#define EQUAL_S 1e-15
enum { MOST_PATHS = 4096, MOST_HOPS = 16, MOST_LINKS = 256 };

typedef struct path {
    uint32_t links[MOST_HOPS], n;
    double wide_Bps, latency_s;
} path_t;

typedef struct paths {
    const ccl_topology_t *topo;
    path_t list[MOST_PATHS], now;
    uint32_t n, end;
    bool fast_only, full;
    bool seen[64];
} paths_t;

static bool is_fast(const ccl_topology_t *topo, uint32_t link) {
    const char *kind = topo->kinds[topo->links[link].kind];
    return strcmp(kind, "nvlink") == 0 || strcmp(kind, "xgmi") == 0;
}

static void extend(paths_t *p, uint32_t v) {
    if (v == p->end) {
        p->full |= p->n == MOST_PATHS;
        if (!p->full)
            p->list[p->n++] = p->now;
        return;
    }
    if (p->now.n > 0 && p->topo->devices[v].kind == CCL_DEVICE_GPU)
        return;
    for (uint32_t l = 0; l < p->topo->nlinks; l++) {
        const ccl_link_t *link = &p->topo->links[l];
        path_t before = p->now;
        if (link->from != v || p->seen[link->to] || (p->fast_only && !is_fast(p->topo, l)))
            continue;
        p->seen[link->to] = true;
        p->now.links[p->now.n++] = l;
        p->now.wide_Bps = fmin(p->now.wide_Bps, link->bandwidth_Bps);
        p->now.latency_s += link->latency_s;
        extend(p, link->to);
        p->now = before;
        p->seen[link->to] = false;
    }
}

/* The way from one device to another by the rules of routes; 0 links: there is none. */
static uint32_t way(paths_t *p, uint32_t from, uint32_t to, uint64_t turn, uint32_t *out) {
    p->n = 0;
    for (int all = 0; all < 2 && p->n == 0; all++) {
        p->now = (path_t){.wide_Bps = INFINITY};
        p->fast_only = !all;
        p->end = to;
        memset(p->seen, 0, sizeof p->seen);
        p->seen[from] = true;
        extend(p, from);
    }
    uint32_t fewest = CCL_NONE, n = 0;
    double wide_Bps = 0, least_s = INFINITY;
    for (uint32_t i = 0; i < p->n; i++)
        fewest = p->list[i].n < fewest ? p->list[i].n : fewest;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->list[i].n == fewest)
            wide_Bps = fmax(wide_Bps, p->list[i].wide_Bps);
    for (uint32_t i = 0; i < p->n; i++)
        if (p->list[i].n == fewest && p->list[i].wide_Bps == wide_Bps)
            least_s = fmin(least_s, p->list[i].latency_s);
    for (uint32_t v = from; p->n > 0 && v != to;) {
        uint32_t next[MOST_LINKS], m = 0;
        for (uint32_t l = 0; l < p->topo->nlinks; l++) {
            bool on = false;
            for (uint32_t i = 0; i < p->n && p->topo->links[l].from == v; i++)
                for (uint32_t k = 0; k < p->list[i].n; k++)
                    on |= p->list[i].links[k] == l && p->list[i].n == fewest &&
                          p->list[i].wide_Bps == wide_Bps &&
                          p->list[i].latency_s <= least_s + EQUAL_S;
            if (on)
                next[m++] = l;
        }
        ck_assert_uint_gt(m, 0);
        out[n++] = next[turn % m];
        v = p->topo->links[out[n - 1]].to;
    }
    return n;
}

typedef struct naive {
    uint32_t root, links[MOST_LINKS], n, first, last; /* first to last: of the members */
    double latency_s[16], wide_Bps, sum_s;
    bool fast;
} naive_t;

/* From `own` on, links may come again. */
static bool take(const ccl_topology_t *topo, naive_t *t, const uint32_t *links, uint32_t n,
                 uint32_t own, double *latency_s) {
    bool twice = false;
    for (uint32_t i = 0; i < n; i++) {
        bool known = false;
        *latency_s += topo->links[links[i]].latency_s;
        for (uint32_t k = 0; k < t->n; k++) {
            known |= t->links[k] == links[i];
            twice |= t->links[k] == links[i] && k < own;
        }
        if (!known)
            t->links[t->n++] = links[i];
    }
    return n > 0 && !twice;
}

static bool allowed(const ccl_topology_t *topo, const naive_t *t, bool reduces) {
    for (uint32_t i = t->first; i < t->last; i++) {
        for (uint32_t k = t->first; k < t->last; k++) {
            const ccl_link_t *a = &topo->links[t->links[i]], *b = &topo->links[t->links[k]];
            const ccl_device_t *to = &topo->devices[a->to], *from = &topo->devices[a->from];
            if (i == k)
                continue;
            if (reduces ? a->from == b->from : a->to == b->to)
                return false;
            if (reduces ? a->to == b->to && !to->reduce : a->from == b->from && !from->multicast)
                return false;
        }
    }
    return true;
}

static bool naive_tree(paths_t *p, bool reduces, uint32_t single, const uint32_t *members,
                       uint32_t n, uint32_t channel, naive_t *best) {
    const ccl_topology_t *topo = p->topo;
    uint64_t turn = (uint64_t)topo->rank_local_index[single] + channel;
    uint32_t links[MOST_HOPS], s = topo->rank_device[single];
    static naive_t all[64];
    uint32_t nall = 0;
    for (uint32_t w = 0; w < topo->ndevices; w++) {
        naive_t t = {.root = w, .wide_Bps = INFINITY, .fast = true};
        double single_s = 0;
        bool ok = topo->devices[w].kind == CCL_DEVICE_SWITCH;
        if (ok && !reduces)
            ok = take(topo, &t, links, way(p, s, w, turn, links), 0, &single_s);
        t.first = t.n;
        for (uint32_t i = 0; i < n && ok; i++) {
            uint32_t m = topo->rank_device[members[i]];
            uint32_t hops = reduces ? way(p, m, w, turn, links) : way(p, w, m, turn, links);
            ok = take(topo, &t, links, hops, t.first, &t.latency_s[i]);
        }
        t.last = t.n;
        if (ok && reduces)
            ok = take(topo, &t, links, way(p, w, s, turn, links), t.last, &single_s);
        if (!ok || !allowed(topo, &t, reduces))
            continue;
        for (uint32_t i = 0; i < n; i++)
            t.latency_s[i] += single_s;
        for (uint32_t i = 0; i < t.n; i++) {
            t.fast &= is_fast(topo, t.links[i]);
            t.wide_Bps = fmin(t.wide_Bps, topo->links[t.links[i]].bandwidth_Bps);
            t.sum_s += topo->links[t.links[i]].latency_s;
        }
        all[nall++] = t;
    }
    /* Drop what is worse, rule by rule; the first left has the lowest index. */
    bool fast = false;
    uint32_t fewest = CCL_NONE, first = CCL_NONE;
    double wide_Bps = 0, least_s = INFINITY;
    for (uint32_t i = 0; i < nall; i++)
        fast |= all[i].fast;
    for (uint32_t i = 0; i < nall; i++)
        if (all[i].fast == fast && all[i].n < fewest)
            fewest = all[i].n;
    for (uint32_t i = 0; i < nall; i++)
        if (all[i].fast == fast && all[i].n == fewest)
            wide_Bps = fmax(wide_Bps, all[i].wide_Bps);
    for (uint32_t i = 0; i < nall; i++)
        if (all[i].fast == fast && all[i].n == fewest && all[i].wide_Bps == wide_Bps)
            least_s = fmin(least_s, all[i].sum_s);
    for (uint32_t i = nall; i-- > 0;)
        if (all[i].fast == fast && all[i].n == fewest && all[i].wide_Bps == wide_Bps &&
            all[i].sum_s <= least_s + EQUAL_S)
            first = i;
    if (first != CCL_NONE)
        *best = all[first];
    return first != CCL_NONE;
}

START_TEST(random_graphs) {
    static paths_t p;
    ccl_rng_t rng;
    int trees = 0, without = 0, branching = 0;
    ccl_rng_init(&rng, 11 + (uint64_t)_i);
    for (int round = 0; round < 60; round++) {
        uint32_t gpus = 2 + ccl_rng_below(&rng, 4), others = 1 + ccl_rng_below(&rng, 6);
        ccl_topology_t *topo = random_topology(&rng, gpus, others, ccl_rng_below(&rng, 10), false);
        ccl_device_t *devices = (ccl_device_t *)topo->devices; /* ours */
        for (uint32_t d = 0; d < topo->ndevices; d++) {
            if (devices[d].kind != CCL_DEVICE_GPU && ccl_rng_below(&rng, 2))
                devices[d].kind = CCL_DEVICE_SWITCH;
            devices[d].multicast = devices[d].reduce =
                devices[d].kind == CCL_DEVICE_SWITCH && ccl_rng_below(&rng, 4) > 0;
        }
        ccl_routes_t *routes = ccl_routes_create(topo);
        ck_assert_ptr_nonnull(routes);
        p = (paths_t){.topo = topo};
        for (int ask = 0; ask < 20; ask++) {
            uint32_t members[8], n = 0, single = ccl_rng_below(&rng, gpus);
            uint32_t channel = ccl_rng_below(&rng, 5);
            bool reduces = ccl_rng_below(&rng, 2);
            for (uint32_t r = 0; r < gpus; r++)
                if (ccl_rng_below(&rng, 3))
                    members[n++] = r;
            if (n == 0)
                continue;
            naive_t want;
            const ccl_tree_t *tree = NULL, *again = NULL;
            bool exists = naive_tree(&p, reduces, single, members, n, channel, &want);
            ccl_status_t status =
                ccl_routes_tree(routes, reduces, single, members, n, channel, &tree, NULL);
            ck_assert(!p.full);
            ck_assert_int_eq(status, exists ? CCL_OK : CCL_UNSUPPORTED);
            if (!exists) {
                without++;
                continue;
            }
            ck_assert_uint_eq(tree->root, want.root);
            ck_assert_uint_eq(tree->route.nlinks, want.n);
            ck_assert_int_eq(memcmp(tree->route.links, want.links, want.n * sizeof(uint32_t)), 0);
            for (uint32_t i = 0; i < n; i++)
                ck_assert_double_eq_tol(tree->latency_s[i], want.latency_s[i], 1e-18);
            ck_assert(tree->route.bottleneck_Bps == want.wide_Bps);
            MUST(ccl_routes_tree(routes, reduces, single, members, n, channel, &again, e));
            ck_assert_ptr_eq(tree, again);
            trees++;
            branching += tree->nreducers + tree->ncopiers > 0;
        }
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    ck_assert_int_gt(trees, 100);
    ck_assert_int_gt(branching, 20);
    ck_assert_int_gt(without, 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.topologies.trees");
    TCase *tc = tcase_create("trees");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, random_graphs, 0, 8);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
