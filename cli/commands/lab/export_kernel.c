/* ccllab export --cuda, --hip: a program as one stand-alone source */
#include "cli/command.h"

#include <string.h>

static const double lowered_bytes = 64.0 * 1024 * 1024;

/** What one run of the command holds. */
typedef struct kernel {
    ccl_i_document_t document;
    ccl_topology_t *topo; /* NULL: not given */
    ccl_verdict_t verdict;
    ccl_standalone_options_t options;
} kernel_t;

/** Exactly one file, of a kind that the flavour has. */
static ccl_status_t options_of(const ccl_i_args_t *args, kernel_t *k, ccl_error_t *err) {
    ccl_standalone_options_t o = CCL_STANDALONE_OPTIONS_INIT;
    unsigned bits;

    if (!args->kernel.cuda == !args->kernel.hip)
        return ccl_fail(err, CCL_ERR_USAGE, "either --cuda FILE or --hip FILE says what to write");
    if (args->kernel.hip && args->kernel.api == 1)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "--api nccl is for --cuda: RCCL's device API is an experiment");
    o.what = args->kernel.hip   ? CCL_STANDALONE_HIP
             : args->kernel.api ? CCL_STANDALONE_NCCL
                                : CCL_STANDALONE_CUDA;
    o.granularity = ccl_i_way(args, &bits).granularity;
    o.protocol = ccl_i_run_protocol(args);
    o.out_of_place = args->lower.out_of_place;
    o.slots = args->slots;
    if (args->job.slice_bytes > (1u << 24))
        return ccl_fail(err, CCL_ERR_USAGE, "--slice: slices have at most 16M");
    o.slice_bytes = (uint32_t)args->job.slice_bytes;
    k->options = o;
    return CCL_OK;
}

/** GPUs of the cluster that have the fewest multiprocessors say how many blocks there may be. */
static ccl_status_t open_cluster(ccl_i_cli_t *cli, kernel_t *k, ccl_error_t *err) {
    if (!cli->args.topology)
        return CCL_OK;
    CCL_TRY(ccl_i_topology_open(cli, cli->args.topology, &k->topo, err));
    for (uint32_t r = 0; r < k->topo->nranks; r++) {
        uint32_t sms = ccl_model_gpu(k->topo, r).sms;
        if (sms && (!k->options.max_blocks || sms < k->options.max_blocks))
            k->options.max_blocks = sms;
    }
    return CCL_OK;
}

static ccl_status_t open_program(ccl_i_cli_t *cli, kernel_t *k, ccl_error_t *err) {
    const char *input = cli->args.inputs.items[0], *form;
    double size_bytes = cli->args.size_bytes > 0 ? cli->args.size_bytes : lowered_bytes;

    CCL_TRY(ccl_i_document_read(input, &k->document, &form, err));
    if (k->document.program)
        return ccl_i_refuse_lowered(&cli->args, input, err);
    if (k->topo)
        CCL_TRY(ccl_i_document_fits(&k->document, input, k->topo, err));
    return ccl_i_document_lower(cli, k->topo, NULL, size_bytes, &k->document, err);
}

static ccl_status_t prove(ccl_i_cli_t *cli, kernel_t *k, ccl_error_t *err) {
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;

    options.granularity = k->options.granularity;
    options.skip_deadlock = true; /* the writer knows slots and slices */
    CCL_TRY(ccl_program_verify(&cli->ctx, k->document.program, &options, &k->verdict, err));
    if (!k->verdict.valid)
        return ccl_error_set(err, CCL_CHECK, cli->args.inputs.items[0], 0, 0, "%s",
                             k->verdict.fault.text);
    return CCL_OK;
}

static ccl_status_t write_kernel(ccl_i_cli_t *cli, kernel_t *k, ccl_error_t *err) {
    const char *to = cli->args.kernel.cuda ? cli->args.kernel.cuda : cli->args.kernel.hip;
    ccl_text_t text = {0};

    CCL_TRY(options_of(&cli->args, k, err));
    CCL_TRY(open_cluster(cli, k, err));
    CCL_TRY(open_program(cli, k, err));
    CCL_TRY(prove(cli, k, err));
    ccl_status_t status = ccl_standalone_write(k->document.program, &k->options, &text, err);
    if (status != CCL_OK && err && !err->where[0])
        snprintf(err->where, sizeof(err->where), "%s", cli->args.inputs.items[0]);
    if (status == CCL_OK)
        status = ccl_file_write(to, text.data, text.len, err);
    ccl_text_fini(&text);
    return status;
}

ccl_status_t ccl_i_export_kernel(ccl_i_cli_t *cli, ccl_error_t *err) {
    kernel_t k;
    ccl_status_t status;

    memset(&k, 0, sizeof(k));
    status = write_kernel(cli, &k, err);
    ccl_i_document_fini(&k.document);
    ccl_topology_destroy(k.topo);
    return status;
}
