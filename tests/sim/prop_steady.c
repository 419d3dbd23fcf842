/*
 * Skipping over whole periods changes nothing: time of the run, times and use of every block, bytes
 * of every link are those of the full simulation to 1e-9; it does skip where runs are periodic, and
 * leaves alone what never becomes so.
 */
#include "tests/sim/random_cases.h"
#include "tests/sim/small.h"
#include "tests/sim/steady.h"

/* ---------------------------------------------------------------- anything at all */

static totals_t random_totals, switch_totals;

static void check_random(int shard, bool switches, totals_t *totals) {
    for (uint32_t k = 0; k < 50; k++) {
        ccl_rng_t rng;
        char what[64];
        ccl_rng_init(&rng, (switches ? 600000u : 0) + 5000u * (uint64_t)shard + k);
        uint32_t n = 2 + ccl_rng_below(&rng, 5);
        random_abilities = switches;
        ccl_topology_t *topo = random_topology(&rng, n);
        ccl_routes_t *routes = ccl_routes_create(topo);
        random_switch_routes = switches ? routes : NULL;
        ccl_program_t *program = random_program(&rng, n, "Simple");
        random_switch_routes = NULL;
        random_abilities = false;
        static const uint32_t counts[] = {64, 65, 100, 257};
        uint32_t batches = PICK(&rng, counts);
        for (uint32_t g = 0; g < 3; g++) {
            snprintf(what, sizeof what, "random %d.%u granularity %u", shard, k, g);
            if (!switches || program->ngroups)
                check_same((setting_t){topo, routes, program,
                                       1e5 * batches * (0.5 + ccl_rng_unit(&rng)), batches,
                                       (ccl_granularity_t)g, 0},
                           what, totals);
        }
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}

START_TEST(test_random) {
    check_random(_i, false, &random_totals);
}
END_TEST

START_TEST(test_switches) {
    check_random(_i, true, &switch_totals);
}
END_TEST

START_TEST(test_random_totals) {
    printf("random: %u of %u cases skipped, %llu events instead of %llu\n", random_totals.skipped,
           random_totals.cases, (unsigned long long)random_totals.events,
           (unsigned long long)random_totals.full_events);
    ck_assert_uint_ge(random_totals.cases, 300);
    ck_assert_uint_ge(random_totals.skipped, random_totals.cases / 2);
    ck_assert_uint_lt(random_totals.events, random_totals.full_events / 2);
    printf("switch connections: %u of %u cases skipped\n", switch_totals.skipped,
           switch_totals.cases);
    ck_assert_uint_ge(switch_totals.cases, 150);
    ck_assert_uint_ge(switch_totals.skipped, switch_totals.cases / 3);
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
            check_same(
                (setting_t){topo, routes, program, 4e4 * batches, batches, (ccl_granularity_t)g, 0},
                "incommensurate", &totals);
    ck_assert_uint_eq(totals.cases, 12);
    ccl_program_destroy(program);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/**
 * Two pairs of which one is slower by less than anybody measures: after a period all is nearly as
 * before, but what is skipped would add up.
 */
START_TEST(test_nearly_periodic) {
    static const struct {
        small_system_t on;
        const char *program;
    } rows[] = {
        {{.links = "0-1:nvlink,10,0 2-3:nvlink,9.9999997,0 0-s:pcie,1,0 2-s:pcie,1,0"},
         "0>1: s1 | 1<0: r1 | 2>3: s1 | 3<2: r1"},
        {{.gpu = "\"copy_rate\":\"10GB/s\"", .gpu1 = "\"copy_rate\":\"9.9999997GB/s\""},
         "0: cpy1 | 1: cpy1"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = small_topology(&rows[i].on);
        ccl_routes_t *routes = ccl_routes_create(topo);
        totals_t totals = {0};
        ccl_program_t *program = small_program(rows[i].program, topo->nranks, "Simple", NULL);
        for (uint32_t g = 0; g < 3; g++)
            check_same(
                (setting_t){topo, routes, program, 4e6 * 1000, 1000, (ccl_granularity_t)g, 0},
                rows[i].program, &totals);
        ck_assert_uint_eq(totals.cases, 3);
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
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
        "0: re2 | 0: re1 cpy1@0.0", /* late behind slow: until it has caught up */
        "0: re2 | 0: re1 re1@0.0",  /* ... twice as fast */
    };
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(programs); k++) {
        ccl_program_t *program = small_program(programs[k], topo->nranks, "Simple", NULL);
        for (uint32_t batches = 4; batches <= 1024; batches *= 4)
            for (uint32_t g = 0; g < 3; g++)
                check_same((setting_t){topo, routes, program, 4e6 * batches, batches,
                                       (ccl_granularity_t)g, 0},
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
    tcase_add_loop_test(tcase, test_random, 0, 4);
    tcase_add_loop_test(tcase, test_switches, 0, 4);
    tcase_add_test(tcase, test_random_totals);
    tcase_add_test(tcase, test_incommensurate);
    tcase_add_test(tcase, test_nearly_periodic);
    tcase_add_test(tcase, test_running_ahead);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
