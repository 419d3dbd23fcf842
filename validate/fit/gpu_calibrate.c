/*
 * Constants of a device from small programs on it: an empty one, ping-pong, one connection back to
 * back, 1 to 64 blocks between two ranks, local copies and reductions. Their times have closed
 * forms in the model, so a fit takes no simulation.
 */
#include "validate/fit/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE 0.03
#define TINY_BYTES 1024.0 /* buffer where bytes do not count */
#define SLICE_BYTES (32.0 * 1024)
#define LANE_BYTES (1024.0 * 1024)
#define LOCAL_BYTES (4096.0 * 1024)
#define ROUNDS 5u
#define MOST_LANES 64u
#define HOPS 64u  /* of ping: 32 turns there and back */
#define SENDS 64u /* of stream */
#define NPARAMETERS 11u

typedef enum kind { EMPTY, PING, STREAM, LANES, COPY, REDUCE } kind_t;

typedef struct point {
    kind_t kind;
    uint32_t lanes;
    double bytes; /* of a lane, or a local element */
    ccl_type_t type;
    ccl_program_t *program;
    double time_s, fitted_s;
    bool left_out; /* more blocks than the device holds */
} point_t;

typedef struct job {
    const ccl_ctx_t *ctx;
    const ccl_gpu_calibrate_options_t *o;
    ccl_gpu_constants_t model;
    point_t *points;
    uint32_t npoints;
    size_t cap;
} job_t;

/* ---------------------------------------------------------------- programs */

static void add(ccl_program_builder_t *b, uint32_t tb, ccl_primitive_t type, uint32_t from,
                uint32_t to) {
    ccl_program_builder_step(b, tb,
                             (ccl_step_t){.src_off = from,
                                          .dst_off = to,
                                          .count = 1,
                                          .dep_tb = CCL_NONE,
                                          .dep_step = CCL_NONE,
                                          .type = (uint8_t)type});
}

ccl_status_t ccl_gpu_micro(ccl_gpu_micro_t micro, uint32_t lanes, ccl_program_t **out,
                           ccl_error_t *err) {
    static const char *const names[] = {"lanes", "copy", "reduce"};
    uint32_t elements = micro == CCL_GPU_MICRO_LANES ? lanes : 2;
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_create(CCL_ALLREDUCE, 2, elements, 0, &coll, err));
    ccl_program_builder_t *b = ccl_program_builder_create(names[micro], coll, elements, "Simple");
    if (!b)
        return ccl_fail_nomem(err);
    ccl_program_builder_place(b, true, false, 0, 0);
    for (uint32_t r = 0; r < 2; r++)
        ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, elements);
    for (uint32_t e = 0; e < lanes && micro == CCL_GPU_MICRO_LANES; e++)
        add(b, ccl_program_builder_tb(b, 0, 1, CCL_NONE, e), CCL_PRIM_S, e, e);
    for (uint32_t e = 0; e < lanes && micro == CCL_GPU_MICRO_LANES; e++)
        add(b, ccl_program_builder_tb(b, 1, CCL_NONE, 0, e), CCL_PRIM_R, e, e);
    if (micro != CCL_GPU_MICRO_LANES)
        add(b, ccl_program_builder_tb(b, 0, CCL_NONE, CCL_NONE, 0),
            micro == CCL_GPU_MICRO_COPY ? CCL_PRIM_CPY : CCL_PRIM_RE, 0, 1);
    return ccl_program_builder_finish(b, out, err);
}

/* ---------------------------------------------------------------- the model */

/* Together k blocks move min(k R, B eta(z)), eta(z) = 1 / (1 + kappa (z - 1)), z = k R / B. */
static double together_Bps(const ccl_gpu_constants_t *c, uint32_t lanes) {
    double rate = fmin(c->tb_rate_Bps, c->link_Bps), z = lanes * rate / c->link_Bps;
    double eta = z > 1 ? 1 / (1 + c->contention * (z - 1)) : 1;
    return fmin(lanes * rate, c->link_Bps * eta);
}

double ccl_gpu_lanes_s(const ccl_gpu_constants_t *c, uint32_t lanes, double bytes,
                       double slice_bytes) {
    double slices = fmax(1, ceil(bytes / slice_bytes));
    /* The receiver takes its last slice after the sender has written it. */
    return c->launch_s + c->latency_s + (slices + 1) * c->overhead_s +
           lanes * bytes * (1 + 1 / slices) / together_Bps(c, lanes);
}

static double slice_of(const job_t *j) {
    return j->o->run.slice_bytes > 0 ? j->o->run.slice_bytes : SLICE_BYTES;
}

static double predict(const job_t *j, const point_t *p) {
    const ccl_gpu_constants_t *c = &j->model;
    switch (p->kind) {
    case EMPTY:
        return c->launch_s;
    case PING:
        return c->launch_s + HOPS * (c->latency_s + 2 * c->overhead_s);
    case STREAM:
        return c->launch_s + c->latency_s + (SENDS + 1) * c->overhead_s;
    case LANES:
        return ccl_gpu_lanes_s(c, p->lanes, p->bytes, slice_of(j));
    case COPY:
        return c->launch_s + c->overhead_s + p->bytes / c->copy_Bps;
    default:
        return c->launch_s + c->overhead_s + p->bytes / c->reduce_Bps[p->type];
    }
}

static void set(job_t *j, const double *v) {
    ccl_gpu_constants_t *c = &j->model;
    double *const at[] = {&c->launch_s, &c->overhead_s, &c->latency_s, &c->tb_rate_Bps,
                          &c->link_Bps, &c->contention, &c->copy_Bps};
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(at); i++)
        *at[i] = exp(v[i]);
    for (uint32_t t = 0; t < CCL_TYPES; t++)
        c->reduce_Bps[t] = exp(v[CCL_ARRAY_LEN(at) + t]);
}

static ccl_status_t residuals(const double *v, double *r, void *user, ccl_error_t *err) {
    job_t *j = user;
    uint32_t n = 0;
    (void)err;
    set(j, v);
    for (uint32_t i = 0; i < j->npoints; i++) {
        point_t *p = &j->points[i];
        if (p->left_out)
            continue;
        p->fitted_s = predict(j, p);
        r[n++] = log(p->fitted_s / p->time_s);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- measuring */

static ccl_status_t want(job_t *j, kind_t kind, uint32_t lanes, double bytes, ccl_type_t type,
                         ccl_error_t *err) {
    static const ccl_host_micro_t tiny[] = {CCL_HOST_MICRO_EMPTY, CCL_HOST_MICRO_PING,
                                            CCL_HOST_MICRO_STREAM};
    if (!ccl_grow(&j->points, &j->cap, j->npoints + (size_t)1, sizeof *j->points))
        return ccl_fail_nomem(err);
    point_t *p = &j->points[j->npoints];
    *p = (point_t){.kind = kind, .lanes = lanes, .bytes = bytes, .type = type, .time_s = INFINITY};
    if (kind < LANES)
        CCL_TRY(ccl_host_micro(tiny[kind], 2, &p->program, err));
    else
        CCL_TRY(ccl_gpu_micro((ccl_gpu_micro_t)(kind - LANES), lanes, &p->program, err));
    j->npoints++;
    return CCL_OK;
}

static ccl_status_t plan(job_t *j, ccl_error_t *err) {
    uint32_t most = j->o->most_lanes ? j->o->most_lanes : MOST_LANES;
    double lane = j->o->lane_bytes > 0 ? j->o->lane_bytes : LANE_BYTES;
    ccl_type_t type = j->o->run.type;
    for (int k = EMPTY; k <= STREAM; k++)
        CCL_TRY(want(j, (kind_t)k, 1, 0, type, err));
    for (uint32_t n = 1; n <= most; n *= 2)
        for (int large = 0; large < 2; large++)
            CCL_TRY(want(j, LANES, n, large ? lane : lane / 4, type, err));
    for (int large = 0; large < 2; large++) {
        double bytes = large ? LOCAL_BYTES : LOCAL_BYTES / 8;
        CCL_TRY(want(j, COPY, 2, bytes, type, err));
        for (int t = 0; t < CCL_TYPES; t++)
            CCL_TRY(want(j, REDUCE, 2, bytes, (ccl_type_t)t, err));
    }
    return CCL_OK;
}

static ccl_run_options_t options_of(const job_t *j, const point_t *p) {
    ccl_run_options_t o = j->o->run;
    o.size_bytes = p->kind < LANES ? TINY_BYTES : p->bytes * p->lanes;
    o.slice_bytes = slice_of(j);
    o.batches = 1;
    o.repeats = CCL_I_HOST_REPEATS;
    o.warmups = 1;
    o.no_check = true; /* they compute nothing that is wanted */
    o.type = p->type;
    return o;
}

static ccl_status_t measure(job_t *j, ccl_error_t *err) {
    uint32_t rounds = j->o->rounds ? j->o->rounds : ROUNDS;
    for (uint32_t i = 0; i < rounds * j->npoints; i++) {
        ccl_progress_t progress = {"calibrate", i, (uint64_t)rounds * j->npoints, 0, 0};
        point_t *p = &j->points[i % j->npoints];
        ccl_run_options_t o = options_of(j, p);
        double time_s = 0;
        CCL_TRY(ccl_ctx_poll(j->ctx, &progress));
        if (p->left_out)
            continue;
        ccl_error_t own = CCL_ERROR_INIT;
        ccl_status_t status = ccl_i_host_measure(j->ctx, p->program, &o, j->o->measure,
                                                 j->o->measure_user, &time_s, &own);
        if (status == CCL_UNSUPPORTED && p->kind == LANES && p->lanes > 1) {
            p->left_out = true;
            continue;
        }
        if (status != CCL_OK)
            return ccl_fail(err, status, "%s", own.text);
        if (!(time_s > 0)) /* below the device clock's resolution */
            time_s = 1e-9;
        p->time_s = fmin(p->time_s, time_s);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- the fit */

static const struct {
    const char *name, *unit;
    double prior, spread;
} parameters[NPARAMETERS] = {
    {"launch", "s", 3e-6, 2},
    {"overhead", "s", 1e-6, 2},
    {"latency", "s", 1e-6, 2},
    {"tb_rate", "B/s", 20e9, 2},
    {"link", "B/s", 400e9, 2},
    {"contention", "1", 0.02, 2},
    {"copy_rate", "B/s", 20e9, 2},
    {"reduce_rate/int32", "B/s", 20e9, 2},
    {"reduce_rate/fp32", "B/s", 20e9, 2},
    {"reduce_rate/fp16", "B/s", 20e9, 2},
    {"reduce_rate/bf16", "B/s", 20e9, 2},
};

static ccl_status_t judge(const job_t *j, ccl_gpu_calibration_t *c, ccl_error_t *err) {
    double *errors = malloc((j->npoints + (size_t)1) * sizeof *errors), mean = 0, all = 0, left = 0;
    uint32_t n = 0;
    if (!errors)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < j->npoints; i++) {
        const point_t *p = &j->points[i];
        if (p->left_out)
            continue;
        mean += log(p->time_s);
        errors[n++] = fabs(p->fitted_s / p->time_s - 1);
        c->worst_error = fmax(c->worst_error, errors[n - 1]);
        c->lanes = p->kind == LANES && p->lanes > c->lanes ? p->lanes : c->lanes;
    }
    mean /= n;
    for (uint32_t i = 0; i < j->npoints; i++) {
        const point_t *p = &j->points[i];
        if (p->left_out)
            continue;
        all += pow(log(p->time_s) - mean, 2);
        left += pow(log(p->time_s / p->fitted_s), 2);
    }
    c->npoints = n;
    c->median_error = ccl_i_host_median(errors, n);
    c->r2 = all > 0 ? 1 - left / all : 1;
    free(errors);
    return CCL_OK;
}

static ccl_status_t fit(job_t *j, ccl_gpu_calibration_t *c, ccl_error_t *err) {
    ccl_fit_parameter_t fitted[NPARAMETERS];
    ccl_fit_result_t result;
    double values[NPARAMETERS];
    uint32_t n = 0;
    ccl_constant_t *list = ccl_arena_alloc(&c->arena, NPARAMETERS, sizeof *list);
    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < j->npoints; i++)
        n += !j->points[i].left_out;
    for (uint32_t i = 0; i < NPARAMETERS; i++)
        fitted[i] = (ccl_fit_parameter_t){.value = log(parameters[i].prior),
                                          .spread = parameters[i].spread};
    CCL_TRY(ccl_fit(NPARAMETERS, fitted, NULL, n, NOISE, residuals, j, &result, err));
    for (uint32_t i = 0; i < NPARAMETERS; i++) {
        const ccl_fit_parameter_t *p = &fitted[i];
        values[i] = p->value;
        list[i] = (ccl_constant_t){.name = parameters[i].name,
                                   .unit = parameters[i].unit,
                                   .value = exp(p->value),
                                   .low = exp(p->value - 1.96 * p->error),
                                   .high = exp(p->value + 1.96 * p->error),
                                   .prior = parameters[i].prior,
                                   .determined = p->error <= 0.5 * p->spread};
    }
    set(j, values);
    for (uint32_t i = 0; i < j->npoints; i++)
        j->points[i].fitted_s = predict(j, &j->points[i]);
    c->constants = list;
    c->nconstants = NPARAMETERS;
    c->model = j->model;
    return judge(j, c, err);
}

/* ---------------------------------------------------------------- the profile */

/** What was measured between two ranks is laid over links only when they had a device each. */
static void profile(const ccl_gpu_calibration_t *made, const ccl_gpu_calibrate_options_t *o,
                    double slice_bytes, ccl_text_t *out) {
    const ccl_gpu_constants_t *c = &made->model;
    char a[64], b[64], d[64];
    ccl_text_printf(out, "{\n  \"format\": \"ccllab-profile-1\",\n");
    ccl_i_profile_string(out, "name", o->name && o->name[0] ? o->name : "device");
    ccl_i_profile_string(out, "machine", o->machine);
    ccl_i_profile_string(out, "date", o->date);
    ccl_i_profile_string(out, "command", o->command);
    if (o->link && o->link[0]) {
        if (made->constants[5].determined)
            ccl_text_printf(out, "  \"links\": {\"%s\": {\"contention\": %.6g}},\n", o->link,
                            c->contention);
        ccl_text_printf(out,
                        "  \"transports\": {\"%s\": {\"overhead\": \"%s\", \"latency\": \"%s\", "
                        "\"tb_rate\": \"%s\"}},\n",
                        o->link, ccl_format_time(c->overhead_s, a, sizeof a),
                        ccl_format_time(c->latency_s, b, sizeof b),
                        ccl_format_rate(c->tb_rate_Bps, d, sizeof d));
    }
    if (o->model && o->model[0]) {
        ccl_text_printf(out,
                        "  \"gpu_models\": {\"%s\": {\"launch\": \"%s\", \"copy_rate\": ", o->model,
                        ccl_format_time(c->launch_s, a, sizeof a));
        ccl_text_printf(out, "\"%s\", \"reduce_rate\": \"%s\"}},\n",
                        ccl_format_rate(c->copy_Bps, a, sizeof a),
                        ccl_format_rate(c->reduce_Bps[o->run.type], b, sizeof b));
    }
    ccl_i_gpu_machine_write(c, &o->run, slice_bytes, o->link && o->link[0] ? 2 : 1, out);
    ccl_text_printf(out,
                    "  \"fit\": {\"r2\": %.6g, \"median_error\": %.6g, \"worst_error\": %.6g, "
                    "\"points\": %u, \"lanes\": %u},\n",
                    made->r2, made->median_error, made->worst_error, made->npoints, made->lanes);
    ccl_i_profile_constants(out, made->constants, made->nconstants);
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t run(job_t *j, ccl_gpu_calibration_t *c, ccl_error_t *err) {
    ccl_text_t text = {0};
    CCL_TRY(plan(j, err));
    CCL_TRY(measure(j, err));
    CCL_TRY(fit(j, c, err));
    profile(c, j->o, slice_of(j), &text);
    c->profile = text.nomem ? NULL : ccl_arena_strdup(&c->arena, text.data);
    ccl_text_fini(&text);
    return c->profile ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_gpu_calibrate(const ccl_ctx_t *ctx, const ccl_gpu_calibrate_options_t *options,
                               ccl_gpu_calibration_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_gpu_calibrate_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_run_options_t, &options->run, err);
    job_t j = {.ctx = ctx, .o = options};
    if (options->most_lanes > 1024 || options->lane_bytes > 0x1p36)
        return ccl_fail(err, CCL_ERR_USAGE, "at most 1024 lanes of 64 GiB are possible");
    ccl_gpu_calibration_t *c = calloc(1, sizeof *c);
    if (!c)
        return ccl_fail_nomem(err);
    ccl_arena_init(&c->arena);
    ccl_status_t status = run(&j, c, err);
    for (uint32_t i = 0; i < j.npoints; i++)
        ccl_program_destroy(j.points[i].program);
    free(j.points);
    if (status != CCL_OK) {
        ccl_gpu_calibration_destroy(c);
        return status;
    }
    *out = c;
    return CCL_OK;
}

void ccl_gpu_calibration_destroy(ccl_gpu_calibration_t *calibration) {
    if (!calibration)
        return;
    ccl_arena_fini(&calibration->arena);
    free(calibration);
}
