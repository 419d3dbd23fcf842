/**
 * @file setup.c
 * From a program, a topology and a size to the tables of a run; results afterwards.
 */
#include "sim/critical.h"
#include "sim/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void warn(const ccl_i_run_t *run, const ccl_i_kinds_t *kinds) {
    for (uint32_t i = 0; i < kinds->fifos.n; i++) {
        const ccl_transport_t *t = &kinds->fifos.kind[i].transport;
        if (t->holds_tb || !(t->tb_rate_Bps < INFINITY) || t->slice_bytes < INFINITY ||
            t->slices > 1)
            continue;
        ccl_log(run->ctx, CCL_LOG_WARN, "sim",
                "transport %s does not hold its thread block and has a tb_rate but neither "
                "slice nor slices: whole messages are stored and forwarded",
                kinds->fifos.kind[i].name);
        break;
    }
    bool contention = false;
    for (uint32_t l = 0; l < run->topo->nlinks; l++)
        contention = contention || run->topo->links[l].contention > 0;
    for (uint32_t c = 0; contention && c < run->nconns; c++) {
        const ccl_i_conn_t *conn = &run->conns[c];
        if (kinds->fifos.kind[conn->kind].transport.tb_rate_Bps < INFINITY)
            continue;
        for (uint32_t i = 0; i < conn->route->nlinks; i++) {
            const ccl_link_t *link = &run->topo->links[conn->route->links[i]];
            if (!(link->contention > 0))
                continue;
            ccl_log(run->ctx, CCL_LOG_WARN, "sim",
                    "link %s-%s has contention but thread blocks on it have no tb_rate: every "
                    "second one already counts as contention",
                    run->topo->devices[link->from].id, run->topo->devices[link->to].id);
            return;
        }
    }
}

/* ---------------------------------------------------------------- variations */

static ccl_status_t check_values(const double *values, uint32_t n, bool factor, const char *what,
                                 ccl_error_t *err) {
    for (uint32_t i = 0; values && i < n; i++)
        if (!isfinite(values[i]) || values[i] < 0 || (factor && values[i] == 0))
            return ccl_fail(err, CCL_ERR_INPUT, "variation: %s %u is %g: %s", what, i, values[i],
                            factor ? "a factor above 0 is needed" : "seconds from 0 on are needed");
    return CCL_OK;
}

ccl_status_t ccl_i_vary(const ccl_topology_t *topo, const ccl_sim_variation_t *variation,
                        ccl_topology_t *out, ccl_link_t **links_out, ccl_error_t *err) {
    CCL_TRY(check_values(variation->link_rate, topo->nlinks, true, "rate of link", err));
    CCL_TRY(check_values(variation->link_latency_s, topo->nlinks, false, "latency of link", err));
    CCL_TRY(check_values(variation->block_rate, topo->nranks, true, "thread blocks of rank", err));
    CCL_TRY(check_values(variation->late_s, topo->nranks, false, "launch of rank", err));
    ccl_link_t *links = malloc((topo->nlinks + (size_t)1) * sizeof *links);
    if (!links)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        links[l] = topo->links[l];
        if (variation->link_rate)
            links[l].bandwidth_Bps *= variation->link_rate[l];
        if (variation->link_latency_s)
            links[l].latency_s += variation->link_latency_s[l];
    }
    *out = *topo;
    out->links = *links_out = links;
    return CCL_OK;
}

double ccl_i_way_latency_s(const ccl_topology_t *topo, const uint32_t *links, uint32_t n) {
    double sum_s = 0;
    for (uint32_t i = 0; i < n; i++)
        sum_s += topo->links[links[i]].latency_s;
    return sum_s;
}

double ccl_i_way_bottleneck_Bps(const ccl_topology_t *topo, const uint32_t *links, uint32_t n) {
    double least_Bps = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        least_Bps = fmin(least_Bps, topo->links[links[i]].bandwidth_Bps);
    return least_Bps;
}

double ccl_i_launch_s(const ccl_i_run_t *run, uint32_t rank) {
    double launch_s = ccl_model_launch_s(run->topo, rank, run->program->proto);
    return run->variation && run->variation->late_s ? launch_s + run->variation->late_s[rank]
                                                    : launch_s;
}

/* ---------------------------------------------------------------- paths of each step */

static uint32_t make_path(const ccl_i_run_t *run, uint32_t c, double cap_Bps) {
    const ccl_i_fold_t *fold = run->fold;
    ccl_i_net_t *net = ccl_i_engine_net(run->engine);
    uint32_t trunk = run->conns[c].trunk;
    if (!fold && trunk != CCL_NONE)
        return ccl_i_net_tree_path(net, run->trunks[trunk].tree, cap_Bps);
    if (!fold)
        return ccl_i_net_path(net, run->conns[c].route, cap_Bps);
    uint32_t first = fold->first_share[c], n = fold->first_share[c + 1] - first;
    return ccl_i_net_path_of(net, run->conns[c].route, cap_Bps, &fold->shares[first], n);
}

/* The last paths of a unit: its steps differ little, so one of them mostly fits. */
typedef struct late {
    struct {
        double cap_Bps;
        uint32_t conn, path;
    } path[8];
    uint32_t n;
} late_t;

/* The path of a flow under pass rate P. False: out of memory. */
static bool late_path(const ccl_i_run_t *run, late_t *late, uint32_t conn, double rate_Bps,
                      uint32_t *out) {
    double cap_Bps = run->conns[conn].holds
                         ? rate_Bps * ccl_i_conn_transport(run, &run->conns[conn])->wire
                         : INFINITY;
    uint32_t most = CCL_ARRAY_LEN(late->path), at = 0;
    while (at < late->n && at < most &&
           (late->path[at].conn != conn || late->path[at].cap_Bps != cap_Bps))
        at++;
    if (at == late->n || at == most) {
        at = late->n++ % most;
        late->path[at].conn = conn;
        late->path[at].cap_Bps = cap_Bps;
        late->path[at].path = make_path(run, conn, cap_Bps);
    }
    *out = late->path[at].path;
    return *out != CCL_NONE;
}

/* Paths of the steps that send, and of those that pull. */
static bool make_paths(ccl_i_run_t *run) {
    ccl_i_net_t *net = ccl_i_engine_net(run->engine);
    if (!ccl_i_net_reserve(net, run->nconns + 1u))
        return false;
    if (run->ntrunks > 0) {
        run->pull_path = malloc((run->nsteps + (size_t)1) * sizeof(*run->pull_path));
        if (!run->pull_path)
            return false;
        ccl_i_net_keep_links(net);
    }
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        late_t sends, pulls;
        sends.n = pulls.n = 0;
        for (uint32_t k = 0; k < u->nsteps; k++) {
            uint32_t step = ccl_i_step_at(run, u->first + k);
            const uint32_t *own = run->step_conns ? &run->step_conns[2 * (size_t)step] : NULL;
            ccl_i_work_t *w = &run->work[step];
            uint32_t conn = own ? own[0] : u->send;
            if (w->sends && !ccl_i_conn_offers(run, conn) &&
                !late_path(run, &sends, conn, w->rate_Bps, &w->path))
                return false;
            if (w->pulls &&
                !late_path(run, &pulls, own ? own[1] : u->recv, w->rate_Bps, &run->pull_path[step]))
                return false;
        }
    }
    return ccl_i_net_freeze(net);
}

/* ---------------------------------------------------------------- results */

static bool tb_results(const ccl_i_run_t *run, ccl_sim_result_t *r) {
    if (run->granularity == CCL_GRANULARITY_STAGE) {
        r->stages = ccl_arena_alloc(&r->arena, run->nunits + 1u, sizeof(*r->stages));
        if (!r->stages)
            return false;
        r->nstages = run->nunits;
    }
    for (uint32_t rank = 0; rank < run->program->nranks; rank++) {
        double launch_s = ccl_i_launch_s(run, rank);
        for (uint32_t i = run->program->rank_first_tb[rank];
             i < run->program->rank_first_tb[rank + 1]; i++)
            r->tbs[i].start_s = r->tbs[i].done_s = launch_s;
    }
    for (uint32_t i = 0; i < run->nunits; i++) {
        const ccl_i_unit_t *u = &run->units[i];
        ccl_tb_use_t *use = &r->tbs[u->tb];
        use->done_s = fmax(use->done_s, u->mark_s);
        use->busy_s += u->use_s[USE_BUSY];
        use->wait_data_s += u->use_s[USE_DATA];
        use->wait_peer_s += u->use_s[USE_PEER];
        use->wait_slot_s += u->use_s[USE_SLOT];
        if (r->stages)
            r->stages[i] =
                (ccl_stage_use_t){.tb = u->tb,
                                  .stage = run->program->steps[ccl_i_step_at(run, u->first)].stage,
                                  .use = {.start_s = use->start_s,
                                          .done_s = u->mark_s,
                                          .busy_s = u->use_s[USE_BUSY],
                                          .wait_data_s = u->use_s[USE_DATA],
                                          .wait_peer_s = u->use_s[USE_PEER],
                                          .wait_slot_s = u->use_s[USE_SLOT]}};
    }
    return true;
}

static void run_fini(ccl_i_run_t *run) {
    ccl_i_unfold(run);
    for (uint32_t i = 0; i < run->nconns; i++)
        free(run->conns[i].queue);
    free(run->conns);
    free(run->trunks);
    free(run->members);
    free(run->pull_path);
    free(run->slice_start_s);
    free(run->flow_start_s);
    free(run->units);
    free(run->work);
    free(run->works);
    free(run->work_of);
    free(run->order);
    free(run->step_conns);
    free(run->rank_units);
    free(run->done);
    free(run->waiters);
    free(run->flag_s);
    free(run->ready);
    ccl_i_steady_destroy(run->steady);
    ccl_i_record_destroy(run->record);
    ccl_i_least_fini(run);
    ccl_i_engine_destroy(run->engine);
}

/* Of the steps that are simulated: after folding. */
static bool run_tables(ccl_i_run_t *run) {
    uint32_t n = run->nsteps;
    run->done = calloc(n + 1u, sizeof(*run->done));
    run->waiters = malloc((n + 1u) * sizeof(*run->waiters));
    run->ready = malloc((run->nunits + 1u) * sizeof(*run->ready));
    if ((!run->work && !ccl_i_work_table(run)) || !run->done || !run->waiters || !run->ready)
        return false;
    memset(run->waiters, 0xff, n * sizeof(*run->waiters));
    if (!run->trace)
        return true;
    run->slice_start_s = calloc(run->nunits + 1u, sizeof(*run->slice_start_s));
    run->flow_start_s = calloc(run->nconns + 1u, sizeof(*run->flow_start_s));
    return run->slice_start_s && run->flow_start_s;
}

static bool step_times(ccl_i_run_t *run, ccl_sim_result_t *r) {
    size_t n = run->program->nsteps + (size_t)1;
    run->step_start_s = r->step_start_s = ccl_arena_alloc(&r->arena, n, sizeof(double));
    run->step_end_s = r->step_end_s = ccl_arena_alloc(&r->arena, n, sizeof(double));
    return r->step_start_s && r->step_end_s;
}

static ccl_status_t check(const ccl_topology_t *topo, const ccl_program_t *program,
                          const ccl_sim_options_t *options, ccl_error_t *err) {
    if (program->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the program has %u ranks, the topology %u GPUs",
                        program->nranks, topo->nranks);
    if (!(options->size_bytes > 0) || !(options->size_bytes < 1e18))
        return ccl_fail(err, CCL_ERR_INPUT, "size %g bytes is not within (0, 1e18)",
                        options->size_bytes);
    return CCL_OK;
}

static ccl_status_t stopped(const ccl_i_run_t *run, ccl_status_t status, ccl_error_t *err) {
    return status == CCL_OK
               ? CCL_OK
               : ccl_fail(err, status, "stopped at %.6g s of simulated time", run->end_s);
}

static ccl_status_t progress(const ccl_i_run_t *run, ccl_error_t *err) {
    return stopped(run, ccl_i_run_progress(run), err);
}

static uint32_t most_slots(const ccl_i_fifos_t *fifos) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < fifos->n; i++)
        most = fifos->kind[i].transport.slots > most ? fifos->kind[i].transport.slots : most;
    return most;
}

/* From its tables to where it ends or stops. */
static ccl_status_t simulate(ccl_i_run_t *run, const ccl_sim_options_t *options,
                             ccl_i_trial_t *trial, const ccl_i_fifos_t *fifos,
                             const ccl_sim_result_t *r, ccl_error_t *err) {
    const ccl_program_t *p = run->program;
    bool fair = options->sharing == CCL_SHARING_FAIR && !options->trace;
    if ((!options->no_fold && fair && !ccl_i_fold(run, r->flows)) || !run_tables(run) ||
        !make_paths(run) || !ccl_i_least_init(run, r))
        return ccl_fail_nomem(err);
    if (options->trace)
        ccl_i_trace_groups(options->trace, p);
    if (options->path)
        CCL_TRY(ccl_i_record_create(run, err));
    if (!options->no_skip && !options->path && fair)
        run->steady = ccl_i_steady_create(run);
    for (uint32_t rank = 0; rank < p->nranks; rank++)
        if (run->rank_units[rank] < run->rank_units[rank + 1])
            ccl_i_engine_at(run->engine, ccl_i_launch_s(run, rank), EV_LAUNCH, rank);
    run->total = (uint64_t)run->nsteps * run->batches;
    if (trial)
        ccl_i_trial_begin(run, trial, most_slots(fifos));
    CCL_TRY(progress(run, err));
    CCL_TRY(ccl_i_engine_run(run->engine, err));
    CCL_TRY(stopped(run, run->status, err));
    if (run->record)
        ccl_i_record_keep(run);
    return run->nomem ? ccl_fail_nomem(err) : CCL_OK;
}

/* The tables of a run, before anything moves. */
static ccl_status_t prepare(ccl_i_run_t *run, ccl_i_kinds_t *kinds, ccl_routes_t *routes,
                            const ccl_sim_options_t *options, ccl_sim_result_t *r,
                            ccl_error_t *err) {
    CCL_TRY(ccl_i_run_wiring(run, kinds, routes, err));
    warn(run, kinds);
    run->batches = options->batches;
    if (!run->batches)
        CCL_TRY(ccl_i_kinds_batches(kinds, run->program, options->size_bytes, &run->batches, err));
    run->nsteps = run->program->nsteps;
    run->flag_s = calloc(run->program->nranks + 1u, sizeof(*run->flag_s));
    if (!run->flag_s || (options->step_times && !step_times(run, r)))
        return ccl_fail_nomem(err);
    return ccl_i_work_make(run, kinds, options->size_bytes, r, err);
}

/* What a run that came to its end took. */
static ccl_status_t finish(const ccl_i_run_t *run, const ccl_sim_options_t *options,
                           ccl_sim_result_t *r, ccl_error_t *err) {
    CCL_TRY(progress(run, err));
    r->time_s = run->end_s;
    if (r->time_s > 0) {
        r->algbw_GBps = r->size_bytes / r->time_s / 1e9;
        r->busbw_GBps = r->algbw_GBps *
                        ccl_collective_busbw_factor(run->program->coll->kind, run->program->nranks);
    }
    ccl_i_result_links(r, run->topo);
    if (run->record)
        CCL_TRY(ccl_i_record_path(run, options->intervals, r, err));
    return tb_results(run, r) ? CCL_OK : ccl_fail_nomem(err);
}

/* What the run comes to: no time where it gave up, a report where it is stuck. */
static ccl_status_t conclude(ccl_i_run_t *run, const ccl_sim_options_t *options,
                             const ccl_i_fifos_t *fifos, ccl_sim_result_t *r, ccl_error_t *err) {
    if (run->gave_up) {
        r->time_s = INFINITY;
        return CCL_OK;
    }
    /* The whole program's, which folding left behind, for what follows. */
    if ((run->nleft > 0 || run->record) && !run->work && !ccl_i_work_table(run))
        return ccl_fail_nomem(err);
    if (run->nleft > 0) {
        char text[400];
        CCL_TRY(ccl_i_run_deadlock(run, fifos, options->cause, r, err));
        ccl_i_deadlock_text(r->deadlock, text, sizeof(text));
        return ccl_fail(err, CCL_DEADLOCK, "%s", text);
    }
    return finish(run, options, r, err);
}

ccl_status_t ccl_i_sim_run(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                           const ccl_program_t *program, const ccl_sim_options_t *options,
                           ccl_i_trial_t *trial, ccl_sim_result_t **out, ccl_error_t *err) {
    CCL_TRY(check(topo, program, options, err));
    ccl_status_t status;
    const ccl_topology_t *drawn = topo; /* routes are its */
    ccl_topology_t varied;
    ccl_link_t *links = NULL;
    if (options->variation) {
        CCL_TRY(ccl_i_vary(topo, options->variation, &varied, &links, err));
        topo = &varied;
    }
    ccl_i_kinds_t kinds = ccl_i_kinds_init(topo, program);
    ccl_i_run_t run = {.ctx = ctx,
                       .topo = topo,
                       .variation = options->variation,
                       .program = program,
                       .fifos = &kinds.fifos,
                       .granularity = ccl_program_level(program, options->granularity),
                       .trace = options->trace,
                       .give_up_s = options->give_up_s > 0 ? options->give_up_s : INFINITY,
                       .most = UINT64_MAX,
                       .wrapped = CCL_NONE};
    ccl_routes_t *own = routes ? NULL : ccl_routes_create(drawn);
    ccl_sim_result_t *r = ccl_i_result_create(topo->nlinks, program->ntbs, 0);
    run.engine = ccl_i_run_engine(&run, options->sharing);
    if ((!routes && !own) || !r || !run.engine) {
        status = ccl_fail_nomem(err);
        goto done;
    }
    if (options->variation)
        ccl_i_net_vary(ccl_i_engine_net(run.engine));
    CCL_TRY_GOTO(prepare(&run, &kinds, routes ? routes : own, options, r, err), status, done);
    run.gave_up = ccl_i_least_exceeds(&run, r);
    if (!run.gave_up)
        CCL_TRY_GOTO(simulate(&run, options, trial, &kinds.fifos, r, err), status, done);
    if (!run.gave_up)
        ccl_i_unfold(&run);
    if (trial)
        trial->stopped = run.gave_up && run.primitives - run.passed > run.most;
    r->size_bytes = options->size_bytes;
    r->batches = run.batches;
    r->chunk_bytes = options->size_bytes / program->nchunks / run.batches;
    r->events = ccl_i_engine_events(run.engine);
    ccl_ctx_count(ctx, r->events);
    r->rate_changes = ccl_i_net_rate_changes(ccl_i_engine_net(run.engine));
    r->skipped_batches = run.skipped;
    status = conclude(&run, options, &kinds.fifos, r, err);
    if (status == CCL_OK || status == CCL_DEADLOCK) {
        *out = r;
        r = NULL;
    }
done:
    free(kinds.ends);
    free(links);
    run_fini(&run);
    ccl_routes_destroy(own);
    ccl_sim_result_destroy(r);
    return status;
}
