/*
 * Robust least squares with priors: minimise sum w_i r_i^2 / s^2 + sum ((p_k - prior_k) /
 * spread_k)^2 with Huber's weights (P. J. Huber, Robust Statistics, 1981, section 7), by
 * Gauss-Newton steps damped as Levenberg and Marquardt do, on dense normal equations. Few
 * parameters: Cholesky.
 */
#include "validate/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PARAMETERS 64u
#define MAX_ITERATIONS 60u
#define STEP 1e-3      /* of numerical derivatives, absolute: parameters are logarithms */
#define MOST_NOISE 2.0 /* scale while descending, in units of the noise */
#define HUBER 1.345    /* 95 % efficient on normal errors */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Solve A x = b in place, A symmetric positive definite n x n; false: it is not. */
static bool cholesky(double *a, uint32_t n) {
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t i = j; i < n; i++) {
            double sum = a[i * n + j];
            for (uint32_t k = 0; k < j; k++)
                sum -= a[i * n + k] * a[j * n + k];
            if (i == j) {
                if (!(sum > 0))
                    return false;
                a[j * n + j] = sqrt(sum);
            } else {
                a[i * n + j] = sum / a[j * n + j];
            }
        }
    }
    return true;
}

static void solve(const double *l, uint32_t n, double *x) {
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < i; k++)
            x[i] -= l[i * n + k] * x[k];
        x[i] /= l[i * n + i];
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++)
            x[i] -= l[k * n + i] * x[k];
        x[i] /= l[i * n + i];
    }
}

typedef struct problem {
    uint32_t np, n;
    const ccl_fit_parameter_t *prior;
    double noise, scale;
    ccl_fit_fn fn;
    void *user;
    double *r, *trial, *moved, *jacobian, *sorted; /* [n], [n], [n], [n np], [n] */
} problem_t;

static bool bounded(const ccl_fit_parameter_t *p) {
    return p->low < p->high;
}

static double robust_scale(problem_t *q, const double *r) {
    for (uint32_t i = 0; i < q->n; i++)
        q->sorted[i] = fabs(r[i]);
    qsort(q->sorted, q->n, sizeof *q->sorted, by_value);
    uint32_t m = q->n / 2;
    double median = q->n % 2 ? q->sorted[m] : (q->sorted[m - 1] + q->sorted[m]) / 2;
    return fmax(1.4826 * median, q->noise);
}

/* Huber's loss of all residuals and the prior's. */
static double loss(const problem_t *q, const double *r, const double *p) {
    double sum = 0;
    for (uint32_t i = 0; i < q->n; i++) {
        double z = fabs(r[i]) / q->scale;
        sum += z <= HUBER ? z * z : HUBER * (2 * z - HUBER);
    }
    for (uint32_t k = 0; k < q->np; k++) {
        double z = (p[k] - q->prior[k].value) / q->prior[k].spread;
        sum += z * z;
    }
    return sum;
}

static ccl_status_t derivatives(problem_t *q, const double *p, ccl_error_t *err) {
    double at[MAX_PARAMETERS];
    memcpy(at, p, q->np * sizeof *at);
    for (uint32_t k = 0; k < q->np; k++) {
        at[k] = p[k] + STEP;
        CCL_TRY(q->fn(at, q->moved, q->user, err));
        at[k] = p[k];
        for (uint32_t i = 0; i < q->n; i++)
            q->jacobian[i * q->np + k] = (q->moved[i] - q->r[i]) / STEP;
    }
    return CCL_OK;
}

/* Parameters at a bound that the points push beyond it stay there. */
static void hold_at_bounds(const problem_t *q, const double *p, bool *held, double *a, double *b) {
    for (uint32_t k = 0; k < q->np; k++) {
        const ccl_fit_parameter_t *about = &q->prior[k];
        held[k] = bounded(about) &&
                  ((p[k] <= about->low && b[k] < 0) || (p[k] >= about->high && b[k] > 0));
        if (!held[k])
            continue;
        for (uint32_t j = 0; j < q->np; j++)
            a[k * q->np + j] = a[j * q->np + k] = 0;
        a[k * q->np + k] = 1;
        b[k] = 0;
    }
}

static double clamped(const ccl_fit_parameter_t *about, double value) {
    return bounded(about) ? fmax(about->low, fmin(about->high, value)) : value;
}

/* Normal matrix and right side at p; damping adds to the diagonal. */
static void normal(const problem_t *q, const double *p, double damping, double *a, double *b) {
    uint32_t np = q->np;
    memset(a, 0, (size_t)np * np * sizeof *a);
    memset(b, 0, np * sizeof *b);
    for (uint32_t i = 0; i < q->n; i++) {
        double z = fabs(q->r[i]) / q->scale;
        double w = (z <= HUBER ? 1 : HUBER / z) / (q->scale * q->scale);
        const double *row = &q->jacobian[i * np];
        for (uint32_t k = 0; k < np; k++) {
            b[k] -= w * row[k] * q->r[i];
            for (uint32_t j = 0; j <= k; j++)
                a[k * np + j] += w * row[k] * row[j];
        }
    }
    for (uint32_t k = 0; k < np; k++) {
        double w = 1 / (q->prior[k].spread * q->prior[k].spread);
        a[k * np + k] += w;
        b[k] -= w * (p[k] - q->prior[k].value);
        a[k * np + k] *= 1 + damping;
        for (uint32_t j = k + 1; j < np; j++)
            a[k * np + j] = 0;
    }
    for (uint32_t k = 0; k < np; k++)
        for (uint32_t j = 0; j < k; j++)
            a[j * np + k] = a[k * np + j];
}

/* Slopes over an interval instead of at a point: where a constant ceases to matter on one side
 * (another limits there), what is known of it is less than its slope here says. */
static ccl_status_t secants(problem_t *q, const double *p, const double *width, ccl_error_t *err) {
    double at[MAX_PARAMETERS];
    memcpy(at, p, q->np * sizeof *at);
    for (uint32_t k = 0; k < q->np; k++) {
        double wide = fmax(STEP, fmin(width[k], q->prior[k].spread));
        double high = clamped(&q->prior[k], p[k] + wide), low = clamped(&q->prior[k], p[k] - wide);
        at[k] = high;
        CCL_TRY(q->fn(at, q->moved, q->user, err));
        at[k] = low;
        CCL_TRY(q->fn(at, q->trial, q->user, err));
        at[k] = p[k];
        for (uint32_t i = 0; i < q->n; i++)
            q->jacobian[i * q->np + k] = (q->moved[i] - q->trial[i]) / (high - low);
    }
    return CCL_OK;
}

/* One step down; false in *better: there is none. */
static ccl_status_t step_down(problem_t *q, double *p, double *damping, double *gain, bool *better,
                              ccl_error_t *err) {
    double a[MAX_PARAMETERS * MAX_PARAMETERS], b[MAX_PARAMETERS], next[MAX_PARAMETERS];
    double now = loss(q, q->r, p);
    bool held[MAX_PARAMETERS];
    *better = false;
    for (int tries = 0; tries < 8 && !*better; tries++) {
        normal(q, p, *damping, a, b);
        hold_at_bounds(q, p, held, a, b);
        if (cholesky(a, q->np)) {
            solve(a, q->np, b);
            for (uint32_t k = 0; k < q->np; k++) /* constants change at most e-fold a step */
                next[k] = clamped(&q->prior[k], p[k] + fmax(-1, fmin(1, b[k])));
            CCL_TRY(q->fn(next, q->trial, q->user, err));
            *gain = now - loss(q, q->trial, next);
            *better = *gain > 0;
        }
        *damping = *better ? fmax(*damping / 10, 1e-9) : *damping * 10;
    }
    if (!*better)
        return CCL_OK;
    memcpy(p, next, q->np * sizeof *p);
    memcpy(q->r, q->trial, q->n * sizeof *q->r);
    return CCL_OK;
}

static ccl_status_t descend(problem_t *q, double *p, uint32_t *iterations, ccl_error_t *err) {
    double damping = 1e-3;
    CCL_TRY(q->fn(p, q->r, q->user, err));
    for (*iterations = 0; *iterations < MAX_ITERATIONS; ++*iterations) {
        /* Far from the data every residual is large: that must not make the priors strong. */
        q->scale = fmin(robust_scale(q, q->r), MOST_NOISE * q->noise);
        double now = loss(q, q->r, p), gain = 0;
        bool better = false;
        CCL_TRY(derivatives(q, p, err));
        CCL_TRY(step_down(q, p, &damping, &gain, &better, err));
        if (!better || gain < 1e-4 * now + 1e-9)
            break;
    }
    /* Errors from the undamped curvature where it ended. */
    q->scale = robust_scale(q, q->r);
    return derivatives(q, p, err);
}

/*
 * Standard deviations at p from the curvature. The scale comes from residuals that the parameters
 * have made smaller: with as many parameters as points nothing is left of it.
 */
static void find_errors(const problem_t *q, const double *p, ccl_fit_parameter_t *out) {
    double a[MAX_PARAMETERS * MAX_PARAMETERS], b[MAX_PARAMETERS];
    bool held[MAX_PARAMETERS];
    double few = q->n > 2 * q->np ? sqrt((double)q->n / (q->n - q->np)) : sqrt(2);
    normal(q, p, 0, a, b);
    hold_at_bounds(q, p, held, a, b);
    bool regular = cholesky(a, q->np);
    for (uint32_t k = 0; k < q->np; k++) {
        memset(b, 0, sizeof b);
        b[k] = 1;
        if (regular)
            solve(a, q->np, b);
        out[k].error =
            regular && !held[k] ? fmin(q->prior[k].spread, few * sqrt(b[k])) : q->prior[k].spread;
        out[k].at_bound = held[k];
    }
}

ccl_status_t ccl_fit(uint32_t nparameters, ccl_fit_parameter_t *parameters, const double *start,
                     uint32_t npoints, double noise, ccl_fit_fn fn, void *user,
                     ccl_fit_result_t *out, ccl_error_t *err) {
    if (nparameters == 0 || nparameters > MAX_PARAMETERS || npoints == 0 || !(noise > 0))
        return ccl_fail(err, CCL_ERR_INPUT, "a fit needs 1 to %u parameters and some points",
                        MAX_PARAMETERS);
    problem_t q = {.np = nparameters,
                   .n = npoints,
                   .prior = parameters,
                   .noise = noise,
                   .fn = fn,
                   .user = user};
    double p[MAX_PARAMETERS];
    uint32_t iterations = 0;
    size_t n = npoints;
    double *memory = malloc(n * (nparameters + 4) * sizeof *memory);
    if (!memory)
        return ccl_fail_nomem(err);
    q.r = memory;
    q.trial = memory + n;
    q.moved = memory + 2 * n;
    q.sorted = memory + 3 * n;
    q.jacobian = memory + 4 * n;
    for (uint32_t k = 0; k < nparameters; k++)
        p[k] = clamped(&parameters[k], start ? start[k] : parameters[k].value);
    ccl_status_t status = descend(&q, p, &iterations, err);
    if (status == CCL_OK) {
        find_errors(&q, p, parameters);
        double width[MAX_PARAMETERS];
        for (uint32_t k = 0; k < nparameters; k++)
            width[k] = parameters[k].error;
        status = secants(&q, p, width, err);
    }
    if (status == CCL_OK) {
        ccl_fit_parameter_t wide[MAX_PARAMETERS];
        memcpy(wide, parameters, nparameters * sizeof *wide);
        find_errors(&q, p, wide);
        for (uint32_t k = 0; k < nparameters; k++) {
            parameters[k].error = fmax(parameters[k].error, wide[k].error);
            parameters[k].value = p[k];
        }
        *out = (ccl_fit_result_t){iterations, q.scale};
    }
    free(memory);
    return status;
}
