/**
 * @file host_exec.c
 * The interpreter of the host: units as state machines, stepped by one worker per core.
 */
#define _GNU_SOURCE
#include "runtime/host/kernels.h"
#include "runtime/host/lines.h"
#include "runtime/host/move.h"
#include "runtime/plan.h"
#include "runtime/host/pool.h"
#include "runtime/host/sched.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A unit gives way after this many bytes, so that pipelines move as a whole. */
enum { QUANTUM_BYTES = 64 << 10, SLICE_COST_BYTES = 4 << 10 };
/* Units that a worker comes back to, the last first. */
enum { STACK = 64 };
/* Looks at the marks before a worker parks: about 20 us. */
enum { IDLE_LOOKS = 400 };
enum { PROGRESS_EVERY = 64 };

enum { PHASE_DEP, PHASE_DATA, PHASE_SLOT };

typedef struct block {
    uint32_t step, batch, slice;
    uint32_t phase, waits;
    uint64_t items, slice_items; /* of the step in this micro-batch */
    uint64_t from;               /* bytes of the slice that have passed, with lines */
    /* timed runs only */
    double mark_s;
    ccl_device_use_t use;
} block_t;

typedef struct worker {
    struct ccl_device_program *program;
    pthread_t thread;
    ccl_i_home_t home;
    uint32_t stack[STACK]; /* units to go on with before all others; the oldest are overwritten */
    uint32_t depth;
    uint32_t next;         /* unit that the last pass gave a slice, if it waits for a worker */
    uint64_t slices, told; /* passes; of them in the launch's progress */
    double start_s;        /* when it saw the gate open */
    /* data out of lines and on their way into lines */
    _Alignas(64) char in[CCL_I_TILE_BYTES];
    _Alignas(64) char term[CCL_I_TILE_BYTES]; /* of a pull's sum */
    _Alignas(64) char out[CCL_I_TILE_BYTES];
} worker_t;

struct ccl_device_program {
    const ccl_device_plan_t *plan;
    const ccl_i_host_t *host;
    ccl_i_sched_t *sched;
    ccl_i_reduce_fn reduce;
    block_t *blocks; /* of the plan's units first_unit .. end_unit */
    worker_t *workers;
    uint32_t nworkers;
    ccl_i_pool_t *pool;
    const ccl_device_launch_t *launch;
    bool quit;
    uint32_t generation; /* futex: a run begins, or the end of all */
    uint32_t arrived;    /* workers at the gate */
    uint32_t left;       /* units not finished */
    uint32_t gone;       /* workers that left the run; futex */
    double end_s;
};

/* ---------------------------------------------------------------- one unit */

static uint64_t load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/** The unit at the other end of a connection, or the transport to it, may go on. */
static void tell(worker_t *w, uint32_t conn, uint32_t unit, bool data) {
    const ccl_device_program_t *p = w->program;
    uint32_t process = p->host->unit_process[unit];
    ccl_i_sched_t *sched = p->host->scheds[process];
    if (!sched)
        p->host->proxy(p->host->proxy_user, conn, data);
    else if (ccl_i_sched_mark(sched, unit - sched->first_unit) && data && process == p->host->self)
        w->next = unit - sched->first_unit;
}

static void charge(const ccl_device_program_t *p, block_t *b, double *use) {
    if (!p->launch->uses)
        return;
    double now = ccl_now_s();
    *use += now - b->mark_s;
    b->mark_s = now;
}

static double *use_of(block_t *b, uint32_t waits) {
    return waits == CCL_WAIT_DATA   ? &b->use.wait_data_s
           : waits == CCL_WAIT_SLOT ? &b->use.wait_slot_s
           : waits == CCL_NONE      ? &b->use.wait_core_s
                                    : &b->use.wait_peer_s;
}

static void step_done(const ccl_device_program_t *p, const ccl_device_unit_t *unit, block_t *b,
                      uint32_t index) {
    const ccl_device_plan_t *plan = p->plan;
    const ccl_device_step_t *step = &plan->steps[index];
    if (step->nwaiters) {
        store(&plan->done[index], b->batch + UINT64_C(1));
        for (uint32_t i = 0; i < step->nwaiters; i++)
            ccl_i_host_ring(p->host, plan->waiters[step->first_waiter + i]);
    }
    b->slice = 0;
    b->phase = PHASE_DEP;
    if (plan->by_task) {
        if (++b->batch == plan->batches) {
            b->batch = 0;
            b->step++;
        }
    } else if (++b->step == unit->nsteps && ++b->batch < plan->batches) {
        b->step = 0;
    }
}

static bool waits(block_t *b, uint32_t why) {
    b->waits = why;
    return false;
}

/**
 * One slice of a step: which items, and from and into which slices of the connections. Those of a
 * switch connection have passed equally many.
 */
typedef struct turn {
    const ccl_device_step_t *step;
    const ccl_device_conn_t *recv, *send; /* [nrecv], [nsend] of the step; NULL: none */
    uint64_t begin, end, tail, head;
} turn_t;

static ccl_i_lines_t lines_of(const ccl_device_program_t *p, const ccl_device_conn_t *c,
                              uint64_t slice) {
    return (ccl_i_lines_t){(char *)c->data + slice % c->slots * c->slot_bytes, slice,
                           p->plan->protocol};
}

/** Where slice k of a connection that has a slot free is to be written. */
static char *slot_to_fill(const ccl_device_program_t *p, uint32_t worker, uint32_t conn,
                          uint64_t k) {
    const ccl_device_conn_t *c = &p->plan->conns[conn];
    return ccl_i_pool_has(p->pool, conn) ? ccl_i_pool_take(p->pool, worker, conn, k)
                                         : (char *)c->data + k % c->slots * c->slot_bytes;
}

/** Slices as they are. */
static void pass_plain(worker_t *w, ccl_i_pass_t *pass, const block_t *b, const turn_t *t) {
    const ccl_device_program_t *p = w->program;
    const ccl_device_step_t *step = t->step;
    uint32_t me = (uint32_t)(w - p->workers);
    uint64_t items = t->end - t->begin;
    char *sum = NULL, *out = NULL;
    for (uint32_t i = 0; i < step->nrecv; i++) {
        const ccl_device_conn_t *c = &t->recv[i];
        char *in = ccl_i_pool_has(p->pool, step->recv + i)
                       ? ccl_i_pool_find(p->pool, step->recv + i, t->tail)
                       : (char *)c->data + t->tail % c->slots * c->slot_bytes;
        if (i > 0)
            p->reduce(sum, sum, in, (size_t)items);
        else
            sum = in; /* until it is freed the slot is the receiver's */
    }
    if (step->nsend)
        out = slot_to_fill(p, me, step->send, t->head);
    pass->in = sum;
    pass->out = out;
    if (items)
        ccl_i_move_slice(pass, b->batch, t->begin, t->end);
    for (uint32_t i = 1; i < step->nsend; i++)
        memcpy(slot_to_fill(p, me, step->send + i, t->head), out, (size_t)items * pass->item_bytes);
    for (uint32_t c = step->recv; c < step->recv + step->nrecv; c++)
        if (ccl_i_pool_has(p->pool, c))
            ccl_i_pool_give(p->pool, me, c, t->tail);
}

/**
 * A tile of the slice that comes, to w->in: the sum of all members' where it is pulled.
 * @return false: some have not come yet.
 */
static bool read_tile(worker_t *w, const turn_t *t, uint64_t from, uint64_t n) {
    const ccl_device_program_t *p = w->program;
    for (uint32_t i = 0; i < t->step->nrecv; i++) {
        ccl_i_lines_t in = lines_of(p, &t->recv[i], t->tail);
        if (!ccl_i_lines_read(&in, from, i ? w->term : w->in, n))
            return false;
        if (i > 0)
            p->reduce(w->in, w->in, w->term, (size_t)(n / p->plan->item_bytes));
    }
    return true;
}

/** A tile of w->out to all that the slice goes to. @param all  bytes of the slice. */
static void write_tile(worker_t *w, const turn_t *t, uint64_t from, uint64_t n, uint64_t all) {
    for (uint32_t i = 0; i < t->step->nsend; i++) {
        const ccl_device_conn_t *c = &t->send[i];
        ccl_i_lines_t out = lines_of(w->program, c, t->head);
        ccl_i_lines_write(&out, from, w->out, n);
        if (from == 0 && n < all && !c->counted)
            tell(w, t->step->send + i, c->receiver, true);
        if (from + n >= all)
            ccl_i_lines_clean(&out, all, c->slot_bytes, c->slots);
    }
}

/**
 * Slices as lines, a tile at a time. Whoever writes the slice that comes reports its first tile,
 * so that it is read while the rest is written, and again at the end.
 * @return false: it goes no further than b->from now.
 */
static bool pass_lines(worker_t *w, ccl_i_pass_t *pass, block_t *b, const turn_t *t) {
    const ccl_device_program_t *p = w->program;
    uint32_t item = p->plan->item_bytes;
    uint64_t all = (t->end - t->begin) * item;
    pass->in = t->recv ? w->in : NULL;
    pass->out = t->send ? w->out : NULL;
    do {
        uint64_t n = all - b->from < CCL_I_TILE_BYTES ? all - b->from : CCL_I_TILE_BYTES;
        uint64_t at = t->begin + b->from / item;
        ccl_i_pass_t tile = *pass;
        if (!read_tile(w, t, b->from, n))
            return false;
        ccl_i_move_slice(&tile, b->batch, at, at + n / item);
        write_tile(w, t, b->from, n, all);
        b->from += n;
    } while (b->from < all);
    b->from = 0;
    return true;
}

/** The connections' ends go on. */
static void hand_over(worker_t *w, const turn_t *t) {
    const ccl_device_plan_t *plan = w->program->plan;
    for (uint32_t i = 0; i < t->step->nrecv; i++) {
        store(t->recv[i].tail, t->tail + 1);
        tell(w, t->step->recv + i, t->recv[i].sender, false);
    }
    for (uint32_t i = 0; i < t->step->nsend; i++) {
        const ccl_device_conn_t *c = &t->send[i];
        if (c->lengths)
            c->lengths[t->head % c->slots] =
                ccl_i_slot_bytes(plan->protocol, (t->end - t->begin) * plan->item_bytes);
        store(c->head, t->head + 1);
        tell(w, t->step->send + i, c->receiver, true);
    }
}

/** The pass of one slice. @return its cost; 0: lines have not come yet. */
static uint64_t pass(worker_t *w, const ccl_device_unit_t *unit, block_t *b, uint32_t index) {
    const ccl_device_program_t *p = w->program;
    const ccl_device_plan_t *plan = p->plan;
    const ccl_device_step_t *step = &plan->steps[index];
    uint64_t begin = b->slice * b->slice_items, end = begin + b->slice_items;
    turn_t turn = {.step = step,
                   .recv = step->recv == CCL_NONE ? NULL : &plan->conns[step->recv],
                   .send = step->send == CCL_NONE ? NULL : &plan->conns[step->send],
                   .begin = begin < b->items ? begin : b->items,
                   .end = end < b->items ? end : b->items};
    ccl_i_pass_t pass = {.reduce = p->reduce,
                         .pieces = plan->pieces + step->first_piece,
                         .npieces = step->npieces,
                         .prim = step->prim,
                         .item_bytes = plan->item_bytes,
                         .memory = plan->memory[unit->rank]};
    if (turn.recv)
        turn.tail = __atomic_load_n(turn.recv->tail, __ATOMIC_RELAXED);
    if (turn.send)
        turn.head = __atomic_load_n(turn.send->head, __ATOMIC_RELAXED);
    if (plan->protocol == CCL_DEVICE_SIMPLE || (!turn.recv && !turn.send))
        pass_plain(w, &pass, b, &turn);
    else if (!pass_lines(w, &pass, b, &turn))
        return 0;
    hand_over(w, &turn);
    w->slices++;
    b->use.slices++;
    charge(p, b, &b->use.busy_s);
    uint64_t cost = (turn.end - turn.begin) * plan->item_bytes + SLICE_COST_BYTES;
    if (++b->slice == step->slices)
        step_done(p, unit, b, index);
    return cost;
}

/** Whether the next slice of a connection has come, or with lines begins to. */
static bool here(const ccl_device_program_t *p, const ccl_device_conn_t *c) {
    uint64_t tail = __atomic_load_n(c->tail, __ATOMIC_RELAXED);
    if (p->plan->protocol == CCL_DEVICE_SIMPLE || c->counted)
        return load(c->head) != tail;
    ccl_i_lines_t lines = lines_of(p, c, tail);
    return ccl_i_lines_begun(&lines);
}

static bool has_slot(const ccl_device_conn_t *c) {
    return __atomic_load_n(c->head, __ATOMIC_RELAXED) - load(c->tail) < c->slots;
}

/**
 * Step a unit until it must wait (false), has finished (false) or gives way (true): to the unit
 * that it gave a slice, which is read before it leaves the cache, or to all when it had its share.
 */
static bool advance(worker_t *w, const ccl_device_unit_t *unit, block_t *b) {
    const ccl_device_program_t *p = w->program;
    const ccl_device_plan_t *plan = p->plan;
    uint64_t spent = 0;
    while (b->step < unit->nsteps) {
        uint32_t index = unit->first_step + b->step;
        const ccl_device_step_t *step = &plan->steps[index];
        if (spent >= QUANTUM_BYTES || w->next != CCL_NONE)
            return true;
        switch (b->phase) {
        case PHASE_DEP:
            if (b->step == 0 && unit->after != CCL_NONE &&
                load(&plan->done[unit->after]) <= b->batch)
                return waits(b, CCL_WAIT_STAGE);
            if (step->dep != CCL_NONE && load(&plan->done[step->dep]) <= b->batch)
                return waits(b, CCL_WAIT_DEP);
            b->items = ccl_i_step_items(plan, step, b->batch);
            b->slice_items = ccl_i_slice_items(b->items, step->slices, plan->item_bytes);
            b->phase = PHASE_DATA; /* fall through */
        case PHASE_DATA:
            for (uint32_t i = 0; i < step->nrecv; i++)
                if (!here(p, &plan->conns[step->recv + i]))
                    return waits(b, CCL_WAIT_DATA);
            b->phase = PHASE_SLOT; /* fall through */
        default:
            for (uint32_t i = 0; i < step->nsend; i++)
                if (!has_slot(&plan->conns[step->send + i]))
                    return waits(b, CCL_WAIT_SLOT);
            b->phase = PHASE_DATA;
            b->waits = CCL_NONE;
            uint64_t cost = pass(w, unit, b, index);
            if (cost == 0)
                return waits(b, CCL_WAIT_DATA);
            spent += cost;
        }
    }
    b->waits = CCL_NONE;
    return false;
}

/* ---------------------------------------------------------------- workers */

static bool stopped(const ccl_device_program_t *p) {
    return __atomic_load_n(p->launch->stop, __ATOMIC_RELAXED) != 0;
}

static bool over(const ccl_device_program_t *p) {
    return __atomic_load_n(&p->left, __ATOMIC_ACQUIRE) == 0 || stopped(p);
}

static void park(ccl_device_program_t *p) {
    ccl_i_sched_t *s = p->sched;
    uint32_t epoch = __atomic_load_n(&s->epoch, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&s->parked, 1, __ATOMIC_SEQ_CST);
    if (!ccl_i_sched_any(s) && !over(p))
        ccl_i_futex_wait(&s->epoch, epoch, 0.1); /* to see that all should stop */
    __atomic_fetch_sub(&s->parked, 1, __ATOMIC_SEQ_CST);
}

static void wake_all(ccl_i_sched_t *s) {
    __atomic_fetch_add(&s->epoch, 1, __ATOMIC_SEQ_CST);
    ccl_i_futex_wake(&s->epoch, INT32_MAX);
}

static void finish_unit(ccl_device_program_t *p) {
    if (__atomic_fetch_sub(&p->left, 1, __ATOMIC_ACQ_REL) != 1)
        return;
    p->end_s = ccl_now_s();
    wake_all(p->sched);
}

static void tell_progress(worker_t *w) {
    if (w->slices != w->told)
        __atomic_fetch_add(w->program->launch->progress, w->slices - w->told, __ATOMIC_RELAXED);
    w->told = w->slices;
}

static void push(worker_t *w, uint32_t local) {
    w->stack[w->depth++ % STACK] = local;
}

/** What was begun last goes on first: the receiver of a slice, then its sender, then the others. */
static uint32_t take(worker_t *w) {
    ccl_i_sched_t *sched = w->program->sched;
    uint32_t least = w->depth > STACK ? w->depth - STACK : 0;
    while (w->depth > least) {
        uint32_t local = w->stack[--w->depth % STACK];
        if (ccl_i_sched_claim(sched, local))
            return local;
    }
    w->depth = 0;
    return ccl_i_sched_take(sched, &w->home);
}

static void run_units(worker_t *w) {
    ccl_device_program_t *p = w->program;
    uint32_t looks = 0;
    w->depth = 0;
    while (!over(p)) {
        uint32_t local = take(w);
        if (local == CCL_NONE) {
            tell_progress(w);
            ccl_i_relax(++looks);
            if (looks >= IDLE_LOOKS) {
                park(p);
                looks = 0;
            }
            continue;
        }
        looks = 0;
        const ccl_device_unit_t *unit = &p->plan->units[p->plan->first_unit + local];
        block_t *b = &p->blocks[local];
        bool unfinished = b->step < unit->nsteps;
        if (unfinished) {
            b->mark_s = b->mark_s > 0 ? b->mark_s : w->start_s;
            charge(p, b, use_of(b, b->waits));
        }
        w->next = CCL_NONE;
        bool again = unfinished && advance(w, unit, b);
        if (w->slices - w->told >= PROGRESS_EVERY)
            tell_progress(w);
        bool finished = unfinished && b->step >= unit->nsteps;
        ccl_i_sched_release(p->sched, local, again);
        if (finished)
            finish_unit(p);
        else
            push(w, local);
        if (w->next != CCL_NONE)
            push(w, w->next);
    }
}

static void wait_at_gate(worker_t *w) {
    ccl_device_program_t *p = w->program;
    uint32_t looks = 0, all = p->nworkers;
    if (__atomic_add_fetch(&p->arrived, 1, __ATOMIC_ACQ_REL) == all) {
        __atomic_store_n(p->launch->ready, 1, __ATOMIC_RELEASE);
        ccl_i_futex_wake(p->launch->ready, INT32_MAX);
    }
    while (!__atomic_load_n(p->launch->gate, __ATOMIC_ACQUIRE) && !stopped(p)) {
        ccl_i_relax(++looks);
        if (looks >= 10 * IDLE_LOOKS)
            ccl_i_futex_wait(p->launch->gate, 0, 0.1);
    }
    w->start_s = ccl_now_s();
}

static void *worker_main(void *arg) {
    worker_t *w = arg;
    ccl_device_program_t *p = w->program;
    for (uint32_t seen = 0;;) {
        while (__atomic_load_n(&p->generation, __ATOMIC_ACQUIRE) == seen)
            ccl_i_futex_wait(&p->generation, seen, 1.0);
        seen++;
        if (p->quit)
            return NULL;
        wait_at_gate(w);
        run_units(w);
        if (__atomic_add_fetch(&p->gone, 1, __ATOMIC_ACQ_REL) == p->nworkers)
            ccl_i_futex_wake(&p->gone, INT32_MAX);
    }
}

/* ---------------------------------------------------------------- a run */

static void begin_run(ccl_device_program_t *p, const ccl_device_launch_t *launch) {
    const ccl_device_plan_t *plan = p->plan;
    p->launch = launch;
    p->arrived = p->gone = 0;
    p->left = plan->end_unit - plan->first_unit;
    p->end_s = 0;
    /* Marks that are left from the run before, or come late from a transport, do no harm. */
    memset(p->blocks, 0, (p->left + (size_t)1) * sizeof *p->blocks);
    for (uint32_t u = 0; u < p->left; u++) {
        const ccl_device_unit_t *unit = &plan->units[plan->first_unit + u];
        p->blocks[u].waits = CCL_NONE;
        memset(&plan->done[unit->first_step], 0, unit->nsteps * sizeof *plan->done);
        ccl_i_sched_mark(p->sched, u);
    }
    for (uint32_t i = 0; i < p->nworkers; i++)
        p->workers[i].home =
            (ccl_i_home_t){.first = (uint32_t)((uint64_t)p->left * i / p->nworkers),
                           .end = (uint32_t)((uint64_t)p->left * (i + 1) / p->nworkers),
                           .cursor = 0};
}

static void end_run(ccl_device_program_t *p) {
    const ccl_device_plan_t *plan = p->plan;
    const ccl_device_launch_t *launch = p->launch;
    double start_s = p->workers[0].start_s;
    for (uint32_t i = 1; i < p->nworkers; i++)
        start_s = p->workers[i].start_s < start_s ? p->workers[i].start_s : start_s;
    *launch->start_s = start_s;
    *launch->end_s = p->end_s > start_s ? p->end_s : start_s;
    for (uint32_t u = 0; u < plan->end_unit - plan->first_unit; u++) {
        const block_t *b = &p->blocks[u];
        uint32_t at = plan->first_unit + u;
        if (launch->places)
            launch->places[at] = (ccl_device_place_t){b->step, b->batch, b->slice, b->waits};
        if (launch->uses)
            launch->uses[at] = b->use;
    }
}

void ccl_i_host_program_run(ccl_device_program_t *p, const ccl_device_launch_t *launch) {
    begin_run(p, launch);
    __atomic_fetch_add(&p->generation, 1, __ATOMIC_RELEASE);
    ccl_i_futex_wake(&p->generation, INT32_MAX);
    for (uint32_t gone; (gone = __atomic_load_n(&p->gone, __ATOMIC_ACQUIRE)) < p->nworkers;)
        ccl_i_futex_wait(&p->gone, gone, 0.1);
    end_run(p);
    __atomic_store_n(launch->over, 1, __ATOMIC_RELEASE);
    ccl_i_futex_wake(launch->over, INT32_MAX);
}

int ccl_i_host_program_load(ccl_device_handle_t *device, const ccl_device_plan_t *plan,
                            uint32_t threads, ccl_device_program_t **out) {
    (void)device;
    uint32_t nunits = plan->end_unit - plan->first_unit;
    ccl_device_program_t *p = calloc(1, sizeof *p);
    if (!p)
        return ENOMEM;
    p->plan = plan;
    p->host = plan->host;
    p->sched = p->host->scheds[p->host->self];
    p->reduce = ccl_i_reduce_get((ccl_type_t)plan->type, (ccl_reduction_t)plan->op);
    p->blocks = calloc(nunits + (size_t)1, sizeof *p->blocks);
    threads = threads ? threads : 1;
    p->workers = calloc(threads, sizeof *p->workers);
    p->pool = ccl_i_pool_create(plan, threads);
    if (!p->blocks || !p->workers || !p->pool) {
        ccl_i_host_program_unload(p);
        return ENOMEM;
    }
    for (uint32_t i = 0; i < threads; i++) {
        worker_t *w = &p->workers[i];
        *w = (worker_t){.program = p};
        if (pthread_create(&w->thread, NULL, worker_main, w))
            break; /* the others do its work */
        p->nworkers++;
    }
    if (p->nworkers == 0) {
        ccl_i_host_program_unload(p);
        return EAGAIN;
    }
    *out = p;
    return 0;
}

int ccl_i_host_program_unload(ccl_device_program_t *p) {
    if (!p)
        return 0;
    p->quit = true;
    __atomic_fetch_add(&p->generation, 1, __ATOMIC_RELEASE);
    ccl_i_futex_wake(&p->generation, INT32_MAX);
    for (uint32_t i = 0; i < p->nworkers; i++)
        pthread_join(p->workers[i].thread, NULL);
    ccl_i_pool_destroy(p->pool);
    free(p->workers);
    free(p->blocks);
    free(p);
    return 0;
}
