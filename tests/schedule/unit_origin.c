/* Origins: text, and through the formats of schedules and programs. */
#include "suite.h"

#include <jansson.h>
#include <unistd.h>

START_TEST(lines) {
    ccl_origin_t origin = "";
    char expected[2 * CCL_ORIGIN_LEN];

    ccl_origin_add(origin, "ring: %u rings", 8u);
    ck_assert_str_eq(origin, "ring: 8 rings");
    ccl_origin_add(origin, "hpds: %s", "given order kept");
    ck_assert_str_eq(origin, "ring: 8 rings; hpds: given order kept");
    ccl_origin_set(origin, "two\nlines\tand \x7f");
    ck_assert_str_eq(origin, "two lines and  ");
    ccl_origin_set(origin, "%s", "");
    ck_assert_str_eq(origin, "");
    ccl_origin_file(origin, "a/b/ring.xml");
    ck_assert_str_eq(origin, "file ring.xml");
    ccl_origin_file(origin, "-");
    ck_assert_str_eq(origin, "file on standard input");
    /* What just fits stays; more is cut, but not within a character. */
    for (int longer = 0; longer <= 3; longer++) {
        memset(expected, 'a', sizeof expected);
        expected[CCL_ORIGIN_LEN - 1 + longer] = '\0';
        ccl_origin_set(origin, "%s", expected);
        if (longer)
            strcpy(expected + CCL_ORIGIN_LEN - 4, "...");
        ck_assert_str_eq(origin, expected);
    }
    memset(expected, 'a', sizeof expected);
    strcpy(expected + CCL_ORIGIN_LEN - 5, "\u00e9\u00e9\u00e9");
    ccl_origin_set(origin, "%s", expected);
    strcpy(expected + CCL_ORIGIN_LEN - 5, "...");
    ck_assert_str_eq(origin, expected);
}
END_TEST

static const char hard[] = "sketch by hm: nvlink > net & \"quoted\" <\u00e9>";

static ccl_schedule_t *schedule(void) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *s = NULL;

    check_ok(ccl_collective_create(CCL_ALLGATHER, 2, 1, 0, &coll, &err), &err);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("pair", coll);
    ccl_schedule_builder_add(b, (ccl_transfer_t){.src = 0, .dst = 1, .chunk = 0});
    ccl_schedule_builder_add(b, (ccl_transfer_t){.src = 1, .dst = 0, .chunk = 1});
    check_ok(ccl_schedule_builder_finish(b, &s, &err), &err);
    return s;
}

START_TEST(schedules) {
    ccl_schedule_t *s = schedule(), *again = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t text = {0};

    ck_assert_str_eq(s->origin, ""); /* nobody said */
    ccl_origin_set(s->origin, "%s", hard);
    check_ok(ccl_schedule_write_json(s, &text, &err), &err);
    check_ok(ccl_schedule_read_json("in", text.data, text.len, &again, &err), &err);
    ck_assert_str_eq(again->origin, hard);
    ccl_origin_set(again->origin, "another");
    ck_assert(ccl_schedule_equal(s, again)); /* it describes */
    ccl_text_fini(&text);
    ccl_schedule_destroy(s);
    ccl_schedule_destroy(again);
}
END_TEST

START_TEST(not_a_line) {
    static const char wrong[] =
        "{\"format\": \"ccllab-schedule-1\", \"origin\": 3, \"collective\": {\"kind\": "
        "\"allgather\", \"nranks\": 2}, \"transfers\": []}";
    ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_int_eq(ccl_schedule_read_json("in", wrong, strlen(wrong), &s, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "origin"));
}
END_TEST

#define XML(attribute_)                                                                            \
    "<algo name='n' proto='Simple' nchannels='1' nchunksperloop='2' ngpus='2' coll='allgather' "   \
    "inplace='1' outofplace='0' " attribute_ "><gpu id='0' i_chunks='0' o_chunks='2' "             \
    "s_chunks='0'></gpu><gpu id='1' i_chunks='0' o_chunks='2' s_chunks='0'></gpu></algo>"

static ccl_program_t *program(const char *xml) {
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;

    check_ok(ccl_program_read_xml("in", xml, strlen(xml), &p, &err), &err);
    return p;
}

START_TEST(programs) {
    ccl_program_t *p = program(XML("")), *again;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t text = {0}, plan = {0};

    ck_assert_str_eq(p->origin, "");
    ccl_origin_set(p->origin, "%s", hard);
    check_ok(ccl_program_write_xml(p, &text, &err), &err);
    again = program(text.data);
    ck_assert_str_eq(again->origin, hard);
    ck_assert(ccl_program_equal(p, again));
    ccl_origin_set(again->origin, "another");
    ck_assert(ccl_program_equal(p, again));
    check_ok(ccl_program_write_mscclpp(p, NULL, &plan, &err), &err);
    json_t *json = json_loadb(plan.data, plan.len, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(json, "origin")), hard);
    json_decref(json);
    ccl_text_fini(&text);
    ccl_text_fini(&plan);
    ccl_program_destroy(again);
    ccl_program_destroy(p);
}
END_TEST

/* A file says it itself, or its name does. */
START_TEST(files) {
    static const char *const rows[][2] = {{"", "file origin.xml"}, {"origin='by hand'", "by hand"}};
    char dir[] = "/tmp/ccllab_origin_XXXXXX", path[64];

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/origin.xml", dir);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_program_t *p = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        FILE *file = fopen(path, "w");

        fputs(i ? XML("origin='by hand'") : XML(""), file);
        fclose(file);
        check_ok(ccl_program_read(path, &p, &err), &err);
        ck_assert_str_eq(p->origin, rows[i][1]);
        ccl_program_destroy(p);
    }
    unlink(path);
    rmdir(dir);
}
END_TEST

int main(void) {
    Suite *s = suite_create("origin");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, lines);
    tcase_add_test(tc, schedules);
    tcase_add_test(tc, not_a_line);
    tcase_add_test(tc, programs);
    tcase_add_test(tc, files);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
