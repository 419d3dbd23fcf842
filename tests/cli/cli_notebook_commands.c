/* ccllab notebook: what its commands print, and what they refuse. */
#include "base/json.h"
#include "search/notebook/notebook.h"
#include "program.h"

static char path[64];

static void setup(void) {
    strcpy(path, "/tmp/ccllab_nb_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    strcat(path, "/n.db");
    ccl_notebook_t *n = NULL;
    ck_assert_int_eq(ccl_notebook_open(path, true, &n, NULL), CCL_OK);
    ccl_point_t p = {.settings = "{\"channels\":1,\"with\":\"ring\"}", .seed = 1, .size_bytes = 64};
    ccl_point_result_t r = {.status = CCL_OK, .time_s = 2e-6, .busbw_GBps = 3, .bound_s = 1e-6};
    ck_assert_int_eq(ccl_notebook_input(n, "topology", "pair", "{}", 2, p.topology, NULL), CCL_OK);
    ck_assert_int_eq(ccl_notebook_input(n, "demand", "allgather", "d", 1, p.demand, NULL), CCL_OK);
    ck_assert_int_eq(ccl_notebook_add(n, &p, &r, NULL, NULL), CCL_OK);
    p.settings = "{\"channels\":2,\"with\":\"ring\"}";
    r = (ccl_point_result_t){.status = CCL_CHECK, .why = "a \"why\", with comma", .bound_s = 1e-6};
    ck_assert_int_eq(ccl_notebook_add(n, &p, &r, NULL, NULL), CCL_OK);
    ccl_notebook_close(n);
}

static void teardown(void) {
    char command[100];

    *strrchr(path, '/') = '\0';
    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    ck_assert_int_eq(system(command), 0);
}

static said_t notebook(const char *line) {
    char full[600];

    snprintf(full, sizeof(full), "notebook %s --notebook '%s'", line, path);
    return run(full);
}

static void rows(const char *line, const char *expected) {
    said_t said = notebook(line);

    ck_assert_msg(said.rc == 0, "%s: %s", line, said.err);
    json_t *root = json_of(&said);
    char *text = json_dumps(json_object_get(root, "rows"), JSON_COMPACT);

    ck_assert_str_eq(json_string_value(json_object_get(root, "schema")), "ccllab/notebook/1");
    ck_assert_str_eq(text, expected);
    free(text);
    json_decref(root);
    said_free(&said);
}

static void says(const char *line, int rc, const char *out, const char *err) {
    said_t said = notebook(line);

    ck_assert_msg(said.rc == rc, "%s: %d, %s", line, said.rc, said.err);
    ck_assert_msg(strstr(said.out, out) != NULL, "%s: %s", line, said.out);
    ck_assert_msg(strstr(said.err, err) != NULL, "%s: %s", line, said.err);
    ck_assert_uint_eq(lines(said.err), *err ? 1 : 0);
    said_free(&said);
}

START_TEST(test_reading) {
    rows("query --json 'SELECT id, json_extract(settings, \"$.channels\") AS channels, time_s FROM "
         "run'",
         "[[1,1,1.9999999999999999e-6],[2,2,null]]");
    rows("diff --json 1 2",
         "[[\"settings.channels\",1,2],[\"status\",\"CCL_OK\",\"CCL_CHECK\"],"
         "[\"why\",null,\"a \\\"why\\\", with comma\"],[\"time_s\",1.9999999999999999e-6,null],"
         "[\"busbw_GBps\",3,null]]");
    rows("diff --json 1 1", "[]");
    says("list", 0, "pair     allgather", "");
    char row[100];

    snprintf(row, sizeof(row), "pair,allgather,%s,2,1,1,3,2,", ccl_notebook_tool());
    says("list --csv", 0, row, "");
    says("show 2", 0, "why            a \"why\", with comma", "");
    says("export", 0, "id,cluster,collective,size_bytes,", "");
    says("export", 0, "\"a \"\"why\"\", with comma\"", "");
    says("export --json", 0, "\"ccllab/notebook/1\"", "");
}
END_TEST

START_TEST(test_refused) {
    says("show 3", 2, "", "has no point 3");
    says("show x", 2, "", "number of a point");
    says("diff 1", 2, "", "nothing to work on");
    says("query 'DROP TABLE point'", 2, "", "does not read");
    says("query 'SELECT x FROM run'", 2, "", "no such column");
    says("query 'SELECT load_extension(1)'", 2, "", "query: not authorized");
    says("query 'SELECT randomblob(2000000000)'", 2, "", "query: string or blob too big");

    said_t said = run("notebook list --notebook /no/such/n.db");

    ck_assert_int_eq(said.rc, 4);
    ck_assert_ptr_nonnull(strstr(said.err, "/no/such/n.db: there is no lab notebook"));
    said_free(&said);
}
END_TEST

/* Files that are not whole, or not to be opened: for reading as for tuning. */
START_TEST(test_broken) {
    static const struct {
        const char *shell; /* makes n.db in the folder $1 */
        int rc;
        const char *err;
    } rows[] = {
        {"head -c 5000 n.db >m.db && mv m.db n.db", 4, "damaged (SQLite: "},
        {"echo 'to whom it may concern: this is no database, but a text' >n.db", 2,
         "not a lab notebook (SQLite: "},
        {"rm -rf n.db && mkdir n.db", 4, "n.db: lab notebook: unable to open database file"},
        {"rm -rf n.db && ln -s /proc/none n.db", 4, "n.db: "},
    };
    static const char *const commands[] = {
        "notebook list", "notebook gc", "notebook export -o /dev/null",
        "tune -q -t dgx-a100 -c allgather --sizes 1M -k with=ring --budget 5runs"};
    char dir[64];

    strcpy(dir, path);
    *strrchr(dir, '/') = '\0';
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char command[300];

        snprintf(command, sizeof(command), "cd '%s' && rm -f n.db-* && %s", dir, rows[i].shell);
        ck_assert_int_eq(system(command), 0);
        for (size_t k = 0; k < CCL_ARRAY_LEN(commands); k++) {
            snprintf(command, sizeof(command), "%s --notebook '%s'", commands[k], path);
            said_t said = run(command);

            ck_assert_msg(said.rc == rows[i].rc && strstr(said.err, rows[i].err), "%s: %d, %s",
                          command, said.rc, said.err);
            ck_assert_uint_eq(lines(said.err), 1);
            said_free(&said);
        }
    }
    /* SQLite would take these for databases of its own, gone when the program ends. */
    said_t said = run("tune -q -t dgx-a100 -c allgather --sizes 1M -k with=ring --notebook ''");

    ck_assert_int_eq(said.rc, 2);
    ck_assert_ptr_nonnull(strstr(said.err, "the path of the lab notebook is empty"));
    said_free(&said);
    said = run("notebook list --notebook :memory:");
    ck_assert_int_eq(said.rc, 4);
    ck_assert_ptr_nonnull(strstr(said.err, "there is no lab notebook"));
    said_free(&said);
}
END_TEST

START_TEST(test_gc) {
    says("gc", 0, "dropped: 0 points, 0 inputs", "");
    says("gc --all --json", 0, "\"points\": 2", "");
    says("gc --csv", 0, "0,0", "");
    rows("list --json", "[]");
}
END_TEST

int main(void) {
    Suite *s = suite_create("notebook commands");
    TCase *t = tcase_create("notebook");

    tcase_set_timeout(t, 100);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_reading);
    tcase_add_test(t, test_refused);
    tcase_add_test(t, test_broken);
    tcase_add_test(t, test_gc);
    suite_add_tcase(s, t);

    SRunner *runner = srunner_create(s);
    int failed;

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
