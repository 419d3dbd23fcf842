/* Options by table: what each type takes and refuses, and as what the tuner has it. */
#include "base/base.h"

#include <math.h>
#include <string.h>

#include "tests/base/main.h"

typedef struct owner {
    bool flag, either;
    uint32_t choice, count;
    const char *word, *text;
    double time_s, bytes, number, share;
    const ccl_json_doc_t *input;
} owner_t;

static ccl_status_t no_x(const char *text, ccl_error_t *err) {
    return strcmp(text, "x") ? CCL_OK : ccl_fail(err, CCL_ERR_INPUT, "x is not known");
}

#define AT(member_) offsetof(owner_t, member_)
static const ccl_option_t table[] = {
    {.name = "flag",
     .type = CCL_OPTION_FLAG,
     .offset = AT(flag),
     .knob = "flag",
     .knob_words = CCL_OPTION_WORDS("yes", "no")},
    {.name = "either",
     .type = CCL_OPTION_EITHER,
     .offset = AT(either),
     .knob = "either",
     .words = CCL_OPTION_WORDS("floor", "ceiling")},
    {.name = "choice",
     .type = CCL_OPTION_CHOICE,
     .offset = AT(choice),
     .knob = "choice",
     .words = CCL_OPTION_WORDS("auto", "off", "on")},
    {.name = "count",
     .type = CCL_OPTION_COUNT,
     .offset = AT(count),
     .knob = "count",
     .min = 2,
     .max = 10,
     .knob_max = 8},
    {.name = "word",
     .type = CCL_OPTION_WORD,
     .offset = AT(word),
     .knob = "word",
     .words = CCL_OPTION_WORDS("Simple", "LL", "LL128")},
    {.name = "text",
     .type = CCL_OPTION_TEXT,
     .offset = AT(text),
     .value = "NAME",
     .knob = "text",
     .knob_words = CCL_OPTION_WORDS("a", "b"),
     .check = no_x},
    {.name = "time", .type = CCL_OPTION_TIME, .offset = AT(time_s), .knob = "time"},
    {.name = "bytes", .type = CCL_OPTION_BYTES, .offset = AT(bytes), .knob = "bytes"},
    {.name = "number",
     .type = CCL_OPTION_NUMBER,
     .offset = AT(number),
     .knob = "number",
     .min = 0.05,
     .max = 100,
     .automatic = 3},
    {.name = "share",
     .type = CCL_OPTION_PERCENT,
     .offset = AT(share),
     .knob = "share",
     .min = 0.001,
     .max = 10},
    {.name = "untuned", .type = CCL_OPTION_COUNT, .offset = AT(count)},
    {.name = "input", .type = CCL_OPTION_INPUT, .offset = AT(input)},
    {.name = NULL},
};

static const ccl_option_t *option(const char *name) {
    const ccl_option_t *o = ccl_option_find(table, name, strlen(name));
    ck_assert_msg(o != NULL, "%s", name);
    return o;
}

static const struct {
    const char *name, *text;
    double value; /* as the tuner has it; NAN: automatic */
    bool tuned;
    const char *why;
} good[] = {
    {"flag", NULL, 1, true, "a flag's second word"},
    {"either", "floor", NAN, true, "the first word is what holds without it"},
    {"either", "ceiling", 1, true, "the second"},
    {"choice", "auto", NAN, true, "automatic is a word"},
    {"choice", "on", 2, true, "an index"},
    {"count", "2", 2, true, "the least"},
    {"count", "8", 8, true, "the tuner's most"},
    {"count", "10", 10, false, "the most, which the tuner does not take"},
    {"word", "simple", NAN, true, "any case; the first word"},
    {"word", "ll128", 2, true, "any case"},
    {"text", "b", 1, true, "a word that the tuner knows"},
    {"text", "other", NAN, false, "one that it does not"},
    {"time", "2us", 2e-6, true, "a time"},
    {"time", "0", NAN, true, "zero is automatic"},
    {"bytes", "64K", 65536, true, "a size"},
    {"number", "0.05", 0.05, true, "the least"},
    {"number", "3", NAN, true, "what is automatic"},
    {"share", "20", 0.2, true, "percent"},
    {"untuned", "7", 7, false, "no knob"},
};

START_TEST(test_good) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(good); i++) {
        owner_t owner = {.word = "Simple", .number = 3}, again = owner;
        ccl_error_t err = CCL_ERROR_INIT;
        const ccl_option_t *o = option(good[i].name);
        double value = -1, same = -1;
        ck_assert_msg(!ccl_option_is_set(o, &owner), "%s: set at first", good[i].name);
        ck_assert_msg(ccl_option_parse(o, good[i].text, &owner, &err) == CCL_OK, "%s: %s",
                      good[i].why, err.text);
        bool tuned = ccl_option_get(o, &owner, &value);
        ck_assert_msg(tuned == good[i].tuned, "%s", good[i].why);
        ck_assert_msg(isnan(good[i].value) ? isnan(value) : value == good[i].value, "%s: %g",
                      good[i].why, value);
        ck_assert_msg(ccl_option_is_set(o, &owner) == (!tuned || !isnan(value)), "%s", good[i].why);
        if (!tuned)
            continue;
        ccl_option_put(o, value, &again);
        ck_assert(ccl_option_get(o, &again, &same));
        ck_assert_msg(same == value || (isnan(same) && isnan(value)), "%s: put", good[i].why);
    }
}
END_TEST

static const struct {
    const char *name, *text, *error;
} bad[] = {
    {"either", "x", "option --either wants one of floor,ceiling, not \"x\""},
    {"choice", "", "option --choice wants one of auto,off,on, not \"\""},
    {"choice", "ON", "wants one of auto,off,on"},
    {"count", "1", "option --count wants a whole number from 2 to 10, not \"1\""},
    {"count", "11", "from 2 to 10, not \"11\""},
    {"count", "-3", "whole number"},
    {"count", "3.5", "whole number"},
    {"count", "99999999999999999999999", "whole number"},
    {"untuned", "4294967295", "from 0 to 4294967294"},
    {"word", "LL1", "option --word wants one of Simple,LL,LL128, not \"LL1\""},
    {"text", "", "option --text wants NAME, not \"\""},
    {"text", "x", "option --text: x is not known"},
    {"time", "3", "option --time: \"3\" has no unit"},
    {"bytes", "0", "option --bytes: must be more than 0"},
    {"bytes", "-1", "option --bytes: \"-1\" is negative"},
    {"number", "0.04", "option --number wants a number from 0.05 to 100, not \"0.04\""},
    {"number", "nan", "wants a number"},
    {"number", "3x", "not \"3x\""},
    {"share", "0", "option --share wants a number from 0.1 to 1000, not \"0\""},
    {"share", "1001", "from 0.1 to 1000"},
};

START_TEST(test_bad) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        owner_t owner, before;
        ccl_error_t err = CCL_ERROR_INIT;
        memset(&owner, 0, sizeof owner);
        before = owner;
        ck_assert_int_eq(ccl_option_parse(option(bad[i].name), bad[i].text, &owner, &err),
                         CCL_ERR_USAGE);
        ck_assert_msg(strstr(err.text, bad[i].error) != NULL, "%s \"%s\": %s", bad[i].name,
                      bad[i].text, err.text);
        ck_assert_msg(memcmp(&owner, &before, sizeof owner) == 0, "%s was set", bad[i].name);
    }
}
END_TEST

START_TEST(test_words) {
    static const char *const words[] = {"auto", "off", "on", NULL};
    char out[8], all[40];
    ck_assert_uint_eq(ccl_option_word(words, "off,x", 3), 1);
    ck_assert_uint_eq(ccl_option_word(words, "o", 1), CCL_NONE);
    ck_assert_str_eq(ccl_option_join(words, 0, ", ", all, sizeof all), "auto, off, on");
    ck_assert_str_eq(ccl_option_join(words, 1, "|", all, sizeof all), "off|on");
    ck_assert_str_eq(ccl_option_join(words, 0, ",", out, sizeof out), "auto,of"); /* cut */
    ck_assert_ptr_null(ccl_option_find(table, "flags", 5));
    ck_assert_ptr_eq(ccl_option_knob_words(option("count")), NULL);
}
END_TEST

START_TEST(test_files) {
    owner_t owner = {0};
    ccl_json_doc_t doc = {0};
    ck_assert(!ccl_option_is_set(option("input"), &owner));
    ck_assert_int_eq(ccl_option_parse(option("input"), "path", &owner, NULL), CCL_OK);
    ck_assert_ptr_null(owner.input); /* the caller's */
    owner.input = &doc;
    ck_assert(ccl_option_is_set(option("input"), &owner));
}
END_TEST

RUN_TESTS(test_good, test_bad, test_words, test_files)
