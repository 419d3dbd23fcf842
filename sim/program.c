/**
 * @file program.c
 * The thread-block executor: runs a program by the rules of docs/model.md "Primitives".
 */
#include "sim/critical.h"
#include "sim/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A unit this many places on gets its connection fetched. */
#define AHEAD 8

static void advance(ccl_i_run_t *run, uint32_t unit, double time_s);

/* ---------------------------------------------------------------- running */

static void charge(ccl_i_unit_t *u, int use, double time_s) {
    u->use_s[use] += time_s - u->mark_s;
    u->mark_s = time_s;
}

static void wake(ccl_i_run_t *run, uint32_t unit) {
    if (unit == CCL_NONE || run->units[unit].ready)
        return;
    run->units[unit].ready = true;
    run->ready[run->ready_tail] = unit;
    run->ready_tail = run->ready_tail == run->nunits ? 0 : run->ready_tail + 1;
}

/* ---------------------------------------------------------------- connections */

/* A member got to `count`. A trunk is as far as the last of its members. @return it moves on. */
static bool trunk_moves(const ccl_i_run_t *run, ccl_i_trunk_t *t, uint32_t count) {
    ccl_i_conn_t *trunk = &run->conns[t->conn];
    uint32_t *last = t->reduces ? &trunk->arrived : &trunk->freed;
    if (count != *last + 1 || --t->least > 0)
        return false;
    ++*last;
    for (uint32_t i = 0; i < t->n; i++) {
        const ccl_i_conn_t *member = &run->conns[run->members[t->first + i]];
        t->least += (t->reduces ? member->arrived : member->freed) == *last;
    }
    return true;
}

static void arrive(ccl_i_run_t *run, uint32_t c) {
    ccl_i_conn_t *conn = &run->conns[c];
    conn->arrived++;
    if (run->record)
        ccl_i_record_arrived(run, c);
    if (conn->receiver == CCL_NONE && conn->trunk != CCL_NONE) {
        ccl_i_trunk_t *t = &run->trunks[conn->trunk];
        if (!trunk_moves(run, t, conn->arrived))
            return;
        if (run->record)
            ccl_i_record_trunk(run, c, true);
        conn = &run->conns[t->conn];
    }
    if (conn->receiver != CCL_NONE && run->units[conn->receiver].phase == PHASE_DATA)
        wake(run, conn->receiver);
}

static void credit(ccl_i_run_t *run, uint32_t c) {
    ccl_i_conn_t *conn = &run->conns[c];
    conn->freed++;
    if (run->record)
        ccl_i_record_credit(run, c);
    if (conn->sender == CCL_NONE && conn->trunk != CCL_NONE) {
        ccl_i_trunk_t *t = &run->trunks[conn->trunk];
        if (!trunk_moves(run, t, conn->freed))
            return;
        if (run->record)
            ccl_i_record_trunk(run, c, false);
        conn = &run->conns[t->conn];
    }
    if (conn->sender != CCL_NONE && run->units[conn->sender].phase == PHASE_SLOT)
        wake(run, conn->sender);
}

/* A slice arrives, or its slot is seen to be free, behind the delay of a connection. */
static void after_delay(ccl_i_run_t *run, uint32_t c, uint32_t kind, double time_s) {
    double delay_s = run->conns[c].delay_s;
    if (delay_s > 0)
        ccl_i_engine_at(run->engine, time_s + delay_s, kind, c);
    else if (kind == EV_ARRIVE)
        arrive(run, c);
    else
        credit(run, c);
}

static void all_members(ccl_i_run_t *run, uint32_t c, void (*one)(ccl_i_run_t *, uint32_t)) {
    const ccl_i_trunk_t *t = &run->trunks[run->conns[c].trunk];
    for (uint32_t i = 0; i < t->n; i++)
        one(run, run->members[t->first + i]);
}

/* The same for every member of a trunk, in one event where they have one delay. */
static void after_delays(ccl_i_run_t *run, uint32_t c, uint32_t kind, double time_s) {
    const ccl_i_trunk_t *t = &run->trunks[run->conns[c].trunk];
    if (t->even && run->conns[c].delay_s > 0)
        ccl_i_engine_at(run->engine, time_s + run->conns[c].delay_s,
                        kind == EV_ARRIVE ? EV_ARRIVE_ALL : EV_CREDIT_ALL, c);
    else
        for (uint32_t i = 0; i < t->n; i++)
            after_delay(run, run->members[t->first + i], kind, time_s);
}

/* A slice is on its way to who receives it. */
static void deliver(ccl_i_run_t *run, uint32_t c, double time_s) {
    if (ccl_i_conn_is_trunk(run, c))
        after_delays(run, c, EV_ARRIVE, time_s);
    else
        after_delay(run, c, EV_ARRIVE, time_s);
}

/* A slice takes a slot: of a trunk one in every member's FIFO. */
static void take_slot(ccl_i_run_t *run, uint32_t c) {
    ccl_i_conn_t *conn = &run->conns[c];
    conn->sent++;
    if (conn->trunk == CCL_NONE || !ccl_i_conn_is_trunk(run, c))
        return;
    const ccl_i_trunk_t *t = &run->trunks[conn->trunk];
    for (uint32_t i = 0; i < t->n; i++)
        run->conns[run->members[t->first + i]].sent++;
}

static void begin_flow(ccl_i_run_t *run, uint32_t c, uint32_t step, double time_s) {
    ccl_i_conn_t *conn = &run->conns[c];
    const ccl_i_work_t *w = &run->work[step];
    conn->draining = DRAINS;
    conn->step = step;
    if (run->trace)
        run->flow_start_s[c] = time_s;
    if (run->record)
        ccl_i_record_flow(run, c, time_s);
    if (run->unsent_bytes)
        ccl_i_least_flow(run, conn->route, ccl_i_work_bytes(run, conn, w), time_s);
    /* Units are in order of rank, thread block, stage: their number says all. */
    const ccl_i_engine_flow_t flow = {conn->route,  w->path, c, ccl_i_work_bytes(run, conn, w),
                                      conn->sender, 1};
    ccl_i_engine_flow(run->engine, time_s, &flow);
}

/* A slice that its block does not hold waits here while an earlier one drains. What is offered does
   not drain: it arrives. */
static void hand_over(ccl_i_run_t *run, uint32_t c, uint32_t step, double time_s) {
    ccl_i_conn_t *conn = &run->conns[c];
    if (ccl_i_conn_offers(run, c)) {
        if (run->record)
            ccl_i_record_offered(run, c);
        deliver(run, c, time_s);
        return;
    }
    if (run->record)
        ccl_i_record_handed(run, c, time_s);
    if (!conn->draining) {
        begin_flow(run, c, step, time_s);
        return;
    }
    uint32_t n = ccl_i_conn_waiting(conn);
    if (!conn->queue || n == conn->queue->len) {
        uint32_t len = n ? 2 * n : 4;
        ccl_i_queue_t *queue = malloc(sizeof(*queue) + len * sizeof(*queue->steps));
        if (!queue) {
            run->nomem = true;
            return;
        }
        for (uint32_t i = 0; i < n; i++)
            queue->steps[i] = ccl_i_conn_step(conn, i);
        free(conn->queue);
        queue->head = 0;
        queue->tail = n;
        queue->len = len;
        conn->queue = queue;
    }
    conn->queue->steps[conn->queue->tail++ % conn->queue->len] = step;
}

static void show(ccl_i_run_t *run, uint32_t step) {
    run->done[step]++;
    uint32_t u = run->waiters[step];
    run->waiters[step] = CCL_NONE;
    for (; u != CCL_NONE; u = run->units[u].next_waiter)
        wake(run, u);
}

static bool waits_for(ccl_i_run_t *run, uint32_t unit, uint32_t step) {
    ccl_i_unit_t *u = &run->units[unit];
    if (step == CCL_NONE || run->done[step] > u->batch)
        return false;
    u->next_waiter = run->waiters[step];
    run->waiters[step] = unit;
    return true;
}

/* The primitive is done: notify dependents, go to the next. */
static void primitive_done(ccl_i_run_t *run, uint32_t unit, uint32_t step, double time_s) {
    ccl_i_unit_t *u = &run->units[unit];
    if (time_s > run->end_s)
        run->end_s = time_s;
    run->primitives++;
    if (run->work[step].awaited) {
        double flag_s = run->flag_s[run->program->tbs[u->tb].rank];
        if (flag_s > 0)
            ccl_i_engine_at(run->engine, time_s + flag_s, EV_FLAG, step);
        else
            show(run, step);
    }
    if (run->steady && ccl_i_steady_wants(run, unit))
        run->wrapped = unit;
    if (run->step_end_s)
        run->step_end_s[step] = time_s;
    u->slice = 0;
    u->phase = PHASE_DEP;
    if (run->granularity == CCL_GRANULARITY_TASK) {
        if (++u->batch == run->batches) {
            u->batch = 0;
            u->pc++;
        }
    } else if (++u->pc == u->nsteps) {
        u->batch++;
        u->pc = u->batch == run->batches ? u->nsteps : 0;
    }
    __builtin_prefetch(&run->work[u->first + u->pc]);
    if (u->pc == u->nsteps) {
        u->phase = PHASE_DONE;
        run->nleft--;
    } else if (run->step_conns) {
        ccl_i_unit_conns(run, u);
    }
}

static void trace_pass(ccl_i_run_t *run, const ccl_i_unit_t *u, uint32_t step, double time_s) {
    const ccl_tb_t *tb = &run->program->tbs[u->tb];
    ccl_trace_span_t pass = {.start_s = run->slice_start_s[u - run->units],
                             .end_s = time_s,
                             .bytes = run->work[step].bytes,
                             .data_s = u->use_s[USE_DATA],
                             .peer_s = u->use_s[USE_PEER],
                             .slot_s = u->use_s[USE_SLOT],
                             .name = ccl_primitive_name(run->program->steps[step].type),
                             .rank = tb->rank,
                             .other = tb->id,
                             .step = step,
                             .at = step - tb->first_step,
                             .batch = u->batch,
                             .slice = u->slice};
    ccl_i_trace_tb(run->trace, &pass);
}

/* The slots of all members' slices are free. */
static void take_offers(ccl_i_run_t *run, uint32_t c, double time_s) {
    const ccl_i_trunk_t *t = &run->trunks[run->conns[c].trunk];
    bool roomy = run->conns[c].roomy;
    for (uint32_t i = 0; i < t->n; i++) {
        ccl_i_conn_t *member = &run->conns[run->members[t->first + i]];
        member->taken++;
        member->freed += roomy;
    }
    if (!roomy)
        after_delays(run, c, EV_CREDIT, time_s);
}

static void pass_done(ccl_i_run_t *run, uint32_t unit, double time_s) {
    ccl_i_unit_t *u = &run->units[unit];
    uint32_t step = ccl_i_step_at(run, u->first + u->pc);
    const ccl_i_work_t *w = &run->work[step];
    charge(u, USE_BUSY, time_s);
    if (run->record)
        ccl_i_record_done(run, unit, time_s);
    if (run->trace && run->program->steps[step].type != CCL_PRIM_NOP)
        trace_pass(run, u, step, time_s);
    if (w->sends && !run->conns[u->send].holds)
        hand_over(run, u->send, step, time_s);
    if (w->receives) {
        ccl_i_conn_t *conn = &run->conns[u->recv];
        conn->taken++;
        if (w->pulls)
            take_offers(run, u->recv, time_s);
        else if (conn->roomy)
            conn->freed++;
        else if (conn->delay_s > 0)
            ccl_i_engine_at(run->engine, time_s + conn->delay_s, EV_CREDIT, u->recv);
        else
            credit(run, u->recv);
    }
    if (++u->slice < w->slices)
        u->phase = PHASE_DATA;
    else
        primitive_done(run, unit, step, time_s);
}

/* What a pull waits for: that the slice is in and, where its block sends meanwhile and is held,
   that this flow has drained too. Then the block goes on. */
static void pull_waits(ccl_i_run_t *run, uint32_t unit, uint8_t is, double time_s) {
    ccl_i_unit_t *u = &run->units[unit];
    const ccl_i_work_t *w = &run->work[ccl_i_step_at(run, u->first + u->pc)];
    bool held = w->sends && run->conns[u->send].holds;
    uint8_t all = held ? PULL_IN | PULL_SENT : PULL_IN;
    u->pull |= is;
    if ((u->pull & all) != all)
        return;
    u->pull = 0;
    if (held)
        deliver(run, u->send, time_s);
    advance(run, unit, time_s);
}

/* A flow of a pull, with that of a send that holds its block. */
static void begin_pull(ccl_i_run_t *run, uint32_t unit, uint32_t step, double time_s) {
    const ccl_i_unit_t *u = &run->units[unit];
    const ccl_i_work_t *w = &run->work[step];
    ccl_i_conn_t *conn = &run->conns[u->recv];
    conn->draining = DRAINS;
    conn->step = step;
    if (run->trace)
        run->flow_start_s[u->recv] = time_s;
    if (run->record)
        ccl_i_record_pull(run, u->recv, time_s);
    if (run->unsent_bytes)
        ccl_i_least_flow(run, conn->route, ccl_i_work_bytes(run, conn, w), time_s);
    const ccl_i_engine_flow_t flow = {conn->route, run->pull_path[step],
                                      u->recv,     ccl_i_work_bytes(run, conn, w),
                                      unit,        0}; /* before its own sends */
    ccl_i_engine_flow(run->engine, time_s, &flow);
    if (w->sends && run->conns[u->send].holds) {
        begin_flow(run, u->send, step, time_s);
        run->conns[u->send].draining = DRAINS_WITH_PULL;
    }
}

/* Go on until something must be waited for. */
static void advance(ccl_i_run_t *run, uint32_t unit, double time_s) {
    ccl_i_unit_t *u = &run->units[unit];
    for (;;) {
        if (u->phase == PHASE_DONE)
            return;
        uint32_t step = ccl_i_step_at(run, u->first + u->pc);
        const ccl_i_work_t *w = &run->work[step];
        switch (u->phase) {
        case PHASE_DEP:
            if ((u->pc == 0 && waits_for(run, unit, u->stage_dep)) || waits_for(run, unit, w->dep))
                return;
            if (run->record && time_s > u->mark_s)
                ccl_i_record_waited(run, unit, CCL_PATH_DEPENDENCY);
            charge(u, USE_PEER, time_s);
            u->phase = PHASE_DATA;
            break;
        case PHASE_DATA:
            if (w->receives && run->conns[u->recv].arrived == run->conns[u->recv].taken)
                return;
            if (run->record && time_s > u->mark_s)
                ccl_i_record_waited(run, unit, CCL_PATH_DATA);
            charge(u, USE_DATA, time_s);
            u->phase = PHASE_SLOT;
            break;
        case PHASE_SLOT:
            if (w->sends) {
                ccl_i_conn_t *conn = &run->conns[u->send];
                if (conn->sent - conn->freed >= conn->slots)
                    return;
                take_slot(run, u->send);
            }
            if (run->record && time_s > u->mark_s)
                ccl_i_record_waited(run, unit, CCL_PATH_SLOT);
            charge(u, USE_SLOT, time_s);
            if (run->trace)
                run->slice_start_s[unit] = time_s;
            if (run->record)
                ccl_i_record_start(run, unit, time_s);
            if (run->step_start_s && u->batch == 0 && u->slice == 0)
                run->step_start_s[step] = time_s;
            if (run->rest_s && u->slice == 0)
                ccl_i_least_step(run, u, time_s);
            u->phase = PHASE_OVERHEAD;
            if (u->slice == 0 && w->overhead_s > 0) {
                ccl_i_engine_at(run->engine, time_s + w->overhead_s, EV_UNIT, unit);
                return;
            }
            break;
        case PHASE_OVERHEAD:
            if (w->pulls) {
                charge(u, USE_BUSY, time_s);
                u->phase = PHASE_PULL;
                begin_pull(run, unit, step, time_s);
                return;
            }
            if (w->sends && run->conns[u->send].holds) {
                charge(u, USE_BUSY, time_s);
                u->phase = PHASE_FLOW;
                begin_flow(run, u->send, step, time_s);
                return;
            }
            u->phase = PHASE_PASS;
            if (w->bytes > 0 && w->rate_Bps < INFINITY) {
                ccl_i_engine_at(run->engine, time_s + w->bytes / w->rate_Bps, EV_UNIT, unit);
                return;
            }
            break;
        case PHASE_PASS:
        case PHASE_FLOW:
        case PHASE_PULL:
            pass_done(run, unit, time_s);
            break;
        default: /* PHASE_LAUNCH */
            u->mark_s = time_s;
            u->phase = PHASE_DEP;
            break;
        }
    }
}

static void run_ready(ccl_i_run_t *run, double time_s) {
    while (run->ready_head != run->ready_tail) {
        uint32_t unit = run->ready[run->ready_head];
        run->ready_head = run->ready_head == run->nunits ? 0 : run->ready_head + 1;
        run->units[unit].ready = false;
        advance(run, unit, time_s);
    }
}

static void on_event(void *user, uint32_t kind, uint32_t id, double time_s) {
    ccl_i_run_t *run = user;
    switch (kind) {
    case EV_UNIT:
        advance(run, id, time_s);
        break;
    case EV_ARRIVE:
        arrive(run, id);
        break;
    case EV_CREDIT:
        credit(run, id);
        break;
    case EV_PULLED:
        pull_waits(run, id, PULL_IN, time_s);
        break;
    case EV_ARRIVE_ALL:
        all_members(run, id, arrive);
        break;
    case EV_CREDIT_ALL:
        all_members(run, id, credit);
        break;
    case EV_LAUNCH:
        for (uint32_t i = run->rank_units[id]; i < run->rank_units[id + 1]; i++) {
            if (i + AHEAD < run->nunits && run->units[i + AHEAD].recv != CCL_NONE)
                __builtin_prefetch(&run->conns[run->units[i + AHEAD].recv], 1);
            advance(run, i, time_s);
        }
        break;
    default:
        show(run, id);
        break;
    }
    run_ready(run, time_s);
}

static void trace_flow(ccl_i_run_t *run, uint32_t c, double time_s) {
    const ccl_i_conn_t *conn = &run->conns[c];
    bool pulls = conn->sender == CCL_NONE;
    const ccl_tb_t *tb = &run->program->tbs[run->units[pulls ? conn->receiver : conn->sender].tb];
    ccl_peers_t peers = ccl_program_peers(run->program, tb, conn->step);
    ccl_trace_span_t slice = {.start_s = run->flow_start_s[c],
                              .end_s = time_s,
                              .bytes = run->work[conn->step].bytes,
                              .rank = pulls ? peers.recv_peer : tb->rank,
                              .other = pulls ? tb->rank : peers.send_peer,
                              .step = conn->step,
                              .channel = peers.channel};
    ccl_i_trace_flow(run->trace, &slice);
}

static void on_drained(void *user, uint32_t c, double time_s) {
    ccl_i_run_t *run = user;
    ccl_i_conn_t *conn = &run->conns[c];
    bool alone = conn->draining == DRAINS;
    conn->draining = DRAINS_NOT;
    if (run->record)
        ccl_i_record_drained(run, c, time_s);
    if (run->trace)
        trace_flow(run, c, time_s);
    if (!alone) {
        pull_waits(run, conn->sender, PULL_SENT, time_s);
    } else if (conn->sender == CCL_NONE) {
        if (conn->delay_s > 0)
            ccl_i_engine_at(run->engine, time_s + conn->delay_s, EV_PULLED, conn->receiver);
        else
            pull_waits(run, conn->receiver, PULL_IN, time_s);
    } else {
        deliver(run, c, time_s);
        if (conn->holds)
            advance(run, conn->sender, time_s);
        else if (ccl_i_conn_waiting(conn) > 0)
            begin_flow(run, c, conn->queue->steps[conn->queue->head++ % conn->queue->len], time_s);
    }
    run_ready(run, time_s);
}

static void on_granted(void *user, uint32_t c, double time_s) {
    ccl_i_run_t *run = user;
    const ccl_i_conn_t *conn = &run->conns[c];
    if (run->trace)
        run->flow_start_s[c] = time_s;
    if (run->record)
        ccl_i_record_granted(run, c, time_s);
    if (!conn->holds)
        return;
    ccl_i_unit_t *u = &run->units[conn->sender == CCL_NONE ? conn->receiver : conn->sender];
    if (!(u->pull & PULL_GRANTED)) /* a block with one of its two flows no longer waits */
        charge(u, USE_SLOT, time_s);
    if (u->phase == PHASE_PULL)
        u->pull |= PULL_GRANTED;
}

ccl_status_t ccl_i_run_progress(const ccl_i_run_t *run) {
    ccl_progress_t progress = {.phase = "simulate", .done = run->primitives, .total = run->total};
    return ccl_ctx_poll(run->ctx, &progress);
}

static bool on_between(void *user, double time_s) {
    ccl_i_run_t *run = user;
    if (++run->rounds == 4096) {
        run->rounds = 0;
        run->status = ccl_i_run_progress(run);
        if (run->status != CCL_OK)
            return false;
    }
    run->gave_up |=
        (time_s > run->give_up_s || run->primitives - run->passed > run->most) && run->nleft > 0;
    if (run->gave_up)
        return false;
    if (run->record)
        ccl_i_record_instant(run);
    if (run->steady && run->wrapped != CCL_NONE && ccl_i_steady_step(run, time_s) > 0) {
        free(run->unsent_bytes); /* nobody counts the flows of what is skipped */
        run->unsent_bytes = NULL;
    }
    return !run->nomem;
}

static void on_soon(void *user, uint32_t kind, uint32_t id, int stage) {
    const ccl_i_run_t *run = user;
    uint32_t unit = id;
    if (kind == CCL_I_DRAINED || kind == EV_ARRIVE || kind == EV_CREDIT) {
        const ccl_i_conn_t *conn = &run->conns[id];
        if (stage == 0) {
            __builtin_prefetch(conn, 1);
            return;
        }
        unit = kind == EV_ARRIVE ? conn->receiver : conn->sender;
        if (unit == CCL_NONE || (kind == CCL_I_DRAINED && !conn->holds))
            return;
    } else if (kind != EV_UNIT) {
        return;
    }
    const ccl_i_unit_t *u = &run->units[unit];
    if (stage < 2) {
        __builtin_prefetch(u, 1);
        __builtin_prefetch(&u->use_s[3], 1);
        return;
    }
    uint32_t at = u->first + u->pc; /* the step itself, when there are no stages */
    if (at >= run->nsteps)
        return;
    __builtin_prefetch(&run->work[at]);
    __builtin_prefetch(&run->work[at + 1]);
}

static const ccl_i_engine_ops_t OPS = {on_event, on_drained, on_granted, on_between, NULL};
/* For runs whose blocks do not fit into the cache. */
static const ccl_i_engine_ops_t LARGE_OPS = {on_event, on_drained, on_granted, on_between, on_soon};
#define LARGE_UNITS 4000

ccl_i_engine_t *ccl_i_run_engine(ccl_i_run_t *run, ccl_sharing_t sharing) {
    return ccl_i_engine_create(run->ctx, run->topo, sharing,
                               run->program->ntbs < LARGE_UNITS ? &OPS : &LARGE_OPS, run);
}
