/*
 * One contender of a comparison made ready, and one of its runs: synthesis, lowering and proof once
 * or by size, simulation, what goes to the notebook.
 */
#include "search/compare/cells.h"
#include "search/compare/shared.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Primitives of all programs of a contender, over its sizes, that are kept for the runs that find
   ties (some 100 MB); larger ones are lowered again. */
static const double KEPT_STEPS = 2e6;

/* "cegis at 64M, sketch at 1M and 2 more". */
static void tell_running(const ccl_i_compare_t *c, char *out, size_t len) {
    uint32_t nc = c->options->ncontenders, told = 0, more = 0;
    size_t n = 0;
    for (uint32_t w = 0; w < c->threads; w++) {
        uint32_t cell = atomic_load(&c->running[w]);
        char size[32];
        if (cell == CCL_NONE)
            continue;
        if (told == 3 || n >= len) {
            more++;
            continue;
        }
        ccl_format_bytes(c->options->sizes_bytes[cell / nc], size, sizeof size);
        n += (size_t)snprintf(out + n, len - n, "%s%s at %s", told++ ? ", " : "",
                              c->options->contenders[cell % nc].name, size);
    }
    if (more && n < len)
        snprintf(out + n, len - n, " and %u more", more);
}

bool ccl_i_compare_begin(ccl_i_compare_t *c, uint32_t size, uint32_t contender, uint32_t worker) {
    char running[200] = "";
    ccl_ctx_t quiet = c->ctx ? *c->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    atomic_store(&c->running[worker], size * c->options->ncontenders + contender);
    if (worker != 0) /* callbacks come from one thread only */
        quiet.progress = NULL;
    if (quiet.progress)
        tell_running(c, running, sizeof running);
    ccl_progress_t progress = {running, atomic_load(&c->done), c->total, 0, 0};
    if (!atomic_load(&c->interrupted) && ccl_ctx_poll(&quiet, &progress) == CCL_OK)
        return true;
    atomic_store(&c->interrupted, true);
    return false;
}

ccl_status_t ccl_i_compare_routes(ccl_i_compare_t *c, uint32_t worker, ccl_routes_t **out,
                                  ccl_error_t *err) {
    if (!c->routes[worker])
        c->routes[worker] = ccl_routes_create(c->topo);
    if (!c->routes[worker])
        return ccl_fail_nomem(err);
    *out = c->routes[worker];
    return CCL_OK;
}

void ccl_i_compare_end_routes(ccl_i_compare_t *c, uint32_t worker) {
    ccl_routes_destroy(c->routes[worker]);
    c->routes[worker] = NULL;
}

static ccl_sim_options_t sim_of(const ccl_i_compare_t *c, uint32_t contender, double size_bytes) {
    ccl_sim_options_t sim = c->options->sim;
    sim.size_bytes = size_bytes;
    sim.granularity = c->ready[contender].way.granularity;
    sim.trace = NULL;
    return sim;
}

ccl_way_t ccl_i_compare_way(const ccl_i_compare_t *c, uint32_t i) {
    const ccl_contender_t *contender = &c->options->contenders[i];
    const ccl_synth_ops_t *ops =
        contender->program || contender->schedule ? NULL : ccl_synth_find(contender->name);
    if (contender->library)
        return (ccl_way_t){0};
    const ccl_way_t *way = contender->way ? contender->way : ops ? ops->way : NULL;
    ccl_way_t given = {c->options->lower.order, c->options->lower.allocation,
                       c->options->sim.granularity};
    if (contender->program || !way)
        return given;
    return ccl_way_choose(way, given, c->options->way_bits);
}

/* The contender's schedule for one size. */
static ccl_status_t synthesize_at(const ccl_i_compare_t *c, const ccl_ctx_t *ctx,
                                  ccl_routes_t *routes, uint32_t contender, uint32_t size,
                                  ccl_schedule_t **out, ccl_error_t *err) {
    ccl_synth_options_t synth = c->options->synth;
    ccl_synth_stats_t stats = {0};
    if (synth.size == 0)
        synth = (ccl_synth_options_t)CCL_SYNTH_OPTIONS_INIT;
    if (c->ready[contender].by_size)
        synth.size_bytes = c->options->sizes_bytes[size];
    synth.hope_s = c->hope_s[(size_t)size * c->options->ncontenders + contender];
    synth.stats = &stats;
    synth.plain |= c->options->lower.executor != CCL_EXECUTOR_ANY;
    synth.no_switches |= !ccl_protocol_switches(c->options->lower.proto);
    ccl_status_t status = ccl_synthesize(ctx, c->options->contenders[contender].name, c->topo,
                                         routes, c->want, &synth, out, err);
    atomic_fetch_add(&c->ready[contender].dropped, stats.dropped);
    return status;
}

/* Whether lowering simulates just what a comparison reports. */
static bool runs_alike(const ccl_sim_options_t *sim) {
    return sim->sharing == CCL_SHARING_FAIR && !sim->no_skip && !sim->no_fold && !sim->step_times &&
           !sim->path && !sim->intervals && !sim->cause;
}

/* Lower for one size and, unless that comes later, prove what came out. */
static ccl_status_t lower_at(const ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                             ccl_routes_t *routes, ccl_i_cell_lower_t as, ccl_program_t **out,
                             ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ctx.runs = c->ready[contender].runs;
    const ccl_way_t way = c->ready[contender].way;
    ccl_sim_options_t sim = sim_of(c, contender, c->options->sizes_bytes[size]);
    const ccl_contender_t *by = &c->options->contenders[contender];
    ccl_lower_options_t lower = c->options->lower;
    if (as.proto)
        lower.proto = as.proto;
    lower.asked = c->options->way_bits != 0;
    lower.run_out = as.run_out && runs_alike(&sim) ? as.run_out : NULL;
    ccl_make_options_t make = ccl_i_make_options(way, &lower, &sim);
    make.no_prove = as.prove_later || (by->schedule && c->options->no_verify);
    make.wrong = by->schedule ? CCL_CHECK : CCL_ERR_INTERNAL;
    return ccl_make_program(&ctx, c->topo, routes, as.schedule, &make, out, err);
}

static ccl_status_t check_ranks(const ccl_i_compare_t *c, const char *form,
                                const ccl_collective_t *coll, ccl_error_t *err) {
    if (coll->nranks != c->topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the %s has %u ranks, the topology %u", form,
                        coll->nranks, c->topo->nranks);
    if (coll->kind != c->want->kind)
        return ccl_fail(err, CCL_ERR_INPUT, "the %s is an %s, not an %s", form, coll->name,
                        c->want->name);
    return CCL_OK;
}

ccl_status_t ccl_i_compare_prove(const ccl_i_compare_t *c, uint32_t contender,
                                 const ccl_program_t *program, ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    const ccl_contender_t *by = &c->options->contenders[contender];
    ctx.threads = c->alone ? c->threads : 1;
    if (by->schedule && c->options->no_verify)
        return CCL_OK;
    return ccl_make_proven(&ctx, program, c->ready[contender].way.granularity,
                           c->options->lower.executor, by->schedule ? CCL_CHECK : CCL_ERR_INTERNAL,
                           err);
}

/* One program for all sizes. Its schedule ends before the proof, which takes much memory. */
static ccl_status_t prepare_once(ccl_i_compare_t *c, uint32_t i, ccl_routes_t *routes,
                                 ccl_error_t *err) {
    ccl_i_ready_t *r = &c->ready[i];
    CCL_TRY(lower_at(c, 0, i, routes,
                     (ccl_i_cell_lower_t){.schedule = r->schedule, .prove_later = true}, &r->own,
                     err));
    r->schedule = NULL;
    ccl_schedule_destroy(r->made);
    r->made = NULL;
    if (c->alone)
        ccl_i_compare_give_back();
    CCL_TRY(ccl_i_compare_prove(c, i, r->own, err));
    r->program = r->own;
    ccl_i_compare_views(r);
    return CCL_OK;
}

static ccl_status_t prepare_program(ccl_i_compare_t *c, uint32_t i, uint32_t worker,
                                    ccl_error_t *err) {
    const ccl_contender_t *contender = &c->options->contenders[i];
    ccl_i_ready_t *r = &c->ready[i];
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_routes_t *routes = NULL;
    if (!r->runs)
        r->runs = ccl_runs_create(c->topo);
    ctx.runs = r->runs;
    CCL_TRY(ccl_i_compare_routes(c, worker, &routes, err));
    if (contender->library)
        return ccl_i_nccl_prepare(c, &ctx, &r->nccl, err);
    if (contender->program) {
        r->program = contender->program;
        CCL_TRY(check_ranks(c, "program", r->program->coll, err));
        return c->options->no_verify ? CCL_OK
                                     : ccl_make_proven(&ctx, r->program, r->way.granularity,
                                                       CCL_EXECUTOR_ANY, CCL_CHECK, err);
    }
    if (contender->schedule) {
        r->schedule = contender->schedule;
        CCL_TRY(check_ranks(c, "schedule", r->schedule->coll, err));
    } else {
        const ccl_synth_ops_t *ops = ccl_synth_find(contender->name);
        r->by_size = ops && ops->by_size && c->options->nsizes > 0;
        double start_s = ccl_now_s();
        CCL_TRY(synthesize_at(c, &ctx, routes, i, r->first, &r->made, err));
        r->synth_s = ccl_now_s() - start_s;
        r->schedule = r->made;
        if (c->alone) { /* few need as many routes as synthesizers */
            ccl_i_compare_end_routes(c, worker);
            CCL_TRY(ccl_i_compare_routes(c, worker, &routes, err));
        }
    }
    /* HPDS and state look at runs, capacity at the bytes of a piece: each size is lowered for
       itself. */
    if (r->by_size || r->way.allocation != CCL_ALLOCATE_CONNECTION ||
        r->way.order == CCL_ORDER_HPDS) {
        r->kept = calloc(c->options->nsizes, sizeof *r->kept);
        r->at = calloc(c->options->nsizes, sizeof *r->at);
        return r->kept && r->at ? CCL_OK : ccl_fail_nomem(err);
    }
    return prepare_once(c, i, routes, err);
}

/* Is something of contender i to be run, and what is the first? */
static bool wanted(const ccl_i_compare_t *c, uint32_t i, uint32_t *first) {
    uint32_t nc = c->options->ncontenders;
    for (uint32_t s = 0; s < c->options->nsizes; s++) {
        bool again = c->out->winner[s] == i;
        for (uint32_t k = 0; k < c->nagain && !again; k++)
            again = c->again[k] == s * nc + i;
        if (c->known[(size_t)s * nc + i] && !again)
            continue;
        *first = s;
        return true;
    }
    return false;
}

/* prepare_program(), counted. */
static ccl_status_t prepare_counted(ccl_i_compare_t *c, uint32_t i, uint32_t worker,
                                    ccl_error_t *err) {
    const ccl_contender_t *contender = &c->options->contenders[i];
    uint32_t one = !contender->program && !contender->library;
    ccl_lock_take(c->lock);
    c->making += one;
    c->out->together = c->making > c->out->together ? c->making : c->out->together;
    ccl_lock_release(c->lock);
    ccl_status_t status = prepare_program(c, i, worker, err);
    ccl_lock_take(c->lock);
    c->making -= one;
    ccl_lock_release(c->lock);
    return status;
}

ccl_status_t ccl_i_compare_prepare(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_compare_t *c = user;
    ccl_i_ready_t *r = &c->ready[index];
    if (r->tried || !wanted(c, index, &r->first))
        return CCL_OK;
    r->tried = true;
    ccl_error_clear(&r->err);
    r->status = CCL_INTERRUPTED;
    if (ccl_i_compare_begin(c, r->first, index, worker))
        r->status = prepare_counted(c, index, worker, &r->err);
    if (r->status != CCL_OK) {
        r->program = NULL;
        r->schedule = NULL;
    }
    if (r->status == CCL_INTERRUPTED) {
        atomic_store(&c->interrupted, true);
        ccl_fail(&r->err, CCL_INTERRUPTED, "interrupted");
        return CCL_OK;
    }
    if (ccl_i_stops_all(r->status)) {
        if (err)
            *err = r->err;
        return r->status;
    }
    atomic_fetch_add(&c->done, 1);
    return CCL_OK;
}

void ccl_i_compare_warning(ccl_log_level_t level, const char *subsystem, const char *text,
                           void *user) {
    ccl_i_ready_t *r = user;
    (void)subsystem;
    if (level != CCL_LOG_WARN || r->nwarnings == CCL_I_COMPARE_WARNINGS)
        return;
    r->warnings[r->nwarnings] = strdup(text);
    if (r->warnings[r->nwarnings])
        r->nwarnings++;
    else
        r->nomem = true;
}

/* Keeps the fastest run of a size, of equals the first contender's; else destroys it. */
static void keep_best(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                      ccl_sim_result_t *result) {
    ccl_sim_result_t **best = &c->out->best[size];
    ccl_lock_take(c->lock);
    if (!*best || result->time_s < (*best)->time_s ||
        (result->time_s == (*best)->time_s && contender < c->best_of[size])) {
        ccl_sim_result_t *slower = *best;
        *best = result;
        c->best_of[size] = contender;
        result = slower;
    }
    ccl_lock_release(c->lock);
    ccl_sim_result_destroy(result);
}

/* The program's; its name where nobody gave one. */
static void tell_origin(const ccl_i_compare_t *c, uint32_t contender, const ccl_program_t *program,
                        ccl_compare_cell_t *cell) {
    const char *name = c->options->contenders[contender].name;
    ccl_origin_set(cell->origin, "%s", program->origin[0] ? program->origin : name);
}

/* A run that gives up at once. */
static ccl_status_t warn(const ccl_ctx_t *ctx, const ccl_i_cell_run_t *how, ccl_routes_t *routes,
                         ccl_error_t *err) {
    ccl_sim_options_t sim = how->sim;
    ccl_sim_result_t *run = NULL;
    sim.give_up_s = 1e-12;
    ccl_status_t status = ccl_sim_program(ctx, how->topo, routes, how->program, &sim, &run, err);
    ccl_sim_result_destroy(run);
    return status;
}

ccl_status_t ccl_i_compare_run(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                               ccl_i_cell_run_t *how, ccl_routes_t *routes,
                               ccl_compare_cell_t *cell, ccl_error_t *err) {
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    ccl_sim_result_t *result = NULL;
    if (size == 0) { /* one worker's */
        ctx.log = ccl_i_compare_warning;
        ctx.log_user = &c->ready[contender];
    }
    ccl_status_t status = CCL_OK;
    if (how->run) {
        result = how->run;
        how->run = NULL;
        if (size == 0) /* for its warnings, which come before anything moves */
            status = warn(&ctx, how, routes, err);
    } else {
        status = ccl_sim_program(&ctx, how->topo, routes, how->program, &how->sim, &result, err);
    }
    ctx.log = NULL;
    if (c->ready[contender].nomem)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK && !(result->time_s < INFINITY)) {
        cell->time_s = INFINITY;
        ccl_sim_result_destroy(result);
    } else if (status == CCL_OK) {
        tell_origin(c, contender, how->program, cell);
        cell->time_s = cell->low_s = cell->high_s = result->time_s;
        cell->algbw_GBps = result->algbw_GBps;
        cell->busbw_GBps = result->busbw_GBps;
        cell->batches = result->batches;
        cell->algorithm_only = how->program->algorithm_only;
        ccl_sim_usage(how->program, result, &cell->usage);
        keep_best(c, size, contender, result);
    } else {
        ccl_sim_result_destroy(result);
    }
    return status;
}

/* A size and a contender belong to one worker. */
static void forget_schedule(const ccl_i_ready_t *r, uint32_t size) {
    if (!r->at)
        return;
    ccl_schedule_destroy(r->at[size]);
    r->at[size] = NULL;
}

ccl_status_t ccl_i_compare_lower(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                 ccl_routes_t *routes, ccl_i_cell_lower_t as, ccl_program_t **out,
                                 ccl_error_t *err) {
    const ccl_i_ready_t *r = &c->ready[contender];
    ccl_ctx_t ctx = ccl_i_worker_ctx(c->ctx);
    bool own = r->by_size && size != r->first;
    ctx.runs = r->runs;
    if (own && !r->at[size])
        CCL_TRY(synthesize_at(c, &ctx, routes, contender, size, &r->at[size], err));
    as.schedule = own ? r->at[size] : r->schedule;
    ccl_status_t status = CCL_OK;
    if (!as.proto) /* else it has a time */
        status = ccl_i_compare_may_win(c, size, contender, as.schedule, routes, err);
    if (status == CCL_OK)
        status = lower_at(c, size, contender, routes, as, out, err);
    if (own && (!as.keep_schedule || status != CCL_OK))
        forget_schedule(r, size);
    return status;
}

static ccl_status_t program_at(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                               ccl_routes_t *routes, ccl_i_cell_run_t *out, ccl_error_t *err) {
    const ccl_i_ready_t *r = &c->ready[contender];
    ccl_program_t *made = NULL;
    size_t at = (size_t)size * c->options->ncontenders + contender;
    const char *proto = c->out->cells[at].proto; /* chosen; NULL: not yet, or not to be */
    if (r->program) {
        out->program = proto && r->own ? &r->as[ccl_protocol_find(proto)] : r->program;
        return CCL_OK;
    }
    if (!r->kept[size])
        CCL_TRY(
            ccl_i_compare_lower(c, size, contender, routes,
                                (ccl_i_cell_lower_t){.proto = c->for_protocol[at] ? proto : NULL,
                                                     .run_out = proto ? NULL : &out->run,
                                                     .keep_schedule = !proto},
                                &made, err));
    if (proto) /* a static name */
        (made ? made : r->kept[size])->proto = proto;
    if (!made) {
        out->program = r->kept[size];
        return CCL_OK;
    }
    if ((double)made->nsteps * c->options->nsizes <= KEPT_STEPS)
        r->kept[size] = made; /* a size and a contender belong to one worker */
    else
        out->own = made;
    out->program = made;
    return CCL_OK;
}

ccl_status_t ccl_i_compare_open(ccl_i_compare_t *c, uint32_t size, uint32_t contender,
                                ccl_routes_t *routes, ccl_i_cell_run_t *out, ccl_error_t *err) {
    const ccl_i_ready_t *r = &c->ready[contender];
    double size_bytes = c->options->sizes_bytes[size];
    *out = (ccl_i_cell_run_t){.topo = c->topo, .sim = sim_of(c, contender, size_bytes)};
    if (r->status != CCL_OK) {
        if (err)
            *err = r->err;
        return r->status;
    }
    if (!r->nccl)
        return program_at(c, size, contender, routes, out, err);
    ccl_i_nccl_run(r->nccl, size, size_bytes, out);
    return CCL_OK;
}

static ccl_status_t run_cell(ccl_i_compare_t *c, uint32_t size, uint32_t contender, uint32_t worker,
                             ccl_compare_cell_t *cell, ccl_error_t *err) {
    ccl_routes_t *routes = NULL;
    ccl_i_cell_run_t how;
    CCL_TRY(ccl_i_compare_routes(c, worker, &routes, err));
    CCL_TRY(ccl_i_compare_open(c, size, contender, routes, &how, err));
    cell->usage.thread_blocks = ccl_i_most_blocks(how.program, how.sim.granularity);
    how.sim.give_up_s = 0; /* in full */
    ccl_status_t status = ccl_i_compare_run(c, size, contender, &how, routes, cell, err);
    if (status == CCL_OK && !c->ready[contender].nccl)
        status = ccl_i_compare_choose(c, size, contender, routes, &how, cell, err);
    if (status == CCL_OK && !cell->proto)
        cell->proto = ccl_protocol_name(ccl_protocol_find(how.program->proto));
    forget_schedule(&c->ready[contender], size);
    ccl_sim_result_destroy(how.run);
    ccl_program_destroy(how.own);
    return status == CCL_OK ? ccl_i_compare_sample(c, size, contender, routes, err) : status;
}

/* What a cell says, as a point has it. */
static void keep_cell(const ccl_i_ready_t *r, const ccl_compare_cell_t *cell, const char *why,
                      double bound_s, ccl_point_result_t *out) {
    *out = (ccl_point_result_t){.status = cell->status,
                                .time_s = cell->time_s,
                                .algbw_GBps = cell->algbw_GBps,
                                .busbw_GBps = cell->busbw_GBps,
                                .bound_s = bound_s,
                                .synth_s = r->synth_s,
                                .thread_blocks = cell->usage.thread_blocks,
                                .batches = cell->batches,
                                .comm_share = cell->usage.comm_share,
                                .mean_idle_share = cell->usage.mean_idle_share,
                                .max_idle_share = cell->usage.max_idle_share,
                                .link_utilization = cell->usage.link_utilization};
    snprintf(out->why, sizeof out->why, "%.255s", why ? why : "");
    ccl_origin_set(out->origin, "%s", cell->origin);
}

void ccl_i_compare_take(const ccl_point_result_t *r, ccl_compare_cell_t *cell) {
    cell->status = r->status;
    ccl_origin_set(cell->origin, "%s", r->origin);
    cell->time_s = cell->low_s = cell->high_s = r->time_s;
    cell->algbw_GBps = r->algbw_GBps;
    cell->busbw_GBps = r->busbw_GBps;
    cell->batches = r->batches;
    cell->usage.thread_blocks = r->thread_blocks;
    if (r->status == CCL_OK)
        cell->usage = (ccl_sim_usage_t){r->thread_blocks, r->comm_share, r->mean_idle_share,
                                        r->max_idle_share, r->link_utilization};
}

ccl_point_t ccl_i_compare_point(const ccl_i_compare_t *c, uint32_t size, uint32_t contender) {
    ccl_point_t p = {.settings = c->ready[contender].settings,
                     .seed = c->ctx ? c->ctx->seed : 1,
                     .size_bytes = c->options->sizes_bytes[size]};
    memcpy(p.topology, c->topology, sizeof p.topology);
    memcpy(p.demand, c->demand, sizeof p.demand);
    return p;
}

static ccl_status_t write_down(ccl_i_compare_t *c, uint32_t size, uint32_t contender, double eval_s,
                               const char *why, ccl_error_t *err) {
    const ccl_i_ready_t *r = &c->ready[contender];
    ccl_point_result_t result;
    /* With more memory it may be another time. */
    bool scarce =
        c->out->cells[(size_t)size * c->options->ncontenders + contender].status == CCL_ERR_NOMEM ||
        atomic_load(&r->dropped);
    if (!r->settings || scarce)
        return CCL_OK;
    ccl_point_t point = ccl_i_compare_point(c, size, contender);
    keep_cell(r, &c->out->cells[(size_t)size * c->options->ncontenders + contender], why,
              c->out->bound_s[size], &result);
    result.eval_s = eval_s;
    return ccl_notebook_add(c->options->notebook, &point, &result, c->options->profile, err);
}

ccl_status_t ccl_i_compare_simulate(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_compare_t *c = user;
    uint32_t nc = c->options->ncontenders;
    /* Big sizes take longest: start with them. */
    uint32_t size = c->options->nsizes - 1 - index / nc, contender = index % nc;
    const ccl_i_ready_t *r = &c->ready[contender];
    ccl_compare_cell_t *cell = &c->out->cells[(size_t)size * nc + contender];
    ccl_error_t why = r->err;
    if (c->known[(size_t)size * nc + contender]) {
        atomic_fetch_add(&c->done, 1);
        return CCL_OK;
    }
    double start_s = ccl_now_s();
    cell->status = r->status;
    bool ready = r->program || r->schedule || r->nccl;
    if (!ccl_i_compare_begin(c, size, contender, worker))
        cell->status = ready ? CCL_INTERRUPTED : cell->status;
    else if (ready)
        cell->status = run_cell(c, size, contender, worker, cell, &why);
    if (cell->status == CCL_INTERRUPTED) {
        atomic_store(&c->interrupted, true);
        return CCL_OK;
    }
    atomic_fetch_add(&c->done, 1);
    if (ccl_i_stops_all(cell->status)) {
        if (err)
            *err = why;
        return cell->status;
    }
    if (cell->status != CCL_OK && ready) {
        char **text = &c->cell_why[(size_t)size * nc + contender];
        *text = strdup(why.text);
        if (!*text)
            return ccl_fail_nomem(err);
    }
    return write_down(c, size, contender, ccl_now_s() - start_s, why.text, err);
}
