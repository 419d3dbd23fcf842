/* ccllab explain */
#include "cli/command.h"

#include <string.h>

/** What one run of the command holds; one fini for all. */
typedef struct explain {
    ccl_i_document_t document;
    ccl_topology_t *topo, *machine; /* machine: without the profile; NULL: there is none */
    ccl_collective_t *want;         /* NULL: the input is a file */
    ccl_i_stock_t stock;
    ccl_i_synth_files_t files;
    ccl_explanation_t *explanation;
} explain_t;

static void explain_fini(explain_t *x) {
    ccl_explanation_destroy(x->explanation);
    ccl_i_document_fini(&x->document);
    ccl_collective_destroy(x->want);
    ccl_i_stock_fini(&x->stock);
    ccl_topology_destroy(x->topo);
    ccl_topology_destroy(x->machine);
    ccl_i_synth_files_fini(&x->files);
}

/** A program or schedule file, or what --with makes of --collective. */
static ccl_status_t open_input(ccl_i_cli_t *cli, explain_t *x, ccl_explain_options_t *options,
                               ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    const ccl_collective_t *coll;
    const char *form, *input;

    if ((args->inputs.n > 0) == (args->with != NULL))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "wanted: one program or schedule file, or --collective NAME --with NAME");
    if (!args->with) {
        input = args->inputs.items[0];
        CCL_TRY(ccl_i_document_read(input, &x->document, &form, err));
        if (x->document.program)
            CCL_TRY(ccl_i_refuse_lowered(args, input, err));
        coll = x->document.program ? x->document.program->coll : x->document.schedule->coll;
        if (coll->nranks != x->topo->nranks)
            return ccl_error_set(err, CCL_ERR_INPUT, input, 0, 0,
                                 "a %s for %u ranks, but %s has %u GPUs", form, coll->nranks,
                                 x->topo->name, x->topo->nranks);
        if (!(options->sim.size_bytes > 0))
            options->sim.size_bytes = coll->natural_bytes;
        return CCL_OK;
    }
    CCL_TRY(ccl_i_collective_open(args, args->collective, x->topo->nranks, &x->want, err));
    if (!(options->sim.size_bytes > 0))
        options->sim.size_bytes = x->want->natural_bytes;
    if (ccl_i_is_stock(args->with))
        return ccl_i_stock_open(cli, x->machine, x->topo, x->want, options->sim.size_bytes,
                                &x->stock, err);
    options->with = args->with;
    options->want = x->want;
    CCL_TRY(ccl_i_synth_options(args, &x->files, &options->synth, err));
    options->synth.size_bytes = options->sim.size_bytes;
    ccl_status_t status = ccl_synthesize(&cli->ctx, args->with, x->topo, NULL, x->want,
                                         &options->synth, &x->document.schedule, err);
    if (status == CCL_TIMEOUT && x->document.schedule) {
        ccl_i_say("warning", "limit reached, the best schedule so far is explained");
        ccl_error_clear(err);
        status = CCL_OK;
    }
    return status;
}

/** The protocol that `compare` takes for what --with made, at this size. */
static ccl_status_t choose_protocol(ccl_i_cli_t *cli, const explain_t *x,
                                    const ccl_explain_options_t *options, ccl_error_t *err) {
    const ccl_synth_ops_t *ops = ccl_synth_find(cli->args.with);
    const ccl_contender_t one = {
        .name = cli->args.with, .schedule = x->document.schedule, .way = ops ? ops->way : NULL};
    ccl_compare_options_t compare = CCL_COMPARE_OPTIONS_INIT;
    ccl_comparison_t *made = NULL;

    compare.contenders = &one;
    compare.ncontenders = 1;
    compare.sizes_bytes = &options->sim.size_bytes;
    compare.nsizes = 1;
    compare.lower = ccl_i_lower_options(&cli->args);
    compare.sim = options->sim;
    compare.no_verify = true; /* it is proven below */
    compare.protocols = true;
    ccl_i_way(&cli->args, &compare.way_bits);
    CCL_TRY(ccl_compare(&cli->ctx, x->topo, x->want, &compare, &made, err));
    if (made->cells[0].status == CCL_OK)
        cli->args.lower.proto = made->cells[0].proto; /* a static name */
    ccl_comparison_destroy(made);
    return CCL_OK;
}

static bool may_choose(const ccl_i_cli_t *cli, const explain_t *x) {
    return cli->args.with && !ccl_i_given(&cli->args, "proto") &&
           (ccl_model_has_protocol(x->topo, "LL") || ccl_model_has_protocol(x->topo, "LL128"));
}

/** Lower, prove. */
static ccl_status_t make_program(ccl_i_cli_t *cli, explain_t *x, ccl_explain_options_t *options,
                                 ccl_error_t *err) {
    const ccl_synth_ops_t *ops = cli->args.with ? ccl_synth_find(cli->args.with) : NULL;
    const ccl_way_t *preset = ops ? ops->way : NULL;
    ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t verdict = {0};
    unsigned bits;
    ccl_way_t way = ccl_i_way(&cli->args, &bits);

    if (x->stock.predictor) { /* proven as it was made */
        options->program = &x->stock.kernel.program;
        options->sim.batches = x->stock.kernel.choice.batches;
        return CCL_OK;
    }
    options->way = ccl_way_choose(preset, way, bits);
    options->sim.granularity = options->way.granularity;
    options->lower = ccl_i_lower_options(&cli->args);
    options->schedule = x->document.schedule;
    CCL_TRY(ccl_i_document_lower(cli, x->topo, preset, options->sim.size_bytes, &x->document, err));
    options->program = x->document.program;
    verify.granularity = options->sim.granularity;
    verify.skip_deadlock = true; /* the simulator's check knows this run's FIFOs */
    CCL_TRY(ccl_program_verify(&cli->ctx, x->document.program, &verify, &verdict, err));
    if (!verdict.valid)
        return ccl_error_set(err, CCL_CHECK, cli->args.with ? NULL : cli->args.inputs.items[0], 0,
                             0, "invalid: %s: %s", verdict.fault.kind, verdict.fault.text);
    return CCL_OK;
}

static ccl_status_t explain(ccl_i_cli_t *cli, explain_t *x, ccl_error_t *err) {
    ccl_explain_options_t options = CCL_EXPLAIN_OPTIONS_INIT;
    ccl_report_explanation_t about = {0};
    ccl_text_t text = {0};
    ccl_status_t status;

    options.sim = ccl_i_sim_options(&cli->args);
    options.no_what_if = cli->args.no_what_if;
    CCL_TRY(ccl_i_cluster_open(cli, cli->args.topology, NULL, &x->machine, &x->topo, err));
    options.machine = x->machine ? x->machine : x->topo;
    CCL_TRY(open_input(cli, x, &options, err));
    if (!(options.sim.size_bytes > 0))
        return ccl_fail(err, CCL_ERR_USAGE, "no size given: --size BYTES, such as --size 64M");
    if (may_choose(cli, x))
        CCL_TRY(choose_protocol(cli, x, &options, err));
    CCL_TRY(make_program(cli, x, &options, err));
    about.topo = x->stock.predictor ? x->stock.kernel.topo : x->topo;
    CCL_TRY(ccl_explain(&cli->ctx, about.topo, &options, &x->explanation, err));
    about.input = cli->args.with ? cli->args.with : cli->args.inputs.items[0];
    if (x->stock.predictor)
        about.input = x->stock.name;
    about.program = options.program;
    about.way = x->document.schedule ? &options.way : NULL;
    about.options = &options.sim;
    about.explanation = x->explanation;
    about.path = cli->args.path;
    status = ccl_report_explanation(&about, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    explain_t x = {0};
    ccl_status_t status = explain(cli, &x, err);

    explain_fini(&x);
    return status;
}

static const char *const accepts[] = {
    "topology",   "fail",       "degrade",     "scale",        "set",     "profile",    "size",
    "with",       "registered", "plugin",      "collective",   "demand",  "root",       "channels",
    "chunks",     "batches",    "granularity", "sharing",      "no-fold", "time-limit", "path",
    "no-what-if", "table",      "rows",        CCL_I_LOWERING, NULL};
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
    .accepts = accepts,
    .tables = ccl_report_explanation_tables,
    .no = "it is wrong, a deadlock, or too long to explain",
    .max_inputs = 1,
    .run = run,
};
