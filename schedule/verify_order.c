/*
 * Happens-before: program order, dependencies, and messages (a send before the receive that takes
 * it). Questions are answered by a search backwards from the later step, along messages first: they
 * lead straight back along the path that the data took. What was found is kept for the next
 * question about the same two blocks.
 */
#include "schedule/verify.h"

#include <stdlib.h>
#include <string.h>

/** Steps up to `from` of block a happen before steps from `to` on of block b. */
struct ccl_i_known {
    uint32_t a, b, from, to;
};
#define KNOWN_SLOTS ((size_t)1 << 16)

void ccl_i_order_fini(ccl_i_order_t *order) {
    free(order->order);
    free(order->pos);
    free(order->seen);
    free(order->stack);
    free(order->known);
    memset(order, 0, sizeof *order);
}

/** Round robin: every block does one step a turn, so that the order is near to that of a real run.
 */
static ccl_status_t sort_steps(ccl_i_order_t *o, ccl_error_t *err) {
    const ccl_program_t *p = o->program;
    size_t ntbs = p->ntbs ? p->ntbs : 1;
    uint32_t *cur = calloc(ntbs, sizeof *cur), *queue = malloc((ntbs + 1) * sizeof *queue);
    uint32_t *next = malloc(ntbs * sizeof *next);
    uint32_t *waiting = malloc((p->nsteps + (size_t)1) * sizeof *waiting);
    ccl_status_t status = CCL_OK;
    if (!cur || !queue || !next || !waiting) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(waiting, 0xff, (p->nsteps + (size_t)1) * sizeof *waiting);
    memset(o->pos, 0xff, (p->nsteps ? p->nsteps : 1) * sizeof *o->pos);
    size_t head = 0, tail = 0, len = ntbs + 1; /* a ring; each block is in it once at most */
    for (uint32_t t = 0; t < p->ntbs; t++)
        queue[tail++] = t;
    uint32_t done = 0;
    while (head != tail) {
        uint32_t t = queue[head];
        head = (head + 1) % len;
        if (cur[t] == p->tbs[t].nsteps)
            continue;
        uint32_t step = p->tbs[t].first_step + cur[t], need = CCL_NONE;
        if (o->links->dep[step] != CCL_NONE && o->pos[o->links->dep[step]] == CCL_NONE)
            need = o->links->dep[step];
        else if (o->links->sender[step] != CCL_NONE && o->pos[o->links->sender[step]] == CCL_NONE)
            need = o->links->sender[step];
        if (need != CCL_NONE) {
            next[t] = waiting[need];
            waiting[need] = t;
            continue;
        }
        o->pos[step] = done;
        o->order[done++] = step;
        cur[t]++;
        queue[tail] = t;
        tail = (tail + 1) % len;
        for (uint32_t w = waiting[step]; w != CCL_NONE; w = next[w]) {
            queue[tail] = w;
            tail = (tail + 1) % len;
        }
        waiting[step] = CCL_NONE;
    }
    if (done != p->nsteps)
        status = ccl_fail(err, CCL_ERR_INTERNAL, "steps wait for each other");
end:
    free(cur);
    free(queue);
    free(next);
    free(waiting);
    return status;
}

ccl_status_t ccl_i_order_init(const ccl_program_t *program, const ccl_i_links_t *links,
                              ccl_i_order_t *out, ccl_error_t *err) {
    size_t n = program->nsteps ? program->nsteps : 1;
    memset(out, 0, sizeof *out);
    out->program = program;
    out->links = links;
    out->order = malloc(n * sizeof *out->order);
    out->pos = malloc(n * sizeof *out->pos);
    out->seen = calloc(n, sizeof *out->seen);
    out->known = malloc(KNOWN_SLOTS * sizeof *out->known);
    ccl_status_t status = CCL_OK;
    if (!out->order || !out->pos || !out->seen || !out->known)
        status = ccl_fail_nomem(err);
    else
        status = sort_steps(out, err);
    if (status != CCL_OK) {
        ccl_i_order_fini(out);
        return status;
    }
    memset(out->known, 0xff, KNOWN_SLOTS * sizeof *out->known);
    return CCL_OK;
}

static struct ccl_i_known *known_slot(ccl_i_order_t *o, uint32_t a, uint32_t b) {
    uint64_t x = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    return &o->known[x >> 48];
}

/** Puts a step on the stack unless it was seen or is too early. @return 1 target, 0 no, -1 nomem.
 */
static int visit(ccl_i_order_t *o, uint32_t step, uint32_t a, size_t *depth) {
    if (step == CCL_NONE || o->pos[step] < o->pos[a] || o->seen[step] == o->query)
        return 0;
    if (o->links->step_tb[step] == o->links->step_tb[a] && step >= a)
        return 1;
    o->seen[step] = o->query;
    if (!ccl_grow(&o->stack, &o->stack_cap, *depth + 1, sizeof *o->stack))
        return -1;
    o->stack[(*depth)++] = step;
    return 0;
}

static uint32_t step_before(const ccl_i_order_t *o, uint32_t step) {
    return step > o->program->tbs[o->links->step_tb[step]].first_step ? step - 1 : CCL_NONE;
}

bool ccl_i_order_before(ccl_i_order_t *o, uint32_t a, uint32_t a_elem, uint32_t b, uint32_t b_elem,
                        bool *out) {
    const ccl_i_links_t *links = o->links;
    uint32_t ta = links->step_tb[a], tb = links->step_tb[b];
    *out = true;
    if (ta == tb) {
        *out = a < b;
        return true;
    }
    struct ccl_i_known *known = known_slot(o, ta, tb);
    if (known->a == ta && known->b == tb && known->from >= a && known->to <= b)
        return true;
    if (++o->query == 0) {
        memset(o->seen, 0, o->program->nsteps * sizeof *o->seen);
        o->query = 1;
    }
    /*
     * b and the fused steps that its data came through work slice by slice, so of these only what
     * comes before them is over when b starts; of step a itself, at the head of such a chain, only
     * the elements up to b's own.
     */
    size_t depth = 0;
    int hit = 0;
    for (uint32_t at = b; at != CCL_NONE && !hit && o->pos[at] >= o->pos[a];
         at = links->sender[at]) {
        if (at == a) {
            if (a_elem <= b_elem)
                return true; /* holds for this element only: not kept */
            break;
        }
        hit = visit(o, step_before(o, at), a, &depth);
        if (!hit)
            hit = visit(o, links->dep[at], a, &depth);
    }
    while (!hit && depth) {
        uint32_t at = o->stack[--depth];
        hit = visit(o, step_before(o, at), a, &depth);
        if (!hit)
            hit = visit(o, links->dep[at], a, &depth);
        if (!hit)
            hit = visit(o, links->sender[at], a, &depth);
    }
    if (hit < 0)
        return false;
    if (hit)
        *known = (struct ccl_i_known){ta, tb, a, b};
    *out = hit > 0;
    return true;
}
