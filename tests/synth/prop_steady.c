/*
 * Skipping over whole periods of baselines on real clusters: the same result as in full, and most
 * micro-batches skipped. Of blocks that are alike one is simulated.
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

typedef struct made {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_collective_t *want;
    ccl_schedule_t *schedule;
    ccl_program_t *program;
} made_t;

static made_t make(const char *spec, const char *name, ccl_collective_kind_t kind,
                   const char *why) {
    made_t m = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    m.topo = topology(spec);
    m.routes = ccl_routes_create(m.topo);
    ck_assert_int_eq(ccl_collective_create(kind, m.topo->nranks, 1, 0, &m.want, NULL), CCL_OK);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ck_assert_msg(ccl_synthesize(NULL, name, m.topo, m.routes, m.want, &synth, &m.schedule, &err) ==
                      CCL_OK,
                  "%s: %s", why, err.text);
    ck_assert_msg(ccl_lower(NULL, m.schedule, &lower, &m.program, &err) == CCL_OK, "%s: %s", why,
                  err.text);
    return m;
}

static void unmake(made_t *m) {
    ccl_program_destroy(m->program);
    ccl_schedule_destroy(m->schedule);
    ccl_collective_destroy(m->want);
    ccl_routes_destroy(m->routes);
    ccl_topology_destroy(m->topo);
}

START_TEST(test_baseline) {
    const char *why = baselines[_i].why;
    made_t m = make(baselines[_i].topology, baselines[_i].synth, baselines[_i].kind, why);
    totals_t totals = {0};
    for (uint32_t g = 0; g < 3; g++) {
        uint32_t batches = baselines[_i].batches;
        double size_bytes = 1e6 * batches;
        uint64_t skipped = check_same(
            (setting_t){m.topo, m.routes, m.program, size_bytes, batches, (ccl_granularity_t)g, 0},
            why, &totals);
        if (g == CCL_GRANULARITY_TASK)
            continue;
        ck_assert_msg(skipped != UINT64_MAX && skipped >= batches / 2,
                      "%s, granularity %u: %lld of %u micro-batches skipped", why, g,
                      (long long)skipped, batches);
    }
    printf("%s: %llu events instead of %llu\n", why, (unsigned long long)totals.events,
           (unsigned long long)totals.full_events);
    ck_assert_uint_lt(totals.events, totals.full_events * 2 / 3);
    unmake(&m);
}
END_TEST

static const struct {
    const char *topology, *synth;
    ccl_collective_kind_t kind;
    uint32_t kinds; /* at least so many blocks are alike */
    uint32_t batches;
} alike[] = {
    {"servers:4 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2.5us", "ring", CCL_ALLGATHER, 32, 1},
    {"servers:4 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2.5us", "ring", CCL_ALLREDUCE, 32, 1},
    {"servers:8 gpus:8 nvswitch=450GB/s,1us nics:4x50GB/s,2.5us", "ring", CCL_ALLGATHER, 16, 1},
    {"servers:8 gpus:4 xgmi=mesh,47GB/s,1us nics:4x50GB/s,2.5us", "ring", CCL_ALLREDUCE, 3, 1},
    {"servers:4 gpus:8 nvswitch=450GB/s,1us nics:8x50GB/s,2.5us", "hm", CCL_ALLGATHER, 32, 1},
    {"servers:1 gpus:16 nvswitch=450GB/s,1us", "direct", CCL_ALLTOALL, 16, 1},
    {"servers:1 gpus:32 nvswitch=450GB/s,1us", "direct", CCL_ALLREDUCE, 32, 64},
};

/** Programs of clusters of equal servers have few kinds of blocks. */
START_TEST(test_alike) {
    made_t m = make(alike[_i].topology, alike[_i].synth, alike[_i].kind, "alike");
    totals_t totals = {0};
    /* One micro-batch of rings: what they do later depends on the last digit of a size. */
    uint32_t batches = alike[_i].batches;
    check_same((setting_t){m.topo, m.routes, m.program, 1e8, batches, CCL_GRANULARITY_ALGORITHM, 0},
               "alike", &totals);
    ck_assert_msg(totals.events * alike[_i].kinds <= totals.full_events,
                  "%s on %s: %llu events, in full %llu", alike[_i].synth, alike[_i].topology,
                  (unsigned long long)totals.events, (unsigned long long)totals.full_events);
    unmake(&m);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.steady");
    TCase *tcase = tcase_create("steady");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_baseline, 0, (int)CCL_ARRAY_LEN(baselines));
    tcase_add_loop_test(tcase, test_alike, 0, (int)CCL_ARRAY_LEN(alike));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
