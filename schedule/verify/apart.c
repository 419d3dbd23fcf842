/*
 * The program verifier on several threads. One runs the steps; what has to be ordered it notes, and
 * others look it up behind it, in parts that share nothing of what they find. So each part answers
 * the same questions in the same order however many threads there are.
 */
#include "schedule/verify/exec_i.h"

#include <stdlib.h>
#include <string.h>

/** Checks that are noted before they are made, about; and while the data's ways are mapped. */
enum { SOME = 1 << 16, AT_FIRST = 1 << 18 };

bool ccl_i_exec_ordered(ccl_i_exec_t *x, ccl_i_access_t a, ccl_i_access_t b, bool *out) {
    ccl_i_checks_t *later = x->checks;
    if (!later)
        return ccl_i_order_before(x->order, a, b, out);
    *out = true;
    uint32_t k = ccl_i_order_part(x->order, a.step, b.step);
    if (!ccl_grow(&later->parts[k].list, &later->parts[k].cap, later->parts[k].n + 1,
                  sizeof *later->parts[k].list))
        return false;
    later->parts[k].list[later->parts[k].n++] = (ccl_i_check_t){a, b};
    later->n++;
    return true;
}

typedef struct apart {
    ccl_i_exec_t *x;
    ccl_i_checks_t lists[2]; /* in turn: one is filled, the other is checked */
    ccl_i_order_t orders[CCL_I_ORDER_PARTS];
    uint32_t norders, at, filled;
    bool mapped, fine[CCL_I_ORDER_PARTS];
} apart_t;

/** False: they are not all in order, or there is no memory. */
static bool check_part(apart_t *a, uint32_t part) {
    enum { AHEAD = 8 };
    const ccl_i_proof_step_t *nodes = a->x->links->nodes;
    const ccl_i_check_t *list = a->lists[!a->filled].parts[part].list;
    size_t n = a->lists[!a->filled].parts[part].n;
    for (size_t i = 0; i < n; i++) {
        bool ordered = false;
        if (i + AHEAD < n) {
            __builtin_prefetch(&nodes[list[i + AHEAD].a.step]);
            __builtin_prefetch(&nodes[list[i + AHEAD].b.step]);
        }
        if (!ccl_i_order_before(&a->orders[part], list[i].a, list[i].b, &ordered) || !ordered)
            return false;
    }
    return true;
}

static ccl_status_t do_part(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    apart_t *a = user;
    (void)worker, (void)err;
    if (index == 0)
        return ccl_i_exec_steps(NULL, a->x, &a->at);
    if (a->norders == 0)
        a->mapped = a->x->order->mapped || ccl_i_order_map(a->x->order);
    else
        a->fine[index - 1] = check_part(a, index - 1);
    return CCL_OK;
}

static bool split_order(apart_t *a) {
    bool ok = a->mapped;
    for (uint32_t k = 0; ok && k < CCL_I_ORDER_PARTS; k++)
        ok = ccl_i_order_split(a->x->order, &a->orders[a->norders++]);
    return ok;
}

/** What was filled is to be checked, and what was checked filled. */
static void turn(apart_t *a) {
    a->filled = !a->filled;
    ccl_i_checks_t *lists = &a->lists[a->filled];
    for (uint32_t k = 0; k < CCL_I_ORDER_PARTS; k++)
        lists->parts[k].n = 0;
    lists->n = 0;
    a->x->checks = lists;
}

static void apart_fini(apart_t *a) {
    a->x->checks = NULL;
    for (uint32_t k = 0; k < a->norders; k++)
        ccl_i_order_join(a->x->order, &a->orders[k]);
    for (uint32_t k = 0; k < CCL_I_ORDER_PARTS; k++) {
        free(a->lists[0].parts[k].list);
        free(a->lists[1].parts[k].list);
    }
    free(a);
}

ccl_status_t ccl_i_exec_apart(const ccl_ctx_t *ctx, ccl_i_exec_t *x, bool *fine_out) {
    apart_t *a = calloc(1, sizeof *a);
    ccl_status_t status = CCL_OK;
    bool fine = a != NULL;
    *fine_out = false;
    if (!a)
        return CCL_OK;
    a->x = x;
    a->lists[0].most = AT_FIRST;
    a->lists[1].most = SOME;
    x->checks = &a->lists[0];
    for (bool more = true; status == CCL_OK && fine && more;) {
        bool first = a->norders == 0;
        status =
            ccl_parallel_for(first ? 2 : 1 + CCL_I_ORDER_PARTS, ctx->threads, do_part, a, NULL);
        fine = status == CCL_OK && x->verdict->valid && (!first || split_order(a));
        for (uint32_t k = 0; !first && k < CCL_I_ORDER_PARTS; k++)
            fine = fine && a->fine[k];
        more = a->at < x->program->nsteps || a->lists[a->filled].n > 0;
        a->lists[0].most = SOME;
        turn(a);
        ccl_progress_t progress = {.phase = "verify", .done = a->at, .total = x->program->nsteps};
        status = ccl_ctx_poll(ctx, &progress);
    }
    apart_fini(a);
    *fine_out = fine;
    return status;
}
