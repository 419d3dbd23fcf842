/* The run that a command is about: a program or schedule file, or what --with makes of a collective
   (stock NCCL or RCCL, or a synthesizer). */
#include "cli/command.h"

#include <string.h>

/* ---------------------------------------------------------------- stock NCCL */

static ccl_status_t from_stock(ccl_i_cli_t *cli, const ccl_topology_t *machine, ccl_i_subject_t *s,
                               ccl_error_t *err) {
    const char *given = ccl_i_lowering_given(&cli->args, true), *name;
    char choice[64], step[32], buffer[32];

    if (!given && ccl_i_given(&cli->args, "proto"))
        given = "proto";
    if (given)
        return ccl_fail(err, CCL_ERR_USAGE, "--%s is for schedules; %s runs programs of its own",
                        given, cli->args.with);
    CCL_TRY(ccl_nccl_library(s->topo, &name, err));
    CCL_TRY(ccl_nccl_open(&cli->ctx, machine, s->topo, s->want, &s->predictor, err));
    ccl_predictor_nvls(s->predictor, true, cli->args.registered);
    CCL_TRY(ccl_predictor_kernel(s->predictor, s->want->kind, s->want->root, s->sim.size_bytes,
                                 NULL, &s->kernel, err));
    ccl_nccl_choice_text(&s->kernel.choice, choice, sizeof(choice));
    snprintf(s->name, sizeof(s->name), "%s", name);
    snprintf(s->title, sizeof(s->title), "%s (%s, steps of %s, buffers of %s)", name, choice,
             ccl_format_bytes(s->kernel.step_bytes, step, sizeof(step)),
             ccl_format_bytes(s->kernel.buffer_bytes, buffer, sizeof(buffer)));
    s->topo = s->kernel.topo;
    s->program = &s->kernel.program;
    s->sim.batches = s->kernel.choice.batches;
    s->verdict.valid = true; /* proven as it was made */
    return CCL_OK;
}

/* ---------------------------------------------------------------- a synthesizer's */

static ccl_status_t synthesize(ccl_i_cli_t *cli, ccl_i_subject_t *s, ccl_error_t *err) {
    ccl_status_t status;

    CCL_TRY(ccl_i_synth_options(&cli->args, &s->files, &s->synth, err));
    s->synth.size_bytes = s->sim.size_bytes;
    status = ccl_synthesize(&cli->ctx, cli->args.with, s->topo, NULL, s->want, &s->synth,
                            &s->document.schedule, err);
    if (!s->document.schedule || (status != CCL_OK && status != CCL_TIMEOUT))
        return status;
    if (status == CCL_TIMEOUT || s->document.schedule->limited)
        ccl_i_say("warning", "limit reached, the best schedule so far is taken");
    ccl_error_clear(err);
    return CCL_OK;
}

/** The protocol that `compare` takes for what --with made, at this size. @param for_it  it is
    lowered for that; else as for Simple. */
static ccl_status_t choose_protocol(ccl_i_cli_t *cli, const ccl_i_subject_t *s,
                                    const ccl_way_t *preset, const char **proto, bool *for_it,
                                    ccl_error_t *err) {
    const ccl_contender_t one = {
        .name = cli->args.with, .schedule = s->document.schedule, .way = preset};
    ccl_compare_options_t compare = CCL_COMPARE_OPTIONS_INIT;
    ccl_comparison_t *made = NULL;

    compare.contenders = &one;
    compare.ncontenders = 1;
    compare.sizes_bytes = &s->sim.size_bytes;
    compare.nsizes = 1;
    compare.lower = ccl_i_lower_options(&cli->args);
    compare.sim = s->sim;
    compare.no_verify = true; /* it is proven below */
    compare.protocols = true;
    ccl_i_way(&cli->args, &compare.way_bits);
    ccl_status_t status = ccl_compare(&cli->ctx, s->topo, s->want, &compare, &made, err);
    if (status == CCL_OK && made->cells[0].status == CCL_OK) {
        *proto = made->cells[0].proto; /* a static name */
        *for_it = made->cells[0].for_protocol;
    }
    ccl_comparison_destroy(made);
    return status;
}

/* ---------------------------------------------------------------- both */

/** An option that is of --with alone is refused beside a file. */
static ccl_status_t refuse_beside_file(const ccl_i_args_t *args, ccl_error_t *err) {
    static const char *const names[] = {"collective", "demand", "root",       "channels",
                                        "chunks",     "plugin", "registered", "time-limit"};

    for (size_t i = 0; i < CCL_ARRAY_LEN(names); i++)
        if (ccl_i_given(args, names[i]))
            return ccl_fail(err, CCL_ERR_USAGE,
                            "--%s goes with --with NAME; a file says itself what it is", names[i]);
    return CCL_OK;
}

static ccl_status_t read_file(ccl_i_cli_t *cli, ccl_i_subject_t *s, ccl_error_t *err) {
    const ccl_collective_t *coll;
    const char *form;

    CCL_TRY(refuse_beside_file(&cli->args, err));
    CCL_TRY(ccl_i_document_read(s->input, &s->document, &form, err));
    if (s->document.program)
        CCL_TRY(ccl_i_refuse_lowered(&cli->args, s->input, err));
    coll = s->document.program ? s->document.program->coll : s->document.schedule->coll;
    CCL_TRY(ccl_i_document_fits(&s->document, s->input, s->topo, err));
    ccl_file_title(s->input, s->name, sizeof(s->name));
    snprintf(s->title, sizeof(s->title), "%s", s->input);
    if (!(s->sim.size_bytes > 0))
        s->sim.size_bytes = coll->natural_bytes; /* a demand has a size */
    return CCL_OK;
}

static ccl_status_t lower_and_prove(ccl_i_cli_t *cli, ccl_i_subject_t *s, ccl_error_t *err) {
    const ccl_synth_ops_t *ops = s->input ? NULL : ccl_synth_find(cli->args.with);
    const ccl_way_t *preset = ops ? ops->way : NULL;
    ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
    bool protocols =
        ccl_model_has_protocol(s->topo, "LL") || ccl_model_has_protocol(s->topo, "LL128");
    const char *proto = NULL;
    bool for_it = false;
    unsigned bits;
    ccl_way_t way = ccl_i_way(&cli->args, &bits);

    if (s->document.schedule) {
        s->way = ccl_way_choose(preset, way, bits);
        s->lowered = true;
        s->sim.granularity = s->way.granularity;
    }
    if (!s->input && protocols && !ccl_i_given(&cli->args, "proto"))
        CCL_TRY(choose_protocol(cli, s, preset, &proto, &for_it, err));
    if (for_it)
        cli->args.lower.proto = proto;
    CCL_TRY(ccl_i_document_lower(cli, s->topo, preset, s->sim.size_bytes, &s->document, err));
    if (proto)
        s->document.program->proto = cli->args.lower.proto = proto;
    s->program = s->document.program;
    s->verdict.valid = true;
    s->proven = !cli->args.no_verify;
    if (!s->proven)
        return CCL_OK;
    verify.granularity = s->sim.granularity;
    verify.skip_deadlock = true; /* the simulator's check knows this run's FIFOs */
    return ccl_program_verify(&cli->ctx, s->program, &verify, &s->verdict, err);
}

ccl_status_t ccl_i_subject_open(ccl_i_cli_t *cli, const char *file, const ccl_topology_t *machine,
                                const ccl_topology_t *topo, ccl_i_subject_t *s, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    bool stock = !file && ccl_nccl_stock(args->with);

    if ((file != NULL) == (args->with != NULL))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "wanted: one program or schedule file, or --collective NAME --with NAME");
    s->input = file;
    s->topo = topo;
    s->sim = ccl_i_sim_options(args);
    if (file) {
        CCL_TRY(read_file(cli, s, err));
    } else {
        CCL_TRY(ccl_i_collective_open(args, args->collective, topo->nranks, &s->want, err));
        if (!(s->sim.size_bytes > 0))
            s->sim.size_bytes = s->want->natural_bytes;
    }
    if (!(s->sim.size_bytes > 0))
        return ccl_fail(err, CCL_ERR_USAGE, "no size given: --size BYTES, such as --size 64M");
    if (stock)
        return from_stock(cli, machine, s, err);
    if (!file) {
        snprintf(s->name, sizeof(s->name), "%s", args->with);
        snprintf(s->title, sizeof(s->title), "%s", args->with);
        CCL_TRY(synthesize(cli, s, err));
    }
    return lower_and_prove(cli, s, err);
}

ccl_status_t ccl_i_subject_right(const ccl_i_subject_t *s, ccl_error_t *err) {
    if (s->verdict.valid)
        return CCL_OK;
    return ccl_error_set(err, CCL_CHECK, s->title, 0, 0,
                         "invalid: %s: %s (ccllab verify says more)", s->verdict.fault.kind,
                         s->verdict.fault.text);
}

void ccl_i_subject_fini(ccl_i_subject_t *s) {
    ccl_i_document_fini(&s->document);
    ccl_collective_destroy(s->want);
    ccl_predictor_destroy(s->predictor);
    ccl_i_synth_files_fini(&s->files);
    memset(s, 0, sizeof(*s));
}
