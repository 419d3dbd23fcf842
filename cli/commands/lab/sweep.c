/* ccllab sweep */
#include "cli/command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sweep {
    ccl_space_t *space;
    ccl_notebook_t *notebook;
    double *sizes_bytes;
    uint32_t nsizes, ncases;
    size_t cap;
    ccl_report_sweep_case_t *cases;
    ccl_i_launched_t launched;
    ccl_lab_t *lab;
} sweep_t;

static void sweep_fini(sweep_t *s) {
    ccl_lab_leave(s->lab);
    for (uint32_t i = 0; i < s->ncases; i++) {
        ccl_tuning_destroy((ccl_tuning_t *)s->cases[i].tuning);
        if (s->cases[i].bound)
            ccl_bound_fini((ccl_bound_t *)s->cases[i].bound);
        free((ccl_bound_t *)s->cases[i].bound);
        ccl_topology_destroy((ccl_topology_t *)s->cases[i].topo);
        free((char *)s->cases[i].name);
        free((char *)s->cases[i].knob);
    }
    free(s->cases);
    ccl_notebook_close(s->notebook);
    ccl_space_destroy(s->space);
    free(s->sizes_bytes);
}

/* Takes the cluster over. */
static ccl_status_t add_case(sweep_t *s, const char *name, ccl_topology_t *topo, ccl_error_t *err) {
    char *copy = strdup(name);

    if (!copy || !ccl_grow(&s->cases, &s->cap, s->ncases + 1u, sizeof(*s->cases))) {
        free(copy);
        ccl_topology_destroy(topo);
        return ccl_fail_nomem(err);
    }
    s->cases[s->ncases++] = (ccl_report_sweep_case_t){.name = copy, .topo = topo};
    return CCL_OK;
}

static ccl_status_t edited(ccl_i_cli_t *cli, sweep_t *s, const char *edit, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    ccl_error_t inner = CCL_ERROR_INIT;
    ccl_status_t status = ccl_i_cluster_open(cli, cli->args.topology, edit, NULL, &topo, &inner);

    if (status == CCL_ERR_INPUT)
        return ccl_fail(err, CCL_ERR_USAGE, "option --vary %.100s: %.300s", edit, inner.text);
    if (status != CCL_OK) {
        if (err)
            *err = inner;
        return status;
    }
    return add_case(s, edit, topo, err);
}

/* The last case's knob and value, where the value is a number. */
static ccl_status_t note_value(sweep_t *s, const char *edit, size_t knob_len, ccl_error_t *err) {
    ccl_report_sweep_case_t *c = &s->cases[s->ncases - 1];
    const char *text = edit + knob_len + 1;
    ccl_error_t inner = CCL_ERROR_INIT;
    double rate_Bps;
    char *end;

    c->value = strtod(text, &end);
    if (end == text)
        return CCL_OK;
    if (strcmp(end, "%") == 0) {
        c->unit = "%";
    } else if (*end == '\0') {
        c->unit = "";
    } else if (strncmp(edit, "degrade:", 8) == 0 &&
               ccl_parse_rate_Bps(text, &rate_Bps, &inner) == CCL_OK) {
        c->value = rate_Bps / 1e9;
        c->unit = "GB/s";
    } else {
        return CCL_OK;
    }
    if (!(c->value > 0) || !isfinite(c->value))
        return CCL_OK;
    c->knob = strndup(edit, knob_len);
    return c->knob ? CCL_OK : ccl_fail_nomem(err);
}

/* "scale:bandwidth:net=0.5,2", "degrade:nic:0=25%,50%": an edit per value; "fail:..." is one. */
static ccl_status_t vary(ccl_i_cli_t *cli, sweep_t *s, const char *text, ccl_error_t *err) {
    const char *factors = strchr(text, '=');
    char edit[600];

    bool several = strncmp(text, "fail:", 5) != 0;

    if (strlen(text) >= sizeof(edit) || !several || !factors)
        return edited(cli, s, text, err);
    for (const char *p = factors + 1; p;) {
        size_t n = strcspn(p, ",");

        snprintf(edit, sizeof(edit), "%.*s%.*s", (int)(factors + 1 - text), text, (int)n, p);
        CCL_TRY(edited(cli, s, edit, err));
        CCL_TRY(note_value(s, edit, (size_t)(factors - text), err));
        p = p[n] ? p + n + 1 : NULL;
    }
    return CCL_OK;
}

static ccl_status_t open_cases(ccl_i_cli_t *cli, sweep_t *s, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_topology_t *topo = NULL;

    CCL_TRY(ccl_i_cluster_open(cli, args->topology, NULL, NULL, &topo, err));
    CCL_TRY(add_case(s, topo->name, topo, err));
    for (size_t i = 0; i < args->tune.vary.n; i++)
        CCL_TRY(vary(cli, s, args->tune.vary.items[i], err));
    for (size_t i = 0; i < args->inputs.n; i++) {
        CCL_TRY(ccl_i_cluster_open(cli, args->inputs.items[i], NULL, NULL, &topo, err));
        CCL_TRY(add_case(s, topo->name, topo, err));
    }
    return CCL_OK;
}

static ccl_status_t tune_case(ccl_i_cli_t *cli, sweep_t *s, uint32_t i, ccl_tune_options_t *options,
                              ccl_error_t *err) {
    const ccl_topology_t *topo = s->cases[i].topo;
    ccl_collective_t *want = NULL;
    ccl_tuning_t *tuning = NULL;
    ccl_status_t status;

    options->profile = *topo->profile ? topo->profile : NULL;
    CCL_TRY(ccl_i_collective_open(&cli->args, cli->args.collective, topo->nranks, &want, err));
    status = ccl_tune(&cli->ctx, topo, want, options, &tuning, err);
    s->cases[i].tuning = tuning;
    ccl_collective_destroy(want);
    return status;
}

/** What binds where an edit makes nothing faster or slower. */
static ccl_status_t find_bounds(ccl_i_cli_t *cli, sweep_t *s, ccl_error_t *err) {
    ccl_report_sweep_t about = {cli->args.collective, s->ncases, s->cases};

    for (uint32_t i = 0; i < s->ncases; i++) {
        ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
        ccl_collective_t *want = NULL;

        if (!ccl_report_sweep_same(&about, i))
            continue;
        ccl_bound_t *bound = calloc(1, sizeof(*bound));
        if (!bound)
            return ccl_fail_nomem(err);
        options.size_bytes = s->sizes_bytes[s->nsizes - 1];
        options.no_latency = true;
        ccl_status_t status = ccl_i_collective_open(&cli->args, cli->args.collective,
                                                    s->cases[i].topo->nranks, &want, err);
        if (status == CCL_OK)
            status = ccl_bound(&cli->ctx, s->cases[i].topo, want, &options, bound, err);
        ccl_collective_destroy(want);
        if (status != CCL_OK) {
            free(bound);
            return status;
        }
        s->cases[i].bound = bound;
    }
    return CCL_OK;
}

static ccl_status_t tune_cases(ccl_i_cli_t *cli, sweep_t *s, ccl_tune_options_t *options,
                               ccl_error_t *err) {
    CCL_TRY(ccl_i_launched_join(cli, &s->launched, s->notebook, &s->lab, err));
    options->lab = s->lab;
    for (uint32_t i = 0; i < s->ncases; i++)
        CCL_TRY(tune_case(cli, s, i, options, err));
    return CCL_OK;
}

/* Of all clusters together. */
static ccl_status_t check_memory(const ccl_i_cli_t *cli, const sweep_t *s, ccl_error_t *err) {
    ccl_scarcity_t sum = {.all = true};

    for (uint32_t i = 0; i < s->ncases; i++) {
        ccl_scarcity_t one = ccl_tuning_scarcity(s->cases[i].tuning);

        sum.runs += one.runs;
        sum.missing += one.missing;
        sum.partly += one.partly;
        sum.all &= one.all;
    }
    return ccl_i_tell_scarcity(cli, &sum, err);
}

static ccl_status_t print(ccl_i_cli_t *cli, const sweep_t *s, ccl_error_t *err) {
    ccl_report_sweep_t about = {cli->args.collective ? cli->args.collective : "demand", s->ncases,
                                s->cases};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_picture_t *picture = NULL;
    ccl_status_t status;

    if (ccl_i_wants_picture(&cli->args)) {
        status = ccl_report_draw_sweep(&about, (ccl_report_sweep_over_t)cli->args.tune.over,
                                       &picture, err);
        if (status == CCL_OK)
            status = ccl_i_picture_emit(cli, picture, err);
        ccl_picture_destroy(picture);
        return status;
    }
    status = ccl_report_sweep(&about, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

/** Prints the clusters that were tuned before the command was interrupted. */
static ccl_status_t print_tuned(ccl_i_cli_t *cli, sweep_t *s, ccl_error_t *err) {
    bool kept = s->notebook != NULL;
    uint32_t all = s->ncases, tuned = 0, some = 0;

    while (tuned < all && s->cases[tuned].tuning)
        tuned++;
    for (uint32_t i = 0; i < tuned; i++)
        some += s->cases[i].tuning->nruns > 0;
    if (!some)
        return ccl_fail(err, CCL_INTERRUPTED, "no run is finished");
    s->ncases = tuned;
    ccl_status_t status = print(cli, s, err);
    s->ncases = all;
    CCL_TRY(status);
    return ccl_fail(err, CCL_INTERRUPTED, "%u of %u clusters are tuned, the last one in part; %s",
                    tuned, all,
                    kept ? "the same command goes on from the notebook"
                         : "with a notebook the same command goes on");
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    sweep_t s = {0};
    ccl_status_t status = ccl_i_launched_find(cli, &s.launched, err);

    if (status == CCL_OK)
        status = ccl_i_tune_options(cli, &options, &s.space, err);
    if (status == CCL_OK)
        status = open_cases(cli, &s, err);
    if (status == CCL_OK)
        status =
            ccl_i_sizes(args->sizes ? args->sizes : "64K:1G:16", &s.sizes_bytes, &s.nsizes, err);
    if (status == CCL_OK && ccl_i_launched_helper(&s.launched)) {
        status = ccl_i_launched_work(cli, &s.launched, err);
        sweep_fini(&s);
        return status;
    }
    if (status == CCL_OK && !ccl_i_notebook_none(args))
        status = ccl_i_notebook_open(cli, true, &s.notebook, err);
    options.sizes_bytes = s.sizes_bytes;
    options.nsizes = s.nsizes;
    options.notebook = s.notebook;
    if (status == CCL_OK)
        status = tune_cases(cli, &s, &options, err);
    if (status == CCL_INTERRUPTED)
        status = print_tuned(cli, &s, err);
    if (status == CCL_OK)
        status = check_memory(cli, &s, err);
    if (status == CCL_OK)
        status = find_bounds(cli, &s, err);
    if (status == CCL_OK)
        status = print(cli, &s, err);
    sweep_fini(&s);
    return status;
}

static const char *const accepts[] = {
    "topology",   "fail",           "degrade",  "scale", "set",     "profile",       "over",
    "collective", "demand",         "root",     "sizes", "vary",    "budget",        "plugin",
    "space",      "knob",           "strategy", "gap",   "improve", "notebook@tune", "lease",
    "width",      "bootstrap@tune", NULL};
const ccl_i_command_t ccl_i_cmd_sweep = {
    .name = "sweep",
    .usage = "--topology SPEC --collective NAME [--vary EDIT]... [options] [SPEC]...",
    .summary = "what if? the same tuning over edited and further clusters",
    .details =
        "Tunes the cluster, the cluster with each --vary, and the clusters named, each with\n"
        "the same space and budget, and puts their best times beside the first one's. Where\n"
        "nothing changes it says which links bind now. With\n"
        "-o FILE.svg (.pdf, .png) it draws their bandwidths as one plot or, of one --vary\n"
        "with several values, the time and the bound over these (--over). Processes that\n"
        "share the notebook (ccllab work) help.\n",
    .examples = "ccllab sweep -t \"dgx-h100*2\" -c allreduce --vary degrade:nic:0=25%,50%\n"
                "ccllab sweep -t dgx-h100 -c allgather --vary fail:gpu:3 -o sweep.svg\n"
                "ccllab sweep -t dgx-a100 -c allreduce --vary degrade:gpu:0=50%,75% -o gpu.svg\n",
    .accepts = accepts,
    .max_inputs = 64,
    .no = "no synthesizer could run",
    .run = run,
};
