/* ccllab run, ccllab devices */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

static const double default_size_bytes = 64.0 * 1024 * 1024;

/** What one run of the command holds; one fini for all. */
typedef struct run {
    ccl_i_document_t document;
    ccl_topology_t *topo;
    ccl_verdict_t verdict;
    ccl_run_options_t options;
    double *sizes;
    ccl_measured_size_t *measured;
    ccl_error_t *errors; /* [2 nsizes]: of the program, then of the library */
    bool both;           /* kernels */
    ccl_run_library_t library;
    uint32_t nsizes;
    ccl_bootstrap_t *bootstrap;
    bool together; /* the last run ended with an agreement of the job's processes */
    const char *input;
    /* `testbed run` */
    const ccl_testbed_t *testbed;
    const ccl_topology_t *emulated;
    const ccl_way_t *preset;
} run_t;

static void run_fini(run_t *r) {
    ccl_bootstrap_close(r->bootstrap, r->together);
    for (uint32_t i = 0; r->measured && i < r->nsizes; i++) {
        ccl_run_result_destroy((ccl_run_result_t *)r->measured[i].result);
        ccl_run_result_destroy((ccl_run_result_t *)r->measured[i].generated);
        ccl_run_result_destroy((ccl_run_result_t *)r->measured[i].library);
    }
    free(r->measured);
    free(r->errors);
    free(r->sizes);
    ccl_i_document_fini(&r->document);
    ccl_topology_destroy(r->topo);
}

ccl_run_protocol_t ccl_i_run_protocol(const ccl_i_args_t *args) {
    ccl_run_protocol_t p = CCL_RUN_OF_PROGRAM;

    if (ccl_i_given(args, "proto"))
        for (p = CCL_RUN_LL128; p > CCL_RUN_SIMPLE; p--)
            if (strcmp(args->lower.proto, ccl_run_protocol_name(p)) == 0)
                break;
    return p;
}

static ccl_status_t options_of(const ccl_i_cli_t *cli, run_t *r, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    static const ccl_type_t types[] = {CCL_TYPE_FP32, CCL_TYPE_INT32, CCL_TYPE_FP16,
                                       CCL_TYPE_BF16}; /* as the option lists them */
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    unsigned bits;

    o.device = args->job.device ? args->job.device : "host";
    o.batches = args->sim.batches;
    o.granularity = ccl_i_way(args, &bits).granularity;
    o.type = types[args->job.type];
    o.op = (ccl_reduction_t)args->job.op;
    o.out_of_place = args->lower.out_of_place;
    o.repeats = args->job.repeats;
    o.warmups = args->job.warmups;
    o.no_check = args->job.no_check;
    o.block_times = args->blocks || (args->table && strcmp(args->table, "thread_blocks") == 0);
    o.protocol = ccl_i_run_protocol(args);
    o.slots = args->slots;
    o.slices = args->job.slices;
    o.slice_bytes = args->job.slice_bytes;
    o.watchdog_s = args->job.watchdog_s;
    o.threads = args->threads;
    o.ranks = (ccl_run_ranks_t)args->job.ranks;
    o.processes = args->job.processes;
    o.transport = (ccl_run_transport_t)args->job.transport;
    o.rdma = args->job.rdma;
    o.world = args->job.world;
    o.rank = args->job.rank;
    o.root = args->job.root;
    o.hom_library = (ccl_run_library_t)args->job.hom;
    o.kernel = args->job.kernel == 1 ? CCL_KERNEL_GENERATED : CCL_KERNEL_INTERPRETER;
    if (!r->testbed) /* which finds its own processes */
        CCL_TRY(ccl_bootstrap_open(&cli->ctx, (ccl_bootstrap_kind_t)args->job.bootstrap, &o,
                                   &r->bootstrap, err));
    r->options = o;
    return CCL_OK;
}

/** A schedule needs no cluster as long as nothing asks what its links are like. */
static ccl_status_t lower(ccl_i_cli_t *cli, run_t *r, ccl_error_t *err) {
    const ccl_i_args_t *args = &cli->args;
    const ccl_topology_t *topo = r->emulated;

    if (r->document.program)
        return ccl_i_refuse_lowered(args, r->input, err);
    if (!topo && args->topology) {
        CCL_TRY(ccl_i_topology_open(cli, args->topology, &r->topo, err));
        CCL_TRY(ccl_i_document_fits(&r->document, r->input, r->topo, err));
        topo = r->topo;
    }
    return ccl_i_document_lower(cli, topo, r->emulated ? r->preset : NULL, r->sizes[r->nsizes - 1],
                                &r->document, err);
}

static ccl_status_t sizes_of(const ccl_i_args_t *args, run_t *r, ccl_error_t *err) {
    const ccl_collective_t *coll =
        r->document.program ? r->document.program->coll : r->document.schedule->coll;
    double natural = coll->natural_bytes > 0 ? coll->natural_bytes : default_size_bytes;

    if (args->sizes && args->size_bytes > 0)
        return ccl_fail(err, CCL_ERR_USAGE, "--size and --sizes exclude each other");
    if (args->sizes)
        return ccl_i_sizes(args->sizes, &r->sizes, &r->nsizes, err);
    r->sizes = malloc(sizeof(*r->sizes));
    if (!r->sizes)
        return ccl_fail_nomem(err);
    r->sizes[0] = args->size_bytes > 0 ? args->size_bytes : natural;
    r->nsizes = 1;
    return CCL_OK;
}

/** Unproven, it must be one that can run. */
static ccl_status_t verify(ccl_i_cli_t *cli, run_t *r, ccl_error_t *err) {
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;

    if (cli->args.no_verify)
        return ccl_program_check(r->document.program, r->options.granularity, &r->verdict, err);
    options.granularity = r->options.granularity;
    options.skip_deadlock = true; /* the run's check knows its FIFOs */
    CCL_TRY(ccl_program_verify(&cli->ctx, r->document.program, &options, &r->verdict, err));
    for (uint32_t i = 0; i < r->verdict.nwarnings && i < CCL_MAX_WARNINGS; i++)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "verify", "%s", r->verdict.warnings[i]);
    return CCL_OK;
}

static ccl_status_t emit_kernel(ccl_i_cli_t *cli, run_t *r, ccl_error_t *err) {
    ccl_text_t text = {0};

    r->options.size_bytes = r->sizes[r->nsizes - 1];
    ccl_status_t status = ccl_run_kernel_text(r->document.program, &r->options, &text, err);
    if (status == CCL_OK)
        status = ccl_file_write(cli->args.job.emit_kernel, text.data, text.len, err);
    ccl_text_fini(&text);
    return status;
}

/** The same with the program's own kernel, for --kernel both. */
static ccl_status_t measure_generated(ccl_i_cli_t *cli, run_t *r, ccl_measured_size_t *m,
                                      ccl_error_t *err) {
    ccl_run_options_t options = r->options;
    ccl_run_result_t *result = NULL;

    options.kernel = CCL_KERNEL_GENERATED;
    ccl_status_t status = ccl_run_program(&cli->ctx, r->document.program, &options, &result, err);
    m->generated = result;
    return status;
}

/** A library is not here, or does not do this: the program goes without it. */
static bool cannot_here(ccl_status_t status) {
    return status == CCL_UNSUPPORTED || status == CCL_ERR_MISSING;
}

/**
 * The same collective by a vendor's library, for --with-ccl. That there is none, or none for this,
 * is said once, and the program goes alone.
 */
static ccl_status_t measure_library(ccl_i_cli_t *cli, run_t *r, uint32_t i, ccl_error_t *err) {
    ccl_run_options_t options = r->options;
    ccl_measured_size_t *m = &r->measured[i];
    ccl_error_t *why = &r->errors[r->nsizes + i];
    ccl_run_result_t *result = NULL;

    options.library = r->library;
    options.hom_library = CCL_LIBRARY_NONE;
    options.block_times = false;
    m->library_status = ccl_run_program(&cli->ctx, r->document.program, &options, &result, why);
    m->library = result;
    if (cannot_here(m->library_status)) {
        if (options.world <= 1 || options.rank == 0)
            ccl_log(&cli->ctx, CCL_LOG_WARN, "run", "%s: the program alone", why->text);
        r->library = CCL_LIBRARY_NONE;
    } else if (m->library_status == CCL_CHECK) {
        m->library_why = why->text;
    } else if (m->library_status != CCL_OK) {
        *err = *why;
        return m->library_status;
    }
    return CCL_OK;
}

/** The program, in its place. Without --hom-ccl where that cannot be, which is said once. */
static ccl_status_t measure_program(ccl_i_cli_t *cli, run_t *r, ccl_run_result_t **out,
                                    ccl_error_t *err) {
    if (r->testbed)
        return ccl_testbed_run(&cli->ctx, r->testbed, r->document.program, &r->options, out, err);
    ccl_status_t status = ccl_run_program(&cli->ctx, r->document.program, &r->options, out, err);
    if (!cannot_here(status) || !r->options.hom_library)
        return status;
    if (r->options.world <= 1 || r->options.rank == 0)
        ccl_log(&cli->ctx, CCL_LOG_WARN, "run", "%s: the program alone", err->text);
    r->options.hom_library = CCL_LIBRARY_NONE;
    *err = (ccl_error_t)CCL_ERROR_INIT;
    return ccl_run_program(&cli->ctx, r->document.program, &r->options, out, err);
}

/** Wrong data and deadlocks are results; anything else ends the command. */
static ccl_status_t measure(ccl_i_cli_t *cli, run_t *r, ccl_error_t *err) {
    r->measured = calloc(r->nsizes, sizeof(*r->measured));
    r->errors = calloc(2 * (size_t)r->nsizes, sizeof(*r->errors));
    if (!r->measured || !r->errors)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < r->nsizes; i++) {
        ccl_measured_size_t *m = &r->measured[i];
        ccl_run_result_t *result = NULL;

        r->options.size_bytes = m->size_bytes = r->sizes[i];
        m->status = measure_program(cli, r, &result, &r->errors[i]);
        m->result = result;
        if (m->status == CCL_OK && r->both)
            m->status = measure_generated(cli, r, m, &r->errors[i]);
        if (m->status == CCL_OK && r->library)
            CCL_TRY(measure_library(cli, r, i, err));
        if (m->status == CCL_OK)
            continue;
        m->why = r->errors[i].text;
        if (m->status != CCL_CHECK && m->status != CCL_DEADLOCK) {
            *err = r->errors[i];
            return m->status;
        }
    }
    r->together = true;
    return CCL_OK;
}

/** @param nsizes  0: the program was refused. */
static ccl_status_t print(ccl_i_cli_t *cli, const run_t *r, uint32_t nsizes, ccl_error_t *err) {
    ccl_report_measurement_t about = {.input = r->input,
                                      .program = r->document.program,
                                      .verdict = cli->args.no_verify && nsizes ? NULL : &r->verdict,
                                      .options = &r->options,
                                      .sizes = r->measured,
                                      .nsizes = nsizes};
    ccl_text_t text = {.columns = cli->style.columns};
    ccl_status_t status = ccl_report_measurement(&about, &cli->style, &text, err);

    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

/** A schedule for the testbed. */
static ccl_status_t synthesize(ccl_i_cli_t *cli, run_t *r, ccl_error_t *err) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_routes_t *routes = ccl_routes_create(r->emulated);
    ccl_status_t status = routes ? CCL_OK : ccl_fail_nomem(err);

    options.channels = cli->args.synth.channels;
    r->preset = ccl_synth_find(r->input)->way;
    if (r->preset && !ccl_i_given(&cli->args, "granularity"))
        r->options.granularity = r->preset->granularity;
    if (status == CCL_OK)
        status = ccl_i_collective_open(&cli->args, cli->args.collective, r->emulated->nranks, &want,
                                       err);
    if (status == CCL_OK)
        status = ccl_synthesize(&cli->ctx, r->input, r->emulated, routes, want, &options,
                                &r->document.schedule, err);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    return status;
}

static ccl_status_t run_steps(ccl_i_cli_t *cli, run_t *r, ccl_error_t *err) {
    const char *form;

    CCL_TRY(options_of(cli, r, err));
    if (r->testbed)
        r->options.transport = CCL_RUN_TCP;
    if (r->emulated && ccl_synth_find(r->input))
        CCL_TRY(synthesize(cli, r, err));
    else
        CCL_TRY(ccl_i_document_read(r->input, &r->document, &form, err));
    CCL_TRY(sizes_of(&cli->args, r, err));
    CCL_TRY(lower(cli, r, err));
    CCL_TRY(verify(cli, r, err));
    bool refused = !r->verdict.valid;
    r->both = cli->args.job.kernel == 2;
    r->library = (ccl_run_library_t)cli->args.job.library;
    if (!refused && cli->args.job.emit_kernel)
        CCL_TRY(emit_kernel(cli, r, err));
    if (!refused)
        CCL_TRY(measure(cli, r, err));
    if (r->options.world <= 1 || r->options.rank == 0) /* process 0 speaks for the job */
        CCL_TRY(print(cli, r, refused ? 0 : r->nsizes, err));
    if (refused)
        return CCL_CHECK;
    for (uint32_t i = 0; i < r->nsizes; i++) { /* the result says why */
        if (r->measured[i].status != CCL_OK)
            return r->measured[i].status;
        if (r->measured[i].library_why)
            return r->measured[i].library_status;
    }
    return CCL_OK;
}

static ccl_status_t run(ccl_i_cli_t *cli, ccl_error_t *err) {
    run_t r;
    ccl_status_t status;

    memset(&r, 0, sizeof(r));
    r.input = cli->args.inputs.items[0];
    status = run_steps(cli, &r, err);
    run_fini(&r);
    return status;
}

ccl_status_t ccl_i_run_in(ccl_i_cli_t *cli, const ccl_testbed_t *testbed,
                          const ccl_topology_t *emulated, const char *what, ccl_error_t *err) {
    run_t r;
    ccl_status_t status;

    memset(&r, 0, sizeof(r));
    r.input = what;
    r.testbed = testbed;
    r.emulated = emulated;
    status = run_steps(cli, &r, err);
    run_fini(&r);
    return status;
}

static const char *const accepts[] = {
    "size",         "sizes",     "type",        "op",        "repeats",     "warmups",  "device",
    "ranks@run",    "processes", "transport",   "rdma",      "bootstrap",   "world",    "rank@job",
    "rendezvous",   "batches",   "granularity", "slots@run", "slice",       "slices",   "watchdog",
    "no-check",     "no-verify", "blocks@run",  "table",     "topology",    "fail",     "degrade",
    "scale",        "set",       "plugin",      "kernel",    "emit-kernel", "with-ccl", "hom-ccl",
    CCL_I_LOWERING, NULL};
const ccl_i_command_t ccl_i_cmd_run = {
    .name = "run",
    .usage = "FILE [options]",
    .summary = "run a program on a device, check every item of the result, and time it",
    .details =
        "FILE is a program (MSCCL XML) or a schedule (our JSON, ResCCLang), which is lowered\n"
        "first. Every run fills the inputs again, poisons all else, and compares every output\n"
        "with what the collective defines; wrong data are reported with rank, offset, expected\n"
        "and got, a hung run with who waits for whom; both exit with 1. docs/runtime.md says\n"
        "what the times mean. --proto takes another protocol than the program names. --csv\n"
        "prints one table: --table sizes (default) or thread_blocks. --kernel both runs every\n"
        "size twice, interpreted and with a kernel written for the program, and compares them;\n"
        "--with-ccl auto runs the collective by NCCL or RCCL too, on the same buffers and with\n"
        "the same check. --hom-ccl auto leaves what clusters of one vendor do before and behind\n"
        "the border to NCCL and RCCL.\n",
    .examples = "ccllab run ring.xml --size 1M\n"
                "ccllab run ring.xml --sizes 1K:64M:4 --device cuda --kernel both\n",
    .accepts = accepts,
    .min_inputs = 1,
    .max_inputs = 1,
    .tables = ccl_report_measurement_tables,
    .no = "it or its data are wrong, it cannot finish, or the device cannot run it",
    .run = run,
};

/* ---------------------------------------------------------------- devices */

static ccl_status_t devices(ccl_i_cli_t *cli, ccl_error_t *err) {
    ccl_device_info_t *list = NULL;
    ccl_text_t text = {.columns = cli->style.columns};
    uint32_t n = 0;

    CCL_TRY(ccl_devices_list(&list, &n, err));
    ccl_status_t status = ccl_report_devices(list, n, &cli->style, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    free(list);
    return status;
}

static const char *const no_options[] = {NULL};
const ccl_i_command_t ccl_i_cmd_devices = {
    .name = "devices",
    .usage = "[options]",
    .summary = "what programs can run on here",
    .details =
        "The host's cores, and the GPUs whose module and driver are here; of the others, why\n"
        "they are not.\n",
    .examples = "ccllab devices\n"
                "ccllab devices --json\n",
    .accepts = no_options,
    .max_inputs = 0,
    .run = devices,
};
