/* Predictions beside measured runs, and what simpler models say of the same sizes. */
#include "validate/fit/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE 0.03 /* of a repeated nccl-tests run */
#define NSIZES 4

static const struct {
    const char *what;
    double most;
} ranges[NSIZES] = {{"up to 64K", 65536},
                    {"64K to 8M", 8388608},
                    {"8M to 256M", 268435456},
                    {"above 256M", INFINITY}};

/** Points of one simple model. */
typedef struct simple {
    uint32_t n;
    double *x, *y, *measured_s; /* [n] */
} simple_t;

/* ---------------------------------------------------------------- simple models */

static ccl_status_t line_residuals(const double *p, double *r, void *user, ccl_error_t *err) {
    const simple_t *s = user;
    (void)err;
    for (uint32_t i = 0; i < s->n; i++)
        r[i] = log((exp(p[0]) + exp(p[1]) * s->x[i]) / s->measured_s[i]);
    return CCL_OK;
}

static ccl_status_t tuned_residuals(const double *p, double *r, void *user, ccl_error_t *err) {
    const simple_t *s = user;
    (void)err;
    for (uint32_t i = 0; i < s->n; i++)
        r[i] = log((exp(p[0]) + exp(p[1]) * s->x[i] + exp(p[2]) * s->y[i]) / s->measured_s[i]);
    return CCL_OK;
}

/* alpha + beta bytes of each source. */
static ccl_status_t fit_lines(const ccl_i_bench_t *b, ccl_measured_point_t *points, simple_t *s,
                              ccl_error_t *err) {
    for (uint32_t source = 0; source < b->nsources; source++) {
        double least_s = INFINITY, most_Bps = 0;
        s->n = 0;
        for (uint32_t i = 0; i < b->npoints; i++) {
            const ccl_measured_point_t *p = &points[i];
            if (p->source != source || p->tested)
                continue;
            s->x[s->n] = p->size_bytes;
            s->measured_s[s->n++] = p->measured_s;
            least_s = fmin(least_s, p->measured_s);
            most_Bps = fmax(most_Bps, p->size_bytes / p->measured_s);
        }
        if (s->n < 2)
            continue;
        ccl_fit_parameter_t fit[2] = {{.value = log(least_s), .spread = 3},
                                      {.value = -log(most_Bps), .spread = 3}};
        ccl_fit_result_t result;
        CCL_TRY(ccl_fit(2, fit, NULL, s->n, NOISE, line_residuals, s, &result, err));
        for (uint32_t i = 0; i < b->npoints; i++)
            if (points[i].source == source)
                points[i].line_s = exp(fit[0].value) + exp(fit[1].value) * points[i].size_bytes;
    }
    return CCL_OK;
}

/* NCCL's own model with three constants for all sources. */
static ccl_status_t fit_tuned(const ccl_i_bench_t *b, ccl_measured_point_t *points, simple_t *s,
                              ccl_error_t *err) {
    ccl_fit_parameter_t fit[3] = {
        {.value = log(1e-6), .spread = 2}, {.value = 0, .spread = 2}, {.value = 0, .spread = 2}};
    ccl_fit_result_t result;
    double latency_s, transfer_s;
    s->n = 0;
    for (uint32_t i = 0; i < b->npoints; i++) {
        if (points[i].tested || !ccl_i_bench_estimate(b, i, &latency_s, &transfer_s))
            continue;
        s->x[s->n] = latency_s;
        s->y[s->n] = transfer_s;
        s->measured_s[s->n++] = points[i].measured_s;
    }
    if (s->n < 3)
        return CCL_OK;
    CCL_TRY(ccl_fit(3, fit, NULL, s->n, NOISE, tuned_residuals, s, &result, err));
    for (uint32_t i = 0; i < b->npoints; i++)
        if (ccl_i_bench_estimate(b, i, &latency_s, &transfer_s))
            points[i].tuned_s =
                exp(fit[0].value) + exp(fit[1].value) * latency_s + exp(fit[2].value) * transfer_s;
    return CCL_OK;
}

/* ---------------------------------------------------------------- errors */

static bool in_group(const ccl_measured_validation_t *v, const ccl_measured_point_t *p,
                     uint32_t group, ccl_collective_kind_t kind) {
    const ccl_measured_source_t *s = &v->sources[p->source];
    if (!p->tested)
        return false;
    if (group == 0)
        return true;
    if (group <= NSIZES)
        return p->size_bytes <= ranges[group - 1].most &&
               (group == 1 || p->size_bytes > ranges[group - 2].most);
    return (s->program ? s->program->coll->kind : s->run->kind) == kind;
}

/* Of the column at `offset` of the points. */
static ccl_error_stats_t column(const ccl_measured_validation_t *v, size_t offset, uint32_t group,
                                ccl_collective_kind_t kind, double *work) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->npoints; i++) {
        double time_s;
        memcpy(&time_s, (const char *)&v->points[i] + offset, sizeof time_s);
        if (in_group(v, &v->points[i], group, kind) && !isnan(time_s))
            work[n++] = fabs(time_s / v->points[i].measured_s - 1);
    }
    return ccl_i_error_stats(work, n);
}

static void add_group(ccl_measured_validation_t *v, ccl_measured_errors_t *groups, uint32_t group,
                      ccl_collective_kind_t kind, double *work) {
    ccl_measured_errors_t *g = &groups[v->ngroups];
#define COLUMN(member_)                                                                            \
    g->member_ = column(v, offsetof(ccl_measured_point_t, member_##_s), group, kind, work)
    COLUMN(predicted);
    COLUMN(corrected);
    COLUMN(interpolated);
    COLUMN(tuned);
    COLUMN(line);
#undef COLUMN
    snprintf(g->what, sizeof g->what, "%s",
             group == 0        ? "all"
             : group <= NSIZES ? ranges[group - 1].what
                               : ccl_collective_kind_name(kind));
    v->ngroups += g->predicted.n > 0;
}

static bool rivals(const ccl_measured_validation_t *v, const ccl_measured_point_t *x,
                   const ccl_measured_point_t *y) {
    const ccl_measured_source_t *p = &v->sources[x->source], *q = &v->sources[y->source];
    return p != q && p->program && q->program && p->topo == q->topo &&
           p->program->coll->kind == q->program->coll->kind && x->size_bytes == y->size_bytes &&
           !isnan(x->predicted_s) && !isnan(y->predicted_s);
}

static void rank(ccl_measured_validation_t *v) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < v->npoints; i++)
        for (uint32_t k = i + 1; k < v->npoints; k++) {
            const ccl_measured_point_t *x = &v->points[i], *y = &v->points[k];
            if (!rivals(v, x, y))
                continue;
            v->nrivals++;
            sum += (x->measured_s < y->measured_s) == (x->predicted_s < y->predicted_s) ? 1 : -1;
        }
    v->tau = v->nrivals ? (double)sum / v->nrivals : NAN;
}

/* ---------------------------------------------------------------- the whole */

static ccl_status_t fill(ccl_i_bench_t *b, const ccl_profile_t *profile,
                         ccl_measured_validation_t *v, ccl_measured_point_t *points, bool *training,
                         double *work, ccl_error_t *err) {
    uint32_t n = b->npoints;
    double *predicted = work, *other = work + n;
    simple_t s = {0, work + 2 * (size_t)n, work + 3 * (size_t)n, work + 4 * (size_t)n};
    const ccl_curve_t *curves = NULL;
    uint32_t ncurves = profile ? ccl_profile_curves(profile, &curves) : 0;
    CCL_TRY(ccl_i_bench_run(b, NULL, NULL, other, err));
    v->ncurved = ccl_i_correct(b, curves, ncurves, other, predicted);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_i_point_t *p = &b->points[i];
        bool tested = ccl_i_second_size(b, i);
        training[i] = !tested;
        points[i] = (ccl_measured_point_t){.source = p->source,
                                           .tested = tested,
                                           .size_bytes = p->size_bytes,
                                           .measured_s = p->measured_s,
                                           .constants_s = other[i],
                                           .predicted_s = predicted[i],
                                           .tuned_s = NAN,
                                           .line_s = NAN};
    }
    ccl_i_interpolate(b, training, other);
    for (uint32_t i = 0; i < n; i++)
        points[i].interpolated_s = other[i];
    CCL_TRY(ccl_i_curves_make(b, training, predicted, &v->arena, &curves, &ncurves, err));
    ccl_i_correct(b, curves, ncurves, predicted, other);
    for (uint32_t i = 0; i < n; i++)
        points[i].corrected_s = other[i];
    CCL_TRY(fit_lines(b, points, &s, err));
    return fit_tuned(b, points, &s, err);
}

static ccl_status_t compare(ccl_i_bench_t *b, const ccl_profile_t *profile,
                            ccl_measured_validation_t *v, ccl_error_t *err) {
    size_t n = b->npoints + (size_t)1;
    ccl_measured_point_t *points = ccl_arena_alloc(&v->arena, n, sizeof *points);
    ccl_measured_errors_t *groups =
        ccl_arena_alloc(&v->arena, 2 + NSIZES + CCL_CUSTOM, sizeof *groups);
    bool *training = ccl_arena_alloc(&v->arena, n, sizeof *training);
    double *work = ccl_arena_alloc(&v->arena, 5 * n, sizeof *work);
    uint32_t kept = 0;
    if (!points || !groups || !training || !work)
        return ccl_fail_nomem(err);
    if (b->npoints == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "nothing was measured");
    CCL_TRY(fill(b, profile, v, points, training, work, err));
    v->npoints = b->npoints;
    v->points = points;
    v->groups = groups;
    for (uint32_t g = 0; g <= NSIZES; g++)
        add_group(v, groups, g, CCL_CUSTOM, work);
    for (int kind = 0; kind <= (int)CCL_CUSTOM; kind++)
        add_group(v, groups, NSIZES + 1, (ccl_collective_kind_t)kind, work);
    for (uint32_t i = 0; i < v->npoints; i++) {
        v->nstuck += isnan(points[i].predicted_s);
        if (!isnan(points[i].predicted_s))
            work[kept++] = fabs(points[i].predicted_s / points[i].measured_s - 1);
    }
    v->predicted = ccl_i_error_stats(work, kept);
    rank(v);
    return CCL_OK;
}

ccl_status_t ccl_validate_measured(const ccl_ctx_t *ctx, const ccl_measured_source_t *sources,
                                   uint32_t nsources, const ccl_profile_t *profile,
                                   const ccl_calibrate_options_t *options,
                                   ccl_measured_validation_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_calibrate_options_t, options, err);
    ccl_i_bench_t *bench = NULL;
    ccl_measured_validation_t *v = calloc(1, sizeof *v);
    if (!v)
        return ccl_fail_nomem(err);
    ccl_arena_init(&v->arena);
    v->sources = sources;
    v->nsources = nsources;
    ccl_status_t status = ccl_i_bench_create(ctx, sources, nsources, options, profile, &bench, err);
    if (status == CCL_OK)
        status = compare(bench, profile, v, err);
    ccl_i_bench_destroy(bench);
    if (status != CCL_OK) {
        ccl_measured_validation_destroy(v);
        return status;
    }
    *out = v;
    return CCL_OK;
}

void ccl_measured_validation_destroy(ccl_measured_validation_t *v) {
    if (!v)
        return;
    ccl_arena_fini(&v->arena);
    free(v);
}
