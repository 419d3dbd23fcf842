/**
 * @file order.c
 * The order in which one worker of the host takes the passes of a run (host_exec.c: the receiver of
 * a slice first, then its sender, then the others), played through without moving anything.
 */
#include "runtime/plan_i.h"

#include <stdlib.h>

enum { RANK_ALIGN_BYTES = 64 << 10 };

typedef struct unit {
    uint32_t step, batch, slice;
    uint64_t items, slice_items;
    bool marked, begun; /* begun: items and slice_items are those of the step */
} unit_t;

typedef struct order {
    const ccl_i_run_plan_t *plan;
    const ccl_run_order_ops_t *ops;
    void *user;
    uint64_t *rank_at; /* [nranks] */
    unit_t *units;
    uint64_t *head, *tail; /* [nconns] */
    uint32_t *done;        /* [nsteps] micro-batches */
    uint32_t *stack, depth, cap, cursor;
} order_t;

/* ---------------------------------------------------------------- passes */

static void touch(order_t *o, uint32_t rank, uint32_t step, uint64_t src, uint64_t dst,
                  uint64_t items) {
    const ccl_device_step_t *s = &o->plan->steps[step];
    uint64_t unit = o->plan->layout.item_bytes;
    ccl_run_use_t use = {.step = o->plan->program_step[step],
                         .bytes = items * unit,
                         .src_at = CCL_RUN_NOWHERE,
                         .dst_at = CCL_RUN_NOWHERE};
    if (ccl_i_prim_reads(s->prim))
        use.src_at = o->rank_at[rank] + src * unit;
    if (ccl_i_prim_writes(s->prim))
        use.dst_at = o->rank_at[rank] + dst * unit;
    o->ops->use(o->user, &use);
}

/** Items begin .. end of a step's data in a micro-batch, as the host moves them. */
static void pass(order_t *o, uint32_t rank, uint32_t step, uint64_t batch, uint64_t begin,
                 uint64_t end) {
    const ccl_device_step_t *s = &o->plan->steps[step];
    for (uint32_t i = 0; i < s->npieces && begin < end; i++) {
        const ccl_device_piece_t *piece = &o->plan->pieces[s->first_piece + i];
        uint64_t own = ccl_i_piece_items(piece, batch), all = piece->n * own;
        uint64_t stop = end < all ? end : all;
        while (begin < stop) {
            uint64_t e = begin / own, off = begin % own;
            uint64_t n = own - off < stop - begin ? own - off : stop - begin;
            uint64_t at = e * piece->items + batch * piece->batch_items + off;
            touch(o, rank, step, piece->src + at, piece->dst + at, n);
            begin += n;
        }
        begin -= all < begin ? all : begin;
        end -= all < end ? all : end;
    }
}

/* ---------------------------------------------------------------- the worker */

static bool push(order_t *o, uint32_t unit) {
    size_t cap = o->cap;
    if (!ccl_grow(&o->stack, &cap, o->depth + (size_t)1, sizeof *o->stack))
        return false;
    o->cap = (uint32_t)cap;
    o->stack[o->depth++] = unit;
    return true;
}

static uint32_t take(order_t *o) {
    uint32_t n = o->plan->dev.nunits;
    while (o->depth > 0) {
        uint32_t unit = o->stack[--o->depth];
        if (o->units[unit].marked)
            return unit;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t unit = (o->cursor + i) % n;
        if (o->units[unit].marked) {
            o->cursor = unit + 1;
            return unit;
        }
    }
    return CCL_NONE;
}

static void step_done(order_t *o, const ccl_device_unit_t *unit, unit_t *u, uint32_t index) {
    const ccl_device_plan_t *plan = &o->plan->dev;
    const ccl_device_step_t *s = &plan->steps[index];
    o->done[index] = u->batch + 1;
    for (uint32_t i = 0; i < s->nwaiters; i++)
        o->units[plan->waiters[s->first_waiter + i]].marked = true;
    u->slice = 0;
    u->begun = false;
    if (plan->by_task) {
        if (++u->batch == plan->batches) {
            u->batch = 0;
            u->step++;
        }
    } else if (++u->step == unit->nsteps && ++u->batch < plan->batches) {
        u->step = 0;
    }
}

/** Whether the slices that a step takes are there, and slots for those that it sends. */
static bool can_pass(const order_t *o, const ccl_device_step_t *s) {
    for (uint32_t c = s->recv; c < s->recv + s->nrecv; c++)
        if (o->head[c] == o->tail[c])
            return false;
    for (uint32_t c = s->send; c < s->send + s->nsend; c++)
        if (o->head[c] - o->tail[c] >= o->plan->slots)
            return false;
    return true;
}

/** @return whether the unit could go on; *next_out: to whom it gave a slice, or CCL_NONE. */
static bool advance(order_t *o, uint32_t self, uint32_t *next_out) {
    const ccl_device_plan_t *plan = &o->plan->dev;
    const ccl_device_unit_t *unit = &plan->units[self];
    unit_t *u = &o->units[self];
    *next_out = CCL_NONE;
    while (u->step < unit->nsteps) {
        uint32_t index = unit->first_step + u->step;
        const ccl_device_step_t *s = &plan->steps[index];
        if (*next_out != CCL_NONE)
            return true;
        if (!u->begun) {
            if ((u->step == 0 && unit->after != CCL_NONE && o->done[unit->after] <= u->batch) ||
                (s->dep != CCL_NONE && o->done[s->dep] <= u->batch))
                return false;
            u->items = ccl_i_step_items(plan, s, u->batch);
            u->slice_items = ccl_i_slice_items(u->items, s->slices, plan->item_bytes);
            u->begun = true;
        }
        if (!can_pass(o, s))
            return false;
        uint64_t begin = u->slice * u->slice_items, end = begin + u->slice_items;
        pass(o, unit->rank, index, u->batch, begin < u->items ? begin : u->items,
             end < u->items ? end : u->items);
        for (uint32_t c = s->recv; c < s->recv + s->nrecv; c++) {
            o->tail[c]++;
            o->units[plan->conns[c].sender].marked = true;
        }
        for (uint32_t c = s->send; c < s->send + s->nsend; c++) {
            o->head[c]++;
            *next_out = plan->conns[c].receiver;
            o->units[*next_out].marked = true;
        }
        if (++u->slice == s->slices)
            step_done(o, unit, u, index);
    }
    return false;
}

static ccl_status_t play(order_t *o, ccl_error_t *err) {
    uint32_t next, self;
    for (uint32_t i = 0; i < o->plan->dev.nunits; i++)
        o->units[i].marked = true;
    while ((self = take(o)) != CCL_NONE) {
        o->units[self].marked = false;
        if (advance(o, self, &next))
            o->units[self].marked = true;
        if (!push(o, self) || (next != CCL_NONE && !push(o, next)))
            return ccl_fail_nomem(err);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t init(order_t *o, ccl_error_t *err) {
    const ccl_i_run_plan_t *plan = o->plan;
    uint64_t sum = 0;
    o->rank_at = malloc((plan->dev.nranks + (size_t)1) * sizeof *o->rank_at);
    o->units = calloc(plan->dev.nunits + (size_t)1, sizeof *o->units);
    o->head = calloc(plan->dev.nconns + (size_t)1, sizeof *o->head);
    o->tail = calloc(plan->dev.nconns + (size_t)1, sizeof *o->tail);
    o->done = calloc(plan->dev.nsteps + (size_t)1, sizeof *o->done);
    if (!o->rank_at || !o->units || !o->head || !o->tail || !o->done)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < plan->dev.nranks; r++) {
        o->rank_at[r] = sum;
        sum += plan->layout.rank_items[r] * plan->layout.item_bytes;
        sum = (sum + RANK_ALIGN_BYTES - 1) / RANK_ALIGN_BYTES * RANK_ALIGN_BYTES;
    }
    return o->ops->begin(o->user, sum, plan->dev.batches, err);
}

ccl_status_t ccl_run_order(const ccl_program_t *program, const ccl_run_options_t *options,
                           const ccl_run_order_ops_t *ops, void *user, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    ccl_i_run_plan_t plan;
    order_t o = {.plan = &plan, .ops = ops, .user = user};
    CCL_TRY(ccl_i_run_plan_init(program, options, &plan, err));
    ccl_status_t status = init(&o, err);
    if (status == CCL_OK)
        status = play(&o, err);
    free(o.rank_at);
    free(o.units);
    free(o.head);
    free(o.tail);
    free(o.done);
    free(o.stack);
    ccl_i_run_plan_fini(&plan);
    return status;
}
