/*
 * Baselines on random clusters, lowered, by the engine and by the second simulator of
 * tests/sim/naive.h: real blocks, fused rings, trees.
 */
#include "synth/synth.h"

#include "tests/base/nightly.h"
#include "tests/sim/reference.h"

enum { SHARDS = 8, CASES = SANITIZED ? 2 : 3, NIGHTLY_CASES = 12 };
static tally_t lowered;

/** What the baselines give on random clusters, lowered: real blocks, fused rings, trees. */
START_TEST(test_lowered) {
    tally_t tally = {0};
    for (uint32_t k = 0; k < cases_per_shard(nightly() ? NIGHTLY_CASES : CASES); k++) {
        ccl_rng_t rng;
        ccl_rng_init(&rng, 90000000u + 1000u * (uint64_t)_i + k);
        uint32_t n = 2 + ccl_rng_below(&rng, 5);
        ccl_topology_t *topo = random_topology(&rng, n);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_collective_t *want = NULL;
        ccl_collective_kind_t kind = (ccl_collective_kind_t)ccl_rng_below(&rng, CCL_CUSTOM);
        ck_assert_int_eq(ccl_collective_create(kind, n, 1, ccl_rng_below(&rng, n), &want, NULL),
                         CCL_OK);
        for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name; ops++) {
            ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
            ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
            ccl_schedule_t *schedule = NULL;
            ccl_program_t *program = NULL;
            ccl_error_t err = CCL_ERROR_INIT;
            char what[128];
            synth.chunks = 1; /* tries fewer ways where a synthesizer searches */
            synth.channels = ccl_rng_below(&rng, 3);
            lower.no_fuse = ccl_rng_below(&rng, 3) == 0;
            ccl_status_t status =
                ccl_synthesize(NULL, (*ops)->name, topo, routes, want, &synth, &schedule, &err);
            if (status == CCL_UNSUPPORTED)
                continue;
            ck_assert_msg(status == CCL_OK, "%s: %s", (*ops)->name, err.text);
            status = ccl_lower(NULL, schedule, &lower, &program, &err);
            ck_assert_msg(status == CCL_OK, "%s: %s", (*ops)->name, err.text);
            setting_t s = {topo, routes, program, 1e4 * (1 + ccl_rng_below(&rng, 200)), 0, 0, 0};
            for (uint32_t g = 0; g < 3 && program->nsteps <= 240; g += 2) { /* no stages here */
                s.granularity = (ccl_granularity_t)g;
                s.batches = 1 + ccl_rng_below(&rng, 6);
                s.sharing = ccl_rng_below(&rng, 4) ? CCL_SHARING_FAIR : CCL_SHARING_EXCLUSIVE;
                snprintf(what, sizeof what, "lowered %d.%u %s %s granularity %u batches %u", _i, k,
                         (*ops)->name, want->name, g, s.batches);
                compare(&s, what, &tally);
            }
            ccl_program_destroy(program);
            ccl_schedule_destroy(schedule);
        }
        ccl_collective_destroy(want);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    add(&lowered, &tally);
}
END_TEST

/** The cases are what they are meant to be. */
START_TEST(test_cases) {
    printf("lowered programs: %u cases, %llu slices, %u deadlocks, %u skipped, %u chaotic\n",
           lowered.cases, (unsigned long long)lowered.slices, lowered.deadlocks, lowered.skipped,
           lowered.chaotic);
    ck_assert_uint_ge(lowered.cases, SANITIZED ? 65 : 100);
    ck_assert_uint_ge(lowered.slices, 10 * lowered.cases);
    ck_assert_uint_ge(lowered.skipped, SANITIZED ? 3 : 5);
    ck_assert_uint_le(lowered.chaotic, lowered.cases / 100);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.reference");
    TCase *tcase = tcase_create("reference");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_lowered, 0, SHARDS);
    tcase_add_test(tcase, test_cases);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
