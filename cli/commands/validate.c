/* ccllab validate, ccllab calibrate --device host */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- calibrate --device host */

static void command_line(const ccl_i_args_t *a, const ccl_run_options_t *o, ccl_text_t *out) {
    ccl_text_printf(out, "ccllab calibrate --device host");
    if (o->ranks == CCL_RANKS_PROCESSES)
        ccl_text_printf(out, " --ranks processes --transport %s",
                        ccl_run_transport_name(o->transport));
    if (o->processes)
        ccl_text_printf(out, " --processes %u", o->processes);
    if (o->threads)
        ccl_text_printf(out, " -j %u", o->threads);
    ccl_text_printf(out, " --type %s --op %s", ccl_type_name(o->type), ccl_reduction_name(o->op));
    if (a->job.repeats)
        ccl_text_printf(out, " --repeats %u", a->job.repeats);
    if (a->host.footprints)
        ccl_text_printf(out, " --footprints %s", a->host.footprints);
}

/** "Intel(R) Xeon(R) Processor, 2 cores". */
static void machine(char *out, size_t out_len) {
    char *data = NULL;
    size_t len = 0;
    const char *model = NULL;

    if (ccl_file_read("/proc/cpuinfo", (size_t)1 << 24, &data, &len, NULL) == CCL_OK)
        model = strstr(data, "model name");
    if (model)
        model = strchr(model, ':');
    snprintf(out, out_len, "%.*s, %u cores", model ? (int)strcspn(model + 2, "\n") : 4,
             model ? model + 2 : "host", ccl_core_count());
    free(data);
}

static ccl_status_t told(const void *made, const char *output, const ccl_report_style_t *style,
                         ccl_text_t *out, ccl_error_t *err) {
    return ccl_report_host_calibration(made, output, style, out, err);
}

ccl_status_t ccl_i_calibrate_host(ccl_i_cli_t *cli, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_host_calibrate_options_t options = CCL_HOST_CALIBRATE_OPTIONS_INIT;
    ccl_host_calibration_t *made = NULL;
    ccl_text_t command = {0};
    double *footprints = NULL;
    char date[16] = "", name[140], box[200];
    time_t now = time(NULL);
    struct tm utc;

    CCL_TRY(ccl_i_calibration_runs(args, &options.run, err));
    options.run.threads = args->threads;
    if (args->host.footprints)
        CCL_TRY(ccl_i_sizes(args->host.footprints, &footprints, &options.nfootprints, err));
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%d", &utc);
    ccl_file_title(args->output ? args->output : "host", name, sizeof(name));
    command_line(args, &options.run, &command);
    machine(box, sizeof(box));
    options.footprints = footprints;
    options.rounds = args->job.repeats;
    options.name = args->name ? args->name : name;
    options.machine = box;
    options.date = date;
    options.command = command.data;
    ccl_status_t status = ccl_host_calibrate(&cli->ctx, &options, &made, err);
    if (status == CCL_OK)
        status = ccl_i_emit_profile(cli, made->profile, told, made, err);
    ccl_host_calibration_destroy(made);
    ccl_text_fini(&command);
    free(footprints);
    return status;
}

/* ---------------------------------------------------------------- validate */

/** What a profile is of, and so what is run. */
typedef struct machine {
    bool on_device;
    ccl_host_model_t host;
    ccl_run_options_t host_run;
    ccl_gpu_machine_t device;
} machine_t;

static ccl_status_t read_machine(const ccl_i_args_t *args, machine_t *out, ccl_error_t *err) {
    const char *device = args->job.device;
    ccl_error_t own = CCL_ERROR_INIT;

    if (!args->profile)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "no profile: --profile P (ccllab calibrate --device host|cuda|hip -o P)");
    if (!device || strcmp(device, "host") == 0) {
        ccl_status_t status = ccl_host_model_read(args->profile, &out->host, &out->host_run, &own);
        if (status == CCL_OK)
            return CCL_OK;
        if (device || ccl_gpu_machine_read(args->profile, &out->device, NULL) != CCL_OK) {
            *err = own;
            return status;
        }
    } else {
        CCL_TRY(ccl_gpu_machine_read(args->profile, &out->device, err));
        if (strcmp(device, out->device.kind) != 0)
            return ccl_fail(err, CCL_ERR_USAGE, "profile \"%.200s\" is of device %s, not %.40s",
                            args->profile, out->device.kind, device);
    }
    out->on_device = true;
    return CCL_OK;
}

static ccl_status_t validate(ccl_i_cli_t *cli, const machine_t *machine, const ccl_suite_t *suite,
                             const double *sizes, uint32_t nsizes, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    const ccl_run_options_t *run = machine->on_device ? &machine->device.run : &machine->host_run;
    ccl_validate_options_t options = CCL_VALIDATE_OPTIONS_INIT;
    ccl_validation_t *v = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    options.run = *run;
    options.repeats = args->job.repeats;
    options.keep = args->host.keep;
    if (machine->on_device)
        status = ccl_validate_gpu(&cli->ctx, &machine->device, suite->cases, suite->ncases, sizes,
                                  nsizes, &options, &v, err);
    else
        status = ccl_validate_host(&cli->ctx, &machine->host, suite->cases, suite->ncases, sizes,
                                   nsizes, &options, &v, err);
    if (status != CCL_OK)
        return status;
    ccl_report_validation_t about = {args->profile,
                                     args->host.suite ? args->host.suite : "default",
                                     run,
                                     suite->cases,
                                     v,
                                     machine->on_device ? machine->device.kind : NULL};
    status = ccl_report_validation(&about, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_validation_destroy(v);
    return status;
}

/* ---------------------------------------------------------------- validate --measured */

static ccl_status_t refuse_others(const ccl_i_args_t *args, ccl_error_t *err) {
    static const char *const of_runs[] = {"device", "suite",   "sizes",    "repeats",
                                          "keep",   "testbed", "rate-max", NULL};
    static const char *const of_files[] = {"collective",        "ranks",    "run",
                                           "channels@measured", "in-place", NULL};
    const bool files = args->measured.n > 0;
    for (const char *const *name = files ? of_runs : of_files; *name; name++)
        if (ccl_i_given(args, *name))
            return ccl_fail(err, CCL_ERR_USAGE, "option --%.*s is %s --measured",
                            (int)strcspn(*name, "@"), *name, files ? "not for" : "for");
    return CCL_OK;
}

static ccl_status_t validate_measured(ccl_i_cli_t *cli, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_calibrate_options_t options = CCL_CALIBRATE_OPTIONS_INIT;
    ccl_i_sources_t sources = {0};
    ccl_profile_t *profile = NULL;
    ccl_measured_validation_t *made = NULL;
    ccl_text_t text = {.columns = cli->style.columns};

    options.channels = args->nccl_channels;
    options.in_place = args->in_place;
    ccl_status_t status = ccl_i_sources_open(cli, &args->measured, &sources, err);
    if (status == CCL_OK)
        status = ccl_i_cluster_profile(cli, sources.items[0].topo, &profile, err);
    if (status == CCL_OK)
        status = ccl_validate_measured(&cli->ctx, sources.items, sources.n, profile, &options,
                                       &made, err);
    if (status == CCL_OK)
        status = ccl_report_measured(made, profile, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_measured_validation_destroy(made);
    ccl_profile_destroy(profile);
    ccl_i_sources_fini(&sources);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    machine_t machine = {.on_device = false};
    ccl_suite_t *suite = NULL;
    double *sizes = NULL;
    uint32_t nsizes = 0;

    CCL_TRY(refuse_others(args, err));
    if (args->measured.n)
        return validate_measured(cli, err);
    if (args->topologies.n > 1)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --topology may be repeated with --measured alone");
    if (args->topologies.n)
        cli->args.topology = args->topologies.items[0];
    if (args->testbed.cluster)
        return ccl_i_validate_testbed(cli, err);
    CCL_TRY(read_machine(args, &machine, err));
    const char *usual = machine.on_device ? "64K:256M:4" : "64K:16M:4";
    CCL_TRY(ccl_i_sizes(args->sizes ? args->sizes : usual, &sizes, &nsizes, err));
    ccl_status_t status =
        ccl_suite_read(&cli->ctx, args->host.suite ? args->host.suite : "default", &suite, err);
    if (status == CCL_OK)
        status = validate(cli, &machine, suite, sizes, nsizes, err);
    ccl_suite_destroy(suite);
    free(sizes);
    return status;
}

static const char *const accepts[] = {"profile",
                                      "device",
                                      "suite",
                                      "sizes",
                                      "repeats",
                                      "keep",
                                      "testbed",
                                      "rate-max",
                                      "topology@validate",
                                      "measured",
                                      "collective",
                                      "ranks",
                                      "run",
                                      "channels@measured",
                                      "in-place",
                                      NULL};
const ccl_i_command_t ccl_i_cmd_validate = {
    .name = "validate",
    .usage = "--profile P | --testbed CLUSTER | --measured FILE -t SPEC [--sizes LIST]",
    .summary = "predicted beside measured, schedule by schedule and size by size",
    .details =
        "Runs every schedule of the suite at every size, repeats interleaved, as the runs that\n"
        "the profile was fitted to were run (type, workers, ranks, transport), checks their\n"
        "data, and puts the prediction beside the least time: error of each, median, 90th\n"
        "percentile, worst, and whether schedules are ranked as measured. Sizes: 64K:16M:4, on a\n"
        "GPU (a profile of calibrate --device cuda|hip) 64K:256M:4.\n"
        "With --testbed in an emulated cluster (root): the simulator beside runs over TCP between\n"
        "namespaces; the testbed is calibrated first where no -t is given. Sizes: 1M:16M:4.\n"
        "With --measured nothing runs: files as calibrate takes them, on the clusters of -t, are\n"
        "predicted. Errors by size and collective, Kendall's tau of programs, and of every second\n"
        "size what the others say: interpolation, NCCL's own tuning model with three constants,\n"
        "a line alpha + beta bytes; corrected: the prediction, times what it is off by there.\n",
    .examples = "ccllab validate --profile host.json --sizes 64K:4M:4\n"
                "ccllab validate --measured run.log -t dgx-h100\n",
    .accepts = accepts,
    .max_inputs = 0,
    .no = "the data of a run are wrong",
    .run = run,
};
