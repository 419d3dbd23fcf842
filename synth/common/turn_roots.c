/*
 * Roots of AllReduce by what servers can carry. For a time T the share of a set S lies between
 * 1 - T c(S) and T c(S); sets are nested, so intervals are summed from the inside out, and the
 * least T for which none is empty and all together hold 1 is found by bisection.
 */
#include "synth/common/spread.h"
#include "synth/common/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BISECTIONS 60

/* Node 0 .. n-1: ranks; then the cuts' sets, small ones first; the last: all ranks. */
typedef struct nodes {
    uint32_t n, count;
    uint32_t *parent;
    double *carry_Bps, *size, *lo, *hi, *share;
    uint32_t *set; /* [count] of the cuts; by size */
} nodes_t;

static ccl_status_t nodes_init(nodes_t *t, const ccl_i_exchange_t *x, const ccl_i_cuts_t *cuts,
                               ccl_error_t *err) {
    uint32_t n = x->nranks;
    t->n = n;
    t->count = n + cuts->nsets + 1;
    t->parent = calloc(t->count, sizeof *t->parent);
    t->carry_Bps = calloc(t->count, sizeof *t->carry_Bps);
    t->size = calloc(t->count, sizeof *t->size);
    t->lo = calloc(t->count, sizeof *t->lo);
    t->hi = calloc(t->count, sizeof *t->hi);
    t->share = calloc(t->count, sizeof *t->share);
    t->set = calloc(t->count, sizeof *t->set);
    uint32_t *top = calloc(n, sizeof *top);
    uint8_t *inside = calloc(n, 1);
    ccl_status_t status = CCL_OK;
    if (!t->parent || !t->carry_Bps || !t->size || !t->lo || !t->hi || !t->share || !t->set ||
        !top || !inside) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t s = 0; s < cuts->nsets; s++) { /* insertion: sets are few */
        uint32_t len = cuts->first[s + 1] - cuts->first[s], at = n + s;
        for (; at > n; at--) {
            uint32_t other = t->set[at - 1];
            if (cuts->first[other + 1] - cuts->first[other] <= len)
                break;
            t->set[at] = other;
        }
        t->set[at] = s;
    }
    for (uint32_t i = 0; i < t->count; i++) {
        double in_Bps = INFINITY, out_Bps = INFINITY;
        memset(inside, 0, n);
        t->parent[i] = t->count - 1;
        if (i < n) {
            t->size[i] = 1;
            top[i] = i;
            inside[i] = 1;
        } else if (i + 1 < t->count) {
            uint32_t s = t->set[i];
            for (uint32_t k = cuts->first[s]; k < cuts->first[s + 1]; k++) {
                uint32_t r = cuts->ranks[k];
                inside[r] = 1;
                t->size[i] += 1;
                t->parent[top[r]] = i;
                top[r] = i;
            }
            t->parent[i] = t->count - 1;
        }
        if (i + 1 < t->count) {
            CCL_TRY_GOTO(ccl_i_exchange_inflow(x, inside, false, &in_Bps, err), status, end);
            CCL_TRY_GOTO(ccl_i_exchange_inflow(x, inside, true, &out_Bps, err), status, end);
        }
        t->carry_Bps[i] = fmin(in_Bps, out_Bps);
    }
end:
    free(top);
    free(inside);
    return status;
}

static void nodes_fini(nodes_t *t) {
    free(t->parent);
    free(t->carry_Bps);
    free(t->size);
    free(t->lo);
    free(t->hi);
    free(t->share);
    free(t->set);
}

/* Intervals for a time per byte. */
static bool feasible(nodes_t *t, double T) {
    uint32_t all = t->count - 1;
    for (uint32_t i = t->n; i < t->count; i++)
        t->lo[i] = t->hi[i] = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        if (i < t->n)
            t->lo[i] = 0, t->hi[i] = 1;
        if (i < all) {
            t->lo[i] = fmax(t->lo[i], 1 - T * t->carry_Bps[i]);
            t->hi[i] = fmin(t->hi[i], T * t->carry_Bps[i]);
            if (t->lo[i] > t->hi[i])
                return false;
            t->lo[t->parent[i]] += t->lo[i];
            t->hi[t->parent[i]] += t->hi[i];
        }
    }
    return t->lo[all] <= 1 && t->hi[all] >= 1;
}

static double clamped(const nodes_t *t, uint32_t i, double per_rank) {
    return fmin(fmax(per_rank * t->size[i], t->lo[i]), t->hi[i]);
}

/* Shares of a node's children: even by size, within their intervals. */
static void divide(nodes_t *t, uint32_t node) {
    double lo = 0, hi = 1;
    for (int k = 0; k < BISECTIONS; k++) {
        double mid = (lo + hi) / 2, sum = 0;
        for (uint32_t i = 0; i < node; i++)
            sum += t->parent[i] == node ? clamped(t, i, mid) : 0;
        if (sum < t->share[node])
            lo = mid;
        else
            hi = mid;
    }
    for (uint32_t i = 0; i < node; i++)
        if (t->parent[i] == node)
            t->share[i] = clamped(t, i, hi);
}

/* Whole chunks, largest remainders first; a rank's chunks are spread over the numbers. */
static ccl_status_t round_shares(const double *share, uint32_t n, uint32_t nchunks,
                                 uint32_t *owner_out, ccl_error_t *err) {
    double *owed = calloc(n, sizeof *owed), sum = 0;
    if (!owed)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < n; r++)
        sum += share[r];
    for (uint32_t k = 0; k < nchunks; k++) {
        uint32_t best = 0;
        for (uint32_t r = 0; r < n; r++) {
            owed[r] += share[r] / sum;
            best = owed[r] > owed[best] + 1e-9 ? r : best;
        }
        owed[best] -= 1;
        owner_out[k] = best;
    }
    free(owed);
    return CCL_OK;
}

ccl_status_t ccl_i_turn_roots(const ccl_i_exchange_t *x, uint32_t nchunks, bool uniform,
                              uint32_t *owner_out, ccl_error_t *err) {
    uint32_t n = x->nranks;
    if (uniform || n < 2) {
        for (uint32_t k = 0; k < nchunks; k++)
            owner_out[k] = k % n;
        return CCL_OK;
    }
    ccl_i_cuts_t cuts;
    nodes_t t = {0};
    double *bytes = calloc(n, sizeof *bytes);
    uint32_t *owner = calloc(n, sizeof *owner);
    ccl_status_t status = CCL_OK;
    ccl_i_spread_t one_each = {.x = x, .nchunks = n, .owner = owner, .bytes = bytes};
    memset(&cuts, 0, sizeof cuts);
    if (!bytes || !owner) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < n; r++)
        owner[r] = r, bytes[r] = 1;
    CCL_TRY_GOTO(ccl_i_cuts_init(&cuts, &one_each, err), status, end);
    CCL_TRY_GOTO(nodes_init(&t, x, &cuts, err), status, end);
    double lo = 0, hi = 0;
    for (uint32_t i = 0; i + 1 < t.count; i++) {
        if (!(t.carry_Bps[i] > 0)) {
            status = ccl_fail(err, CCL_ERR_INPUT, "GPU %u cannot be reached", i < n ? i : 0);
            goto end;
        }
        hi = fmax(hi, 1 / t.carry_Bps[i]);
    }
    for (int k = 0; k < BISECTIONS; k++) {
        double mid = (lo + hi) / 2;
        if (feasible(&t, mid))
            hi = mid;
        else
            lo = mid;
    }
    feasible(&t, hi);
    t.share[t.count - 1] = 1;
    for (uint32_t i = t.count; i-- > n;)
        divide(&t, i);
    status = round_shares(t.share, n, nchunks, owner_out, err);
end:
    free(bytes);
    free(owner);
    nodes_fini(&t);
    ccl_i_cuts_fini(&cuts);
    return status;
}
