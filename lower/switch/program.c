/* Thread blocks of a schedule with groups, and its program. */
#include "lower/switch/switch_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct blocks {
    ccl_i_switching_t *w;
    ccl_i_numbering_t ends; /* of connections, at one rank each */
    uint32_t *parent;       /* [ends.n] what it is joined to */
    uint32_t *op_end;       /* [nops] */
    uint32_t *list;         /* [nitems] items by block, then order */
    uint32_t *first;        /* [nblocks + 1] into list */
    uint32_t nblocks;
    uint32_t *local;   /* [nblocks] its id at its rank */
    uint32_t *peer_of; /* [schedule's groups] as the program has them */
} blocks_t;

static uint32_t find(uint32_t *parent, uint32_t x) {
    while (parent[x] != x)
        x = parent[x] = parent[parent[x]];
    return x;
}

/* Single GPUs that a rank's offers of one block go to: each offer takes an overhead, and a block of
   all of 72 GPUs would take longer with them than the links with the data. */
#define MOST_SINGLES 8u

/*
 * Offers of a rank on a channel are one end, its takes another. In a domain of many GPUs half as
 * many go together where a schedule is pipelined by pieces: the last take of a piece is late by the
 * overheads of those before it. The offers of two channels take turns in one block then: the second
 * channel's pulls begin later and stay behind, so that links are busy with the ones while the
 * others' blocks wait for latency. Were they of two blocks, both would wait at the same time, piece
 * after piece.
 */
static uint64_t end_of(const blocks_t *b, const ccl_i_swop_t *op) {
    const ccl_schedule_t *s = b->w->schedule;
    const ccl_transfer_t *t = &s->transfers[op->transfer];
    uint32_t group = ccl_peer_is_group(t->src) ? t->src : t->dst;
    bool pieces =
        op->shared && s->piece_bytes > 0 && s->groups[group & ~CCL_PEER_GROUP].n > MOST_SINGLES;
    uint32_t singles = pieces ? MOST_SINGLES / 2 : MOST_SINGLES;
    uint32_t peer = op->shared ? CCL_PEER_MEMBER | ccl_peer_rank(op->peer) / singles : op->peer;
    uint16_t channel = pieces && op->sends ? op->channel / 2 : op->channel;
    return ccl_i_switch_end(op->rank, peer, channel, op->sends);
}

static ccl_status_t join_ends(blocks_t *b, ccl_error_t *err) {
    ccl_i_switching_t *w = b->w;
    b->op_end = ccl_arena_alloc(&w->arena, w->nops + (size_t)1, sizeof *b->op_end);
    for (uint32_t i = 0; i < w->nops && b->op_end; i++) {
        if (!ccl_i_numbering_add(&b->ends, end_of(b, &w->ops[i]), &b->op_end[i]))
            return ccl_fail_nomem(err);
    }
    b->parent = ccl_arena_alloc(&w->arena, b->ends.n + (size_t)1, sizeof *b->parent);
    if (!b->op_end || !b->parent)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < b->ends.n; k++)
        b->parent[k] = k;
    for (uint32_t i = 0; i < w->nitems; i++) {
        const ccl_i_switem_t *item = &w->items[i];
        if (item->send == CCL_NONE || item->recv == CCL_NONE)
            continue;
        uint32_t x = find(b->parent, b->op_end[item->send]);
        uint32_t y = find(b->parent, b->op_end[item->recv]);
        b->parent[x > y ? x : y] = x > y ? y : x;
    }
    return CCL_OK;
}

/* Blocks by rank, then by their first item. */
static ccl_status_t make_blocks(blocks_t *b, ccl_error_t *err) {
    ccl_i_switching_t *w = b->w;
    size_t n = w->nitems;
    uint32_t *block_of_end =
        ccl_arena_alloc(&w->arena, b->ends.n + (size_t)1, sizeof *block_of_end);
    uint32_t *tmp = ccl_arena_alloc(&w->arena, n + 1, sizeof *tmp);
    uint64_t *keys = ccl_arena_alloc(&w->arena, n + 1, 2 * sizeof *keys);
    b->list = ccl_arena_alloc(&w->arena, n + 1, sizeof *b->list);
    b->first = ccl_arena_alloc(&w->arena, n + 1, sizeof *b->first);
    b->local = ccl_arena_alloc(&w->arena, n + 1, sizeof *b->local);
    if (!block_of_end || !tmp || !keys || !b->list || !b->first || !b->local)
        return ccl_fail_nomem(err);
    memset(block_of_end, 0xff, b->ends.n * sizeof *block_of_end);
    uint32_t nblocks = 0;
    for (uint32_t i = 0; i < n; i++) {
        const ccl_i_switem_t *item = &w->items[i];
        uint32_t op = item->send != CCL_NONE ? item->send : item->recv;
        uint32_t root = find(b->parent, b->op_end[op]);
        if (block_of_end[root] == CCL_NONE)
            block_of_end[root] = nblocks++;
        keys[i] = (uint64_t)w->ops[op].rank << 32 | block_of_end[root];
        b->list[i] = i;
    }
    ccl_i_radix_sort(keys, b->list, keys + n, tmp, n);
    uint32_t rank = CCL_NONE, local = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || keys[i] != keys[i - 1]) {
            local = (uint32_t)(keys[i] >> 32) == rank ? local + 1 : 0;
            rank = (uint32_t)(keys[i] >> 32);
            b->first[b->nblocks] = i;
            b->local[b->nblocks++] = local;
        }
        w->items[b->list[i]].block = b->nblocks - 1;
    }
    b->first[b->nblocks] = (uint32_t)n;
    return CCL_OK;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Of the items of another block the last is enough; those of its own come before it anyway. */
static void thin_deps(blocks_t *b) {
    ccl_i_switching_t *w = b->w;
    for (uint32_t i = 0; i < w->nitems; i++) {
        ccl_i_switem_t *item = &w->items[i];
        uint32_t *deps = w->on + item->first_dep, n = 0;
        if (item->ndeps > 1)
            qsort(deps, item->ndeps, sizeof *deps, by_number);
        for (uint32_t d = 0; d < item->ndeps; d++) {
            uint32_t block = w->items[deps[d]].block;
            bool later = block == item->block;
            for (uint32_t e = d + 1; e < item->ndeps && !later; e++)
                later = w->items[deps[e]].block == block;
            if (!later)
                deps[n++] = deps[d];
        }
        item->ndeps = n;
    }
    for (uint32_t k = 0; k < b->nblocks; k++) {
        uint32_t at = 0;
        for (uint32_t i = b->first[k]; i < b->first[k + 1]; i++) {
            ccl_i_switem_t *item = &w->items[b->list[i]];
            at += item->ndeps > 1 ? item->ndeps - 1 : 0;
            item->step = at++;
        }
    }
}

/** Messages: items that send and receive them, sorted by FIFO, then as they are sent. */
typedef struct messages {
    uint64_t *sent; /* [2 n] FIFO and the item that sends; the second half is of the sort */
    uint32_t *recv; /* [2 n] */
    uint32_t *single;
    ccl_i_numbering_t fifos;
} messages_t;

/** Every message of every FIFO; which FIFO comes first does not matter. */
static bool find_messages(const ccl_i_switching_t *w, messages_t *m, size_t *n_out) {
    const uint64_t nranks = w->coll->nranks;
    size_t n = 0;
    for (uint32_t i = 0; i < w->nops; i++) /* a plain transfer's receive comes behind its send */
        if (!w->ops[i].shared)
            m->single[w->ops[i].transfer] = i;
    for (uint32_t i = 0; i < w->nops; i++) {
        uint32_t other = m->single[w->ops[i].transfer], fifo;
        if (i == other)
            continue;
        const ccl_i_swop_t *s = &w->ops[w->ops[i].sends ? i : other];
        const ccl_i_swop_t *r = &w->ops[w->ops[i].sends ? other : i];
        if (w->items[s->item].more > 0 && &w->ops[w->items[s->item].send] != s)
            continue; /* one message with a later one */
        uint32_t kind = !w->ops[i].shared ? 0 : w->ops[i].sends ? 1 : 2;
        uint32_t channel = (uint32_t)w->ops[i].channel << 2 | kind;
        uint64_t pair = s->rank * nranks + r->rank;
        if (!ccl_i_numbering_add(&m->fifos, pair << 32 | channel, &fifo))
            return false;
        m->sent[n] = (uint64_t)fifo << 32 | s->item;
        m->recv[n++] = r->item;
    }
    ccl_i_radix_sort(m->sent, m->recv, m->sent + n, m->recv + n, n);
    *n_out = n;
    return true;
}

ccl_status_t ccl_i_switch_flows(const ccl_i_switching_t *w, uint32_t slots, bool *out,
                                ccl_error_t *err) {
    messages_t m = {.sent = malloc((w->nops + (size_t)1) * 2 * sizeof *m.sent),
                    .recv = malloc((w->nops + (size_t)1) * 2 * sizeof *m.recv),
                    .single = calloc(w->schedule->ntransfers + (size_t)1, sizeof *m.single)};
    size_t n = 0;
    ccl_status_t status =
        m.sent && m.recv && m.single && find_messages(w, &m, &n) ? CCL_OK : ccl_fail_nomem(err);
    *out = true;
    for (size_t i = 1; i < n && *out; i++) {
        if (m.sent[i] >> 32 == m.sent[i - 1] >> 32)
            *out = m.recv[i - 1] < m.recv[i];
        if (i >= slots && m.sent[i] >> 32 == m.sent[i - slots] >> 32)
            *out = *out && m.recv[i - slots] < (uint32_t)m.sent[i];
    }
    free(m.sent);
    free(m.recv);
    free(m.single);
    ccl_i_numbering_fini(&m.fifos);
    return status;
}

static uint32_t program_peer(const blocks_t *b, uint32_t peer) {
    return ccl_peer_is_group(peer) ? b->peer_of[peer & ~CCL_PEER_GROUP] : peer;
}

static ccl_peers_t peers_of(const blocks_t *b, const ccl_i_switem_t *item) {
    const ccl_i_switching_t *w = b->w;
    uint32_t op = item->send != CCL_NONE ? item->send : item->recv;
    return (ccl_peers_t){
        item->send == CCL_NONE ? CCL_NONE : program_peer(b, w->ops[item->send].peer),
        item->recv == CCL_NONE ? CCL_NONE : program_peer(b, w->ops[item->recv].peer),
        w->ops[op].channel};
}

/** The block's own connections, if it has one each way at most and on one channel. */
static bool own_peers(const blocks_t *b, uint32_t block, ccl_peers_t *out) {
    *out = (ccl_peers_t){CCL_NONE, CCL_NONE, 0};
    for (uint32_t i = b->first[block]; i < b->first[block + 1]; i++) {
        ccl_peers_t p = peers_of(b, &b->w->items[b->list[i]]);
        if ((i > b->first[block] && p.channel != out->channel) ||
            (p.send_peer != CCL_NONE && out->send_peer != CCL_NONE &&
             p.send_peer != out->send_peer) ||
            (p.recv_peer != CCL_NONE && out->recv_peer != CCL_NONE &&
             p.recv_peer != out->recv_peer))
            return false;
        out->send_peer = p.send_peer != CCL_NONE ? p.send_peer : out->send_peer;
        out->recv_peer = p.recv_peer != CCL_NONE ? p.recv_peer : out->recv_peer;
        out->channel = p.channel;
    }
    return true;
}

static ccl_step_t primitive(const ccl_i_switching_t *w, const ccl_i_switem_t *item) {
    bool sends = item->send != CCL_NONE, receives = item->recv != CCL_NONE;
    bool reduces = receives && w->ops[item->recv].reduces;
    return (ccl_step_t){.type = !receives ? CCL_PRIM_S
                                : reduces ? sends ? CCL_PRIM_RRCS : CCL_PRIM_RRC
                                : sends   ? CCL_PRIM_RCS
                                          : CCL_PRIM_R,
                        .count = 1 + item->more,
                        .src_buf = item->src.buf,
                        .src_off = item->src.off - item->more,
                        .dst_buf = item->dst.buf,
                        .dst_off = item->dst.off - item->more,
                        .dep_tb = CCL_NONE,
                        .dep_step = CCL_NONE};
}

static void emit_block(const blocks_t *b, uint32_t block, ccl_program_builder_t *out) {
    const ccl_i_switching_t *w = b->w;
    const ccl_i_switem_t *one = &w->items[b->list[b->first[block]]];
    uint32_t rank = w->ops[one->send != CCL_NONE ? one->send : one->recv].rank;
    ccl_peers_t own;
    bool alone = own_peers(b, block, &own);
    ccl_peers_t none = {CCL_NONE, CCL_NONE, own.channel};
    uint32_t tb = ccl_program_builder_tb(out, rank, alone ? own.send_peer : CCL_NONE,
                                         alone ? own.recv_peer : CCL_NONE, own.channel);
    for (uint32_t i = b->first[block]; i < b->first[block + 1]; i++) {
        const ccl_i_switem_t *item = &w->items[b->list[i]];
        ccl_step_t main = primitive(w, item);
        for (uint32_t d = 0; d < item->ndeps; d++) {
            const ccl_i_switem_t *on = &w->items[w->on[item->first_dep + d]];
            ccl_step_t *step = &main;
            ccl_step_t nop = {.type = CCL_PRIM_NOP};
            if (d + 1 < item->ndeps)
                step = &nop;
            step->dep_tb = b->local[on->block];
            step->dep_step = on->step;
            if (step == &nop && alone)
                ccl_program_builder_step(out, tb, nop);
            else if (step == &nop)
                ccl_program_builder_step_peers(out, tb, nop, none);
        }
        if (alone)
            ccl_program_builder_step(out, tb, main);
        else
            ccl_program_builder_step_peers(out, tb, main, peers_of(b, item));
    }
}

static void emit(blocks_t *b, ccl_program_builder_t *out) {
    ccl_i_switching_t *w = b->w;
    size_t copy = 0;
    uint32_t block = 0;
    ccl_i_copies_sort(w->copies, w->ncopies);
    for (uint32_t rank = 0; rank < w->coll->nranks; rank++) {
        for (; block < b->nblocks; block++) {
            const ccl_i_switem_t *one = &w->items[b->list[b->first[block]]];
            if (w->ops[one->send != CCL_NONE ? one->send : one->recv].rank != rank)
                break;
            emit_block(b, block, out);
        }
        if (copy == w->ncopies || w->copies[copy].rank != rank)
            continue;
        /* in as many blocks as the schedule has channels */
        size_t end = ccl_i_copies_end(w->copies, w->ncopies, copy);
        ccl_i_copies_blocks(w->copies + copy, end - copy, w->schedule->nchannels, out);
        copy = end;
    }
}

static ccl_status_t add_buffers(const ccl_i_switching_t *w, ccl_program_builder_t *out,
                                ccl_error_t *err) {
    size_t at = 0;
    double *shares = malloc((w->nscratch + 1) * sizeof *shares);
    if (!shares)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < w->coll->nranks; r++) {
        ccl_program_builder_buffer(out, r, CCL_BUF_INPUT, ccl_collective_input_len(w->coll, r));
        ccl_program_builder_buffer(out, r, CCL_BUF_OUTPUT, ccl_collective_output_len(w->coll, r));
        ccl_program_builder_buffer(out, r, CCL_BUF_SCRATCH, w->scratch_len[r]);
        for (uint32_t k = 0; k < w->scratch_len[r]; k++) /* made rank by rank, in order */
            shares[k] = w->coll->chunks[w->scratch[at++].chunk].share;
        if (w->coll->kind == CCL_CUSTOM)
            ccl_program_builder_shares(out, r, CCL_BUF_SCRATCH, shares);
    }
    free(shares);
    return CCL_OK;
}

static ccl_status_t build(blocks_t *b, const char *proto, ccl_program_t **out, ccl_error_t *err) {
    const ccl_i_switching_t *w = b->w;
    ccl_collective_t *coll;
    uint32_t nchunks = 1;
    CCL_TRY(ccl_collective_clone(w->coll, &coll, err));
    for (uint32_t r = 0; r < coll->nranks; r++) {
        uint32_t in = ccl_collective_input_len(coll, r), o = ccl_collective_output_len(coll, r);
        nchunks = in > nchunks ? in : nchunks;
        nchunks = o > nchunks ? o : nchunks;
    }
    ccl_program_builder_t *p = ccl_program_builder_create(w->schedule->name, coll, nchunks, proto);
    if (!p)
        return ccl_fail_nomem(err);
    ccl_program_builder_place(p, w->in_place, !w->in_place, 0, 0);
    for (uint32_t g = 0; g < w->schedule->ngroups; g++)
        b->peer_of[g] =
            ccl_program_builder_group(p, w->schedule->groups[g].ranks, w->schedule->groups[g].n);
    emit(b, p);
    ccl_status_t status = add_buffers(w, p, err);
    if (status != CCL_OK) {
        ccl_program_builder_destroy(p);
        return status;
    }
    CCL_TRY(ccl_program_builder_finish(p, out, err));
    (*out)->algorithm_only = true;
    (*out)->piece_bytes = w->schedule->piece_bytes;
    return CCL_OK;
}

ccl_status_t ccl_i_switch_program(ccl_i_switching_t *w, const char *proto, ccl_program_t **out,
                                  ccl_error_t *err) {
    blocks_t b = {.w = w};
    b.peer_of = ccl_arena_alloc(&w->arena, w->schedule->ngroups + (size_t)1, sizeof *b.peer_of);
    ccl_status_t status = b.peer_of ? join_ends(&b, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = make_blocks(&b, err);
    if (status == CCL_OK) {
        thin_deps(&b);
        status = build(&b, proto, out, err);
    }
    ccl_i_numbering_fini(&b.ends);
    return status;
}
