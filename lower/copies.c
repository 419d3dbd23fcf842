/* What a rank copies for itself, in blocks of their own behind the others. */
#include "lower/lower_i.h"

#include <math.h>
#include <stdlib.h>

static double share_of(const ccl_i_lowering_t *l, uint32_t op) {
    return l->coll->chunks[l->transfers[op / 2].chunk].share;
}

/* Shares of the message that the busiest of the blocks handles. */
static double most_handled(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks, uint32_t first,
                           uint32_t end) {
    double most = 0;
    for (uint32_t k = first; k < end; k++) {
        const ccl_i_lblock_t *block = &blocks->blocks[k];
        double sum = 0;
        for (uint32_t i = block->first; i < block->first + block->nitems; i++) {
            const ccl_i_item_t *item = &blocks->items[i];
            sum += share_of(l, item->send != CCL_NONE ? item->send : item->recv);
        }
        most = fmax(most, sum);
    }
    return most;
}

/* No block copies more than the busiest of the others handles, where the GPU has room for that. At
   stage level a block stands for several: there it is one. */
static size_t blocks_for(const ccl_i_lowering_t *l, size_t first, size_t end, double handled,
                         uint32_t others) {
    uint32_t sms = l->topo ? ccl_model_gpu(l->topo, l->copies[first].rank).sms : 0;
    uint32_t most = sms && sms < l->max_blocks ? sms : l->max_blocks;
    double copied = 0;
    for (size_t i = first; i < end; i++)
        copied += l->copies[i].share;
    if (l->stage || !(copied > handled) || handled <= 0 || most <= others + 1)
        return 1;
    return (size_t)fmin(fmin(ceil(copied / handled - 1e-9), (double)(end - first)), most - others);
}

static int by_rank(const void *a, const void *b) {
    const ccl_i_copy_t *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->dst.off < y->dst.off ? -1 : x->dst.off > y->dst.off;
}

void ccl_i_copies_sort(ccl_i_copy_t *copies, size_t n) {
    if (n)
        qsort(copies, n, sizeof *copies, by_rank);
}

size_t ccl_i_copies_end(const ccl_i_copy_t *copies, size_t n, size_t first) {
    size_t end = first;
    while (end < n && copies[end].rank == copies[first].rank)
        end++;
    return end;
}

void ccl_i_copies_blocks(const ccl_i_copy_t *copies, size_t n, size_t blocks,
                         ccl_program_builder_t *b) {
    for (size_t k = 0; k < blocks && k < n; k++) {
        uint32_t tb = ccl_program_builder_tb(b, copies[k].rank, CCL_NONE, CCL_NONE, 0);
        for (size_t i = k; i < n; i += blocks) {
            const ccl_i_copy_t *c = &copies[i];
            ccl_program_builder_step(b, tb,
                                     (ccl_step_t){.type = CCL_PRIM_CPY,
                                                  .count = 1,
                                                  .src_buf = c->src.buf,
                                                  .src_off = c->src.off,
                                                  .dst_buf = c->dst.buf,
                                                  .dst_off = c->dst.off,
                                                  .dep_tb = CCL_NONE,
                                                  .dep_step = CCL_NONE});
        }
    }
}

void ccl_i_emit_copies(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks, uint32_t first,
                       uint32_t end, size_t *at, ccl_program_builder_t *b) {
    size_t from = *at, to = ccl_i_copies_end(l->copies, l->ncopies, from);
    size_t n = blocks_for(l, from, to, most_handled(l, blocks, first, end), end - first);
    ccl_i_copies_blocks(l->copies + from, to - from, n, b);
    *at = to;
}

ccl_status_t ccl_i_emit_scratch_shares(const ccl_i_lowering_t *l, ccl_program_builder_t *b,
                                       ccl_error_t *err) {
    size_t total = 0;
    for (uint32_t r = 0; r < l->nranks; r++)
        total += l->scratch_len[r];
    double *shares = calloc(total + 1, sizeof *shares);
    size_t *first = calloc(l->nranks + (size_t)1, sizeof *first);
    if (!shares || !first) {
        free(shares);
        free(first);
        return ccl_fail_nomem(err);
    }
    for (uint32_t r = 0; r < l->nranks; r++)
        first[r + 1] = first[r] + l->scratch_len[r];
    for (uint32_t op = 0; op < 2 * l->ntransfers; op++) {
        uint32_t off = l->scratch_off[l->history_of[op]];
        if (off != CCL_NONE)
            shares[first[ccl_i_op_rank(l, op)] + off] =
                l->coll->chunks[l->transfers[op / 2].chunk].share;
    }
    for (uint32_t r = 0; r < l->nranks; r++)
        ccl_program_builder_shares(b, r, CCL_BUF_SCRATCH, shares + first[r]);
    free(shares);
    free(first);
    return CCL_OK;
}
