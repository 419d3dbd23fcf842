/* ccllab calibrate */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/** Constants of switch connections are fitted to one run. */
static ccl_status_t one_run(const ccl_i_sources_t *sources, ccl_error_t *err) {
    char first[300], second[300];

    if (sources->n == 1 && !sources->items[0].program)
        return CCL_OK;
    ccl_i_measured_title(sources->items[0].run, first, sizeof(first));
    ccl_i_measured_title(sources->items[sources->n - 1].run, second, sizeof(second));
    return ccl_error_set(err, CCL_ERR_USAGE, sources->items[0].name, 0, 0,
                         "%u measured runs, with --profile one of NCCL is fitted: --collective, "
                         "--ranks or --run N (the first is %s, the last %s)",
                         sources->n, first, second);
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/** The words that give this profile again. */
static void command_line(const ccl_i_cli_t *cli, const ccl_i_list_t *files, ccl_text_t *out) {
    const ccl_i_args_t *args = &cli->args;

    ccl_text_printf(out, "ccllab calibrate");
    for (size_t i = 0; i < files->n; i++)
        ccl_text_printf(out, " %s", file_name(files->items[i]));
    for (size_t i = 0; i < args->topologies.n; i++)
        ccl_text_printf(out, " --topology %s", args->topologies.items[i]);
    if (args->run)
        ccl_text_printf(out, " --run %u", args->run);
    if (args->ranks)
        ccl_text_printf(out, " --ranks %u", args->ranks);
    if (args->collective)
        ccl_text_printf(out, " --collective %s", args->collective);
    if (args->nccl_channels)
        ccl_text_printf(out, " --channels %u", args->nccl_channels);
    if (args->in_place)
        ccl_text_printf(out, " --in-place");
    if (args->hold_out)
        ccl_text_printf(out, " --hold-out %s", args->hold_out);
    if (args->profile)
        ccl_text_printf(out, " --profile %s", args->profile);
}

static ccl_status_t tell(ccl_i_cli_t *cli, const ccl_calibration_t *made, ccl_error_t *err) {
    ccl_report_calibration_t about = {made, cli->args.output};
    ccl_text_t text = {0};
    ccl_status_t status = ccl_report_calibration(&about, &cli->style, &text, err);

    if (status == CCL_OK && !(cli->args.quiet && cli->style.format == CCL_REPORT_TEXT))
        status = ccl_file_write("-", text.data ? text.data : "", text.len, err);
    ccl_text_fini(&text);
    return status;
}

/** Title of the one run, or the files. */
static void source_text(const ccl_i_sources_t *sources, const ccl_i_list_t *files,
                        ccl_text_t *out) {
    char title[300];

    if (sources->n == 1) {
        ccl_i_measured_title(sources->items[0].run, title, sizeof(title));
        ccl_text_printf(out, "%s", title);
        return;
    }
    ccl_text_printf(out, "%u runs of", sources->n);
    for (size_t i = 0; i < files->n; i++)
        ccl_text_printf(out, "%s %s", i ? "," : "", file_name(files->items[i]));
}

static ccl_status_t calibrate(ccl_i_cli_t *cli, const ccl_i_sources_t *sources,
                              const ccl_i_list_t *files, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_calibrate_options_t options = CCL_CALIBRATE_OPTIONS_INIT;
    ccl_calibration_t *made = NULL;
    ccl_profile_t *base = NULL;
    ccl_text_t command = {0}, source = {0}, text = {0};
    char date[16] = "", name[140];
    time_t now = time(NULL);
    struct tm utc;

    if (args->hold_out)
        CCL_TRY(ccl_hold_out_parse(args->hold_out, &options.hold_out, err));
    if (args->profile)
        CCL_TRY(one_run(sources, err));
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%d", &utc);
    command_line(cli, files, &command);
    source_text(sources, files, &source);
    ccl_file_title(args->output ? args->output : "fitted", name, sizeof(name));
    options.channels = args->nccl_channels;
    options.in_place = args->in_place;
    options.name = args->name ? args->name : name;
    options.date = date;
    options.command = command.data;
    options.source = args->source ? args->source : source.data;
    ccl_status_t status = command.nomem || source.nomem ? ccl_fail_nomem(err) : CCL_OK;
    if (status == CCL_OK && args->profile)
        status = ccl_profile_read(args->profile, &base, err);
    if (status == CCL_OK)
        status = base ? ccl_calibrate_switch(&cli->ctx, sources->items, base, &options, &made, err)
                      : ccl_calibrate(&cli->ctx, sources->items, sources->n, &options, &made, err);
    if (status == CCL_OK) {
        ccl_text_add(&text, made->profile, strlen(made->profile));
        status = ccl_i_emit(cli, &text, err);
    }
    if (status == CCL_OK && args->output && strcmp(args->output, "-") != 0)
        status = tell(cli, made, err);
    ccl_calibration_destroy(made);
    ccl_profile_destroy(base);
    ccl_text_fini(&command);
    ccl_text_fini(&source);
    ccl_text_fini(&text);
    return status;
}

/** Options that say how programs run here, or how a log was measured, are for one way only. */
static ccl_status_t refuse_others(const ccl_i_args_t *args, ccl_error_t *err) {
    static const char *const of_host[] = {"processes", "transport",  "type", "op",
                                          "repeats",   "footprints", NULL};
    static const char *const of_log[] = {
        "topology@measured", "fail",     "degrade", "profile",  "collective", "run",
        "channels@measured", "in-place", "source",  "hold-out", NULL};
    bool host = args->job.device != NULL;
    for (const char *const *name = host ? of_log : of_host; *name; name++)
        if (ccl_i_given(args, *name))
            return ccl_fail(err, CCL_ERR_USAGE, "option --%.*s is for %s, not for %s",
                            (int)strcspn(*name, "@"), *name,
                            host ? "measured runs" : "--device host",
                            host ? "--device" : "measured runs");
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
                        "option --ranks wants a whole number with measured runs, not \"%.40s\"",
                        text);
    cli->args.ranks = (uint32_t)ranks;
    return CCL_OK;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_i_list_t *files = &cli->args.inputs;
    ccl_i_sources_t sources = {0};

    if (cli->args.from_nccl_tests && !ccl_i_list_add(files, cli->args.from_nccl_tests))
        return ccl_fail_nomem(err);
    if (cli->args.job.device && files->n)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "--device and files of measured runs exclude each other");
    if (cli->args.job.device || files->n)
        CCL_TRY(refuse_others(&cli->args, err));
    if (cli->args.job.device)
        return strcmp(cli->args.job.device, "host") == 0 ? ccl_i_calibrate_host(cli, err)
                                                         : ccl_i_calibrate_device(cli, err);
    if (!files->n)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "nothing to fit: files of measured runs, or --device host, cuda or hip");
    CCL_TRY(measured_ranks(cli, err));
    ccl_status_t status = ccl_i_sources_open(cli, files, &sources, err);
    if (status == CCL_OK)
        status = calibrate(cli, &sources, files, err);
    ccl_i_sources_fini(&sources);
    return status;
}

static const char *const accepts[] = {"topology@measured",
                                      "profile",
                                      "fail",
                                      "degrade",
                                      "from-nccl-tests",
                                      "collective",
                                      "ranks@calibrate",
                                      "run",
                                      "channels@measured",
                                      "in-place",
                                      "hold-out",
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
    .usage = "FILE... --topology SPEC | --device NAME -o PROFILE",
    .summary = "fit a profile to measured runs",
    .details =
        "FILEs are output of nccl-tests or rccl-tests, tables of such runs, or CSV with columns\n"
        "program, size, time in us and perhaps protocol, of programs and schedules that lie\n"
        "beside it. One set of constants (launch, overhead, latency, thread-block rates, link\n"
        "efficiency) is fitted to all of them by simulating what ran at each size; robust, with\n"
        "confidence intervals and bounds. --hold-out says how well points that are not fitted\n"
        "are predicted. --profile PROFILE lays the result over any cluster with these GPUs.\n"
        "calibrate --profile PROFILE instead keeps that profile and adds the constants of\n"
        "switch connections, from an AllReduce of which NCCL runs the large sizes as NVLS.\n"
        "--device host runs small programs here, and fits what passes of the host cost;\n"
        "ccllab validate predicts with that. --device cuda or hip fits a GPU's launch, latency,\n"
        "overhead, rate of a thread block, contention of 1 to 64 of them, and local rates.\n",
    .examples = "ccllab calibrate run.log -t dgx-h100 -o mine.json\n"
                "ccllab calibrate a.log b.log -t dgx-h100 --hold-out odd -o mine.json\n"
                "ccllab calibrate --device host -o host.json\n",
    .accepts = accepts,
    .max_inputs = 4096,
    .no = "the data of a run are wrong",
    .run = run,
};
