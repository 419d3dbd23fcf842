/**
 * @file steady.c
 * Skipping over whole periods of a run that has become periodic over its micro-batches.
 *
 * The state of a run is what its future depends on: what every block does and where it is, what
 * every FIFO holds, what every flow has left, when every timer fires, all relative to now, and how
 * far each step's micro-batch counter is from those that it is compared with. When the state of
 * two moments is the same, all that happened in between happens again, until a counter reaches the
 * end or a comparison of counters that move at unequal speed turns. So the clock and the counters
 * may be moved by any number of periods below that limit.
 */
#include "sim/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct unit_state {
    uint32_t pc, slice, batch;
    uint8_t phase, pull;
    double use_s[4];
} unit_state_t;

typedef struct conn_state {
    uint32_t in_flight, here, step, waiting, first_ring;
    uint8_t draining;
} conn_state_t;

typedef struct snapshot {
    double now_s;
    unit_state_t *units;
    conn_state_t *conns;
    uint32_t *ring;
    size_t nring, cring;
    double *left;   /* [nconns] of the draining slice */
    uint32_t *done; /* [nsteps] */
    ccl_i_event_t *timers;
    size_t ntimers, ctimers;
} snapshot_t;

struct ccl_i_steady {
    snapshot_t a, b;
    bool have; /* a is a snapshot taken when `marker` finished step `marker_pc` */
    uint32_t marker, marker_pc;
    uint32_t seen, limit; /* completions since a was taken; take a new one at the limit */
    uint64_t work;        /* comparisons done, kept below the work of the run itself */
    bool failed;          /* out of memory: the run goes on without skipping */
};

static void snapshot_fini(snapshot_t *s) {
    free(s->units);
    free(s->conns);
    free(s->ring);
    free(s->left);
    free(s->done);
    free(s->timers);
}

static bool snapshot_init(snapshot_t *s, const ccl_i_run_t *run) {
    s->units = calloc(run->nunits + 1u, sizeof(*s->units));
    s->conns = calloc(run->nconns + 1u, sizeof(*s->conns));
    s->left = calloc(run->nconns + 1u, sizeof(*s->left));
    s->done = calloc(run->nsteps + 1u, sizeof(*s->done));
    return s->units && s->conns && s->left && s->done;
}

struct ccl_i_steady *ccl_i_steady_create(const ccl_i_run_t *run) {
    if (run->batches < 4)
        return NULL;
    struct ccl_i_steady *st = calloc(1, sizeof(*st));
    if (!st)
        return NULL;
    st->limit = 1;
    if (!snapshot_init(&st->a, run) || !snapshot_init(&st->b, run)) {
        ccl_i_steady_destroy(st);
        return NULL;
    }
    return st;
}

void ccl_i_steady_destroy(struct ccl_i_steady *st) {
    if (!st)
        return;
    snapshot_fini(&st->a);
    snapshot_fini(&st->b);
    free(st);
}

bool ccl_i_steady_wants(const ccl_i_run_t *run, uint32_t unit) {
    struct ccl_i_steady *st = run->steady;
    const ccl_i_unit_t *u = &run->units[unit];
    if (st->have) {
        const ccl_i_unit_t *m = &run->units[st->marker];
        bool over = m->phase == PHASE_DONE ||
                    (run->granularity == CCL_GRANULARITY_TASK && m->pc != st->marker_pc);
        if (!over)
            return unit == st->marker && u->pc == st->marker_pc;
        st->have = false;
    }
    return run->granularity == CCL_GRANULARITY_TASK ? u->batch + 1 < run->batches
                                                    : u->pc + 1 == u->nsteps;
}

/* ---------------------------------------------------------------- snapshots */

static void note_left(uint32_t user, double left_bytes, void *ctx) {
    ((double *)ctx)[user] = left_bytes;
}

static int by_timer(const void *a, const void *b) {
    const ccl_i_event_t *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Seconds by use until now: blocks account for a wait or a pass only when it ends. */
static void use_until(const ccl_i_unit_t *u, double now_s, double use_s[4]) {
    static const int8_t USE_OF[] = {
        [PHASE_LAUNCH] = -1,     [PHASE_DEP] = USE_PEER,      [PHASE_DATA] = USE_DATA,
        [PHASE_SLOT] = USE_SLOT, [PHASE_OVERHEAD] = USE_BUSY, [PHASE_PASS] = USE_BUSY,
        [PHASE_FLOW] = USE_BUSY, [PHASE_PULL] = USE_BUSY,     [PHASE_DONE] = -1};
    memcpy(use_s, u->use_s, sizeof(u->use_s));
    if (USE_OF[u->phase] >= 0)
        use_s[USE_OF[u->phase]] += now_s - u->mark_s;
}

static bool take_discrete(snapshot_t *s, const ccl_i_run_t *run, double now_s) {
    s->now_s = now_s;
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        s->units[i] = (unit_state_t){
            .pc = u->pc, .slice = u->slice, .batch = u->batch, .phase = u->phase, .pull = u->pull};
        use_until(u, now_s, s->units[i].use_s);
    }
    s->nring = 0;
    for (uint32_t c = 0; c < run->nconns; c++) {
        const ccl_i_conn_t *conn = &run->conns[c];
        uint32_t waiting = ccl_i_conn_waiting(conn);
        s->conns[c] = (conn_state_t){.in_flight = conn->sent - conn->freed,
                                     .here = conn->arrived - conn->taken,
                                     .step = conn->draining ? conn->step : CCL_NONE,
                                     .waiting = waiting,
                                     .first_ring = (uint32_t)s->nring,
                                     .draining = conn->draining};
        if (!ccl_i_grow(&s->ring, &s->cring, s->nring + waiting, sizeof(*s->ring)) && waiting)
            return false;
        for (uint32_t i = 0; i < waiting; i++)
            s->ring[s->nring++] = ccl_i_conn_step(conn, i);
    }
    memcpy(s->done, run->done, run->nsteps * sizeof(*s->done));
    return true;
}

static bool take_times(snapshot_t *s, const ccl_i_run_t *run, double now_s) {
    memset(s->left, 0, run->nconns * sizeof(*s->left));
    ccl_i_net_visit(ccl_i_engine_net(run->engine), now_s, note_left, s->left);
    size_t n;
    const ccl_i_event_t *pending = ccl_i_engine_pending(run->engine, &n);
    if (n && !ccl_i_grow(&s->timers, &s->ctimers, n, sizeof(*s->timers)))
        return false;
    s->ntimers = n;
    if (n)
        memcpy(s->timers, pending, n * sizeof(*s->timers));
    for (size_t i = 0; i < n; i++)
        s->timers[i].time_s -= now_s;
    if (n)
        qsort(s->timers, n, sizeof(*s->timers), by_timer);
    return true;
}

/* ---------------------------------------------------------------- comparing */

/* The discrete part against the run as it is, without copying: most moments differ at once. */
static bool same_discrete(struct ccl_i_steady *st, const ccl_i_run_t *run) {
    const snapshot_t *a = &st->a;
    bool moved = false;
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        st->work++;
        if (u->phase != a->units[i].phase || u->pull != a->units[i].pull ||
            u->pc != a->units[i].pc || u->slice != a->units[i].slice ||
            u->batch < a->units[i].batch)
            return false;
        moved = moved || u->batch > a->units[i].batch;
    }
    for (uint32_t c = 0; c < run->nconns; c++) {
        const ccl_i_conn_t *conn = &run->conns[c];
        const conn_state_t *was = &a->conns[c];
        st->work++;
        if (conn->sent - conn->freed != was->in_flight ||
            conn->arrived - conn->taken != was->here || conn->draining != was->draining ||
            (conn->draining && conn->step != was->step) || ccl_i_conn_waiting(conn) != was->waiting)
            return false;
        for (uint32_t i = 0; i < was->waiting; i++)
            if (ccl_i_conn_step(conn, i) != a->ring[was->first_ring + i])
                return false;
    }
    return moved;
}

static bool same_times(const snapshot_t *a, const snapshot_t *b, const ccl_i_run_t *run) {
    if (a->ntimers != b->ntimers)
        return false;
    double period_s = b->now_s - a->now_s;
    double close_s = 1e-10 * period_s + 2e-15 * b->now_s;
    for (size_t i = 0; i < a->ntimers; i++)
        if (a->timers[i].kind != b->timers[i].kind || a->timers[i].id != b->timers[i].id ||
            fabs(a->timers[i].time_s - b->timers[i].time_s) > close_s)
            return false;
    for (uint32_t c = 0; c < run->nconns; c++)
        if (b->conns[c].draining &&
            fabs(a->left[c] - b->left[c]) >
                1e-10 * ccl_i_work_bytes(run, &run->conns[c], &run->work[b->conns[c].step]))
            return false;
    return true;
}

/* ---------------------------------------------------------------- how many periods */

typedef struct counters {
    uint64_t at, per_period; /* micro-batches done of a step, and how many each period adds */
} counters_t;

static counters_t executed(const struct ccl_i_steady *st, const ccl_i_run_t *run, uint32_t unit,
                           uint32_t index) {
    const ccl_i_unit_t *u = &run->units[unit];
    uint64_t delta = u->batch - st->a.units[unit].batch;
    if (run->granularity == CCL_GRANULARITY_TASK) {
        if (index < u->pc)
            return (counters_t){run->batches, 0};
        return (counters_t){index == u->pc ? u->batch : 0, index == u->pc ? delta : 0};
    }
    if (u->phase == PHASE_DONE)
        return (counters_t){run->batches, 0};
    return (counters_t){u->batch + (index < u->pc), delta};
}

/* Most periods over which "dep is done for the micro-batch that step is about to do" keeps the
   answers it had in this one. */
static uint64_t bound(const struct ccl_i_steady *st, const ccl_i_run_t *run, uint32_t unit,
                      uint32_t index, uint32_t dep) {
    const ccl_i_unit_t *u = &run->units[unit];
    counters_t step = executed(st, run, unit, index);
    uint64_t was = st->a.done[dep], is = run->done[dep], adds = is - was;
    if (step.per_period == adds || was >= run->batches)
        return UINT64_MAX;
    if (step.per_period == 0) {
        bool waits = u->phase == PHASE_DEP && u->pc == index && is <= u->batch;
        return waits ? (u->batch - is) / adds : UINT64_MAX;
    }
    if (was < step.at + 1)
        return 0;
    if (adds > step.per_period)
        return UINT64_MAX;
    return (was - step.at - 1) / (step.per_period - adds);
}

static uint64_t periods(const struct ccl_i_steady *st, const ccl_i_run_t *run) {
    uint64_t most = UINT64_MAX;
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        uint64_t delta = u->batch - st->a.units[i].batch;
        if (delta > 0) {
            uint64_t n = (run->batches - 1 - u->batch) / delta;
            most = n < most ? n : most;
        }
        for (uint32_t k = 0; k < u->nsteps && most > 0; k++) {
            uint32_t dep = run->work[ccl_i_step_at(run, u->first + k)].dep;
            uint64_t n = dep == CCL_NONE ? UINT64_MAX : bound(st, run, i, k, dep);
            most = n < most ? n : most;
            if (k == 0 && u->stage_dep != CCL_NONE) {
                n = bound(st, run, i, 0, u->stage_dep);
                most = n < most ? n : most;
            }
        }
    }
    return most;
}

static uint32_t skip(struct ccl_i_steady *st, ccl_i_run_t *run, uint64_t n, double now_s) {
    double period_s = now_s - st->a.now_s;
    double shift_s = (double)n * period_s;
    uint32_t most = 0;
    for (uint32_t i = 0; i < run->nunits; i++) {
        ccl_i_unit_t *u = &run->units[i];
        uint32_t delta = u->batch - st->a.units[i].batch;
        u->batch += (uint32_t)(n * delta);
        uint64_t passed = n * delta * (run->granularity == CCL_GRANULARITY_TASK ? 1 : u->nsteps);
        run->primitives += passed;
        run->passed += passed;
        most = delta > most ? delta : most;
        double use_s[4];
        use_until(u, now_s, use_s);
        for (int k = 0; k < 4; k++)
            u->use_s[k] = use_s[k] + (double)n * (use_s[k] - st->a.units[i].use_s[k]);
        for (uint32_t k = 0; run->step_end_s && delta > 0 && k < u->nsteps; k++)
            if (run->granularity != CCL_GRANULARITY_TASK || k == u->pc)
                run->step_end_s[ccl_i_step_at(run, u->first + k)] += shift_s;
        if (u->phase != PHASE_DONE)
            u->mark_s = now_s + shift_s;
    }
    for (uint32_t s = 0; s < run->nsteps; s++)
        run->done[s] += (uint32_t)(n * (run->done[s] - st->a.done[s]));
    ccl_i_engine_shift(run->engine, shift_s);
    run->skipped += n * most;
    return (uint32_t)(n * most);
}

uint32_t ccl_i_steady_step(ccl_i_run_t *run, double now_s) {
    struct ccl_i_steady *st = run->steady;
    uint32_t unit = run->wrapped;
    run->wrapped = CCL_NONE;
    if (st->failed || st->work > 4096 + 4 * ccl_i_engine_events(run->engine))
        return 0;
    if (!st->have) {
        st->marker = unit;
        /* The counter has moved on by now: the step that was finished is the one before. */
        const ccl_i_unit_t *u = &run->units[unit];
        st->marker_pc = run->granularity == CCL_GRANULARITY_TASK ? u->pc : u->nsteps - 1;
        st->have = u->phase != PHASE_DONE;
        st->seen = 0;
        st->limit = 1;
        st->work += run->nunits + run->nconns + run->nsteps / 8;
        st->failed = !take_discrete(&st->a, run, now_s) || !take_times(&st->a, run, now_s);
        return 0;
    }
    st->seen++;
    uint32_t skipped = 0;
    bool over = false;
    if (same_discrete(st, run)) {
        st->work += run->nconns + run->nunits;
        if (!take_discrete(&st->b, run, now_s) || !take_times(&st->b, run, now_s)) {
            st->failed = true;
            return 0;
        }
        if (same_times(&st->a, &st->b, run)) {
            uint64_t n = periods(st, run);
            if (n > 0 && n < UINT64_MAX)
                skipped = skip(st, run, n, now_s);
            over = true; /* what is left is simulated, or limited by another counter */
        }
    }
    if (over || st->seen >= st->limit) {
        if (skipped) {
            st->have = false;
            return skipped;
        }
        st->limit = st->limit < 256 ? 2 * st->limit : 256;
        st->seen = 0;
        st->work += run->nunits + run->nconns + run->nsteps / 8;
        st->failed = !take_discrete(&st->a, run, now_s) || !take_times(&st->a, run, now_s);
    }
    return skipped;
}
