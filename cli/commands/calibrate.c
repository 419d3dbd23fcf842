/* ccllab calibrate */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static ccl_status_t one_run(const char *path, const ccl_measured_run_t *const *runs, uint32_t n,
                            const ccl_measured_log_t *log, ccl_error_t *err) {
    char first[300], second[300];

    if (n == 1)
        return CCL_OK;
    ccl_i_measured_title(runs[0], first, sizeof(first));
    ccl_i_measured_title(runs[1], second, sizeof(second));
    return ccl_error_set(err, CCL_ERR_USAGE, path, 0, 0,
                         "%u measured runs, one is fitted: --collective, --ranks or --run N (%u is "
                         "%s, %u is %s)",
                         n, (uint32_t)(runs[0] - log->runs) + 1, first,
                         (uint32_t)(runs[1] - log->runs) + 1, second);
}

/** The words that give this profile again. */
static void command_line(const ccl_i_cli_t *cli, const ccl_measured_run_t *run,
                         const ccl_measured_log_t *log, ccl_text_t *out) {
    const char *slash = strrchr(cli->args.from_nccl_tests, '/');

    ccl_text_printf(out, "ccllab calibrate --from-nccl-tests %s --topology %s --run %u",
                    slash ? slash + 1 : cli->args.from_nccl_tests, cli->args.topology,
                    (uint32_t)(run - log->runs) + 1);
    if (cli->args.collective)
        ccl_text_printf(out, " --collective %s", cli->args.collective);
    if (cli->args.nccl_channels)
        ccl_text_printf(out, " --channels %u", cli->args.nccl_channels);
    if (cli->args.in_place)
        ccl_text_printf(out, " --in-place");
    if (cli->args.profile)
        ccl_text_printf(out, " --profile %s", cli->args.profile);
}

static ccl_status_t tell(ccl_i_cli_t *cli, const ccl_calibration_t *made,
                         const ccl_topology_t *topo, ccl_error_t *err) {
    ccl_report_calibration_t about = {made, topo, cli->args.from_nccl_tests, cli->args.output};
    ccl_text_t text = {0};
    ccl_status_t status = ccl_report_calibration(&about, &cli->style, &text, err);

    if (status == CCL_OK && !(cli->args.quiet && cli->style.format == CCL_REPORT_TEXT))
        status = ccl_file_write("-", text.data ? text.data : "", text.len, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t calibrate(ccl_i_cli_t *cli, const ccl_topology_t *topo,
                              const ccl_measured_run_t *run, const ccl_measured_log_t *log,
                              ccl_error_t *err) {
    ccl_calibrate_options_t options = CCL_CALIBRATE_OPTIONS_INIT;
    ccl_calibration_t *made = NULL;
    ccl_topology_t *part = NULL;
    ccl_profile_t *base = NULL;
    ccl_text_t command = {0}, text = {0};
    char date[16] = "", source[300], name[140];
    time_t now = time(NULL);
    struct tm utc;

    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%d", &utc);
    ccl_i_measured_title(run, source, sizeof(source));
    command_line(cli, run, log, &command);
    ccl_file_title(cli->args.output ? cli->args.output : "fitted", name, sizeof(name));
    options.channels = cli->args.nccl_channels;
    options.in_place = cli->args.in_place;
    options.name = cli->args.name ? cli->args.name : name;
    options.date = date;
    options.command = command.data;
    options.source = cli->args.source ? cli->args.source : source;
    ccl_status_t status = ccl_topology_take(topo, run->nranks, run->nhosts, &part, err);
    if (status == CCL_OK && cli->args.profile)
        status = ccl_profile_read(cli->args.profile, &base, err);
    if (status == CCL_OK)
        status = base ? ccl_calibrate_switch(&cli->ctx, part, base, run, &options, &made, err)
                      : ccl_calibrate(&cli->ctx, part, run, &options, &made, err);
    if (status == CCL_OK) {
        ccl_text_add(&text, made->profile, strlen(made->profile));
        status = ccl_i_emit(cli, &text, err);
    }
    if (status == CCL_OK && cli->args.output && strcmp(cli->args.output, "-") != 0)
        status = tell(cli, made, part, err);
    ccl_calibration_destroy(made);
    ccl_profile_destroy(base);
    ccl_topology_destroy(part);
    ccl_text_fini(&command);
    ccl_text_fini(&text);
    return status;
}

/** Options that say how programs run here, or how a log was measured, are for one way only. */
static ccl_status_t refuse_others(const ccl_i_args_t *args, ccl_error_t *err) {
    static const char *const of_host[] = {"processes", "transport",  "type", "op",
                                          "repeats",   "footprints", NULL};
    static const char *const of_log[] = {"topology",   "fail", "degrade",           "profile",
                                         "collective", "run",  "channels@measured", "in-place",
                                         "source",     NULL};
    bool host = args->job.device != NULL;
    for (const char *const *name = host ? of_log : of_host; *name; name++)
        if (ccl_i_given(args, *name))
            return ccl_fail(err, CCL_ERR_USAGE, "option --%s is for %s, not for %s", *name,
                            host ? "--from-nccl-tests" : "--device host",
                            host ? "--device" : "--from-nccl-tests");
    return CCL_OK;
}

/* --ranks counts GPUs of a log; with a device it says how ranks run. */
static ccl_status_t measured_ranks(ccl_i_cli_t *cli, ccl_error_t *err) {
    const char *text = cli->args.host.ranks;
    char *end = NULL;
    if (!text)
        return CCL_OK;
    unsigned long ranks = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || ranks > UINT32_MAX - 1)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --ranks wants a whole number with --from-nccl-tests, not \"%.40s\"",
                        text);
    cli->args.ranks = (uint32_t)ranks;
    return CCL_OK;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_measured_log_t *log = NULL;
    const ccl_measured_run_t **runs = NULL;
    uint32_t n = 0;

    if (cli->args.job.device || cli->args.from_nccl_tests)
        CCL_TRY(refuse_others(&cli->args, err));
    if (cli->args.job.device)
        return strcmp(cli->args.job.device, "host") == 0 ? ccl_i_calibrate_host(cli, err)
                                                         : ccl_i_calibrate_device(cli, err);
    if (!cli->args.from_nccl_tests)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "nothing to fit: --from-nccl-tests LOG, or --device host, cuda or hip");
    CCL_TRY(measured_ranks(cli, err));
    CCL_TRY(ccl_i_topology_open(cli, cli->args.topology, &topo, err));
    ccl_status_t status =
        ccl_i_measured_open(cli, cli->args.from_nccl_tests, topo, &log, &runs, &n, err);
    if (status == CCL_OK)
        status = one_run(cli->args.from_nccl_tests, runs, n, log, err);
    if (status == CCL_OK)
        status = calibrate(cli, topo, runs[0], log, err);
    free(runs);
    ccl_measured_log_destroy(log);
    ccl_topology_destroy(topo);
    return status;
}

static const char *const accepts[] = {"topology",
                                      "profile",
                                      "fail",
                                      "degrade",
                                      "from-nccl-tests",
                                      "collective",
                                      "ranks@calibrate",
                                      "run",
                                      "channels@measured",
                                      "in-place",
                                      "name",
                                      "source",
                                      "device",
                                      "processes",
                                      "transport",
                                      "type",
                                      "op",
                                      "repeats",
                                      "footprints",
                                      "kernel@calibrate",
                                      NULL};
const ccl_i_command_t ccl_i_cmd_calibrate = {
    .name = "calibrate",
    .usage = "--from-nccl-tests LOG --topology SPEC | --device NAME -o PROFILE",
    .summary = "fit a profile to measured runs",
    .details =
        "Fits launch, latency, thread-block rate and link efficiency to one measured curve of\n"
        "one collective, by simulating what NCCL runs at each size; robust, with confidence\n"
        "intervals. --profile PROFILE lays the result over any cluster with these GPUs.\n"
        "calibrate --profile PROFILE instead keeps that profile and adds the constants of\n"
        "switch connections, from an AllReduce of which NCCL runs the large sizes as NVLS.\n"
        "--device host runs small programs here, and fits what passes of the host cost;\n"
        "ccllab validate predicts with that. --device cuda or hip fits a GPU's launch, latency,\n"
        "overhead, rate of a thread block, contention of 1 to 64 of them, and local rates.\n",
    .accepts = accepts,
    .no = "the data of a run are wrong",
    .run = run,
};
