/*
 * A notebook in one SQLite file in WAL mode: a point is one row, written by one statement, so it is
 * there or it is not, whoever is killed when.
 */
#include "search/notebook/store.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { APPLICATION = 0x63636c6e /* "ccln" */, POLL_STEPS = 10000 };

/* What the operating system said of it: it may lack memory where SQLite does not (maps of a file).
 */
static ccl_status_t no_file(const ccl_notebook_t *n, const char *what, ccl_error_t *err) {
    int number = sqlite3_system_errno(n->db);
    if (number == ENOMEM)
        return ccl_fail_nomem(err);
    return ccl_error_set(err, CCL_ERR_IO, n->path, 0, 0, "lab notebook: %s%s%s",
                         what ? what : sqlite3_errmsg(n->db), number ? ": " : "",
                         number ? strerror(number) : "");
}

/* What SQLite said of the last thing that it could not do. */
static ccl_status_t failed(const ccl_notebook_t *n, ccl_error_t *err) {
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
                             CCL_I_BUSY_MS / 1000);
    case SQLITE_READONLY:
        return no_file(n,
                       "it or its folder is not to be written, which SQLite needs to read it, "
                       "too; a copy elsewhere will do",
                       err);
    default:
        return no_file(n, NULL, err);
    }
}

/* ---------------------------------------------------------------- questions */

static int stop(void *user) {
    return ccl_ctx_poll(user, NULL) != CCL_OK;
}

static ccl_status_t users_statement(sqlite3_stmt *stmt, const char *rest, uint32_t nargs,
                                    ccl_error_t *err) {
    if (!stmt)
        return ccl_fail(err, CCL_ERR_INPUT, "query: nothing is asked; a SELECT is wanted");
    if (rest[strspn(rest, " \t\r\n;")])
        return ccl_fail(err, CCL_ERR_INPUT,
                        "query: one statement at a time; more stands at "
                        "\"%.60s\"",
                        rest + strspn(rest, " \t\r\n;"));
    if (!sqlite3_stmt_readonly(stmt) || sqlite3_column_count(stmt) == 0)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "query: the statement does not read; a SELECT is "
                        "wanted");
    if (sqlite3_bind_parameter_count(stmt) != (int)nargs)
        return ccl_fail(err, CCL_ERR_INPUT, "query: %d parameters without a value",
                        sqlite3_bind_parameter_count(stmt));
    return CCL_OK;
}

static ccl_status_t prepare(ccl_notebook_t *n, const ccl_i_question_t *q, sqlite3_stmt **out,
                            ccl_error_t *err) {
    const char *rest = NULL;
    for (uint32_t i = 0; !q->once && i < n->nprepared; i++)
        if (n->prepared[i].sql == q->sql) {
            *out = n->prepared[i].stmt;
            return CCL_OK;
        }
    char *sql = ccl_i_sql(n->ops, q->sql, !q->ctx);
    if (!sql)
        return ccl_fail_nomem(err);
    int rc = sqlite3_prepare_v2(n->db, sql, -1, out, &rest);
    ccl_status_t status = CCL_OK;
    if (rc != SQLITE_OK && q->ctx && rc == SQLITE_ERROR)
        status = ccl_fail(err, CCL_ERR_INPUT, "query: %.500s", sqlite3_errmsg(n->db));
    else if (rc != SQLITE_OK)
        status = failed(n, err);
    else if (q->ctx)
        status = users_statement(*out, rest, q->nargs, err);
    free(sql);
    if (status == CCL_OK && !q->once && n->nprepared < CCL_ARRAY_LEN(n->prepared))
        n->prepared[n->nprepared++] = (ccl_i_prepared_t){q->sql, *out};
    return status;
}

static void bind(sqlite3_stmt *stmt, const ccl_i_question_t *q) {
    for (uint32_t i = 0; i < q->nargs; i++) {
        const ccl_i_sql_value_t *v = &q->args[i];
        int at = (int)i + 1;
        if (v->type == CCL_I_INT)
            sqlite3_bind_int64(stmt, at, v->number);
        else if (v->type == CCL_I_REAL)
            sqlite3_bind_double(stmt, at, v->real);
        else if (v->type == CCL_I_TEXT)
            sqlite3_bind_text(stmt, at, v->text, -1, SQLITE_STATIC);
        else if (v->type == CCL_I_BLOB)
            sqlite3_bind_blob64(stmt, at, v->text, v->len, SQLITE_STATIC);
        else
            sqlite3_bind_null(stmt, at);
    }
}

static ccl_status_t take_columns(ccl_notebook_rows_t *rows, sqlite3_stmt *stmt, ccl_error_t *err) {
    rows->ncolumns = (uint32_t)sqlite3_column_count(stmt);
    rows->columns = ccl_arena_alloc(&rows->arena, rows->ncolumns + 1u, sizeof *rows->columns);
    if (!rows->columns)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < rows->ncolumns; c++)
        CCL_TRY(ccl_i_rows_column(rows, c, sqlite3_column_name(stmt, (int)c), err));
    return CCL_OK;
}

static ccl_status_t take_row(ccl_notebook_rows_t *rows, sqlite3_stmt *stmt, ccl_error_t *err) {
    for (int c = 0; c < (int)rows->ncolumns; c++) {
        int type = sqlite3_column_type(stmt, c);
        char exact[40];
        const char *text = NULL;
        if (type == SQLITE_FLOAT) /* SQLite's own text has 15 digits only */
            text = ccl_i_exact(sqlite3_column_double(stmt, c), exact);
        else if (type != SQLITE_NULL && !(text = (const char *)sqlite3_column_text(stmt, c)))
            return ccl_fail_nomem(err);
        CCL_TRY(ccl_i_rows_cell(rows, text, type == SQLITE_INTEGER || type == SQLITE_FLOAT, err));
    }
    return CCL_OK;
}

static ccl_status_t ask(ccl_notebook_t *n, const ccl_i_question_t *q, ccl_notebook_rows_t *rows,
                        int64_t *changes_out, ccl_error_t *err) {
    sqlite3_stmt *stmt = NULL;
    ccl_status_t status = CCL_OK;
    int rc = SQLITE_ROW;
    if (q->ctx)
        sqlite3_progress_handler(n->db, POLL_STEPS, stop, (void *)q->ctx);
    CCL_TRY_GOTO(prepare(n, q, &stmt, err), status, end);
    bind(stmt, q);
    if (rows)
        CCL_TRY_GOTO(take_columns(rows, stmt, err), status, end);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        if (rows)
            CCL_TRY_GOTO(take_row(rows, stmt, err), status, end);
    if (q->ctx &&
        (rc == SQLITE_ERROR || rc == SQLITE_TOOBIG || rc == SQLITE_MISMATCH || rc == SQLITE_RANGE))
        status = ccl_fail(err, CCL_ERR_INPUT, "query: %.500s", sqlite3_errmsg(n->db));
    else if (rc != SQLITE_DONE)
        status = failed(n, err);
    if (changes_out)
        *changes_out = sqlite3_changes64(n->db);
end:
    if (q->once) {
        sqlite3_finalize(stmt);
    } else {
        sqlite3_reset(stmt);
        sqlite3_clear_bindings(stmt);
    }
    if (q->ctx)
        sqlite3_progress_handler(n->db, 0, NULL, NULL);
    return status;
}

/* ---------------------------------------------------------------- the file */

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

static ccl_status_t open_file(ccl_notebook_t *n, const char *path, bool write, ccl_error_t *err) {
    sqlite3 *db = NULL;
    /* "" and ":memory:" would be databases that SQLite soon forgets. */
    int len = snprintf(n->path, sizeof n->path, "%s%s", path[0] == ':' ? "./" : "", path);
    if (len <= 0 || (size_t)len >= sizeof n->path)
        return ccl_fail(err, CCL_ERR_USAGE, "the path of the lab notebook is %s",
                        len > 0 ? "too long" : "empty");
    if (write)
        CCL_TRY(make_folders(path, err));
    else if (access(path, F_OK) != 0)
        return ccl_error_set(err, CCL_ERR_IO, path, 0, 0,
                             errno == ENOENT ? "there is no lab notebook (ccllab tune begins one)"
                                             : "cannot be read");
    /* Also to read: a WAL that a killed process left is to be taken in. */
    int flags = SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_READWRITE | (write ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(n->path, &db, flags, NULL);
    n->db = db;
    if (rc != SQLITE_OK)
        return db ? failed(n, err) : ccl_fail_nomem(err);
    sqlite3_busy_timeout(db, CCL_I_BUSY_MS);
    /* In WAL mode a killed process loses nothing that was committed; a power cut may lose the last
       points, not the file. */
    if (sqlite3_exec(db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL) != SQLITE_OK)
        return failed(n, err);
    return CCL_OK;
}

static void close_file(ccl_notebook_t *n) {
    for (uint32_t i = 0; i < n->nprepared; i++)
        sqlite3_finalize(n->prepared[i].stmt);
    sqlite3_close(n->db);
}

/* Whose file is it? In one read: another process may be making it between two questions. */
static ccl_status_t identify(ccl_notebook_t *n, int64_t *version_out, ccl_error_t *err) {
    static const char sql[] = "SELECT (SELECT application_id FROM pragma_application_id),"
                              " (SELECT user_version FROM pragma_user_version),"
                              " (SELECT count(*) FROM sqlite_master)";
    ccl_notebook_rows_t rows = {0};
    ccl_status_t status = ask(n, &(ccl_i_question_t){.sql = sql}, &rows, NULL, err);
    int64_t application = 0, tables = 0;
    if (status == CCL_OK) {
        application = ccl_i_row_int(&rows, 0, 0);
        *version_out = ccl_i_row_int(&rows, 0, 1);
        tables = ccl_i_row_int(&rows, 0, 2);
    }
    ccl_i_rows_fini(&rows);
    CCL_TRY(status);
    if (application != APPLICATION && (application || *version_out || tables))
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "a database of another program, not a lab notebook");
    if (application == APPLICATION && *version_out == 0)
        *version_out = -1; /* no version of ours */
    return CCL_OK;
}

/* While another process changes the mode, SQLite's own waiting does not apply. */
static ccl_status_t found(ccl_notebook_t *n, ccl_error_t *err) {
    int rc = SQLITE_BUSY;
    for (int waited_ms = 0; rc == SQLITE_BUSY && waited_ms < CCL_I_BUSY_MS; waited_ms += 10) {
        rc = sqlite3_exec(n->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if (rc == SQLITE_BUSY)
            sqlite3_sleep(10);
    }
    return rc == SQLITE_OK ? CCL_OK : failed(n, err);
}

static ccl_status_t set_version(ccl_notebook_t *n, bool fresh, int64_t version, ccl_error_t *err) {
    char marks[100];
    (void)fresh;
    snprintf(marks, sizeof marks, "PRAGMA application_id = %d; PRAGMA user_version = %lld",
             APPLICATION, (long long)version);
    return sqlite3_exec(n->db, marks, NULL, NULL, NULL) == SQLITE_OK ? CCL_OK : failed(n, err);
}

static bool again(ccl_notebook_t *n) {
    (void)n;
    return false; /* writers wait in BEGIN IMMEDIATE */
}

const ccl_i_backend_t ccl_i_backend_sqlite = {
    .words = {{"now", "((julianday('now') - 2440587.5) * 86400)"},
              {"at", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"},
              {"id", "INTEGER PRIMARY KEY"},
              {"text", "TEXT"},
              {"blob", "BLOB"},
              {"lean", " WITHOUT ROWID"},
              {"skip", ""},
              {"", ""}},
    .mark = '?',
    .begin = "BEGIN IMMEDIATE",
    .open = open_file,
    .close = close_file,
    .identify = identify,
    .found = found,
    .set_version = set_version,
    .ask = ask,
    .again = again,
    .tidy = "VACUUM",
};
