/* What a user may name, and how contents are told apart. */
#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "topology_helpers.h"

static const char explicit_json[] =
    "{\"format\":\"ccllab-topology-1\",\"name\":\"here\",\"devices\":[{\"id\":\"a\",\"kind\":"
    "\"gpu\",\"rank\":0}]}";
static const char nccl_xml[] =
    "<!-- two GPUs -->\n<system version=\"1\">\n"
    "<cpu numaid=\"0\" affinity=\"f\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
    "modelid=\"85\">\n"
    "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\">\n"
    "<gpu dev=\"0\" sm=\"70\" rank=\"0\" gdr=\"1\"/></pci>\n"
    "<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\">\n"
    "<gpu dev=\"1\" sm=\"70\" rank=\"1\" gdr=\"1\"/></pci>\n</cpu></system>\n";

static char folder[64];

static void in_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/ccl_read_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static void out_of_folder(void) {
    ck_assert_int_eq(chdir("/"), 0);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

typedef struct content_row {
    const char *why, *text;
    uint32_t nranks;    /* 0: refused */
    const char *expect; /* of the refusal */
} content_row_t;

static const content_row_t contents[] = {
    {"explicit", explicit_json, 1, ""},
    {"byte order mark and blanks",
     "\xef\xbb\xbf \r\n\t{\"format\":\"ccllab-topology-1\",\"devices\":[{\"id\":\"a\",\"kind\":"
     "\"gpu\",\"rank\":0}]}",
     1, ""},
    {"JSON that speaks of the DSL is JSON",
     "{\"format\":\"ccllab-topology-1\",\"note\":\"define nodenum 2\",\"devices\":[{\"id\":\"a\","
     "\"kind\":\"gpu\",\"rank\":0}]}",
     1, ""},
    {"XML after a comment", nccl_xml, 2, ""},
    {"one-liner in a file", "gpus:4 nvswitch=300GB/s,0.7us\n", 4, ""},
    {"one-liner after a comment", "# my box\nservers:1 gpus:4 nvswitch=300GB/s,0.7us\n", 4, ""},
    {"empty", "", 0, "empty"},
    {"only blanks", " \n\t ", 0, "empty"},
    {"only a comment", "/* nothing", 0, "empty"},
    {"words", "hello there", 0, "no cluster description"},
    {"a list", "[]", 0, "object"},
    {"no format", "{}", 0, "format"},
    {"format is a number", "{\"format\":1}", 0, "string"},
    {"schedule instead of a cluster", "{\"format\":\"ccllab-schedule-1\"}", 0, "is no cluster"},
};

START_TEST(content) {
    const content_row_t *row = &contents[_i];
    ccl_topology_t *t = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_topology_read_text(NULL, "f", row->text, strlen(row->text), &t, &err);
    if (row->nranks == 0) {
        ck_assert_msg(status == CCL_ERR_INPUT, "%s: %s", row->why, ccl_status_name(status));
        ck_assert_msg(strstr(err.text, row->expect) != NULL, "%s: %s", row->why, err.text);
        ck_assert_str_eq(err.where, "f");
        return;
    }
    ck_assert_msg(status == CCL_OK, "%s: %s", row->why, err.text);
    ck_assert_uint_eq(t->nranks, row->nranks);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(position_of_what_is_no_cluster) {
    ccl_topology_t *t = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    const char text[] = "# a comment\n  hello";
    ck_assert_int_eq(ccl_topology_read_text(NULL, "f", text, sizeof text - 1, &t, &err),
                     CCL_ERR_INPUT);
    ck_assert_int_eq(err.line, 2);
    ck_assert_int_eq(err.column, 3);
}
END_TEST

/* No byte of a text may be read beyond its end: exact-size copies under the sanitizer. */
START_TEST(every_prefix) {
    static const char *const texts[] = {"/* x */ // y\n# z\n{\"format\":\"ccllab-topology-1\"}",
                                        "\xef\xbb\xbf/*",
                                        "define nodenum",
                                        "servers:1 gpus:2",
                                        "<system><cpu/>",
                                        "ddefine  nodenum 1"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(texts); i++) {
        for (size_t len = 0; len <= strlen(texts[i]); len++) {
            char *copy = malloc(len ? len : 1);
            memcpy(copy, texts[i], len);
            ccl_topology_t *t = NULL;
            ccl_error_t err = CCL_ERROR_INIT;
            if (ccl_topology_read_text(NULL, "f", copy, len, &t, &err) != CCL_OK)
                ck_assert(err.status != CCL_OK && err.text[0]);
            ccl_topology_destroy(t);
            free(copy);
        }
    }
}
END_TEST

START_TEST(files_and_names) {
    in_folder();
    const char *entry = ccl_topology_library()[0].name;
    ck_assert_ptr_nonnull(entry);
    ccl_topology_t *t = NULL;
    MUST(ccl_topology_read(NULL, entry, &t, e));
    ck_assert_str_ne(t->name, "here");
    ccl_topology_destroy(t);
    write_file(entry, explicit_json); /* a file of that name wins over the library */
    MUST(ccl_topology_read(NULL, entry, &t, e));
    ck_assert_str_eq(t->name, "here");
    ccl_topology_destroy(t);
    MUST(ccl_topology_read(NULL,
                           "servers:2 gpus:4 nvswitch=300GB/s,0.7us nics:4x25GB/s,2us "
                           "fabric=rail",
                           &t, e));
    ck_assert_uint_eq(t->nranks, 8);
    ccl_topology_destroy(t);
    write_file("empty", "");
    struct {
        const char *why, *spec, *expect;
    } bad[] = {
        {"nothing", "", "empty topology"},
        {"folder", ".", "folder"},
        {"empty file", "empty", "empty"},
        {"no such path", "nowhere/at-all.json", "no file and no library cluster"},
        {"strange word", "qqqqqqqqqqqqqqqq", "ccllab topology list"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        t = NULL;
        ck_assert_msg(ccl_topology_read(NULL, bad[i].spec, &t, &err) != CCL_OK, "%s", bad[i].why);
        ck_assert_msg(strstr(err.text, bad[i].expect), "%s: %s", bad[i].why, err.text);
        ck_assert_ptr_null(t);
    }
    /* A slip in a library name, with or without a path and an ending around it. */
    char near[3][256], quoted[256];
    snprintf(near[0], sizeof near[0], "%sx", entry);
    snprintf(near[1], sizeof near[1], "x%s.json", entry);
    snprintf(near[2], sizeof near[2], "clusters/%s.json", entry);
    snprintf(quoted, sizeof quoted, "\"%s\"", entry);
    for (size_t i = 0; i < CCL_ARRAY_LEN(near); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_int_eq(ccl_topology_read(NULL, near[i], &t, &err), CCL_ERR_INPUT);
        ck_assert_msg(strstr(err.text, quoted) != NULL, "%s: %s", near[i], err.text);
    }
    out_of_folder();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.topologies.read");
    TCase *tc = tcase_create("read");
    tcase_add_loop_test(tc, content, 0, (int)CCL_ARRAY_LEN(contents));
    tcase_add_test(tc, position_of_what_is_no_cluster);
    tcase_add_test(tc, every_prefix);
    tcase_add_test(tc, files_and_names);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
