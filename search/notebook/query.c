/* Questions to the lab notebook in SQL, and their rows as text. */
#include "search/notebook/notebook_i.h"

#include <stdlib.h>
#include <string.h>

enum { POLL_STEPS = 10000 };

typedef struct gather {
    ccl_notebook_rows_t *rows;
    size_t cells_cap, number_cap;
    const char **cells;
    bool *number;
} gather_t;

static ccl_status_t take_row(gather_t *g, sqlite3_stmt *stmt, ccl_error_t *err) {
    uint32_t n = g->rows->ncolumns;
    size_t at = (size_t)g->rows->nrows * n;
    if (g->rows->nrows == UINT32_MAX ||
        !ccl_grow(&g->cells, &g->cells_cap, at + n, sizeof *g->cells) ||
        !ccl_grow(&g->number, &g->number_cap, at + n, sizeof *g->number))
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < n; c++) {
        int type = sqlite3_column_type(stmt, (int)c);
        char exact[40];
        const char *text = NULL;
        g->number[at + c] = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
        g->cells[at + c] = NULL;
        if (type == SQLITE_NULL)
            continue;
        if (type == SQLITE_FLOAT) { /* SQLite's own text has 15 digits only */
            double value = sqlite3_column_double(stmt, (int)c);
            for (int digits = 15; digits <= 17; digits++) {
                snprintf(exact, sizeof exact, "%.*g", digits, value);
                if (strtod(exact, NULL) == value)
                    break;
            }
            text = exact;
        } else {
            text = (const char *)sqlite3_column_text(stmt, (int)c);
        }
        g->cells[at + c] = text ? ccl_arena_strdup(&g->rows->arena, text) : NULL;
        if (!g->cells[at + c])
            return ccl_fail_nomem(err);
    }
    g->rows->nrows++;
    return CCL_OK;
}

static ccl_status_t take_columns(ccl_notebook_rows_t *rows, sqlite3_stmt *stmt, ccl_error_t *err) {
    rows->ncolumns = (uint32_t)sqlite3_column_count(stmt);
    rows->columns = ccl_arena_alloc(&rows->arena, rows->ncolumns + 1u, sizeof *rows->columns);
    if (!rows->columns)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < rows->ncolumns; c++) {
        const char *name = sqlite3_column_name(stmt, (int)c);
        rows->columns[c] = name ? ccl_arena_strdup(&rows->arena, name) : NULL;
        if (!rows->columns[c])
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

static int stop(void *user) {
    return ccl_ctx_poll(user, NULL) != CCL_OK;
}

static ccl_status_t prepare_query(ccl_notebook_t *n, const char *sql, uint32_t nargs,
                                  sqlite3_stmt **out, ccl_error_t *err) {
    const char *rest = NULL;
    if (sqlite3_prepare_v2(n->db, sql, -1, out, &rest) != SQLITE_OK)
        return ccl_fail(err, CCL_ERR_INPUT, "query: %.500s", sqlite3_errmsg(n->db));
    if (!*out)
        return ccl_fail(err, CCL_ERR_INPUT, "query: nothing is asked; a SELECT is wanted");
    if (rest[strspn(rest, " \t\r\n;")])
        return ccl_fail(err, CCL_ERR_INPUT,
                        "query: one statement at a time; more stands at "
                        "\"%.60s\"",
                        rest + strspn(rest, " \t\r\n;"));
    if (!sqlite3_stmt_readonly(*out) || sqlite3_column_count(*out) == 0)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "query: the statement does not read; a SELECT is "
                        "wanted");
    if (sqlite3_bind_parameter_count(*out) != (int)nargs)
        return ccl_fail(err, CCL_ERR_INPUT, "query: %d parameters without a value",
                        sqlite3_bind_parameter_count(*out));
    return CCL_OK;
}

ccl_status_t ccl_notebook_query(const ccl_ctx_t *ctx, ccl_notebook_t *notebook, const char *sql,
                                const char *const *args, uint32_t nargs, ccl_notebook_rows_t **out,
                                ccl_error_t *err) {
    gather_t g = {0};
    ccl_ctx_t quiet = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    sqlite3_stmt *stmt = NULL;
    ccl_status_t status = CCL_OK;
    int rc = SQLITE_ROW;
    quiet.progress = NULL;
    g.rows = calloc(1, sizeof *g.rows);
    if (!g.rows)
        return ccl_fail_nomem(err);
    ccl_arena_init(&g.rows->arena);
    sqlite3_progress_handler(notebook->db, POLL_STEPS, stop, &quiet);
    CCL_TRY_GOTO(prepare_query(notebook, sql, nargs, &stmt, err), status, end);
    for (uint32_t i = 0; i < nargs; i++)
        sqlite3_bind_text(stmt, (int)i + 1, args[i], -1, SQLITE_STATIC);
    CCL_TRY_GOTO(take_columns(g.rows, stmt, err), status, end);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        CCL_TRY_GOTO(take_row(&g, stmt, err), status, end);
    if (rc == SQLITE_ERROR || rc == SQLITE_TOOBIG || rc == SQLITE_MISMATCH || rc == SQLITE_RANGE)
        status = ccl_fail(err, CCL_ERR_INPUT, "query: %.500s", sqlite3_errmsg(notebook->db));
    else if (rc != SQLITE_DONE)
        status = ccl_i_notebook_failed(notebook, err);
end:
    sqlite3_finalize(stmt);
    sqlite3_progress_handler(notebook->db, 0, NULL, NULL);
    g.rows->cells = g.cells;
    g.rows->number = g.number;
    if (status == CCL_OK)
        *out = g.rows;
    else
        ccl_notebook_rows_destroy(g.rows);
    return status;
}

void ccl_notebook_rows_destroy(ccl_notebook_rows_t *rows) {
    if (!rows)
        return;
    free(rows->cells);
    free(rows->number);
    ccl_arena_fini(&rows->arena);
    free(rows);
}
