/* Synthesize, lower, prove, run: each step in the order that callers rely on. */
#include "make/make.h"

#include <stdlib.h>
#include <string.h>

ccl_status_t ccl_make_proven(const ccl_ctx_t *ctx, const ccl_program_t *program,
                             ccl_granularity_t granularity, ccl_executor_t executor,
                             ccl_status_t wrong, ccl_error_t *err) {
    ccl_verify_options_t verify = CCL_VERIFY_OPTIONS_INIT;
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    if (!verdict)
        return ccl_fail_nomem(err);
    verify.granularity = granularity;
    verify.executor = executor;
    verify.skip_deadlock = true;
    ccl_status_t status = ccl_program_verify(ctx, program, &verify, verdict, err);
    if (status == CCL_OK && !verdict->valid)
        status = ccl_fail(err, wrong ? wrong : CCL_ERR_INTERNAL, "the program is wrong: %s",
                          verdict->fault.text);
    free(verdict);
    return status;
}

ccl_status_t ccl_make_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              ccl_routes_t *routes, const ccl_schedule_t *schedule,
                              const ccl_make_options_t *options, ccl_program_t **out,
                              ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_make_options_t, options, err);
    const ccl_make_options_t defaults = CCL_MAKE_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    options = options ? options : &defaults;
    ccl_lower_options_t lower = options->lower.size ? options->lower : defaults.lower;
    lower.order = options->way.order;
    lower.allocation = options->way.allocation;
    lower.granularity = options->way.granularity;
    lower.topo = topo;
    lower.routes = routes;
    lower.size_bytes = options->size_bytes;
    lower.batches = options->batches;
    CCL_TRY(ccl_lower(ctx, schedule, &lower, &program, err));
    ccl_status_t status = CCL_OK;
    if (!options->no_prove)
        status =
            ccl_make_proven(ctx, program, lower.granularity, lower.executor, options->wrong, err);
    if (status != CCL_OK) {
        ccl_program_destroy(program);
        if (lower.run_out) {
            ccl_sim_result_destroy(*lower.run_out);
            *lower.run_out = NULL;
        }
        return status;
    }
    *out = program;
    return CCL_OK;
}

void ccl_made_fini(ccl_made_t *made) {
    ccl_schedule_destroy(made->schedule);
    ccl_program_destroy(made->program);
    ccl_sim_result_destroy(made->run);
    memset(made, 0, sizeof *made);
}

ccl_status_t ccl_make(const ccl_ctx_t *ctx, const char *name, const ccl_topology_t *topo,
                      ccl_routes_t *routes, const ccl_collective_t *want,
                      const ccl_synth_options_t *synth, const ccl_lower_options_t *lower, bool run,
                      ccl_made_t *out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_synth_options_t, synth, err);
    CCL_OPTIONS_TRY(ccl_lower_options_t, lower, err);
    ccl_synth_options_t how = CCL_SYNTH_OPTIONS_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(name);
    ccl_make_options_t options = CCL_MAKE_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_routes_t *own_routes = NULL;
    ccl_ctx_t inner = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ccl_runs_t *runs = inner.runs ? NULL : ccl_runs_create(topo); /* NULL: it takes longer */
    ccl_made_t made = {0};
    inner.runs = inner.runs ? inner.runs : runs;
    ctx = &inner;
    how = synth ? *synth : how;
    how.plain |= lower && lower->executor != CCL_EXECUTOR_ANY;
    how.no_switches |= lower && !ccl_protocol_switches(lower->proto);
    synth = &how;
    options.lower = lower ? *lower : options.lower;
    options.size_bytes = sim.size_bytes = synth->size_bytes;
    options.way = made.way = ccl_way_choose(ops ? ops->way : NULL, (ccl_way_t){0}, 0);
    sim.granularity = made.way.granularity;
    if (!routes)
        routes = own_routes = ccl_routes_create(topo);
    ccl_status_t status = routes ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_synthesize(ctx, name, topo, routes, want, synth, &made.schedule, err);
    if (status == CCL_OK)
        status = ccl_make_program(ctx, topo, routes, made.schedule, &options, &made.program, err);
    if (status == CCL_OK && run)
        status = ccl_sim_program(ctx, topo, routes, made.program, &sim, &made.run, err);
    if (status == CCL_OK) {
        *out = made;
        made = (ccl_made_t){0};
    }
    ccl_made_fini(&made);
    ccl_runs_destroy(runs);
    ccl_routes_destroy(own_routes);
    return status;
}
