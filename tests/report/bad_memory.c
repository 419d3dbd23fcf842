/*
 * Out of memory at every allocation in turn, while a schedule is lowered several ways, contenders
 * are compared and both are reported: CCL_ERR_NOMEM and nothing leaked, or a whole report all the
 * same. malloc and friends are wrapped by the linker.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "tests/base/failing_malloc.h"

static ccl_topology_t *topo;
static ccl_collective_t *coll;
static ccl_schedule_t *schedule;
static bool warned; /* of what there was no memory for */
static ccl_ctx_t ctx = CCL_CTX_INIT;

static void build(void) {
    ck_assert_int_eq(
        ccl_topology_read(NULL, "servers:2 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us fabric=rail",
                          &topo, NULL),
        CCL_OK);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, 4, 1, 0, &coll, NULL), CCL_OK);
    ck_assert_int_eq(ccl_synthesize(NULL, "hm", topo, NULL, coll, NULL, &schedule, NULL), CCL_OK);
    ctx.threads = 1;
}

static void destroy(void) {
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(coll);
    ccl_topology_destroy(topo);
}

static ccl_status_t lower(ccl_text_t *out, ccl_error_t *err) {
    static const ccl_way_t ways[] = {
        {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_STAGE},
        {CCL_ORDER_HPDS, CCL_ALLOCATE_STATE, CCL_GRANULARITY_TASK}};
    ccl_lower_ways_options_t options = {sizeof(options),      ways, 2, CCL_LOWER_OPTIONS_INIT,
                                        CCL_SIM_OPTIONS_INIT, true};
    ccl_report_lowering_t about = {.input = "a.json",
                                   .topo = topo,
                                   .schedule = schedule,
                                   .lower = &options.lower,
                                   .options = &options.sim,
                                   .nways = 2,
                                   .blocks = true,
                                   .rank = CCL_NONE};
    ccl_lowered_t *rows = NULL;
    ccl_status_t status;

    options.sim.size_bytes = 1 << 20;
    CCL_TRY(ccl_lower_ways(&ctx, topo, schedule, &options, &rows, err));
    about.ways = rows;
    status = CCL_OK;
    for (int f = 0; status == CCL_OK && f < 3; f++) {
        ccl_report_style_t style = {(ccl_report_format_t)f, NULL, 0, 0};

        status = ccl_report_lowering(&about, &style, out, err);
    }
    ccl_lowered_destroy(rows, 2);
    return status;
}

static ccl_status_t compare(ccl_text_t *out, ccl_error_t *err) {
    static const double sizes_bytes[] = {65536, 1 << 20};
    const ccl_contender_t contenders[] = {
        {.name = "hpds"},
        {.name = "ring"},
        {.name = "mine", .schedule = schedule, .way = &ccl_way_hpds}};
    ccl_compare_options_t options = {.size = sizeof(options),
                                     .contenders = contenders,
                                     .ncontenders = 3,
                                     .sizes_bytes = sizes_bytes,
                                     .nsizes = 2,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT};
    ccl_comparison_t *comparison = NULL;
    const ccl_collective_t *colls[] = {coll};
    const ccl_comparison_t *all[1];
    ccl_report_comparison_t about = {topo, 1, colls, all, &options.sim, 1, NULL};
    ccl_status_t status;

    CCL_TRY(ccl_compare(&ctx, topo, coll, &options, &comparison, err));
    for (uint32_t i = 0; i < comparison->nwarnings; i++)
        warned |= strstr(comparison->warnings[i], "out of memory") != NULL;
    all[0] = comparison;
    status = CCL_OK;
    for (int f = 0; status == CCL_OK && f < 3; f++) {
        ccl_report_style_t style = {(ccl_report_format_t)f, NULL, 0, 0};

        status = ccl_report_comparison(&about, &style, out, err);
    }
    ccl_comparison_destroy(comparison);
    return status;
}

/** Results read back, in a page with the cluster. */
static ccl_status_t page(ccl_text_t *out, ccl_error_t *err) {
    static const char *const texts[] = {
        "{\"schema\": \"ccllab/compare/1\", \"topology\": \"x\", \"comparisons\": "
        "[{\"collective\": "
        "\"allgather\", \"busbw_factor\": 1, \"contenders\": [{\"name\": \"ring\"}], \"sizes\": "
        "[{\"size_bytes\": 1024, \"bound_s\": 1e-6, \"results\": [{\"name\": \"ring\", "
        "\"busbw_GBps\": 1}]}]}]}",
        "{\"traceEvents\": [{\"ph\": \"M\", \"pid\": 0, \"args\": {\"name\": \"GPU 0\"}}, {\"ph\": "
        "\"X\", \"pid\": 0, \"tid\": 1, \"name\": \"s\", \"ts\": 0, \"dur\": 5}]}",
        "{\"schema\": \"ccllab/explain/1\", \"input\": \"ring\", \"topology\": \"x\", "
        "\"collective\": "
        "\"allgather\", \"size_bytes\": 1024, \"time_s\": 2e-6, \"causes\": [{\"cause\": \"link\", "
        "\"kind\": \"net\", \"time_s\": 2e-6}], \"waits\": [{\"wait\": \"end\", \"time_s\": "
        "2e-6}], "
        "\"cut\": {\"nlinks\": 1, \"capacity_Bps\": 1e9, \"carried_bytes\": 1024, \"busy\": 1, "
        "\"parts\": [{\"busy\": 1, \"cause\": \"link\"}]}, \"changes\": [{\"what\": \"more\", "
        "\"of\": "
        "\"program\", \"edits\": [], \"options\": \"--batches 2\", \"time_s\": 1e-6}], "
        "\"thread_blocks\": [{\"rank\": 0, \"id\": 0, \"start_s\": 0, \"done_s\": 2e-6, "
        "\"busy_s\": 2e-6, "
        "\"wait_data_s\": 0, \"wait_peer_s\": 0, \"wait_slot_s\": 0}]}",
        "{\"schema\": \"ccllab/bound/1\", \"list\": [{\"a\": 1}]}"};
    ccl_json_doc_t docs[CCL_ARRAY_LEN(texts)] = {{0}};
    ccl_report_page_t about = {.topo = topo, .docs = docs};
    ccl_status_t status = CCL_OK;

    while (status == CCL_OK && about.ndocs < CCL_ARRAY_LEN(docs)) {
        const char *text = texts[about.ndocs];

        status = ccl_json_parse("a.json", text, strlen(text), &docs[about.ndocs], err);
        about.ndocs += status == CCL_OK;
    }
    if (status == CCL_OK)
        status = ccl_report_page(&about, out, err);
    while (about.ndocs > 0)
        ccl_json_fini(&docs[--about.ndocs]);
    return status;
}

static ccl_status_t (*const works[])(ccl_text_t *, ccl_error_t *) = {lower, compare, page};

START_TEST(every_allocation) {
    size_t whole = 0;
    long step = 1;

    for (long n = -1;; n += step) { /* the first time nothing fails */
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_text_t text = {0};
        ccl_status_t status;
        bool struck;

        warned = false;
        fail_in = n;
        armed = n >= 0;
        status = works[_i](&text, &err);
        struck = n >= 0 && fail_in < 0;
        armed = false;
        if (n < 0)
            whole = text.len;
        ck_assert_msg(status == CCL_OK || (struck && status == CCL_ERR_NOMEM),
                      "allocation %ld: %s %s", n, ccl_status_name(status), err.text);
        if (status == CCL_OK)
            /* wall times differ in length; what lacks memory is left out, and says so */
            ck_assert_msg(text.len + 400 > whole || warned || strstr(text.data, "out of memory"),
                          "allocation %ld: a part is missing, and nothing says why", n);
        ccl_text_fini(&text);
        if (n >= 0 && !struck) {
            ck_assert_int_gt(n, 40);
            break;
        }
        step = n < 300 ? 1 : 1 + n / 40;
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory");
    TCase *cases = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_set_timeout(cases, 0);
    tcase_add_unchecked_fixture(cases, build, destroy);
    tcase_add_loop_test(cases, every_allocation, 0, (int)CCL_ARRAY_LEN(works));
    suite_add_tcase(suite, cases);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
