/*
 * The lab notebook: its tables, points and inputs, the same in a file and on a server. Rows point
 * to inputs by their content's hash.
 */
#include "search/compare/points.h"
#include "search/notebook/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 4 /* 1: without what a point says of its thread blocks' time; 2: without its origin;
                   3: without the queue */
};

static const char *const tables[] = {
    "CREATE TABLE input (hash {text} PRIMARY KEY, kind {text} NOT NULL, name {text} NOT NULL,"
    " text {blob} NOT NULL){lean}",
    "CREATE TABLE point (id {id}, topology {text} NOT NULL, demand {text} NOT NULL,"
    " profile {text}, settings {text} NOT NULL, seed BIGINT NOT NULL,"
    " size_bytes DOUBLE PRECISION NOT NULL, fidelity {text} NOT NULL, status {text} NOT NULL,"
    " why {text}, time_s DOUBLE PRECISION, algbw_GBps DOUBLE PRECISION,"
    " busbw_GBps DOUBLE PRECISION, bound_s DOUBLE PRECISION, synth_s DOUBLE PRECISION,"
    " eval_s DOUBLE PRECISION, thread_blocks BIGINT, batches BIGINT, tool {text} NOT NULL,"
    " at {text} NOT NULL, comm_share DOUBLE PRECISION, mean_idle_share DOUBLE PRECISION,"
    " max_idle_share DOUBLE PRECISION, link_utilization DOUBLE PRECISION, origin {text},"
    " UNIQUE (topology, demand, settings, seed, size_bytes, fidelity, tool))",
};
static const char view[] =
    "CREATE VIEW run AS SELECT point.id, t.name AS cluster, d.name AS collective, size_bytes,"
    " settings, seed, status, why, time_s, algbw_GBps, busbw_GBps, bound_s,"
    " time_s / NULLIF(bound_s, 0) AS gap, thread_blocks, batches, synth_s, eval_s, profile,"
    " topology, demand, tool, at, origin FROM point LEFT JOIN input t ON t.hash = topology"
    " LEFT JOIN input d ON d.hash = demand WHERE fidelity = 'full'";
/*
 * The queue (lab.c). A member is a process that asks for work or does it; a task is what one does
 * at a time, with a lease while it does; an item is one thing asked for, once.
 */
static const char *const queue[] = {
    "CREATE TABLE member (name {text} PRIMARY KEY, role {text} NOT NULL, launch {text},"
    " until DOUBLE PRECISION NOT NULL, ended BIGINT NOT NULL)",
    "CREATE TABLE task (id {id}, kind {text} NOT NULL, tool {text} NOT NULL,"
    " topology {text} NOT NULL, demand {text} NOT NULL, seed BIGINT NOT NULL,"
    " sizes {text} NOT NULL, profile {text}, asker {text} NOT NULL, prefer {text},"
    " free_at DOUBLE PRECISION, owner {text}, until DOUBLE PRECISION, tries BIGINT NOT NULL,"
    " status {text}, why {text}, synth_s DOUBLE PRECISION, content {text}, scarce BIGINT)",
    "CREATE INDEX task_open ON task (id) WHERE status IS NULL",
    "CREATE TABLE item (name {text} PRIMARY KEY, task BIGINT NOT NULL, settings {text} NOT NULL,"
    " size_bytes DOUBLE PRECISION NOT NULL, fidelity {text} NOT NULL)",
    "CREATE INDEX item_task ON item (task)",
};
static const char *const since_2[] = {"ALTER TABLE point ADD COLUMN comm_share REAL",
                                      "ALTER TABLE point ADD COLUMN mean_idle_share REAL",
                                      "ALTER TABLE point ADD COLUMN max_idle_share REAL",
                                      "ALTER TABLE point ADD COLUMN link_utilization REAL"};
static const char *const since_3[] = {"ALTER TABLE point ADD COLUMN origin TEXT", "DROP VIEW run",
                                      view};

/* ---------------------------------------------------------------- opening */

ccl_status_t ccl_notebook_default_path(char *out, size_t out_len, ccl_error_t *err) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int len;
    if (data && data[0] == '/')
        len = snprintf(out, out_len, "%s/ccllab/notebook.db", data);
    else if (home && home[0] == '/')
        len = snprintf(out, out_len, "%s/.local/share/ccllab/notebook.db", home);
    else
        return ccl_fail(err, CCL_ERR_USAGE,
                        "no place for the lab notebook: neither XDG_DATA_HOME nor HOME is set; "
                        "--notebook FILE names one, --notebook none does without");
    if ((size_t)len >= out_len)
        return ccl_fail(err, CCL_ERR_USAGE, "the path of the lab notebook is too long");
    return CCL_OK;
}

bool ccl_notebook_is_url(const char *path) {
    return strncmp(path, "postgresql://", 13) == 0 || strncmp(path, "postgres://", 11) == 0;
}

static ccl_status_t do_all(ccl_notebook_t *n, const char *const *sql, size_t count,
                           ccl_error_t *err) {
    for (size_t i = 0; i < count; i++)
        CCL_TRY(n->ops->ask(n, &(ccl_i_question_t){.sql = sql[i], .once = true}, NULL, NULL, err));
    return CCL_OK;
}

static ccl_status_t identify(ccl_notebook_t *n, ccl_error_t *err) {
    CCL_TRY(n->ops->identify(n, &n->version, err));
    if (n->version < 0 || n->version > VERSION)
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "a lab notebook of version %lld; this ccllab reads versions 1 to %d",
                             (long long)n->version, VERSION);
    return CCL_OK;
}

/* New, or of an earlier version. Several processes may find so at once. */
static ccl_status_t make_whole(ccl_notebook_t *n, void *user, ccl_error_t *err) {
    (void)user;
    if (n->ops->exclusive)
        CCL_TRY(do_all(n, &n->ops->exclusive, 1, err));
    CCL_TRY(identify(n, err));
    int64_t was = n->version;
    const char *const views[] = {view};
    if (was == 0)
        CCL_TRY(do_all(n, tables, CCL_ARRAY_LEN(tables), err));
    if (was == 0)
        CCL_TRY(do_all(n, views, 1, err));
    if (was == 1)
        CCL_TRY(do_all(n, since_2, CCL_ARRAY_LEN(since_2), err));
    if (was == 1 || was == 2)
        CCL_TRY(do_all(n, since_3, CCL_ARRAY_LEN(since_3), err));
    if (was < 4)
        CCL_TRY(do_all(n, queue, CCL_ARRAY_LEN(queue), err));
    if (was < VERSION)
        CCL_TRY(n->ops->set_version(n, was == 0, VERSION, err));
    n->version = VERSION;
    return CCL_OK;
}

static ccl_status_t set_up(ccl_notebook_t *n, bool write, ccl_error_t *err) {
    CCL_TRY(identify(n, err));
    if (n->version == 0 && !write)
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "an empty %s, no lab notebook yet (ccllab tune begins one)",
                             n->ops->tidy ? "file" : "database");
    if (n->version == 0 && n->ops->found)
        CCL_TRY(n->ops->found(n, err));
    return write && n->version < VERSION ? ccl_i_transact(n, false, make_whole, NULL, err) : CCL_OK;
}

bool ccl_notebook_servers(void) {
    return ccl_i_backend_postgres.there();
}

ccl_status_t ccl_notebook_open(const char *path, bool write, ccl_notebook_t **out,
                               ccl_error_t *err) {
    ccl_notebook_t *n = calloc(1, sizeof *n);
    if (!n)
        return ccl_fail_nomem(err);
    n->ops = ccl_notebook_is_url(path) ? &ccl_i_backend_postgres : &ccl_i_backend_sqlite;
    n->lock = ccl_lock_create();
    ccl_status_t status = n->lock ? n->ops->open(n, path, write, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = set_up(n, write, err);
    if (status == CCL_OK)
        *out = n;
    else
        ccl_notebook_close(n);
    return status;
}

void ccl_notebook_close(ccl_notebook_t *notebook) {
    if (!notebook)
        return;
    notebook->ops->close(notebook);
    ccl_lock_destroy(notebook->lock);
    free(notebook);
}

/* ---------------------------------------------------------------- writing and finding */

static const char add_input[] = "INSERT INTO input VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";

ccl_status_t ccl_notebook_input(ccl_notebook_t *notebook, const char *kind, const char *name,
                                const char *text, size_t len, ccl_content_t out, ccl_error_t *err) {
    uint64_t a = ccl_hash64(text, len, 1), b = ccl_hash64(text, len, 2);
    snprintf(out, sizeof(ccl_content_t), "%016llx%016llx", (unsigned long long)a,
             (unsigned long long)b);
    if (!notebook)
        return CCL_OK;
    const ccl_i_sql_value_t args[] = {ccl_i_sql_text(out),
                                      ccl_i_sql_text(kind),
                                      ccl_i_sql_text(name),
                                      {.type = CCL_I_BLOB, .text = text, .len = len}};
    return ccl_i_ask(notebook, &(ccl_i_question_t){.sql = add_input, .args = args, .nargs = 4},
                     NULL, NULL, err);
}

/* What names a point: topology, demand, settings, seed, size, fidelity, tool. */
static void name_values(const ccl_point_t *p, ccl_i_sql_value_t out[7]) {
    out[0] = ccl_i_sql_text(p->topology);
    out[1] = ccl_i_sql_text(p->demand);
    out[2] = ccl_i_sql_text(p->settings);
    out[3] = ccl_i_sql_int((int64_t)p->seed);
    out[4] = ccl_i_sql_real(p->size_bytes);
    out[5] = ccl_i_sql_text(p->estimate ? "estimate" : "full");
    out[6] = ccl_i_sql_text(ccl_notebook_tool());
}

static ccl_status_t add(ccl_notebook_t *n, const ccl_point_t *point, const ccl_point_result_t *r,
                        const char *profile, bool lazy, ccl_error_t *err) {
    static const char sql[] =
        "INSERT INTO point (topology, demand, settings, seed, size_bytes, fidelity, tool, profile,"
        " status, why, time_s, algbw_GBps, busbw_GBps, bound_s, synth_s, eval_s, thread_blocks,"
        " batches, comm_share, mean_idle_share, max_idle_share, link_utilization, origin, at)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
        " ?19, ?20, ?21, ?22, ?23, {at}) ON CONFLICT DO NOTHING";
    bool ran = r->status == CCL_OK;
    ccl_i_sql_value_t args[23];
    name_values(point, args);
    args[7] = ccl_i_sql_text(profile);
    args[8] = ccl_i_sql_text(ccl_status_name(r->status));
    args[9] = ccl_i_sql_text(ran ? NULL : r->why);
    const double values[] = {ran ? r->time_s : NAN,
                             ran ? r->algbw_GBps : NAN,
                             ran ? r->busbw_GBps : NAN,
                             r->bound_s,
                             r->synth_s,
                             r->eval_s};
    const double uses[] = {r->comm_share, r->mean_idle_share, r->max_idle_share,
                           r->link_utilization};
    for (size_t i = 0; i < CCL_ARRAY_LEN(values); i++)
        args[10 + i] = ccl_i_sql_real(values[i]);
    args[16] = ccl_i_sql_int(r->thread_blocks);
    args[17] = ccl_i_sql_int(r->batches);
    for (size_t i = 0; i < CCL_ARRAY_LEN(uses); i++)
        args[18 + i] = ccl_i_sql_real(ran ? uses[i] : NAN);
    args[22] = ccl_i_sql_text(r->origin[0] ? r->origin : NULL);
    return ccl_i_ask(n, &(ccl_i_question_t){.sql = sql, .args = args, .nargs = 23, .lazy = lazy},
                     NULL, NULL, err);
}

ccl_status_t ccl_notebook_add(ccl_notebook_t *n, const ccl_point_t *point,
                              const ccl_point_result_t *result, const char *profile,
                              ccl_error_t *err) {
    return add(n, point, result, profile, false, err);
}

ccl_status_t ccl_i_notebook_add_lazily(ccl_notebook_t *n, const ccl_point_t *point,
                                       const ccl_point_result_t *result, const char *profile,
                                       ccl_error_t *err) {
    return add(n, point, result, profile, true, err);
}

bool ccl_i_status_of(const char *name, ccl_status_t *out) {
#define ROW_(code_, exit_, text_)                                                                  \
    if (strcmp(name, #code_) == 0) {                                                               \
        *out = code_;                                                                              \
        return true;                                                                               \
    }
    CCL_STATUS_MAP(ROW_)
#undef ROW_
    return false;
}

/* 0 where there is none, as in the file. */
static double real_or_0(const ccl_notebook_rows_t *rows, uint32_t column) {
    double value = ccl_i_row_real(rows, 0, column);
    return isnan(value) ? 0 : value;
}

ccl_status_t ccl_notebook_find(ccl_notebook_t *n, const ccl_point_t *point, ccl_point_result_t *out,
                               bool *found_out, ccl_error_t *err) {
#define FIND_(uses_, origin_)                                                                      \
    "SELECT status, why, time_s, algbw_GBps, busbw_GBps, bound_s, synth_s, eval_s,"                \
    " thread_blocks, batches, " uses_ ", " origin_ " FROM point WHERE topology = ?1 AND"           \
    " demand = ?2 AND settings = ?3 AND seed = ?4 AND size_bytes = ?5 AND fidelity = ?6 AND"       \
    " tool = ?7"
#define USES_ "comm_share, mean_idle_share, max_idle_share, link_utilization"
    static const char *const sql[] = {FIND_("NULL, NULL, NULL, NULL", "NULL"), FIND_(USES_, "NULL"),
                                      FIND_(USES_, "origin")};
    ccl_notebook_rows_t rows = {0};
    ccl_i_sql_value_t args[7];
    name_values(point, args);
    *found_out = false;
    ccl_status_t status =
        ccl_i_ask(n,
                  &(ccl_i_question_t){.sql = sql[n->version > 3 ? 2 : n->version - 1],
                                      .args = args,
                                      .nargs = CCL_ARRAY_LEN(args)},
                  &rows, NULL, err);
    ccl_point_result_t r = {0};
    /* A status of another version is no answer. */
    if (status == CCL_OK && rows.nrows && ccl_i_status_of(ccl_i_row_text(&rows, 0, 0), &r.status)) {
        snprintf(r.why, sizeof r.why, "%s", ccl_i_row_text(&rows, 0, 1));
        r.time_s = real_or_0(&rows, 2);
        r.algbw_GBps = real_or_0(&rows, 3);
        r.busbw_GBps = real_or_0(&rows, 4);
        r.bound_s = real_or_0(&rows, 5);
        r.synth_s = real_or_0(&rows, 6);
        r.eval_s = real_or_0(&rows, 7);
        r.thread_blocks = (uint32_t)ccl_i_row_int(&rows, 0, 8);
        r.batches = (uint32_t)ccl_i_row_int(&rows, 0, 9);
        r.comm_share = ccl_i_row_real(&rows, 0, 10);
        r.mean_idle_share = ccl_i_row_real(&rows, 0, 11);
        r.max_idle_share = ccl_i_row_real(&rows, 0, 12);
        r.link_utilization = ccl_i_row_real(&rows, 0, 13);
        ccl_origin_set(r.origin, "%s", ccl_i_row_text(&rows, 0, 14));
        *out = r;
        *found_out = true;
    }
    ccl_i_rows_fini(&rows);
    return status;
}

ccl_status_t ccl_i_notebook_tell(const ccl_ctx_t *ctx, ccl_notebook_t *n,
                                 const ccl_content_t topology, const ccl_content_t demand,
                                 ccl_error_t *err) {
    static const char sql[] = "SELECT sum(CASE WHEN tool = ?3 THEN 1 ELSE 0 END), count(*),"
                              " max(tool) FROM point WHERE topology = ?1 AND demand = ?2";
    const ccl_i_sql_value_t args[] = {ccl_i_sql_text(topology), ccl_i_sql_text(demand),
                                      ccl_i_sql_text(ccl_notebook_tool())};
    ccl_notebook_rows_t rows = {0};
    if (!n || n->told)
        return CCL_OK;
    ccl_status_t status =
        ccl_i_ask(n, &(ccl_i_question_t){.sql = sql, .args = args, .nargs = 3}, &rows, NULL, err);
    if (status == CCL_OK && ccl_i_row_int(&rows, 0, 0) == 0 && ccl_i_row_int(&rows, 0, 1) > 0) {
        ccl_log(ctx, CCL_LOG_WARN, "notebook",
                "%s: %lld points of this cluster and collective are of another build (%s); this "
                "one, %s, does not use them (ccllab notebook gc drops them)",
                n->path, (long long)ccl_i_row_int(&rows, 0, 1), ccl_i_row_text(&rows, 0, 2),
                ccl_notebook_tool());
        n->told = true;
    }
    ccl_i_rows_fini(&rows);
    return status;
}

/* ---------------------------------------------------------------- gc and copies */

typedef struct sweepings {
    bool all;
    int64_t points, inputs;
} sweepings_t;

static ccl_status_t drop(ccl_notebook_t *n, void *user, ccl_error_t *err) {
    sweepings_t *s = user;
    const ccl_i_sql_value_t args[] = {ccl_i_sql_text(ccl_notebook_tool())};
    CCL_TRY(n->ops->ask(n,
                        s->all ? &(ccl_i_question_t){.sql = "DELETE FROM point"}
                               : &(ccl_i_question_t){.sql = "DELETE FROM point WHERE tool <> ?1",
                                                     .args = args,
                                                     .nargs = 1},
                        NULL, &s->points, err));
#define UNUSED_                                                                                    \
    "DELETE FROM input WHERE hash NOT IN (SELECT topology FROM point UNION SELECT demand FROM "    \
    "point"
    return n->ops->ask(n,
                       &(ccl_i_question_t){.sql = n->version < VERSION ? UNUSED_ ")"
                                                                       : UNUSED_
                                                      " UNION SELECT topology FROM task"
                                                      " UNION SELECT demand FROM task)"},
                       NULL, &s->inputs, err);
}

ccl_status_t ccl_notebook_gc(ccl_notebook_t *notebook, bool all, uint64_t *points_out,
                             uint64_t *inputs_out, ccl_error_t *err) {
    sweepings_t s = {.all = all};
    CCL_TRY(ccl_i_transact(notebook, false, drop, &s, err));
    *points_out = (uint64_t)s.points;
    *inputs_out = (uint64_t)s.inputs;
    if (!notebook->ops->tidy)
        return CCL_OK;
    return ccl_i_ask(notebook, &(ccl_i_question_t){.sql = notebook->ops->tidy, .once = true}, NULL,
                     NULL, err);
}

typedef struct copy {
    const char *sql;
    const ccl_notebook_rows_t *rows;
    uint32_t first, last;
    int64_t added;
} copy_t;

static ccl_status_t put_rows(ccl_notebook_t *n, void *user, ccl_error_t *err) {
    copy_t *c = user;
    c->added = 0;
    for (uint32_t r = c->first; r < c->last; r++) {
        ccl_i_sql_value_t args[32];
        int64_t changes = 0;
        for (uint32_t k = 0; k < c->rows->ncolumns; k++) {
            size_t at = (size_t)r * c->rows->ncolumns + k;
            const char *text = c->rows->cells[at];
            bool whole = text && !text[strspn(text, "-0123456789")];
            args[k] = ccl_i_sql_text(text);
            if (text && c->rows->number[at])
                args[k] = whole ? ccl_i_sql_int(strtoll(text, NULL, 10))
                                : ccl_i_sql_real(strtod(text, NULL));
            if (c->sql == add_input && k == 3)
                args[k] =
                    (ccl_i_sql_value_t){.type = CCL_I_BLOB, .text = text, .len = strlen(text)};
        }
        CCL_TRY(n->ops->ask(
            n, &(ccl_i_question_t){.sql = c->sql, .args = args, .nargs = c->rows->ncolumns}, NULL,
            &changes, err));
        c->added += changes;
    }
    return CCL_OK;
}

static ccl_status_t copy_rows(const ccl_ctx_t *ctx, ccl_notebook_t *to, const char *sql,
                              const ccl_notebook_rows_t *rows, uint64_t *added_out,
                              ccl_error_t *err) {
    enum { AT_ONCE = 1000 };
    copy_t c = {.sql = sql, .rows = rows};
    *added_out = 0;
    for (; c.first < rows->nrows; c.first = c.last) {
        ccl_progress_t progress = {"copy", c.first, rows->nrows, 0, 0};
        CCL_TRY(ccl_ctx_poll(ctx, &progress));
        c.last = rows->nrows - c.first > AT_ONCE ? c.first + AT_ONCE : rows->nrows;
        CCL_TRY(ccl_i_transact(to, false, put_rows, &c, err));
        *added_out += (uint64_t)c.added;
    }
    return CCL_OK;
}

ccl_status_t ccl_notebook_copy(const ccl_ctx_t *ctx, ccl_notebook_t *from, ccl_notebook_t *to,
                               uint64_t *points_out, uint64_t *inputs_out, ccl_error_t *err) {
#define POINT_                                                                                     \
    "topology, demand, profile, settings, seed, size_bytes, fidelity, status, why, time_s,"        \
    " algbw_GBps, busbw_GBps, bound_s, synth_s, eval_s, thread_blocks, batches, tool, at"
    static const char *const select[] = {
        "SELECT " POINT_ ", NULL, NULL, NULL, NULL, NULL FROM point ORDER BY id",
        "SELECT " POINT_ ", " USES_ ", NULL FROM point ORDER BY id",
        "SELECT " POINT_ ", " USES_ ", origin FROM point ORDER BY id"};
    static const char insert[] =
        "INSERT INTO point (" POINT_ ", " USES_
        ", origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
        " ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)"
        " ON CONFLICT DO NOTHING";
    ccl_notebook_rows_t *inputs = NULL, *points = NULL;
    ccl_status_t status = CCL_OK;
    CCL_TRY_GOTO(ccl_notebook_query(ctx, from,
                                    "SELECT hash, kind, name, text FROM input ORDER BY hash", NULL,
                                    0, &inputs, err),
                 status, end);
    CCL_TRY_GOTO(ccl_notebook_query(ctx, from, select[from->version > 3 ? 2 : from->version - 1],
                                    NULL, 0, &points, err),
                 status, end);
    CCL_TRY_GOTO(copy_rows(ctx, to, add_input, inputs, inputs_out, err), status, end);
    status = copy_rows(ctx, to, insert, points, points_out, err);
end:
    ccl_notebook_rows_destroy(inputs);
    ccl_notebook_rows_destroy(points);
    return status;
}
