/*
 * The schedule verifier: runs the transfers step by step on sums of contributions. Where most ranks
 * hold most chunks there is a table of both. Else only what a rank holds is stored, so that an
 * AllToAll of 512 ranks (262144 chunks) costs what its transfers cost.
 */
#include "schedule/verify/verify.h"

#include <stdlib.h>
#include <string.h>

/** What a rank holds of a chunk: by rank and chunk, or open addressing with these as key. */
typedef struct held {
    uint32_t rank, chunk; /* rank CCL_NONE: free */
    uint32_t sum;
    uint32_t step;    /* step + 1 of the last copy or reduction into it; 0: none */
    uint32_t written; /* transfer that wrote it last in that step */
} held_t;

typedef struct state {
    const ccl_schedule_t *schedule;
    const ccl_collective_t *coll;
    held_t *held;
    bool table; /* [nranks][nchunks]; else a hash */
    size_t nslots, nheld;
    uint32_t *in_flight; /* sums that the transfers of a step carry */
    size_t in_flight_cap;
    ccl_i_sums_t sums;
    ccl_verdict_t *verdict;
} state_t;

static held_t *find_slot(held_t *held, size_t nslots, uint32_t rank, uint32_t chunk) {
    for (size_t at = (size_t)ccl_mix64((uint64_t)rank << 32 | chunk);; at++) {
        held_t *h = &held[at & (nslots - 1)];
        if (h->rank == CCL_NONE || (h->rank == rank && h->chunk == chunk))
            return h;
    }
}

static held_t *slot_of(const state_t *st, uint32_t rank, uint32_t chunk) {
    return st->table ? &st->held[(size_t)chunk * st->coll->nranks + rank]
                     : find_slot(st->held, st->nslots, rank, chunk);
}

/** What rank holds of chunk, or NULL. */
static held_t *get(const state_t *st, uint32_t rank, uint32_t chunk) {
    held_t *h = slot_of(st, rank, chunk);
    return h->rank == CCL_NONE ? NULL : h;
}

/** The entry, made when absent (then with sum CCL_NONE); NULL when out of memory. */
static held_t *put(state_t *st, uint32_t rank, uint32_t chunk) {
    held_t *h = slot_of(st, rank, chunk);
    if (h->rank != CCL_NONE)
        return h;
    if (!st->table && 2 * (st->nheld + 1) > st->nslots) {
        size_t nslots = 2 * st->nslots;
        held_t *grown = malloc(nslots * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown, 0xff, nslots * sizeof *grown);
        for (size_t i = 0; i < st->nslots; i++) {
            if (st->held[i].rank != CCL_NONE)
                *find_slot(grown, nslots, st->held[i].rank, st->held[i].chunk) = st->held[i];
        }
        free(st->held);
        st->held = grown;
        st->nslots = nslots;
        h = find_slot(st->held, st->nslots, rank, chunk);
    }
    *h = (held_t){rank, chunk, CCL_NONE, 0, CCL_NONE};
    st->nheld++;
    return h;
}

static ccl_status_t start(state_t *st, ccl_error_t *err) {
    const ccl_schedule_t *s = st->schedule;
    CCL_TRY(ccl_i_check_members(st->coll, err));
    st->nslots = 1024;
    while (st->nslots < 2 * ((size_t)s->ntransfers + st->coll->nchunks))
        st->nslots *= 2;
    size_t all = (size_t)st->coll->nranks * st->coll->nchunks;
    st->table = s->ngroups == 0 && all <= st->nslots;
    st->nslots = st->table ? all : st->nslots;
    st->held = malloc(st->nslots * sizeof *st->held);
    if (!st->held || !ccl_i_sums_init(&st->sums, st->coll->nranks))
        return ccl_fail_nomem(err);
    memset(st->held, 0xff, st->nslots * sizeof *st->held);
    for (uint32_t k = 0; k < st->coll->nchunks; k++) {
        const ccl_chunk_t *chunk = &st->coll->chunks[k];
        for (uint32_t i = 0; i < chunk->nsources; i++) {
            held_t *h = put(st, chunk->sources[i], k);
            if (!h)
                return ccl_fail_nomem(err);
            h->sum = chunk->sources[i];
        }
    }
    return CCL_OK;
}

/** "rank 3", "group 0". */
static const char *end_name(uint32_t end, char *out, size_t len) {
    bool group = ccl_peer_is_group(end);
    snprintf(out, len, "%s %u", group ? "group" : "rank", group ? end & ~CCL_PEER_GROUP : end);
    return out;
}

static void fault(state_t *st, const char *kind, uint32_t rank, const ccl_transfer_t *t,
                  const char *text) {
    char from[24], to[24];
    ccl_i_fault(st->verdict, kind, rank, CCL_NONE, t->step, t->chunk, "step %u, %s to %s (%s): %s",
                t->step, end_name(t->src, from, sizeof from), end_name(t->dst, to, sizeof to),
                t->reduce ? "reduce" : "copy", text);
}

/** Ranks at an end of a transfer: its group's, or the one. */
static ccl_peer_group_t ranks_of(const state_t *st, const uint32_t *end) {
    return ccl_peer_is_group(*end) ? st->schedule->groups[*end & ~CCL_PEER_GROUP]
                                   : (ccl_peer_group_t){end, 1};
}

static bool in_range(const state_t *st, uint32_t end) {
    return ccl_peer_is_group(end) ? (end & ~CCL_PEER_GROUP) < st->schedule->ngroups
                                  : end < st->coll->nranks;
}

static bool check_transfers(state_t *st) {
    const ccl_schedule_t *s = st->schedule;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        uint32_t rank = ccl_peer_is_group(t->src) ? t->dst : t->src;
        char text[128];
        if (!in_range(st, t->src) || !in_range(st, t->dst)) {
            snprintf(text, sizeof text, "there are only %u ranks and %u groups", st->coll->nranks,
                     s->ngroups);
            fault(st, "range", rank, t, text);
        } else if (ccl_peer_is_group(t->src) && ccl_peer_is_group(t->dst)) {
            fault(st, "peer", CCL_NONE, t, "one end must be a rank");
        } else if (t->src == t->dst) {
            fault(st, "peer", rank, t, "a rank sends to itself");
        } else if (t->chunk >= st->coll->nchunks) {
            snprintf(text, sizeof text, "chunk %u of only %u", t->chunk, st->coll->nchunks);
            fault(st, "range", rank, t, text);
        } else if (i && t->step < s->transfers[i - 1].step) {
            snprintf(text, sizeof text, "comes after a transfer of step %u",
                     s->transfers[i - 1].step);
            fault(st, "order", rank, t, text);
        }
        if (!st->verdict->valid)
            return false;
    }
    return true;
}

/** What transfer t carries: what its source holds, or the sum of what its sources hold. */
static ccl_status_t load_one(state_t *st, const ccl_transfer_t *t, uint32_t *out,
                             ccl_error_t *err) {
    ccl_peer_group_t from = ranks_of(st, &t->src);
    char text[160];
    *out = CCL_NONE;
    for (uint32_t k = 0; k < from.n; k++) {
        uint32_t rank = from.ranks[k], twice = CCL_NONE, sum;
        const held_t *h = get(st, rank, t->chunk);
        if (!h) {
            if (st->coll->chunks[t->chunk].share <= 0)
                continue;
            snprintf(text, sizeof text, "rank %u does not hold chunk %u", rank, t->chunk);
            fault(st, "unread", rank, t, text);
            return CCL_OK;
        }
        sum = h->sum;
        if (*out != CCL_NONE && !ccl_i_sums_add(&st->sums, *out, h->sum, &sum, &twice))
            return ccl_fail_nomem(err);
        if (twice != CCL_NONE) {
            snprintf(text, sizeof text,
                     "the group adds the contribution of rank %u to chunk %u twice", twice,
                     t->chunk);
            fault(st, "twice", t->dst, t, text);
            return CCL_OK;
        }
        *out = sum;
    }
    return CCL_OK;
}

/** Where what a rank holds of a chunk is looked for first. */
static const held_t *near_slot(const state_t *st, uint32_t rank, uint32_t chunk) {
    return st->table
               ? slot_of(st, rank, chunk)
               : &st->held[(size_t)ccl_mix64((uint64_t)rank << 32 | chunk) & (st->nslots - 1)];
}

/* Transfers ahead whose memory is asked for: what their ranks hold, then how that is added. */
enum { HELD_AHEAD = 24, SLOT_AHEAD = 16, SUM_AHEAD = 8 };

/** What transfers first .. end - 1, of one step, carry: the state before the step. */
static ccl_status_t load(state_t *st, uint32_t first, uint32_t end, ccl_error_t *err) {
    const ccl_transfer_t *transfers = st->schedule->transfers;
    for (uint32_t i = first; i < end && st->verdict->valid; i++) {
        if (i + HELD_AHEAD < end) /* a group's is some other */
            __builtin_prefetch(
                near_slot(st, transfers[i + HELD_AHEAD].src, transfers[i + HELD_AHEAD].chunk));
        CCL_TRY(load_one(st, &transfers[i], &st->in_flight[i - first], err));
    }
    return CCL_OK;
}

static void prefetch_sum(const state_t *st, uint32_t first, uint32_t i, bool soon) {
    const ccl_transfer_t *t = &st->schedule->transfers[i];
    if (t->reduce && !ccl_peer_is_group(t->dst))
        ccl_i_sums_prefetch(&st->sums, near_slot(st, t->dst, t->chunk)->sum,
                            st->in_flight[i - first], soon);
}

/** Memory for the stores that follow that of transfer i. */
static void prefetch(const state_t *st, uint32_t first, uint32_t i, uint32_t end) {
    const ccl_transfer_t *t = &st->schedule->transfers[i];
    if (i + HELD_AHEAD >= end)
        return;
    __builtin_prefetch(near_slot(st, t[HELD_AHEAD].dst, t[HELD_AHEAD].chunk), 1);
    prefetch_sum(st, first, i + SLOT_AHEAD, false);
    prefetch_sum(st, first, i + SUM_AHEAD, true);
}

/** Puts sum `in` to rank `dst`, where transfer i goes. */
static ccl_status_t store(state_t *st, uint32_t i, uint32_t dst, uint32_t in, ccl_error_t *err) {
    const ccl_transfer_t *t = &st->schedule->transfers[i];
    char text[160];
    if (in == CCL_NONE)
        return CCL_OK; /* of no bytes */
    held_t *h = t->reduce ? get(st, dst, t->chunk) : put(st, dst, t->chunk);
    if (!h && !t->reduce)
        return ccl_fail_nomem(err);
    if (!h) {
        if (st->coll->chunks[t->chunk].share <= 0)
            return CCL_OK;
        snprintf(text, sizeof text, "rank %u holds nothing of chunk %u to add to", dst, t->chunk);
        fault(st, "unread", dst, t, text);
        return CCL_OK;
    }
    bool again = h->step == t->step + 1; /* another transfer of this step wrote it */
    const ccl_transfer_t *other = again ? &st->schedule->transfers[h->written] : NULL;
    if (other && (other->reduce != t->reduce || (!t->reduce && h->sum != in))) {
        char name[24];
        snprintf(text, sizeof text, "%s writes chunk %u there in the same step",
                 end_name(other->src, name, sizeof name), t->chunk);
        fault(st, "race", dst, t, text);
        return CCL_OK;
    }
    uint32_t twice = CCL_NONE, sum = in;
    if (t->reduce && !ccl_i_sums_add(&st->sums, h->sum, in, &sum, &twice))
        return ccl_fail_nomem(err);
    if (twice != CCL_NONE) {
        snprintf(text, sizeof text, "adds the contribution of rank %u to chunk %u twice", twice,
                 t->chunk);
        fault(st, "twice", dst, t, text);
        return CCL_OK;
    }
    h->sum = sum;
    h->step = t->step + 1;
    h->written = i;
    return CCL_OK;
}

static ccl_status_t run(const ccl_ctx_t *ctx, state_t *st, ccl_error_t *err) {
    const ccl_schedule_t *s = st->schedule;
    for (uint32_t first = 0; first < s->ntransfers && st->verdict->valid;) {
        uint32_t end = first;
        while (end < s->ntransfers && s->transfers[end].step == s->transfers[first].step)
            end++;
        if (!ccl_grow_raw(&st->in_flight, &st->in_flight_cap, end - first, sizeof *st->in_flight))
            return ccl_fail_nomem(err);
        CCL_TRY(load(st, first, end, err));
        for (uint32_t i = first; i < end && st->verdict->valid; i++) {
            ccl_peer_group_t to = ranks_of(st, &s->transfers[i].dst);
            prefetch(st, first, i, end);
            for (uint32_t k = 0; k < to.n && st->verdict->valid; k++)
                CCL_TRY(store(st, i, to.ranks[k], st->in_flight[i - first], err));
        }
        first = end;
        ccl_progress_t progress = {.phase = "verify", .done = first, .total = s->ntransfers};
        CCL_TRY(ccl_ctx_poll(ctx, &progress));
    }
    return CCL_OK;
}

static void check_result(state_t *st) {
    uint32_t differ = 0, first = 0, a = 0, b = 0;
    for (uint32_t k = 0; k < st->coll->nchunks; k++) {
        const ccl_chunk_t *chunk = &st->coll->chunks[k];
        uint32_t sum0 = CCL_NONE, whole = CCL_NONE; /* a sum that was found to be complete */
        bool counted = false;
        for (uint32_t i = 0; i < chunk->ndests && chunk->share > 0; i++) {
            uint32_t r = chunk->dests[i], nlack = 0;
            const held_t *h = get(st, r, k);
            if (!h) {
                ccl_i_fault(st->verdict, "missing", r, CCL_NONE, CCL_NONE, k,
                            "rank %u: at the end chunk %u (of rank %u) is missing", r, k,
                            chunk->nsources ? chunk->sources[0] : 0);
                return;
            }
            uint32_t lack =
                h->sum == whole ? CCL_NONE : ccl_i_sums_lacks(&st->sums, h->sum, chunk, &nlack);
            whole = h->sum;
            if (lack != CCL_NONE) {
                char more[48] = "";
                if (nlack > 1)
                    snprintf(more, sizeof more, " and %u more", nlack - 1);
                ccl_i_fault(st->verdict, "missing", r, CCL_NONE, h->step ? h->step - 1 : CCL_NONE,
                            k, "rank %u: at the end chunk %u lacks the contribution of rank %u%s",
                            r, k, lack, more);
                return;
            }
            sum0 = i ? sum0 : h->sum;
            if (h->sum != sum0 && !counted) {
                counted = true;
                if (!differ++) {
                    first = k;
                    a = chunk->dests[0];
                    b = r;
                }
            }
        }
    }
    if (differ)
        ccl_i_warn(st->verdict,
                   "ranks %u and %u add up chunk %u in different orders (%u chunks so): their "
                   "results may differ in the last bits",
                   a, b, first, differ);
}

ccl_status_t ccl_schedule_verify(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                 ccl_verdict_t *out, ccl_error_t *err) {
    ccl_verdict_t verdict = {.valid = true,
                             .fault = {NULL, CCL_NONE, CCL_NONE, CCL_NONE, CCL_NONE, "", 0, 0}};
    state_t st = {.schedule = schedule, .coll = schedule->coll, .verdict = &verdict};
    ccl_status_t status = CCL_OK;
    uint32_t *room = malloc(ccl_schedule_moves_room(schedule) * sizeof *room);
    if (!room)
        return ccl_fail_nomem(err);
    bool right = ccl_schedule_moves_right(schedule, room);
    free(room);
    if (right) {
        *out = verdict;
        return ccl_ctx_poll(ctx, NULL);
    }
    if (check_transfers(&st)) {
        CCL_TRY_GOTO(start(&st, err), status, end);
        CCL_TRY_GOTO(run(ctx, &st, err), status, end);
        if (verdict.valid)
            check_result(&st);
    }
    *out = verdict;
end:
    free(st.held);
    free(st.in_flight);
    ccl_i_sums_fini(&st.sums);
    return status;
}
