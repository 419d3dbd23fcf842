#include <string.h>

#include "base/base.h"

#include "tests/base/main.h"

static ccl_table_t *sample(void) {
    ccl_table_t *table = ccl_table_create();
    ccl_table_column(table, "size(B)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "winner", CCL_ALIGN_LEFT);
    ccl_table_column(table, "time(us)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "note", CCL_ALIGN_LEFT);
    ccl_table_row(table);
    ccl_table_cell(table, "%d", 64);
    ccl_table_cell(table, "ring");
    ccl_table_cell(table, "%.2f", 1.5);
    ccl_table_cell(table, "a, \"b\"");
    ccl_table_row(table);
    ccl_table_cell(table, "%d", 1048576);
    ccl_table_cell(table, "%s", "h\xc3\xa9t\xc3\xa9");
    ccl_table_row(table);
    return table;
}

START_TEST(aligned) {
    ccl_table_t *table = sample();
    ccl_text_t out = {0};
    ck_assert_int_eq(ccl_table_text(table, &out), CCL_OK);
    ck_assert_str_eq(out.data, "size(B)  winner  time(us)  note\n"
                               "     64  ring        1.50  a, \"b\"\n"
                               "1048576  h\xc3\xa9t\xc3\xa9\n"
                               "\n");
    ccl_text_fini(&out);
    ccl_table_destroy(table);
}
END_TEST

static ccl_table_t *wide(void) {
    ccl_table_t *table = ccl_table_create();
    ccl_table_column(table, "size", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "kind", CCL_ALIGN_LEFT);
    ccl_table_column(table, "bandwidth(GB/s)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "what it is for", CCL_ALIGN_LEFT);
    ccl_table_column(table, "settings", CCL_ALIGN_LEFT);
    const char *kinds[] = {"net", "nvlink"};
    for (int i = 0; i < 2; i++) {
        ccl_table_row(table);
        ccl_table_cell(table, "1M");
        ccl_table_cell(table, "%s", kinds[i]);
        ccl_table_cell(table, "%d", 50 + i);
        ccl_table_cell(table, i ? "between GPUs of one server" : "between servers");
        ccl_table_cell(table, "--with ring --channels 4");
    }
    return table;
}

static const struct {
    const char *why, *text;
    size_t columns;
} widths[] = {
    {"all of it",
     "size  kind    bandwidth(GB/s)  what it is for              settings\n"
     "  1M  net                  50  between servers             --with ring --channels 4\n"
     "  1M  nvlink               51  between GPUs of one server  --with ring --channels 4\n",
     83},
    {"headers in two lines",
     "              bandwidth\n"
     "size  kind       (GB/s)  what it is for              settings\n"
     "  1M  net            50  between servers             --with ring --channels 4\n"
     "  1M  nvlink         51  between GPUs of one server  --with ring --channels 4\n",
     80},
    {"text in several lines, options whole",
     "              bandwidth\n"
     "size  kind       (GB/s)  what it is for    settings\n"
     "  1M  net            50  between servers   --with ring\n"
     "                                           --channels 4\n"
     "  1M  nvlink         51  between GPUs of   --with ring\n"
     "                         one server        --channels 4\n",
     60},
    {"parts, each with the columns that tell rows apart",
     "              bandwidth  what it is\n"
     "size  kind       (GB/s)  for\n"
     "  1M  net            50  between\n"
     "                         servers\n"
     "  1M  nvlink         51  between GPUs\n"
     "                         of one\n"
     "                         server\n"
     "\n"
     "size  kind    settings\n"
     "  1M  net     --with ring\n"
     "              --channels 4\n"
     "  1M  nvlink  --with ring\n"
     "              --channels 4\n",
     40},
};

START_TEST(narrow) {
    ccl_table_t *table = wide();
    for (size_t i = 0; i < CCL_ARRAY_LEN(widths); i++) {
        ccl_text_t out = {.columns = widths[i].columns};
        ck_assert_int_eq(ccl_table_text(table, &out), CCL_OK);
        ck_assert_msg(strcmp(out.data, widths[i].text) == 0, "%s:\n%s", widths[i].why, out.data);
        ccl_text_fini(&out);
    }
    ccl_table_destroy(table);
}
END_TEST

START_TEST(wrapped_lines) {
    static const struct {
        const char *text, *want;
        size_t columns;
    } rows[] = {
        {"no limit is no change, whatever the length\n",
         "no limit is no change, whatever the length\n", 0},
        {"one two three\n", "one two\n  three\n", 8},
        {"  size   bytes of the largest buffer\n",
         "  size   bytes of the\n         largest buffer\n", 23},
        {"try --scale 'a b c' or --with ring (--proto LL)",
         "try\n  --scale 'a b c'\n  or\n  --with ring\n  (--proto LL)", 14},
        {"a-word-that-is-too-long as it is\n\nthe winner's\n",
         "a-word-that-is-too-long\n  as it is\n\nthe\n  winner's\n", 10},
        {"h\xc3\xa9 h\xc3\xa9 h\xc3\xa9", "h\xc3\xa9 h\xc3\xa9 h\xc3\xa9", 8},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_text_t out = {.columns = rows[i].columns};
        ccl_text_add_wrapped(&out, rows[i].text);
        ck_assert_str_eq(out.data, rows[i].want);
        ccl_text_fini(&out);
    }
}
END_TEST

START_TEST(csv) {
    ccl_table_t *table = sample();
    ccl_text_t out = {0};
    ck_assert_int_eq(ccl_table_csv(table, &out), CCL_OK);
    ck_assert_str_eq(out.data, "size(B),winner,time(us),note\n"
                               "64,ring,1.50,\"a, \"\"b\"\"\"\n"
                               "1048576,h\xc3\xa9t\xc3\xa9,,\n"
                               ",,,\n");
    ccl_text_fini(&out);
    ccl_table_destroy(table);
}
END_TEST

START_TEST(csv_is_read_back) {
    static const char line[] = "1048576,\"a, \"\"b\"\"\",,h\xc3\xa9\r";
    ccl_csv_field_t f[4];
    ck_assert_uint_eq(ccl_csv_fields(line, sizeof line - 1, f, 4), 4);
    ck_assert_str_eq(f[0].text, "1048576");
    ck_assert_str_eq(f[1].text, "a, \"b\"");
    ck_assert_uint_eq(f[1].len, 6);
    ck_assert_str_eq(f[2].text, "");
    ck_assert_str_eq(f[3].text, "h\xc3\xa9");
    ck_assert_uint_eq(ccl_csv_fields(line, sizeof line - 1, f, 2), 2);
    ck_assert_uint_eq(ccl_csv_fields("", 0, f, 4), 1);
    ck_assert_uint_eq(f[0].len, 0);
}
END_TEST

START_TEST(wrong_use_is_told) {
    ccl_text_t out = {0};
    ccl_table_t *table = ccl_table_create();
    ccl_table_cell(table, "no row yet");
    ck_assert_int_eq(ccl_table_text(table, &out), CCL_ERR_INTERNAL);
    ccl_table_destroy(table);
    table = sample();
    for (int i = 0; i < 5; i++)
        ccl_table_cell(table, "%d", i); /* one more than there are columns */
    ck_assert_int_eq(ccl_table_csv(table, &out), CCL_ERR_INTERNAL);
    ccl_table_destroy(table);
    table = sample();
    ccl_table_column(table, "late", CCL_ALIGN_LEFT);
    ck_assert_int_eq(ccl_table_csv(table, &out), CCL_ERR_INTERNAL);
    ccl_table_destroy(table);
    ccl_table_destroy(NULL);
    ccl_text_fini(&out);
}
END_TEST

START_TEST(many_rows) {
    ccl_table_t *table = ccl_table_create();
    ccl_table_column(table, "n", CCL_ALIGN_RIGHT);
    for (int i = 0; i < 5000; i++) {
        ccl_table_row(table);
        ccl_table_cell(table, "%d", i);
    }
    ccl_text_t out = {0};
    ck_assert_int_eq(ccl_table_text(table, &out), CCL_OK);
    ck_assert_uint_eq(out.len, 5001 * 5);
    ccl_text_fini(&out);
    ccl_table_destroy(table);
}
END_TEST

RUN_TESTS(aligned, narrow, wrapped_lines, csv, csv_is_read_back, wrong_use_is_told, many_rows)
