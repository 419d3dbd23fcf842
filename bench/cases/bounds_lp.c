/**
 * The linear programs of the bandwidth bounds of AllReduce and AllToAll, solved by graph/lp.c and
 * by GLPK. The linker puts this program between the bounds and ccl_lp_*() (--wrap), so that GLPK
 * gets every program that the bounds ask for, column by column as they do. usage: bench_bounds_lp
 * COLLECTIVE TOPOLOGY... A line per topology: linear programs, rows and columns of the last, CPU
 * milliseconds of lp.c, of GLPK kept from one to the next in this process (its simplex then starts
 * where it ended, as lp.c does), of GLPK in a child process for each, as the library would have to
 * call it; and the largest relative difference of values.
 */
#include <glpk.h>
#include <math.h>

#include "bench/common.h"
#include "schedule/schedule.h"

static struct {
    glp_prob *prob; /* rows and columns of the one that grows now */
    uint32_t nrows, ncolumns, programs;
    double own_s, kept_s, child_s, differs;
} seen;

ccl_lp_t *__real_ccl_lp_create(uint32_t nrows, const double *rhs, double big);
uint32_t __real_ccl_lp_column(ccl_lp_t *lp, double cost, const double *entries);
bool __real_ccl_lp_solve(ccl_lp_t *lp);
ccl_lp_t *__wrap_ccl_lp_create(uint32_t nrows, const double *rhs, double big);
uint32_t __wrap_ccl_lp_column(ccl_lp_t *lp, double cost, const double *entries);
bool __wrap_ccl_lp_solve(ccl_lp_t *lp);

/* CPU seconds of this process and of its children that have ended. */
static double cpu_s(void) {
    double sum = 0;
    static const int who[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (int i = 0; i < 2; i++) {
        struct rusage use;
        getrusage(who[i], &use);
        sum += (double)use.ru_utime.tv_sec + (double)use.ru_stime.tv_sec +
               1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    }
    return sum;
}

static void add_column(double cost, const double *entries) {
    int *rows = malloc((seen.nrows + (size_t)1) * sizeof *rows), n = 0;
    double *values = malloc((seen.nrows + (size_t)1) * sizeof *values);
    if (!rows || !values)
        abort();
    for (uint32_t i = 0; i < seen.nrows; i++)
        if (entries[i] != 0) {
            rows[++n] = (int)i + 1;
            values[n] = entries[i];
        }
    int at = glp_add_cols(seen.prob, 1);
    glp_set_col_bnds(seen.prob, at, GLP_LO, 0, 0);
    glp_set_obj_coef(seen.prob, at, cost);
    glp_set_mat_col(seen.prob, at, n, rows, values);
    free(rows);
    free(values);
    seen.ncolumns++;
}

ccl_lp_t *__wrap_ccl_lp_create(uint32_t nrows, const double *rhs, double big) {
    double *unit = calloc(nrows, sizeof *unit);
    if (!unit)
        abort();
    if (seen.prob)
        glp_delete_prob(seen.prob);
    seen.prob = glp_create_prob();
    seen.nrows = nrows;
    seen.ncolumns = 0;
    glp_add_rows(seen.prob, (int)nrows);
    for (uint32_t i = 0; i < nrows; i++)
        glp_set_row_bnds(seen.prob, (int)i + 1, GLP_FX, rhs[i], rhs[i]);
    for (uint32_t i = 0; i < nrows; i++) { /* the same artificial columns */
        unit[i] = 1;
        add_column(big, unit);
        unit[i] = 0;
    }
    for (uint32_t i = 0; i < nrows; i++) { /* and the same start */
        glp_set_row_stat(seen.prob, (int)i + 1, GLP_NS);
        glp_set_col_stat(seen.prob, (int)i + 1, GLP_BS);
    }
    free(unit);
    return __real_ccl_lp_create(nrows, rhs, big);
}

uint32_t __wrap_ccl_lp_column(ccl_lp_t *lp, double cost, const double *entries) {
    add_column(cost, entries);
    return __real_ccl_lp_column(lp, cost, entries);
}

static void simplex(glp_prob *prob) {
    glp_smcp how;
    glp_init_smcp(&how);
    how.msg_lev = GLP_MSG_OFF;
    glp_simplex(prob, &how);
}

/* A program of its own from the rows and columns, as a child would get it; its duals go back. */
static ccl_status_t child(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    glp_prob *prob = glp_create_prob();
    double *answer = malloc((seen.nrows + (size_t)1) * sizeof *answer);
    (void)user;
    if (!answer)
        return ccl_fail_nomem(err);
    glp_copy_prob(prob, seen.prob, GLP_OFF);
    glp_std_basis(prob);
    simplex(prob);
    answer[0] = glp_get_obj_val(prob);
    for (uint32_t i = 1; i <= seen.nrows; i++)
        answer[i] = glp_get_row_dual(prob, (int)i);
    ccl_child_put(pipe, answer, (seen.nrows + (size_t)1) * sizeof *answer);
    free(answer);
    return CCL_OK;
}

bool __wrap_ccl_lp_solve(ccl_lp_t *lp) {
    ccl_child_limits_t limits = {0};
    ccl_child_answer_t answer = {0};
    double t0 = cpu_s();
    if (ccl_child_run(NULL, &limits, child, NULL, &answer, NULL) != CCL_OK || !answer.data)
        abort();
    double t1 = cpu_s();
    simplex(seen.prob);
    double t2 = cpu_s();
    bool ok = __real_ccl_lp_solve(lp);
    double t3 = cpu_s(), value = ccl_lp_value(lp);
    seen.programs++;
    seen.child_s += t1 - t0;
    seen.kept_s += t2 - t1;
    seen.own_s += t3 - t2;
    seen.differs = fmax(seen.differs, fabs(*(double *)answer.data / value - 1));
    seen.differs = fmax(seen.differs, fabs(glp_get_obj_val(seen.prob) / value - 1));
    free(answer.data);
    return ok;
}

static ccl_status_t bench(ccl_collective_kind_t kind, const char *spec, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_bound_t bound = {0};
    ccl_status_t status = ccl_topology_read(NULL, spec, &topo, err);
    memset(&seen, 0, sizeof seen);
    if (status == CCL_OK)
        status = ccl_collective_create(kind, topo->nranks, 1, 0, &want, err);
    if (status == CCL_OK)
        status = ccl_bound(NULL, topo, want, NULL, &bound, err);
    if (status == CCL_OK)
        printf(
            "%-24s %4u GPUs %5u programs, last %4u x %5u: lp.c %9.2f ms, GLPK kept %9.2f ms, in a "
            "child each %9.2f ms, values to %.1e\n",
            topo->name, topo->nranks, seen.programs, seen.nrows, seen.ncolumns, 1e3 * seen.own_s,
            1e3 * seen.kept_s, 1e3 * seen.child_s, seen.differs);
    if (seen.prob)
        glp_delete_prob(seen.prob);
    ccl_bound_fini(&bound);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return status;
}

int main(int argc, char **argv) {
    ccl_collective_kind_t kind;
    ccl_error_t bad = CCL_ERROR_INIT;
    if (argc < 3 || ccl_collective_kind_parse(argv[1], &kind, &bad) != CCL_OK) {
        fprintf(stderr, "usage: %s COLLECTIVE TOPOLOGY...\n", argv[0]);
        return 2;
    }
    int failed = 0;
    for (int i = 2; i < argc; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        if (bench(kind, argv[i], &err) != CCL_OK) {
            fprintf(stderr, "%s: %s\n", argv[i], err.text);
            failed = 1;
        }
        fflush(stdout);
    }
    return failed;
}
