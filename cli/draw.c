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
    ccl_text_t text = {.columns = cli->style.columns};
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

ccl_status_t ccl_i_run_open(ccl_i_cli_t *cli, const char *file, const char *spec,
                            ccl_trace_t *trace, ccl_i_drawn_run_t *out, ccl_error_t *err) {
    ccl_i_subject_t *s = &out->subject;
    char size[32];
    ccl_status_t status = ccl_i_cluster_open(cli, spec, NULL, &out->machine, &out->topo, err);

    if (status == CCL_OK)
        status = ccl_i_subject_open(cli, file, out->machine, out->topo, s, err);
    if (status == CCL_OK)
        status = ccl_i_subject_right(s, err);
    s->sim.trace = trace;
    if (status == CCL_OK)
        status = ccl_sim_program(&cli->ctx, s->topo, NULL, s->program, &s->sim, &out->result, err);
    if (status == CCL_OK)
        snprintf(out->title, sizeof(out->title), "%s, %s of %s", s->name,
                 ccl_collective_kind_name(s->program->coll->kind),
                 ccl_format_bytes(s->sim.size_bytes, size, sizeof(size)));
    return status;
}

void ccl_i_run_fini(ccl_i_drawn_run_t *run) {
    ccl_sim_result_destroy(run->result);
    ccl_i_subject_fini(&run->subject);
    ccl_topology_destroy(run->topo);
    ccl_topology_destroy(run->machine);
    memset(run, 0, sizeof(*run));
}
