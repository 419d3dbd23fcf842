/* A host program may run in a locale with a decimal comma; our numbers keep their points. */
#include "base/base.h"
#include "base/json.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "tests/base/main.h"

static bool decimal_comma(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "it_IT.UTF-8",
                                        "es_ES.UTF-8", "de_DE",      "ccl_comma"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(names); i++)
        if (setlocale(LC_ALL, names[i]) && localeconv()->decimal_point[0] == ',')
            return true;
    return false;
}

START_TEST(numbers_keep_their_point) {
    char plain[16];
    snprintf(plain, sizeof plain, "%.1f", 1.5);
    ck_assert_msg(strcmp(plain, "1,5") == 0, "the locale is not in force: %s", plain);
    double value = 0;
    ck_assert_int_eq(ccl_parse_time_s("1.5us", &value, NULL), CCL_OK);
    ck_assert(value == 1.5e-6);
    char text[32];
    ck_assert_str_eq(ccl_format_rate(2.25e9, text, sizeof text), "2.25GB/s");
    ck_assert_str_eq(ccl_format_bytes(1536, text, sizeof text), "1.5K");
    ccl_text_t out = {0};
    ccl_text_printf(&out, "%.2f", 0.25);
    ck_assert_str_eq(out.data, "0.25");
    ccl_text_fini(&out);
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_fail(&err, CCL_ERR_INPUT, "%g", 0.5);
    ck_assert_str_eq(err.text, "0.5");
    ccl_table_t *table = ccl_table_create();
    ccl_table_column(table, "x", CCL_ALIGN_LEFT);
    ccl_table_row(table);
    ccl_table_cell(table, "%.1f", 2.5);
    ccl_text_t csv = {0};
    ck_assert_int_eq(ccl_table_csv(table, &csv), CCL_OK);
    ck_assert_str_eq(csv.data, "x\n2.5\n");
    ccl_text_fini(&csv);
    ccl_table_destroy(table);
    ccl_json_doc_t doc;
    ck_assert_int_eq(ccl_json_parse("t", "2.5", 3, &doc, NULL), CCL_OK);
    ck_assert(json_real_value(doc.root) == 2.5);
    ccl_json_fini(&doc);
}
END_TEST

static int run(void) {
    TCase *cases = tcase_create("all");
    Suite *suite = suite_create("locale");
    tcase_add_test(cases, numbers_keep_their_point);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}

int main(void) {
    return decimal_comma() ? run() : 77;
}
