/**
 * @file connections.c
 * Connections of a plan: (source, destination, channel), at stage level also the stage.
 */
#include "runtime/plan_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct end {
    uint32_t src, dst, channel, stage;
    uint32_t unit, step; /* step CCL_NONE: of all steps of the unit */
    bool sends;
} end_t;

static int key_cmp(const end_t *x, const end_t *y) {
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    if (x->channel != y->channel)
        return x->channel < y->channel ? -1 : 1;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return 0;
}

static int end_cmp(const void *a, const void *b) {
    const end_t *x = a, *y = b;
    int by_key = key_cmp(x, y);
    if (by_key)
        return by_key;
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

static ccl_status_t collect(const ccl_program_t *program, bool by_stage, ccl_i_run_plan_t *plan,
                            end_t **ends_out, size_t *nends_out, ccl_error_t *err) {
    end_t *ends = NULL;
    size_t n = 0, cap = 0;
    for (uint32_t u = 0; u < plan->dev.nunits; u++) {
        const ccl_device_unit_t *unit = &plan->units[u];
        const ccl_tb_t *tb = &program->tbs[unit->tb];
        bool had[2] = {false, false};
        for (uint32_t i = unit->first_step; i < unit->first_step + unit->nsteps; i++) {
            uint32_t step = plan->program_step[i];
            const ccl_step_t *s = &program->steps[step];
            ccl_peers_t peers = ccl_program_peers(program, tb, step);
            uint32_t stage = by_stage ? s->stage : 0;
            bool is[2] = {ccl_primitive_sends(s->type), ccl_primitive_receives(s->type)};
            for (int k = 0; k < 2; k++) {
                if (!is[k] || (!program->peers && had[k]))
                    continue;
                had[k] = true;
                uint32_t peer = k == 0 ? peers.send_peer : peers.recv_peer;
                if (!ccl_grow(&ends, &cap, n + 1, sizeof *ends)) {
                    free(ends);
                    return ccl_fail_nomem(err);
                }
                ends[n++] = (end_t){.src = k == 0 ? tb->rank : peer,
                                    .dst = k == 0 ? peer : tb->rank,
                                    .channel = peers.channel,
                                    .stage = stage,
                                    .unit = u,
                                    .step = program->peers ? i : CCL_NONE,
                                    .sends = k == 0};
            }
        }
    }
    if (n > 1)
        qsort(ends, n, sizeof *ends, end_cmp);
    *ends_out = ends;
    *nends_out = n;
    return CCL_OK;
}

static void set_step(ccl_i_run_plan_t *plan, uint32_t step, uint32_t conn, bool sends) {
    ccl_device_step_t *d = &plan->steps[step];
    if (sends && ccl_primitive_sends(d->prim))
        d->send = conn;
    if (!sends && ccl_primitive_receives(d->prim))
        d->recv = conn;
}

static void join(const end_t *end, ccl_i_run_plan_t *plan, uint32_t conn) {
    const ccl_device_unit_t *unit = &plan->units[end->unit];
    if (end->sends)
        plan->conns[conn].sender = end->unit;
    else
        plan->conns[conn].receiver = end->unit;
    if (end->step != CCL_NONE)
        set_step(plan, end->step, conn, end->sends);
    for (uint32_t i = 0; end->step == CCL_NONE && i < unit->nsteps; i++)
        set_step(plan, unit->first_step + i, conn, end->sends);
}

ccl_status_t ccl_i_run_plan_connect(const ccl_program_t *program, bool by_stage,
                                    ccl_i_run_plan_t *plan, ccl_error_t *err) {
    end_t *ends = NULL;
    size_t n = 0;
    uint32_t conns = 0;
    CCL_TRY(collect(program, by_stage, plan, &ends, &n, err));
    for (size_t i = 0; i < n; i++)
        conns += i == 0 || key_cmp(&ends[i - 1], &ends[i]) != 0;
    plan->conns = calloc(conns + (size_t)1, sizeof *plan->conns);
    plan->conn_src = malloc((conns + (size_t)1) * sizeof *plan->conn_src);
    plan->conn_dst = malloc((conns + (size_t)1) * sizeof *plan->conn_dst);
    plan->conn_at = malloc((conns + (size_t)1) * sizeof *plan->conn_at);
    if (!plan->conns || !plan->conn_src || !plan->conn_dst || !plan->conn_at) {
        free(ends);
        return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < plan->dev.nsteps; i++)
        plan->steps[i].send = plan->steps[i].recv = CCL_NONE;
    uint32_t c = CCL_NONE;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || key_cmp(&ends[i - 1], &ends[i]) != 0) {
            c = plan->dev.nconns++;
            plan->conn_src[c] = ends[i].src;
            plan->conn_dst[c] = ends[i].dst;
        }
        join(&ends[i], plan, c);
    }
    free(ends);
    return CCL_OK;
}
