/* The lab notebook: points come back as they were written, once each; what is no notebook is told.
 */
#include <check.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "search/compare/compare.h"
#include "search/tune/tune.h"
#include "tests/topologies/topologies.h"

static char dir[64], path[128];

static void setup(void) {
    strcpy(dir, "/tmp/ccllab_notebook_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/deep/er/notebook.db", dir);
}

static void teardown(void) {
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static ccl_notebook_t *opened(void) {
    ccl_notebook_t *n = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_notebook_open(path, true, &n, &err) == CCL_OK, "%s", err.text);
    return n;
}

static ccl_point_t point_of(ccl_notebook_t *n, const char *settings, double size_bytes) {
    ccl_point_t p = {.settings = settings, .seed = UINT64_MAX, .size_bytes = size_bytes};
    ck_assert_int_eq(ccl_notebook_input(n, "topology", "a cluster", "{}", 2, p.topology, NULL),
                     CCL_OK);
    ck_assert_int_eq(ccl_notebook_input(n, "demand", "allgather", "ag", 2, p.demand, NULL), CCL_OK);
    return p;
}

/* The only cell of a query. */
static char *cell(ccl_notebook_t *n, const char *sql) {
    ccl_notebook_rows_t *rows = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_notebook_query(NULL, n, sql, NULL, 0, &rows, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(rows->nrows, 1);
    ck_assert_uint_eq(rows->ncolumns, 1);
    char *text = strdup(rows->cells[0] ? rows->cells[0] : "null");
    ccl_notebook_rows_destroy(rows);
    return text;
}

static void is(ccl_notebook_t *n, const char *sql, const char *expected) {
    char *text = cell(n, sql);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(test_back) {
    ccl_notebook_t *n = opened();
    ccl_point_t p = point_of(n, "{\"channels\":2}", 0.1);
    ccl_point_result_t in = {CCL_OK, "", "ring: 2 rings", 1.0 / 3, 2, 3, 0.25, 4, 5, 6, 7, 0.1, 0.9,
                             NAN,    1},
                       out;
    bool found = true;
    ck_assert_int_eq(ccl_notebook_find(n, &p, &out, &found, NULL), CCL_OK);
    ck_assert(!found);
    ck_assert_int_eq(ccl_notebook_add(n, &p, &in, NULL, NULL), CCL_OK);
    ccl_notebook_close(n);
    n = opened();
    ck_assert_int_eq(ccl_notebook_find(n, &p, &out, &found, NULL), CCL_OK);
    ck_assert(found && out.status == CCL_OK && out.time_s == in.time_s);
    ck_assert(out.algbw_GBps == 2 && out.busbw_GBps == 3 && out.bound_s == 0.25);
    ck_assert(out.synth_s == 4 && out.eval_s == 5 && out.thread_blocks == 6 && out.batches == 7);
    ck_assert(out.comm_share == 0.1 && out.mean_idle_share == 0.9 && out.link_utilization == 1);
    ck_assert(isnan(out.max_idle_share)); /* not known */
    ck_assert_str_eq(out.origin, "ring: 2 rings");
    is(n, "SELECT origin FROM run", "ring: 2 rings");
    /* Another setting, size, seed, cluster: another point. */
    ccl_point_t others[] = {p, p, p, p, p};
    others[0].settings = "{}";
    others[1].size_bytes = 0.2;
    others[2].seed = 1;
    others[3].topology[0] = others[3].topology[0] == '0' ? '1' : '0';
    others[4].estimate = true;
    for (size_t i = 0; i < CCL_ARRAY_LEN(others); i++) {
        ck_assert_int_eq(ccl_notebook_find(n, &others[i], &out, &found, NULL), CCL_OK);
        ck_assert(!found);
    }
    /* Once written it stays. */
    in.time_s = 9;
    ck_assert_int_eq(ccl_notebook_add(n, &p, &in, NULL, NULL), CCL_OK);
    is(n, "SELECT count(*) FROM point", "1");
    is(n, "SELECT time_s FROM run", "0.3333333333333333");
    is(n, "SELECT cluster || ' ' || collective FROM run", "a cluster allgather");
    is(n, "SELECT size_bytes FROM run", "0.1");
    is(n, "SELECT profile FROM run", "null");
    ccl_notebook_close(n);
}
END_TEST

START_TEST(test_failed_point) {
    ccl_notebook_t *n = opened();
    ccl_point_t p = point_of(n, "{}", 1);
    ccl_point_result_t in = {.status = CCL_UNSUPPORTED, .why = "not here", .bound_s = 1}, out;
    bool found = false;
    ck_assert_int_eq(ccl_notebook_add(n, &p, &in, "nccl-h100", NULL), CCL_OK);
    ck_assert_int_eq(ccl_notebook_find(n, &p, &out, &found, NULL), CCL_OK);
    ck_assert(found && out.status == CCL_UNSUPPORTED);
    ck_assert_str_eq(out.why, "not here");
    is(n, "SELECT time_s FROM run", "null");
    is(n, "SELECT status || ' ' || profile FROM run", "CCL_UNSUPPORTED nccl-h100");
    ccl_notebook_close(n);
}
END_TEST

START_TEST(test_queries_only_read) {
    static const struct {
        const char *sql, *why;
    } rows[] = {{"DELETE FROM point", "does not read"},
                {"SELECT 1; DELETE FROM point", "one statement"},
                {"ATTACH 'x' AS y", "does not read"},
                {"PRAGMA user_version = 9", "does not read"},
                {"", "nothing is asked"},
                {"SELECT nonsense FROM point", "no such column"},
                {"SELECT ?1", "1 parameters"},
                {"SELEC 1", "syntax error"}};
    ccl_notebook_t *n = opened();
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_notebook_rows_t *out = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_msg(ccl_notebook_query(NULL, n, rows[i].sql, NULL, 0, &out, &err) ==
                          CCL_ERR_INPUT,
                      "%s", rows[i].sql);
        ck_assert_msg(strstr(err.text, rows[i].why) != NULL, "%s: %s", rows[i].sql, err.text);
    }
    is(n, "SELECT 2 ; ", "2");
    ccl_notebook_close(n);
}
END_TEST

/* A query that never ends stops when asked to. */
START_TEST(test_interrupt) {
    ccl_notebook_t *n = opened();
    ccl_notebook_rows_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    int cancel = 1;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.cancel = &cancel;
    ck_assert_int_eq(ccl_notebook_query(&ctx, n,
                                        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 "
                                        "FROM c) SELECT count(*) FROM c",
                                        NULL, 0, &out, &err),
                     CCL_INTERRUPTED);
    ccl_notebook_close(n);
}
END_TEST

static void put(const char *text) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

static void execute(const char *sql) {
    sqlite3 *db = NULL;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", sql,
                  sqlite3_errmsg(db));
    sqlite3_close(db);
}

START_TEST(test_no_notebook) {
    ccl_notebook_t *n = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    char junk[8192];
    ck_assert_int_eq(ccl_notebook_open(path, false, &n, &err), CCL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "there is no lab notebook"));
    memset(junk, 'x', sizeof junk - 1);
    junk[sizeof junk - 1] = '\0';
    snprintf(path, sizeof path, "%s/junk", dir);
    put(junk);
    for (int write = 0; write <= 1; write++) {
        ccl_error_clear(&err);
        ck_assert_int_eq(ccl_notebook_open(path, write, &n, &err), CCL_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(err.text, "not a lab notebook"));
    }
    put("");
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_notebook_open(path, false, &n, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "empty file"));
    ccl_error_clear(&err);
    snprintf(path, sizeof path, "%s/junk/notebook.db", dir);
    ck_assert_int_eq(ccl_notebook_open(path, true, &n, &err), CCL_ERR_IO);
    ck_assert_ptr_null(n);
}
END_TEST

/* A process was killed while it began a file: in WAL mode already, nothing in it. */
START_TEST(test_begun) {
    ccl_notebook_t *n = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    struct stat file;
    snprintf(path, sizeof path, "%s/begun.db", dir);
    execute("PRAGMA journal_mode = WAL");
    ck_assert_int_eq(stat(path, &file), 0);
    ck_assert_int_gt(file.st_size, 0);
    ck_assert_int_eq(ccl_notebook_open(path, false, &n, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "an empty file, no lab notebook yet"));
    n = opened();
    is(n, "SELECT count(*) FROM point", "0");
    ccl_notebook_close(n);
}
END_TEST

/* A file of an earlier version is read as it is, and gets what it lacks when it is written to; one
   of a later version is refused. */
START_TEST(test_versions) {
    ccl_notebook_t *n = opened();
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_point_t p = point_of(n, "{}", 1), q = p;
    ccl_point_result_t in = {.status = CCL_OK,
                             .origin = "hm: a mesh",
                             .time_s = 3,
                             .comm_share = 0.5},
                       out;
    bool found = false;
    ck_assert_int_eq(ccl_notebook_add(n, &p, &in, NULL, NULL), CCL_OK);
    ccl_notebook_close(n);
    execute(
        "DROP TABLE member; DROP TABLE task; DROP TABLE item;"
        "DROP VIEW run; CREATE VIEW run AS SELECT time_s FROM point;"
        "ALTER TABLE point DROP COLUMN origin;"
        "ALTER TABLE point DROP COLUMN comm_share; ALTER TABLE point DROP COLUMN mean_idle_share;"
        "ALTER TABLE point DROP COLUMN max_idle_share;"
        "ALTER TABLE point DROP COLUMN link_utilization; PRAGMA user_version = 1");
    ck_assert_msg(ccl_notebook_open(path, false, &n, &err) == CCL_OK, "%s", err.text);
    is(n, "SELECT count(*) FROM run WHERE time_s = 3", "1");
    ck_assert_int_eq(ccl_notebook_find(n, &p, &out, &found, NULL), CCL_OK);
    ck_assert(found && out.time_s == 3 && isnan(out.comm_share));
    ccl_notebook_close(n);
    n = opened();
    ck_assert_int_eq(ccl_notebook_find(n, &p, &out, &found, NULL), CCL_OK);
    ck_assert(found && out.time_s == 3 && isnan(out.comm_share));
    q.size_bytes = 2;
    ck_assert_int_eq(ccl_notebook_add(n, &q, &in, NULL, NULL), CCL_OK);
    ck_assert_int_eq(ccl_notebook_find(n, &q, &out, &found, NULL), CCL_OK);
    ck_assert(found && out.comm_share == 0.5);
    ck_assert_str_eq(out.origin, "hm: a mesh");
    is(n, "SELECT group_concat(ifnull(origin, 'none')) FROM run", "none,hm: a mesh");
    ccl_notebook_close(n);
    execute("PRAGMA user_version = 5");
    for (int write = 0; write <= 1; write++) {
        ccl_error_clear(&err);
        ck_assert_int_eq(ccl_notebook_open(path, write, &n, &err), CCL_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(err.text, "of version 5; this ccllab reads versions 1 to 4"));
    }
}
END_TEST

typedef struct builds {
    ccl_topology_t *topo;
    ccl_collective_t *want;
    ccl_space_t *space;
    uint32_t warnings;
} builds_t;

static void count_warnings(ccl_log_level_t level, const char *subsystem, const char *text,
                           void *user) {
    builds_t *b = user;
    b->warnings += level == CCL_LOG_WARN && strcmp(subsystem, "notebook") == 0 &&
                   strstr(text, "0.0.9+000000000000") && strstr(text, ccl_notebook_tool());
}

/* One time, by a comparison or a tuning: whether the notebook had it, how often that warned. */
static void ask_builds(builds_t *b, bool comparing, uint32_t resumed, uint32_t warnings) {
    static const double size = 1e6;
    static const ccl_contender_t ring = {.name = "ring"};
    ccl_notebook_t *n = opened();
    ccl_tuning_t *t = NULL;
    ccl_comparison_t *c = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_tune_options_t tune = CCL_TUNE_OPTIONS_INIT;
    ccl_compare_options_t compare = {.size = sizeof compare,
                                     .contenders = &ring,
                                     .ncontenders = 1,
                                     .sizes_bytes = &size,
                                     .nsizes = 1,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT,
                                     .notebook = n};
    tune.space = b->space;
    tune.strategy = CCL_STRATEGY_GRID;
    tune.sizes_bytes = &size;
    tune.nsizes = 1;
    tune.notebook = n;
    b->warnings = 0;
    ctx.log = count_warnings;
    ctx.log_user = b;
    ccl_status_t status = comparing ? ccl_compare(&ctx, b->topo, b->want, &compare, &c, &err)
                                    : ccl_tune(&ctx, b->topo, b->want, &tune, &t, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(comparing ? c->resumed : t->runs[0].resumed, resumed);
    ck_assert_uint_eq(b->warnings, warnings);
    ccl_comparison_destroy(c);
    ccl_tuning_destroy(t);
    ccl_notebook_close(n);
}

/* What another build found out is kept, never taken for this one's, and told of where it is all
   that there is. */
START_TEST(test_builds) {
    static const char *const knobs[] = {"with=ring",  "channels=auto", "chunks=auto",
                                        "order=auto", "allocate=auto", "granularity=auto",
                                        "proto=auto"};
    builds_t b = {0};
    uint64_t points = 9, inputs = 9;
    b.topo = topology("servers:1 gpus:2 nvswitch=100GB/s,1us");
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 2, 1, 0, &b.want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_space_create(&b.space, NULL), CCL_OK);
    for (size_t i = 0; i < CCL_ARRAY_LEN(knobs); i++)
        ck_assert_int_eq(ccl_space_set(b.space, knobs[i], NULL), CCL_OK);
    ask_builds(&b, false, 0, 0);
    ask_builds(&b, false, 1, 0);
    for (int comparing = 0; comparing <= 1; comparing++) {
        execute("DELETE FROM point WHERE time_s = 1;"
                "UPDATE point SET tool = '0.0.9+000000000000', time_s = 1");
        ask_builds(&b, comparing, 0, 1); /* before there is a point of this build */
        ask_builds(&b, comparing, 1, 0);
    }
    ccl_notebook_t *n = opened();
    is(n, "SELECT count(DISTINCT tool) FROM run", "2");
    is(n, "SELECT count(*) FROM run WHERE time_s = 1", "1");
    ck_assert_int_eq(ccl_notebook_gc(n, false, &points, &inputs, NULL), CCL_OK);
    ck_assert(points == 1 && inputs == 0);
    is(n, "SELECT tool FROM run", ccl_notebook_tool());
    ccl_notebook_close(n);
    ccl_space_destroy(b.space);
    ccl_collective_destroy(b.want);
    ccl_topology_destroy(b.topo);
}
END_TEST

START_TEST(test_gc) {
    ccl_notebook_t *n = opened();
    ccl_point_t p = point_of(n, "{}", 1);
    ccl_point_result_t in = {.status = CCL_OK, .time_s = 1, .bound_s = 1};
    uint64_t points = 9, inputs = 9;
    ccl_content_t unused;
    ck_assert_int_eq(ccl_notebook_add(n, &p, &in, NULL, NULL), CCL_OK);
    ck_assert_int_eq(ccl_notebook_input(n, "topology", "unused", "?", 1, unused, NULL), CCL_OK);
    ck_assert_int_eq(ccl_notebook_gc(n, false, &points, &inputs, NULL), CCL_OK);
    ck_assert(points == 0 && inputs == 1);
    ck_assert_int_eq(ccl_notebook_gc(n, true, &points, &inputs, NULL), CCL_OK);
    ck_assert(points == 1 && inputs == 2);
    is(n, "SELECT count(*) FROM run", "0");
    ccl_notebook_close(n);
}
END_TEST

START_TEST(test_default_path) {
    char out[256], small[8];
    ccl_error_t err = CCL_ERROR_INIT;
    setenv("HOME", "/home/me", 1);
    setenv("XDG_DATA_HOME", "/data", 1);
    ck_assert_int_eq(ccl_notebook_default_path(out, sizeof out, NULL), CCL_OK);
    ck_assert_str_eq(out, "/data/ccllab/notebook.db");
    ck_assert_int_eq(ccl_notebook_default_path(small, sizeof small, NULL), CCL_ERR_USAGE);
    setenv("XDG_DATA_HOME", "not/absolute", 1);
    ck_assert_int_eq(ccl_notebook_default_path(out, sizeof out, NULL), CCL_OK);
    ck_assert_str_eq(out, "/home/me/.local/share/ccllab/notebook.db");
    unsetenv("HOME");
    ck_assert_int_eq(ccl_notebook_default_path(out, sizeof out, &err), CCL_ERR_USAGE);
}
END_TEST

int main(void) {
    Suite *s = suite_create("notebook");
    TCase *t = tcase_create("notebook");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_back);
    tcase_add_test(t, test_failed_point);
    tcase_add_test(t, test_queries_only_read);
    tcase_add_test(t, test_interrupt);
    tcase_add_test(t, test_no_notebook);
    tcase_add_test(t, test_begun);
    tcase_add_test(t, test_versions);
    tcase_add_test(t, test_builds);
    tcase_add_test(t, test_gc);
    tcase_add_test(t, test_default_path);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
