/* The fit: exact data, outliers, parameters that the data does not tell, errors. */
#include "tests/validate/common.h"

typedef struct line {
    double x[40], y[40];
    uint32_t n;
} line_t;

static ccl_status_t residuals(const double *p, double *r, void *user, ccl_error_t *err) {
    const line_t *l = user;
    (void)err;
    for (uint32_t i = 0; i < l->n; i++)
        r[i] = log((exp(p[0]) + exp(p[1]) * l->x[i]) / l->y[i]);
    return CCL_OK;
}

static line_t latency_and_bandwidth(double a, double b, uint32_t n) {
    line_t l = {.n = n};
    for (uint32_t i = 0; i < n; i++) {
        l.x[i] = ldexp(1, (int)i);
        l.y[i] = a + b * l.x[i];
    }
    return l;
}

START_TEST(test_exact) {
    line_t l = latency_and_bandwidth(20, 0.5, 20);
    ccl_fit_parameter_t p[2] = {{.value = log(5), .spread = 2}, {.value = log(2), .spread = 2}};
    ccl_fit_result_t result;
    OK(ccl_fit(2, p, NULL, l.n, 0.03, residuals, &l, &result, &err));
    ck_assert_double_eq_tol(exp(p[0].value), 20, 0.05);
    ck_assert_double_eq_tol(exp(p[1].value), 0.5, 0.001);
    ck_assert(p[0].error < 0.05 && p[1].error < 0.05);
    ck_assert_double_eq_tol(result.scale, 0.03, 1e-9); /* no less than the noise */
}
END_TEST

/* A fifth of the points three times too slow moves a least-squares fit far, this one little. */
START_TEST(test_outliers) {
    line_t l = latency_and_bandwidth(20, 0.5, 20);
    for (uint32_t i = 2; i < l.n; i += 5)
        l.y[i] *= 3;
    ccl_fit_parameter_t p[2] = {{.value = log(5), .spread = 2}, {.value = log(2), .spread = 2}};
    ccl_fit_result_t result;
    OK(ccl_fit(2, p, NULL, l.n, 0.03, residuals, &l, &result, &err));
    ck_assert_double_eq_tol(exp(p[0].value), 20, 1.5);
    ck_assert_double_eq_tol(exp(p[1].value), 0.5, 0.04);
}
END_TEST

/* Tiny messages say nothing of the bandwidth: it stays at its prior, with the prior's error. */
START_TEST(test_not_told) {
    line_t l = latency_and_bandwidth(20, 1e-9, 5);
    ccl_fit_parameter_t p[2] = {{.value = log(5), .spread = 2},
                                {.value = log(2e-9), .spread = 0.7}};
    ccl_fit_result_t result;
    OK(ccl_fit(2, p, NULL, l.n, 0.03, residuals, &l, &result, &err));
    ck_assert_double_eq_tol(exp(p[0].value), 20, 0.1);
    ck_assert_double_eq_tol(exp(p[1].value), 2e-9, 1e-12);
    ck_assert_double_eq_tol(p[1].error, 0.7, 1e-3);
}
END_TEST

/* The error is what repeated noise makes it: noise / sqrt(n - 1) of a constant. */
static ccl_status_t constant(const double *p, double *r, void *user, ccl_error_t *err) {
    const line_t *l = user;
    (void)err;
    for (uint32_t i = 0; i < l->n; i++)
        r[i] = p[0] - log(l->y[i]);
    return CCL_OK;
}

START_TEST(test_errors) {
    line_t l = {.n = 36};
    for (uint32_t i = 0; i < l.n; i++)
        l.y[i] = 7;
    ccl_fit_parameter_t p[1] = {{.value = 0, .spread = 10}};
    ccl_fit_result_t result;
    OK(ccl_fit(1, p, NULL, l.n, 0.06, constant, &l, &result, &err));
    ck_assert_double_eq_tol(p[0].value, log(7), 1e-4);
    ck_assert_double_eq_tol(p[0].error, 0.06 / sqrt(35), 1e-5); /* one of 36 is fitted */
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_fit(0, p, NULL, l.n, 0.06, constant, &l, &result, &err), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_fit(1, p, NULL, 0, 0.06, constant, &l, &result, &err), CCL_ERR_INPUT);
}
END_TEST

/* Something else limits the time once the constant is below log(7). */
static ccl_status_t limited(const double *p, double *r, void *user, ccl_error_t *err) {
    const line_t *l = user;
    (void)err;
    for (uint32_t i = 0; i < l->n; i++)
        r[i] = fmax(p[0], log(7)) - log(l->y[i]);
    return CCL_OK;
}

/* The slope of one side alone would say that the constant is known to noise / sqrt(n - 1). */
START_TEST(test_kink) {
    line_t l = {.n = 36};
    for (uint32_t i = 0; i < l.n; i++)
        l.y[i] = 7;
    ccl_fit_parameter_t p[1] = {{.value = log(7) + 1, .spread = 1}};
    ccl_fit_result_t result;
    OK(ccl_fit(1, p, NULL, l.n, 0.06, limited, &l, &result, &err));
    ck_assert_double_eq_tol(p[0].value, log(7), 1e-3);
    ck_assert_double_eq_tol(p[0].error, 2 * 0.06 / sqrt(35), 0.1 * 0.06 / sqrt(35));
}
END_TEST

RUN_TESTS(test_exact, test_outliers, test_not_told, test_errors, test_kink)
