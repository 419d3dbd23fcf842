/*
 * The proof "domains" of AllReduce bounds, against all plans of four and five GPUs. Its certificate
 * is a length of each link, and the least sum of lengths that an element of any plan passes. Plans
 * go step by step, every message plain, multicast or reducing, until every GPU knows all;
 * knowledge is a set here, so that no real plan is left out.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"
#include "tests/base/main.h"
#include "tests/topologies/topologies.h"

enum { MOST_GPUS = 5, MOST_COST = 400, MOST_OPS = 256 };

/** GPUs of domain 0, of domain 1, and of none; all are on a plain switch too. */
typedef struct row {
    uint32_t gpus[3];
    uint32_t bridge;          /* GPU of domain 0 that is on the switch of domain 1 too; 0: none */
    double inside, past, far; /* GB/s of a GPU's link to its switch, of one of domain 0 to the plain
                                 switch, of others to it */
    bool multicast, reduce;
    ccl_bound_proof_t proof;
    double distance, least; /* what an element passes at least: proven, and by the best plan */
} row_t;

typedef struct op {
    uint32_t from, to; /* sets of GPUs */
    uint32_t cost;
} op_t;

static uint32_t domain_of(const row_t *row, uint32_t g) {
    return g < row->gpus[0] ? 0 : g < row->gpus[0] + row->gpus[1] ? 1 : 2;
}

/* Link between GPU g and the switch of a domain. @param side  0: to the switch, 1: from it */
static uint32_t link_of(const row_t *row, uint32_t n, uint32_t g, uint32_t domain, uint32_t side) {
    return domain_of(row, g) == domain                      ? 4 * g + 2 + side
           : row->bridge && row->bridge == g && domain == 1 ? 4 * n + side
                                                            : CCL_NONE;
}

/* Links 4 g .. 4 g + 3 of GPU g: to the plain switch and back, to its own switch and back; then
   those of the bridge to the switch of domain 1. */
static ccl_topology_t *make(const row_t *row, uint32_t n) {
    ccl_error_t e = CCL_ERROR_INIT;
    ccl_topology_builder_t *b = ccl_topology_builder_create("domains");
    const ccl_device_t can = {
        .multicast = row->multicast, .reduce = row->reduce, .reduce_rate_Bps = INFINITY};
    for (uint32_t v = 0; v < n + 3; v++) {
        char id[16];
        snprintf(id, sizeof id, "d%u", v);
        ck_assert_int_eq(ccl_topology_builder_device(b, id,
                                                     v < n ? CCL_DEVICE_GPU : CCL_DEVICE_SWITCH,
                                                     NULL, v < n ? v : CCL_NONE, NULL, NULL, &e),
                         CCL_OK);
    }
    for (uint32_t d = 0; d < 2; d++)
        ck_assert_int_eq(ccl_topology_builder_abilities(b, n + d, &can, &e), CCL_OK);
    for (uint32_t l = 0; l < 4 * n + (row->bridge ? 2 : 0); l++) {
        uint32_t g = l < 4 * n ? l / 4 : row->bridge, own = domain_of(row, g);
        uint32_t w = l >= 4 * n ? n + 1 : l % 4 < 2 ? n + 2 : n + own;
        double rate = l < 4 * n && l % 4 < 2 ? (own == 0 ? row->past : row->far)
                      : own == 2             ? 1e-3
                                             : row->inside;
        ck_assert_int_eq(ccl_topology_builder_link(b, l % 2 ? w : g, l % 2 ? g : w, "nvlink",
                                                   rate * 1e9, 1e-6, 1, 0, &e),
                         CCL_OK);
    }
    ccl_topology_t *t = NULL;
    ck_assert_int_eq(ccl_topology_builder_finish(b, &t, &e), CCL_OK);
    ccl_topology_builder_destroy(b);
    return t;
}

/* Messages through a domain's switch, to or from sets, and past it. @param scale  of lengths */
static uint32_t list_ops(const row_t *row, uint32_t n, const double *lengths, double scale,
                         op_t *ops) {
    uint32_t count = 0;
    for (uint32_t from = 1; from < 1u << n; from++) {
        for (uint32_t to = 1; to < 1u << n; to++) {
            bool one_from = (from & (from - 1)) == 0, one_to = (to & (to - 1)) == 0;
            double inside[2] = {0}, past = 0;
            uint32_t on[2] = {0};
            for (uint32_t k = 0; k < 2 * n; k++) {
                uint32_t g = k / 2, side = k % 2;
                if (!((side ? to : from) >> g & 1))
                    continue;
                past += lengths[4 * g + side];
                for (uint32_t d = 0; d < 2; d++) {
                    uint32_t l = link_of(row, n, g, d, side);
                    on[d] |= l != CCL_NONE ? 1u << g : 0;
                    inside[d] += l != CCL_NONE ? lengths[l] : 0;
                }
            }
            if ((from & to) || (!one_from && (!one_to || !row->reduce)) ||
                (!one_to && !row->multicast))
                continue;
            for (uint32_t d = 0; d < 2; d++) {
                if (on[d] == (from | to))
                    ops[count++] = (op_t){from, to, (uint32_t)lround(inside[d] * scale)};
            }
            if (one_from && one_to)
                ops[count++] = (op_t){from, to, (uint32_t)lround(past * scale)};
            ck_assert_uint_le(count + 3, MOST_OPS);
        }
    }
    return count;
}

/* What GPU g knows of the others, in n - 1 bits of a state, as a set of all; and back. */
static uint32_t known(uint32_t state, uint32_t n, uint32_t g) {
    uint32_t bits = state >> (g * (n - 1)) & ((1u << (n - 1)) - 1), low = (1u << g) - 1;
    return (bits & low) | 1u << g | (bits & ~low) << 1;
}

static uint32_t learn(uint32_t state, uint32_t n, uint32_t g, uint32_t sum) {
    uint32_t low = (1u << g) - 1;
    return state | ((sum & low) | (sum >> 1 & ~low)) << (g * (n - 1));
}

static uint32_t apply(uint32_t state, uint32_t n, const op_t *op) {
    uint32_t sum = 0;
    for (uint32_t g = 0; g < n; g++)
        sum |= op->from >> g & 1 ? known(state, n, g) : 0;
    for (uint32_t g = 0; g < n; g++)
        state = op->to >> g & 1 ? learn(state, n, g, sum) : state;
    return state;
}

/* Least cost of a plan: states by cost, the cheapest first. A state waits at each cost at which it
   was found; only the least counts. */
static uint32_t least_cost(uint32_t n, const op_t *ops, uint32_t nops) {
    uint32_t states = 1u << (n * (n - 1)), most = 8 * states, at = 0, found = 1;
    uint32_t head[MOST_COST], *state = malloc(most * sizeof *state);
    uint32_t *next = malloc(most * sizeof *next);
    uint16_t *cost = malloc(states * sizeof *cost);
    ck_assert(next && cost && state);
    memset(cost, 0xff, states * sizeof *cost);
    memset(head, 0xff, sizeof head);
    cost[0] = 0;
    state[0] = 0;
    next[0] = CCL_NONE;
    head[0] = 0;
    while (cost[states - 1] > at) {
        ck_assert_uint_lt(at, MOST_COST);
        uint32_t i = head[at];
        if (i == CCL_NONE) {
            at++;
            continue;
        }
        head[at] = next[i];
        for (uint32_t o = 0; o < nops && cost[state[i]] == at; o++) {
            uint32_t to = apply(state[i], n, &ops[o]), sum = at + ops[o].cost;
            if (sum >= MOST_COST || cost[to] <= sum)
                continue;
            ck_assert_uint_lt(found, most);
            cost[to] = (uint16_t)sum;
            state[found] = to;
            next[found] = head[sum];
            head[sum] = found++;
        }
    }
    free(next);
    free(cost);
    free(state);
    return at;
}

static const row_t ROWS[] = {
    /* One domain: as well off without its switch as with it. */
    {{4, 0, 0}, 0, 4, 1, 1, true, true, CCL_BOUND_DOMAINS, 8, 8},
    {{4, 0, 0}, 0, 4, 3, 1, true, true, CCL_BOUND_DOMAINS, 8, 8},
    {{5, 0, 0}, 0, 6, 1, 1, true, true, CCL_BOUND_DOMAINS, 10, 10},
    /* Of two that use their switch each sends and takes a message past it. */
    {{4, 0, 1}, 0, 2, 1, 4, true, true, CCL_BOUND_DOMAINS, 11, 12},
    {{4, 0, 1}, 0, 8, 5, 16, true, true, CCL_BOUND_DOMAINS, 11, 12},
    {{3, 2, 0}, 0, 1, 1, 1, true, true, CCL_BOUND_DOMAINS, 14, 16},
    {{3, 2, 0}, 0, 4, 2, 4, true, true, CCL_BOUND_DOMAINS, 14, 16},
    /* A GPU on both switches: one domain. */
    {{2, 2, 0}, 1, 4, 8, 8, true, true, CCL_BOUND_DOMAINS, 8, 28 / 3.0},
    /* The smaller is as well off with its switch, then the larger; too many GPUs for all plans. */
    {{6, 4, 0}, 0, 4, 1, 3, true, true, CCL_BOUND_DOMAINS, 24, 0},
    {{6, 4, 0}, 0, 4, 4, 6, true, true, CCL_BOUND_DOMAINS, 22, 0},
    /* A switch with one of the abilities. */
    {{4, 0, 0}, 0, 4, 1, 1, true, false, CCL_BOUND_PARTITION, 0, 0},
    {{4, 0, 0}, 0, 4, 1, 1, false, true, CCL_BOUND_PARTITION, 0, 0},
};

static void check_certificate(const row_t *row, size_t i, const ccl_topology_t *t,
                              const ccl_bandwidth_bound_t *b) {
    const double scale = 12; /* makes lengths whole */
    double carried = 0;
    op_t ops[MOST_OPS];
    for (uint32_t l = 0; l < t->nlinks; l++)
        carried += b->lengths[l] * t->links[l].bandwidth_Bps;
    ck_assert_double_eq_tol(carried / b->distance / b->Bps, 1, 1e-9);
    ck_assert_msg(fabs(b->distance - row->distance) < 1e-9, "row %zu: %g", i, b->distance);
    if (t->nranks > MOST_GPUS)
        return;
    uint32_t nops = list_ops(row, t->nranks, b->lengths, scale, ops);
    double least = least_cost(t->nranks, ops, nops) / scale;
    ck_assert_double_ge_tol(least, b->distance, 1e-9);
    ck_assert_msg(fabs(least - row->least) < 1e-9, "row %zu: %g", i, least);
}

START_TEST(no_plan_passes_less) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(ROWS); i++) {
        const row_t *row = &ROWS[i];
        uint32_t n = row->gpus[0] + row->gpus[1] + row->gpus[2];
        ccl_error_t e = CCL_ERROR_INIT;
        ccl_collective_t *coll = NULL;
        ccl_bound_t bound;
        ccl_topology_t *t = make(row, n);
        ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, n, 1, 0, &coll, &e), CCL_OK);
        ck_assert_int_eq(ccl_bound(NULL, t, coll, NULL, &bound, &e), CCL_OK);
        const ccl_bandwidth_bound_t *b = &bound.bandwidth;
        ck_assert_msg(b->proof == row->proof, "row %zu: %s", i, ccl_bound_proof_name(b->proof));
        if (b->proof == CCL_BOUND_DOMAINS)
            check_certificate(row, i, t, b);
        ccl_bound_fini(&bound);
        ccl_collective_destroy(coll);
        ccl_topology_destroy(t);
    }
}
END_TEST

RUN_TESTS(no_plan_passes_less)
