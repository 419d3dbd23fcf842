// timeout: 120
/*
 * From no memory at all to enough, each time in a process of its own that adds to one notebook: who
 * has too little does not take part, the others go on; the notebook is whole, and what it has is
 * what comes out with plenty.
 */
#include "search/compare/compare.h"
#include "search/tune/tune.h"
#include "tests/topologies/topologies.h"
#include "tests/base/nightly.h"
#include "tests/base/scarce.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTENDERS = 3, SIZES = 2 };
static const double sizes[SIZES] = {65536, 16777216};
static const ccl_contender_t contenders[CONTENDERS] = {
    {.name = "ring"}, {.name = "hm"}, {.name = "sketch"}};

typedef struct work {
    ccl_topology_t *topo;
    ccl_collective_t *want;
    const char *notebook; /* NULL: none */
    uint32_t threads;
} work_t;

/* Of a comparison, or of a tuning whose points are the contenders as they are. */
typedef struct found {
    ccl_status_t status[SIZES][CONTENDERS];
    double time_s[SIZES][CONTENDERS];
    uint32_t best[SIZES];
    uint32_t resumed, missing, warned;
} found_t;

static ccl_status_t compare(const work_t *w, ccl_notebook_t *notebook, found_t *out,
                            ccl_error_t *err) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_comparison_t *c = NULL;
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = contenders,
                                     .ncontenders = CONTENDERS,
                                     .sizes_bytes = sizes,
                                     .nsizes = SIZES,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT,
                                     .notebook = notebook};
    ctx.threads = w->threads;
    CCL_TRY(ccl_compare(&ctx, w->topo, w->want, &options, &c, err));
    for (uint32_t s = 0; s < SIZES; s++) {
        out->best[s] = c->winner[s];
        for (uint32_t i = 0; i < CONTENDERS; i++) {
            const ccl_compare_cell_t *cell = &c->cells[s * CONTENDERS + i];
            out->status[s][i] = cell->status;
            out->time_s[s][i] = cell->time_s;
            out->missing += cell->status == CCL_ERR_NOMEM;
        }
    }
    out->resumed = c->resumed;
    for (uint32_t i = 0; i < c->nwarnings; i++)
        out->warned += strncmp(c->warnings[i], "out of memory: ", 15) == 0;
    ccl_comparison_destroy(c);
    return CCL_OK;
}

static ccl_status_t tune(const work_t *w, ccl_notebook_t *notebook, found_t *out,
                         ccl_error_t *err) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_space_t *space = NULL;
    ccl_tuning_t *t = NULL;
    ctx.threads = w->threads;
    ccl_status_t status = ccl_space_create(&space, err);
    if (status == CCL_OK)
        status = ccl_space_set(space, "with=ring,hm,sketch", err);
    options.space = space;
    options.sizes_bytes = sizes;
    options.nsizes = SIZES;
    options.budget_runs = SIZES * CONTENDERS;
    options.notebook = notebook;
    if (status == CCL_OK)
        status = ccl_tune(&ctx, w->topo, w->want, &options, &t, err);
    for (uint32_t i = 0; status == CCL_OK && i < t->nruns; i++) {
        const ccl_tune_run_t *run = &t->runs[i];
        out->status[run->size][run->point] = run->result.status;
        out->time_s[run->size][run->point] = run->result.time_s;
        out->resumed += run->resumed;
    }
    for (uint32_t s = 0; status == CCL_OK && s < SIZES; s++)
        out->best[s] = t->best[s] == CCL_NONE ? CCL_NONE : t->runs[t->best[s]].point;
    if (status == CCL_OK) {
        ccl_scarcity_t scarcity = ccl_tuning_scarcity(t);
        out->missing = scarcity.missing;
        out->warned = scarcity.missing + scarcity.partly > 0;
        status = scarcity.all ? ccl_fail_nomem(err) : CCL_OK;
    }
    ccl_tuning_destroy(t);
    ccl_space_destroy(space);
    return status;
}

typedef ccl_status_t (*way_fn)(const work_t *w, ccl_notebook_t *notebook, found_t *out,
                               ccl_error_t *err);
static const way_fn ways[] = {compare, tune};

typedef struct trial {
    work_t work;
    way_fn way;
} trial_t;

static ccl_status_t in_child(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    const trial_t *t = user;
    ccl_notebook_t *notebook = NULL;
    found_t found;
    memset(&found, 0, sizeof found);
    if (t->work.notebook)
        CCL_TRY(ccl_notebook_open(t->work.notebook, true, &notebook, err));
    ccl_status_t status = t->way(&t->work, notebook, &found, err);
    ccl_notebook_close(notebook);
    if (status == CCL_OK)
        ccl_child_put(pipe, &found, sizeof found);
    return status;
}

/* @param bytes  0: as many as it likes */
static ccl_status_t try_with(trial_t *t, size_t bytes, found_t *out) {
    const ccl_child_limits_t limits = {0, (double)bytes, "test"};
    ccl_child_answer_t answer;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_child_run(NULL, &limits, in_child, t, &answer, &err);
    /* SQLite tells some lack of memory as a failed read. */
    ck_assert_msg(status == CCL_OK || status == CCL_ERR_NOMEM || status == CCL_ERR_IO,
                  "%zu bytes: %s %s", bytes, ccl_status_name(status), err.text);
    ck_assert_msg(!strstr(err.text, "test:"), "%s", err.text); /* it ended this process */
    if (status == CCL_OK)
        memcpy(out, answer.data, sizeof *out);
    free(answer.data);
    return status;
}

static void expect(const char *path, const char *sql, const char *want) {
    ccl_notebook_t *notebook = NULL;
    ccl_notebook_rows_t *rows = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_notebook_open(path, false, &notebook, &err);
    if (status == CCL_ERR_INPUT && strstr(err.text, "no lab notebook yet"))
        return; /* nothing came to it */
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    ck_assert_msg(ccl_notebook_query(NULL, notebook, sql, NULL, 0, &rows, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert_uint_eq(rows->nrows, 1);
    ck_assert_str_eq(rows->cells[0], want);
    ccl_notebook_rows_destroy(rows);
    ccl_notebook_close(notebook);
}

/* KiB of a limit: the most with which nothing comes out, the least with which nobody is missing. */
typedef struct span {
    size_t nothing, everyone;
    uint32_t missing; /* limits between them, with which some come out and some are missing */
} span_t;

static void try_limit(trial_t *t, size_t kilobytes, span_t *span) {
    found_t found;
    ccl_status_t status = try_with(t, kilobytes << 10, &found);
    if (access(t->work.notebook, F_OK) == 0) {
        expect(t->work.notebook, "PRAGMA integrity_check", "ok");
        expect(t->work.notebook, "SELECT count(*) FROM point WHERE status <> 'CCL_OK'", "0");
    }
    if (status != CCL_OK) {
        span->nothing = kilobytes > span->nothing ? kilobytes : span->nothing;
        return;
    }
    span->missing += found.missing > 0;
    if (!found.missing && kilobytes < span->everyone)
        span->everyone = kilobytes;
    ck_assert_uint_le(found.warned, 1);
    ck_assert(!found.missing || found.warned);
    for (uint32_t s = 0; s < SIZES; s++)
        for (uint32_t i = 0; i < CONTENDERS; i++)
            ck_assert(found.status[s][i] == CCL_OK || found.status[s][i] == CCL_ERR_NOMEM);
}

/* Threads share what there is, so the limits at which some are missing move from run to run. */
static void try_limits(trial_t *t) {
    enum { FIRST = 256, LAST = 8192, STEP = 16 };
    span_t span = {0, LAST, 0};
    for (size_t kilobytes = FIRST; kilobytes < LAST; kilobytes += kilobytes / 2)
        try_limit(t, kilobytes, &span);
    while (!span.missing && span.everyone > span.nothing + STEP)
        try_limit(t, (span.nothing + span.everyone) / 2, &span);
    ck_assert_msg(span.nothing > 0 && span.missing > 0, "nothing up to %zu KiB, all from %zu KiB",
                  span.nothing, span.everyone);
}

/* Each way on one thread and on three; for every change one on each. */
START_TEST(test_scarce) {
    if (!nightly() && _i / 2 != _i % 2)
        return;
    char dir[] = "/tmp/ccllab_scarce_XXXXXX", path[64], wal[80];
    trial_t t = {.way = ways[_i / 2], .work.threads = _i % 2 ? 3 : 1};
    found_t whole, found;
    t.work.topo = topology("heteccl-h20-4+8");
    ck_assert_int_eq(
        ccl_collective_create(CCL_ALLGATHER, t.work.topo->nranks, 1, 0, &t.work.want, NULL),
        CCL_OK);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/n.db", dir);
    ck_assert_int_eq(try_with(&t, 0, &whole), CCL_OK);
    ck_assert_uint_eq(whole.missing + whole.warned, 0);
    t.work.notebook = path;
    if (SCARCE_MEMORY)
        try_limits(&t);
    /* Now there is enough: what was missing is added, what was there was right. */
    ck_assert_int_eq(try_with(&t, 0, &found), CCL_OK);
    ck_assert_uint_lt(found.resumed, SIZES * CONTENDERS);
    ck_assert(!SCARCE_MEMORY || found.resumed > 0);
    ck_assert_mem_eq(found.status, whole.status, sizeof whole.status);
    ck_assert_mem_eq(found.time_s, whole.time_s, sizeof whole.time_s);
    ck_assert_mem_eq(found.best, whole.best, sizeof whole.best);
    for (size_t i = 0; i < 3; i++) {
        snprintf(wal, sizeof wal, "%s%s", path, i == 0 ? "" : i == 1 ? "-wal" : "-shm");
        unlink(wal);
    }
    rmdir(dir);
    ccl_collective_destroy(t.work.want);
    ccl_topology_destroy(t.work.topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("search.scarce");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_scarce, 0, 2 * (int)CCL_ARRAY_LEN(ways));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
