/*
 * AllReduce where switches multicast or add. Such a switch saves messages only among the GPUs that
 * it serves, its domain; messages past it, from GPU to GPU, are many if it is not used, and few if
 * it is. With a higher weight for these no plan escapes both (docs/bounds.md, "Domains").
 */
#include <stdlib.h>
#include <string.h>

#include "models/bounds/bounds.h"

typedef struct domains {
    const ccl_capacity_t *c;
    const uint8_t *able;         /* [ndevices] */
    uint32_t n, *gpus;           /* [n] GPUs of each domain */
    uint64_t *into, *past;       /* [narcs] cuts that an arc crosses */
    uint8_t *from, *to, *held;   /* [nranks], [nranks], [ndevices] of the cut in hand */
    uint64_t into_sum, past_sum; /* units that cross them */
} domains_t;

static bool is_gpu(const ccl_topology_t *topo, uint32_t v) {
    return v < topo->ndevices && topo->devices[v].kind == CCL_DEVICE_GPU;
}

/* Able switches are of one domain if they hang together without GPUs, or serve the same GPU.
   @param serves  [ndevices] set of the able switches that serve a GPU, CCL_NONE: none do */
static void join(const domains_t *d, uint32_t *set, uint8_t *has, uint32_t *serves) {
    const ccl_topology_t *topo = d->c->topo;
    for (uint32_t v = 0; v < topo->ndevices; v++)
        set[v] = v;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (!is_gpu(topo, topo->links[l].from) && !is_gpu(topo, topo->links[l].to))
            ccl_set_join(set, topo->links[l].from, topo->links[l].to);
    memset(has, 0, topo->ndevices);
    for (uint32_t v = 0; v < topo->ndevices; v++)
        has[ccl_set_find(set, v)] |= d->able[v];
    memset(serves, 0xff, topo->ndevices * sizeof *serves);
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        uint32_t gpu = topo->links[l].from, other = topo->links[l].to;
        if (!is_gpu(topo, gpu)) {
            gpu = topo->links[l].to;
            other = topo->links[l].from;
        }
        uint32_t root = ccl_set_find(set, other);
        if (!is_gpu(topo, gpu) || is_gpu(topo, other) || !has[root])
            continue;
        if (serves[gpu] != CCL_NONE)
            ccl_set_join(set, serves[gpu], root);
        serves[gpu] = ccl_set_find(set, root);
        has[serves[gpu]] = 1;
    }
}

static ccl_status_t find(domains_t *d, ccl_error_t *err) {
    const ccl_topology_t *topo = d->c->topo;
    size_t n = topo->ndevices + (size_t)1;
    uint32_t *set = malloc(n * sizeof *set), *serves = malloc(n * sizeof *serves);
    uint8_t *has = malloc(n);
    ccl_status_t status = set && serves && has ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        join(d, set, has, serves);
        for (uint32_t r = 0; r < topo->nranks; r++) {
            uint32_t at = serves[topo->rank_device[r]];
            if (at != CCL_NONE)
                d->gpus[ccl_set_find(set, at)]++;
        }
        for (uint32_t v = 0; v < topo->ndevices; v++)
            if (d->gpus[v] > 0)
                d->gpus[d->n++] = d->gpus[v];
    }
    free(set);
    free(serves);
    free(has);
    return status;
}

/* Messages past the switches that leave a domain, and as many that enter it, at least. */
static uint64_t least_past(const domains_t *d, uint32_t i) {
    return d->gpus[i] < d->c->topo->nranks;
}

/* Where a message past the switches weighs 1 + 2 / it, domain i is as well off without its switch
   as with it; 0: there is none. */
static uint64_t divisor_of(const domains_t *d, uint32_t i) {
    uint64_t least = least_past(d, i);
    return d->gpus[i] > 1 + least ? d->gpus[i] - 1 - least : 0;
}

/* Messages of an element at least, with these weights, times the divisor. */
static uint64_t messages(const domains_t *d, uint64_t divisor) {
    uint64_t sum = divisor * (2 * (uint64_t)d->c->topo->nranks - 2);
    for (uint32_t i = 0; i < d->n; i++) {
        uint64_t used = 2 * divisor + 2 * least_past(d, i), unused = 2 * ((uint64_t)d->gpus[i] - 1);
        sum += used < unused ? used : unused;
    }
    return sum;
}

/* The cut around the GPU in hand. @param alone  from or to switches only, past no other GPU
   @param held  what able switches are. False: out of memory */
static bool count(domains_t *d, ccl_i_cutter_t *k, bool alone, uint8_t held, uint64_t *crossed,
                  uint64_t *sum) {
    const ccl_topology_t *topo = d->c->topo;
    for (uint32_t v = 0; v < topo->ndevices; v++)
        d->held[v] = d->able[v] ? held : CCL_I_HELD_NOT;
    for (uint32_t r = 0; r < topo->nranks; r++)
        d->to[r] = !alone && !d->from[r];
    k->held = d->held;
    k->alone = alone;
    bool ok = ccl_i_cut_between(k, d->from, d->to) >= 0;
    for (uint32_t a = 0; ok && a < d->c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &d->c->arcs[a];
        bool crosses = k->side[k->reversed ? arc->to : arc->from] &&
                       !k->side[k->reversed ? arc->from : arc->to];
        if (crosses && !ccl_i_cut_shuns(k, arc->from, d->from, d->to) &&
            !ccl_i_cut_shuns(k, arc->to, d->from, d->to)) {
            crossed[a]++;
            *sum += (uint64_t)arc->units;
        }
    }
    k->held = NULL;
    k->alone = false;
    return ok;
}

/* Lengths of the links, and the distance that an element goes by them. */
static ccl_status_t take(const domains_t *d, uint64_t divisor, const ccl_bandwidth_bound_t *now,
                         ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = d->c->topo;
    size_t n = topo->nlinks + (size_t)topo->ngroups;
    out->Bps = now->Bps;
    out->exact_Bps = now->exact_Bps;
    out->proof = CCL_BOUND_DOMAINS;
    out->nparts = out->nlinks = 0;
    out->part = NULL;
    out->links = ccl_arena_alloc(&out->arena, topo->nlinks + (size_t)1, sizeof *out->links);
    out->lengths = ccl_arena_alloc(&out->arena, n + 1, sizeof *out->lengths);
    if (!out->links || !out->lengths)
        return ccl_fail_nomem(err);
    memset(out->lengths, 0, n * sizeof *out->lengths);
    for (uint32_t a = 0; a < d->c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &d->c->arcs[a];
        out->lengths[arc->link != CCL_NONE ? arc->link : topo->nlinks + arc->group] =
            (double)d->into[a] + 2.0 * (double)d->past[a] / (double)divisor;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (out->lengths[l] > 0)
            out->links[out->nlinks++] = l;
    out->distance = (double)messages(d, divisor) / (double)divisor;
    return CCL_OK;
}

static ccl_status_t weigh(const ccl_ctx_t *ctx, domains_t *d, ccl_i_cutter_t *k,
                          ccl_i_cutter_t *back, ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    for (uint32_t r = 0; r < d->c->topo->nranks; r++) {
        CCL_TRY(ccl_ctx_poll(ctx, NULL));
        memset(d->from, 0, d->c->topo->nranks);
        d->from[r] = 1;
        if (!count(d, k, false, CCL_I_HELD_RECEIVES, d->into, &d->into_sum) ||
            !count(d, back, true, CCL_I_HELD_RECEIVES, d->into, &d->into_sum) ||
            !count(d, k, false, CCL_I_HELD_OUT, d->past, &d->past_sum))
            return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < d->n; i++) {
        uint64_t divisor = divisor_of(d, i);
        ccl_bandwidth_bound_t now = {0};
        if (divisor == 0)
            continue;
        ccl_i_bound_rate(d->c, 1, divisor * d->into_sum + 2 * d->past_sum, messages(d, divisor),
                         &now);
        if (now.Bps < out->Bps * (1 - 1e-12))
            CCL_TRY(take(d, divisor, &now, out, err));
    }
    return CCL_OK;
}

ccl_status_t ccl_i_bound_domains(const ccl_ctx_t *ctx, ccl_i_cutter_t *leave, ccl_i_cutter_t *enter,
                                 const uint8_t *able, ccl_bandwidth_bound_t *out,
                                 ccl_error_t *err) {
    const ccl_capacity_t *c = leave->c;
    size_t nv = c->topo->ndevices + (size_t)1, na = c->narcs + (size_t)1;
    domains_t d = {.c = c,
                   .able = able,
                   .gpus = calloc(nv, sizeof *d.gpus),
                   .into = calloc(na, sizeof *d.into),
                   .past = calloc(na, sizeof *d.past),
                   .from = calloc(nv, 1),
                   .to = calloc(nv, 1),
                   .held = calloc(nv, 1)};
    bool enough = d.gpus && d.into && d.past && d.from && d.to && d.held;
    ccl_status_t status = enough ? find(&d, err) : ccl_fail_nomem(err);
    if (status == CCL_OK && d.n > 0)
        status = weigh(ctx, &d, leave, enter, out, err);
    free(d.gpus);
    free(d.into);
    free(d.past);
    free(d.from);
    free(d.to);
    free(d.held);
    return status;
}
