/* ccllab testbed up, run, down, list, topology; ccllab validate --testbed */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

static const char default_name[] = "default";

/** "500Mbit/s", also as tc has it: "500Mbit". @param out  0: not given. */
static ccl_status_t rate_max(const ccl_i_args_t *args, double *out, ccl_error_t *err) {
    char text[64];
    ccl_error_t inner = CCL_ERROR_INIT;
    double Bps = 0;
    const char *given = args->testbed.rate_max;
    size_t len = given ? strlen(given) : 0;

    *out = 0;
    if (!given)
        return CCL_OK;
    snprintf(text, sizeof(text), "%.50s%s", given,
             len >= 3 && strcmp(given + len - 3, "bit") == 0 ? "/s" : "");
    if (ccl_parse_rate_Bps(text, &Bps, &inner) != CCL_OK)
        return ccl_fail(err, CCL_ERR_USAGE, "option --rate-max: %s", inner.text);
    *out = 8 * Bps;
    return CCL_OK;
}

/** A testbed that is up, or one of our own. */
typedef struct place {
    ccl_topology_t *cluster;
    ccl_testbed_plan_t *plan;
    ccl_testbed_t *testbed;
    ccl_topology_t *emulated;
} place_t;

static void place_fini(place_t *p) {
    ccl_topology_destroy(p->emulated);
    ccl_testbed_close(p->testbed);
    ccl_testbed_plan_destroy(p->plan);
    ccl_topology_destroy(p->cluster);
}

static ccl_status_t is_up(const char *name, bool *out, ccl_error_t *err) {
    ccl_testbed_entry_t *list = NULL;
    uint32_t n = 0;

    CCL_TRY(ccl_testbed_list(&list, &n, err));
    *out = false;
    for (uint32_t i = 0; i < n; i++)
        *out = *out || strcmp(list[i].name, name) == 0;
    free(list);
    return CCL_OK;
}

static ccl_status_t place_open(ccl_i_cli_t *cli, const char *spec, place_t *p, ccl_error_t *err) {
    double rate_bps;
    bool up;

    CCL_TRY(rate_max(&cli->args, &rate_bps, err));
    CCL_TRY(is_up(spec, &up, err));
    if (up && rate_bps > 0)
        return ccl_fail(err, CCL_ERR_USAGE, "testbed \"%.70s\" is up, its rates are set", spec);
    if (up)
        return ccl_testbed_attach(&cli->ctx, spec, &p->testbed, &p->plan, err);
    CCL_TRY(ccl_topology_read(&cli->ctx, spec, &p->cluster, err));
    CCL_TRY(ccl_testbed_plan(p->cluster, rate_bps, &p->plan, err));
    return ccl_testbed_open(p->plan, &p->testbed, err);
}

static ccl_status_t emit(ccl_i_cli_t *cli, ccl_status_t status, ccl_text_t *text,
                         ccl_error_t *err) {
    if (status == CCL_OK)
        status = ccl_i_emit(cli, text, err);
    ccl_text_fini(text);
    return status;
}

/* ---------------------------------------------------------------- up, down, list */

static ccl_status_t up(ccl_i_cli_t *cli, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    place_t p = {0};
    ccl_testbed_entry_t entry;
    ccl_text_t text = {0};
    double rate_bps;

    CCL_TRY(rate_max(args, &rate_bps, err));
    CCL_TRY(ccl_topology_read(&cli->ctx, args->inputs.items[0], &p.cluster, err));
    ccl_status_t status = ccl_testbed_plan(p.cluster, rate_bps, &p.plan, err);
    if (status == CCL_OK)
        status = ccl_testbed_keep(p.cluster, rate_bps, args->name ? args->name : default_name,
                                  &entry, err);
    if (status == CCL_OK)
        status = ccl_report_testbed(p.plan, &entry, &cli->style, &text, err);
    status = emit(cli, status, &text, err);
    place_fini(&p);
    return status;
}

static ccl_status_t down(ccl_i_cli_t *cli, ccl_error_t *err) {
    return ccl_testbed_drop(cli->args.inputs.n ? cli->args.inputs.items[0] : default_name, err);
}

static ccl_status_t list(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_testbed_entry_t *entries = NULL;
    ccl_text_t text = {0};
    uint32_t n = 0;

    CCL_TRY(ccl_testbed_list(&entries, &n, err));
    ccl_status_t status = ccl_report_testbeds(entries, n, &cli->style, &text, err);
    free(entries);
    return emit(cli, status, &text, err);
}

/* ---------------------------------------------------------------- run */

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    place_t p = {0};
    ccl_status_t status = place_open(cli, cli->args.inputs.items[0], &p, err);

    if (status == CCL_OK)
        status = ccl_testbed_topology(p.plan, NULL, &p.emulated, err);
    if (status == CCL_OK)
        status = ccl_i_run_in(cli, p.testbed, p.emulated, cli->args.inputs.items[1], err);
    place_fini(&p);
    return status;
}

/* ---------------------------------------------------------------- topology */

/** Measure the constants. */
static ccl_status_t calibrate(ccl_i_cli_t *cli, place_t *p, ccl_error_t *err) {
    ccl_testbed_calibration_t *made = NULL;
    ccl_run_options_t options = CCL_RUN_OPTIONS_INIT;

    CCL_TRY(ccl_testbed_calibrate(&cli->ctx, p->plan, p->testbed, &options, cli->args.job.repeats,
                                  NULL, NULL, &made, err));
    for (uint32_t i = 0; i < made->nconstants; i++)
        ccl_log(&cli->ctx, CCL_LOG_INFO, "testbed", "%s %.4g %s (%.4g to %.4g)",
                made->constants[i].name, made->constants[i].value, made->constants[i].unit,
                made->constants[i].low, made->constants[i].high);
    ccl_log(&cli->ctx, CCL_LOG_INFO, "testbed",
            "%u calibration programs: median error %.1f %%, worst %.1f %%", made->npoints,
            100 * made->median_error, 100 * made->worst_error);
    ccl_status_t status = ccl_testbed_topology(p->plan, &made->values, &p->emulated, err);
    ccl_testbed_calibration_destroy(made);
    return status;
}

static ccl_status_t topology(ccl_i_cli_t *cli, ccl_error_t *err) {
    const char *spec = cli->args.inputs.items[0];
    place_t p = {0};
    ccl_text_t text = {0};
    double rate_bps = 0;
    bool there = cli->args.testbed.calibrate;
    ccl_status_t status = there ? CCL_OK : is_up(spec, &there, err);

    if (status == CCL_OK && there) {
        status = place_open(cli, spec, &p, err);
    } else if (status == CCL_OK) { /* this needs no namespaces */
        status = rate_max(&cli->args, &rate_bps, err);
        if (status == CCL_OK)
            status = ccl_topology_read(&cli->ctx, spec, &p.cluster, err);
        if (status == CCL_OK)
            status = ccl_testbed_plan(p.cluster, rate_bps, &p.plan, err);
    }
    if (status == CCL_OK)
        status = cli->args.testbed.calibrate ? calibrate(cli, &p, err)
                                             : ccl_testbed_topology(p.plan, NULL, &p.emulated, err);
    if (status == CCL_OK)
        status = ccl_topology_write_json(p.emulated, &text, err);
    status = emit(cli, status, &text, err);
    place_fini(&p);
    return status;
}

/* ---------------------------------------------------------------- validate --testbed */

/** The file of -t must be of this testbed: nothing else shows it. */
static ccl_status_t take_emulated(ccl_i_cli_t *cli, place_t *p, ccl_error_t *err) {
    if (!cli->args.topology)
        return calibrate(cli, p, err);
    CCL_TRY(ccl_topology_read(&cli->ctx, cli->args.topology, &p->emulated, err));
    if (p->emulated->nranks != p->plan->nranks || p->emulated->nservers != p->plan->nservers)
        return ccl_error_set(err, CCL_ERR_INPUT, cli->args.topology, 0, 0,
                             "%u ranks in %u servers, but the testbed has %u in %u",
                             p->emulated->nranks, p->emulated->nservers, p->plan->nranks,
                             p->plan->nservers);
    return CCL_OK;
}

static ccl_status_t validate(ccl_i_cli_t *cli, place_t *p, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    const char *suite_name = args->host.suite ? args->host.suite : "default";
    ccl_validate_options_t options = CCL_VALIDATE_OPTIONS_INIT;
    ccl_suite_t *suite = NULL;
    ccl_validation_t *v = NULL;
    ccl_text_t text = {0};
    double *sizes = NULL;
    uint32_t nsizes = 0;

    options.repeats = args->job.repeats;
    options.keep = args->host.keep;
    options.run.transport = CCL_RUN_TCP;
    CCL_TRY(ccl_i_sizes(args->sizes ? args->sizes : "1M:16M:4", &sizes, &nsizes, err));
    ccl_status_t status = take_emulated(cli, p, err);
    if (status == CCL_OK)
        status = ccl_suite_read_on(&cli->ctx, suite_name, p->emulated, &suite, err);
    if (status == CCL_OK)
        status = ccl_validate_testbed(&cli->ctx, p->testbed, p->emulated, suite->cases,
                                      suite->ncases, sizes, nsizes, &options, &v, err);
    if (status == CCL_OK) {
        ccl_report_validation_t about = {args->topology, suite_name, &options.run,
                                         suite->cases,   v,          "testbed"};
        status = ccl_report_validation(&about, &cli->style, &text, err);
    }
    status = emit(cli, status, &text, err);
    ccl_validation_destroy(v);
    ccl_suite_destroy(suite);
    free(sizes);
    return status;
}

ccl_status_t ccl_i_validate_testbed(ccl_i_cli_t *cli, ccl_error_t *err) {
    place_t p = {0};

    if (cli->args.profile || cli->args.job.device)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "--testbed has constants of its own: no --profile, no --device");
    ccl_status_t status = place_open(cli, cli->args.testbed.cluster, &p, err);
    if (status == CCL_OK)
        status = validate(cli, &p, err);
    place_fini(&p);
    return status;
}

/* ---------------------------------------------------------------- commands */

static const char *const up_accepts[] = {"rate-max", "name@testbed", NULL};
const ccl_i_command_t ccl_i_cmd_testbed_up = {
    .name = "testbed up",
    .usage = "CLUSTER [--rate-max RATE] [--name NAME]",
    .summary = "emulate a cluster on this machine: a network namespace per server",
    .details =
        "A namespace per server, joined by a bridge, each NIC limited both ways by token\n"
        "buckets, in the proportions of the cluster's NICs. A process in the background holds\n"
        "them: when it ends, however it ends, they are gone. Needs root and iproute2 (else\n"
        "exit code 4). docs/testbed.md says what is emulated and what is not.\n",
    .examples = "ccllab testbed up heteccl-h20-4+8 --name lab\n",
    .accepts = up_accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .run = up,
};

static const char *const run_accepts[] = {
    "collective",  "demand",     "root",  "channels",     "rate-max", "size",
    "sizes",       "type",       "op",    "repeats",      "warmups",  "batches",
    "granularity", "slots@run",  "slice", "slices",       "watchdog", "no-check",
    "no-verify",   "blocks@run", "table", CCL_I_LOWERING, NULL};
const ccl_i_command_t ccl_i_cmd_testbed_run = {
    .name = "testbed run",
    .usage = "CLUSTER|NAME FILE|SYNTHESIZER [options]",
    .summary = "run a program in an emulated cluster, over TCP, a process per server",
    .details =
        "CLUSTER is the name of a testbed that is up, or a cluster, emulated while this runs.\n"
        "FILE is a program or schedule as for run; or name a synthesizer (ring, hm ...) and a\n"
        "collective (-c). Checks and prints what run does. Needs root.\n",
    .examples = "ccllab testbed run lab ring -c allgather --size 16M\n"
                "ccllab testbed run heteccl-h20-4+8 program.xml --size 16M\n",
    .accepts = run_accepts,
    .min_inputs = 2,
    .max_inputs = 2,
    .tables = ccl_report_measurement_tables,
    .no = "it or its data are wrong, or it cannot finish",
    .run = run,
};

static const char *const no_options[] = {NULL};
const ccl_i_command_t ccl_i_cmd_testbed_down = {
    .name = "testbed down",
    .usage = "[NAME]",
    .summary = "end a testbed that is up",
    .details = "Ends the process that holds it; its namespaces go with it.\n",
    .examples = "ccllab testbed down lab\n",
    .accepts = no_options,
    .max_inputs = 1,
    .run = down,
};

const ccl_i_command_t ccl_i_cmd_testbed_list = {
    .name = "testbed list",
    .usage = "[options]",
    .summary = "the testbeds that are up",
    .details = "Process PID of a testbed holds its namespaces as /proc/PID/fd/N, shown by --json:\n"
               "nsenter --net=/proc/PID/fd/N COMMAND runs a command on that server.\n",
    .examples = "ccllab testbed list\n",
    .accepts = no_options,
    .max_inputs = 0,
    .run = list,
};

static const char *const topology_accepts[] = {"rate-max", "calibrate", "repeats", NULL};
const ccl_i_command_t ccl_i_cmd_testbed_topology = {
    .name = "testbed topology",
    .usage = "CLUSTER|NAME [--rate-max RATE] [--calibrate] [-o FILE]",
    .summary = "the emulated cluster as a description that can be simulated",
    .details =
        "NICs at the rates that payload has in the testbed, and the constants of TCP between\n"
        "processes of this machine: default ones, or measured with --calibrate (root).\n",
    .examples = "ccllab testbed topology heteccl-h20-4+8 --calibrate -o lab.json\n",
    .accepts = topology_accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .run = topology,
};
