/* ccllab explain */
#include "cli/command.h"

/** What one run of the command holds; one fini for all. */
typedef struct explain {
    ccl_topology_t *topo, *machine; /* machine: without the profile; NULL: there is none */
    ccl_i_subject_t subject;
    ccl_explanation_t *explanation;
} explain_t;

static void explain_fini(explain_t *x) {
    ccl_explanation_destroy(x->explanation);
    ccl_i_subject_fini(&x->subject);
    ccl_topology_destroy(x->topo);
    ccl_topology_destroy(x->machine);
}

static ccl_status_t explain(ccl_i_cli_t *cli, explain_t *x, ccl_error_t *err) {
    const char *file = cli->args.inputs.n ? cli->args.inputs.items[0] : NULL;
    ccl_explain_options_t options = CCL_EXPLAIN_OPTIONS_INIT;
    ccl_report_explanation_t about = {0};
    ccl_i_subject_t *s = &x->subject;
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status;

    CCL_TRY(ccl_i_cluster_open(cli, cli->args.topology, NULL, &x->machine, &x->topo, err));
    CCL_TRY(ccl_i_subject_open(cli, file, x->machine, x->topo, s, err));
    CCL_TRY(ccl_i_subject_right(s, err));
    options.sim = s->sim;
    options.no_what_if = cli->args.no_what_if;
    options.machine = x->machine ? x->machine : x->topo;
    options.program = s->program;
    options.schedule = s->document.schedule;
    if (s->lowered) {
        options.way = s->way;
        options.lower = ccl_i_lower_options(&cli->args);
    }
    if (s->want && !s->predictor) {
        options.with = s->name;
        options.want = s->want;
        options.synth = s->synth;
    }
    status = ccl_explain(&cli->ctx, s->topo, &options, &x->explanation, err);
    if (!x->explanation)
        return status;
    about.topo = s->topo;
    about.input = s->predictor ? s->name : s->title;
    about.program = s->program;
    about.way = s->lowered ? &s->way : NULL;
    about.options = &s->sim;
    about.explanation = x->explanation;
    about.path = cli->args.path;
    status = ccl_report_explanation(&about, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    if (status == CCL_OK && x->explanation->nuntried)
        return ccl_fail(err, CCL_INTERRUPTED, "%u of %u changes are tried", x->explanation->ntried,
                        x->explanation->ntried + x->explanation->nuntried);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    explain_t x = {0};
    ccl_status_t status = explain(cli, &x, err);

    explain_fini(&x);
    return status;
}

static const char *const accepts[] = {
    "topology",   "fail",    "degrade",     "scale",    "set",          "profile",
    "size",       "batches", "granularity", "sharing",  "no-fold",      "path",
    "no-what-if", "table",   "rows",        CCL_I_MADE, CCL_I_LOWERING, NULL};
const ccl_i_command_t ccl_i_cmd_explain = {
    .name = "explain",
    .usage = "--topology SPEC [options] FILE --size BYTES",
    .summary = "why a run takes its time, and what would help",
    .details =
        "FILE is a program or a schedule as for simulate; or, without one, --collective NAME\n"
        "--with NAME makes one (nccl: what stock NCCL runs). Every instant of the run has one\n"
        "cause on its critical path; changes to cluster and program are looked for there,\n"
        "and each is run. --path lists the path, --no-what-if leaves the changes out. --csv\n"
        "prints one table: --table changes (default), causes, waits, links, path, cut or\n"
        "thread_blocks. docs/explain.md reads one.\n",
    .examples = "ccllab explain -t dgx-h100 -c allreduce --with nccl --size 64M\n"
                "ccllab explain -t dgx-a100 ring.xml --size 64M --path\n",
    .accepts = accepts,
    .tables = ccl_report_explanation_tables,
    .no = "it is wrong, a deadlock, or too long to explain",
    .max_inputs = 1,
    .run = run,
};
