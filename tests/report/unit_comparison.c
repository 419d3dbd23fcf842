/* The comparison table: winners, ties, who did not take part, width; and its JSON and CSV. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "base/json.h"

enum { N = 6, SIZES = 2 };

static ccl_topology_t *topo;
static ccl_collective_t *coll;
static ccl_comparison_t comparison;
static ccl_compare_cell_t cells[SIZES * N];
static ccl_way_t ways[N];
static bool ways_lowered[N];
static ccl_link_use_t uses[8];
static ccl_sim_result_t result;
static ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;

static void build_cell(ccl_compare_cell_t *c, uint32_t s, uint32_t k, double size_bytes,
                       uint32_t blocks) {
    c->status = k == 5 ? CCL_DEADLOCK : CCL_OK;
    ccl_origin_set(c->origin, "%s", k == 5 ? "" : k == 4 ? "file mine.xml" : "direct: mesh");
    c->why = k == 5 ? "it waits for itself" : NULL;
    c->time_s = s == 0 ? 1e-5 * (k + 1) : (k == 3 || k == 4 ? 2e-5 : 3e-5);
    c->low_s = c->time_s * (1 - 1e-6);
    c->high_s = c->time_s * (1 + 1e-6);
    c->algbw_GBps = size_bytes / c->time_s / 1e9;
    c->busbw_GBps = c->algbw_GBps / 2;
    c->batches = 1;
    c->proto = k == 3 ? "LL" : "Simple";
    c->usage = (ccl_sim_usage_t){blocks, 0.75, 0.25, 0.5, 0.125};
}

/* Six contenders: the first wins at the first size, the fourth and fifth tie at the second. */
static void build(void) {
    static const char *names[N] = {
        "ring", "tree", "\xff\"quoted\"\n", "direct", "recursive-doubling-with-a-long-name", "hm"};
    static const char *why_not[N] = {NULL, "wants a power of two", NULL, NULL, NULL, NULL};
    static uint32_t blocks[N] = {2, 0, 4, 6, 8, 10};
    static double sizes[SIZES] = {65536, 1048576};
    static uint32_t winner[SIZES] = {0, 3};
    static bool tie[SIZES] = {false, true};
    static double bounds[SIZES] = {8e-6, 1.5e-5};
    static ccl_sim_result_t *best[SIZES];
    ccl_error_t err = CCL_ERROR_INIT;

    for (uint32_t k = 0; k < N; k++)
        ways_lowered[k] = k != 4; /* a program of the user's */
    memset(ways, 0, sizeof(ways));
    ways[3] = ccl_way_hpds;
    ck_assert_int_eq(
        ccl_topology_read_synthetic(NULL, "servers:1 gpus:2 nvswitch=300GB/s,1us", &topo, &err),
        CCL_OK);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 2, 1, 0, &coll, &err), CCL_OK);
    for (uint32_t s = 0; s < SIZES; s++) {
        for (uint32_t k = 0; k < N; k++) {
            build_cell(&cells[s * N + k], s, k, sizes[s], blocks[k]);
        }
    }
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        uses[l].bytes = 1000 * l;
        uses[l].utilization = 0.25 * l;
    }
    result.nlinks = topo->nlinks;
    result.links = uses;
    best[0] = best[1] = &result;
    comparison = (ccl_comparison_t){.ncontenders = N,
                                    .nsizes = SIZES,
                                    .names = names,
                                    .why_not = why_not,
                                    .thread_blocks = blocks,
                                    .ways = ways,
                                    .lowered = ways_lowered,
                                    .sizes_bytes = sizes,
                                    .bound_s = bounds,
                                    .gap = 0.3,
                                    .cells = cells,
                                    .winner = winner,
                                    .nccl = CCL_NONE,
                                    .tie = tie,
                                    .best = best};
}

static void destroy(void) {
    ccl_collective_destroy(coll);
    ccl_topology_destroy(topo);
}

static char *print(ccl_report_format_t format, const char *table, uint32_t columns) {
    const ccl_collective_t *colls[] = {coll};
    const ccl_comparison_t *all[] = {&comparison};
    ccl_report_comparison_t about = {topo, 1, colls, all, &options, 7, NULL};
    ccl_report_style_t style = {format, table, 0, columns};
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_msg(ccl_report_comparison(&about, &style, &text, &err) == CCL_OK, "%s", err.text);
    return text.data;
}

/** The third to last contender is stock software. */
static void make_stock(const char *name) {
    comparison.nccl = 4;
    comparison.names[4] = name;
    comparison.nccl_note = "may do more";
    cells[4].choice = "ring LL x2";
    cells[N + 4].choice = "tree Simple x8";
}

/** The first line that begins (after blanks) with `start`, copied. */
static char *line_of(const char *text, const char *start) {
    for (const char *p = text; p && *p;) {
        const char *q = p + strspn(p, " ");

        if (strncmp(q, start, strlen(start)) == 0)
            return strndup(q, strcspn(q, "\n"));
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    ck_abort_msg("no line begins with \"%s\":\n%s", start, text);
    return NULL;
}

/* 50 us / 10 us, and a tie. */
START_TEST(gain) {
    const char *before = comparison.names[4];
    make_stock("nccl");
    char *text = print(CCL_REPORT_TEXT, NULL, 0), *json = print(CCL_REPORT_JSON, NULL, 0);
    char *csv = print(CCL_REPORT_CSV, NULL, 0);
    char *small = line_of(text, "64K  "), *large = line_of(text, "1M  ");
    json_t *root = json_loads(json, 0, NULL);
    json_t *sizes =
        json_object_get(json_array_get(json_object_get(root, "comparisons"), 0), "sizes");

    ck_assert_ptr_nonnull(strstr(text, "vs nccl"));
    ck_assert_msg(strstr(small, "5.00x") != NULL, "%s", small);
    ck_assert_msg(strstr(large, "1.00x") != NULL, "%s", large);
    ck_assert_ptr_nonnull(strstr(text, "  nccl: 64K ring LL x2, 1M tree Simple x8\n"));
    ck_assert_ptr_nonnull(strstr(text, "  nccl may do more\n"));
    ck_assert_ptr_nonnull(strstr(csv, ",1.2500000000000002,5,"));
    ck_assert_ptr_nonnull(strstr(csv, ",1,ring LL x2,"));
    ck_assert_double_eq_tol(
        json_number_value(json_object_get(json_array_get(sizes, 0), "speedup_over_nccl")), 5, 1e-9);
    json_decref(root);
    free(small);
    free(large);
    free(text);
    free(json);
    free(csv);
    make_stock("rccl");
    text = print(CCL_REPORT_TEXT, NULL, 0);
    ck_assert_ptr_nonnull(strstr(text, "vs rccl"));
    free(text);
    comparison.nccl = CCL_NONE;
    comparison.names[4] = before;
    comparison.nccl_note = NULL;
    cells[4].choice = cells[N + 4].choice = NULL;
    text = print(CCL_REPORT_TEXT, NULL, 0);
    ck_assert_ptr_null(strstr(text, "vs "));
    free(text);
}
END_TEST

START_TEST(winners_and_ties) {
    char *text = print(CCL_REPORT_TEXT, NULL, 0);
    char *small = line_of(text, "64K  ");
    char *large = line_of(text, "1M  ");

    ck_assert_ptr_nonnull(strstr(small, "ring  "));
    ck_assert_ptr_nonnull(strstr(small, "3.28*")); /* 65536 / 10 us / 2 */
    ck_assert_ptr_null(strchr(small, '='));
    ck_assert_ptr_nonnull(strstr(large, "direct ="));
    ck_assert_ptr_nonnull(strstr(small, "10.00       8.00  1.25")); /* time, bound, gap */
    ck_assert_ptr_nonnull(strstr(large, "20.00      15.00  1.33"));
    ck_assert_ptr_nonnull(
        strstr(text, "  proven: no schedule is faster by more than 30 % at 64K\n"));
    ck_assert_ptr_null(strstr(text, "left out"));
    ck_assert_ptr_nonnull(strstr(text, "26.21*"));
    ck_assert_ptr_nonnull(strstr(text, "26.21="));
    ck_assert_ptr_nonnull(strstr(text, "deadlock"));
    ck_assert_ptr_nonnull(strstr(text, "did not take part: tree: wants a power of two"));
    ck_assert_ptr_nonnull(strstr(text, " has no time at 64K, 1M: it waits for itself\n"));
    ck_assert_ptr_nonnull(strstr(text, "hm 10"));
    ck_assert_ptr_nonnull(strstr(text, "0 / 38 / 75")); /* least, mean, busiest */
    /* only who is lowered otherwise than the title says */
    ck_assert_ptr_nonnull(strstr(text, "\n  direct: hpds order, state allocation, task level\n"));
    ck_assert_ptr_null(strstr(text, "ring: step order"));
    /* an origin that does not begin with the winner's name gets it */
    ck_assert_ptr_nonnull(
        strstr(text, "came about:\n    64K: ring: direct: mesh\n    1M: direct: mesh\n"));
    free(small);
    free(large);
    free(text);
}
END_TEST

/* A narrow page splits the contenders over several tables; nobody is lost. */
START_TEST(narrow) {
    char *wide = print(CCL_REPORT_TEXT, NULL, 1000);
    char *narrow = print(CCL_REPORT_TEXT, NULL, 80);
    const char *bar = "|";
    size_t bars[2] = {0, 0};

    for (const char *p = wide; (p = strstr(p, bar)) != NULL; p++)
        bars[0]++;
    for (const char *p = narrow; (p = strstr(p, bar)) != NULL; p++)
        bars[1]++;
    ck_assert_uint_eq(bars[0], 1 + SIZES);
    ck_assert_uint_gt(bars[1], bars[0]);
    ck_assert_ptr_nonnull(strstr(narrow, "recursive-doubling-with-a-long-name"));
    ck_assert_ptr_nonnull(strstr(narrow, "deadlock"));
    free(wide);
    free(narrow);
}
END_TEST

/* Without bounds nothing is proven; cells that did not run are counted, and say so. */
START_TEST(proven) {
    char *json = print(CCL_REPORT_JSON, NULL, 0), *text;
    json_t *root = json_loads(json, 0, NULL);
    const json_t *one = json_array_get(json_object_get(root, "comparisons"), 0);
    const json_t *of = json_object_get(one, "sizes");

    ck_assert_double_eq(json_number_value(json_object_get(one, "proven_gap")), 0.3);
    ck_assert(json_is_true(json_object_get(json_array_get(of, 0), "proven")));
    ck_assert(json_is_false(json_object_get(json_array_get(of, 1), "proven")));
    json_decref(root);
    free(json);
    const ccl_compare_cell_t was = cells[5];
    double *bounds = comparison.bound_s;
    comparison.bound_s = NULL;
    cells[5] = (ccl_compare_cell_t){.status = CCL_UNSUPPORTED, .why = "not run", .ended = true};
    text = print(CCL_REPORT_TEXT, NULL, 0);
    ck_assert_ptr_null(strstr(text, "proven: "));
    ck_assert_ptr_nonnull(strstr(text, "  1 runs left out where a winner was proven before"));
    ck_assert_ptr_nonnull(strstr(text, "  not run\n")); /* in its column */
    free(text);
    comparison.bound_s = bounds;
    cells[5] = was;
}
END_TEST

START_TEST(json) {
    char *text = print(CCL_REPORT_JSON, NULL, 0);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    const json_t *one, *size, *cell;

    ck_assert_msg(root != NULL, "%d: %s\n%s", error.line, error.text, text);
    one = json_array_get(json_object_get(root, "comparisons"), 0);
    size = json_array_get(json_object_get(one, "sizes"), 1);
    cell = json_array_get(json_object_get(size, "results"), 2);
    ck_assert_str_eq(json_string_value(json_object_get(size, "winner")), "direct");
    ck_assert_uint_eq(json_array_size(json_object_get(size, "tied_with")), 1);
    ck_assert_uint_eq(json_array_size(json_object_get(size, "results")), N - 1);
    ck_assert_str_eq(json_string_value(json_object_get(cell, "proto")), "LL");
    /* the very same double */
    ck_assert_double_eq(json_number_value(json_object_get(cell, "time_s")), cells[N + 3].time_s);
    ck_assert_double_eq(json_number_value(json_object_get(cell, "low_s")), cells[N + 3].low_s);
    ck_assert_str_eq(json_string_value(json_object_get(cell, "origin")), "direct: mesh");
    ck_assert_int_eq((int)json_integer_value(json_object_get(root, "seed")), 7);
    ck_assert_double_eq(json_number_value(json_object_get(cell, "thread_blocks_per_gpu")), 6);
    ck_assert_double_eq(json_number_value(json_object_get(cell, "comm_share")), 0.75);
    ck_assert_double_eq(json_number_value(json_object_get(cell, "mean_idle_share")), 0.25);
    ck_assert_double_eq(json_number_value(json_object_get(cell, "max_idle_share")), 0.5);
    ck_assert_double_eq(json_number_value(json_object_get(cell, "link_utilization")), 0.125);
    cell = json_array_get(json_object_get(one, "contenders"), 3);
    ck_assert_str_eq(json_string_value(json_object_get(cell, "order")), "hpds");
    ck_assert_str_eq(json_string_value(json_object_get(cell, "allocation")), "state");
    ck_assert_str_eq(json_string_value(json_object_get(cell, "granularity")), "task");
    cell = json_array_get(json_object_get(one, "contenders"), 4);
    ck_assert(json_is_null(json_object_get(cell, "order")));
    ck_assert(json_is_null(json_object_get(cell, "allocation")));
    ck_assert_str_eq(json_string_value(json_object_get(cell, "granularity")), "algorithm");
    /* bytes that are no UTF-8 do not spoil the document */
    cell = json_array_get(json_object_get(one, "contenders"), 2);
    ck_assert_str_eq(json_string_value(json_object_get(cell, "name")), "\xef\xbf\xbd\"quoted\"\n");
    json_decref(root);
    free(text);
}
END_TEST

START_TEST(csv) {
    char *times = print(CCL_REPORT_CSV, NULL, 0);
    char *links = print(CCL_REPORT_CSV, "links", 0);
    size_t rows = 0;

    ck_assert_ptr_nonnull(strstr(times, "1048576,direct,ok,2e-05,"));
    ck_assert_ptr_nonnull(strstr(times, "tree,not taking part,,,"));
    ck_assert_ptr_nonnull(
        strstr(times, ",hpds,state,task,LL,6,0.25,0.5,1.5e-05,1.3333333333333335,"));
    ck_assert_ptr_nonnull(strstr(
        times, ",,,algorithm,Simple,8,0.25,0.5,1.5e-05,1.3333333333333335,,,file mine.xml\n"));
    for (const char *p = links; *p; p++)
        rows += *p == '\n';
    ck_assert_uint_eq(rows, 1 + SIZES * topo->nlinks);
    free(times);
    free(links);
}
END_TEST

START_TEST(unknown_table) {
    const ccl_collective_t *colls[] = {coll};
    const ccl_comparison_t *all[] = {&comparison};
    ccl_report_comparison_t about = {topo, 1, colls, all, &options, 7, NULL};
    ccl_report_style_t style = {CCL_REPORT_CSV, "nope", 0, 0};
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_int_eq(ccl_report_comparison(&about, &style, &text, &err), CCL_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.text, "times, links"));
    ck_assert_ptr_null(text.data);
}
END_TEST

START_TEST(classes) {
    ccl_link_class_t out[8] = {0};

    ck_assert_uint_eq(topo->nkinds, 1);
    ccl_report_link_classes(topo, &result, out);
    ck_assert_str_eq(out[0].kind, "nvlink");
    ck_assert_uint_eq(out[0].nlinks, 4);
    ck_assert_uint_eq(out[0].used, 3);
    ck_assert_double_eq(out[0].bytes, 6000);
    ck_assert_double_eq(out[0].min, 0);
    ck_assert_double_eq(out[0].mean, 0.375);
    ck_assert_double_eq(out[0].max, 0.75);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("comparison");
    TCase *cases = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_unchecked_fixture(cases, build, destroy);
    tcase_add_test(cases, winners_and_ties);
    tcase_add_test(cases, gain);
    tcase_add_test(cases, narrow);
    tcase_add_test(cases, proven);
    tcase_add_test(cases, json);
    tcase_add_test(cases, csv);
    tcase_add_test(cases, unknown_table);
    tcase_add_test(cases, classes);
    suite_add_tcase(suite, cases);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
