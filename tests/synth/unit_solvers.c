/*
 * What GLPK and Z3 fail at, for lack of memory or by a wrong use, is an error; asked again they
 * answer. In child processes, as everywhere: what GLPK drops there goes with them.
 */
#include "common.h"

#include "synth/solvers/solver_glpk.h"
#include "synth/solvers/solver_z3.h"

#include <math.h>
#include <sys/resource.h>

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { OWN_MALLOC = 1 }; /* what it keeps is its own choice */
#else
enum { OWN_MALLOC = 0 };
#endif

typedef ccl_status_t (*ask_fn)(ccl_error_t *err);

static ccl_status_t in_child(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    (void)pipe;
    return (*(ask_fn *)user)(err);
}

/** @param text  what the error says; NULL: there is none */
static void expect(ask_fn ask, ccl_status_t status, const char *text) {
    const ccl_child_limits_t limits = {60, 0, "test"};
    ccl_child_answer_t answer;
    ccl_error_t err = CCL_ERROR_INIT;

    ck_assert_msg(ccl_child_run(NULL, &limits, in_child, &ask, &answer, &err) == status, "%s: %s",
                  ccl_status_name(err.status), err.text);
    ck_assert_msg(strstr(err.text, text ? text : "") != NULL, "%s", err.text);
    ck_assert(!answer.limited);
}

/** A row of a test that runs in a child, where assertions would not be heard. */
#define HOLDS(what_)                                                                               \
    do {                                                                                           \
        if (!(what_))                                                                              \
            return ccl_fail(err, CCL_CHECK, "line %d: not %s", __LINE__, #what_);                  \
    } while (0)

/* ---------------------------------------------------------------- GLPK */

/** Minimise 2 a + 3 b, a + b = 1, a <= 0.25; integers: a = 0. */
static ccl_status_t small(bool integer, double *a, double *cost, ccl_error_t *err) {
    const ccl_i_glpk_options_t options = {.integer = integer};
    ccl_i_glpk_t lp = {0};
    ccl_i_glpk_answer_t answer;
    double value[3];

    ccl_i_glpk_column(&lp, CCL_I_GLPK_BINARY, 2);
    ccl_i_glpk_column(&lp, CCL_I_GLPK_BINARY, 3);
    ccl_i_glpk_term(&lp, 1, 1);
    ccl_i_glpk_term(&lp, 2, 1);
    ccl_i_glpk_row(&lp, true, 1);
    ccl_i_glpk_term(&lp, 1, 1);
    ccl_i_glpk_row(&lp, false, 0.25);
    ccl_status_t status = ccl_i_glpk_solve(&lp, &options, value, cost, &answer, err);
    ccl_i_glpk_fini(&lp);
    CCL_TRY(status);
    HOLDS(answer == CCL_I_GLPK_FOUND);
    *a = value[1];
    return CCL_OK;
}

static ccl_status_t glpk_solves(ccl_error_t *err) {
    double a, cost;
    CCL_TRY(small(false, &a, &cost, err));
    HOLDS(fabs(a - 0.25) < 1e-9 && fabs(cost - 2.75) < 1e-9);
    CCL_TRY(small(true, &a, &cost, err));
    HOLDS(fabs(a) < 1e-9 && fabs(cost - 3) < 1e-9);
    return CCL_OK;
}

static ccl_status_t glpk_has_none(ccl_error_t *err) {
    const ccl_i_glpk_options_t options = {0};
    ccl_i_glpk_t lp = {0};
    ccl_i_glpk_answer_t answer;
    double value[2];

    ccl_i_glpk_column(&lp, CCL_I_GLPK_POSITIVE, 1);
    ccl_i_glpk_term(&lp, 1, 1);
    ccl_i_glpk_row(&lp, false, -1);
    CCL_TRY(ccl_i_glpk_solve(&lp, &options, value, NULL, &answer, err));
    HOLDS(answer == CCL_I_GLPK_NONE);
    return CCL_OK;
}

/** Some megabytes of terms; every column at least 1. @param megabytes  that GLPK may have */
static ccl_status_t big(uint32_t megabytes, ccl_error_t *err) {
    enum { COLUMNS = 400 };
    const ccl_i_glpk_options_t options = {.megabytes = megabytes};
    ccl_i_glpk_t lp = {0};
    ccl_i_glpk_answer_t answer = CCL_I_GLPK_UNKNOWN;
    double *value = calloc(COLUMNS + 1, sizeof *value), cost = 0;

    for (int c = 1; c <= COLUMNS; c++)
        ccl_i_glpk_column(&lp, CCL_I_GLPK_POSITIVE, 1);
    for (int r = 1; r <= COLUMNS; r++) {
        for (int c = 1; c <= COLUMNS; c++)
            ccl_i_glpk_term(&lp, c, c == r ? -2 : -1e-3);
        ccl_i_glpk_row(&lp, false, -2);
    }
    ccl_status_t status = ccl_i_glpk_solve(&lp, &options, value, &cost, &answer, err);
    ccl_i_glpk_fini(&lp);
    free(value);
    CCL_TRY(status);
    HOLDS(answer == CCL_I_GLPK_FOUND && cost > COLUMNS * 0.8 && cost < COLUMNS);
    return CCL_OK;
}

static ccl_status_t glpk_without_memory(ccl_error_t *err) {
    return big(2, err);
}

/** Failing and solving by turns: what is left behind does not matter. */
static ccl_status_t glpk_again(ccl_error_t *err) {
    for (int i = 0; i < 20; i++) {
        double a, cost;
        ccl_error_t why = CCL_ERROR_INIT;
        HOLDS(big(1 + (uint32_t)i % 3, &why) == CCL_ERR_NOMEM);
        CCL_TRY(small(i % 2, &a, &cost, err));
    }
    return big(0, err);
}

/** The problem names a column that does not exist, on which GLPK aborts. */
static ccl_status_t glpk_gives_up(ccl_error_t *err) {
    const ccl_i_glpk_options_t options = {0};
    ccl_i_glpk_t lp = {0};
    ccl_i_glpk_answer_t answer;
    double value[2];

    ccl_i_glpk_column(&lp, CCL_I_GLPK_POSITIVE, 1);
    ccl_i_glpk_term(&lp, 7, 1);
    ccl_i_glpk_row(&lp, false, 1);
    return ccl_i_glpk_solve(&lp, &options, value, NULL, &answer, err);
}

static ccl_status_t glpk_of_a_part(ccl_error_t *err) {
    const ccl_i_glpk_options_t options = {0};
    ccl_i_glpk_t lp = {.nomem = true};
    ccl_i_glpk_answer_t answer;
    double value[1];
    return ccl_i_glpk_solve(&lp, &options, value, NULL, &answer, err);
}

START_TEST(test_glpk) {
    expect(glpk_solves, CCL_OK, NULL);
    expect(glpk_has_none, CCL_OK, NULL);
    expect(glpk_without_memory, CCL_ERR_NOMEM, "out of memory (GLPK: glp_");
    expect(glpk_again, CCL_OK, NULL);
    expect(glpk_gives_up, CCL_UNSUPPORTED, "GLPK gave up: glp_set_mat_row");
    expect(glpk_of_a_part, CCL_ERR_NOMEM, "out of memory");
}
END_TEST

/* ---------------------------------------------------------------- Z3 */

enum { Z3_MEGABYTES = 32 }; /* it begins with half of that */

static ccl_status_t z3_answers(ccl_error_t *err) {
    ccl_i_z3_t *z = ccl_i_z3_create(0);
    uint64_t used = 0;
    HOLDS(z);
    ccl_i_z3_term_t x[] = {ccl_i_z3_variable(z), ccl_i_z3_variable(z), ccl_i_z3_variable(z)};
    const int weights[] = {1, 2, 4};
    ccl_i_z3_demand(z, ccl_i_z3_or(z, 3, x));
    ccl_i_z3_demand(z, ccl_i_z3_most(z, 3, x, NULL, 1));
    ccl_i_z3_demand(z, ccl_i_z3_implies(z, x[0], x[1])); /* not 0: that would be two */
    ccl_i_z3_demand(z, ccl_i_z3_most(z, 3, x, weights, 3));
    HOLDS(ccl_i_z3_check(z, 0, &used) == CCL_I_Z3_SAT && used > 0);
    HOLDS(!ccl_i_z3_is_true(z, x[0]) && ccl_i_z3_is_true(z, x[1]) && !ccl_i_z3_is_true(z, x[2]));
    ccl_i_z3_push(z);
    ccl_i_z3_demand(z, ccl_i_z3_not(z, x[1]));
    HOLDS(ccl_i_z3_check(z, 0, NULL) == CCL_I_Z3_UNSAT && !ccl_i_z3_is_true(z, x[1]));
    ccl_i_z3_pop(z);
    HOLDS(ccl_i_z3_check(z, 0, NULL) == CCL_I_Z3_SAT);
    ccl_i_z3_demand(z, ccl_i_z3_constant(z, false));
    HOLDS(ccl_i_z3_check(z, 0, NULL) == CCL_I_Z3_UNSAT);
    CCL_TRY(ccl_i_z3_status(z, err));
    ccl_i_z3_destroy(z);
    return CCL_OK;
}

/** n + 1 pigeons, n holes: more than some work can do, which is no error. */
static void add_pigeons(ccl_i_z3_t *z, uint32_t n) {
    ccl_i_z3_term_t in[32][32], row[32];
    for (uint32_t p = 0; p <= n; p++) {
        for (uint32_t h = 0; h < n; h++)
            in[p][h] = ccl_i_z3_variable(z);
        ccl_i_z3_demand(z, ccl_i_z3_or(z, n, in[p]));
    }
    for (uint32_t h = 0; h < n; h++)
        for (uint32_t p = 0; p <= n; p++)
            for (uint32_t q = 0; q < p; q++) {
                row[0] = ccl_i_z3_not(z, in[p][h]);
                row[1] = ccl_i_z3_not(z, in[q][h]);
                ccl_i_z3_demand(z, ccl_i_z3_or(z, 2, row));
            }
}

static ccl_status_t z3_of_little_work(ccl_error_t *err) {
    ccl_i_z3_t *z = ccl_i_z3_create(0);
    HOLDS(z);
    add_pigeons(z, 12);
    HOLDS(ccl_i_z3_check(z, 20000, NULL) == CCL_I_Z3_UNKNOWN);
    CCL_TRY(ccl_i_z3_status(z, err));
    ccl_i_z3_destroy(z);
    return CCL_OK;
}

static ccl_status_t z3_with_too_little(ccl_error_t *err) {
    HOLDS(!ccl_i_z3_create(1));
    return CCL_OK;
}

/** Whatever it was that failed, there is no answer from then on, not even that there is none. */
static ccl_status_t z3_without_memory(ccl_error_t *err) {
    ccl_i_z3_t *z = ccl_i_z3_create(Z3_MEGABYTES);
    HOLDS(z);
    ccl_i_z3_term_t x = ccl_i_z3_variable(z);
    ccl_i_z3_demand(z, x);
    HOLDS(ccl_i_z3_check(z, 0, NULL) == CCL_I_Z3_SAT && ccl_i_z3_is_true(z, x));
    for (uint32_t i = 0; i < 10000000 && ccl_i_z3_variable(z); i++) {
    }
    HOLDS(!ccl_i_z3_variable(z) && !ccl_i_z3_not(z, x) && !ccl_i_z3_constant(z, true));
    HOLDS(!ccl_i_z3_implies(z, x, x) && !ccl_i_z3_or(z, 1, &x));
    HOLDS(!ccl_i_z3_most(z, 1, &x, NULL, 1) && !ccl_i_z3_is_true(z, x));
    ccl_i_z3_demand(z, x);
    ccl_i_z3_push(z);
    ccl_i_z3_pop(z);
    HOLDS(ccl_i_z3_check(z, 0, NULL) == CCL_I_Z3_UNKNOWN);
    ccl_status_t status = ccl_i_z3_status(z, err);
    ccl_i_z3_destroy(z);
    return status;
}

static ccl_status_t z3_search_without_memory(ccl_error_t *err) {
    ccl_i_z3_t *z = ccl_i_z3_create(Z3_MEGABYTES);
    HOLDS(z);
    add_pigeons(z, 28);
    HOLDS(ccl_i_z3_status(z, NULL) == CCL_OK);
    HOLDS(ccl_i_z3_check(z, 0, NULL) == CCL_I_Z3_UNKNOWN);
    return ccl_i_z3_status(z, err); /* it has no memory to tidy up with */
}

static ccl_status_t z3_gives_up(ccl_error_t *err) {
    ccl_i_z3_t *z = ccl_i_z3_create(0);
    HOLDS(z);
    ccl_i_z3_pop(z); /* of nothing */
    HOLDS(!ccl_i_z3_variable(z));
    return ccl_i_z3_status(z, err);
}

/** A context is 17 MB, 4000 pages: the second gets those of the first. */
static ccl_status_t z3_keeps_its_room(ccl_error_t *err) {
    struct rusage before, after;
    ccl_i_z3_t *z = ccl_i_z3_create(0);
    HOLDS(z);
    ccl_i_z3_destroy(z);
    HOLDS(getrusage(RUSAGE_SELF, &before) == 0);
    z = ccl_i_z3_create(0);
    HOLDS(z && getrusage(RUSAGE_SELF, &after) == 0);
    HOLDS(OWN_MALLOC || after.ru_minflt - before.ru_minflt < 1000);
    return CCL_OK;
}

START_TEST(test_z3) {
    expect(z3_answers, CCL_OK, NULL);
    expect(z3_of_little_work, CCL_OK, NULL);
    expect(z3_with_too_little, CCL_OK, NULL);
    expect(z3_without_memory, CCL_ERR_NOMEM, "out of memory (Z3: ");
    expect(z3_search_without_memory, CCL_ERR_NOMEM, "out of memory");
    expect(z3_gives_up, CCL_UNSUPPORTED, "Z3 gave up: ");
    expect(z3_keeps_its_room, CCL_OK, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("synth.solvers");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, test_glpk);
    tcase_add_test(tcase, test_z3);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
