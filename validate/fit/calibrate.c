/*
 * From measured curves to one set of constants. What is fitted is a factor on each of the first
 * topology's own. The priors say how far each may reasonably be from what is described, the bounds
 * how far at all; what the points do not determine stays at the prior.
 */
#include "validate/fit/joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EFFICIENCY_PRIOR 0.8 /* NCCL counts 20 of an NVLink's 25 GB/s, 40.1 of 50 */
#define NOISE 0.03           /* of a repeated nccl-tests run */
#define MOST_LAUNCH_S 50e-6  /* a launch of more is waiting for something else */
#define MOST_STEP_S 100e-6
#define MESSAGE_S 0.25e-6 /* of NDR (docs/reproductions/nccl.md) */

/* Priors and bounds of factors. Spreads are of logarithms. */
const ccl_i_fit_about_t ccl_i_fit_about[] = {
    [CCL_I_FIT_LAUNCH] = {1, 1.0, 0.02, 50, "launch", "s"},
    [CCL_I_FIT_STEP] = {1, 0.7, 0.02, 50, "overhead+latency", "s"},
    [CCL_I_FIT_OVERHEAD] = {1, 0.7, 0.02, 50, "overhead", "s"},
    [CCL_I_FIT_LATENCY] = {1, 0.7, 0.02, 50, "latency", "s"},
    /* The topologies have NCCL's own caps of a channel. */
    [CCL_I_FIT_TB_RATE] = {1, 0.2, 0.02, 10, "tb_rate", "B/s"},
    [CCL_I_FIT_MESSAGE] = {1, 1.5, 0.02, 100, "message", "s"},
    [CCL_I_FIT_EFFICIENCY] = {EFFICIENCY_PRIOR, 0.1, 0.05, 1, "efficiency", "1"},
    [CCL_I_FIT_WIRE] = {1.105, 0.15, 1, 3, "wire", "1"}, /* requests beside the data */
    [CCL_I_FIT_REDUCE] = {1, 0.7, 0.02, 50, "reduce_rate", "B/s"}};

ccl_status_t ccl_hold_out_parse(const char *text, ccl_hold_out_t *out, ccl_error_t *err) {
    static const char *const words[] = {"none", "50%", "sizes", "runs"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(words); i++)
        if (strcmp(words[i], text) == 0) {
            *out = (ccl_hold_out_t)i;
            return CCL_OK;
        }
    return ccl_fail(err, CCL_ERR_USAGE, "nothing to hold out by \"%.40s\": none, 50%%, sizes, runs",
                    text);
}

/* ---------------------------------------------------------------- what is fitted */

/* A latency of 0 is taken as something, as factors need it: what the links do not have. */
static double own_latency_s(const ccl_i_fit_kind_t *kind, int proto) {
    double own_s = kind->own[proto].latency_s;
    return own_s > 0 ? own_s : strcmp(kind->name, "net") == 0 ? 1e-6 : 0.1e-6;
}

/* What NCCL sends in a message; a message of 0 is taken as that of its measured networks. */
static double own_message_s(const ccl_i_fit_kind_t *kind, int proto) {
    double own_s = kind->own[proto].message_s;
    return own_s > 0 ? own_s : MESSAGE_S;
}

static double own_message_bytes(const ccl_i_fit_kind_t *kind, int proto) {
    static const double nccl[CCL_I_FIT_PROTOS] = {32768, 524288, 1048576};
    double own = kind->own[proto].message_bytes;
    return isfinite(own) ? own : nccl[proto];
}

double ccl_i_fit_own(const ccl_i_fit_job_t *j, const ccl_i_fit_param_t *p, uint32_t kind) {
    const ccl_transport_t *t =
        kind == CCL_NONE || p->proto < 0 ? NULL : &j->bench->kinds[kind].own[p->proto];
    switch (p->what) {
    case CCL_I_FIT_LAUNCH: /* a launch of 0 is taken as 1 us, as factors need something */
        return j->bench->own_launch_s[p->proto] > 0 ? j->bench->own_launch_s[p->proto] : 1e-6;
    case CCL_I_FIT_STEP:
        return t->overhead_s + t->latency_s;
    case CCL_I_FIT_OVERHEAD:
        return t->overhead_s;
    case CCL_I_FIT_LATENCY:
        return own_latency_s(&j->bench->kinds[kind], p->proto);
    case CCL_I_FIT_TB_RATE:
        return t->tb_rate_Bps;
    case CCL_I_FIT_MESSAGE:
        return own_message_s(&j->bench->kinds[kind], p->proto);
    case CCL_I_FIT_REDUCE:
        return ccl_model_gpu(j->bench->sources[0].topo, 0).reduce_rate_Bps;
    default:
        return 1;
    }
}

static void add(ccl_i_fit_job_t *j, ccl_i_fit_what_t what, int proto, uint32_t kind) {
    ccl_i_fit_param_t p = {what, proto, kind};
    uint32_t first = kind == CCL_NONE && what == CCL_I_FIT_TB_RATE ? 0 : kind;
    if (what == CCL_I_FIT_EFFICIENCY || what == CCL_I_FIT_WIRE)
        p.proto = -1;
    double own = p.proto < 0 && what != CCL_I_FIT_REDUCE ? 1 : ccl_i_fit_own(j, &p, first);
    /* Nothing to multiply, or nobody to give it to. */
    if (!(own > 0) || !isfinite(own) || j->np == CCL_I_FIT_PARAMETERS ||
        (what == CCL_I_FIT_LAUNCH && j->bench->sources[0].topo->ngpu_models == 0))
        return;
    ccl_fit_parameter_t fit = {.value = log(ccl_i_fit_about[what].prior),
                               .spread = ccl_i_fit_about[what].spread,
                               .low = log(ccl_i_fit_about[what].low),
                               .high = log(ccl_i_fit_about[what].high)};
    bool is_switch = kind != CCL_NONE && j->bench->kinds[kind].base;
    if (is_switch && what == CCL_I_FIT_OVERHEAD) { /* pulls cost less than sends */
        fit.value = -1;
        fit.spread = 1;
    }
    if (is_switch && what == CCL_I_FIT_LATENCY)
        fit.spread = 0.4;
    if (what == CCL_I_FIT_TB_RATE && !j->bench->of_nccl) /* NCCL's caps are no caps of others */
        fit.spread = 0.5;
    if (what == CCL_I_FIT_LATENCY && j->bench->kinds[kind].own[proto].latency_s == 0)
        fit.spread = 1.5;
    if (what == CCL_I_FIT_LAUNCH)
        fit.high = fmax(fit.value, fmin(fit.high, log(MOST_LAUNCH_S / own)));
    if (what == CCL_I_FIT_STEP || what == CCL_I_FIT_OVERHEAD || what == CCL_I_FIT_LATENCY)
        fit.high = fmax(fit.value, fmin(fit.high, log(MOST_STEP_S / own)));
    j->params[j->np] = p;
    j->fit[j->np++] = fit;
}

static void choose_parameters(ccl_i_fit_job_t *j) {
    const ccl_i_bench_t *b = j->bench;
    bool several = b->nsources > 1 || b->sources[0].program;
    uint32_t plain = 0;
    for (uint32_t k = 0; k < b->nkinds; k++)
        plain += !b->kinds[k].base;
    for (int p = 0; p < (int)CCL_I_FIT_PROTOS; p++) {
        if (!b->used[p])
            continue;
        add(j, CCL_I_FIT_LAUNCH, p, CCL_NONE);
        for (uint32_t k = 0; k < b->nkinds; k++) {
            if (!b->kinds[k].used[p])
                continue;
            if (several || b->kinds[k].base) {
                add(j, CCL_I_FIT_OVERHEAD, p, k);
                add(j, CCL_I_FIT_LATENCY, p, k);
            } else {
                add(j, CCL_I_FIT_STEP, p, k);
            }
            if (b->of_nccl && strcmp(b->kinds[k].name, "net") == 0)
                add(j, CCL_I_FIT_MESSAGE, p, k);
            /* Of a switch's the links limit (bench.c). */
            if (several && plain > 1 && !b->kinds[k].base)
                add(j, CCL_I_FIT_TB_RATE, p, k);
        }
        if (!several || plain == 1)
            add(j, CCL_I_FIT_TB_RATE, p, CCL_NONE);
    }
    for (uint32_t k = 0; k < b->nkinds; k++) {
        if (b->kinds[k].base)
            add(j, CCL_I_FIT_WIRE, -1, k);
        else if (b->kinds[k].links)
            add(j, CCL_I_FIT_EFFICIENCY, -1, k);
    }
    if (several)
        add(j, CCL_I_FIT_REDUCE, -1, CCL_NONE);
}

bool ccl_i_fit_is_of(const ccl_i_fit_job_t *j, const ccl_i_fit_param_t *p, uint32_t kind) {
    return p->kind == kind || (p->kind == CCL_NONE && !j->bench->kinds[kind].base);
}

void ccl_i_fit_constants(const ccl_i_fit_job_t *j, const double *p, ccl_i_constants_set_t *c) {
    const ccl_i_bench_t *b = j->bench;
    double *all = (double *)c;
    for (size_t i = 0; i < sizeof *c / sizeof *all; i++)
        all[i] = NAN;
    for (uint32_t i = 0; i < j->np; i++) {
        const ccl_i_fit_param_t *q = &j->params[i];
        double factor = exp(p[i]);
        if (q->what == CCL_I_FIT_LAUNCH)
            c->launch_s[q->proto] = ccl_i_fit_rounded(ccl_i_fit_own(j, q, CCL_NONE) * factor);
        if (q->what == CCL_I_FIT_REDUCE)
            c->reduce_Bps = ccl_i_fit_rounded(ccl_i_fit_own(j, q, CCL_NONE) * factor);
        for (uint32_t k = 0; k < b->nkinds; k++) {
            if (!ccl_i_fit_is_of(j, q, k) || q->what == CCL_I_FIT_LAUNCH ||
                q->what == CCL_I_FIT_REDUCE)
                continue;
            if (q->what == CCL_I_FIT_EFFICIENCY)
                c->efficiency[k] = ccl_i_fit_rounded(factor);
            if (q->what == CCL_I_FIT_WIRE)
                c->wire[k] = fmax(1, ccl_i_fit_rounded(factor));
            if (q->proto < 0)
                continue;
            const ccl_transport_t *t = &b->kinds[k].own[q->proto];
            if (q->what == CCL_I_FIT_STEP || q->what == CCL_I_FIT_OVERHEAD)
                c->overhead_s[k][q->proto] = ccl_i_fit_rounded(t->overhead_s * factor);
            if (q->what == CCL_I_FIT_STEP)
                c->latency_s[k][q->proto] = ccl_i_fit_rounded(t->latency_s * factor);
            if (q->what == CCL_I_FIT_LATENCY)
                c->latency_s[k][q->proto] =
                    ccl_i_fit_rounded(own_latency_s(&b->kinds[k], q->proto) * factor);
            if (q->what == CCL_I_FIT_MESSAGE) {
                c->message_bytes[k][q->proto] = own_message_bytes(&b->kinds[k], q->proto);
                c->message_s[k][q->proto] =
                    ccl_i_fit_rounded(own_message_s(&b->kinds[k], q->proto) * factor);
            }
            if (q->what == CCL_I_FIT_TB_RATE && isfinite(t->tb_rate_Bps))
                c->tb_rate_Bps[k][q->proto] = ccl_i_fit_rounded(t->tb_rate_Bps * factor);
        }
    }
}

/** Whether a point's time depends on a parameter; links' shares may matter to any. */
static bool matters(const ccl_i_fit_param_t *q, const ccl_i_point_t *p) {
    if (q->proto >= 0 && q->proto != p->proto)
        return false;
    return q->proto < 0 || q->kind == CCL_NONE || (p->kinds >> q->kind & 1);
}

/* ---------------------------------------------------------------- predictions */

/* Points whose parameters are those of the base keep its time: most derivatives touch few. */
static ccl_status_t predict(ccl_i_fit_job_t *j, const double *p, const bool *which,
                            ccl_error_t *err) {
    ccl_i_bench_t *b = j->bench;
    ccl_i_constants_set_t constants;
    uint32_t moved = 0;
    for (uint32_t i = 0; i < b->npoints; i++)
        j->wanted[i] = !j->based && (!which || which[i]);
    for (uint32_t k = 0; k < j->np; k++) {
        if (j->based && p[k] == j->base_p[k])
            continue;
        moved++;
        for (uint32_t i = 0; i < b->npoints; i++)
            j->wanted[i] =
                j->wanted[i] || ((!which || which[i]) && matters(&j->params[k], &b->points[i]));
    }
    ccl_i_fit_constants(j, p, &constants);
    if (j->based)
        memcpy(j->time_s, j->base_s, b->npoints * sizeof *j->time_s);
    CCL_TRY(ccl_i_bench_run(b, &constants, j->wanted, j->time_s, err));
    if (moved > 1 || !j->based) {
        memcpy(j->base_s, j->time_s, b->npoints * sizeof *j->time_s);
        memcpy(j->base_p, p, j->np * sizeof *p);
        j->based = true;
    }
    return CCL_OK;
}

static ccl_status_t residuals(const double *p, double *r, void *user, ccl_error_t *err) {
    ccl_i_fit_job_t *j = user;
    CCL_TRY(predict(j, p, j->training, err));
    for (uint32_t i = 0; i < j->n; i++) {
        const ccl_i_point_t *q = &j->bench->points[j->train[i]];
        r[i] = log(j->time_s[j->train[i]] / q->measured_s) * j->noise / fmax(j->noise, q->spread);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- the fit */

static double sum_of_squares(const ccl_i_fit_job_t *j, const double *r,
                             const ccl_fit_parameter_t *fit) {
    double sum = 0;
    for (uint32_t i = 0; i < j->n; i++)
        sum += fmin(r[i] * r[i] / (j->noise * j->noise), 100);
    for (uint32_t k = 0; k < j->np; k++)
        sum += pow((fit[k].value - j->fit[k].value) / j->fit[k].spread, 2);
    return sum;
}

/** The best of several descents. */
typedef struct descent {
    ccl_fit_parameter_t fit[CCL_I_FIT_PARAMETERS];
    double sum, *r; /* of squares; [n] */
} descent_t;

static ccl_status_t sum_at(ccl_i_fit_job_t *j, const double *p, descent_t *d, double *out,
                           ccl_error_t *err) {
    ccl_fit_parameter_t at[CCL_I_FIT_PARAMETERS];
    CCL_TRY(residuals(p, d->r, j, err));
    for (uint32_t k = 0; k < j->np; k++)
        at[k].value = p[k];
    *out = sum_of_squares(j, d->r, at);
    return CCL_OK;
}

static ccl_status_t descend_from(ccl_i_fit_job_t *j, const double *start, descent_t *d,
                                 ccl_error_t *err) {
    ccl_fit_parameter_t fit[CCL_I_FIT_PARAMETERS];
    double values[CCL_I_FIT_PARAMETERS], sum;
    ccl_fit_result_t one;
    memcpy(fit, j->fit, sizeof fit);
    CCL_TRY(ccl_fit(j->np, fit, start, j->n, j->noise, residuals, j, &one, err));
    for (uint32_t k = 0; k < j->np; k++)
        values[k] = fit[k].value;
    CCL_TRY(sum_at(j, values, d, &sum, err));
    if (sum < d->sum) {
        d->sum = sum;
        memcpy(d->fit, fit, sizeof fit);
    }
    return CCL_OK;
}

/*
 * Overhead and latency together make a step slow, and only in pipelines one is not like the other:
 * from where a descent ended, other shares of the same time may be better. A step that waits for
 * one latency waits for one to three overheads (of sender, receiver, and the next send).
 */
static ccl_status_t other_shares(ccl_i_fit_job_t *j, uint32_t k, double *start, descent_t *d,
                                 double *best, ccl_error_t *err) {
    static const double shares[] = {0.03, 0.2, 0.5, 0.8, 0.97};
    double own_a = ccl_i_fit_own(j, &j->params[k], j->params[k].kind), sum;
    double own_b = ccl_i_fit_own(j, &j->params[k + 1], j->params[k + 1].kind);
    double overhead_s = own_a * exp(start[k]), latency_s = own_b * exp(start[k + 1]);
    for (int count = 1; count <= 3; count++)
        for (size_t i = 0; i < CCL_ARRAY_LEN(shares); i++) {
            double kept[2] = {start[k], start[k + 1]};
            double step_s = count * overhead_s + latency_s;
            start[k] =
                fmin(j->fit[k].high, fmax(j->fit[k].low, log(shares[i] * step_s / count / own_a)));
            start[k + 1] = fmin(j->fit[k + 1].high,
                                fmax(j->fit[k + 1].low, log((1 - shares[i]) * step_s / own_b)));
            CCL_TRY(sum_at(j, start, d, &sum, err));
            if (sum < *best) {
                *best = sum;
            } else {
                start[k] = kept[0];
                start[k + 1] = kept[1];
            }
        }
    return CCL_OK;
}

static ccl_status_t share_start(ccl_i_fit_job_t *j, double *start, descent_t *d, bool *moved,
                                ccl_error_t *err) {
    double best = d->sum;
    for (uint32_t k = 0; k < j->np; k++)
        start[k] = d->fit[k].value;
    for (uint32_t k = 0; k + 1 < j->np; k++)
        if (j->params[k].what == CCL_I_FIT_OVERHEAD && j->params[k + 1].what == CCL_I_FIT_LATENCY &&
            j->params[k].kind == j->params[k + 1].kind)
            CCL_TRY(other_shares(j, k, start, d, &best, err));
    *moved = best < d->sum;
    return CCL_OK;
}

static ccl_status_t fit_all_ways(ccl_i_fit_job_t *j, ccl_fit_parameter_t *best, ccl_error_t *err) {
    double start[CCL_I_FIT_PARAMETERS];
    descent_t d = {.sum = INFINITY, .r = malloc((j->n + (size_t)1) * sizeof *d.r)};
    ccl_status_t status = d.r ? CCL_OK : ccl_fail_nomem(err);
    bool moved = true;
    for (uint32_t k = 0; k < j->np; k++)
        start[k] = j->fit[k].value;
    if (status == CCL_OK)
        status = descend_from(j, start, &d, err);
    for (int again = 0; status == CCL_OK && moved && again < 2; again++) {
        status = share_start(j, start, &d, &moved, err);
        if (status == CCL_OK && moved)
            status = descend_from(j, start, &d, err);
    }
    memcpy(best, d.fit, sizeof d.fit);
    free(d.r);
    return status;
}

/* ---------------------------------------------------------------- which points */

static bool same_thing(const ccl_i_bench_t *b, const ccl_i_point_t *x, const ccl_i_point_t *y) {
    const ccl_measured_source_t *p = &b->sources[x->source], *q = &b->sources[y->source];
    const ccl_measured_run_t *m = p->run, *n = q->run;
    return x->size_bytes == y->size_bytes && x->proto == y->proto && p->program == q->program &&
           p->topo == q->topo && m->kind == n->kind && m->root == n->root &&
           m->nranks == n->nranks && m->version == n->version && m->channels == n->channels &&
           strcmp(m->type, n->type) == 0;
}

/* Noise of one measurement from pairs of the same: |log ratio| has the median 0.6745 sqrt(2). */
static ccl_status_t find_noise(const ccl_i_bench_t *b, ccl_calibration_t *c, ccl_error_t *err) {
    double *ratios = malloc((b->npoints + (size_t)1) * sizeof *ratios);
    uint32_t n = 0;
    if (!ratios)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < b->npoints; i++) {
        for (uint32_t k = i + 1; k < b->npoints; k++) {
            if (!same_thing(b, &b->points[i], &b->points[k]))
                continue;
            ratios[n++] = fabs(log(b->points[i].measured_s / b->points[k].measured_s));
            break; /* each with the next alone: pairs are independent enough */
        }
    }
    c->nrepeats = n;
    c->noise = n ? ccl_i_error_stats(ratios, n).median / (0.6745 * sqrt(2)) : NAN;
    free(ratios);
    return CCL_OK;
}

static ccl_status_t take_points(ccl_i_fit_job_t *j, const ccl_calibrate_options_t *o, uint64_t seed,
                                bool *held, ccl_error_t *err) {
    ccl_i_bench_t *b = j->bench;
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed);
    for (uint32_t i = 0; i < b->npoints; i++) {
        const ccl_i_point_t *p = &b->points[i];
        bool coin = ccl_rng_next(&rng) >> 63;
        held[i] = o->hold_out == CCL_HOLD_OUT_HALF ? coin
                  : o->hold_out == CCL_HOLD_OUT_SIZES
                      ? ccl_i_second_size(b, i)
                      : o->hold_out == CCL_HOLD_OUT_RUNS && p->source % 2 == 1;
        j->training[i] = !held[i] && !p->stuck;
        if (j->training[i])
            j->train[j->n++] = i;
    }
    if (j->n < 3)
        return ccl_fail(err, CCL_ERR_INPUT, "%u measured sizes %s; a fit needs 3 or more", j->n,
                        o->in_place ? "in place" : "out of place");
    return CCL_OK;
}

/* ---------------------------------------------------------------- the whole */

static ccl_status_t give_arrays(ccl_i_fit_job_t *j, ccl_calibration_t *c, ccl_error_t *err) {
    ccl_i_bench_t *b = j->bench;
    size_t n = b->npoints + (size_t)1;
    uint32_t *source_of = ccl_arena_alloc(&c->arena, n, sizeof *source_of);
    double *all = ccl_arena_alloc(&c->arena, 8 * n, sizeof *all);
    bool *flags = ccl_arena_alloc(&c->arena, 3 * n, sizeof *flags);
    j->train = ccl_arena_alloc(&c->arena, n, sizeof *j->train);
    if (!source_of || !all || !flags || !j->train)
        return ccl_fail_nomem(err);
    c->npoints = b->npoints;
    c->source_of = source_of;
    c->sizes_bytes = all;
    c->measured_s = all + n;
    c->before_s = all + 2 * n;
    c->fitted_s = all + 3 * n;
    c->interpolated_s = all + 4 * n;
    j->base_s = all + 5 * n;
    j->time_s = all + 6 * n;
    c->predicted_s = all + 7 * n;
    c->held_out = flags;
    j->training = flags + n;
    j->wanted = flags + 2 * n;
    for (uint32_t i = 0; i < b->npoints; i++) {
        source_of[i] = b->points[i].source;
        all[i] = b->points[i].size_bytes;
        all[n + i] = b->points[i].measured_s;
    }
    return CCL_OK;
}

static ccl_status_t run_job(ccl_i_fit_job_t *j, const ccl_calibrate_options_t *o, uint64_t seed,
                            ccl_calibration_t *c, ccl_error_t *err) {
    ccl_i_bench_t *b = j->bench;
    ccl_fit_parameter_t fit[CCL_I_FIT_PARAMETERS];
    double values[CCL_I_FIT_PARAMETERS];
    CCL_TRY(give_arrays(j, c, err));
    CCL_TRY(ccl_i_bench_run(b, NULL, NULL, (double *)c->before_s, err));
    for (uint32_t i = 0; i < b->npoints; i++) {
        b->points[i].stuck = isnan(c->before_s[i]);
        c->nstuck += b->points[i].stuck;
    }
    CCL_TRY(take_points(j, o, seed, (bool *)c->held_out, err));
    CCL_TRY(find_noise(b, c, err));
    j->noise = c->nrepeats > 2 ? fmax(NOISE, c->noise) : NOISE;
    choose_parameters(j);
    CCL_TRY(fit_all_ways(j, fit, err));
    for (uint32_t k = 0; k < j->np; k++)
        values[k] = fit[k].value;
    j->based = false;
    CCL_TRY(predict(j, values, NULL, err));
    memcpy((double *)c->fitted_s, j->time_s, b->npoints * sizeof *j->time_s);
    ccl_i_interpolate(b, j->training, (double *)c->interpolated_s);
    CCL_TRY(
        ccl_i_curves_make(b, j->training, c->fitted_s, &c->arena, &c->curves, &c->ncurves, err));
    ccl_i_correct(b, c->curves, c->ncurves, c->fitted_s, (double *)c->predicted_s);
    return ccl_i_fit_result(j, fit, o, c, err);
}

ccl_status_t ccl_calibrate(const ccl_ctx_t *ctx, const ccl_measured_source_t *sources,
                           uint32_t nsources, const ccl_calibrate_options_t *options,
                           ccl_calibration_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_calibrate_options_t, options, err);
    ccl_i_fit_job_t job = {.np = 0};
    if (nsources == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "no measured runs");
    ccl_calibration_t *c = calloc(1, sizeof *c);
    if (!c)
        return ccl_fail_nomem(err);
    ccl_arena_init(&c->arena);
    c->sources = sources;
    c->nsources = nsources;
    ccl_status_t status =
        ccl_i_bench_create(ctx, sources, nsources, options, NULL, &job.bench, err);
    if (status == CCL_OK)
        status = run_job(&job, options, ctx ? ctx->seed : 1, c, err);
    ccl_i_bench_destroy(job.bench);
    if (status != CCL_OK) {
        ccl_calibration_destroy(c);
        return status;
    }
    *out = c;
    return CCL_OK;
}

void ccl_calibration_destroy(ccl_calibration_t *calibration) {
    if (!calibration)
        return;
    ccl_arena_fini(&calibration->arena);
    free(calibration);
}
