/*
 * Chunks with few destinations (AllToAll, Scatter, Gather, demands): first a tree for each, by
 * shortest ways where a loaded link counts as long (two rounds: every chunk is routed again when
 * all loads are known), then hops are crossed as links become free, the longest way ahead first.
 */
#include "synth/common/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 3
#define INSTANT 1e-12

typedef struct edge {
    uint32_t hop, chunk;
    uint32_t next_sibling, first_child; /* edges that pass on what this one brings */
    double ahead_s;                     /* from its start to the last arrival behind it */
} edge_t;

typedef struct router {
    const ccl_i_spread_t *what;
    const ccl_i_exchange_t *x;
    ccl_rng_t rng;
    double *load_s; /* [nresources] */
    double most_s;
    double *cost;   /* [nranks] */
    uint32_t *via;  /* [nranks] hop that reaches it */
    uint8_t *state; /* [nranks] 0 far, 1 open, 2 settled; 3 in the tree */
    uint8_t *target;
    uint32_t *list; /* [nranks] ranks of the tree */
    ccl_i_agenda_t open;
    uint32_t **hops; /* [nchunks] of its tree, parents first */
    uint32_t *nhops;
    uint32_t *room;
} router_t;

static double hop_cost(const router_t *r, uint32_t h, double bytes) {
    const ccl_i_hop_t *hop = &r->x->hops[h];
    double cost = bytes / fmin(hop->link_Bps, hop->tb_Bps) * 1e-3 + hop->alpha_s;
    for (uint32_t i = 0; i < hop->nuses; i++) {
        const ccl_i_use_t *use = &r->x->uses[hop->first_use + i];
        double more_s = bytes * use->times / r->x->resources[use->resource].Bps;
        double full = r->most_s > 0 ? (r->load_s[use->resource] + more_s) / r->most_s : 0;
        double full2 = full * full;
        cost += more_s * (0.05 + full2 * full2 * full2);
    }
    return cost;
}

static void add_load(router_t *r, uint32_t h, double bytes) {
    const ccl_i_hop_t *hop = &r->x->hops[h];
    for (uint32_t i = 0; i < hop->nuses; i++) {
        const ccl_i_use_t *use = &r->x->uses[hop->first_use + i];
        double *load_s = &r->load_s[use->resource];
        *load_s = fmax(*load_s + bytes * use->times / r->x->resources[use->resource].Bps, 0);
        r->most_s = bytes > 0 ? fmax(r->most_s, *load_s) : r->most_s;
    }
}

/* The nearest target from the tree; its way is added to it. */
static ccl_status_t reach_one(router_t *r, uint32_t chunk, uint32_t *ntree, ccl_error_t *err) {
    const ccl_i_exchange_t *x = r->x;
    double bytes = r->what->bytes[chunk];
    uint32_t found = CCL_NONE;
    double limit = INFINITY;
    r->open.len = 0;
    for (uint32_t i = 0; i < x->nranks; i++) {
        r->state[i] = 0;
        r->cost[i] = INFINITY;
    }
    for (uint32_t i = 0; i < *ntree; i++) {
        r->cost[r->list[i]] = 0;
        if (!ccl_i_agenda_add(&r->open, 0, r->list[i]))
            return ccl_fail_nomem(err);
        r->via[r->list[i]] = CCL_NONE;
    }
    while (r->open.len > 0 && found == CCL_NONE) {
        uint32_t a = ccl_i_agenda_take(&r->open).id;
        if (r->state[a] == 2)
            continue;
        r->state[a] = 2;
        if (r->target[a]) {
            found = a;
            break;
        }
        for (uint32_t h = x->out_first[a]; h < x->out_first[a + 1]; h++) {
            uint32_t b = x->hops[h].dst;
            if (r->state[b] == 2)
                continue;
            double cost = r->cost[a] + hop_cost(r, h, bytes);
            if (cost >= r->cost[b] || cost >= limit)
                continue;
            limit = r->target[b] ? cost : limit; /* what is farther need not be looked at */
            r->cost[b] = cost;
            r->via[b] = h;
            if (!ccl_i_agenda_add(&r->open, cost, b))
                return ccl_fail_nomem(err);
        }
    }
    if (found == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "some GPU cannot be reached, not even over other GPUs");
    /* Backward along the way, then forward into the list of hops. */
    uint32_t first = r->nhops[chunk], count = 0;
    for (uint32_t at = found; r->via[at] != CCL_NONE; at = x->hops[r->via[at]].src) {
        r->room[first + count++] = r->via[at];
        r->list[(*ntree)++] = at;
        r->target[at] = 0;
        add_load(r, r->via[at], bytes);
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        uint32_t h = r->room[first + i];
        r->room[first + i] = r->room[first + count - 1 - i];
        r->room[first + count - 1 - i] = h;
    }
    r->nhops[chunk] += count;
    return CCL_OK;
}

static ccl_status_t route_chunk(router_t *r, uint32_t chunk, ccl_error_t *err) {
    uint32_t ntree = 1, left = 0;
    uint32_t n = r->x->nranks, ndests = r->what->dests ? r->what->ndests[chunk] : n;
    for (uint32_t i = 0; i < r->nhops[chunk]; i++)
        add_load(r, r->hops[chunk][i], -r->what->bytes[chunk]);
    r->nhops[chunk] = 0;
    memset(r->target, 0, n);
    for (uint32_t i = 0; i < ndests; i++) {
        uint32_t rank = r->what->dests ? r->what->dests[chunk][i] : i;
        if (rank != r->what->owner[chunk])
            r->target[rank] = 1;
    }
    r->list[0] = r->what->owner[chunk];
    for (;;) {
        left = 0;
        for (uint32_t i = 0; i < n; i++)
            left += r->target[i];
        if (left == 0)
            break;
        CCL_TRY(reach_one(r, chunk, &ntree, err));
    }
    uint32_t *hops = malloc((r->nhops[chunk] + (size_t)1) * sizeof *hops);
    if (!hops)
        return ccl_fail_nomem(err);
    memcpy(hops, r->room, r->nhops[chunk] * sizeof *hops);
    free(r->hops[chunk]);
    r->hops[chunk] = hops;
    return CCL_OK;
}

static ccl_status_t route_all(router_t *r, const ccl_ctx_t *ctx, ccl_error_t *err) {
    uint32_t nk = r->what->nchunks;
    uint32_t *order = malloc((nk + (size_t)1) * sizeof *order);
    if (!order)
        return ccl_fail_nomem(err);
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; i < nk; i++)
        order[i] = i;
    for (uint32_t round = 0; round < ROUNDS && status == CCL_OK; round++) {
        for (uint32_t i = nk; i > 1; i--) {
            uint32_t j = ccl_rng_below(&r->rng, i), k = order[i - 1];
            order[i - 1] = order[j];
            order[j] = k;
        }
        if (round > 0) {
            r->most_s = 0;
            for (uint32_t i = 0; i < r->x->nresources; i++)
                r->most_s = fmax(r->most_s, r->load_s[i]);
        }
        for (uint32_t i = 0; i < nk && status == CCL_OK; i++) {
            if (i % 256 == 0)
                status = ccl_ctx_poll(ctx, NULL);
            if (status == CCL_OK)
                status = route_chunk(r, order[i], err);
        }
    }
    free(order);
    return status;
}

static ccl_status_t router_init(router_t *r, ccl_error_t *err) {
    size_t n = r->x->nranks, nk = r->what->nchunks;
    r->load_s = calloc(r->x->nresources + (size_t)1, sizeof *r->load_s);
    r->cost = calloc(n, sizeof *r->cost);
    r->via = calloc(n, sizeof *r->via);
    r->state = calloc(n, 1);
    r->target = calloc(n, 1);
    r->list = calloc(n + 1, sizeof *r->list);
    r->room = calloc(n + 1, sizeof *r->room);
    r->hops = calloc(nk + 1, sizeof *r->hops);
    r->nhops = calloc(nk + 1, sizeof *r->nhops);
    if (!r->load_s || !r->cost || !r->via || !r->state || !r->target || !r->list || !r->room ||
        !r->hops || !r->nhops)
        return ccl_fail_nomem(err);
    return CCL_OK;
}

static void router_fini(router_t *r) {
    for (uint32_t k = 0; r->hops && k < r->what->nchunks; k++)
        free(r->hops[k]);
    free(r->load_s);
    free(r->cost);
    free(r->via);
    free(r->state);
    free(r->target);
    free(r->list);
    free(r->room);
    free(r->hops);
    free(r->nhops);
    free(r->open.heap);
}

/* ---------------------------------------------------------------- in time */

typedef struct runner {
    const ccl_i_spread_t *what;
    const ccl_i_exchange_t *x;
    ccl_i_traffic_t traffic;
    ccl_i_agenda_t agenda;
    edge_t *edges;
    uint32_t nedges;
    uint32_t *root;     /* [nchunks] first edge out of the owner; CCL_NONE */
    uint32_t *at;       /* [nranks] scratch: edge that brought the chunk */
    ccl_i_agenda_t *of; /* [nhops] edges that could go, longest way first */
    double *rate_Bps;   /* [sent] */
    uint32_t *edge_of;  /* [sent] */
    uint32_t *todo, *stamp, ntodo, now_stamp;
    double now_s;
    ccl_i_sends_t *out;
} runner_t;

static ccl_status_t make_edges(runner_t *r, const router_t *routes, ccl_error_t *err) {
    const ccl_i_exchange_t *x = r->x;
    size_t total = 0;
    for (uint32_t k = 0; k < r->what->nchunks; k++)
        total += routes->nhops[k];
    if (total >= CCL_NONE / 2)
        return ccl_fail(err, CCL_ERR_INPUT, "too many transfers");
    r->edges = calloc(total + 1, sizeof *r->edges);
    r->root = calloc(r->what->nchunks + (size_t)1, sizeof *r->root);
    r->at = calloc(x->nranks, sizeof *r->at);
    r->of = calloc(x->nhops + (size_t)1, sizeof *r->of);
    r->rate_Bps = calloc(total + 1, sizeof *r->rate_Bps);
    r->edge_of = calloc(total + 1, sizeof *r->edge_of);
    r->todo = calloc(x->nhops + (size_t)1, sizeof *r->todo);
    r->stamp = calloc(x->nhops + (size_t)1, sizeof *r->stamp);
    r->out->sent = calloc(total + 1, sizeof *r->out->sent);
    r->out->cap = total + 1;
    if (!r->edges || !r->root || !r->at || !r->of || !r->rate_Bps || !r->edge_of || !r->todo ||
        !r->stamp || !r->out->sent)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < r->what->nchunks; k++) {
        uint32_t first = r->nedges;
        r->root[k] = CCL_NONE;
        for (uint32_t i = 0; i < routes->nhops[k]; i++) {
            uint32_t h = routes->hops[k][i], src = x->hops[h].src, e = r->nedges++;
            uint32_t *head =
                src == r->what->owner[k] ? &r->root[k] : &r->edges[r->at[src]].first_child;
            r->edges[e] = (edge_t){h, k, *head, CCL_NONE, 0};
            *head = e;
            r->at[x->hops[h].dst] = e;
        }
        for (uint32_t e = r->nedges; e-- > first;) { /* children come behind their parents */
            const ccl_i_hop_t *hop = &x->hops[r->edges[e].hop];
            double behind_s = 0;
            for (uint32_t c = r->edges[e].first_child; c != CCL_NONE; c = r->edges[c].next_sibling)
                behind_s = fmax(behind_s, r->edges[c].ahead_s);
            r->edges[e].ahead_s =
                behind_s + hop->alpha_s + r->what->bytes[k] / fmin(hop->link_Bps, hop->tb_Bps);
        }
    }
    return CCL_OK;
}

static void runner_fini(runner_t *r) {
    ccl_i_traffic_fini(&r->traffic);
    for (uint32_t h = 0; r->of && h < r->x->nhops; h++)
        free(r->of[h].heap);
    free(r->agenda.heap);
    free(r->edges);
    free(r->root);
    free(r->at);
    free(r->of);
    free(r->rate_Bps);
    free(r->edge_of);
    free(r->todo);
    free(r->stamp);
}

static void want_try(runner_t *r, uint32_t h) {
    if (r->stamp[h] == r->now_stamp || r->of[h].len == 0)
        return;
    r->stamp[h] = r->now_stamp;
    r->todo[r->ntodo++] = h;
}

static ccl_status_t open_edges(runner_t *r, uint32_t first, ccl_error_t *err) {
    for (uint32_t e = first; e != CCL_NONE; e = r->edges[e].next_sibling) {
        uint32_t h = r->edges[e].hop;
        if (!ccl_i_agenda_add(&r->of[h], -r->edges[e].ahead_s, e))
            return ccl_fail_nomem(err);
        want_try(r, h);
    }
    return CCL_OK;
}

static bool goes_before(const runner_t *r, uint32_t a, uint32_t b) {
    double x = r->of[a].heap[0].at_s, y = r->of[b].heap[0].at_s;
    return x != y ? x < y : a < b;
}

static ccl_status_t try_all(runner_t *r, ccl_error_t *err) {
    uint32_t *a = r->todo, n = r->ntodo;
    for (uint32_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : (uint32_t)(gap / 2.2)) {
        for (uint32_t i = gap; i < n; i++) {
            uint32_t h = a[i], j = i;
            for (; j >= gap && goes_before(r, h, a[j - gap]); j -= gap)
                a[j] = a[j - gap];
            a[j] = h;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t h = a[i];
        const ccl_i_hop_t *hop = &r->x->hops[h];
        double Bps;
        while (r->of[h].len > 0 && (Bps = ccl_i_traffic_rate(&r->traffic, h)) > 0) {
            uint32_t e = ccl_i_agenda_take(&r->of[h]).id, k = r->edges[e].chunk;
            uint32_t lane = ccl_i_traffic_take(&r->traffic, h, Bps), id = (uint32_t)r->out->len++;
            /* Never in no time: what it feeds starts later, and so in a later step. */
            double done_s = fmax(r->now_s + r->what->bytes[k] / Bps, nextafter(r->now_s, INFINITY));
            r->rate_Bps[id] = Bps;
            r->edge_of[id] = e;
            r->out->sent[id] = (ccl_i_sent_t){
                hop->src, hop->dst, k, h, (uint16_t)lane, r->now_s, done_s + hop->alpha_s};
            if (!ccl_i_agenda_add(&r->agenda, done_s, 2 * id) ||
                !ccl_i_agenda_add(&r->agenda, done_s + hop->alpha_s, 2 * id + 1))
                return ccl_fail_nomem(err);
        }
    }
    r->ntodo = 0;
    r->now_stamp++;
    return CCL_OK;
}

static ccl_status_t happen(runner_t *r, uint32_t id, ccl_error_t *err) {
    const ccl_i_sent_t *t = &r->out->sent[id / 2];
    const ccl_i_hop_t *hop = &r->x->hops[t->hop];
    if (id % 2)
        return open_edges(r, r->edges[r->edge_of[id / 2]].first_child, err);
    ccl_i_traffic_give(&r->traffic, t->hop, t->lane, r->rate_Bps[id / 2]);
    for (uint32_t i = 0; i < hop->nuses; i++) {
        uint32_t u = r->x->uses[hop->first_use + i].resource;
        for (uint32_t k = r->traffic.user_first[u]; k < r->traffic.user_first[u + 1]; k++)
            want_try(r, r->traffic.users[k]);
    }
    return CCL_OK;
}

static ccl_status_t run(runner_t *r, const ccl_ctx_t *ctx, ccl_error_t *err) {
    uint32_t rounds = 0;
    r->now_stamp = 1;
    for (uint32_t k = 0; k < r->what->nchunks; k++)
        CCL_TRY(open_edges(r, r->root[k], err));
    CCL_TRY(try_all(r, err));
    while (r->agenda.len > 0) {
        if (++rounds % 4096 == 0)
            CCL_TRY(ccl_ctx_poll(ctx, NULL));
        ccl_i_spread_event_t event = ccl_i_agenda_take(&r->agenda);
        r->now_s = event.at_s;
        CCL_TRY(happen(r, event.id, err));
        while (r->agenda.len > 0 && r->agenda.heap[0].at_s <= r->now_s * (1 + INSTANT))
            CCL_TRY(happen(r, ccl_i_agenda_take(&r->agenda).id, err));
        CCL_TRY(try_all(r, err));
    }
    r->out->time_s = r->now_s;
    if (r->out->len != r->nedges)
        return ccl_fail(err, CCL_ERR_INTERNAL, "greedy: %zu of %u hops of trees were crossed",
                        r->out->len, r->nedges);
    return CCL_OK;
}

ccl_status_t ccl_i_spread_trees(const ccl_ctx_t *ctx, const ccl_i_spread_t *what,
                                const ccl_i_spread_params_t *params, ccl_i_sends_t *out,
                                ccl_error_t *err) {
    router_t routes = {.what = what, .x = what->x};
    runner_t r = {.what = what, .x = what->x, .out = out};
    memset(out, 0, sizeof *out);
    ccl_rng_init(&routes.rng, params->seed);
    ccl_status_t status = router_init(&routes, err);
    if (status == CCL_OK)
        status = route_all(&routes, ctx, err);
    if (status == CCL_OK)
        status = ccl_i_traffic_init(&r.traffic, what->x, false, err);
    if (status == CCL_OK)
        status = make_edges(&r, &routes, err);
    if (status == CCL_OK)
        status = run(&r, ctx, err);
    router_fini(&routes);
    runner_fini(&r);
    if (status != CCL_OK)
        ccl_i_sends_fini(out);
    return status;
}
