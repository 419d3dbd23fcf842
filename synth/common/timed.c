/* What a schedule takes. */
#include "synth/common/plan.h"

#include <limits.h>
#include <math.h>

/* Of a run's cost: lowering a transfer, an event, a new rate, in plain transfers. */
#define PER_TRANSFER 0.4
#define PER_EVENT 0.08
#define PER_RATE 0.15

ccl_status_t ccl_i_time_proto(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              ccl_routes_t *routes, const ccl_schedule_t *schedule,
                              const char *proto, ccl_i_timing_t *timing, ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    if (proto)
        lower.proto = proto;
    lower.topo = topo;
    lower.routes = routes;
    lower.size_bytes = sim.size_bytes = timing->size_bytes;
    lower.order = timing->way.order;
    lower.allocation = timing->way.allocation;
    lower.granularity = sim.granularity = timing->way.granularity;
    sim.give_up_s = timing->give_up_s;
    sim.estimate = true;
    ccl_status_t status = ccl_lower(ctx, schedule, &lower, &program, &why);
    if (status == CCL_OK)
        status = ccl_sim_program(ctx, topo, routes, program, &sim, &result, &why);
    timing->time_s = status == CCL_OK ? result->time_s : INFINITY;
    timing->gave_up = status == CCL_OK && !(result->time_s < INFINITY);
    timing->unfit = status == CCL_UNSUPPORTED || status == CCL_DEADLOCK;
    timing->work = PER_TRANSFER * (double)schedule->ntransfers;
    if (result)
        timing->work +=
            PER_EVENT * (double)result->events + PER_RATE * (double)result->rate_changes;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    if (timing->unfit)
        return CCL_OK;
    if (status != CCL_OK && err)
        *err = why;
    return status;
}

ccl_status_t ccl_i_time_schedule(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 ccl_routes_t *routes, const ccl_schedule_t *schedule,
                                 ccl_i_timing_t *timing, ccl_error_t *err) {
    return ccl_i_time_proto(ctx, topo, routes, schedule, NULL, timing, err);
}

ccl_status_t ccl_i_time_each(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_schedule_t *schedule, ccl_i_timing_t *timing,
                             double *times_out, ccl_error_t *err) {
    const double give_up_s = timing->give_up_s;
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; i < CCL_PROTOCOLS && status == CCL_OK; i++) {
        ccl_protocol_t k = ccl_protocol_turn(i);
        const char *proto = ccl_protocol_name(k);
        times_out[k] = INFINITY;
        if (!(timing->protocols >> k & 1) || (k > 0 && !ccl_model_has_protocol(topo, proto)))
            continue;
        status = ccl_i_time_proto(ctx, topo, routes, schedule, proto, timing, err);
        times_out[k] = timing->time_s;
        if (timing->time_s < INFINITY) /* at most give_up_s */
            timing->give_up_s = timing->time_s;
    }
    timing->give_up_s = give_up_s;
    return status;
}

ccl_status_t ccl_i_time_protocols(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_schedule_t *schedule,
                                  ccl_i_timing_t *timing, ccl_error_t *err) {
    double times[CCL_PROTOCOLS];
    timing->protocols = UINT_MAX;
    CCL_TRY(ccl_i_time_each(ctx, topo, routes, schedule, timing, times, err));
    timing->time_s = INFINITY;
    for (uint32_t k = 0; k < CCL_PROTOCOLS; k++)
        timing->time_s = fmin(timing->time_s, times[k]);
    return CCL_OK;
}
