/*
 * Constants of the host from its calibration programs: first what does not depend on bytes, from
 * programs that move next to nothing; then, footprint by footprint, what each kind of pass costs.
 * Every prediction of the fit is a simulation, as those of `validate` are.
 */
#include "validate/fit/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE 0.03
#define TINY_BYTES 1024.0 /* buffer of a rank where bytes do not count */
#define ROUNDS 9u
#define MAX_POINTS 24u
#define TYPES_BYTES (1024.0 * 1024)

typedef struct point {
    ccl_host_micro_t micro;
    const ccl_program_t *program; /* of the table below */
    double size_bytes, time_s, fitted_s;
    ccl_type_t type;
} point_t;

typedef struct job {
    const ccl_ctx_t *ctx;
    const ccl_host_calibrate_options_t *o;
    ccl_program_t *programs[CCL_HOST_MICROS][2]; /* for 4 and for 8 ranks */
    ccl_host_model_t model;
    bool several; /* workers: how many really run is fitted */
    bool apart;   /* processes: what goes from one to another is fitted */
    point_t *points;
    uint32_t npoints, cap;
    /* what is fitted now */
    uint32_t first, count, knot;
    bool tiny;
} job_t;

static const uint32_t rank_counts[2] = {4, 8};

/* Passes by fitted number. Sends and receives come in pairs: what is fitted of r is how many times
   as much as s it costs, which stays 1 where the programs do not determine it. */
static const ccl_primitive_t kinds[] = {CCL_PRIM_S,   CCL_PRIM_R,    CCL_PRIM_RCS, CCL_PRIM_RRS,
                                        CCL_PRIM_RRC, CCL_PRIM_RRCS, CCL_PRIM_CPY, CCL_PRIM_RE};
#define NKINDS 8u

uint32_t ccl_i_host_processes(const ccl_run_options_t *o, uint32_t nranks) {
    if (o->ranks == CCL_RANKS_THREADS)
        return 1;
    return o->processes && o->processes < nranks ? o->processes : nranks;
}

uint32_t ccl_i_host_workers(const ccl_run_options_t *o, uint32_t nranks) {
    uint32_t processes = ccl_i_host_processes(o, nranks), cores = ccl_core_count();
    uint32_t each = o->threads ? o->threads : cores / processes;
    uint32_t all = processes * (each ? each : 1);
    return all < cores ? all : cores;
}

/* Between processes a run moves on in the FIFOs: after this many every slot has been touched once.
   Within one the same few places are used from the first run on. */
uint32_t ccl_i_host_warmups(const ccl_run_options_t *o) {
    if (o->ranks == CCL_RANKS_THREADS)
        return 3;
    return o->slots ? o->slots : 8;
}

double ccl_i_host_median(double *v, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) /* few */
        for (uint32_t k = i; k > 0 && v[k] < v[k - 1]; k--) {
            double x = v[k];
            v[k] = v[k - 1];
            v[k - 1] = x;
        }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

ccl_status_t ccl_i_host_measure(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                const ccl_run_options_t *options, ccl_host_measure_fn measure,
                                void *user, double *time_s_out, ccl_error_t *err) {
    ccl_run_result_t *result = NULL;
    if (measure)
        return measure(program, options, time_s_out, user, err);
    ccl_status_t status = ccl_run_program(ctx, program, options, &result, err);
    if (status == CCL_OK)
        *time_s_out = result->min_s;
    ccl_run_result_destroy(result);
    return status;
}

/* ---------------------------------------------------------------- measuring */

static ccl_status_t want(job_t *j, ccl_host_micro_t micro, int which, double size_bytes,
                         ccl_type_t type, ccl_error_t *err) {
    size_t cap = j->cap;
    if (!ccl_grow(&j->points, &cap, j->npoints + (size_t)1, sizeof *j->points))
        return ccl_fail_nomem(err);
    j->cap = (uint32_t)cap;
    j->points[j->npoints++] = (point_t){.micro = micro,
                                        .program = j->programs[micro][which],
                                        .size_bytes = size_bytes,
                                        .time_s = INFINITY,
                                        .type = type};
    return CCL_OK;
}

static ccl_status_t plan(job_t *j, ccl_error_t *err) {
    static const ccl_host_micro_t tiny[] = {CCL_HOST_MICRO_EMPTY,   CCL_HOST_MICRO_PING,
                                            CCL_HOST_MICRO_STREAM,  CCL_HOST_MICRO_PAIRS,
                                            CCL_HOST_MICRO_FORWARD, CCL_HOST_MICRO_COPY};
    ccl_type_t type = j->o->run.type;
    for (size_t i = 0; i < CCL_ARRAY_LEN(tiny); i++)
        for (int which = 0; which < 2; which++)
            CCL_TRY(want(j, tiny[i], which, TINY_BYTES, type, err));
    for (uint32_t k = 0; k < j->model.nknots; k++) {
        for (int which = 0; which < 2; which++) {
            double size = j->model.footprint_bytes[k] / rank_counts[which];
            for (int m = CCL_HOST_MICRO_PAIRS; m <= CCL_HOST_MICRO_ACROSS; m++)
                if ((m != CCL_HOST_MICRO_ONE || j->several) &&
                    (m != CCL_HOST_MICRO_ACROSS || j->apart))
                    CCL_TRY(want(j, (ccl_host_micro_t)m, which, size, type, err));
        }
    }
    for (int t = 0; t < CCL_TYPES; t++)
        CCL_TRY(want(j, CCL_HOST_MICRO_LOCAL_REDUCE, 0, TYPES_BYTES / rank_counts[0], (ccl_type_t)t,
                     err));
    return CCL_OK;
}

static ccl_run_options_t options_of(const job_t *j, const point_t *p) {
    ccl_run_options_t o = j->o->run;
    o.size_bytes = p->size_bytes;
    o.repeats = CCL_I_HOST_REPEATS;
    o.warmups = ccl_i_host_warmups(&o);
    if (!(o.slice_bytes > 0))
        o.slice_bytes = CCL_I_HOST_SLICE_BYTES; /* predicted and run with the same */
    o.no_check = true;                          /* they compute nothing that is wanted */
    o.type = p->type;
    o.protocol = CCL_RUN_SIMPLE;
    return o;
}

/* Rounds over all programs: what disturbs the machine for a while disturbs all of them a little. */
static ccl_status_t measure(job_t *j, ccl_error_t *err) {
    uint32_t rounds = j->o->rounds ? j->o->rounds : ROUNDS;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < j->npoints; i++) {
            ccl_progress_t progress = {"calibrate", (uint64_t)round * j->npoints + i,
                                       (uint64_t)rounds * j->npoints, 0, 0};
            point_t *p = &j->points[i];
            ccl_run_options_t o = options_of(j, p);
            double time_s = 0;
            CCL_TRY(ccl_ctx_poll(j->ctx, &progress));
            CCL_TRY(ccl_i_host_measure(j->ctx, p->program, &o, j->o->measure, j->o->measure_user,
                                       &time_s, err));
            if (!(time_s > 0))
                return ccl_fail(err, CCL_ERR_INPUT, "program %s took %g s",
                                ccl_host_micro_name(p->micro), time_s);
            p->time_s = fmin(p->time_s, time_s);
        }
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- fits */

static void set(job_t *j, const double *v) {
    ccl_host_model_t *m = &j->model;
    uint32_t k = j->knot;
    if (j->tiny) {
        m->overhead_s = exp(v[0]);
        m->latency_s = exp(v[1]);
        m->launch_s = exp(v[2]);
        v += 3;
        if (j->apart)
            m->across_s = exp(*v++);
    } else {
        for (uint32_t i = 0; i < NKINDS; i++)
            m->s_per_byte[kinds[i]][k] = exp(v[i] + (kinds[i] == CCL_PRIM_R ? v[0] : 0));
        v += NKINDS;
        if (j->apart)
            m->across_s_per_byte[k] = exp(*v++);
    }
    m->pool[k] = j->several ? fmax(1, fmin(m->workers, exp(*v))) : 1;
}

static ccl_status_t residuals(const double *v, double *r, void *user, ccl_error_t *err) {
    job_t *j = user;
    set(j, v);
    /* One footprint at a time: what is asked is that of the knot, and, where data are used again,
       that of the smaller ones, which are known by now. */
    ccl_host_model_t now = j->model, reuse = j->model;
    now.nknots = 1;
    reuse.nknots = j->knot + 1;
    now.footprint_bytes[0] = j->model.footprint_bytes[j->knot];
    now.pool[0] = j->model.pool[j->knot];
    now.across_s_per_byte[0] = j->tiny ? 0 : j->model.across_s_per_byte[j->knot];
    for (uint32_t i = 0; i < CCL_HOST_PASSES; i++)
        now.s_per_byte[i][0] = j->tiny ? 0 : j->model.s_per_byte[i][j->knot];
    for (uint32_t i = 0; i < j->count; i++) {
        point_t *p = &j->points[j->first + i];
        ccl_run_options_t o = options_of(j, p);
        CCL_TRY(ccl_host_predict(NULL, p->program, &o,
                                 p->micro == CCL_HOST_MICRO_FANOUT ? &reuse : &now, &p->fitted_s,
                                 err));
        r[i] = log(p->fitted_s / p->time_s);
    }
    return CCL_OK;
}

static ccl_status_t constant(ccl_host_calibration_t *c, ccl_constant_t *list, const char *name,
                             const char *unit, const ccl_fit_parameter_t *p, double prior,
                             ccl_error_t *err) {
    double sign = strcmp(unit, "B/s") == 0 ? -1 : 1; /* fitted as the time of a byte */
    ccl_constant_t *at = &list[c->nconstants++];
    *at = (ccl_constant_t){.name = ccl_arena_strdup(&c->arena, name),
                           .unit = unit,
                           .value = exp(sign * p->value),
                           .low = exp(sign * p->value - 1.96 * p->error),
                           .high = exp(sign * p->value + 1.96 * p->error),
                           .prior = exp(sign * prior),
                           .determined = p->error <= 0.5 * p->spread};
    return at->name ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t fit_tiny(job_t *j, ccl_host_calibration_t *c, ccl_constant_t *list,
                             ccl_error_t *err) {
    static const char *const names[] = {"host/overhead", "host/latency", "host/launch",
                                        "host/across"};
    static const double priors_s[] = {200e-9, 100e-9, 2e-6, 1e-6};
    ccl_fit_parameter_t fit[5];
    ccl_fit_result_t result;
    double values[5];
    uint32_t times = 3 + j->apart, n = times + j->several;
    for (uint32_t i = 0; i < times; i++)
        fit[i] = (ccl_fit_parameter_t){.value = log(priors_s[i]), .spread = 2};
    fit[times] = (ccl_fit_parameter_t){.value = log(0.8 * j->model.workers), .spread = 0.3};
    j->tiny = true;
    j->knot = 0;
    CCL_TRY(ccl_fit(n, fit, NULL, j->count, NOISE, residuals, j, &result, err));
    for (uint32_t i = 0; i < n; i++)
        values[i] = fit[i].value;
    double r[MAX_POINTS];
    CCL_TRY(residuals(values, r, j, err));
    for (uint32_t i = 0; i < times; i++)
        CCL_TRY(constant(c, list, names[i], "s", &fit[i], log(priors_s[i]), err));
    j->tiny = false;
    return CCL_OK;
}

static ccl_status_t fit_knot(job_t *j, uint32_t knot, ccl_host_calibration_t *c,
                             ccl_constant_t *list, ccl_error_t *err) {
    ccl_fit_parameter_t fit[NKINDS + 2];
    ccl_fit_result_t result;
    double values[NKINDS + 2], r[MAX_POINTS], prior = log(0.1e-9);
    uint32_t at_pool = NKINDS + j->apart, n = at_pool + j->several;
    char name[80], bytes[32];
    for (uint32_t i = 0; i < NKINDS; i++)
        fit[i] = kinds[i] == CCL_PRIM_R ? (ccl_fit_parameter_t){.value = 0, .spread = 0.5}
                                        : (ccl_fit_parameter_t){.value = prior, .spread = 2};
    fit[NKINDS] = (ccl_fit_parameter_t){.value = prior, .spread = 2};
    fit[at_pool] = (ccl_fit_parameter_t){.value = log(0.8 * j->model.workers), .spread = 0.3};
    j->knot = knot;
    CCL_TRY(ccl_fit(n, fit, NULL, j->count, NOISE, residuals, j, &result, err));
    for (uint32_t i = 0; i < n; i++)
        values[i] = fit[i].value;
    CCL_TRY(residuals(values, r, j, err));
    ccl_format_bytes(j->model.footprint_bytes[knot], bytes, sizeof bytes);
    for (uint32_t i = 0; i < NKINDS; i++) {
        snprintf(name, sizeof name, "host/%s/%s", bytes, ccl_primitive_name(kinds[i]));
        ccl_fit_parameter_t f = fit[i];
        if (kinds[i] == CCL_PRIM_R)
            f = (ccl_fit_parameter_t){.value = f.value + fit[0].value,
                                      .spread = hypot(f.spread, fit[0].spread),
                                      .error = hypot(f.error, fit[0].error)};
        CCL_TRY(constant(c, list, name, "B/s", &f, prior, err));
    }
    if (j->apart) {
        snprintf(name, sizeof name, "host/%s/across", bytes);
        CCL_TRY(constant(c, list, name, "B/s", &fit[NKINDS], prior, err));
    }
    if (j->several) {
        snprintf(name, sizeof name, "host/%s/pool", bytes);
        CCL_TRY(constant(c, list, name, "1", &fit[at_pool], log(0.8 * j->model.workers), err));
    }
    return CCL_OK;
}

/* Rates of local reductions by type, from the time of each alone. */
static ccl_status_t reduce_rates(const job_t *j, ccl_host_calibration_t *c, ccl_constant_t *list,
                                 ccl_error_t *err) {
    double pool = j->model.pool[j->model.nknots / 2];
    for (uint32_t t = 0; t < CCL_TYPES; t++) {
        const point_t *p = &j->points[j->first + t];
        char name[64];
        double work = fmax(p->time_s - j->model.launch_s, 0.1 * p->time_s) * pool;
        ccl_fit_parameter_t f = {
            .value = log(work / (TYPES_BYTES / 2)), .spread = 2, .error = NOISE};
        snprintf(name, sizeof name, "reduce_rate/%s", ccl_type_name((ccl_type_t)t));
        CCL_TRY(constant(c, list, name, "B/s", &f, log(0.1e-9), err));
    }
    return CCL_OK;
}

static ccl_status_t judge(const job_t *j, uint32_t n, ccl_host_calibration_t *c, ccl_error_t *err) {
    double *errors = malloc((n + (size_t)1) * sizeof *errors), mean = 0, all = 0, left = 0;
    if (!errors)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        mean += log(j->points[i].time_s) / n;
    for (uint32_t i = 0; i < n; i++) {
        const point_t *p = &j->points[i];
        errors[i] = fabs(p->fitted_s / p->time_s - 1);
        c->worst_error = fmax(c->worst_error, errors[i]);
        all += pow(log(p->time_s) - mean, 2);
        left += pow(log(p->time_s / p->fitted_s), 2);
    }
    c->npoints = n;
    c->median_error = ccl_i_host_median(errors, n);
    c->r2 = all > 0 ? 1 - left / all : 1;
    free(errors);
    return CCL_OK;
}

static ccl_status_t run(job_t *j, ccl_host_calibration_t *c, ccl_error_t *err) {
    uint32_t nconstants = 5 + j->model.nknots * (NKINDS + 2) + CCL_TYPES;
    ccl_constant_t *list = ccl_arena_alloc(&c->arena, nconstants, sizeof *list);
    ccl_text_t text = {0};
    if (!list)
        return ccl_fail_nomem(err);
    for (int m = 0; m < CCL_HOST_MICROS; m++)
        for (int which = 0; which < 2; which++)
            CCL_TRY(ccl_host_micro((ccl_host_micro_t)m, rank_counts[which], &j->programs[m][which],
                                   err));
    CCL_TRY(plan(j, err));
    CCL_TRY(measure(j, err));
    j->first = 0;
    j->count = 12;
    CCL_TRY(fit_tiny(j, c, list, err));
    j->first = j->count;
    j->count = 2 * (NKINDS + j->several + j->apart);
    for (uint32_t k = 0; k < j->model.nknots; k++) {
        CCL_TRY(fit_knot(j, k, c, list, err));
        j->first += j->count;
    }
    CCL_TRY(judge(j, j->first, c, err));
    CCL_TRY(reduce_rates(j, c, list, err));
    CCL_TRY(ccl_i_host_contention(j->ctx, j->o, j->model.workers,
                                  j->o->rounds ? j->o->rounds : ROUNDS, &list[c->nconstants++],
                                  err));
    c->contention = list[c->nconstants - 1].value;
    c->constants = list;
    c->model = j->model;
    ccl_i_host_profile(c, j->o, &text);
    c->profile = text.nomem ? NULL : ccl_arena_strdup(&c->arena, text.data);
    ccl_text_fini(&text);
    return c->profile ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_host_calibrate(const ccl_ctx_t *ctx, const ccl_host_calibrate_options_t *options,
                                ccl_host_calibration_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_host_calibrate_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_run_options_t, &options->run, err);
    static const double footprints[] = {192 << 10, 768 << 10, 1536 << 10, 3 << 20,
                                        6 << 20,   12 << 20,  24 << 20,   48 << 20};
    const double *f = options->footprints ? options->footprints : footprints;
    uint32_t n = options->footprints ? options->nfootprints : CCL_ARRAY_LEN(footprints);
    job_t j = {.ctx = ctx, .o = options};
    if (n < 1 || n > CCL_HOST_MAX_KNOTS)
        return ccl_fail(err, CCL_ERR_USAGE, "%u footprints: 1 to %d are possible", n,
                        CCL_HOST_MAX_KNOTS);
    for (uint32_t k = 0; k < n; k++) {
        if (!(f[k] >= 4096) || !(f[k] <= 0x1p40) || (k && !(f[k] > f[k - 1])))
            return ccl_fail(err, CCL_ERR_USAGE,
                            "footprint of %g bytes: 4K to 1T, ascending, is needed", f[k]);
        j.model.footprint_bytes[k] = f[k];
    }
    j.model.nknots = n;
    j.model.workers = ccl_i_host_workers(&options->run, rank_counts[0]);
    j.several = j.model.workers > 1;
    j.apart = ccl_i_host_processes(&options->run, rank_counts[0]) > 1;
    ccl_host_calibration_t *c = calloc(1, sizeof *c);
    if (!c)
        return ccl_fail_nomem(err);
    ccl_arena_init(&c->arena);
    ccl_status_t status = run(&j, c, err);
    for (int m = 0; m < CCL_HOST_MICROS; m++)
        for (int which = 0; which < 2; which++)
            ccl_program_destroy(j.programs[m][which]);
    free(j.points);
    if (status != CCL_OK) {
        ccl_host_calibration_destroy(c);
        return status;
    }
    *out = c;
    return CCL_OK;
}

void ccl_host_calibration_destroy(ccl_host_calibration_t *calibration) {
    if (!calibration)
        return;
    ccl_arena_fini(&calibration->arena);
    free(calibration);
}
