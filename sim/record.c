/**
 * @file record.c
 * Keeps, while a program runs, what released every slice: the material of the critical path.
 */
#include "sim/critical.h"

/* More nodes than this are not kept: about a gigabyte. */
#define MOST_NODES ((uint64_t)1 << 24)

static uint64_t count_nodes(const ccl_i_run_t *run) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        for (uint32_t k = 0; k < u->nsteps; k++) {
            uint32_t step = ccl_i_step_at(run, u->first + k);
            const ccl_i_work_t *w = &run->work[step];
            uint32_t conn = run->step_conns ? run->step_conns[2 * (size_t)step] : u->send;
            bool leaves = w->sends && !run->conns[conn].holds;
            n += (uint64_t)run->batches * w->slices * (1u + leaves + w->pulls);
        }
    }
    return n;
}

ccl_status_t ccl_i_record_create(ccl_i_run_t *run, ccl_error_t *err) {
    uint64_t n = count_nodes(run);
    if (n > MOST_NODES)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "the critical path of %llu slices is too much to keep (%llu at most); a "
                        "smaller --size or fewer --batches",
                        (unsigned long long)n, (unsigned long long)MOST_NODES);
    ccl_i_record_t *r = run->record = calloc(1, sizeof(*r));
    if (!r)
        return ccl_fail_nomem(err);
    r->cap = n;
    r->nodes = malloc((n + 1) * sizeof(*r->nodes));
    r->units = malloc((run->nunits + 1u) * sizeof(*r->units));
    r->conns = malloc((run->nconns + 1u) * sizeof(*r->conns));
    r->done = malloc((run->nsteps + 1u) * sizeof(*r->done));
    r->begun = malloc((run->nconns + 1u) * sizeof(*r->begun));
    if (!r->nodes || !r->units || !r->conns || !r->done || !r->begun)
        return ccl_fail_nomem(err);
    r->final = CCL_NONE;
    r->nunits = run->nunits;
    r->nconns = run->nconns;
    for (uint32_t i = 0; i < run->nunits; i++)
        r->units[i] = (ccl_i_unit_nodes_t){CCL_NONE, CCL_NONE, CCL_NONE, CCL_PATH_BLOCK};
    memset(r->conns, 0xff, run->nconns * sizeof(*r->conns));
    memset(r->done, 0xff, run->nsteps * sizeof(*r->done));
    return CCL_OK;
}

void ccl_i_record_destroy(ccl_i_record_t *r) {
    if (!r)
        return;
    free(r->nodes);
    free(r->units);
    free(r->conns);
    free(r->done);
    free(r->begun);
    free(r->unit_of);
    free(r->conn_of);
    free(r);
}

void ccl_i_record_keep(ccl_i_run_t *run) {
    ccl_i_fold_t *fold = run->fold;
    if (!fold)
        return;
    run->record->unit_of = malloc((fold->nunits + 1u) * sizeof(*fold->unit_of));
    if (!run->record->unit_of) {
        run->nomem = true;
        return;
    }
    memcpy(run->record->unit_of, fold->unit_of, fold->nunits * sizeof(*fold->unit_of));
    run->record->conn_of = fold->conn_of;
    fold->conn_of = NULL;
}

/* ---------------------------------------------------------------- slices of blocks */

/* The node that finished `step` in a micro-batch; a block may be ahead of who saw its flag. */
static uint32_t done_in(const ccl_i_run_t *run, uint32_t step, uint32_t batch) {
    const ccl_i_record_t *r = run->record;
    uint32_t n = step == CCL_NONE ? CCL_NONE : r->done[step];
    while (n != CCL_NONE &&
           (r->nodes[n].batch != batch ||
            ccl_i_step_at(run, run->units[r->nodes[n].unit].first + r->nodes[n].at) != step))
        n = r->nodes[n].own;
    return n;
}

void ccl_i_record_waited(ccl_i_run_t *run, uint32_t unit, ccl_path_wait_t wait) {
    ccl_i_record_t *r = run->record;
    const ccl_i_unit_t *u = &run->units[unit];
    ccl_i_unit_nodes_t *mine = &r->units[unit];
    uint32_t pred = CCL_NONE;
    if (wait == CCL_PATH_DATA) {
        pred = r->conns[u->recv].arrived;
    } else if (wait == CCL_PATH_SLOT) {
        pred = r->conns[u->send].freed;
    } else {
        uint32_t stage = u->pc == 0 ? done_in(run, u->stage_dep, u->batch) : CCL_NONE;
        pred = done_in(run, run->work[ccl_i_step_at(run, u->first + u->pc)].dep, u->batch);
        if (pred == CCL_NONE || (stage != CCL_NONE && r->nodes[stage].end_s > r->nodes[pred].end_s))
            pred = stage;
    }
    if (pred == CCL_NONE)
        return;
    mine->pred = pred;
    mine->wait = (uint8_t)wait;
}

static uint32_t add(ccl_i_record_t *r, ccl_i_node_t node) {
    node.next = node.freed = node.res = CCL_NONE;
    r->nodes[r->n] = node;
    return r->n++;
}

void ccl_i_record_start(ccl_i_run_t *run, uint32_t unit, double time_s) {
    ccl_i_record_t *r = run->record;
    const ccl_i_unit_t *u = &run->units[unit];
    ccl_i_unit_nodes_t *mine = &r->units[unit];
    bool waited = mine->wait != CCL_PATH_BLOCK;
    mine->now = add(r, (ccl_i_node_t){.start_s = time_s,
                                      .flow_s = time_s,
                                      .end_s = time_s,
                                      .unit = unit,
                                      .at = u->pc,
                                      .batch = u->batch,
                                      .slice = u->slice,
                                      .own = mine->before,
                                      .pred = waited ? mine->pred : mine->before,
                                      .wait = mine->wait});
    mine->wait = CCL_PATH_BLOCK;
    if (run->work[ccl_i_step_at(run, u->first + u->pc)].pulls) {
        ccl_i_node_t flow = r->nodes[mine->now];
        add(r, flow);
    }
}

/* A block received: its slice's slot is on its way back. */
static void free_slot(ccl_i_record_t *r, uint32_t conn, uint32_t n) {
    ccl_i_conn_nodes_t *c = &r->conns[conn];
    if (c->last_freed != CCL_NONE)
        r->nodes[c->last_freed].freed = n;
    if (c->freeing == CCL_NONE)
        c->freeing = n;
    c->last_freed = n;
}

void ccl_i_record_done(ccl_i_run_t *run, uint32_t unit, double time_s) {
    ccl_i_record_t *r = run->record;
    const ccl_i_unit_t *u = &run->units[unit];
    uint32_t n = r->units[unit].now, step = ccl_i_step_at(run, u->first + u->pc);
    const ccl_i_work_t *w = &run->work[step];
    r->nodes[n].end_s = time_s;
    r->units[unit].before = n;
    if (u->slice + 1 == w->slices) {
        r->done[step] = n;
        if (r->final == CCL_NONE || time_s > r->end_s) {
            r->final = n;
            r->end_s = time_s;
        }
    }
    if (!w->receives || run->conns[u->recv].roomy)
        return;
    const ccl_i_trunk_t *t = w->pulls ? &run->trunks[run->conns[u->recv].trunk] : NULL;
    if (!t)
        free_slot(r, u->recv, n);
    for (uint32_t i = 0; t && i < t->n; i++)
        free_slot(r, run->members[t->first + i], n);
}

/* ---------------------------------------------------------------- flows of connections */

static void join(const ccl_i_run_t *run, uint32_t conn, uint32_t n) {
    ccl_i_record_t *r = run->record;
    ccl_i_conn_nodes_t *c = &r->conns[conn];
    const ccl_i_trunk_t *t = ccl_i_conn_is_trunk(run, conn) && run->conns[conn].sender != CCL_NONE
                                 ? &run->trunks[run->conns[conn].trunk]
                                 : NULL;
    for (uint32_t i = 0; t && i < t->n; i++) { /* what is multicast arrives at every member */
        uint32_t *arriving = &r->conns[run->members[t->first + i]].arriving;
        *arriving = *arriving == CCL_NONE ? n : *arriving;
    }
    if (c->first == CCL_NONE)
        c->first = n;
    if (c->last != CCL_NONE)
        r->nodes[c->last].next = n;
    if (c->draining == CCL_NONE)
        c->draining = n;
    if (c->arriving == CCL_NONE)
        c->arriving = n;
    c->last = n;
}

void ccl_i_record_handed(ccl_i_run_t *run, uint32_t conn, double time_s) {
    ccl_i_record_t *r = run->record;
    uint32_t pass = r->units[run->conns[conn].sender].before;
    ccl_i_node_t node = r->nodes[pass];
    node.start_s = node.flow_s = node.end_s = time_s;
    node.own = node.pred = pass;
    node.wait = CCL_PATH_BLOCK;
    node.left = true;
    join(run, conn, add(r, node));
}

void ccl_i_record_flow(ccl_i_run_t *run, uint32_t conn, double time_s) {
    ccl_i_record_t *r = run->record;
    ccl_i_conn_nodes_t *c = &r->conns[conn];
    if (run->conns[conn].holds)
        join(run, conn, r->units[run->conns[conn].sender].now);
    ccl_i_node_t *node = &r->nodes[c->draining];
    node->flow_s = time_s;
    if (node->left && time_s > node->start_s) {
        node->wait = CCL_PATH_CONNECTION;
        node->pred = c->drained;
    }
    if (run->work[run->conns[conn].step].bytes > 0) /* drains in a later instant: once in each */
        r->begun[r->nbegun++] = conn;
}

void ccl_i_record_pull(ccl_i_run_t *run, uint32_t conn, double time_s) {
    ccl_i_record_t *r = run->record;
    uint32_t n = r->units[run->conns[conn].receiver].now + 1;
    join(run, conn, n);
    r->nodes[n].flow_s = time_s;
    if (run->work[run->conns[conn].step].bytes > 0)
        r->begun[r->nbegun++] = conn;
}

void ccl_i_record_offered(ccl_i_run_t *run, uint32_t conn) {
    join(run, conn, run->record->units[run->conns[conn].sender].before);
}

void ccl_i_record_trunk(ccl_i_run_t *run, uint32_t member, bool arrived) {
    ccl_i_conn_nodes_t *conns = run->record->conns;
    ccl_i_conn_nodes_t *trunk = &conns[run->trunks[run->conns[member].trunk].conn];
    if (arrived)
        trunk->arrived = conns[member].arrived;
    else
        trunk->freed = conns[member].freed;
}

/* Link or group that limits the flow on a connection; of a switch's reductions the walk knows. */
static uint32_t limit_of(const ccl_i_run_t *run, uint32_t conn) {
    const ccl_i_conn_t *c = &run->conns[conn];
    uint32_t path = c->sender == CCL_NONE ? run->pull_path[c->step] : run->work[c->step].path;
    uint32_t res = ccl_i_net_limit(ccl_i_engine_net(run->engine), path);
    return res < run->topo->nlinks + run->topo->ngroups ? res : CCL_NONE;
}

void ccl_i_record_granted(ccl_i_run_t *run, uint32_t conn, double time_s) {
    run->record->nodes[run->record->conns[conn].draining].flow_s = time_s;
}

void ccl_i_record_instant(ccl_i_run_t *run) {
    ccl_i_record_t *r = run->record;
    for (uint32_t i = 0; i < r->nbegun; i++)
        r->nodes[r->conns[r->begun[i]].draining].res = limit_of(run, r->begun[i]);
    r->nbegun = 0;
}

void ccl_i_record_drained(ccl_i_run_t *run, uint32_t conn, double time_s) {
    ccl_i_record_t *r = run->record;
    ccl_i_conn_nodes_t *c = &r->conns[conn];
    ccl_i_node_t *node = &r->nodes[c->draining];
    const ccl_i_work_t *w = &run->work[run->conns[conn].step];
    node->end_s = time_s;
    if (w->bytes > 0) {
        uint32_t res = limit_of(run, conn);
        node->res = res == CCL_NONE ? node->res : res;
    }
    c->drained = c->draining;
    c->draining = node->next;
}

void ccl_i_record_arrived(ccl_i_run_t *run, uint32_t conn) {
    ccl_i_conn_nodes_t *c = &run->record->conns[conn];
    c->arrived = c->arriving;
    c->arriving = run->record->nodes[c->arrived].next;
}

void ccl_i_record_credit(ccl_i_run_t *run, uint32_t conn) {
    ccl_i_conn_nodes_t *c = &run->record->conns[conn];
    c->freed = c->freeing;
    c->freeing = run->record->nodes[c->freed].freed;
}
