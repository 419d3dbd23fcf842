/* Random splits: sums are exact, limits hold, the makespan is that of the best of all splits, and
   proportional shares are rounded by less than one. */
#include <math.h>
#include <stdlib.h>

#include "tests/base/main.h"
#include "training/training.h"

/* The least makespan of all ways to give `left` to workers i ... */
static double brute(const double *speeds, const uint64_t *most, uint32_t n, uint32_t i,
                    uint64_t left, double so_far, double best) {
    if (so_far >= best)
        return best;
    if (i + 1 == n)
        return left > most[i] ? best : fmin(best, fmax(so_far, (double)left / speeds[i]));
    for (uint64_t b = 0; b <= left && b <= most[i]; b++)
        best = brute(speeds, most, n, i + 1, left - b, fmax(so_far, (double)b / speeds[i]), best);
    return best;
}

static uint64_t sum(const uint64_t *values, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += values[i];
    return total;
}

START_TEST(test_small) {
    ccl_rng_t rng;
    uint32_t split = 0;

    ccl_rng_init(&rng, 7);
    for (int round = 0; round < 1200; round++) {
        uint32_t n = 1 + ccl_rng_below(&rng, 5);
        uint64_t total = ccl_rng_below(&rng, 21), room = 0, most[5], out[3][5];
        double speeds[5], all = 0;
        bool limited = ccl_rng_below(&rng, 2);

        for (uint32_t i = 0; i < n; i++) {
            speeds[i] = ccl_rng_below(&rng, 3) ? 1 + ccl_rng_below(&rng, 9)
                                               : pow(10, 4 * ccl_rng_unit(&rng) - 2);
            most[i] = limited ? ccl_rng_below(&rng, 12) : CCL_BALANCE_ANY;
            room += most[i] < total ? most[i] : total;
            all += speeds[i];
        }
        for (uint32_t rule = 0; rule < 3; rule++) {
            ccl_status_t status =
                ccl_balance(speeds, most, n, total, (ccl_balance_rule_t)rule, out[rule], NULL);
            ck_assert_int_eq(status, room < total ? CCL_INFEASIBLE : CCL_OK);
            if (status != CCL_OK)
                continue;
            ck_assert_uint_eq(sum(out[rule], n), total);
            for (uint32_t i = 0; i < n; i++)
                ck_assert(out[rule][i] <= most[i]);
        }
        if (room < total)
            continue;
        split++;
        ck_assert_double_eq_tol(ccl_balance_makespan_s(speeds, out[CCL_BALANCE_MAKESPAN], n),
                                brute(speeds, most, n, 0, total, 0, INFINITY),
                                1e-9 * (double)(total + 1));
        for (uint32_t i = 0; !limited && i < n; i++)
            ck_assert_double_lt(
                fabs((double)out[CCL_BALANCE_REMAINDER][i] - (double)total * speeds[i] / all), 1);
    }
    ck_assert_uint_gt(split, 600);
}
END_TEST

/* Many workers: sums stay exact, and scaling all speeds changes nothing. */
START_TEST(test_large) {
    enum { N = 800 };
    static double speeds[N], scaled[N];
    static uint64_t a[N], b[N];
    ccl_rng_t rng;

    ccl_rng_init(&rng, 11);
    for (int round = 0; round < 5; round++) {
        uint64_t total = (uint64_t)CCL_BALANCE_MOST_TOTAL >> (6 * round);
        for (uint32_t i = 0; i < N; i++) {
            speeds[i] = 0.1 + ccl_rng_unit(&rng);
            scaled[i] = 1024 * speeds[i];
        }
        for (uint32_t rule = 0; rule < 3; rule++) {
            ck_assert_int_eq(ccl_balance(speeds, NULL, N, total, (ccl_balance_rule_t)rule, a, NULL),
                             CCL_OK);
            ck_assert_int_eq(ccl_balance(scaled, NULL, N, total, (ccl_balance_rule_t)rule, b, NULL),
                             CCL_OK);
            ck_assert_uint_eq(sum(a, N), total);
            for (uint32_t i = 0; i < N; i++)
                ck_assert_uint_eq(a[i], b[i]);
        }
    }
}
END_TEST

RUN_TESTS(test_small, test_large)
