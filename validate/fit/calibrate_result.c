/* What a joint fit gives: constants with intervals, errors, and a profile. */
#include "validate/fit/joint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the result */

static ccl_status_t add_constant(const ccl_i_fit_job_t *j, uint32_t i, uint32_t k,
                                 const ccl_fit_parameter_t *fit, ccl_calibration_t *c,
                                 ccl_constant_t *list, ccl_error_t *err) {
    const ccl_i_fit_param_t *p = &j->params[i];
    const ccl_topology_t *topo = j->bench->sources[0].topo;
    const char *proto = p->proto >= 0 ? ccl_nccl_proto_name((ccl_nccl_proto_t)p->proto) : "";
    const char *model = topo->ngpu_models ? topo->gpu_models[0].name : "";
    const char *what = ccl_i_fit_about[p->what].name;
    double own = p->proto < 0 && p->what != CCL_I_FIT_REDUCE ? 1 : ccl_i_fit_own(j, p, k);
    char name[160];
    if (!isfinite(own))
        return CCL_OK;
    if (p->what == CCL_I_FIT_LAUNCH)
        snprintf(name, sizeof name, "gpu_models/%.60s/%s/%s", model, proto, what);
    else if (p->what == CCL_I_FIT_REDUCE)
        snprintf(name, sizeof name, "gpu_models/%.60s/%s", model, what);
    else if (p->what == CCL_I_FIT_EFFICIENCY)
        snprintf(name, sizeof name, "links/%.40s/%s", j->bench->kinds[k].name, what);
    else
        snprintf(name, sizeof name, "transports/%.40s/%s%s%s", j->bench->kinds[k].name, proto,
                 proto[0] ? "/" : "", what);
    ccl_constant_t *out = &list[c->nconstants++];
    *out = (ccl_constant_t){.name = ccl_arena_strdup(&c->arena, name),
                            .unit = ccl_i_fit_about[p->what].unit,
                            .prior = own * exp(j->fit[i].value),
                            .value = own * exp(fit[i].value),
                            .low = own * exp(fit[i].value - 1.96 * fit[i].error),
                            .high = own * exp(fit[i].value + 1.96 * fit[i].error),
                            .at_bound = fit[i].at_bound};
    out->determined = !fit[i].at_bound && fit[i].error <= 0.5 * j->fit[i].spread;
    return out->name ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t list_constants(const ccl_i_fit_job_t *j, const ccl_fit_parameter_t *fit,
                                   ccl_calibration_t *c, ccl_error_t *err) {
    ccl_constant_t *list =
        ccl_arena_alloc(&c->arena, (size_t)j->np * CCL_I_FIT_KINDS, sizeof *list);
    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < j->np; i++) {
        bool one = j->params[i].what == CCL_I_FIT_LAUNCH || j->params[i].what == CCL_I_FIT_REDUCE;
        if (one)
            CCL_TRY(add_constant(j, i, CCL_NONE, fit, c, list, err));
        for (uint32_t k = 0; !one && k < j->bench->nkinds; k++)
            if (ccl_i_fit_is_of(j, &j->params[i], k))
                CCL_TRY(add_constant(j, i, k, fit, c, list, err));
    }
    c->constants = list;
    return CCL_OK;
}

/* Sources, collectives, sizes and numbers of ranks: where the constants may be trusted. */
static void add_trust(const ccl_i_fit_job_t *j, const ccl_calibration_t *c, ccl_text_t *t) {
    const ccl_i_bench_t *b = j->bench;
    double least = INFINITY, most = 0;
    const char *before = "";
    ccl_text_printf(t, "    \"sources\": [");
    for (uint32_t s = 0; s < b->nsources; s++) {
        bool again = false;
        for (uint32_t q = 0; q < s && !again; q++)
            again = strcmp(b->sources[q].name, b->sources[s].name) == 0;
        if (again)
            continue;
        ccl_text_printf(t, "%s", before);
        ccl_i_fit_json(t, b->sources[s].name);
        before = ", ";
    }
    ccl_text_printf(t, "],\n    \"collectives\": [");
    before = "";
    for (int kind = 0; kind <= (int)CCL_CUSTOM; kind++) {
        bool there = false;
        for (uint32_t s = 0; s < b->nsources; s++)
            there = there || (int)(b->sources[s].program ? b->sources[s].program->coll->kind
                                                         : b->sources[s].run->kind) == kind;
        if (!there)
            continue;
        ccl_text_printf(t, "%s\"%s\"", before,
                        ccl_collective_kind_name((ccl_collective_kind_t)kind));
        before = ", ";
    }
    ccl_text_printf(t, "],\n    \"nranks\": [");
    before = "";
    for (uint32_t s = 0; s < b->nsources; s++) {
        bool again = false;
        for (uint32_t q = 0; q < s && !again; q++)
            again = b->sources[q].topo->nranks == b->sources[s].topo->nranks;
        if (!again)
            ccl_text_printf(t, "%s%u", before, b->sources[s].topo->nranks);
        before = again ? before : ", ";
    }
    for (uint32_t i = 0; i < j->n; i++) {
        least = fmin(least, b->points[j->train[i]].size_bytes);
        most = fmax(most, b->points[j->train[i]].size_bytes);
    }
    ccl_text_printf(t, "],\n    \"min_bytes\": %.17g,\n    \"max_bytes\": %.17g,\n", least, most);
    ccl_text_printf(t, "    \"points\": %u,\n    \"r2\": %.6f,\n    \"median_error\": %.5f,\n",
                    j->n, c->r2, c->median_error);
    if (c->held.n)
        ccl_text_printf(t, "    \"held_out\": %u,\n    \"held_out_median_error\": %.5f,\n",
                        c->held.n, c->held.median);
    ccl_text_printf(t, "    \"worst_error\": %.5f\n", c->worst_error);
}

static ccl_status_t write_profile(const ccl_i_fit_job_t *j, const double *values,
                                  const ccl_calibrate_options_t *o, ccl_calibration_t *c,
                                  ccl_error_t *err) {
    ccl_text_t t = {0};
    ccl_i_constants_set_t constants;
    const ccl_measured_source_t *first = &c->sources[0];
    const ccl_topology_t *topo = first->topo;
    const char *kind =
        ccl_collective_kind_name(first->program ? first->program->coll->kind : first->run->kind);
    char summary[300], more[60] = "";
    if (c->nsources > 1)
        snprintf(more, sizeof more, " and %u more runs", c->nsources - 1);
    snprintf(summary, sizeof summary, "%s on %u x %.60s, fitted to %s%s",
             j->bench->of_nccl ? "NCCL" : "programs", topo->nranks,
             topo->ngpu_models ? topo->gpu_models[0].name : "GPU", kind, more);
    ccl_text_printf(&t, "{\n  \"format\": \"ccllab-profile-1\",\n");
#define TEXT_(key_, value_)                                                                        \
    ccl_text_printf(&t, "  \"%s\": ", key_);                                                       \
    ccl_i_fit_json(&t, value_);                                                                    \
    ccl_text_printf(&t, ",\n")
    TEXT_("name", o->name ? o->name : "fitted");
    TEXT_("summary", summary);
    TEXT_("machine", first->run->gpu[0] ? first->run->gpu : topo->name);
    TEXT_("date", o->date);
    TEXT_("command", o->command);
    TEXT_("source", o->source);
#undef TEXT_
    ccl_i_fit_constants(j, values, &constants);
    ccl_i_fit_text(j->bench, &constants, &t);
    ccl_text_printf(&t, ",\n  \"fit\": {\n");
    add_trust(j, c, &t);
    ccl_text_printf(&t, "  },\n");
    ccl_i_curves_text(c->curves, c->ncurves, &t);
    ccl_text_printf(&t, ",\n  \"constants\": [");
    for (uint32_t i = 0; i < c->nconstants; i++) {
        const ccl_constant_t *k = &c->constants[i];
        ccl_text_printf(&t, "%s\n    {\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, ",
                        i ? "," : "", k->name, k->unit, k->value);
        ccl_text_printf(&t, "\"low\": %.6g, \"high\": %.6g, \"prior\": %.6g, \"determined\": %s%s}",
                        k->low, k->high, k->prior, k->determined ? "true" : "false",
                        k->at_bound ? ", \"at_bound\": true" : "");
    }
    ccl_text_printf(&t, "\n  ]\n}\n");
    c->profile = t.nomem ? NULL : ccl_arena_strdup(&c->arena, t.data);
    ccl_text_fini(&t);
    return c->profile ? CCL_OK : ccl_fail_nomem(err);
}

static double r_squared(const ccl_i_fit_job_t *j, const ccl_calibration_t *c) {
    double mean = 0, total = 0, left = 0;
    for (uint32_t i = 0; i < j->n; i++)
        mean += log(c->measured_s[j->train[i]]) / j->n;
    for (uint32_t i = 0; i < j->n; i++) {
        uint32_t at = j->train[i];
        total += pow(log(c->measured_s[at]) - mean, 2);
        left += pow(log(c->measured_s[at] / c->fitted_s[at]), 2);
    }
    return total > 0 ? 1 - left / total : 0;
}

/* Errors of some of the points; `beside`: of those that have a time there, too. */
static ccl_error_stats_t errors(const ccl_calibration_t *c, const double *predicted, int held,
                                uint32_t source, const double *beside, double *work) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->npoints; i++) {
        if ((held >= 0 && c->held_out[i] != (held == 1)) || isnan(predicted[i]) ||
            (beside && isnan(beside[i])) || (source != CCL_NONE && c->source_of[i] != source))
            continue;
        work[n++] = fabs(predicted[i] / c->measured_s[i] - 1);
    }
    return ccl_i_error_stats(work, n);
}

ccl_status_t ccl_i_fit_result(const ccl_i_fit_job_t *j, const ccl_fit_parameter_t *fit,
                              const ccl_calibrate_options_t *options, ccl_calibration_t *c,
                              ccl_error_t *err) {
    double values[CCL_I_FIT_PARAMETERS];
    double *work = ccl_arena_alloc(&c->arena, c->npoints + (size_t)1, sizeof *work);
    ccl_error_stats_t *by_source = ccl_arena_alloc(&c->arena, c->nsources, sizeof *by_source);
    if (!work || !by_source)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < j->np; k++)
        values[k] = fit[k].value;
    ccl_error_stats_t after = errors(c, c->fitted_s, 0, CCL_NONE, NULL, work);
    c->median_error = after.median;
    c->worst_error = after.worst;
    c->median_before = errors(c, c->before_s, 0, CCL_NONE, NULL, work).median;
    c->held_interpolated = errors(c, c->interpolated_s, 1, CCL_NONE, c->fitted_s, work);
    /* Whole sources have nothing to interpolate from. */
    const double *beside = c->held_interpolated.n ? c->interpolated_s : NULL;
    c->held = errors(c, c->predicted_s, 1, CCL_NONE, beside, work);
    c->held_constants = errors(c, c->fitted_s, 1, CCL_NONE, beside, work);
    for (uint32_t s = 0; s < c->nsources; s++)
        by_source[s] = errors(c, c->fitted_s, -1, s, NULL, work);
    c->by_source = by_source;
    c->r2 = r_squared(j, c);
    CCL_TRY(list_constants(j, fit, c, err));
    return write_profile(j, values, options, c, err);
}
