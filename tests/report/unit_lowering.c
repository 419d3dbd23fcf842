/* Tables of one schedule lowered two ways, of which the second failed: text, JSON, CSV. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "base/json.h"

static ccl_topology_t *topo;
static ccl_schedule_t *schedule;
static ccl_lowered_t *rows;
static ccl_lower_ways_options_t options = {sizeof(options),      NULL, 2, CCL_LOWER_OPTIONS_INIT,
                                           CCL_SIM_OPTIONS_INIT, true};

static void build(void) {
    static const ccl_way_t ways[] = {
        {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_STAGE},
        {CCL_ORDER_HPDS, CCL_ALLOCATE_STATE, CCL_GRANULARITY_TASK}};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *coll;

    ck_assert_int_eq(
        ccl_topology_read_synthetic(NULL, "servers:1 gpus:8 nvswitch=300GB/s,1us", &topo, &err),
        CCL_OK);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 8, 1, 0, &coll, &err), CCL_OK);
    ck_assert_int_eq(ccl_synthesize(NULL, "direct", topo, NULL, coll, NULL, &schedule, &err),
                     CCL_OK);
    ccl_collective_destroy(coll);
    options.ways = ways;
    options.sim.size_bytes = 1 << 20;
    ck_assert_msg(ccl_lower_ways(NULL, topo, schedule, &options, &rows, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert_int_eq(rows[0].status, CCL_OK);
    rows[0].stats = (ccl_lower_stats_t){0.25, 0.5, 1, 7};
    ccl_program_destroy(rows[1].program);
    ccl_sim_result_destroy(rows[1].result);
    rows[1].program = NULL;
    rows[1].result = NULL;
    rows[1].stats = (ccl_lower_stats_t){0, 0, 0, 0};
    rows[1].status = CCL_DEADLOCK;
    snprintf(rows[1].why, sizeof(rows[1].why), "deadlock: \"all\" wait");
}

static void destroy(void) {
    ccl_lowered_destroy(rows, 2);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}

static char *print(ccl_report_format_t format, const char *table, bool blocks, uint32_t rank,
                   bool all) {
    ccl_report_lowering_t about = {.input = "a.json",
                                   .topo = topo,
                                   .schedule = schedule,
                                   .lower = &options.lower,
                                   .options = &options.sim,
                                   .parse_s = 0.125,
                                   .ways = rows,
                                   .nways = 2,
                                   .blocks = blocks,
                                   .rank = rank,
                                   .all_ranks = all};
    ccl_report_style_t style = {format, table, 0, 0};
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_msg(ccl_report_lowering(&about, &style, &text, &err) == CCL_OK, "%s", err.text);
    return text.data;
}

static size_t count(const char *text, const char *what) {
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

START_TEST(text) {
    char *plain = print(CCL_REPORT_TEXT, NULL, false, CCL_NONE, false);
    char *rank = print(CCL_REPORT_TEXT, NULL, true, 3, false);
    char *all = print(CCL_REPORT_TEXT, NULL, true, CCL_NONE, true);

    ck_assert_ptr_nonnull(strstr(plain, "allgather of 1M on "));
    ck_assert_ptr_nonnull(strstr(plain, "deadlock"));
    ck_assert_ptr_nonnull(strstr(plain, "  hpds state task: deadlock: \"all\" wait\n"));
    /* 7 sub-pipelines; 125, 250, 500, 1000 ms, and all of them */
    ck_assert_ptr_nonnull(strstr(plain, "    7    125.000      250.000    500.000   1000.000  "
                                        "1875.000\n"));
    ck_assert_ptr_null(strstr(plain, "Thread blocks of"));
    ck_assert_uint_eq(count(rank, "Thread blocks of rank 3: step order, connection allocation, "
                                  "stage level\n"),
                      1);
    ck_assert_uint_eq(count(rank, "Thread blocks of"), 1); /* a way that failed has none */
    ck_assert_uint_eq(count(rank, "to 3"), 0);             /* nobody sends to itself */
    ck_assert_uint_ge(count(rank, "from 4"), 1);
    ck_assert_ptr_nonnull(strstr(all, "Thread blocks of all ranks: "));
    ck_assert_uint_ge(count(all, "to 3"), 7);
    free(plain);
    free(rank);
    free(all);
}
END_TEST

START_TEST(json) {
    char *text_of = print(CCL_REPORT_JSON, NULL, true, CCL_NONE, true);
    json_error_t error;
    json_t *root = json_loads(text_of, JSON_REJECT_DUPLICATES, &error);
    const json_t *ways, *ok, *failed, *blocks, *block;
    size_t i, to = 0;

    ck_assert_msg(root != NULL, "%d: %s\n%s", error.line, error.text, text_of);
    ways = json_object_get(root, "ways");
    ok = json_array_get(ways, 0);
    failed = json_array_get(ways, 1);
    ck_assert_double_eq(json_number_value(json_object_get(root, "parse_s")), 0.125);
    ck_assert_double_eq(json_number_value(json_object_get(ok, "time_s")), rows[0].time_s);
    ck_assert_double_eq(json_number_value(json_object_get(ok, "order_s")), 0.5);
    ck_assert(json_is_null(json_object_get(ok, "why")));
    ck_assert_str_eq(json_string_value(json_object_get(failed, "status")), "deadlock");
    ck_assert_str_eq(json_string_value(json_object_get(failed, "why")), "deadlock: \"all\" wait");
    ck_assert(json_is_null(json_object_get(failed, "time_s")));
    ck_assert(json_is_null(json_object_get(failed, "speedup")));
    ck_assert(json_is_null(json_object_get(failed, "mean_idle_share")));
    ck_assert_uint_eq(json_array_size(json_object_get(failed, "blocks")), 0);
    blocks = json_object_get(ok, "blocks");
    ck_assert_uint_eq(json_array_size(blocks), rows[0].result->nstages);
    json_array_foreach((json_t *)blocks, i, block) {
        const json_t *c = json_array_get(json_object_get(block, "connections"), 0);

        ck_assert(json_is_integer(json_object_get(block, "stage")));
        ck_assert(json_is_null(json_object_get(c, "send")) !=
                  json_is_null(json_object_get(c, "recv")));
        to += json_is_integer(json_object_get(c, "send"));
    }
    ck_assert_uint_ge(to, 8 * 7); /* every rank sends to every other, on one channel or more */
    json_decref(root);
    free(text_of);
}
END_TEST

START_TEST(csv) {
    char *ways = print(CCL_REPORT_CSV, NULL, false, CCL_NONE, false);
    char *blocks = print(CCL_REPORT_CSV, NULL, true, CCL_NONE, true);
    char *named = print(CCL_REPORT_CSV, "ways", true, CCL_NONE, true);

    ck_assert_uint_eq(count(ways, "\n"), 3);
    ck_assert_ptr_nonnull(strstr(ways, "\nstep,connection,stage,"));
    ck_assert_ptr_nonnull(strstr(ways, ",allgather,1048576,deadlock,,,,,,,,,,,0,0.125,0,0,"));
    ck_assert_str_eq(ways, named);
    ck_assert_uint_eq(count(blocks, "\n"), 1 + (size_t)rows[0].result->nstages);
    ck_assert_ptr_nonnull(strstr(blocks, "\nstep,connection,stage,0,0,0,to 1,1,"));
    free(ways);
    free(blocks);
    free(named);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lowering");
    TCase *cases = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_unchecked_fixture(cases, build, destroy);
    tcase_add_test(cases, text);
    tcase_add_test(cases, json);
    tcase_add_test(cases, csv);
    suite_add_tcase(suite, cases);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
