/*
 * Linear and integer programs in GLPK, which ends its process where it sees an error: here its
 * error hook jumps out. What it leaves behind then can only be freed as a whole, with its
 * environment.
 */
#include "synth/solvers/solver_glpk.h"

#include <glpk.h>
#include <limits.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the program */

int ccl_i_glpk_column(ccl_i_glpk_t *lp, ccl_i_glpk_kind_t kind, double cost) {
    if (lp->ncolumns >= INT_MAX ||
        !ccl_grow(&lp->columns, &lp->columns_cap, lp->ncolumns + 1, sizeof *lp->columns)) {
        lp->nomem = true;
        return 0;
    }
    lp->columns[lp->ncolumns] = (ccl_i_glpk_column_t){kind, false, cost};
    return (int)++lp->ncolumns;
}

void ccl_i_glpk_fix(ccl_i_glpk_t *lp, int column) {
    if (column > 0)
        lp->columns[column - 1].is_one = true;
}

void ccl_i_glpk_term(ccl_i_glpk_t *lp, int column, double value) {
    size_t at = lp->nterms + 1;
    if (!ccl_grow(&lp->index, &lp->index_cap, at + 1, sizeof *lp->index) ||
        !ccl_grow(&lp->value, &lp->value_cap, at + 1, sizeof *lp->value)) {
        lp->nomem = true;
        return;
    }
    lp->index[at] = column;
    lp->value[at] = value;
    lp->nterms = at;
}

void ccl_i_glpk_row(ccl_i_glpk_t *lp, bool exactly, double limit) {
    const ccl_i_glpk_row_t *last = lp->nrows ? &lp->rows[lp->nrows - 1] : NULL;
    size_t first = last ? last->first + (size_t)last->len : 0;
    if (lp->nrows >= INT_MAX || lp->nterms - first > INT_MAX ||
        !ccl_grow(&lp->rows, &lp->rows_cap, lp->nrows + 1, sizeof *lp->rows)) {
        lp->nomem = true;
        return;
    }
    lp->rows[lp->nrows++] = (ccl_i_glpk_row_t){first, (int)(lp->nterms - first), exactly, limit};
}

void ccl_i_glpk_fini(ccl_i_glpk_t *lp) {
    free(lp->columns);
    free(lp->rows);
    free(lp->index);
    free(lp->value);
    memset(lp, 0, sizeof *lp);
}

/* ---------------------------------------------------------------- GLPK */

/* Where GLPK's errors end, and what it said. */
typedef struct guard {
    jmp_buf back;
    char text[256];
    size_t len;
} guard_t;

/* Of terminal output only errors are not switched off. @return 1: do not print it */
static int keep_text(void *info, const char *text) {
    guard_t *guard = info;
    size_t len = strlen(text), room = sizeof guard->text - 1 - guard->len;
    len = len < room ? len : room;
    memcpy(guard->text + guard->len, text, len);
    guard->len += len;
    return 1;
}

static void jump_out(void *info) {
    guard_t *guard = info;
    longjmp(guard->back, 1);
}

static glp_prob *build(const ccl_i_glpk_t *lp, bool integer) {
    static const int kinds[] = {GLP_LO, GLP_DB, GLP_DB};
    glp_prob *prob = glp_create_prob();
    glp_set_obj_dir(prob, GLP_MIN);
    glp_add_cols(prob, (int)lp->ncolumns);
    for (int c = 1; c <= (int)lp->ncolumns; c++) {
        const ccl_i_glpk_column_t *column = &lp->columns[c - 1];
        if (integer && column->kind == CCL_I_GLPK_BINARY)
            glp_set_col_kind(prob, c, GLP_BV);
        if (column->is_one)
            glp_set_col_bnds(prob, c, GLP_FX, 1, 1);
        else
            glp_set_col_bnds(prob, c, kinds[column->kind], 0, 1);
        glp_set_obj_coef(prob, c, column->cost);
    }
    if (lp->nrows)
        glp_add_rows(prob, (int)lp->nrows);
    for (int r = 1; r <= (int)lp->nrows; r++) {
        const ccl_i_glpk_row_t *row = &lp->rows[r - 1];
        glp_set_row_bnds(prob, r, row->exactly ? GLP_FX : GLP_UP, row->limit, row->limit);
        if (row->len)
            glp_set_mat_row(prob, r, row->len, lp->index + row->first, lp->value + row->first);
    }
    return prob;
}

/* Ends the search after a number of nodes: the same on any machine, as a limit in seconds is not.
 */
static void count_nodes(glp_tree *tree, void *info) {
    const uint32_t *most = info;
    int total = 0;
    glp_ios_tree_size(tree, NULL, NULL, &total);
    if ((uint32_t)total > *most)
        glp_ios_terminate(tree);
}

static ccl_i_glpk_answer_t search(glp_prob *prob, uint32_t nodes, bool *best_out) {
    glp_iocp how;
    glp_init_iocp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.presolve = GLP_ON;
    how.fp_heur = GLP_ON;
    how.br_tech = GLP_BR_DTH;
    how.bt_tech = GLP_BT_DFS;
    if (nodes) {
        how.cb_func = count_nodes;
        how.cb_info = &nodes;
    }
    int code = glp_intopt(prob, &how), status = glp_mip_status(prob);
    if (best_out)
        *best_out = !code && status == GLP_OPT;
    if (code == GLP_ENOPFS || code == GLP_ENODFS || (!code && status == GLP_NOFEAS))
        return CCL_I_GLPK_NONE;
    if (code == GLP_ESTOP ? status == GLP_FEAS : !code && (status == GLP_OPT || status == GLP_FEAS))
        return CCL_I_GLPK_FOUND;
    return CCL_I_GLPK_UNKNOWN;
}

static ccl_i_glpk_answer_t simplex(glp_prob *prob, bool presolve) {
    glp_smcp how;
    glp_init_smcp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.presolve = presolve ? GLP_ON : GLP_OFF;
    int code = glp_simplex(prob, &how), status = glp_get_status(prob);
    if (!code && status == GLP_OPT)
        return CCL_I_GLPK_FOUND;
    return code == GLP_ENOPFS || (!code && status == GLP_NOFEAS) ? CCL_I_GLPK_NONE
                                                                 : CCL_I_GLPK_UNKNOWN;
}

static ccl_i_glpk_answer_t solve(const ccl_i_glpk_t *lp, const ccl_i_glpk_options_t *options,
                                 double *value_out, double *objective_out) {
    glp_prob *prob = build(lp, options->integer);
    ccl_i_glpk_answer_t answer = options->integer ? search(prob, options->nodes, options->best)
                                                  : simplex(prob, options->presolve);
    for (int c = 1; answer == CCL_I_GLPK_FOUND && c <= (int)lp->ncolumns; c++)
        value_out[c] = options->integer ? glp_mip_col_val(prob, c) : glp_get_col_prim(prob, c);
    if (answer == CCL_I_GLPK_FOUND && objective_out)
        *objective_out = options->integer ? glp_mip_obj_val(prob) : glp_get_obj_val(prob);
    glp_delete_prob(prob);
    return answer;
}

/* GLPK's last words: a line, and where in its source. */
static ccl_status_t gave_up(guard_t *guard, ccl_error_t *err) {
    guard->text[guard->len] = '\0';
    guard->text[strcspn(guard->text, "\n")] = '\0';
    if (strstr(guard->text, "memory") || strstr(guard->text, "too large"))
        return ccl_fail(err, CCL_ERR_NOMEM, "out of memory (GLPK: %s)", guard->text);
    return ccl_fail(err, CCL_UNSUPPORTED, "GLPK gave up: %s", guard->text);
}

/* @return false when GLPK jumped out; nothing that this function changes is looked at then */
static bool guarded(guard_t *guard, const ccl_i_glpk_t *lp, const ccl_i_glpk_options_t *options,
                    double *value_out, double *objective_out, ccl_i_glpk_answer_t *answer_out) {
    if (setjmp(guard->back))
        return false;
    if (options->megabytes)
        glp_mem_limit((int)options->megabytes);
    *answer_out = solve(lp, options, value_out, objective_out);
    return true;
}

ccl_status_t ccl_i_glpk_solve(const ccl_i_glpk_t *lp, const ccl_i_glpk_options_t *options,
                              double *value_out, double *objective_out,
                              ccl_i_glpk_answer_t *answer_out, ccl_error_t *err) {
    guard_t guard = {.len = 0};
    ccl_status_t status = CCL_OK;
    if (lp->nomem)
        return ccl_fail_nomem(err);
    /* The environment is the thread's. One that a caller of ours had before the fork is a copy. */
    glp_free_env();
    if (glp_init_env() != 0)
        return ccl_fail_nomem(err);
    glp_term_hook(keep_text, &guard);
    glp_term_out(GLP_OFF);
    glp_error_hook(jump_out, &guard);
    if (!guarded(&guard, lp, options, value_out, objective_out, answer_out))
        status = gave_up(&guard, err);
    glp_free_env();
    return status;
}
