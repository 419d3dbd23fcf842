/* Transfers of a cluster-to-cluster schedule in time, and the schedule they become. */
#include "synth/c2c/moves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Connections between two border ranks, so that thread blocks fill the NIC and all NICs serve. */
enum { MOST_LANES = 8 };

void ccl_i_c2c_begin(ccl_i_c2c_t *b, uint32_t chunk, uint32_t part, uint32_t source) {
    b->chunk = chunk;
    b->part = part;
    b->serial++;
    if (source != CCL_NONE) {
        b->stamp[source] = b->serial;
        b->arrived[source] = 0;
    }
}

double ccl_i_c2c_arrived(const ccl_i_c2c_t *b, uint32_t rank) {
    return b->stamp[rank] == b->serial ? b->arrived[rank] : 0;
}

ccl_status_t ccl_i_c2c_add(ccl_i_c2c_t *b, ccl_transfer_t t, double key, double span,
                           ccl_error_t *err) {
    key = fmax(key, ccl_i_c2c_arrived(b, t.src));
    if (!ccl_grow(&b->moves, &b->cap, b->nmoves + 1, sizeof *b->moves))
        return ccl_fail_nomem(err);
    b->moves[b->nmoves++] = (ccl_i_c2c_move_t){key, t};
    b->arrived[t.dst] = fmax(ccl_i_c2c_arrived(b, t.dst), key + span);
    b->stamp[t.dst] = b->serial;
    return CCL_OK;
}

ccl_status_t ccl_i_c2c_run(ccl_i_c2c_t *b, const ccl_i_c2c_hom_t *hom, uint32_t index, double base,
                           bool end, double *end_out, ccl_error_t *err) {
    double span = b->sequential ? 1 : (end ? 0.5 : 1.0) / hom->nsteps, last = base;
    if (!hom->nchunks) {
        *end_out = base;
        return CCL_OK;
    }
    for (uint32_t i = hom->first[index]; i < hom->first[index + 1]; i++) {
        const ccl_i_c2c_hop_t *h = &hom->hops[i];
        double key = base + h->step * span;
        ccl_transfer_t t = {h->src,
                            h->dst,
                            b->chunk,
                            0,
                            (uint16_t)(h->channel + (end ? b->end_channels : 0)),
                            h->reduce,
                            end ? 2 : 0};
        if (!ccl_grow(&b->moves, &b->cap, b->nmoves + 1, sizeof *b->moves))
            return ccl_fail_nomem(err);
        b->moves[b->nmoves++] = (ccl_i_c2c_move_t){key, t};
        b->arrived[t.dst] = key + span;
        b->stamp[t.dst] = b->serial;
        last = fmax(last, key + span);
    }
    *end_out = last;
    return CCL_OK;
}

/* Channel for the index-th chunk from src to dst. */
static ccl_status_t lane_of(ccl_i_c2c_t *b, uint32_t src, uint32_t dst, uint32_t index,
                            uint16_t *channel_out, ccl_error_t *err) {
    *channel_out = 0;
    if (b->sequential)
        return CCL_OK;
    const ccl_route_t *route;
    CCL_TRY(ccl_routes_get(b->cluster->routes, src, dst, 0, &route, err));
    double rate =
        ccl_model_transport(b->topo, ccl_model_route_kind(b->topo, route), "Simple").tb_rate_Bps;
    double lanes = fmin(ceil(route->bottleneck_Bps / rate * (1 - 1e-9)), MOST_LANES);
    uint32_t width = ccl_routes_width(b->cluster->routes, src, dst);
    uint32_t n = width > (uint32_t)lanes ? width : lanes > 1 ? (uint32_t)lanes : 1;
    *channel_out = (uint16_t)(index % (n < MOST_LANES ? n : MOST_LANES));
    return CCL_OK;
}

/* Moves of a link take 1 together. */
static double pace(const ccl_i_c2c_t *b, const ccl_i_c2c_link_t *link, uint32_t i) {
    return b->sequential ? 1 : 1.0 / link->count[i];
}

ccl_status_t ccl_i_c2c_cross(ccl_i_c2c_t *b, const ccl_i_c2c_link_t *link, uint32_t i,
                             uint32_t step, bool reduce, double ready, ccl_error_t *err) {
    ccl_transfer_t t = {link->from[i], link->to[i], b->chunk, 0, 0, reduce, 1};
    double slot =
        b->sequential ? b->start_steps + step : step + (double)link->index[i] / link->count[i];
    CCL_TRY(lane_of(b, t.src, t.dst, link->index[i], &t.channel, err));
    return ccl_i_c2c_add(b, t, fmax(slot, ready), pace(b, link, i), err);
}

ccl_status_t ccl_i_c2c_sum(ccl_i_c2c_t *b, const ccl_i_c2c_link_t *link, uint32_t i, uint32_t step,
                           uint32_t keeper, ccl_error_t *err) {
    ccl_transfer_t t = {link->to[i], keeper, b->chunk, 0, (uint16_t)b->sum_channel, 1, 1};
    double slot = b->sequential ? b->start_steps + step + 1 : 0;
    return ccl_i_c2c_add(b, t, slot, pace(b, link, i), err);
}

double ccl_i_c2c_end_base(const ccl_i_c2c_t *b, double arrived) {
    return b->sequential ? fmax(arrived, b->start_steps + b->c2c_steps) : arrived;
}

ccl_status_t ccl_i_c2c_link_init(ccl_i_c2c_t *b, uint32_t n, ccl_i_c2c_link_t *out,
                                 ccl_error_t *err) {
    uint32_t *all = ccl_arena_alloc(&b->arena, 4 * (size_t)n + 1, sizeof *all);
    if (!all)
        return ccl_fail_nomem(err);
    *out = (ccl_i_c2c_link_t){n, all, all + n, all + 2 * (size_t)n, all + 3 * (size_t)n};
    return CCL_OK;
}

ccl_status_t ccl_i_c2c_link_count(ccl_i_c2c_t *b, ccl_i_c2c_link_t *link, ccl_error_t *err) {
    uint32_t *sent = calloc(b->topo->nranks, sizeof *sent);
    if (!sent)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < link->n; i++)
        link->index[i] = sent[link->from[i]]++;
    for (uint32_t i = 0; i < link->n; i++)
        link->count[i] = sent[link->from[i]];
    free(sent);
    return CCL_OK;
}

/* ---------------------------------------------------------------- the schedule */

typedef struct entry {
    double key;
    size_t move;
} entry_t;

static int by_key(const void *a, const void *b) {
    const entry_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->move > y->move) - (x->move < y->move);
}

ccl_status_t ccl_i_c2c_schedule(ccl_i_c2c_t *b, const char *name, ccl_schedule_t **out,
                                ccl_error_t *err) {
    entry_t *order = malloc((b->nmoves + 1) * sizeof *order);
    ccl_schedule_builder_t *builder = NULL;
    uint32_t step = 0;
    if (order && b->nmoves < CCL_NONE) {
        builder = ccl_schedule_builder_create(name, b->coll);
        b->coll = NULL;
    }
    if (!builder) {
        free(order);
        return ccl_fail_nomem(err);
    }
    for (size_t i = 0; i < b->nmoves; i++)
        order[i] = (entry_t){b->moves[i].key, i};
    qsort(order, b->nmoves, sizeof *order, by_key);
    for (size_t i = 0; i < b->nmoves; i++) {
        ccl_transfer_t t = b->moves[order[i].move].t;
        step += i > 0 && order[i].key != order[i - 1].key;
        t.step = step;
        ccl_schedule_builder_add(builder, t);
    }
    free(order);
    return ccl_schedule_builder_finish(builder, out, err);
}
