/* ccllab thresholds */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- made */

typedef struct made {
    ccl_topology_t *topo;
    ccl_profile_t *profile;
    char *copy;
    const char **words;
    double *sizes_bytes;
    ccl_collective_kind_t kinds[CCL_CUSTOM];
    ccl_thresholds_t *thresholds;
} made_t;

static void made_fini(made_t *m) {
    ccl_thresholds_destroy(m->thresholds);
    ccl_profile_destroy(m->profile);
    ccl_topology_destroy(m->topo);
    free(m->sizes_bytes);
    free(m->words);
    free(m->copy);
}

static ccl_status_t options_of(ccl_i_cli_t *cli, made_t *m, ccl_thresholds_options_t *out,
                               ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    const char *names =
        args->collective ? args->collective : "allreduce,allgather,reducescatter,alltoall";
    double margin = 1 - CCL_NORMAL_LOW;

    CCL_TRY(ccl_i_words("collective", names, &m->copy, &m->words, &out->nkinds, err));
    for (uint32_t i = 0; i < out->nkinds; i++) {
        if (i == CCL_CUSTOM)
            return ccl_fail(err, CCL_ERR_USAGE, "option --collective: more than %d names",
                            CCL_CUSTOM);
        CCL_TRY(ccl_collective_kind_parse(m->words[i], &m->kinds[i], err));
        for (uint32_t k = 0; k < i; k++)
            if (m->kinds[k] == m->kinds[i])
                return ccl_fail(err, CCL_ERR_USAGE, "option --collective: %.40s stands twice",
                                m->words[i]);
    }
    CCL_TRY(ccl_i_sizes(args->sizes ? args->sizes : "1M:4G:4", &m->sizes_bytes, &out->nsizes, err));
    if (args->accept.margin)
        CCL_TRY(ccl_i_percent_option("margin", args->accept.margin, &margin, err));
    if (!(margin < 1))
        return ccl_fail(err, CCL_ERR_USAGE, "option --margin: less than 100%%, not \"%.40s\"",
                        args->accept.margin);
    CCL_TRY(ccl_i_topology_open(cli, args->topology, &m->topo, err));
    CCL_TRY(ccl_i_cluster_profile(cli, m->topo, &m->profile, err));
    out->profile = m->profile;
    out->channels = args->nccl_channels;
    out->registered = args->registered;
    out->share = 1 - margin;
    out->kinds = m->kinds;
    out->sizes_bytes = m->sizes_bytes;
    return CCL_OK;
}

static ccl_status_t write_as(ccl_i_cli_t *cli, const ccl_thresholds_t *thresholds,
                             ccl_report_format_t format, const char *name, ccl_error_t *err) {
    ccl_report_style_t style = cli->style;
    ccl_text_t text = {0};

    style.format = format;
    ccl_status_t status = ccl_report_thresholds(thresholds, &style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_export_file(cli, cli->args.tune.export, name, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t make(ccl_i_cli_t *cli, made_t *m, ccl_error_t *err) {
    ccl_thresholds_options_t options = CCL_THRESHOLDS_OPTIONS_INIT;
    ccl_text_t text = {.columns = cli->style.columns};

    if (cli->args.inputs.n)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "\"%.80s\": measured runs are held against --check FILE|DIR",
                        cli->args.inputs.items[0]);
    CCL_TRY(options_of(cli, m, &options, err));
    if (cli->args.tune.export)
        CCL_TRY(ccl_i_export_folder(cli->args.tune.export, err));
    CCL_TRY(ccl_thresholds_make(&cli->ctx, m->topo, &options, &m->thresholds, err));
    if (cli->args.tune.export) {
        CCL_TRY(write_as(cli, m->thresholds, CCL_REPORT_JSON, "thresholds.json", err));
        CCL_TRY(write_as(cli, m->thresholds, CCL_REPORT_CSV, "thresholds.csv", err));
    }
    ccl_status_t status = ccl_report_thresholds(m->thresholds, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

/* ---------------------------------------------------------------- held against */

typedef struct checked {
    ccl_thresholds_t *thresholds;
    ccl_measured_log_t **logs; /* [nlogs], one of each input */
    size_t nlogs;
    const ccl_measured_run_t **runs;
    const char **inputs; /* [nruns] */
    uint32_t nruns;
    ccl_acceptance_t *acceptance;
} checked_t;

static void checked_fini(checked_t *c) {
    ccl_acceptance_destroy(c->acceptance);
    for (size_t i = 0; i < c->nlogs; i++)
        ccl_measured_log_destroy(c->logs[i]);
    ccl_thresholds_destroy(c->thresholds);
    free(c->logs);
    free(c->runs);
    free(c->inputs);
}

static ccl_status_t read_logs(ccl_i_cli_t *cli, checked_t *c, ccl_error_t *err) {
    const ccl_i_list_t *inputs = &cli->args.inputs;
    size_t cap = 0, inputs_cap = 0;

    c->logs = calloc(inputs->n, sizeof(*c->logs));
    if (!c->logs)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < inputs->n; i++) {
        CCL_TRY(ccl_measured_read(inputs->items[i], &c->logs[i], err));
        c->nlogs = i + 1;
        uint32_t n = c->nruns + c->logs[i]->nruns;
        if (!ccl_grow(&c->runs, &cap, n, sizeof(*c->runs)) ||
            !ccl_grow(&c->inputs, &inputs_cap, n, sizeof(*c->inputs)))
            return ccl_fail_nomem(err);
        for (uint32_t r = 0; r < c->logs[i]->nruns; r++) {
            c->runs[c->nruns] = &c->logs[i]->runs[r];
            c->inputs[c->nruns++] = inputs->items[i];
        }
    }
    return CCL_OK;
}

static ccl_status_t check(ccl_i_cli_t *cli, checked_t *c, ccl_error_t *err) {
    ccl_text_t text = {.columns = cli->style.columns};

    if (cli->args.inputs.n == 0)
        return ccl_fail(err, CCL_ERR_USAGE, "--check wants the LOG that it checks");
    CCL_TRY(ccl_thresholds_read(cli->args.accept.check, &c->thresholds, err));
    CCL_TRY(read_logs(cli, c, err));
    CCL_TRY(ccl_thresholds_check(c->thresholds, c->runs, c->nruns, cli->args.in_place,
                                 &c->acceptance, err));
    const ccl_report_acceptance_t about = {cli->args.accept.check, c->inputs, c->thresholds,
                                           c->acceptance};
    ccl_status_t status = ccl_report_acceptance(&about, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status == CCL_OK && c->acceptance->nrefused ? CCL_CHECK : status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    made_t m = {0};
    checked_t c = {0};
    ccl_status_t status = cli->args.accept.check ? check(cli, &c, err) : make(cli, &m, err);

    checked_fini(&c);
    made_fini(&m);
    return status;
}

static const char *const accepts[] = {"topology",
                                      "fail",
                                      "degrade",
                                      "scale",
                                      "set",
                                      "profile",
                                      "collective@thresholds",
                                      "sizes@thresholds",
                                      "margin",
                                      "channels@measured",
                                      "registered",
                                      "export@thresholds",
                                      "check",
                                      "in-place",
                                      NULL};
const ccl_i_command_t ccl_i_cmd_thresholds = {
    .name = "thresholds",
    .usage = "--topology SPEC [--export DIR] | --check FILE|DIR LOG...",
    .summary = "bandwidths that a new cluster must reach, and measured runs held against them",
    .details =
        "For every collective and size the busbw that the model expects of stock NCCL, less a\n"
        "margin: what an acceptance test asks for. --export DIR writes thresholds.json and\n"
        "thresholds.csv there. With --check, runs of LOG (as diagnose takes them) are held "
        "against\n"
        "such thresholds; between two sizes they are interpolated. Exit code 1 when a size is\n"
        "below its threshold.\n",
    .examples = "ccllab thresholds -t \"dgx-h100*2\" --export accept\n"
                "ccllab thresholds --check accept run.log\n",
    .accepts = accepts,
    .min_inputs = 0,
    .max_inputs = 256,
    .no = "--check: a size is below its threshold",
    .run = run,
};
