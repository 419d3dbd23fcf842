/*
 * Pieces become transfers. A lane's parts come in an order in which every block advances in
 * proportion to its bytes; what has to come from a neighbour first begins a little later, and what
 * goes straight comes last: nobody hands it on, so the end is short. A step is a tick of that order
 * and the hop of the way, so that what waits for one thing only is never behind what waits for two.
 * Three kinds of connections keep apart what would wait for each other: into a lane (with what
 * stays in the server), the lane, and from a lane to where the data belong.
 */
#include "synth/alltoallv/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TICKS = 256, MOST_INNER_CHANNELS = 8, LANE_HOP = CCL_I_AV_INNER };
/* Connections of a lane that has its even part of a NIC. */
#define LANE_WEIGHT 2
/* The same of a lane of reductions: what waits for its parts holds up less. */
#define SUM_WEIGHT 4
/* Much of an inner link, as a part of the time. */
#define BUSY 0.05
/* Where in the order relayed pieces begin: by then the first of them have come. */
#define RELAYED_FROM 0.06
/* Where what goes straight from its GPU to where it belongs begins: nothing waits for it. */
#define STRAIGHT_FROM 0.996
/* Sums inside servers end here, mirrored: what crosses is summed before them, on the same
   connections, so that NICs have work early. */
#define INSIDE_UPTO 0.3
#define GOLDEN 0.6180339887498949

static bool is_sum_first(const ccl_i_av_work_t *w) {
    return w->net->reversed && !w->heavy;
}

/* ---------------------------------------------------------------- loads */

static void load_inner(ccl_i_av_work_t *w, uint32_t a, uint32_t b, uint32_t kind, double bytes) {
    const ccl_i_av_inner_t *inner = ccl_i_av_inner(w->net, a, b);
    if (a == b)
        return;
    ccl_i_av_add(w->net, &inner->uses, bytes, w->load_s);
    w->inner_bytes[kind * w->net->ninner + (size_t)(inner - w->net->inner)] += bytes;
}

void ccl_i_av_load(ccl_i_av_work_t *w) {
    const ccl_i_av_net_t *net = w->net;
    memset(w->load_s, 0, net->nresources * sizeof *w->load_s);
    memset(w->inner_bytes, 0, 2 * net->ninner * sizeof *w->inner_bytes);
    memset(w->lane_bytes, 0, net->nlanes * sizeof *w->lane_bytes);
    for (size_t i = 0; i < w->npieces; i++) {
        const ccl_i_av_piece_t *p = &w->pieces[i];
        const ccl_i_av_item_t *item = &w->items[p->item];
        uint32_t from = item->src, kind = is_sum_first(w);
        for (uint32_t k = 0; k < p->nhops; k++)
            ccl_i_av_add(net, &w->ways[p->way + k].uses, p->bytes, w->load_s);
        if (p->nhops > 0)
            continue;
        if (p->lane != CCL_NONE) {
            const ccl_i_av_lane_t *lane = &net->lanes[p->lane];
            load_inner(w, item->src, lane->src, 0, p->bytes);
            w->lane_bytes[p->lane] += p->bytes;
            from = lane->dst;
            kind = 1;
        }
        for (uint32_t k = 0; k < item->ndests; k++)
            load_inner(w, from, w->dests[item->first_dest + k], kind, p->bytes);
    }
    for (size_t l = 0; l < net->nlanes; l++)
        if (w->lane_bytes[l] > 0)
            ccl_i_av_add(net, &net->lanes[l].uses, w->lane_bytes[l], w->load_s);
    w->load_max_s = 0;
    for (uint32_t r = 0; r < net->nresources; r++)
        w->load_max_s = fmax(w->load_max_s, w->load_s[r]);
}

/* ---------------------------------------------------------------- channels */

static uint8_t channels_for(double bytes, double time_s, double block_Bps, uint32_t most) {
    double n = time_s > 0 ? ceil(bytes / time_s / block_Bps * (1 - 1e-9)) : 1;
    return (uint8_t)(n < 1 ? 1 : n > most ? most : n);
}

/*
 * Links are shared evenly among connections: a lane with much to carry has more of them, so that
 * all of a NIC's lanes end together.
 */
uint8_t ccl_i_av_channels(const ccl_i_av_work_t *w, const ccl_i_av_lane_t *lane, double bytes,
                          uint32_t flows, uint32_t most) {
    const ccl_i_cluster_t *c = &w->net->cluster;
    bool inside = c->server[lane->src] == c->server[lane->dst];
    uint32_t weight = inside ? ccl_i_cluster_gpus(c, c->server[lane->src])
                             : (is_sum_first(w) ? SUM_WEIGHT : LANE_WEIGHT) * (c->nservers - 1);
    double part = bytes * lane->uses.slowest / w->load_max_s; /* of the time, alone on the link */
    double n = fmax(round(part * weight),
                    channels_for(bytes, w->load_max_s, lane->tb_Bps, MOST_INNER_CHANNELS));
    if (!inside && flows > 1) /* the others have one each */
        n = fmax(n, part < 1 ? round(part / (1 - part) * (flows - 1)) : most);
    return (uint8_t)(n < 1 ? 1 : n > most ? most : n);
}

/*
 * Behind lanes, parts of several servers come in an order that nobody knows before, and wait
 * for each other on one connection. Where much passes, a few servers have one of their own.
 */
static uint8_t inner_channels(const ccl_i_av_work_t *w, const ccl_i_av_inner_t *inner, bool behind,
                              double bytes, uint32_t most) {
    uint32_t n = channels_for(bytes, w->load_max_s, inner->tb_Bps, most);
    double part = bytes * inner->uses.slowest / w->load_max_s;
    uint32_t lanes = w->net->nservers - 1 < most ? w->net->nservers - 1 : most;
    return (uint8_t)(behind && part > BUSY && lanes > n ? lanes : n);
}

/* Thread blocks that each GPU needs; false: more than one has. */
static bool blocks_fit(const ccl_i_av_work_t *w, uint32_t *blocks) {
    const ccl_i_av_net_t *net = w->net;
    memset(blocks, 0, net->n * sizeof *blocks);
    for (size_t l = 0; l < net->nlanes; l++) {
        if (w->lane_bytes[l] > 0) {
            blocks[net->lanes[l].src] += w->lane_channels[l];
            blocks[net->lanes[l].dst] += w->lane_channels[l];
        }
    }
    for (uint32_t a = 0; a < net->n; a++) {
        uint32_t s = net->cluster.server[a];
        for (uint32_t j = net->cluster.first[s]; j < net->cluster.first[s + 1]; j++) {
            size_t i = (size_t)(ccl_i_av_inner(net, a, net->cluster.ranks[j]) - net->inner);
            for (uint32_t kind = 0; kind < 2; kind++) {
                uint32_t n =
                    w->inner_bytes[kind * net->ninner + i] > 0 ? w->inner_channels[kind][i] : 0;
                blocks[a] += n;
                blocks[net->cluster.ranks[j]] += n;
            }
        }
    }
    for (uint32_t a = 0; a < net->n; a++) {
        uint32_t sms = ccl_model_gpu(net->topo, a).sms;
        if (sms && blocks[a] > sms)
            return false;
    }
    return true;
}

/* Thread blocks as many as a connection's bytes need; one each where that is too many. */
static ccl_status_t choose_channels(ccl_i_av_work_t *w, ccl_error_t *err) {
    const ccl_i_av_net_t *net = w->net;
    if (!ccl_grow(&w->blocks, &w->cblocks, net->n, sizeof *w->blocks))
        return ccl_fail_nomem(err);
    for (uint32_t most = MOST_INNER_CHANNELS; most > 0; most /= 2) {
        for (size_t l = 0; l < net->nlanes; l++)
            w->lane_channels[l] = ccl_i_av_channels(w, &net->lanes[l], w->lane_bytes[l], 0, most);
        for (size_t i = 0; i < 2 * net->ninner; i++)
            w->inner_channels[i >= net->ninner][i % net->ninner] = inner_channels(
                w, &net->inner[i % net->ninner], i >= net->ninner, w->inner_bytes[i], most);
        if (blocks_fit(w, w->blocks))
            return CCL_OK;
    }
    return CCL_OK; /* lowering says what is too many */
}

/* ---------------------------------------------------------------- transfers */

typedef struct emit {
    ccl_i_av_work_t *w;
    uint32_t chunk;  /* part in hand */
    uint32_t more;   /* CCL_NONE, or the number of the next part among new ones */
    uint32_t turn;   /* spreads parts over channels */
    uint32_t server; /* of the source */
} emit_t;

static void add(emit_t *e, uint32_t src, uint32_t dst, uint32_t step, uint32_t channel) {
    ccl_i_av_work_t *w = e->w;
    /* Reversed all add; who has nothing to add to takes its first arrival as a copy (sums.c). */
    if (w->net->reversed)
        w->made[w->nmade++] =
            (ccl_transfer_t){dst, src, e->chunk, w->nsteps - 1 - step, (uint16_t)channel, 1, 0};
    else
        w->made[w->nmade++] = (ccl_transfer_t){src, dst, e->chunk, step, (uint16_t)channel, 0, 0};
}

/* The hops of an inner way from `step` on. */
static void add_inner(emit_t *e, uint32_t a, uint32_t b, uint32_t kind, uint32_t step) {
    const ccl_i_av_work_t *w = e->w;
    const ccl_i_av_inner_t *inner = ccl_i_av_inner(w->net, a, b);
    uint32_t n = w->inner_channels[kind][inner - w->net->inner];
    uint32_t channel = 2 * (n > 1 ? (kind ? e->server : e->turn) % n : 0) + kind;
    for (uint32_t k = 0; k < inner->nhops; k++) {
        uint32_t next = w->net->path[inner->first + k];
        add(e, a, next, step + k, channel);
        a = next;
    }
}

static void add_part(emit_t *e, const ccl_i_av_piece_t *p, uint32_t tick) {
    const ccl_i_av_work_t *w = e->w;
    const ccl_i_av_item_t *item = &w->items[p->item];
    uint32_t step = tick * w->stride, from = item->src, kind = is_sum_first(w);
    if (p->nhops > 0) {
        for (uint32_t k = 0; k < p->nhops; k++) {
            const ccl_i_av_lane_t *hop = &w->ways[p->way + k];
            uint32_t turn = k + CCL_I_AV_HOPS * (hop->first + e->turn % hop->channels);
            add(e, from, hop->dst, step + k, hop->channel + hop->period * turn);
            from = hop->dst;
        }
        return;
    }
    if (p->lane != CCL_NONE) {
        const ccl_i_av_lane_t *lane = &w->net->lanes[p->lane];
        uint32_t n = w->lane_channels[p->lane];
        add_inner(e, item->src, lane->src, 0, step);
        add(e, lane->src, lane->dst, step + LANE_HOP,
            lane->channel + lane->period * (n > 1 ? e->turn % n : 0));
        from = lane->dst;
        kind = 1;
    }
    for (uint32_t k = 0; k < item->ndests; k++)
        add_inner(e, from, w->dests[item->first_dest + k], kind, step + LANE_HOP + 1 + k);
}

/* Most transfers that pieces from `first` on can become, and the stride of a tick. */
static size_t most_transfers(const ccl_i_av_work_t *w, size_t first, uint32_t *hops_out) {
    size_t most = 0;
    uint32_t hops = 0;
    for (size_t i = first; i < w->npieces; i++) {
        const ccl_i_av_piece_t *p = &w->pieces[i];
        uint32_t n = w->items[p->item].ndests, inner = w->net->relayed ? CCL_I_AV_INNER : 1;
        uint32_t here = p->nhops > 0 ? p->nhops : inner * (n + 1) + 1;
        hops = p->nhops > hops ? p->nhops : hops;
        hops = hops < LANE_HOP + 1 + n + inner ? LANE_HOP + 1 + n + inner : hops;
        most += (size_t)here * p->cuts;
    }
    *hops_out = hops;
    return most;
}

/* By steps, stable. */
static ccl_status_t sort(ccl_i_av_work_t *w, ccl_error_t *err) {
    if (!ccl_grow(&w->transfers, &w->ctransfers, w->nmade + 1, sizeof *w->transfers) ||
        !ccl_grow(&w->step_first, &w->cstep_first, w->nsteps + (size_t)1, sizeof *w->step_first))
        return ccl_fail_nomem(err);
    uint32_t at = 0;
    memset(w->step_first, 0, w->nsteps * sizeof *w->step_first);
    for (size_t i = 0; i < w->nmade; i++)
        w->step_first[w->made[i].step]++;
    for (uint32_t s = 0; s < w->nsteps; s++) {
        uint32_t n = w->step_first[s];
        w->step_first[s] = at;
        at += n;
    }
    for (size_t i = 0; i < w->nmade; i++)
        w->transfers[w->step_first[w->made[i].step]++] = w->made[i];
    return CCL_OK;
}

static void add_piece(emit_t *e, size_t i) {
    const ccl_i_av_work_t *w = e->w;
    const ccl_i_av_piece_t *p = &w->pieces[i];
    const ccl_i_av_item_t *item = &w->items[p->item];
    const ccl_i_av_lane_t *lane = p->lane != CCL_NONE ? &w->net->lanes[p->lane] : NULL;
    bool late = p->nhops > 1 || (lane && lane->src != item->src);
    bool straight = p->nhops == 1 || (lane && lane->src == item->src && item->ndests == 1 &&
                                      lane->dst == w->dests[item->first_dest]);
    double from = straight ? STRAIGHT_FROM : late ? RELAYED_FROM : 0;
    double upto = p->lane == CCL_NONE && p->nhops == 0 && is_sum_first(w) ? INSIDE_UPTO : 1;
    double shift = (double)(i % 4096) * GOLDEN;
    shift -= floor(shift);
    for (uint32_t j = 0; j < p->cuts; j++) {
        double x = (j + shift) / p->cuts;
        x = from + (upto - from) * x;
        e->chunk = e->more == CCL_NONE ? w->nsub[item->chunk] + p->sub + j : e->more++;
        e->turn = (uint32_t)i + j;
        e->server = w->net->cluster.server[item->src];
        add_part(e, p, (uint32_t)(x * TICKS));
    }
}

ccl_status_t ccl_i_av_emit(ccl_i_av_work_t *w, ccl_error_t *err) {
    uint32_t at = 0, hops;
    size_t most = most_transfers(w, 0, &hops);
    emit_t e = {.w = w, .more = CCL_NONE};
    w->stride = hops;
    w->nsteps = TICKS * w->stride;
    CCL_TRY(choose_channels(w, err));
    if (!ccl_grow(&w->made, &w->cmade, most + 1, sizeof *w->made))
        return ccl_fail_nomem(err);
    /* Parts of a chunk are numbered from here; what does not move is one part. */
    for (uint32_t k = 0; k < w->nchunks; k++) {
        uint32_t n = w->nsub[k] ? w->nsub[k] : 1;
        w->nsub[k] = at;
        at += n;
    }
    w->nsub[w->nchunks] = at;
    w->nmade = 0;
    for (size_t i = 0; i < w->npieces; i++)
        add_piece(&e, i);
    return sort(w, err);
}

static int by_step(const void *a, const void *b) {
    const ccl_transfer_t *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->chunk < y->chunk ? -1 : x->chunk > y->chunk;
}

ccl_status_t ccl_i_av_emit_more(ccl_i_av_work_t *w, size_t first, ccl_error_t *err) {
    uint32_t hops;
    emit_t e = {.w = w, .more = 0};
    if (!ccl_grow(&w->made, &w->cmade, most_transfers(w, first, &hops) + 1, sizeof *w->made))
        return ccl_fail_nomem(err);
    w->nmade = 0;
    for (size_t i = first; i < w->npieces; i++)
        add_piece(&e, i);
    qsort(w->made, w->nmade, sizeof *w->made, by_step);
    return CCL_OK;
}
