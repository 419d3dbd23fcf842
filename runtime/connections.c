/**
 * @file connections.c
 * Units and connections of a plan, from the program's wiring.
 */
#include "runtime/plan_i.h"

#include <stdlib.h>

static ccl_status_t take_units(const ccl_program_t *program, ccl_wiring_t *w,
                               ccl_i_run_plan_t *plan, ccl_error_t *err) {
    plan->units = calloc(w->nunits + (size_t)1, sizeof *plan->units);
    if (!plan->units)
        return ccl_fail_nomem(err);
    for (uint32_t u = 0; u < w->nunits; u++) {
        const ccl_wiring_unit_t *unit = &w->units[u];
        plan->units[u] = (ccl_device_unit_t){
            .rank = program->tbs[unit->tb].rank,
            .tb = unit->tb,
            .first_step = unit->first,
            .nsteps = unit->nsteps,
            /* a block's stages follow one another */
            .after = unit->previous == CCL_NONE ? CCL_NONE : unit->first - 1,
        };
    }
    plan->dev.nunits = w->nunits;
    plan->program_step = w->order;
    plan->rank_first_unit = w->rank_units;
    w->order = w->rank_units = NULL; /* the plan's from now on */
    return CCL_OK;
}

/** Numbers in the plan: those of a switch connection's members follow one another. */
static void number_conns(const ccl_wiring_t *w, uint32_t *number) {
    uint32_t n = 0;
    for (uint32_t c = 0; c < w->nconns; c++)
        if (w->conns[c].in_switch == CCL_NONE)
            number[c] = n++;
    for (uint32_t i = 0; i < w->nmembers; i++)
        number[w->members[i]] = n++;
}

/** What a step sends or receives on, as a run of connections. */
static void take_end(const ccl_program_t *program, const ccl_wiring_t *w, const uint32_t *number,
                     uint32_t conn, uint32_t *first_out, uint32_t *n_out) {
    *first_out = CCL_NONE;
    *n_out = 0;
    if (conn == CCL_NONE)
        return;
    *n_out = 1;
    if (ccl_wiring_is_switch(conn)) {
        const ccl_wiring_switch_t *s = &w->switches[conn & ~CCL_WIRING_SWITCH];
        *n_out = program->groups[s->group].n;
        conn = w->members[s->first];
    }
    *first_out = number[conn];
}

static ccl_status_t take_conns(const ccl_program_t *program, const ccl_wiring_t *w,
                               ccl_i_run_plan_t *plan, ccl_error_t *err) {
    size_t n = w->nconns + (size_t)1;
    uint32_t *number = malloc(n * sizeof *number);
    plan->conns = calloc(n, sizeof *plan->conns);
    plan->conn_src = malloc(n * sizeof *plan->conn_src);
    plan->conn_dst = malloc(n * sizeof *plan->conn_dst);
    plan->conn_at = malloc(n * sizeof *plan->conn_at);
    if (!number || !plan->conns || !plan->conn_src || !plan->conn_dst || !plan->conn_at) {
        free(number);
        return ccl_fail_nomem(err);
    }
    plan->dev.nconns = w->nconns;
    number_conns(w, number);
    for (uint32_t c = 0; c < w->nconns; c++) {
        uint32_t at = number[c];
        plan->conns[at].sender = w->conns[c].sender;
        plan->conns[at].receiver = w->conns[c].receiver;
        plan->conn_src[at] = w->conns[c].src;
        plan->conn_dst[at] = w->conns[c].dst;
    }
    for (uint32_t u = 0; u < plan->dev.nunits; u++) {
        const ccl_device_unit_t *unit = &plan->units[u];
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++) {
            ccl_device_step_t *d = &plan->steps[i];
            uint32_t step = plan->program_step[i];
            bool sends = ccl_primitive_sends(d->prim), receives = ccl_primitive_receives(d->prim);
            take_end(program, w, number, sends ? ccl_wiring_send(w, u, step) : CCL_NONE, &d->send,
                     &d->nsend);
            take_end(program, w, number, receives ? ccl_wiring_recv(w, u, step) : CCL_NONE,
                     &d->recv, &d->nrecv);
        }
    }
    free(number);
    return CCL_OK;
}

ccl_status_t ccl_i_run_plan_connect(const ccl_program_t *program, ccl_granularity_t granularity,
                                    ccl_i_run_plan_t *plan, ccl_error_t *err) {
    ccl_wiring_t w;
    CCL_TRY(ccl_wiring_init(program, granularity, &w, err));
    ccl_status_t status = take_units(program, &w, plan, err);
    for (uint32_t i = 0; status == CCL_OK && i < program->nsteps; i++)
        plan->steps[i].prim = program->steps[plan->program_step[i]].type;
    if (status == CCL_OK)
        status = take_conns(program, &w, plan, err);
    ccl_wiring_fini(&w);
    return status;
}
