/* Lower bounds for a collective or a demand: what models/ knows for its shape. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule_i.h"
#include "schedule/schedule.h"

#define PARTS CCL_I_BOUND_PARTS
/* Beyond this many ranks a flow for each takes too long. */
enum { MOST_FLOWS = 128 };

/* A demand in the shape of models, with what it points to. */
typedef struct shaped {
    ccl_bound_demand_t demand;
    uint32_t *weights, *pairs, *sent;
    double *entering, *leaving;
} shaped_t;

static void shaped_fini(shaped_t *shaped) {
    free(shaped->weights);
    free(shaped->pairs);
    free(shaped->sent);
    free(shaped->entering);
    free(shaped->leaving);
    *shaped = (shaped_t){.weights = NULL};
}

static ccl_status_t shape_built_in(const ccl_collective_t *coll, shaped_t *out, ccl_error_t *err) {
    uint32_t n = coll->nranks;
    ccl_collective_kind_t kind = coll->kind;
    ccl_bound_demand_t *demand = &out->demand;
    *out = (shaped_t){.demand = {.root = coll->root, .parts = n},
                      .weights = calloc(n, sizeof *out->weights)};
    if (!out->weights)
        return ccl_fail_nomem(err);
    demand->weights = out->weights;
    demand->reversed = kind == CCL_REDUCESCATTER || kind == CCL_REDUCE || kind == CCL_SCATTER;
    if (kind == CCL_BROADCAST || kind == CCL_REDUCE) {
        out->weights[coll->root] = 1;
        demand->parts = 1;
    } else {
        for (uint32_t r = 0; r < n; r++)
            out->weights[r] = 1;
    }
    if (kind == CCL_GATHER || kind == CCL_SCATTER)
        demand->shape = CCL_BOUND_GATHER;
    else if (kind == CCL_ALLREDUCE)
        demand->shape = CCL_BOUND_ALLREDUCE;
    else if (kind == CCL_ALLTOALL)
        demand->shape = CCL_BOUND_PAIRS;
    else if (kind == CCL_SENDRECV) {
        demand->shape = CCL_BOUND_PAIRS;
        demand->parts = 1;
        demand->pairs = out->pairs = calloc((size_t)n * n, sizeof *out->pairs);
        if (!out->pairs) {
            shaped_fini(out);
            return ccl_fail_nomem(err);
        }
        for (uint32_t r = 0; r < n; r++)
            out->pairs[(size_t)r * n + (r + 1) % n] = n > 1;
    }
    return CCL_OK;
}

static ccl_status_t built_in(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                             const ccl_collective_t *coll, ccl_bandwidth_bound_t *out,
                             ccl_error_t *err) {
    shaped_t shaped;
    CCL_TRY(shape_built_in(coll, &shaped, err));
    ccl_status_t status = ccl_model_bandwidth_bound(ctx, topo, &shaped.demand, out, err);
    shaped_fini(&shaped);
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
 * What each rank needs of each other (`sent` false), or must send to it, in parts of PARTS, at
 * end * n + other: a chunk of several sources or destinations counts for one of them.
 * @param plain  set to false where a chunk has several destinations elsewhere.
 */
static ccl_status_t ends(const ccl_collective_t *coll, bool sent, uint32_t *out, bool *plain,
                         ccl_error_t *err) {
    uint32_t n = coll->nranks;
    double *share = calloc((size_t)n * n, sizeof *share);
    if (!share)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        const uint32_t *own = sent ? c->sources : c->dests;
        const uint32_t *others = sent ? c->dests : c->sources;
        uint32_t nown = sent ? c->nsources : c->ndests;
        uint32_t nothers = sent ? c->ndests : c->nsources, elsewhere = 0;
        for (uint32_t i = 0; i < nown; i++) {
            uint32_t other = CCL_NONE;
            for (uint32_t j = 0; j < nothers && other == CCL_NONE; j++)
                other = others[j] != own[i] ? others[j] : CCL_NONE;
            if (other == CCL_NONE)
                continue;
            elsewhere++;
            share[(size_t)own[i] * n + other] += c->share;
        }
        *plain = *plain && elsewhere <= 1;
    }
    for (size_t i = 0; i < (size_t)n * n; i++)
        out[i] = (uint32_t)fmin(share[i] * (double)PARTS * (1 + 1e-12), UINT32_MAX / 2);
    free(share);
    return CCL_OK;
}

/*
 * A demand: what must enter each destination, and leave each source, through any cut. A chunk of
 * several sources or destinations counts for one of them, so the bound holds, but need not be met.
 */
static ccl_status_t custom(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                           const ccl_collective_t *coll, ccl_bandwidth_bound_t *out,
                           ccl_error_t *err) {
    uint32_t n = coll->nranks;
    uint32_t *of = calloc((size_t)n * n, sizeof *of);
    uint32_t *pairs = calloc((size_t)n * n, sizeof *pairs);
    bool plain = true;
    ccl_status_t status = of && pairs ? CCL_OK : ccl_fail_nomem(err);
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    out->Bps = INFINITY;
    if (status != CCL_OK)
        goto end;
    for (uint32_t k = 0; k < coll->nchunks; k++)
        plain = plain && coll->chunks[k].nsources == 1 && coll->chunks[k].ndests <= 2;
    for (int turn = 0; turn < 2; turn++) {
        CCL_TRY_GOTO(ends(coll, turn == 1, of, &plain, err), status, end);
        for (uint32_t end = 0; end < n; end++) {
            const uint32_t *weights = of + (size_t)end * n;
            bool any = false;
            for (uint32_t r = 0; r < n; r++) {
                if (turn == 0)
                    pairs[(size_t)r * n + end] = weights[r];
                any |= weights[r] > 0;
            }
            if (!any || n > MOST_FLOWS)
                continue;
            ccl_bandwidth_bound_t one;
            ccl_bound_demand_t demand = {.shape = CCL_BOUND_GATHER,
                                         .reversed = turn == 1,
                                         .root = end,
                                         .weights = weights,
                                         .parts = PARTS};
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
        ccl_bound_demand_t demand = {.shape = CCL_BOUND_PAIRS, .pairs = pairs, .parts = PARTS};
        CCL_TRY_GOTO(ccl_model_bandwidth_bound(ctx, topo, &demand, &flows, err), status, end);
        tighter(out, &flows);
    }
end:
    free(of);
    free(pairs);
    if (status != CCL_OK)
        ccl_bandwidth_bound_fini(out);
    return status;
}

/* The same of a demand for flows over time. */
static ccl_status_t shape_custom(const ccl_topology_t *topo, const ccl_collective_t *coll,
                                 shaped_t *out, ccl_error_t *err) {
    uint32_t n = coll->nranks;
    bool plain = true;
    *out = (shaped_t){.demand = {.shape = CCL_BOUND_ENDS, .parts = PARTS}};
    uint32_t *of = calloc((size_t)n * n, sizeof *of);
    out->pairs = calloc((size_t)n * n, sizeof *out->pairs);
    out->sent = calloc((size_t)n * n, sizeof *out->sent);
    ccl_status_t status = of && out->pairs && out->sent ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ends(coll, true, out->sent, &plain, err);
    if (status == CCL_OK)
        status = ends(coll, false, of, &plain, err);
    for (size_t i = 0; i < (size_t)n * n && status == CCL_OK; i++)
        out->pairs[i % n * n + i / n] = of[i];
    if (status == CCL_OK)
        status = ccl_i_bound_borders(topo, coll, &out->entering, &out->leaving, err);
    free(of);
    out->demand.pairs = out->pairs;
    out->demand.sent = out->sent;
    out->demand.entering = out->entering;
    out->demand.leaving = out->leaving;
    if (status != CCL_OK)
        shaped_fini(out);
    return status;
}

static ccl_status_t latency(const ccl_topology_t *topo, const ccl_collective_t *coll,
                            ccl_routes_t *routes, const char *proto, ccl_latency_bound_t *out,
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
    ccl_status_t status = ccl_model_latency_bound(topo, routes, moves, proto, out, err);
    free(moves);
    return status;
}

/* The cluster as programs of some protocols find it: with what its switches can do, or without. */
typedef struct side {
    const ccl_topology_t *topo;
    ccl_bandwidth_bound_t bandwidth;
    ccl_topology_t unable; /* `topo` is this where switches do nothing */
    ccl_device_t *devices; /* its own */
    uint32_t first, end;   /* of the bound's protocols */
} side_t;

static void side_fini(side_t *side) {
    free(side->devices);
    ccl_bandwidth_bound_fini(&side->bandwidth);
}

/* Latency and cuts over time of every protocol of a side. */
static ccl_status_t over_time(const ccl_ctx_t *ctx, const side_t *side,
                              const ccl_collective_t *coll, const ccl_bound_options_t *options,
                              ccl_bound_t *made, ccl_error_t *err) {
    const ccl_topology_t *topo = side->topo;
    ccl_routes_t *own = NULL, *routes = options->routes;
    shaped_t shaped = {.weights = NULL};
    bool cuts = coll->kind != CCL_CUSTOM || coll->nranks <= MOST_FLOWS;
    ccl_status_t status = CCL_OK;
    if (!routes)
        routes = own = ccl_routes_create(topo);
    if (!routes)
        return ccl_fail_nomem(err);
    if (cuts)
        status = coll->kind == CCL_CUSTOM ? shape_custom(topo, coll, &shaped, err)
                                          : shape_built_in(coll, &shaped, err);
    shaped.demand.flows = &side->bandwidth;
    for (uint32_t p = side->first; p < side->end && status == CCL_OK; p++) {
        ccl_bound_proto_t *of = &made->protos[p];
        ccl_latency_bound_t far;
        CCL_TRY_GOTO(latency(topo, coll, routes, of->proto, &far, err), status, end);
        of->latency_s = far.latency_s;
        if (p == 0 || far.latency_s < made->latency.latency_s)
            made->latency = far;
        if (cuts)
            status =
                ccl_model_time_bound(ctx, topo, routes, &shaped.demand, of->proto, &of->time, err);
    }
end:
    shaped_fini(&shaped);
    ccl_routes_destroy(own);
    return status;
}

/* The protocols whose constants count: the one of the options, else each that has its own, Simple
   first. */
static void protocols(const ccl_topology_t *topo, const ccl_bound_options_t *options,
                      ccl_bound_t *made) {
    bool own = false;
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
        own |= ccl_model_has_protocol(topo, ccl_protocol_name((ccl_protocol_t)p));
    made->nprotos = options->proto || !own ? 1 : CCL_PROTOCOLS;
    for (uint32_t p = 0; p < made->nprotos; p++) {
        ccl_protocol_t named = ccl_protocol_find(options->proto);
        if (made->nprotos > 1)
            made->protos[p].proto = ccl_protocol_name((ccl_protocol_t)p);
        else if (named < CCL_PROTOCOLS)
            made->protos[p].proto = ccl_protocol_name(named);
    }
}

/* Links carry `wire` bytes for each of data. */
static void put_on_wire(ccl_bandwidth_bound_t *bound, double wire) {
    if (!(wire > 1))
        return;
    bound->Bps /= wire;
    bound->trees_Bps /= wire;
    bound->exact_Bps = (ccl_fraction_t){0, 0};
}

/* Bounds of the protocols [first .. end), which find switches able or not. */
static ccl_status_t bound_side(const ccl_ctx_t *ctx, side_t *side, const ccl_collective_t *coll,
                               const ccl_bound_options_t *options, ccl_bound_t *made,
                               ccl_error_t *err) {
    const ccl_topology_t *topo = side->topo;
    CCL_TRY(coll->kind == CCL_CUSTOM ? custom(ctx, topo, coll, &side->bandwidth, err)
                                     : built_in(ctx, topo, coll, &side->bandwidth, err));
    for (uint32_t p = side->first; p < side->end; p++)
        made->protos[p].Bps =
            side->bandwidth.Bps / fmax(1, ccl_model_wire(topo, made->protos[p].proto));
    return options->no_latency ? CCL_OK : over_time(ctx, side, coll, options, made, err);
}

/* The greatest bandwidth of any protocol, as the message sees it. */
static void take_bandwidth(ccl_bound_t *made, side_t *side, const char *proto) {
    ccl_bandwidth_bound_t *own = &side->bandwidth;
    put_on_wire(own, ccl_model_wire(side->topo, proto));
    if (side->first > 0 && own->Bps <= made->bandwidth.Bps)
        return;
    ccl_bandwidth_bound_fini(&made->bandwidth);
    made->bandwidth = *own;
    *own = (ccl_bandwidth_bound_t){0};
}

/* Where switches are able those protocols that go through them, which are the first, then the
   others. */
static ccl_status_t bound_sides(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                const ccl_collective_t *coll, const ccl_bound_options_t *options,
                                ccl_bound_t *made, ccl_error_t *err) {
    const bool apart = !options->any_switches && ccl_topology_able(topo);
    ccl_status_t status = CCL_OK;
    uint32_t first = 0;
    while (first < made->nprotos && status == CCL_OK) {
        const bool able = !apart || ccl_protocol_switches(made->protos[first].proto);
        side_t side = {.topo = topo, .first = first, .end = first + 1};
        while (side.end < made->nprotos &&
               (!apart || ccl_protocol_switches(made->protos[side.end].proto) == able))
            side.end++;
        if (!able) {
            status = ccl_topology_unable(topo, &side.unable, &side.devices, err);
            side.topo = &side.unable;
        }
        if (status == CCL_OK)
            status = bound_side(ctx, &side, coll, options, made, err);
        if (status == CCL_OK)
            take_bandwidth(made, &side, options->proto);
        side_fini(&side);
        first = side.end;
    }
    return status;
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
    protocols(topo, options, &made);
    ccl_status_t status = bound_sides(ctx, topo, coll, options, &made, err);
    if (status != CCL_OK) {
        ccl_bound_fini(&made);
        return status;
    }
    ccl_bound_at_t at = ccl_bound_at(&made, made.size_bytes);
    made.bandwidth_s = made.size_bytes / made.bandwidth.Bps;
    made.time_s = at.time_s;
    made.by = at.by;
    *out = made;
    return CCL_OK;
}

const char *ccl_bound_by_name(ccl_bound_by_t by) {
    static const char *const names[] = {"latency", "bandwidth", "over time"};
    return (size_t)by < CCL_ARRAY_LEN(names) ? names[by] : "unknown";
}

ccl_bound_at_t ccl_bound_at(const ccl_bound_t *bound, double size_bytes) {
    ccl_bound_at_t best = {.time_s = INFINITY};
    for (uint32_t p = 0; p < bound->nprotos; p++) {
        const ccl_bound_proto_t *of = &bound->protos[p];
        ccl_bound_at_t at = {of->latency_s, CCL_BOUND_BY_LATENCY, of, NULL, 0};
        at.cut_s = ccl_time_bound_s(&of->time, size_bytes, &at.cut);
        if (size_bytes / of->Bps > at.time_s) {
            at.time_s = size_bytes / of->Bps;
            at.by = CCL_BOUND_BY_BANDWIDTH;
        }
        if (at.cut_s > at.time_s * (1 + 1e-9)) {
            at.time_s = at.cut_s;
            at.by = CCL_BOUND_BY_TIME;
        }
        if (at.time_s < best.time_s)
            best = at;
    }
    return best;
}

double ccl_bound_time_s(const ccl_bound_t *bound, double size_bytes) {
    return ccl_bound_at(bound, size_bytes).time_s;
}

void ccl_bound_fini(ccl_bound_t *bound) {
    for (uint32_t p = 0; p < bound->nprotos; p++)
        ccl_time_bound_fini(&bound->protos[p].time);
    ccl_bandwidth_bound_fini(&bound->bandwidth);
    memset(bound, 0, sizeof *bound);
}
