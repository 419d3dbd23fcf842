/* What both kinds of notebook share: words of SQL, transactions, rows. */
#include "search/notebook/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ccl_i_sql_value_t ccl_i_sql_int(int64_t number) {
    return (ccl_i_sql_value_t){.type = CCL_I_INT, .number = number};
}

ccl_i_sql_value_t ccl_i_sql_real(double real) {
    return (ccl_i_sql_value_t){.type = isnan(real) ? CCL_I_NULL : CCL_I_REAL, .real = real};
}

ccl_i_sql_value_t ccl_i_sql_text(const char *text) {
    return (ccl_i_sql_value_t){.type = text ? CCL_I_TEXT : CCL_I_NULL, .text = text};
}

/* ---------------------------------------------------------------- SQL */

/* The end of what quotes or a comment keep as it is. */
static const char *skip(const char *p) {
    const char *end = NULL;
    if (*p == '\'' || *p == '"')
        end = strchr(p + 1, *p);
    else if (p[0] == '-' && p[1] == '-')
        end = strchr(p, '\n');
    else
        return p;
    return end ? end + 1 : p + strlen(p);
}

static const char *word_at(const ccl_i_backend_t *ops, const char *p, size_t *len_out) {
    for (size_t i = 0; *p == '{' && i < CCL_ARRAY_LEN(ops->words); i++) {
        size_t len = ops->words[i].word ? strlen(ops->words[i].word) : 0;
        *len_out = len + 2;
        if (len && strncmp(p + 1, ops->words[i].word, len) == 0 && p[len + 1] == '}')
            return ops->words[i].text;
    }
    return NULL;
}

char *ccl_i_sql(const ccl_i_backend_t *ops, const char *sql, bool ours) {
    ccl_text_t out = {0};
    size_t len = 0;
    ccl_text_add(&out, "", 0);
    for (const char *p = sql; *p; p += len) {
        const char *word = ours ? word_at(ops, p, &len) : NULL;
        if (word) {
            ccl_text_printf(&out, "%s", word);
            continue;
        }
        len = ours ? 0 : (size_t)(skip(p) - p);
        bool parameter = len == 0 && p[0] == '?' && p[1] >= '1' && p[1] <= '9';
        len = len ? len : 1;
        ccl_text_add(&out, parameter ? &ops->mark : p, len);
    }
    if (!out.nomem)
        return out.data;
    ccl_text_fini(&out);
    return NULL;
}

ccl_status_t ccl_i_ask(ccl_notebook_t *n, const ccl_i_question_t *q, ccl_notebook_rows_t *rows,
                       int64_t *changes_out, ccl_error_t *err) {
    ccl_lock_take(n->lock);
    ccl_status_t status = n->ops->ask(n, q, rows, changes_out, err);
    ccl_lock_release(n->lock);
    return status;
}

ccl_status_t ccl_i_transact(ccl_notebook_t *n, bool lazy, ccl_i_transaction_fn fn, void *user,
                            ccl_error_t *err) {
    enum { TRIES = 100 };
    const ccl_i_question_t begin = {.sql = n->ops->begin, .lazy = lazy}, commit = {.sql = "COMMIT"},
                           back = {.sql = "ROLLBACK"};
    ccl_status_t status = CCL_OK;
    ccl_lock_take(n->lock);
    for (int i = 0; i < TRIES; i++) {
        ccl_error_t why = CCL_ERROR_INIT;
        status = n->ops->ask(n, &begin, NULL, NULL, &why);
        if (status == CCL_OK) {
            status = fn(n, user, &why);
            if (status == CCL_OK)
                status = n->ops->ask(n, &commit, NULL, NULL, &why);
            if (status != CCL_OK && n->ops->again(n))
                continue;
            if (status != CCL_OK)
                (void)n->ops->ask(n, &back, NULL, NULL, NULL);
        }
        if (status != CCL_OK && err)
            *err = why;
        break;
    }
    ccl_lock_release(n->lock);
    return status;
}

/* ---------------------------------------------------------------- rows */

ccl_status_t ccl_i_rows_column(ccl_notebook_rows_t *rows, uint32_t column, const char *name,
                               ccl_error_t *err) {
    rows->columns[column] = name ? ccl_arena_strdup(&rows->arena, name) : NULL;
    return rows->columns[column] ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_i_rows_cell(ccl_notebook_rows_t *rows, const char *text, bool number,
                             ccl_error_t *err) {
    size_t at = rows->ncells;
    if (at / (rows->ncolumns ? rows->ncolumns : 1) >= UINT32_MAX ||
        !ccl_grow(&rows->cells, &rows->cells_cap, at + 1, sizeof *rows->cells) ||
        !ccl_grow(&rows->number, &rows->number_cap, at + 1, sizeof *rows->number))
        return ccl_fail_nomem(err);
    rows->number[at] = number;
    rows->cells[at] = text ? ccl_arena_strdup(&rows->arena, text) : NULL;
    if (text && !rows->cells[at])
        return ccl_fail_nomem(err);
    rows->ncells++;
    rows->nrows = (uint32_t)(rows->ncells / rows->ncolumns);
    return CCL_OK;
}

const char *ccl_i_exact(double value, char out[40]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, 40, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return out;
}

void ccl_i_rows_fini(ccl_notebook_rows_t *rows) {
    free(rows->cells);
    free(rows->number);
    ccl_arena_fini(&rows->arena);
    *rows = (ccl_notebook_rows_t){0};
}

void ccl_notebook_rows_destroy(ccl_notebook_rows_t *rows) {
    if (!rows)
        return;
    ccl_i_rows_fini(rows);
    free(rows);
}

static const char *at(const ccl_notebook_rows_t *rows, uint32_t row, uint32_t column) {
    return rows->cells[(size_t)row * rows->ncolumns + column];
}

const char *ccl_i_row_text(const ccl_notebook_rows_t *rows, uint32_t row, uint32_t column) {
    return at(rows, row, column) ? at(rows, row, column) : "";
}

int64_t ccl_i_row_int(const ccl_notebook_rows_t *rows, uint32_t row, uint32_t column) {
    return strtoll(ccl_i_row_text(rows, row, column), NULL, 10);
}

double ccl_i_row_real(const ccl_notebook_rows_t *rows, uint32_t row, uint32_t column) {
    return at(rows, row, column) ? strtod(at(rows, row, column), NULL) : NAN;
}

/* ---------------------------------------------------------------- queries of users */

ccl_status_t ccl_notebook_query(const ccl_ctx_t *ctx, ccl_notebook_t *notebook, const char *sql,
                                const char *const *args, uint32_t nargs, ccl_notebook_rows_t **out,
                                ccl_error_t *err) {
    ccl_ctx_t quiet = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ccl_notebook_rows_t *rows = calloc(1, sizeof *rows);
    ccl_i_sql_value_t *values = calloc(nargs + 1u, sizeof *values);
    ccl_status_t status = rows && values ? CCL_OK : ccl_fail_nomem(err);
    quiet.progress = NULL;
    for (uint32_t i = 0; i < nargs && values; i++)
        values[i] = ccl_i_sql_text(args[i]);
    if (status == CCL_OK)
        status =
            ccl_i_ask(notebook,
                      &(ccl_i_question_t){
                          .sql = sql, .args = values, .nargs = nargs, .once = true, .ctx = &quiet},
                      rows, NULL, err);
    free(values);
    if (status == CCL_OK)
        *out = rows;
    else
        ccl_notebook_rows_destroy(rows);
    return status;
}
