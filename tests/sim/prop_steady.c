/*
 * Skipping over whole periods changes nothing: time of the run, times and use of every block, bytes
 * of every link are those of the full simulation to 1e-9; it does skip where runs are periodic, and
 * leaves alone what never becomes so.
 */
#include "random_cases.h"
#include "small.h"
#include "synth/synth.h"

typedef struct totals {
    uint32_t cases, skipped;
    uint64_t events, full_events;
} totals_t;

static ccl_sim_result_t *simulate(const ccl_topology_t *topo, ccl_routes_t *routes,
                                  const ccl_program_t *program, double size_bytes, uint32_t batches,
                                  ccl_granularity_t granularity, bool no_skip, const char *what) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = size_bytes;
    options.batches = batches;
    options.granularity = granularity;
    options.no_skip = no_skip;
    ccl_status_t status = ccl_sim_program(NULL, topo, routes, program, &options, &result, &err);
    if (status == CCL_DEADLOCK) {
        ccl_sim_result_destroy(result);
        return NULL;
    }
    ck_assert_msg(status == CCL_OK, "%s: %s", what, err.text);
    return result;
}

/** Returns the micro-batches skipped; UINT64_MAX: the program blocks. */
static uint64_t check_same(const ccl_topology_t *topo, ccl_routes_t *routes,
                           const ccl_program_t *program, double size_bytes, uint32_t batches,
                           ccl_granularity_t granularity, const char *what, totals_t *totals) {
    ccl_sim_result_t *full =
        simulate(topo, routes, program, size_bytes, batches, granularity, true, what);
    ccl_sim_result_t *fast =
        simulate(topo, routes, program, size_bytes, batches, granularity, false, what);
    ck_assert_msg(!full == !fast, "%s: only one of both blocks", what);
    if (!full)
        return UINT64_MAX;
    double tolerance_s = 1e-9 * full->time_s;
    ck_assert_uint_eq(full->skipped_batches, 0);
    ck_assert_msg(fabs(fast->time_s - full->time_s) <= tolerance_s,
                  "%s: %.15g us with %llu of %u micro-batches skipped, %.15g us in full", what,
                  fast->time_s * 1e6, (unsigned long long)fast->skipped_batches, batches,
                  full->time_s * 1e6);
    for (uint32_t t = 0; t < program->ntbs; t++) {
        const ccl_tb_use_t *a = &fast->tbs[t], *b = &full->tbs[t];
        const double got[] = {a->start_s,     a->done_s,      a->busy_s,
                              a->wait_data_s, a->wait_peer_s, a->wait_slot_s};
        const double want[] = {b->start_s,     b->done_s,      b->busy_s,
                               b->wait_data_s, b->wait_peer_s, b->wait_slot_s};
        static const char *const names[] = {"start", "done", "busy", "data", "peer", "slot"};
        for (uint32_t k = 0; k < 6; k++)
            ck_assert_msg(fabs(got[k] - want[k]) <= tolerance_s,
                          "%s: rank %u block %u %s: %.12g us, in full %.12g us", what,
                          program->tbs[t].rank, program->tbs[t].id, names[k], got[k] * 1e6,
                          want[k] * 1e6);
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        ck_assert(fast->links[l].bytes == full->links[l].bytes);
    ck_assert_uint_eq(fast->transfers, full->transfers);
    ck_assert_uint_eq(fast->flows, full->flows);
    uint64_t skipped = fast->skipped_batches;
    totals->cases++;
    totals->skipped += skipped > 0;
    totals->events += fast->events;
    totals->full_events += full->events;
    ccl_sim_result_destroy(full);
    ccl_sim_result_destroy(fast);
    return skipped;
}

/* ---------------------------------------------------------------- baselines on real clusters */

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

/* ---------------------------------------------------------------- anything at all */

static totals_t random_totals;

START_TEST(test_random) {
    for (uint32_t k = 0; k < 50; k++) {
        ccl_rng_t rng;
        char what[64];
        ccl_rng_init(&rng, 5000u * (uint64_t)_i + k);
        uint32_t n = 2 + ccl_rng_below(&rng, 5);
        ccl_topology_t *topo = random_topology(&rng, n);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_program_t *program = random_program(&rng, n, "Simple");
        static const uint32_t counts[] = {64, 65, 100, 257};
        uint32_t batches = PICK(&rng, counts);
        for (uint32_t g = 0; g < 3; g++) {
            snprintf(what, sizeof what, "random %d.%u granularity %u", _i, k, g);
            check_same(topo, routes, program, 1e5 * batches * (0.5 + ccl_rng_unit(&rng)), batches,
                       (ccl_granularity_t)g, what, &random_totals);
        }
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(test_random_totals) {
    printf("random: %u of %u cases skipped, %llu events instead of %llu\n", random_totals.skipped,
           random_totals.cases, (unsigned long long)random_totals.events,
           (unsigned long long)random_totals.full_events);
    ck_assert_uint_ge(random_totals.cases, 300);
    ck_assert_uint_ge(random_totals.skipped, random_totals.cases / 2);
    ck_assert_uint_lt(random_totals.events, random_totals.full_events / 2);
}
END_TEST

/* ---------------------------------------------------------------- no period */

/**
 * Two pairs of blocks that have nothing to do with each other but a narrow link both cross; one
 * takes pi - 1 times as long as the other between its sends, so no two moments are ever alike.
 */
START_TEST(test_incommensurate) {
    small_system_t on = {.links = "0-s:nvlink,10,1 1-s:nvlink,10,1 2-s:nvlink,10,1 3-s:nvlink,10,1 "
                                  "s-t:nvlink,1,0.1 4-t:nvlink,10,1",
                         .gpu = "\"copy_rate\":\"3.141592653589793GB/s\"",
                         .gpu1 = "\"copy_rate\":\"1.4669GB/s\""};
    ccl_topology_t *topo = small_topology(&on);
    ccl_routes_t *routes = ccl_routes_create(topo);
    totals_t totals = {0};
    ccl_program_t *program = small_program("0>4: s1 cpy1 | 1>4: s1 cpy1 | 4<0: r1 | 4<1: r1",
                                           topo->nranks, "Simple", NULL);
    for (uint32_t batches = 64; batches <= 4096; batches *= 4)
        for (uint32_t g = 0; g < 3; g += 1)
            check_same(topo, routes, program, 4e4 * batches, batches, (ccl_granularity_t)g,
                       "incommensurate", &totals);
    ck_assert_uint_eq(totals.cases, 12);
    ccl_program_destroy(program);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/** A slow block that another runs ahead of: the distance grows until the FIFO is full. */
START_TEST(test_running_ahead) {
    small_system_t on = {.gpu = "\"reduce_rate\":\"1GB/s\",\"copy_rate\":\"20GB/s\"",
                         .transports = "\"nvlink\":{\"slots\":40}"};
    ccl_topology_t *topo = small_topology(&on);
    ccl_routes_t *routes = ccl_routes_create(topo);
    totals_t totals = {0};
    static const char *const programs[] = {
        "0>1: s1 | 1<0: rrc1",                          /* until the FIFO is full */
        "0>1: s1 | 1<0: r1 | 1: re1@0.0",               /* for ever */
        "0: cpy1 | 0: re1@0.0 | 0: re1@0.0",            /* for ever, twice */
        "0>1: s1 s1 | 1<0: rrc1 r1 | 1: cpy1@0.0",      /* alternating */
        "0: re1 | 0: cpy1 | 0: cpy1@0.0 | 0: cpy1@1.0", /* fast behind slow, beside fast */
    };
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(programs); k++) {
        ccl_program_t *program = small_program(programs[k], topo->nranks, "Simple", NULL);
        for (uint32_t batches = 4; batches <= 1024; batches *= 4)
            for (uint32_t g = 0; g < 3; g++)
                check_same(topo, routes, program, 4e6 * batches, batches, (ccl_granularity_t)g,
                           programs[k], &totals);
        ccl_program_destroy(program);
    }
    ck_assert_uint_ge(totals.skipped, 30);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.sim.steady");
    TCase *tcase = tcase_create("steady");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_baseline, 0, (int)CCL_ARRAY_LEN(baselines));
    tcase_add_loop_test(tcase, test_random, 0, 4);
    tcase_add_test(tcase, test_random_totals);
    tcase_add_test(tcase, test_incommensurate);
    tcase_add_test(tcase, test_running_ahead);
    suite_add_tcase(suite, tcase);
    return small_suite(suite);
}
