/* Spaces: what is read is what was written, what does not apply is auto, errors have their place.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "search/tune/space.h"

static ccl_status_t read_text(const char *text, ccl_space_t **out, ccl_error_t *err) {
    char path[] = "/tmp/ccllab_space_XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    ccl_status_t status = ccl_space_read(path, out, err);
    unlink(path);
    return status;
}

static double synthesizer(const char *name) {
    for (uint32_t i = 0; ccl_synth_all()[i]; i++)
        if (strcmp(ccl_synth_all()[i]->name, name) == 0)
            return i;
    ck_abort_msg("no %s", name);
    return 0;
}

static ccl_knob_t knob(const char *name) {
    ccl_knob_t out = CCL_KNOB_WITH;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_knob_find(name, strlen(name), &out, &err) == CCL_OK, "%s", err.text);
    ck_assert_str_eq(ccl_knob_name(out), name);
    return out;
}

START_TEST(test_values) {
    ccl_space_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(
        read_text("{\"format\": \"ccllab/space/1\", \"knobs\": {\"channels\": [\"auto\", 3, "
                  "\"4:32:2\"], \"tau_ref\": \"1us:4us\", \"order\": \"step,hpds\"}}",
                  &s, &err) == CCL_OK,
        "%s", err.text);
    static const double channels[] = {NAN, 3, 4, 8, 16, 32};
    ck_assert_uint_eq(s->nvalues[CCL_KNOB_CHANNELS], CCL_ARRAY_LEN(channels));
    for (size_t i = 1; i < CCL_ARRAY_LEN(channels); i++)
        ck_assert(s->values[CCL_KNOB_CHANNELS][i] == channels[i]);
    ck_assert(isnan(s->values[CCL_KNOB_CHANNELS][0]));
    ck_assert_uint_eq(s->nvalues[knob("tau_ref")], 3);
    ck_assert_double_eq_tol(s->values[knob("tau_ref")][2], 4e-6, 1e-15);
    ck_assert_uint_eq(s->nvalues[CCL_KNOB_ORDER], 2);
    ck_assert(s->values[CCL_KNOB_ORDER][1] == CCL_ORDER_HPDS);
    ck_assert_uint_eq(s->nvalues[CCL_KNOB_WITH], 0);
    ck_assert_int_eq(ccl_space_set(s, "channels=2,2", &err), CCL_OK); /* replaces; twice is once */
    ck_assert_uint_eq(s->nvalues[CCL_KNOB_CHANNELS], 1);
    /* Real numbers, also as ranges; they are the sketches'. */
    double values[CCL_KNOBS];
    char text[32];
    ck_assert_int_eq(ccl_space_set(s, "within=auto,0.1:0.4", &err), CCL_OK);
    ck_assert_uint_eq(s->nvalues[knob("within")], 4);
    ck_assert_int_eq(ccl_space_set(s, "within=0", &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "a number from 0.001 to 10"));
    ck_assert_int_eq(ccl_space_set(s, "fine_epochs=0.5x", &err), CCL_ERR_INPUT);
    ccl_knob_text(knob("coarse_epochs"), 2.5, text, sizeof text);
    ck_assert_str_eq(text, "2.5");
    for (int sketch = 0; sketch < 2; sketch++) {
        for (uint32_t k = 0; k < CCL_KNOBS; k++)
            values[k] = NAN;
        values[CCL_KNOB_WITH] = synthesizer(sketch ? "sketch" : "ring");
        values[knob("within")] = 0.2;
        values[knob("simulated")] = 4;
        ccl_space_point(s, values);
        char *settings = ccl_space_settings(values);
        ck_assert_str_eq(settings, sketch
                                       ? "{\"simulated\":4,\"with\":\"sketch\",\"within\":\"0.2\"}"
                                       : "{\"with\":\"ring\"}");
        free(settings);
    }
    ccl_space_destroy(s);
}
END_TEST

static char *settings_of(const ccl_space_t *s, const char *with) {
    double values[CCL_KNOBS];
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        values[k] = NAN;
    values[CCL_KNOB_WITH] = synthesizer(with);
    values[knob("tau_ref")] = 2e-6;
    values[CCL_KNOB_CHUNKS] = 4;
    values[CCL_KNOB_ORDER] = CCL_ORDER_HPDS;
    ccl_space_point(s, values);
    return ccl_space_settings(values);
}

/* Bytes, factors and real numbers, also in a file. */
START_TEST(test_constants) {
    ccl_space_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    double values[CCL_KNOBS];
    ck_assert_msg(read_text("{\"format\": \"ccllab/space/1\", \"knobs\": {\"slice\": \"64K:1M:4\", "
                            "\"latency\": [0.25, 2], \"piece\": 1000, \"proto\": \"LL,LL128\"}}",
                            &s, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_uint_eq(s->nvalues[CCL_KNOB_SLICE], 3);
    ck_assert(s->values[CCL_KNOB_SLICE][1] == 262144);
    ck_assert(s->values[CCL_KNOB_LATENCY][0] == 0.25);
    ck_assert(s->values[CCL_KNOB_PIECE][0] == 1000);
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        values[k] = s->nvalues[k] ? s->values[k][0] : NAN;
    values[CCL_KNOB_WITH] = synthesizer("ring");
    values[knob("epoch")] = 1e-6; /* milp's */
    values[knob("inner")] = 0;    /* c2c's */
    ccl_space_point(s, values);
    char *settings = ccl_space_settings(values);
    ck_assert_str_eq(settings, "{\"latency\":\"0.25\",\"piece\":\"1000\",\"proto\":\"LL\","
                               "\"slice\":\"64K\",\"with\":\"ring\"}");
    free(settings);
    /* Each knob counts where its option does: --roots is sccl's and milp's, too. */
    static const char *const with_roots[] = {"greedy", "sccl", "milp", "taccl", "cegis"};
    for (uint32_t w = 0; ccl_synth_all()[w]; w++) {
        bool counts = false;
        for (size_t i = 0; i < CCL_ARRAY_LEN(with_roots); i++)
            counts |= strcmp(ccl_synth_all()[w]->name, with_roots[i]) == 0;
        values[CCL_KNOB_WITH] = w;
        values[knob("roots")] = 1;
        ccl_space_point(s, values);
        ck_assert_msg(isnan(values[knob("roots")]) == !counts, "%s", ccl_synth_all()[w]->name);
    }
    ccl_space_destroy(s);
}
END_TEST

/* What is wrong, and what would be right. */
START_TEST(test_wrong_constants) {
    ccl_space_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_space_create(&s, NULL), CCL_OK);
    static const char *const bad[][2] = {
        {"slice=0", "more than 0"},
        {"slice=64Q", "knob slice"},
        {"piece=fast", "knob piece"},
        {"fifo=0", "a whole number from 1"},
        {"blocks=2.5", "a whole number from 1"},
        {"slices=-1", "a whole number from 1"},
        {"latency=2us", "a number above 0"},
        {"tb_rate=0", "a number above 0"},
        {"overhead=1001", "at most 1000"},
        {"proto=ll", "one of Simple,LL,LL128"},
        {"proto=LL:LL128", "has no ranges"},
        {"inner=greedy", "one of direct,hm,ring"},
        {"compose=maybe", "one of off,on"},
        {"clusters=1", "a whole number from 2"},
        {"epoch=3", "knob epoch"},
        {"chunks=2 when with=rng", "did you mean \"ring\""},
        {"chunks=2 when chunks=2", "cannot depend on chunks"},
        {"with=ring when order=rr", "cannot depend on order"},
        {"chunks=2 when order", "a knob and its values"},
        {"chunks=2 when", "a whole number from 1"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        ccl_error_clear(&err);
        ck_assert_msg(ccl_space_set(s, bad[i][0], &err) == CCL_ERR_INPUT, "%s", bad[i][0]);
        ck_assert_msg(strstr(err.text, bad[i][1]) != NULL, "%s: %s", bad[i][0], err.text);
    }
    ccl_space_destroy(s);
}
END_TEST

/* A condition on the command line takes the place of the knob's conditions; without one they stay.
 */
START_TEST(test_when) {
    ccl_space_t *s = NULL;
    ck_assert_int_eq(ccl_space_create(&s, NULL), CCL_OK);
    for (uint32_t round = 0; round < 4; round++) {
        static const char *const texts[] = {"chunks=4 when with=hm,greedy", "chunks=4,8",
                                            "chunks=4 when with=ring", "order=hpds when chunks=4"};
        static const char *const with[4][2] = {/* without chunks, with */
                                               {"ring", "hm"},
                                               {"ring", "hm"},
                                               {"hm", "ring"},
                                               {"hm", "ring"}};
        ck_assert_int_eq(ccl_space_set(s, texts[round], NULL), CCL_OK);
        char *without = settings_of(s, with[round][0]), *has = settings_of(s, with[round][1]);
        ck_assert_msg(strstr(without, "chunks") == NULL, "%s: %s", texts[round], without);
        ck_assert_msg(strstr(has, "\"chunks\":4") != NULL, "%s: %s", texts[round], has);
        ck_assert((strstr(without, "hpds") == NULL) == (round == 3));
        free(without);
        free(has);
    }
    ccl_space_destroy(s);
}
END_TEST

/* tau_ref is cegis's; chunks as the file says; and what hangs on tau_ref goes with it. */
START_TEST(test_conditions) {
    ccl_space_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(
        read_text("{\"format\": \"ccllab/space/1\", \"knobs\": {}, \"when\": {\"chunks\": "
                  "{\"with\": [\"cegis\", \"greedy\"]}, \"order\": {\"tau_ref\": "
                  "\"2us\"}}}",
                  &s, &err) == CCL_OK,
        "%s", err.text);
    static const struct {
        const char *with, *settings;
    } rows[] = {
        {"cegis", "{\"chunks\":4,\"order\":\"hpds\",\"tau_ref\":\"2us\",\"with\":\"cegis\"}"},
        {"greedy", "{\"chunks\":4,\"with\":\"greedy\"}"},
        {"ring", "{\"with\":\"ring\"}"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char *settings = settings_of(s, rows[i].with);
        ck_assert_str_eq(settings, rows[i].settings);
        free(settings);
    }
    ccl_space_destroy(s);
}
END_TEST

START_TEST(test_bad) {
    static const struct {
        const char *text, *why;
        int line, column;
    } rows[] = {
        {"{\"format\": \"ccllab/space/1\",\n \"knobs\": {\"chanels\": 1}}", "did you mean", 2, 23},
        {"{\"format\": \"ccllab/space/1\",\n \"knobs\": {\"channels\": 0}}", "from 1 to 64", 2, 24},
        {"{\"format\": \"ccllab/space/1\",\n \"knobs\": {\"channels\": [1, 2.5]}}", "whole number",
         2, 28},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {\"order\": \"hdps\"}}",
         "one of step,rr,hpds", 1, 49},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {\"order\": \"1:2\"}}", "no ranges", 1, 49},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {\"with\": \"rng\"}}", "did you mean", 1, 48},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {\"tau_ref\": \"5\"}}", "tau_ref", 1, 51},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {\"chunks\": \"8:2\"}}", "a range goes", 1,
         50},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {\"chunks\": \"2:8:1\"}}", "greater than 1",
         1, 50},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {\"chunks\": []}}", "no value", 1, 50},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {\"chunks\": \"1,,2\"}}", "empty", 1, 50},
        {"{\"format\": \"ccllab/space/2\", \"knobs\": {}}", "is wanted", 1, 12},
        {"{\"format\": \"ccllab/space/1\"}", "knobs", 1, 1},
        {"{\"format\": \"ccllab/space/1\", \"knobs\": {}, \"when\": {\"with\": {\"order\": "
         "\"rr\"}}}",
         "cannot depend", 1, 70},
        {"{\"format\": \"ccllab/space/1\", \"knob\": {}}", "did you mean", 1, 0}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_space_t *s = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(read_text(rows[i].text, &s, &err) == CCL_ERR_INPUT, "%s", rows[i].text);
        ck_assert_msg(strstr(err.text, rows[i].why) != NULL, "%s: %s", rows[i].text, err.text);
        ck_assert_msg(err.line == rows[i].line && err.column > 0 &&
                          (rows[i].column == 0 || abs(err.column - rows[i].column) <= 12),
                      "%s: %d:%d", rows[i].text, err.line, err.column);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("space");
    TCase *t = tcase_create("space");
    tcase_add_test(t, test_values);
    tcase_add_test(t, test_constants);
    tcase_add_test(t, test_wrong_constants);
    tcase_add_test(t, test_when);
    tcase_add_test(t, test_conditions);
    tcase_add_test(t, test_bad);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
