/*
 * A scenario on one cluster. Each sample has a generator of its own, and draws everything in one
 * fixed order, so that it is the same for every program and on any number of threads.
 */
#include "search/scenario/scenario.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "search/compare/shared.h"

/* A variation on the cluster: the number of the draw that holds for each link or rank. */
typedef struct bound_variation {
    const ccl_variation_t *variation;
    uint32_t *draw; /* [nlinks or nranks]; CCL_NONE: not touched */
    uint32_t ndraws;
} bound_variation_t;

struct ccl_draws {
    const ccl_scenario_t *scenario;
    const ccl_topology_t *topo;
    uint64_t seed;
    bound_variation_t *bound; /* [scenario->nvariations] */
    uint32_t most;            /* draws of any of them */
    bool links, ranks;        /* something of these varies */
};

/* ---------------------------------------------------------------- what a draw holds for */

static bool of_gpus(const ccl_variation_t *v) {
    return v->what == CCL_VARY_BLOCKS || v->what == CCL_VARY_LAUNCH;
}

/* The device that a link belongs to: its NIC, else its GPU, else the one it leaves. */
static uint32_t owner_of(const ccl_topology_t *topo, uint32_t link) {
    static const ccl_device_kind_t order[] = {CCL_DEVICE_NIC, CCL_DEVICE_GPU};
    uint32_t ends[] = {topo->links[link].from, topo->links[link].to};
    for (size_t k = 0; k < CCL_ARRAY_LEN(order); k++)
        for (size_t e = 0; e < CCL_ARRAY_LEN(ends); e++)
            if (topo->devices[ends[e]].kind == order[k])
                return ends[e];
    return ends[0];
}

/* Something that names the draw of a link or rank: all with the same have one draw. */
static uint32_t class_of(const ccl_topology_t *topo, const ccl_variation_t *v, uint32_t i) {
    uint32_t device = of_gpus(v) ? topo->rank_device[i] : owner_of(topo, i);
    uint32_t server = topo->devices[device].server;
    switch (v->per) {
    case CCL_PER_LINK:
        return i;
    case CCL_PER_DEVICE:
        return device;
    case CCL_PER_SERVER:
        return server == CCL_NONE ? topo->nservers + device : server;
    case CCL_PER_CLUSTER:
        break;
    }
    return 0;
}

static ccl_status_t bind(const ccl_topology_t *topo, const ccl_variation_t *v,
                         bound_variation_t *out, ccl_error_t *err) {
    uint32_t n = of_gpus(v) ? topo->nranks : topo->nlinks;
    uint32_t nclasses = topo->nlinks + topo->ndevices + topo->nservers + 1;
    bool *touched = calloc(n + (size_t)1, sizeof *touched);
    uint32_t *first = malloc(nclasses * sizeof *first);
    *out = (bound_variation_t){v, malloc((n + (size_t)1) * sizeof *out->draw), 0};
    ccl_status_t status = touched && first && out->draw ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK && v->of[0])
        status = ccl_topology_select(topo, v->of, of_gpus(v) ? NULL : touched,
                                     of_gpus(v) ? touched : NULL, err);
    if (status == CCL_OK) {
        memset(first, 0xff, nclasses * sizeof *first);
        for (uint32_t i = 0; i < n; i++) {
            out->draw[i] = CCL_NONE;
            if (v->of[0] && !touched[i])
                continue;
            uint32_t *draw = &first[class_of(topo, v, i)];
            if (*draw == CCL_NONE)
                *draw = out->ndraws++;
            out->draw[i] = *draw;
        }
    }
    free(touched);
    free(first);
    return status;
}

/* Each edit by itself must be one that the cluster can have. */
static ccl_status_t check_mishaps(const ccl_scenario_t *s, const ccl_topology_t *topo,
                                  ccl_error_t *err) {
    for (uint32_t i = 0; i < s->nmishaps; i++) {
        ccl_topology_t *edited = NULL;
        CCL_TRY(ccl_topology_edit(topo, s->mishaps[i].edit, &edited, err));
        ccl_topology_destroy(edited);
    }
    return CCL_OK;
}

ccl_status_t ccl_draws_create(const ccl_scenario_t *scenario, const ccl_topology_t *topo,
                              uint64_t seed, ccl_draws_t **out, ccl_error_t *err) {
    CCL_TRY(check_mishaps(scenario, topo, err));
    ccl_draws_t *d = calloc(1, sizeof *d);
    if (!d)
        return ccl_fail_nomem(err);
    *d = (ccl_draws_t){.scenario = scenario, .topo = topo, .seed = seed};
    d->bound = calloc(scenario->nvariations + (size_t)1, sizeof *d->bound);
    ccl_status_t status = d->bound ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; status == CCL_OK && i < scenario->nvariations; i++) {
        status = bind(topo, &scenario->variations[i], &d->bound[i], err);
        d->most = d->bound[i].ndraws > d->most ? d->bound[i].ndraws : d->most;
        d->links |= !of_gpus(&scenario->variations[i]);
        d->ranks |= of_gpus(&scenario->variations[i]);
    }
    if (status == CCL_OK)
        *out = d;
    else
        ccl_draws_destroy(d);
    return status;
}

void ccl_draws_destroy(ccl_draws_t *draws) {
    if (!draws)
        return;
    for (uint32_t i = 0; draws->bound && i < draws->scenario->nvariations; i++)
        free(draws->bound[i].draw);
    free(draws->bound);
    free(draws);
}

/* ---------------------------------------------------------------- one sample */

/* A thread's arrays, and the damaged cluster that it was at last. */
typedef struct sampler {
    const ccl_ctx_t *ctx;
    const ccl_draws_t *d;
    const ccl_topology_t *topo; /* nothing failed */
    ccl_routes_t *routes;
    double *rate, *latency_s, *blocks, *late_s, *drawn;
    double *rate_left, *latency_left_s; /* of the damaged cluster's links */
    uint64_t failed;                    /* mishaps of `left` */
    ccl_topology_t *left;               /* NULL: nothing is left that the program can run on */
    ccl_routes_t *left_routes;
} sampler_t;

static void sampler_fini(sampler_t *s) {
    ccl_routes_destroy(s->left_routes);
    ccl_topology_destroy(s->left);
    free(s->rate);
    free(s->latency_s);
    free(s->blocks);
    free(s->late_s);
    free(s->drawn);
    free(s->rate_left);
    free(s->latency_left_s);
}

static bool sampler_init(sampler_t *s) {
    size_t links = s->d->topo->nlinks + (size_t)1, ranks = s->d->topo->nranks + (size_t)1;
    s->rate = malloc(links * sizeof(double));
    s->latency_s = malloc(links * sizeof(double));
    s->rate_left = malloc(links * sizeof(double));
    s->latency_left_s = malloc(links * sizeof(double));
    s->blocks = malloc(ranks * sizeof(double));
    s->late_s = malloc(ranks * sizeof(double));
    s->drawn = malloc((s->d->most + (size_t)1) * sizeof(double));
    return s->rate && s->latency_s && s->rate_left && s->latency_left_s && s->blocks && s->late_s &&
           s->drawn;
}

/* Fills the arrays; returns the mishaps of the sample, a bit each. */
static uint64_t draw(sampler_t *s, uint32_t sample) {
    const ccl_draws_t *d = s->d;
    const ccl_scenario_t *scenario = d->scenario;
    ccl_rng_t rng;
    uint64_t failed = 0;
    ccl_rng_init(&rng, ccl_hash64(&sample, sizeof sample, d->seed));
    for (uint32_t l = 0; l < d->topo->nlinks; l++) {
        s->rate[l] = 1;
        s->latency_s[l] = 0;
    }
    for (uint32_t r = 0; r < d->topo->nranks; r++) {
        s->blocks[r] = 1;
        s->late_s[r] = 0;
    }
    for (uint32_t i = 0; i < scenario->nmishaps; i++)
        if (ccl_rng_unit(&rng) < scenario->mishaps[i].probability)
            failed |= (uint64_t)1 << i;
    for (uint32_t i = 0; i < scenario->nvariations; i++) {
        const bound_variation_t *b = &d->bound[i];
        uint32_t n = of_gpus(b->variation) ? d->topo->nranks : d->topo->nlinks;
        for (uint32_t k = 0; k < b->ndraws; k++)
            s->drawn[k] = ccl_law_draw(&b->variation->law, &rng);
        for (uint32_t k = 0; k < n; k++) {
            if (b->draw[k] == CCL_NONE)
                continue;
            double value = s->drawn[b->draw[k]];
            switch (b->variation->what) {
            case CCL_VARY_RATE:
                s->rate[k] *= value;
                break;
            case CCL_VARY_LATENCY:
                s->latency_s[k] += value;
                break;
            case CCL_VARY_BLOCKS:
                s->blocks[k] *= value;
                break;
            case CCL_VARY_LAUNCH:
                s->late_s[k] += value;
                break;
            }
        }
    }
    return failed;
}

/* The cluster without what failed; NULL where that is none with all ranks. */
static ccl_status_t damage(sampler_t *s, uint64_t failed, ccl_error_t *err) {
    const ccl_scenario_t *scenario = s->d->scenario;
    ccl_topology_t *now = NULL;
    ccl_routes_destroy(s->left_routes);
    ccl_topology_destroy(s->left);
    s->left = NULL;
    s->left_routes = NULL;
    s->failed = failed;
    for (uint32_t i = 0; i < scenario->nmishaps; i++) {
        ccl_topology_t *next = NULL;
        ccl_error_t own = CCL_ERROR_INIT;
        if (!(failed & (uint64_t)1 << i))
            continue;
        ccl_status_t status =
            ccl_topology_edit(now ? now : s->topo, scenario->mishaps[i].edit, &next, &own);
        ccl_topology_destroy(now);
        now = next;
        if (status == CCL_ERR_NOMEM)
            return ccl_fail_nomem(err);
        if (status != CCL_OK)
            return CCL_OK; /* together they leave no cluster, or name what is gone already */
    }
    if (now->nranks != s->topo->nranks) {
        ccl_topology_destroy(now);
        return CCL_OK;
    }
    s->left = now;
    s->left_routes = ccl_routes_create(now);
    return s->left_routes ? CCL_OK : ccl_fail_nomem(err);
}

/* Edits keep the order of what they leave: a link of the damaged cluster is the next one of the
   whole cluster between the same devices. */
static void map_links(const sampler_t *s) {
    const ccl_topology_t *whole = s->d->topo, *left = s->left;
    uint32_t l = 0;
    for (uint32_t k = 0; k < left->nlinks; k++, l++) {
        const char *from = left->devices[left->links[k].from].id,
                   *to = left->devices[left->links[k].to].id;
        while (l < whole->nlinks && (strcmp(whole->devices[whole->links[l].from].id, from) != 0 ||
                                     strcmp(whole->devices[whole->links[l].to].id, to) != 0))
            l++;
        s->rate_left[k] = l < whole->nlinks ? s->rate[l] : 1;
        s->latency_left_s[k] = l < whole->nlinks ? s->latency_s[l] : 0;
    }
}

static ccl_status_t time_sample(sampler_t *s, const ccl_program_t *program,
                                const ccl_sim_options_t *options, uint32_t sample, double *time_s,
                                ccl_error_t *err) {
    uint64_t failed = draw(s, sample);
    ccl_sim_options_t sim = *options;
    ccl_sim_variation_t variation = {
        s->d->links ? s->rate : NULL, s->d->links ? s->latency_s : NULL,
        s->d->ranks ? s->blocks : NULL, s->d->ranks ? s->late_s : NULL};
    ccl_sim_result_t *run = NULL;
    *time_s = INFINITY;
    if (failed && failed != s->failed)
        CCL_TRY(damage(s, failed, err));
    if (failed && !s->left)
        return CCL_OK;
    if (failed && s->d->links) {
        map_links(s);
        variation.link_rate = s->rate_left;
        variation.link_latency_s = s->latency_left_s;
    }
    sim.variation = &variation;
    sim.trace = NULL;
    sim.path = sim.step_times = false;
    ccl_status_t status =
        ccl_sim_program(s->ctx, failed ? s->left : s->topo, failed ? s->left_routes : s->routes,
                        program, &sim, &run, err);
    if (status == CCL_OK)
        *time_s = run->time_s;
    ccl_sim_result_destroy(run);
    if (!failed || status == CCL_OK || status == CCL_ERR_NOMEM || status == CCL_INTERRUPTED)
        return status;
    ccl_error_clear(err); /* no way or FIFO left that would do */
    return CCL_OK;
}

ccl_status_t ccl_draws_time(const ccl_ctx_t *ctx, const ccl_draws_t *draws,
                            const ccl_drawn_run_t *run, uint32_t first, uint32_t n, double *times_s,
                            ccl_error_t *err) {
    ccl_ctx_t quiet = ccl_i_worker_ctx(ctx);
    sampler_t s = {.ctx = &quiet, .d = draws, .topo = run->topo, .routes = run->routes};
    ccl_status_t status = sampler_init(&s) ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        times_s[i] = NAN;
    for (uint32_t i = 0; status == CCL_OK && i < n; i++) {
        double time_s;
        status = time_sample(&s, run->program, run->sim, first + i, &time_s, err);
        if (status == CCL_OK)
            times_s[i] = time_s;
    }
    sampler_fini(&s);
    return status;
}

/* ---------------------------------------------------------------- all samples */

enum { CHUNK = 8 /* samples a task: few, so that cores end together */ };

typedef struct all {
    const ccl_ctx_t *ctx;
    const ccl_draws_t *draws;
    const ccl_drawn_run_t *run;
    ccl_routes_t **routes; /* [threads] */
    uint32_t n;
    double *times_s;
    atomic_uint done;
    atomic_bool interrupted;
} all_t;

static ccl_status_t time_chunk(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    all_t *a = user;
    uint32_t first = index * CHUNK, n = a->n - first < CHUNK ? a->n - first : CHUNK;
    ccl_ctx_t quiet = a->ctx ? *a->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    if (worker != 0) /* callbacks come from one thread only */
        quiet.progress = NULL;
    ccl_progress_t progress = {"samples", atomic_load(&a->done), a->n, 0, 0};
    for (uint32_t i = 0; i < n; i++)
        a->times_s[first + i] = NAN;
    if (atomic_load(&a->interrupted) || ccl_ctx_poll(&quiet, &progress) != CCL_OK) {
        atomic_store(&a->interrupted, true);
        return CCL_OK;
    }
    if (!a->routes[worker] && !(a->routes[worker] = ccl_routes_create(a->run->topo)))
        return ccl_fail_nomem(err);
    ccl_drawn_run_t run = *a->run;
    run.routes = a->routes[worker];
    ccl_status_t status = ccl_draws_time(a->ctx, a->draws, &run, first, n, a->times_s + first, err);
    atomic_fetch_add(&a->done, n);
    if (status != CCL_INTERRUPTED)
        return status;
    atomic_store(&a->interrupted, true);
    return CCL_OK;
}

ccl_status_t ccl_draws_time_all(const ccl_ctx_t *ctx, const ccl_draws_t *draws,
                                const ccl_drawn_run_t *run, uint32_t n, double *times_s,
                                ccl_error_t *err) {
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    all_t a = {.ctx = ctx, .draws = draws, .run = run, .n = n, .times_s = times_s};
    atomic_init(&a.done, 0);
    atomic_init(&a.interrupted, false);
    a.routes = calloc(threads, sizeof *a.routes);
    ccl_status_t status =
        a.routes ? ccl_parallel_for((n + CHUNK - 1) / CHUNK, threads, time_chunk, &a, err)
                 : ccl_fail_nomem(err);
    for (uint32_t i = 0; a.routes && i < threads; i++)
        ccl_routes_destroy(a.routes[i]);
    free(a.routes);
    if (status == CCL_OK && atomic_load(&a.interrupted))
        status =
            ccl_fail(err, CCL_INTERRUPTED, "%u of %u samples were run", atomic_load(&a.done), n);
    return status;
}

/* ---------------------------------------------------------------- a judge */

static ccl_status_t judge_time(void *user, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                               const ccl_program_t *program, const ccl_sim_options_t *options,
                               double *time_s, ccl_error_t *err) {
    const ccl_draws_judge_t *j = user;
    double *times_s = malloc(j->samples * sizeof *times_s);
    if (!times_s)
        return ccl_fail_nomem(err);
    ccl_drawn_run_t run = {j->of.topo, routes, program, options};
    ccl_status_t status = ccl_draws_time(ctx, j->draws, &run, 0, j->samples, times_s, err);
    if (status == CCL_OK)
        status = ccl_rank_value(j->rank, times_s, NULL, j->samples, time_s, err);
    free(times_s);
    return status;
}

ccl_status_t ccl_draws_judge(const ccl_draws_t *draws, const ccl_topology_t *topo, uint32_t samples,
                             ccl_rank_t rank, ccl_draws_judge_t *out, ccl_error_t *err) {
    if (samples == 0 || samples > CCL_SAMPLES_MAX)
        return ccl_fail(err, CCL_ERR_INPUT, "%u samples: 1 to %u are possible", samples,
                        CCL_SAMPLES_MAX);
    if (rank.kind == CCL_RANK_NONE || rank.kind == CCL_RANK_REGRET)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "candidates are chosen by mean, a quantile (p99) or a mean of the slowest "
                        "(cvar95): regret is among schedules that are there already");
    *out = (ccl_draws_judge_t){{topo, judge_time, out}, draws, samples, rank};
    return CCL_OK;
}
