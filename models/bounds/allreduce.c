/*
 * AllReduce. Valid for every schedule that copies and adds:
 * - a cut: the whole message must leave and enter every set of GPUs that is not all of them;
 * - a partition into k parts: per element 2 (k - 1) messages pass between parts, for the first part
 *   that has the whole reduction has heard of k - 1 others, and each of them must then hear of it
 * (one-way gossip, Harary, Schwenk 1974). Each part sends no more than its smallest cut lets out.
 * A switch that multicasts makes several messages of one that leaves a part, a switch that adds
 * makes one of several before it enters, so such a switch must itself lie in a part: the copies and
 * the addends then cross between parts one by one (docs/bounds.md).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/bounds/bounds.h"

enum { FEW_RANKS = 6 };

typedef struct sets {
    const ccl_capacity_t *c;
    uint32_t n;
    ccl_i_cutter_t out, in; /* cuts of what leaves, of what enters */
    uint8_t *from, *to;     /* [n] */
    bool entering;          /* the partition in hand counts what enters its parts */
    uint8_t *held;          /* [ndevices] for partitions: switches in the part in hand, in others */
    bool witness_apart;     /* the same for the best partition so far */
    bool apart;             /* such switches are in no part: what comes by them counts too */
} sets_t;

/* Whether a device makes one message of several (entering), or several of one, on the way. */
static bool able(const ccl_device_t *device, bool enter) {
    return enter ? device->reduce : device->multicast;
}

/* Units that can leave (enter) the GPUs in `from` for all others. */
static int64_t around(sets_t *s, bool enter) {
    for (uint32_t r = 0; r < s->n; r++)
        s->to[r] = !s->from[r];
    ccl_i_cutter_t *k = enter ? &s->in : &s->out;
    int64_t units = ccl_i_cut_between(k, s->from, s->to);
    return units < 0 ? units : ccl_i_cut_units(k, k->side);
}

/* A cut that halves nothing: the message over what leaves it. */
static ccl_status_t try_cut(sets_t *s, int64_t units, bool enter, ccl_bandwidth_bound_t *out,
                            ccl_error_t *err) {
    ccl_i_cutter_t *k = enter ? &s->in : &s->out;
    ccl_bandwidth_bound_t rate = {0};
    if (units < 0)
        return ccl_fail_nomem(err);
    ccl_i_bound_rate(s->c, 1, (uint64_t)units, 1, &rate);
    if (!(rate.Bps < out->Bps * (1 - 1e-12)))
        return CCL_OK;
    out->Bps = rate.Bps;
    out->exact_Bps = rate.exact_Bps;
    out->proof = CCL_BOUND_CUT;
    out->nlinks = 0;
    return ccl_i_bound_witness(s->c, k->reversed, k->side, out, err);
}

/* GPUs in blocks: servers, or what stays together without the links of a tight cut. */
typedef struct blocks {
    uint32_t n;
    uint32_t *of; /* [nranks] CCL_NONE: in none */
} blocks_t;

/* Blocks whose GPUs a switch with an ability may serve become one, so that the switch lies within.
 */
typedef struct holders {
    blocks_t blocks;
    uint32_t *of_switch; /* [ndevices] block of a switch with the ability, else CCL_NONE */
    uint8_t *whole;      /* [blocks.n] has such a switch: it cannot be parted */
    bool any, none;      /* there are such switches; one is in no block, so there is no partition */
} holders_t;

static void holders_fini(holders_t *h) {
    free(h->blocks.of);
    free(h->of_switch);
    free(h->whole);
}

/* A switch joins its neighbours' servers, GPUs and switches that are able too. */
static ccl_status_t holders_find(const sets_t *s, const blocks_t *b, bool enter, holders_t *h,
                                 ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    uint32_t *set = calloc((size_t)topo->ndevices + b->n + 1, sizeof *set), nd = topo->ndevices;
    *h = (holders_t){.blocks = {nd + b->n, calloc(s->n, sizeof(uint32_t))}};
    h->of_switch = calloc(nd + (size_t)1, sizeof *h->of_switch);
    h->whole = calloc((size_t)nd + b->n + 1, 1);
    if (!set || !h->blocks.of || !h->of_switch || !h->whole) {
        free(set);
        return ccl_fail_nomem(err);
    }
    for (uint32_t v = 0; v < nd + b->n; v++)
        set[v] = v;
    for (uint32_t r = 0; r < s->n; r++) {
        if (b->of[r] != CCL_NONE)
            ccl_set_join(set, topo->rank_device[r], nd + b->of[r]);
    }
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        uint32_t ends[2] = {topo->links[l].from, topo->links[l].to};
        for (int i = 0; i < 2; i++) {
            const ccl_device_t *w = &topo->devices[ends[i]], *v = &topo->devices[ends[1 - i]];
            if (!able(w, enter))
                continue;
            if (v->kind == CCL_DEVICE_GPU || able(v, enter))
                ccl_set_join(set, ends[i], ends[1 - i]);
            for (uint32_t r = 0; v->server != CCL_NONE && r < s->n; r++) {
                if (topo->devices[topo->rank_device[r]].server == v->server)
                    ccl_set_join(set, ends[i], topo->rank_device[r]);
            }
        }
    }
    for (uint32_t v = 0; v < nd; v++) {
        h->of_switch[v] = able(&topo->devices[v], enter) ? ccl_set_find(set, v) : CCL_NONE;
        if (h->of_switch[v] != CCL_NONE)
            h->whole[h->of_switch[v]] = 1;
        h->any |= h->of_switch[v] != CCL_NONE;
    }
    for (uint32_t r = 0; r < s->n; r++) {
        uint32_t root = ccl_set_find(set, topo->rank_device[r]);
        h->blocks.of[r] = b->of[r] == CCL_NONE && !h->whole[root] ? CCL_NONE : root;
    }
    for (uint32_t v = 0; v < nd && h->any; v++) {
        bool held = h->of_switch[v] == CCL_NONE;
        for (uint32_t r = 0; r < s->n && !held; r++)
            held = h->blocks.of[r] == h->of_switch[v];
        h->none |= !held;
    }
    free(set);
    return CCL_OK;
}

/* A partition of k parts is the bound: which part each device is in.
   @param split  [b->n] a block is in parts of one GPU   @param name  [b->n + 1] scratch */
static ccl_status_t take_partition(sets_t *s, const blocks_t *b, const holders_t *h,
                                   const uint8_t *split, uint32_t *name, ccl_bandwidth_bound_t *out,
                                   ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    out->part = ccl_arena_alloc(&out->arena, topo->ndevices, sizeof *out->part);
    if (!out->part)
        return ccl_fail_nomem(err);
    memset(out->part, 0xff, topo->ndevices * sizeof *out->part);
    memset(name, 0xff, (b->n + (size_t)1) * sizeof *name);
    uint32_t next = 0;
    for (uint32_t r = 0; r < s->n; r++) {
        uint32_t v = b->of[r];
        bool together = v != CCL_NONE && !split[v];
        if (together && name[v] == CCL_NONE)
            name[v] = next++;
        out->part[topo->rank_device[r]] = together ? name[v] : next++;
    }
    s->witness_apart = s->apart;
    for (uint32_t v = 0; h && !s->apart && v < topo->ndevices; v++)
        out->part[v] = h->of_switch[v] != CCL_NONE ? name[h->of_switch[v]] : out->part[v];
    return CCL_OK;
}

/* Capacities in one direction around blocks and the GPUs in them. */
typedef struct around {
    const blocks_t *b;
    int64_t *single; /* [n] GPUs */
    int64_t *whole;  /* [b->n] */
    bool enter;
} around_t;

/* A partition whose parts are blocks, whole or GPU by GPU: whichever makes sum / (k - 1) least. */
static ccl_status_t partitions(sets_t *s, const around_t *x, const holders_t *h,
                               ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    const blocks_t *b = x->b;
    const int64_t *single = x->single, *whole = x->whole;
    int64_t *split_sum = calloc(b->n + (size_t)1, sizeof *split_sum);
    uint32_t *gpus = calloc(b->n + (size_t)1, sizeof *gpus);
    uint32_t *name = calloc(b->n + (size_t)1, sizeof *name);
    uint8_t *split = calloc(b->n + (size_t)1, 1);
    double best = INFINITY;
    int64_t loose = 0;
    uint32_t nloose = 0;
    ccl_status_t status = CCL_OK;
    if (!split_sum || !gpus || !name || !split) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < s->n; r++) {
        if (b->of[r] == CCL_NONE) {
            loose += single[r];
            nloose++;
        } else {
            split_sum[b->of[r]] += single[r];
            gpus[b->of[r]]++;
        }
    }
    for (uint32_t v = 0; v < b->n; v++)
        split[v] = !h || !h->whole[v];
    for (;;) { /* Newton's method on the ratio: it falls each time */
        int64_t sum = loose;
        uint32_t k = nloose;
        for (uint32_t v = 0; v < b->n; v++) {
            sum += gpus[v] == 0 ? 0 : split[v] ? split_sum[v] : whole[v];
            k += gpus[v] == 0 ? 0 : split[v] ? gpus[v] : 1;
        }
        double rate = k < 2 ? INFINITY : (double)sum / (double)(k - 1);
        if (!(rate < best))
            break;
        best = rate;
        ccl_bandwidth_bound_t now = {0};
        ccl_i_bound_rate(s->c, 1, (uint64_t)sum, 2 * (uint64_t)(k - 1), &now);
        if (now.Bps < out->Bps * (1 - 1e-12)) {
            out->Bps = now.Bps;
            out->exact_Bps = now.exact_Bps;
            out->proof = CCL_BOUND_PARTITION;
            out->nparts = k;
            out->nlinks = 0;
            s->entering = x->enter;
            CCL_TRY_GOTO(take_partition(s, b, h, split, name, out, err), status, end);
        }
        for (uint32_t v = 0; v < b->n; v++)
            split[v] = gpus[v] > 0 && !(h && h->whole[v]) &&
                       (double)split_sum[v] - rate * gpus[v] < (double)whole[v] - rate;
    }
end:
    free(split_sum);
    free(gpus);
    free(name);
    free(split);
    return status;
}

static bool other_gpu(const sets_t *s, uint32_t v) {
    uint32_t rank = v < s->c->topo->ndevices ? s->c->topo->devices[v].rank : CCL_NONE;
    return rank != CCL_NONE && !s->from[rank];
}

/* What the GPUs in `from` and the switches held with them can send (receive); where switches are
 * apart, with what can come from them (go to them). -1: out of memory. */
static int64_t around_held(sets_t *s, bool enter, uint8_t *crosses) {
    int64_t sum = 0;
    for (int turn = 0; turn < (s->apart ? 2 : 1); turn++) {
        ccl_i_cutter_t *k = enter == (turn == 0) ? &s->in : &s->out;
        for (uint32_t r = 0; r < s->n; r++)
            s->to[r] = turn == 0 && !s->from[r];
        k->held = s->held;
        k->alone = turn == 1;
        int64_t units = ccl_i_cut_between(k, s->from, s->to);
        k->held = NULL;
        k->alone = false;
        if (units < 0)
            return units;
        if (turn == 0)
            units = ccl_i_cut_units(k, k->side);
        sum += units;
        if (crosses && turn == 0)
            ccl_i_bound_crossing(s->c, k->reversed, k->side, crosses);
        for (uint32_t a = 0; crosses && turn == 1 && a < s->c->narcs; a++) {
            const ccl_capacity_arc_t *arc = &s->c->arcs[a];
            bool leaves = k->side[k->reversed ? arc->to : arc->from] &&
                          !k->side[k->reversed ? arc->from : arc->to];
            if (leaves && arc->link != CCL_NONE && !other_gpu(s, arc->from) &&
                !other_gpu(s, arc->to))
                crosses[arc->link] = 1;
        }
    }
    return sum;
}

/* The links over which the parts of a partition send (or receive) at most: the smallest cut around
 * each. */
static ccl_status_t partition_links(const ccl_ctx_t *ctx, sets_t *s, ccl_bandwidth_bound_t *out,
                                    ccl_error_t *err) {
    const ccl_capacity_t *c = s->c;
    const ccl_topology_t *topo = c->topo;
    ccl_i_cutter_t *k = s->entering ? &s->in : &s->out;
    uint8_t *crosses = calloc(topo->nlinks + (size_t)1, sizeof *crosses);
    ccl_status_t status = crosses ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t p = 0; p < out->nparts && status == CCL_OK; p++) {
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        bool any = false;
        for (uint32_t r = 0; r < s->n; r++)
            s->from[r] = out->part[topo->rank_device[r]] == p;
        for (uint32_t v = 0; v < topo->ndevices; v++) {
            bool held = able(&topo->devices[v], s->entering);
            s->held[v] = !held               ? CCL_I_HELD_NOT
                         : out->part[v] == p ? CCL_I_HELD_SENDS
                                             : CCL_I_HELD_RECEIVES;
            any |= held;
        }
        s->apart = any && s->witness_apart;
        int64_t units = any ? around_held(s, s->entering, crosses) : around(s, s->entering);
        if (units < 0)
            status = ccl_fail_nomem(err);
        else if (!any)
            ccl_i_bound_crossing(c, k->reversed, k->side, crosses);
    }
    if (status == CCL_OK)
        status = ccl_i_bound_links(topo, crosses, out, err);
end:
    free(crosses);
    return status;
}

/* Partitions where switches multicast or add: within parts, or all of them apart. */
static ccl_status_t able_partitions(const ccl_ctx_t *ctx, sets_t *s, const holders_t *h, bool enter,
                                    ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    const blocks_t *b = &h->blocks;
    int64_t *single = calloc(s->n, sizeof *single);
    int64_t *whole = calloc(b->n + (size_t)1, sizeof *whole);
    ccl_status_t status = single && whole ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t set = 0; set < s->n + b->n && status == CCL_OK; set++) {
        uint32_t v = set < s->n ? CCL_NONE : set - s->n, inside = 0;
        for (uint32_t r = 0; r < s->n; r++) {
            s->from[r] = set < s->n ? r == set : b->of[r] == v;
            inside += s->from[r];
        }
        bool parted = set >= s->n || b->of[set] == CCL_NONE || !h->whole[b->of[set]];
        if (inside == 0 || inside == s->n || !parted)
            continue;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        for (uint32_t w = 0; w < s->c->topo->ndevices; w++)
            s->held[w] = h->of_switch[w] == CCL_NONE         ? CCL_I_HELD_NOT
                         : !s->apart && h->of_switch[w] == v ? CCL_I_HELD_SENDS
                                                             : CCL_I_HELD_RECEIVES;
        int64_t units = around_held(s, enter, NULL);
        if (units < 0)
            status = ccl_fail_nomem(err);
        *(set < s->n ? &single[set] : &whole[v]) = units;
    }
    if (status == CCL_OK)
        status = partitions(s, &(around_t){b, single, whole, enter}, h, out, err);
end:
    free(single);
    free(whole);
    return status;
}

/* Partitions with switches that are able, where there are any. */
static ccl_status_t with_switches(const ccl_ctx_t *ctx, sets_t *s, const around_t *x,
                                  ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    holders_t h;
    ccl_status_t status = holders_find(s, x->b, x->enter, &h, err);
    s->apart = false;
    if (status == CCL_OK && !h.any) {
        status = partitions(s, x, NULL, out, err);
    } else if (status == CCL_OK) {
        if (!h.none)
            status = able_partitions(ctx, s, &h, x->enter, out, err);
        s->apart = true;
        memset(h.whole, 0, h.blocks.n);
        for (uint32_t r = 0; r < s->n; r++)
            h.blocks.of[r] = x->b->of[r];
        if (status == CCL_OK)
            status = able_partitions(ctx, s, &h, x->enter, out, err);
        s->apart = false;
    }
    holders_fini(&h);
    return status;
}

/* Cuts around blocks and GPUs, and partitions into them. */
static ccl_status_t by_blocks(const ccl_ctx_t *ctx, sets_t *s, const blocks_t *b,
                              const ccl_automorphisms_t *symmetry, ccl_bandwidth_bound_t *out,
                              ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    int64_t *single = calloc(s->n, sizeof *single);
    int64_t *whole = calloc(b->n + (size_t)1, sizeof *whole);
    ccl_status_t status = single && whole ? CCL_OK : ccl_fail_nomem(err);
    for (int enter = 0; enter < 2 && status == CCL_OK; enter++) {
        for (uint32_t r = 0; r < s->n && status == CCL_OK; r++) {
            uint32_t first = symmetry ? symmetry->vertex_orbit[topo->rank_device[r]] : CCL_NONE;
            uint32_t like = first != CCL_NONE ? topo->devices[first].rank : r;
            CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
            if (like < r) {
                single[r] = single[like];
                continue;
            }
            memset(s->from, 0, s->n);
            s->from[r] = 1;
            single[r] = around(s, enter);
            status = try_cut(s, single[r], enter, out, err);
        }
        for (uint32_t v = 0; v < b->n && status == CCL_OK; v++) {
            uint32_t inside = 0;
            CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
            for (uint32_t r = 0; r < s->n; r++) {
                s->from[r] = b->of[r] == v;
                inside += s->from[r];
            }
            if (inside == 0 || inside == s->n)
                continue;
            whole[v] = around(s, enter);
            status = try_cut(s, whole[v], enter, out, err);
        }
        if (status == CCL_OK)
            status = with_switches(ctx, s, &(around_t){b, single, whole, enter}, out, err);
    }
end:
    free(single);
    free(whole);
    return status;
}

/* Device v serves some GPUs of its server, and not all: `gpus` of them, by server in `all`. */
static bool serves_some(const ccl_topology_t *topo, uint32_t v, const uint32_t *gpus,
                        const uint32_t *all) {
    uint32_t server = topo->devices[v].server;
    return topo->devices[v].kind != CCL_DEVICE_GPU && server != CCL_NONE && gpus[v] < all[server];
}

/*
 * Parts inside servers: the GPUs behind the same devices, such as the pairs at a PCIe switch or a
 * NIC. Only where the links that leave them all promise a tighter bound than there is.
 */
static ccl_status_t behind_devices(const sets_t *s, blocks_t *b, bool *promising,
                                   const ccl_bandwidth_bound_t *have, ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    uint32_t nd = topo->ndevices, *set = calloc(2 * (size_t)nd + topo->nservers + 1, sizeof *set);
    uint32_t *gpus = set + nd, *all = gpus + nd, k = 0;
    int64_t units[2] = {0, 0};
    if (!set)
        return ccl_fail_nomem(err);
    for (uint32_t v = 0; v < nd; v++) {
        set[v] = v;
        if (topo->devices[v].kind == CCL_DEVICE_GPU && topo->devices[v].server != CCL_NONE)
            all[topo->devices[v].server]++;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        gpus[topo->links[l].to] += topo->devices[topo->links[l].from].kind == CCL_DEVICE_GPU;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        if (topo->devices[link->from].kind == CCL_DEVICE_GPU &&
            serves_some(topo, link->to, gpus, all))
            ccl_set_join(set, link->from, link->to);
    }
    memset(gpus, 0, nd * sizeof *gpus);
    b->n = nd;
    for (uint32_t r = 0; r < s->n; r++) {
        b->of[r] = ccl_set_find(set, topo->rank_device[r]);
        k += gpus[b->of[r]]++ == 0;
    }
    for (uint32_t a = 0; a < s->c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &s->c->arcs[a];
        if (arc->link == CCL_NONE)
            continue;
        uint32_t from = ccl_set_find(set, topo->links[arc->link].from);
        uint32_t to = ccl_set_find(set, topo->links[arc->link].to);
        units[0] += from != to && gpus[from] > 0 ? arc->units : 0;
        units[1] += from != to && gpus[to] > 0 ? arc->units : 0;
    }
    *promising = false;
    for (int enter = 0; enter < 2 && k > 1; enter++) {
        ccl_bandwidth_bound_t rate = {0};
        ccl_i_bound_rate(s->c, 1, (uint64_t)units[enter], 2 * (uint64_t)(k - 1), &rate);
        *promising |= rate.Bps < have->Bps * (1 - 1e-12);
    }
    free(set);
    return CCL_OK;
}

/* Parts for a topology that names no servers: the tightest cut of an AllGather shows which links
 * are narrow; what stays together without links as narrow as these is a block. */
static ccl_status_t find_blocks(const ccl_ctx_t *ctx, sets_t *s,
                                const ccl_automorphisms_t *symmetry, blocks_t *b,
                                ccl_error_t *err) {
    const ccl_capacity_t *c = s->c;
    const ccl_topology_t *topo = c->topo;
    uint32_t *weights = calloc(s->n, sizeof *weights);
    uint32_t *set = calloc(c->nvertices, sizeof *set);
    ccl_i_cut_t cut = {0, 0, calloc(c->nvertices, sizeof *cut.side)};
    int64_t narrow = 0;
    ccl_status_t status = weights && set && cut.side ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t r = 0; r < s->n && status == CCL_OK; r++)
        weights[r] = 1;
    for (uint32_t r = 0; r < s->n && status == CCL_OK; r++) {
        uint32_t v = topo->rank_device[r];
        if (symmetry && symmetry->vertex_orbit[v] != v &&
            topo->devices[symmetry->vertex_orbit[v]].rank < r)
            continue;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        status = ccl_i_cut_tighten(&s->out, weights, r, &cut, err);
    }
    if (status != CCL_OK)
        goto end;
    for (uint32_t a = 0; a < c->narcs; a++) {
        if (cut.side[c->arcs[a].from] && !cut.side[c->arcs[a].to] && c->arcs[a].units > narrow)
            narrow = c->arcs[a].units;
    }
    for (uint32_t v = 0; v < c->nvertices; v++)
        set[v] = v;
    for (uint32_t a = 0; a < c->narcs; a++) {
        if (c->arcs[a].units > narrow)
            ccl_set_join(set, c->arcs[a].from, c->arcs[a].to);
    }
    b->n = c->nvertices;
    for (uint32_t r = 0; r < s->n; r++)
        b->of[r] = ccl_set_find(set, topo->rank_device[r]);
end:
    free(weights);
    free(set);
    free(cut.side);
    return status;
}

static ccl_status_t by_domains(const ccl_ctx_t *ctx, sets_t *s, ccl_bandwidth_bound_t *out,
                               ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    for (int enter = 0; enter < 2; enter++) {
        for (uint32_t v = 0; v < topo->ndevices; v++)
            s->held[v] = able(&topo->devices[v], enter);
        CCL_TRY(ccl_i_bound_domains(ctx, enter ? &s->in : &s->out, enter ? &s->out : &s->in,
                                    s->held, out, err));
    }
    return CCL_OK;
}

static ccl_status_t valid_bound(const ccl_ctx_t *ctx, sets_t *s,
                                const ccl_automorphisms_t *symmetry, ccl_bandwidth_bound_t *out,
                                ccl_error_t *err) {
    const ccl_topology_t *topo = s->c->topo;
    ccl_automorphisms_t still;
    blocks_t b = {topo->nservers, calloc(s->n, sizeof *b.of)};
    bool have = false;
    ccl_status_t status = b.of ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t r = 0; r < s->n && status == CCL_OK; r++)
        b.of[r] = topo->devices[topo->rank_device[r]].server;
    CCL_TRY_GOTO(status, status, end);
    CCL_TRY_GOTO(by_blocks(ctx, s, &b, symmetry, out, err), status, end);
    if (topo->nservers < 2) {
        CCL_TRY_GOTO(find_blocks(ctx, s, symmetry, &b, err), status, end);
        CCL_TRY_GOTO(by_blocks(ctx, s, &b, symmetry, out, err), status, end);
    }
    CCL_TRY_GOTO(by_domains(ctx, s, out, err), status, end);
    CCL_TRY_GOTO(behind_devices(s, &b, &have, out, err), status, end);
    if (have)
        CCL_TRY_GOTO(by_blocks(ctx, s, &b, symmetry, out, err), status, end);
    have = false;
    /* Every cut that parts rank 0 from another rank. */
    if (s->n > FEW_RANKS && s->c->nleft_groups == 0) {
        CCL_TRY_GOTO(ccl_automorphisms_find(&s->c->graph, topo->rank_device[0], &still, err),
                     status, end);
        have = true;
    }
    for (uint32_t r = 1; r < s->n; r++) {
        uint32_t v = topo->rank_device[r];
        if (have && still.vertex_orbit[v] != v && topo->devices[still.vertex_orbit[v]].rank < r)
            continue;
        for (int enter = 0; enter < 2; enter++) {
            ccl_i_cutter_t *k = enter ? &s->in : &s->out;
            memset(s->from, 0, s->n);
            memset(s->to, 0, s->n);
            s->from[0] = s->to[r] = 1;
            int64_t units = ccl_i_cut_between(k, s->from, s->to);
            if (units >= 0)
                units = ccl_i_cut_units(k, k->side);
            CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
            CCL_TRY_GOTO(try_cut(s, units, enter, out, err), status, end);
        }
    }
    if (out->proof == CCL_BOUND_PARTITION)
        status = partition_links(ctx, s, out, err);
end:
    if (have)
        ccl_automorphisms_fini(&still);
    free(b.of);
    return status;
}

ccl_status_t ccl_i_bound_allreduce(const ccl_ctx_t *ctx, const ccl_capacity_t *c, bool trees,
                                   ccl_bandwidth_bound_t *out, ccl_error_t *err) {
    sets_t s = {.c = c, .n = c->topo->nranks};
    ccl_automorphisms_t symmetry;
    bool have = false;
    ccl_status_t status = CCL_OK;
    s.from = calloc(s.n, 1);
    s.to = calloc(s.n, 1);
    s.held = calloc(c->topo->ndevices + (size_t)1, 1);
    if (!s.from || !s.to || !s.held) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(ccl_i_cutter_init(&s.out, c, false, err), status, end);
    CCL_TRY_GOTO(ccl_i_cutter_init(&s.in, c, true, err), status, end);
    if (s.n > FEW_RANKS && c->nleft_groups == 0) {
        CCL_TRY_GOTO(ccl_automorphisms_find(&c->graph, CCL_NONE, &symmetry, err), status, end);
        have = true;
    }
    CCL_TRY_GOTO(valid_bound(ctx, &s, have ? &symmetry : NULL, out, err), status, end);
    if (trees)
        status = ccl_i_bound_trees(ctx, c, have ? &symmetry : NULL, &out->trees_Bps, err);
    out->tight = c->exact && c->nleft_groups == 0 && ccl_i_capacity_balanced(c) &&
                 out->trees_Bps >= out->Bps * (1 - 1e-6);
end:
    if (have)
        ccl_automorphisms_fini(&symmetry);
    ccl_i_cutter_fini(&s.out);
    ccl_i_cutter_fini(&s.in);
    free(s.from);
    free(s.to);
    free(s.held);
    return status;
}
