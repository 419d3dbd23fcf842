/*
 * Bounds on bandwidth by cuts. What must leave a set of GPUs over what can leave it, at its
 * greatest, by maximum flows; the ratio rises to its greatest value by Newton's method on fractions
 * (Dinkelbach 1967), where ForestColl (Zhao et al., arXiv 2402.06787, section 4) searches by
 * halving.
 */
#include "models/bounds/bounds.h"
#include "models/bounds/time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this many ranks one flow per rank is cheaper than looking for symmetries. */
enum { FEW_RANKS = 24 };

const char *ccl_bound_proof_name(ccl_bound_proof_t proof) {
    static const char *const names[] = {"nothing", "cut",     "partition",
                                        "lengths", "servers", "domains"};
    return (size_t)proof < CCL_ARRAY_LEN(names) ? names[proof] : "unknown";
}

ccl_status_t ccl_i_cutter_init(ccl_i_cutter_t *k, const ccl_capacity_t *c, bool reversed,
                               ccl_error_t *err) {
    const ccl_topology_t *topo = c->topo;
    memset(k, 0, sizeof *k);
    k->c = c;
    k->reversed = reversed;
    k->source = c->nvertices;
    k->flow = ccl_maxflow_create(c->nvertices + 1);
    k->side = calloc(c->nvertices + (size_t)1, sizeof *k->side);
    k->group_units = malloc((topo->ngroups + (size_t)1) * sizeof *k->group_units);
    k->group_left = malloc((topo->ngroups + (size_t)1) * sizeof *k->group_left);
    bool ok = k->flow && k->side && k->group_units && k->group_left;
    for (uint32_t a = 0; ok && a < c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &c->arcs[a];
        ok = ccl_maxflow_arc(k->flow, reversed ? arc->to : arc->from,
                             reversed ? arc->from : arc->to, 0) != CCL_NONE;
        k->total_units += arc->units;
    }
    for (uint32_t r = 0; ok && r < topo->nranks; r++)
        ok = ccl_maxflow_arc(k->flow, k->source, topo->rank_device[r], 0) != CCL_NONE;
    if (!ok) {
        ccl_i_cutter_fini(k);
        return ccl_fail_nomem(err);
    }
    for (uint32_t g = 0; g < topo->ngroups; g++)
        k->group_units[g] = -1;
    for (uint32_t i = 0; i < c->nleft_groups; i++) {
        double units = ceil(topo->groups[c->left_groups[i]].bandwidth_Bps / c->unit_Bps *
                            (c->exact ? 1 - 1e-12 : 1));
        k->group_units[c->left_groups[i]] =
            units < (double)k->total_units ? (int64_t)units : k->total_units;
    }
    return CCL_OK;
}

void ccl_i_cutter_fini(ccl_i_cutter_t *k) {
    ccl_maxflow_destroy(k->flow);
    free(k->side);
    free(k->group_units);
    free(k->group_left);
    memset(k, 0, sizeof *k);
}

int64_t ccl_i_cut_units(ccl_i_cutter_t *k, const bool *side) {
    const ccl_capacity_t *c = k->c;
    const ccl_topology_t *topo = c->topo;
    int64_t units = 0;
    for (uint32_t a = 0; a < c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &c->arcs[a];
        if (side[k->reversed ? arc->to : arc->from] && !side[k->reversed ? arc->from : arc->to])
            units += arc->units;
    }
    /* What crosses together through a group of its own cannot be more than the group; links of
     * several groups count for the first. */
    for (uint32_t i = 0; i < c->nleft_groups; i++) {
        const ccl_group_t *g = &topo->groups[c->left_groups[i]];
        int64_t sum = 0;
        for (uint32_t m = 0; m < g->nlinks; m++) {
            uint32_t l = g->links[m], a = c->narcs - topo->nlinks + l, owner = CCL_NONE;
            for (uint32_t j = 0; j <= i && owner == CCL_NONE; j++) {
                const ccl_group_t *other = &topo->groups[c->left_groups[j]];
                for (uint32_t x = 0; x < other->nlinks && owner == CCL_NONE; x++)
                    owner = other->links[x] == l ? j : CCL_NONE;
            }
            const ccl_capacity_arc_t *arc = &c->arcs[a];
            bool crosses =
                side[k->reversed ? arc->to : arc->from] && !side[k->reversed ? arc->from : arc->to];
            sum += crosses && owner == i ? arc->units : 0;
        }
        if (sum > k->group_units[c->left_groups[i]])
            units -= sum - k->group_units[c->left_groups[i]];
    }
    return units;
}

bool ccl_i_cut_shuns(const ccl_i_cutter_t *k, uint32_t v, const uint8_t *from, const uint8_t *to) {
    const ccl_topology_t *topo = k->c->topo;
    if (v >= topo->ndevices)
        return false;
    uint32_t rank = topo->devices[v].rank;
    return (k->held && k->held[v] == CCL_I_HELD_OUT) ||
           (k->alone && rank != CCL_NONE && !from[rank] && !to[rank]);
}

int64_t ccl_i_cut_between(ccl_i_cutter_t *k, const uint8_t *from, const uint8_t *to) {
    const ccl_capacity_t *c = k->c;
    int64_t most = k->total_units + 1, sum = 0;
    for (uint32_t a = 0; a < c->narcs; a++)
        ccl_maxflow_capacity(k->flow, a, c->arcs[a].units);
    for (uint32_t r = 0; r < c->topo->nranks; r++)
        ccl_maxflow_capacity(k->flow, c->narcs + r, from[r] ? most : 0);
    ccl_maxflow_reset(k->flow);
    uint32_t nsinks = 0, sink = CCL_NONE;
    for (uint32_t r = 0; r < c->topo->nranks; r++) {
        if (to[r]) {
            nsinks++;
            sink = c->topo->rank_device[r];
        }
    }
    if (nsinks == 1 && !k->held) {
        sum = ccl_maxflow_run(k->flow, k->source, sink, most);
        ccl_maxflow_side(k->flow, k->source, k->side);
        return sum;
    }
    ccl_maxflow_t *joined = ccl_maxflow_create(c->nvertices + 2);
    bool ok = joined != NULL;
    for (uint32_t a = 0; ok && a < c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &c->arcs[a];
        bool shut =
            ccl_i_cut_shuns(k, arc->from, from, to) || ccl_i_cut_shuns(k, arc->to, from, to);
        ok = ccl_maxflow_arc(joined, k->reversed ? arc->to : arc->from,
                             k->reversed ? arc->from : arc->to, shut ? 0 : arc->units) != CCL_NONE;
    }
    for (uint32_t r = 0; ok && r < c->topo->nranks; r++) {
        uint32_t d = c->topo->rank_device[r];
        if (from[r])
            ok = ccl_maxflow_arc(joined, k->source, d, most) != CCL_NONE;
        if (ok && to[r])
            ok = ccl_maxflow_arc(joined, d, c->nvertices + 1, most) != CCL_NONE;
    }
    for (uint32_t v = 0; ok && k->held && v < c->topo->ndevices; v++) {
        bool sends = k->held[v] == CCL_I_HELD_SENDS;
        if (sends || k->held[v] == CCL_I_HELD_RECEIVES)
            ok = ccl_maxflow_arc(joined, sends ? k->source : v, sends ? v : c->nvertices + 1,
                                 most) != CCL_NONE;
    }
    if (ok) {
        bool *side = malloc((c->nvertices + (size_t)2) * sizeof *side);
        ok = side != NULL;
        if (ok) {
            sum = ccl_maxflow_run(joined, k->source, c->nvertices + 1, most);
            ccl_maxflow_side(joined, k->source, side);
            memcpy(k->side, side, c->nvertices * sizeof *side);
        }
        free(side);
    }
    ccl_maxflow_destroy(joined);
    return ok ? sum : -1;
}

/* Take a cut that is tighter. */
static void take(ccl_i_cutter_t *k, const uint32_t *weights, const bool *side, ccl_i_cut_t *cut) {
    const ccl_topology_t *topo = k->c->topo;
    int64_t parts = 0, units = ccl_i_cut_units(k, side);
    for (uint32_t r = 0; r < topo->nranks; r++)
        parts += side[topo->rank_device[r]] ? weights[r] : 0;
    if (parts == 0 || units == 0)
        return;
    int64_t g = (int64_t)ccl_gcd((uint64_t)parts, (uint64_t)units);
    if (cut->units > 0 && (__int128)parts * cut->units <= (__int128)cut->parts * units)
        return;
    cut->parts = parts / g;
    cut->units = units / g;
    memcpy(cut->side, side, k->c->nvertices * sizeof *side);
}

ccl_status_t ccl_i_cut_tighten(ccl_i_cutter_t *k, const uint32_t *weights, uint32_t sink,
                               ccl_i_cut_t *cut, ccl_error_t *err) {
    const ccl_topology_t *topo = k->c->topo;
    uint32_t device = topo->rank_device[sink];
    int64_t sum = 0;
    for (uint32_t r = 0; r < topo->nranks; r++)
        sum += weights[r];
    if (sum == weights[sink])
        return CCL_OK; /* nothing to bring */
    for (uint32_t v = 0; v < k->c->nvertices; v++)
        k->side[v] = v != device;
    take(k, weights, k->side, cut);
    for (uint32_t round = 0;; round++) {
        int64_t p = cut->parts, q = cut->units, want = sum * q;
        if (cut->units == 0 || round > 10000)
            return ccl_fail(err, CCL_ERR_INTERNAL, "cuts do not settle at rank %u", sink);
        for (uint32_t a = 0; a < k->c->narcs; a++)
            ccl_maxflow_capacity(k->flow, a, k->c->arcs[a].units * p);
        for (uint32_t r = 0; r < topo->nranks; r++)
            ccl_maxflow_capacity(k->flow, k->c->narcs + r, (int64_t)weights[r] * q);
        ccl_maxflow_reset(k->flow);
        if (ccl_maxflow_run(k->flow, k->source, device, want) == want)
            return CCL_OK;
        ccl_maxflow_side(k->flow, k->source, k->side);
        take(k, weights, k->side, cut);
        if (cut->parts == p && cut->units == q)
            return ccl_fail(err, CCL_ERR_INTERNAL, "a cut of rank %u is no cut", sink);
    }
}

static unsigned __int128 gcd128(unsigned __int128 a, unsigned __int128 b) {
    while (b) {
        unsigned __int128 r = a % b;
        a = b;
        b = r;
    }
    return a;
}

void ccl_i_bound_rate(const ccl_capacity_t *c, uint64_t parts, uint64_t units, uint64_t moved,
                      ccl_bandwidth_bound_t *out) {
    out->Bps = (double)parts / (double)moved * (double)units * c->unit_Bps;
    out->exact_Bps = (ccl_fraction_t){0, 0};
    if (!c->exact)
        return;
    /* parts / moved first, so that products stay below 2^128. */
    uint64_t g = ccl_gcd(parts, moved);
    unsigned __int128 num = (unsigned __int128)(parts / g) * units;
    unsigned __int128 den = moved / g;
    unsigned __int128 h = gcd128(num, den);
    num /= h;
    den /= h;
    h = gcd128((unsigned __int128)c->unit_num, den);
    den /= h;
    uint64_t unit = (uint64_t)c->unit_num / (uint64_t)h;
    if (num > UINT64_MAX || den > UINT64_MAX)
        return;
    num *= unit;
    den *= (uint64_t)c->unit_den;
    h = gcd128(num, den);
    num /= h;
    den /= h;
    if (num <= UINT64_MAX && den <= UINT64_MAX) {
        out->exact_Bps = (ccl_fraction_t){(uint64_t)num, (uint64_t)den};
        out->Bps = (double)out->exact_Bps.num / (double)out->exact_Bps.den;
    }
}

bool ccl_i_capacity_balanced(const ccl_capacity_t *c) {
    int64_t *more = calloc(c->nvertices + (size_t)1, sizeof *more);
    bool balanced = more != NULL;
    for (uint32_t a = 0; balanced && a < c->narcs; a++) {
        more[c->arcs[a].from] += c->arcs[a].units;
        more[c->arcs[a].to] -= c->arcs[a].units;
    }
    for (uint32_t v = 0; balanced && v < c->nvertices; v++)
        balanced =
            more[v] == 0 || (v < c->topo->ndevices && c->topo->devices[v].kind == CCL_DEVICE_GPU);
    free(more);
    return balanced;
}

void ccl_i_bound_crossing(const ccl_capacity_t *c, bool reversed, const bool *side,
                          uint8_t *crosses) {
    const ccl_topology_t *topo = c->topo;
    for (uint32_t a = 0; a < c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &c->arcs[a];
        if (!(side[reversed ? arc->to : arc->from] && !side[reversed ? arc->from : arc->to]))
            continue;
        if (arc->link != CCL_NONE)
            crosses[arc->link] = 1;
        for (uint32_t m = 0; arc->link == CCL_NONE && m < topo->groups[arc->group].nlinks; m++)
            crosses[topo->groups[arc->group].links[m]] = 1;
    }
}

ccl_status_t ccl_i_bound_links(const ccl_topology_t *topo, const uint8_t *crosses,
                               ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    out->nlinks = 0;
    out->links = ccl_arena_alloc(&out->arena, topo->nlinks + (size_t)1, sizeof *out->links);
    if (!out->links)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        if (crosses[l])
            out->links[out->nlinks++] = l;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_bound_witness(const ccl_capacity_t *c, bool reversed, const bool *side,
                                 ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = c->topo;
    uint8_t *crosses = calloc(topo->nlinks + (size_t)1, sizeof *crosses);
    ccl_status_t status = CCL_OK;
    out->part = ccl_arena_alloc(&out->arena, topo->ndevices + (size_t)1, sizeof *out->part);
    if (!crosses || !out->part) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    out->nparts = 2;
    for (uint32_t v = 0; v < topo->ndevices; v++)
        out->part[v] = side[v] != reversed;
    ccl_i_bound_crossing(c, reversed, side, crosses);
    status = ccl_i_bound_links(topo, crosses, out, err);
end:
    free(crosses);
    return status;
}

ccl_status_t ccl_i_bound_sinks(const ccl_capacity_t *c, const uint32_t *weights, uint8_t *skip,
                               ccl_error_t *err) {
    const ccl_topology_t *topo = c->topo;
    uint32_t some = 0, fixed = CCL_NONE;
    bool equal = true;
    ccl_automorphisms_t symmetry;
    memset(skip, 0, topo->nranks);
    for (uint32_t r = 0; r < topo->nranks; r++) {
        equal &= weights[r] == weights[0];
        some += weights[r] > 0;
        fixed = weights[r] > 0 ? topo->rank_device[r] : fixed;
    }
    /* Groups without a vertex are not part of the graph whose symmetries are found. */
    if (topo->nranks < FEW_RANKS || c->nleft_groups > 0 || (!equal && some != 1))
        return CCL_OK;
    CCL_TRY(ccl_automorphisms_find(&c->graph, equal ? CCL_NONE : fixed, &symmetry, err));
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t first = symmetry.vertex_orbit[topo->rank_device[r]];
        uint32_t rank = topo->devices[first].rank;
        skip[r] = first != topo->rank_device[r] && rank != CCL_NONE;
    }
    ccl_automorphisms_fini(&symmetry);
    return CCL_OK;
}

static ccl_status_t by_cut(const ccl_ctx_t *ctx, const ccl_capacity_t *c,
                           const ccl_bound_demand_t *demand, ccl_bandwidth_bound_t *out,
                           ccl_error_t *err) {
    uint32_t n = c->topo->nranks;
    ccl_i_cutter_t k;
    ccl_i_cut_t cut = {0, 0, NULL};
    uint8_t *skip = NULL;
    uint32_t *weights = NULL;
    uint64_t parts = demand->parts, sum = 0;
    bool rounded = false;
    ccl_status_t status = ccl_i_cutter_init(&k, c, demand->reversed, err);
    if (status != CCL_OK)
        return status;
    cut.side = calloc(c->nvertices + (size_t)1, sizeof *cut.side);
    skip = calloc(n, sizeof *skip);
    weights = calloc(n, sizeof *weights);
    if (!cut.side || !skip || !weights) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < n; r++) {
        weights[r] = demand->weights[r];
        sum += weights[r];
    }
    /* Rounded down until products fit: a bound stays one. */
    while ((double)sum * (double)k.total_units > 4e18) {
        rounded = true;
        sum = 0;
        parts = (parts + 1) / 2;
        for (uint32_t r = 0; r < n; r++) {
            weights[r] /= 2;
            sum += weights[r];
        }
    }
    if (demand->shape == CCL_BOUND_SPREAD)
        CCL_TRY_GOTO(ccl_i_bound_sinks(c, weights, skip, err), status, end);
    for (uint32_t r = 0; r < n; r++) {
        if (skip[r] || (demand->shape == CCL_BOUND_GATHER && r != demand->root))
            continue;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        CCL_TRY_GOTO(ccl_i_cut_tighten(&k, weights, r, &cut, err), status, end);
    }
    if (cut.units == 0)
        goto end;
    out->proof = CCL_BOUND_CUT;
    ccl_i_bound_rate(c, parts, (uint64_t)cut.units, (uint64_t)cut.parts, out);
    out->tight = c->exact && !rounded && c->nleft_groups == 0 &&
                 (demand->shape == CCL_BOUND_GATHER || ccl_i_capacity_balanced(c));
    status = ccl_i_bound_witness(c, demand->reversed, cut.side, out, err);
end:
    free(cut.side);
    free(skip);
    free(weights);
    ccl_i_cutter_fini(&k);
    return status;
}

ccl_status_t ccl_model_bandwidth_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                       const ccl_bound_demand_t *demand, ccl_bandwidth_bound_t *out,
                                       ccl_error_t *err) {
    ccl_capacity_t *c = NULL;
    ccl_status_t status;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    out->Bps = INFINITY;
    if (topo->nranks < 2 || demand->parts == 0)
        return CCL_OK;
    CCL_TRY(ccl_capacity_create(topo, &c, err));
    if (demand->shape == CCL_BOUND_PAIRS)
        status = ccl_i_bound_pairs(ctx, c, demand, out, err);
    else if (demand->shape == CCL_BOUND_ALLREDUCE)
        status = ccl_i_bound_allreduce(ctx, c, true, out, err);
    else
        status = by_cut(ctx, c, demand, out, err);
    ccl_capacity_destroy(c);
    if (status != CCL_OK)
        ccl_bandwidth_bound_fini(out);
    return status;
}

void ccl_bandwidth_bound_fini(ccl_bandwidth_bound_t *bound) {
    ccl_arena_fini(&bound->arena);
    memset(bound, 0, sizeof *bound);
}
