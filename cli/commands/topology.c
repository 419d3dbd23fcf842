/* ccllab topology list | show | expand | here | check | symmetry */
#include "cli/command.h"

/* ---------------------------------------------------------------- list */

static ccl_status_t run_list(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status = ccl_report_library(&cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static const char *const list_accepts[] = {NULL};
const ccl_i_command_t ccl_i_cmd_topology_list = {
    .name = "topology list",
    .usage = "[options]",
    .summary = "the library of servers and clusters",
    .details = "Every name can stand where a cluster is wanted. Sources of the numbers are in\n"
               "docs/clusters.md and in what \"topology show\" prints.\n",
    .examples = "ccllab topology list\n",
    .accepts = list_accepts,
    .run = run_list,
};

/* ---------------------------------------------------------------- show */

static const char *topology_spec(const ccl_i_cli_t *cli) {
    return cli->args.inputs.n ? cli->args.inputs.items[0] : cli->args.topology;
}

static ccl_status_t run_show(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_routes_t *routes = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    CCL_TRY(ccl_i_topology_open(cli, topology_spec(cli), &topo, err));
    routes = ccl_routes_create(topo);
    status =
        routes ? ccl_report_topology(topo, routes, &cli->style, &text, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return status;
}

static const char *const show_accepts[] = {"topology", "fail",  "degrade", "scale",
                                           "set",      "table", NULL};
const ccl_i_command_t ccl_i_cmd_topology_show = {
    .name = "topology show",
    .usage = "[options] SPEC",
    .summary = "a cluster at a glance: devices, links, groups, transports, routes",
    .details = "--csv prints one table: --table devices (default), links, groups or routes.\n",
    .examples = "ccllab topology show dgx-h100\n"
                "ccllab topology show \"servers:2 gpus:8 nvswitch=450GB/s nics:8x50GB/s\"\n"
                "ccllab topology show \"dgx-h100*4,fabric=rail\" --fail nic:0\n",
    .accepts = show_accepts,
    .max_inputs = 1,
    .tables = ccl_report_topology_tables,
    .run = run_show,
};

/* ---------------------------------------------------------------- expand */

static ccl_status_t write_explicit(ccl_i_cli_t *cli, const char *spec, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    if (cli->args.csv)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "it writes JSON; ccllab topology show --csv --table links prints CSV");
    CCL_TRY(ccl_i_topology_open(cli, spec, &topo, err));
    status = ccl_topology_write_json(topo, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_topology_destroy(topo);
    return status;
}

static ccl_status_t run_expand(ccl_i_cli_t *cli, ccl_error_t *err) {
    return write_explicit(cli, topology_spec(cli), err);
}

static const char *const edit_accepts[] = {"topology", "fail", "degrade", "scale", "set", NULL};
const ccl_i_command_t ccl_i_cmd_topology_expand = {
    .name = "topology expand",
    .usage = "[options] SPEC [-o FILE.json]",
    .summary = "any description as explicit JSON, every device and link named",
    .details = "What is printed reads back to an equal cluster.\n",
    .examples = "ccllab topology expand \"dgx-h100*2\" -o cluster.json\n",
    .accepts = edit_accepts,
    .max_inputs = 1,
    .run = run_expand,
};

/* ---------------------------------------------------------------- here */

static ccl_status_t run_here(ccl_i_cli_t *cli, ccl_error_t *err) {
    return write_explicit(cli, "here", err);
}

static const char *const here_accepts[] = {"fail", "degrade", "scale", "set", NULL};
const ccl_i_command_t ccl_i_cmd_topology_here = {
    .name = "topology here",
    .usage = "[options] [-o FILE.json]",
    .summary = "this machine's GPUs, links and NICs as explicit JSON",
    .details =
        "GPUs and their links by NVML or ROCm SMI, the PCI tree and RDMA NICs by hwloc, as far\n"
        "as they are there; what they do not say is assumed, with a warning each. The word here\n"
        "also stands for this machine wherever a cluster is wanted. Without a GPU: exit code 4.\n",
    .examples = "ccllab topology here -o node.json\n"
                "ccllab topology show here\n"
                "ccllab compare -t \"here*2\" -c allreduce\n",
    .accepts = here_accepts,
    .run = run_here,
};

/* ---------------------------------------------------------------- check */

static ccl_status_t run_check(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_error_t why = CCL_ERROR_INIT;
    const char *spec = topology_spec(cli);
    ccl_status_t status;
    ccl_status_t verdict = ccl_i_topology_open(cli, spec, &topo, &why);
    bool told = cli->style.format != CCL_REPORT_TEXT;

    if (verdict != CCL_OK && (verdict != CCL_ERR_INPUT || !told)) {
        *err = why;
        return verdict;
    }
    status = ccl_report_topology_check(spec, topo, &why, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_topology_destroy(topo);
    return status == CCL_OK ? verdict : status;
}

const ccl_i_command_t ccl_i_cmd_topology_check = {
    .name = "topology check",
    .usage = "[options] SPEC",
    .summary = "is this a good description of a cluster? exit code 0 or 2",
    .details =
        "A bad one gives one line: file, line, column, what is wrong, what would be right.\n",
    .examples = "ccllab topology check cluster.json\n",
    .accepts = edit_accepts,
    .max_inputs = 1,
    .run = run_check,
};

/* ---------------------------------------------------------------- symmetry */

static ccl_status_t run_symmetry(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_routes_t *routes = NULL;
    ccl_symmetry_t *symmetry = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    CCL_TRY(ccl_i_topology_open(cli, topology_spec(cli), &topo, err));
    routes = ccl_routes_create(topo);
    status =
        routes ? ccl_symmetry_find(&cli->ctx, topo, routes, &symmetry, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_report_symmetry(topo, symmetry, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_symmetry_destroy(symmetry);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    return status;
}

const ccl_i_command_t ccl_i_cmd_topology_symmetry = {
    .name = "topology symmetry",
    .usage = "[options] SPEC",
    .summary = "what is alike: dimensions, their groups, classes of GPUs",
    .details = "docs/symmetry.md says what these are. --csv prints the dimensions.\n",
    .examples = "ccllab topology symmetry syccl-h800-64\n",
    .accepts = edit_accepts,
    .max_inputs = 1,
    .run = run_symmetry,
};
