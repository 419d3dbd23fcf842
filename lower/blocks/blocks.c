/*
 * Lowering, second part: one block per connection end, as NCCL and MSCCL do; a rank that on a
 * channel has one connection in and one out, and passes on what it receives, gets one block with
 * fused primitives.
 */
#include "lower/lower_i.h"

#include <stdlib.h>
#include <string.h>

/** One end of a connection: its transfers are list[first .. first + len). */
typedef struct end {
    uint32_t first, len;
    uint32_t rank, peer;
    uint16_t channel;
    bool receives;
} end_t;

typedef struct work {
    uint32_t *list;  /* transfers by connection, in order */
    uint32_t *order; /* ends by rank, channel */
    end_t *ends;
    uint32_t nends;
} work_t;

static void work_fini(work_t *w) {
    free(w->list);
    free(w->order);
    free(w->ends);
}

/* 0 .. n in the order of keys. */
static ccl_status_t sorted(const uint64_t *keys, size_t n, uint32_t **out, ccl_error_t *err) {
    uint64_t *room = malloc((2 * n + 1) * sizeof *room);
    uint32_t *items = malloc((2 * n + 1) * sizeof *items);
    if (!room || !items) {
        free(room);
        free(items);
        return ccl_fail_nomem(err);
    }
    for (size_t i = 0; i < n; i++) {
        room[i] = keys[i];
        items[i] = (uint32_t)i;
    }
    ccl_i_radix_sort(room, items, room + n, items + n, n);
    free(room);
    *out = items;
    return CCL_OK;
}

/* Transfers by connection, each connection's two ends; in the order of connections' keys. */
static ccl_status_t list_ends(const ccl_i_lowering_t *l, work_t *w, const ccl_i_numbering_t *conns,
                              const uint32_t *conn_of, ccl_error_t *err) {
    enum { AHEAD = 16 };
    uint32_t *order = NULL, *next = calloc(conns->n + (size_t)1, sizeof *next), at = 0;
    ccl_status_t status = sorted(conns->keys, conns->n, &order, err);
    w->ends = malloc((2 * (size_t)conns->n + 1) * sizeof *w->ends);
    if (status == CCL_OK && (!next || !w->ends))
        status = ccl_fail_nomem(err);
    for (uint32_t t = 0; status == CCL_OK && t < l->ntransfers; t++)
        next[conn_of[t]]++;
    for (uint32_t k = 0; status == CCL_OK && k < conns->n; k++) {
        uint32_t c = order[k], len = next[c];
        w->ends[w->nends++] = (end_t){at, len, 0, 0, 0, false};
        w->ends[w->nends++] = (end_t){at, len, 0, 0, 0, true};
        next[c] = at;
        at += len;
    }
    for (size_t place = 0; status == CCL_OK && place < 2 * (size_t)l->ntransfers; place++) {
        uint32_t op = l->by_place[place];
        if (place + AHEAD < 2 * (size_t)l->ntransfers)
            __builtin_prefetch(&conn_of[l->by_place[place + AHEAD] / 2]);
        if (op % 2 == 0) /* sends and receives of a connection have one order */
            w->list[next[conn_of[op / 2]]++] = op / 2;
    }
    for (uint32_t i = 0; status == CCL_OK && i < w->nends; i++) {
        end_t *e = &w->ends[i];
        const ccl_transfer_t *x = &l->transfers[w->list[e->first]];
        e->rank = e->receives ? x->dst : x->src;
        e->peer = e->receives ? x->src : x->dst;
        e->channel = x->channel;
    }
    free(order);
    free(next);
    return status;
}

static ccl_status_t find_ends(const ccl_i_lowering_t *l, work_t *w, ccl_error_t *err) {
    size_t n = l->ntransfers;
    ccl_i_numbering_t conns = {0};
    uint32_t *conn_of = ccl_array_alloc(n + 1, sizeof *conn_of);
    uint64_t *keys = NULL;
    w->list = ccl_array_alloc(n + 1, sizeof *w->list);
    ccl_status_t status = conn_of && w->list ? CCL_OK : ccl_fail_nomem(err);
    for (size_t t = 0; t < n && status == CCL_OK; t++)
        if (!ccl_i_numbering_add(&conns, ccl_i_connection(&l->transfers[t]), &conn_of[t]))
            status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = list_ends(l, w, &conns, conn_of, err);
    free(conn_of);
    ccl_i_numbering_fini(&conns);
    if (status == CCL_OK && !(keys = malloc((w->nends + (size_t)1) * sizeof *keys)))
        status = ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < w->nends; i++) {
        const end_t *e = &w->ends[i];
        keys[i] = (uint64_t)e->rank << 33 | (uint64_t)e->channel << 17 |
                  (uint64_t)e->receives << 16 | e->peer;
    }
    if (status == CCL_OK)
        status = sorted(keys, w->nends, &w->order, err);
    free(keys);
    return status;
}

/* Transfers ahead whose operations come into the cache. */
enum { AHEAD = 16 };

static void add_block(ccl_i_lowering_t *l, const work_t *w, const end_t *e, ccl_i_lblocks_t *out) {
    ccl_i_lblock_t *b = &out->blocks[out->nblocks];
    *b = (ccl_i_lblock_t){e->rank,
                          e->receives ? CCL_NONE : e->peer,
                          e->receives ? e->peer : CCL_NONE,
                          e->channel,
                          out->nitems,
                          e->len};
    for (uint32_t i = 0; i < e->len; i++) {
        if (i + AHEAD < e->len)
            __builtin_prefetch(&l->ops[2 * w->list[e->first + i + AHEAD]], 1);
        uint32_t op = 2 * w->list[e->first + i] + e->receives;
        out->items[out->nitems++] =
            e->receives ? (ccl_i_item_t){op, CCL_NONE} : (ccl_i_item_t){CCL_NONE, op};
        l->ops[op].block = out->nblocks;
        l->ops[op].item = i;
    }
    out->nblocks++;
}

/* Both ends in one block, if any receive is passed on at once. */
static bool add_through_block(ccl_i_lowering_t *l, const work_t *w, const end_t *send,
                              const end_t *recv, ccl_i_lblocks_t *out) {
    ccl_i_item_t *items = out->items + out->nitems;
    uint32_t s = 0, r = 0, n = 0, fused = 0;
    while (s < send->len || r < recv->len) {
        if (s + AHEAD < send->len) {
            __builtin_prefetch(&l->place[2 * w->list[send->first + s + AHEAD]]);
            __builtin_prefetch(&l->waits[2 * w->list[send->first + s + AHEAD]]);
        }
        if (r + AHEAD < recv->len)
            __builtin_prefetch(&l->place[2 * w->list[recv->first + r + AHEAD]]);
        uint32_t sop = s < send->len ? 2 * w->list[send->first + s] : CCL_NONE;
        uint32_t rop = r < recv->len ? 2 * w->list[recv->first + r] + 1 : CCL_NONE;
        if (rop != CCL_NONE && (sop == CCL_NONE || l->place[rop] < l->place[sop])) {
            items[n++] = (ccl_i_item_t){rop, CCL_NONE};
            r++;
            continue;
        }
        s++;
        ccl_i_item_t *prev = n ? &items[n - 1] : NULL;
        const ccl_i_waits_t *op = &l->waits[sop];
        if (prev && prev->recv != CCL_NONE && prev->send == CCL_NONE && op->ndeps == 1 &&
            l->deps[op->first_dep] == prev->recv &&
            l->history_of[sop] == l->history_of[prev->recv] &&
            ccl_i_stage(l, sop / 2) == ccl_i_stage(l, prev->recv / 2)) {
            prev->send = sop;
            fused++;
        } else
            items[n++] = (ccl_i_item_t){CCL_NONE, sop};
    }
    if (!fused)
        return false;
    out->blocks[out->nblocks] =
        (ccl_i_lblock_t){send->rank, send->peer, recv->peer, send->channel, out->nitems, n};
    for (uint32_t i = 0; i < n; i++) {
        for (int which = 0; which < 2; which++) {
            uint32_t op = which ? items[i].send : items[i].recv;
            if (op != CCL_NONE) {
                l->ops[op].block = out->nblocks;
                l->ops[op].item = i;
            }
        }
    }
    out->nitems += n;
    out->nblocks++;
    return true;
}

/* Both ends' transfers belong to ranks that forward on the channels of the schedule. */
static bool may_forward(const ccl_i_lowering_t *l, const work_t *w, const end_t *send,
                        const end_t *recv) {
    if (l->no_fuse || send->receives || !recv->receives)
        return false;
    return !l->forwards || (l->forwards[2 * (size_t)ccl_i_original(l, w->list[send->first])] &&
                            l->forwards[2 * (size_t)ccl_i_original(l, w->list[recv->first]) + 1]);
}

ccl_status_t ccl_i_find_forwarding(const ccl_schedule_t *schedule, uint8_t *forwards,
                                   ccl_error_t *err) {
    size_t n = 2 * (size_t)schedule->ntransfers;
    uint64_t *keys = malloc((2 * n + 1) * sizeof *keys);
    uint32_t *ops = malloc((2 * n + 1) * sizeof *ops);
    ccl_status_t status = keys && ops ? CCL_OK : ccl_fail_nomem(err);
    for (size_t op = 0; status == CCL_OK && op < n; op++) { /* by rank, channel, direction, peer */
        const ccl_transfer_t *t = &schedule->transfers[op / 2];
        uint64_t rank = op % 2 ? t->dst : t->src, peer = op % 2 ? t->src : t->dst;
        /* Ranks are below 2^23: 2^16 channels. */
        keys[op] = rank << 40 | (uint64_t)t->channel << 24 | (uint64_t)(op % 2) << 23 | peer;
        ops[op] = (uint32_t)op;
    }
    if (status == CCL_OK)
        ccl_i_radix_sort(keys, ops, keys + n, ops + n, n);
    for (size_t i = 0, end; status == CCL_OK && i < n; i = end) {
        uint32_t peers[2] = {0, 0};
        for (end = i; end < n && keys[end] >> 24 == keys[i] >> 24; end++)
            peers[ops[end] % 2] += end == i || keys[end] != keys[end - 1];
        for (size_t k = i; k < end; k++)
            forwards[ops[k]] = peers[0] == 1 && peers[1] == 1;
    }
    free(keys);
    free(ops);
    return status;
}

ccl_status_t ccl_i_lower_blocks(ccl_i_lowering_t *l, ccl_i_lblocks_t *out, ccl_error_t *err) {
    work_t w = {0};
    ccl_status_t status;
    memset(out, 0, sizeof *out);
    CCL_TRY_GOTO(find_ends(l, &w, err), status, end);
    CCL_TRY_GOTO(ccl_i_lower_places(l, err), status, end);
    free(l->by_place); /* there are millions, and now as many items */
    l->by_place = NULL;
    out->blocks = ccl_arena_alloc(&l->arena, w.nends + (size_t)1, sizeof *out->blocks);
    out->items = ccl_arena_alloc(&l->arena, 2 * (size_t)l->ntransfers + 1, sizeof *out->items);
    if (!out->blocks || !out->items) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t i = 0, next; i < w.nends; i = next) {
        const end_t *first = &w.ends[w.order[i]];
        for (next = i + 1; next < w.nends; next++) {
            const end_t *e = &w.ends[w.order[next]];
            if (e->rank != first->rank || e->channel != first->channel)
                break;
        }
        if (next - i == 2 && may_forward(l, &w, first, &w.ends[w.order[i + 1]]) &&
            add_through_block(l, &w, first, &w.ends[w.order[i + 1]], out))
            continue;
        for (uint32_t j = i; j < next; j++)
            add_block(l, &w, &w.ends[w.order[j]], out);
    }
end:
    work_fini(&w);
    return status;
}
