/* ccllab algos */
#include "cli/command.h"

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    if (cli->args.topology)
        CCL_TRY(ccl_i_topology_open(cli, cli->args.topology, &topo, err));
    status = ccl_report_algos(topo, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    ccl_topology_destroy(topo);
    return status;
}

static const char *const accepts[] = {"topology", "fail",   "degrade", "scale",
                                      "set",      "plugin", NULL};
const ccl_i_command_t ccl_i_cmd_algos = {
    .name = "algos",
    .usage = "[options]",
    .summary = "the synthesizers, with their sources",
    .details = "With --topology also the collectives that each can be tried for there.\n",
    .examples = "ccllab algos\n"
                "ccllab algos --json\n",
    .accepts = accepts,
    .run = run,
};
