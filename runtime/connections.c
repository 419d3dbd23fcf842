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

static ccl_status_t check_peer(const ccl_program_t *program, const ccl_tb_t *tb, uint32_t peer,
                               const char *verb, ccl_error_t *err) {
    if (peer == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u block %u %s but has no peer", tb->rank, tb->id,
                        verb);
    if (peer >= program->nranks || peer == tb->rank)
        return ccl_fail(err, CCL_ERR_INPUT, "rank %u block %u %s with rank %u, which is %s",
                        tb->rank, tb->id, verb, peer, peer == tb->rank ? "itself" : "none");
    return CCL_OK;
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
                ccl_status_t status =
                    check_peer(program, tb, peer, k == 0 ? "sends" : "receives", err);
                if (status == CCL_OK && !ccl_grow(&ends, &cap, n + 1, sizeof *ends))
                    status = ccl_fail_nomem(err);
                if (status != CCL_OK) {
                    free(ends);
                    return status;
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

static ccl_status_t join(const ccl_program_t *program, const end_t *end, ccl_i_run_plan_t *plan,
                         uint32_t conn, ccl_error_t *err) {
    uint32_t *own = end->sends ? &plan->conns[conn].sender : &plan->conns[conn].receiver;
    const ccl_device_unit_t *unit = &plan->units[end->unit];
    if (*own != CCL_NONE && *own != end->unit)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "rank %u blocks %u and %u %s on the same connection (%s %u, channel %u)",
                        unit->rank, program->tbs[plan->units[*own].tb].id,
                        program->tbs[unit->tb].id, end->sends ? "send" : "receive",
                        end->sends ? "to" : "from", end->sends ? end->dst : end->src, end->channel);
    *own = end->unit;
    if (end->step != CCL_NONE)
        set_step(plan, end->step, conn, end->sends);
    for (uint32_t i = 0; end->step == CCL_NONE && i < unit->nsteps; i++)
        set_step(plan, unit->first_step + i, conn, end->sends);
    return CCL_OK;
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
    ccl_status_t status = CCL_OK;
    uint32_t c = CCL_NONE;
    for (size_t i = 0; i < n && status == CCL_OK; i++) {
        if (i == 0 || key_cmp(&ends[i - 1], &ends[i]) != 0) {
            c = plan->dev.nconns++;
            plan->conns[c].sender = plan->conns[c].receiver = CCL_NONE;
            plan->conn_src[c] = ends[i].src;
            plan->conn_dst[c] = ends[i].dst;
        }
        status = join(program, &ends[i], plan, c, err);
        bool last = i + 1 == n || key_cmp(&ends[i], &ends[i + 1]) != 0;
        if (status == CCL_OK && last &&
            (plan->conns[c].sender == CCL_NONE || plan->conns[c].receiver == CCL_NONE))
            status =
                ccl_fail(err, CCL_ERR_INPUT, "rank %u %s rank %u on channel %u, which never %s",
                         ends[i].sends ? ends[i].src : ends[i].dst,
                         ends[i].sends ? "sends to" : "receives from",
                         ends[i].sends ? ends[i].dst : ends[i].src, ends[i].channel,
                         ends[i].sends ? "receives" : "sends");
    }
    free(ends);
    return status;
}

/* ---------------------------------------------------------------- messages */

/** Walks over the elements of a step's data. */
typedef struct walk {
    const ccl_i_run_plan_t *plan;
    const ccl_device_step_t *step;
    uint32_t piece;
    uint64_t n; /* elements left in it */
} walk_t;

static walk_t walk_begin(const ccl_i_run_plan_t *plan, const ccl_device_step_t *step) {
    return (walk_t){plan, step, 0, step->npieces ? plan->pieces[step->first_piece].n : 0};
}

/** Items of the elements at hand; 0 at the end. */
static uint64_t walk_items(const walk_t *w) {
    return w->piece < w->step->npieces ? w->plan->pieces[w->step->first_piece + w->piece].items : 0;
}

static void walk_skip(walk_t *w, uint64_t n) {
    w->n -= n;
    if (w->n == 0 && ++w->piece < w->step->npieces)
        w->n = w->plan->pieces[w->step->first_piece + w->piece].n;
}

static bool same_elements(const ccl_i_run_plan_t *plan, uint32_t send, uint32_t recv) {
    walk_t a = walk_begin(plan, &plan->steps[send]), b = walk_begin(plan, &plan->steps[recv]);
    while (walk_items(&a) && walk_items(&a) == walk_items(&b)) {
        uint64_t n = a.n < b.n ? a.n : b.n;
        walk_skip(&a, n);
        walk_skip(&b, n);
    }
    return walk_items(&a) == walk_items(&b);
}

static ccl_status_t no_match(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                             uint32_t conn, uint32_t send, uint32_t recv, ccl_error_t *err) {
    const ccl_tb_t *from = &program->tbs[plan->units[plan->conns[conn].sender].tb];
    const ccl_tb_t *to = &program->tbs[plan->units[plan->conns[conn].receiver].tb];
    if (send == CCL_NONE || recv == CCL_NONE)
        return ccl_fail(
            err, CCL_ERR_INPUT, "rank %u block %u sends %s messages than rank %u block %u receives",
            from->rank, from->id, send == CCL_NONE ? "fewer" : "more", to->rank, to->id);
    return ccl_fail(err, CCL_ERR_INPUT,
                    "what rank %u block %u sends in step %u is not of the sizes that rank %u "
                    "block %u receives in step %u",
                    from->rank, from->id, plan->program_step[send] - from->first_step, to->rank,
                    to->id, plan->program_step[recv] - to->first_step);
}

ccl_status_t ccl_i_run_plan_match(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                                  ccl_error_t *err) {
    uint32_t nconns = plan->dev.nconns, nsteps = plan->dev.nsteps;
    /* Receives of each connection, in order; then the sends are held against them. */
    uint32_t *first = calloc(nconns + (size_t)2, sizeof *first);
    uint32_t *list = malloc((nsteps + (size_t)1) * sizeof *list);
    uint32_t *fill = calloc(nconns + (size_t)1, sizeof *fill);
    ccl_status_t status = CCL_OK;
    if (!first || !list || !fill) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t i = 0; i < nsteps; i++)
        if (plan->steps[i].recv != CCL_NONE)
            first[plan->steps[i].recv + 1]++;
    for (uint32_t c = 0; c < nconns; c++) {
        first[c + 1] += first[c];
        fill[c] = first[c];
    }
    for (uint32_t i = 0; i < nsteps; i++)
        if (plan->steps[i].recv != CCL_NONE)
            list[fill[plan->steps[i].recv]++] = i;
    for (uint32_t c = 0; c < nconns; c++)
        fill[c] = first[c];
    for (uint32_t i = 0; i < nsteps && status == CCL_OK; i++) {
        uint32_t c = plan->steps[i].send;
        if (c == CCL_NONE)
            continue;
        if (fill[c] == first[c + 1])
            status = no_match(program, plan, c, i, CCL_NONE, err);
        else if (!same_elements(plan, i, list[fill[c]]))
            status = no_match(program, plan, c, i, list[fill[c]], err);
        else
            fill[c]++;
    }
    for (uint32_t c = 0; c < nconns && status == CCL_OK; c++)
        if (fill[c] != first[c + 1])
            status = no_match(program, plan, c, CCL_NONE, list[fill[c]], err);
end:
    free(first);
    free(list);
    free(fill);
    return status;
}
