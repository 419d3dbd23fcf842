/*
 * Private to synth: linear and integer programs, solved by GLPK. GLPK aborts when it is short of
 * memory or when something is wrong inside it; here that is an error. What it had then allocated
 * may be lost, so it is called in child processes (ccl_child_run()) only. solver_glpk.c is the only
 * file that knows GLPK.
 */
#ifndef CCL_SYNTH_SOLVER_GLPK_H
#define CCL_SYNTH_SOLVER_GLPK_H

#include "base/base.h"

typedef enum ccl_i_glpk_kind {
    CCL_I_GLPK_POSITIVE, /* 0 or more */
    CCL_I_GLPK_SHARE,    /* 0 to 1 */
    CCL_I_GLPK_BINARY    /* 0 or 1 */
} ccl_i_glpk_kind_t;

typedef struct ccl_i_glpk_column {
    ccl_i_glpk_kind_t kind;
    bool is_one; /* fixed */
    double cost;
} ccl_i_glpk_column_t;

typedef struct ccl_i_glpk_row {
    size_t first; /* terms before its own */
    int len;
    bool exactly; /* else at most */
    double limit;
} ccl_i_glpk_row_t;

/** Minimise the sum of cost * column, under rows. All zero: empty. */
typedef struct ccl_i_lp {
    ccl_i_glpk_column_t *columns;
    ccl_i_glpk_row_t *rows;
    int *index; /* of terms, numbered from 1, as GLPK wants them */
    double *value;
    size_t ncolumns, nrows, nterms;
    size_t columns_cap, rows_cap, index_cap, value_cap;
    bool nomem; /* something is missing: it is not solved */
} ccl_i_glpk_t;

/** Number of a new column, from 1. Without memory 0, and the program is marked. */
int ccl_i_glpk_column(ccl_i_glpk_t *lp, ccl_i_glpk_kind_t kind, double cost);
/** The column is 1. */
void ccl_i_glpk_fix(ccl_i_glpk_t *lp, int column);
/** A term of the row in hand; a column comes once. */
void ccl_i_glpk_term(ccl_i_glpk_t *lp, int column, double value);
/** The row in hand is done: its terms sum to `limit` exactly, or at most. */
void ccl_i_glpk_row(ccl_i_glpk_t *lp, bool exactly, double limit);
void ccl_i_glpk_fini(ccl_i_glpk_t *lp);

typedef struct ccl_i_glpk_options {
    bool integer;       /* binary columns are; else they are shares */
    bool presolve;      /* integer programs always are presolved */
    uint32_t nodes;     /* of an integer program's search, at most; 0: no limit */
    uint32_t megabytes; /* that GLPK may allocate; 0: no limit */
    bool *best;         /* FOUND, integer: set, is nothing better left? NULL */
} ccl_i_glpk_options_t;

typedef enum ccl_i_glpk_answer {
    CCL_I_GLPK_FOUND, /* of an integer program: perhaps not the best */
    CCL_I_GLPK_NONE,  /* proven: there is no solution */
    CCL_I_GLPK_UNKNOWN
} ccl_i_glpk_answer_t;

/**
 * @param value_out      [ncolumns + 1] by number; FOUND: filled.
 * @param objective_out  may be NULL.
 * @retval CCL_ERR_NOMEM        GLPK had no memory, or its limit was reached.
 * @retval CCL_UNSUPPORTED  GLPK gave up; err says why.
 */
ccl_status_t ccl_i_glpk_solve(const ccl_i_glpk_t *lp, const ccl_i_glpk_options_t *options,
                              double *value_out, double *objective_out,
                              ccl_i_glpk_answer_t *answer_out, ccl_error_t *err);

#endif
