// timeout: 600
/*
 * alltoallv on random matrices and clusters: plans are right by both verifiers, carry every byte,
 * are no faster than any bound and near it, the same from a matrix, a demand and again; a dispatch
 * moves over the network what its sets of GPUs need and no more.
 */
#include <math.h>

#include "bench/small_clusters.h"
#include "common.h"
#include "tests/base/nightly.h"
#include "tests/runtime/random_demand.h"

enum { ROUNDS = 60, NIGHTLY_ROUNDS = 100000, EVERY = 8 /* of these one is simulated */ };

static const char *const clusters[] = {
    "servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s fabric=rail",
    "servers:4 gpus:8 nvswitch=450GB/s nics:8x50GB/s",
    "servers:3 gpus:8 nvswitch=200GB/s nics:4x25GB/s",
    "h20-x4*2+h20-x8",
    "mi300x-x8",
    "mi300x-x8*2",
    "dgx1-v100",
    "a100-x8-4nic*2",
    "dgx-h100*4",
};

static ccl_topology_t *cluster(ccl_rng_t *rng) {
    const char *name = clusters[ccl_rng_below(rng, CCL_ARRAY_LEN(clusters))];
    ccl_topology_t *topo = NULL, *edited = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_read(NULL, name, &topo, &err) == CCL_OK, "%s", err.text);
    if (ccl_rng_below(rng, 3) == 0 && topo->nservers > 1) {
        char edit[32];
        snprintf(edit, sizeof edit, "fail:nic:%u", ccl_rng_below(rng, 4));
        if (ccl_topology_edit(topo, edit, &edited, NULL) == CCL_OK) {
            ccl_topology_destroy(topo);
            topo = edited;
        }
    }
    return topo;
}

/* Even, skewed by pairs or by destinations, or with few blocks. */
static double *matrix(uint32_t n, ccl_rng_t *rng) {
    double *m = calloc((size_t)n * n, sizeof *m);
    uint32_t kind = ccl_rng_below(rng, 4), hot = ccl_rng_below(rng, n);
    for (size_t i = 0; i < (size_t)n * n; i++) {
        double u = ccl_rng_unit(rng);
        m[i] = kind == 0 ? 1e6 : kind == 1 ? 1e5 / (u + 0.02) : kind == 2 ? 1e5 : u < 0.9 ? 0 : 1e6;
        m[i] *= kind == 2 && i % n == hot ? 40 : 1;
        m[i] = round(m[i]);
    }
    m[1] += 1000;
    return m;
}

/* By the general verifier: a schedule with a group, which no transfer uses, goes there. */
static bool right_in_general(const ccl_schedule_t *schedule) {
    ccl_schedule_t other = *schedule;
    const uint32_t ranks[] = {0, 1};
    const ccl_peer_group_t group = {ranks, 2};
    ccl_verdict_t verdict;
    other.groups = &group;
    other.ngroups = 1;
    ck_assert(ccl_schedule_verify(NULL, &other, &verdict, NULL) == CCL_OK);
    return verdict.valid;
}

static void check_bytes(const ccl_schedule_t *s, const double *m, uint32_t n, const char *name) {
    double *sum = calloc((size_t)n * n, sizeof *sum);
    for (uint32_t k = 0; k < s->coll->nchunks; k++) {
        const ccl_chunk_t *c = &s->coll->chunks[k];
        sum[(size_t)c->sources[0] * n + c->dests[0]] += c->share * s->coll->natural_bytes;
    }
    for (size_t i = 0; i < (size_t)n * n; i++)
        ck_assert_msg(fabs(sum[i] - m[i]) <= 1e-6 * (m[i] + 1), "%s: %g of %g bytes", name, sum[i],
                      m[i]);
    free(sum);
}

static double simulated(const ccl_topology_t *topo, const ccl_schedule_t *s) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    sim.size_bytes = s->coll->natural_bytes;
    ck_assert_msg(ccl_lower(NULL, s, &lower, &program, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(ccl_sim_program(NULL, topo, NULL, program, &sim, &result, &err) == CCL_OK, "%s",
                  err.text);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return time_s;
}

static void check_bound(const ccl_topology_t *topo, const ccl_schedule_t *s,
                        const ccl_alltoallv_report_t *r, bool simulate) {
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = s->coll->natural_bytes;
    options.proto = "Simple";
    ck_assert_msg(ccl_bound(NULL, topo, s->coll, &options, &bound, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(r->bound_s <= bound.bandwidth_s * (1 + 1e-5), "%s: the cut %g is above %g",
                  topo->name, r->bound_s, bound.bandwidth_s);
    ck_assert_msg(bound.bandwidth_s <= r->load_s * (1 + 1e-9), "%s: a bound of %g, a load of %g",
                  topo->name, bound.bandwidth_s, r->load_s);
    ck_assert_msg(r->load_s <= 1.25 * bound.bandwidth_s, "%s: load %.3f of the bound; %s",
                  topo->name, r->load_s / bound.bandwidth_s, s->origin);
    if (simulate)
        ck_assert_msg(simulated(topo, s) >= bound.time_s * (1 - 1e-9), "%s: faster than the bound",
                      topo->name);
    ccl_bound_fini(&bound);
}

static void change(double *m, uint32_t n, ccl_rng_t *rng) {
    for (size_t i = 0; i < (size_t)n * n; i++)
        if (m[i] > 0 && ccl_rng_below(rng, 10) == 0)
            m[i] = round(m[i] * (0.5 + ccl_rng_unit(rng)) + 1);
}

static void check_round(uint64_t seed) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed);
    ccl_topology_t *topo = cluster(&rng);
    uint32_t n = topo->nranks;
    double *m = matrix(n, &rng), reached = 1;
    ccl_alltoallv_t *planner = NULL;
    const ccl_schedule_t *s = NULL;
    ccl_alltoallv_report_t r;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_alltoallv_create(NULL, topo, NULL, &planner, &err) == CCL_OK, "%s", err.text);
    for (int turn = 0; turn < 2; turn++) {
        ck_assert_msg(ccl_alltoallv_plan(planner, m, 0, &s, &r, &err) == CCL_OK,
                      "seed %llu: %s: %s", (unsigned long long)seed, topo->name, err.text);
        ck_assert_msg(right_in_general(s), "seed %llu: %s", (unsigned long long)seed, topo->name);
        check_bytes(s, m, n, topo->name);
        if (turn == 0)
            reached = fmax(1, r.load_s / r.bound_s);
        if (r.replanned == 0)
            ck_assert_msg(r.load_s <= 1.0051 * reached * r.bound_s, "seed %llu: kept, and uneven",
                          (unsigned long long)seed);
        if (turn == 0 || r.replanned > 0)
            check_bound(topo, s, &r, seed % EVERY == 0);
        if (turn == 0)
            change(m, n, &rng);
    }
    ccl_alltoallv_destroy(planner);
    free(m);
    ccl_topology_destroy(topo);
}

START_TEST(random_matrices_on_random_clusters) {
    uint32_t rounds = nightly() ? NIGHTLY_ROUNDS : ROUNDS;
    for (uint64_t seed = 1; seed <= rounds; seed++)
        check_round(seed);
}
END_TEST

/* ---------------------------------------------------------------- dispatch and combine */

/* Bytes of transfers between servers. */
static double crossing(const ccl_topology_t *topo, const ccl_schedule_t *s) {
    double sum = 0;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        uint32_t a = topo->devices[topo->rank_device[t->src]].server;
        uint32_t b = topo->devices[topo->rank_device[t->dst]].server;
        sum += a != b ? s->coll->chunks[t->chunk].share * s->coll->natural_bytes : 0;
    }
    return sum;
}

START_TEST(tokens_cross_the_network_once) {
    static const char *const skews[] = {"even", "zipf:0.8", "gini:0.3"};
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert(ccl_topology_read(NULL, "dgx-h100*4", &topo, &err) == CCL_OK);
    for (int turn = 0; turn < 6; turn++) {
        ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
        ccl_synth_options_t so = CCL_SYNTH_OPTIONS_INIT;
        ccl_collective_t *coll = NULL;
        ccl_schedule_t *s = NULL;
        ccl_moe_report_t r;
        ccl_bound_t bound;
        o.tokens = 64;
        o.skew = skews[turn / 2];
        o.copies = turn == 2 ? 32 : 0;
        o.placement = turn == 2 ? CCL_MOE_BALANCED : CCL_MOE_BLOCK;
        o.combine = turn % 2 == 1;
        ck_assert_msg(ccl_moe_demand(topo, &o, &coll, &r, &err) == CCL_OK, "%s", err.text);
        ck_assert_msg(ccl_synthesize(NULL, "alltoallv", topo, NULL, coll, &so, &s, &err) == CCL_OK,
                      "%s", err.text);
        ck_assert_msg(fabs(crossing(topo, s) - r.network_bytes) <= 1e-6 * r.network_bytes,
                      "%s: %.0f bytes crossed, %.0f are needed", o.skew, crossing(topo, s),
                      r.network_bytes);
        ck_assert(r.network_bytes < r.unshared_bytes);
        const char *link = strstr(s->origin, "busiest link ");
        ck_assert_msg(link && strtod(link + 13, NULL) > 0.9995, "below the cut: %s", s->origin);
        ck_assert(ccl_bound(NULL, topo, coll, NULL, &bound, &err) == CCL_OK);
        ck_assert(simulated(topo, s) >= coll->natural_bytes / bound.bandwidth.Bps);
        ccl_bound_fini(&bound);
        ccl_schedule_destroy(s);
        ccl_collective_destroy(coll);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- the planner that is kept */

START_TEST(bad_matrices_are_refused) {
    ccl_topology_t *topo = NULL;
    ccl_alltoallv_t *planner = NULL;
    const ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert(ccl_topology_read(NULL, clusters[0], &topo, &err) == CCL_OK);
    ck_assert(ccl_alltoallv_create(NULL, topo, NULL, &planner, &err) == CCL_OK);
    double m[64] = {0};
    ck_assert(ccl_alltoallv_plan(planner, m, 0, &s, NULL, &err) == CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "no bytes: nothing to do");
    m[10] = NAN;
    ck_assert(ccl_alltoallv_plan(planner, m, 0, &s, NULL, NULL) == CCL_ERR_INPUT);
    m[10] = -1;
    err = (ccl_error_t)CCL_ERROR_INIT;
    ck_assert(ccl_alltoallv_plan(planner, m, 0, &s, NULL, &err) == CCL_ERR_INPUT);
    ck_assert_str_eq(err.text, "-1 bytes from rank 1 to 2: 0 or more");
    ck_assert_ptr_null(s);
    ccl_alltoallv_destroy(planner);
    ccl_topology_destroy(topo);
}
END_TEST

/* What moved keeps its ways: the same transfers, other sizes. New blocks get a new plan. */
START_TEST(a_changed_matrix_keeps_its_ways) {
    ccl_topology_t *topo = NULL;
    ccl_alltoallv_t *planner = NULL;
    const ccl_schedule_t *s = NULL;
    ccl_alltoallv_report_t r;
    ccl_error_t err = CCL_ERROR_INIT;
    double m[1024];
    ck_assert(ccl_topology_read(NULL, "dgx-h100*4", &topo, &err) == CCL_OK);
    ck_assert(ccl_alltoallv_create(NULL, topo, NULL, &planner, &err) == CCL_OK);
    for (uint32_t i = 0; i < 1024; i++)
        m[i] = 1e6 + i;
    m[5] = 0;
    ck_assert(ccl_alltoallv_plan(planner, m, 0, &s, &r, &err) == CCL_OK);
    ck_assert_uint_eq(r.replanned, r.pairs);
    const ccl_transfer_t *before = s->transfers;
    uint32_t ntransfers = s->ntransfers;
    m[9] *= 1.001;
    ck_assert(ccl_alltoallv_plan(planner, m, 0, &s, &r, &err) == CCL_OK);
    ck_assert_uint_eq(r.replanned, 0);
    ck_assert_uint_eq(r.changed_pairs, 1);
    ck_assert(s->transfers == before && s->ntransfers == ntransfers);
    check_bytes(s, m, 32, "changed");
    m[5] = 7;
    ck_assert(ccl_alltoallv_plan(planner, m, 0, &s, &r, &err) == CCL_OK);
    ck_assert_uint_eq(r.replanned, r.pairs);
    check_bytes(s, m, 32, "a new block");
    ccl_alltoallv_destroy(planner);
    ccl_topology_destroy(topo);
}
END_TEST

/* Every GPU may be a server of its own, and servers without a route to each other: the schedule is
 * proven, or none is made. */
START_TEST(small_clusters_of_any_shape) {
    ccl_rng_t rng;
    uint32_t made = 0, relayed = 0;
    ccl_rng_init(&rng, 9);
    for (uint32_t i = 0; i < 60; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_topology_t *topo = small_cluster(2026, i, &err);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_collective_t *want =
            i % 2 ? random_demand(&rng, topo->nranks) : collective(CCL_ALLTOALL, topo->nranks, 0);
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_schedule_t *schedule = NULL;
        const char *why = NULL;
        options.size_bytes = i % 4 < 2 ? 16384 : 1e6;
        if (ccl_synth_find("alltoallv")->supports(topo, want, &why)) {
            ccl_status_t status =
                ccl_synthesize(NULL, "alltoallv", topo, routes, want, &options, &schedule, &err);
            ck_assert_msg(status == CCL_OK || status == CCL_UNSUPPORTED, "cluster %u: %s", i,
                          err.text);
            made += status == CCL_OK;
            relayed += status == CCL_OK && strstr(schedule->origin, "ways searched") != NULL;
        }
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_ge(made, 30);
    ck_assert_uint_ge(relayed, 2);
}
END_TEST

RUN_TESTS(random_matrices_on_random_clusters, small_clusters_of_any_shape,
          tokens_cross_the_network_once, bad_matrices_are_refused, a_changed_matrix_keeps_its_ways)
