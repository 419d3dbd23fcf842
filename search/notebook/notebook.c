/*
 * The lab notebook: one SQLite file in WAL mode. A point is one row, written by one statement, so
 * it is there or it is not, whoever is killed when. Rows point to inputs by their content's hash.
 */
#include "search/notebook/notebook_i.h"
#include "search/compare/points.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    APPLICATION = 0x63636c6e, /* "ccln" */
    VERSION = 3,              /* 1: without what a point says of its thread blocks' time; 2: without
                                 its origin */
    BUSY_MS = 30000           /* writers wait for each other at most this time */
};

static const char schema[] =
    "CREATE TABLE input (hash TEXT PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,"
    " text BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE point (id INTEGER PRIMARY KEY, topology TEXT NOT NULL, demand TEXT NOT NULL,"
    " profile TEXT, settings TEXT NOT NULL, seed INTEGER NOT NULL, size_bytes REAL NOT NULL,"
    " fidelity TEXT NOT NULL, status TEXT NOT NULL, why TEXT, time_s REAL, algbw_GBps REAL, "
    "busbw_GBps REAL,"
    " bound_s REAL, synth_s REAL, eval_s REAL, thread_blocks INTEGER, batches INTEGER,"
    " tool TEXT NOT NULL, at TEXT NOT NULL, comm_share REAL, mean_idle_share REAL,"
    " max_idle_share REAL, link_utilization REAL, origin TEXT,"
    " UNIQUE (topology, demand, settings, seed, size_bytes, fidelity, tool));";
static const char view[] =
    "CREATE VIEW run AS SELECT point.id, t.name AS cluster, d.name AS collective, size_bytes,"
    " settings, seed, status, why, time_s, algbw_GBps, busbw_GBps, bound_s,"
    " time_s / bound_s AS gap, thread_blocks, batches, synth_s, eval_s, profile, topology, demand,"
    " tool, at, origin FROM point LEFT JOIN input t ON t.hash = topology"
    " LEFT JOIN input d ON d.hash = demand WHERE fidelity = 'full';";

/* What the operating system said of it. */
static ccl_status_t no_file(const ccl_notebook_t *n, const char *what, ccl_error_t *err) {
    int number = sqlite3_system_errno(n->db);
    return ccl_error_set(err, CCL_ERR_IO, n->path, 0, 0, "lab notebook: %s%s%s",
                         what ? what : sqlite3_errmsg(n->db), number ? ": " : "",
                         number ? strerror(number) : "");
}

ccl_status_t ccl_i_notebook_failed(const ccl_notebook_t *n, ccl_error_t *err) {
    switch (sqlite3_errcode(n->db) & 0xff) {
    case SQLITE_NOMEM:
        return ccl_fail_nomem(err);
    case SQLITE_INTERRUPT:
        return ccl_fail(err, CCL_INTERRUPTED, "interrupted");
    case SQLITE_NOTADB:
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "not a lab notebook (SQLite: %.300s)", sqlite3_errmsg(n->db));
    case SQLITE_ERROR:
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "not a whole lab notebook (SQLite: %.300s)", sqlite3_errmsg(n->db));
    case SQLITE_CORRUPT:
        return ccl_error_set(err, CCL_ERR_IO, n->path, 0, 0,
                             "lab notebook: damaged (SQLite: %.300s); a copy is wanted, or what "
                             "sqlite3's .recover saves",
                             sqlite3_errmsg(n->db));
    case SQLITE_BUSY:
        return ccl_error_set(err, CCL_ERR_IO, n->path, 0, 0,
                             "lab notebook: another program has locked it for %d s",
                             BUSY_MS / 1000);
    case SQLITE_READONLY:
        return no_file(n,
                       "it or its folder is not to be written, which SQLite needs to read it, "
                       "too; a copy elsewhere will do",
                       err);
    default:
        return no_file(n, NULL, err);
    }
}

static ccl_status_t execute(const ccl_notebook_t *n, const char *sql, ccl_error_t *err) {
    return sqlite3_exec(n->db, sql, NULL, NULL, NULL) == SQLITE_OK ? CCL_OK
                                                                   : ccl_i_notebook_failed(n, err);
}

static ccl_status_t prepare(const ccl_notebook_t *n, const char *sql, sqlite3_stmt **out,
                            ccl_error_t *err) {
    if (sqlite3_prepare_v2(n->db, sql, -1, out, NULL) != SQLITE_OK)
        return ccl_i_notebook_failed(n, err);
    return CCL_OK;
}

/* The one number of a statement. */
static ccl_status_t number(const ccl_notebook_t *n, const char *sql, int64_t *out,
                           ccl_error_t *err) {
    sqlite3_stmt *stmt = NULL;
    CCL_TRY(prepare(n, sql, &stmt, err));
    ccl_status_t status = CCL_OK;
    if (sqlite3_step(stmt) == SQLITE_ROW)
        *out = sqlite3_column_int64(stmt, 0);
    else
        status = ccl_i_notebook_failed(n, err);
    sqlite3_finalize(stmt);
    return status;
}

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

/* The folders above a file. */
static ccl_status_t make_folders(const char *path, ccl_error_t *err) {
    char *copy = strdup(path);
    ccl_status_t status = CCL_OK;
    if (!copy)
        return ccl_fail_nomem(err);
    for (char *p = strchr(copy + 1, '/'); p && status == CCL_OK; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            status = ccl_error_set(err, CCL_ERR_IO, copy, 0, 0, "%s", strerror(errno));
        *p = '/';
    }
    free(copy);
    return status;
}

/* Whose file is it? @param fresh_out  nothing is in it yet. */
static ccl_status_t identify(const ccl_notebook_t *n, bool *fresh_out, ccl_error_t *err) {
    int64_t application = 0, version = 0, tables = 0;
    CCL_TRY(number(n, "PRAGMA application_id", &application, err));
    CCL_TRY(number(n, "PRAGMA user_version", &version, err));
    CCL_TRY(number(n, "SELECT count(*) FROM sqlite_master", &tables, err));
    *fresh_out = application == 0 && version == 0 && tables == 0;
    if (*fresh_out)
        return CCL_OK;
    if (application != APPLICATION)
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "a database of another program, not a lab notebook");
    if (version < 1 || version > VERSION)
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "a lab notebook of version %lld; this ccllab reads versions 1 to %d",
                             (long long)version, VERSION);
    return CCL_OK;
}

/* Several processes may do this to one new file at once. */
static ccl_status_t create(const ccl_notebook_t *n, ccl_error_t *err) {
    bool fresh = false;
    int rc = SQLITE_BUSY;
    /* While another process changes the mode, SQLite's own waiting does not apply. */
    for (int waited_ms = 0; rc == SQLITE_BUSY && waited_ms < BUSY_MS; waited_ms += 10) {
        rc = sqlite3_exec(n->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if (rc == SQLITE_BUSY)
            sqlite3_sleep(10);
    }
    if (rc != SQLITE_OK)
        return ccl_i_notebook_failed(n, err);
    CCL_TRY(execute(n, "BEGIN IMMEDIATE", err));
    ccl_status_t status = identify(n, &fresh, err);
    if (status == CCL_OK && fresh) {
        char marks[80];
        snprintf(marks, sizeof marks, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                 APPLICATION, VERSION);
        status = execute(n, schema, err);
        if (status == CCL_OK)
            status = execute(n, view, err);
        if (status == CCL_OK)
            status = execute(n, marks, err);
    }
    if (status == CCL_OK)
        return execute(n, "COMMIT", err);
    sqlite3_exec(n->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* Of an earlier version: its points lack the later columns. Several processes may find so at once.
 */
static ccl_status_t upgrade(const ccl_notebook_t *n, ccl_error_t *err) {
    int64_t version = 0;
    CCL_TRY(number(n, "PRAGMA user_version", &version, err));
    if (version >= VERSION)
        return CCL_OK;
    CCL_TRY(execute(n, "BEGIN IMMEDIATE", err));
    ccl_status_t status = number(n, "PRAGMA user_version", &version, err);
    if (status == CCL_OK && version < 2)
        status = execute(n,
                         "ALTER TABLE point ADD COLUMN comm_share REAL;"
                         "ALTER TABLE point ADD COLUMN mean_idle_share REAL;"
                         "ALTER TABLE point ADD COLUMN max_idle_share REAL;"
                         "ALTER TABLE point ADD COLUMN link_utilization REAL",
                         err);
    if (status == CCL_OK && version < 3)
        status = execute(n, "ALTER TABLE point ADD COLUMN origin TEXT; DROP VIEW run", err);
    if (status == CCL_OK && version < 3)
        status = execute(n, view, err);
    if (status == CCL_OK && version < VERSION)
        status = execute(n, "PRAGMA user_version = 3", err);
    if (status == CCL_OK)
        return execute(n, "COMMIT", err);
    sqlite3_exec(n->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static ccl_status_t set_up(ccl_notebook_t *n, bool write, ccl_error_t *err) {
    bool fresh = false;
    sqlite3_busy_timeout(n->db, BUSY_MS);
    /* In one transaction: another process may be making it between two questions. */
    CCL_TRY(execute(n, "BEGIN", err));
    ccl_status_t status = identify(n, &fresh, err);
    sqlite3_exec(n->db, "ROLLBACK", NULL, NULL, NULL);
    if (status != CCL_OK)
        return status;
    if (fresh && !write)
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "an empty file, no lab notebook yet (ccllab tune begins one)");
    if (fresh)
        CCL_TRY(create(n, err));
    /* In WAL mode a killed process loses nothing that was committed; a power cut may lose the last
       points, not the file. */
    CCL_TRY(execute(n, "PRAGMA synchronous = NORMAL", err));
    if (write)
        CCL_TRY(upgrade(n, err));
    if (write)
        CCL_TRY(prepare(
            n,
            "INSERT INTO point (topology, demand, profile, settings, seed, size_bytes,"
            " fidelity, status, why, time_s, algbw_GBps, busbw_GBps, bound_s, synth_s, eval_s,"
            " thread_blocks, batches, tool, comm_share, mean_idle_share, max_idle_share,"
            " link_utilization, origin, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
            " ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,"
            " strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) ON CONFLICT DO NOTHING",
            &n->add, err));
    int64_t version = 0;
    char sql[500];
    CCL_TRY(number(n, "PRAGMA user_version", &version, err));
    snprintf(sql, sizeof sql,
             "SELECT status, why, time_s, algbw_GBps, busbw_GBps, bound_s, synth_s, eval_s,"
             " thread_blocks, batches, %s, %s FROM point WHERE topology = ?1 AND demand = ?2 AND"
             " settings = ?3 AND seed = ?4 AND size_bytes = ?5 AND fidelity = ?6 AND tool = ?7",
             version < 2 ? "NULL, NULL, NULL, NULL"
                         : "comm_share, mean_idle_share, max_idle_share, link_utilization",
             version < 3 ? "NULL" : "origin");
    return prepare(n, sql, &n->find, err);
}

ccl_status_t ccl_notebook_open(const char *path, bool write, ccl_notebook_t **out,
                               ccl_error_t *err) {
    ccl_notebook_t *n = calloc(1, sizeof *n);
    ccl_status_t status = CCL_OK;
    if (!n)
        return ccl_fail_nomem(err);
    /* "" and ":memory:" would be databases that SQLite soon forgets. */
    int len = snprintf(n->path, sizeof n->path, "%s%s", path[0] == ':' ? "./" : "", path);
    if (len <= 0 || (size_t)len >= sizeof n->path) {
        free(n);
        return ccl_fail(err, CCL_ERR_USAGE, "the path of the lab notebook is %s",
                        len > 0 ? "too long" : "empty");
    }
    if (write)
        CCL_TRY_GOTO(make_folders(path, err), status, end);
    else if (access(path, F_OK) != 0)
        CCL_TRY_GOTO(ccl_error_set(err, CCL_ERR_IO, path, 0, 0,
                                   errno == ENOENT ? "there is no lab notebook (ccllab tune begins "
                                                     "one)"
                                                   : "cannot be read"),
                     status, end);
    /* Also to read: a WAL that a killed process left is to be taken in. */
    int flags = SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_READWRITE | (write ? SQLITE_OPEN_CREATE : 0);
    if (sqlite3_open_v2(n->path, &n->db, flags, NULL) != SQLITE_OK) {
        status = n->db ? ccl_i_notebook_failed(n, err) : ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(set_up(n, write, err), status, end);
    *out = n;
    return CCL_OK;
end:
    ccl_notebook_close(n);
    return status;
}

void ccl_notebook_close(ccl_notebook_t *notebook) {
    if (!notebook)
        return;
    sqlite3_finalize(notebook->add);
    sqlite3_finalize(notebook->find);
    sqlite3_close(notebook->db);
    free(notebook);
}

/* ---------------------------------------------------------------- writing and finding */

ccl_status_t ccl_notebook_input(ccl_notebook_t *notebook, const char *kind, const char *name,
                                const char *text, size_t len, ccl_content_t out, ccl_error_t *err) {
    uint64_t a = ccl_hash64(text, len, 1), b = ccl_hash64(text, len, 2);
    snprintf(out, sizeof(ccl_content_t), "%016llx%016llx", (unsigned long long)a,
             (unsigned long long)b);
    if (!notebook)
        return CCL_OK;
    sqlite3_stmt *stmt = NULL;
    CCL_TRY(prepare(notebook, "INSERT INTO input VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
                    &stmt, err));
    sqlite3_bind_text(stmt, 1, out, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, kind, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, name, -1, SQLITE_STATIC);
    sqlite3_bind_blob64(stmt, 4, text, len, SQLITE_STATIC);
    ccl_status_t status =
        sqlite3_step(stmt) == SQLITE_DONE ? CCL_OK : ccl_i_notebook_failed(notebook, err);
    sqlite3_finalize(stmt);
    return status;
}

/* @param settings  number of its parameter; seed, size and fidelity follow. */
static void bind_point(sqlite3_stmt *stmt, const ccl_point_t *p, int settings, int tool) {
    sqlite3_bind_text(stmt, 1, p->topology, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, p->demand, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, settings, p->settings, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, settings + 1, (sqlite3_int64)p->seed);
    sqlite3_bind_double(stmt, settings + 2, p->size_bytes);
    sqlite3_bind_text(stmt, settings + 3, p->estimate ? "estimate" : "full", -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, tool, ccl_notebook_tool(), -1, SQLITE_STATIC);
}

ccl_status_t ccl_notebook_add(ccl_notebook_t *n, const ccl_point_t *point,
                              const ccl_point_result_t *r, const char *profile, ccl_error_t *err) {
    const double values[] = {r->time_s,  r->algbw_GBps, r->busbw_GBps,
                             r->bound_s, r->synth_s,    r->eval_s};
    const double uses[] = {r->comm_share, r->mean_idle_share, r->max_idle_share,
                           r->link_utilization};
    bool ran = r->status == CCL_OK;
    sqlite3_mutex *mutex = sqlite3_db_mutex(n->db);
    sqlite3_mutex_enter(mutex);
    bind_point(n->add, point, 4, 18);
    sqlite3_bind_text(n->add, 3, profile, -1, SQLITE_STATIC);
    sqlite3_bind_text(n->add, 8, ccl_status_name(r->status), -1, SQLITE_STATIC);
    sqlite3_bind_text(n->add, 9, ran ? NULL : r->why, -1, SQLITE_STATIC);
    for (int i = 0; i < (int)CCL_ARRAY_LEN(values); i++) {
        if (ran || i >= 3)
            sqlite3_bind_double(n->add, 10 + i, values[i]);
        else
            sqlite3_bind_null(n->add, 10 + i);
    }
    sqlite3_bind_int64(n->add, 16, r->thread_blocks);
    sqlite3_bind_int64(n->add, 17, r->batches);
    for (int i = 0; ran && i < (int)CCL_ARRAY_LEN(uses); i++)
        sqlite3_bind_double(n->add, 19 + i, uses[i]); /* NAN: NULL */
    if (r->origin[0])
        sqlite3_bind_text(n->add, 23, r->origin, -1, SQLITE_STATIC);
    ccl_status_t status =
        sqlite3_step(n->add) == SQLITE_DONE ? CCL_OK : ccl_i_notebook_failed(n, err);
    sqlite3_reset(n->add);
    sqlite3_clear_bindings(n->add);
    sqlite3_mutex_leave(mutex);
    return status;
}

/* A status by its name; a name of another version is no answer. */
static bool status_of(const char *name, ccl_status_t *out) {
#define ROW_(code_, exit_, text_)                                                                  \
    if (strcmp(name, #code_) == 0) {                                                               \
        *out = code_;                                                                              \
        return true;                                                                               \
    }
    CCL_STATUS_MAP(ROW_)
#undef ROW_
    return false;
}

static double number_at(sqlite3_stmt *stmt, int column) {
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? NAN
                                                            : sqlite3_column_double(stmt, column);
}

ccl_status_t ccl_notebook_find(ccl_notebook_t *n, const ccl_point_t *point, ccl_point_result_t *out,
                               bool *found_out, ccl_error_t *err) {
    sqlite3_mutex *mutex = sqlite3_db_mutex(n->db);
    ccl_status_t status = CCL_OK;
    *found_out = false;
    sqlite3_mutex_enter(mutex);
    bind_point(n->find, point, 3, 7);
    int rc = sqlite3_step(n->find);
    if (rc == SQLITE_ROW) {
        ccl_point_result_t r = {0};
        const char *name = (const char *)sqlite3_column_text(n->find, 0);
        const char *why = (const char *)sqlite3_column_text(n->find, 1);
        const char *origin = (const char *)sqlite3_column_text(n->find, 14);
        *found_out = name && status_of(name, &r.status);
        snprintf(r.why, sizeof r.why, "%s", why ? why : "");
        ccl_origin_set(r.origin, "%s", origin ? origin : "");
        r.time_s = sqlite3_column_double(n->find, 2);
        r.algbw_GBps = sqlite3_column_double(n->find, 3);
        r.busbw_GBps = sqlite3_column_double(n->find, 4);
        r.bound_s = sqlite3_column_double(n->find, 5);
        r.synth_s = sqlite3_column_double(n->find, 6);
        r.eval_s = sqlite3_column_double(n->find, 7);
        r.thread_blocks = (uint32_t)sqlite3_column_int64(n->find, 8);
        r.batches = (uint32_t)sqlite3_column_int64(n->find, 9);
        r.comm_share = number_at(n->find, 10);
        r.mean_idle_share = number_at(n->find, 11);
        r.max_idle_share = number_at(n->find, 12);
        r.link_utilization = number_at(n->find, 13);
        if (*found_out)
            *out = r;
    } else if (rc != SQLITE_DONE) {
        status = ccl_i_notebook_failed(n, err);
    }
    sqlite3_reset(n->find);
    sqlite3_clear_bindings(n->find);
    sqlite3_mutex_leave(mutex);
    return status;
}

ccl_status_t ccl_i_notebook_tell(const ccl_ctx_t *ctx, ccl_notebook_t *n,
                                 const ccl_content_t topology, const ccl_content_t demand,
                                 ccl_error_t *err) {
    sqlite3_stmt *stmt = NULL;
    if (!n || n->told)
        return CCL_OK;
    CCL_TRY(prepare(n,
                    "SELECT total(tool = ?3), count(*), max(tool) FROM point WHERE topology = ?1"
                    " AND demand = ?2",
                    &stmt, err));
    sqlite3_bind_text(stmt, 1, topology, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, demand, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, ccl_notebook_tool(), -1, SQLITE_STATIC);
    ccl_status_t status = sqlite3_step(stmt) == SQLITE_ROW ? CCL_OK : ccl_i_notebook_failed(n, err);
    if (status == CCL_OK && sqlite3_column_int(stmt, 0) == 0 && sqlite3_column_int(stmt, 1) > 0) {
        ccl_log(ctx, CCL_LOG_WARN, "notebook",
                "%s: %lld points of this cluster and collective are of another build (%s); this "
                "one, %s, does not use them (ccllab notebook gc drops them)",
                n->path, (long long)sqlite3_column_int64(stmt, 1), sqlite3_column_text(stmt, 2),
                ccl_notebook_tool());
        n->told = true;
    }
    sqlite3_finalize(stmt);
    return status;
}

ccl_status_t ccl_notebook_gc(ccl_notebook_t *notebook, bool all, uint64_t *points_out,
                             uint64_t *inputs_out, ccl_error_t *err) {
    ccl_status_t status;
    char drop[100];
    snprintf(drop, sizeof drop, "DELETE FROM point WHERE %d OR tool <> '%s'", all,
             ccl_notebook_tool());
    CCL_TRY(execute(notebook, "BEGIN IMMEDIATE", err));
    CCL_TRY_GOTO(execute(notebook, drop, err), status, end);
    *points_out = (uint64_t)sqlite3_changes(notebook->db);
    CCL_TRY_GOTO(execute(notebook,
                         "DELETE FROM input WHERE hash NOT IN (SELECT topology FROM point"
                         " UNION SELECT demand FROM point)",
                         err),
                 status, end);
    *inputs_out = (uint64_t)sqlite3_changes(notebook->db);
    CCL_TRY_GOTO(execute(notebook, "COMMIT", err), status, end);
    return execute(notebook, "VACUUM", err);
end:
    sqlite3_exec(notebook->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}
