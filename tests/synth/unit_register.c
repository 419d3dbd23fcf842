/* Synthesizers added to the process: where they stand, what is refused. */
#include "tests/synth/common.h"

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo, (void)want;
    *why = "for this test only";
    return false;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    (void)ctx, (void)topo, (void)routes, (void)want, (void)options, (void)out;
    return ccl_fail(err, CCL_UNSUPPORTED, "for this test only");
}

static ccl_synth_ops_t named(const char *name, bool by_name) {
    return (ccl_synth_ops_t){.size = sizeof(ccl_synth_ops_t),
                             .name = name,
                             .summary = "a test",
                             .source = "this file",
                             .supports = supports,
                             .synthesize = synthesize,
                             .by_name = by_name};
}

static void refuses(const ccl_synth_ops_t *ops, const char *version, const char *text) {
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_synth_register(ops, version, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
}

START_TEST(test_register) {
    enum { MOST = 16 };
    static ccl_synth_ops_t own[MOST + 1];
    static char names[MOST + 1][8];
    const ccl_synth_ops_t *const *all = ccl_synth_all();
    uint32_t nbuilt = 0, n = 0, seen = 0;
    while (all[nbuilt])
        nbuilt++;
    ck_assert_str_eq(ccl_synth_version(all[0]), "");
    for (uint32_t i = 0; i <= MOST; i++) {
        snprintf(names[i], sizeof names[i], "own-%u", i);
        own[i] = named(names[i], i % 4 == 1);
    }
    refuses(NULL, "1", "no synthesizer is given");
    refuses(&own[0], "", "a version has 1 to 23 characters");
    refuses(&own[0], "123456789012345678901234", "a version has 1 to 23 characters");
    ck_assert_ptr_null(ccl_synth_find("own-0"));
    for (uint32_t i = 0; i < MOST; i++)
        ck_assert_int_eq(ccl_synth_register(&own[i], names[i], NULL), CCL_OK);
    ck_assert_int_eq(ccl_synth_register(&own[3], "other", NULL), CCL_OK); /* is there: left alone */
    ck_assert_str_eq(ccl_synth_version(&own[3]), "own-3");
    refuses(&own[MOST], "1", "more than 16 synthesizers are added");
    all = ccl_synth_all();
    while (all[n])
        n++;
    ck_assert_uint_eq(n, nbuilt + MOST);
    bool past = false; /* the first `by_name`: whoever goes through the others ends there */
    for (uint32_t i = 0; i < n; i++) {
        bool added = *ccl_synth_version(all[i]);
        past |= all[i]->by_name;
        seen += added;
        ck_assert_ptr_eq(ccl_synth_find(all[i]->name), all[i]);
        ck_assert_msg(!added || all[i]->by_name == past, "%s", all[i]->name);
        /* Those `by_name` at the very end. */
        ck_assert(!added || !past || i + 1 == n || *ccl_synth_version(all[i + 1]));
    }
    ck_assert_uint_eq(seen, MOST);
    ccl_synth_ops_t again = named("own-0", false);
    refuses(&again, "1", "");
}
END_TEST

START_TEST(test_asked) {
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=300GB/s,1us");
    ccl_collective_t *want = collective(CCL_ALLGATHER, 4, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_synthesize(NULL, "own-0", topo, NULL, want, NULL, &schedule, &err),
                     CCL_UNSUPPORTED);
    ck_assert_str_eq(err.text, "own-0 cannot do allgather here: for this test only");
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(test_register, test_asked)
