/* One run of a point: lowering, proof, simulation; estimates look at one micro-batch. */
#include "search/improve/improve.h"
#include "search/notebook/store.h"
#include "search/tune/tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ccl_way_t ccl_i_point_way(const double v[CCL_KNOBS]) {
    ccl_way_t given = {(ccl_order_t)ccl_i_whole(v[CCL_KNOB_ORDER], 0),
                       (ccl_allocation_t)ccl_i_whole(v[CCL_KNOB_ALLOCATE], 0),
                       (ccl_granularity_t)ccl_i_whole(v[CCL_KNOB_GRANULARITY], 0)};
    unsigned bits = (isnan(v[CCL_KNOB_ORDER]) ? 0u : CCL_WAY_ORDER) |
                    (isnan(v[CCL_KNOB_ALLOCATE]) ? 0u : CCL_WAY_ALLOCATION) |
                    (isnan(v[CCL_KNOB_GRANULARITY]) ? 0u : CCL_WAY_GRANULARITY);
    return ccl_way_choose(ccl_i_point_ops(v)->way, given, bits);
}

ccl_lower_options_t ccl_i_point_lower(const double v[CCL_KNOBS]) {
    static const ccl_knob_t knobs[] = {CCL_KNOB_PROTO, CCL_KNOB_FUSE, CCL_KNOB_SLOTS};
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    for (size_t i = 0; i < CCL_ARRAY_LEN(knobs); i++)
        ccl_option_put(ccl_knob_option(knobs[i]), v[knobs[i]], &lower);
    lower.asked = !isnan(v[CCL_KNOB_ORDER]) || !isnan(v[CCL_KNOB_ALLOCATE]) ||
                  !isnan(v[CCL_KNOB_GRANULARITY]);
    return lower;
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

void ccl_i_result_usage(const ccl_program_t *program, const ccl_sim_result_t *run,
                        ccl_point_result_t *out) {
    ccl_sim_usage_t usage;
    ccl_sim_usage(program, run, &usage);
    out->comm_share = usage.comm_share;
    out->mean_idle_share = usage.mean_idle_share;
    out->max_idle_share = usage.max_idle_share;
    out->link_utilization = usage.link_utilization;
}

/* A run of a program is the same whoever asked for it. */
static bool same_run(const ccl_sim_result_t *known, const ccl_sim_options_t *sim,
                     uint32_t batches) {
    return known && known->size_bytes == sim->size_bytes && known->batches == batches;
}

static ccl_sim_options_t sim_of(const double v[CCL_KNOBS], double size_bytes,
                                ccl_granularity_t granularity) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    sim.size_bytes = size_bytes;
    ccl_option_put(ccl_knob_option(CCL_KNOB_BATCHES), v[CCL_KNOB_BATCHES], &sim);
    sim.granularity = granularity;
    return sim;
}

/* A point's schedule, and how it is lowered and run. */
typedef struct lowering {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const ccl_schedule_t *schedule;
    const double *values; /* [CCL_KNOBS] */
    ccl_way_t way;
    ccl_sim_options_t sim;
    ccl_lower_options_t lower;
} lowering_t;

/* Lowers a point's schedule, improved first where the point says so. */
static ccl_status_t lower_point(const lowering_t *l, bool improve, ccl_program_t **out,
                                ccl_error_t *err) {
    const ccl_schedule_t *schedule = l->schedule;
    ccl_lower_options_t lower = l->lower;
    ccl_improve_options_t options = CCL_IMPROVE_OPTIONS_INIT;
    ccl_improvement_t better = {0};
    options.tries = /* moves are of plain transfers */
        improve && schedule->ngroups == 0 ? ccl_i_whole(l->values[CCL_KNOB_IMPROVE], 0) : 0;
    if (options.tries > 0) {
        options.way = ccl_i_point_way(l->values);
        options.lower = lower;
        options.lower.routes = l->routes;
        options.lower.run_out = NULL;
        options.lower.memo = NULL;
        options.sim = l->sim;
        CCL_TRY(ccl_improve(l->ctx, l->topo, schedule, &options, &better, err));
        lower.memo = better.schedule ? NULL : lower.memo; /* of the schedule as it was */
    }
    ccl_make_options_t make = ccl_i_make_options(l->way, &lower, &l->sim);
    make.no_prove = true; /* once for all runs of it */
    ccl_status_t status = ccl_make_program(
        l->ctx, l->topo, l->routes, better.schedule ? better.schedule : schedule, &make, out, err);
    ccl_schedule_destroy(better.schedule);
    return status;
}

/*
 * A block sends over one connection and receives over one, unless it is merged: so a GPU needs as
 * many blocks as it has connections either way. @param rank_out  who has no room for them;
 * CCL_NONE.
 */
static ccl_status_t find_crowded(const ccl_topology_t *topo, const ccl_schedule_t *schedule,
                                 uint32_t *rank_out, ccl_error_t *err) {
    size_t n = topo->nranks, channels = schedule->nchannels ? schedule->nchannels : 1;
    *rank_out = CCL_NONE;
    if (schedule->ngroups > 0 || n * n * channels > (size_t)1 << 26) /* lowering will refuse it */
        return CCL_OK;
    uint8_t *seen = calloc(n * n * channels, 1);
    uint32_t *ends = calloc(n, 2 * sizeof *ends);
    for (uint32_t i = 0; seen && ends && i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        uint8_t *mark = &seen[(t->channel * n + t->src) * n + t->dst];
        ends[2 * t->src] += !*mark;
        ends[2 * t->dst + 1] += !*mark;
        *mark = 1;
    }
    for (uint32_t r = 0; seen && ends && r < n && *rank_out == CCL_NONE; r++) {
        uint32_t sms = ccl_model_gpu(topo, r).sms;
        if (sms && (ends[2 * r] > sms || ends[2 * r + 1] > sms))
            *rank_out = r;
    }
    ccl_status_t status = seen && ends ? CCL_OK : ccl_fail_nomem(err);
    free(seen);
    free(ends);
    return status;
}

ccl_status_t ccl_i_tune_lower(ccl_i_tuner_t *t, const ccl_topology_t *topo, ccl_routes_t *routes,
                              const ccl_i_made_t *m, const ccl_tune_run_t *run,
                              ccl_i_lowered_t *out, ccl_error_t *err) {
    enum { SMALL = 100000 }; /* transfers; merging is looked at only where that is soon done */
    const double *v = t->out->points[run->point].values;
    const ccl_schedule_t *schedule = m->shared->schedule;
    ccl_ctx_t ctx = ccl_i_worker_ctx(t->ctx);
    ccl_way_t way = ccl_i_point_way(v);
    lowering_t l = {.ctx = &ctx,
                    .topo = topo,
                    .routes = routes,
                    .schedule = schedule,
                    .values = v,
                    .way = way,
                    .sim = sim_of(v, t->out->sizes_bytes[run->size], way.granularity),
                    .lower = ccl_i_point_lower(v)};
    l.lower.memo = topo == t->topo ? m->shared->memo : NULL;
    l.lower.run_out = &out->run;
    bool improved = !run->estimate && !isnan(v[CCL_KNOB_IMPROVE]),
         merged = way.allocation == CCL_ALLOCATE_STATE;
    bool can_merge = merged && (!run->estimate || schedule->ntransfers <= SMALL);
    uint32_t crowded;
    CCL_TRY(find_crowded(topo, schedule, &crowded, err));
    if (crowded != CCL_NONE && !improved && !can_merge)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "%s: rank %u has more connections than its %s has room for thread blocks",
                        schedule->name, crowded, ccl_model_gpu(topo, crowded).name);
    if (!run->estimate || crowded != CCL_NONE)
        return lower_point(&l, !run->estimate, &out->program, err);
    l.lower.rough = true;
    ccl_make_options_t make = ccl_i_make_options(way, &l.lower, &l.sim);
    make.no_prove = true;
    ccl_status_t status = ccl_make_program(&ctx, topo, routes, schedule, &make, &out->program, err);
    if (status != CCL_UNSUPPORTED || !can_merge)
        return status;
    l.lower.rough = false; /* merged there may be room for it */
    return lower_point(&l, false, &out->program, err);
}

ccl_status_t ccl_i_tune_simulate(ccl_i_tuner_t *t, const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const ccl_program_t *program, const ccl_sim_result_t *known,
                                 ccl_tune_run_t *run, ccl_error_t *err) {
    const double *v = t->out->points[run->point].values;
    ccl_ctx_t ctx = ccl_i_worker_ctx(t->ctx);
    ccl_way_t way = ccl_i_point_way(v);
    ccl_sim_options_t sim = sim_of(v, t->out->sizes_bytes[run->size], way.granularity);
    ccl_point_result_t *out = &run->result;
    out->thread_blocks = ccl_i_most_blocks(program, way.granularity);
    bool estimate = run->estimate;
    ccl_sim_result_t *own = NULL;
    double size_bytes = sim.size_bytes;
    uint32_t batches = sim.batches;
    if (!batches)
        CCL_TRY(ccl_sim_default_batches(topo, routes, program, size_bytes, &batches, err));
    if (estimate) {
        sim.batches = 1;
        sim.size_bytes = size_bytes / batches;
    }
    if (!same_run(known, &sim, estimate ? 1 : batches))
        CCL_TRY(ccl_sim_program(&ctx, topo, routes, program, &sim, &own, err));
    const ccl_sim_result_t *result = own ? own : known;
    out->time_s = estimate ? carried_on(topo, result, batches) : result->time_s;
    out->algbw_GBps = estimate ? size_bytes / out->time_s / 1e9 : result->algbw_GBps;
    out->busbw_GBps = out->algbw_GBps * ccl_collective_busbw_factor(t->want->kind, t->want->nranks);
    if (!estimate)
        out->busbw_GBps = result->busbw_GBps;
    out->batches = batches;
    ccl_origin_set(out->origin, "%s", program->origin);
    out->comm_share = out->mean_idle_share = out->max_idle_share = out->link_utilization = NAN;
    if (!estimate)
        ccl_i_result_usage(program, result, out);
    ccl_sim_result_destroy(own);
    return CCL_OK;
}

/* What an executor can run: it knows no levels and no blocks that connections share. */
static ccl_way_t within(ccl_way_t way, const ccl_tune_target_t *target) {
    if (target->executor == CCL_EXECUTOR_ANY && !target->plan)
        return way;
    way.granularity = CCL_GRANULARITY_ALGORITHM;
    if (way.allocation == CCL_ALLOCATE_STATE)
        way.allocation = CCL_ALLOCATE_CONNECTION;
    return way;
}

ccl_status_t ccl_tune_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const ccl_collective_t *want, const double values[CCL_KNOBS],
                              double size_bytes, const ccl_tune_target_t *target,
                              ccl_program_t **out, ccl_way_t *way_out, ccl_error_t *err) {
    ccl_ctx_t inner = ccl_i_worker_ctx(ctx);
    ccl_executor_t executor = target->executor;
    ccl_way_t way = within(ccl_i_point_way(values), target);
    ccl_synth_options_t synth = ccl_i_point_synth(values, size_bytes);
    lowering_t l = {.ctx = &inner,
                    .topo = topo,
                    .routes = ccl_routes_create(topo),
                    .values = values,
                    .way = way,
                    .sim = sim_of(values, size_bytes, way.granularity),
                    .lower = ccl_i_point_lower(values)};
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    l.lower.executor = executor;
    l.lower.out_of_place = target->out_of_place;
    if (target->proto)
        l.lower.proto = target->proto;
    synth.plain = executor != CCL_EXECUTOR_ANY;
    synth.no_switches = !ccl_protocol_switches(l.lower.proto);
    ccl_status_t status = l.routes ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_synthesize(&inner, ccl_i_point_ops(values)->name, topo, l.routes, want, &synth,
                                &schedule, err);
    l.schedule = schedule;
    if (status == CCL_OK)
        status = lower_point(&l, true, &program, err);
    if (status == CCL_OK)
        status = ccl_make_proven(&inner, program, way.granularity, executor, CCL_ERR_INTERNAL, err);
    if (status == CCL_OK) {
        *out = program;
        program = NULL;
        if (way_out)
            *way_out = way;
    }
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_routes_destroy(l.routes);
    return status;
}

char *ccl_i_tune_work(const ccl_i_tuner_t *t, const ccl_tune_run_t *run, const ccl_i_made_t *m) {
    const double *v = t->out->points[run->point].values;
    ccl_way_t way = ccl_i_point_way(v);
    ccl_text_t text = {0};
    ccl_text_printf(&text, "%s %d %d %d %u %d", m->shared->content, way.order, way.allocation,
                    way.granularity, run->size, run->estimate);
    for (uint32_t k = CCL_KNOB_FUSE; k < CCL_KNOBS; k++)
        if (k != CCL_KNOB_IMPROVE || !run->estimate)
            ccl_text_printf(&text, " %.17g", v[k]);
    if (!text.nomem)
        return text.data;
    ccl_text_fini(&text);
    return NULL;
}

ccl_point_t ccl_i_tune_notebook_point(const ccl_i_tuner_t *t, const ccl_tune_run_t *run) {
    ccl_point_t p = {.settings = t->out->points[run->point].settings,
                     .seed = t->ctx ? t->ctx->seed : 1,
                     .size_bytes = t->out->sizes_bytes[run->size],
                     .estimate = run->estimate};
    memcpy(p.topology, t->topology, sizeof p.topology);
    memcpy(p.demand, t->demand, sizeof p.demand);
    return p;
}

ccl_status_t ccl_i_tune_keep(ccl_i_tuner_t *t, ccl_tune_run_t *run, ccl_status_t status,
                             ccl_error_t *err) {
    run->scarce |= status == CCL_ERR_NOMEM;
    if (t->options->notebook && !run->scarce) {
        double start_s = ccl_now_s();
        ccl_point_t point = ccl_i_tune_notebook_point(t, run);
        run->result.status = status;
        ccl_status_t kept = (t->lazy ? ccl_i_notebook_add_lazily : ccl_notebook_add)(
            t->options->notebook, &point, &run->result, t->options->profile, err);
        if (kept != CCL_OK) {
            run->result.status = CCL_INTERRUPTED;
            return kept;
        }
        ccl_i_tune_spend(&t->notebook_ns, start_s);
    }
    run->result.status = status;
    atomic_fetch_add(&t->done, 1);
    return CCL_OK;
}
