/*
 * What the symbolic run needs next comes into the cache. A proof of millions of steps waits for
 * memory above all: each step leads to its sender, that to the message, both to the sum that is
 * made, and each of these is far from the one before.
 */
#include "schedule/verify/exec_i.h"

typedef ccl_i_exec_t exec_t;

/** The first element that a step reads, or writes; it must do so. */
static ccl_i_elem_t *element_of(const exec_t *x, uint32_t step, bool dst) {
    const ccl_step_t *s = &x->program->steps[step];
    return &x->elems[ccl_i_exec_place_of(x, x->program->tbs[x->links->nodes[step].tb].rank,
                                         dst ? s->dst_buf : s->src_buf,
                                         dst ? s->dst_off : s->src_off)];
}

/** What a step will receive if that has been sent, of one element; else NULL. */
static const ccl_i_value_t *received(const exec_t *x, uint32_t step, uint32_t at) {
    uint32_t sender = x->links->nodes[step].sender;
    if (sender == CCL_NONE || x->links->nodes[sender].pos >= at ||
        x->program->steps[sender].count == 0)
        return NULL;
    return &x->messages[*ccl_i_exec_message(x, sender)];
}

/** How what a step `ahead` of the one at place `at` adds is found. */
static void prefetch_sum(const exec_t *x, uint32_t at, uint32_t ahead, bool soon) {
    uint32_t step = x->links->nodes[at + ahead].order;
    ccl_primitive_t type = x->program->steps[step].type;
    const ccl_i_value_t *in = ccl_primitive_receives(type) ? received(x, step, at) : NULL;
    if (in && ccl_primitive_reduces(type))
        ccl_i_sums_prefetch(&x->sums, element_of(x, step, false)->value.sum, in->sum, soon);
}

void ccl_i_exec_prefetch(const exec_t *x, uint32_t at) {
    enum { STEP = 48, SENDER = 36, ELEM = 28, MESSAGE = 20, SLOT = 12, SUM = 6 };
    const ccl_i_proof_step_t *nodes = x->links->nodes;
    if (at + STEP >= x->program->nsteps)
        return;
    uint32_t step = nodes[at + STEP].order, sender = nodes[nodes[at + SENDER].order].sender;
    __builtin_prefetch(&x->program->steps[step]);
    __builtin_prefetch(&nodes[step]);
    if (sender != CCL_NONE) {
        __builtin_prefetch(&nodes[sender]);
        __builtin_prefetch(&x->program->steps[sender]);
    }
    step = nodes[at + ELEM].order;
    if (ccl_i_reads_src(x->program->steps[step].type))
        __builtin_prefetch(element_of(x, step, false), 1);
    if (ccl_i_writes_dst(x->program->steps[step].type))
        __builtin_prefetch(element_of(x, step, true), 1);
    sender = nodes[step].sender;
    if (sender != CCL_NONE)
        __builtin_prefetch(&nodes[nodes[sender].pos]);
    const ccl_i_value_t *in = received(x, nodes[at + MESSAGE].order, at);
    if (in)
        __builtin_prefetch(in);
    prefetch_sum(x, at, SLOT, false);
    prefetch_sum(x, at, SUM, true);
}
