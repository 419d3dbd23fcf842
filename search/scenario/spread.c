/* What times over samples come to: quantiles, means, differences, each with how sure it is. */
#include "search/scenario/scenario.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double CONFIDENCE = 0.95;
static const double SIGMAS = 1.959963984540054; /* of the normal distribution for CONFIDENCE */
static const double TAIL = 0.95;                /* of cvar95 */

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Logarithm of the binomial probability of k out of n. */
static double log_binomial(uint32_t k, uint32_t n, double p) {
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) + k * log(p) +
           (n - k) * log1p(-p);
}

/* Index of the least value that a share of them does not exceed. */
static uint32_t place_of(uint32_t n, double p) {
    double at = ceil(p * n * (1 - 1e-12));
    return at < 1 ? 0 : (uint32_t)at - 1 < n ? (uint32_t)at - 1 : n - 1;
}

/* The interval [x_low, x_high] of order statistics misses the quantile on either side with at most
   half of what the confidence leaves (David and Nagaraja, Order Statistics, section 7.1). */
ccl_quantile_t ccl_quantile(const double *sorted_s, uint32_t n, double p) {
    ccl_quantile_t q = {NAN, NAN, NAN};
    if (n == 0)
        return q;
    q.value_s = sorted_s[place_of(n, p)];
    double half = (1 - CONFIDENCE) / 2, below = 0;
    for (uint32_t k = 0; k <= n; k++) { /* k values are below the quantile */
        below += exp(log_binomial(k, n, p));
        if (below <= half && k < n)
            q.low_s = sorted_s[k]; /* the quantile is below the (k+1)th with at most `half` */
        if (below >= 1 - half) {
            q.high_s = k < n ? sorted_s[k] : NAN;
            break;
        }
    }
    return q;
}

/* Times that were run, ascending; malloc'ed. */
static ccl_status_t sorted(const double *times_s, uint32_t n, double **out, uint32_t *n_out,
                           ccl_error_t *err) {
    double *list = malloc((n + (size_t)1) * sizeof *list);
    uint32_t got = 0;
    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(times_s[i]))
            list[got++] = times_s[i];
    qsort(list, got, sizeof *list, by_value);
    *out = list;
    *n_out = got;
    return CCL_OK;
}

/* Mean of the slowest share, of one at least. */
static double tail_mean(const double *sorted_s, uint32_t n, double level) {
    uint32_t first = (uint32_t)floor(level * n * (1 + 1e-12));
    double sum = 0;
    if (n == 0)
        return NAN;
    first = first < n ? first : n - 1;
    for (uint32_t i = first; i < n; i++)
        sum += sorted_s[i];
    return sum / (n - first);
}

static void moments(const double *values, uint32_t n, double *mean, double *deviation) {
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += values[i];
    *mean = n ? sum / n : NAN;
    for (uint32_t i = 0; i < n; i++)
        squares += (values[i] - *mean) * (values[i] - *mean);
    *deviation = n > 1 ? sqrt(squares / (n - 1)) : NAN;
}

ccl_status_t ccl_spread(const double *times_s, uint32_t n, ccl_spread_t *out, ccl_error_t *err) {
    double *list = NULL;
    uint32_t got = 0;
    CCL_TRY(sorted(times_s, n, &list, &got, err));
    uint32_t timed = got;
    while (timed > 0 && list[timed - 1] == INFINITY)
        timed--;
    *out = (ccl_spread_t){.n = got, .lost = got - timed};
    moments(list, timed, &out->mean_s, &out->sd_s);
    out->mean_ci_s = SIGMAS * out->sd_s / sqrt(timed);
    out->min_s = timed ? list[0] : NAN;
    out->max_s = timed ? list[timed - 1] : NAN;
    out->p50 = ccl_quantile(list, got, 0.5);
    out->p95 = ccl_quantile(list, got, 0.95);
    out->p99 = ccl_quantile(list, got, 0.99);
    out->cvar95_s = tail_mean(list, got, TAIL);
    for (uint32_t i = 0; i < CCL_SPREAD_QUANTILES; i++)
        out->quantile_s[i] = got ? list[place_of(got, i / (CCL_SPREAD_QUANTILES - 1.0))] : NAN;
    free(list);
    return CCL_OK;
}

/* ---------------------------------------------------------------- ranks */

ccl_status_t ccl_rank_parse(const char *text, ccl_rank_t *out, ccl_error_t *err) {
    static const struct {
        const char *prefix;
        ccl_rank_kind_t kind;
    } levels[] = {{"cvar", CCL_RANK_CVAR}, {"p", CCL_RANK_QUANTILE}};
    if (strcmp(text, "mean") == 0 || strcmp(text, "regret") == 0) {
        *out = (ccl_rank_t){text[0] == 'm' ? CCL_RANK_MEAN : CCL_RANK_REGRET, 0};
        return CCL_OK;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(levels); i++) {
        size_t len = strlen(levels[i].prefix);
        char *end = NULL;
        if (strncmp(text, levels[i].prefix, len) != 0)
            continue;
        double percent = strtod(text + len, &end);
        if (end == text + len || *end || !(percent > 0) || !(percent < 100))
            break;
        *out = (ccl_rank_t){levels[i].kind, percent / 100};
        return CCL_OK;
    }
    return ccl_fail(err, CCL_ERR_INPUT,
                    "\"%.40s\" is nothing to rank by: mean, p50, p99, cvar95 or regret", text);
}

ccl_status_t ccl_rank_value(ccl_rank_t rank, const double *times_s, const double *best_s,
                            uint32_t n, double *out, ccl_error_t *err) {
    double *list = NULL, deviation;
    uint32_t got = 0;
    if (rank.kind == CCL_RANK_REGRET) {
        *out = 0;
        for (uint32_t i = 0; i < n; i++)
            if (best_s[i] < INFINITY) /* where nobody has a time nobody is slower */
                *out = fmax(*out, times_s[i] - best_s[i]);
        return CCL_OK;
    }
    CCL_TRY(sorted(times_s, n, &list, &got, err));
    if (rank.kind == CCL_RANK_MEAN)
        moments(list, got, out, &deviation);
    else if (rank.kind == CCL_RANK_CVAR)
        *out = tail_mean(list, got, rank.level);
    else
        *out = got ? list[place_of(got, rank.level)] : NAN;
    free(list);
    return CCL_OK;
}

void ccl_paired(const double *a_s, const double *b_s, uint32_t n, ccl_paired_t *out) {
    double sum = 0, squares = 0;
    uint32_t wins = 0, ran = 0;
    *out = (ccl_paired_t){0};
    for (uint32_t i = 0; i < n; i++) {
        ran += !isnan(a_s[i]) && !isnan(b_s[i]);
        wins += a_s[i] < b_s[i];
        if (!isfinite(a_s[i]) || !isfinite(b_s[i]))
            continue;
        out->n++;
        sum += a_s[i] - b_s[i];
    }
    out->mean_s = out->n ? sum / out->n : NAN;
    for (uint32_t i = 0; i < n; i++)
        if (isfinite(a_s[i]) && isfinite(b_s[i])) {
            double off = a_s[i] - b_s[i] - out->mean_s;
            squares += off * off;
        }
    out->ci_s = out->n > 1 ? SIGMAS * sqrt(squares / (out->n - 1) / out->n) : NAN;
    out->wins = ran ? (double)wins / ran : NAN;
}
