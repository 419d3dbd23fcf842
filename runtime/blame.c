/**
 * @file blame.c
 * What the watchdog reports: from the places of all units to the cycle of who waits for whom.
 */
#include "runtime/job.h"

#include <string.h>

/** Whose step it is; units have ascending steps. */
static uint32_t unit_of(const ccl_i_run_plan_t *plan, uint32_t step) {
    uint32_t lo = 0, hi = plan->dev.nunits;
    while (lo + 1 < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (plan->units[mid].first_step <= step)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/** Slices that a unit has passed on a connection, as sender or receiver. */
static uint64_t passed(const ccl_i_run_plan_t *plan, const ccl_device_place_t *places, uint32_t u,
                       uint32_t conn, bool sends) {
    const ccl_device_unit_t *unit = &plan->units[u];
    const ccl_device_place_t *at = &places[u];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < unit->nsteps; i++) {
        const ccl_device_step_t *s = &plan->steps[unit->first_step + i];
        uint32_t first = sends ? s->send : s->recv, n = sends ? s->nsend : s->nrecv;
        if (first == CCL_NONE || conn < first || conn >= first + n)
            continue;
        uint64_t batches = i < at->step ? plan->dev.batches : i == at->step ? at->batch : 0;
        if (!plan->dev.by_task && at->step < unit->nsteps)
            batches = at->batch + (i < at->step ? 1u : 0u);
        sum += batches * s->slices + (i == at->step ? at->slice : 0);
    }
    return sum;
}

/** The unit whose slice, or whose free slot, unit u waits for: of several the first by rank. */
static uint32_t other_end(const ccl_i_run_plan_t *plan, const ccl_device_place_t *places,
                          uint32_t u, const ccl_device_step_t *step, bool data) {
    uint32_t first = data ? step->recv : step->send, n = data ? step->nrecv : step->nsend;
    uint64_t own = passed(plan, places, u, first, !data);
    for (uint32_t c = first; c < first + n; c++) {
        uint32_t other = data ? plan->conns[c].sender : plan->conns[c].receiver;
        uint64_t theirs = passed(plan, places, other, c, data);
        if (data ? theirs <= own : own - theirs >= plan->slots)
            return other;
    }
    return data ? plan->conns[first].sender : plan->conns[first].receiver;
}

/** The unit that unit u waits for; CCL_NONE: nobody, or it has finished. */
static uint32_t awaited(const ccl_i_run_plan_t *plan, const ccl_device_place_t *places,
                        uint32_t u) {
    const ccl_device_unit_t *unit = &plan->units[u];
    const ccl_device_step_t *step = &plan->steps[unit->first_step + places[u].step];
    uint32_t on = CCL_NONE, dep = CCL_NONE;
    switch (places[u].waits) {
    case CCL_WAIT_DATA:
        on = other_end(plan, places, u, step, true);
        break;
    case CCL_WAIT_SLOT:
        on = other_end(plan, places, u, step, false);
        break;
    case CCL_WAIT_DEP:
        dep = step->dep;
        break;
    case CCL_WAIT_STAGE:
        dep = unit->after;
        break;
    default:
        break;
    }
    if (dep != CCL_NONE)
        on = unit_of(plan, dep);
    return on != CCL_NONE && places[on].step >= plan->units[on].nsteps ? CCL_NONE : on;
}

static ccl_deadlock_wait_t wait_of(const ccl_i_job_t *job, const ccl_device_place_t *places,
                                   uint32_t u, uint32_t on) {
    const ccl_i_run_plan_t *plan = job->plan;
    const ccl_device_unit_t *unit = &plan->units[u];
    const ccl_tb_t *tb = &job->program->tbs[unit->tb];
    ccl_deadlock_wait_t w = {
        .rank = unit->rank,
        .tb = tb->id,
        .step = plan->program_step[unit->first_step + places[u].step] - tb->first_step,
        .batch = places[u].batch,
        .slice = places[u].slice,
        .wait = (ccl_wait_t)(places[u].waits == CCL_NONE ? CCL_WAIT_DATA : places[u].waits),
        .on_rank = CCL_NONE,
        .on_tb = CCL_NONE};
    if (on != CCL_NONE) {
        w.on_rank = plan->units[on].rank;
        w.on_tb = job->program->tbs[plan->units[on].tb].id;
    }
    return w;
}

void ccl_i_job_blame(const ccl_i_job_t *job, const ccl_device_place_t *places,
                     ccl_deadlock_t *out) {
    const ccl_i_run_plan_t *plan = job->plan;
    uint32_t at = CCL_NONE;
    memset(out, 0, sizeof *out);
    for (uint32_t u = 0; u < plan->dev.nunits; u++) {
        if (places[u].step >= plan->units[u].nsteps)
            continue;
        at = at == CCL_NONE ? u : at;
        out->stuck++;
    }
    if (at == CCL_NONE)
        return;
    /* After as many moves as there are units one is on the cycle, or nobody is waited for. */
    for (uint32_t i = 0; i < plan->dev.nunits; i++) {
        uint32_t on = awaited(plan, places, at);
        if (on == CCL_NONE)
            break;
        at = on;
    }
    uint32_t start = at;
    do {
        uint32_t on = awaited(plan, places, at);
        if (out->nwaits < CCL_ARRAY_LEN(out->waits))
            out->waits[out->nwaits] = wait_of(job, places, at, on);
        out->nwaits++;
        at = on;
    } while (at != start && at != CCL_NONE);
}
