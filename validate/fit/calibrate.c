/*
 * From a measured curve of one collective to constants. What is fitted is a factor on each of the
 * topology's own: launch per protocol, latency per transport and protocol, what a thread block
 * moves per protocol (one factor for all transports: it is the GPU's), and the share of their
 * bandwidth that links reach. The priors say how far each may reasonably be from what is described;
 * what the curve does not determine stays there.
 */
#include "validate/validate.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NPROTOS 3
#define MAX_KINDS 4u
#define MAX_PARAMETERS (NPROTOS * (2 + MAX_KINDS) + MAX_KINDS)
#define MAX_POINTS 4096u

/* Spreads of the priors, of logarithms. */
#define LAUNCH_SPREAD 1.0
#define LATENCY_SPREAD 0.7
#define TB_RATE_SPREAD 0.2   /* the topologies have NCCL's own caps of a channel */
#define EFFICIENCY_PRIOR 0.8 /* NCCL counts 20 of an NVLink's 25 GB/s, 40.1 of 50 */
#define EFFICIENCY_SPREAD 0.1
#define NOISE 0.03 /* of a repeated nccl-tests run */

typedef enum what { LAUNCH, LATENCY, TB_RATE, EFFICIENCY } what_t;

typedef struct parameter {
    what_t what;
    int proto; /* -1: none */
    uint32_t kind;
} parameter_t;

typedef struct job {
    const ccl_topology_t *topo;
    const ccl_measured_run_t *run;
    ccl_predictor_t *predictor;
    uint32_t nkinds;
    const char *kinds[MAX_KINDS]; /* of transports that a ring uses */
    uint32_t np;
    parameter_t parameter[MAX_PARAMETERS];
    ccl_fit_parameter_t fit[MAX_PARAMETERS];
    uint32_t n;
    double *size, *measured; /* [n] */
} job_t;

/* ---------------------------------------------------------------- what is fitted */

static bool has_kind(const job_t *j, const char *kind) {
    for (uint32_t i = 0; i < j->nkinds; i++)
        if (strcmp(j->kinds[i], kind) == 0)
            return true;
    return false;
}

/* Transports of the connections of what NCCL runs at the largest size. */
static ccl_status_t find_kinds(job_t *j, ccl_error_t *err) {
    ccl_program_t *program = NULL;
    ccl_routes_t *routes = ccl_routes_create(j->topo);
    ccl_status_t status = routes ? CCL_OK : ccl_fail_nomem(err);
    double largest = 0;
    for (uint32_t i = 0; i < j->n; i++)
        largest = fmax(largest, j->size[i]);
    ccl_nccl_choice_t choice =
        ccl_nccl_choose(ccl_predictor_setup(j->predictor), j->run->kind, largest);
    if (status == CCL_OK)
        status = ccl_nccl_program(NULL, j->topo, routes, j->run->kind, j->run->root, &choice,
                                  &program, err);
    for (uint32_t t = 0; status == CCL_OK && t < program->ntbs; t++) {
        const ccl_tb_t *tb = &program->tbs[t];
        const ccl_route_t *route;
        if (tb->send_peer == CCL_NONE)
            continue;
        status =
            ccl_sim_flow_route(program, routes, tb->rank, tb->send_peer, tb->channel, &route, err);
        if (status == CCL_OK && !route) /* an offer: who pulls counts it */
            continue;
        const char *kind = status != CCL_OK ? ""
                           : ccl_peer_is_group(tb->send_peer)
                               ? ccl_model_tree_kind(j->topo, route)
                               : ccl_model_route_kind(j->topo, route);
        if (status == CCL_OK && !has_kind(j, kind) && j->nkinds < MAX_KINDS)
            j->kinds[j->nkinds++] = kind;
    }
    ccl_program_destroy(program);
    ccl_routes_destroy(routes);
    return status;
}

/* The topology's own value; a launch of 0 is taken as 1 us, as factors need something. */
static double own_value(const job_t *j, const parameter_t *p, uint32_t kind) {
    const char *proto = p->proto >= 0 ? ccl_nccl_proto_name((ccl_nccl_proto_t)p->proto) : NULL;
    ccl_transport_t t = ccl_model_transport(j->topo, j->kinds[kind], proto);
    switch (p->what) {
    case LAUNCH: {
        double launch_s = ccl_model_launch_s(j->topo, 0, proto);
        return launch_s > 0 ? launch_s : 1e-6;
    }
    case LATENCY:
        return t.latency_s + t.overhead_s;
    case TB_RATE:
        return t.tb_rate_Bps;
    default:
        return 1;
    }
}

static void add(job_t *j, what_t what, int proto, uint32_t kind) {
    static const double spread[] = {LAUNCH_SPREAD, LATENCY_SPREAD, TB_RATE_SPREAD,
                                    EFFICIENCY_SPREAD};
    parameter_t p = {what, proto, kind};
    double own = own_value(j, &p, kind);
    /* Nothing to multiply, or nobody to give it to. */
    if (!(own > 0) || !isfinite(own) || (what == LAUNCH && j->topo->ngpu_models == 0))
        return;
    j->parameter[j->np] = p;
    j->fit[j->np] = (ccl_fit_parameter_t){.value = what == EFFICIENCY ? log(EFFICIENCY_PRIOR) : 0,
                                          .spread = spread[what]};
    j->np++;
}

static void choose_parameters(job_t *j) {
    bool used[NPROTOS] = {false};
    for (uint32_t i = 0; i < j->n; i++)
        used[ccl_nccl_choose(ccl_predictor_setup(j->predictor), j->run->kind, j->size[i]).proto] =
            true;
    for (int p = 0; p < NPROTOS; p++) {
        if (!used[p])
            continue;
        add(j, LAUNCH, p, 0);
        for (uint32_t k = 0; k < j->nkinds; k++)
            add(j, LATENCY, p, k);
        add(j, TB_RATE, p, 0);
    }
    for (uint32_t k = 0; k < j->nkinds; k++)
        add(j, EFFICIENCY, -1, k);
}

/* ---------------------------------------------------------------- a profile from factors */

/* Six digits are more than any fit determines. */
static double rounded(double value) {
    char text[40];
    snprintf(text, sizeof text, "%.6g", value);
    return strtod(text, NULL);
}

static void profile_transports(const job_t *j, const double *p, ccl_text_t *out) {
    ccl_text_printf(out, "  \"transports\": {\n");
    for (uint32_t k = 0; k < j->nkinds; k++) {
        /* NCCL receives into its own buffer and copies out. */
        ccl_text_printf(out, "    \"%s\": {\n      \"direct\": false,\n      \"protocols\": {",
                        j->kinds[k]);
        bool first = true;
        for (int proto = 0; proto < NPROTOS; proto++) {
            const char *name = ccl_nccl_proto_name((ccl_nccl_proto_t)proto);
            ccl_transport_t t = ccl_model_transport(j->topo, j->kinds[k], name);
            double latency = NAN, rate = NAN;
            for (uint32_t i = 0; i < j->np; i++) {
                const parameter_t *q = &j->parameter[i];
                if (q->proto != proto)
                    continue;
                if (q->what == LATENCY && q->kind == k)
                    latency = exp(p[i]);
                if (q->what == TB_RATE)
                    rate = exp(p[i]);
            }
            if (isnan(latency) && isnan(rate))
                continue;
            latency = isnan(latency) ? 1 : latency;
            rate = isnan(rate) ? 1 : rate;
            char a[64], b[64], c[64];
            ccl_text_printf(out, "%s\n        \"%s\": {\"overhead\": \"%s\", \"latency\": \"%s\"",
                            first ? "" : ",", name,
                            ccl_format_time(rounded(t.overhead_s * latency), a, sizeof a),
                            ccl_format_time(rounded(t.latency_s * latency), b, sizeof b));
            if (isfinite(t.tb_rate_Bps))
                ccl_text_printf(out, ", \"tb_rate\": \"%s\"",
                                ccl_format_rate(rounded(t.tb_rate_Bps * rate), c, sizeof c));
            ccl_text_printf(out, "}");
            first = false;
        }
        ccl_text_printf(out, "\n      }\n    }%s\n", k + 1 < j->nkinds ? "," : "");
    }
    ccl_text_printf(out, "  },\n");
}

static void json_string_out(ccl_text_t *out, const char *text) {
    json_t *value = json_string_nocheck(text ? text : "");
    char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (dumped)
        ccl_text_add(out, dumped, strlen(dumped));
    else
        out->nomem = true;
    free(dumped);
    json_decref(value);
}

/* Everything that changes times; the rest is added by describe(). */
static void profile_constants(const job_t *j, const double *p, ccl_text_t *out) {
    ccl_text_printf(out, "  \"links\": {");
    bool first = true;
    for (uint32_t i = 0; i < j->np; i++) {
        if (j->parameter[i].what != EFFICIENCY)
            continue;
        ccl_text_printf(out, "%s\"%s\": {\"efficiency\": %.6g}", first ? "" : ", ",
                        j->kinds[j->parameter[i].kind], exp(p[i]));
        first = false;
    }
    ccl_text_printf(out, "},\n");
    profile_transports(j, p, out);
    ccl_text_printf(out, "  \"gpu_models\": {");
    for (uint32_t m = 0; m < j->topo->ngpu_models; m++) {
        ccl_text_printf(out, "%s\n    ", m ? "," : "");
        json_string_out(out, j->topo->gpu_models[m].name);
        ccl_text_printf(out, ": {\"protocols\": {");
        first = true;
        for (uint32_t i = 0; i < j->np; i++) {
            const parameter_t *q = &j->parameter[i];
            char text[64];
            if (q->what != LAUNCH)
                continue;
            ccl_text_printf(
                out, "%s\"%s\": {\"launch\": \"%s\"}", first ? "" : ", ",
                ccl_nccl_proto_name((ccl_nccl_proto_t)q->proto),
                ccl_format_time(rounded(own_value(j, q, 0) * exp(p[i])), text, sizeof text));
            first = false;
        }
        ccl_text_printf(out, "}}");
    }
    ccl_text_printf(out, "\n  }");
}

static ccl_status_t predict(job_t *j, const double *p, double *time_s, ccl_error_t *err) {
    ccl_text_t text = {0};
    ccl_profile_t *profile = NULL;
    ccl_text_printf(&text, "{\"format\": \"ccllab-profile-1\", \"name\": \"fit\",\n");
    profile_constants(j, p, &text);
    ccl_text_printf(&text, "}\n");
    ccl_status_t status = text.nomem
                              ? ccl_fail_nomem(err)
                              : ccl_profile_read_text("fit", text.data, text.len, &profile, err);
    ccl_text_fini(&text);
    CCL_TRY(status);
    status = ccl_predictor_profile(j->predictor, profile, err);
    ccl_profile_destroy(profile);
    for (uint32_t i = 0; i < j->n && status == CCL_OK; i++) {
        ccl_prediction_t prediction;
        status = ccl_predictor_run(j->predictor, j->run->kind, j->run->root, j->size[i], NULL,
                                   &prediction, err);
        time_s[i] = prediction.time_s;
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

/* ---------------------------------------------------------------- the fit */

static double sum_of_squares(const job_t *j, const double *r, const ccl_fit_parameter_t *fit) {
    double sum = 0;
    for (uint32_t i = 0; i < j->n; i++)
        sum += fmin(r[i] * r[i] / (NOISE * NOISE), 100);
    for (uint32_t k = 0; k < j->np; k++)
        sum += pow((fit[k].value - j->fit[k].value) / j->fit[k].spread, 2);
    return sum;
}

/*
 * The rate is the smaller of what blocks and links give, so that only one of the two has a slope at
 * a time: begin once with the topology's blocks, once with blocks that just carry what was
 * measured.
 */
static ccl_status_t fit_both_ways(job_t *j, ccl_fit_parameter_t *best, ccl_fit_result_t *result,
                                  double *r, ccl_error_t *err) {
    const ccl_nccl_setup_t *setup = ccl_predictor_setup(j->predictor);
    double peak_Bps = 0, least = INFINITY;
    double factor = ccl_collective_busbw_factor(j->run->kind, j->run->nranks);
    for (uint32_t i = 0; i < j->n; i++)
        peak_Bps = fmax(peak_Bps, j->size[i] / j->measured[i] * factor);
    for (int way = 0; way < 2; way++) {
        ccl_fit_parameter_t fit[MAX_PARAMETERS];
        double start[MAX_PARAMETERS];
        bool moved = false;
        memcpy(fit, j->fit, sizeof fit);
        for (uint32_t k = 0; k < j->np; k++) {
            start[k] = fit[k].value;
            double own = own_value(j, &j->parameter[k], 0);
            if (way == 1 && j->parameter[k].what == TB_RATE && isfinite(own) &&
                peak_Bps / setup->channels < own) {
                start[k] = log(peak_Bps / setup->channels / own);
                moved = true;
            }
        }
        if (way == 1 && !moved)
            break;
        ccl_fit_result_t one;
        CCL_TRY(ccl_fit(j->np, fit, start, j->n, NOISE, residuals, j, &one, err));
        double values[MAX_PARAMETERS];
        for (uint32_t k = 0; k < j->np; k++)
            values[k] = fit[k].value;
        CCL_TRY(residuals(values, r, j, err));
        double sum = sum_of_squares(j, r, fit);
        if (sum < least) {
            least = sum;
            memcpy(best, fit, sizeof fit);
            *result = one;
        }
    }
    return CCL_OK;
}

static ccl_status_t take_points(job_t *j, const ccl_calibrate_options_t *o, ccl_arena_t *arena,
                                ccl_error_t *err) {
    j->size = ccl_arena_alloc(arena, j->run->npoints + 1, sizeof *j->size);
    j->measured = ccl_arena_alloc(arena, j->run->npoints + 1, sizeof *j->measured);
    if (!j->size || !j->measured)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < j->run->npoints && j->n < MAX_POINTS; i++) {
        const ccl_measurement_t *m = &j->run->points[i];
        double time_s = o->in_place ? m->in_place_time_s : m->time_s;
        if (!(time_s > 0) || m->size_bytes < o->min_bytes)
            continue;
        j->size[j->n] = m->size_bytes;
        j->measured[j->n++] = time_s;
    }
    if (j->n < 3)
        return ccl_fail(err, CCL_ERR_INPUT, "%u measured sizes %s; a fit needs 3 or more", j->n,
                        o->in_place ? "in place" : "out of place");
    return CCL_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median and worst of |predicted / measured - 1|. */
static void errors(const job_t *j, const double *predicted, double *work, double *median,
                   double *worst) {
    for (uint32_t i = 0; i < j->n; i++)
        work[i] = fabs(predicted[i] / j->measured[i] - 1);
    qsort(work, j->n, sizeof *work, by_value);
    *median = j->n % 2 ? work[j->n / 2] : (work[j->n / 2 - 1] + work[j->n / 2]) / 2;
    if (worst)
        *worst = work[j->n - 1];
}

/* ---------------------------------------------------------------- the result */

static ccl_status_t list_constants(const job_t *j, const ccl_fit_parameter_t *fit,
                                   ccl_calibration_t *c, ccl_error_t *err) {
    ccl_constant_t *list = ccl_arena_alloc(&c->arena, (size_t)j->np * MAX_KINDS, sizeof *list);
    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < j->np; i++) {
        const parameter_t *p = &j->parameter[i];
        const char *proto = p->proto >= 0 ? ccl_nccl_proto_name((ccl_nccl_proto_t)p->proto) : "";
        uint32_t from = p->what == TB_RATE ? 0 : p->kind;
        uint32_t to = p->what == TB_RATE ? j->nkinds : p->kind + 1;
        for (uint32_t k = from; k < to; k++) {
            char name[160];
            double own = own_value(j, p, k);
            if (!isfinite(own))
                continue;
            if (p->what == LAUNCH)
                snprintf(name, sizeof name, "gpu_models/%.60s/%s/launch",
                         j->topo->ngpu_models ? j->topo->gpu_models[0].name : "", proto);
            else if (p->what == EFFICIENCY)
                snprintf(name, sizeof name, "links/%.40s/efficiency", j->kinds[k]);
            else
                snprintf(name, sizeof name, "transports/%.40s/%s/%s", j->kinds[k], proto,
                         p->what == LATENCY ? "overhead+latency" : "tb_rate");
            ccl_constant_t *out = &list[c->nconstants++];
            out->name = ccl_arena_strdup(&c->arena, name);
            if (!out->name)
                return ccl_fail_nomem(err);
            out->unit = p->what == EFFICIENCY ? "1" : p->what == TB_RATE ? "B/s" : "s";
            out->prior = own * exp(j->fit[i].value);
            out->value = own * exp(fit[i].value);
            out->low = own * exp(fit[i].value - 1.96 * fit[i].error);
            out->high = own * exp(fit[i].value + 1.96 * fit[i].error);
            out->determined = fit[i].error <= 0.5 * j->fit[i].spread;
        }
    }
    c->constants = list;
    return CCL_OK;
}

static ccl_status_t write_profile(const job_t *j, const double *values,
                                  const ccl_calibrate_options_t *o, ccl_calibration_t *c,
                                  ccl_error_t *err) {
    ccl_text_t t = {0};
    const char *kind = ccl_collective_kind_name(j->run->kind);
    char summary[300];
    snprintf(summary, sizeof summary, "NCCL on %u x %.60s, fitted to %s", j->run->nranks,
             j->topo->ngpu_models ? j->topo->gpu_models[0].name : "GPU", kind);
    ccl_text_printf(&t, "{\n  \"format\": \"ccllab-profile-1\",\n");
#define TEXT_(key_, value_)                                                                        \
    ccl_text_printf(&t, "  \"%s\": ", key_);                                                       \
    json_string_out(&t, value_);                                                                   \
    ccl_text_printf(&t, ",\n")
    TEXT_("name", o->name ? o->name : "fitted");
    TEXT_("summary", summary);
    TEXT_("machine", j->run->gpu[0] ? j->run->gpu : j->topo->name);
    TEXT_("date", o->date);
    TEXT_("command", o->command);
    TEXT_("source", o->source);
#undef TEXT_
    profile_constants(j, values, &t);
    ccl_text_printf(&t, ",\n  \"fit\": {\n    \"collective\": \"%s\",\n    \"nranks\": %u,\n", kind,
                    j->run->nranks);
    ccl_text_printf(&t, "    \"points\": %u,\n    \"r2\": %.6f,\n    \"median_error\": %.5f,\n",
                    j->n, c->r2, c->median_error);
    ccl_text_printf(&t, "    \"worst_error\": %.5f\n  },\n  \"constants\": [", c->worst_error);
    for (uint32_t i = 0; i < c->nconstants; i++) {
        const ccl_constant_t *k = &c->constants[i];
        ccl_text_printf(&t, "%s\n    {\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, ",
                        i ? "," : "", k->name, k->unit, k->value);
        ccl_text_printf(&t, "\"low\": %.6g, \"high\": %.6g, \"prior\": %.6g, \"determined\": %s}",
                        k->low, k->high, k->prior, k->determined ? "true" : "false");
    }
    ccl_text_printf(&t, "\n  ]\n}\n");
    c->profile = t.nomem ? NULL : ccl_arena_strdup(&c->arena, t.data);
    ccl_text_fini(&t);
    return c->profile ? CCL_OK : ccl_fail_nomem(err);
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

static ccl_status_t run_job(job_t *j, const ccl_calibrate_options_t *o, ccl_calibration_t *c,
                            ccl_error_t *err) {
    ccl_fit_parameter_t fit[MAX_PARAMETERS];
    ccl_fit_result_t result;
    double values[MAX_PARAMETERS];
    double *before = ccl_arena_alloc(&c->arena, j->n, sizeof *before);
    double *fitted = ccl_arena_alloc(&c->arena, j->n, sizeof *fitted);
    double *work = ccl_arena_alloc(&c->arena, j->n, sizeof *work);
    if (!before || !fitted || !work)
        return ccl_fail_nomem(err);
    CCL_TRY(find_kinds(j, err));
    choose_parameters(j);
    for (uint32_t i = 0; i < j->n; i++) {
        ccl_prediction_t p;
        CCL_TRY(
            ccl_predictor_run(j->predictor, j->run->kind, j->run->root, j->size[i], NULL, &p, err));
        before[i] = p.time_s;
    }
    CCL_TRY(fit_both_ways(j, fit, &result, work, err));
    for (uint32_t k = 0; k < j->np; k++)
        values[k] = fit[k].value;
    CCL_TRY(predict(j, values, fitted, err));
    c->run = j->run;
    c->npoints = j->n;
    c->sizes_bytes = j->size;
    c->measured_s = j->measured;
    c->before_s = before;
    c->fitted_s = fitted;
    c->r2 = r_squared(j, fitted);
    errors(j, before, work, &c->median_before, NULL);
    errors(j, fitted, work, &c->median_error, &c->worst_error);
    CCL_TRY(list_constants(j, fit, c, err));
    return write_profile(j, values, o, c, err);
}

ccl_status_t ccl_calibrate(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                           const ccl_measured_run_t *run, const ccl_calibrate_options_t *options,
                           ccl_calibration_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_calibrate_options_t, options, err);
    job_t job = {.topo = topo, .run = run};
    if (!run->known)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "the log does not say which collective it measured: --collective NAME");
    if (run->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "a run of %u ranks on a cluster of %u GPUs",
                        run->nranks, topo->nranks);
    ccl_calibration_t *c = calloc(1, sizeof *c);
    if (!c)
        return ccl_fail_nomem(err);
    ccl_arena_init(&c->arena);
    ccl_status_t status = take_points(&job, options, &c->arena, err);
    if (status == CCL_OK)
        status = ccl_predictor_create(ctx, topo, NULL,
                                      options->channels ? options->channels : run->channels,
                                      &job.predictor, err);
    if (status == CCL_OK) {
        ccl_predictor_version(job.predictor, run->version);
        status = run_job(&job, options, c, err);
    }
    ccl_predictor_destroy(job.predictor);
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
