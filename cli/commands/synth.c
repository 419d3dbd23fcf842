/* ccllab synth */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

typedef enum target { TARGET_JSON, TARGET_XML, TARGET_FLAGCX } target_t;

/** From the end of -o's name, or --format. */
static ccl_status_t target_of(const ccl_i_args_t *args, target_t *out, ccl_error_t *err) {
    const char *to_stdout = !args->output || strcmp(args->output, "-") == 0 ? "" : NULL;
    const char *name = args->format;

    if (!name && !to_stdout) {
        const char *dot = strrchr(args->output, '.');

        name = dot ? dot + 1 : "";
    }
    if (!name || strcmp(name, "json") == 0) {
        *out = TARGET_JSON;
    } else if (strcmp(name, "xml") == 0) {
        *out = TARGET_XML;
    } else if (args->format && strcmp(name, "flagcx") == 0) {
        *out = TARGET_FLAGCX;
        if (to_stdout)
            return ccl_fail(err, CCL_ERR_USAGE,
                            "--format flagcx is a file per rank: -o PREFIX makes PREFIX_0.xml ...");
    } else if (args->format) {
        return ccl_fail(err, CCL_ERR_USAGE, "option --format wants json, xml or flagcx, not \"%s\"",
                        name);
    } else {
        return ccl_fail(err, CCL_ERR_USAGE,
                        "-o %s: its name must end in .json (schedule) or .xml (program), or give "
                        "--format",
                        args->output);
    }
    return CCL_OK;
}

/** What only a program shows is not asked of a schedule. */
static ccl_status_t refuse_unlowered(const ccl_i_args_t *args, ccl_error_t *err) {
    const char *given = ccl_i_lowering_given(args, true);

    if (!given)
        return CCL_OK;
    return ccl_fail(err, CCL_ERR_USAGE,
                    "option --%s is about programs: -o FILE.xml, or --format xml", given);
}

/** Lower, and print schedule or program into `out`. */
static ccl_status_t write_out(ccl_i_cli_t *cli, const ccl_topology_t *topo, target_t target,
                              ccl_i_document_t *made, ccl_text_t *out, ccl_error_t *err) {
    const ccl_synth_ops_t *ops = ccl_synth_find(cli->args.with);

    if (target == TARGET_JSON)
        return ccl_schedule_write_json(made->schedule, out, err);
    CCL_TRY(
        ccl_i_document_lower(cli, topo, ops ? ops->way : NULL, cli->args.size_bytes, made, err));
    return ccl_program_write_xml(made->program, out, err);
}

/** With a file for the schedule, standard output is free to show what was made. */
static ccl_status_t tell(ccl_i_cli_t *cli, const ccl_topology_t *topo, const ccl_i_document_t *made,
                         const ccl_synth_stats_t *stats, ccl_error_t *err) {
    ccl_report_synth_t about = {topo,
                                made->schedule,
                                made->program,
                                cli->args.with,
                                cli->args.output,
                                cli->args.size_bytes,
                                cli->args.seed,
                                stats,
                                cli->args.verbose > 0};
    ccl_text_t text = {0};
    ccl_status_t status = ccl_report_synth(&about, &cli->style, &text, err);

    if (status == CCL_OK && !(cli->args.quiet && cli->style.format == CCL_REPORT_TEXT))
        status = ccl_file_write("-", text.data, text.len, err);
    ccl_text_fini(&text);
    return status;
}

/** --explain-capacities instead of a schedule. */
static ccl_status_t explain(ccl_i_cli_t *cli, const ccl_topology_t *topo, ccl_routes_t *routes,
                            const ccl_collective_t *want, const ccl_synth_options_t *options,
                            ccl_error_t *err) {
    ccl_chunk_capacities_t *capacities = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status =
        ccl_synth_capacities(&cli->ctx, topo, routes, want, options, &capacities, err);

    if (status == CCL_OK)
        status = ccl_report_capacities(topo, capacities, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_chunk_capacities_destroy(capacities);
    return status;
}

/** A plan per rank for FlagCX, proven beside the schedule before the first is written. */
static ccl_status_t write_plans(const ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                const ccl_schedule_t *schedule, ccl_error_t *err) {
    uint32_t n = topo->nranks, nclusters = 0;
    uint32_t *of = calloc(n, sizeof *of);
    bool *borders = calloc(n, sizeof *borders);
    ccl_c2c_plan_t **plans = calloc(n, sizeof *plans);
    ccl_status_t status = of && borders && plans ? CCL_OK : ccl_fail_nomem(err);

    if (status == CCL_OK)
        status = ccl_c2c_clusters(topo, cli->args.synth.c2c.clusters, of, borders, &nclusters, err);
    ccl_c2c_groups_t groups = {n, nclusters, of, borders};
    for (uint32_t r = 0; status == CCL_OK && r < n; r++)
        status = ccl_c2c_plan_create(schedule, &groups, r, &plans[r], err);
    if (status == CCL_OK)
        status = ccl_c2c_plans_verify(schedule, &groups, (const ccl_c2c_plan_t *const *)plans, err);
    if (status == CCL_CHECK)
        status = CCL_ERR_INTERNAL;
    for (uint32_t r = 0; status == CCL_OK && r < n; r++) {
        ccl_text_t text = {0}, path = {0};

        ccl_text_printf(&path, "%s_%u.xml", cli->args.output, r);
        status = path.nomem ? ccl_fail_nomem(err) : ccl_c2c_plan_write_xml(plans[r], &text, err);
        if (status == CCL_OK)
            status = ccl_file_write(path.data, text.data, text.len, err);
        ccl_text_fini(&text);
        ccl_text_fini(&path);
    }
    for (uint32_t r = 0; plans && r < n; r++)
        ccl_c2c_plan_destroy(plans[r]);
    free(plans);
    free(borders);
    free(of);
    return status;
}

/** Plans are between vendors: with further clusters, which may be faster, more would cross. */
static ccl_status_t keep_vendors(const ccl_topology_t *topo, uint32_t *clusters, ccl_error_t *err) {
    uint32_t *of = calloc(topo->nranks, sizeof *of), n = 0;
    bool *borders = calloc(topo->nranks, sizeof *borders);
    ccl_status_t status = of && borders ? CCL_OK : ccl_fail_nomem(err);

    if (status == CCL_OK && ccl_c2c_clusters(topo, 0, of, borders, &n, NULL) == CCL_OK)
        *clusters = n;
    free(of);
    free(borders);
    return status;
}

/** What is made, and where it goes. */
typedef struct job {
    ccl_synth_options_t options;
    ccl_i_synth_files_t files;
    target_t target;
} job_t;

/* Each candidate is run as often. */
enum { SAMPLES = 16 };

/** A scenario by which candidates are chosen. */
typedef struct robust {
    ccl_scenario_t *scenario; /* NULL: none */
    ccl_draws_t *draws;
    ccl_draws_judge_t judge;
} robust_t;

/** From here on everything in cli->ctx is chosen over samples. */
static ccl_status_t robust_open(ccl_i_cli_t *cli, const ccl_topology_t *topo, robust_t *r,
                                ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_rank_t rank = {CCL_RANK_MEAN, 0};
    ccl_error_t inner = CCL_ERROR_INIT;
    uint32_t samples = 0;

    CCL_TRY(ccl_i_scenario_open(cli, topo, &r->scenario, &r->draws, &samples, err));
    CCL_TRY(ccl_i_scenario_rank(cli, &rank, err));
    if (!r->scenario)
        return CCL_OK;
    if (!ccl_i_given(args, "samples"))
        samples = SAMPLES;
    if (ccl_draws_judge(r->draws, topo, samples, rank, &r->judge, &inner) != CCL_OK)
        return ccl_fail(err, CCL_ERR_USAGE, "option --rank: %s", inner.text);
    cli->ctx.judge = &r->judge.of;
    return CCL_OK;
}

static void robust_close(ccl_i_cli_t *cli, robust_t *r) {
    cli->ctx.judge = NULL;
    ccl_draws_destroy(r->draws);
    ccl_scenario_destroy(r->scenario);
}

static ccl_status_t make(ccl_i_cli_t *cli, const ccl_topology_t *topo, ccl_routes_t *routes,
                         const ccl_collective_t *want, const job_t *job, ccl_error_t *err) {
    ccl_synth_options_t options = job->options;
    ccl_synth_stats_t stats = {0};
    ccl_i_document_t made = {NULL, NULL};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;
    bool limited = false;

    if (job->target == TARGET_FLAGCX && !options.c2c.clusters)
        CCL_TRY(keep_vendors(topo, &options.c2c.clusters, err));
    options.plain |= job->target == TARGET_FLAGCX;
    options.stats = &stats;
    status = ccl_synthesize(&cli->ctx, cli->args.with, topo, routes, want, &options, &made.schedule,
                            err);
    if (status == CCL_TIMEOUT && made.schedule) {
        limited = true;
        status = CCL_OK;
    }
    if (status == CCL_OK && cli->ctx.judge)
        ccl_origin_add(made.schedule->origin, "chosen by %s over samples",
                       cli->args.vary.rank ? cli->args.vary.rank : "mean");
    if (status == CCL_OK)
        status = ccl_i_synth_files_write(&job->files, err);
    if (status == CCL_OK && job->target == TARGET_FLAGCX)
        status = write_plans(cli, topo, made.schedule, err);
    else if (status == CCL_OK)
        status = write_out(cli, topo, job->target, &made, &text, err);
    if (status == CCL_OK && job->target != TARGET_FLAGCX)
        status = ccl_i_emit(cli, &text, err);
    if (status == CCL_OK && cli->args.output && strcmp(cli->args.output, "-") != 0)
        status = tell(cli, topo, &made, &stats, err);
    if (status == CCL_OK && (limited || made.schedule->limited)) {
        char line[160] = "limit reached, the best schedule so far was written";

        if (stats.dropped)
            snprintf(line, sizeof(line),
                     "out of memory: %llu candidate%s dropped, the best schedule of the others was "
                     "written",
                     (unsigned long long)stats.dropped, stats.dropped == 1 ? " was" : "s were");
        ccl_i_say("warning", line);
        status = CCL_TIMEOUT;
        ccl_error_clear(err);
    }
    ccl_text_fini(&text);
    ccl_i_document_fini(&made);
    return status;
}

/** Candidates are chosen over samples of a scenario, where there is one. */
static ccl_status_t make_robust(ccl_i_cli_t *cli, const ccl_topology_t *topo, ccl_routes_t *routes,
                                const ccl_collective_t *want, const job_t *job, ccl_error_t *err) {
    robust_t robust = {0};
    ccl_status_t status = robust_open(cli, topo, &robust, err);

    if (status == CCL_OK)
        status = make(cli, topo, routes, want, job, err);
    robust_close(cli, &robust);
    return status;
}

/** The program that the vendor's library runs at this size. */
static ccl_status_t make_stock(ccl_i_cli_t *cli, const ccl_topology_t *machine,
                               const ccl_topology_t *topo, const job_t *job, ccl_error_t *err) {
    ccl_i_subject_t stock = {0};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status =
        job->target == TARGET_XML
            ? ccl_i_subject_open(cli, NULL, machine, topo, &stock, err)
            : ccl_fail(err, CCL_ERR_USAGE,
                       "%s runs programs, it has no schedule: -o FILE.xml, or --format xml",
                       cli->args.with);

    if (status == CCL_OK)
        status = ccl_program_write_xml(stock.program, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    if (status == CCL_OK && cli->args.output && strcmp(cli->args.output, "-") != 0)
        ccl_log(&cli->ctx, CCL_LOG_INFO, "synth", "%s", stock.title);
    ccl_text_fini(&text);
    ccl_i_subject_fini(&stock);
    return status;
}

/** Options of one synthesizer are refused beside another. */
static ccl_status_t check_with(const ccl_i_args_t *args, ccl_error_t *err) {
    if (args->explain && args->with && strcmp(args->with, "cegis") != 0)
        return ccl_fail(err, CCL_ERR_USAGE, "--explain-capacities is for --with cegis");
    if (!args->with && !args->explain)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "no synthesizer given: --with NAME (ccllab algos lists them)");
    return ccl_i_synth_files_check(args, args->explain ? "cegis" : args->with, err);
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_topology_t *topo = NULL, *machine = NULL; /* machine: without the profile */
    ccl_collective_t *want = NULL;
    ccl_routes_t *routes = NULL;
    job_t job = {.target = TARGET_JSON};
    ccl_status_t status;

    if (!cli->args.explain)
        CCL_TRY(target_of(&cli->args, &job.target, err));
    if (job.target != TARGET_XML && !cli->args.explain)
        CCL_TRY(refuse_unlowered(&cli->args, err));
    CCL_TRY(check_with(&cli->args, err));
    status = ccl_i_synth_options(&cli->args, &job.files, &job.options, err);
    if (status == CCL_OK)
        status = ccl_i_cluster_open(cli, cli->args.topology, NULL, &machine, &topo, err);
    if (status == CCL_OK)
        status = ccl_i_collective_open(&cli->args, cli->args.collective, topo->nranks, &want, err);
    if (status == CCL_OK) {
        routes = ccl_routes_create(topo);
        if (!routes)
            status = ccl_fail_nomem(err);
        else if (cli->args.explain)
            status = explain(cli, topo, routes, want, &job.options, err);
        else if (ccl_nccl_stock(cli->args.with))
            status = make_stock(cli, machine, topo, &job, err);
        else
            status = make_robust(cli, topo, routes, want, &job, err);
    }
    ccl_routes_destroy(routes);
    ccl_collective_destroy(want);
    ccl_topology_destroy(machine);
    ccl_topology_destroy(topo);
    ccl_i_synth_files_fini(&job.files);
    return status;
}

static const char *const accepts[] = {"topology",
                                      "fail",
                                      "degrade",
                                      "scale",
                                      "set",
                                      "profile",
                                      "collective",
                                      "demand",
                                      "root",
                                      "with",
                                      "plugin",
                                      "size",
                                      "format",
                                      "explain-capacities",
                                      "granularity",
                                      "batches",
                                      "scenario",
                                      "samples",
                                      "rank@samples",
                                      CCL_I_LOWERING,
                                      CCL_I_SYNTH_FILES,
                                      NULL};
const ccl_i_command_t ccl_i_cmd_synth = {
    .name = "synth",
    .usage = "--topology SPEC --collective NAME --with NAME [--size BYTES] -o FILE",
    .summary = "build a schedule",
    .details =
        "Writes a schedule (FILE.json: which chunk moves where at which step) or the program\n"
        "lowered from it (FILE.xml: MSCCL XML, thread blocks and primitives; --order to\n"
        "--executor say how). The schedule is verified before it is written. --format flagcx\n"
        "writes a plan per rank between clusters, PREFIX_RANK.xml, for FlagCX. --with nccl\n"
        "writes the program that stock NCCL runs at --size. With --scenario the synthesizer's\n"
        "choices among candidates go by --rank (mean) over --samples (16) of it.\n",
    .examples = "ccllab synth -t dgx-a100 -c allgather --with ring --size 64M -o ring.xml\n"
                "ccllab synth -t dgx-a100 -c allreduce --with cegis --time-limit 5min -o a.json\n",
    .accepts = accepts,
    .no = "there is none, or not by this synthesizer",
    .run = run,
};
