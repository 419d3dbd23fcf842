/* Candidates of the sketch synthesizer in simulation, round by round (SyCCL, section 5.2). */
#include "synth/sketch/choose.h"

#include <math.h>
#include <string.h>

const ccl_i_sketch_policy_t ccl_i_sketch_policy = {.simulated = 1.2e6,
                                                   .piped = 2e4,
                                                   .fine = 1e5,
                                                   .cheap = 8000,
                                                   .flow = 1e5,
                                                   .flow_climb = 4e5,
                                                   .all_orders = 4e4,
                                                   .two_orders = 2e5,
                                                   .small = 8,
                                                   .small_long = 1e4,
                                                   .small_behind = 1.25,
                                                   .small_fine = 300,
                                                   .small_flow = 300,
                                                   .lowered = 1e5,
                                                   .trees_alone = 5e3,
                                                   .counted = 12,
                                                   .first_round = 2,
                                                   .enough = 1.01,
                                                   .fine_within = 1.6,
                                                   .piped_times = 8,
                                                   .flow_load = 1.05,
                                                   .finalists_within = 1.1};

/* Primitives: micro-batches of transfers, or slices that transports cut them into. */
bool ccl_i_sketch_is_long(const ccl_i_sketch_race_t *race, const ccl_i_candidate_t *c) {
    double bytes = race->costs.chunk_bytes / c->parts;
    double primitives =
        c->transfers * fmax(bytes / race->space->piece_bytes, bytes / race->least_slice);

    return ccl_i_sketch_small(race) &&
           fmax(primitives, c->transfers) > ccl_i_sketch_policy.small_long;
}

/** An order to simulate a candidate in. */
typedef struct trial {
    ccl_order_t order;
    ccl_order_flow_t flow;
    int of;         /* which of race->best_s is its own */
    bool is_long;   /* the cluster is small, and its run long */
    double below_s; /* a longer time is not wanted; INFINITY: any is */
} trial_t;

/* Time beyond which no choice looks at it; 0: none. */
static double give_up_s(const ccl_i_sketch_race_t *race, const trial_t *trial) {
    double within = trial->is_long ? race->long_within : race->within;
    double most_s = fmax(within * race->best_s[trial->of], race->keep_s) * (1 + 1e-9);

    most_s = fmin(fmin(most_s, race->most_s), trial->below_s);
    return isfinite(most_s) ? most_s : 0;
}

/* At task level, a block for each connection; INFINITY where no choice looks at it. */
static ccl_status_t simulate(const ccl_i_sketch_race_t *race, const ccl_i_racer_t *with,
                             const ccl_schedule_t *schedule, const trial_t *trial, double *time_s,
                             ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_schedule_t *ordered = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;

    wish.topo = race->space->topo;
    wish.routes = with->routes;
    wish.order = trial->order;
    wish.flow = trial->flow;
    ccl_status_t status = ccl_schedule_order(with->ctx, schedule, &wish, &ordered, NULL, NULL, err);

    lower.granularity = sim.granularity = CCL_GRANULARITY_TASK;
    lower.topo = race->space->topo;
    lower.routes = with->routes;
    lower.size_bytes = sim.size_bytes = race->size_bytes;
    sim.estimate = true;
    sim.give_up_s = give_up_s(race, trial);
    if (status == CCL_OK)
        status = ccl_lower(with->ctx, ordered, &lower, &program, err);
    if (status == CCL_OK)
        status = ccl_sim_program(with->ctx, race->space->topo, with->routes, program, &sim, &result,
                                 err);
    if (status == CCL_OK)
        *time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(ordered);
    return status;
}

double ccl_i_sketch_sends(const ccl_i_sketch_race_t *race, const ccl_schedule_t *schedule) {
    double bytes;

    return schedule->ntransfers *
           ccl_lower_batches(schedule, race->space->topo, "Simple", race->size_bytes, &bytes);
}

/* How many orders reductions are simulated in. */
static int orders_of(double sends, bool is_long, bool sums) {
    if (sends <= ccl_i_sketch_policy.all_orders && !is_long)
        return 4;
    return sends <= ccl_i_sketch_policy.two_orders || !sums ? 2 : 1;
}

/* An order by which no candidate will win any more: the other one is much faster. */
static bool is_behind(const ccl_i_sketch_race_t *race, bool turned) {
    return race->best_s[turned] > ccl_i_sketch_policy.small_behind * race->best_s[!turned];
}

/*
 * Candidates are compared in one order: HPDS's in which nothing stands in the sub-pipeline of what
 * it waits for, of reductions mirrored. Of the orders that lowering tries for the winner it is the
 * best nearly always, and it keeps alike what is alike, so simulation is fast. Reductions are also
 * tried in the others, where that does not take long. Sharing blocks (state) costs at most a
 * hundredth.
 */
static ccl_status_t time_of(const ccl_i_sketch_race_t *race, const ccl_i_racer_t *with,
                            const ccl_schedule_t *schedule, ccl_i_candidate_t *c,
                            ccl_error_t *err) {
    static const ccl_order_flow_t orders[] = {CCL_ORDER_FLOW_REVERSED_APART, CCL_ORDER_FLOW_NO,
                                              CCL_ORDER_FLOW_REVERSED, CCL_ORDER_FLOW_YES};
    const bool flows = c->flow_bytes > 0;
    const bool sums = ccl_schedule_reduces(schedule); /* not in a Gather */
    trial_t trial = {flows ? CCL_ORDER_STEP : CCL_ORDER_HPDS, CCL_ORDER_FLOW_NO, 2,
                     ccl_i_sketch_is_long(race, c), INFINITY};
    int n;

    c->order_s[0] = c->order_s[1] = INFINITY;
    if (flows || !ccl_i_sketch_reduces(race))
        return simulate(race, with, schedule, &trial, &c->time_s, err);
    n = orders_of(ccl_i_sketch_sends(race, schedule), trial.is_long, sums);
    for (int i = 0; i < n; i++) {
        bool turned = orders[i] >= CCL_ORDER_FLOW_REVERSED;
        double s;

        if ((turned && !sums) || (n > 1 && trial.is_long && is_behind(race, turned)))
            continue;
        trial.flow = orders[i];
        trial.of = turned;
        trial.below_s = c->order_s[turned];
        CCL_TRY(simulate(race, with, schedule, &trial, &s, err));
        c->order_s[turned] = fmin(c->order_s[turned], s);
    }
    c->time_s = fmin(c->order_s[0], c->order_s[1]);
    return CCL_OK;
}

static ccl_status_t make_one(void *user, uint32_t index, const ccl_i_racer_t *with,
                             ccl_schedule_t **out, ccl_error_t *err) {
    ccl_i_sketch_race_t *race = user;
    ccl_i_candidate_t *c = &race->all.items[race->first + index];

    c->order_s[0] = c->order_s[1] = INFINITY;
    return ccl_i_candidate_make(with, race->space, race->sketches, c, race->want, out, err);
}

static ccl_status_t time_one(void *user, uint32_t index, const ccl_i_racer_t *with,
                             const ccl_schedule_t *schedule, ccl_i_raced_t *out, ccl_error_t *err) {
    ccl_i_sketch_race_t *race = user;
    ccl_i_candidate_t *c = &race->all.items[race->first + index];
    ccl_status_t status = time_of(race, with, schedule, c, err);

    out->time_s = c->time_s;
    if (status == CCL_UNSUPPORTED) /* more thread blocks than a GPU has */
        c->order_s[0] = c->order_s[1] = INFINITY;
    return status;
}

static void log_candidate(const ccl_ctx_t *ctx, const ccl_i_sketches_t *sketches,
                          const ccl_i_candidate_t *c) {
    ccl_text_t text = {0};

    for (uint32_t i = 0; i < c->mix->n; i++)
        ccl_text_printf(&text, "%s%u/%u %s", i ? "; " : "", c->mix->count[0][i], c->mix->parts,
                        sketches->items[c->mix->sketch[i]].name);
    ccl_text_printf(&text,
                    ": %u parts, %u channels, %.0f transfers, estimate %.4g us, simulated %.4g us",
                    c->parts, c->channels, c->transfers, c->estimate_s * 1e6, c->time_s * 1e6);
    if (text.data && !text.nomem)
        ccl_log(ctx, CCL_LOG_DEBUG, "sketch", "%s", text.data);
    ccl_text_fini(&text);
}

void ccl_i_sketch_find_best(const ccl_i_sketch_race_t *race, uint32_t n, double best_s[3]) {
    const ccl_i_candidate_t *c = race->all.items;

    best_s[0] = best_s[1] = best_s[2] = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        for (int k = 0; k < 2 && !c[i].late && ccl_i_sketch_reduces(race) && !(c[i].flow_bytes > 0);
             k++)
            best_s[k] = fmin(best_s[k], c[i].order_s[k]);
        best_s[2] = c[i].late ? best_s[2] : fmin(best_s[2], c[i].time_s);
    }
}

/* Simulates candidates from `first` to before `last`. */
static ccl_status_t race_some(ccl_i_sketch_race_t *race, uint32_t first, uint32_t last,
                              ccl_error_t *err) {
    uint32_t threads = race->threads;
    double most = 1;

    race->first = first;
    for (uint32_t i = first; i < last; i++)
        most = fmax(most, race->all.items[i].transfers);
    if (threads * most > CCL_I_SKETCH_TRANSFERS) /* memory */
        threads = (uint32_t)fmax(1, CCL_I_SKETCH_TRANSFERS / most);
    race->rounds.threads = threads;
    race->rounds.total = race->n;
    ccl_i_sketch_find_best(race, first, race->best_s);
    CCL_TRY(ccl_i_race_run(&race->rounds, last - first, err));
    for (uint32_t i = first; i < last; i++) {
        ccl_i_candidate_t *c = &race->all.items[i];

        c->time_s = race->rounds.results[i - first].time_s;
        c->late = race->rounds.results[i - first].late;
        if (!c->late)
            log_candidate(race->ctx, race->sketches, c);
    }
    if (race->rounds.best.index != CCL_NONE) {
        race->fastest = first + race->rounds.best.index;
        race->fastest_s = race->rounds.best.time_s;
    }
    return CCL_OK; /* none fits a GPU's thread blocks: the first, for lowering by state to try */
}

ccl_status_t ccl_i_sketch_race_from(ccl_i_sketch_race_t *race, uint32_t first, ccl_error_t *err) {
    uint32_t last = first;

    while (last < race->n &&
           (last < first + ccl_i_sketch_policy.first_round || race->all.items[last].mix->given))
        last++;
    CCL_TRY(race_some(race, first, last, err));
    if (ccl_i_sketch_enough(race))
        race->n = last;
    return race_some(race, last, race->n, err);
}

void ccl_i_sketch_race_init(ccl_i_sketch_race_t *race, const ccl_i_sketch_run_t *run) {
    const ccl_collective_t *want = race->want;

    race->least_slice = INFINITY;
    for (uint32_t t = 0; t < race->space->topo->ntransports; t++) {
        const ccl_transport_spec_t *spec = &race->space->topo->transports[t];

        if (!spec->protocol || strcmp(spec->protocol, "Simple") == 0)
            race->least_slice = fmin(race->least_slice, spec->value.slice_bytes);
    }
    race->most_s = run->most_s > 0 ? run->most_s : INFINITY;
    race->long_within = 1 + run->within;
    race->within = fmax(ccl_i_sketch_policy.fine_within, 1 + run->within);
    race->costs.size_bytes = run->size_bytes;
    race->costs.chunk_bytes = ccl_i_sketch_chunk_bytes(want, run->size_bytes);
    race->rounds = (ccl_i_race_t){.ctx = race->ctx,
                                  .topo = race->space->topo,
                                  .routes = race->given,
                                  .clusters = true,
                                  .phase = "simulate",
                                  .make = make_one,
                                  .time = time_one,
                                  .user = race,
                                  .times_only = true,
                                  .make_until_s = run->until_s};
}
