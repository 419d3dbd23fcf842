/* How schedules are lowered: the options that lower, simulate, synth and compare share. */
#include "cli/command.h"

ccl_way_t ccl_i_way(const ccl_i_args_t *args, unsigned *bits_out) {
    ccl_way_t way = {args->lower.order, args->lower.allocation, args->sim.granularity};
    bool level = ccl_i_given(args, "granularity");
    bool parts = args->job.hom && !level; /* libraries do whole stages */

    if (parts)
        way.granularity = CCL_GRANULARITY_STAGE;
    *bits_out = (ccl_i_given(args, "order") ? CCL_WAY_ORDER : 0u) |
                (ccl_i_given(args, "allocate") ? CCL_WAY_ALLOCATION : 0u) |
                (level || parts ? CCL_WAY_GRANULARITY : 0u);
    return way;
}

ccl_lower_options_t ccl_i_lower_options(const ccl_i_args_t *args) {
    ccl_lower_options_t options = args->lower;
    unsigned bits;

    options.granularity = ccl_i_way(args, &bits).granularity;
    options.batches = args->sim.batches;
    if (args->job.hom && !ccl_i_given(args, "stages"))
        options.stages = CCL_STAGES_PHASE;
    return options;
}

const char *ccl_i_lowering_given(const ccl_i_args_t *args, bool level) {
    static const char *const names[] = {"order", "allocate", "stages", "executor", "granularity"};

    for (size_t i = 0; i < CCL_ARRAY_LEN(names) - !level; i++)
        if (ccl_i_given(args, names[i]))
            return names[i];
    return NULL;
}

ccl_status_t ccl_i_refuse_lowered(const ccl_i_args_t *args, const char *path, ccl_error_t *err) {
    const char *given = ccl_i_lowering_given(args, false);

    if (!given)
        return CCL_OK;
    return ccl_fail(err, CCL_ERR_USAGE,
                    "%s is a program, which is lowered already: option --%s is for schedules", path,
                    given);
}

ccl_status_t ccl_i_document_lower(ccl_i_cli_t *cli, const ccl_topology_t *topo,
                                  const ccl_way_t *preset, double size_bytes,
                                  ccl_i_document_t *document, ccl_error_t *err) {
    ccl_lower_options_t options = ccl_i_lower_options(&cli->args);
    unsigned bits;
    ccl_way_t way;

    if (document->program) {
        if (ccl_i_given(&cli->args, "proto"))
            document->program->proto = cli->args.lower.proto;
        return CCL_OK;
    }
    way = ccl_i_way(&cli->args, &bits);
    way = ccl_way_choose(preset, way, bits);
    options.asked = bits != 0;
    options.order = way.order;
    options.allocation = way.allocation;
    options.granularity = way.granularity;
    options.topo = topo;
    options.size_bytes = size_bytes;
    return ccl_lower(&cli->ctx, document->schedule, &options, &document->program, err);
}
