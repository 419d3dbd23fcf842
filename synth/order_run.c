/*
 * Ordering for a run. Which of HPDS's two ways is better depends on how links are shared over time,
 * which no short estimate tells well; so both are lowered and simulated, unless that would take
 * long.
 */
#include "synth/lower.h"
#include "synth/order.h"

#include <math.h>

/* Sends over all micro-batches up to which both ways are simulated: about a second. */
static const double most_sends = 200000;

/* Simulated time; INFINITY when it cannot run like this (another allocation may). */
static ccl_status_t run_time(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                             const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                             double size_bytes, double *time_s_out, ccl_error_t *err) {
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_sim_options_t run = CCL_SIM_OPTIONS_INIT;
    run.granularity = how->task ? CCL_GRANULARITY_TASK : CCL_GRANULARITY_ALGORITHM;
    run.size_bytes = size_bytes;
    run.batches = options->batches;
    CCL_TRY(ccl_i_lower_program(ctx, schedule, how, &program, err));
    ccl_status_t status =
        ccl_sim_program(ctx, options->topo, options->routes, program, &run, &result, NULL);
    *time_s_out = status == CCL_OK ? result->time_s : INFINITY;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    if (status != CCL_OK && status != CCL_DEADLOCK && status != CCL_ERR_INPUT)
        return status == CCL_ERR_NOMEM ? ccl_fail_nomem(err)
                                       : ccl_fail(err, status, "%s", ccl_status_meaning(status));
    return CCL_OK;
}

static void add_stats(ccl_lower_stats_t *stats, const ccl_lower_stats_t *more) {
    stats->analyse_s += more->analyse_s;
    stats->order_s += more->order_s;
    stats->pipelines = more->pipelines;
}

static ccl_status_t order_way(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                              const ccl_lower_options_t *options, ccl_i_flow_t flow, double batches,
                              ccl_schedule_t **out, ccl_lower_stats_t *stats, ccl_error_t *err) {
    ccl_lower_stats_t one = {0};
    CCL_TRY(ccl_i_schedule_order(ctx, schedule, options->topo, options->routes, options->order,
                                 flow, batches < UINT32_MAX ? (uint32_t)batches : UINT32_MAX, out,
                                 NULL, &one, err));
    add_stats(stats, &one);
    return CCL_OK;
}

ccl_status_t ccl_i_lower_order(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                               const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                               ccl_schedule_t **out, ccl_lower_stats_t *stats, ccl_error_t *err) {
    ccl_schedule_t *ways[2] = {NULL, NULL};
    double time_s[2] = {0, 0}, bytes, batches = options->batches;
    double size_bytes = options->size_bytes > 0 ? options->size_bytes : 256.0 * (1 << 20);
    uint32_t pipelines;
    ccl_status_t status = CCL_OK;
    if (!options->batches)
        batches = ccl_i_likely_batches(schedule, options->topo, how->proto, size_bytes, &bytes);
    if (options->order != CCL_ORDER_HPDS || batches * schedule->ntransfers > most_sends)
        return order_way(ctx, schedule, options, CCL_I_FLOW_BY_PACE, batches, out, stats, err);
    CCL_TRY_GOTO(order_way(ctx, schedule, options, CCL_I_FLOW_YES, batches, &ways[0], stats, err),
                 status, end);
    pipelines = stats->pipelines;
    CCL_TRY_GOTO(order_way(ctx, schedule, options, CCL_I_FLOW_NO, batches, &ways[1], stats, err),
                 status, end);
    bool same = ccl_schedule_equal(ways[0], ways[1]);
    for (unsigned i = 0; i < 2 && !same; i++)
        CCL_TRY_GOTO(run_time(ctx, ways[i], options, how, size_bytes, &time_s[i], err), status,
                     end);
    unsigned best = time_s[1] < time_s[0] * (1 - 1e-9);
    stats->pipelines = best == 0 ? pipelines : stats->pipelines;
    *out = ways[best];
    ways[best] = NULL;
end:
    ccl_schedule_destroy(ways[0]);
    ccl_schedule_destroy(ways[1]);
    return status;
}
