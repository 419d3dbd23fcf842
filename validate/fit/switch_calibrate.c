/*
 * The constants of switch connections from a curve of AllReduce of which NCCL runs a part as NVLS.
 * Everything else stays as a profile has it; what is fitted are factors on the constants of the
 * links inside the server.
 */
#include "validate/fit/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE 0.03 /* of a repeated nccl-tests run */
#define NPARAMETERS 3
#define MAX_POINTS 4096u

/*
 * A block's warps are split: some copy in, some out, some pull. With half of a block's rate for
 * each links limit large messages: runs of 4 to 8 GPUs (NVIDIA/nccl#1455) go with S (1 + 1/n), as
 * links do, not with S, as blocks would.
 */
#define COPY_SHARE 0.5
/*
 * Chunks that a channel's buffers hold, as measured runs show them: from 2 to 512 MB each takes a
 * time that its bytes do not explain, which more slots would hide. With 8, and a share of 0.6, 16
 * and 32 MB are predicted 8 % too fast and 2 MB 13 % too slow on H200.
 */
#define SLOTS 2

/* Priors of the factors' logarithms. Links carry requests beside the data. Latency is close to that
 * of plain connections: a larger one fits 8 GPUs as well and makes 4 of them too slow (nccl#1455).
 */
static const struct {
    const char *name, *unit;
    double value, spread;
} parameters[NPARAMETERS] = {
    {"overhead", "s", -1, 1}, {"latency", "s", 0, 0.4}, {"wire", "1", 0.1, 0.15}};

typedef struct job {
    const ccl_profile_t *base;
    const ccl_measured_run_t *run;
    ccl_predictor_t *predictor;
    char kind[80];
    ccl_transport_t own; /* of the links inside servers, Simple */
    uint32_t n;
    double *size, *measured; /* [n] */
} job_t;

static double own_value(const job_t *j, int k) {
    const double own[NPARAMETERS] = {j->own.overhead_s, j->own.latency_s, 1};
    return own[k];
}

/* A link carries at least the data; six digits are more than any fit determines. */
static double value_of(const job_t *j, const double *p, int k) {
    char text[40];
    snprintf(text, sizeof text, "%.6g", own_value(j, k) * exp(p[k]));
    double value = strtod(text, NULL);
    return k == 2 ? fmax(1, value) : value;
}

static ccl_status_t write_profile(const job_t *j, const double *p, ccl_text_t *out,
                                  ccl_error_t *err) {
    char text[500], a[64], b[64], c[64], d[64];
    snprintf(text, sizeof text,
             "{\"overhead\": \"%s\", \"latency\": \"%s\", \"tb_rate\": \"%s\", \"slice\": \"%s\", "
             "\"slots\": %d, \"direct\": false, \"wire\": %.6g}",
             ccl_format_time(value_of(j, p, 0), a, sizeof a),
             ccl_format_time(value_of(j, p, 1), b, sizeof b),
             ccl_format_rate(COPY_SHARE * j->own.tb_rate_Bps, c, sizeof c),
             ccl_format_bytes(j->own.slice_bytes, d, sizeof d), SLOTS, value_of(j, p, 2));
    return ccl_profile_write(j->base, j->kind, text, out, err);
}

static ccl_status_t predict(job_t *j, const double *p, double *time_s, ccl_error_t *err) {
    ccl_text_t text = {0};
    ccl_profile_t *profile = NULL;
    ccl_status_t status = write_profile(j, p, &text, err);
    if (status == CCL_OK)
        status = ccl_profile_read_text("fit", text.data, text.len, &profile, err);
    ccl_text_fini(&text);
    if (status == CCL_OK)
        status = ccl_predictor_profile(j->predictor, profile, err);
    ccl_profile_destroy(profile);
    for (uint32_t i = 0; i < j->n && status == CCL_OK; i++) {
        ccl_prediction_t one;
        status = ccl_predictor_run(j->predictor, j->run->kind, j->run->root, j->size[i], NULL, &one,
                                   err);
        time_s[i] = one.time_s;
    }
    return status;
}

static ccl_status_t residuals(const double *p, double *r, void *user, ccl_error_t *err) {
    job_t *j = user;
    CCL_TRY(predict(j, p, r, err));
    for (uint32_t i = 0; i < j->n; i++)
        r[i] = log(r[i] / j->measured[i]);
    return CCL_OK;
}

/* The sizes at which NCCL takes NVLS. */
static ccl_status_t take_points(job_t *j, const ccl_calibrate_options_t *o, ccl_arena_t *arena,
                                ccl_error_t *err) {
    j->size = ccl_arena_alloc(arena, j->run->npoints + 1, sizeof *j->size);
    j->measured = ccl_arena_alloc(arena, j->run->npoints + 1, sizeof *j->measured);
    if (!j->size || !j->measured)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < j->run->npoints && j->n < MAX_POINTS; i++) {
        const ccl_measurement_t *m = &j->run->points[i];
        double time_s = o->in_place ? m->in_place_time_s : m->time_s;
        if (!(time_s > 0) || m->size_bytes < o->min_bytes ||
            ccl_nccl_choose(ccl_predictor_setup(j->predictor), j->run->kind, m->size_bytes).algo !=
                CCL_NCCL_NVLS)
            continue;
        j->size[j->n] = m->size_bytes;
        j->measured[j->n++] = time_s;
    }
    if (j->n < 3)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "NCCL takes NVLS at %u of the measured sizes; a fit of the constants of "
                        "switch connections needs 3 or more",
                        j->n);
    return CCL_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_error(const job_t *j, const double *predicted, double *work, double *worst) {
    for (uint32_t i = 0; i < j->n; i++)
        work[i] = fabs(predicted[i] / j->measured[i] - 1);
    qsort(work, j->n, sizeof *work, by_value);
    *worst = work[j->n - 1];
    return j->n % 2 ? work[j->n / 2] : (work[j->n / 2 - 1] + work[j->n / 2]) / 2;
}

static double r_squared(const job_t *j, const double *fitted) {
    double mean = 0, total = 0, left = 0;
    for (uint32_t i = 0; i < j->n; i++)
        mean += log(j->measured[i]) / j->n;
    for (uint32_t i = 0; i < j->n; i++) {
        total += pow(log(j->measured[i]) - mean, 2);
        left += pow(log(j->measured[i] / fitted[i]), 2);
    }
    return total > 0 ? 1 - left / total : 0;
}

static ccl_status_t list_constants(const job_t *j, const ccl_fit_parameter_t *fit,
                                   ccl_calibration_t *c, ccl_error_t *err) {
    ccl_constant_t *list = ccl_arena_alloc(&c->arena, NPARAMETERS, sizeof *list);
    if (!list)
        return ccl_fail_nomem(err);
    for (int k = 0; k < NPARAMETERS; k++) {
        char name[160];
        double own = own_value(j, k), value = fit[k].value, error = 1.96 * fit[k].error;
        snprintf(name, sizeof name, "transports/%s/%s", j->kind, parameters[k].name);
        list[k] = (ccl_constant_t){.name = ccl_arena_strdup(&c->arena, name),
                                   .unit = parameters[k].unit,
                                   .value = own * exp(value),
                                   .low = own * exp(value - error),
                                   .high = own * exp(value + error),
                                   .prior = own * exp(parameters[k].value),
                                   .determined = fit[k].error <= 0.5 * parameters[k].spread};
        if (!list[k].name)
            return ccl_fail_nomem(err);
    }
    c->constants = list;
    c->nconstants = NPARAMETERS;
    return CCL_OK;
}

/* All points are of the one run, and fitted. */
static ccl_status_t tell_source(const job_t *j, ccl_calibration_t *c, ccl_error_t *err) {
    double *nowhere = ccl_arena_alloc(&c->arena, j->n, sizeof *nowhere);
    double *work = ccl_arena_alloc(&c->arena, j->n, sizeof *work);
    ccl_error_stats_t *of_run = ccl_arena_alloc(&c->arena, 1, sizeof *of_run);
    c->source_of = ccl_arena_alloc(&c->arena, j->n, sizeof *c->source_of);
    c->held_out = ccl_arena_alloc(&c->arena, j->n, sizeof *c->held_out);
    if (!nowhere || !work || !of_run || !c->source_of || !c->held_out)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < j->n; i++) {
        nowhere[i] = NAN;
        work[i] = fabs(c->fitted_s[i] / c->measured_s[i] - 1);
    }
    *of_run = ccl_i_error_stats(work, j->n);
    c->by_source = of_run;
    c->interpolated_s = c->predicted_s = nowhere;
    c->noise = NAN;
    c->held = c->held_constants = c->held_interpolated = (ccl_error_stats_t){0, NAN, NAN, NAN};
    return CCL_OK;
}

static ccl_status_t fit_job(job_t *j, ccl_calibration_t *c, ccl_error_t *err) {
    ccl_fit_parameter_t fit[NPARAMETERS];
    ccl_fit_result_t result;
    double values[NPARAMETERS], ignored;
    double *before = ccl_arena_alloc(&c->arena, j->n, sizeof *before);
    double *fitted = ccl_arena_alloc(&c->arena, j->n, sizeof *fitted);
    double *work = ccl_arena_alloc(&c->arena, j->n, sizeof *work);
    ccl_text_t text = {0};
    if (!before || !fitted || !work)
        return ccl_fail_nomem(err);
    for (int k = 0; k < NPARAMETERS; k++) {
        fit[k] =
            (ccl_fit_parameter_t){.value = parameters[k].value, .spread = parameters[k].spread};
        values[k] = 0;
    }
    CCL_TRY(predict(j, values, before, err));
    CCL_TRY(ccl_fit(NPARAMETERS, fit, NULL, j->n, NOISE, residuals, j, &result, err));
    for (int k = 0; k < NPARAMETERS; k++)
        values[k] = fit[k].value;
    CCL_TRY(predict(j, values, fitted, err));
    c->npoints = j->n;
    c->sizes_bytes = j->size;
    c->measured_s = j->measured;
    c->before_s = before;
    c->fitted_s = fitted;
    CCL_TRY(tell_source(j, c, err));
    c->r2 = r_squared(j, fitted);
    c->median_before = median_error(j, before, work, &ignored);
    c->median_error = median_error(j, fitted, work, &c->worst_error);
    CCL_TRY(list_constants(j, fit, c, err));
    ccl_status_t status = write_profile(j, values, &text, err);
    if (status == CCL_OK) {
        c->profile = ccl_arena_strdup(&c->arena, text.data);
        status = c->profile ? CCL_OK : ccl_fail_nomem(err);
    }
    ccl_text_fini(&text);
    return status;
}

/* The links inside servers, with the profile's constants, and the name of their switches'. */
static ccl_status_t find_kind(job_t *j, const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              ccl_error_t *err) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_topology_t *laid = NULL;
    const ccl_route_t *route;
    ccl_status_t status = routes ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_profile_apply(ctx, j->base, topo, &laid, err);
    if (status == CCL_OK)
        status = ccl_routes_get(routes, 0, 1, 0, &route, err);
    if (status == CCL_OK) {
        const char *kind = ccl_model_route_kind(topo, route);
        j->own = ccl_model_transport(laid, kind, ccl_nccl_proto_name(CCL_NCCL_SIMPLE));
        snprintf(j->kind, sizeof j->kind, "%.60s-switch", kind);
    }
    ccl_topology_destroy(laid);
    ccl_routes_destroy(routes);
    return status;
}

ccl_status_t ccl_calibrate_switch(const ccl_ctx_t *ctx, const ccl_measured_source_t *source,
                                  const ccl_profile_t *base, const ccl_calibrate_options_t *options,
                                  ccl_calibration_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_calibrate_options_t, options, err);
    const ccl_topology_t *topo = source->topo;
    const ccl_measured_run_t *run = source->run;
    job_t job = {.base = base, .run = run};
    if (run->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "a run of %u ranks on a cluster of %u GPUs",
                        run->nranks, topo->nranks);
    ccl_calibration_t *c = calloc(1, sizeof *c);
    if (!c)
        return ccl_fail_nomem(err);
    ccl_arena_init(&c->arena);
    c->sources = source;
    c->nsources = 1;
    ccl_status_t status =
        ccl_predictor_create(ctx, topo, NULL, options->channels ? options->channels : run->channels,
                             &job.predictor, err);
    if (status == CCL_OK) {
        ccl_predictor_version(job.predictor, run->version);
        ccl_predictor_nvls(job.predictor, ccl_nccl_nvls_type(run->type), false);
        status = find_kind(&job, ctx, topo, err);
    }
    if (status == CCL_OK)
        status = take_points(&job, options, &c->arena, err);
    if (status == CCL_OK)
        status = fit_job(&job, c, err);
    ccl_predictor_destroy(job.predictor);
    if (status != CCL_OK) {
        ccl_calibration_destroy(c);
        return status;
    }
    *out = c;
    return CCL_OK;
}
