/* A calibrated device as a cluster: its constants in a profile and back, runs on it predicted. */
#include "validate/fit/host.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 4096u
#define SLOTS 8u /* the runtime's */
#define WIDE 1e3 /* times the link: never the limit */

static const char *const kernel_names[] = {"interpreter", "generated"};

/* ---------------------------------------------------------------- profile */

void ccl_i_gpu_machine_write(const ccl_gpu_constants_t *c, const ccl_run_options_t *run,
                             double slice_bytes, uint32_t devices, ccl_text_t *out) {
    ccl_text_printf(out,
                    "  \"device\": {\n    \"kind\": \"%s\", \"devices\": %u, \"kernel\": \"%s\", ",
                    run->device ? run->device : "host", devices, kernel_names[run->kernel]);
    ccl_i_run_settings_write(run, out);
    ccl_text_printf(out,
                    "    \"slice_bytes\": %.0f, \"launch_s\": %.6g, \"overhead_s\": %.6g, "
                    "\"latency_s\": %.6g,\n    \"tb_rate_Bps\": %.6g, \"link_Bps\": %.6g, "
                    "\"contention\": %.6g, \"copy_Bps\": %.6g,\n    \"reduce_Bps\": {",
                    slice_bytes, c->launch_s, c->overhead_s, c->latency_s, c->tb_rate_Bps,
                    c->link_Bps, c->contention, c->copy_Bps);
    for (int t = 0; t < CCL_TYPES; t++)
        ccl_text_printf(out, "%s\"%s\": %.6g", t ? ", " : "", ccl_type_name((ccl_type_t)t),
                        c->reduce_Bps[t]);
    ccl_text_printf(out, "}\n  },\n");
}

static ccl_status_t positive(const ccl_json_at_t *object, const char *key, double *out,
                             ccl_error_t *err) {
    ccl_json_at_t v = ccl_json_member(object, key);
    CCL_TRY(ccl_json_number(&v, true, out, err));
    if (!(*out > 0) || !isfinite(*out))
        return ccl_json_fail(&v, err, "%g: more than 0 is needed", *out);
    return CCL_OK;
}

static ccl_status_t machine_of(const ccl_json_at_t *device, ccl_gpu_machine_t *m,
                               ccl_error_t *err) {
    static const char *const keys[] = {
        "kind",     "devices",     "kernel",   "ranks",      "processes",  "transport",
        "type",     "op",          "launch_s", "overhead_s", "latency_s",  "slice_bytes",
        "link_Bps", "tb_rate_Bps", "copy_Bps", "contention", "reduce_Bps", NULL};
    ccl_gpu_constants_t *c = &m->constants;
    struct {
        const char *key;
        double *at;
    } const numbers[] = {{"launch_s", &c->launch_s},   {"overhead_s", &c->overhead_s},
                         {"latency_s", &c->latency_s}, {"tb_rate_Bps", &c->tb_rate_Bps},
                         {"link_Bps", &c->link_Bps},   {"contention", &c->contention},
                         {"copy_Bps", &c->copy_Bps},   {"slice_bytes", &m->run.slice_bytes}};
    const char *text = NULL;
    CCL_TRY(ccl_json_object(device, true, err));
    CCL_TRY(ccl_json_only(device, keys, err));
    ccl_json_at_t v = ccl_json_member(device, "kind");
    CCL_TRY(ccl_json_string(&v, true, &text, err));
    if (!text[0] || strlen(text) >= sizeof m->kind)
        return ccl_json_fail(&v, err, "\"%.40s\" is no kind of device", text);
    snprintf(m->kind, sizeof m->kind, "%s", text);
    v = ccl_json_member(device, "devices");
    CCL_TRY(ccl_json_u32(&v, true, MAX_RANKS, &m->devices, err));
    if (!m->devices)
        return ccl_json_fail(&v, err, "at least one device is needed");
    v = ccl_json_member(device, "kernel");
    CCL_TRY(ccl_json_string(&v, true, &text, err));
    if (strcmp(text, kernel_names[CCL_KERNEL_GENERATED]) == 0)
        m->run.kernel = CCL_KERNEL_GENERATED;
    else if (strcmp(text, kernel_names[CCL_KERNEL_INTERPRETER]) != 0)
        return ccl_json_fail(&v, err, "\"%.40s\": interpreter or generated", text);
    CCL_TRY(ccl_i_run_settings_read(device, &m->run, err));
    for (size_t i = 0; i < CCL_ARRAY_LEN(numbers); i++)
        CCL_TRY(positive(device, numbers[i].key, numbers[i].at, err));
    v = ccl_json_member(device, "reduce_Bps");
    CCL_TRY(ccl_json_object(&v, true, err));
    for (int t = 0; t < CCL_TYPES; t++)
        CCL_TRY(positive(&v, ccl_type_name((ccl_type_t)t), &c->reduce_Bps[t], err));
    return CCL_OK;
}

ccl_status_t ccl_gpu_machine_read(const char *path, ccl_gpu_machine_t *out, ccl_error_t *err) {
    static const ccl_run_options_t options = CCL_RUN_OPTIONS_INIT;
    ccl_json_doc_t doc = {0};
    memset(out, 0, sizeof *out);
    out->run = options;
    CCL_TRY(ccl_i_profile_open(path, &doc, err));
    ccl_json_at_t root = ccl_json_root(&doc), device = ccl_json_member(&root, "device");
    ccl_status_t status = device.value ? machine_of(&device, out, err)
                                       : ccl_i_profile_other(&root, path, "a device", "cuda", err);
    ccl_json_fini(&doc);
    out->run.device = out->kind;
    return status;
}

/* ---------------------------------------------------------------- prediction */

static ccl_status_t build(const ccl_gpu_machine_t *m, uint32_t nranks, ccl_topology_builder_t *b,
                          ccl_error_t *err) {
    const ccl_gpu_constants_t *c = &m->constants;
    bool one = m->devices == 1;
    double wide_Bps = WIDE * c->link_Bps;
    uint32_t in, out, rank;
    CCL_TRY(
        ccl_topology_builder_device(b, "in", CCL_DEVICE_SWITCH, "s0", CCL_NONE, NULL, &in, err));
    out = in;
    if (one) {
        CCL_TRY(ccl_topology_builder_device(b, "out", CCL_DEVICE_SWITCH, "s0", CCL_NONE, NULL, &out,
                                            err));
        CCL_TRY(
            ccl_topology_builder_link(b, in, out, "memory", c->link_Bps, 0, 1, c->contention, err));
    }
    for (uint32_t r = 0; r < nranks; r++) {
        char id[24];
        snprintf(id, sizeof id, "rank%u", r);
        CCL_TRY(ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, "s0", r, m->kind, &rank, err));
        CCL_TRY(ccl_topology_builder_link(b, rank, in, "memory", one ? wide_Bps : c->link_Bps, 0, 1,
                                          one ? 0 : c->contention, err));
        CCL_TRY(ccl_topology_builder_link(b, out, rank, "memory", wide_Bps, 0, 1, 0, err));
    }
    return CCL_OK;
}

/* The model has an overhead per primitive, the device one per slice: what further slices cost goes
   into the rate. */
static double block_rate_Bps(const ccl_gpu_constants_t *c, double step_bytes, double slice_bytes) {
    double slices = ceil(step_bytes / slice_bytes);
    if (!(slices > 1))
        return c->tb_rate_Bps;
    return step_bytes / (step_bytes / c->tb_rate_Bps + (slices - 1) * c->overhead_s);
}

ccl_status_t ccl_gpu_topology(const ccl_gpu_machine_t *machine, uint32_t nranks, uint32_t slots,
                              double slice_bytes, double step_bytes, ccl_topology_t **out,
                              ccl_error_t *err) {
    const ccl_gpu_constants_t *c = &machine->constants;
    ccl_gpu_model_t model = ccl_gpu_model_default(machine->kind);
    ccl_transport_spec_t spec = {.kind = "memory",
                                 .given = CCL_TRANSPORT_TB_RATE | CCL_TRANSPORT_SLOTS |
                                          CCL_TRANSPORT_OVERHEAD | CCL_TRANSPORT_LATENCY |
                                          CCL_TRANSPORT_SLICE | CCL_TRANSPORT_DIRECT,
                                 .value = ccl_transport_default("memory")};
    if (machine->devices > 1 && nranks > machine->devices)
        return ccl_fail(err, CCL_ERR_MISSING,
                        "%u ranks on %u devices: the constants are of ranks with a device each",
                        nranks, machine->devices);
    model.launch_s = c->launch_s;
    model.overhead_s = c->overhead_s;
    model.copy_rate_Bps = c->copy_Bps;
    model.reduce_rate_Bps = c->reduce_Bps[machine->run.type];
    spec.value.tb_rate_Bps = block_rate_Bps(c, step_bytes, slice_bytes);
    spec.value.overhead_s = c->overhead_s;
    spec.value.latency_s = c->latency_s;
    spec.value.slice_bytes = slice_bytes;
    spec.value.slots = slots;
    spec.value.direct = false; /* receivers copy out of the slot, as when it was calibrated */
    ccl_topology_builder_t *b = ccl_topology_builder_create(machine->kind);
    if (!b)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_topology_builder_gpu_model(b, &model, err);
    if (status == CCL_OK)
        status = build(machine, nranks, b, err);
    if (status == CCL_OK)
        status = ccl_topology_builder_transport(b, &spec, err);
    if (status == CCL_OK)
        status = ccl_topology_builder_finish(b, out, err);
    ccl_topology_builder_destroy(b);
    return status;
}

/** Mean of what is sent at a time, in a micro-batch. */
static double sent_bytes(const ccl_program_t *p, double batch_bytes) {
    double bytes = 0;
    uint32_t n = 0;
    for (uint32_t t = 0; t < p->ntbs; t++) {
        for (uint32_t k = 0; k < p->tbs[t].nsteps; k++) {
            const ccl_step_t *step = &p->steps[p->tbs[t].first_step + k];
            if (!ccl_primitive_sends((ccl_primitive_t)step->type))
                continue;
            bytes += ccl_program_step_share(p, &p->tbs[t], step) * batch_bytes;
            n++;
        }
    }
    return n ? bytes / n : 0;
}

ccl_status_t ccl_gpu_predict(const ccl_ctx_t *ctx, const ccl_program_t *program,
                             const ccl_run_options_t *options, const ccl_gpu_machine_t *machine,
                             double *time_s_out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_topology_t *topo = NULL;
    double slice_bytes = options->slice_bytes > 0 ? options->slice_bytes : machine->run.slice_bytes;
    sim.size_bytes = options->size_bytes;
    sim.granularity = options->granularity;
    sim.batches = ccl_host_batches(program, options);
    ccl_status_t status = ccl_gpu_topology(
        machine, program->nranks, options->slots ? options->slots : SLOTS, slice_bytes,
        sent_bytes(program, options->size_bytes / sim.batches), &topo, err);
    if (status == CCL_OK)
        status = ccl_sim_program(ctx, topo, NULL, program, &sim, &result, err);
    if (status == CCL_OK)
        *time_s_out = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_topology_destroy(topo);
    return status;
}

/* ---------------------------------------------------------------- validation */

typedef struct validating {
    const ccl_ctx_t *ctx;
    const ccl_gpu_machine_t *machine;
} validating_t;

static ccl_status_t predict(const ccl_program_t *program, const ccl_run_options_t *options,
                            double *time_s, void *user, ccl_error_t *err) {
    const validating_t *v = user;
    return ccl_gpu_predict(v->ctx, program, options, v->machine, time_s, err);
}

ccl_status_t ccl_validate_gpu(const ccl_ctx_t *ctx, const ccl_gpu_machine_t *machine,
                              const ccl_validate_case_t *cases, uint32_t ncases,
                              const double *sizes_bytes, uint32_t nsizes,
                              const ccl_validate_options_t *options, ccl_validation_t **out,
                              ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_validate_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_run_options_t, &options->run, err);
    ccl_validate_options_t o = *options;
    validating_t v = {ctx, machine};
    if (!o.run.device)
        o.run = machine->run;
    o.predict = predict;
    o.predict_user = &v;
    o.setting = o.setting ? o.setting : machine->kind;
    return ccl_validate_host(ctx, NULL, cases, ncases, sizes_bytes, nsizes, &o, out, err);
}
