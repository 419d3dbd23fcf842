/* A host's constants as a profile, and back. */
#include "validate/fit/host.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const rank_names[] = {"threads", "processes"};
static const char *const transport_names[CCL_RUN_TRANSPORTS] = {"shm", "tcp", "verbs"};

void ccl_i_profile_string(ccl_text_t *out, const char *key, const char *text) {
    json_t *value = json_string(text ? text : "");
    char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (dumped)
        ccl_text_printf(out, "  \"%s\": %s,\n", key, dumped);
    else
        out->nomem = true;
    free(dumped);
    json_decref(value);
}

static void list_out(ccl_text_t *out, const char *key, const double *v, uint32_t n) {
    ccl_text_printf(out, "\"%s\": [", key);
    for (uint32_t i = 0; i < n; i++)
        ccl_text_printf(out, "%s%.6g", i ? ", " : "", v[i]);
    ccl_text_printf(out, "]");
}

void ccl_i_profile_constants(ccl_text_t *out, const ccl_constant_t *constants, uint32_t n) {
    ccl_text_printf(out, "  \"constants\": [");
    for (uint32_t i = 0; i < n; i++) {
        const ccl_constant_t *c = &constants[i];
        ccl_text_printf(out,
                        "%s\n    {\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"low\": "
                        "%.6g, \"high\": %.6g, \"prior\": %.6g, \"determined\": %s}",
                        i ? "," : "", c->name, c->unit, c->value, c->low, c->high, c->prior,
                        c->determined ? "true" : "false");
    }
    ccl_text_printf(out, "\n  ]\n}\n");
}

/* For host:N, whose constants do not depend on footprints: those in the middle, of a send and the
   receive that it meets. */
static void cluster_out(const ccl_host_calibration_t *made, ccl_text_t *out) {
    const ccl_host_model_t *m = &made->model;
    uint32_t k = m->nknots / 2;
    double hand_over = m->s_per_byte[CCL_PRIM_S][k] + m->s_per_byte[CCL_PRIM_R][k];
    double reduce = m->s_per_byte[CCL_PRIM_S][k] + m->s_per_byte[CCL_PRIM_RRC][k];
    ccl_text_printf(out, "  \"links\": {\"host\": {\"efficiency\": %.6g, \"contention\": %.6g}},\n",
                    m->pool[k] / hand_over / 1e12, made->contention);
    ccl_text_printf(out,
                    "  \"transports\": {\"host\": {\"tb_rate\": \"%.6gGB/s\", \"overhead\": "
                    "\"%.6gs\", \"latency\": \"%.6gs\", \"slice\": %.0f}},\n",
                    1e-9 / hand_over, 2 * m->overhead_s, m->latency_s, CCL_I_HOST_SLICE_BYTES);
    ccl_text_printf(out,
                    "  \"gpu_models\": {\"host\": {\"copy_rate\": \"%.6gGB/s\", "
                    "\"reduce_rate\": \"%.6gGB/s\", \"overhead\": \"%.6gs\", \"launch\": "
                    "\"%.6gs\"}},\n",
                    1e-9 / m->s_per_byte[CCL_PRIM_CPY][k], 1e-9 / reduce, m->overhead_s,
                    m->launch_s);
}

void ccl_i_host_profile(const ccl_host_calibration_t *made, const ccl_host_calibrate_options_t *o,
                        ccl_text_t *out) {
    const ccl_host_model_t *m = &made->model;
    ccl_text_printf(out, "{\n  \"format\": \"ccllab-profile-1\",\n");
    ccl_i_profile_string(out, "name", o->name ? o->name : "host");
    ccl_i_profile_string(out, "machine", o->machine);
    ccl_i_profile_string(out, "date", o->date);
    ccl_i_profile_string(out, "command", o->command);
    ccl_text_printf(out, "  \"host\": {\n    \"workers\": %u, \"threads\": %u, ", m->workers,
                    o->run.threads);
    ccl_i_run_settings_write(&o->run, out);
    ccl_text_printf(out, "    \"overhead_s\": %.6g, \"latency_s\": %.6g, \"launch_s\": %.6g,\n    ",
                    m->overhead_s, m->latency_s, m->launch_s);
    list_out(out, "footprint_bytes", m->footprint_bytes, m->nknots);
    ccl_text_printf(out, ",\n    ");
    list_out(out, "pool", m->pool, m->nknots);
    ccl_text_printf(out, ",\n    \"s_per_byte\": {");
    for (uint32_t i = 0; i < CCL_HOST_PASSES; i++) {
        ccl_text_printf(out, "%s\n      ", i ? "," : "");
        list_out(out, ccl_primitive_name((ccl_primitive_t)i), m->s_per_byte[i], m->nknots);
    }
    ccl_text_printf(out, "\n    }");
    if (m->across_s > 0) {
        ccl_text_printf(out, ",\n    \"across_s\": %.6g, ", m->across_s);
        list_out(out, "across_s_per_byte", m->across_s_per_byte, m->nknots);
    }
    ccl_text_printf(out, "\n  },\n");
    cluster_out(made, out);
    ccl_text_printf(out,
                    "  \"fit\": {\"r2\": %.6g, \"median_error\": %.6g, \"worst_error\": %.6g, "
                    "\"points\": %u},\n",
                    made->r2, made->median_error, made->worst_error, made->npoints);
    ccl_i_profile_constants(out, made->constants, made->nconstants);
}

/* ---------------------------------------------------------------- reading */

static ccl_status_t numbers(const ccl_json_at_t *at, uint32_t n, double least, double *out,
                            ccl_error_t *err) {
    size_t len = 0;
    CCL_TRY(ccl_json_array(at, true, &len, err));
    if (len != n)
        return ccl_json_fail(at, err, "%zu numbers, but %u footprints", len, n);
    for (uint32_t i = 0; i < n; i++) {
        ccl_json_at_t e = ccl_json_element(at, i);
        CCL_TRY(ccl_json_number(&e, true, &out[i], err));
        if (!(out[i] >= least))
            return ccl_json_fail(&e, err, "%g: at least %g is needed", out[i], least);
    }
    return CCL_OK;
}

static ccl_status_t choice(const ccl_json_at_t *at, const char *const *names, uint32_t n,
                           uint32_t *out, ccl_error_t *err) {
    const char *text = NULL;
    CCL_TRY(ccl_json_string(at, true, &text, err));
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = i;
            return CCL_OK;
        }
    }
    return ccl_json_fail(at, err, "\"%.40s\" is not known here", text);
}

void ccl_i_run_settings_write(const ccl_run_options_t *o, ccl_text_t *out) {
    ccl_text_printf(out, "\"ranks\": \"%s\", \"processes\": %u, \"transport\": \"%s\",\n",
                    rank_names[o->ranks], o->processes, transport_names[o->transport]);
    ccl_text_printf(out, "    \"type\": \"%s\", \"op\": \"%s\",\n", ccl_type_name(o->type),
                    ccl_reduction_name(o->op));
}

ccl_status_t ccl_i_run_settings_read(const ccl_json_at_t *host, ccl_run_options_t *o,
                                     ccl_error_t *err) {
    const char *types[CCL_TYPES], *ops[CCL_REDUCTIONS];
    uint32_t at = 0;
    for (int i = 0; i < CCL_TYPES; i++)
        types[i] = ccl_type_name((ccl_type_t)i);
    for (int i = 0; i < CCL_REDUCTIONS; i++)
        ops[i] = ccl_reduction_name((ccl_reduction_t)i);
    ccl_json_at_t v = ccl_json_member(host, "ranks");
    CCL_TRY(choice(&v, rank_names, 2, &at, err));
    o->ranks = (ccl_run_ranks_t)at;
    v = ccl_json_member(host, "transport");
    CCL_TRY(choice(&v, transport_names, CCL_RUN_TRANSPORTS, &at, err));
    o->transport = (ccl_run_transport_t)at;
    v = ccl_json_member(host, "type");
    CCL_TRY(choice(&v, types, CCL_TYPES, &at, err));
    o->type = (ccl_type_t)at;
    v = ccl_json_member(host, "op");
    CCL_TRY(choice(&v, ops, CCL_REDUCTIONS, &at, err));
    o->op = (ccl_reduction_t)at;
    v = ccl_json_member(host, "processes");
    return ccl_json_u32(&v, true, 4096, &o->processes, err);
}

static ccl_status_t model_of(const ccl_json_at_t *host, ccl_host_model_t *m, ccl_error_t *err) {
    static const char *const keys[] = {"workers",    "threads",         "ranks",
                                       "processes",  "transport",       "type",
                                       "op",         "overhead_s",      "latency_s",
                                       "launch_s",   "footprint_bytes", "pool",
                                       "s_per_byte", "across_s",        "across_s_per_byte",
                                       NULL};
    struct {
        const char *key;
        double *at;
    } const times[] = {
        {"overhead_s", &m->overhead_s}, {"latency_s", &m->latency_s}, {"launch_s", &m->launch_s}};
    size_t n = 0;
    CCL_TRY(ccl_json_object(host, true, err));
    CCL_TRY(ccl_json_only(host, keys, err));
    ccl_json_at_t v = ccl_json_member(host, "workers");
    CCL_TRY(ccl_json_u32(&v, true, 65536, &m->workers, err));
    for (size_t i = 0; i < CCL_ARRAY_LEN(times); i++) {
        v = ccl_json_member(host, times[i].key);
        CCL_TRY(ccl_json_number(&v, true, times[i].at, err));
        if (!(*times[i].at >= 0))
            return ccl_json_fail(&v, err, "%g seconds", *times[i].at);
    }
    v = ccl_json_member(host, "footprint_bytes");
    CCL_TRY(ccl_json_array(&v, true, &n, err));
    if (n < 1 || n > CCL_HOST_MAX_KNOTS)
        return ccl_json_fail(&v, err, "%zu footprints: 1 to %d are possible", n,
                             CCL_HOST_MAX_KNOTS);
    m->nknots = (uint32_t)n;
    CCL_TRY(numbers(&v, m->nknots, 1, m->footprint_bytes, err));
    for (uint32_t k = 1; k < m->nknots; k++)
        if (!(m->footprint_bytes[k] > m->footprint_bytes[k - 1]))
            return ccl_json_fail(&v, err, "footprints do not ascend");
    v = ccl_json_member(host, "pool");
    CCL_TRY(numbers(&v, m->nknots, 1e-3, m->pool, err));
    v = ccl_json_member(host, "across_s");
    CCL_TRY(ccl_json_number(&v, false, &m->across_s, err));
    if (!(m->across_s >= 0))
        return ccl_json_fail(&v, err, "%g seconds", m->across_s);
    v = ccl_json_member(host, "across_s_per_byte");
    if (v.value)
        CCL_TRY(numbers(&v, m->nknots, 0, m->across_s_per_byte, err));
    ccl_json_at_t costs = ccl_json_member(host, "s_per_byte");
    CCL_TRY(ccl_json_object(&costs, true, err));
    for (uint32_t i = 0; i < CCL_HOST_PASSES; i++) {
        v = ccl_json_member(&costs, ccl_primitive_name((ccl_primitive_t)i));
        CCL_TRY(numbers(&v, m->nknots, 0, m->s_per_byte[i], err));
    }
    return CCL_OK;
}

/* A file, or one of the library's. */
ccl_status_t ccl_i_profile_open(const char *spec, ccl_json_doc_t *out, ccl_error_t *err) {
    ccl_profile_t *profile = NULL;
    bool is_file = strcmp(spec, "-") == 0 || access(spec, F_OK) == 0;
    if (strcmp(spec, "-") != 0) { /* what every profile has is checked as everywhere */
        CCL_TRY(ccl_profile_read(spec, &profile, err));
        ccl_profile_destroy(profile);
    }
    if (is_file)
        return ccl_json_read(spec, out, err);
    const ccl_profile_entry_t *e = ccl_profile_library();
    while (strcmp(e->name, spec) != 0)
        e++;
    return ccl_json_parse(e->name, e->text, e->len, out, err);
}

ccl_status_t ccl_i_profile_other(const ccl_json_at_t *root, const char *spec, const char *wanted,
                                 const char *kind, ccl_error_t *err) {
    ccl_json_at_t models = ccl_json_member(root, "gpu_models");
    void *first = models.value ? json_object_iter((json_t *)models.value) : NULL;
    const char *model = first ? json_object_iter_key(first) : NULL;
    bool host = ccl_json_member(root, "host").value, device = ccl_json_member(root, "device").value;
    bool named = !host && !device && model;
    return ccl_fail(err, CCL_ERR_INPUT,
                    "profile \"%.200s\" is of %s%.60s%s, not of %s: ccllab calibrate --device %s "
                    "-o P writes one",
                    spec,
                    host     ? "a host"
                    : device ? "a device"
                    : named  ? "GPU model \""
                             : "links",
                    named ? model : "", named ? "\"" : "", wanted, kind);
}

ccl_status_t ccl_host_model_read(const char *path, ccl_host_model_t *out,
                                 ccl_run_options_t *options_out, ccl_error_t *err) {
    ccl_json_doc_t doc = {0};
    ccl_host_model_t model;
    ccl_run_options_t options = CCL_RUN_OPTIONS_INIT;
    memset(&model, 0, sizeof model);
    CCL_TRY(ccl_i_profile_open(path, &doc, err));
    ccl_json_at_t root = ccl_json_root(&doc), host = ccl_json_member(&root, "host");
    ccl_status_t status =
        host.value ? CCL_OK : ccl_i_profile_other(&root, path, "a host", "host", err);
    if (status == CCL_OK)
        status = model_of(&host, &model, err);
    if (status == CCL_OK)
        status = ccl_i_run_settings_read(&host, &options, err);
    if (status == CCL_OK) {
        ccl_json_at_t v = ccl_json_member(&host, "threads");
        status = ccl_json_u32(&v, true, 4096, &options.threads, err);
    }
    ccl_json_fini(&doc);
    if (status != CCL_OK)
        return status;
    *out = model;
    *options_out = options;
    return CCL_OK;
}
