/*
 * Lowering: primitives that move chunks lying side by side become one, which costs one overhead and
 * one message where each by itself costs one.
 *
 * A joined primitive stands at the place of its last operation in the total order (lower_i.h). All
 * stays in order where every dependency still goes forward; where one does not, nothing is joined.
 */
#include "lower/lower_i.h"

#include <stdlib.h>
#include <string.h>

static uint32_t only_op(const ccl_i_item_t *item) {
    return item->recv != CCL_NONE ? item->recv : item->send;
}

/* Item of an operation, among all. */
static uint32_t item_of(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks, uint32_t op) {
    return blocks->blocks[l->ops[op].block].first + l->ops[op].item;
}

static bool side_by_side(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks,
                         const ccl_step_t *prims, uint32_t i) {
    const ccl_i_item_t *a = &blocks->items[i - 1], *b = &blocks->items[i];
    const ccl_step_t *p = &prims[i - 1], *q = &prims[i];
    if ((a->recv != CCL_NONE && a->send != CCL_NONE) ||
        (b->recv != CCL_NONE && b->send != CCL_NONE))
        return false; /* what forwards stays as it is: it has no overhead of its own to save */
    return p->type == q->type && p->src_buf == q->src_buf && p->dst_buf == q->dst_buf &&
           p->src_off + 1 == q->src_off && p->dst_off + 1 == q->dst_off && p->stage == q->stage &&
           l->transfers[only_op(a) / 2].step == l->transfers[only_op(b) / 2].step;
}

/* Both ends agree. What is alike at one end only is not joined there either. */
static void agree(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks, uint8_t *joined) {
    for (uint32_t t = 0; t < l->ntransfers; t++) {
        uint32_t send = item_of(l, blocks, 2 * t), recv = item_of(l, blocks, 2 * t + 1);
        joined[send] = joined[recv] = joined[send] && joined[recv];
    }
}

/* The place of every item's primitive: that of its last operation. */
static void find_places(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks,
                        const uint8_t *joined, uint32_t *place) {
    for (uint32_t i = blocks->nitems; i-- > 0;) {
        place[i] = l->place[only_op(&blocks->items[i])];
        if (i + 1 < blocks->nitems && joined[i + 1])
            place[i] = place[i + 1];
    }
}

static bool all_forward(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks,
                        const uint32_t *place) {
    for (uint32_t op = 0; op < 2 * l->ntransfers; op++) {
        const ccl_i_waits_t *o = &l->waits[op];
        for (uint32_t k = 0; k < o->ndeps; k++) {
            uint32_t on = l->deps[o->first_dep + k];
            bool same = l->ops[on].block == l->ops[op].block;
            if (!same && place[item_of(l, blocks, on)] >= place[item_of(l, blocks, op)])
                return false;
        }
    }
    return true;
}

ccl_status_t ccl_i_lower_join(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks,
                              const ccl_step_t *prims, uint8_t *joined, ccl_error_t *err) {
    uint32_t *place = malloc((blocks->nitems + (size_t)1) * sizeof *place);
    if (!place)
        return ccl_fail_nomem(err);
    for (uint32_t b = 0; b < blocks->nblocks; b++) {
        uint32_t first = blocks->blocks[b].first;
        for (uint32_t i = first + 1; i < first + blocks->blocks[b].nitems; i++)
            joined[i] = side_by_side(l, blocks, prims, i);
    }
    agree(l, blocks, joined);
    find_places(l, blocks, joined, place);
    if (!all_forward(l, blocks, place))
        memset(joined, 0, blocks->nitems);
    free(place);
    return CCL_OK;
}
