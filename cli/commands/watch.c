/* ccllab watch */
#include "cli/command.h"

#include <stdlib.h>
#include <time.h>

#define POLL_NS 200000000L
#define INTERVAL_S 5

typedef struct watch {
    ccl_i_cli_t *cli;
    ccl_topology_t *topo;
    ccl_profile_t *profile;
    ccl_watch_t *watch;
    const char *path;
    double printed_s, new_s; /* when a table was printed, and something new was read */
    bool pending;            /* something new is in no table yet */
    uint32_t nslow;          /* of the last table */
} watch_t;

static void watch_fini(watch_t *w) {
    ccl_watch_destroy(w->watch);
    ccl_profile_destroy(w->profile);
    ccl_topology_destroy(w->topo);
}

static ccl_status_t open(watch_t *w, ccl_error_t *err) {
    const ccl_i_args_t *args = &w->cli->args;
    ccl_watch_options_t options = CCL_WATCH_OPTIONS_INIT;

    CCL_TRY(ccl_i_topology_open(w->cli, args->topology, &w->topo, err));
    CCL_TRY(ccl_i_cluster_profile(w->cli, w->topo, &w->profile, err));
    options.profile = w->profile;
    options.channels = args->nccl_channels;
    options.registered = args->registered;
    options.window = args->watch.window;
    options.follow = args->watch.follow;
    return ccl_watch_create(&w->cli->ctx, w->topo, &options, &w->watch, err);
}

/**
 * A table of what was read so far.
 * @param last  else, as long as files are followed, JSON and CSV go to files only.
 */
static ccl_status_t print(watch_t *w, bool known, bool last, ccl_error_t *err) {
    ccl_text_t text = {.columns = w->cli->style.columns};
    ccl_report_watch_t about = {w->path, w->topo, w->profile, NULL};
    ccl_watch_table_t *table = NULL;

    CCL_TRY(ccl_watch_judge(w->watch, known, &table, err));
    about.table = table;
    w->nslow = table->nslow;
    ccl_status_t status = CCL_OK;
    if (last || w->cli->args.output || w->cli->style.format == CCL_REPORT_TEXT) {
        status = ccl_report_watch(&about, &w->cli->style, &text, err);
        if (!last && !w->cli->args.output)
            ccl_text_printf(&text, "\n");
        if (status == CCL_OK)
            status = ccl_i_emit(w->cli, &text, err);
    }
    ccl_text_fini(&text);
    ccl_watch_table_destroy(table);
    w->pending = false;
    w->printed_s = ccl_now_s();
    return status;
}

static ccl_status_t follow(watch_t *w, ccl_error_t *err) {
    const ccl_i_args_t *args = &w->cli->args;
    double every_s = ccl_i_given(args, "interval") ? args->watch.interval_s : INTERVAL_S;

    w->new_s = ccl_now_s();
    for (;;) {
        uint64_t n = 0;
        CCL_TRY(ccl_watch_read(w->watch, w->path, &n, err));
        double now_s = ccl_now_s();
        if (n) {
            w->pending = true;
            w->new_s = now_s;
        }
        if (w->pending && now_s - w->printed_s >= every_s)
            CCL_TRY(print(w, false, false, err));
        if (n == 0 && args->lab.idle_s > 0 && now_s - w->new_s >= args->lab.idle_s)
            return CCL_OK;
        CCL_TRY(ccl_ctx_poll(&w->cli->ctx, NULL));
        if (n == 0)
            nanosleep(&(struct timespec){0, POLL_NS}, NULL);
    }
}

static ccl_status_t watch(watch_t *w, ccl_error_t *err) {
    ccl_status_t status;
    uint64_t n = 0;

    CCL_TRY(open(w, err));
    if (!w->cli->args.watch.follow) {
        CCL_TRY(ccl_watch_read(w->watch, w->path, &n, err));
        if (n == 0)
            return ccl_error_set(err, CCL_ERR_INPUT, w->path, 0, 0,
                                 "no calls of NCCL's Inspector in it (a folder's files are "
                                 "NAME.log, .jsonl or .json)");
        return print(w, false, true, err);
    }
    status = follow(w, err);
    bool text = w->cli->style.format == CCL_REPORT_TEXT && !w->cli->args.output;
    if (status != CCL_OK && status != CCL_INTERRUPTED)
        return status;
    if (w->pending || !text)
        CCL_TRY(print(w, status == CCL_INTERRUPTED, true, err));
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    watch_t w = {.cli = cli, .path = cli->args.inputs.items[0]};
    ccl_status_t status = watch(&w, err);

    watch_fini(&w);
    return status == CCL_OK && w.nslow ? CCL_CHECK : status;
}

static const char *const accepts[] = {
    "topology",          "fail",       "degrade",  "scale",      "set",
    "profile",           "follow",     "interval", "idle@watch", "window",
    "channels@measured", "registered", NULL};
const ccl_i_command_t ccl_i_cmd_watch = {
    .name = "watch",
    .usage = "FILE|DIR --topology SPEC [--follow]",
    .summary = "calls of a running job beside the model, per communicator and size",
    .details =
        "FILE holds JSON lines of NCCL's Inspector (NCCL_PROFILER_PLUGIN), DIR such files, one\n"
        "of each process: NAME.log, .jsonl or .json. For every communicator, collective and size:\n"
        "the median of the latest calls, what the model expects of stock NCCL, and the bound; and\n"
        "what the calls point to: channels that are slow, with the links that only they use\n"
        "(NCCL_INSPECTOR_DUMP_VERBOSE=1), ranks that come late, another algorithm than expected.\n"
        "With --follow files are read on while they grow, also after they are renamed, until\n"
        "Ctrl-C or --idle; a new table comes with new calls, --json and --csv print the last one,\n"
        "and -o FILE always has the latest. Exit code 1 when a size is slower than expected.\n",
    .examples = "ccllab watch nccl-inspector-1234/ -t \"dgx-h100*2\"\n"
                "ccllab watch rank0.log -t dgx-h100 --follow --interval 10s -o now.json --json\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .no = "a size is slower than expected",
    .run = run,
};
