/* The page of a lab notebook and of a result of `tune`: sections, the best of each size, points,
 * commands. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/report.h"
#include "tests/base/main.h"

static char dir[64], path[128];

static void setup(void) {
    strcpy(dir, "/tmp/ccllab_page_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/lab.db", dir);
}

static void teardown(void) {
    char command[200];

    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static const struct {
    const char *cluster, *text, *collective, *settings;
    double size_bytes, time_s, bound_s;
    bool estimate;
    ccl_status_t status;
} tried[] = {
    {"pair", "{}", "allgather", "{\"with\":\"ring\"}", 1 << 20, 4e-5, 1e-5, false, CCL_OK},
    {"pair", "{}", "allgather", "{\"channels\":2,\"with\":\"ring\"}", 1 << 20, 2e-5, 2e-5, false,
     CCL_OK},
    {"pair", "{}", "allgather", "{\"with\":\"hm\"}", 1 << 20, 3e-5, 1e-5, false, CCL_OK},
    {"pair", "{}", "allgather", "{\"tau_ref\":2.5e-06,\"with\":\"cegis\"}", 1 << 24, 5e-4, 4e-4,
     false, CCL_OK},
    {"pair", "{}", "allgather", "{\"with\":\"tree\"}", 1 << 24, 0, 4e-4, false, CCL_CHECK},
    /* not runs: would be best */
    {"pair", "{}", "allgather", "{\"with\":\"direct\"}", 1 << 20, 1e-6, 1e-6, true, CCL_OK},
    {"pair", "{}", "allreduce", "{\"with\":\"ring\"}", 1 << 20, 7e-5, 5e-5, false, CCL_OK},
    /* another cluster of the same name */
    {"pair", "{ }", "allreduce", "{\"with\":\"ring\"}", 1 << 20, 9e-5, 5e-5, false, CCL_OK},
};

static void fill(void) {
    ccl_notebook_t *n = NULL;

    ck_assert_int_eq(ccl_notebook_open(path, true, &n, NULL), CCL_OK);
    for (size_t i = 0; i < CCL_ARRAY_LEN(tried); i++) {
        ccl_point_t p = {
            .settings = tried[i].settings, .seed = 3, .size_bytes = tried[i].size_bytes};
        ccl_point_result_t r = {.status = tried[i].status, .time_s = tried[i].time_s};

        p.estimate = tried[i].estimate;
        r.bound_s = tried[i].bound_s;
        ccl_origin_set(r.origin, "origin %u", (unsigned)i);
        ck_assert_int_eq(ccl_notebook_input(n, "topology", tried[i].cluster, tried[i].text,
                                            strlen(tried[i].text), p.topology, NULL),
                         CCL_OK);
        ck_assert_int_eq(ccl_notebook_input(n, "demand", tried[i].collective, tried[i].collective,
                                            strlen(tried[i].collective), p.demand, NULL),
                         CCL_OK);
        ck_assert_int_eq(ccl_notebook_add(n, &p, &r, NULL, NULL), CCL_OK);
    }
    ccl_notebook_close(n);
}

static ccl_status_t read_notebook(ccl_json_doc_t *out, ccl_error_t *err) {
    ccl_notebook_t *n = NULL;
    ccl_status_t status;

    CCL_TRY(ccl_notebook_open(path, false, &n, err));
    status = ccl_report_notebook_document(NULL, n, path, out, err);
    ccl_notebook_close(n);
    return status;
}

static char *page_of(const ccl_json_doc_t *doc) {
    ccl_report_page_t page = {.ndocs = 1, .docs = doc};
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_msg(ccl_report_page(&page, &text, &err) == CCL_OK, "%s", err.text);
    return text.data;
}

static uint32_t count(const char *text, const char *what) {
    uint32_t n = 0;

    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

static void has(const char *page, const char *what) {
    ck_assert_msg(strstr(page, what) != NULL, "no %s in %zu bytes", what, strlen(page));
}

START_TEST(notebook) {
    ccl_json_doc_t doc = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    char *page;

    fill();
    ck_assert_msg(read_notebook(&doc, &err) == CCL_OK, "%s", err.text);
    page = page_of(&doc);
    ck_assert_uint_eq(count(page, ": what was tried</h2>"), 3);
    ck_assert_uint_eq(count(page, "<svg "), 3);
    ck_assert_uint_eq(count(page, "class=\"point\""), 4 + 1 + 1);
    ck_assert_uint_eq(count(page, "class=\"legend kind\""), 3 + 1 + 1);
    has(page,
        "allgather on pair: what was tried</h2>\n<p class=\"dim\">4 points with a time, 1 without");
    /* The best, beside the least bound of the size's points; three points. */
    has(page,
        "<td class=\"n\">1M</td><td>ring</td><td class=\"n win\">20</td><td class=\"n\">10</td>"
        "<td class=\"n\">2</td><td class=\"n\">3</td>"
        "<td><code>--with ring --channels 2</code>"
        "<br><span class=\"dim\">origin 1</span>");
    has(page, "<td class=\"n\">16M</td><td>cegis</td><td class=\"n win\">500</td>"
              "<td class=\"n\">400</td><td class=\"n\">1.25</td><td class=\"n\">1</td>");
    has(page, "<td class=\"n win\">70</td>");
    has(page, "<td class=\"n win\">90</td>");
    ck_assert_uint_eq(count(page, "\nccllab tune") + count(page, "<pre>ccllab tune"), 4);
    has(page, "ccllab tune --topology pair --collective allgather --sizes 1048576 --seed 3 --knob "
              "channels=2 --knob with=ring --knob chunks=auto --knob order=auto");
    has(page, "--sizes 16777216 --seed 3 --knob tau_ref=2.5");
    ck_assert_uint_eq(count(page, "--strategy grid --notebook none\n"), 4);
    free(page);
    ccl_json_fini(&doc);
}
END_TEST

/* Points that would be drawn over each other are drawn once; all are counted. */
START_TEST(crowded) {
    static const char head[] =
        "{\"schema\": \"ccllab/tune/1\", \"version\": \"0.1.0\", \"topology\": \"a<b\", "
        "\"collective\": \"mine.json\", \"seed\": 1, \"knobs\": [{\"knob\": \"chunks\", "
        "\"value\": \"4\", \"runs\": 12, \"best_sizes\": 1, \"slowdown\": 1.0625}], \"runs\": [";
    ccl_text_t text = {0};
    ccl_json_doc_t doc = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    char *page;

    ccl_text_printf(&text, "%s", head);
    for (int i = 0; i < 3000; i++)
        ccl_text_printf(
            &text,
            "%s{\"size_bytes\": 64, \"time_s\": %g, \"bound_s\": 1e-6, \"status\": "
            "\"CCL_OK\", \"estimate\": %s, \"settings\": \"{\\\"with\\\":\\\"%s\\\"}\"}",
            i ? "," : "", 1e-6 * (2 + i * 0.001), i == 0 ? "true" : "false", i % 3 ? "hm" : "ring");
    ccl_text_printf(&text, "]}");
    ck_assert_int_eq(ccl_json_parse("t.json", text.data, text.len, &doc, &err), CCL_OK);
    page = page_of(&doc);
    has(page, "mine.json on a&lt;b: 2999 points");
    has(page, "<td>hm</td><td class=\"n win\">2.001</td><td class=\"n\">1</td>"
              "<td class=\"n\">2.001</td><td class=\"n\">2999</td>");
    has(page, "<tr><td>chunks</td><td>4</td><td class=\"n\">12</td><td class=\"n\">1</td>"
              "<td class=\"n\">1.062</td></tr>");
    has(page, "--topology 'a&lt;b' --demand mine.json --sizes 64 ");
    /* 2 to 5 of 1 to 5 are more than half of 320 pixels, twice */
    ck_assert_uint_gt(count(page, "class=\"point\""), 200);
    ck_assert_uint_lt(count(page, "class=\"point\""), 640);
    free(page);
    ccl_json_fini(&doc);
    ccl_text_fini(&text);
}
END_TEST

#define RUN_(time_, settings_)                                                                     \
    "{\"schema\": \"ccllab/tune/1\", \"version\": \"1\", \"topology\": \"t\", \"collective\": "    \
    "\"allgather\", \"runs\": [{\"size_bytes\": 64, \"time_s\": " time_                            \
    ", \"bound_s\": 1e-6, \"status\": \"CCL_OK\", \"settings\": " settings_ "}]}"

static const struct {
    const char *json, *what;
} odd[] = {
    {RUN_("0", "\"{}\""), "a number above 0 is wanted"},
    {RUN_("1e-5", "\"{}\""), "settings of a point are wanted"},
    {RUN_("1e-5", "\"{\""), "settings of a point are wanted"},
    {RUN_("1e-5", "3"), "string"},
    {"{\"schema\": \"ccllab/tune/1\"}", "topology"},
    {"{\"schema\": \"ccllab/notebook/1\", \"columns\": [\"cluster\", \"collective\", "
     "\"size_bytes\", "
     "\"settings\", \"seed\", \"status\", \"time_s\", \"bound_s\", \"profile\", \"topology\", "
     "\"demand\", \"tool\"], \"rows\": [[1]]}",
     "1 cells, but the columns are 12"},
};

START_TEST(refused_results) {
    ccl_json_doc_t doc = {0};
    ccl_report_page_t page = {.ndocs = 1, .docs = &doc};
    ccl_text_t text = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_int_eq(ccl_json_parse("t.json", odd[_i].json, strlen(odd[_i].json), &doc, &err),
                     CCL_OK);
    ck_assert_int_eq(ccl_report_page(&page, &text, &err), CCL_ERR_INPUT);
    ck_assert_int_eq(err.line, 1);
    ck_assert_msg(strstr(err.text, odd[_i].what) != NULL, "%s", err.text);
    ccl_text_fini(&text);
    ccl_json_fini(&doc);
}
END_TEST

static void refuse(ccl_status_t want, const char *what) {
    ccl_json_doc_t doc = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_int_eq(read_notebook(&doc, &err), want);
    ck_assert_msg(strstr(err.text, what) != NULL, "%s", err.text);
}

/* Its user_version: a big-endian number at byte 60. */
static void set_version(int version) {
    FILE *file = fopen(path, "r+b");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 63, SEEK_SET), 0);
    fputc(version, file);
    fclose(file);
}

START_TEST(refused_notebooks) {
    ccl_notebook_t *n = NULL;
    FILE *file;

    refuse(CCL_ERR_IO, "there is no lab notebook");
    ck_assert_int_eq(ccl_notebook_open(path, true, &n, NULL), CCL_OK);
    ccl_notebook_close(n);
    refuse(CCL_ERR_INPUT, "without points");
    fill();
    set_version(99);
    refuse(CCL_ERR_INPUT, "version 99");
    set_version(2);
    ck_assert_int_eq(truncate(path, 3 * 4096), 0); /* its head is whole, its points are not */
    refuse(CCL_ERR_IO, "malformed");
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    refuse(CCL_ERR_INPUT, "an empty file");
    fputs("neither JSON nor a notebook, but long enough to be looked at", file);
    fclose(file);
    refuse(CCL_ERR_INPUT, "not a lab notebook");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("search page");
    TCase *cases = tcase_create("all");

    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, notebook);
    tcase_add_test(cases, crowded);
    tcase_add_loop_test(cases, refused_results, 0, CCL_ARRAY_LEN(odd));
    tcase_add_test(cases, refused_notebooks);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
