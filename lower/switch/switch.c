/* Lowering of schedules with groups: as many receives forward in one primitive as is fastest. */
#include "lower/switch/switch_i.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ccl_status_t check_options(const ccl_schedule_t *s, const ccl_lower_options_t *o,
                                  ccl_error_t *err) {
    if (o->asked && o->order != CCL_ORDER_STEP)
        return ccl_schedule_refuse_groups(s, "lowering in another order than the schedule's", err);
    if (o->asked && o->allocation != CCL_ALLOCATE_CONNECTION)
        return ccl_schedule_refuse_groups(s, "another allocation than connection", err);
    if (o->asked && o->granularity != CCL_GRANULARITY_ALGORITHM)
        return ccl_schedule_refuse_groups(s, "lowering for another level than algorithm", err);
    if (o->executor != CCL_EXECUTOR_ANY)
        return ccl_schedule_refuse_groups(s, ccl_executor_limits(o->executor)->name, err);
    if (!ccl_protocol_switches(o->proto))
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "lowering: protocol %s puts flags among data, which switches would add up: "
                        "take Simple for schedule %.80s, which goes through a switch",
                        o->proto, s->name);
    if (s->rounds || o->ordered)
        return ccl_schedule_refuse_groups(s, "lowering in rounds", err);
    return CCL_OK;
}

/** @param ops  operations and their order; the items that they become are of this call.
    @param out  NULL where these forwards could stop the program. */
static ccl_status_t lower_with(const ccl_i_switching_t *ops, const ccl_lower_options_t *options,
                               ccl_i_forward_t forward, bool joined, ccl_program_t **out,
                               ccl_error_t *err) {
    ccl_i_switching_t w = *ops;
    bool flows = false;
    *out = NULL;
    w.forward = forward;
    w.joined = joined;
    ccl_arena_init(&w.arena);
    w.scratch_len = ccl_arena_alloc(&w.arena, w.coll->nranks + (size_t)1, sizeof *w.scratch_len);
    ccl_status_t status = w.scratch_len ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_switch_items(&w, err);
    if (status == CCL_OK)
        status = ccl_i_switch_flows(&w, options->slots ? options->slots : 1, &flows, err);
    if (status == CCL_OK && flows)
        status = ccl_i_switch_values(&w, err);
    if (status == CCL_OK && flows && !(joined && w.crossed))
        status = ccl_i_switch_program(&w, options->proto ? options->proto : "Simple", out, err);
    free(w.deps);
    free(w.copies);
    free(w.scratch);
    ccl_arena_fini(&w.arena);
    return status;
}

/** @param below_s  what takes longer is of no use: INFINITY then, as where it does not finish. */
static ccl_status_t time_of(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                            const ccl_program_t *program, double below_s, double *out,
                            ccl_error_t *err) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    *out = INFINITY;
    sim.size_bytes = options->size_bytes > 0 ? options->size_bytes : 256.0 * 1048576;
    sim.batches = options->batches;
    sim.estimate = true;
    sim.give_up_s = below_s < INFINITY ? below_s : 0;
    ccl_status_t status =
        ccl_sim_program(ctx, options->topo, options->routes, program, &sim, &result, &why);
    if (status == CCL_OK)
        *out = result->time_s;
    ccl_sim_result_destroy(result);
    if (status == CCL_OK || status == CCL_UNSUPPORTED || status == CCL_DEADLOCK)
        return CCL_OK;
    if (err)
        *err = why;
    return status;
}

ccl_status_t ccl_i_lower_switch(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                const ccl_lower_options_t *options, ccl_program_t **out,
                                ccl_error_t *err) {
    static const ccl_i_forward_t ways[] = {CCL_I_FORWARD_PULLS, CCL_I_FORWARD_ALL,
                                           CCL_I_FORWARD_NONE};
    ccl_collective_kind_t kind = schedule->coll->kind;
    ccl_i_switching_t ops = {.schedule = schedule,
                             .coll = schedule->coll,
                             .in_place = !options->out_of_place && kind != CCL_ALLTOALL &&
                                         kind != CCL_SENDRECV && kind != CCL_CUSTOM};
    ccl_program_t *best = NULL;
    double best_s = INFINITY; /* INFINITY: not known, as nothing else was made */
    ccl_arena_init(&ops.arena);
    ccl_status_t status = check_options(schedule, options, err);
    if (status == CCL_OK)
        status = ccl_i_switch_ops(&ops, err);
    for (unsigned i = 0; i < CCL_ARRAY_LEN(ways) && status == CCL_OK; i++) {
        ccl_program_t *made = NULL;
        double time_s = INFINITY;
        if (options->no_fuse && ways[i] != CCL_I_FORWARD_NONE)
            continue;
        if (schedule->joined && ways[i] == CCL_I_FORWARD_ALL)
            continue; /* what forwards is not joined */
        if (best && (!options->topo || ways[i] == CCL_I_FORWARD_NONE))
            break; /* apart is slower, but always possible */
        status = lower_with(&ops, options, ways[i], schedule->joined, &made, err);
        if (status == CCL_OK && !made && schedule->joined)
            status = lower_with(&ops, options, ways[i], false, &made, err);
        bool fresh = made && (!best || !ccl_program_equal(made, best));
        if (status == CCL_OK && fresh && best)
            status = time_of(ctx, options, best, INFINITY, &best_s, err);
        if (status == CCL_OK && fresh && best)
            status = time_of(ctx, options, made, best_s, &time_s, err);
        if (status == CCL_OK && fresh && (!best || time_s < best_s)) {
            ccl_program_destroy(best);
            best = made;
            best_s = time_s;
        } else
            ccl_program_destroy(made);
    }
    ccl_arena_fini(&ops.arena);
    if (status == CCL_OK && !best)
        status = ccl_fail(err, CCL_UNSUPPORTED,
                          "lowering: the transfers of schedule %.80s cross on their connections",
                          schedule->name);
    if (status == CCL_OK)
        status = ccl_i_check_blocks(best, options, err);
    if (status == CCL_OK)
        ccl_origin_set(best->origin, "%s", schedule->origin);
    if (status != CCL_OK)
        ccl_program_destroy(best);
    else
        *out = best;
    return status;
}
