/* What a tuning has shown: fronts of time against what it costs, and what knobs are worth. */
#include "search/tune/tune.h"

#include <math.h>
#include <stdlib.h>

typedef struct costed {
    double cost, time_s;
    uint32_t run;
} costed_t;

static int by_cost(const void *a, const void *b) {
    const costed_t *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->run < y->run ? -1 : x->run > y->run;
}

static bool timed(const ccl_tune_run_t *run) {
    return !run->estimate && run->result.status == CCL_OK;
}

ccl_status_t ccl_tuning_front(const ccl_tuning_t *tuning, uint32_t size, ccl_front_t front,
                              uint32_t **out, uint32_t *n_out, ccl_error_t *err) {
    costed_t *list = malloc(((size_t)tuning->nruns + 1) * sizeof *list);
    uint32_t *kept = malloc(((size_t)tuning->nruns + 1) * sizeof *kept);
    uint32_t n = 0, nkept = 0;
    double least_s = INFINITY;
    if (!list || !kept) {
        free(list);
        free(kept);
        return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < tuning->nruns; i++) {
        const ccl_tune_run_t *run = &tuning->runs[i];
        if (run->size == size && timed(run))
            list[n++] = (costed_t){front == CCL_FRONT_BLOCKS ? run->result.thread_blocks
                                                             : run->result.synth_s,
                                   run->result.time_s, i};
    }
    qsort(list, n, sizeof *list, by_cost);
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].time_s >= least_s)
            continue;
        least_s = list[i].time_s;
        kept[nkept++] = list[i].run;
    }
    free(list);
    *out = kept;
    *n_out = nkept;
    return CCL_OK;
}

/* ---------------------------------------------------------------- knobs */

static bool same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y))
        return isnan(y) - isnan(x);
    return x < y ? -1 : x > y;
}

/* Values of a knob that were run, ascending, auto first; malloc'ed. */
static ccl_status_t values_of(const ccl_tuning_t *t, uint32_t knob, double **out, uint32_t *n_out,
                              ccl_error_t *err) {
    double *values = malloc(((size_t)t->nruns + 1) * sizeof *values);
    uint32_t n = 0, kept = 0;
    if (!values)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < t->nruns; i++)
        if (timed(&t->runs[i]))
            values[n++] = t->points[t->runs[i].point].values[knob];
    qsort(values, n, sizeof *values, by_value);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || !same(values[i], values[kept - 1]))
            values[kept++] = values[i];
    *out = values;
    *n_out = kept;
    return CCL_OK;
}

static ccl_status_t worth_of(const ccl_tuning_t *t, ccl_knob_t knob, double value,
                             ccl_knob_worth_t *out, ccl_error_t *err) {
    double *least_s = malloc(((size_t)t->nsizes + 1) * sizeof *least_s);
    double sum = 0;
    uint32_t sizes = 0;
    if (!least_s)
        return ccl_fail_nomem(err);
    *out = (ccl_knob_worth_t){.knob = knob, .value = value};
    for (uint32_t s = 0; s < t->nsizes; s++)
        least_s[s] = INFINITY;
    for (uint32_t i = 0; i < t->nruns; i++) {
        const ccl_tune_run_t *run = &t->runs[i];
        if (!timed(run) || !same(t->points[run->point].values[knob], value))
            continue;
        least_s[run->size] = fmin(least_s[run->size], run->result.time_s);
        out->best_sizes += t->best[run->size] == i;
        out->runs++;
    }
    for (uint32_t s = 0; s < t->nsizes; s++) {
        if (!isfinite(least_s[s]) || t->best[s] == CCL_NONE)
            continue;
        sum += log(least_s[s] / t->runs[t->best[s]].result.time_s);
        sizes++;
    }
    out->slowdown = sizes ? exp(sum / sizes) : NAN;
    free(least_s);
    return CCL_OK;
}

ccl_status_t ccl_tuning_sensitivity(const ccl_tuning_t *tuning, ccl_knob_worth_t **out,
                                    uint32_t *n_out, ccl_error_t *err) {
    ccl_knob_worth_t *list = NULL;
    size_t cap = 0;
    uint32_t n = 0;
    ccl_status_t status = CCL_OK;
    for (uint32_t k = 0; k < CCL_KNOBS && status == CCL_OK; k++) {
        double *values = NULL;
        uint32_t nvalues = 0;
        status = values_of(tuning, k, &values, &nvalues, err);
        for (uint32_t v = 0; v < nvalues && nvalues > 1 && status == CCL_OK; v++) {
            if (!ccl_grow(&list, &cap, n + 1u, sizeof *list))
                status = ccl_fail_nomem(err);
            else
                status = worth_of(tuning, (ccl_knob_t)k, values[v], &list[n++], err);
        }
        free(values);
    }
    if (status != CCL_OK) {
        free(list);
        return status;
    }
    *out = list;
    *n_out = n;
    return CCL_OK;
}
