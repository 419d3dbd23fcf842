/* ccllab simulate */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/* Events that are kept in memory, and bytes of a file that trace viewers and `report` still open
 * with ease. */
enum { TRACE_EVENTS = 4000000, TRACE_BYTES = 28000000 };

static ccl_status_t print(ccl_i_cli_t *cli, const ccl_report_run_t *about, ccl_error_t *err) {
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status = ccl_report_simulation(about, &cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t write_trace(ccl_i_cli_t *cli, const ccl_report_run_t *about, ccl_error_t *err) {
    ccl_trace_about_t of = CCL_TRACE_ABOUT_INIT;
    ccl_text_t text = {0};
    ccl_status_t status;

    of.topo = about->topo;
    of.program = about->program;
    of.result = about->result;
    of.most_bytes = TRACE_BYTES;
    status = ccl_trace_write(about->options->trace, &of, &text, err);

    if (status == CCL_OK)
        status = ccl_file_write(cli->args.trace, text.data ? text.data : "", text.len, err);
    ccl_text_fini(&text);
    return status;
}

/** The run itself, then the trace, then the result; `run_status` may be a deadlock. */
static ccl_status_t conclude(ccl_i_cli_t *cli, ccl_report_run_t *about, ccl_sim_result_t *result,
                             ccl_status_t run_status, ccl_error_t *err) {
    ccl_error_t later = CCL_ERROR_INIT;
    ccl_status_t status = CCL_OK;

    if (run_status != CCL_OK && !(run_status == CCL_DEADLOCK && result))
        return run_status;
    ccl_error_clear(err); /* the result has the deadlock in full */
    about->result = result;
    if (about->options->trace)
        status = write_trace(cli, about, &later);
    if (status == CCL_OK)
        status = print(cli, about, &later);
    if (status != CCL_OK)
        *err = later;
    return status != CCL_OK ? status : run_status;
}

/**
 * The verdict is no. Of a deadlock the simulator's own check, which knows this run's FIFOs, has
 * the cycle.
 */
static ccl_status_t refuse(ccl_i_cli_t *cli, ccl_report_run_t *about, ccl_error_t *err) {
    ccl_sim_result_t *result = NULL;
    ccl_status_t status;

    if (strcmp(about->verdict->fault.kind, "deadlock") == 0) {
        ccl_error_t ignored = CCL_ERROR_INIT;
        ccl_sim_options_t options = *about->options;

        options.trace = NULL;
        if (ccl_sim_program(&cli->ctx, about->topo, NULL, about->program, &options, &result,
                            &ignored) == CCL_DEADLOCK) {
            about->result = result;
        }
    }
    CCL_TRY_GOTO(print(cli, about, err), status, out);
    status = CCL_CHECK;
out:
    ccl_sim_result_destroy(result);
    return status;
}

/** Times over samples of --scenario, into about->spread; nothing without one. Stopped by Ctrl-C
   what was run is kept, and the status says so. */
static ccl_status_t sample(ccl_i_cli_t *cli, const ccl_i_subject_t *s, ccl_report_run_t *about,
                           ccl_spread_t *out, ccl_error_t *err) {
    ccl_scenario_t *scenario = NULL;
    ccl_draws_t *draws = NULL;
    double *times_s = NULL;
    uint32_t n = 0;
    ccl_status_t stopped = CCL_OK,
                 status = ccl_i_scenario_open(cli, s->topo, &scenario, &draws, &n, err);

    if (status == CCL_OK && draws) {
        times_s = malloc(n * sizeof(*times_s));
        status = times_s ? CCL_OK : ccl_fail_nomem(err);
        ccl_drawn_run_t run = {s->topo, NULL, s->program, &s->sim};
        if (status == CCL_OK)
            stopped = ccl_draws_time_all(&cli->ctx, draws, &run, n, times_s, err);
        if (status == CCL_OK && (stopped == CCL_OK || stopped == CCL_INTERRUPTED)) {
            status = ccl_spread(times_s, n, out, err);
            about->spread = out;
        }
    }
    free(times_s);
    ccl_draws_destroy(draws);
    ccl_scenario_destroy(scenario);
    return status == CCL_OK ? stopped : status;
}

static ccl_status_t simulate_subject(ccl_i_cli_t *cli, ccl_i_subject_t *s, ccl_error_t *err) {
    const ccl_program_t *p = s->program;
    ccl_report_run_t about = {.input = s->title,
                              .topo = s->topo,
                              .options = &s->sim,
                              .program = p,
                              .way = s->lowered ? &s->way : NULL,
                              .verdict = s->proven || s->predictor ? &s->verdict : NULL};
    ccl_bound_options_t bounds = CCL_BOUND_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_spread_t spread;
    ccl_bound_t bound;
    ccl_status_t status, sampled = CCL_OK;

    if (!s->verdict.valid)
        return refuse(cli, &about, err);
    for (uint32_t i = 0; i < s->verdict.nwarnings && i < CCL_MAX_WARNINGS; i++)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "verify", "%s", s->verdict.warnings[i]);
    if (p->ngroups > 0 && !ccl_protocol_switches(p->proto))
        ccl_log(&cli->ctx, CCL_LOG_WARN, "verify",
                "protocol %s puts flags among data, which switches would add up: no GPU runs this",
                p->proto);
    if (!s->predictor)
        ccl_i_warn_sizes(cli, s->title, p, &s->sim.size_bytes, 1);
    bounds.size_bytes = s->sim.size_bytes;
    bounds.proto = p->proto;
    bounds.any_switches = p->ngroups > 0;
    CCL_TRY(ccl_bound(&cli->ctx, s->topo, s->predictor ? s->want : p->coll, &bounds, &bound, err));
    about.bound = &bound;
    status = ccl_sim_program(&cli->ctx, s->topo, NULL, p, &s->sim, &result, err);
    if (status == CCL_OK)
        status = sampled = sample(cli, s, &about, &spread, err);
    if (status == CCL_OK || status == CCL_INTERRUPTED || status == CCL_DEADLOCK)
        status = conclude(cli, &about, result, sampled == CCL_INTERRUPTED ? CCL_OK : status, err);
    if (status == CCL_OK && sampled == CCL_INTERRUPTED)
        status = ccl_fail(err, sampled, "%u samples are finished", spread.n);
    ccl_bound_fini(&bound);
    ccl_sim_result_destroy(result);
    return status;
}

/** A program or schedule file, or what --with makes. */
static ccl_status_t simulate_program(ccl_i_cli_t *cli, const ccl_topology_t *machine,
                                     const ccl_topology_t *topo, ccl_trace_t *trace,
                                     ccl_error_t *err) {
    const char *file = cli->args.inputs.n ? cli->args.inputs.items[0] : NULL;
    ccl_i_subject_t subject = {0};
    ccl_status_t status = ccl_i_subject_open(cli, file, machine, topo, &subject, err);

    subject.sim.trace = trace;
    if (status == CCL_OK)
        status = simulate_subject(cli, &subject, err);
    ccl_i_subject_fini(&subject);
    return status;
}

/** Sources, destinations and bytes of epoch flows, for the tables. */
static ccl_status_t flows_of_epochs(const ccl_epoch_flows_t *epochs, double size_bytes,
                                    ccl_flow_list_t **out, ccl_error_t *err) {
    size_t n = epochs->nflows + (size_t)1;
    ccl_flow_list_t *list = calloc(1, sizeof(*list));

    if (!list)
        return ccl_fail_nomem(err);
    list->nranks = epochs->nranks;
    list->nflows = epochs->nflows;
    list->src = malloc(n * sizeof(*list->src));
    list->dst = malloc(n * sizeof(*list->dst));
    list->dep = malloc(n * sizeof(*list->dep));
    list->bytes = malloc(n * sizeof(*list->bytes));
    if (!list->src || !list->dst || !list->dep || !list->bytes) {
        ccl_flow_list_destroy(list);
        return ccl_fail_nomem(err);
    }
    for (uint32_t i = 0; i < epochs->nflows; i++) {
        const ccl_epoch_flow_t *f = &epochs->flows[i];

        list->src[i] = f->src;
        list->dst[i] = f->dst;
        list->dep[i] = CCL_NONE;
        list->bytes[i] = f->part * size_bytes * epochs->coll->chunks[f->chunk].share;
    }
    *out = list;
    return CCL_OK;
}

static ccl_status_t simulate_epochs(ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                    const ccl_epoch_flows_t *epochs, ccl_sim_options_t *options,
                                    ccl_error_t *err) {
    ccl_flow_list_t *flows = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_report_run_t about = {0};
    ccl_status_t status;

    if (!(options->size_bytes > 0))
        return ccl_fail(err, CCL_ERR_USAGE, "no size given: --size BYTES, such as --size 1GB");
    if (options->trace)
        return ccl_fail(err, CCL_ERR_USAGE, "epoch flows have no trace");
    CCL_TRY(flows_of_epochs(epochs, options->size_bytes, &flows, err));
    about.input = cli->args.flows;
    about.topo = topo;
    about.options = options;
    about.flows = flows;
    about.epochs = epochs;
    about.unicast = cli->args.unicast;
    status = ccl_sim_epoch_flows(&cli->ctx, topo, epochs, options->size_bytes, !cli->args.unicast,
                                 &result, err);
    status = conclude(cli, &about, result, status, err);
    ccl_sim_result_destroy(result);
    ccl_flow_list_destroy(flows);
    return status;
}

/** A flow list, or the epoch flows of another tool, which are JSON. */
static ccl_status_t flows_open(const char *path, ccl_flow_list_t **flows,
                               ccl_epoch_flows_t **epochs, ccl_error_t *err) {
    char *text = NULL;
    size_t len = 0, at = 0;
    const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
    ccl_status_t status;

    CCL_TRY(ccl_file_read(path, CCL_FILE_MAX_BYTES, &text, &len, err));
    while (at < len && strchr(" \t\r\n", text[at]) && text[at])
        at++;
    status = at < len && text[at] == '{' ? ccl_epoch_flows_read_text(name, text, len, epochs, err)
                                         : ccl_flow_list_read_text(name, text, len, flows, err);
    free(text);
    return status;
}

static ccl_status_t simulate_flows(ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                   ccl_sim_options_t *options, ccl_error_t *err) {
    ccl_flow_list_t *flows = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_report_run_t about = {0};
    ccl_epoch_flows_t *epochs = NULL;
    ccl_status_t status = flows_open(cli->args.flows, &flows, &epochs, err);

    about.input = cli->args.flows;
    about.topo = topo;
    about.options = options;
    about.flows = flows;
    if (status == CCL_OK && epochs) {
        status = simulate_epochs(cli, topo, epochs, options, err);
        ccl_epoch_flows_destroy(epochs);
        return status;
    }
    if (status == CCL_OK && cli->args.unicast)
        status = ccl_fail(err, CCL_ERR_USAGE, "--unicast is for epoch flows");
    if (status == CCL_OK && flows->nranks != topo->nranks)
        status = ccl_error_set(err, CCL_ERR_INPUT, cli->args.flows, 1, 1,
                               "flows of %u ranks, but %s has %u GPUs", flows->nranks, topo->name,
                               topo->nranks);
    if (status == CCL_OK) {
        status = ccl_sim_flows(&cli->ctx, topo, NULL, flows, options, &result, err);
        status = conclude(cli, &about, result, status, err);
    }
    ccl_sim_result_destroy(result);
    ccl_flow_list_destroy(flows);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_sim_options_t options = ccl_i_sim_options(&cli->args);
    ccl_topology_t *topo = NULL, *machine = NULL; /* machine: without the profile */
    ccl_status_t status;

    if ((cli->args.flows != NULL) + (cli->args.inputs.n > 0) + (cli->args.with != NULL) != 1)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "wanted: one program or schedule file, or --flows FILE, or --collective "
                        "NAME --with NAME");
    if (cli->args.flows && cli->args.vary.scenario)
        return ccl_fail(err, CCL_ERR_USAGE, "--scenario is for programs and schedules");
    CCL_TRY(ccl_i_cluster_open(cli, cli->args.topology, NULL, &machine, &topo, err));
    if (cli->args.trace) {
        options.trace = ccl_trace_create(TRACE_EVENTS);
        if (!options.trace) {
            ccl_topology_destroy(machine);
            ccl_topology_destroy(topo);
            return ccl_fail_nomem(err);
        }
    }
    status = cli->args.flows ? simulate_flows(cli, topo, &options, err)
                             : simulate_program(cli, machine, topo, options.trace, err);
    ccl_trace_destroy(options.trace);
    ccl_topology_destroy(machine);
    ccl_topology_destroy(topo);
    return status;
}

static const char *const accepts[] = {
    "topology", "fail",      "degrade",     "scale",        "set",   "profile",
    "size",     "batches",   "granularity", "sharing",      "flows", "unicast",
    "trace",    "no-verify", "no-skip",     "no-fold",      "table", "rows",
    "scenario", "samples",   CCL_I_MADE,    CCL_I_LOWERING, NULL};
const ccl_i_command_t ccl_i_cmd_simulate = {
    .name = "simulate",
    .usage = "--topology SPEC [options] FILE --size BYTES",
    .summary = "time a program, a schedule or a flow list on a cluster",
    .details =
        "FILE is a program (MSCCL XML) or a schedule (JSON, ResCCLang), which is lowered\n"
        "first, by --order, --allocate and --stages. Without one, --collective NAME --with NAME\n"
        "makes one (nccl: what stock NCCL runs; rccl on AMD), with the protocol that compare\n"
        "takes. The model is in docs/model.md. What does not verify is refused, a deadlock is\n"
        "reported with the cycle of who waits for whom; both exit with 1. --csv prints one\n"
        "table: --table summary (default), links, thread_blocks or flows.\n",
    .examples = "ccllab synth -t dgx-a100 -c allgather --with ring --size 64M -o ring.xml\n"
                "ccllab simulate -t dgx-a100 ring.xml --size 64M --trace ring.trace.json\n"
                "ccllab simulate -t dgx-h100 -c allreduce --with nccl --size 1M\n"
                "ccllab simulate -t dgx-a100 r.xml -s 1M --scenario 'launch=gamma(9us,2)'\n",
    .accepts = accepts,
    .max_inputs = 1,
    .tables = ccl_report_simulation_tables,
    .no = "it is wrong, a deadlock, or cannot be lowered this way",
    .run = run,
};
