/* ccllab calibrate --device cuda|hip */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/** The first device of the kind. */
static ccl_status_t device_of(const char *kind, ccl_device_info_t *out, uint32_t *n_out,
                              ccl_error_t *err) {
    ccl_device_info_t *list = NULL;
    uint32_t n = 0;
    bool known = false;

    *n_out = 0;
    CCL_TRY(ccl_devices_list(&list, &n, err));
    for (uint32_t i = n; i-- > 0;) {
        if (strcmp(list[i].kind, kind) != 0)
            continue;
        known = true;
        *out = list[i];
        *n_out += list[i].available;
    }
    free(list);
    if (!known)
        return ccl_fail(err, CCL_ERR_USAGE, "unknown device \"%.40s\": host, cuda or hip is wanted",
                        kind);
    if (!*n_out)
        return ccl_fail(err, CCL_ERR_MISSING, "no device %s to calibrate: %s", kind, out->name);
    return CCL_OK;
}

/** "H100" of "NVIDIA H100 80GB HBM3", "A100" of "NVIDIA A100-SXM4-80GB". */
static void model_of(const char *name, char *out, size_t out_len) {
    static const char *const vendors[] = {"NVIDIA ", "AMD ", "Instinct ", "Tesla "};
    for (size_t i = 0; i < CCL_ARRAY_LEN(vendors); i++)
        if (strncmp(name, vendors[i], strlen(vendors[i])) == 0)
            name += strlen(vendors[i]);
    snprintf(out, out_len, "%.*s", (int)strcspn(name, " -"), name);
}

static void command_line(const ccl_i_args_t *a, const ccl_run_options_t *o, ccl_text_t *out) {
    ccl_text_printf(out, "ccllab calibrate --device %s --type %s --op %s", o->device,
                    ccl_type_name(o->type), ccl_reduction_name(o->op));
    if (o->ranks == CCL_RANKS_PROCESSES)
        ccl_text_printf(out, " --ranks processes");
    if (o->kernel == CCL_KERNEL_GENERATED)
        ccl_text_printf(out, " --kernel generated");
    if (a->job.repeats)
        ccl_text_printf(out, " --repeats %u", a->job.repeats);
}

ccl_status_t ccl_i_emit_profile(ccl_i_cli_t *cli, const char *profile,
                                ccl_i_profile_report_fn report, const void *made,
                                ccl_error_t *err) {
    ccl_text_t text = {0}, table = {0};

    ccl_text_add(&text, profile, strlen(profile));
    ccl_status_t status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    if (status != CCL_OK || !cli->args.output || strcmp(cli->args.output, "-") == 0)
        return status;
    status = report(made, cli->args.output, &cli->style, &table, err);
    if (status == CCL_OK && !(cli->args.quiet && cli->style.format == CCL_REPORT_TEXT))
        status = ccl_file_write("-", table.data ? table.data : "", table.len, err);
    ccl_text_fini(&table);
    return status;
}

static ccl_status_t told(const void *made, const char *output, const ccl_report_style_t *style,
                         ccl_text_t *out, ccl_error_t *err) {
    return ccl_report_gpu_calibration(made, output, style, out, err);
}

ccl_status_t ccl_i_calibration_runs(const ccl_i_args_t *args, ccl_run_options_t *out,
                                    ccl_error_t *err) {
    static const ccl_type_t types[] = {CCL_TYPE_FP32, CCL_TYPE_INT32, CCL_TYPE_FP16,
                                       CCL_TYPE_BF16}; /* as the option lists them */
    const char *ranks = args->host.ranks ? args->host.ranks : "threads";
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;

    o.type = types[args->job.type];
    o.op = (ccl_reduction_t)args->job.op;
    o.processes = args->job.processes;
    o.transport = (ccl_run_transport_t)args->job.transport;
    if (strcmp(ranks, "processes") == 0)
        o.ranks = CCL_RANKS_PROCESSES;
    else if (strcmp(ranks, "threads") != 0)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --ranks wants threads or processes with --device, not \"%.40s\"",
                        ranks);
    *out = o;
    return CCL_OK;
}

static ccl_status_t run_options(const ccl_i_args_t *args, ccl_run_options_t *out,
                                ccl_error_t *err) {
    if (args->host.footprints)
        return ccl_fail(err, CCL_ERR_USAGE, "--footprints is for --device host");
    CCL_TRY(ccl_i_calibration_runs(args, out, err));
    out->device = args->job.device;
    out->kernel = args->job.kernel == 1 ? CCL_KERNEL_GENERATED : CCL_KERNEL_INTERPRETER;
    return CCL_OK;
}

ccl_status_t ccl_i_calibrate_device(ccl_i_cli_t *cli, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_gpu_calibrate_options_t options = CCL_GPU_CALIBRATE_OPTIONS_INIT;
    ccl_gpu_calibration_t *made = NULL;
    ccl_device_info_t device = {.index = 0};
    ccl_text_t command = {0};
    char date[16] = "", name[140], model[64], machine[200];
    uint32_t devices = 0;
    time_t now = time(NULL);
    struct tm utc;

    CCL_TRY(run_options(args, &options.run, err));
    CCL_TRY(device_of(args->job.device, &device, &devices, err));
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%d", &utc);
    ccl_file_title(args->output ? args->output : args->job.device, name, sizeof(name));
    model_of(device.name, model, sizeof(model));
    snprintf(machine, sizeof(machine), "%s, %s, %u of them", device.name, device.architecture,
             devices);
    command_line(args, &options.run, &command);
    options.rounds = args->job.repeats;
    options.name = args->name ? args->name : name;
    options.machine = machine;
    options.model = model;
    if (devices > 1) /* the two ranks have one each */
        options.link = strcmp(args->job.device, "hip") == 0 ? "xgmi" : "nvlink";
    options.date = date;
    options.command = command.data;
    ccl_status_t status = ccl_gpu_calibrate(&cli->ctx, &options, &made, err);
    if (status == CCL_OK)
        status = ccl_i_emit_profile(cli, made->profile, told, made, err);
    ccl_gpu_calibration_destroy(made);
    ccl_text_fini(&command);
    return status;
}
