/*
 * Lowering, third part: a fused item receives and sends at once, so a closed ring of blocks that
 * all forward needs a free slot somewhere. The blocks are run untimed with the least number of
 * slots; whenever all wait for each other, one fused item per channel is taken apart (it then frees
 * the slot it received from before it asks for one). The choice goes round over blocks and chunks,
 * so no path pays more than about one extra primitive.
 */
#include "lower/lower_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    ccl_i_lowering_t *l;
    const ccl_i_lblocks_t *blocks;
    uint32_t *prev; /* [ntransfers] transfer of its connection that frees its slot, or CCL_NONE */
    uint8_t *done;  /* [2 ntransfers] */
    uint8_t *split; /* [nitems] */
    uint32_t *at;   /* [nblocks] current item of the block */
    uint32_t *wait_head; /* [2 ntransfers] blocks that wait for an operation */
    uint32_t *wait_next; /* [nblocks] */
    uint32_t *ready;     /* [nblocks] stack */
    uint32_t nready, nleft;
    uint32_t *block_splits, *chunk_splits, *best; /* best: [nchannels] block */
    uint32_t nchannels;
} run_t;

static ccl_status_t run_init(run_t *r, ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks,
                             ccl_error_t *err) {
    size_t n = l->ntransfers, nb = blocks->nblocks;
    memset(r, 0, sizeof *r);
    r->l = l;
    r->blocks = blocks;
    for (size_t b = 0; b < nb; b++)
        r->nchannels = blocks->blocks[b].channel >= r->nchannels ? blocks->blocks[b].channel + 1
                                                                 : r->nchannels;
    r->prev = ccl_array_alloc(n + 1, sizeof *r->prev);
    r->done = calloc(2 * n + 1, 1);
    r->split = calloc(blocks->nitems + (size_t)1, 1);
    r->at = calloc(nb + 1, sizeof *r->at);
    r->wait_head = ccl_array_alloc(2 * n + 1, sizeof *r->wait_head);
    r->wait_next = malloc((nb + 1) * sizeof *r->wait_next);
    r->ready = malloc((nb + 1) * sizeof *r->ready);
    r->block_splits = calloc(nb + 1, sizeof *r->block_splits);
    r->chunk_splits = calloc(l->coll->nchunks + (size_t)1, sizeof *r->chunk_splits);
    r->best = malloc((r->nchannels + (size_t)1) * sizeof *r->best);
    if (!r->prev || !r->done || !r->split || !r->at || !r->wait_head || !r->wait_next ||
        !r->ready || !r->block_splits || !r->chunk_splits || !r->best)
        return ccl_fail_nomem(err);
    memset(r->wait_head, 0xff, (2 * n + 1) * sizeof *r->wait_head);
    uint32_t *sends = r->wait_head + n; /* free until the run */
    for (uint32_t b = 0; b < nb; b++) {
        const ccl_i_lblock_t *block = &blocks->blocks[b];
        /* The send `slots` before it on the block's connection: sends of a block, in order. */
        uint32_t nsends = 0;
        for (uint32_t i = 0; i < block->nitems; i++) {
            uint32_t send = blocks->items[block->first + i].send;
            if (send == CCL_NONE)
                continue;
            sends[nsends] = send / 2;
            r->prev[send / 2] = nsends >= l->slots ? sends[nsends - l->slots] : CCL_NONE;
            nsends++;
        }
        r->ready[r->nready++] = b;
        r->nleft++;
    }
    memset(r->wait_head, 0xff, (2 * n + 1) * sizeof *r->wait_head);
    return CCL_OK;
}

static void run_fini(run_t *r) {
    free(r->prev);
    free(r->done);
    free(r->split);
    free(r->at);
    free(r->wait_head);
    free(r->wait_next);
    free(r->ready);
    free(r->block_splits);
    free(r->chunk_splits);
    free(r->best);
}

/* First operation that `op` still waits for; CCL_NONE: it can go. */
static uint32_t waits_for(const run_t *r, uint32_t op, uint32_t fused_with) {
    const ccl_i_waits_t *o = &r->l->waits[op];
    for (uint32_t i = 0; i < o->ndeps; i++) {
        uint32_t dep = r->l->deps[o->first_dep + i];
        if (!r->done[dep] && dep != fused_with)
            return dep;
    }
    if (op % 2)
        return r->done[op - 1] ? CCL_NONE : op - 1;
    uint32_t prev = r->prev[op / 2];
    return prev == CCL_NONE || r->done[2 * prev + 1] ? CCL_NONE : 2 * prev + 1;
}

static void finish(run_t *r, uint32_t op) {
    r->done[op] = 1;
    for (uint32_t b = r->wait_head[op]; b != CCL_NONE; b = r->wait_next[b])
        r->ready[r->nready++] = b;
    r->wait_head[op] = CCL_NONE;
}

static void advance(run_t *r, uint32_t b) {
    const ccl_i_lblock_t *block = &r->blocks->blocks[b];
    while (r->at[b] < block->nitems) {
        uint32_t index = block->first + r->at[b], wait = CCL_NONE;
        ccl_i_item_t item = r->blocks->items[index];
        if (r->split[index] == 1) { /* taken apart: the receive first */
            if (!r->done[item.recv] && (wait = waits_for(r, item.recv, CCL_NONE)) == CCL_NONE)
                finish(r, item.recv);
            if (wait == CCL_NONE && (wait = waits_for(r, item.send, CCL_NONE)) == CCL_NONE)
                finish(r, item.send);
        } else {
            if (item.recv != CCL_NONE)
                wait = waits_for(r, item.recv, CCL_NONE);
            if (wait == CCL_NONE && item.send != CCL_NONE)
                wait = waits_for(r, item.send, item.recv);
            if (wait == CCL_NONE && item.recv != CCL_NONE)
                finish(r, item.recv);
            if (wait == CCL_NONE && item.send != CCL_NONE)
                finish(r, item.send);
        }
        if (wait != CCL_NONE) {
            r->wait_next[b] = r->wait_head[wait];
            r->wait_head[wait] = b;
            return;
        }
        r->at[b]++;
    }
    r->nleft--;
}

/* All wait: take apart one fused item per channel that only lacks a slot. */
static bool take_apart(run_t *r) {
    bool any = false;
    memset(r->best, 0xff, r->nchannels * sizeof *r->best);
    uint32_t score_best = 0;
    for (uint32_t b = 0; b < r->blocks->nblocks; b++) {
        const ccl_i_lblock_t *block = &r->blocks->blocks[b];
        if (r->at[b] >= block->nitems)
            continue;
        uint32_t index = block->first + r->at[b];
        ccl_i_item_t item = r->blocks->items[index];
        if (item.recv == CCL_NONE || item.send == CCL_NONE || r->split[index] ||
            waits_for(r, item.recv, CCL_NONE) != CCL_NONE)
            continue;
        uint32_t *best = &r->best[block->channel];
        uint32_t chunk = r->l->transfers[item.recv / 2].chunk;
        uint32_t score = r->block_splits[b] + r->chunk_splits[chunk];
        if (*best != CCL_NONE) {
            const ccl_i_lblock_t *other = &r->blocks->blocks[*best];
            ccl_i_item_t theirs = r->blocks->items[other->first + r->at[*best]];
            score_best =
                r->block_splits[*best] + r->chunk_splits[r->l->transfers[theirs.recv / 2].chunk];
        }
        if (*best == CCL_NONE || score < score_best)
            *best = b;
    }
    for (uint32_t c = 0; c < r->nchannels; c++) {
        uint32_t b = r->best[c];
        if (b == CCL_NONE)
            continue;
        const ccl_i_lblock_t *block = &r->blocks->blocks[b];
        uint32_t index = block->first + r->at[b];
        uint32_t chunk = r->l->transfers[r->blocks->items[index].recv / 2].chunk;
        r->split[index] = 1;
        r->block_splits[b]++;
        r->chunk_splits[chunk]++;
        any = true;
        /* It waits in the list of the receive that frees its slot; its receive can go now. */
        finish(r, r->blocks->items[index].recv);
    }
    return any;
}

/* Items taken apart become two. */
static ccl_status_t rebuild(run_t *r, ccl_i_lblocks_t *blocks, ccl_error_t *err) {
    uint32_t extra = 0, n = 0;
    for (uint32_t i = 0; i < blocks->nitems; i++)
        extra += r->split[i];
    if (!extra)
        return CCL_OK;
    ccl_i_item_t *items =
        ccl_arena_alloc(&r->l->arena, blocks->nitems + (size_t)extra, sizeof *items);
    if (!items)
        return ccl_fail_nomem(err);
    for (uint32_t b = 0; b < blocks->nblocks; b++) {
        ccl_i_lblock_t *block = &blocks->blocks[b];
        uint32_t first = n;
        for (uint32_t i = 0; i < block->nitems; i++) {
            ccl_i_item_t item = blocks->items[block->first + i];
            if (r->split[block->first + i]) {
                items[n] = (ccl_i_item_t){item.recv, CCL_NONE};
                r->l->ops[item.recv].item = n++ - first;
                item.recv = CCL_NONE;
            }
            items[n] = item;
            if (item.recv != CCL_NONE)
                r->l->ops[item.recv].item = n - first;
            if (item.send != CCL_NONE)
                r->l->ops[item.send].item = n - first;
            n++;
        }
        block->first = first;
        block->nitems = n - first;
    }
    blocks->items = items;
    blocks->nitems = n;
    return CCL_OK;
}

/* Without fused items every block goes along the total order, in which what an operation waits for
   comes before it, a slot of its connection included. */
static bool fuses(const ccl_i_lblocks_t *blocks) {
    for (uint32_t i = 0; i < blocks->nitems; i++)
        if (blocks->items[i].recv != CCL_NONE && blocks->items[i].send != CCL_NONE)
            return true;
    return false;
}

ccl_status_t ccl_i_lower_unblock(ccl_i_lowering_t *l, ccl_i_lblocks_t *blocks, ccl_error_t *err) {
    run_t r;
    if (!fuses(blocks))
        return CCL_OK;
    ccl_status_t status = run_init(&r, l, blocks, err);
    while (status == CCL_OK) {
        while (r.nready)
            advance(&r, r.ready[--r.nready]);
        if (r.nleft == 0) {
            status = rebuild(&r, blocks, err);
            break;
        }
        if (!take_apart(&r))
            status = ccl_fail(err, CCL_ERR_INTERNAL,
                              "lowering: %u blocks wait for each other without a fused primitive",
                              r.nleft);
        else
            status = ccl_ctx_poll(l->ctx, NULL);
    }
    run_fini(&r);
    return status;
}
