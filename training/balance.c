/* Whole micro-batches in proportion to speed, within limits. */
#include "training/training.h"

#include <math.h>
#include <stdlib.h>

/* Quotients of doubles that differ by no more are equal. */
static const double NEAR = 1e-9;

const char *ccl_balance_rule_name(ccl_balance_rule_t rule) {
    static const char *const names[] = {"remainder", "makespan", "equal"};
    return names[rule];
}

double ccl_balance_makespan_s(const double *speeds_per_s, const uint64_t *batches, uint32_t n) {
    double longest = 0;
    for (uint32_t i = 0; i < n; i++)
        longest = fmax(longest, (double)batches[i] / speeds_per_s[i]);
    return longest;
}

typedef struct split {
    const double *speeds; /* NULL: all alike */
    const uint64_t *most; /* NULL: no limits */
    uint32_t n;
    bool *full;    /* [n] at its limit */
    double *quota; /* [n] of those that are not */
    uint64_t *out; /* [n] */
    uint64_t left; /* not given out */
} split_t;

static double speed(const split_t *s, uint32_t i) {
    return s->speeds ? s->speeds[i] : 1;
}

static uint64_t most(const split_t *s, uint32_t i) {
    return s->most ? s->most[i] : CCL_BALANCE_ANY;
}

/* Shares of those below their limits. A share only grows when another is cut to its limit, so who
   is cut stays cut. */
static void fill(split_t *s) {
    for (bool again = true; again;) {
        double sum = 0;
        uint64_t left = s->left;
        again = false;
        for (uint32_t i = 0; i < s->n; i++)
            sum += s->full[i] ? 0 : speed(s, i);
        for (uint32_t i = 0; i < s->n; i++) {
            if (s->full[i])
                continue;
            s->quota[i] = (double)left * (speed(s, i) / sum);
            if (most(s, i) == CCL_BALANCE_ANY || s->quota[i] < (double)most(s, i))
                continue;
            s->full[i] = true;
            s->out[i] = most(s, i);
            s->left -= most(s, i);
            again = true;
        }
    }
}

/* Before it gets one more: less is sooner its turn. */
static double claim(const split_t *s, uint32_t i, ccl_balance_rule_t rule) {
    return rule == CCL_BALANCE_MAKESPAN ? (double)(s->out[i] + 1) / speed(s, i)
                                        : (double)s->out[i] - s->quota[i];
}

/* The rest, fewer than workers, one by one. With the times that they lead to as claims this is the
   least makespan: at that of the fractions all floors are within it. */
static void round_up(split_t *s, ccl_balance_rule_t rule) {
    while (s->left > 0) {
        uint32_t best = CCL_NONE;
        double least = 0;
        for (uint32_t i = 0; i < s->n; i++) {
            double c;
            if (s->full[i] || s->out[i] >= most(s, i))
                continue;
            c = claim(s, i, rule);
            if (best == CCL_NONE || c < least - NEAR * fmax(1, fabs(least))) {
                least = c;
                best = i;
            }
        }
        s->out[best]++;
        s->left--;
    }
}

static ccl_status_t check(const double *speeds, const uint64_t *limits, uint32_t n, uint64_t total,
                          ccl_error_t *err) {
    uint64_t room = 0;
    if (n == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "no worker: at least one is needed");
    if (total > CCL_BALANCE_MOST_TOTAL)
        return ccl_fail(err, CCL_ERR_INPUT, "at most %u micro-batches a step", UINT32_MAX);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t here = limits && limits[i] < total ? limits[i] : total;
        if (!isfinite(speeds[i]) || !(speeds[i] > 0))
            return ccl_fail(err, CCL_ERR_INPUT,
                            "worker %u has speed %g: a number greater than 0 is needed", i,
                            speeds[i]);
        room += here;
    }
    if (room < total)
        return ccl_fail(err, CCL_INFEASIBLE,
                        "%llu micro-batches do not fit: memory and limits leave room for %llu",
                        (unsigned long long)total, (unsigned long long)room);
    return CCL_OK;
}

ccl_status_t ccl_balance(const double *speeds_per_s, const uint64_t *limits, uint32_t n,
                         uint64_t total, ccl_balance_rule_t rule, uint64_t *out, ccl_error_t *err) {
    split_t s = {.speeds = rule == CCL_BALANCE_EQUAL ? NULL : speeds_per_s,
                 .most = limits,
                 .n = n,
                 .out = out,
                 .left = total};
    CCL_TRY(check(speeds_per_s, limits, n, total, err));
    s.full = calloc(n, sizeof *s.full);
    s.quota = calloc(n, sizeof *s.quota);
    if (!s.full || !s.quota) {
        free(s.full);
        free(s.quota);
        return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < n; i++)
        out[i] = 0;
    fill(&s);
    for (uint32_t i = 0; i < n; i++) {
        if (s.full[i])
            continue;
        out[i] = (uint64_t)floor(s.quota[i] + NEAR);
        s.left -= out[i];
    }
    round_up(&s, rule);
    free(s.full);
    free(s.quota);
    return CCL_OK;
}
