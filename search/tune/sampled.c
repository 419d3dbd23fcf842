/* Tuned points over samples of a scenario: the fastest of each size are made again, timed in the
   same samples and ranked. */
#include "search/tune/sampled.h"
#include "search/tune/tuner.h"

#include <math.h>
#include <stdlib.h>

enum { TOP = 8 };

typedef struct job {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_collective_t *want;
    const ccl_tuning_t *tuning;
    const ccl_tune_sample_options_t *o;
    ccl_tune_samples_t *out;
    double *times_s; /* [npoints][samples] */
    double *best_s;  /* [samples] the fastest of a size */
} job_t;

static uint32_t size_of(const job_t *j, uint32_t point) {
    return j->tuning->runs[j->out->points[point].run].size;
}

static double *times_of(const job_t *j, uint32_t point) {
    return &j->times_s[(size_t)point * j->o->samples];
}

static ccl_status_t choose(job_t *j, ccl_error_t *err) {
    const ccl_tuning_t *t = j->tuning;
    uint32_t top = j->o->top ? j->o->top : TOP;
    ccl_i_tune_candidate_t *list = malloc(((size_t)t->nruns + 1) * sizeof *list);
    j->out->points =
        ccl_arena_alloc(&j->out->arena, (size_t)top * t->nsizes + 1, sizeof *j->out->points);
    if (!list || !j->out->points) {
        free(list);
        return ccl_fail_nomem(err);
    }
    for (uint32_t s = 0; s < t->nsizes; s++) {
        uint32_t n = ccl_i_tune_candidates(t, s, list), taken = 0;
        for (uint32_t i = 0; i < n && taken < top; i++)
            if (i == 0 || !ccl_i_tune_alike(t, &list[i], &list[i - 1]))
                j->out->points[j->out->npoints++] =
                    (ccl_sampled_t){.run = list[i].run, .tuned_rank = ++taken};
    }
    free(list);
    if (!j->out->npoints)
        return ccl_fail(err, CCL_INFEASIBLE, "nothing to sample: no point has a time");
    j->times_s = malloc((size_t)j->out->npoints * j->o->samples * sizeof *j->times_s);
    j->best_s = malloc(j->o->samples * sizeof *j->best_s);
    return j->times_s && j->best_s ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t time_point(const job_t *j, uint32_t point, ccl_error_t *err) {
    const ccl_tune_run_t *run = &j->tuning->runs[j->out->points[point].run];
    const double *values = j->tuning->points[run->point].values;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_topology_t *own = NULL;
    ccl_program_t *program = NULL;
    ccl_way_t way;
    sim.size_bytes = j->tuning->sizes_bytes[run->size];
    sim.batches = run->result.batches;
    CCL_TRY(ccl_tune_cluster(j->topo, values, &own, err));
    const ccl_topology_t *topo = own ? own : j->topo;
    ccl_status_t status = ccl_tune_program(j->ctx, topo, j->want, values, sim.size_bytes,
                                           &(ccl_tune_target_t){0}, &program, &way, err);
    if (status == CCL_OK) {
        sim.granularity = way.granularity;
        ccl_drawn_run_t all = {topo, NULL, program, &sim};
        status =
            ccl_draws_time_all(j->ctx, j->o->draws, &all, j->o->samples, times_of(j, point), err);
    }
    ccl_program_destroy(program);
    ccl_topology_destroy(own);
    return status;
}

/* Points first to end are of one size. */
static ccl_status_t rank_size(job_t *j, uint32_t first, uint32_t end, ccl_error_t *err) {
    const ccl_rank_t regret = {CCL_RANK_REGRET, 0};
    uint32_t n = j->o->samples;
    for (uint32_t k = 0; k < n; k++) {
        j->best_s[k] = INFINITY;
        for (uint32_t i = first; i < end; i++)
            j->best_s[k] = fmin(j->best_s[k], times_of(j, i)[k]);
    }
    for (uint32_t i = first; i < end; i++) {
        ccl_sampled_t *p = &j->out->points[i];
        CCL_TRY(ccl_spread(times_of(j, i), n, &p->spread, err));
        CCL_TRY(ccl_rank_value(regret, times_of(j, i), j->best_s, n, &p->regret_s, err));
        p->rank_s = j->tuning->runs[p->run].result.time_s;
        if (j->o->rank.kind != CCL_RANK_NONE)
            CCL_TRY(ccl_rank_value(j->o->rank, times_of(j, i), j->best_s, n, &p->rank_s, err));
    }
    return CCL_OK;
}

/* As floats: what differs by rounding alone stays in its order. */
static int by_rank(const void *a, const void *b) {
    const ccl_sampled_t *x = a, *y = b;
    float p = (float)x->rank_s, q = (float)y->rank_s;
    if (p != q)
        return p < q ? -1 : 1;
    return x->tuned_rank < y->tuned_rank ? -1 : 1;
}

static ccl_status_t sample(job_t *j, ccl_tuning_t *tuning, ccl_error_t *err) {
    ccl_tune_samples_t *out = j->out;
    CCL_TRY(choose(j, err));
    for (uint32_t i = 0; i < out->npoints; i++) {
        ccl_progress_t progress = {"samples", i, out->npoints, 0, 0};
        CCL_TRY(ccl_ctx_poll(j->ctx, &progress));
        CCL_TRY(time_point(j, i, err));
    }
    for (uint32_t first = 0, end; first < out->npoints; first = end) {
        uint32_t size = size_of(j, first);
        for (end = first + 1; end < out->npoints && size_of(j, end) == size;)
            end++;
        CCL_TRY(rank_size(j, first, end, err));
        qsort(&out->points[first], end - first, sizeof *out->points, by_rank);
        if (out->rank.kind != CCL_RANK_NONE)
            tuning->best[size] = out->points[first].run;
    }
    return CCL_OK;
}

ccl_status_t ccl_tune_sample(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                             const ccl_collective_t *want, ccl_tuning_t *tuning,
                             const ccl_tune_sample_options_t *options, ccl_tune_samples_t **out,
                             ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_tune_sample_options_t, options, err);
    if (!options->draws || options->samples == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "no samples: a scenario and their number are wanted");
    job_t j = {ctx, topo, want, tuning, options, calloc(1, sizeof *j.out), NULL, NULL};
    if (!j.out)
        return ccl_fail_nomem(err);
    j.out->samples = options->samples;
    j.out->rank = options->rank;
    ccl_status_t status = sample(&j, tuning, err);
    free(j.times_s);
    free(j.best_s);
    if (status != CCL_OK)
        ccl_tune_samples_destroy(j.out);
    else
        *out = j.out;
    return status;
}

void ccl_tune_samples_destroy(ccl_tune_samples_t *samples) {
    if (!samples)
        return;
    ccl_arena_fini(&samples->arena);
    free(samples);
}
