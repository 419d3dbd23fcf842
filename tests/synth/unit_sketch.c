/* Sketches on clusters where every number can be worked out by hand. */
#include "common.h"
#include "synth/sketch/candidates.h"
#include "synth/synth.h"

#include <math.h>

typedef struct made {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_collective_t *want;
    ccl_symmetry_t *symmetry;
    ccl_i_space_t space;
    ccl_i_grower_t grower;
} made_t;

static void make(made_t *m, const char *spec, ccl_collective_kind_t kind) {
    ccl_error_t err = CCL_ERROR_INIT;

    m->topo = topology(spec);
    m->routes = ccl_routes_create(m->topo);
    m->want = collective(kind, m->topo->nranks, 0);
    ck_assert_int_eq(ccl_symmetry_find(NULL, m->topo, m->routes, &m->symmetry, &err), CCL_OK);
    ck_assert_msg(ccl_i_space_init(&m->space, m->topo, m->routes, m->symmetry, m->want, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ck_assert_int_eq(ccl_i_grower_init(&m->grower, &m->space, &err), CCL_OK);
}

static void done(made_t *m) {
    ccl_i_grower_fini(&m->grower);
    ccl_i_space_fini(&m->space);
    ccl_symmetry_destroy(m->symmetry);
    ccl_collective_destroy(m->want);
    ccl_routes_destroy(m->routes);
    ccl_topology_destroy(m->topo);
}

/* Stages as letters per dimension: '-' none, 'o' one, 'e' each, 'a' all, 'f' flood. */
static ccl_i_sketch_t sketch_of(const made_t *m, const char *stages, uint8_t *reach) {
    ccl_i_sketch_t sketch = {.nstages = 0, .reach = reach};
    uint32_t d = 0;

    for (; *stages; stages++) {
        const char *at = strchr("-oeaf", *stages);

        if (*stages == ' ') {
            ck_assert_uint_eq(d, m->space.ndimensions);
            d = 0;
            continue;
        }
        ck_assert_ptr_nonnull(at);
        if (d == 0)
            sketch.nstages++;
        for (uint32_t g = m->space.first_group[d]; g < m->space.first_group[d + 1]; g++)
            reach[(sketch.nstages - 1) * m->space.ngroups + g] = (uint8_t)(at - "-oeaf");
        d++;
    }
    return sketch;
}

/* Parents of ranks 0 .. n-1 as the text "0,0,1", '-' for the root and '?' for those not reached. */
static void check_tree(made_t *m, const char *stages, const uint8_t *shapes, uint32_t root,
                       uint32_t turn, const char *expected) {
    uint8_t reach[256] = {0};
    ccl_i_sketch_t sketch = sketch_of(m, stages, reach);
    ccl_text_t text = {0};
    bool whole = ccl_i_grow(&m->grower, &sketch, shapes, root, turn);

    for (uint32_t r = 0; r < m->topo->nranks; r++) {
        if (r == root)
            ccl_text_printf(&text, "%s-", r ? " " : "");
        else if (m->grower.got[r] == 0)
            ccl_text_printf(&text, "%s?", r ? " " : "");
        else
            ccl_text_printf(&text, "%s%u", r ? " " : "", m->grower.parent[r]);
    }
    ck_assert_str_eq(text.data, expected);
    ck_assert_int_eq(whole, strchr(expected, '?') == NULL);
    /* Parents have it in an earlier step, over a hop between the two. */
    for (uint32_t i = 1; i < m->grower.norder; i++) {
        uint32_t r = m->grower.order[i], p = m->grower.parent[r];
        const ccl_i_hop_t *hop = &m->space.x.hops[m->grower.via[r]];

        ck_assert(p == root || m->grower.step[p] < m->grower.step[r]);
        ck_assert_uint_eq(hop->src, p);
        ck_assert_uint_eq(hop->dst, r);
    }
    ccl_text_fini(&text);
}

/* Two servers of four, a NIC for each GPU; two dimensions: nvlink, and net over one switch. */
#define PAIR "servers:2 gpus:4 nvswitch=180GB/s,1us nics:4x50GB/s,5us"

START_TEST(test_grow) {
    made_t m;

    make(&m, PAIR, CCL_ALLGATHER);
    const uint8_t chain[] = {CCL_I_SHAPE_CHAIN, CCL_I_SHAPE_CHAIN};

    ck_assert_uint_eq(m.space.ndimensions, 2);
    ck_assert_uint_eq(m.space.ngroups, 3);
    check_tree(&m, "a-", NULL, 0, 0, "- 0 0 0 ? ? ? ?");
    check_tree(&m, "-a", NULL, 0, 0, "- ? ? ? 0 0 0 0");
    check_tree(&m, "aa", NULL, 5, 0, "5 5 5 5 5 - 5 5");
    /* All of the server first, then each its own place in the other. */
    check_tree(&m, "a- -a", NULL, 0, 0, "- 0 0 0 0 1 2 3");
    check_tree(&m, "a- -a", NULL, 6, 0, "4 5 6 7 6 6 - 6");
    /* One: the next in the server, the own place across; turned by one. */
    check_tree(&m, "o-", NULL, 1, 0, "? - 1 ? ? ? ? ?");
    check_tree(&m, "o-", NULL, 1, 1, "? - ? 1 ? ? ? ?");
    check_tree(&m, "-o", NULL, 1, 0, "? - ? ? ? 1 ? ?");
    check_tree(&m, "-o", NULL, 1, 2, "? - ? ? ? ? ? 1");
    check_tree(&m, "-o a-", NULL, 1, 0, "1 - 1 1 5 1 5 5");
    /* Each: one GPU of every other server, none of its own. */
    check_tree(&m, "-e a-", NULL, 2, 0, "2 2 - 2 6 6 2 6");
    check_tree(&m, "-e a-", NULL, 2, 1, "2 2 - 2 7 7 7 2");
    /* Chains, in rank order from the holder on. */
    check_tree(&m, "a-", chain, 1, 0, "3 - 1 2 ? ? ? ?");
    /* One of three others a server, in chains: from the holder to two, and on from the first. */
    done(&m);
    make(&m, "servers:4 gpus:2 nvswitch=180GB/s,1us nics:2x50GB/s,5us", CCL_ALLGATHER);
    const uint8_t chains[] = {CCL_I_SHAPE_CHAINS, CCL_I_SHAPE_CHAINS};

    ck_assert_uint_eq(ccl_i_chain_length(CCL_I_SHAPE_DIRECT, 63), 1);
    ck_assert_uint_eq(ccl_i_chain_length(CCL_I_SHAPE_CHAIN, 63), 63);
    ck_assert_uint_eq(ccl_i_chain_length(CCL_I_SHAPE_CHAINS, 63), 8);
    check_tree(&m, "-e a-", NULL, 2, 0, "2 0 - 2 2 4 2 6");
    check_tree(&m, "-e a-", chain, 2, 0, "6 0 - 2 2 4 4 6");
    check_tree(&m, "-e a-", chains, 2, 0, "2 0 - 2 2 4 4 6");
    check_tree(&m, "-e a-", chains, 3, 1, "1 3 3 - 5 3 7 5");
    done(&m);
    make(&m, PAIR, CCL_ALLGATHER);
    /* A stage in which nobody new is reached changes nothing. */
    check_tree(&m, "a- a- -a", NULL, 0, 0, "- 0 0 0 0 1 2 3");
    done(&m);
}
END_TEST

START_TEST(test_grow_reduction) {
    /* Trees of a ReduceScatter are turned round: a hop u -> v is the route v -> u. */
    made_t m;

    make(&m, PAIR, CCL_REDUCESCATTER);

    ck_assert(m.space.up);
    check_tree(&m, "a- -a", NULL, 0, 0, "- 0 0 0 0 1 2 3");
    done(&m);
}
END_TEST

/* From one root over six servers of two: in a line each hands on to the next; in a tree the root's
   to two, the first of these to two more, the second to the last; inside a server from whoever got
   it there. */
START_TEST(test_grow_tree) {
    made_t m;
    uint8_t reach[256] = {0};
    static const uint32_t want[2][12] = {{0, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10},
                                         {0, 0, 0, 2, 0, 4, 2, 6, 2, 8, 4, 10}};

    make(&m, "servers:6 gpus:2 nvswitch=180GB/s,1us nics:2x50GB/s,5us", CCL_BROADCAST);
    for (int tree = 0; tree < 2; tree++) {
        ccl_i_sketch_t sketch = sketch_of(&m, "-e a-", reach);

        sketch.line = true;
        sketch.tree = tree;
        ck_assert(ccl_i_grow(&m.grower, &sketch, NULL, 0, 0));
        for (uint32_t r = 1; r < 12; r++)
            ck_assert_msg(m.grower.parent[r] == want[tree][r], "%s: %u has it from %u",
                          tree ? "tree" : "line", r, m.grower.parent[r]);
    }
    done(&m);
}
END_TEST

START_TEST(test_grow_missing_hops) {
    /* A ring of six: "all" is the two neighbours, flooding goes on from them. */
    made_t m;

    make(&m, "servers:1 gpus:6 nvlink=ring,10GB/s,1us", CCL_ALLGATHER);

    ck_assert_uint_eq(m.space.ndimensions, 1);
    ck_assert_uint_eq(m.space.reach_limit[0], CCL_I_REACH_FLOOD);
    check_tree(&m, "a", NULL, 0, 0, "- 0 ? ? ? 0");
    check_tree(&m, "a a", NULL, 0, 0, "- 0 1 ? 5 0");
    check_tree(&m, "f", NULL, 0, 0, "- 0 1 2 5 0");
    done(&m);
}
END_TEST

static ccl_i_sketch_stats_t search(made_t *m, ccl_i_sketch_limits_t limits, ccl_i_sketches_t *out) {
    ccl_i_sketch_stats_t stats;
    ccl_error_t err = CCL_ERROR_INIT;

    memset(out, 0, sizeof *out);
    ck_assert_msg(ccl_i_sketch_search(NULL, &m->space, &limits, out, &stats, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert_uint_eq(stats.found, out->n);
    return stats;
}

START_TEST(test_search_one_switch) {
    /* One group: all at once, or one GPU and then the others, from both holders or so. */
    made_t m;

    make(&m, "servers:1 gpus:4 nvswitch=10GB/s,1us", CCL_ALLGATHER);
    ccl_i_sketches_t found;
    ccl_i_sketch_stats_t stats =
        search(&m, (ccl_i_sketch_limits_t){true, true, true, CCL_NONE, 0, 100, 0}, &found);

    /* Two stages: "a"; "o a", "o o". */
    ck_assert_uint_eq(found.n, 3);
    ck_assert_str_eq(found.items[0].name, "nvlink");
    ck_assert_str_eq(found.items[1].name, "nvlink (one each) > nvlink (one each)");
    ck_assert_str_eq(found.items[2].name, "nvlink (one each) > nvlink");
    ck_assert_uint_eq(found.items[0].relays, 0);
    ck_assert_uint_eq(found.items[2].relays, 1);
    ck_assert_double_lt(found.items[0].depth_s, found.items[2].depth_s);
    ck_assert(!stats.capped);
    free(found.items);
    /* A cap is told. */
    stats = search(&m, (ccl_i_sketch_limits_t){true, true, true, CCL_NONE, 0, 2, 0}, &found);
    ck_assert_uint_eq(found.n, 2);
    ck_assert(stats.capped);
    free(found.items);
    /* So is one of partial sketches; few stages come first. */
    stats = search(&m, (ccl_i_sketch_limits_t){true, true, true, CCL_NONE, 0, 100, 3}, &found);
    ck_assert_uint_eq(stats.visited, 3);
    ck_assert_uint_eq(found.n, 1);
    ck_assert_str_eq(found.items[0].name, "nvlink");
    ck_assert(stats.capped);
    free(found.items);
    /* One stage only. */
    stats = search(&m, (ccl_i_sketch_limits_t){true, true, true, CCL_NONE, 1, 100, 0}, &found);
    ck_assert_uint_eq(found.n, 1);
    free(found.items);
    done(&m);
}
END_TEST

START_TEST(test_search_prunings) {
    made_t m;

    make(&m, PAIR, CCL_ALLTOALL);
    const ccl_i_sketch_limits_t all = {true, true, true, CCL_NONE, 0, 60000, 0};
    ccl_i_sketch_limits_t some = all;
    ccl_i_sketches_t pruned, other;
    ccl_i_sketch_stats_t stats = search(&m, all, &pruned);

    ck_assert_uint_gt(stats.isomorphic, 0);
    ck_assert_uint_gt(stats.relayed, 0);
    ck_assert_double_gt(stats.inconsistent, 0);
    for (size_t i = 0; i < pruned.n; i++)
        ck_assert_uint_le(pruned.items[i].relays, 1);
    /* Each rule only takes away: what it took is what comes back. */
    some.prune_isomorphic = false;
    ccl_i_sketch_stats_t more = search(&m, some, &other);
    ck_assert_uint_eq(other.n, pruned.n + stats.isomorphic);
    ck_assert_uint_eq(more.isomorphic, 0);
    free(other.items);
    some = all;
    some.prune_isomorphic = some.prune_relays = false;
    search(&m, some, &other);
    ck_assert_uint_eq(other.n, pruned.n + stats.isomorphic + stats.relayed);
    free(other.items);
    some = all;
    some.relays = 0;
    search(&m, some, &other);
    ck_assert_uint_lt(other.n, pruned.n);
    for (size_t i = 0; i < other.n; i++)
        ck_assert_uint_eq(other.items[i].relays, 0);
    free(other.items);
    /* Groups of a dimension may differ: more sketches, the consistent ones among them. */
    some = all;
    some.prune_inconsistent = false;
    more = search(&m, some, &other);
    ck_assert(!more.capped);
    ck_assert_uint_gt(other.n, pruned.n);
    ck_assert_double_eq(more.inconsistent, 0);
    for (size_t i = 0; i < pruned.n; i++) {
        bool same = false;

        for (size_t k = 0; k < other.n; k++)
            same |= pruned.items[i].nstages == other.items[k].nstages &&
                    pruned.items[i].relays == other.items[k].relays &&
                    pruned.items[i].depth_s == other.items[k].depth_s;
        ck_assert(same);
    }
    free(other.items);
    free(pruned.items);
    done(&m);
}
END_TEST

/* Mixes of two sketches given by letters. */
static ccl_i_mixes_t mix(made_t *m, const char *const *stages, uint32_t n, uint32_t max_parts,
                         ccl_i_sketches_t *sketches, uint8_t reach[][256]) {
    ccl_i_mixes_t mixes = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    memset(sketches, 0, sizeof *sketches);
    ck_assert(ccl_grow(&sketches->items, &sketches->cap, n, sizeof *sketches->items));
    for (uint32_t i = 0; i < n; i++) {
        sketches->items[i] = sketch_of(m, stages[i], reach[i]);
        sketches->items[i].uses_one = strpbrk(stages[i], "oe") != NULL;
    }
    sketches->n = n;
    ck_assert_msg(ccl_i_sketch_mixes(NULL, &m->space, sketches, 2, max_parts, &mixes, &err) ==
                      CCL_OK,
                  "%s", err.text);
    return mixes;
}

static const ccl_i_mix_t *pair_of(const ccl_i_mixes_t *mixes) {
    for (size_t i = 0; i < mixes->n; i++) {
        if (mixes->items[i].n == 2)
            return &mixes->items[i];
    }
    return NULL;
}

START_TEST(test_shares) {
    /*
     * Eight servers of eight, rails of 50 GB/s, NVLink of 180. Of every chunk the share t goes
     * inside the server first and from there over all rails (every GPU's NIC then sends 7 chunks of
     * each of its 8 GPUs: 56 t), the rest along its own rail and then inside (7 (1 - t)). NVLink
     * carries 7 t and (1 - t) (7 + 56 - 7 + ...) as worked out below.
     */
    made_t m;

    make(&m, "syccl-h800-64", CCL_ALLGATHER);
    static const char *const stages[] = {"a- -a", "-a a-"};
    uint8_t reach[2][256] = {{0}};
    ccl_i_sketches_t sketches;
    ccl_i_mixes_t mixes = mix(&m, stages, 2, 24, &sketches, reach);
    const ccl_i_mix_t *both = pair_of(&mixes);
    double net = 0, nvlink = 0;

    ck_assert_uint_eq(m.space.ndimensions, 2);
    for (uint32_t r = 0; r < m.space.x.nresources; r++) {
        net = fmax(net, sketches.items[0].load[r]);
        nvlink = fmax(nvlink, sketches.items[1].load[r]);
    }
    /* First inside: 56 chunks over every NIC. First across: 7 over the NIC, 56 over NVLink. */
    ck_assert_double_eq_tol(net * 50e9, 56, 1e-9);
    ck_assert_double_eq_tol(nvlink * 180e9, 56, 1e-9);
    ck_assert_ptr_nonnull(both);
    /* (7 + 49 t) / 50 = (56 - 49 t) / 180. */
    double t = (56.0 / 180 - 7.0 / 50) / (49.0 / 50 + 49.0 / 180);
    uint32_t inside = both->sketch[0] == 0 ? 0 : 1;
    ck_assert_double_eq_tol(both->share[0][inside], t, 1e-6);
    ck_assert_double_eq_tol(both->share[0][inside] + both->share[0][1 - inside], 1, 1e-9);
    double z = (7 + 49 * t) / 50e9;
    ck_assert_double_eq_tol(both->ideal_s_per_byte, z, 1e-6 * z);
    /* Parts: never better than the exact shares, and as told. */
    ck_assert_double_ge(both->s_per_byte, both->ideal_s_per_byte * (1 - 1e-9));
    ck_assert_uint_eq(both->count[0][0] + both->count[0][1], both->parts);
    double part = (double)both->count[0][inside] / both->parts;
    double with_parts = fmax((7 + 49 * part) / 50e9, (56 - 49 * part) / 180e9);
    ck_assert_double_eq_tol(both->s_per_byte, with_parts, 1e-6 * z);
    /* Together better than each alone. */
    for (size_t i = 0; i < mixes.n; i++) {
        if (mixes.items[i].n == 1)
            ck_assert_double_gt(mixes.items[i].ideal_s_per_byte, both->ideal_s_per_byte);
    }
    free(mixes.items);
    free(sketches.items);
    done(&m);
}
END_TEST

/* At a size: every pair that may come near the best single sketch, few that cannot. */
START_TEST(test_far_pairs) {
    made_t m;

    make(&m, "heteccl-h20-4+8", CCL_ALLGATHER);
    static const char *const stages[] = {"a- -a", "-a a-", "aa"};
    static const double bytes[] = {1, 1e4, 1e8};
    uint8_t reach[3][256] = {{0}};
    ccl_i_sketches_t sketches;
    ccl_i_mixes_t all = mix(&m, stages, 3, 24, &sketches, reach);

    for (int b = 0; b < 3; b++) {
        ccl_i_mixes_t near = {.chunk_bytes = bytes[b], .longest = 1.26};
        ccl_i_mixes_t none = {.chunk_bytes = bytes[b], .longest = 0};
        ccl_error_t err = CCL_ERROR_INIT;
        double best_s = INFINITY;

        ck_assert_int_eq(ccl_i_sketch_mixes(NULL, &m.space, &sketches, 2, 24, &near, &err), CCL_OK);
        ck_assert_int_eq(ccl_i_sketch_mixes(NULL, &m.space, &sketches, 2, 24, &none, &err), CCL_OK);
        ck_assert_uint_eq(all.tried, 3 + 3 + 1); /* each, pairs, all together */
        ck_assert_uint_eq(none.tried, 3 + 1);
        ck_assert_uint_le(near.tried, all.tried);
        for (size_t i = 0; i < all.n; i++)
            if (all.items[i].n == 1)
                best_s =
                    fmin(best_s, ccl_i_mix_estimate(&m.space, &sketches, &all.items[i], bytes[b]));
        for (size_t i = 0; i < all.n; i++) {
            bool there = ccl_i_mix_estimate(&m.space, &sketches, &all.items[i], bytes[b]) >
                         near.longest * best_s;

            for (size_t k = 0; k < near.n; k++)
                there |= near.items[k].n == all.items[i].n &&
                         memcmp(near.items[k].sketch, all.items[i].sketch,
                                all.items[i].n * sizeof *all.items[i].sketch) == 0;
            ck_assert(there);
        }
        free(near.items);
        free(none.items);
    }
    free(all.items);
    free(sketches.items);
    done(&m);
}
END_TEST

START_TEST(test_fill) {
    /*
     * Across first: a single piece needs the time of its NIC (one chunk of 50 GB/s, while the
     * root's three go inside), then of NVLink in the other server (three); NVLink is busy for six
     * in all. To all at once there is nothing to wait for.
     */
    made_t m;

    make(&m, PAIR, CCL_ALLGATHER);
    static const char *const stages[] = {"-e a-", "aa"};
    uint8_t reach[2][256] = {{0}};
    ccl_i_sketches_t sketches;
    ccl_i_mixes_t mixes = mix(&m, stages, 2, 24, &sketches, reach);

    ck_assert_uint_eq(sketches.n, 2);
    ck_assert_double_eq_tol(sketches.items[0].fill_s_per_byte[CCL_I_SHAPE_DIRECT],
                            1 / 50e9 + 3 / 180e9 - 6 / 180e9, 1e-20);
    ck_assert_double_eq_tol(sketches.items[1].fill_s_per_byte[CCL_I_SHAPE_DIRECT], 0, 1e-20);
    ck_assert(isinf(m.space.piece_bytes)); /* links alone */
    free(mixes.items);
    free(sketches.items);
    done(&m);
}
END_TEST

START_TEST(test_shares_unbalanced) {
    /* Two sketches that use the same links: one of them is not needed, the pair is dropped. */
    made_t m;

    make(&m, "servers:1 gpus:4 nvswitch=10GB/s,1us", CCL_ALLTOALL);
    static const char *const stages[] = {"a", "o a"};
    uint8_t reach[2][256] = {{0}};
    ccl_i_sketches_t sketches;
    ccl_i_mixes_t mixes = mix(&m, stages, 2, 24, &sketches, reach);

    ck_assert_ptr_null(pair_of(&mixes));
    ck_assert_uint_gt(mixes.unbalanced, 0);
    ck_assert_uint_eq(mixes.n, 2); /* each alone */
    ck_assert_double_eq_tol(mixes.items[0].ideal_s_per_byte * 10e9, 3, 1e-9);
    /* Relayed: what goes on is sent twice, 3 + 2 of the chunks to others over every way out. */
    ck_assert_double_gt(mixes.items[1].ideal_s_per_byte, mixes.items[0].ideal_s_per_byte);
    free(mixes.items);
    free(sketches.items);
    done(&m);
}
END_TEST

START_TEST(test_shares_by_class) {
    /* Servers of four and of eight: roots of two classes, each with shares of 1. */
    made_t m;

    make(&m, "heteccl-h20-4+8", CCL_ALLGATHER);
    static const char *const stages[] = {"a- -a", "-a a-", "aa"};
    uint8_t reach[3][256] = {{0}};

    ck_assert_uint_gt(m.space.nclasses, 1);
    if (m.space.ndimensions == 2) {
        ccl_i_sketches_t sketches;
        ccl_i_mixes_t mixes = mix(&m, stages, 3, 24, &sketches, reach);

        ck_assert_uint_gt(mixes.n, 0);
        for (size_t i = 0; i < mixes.n; i++) {
            for (uint32_t c = 0; c < m.space.nclasses; c++) {
                uint32_t parts = 0;
                double sum = 0;

                for (uint32_t k = 0; k < mixes.items[i].n; k++) {
                    parts += mixes.items[i].count[c][k];
                    sum += mixes.items[i].share[c][k];
                }
                ck_assert_uint_eq(parts, mixes.items[i].parts);
                ck_assert_double_eq_tol(sum, 1, 1e-6);
            }
        }
        free(mixes.items);
        free(sketches.items);
    }
    done(&m);
}
END_TEST

START_TEST(test_signature) {
    /* Across, then inside: the server of the root may have it a stage earlier, which is the same
       trees. Inside first and then every GPU across is not. */
    static const char *const stages[] = {"-e a-", "ae a-", "a- -a"};
    made_t m;
    uint64_t signature[CCL_ARRAY_LEN(stages)], with_steps[CCL_ARRAY_LEN(stages)];

    make(&m, "servers:3 gpus:4 nvswitch=180GB/s,1us nics:4x50GB/s,5us", CCL_ALLGATHER);
    for (size_t i = 0; i < CCL_ARRAY_LEN(stages); i++) {
        uint8_t reach[64] = {0};
        ccl_i_sketch_t sketch = sketch_of(&m, stages[i], reach);
        const ccl_i_sketches_t sketches = {&sketch, 1, 1};
        const ccl_i_mix_t mix = {.n = 1, .parts = 1, .count = {{1}}};
        ccl_i_candidate_t c = {.mix = &mix, .channels = 1, .parts = 1, .cuts = 1};
        ccl_error_t err = CCL_ERROR_INIT;

        sketch.turns = 1;
        ck_assert_int_eq(ccl_i_candidate_sign(&m.space, &sketches, &c, false, &err), CCL_OK);
        signature[i] = c.signature;
        ck_assert_int_eq(ccl_i_candidate_sign(&m.space, &sketches, &c, true, &err), CCL_OK);
        with_steps[i] = c.signature;
    }
    ck_assert(signature[0] == signature[1]);
    ck_assert(signature[0] != signature[2]);
    ck_assert(with_steps[0] != with_steps[1]);
    done(&m);
}
END_TEST

START_TEST(test_fill_of_chains) {
    /*
     * Ten servers over one switch, across then inside: what comes last inside NVLink waits for, the
     * chunks of nine servers, of three at the ends of chains of three, of one at the end of a
     * chain. Where two holders hand on there is no chain, whatever is asked for.
     */
    made_t m;

    make(&m, "servers:10 gpus:2 nvswitch=180GB/s,0us nics:2x50GB/s,0us", CCL_ALLGATHER);
    static const char *const stages[] = {"-e a-", "-o -e a-"};
    uint8_t reach[2][256] = {{0}};
    ccl_i_sketches_t sketches;
    ccl_i_mixes_t mixes = mix(&m, stages, 2, 24, &sketches, reach);
    static const double last[CCL_I_SHAPES] = {9, 1, 3};

    ck_assert_uint_eq(m.space.ndimensions, 2);
    ck_assert_uint_eq(sketches.n, 2);
    for (uint32_t net = 0; net < CCL_I_SHAPES; net++) {
        const double *two = sketches.items[1].fill_s_per_byte;

        ck_assert_double_eq_tol(sketches.items[0].fill_s_per_byte[net], last[net] / 180e9, 1e-18);
        ck_assert_double_gt(two[net], last[CCL_I_SHAPE_CHAINS] / 180e9);
        ck_assert_double_eq_tol(two[net], two[CCL_I_SHAPE_DIRECT], 1e-18);
    }
    free(mixes.items);
    free(sketches.items);
    done(&m);
}
END_TEST

START_TEST(test_flows) {
    /* The same trees with and without a flow: its order has a step for each transfer, of a first
       hop over the network before one inside the server, which nobody waits for. */
    uint8_t reach[64] = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_cluster_t cluster;
    made_t m;

    make(&m, PAIR, CCL_ALLGATHER);
    ccl_i_sketches_t sketches = {calloc(1, sizeof *sketches.items), 1, 1};
    ccl_i_mixes_t mixes = {0};
    ccl_schedule_t *made[2] = {NULL, NULL};

    sketches.items[0] = sketch_of(&m, "-e a-", reach);
    ck_assert_int_eq(ccl_i_sketch_mixes(NULL, &m.space, &sketches, 1, 1, &mixes, &err), CCL_OK);
    ck_assert_int_eq(ccl_i_cluster_init(&cluster, m.topo, m.routes, &err), CCL_OK);
    for (int flows = 0; flows < 2; flows++) {
        const ccl_i_candidate_t c = {.mix = mixes.items,
                                     .channels = 1,
                                     .parts = 2,
                                     .cuts = 2,
                                     .flow_bytes = flows ? 1e6 : 0};

        const ccl_i_racer_t with = {.cluster = &cluster};
        ck_assert_int_eq(
            ccl_i_candidate_make(&with, &m.space, &sketches, &c, m.want, &made[flows], &err),
            CCL_OK);
    }
    ck_assert_uint_eq(made[0]->ntransfers, made[1]->ntransfers);
    ck_assert_uint_lt(made[0]->nsteps, made[0]->ntransfers);
    ck_assert_uint_eq(made[1]->nsteps, made[1]->ntransfers);
    for (uint32_t rank = 0; rank < m.topo->nranks; rank++) {
        bool inside = false;

        for (uint32_t i = 0; i < made[1]->ntransfers; i++) {
            const ccl_transfer_t *t = &made[1]->transfers[i];
            bool near = ccl_i_cluster_gpus(&cluster, 0) > 0 &&
                        cluster.server[t->src] == cluster.server[t->dst];

            if (t->src != rank || t->chunk / 2 != rank)
                continue;
            ck_assert(near || !inside);
            inside |= near;
        }
    }
    ccl_schedule_destroy(made[0]);
    ccl_schedule_destroy(made[1]);
    ccl_i_cluster_fini(&cluster);
    free(mixes.items);
    free(sketches.items);
    done(&m);
}
END_TEST

START_TEST(test_chains_start_sooner) {
    /* Ten servers over one switch, across then inside. Where blocks are too few for all
       connections, or transfers too many to simulate several, chains of 3 are told apart by when
       their first chunk is there: a third of the wait. */
    uint8_t reach[64] = {0};
    double estimate_s[3], fill_s;
    made_t m;

    make(&m, "servers:10 gpus:2 nvswitch=180GB/s,0us nics:2x50GB/s,0us", CCL_ALLGATHER);
    ccl_i_sketches_t sketches = {calloc(1, sizeof *sketches.items), 1, 1};
    ccl_i_mixes_t mixes = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    sketches.items[0] = sketch_of(&m, m.space.ndimensions == 2 ? "-e a-" : "-e- a--", reach);
    ck_assert_int_eq(ccl_i_sketch_mixes(NULL, &m.space, &sketches, 1, 1, &mixes, &err), CCL_OK);
    ck_assert_uint_eq(mixes.n, 1);
    for (uint32_t i = 0; i < 3; i++) {
        const ccl_i_costs_t costs = {
            .chunk_bytes = 1e6, .ways = i == 2 ? 1000 : 1, .sms = i == 1 ? 4 : 1000};
        ccl_i_candidates_t all = {0};

        ck_assert(ccl_i_candidates_add(&all, &m.space, &sketches, &costs,
                                       (ccl_i_variant_t){mixes.items, 1, 1, CCL_I_SHAPE_CHAINS}));
        ck_assert_uint_eq(all.n, 1);
        ck_assert(!all.items[0].wide);
        estimate_s[i] = all.items[0].estimate_s;
        free(all.items);
    }
    fill_s = mixes.items[0].fill_s_per_byte[CCL_I_SHAPE_DIRECT] * 1e6;
    ck_assert_double_gt(fill_s, 0);
    ck_assert_double_eq_tol(estimate_s[0] - estimate_s[1], fill_s * 2 / 3, 1e-9);
    ck_assert_double_eq_tol(estimate_s[0] - estimate_s[2], fill_s * 2 / 3, 1e-9);
    free(mixes.items);
    free(sketches.items);
    done(&m);
}
END_TEST

START_TEST(test_enough) {
    /* One switch, no latencies: the first candidates are at the bound, others are not simulated.
       With latencies that count none is, so all are. */
    static const struct {
        const char *spec;
        double size_bytes;
        bool stops;
    } rows[] = {
        {"servers:2 gpus:4 nvswitch=100GB/s,0us nics:4x10GB/s,0us", 1e9, true},
        {"servers:2 gpus:4 nvswitch=100GB/s,5us nics:4x10GB/s,9us", 1e5, false},
    };

    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].spec);
        ccl_collective_t *want = collective(CCL_ALLTOALL, topo->nranks, 0);
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_synth_stats_t stats = {0};
        ccl_schedule_t *schedule = NULL;
        ccl_error_t err = CCL_ERROR_INIT;

        options.size_bytes = rows[i].size_bytes;
        options.stats = &stats;
        ck_assert_int_eq(
            ccl_synthesize(NULL, "sketch", topo, NULL, want, &options, &schedule, &err), CCL_OK);
        ck_assert_uint_gt(stats.sketch.candidates, 2);
        if (rows[i].stops)
            ck_assert_uint_eq(stats.sketch.simulated, 2);
        else
            ck_assert_uint_gt(stats.sketch.simulated, 2);
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.sketch");
    TCase *tcase = tcase_create("sketch");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_grow);
    tcase_add_test(tcase, test_grow_reduction);
    tcase_add_test(tcase, test_grow_tree);
    tcase_add_test(tcase, test_grow_missing_hops);
    tcase_add_test(tcase, test_search_one_switch);
    tcase_add_test(tcase, test_search_prunings);
    tcase_add_test(tcase, test_shares);
    tcase_add_test(tcase, test_far_pairs);
    tcase_add_test(tcase, test_fill);
    tcase_add_test(tcase, test_shares_unbalanced);
    tcase_add_test(tcase, test_shares_by_class);
    tcase_add_test(tcase, test_signature);
    tcase_add_test(tcase, test_fill_of_chains);
    tcase_add_test(tcase, test_flows);
    tcase_add_test(tcase, test_chains_start_sooner);
    tcase_add_test(tcase, test_enough);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
