#include "base/base.h"
#include "base/json.h"

#include <string.h>

#include "tests/base/main.h"

START_TEST(syntax) {
    static const struct {
        const char *text, *want, *why;
    } rows[] = {
        {"", "t.json:1:", "nothing at all"},
        {"{\"a\":1,\n\"a\":2}", "t.json:2:3: not valid JSON: duplicate object key",
         "duplicate key"},
        {"{\"a\":\n\n  ]", "t.json:3:3: not valid JSON: unexpected token", "wrong bracket"},
        {"[1,2", "t.json:1:4: not valid JSON", "cut off"},
        {"[1] x", "t.json:1:5: not valid JSON: end of file expected", "more than one value"},
        {"\"\xff\"", "t.json:1:", "not UTF-8"},
        {"[1e999]", "t.json:1:6: not valid JSON: real number overflow", "overflow"},
        {"[99999999999999999999]", "t.json:1:21: not valid JSON: too big integer", "overflow"},
        {"[NaN]", "t.json:1:", "not JSON's"},
        {"{\"a\\u0000b\":1}", "t.json:1:", "a zero byte in a key"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_json_doc_t doc;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(ccl_json_parse("t.json", rows[i].text, strlen(rows[i].text), &doc, &err) ==
                          CCL_ERR_INPUT,
                      "%s: accepted", rows[i].why);
        char got[1200];
        ccl_error_format(&err, got, sizeof got);
        ck_assert_msg(strncmp(got, rows[i].want, strlen(rows[i].want)) == 0, "%s: \"%s\"",
                      rows[i].why, got);
    }
}
END_TEST

/* jansson lets it pass behind a number. */
START_TEST(zero_byte) {
    static const char text[] = "[1,\n 2\0, 3]";
    ccl_json_doc_t doc;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_json_parse("t", text, sizeof text - 1, &doc, &err), CCL_ERR_INPUT);
    ck_assert_msg(err.line == 2 && err.column == 3 && strstr(err.text, "zero byte"), "%d:%d: %s",
                  err.line, err.column, err.text);
}
END_TEST

START_TEST(deep_nesting) {
    enum { DEPTH = 200000 };
    char *text = malloc(DEPTH);
    memset(text, '[', DEPTH);
    ccl_json_doc_t doc;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_json_parse("t", text, DEPTH, &doc, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "depth"), "%s", err.text);
    free(text);
}
END_TEST

START_TEST(message_stays_short) {
    char text[2000];
    memset(text, 'x', sizeof text);
    ccl_json_doc_t doc;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_json_parse("t", text, sizeof text, &doc, &err), CCL_ERR_INPUT);
    ck_assert_msg(strlen(err.text) < 120, "%s", err.text);
}
END_TEST

typedef enum read_kind { STR, U32, BOOL, NUM, RATE, TIME, BYTES, ARR, OBJ, ONLY } read_kind_t;

static ccl_status_t do_read(read_kind_t kind, const ccl_json_at_t *at, ccl_error_t *err) {
    static const char *const keys[] = {"bandwidth", "latency", NULL};
    const char *s;
    uint32_t u;
    bool b;
    double d;
    size_t n;
    switch (kind) {
    case STR:
        return ccl_json_string(at, true, &s, err);
    case U32:
        return ccl_json_u32(at, true, 100, &u, err);
    case BOOL:
        return ccl_json_bool(at, true, &b, err);
    case NUM:
        return ccl_json_number(at, true, &d, err);
    case RATE:
        return ccl_json_rate_Bps(at, true, &d, err);
    case TIME:
        return ccl_json_time_s(at, true, &d, err);
    case BYTES:
        return ccl_json_bytes(at, true, &d, err);
    case ARR:
        return ccl_json_array(at, true, &n, err);
    case OBJ:
        return ccl_json_object(at, true, err);
    default:
        return ccl_json_only(at, keys, err);
    }
}

START_TEST(meaning) {
    static const struct {
        read_kind_t kind;
        const char *value, *want, *why;
    } rows[] = {
        {STR, NULL, "t.json:1:1: /k: missing", "a required member"},
        {STR, "3", "t.json:1:7: /k: expected a string, got a number", "type"},
        {U32, "-1", "t.json:1:7: /k: -1 is not a whole number from 0 to 100", "negative"},
        {U32, "101", "t.json:1:7: /k: 101 is not a whole number from 0 to 100", "too large"},
        {U32, "9223372036854775807", "t.json:1:7: /k: 9.223372037e+18 is not", "huge"},
        {U32, "2.5", "t.json:1:7: /k: 2.5 is not a whole number", "fraction"},
        {U32, "\"2\"", "t.json:1:7: /k: expected a whole number, got a string", "type"},
        {BOOL, "1", "t.json:1:7: /k: expected true or false, got a number", "type"},
        {NUM, "null", "t.json:1:7: /k: expected a number, got null", "null is no number"},
        {RATE, "25", "t.json:1:7: /k: 25 has no unit: write a rate such as", "bare number"},
        {RATE, "\"25GB\"", "t.json:1:7: /k: \"25GB\" has an unknown rate unit", "half a unit"},
        {RATE, "\"0GB/s\"", "t.json:1:7: /k: \"0GB/s\" is zero", "zero rate"},
        {RATE, "true", "t.json:1:7: /k: expected a rate such as", "type"},
        {TIME, "2", "t.json:1:7: /k: 2 has no unit: write a time in s, ms, us or ns", "bare"},
        {TIME, "\"-2us\"", "t.json:1:7: /k: \"-2us\" is negative", "negative"},
        {BYTES, "-5", "t.json:1:7: /k: -5 bytes is negative", "negative"},
        {BYTES, "\"5Q\"", "t.json:1:7: /k: \"5Q\" has an unknown size unit", "unit"},
        {ARR, "{}", "t.json:1:7: /k: expected an array, got an object", "type"},
        {OBJ, "[]", "t.json:1:7: /k: expected an object, got an array", "type"},
        {OBJ, "false", "t.json:1:7: /k: expected an object, got a boolean", "type"},
        {ONLY, "{\"latency\":1, \"bandwith\":2}",
         "t.json:1:21: /k/bandwith: unknown key \"bandwith\", did you mean \"bandwidth\"?",
         "the key's own place"},
        {ONLY, "{\"colour\":1}",
         "t.json:1:8: /k/colour: unknown key \"colour\"; known keys: bandwidth latency",
         "nothing near: all are listed"},
        {ONLY, "3", "t.json:1:7: /k: expected an object, got a number", "type"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, rows[i].value ? "{\"k\": %s}" : "{}", rows[i].value);
        ccl_json_doc_t doc;
        ck_assert_int_eq(ccl_json_parse("t.json", text, strlen(text), &doc, NULL), CCL_OK);
        ccl_json_at_t root = ccl_json_root(&doc), at = ccl_json_member(&root, "k");
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(do_read(rows[i].kind, &at, &err) == CCL_ERR_INPUT, "%s: accepted",
                      rows[i].why);
        char got[1200];
        ccl_error_format(&err, got, sizeof got);
        ck_assert_msg(strncmp(got, rows[i].want, strlen(rows[i].want)) == 0,
                      "%s: \"%s\", not \"%s\"", rows[i].why, got, rows[i].want);
        ck_assert_msg(do_read(rows[i].kind, &at, NULL) == CCL_ERR_INPUT, "without an error struct");
        ccl_json_fini(&doc);
    }
}
END_TEST

START_TEST(no_such_file) {
    ccl_json_doc_t doc;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_json_read("/nowhere/x.json", &doc, &err), CCL_ERR_IO);
    ck_assert_str_eq(err.where, "/nowhere/x.json");
}
END_TEST

RUN_TESTS(syntax, zero_byte, deep_nesting, message_stays_short, meaning, no_such_file)
