/*
 * A small linear program that grows by columns: revised simplex with a dense inverse, which is
 * computed afresh now and then. Bland's rule takes over when the value stands still.
 *
 * GLPK would have to run in a child process for each, which costs 14 times as much (decision 76).
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

enum { REFRESH = 120, STALL = 200, MOST_PIVOTS = 200000 };
#define TOLERANCE 1e-10

struct ccl_lp {
    uint32_t nrows, ncolumns; /* the first nrows columns are artificial */
    double *rhs, *inverse;    /* [nrows]; [nrows][nrows] */
    double *entries, *cost;   /* [ncolumns][nrows]; [ncolumns] */
    size_t cap_entries, cap_cost;
    uint32_t *basis; /* [nrows] column */
    uint8_t *basic;  /* [ncolumns] */
    size_t cap_basic;
    double *x, *duals, *step; /* [nrows] */
    double *work;             /* [nrows][2 nrows] */
    uint32_t since;
};

ccl_lp_t *ccl_lp_create(uint32_t nrows, const double *rhs, double big) {
    ccl_lp_t *lp = calloc(1, sizeof *lp);
    size_t n = nrows;
    if (!lp)
        return NULL;
    lp->nrows = nrows;
    lp->rhs = malloc(n * sizeof *lp->rhs);
    lp->inverse = calloc(n * n, sizeof *lp->inverse);
    lp->basis = malloc(n * sizeof *lp->basis);
    lp->x = malloc(n * sizeof *lp->x);
    lp->duals = calloc(n, sizeof *lp->duals);
    lp->step = malloc(n * sizeof *lp->step);
    lp->work = malloc(2 * n * n * sizeof *lp->work);
    double *unit = calloc(n, sizeof *unit);
    bool ok =
        lp->rhs && lp->inverse && lp->basis && lp->x && lp->duals && lp->step && lp->work && unit;
    for (uint32_t i = 0; ok && i < nrows; i++) {
        unit[i] = 1;
        ok = ccl_lp_column(lp, big, unit) != CCL_NONE;
        unit[i] = 0;
        lp->rhs[i] = lp->x[i] = rhs[i];
        lp->inverse[i * n + i] = 1;
        lp->basis[i] = i;
        if (ok)
            lp->basic[i] = 1;
    }
    free(unit);
    if (!ok) {
        ccl_lp_destroy(lp);
        return NULL;
    }
    return lp;
}

void ccl_lp_destroy(ccl_lp_t *lp) {
    if (!lp)
        return;
    free(lp->rhs);
    free(lp->inverse);
    free(lp->entries);
    free(lp->cost);
    free(lp->basis);
    free(lp->basic);
    free(lp->x);
    free(lp->duals);
    free(lp->step);
    free(lp->work);
    free(lp);
}

uint32_t ccl_lp_column(ccl_lp_t *lp, double cost, const double *entries) {
    size_t n = lp->nrows, c = lp->ncolumns;
    if (!ccl_grow(&lp->entries, &lp->cap_entries, (c + 1) * n, sizeof *lp->entries) ||
        !ccl_grow(&lp->cost, &lp->cap_cost, c + 1, sizeof *lp->cost) ||
        !ccl_grow(&lp->basic, &lp->cap_basic, c + 1, sizeof *lp->basic))
        return CCL_NONE;
    memcpy(lp->entries + c * n, entries, n * sizeof *entries);
    lp->cost[c] = cost;
    lp->basic[c] = 0;
    return lp->ncolumns++;
}

/* The inverse of the basis by Gauss-Jordan with row pivots; false: singular. */
static bool refresh(ccl_lp_t *lp) {
    size_t n = lp->nrows, w = 2 * n;
    double *m = lp->work;
    memset(m, 0, n * w * sizeof *m);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++)
            m[i * w + k] = lp->entries[lp->basis[k] * n + i];
        m[i * w + n + i] = 1;
    }
    for (size_t k = 0; k < n; k++) {
        size_t best = k;
        for (size_t i = k + 1; i < n; i++)
            best = fabs(m[i * w + k]) > fabs(m[best * w + k]) ? i : best;
        if (fabs(m[best * w + k]) < 1e-13)
            return false;
        for (size_t j = k; best != k && j < w; j++) {
            double t = m[k * w + j];
            m[k * w + j] = m[best * w + j];
            m[best * w + j] = t;
        }
        double pivot = 1 / m[k * w + k];
        for (size_t j = k; j < w; j++)
            m[k * w + j] *= pivot;
        for (size_t i = 0; i < n; i++) {
            double f = m[i * w + k];
            if (i == k || f == 0)
                continue;
            for (size_t j = k; j < w; j++)
                m[i * w + j] -= f * m[k * w + j];
        }
    }
    for (size_t i = 0; i < n; i++)
        memcpy(lp->inverse + i * n, m + i * w + n, n * sizeof *m);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += lp->inverse[i * n + k] * lp->rhs[k];
        lp->x[i] = sum > 0 ? sum : 0;
    }
    lp->since = 0;
    return true;
}

static void price(ccl_lp_t *lp) {
    size_t n = lp->nrows;
    memset(lp->duals, 0, n * sizeof *lp->duals);
    for (size_t i = 0; i < n; i++) {
        double c = lp->cost[lp->basis[i]];
        for (size_t k = 0; c != 0 && k < n; k++)
            lp->duals[k] += c * lp->inverse[i * n + k];
    }
}

static double reduced(const ccl_lp_t *lp, uint32_t c) {
    const double *a = lp->entries + (size_t)c * lp->nrows;
    double sum = lp->cost[c];
    for (size_t k = 0; k < lp->nrows; k++)
        sum -= lp->duals[k] * a[k];
    return sum;
}

/* The row that leaves for column c; CCL_NONE: none limits it. Fills step. */
static uint32_t leave(ccl_lp_t *lp, uint32_t c, bool careful) {
    size_t n = lp->nrows;
    const double *a = lp->entries + (size_t)c * n;
    uint32_t row = CCL_NONE;
    double least = DBL_MAX;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += lp->inverse[i * n + k] * a[k];
        lp->step[i] = sum;
        if (sum <= 1e-11)
            continue;
        double ratio = lp->x[i] / sum;
        bool better = row == CCL_NONE || ratio < least - 1e-13;
        if (!better && ratio < least + 1e-13)
            better = careful ? lp->basis[i] < lp->basis[row] : sum > lp->step[row];
        if (better) {
            least = ratio < least ? ratio : least;
            row = (uint32_t)i;
        }
    }
    return row;
}

static void pivot(ccl_lp_t *lp, uint32_t row, uint32_t c) {
    size_t n = lp->nrows;
    double by = lp->step[row], amount = lp->x[row] / by;
    for (size_t k = 0; k < n; k++)
        lp->inverse[row * n + k] /= by;
    for (size_t i = 0; i < n; i++) {
        double f = lp->step[i];
        if (i == row || f == 0)
            continue;
        for (size_t k = 0; k < n; k++)
            lp->inverse[i * n + k] -= f * lp->inverse[row * n + k];
        lp->x[i] -= f * amount;
        if (lp->x[i] < 0)
            lp->x[i] = 0;
    }
    lp->x[row] = amount;
    lp->basic[lp->basis[row]] = 0;
    lp->basic[c] = 1;
    lp->basis[row] = c;
    lp->since++;
}

bool ccl_lp_solve(ccl_lp_t *lp) {
    double last = DBL_MAX;
    uint32_t stall = 0;
    for (uint32_t round = 0; round < MOST_PIVOTS; round++) {
        if (lp->since >= REFRESH && !refresh(lp))
            return false;
        price(lp);
        bool careful = stall > STALL;
        uint32_t enter = CCL_NONE;
        double least = -TOLERANCE;
        for (uint32_t c = lp->nrows; c < lp->ncolumns; c++) {
            if (lp->basic[c])
                continue;
            double d = reduced(lp, c);
            if (d < least) {
                enter = c;
                least = d;
                if (careful)
                    break;
            }
        }
        if (enter == CCL_NONE)
            return true;
        uint32_t row = leave(lp, enter, careful);
        if (row == CCL_NONE)
            return false;
        pivot(lp, row, enter);
        double value = ccl_lp_value(lp);
        stall = value < last * (1 - 1e-12) ? 0 : stall + 1;
        last = value;
    }
    return false;
}

double ccl_lp_value(const ccl_lp_t *lp) {
    double sum = 0;
    for (uint32_t i = 0; i < lp->nrows; i++)
        sum += lp->cost[lp->basis[i]] * lp->x[i];
    return sum;
}

const double *ccl_lp_duals(const ccl_lp_t *lp) {
    return lp->duals;
}

double ccl_lp_x(const ccl_lp_t *lp, uint32_t column) {
    for (uint32_t i = 0; i < lp->nrows; i++) {
        if (lp->basis[i] == column)
            return lp->x[i];
    }
    return 0;
}
