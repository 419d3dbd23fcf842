/**
 * @file estimate.c
 * Time of a run from shorter ones.
 *
 * Micro-batches are alike, so from some number on each adds the same to the time of a run, at any
 * granularity: at algorithm level the run repeats itself, at task level each of its phases gets
 * longer in proportion. Runs of n, 2n and 4n micro-batches of the same bytes show whether that
 * number is reached. What becomes periodic soon is run in full instead (steady.c): that is exact
 * and takes less.
 */
#include "sim/program.h"

#include <math.h>

/* Primitives of a run in full, as a share, until it is taken as one that does not become periodic;
   and of all shorter runs together. */
#define TRIAL_SHARE (1.0 / 16)
#define MOST_SHARE (1.0 / 3)
/* The shortest run: in micro-batches, and primitives of a block. Of fewer two extrapolations may
   agree by chance; and it fills every FIFO. */
enum { FIRST_BATCHES = 2, FIRST_PRIMITIVES = 32 };
/* Two extrapolations agree. */
#define AGREE 0.003

/** A run of some of the micro-batches. */
typedef struct point {
    uint32_t batches;
    ccl_sim_result_t *run;
} point_t;

typedef struct estimate {
    ccl_ctx_t ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const ccl_program_t *program;
    const ccl_sim_options_t *options;
    uint32_t batches;  /* of the run asked for */
    point_t points[3]; /* the last three, each twice as long as the one before */
    uint32_t npoints;
    double done; /* micro-batches of all runs */
    uint64_t events, rate_changes;
} estimate_t;

static double time_of(const point_t *p) {
    return p->run->time_s;
}

/* The value at n of the line through two runs. */
static double line(double n, const point_t *a, double at_a, const point_t *b, double at_b) {
    return at_b + (n - b->batches) * (at_b - at_a) / (b->batches - a->batches);
}

static double through(const estimate_t *e, uint32_t i) {
    const point_t *a = &e->points[i], *b = &e->points[i + 1];
    return line(e->batches, a, time_of(a), b, time_of(b));
}

/* Adds a run; *good_out: it finished. */
static ccl_status_t add(estimate_t *e, uint32_t batches, bool *good_out, ccl_error_t *err) {
    ccl_sim_options_t sim = *e->options;
    ccl_sim_result_t *run = NULL;
    sim.size_bytes = e->options->size_bytes * batches / e->batches;
    sim.batches = batches;
    ccl_status_t status =
        ccl_i_sim_run(&e->ctx, e->topo, e->routes, e->program, &sim, NULL, &run, err);
    *good_out = status == CCL_OK;
    if (status != CCL_OK && status != CCL_DEADLOCK)
        return status;
    e->done += batches;
    e->events += run->events;
    e->rate_changes += run->rate_changes;
    if (status != CCL_OK) {
        ccl_sim_result_destroy(run);
        ccl_error_clear(err);
        return CCL_OK;
    }
    if (e->npoints == CCL_ARRAY_LEN(e->points)) {
        ccl_sim_result_destroy(e->points[0].run);
        e->points[0] = e->points[1];
        e->points[1] = e->points[2];
        e->npoints--;
    }
    e->points[e->npoints++] = (point_t){batches, run};
    return CCL_OK;
}

/* The line through the last two runs, for the times of steps. */
static void place_steps(const estimate_t *e, double time_s, ccl_sim_result_t *r) {
    const point_t *a = &e->points[e->npoints - 2], *b = &e->points[e->npoints - 1];
    for (uint32_t i = 0; r->step_end_s && i < e->program->nsteps; i++) {
        double *start_s = &r->step_start_s[i], *end_s = &r->step_end_s[i];
        *start_s = line(e->batches, a, a->run->step_start_s[i], b, *start_s);
        *start_s = fmin(time_s, fmax(0, *start_s));
        *end_s = line(e->batches, a, a->run->step_end_s[i], b, *end_s);
        *end_s = fmin(time_s, fmax(*start_s, *end_s));
    }
}

/* The longest run's result becomes that of the run asked for. */
static void take(estimate_t *e, double time_s, ccl_sim_result_t **out) {
    point_t *longest = &e->points[e->npoints - 1];
    ccl_sim_result_t *r = longest->run;
    if (time_s < INFINITY) {
        double faster = (double)e->batches / longest->batches * r->time_s / time_s;
        place_steps(e, time_s, r);
        r->algbw_GBps *= faster;
        r->busbw_GBps *= faster;
    }
    r->time_s = time_s;
    r->size_bytes = e->options->size_bytes;
    r->batches = e->batches;
    r->events = e->events;
    r->rate_changes = e->rate_changes;
    r->estimated = true;
    longest->run = NULL;
    *out = r;
}

/* *out stays NULL when the run has to be done in full. */
static ccl_status_t extrapolate(estimate_t *e, uint32_t first, ccl_sim_result_t **out,
                                ccl_error_t *err) {
    const double give_up_s = e->options->give_up_s > 0 ? e->options->give_up_s : INFINITY;
    for (uint32_t n = first; e->done + n <= MOST_SHARE * e->batches; n *= 2) {
        bool good = false;
        CCL_TRY(add(e, n, &good, err));
        if (!good)
            return CCL_OK;
        if (time_of(&e->points[e->npoints - 1]) == INFINITY) { /* so would the whole */
            take(e, INFINITY, out);
            return CCL_OK;
        }
        if (e->npoints < 3)
            continue;
        double before_s = through(e, 0), after_s = through(e, 1);
        if (fabs(before_s - after_s) > AGREE * after_s)
            continue;
        take(e, after_s <= give_up_s ? after_s : INFINITY, out);
        return CCL_OK;
    }
    return CCL_OK;
}

/* Micro-batches of the shortest run. */
static uint32_t first_batches(const ccl_program_t *program, uint32_t slots) {
    double blocks = program->ntbs, primitives = fmax(FIRST_PRIMITIVES, slots);
    double batches = ceil(primitives * blocks / fmax(program->nsteps, blocks));
    return batches > FIRST_BATCHES ? (uint32_t)batches : FIRST_BATCHES;
}

void ccl_i_trial_begin(ccl_i_run_t *run, ccl_i_trial_t *trial, uint32_t slots) {
    trial->first = first_batches(run->program, slots);
    if ((1 + 2 + 4) * trial->first <= MOST_SHARE * run->batches)
        run->most = (uint64_t)(TRIAL_SHARE * (double)run->total);
}

static ccl_status_t run_or_estimate(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                    ccl_routes_t *routes, const ccl_program_t *program,
                                    const ccl_sim_options_t *options, ccl_sim_result_t **out,
                                    ccl_error_t *err) {
    ccl_i_trial_t trial = {0, false};
    bool may = options->estimate && !options->trace && !options->path && !options->no_skip;
    CCL_TRY(ccl_i_sim_run(ctx, topo, routes, program, options, may ? &trial : NULL, out, err));
    if (!trial.stopped)
        return CCL_OK;
    estimate_t e = {.ctx = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT,
                    .topo = topo,
                    .routes = routes,
                    .program = program,
                    .options = options,
                    .batches = (*out)->batches,
                    .events = (*out)->events,
                    .rate_changes = (*out)->rate_changes};
    ccl_sim_result_destroy(*out);
    *out = NULL;
    e.ctx.log = NULL; /* the run that was stopped has warned */
    ccl_status_t status = extrapolate(&e, trial.first, out, err);
    for (uint32_t i = 0; i < e.npoints; i++)
        ccl_sim_result_destroy(e.points[i].run);
    if (status != CCL_OK || *out)
        return status;
    return ccl_i_sim_run(&e.ctx, topo, routes, program, options, NULL, out, err);
}

/* The run, with the time that the context's judge gives it. */
static ccl_status_t judged(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                           const ccl_program_t *program, const ccl_sim_options_t *options,
                           ccl_sim_result_t **out, ccl_error_t *err) {
    ccl_sim_options_t sim = *options;
    ccl_ctx_t plain = *ctx;
    plain.judge = NULL;
    sim.give_up_s = 0; /* the judge's time is not this run's */
    CCL_TRY(ccl_sim_program(&plain, topo, routes, program, &sim, out, err));
    ccl_status_t status =
        ctx->judge->time(ctx->judge->user, &plain, routes, program, &sim, &(*out)->time_s, err);
    if (status != CCL_OK) {
        ccl_sim_result_destroy(*out);
        *out = NULL;
    }
    return status;
}

ccl_status_t ccl_sim_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_program_t *program, const ccl_sim_options_t *options,
                             ccl_sim_result_t **out, ccl_error_t *err) {
    ccl_i_run_key_t key;
    CCL_OPTIONS_TRY(ccl_sim_options_t, options, err);
    if (ctx && ctx->judge && ctx->judge->topo == topo && !options->variation && !options->trace &&
        !options->path)
        return judged(ctx, topo, routes, program, options, out, err);
    if (!ccl_i_run_key(ctx, topo, program, options, &key))
        return run_or_estimate(ctx, topo, routes, program, options, out, err);
    *out = NULL;
    CCL_TRY(ccl_i_runs_get(ctx, &key, topo, program, options, out, err));
    if (*out)
        return CCL_OK;
    ccl_sim_options_t sim = *options;
    sim.step_times |= ccl_i_runs_keeps(program);
    CCL_TRY(run_or_estimate(ctx, topo, routes, program, &sim, out, err));
    ccl_i_runs_put(ctx, &key, program, *out, options->give_up_s);
    return CCL_OK;
}
