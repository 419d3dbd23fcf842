/* ccllab draw */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- topology */

static ccl_status_t run_topology(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_draw_topology_options_t options = CCL_DRAW_TOPOLOGY_OPTIONS_INIT;
    const ccl_i_args_t *args = &cli->args;
    const char *spec = args->inputs.n ? args->inputs.items[0] : args->topology;
    bool heat = args->heat || args->with;
    ccl_i_drawn_run_t run = {0};
    ccl_picture_t *picture = NULL;
    ccl_draw_format_t format;
    char about[400];
    ccl_status_t status;

    CCL_TRY(ccl_i_picture_format(cli, &format, err));
    if (!heat && (args->size_bytes > 0 || ccl_i_lowering_given(args, true)))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "these options are about a run: --heat FILE, or --collective NAME --with "
                        "NAME");
    status = heat ? ccl_i_run_open(cli, args->heat, spec, NULL, &run, err)
                  : ccl_i_cluster_open(cli, spec, NULL, NULL, &run.topo, err);
    if (run.result) {
        snprintf(about, sizeof(about), "%s: %.4g us, busbw %.4g GB/s", run.title,
                 run.result->time_s * 1e6, run.result->busbw_GBps);
        options.links = run.result->links;
        options.run = about;
    }
    if (status == CCL_OK)
        status = ccl_draw_topology(run.topo, &options, &picture, err);
    if (status == CCL_OK)
        status = ccl_i_picture_emit(cli, picture, err);
    ccl_picture_destroy(picture);
    ccl_i_run_fini(&run);
    return status;
}

static const char *const topology_accepts[] = {
    "topology",  "fail",     "degrade",      "scale",       "set",     "heat",
    "size",      "width",    "batches",      "granularity", "sharing", "profile",
    "no-verify", CCL_I_MADE, CCL_I_LOWERING, NULL};
const ccl_i_command_t ccl_i_cmd_draw_topology = {
    .name = "draw topology",
    .usage = "--topology SPEC [--heat FILE --size BYTES] -o PICTURE",
    .summary = "a cluster as SVG, PDF or PNG, also with how busy links are in a run",
    .details =
        "The end of PICTURE's name chooses the format. Lines are as wide as links; with --heat, a\n"
        "program or schedule, or --collective NAME --with NAME, they are coloured by their\n"
        "utilisation in its simulated run.\n",
    .examples = "ccllab draw topology \"dgx-h100*2\" -o cluster.svg\n"
                "ccllab draw topology -t dgx-h100 -c allreduce --with nccl --size 1G -o h.svg\n",
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
    ccl_trace_t *trace = NULL;
    ccl_draw_format_t format;
    ccl_status_t status;

    CCL_TRY(ccl_i_picture_format(cli, &format, err));
    CCL_TRY(rank_of(&cli->args, &options.rank, err));
    options.rows = (ccl_draw_rows_t)cli->args.draw_rows;
    options.by_chunk = cli->args.draw_colour == 1;
    options.unfolded = cli->args.unfolded;
    if (options.rank != CCL_NONE && options.rows == CCL_DRAW_ROWS_LINK)
        return ccl_fail(err, CCL_ERR_USAGE, "--rank chooses thread blocks, not links");
    trace = ccl_trace_create(TIMELINE_EVENTS);
    status = trace ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        bool links = options.rows == CCL_DRAW_ROWS_LINK;

        ccl_trace_keep(trace, !links, links);
        status = ccl_i_run_open(cli, cli->args.inputs.n ? cli->args.inputs.items[0] : NULL,
                                cli->args.topology, trace, &run, err);
    }
    options.title = run.title;
    if (status == CCL_OK)
        status = ccl_draw_timeline(run.subject.topo, run.subject.program, run.result, trace,
                                   &options, &picture, err);
    if (status == CCL_OK)
        status = ccl_i_picture_emit(cli, picture, err);
    ccl_picture_destroy(picture);
    ccl_i_run_fini(&run);
    ccl_trace_destroy(trace);
    return status;
}

static const char *const timeline_accepts[] = {
    "topology", "fail",      "degrade",   "scale",        "set",     "size",        "rows@draw",
    "unfolded", "colour",    "rank@draw", "width",        "batches", "granularity", "sharing",
    "profile",  "no-verify", CCL_I_MADE,  CCL_I_LOWERING, NULL};
const ccl_i_command_t ccl_i_cmd_draw_timeline = {
    .name = "draw timeline",
    .usage = "--topology SPEC [options] FILE --size BYTES -o PICTURE",
    .summary = "what every thread block or link did in a simulated run, over time",
    .details =
        "FILE is a program or a schedule; or, without one, --collective NAME --with NAME makes\n"
        "one. Rows are thread blocks where few differ, else GPUs or servers; those that look "
        "alike\n"
        "are one, with their number. Each part of a row has the colour of what took the most of\n"
        "it.\n",
    .examples = "ccllab draw timeline -t dgx-h100 -c allreduce --with ring --size 1M -o t.svg\n"
                "ccllab draw timeline -t dgx-a100 ring.xml --size 64M --rows link -o links.pdf\n",
    .accepts = timeline_accepts,
    .max_inputs = 1,
    .no = "it is not right, cannot finish, or is too long to draw",
    .run = run_timeline,
};

/* ---------------------------------------------------------------- results */

typedef ccl_status_t (*draw_fn)(const ccl_i_cli_t *cli, const ccl_json_doc_t *docs, uint32_t ndocs,
                                ccl_picture_t **out, ccl_error_t *err);

/** Read all inputs as JSON, draw them, write the picture. */
static ccl_status_t draw_results(ccl_i_cli_t *cli, draw_fn draw, ccl_error_t *err) {
    const ccl_i_list_t *inputs = &cli->args.inputs;
    ccl_picture_t *picture = NULL;
    ccl_draw_format_t format;
    ccl_json_doc_t *docs;
    uint32_t n = 0;
    ccl_status_t status = CCL_OK;

    CCL_TRY(ccl_i_picture_format(cli, &format, err));
    docs = calloc(inputs->n + 1, sizeof(*docs));
    if (!docs)
        return ccl_fail_nomem(err);
    while (status == CCL_OK && n < inputs->n) {
        status = ccl_json_read(inputs->items[n], &docs[n], err);
        n += status == CCL_OK;
    }
    if (status == CCL_OK)
        status = draw(cli, docs, n, &picture, err);
    if (status == CCL_OK)
        status = ccl_i_picture_emit(cli, picture, err);
    ccl_picture_destroy(picture);
    while (n > 0)
        ccl_json_fini(&docs[--n]);
    free(docs);
    return status;
}

static ccl_status_t busbw(const ccl_i_cli_t *cli, const ccl_json_doc_t *docs, uint32_t ndocs,
                          ccl_picture_t **out, ccl_error_t *err) {
    (void)cli;
    return ccl_report_draw_busbw(docs, ndocs, out, err);
}

static ccl_status_t run_busbw(ccl_i_cli_t *cli, ccl_error_t *err) {
    return draw_results(cli, busbw, err);
}

static const char *const busbw_accepts[] = {"width", NULL};
const ccl_i_command_t ccl_i_cmd_draw_busbw = {
    .name = "draw busbw",
    .usage = "RESULT.json... -o PICTURE",
    .summary = "busbw over size of many schedules, with the bound as a line",
    .details =
        "Results are what \"ccllab compare --json\" wrote; compare draws the same when -o names\n"
        "a picture.\n",
    .examples = "ccllab compare -t dgx-h100 -c allreduce --json -o all.json\n"
                "ccllab draw busbw all.json -o busbw.svg\n",
    .accepts = busbw_accepts,
    .min_inputs = 1,
    .max_inputs = 64,
    .run = run_busbw,
};

static ccl_status_t idle(const ccl_i_cli_t *cli, const ccl_json_doc_t *docs, uint32_t ndocs,
                         ccl_picture_t **out, ccl_error_t *err) {
    uint32_t rank;

    CCL_TRY(rank_of(&cli->args, &rank, err));
    return ccl_report_draw_idle(docs, ndocs, rank, out, err);
}

static ccl_status_t run_idle(ccl_i_cli_t *cli, ccl_error_t *err) {
    return draw_results(cli, idle, err);
}

static const char *const idle_accepts[] = {"rank@idle", "width", NULL};
const ccl_i_command_t ccl_i_cmd_draw_idle = {
    .name = "draw idle",
    .usage = "RUN.json... [--rank N] -o PICTURE",
    .summary = "how long every thread block of a GPU was busy, and what it waited for",
    .details =
        "Runs are what \"ccllab simulate --json\" wrote; they are drawn on one scale of time,\n"
        "after ResCCL's figure 12.\n",
    .examples = "ccllab simulate -t dgx-a100 ring.xml --size 64M --json -o run.json\n"
                "ccllab draw idle run.json -o idle.svg\n",
    .accepts = idle_accepts,
    .min_inputs = 1,
    .max_inputs = 16,
    .run = run_idle,
};

typedef ccl_status_t (*draw_text_fn)(const char *name, const char *text, size_t len,
                                     ccl_picture_t **out, ccl_error_t *err);

/** Read the input as text, draw it, write the picture. */
static ccl_status_t draw_text(ccl_i_cli_t *cli, draw_text_fn draw, ccl_error_t *err) {
    const char *path = cli->args.inputs.items[0];
    ccl_picture_t *picture = NULL;
    ccl_draw_format_t format;
    char *text = NULL;
    size_t len = 0;
    ccl_status_t status;

    CCL_TRY(ccl_i_picture_format(cli, &format, err));
    CCL_TRY(ccl_file_read(path, CCL_FILE_MAX_BYTES, &text, &len, err));
    status = draw(strcmp(path, "-") == 0 ? "<stdin>" : path, text, len, &picture, err);
    free(text);
    if (status == CCL_OK)
        status = ccl_i_picture_emit(cli, picture, err);
    ccl_picture_destroy(picture);
    return status;
}

static ccl_status_t run_progress(ccl_i_cli_t *cli, ccl_error_t *err) {
    return draw_text(cli, ccl_report_draw_progress, err);
}

const ccl_i_command_t ccl_i_cmd_draw_progress = {
    .name = "draw progress",
    .usage = "TRACE -o PICTURE",
    .summary = "best, bound and counterexamples of a search of cegis over time",
    .details = "TRACE is what \"ccllab synth --with cegis --search-trace TRACE\" wrote.\n",
    .examples = "ccllab draw progress trace.jsonl -o progress.svg\n",
    .accepts = busbw_accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .run = run_progress,
};

static ccl_status_t run_curves(ccl_i_cli_t *cli, ccl_error_t *err) {
    return draw_text(cli, ccl_report_draw_curves, err);
}

const ccl_i_command_t ccl_i_cmd_draw_curves = {
    .name = "draw curves",
    .usage = "TABLE.csv -o PICTURE",
    .summary = "columns of a table over its first one, such as times over a setting",
    .details =
        "TABLE is CSV as \"ccllab notebook query --csv\" writes it. The first column has numbers\n"
        "above 0 that ascend. Units stand in parentheses at the end of headings; columns of one\n"
        "unit share a plot.\n",
    .examples = "ccllab draw curves table.csv -o curves.svg\n",
    .accepts = busbw_accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .run = run_curves,
};
