/* Moves in time to schedules: reductions are out-trees time-reversed. */
#include "synth/common/turn.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    double key;
    uint32_t move;
} entry_t;

static int by_key(const void *a, const void *b) {
    const entry_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->move > y->move) - (x->move < y->move);
}

static bool is_source(const ccl_chunk_t *c, uint32_t rank, uint32_t nranks) {
    uint32_t lo = 0, hi = c->nsources;
    if (hi == nranks)
        return true;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (c->sources[mid] < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c->nsources && c->sources[lo] == rank;
}

/* Time-reversed: latest arrival first. A rank that adds nothing of its own takes what comes first
   as a copy, so nothing else may come to it in that step: every move has a step of its own then. */
static uint32_t add_up(const ccl_i_turn_t *turn, const ccl_collective_t *coll, entry_t *order,
                       uint64_t *fed, ccl_schedule_builder_t *b) {
    uint32_t step = 0;
    bool all_sources = true;
    for (size_t i = 0; i < turn->nup; i++) {
        order[i] = (entry_t){-turn->up[i].arrive_s, (uint32_t)i};
        all_sources &= is_source(&coll->chunks[turn->up[i].chunk], turn->up[i].src, coll->nranks);
    }
    qsort(order, turn->nup, sizeof *order, by_key);
    for (size_t i = 0; i < turn->nup; i++) {
        const ccl_i_move_t *m = &turn->up[order[i].move];
        size_t place = (size_t)m->chunk * coll->nranks + m->src;
        bool first = !(fed[place / 64] >> (place % 64) & 1);
        fed[place / 64] |= (uint64_t)1 << (place % 64);
        if (i > 0 && (!all_sources || order[i].key != order[i - 1].key))
            step++;
        ccl_schedule_builder_add(
            b, (ccl_transfer_t){m->dst, m->src, m->chunk, step, m->channel,
                                !first || is_source(&coll->chunks[m->chunk], m->src, coll->nranks),
                                0});
    }
    return turn->nup ? step + 1 : 0;
}

static void add_down(const ccl_i_turn_t *turn, const ccl_collective_t *coll, entry_t *order,
                     uint32_t step, ccl_schedule_builder_t *b) {
    for (size_t i = 0; i < turn->ndown; i++)
        order[i] = (entry_t){turn->down[i].start_s, (uint32_t)i};
    qsort(order, turn->ndown, sizeof *order, by_key);
    for (size_t i = 0; i < turn->ndown; i++) {
        const ccl_i_move_t *m = &turn->down[order[i].move];
        bool sum = coll->chunks[m->chunk].reduced && turn->nup > 0;
        if (i > 0 && order[i].key != order[i - 1].key)
            step++;
        ccl_schedule_builder_add(
            b, (ccl_transfer_t){m->src, m->dst, m->chunk, step,
                                (uint16_t)(m->channel + (sum ? turn->down_channels : 0)), 0, sum});
    }
}

ccl_status_t ccl_i_turn_schedule(const ccl_i_turn_t *turn, ccl_collective_t *coll,
                                 ccl_schedule_t **out, ccl_error_t *err) {
    size_t most = turn->nup > turn->ndown ? turn->nup : turn->ndown;
    size_t bits = turn->nup ? (size_t)coll->nchunks * coll->nranks : 0;
    entry_t *order = malloc((most + 1) * sizeof *order);
    uint64_t *fed = calloc(bits / 64 + 1, sizeof *fed);
    if (!order || !fed || turn->nup > CCL_NONE || turn->ndown > CCL_NONE) {
        free(order);
        free(fed);
        ccl_collective_destroy(coll);
        return ccl_fail_nomem(err);
    }
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(turn->name, coll);
    if (b) {
        uint32_t step = add_up(turn, coll, order, fed, b);
        add_down(turn, coll, order, step, b);
    }
    free(order);
    free(fed);
    return b ? ccl_schedule_builder_finish(b, out, err) : ccl_fail_nomem(err);
}

ccl_status_t ccl_i_exchange_channel(const ccl_i_hop_t *hop, ccl_routes_t *routes, bool reversed,
                                    uint32_t lane, uint16_t *channel_out, ccl_error_t *err) {
    const ccl_route_t *first, *route;
    uint32_t src = reversed ? hop->dst : hop->src, dst = reversed ? hop->src : hop->dst;
    CCL_TRY(ccl_routes_get(routes, src, dst, hop->channel, &first, err));
    for (uint32_t channel = hop->channel; channel <= UINT16_MAX; channel++) {
        CCL_TRY(ccl_routes_get(routes, src, dst, channel, &route, err));
        bool same = route == first ||
                    (route->nlinks == first->nlinks &&
                     memcmp(route->links, first->links, first->nlinks * sizeof *first->links) == 0);
        if (same && lane-- == 0) {
            *channel_out = (uint16_t)channel;
            return CCL_OK;
        }
    }
    return ccl_fail(err, CCL_ERR_INTERNAL, "no channel left from rank %u to rank %u", src, dst);
}
