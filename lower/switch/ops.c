/* Operations of a schedule with groups, their total order, their data and dependencies. */
#include "lower/switch/switch_i.h"

#include <stdlib.h>
#include <string.h>

static const ccl_peer_group_t *group_of(const ccl_i_switching_t *w, uint32_t end) {
    return &w->schedule->groups[end & ~CCL_PEER_GROUP];
}

/** Connections, to count a step's transfers on each. */
typedef struct seen {
    ccl_i_numbering_t connections;
    struct last {
        uint32_t step, count;
    } * last; /* [connections.n] */
    size_t cap;
} seen_t;

static ccl_status_t number_in_step(seen_t *seen, const ccl_transfer_t *t, uint32_t *out,
                                   ccl_error_t *err) {
    bool pulls = ccl_peer_is_group(t->src);
    uint64_t key =
        ccl_i_switch_end(pulls ? t->dst : t->src, pulls ? t->src : t->dst, t->channel, !pulls);
    uint32_t known = seen->connections.n, at;
    if (!ccl_i_numbering_add(&seen->connections, key, &at) ||
        !ccl_grow(&seen->last, &seen->cap, at + (size_t)1, sizeof *seen->last))
        return ccl_fail_nomem(err);
    struct last *last = &seen->last[at];
    if (at == known || last->step != t->step)
        *last = (struct last){t->step, 0};
    *out = last->count++;
    return CCL_OK;
}

/** What a transfer's operations have in common. */
typedef struct adding {
    ccl_i_switching_t *w;
    uint64_t *keys; /* [nops] places in the total order */
    uint64_t group;
    ccl_i_swop_t op;
} adding_t;

static void add_op(adding_t *a, uint32_t rank, uint32_t peer, bool sends, bool shared) {
    ccl_i_switching_t *w = a->w;
    a->op.rank = rank;
    a->op.peer = peer;
    a->op.sends = sends;
    a->op.shared = shared;
    a->keys[w->nops] = a->group << 1 | !sends;
    w->ops[w->nops++] = a->op;
}

/* Steps number fewer than 2^24, so places have room for the number within the step. */
static void add_transfer(ccl_i_switching_t *w, uint64_t *keys, uint32_t i, uint32_t number) {
    const ccl_transfer_t *t = &w->schedule->transfers[i];
    adding_t a = {
        .w = w,
        .keys = keys,
        .group = (uint64_t)t->step << 32 | number,
        .op = {.transfer = i, .chunk = t->chunk, .channel = t->channel, .reduces = t->reduce}};
    if (ccl_peer_is_group(t->src)) {
        const ccl_peer_group_t *from = group_of(w, t->src);
        for (uint32_t k = 0; k < from->n; k++)
            add_op(&a, from->ranks[k], CCL_PEER_MEMBER | t->dst, true, true);
        add_op(&a, t->dst, t->src, false, false);
    } else if (ccl_peer_is_group(t->dst)) {
        const ccl_peer_group_t *to = group_of(w, t->dst);
        add_op(&a, t->src, t->dst, true, false);
        for (uint32_t k = 0; k < to->n; k++)
            add_op(&a, to->ranks[k], CCL_PEER_MEMBER | t->src, false, true);
    } else {
        add_op(&a, t->src, t->dst, true, false);
        add_op(&a, t->dst, t->src, false, false);
    }
}

/* Within a step all reads come before all writes, also where a connection carries several. */
static ccl_status_t check_steps(const ccl_i_switching_t *w, ccl_error_t *err) {
    for (uint32_t i = 1; i < w->nops; i++) {
        const ccl_i_swop_t *a = &w->ops[w->history[i - 1]], *b = &w->ops[w->history[i]];
        const ccl_transfer_t *transfers = w->schedule->transfers;
        uint32_t step = transfers[a->transfer].step;
        if (a->rank == b->rank && a->chunk == b->chunk && !a->sends && b->sends &&
            step == transfers[b->transfer].step)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "lowering: step %u sends and receives chunk %u at rank %u, on a "
                            "connection that carries several transfers in the step",
                            step, a->chunk, a->rank);
    }
    return CCL_OK;
}

/* In their total order: by place, of one place as they were made. */
static void put_in_order(ccl_i_switching_t *w, ccl_i_swop_t *sorted, uint64_t *keys,
                         uint32_t *tmp) {
    for (uint32_t i = 0; i < w->nops; i++)
        w->history[i] = i;
    ccl_i_radix_sort(keys, w->history, keys + w->nops, tmp, w->nops);
    for (uint32_t i = 0; i < w->nops; i++)
        sorted[i] = w->ops[w->history[i]];
    w->ops = sorted;
}

ccl_status_t ccl_i_switch_ops(ccl_i_switching_t *w, ccl_error_t *err) {
    const ccl_schedule_t *s = w->schedule;
    size_t nops = 0;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        nops += ccl_peer_is_group(t->src)   ? group_of(w, t->src)->n + 1u
                : ccl_peer_is_group(t->dst) ? group_of(w, t->dst)->n + 1u
                                            : 2u;
    }
    if (nops > 1u << 26)
        return ccl_fail(err, CCL_UNSUPPORTED, "lowering: %zu operations, more than %u", nops,
                        1u << 26);
    seen_t seen = {0};
    uint64_t *keys = malloc((2 * nops + 1) * sizeof *keys);
    uint32_t *tmp = malloc((nops + 1) * sizeof *tmp);
    ccl_i_swop_t *made = malloc((nops + 1) * sizeof *made);
    ccl_i_swop_t *sorted = ccl_arena_alloc(&w->arena, nops + 1, sizeof *sorted);
    w->history = ccl_arena_alloc(&w->arena, nops + 1, sizeof *w->history);
    ccl_status_t status = CCL_OK;
    if (!keys || !tmp || !made || !sorted || !w->history) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    w->ops = made;
    for (uint32_t i = 0; i < s->ntransfers && status == CCL_OK; i++) {
        uint32_t number = 0;
        status = number_in_step(&seen, &s->transfers[i], &number, err);
        add_transfer(w, keys, i, number);
    }
    if (status != CCL_OK)
        goto end;
    put_in_order(w, sorted, keys, tmp);
    for (uint32_t i = 0; i < w->nops; i++) {
        w->history[i] = i;
        keys[i] = (uint64_t)w->ops[i].rank << 32 | w->ops[i].chunk;
    }
    ccl_i_radix_sort(keys, w->history, keys + nops, tmp, nops);
    status = check_steps(w, err);
end:
    ccl_i_numbering_fini(&seen.connections);
    free(seen.last);
    free(keys);
    free(tmp);
    free(made);
    return status;
}

/* ---------------------------------------------------------------- items */

/** Whether a receive and the send behind it in its history become one primitive. */
static bool forwards(const ccl_i_switching_t *w, uint32_t recv, uint32_t send) {
    const ccl_i_swop_t *r = &w->ops[recv], *s = &w->ops[send];
    if (r->rank != s->rank || r->chunk != s->chunk || r->channel != s->channel || r->sends ||
        !s->sends || ccl_peer_is_member(s->peer))
        return false;
    bool pulls = ccl_peer_is_group(r->peer), multicasts = ccl_peer_is_group(s->peer);
    return w->forward == CCL_I_FORWARD_ALL ||
           (w->forward == CCL_I_FORWARD_PULLS && pulls && multicasts);
}

/** The value of one chunk at one rank on its way through the items. */
typedef struct walk {
    uint32_t rank, chunk;
    ccl_i_loc_t now, home;
    uint32_t last_write; /* item */
    uint32_t *reads;     /* items that read home since */
    size_t nreads, cap;
} walk_t;

/* As the lowering of plain schedules names elements. */
static ccl_i_loc_t element(const ccl_i_switching_t *w, uint32_t rank, uint32_t chunk, bool output) {
    const ccl_collective_t *coll = w->coll;
    uint32_t in = ccl_collective_input(coll, rank, chunk);
    uint32_t out = ccl_collective_output(coll, rank, chunk);
    if (w->in_place && in != CCL_NONE && out != CCL_NONE)
        output =
            coll->kind == CCL_ALLGATHER || coll->kind == CCL_BROADCAST || coll->kind == CCL_GATHER;
    return output ? (ccl_i_loc_t){out, CCL_BUF_OUTPUT} : (ccl_i_loc_t){in, CCL_BUF_INPUT};
}

static void begin(const ccl_i_switching_t *w, walk_t *k, uint32_t rank, uint32_t chunk) {
    k->rank = rank;
    k->chunk = chunk;
    k->last_write = CCL_NONE;
    k->nreads = 0;
    k->now = element(w, rank, chunk, false);
    k->home = element(w, rank, chunk, true);
    if (k->home.off == CCL_NONE && w->in_place && w->coll->kind == CCL_REDUCESCATTER)
        k->home = k->now;
    if (k->home.off == CCL_NONE)
        k->home.buf = CCL_BUF_SCRATCH;
}

static ccl_status_t add_dep(ccl_i_switching_t *w, ccl_i_switem_t *item, uint32_t on,
                            ccl_error_t *err) {
    if (on == CCL_NONE || on == (uint32_t)(item - w->items))
        return CCL_OK;
    if (!ccl_grow(&w->deps, &w->deps_cap, w->ndeps + 1, sizeof *w->deps))
        return ccl_fail_nomem(err);
    w->deps[w->ndeps++] = (ccl_i_swdep_t){(uint32_t)(item - w->items), on};
    item->ndeps++;
    return CCL_OK;
}

static bool same(ccl_i_loc_t a, ccl_i_loc_t b) {
    return a.buf == b.buf && a.off == b.off;
}

/** Where a rank has a chunk, always; false: it has it at several places, or in scratch. */
static bool only_place(const ccl_i_switching_t *w, uint32_t rank, uint32_t chunk,
                       ccl_i_loc_t *out) {
    walk_t k = {0};
    begin(w, &k, rank, chunk);
    *out = k.home;
    return k.home.off != CCL_NONE && (k.now.off == CCL_NONE || same(k.now, k.home));
}

/** Operations by transfer. */
typedef struct by_transfer {
    uint32_t *first, *op; /* [ntransfers + 1], [nops] */
} by_transfer_t;

/** Whether transfer `t` + 1 may go in one primitive with `t`: nowhere is either forwarded, which
 * goes piece by piece, and their chunks lie side by side everywhere. */
static bool side_by_side(const ccl_i_switching_t *w, const by_transfer_t *by,
                         const uint32_t *partner, uint32_t t) {
    const ccl_transfer_t *a = &w->schedule->transfers[t], *b = a + 1;
    uint32_t n = by->first[t + 1] - by->first[t];
    if (a->src != b->src || a->dst != b->dst || a->channel != b->channel || a->step != b->step ||
        a->reduce != b->reduce)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t op = by->op[by->first[t] + i];
        ccl_i_loc_t x, y;
        if (partner[op] != CCL_NONE || partner[by->op[by->first[t + 1] + i]] != CCL_NONE ||
            !only_place(w, w->ops[op].rank, a->chunk, &x) ||
            !only_place(w, w->ops[op].rank, b->chunk, &y) || x.buf != y.buf || x.off + 1 != y.off)
            return false;
    }
    return true;
}

/** The operation of the connection's next transfer that each is one primitive with. */
static ccl_status_t find_joined(ccl_i_switching_t *w, const uint32_t *partner, uint32_t *next,
                                ccl_error_t *err) {
    uint32_t n = w->schedule->ntransfers;
    by_transfer_t by = {ccl_arena_alloc(&w->arena, n + (size_t)2, sizeof *by.first),
                        ccl_arena_alloc(&w->arena, w->nops + (size_t)1, sizeof *by.op)};
    if (!by.first || !by.op)
        return ccl_fail_nomem(err);
    memset(by.first, 0, (n + (size_t)2) * sizeof *by.first);
    for (uint32_t i = 0; i < w->nops; i++)
        by.first[w->ops[i].transfer + 2]++;
    for (uint32_t t = 2; t <= n; t++)
        by.first[t] += by.first[t - 1];
    for (uint32_t i = 0; i < w->nops; i++)
        by.op[by.first[w->ops[i].transfer + 1]++] = i;
    for (uint32_t t = 0; t + 1 < n; t++) {
        if (!side_by_side(w, &by, partner, t))
            continue;
        for (uint32_t i = by.first[t]; i < by.first[t + 1]; i++)
            next[by.op[i]] = by.op[i + by.first[t + 1] - by.first[t]];
    }
    return CCL_OK;
}

/** Every operation its item, in the total order; one that forwards stands where it sends, those
 * that are joined where the last of them is. */
ccl_status_t ccl_i_switch_items(ccl_i_switching_t *w, ccl_error_t *err) {
    uint32_t *partner = ccl_arena_alloc(&w->arena, w->nops + (size_t)1, sizeof *partner);
    uint32_t *next = ccl_arena_alloc(&w->arena, w->nops + (size_t)1, sizeof *next);
    w->items = ccl_arena_alloc(&w->arena, w->nops + (size_t)1, sizeof *w->items);
    if (!partner || !next || !w->items)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < w->nops; i++)
        partner[i] = next[i] = CCL_NONE;
    for (uint32_t i = 1; i < w->nops; i++) {
        uint32_t a = w->history[i - 1], b = w->history[i];
        if (forwards(w, a, b)) {
            partner[a] = b;
            partner[b] = a;
        }
    }
    if (w->joined)
        CCL_TRY(find_joined(w, partner, next, err));
    for (uint32_t i = 0; i < w->nops; i++) {
        ccl_i_swop_t *op = &w->ops[i];
        if ((!op->sends && partner[i] != CCL_NONE) || next[i] != CCL_NONE)
            continue;
        ccl_i_switem_t *item = &w->items[w->nitems];
        *item =
            (ccl_i_switem_t){.send = op->sends ? i : CCL_NONE, .recv = op->sends ? partner[i] : i};
        op->item = w->nitems;
        if (op->sends && partner[i] != CCL_NONE)
            w->ops[partner[i]].item = w->nitems;
        w->nitems++;
    }
    for (uint32_t i = w->nops; i-- > 0;) { /* the last of them is behind the others */
        if (next[i] == CCL_NONE)
            continue;
        w->ops[i].item = w->ops[next[i]].item;
        w->items[w->ops[i].item].more++;
    }
    return CCL_OK;
}

static ccl_status_t receive(ccl_i_switching_t *w, walk_t *k, uint32_t op, ccl_error_t *err) {
    ccl_i_switem_t *item = &w->items[w->ops[op].item];
    bool reduces = w->ops[op].reduces;
    if (k->home.off == CCL_NONE) { /* scratch */
        if (!ccl_grow(&w->scratch, &w->scratch_cap, w->nscratch + 1, sizeof *w->scratch))
            return ccl_fail_nomem(err);
        k->home.off = w->scratch_len[k->rank]++;
        w->scratch[w->nscratch].rank = k->rank;
        w->scratch[w->nscratch++].chunk = k->chunk;
    }
    if (reduces && k->now.off == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u adds to chunk %u, which it does not have",
                        k->rank, k->chunk);
    item->src = reduces ? k->now : k->home;
    item->dst = k->home;
    CCL_TRY(add_dep(w, item, k->last_write, err));
    for (size_t i = 0; i < k->nreads && same(k->now, k->home); i++)
        CCL_TRY(add_dep(w, item, k->reads[i], err));
    k->nreads = 0;
    k->now = k->home;
    k->last_write = w->ops[op].item;
    return CCL_OK;
}

static ccl_status_t send(ccl_i_switching_t *w, walk_t *k, uint32_t op, ccl_error_t *err) {
    ccl_i_switem_t *item = &w->items[w->ops[op].item];
    if (k->now.off == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u sends chunk %u, which it does not have",
                        k->rank, k->chunk);
    if (item->recv == CCL_NONE) {
        item->src = item->dst = k->now;
        CCL_TRY(add_dep(w, item, k->last_write, err));
    }
    if (!ccl_grow(&k->reads, &k->cap, k->nreads + 1, sizeof *k->reads))
        return ccl_fail_nomem(err);
    k->reads[k->nreads++] = w->ops[op].item;
    return CCL_OK;
}

static ccl_status_t add_copy(ccl_i_switching_t *w, const ccl_i_copy_t *copy, ccl_error_t *err) {
    if (!ccl_grow(&w->copies, &w->copies_cap, w->ncopies + 1, sizeof *w->copies))
        return ccl_fail_nomem(err);
    w->copies[w->ncopies++] = *copy;
    return CCL_OK;
}

/* What is at its destination from the start, in the other buffer. */
static ccl_status_t find_copies(ccl_i_switching_t *w, ccl_error_t *err) {
    const ccl_collective_t *coll = w->coll;
    size_t words = ((size_t)coll->nranks * coll->nchunks + 63) / 64;
    uint64_t *written = calloc(words + 1, sizeof *written);
    if (!written)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < w->nops; i++) {
        size_t bit = (size_t)w->ops[i].rank * coll->nchunks + w->ops[i].chunk;
        if (!w->ops[i].sends)
            written[bit / 64] |= 1ull << (bit % 64);
    }
    ccl_status_t status = CCL_OK;
    for (uint32_t c = 0; c < coll->nchunks && status == CCL_OK; c++) {
        const ccl_chunk_t *chunk = &coll->chunks[c];
        for (uint32_t i = 0; i < chunk->ndests && status == CCL_OK; i++) {
            uint32_t rank = chunk->dests[i];
            size_t bit = (size_t)rank * coll->nchunks + c;
            ccl_i_loc_t in = element(w, rank, c, false), out = element(w, rank, c, true);
            if (!(written[bit / 64] >> (bit % 64) & 1) && in.off != CCL_NONE &&
                out.off != CCL_NONE && !same(in, out))
                status = add_copy(w, &(ccl_i_copy_t){rank, chunk->share, in, out}, err);
        }
    }
    free(written);
    return status;
}

/* A switch adds and copies what its members have at one place. */
static ccl_status_t check_places(const ccl_i_switching_t *w, ccl_error_t *err) {
    uint32_t *first = malloc((w->schedule->ntransfers + (size_t)1) * sizeof *first);
    ccl_status_t status = first ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t t = 0; first && t < w->schedule->ntransfers; t++)
        first[t] = CCL_NONE;
    for (uint32_t i = 0; i < w->nops && status == CCL_OK; i++) {
        const ccl_i_swop_t *op = &w->ops[i];
        if (!op->shared)
            continue;
        uint32_t *one = &first[op->transfer];
        *one = *one == CCL_NONE ? i : *one;
        const ccl_i_switem_t *a = &w->items[w->ops[*one].item], *b = &w->items[op->item];
        if (!same(op->sends ? a->src : a->dst, op->sends ? b->src : b->dst))
            status =
                ccl_fail(err, CCL_UNSUPPORTED,
                         "lowering: ranks %u and %u have chunk %u at different places of their "
                         "buffers, and a switch needs it at one: order the chunks otherwise",
                         w->ops[*one].rank, op->rank, op->chunk);
    }
    free(first);
    return status;
}

/** Dependencies by item; what is joined has some of each of its chunks. */
static ccl_status_t sort_deps(ccl_i_switching_t *w, ccl_error_t *err) {
    w->on = ccl_arena_alloc(&w->arena, w->ndeps + 1, sizeof *w->on);
    if (!w->on)
        return ccl_fail_nomem(err);
    uint32_t at = 0;
    for (uint32_t i = 0; i < w->nitems; i++) {
        w->items[i].first_dep = at;
        at += w->items[i].ndeps;
        w->items[i].ndeps = 0;
    }
    for (size_t d = 0; d < w->ndeps; d++) {
        ccl_i_switem_t *item = &w->items[w->deps[d].item];
        w->on[item->first_dep + item->ndeps++] = w->deps[d].on;
        w->crossed = w->crossed || w->deps[d].on > w->deps[d].item;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_switch_values(ccl_i_switching_t *w, ccl_error_t *err) {
    walk_t k = {.rank = CCL_NONE};
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; i < w->nops && status == CCL_OK; i++) {
        uint32_t op = w->history[i], chunk = w->ops[op].chunk;
        if (i == 0 || k.rank != w->ops[op].rank || k.chunk != chunk)
            begin(w, &k, w->ops[op].rank, chunk);
        status = w->ops[op].sends ? send(w, &k, op, err) : receive(w, &k, op, err);
    }
    free(k.reads);
    if (status == CCL_OK)
        status = sort_deps(w, err);
    if (status == CCL_OK)
        status = check_places(w, err);
    return status == CCL_OK ? find_copies(w, err) : status;
}
