#include "base/base.h"
#include "base/json.h"

#include <string.h>

#include "tests/base/main.h"

static ccl_json_doc_t parsed(const char *text) {
    ccl_json_doc_t doc;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_json_parse("t.json", text, strlen(text), &doc, &err) == CCL_OK, "%s",
                  err.text);
    return doc;
}

START_TEST(typed_reads) {
    ccl_json_doc_t doc = parsed("{\"s\":\"x\",\"u\":7,\"b\":true,\"n\":2.5,\"r\":\"25GB/s\","
                                "\"t\":\"2us\",\"z\":\"64M\",\"zn\":12,\"a\":[1,2,3],\"o\":{}}");
    ccl_json_at_t root = ccl_json_root(&doc), at;
    ccl_error_t err = CCL_ERROR_INIT;
    const char *s = NULL;
    at = ccl_json_member(&root, "s");
    ck_assert_int_eq(ccl_json_string(&at, true, &s, &err), CCL_OK);
    ck_assert_str_eq(s, "x");
    uint32_t u = 0;
    at = ccl_json_member(&root, "u");
    ck_assert_int_eq(ccl_json_u32(&at, true, 7, &u, &err), CCL_OK);
    ck_assert_uint_eq(u, 7);
    bool b = false;
    at = ccl_json_member(&root, "b");
    ck_assert_int_eq(ccl_json_bool(&at, true, &b, &err), CCL_OK);
    ck_assert(b);
    double d = 0;
    at = ccl_json_member(&root, "n");
    ck_assert_int_eq(ccl_json_number(&at, true, &d, &err), CCL_OK);
    ck_assert(d == 2.5);
    at = ccl_json_member(&root, "u");
    ck_assert_int_eq(ccl_json_number(&at, true, &d, &err), CCL_OK);
    ck_assert_msg(d == 7, "whole numbers are numbers");
    at = ccl_json_member(&root, "r");
    ck_assert_int_eq(ccl_json_rate_Bps(&at, true, &d, &err), CCL_OK);
    ck_assert(d == 25e9);
    at = ccl_json_member(&root, "t");
    ck_assert_int_eq(ccl_json_time_s(&at, true, &d, &err), CCL_OK);
    ck_assert(d == 2e-6);
    at = ccl_json_member(&root, "z");
    ck_assert_int_eq(ccl_json_bytes(&at, true, &d, &err), CCL_OK);
    ck_assert(d == 67108864);
    at = ccl_json_member(&root, "zn");
    ck_assert_int_eq(ccl_json_bytes(&at, true, &d, &err), CCL_OK);
    ck_assert_msg(d == 12, "a bare number is bytes");
    size_t n = 0;
    at = ccl_json_member(&root, "a");
    ck_assert_int_eq(ccl_json_array(&at, true, &n, &err), CCL_OK);
    ck_assert_uint_eq(n, 3);
    ccl_json_at_t third = ccl_json_element(&at, 2), fourth = ccl_json_element(&at, 3);
    ck_assert_int_eq(json_integer_value(third.value), 3);
    ck_assert_ptr_null(fourth.value);
    ck_assert_str_eq(fourth.pointer, "/a/3");
    at = ccl_json_member(&root, "o");
    ck_assert_int_eq(ccl_json_object(&at, true, &err), CCL_OK);
    ccl_json_fini(&doc);
    ccl_json_fini(&doc); /* a cleared one is fine */
    ccl_json_fini(NULL);
}
END_TEST

START_TEST(names) {
    ccl_json_doc_t doc = parsed(
        "{\"s\":\"x\",\"i\":3,\"zero\":0,\"big\":9223372036854775807,\"less\":-3,\"real\":3.0,"
        "\"no\":false}");
    ccl_json_at_t root = ccl_json_root(&doc);
    static const struct {
        const char *key, *name, *says;
    } rows[] = {{"s", "x", NULL},
                {"i", "3", NULL},
                {"zero", "0", NULL},
                {"big", "9223372036854775807", NULL},
                {"less", NULL, "/less: expected a string, got a number; write \"-3\""},
                {"real", NULL, "/real: expected a string, got a number"},
                {"no", NULL, "/no: expected a string, got a boolean"},
                {"absent", NULL, "missing"}};
    const char *got[CCL_ARRAY_LEN(rows)];
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_json_at_t at = ccl_json_member(&root, rows[i].key);
        ccl_error_t err = CCL_ERROR_INIT;
        got[i] = NULL;
        ck_assert_int_eq(ccl_json_name(&at, true, &got[i], &err),
                         rows[i].name ? CCL_OK : CCL_ERR_INPUT);
        if (rows[i].says)
            ck_assert_msg(strstr(err.text, rows[i].says), "%s", err.text);
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) { /* none was in another's way */
        if (rows[i].name)
            ck_assert_str_eq(got[i], rows[i].name);
        else
            ck_assert_ptr_null(got[i]);
    }
    ccl_json_at_t at = ccl_json_member(&root, "absent");
    const char *kept = "kept";
    ck_assert_int_eq(ccl_json_name(&at, false, &kept, NULL), CCL_OK);
    ck_assert_str_eq(kept, "kept");
    ccl_json_fini(&doc);
}
END_TEST

START_TEST(absent_keeps_the_default) {
    ccl_json_doc_t doc = parsed("{}");
    ccl_json_at_t root = ccl_json_root(&doc), at = ccl_json_member(&root, "k");
    ccl_json_at_t deeper = ccl_json_member(&at, "x");
    ck_assert_ptr_null(deeper.value);
    ck_assert_str_eq(deeper.pointer, "/k/x");
    const char *s = "d";
    uint32_t u = 5;
    bool b = true;
    double d = 1.5;
    size_t n = 9;
    ck_assert_int_eq(ccl_json_string(&at, false, &s, NULL), CCL_OK);
    ck_assert_int_eq(ccl_json_u32(&at, false, 10, &u, NULL), CCL_OK);
    ck_assert_int_eq(ccl_json_bool(&at, false, &b, NULL), CCL_OK);
    ck_assert_int_eq(ccl_json_number(&at, false, &d, NULL), CCL_OK);
    ck_assert_int_eq(ccl_json_rate_Bps(&at, false, &d, NULL), CCL_OK);
    ck_assert_int_eq(ccl_json_time_s(&at, false, &d, NULL), CCL_OK);
    ck_assert_int_eq(ccl_json_bytes(&at, false, &d, NULL), CCL_OK);
    ck_assert_int_eq(ccl_json_array(&at, false, &n, NULL), CCL_OK);
    ck_assert_int_eq(ccl_json_object(&at, false, NULL), CCL_OK);
    ck_assert(u == 5 && b && d == 1.5 && n == 9 && strcmp(s, "d") == 0);
    ccl_json_fini(&doc);
}
END_TEST

/* The place that a message names, for every shape of pointer. */
START_TEST(positions) {
    static const char text[] = "{\n"
                               "  \"a\": [10, {\"b\": \"x\"}, [ ]],\n"
                               "  \"\\u0063\\\"\": {\"d/e\": 1, \"f~g\": [true, null]},\n"
                               "  \"\xc3\xa9\": 1, \"h\": {\n"
                               "    \"i\": {} }\n"
                               "}\n";
    static const struct {
        const char *steps[4]; /**< "#n" is an element */
        const char *want, *why;
    } rows[] = {
        {{NULL}, "t.json:1:1: no", "the whole"},
        {{"a"}, "t.json:2:8: /a: no", "a member's value"},
        {{"a", "#0"}, "t.json:2:9: /a/0: no", "an element"},
        {{"a", "#1", "b"}, "t.json:2:19: /a/1/b: no", "nested"},
        {{"a", "#2"}, "t.json:2:25: /a/2: no", "an empty array"},
        {{"a", "#9"}, "t.json:2:8: /a/9: no", "an absent element: its array"},
        {{"a", "#1", "zz"}, "t.json:2:13: /a/1/zz: no", "an absent member: its object"},
        {{"c\"", "d/e"}, "t.json:3:23: /c\"/d~1e: no", "escapes in text and pointer"},
        {{"c\"", "f~g", "#1"}, "t.json:3:40: /c\"/f~0g/1: no", "behind a skipped member"},
        {{"h"}, "t.json:4:16: /h: no", "columns count characters, not bytes"},
        {{"h", "i"}, "t.json:5:10: /h/i: no", "on a later line"},
        {{"q", "r", "s"}, "t.json:1:1: /q/r/s: no", "nothing of it is there"},
    };
    ccl_json_doc_t doc = parsed(text);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_json_at_t at = ccl_json_root(&doc);
        for (size_t k = 0; k < 4 && rows[i].steps[k]; k++)
            at = rows[i].steps[k][0] == '#'
                     ? ccl_json_element(&at, strtoul(rows[i].steps[k] + 1, NULL, 10))
                     : ccl_json_member(&at, rows[i].steps[k]);
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_int_eq(ccl_json_fail(&at, &err, "no"), CCL_ERR_INPUT);
        char got[1200];
        ccl_error_format(&err, got, sizeof got);
        ck_assert_msg(strcmp(got, rows[i].want) == 0, "%s: \"%s\", not \"%s\"", rows[i].why, got,
                      rows[i].want);
    }
    ccl_json_fini(&doc);
}
END_TEST

START_TEST(long_pointers_are_cut) {
    char key[400], text[500];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    snprintf(text, sizeof text, "{\"o\":\n {\"%s\": 1}}", key);
    ccl_json_doc_t doc = parsed(text);
    ccl_json_at_t root = ccl_json_root(&doc), object = ccl_json_member(&root, "o");
    ccl_json_at_t at = ccl_json_member(&object, key);
    ck_assert_int_eq(json_integer_value(at.value), 1);
    ck_assert_str_eq(at.pointer, "/o/...");
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_json_fail(&at, &err, "no");
    ck_assert_msg(err.line == 2 && err.column == 2, "%d:%d", err.line, err.column);
    for (int i = 0; i < 300; i++) /* and stays inside its array however deep */
        at = ccl_json_member(&at, "abc");
    ck_assert_uint_lt(strlen(at.pointer), sizeof at.pointer);
    ccl_json_fini(&doc);
}
END_TEST

START_TEST(nearest) {
    static const char *const keys[] = {"bandwidth", "latency", "lanes", "duplex", "from", NULL};
    static const struct {
        const char *word, *want, *why;
    } rows[] = {
        {"bandwith", "bandwidth", "a letter missing"},
        {"bandwidht", "bandwidth", "neighbours swapped"},
        {"Latency", "latency", "case"},
        {"lane", "lanes", "a letter missing at the end"},
        {"form", "from", "a swap in a short word"},
        {"colour", NULL, "nothing near"},
        {"x", NULL, "one letter is no hint"},
        {"", NULL, "nothing is no hint"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        const char *got = ccl_nearest(rows[i].word, keys);
        bool same = got && rows[i].want ? strcmp(got, rows[i].want) == 0 : got == rows[i].want;
        ck_assert_msg(same, "\"%s\": %s (%s)", rows[i].word, got ? got : "none", rows[i].why);
    }
    char endless[5000];
    memset(endless, 'a', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    ck_assert_ptr_null(ccl_nearest(endless, keys));
}
END_TEST

RUN_TESTS(typed_reads, names, absent_keeps_the_default, positions, long_pointers_are_cut, nearest)
