/*
 * AllReduce bounds where switches multicast and reduce, against the best of all plans. Three GPUs
 * on one switch, or on two of which the second does neither. A plan takes one element step by step,
 * every message plain, multicast or reducing, until every GPU knows all; a linear program mixes
 * plans. Knowledge is a set here, so that no real plan is left out: the bound must hold even then.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"
#include "tests/topologies/topologies.h"

enum { N = 3, KNOWN = 1 << (N * N), LOADS = 729, SECOND = 64, MOST_PLANS = 20000 };

/* Links: 0..2 out of, 3..5 into the GPUs at the first switch, 6..11 at the second. */
typedef struct plans {
    uint8_t (*load)[12];
    uint32_t n;
} plans_t;

typedef struct op {
    uint8_t load[12];
    uint32_t from, to; /* sets of GPUs */
} op_t;

static uint32_t list_ops(bool multicast, bool reduce, bool second, op_t *ops) {
    uint32_t n = 0;
    for (uint32_t plane = 0; plane <= second; plane++) {
        for (uint32_t from = 1; from < 1u << N; from++) {
            for (uint32_t to = 1; to < 1u << N; to++) {
                bool many_from = (from & (from - 1)) != 0, many_to = (to & (to - 1)) != 0;
                if ((many_from && many_to) || (from & to) || (many_from && (plane || !reduce)) ||
                    (many_to && (plane || !multicast)))
                    continue;
                op_t *op = &ops[n++];
                memset(op, 0, sizeof *op);
                op->from = from;
                op->to = to;
                for (uint32_t g = 0; g < N; g++) {
                    op->load[plane * 6 + g] = from >> g & 1;
                    op->load[plane * 6 + 3 + g] = to >> g & 1;
                }
            }
        }
    }
    return n;
}

static uint32_t apply(uint32_t known, const op_t *op) {
    uint32_t sum = 0;
    for (uint32_t g = 0; g < N; g++)
        sum |= op->from >> g & 1 ? known >> (N * g) & 7 : 0;
    for (uint32_t g = 0; g < N; g++)
        known |= op->to >> g & 1 ? sum << (N * g) : 0;
    return known;
}

/* All loads of plans with at most 2 messages a link at the first switch, 1 at the second. */
static plans_t all_plans(bool multicast, bool reduce, bool second) {
    static op_t ops[64];
    uint32_t nops = list_ops(multicast, reduce, second, ops), loads = LOADS * SECOND, nstack = 0;
    uint8_t *seen = calloc((size_t)KNOWN * loads / 8, 1);
    uint32_t *stack = malloc((size_t)1 << 28);
    plans_t out = {malloc(sizeof *out.load * MOST_PLANS), 0};
    ck_assert(seen && stack && out.load);
    uint32_t start = 1u | 2u << N | 4u << (2 * N);
    stack[nstack++] = start * loads;
    while (nstack > 0) {
        uint32_t at = stack[--nstack], known = at / loads, code = at % loads;
        uint8_t load[12];
        for (uint32_t l = 0; l < 12; l++) {
            load[l] = (uint8_t)(l < 6 ? code % 3 : code % 2);
            code /= l < 6 ? 3 : 2;
        }
        if (known == KNOWN - 1) {
            ck_assert_uint_lt(out.n, MOST_PLANS);
            memcpy(out.load[out.n++], load, 12);
            continue;
        }
        for (uint32_t o = 0; o < nops; o++) {
            uint32_t next = apply(known, &ops[o]), sum = 0;
            bool fits = next != known;
            for (uint32_t l = 12; l-- > 0;) {
                uint32_t x = load[l] + ops[o].load[l];
                fits = fits && x < (l < 6 ? 3u : 2u);
                sum = sum * (l < 6 ? 3 : 2) + x;
            }
            uint32_t to = next * loads + sum;
            if (!fits || seen[to / 8] >> (to % 8) & 1)
                continue;
            seen[to / 8] |= (uint8_t)(1u << (to % 8));
            ck_assert_uint_lt(nstack, 1u << 26);
            stack[nstack++] = to;
        }
    }
    free(seen);
    free(stack);
    return out;
}

/* Only plans that no other plan beats on every link. */
static void keep_least(plans_t *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        bool beaten = false;
        for (uint32_t j = 0; j < p->n && !beaten; j++) {
            bool less = true, same = true;
            for (uint32_t l = 0; l < 12; l++) {
                less = less && p->load[j][l] <= p->load[i][l];
                same = same && p->load[j][l] == p->load[i][l];
            }
            beaten = less && (!same || j < i);
        }
        if (!beaten)
            memmove(p->load[n++], p->load[i], 12);
    }
    p->n = n;
}

/* Least time of an element over mixtures of plans. */
static double optimum(const plans_t *p, const double *rate) {
    double rows[13] = {0};
    rows[12] = 1;
    ccl_lp_t *lp = ccl_lp_create(13, rows, 1000);
    memset(rows, 0, sizeof rows);
    for (uint32_t l = 0; l < 12; l++)
        rows[l] = rate[l];
    ccl_lp_column(lp, 1, rows);
    memset(rows, 0, sizeof rows);
    for (uint32_t l = 0; l < 12; l++) {
        rows[l] = -1;
        ccl_lp_column(lp, 0, rows);
        rows[l] = 0;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        for (uint32_t l = 0; l < 12; l++)
            rows[l] = -(double)p->load[i][l];
        rows[12] = 1;
        ccl_lp_column(lp, 0, rows);
    }
    ck_assert(ccl_lp_solve(lp));
    double value = ccl_lp_value(lp);
    ccl_lp_destroy(lp);
    return value;
}

static double bound_of(const double *rate, bool multicast, bool reduce, bool second) {
    ccl_error_t e = CCL_ERROR_INIT;
    ccl_topology_builder_t *b = ccl_topology_builder_create("planes");
    const ccl_device_t can = {
        .multicast = multicast, .reduce = reduce, .reduce_rate_Bps = INFINITY};
    for (uint32_t v = 0; v < N + 1u + second; v++) {
        char id[16];
        snprintf(id, sizeof id, "d%u", v);
        ck_assert_int_eq(ccl_topology_builder_device(b, id,
                                                     v < N ? CCL_DEVICE_GPU : CCL_DEVICE_SWITCH,
                                                     NULL, v < N ? v : CCL_NONE, NULL, NULL, &e),
                         CCL_OK);
    }
    ck_assert_int_eq(ccl_topology_builder_abilities(b, N, &can, &e), CCL_OK);
    for (uint32_t l = 0; l < (second ? 12u : 6u); l++) {
        uint32_t g = l % 3, w = N + l / 6;
        bool in = l / 3 % 2;
        ck_assert_int_eq(ccl_topology_builder_link(b, in ? w : g, in ? g : w, "nvlink",
                                                   rate[l] * 1e9, 1e-6, 1, 0, &e),
                         CCL_OK);
    }
    ccl_topology_t *t = NULL;
    ck_assert_int_eq(ccl_topology_builder_finish(b, &t, &e), CCL_OK);
    ccl_topology_builder_destroy(b);
    ccl_collective_t *coll = NULL;
    ccl_bound_t bound;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, N, 1, 0, &coll, &e), CCL_OK);
    ck_assert_int_eq(ccl_bound(NULL, t, coll, NULL, &bound, &e), CCL_OK);
    double Bps = bound.bandwidth.Bps;
    ccl_bound_fini(&bound);
    ccl_collective_destroy(coll);
    ccl_topology_destroy(t);
    return 1e9 / Bps;
}

/* The bound is no more than the best mixture, and equal on one switch of equal links. */
START_TEST(no_plan_is_faster) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 5);
    for (uint32_t can = 0; can < 8; can++) {
        bool multicast = can & 1, reduce = can >> 1 & 1, second = can >> 2;
        plans_t p = all_plans(multicast, reduce, second);
        keep_least(&p);
        ck_assert_uint_gt(p.n, 0);
        for (int round = 0; round < 40; round++) {
            double rate[12];
            for (uint32_t l = 0; l < 12; l++)
                rate[l] = round == 0 ? 1 : 1 + ccl_rng_below(&rng, 6);
            double best = optimum(&p, rate), bound = bound_of(rate, multicast, reduce, second);
            ck_assert_msg(bound <= best * (1 + 1e-9), "abilities %u, round %d: %g, best %g", can,
                          round, bound, best);
            if (round == 0 && !second) {
                ck_assert_double_eq_tol(bound, multicast && reduce ? 1 : 4.0 / 3, 1e-9);
                ck_assert_double_eq_tol(best, bound, 1e-9);
            }
        }
        free(p.load);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("switch_bounds");
    TCase *tc = tcase_create("switch_bounds");
    tcase_set_timeout(tc, 110);
    tcase_add_test(tc, no_plan_is_faster);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
