/* How schedules are lowered: the options that lower, simulate, synth and compare share. */
#include "cli/command.h"

ccl_way_t ccl_i_way(const ccl_i_args_t *args, unsigned *bits_out) {
    ccl_way_t way = {(ccl_order_t)ccl_i_choice(&args->order),
                     (ccl_allocation_t)ccl_i_choice(&args->allocation),
                     (ccl_granularity_t)ccl_i_choice(&args->granularity)};

    bool parts = args->job.hom && !args->granularity.n; /* libraries do whole stages */

    if (parts)
        way.granularity = CCL_GRANULARITY_STAGE;
    *bits_out = (args->order.n ? CCL_WAY_ORDER : 0u) |
                (args->allocation.n ? CCL_WAY_ALLOCATION : 0u) |
                (args->granularity.n || parts ? CCL_WAY_GRANULARITY : 0u);
    return way;
}

ccl_status_t ccl_i_lower_options(const ccl_i_args_t *args, ccl_lower_options_t *out,
                                 ccl_error_t *err) {
    ccl_lower_options_t options = CCL_LOWER_OPTIONS_INIT;
    unsigned bits;
    ccl_way_t way = ccl_i_way(args, &bits);

    CCL_TRY(ccl_i_proto(args->proto, &options.proto, err));
    options.no_fuse = args->no_fuse;
    options.out_of_place = args->out_of_place;
    options.order = way.order;
    options.allocation = way.allocation;
    options.granularity = way.granularity;
    options.stages = args->job.hom && !args->stages.n ? CCL_STAGES_PHASE
                                                      : (ccl_stages_t)ccl_i_choice(&args->stages);
    options.executor = (ccl_executor_t)ccl_i_choice(&args->executor);
    options.batches = args->batches;
    *out = options;
    return CCL_OK;
}

const char *ccl_i_lowering_given(const ccl_i_args_t *args, bool level) {
    return args->order.n                  ? "order"
           : args->allocation.n           ? "allocate"
           : args->stages.n               ? "stages"
           : args->executor.n             ? "executor"
           : level && args->granularity.n ? "granularity"
                                          : NULL;
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
    ccl_lower_options_t options;
    unsigned bits;
    ccl_way_t way;

    if (document->program)
        return CCL_OK;
    CCL_TRY(ccl_i_lower_options(&cli->args, &options, err));
    way = ccl_i_way(&cli->args, &bits);
    way = ccl_way_choose(preset, way, bits);
    options.order = way.order;
    options.allocation = way.allocation;
    options.granularity = way.granularity;
    options.topo = topo;
    options.size_bytes = size_bytes;
    return ccl_lower(&cli->ctx, document->schedule, &options, &document->program, err);
}
