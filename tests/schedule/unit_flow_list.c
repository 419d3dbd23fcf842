/* Flow lists: reading, refusing, reading millions of lines. */
#include "suite.h"

START_TEST(flows) {
    static const char text[] = "# a comment\n\n4 3 2\r\n"
                               "2 1 2 1.5e3 0   # the last flow first\n"
                               "  0\t0 1 1048576 -1\n"
                               "1 3 0 0.25 2";
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_flow_list_t *list;
    check_ok(ccl_flow_list_read_text("in", text, sizeof text - 1, &list, &err), &err);
    ck_assert_uint_eq(list->nranks, 4);
    ck_assert_uint_eq(list->nflows, 3);
    ck_assert_uint_eq(list->gpus_per_server, 2);
    static const uint32_t src[] = {0, 3, 1}, dst[] = {1, 0, 2}, dep[] = {CCL_NONE, 2, 0};
    static const double bytes[] = {1048576, 0.25, 1500};
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(list->src[i], src[i]);
        ck_assert_uint_eq(list->dst[i], dst[i]);
        ck_assert_uint_eq(list->dep[i], dep[i]);
        ck_assert_double_eq(list->bytes[i], bytes[i]);
    }
    ccl_flow_list_destroy(list);
    check_ok(ccl_flow_list_read_text("in", "1 0 1", 5, &list, &err), &err);
    ck_assert_uint_eq(list->nflows, 0);
    ccl_flow_list_destroy(list);
    ccl_flow_list_destroy(NULL);
}
END_TEST

#define F0 "0 0 1 8 -1\n"
static const bad_row_t rows[] = {
    {"nothing", "", 1, 1, "the first line 'nranks nflows gpus_per_server' is missing"},
    {"only a comment", "# 4 3 2", 1, 8, "is missing"},
    {"half a header", "4 3", 1, 4, "gpus_per_server is missing"},
    {"a longer header", "4 3 2 1\n", 1, 7, "more than the three fields"},
    {"no rank", "0 1 1\n", 1, 1, "nranks '0': an integer from 1"},
    {"a word", "4 x 1\n", 1, 3, "nflows 'x'"},
    {"more flows than the file can hold", "4 2000000000 1\n" F0, 1, 1, "do not fit"},
    {"a flow is missing", "4 2 2\n" F0, 3, 1, "the list ends after 1 of 2 flows"},
    {"a flow too many", "4 1 2\n" F0 "1 0 1 8 -1\n", 3, 1, "more flows than the 1"},
    {"an id that is none", "4 1 2\n1 0 1 8 -1\n", 2, 1, "id '1': an integer from 0 to 0"},
    {"an id twice", "4 2 2\n" F0 F0, 3, 1, "flow 0 is given twice"},
    {"a rank that is none", "4 1 2\n0 0 4 8 -1\n", 2, 5, "dst '4': an integer from 0 to 3"},
    {"a rank to itself", "4 1 2\n0 3 3 8 -1\n", 2, 1, "flow 0 goes from rank 3 to itself"},
    {"negative bytes", "4 1 2\n0 0 1 -8 -1\n", 2, 7, "bytes '-8'"},
    {"bytes that are no number", "4 1 2\n0 0 1 8k -1\n", 2, 7, "bytes '8k'"},
    {"bytes that are not finite", "4 1 2\n0 0 1 1e999 -1\n", 2, 7, "bytes '1e999'"},
    {"a dependency on no flow", "4 1 2\n0 0 1 8 1\n", 2, 9, "dep: the id of one of the 1 flows"},
    {"another negative dependency", "4 1 2\n0 0 1 8 -2\n", 2, 9, "dep"},
    {"fields are missing", "4 1 2\n0 0 1\n", 2, 6, "bytes is missing"},
    {"the last field is missing", "4 1 2\n0 0 1 8\n", 2, 8, "dep is missing"},
    {"a sixth field", "4 1 2\n0 0 1 8 -1 7\n", 2, 12, "more than the five fields"},
    {"a number of many digits", "4 1 2\n0 00000000000000000000001 1 8 -1\n", 2, 3, "src"},
    {"a flow that waits for itself", "4 1 2\n0 0 1 8 0\n", 2, 0, "flow 0 waits for itself"},
    {"a circle", "4 3 2\n0 0 1 8 -1\n1 0 1 8 2\n2 0 1 8 1\n", 3, 0, "flow 1 waits for itself"},
};

START_TEST(refused) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_flow_list_t *list;
        ccl_status_t status =
            ccl_flow_list_read_text("in", rows[i].input, strlen(rows[i].input), &list, &err);
        check_bad(&rows[i], status, &err);
    }
}
END_TEST

START_TEST(half_a_million) {
    enum { N = 500000 };
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_flow_list_t *list;
    ccl_text_printf(&text, "512 %d 8\n", N);
    for (int i = 0; i < N; i++)
        ccl_text_printf(&text, "%d %d %d 1048576 %d\n", i, i % 512, (i + 1) % 512,
                        i < 512 ? -1 : i - 512);
    check_ok(ccl_flow_list_read_text("in", text.data, text.len, &list, &err), &err);
    ck_assert_uint_eq(list->dep[N - 1], N - 513);
    ck_assert_uint_eq(list->src[N - 1], (N - 1) % 512);
    ccl_flow_list_destroy(list);
    ccl_text_fini(&text);
}
END_TEST

SUITE_MAIN("flow_list", flows, refused, half_a_million)
