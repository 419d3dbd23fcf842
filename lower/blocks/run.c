/* Runs of programs that lowering makes, as its options describe them. */
#include "lower/lower_i.h"

static ccl_sim_options_t run_options(const ccl_lower_options_t *options, bool timeline,
                                     double give_up_s) {
    ccl_sim_options_t run = CCL_SIM_OPTIONS_INIT;
    run.size_bytes = options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES;
    run.batches = options->batches;
    run.granularity = options->granularity;
    run.step_times = timeline && !options->rough; /* rough: nothing is merged */
    run.give_up_s = give_up_s;
    run.estimate = timeline;
    return run;
}

ccl_status_t ccl_i_lower_simulate(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                                  const ccl_program_t *p, bool timeline, double give_up_s,
                                  ccl_sim_result_t **out, ccl_error_t *err) {
    ccl_sim_options_t run = run_options(options, timeline, give_up_s);
    return ccl_sim_program(ctx, options->topo, options->routes, p, &run, out, err);
}

ccl_status_t ccl_i_lower_time(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                              ccl_timed_program_t *timed, double give_up_s, ccl_error_t *err) {
    ccl_sim_options_t run = run_options(options, true, give_up_s);
    double time_s;
    if (run.step_times && ccl_sim_known(ctx, options->topo, timed->program, &run, &time_s))
        run.step_times = false;
    return ccl_sim_program(ctx, options->topo, options->routes, timed->program, &run, &timed->run,
                           err);
}

ccl_status_t ccl_lower_run(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                           ccl_timed_program_t *timed, double give_up_s, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_lower_options_t, options, err);
    return ccl_i_lower_simulate(ctx, options, timed->program, true, give_up_s, &timed->run, err);
}

void ccl_timed_program_fini(ccl_timed_program_t *timed) {
    ccl_program_destroy(timed->program);
    ccl_sim_result_destroy(timed->run);
    *timed = (ccl_timed_program_t){NULL, NULL};
}
