// timeout: 600
/*
 * Optimised placements of experts: within the limit of experts for a GPU, the same each time, with
 * the bound that they claim, never worse than balanced or block, better on unequal clusters and
 * where experts are chosen together, and near the best of all placements on tiny clusters.
 */
#include "schedule/schedule.h"
#include "tests/topologies/topologies.h"

#include "tests/base/main.h"
#include "tests/base/nightly.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = SANITIZED ? 4 : 12, NIGHTLY_ROUNDS = 100 };
enum { TINY = 12, EXPERTS = 6, GPUS = 4, ROOM = 2 };
/* Over the best of all placements. */
static const double NEAR = 1.02;

static ccl_topology_t *open_edited(const char *spec, const char *edit) {
    ccl_topology_t *topo = NULL, *edited = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_read(NULL, spec, &topo, &err) == CCL_OK, "%s", err.text);
    if (!edit)
        return topo;
    ck_assert_msg(ccl_topology_edit(topo, edit, &edited, &err) == CCL_OK, "%s", err.text);
    ccl_topology_destroy(topo);
    return edited;
}

/* A token's way is a chunk per server: out of its part once, into each part where it is wanted. */
static double recounted(const ccl_topology_t *topo, const ccl_collective_t *coll, bool combine) {
    ccl_cut_levels_t levels;
    double most = 0;
    ck_assert_int_eq(ccl_cut_levels_init(&levels, topo, NULL), CCL_OK);
    for (uint32_t v = 0; v < levels.nlevels; v++) {
        const ccl_cut_level_t *level = &levels.levels[v];
        for (uint32_t p = 0; p < level->nparts; p++) {
            double out = 0, in = 0;
            for (uint32_t k = 0; k < coll->nchunks; k++) {
                const ccl_chunk_t *c = &coll->chunks[k];
                uint32_t root = combine ? c->dests[0] : c->sources[0];
                uint32_t n = combine ? c->nsources : c->ndests;
                const uint32_t *ends = combine ? c->sources : c->dests;
                bool leaves = false, enters = false;
                for (uint32_t i = 0; i < n; i++) {
                    leaves |= level->part_of[root] == p && level->part_of[ends[i]] != p;
                    enters |= level->part_of[root] != p && level->part_of[ends[i]] == p;
                }
                out += leaves ? c->share * coll->natural_bytes : 0;
                in += enters ? c->share * coll->natural_bytes : 0;
            }
            most = fmax(most, out / (combine ? level->in_Bps[p] : level->out_Bps[p]));
            most = fmax(most, in / (combine ? level->out_Bps[p] : level->in_Bps[p]));
        }
    }
    ccl_cut_levels_fini(&levels);
    return most;
}

static ccl_collective_t *make(const ccl_topology_t *topo, const ccl_moe_options_t *o,
                              ccl_moe_report_t *r) {
    ccl_collective_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_moe_demand(topo, o, &out, r, &err) == CCL_OK, "%s", err.text);
    return out;
}

/* Every expert and copy has a place, and no GPU more than its part of them. */
static void check_places(const char *text, const ccl_moe_options_t *o, uint32_t n) {
    uint32_t count[64] = {0}, all = o->experts + o->copies, seen = 0;
    const char *at = strstr(text, "\"experts\": [");
    ck_assert_ptr_nonnull(at);
    for (at += strlen("\"experts\": ["); *at; at++) {
        if (*at < '0' || *at > '9')
            continue;
        char *end;
        unsigned long g = strtoul(at, &end, 10);
        ck_assert_uint_lt(g, n);
        count[g]++;
        seen++;
        at = end - 1;
    }
    ck_assert_uint_eq(seen, all);
    for (uint32_t g = 0; g < n; g++)
        ck_assert_uint_le(count[g], (all + n - 1) / n);
}

/* ---------------------------------------------------------------- random cases */

static void check_round(uint64_t seed, uint32_t *better) {
    static const char *const clusters[] = {"servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s",
                                           "heteccl-h20-4+8",
                                           "h20-x4*2+h20-x8",
                                           "mi300x-x8*2",
                                           "dgx-h100*2",
                                           "dgx-h100"};
    static const char *const skews[] = {"even", "zipf:0.8", "gini:0.3", "zipf:1.5"};
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed);
    ccl_topology_t *topo =
        open_edited(clusters[ccl_rng_below(&rng, CCL_ARRAY_LEN(clusters))], NULL);
    ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
    ccl_moe_report_t r, again_r;
    ccl_text_t text = {0}, again_text = {0};
    o.experts = 4 + ccl_rng_below(&rng, 60);
    o.top_k = 1 + ccl_rng_below(&rng, 4);
    o.tokens = 8 + ccl_rng_below(&rng, 60);
    o.skew = skews[ccl_rng_below(&rng, CCL_ARRAY_LEN(skews))];
    o.copies = ccl_rng_below(&rng, 3) ? 0 : ccl_rng_below(&rng, 20);
    o.affinity = ccl_rng_below(&rng, 2) ? 0 : ccl_rng_unit(&rng);
    o.combine = ccl_rng_below(&rng, 2);
    o.seed = seed;
    o.placement = CCL_MOE_OPTIMISED;
    o.write = &text;
    ccl_collective_t *coll = make(topo, &o, &r);
    o.write = &again_text;
    if (seed % 5 == 0) {
        ccl_collective_t *again = make(topo, &o, &again_r);
        ck_assert(ccl_collective_equal(coll, again) && strcmp(text.data, again_text.data) == 0);
        ccl_collective_destroy(again);
    }
    check_places(text.data, &o, topo->nranks);
    double bound_s = recounted(topo, coll, o.combine);
    ck_assert_msg(fabs(r.bound_s - bound_s) <= 1e-9 * bound_s, "seed %llu: %g is %g",
                  (unsigned long long)seed, r.bound_s, bound_s);
    static const ccl_moe_placement_t others[] = {CCL_MOE_BLOCK, CCL_MOE_BALANCED};
    for (uint32_t i = 0; i < 2; i++) {
        o.write = NULL;
        o.placement = others[i];
        ccl_moe_report_t other_r;
        ccl_collective_t *other = make(topo, &o, &other_r);
        double other_s = recounted(topo, other, o.combine);
        double told_s = i ? r.balanced_bound_s : r.block_bound_s;
        ck_assert_msg(r.bound_s <= other_s * (1 + 1e-9), "seed %llu on %s: %g us, %g of %s",
                      (unsigned long long)seed, topo->name, 1e6 * r.bound_s, 1e6 * other_s,
                      i ? "balanced" : "block");
        ck_assert_double_eq_tol(told_s, other_s, 1e-9 * other_s);
        ck_assert_ptr_null(other_r.border);
        *better += i && r.bound_s < 0.98 * other_s;
        ccl_collective_destroy(other);
    }
    ccl_text_fini(&text);
    ccl_text_fini(&again_text);
    ccl_collective_destroy(coll);
    ccl_topology_destroy(topo);
}

START_TEST(never_worse_than_balanced) {
    uint32_t better = 0, rounds = nightly() ? NIGHTLY_ROUNDS : ROUNDS;
    for (uint64_t seed = 1; seed <= rounds; seed++)
        check_round(seed, &better);
    ck_assert_msg(better > rounds / 2, "%u of %u are better", better, rounds);
}
END_TEST

/* ---------------------------------------------------------------- where there is something to gain
 */

static const struct {
    const char *topology, *edit;
    double affinity, gain; /* at least so much faster than balanced */
} unequal[] = {
    {"heteccl-h20-4+8", NULL, 0, 0.2},     {"h20-x4*2+h20-x8", NULL, 0, 0.02},
    {"dgx-h100*4", "fail:nic:0", 0, 0.05}, {"dgx-h100*2", "fail:nic:0", 0, 0.02},
    {"dgx-h100*4", NULL, 0.7, 0.2},
};

START_TEST(better_on_unequal_clusters) {
    ccl_topology_t *topo = open_edited(unequal[_i].topology, unequal[_i].edit);
    ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
    ccl_moe_report_t r;
    o.tokens = 128;
    o.experts = 128;
    o.skew = "zipf:0.8";
    o.affinity = unequal[_i].affinity;
    o.placement = CCL_MOE_OPTIMISED;
    ccl_collective_destroy(make(topo, &o, &r));
    ck_assert_msg(r.bound_s < (1 - unequal[_i].gain) * r.balanced_bound_s,
                  "%s: %.4g us, balanced %.4g", topo->name, 1e6 * r.bound_s,
                  1e6 * r.balanced_bound_s);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- all placements of a tiny cluster
 */

typedef struct sets {
    uint32_t n, src[4096], set[4096], tokens[4096]; /* tokens of a GPU to a set of experts */
} sets_t;

/* What tokens choose, seen on one server where each expert has a GPU of its own, behind those that
   send; there nobody is popular. */
static void read_sets(const ccl_moe_options_t *tiny, const char *skew, sets_t *out) {
    ccl_topology_t *topo = open_edited("servers:1 gpus:10 nvswitch=300GB/s nics:1x25GB/s", NULL);
    ccl_moe_options_t o = *tiny;
    ccl_moe_report_t r;
    o.skew = skew;
    o.experts = GPUS + EXPERTS;
    o.placement = CCL_MOE_BLOCK;
    o.write = NULL;
    ccl_collective_t *coll = make(topo, &o, &r);
    out->n = 0;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        uint32_t set = 0;
        for (uint32_t i = 0; i < c->ndests; i++)
            set |= 1u << (c->dests[i] - GPUS);
        if (c->sources[0] >= GPUS)
            continue;
        out->src[out->n] = c->sources[0];
        out->set[out->n] = set;
        out->tokens[out->n++] =
            (uint32_t)round(c->share * coll->natural_bytes / (o.hidden * o.element_bytes));
    }
    ccl_collective_destroy(coll);
    ccl_topology_destroy(topo);
}

/* Two GPUs a server: border of GPUs and of servers. */
static double time_of(const sets_t *sets, const ccl_cut_levels_t *levels, const uint32_t *gpu,
                      double token_bytes) {
    double out[2][GPUS] = {{0}}, in[2][GPUS] = {{0}}, most = 0;
    for (uint32_t k = 0; k < sets->n; k++) {
        uint32_t wanted = 0, src = sets->src[k];
        for (uint32_t e = 0; e < EXPERTS; e++)
            wanted |= sets->set[k] >> e & 1 ? 1u << gpu[e] : 0;
        wanted &= ~(1u << src);
        for (uint32_t s = 0; s < 2; s++) {
            uint32_t there = wanted >> (2 * s) & 3;
            if (!there)
                continue;
            out[0][src] += sets->tokens[k];
            in[0][2 * s] += there & 1 ? sets->tokens[k] : 0;
            in[0][2 * s + 1] += there & 2 ? sets->tokens[k] : 0;
            out[1][src / 2] += s != src / 2 ? sets->tokens[k] : 0;
            in[1][s] += s != src / 2 ? sets->tokens[k] : 0;
        }
    }
    for (uint32_t v = 0; v < levels->nlevels && v < 2; v++)
        for (uint32_t p = 0; p < levels->levels[v].nparts; p++)
            most = fmax(most, token_bytes * fmax(out[v][p] / levels->levels[v].out_Bps[p],
                                                 in[v][p] / levels->levels[v].in_Bps[p]));
    return most;
}

static double best_of_all(const sets_t *sets, const ccl_cut_levels_t *levels, double token_bytes) {
    double best = INFINITY;
    for (uint32_t code = 0; code < 1u << (2 * EXPERTS); code++) {
        uint32_t gpu[EXPERTS], count[GPUS] = {0};
        bool fits = true;
        for (uint32_t e = 0; e < EXPERTS; e++) {
            gpu[e] = code >> (2 * e) & 3;
            fits &= ++count[gpu[e]] <= ROOM;
        }
        if (fits)
            best = fmin(best, time_of(sets, levels, gpu, token_bytes));
    }
    return best;
}

static void write_skew(char *path, uint32_t zeros, const double *weight) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (uint32_t i = 0; i < zeros; i++)
        fprintf(file, "0\n");
    for (uint32_t e = 0; e < EXPERTS; e++)
        fprintf(file, "%.6f\n", weight[e]);
    fclose(file);
}

START_TEST(near_the_best_of_all_placements) {
    char skew[] = "/tmp/ccllab-skew-XXXXXX", seen[] = "/tmp/ccllab-skew-XXXXXX";
    static sets_t sets;
    close(mkstemp(skew));
    close(mkstemp(seen));
    for (uint32_t round = 0; round < TINY; round++) {
        ccl_topology_t *topo =
            open_edited(round % 2 ? "servers:2 gpus:2 nvswitch=100GB/s nics:2x25GB/s"
                                  : "servers:2 gpus:2 nvswitch=30GB/s nics:2x25GB/s",
                        round % 3 ? NULL : "degrade:s0/nic0-s0/gpu0=5GB/s");
        ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
        ccl_moe_report_t r;
        ccl_cut_levels_t levels;
        ccl_rng_t rng;
        double weight[EXPERTS];
        ccl_rng_init(&rng, round);
        for (uint32_t e = 0; e < EXPERTS; e++)
            weight[e] = 0.1 + ccl_rng_unit(&rng) * (1 + e % 3);
        write_skew(skew, 0, weight);
        write_skew(seen, GPUS, weight);
        o.experts = EXPERTS;
        o.top_k = 1 + round % 3;
        o.tokens = 50;
        o.seed = round;
        o.skew = skew;
        o.placement = CCL_MOE_OPTIMISED;
        ccl_collective_destroy(make(topo, &o, &r));
        read_sets(&o, seen, &sets);
        ck_assert_int_eq(ccl_cut_levels_init(&levels, topo, NULL), CCL_OK);
        double best_s = best_of_all(&sets, &levels, o.hidden * o.element_bytes);
        ck_assert_msg(r.bound_s >= best_s * (1 - 1e-9), "round %u: %g is better than the best %g",
                      round, r.bound_s, best_s);
        ck_assert_msg(r.bound_s <= NEAR * best_s, "round %u: %g us, the best %g", round,
                      1e6 * r.bound_s, 1e6 * best_s);
        ccl_cut_levels_fini(&levels);
        ccl_topology_destroy(topo);
    }
    unlink(skew);
    unlink(seen);
}
END_TEST

/* ---------------------------------------------------------------- affinity */

START_TEST(affinity_shares_ways) {
    ccl_topology_t *topo = open_edited("dgx-h100*4", NULL);
    ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
    ccl_moe_report_t apart, together;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *none = NULL;
    o.tokens = 64;
    o.placement = CCL_MOE_OPTIMISED;
    ccl_collective_destroy(make(topo, &o, &apart));
    o.affinity = 1;
    ccl_collective_destroy(make(topo, &o, &together));
    ck_assert_msg(together.network_bytes < 0.6 * apart.network_bytes, "%g of %g bytes",
                  together.network_bytes, apart.network_bytes);
    o.affinity = 1.5;
    ck_assert_int_eq(ccl_moe_demand(topo, &o, &none, NULL, &err), CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "an affinity of 1.5: 0 to 1");
    ck_assert_ptr_null(none);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("moe");
    TCase *tcase = tcase_create("moe");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, never_worse_than_balanced);
    tcase_add_loop_test(tcase, better_on_unequal_clusters, 0,
                        SANITIZED ? 1 : (int)CCL_ARRAY_LEN(unequal));
    tcase_add_test(tcase, near_the_best_of_all_placements);
    tcase_add_test(tcase, affinity_shares_ways);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
