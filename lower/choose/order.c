/*
 * Ordering for a run. Which of HPDS's two ways is better depends on how links are shared over time,
 * which no short estimate captures; so both are lowered and simulated, unless that would take long.
 * So is the mirrored order of the time-reversed reductions (`turned.c`): it ignores that
 * reductions of one chunk wait for each other, so that neither is always better. With
 * few micro-batches neither may be better than the order given (ResCCL, section 5.2: small messages
 * leave little to schedule); then that stays.
 */
#include "lower/lower_i.h"
#include "lower/order/order.h"

#include <math.h>

/* The order given stays only where it is better than HPDS's by this: it has no sub-pipelines. */
#define GIVEN_GAIN 0.005
/* Transfers of a schedule of which a lowering takes a good part of a second: of HPDS's two ways
   only the one with the better pace is simulated, and none where blocks have no room. */
#define LARGE 100000u
/* Transfers of a schedule in all and for each pair of ranks, and sends of its run, from which it is
   a pipeline already: on the clusters of bench/cases/synth_small.c HPDS's other ways and the
   mirrored orders never gain more than 0.2 % there where its first way does not. */
#define LONG_TRANSFERS 3000u
#define LONG_OF_PAIR 150.0
#define LONG_SENDS 20000.0
/* Sends up to which the mirrored order has both of HPDS's ways. */
#define BOTH_TURNED 5e5

double ccl_i_lower_most_sends(const ccl_lower_options_t *options) {
    return options->rough ? 1e5 : 5e6; /* a few seconds */
}

/* The ways that are looked at, and what is known of them. */
typedef struct race {
    const ccl_ctx_t *ctx;
    const ccl_schedule_t *given;
    const ccl_lower_options_t *options;
    const ccl_i_lower_how_t *how;
    ccl_lower_stats_t *stats;
    double batches, size_bytes;
    ccl_schedule_t *ways[CCL_I_ORDERS]; /* NULL: not put in order yet */
    uint32_t pipelines[CCL_I_ORDERS];
    ccl_i_order_of_t best, unturned;
    double best_s;             /* INFINITY: none of them can run */
    ccl_timed_program_t timed; /* the best one's, where it was simulated just now */
} race_t;

/* Simulated; *timed_out stays empty unless it takes at most give_up_s, and where only its time is
   wanted and known.
   @param known_out  what that says. */
static ccl_status_t run_time(const race_t *r, const ccl_schedule_t *schedule, double give_up_s,
                             bool only_time, ccl_timed_program_t *timed_out,
                             ccl_i_known_t *known_out, ccl_error_t *err) {
    const ccl_lower_options_t *options = r->options;
    ccl_timed_program_t timed = {NULL, NULL};
    ccl_sim_options_t run = CCL_SIM_OPTIONS_INIT;
    run.granularity = r->how->task ? CCL_GRANULARITY_TASK : CCL_GRANULARITY_ALGORITHM;
    run.size_bytes = r->size_bytes;
    run.batches = options->batches;
    run.give_up_s = give_up_s;
    run.estimate = true;
    run.step_times = options->allocation == CCL_ALLOCATE_STATE && !options->rough;
    CCL_TRY(ccl_i_lower_program(r->ctx, schedule, r->how, &timed.program, err));
    bool fits = schedule->ntransfers <= LARGE ||
                options->granularity == CCL_GRANULARITY_STAGE || /* has other blocks than these */
                ccl_i_check_blocks(timed.program, options, NULL) == CCL_OK;
    if (!fits) {
        ccl_timed_program_fini(&timed);
        *known_out = (ccl_i_known_t){CCL_I_UNFIT, INFINITY};
        return CCL_OK;
    }
    if (run.step_times &&
        ccl_sim_known(r->ctx, options->topo, timed.program, &run, &known_out->time_s)) {
        known_out->what = CCL_I_TIME;
        run.step_times = false; /* merging makes them of the program that it takes */
        if (only_time) {
            ccl_timed_program_fini(&timed);
            return CCL_OK;
        }
    }
    ccl_status_t status = ccl_sim_program(r->ctx, options->topo, options->routes, timed.program,
                                          &run, &timed.run, NULL);
    if (status != CCL_OK) /* it cannot run like this; another allocation may */
        *known_out = (ccl_i_known_t){CCL_I_LONGER, INFINITY};
    else if (timed.run->time_s < INFINITY)
        *known_out = (ccl_i_known_t){CCL_I_TIME, timed.run->time_s};
    else
        *known_out = (ccl_i_known_t){CCL_I_LONGER, give_up_s};
    if (known_out->what == CCL_I_TIME && known_out->time_s <= give_up_s)
        *timed_out = timed;
    else
        ccl_timed_program_fini(&timed);
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

static ccl_status_t order_way(const race_t *r, ccl_order_t order, ccl_order_flow_t flow,
                              ccl_schedule_t **out, ccl_error_t *err) {
    ccl_lower_stats_t one = {0};
    ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;
    wish.topo = r->options->topo;
    wish.routes = r->options->routes;
    wish.order = order;
    wish.flow = flow;
    wish.batches = r->batches < UINT32_MAX ? (uint32_t)r->batches : UINT32_MAX;
    CCL_TRY(ccl_schedule_order(r->ctx, r->given, &wish, out, NULL, &one, err));
    add_stats(r->stats, &one);
    return CCL_OK;
}

static ccl_i_try_t as_candidate(ccl_i_order_of_t i) {
    return (ccl_i_try_t){.order = i, .parts = 1, .most = 1};
}

static ccl_status_t put_in_order(race_t *r, ccl_i_order_of_t i, ccl_error_t *err) {
    static const ccl_order_flow_t flows[CCL_I_ORDERS] = {
        CCL_ORDER_FLOW_YES, CCL_ORDER_FLOW_YES, CCL_ORDER_FLOW_NO, CCL_ORDER_FLOW_REVERSED_APART,
        CCL_ORDER_FLOW_REVERSED};
    bool both = r->given->ntransfers <= LARGE;
    if (r->ways[i])
        return CCL_OK;
    CCL_TRY(order_way(r, i == CCL_I_ORDER_GIVEN ? CCL_ORDER_STEP : r->options->order,
                      i == CCL_I_ORDER_FLOW && !both ? CCL_ORDER_FLOW_BY_PACE : flows[i],
                      &r->ways[i], err));
    r->pipelines[i] = r->stats->pipelines;
    return CCL_OK;
}

/* Takes a way that is faster, and the first of HPDS if none before can run. */
static void take(race_t *r, ccl_i_order_of_t i, ccl_i_known_t known, double most_s) {
    bool faster = known.what == CCL_I_TIME && known.time_s <= most_s;
    if (!faster && (i != CCL_I_ORDER_FLOW || r->best_s < INFINITY))
        return;
    r->best = i;
    r->unturned = i < CCL_I_ORDER_APART ? i : r->unturned;
    r->best_s = faster ? known.time_s : INFINITY;
    ccl_timed_program_fini(&r->timed);
}

/* Whether the ways behind HPDS's first are not worth a run. */
static bool is_settled(const race_t *r, double given_s) {
    double transfers = r->given->ntransfers, n = r->given->coll->nranks;
    return transfers >= LONG_TRANSFERS && transfers >= LONG_OF_PAIR * n * n &&
           transfers * r->batches >= LONG_SENDS && r->best_s >= given_s * (1 - GIVEN_GAIN);
}

/* @param fits_out  false: large, and its blocks have no room; nor would those of others. */
static ccl_status_t look_at(race_t *r, ccl_i_order_of_t i, bool *fits_out, ccl_error_t *err) {
    double most_s =
        r->best == CCL_I_ORDER_GIVEN ? r->best_s / (1 - GIVEN_GAIN) : r->best_s * (1 - 1e-9);
    ccl_timed_program_t timed = {NULL, NULL};
    ccl_i_known_t known = ccl_i_memo_get(r->options, r->how, as_candidate(i));
    bool settled =
        known.what == CCL_I_LONGER ? known.time_s >= most_s : known.what != CCL_I_UNKNOWN;
    if (!settled) {
        CCL_TRY(put_in_order(r, i, err));
        for (int k = CCL_I_ORDER_FLOW; k < (int)i && !settled; k++)
            settled = r->ways[k] && ccl_schedule_equal(r->ways[i], r->ways[k]);
        if (settled) /* never better than that one */
            known = (ccl_i_known_t){CCL_I_LONGER, INFINITY};
        else
            CCL_TRY(run_time(r, r->ways[i], most_s, true, &timed, &known, err));
        ccl_i_memo_put(r->options, r->how, as_candidate(i), known);
    }
    *fits_out = i != CCL_I_ORDER_GIVEN || known.what != CCL_I_UNFIT;
    take(r, i, known, most_s);
    if (timed.run)
        r->timed = timed;
    return CCL_OK;
}

static void race_fini(race_t *r) {
    ccl_timed_program_fini(&r->timed);
    for (int i = 0; i < CCL_I_ORDERS; i++)
        ccl_schedule_destroy(r->ways[i]);
}

static ccl_status_t finish(race_t *r, ccl_i_ordered_t *out, ccl_error_t *err) {
    bool by_state = r->options->allocation == CCL_ALLOCATE_STATE;
    bool unturned = r->best != r->unturned && r->unturned != CCL_I_ORDER_GIVEN;
    CCL_TRY(put_in_order(r, r->best, err));
    if (unturned)
        CCL_TRY(put_in_order(r, r->unturned, err));
    if (by_state && !r->timed.run && r->best_s < INFINITY) {
        ccl_i_known_t known;
        CCL_TRY(run_time(r, r->ways[r->best], INFINITY, false, &r->timed, &known, err));
    }
    r->stats->pipelines = r->pipelines[r->best];
    out->order = r->best;
    out->schedule = r->ways[r->best];
    r->ways[r->best] = NULL;
    if (unturned) {
        out->unturned_order = r->unturned;
        out->unturned = r->ways[r->unturned];
        r->ways[r->unturned] = NULL;
    }
    out->timed = r->timed;
    r->timed = (ccl_timed_program_t){NULL, NULL};
    return CCL_OK;
}

void ccl_i_ordered_fini(ccl_i_ordered_t *ordered) {
    ccl_schedule_destroy(ordered->schedule);
    ccl_schedule_destroy(ordered->unturned);
    ccl_timed_program_fini(&ordered->timed);
}

ccl_status_t ccl_i_lower_order(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                               const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                               ccl_i_ordered_t *out, ccl_lower_stats_t *stats, ccl_error_t *err) {
    race_t r = {.ctx = ctx,
                .given = schedule,
                .options = options,
                .how = how,
                .stats = stats,
                .batches = options->batches,
                .size_bytes = options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES,
                .best_s = INFINITY};
    double bytes;
    *out = (ccl_i_ordered_t){.order = CCL_I_ORDER_OTHER};
    if (!options->batches)
        r.batches = ccl_lower_batches(schedule, options->topo, how->proto, r.size_bytes, &bytes);
    double sends = r.batches * schedule->ntransfers;
    if (options->order != CCL_ORDER_HPDS || sends > ccl_i_lower_most_sends(options))
        return order_way(&r, options->order, CCL_ORDER_FLOW_BY_PACE, &out->schedule, err);
    ccl_i_order_of_t nways = !ccl_schedule_reduces(schedule) ? CCL_I_ORDER_APART
                             : sends > BOTH_TURNED           ? CCL_I_ORDER_TURNED
                                                             : CCL_I_ORDERS;
    ccl_status_t status = CCL_OK;
    bool fits = true;
    double given_s = INFINITY;
    for (ccl_i_order_of_t i = CCL_I_ORDER_GIVEN; i < nways && status == CCL_OK && fits; i++) {
        if (i > CCL_I_ORDER_FLOW && is_settled(&r, given_s))
            break;
        if (i != CCL_I_ORDER_NO_FLOW || schedule->ntransfers <= LARGE)
            status = look_at(&r, i, &fits, err);
        given_s = i == CCL_I_ORDER_GIVEN ? r.best_s : given_s;
    }
    if (status == CCL_OK)
        status = fits ? finish(&r, out, err)
                      : order_way(&r, options->order, CCL_ORDER_FLOW_BY_PACE, &out->schedule, err);
    race_fini(&r);
    return status;
}
