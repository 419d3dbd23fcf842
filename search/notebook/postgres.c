/*
 * A notebook on a PostgreSQL server: the same tables, shared by any number of machines. A
 * connection that breaks, because the server is restarted, is made again and what was asked is
 * asked again: all that we write can be written twice.
 */
#include "search/notebook/store.h"

#include <dlfcn.h>
#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of pg_type.dat: types whose values are numbers, and bytes. */
enum {
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_FLOAT4 = 700,
    OID_FLOAT8 = 701,
    OID_NUMERIC = 1700
};

/* ---------------------------------------------------------------- libpq */

static const char libpq_file[] = "libpq.so.5";
/* Loaded with the first server: linked, it and what it needs (TLS, Kerberos, LDAP: 30 libraries)
 * took 4 of the 10 ms in which every command starts. */
/* clang-format off */
#define CALLS \
    CALL(cancel) CALL(clear) CALL(cmdTuples) CALL(connectdbParams) CALL(consumeInput) \
    CALL(describePrepared) CALL(errorMessage) CALL(exec) CALL(finish) CALL(fname) \
    CALL(freeCancel) CALL(freemem) CALL(ftype) CALL(getCancel) CALL(getResult) CALL(getisnull) \
    CALL(getvalue) CALL(isBusy) CALL(makeEmptyPGresult) CALL(nfields) CALL(nparams) \
    CALL(ntuples) CALL(prepare) CALL(reset) CALL(resultErrorField) CALL(resultStatus) \
    CALL(sendQueryPrepared) CALL(setNoticeReceiver) CALL(socket) CALL(status) \
    CALL(unescapeBytea)
/* clang-format on */

typedef struct libpq {
#define CALL(name) __typeof__(PQ##name) *name;
    CALLS
#undef CALL
} libpq_t;

static bool load(libpq_t *pq) {
    const struct {
        const char *name;
        void *at;
    } calls[] = {
#define CALL(name) {"PQ" #name, &pq->name},
        CALLS
#undef CALL
    };
    void *library = dlopen(libpq_file, RTLD_NOW | RTLD_LOCAL); /* it stays: TLS does not unload */
    if (!library)
        return false;
    for (size_t i = 0; i < CCL_ARRAY_LEN(calls); i++) {
        void *symbol = dlsym(library, calls[i].name);
        memcpy(calls[i].at, &symbol, sizeof symbol);
        if (!symbol)
            return false;
    }
    return true;
}

typedef struct server {
    libpq_t pq;
    PGconn *conn;
    bool within;  /* a transaction */
    bool again;   /* it is to be begun again */
    bool durable; /* commits wait for the server's disk */
} server_t;

static bool there(void) {
    libpq_t pq;
    return load(&pq);
}

/* ---------------------------------------------------------------- errors */

static ccl_status_t report(const ccl_notebook_t *n, const char *what, ccl_error_t *err) {
    return ccl_error_set(err, CCL_ERR_IO, n->path, 0, 0, "lab notebook: PostgreSQL: %.*s",
                         (int)strcspn(what, "\n"), what);
}

static bool is_class(const char *state, const char *class) {
    return state && strncmp(state, class, strlen(class)) == 0;
}

/* The server goes down, has gone, or has ended a session that stood still. */
static bool lost(const server_t *s, const PGresult *r) {
    const char *state = s->pq.resultErrorField(r, PG_DIAG_SQLSTATE);
    return s->pq.status(s->conn) == CONNECTION_BAD || is_class(state, "57P0") ||
           is_class(state, "08") || is_class(state, "25P03");
}

static ccl_status_t failed(const ccl_notebook_t *n, const ccl_i_question_t *q, const PGresult *r,
                           ccl_error_t *err) {
    server_t *s = n->db;
    const char *state = s->pq.resultErrorField(r, PG_DIAG_SQLSTATE),
               *what = s->pq.resultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    if (is_class(state, "40")) /* a deadlock; writers that came in between */
        s->again = s->within;
    if (!r || is_class(state, "53200"))
        return ccl_fail_nomem(err);
    if (q->ctx && is_class(state, "57014"))
        return ccl_fail(err, CCL_INTERRUPTED, "interrupted");
    if (q->ctx && is_class(state, "25006"))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "query: the statement does not read; a SELECT is wanted");
    if (q->ctx && state && !is_class(state, "08") && !is_class(state, "5"))
        return ccl_fail(err, CCL_ERR_INPUT, "query: %.500s", what ? what : "refused");
    if (is_class(state, "55P03"))
        return ccl_error_set(err, CCL_ERR_IO, n->path, 0, 0,
                             "lab notebook: another program has locked it for %d s",
                             CCL_I_BUSY_MS / 1000);
    return report(n, what ? what : s->pq.errorMessage(s->conn), err);
}

/* ---------------------------------------------------------------- the connection */

static void silent(void *user, const PGresult *notice) {
    (void)user;
    (void)notice;
}

/* How we want its sessions. */
static ccl_status_t set_up(ccl_notebook_t *n, ccl_error_t *err) {
    server_t *s = n->db;
    n->nprepared = 0;
    s->within = false;
    s->durable = true;
    s->pq.setNoticeReceiver(s->conn, silent, NULL);
    /* A stopped process must not keep its locks, or the others fail by lock_timeout. */
    PGresult *r = s->pq.exec(s->conn, "SET client_min_messages = error; SET lock_timeout = '30s';"
                                      "SET idle_in_transaction_session_timeout = '5s';"
                                      "SET extra_float_digits = 1; SET bytea_output = hex");
    ccl_status_t status = s->pq.resultStatus(r) == PGRES_COMMAND_OK
                              ? CCL_OK
                              : report(n, s->pq.errorMessage(s->conn), err);
    s->pq.clear(r);
    return status;
}

static void nap(void) {
    nanosleep(&(struct timespec){0, 100000000}, NULL);
}

/* Until the server is there again. */
static ccl_status_t reconnect(ccl_notebook_t *n, ccl_error_t *err) {
    server_t *s = n->db;
    double end_s = ccl_now_s() + CCL_I_BUSY_MS / 1000.0;
    for (;;) {
        s->pq.reset(s->conn);
        if (s->pq.status(s->conn) == CONNECTION_OK && set_up(n, NULL) == CCL_OK)
            return CCL_OK;
        if (n->cancel && *n->cancel)
            return ccl_fail(err, CCL_INTERRUPTED, "interrupted");
        if (ccl_now_s() > end_s)
            return report(n, s->pq.errorMessage(s->conn), err);
        nap();
    }
}

/* The URL as it may be shown: without a password. */
static void name_of(const char *url, char *out, size_t out_len) {
    const char *host = strstr(url, "://"), *at, *colon, *query = strchr(url, '?');
    host = host ? host + 3 : url;
    size_t reach = strcspn(host, "/?");
    at = memchr(host, '@', reach);
    colon = at ? memchr(host, ':', (size_t)(at - host)) : NULL;
    if (colon)
        snprintf(out, out_len, "%.*s%.*s", (int)(colon - url), url,
                 (int)((query ? query : url + strlen(url)) - at), at);
    else
        snprintf(out, out_len, "%.*s", (int)(query ? query - url : (long)strlen(url)), url);
}

static ccl_status_t open_server(ccl_notebook_t *n, const char *url, bool write, ccl_error_t *err) {
    /* What stands in the URL counts more, but for the encoding. */
    const char *const keys[] = {"connect_timeout",
                                "keepalives_idle",
                                "tcp_user_timeout",
                                "fallback_application_name",
                                "dbname",
                                "client_encoding",
                                NULL};
    const char *const values[] = {"10", "30", "60000", "ccllab", url, "UTF8", NULL};
    server_t *s = calloc(1, sizeof *s);
    (void)write;
    if (!s)
        return ccl_fail_nomem(err);
    n->db = s;
    if (!load(&s->pq))
        return ccl_fail(err, CCL_ERR_MISSING,
                        "a lab notebook on a server needs PostgreSQL's client library, %s",
                        libpq_file);
    name_of(url, n->path, sizeof n->path);
    s->conn = s->pq.connectdbParams(keys, values, 1);
    if (!s->conn)
        return ccl_fail_nomem(err);
    if (s->pq.status(s->conn) != CONNECTION_OK)
        return report(n, s->pq.errorMessage(s->conn), err);
    return set_up(n, err);
}

static void close_server(ccl_notebook_t *n) {
    server_t *s = n->db;
    if (s && s->conn)
        s->pq.finish(s->conn);
    free(s);
}

/* ---------------------------------------------------------------- questions */

/* A command of ours without rows. */
static bool command(server_t *s, const char *sql) {
    PGresult *r = s->pq.exec(s->conn, sql);
    bool done = s->pq.resultStatus(r) == PGRES_COMMAND_OK;
    s->pq.clear(r);
    return done;
}

/* The answer to what was sent, unless the context ends first. */
static PGresult *await(server_t *s, const ccl_ctx_t *ctx) {
    PGresult *last = NULL, *r;
    bool asked = false;
    while (ctx && !asked && s->pq.isBusy(s->conn)) {
        struct pollfd fd = {.fd = s->pq.socket(s->conn), .events = POLLIN};
        if (poll(&fd, 1, 50) < 0 && errno != EINTR)
            break;
        if (ccl_ctx_poll(ctx, NULL) != CCL_OK) {
            char why[256];
            PGcancel *cancel = s->pq.getCancel(s->conn);
            asked = !cancel || s->pq.cancel(cancel, why, sizeof why);
            s->pq.freeCancel(cancel);
        }
        if (!s->pq.consumeInput(s->conn))
            break;
    }
    while ((r = s->pq.getResult(s->conn))) {
        s->pq.clear(last);
        last = r;
        if (s->pq.status(s->conn) == CONNECTION_BAD)
            break;
    }
    return last;
}

/* @param name  of the prepared statement; *known: the server has it. */
static PGresult *prepare(ccl_notebook_t *n, const ccl_i_question_t *q, char name[24]) {
    server_t *s = n->db;
    uint32_t i = 0;
    while (!q->once && i < n->nprepared && n->prepared[i].sql != q->sql)
        i++;
    snprintf(name, 24, q->once ? "" : "s%u", i);
    if (!q->once && i < n->nprepared)
        return NULL;
    char *sql = ccl_i_sql(n->ops, q->sql, !q->ctx);
    PGresult *r = sql ? s->pq.prepare(s->conn, name, sql, 0, NULL)
                      : s->pq.makeEmptyPGresult(NULL, PGRES_FATAL_ERROR);
    free(sql);
    if (s->pq.resultStatus(r) != PGRES_COMMAND_OK)
        return r;
    s->pq.clear(r);
    if (!q->once && n->nprepared < CCL_ARRAY_LEN(n->prepared))
        n->prepared[n->nprepared++].sql = q->sql;
    return NULL;
}

/* What it says has columns: it reads. */
static ccl_status_t users_statement(server_t *s, const ccl_i_question_t *q, ccl_error_t *err) {
    PGresult *r = s->pq.describePrepared(s->conn, "");
    int columns = s->pq.nfields(r), parameters = s->pq.nparams(r);
    s->pq.clear(r);
    if (!q->sql[strspn(q->sql, " \t\r\n;")])
        return ccl_fail(err, CCL_ERR_INPUT, "query: nothing is asked; a SELECT is wanted");
    if (columns == 0)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "query: the statement does not read; a SELECT is wanted");
    if (parameters != (int)q->nargs)
        return ccl_fail(err, CCL_ERR_INPUT, "query: %d parameters without a value", parameters);
    return CCL_OK;
}

enum { MOST_ARGS = 32 };

static PGresult *execute(server_t *s, const ccl_i_question_t *q, const char *name) {
    const char *values[MOST_ARGS];
    char numbers[MOST_ARGS][40];
    int lengths[MOST_ARGS] = {0}, formats[MOST_ARGS] = {0};
    for (uint32_t i = 0; i < q->nargs && i < MOST_ARGS; i++) {
        const ccl_i_sql_value_t *v = &q->args[i];
        values[i] = v->type == CCL_I_TEXT || v->type == CCL_I_BLOB ? v->text : numbers[i];
        if (v->type == CCL_I_INT)
            snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)v->number);
        else if (v->type == CCL_I_REAL)
            snprintf(numbers[i], sizeof numbers[i], "%.17g", v->real);
        else if (v->type == CCL_I_NULL)
            values[i] = NULL;
        formats[i] = v->type == CCL_I_BLOB;
        lengths[i] = (int)v->len;
    }
    if (!s->pq.sendQueryPrepared(s->conn, name, (int)q->nargs, values, lengths, formats, 0))
        return s->pq.makeEmptyPGresult(s->conn, PGRES_FATAL_ERROR);
    return await(s, q->ctx);
}

/* The server writes names in small letters. */
static const char *name_at(const libpq_t *pq, const PGresult *r, int column) {
    static const char *const ours[] = {"algbw_GBps", "busbw_GBps", "best_busbw_GBps"};
    const char *name = pq->fname(r, column);
    for (size_t i = 0; i < CCL_ARRAY_LEN(ours); i++)
        if (strcasecmp(name, ours[i]) == 0)
            return ours[i];
    return name;
}

static ccl_status_t take_cell(const libpq_t *pq, const PGresult *r, int row, int column,
                              ccl_notebook_rows_t *rows, ccl_error_t *err) {
    const char *text = pq->getisnull(r, row, column) ? NULL : pq->getvalue(r, row, column);
    Oid type = pq->ftype(r, column);
    char exact[40];
    if (text && type == OID_BYTEA) {
        size_t len = 0;
        unsigned char *bytes = pq->unescapeBytea((const unsigned char *)text, &len);
        char *ended = bytes ? strndup((const char *)bytes, len) : NULL; /* libpq does not end it */
        ccl_status_t status =
            ended ? ccl_i_rows_cell(rows, ended, false, err) : ccl_fail_nomem(err);
        free(ended);
        pq->freemem(bytes);
        return status;
    }
    if (text && (type == OID_FLOAT8 || type == OID_FLOAT4)) /* as everywhere */
        text = ccl_i_exact(strtod(text, NULL), exact);
    return ccl_i_rows_cell(rows, text,
                           type == OID_INT8 || type == OID_INT4 || type == OID_INT2 ||
                               type == OID_FLOAT4 || type == OID_FLOAT8 || type == OID_NUMERIC,
                           err);
}

static ccl_status_t take_rows(const libpq_t *pq, const PGresult *r, ccl_notebook_rows_t *rows,
                              ccl_error_t *err) {
    int nrows = pq->ntuples(r);
    rows->ncolumns = (uint32_t)pq->nfields(r);
    rows->columns = ccl_arena_alloc(&rows->arena, rows->ncolumns + 1u, sizeof *rows->columns);
    if (!rows->columns)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < rows->ncolumns; c++)
        CCL_TRY(ccl_i_rows_column(rows, c, name_at(pq, r, (int)c), err));
    for (int i = 0; i < nrows; i++)
        for (int c = 0; c < (int)rows->ncolumns; c++)
            CCL_TRY(take_cell(pq, r, i, c, rows, err));
    return CCL_OK;
}

/* Once. *r_out: the answer, of whatever kind; NULL with an error that is reported. */
static ccl_status_t try_once(ccl_notebook_t *n, const ccl_i_question_t *q, PGresult **r_out,
                             ccl_error_t *err) {
    server_t *s = n->db;
    char name[24];
    if (!s->within && !q->ctx && s->durable == q->lazy &&
        command(s, q->lazy ? "SET synchronous_commit = off" : "RESET synchronous_commit"))
        s->durable = !q->lazy;
    if (q->ctx)
        (void)command(s, "BEGIN READ ONLY");
    *r_out = prepare(n, q, name);
    if (*r_out)
        return CCL_OK;
    if (q->ctx)
        CCL_TRY(users_statement(s, q, err));
    *r_out = execute(s, q, name);
    return CCL_OK;
}

static ccl_status_t ask(ccl_notebook_t *n, const ccl_i_question_t *q, ccl_notebook_rows_t *rows,
                        int64_t *changes_out, ccl_error_t *err) {
    server_t *s = n->db;
    PGresult *r = NULL;
    ccl_status_t status;
    bool begins = strcmp(q->sql, "BEGIN") == 0,
         ends = strcmp(q->sql, "COMMIT") == 0 || strcmp(q->sql, "ROLLBACK") == 0;
    if (begins)
        s->again = false;
    for (;;) {
        status = try_once(n, q, &r, err);
        if (status != CCL_OK || !lost(s, r))
            break;
        bool within = s->within;
        s->pq.clear(r);
        CCL_TRY(reconnect(n, err));
        s->again = within;
        if (within) /* what it had done is gone */
            return report(n, "the connection was lost", err);
    }
    if (status == CCL_OK && s->pq.resultStatus(r) != PGRES_COMMAND_OK &&
        s->pq.resultStatus(r) != PGRES_TUPLES_OK)
        status = failed(n, q, r, err);
    if (status == CCL_OK && rows)
        status = take_rows(&s->pq, r, rows, err);
    if (status == CCL_OK && changes_out)
        *changes_out = strtoll(s->pq.cmdTuples(r), NULL, 10);
    if (q->ctx)
        (void)command(s, "ROLLBACK");
    s->within = (s->within || (begins && status == CCL_OK)) && !ends;
    s->pq.clear(r);
    return status;
}

static bool again(ccl_notebook_t *n) {
    server_t *s = n->db;
    bool was = s->again;
    s->again = false;
    if (was && s->within) {
        (void)command(s, "ROLLBACK");
        s->within = false;
    }
    return was;
}

/* ---------------------------------------------------------------- whose tables are there? */

static ccl_status_t identify(ccl_notebook_t *n, int64_t *version_out, ccl_error_t *err) {
    static const char sql[] =
        "SELECT sum(CASE WHEN relname = 'notebook' THEN 1 ELSE 0 END), count(*) FROM pg_class"
        " WHERE pg_table_is_visible(oid) AND relname IN"
        " ('notebook', 'input', 'point', 'run', 'member', 'task', 'item')";
    ccl_notebook_rows_t rows = {0}, version = {0};
    ccl_status_t status = ask(n, &(ccl_i_question_t){.sql = sql}, &rows, NULL, err);
    int64_t ours = status == CCL_OK ? ccl_i_row_int(&rows, 0, 0) : 0,
            all = status == CCL_OK ? ccl_i_row_int(&rows, 0, 1) : 0;
    if (status == CCL_OK && ours)
        status = ask(n, &(ccl_i_question_t){.sql = "SELECT ccllab_version FROM notebook"}, &version,
                     NULL, err);
    *version_out =
        status == CCL_OK && ours ? version.nrows ? ccl_i_row_int(&version, 0, 0) : -1 : 0;
    ccl_i_rows_fini(&rows);
    ccl_i_rows_fini(&version);
    CCL_TRY(status);
    if (all && !ours)
        return ccl_error_set(err, CCL_ERR_INPUT, n->path, 0, 0,
                             "a database of another program, not a lab notebook: it has tables of "
                             "our names; one of its own is wanted (createdb)");
    return CCL_OK;
}

static ccl_status_t set_version(ccl_notebook_t *n, bool fresh, int64_t version, ccl_error_t *err) {
    const ccl_i_sql_value_t arg = ccl_i_sql_int(version);
    if (fresh)
        CCL_TRY(ask(
            n, &(ccl_i_question_t){.sql = "CREATE TABLE notebook (ccllab_version BIGINT NOT NULL)"},
            NULL, NULL, err));
    return ask(n,
               &(ccl_i_question_t){.sql = fresh ? "INSERT INTO notebook VALUES (?1)"
                                                : "UPDATE notebook SET ccllab_version = ?1",
                                   .args = &arg,
                                   .nargs = 1},
               NULL, NULL, err);
}

const ccl_i_backend_t ccl_i_backend_postgres = {
    .there = there,
    .words = {{"now", "extract(epoch FROM clock_timestamp())::float8"},
              {"at", "to_char(clock_timestamp() AT TIME ZONE 'UTC',"
                     " 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"},
              {"id", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"},
              {"text", "TEXT COLLATE \"C\""},
              {"blob", "BYTEA"},
              {"lean", ""},
              {"skip", " FOR UPDATE SKIP LOCKED"}},
    .mark = '$',
    .begin = "BEGIN",
    .exclusive = "SELECT pg_advisory_xact_lock(1667460206)",
    .open = open_server,
    .close = close_server,
    .identify = identify,
    .set_version = set_version,
    .ask = ask,
    .again = again,
};
