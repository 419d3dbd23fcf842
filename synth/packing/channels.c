/*
 * Connections of packed trees. Each tree on channels of its own waits for no other, but thread
 * blocks are few, and links with a contention slope lose by every flow that they share: those get
 * as many connections as they need, and which hops may share them is known before trees are grown.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

/* A tree's shares, and trees and shares in all. */
enum { MOST_SHARES = 16, MOST_SHARED = 48 };

static int by_route(const void *a, const void *b) {
    const ccl_i_pack_edge_t *x = a, *y = b;
    if (x->up != y->up)
        return x->up ? 1 : -1;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    if (*x->channel != *y->channel)
        return *x->channel < *y->channel ? -1 : 1;
    return x->tree < y->tree ? -1 : x->tree > y->tree;
}

static bool same_pair(const ccl_i_pack_edge_t *a, const ccl_i_pack_edge_t *b) {
    return a->up == b->up && a->src == b->src && a->dst == b->dst;
}

uint32_t ccl_i_pack_fewest_sms(const ccl_topology_t *topo) {
    uint32_t sms = UINT32_MAX;
    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t m = topo->devices[topo->rank_device[r]].model;
        if (m != CCL_NONE && topo->gpu_models[m].sms > 0 && topo->gpu_models[m].sms < sms)
            sms = topo->gpu_models[m].sms;
    }
    return sms;
}

double ccl_i_pack_flow_Bps(const ccl_topology_t *topo, const ccl_route_t *route) {
    ccl_transport_t t = ccl_model_transport(topo, ccl_model_route_kind(topo, route), "Simple");
    return t.holds_tb ? fmin(t.tb_rate_Bps, route->bottleneck_Bps) : route->bottleneck_Bps;
}

bool ccl_i_pack_loses(const ccl_topology_t *topo, uint32_t link) {
    const ccl_link_t *l = &topo->links[link];
    ccl_transport_t t = ccl_model_transport(topo, topo->kinds[l->kind], "Simple");
    return l->contention > 0 && (!t.holds_tb || 2 * t.tb_rate_Bps > l->bandwidth_Bps);
}

static bool contended(const ccl_topology_t *topo, const ccl_route_t *route) {
    for (uint32_t i = 0; i < route->nlinks; i++) {
        if (ccl_i_pack_loses(topo, route->links[i]))
            return true;
    }
    return false;
}

/* Connections that a hop's trees may have, from `nedges` of them. */
static ccl_status_t set_most(ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges, size_t nedges,
                             double tree_Bps, ccl_error_t *err) {
    for (size_t i = 0, end; i < nedges; i = end) {
        const ccl_route_t *route = NULL;
        uint32_t most = CCL_NONE;
        for (end = i + 1; end < nedges && same_pair(&edges[i], &edges[end]) &&
                          *edges[i].channel == *edges[end].channel;)
            end++;
        CCL_TRY(ccl_routes_get(cluster->routes, edges[i].src, edges[i].dst, *edges[i].channel,
                               &route, err));
        if (route && contended(cluster->topo, route)) {
            double need = ceil(
                (double)(end - i) * tree_Bps / ccl_i_pack_flow_Bps(cluster->topo, route) - 0.05);
            most = need < 1 ? 1 : need < (double)(end - i) ? (uint32_t)need : (uint32_t)(end - i);
        }
        for (size_t k = i; k < end; k++) {
            edges[k].most = most;
            edges[k].place = (uint32_t)(k - i);
        }
    }
    return CCL_OK;
}

static uint32_t copy_of(const ccl_i_pack_edge_t *e, uint32_t copies) {
    if (e->most == CCL_NONE)
        return e->lane % copies;
    return e->place % (e->most < copies ? e->most : copies);
}

/* Thread blocks of the GPU with most when trees go round `period` channels: an end of a connection
 * each. `edges` by their ends. 0: out of memory. */
static uint32_t blocks_with(uint32_t n, const ccl_i_pack_edge_t *edges, size_t nedges,
                            uint32_t period, uint32_t copies) {
    uint32_t most = 1;
    uint32_t *blocks = calloc(n, sizeof *blocks);
    size_t *used = calloc((size_t)period * copies, sizeof *used); /* last pair + 1 */
    for (size_t i = 0, pair = 0; blocks && used && i < nedges; i++) {
        pair = i == 0 || !same_pair(&edges[i - 1], &edges[i]) ? i + 1 : pair;
        size_t channel = *edges[i].channel + (size_t)period * copy_of(&edges[i], copies);
        if (used[channel] == pair)
            continue;
        used[channel] = pair;
        blocks[edges[i].src] += edges[i].ways;
        blocks[edges[i].dst] += edges[i].ways;
    }
    for (uint32_t r = 0; blocks && r < n; r++)
        most = blocks[r] > most ? blocks[r] : most;
    most = blocks && used ? most : 0;
    free(blocks);
    free(used);
    return most;
}

/* Trees of one hop in one direction. */
typedef struct load {
    size_t first, end; /* edges */
    uint32_t connections;
    double tree_s; /* that a byte of a tree takes one of them */
} load_t;

ccl_status_t ccl_i_pack_connection_Bps(ccl_i_cluster_t *cluster, uint32_t src, uint32_t dst,
                                       uint32_t channel, bool sum, double *out, ccl_error_t *err) {
    const ccl_topology_t *topo = cluster->topo;
    uint32_t model = topo->devices[topo->rank_device[dst]].model;
    const ccl_route_t *route = NULL;
    CCL_TRY(ccl_routes_get(cluster->routes, src, dst, channel, &route, err));
    ccl_transport_t t = ccl_model_transport(topo, ccl_model_route_kind(topo, route), "Simple");
    *out = fmin(t.tb_rate_Bps, route->bottleneck_Bps);
    if (sum && model != CCL_NONE)
        *out = fmin(*out, topo->gpu_models[model].reduce_rate_Bps);
    return CCL_OK;
}

/* The hop that keeps its connections busiest, of those that can have one more; nloads: none. */
static size_t slowest(const load_t *loads, size_t nloads, const ccl_i_pack_edge_t *edges,
                      const uint32_t *blocks, uint32_t sms) {
    size_t best = nloads;
    double most_s = 0;
    for (size_t i = 0; i < nloads; i++) {
        const ccl_i_pack_edge_t *e = &edges[loads[i].first];
        size_t ntrees = loads[i].end - loads[i].first;
        double takes_s = (double)ntrees / loads[i].connections * loads[i].tree_s;
        if (takes_s > most_s && loads[i].connections < ntrees && loads[i].connections < e->most &&
            blocks[e->src] < sms && blocks[e->dst] < sms) {
            best = i;
            most_s = takes_s;
        }
    }
    return best;
}

/*
 * Connections of every hop by what its trees need: the one that takes longest gets one more, until
 * GPUs have no thread block left for it. `edges` by their ends.
 */
static ccl_status_t set_most_by_load(ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges,
                                     size_t nedges, uint32_t sms, uint32_t *copies_out,
                                     ccl_error_t *err) {
    load_t *loads = malloc((nedges + 1) * sizeof *loads);
    uint32_t *blocks = calloc(cluster->nranks, sizeof *blocks);
    size_t nloads = 0;
    ccl_status_t status = loads && blocks ? CCL_OK : ccl_fail_nomem(err);
    for (size_t i = 0, end; i < nedges && status == CCL_OK; i = end) {
        double Bps = 0;
        for (end = i + 1; end < nedges && same_pair(&edges[i], &edges[end]) &&
                          *edges[i].channel == *edges[end].channel;)
            end++;
        status = ccl_i_pack_connection_Bps(cluster, edges[i].src, edges[i].dst, *edges[i].channel,
                                           edges[i].up, &Bps, err);
        loads[nloads++] = (load_t){i, end, 1, 1 / Bps};
        blocks[edges[i].src]++;
        blocks[edges[i].dst]++;
    }
    *copies_out = 1;
    for (size_t i; status == CCL_OK && (i = slowest(loads, nloads, edges, blocks, sms)) < nloads;) {
        loads[i].connections++;
        blocks[edges[loads[i].first].src]++;
        blocks[edges[loads[i].first].dst]++;
        *copies_out = loads[i].connections > *copies_out ? loads[i].connections : *copies_out;
    }
    for (size_t i = 0; i < nloads && status == CCL_OK; i++) {
        for (size_t k = loads[i].first; k < loads[i].end; k++)
            edges[k].most = loads[i].connections;
    }
    free(loads);
    free(blocks);
    return status;
}

/* Channels after which routes come again, of all pairs. */
static uint32_t period_of(ccl_i_cluster_t *cluster, const ccl_i_pack_edge_t *edges, size_t nedges) {
    uint64_t period = 1;
    for (size_t i = 0; i < nedges; i++) {
        if (i > 0 && same_pair(&edges[i - 1], &edges[i]))
            continue;
        uint32_t width = ccl_routes_period(cluster->routes, edges[i].src, edges[i].dst);
        uint64_t both = period / ccl_gcd(period, width) * width;
        if (width > 1 && both <= 64)
            period = both;
    }
    return (uint32_t)period;
}

ccl_status_t ccl_i_pack_channels(ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges, size_t nedges,
                                 const ccl_i_pack_lanes_t *lanes, uint32_t *channels_out,
                                 bool *limited_out, ccl_error_t *err) {
    uint32_t sms = ccl_i_pack_fewest_sms(cluster->topo), given = lanes->given;
    uint32_t copies = given ? given : lanes->nlanes < 512 ? lanes->nlanes : 512;
    qsort(edges, nedges, sizeof *edges, by_route);
    uint32_t period = period_of(cluster, edges, nedges);
    CCL_TRY(set_most(cluster, edges, nedges, lanes->tree_Bps, err));
    *limited_out = false;
    if (lanes->by_load && !given && sms < UINT32_MAX)
        CCL_TRY(set_most_by_load(cluster, edges, nedges, sms, &copies, err));
    while (copies > 1 && !given) {
        uint32_t blocks = blocks_with(cluster->nranks, edges, nedges, period, copies);
        if (blocks == 0)
            return ccl_fail_nomem(err);
        if (blocks <= sms)
            break;
        *limited_out = true;
        copies = copies > 32 ? copies * 7 / 8 : copies - 1;
    }
    if ((uint64_t)copies * period * 2 > UINT16_MAX)
        return ccl_fail(err, CCL_ERR_USAGE, "packing: %u channels are too many", copies);
    for (size_t i = 0; i < nedges; i++)
        *edges[i].channel = (uint16_t)(*edges[i].channel + period * copy_of(&edges[i], copies));
    *channels_out = copies * period;
    return CCL_OK;
}

/* Connections of every hop: `inside` both ways together in servers, roots in groups of about as
 * many trees, or all of a sum's side by side; between them one for each of a root's parts. `edges`
 * by their ends. */
static void place_parts(const ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges, size_t nedges,
                        uint32_t inside, ccl_i_pack_ways_t *ways) {
    ways->ways = ways->side_by_side ? (inside + 1) / 2 : 1;
    for (size_t i = 0, end; i < nedges; i = end) {
        bool in = cluster->server[edges[i].src] == cluster->server[edges[i].dst];
        bool side = in && edges[i].up && ways->side_by_side;
        uint32_t copies = side ? 1 : (inside + edges[i].up) / 2;
        for (end = i + 1; end < nedges && same_pair(&edges[i], &edges[end]);)
            end++;
        for (size_t a = i, b; a < end; a = b) {
            for (b = a + 1; b < end && edges[b].part > 0;)
                b++;
            for (size_t k = a; k < b; k++) {
                edges[k].place =
                    in ? (uint32_t)(copies * (a + b - 2 * i) / (2 * (end - i))) : edges[k].part;
                edges[k].ways = side ? ways->ways : 1;
            }
        }
    }
}

ccl_status_t ccl_i_pack_part_channels(ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges,
                                      size_t nedges, ccl_i_pack_ways_t *ways, ccl_error_t *err) {
    enum { MOST_INSIDE = 8 }; /* with fewer tests/synth/prop_unequal.c falls */
    uint32_t sms = ccl_i_pack_fewest_sms(cluster->topo);
    uint32_t most = ways->nparts > MOST_INSIDE ? ways->nparts : MOST_INSIDE;
    qsort(edges, nedges, sizeof *edges, by_route);
    uint32_t period = period_of(cluster, edges, nedges);
    for (size_t i = 0; i < nedges; i++)
        edges[i].most = most;
    for (uint32_t inside = 2 * MOST_INSIDE;; inside--) {
        place_parts(cluster, edges, nedges, inside, ways);
        uint32_t blocks = blocks_with(cluster->nranks, edges, nedges, period, most);
        if (blocks == 0)
            return ccl_fail_nomem(err);
        if (blocks <= sms || inside == 2)
            break;
    }
    for (size_t i = 0; i < nedges; i++)
        *edges[i].channel = (uint16_t)(*edges[i].channel + period * edges[i].place);
    ways->period = period;
    ways->channels = most * period;
    return CCL_OK;
}

/* ---------------------------------------------------------------- turns */

typedef struct pace {
    const ccl_i_pack_edge_t *edges;
    uint32_t n, ntrees;
    uint32_t *into;   /* [2][ntrees][n] edge to a rank; CCL_NONE: it is the root, or not there */
    uint32_t *height; /* [nedges] of what hangs below */
    uint32_t *connection; /* [nedges] */
    uint32_t *ready;      /* edges whose data are there */
    double *free_s;       /* by connection: from when on */
    double *takes_s;      /* [nedges] */
    double *from_s;       /* [nedges] when its data are there; then when it starts */
    double *sorted;       /* [nedges] */
    ccl_arena_t arena;
} pace_t;

/* The edge to a rank in the tree of an edge. */
static uint32_t edge_to(const pace_t *p, const ccl_i_pack_edge_t *x, uint32_t rank) {
    return p->into[((size_t)x->up * p->ntrees + x->tree) * p->n + rank];
}

static uint32_t parent_of(const pace_t *p, uint32_t e) {
    return edge_to(p, &p->edges[e], p->edges[e].up ? p->edges[e].dst : p->edges[e].src);
}

static int by_number(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of what is ready what can start first; of these what has most below it. */
static uint32_t next_ready(const pace_t *p, uint32_t nready) {
    uint32_t best = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < nready; i++) {
        uint32_t e = p->ready[i], b = p->ready[best];
        double at = fmax(p->free_s[p->connection[e]], p->from_s[e]);
        bool tie = at <= least * (1 + 1e-9);
        if (at < least * (1 - 1e-9) ||
            (tie && (p->height[e] > p->height[b] || (p->height[e] == p->height[b] && e < b)))) {
            least = at;
            best = i;
        }
    }
    return best;
}

static ccl_status_t pace_init(pace_t *p, ccl_i_cluster_t *cluster, size_t nedges,
                              ccl_error_t *err) {
    size_t most = nedges + 1, nplaces = 2 * (size_t)p->ntrees * p->n;
    p->into = ccl_arena_alloc(&p->arena, nplaces, sizeof *p->into);
    p->height = ccl_arena_alloc(&p->arena, most, sizeof *p->height);
    p->connection = ccl_arena_alloc(&p->arena, most, sizeof *p->connection);
    p->ready = ccl_arena_alloc(&p->arena, most, sizeof *p->ready);
    p->free_s = ccl_arena_alloc(&p->arena, most, sizeof *p->free_s);
    p->takes_s = ccl_arena_alloc(&p->arena, most, sizeof *p->takes_s);
    p->from_s = ccl_arena_alloc(&p->arena, most, sizeof *p->from_s);
    p->sorted = ccl_arena_alloc(&p->arena, most, sizeof *p->sorted);
    if (!p->into || !p->height || !p->connection || !p->ready || !p->free_s || !p->takes_s ||
        !p->from_s || !p->sorted)
        return ccl_fail_nomem(err);
    memset(p->into, 0xff, nplaces * sizeof *p->into);
    for (uint32_t e = 0; e < nedges; e++) {
        const ccl_i_pack_edge_t *x = &p->edges[e];
        const ccl_route_t *route = NULL;
        bool same = e > 0 && same_pair(x - 1, x) && *x->channel == *x[-1].channel;
        p->connection[e] = same ? p->connection[e - 1] : e;
        CCL_TRY(ccl_routes_get(cluster->routes, x->src, x->dst, *x->channel, &route, err));
        p->takes_s[e] = 1 / ccl_i_pack_flow_Bps(cluster->topo, route);
        p->into[((size_t)x->up * p->ntrees + x->tree) * p->n + (x->up ? x->src : x->dst)] = e;
    }
    for (uint32_t e = 0; e < nedges; e++) {
        uint32_t height = 0;
        for (uint32_t a = parent_of(p, e); a != CCL_NONE; a = parent_of(p, a))
            p->height[a] = p->height[a] > ++height ? p->height[a] : height;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_pack_pace(ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges, size_t nedges,
                             uint32_t ntrees, ccl_error_t *err) {
    pace_t p = {.edges = edges, .n = cluster->nranks, .ntrees = ntrees};
    uint32_t nready = 0;
    ccl_arena_init(&p.arena);
    qsort(edges, nedges, sizeof *edges, by_route);
    ccl_status_t status = pace_init(&p, cluster, nedges, err);
    for (uint32_t e = 0; status == CCL_OK && e < nedges; e++) {
        if (parent_of(&p, e) == CCL_NONE)
            p.ready[nready++] = e;
    }
    while (status == CCL_OK && nready > 0) {
        uint32_t i = next_ready(&p, nready), e = p.ready[i];
        double *free_s = &p.free_s[p.connection[e]];
        p.from_s[e] = fmax(*free_s, p.from_s[e]);
        *free_s = p.from_s[e] + p.takes_s[e];
        p.ready[i] = p.ready[--nready];
        for (uint32_t v = 0; v < p.n; v++) {
            uint32_t below = edge_to(&p, &edges[e], v);
            if (below == CCL_NONE || parent_of(&p, below) != e)
                continue;
            p.from_s[below] = *free_s;
            p.ready[nready++] = below;
        }
    }
    for (uint32_t e = 0; status == CCL_OK && e < nedges; e++)
        p.sorted[e] = p.from_s[e];
    size_t ntimes = 0;
    if (status == CCL_OK) {
        qsort(p.sorted, nedges, sizeof *p.sorted, by_number);
        for (size_t i = 0; i < nedges; i++) {
            if (ntimes == 0 || p.sorted[i] > p.sorted[ntimes - 1] * (1 + 1e-9))
                p.sorted[ntimes++] = p.sorted[i];
        }
    }
    for (uint32_t e = 0; e < nedges && status == CCL_OK; e++) {
        size_t low = 0, high = ntimes;
        while (high - low > 1) {
            size_t middle = (low + high) / 2;
            if (p.sorted[middle] <= p.from_s[e] * (1 + 1e-12))
                low = middle;
            else
                high = middle;
        }
        *edges[e].depth = (uint32_t)low + 1;
    }
    ccl_arena_fini(&p.arena);
    return status;
}

static bool shares(const ccl_i_pack_hops_t *x, uint32_t h) {
    const ccl_i_pack_hop_t *hop = &x->hops[h];
    for (uint32_t i = 0; i < hop->nuses; i++) {
        if (x->class_kappa[x->uses[hop->first_use + i]] > 0)
            return true;
    }
    return false;
}

/* The hop that a connection on `channel` takes; CCL_NONE: there is none. */
static uint32_t hop_of(ccl_i_cluster_t *cluster, const ccl_i_pack_hops_t *x, uint32_t src,
                       uint32_t dst, uint32_t channel) {
    const ccl_route_t *taken = ccl_i_cluster_route(cluster, src, dst, channel);
    for (uint32_t h = x->first[src]; taken && h < x->first[src + 1]; h++) {
        const ccl_i_pack_hop_t *hop = &x->hops[h];
        if (hop->dst == dst && ccl_i_cluster_route(cluster, src, dst, hop->channel) == taken)
            return h;
    }
    return CCL_NONE;
}

/*
 * Hops of a ring over contended links, made to lead to the GPU from where the next of them leaves:
 * what goes on then needs no way inside a server, where it would share links with what stays.
 */
static uint32_t ring_hops(ccl_i_cluster_t *cluster, const ccl_i_pack_hops_t *x,
                          const ccl_i_rings_t *rings, uint32_t ring, uint32_t *out) {
    const uint32_t *walk = rings->walk[ring];
    uint32_t len = rings->len[ring], nhops = 0;
    for (uint32_t k = 0; k < len; k++) {
        uint32_t h = hop_of(cluster, x, walk[k], walk[(k + 1) % len], ring);
        if (h != CCL_NONE && shares(x, h))
            out[nhops++] = h;
    }
    for (uint32_t k = 0, first = nhops > 0 ? x->hops[out[0]].src : 0; k < nhops; k++) {
        uint32_t src = x->hops[out[k]].src;
        uint32_t dst = k + 1 < nhops ? x->hops[out[k + 1]].src : first;
        uint32_t h = src == dst ? CCL_NONE : hop_of(cluster, x, src, dst, ring);
        if (h != CCL_NONE && shares(x, h))
            out[k] = h;
    }
    return nhops;
}

ccl_status_t ccl_i_pack_open_rings(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                                   const ccl_i_pack_hops_t *x, bool apart, uint8_t *const open[2],
                                   ccl_error_t *err) {
    ccl_i_rings_t rings;
    size_t most = 0;
    CCL_TRY(ccl_i_rings_init(ctx, cluster, CCL_I_MAX_AUTO_CHANNELS, apart, &rings, err));
    for (uint32_t h = 0; h < x->nhops; h++) {
        for (int up = 0; up < 2; up++)
            open[up][x->hops[h].orbit] = !shares(x, h);
    }
    for (uint32_t i = 0; i < rings.best; i++)
        most = rings.len[i] > most ? rings.len[i] : most;
    uint32_t *hops = malloc((most + 1) * sizeof *hops);
    for (uint32_t i = 0; hops && i < rings.best; i++) {
        uint32_t nhops = ring_hops(cluster, x, &rings, i, hops);
        for (uint32_t k = 0; k < nhops; k++) {
            for (uint32_t up = 0; up < 2; up++)
                open[up][x->hops[hops[k]].orbit] |= !apart || i % 2 == up;
        }
    }
    ccl_status_t status = hops && !cluster->nomem ? CCL_OK : ccl_fail_nomem(err);
    free(hops);
    ccl_i_rings_fini(&rings);
    return status;
}

/* ---------------------------------------------------------------- shares */

/* What the slowest connection of the trees moves. */
static ccl_status_t slowest_Bps(const ccl_i_packing_t *p, double *out, ccl_error_t *err) {
    *out = INFINITY;
    for (int up = 0; up < 2; up++) {
        const ccl_i_pack_forest_t *f = up ? &p->up : &p->down;
        for (uint32_t t = 0; f->first && t < f->first[p->n]; t++) {
            const ccl_i_pack_batch_t *b = &f->trees.batches[f->tree[t]];
            for (uint32_t i = 1; i < p->n; i++) {
                uint32_t v = b->order[i], u = b->parent[v];
                double Bps = 0;
                CCL_TRY(ccl_i_pack_connection_Bps(
                    p->cluster, f->reversed ? v : u, f->reversed ? u : v,
                    f->channel[(size_t)t * p->n + v], up == 1, &Bps, err));
                *out = fmin(*out, Bps);
            }
        }
    }
    return CCL_OK;
}

static ccl_status_t repeat_trees(ccl_i_packing_t *p, ccl_i_pack_forest_t *f, uint32_t times,
                                 ccl_error_t *err) {
    uint32_t total = f->first[p->n];
    uint32_t *tree = malloc(((size_t)total * times + 1) * sizeof *tree);
    uint16_t *channel = malloc(((size_t)total * times * p->n + 1) * sizeof *channel);
    if (!tree || !channel) {
        free(tree);
        free(channel);
        return ccl_fail_nomem(err);
    }
    for (uint32_t t = 0; t < total * times; t++) {
        tree[t] = f->tree[t / times];
        memcpy(channel + (size_t)t * p->n, f->channel + (size_t)(t / times) * p->n,
               p->n * sizeof *channel);
    }
    free(f->tree);
    free(f->channel);
    f->tree = tree;
    f->channel = channel;
    for (uint32_t r = 0; r <= p->n; r++)
        f->first[r] *= times;
    return CCL_OK;
}

/* One server's switch that copies or adds up: data that leave once need no shares. */
static bool in_switch(const ccl_i_cluster_t *c) {
    bool any = false;
    for (uint32_t d = 0; d < c->topo->ndevices; d++)
        any = any || c->topo->devices[d].multicast || c->topo->devices[d].reduce;
    return any && c->nservers == 1;
}

ccl_status_t ccl_i_pack_shares(const ccl_i_packing_t *p, double tree_Bps, uint32_t *times_out,
                               ccl_error_t *err) {
    double least_Bps = INFINITY;
    *times_out = 1;
    if (p->few_connections || in_switch(p->cluster))
        return CCL_OK;
    CCL_TRY(slowest_Bps(p, &least_Bps, err));
    uint32_t times = (uint32_t)fmin(MOST_SHARES, ceil(0.95 * tree_Bps / least_Bps));
    uint32_t most = (uint32_t)(MOST_SHARED / p->total);
    *times_out = times < most ? times : most;
    return CCL_OK;
}

ccl_status_t ccl_i_pack_share(ccl_i_packing_t *p, uint32_t times, ccl_error_t *err) {
    if (p->down.first)
        CCL_TRY(repeat_trees(p, &p->down, times, err));
    if (p->up.first)
        CCL_TRY(repeat_trees(p, &p->up, times, err));
    for (uint32_t r = 0; r < p->n; r++)
        p->roots[r] *= times;
    p->total *= times;
    p->seconds *= times;
    p->bound *= times;
    return CCL_OK;
}
