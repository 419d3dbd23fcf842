/*
 * Sketches on random clusters: every collective at random sizes verifies, on any number of threads
 * the same; what is asked for by --channels is kept.
 */
#include "common.h"
#include "tests/base/nightly.h"

static uint64_t state = 20260;

static uint32_t draw(uint32_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33) % n;
}

static void random_spec(char *spec, size_t len) {
    static const char *const inside[] = {"nvswitch=180GB/s,1us", "nvlink=mesh,40GB/s,1us",
                                         "nvlink=ring,50GB/s,0.7us", "xgmi=mesh,47GB/s,1us"};
    static const char *const fabrics[] = {"", " fabric=rail", " fabric=rail,spine"};
    uint32_t servers = 1 + draw(4), gpus = 2 + draw(servers > 2 ? 3 : 7);
    uint32_t nics = draw(2) ? gpus : 1;

    snprintf(spec, len, "servers:%u gpus:%u %s nics:%ux%uGB/s,%uus%s", servers, gpus,
             inside[draw(4)], nics, 10 + 10 * draw(5), 1 + draw(5),
             nics > 1 && servers > 1 ? fabrics[draw(3)] : "");
}

START_TEST(test_random) {
    const uint32_t rounds = nightly() ? 18 : SANITIZED ? 4 : 9;
    uint32_t tried = 0;

    for (uint32_t i = 0; i < rounds; i++) {
        char spec[200];
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_topology_t *topo = NULL;

        random_spec(spec, sizeof spec);
        topo = topology(spec);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_collective_t *want =
            collective((ccl_collective_kind_t)(i % CCL_SENDRECV), topo->nranks, draw(topo->nranks));
        options.size_bytes = (double)(1ull << (10 + draw(20)));
        options.channels = draw(3);
        if (check_all("sketch", topo, routes, want, &options, 1u << draw(4), spec)) {
            ccl_schedule_t *made[2] = {NULL, NULL};

            for (uint32_t k = 0; k < 2; k++) {
                ccl_ctx_t ctx = CCL_CTX_INIT;

                ctx.threads = 1 + 2 * k;
                ck_assert_int_eq(
                    ccl_synthesize(&ctx, "sketch", topo, routes, want, &options, &made[k], &err),
                    CCL_OK);
            }
            ck_assert_msg(ccl_schedule_equal(made[0], made[1]), "%s: threads matter", spec);
            ck_assert(!made[0]->limited);
            ccl_schedule_destroy(made[0]);
            ccl_schedule_destroy(made[1]);
            tried++;
        }
        ccl_collective_destroy(want);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_gt(tried, rounds * 3 / 4);
}
END_TEST

START_TEST(test_limit) {
    /* No time: the candidate with the best estimate, marked. */
    ccl_topology_t *topo = topology("servers:4 gpus:4 nvswitch=180GB/s,1us nics:4x50GB/s,5us");
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;

    options.size_bytes = 1e8;
    options.time_limit_s = 1e-9;
    ck_assert_int_eq(ccl_synthesize(NULL, "sketch", topo, NULL, want, &options, &schedule, &err),
                     CCL_OK);
    ck_assert(schedule->limited);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.synth.sketch");
    TCase *tcase = tcase_create("sketch");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_random);
    tcase_add_test(tcase, test_limit);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
