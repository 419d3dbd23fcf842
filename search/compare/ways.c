/* One schedule, lowered every way asked for; each program proven and run. */
#include "search/compare/ways.h"
#include "search/compare/shared.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

bool ccl_i_stops_all(ccl_status_t status) {
    return status == CCL_INTERRUPTED || status == CCL_ERR_INTERNAL;
}

uint32_t ccl_i_most_blocks(const ccl_program_t *program, ccl_granularity_t granularity) {
    uint32_t most = 0;

    for (uint32_t r = 0; r < program->nranks; r++) {
        uint32_t n = ccl_program_rank_blocks(program, r, granularity);

        most = n > most ? n : most;
    }
    return most;
}

ccl_ctx_t ccl_i_worker_ctx(const ccl_ctx_t *ctx) {
    ccl_ctx_t inner = CCL_CTX_INIT;

    if (ctx)
        inner = *ctx;
    inner.progress = NULL;
    inner.log = NULL; /* order of messages would depend on threads */
    inner.threads = 1;
    return inner;
}

ccl_make_options_t ccl_i_make_options(ccl_way_t way, const ccl_lower_options_t *base,
                                      const ccl_sim_options_t *sim) {
    ccl_make_options_t make = CCL_MAKE_OPTIONS_INIT;
    make.way = way;
    make.lower = *base;
    make.size_bytes = sim->size_bytes;
    make.batches = sim->batches;
    return make;
}

/* ---------------------------------------------------------------- every way */

typedef struct ways {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_schedule_t *schedule;
    const ccl_lower_ways_options_t *options;
    ccl_lowered_t *rows;
    ccl_routes_t **routes; /* [threads], made when first needed */
    atomic_uint_least64_t done;
} ways_t;

static ccl_status_t poll(ways_t *w, uint32_t worker) {
    ccl_progress_t progress = {"lower", atomic_load(&w->done), w->options->nways, 0, 0};
    ccl_ctx_t quiet = w->ctx ? *w->ctx : (ccl_ctx_t)CCL_CTX_INIT;

    if (worker != 0) /* callbacks come from one thread only */
        quiet.progress = NULL;
    return ccl_ctx_poll(&quiet, &progress);
}

static ccl_status_t run_way(ways_t *w, ccl_routes_t *routes, ccl_lowered_t *row, ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(w->ctx);
    ccl_sim_options_t sim = w->options->sim;

    sim.granularity = row->way.granularity;
    ccl_make_options_t make = ccl_i_make_options(row->way, &w->options->lower, &sim);
    make.lower.stats = &row->stats;
    make.no_prove = true; /* after what it takes is known */
    CCL_TRY(ccl_make_program(&ctx, w->topo, routes, w->schedule, &make, &row->program, err));
    row->ntbs = row->program->ntbs;
    row->nsteps = row->program->nsteps;
    ccl_origin_set(row->origin, "%s", row->program->origin);
    row->usage.thread_blocks = ccl_i_most_blocks(row->program, row->way.granularity);
    CCL_TRY(ccl_make_proven(&ctx, row->program, row->way.granularity, w->options->lower.executor,
                            CCL_CHECK, err));
    CCL_TRY(ccl_sim_program(&ctx, w->topo, routes, row->program, &sim, &row->result, err));
    row->time_s = row->result->time_s;
    row->algbw_GBps = row->result->algbw_GBps;
    row->busbw_GBps = row->result->busbw_GBps;
    row->batches = row->result->batches;
    ccl_sim_usage(row->program, row->result, &row->usage);
    return CCL_OK;
}

static void release(ccl_lowered_t *row) {
    ccl_program_destroy(row->program);
    ccl_sim_result_destroy(row->result);
    row->program = NULL;
    row->result = NULL;
}

static ccl_status_t one_way(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ways_t *w = user;
    ccl_lowered_t *row = &w->rows[index];
    ccl_error_t why = CCL_ERROR_INIT;

    CCL_TRY(poll(w, worker));
    if (!w->routes[worker])
        w->routes[worker] = ccl_routes_create(w->topo);
    if (!w->routes[worker])
        return ccl_fail_nomem(err);
    row->way = w->options->ways[index];
    row->status = run_way(w, w->routes[worker], row, &why);
    if (ccl_i_stops_all(row->status)) {
        if (err)
            *err = why;
        return row->status;
    }
    snprintf(row->why, sizeof row->why, "%s", why.text);
    if (!w->options->keep || row->status != CCL_OK)
        release(row);
    atomic_fetch_add(&w->done, 1);
    return CCL_OK;
}

static ccl_status_t prove_schedule(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                   ccl_error_t *err) {
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_status_t status;

    if (!verdict)
        return ccl_fail_nomem(err);
    status = ccl_schedule_verify(ctx, schedule, verdict, err);
    if (status == CCL_OK && !verdict->valid)
        status =
            ccl_fail(err, CCL_CHECK, "invalid: %s: %s", verdict->fault.kind, verdict->fault.text);
    free(verdict);
    return status;
}

ccl_status_t ccl_lower_ways(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                            const ccl_schedule_t *schedule, const ccl_lower_ways_options_t *options,
                            ccl_lowered_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_lower_ways_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_lower_options_t, &options->lower, err);
    CCL_OPTIONS_TRY(ccl_sim_options_t, &options->sim, err);
    ways_t w = {.ctx = ctx, .topo = topo, .schedule = schedule, .options = options};
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    ccl_status_t status = CCL_OK;

    if (options->nways == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "nothing to do: no way of lowering");
    if (schedule->coll->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the schedule has %u ranks, topology %.80s has %u",
                        schedule->coll->nranks, topo->name, topo->nranks);
    CCL_TRY(prove_schedule(ctx, schedule, err));
    atomic_init(&w.done, 0);
    w.rows = calloc(options->nways, sizeof *w.rows);
    w.routes = calloc(threads, sizeof *w.routes);
    if (w.rows && w.routes)
        status = ccl_parallel_for(options->nways, threads, one_way, &w, err);
    else
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = poll(&w, 0);
    for (uint32_t i = 0; w.routes && i < threads; i++)
        ccl_routes_destroy(w.routes[i]);
    free(w.routes);
    if (status != CCL_OK) {
        ccl_lowered_destroy(w.rows, options->nways);
        return status;
    }
    *out = w.rows;
    return CCL_OK;
}

void ccl_lowered_destroy(ccl_lowered_t *lowered, uint32_t n) {
    for (uint32_t i = 0; lowered && i < n; i++)
        release(&lowered[i]);
    free(lowered);
}
