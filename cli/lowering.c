/* How schedules are lowered: the options that lower, simulate, synth and compare share. */
#include "cli/command.h"
#include "make/make.h"

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
    ccl_make_options_t options = CCL_MAKE_OPTIONS_INIT;
    unsigned bits;

    if (document->program) {
        if (ccl_i_given(&cli->args, "proto"))
            document->program->proto = cli->args.lower.proto;
        return CCL_OK;
    }
    options.way = ccl_i_way(&cli->args, &bits);
    options.way = ccl_way_choose(preset, options.way, bits);
    options.lower = ccl_i_lower_options(&cli->args);
    options.lower.asked = bits != 0;
    options.size_bytes = size_bytes;
    options.batches = cli->args.sim.batches;
    options.no_prove = true; /* commands say themselves what they prove, and how */
    return ccl_make_program(&cli->ctx, topo, NULL, document->schedule, &options, &document->program,
                            err);
}

ccl_status_t ccl_i_document_fits(const ccl_i_document_t *document, const char *path,
                                 const ccl_topology_t *topo, ccl_error_t *err) {
    const ccl_collective_t *coll =
        document->program ? document->program->coll : document->schedule->coll;

    if (coll->nranks == topo->nranks)
        return CCL_OK;
    return ccl_error_set(err, CCL_ERR_INPUT, path, 0, 0, "a %s for %u ranks, but %s has %u GPUs",
                         document->program ? "program" : "schedule", coll->nranks, topo->name,
                         topo->nranks);
}
