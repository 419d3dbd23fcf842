/*
 * Whether a program finishes: an untimed run.
 *
 * Blocks and FIFOs form a determinate network (what blocks can do next never depends on who goes
 * first), so any maximal run decides. A step does as many slices at once as its dependency, its
 * messages and the free slots allow; where the slots limit, the receivers behind them are asked to
 * make room, along the chain of fused steps, so that plain pipelines pass all micro-batches of a
 * step in one go.
 */
#include "schedule/verify/verify.h"

#include <stdlib.h>
#include <string.h>

typedef struct state {
    uint32_t cur;  /* index of the current step in the block */
    uint64_t done; /* slices of it done, over all micro-batches */
} state_t;

typedef struct run {
    const ccl_program_t *program;
    const ccl_blocking_t *blocking;
    ccl_i_blocks_t net;
    uint32_t batches;       /* of one pass over the steps */
    state_t *state;         /* [nblocks] */
    uint64_t *sent, *taken; /* [nconns] slices */
    uint32_t *waiting;      /* [nsteps] list of blocks that wait for a batch of the step */
    uint32_t *next_waiting; /* [nblocks] */
    uint8_t *is_waiting;    /* [nblocks] in such a list */
    uint32_t *stage_next;   /* [nblocks] the block's next stage, or CCL_NONE */
    uint32_t *stack;        /* blocks to look at */
    uint8_t *stacked;       /* [nblocks] */
    uint32_t *chain;        /* [nblocks] */
    uint64_t *chain_limit, *chain_room; /* [nblocks] */
    uint32_t *chain_mark;               /* [nblocks] */
    uint32_t nstack, mark;
} run_t;

const char *ccl_wait_name(ccl_wait_t wait) {
    static const char *const names[] = {"data", "slot", "dependency", "stage"};
    return (size_t)wait < CCL_ARRAY_LEN(names) ? names[wait] : "?";
}

static void push(run_t *run, uint32_t block) {
    if (block == CCL_NONE || run->stacked[block])
        return;
    run->stacked[block] = 1;
    run->stack[run->nstack++] = block;
}

static bool finished(const run_t *run, uint32_t b) {
    return run->state[b].cur >= run->net.blocks[b].nsteps;
}

static uint32_t current_step(const run_t *run, uint32_t b) {
    return ccl_i_block_step(&run->net, run->net.blocks[b].first + run->state[b].cur);
}

/** Slices of one micro-batch of a step. */
static uint32_t slices_of(const run_t *run, uint32_t step) {
    uint8_t type = run->program->steps[step].type;
    if (!run->blocking->step_slices || !(ccl_primitive_sends(type) || ccl_primitive_receives(type)))
        return 1;
    uint32_t n = run->blocking->step_slices[step];
    return n ? n : 1;
}

/** Connections of the block's current step. */
static uint32_t in_of(const run_t *run, uint32_t b) {
    return ccl_i_step_in(&run->net, b, current_step(run, b));
}

static uint32_t out_of(const run_t *run, uint32_t b) {
    return ccl_i_step_out(&run->net, b, current_step(run, b));
}

/** Depth of the FIFO that the block's current step sends into. */
static uint32_t slots_of(const run_t *run, uint32_t b) {
    const ccl_blocking_t *how = run->blocking;
    uint32_t n = how->step_slots ? how->step_slots[current_step(run, b)] : how->slots;
    return n ? n : 1;
}

/** The block of the step that a block's step waits for. @param index_out  its place there */
static uint32_t block_of_dep(const run_t *run, const ccl_tb_t *tb, const ccl_step_t *step,
                             uint32_t *index_out) {
    uint32_t on = run->program->rank_first_tb[tb->rank] + step->dep_tb;
    uint32_t dep = run->program->tbs[on].first_step + step->dep_step;
    *index_out = run->net.order ? run->net.index_of[dep] : step->dep_step;
    return run->net.order ? run->net.block_of[dep] : on;
}

/** Micro-batches that the step has done that a block's step waits for. */
static uint64_t batches_done(const run_t *run, const ccl_tb_t *tb, uint32_t step, uint32_t dep) {
    uint32_t i, b = block_of_dep(run, tb, &run->program->steps[step], &i);
    if (i != run->state[b].cur)
        return i < run->state[b].cur ? run->batches : 0;
    return run->state[b].done / slices_of(run, dep);
}

/** Slices that the current step may still do as far as dependency and stage allow. */
static uint64_t own_limit(const run_t *run, uint32_t b) {
    const ccl_i_block_t *block = &run->net.blocks[b];
    uint32_t step = current_step(run, b);
    uint64_t k = slices_of(run, step), total = k * run->batches;
    if (!run->state[b].cur && block->prev != CCL_NONE && !finished(run, block->prev))
        return 0;
    const ccl_tb_t *tb = &run->program->tbs[block->tb];
    uint32_t dep = ccl_i_dep(run->program, tb, &run->program->steps[step]);
    if (dep != CCL_NONE) {
        uint64_t ready = batches_done(run, tb, step, dep) * k;
        total = ready < total ? ready : total;
    }
    return total > run->state[b].done ? total - run->state[b].done : 0;
}

static void wait_for_dep(run_t *run, uint32_t b) {
    const ccl_tb_t *tb = &run->program->tbs[run->net.blocks[b].tb];
    uint32_t dep = ccl_i_dep(run->program, tb, &run->program->steps[current_step(run, b)]);
    const ccl_i_block_t *block = &run->net.blocks[b];
    bool stage = !run->state[b].cur && block->prev != CCL_NONE && !finished(run, block->prev);
    if (dep == CCL_NONE || stage || run->is_waiting[b]) /* the end of a stage wakes the next */
        return;
    run->is_waiting[b] = 1;
    run->next_waiting[b] = run->waiting[dep];
    run->waiting[dep] = b;
}

/** Books n slices of b's current step and wakes whom that may concern. */
static void book(run_t *run, uint32_t b, uint64_t n) {
    uint32_t step = current_step(run, b), in = in_of(run, b), out = out_of(run, b);
    uint8_t type = run->program->steps[step].type;
    uint64_t k = slices_of(run, step), before = run->state[b].done / k;
    run->state[b].done += n;
    const uint32_t *fifo;
    uint32_t many = ccl_primitive_receives(type) ? ccl_i_fifos(&run->net, &in, &fifo) : 0;
    for (uint32_t i = 0; i < many; i++) {
        run->taken[fifo[i]] += n;
        push(run, run->net.conns[fifo[i]].sender);
    }
    many = ccl_primitive_sends(type) ? ccl_i_fifos(&run->net, &out, &fifo) : 0;
    for (uint32_t i = 0; i < many; i++) {
        run->sent[fifo[i]] += n;
        push(run, run->net.conns[fifo[i]].receiver);
    }
    if (run->state[b].done / k > before) {
        for (uint32_t w = run->waiting[step]; w != CCL_NONE; w = run->next_waiting[w]) {
            run->is_waiting[w] = 0;
            push(run, w);
        }
        run->waiting[step] = CCL_NONE;
    }
    if (run->state[b].done == k * run->batches) {
        run->state[b].cur++;
        run->state[b].done = 0;
        if (finished(run, b))
            push(run, run->stage_next[b]);
    }
    push(run, b);
}

/**
 * Slices that b can do now, at most n, when the receivers behind its FIFO make room; they are moved
 * too. Each of them passes on what the one before it hands over beyond the free slots.
 */
static uint64_t move_chain(run_t *run, uint32_t b, uint64_t n) {
    uint32_t len = 0;
    run->mark++;
    uint64_t flow = n;
    for (uint32_t at = b;;) {
        uint32_t out = out_of(run, at);
        const ccl_i_verify_conn_t *conn = &run->net.conns[out];
        uint64_t used = run->sent[out] - run->taken[out];
        uint64_t slots = slots_of(run, at);
        run->chain[len] = at;
        run->chain_limit[len] = flow;
        run->chain_room[len] = slots > used ? slots - used : 0;
        run->chain_mark[at] = run->mark;
        len++;
        if (flow <= run->chain_room[len - 1] || conn->receiver == CCL_NONE)
            break;
        uint32_t next = conn->receiver;
        if (run->chain_mark[next] == run->mark || finished(run, next) || in_of(run, next) != out)
            break;
        uint8_t type = run->program->steps[current_step(run, next)].type;
        if (!ccl_primitive_receives(type))
            break;
        uint64_t limit = own_limit(run, next), want = flow - run->chain_room[len - 1];
        flow = want < limit ? want : limit;
        if (!flow)
            break;
        if (!ccl_primitive_sends(type)) { /* the chain ends here */
            run->chain[len] = next;
            run->chain_limit[len] = flow;
            run->chain_room[len] = flow;
            len++;
            break;
        }
        at = next;
    }
    uint64_t behind = 0; /* what the next of the chain can take beyond its FIFO's free slots */
    for (uint32_t i = len; i-- > 0;) {
        uint64_t can = run->chain_room[i] + behind;
        run->chain_limit[i] = can < run->chain_limit[i] ? can : run->chain_limit[i];
        behind = run->chain_limit[i];
    }
    uint64_t moved = run->chain_limit[0];
    for (uint32_t i = 0; i < len && run->chain_limit[0]; i++) {
        uint64_t amount = run->chain_limit[i];
        if (i) {
            uint64_t need = run->chain_limit[i - 1] > run->chain_room[i - 1]
                                ? run->chain_limit[i - 1] - run->chain_room[i - 1]
                                : 0;
            amount = need < amount ? need : amount;
            run->chain_limit[i] = amount;
        }
        if (!amount)
            break;
        book(run, run->chain[i], amount);
    }
    return moved;
}

/** The FIFO of a step's that has least slices to take, or (sends) least room; *n_out: how many. */
static uint32_t tightest(const run_t *run, uint32_t b, bool sends, uint64_t *n_out) {
    uint32_t c = sends ? out_of(run, b) : in_of(run, b), least = CCL_NONE;
    const uint32_t *fifo;
    *n_out = 0;
    for (uint32_t i = 0, n = c == CCL_NONE ? 0 : ccl_i_fifos(&run->net, &c, &fifo); i < n; i++) {
        uint64_t here = run->sent[fifo[i]] - run->taken[fifo[i]], slots = slots_of(run, b);
        here = !sends ? here : slots > here ? slots - here : 0;
        if (least != CCL_NONE && here >= *n_out)
            continue;
        least = fifo[i];
        *n_out = here;
    }
    return least;
}

/** Does what block b can do now; false when nothing. */
static bool advance(run_t *run, uint32_t b) {
    if (finished(run, b))
        return false;
    uint8_t type = run->program->steps[current_step(run, b)].type;
    uint64_t n = own_limit(run, b), here;
    if (!n) {
        wait_for_dep(run, b);
        return false;
    }
    if (ccl_primitive_receives(type)) {
        tightest(run, b, false, &here);
        n = here < n ? here : n;
    }
    if (ccl_primitive_sends(type) && run->program->ngroups > 0) {
        tightest(run, b, true, &here);
        n = here < n ? here : n;
    }
    if (!n)
        return false;
    if (ccl_primitive_sends(type) && run->program->ngroups == 0)
        return out_of(run, b) != CCL_NONE && move_chain(run, b, n) > 0;
    book(run, b, n);
    return true;
}

/** What a stuck block waits for. */
static ccl_deadlock_wait_t wait_of(const run_t *run, uint32_t b, uint32_t *on_out) {
    const ccl_program_t *p = run->program;
    const ccl_i_block_t *block = &run->net.blocks[b];
    const ccl_tb_t *tb = &p->tbs[block->tb];
    uint32_t step = current_step(run, b), k = slices_of(run, step);
    uint8_t type = p->steps[step].type;
    ccl_deadlock_wait_t w = {.rank = tb->rank,
                             .tb = tb->id,
                             .step = step - tb->first_step,
                             .batch = (uint32_t)(run->state[b].done / k),
                             .slice = (uint32_t)(run->state[b].done % k),
                             .on_rank = CCL_NONE,
                             .on_tb = CCL_NONE};
    uint64_t here = 0, room;
    uint32_t index, on = CCL_NONE, in = tightest(run, b, false, &here);
    uint32_t out = tightest(run, b, true, &room);
    uint32_t dep = ccl_i_dep(p, tb, &p->steps[step]);
    if (!run->state[b].cur && block->prev != CCL_NONE && !finished(run, block->prev)) {
        w.wait = CCL_WAIT_STAGE;
        on = block->prev;
    } else if (dep != CCL_NONE && !own_limit(run, b)) {
        w.wait = CCL_WAIT_DEP;
        on = block_of_dep(run, tb, &p->steps[step], &index);
    } else if (ccl_primitive_receives(type) && here == 0) {
        w.wait = CCL_WAIT_DATA;
        on = in == CCL_NONE ? CCL_NONE : run->net.conns[in].sender;
    } else {
        w.wait = CCL_WAIT_SLOT;
        on = out == CCL_NONE ? CCL_NONE : run->net.conns[out].receiver;
    }
    if (on != CCL_NONE && finished(run, on))
        on = CCL_NONE; /* it has nothing left to do */
    if (on != CCL_NONE) {
        w.on_rank = p->tbs[run->net.blocks[on].tb].rank;
        w.on_tb = p->tbs[run->net.blocks[on].tb].id;
    }
    *on_out = on;
    return w;
}

static void report(run_t *run, ccl_deadlock_t *out) {
    uint32_t first = CCL_NONE;
    for (uint32_t b = 0; b < run->net.nblocks; b++) {
        if (!finished(run, b)) {
            first = first == CCL_NONE ? b : first;
            out->stuck++;
        }
    }
    if (first == CCL_NONE)
        return;
    uint32_t at = first, on = CCL_NONE;
    run->mark++;
    for (;;) { /* until a block comes again, or one that waits for nobody */
        run->chain_mark[at] = run->mark;
        wait_of(run, at, &on);
        if (on == CCL_NONE || run->chain_mark[on] == run->mark)
            break;
        at = on;
    }
    uint32_t start = on == CCL_NONE ? at : on;
    at = start;
    do {
        ccl_deadlock_wait_t w = wait_of(run, at, &on);
        if (out->nwaits < CCL_ARRAY_LEN(out->waits))
            out->waits[out->nwaits] = w;
        out->nwaits++;
        at = on;
    } while (at != start && at != CCL_NONE);
}

static ccl_status_t execute(const ccl_ctx_t *ctx, run_t *run) {
    for (uint32_t b = run->net.nblocks; b-- > 0;)
        push(run, b);
    for (uint64_t turns = 1; run->nstack; turns++) {
        uint32_t b = run->stack[--run->nstack];
        run->stacked[b] = 0;
        while (advance(run, b))
            ;
        if (!(turns & 0xfffff)) {
            ccl_progress_t progress = {.phase = "deadlock check", .done = turns};
            CCL_TRY(ccl_ctx_poll(ctx, &progress));
        }
    }
    return CCL_OK;
}

static bool alloc_run(run_t *run) {
    size_t nb = run->net.nblocks + (size_t)1, nc = run->net.nconns + (size_t)1;
    size_t ns = run->program->nsteps + (size_t)1;
    run->state = calloc(nb, sizeof *run->state);
    run->sent = calloc(nc, sizeof *run->sent);
    run->taken = calloc(nc, sizeof *run->taken);
    run->waiting = ccl_array_alloc(ns, sizeof *run->waiting);
    run->next_waiting = malloc(nb * sizeof *run->next_waiting);
    run->is_waiting = calloc(nb, 1);
    run->stage_next = malloc(nb * sizeof *run->stage_next);
    run->stack = malloc(nb * sizeof *run->stack);
    run->stacked = calloc(nb, 1);
    run->chain = malloc(nb * sizeof *run->chain);
    run->chain_limit = malloc(nb * sizeof *run->chain_limit);
    run->chain_room = malloc(nb * sizeof *run->chain_room);
    run->chain_mark = calloc(nb, sizeof *run->chain_mark);
    if (!run->state || !run->sent || !run->taken || !run->waiting || !run->next_waiting ||
        !run->is_waiting || !run->stage_next || !run->stack || !run->stacked || !run->chain ||
        !run->chain_limit || !run->chain_room || !run->chain_mark)
        return false;
    memset(run->waiting, 0xff, ns * sizeof *run->waiting);
    memset(run->stage_next, 0xff, nb * sizeof *run->stage_next);
    for (uint32_t b = 0; b < run->net.nblocks; b++) {
        if (run->net.blocks[b].prev != CCL_NONE)
            run->stage_next[run->net.blocks[b].prev] = b;
    }
    return true;
}

static void free_run(run_t *run) {
    ccl_i_blocks_fini(&run->net);
    free(run->state);
    free(run->sent);
    free(run->taken);
    free(run->waiting);
    free(run->next_waiting);
    free(run->is_waiting);
    free(run->stage_next);
    free(run->stack);
    free(run->stacked);
    free(run->chain);
    free(run->chain_limit);
    free(run->chain_room);
    free(run->chain_mark);
}

ccl_status_t ccl_program_deadlock(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                  const ccl_blocking_t *blocking, ccl_deadlock_t *out,
                                  ccl_error_t *err) {
    if (blocking->batches < 1)
        return ccl_fail(err, CCL_ERR_USAGE, "0 micro-batches: at least 1 is needed");
    run_t run = {.program = program, .blocking = blocking};
    run.batches = blocking->granularity == CCL_GRANULARITY_TASK ? blocking->batches : 1;
    CCL_TRY(ccl_i_blocks_init(program, blocking->granularity, &run.net, err));
    ccl_status_t status = CCL_OK;
    ccl_deadlock_t found = {0};
    if (run.net.twin_a != CCL_NONE) {
        const ccl_tb_t *a = &program->tbs[run.net.blocks[run.net.twin_a].tb];
        const ccl_tb_t *b = &program->tbs[run.net.blocks[run.net.twin_b].tb];
        status = ccl_fail(err, CCL_ERR_INPUT,
                          "rank %u: blocks %u and %u both %s rank %u on channel %u: a connection "
                          "takes one block at each end",
                          a->rank, a->id, b->id, run.net.twin_sends ? "send to" : "receive from",
                          run.net.twin_sends ? run.net.conns[run.net.twin_conn].dst
                                             : run.net.conns[run.net.twin_conn].src,
                          run.net.conns[run.net.twin_conn].channel);
        goto end;
    }
    if (!alloc_run(&run)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(execute(ctx, &run), status, end);
    report(&run, &found);
    *out = found;
end:
    free_run(&run);
    return status;
}

/* ---------------------------------------------------------------- how deep would do */

typedef struct depths {
    const ccl_program_t *program;
    const ccl_blocking_t *blocking;
    const uint8_t *deepen;
    uint32_t *slots; /* [nsteps] of a trial */
} depths_t;

static uint32_t depth_now(const depths_t *d, uint32_t step) {
    return d->blocking->step_slots ? d->blocking->step_slots[step] : d->blocking->slots;
}

static bool grows(const depths_t *d, uint32_t step) {
    return ccl_primitive_sends(d->program->steps[step].type) && (!d->deepen || d->deepen[step]);
}

static ccl_status_t finishes_at(const ccl_ctx_t *ctx, const depths_t *d, uint32_t slots, bool *out,
                                ccl_error_t *err) {
    ccl_blocking_t trial = *d->blocking;
    ccl_deadlock_t found;
    for (uint32_t i = 0; i < d->program->nsteps; i++) {
        uint32_t now = depth_now(d, i);
        d->slots[i] = grows(d, i) && slots > now ? slots : now;
    }
    trial.step_slots = d->slots;
    CCL_TRY(ccl_program_deadlock(ctx, d->program, &trial, &found, err));
    *out = found.stuck == 0;
    return CCL_OK;
}

/* A depth at which it finishes, above one at which it does not; 0: at none. */
static ccl_status_t some_depth(const ccl_ctx_t *ctx, const depths_t *d, uint32_t *fails,
                               uint32_t *ends, ccl_error_t *err) {
    bool yes = false;
    CCL_TRY(finishes_at(ctx, d, UINT32_MAX, &yes, err));
    *ends = yes ? UINT32_MAX : 0;
    while (yes && *fails < UINT32_MAX / 2) {
        uint32_t next = 2 * *fails;
        bool enough = false;
        CCL_TRY(finishes_at(ctx, d, next, &enough, err));
        if (enough) {
            *ends = next;
            break;
        }
        *fails = next;
    }
    return CCL_OK;
}

ccl_status_t ccl_program_least_slots(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                     const ccl_blocking_t *blocking, const uint8_t *deepen,
                                     uint32_t *out, ccl_error_t *err) {
    depths_t d = {program, blocking, deepen, malloc((program->nsteps + 1u) * sizeof(uint32_t))};
    uint32_t fails = UINT32_MAX, ends = 0;
    bool yes = false;
    ccl_status_t status = CCL_OK;
    if (!d.slots)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < program->nsteps; i++)
        if (grows(&d, i) && depth_now(&d, i) < fails)
            fails = depth_now(&d, i);
    fails = fails ? fails : 1; /* a depth of 0 counts as 1 */
    CCL_TRY_GOTO(finishes_at(ctx, &d, fails, &yes, err), status, end);
    if (yes)
        ends = fails;
    else
        CCL_TRY_GOTO(some_depth(ctx, &d, &fails, &ends, err), status, end);
    while (ends > fails + 1) {
        uint32_t middle = fails + (ends - fails) / 2;
        CCL_TRY_GOTO(finishes_at(ctx, &d, middle, &yes, err), status, end);
        if (yes)
            ends = middle;
        else
            fails = middle;
    }
    *out = ends;
end:
    free(d.slots);
    return status;
}
