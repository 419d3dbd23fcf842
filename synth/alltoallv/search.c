/*
 * Ways searched one by one, from GPU to GPU: for clusters without a fat inside, or whose servers do
 * not all reach each other. Bytes leave the way whose links are loaded most for the one that is
 * cheapest, at prices that rise steeply with the load, until no link is above the aim; that is the
 * flow program by descent, with few ways a block, so that the result is a plan.
 *
 * A hop's connections are apart by what feeds them: its place in the way, and the GPU before. So
 * what comes late holds up nothing that comes from elsewhere.
 */
#include "synth/alltoallv/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ways of a block and their hops; routes of a pair; rounds in all, and without gain. */
enum {
    MOST_WAYS = 24,
    MOST_ROUTES = 4,
    ROUNDS = 300,
    PATIENCE = 15,
    FEW_GPUS = 12,
    STEEPER = 3, /* rounds without gain until prices rise more steeply, and how often they do */
    STEEPEST = 4,
    FEEDERS = 8, /* GPUs before a hop that are kept apart */
    MOST_CHANNELS = 24
};
/* Aim over the cuts; a round gains if the load falls by this part. */
#define AIM 1.008
#define GAIN 1e-3
/* Over the cuts: longer ways are tried. */
#define FAR 1.1
/* A hop more costs as much as this share of a byte's time on an empty link. */
#define HOP_PRICE 1e-3
/* A link at a later hop of a way begins later, by this share of the time: it gets that much less.
 */
#define LATER 0.01

struct ccl_i_av_search {
    ccl_i_av_lane_t *hops; /* by source */
    uint32_t *hop_first;   /* [n + 1] */
    uint32_t *hop_at;      /* [n n] first hop of a pair */
    size_t nhops, chops;
    ccl_i_av_way_t *ways; /* [nitems][MOST_WAYS]; bytes 0: none */
    ccl_i_av_way_t *kept; /* likewise, of a search before */
    size_t cways, ckept;
    double *price, *distance; /* [nhops], [(CCL_I_AV_HOPS + 1) n] */
    uint32_t *from; /* [(CCL_I_AV_HOPS + 1) n] hop by which a GPU is reached in that many hops */
    double *load_s, *toll; /* [nresources]; toll: price of a byte */
    uint8_t *marked;       /* [nresources] */
    double unit_s;         /* the load whose power is 1 */
    uint32_t steep;
    double *flow;    /* [nhops][CCL_I_AV_HOPS][FEEDERS] bytes of a hop by what feeds it */
    uint32_t *flows; /* [nresources] how many of these it carries */
};

void ccl_i_av_search_fini(ccl_i_av_search_t *s) {
    if (!s)
        return;
    free(s->hops);
    free(s->hop_first);
    free(s->hop_at);
    free(s->ways);
    free(s->kept);
    free(s->price);
    free(s->distance);
    free(s->from);
    free(s->load_s);
    free(s->toll);
    free(s->marked);
    free(s->flow);
    free(s->flows);
    free(s);
}

/* ---------------------------------------------------------------- hops */

static ccl_status_t add_hops(ccl_i_av_work_t *w, ccl_i_av_search_t *s, uint32_t a, uint32_t b,
                             ccl_error_t *err) {
    ccl_i_av_net_t *net = w->own_net;
    uint32_t period = ccl_routes_period(net->routes, a, b);
    for (uint32_t c = 0; c < period && c < MOST_ROUTES; c++) {
        if (!ccl_grow(&s->hops, &s->chops, s->nhops + 1, sizeof *s->hops))
            return ccl_fail_nomem(err);
        CCL_TRY(ccl_i_av_hop(net, a, b, c, &s->hops[s->nhops], err));
        s->nhops++;
    }
    return CCL_OK;
}

static ccl_status_t make(ccl_i_av_work_t *w, ccl_error_t *err) {
    const ccl_i_cluster_t *c = &w->net->cluster;
    uint32_t n = w->net->n;
    ccl_i_av_search_t *s = w->search = calloc(1, sizeof *s);
    if (!s || !(s->hop_first = calloc(n + (size_t)1, sizeof *s->hop_first)) ||
        !(s->hop_at = calloc((size_t)n * n, sizeof *s->hop_at)))
        return ccl_fail_nomem(err);
    for (uint32_t a = 0; a < n; a++) {
        s->hop_first[a] = (uint32_t)s->nhops;
        for (uint32_t b = 0; b < n; b++) {
            s->hop_at[(size_t)a * n + b] = (uint32_t)s->nhops;
            if (a != b && ccl_i_cluster_reaches(c, a, b))
                CCL_TRY(add_hops(w, s, a, b, err));
        }
    }
    s->hop_first[n] = (uint32_t)s->nhops;
    s->price = calloc(s->nhops + 1, sizeof *s->price);
    s->distance = calloc((CCL_I_AV_HOPS + 1) * (size_t)n, sizeof *s->distance);
    s->from = calloc((CCL_I_AV_HOPS + 1) * (size_t)n, sizeof *s->from);
    s->load_s = calloc(w->net->nresources + (size_t)1, sizeof *s->load_s);
    s->toll = calloc(w->net->nresources + (size_t)1, sizeof *s->toll);
    s->marked = calloc(w->net->nresources + (size_t)1, 1);
    s->flow = calloc(CCL_I_AV_HOPS * FEEDERS * s->nhops + 1, sizeof *s->flow);
    s->flows = calloc(w->net->nresources + (size_t)1, sizeof *s->flows);
    return s->price && s->distance && s->from && s->load_s && s->toll && s->marked && s->flow &&
                   s->flows
               ? CCL_OK
               : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- ways */

static void load_way(const ccl_i_av_work_t *w, const ccl_i_av_way_t *way, double bytes) {
    for (uint32_t k = 0; k < way->nhops; k++)
        ccl_i_av_add(w->net, &w->search->hops[way->hops[k]].uses, bytes * (1 + k * LATER),
                     w->search->load_s);
}

static double level_of(const ccl_i_av_work_t *w, const ccl_i_av_way_t *way) {
    double most = 0;
    for (uint32_t k = 0; k < way->nhops; k++)
        most = fmax(most,
                    ccl_i_av_level(w->net, &w->search->hops[way->hops[k]].uses, w->search->load_s));
    return most;
}

/* Of a byte more on a link: its load to the power of 12, doubled `steep` times. */
static double toll_of(const ccl_i_av_work_t *w, uint32_t r) {
    const ccl_i_av_search_t *s = w->search;
    double x = s->load_s[r] / s->unit_s, x2 = x * x, x4 = x2 * x2, x12 = x4 * x4 * x4;
    for (uint32_t k = 0; k < s->steep; k++)
        x12 *= x12;
    return w->net->slow[r] * x12;
}

/* What a byte more costs on each hop. */
static void set_prices(ccl_i_av_work_t *w, double hop_price) {
    ccl_i_av_search_t *s = w->search;
    for (uint32_t r = 0; r < w->net->nresources; r++)
        s->toll[r] = toll_of(w, r);
    for (size_t h = 0; h < s->nhops; h++) {
        const ccl_i_av_uses_t *uses = &s->hops[h].uses;
        double sum = hop_price * uses->slowest;
        for (uint32_t i = 0; i < uses->n; i++)
            sum += s->toll[w->net->uses[uses->first + i]];
        s->price[h] = sum;
    }
}

/* Cheapest ways from a GPU in 1, 2, .. hops (Bellman and Ford). */
static void find_ways(ccl_i_av_work_t *w, uint32_t src) {
    ccl_i_av_search_t *s = w->search;
    uint32_t n = w->net->n;
    for (uint32_t v = 0; v < n; v++)
        s->distance[v] = v == src ? 0 : INFINITY;
    for (uint32_t k = 1; k <= w->way_hops; k++) {
        double *before = s->distance + (size_t)(k - 1) * n, *now = before + n;
        uint32_t *from = s->from + (size_t)k * n;
        bool changed = false;
        for (uint32_t v = 0; v < n; v++)
            now[v] = before[v], from[v] = CCL_NONE;
        for (uint32_t v = 0; v < n; v++) {
            if (isinf(before[v]) || (k > 1 && s->from[(size_t)(k - 1) * n + v] == CCL_NONE))
                continue;
            for (uint32_t h = s->hop_first[v]; h < s->hop_first[v + 1]; h++) {
                double d = before[v] + s->price[h];
                if (d < now[s->hops[h].dst]) {
                    now[s->hops[h].dst] = d;
                    from[s->hops[h].dst] = h;
                    changed = true;
                }
            }
        }
        if (!changed && k > 1) {
            for (; k < w->way_hops; k++) {
                memcpy(s->distance + (size_t)(k + 1) * n, now, n * sizeof *now);
                memset(s->from + (size_t)(k + 1) * n, 0xff, n * sizeof *from);
            }
        }
    }
}

/* The cheapest of them to a GPU; nhops 0: none. */
static ccl_i_av_way_t way_to(const ccl_i_av_work_t *w, uint32_t dst) {
    const ccl_i_av_search_t *s = w->search;
    uint32_t n = w->net->n, k = w->way_hops;
    ccl_i_av_way_t way = {0};
    while (k > 0 && s->from[(size_t)k * n + dst] == CCL_NONE)
        k--;
    way.nhops = k;
    for (uint32_t at = dst; k > 0; k--) {
        uint32_t h = s->from[(size_t)k * n + at];
        if (h == CCL_NONE) { /* reached in fewer hops: never on a cheapest way's last stretch */
            way.nhops = 0;
            return way;
        }
        way.hops[k - 1] = h;
        at = s->hops[h].src;
    }
    return way;
}

/* What a way takes, as often as it does; or nothing. */
static void mark(const ccl_i_av_work_t *w, const ccl_i_av_way_t *way, uint8_t more) {
    ccl_i_av_search_t *s = w->search;
    for (uint32_t k = 0; k < way->nhops; k++) {
        const ccl_i_av_uses_t *uses = &s->hops[way->hops[k]].uses;
        for (uint32_t i = 0; i < uses->n; i++) {
            uint8_t *m = &s->marked[w->net->uses[uses->first + i]];
            *m = more ? (uint8_t)(*m + more) : 0;
        }
    }
}

static bool same_way(const ccl_i_av_way_t *a, const ccl_i_av_way_t *b) {
    return a->nhops == b->nhops && memcmp(a->hops, b->hops, a->nhops * sizeof *a->hops) == 0;
}

/* Of links that a way takes, and the other way does not. */
typedef struct side {
    double most_s, slow; /* the most loaded, the slowest */
    double price, bend;  /* of a byte more; by how much more the next one costs */
} side_t;

static side_t side_of(const ccl_i_av_work_t *w, const ccl_i_av_way_t *way,
                      const ccl_i_av_way_t *other) {
    const ccl_i_av_search_t *s = w->search;
    side_t out = {0};
    mark(w, other, 1);
    for (uint32_t k = 0; k < way->nhops; k++) {
        const ccl_i_av_uses_t *uses = &s->hops[way->hops[k]].uses;
        for (uint32_t i = 0; i < uses->n; i++) {
            uint32_t r = w->net->uses[uses->first + i];
            if (s->marked[r]) {
                s->marked[r]--;
                continue;
            }
            double toll = toll_of(w, r);
            out.most_s = fmax(out.most_s, s->load_s[r]);
            out.slow = fmax(out.slow, w->net->slow[r]);
            out.price += toll;
            if (s->load_s[r] > 0)
                out.bend += (12u << s->steep) * toll * w->net->slow[r] / s->load_s[r];
        }
    }
    mark(w, other, 0);
    return out;
}

/*
 * Bytes that leave one way for another: until their most loaded links are even; where these are,
 * until a byte more costs the same on both.
 */
static double step(const side_t *old, const side_t *new, double aim_s) {
    if (new->most_s < old->most_s && old->most_s > aim_s)
        return 0.7 * (old->most_s - new->most_s) / (old->slow + new->slow);
    double bend = old->bend + new->bend;
    return bend > 0 && old->price > new->price ? 0.7 * (old->price - new->price) / bend : 0;
}

/* Bytes of one block from its most costly way above the aim to the cheapest. */
static void move(ccl_i_av_work_t *w, uint32_t item, double aim_s) {
    ccl_i_av_way_t *ways = &w->search->ways[(size_t)item * MOST_WAYS], *worst = NULL, *to = NULL;
    double costliest = 0;
    for (uint32_t k = 0; k < MOST_WAYS; k++) {
        double price = 0;
        for (uint32_t h = 0; ways[k].bytes > 0 && h < ways[k].nhops; h++)
            price += w->search->price[ways[k].hops[h]];
        if (price > costliest && level_of(w, &ways[k]) > aim_s)
            costliest = price, worst = &ways[k];
    }
    if (!worst)
        return;
    ccl_i_av_way_t way = way_to(w, w->dests[w->items[item].first_dest]);
    if (way.nhops == 0 || same_way(&way, worst))
        return;
    side_t old = side_of(w, worst, &way), new = side_of(w, &way, worst);
    for (uint32_t k = 0; k < MOST_WAYS && !to; k++)
        to = ways[k].bytes > 0 && same_way(&ways[k], &way) ? &ways[k] : NULL;
    for (uint32_t k = 0; k < MOST_WAYS && !to; k++)
        to = ways[k].bytes > 0 ? NULL : &ways[k];
    double bytes = fmin(worst->bytes, step(&old, &new, aim_s));
    if (worst->bytes - bytes < 1e-3 * w->items[item].bytes)
        bytes = worst->bytes;
    if (!to || bytes < 1e-4 * w->items[item].bytes)
        return;
    load_way(w, worst, -bytes);
    load_way(w, &way, bytes);
    worst->bytes -= bytes;
    if (to->bytes > 0)
        to->bytes += bytes;
    else
        *to = way, to->bytes = bytes;
}

/* ---------------------------------------------------------------- search */

/* Every block on its cheapest way through an empty cluster. */
static ccl_status_t start_empty(ccl_i_av_work_t *w, ccl_error_t *err) {
    ccl_i_av_search_t *s = w->search;
    s->unit_s = 1;
    s->steep = 0;
    set_prices(w, HOP_PRICE);
    for (uint32_t i = 0, src = CCL_NONE; i < w->nitems; i++) {
        if (w->items[i].src != src)
            find_ways(w, src = w->items[i].src);
        ccl_i_av_way_t *way = &s->ways[(size_t)i * MOST_WAYS];
        *way = way_to(w, w->dests[w->items[i].first_dest]);
        if (way->nhops == 0)
            return ccl_fail(err, CCL_UNSUPPORTED, "GPUs %u and %u are more than %u hops apart", src,
                            w->dests[w->items[i].first_dest], w->way_hops);
        way->bytes = w->items[i].bytes;
        load_way(w, way, way->bytes);
    }
    return CCL_OK;
}

static void add_hop(const ccl_i_av_work_t *w, ccl_i_av_way_t *way, uint32_t a, uint32_t b,
                    uint32_t channel) {
    if (a != b && way->nhops < CCL_I_AV_HOPS)
        way->hops[way->nhops++] = w->search->hop_at[(size_t)a * w->net->n + b] + channel;
}

/* The first plan's pieces; hops inside servers are single ones. */
static void start_planned(ccl_i_av_work_t *w) {
    for (size_t i = 0; i < w->npieces; i++) {
        const ccl_i_av_piece_t *p = &w->pieces[i];
        ccl_i_av_way_t *ways = &w->search->ways[(size_t)p->item * MOST_WAYS],
                       way = {p->bytes, 0, {0}};
        uint32_t k = 0, at = w->items[p->item].src;
        if (p->lane != CCL_NONE) {
            const ccl_i_av_lane_t *lane = &w->net->lanes[p->lane];
            add_hop(w, &way, at, lane->src, 0);
            add_hop(w, &way, lane->src, lane->dst, lane->channel);
            at = lane->dst;
        }
        add_hop(w, &way, at, w->dests[w->items[p->item].first_dest], 0);
        while (k < MOST_WAYS && ways[k].bytes > 0 && !same_way(&ways[k], &way))
            k++;
        k = k == MOST_WAYS ? 0 : k; /* that many pieces are not made; the first takes it */
        double bytes = ways[k].bytes;
        ways[k] = bytes > 0 ? ways[k] : way;
        ways[k].bytes = bytes + p->bytes;
        load_way(w, &ways[k], p->bytes);
    }
}

static ccl_status_t start(ccl_i_av_work_t *w, ccl_error_t *err) {
    ccl_i_av_search_t *s = w->search;
    if (!ccl_grow(&s->ways, &s->cways, MOST_WAYS * w->nitems + 1, sizeof *s->ways))
        return ccl_fail_nomem(err);
    ccl_status_t status = CCL_OK;
    w->way_hops = CCL_I_AV_LEAST_HOPS;
    for (;;) {
        memset(s->ways, 0, MOST_WAYS * w->nitems * sizeof *s->ways);
        memset(s->load_s, 0, w->net->nresources * sizeof *s->load_s);
        if (w->net->lacking || w->net->relayed)
            status = start_empty(w, err);
        else
            start_planned(w);
        if (status != CCL_UNSUPPORTED || w->way_hops == CCL_I_AV_HOPS)
            return status;
        w->way_hops = CCL_I_AV_HOPS;
    }
}

static double greatest(const ccl_i_av_work_t *w) {
    double most = 0;
    for (uint32_t r = 0; r < w->net->nresources; r++)
        most = fmax(most, w->search->load_s[r]);
    return most;
}

/* The aim comes down with what is reached: blocks below it stay where they are. */
static double descend(ccl_i_av_work_t *w) {
    double best_s = greatest(w), now_s = best_s, least_s = AIM * w->bound_s;
    /* Rounds on few GPUs cost little. */
    uint32_t patience = PATIENCE * (w->net->n <= FEW_GPUS ? 4 : 1);
    w->search->steep = 0;
    for (uint32_t round = 0, idle = 0; round < ROUNDS && idle < patience && now_s > least_s;
         round++) {
        double aim_s = fmax(least_s, 0.97 * now_s);
        if (ccl_i_av_is_late(w))
            break;
        w->search->unit_s = now_s;
        for (uint32_t i = 0, src = CCL_NONE; i < w->nitems; i++) {
            if (w->items[i].src != src) {
                set_prices(w, HOP_PRICE);
                find_ways(w, src = w->items[i].src);
            }
            move(w, i, aim_s);
        }
        now_s = greatest(w);
        idle = now_s < (1 - GAIN) * best_s ? 0 : idle + 1;
        w->search->steep += idle > 0 && idle % STEEPER == 0 && w->search->steep < STEEPEST;
        best_s = fmin(best_s, now_s);
    }
    return now_s;
}

/*
 * The dual program: at any tolls, what all blocks cost at least over the sum of tolls is a bound of
 * the busiest link. The steeper, the nearer, if the search has settled.
 */
static void prove(ccl_i_av_work_t *w, double now_s) {
    ccl_i_av_search_t *s = w->search;
    s->unit_s = now_s;
    for (s->steep = 0; s->steep <= STEEPEST; s->steep++) {
        double cost = 0, tolls = 0;
        set_prices(w, 0);
        for (uint32_t r = 0; r < w->net->nresources; r++)
            tolls += s->toll[r] / w->net->slow[r];
        for (uint32_t i = 0, src = CCL_NONE; i < w->nitems; i++) {
            if (w->items[i].src != src)
                find_ways(w, src = w->items[i].src);
            cost += w->items[i].bytes *
                    s->distance[(size_t)w->way_hops * w->net->n + w->dests[w->items[i].first_dest]];
        }
        if (tolls > 0 && cost / tolls > w->ways_s)
            w->ways_s = cost / tolls;
    }
}

static size_t flow_of(const ccl_i_av_work_t *w, const ccl_i_av_way_t *way, uint32_t h) {
    const ccl_i_cluster_t *c = &w->net->cluster;
    size_t at = ((size_t)way->hops[h] * CCL_I_AV_HOPS + h) * FEEDERS;
    uint32_t before = h > 0 ? w->search->hops[way->hops[h - 1]].src : 0;
    return h > 0 ? at + (c->server[before] + c->local[before]) % FEEDERS : at;
}

/* Flows on the hop's narrowest link. */
static uint32_t flows_beside(const ccl_i_av_work_t *w, const ccl_i_av_uses_t *uses) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < uses->n; i++) {
        uint32_t r = w->net->uses[uses->first + i], n = w->search->flows[r];
        most = w->net->slow[r] >= uses->slowest && n > most ? n : most;
    }
    return most;
}

/* Connections of hop h of a way, behind those of other feeders. */
static void connect(const ccl_i_av_work_t *w, const ccl_i_av_way_t *way, uint32_t h,
                    ccl_i_av_lane_t *hop) {
    size_t at = flow_of(w, way, h);
    uint32_t flows = w->heavy ? flows_beside(w, &hop->uses) : 0;
    hop->first = hop->channels = 0;
    for (size_t f = at - at % FEEDERS; f <= at; f++) {
        hop->first = (uint16_t)(hop->first + hop->channels);
        hop->channels = w->search->flow[f] > 0
                            ? ccl_i_av_channels(w, hop, w->search->flow[f], flows, MOST_CHANNELS)
                            : 0;
    }
}

static ccl_status_t take_way(ccl_i_av_work_t *w, uint32_t item, const ccl_i_av_way_t *way,
                             ccl_error_t *err) {
    const ccl_i_av_search_t *s = w->search;
    if (!ccl_grow(&w->pieces, &w->cpieces, w->npieces + 1, sizeof *w->pieces) ||
        !ccl_grow(&w->ways, &w->cways, w->nways + way->nhops, sizeof *w->ways))
        return ccl_fail_nomem(err);
    w->pieces[w->npieces++] = (ccl_i_av_piece_t){.bytes = way->bytes,
                                                 .item = item,
                                                 .lane = CCL_NONE,
                                                 .cuts = 1,
                                                 .way = (uint32_t)w->nways,
                                                 .nhops = way->nhops};
    for (uint32_t h = 0; h < way->nhops; h++) {
        ccl_i_av_lane_t hop = s->hops[way->hops[h]];
        connect(w, way, h, &hop);
        w->ways[w->nways++] = hop;
        w->way_slow = fmax(w->way_slow, hop.uses.slowest);
    }
    return CCL_OK;
}

/* Bytes of flows, flows of links, and links' loads without what is added for later hops. */
static void count_flows(ccl_i_av_work_t *w) {
    ccl_i_av_search_t *s = w->search;
    memset(w->load_s, 0, w->net->nresources * sizeof *w->load_s);
    memset(s->flows, 0, w->net->nresources * sizeof *s->flows);
    memset(s->flow, 0, CCL_I_AV_HOPS * FEEDERS * s->nhops * sizeof *s->flow);
    for (size_t k = 0; k < MOST_WAYS * w->nitems; k++) {
        const ccl_i_av_way_t *way = &s->ways[k];
        for (uint32_t h = 0; way->bytes > 0 && h < way->nhops; h++) {
            const ccl_i_av_uses_t *uses = &s->hops[way->hops[h]].uses;
            double *flow = &s->flow[flow_of(w, way, h)];
            for (uint32_t i = 0; i < uses->n && *flow <= 0; i++)
                s->flows[w->net->uses[uses->first + i]]++;
            *flow += way->bytes;
            ccl_i_av_add(w->net, uses, way->bytes, w->load_s);
        }
    }
}

/* Ways as pieces. */
static ccl_status_t take(ccl_i_av_work_t *w, ccl_error_t *err) {
    ccl_i_av_search_t *s = w->search;
    w->npieces = w->nways = 0;
    w->way_slow = w->load_max_s = 0;
    count_flows(w);
    for (uint32_t r = 0; r < w->net->nresources; r++)
        w->load_max_s = fmax(w->load_max_s, w->load_s[r]);
    for (size_t k = 0; k < MOST_WAYS * w->nitems; k++)
        if (s->ways[k].bytes > 0)
            CCL_TRY(take_way(w, (uint32_t)(k / MOST_WAYS), &s->ways[k], err));
    memset(w->lane_bytes, 0, w->net->nlanes * sizeof *w->lane_bytes);
    memset(w->inner_bytes, 0, 2 * w->net->ninner * sizeof *w->inner_bytes);
    w->searched = true;
    return CCL_OK;
}

/*
 * Longer ways: from where the search stands, and where that is not enough on more than a few GPUs,
 * from the start. The better one is kept.
 */
static ccl_status_t search_longer(ccl_i_av_work_t *w, double *found_s, ccl_error_t *err) {
    ccl_i_av_search_t *s = w->search;
    size_t bytes = MOST_WAYS * w->nitems * sizeof *s->ways;
    w->way_hops = CCL_I_AV_HOPS;
    *found_s = descend(w);
    if (*found_s <= FAR * w->bound_s || w->net->n <= FEW_GPUS || ccl_i_av_is_late(w))
        return CCL_OK;
    if (!ccl_grow(&s->kept, &s->ckept, MOST_WAYS * w->nitems + 1, sizeof *s->kept))
        return ccl_fail_nomem(err);
    memcpy(s->kept, s->ways, bytes);
    memset(s->ways, 0, bytes);
    memset(s->load_s, 0, w->net->nresources * sizeof *s->load_s);
    CCL_TRY(start_empty(w, err));
    double again_s = descend(w);
    if (again_s < *found_s) {
        *found_s = again_s;
        return CCL_OK;
    }
    memcpy(s->ways, s->kept, bytes);
    memset(s->load_s, 0, w->net->nresources * sizeof *s->load_s);
    for (size_t k = 0; k < MOST_WAYS * w->nitems; k++)
        if (s->ways[k].bytes > 0)
            load_way(w, &s->ways[k], s->ways[k].bytes);
    return CCL_OK;
}

ccl_status_t ccl_i_av_make_heavy(ccl_i_av_work_t *w, ccl_error_t *err) {
    w->heavy = true;
    CCL_TRY(take(w, err));
    return ccl_i_av_cut(w, err);
}

ccl_status_t ccl_i_av_search(ccl_i_av_work_t *w, ccl_error_t *err) {
    bool whole = false, lacking = w->net->lacking;
    for (uint32_t i = 0; i < w->nitems; i++) {
        if (w->items[i].ndests > 1 && lacking)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "a block of GPU %u goes to %u others, and some servers have no route "
                            "to each other",
                            w->items[i].src, w->items[i].ndests);
        if (w->items[i].ndests > 1)
            return CCL_OK;
        whole |= w->items[i].whole;
    }
    if (whole && !lacking && !w->apart)
        return CCL_OK;
    if (!w->search) {
        ccl_status_t status = make(w, err);
        if (status != CCL_OK) { /* half of it is none */
            ccl_i_av_search_fini(w->search);
            w->search = NULL;
            return status;
        }
    }
    CCL_TRY(start(w, err));
    double found_s = whole ? greatest(w) : descend(w); /* which takes bytes from blocks */
    if (!whole && found_s > FAR * w->bound_s && w->way_hops < CCL_I_AV_HOPS)
        CCL_TRY(search_longer(w, &found_s, err));
    if (w->prove && !whole)
        prove(w, found_s);
    if (!lacking && !w->apart && found_s > 0.99 * w->load_max_s)
        return CCL_OK;
    return take(w, err);
}
