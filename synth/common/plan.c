/*
 * The planner: an out-tree per chunk becomes a schedule of any collective. Copies go down the tree;
 * a reduction is the same tree time-reversed (ReduceScatter is the reverse of
 * AllGather), AllReduce one after the other.
 */
#include "synth/common/plan.h"

#include <stdlib.h>
#include <string.h>

/* A hop's place in time: step of its tree edge, then hop of the GPU path it is part of. */
#define SUB_BITS 12
#define MAX_EDGE_STEP                                                                              \
    ((1u << (30 - SUB_BITS)) - 1) /* keys stay below 2^30: 256 MiB of bits at most */

void ccl_i_tree_add(ccl_i_tree_t *tree, uint32_t src, uint32_t dst, uint32_t step,
                    uint32_t channel) {
    if (!ccl_grow_raw(&tree->edges, &tree->cap, tree->len + 1, sizeof *tree->edges)) {
        tree->nomem = true;
        return;
    }
    tree->edges[tree->len++] = (ccl_i_edge_t){src, dst, step, (uint16_t)channel};
}

typedef struct planner {
    ccl_i_cluster_t *cluster;
    const ccl_i_plan_t *plan;
    ccl_collective_t *coll;
    ccl_i_tree_t tree;
    ccl_transfer_t *transfers; /* step is the key until the end */
    size_t ntransfers, cap;
    uint32_t max_up; /* greatest key of an edge that is time-reversed */
    bool any_up;
    /* Per rank, for the tree in hand (valid where stamp equals serial). */
    uint32_t *stamp, *got_key, *last_send, *needed, *fed;
    uint8_t *source;
    uint32_t *path;
    uint32_t serial;
} planner_t;

static ccl_status_t planner_init(planner_t *p, ccl_i_cluster_t *cluster, const ccl_i_plan_t *plan,
                                 ccl_error_t *err) {
    size_t n = cluster->nranks;
    memset(p, 0, sizeof *p);
    p->cluster = cluster;
    p->plan = plan;
    p->stamp = calloc(n, sizeof *p->stamp);
    p->got_key = calloc(n, sizeof *p->got_key);
    p->last_send = calloc(n, sizeof *p->last_send);
    p->needed = calloc(n, sizeof *p->needed);
    p->fed = calloc(n, sizeof *p->fed);
    p->source = calloc(n, sizeof *p->source);
    p->path = calloc(n + 1, sizeof *p->path);
    if (!p->stamp || !p->got_key || !p->last_send || !p->needed || !p->fed || !p->source ||
        !p->path)
        return ccl_fail_nomem(err);
    return CCL_OK;
}

static void planner_fini(planner_t *p) {
    free(p->stamp);
    free(p->got_key);
    free(p->last_send);
    free(p->needed);
    free(p->fed);
    free(p->source);
    free(p->path);
    free(p->tree.edges);
    free(p->transfers);
    ccl_collective_destroy(p->coll);
}

static int by_step(const void *a, const void *b) {
    const ccl_i_edge_t *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    return x->dst < y->dst ? -1 : x->dst > y->dst;
}

static ccl_status_t emit(planner_t *p, ccl_transfer_t t, bool up, ccl_error_t *err) {
    uint32_t src = t.src, dst = t.dst, key = t.step;
    if (p->stamp[dst] == p->serial)
        return CCL_OK; /* reached before, as a relay */
    if (p->stamp[src] != p->serial)
        return ccl_fail(err, CCL_ERR_INTERNAL, "%s: chunk %u leaves rank %u before it is there",
                        p->plan->name, t.chunk, src);
    /* Not before it came; and time-reversed, a rank that adds nothing of its own takes the first
       arrival as a copy, so its arrivals must not be simultaneous. */
    key = key > p->got_key[src] ? key : p->got_key[src];
    bool own = p->source[src];
    if (up && !own && p->last_send[src] != CCL_NONE && key <= p->last_send[src])
        key = p->last_send[src] + 1;
    if (key >= 1u << 30)
        return ccl_fail(err, CCL_ERR_INPUT, "%s: too many steps", p->plan->name);
    if (!ccl_grow_raw(&p->transfers, &p->cap, p->ntransfers + 1, sizeof *p->transfers))
        return ccl_fail_nomem(err);
    t.step = key;
    p->transfers[p->ntransfers++] = t;
    p->last_send[src] = key;
    p->stamp[dst] = p->serial;
    p->got_key[dst] = key + 1;
    p->last_send[dst] = CCL_NONE;
    return CCL_OK;
}

/*
 * Of the tree's transfers[first ..) only those that lead to a wanted rank stay: relays may have
 * reached ranks in another way than the tree meant. Time-reversed, sources add to what arrives; a
 * rank that only relays takes its first arrival (the latest of its sends) as a copy.
 */
static void settle_tree(planner_t *p, size_t first, const ccl_i_want_t *want) {
    size_t kept = p->ntransfers;
    for (uint32_t i = 0; i < want->ntargets; i++)
        p->needed[want->targets[i]] = p->serial;
    for (size_t i = p->ntransfers; i-- > first;) { /* children come behind their parents */
        ccl_transfer_t t = p->transfers[i];
        if (p->needed[t.dst] != p->serial)
            continue;
        bool first_arrival = p->fed[t.src] != p->serial;
        p->needed[t.src] = p->fed[t.src] = p->serial;
        if (want->up) {
            t.reduce = p->source[t.src] || !first_arrival;
            uint32_t rank = t.src;
            t.src = t.dst;
            t.dst = rank;
            t.phase = 1; /* time-reversed at the end */
            p->any_up = true;
            p->max_up = t.step > p->max_up ? t.step : p->max_up;
        }
        p->transfers[--kept] = t;
    }
    memmove(p->transfers + first, p->transfers + kept,
            (p->ntransfers - kept) * sizeof *p->transfers);
    p->ntransfers = first + (p->ntransfers - kept);
}

static ccl_status_t add_tree(planner_t *p, const ccl_i_want_t *want, uint32_t chunk,
                             ccl_error_t *err) {
    p->tree.len = 0;
    CCL_TRY(p->plan->tree(p->plan->user, want, &p->tree, err));
    if (p->tree.nomem)
        return ccl_fail_nomem(err);
    bool sorted = true;
    for (size_t i = 0; i < p->tree.len; i++) {
        if (p->tree.edges[i].step > MAX_EDGE_STEP)
            return ccl_fail(err, CCL_ERR_INPUT, "%s: too many steps", p->plan->name);
        sorted &= i == 0 || p->tree.edges[i - 1].step <= p->tree.edges[i].step;
    }
    if (!sorted)
        qsort(p->tree.edges, p->tree.len, sizeof *p->tree.edges, by_step);
    p->serial++;
    p->stamp[want->root] = p->serial;
    p->got_key[want->root] = 0;
    p->last_send[want->root] = CCL_NONE;
    size_t first = p->ntransfers;
    for (size_t i = 0; i < p->tree.len; i++) {
        const ccl_i_edge_t *e = &p->tree.edges[i];
        uint32_t hops;
        if (p->stamp[e->dst] == p->serial)
            continue;
        /* What is time-reversed must have a route the other way. */
        CCL_TRY(ccl_i_cluster_path(p->cluster, want->up ? e->dst : e->src,
                                   want->up ? e->src : e->dst, p->path, &hops, err));
        for (uint32_t h = 0; want->up && h < (hops + 1) / 2; h++) {
            uint32_t rank = p->path[h];
            p->path[h] = p->path[hops - h];
            p->path[hops - h] = rank;
        }
        bool sum = !want->up && p->coll->chunks[chunk].reduced;
        uint32_t channel = e->channel + (sum ? p->plan->down_channels : 0);
        for (uint32_t h = 0; h < hops; h++) {
            ccl_transfer_t t = {.src = p->path[h],
                                .dst = p->path[h + 1],
                                .chunk = chunk,
                                .step = (e->step << SUB_BITS) + h,
                                .channel = (uint16_t)channel};
            CCL_TRY(emit(p, t, want->up, err));
        }
    }
    if (p->ntransfers > first)
        settle_tree(p, first, want);
    return CCL_OK;
}

static ccl_status_t add_chunk(planner_t *p, const ccl_collective_t *uncut, uint32_t chunk,
                              ccl_error_t *err) {
    const ccl_chunk_t *c = &p->coll->chunks[chunk];
    const ccl_i_plan_t *plan = p->plan;
    if (c->ndests == 0 || c->nsources == 0)
        return CCL_OK;
    bool spread = plan->spread_roots && uncut->kind == CCL_ALLREDUCE;
    ccl_i_want_t want = {uncut->kind, 0, chunk % plan->parts, 0, NULL, 0, false};
    want.chunk = spread ? 0 : chunk / plan->parts;
    for (uint32_t i = 0; i < c->nsources; i++)
        p->source[c->sources[i]] = 1;
    ccl_status_t status = CCL_OK;
    if (!c->reduced)
        want.root = c->sources[0];
    else {
        if (spread || (plan->spread_roots && uncut->kind == CCL_CUSTOM))
            want.root = c->dests[chunk / plan->parts % c->ndests];
        else
            want.root = plan->root ? plan->root(plan->user, &want) : c->dests[0];
        want.up = true;
        want.targets = c->sources;
        want.ntargets = c->nsources;
        status = add_tree(p, &want, chunk, err);
    }
    if (status == CCL_OK) {
        want.up = false;
        want.targets = c->dests;
        want.ntargets = c->ndests;
        status = add_tree(p, &want, chunk, err);
    }
    for (uint32_t i = 0; i < c->nsources; i++)
        p->source[c->sources[i]] = 0;
    return status;
}

/* Keys become steps 0, 1, 2 ...: time-reversed edges first, latest first, then the others. */
static ccl_status_t number_steps(planner_t *p, ccl_error_t *err) {
    uint32_t base = p->any_up ? p->max_up + 1 : 0, min_key = UINT32_MAX, max_key = 0;
    for (size_t i = 0; i < p->ntransfers; i++) {
        ccl_transfer_t *t = &p->transfers[i];
        bool up = t->phase == 1;
        t->step = up ? p->max_up - t->step : base + t->step;
        t->phase = !up && p->any_up && p->coll->chunks[t->chunk].reduced;
        min_key = t->step < min_key ? t->step : min_key;
        max_key = t->step > max_key ? t->step : max_key;
    }
    if (p->ntransfers == 0)
        return CCL_OK;
    /* A bit per key that occurs, from the least; a key's step is the number of bits before it. */
    size_t nwords = (max_key - min_key) / 64 + (size_t)1;
    uint64_t *bits = calloc(nwords, sizeof *bits);
    uint32_t *before = calloc(nwords, sizeof *before);
    if (!bits || !before) {
        free(bits);
        free(before);
        return ccl_fail_nomem(err);
    }
    for (size_t i = 0; i < p->ntransfers; i++) {
        uint32_t key = p->transfers[i].step -= min_key;
        bits[key / 64] |= (uint64_t)1 << (key % 64);
    }
    for (size_t w = 1; w < nwords; w++)
        before[w] = before[w - 1] + (uint32_t)__builtin_popcountll(bits[w - 1]);
    for (size_t i = 0; i < p->ntransfers; i++) {
        uint32_t key = p->transfers[i].step;
        uint64_t below = bits[key / 64] & (((uint64_t)1 << (key % 64)) - 1);
        p->transfers[i].step = before[key / 64] + (uint32_t)__builtin_popcountll(below);
    }
    free(bits);
    free(before);
    return CCL_OK;
}

ccl_status_t ccl_i_plan_run(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                            const ccl_collective_t *want, const ccl_i_plan_t *plan,
                            ccl_schedule_t **out, ccl_error_t *err) {
    planner_t p;
    uint32_t parts = plan->parts;
    ccl_status_t status = planner_init(&p, cluster, plan, err);
    if (status != CCL_OK)
        goto end;
    if (want->nranks != cluster->nranks) {
        status = ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, the topology %u",
                          want->nranks, cluster->nranks);
        goto end;
    }
    if (cluster->nomem) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    if (want->kind == CCL_ALLREDUCE && plan->spread_roots)
        parts *= want->nranks;
    CCL_TRY_GOTO(ccl_collective_split(want, parts, &p.coll, err), status, end);
    for (uint32_t k = 0; k < p.coll->nchunks; k++) {
        if (k % 256 == 0) {
            ccl_progress_t progress = {plan->name, k, p.coll->nchunks, 0, 0};
            CCL_TRY_GOTO(ccl_ctx_poll(ctx, &progress), status, end);
        }
        CCL_TRY_GOTO(add_chunk(&p, want, k, err), status, end);
    }
    CCL_TRY_GOTO(number_steps(&p, err), status, end);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(plan->name, p.coll);
    p.coll = NULL;
    if (!b) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (size_t i = 0; i < p.ntransfers; i++)
        ccl_schedule_builder_add(b, p.transfers[i]);
    status = ccl_schedule_builder_finish(b, out, err);
end:
    planner_fini(&p);
    return status;
}
