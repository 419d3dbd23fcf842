/*
 * Skipping over whole periods of baselines on real clusters: the same result as in full, and most
 * micro-batches skipped.
 */
#include "common.h"
#include "tests/sim/steady.h"

static const struct {
    const char *topology, *synth;
    ccl_collective_kind_t kind;
    uint32_t batches;
    const char *why;
} baselines[] = {
    {"dgx-a100", "ring", CCL_ALLGATHER, 512, "a ring, all alike"},
    {"dgx-a100", "ring", CCL_ALLREDUCE, 128, "a ring twice around"},
    {"dgx1-v100", "direct", CCL_ALLGATHER, 512, "every pair of a hybrid cube mesh, relays"},
    {"servers:2 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,2us fabric=rail", "hm", CCL_ALLGATHER,
     1024, "hierarchical mesh"},
    {"servers:2 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,2us fabric=rail", "hm", CCL_ALLREDUCE,
     512, "hierarchical mesh with reductions"},
    {"servers:2 gpus:4 nvswitch=300GB/s,0.7us nics:1x25GB/s,2us", "tree", CCL_ALLREDUCE, 512,
     "trees: two directions, one NIC for four"},
    {"heteccl-h20-4+8", "ring", CCL_ALLGATHER, 256, "servers of unequal size"},
    {"servers:3 gpus:2 nvswitch=300GB/s,0.7us nics:2x25GB/s,2us", "direct", CCL_ALLTOALL, 256,
     "direct all-to-all over NICs"},
};

START_TEST(test_baseline) {
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    const char *why = baselines[_i].why;
    ck_assert_msg(ccl_topology_read(NULL, baselines[_i].topology, &topo, &err) == CCL_OK, "%s: %s",
                  why, err.text);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = NULL;
    ck_assert_int_eq(ccl_collective_create(baselines[_i].kind, topo->nranks, 1, 0, &want, NULL),
                     CCL_OK);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ck_assert_msg(ccl_synthesize(NULL, baselines[_i].synth, topo, routes, want, &synth, &schedule,
                                 &err) == CCL_OK,
                  "%s: %s", why, err.text);
    ck_assert_msg(ccl_lower(NULL, schedule, &lower, &program, &err) == CCL_OK, "%s: %s", why,
                  err.text);
    totals_t totals = {0};
    for (uint32_t g = 0; g < 3; g++) {
        uint32_t batches = baselines[_i].batches;
        double size_bytes = 1e6 * batches;
        uint64_t skipped = check_same(topo, routes, program, size_bytes, batches,
                                      (ccl_granularity_t)g, why, &totals);
        if (g == CCL_GRANULARITY_TASK)
            continue;
        ck_assert_msg(skipped != UINT64_MAX && skipped >= batches / 2,
                      "%s, granularity %u: %lld of %u micro-batches skipped", why, g,
                      (long long)skipped, batches);
    }
    printf("%s: %llu events instead of %llu\n", why, (unsigned long long)totals.events,
           (unsigned long long)totals.full_events);
    ck_assert_uint_lt(totals.events, totals.full_events * 2 / 3);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.steady");
    TCase *tcase = tcase_create("steady");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_baseline, 0, (int)CCL_ARRAY_LEN(baselines));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
