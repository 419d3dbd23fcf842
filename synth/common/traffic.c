/* Hops being crossed: what is left of links and groups, and a heap of times. */
#include "synth/common/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A chunk goes at what is left where that is this part of the hop's rate; else it waits. */
#define LEAST_RATE 0.5
/* Lanes of a hop at most: thread blocks between two GPUs. */
#define MOST_LANES 32

/* Thread blocks of a hop: as fill it, but no more than a half of the GPU's, for sending, leaves
   when all hops of at least its speed take as many. */
static uint32_t lanes_of(const ccl_i_traffic_t *t, uint32_t h) {
    const ccl_i_exchange_t *x = t->x;
    const ccl_i_hop_t *hop = &x->hops[h];
    double most = fmin(ceil(hop->link_Bps / hop->tb_Bps * (1 - 1e-9)), MOST_LANES);
    if (most <= 1)
        return 1;
    for (int side = 0; side < 2; side++) {
        uint32_t rank = side ? hop->dst : hop->src, as_fast = 0;
        uint32_t first = side ? x->in_first[rank] : x->out_first[rank];
        uint32_t end = side ? x->in_first[rank + 1] : x->out_first[rank + 1];
        for (uint32_t i = first; i < end; i++)
            as_fast += x->hops[side ? x->in_hops[i] : i].link_Bps >= hop->link_Bps * (1 - 1e-9);
        if (t->room[rank] != CCL_NONE)
            most = fmin(most, t->room[rank] / as_fast);
    }
    return most < 1 ? 1 : (uint32_t)most;
}

ccl_status_t ccl_i_traffic_init(ccl_i_traffic_t *t, const ccl_i_exchange_t *x, bool limited,
                                ccl_error_t *err) {
    memset(t, 0, sizeof *t);
    ccl_arena_init(&t->arena);
    size_t nuses = x->nhops ? x->hops[x->nhops - 1].first_use + x->hops[x->nhops - 1].nuses : 0;
    t->x = x;
    t->free_Bps = ccl_arena_alloc(&t->arena, x->nresources + (size_t)1, sizeof *t->free_Bps);
    t->busy = ccl_arena_alloc(&t->arena, x->nhops + (size_t)1, sizeof *t->busy);
    t->lanes = ccl_arena_alloc(&t->arena, x->nhops + (size_t)1, sizeof *t->lanes);
    t->user_first = ccl_arena_alloc(&t->arena, x->nresources + (size_t)2, sizeof *t->user_first);
    t->users = ccl_arena_alloc(&t->arena, nuses + 1, sizeof *t->users);
    t->full_Bps = ccl_arena_alloc(&t->arena, x->nhops + (size_t)1, sizeof *t->full_Bps);
    t->opened = ccl_arena_alloc(&t->arena, x->nhops + (size_t)1, sizeof *t->opened);
    t->senders = ccl_arena_alloc(&t->arena, x->nranks + (size_t)1, sizeof *t->senders);
    t->receivers = ccl_arena_alloc(&t->arena, x->nranks + (size_t)1, sizeof *t->receivers);
    t->room = ccl_arena_alloc(&t->arena, x->nranks + (size_t)1, sizeof *t->room);
    if (!t->full_Bps || !t->opened || !t->senders || !t->receivers || !t->room || !t->free_Bps ||
        !t->busy || !t->lanes || !t->user_first || !t->users) {
        ccl_i_traffic_fini(t);
        return ccl_fail_nomem(err);
    }
    t->limited = limited;
    for (uint32_t r = 0; r < x->nranks; r++) {
        uint32_t sms = ccl_model_gpu(x->topo, r).sms;
        t->room[r] = sms ? sms / 2 : CCL_NONE;
    }
    for (uint32_t r = 0; r < x->nresources; r++)
        t->free_Bps[r] = x->resources[r].Bps;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        t->lanes[h] = (uint8_t)lanes_of(t, h);
        t->full_Bps[h] = fmin(hop->link_Bps, hop->tb_Bps);
        for (uint32_t i = 0; i < hop->nuses; i++) {
            const ccl_i_use_t *use = &x->uses[hop->first_use + i];
            t->full_Bps[h] = fmin(t->full_Bps[h], x->resources[use->resource].Bps / use->times);
        }
        for (uint32_t i = 0; i < hop->nuses; i++)
            t->user_first[x->uses[hop->first_use + i].resource + 2]++;
    }
    for (uint32_t r = 0; r < x->nresources; r++)
        t->user_first[r + 2] += t->user_first[r + 1];
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        for (uint32_t i = 0; i < hop->nuses; i++)
            t->users[t->user_first[x->uses[hop->first_use + i].resource + 1]++] = h;
    }
    return CCL_OK;
}

void ccl_i_traffic_fini(ccl_i_traffic_t *t) {
    ccl_arena_fini(&t->arena);
}

double ccl_i_traffic_rate(const ccl_i_traffic_t *t, uint32_t hop) {
    const ccl_i_hop_t *h = &t->x->hops[hop];
    uint32_t in_use = (uint32_t)__builtin_popcountll(t->busy[hop]);
    if (in_use >= t->lanes[hop] ||
        (t->limited && in_use >= t->opened[hop] &&
         (t->senders[h->src] >= t->room[h->src] || t->receivers[h->dst] >= t->room[h->dst])))
        return 0;
    double full_Bps = t->full_Bps[hop], Bps = full_Bps;
    for (uint32_t i = 0; i < h->nuses; i++) {
        const ccl_i_use_t *use = &t->x->uses[h->first_use + i];
        Bps = fmin(Bps, t->free_Bps[use->resource] / use->times);
    }
    return Bps >= LEAST_RATE * full_Bps ? Bps : 0;
}

uint32_t ccl_i_traffic_take(ccl_i_traffic_t *t, uint32_t hop, double Bps) {
    const ccl_i_hop_t *h = &t->x->hops[hop];
    uint32_t lane = (uint32_t)__builtin_ctzll(~t->busy[hop]);
    t->busy[hop] |= (uint64_t)1 << lane;
    if (lane >= t->opened[hop]) {
        t->opened[hop]++;
        t->senders[h->src]++;
        t->receivers[h->dst]++;
    }
    for (uint32_t i = 0; i < h->nuses; i++) {
        const ccl_i_use_t *use = &t->x->uses[h->first_use + i];
        t->free_Bps[use->resource] -= Bps * use->times;
    }
    return lane;
}

void ccl_i_traffic_give(ccl_i_traffic_t *t, uint32_t hop, uint32_t lane, double Bps) {
    const ccl_i_hop_t *h = &t->x->hops[hop];
    t->busy[hop] &= ~((uint64_t)1 << lane);
    for (uint32_t i = 0; i < h->nuses; i++) {
        const ccl_i_use_t *use = &t->x->uses[h->first_use + i];
        double all_Bps = t->x->resources[use->resource].Bps;
        double free_Bps = t->free_Bps[use->resource] + Bps * use->times;
        /* Sums of rates do not quite cancel. */
        t->free_Bps[use->resource] = free_Bps > all_Bps * (1 - 1e-9) ? all_Bps : free_Bps;
    }
}

#define EVENT_BEFORE(x_, a_, b_)                                                                   \
    ((a_).at_s != (b_).at_s ? (a_).at_s < (b_).at_s : (a_).id < (b_).id)
CCL_HEAP(events, ccl_i_spread_event_t, void *, EVENT_BEFORE, CCL_HEAP_PUT)

bool ccl_i_agenda_add(ccl_i_agenda_t *a, double at_s, uint32_t id) {
    if (!ccl_grow(&a->heap, &a->cap, a->len + 1, sizeof *a->heap))
        return false;
    events_push(NULL, a->heap, a->len++, (ccl_i_spread_event_t){at_s, id});
    return true;
}

ccl_i_spread_event_t ccl_i_agenda_take(ccl_i_agenda_t *a) {
    return events_pop(NULL, a->heap, a->len--);
}

void ccl_i_sends_fini(ccl_i_sends_t *sends) {
    free(sends->sent);
    memset(sends, 0, sizeof *sends);
}
