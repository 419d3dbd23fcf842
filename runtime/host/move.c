/**
 * @file move.c
 * Copies and reductions of a slice: between memory and slots, or what was in lines.
 */
#include "runtime/host/move.h"

#include "runtime/plan.h"

#include <string.h>

/* Fused primitives work in tiles that stay in the first-level cache. */
enum { TILE_BYTES = 8 << 10 };

static void move(const ccl_i_pass_t *p, uint64_t src_item, uint64_t dst_item, uint64_t items) {
    char *src = p->memory + src_item * p->item_bytes, *dst = p->memory + dst_item * p->item_bytes;
    size_t bytes = (size_t)items * p->item_bytes, tile;
    ccl_i_reduce_fn reduce = p->reduce;
    switch (p->prim) {
    case CCL_PRIM_S:
        memcpy(p->out, src, bytes);
        break;
    case CCL_PRIM_R:
        memcpy(dst, p->in, bytes);
        break;
    case CCL_PRIM_RCS:
        for (size_t i = 0; i < bytes; i += tile) {
            tile = bytes - i < TILE_BYTES ? bytes - i : TILE_BYTES;
            memcpy(dst + i, p->in + i, tile);
            memcpy(p->out + i, p->in + i, tile);
        }
        break;
    case CCL_PRIM_RRS:
        reduce(p->out, src, p->in, (size_t)items);
        break;
    case CCL_PRIM_RRC:
        reduce(dst, src, p->in, (size_t)items);
        break;
    case CCL_PRIM_RRCS:
        for (size_t i = 0; i < bytes; i += tile) {
            tile = bytes - i < TILE_BYTES ? bytes - i : TILE_BYTES;
            reduce(dst + i, src + i, p->in + i, tile / p->item_bytes);
            memcpy(p->out + i, dst + i, tile);
        }
        break;
    case CCL_PRIM_CPY:
        if (src != dst)
            memcpy(dst, src, bytes);
        break;
    case CCL_PRIM_RE:
        reduce(dst, dst, src, (size_t)items);
        break;
    default:
        break;
    }
}

void ccl_i_move_slice(ccl_i_pass_t *p, uint64_t batch, uint64_t begin, uint64_t end) {
    for (uint32_t i = 0; i < p->npieces && begin < end; i++) {
        const ccl_device_piece_t *piece = &p->pieces[i];
        uint64_t own = ccl_i_piece_items(piece, batch), all = piece->n * own;
        uint64_t stop = end < all ? end : all;
        while (begin < stop) {
            uint64_t e = begin / own, off = begin % own;
            uint64_t n = own - off < stop - begin ? own - off : stop - begin;
            if (own == piece->items) /* elements follow each other without gaps */
                n = stop - begin;
            uint64_t at = e * piece->items + batch * piece->batch_items + off;
            move(p, piece->src + at, piece->dst + at, n);
            if (p->in)
                p->in += n * p->item_bytes;
            if (p->out)
                p->out += n * p->item_bytes;
            begin += n;
        }
        begin -= all < begin ? all : begin;
        end -= all < end ? all : end;
    }
}
