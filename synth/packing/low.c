/*
 * Low trees, before any others: along rails, over few connections.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

/* When parts of shards are tried, and when nothing else is. tests/synth/prop_unequal.c falls
 * without each. */
typedef struct policy {
    double parts_bytes;  /* an AllReduce of that much at least */
    double near;         /* times the bound: others are not looked for */
    double near_limited; /* the same where thread blocks are few */
    double near_even;    /* and all roots have a part each */
    double level;        /* times the bound, in load, there: deeper trees are not looked for */
    double lead;         /* then: times others, which programs gain more from later, at most */
} policy_t;

static const policy_t POLICY = {.parts_bytes = 0x1p25,
                                .near = 1.02,
                                .near_limited = 1.15,
                                .near_even = 1.015,
                                .level = 1.05,
                                .lead = 1.002};

typedef ccl_i_packing_t packing_t;
typedef ccl_status_t (*low_fn)(packing_t *p, double bound_s, ccl_error_t *err);

static void low_fini(packing_t *p) {
    ccl_i_pack_forest_fini(&p->down);
    ccl_i_pack_forest_fini(&p->up);
    free(p->roots);
    free(p->weight);
    free(p->lane);
    p->roots = NULL;
    p->weight = NULL;
    p->lane = NULL;
}

/* That there are no such trees is no error. */
static ccl_status_t unless_none(ccl_status_t status, const ccl_error_t *why, ccl_error_t *err) {
    if (status == CCL_INFEASIBLE || status == CCL_UNSUPPORTED)
        return CCL_OK;
    if (status != CCL_OK && err)
        *err = *why;
    return status;
}

/* Low trees found one way. @param found  there are some; near: within the price of the bound. */
static ccl_status_t find_low(const packing_t *p, low_fn find, double bound_s, packing_t *out,
                             bool *found, bool *near, ccl_error_t *err) {
    ccl_error_t why = CCL_ERROR_INIT;
    *found = *near = false;
    CCL_TRY(ccl_i_pack_start(p, out, err));
    out->weight = malloc(p->n * sizeof *out->weight);
    ccl_status_t status = out->weight ? CCL_OK : ccl_fail_nomem(&why);
    if (status == CCL_OK) {
        memcpy(out->weight, p->weight, p->n * sizeof *out->weight);
        status = find(out, bound_s, &why);
    }
    *found = status == CCL_OK;
    *near = *found && ccl_i_pack_seconds(out) <= bound_s * (1 + CCL_I_PACK_PRICE);
    if (!*found)
        low_fini(out);
    return unless_none(status, &why, err);
}

/* The schedule of low trees in place of *out, if they make one and it is faster. */
static ccl_status_t run_if_faster(packing_t *low, const ccl_synth_options_t *options,
                                  ccl_schedule_t **out, double *time_out, bool *ran_out,
                                  ccl_error_t *err) {
    ccl_schedule_t *made = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    double made_s = INFINITY;
    ccl_status_t status = ccl_i_pack_schedule(low, true, options, &made, &made_s, &why);
    *ran_out = status == CCL_OK;
    if (*ran_out && (!*out || made_s < *time_out)) {
        ccl_schedule_t *slower = *out;
        *out = made;
        *time_out = made_s;
        made = slower;
    }
    ccl_schedule_destroy(made);
    return unless_none(status, &why, err);
}

/* Parts of shards, whose connections are as many as parts: none where their number is given.
 * *enough_out: they come near the bound, in time. */
static ccl_status_t run_parts(packing_t *p, double bound_s, const ccl_synth_options_t *options,
                              ccl_schedule_t **out, double *time_out, bool *enough_out,
                              ccl_error_t *err) {
    packing_t low;
    bool found, near, ran = false;
    double bytes = options->size_bytes;
    bool limited = ccl_i_pack_fewest_sms(p->c->topo) < UINT32_MAX;
    *enough_out = false;
    if (p->want->kind != CCL_ALLREDUCE || options->plain || options->channels ||
        bytes < POLICY.parts_bytes)
        return CCL_OK;
    CCL_TRY(find_low(p, ccl_i_pack_by_parts, bound_s, &low, &found, &near, err));
    if (!found)
        return CCL_OK;
    ccl_status_t status = CCL_OK;
    if (limited || !low.even)
        status = run_if_faster(&low, options, out, time_out, &ran, err);
    p->level = ran && limited && ccl_i_pack_seconds(&low) <= bound_s * POLICY.level;
    low_fini(&low);
    if (!ran)
        return status;
    double most = low.even ? POLICY.near_even : limited ? POLICY.near_limited : POLICY.near;
    *enough_out = *time_out <= bound_s * bytes * most;
    p->beat_s = *time_out;
    if (low.even)
        *time_out *= POLICY.lead;
    return status;
}

ccl_status_t ccl_i_pack_along_rails(packing_t *p, const ccl_synth_options_t *options,
                                    ccl_schedule_t **out, double *time_out, bool *enough_out,
                                    ccl_error_t *err) {
    packing_t low[2];
    bool found[2] = {false, false}, ran = false;
    double bound_s = 0;
    CCL_TRY(ccl_i_pack_bound_seconds(p, &bound_s, err));
    CCL_TRY(run_parts(p, bound_s, options, out, time_out, enough_out, err));
    if (*enough_out)
        return CCL_OK;
    ccl_status_t status =
        find_low(p, ccl_i_pack_by_rails, bound_s, &low[0], &found[0], enough_out, err);
    if (status == CCL_OK && !*enough_out)
        status = find_low(p, ccl_i_pack_by_servers, bound_s, &low[1], &found[1], enough_out, err);
    for (int k = 0; k < 2 && status == CCL_OK; k++) {
        if (found[k] && (k == 0 || *enough_out))
            status = run_if_faster(&low[k], options, out, time_out, &ran, err);
    }
    *enough_out = *enough_out && ran;
    for (int k = 0; k < 2; k++) {
        if (found[k])
            low_fini(&low[k]);
    }
    return status;
}
