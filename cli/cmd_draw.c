/* ccllab draw */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- topology */

static ccl_status_t run_topology(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_draw_topology_options_t options = CCL_DRAW_TOPOLOGY_OPTIONS_INIT;
    ccl_i_drawn_run_t run = {0};
    ccl_picture_t *picture = NULL;
    ccl_topology_t *topo = NULL;
    ccl_draw_format_t format;
    char about[400];
    ccl_status_t status;

    CCL_TRY(ccl_i_picture_format(cli, &format, err));
    if (!cli->args.heat && (cli->args.size_bytes > 0 || ccl_i_lowering_given(&cli->args, true)))
        return ccl_fail(err, CCL_ERR_USAGE, "these options are about a run: --heat FILE");
    CCL_TRY(ccl_i_topology_open(
        cli, cli->args.inputs.n ? cli->args.inputs.items[0] : cli->args.topology, &topo, err));
    status = cli->args.heat ? ccl_i_run_open(cli, cli->args.heat, &topo, NULL, &run, err) : CCL_OK;
    if (run.result) {
        snprintf(about, sizeof(about), "%s: %.4g us, busbw %.4g GB/s", run.title,
                 run.result->time_s * 1e6, run.result->busbw_GBps);
        options.links = run.result->links;
        options.run = about;
    }
    if (status == CCL_OK)
        status = ccl_draw_topology(topo, &options, &picture, err);
    if (status == CCL_OK)
        status = ccl_i_picture_emit(cli, picture, err);
    ccl_picture_destroy(picture);
    ccl_i_run_fini(&run);
    ccl_topology_destroy(topo);
    return status;
}

static const char *const topology_accepts[] = {
    "topology",    "fail",    "degrade", "heat",         "size",  "width",    "batches",
    "granularity", "sharing", "profile", "no-verify",    "order", "allocate", "stages",
    "executor",    "proto",   "no-fuse", "out-of-place", NULL};
const ccl_i_command_t ccl_i_cmd_draw_topology = {
    .name = "draw topology",
    .usage = "--topology SPEC [--heat FILE --size BYTES] -o PICTURE",
    .summary = "a cluster as SVG, PDF or PNG, also with how busy links are in a run",
    .details =
        "The end of PICTURE's name chooses the format. Lines are as wide as links; with --heat, a\n"
        "program or schedule, they are coloured by their utilisation in its simulated run.\n",
    .accepts = topology_accepts,
    .max_inputs = 1,
    .no = "what --heat names is not right, or cannot finish",
    .run = run_topology,
};

/* ---------------------------------------------------------------- timeline */

/* More than this is more memory than a laptop has to spare. */
enum { TIMELINE_EVENTS = 12000000 };

static ccl_status_t rank_of(const ccl_i_args_t *args, uint32_t *out, ccl_error_t *err) {
    char *end = NULL;
    unsigned long value;

    *out = CCL_NONE;
    if (!args->rank || strcmp(args->rank, "all") == 0)
        return CCL_OK;
    value = strtoul(args->rank, &end, 10);
    if (args->rank[0] < '0' || args->rank[0] > '9' || *end || value >= CCL_NONE)
        return ccl_fail(err, CCL_ERR_USAGE, "option --rank wants a rank or all, not \"%s\"",
                        args->rank);
    *out = (uint32_t)value;
    return CCL_OK;
}

static ccl_status_t run_timeline(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_draw_timeline_options_t options = CCL_DRAW_TIMELINE_OPTIONS_INIT;
    ccl_i_drawn_run_t run = {0};
    ccl_picture_t *picture = NULL;
    ccl_topology_t *topo = NULL;
    ccl_trace_t *trace = NULL;
    ccl_draw_format_t format;
    ccl_status_t status;

    CCL_TRY(ccl_i_picture_format(cli, &format, err));
    CCL_TRY(rank_of(&cli->args, &options.rank, err));
    options.rows = (ccl_draw_rows_t)cli->args.draw_rows;
    options.by_chunk = cli->args.draw_colour == 1;
    if (options.rank != CCL_NONE && options.rows == CCL_DRAW_ROWS_LINK)
        return ccl_fail(err, CCL_ERR_USAGE, "--rank chooses thread blocks, not links");
    CCL_TRY(ccl_i_topology_open(cli, cli->args.topology, &topo, err));
    trace = ccl_trace_create(TIMELINE_EVENTS);
    status = trace ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        bool links = options.rows == CCL_DRAW_ROWS_LINK;

        ccl_trace_keep(trace, !links, links);
        status = ccl_i_run_open(cli, cli->args.inputs.items[0], &topo, trace, &run, err);
    }
    options.title = run.title;
    if (status == CCL_OK)
        status = ccl_draw_timeline(topo, run.program, run.result, trace, &options, &picture, err);
    if (status == CCL_OK)
        status = ccl_i_picture_emit(cli, picture, err);
    ccl_picture_destroy(picture);
    ccl_i_run_fini(&run);
    ccl_trace_destroy(trace);
    ccl_topology_destroy(topo);
    return status;
}

static const char *const timeline_accepts[] = {
    "topology", "fail",    "degrade",     "size",    "rows@draw", "colour",       "rank@draw",
    "width",    "batches", "granularity", "sharing", "profile",   "no-verify",    "order",
    "allocate", "stages",  "executor",    "proto",   "no-fuse",   "out-of-place", NULL};
const ccl_i_command_t ccl_i_cmd_draw_timeline = {
    .name = "draw timeline",
    .usage = "--topology SPEC FILE --size BYTES -o PICTURE",
    .summary = "what every thread block or link did in a simulated run, over time",
    .details = "FILE is a program or a schedule. Rows are thread blocks where there are few, else "
               "GPUs or\n"
               "servers; each part of a row has the colour of what took the most of it.\n",
    .accepts = timeline_accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .no = "it is not right, or cannot finish",
    .run = run_timeline,
};
