/*
 * Switches taken out of a network, one by one (edge splitting: Bang-Jensen, Frank, Jackson 1995;
 * ForestColl, arXiv 2402.06787). An arc into a switch and one out of it become a direct arc, as
 * long as every GPU can still get all trees of all roots, which maximum flows decide. First all of
 * a switch is paired evenly at once, which mostly does; where it does not, pair by pair, each as
 * far as flows allow. Pairs whose way is not one of the model's routes are left out.
 */
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

/* Channels tried for a way: forks of routes are far fewer. */
enum { MOST_CHANNELS = 64 };

/* A way through links that carries `trees` trees; pieces of one pair are a list. */
typedef struct way {
    uint32_t next;
    uint32_t first, len; /* into links */
    int64_t trees;
} way_t;

typedef struct splitter {
    const ccl_ctx_t *ctx;
    ccl_i_cluster_t *cluster;
    const ccl_capacity_t *c;
    bool reversed;
    uint32_t nv, n;
    int64_t *trees; /* [nv][nv] of a pair */
    uint32_t *head; /* [nv][nv] its ways; CCL_NONE */
    way_t *ways;
    size_t nways, cap_ways;
    uint32_t *links; /* of ways, in the direction that data take */
    size_t nlinks, cap_links;
    const int64_t *roots;
    int64_t total;
    uint8_t *gone;              /* [nv] */
    uint32_t *queue, *distance; /* [nv] */
    bool nomem;
} splitter_t;

static uint32_t rank_of(const splitter_t *s, uint32_t v) {
    return v < s->c->topo->ndevices && s->c->topo->devices[v].kind == CCL_DEVICE_GPU
               ? s->c->topo->devices[v].rank
               : CCL_NONE;
}

static uint32_t add_way(splitter_t *s, uint32_t a, uint32_t b, int64_t trees) {
    uint32_t len = s->ways[a].len + (b == CCL_NONE ? 0 : s->ways[b].len);
    if (!ccl_grow(&s->ways, &s->cap_ways, s->nways + 1, sizeof *s->ways) ||
        !ccl_grow(&s->links, &s->cap_links, s->nlinks + len, sizeof *s->links)) {
        s->nomem = true;
        return CCL_NONE;
    }
    way_t *w = &s->ways[s->nways];
    *w = (way_t){CCL_NONE, (uint32_t)s->nlinks, len, trees};
    memcpy(s->links + s->nlinks, s->links + s->ways[a].first, s->ways[a].len * sizeof *s->links);
    if (b != CCL_NONE)
        memcpy(s->links + s->nlinks + s->ways[a].len, s->links + s->ways[b].first,
               s->ways[b].len * sizeof *s->links);
    s->nlinks += len;
    return (uint32_t)s->nways++;
}

/* Channel whose route is this way (links in tree direction); CCL_NONE: none. */
static uint32_t channel_of(splitter_t *s, uint32_t u, uint32_t t, const uint32_t *links,
                           uint32_t len) {
    uint32_t src = rank_of(s, s->reversed ? t : u), dst = rank_of(s, s->reversed ? u : t);
    if (!ccl_i_cluster_reaches(s->cluster, src, dst))
        return CCL_NONE;
    uint32_t width = ccl_routes_width(s->cluster->routes, src, dst);
    const ccl_route_t *first = ccl_i_cluster_route(s->cluster, src, dst, 0);
    for (uint32_t ch = 0; ch < MOST_CHANNELS; ch++) {
        const ccl_route_t *r = ch ? ccl_i_cluster_route(s->cluster, src, dst, ch) : first;
        bool same = r && r->nlinks == len;
        for (uint32_t i = 0; i < len && same; i++)
            same = r->links[i] == links[s->reversed ? len - 1 - i : i];
        if (same)
            return ch;
        if (!r || width == 1)
            break;
    }
    return CCL_NONE;
}

/* May way a, from u, go on with way b, to t? */
static bool allowed(splitter_t *s, uint32_t u, uint32_t a, uint32_t b, uint32_t t) {
    uint32_t links[64], len = 0;
    if (u == t)
        return false;
    if (rank_of(s, u) == CCL_NONE || rank_of(s, t) == CCL_NONE)
        return true;
    if (s->ways[a].len + s->ways[b].len > CCL_ARRAY_LEN(links))
        return false;
    for (uint32_t i = 0; i < s->ways[a].len; i++)
        links[len++] = s->links[s->ways[a].first + i];
    for (uint32_t i = 0; i < s->ways[b].len; i++)
        links[len++] = s->links[s->ways[b].first + i];
    return channel_of(s, u, t, links, len) != CCL_NONE;
}

/* Ways of a pair over the same links become one. */
static void merge_ways(splitter_t *s, uint32_t u, uint32_t v) {
    for (uint32_t w = s->head[(size_t)u * s->nv + v]; w != CCL_NONE; w = s->ways[w].next) {
        for (uint32_t before = w, x = s->ways[w].next; x != CCL_NONE; x = s->ways[x].next) {
            if (s->ways[x].trees == 0 ||
                (s->ways[x].len == s->ways[w].len &&
                 memcmp(s->links + s->ways[x].first, s->links + s->ways[w].first,
                        s->ways[x].len * sizeof *s->links) == 0)) {
                s->ways[w].trees += s->ways[x].trees;
                s->ways[before].next = s->ways[x].next;
            } else {
                before = x;
            }
        }
    }
}

/* One end of a pairing: a way into or out of the switch. */
typedef struct end {
    uint32_t vertex, way;
} end_t;

/* trees of ways a (u to w) and b (w to t) become a way from u to t. */
static void join(splitter_t *s, end_t a, uint32_t w, end_t b, int64_t trees) {
    size_t nv = s->nv, pair = (size_t)a.vertex * nv + b.vertex;
    if (trees == 0)
        return;
    uint32_t made = add_way(s, a.way, b.way, trees);
    if (made == CCL_NONE)
        return;
    s->ways[a.way].trees -= trees;
    s->ways[b.way].trees -= trees;
    s->trees[a.vertex * nv + w] -= trees;
    s->trees[w * nv + b.vertex] -= trees;
    s->ways[made].next = s->head[pair];
    s->head[pair] = made;
    s->trees[pair] += trees;
}

bool ccl_i_pack_feasible(ccl_maxflow_t *flow, uint32_t source, const uint32_t *vertex, uint32_t n,
                         int64_t total, int64_t *missing_out) {
    int64_t missing = 0;
    for (uint32_t r = 0; r < n && (missing == 0 || missing_out); r++) {
        ccl_maxflow_reset(flow);
        int64_t got = ccl_maxflow_run(flow, source, vertex[r], total);
        missing = total - got > missing ? total - got : missing;
    }
    if (missing_out)
        *missing_out = missing;
    return missing == 0;
}

/* The network as it is, with u -> w -> t of `trees` replaced by u -> t (u CCL_NONE: nothing). */
static ccl_maxflow_t *flow_of(splitter_t *s) {
    ccl_maxflow_t *f = ccl_maxflow_create(s->nv + 1);
    bool ok = f != NULL;
    for (uint32_t r = 0; ok && r < s->n; r++)
        ok = ccl_maxflow_arc(f, s->nv, s->c->topo->rank_device[r], s->roots[r]) != CCL_NONE;
    for (uint32_t u = 0; ok && u < s->nv; u++) {
        for (uint32_t v = 0; ok && v < s->nv; v++) {
            if (s->trees[(size_t)u * s->nv + v] > 0)
                ok = ccl_maxflow_arc(f, u, v, s->trees[(size_t)u * s->nv + v]) != CCL_NONE;
        }
    }
    if (!ok) {
        ccl_maxflow_destroy(f);
        s->nomem = true;
        return NULL;
    }
    return f;
}

static bool feasible(splitter_t *s, int64_t *missing) {
    ccl_maxflow_t *f = flow_of(s);
    bool yes = f && ccl_i_pack_feasible(f, s->nv, s->c->topo->rank_device, s->n, s->total, missing);
    ccl_maxflow_destroy(f);
    return yes;
}

typedef struct pairing {
    uint32_t nin, nout;
    end_t *in, *out;
    uint32_t *arc;      /* [nin * nout] */
    uint32_t *distance; /* [nin * nout] */
    int64_t *trees;     /* [nin * nout] */
    int64_t *most;      /* [nin * nout] */
} pairing_t;

/* How far every vertex is from u without w; CCL_NONE: out of reach. */
static void distances(splitter_t *s, uint32_t u, uint32_t w, uint32_t *distance) {
    uint32_t n = 0, *queue = s->queue;
    memset(distance, 0xff, s->nv * sizeof *distance);
    distance[u] = 0;
    queue[n++] = u;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t v = 0; v < s->nv; v++) {
            if (v != w && distance[v] == CCL_NONE && s->trees[(size_t)queue[i] * s->nv + v] > 0) {
                distance[v] = distance[queue[i]] + 1;
                queue[n++] = v;
            }
        }
    }
}

/*
 * All of a switch, evenly: each pair its share of both ends, and more where that leaves a rest.
 * `far`: first pairs that nothing else joins, then those that are far from each other without it.
 */
static bool pair_evenly(splitter_t *s, uint32_t w, bool far, pairing_t *p) {
    int64_t sum_in = 0, sum_out = 0, got = 0, want;
    ccl_maxflow_t *f = ccl_maxflow_create(p->nin + p->nout + 2);
    uint32_t source = p->nin + p->nout, sink = source + 1;
    bool ok = f != NULL;
    for (uint32_t i = 0; ok && i < p->nin; i++) {
        int64_t t = s->ways[p->in[i].way].trees;
        sum_in += t;
        ok = ccl_maxflow_arc(f, source, i, t) != CCL_NONE;
    }
    for (uint32_t k = 0; ok && k < p->nout; k++) {
        int64_t t = s->ways[p->out[k].way].trees;
        sum_out += t;
        ok = ccl_maxflow_arc(f, p->nin + k, sink, t) != CCL_NONE;
    }
    for (uint32_t i = 0; ok && i < p->nin; i++) {
        for (uint32_t k = 0; ok && k < p->nout; k++) {
            p->arc[i * p->nout + k] = CCL_NONE;
            if (!allowed(s, p->in[i].vertex, p->in[i].way, p->out[k].way, p->out[k].vertex))
                continue;
            p->arc[i * p->nout + k] = ccl_maxflow_arc(f, i, p->nin + k, 0);
            ok = p->arc[i * p->nout + k] != CCL_NONE;
        }
    }
    want = sum_in < sum_out ? sum_in : sum_out;
    for (uint32_t i = 0; ok && i < p->nin; i++) {
        distances(s, p->in[i].vertex, w, s->distance);
        for (uint32_t k = 0; k < p->nout; k++)
            p->distance[i * p->nout + k] = s->distance[p->out[k].vertex];
    }
    static const uint32_t tiers[] = {CCL_NONE, 3, 0};
    for (uint32_t tier = far ? 0 : 2; ok && tier < CCL_ARRAY_LEN(tiers); tier++) {
        for (int64_t slack = 0; got < want; slack = slack ? 2 * slack : 1) {
            for (uint32_t i = 0; i < p->nin; i++) {
                for (uint32_t k = 0; k < p->nout; k++) {
                    uint32_t cell = i * p->nout + k;
                    int64_t a = s->ways[p->in[i].way].trees;
                    int64_t b = s->ways[p->out[k].way].trees;
                    int64_t share = (int64_t)((double)a * (double)b / (double)want) + slack;
                    if (p->arc[cell] != CCL_NONE && p->distance[cell] >= tiers[tier] &&
                        share > p->most[cell]) {
                        ccl_maxflow_capacity(f, p->arc[cell], share);
                        p->most[cell] = share;
                    }
                }
            }
            got += ccl_maxflow_run(f, source, sink, want - got);
            if (slack > want)
                break;
        }
    }
    for (uint32_t i = 0; ok && i < p->nin * p->nout; i++)
        p->trees[i] = p->arc[i] == CCL_NONE ? 0 : ccl_maxflow_of(f, p->arc[i]);
    ccl_maxflow_destroy(f);
    if (!ok)
        s->nomem = true;
    return ok;
}

static void drop_switch(splitter_t *s, uint32_t w) {
    for (uint32_t v = 0; v < s->nv; v++) {
        s->trees[(size_t)v * s->nv + w] = s->trees[(size_t)w * s->nv + v] = 0;
        s->head[(size_t)v * s->nv + w] = s->head[(size_t)w * s->nv + v] = CCL_NONE;
    }
    s->gone[w] = 1;
}

/* Pair by pair, as much of each as flows allow. */
static ccl_status_t pair_by_pair(splitter_t *s, uint32_t w, const pairing_t *p, ccl_error_t *err) {
    size_t nv = s->nv;
    uint32_t near = 0; /* farthest first */
    for (uint32_t d = CCL_NONE;; d = near) {
        near = 0;
        for (uint32_t i = 0; i < p->nin * p->nout; i++)
            near = p->distance[i] < d && p->distance[i] > near ? p->distance[i] : near;
        for (uint32_t k = 0; k < p->nout; k++) {
            for (uint32_t i = 0; i < p->nin; i++) {
                if (p->distance[i * p->nout + k] != d)
                    continue;
                const end_t *in = &p->in[i], *out = &p->out[k];
                uint32_t u = in->vertex, t = out->vertex;
                int64_t a = s->ways[in->way].trees, b = s->ways[out->way].trees, missing = 0;
                int64_t most = a < b ? a : b;
                CCL_TRY(ccl_ctx_poll(s->ctx, NULL));
                if (most == 0 || !allowed(s, u, in->way, out->way, t))
                    continue;
                /* A cut loses no more than what is paired, so this is how much must stay. */
                s->trees[u * nv + w] -= most;
                s->trees[w * nv + t] -= most;
                s->trees[u * nv + t] += most;
                feasible(s, &missing);
                s->trees[u * nv + w] += most;
                s->trees[w * nv + t] += most;
                s->trees[u * nv + t] -= most;
                if (s->nomem)
                    return ccl_fail_nomem(err);
                if (missing < most)
                    join(s, *in, w, *out, most - missing);
            }
        }
        if (near == 0)
            return CCL_OK;
    }
}

/* The ways that lead into `w` and out of it. */
static bool list_ways(splitter_t *s, uint32_t w, pairing_t *p) {
    size_t nv = s->nv;
    uint32_t nin = 0, nout = 0;
    for (uint32_t v = 0; v < nv; v++) {
        merge_ways(s, v, w);
        merge_ways(s, w, v);
        for (uint32_t x = s->head[v * nv + w]; x != CCL_NONE; x = s->ways[x].next)
            nin += s->ways[x].trees > 0;
        for (uint32_t x = s->head[w * nv + v]; x != CCL_NONE; x = s->ways[x].next)
            nout += s->ways[x].trees > 0;
    }
    p->in = malloc((nin + (size_t)1) * sizeof *p->in);
    p->out = malloc((nout + (size_t)1) * sizeof *p->out);
    if (!p->in || !p->out)
        return false;
    for (uint32_t v = 0; v < nv; v++) {
        for (uint32_t x = s->head[v * nv + w]; x != CCL_NONE; x = s->ways[x].next) {
            if (s->ways[x].trees > 0)
                p->in[p->nin++] = (end_t){(uint32_t)v, x};
        }
        for (uint32_t x = s->head[w * nv + v]; x != CCL_NONE; x = s->ways[x].next) {
            if (s->ways[x].trees > 0)
                p->out[p->nout++] = (end_t){(uint32_t)v, x};
        }
    }
    return true;
}

/** What taking out a vertex changes, to try another way of it. */
typedef struct kept {
    int64_t *trees;
    uint32_t *head;
    way_t *ways;
    size_t nways;
} kept_t;

static bool keep(const splitter_t *s, kept_t *k) {
    size_t all = (size_t)s->nv * s->nv;
    k->nways = s->nways;
    k->trees = malloc(all * sizeof *k->trees);
    k->head = malloc(all * sizeof *k->head);
    k->ways = malloc((k->nways + 1) * sizeof *k->ways);
    if (!k->trees || !k->head || !k->ways)
        return false;
    memcpy(k->trees, s->trees, all * sizeof *k->trees);
    memcpy(k->head, s->head, all * sizeof *k->head);
    memcpy(k->ways, s->ways, k->nways * sizeof *k->ways);
    return true;
}

static void put_back(splitter_t *s, uint32_t w, const kept_t *k) {
    size_t all = (size_t)s->nv * s->nv;
    memcpy(s->trees, k->trees, all * sizeof *k->trees);
    memcpy(s->head, k->head, all * sizeof *k->head);
    memcpy(s->ways, k->ways, k->nways * sizeof *k->ways);
    s->nways = k->nways;
    s->gone[w] = 0;
}

static ccl_status_t take_out(splitter_t *s, uint32_t w, ccl_error_t *err) {
    pairing_t p = {0};
    kept_t kept = {0};
    ccl_status_t status = CCL_OK;
    if (!list_ways(s, w, &p)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    size_t cells = (size_t)p.nin * p.nout + 1;
    p.arc = malloc(cells * sizeof *p.arc);
    p.distance = calloc(cells, sizeof *p.distance);
    p.trees = calloc(cells, sizeof *p.trees);
    p.most = calloc(cells, sizeof *p.most);
    if (!p.arc || !p.distance || !p.trees || !p.most || !keep(s, &kept)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    bool done = false;
    for (int way = 0; way < 3 && !done; way++) {
        memset(p.most, 0, cells * sizeof *p.most);
        if (way < 2 && !pair_evenly(s, w, way == 1, &p)) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        for (uint32_t i = 0; way < 2 && i < p.nin; i++) {
            for (uint32_t k = 0; k < p.nout; k++)
                join(s, p.in[i], w, p.out[k], p.trees[i * p.nout + k]);
        }
        if (way == 2)
            CCL_TRY_GOTO(pair_by_pair(s, w, &p, err), status, end);
        drop_switch(s, w);
        done = s->nomem || feasible(s, NULL) || s->nomem;
        if (done)
            break;
        put_back(s, w, &kept);
    }
    if (s->nomem)
        status = ccl_fail_nomem(err);
    else if (!done)
        status = ccl_fail(err, CCL_INFEASIBLE,
                          "packing: device %.60s cannot be paired along the model's routes",
                          w < s->c->topo->ndevices ? s->c->topo->devices[w].id : "(group)");
end:
    free(p.in);
    free(p.out);
    free(p.arc);
    free(p.distance);
    free(p.trees);
    free(p.most);
    free(kept.trees);
    free(kept.head);
    free(kept.ways);
    return status;
}

static int by_pair(const void *a, const void *b) {
    const ccl_i_pack_piece_t *x = a, *y = b;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    return x->channel < y->channel ? -1 : x->channel > y->channel;
}

static ccl_status_t collect(splitter_t *s, ccl_i_pack_net_t *out, ccl_error_t *err) {
    for (uint32_t u = 0; u < s->nv; u++) {
        for (uint32_t t = 0; t < s->nv; t++) {
            for (uint32_t w = s->head[(size_t)u * s->nv + t]; w != CCL_NONE; w = s->ways[w].next) {
                uint32_t channel = channel_of(s, u, t, s->links + s->ways[w].first, s->ways[w].len);
                if (channel == CCL_NONE || s->ways[w].trees == 0)
                    continue;
                if (!ccl_grow(&out->pieces, &out->cap, out->npieces + 1, sizeof *out->pieces))
                    return ccl_fail_nomem(err);
                out->pieces[out->npieces++] =
                    (ccl_i_pack_piece_t){rank_of(s, u), rank_of(s, t), channel, s->ways[w].trees};
            }
        }
    }
    if (out->npieces > 1)
        qsort(out->pieces, out->npieces, sizeof *out->pieces, by_pair);
    size_t kept = 0; /* equal ones become one */
    for (size_t i = 0; i < out->npieces; i++) {
        if (kept > 0 && by_pair(&out->pieces[kept - 1], &out->pieces[i]) == 0)
            out->pieces[kept - 1].trees += out->pieces[i].trees;
        else
            out->pieces[kept++] = out->pieces[i];
    }
    out->npieces = kept;
    return CCL_OK;
}

/* Each arc that carries trees is a way between its ends. @param degree  [nv] zeros; arcs of each
   vertex, with or without trees */
static ccl_status_t add_arcs(splitter_t *s, const int64_t *units, uint32_t *degree,
                             ccl_error_t *err) {
    const ccl_capacity_t *c = s->c;
    size_t nv = s->nv;
    for (uint32_t a = 0; a < c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &c->arcs[a];
        uint32_t u = s->reversed ? arc->to : arc->from, v = s->reversed ? arc->from : arc->to;
        degree[u]++;
        degree[v]++;
        if (units[a] == 0 || (rank_of(s, u) != CCL_NONE && rank_of(s, v) != CCL_NONE &&
                              channel_of(s, u, v, &arc->link, 1) == CCL_NONE))
            continue;
        if (!ccl_grow(&s->ways, &s->cap_ways, s->nways + 1, sizeof *s->ways) ||
            !ccl_grow(&s->links, &s->cap_links, s->nlinks + 1, sizeof *s->links))
            return ccl_fail_nomem(err);
        s->ways[s->nways] =
            (way_t){s->head[u * nv + v], (uint32_t)s->nlinks, arc->link != CCL_NONE, units[a]};
        if (arc->link != CCL_NONE)
            s->links[s->nlinks++] = arc->link;
        s->head[u * nv + v] = (uint32_t)s->nways++;
        s->trees[u * nv + v] += units[a];
    }
    return CCL_OK;
}

static ccl_status_t take_all_out(splitter_t *s, const uint32_t *degree, ccl_error_t *err) {
    size_t nv = s->nv;
    /* Devices with few links first: what hangs at a GPU before what joins servers. */
    for (;;) {
        uint32_t next = CCL_NONE;
        for (uint32_t v = 0; v < nv; v++) {
            if (!s->gone[v] && rank_of(s, v) == CCL_NONE &&
                (next == CCL_NONE || degree[v] < degree[next]))
                next = v;
        }
        if (next == CCL_NONE)
            return CCL_OK;
        CCL_TRY(ccl_ctx_poll(s->ctx, NULL));
        CCL_TRY(take_out(s, next, err));
    }
}

ccl_status_t ccl_i_pack_split(const ccl_i_packing_t *p, bool reversed, ccl_i_pack_net_t *out,
                              ccl_error_t *err) {
    splitter_t s = {.ctx = p->ctx,
                    .cluster = p->cluster,
                    .c = p->c,
                    .reversed = reversed,
                    .nv = p->c->nvertices,
                    .n = p->n,
                    .roots = p->roots};
    size_t nv = s.nv;
    ccl_status_t status = CCL_OK;
    memset(out, 0, sizeof *out);
    out->nranks = s.n;
    s.trees = calloc(nv * nv, sizeof *s.trees);
    s.head = malloc(nv * nv * sizeof *s.head);
    s.gone = calloc(nv, 1);
    s.queue = malloc(nv * sizeof *s.queue);
    s.distance = malloc(nv * sizeof *s.distance);
    uint32_t *degree = calloc(nv, sizeof *degree);
    if (!s.trees || !s.head || !s.gone || !s.queue || !s.distance || !degree) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(s.head, 0xff, nv * nv * sizeof *s.head);
    for (uint32_t r = 0; r < s.n; r++)
        s.total += p->roots[r];
    CCL_TRY_GOTO(add_arcs(&s, p->units, degree, err), status, end);
    CCL_TRY_GOTO(take_all_out(&s, degree, err), status, end);
    status = collect(&s, out, err);
end:
    free(s.trees);
    free(s.head);
    free(s.gone);
    free(s.queue);
    free(s.distance);
    free(s.ways);
    free(s.links);
    free(degree);
    if (status != CCL_OK) {
        free(out->pieces);
        memset(out, 0, sizeof *out);
    }
    return status;
}
