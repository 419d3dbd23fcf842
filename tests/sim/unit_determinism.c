/* Equal inputs give bit-equal results: twice in a row, with fresh or shared routes, on any number
   of threads. */
#include "random_cases.h"

static void check_equal(const ccl_sim_result_t *a, const ccl_sim_result_t *b, const char *what) {
    ck_assert_msg(a->time_s == b->time_s, "%s: %.17g and %.17g s", what, a->time_s, b->time_s);
    ck_assert_uint_eq(a->events, b->events);
    ck_assert_uint_eq(a->rate_changes, b->rate_changes);
    ck_assert_uint_eq(a->skipped_batches, b->skipped_batches);
    ck_assert_uint_eq(a->nlinks, b->nlinks);
    ck_assert_uint_eq(a->ntbs, b->ntbs);
    ck_assert(memcmp(a->links, b->links, a->nlinks * sizeof *a->links) == 0);
    for (uint32_t t = 0; t < a->ntbs; t++)
        ck_assert_msg(memcmp(&a->tbs[t], &b->tbs[t], sizeof a->tbs[t]) == 0, "%s: block %u", what,
                      t);
}

/** Runs that gave up: at half their time, and after how much of their events; at a tenth, of that
    without any. */
typedef struct given_up {
    uint32_t half, tenth, unbegun;
    double events;
} given_up_t;

/** A run that may give up is the same when it ends in time, and else ends early. */
static void check_give_up(const ccl_topology_t *topo, const ccl_program_t *program,
                          const ccl_sim_options_t *full, const ccl_sim_result_t *done,
                          given_up_t *count, const char *what) {
    static const double share[] = {1, 0.5, 0.1};
    ccl_sim_options_t options = *full;
    for (size_t i = 0; i < CCL_ARRAY_LEN(share); i++) {
        ccl_sim_result_t *run = NULL;
        options.give_up_s = share[i] * done->time_s;
        ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &run, NULL), CCL_OK);
        if (run->time_s == INFINITY) {
            ck_assert_msg(share[i] < 1, "%s: gave up in time", what);
            ck_assert_uint_lt(run->events, done->events);
            if (i == 1) {
                count->half++;
                count->events += (double)run->events / (double)done->events;
            } else {
                count->tenth++;
                count->unbegun += run->events == 0;
            }
        } else {
            check_equal(run, done, what);
        }
        ccl_sim_result_destroy(run);
    }
}

START_TEST(test_twice) {
    uint32_t compared = 0;
    given_up_t gave_up = {0};
    for (uint32_t k = 0; k < 60; k++) {
        ccl_rng_t rng;
        char what[64];
        ccl_rng_init(&rng, 600 + k);
        uint32_t n = 2 + ccl_rng_below(&rng, 5);
        ccl_topology_t *topo = random_topology(&rng, n);
        ccl_program_t *program = random_program(&rng, n, "Simple");
        ccl_routes_t *routes = ccl_routes_create(topo);
        for (uint32_t g = 0; g < 6; g++) {
            ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
            ccl_sim_result_t *first = NULL, *second = NULL;
            options.size_bytes = 777777;
            options.batches = 1 + ccl_rng_below(&rng, 40);
            options.granularity = (ccl_granularity_t)(g % 3);
            options.sharing = g < 3 ? CCL_SHARING_FAIR : CCL_SHARING_EXCLUSIVE;
            ccl_status_t status =
                ccl_sim_program(NULL, topo, routes, program, &options, &first, NULL);
            ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &second, NULL),
                             status);
            snprintf(what, sizeof what, "case %u.%u", k, g);
            if (status == CCL_OK) {
                check_equal(first, second, what);
                compared++;
                check_give_up(topo, program, &options, first, &gave_up, what);
            }
            ccl_sim_result_destroy(first);
            ccl_sim_result_destroy(second);
        }
        ccl_routes_destroy(routes);
        ccl_program_destroy(program);
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_ge(compared, 300);
    ck_assert_uint_ge(gave_up.half, 9 * compared / 10); /* periods are skipped whole */
    /* What is left to do tells early: 0.21 of the events, and 315 of 334. */
    ck_assert_double_le(gave_up.events / gave_up.half, 0.3);
    ck_assert_uint_ge(gave_up.unbegun, 8 * gave_up.tenth / 10);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.sim.determinism");
    TCase *tcase = tcase_create("determinism");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_twice);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
