/* ccllab tune */
#include "cli/command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct tune {
    ccl_topology_t *topo, *machine; /* machine: without the profile; NULL: there is none */
    ccl_profile_t *profile;         /* NULL: there is none */
    ccl_collective_t *want;
    ccl_space_t *space;
    ccl_notebook_t *notebook;
    ccl_tuning_t *tuning;
    ccl_replay_t *replay;     /* NULL: not asked for */
    ccl_scenario_t *scenario; /* NULL: not asked for */
    ccl_draws_t *draws;
    ccl_tune_samples_t *sampled;
    ccl_tune_sample_options_t sample_options;
    char device[16];
    double *sizes_bytes;
    uint32_t nsizes;
    ccl_i_launched_t launched;
    ccl_lab_t *lab;
} tune_t;

static void tune_fini(tune_t *t) {
    ccl_lab_leave(t->lab);
    ccl_replay_destroy(t->replay);
    ccl_tune_samples_destroy(t->sampled);
    ccl_draws_destroy(t->draws);
    ccl_scenario_destroy(t->scenario);
    ccl_tuning_destroy(t->tuning);
    ccl_notebook_close(t->notebook);
    ccl_space_destroy(t->space);
    ccl_collective_destroy(t->want);
    ccl_topology_destroy(t->topo);
    ccl_topology_destroy(t->machine);
    free(t->sizes_bytes);
}

/** "60s" and "5min" are times, "500 runs" and "500runs" numbers of runs. */
static ccl_status_t budget(const char *text, ccl_tune_options_t *out, ccl_error_t *err) {
    size_t digits = strspn(text, "0123456789");
    const char *unit = text + digits + strspn(text + digits, " ");

    if (digits > 0 && digits < 10 && (strcmp(unit, "runs") == 0 || strcmp(unit, "run") == 0)) {
        out->budget_runs = strtoull(text, NULL, 10);
        if (out->budget_runs > 0)
            return CCL_OK;
    } else if (digits > 0 && !*unit && strspn(text, "0") < digits) {
        return ccl_fail(
            err, CCL_ERR_USAGE,
            "option --budget %.20s: write %.20ss for seconds, or %.20sruns for a number "
            "of runs",
            text, text, text);
    } else if (ccl_parse_time_s(text, &out->budget_s, NULL) == CCL_OK && out->budget_s > 0) {
        return CCL_OK;
    }
    return ccl_fail(err, CCL_ERR_USAGE,
                    "option --budget wants a time (60s, 5min) or a number of runs (500runs), not "
                    "\"%.60s\"",
                    text);
}

static ccl_status_t open_space(const ccl_i_args_t *args, ccl_space_t **out, ccl_error_t *err) {
    if (args->tune.space)
        CCL_TRY(ccl_space_read(args->tune.space, out, err));
    else
        CCL_TRY(ccl_space_create(out, err));
    for (size_t i = 0; i < args->tune.knobs.n; i++) {
        ccl_error_t inner = CCL_ERROR_INIT;
        ccl_status_t status = ccl_space_set(*out, args->tune.knobs.items[i], &inner);

        if (status == CCL_ERR_NOMEM)
            return ccl_fail_nomem(err);
        if (status != CCL_OK)
            return ccl_fail(err, CCL_ERR_USAGE, "option --knob: %s", inner.text);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_tell_scarcity(const ccl_i_cli_t *cli, const ccl_scarcity_t *s,
                                 ccl_error_t *err) {
    if (s->all)
        return ccl_fail_nomem(err);
    if (s->missing + s->partly)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "tune",
                "out of memory: of %u runs %u were not made and %u had fewer candidates to choose "
                "from; the notebook does not keep them",
                s->runs, s->missing, s->partly);
    return CCL_OK;
}

ccl_status_t ccl_i_tune_options(ccl_i_cli_t *cli, ccl_tune_options_t *options,
                                ccl_space_t **space_out, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;

    if (args->tune.budget)
        CCL_TRY(budget(args->tune.budget, options, err));
    else
        options->budget_s = 60;
    if (args->tune.gap)
        CCL_TRY(ccl_i_percent_option("gap", args->tune.gap, &options->gap, err));
    options->strategy = (ccl_strategy_t)args->tune.strategy;
    options->improve = args->tune.improve;
    CCL_TRY(open_space(args, space_out, err));
    options->space = *space_out;
    return CCL_OK;
}

/** Times of a protocol that the cluster knows nothing of are those of Simple. */
static bool knows(const ccl_topology_t *topo, const char *proto) {
    return ccl_model_has_protocol(topo, proto) || strcmp(proto, "auto") == 0 ||
           strcmp(proto, "Simple") == 0;
}

static bool names_protocols(const ccl_i_args_t *args) {
    for (size_t i = 0; i < args->tune.knobs.n; i++)
        if (strncmp(args->tune.knobs.items[i], "proto=", 6) == 0)
            return true;
    return args->tune.space != NULL;
}

/** Protocols that nothing is known of: reported where the user named them, else left out. */
static ccl_status_t check_protocols(const ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                    ccl_space_t *space, ccl_error_t *err) {
    uint32_t unknown = 0;

    for (uint32_t i = 0; i < space->nvalues[CCL_KNOB_PROTO]; i++) {
        char name[16];

        ccl_knob_text(CCL_KNOB_PROTO, space->values[CCL_KNOB_PROTO][i], name, sizeof(name));
        if (knows(topo, name))
            continue;
        unknown++;
        if (names_protocols(&cli->args))
            ccl_log(&cli->ctx, CCL_LOG_WARN, "tune",
                    "no transport of this cluster has constants for protocol %s: its times are "
                    "those of Simple (a profile has them: --profile nccl-a100)",
                    name);
    }
    return unknown && !names_protocols(&cli->args) ? ccl_space_set(space, "proto=auto", err)
                                                   : CCL_OK;
}

static ccl_status_t open_all(ccl_i_cli_t *cli, tune_t *t, ccl_tune_options_t *options,
                             ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;

    CCL_TRY(ccl_i_tune_options(cli, options, &t->space, err));
    CCL_TRY(ccl_i_cluster_open(cli, args->topology, NULL, &t->machine, &t->topo, err));
    options->profile = *t->topo->profile ? t->topo->profile : NULL;
    options->machine = t->machine;
    CCL_TRY(check_protocols(cli, t->topo, t->space, err));
    CCL_TRY(ccl_i_collective_open(args, args->collective, t->topo->nranks, &t->want, err));
    CCL_TRY(ccl_i_sizes(args->sizes ? args->sizes : "64K:1G:4", &t->sizes_bytes, &t->nsizes, err));
    /* Another process comes to it when it begins to work. */
    if (!ccl_i_launched_helper(&t->launched) && !ccl_i_notebook_none(args))
        CCL_TRY(ccl_i_notebook_open(cli, true, &t->notebook, err));
    options->sizes_bytes = t->sizes_bytes;
    options->nsizes = t->nsizes;
    options->notebook = t->notebook;
    return CCL_OK;
}

static ccl_status_t print(ccl_i_cli_t *cli, const tune_t *t, ccl_error_t *err) {
    static const char *const strategies[] = {"halving", "grid", "random"};
    ccl_report_tuning_t about = {t->topo,       t->want->name, strategies[cli->args.tune.strategy],
                                 cli->ctx.seed, t->tuning,     t->replay,
                                 t->device,     t->sampled,    cli->args.vary.scenario};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status = ccl_report_tuning(&about, &cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

/** "host", "host:2", "cuda", "hip". */
static ccl_status_t replay_options(const ccl_i_args_t *args, tune_t *t, ccl_replay_options_t *out,
                                   ccl_error_t *err) {
    const char *text = args->tune.replay;
    size_t len = strcspn(text, ":");
    char *end = NULL;

    if (len == 0 || len >= sizeof(t->device))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --replay wants host, host:WORKERS, cuda or hip, not \"%.60s\"",
                        text);
    memcpy(t->device, text, len);
    t->device[len] = '\0';
    if (text[len]) {
        unsigned long workers = strtoul(text + len + 1, &end, 10);

        if (strcmp(t->device, "host") != 0 || text[len + 1] < '0' || text[len + 1] > '9' || *end ||
            workers < 1 || workers > 4096)
            return ccl_fail(err, CCL_ERR_USAGE,
                            "option --replay wants host:WORKERS with 1 to 4096 of them, not "
                            "\"%.60s\"",
                            text);
        out->run.threads = (uint32_t)workers;
    }
    out->run.device = t->device;
    out->top = args->tune.top;
    out->repeats = args->job.repeats;
    return CCL_OK;
}

/** @retval CCL_CHECK  a point's data were wrong on the device. */
static ccl_status_t replay(ccl_i_cli_t *cli, tune_t *t, const ccl_replay_options_t *options,
                           ccl_error_t *err) {
    CCL_TRY(ccl_tune_replay(&cli->ctx, t->topo, t->want, t->tuning, options, &t->replay, err));
    if (cli->args.tune.save_profile)
        CCL_TRY(ccl_file_write(cli->args.tune.save_profile, t->replay->profile,
                               strlen(t->replay->profile), err));
    for (uint32_t i = 0; i < t->replay->npoints; i++)
        if (t->replay->points[i].status == CCL_CHECK)
            return ccl_fail(err, CCL_CHECK, "replay: %s", t->replay->points[i].why);
    return CCL_OK;
}

static ccl_status_t sample_options(const ccl_i_cli_t *cli, tune_t *t, ccl_error_t *err) {
    t->sample_options = (ccl_tune_sample_options_t)CCL_TUNE_SAMPLE_OPTIONS_INIT;
    CCL_TRY(ccl_i_scenario_open(cli, t->topo, &t->scenario, &t->draws, &t->sample_options.samples,
                                err));
    t->sample_options.draws = t->draws;
    t->sample_options.top = cli->args.tune.top;
    return ccl_i_scenario_rank(cli, &t->sample_options.rank, err);
}

/** All that is read before tuning: inputs, and options that go together. */
static ccl_status_t prepare(ccl_i_cli_t *cli, tune_t *t, ccl_tune_options_t *options,
                            ccl_replay_options_t *again, ccl_error_t *err) {
    CCL_TRY(ccl_i_launched_find(cli, &t->launched, err));
    CCL_TRY(open_all(cli, t, options, err));
    if (cli->args.tune.save_profile && !cli->args.tune.replay)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "--save-profile writes what a replay fitted: --replay DEVICE is missing");
    if (cli->args.tune.save_profile && *t->topo->profile)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "--save-profile does not go with --profile: what is fitted then lies over "
                        "that one and is no whole by itself");
    CCL_TRY(sample_options(cli, t, err));
    return cli->args.tune.replay ? replay_options(&cli->args, t, again, err) : CCL_OK;
}

static void log_times(const ccl_i_cli_t *cli, const ccl_tuning_t *tuning) {
    ccl_log(&cli->ctx, CCL_LOG_INFO, "tune",
            "synthesis %.3g s, lowering and proof %.3g s, simulation %.3g s, notebook %.3g s "
            "(%.3g ms a point), summed over threads",
            tuning->synth_s, tuning->lower_s, tuning->simulate_s, tuning->notebook_s,
            1e3 * tuning->notebook_s / (tuning->nruns ? tuning->nruns : 1));
}

/** Print what there is, also of a tuning that failed or was interrupted. @return how all ends */
static ccl_status_t show(ccl_i_cli_t *cli, tune_t *t, bool some, ccl_status_t status,
                         ccl_error_t *err) {
    ccl_error_t own = CCL_ERROR_INIT;
    ccl_status_t printed = print(cli, t, status == CCL_OK ? err : &own);

    if (printed == CCL_OK && status == CCL_OK && some && cli->args.tune.export)
        printed = ccl_i_export(cli, t->topo, t->want, t->tuning, cli->args.tune.export, err);
    if (printed != CCL_OK)
        return printed;
    if (status == CCL_OK && !some)
        return CCL_CHECK;
    if (status == CCL_INTERRUPTED)
        ccl_fail(err, status, "%u runs are finished; %s", t->tuning->nruns,
                 t->notebook ? "the same command goes on from the notebook"
                             : "with a notebook the same command goes on");
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_replay_options_t again = CCL_REPLAY_OPTIONS_INIT;
    tune_t t = {0};
    bool some = false;
    ccl_status_t status = prepare(cli, &t, &options, &again, err);

    options.keep = cli->args.tune.replay != NULL;
    again.rank_s = options.budget_s;
    if (ccl_i_launched_helper(&t.launched)) {
        if (status == CCL_OK)
            status = ccl_i_launched_work(cli, &t.launched, err);
        tune_fini(&t);
        return status;
    }
    if (status == CCL_OK)
        status = ccl_i_launched_join(cli, &t.launched, t.notebook, &t.lab, err);
    options.lab = t.lab;
    if (status == CCL_OK)
        status = ccl_tune(&cli->ctx, t.topo, t.want, &options, &t.tuning, err);
    if (t.tuning)
        log_times(cli, t.tuning);
    for (uint32_t s = 0; t.tuning && s < t.tuning->nsizes; s++)
        some |= t.tuning->best[s] != CCL_NONE;
    if (status == CCL_OK) {
        ccl_scarcity_t scarcity = ccl_tuning_scarcity(t.tuning);

        status = ccl_i_tell_scarcity(cli, &scarcity, err);
    }
    if (status == CCL_OK && some && t.draws)
        status = ccl_tune_sample(&cli->ctx, t.topo, t.want, t.tuning, &t.sample_options, &t.sampled,
                                 err);
    if (status == CCL_OK && some && cli->args.tune.replay)
        status = replay(cli, &t, &again, err);
    if (t.tuning)
        status = show(cli, &t, some, status, err);
    tune_fini(&t);
    return status;
}

static const char *const accepts[] = {
    "topology", "fail",           "degrade",  "scale",         "set",
    "profile",  "collective",     "demand",   "root",          "sizes",
    "budget",   "plugin",         "space",    "knob",          "strategy",
    "gap",      "improve",        "export",   "executor",      "replay",
    "top",      "save-profile",   "repeats",  "notebook@tune", "lease",
    "table",    "bootstrap@tune", "scenario", "samples",       "rank@samples",
    NULL};
const ccl_i_command_t ccl_i_cmd_tune = {
    .name = "tune",
    .usage = "--topology SPEC --collective NAME [options]",
    .summary = "which settings? search synthesizers and their knobs, per size",
    .details =
        "First every synthesizer at its defaults, then points of the space, by --strategy.\n"
        "Everything that was tried goes to the lab notebook, and nothing in it is run again:\n"
        "a tuning that was stopped goes on where it was. Prints the best per size beside the\n"
        "best untuned synthesizer and the lower bound, time against thread blocks and against\n"
        "synthesis time, and what each knob is worth. Processes that share the notebook (ccllab\n"
        "work), and all that mpirun or srun started, try points for it. With --scenario the --top\n"
        "of each size are timed over samples, and --rank chooses the best among them.\n"
        "docs/tuning.md has knobs and strategies.\n",
    .examples = "ccllab tune -t heteccl-h20-4+8 -c allgather --sizes 1M,64M --budget 5min\n"
                "ccllab tune -t dgx-h100 -c allreduce --budget 500runs --export tuned\n"
                "ccllab tune -t dgx-h100 -c allgather -k with=ring -k chunks=1:4\n",
    .accepts = accepts,
    .tables = ccl_report_tuning_tables,
    .no = "no synthesizer could run, or a table for NCCL's tuner would do harm",
    .run = run,
};
