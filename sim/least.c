/**
 * @file least.c
 * A lower bound for the rest of a run: a run that is to give up does so as soon as that
 * is too much. A block has its steps to do one after the other, each at the rate of its block and
 * its links at best; a link has to carry all that is not on it yet.
 */
#include "sim/program.h"

#include <math.h>
#include <stdlib.h>

/* Beyond the time by this much: additions are rounded. */
#define SURE (1 + 1e-7)

/* The narrowest link of a connection. */
static double narrowest_Bps(const ccl_i_run_t *run, uint32_t conn) {
    const ccl_route_t *route = run->conns[conn].route;
    double rate_Bps = INFINITY;
    for (uint32_t l = 0; l < route->nlinks; l++)
        rate_Bps = fmin(rate_Bps, run->topo->links[route->links[l]].bandwidth_Bps);
    return rate_Bps;
}

/* One micro-batch of a step. */
static double step_s(const ccl_i_run_t *run, const ccl_i_unit_t *u, uint32_t step) {
    const ccl_i_work_t *w = run->work ? &run->work[step] : &run->works[run->work_of[step]];
    const uint32_t *own = run->step_conns ? &run->step_conns[2 * (size_t)step] : NULL;
    uint32_t send = own ? own[0] : u->send, pull = own ? own[1] : u->recv;
    double rate_Bps = w->rate_Bps, in_s = 0;
    if (w->sends && run->conns[send].holds)
        rate_Bps = fmin(rate_Bps, narrowest_Bps(run, send));
    if (w->pulls) {
        rate_Bps = fmin(rate_Bps, narrowest_Bps(run, pull));
        in_s = w->slices * run->conns[pull].delay_s;
    }
    return w->overhead_s + in_s + (rate_Bps < INFINITY ? w->slices * w->bytes / rate_Bps : 0);
}

static bool too_late(const ccl_i_run_t *run, double end_s) {
    return end_s > run->give_up_s * SURE;
}

bool ccl_i_least_exceeds(const ccl_i_run_t *run, const ccl_sim_result_t *r) {
    bool exceeds = false;
    if (!(run->give_up_s < INFINITY))
        return false;
    for (uint32_t l = 0; l < run->topo->nlinks; l++)
        exceeds |= too_late(run, r->links[l].bytes / run->topo->links[l].bandwidth_Bps);
    for (uint32_t i = 0; i < run->nunits && !exceeds; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        double sum_s = 0, last_s = 0;
        for (uint32_t k = 0, last = CCL_NONE; k < u->nsteps; k++) {
            uint32_t step = ccl_i_step_at(run, u->first + k);
            if (run->step_conns || run->work_of[step] != last)
                last_s = step_s(run, u, step);
            last = run->work_of[step];
            sum_s += last_s;
        }
        exceeds = too_late(run, sum_s * run->batches);
    }
    return exceeds;
}

bool ccl_i_least_init(ccl_i_run_t *run, const ccl_sim_result_t *r) {
    if (!(run->give_up_s < INFINITY))
        return true;
    run->rest_s = malloc((run->nsteps + (size_t)1) * sizeof(*run->rest_s));
    if (!run->rest_s)
        return false;
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        double sum_s = 0;
        for (uint32_t k = u->nsteps; k-- > 0;) {
            sum_s += step_s(run, u, ccl_i_step_at(run, u->first + k));
            run->rest_s[u->first + k] = sum_s;
        }
    }
    if (run->fold) /* not all flows are simulated */
        return true;
    run->unsent_bytes = malloc((run->topo->nlinks + (size_t)1) * sizeof(*run->unsent_bytes));
    if (!run->unsent_bytes)
        return false;
    for (uint32_t l = 0; l < run->topo->nlinks; l++)
        run->unsent_bytes[l] = r->links[l].bytes;
    return true;
}

void ccl_i_least_step(ccl_i_run_t *run, const ccl_i_unit_t *u, double time_s) {
    const double *rest_s = &run->rest_s[u->first + u->pc];
    double after_s = u->pc + 1 < u->nsteps ? rest_s[1] : 0, left_s;
    if (run->granularity == CCL_GRANULARITY_TASK)
        left_s = (run->batches - u->batch) * (rest_s[0] - after_s) + run->batches * after_s;
    else
        left_s = rest_s[0] + (run->batches - u->batch - 1.0) * run->rest_s[u->first];
    run->gave_up |= too_late(run, time_s + left_s);
}

void ccl_i_least_flow(ccl_i_run_t *run, const ccl_route_t *route, double bytes, double time_s) {
    for (uint32_t l = 0; l < route->nlinks; l++) {
        double *unsent_bytes = &run->unsent_bytes[route->links[l]];
        double left_s = *unsent_bytes / run->topo->links[route->links[l]].bandwidth_Bps;
        run->gave_up |= too_late(run, time_s + left_s);
        *unsent_bytes -= bytes;
    }
}

void ccl_i_least_fini(ccl_i_run_t *run) {
    free(run->rest_s);
    free(run->unsent_bytes);
}
