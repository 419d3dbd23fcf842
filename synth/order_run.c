/*
 * Ordering for a run. Which of HPDS's two ways is better depends on how links are shared over time,
 * which no short estimate tells well; so both are lowered and simulated, unless that would take
 * long. So is the mirrored order of what sums are when time runs backwards (order_turned.c): it
 * knows nothing of sums of a chunk that wait for each other, so that neither is always better. With
 * few micro-batches neither may be better than the order given (ResCCL, section 5.2: small messages
 * leave little to schedule); then that stays.
 */
#include "synth/lower.h"
#include "synth/order.h"

#include <math.h>

/* The order given stays only where it is better than HPDS's by this: it has no sub-pipelines. */
#define GIVEN_GAIN 0.005
/* Transfers of a schedule of which a lowering takes a good part of a second: of HPDS's two ways
   only the one with the better pace is simulated, and none where blocks have no room. */
#define LARGE 100000u
/* Sends up to which the mirrored order has both of HPDS's ways. */
#define BOTH_TURNED 5e5

double ccl_i_lower_most_sends(const ccl_lower_options_t *options) {
    return options->rough ? 1e5 : 5e6; /* a few seconds */
}

/* Simulated; timed_out stays empty when it takes longer than give_up_s, or cannot run like this
   (another allocation may). @param fits_out  false: a large one whose blocks have no room; not
   simulated. */
static ccl_status_t run_time(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                             const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                             double size_bytes, double give_up_s, ccl_i_timed_t *timed_out,
                             bool *fits_out, ccl_error_t *err) {
    ccl_i_timed_t timed = {NULL, NULL};
    ccl_sim_options_t run = CCL_SIM_OPTIONS_INIT;
    run.granularity = how->task ? CCL_GRANULARITY_TASK : CCL_GRANULARITY_ALGORITHM;
    run.size_bytes = size_bytes;
    run.batches = options->batches;
    run.give_up_s = give_up_s;
    run.step_times = options->allocation == CCL_ALLOCATE_STATE;
    CCL_TRY(ccl_i_lower_program(ctx, schedule, how, &timed.program, err));
    *fits_out = schedule->ntransfers <= LARGE ||
                options->granularity == CCL_GRANULARITY_STAGE || /* has other blocks than these */
                ccl_i_check_blocks(timed.program, options, NULL) == CCL_OK;
    if (!*fits_out) {
        ccl_i_timed_fini(&timed);
        return CCL_OK;
    }
    ccl_status_t status =
        ccl_sim_program(ctx, options->topo, options->routes, timed.program, &run, &timed.run, NULL);
    if (status == CCL_OK && timed.run->time_s < INFINITY && timed.run->time_s <= give_up_s)
        *timed_out = timed;
    else
        ccl_i_timed_fini(&timed);
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
                               ccl_schedule_t **out, ccl_i_timed_t *timed_out,
                               ccl_schedule_t **unturned_out, ccl_lower_stats_t *stats,
                               ccl_error_t *err) {
    enum { GIVEN, FLOW, NO_FLOW, APART, TURNED, WAYS };
    static const ccl_i_flow_t flows[WAYS] = {CCL_I_FLOW_YES, CCL_I_FLOW_YES, CCL_I_FLOW_NO,
                                             CCL_I_FLOW_TURNED_APART, CCL_I_FLOW_TURNED};
    ccl_schedule_t *ways[WAYS] = {NULL};
    uint32_t pipelines[WAYS] = {0};
    ccl_i_timed_t fastest = {NULL, NULL}, timed = {NULL, NULL};
    double bytes, batches = options->batches;
    double size_bytes = options->size_bytes > 0 ? options->size_bytes : 256.0 * (1 << 20);
    ccl_status_t status = CCL_OK;
    *timed_out = fastest;
    *unturned_out = NULL;
    if (!options->batches)
        batches = ccl_i_likely_batches(schedule, options->topo, how->proto, size_bytes, &bytes);
    double sends = batches * schedule->ntransfers;
    if (options->order != CCL_ORDER_HPDS || sends > ccl_i_lower_most_sends(options))
        return order_way(ctx, schedule, options, CCL_I_FLOW_BY_PACE, batches, out, stats, err);
    int nways = !ccl_i_order_reduces(schedule) ? APART : sends > BOTH_TURNED ? TURNED : WAYS;
    ccl_lower_options_t given = *options;
    given.order = CCL_ORDER_STEP;
    int best = GIVEN, unturned = GIVEN;
    bool both = schedule->ntransfers <= LARGE, fits;
    for (int i = 0; i < nways; i++) {
        if (i == NO_FLOW && !both)
            continue;
        double best_s = fastest.run ? fastest.run->time_s : INFINITY;
        double most_s = best == GIVEN ? best_s / (1 - GIVEN_GAIN) : best_s * (1 - 1e-9);
        ccl_i_flow_t flow = i == FLOW && !both ? CCL_I_FLOW_BY_PACE : flows[i];
        CCL_TRY_GOTO(order_way(ctx, schedule, i == GIVEN ? &given : options, flow, batches,
                               &ways[i], stats, err),
                     status, end);
        pipelines[i] = stats->pipelines;
        bool same = false; /* as one that was simulated */
        for (int k = FLOW; k < i && !same; k++)
            same = ways[k] && ccl_schedule_equal(ways[i], ways[k]);
        if (same)
            continue;
        CCL_TRY_GOTO(run_time(ctx, ways[i], options, how, size_bytes, most_s, &timed, &fits, err),
                     status, end);
        if (i == GIVEN && !fits) { /* nor would others */
            status =
                order_way(ctx, schedule, options, CCL_I_FLOW_BY_PACE, batches, out, stats, err);
            goto end;
        }
        if (!timed.run &&
            (i != FLOW || fastest.run)) /* of all that cannot run, the first of HPDS */
            continue;
        best = i;
        unturned = i < APART ? i : unturned;
        ccl_i_timed_fini(&fastest);
        fastest = timed;
        timed = (ccl_i_timed_t){NULL, NULL};
    }
    if (best != unturned && unturned != GIVEN) {
        *unturned_out = ways[unturned];
        ways[unturned] = NULL;
    }
    stats->pipelines = pipelines[best];
    *out = ways[best];
    ways[best] = NULL;
    if (options->allocation == CCL_ALLOCATE_STATE) {
        *timed_out = fastest;
        fastest = (ccl_i_timed_t){NULL, NULL};
    }
end:
    ccl_i_timed_fini(&fastest);
    for (int i = 0; i < WAYS; i++)
        ccl_schedule_destroy(ways[i]);
    return status;
}
