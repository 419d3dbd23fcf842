/*
 * The schedule verifier where nothing is reduced. Then every copy of a chunk is as good as any
 * other, and a schedule is right exactly if each transfer's source had the chunk before the
 * transfer's step, and each destination has it at the end. Chunks are looked at one by one, each
 * with a short list of who has it since when, so that millions of transfers take no table.
 */
#include "schedule/verify/verdict.h"

#include <string.h>

/* Ranks that may hold a chunk here; schedules with more go the general way. */
enum { MOST_HOLDERS = 96 };

typedef struct holders {
    uint32_t n;
    uint32_t rank[MOST_HOLDERS], since[MOST_HOLDERS]; /* first step before which it is there */
} holders_t;

static uint32_t find(const holders_t *h, uint32_t rank) {
    for (uint32_t i = 0; i < h->n; i++)
        if (h->rank[i] == rank)
            return i;
    return CCL_NONE;
}

/* One chunk's transfers, in order of steps. */
static bool chunk_is_right(const ccl_schedule_t *s, const ccl_chunk_t *chunk, const uint32_t *list,
                           uint32_t n) {
    holders_t h = {.n = 1};
    h.rank[0] = chunk->sources[0];
    h.since[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const ccl_transfer_t *t = &s->transfers[list[i]];
        uint32_t from = find(&h, t->src);
        if (from == CCL_NONE || h.since[from] > t->step)
            return false;
        if (find(&h, t->dst) != CCL_NONE)
            continue; /* once more what it has */
        if (h.n == MOST_HOLDERS)
            return false;
        h.rank[h.n] = t->dst;
        h.since[h.n++] = t->step + 1;
    }
    for (uint32_t k = 0; k < chunk->ndests; k++)
        if (find(&h, chunk->dests[k]) == CCL_NONE)
            return false;
    return true;
}

/* Whether this way of looking at it holds: no groups, no sums, all in range and in order. */
static bool is_plain(const ccl_schedule_t *s) {
    const ccl_collective_t *coll = s->coll;
    if (s->ngroups > 0)
        return false;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        if (c->nsources != 1 || !(c->share >= 0) || c->sources[0] >= coll->nranks ||
            c->ndests > MOST_HOLDERS)
            return false;
    }
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        if (t->reduce || t->src >= coll->nranks || t->dst >= coll->nranks || t->src == t->dst ||
            t->chunk >= coll->nchunks || (i > 0 && t->step < s->transfers[i - 1].step))
            return false;
    }
    return true;
}

size_t ccl_schedule_moves_room(const ccl_schedule_t *s) {
    return (size_t)s->coll->nchunks + 1 + s->ntransfers;
}

bool ccl_schedule_moves_right(const ccl_schedule_t *s, uint32_t *room) {
    const ccl_collective_t *coll = s->coll;
    uint32_t *first = room, *list = room + coll->nchunks + 1, sum = 0;
    if (!is_plain(s))
        return false;
    memset(first, 0, (coll->nchunks + (size_t)1) * sizeof *first);
    for (uint32_t i = 0; i < s->ntransfers; i++)
        first[s->transfers[i].chunk]++;
    for (uint32_t k = 0; k <= coll->nchunks; k++) {
        sum += first[k];
        first[k] = sum; /* the end of k's; filled from behind */
    }
    for (uint32_t i = s->ntransfers; i-- > 0;)
        list[--first[s->transfers[i].chunk]] = i;
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        /* What has no bytes need not move; the general way has the rules. */
        if (c->share > 0 ? !chunk_is_right(s, c, list + first[k], first[k + 1] - first[k])
                         : first[k + 1] > first[k])
            return false;
    }
    return true;
}
