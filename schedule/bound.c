/* Lower bounds for a collective or a demand: what models/ knows for its shape. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule_i.h"
#include "schedule/schedule.h"

#define PARTS CCL_I_BOUND_PARTS
/* Beyond this many ranks a flow for each takes too long. */
enum { MOST_FLOWS = 128 };

static ccl_status_t built_in(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                             const ccl_collective_t *coll, ccl_bandwidth_bound_t *out,
                             ccl_error_t *err) {
    uint32_t n = coll->nranks;
    ccl_collective_kind_t kind = coll->kind;
    ccl_bound_demand_t demand = {.root = coll->root, .parts = n};
    uint32_t *weights = calloc(n, sizeof *weights), *pairs = NULL;
    ccl_status_t status;
    if (!weights)
        return ccl_fail_nomem(err);
    demand.weights = weights;
    demand.reversed = kind == CCL_REDUCESCATTER || kind == CCL_REDUCE || kind == CCL_SCATTER;
    if (kind == CCL_BROADCAST || kind == CCL_REDUCE) {
        weights[coll->root] = 1;
        demand.parts = 1;
    } else {
        for (uint32_t r = 0; r < n; r++)
            weights[r] = 1;
    }
    if (kind == CCL_GATHER || kind == CCL_SCATTER)
        demand.shape = CCL_BOUND_GATHER;
    else if (kind == CCL_ALLREDUCE)
        demand.shape = CCL_BOUND_ALLREDUCE;
    else if (kind == CCL_ALLTOALL)
        demand.shape = CCL_BOUND_PAIRS;
    else if (kind == CCL_SENDRECV) {
        demand.shape = CCL_BOUND_PAIRS;
        demand.parts = 1;
        demand.pairs = pairs = calloc((size_t)n * n, sizeof *pairs);
        if (!pairs) {
            free(weights);
            return ccl_fail_nomem(err);
        }
        for (uint32_t r = 0; r < n; r++)
            pairs[(size_t)r * n + (r + 1) % n] = n > 1;
    }
    status = ccl_model_bandwidth_bound(ctx, topo, &demand, out, err);
    free(weights);
    free(pairs);
    return status;
}

/* Keep the tighter one. */
static void tighter(ccl_bandwidth_bound_t *best, ccl_bandwidth_bound_t *other) {
    if (other->Bps < best->Bps * (1 - 1e-12)) {
        ccl_bandwidth_bound_fini(best);
        *best = *other;
    } else {
        ccl_bandwidth_bound_fini(other);
    }
}

/*
 * A demand: what must enter each destination, and leave each source, through any cut. A chunk of
 * several sources or destinations counts for one of them, so the bound holds, but need not be met.
 */
static ccl_status_t custom(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                           const ccl_collective_t *coll, ccl_bandwidth_bound_t *out,
                           ccl_error_t *err) {
    uint32_t n = coll->nranks;
    double *share = calloc((size_t)n * n, sizeof *share);
    uint32_t *pairs = calloc((size_t)n * n, sizeof *pairs), *weights = calloc(n, sizeof *weights);
    bool plain = true;
    ccl_status_t status = CCL_OK;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    out->Bps = INFINITY;
    if (!share || !pairs || !weights) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t k = 0; k < coll->nchunks; k++)
        plain = plain && coll->chunks[k].nsources == 1 && coll->chunks[k].ndests <= 2;
    for (int turn = 0; turn < 2; turn++) {
        memset(share, 0, (size_t)n * n * sizeof *share);
        for (uint32_t k = 0; k < coll->nchunks; k++) {
            const ccl_chunk_t *c = &coll->chunks[k];
            const uint32_t *ends = turn ? c->sources : c->dests;
            const uint32_t *others = turn ? c->dests : c->sources;
            uint32_t nends = turn ? c->nsources : c->ndests;
            uint32_t nothers = turn ? c->ndests : c->nsources, elsewhere = 0;
            for (uint32_t i = 0; i < nends; i++) {
                uint32_t other = CCL_NONE;
                for (uint32_t j = 0; j < nothers && other == CCL_NONE; j++)
                    other = others[j] != ends[i] ? others[j] : CCL_NONE;
                if (other == CCL_NONE)
                    continue;
                elsewhere++;
                share[(size_t)ends[i] * n + other] += c->share;
            }
            plain = plain && elsewhere <= 1;
        }
        for (uint32_t end = 0; end < n; end++) {
            bool any = false;
            for (uint32_t r = 0; r < n; r++) {
                double parts =
                    fmin(share[(size_t)end * n + r] * (double)PARTS * (1 + 1e-12), UINT32_MAX / 2);
                weights[r] = (uint32_t)parts;
                if (turn == 0)
                    pairs[(size_t)r * n + end] = weights[r];
                any |= weights[r] > 0;
            }
            if (!any || n > MOST_FLOWS)
                continue;
            ccl_bandwidth_bound_t one;
            ccl_bound_demand_t demand = {CCL_BOUND_GATHER, turn == 1, end, weights, NULL, PARTS};
            CCL_TRY_GOTO(ccl_model_bandwidth_bound(ctx, topo, &demand, &one, err), status, end);
            one.tight = false;
            tighter(out, &one);
        }
    }
    CCL_TRY_GOTO(ccl_i_bound_levels(topo, coll, out, err), status, end);
    if (plain && !out->tight)
        CCL_TRY_GOTO(ccl_i_bound_servers(ctx, topo, coll, out, err), status, end);
    if (plain && n <= MOST_FLOWS) {
        ccl_bandwidth_bound_t flows;
        ccl_bound_demand_t demand = {CCL_BOUND_PAIRS, false, 0, NULL, pairs, PARTS};
        CCL_TRY_GOTO(ccl_model_bandwidth_bound(ctx, topo, &demand, &flows, err), status, end);
        tighter(out, &flows);
    }
end:
    free(share);
    free(pairs);
    free(weights);
    if (status != CCL_OK)
        ccl_bandwidth_bound_fini(out);
    return status;
}

static ccl_status_t latency(const ccl_topology_t *topo, const ccl_collective_t *coll,
                            const ccl_bound_options_t *options, ccl_latency_bound_t *out,
                            ccl_error_t *err) {
    size_t n = coll->nranks;
    uint8_t *moves = calloc(n * n, 1);
    if (!moves)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        for (uint32_t i = 0; i < c->nsources; i++) {
            for (uint32_t j = 0; j < c->ndests; j++)
                moves[c->sources[i] * n + c->dests[j]] = 1;
        }
        if (coll->kind == CCL_ALLREDUCE)
            break; /* all chunks alike */
    }
    ccl_status_t status =
        ccl_model_latency_bound(topo, options->routes, moves, options->proto, out, err);
    free(moves);
    return status;
}

/* Links carry `wire` bytes for each of data. */
static void put_on_wire(ccl_bandwidth_bound_t *bound, double wire) {
    if (!(wire > 1))
        return;
    bound->Bps /= wire;
    bound->trees_Bps /= wire;
    bound->exact_Bps = (ccl_fraction_t){0, 0};
}

ccl_status_t ccl_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                       const ccl_collective_t *coll, const ccl_bound_options_t *options,
                       ccl_bound_t *out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_bound_options_t, options, err);
    const ccl_bound_options_t defaults = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t made = {0};
    if (!options)
        options = &defaults;
    if (coll->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        coll->nranks, topo->name, topo->nranks);
    if (!(options->size_bytes >= 0) || !isfinite(options->size_bytes))
        return ccl_fail(err, CCL_ERR_INPUT, "a bound for a size of %g bytes", options->size_bytes);
    made.size_bytes = options->size_bytes;
    made.latency = (ccl_latency_bound_t){0, CCL_NONE, CCL_NONE, 0};
    if (!options->no_latency)
        CCL_TRY(latency(topo, coll, options, &made.latency, err));
    CCL_TRY(coll->kind == CCL_CUSTOM ? custom(ctx, topo, coll, &made.bandwidth, err)
                                     : built_in(ctx, topo, coll, &made.bandwidth, err));
    put_on_wire(&made.bandwidth, ccl_model_wire(topo, options->proto));
    made.bandwidth_s = made.size_bytes / made.bandwidth.Bps;
    made.time_s = ccl_bound_time_s(&made, made.size_bytes);
    *out = made;
    return CCL_OK;
}

double ccl_bound_time_s(const ccl_bound_t *bound, double size_bytes) {
    return fmax(bound->latency.latency_s, size_bytes / bound->bandwidth.Bps);
}

void ccl_bound_fini(ccl_bound_t *bound) {
    ccl_bandwidth_bound_fini(&bound->bandwidth);
    memset(bound, 0, sizeof *bound);
}
