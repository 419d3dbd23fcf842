/*
 * Estimates: time and step times of a run of many micro-batches, extrapolated from shorter runs,
 * are near to those of the run in full and take less work; what is periodic, short, or cannot
 * finish is run in full.
 */
#include "tests/sim/random_cases.h"
#include "tests/sim/small.h"

#include <math.h>

typedef struct totals {
    uint32_t cases, stuck, estimated, near, steps, near_steps;
    double worst;
    uint64_t events, full_events; /* of those estimated */
} totals_t;

/* NULL: it cannot finish. */
static ccl_sim_result_t *run(const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_program_t *program, ccl_sim_options_t sim, bool estimate,
                             double give_up_s) {
    ccl_sim_result_t *result = NULL;
    sim.estimate = estimate;
    sim.give_up_s = give_up_s;
    ccl_status_t status = ccl_sim_program(NULL, topo, routes, program, &sim, &result, NULL);
    ck_assert(status == CCL_OK || status == CCL_DEADLOCK);
    if (status == CCL_OK)
        return result;
    ccl_sim_result_destroy(result);
    return NULL;
}

/* Both ways; the same where it was run in full. */
static void compare(const ccl_topology_t *topo, ccl_routes_t *routes, const ccl_program_t *program,
                    double size_bytes, uint32_t batches, ccl_granularity_t level,
                    totals_t *totals) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    sim.size_bytes = size_bytes;
    sim.batches = batches;
    sim.granularity = level;
    sim.step_times = true;
    ccl_sim_result_t *full = run(topo, routes, program, sim, false, 0);
    ccl_sim_result_t *fast = run(topo, routes, program, sim, true, 0);
    totals->cases++;
    ck_assert_int_eq(!full, !fast);
    if (!full) {
        totals->stuck++;
        return;
    }
    double off = fabs(fast->time_s / full->time_s - 1);
    ck_assert(!full->estimated);
    ck_assert_uint_eq(fast->batches, full->batches);
    ck_assert_double_eq(fast->size_bytes, size_bytes);
    if (!fast->estimated) {
        ck_assert_double_eq(fast->time_s, full->time_s);
    } else {
        ccl_sim_result_t *given_up = run(topo, routes, program, sim, true, 0.9 * full->time_s);
        totals->estimated++;
        totals->near += off <= 0.005;
        totals->worst = fmax(totals->worst, off);
        totals->events += fast->events;
        totals->full_events += full->events;
        ck_assert_double_eq(given_up->time_s, INFINITY);
        ck_assert_double_eq_tol(fast->algbw_GBps, size_bytes / fast->time_s / 1e9,
                                1e-9 * fast->algbw_GBps);
        for (uint32_t i = 0; i < program->nsteps; i++) {
            double late_s = fabs(fast->step_end_s[i] - full->step_end_s[i]);
            double early_s = fabs(fast->step_start_s[i] - full->step_start_s[i]);
            ck_assert_double_le(fast->step_end_s[i], fast->time_s);
            totals->steps++;
            totals->near_steps += fmax(late_s, early_s) <= 0.01 * full->time_s;
        }
        ccl_sim_result_destroy(given_up);
    }
    ccl_sim_result_destroy(full);
    ccl_sim_result_destroy(fast);
}

static totals_t totals, switch_totals;

static void check_random(int shard, bool switches, totals_t *of) {
    for (uint32_t k = 0; k < (switches ? 20 : 40); k++) {
        static const uint32_t counts[] = {300, 512, 1000};
        ccl_rng_t rng;
        ccl_rng_init(&rng, 7000u * (uint64_t)shard + k);
        uint32_t n = 2 + ccl_rng_below(&rng, 5), batches;
        random_abilities = switches;
        ccl_topology_t *topo = random_topology(&rng, n);
        ccl_routes_t *routes = ccl_routes_create(topo);
        random_switch_routes = switches ? routes : NULL;
        ccl_program_t *program = random_program(&rng, n, "Simple");
        random_abilities = false;
        random_switch_routes = NULL;
        batches = PICK(&rng, counts);
        for (uint32_t g = 0; g < 3 && (!switches || program->ngroups); g++)
            compare(topo, routes, program, 1e5 * batches * (0.5 + ccl_rng_unit(&rng)), batches,
                    (ccl_granularity_t)g, of);
        ccl_program_destroy(program);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}

START_TEST(test_random) {
    check_random(_i, false, &totals);
}
END_TEST

START_TEST(test_switches) {
    check_random(_i, true, &switch_totals);
}
END_TEST

START_TEST(test_totals) {
    printf("%u of %u estimated, %u within 0.5 %%, worst %.2f %%; %u of %u steps within 1 %%; "
           "%llu events instead of %llu\n",
           totals.estimated, totals.cases, totals.near, totals.worst * 100, totals.near_steps,
           totals.steps, (unsigned long long)totals.events, (unsigned long long)totals.full_events);
    printf("switch connections: %u of %u estimated, %u within 0.5 %%, worst %.2f %%\n",
           switch_totals.estimated, switch_totals.cases, switch_totals.near,
           switch_totals.worst * 100);
    ck_assert_uint_ge(switch_totals.estimated, 1);
    ck_assert_uint_ge(switch_totals.near, switch_totals.estimated * 95 / 100);
    ck_assert_uint_ge(totals.stuck, 1);
    ck_assert_uint_ge(totals.estimated, totals.cases / 4);
    ck_assert_uint_ge(totals.near, totals.estimated * 97 / 100);
    ck_assert_double_le(totals.worst, 0.02);
    ck_assert_uint_ge(totals.near_steps, totals.steps * 97 / 100);
    ck_assert_uint_le(totals.events, totals.full_events / 4);
}
END_TEST

/* At task level each of two GPUs sends all micro-batches before it receives one: the short runs fit
   into the FIFOs, the run in full does not. */
START_TEST(test_deadlock) {
    small_system_t on = {.transports = "\"nvlink\":{\"slots\":40}"};
    ccl_topology_t *topo = small_topology(&on);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_program_t *program =
        small_program("0>1<1: s1 r1 | 1>0<0: s1 r1", topo->nranks, "Simple", NULL);
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    sim.granularity = CCL_GRANULARITY_TASK;
    for (sim.batches = 40; sim.batches <= 4000; sim.batches *= 10) {
        sim.size_bytes = 1e5 * sim.batches;
        ccl_sim_result_t *result = run(topo, routes, program, sim, true, 0);
        ck_assert_int_eq(result != NULL, sim.batches == 40);
        ccl_sim_result_destroy(result);
    }
    ccl_program_destroy(program);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.sim.estimate");
    TCase *tcase = tcase_create("estimate");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_random, 0, 4);
    tcase_add_loop_test(tcase, test_switches, 0, SANITIZED ? 2 : 4);
    tcase_add_test(tcase, test_totals);
    tcase_add_test(tcase, test_deadlock);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
