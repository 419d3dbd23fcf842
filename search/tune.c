/*
 * Tuning: points of a space, tried at sizes, in rounds of a fixed number so that threads change
 * nothing. A round: what the notebook has is taken from there; schedules that are missing are
 * synthesized, in parallel; every point is lowered, proven and simulated, in parallel, and written
 * down at once. Schedules stay for later rounds while they are not too many.
 */
#include "search/tune.h"
#include "search/ways.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND = 64 };

/* Transfers of all schedules that are kept (some 1 GB). */
static const double KEPT_TRANSFERS = 2e7;

/** A schedule, or why there is none. */
typedef struct made {
    char *key;
    const ccl_tune_point_t *point; /* valid while it is being made */
    double size_bytes, synth_s;
    ccl_schedule_t *schedule;
    ccl_status_t status;
    ccl_error_t err;
} made_t;

struct ccl_i_tuner {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_tune_options_t *options;
    ccl_tuning_t *out;
    ccl_content_t topology, demand;
    ccl_strmap_t *by_settings, *by_run, *by_key;
    ccl_routes_t **routes; /* [threads] */
    uint32_t threads;
    made_t **made;
    size_t made_cap;
    uint32_t nmade, first_new, first_run;
    uint32_t *missing; /* runs of this round that are to be evaluated */
    double start_s;
    atomic_uint_least64_t done;
};

static ccl_status_t routes_of(ccl_i_tuner_t *t, uint32_t worker, ccl_routes_t **out,
                              ccl_error_t *err) {
    if (!t->routes[worker])
        t->routes[worker] = ccl_routes_create(t->topo);
    if (!t->routes[worker])
        return ccl_fail_nomem(err);
    *out = t->routes[worker];
    return CCL_OK;
}

static ccl_status_t poll(ccl_i_tuner_t *t, const char *phase, uint32_t worker) {
    uint64_t all = t->options->budget_runs;
    ccl_progress_t progress = {phase, atomic_load(&t->done), all, 0, 0};
    ccl_ctx_t quiet = t->ctx ? *t->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    if (worker != 0) /* callbacks come from one thread only */
        quiet.progress = NULL;
    return ccl_ctx_poll(&quiet, &progress);
}

/* ---------------------------------------------------------------- points */

ccl_status_t ccl_i_tune_point(ccl_i_tuner_t *t, const double values[CCL_KNOBS], uint32_t *out,
                              ccl_error_t *err) {
    ccl_tuning_t *r = t->out;
    ccl_tune_point_t point;
    memcpy(point.values, values, sizeof point.values);
    ccl_space_point(t->options->space, point.values);
    point.settings = ccl_space_settings(point.values);
    if (!point.settings)
        return ccl_fail_nomem(err);
    *out = ccl_strmap_get(t->by_settings, point.settings);
    if (*out != CCL_NONE) {
        free(point.settings);
        return CCL_OK;
    }
    if (!ccl_grow(&r->points, &r->points_cap, r->npoints + 1u, sizeof *r->points) ||
        !ccl_strmap_put(t->by_settings, point.settings, r->npoints)) {
        free(point.settings);
        return ccl_fail_nomem(err);
    }
    *out = r->npoints;
    r->points[r->npoints++] = point;
    return CCL_OK;
}

static const ccl_synth_ops_t *ops_of(const ccl_tune_point_t *point) {
    return ccl_synth_all()[(uint32_t)point->values[CCL_KNOB_WITH]];
}

static uint32_t whole(double value, uint32_t otherwise) {
    return isnan(value) ? otherwise : (uint32_t)value;
}

static ccl_synth_options_t synth_of(const ccl_tune_point_t *point, double size_bytes) {
    ccl_synth_options_t o = CCL_SYNTH_OPTIONS_INIT;
    const double *v = point->values;
    if (ops_of(point)->by_size)
        o.size_bytes = size_bytes;
    o.channels = whole(v[CCL_KNOB_CHANNELS], 0);
    o.chunks = whole(v[CCL_KNOB_CHUNKS], 0);
    o.restarts = whole(v[CCL_KNOB_RESTARTS], 0);
    o.uniform_roots = whole(v[CCL_KNOB_ROOTS], 0) == 1;
    o.effort = whole(v[CCL_KNOB_EFFORT], 0);
    o.tau_ref_s = isnan(v[CCL_KNOB_TAU_REF]) ? 0 : v[CCL_KNOB_TAU_REF];
    o.ceiling = whole(v[CCL_KNOB_CAPACITY], 0) == 1;
    o.plain_start = whole(v[CCL_KNOB_START], 0) == 1;
    o.sketch.max_relays = whole(v[CCL_KNOB_MAX_RELAYS], CCL_NONE);
    o.sketch.max_stages = whole(v[CCL_KNOB_MAX_STAGES], 0);
    o.sketch.max_sketches = whole(v[CCL_KNOB_MAX_SKETCHES], 0);
    return o;
}

static ccl_way_t way_of(const ccl_tune_point_t *point) {
    const double *v = point->values;
    ccl_way_t given = {(ccl_order_t)whole(v[CCL_KNOB_ORDER], 0),
                       (ccl_allocation_t)whole(v[CCL_KNOB_ALLOCATE], 0),
                       (ccl_granularity_t)whole(v[CCL_KNOB_GRANULARITY], 0)};
    unsigned bits = (isnan(v[CCL_KNOB_ORDER]) ? 0u : CCL_WAY_ORDER) |
                    (isnan(v[CCL_KNOB_ALLOCATE]) ? 0u : CCL_WAY_ALLOCATION) |
                    (isnan(v[CCL_KNOB_GRANULARITY]) ? 0u : CCL_WAY_GRANULARITY);
    return ccl_way_choose(ops_of(point)->way, given, bits);
}

/* ---------------------------------------------------------------- schedules */

/* What a schedule depends on; malloc'ed. */
static char *key_of(const ccl_tune_point_t *point, double size_bytes) {
    double values[CCL_KNOBS];
    ccl_text_t text = {0};
    memcpy(values, point->values, sizeof values);
    for (uint32_t k = CCL_KNOB_ORDER; k < CCL_KNOBS; k++)
        values[k] = NAN;
    char *settings = ccl_space_settings(values);
    if (settings)
        ccl_text_printf(&text, "%s %.17g", settings, ops_of(point)->by_size ? size_bytes : 0.0);
    free(settings);
    if (!settings || text.nomem) {
        ccl_text_fini(&text);
        return NULL;
    }
    return text.data;
}

static ccl_status_t want_schedule(ccl_i_tuner_t *t, const ccl_tune_run_t *run, ccl_error_t *err) {
    const ccl_tune_point_t *point = &t->out->points[run->point];
    double size_bytes = t->out->sizes_bytes[run->size];
    char *key = key_of(point, size_bytes);
    if (!key)
        return ccl_fail_nomem(err);
    if (ccl_strmap_get(t->by_key, key) != CCL_NONE) {
        free(key);
        return CCL_OK;
    }
    made_t *m = calloc(1, sizeof *m);
    if (!m || !ccl_grow(&t->made, &t->made_cap, t->nmade + 1u, sizeof *t->made) ||
        !ccl_strmap_put(t->by_key, key, t->nmade)) {
        free(m);
        free(key);
        return ccl_fail_nomem(err);
    }
    m->key = key;
    m->point = point;
    m->size_bytes = size_bytes;
    t->made[t->nmade++] = m;
    return CCL_OK;
}

static ccl_status_t synthesize(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_tuner_t *t = user;
    made_t *m = t->made[t->first_new + index];
    ccl_ctx_t ctx = ccl_i_worker_ctx(t->ctx);
    ccl_synth_options_t options = synth_of(m->point, m->size_bytes);
    ccl_routes_t *routes = NULL;
    CCL_TRY(poll(t, "synthesize", worker));
    CCL_TRY(routes_of(t, worker, &routes, err));
    double start_s = ccl_now_s();
    m->status = ccl_synthesize(&ctx, ops_of(m->point)->name, t->topo, routes, t->want, &options,
                               &m->schedule, &m->err);
    m->synth_s = ccl_now_s() - start_s;
    if (!ccl_i_stops_all(m->status))
        return CCL_OK;
    if (err)
        *err = m->err;
    return m->status;
}

static void made_destroy(made_t *m) {
    if (!m)
        return;
    ccl_schedule_destroy(m->schedule);
    free(m->key);
    free(m);
}

/* Too many: all but those of the last round go. */
static ccl_status_t forget(ccl_i_tuner_t *t, ccl_error_t *err) {
    double transfers = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->nmade; i++)
        transfers += t->made[i]->schedule ? t->made[i]->schedule->ntransfers : 0;
    if (transfers <= KEPT_TRANSFERS)
        return CCL_OK;
    for (uint32_t i = 0; i < t->first_new; i++)
        made_destroy(t->made[i]);
    for (uint32_t i = t->first_new; i < t->nmade; i++)
        t->made[kept++] = t->made[i];
    t->nmade = kept;
    ccl_strmap_destroy(t->by_key);
    t->by_key = ccl_strmap_create();
    for (uint32_t i = 0; t->by_key && i < kept; i++)
        if (!ccl_strmap_put(t->by_key, t->made[i]->key, i))
            return ccl_fail_nomem(err);
    return t->by_key ? CCL_OK : ccl_fail_nomem(err);
}

/* ---------------------------------------------------------------- runs */

/*
 * One micro-batch, carried on: every further one takes as long as the busiest thread block or link
 * is busy in it.
 */
static double carried_on(const ccl_topology_t *topo, const ccl_sim_result_t *one,
                         uint32_t batches) {
    double period_s = 0;
    for (uint32_t i = 0; i < one->ntbs; i++)
        period_s = fmax(period_s, one->tbs[i].busy_s);
    for (uint32_t i = 0; i < one->nlinks; i++)
        period_s = fmax(period_s, one->links[i].bytes / topo->links[i].bandwidth_Bps);
    return one->time_s + (batches - 1) * period_s;
}

static ccl_status_t simulate(ccl_i_tuner_t *t, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                             const ccl_program_t *program, ccl_sim_options_t sim, bool estimate,
                             ccl_point_result_t *out, ccl_error_t *err) {
    ccl_sim_result_t *result = NULL;
    double size_bytes = sim.size_bytes;
    uint32_t batches = sim.batches;
    if (!batches)
        CCL_TRY(ccl_sim_default_batches(t->topo, routes, program, size_bytes, &batches, err));
    if (estimate) {
        sim.batches = 1;
        sim.size_bytes = size_bytes / batches;
    }
    CCL_TRY(ccl_sim_program(ctx, t->topo, routes, program, &sim, &result, err));
    out->time_s = estimate ? carried_on(t->topo, result, batches) : result->time_s;
    out->algbw_GBps = estimate ? size_bytes / out->time_s / 1e9 : result->algbw_GBps;
    out->busbw_GBps = out->algbw_GBps * ccl_collective_busbw_factor(t->want->kind, t->want->nranks);
    if (!estimate)
        out->busbw_GBps = result->busbw_GBps;
    out->batches = batches;
    ccl_sim_result_destroy(result);
    return CCL_OK;
}

static ccl_status_t lower_and_run(ccl_i_tuner_t *t, ccl_routes_t *routes, const made_t *m,
                                  ccl_tune_run_t *run, ccl_error_t *err) {
    const ccl_tune_point_t *point = &t->out->points[run->point];
    ccl_ctx_t ctx = ccl_i_worker_ctx(t->ctx);
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_way_t way = way_of(point);
    if (m->status != CCL_OK) {
        if (err)
            *err = m->err;
        return m->status;
    }
    lower.no_fuse = whole(point->values[CCL_KNOB_FUSE], 0) == 1;
    lower.slots = whole(point->values[CCL_KNOB_SLOTS], 0);
    sim.size_bytes = t->out->sizes_bytes[run->size];
    sim.batches = whole(point->values[CCL_KNOB_BATCHES], 0);
    sim.granularity = way.granularity;
    CCL_TRY(ccl_i_way_lower(&ctx, t->topo, routes, m->schedule, way, &lower, &sim, NULL, &program,
                            err));
    run->result.thread_blocks = ccl_i_most_blocks(program, way.granularity);
    ccl_status_t status = ccl_i_program_prove(&ctx, program, way.granularity, CCL_EXECUTOR_ANY,
                                              CCL_ERR_INTERNAL, err);
    if (status == CCL_OK)
        status = simulate(t, &ctx, routes, program, sim, run->estimate, &run->result, err);
    ccl_program_destroy(program);
    return status;
}

static ccl_point_t point_of(const ccl_i_tuner_t *t, const ccl_tune_run_t *run) {
    ccl_point_t p = {.settings = t->out->points[run->point].settings,
                     .seed = t->ctx ? t->ctx->seed : 1,
                     .size_bytes = t->out->sizes_bytes[run->size],
                     .estimate = run->estimate};
    memcpy(p.topology, t->topology, sizeof p.topology);
    memcpy(p.demand, t->demand, sizeof p.demand);
    return p;
}

static ccl_status_t evaluate(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_tuner_t *t = user;
    ccl_tune_run_t *run = &t->out->runs[t->missing[index]];
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_routes_t *routes = NULL;
    CCL_TRY(poll(t, "tune", worker));
    CCL_TRY(routes_of(t, worker, &routes, err));
    char *key = key_of(&t->out->points[run->point], t->out->sizes_bytes[run->size]);
    if (!key)
        return ccl_fail_nomem(err);
    const made_t *m = t->made[ccl_strmap_get(t->by_key, key)];
    free(key);
    double start_s = ccl_now_s();
    ccl_status_t status = lower_and_run(t, routes, m, run, &why);
    if (ccl_i_stops_all(status)) {
        if (err)
            *err = why;
        return status;
    }
    run->result.eval_s = ccl_now_s() - start_s;
    run->result.synth_s = m->synth_s;
    run->result.bound_s = t->out->bound_s[run->size];
    snprintf(run->result.why, sizeof run->result.why, "%.255s", why.text);
    if (t->options->notebook) {
        ccl_point_t point = point_of(t, run);
        run->result.status = status;
        CCL_TRY_GOTO(
            ccl_notebook_add(t->options->notebook, &point, &run->result, t->options->profile, err),
            run->result.status, failed);
    }
    run->result.status = status;
    atomic_fetch_add(&t->done, 1);
    return CCL_OK;
failed:
    status = run->result.status;
    run->result.status = CCL_INTERRUPTED;
    return status;
}

/* Of the round: what the notebook has is taken, schedules of the rest are asked for. */
static ccl_status_t resume(ccl_i_tuner_t *t, uint32_t *nmissing_out, ccl_error_t *err) {
    uint32_t n = 0;
    for (uint32_t i = t->first_run; i < t->out->nruns; i++) {
        ccl_tune_run_t *run = &t->out->runs[i];
        bool found = false;
        if (t->options->notebook) {
            ccl_point_t point = point_of(t, run);
            CCL_TRY(ccl_notebook_find(t->options->notebook, &point, &run->result, &found, err));
        }
        run->resumed = found;
        if (found) {
            atomic_fetch_add(&t->done, 1);
            continue;
        }
        run->result.status = CCL_INTERRUPTED; /* until it is done */
        CCL_TRY(want_schedule(t, run, err));
        t->missing[n++] = i;
    }
    *nmissing_out = n;
    return CCL_OK;
}

static void take_best(ccl_i_tuner_t *t) {
    ccl_tuning_t *r = t->out;
    for (uint32_t i = t->first_run; i < r->nruns; i++) {
        const ccl_tune_run_t *run = &r->runs[i];
        uint32_t *best = &r->best[run->size], *untuned = &r->untuned[run->size];
        if (run->estimate || run->result.status != CCL_OK)
            continue;
        if (*best == CCL_NONE || run->result.time_s < r->runs[*best].result.time_s)
            *best = i;
        if (run->point < r->nuntuned &&
            (*untuned == CCL_NONE || run->result.time_s < r->runs[*untuned].result.time_s))
            *untuned = i;
        r->done[run->size] =
            r->runs[*best].result.time_s <= r->bound_s[run->size] * (1 + t->options->gap);
    }
}

/* Runs that did not come to their end are dropped. */
static void drop_unfinished(ccl_i_tuner_t *t) {
    uint32_t kept = t->first_run;
    for (uint32_t i = t->first_run; i < t->out->nruns; i++)
        if (t->out->runs[i].result.status != CCL_INTERRUPTED)
            t->out->runs[kept++] = t->out->runs[i];
    t->out->nruns = kept;
}

static ccl_status_t finish_round(ccl_i_tuner_t *t, ccl_error_t *err) {
    uint32_t nmissing = 0;
    ccl_status_t status = CCL_OK;
    t->first_new = t->nmade;
    CCL_TRY_GOTO(resume(t, &nmissing, err), status, end);
    CCL_TRY_GOTO(ccl_parallel_for(t->nmade - t->first_new, t->threads, synthesize, t, err), status,
                 end);
    for (uint32_t i = t->first_new; i < t->nmade; i++)
        t->out->synth_s += t->made[i]->synth_s;
    t->out->schedules += t->nmade - t->first_new;
    status = ccl_parallel_for(nmissing, t->threads, evaluate, t, err);
end:
    for (uint32_t i = t->first_run; i < t->out->nruns; i++)
        if (!t->out->runs[i].resumed)
            t->out->eval_s += t->out->runs[i].result.eval_s;
    drop_unfinished(t);
    take_best(t);
    t->first_run = t->out->nruns;
    CCL_TRY(status);
    return forget(t, err);
}

bool ccl_i_tune_spent(const ccl_i_tuner_t *t, double share) {
    const ccl_tune_options_t *o = t->options;
    bool all_done = true;
    for (uint32_t s = 0; s < t->out->nsizes; s++)
        all_done &= t->out->done[s];
    if (all_done) {
        t->out->stopped = "gap";
        return true;
    }
    bool spent = (o->budget_runs && t->out->nruns >= ceil(share * (double)o->budget_runs)) ||
                 (o->budget_s > 0 && ccl_now_s() - t->start_s >= share * o->budget_s);
    if (spent)
        t->out->stopped = "budget";
    return spent;
}

ccl_status_t ccl_i_tune_run(ccl_i_tuner_t *t, uint32_t point, uint32_t size, bool estimate,
                            ccl_error_t *err) {
    ccl_tuning_t *r = t->out;
    char key[48];
    if (r->done[size] && point >= r->nuntuned)
        return CCL_OK;
    if (t->options->budget_runs && r->nruns >= t->options->budget_runs)
        return CCL_OK;
    snprintf(key, sizeof key, "%u %u %d", point, size, estimate);
    if (ccl_strmap_get(t->by_run, key) != CCL_NONE)
        return CCL_OK;
    if (!ccl_strmap_put(t->by_run, key, 0) ||
        !ccl_grow(&r->runs, &r->runs_cap, r->nruns + 1u, sizeof *r->runs))
        return ccl_fail_nomem(err);
    r->runs[r->nruns++] = (ccl_tune_run_t){.point = point, .size = size, .estimate = estimate};
    return r->nruns - t->first_run == ROUND ? finish_round(t, err) : CCL_OK;
}

ccl_status_t ccl_i_tune_flush(ccl_i_tuner_t *t, ccl_error_t *err) {
    return t->out->nruns > t->first_run ? finish_round(t, err) : CCL_OK;
}

/* ---------------------------------------------------------------- set up */

ccl_tuning_t *ccl_i_tuner_result(ccl_i_tuner_t *t) {
    return t->out;
}

const ccl_tune_options_t *ccl_i_tuner_options(const ccl_i_tuner_t *t) {
    return t->options;
}

const ccl_topology_t *ccl_i_tuner_topology(const ccl_i_tuner_t *t) {
    return t->topo;
}

const ccl_collective_t *ccl_i_tuner_collective(const ccl_i_tuner_t *t) {
    return t->want;
}

uint64_t ccl_i_tuner_seed(const ccl_i_tuner_t *t) {
    return t->ctx ? t->ctx->seed : 1;
}

/* Demands by what they ask: name, chunks with sources, destinations and shares. */
static void demand_text(const ccl_collective_t *c, ccl_text_t *out) {
    ccl_text_printf(out, "%s nranks %u root %u\n", c->name, c->nranks, c->root);
    for (uint32_t k = 0; c->kind == CCL_CUSTOM && k < c->nchunks; k++) {
        const ccl_chunk_t *chunk = &c->chunks[k];
        ccl_text_printf(out, "%.17g%s from", chunk->share, chunk->reduced ? " reduced" : "");
        for (uint32_t i = 0; i < chunk->nsources; i++)
            ccl_text_printf(out, " %u", chunk->sources[i]);
        ccl_text_printf(out, " to");
        for (uint32_t i = 0; i < chunk->ndests; i++)
            ccl_text_printf(out, " %u", chunk->dests[i]);
        ccl_text_printf(out, "\n");
    }
}

static ccl_status_t inputs(ccl_i_tuner_t *t, ccl_error_t *err) {
    ccl_text_t text = {0}, demand = {0};
    ccl_status_t status = ccl_topology_write_json(t->topo, &text, err);
    demand_text(t->want, &demand);
    if (status == CCL_OK && (text.nomem || demand.nomem))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_notebook_input(t->options->notebook, "topology", t->topo->name, text.data,
                                    text.len, t->topology, err);
    if (status == CCL_OK)
        status = ccl_notebook_input(t->options->notebook, "demand", t->want->name, demand.data,
                                    demand.len, t->demand, err);
    ccl_text_fini(&text);
    ccl_text_fini(&demand);
    return status;
}

static ccl_status_t allocate(ccl_i_tuner_t *t, ccl_error_t *err) {
    uint32_t n = t->options->nsizes;
    ccl_bound_t bound;
    ccl_tuning_t *r = t->out = calloc(1, sizeof *r);
    t->routes = calloc(t->threads, sizeof *t->routes);
    t->missing = calloc(ROUND, sizeof *t->missing);
    t->by_settings = ccl_strmap_create();
    t->by_run = ccl_strmap_create();
    t->by_key = ccl_strmap_create();
    if (!r || !t->routes || !t->missing || !t->by_settings || !t->by_run || !t->by_key)
        return ccl_fail_nomem(err);
    r->sizes_bytes = calloc(n, sizeof *r->sizes_bytes);
    r->bound_s = calloc(n, sizeof *r->bound_s);
    r->best = calloc(n, sizeof *r->best);
    r->untuned = calloc(n, sizeof *r->untuned);
    r->done = calloc(n, sizeof *r->done);
    if (!r->sizes_bytes || !r->bound_s || !r->best || !r->untuned || !r->done)
        return ccl_fail_nomem(err);
    r->nsizes = n;
    r->stopped = "space";
    CCL_TRY(ccl_bound(t->ctx, t->topo, t->want, NULL, &bound, err));
    for (uint32_t s = 0; s < n; s++) {
        r->sizes_bytes[s] = t->options->sizes_bytes[s];
        r->bound_s[s] = ccl_bound_time_s(&bound, r->sizes_bytes[s]);
        r->best[s] = r->untuned[s] = CCL_NONE;
    }
    ccl_bound_fini(&bound);
    return CCL_OK;
}

static ccl_status_t check_options(const ccl_topology_t *topo, const ccl_collective_t *want,
                                  const ccl_tune_options_t *o, ccl_error_t *err) {
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    if (o->nsizes == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "nothing to tune: no size");
    for (uint32_t i = 0; i < o->nsizes; i++)
        if (!(o->sizes_bytes[i] > 0) || !isfinite(o->sizes_bytes[i]))
            return ccl_fail(err, CCL_ERR_INPUT, "size %u is %g bytes: more than 0 is needed", i,
                            o->sizes_bytes[i]);
    if (!(o->gap >= 0))
        return ccl_fail(err, CCL_ERR_INPUT, "the gap must be 0 or more");
    return CCL_OK;
}

static void tuner_fini(ccl_i_tuner_t *t) {
    for (uint32_t i = 0; i < t->nmade; i++)
        made_destroy(t->made[i]);
    for (uint32_t i = 0; t->routes && i < t->threads; i++)
        ccl_routes_destroy(t->routes[i]);
    ccl_strmap_destroy(t->by_settings);
    ccl_strmap_destroy(t->by_run);
    ccl_strmap_destroy(t->by_key);
    free(t->made);
    free(t->routes);
    free(t->missing);
}

ccl_status_t ccl_tune(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                      const ccl_collective_t *want, const ccl_tune_options_t *options,
                      ccl_tuning_t **out, ccl_error_t *err) {
    ccl_i_tuner_t t = {.ctx = ctx, .topo = topo, .want = want, .options = options};
    ccl_status_t status;
    CCL_TRY(check_options(topo, want, options, err));
    t.threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    t.start_s = ccl_now_s();
    atomic_init(&t.done, 0);
    CCL_TRY_GOTO(allocate(&t, err), status, end);
    CCL_TRY_GOTO(inputs(&t, err), status, end);
    status = ccl_i_tune_search(&t, err);
    if (status == CCL_INTERRUPTED) {
        t.out->interrupted = true;
        t.out->stopped = "interrupted";
    }
    if (status == CCL_OK || status == CCL_INTERRUPTED) {
        *out = t.out;
        t.out = NULL;
    }
end:
    tuner_fini(&t);
    ccl_tuning_destroy(t.out);
    return status;
}

void ccl_tuning_destroy(ccl_tuning_t *tuning) {
    if (!tuning)
        return;
    for (uint32_t i = 0; i < tuning->npoints; i++)
        free(tuning->points[i].settings);
    free(tuning->points);
    free(tuning->runs);
    free(tuning->sizes_bytes);
    free(tuning->bound_s);
    free(tuning->best);
    free(tuning->untuned);
    free(tuning->done);
    free(tuning);
}
