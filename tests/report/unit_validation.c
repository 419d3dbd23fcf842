/* What validate says of the order of schedules holds together, however few pairs there are. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "report/report.h"

#include "tests/base/main.h"

static const struct {
    uint32_t rivals, pairs, ranked;
    double tau;
    const char *text;
} rows[] = {
    {2, 1, 1, 0,
     "schedules: 1 of 1 pairs that differ by more than 10 % right (100 %); of all 2, also those as "
     "good as equal, Kendall's tau 0.00\n"},
    {3, 0, 0, 1, "schedules: no pair of 3 differs by more than 10 %\n"},
    {0, 0, 0, NAN, "schedules: no two of one collective and size\n"},
};

START_TEST(ranking) {
    ccl_run_options_t run = CCL_RUN_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_validation_t v = {.nrivals = rows[_i].rivals,
                          .npairs = rows[_i].pairs,
                          .nranked = rows[_i].ranked,
                          .tau = rows[_i].tau};
    ccl_report_validation_t about = {"p", "s", &run, NULL, &v, NULL};
    ccl_report_style_t style = {.format = CCL_REPORT_TEXT};
    ccl_text_t text = {0};
    ck_assert_int_eq(ccl_report_validation(&about, &style, &text, &err), CCL_OK);
    ck_assert_msg(strstr(text.data, rows[_i].text), "%s", text.data);
    ck_assert(!strstr(text.data, "nan"));
    ccl_text_fini(&text);
    style.format = CCL_REPORT_JSON;
    ck_assert_int_eq(ccl_report_validation(&about, &style, &text, &err), CCL_OK);
    ck_assert_int_eq(strstr(text.data, "\"tau\": null") != NULL, rows[_i].rivals == 0);
    ccl_text_fini(&text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("validation");
    TCase *cases = tcase_create("all");
    tcase_add_loop_test(cases, ranking, 0, (int)CCL_ARRAY_LEN(rows));
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
