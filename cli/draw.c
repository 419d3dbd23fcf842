/* What the commands that draw share: a run to draw, a picture to a file. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_i_picture_format(const ccl_i_cli_t *cli, ccl_draw_format_t *out,
                                  ccl_error_t *err) {
    const char *with_json = cli->args.json ? "json" : cli->args.csv ? "csv" : NULL;

    if (with_json)
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s does not go with a picture", with_json);
    if (!cli->args.output)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "no file for the picture given: -o FILE.svg, FILE.pdf or FILE.png");
    return ccl_draw_format_of(cli->args.output, out, err);
}

bool ccl_i_wants_picture(const ccl_i_args_t *args) {
    ccl_draw_format_t format;

    return args->output && !args->json && !args->csv &&
           ccl_draw_format_of(args->output, &format, NULL) == CCL_OK;
}

ccl_status_t ccl_i_picture_emit(ccl_i_cli_t *cli, const ccl_picture_t *picture, ccl_error_t *err) {
    ccl_draw_format_t format;
    ccl_text_t text = {0};
    ccl_status_t status = ccl_i_picture_format(cli, &format, err);

    if (status == CCL_OK && ccl_i_given(&cli->args, "width") && cli->args.width_px == 0)
        status = ccl_fail(err, CCL_ERR_USAGE, "option --width: must be more than 0");
    if (status == CCL_OK)
        status = ccl_picture_write(picture, format, cli->args.width_px, &text, err);
    if (status == CCL_OK)
        status = ccl_i_emit(cli, &text, err);
    ccl_text_fini(&text);
    return status;
}

/* ---------------------------------------------------------------- a run */

static ccl_status_t verify(ccl_i_cli_t *cli, const char *path, ccl_program_t *program,
                           ccl_error_t *err) {
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t verdict = {0};

    if (cli->args.no_verify)
        return CCL_OK;
    options.granularity = cli->args.sim.granularity;
    options.skip_deadlock = true;
    CCL_TRY(ccl_program_verify(&cli->ctx, program, &options, &verdict, err));
    if (verdict.valid)
        return CCL_OK;
    return ccl_error_set(err, CCL_CHECK, path, 0, 0, "not right: %s (%s; ccllab verify says more)",
                         verdict.fault.text, verdict.fault.kind);
}

ccl_status_t ccl_i_run_open(ccl_i_cli_t *cli, const char *path, const ccl_topology_t *topo,
                            ccl_trace_t *trace, ccl_i_drawn_run_t *out, ccl_error_t *err) {
    ccl_i_document_t document = {NULL, NULL};
    ccl_sim_options_t options = ccl_i_sim_options(&cli->args);
    const ccl_collective_t *coll = NULL;
    const char *form;
    char size[32];
    ccl_status_t status = ccl_i_document_read(path, &document, &form, err);

    memset(out, 0, sizeof(*out));
    if (status == CCL_OK && document.program)
        status = ccl_i_refuse_lowered(&cli->args, path, err);
    if (status == CCL_OK)
        coll = document.program ? document.program->coll : document.schedule->coll;
    if (status == CCL_OK && coll->nranks != topo->nranks)
        status =
            ccl_error_set(err, CCL_ERR_INPUT, path, 0, 0, "a %s for %u ranks, but %s has %u GPUs",
                          form, coll->nranks, topo->name, topo->nranks);
    if (status == CCL_OK && !(options.size_bytes > 0))
        options.size_bytes = coll->natural_bytes; /* a demand has a size */
    if (status == CCL_OK && !(options.size_bytes > 0))
        status = ccl_fail(err, CCL_ERR_USAGE, "no size given: --size BYTES, such as --size 64M");
    if (status == CCL_OK)
        status = ccl_i_document_lower(cli, topo, NULL, options.size_bytes, &document, err);
    if (status == CCL_OK)
        status = verify(cli, path, document.program, err);
    options.trace = trace;
    if (status == CCL_OK)
        status =
            ccl_sim_program(&cli->ctx, topo, NULL, document.program, &options, &out->result, err);
    out->program = document.program;
    out->granularity = options.granularity;
    document.program = NULL;
    if (status == CCL_OK) {
        char title[121];

        ccl_file_title(path, title, sizeof(title));
        snprintf(out->title, sizeof(out->title), "%.120s, %s of %s", title,
                 ccl_collective_kind_name(out->program->coll->kind),
                 ccl_format_bytes(options.size_bytes, size, sizeof(size)));
    }
    ccl_i_document_fini(&document);
    if (status != CCL_OK)
        ccl_i_run_fini(out);
    return status;
}

void ccl_i_run_fini(ccl_i_drawn_run_t *run) {
    ccl_sim_result_destroy(run->result);
    ccl_program_destroy(run->program);
    run->result = NULL;
    run->program = NULL;
}
