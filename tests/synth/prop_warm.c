// timeout: 300
/*
 * alltoallv from a former schedule: the same demand gives the same transfers; after a change of a
 * tenth of the blocks the schedule is right, within 1 % of a cold one's time, and most of the
 * former one is in it; the report counts what changed; what does not fit is refused in words.
 */
#include <math.h>

#include "common.h"

enum { ROUNDS = SANITIZED ? 16 : 36, NIGHTLY_ROUNDS = 2000 };

static const char *const clusters[] = {
    "servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s fabric=rail",
    "servers:3 gpus:8 nvswitch=200GB/s nics:4x25GB/s",
    "h20-x4*2+h20-x8",
    "a100-x8-4nic*2",
    "dgx-h100*2",
    "dgx1-v100",
};

static ccl_topology_t *open(const char *spec) {
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_read(NULL, spec, &topo, &err) == CCL_OK, "%s", err.text);
    return topo;
}

static ccl_collective_t *demand(const double *m, uint32_t n) {
    ccl_text_t text = {0};
    ccl_collective_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_printf(&text, "{\"format\": \"ccllab-demand-1\", \"alltoallv\": [");
    for (size_t i = 0; i < (size_t)n * n; i++)
        ccl_text_printf(&text, "%s%s%.0f%s", i ? "," : "", i % n ? "" : "[", m[i],
                        i % n == n - 1 ? "]" : "");
    ccl_text_printf(&text, "]}");
    ck_assert_msg(ccl_demand_read_text("m", text.data, text.len, &out, &err) == CCL_OK, "%s",
                  err.text);
    ccl_text_fini(&text);
    return out;
}

static double *matrix(uint32_t n, ccl_rng_t *rng) {
    double *m = calloc((size_t)n * n, sizeof *m);
    uint32_t kind = ccl_rng_below(rng, 3);
    for (size_t i = 0; i < (size_t)n * n; i++) {
        double u = ccl_rng_unit(rng);
        m[i] = i / n == i % n ? 0
                              : round(kind == 0   ? 4e6
                                      : kind == 1 ? 1e7 * u * u
                                                  : 4e5 / (u + 0.02));
    }
    m[1] += 1000;
    return m;
}

static uint32_t change(double *m, uint32_t n, ccl_rng_t *rng) {
    uint32_t changed = 0;
    for (size_t i = 0; i < (size_t)n * n; i++) {
        if (!(m[i] > 0) || ccl_rng_below(rng, 10) != 0)
            continue;
        m[i] = round(m[i] * (0.5 + ccl_rng_unit(rng)) + 1);
        changed++;
    }
    return changed;
}

static ccl_schedule_t *make(const ccl_topology_t *topo, const ccl_collective_t *want,
                            const ccl_schedule_t *warm, bool sized, ccl_synth_stats_t *stats) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    *stats = (ccl_synth_stats_t){0};
    options.warm = warm;
    options.stats = stats;
    options.size_bytes = sized ? want->natural_bytes : 0;
    ck_assert_msg(ccl_synthesize(NULL, "alltoallv", topo, NULL, want, &options, &out, &err) ==
                      CCL_OK,
                  "%s: %s", topo->name, err.text);
    return out;
}

/* Infinite: its thread blocks are more than a GPU has. */
static double simulated(const ccl_topology_t *topo, const ccl_schedule_t *s) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    lower.topo = topo;
    lower.size_bytes = sim.size_bytes = s->coll->natural_bytes;
    ccl_status_t status = ccl_lower(NULL, s, &lower, &program, &err);
    if (status == CCL_OK)
        status = ccl_sim_program(NULL, topo, NULL, program, &sim, &result, &err);
    ck_assert_msg(status == CCL_OK || status == CCL_UNSUPPORTED, "%s", err.text);
    double time_s = status == CCL_OK ? result->time_s : INFINITY;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return time_s;
}

static void carries(const ccl_schedule_t *s, const double *m, uint32_t n) {
    double *sum = calloc((size_t)n * n, sizeof *sum);
    for (uint32_t k = 0; k < s->coll->nchunks; k++) {
        const ccl_chunk_t *c = &s->coll->chunks[k];
        sum[(size_t)c->sources[0] * n + c->dests[0]] += c->share * s->coll->natural_bytes;
    }
    for (size_t i = 0; i < (size_t)n * n; i++)
        ck_assert_msg(fabs(sum[i] - m[i]) <= 1e-6 * (m[i] + 1), "%g of %g bytes", sum[i], m[i]);
    free(sum);
}

/* ---------------------------------------------------------------- random matrices */

typedef struct tally {
    uint32_t warm;      /* rounds whose schedule is the former one's for most blocks */
    uint64_t kept, all; /* transfers of former schedules */
} tally_t;

static void check_round(uint64_t seed, tally_t *tally) {
    ccl_rng_t rng;
    ccl_synth_stats_t stats;
    ccl_rng_init(&rng, seed);
    ccl_topology_t *topo = open(clusters[ccl_rng_below(&rng, CCL_ARRAY_LEN(clusters))]);
    uint32_t n = topo->nranks;
    bool sized = seed % 3 == 0;
    double *m = matrix(n, &rng);
    ccl_collective_t *before = demand(m, n);
    ccl_schedule_t *former = make(topo, before, NULL, sized, &stats);
    ck_assert_uint_eq(stats.warm.runs, 0);
    uint32_t changed = change(m, n, &rng);
    ccl_collective_t *now = demand(m, n);
    ccl_schedule_t *cold = make(topo, now, NULL, sized, &stats);
    ccl_schedule_t *warm = make(topo, now, former, sized, &stats);
    ccl_schedule_t *again = make(topo, now, former, sized, &stats);
    ck_assert_msg(ccl_schedule_equal(warm, again), "%s: not the same again", topo->name);
    carries(warm, m, n);
    double warm_s = simulated(topo, warm), cold_s = simulated(topo, cold);
    ck_assert_msg(warm_s <= 1.01 * cold_s, "seed %llu: %s: %.3f times the cold plan's time; %s",
                  (unsigned long long)seed, topo->name, warm_s / cold_s, warm->origin);
    ck_assert_uint_eq(stats.warm.runs, 1);
    ck_assert_uint_eq(stats.warm.changed, changed);
    ck_assert_uint_eq(stats.warm.kept + stats.warm.dropped, former->ntransfers);
    ck_assert_uint_eq(stats.warm.kept + stats.warm.added, warm->ntransfers);
    ck_assert_msg(changed == 0 || stats.warm.nlinks > 0, "%s: no link changed", topo->name);
    tally->warm += 4 * stats.warm.blocks_again < stats.warm.blocks;
    tally->kept += stats.warm.kept;
    tally->all += former->ntransfers;
    ccl_schedule_destroy(again);
    ccl_schedule_destroy(warm);
    ccl_schedule_destroy(cold);
    ccl_schedule_destroy(former);
    ccl_collective_destroy(now);
    ccl_collective_destroy(before);
    free(m);
    ccl_topology_destroy(topo);
}

START_TEST(changed_matrices_stay_near_a_cold_plan) {
    tally_t tally = {0};
    uint32_t rounds = nightly() ? NIGHTLY_ROUNDS : ROUNDS;
    for (uint64_t seed = 1; seed <= rounds; seed++)
        check_round(seed, &tally);
    ck_assert_msg(2 * tally.warm > rounds, "%u of %u are warm", tally.warm, rounds);
    ck_assert_msg(tally.kept > 0.8 * (double)tally.all, "%llu of %llu transfers kept",
                  (unsigned long long)tally.kept, (unsigned long long)tally.all);
}
END_TEST

/* ---------------------------------------------------------------- chosen changes */

/* Whoever made it: that of `direct` stays, too, where it is as fast. */
START_TEST(the_same_demand_gives_the_same_transfers) {
    static const char *const by[] = {"alltoallv", "direct"};
    ccl_topology_t *topo = open(clusters[_i]);
    uint32_t n = topo->nranks;
    double *m = calloc((size_t)n * n, sizeof *m);
    for (size_t i = 0; i < (size_t)n * n; i++)
        m[i] = i / n == i % n ? 0 : 3e6;
    ccl_collective_t *want = demand(m, n);
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(by); k++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_synth_stats_t stats;
        ccl_schedule_t *former = NULL;
        options.size_bytes = k ? want->natural_bytes : 0; /* without: no race */
        ck_assert_int_eq(ccl_synthesize(NULL, by[k], topo, NULL, want, &options, &former, NULL),
                         CCL_OK);
        ccl_schedule_t *warm = make(topo, want, former, k > 0, &stats);
        bool same = warm->ntransfers == former->ntransfers;
        for (uint32_t i = 0; same && i < warm->ntransfers; i++)
            same = memcmp(&warm->transfers[i], &former->transfers[i], sizeof(ccl_transfer_t)) == 0;
        if (k == 0 || simulated(topo, former) <= simulated(topo, warm)) {
            ck_assert_msg(same || k > 0, "%s: other transfers", topo->name);
            ck_assert_uint_eq(stats.warm.kept, former->ntransfers);
            ck_assert_uint_eq(stats.warm.added + stats.warm.changed, 0);
            ck_assert_uint_eq(stats.warm.blocks_again, 0);
            ck_assert_uint_eq(stats.warm.nlinks, 0);
        }
        ccl_schedule_destroy(warm);
        ccl_schedule_destroy(former);
    }
    ccl_collective_destroy(want);
    free(m);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(the_report_counts_blocks_and_bytes) {
    ccl_topology_t *topo = open(clusters[0]);
    ccl_synth_stats_t stats;
    double m[64];
    for (uint32_t i = 0; i < 64; i++)
        m[i] = i % 9 ? 1e6 : 0;
    m[4] = 0; /* 0 -> 4 */
    ccl_collective_t *before = demand(m, 8);
    m[4] = 5e5;  /* new */
    m[5] = 0;    /* gone */
    m[6] += 2e5; /* grown: 0 -> 6 */
    ccl_collective_t *now = demand(m, 8);
    ccl_schedule_t *former = make(topo, before, NULL, false, &stats);
    ccl_schedule_t *warm = make(topo, now, former, false, &stats);
    carries(warm, m, 8);
    ck_assert_uint_eq(stats.warm.blocks, 55);
    ck_assert_uint_eq(stats.warm.changed, 3);
    ck_assert_double_eq_tol(stats.warm.bytes_before, 55e6, 1);
    ck_assert_double_eq_tol(stats.warm.bytes, 55e6 - 3e5, 1);
    ck_assert_double_eq_tol(stats.warm.bytes_changed, 17e5, 1);
    ck_assert_uint_ge(stats.warm.blocks_again, 1);
    ck_assert_uint_le(stats.warm.blocks_again, 3);
    ck_assert_uint_gt(stats.warm.added, 0);
    ck_assert_uint_gt(stats.warm.dropped, 0);
    ck_assert_uint_gt(stats.warm.nlinks, 0);
    for (uint32_t i = 1; i < stats.warm.nlinks; i++)
        ck_assert(fabs(stats.warm.links[i].after_s - stats.warm.links[i].before_s) <=
                  fabs(stats.warm.links[i - 1].after_s - stats.warm.links[i - 1].before_s));
    ccl_schedule_destroy(warm);
    ccl_schedule_destroy(former);
    ccl_collective_destroy(now);
    ccl_collective_destroy(before);
    ccl_topology_destroy(topo);
}
END_TEST

/* All is sent straight, then a GPU sends twice as much to the other server: of its own NIC's bytes
   some leave, and of its neighbours' nothing. */
START_TEST(what_overloads_a_link_moves) {
    ccl_topology_t *topo = open("servers:2 gpus:8 nvswitch=300GB/s nics:8x25GB/s");
    ccl_synth_stats_t stats;
    ccl_schedule_t *former = NULL;
    double m[256];
    for (uint32_t i = 0; i < 256; i++)
        m[i] = i % 17 ? 4e6 : 0;
    ccl_collective_t *before = demand(m, 16);
    for (uint32_t d = 8; d < 16; d++)
        m[d] *= 2;
    ccl_collective_t *now = demand(m, 16);
    ck_assert_int_eq(ccl_synthesize(NULL, "direct", topo, NULL, before, NULL, &former, NULL),
                     CCL_OK);
    ccl_schedule_t *cold = make(topo, now, NULL, true, &stats);
    ccl_schedule_t *warm = make(topo, now, former, true, &stats);
    carries(warm, m, 16);
    ck_assert_msg(stats.warm.blocks_again >= 4 && stats.warm.blocks_again <= 24, "%u blocks, %s",
                  stats.warm.blocks_again, warm->origin);
    ck_assert(simulated(topo, warm) <= 1.01 * simulated(topo, cold));
    ck_assert(simulated(topo, warm) < 0.7 * stats.warm.load_before_s * 2);
    ccl_schedule_destroy(cold);
    ccl_schedule_destroy(warm);
    ccl_schedule_destroy(former);
    ccl_collective_destroy(now);
    ccl_collective_destroy(before);
    ccl_topology_destroy(topo);
}
END_TEST

/* Tokens that several GPUs want, and their sums back. */
START_TEST(experts_start_warm) {
    ccl_topology_t *topo = open("dgx-h100*2");
    for (int combine = 0; combine < 2; combine++) {
        ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
        ccl_collective_t *want[2];
        ccl_synth_stats_t stats;
        o.tokens = 64;
        o.combine = combine;
        ck_assert_int_eq(ccl_moe_demand(topo, &o, &want[0], NULL, NULL), CCL_OK);
        o.tokens = 66; /* two more are drawn after the same ones */
        ck_assert_int_eq(ccl_moe_demand(topo, &o, &want[1], NULL, NULL), CCL_OK);
        ccl_schedule_t *former = make(topo, want[0], NULL, false, &stats);
        ccl_schedule_t *warm = make(topo, want[1], former, false, &stats);
        ck_assert_msg(4 * stats.warm.kept > 3 * former->ntransfers, "%u of %u kept, %s",
                      stats.warm.kept, former->ntransfers, warm->origin);
        ccl_schedule_destroy(warm);
        ccl_schedule_destroy(former);
        ccl_collective_destroy(want[0]);
        ccl_collective_destroy(want[1]);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- refused */

static void refused(const ccl_topology_t *topo, const ccl_collective_t *want,
                    const ccl_schedule_t *former, const char *text) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.warm = former;
    ck_assert_int_eq(ccl_synthesize(NULL, "alltoallv", topo, NULL, want, &options, &out, &err),
                     CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
    ck_assert_ptr_null(out);
}

START_TEST(what_does_not_fit_is_refused) {
    ccl_topology_t *topo = open(clusters[0]),
                   *flat = open("servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s"),
                   *large = open(clusters[4]);
    ccl_synth_stats_t stats;
    double m[64];
    for (uint32_t i = 0; i < 64; i++)
        m[i] = i % 9 ? 1e6 : 0;
    ccl_collective_t *want = demand(m, 8), *all = collective(CCL_ALLTOALL, 8, 0),
                     *gather = collective(CCL_ALLGATHER, 8, 0), *sums = NULL, *more = NULL;
    ccl_moe_options_t o = CCL_MOE_OPTIONS_INIT;
    ccl_schedule_t *former = make(topo, want, NULL, false, &stats), *ring = NULL, *across = NULL;
    o.tokens = 16;
    ck_assert_int_eq(ccl_moe_demand(large, &o, &more, NULL, NULL), CCL_OK);
    o.combine = true;
    ck_assert_int_eq(ccl_moe_demand(topo, &o, &sums, NULL, NULL), CCL_OK);
    ck_assert_int_eq(ccl_synthesize(NULL, "ring", topo, NULL, gather, NULL, &ring, NULL), CCL_OK);
    refused(topo, all, former, "a warm start is for demands: the traffic of an alltoall");
    refused(topo, want, ring, "the former schedule is an allgather: that of a demand is wanted");
    refused(large, more, former, "is for another cluster: it has 8 GPUs, dgx-h100*2 has 16");
    refused(topo, sums, former, "the former schedule copies, the demand sums");
    ck_assert_int_eq(ccl_synthesize(NULL, "direct", flat, NULL, want, NULL, &across, NULL), CCL_OK);
    refused(topo, want, across, "is for another cluster: it sends from GPU 0 to 5, between which ");
    former->transfers[0].dst = former->transfers[0].src == 7 ? 6 : 7;
    refused(topo, want, former, "the former schedule is wrong: ");
    ccl_schedule_destroy(across);
    ccl_schedule_destroy(ring);
    ccl_schedule_destroy(former);
    ccl_collective_destroy(more);
    ccl_collective_destroy(sums);
    ccl_collective_destroy(gather);
    ccl_collective_destroy(all);
    ccl_collective_destroy(want);
    ccl_topology_destroy(large);
    ccl_topology_destroy(flat);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("warm");
    TCase *tcase = tcase_create("warm");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, changed_matrices_stay_near_a_cold_plan);
    tcase_add_loop_test(tcase, the_same_demand_gives_the_same_transfers, 0,
                        CCL_ARRAY_LEN(clusters));
    tcase_add_test(tcase, the_report_counts_blocks_and_bytes);
    tcase_add_test(tcase, what_overloads_a_link_moves);
    tcase_add_test(tcase, experts_start_warm);
    tcase_add_test(tcase, what_does_not_fit_is_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
