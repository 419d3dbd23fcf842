/*
 * Routes between GPUs (docs/model.md, "Routes").
 *
 * A connection's route set is lexicographic over whole routes: nvlink and xgmi only, fewest links,
 * widest bottleneck, least latency. Per source one breadth-first pass gives hops, the links on
 * hop-shortest routes and the widest bottleneck to every device. Per pair a walk backward from the
 * destination, over links that are wide enough, gives the least latency and thereby the links on
 * equal routes. The walk touches only devices between the two GPUs, so a pair costs about as much
 * as its route is long.
 */
#include "topologies/routes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 4 /* routes of a pair in one list; more are hashed by channel class */

/* Most pairs solved ahead when a source's destinations are asked for in order of rank. */
#define AHEAD_MOST 64

typedef ccl_i_routes_pass_t pass_t;
typedef ccl_i_routes_source_t source_t;

/* Routes of one channel class; classes that share a bucket form a list. */
typedef struct entry {
    ccl_route_t route;
    uint32_t channel_class;
    struct entry *next;
} entry_t;

typedef struct table {
    uint32_t nbuckets, len;
    entry_t *buckets[];
} table_t;

typedef struct ccl_i_routes_pair {
    entry_t *list;   /* all routes while they are few */
    table_t *table;  /* all routes once they are many */
    uint32_t period; /* channels that differ by this share a route; 0: not known yet */
    uint32_t width;  /* widest fork; 0: no route */
} pair_t;

ccl_routes_t *ccl_routes_create(const ccl_topology_t *topo) {
    ccl_routes_t *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    size_t nd = topo->ndevices, nl = (size_t)topo->nlinks + 1;
    ccl_arena_init(&r->arena);
    r->topo = topo;
    r->sources = calloc(topo->nranks, sizeof *r->sources);
    r->fast_kind = calloc((size_t)topo->nkinds + 1, sizeof *r->fast_kind);
    r->passes = calloc(nd * CCL_I_PASSES, sizeof *r->passes);
    r->ring = calloc(nd * CCL_I_PASSES, sizeof *r->ring);
    r->queue = calloc(nd, sizeof *r->queue);
    r->stamp = calloc(nd, sizeof *r->stamp);
    r->to_dst_s = calloc(nd, sizeof *r->to_dst_s);
    r->from_src_s = calloc(nd, sizeof *r->from_src_s);
    r->fork_head = calloc(nd, sizeof *r->fork_head);
    r->fork_count = calloc(nd, sizeof *r->fork_count);
    r->path = calloc(nd, sizeof *r->path);
    r->equal = calloc(nl, sizeof *r->equal);
    r->fork_next = calloc(nl, sizeof *r->fork_next);
    if (!r->sources || !r->fast_kind || !r->passes || !r->ring || !r->queue || !r->stamp ||
        !r->to_dst_s || !r->from_src_s || !r->fork_head || !r->fork_count || !r->path ||
        !r->equal || !r->fork_next) {
        ccl_routes_destroy(r);
        return NULL;
    }
    r->net_kind = r->pcie_kind = CCL_NONE;
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        if (strcmp(topo->kinds[k], "net") == 0)
            r->net_kind = k;
        else if (strcmp(topo->kinds[k], "pcie") == 0)
            r->pcie_kind = k;
        r->fast_kind[k] =
            strcmp(topo->kinds[k], "nvlink") == 0 || strcmp(topo->kinds[k], "xgmi") == 0;
        r->any_fast |= r->fast_kind[k];
    }
    return r;
}

void ccl_routes_destroy(ccl_routes_t *r) {
    if (!r)
        return;
    for (size_t s = 0; r->passes && s < (size_t)r->topo->ndevices * CCL_I_PASSES; s++)
        ccl_i_routes_pass_destroy(r->passes[s]);
    free(r->passes);
    free(r->in_first);
    free(r->in_links);
    free(r->trees);
    free(r->sources);
    free(r->fast_kind);
    free(r->ring);
    free(r->queue);
    free(r->stamp);
    free(r->to_dst_s);
    free(r->from_src_s);
    free(r->fork_head);
    free(r->fork_count);
    free(r->path);
    free(r->equal);
    free(r->fork_next);
    ccl_arena_fini(&r->arena);
    free(r);
}

/* ---------------------------------------------------------------- one pair */

static int u32_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Named as in a pass from the source; reversed, source and destination change places, and so do
   the ends of links. */
void ccl_i_routes_solve(ccl_routes_t *r, const pass_t *p, uint32_t src, uint32_t dst) {
    const ccl_link_t *links = r->topo->links;
    double wide = p->wide_Bps[dst];
    if (++r->stamp_now == 0) {
        memset(r->stamp, 0, r->topo->ndevices * sizeof *r->stamp);
        r->stamp_now = 1;
    }
    uint32_t now = r->stamp_now, head = 0, tail = 0;
    r->stamp[dst] = now;
    r->to_dst_s[dst] = 0;
    r->fork_head[dst] = CCL_NONE;
    r->fork_count[dst] = 0;
    r->queue[tail++] = dst;
    /* Hops fall along the queue, so a device's best is final when it is taken. */
    while (head < tail) {
        uint32_t v = r->queue[head++];
        for (uint32_t i = p->pred_first[v]; i < p->pred_end[v]; i++) {
            const ccl_link_t *link = &links[p->pred[i]];
            uint32_t u = p->reverse ? link->to : link->from;
            if (link->bandwidth_Bps < wide || p->wide_Bps[u] < wide) /* too narrow, or a dead end */
                continue;
            double to_dst_s = link->latency_s + r->to_dst_s[v];
            if (r->stamp[u] != now) {
                r->stamp[u] = now;
                r->to_dst_s[u] = to_dst_s;
                r->fork_head[u] = CCL_NONE;
                r->fork_count[u] = 0;
                r->queue[tail++] = u;
            } else if (to_dst_s < r->to_dst_s[u]) {
                r->to_dst_s[u] = to_dst_s;
            }
        }
    }
    double most_s = r->to_dst_s[src] + CCL_I_LATENCY_EQUAL_S;
    r->nequal = 0;
    r->from_src_s[src] = 0;
    for (uint32_t k = tail; k-- > 0;) {
        uint32_t v = r->queue[k];
        double best_s = v == src ? 0 : INFINITY;
        for (uint32_t i = p->pred_first[v]; i < p->pred_end[v]; i++) {
            uint32_t l = p->pred[i], u = p->reverse ? links[l].to : links[l].from;
            if (links[l].bandwidth_Bps < wide || p->wide_Bps[u] < wide)
                continue;
            double from_src_s = r->from_src_s[u] + links[l].latency_s;
            best_s = fmin(best_s, from_src_s);
            if (from_src_s + r->to_dst_s[v] <= most_s)
                r->equal[r->nequal++] = l;
        }
        r->from_src_s[v] = best_s;
    }
    if (r->nequal > p->hops[dst]) /* without forks there is nothing to order */
        qsort(r->equal, r->nequal, sizeof *r->equal, u32_compare);
    for (uint32_t i = r->nequal; i-- > 0;) {
        uint32_t u = links[r->equal[i]].from;
        r->fork_next[i] = r->fork_head[u];
        r->fork_head[u] = i;
        r->fork_count[u]++;
    }
}

void ccl_i_routes_forks(const ccl_routes_t *r, uint32_t *period_out, uint32_t *width_out) {
    uint64_t period = 1;
    uint32_t width = 1;
    for (uint32_t i = 0; i < r->nequal; i++) {
        uint32_t u = r->topo->links[r->equal[i]].from, m = r->fork_count[u];
        if (r->fork_head[u] != i || m == 1)
            continue;
        if (m > width)
            width = m;
        uint64_t a = period, b = m;
        while (b) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        period = period / a * m;
        if (period >= CCL_I_PERIOD_UNLIMITED)
            period = CCL_I_PERIOD_UNLIMITED; /* then every channel is a class of its own */
        if (period == CCL_I_PERIOD_UNLIMITED)
            break;
    }
    for (uint32_t i = 0; i < r->nequal && period == CCL_I_PERIOD_UNLIMITED; i++) {
        uint32_t m = r->fork_count[r->topo->links[r->equal[i]].from];
        if (m > width)
            width = m;
    }
    *period_out = (uint32_t)period;
    *width_out = width;
}

static entry_t *entry_alloc(ccl_routes_t *r, uint32_t nlinks, uint32_t channel_class,
                            uint32_t **links_out) {
    entry_t *entry = ccl_arena_alloc(&r->arena, 1, sizeof *entry + nlinks * sizeof(uint32_t));
    if (!entry)
        return NULL;
    *links_out = (uint32_t *)(entry + 1);
    entry->route.links = *links_out;
    entry->route.nlinks = nlinks;
    entry->route.index = r->nroutes++;
    entry->channel_class = channel_class;
    return entry;
}

void ccl_i_routes_sum(const ccl_routes_t *r, ccl_route_t *route) {
    route->bottleneck_Bps = INFINITY;
    for (uint32_t n = 0; n < route->nlinks; n++) {
        const ccl_link_t *link = &r->topo->links[route->links[n]];
        route->latency_s += link->latency_s;
        if (link->bandwidth_Bps < route->bottleneck_Bps)
            route->bottleneck_Bps = link->bandwidth_Bps;
        route->crosses_net |= link->kind == r->net_kind;
        route->crosses_pcie |= link->kind == r->pcie_kind;
    }
    route->first_kind = r->topo->links[route->links[0]].kind;
}

uint32_t ccl_i_routes_next(const ccl_routes_t *r, uint32_t v, uint64_t turn) {
    uint32_t i = r->fork_head[v], m = r->fork_count[v];
    for (uint32_t pick = m == 1 ? 0 : (uint32_t)(turn % m); pick > 0; pick--)
        i = r->fork_next[i];
    return r->equal[i];
}

/* Walk the solved pair for one channel. */
static entry_t *entry_create(ccl_routes_t *r, const pass_t *p, uint32_t src_rank, uint32_t src,
                             uint32_t dst, uint32_t channel, uint32_t channel_class) {
    uint32_t *list, v = src;
    entry_t *entry = entry_alloc(r, p->hops[dst], channel_class, &list);
    for (uint32_t n = 0; entry && n < entry->route.nlinks; n++) {
        list[n] = ccl_i_routes_next(r, v, (uint64_t)r->topo->rank_local_index[src_rank] + channel);
        v = r->topo->links[list[n]].to;
    }
    if (entry)
        ccl_i_routes_sum(r, &entry->route);
    return entry;
}

/* The pass over which src reaches dst: nvlink and xgmi alone when that is enough. */
static ccl_status_t pass_for(ccl_routes_t *r, uint32_t src, uint32_t dst, const pass_t **pass_out,
                             ccl_error_t *err) {
    *pass_out = NULL;
    for (int all = r->any_fast ? 0 : 1; all < 2; all++) {
        const pass_t *pass = ccl_i_routes_pass(r, src, all ? CCL_I_PASS_ALL : CCL_I_PASS_FAST);
        if (!pass)
            return ccl_fail_nomem(err);
        if (pass->hops[dst] != CCL_NONE) {
            *pass_out = pass;
            return CCL_OK;
        }
    }
    return CCL_OK;
}

static uint32_t channel_class_of(const pair_t *pair, uint32_t channel) {
    return pair->period == CCL_I_PERIOD_UNLIMITED ? channel : channel % pair->period;
}

static entry_t *pair_find(const pair_t *pair, uint32_t channel_class) {
    const table_t *table = pair->table;
    entry_t *e = table ? table->buckets[channel_class % table->nbuckets] : pair->list;
    while (e && e->channel_class != channel_class)
        e = e->next;
    return e;
}

/* Link an entry in; on growth the old table stays in the arena, at most as big as the new one. */
static bool pair_insert(ccl_routes_t *r, pair_t *pair, entry_t *entry) {
    table_t *old = pair->table;
    uint32_t len = old ? old->len : 0;
    for (entry_t *e = old ? NULL : pair->list; e; e = e->next)
        len++;
    if (len >= LIST_MAX * (old ? old->nbuckets : 1)) {
        uint32_t n = old ? old->nbuckets * 4 : 8;
        table_t *table = ccl_arena_alloc(&r->arena, 1, sizeof *table + n * sizeof(entry_t *));
        if (!table)
            return false;
        table->nbuckets = n;
        table->len = len;
        for (uint32_t i = 0; i < (old ? old->nbuckets : 1); i++) {
            for (entry_t *e = old ? old->buckets[i] : pair->list, *next; e; e = next) {
                entry_t **slot = &table->buckets[e->channel_class % n];
                next = e->next;
                e->next = *slot;
                *slot = e;
            }
        }
        pair->list = NULL;
        pair->table = table;
    }
    entry_t **slot = pair->table
                         ? &pair->table->buckets[entry->channel_class % pair->table->nbuckets]
                         : &pair->list;
    entry->next = *slot;
    *slot = entry;
    if (pair->table)
        pair->table->len++;
    return true;
}

/* A destination to which only one shortest route leads needs no choice. False when out of memory.
 */
static bool pair_single(ccl_routes_t *r, const pass_t *p, uint32_t src, uint32_t dst, pair_t *pair,
                        entry_t **out) {
    uint32_t v = dst, *list;
    *out = NULL;
    for (; v != src; v = r->topo->links[p->pred[p->pred_first[v]]].from)
        if (p->pred_end[v] - p->pred_first[v] != 1)
            return true;
    entry_t *entry = entry_alloc(r, p->hops[dst], 0, &list);
    if (!entry)
        return false;
    v = dst;
    for (uint32_t n = entry->route.nlinks; n-- > 0; v = r->topo->links[list[n]].from)
        list[n] = p->pred[p->pred_first[v]];
    ccl_i_routes_sum(r, &entry->route);
    pair->list = entry;
    pair->period = pair->width = 1;
    *out = entry;
    return true;
}

/* Destinations asked for in order of rank: solve the next ones while the source's pass is near,
   twice as many as were asked for. */
static bool pairs_ahead(ccl_routes_t *r, source_t *source, uint32_t src_rank, uint32_t dst_rank) {
    uint32_t n = r->topo->nranks, next = (dst_rank + 1) % n;
    next = next == src_rank ? (next + 1) % n : next;
    source->ahead = source->next == dst_rank ? source->ahead + 1 : 0;
    source->next = next;
    if (source->ahead < 2)
        return true;
    uint32_t many = source->ahead < AHEAD_MOST ? source->ahead : AHEAD_MOST;
    for (uint32_t i = 0; i < many; i++) {
        pair_t *pair = &source->pairs[next];
        uint32_t dst = r->topo->rank_device[next];
        entry_t *entry = NULL;
        if (next == src_rank || pair->period > 0)
            return true;
        for (int all = r->any_fast ? 0 : 1; all < 2 && !entry; all++) {
            uint32_t which = all ? CCL_I_PASS_ALL : CCL_I_PASS_FAST;
            const pass_t *pass =
                r->passes[ccl_i_routes_slot(r->topo->rank_device[src_rank], which)];
            if (!pass) /* not kept, or never needed so far: left to those who ask */
                return true;
            if (pass->hops[dst] == CCL_NONE)
                continue;
            if (!pair_single(r, pass, r->topo->rank_device[src_rank], dst, pair, &entry))
                return false;
            if (!entry)
                return true;
        }
        if (!entry)
            return true;
        source->ahead++;
        next = (next + 1) % n;
        next = next == src_rank ? (next + 1) % n : next;
        source->next = next;
    }
    return true;
}

/* *out NULL: no route. */
static ccl_status_t pair_get(ccl_routes_t *r, uint32_t src_rank, uint32_t dst_rank,
                             uint32_t channel, entry_t **out, pair_t **pair_out, ccl_error_t *err) {
    source_t *source = &r->sources[src_rank];
    if (!source->pairs) {
        source->pairs = ccl_arena_alloc(&r->arena, r->topo->nranks, sizeof *source->pairs);
        if (!source->pairs)
            return ccl_fail_nomem(err);
    }
    pair_t *pair = &source->pairs[dst_rank];
    *pair_out = pair;
    *out = NULL;
    if (pair->period > 0) {
        *out = pair_find(pair, channel_class_of(pair, channel));
        if (*out || pair->width == 0)
            return CCL_OK;
    }
    uint32_t src = r->topo->rank_device[src_rank], dst = r->topo->rank_device[dst_rank];
    const pass_t *pass;
    CCL_TRY(pass_for(r, src, dst, &pass, err));
    if (!pass) {
        pair->period = 1;
        return CCL_OK;
    }
    if (pair->period == 0) {
        if (!pair_single(r, pass, src, dst, pair, out) ||
            (*out && !pairs_ahead(r, source, src_rank, dst_rank)))
            return ccl_fail_nomem(err);
        if (*out)
            return CCL_OK;
    }
    ccl_i_routes_solve(r, pass, src, dst);
    if (pair->period == 0)
        ccl_i_routes_forks(r, &pair->period, &pair->width);
    entry_t *entry =
        entry_create(r, pass, src_rank, src, dst, channel, channel_class_of(pair, channel));
    if (!entry || !pair_insert(r, pair, entry))
        return ccl_fail_nomem(err);
    *out = entry;
    return CCL_OK;
}

static ccl_status_t ends_check(const ccl_routes_t *r, uint32_t src_rank, uint32_t dst_rank,
                               ccl_error_t *err) {
    uint32_t n = r->topo->nranks;
    if (src_rank >= n || dst_rank >= n)
        return ccl_fail(err, CCL_ERR_INPUT, "route from rank %u to rank %u, but there are %u ranks",
                        src_rank, dst_rank, n);
    if (src_rank == dst_rank)
        return ccl_fail(err, CCL_ERR_INPUT, "route from rank %u to itself", src_rank);
    return CCL_OK;
}

ccl_status_t ccl_routes_get(ccl_routes_t *routes, uint32_t src_rank, uint32_t dst_rank,
                            uint32_t channel, const ccl_route_t **out, ccl_error_t *err) {
    const ccl_topology_t *topo = routes->topo;
    CCL_TRY(ends_check(routes, src_rank, dst_rank, err));
    const pair_t *known = routes->sources[src_rank].pairs;
    if (known && known[dst_rank].period == 1 && known[dst_rank].list) {
        *out = &known[dst_rank].list->route; /* the only one, whatever the channel */
        return CCL_OK;
    }
    entry_t *entry;
    pair_t *pair;
    CCL_TRY(pair_get(routes, src_rank, dst_rank, channel, &entry, &pair, err));
    if (!entry)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "no route from rank %u (gpu \"%s\") to rank %u (gpu \"%s\") that passes "
                        "no other gpu",
                        src_rank, topo->devices[topo->rank_device[src_rank]].id, dst_rank,
                        topo->devices[topo->rank_device[dst_rank]].id);
    *out = &entry->route;
    return CCL_OK;
}

uint32_t ccl_routes_width(ccl_routes_t *routes, uint32_t src_rank, uint32_t dst_rank) {
    entry_t *entry;
    pair_t *pair;
    if (ends_check(routes, src_rank, dst_rank, NULL) != CCL_OK ||
        pair_get(routes, src_rank, dst_rank, 0, &entry, &pair, NULL) != CCL_OK)
        return 0;
    return pair->width;
}

uint32_t ccl_routes_period(ccl_routes_t *routes, uint32_t src_rank, uint32_t dst_rank) {
    entry_t *entry;
    pair_t *pair;
    if (ends_check(routes, src_rank, dst_rank, NULL) != CCL_OK ||
        pair_get(routes, src_rank, dst_rank, 0, &entry, &pair, NULL) != CCL_OK)
        return 0;
    return entry ? pair->period : 0;
}
