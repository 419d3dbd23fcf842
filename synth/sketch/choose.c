/* The choice of the sketch synthesizer: the best candidates simulated (SyCCL, section 5.2). */
#include "synth/common/race.h"
#include "synth/sketch/candidates.h"
#include "synth/sketch/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * How much is simulated. Transfers are those of schedules, sends count every micro-batch.
 * bench/cases/synth_sketch.c and synth_small.c run it.
 */
typedef struct policy {
    double simulated; /* transfers of all candidates, but two at least, and beside them one of
                         more than CCL_I_SKETCH_LARGE */
    double piped;     /* transfers up to which the fastest are cut into `piped_times` the pieces */
    double fine, cheap; /* and into ever more while that gains; up to `cheap`, also after one step
                           that did not */
    double flow;        /* pieces that flow begin with about as many transfers, */
    double flow_climb;  /* and get up to as many while that gains */
    double all_orders, two_orders; /* sends up to which reductions are simulated in four orders, in
                                      two */
    double lowered;     /* sends up to which reductions are lowered to choose between them */
    double trees_alone; /* transfers from which steps of equal trees do not tell candidates apart */
    uint32_t counted;   /* candidates whose thread blocks are counted */
    uint32_t first_round; /* candidates that are simulated before it is asked whether one is */
    double enough; /* times the busiest link's time under the best shares: no other gains more */
    double fine_within; /* times the fastest: more channels for what is not slower; it may not stay
                           so */
    uint32_t piped_times; /* factor of pieces */
    double flow_load;     /* times the least load of the busiest link, of mixes whose pieces flow */
    double finalists_within; /* times the fastest, of reductions that are lowered */
} policy_t;

static const policy_t POLICY = {.simulated = 1.2e6,
                                .piped = 2e4,
                                .fine = 1e5,
                                .cheap = 8000,
                                .flow = 1e5,
                                .flow_climb = 4e5,
                                .all_orders = 4e4,
                                .two_orders = 2e5,
                                .lowered = 1e5,
                                .trees_alone = 5e3,
                                .counted = 12,
                                .first_round = 2,
                                .enough = 1.01,
                                .fine_within = 1.6,
                                .piped_times = 8,
                                .flow_load = 1.05,
                                .finalists_within = 1.1};

/* Candidates that are estimated alike and are simulated. */
enum { ALIKE = 2 };
/* Channels: the best over four, and what wins over as many as these. */
static const uint32_t FINE_CHANNELS[] = {2, 8, 16};
enum { FINE_MIXES = 4, CUT_MIXES = 2, FIRST_CHANNELS = 4 };
/* Mixes beside the best whose pieces flow. */
enum { FLOW_MIXES = 2 };
/* Reductions that are lowered. */
enum { FINALISTS = 6 };

/* ---------------------------------------------------------------- simulation */

typedef struct race {
    const ccl_ctx_t *ctx;
    const ccl_i_space_t *space;
    const ccl_i_sketches_t *sketches;
    const ccl_collective_t *want;
    ccl_i_candidate_t *candidates;
    double size_bytes;
    ccl_i_race_t rounds;      /* of candidates from `first` on */
    ccl_i_cluster_t *cluster; /* of the calling thread */
    ccl_routes_t *given;
    uint32_t n, first; /* candidates; those before `first` are done */
    ccl_i_costs_t costs;
    double transfers; /* of all that are simulated */
    double least_s;   /* the busiest link's time under the best shares of all mixes */
    double within;    /* times the fastest: no choice looks at what is slower */
    double best_s[3]; /* as find_best(), before the round */
    double keep_s;    /* what a climb compares with; 0: nothing */
} race_t;

static bool reduces(const race_t *race) {
    return race->space->up || race->costs.ways > 1;
}

/* At task level, a block for each connection; INFINITY where no choice looks at it.
   @param k  of race->best_s */
static ccl_status_t simulate(const race_t *race, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                             const ccl_schedule_t *schedule, ccl_order_t order,
                             ccl_order_flow_t flow, int k, double *time_s, ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_schedule_t *ordered = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_order_options_t wish = CCL_ORDER_OPTIONS_INIT;

    wish.topo = race->space->topo;
    wish.routes = routes;
    wish.order = order;
    wish.flow = flow;
    ccl_status_t status = ccl_schedule_order(ctx, schedule, &wish, &ordered, NULL, NULL, err);

    lower.granularity = sim.granularity = CCL_GRANULARITY_TASK;
    lower.topo = race->space->topo;
    lower.routes = routes;
    lower.size_bytes = sim.size_bytes = race->size_bytes;
    sim.estimate = true;
    if (isfinite(race->best_s[k]))
        sim.give_up_s = fmax(race->within * race->best_s[k], race->keep_s) * (1 + 1e-9);
    if (status == CCL_OK)
        status = ccl_lower(ctx, ordered, &lower, &program, err);
    if (status == CCL_OK)
        status = ccl_sim_program(ctx, race->space->topo, routes, program, &sim, &result, err);
    if (status == CCL_OK)
        *time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(ordered);
    return status;
}

/* Over all micro-batches. */
static double sends_of(const race_t *race, const ccl_schedule_t *schedule) {
    double bytes;

    return schedule->ntransfers *
           ccl_lower_batches(schedule, race->space->topo, "Simple", race->size_bytes, &bytes);
}

/*
 * Candidates are compared in one order: HPDS's in which nothing stands in the sub-pipeline of what
 * it waits for, of reductions mirrored. Of the orders that lowering tries for the winner it is the
 * best nearly always, and it keeps alike what is alike, so simulation is fast. Reductions are also
 * tried in the others, where that does not take long. Sharing blocks (state) costs at most a
 * hundredth.
 */
static ccl_status_t time_of(const race_t *race, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                            const ccl_schedule_t *schedule, ccl_i_candidate_t *c,
                            ccl_error_t *err) {
    static const ccl_order_flow_t orders[] = {CCL_ORDER_FLOW_REVERSED_APART, CCL_ORDER_FLOW_NO,
                                              CCL_ORDER_FLOW_REVERSED, CCL_ORDER_FLOW_YES};
    const bool flows = c->flow_bytes > 0;
    const bool sums = ccl_schedule_reduces(schedule); /* not in a Gather */
    double sends;
    int n;

    c->order_s[0] = c->order_s[1] = INFINITY;
    if (flows || !reduces(race))
        return simulate(race, ctx, routes, schedule, flows ? CCL_ORDER_STEP : CCL_ORDER_HPDS,
                        CCL_ORDER_FLOW_NO, 2, &c->time_s, err);
    sends = sends_of(race, schedule);
    n = sends <= POLICY.all_orders ? 4 : sends <= POLICY.two_orders || !sums ? 2 : 1;
    for (int i = 0; i < n; i++) {
        bool turned = orders[i] >= CCL_ORDER_FLOW_REVERSED;
        double s;

        if (turned && !sums)
            continue;
        CCL_TRY(simulate(race, ctx, routes, schedule, CCL_ORDER_HPDS, orders[i], turned, &s, err));
        c->order_s[turned] = fmin(c->order_s[turned], s);
    }
    c->time_s = fmin(c->order_s[0], c->order_s[1]);
    return CCL_OK;
}

static ccl_status_t make_one(void *user, uint32_t index, const ccl_i_racer_t *with,
                             ccl_schedule_t **out, ccl_error_t *err) {
    race_t *race = user;
    ccl_i_candidate_t *c = &race->candidates[race->first + index];

    c->order_s[0] = c->order_s[1] = INFINITY;
    return ccl_i_candidate_make(with->ctx, race->space, race->sketches, c, with->cluster,
                                race->want, out, err);
}

static ccl_status_t time_one(void *user, uint32_t index, const ccl_i_racer_t *with,
                             const ccl_schedule_t *schedule, ccl_i_raced_t *out, ccl_error_t *err) {
    race_t *race = user;
    ccl_i_candidate_t *c = &race->candidates[race->first + index];
    ccl_status_t status = time_of(race, with->ctx, with->routes, schedule, c, err);

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

/* Of estimates from the i-th on. */
static double next_limit(const ccl_i_candidates_t *all, size_t i, double within) {
    return i < all->n ? all->items[i].estimate_s * (1 + within) : 0;
}

/* From server to server first, over the widest dimension, then inside: as a chain it is a line
   through all servers. */
static bool in_line(const ccl_i_space_t *space, const ccl_i_sketch_t *sketch) {
    const uint8_t *reach = sketch->reach;
    bool line = sketch->nstages > 1 && space->ndimensions > 1 && !sketch->sub;

    for (uint32_t g = 0; line && g < space->ngroups; g++) {
        line = reach[g] == (g < space->first_group[space->ndimensions - 1] ? CCL_I_REACH_NONE
                                                                           : CCL_I_REACH_EACH);
        line &= g >= space->first_group[1] || reach[space->ngroups + g] == CCL_I_REACH_ALL;
    }
    return line;
}

/* Of the first n, those whose estimate is that of c. */
static uint32_t count_alike(const ccl_i_sketches_t *sketches, const ccl_i_candidate_t *items,
                            uint32_t n, const ccl_i_candidate_t *c) {
    bool solves = ccl_i_mix_solved(sketches, c->mix);
    uint32_t alike = 0;

    for (uint32_t k = 0; k < n; k++) {
        const ccl_i_candidate_t *other = &items[k];

        alike += fabs(other->estimate_s - c->estimate_s) <= 1e-9 * c->estimate_s &&
                 other->channels == c->channels && other->parts == c->parts &&
                 ccl_i_mix_solved(sketches, other->mix) == solves;
    }
    return alike;
}

/* Chains in a line join the first n: no estimate shows how much flows that share links lose; in a
   line few share one. @return how many there are now */
static uint32_t add_lines(ccl_i_candidates_t *all, race_t *race, uint32_t n) {
    uint32_t chains = 0;

    for (size_t i = n; race->space->port && i < all->n && chains < ALIKE; i++) {
        ccl_i_candidate_t c = all->items[i];

        if (c.net != CCL_I_SHAPE_CHAIN || c.wide || c.mix->n > 1 ||
            !in_line(race->space, &race->sketches->items[c.mix->sketch[0]]) ||
            race->transfers + c.transfers > POLICY.simulated)
            continue;
        chains++;
        c.line = true;
        race->transfers += c.transfers;
        memmove(all->items + n + 1, all->items + n, (i - n) * sizeof c);
        all->items[n++] = c;
    }
    return n;
}

/*
 * Those worth a simulation come to the front: near the first, few of those whose estimates do not
 * tell them apart, together not too long.
 */
static ccl_status_t worth(ccl_i_candidates_t *all, race_t *race, const ccl_i_sketch_run_t *run,
                          ccl_error_t *err) {
    double limit_s, *transfers = &race->transfers;
    uint32_t n = 0, counted = 0, large = 0;

    /* All that the user gave, and as many of the others as ever. */
    while (n < all->n && all->items[n].mix->given)
        n++;
    const uint32_t given = n;

    limit_s = given < all->n ? all->items[given].estimate_s * (1 + run->within) : 0;
    for (size_t i = given; i < all->n && n - given < run->most; i++) {
        ccl_i_candidate_t c = all->items[i];
        bool same = false, trees_alone = c.transfers > POLICY.trees_alone && !reduces(race);

        if (c.estimate_s > limit_s)
            continue; /* those that are too wide come last, whatever their estimate */
        if (count_alike(race->sketches, all->items, n, &c) >= ALIKE)
            continue;
        CCL_TRY(ccl_i_candidate_sign(race->space, race->sketches, &c, !trees_alone, err));
        for (uint32_t k = 0; k < n; k++)
            same |= all->items[k].signature == c.signature && !all->items[k].mix->given;
        if (same)
            continue;
        if (c.transfers > CCL_I_SKETCH_LARGE && large > 0)
            continue; /* estimates of that many are no better: rather a few of less */
        if (c.net != CCL_I_SHAPE_DIRECT && race->costs.sms && !c.wide && counted < POLICY.counted) {
            bool fit = true;

            CCL_TRY(
                ccl_i_candidate_fits(race->space, race->sketches, &c, race->costs.sms, &fit, err));
            counted++;
            if (!fit) {
                limit_s = n > given ? limit_s : next_limit(all, i + 1, run->within);
                continue;
            }
        }
        if (c.transfers > CCL_I_SKETCH_LARGE)
            large++;
        else if (n > given + 1 && *transfers + c.transfers > POLICY.simulated)
            break;
        else
            *transfers += c.transfers;
        memmove(all->items + n + 1, all->items + n, (i - n) * sizeof c);
        all->items[n++] = c;
    }
    race->n = add_lines(all, race, n);
    return CCL_OK;
}

/* Of the GPU that has fewest; 0: no limit. */
static uint32_t least_sms(const ccl_topology_t *topo) {
    uint32_t sms = 0;

    for (uint32_t r = 0; r < topo->nranks; r++) {
        uint32_t mine = ccl_model_gpu(topo, r).sms;

        sms = mine && (sms == 0 || mine < sms) ? mine : sms;
    }
    return sms;
}

static bool enough(const race_t *race, double best_s) {
    return best_s <= POLICY.enough * race->least_s;
}

static void find_best(const race_t *race, uint32_t n, double best_s[3]);

/* Simulates candidates from `first` to before `last`; *best is the fastest of all so far. */
static ccl_status_t race_some(race_t *race, uint32_t first, uint32_t last, uint32_t threads,
                              uint32_t *best, double *best_s, ccl_error_t *err) {
    double most = 1;

    race->first = first;
    for (uint32_t i = first; i < last; i++)
        most = fmax(most, race->candidates[i].transfers);
    if (threads * most > CCL_I_SKETCH_TRANSFERS) /* memory */
        threads = (uint32_t)fmax(1, CCL_I_SKETCH_TRANSFERS / most);
    race->rounds.threads = threads;
    race->rounds.total = race->n;
    find_best(race, first, race->best_s);
    CCL_TRY(ccl_i_race_run(&race->rounds, last - first, err));
    for (uint32_t i = first; i < last; i++) {
        ccl_i_candidate_t *c = &race->candidates[i];

        c->time_s = race->rounds.results[i - first].time_s;
        c->late = race->rounds.results[i - first].late;
        if (!c->late)
            log_candidate(race->ctx, race->sketches, c);
    }
    if (race->rounds.best.index != CCL_NONE) {
        *best = first + race->rounds.best.index;
        *best_s = race->rounds.best.time_s;
    }
    return CCL_OK; /* none fits a GPU's thread blocks: the first, for lowering by state to try */
}

/* All from `first` on, unless the first few are good enough; those given in any case. */
static ccl_status_t race_from(race_t *race, uint32_t first, uint32_t threads, uint32_t *best,
                              double *best_s, ccl_error_t *err) {
    uint32_t last = first;

    while (last < race->n &&
           (last < first + POLICY.first_round || race->candidates[last].mix->given))
        last++;
    CCL_TRY(race_some(race, first, last, threads, best, best_s, err));
    if (enough(race, *best_s))
        race->n = last;
    return race_some(race, last, race->n, threads, best, best_s, err);
}

/* How a candidate is made. */
typedef enum how { PLAIN, FLOWS, APART } how_t;

/* The candidate `from` in another shape, over other channels, or in other cuts, joins the race, if
   it fits and was not there yet. @param cuts  0: as the estimate says */
static ccl_status_t add_made(ccl_i_candidates_t *all, race_t *race, const ccl_i_mix_t *mix,
                             uint8_t net, uint32_t channels, uint32_t cuts, how_t how,
                             ccl_error_t *err) {
    ccl_i_candidates_t one = {0};
    bool ok;

    if (mix->given)
        return CCL_OK; /* as it was given */
    ok = ccl_i_candidates_add(&one, race->space, race->sketches, mix, channels, cuts, &race->costs,
                              (ccl_i_shape_t)net);
    for (uint32_t i = 0; ok && one.n && i < race->n; i++) {
        const ccl_i_candidate_t *c = &all->items[i];

        if (c->mix == mix && c->channels == channels && c->cuts == one.items[0].cuts &&
            (c->flow_bytes > 0) == (how == FLOWS) && c->apart == (how == APART) &&
            memcmp(c->shapes, one.items[0].shapes, sizeof c->shapes) == 0)
            one.n = 0;
    }
    if (ok && one.n && !one.items[0].hopeless &&
        race->transfers + one.items[0].transfers <= POLICY.simulated) {
        ok = ccl_grow(&all->items, &all->cap, all->n + 1, sizeof *all->items);
        if (ok) { /* behind those raced so far */
            memmove(all->items + race->n + 1, all->items + race->n,
                    (all->n - race->n) * sizeof *all->items);
            one.items[0].flow_bytes = how == FLOWS ? race->size_bytes : 0;
            one.items[0].apart = how == APART;
            all->items[race->n++] = one.items[0];
            all->n++;
            race->transfers += one.items[0].transfers;
        }
    }
    free(one.items);
    race->candidates = all->items;
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t add_variant(ccl_i_candidates_t *all, race_t *race, uint32_t from_index,
                                uint32_t channels, uint32_t cuts, ccl_error_t *err) {
    const ccl_i_candidate_t from = all->items[from_index];

    return add_made(all, race, from.mix, from.net, channels, cuts, PLAIN, err);
}

/* Where latency counts most there is nothing to gain. */
static bool worth_pieces(const race_t *race, const ccl_i_mix_t *mix) {
    return mix->s_per_byte * race->costs.chunk_bytes >= mix->depth_s;
}

/* How far a candidate is behind the fastest: of reductions in either order, since one that is far
   ahead in one order says little of what the other will gain. */
static double behind(const ccl_i_candidate_t *c, const double best_s[3]) {
    double behind = c->time_s / best_s[2];

    for (int k = 0; k < 2; k++) {
        if (isfinite(best_s[k]))
            behind = fmin(behind, c->order_s[k] / best_s[k]);
    }
    return behind;
}

/* Of the first n. @param best_s  the least in its own order, in the mirrored one, in any */
static void find_best(const race_t *race, uint32_t n, double best_s[3]) {
    const ccl_i_candidate_t *c = race->candidates;

    best_s[0] = best_s[1] = best_s[2] = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        for (int k = 0; k < 2 && !c[i].late && reduces(race) && !(c[i].flow_bytes > 0); k++)
            best_s[k] = fmin(best_s[k], c[i].order_s[k]);
        best_s[2] = c[i].late ? best_s[2] : fmin(best_s[2], c[i].time_s);
    }
}

/* The fastest so far, one candidate a mix, as long as they are not slower by more than `within`;
   how many there are. */
static uint32_t leaders(const race_t *race, double within, uint32_t out[FINE_MIXES]) {
    const ccl_i_candidate_t *c = race->candidates;
    double best_s[3];
    uint32_t n = 0;

    find_best(race, race->n, best_s);
    while (n < FINE_MIXES) {
        uint32_t next = CCL_NONE;

        for (uint32_t i = 0; i < race->n; i++) {
            bool tried = c[i].late || !isfinite(c[i].time_s);

            for (uint32_t k = 0; k < n; k++)
                tried |= c[out[k]].mix == c[i].mix;
            if (!tried && (next == CCL_NONE || behind(&c[i], best_s) < behind(&c[next], best_s) ||
                           (behind(&c[i], best_s) == behind(&c[next], best_s) &&
                            c[i].time_s < c[next].time_s)))
                next = i;
        }
        if (next == CCL_NONE || behind(&c[next], best_s) > within)
            break;
        out[n++] = next;
    }
    return n;
}

/* The first parts of a mix do not show what it gains by smaller pieces: the fastest few at once in
   many more, where that costs little. */
static ccl_status_t race_piped(ccl_i_candidates_t *all, race_t *race, uint32_t threads,
                               uint32_t *best, double *best_s, ccl_error_t *err) {
    uint32_t leader[FINE_MIXES], n = leaders(race, POLICY.fine_within, leader), done = race->n;

    for (uint32_t k = 0; k < n; k++) {
        const ccl_i_candidate_t c = all->items[leader[k]];
        uint32_t times = POLICY.piped_times;

        if (!worth_pieces(race, c.mix))
            continue;
        if (times * c.cuts <= CCL_I_SKETCH_CUTS && times * c.transfers <= POLICY.piped)
            CCL_TRY(add_variant(all, race, leader[k], c.channels, times * c.cuts, err));
        /* Parts that are as long as a micro-batch's gain nothing by it, quarters of them may. */
        times *= 4;
        if (times * c.cuts <= CCL_I_SKETCH_CUTS && times * c.transfers <= POLICY.piped &&
            race->costs.chunk_bytes / c.parts / POLICY.piped_times >= race->space->piece_bytes / 2)
            CCL_TRY(add_variant(all, race, leader[k], c.channels, times * c.cuts, err));
    }
    return race->n > done ? race_from(race, done, threads, best, best_s, err) : CCL_OK;
}

/* The candidate in ever more cuts, or ever fewer, as long as that gains; where it costs little, one
   step without a gain is not the last: twice the connections may come before the flow. */
static ccl_status_t climb(ccl_i_candidates_t *all, race_t *race, uint32_t now, bool up,
                          uint32_t threads, uint32_t *best, double *best_s, ccl_error_t *err) {
    uint32_t missed = 0;

    for (double before_s = INFINITY; !enough(race, *best_s);) {
        const ccl_i_candidate_t c = all->items[now];
        uint32_t done = race->n, cuts = up ? 2 * c.cuts : c.cuts / 2;

        missed = c.time_s > before_s * (1 - CCL_I_SKETCH_CUT_GAIN) ? missed + 1 : 0;
        if (missed > (c.transfers <= POLICY.cheap))
            break;
        before_s = fmin(before_s, c.time_s);
        if (cuts && cuts <= CCL_I_SKETCH_CUTS && (!up || 2 * c.transfers <= POLICY.fine))
            CCL_TRY(add_variant(all, race, now, c.channels, cuts, err));
        if (race->n == done)
            break;
        race->keep_s = before_s;
        CCL_TRY(race_from(race, done, threads, best, best_s, err));
        race->keep_s = 0;
        now = done;
    }
    return CCL_OK;
}

/* The fastest of reductions in an order, its own or the mirrored one; CCL_NONE: none. */
static uint32_t fastest_in(const race_t *race, int order) {
    const ccl_i_candidate_t *c = race->candidates;
    uint32_t best = CCL_NONE;

    for (uint32_t i = 0; i < race->n && reduces(race); i++) {
        if (!c[i].late && !(c[i].flow_bytes > 0) && isfinite(c[i].order_s[order]) &&
            (best == CCL_NONE || c[i].order_s[order] < c[best].order_s[order]))
            best = i;
    }
    return best;
}

/* The fastest two mixes in more cuts, and in fewer; of reductions the fastest in either order. */
static ccl_status_t race_cuts(ccl_i_candidates_t *all, race_t *race, double within,
                              uint32_t threads, uint32_t *best, double *best_s, ccl_error_t *err) {
    uint32_t leader[FINE_MIXES + 2], n = leaders(race, 1 + within, leader);

    n = n < CUT_MIXES ? n : CUT_MIXES;
    for (int order = 0; order < 2; order++) {
        uint32_t first = fastest_in(race, order);
        bool there = first == CCL_NONE;

        for (uint32_t k = 0; k < n; k++)
            there |= leader[k] == first;
        if (!there)
            leader[n++] = first;
    }
    for (uint32_t k = 0; k < n; k++) {
        CCL_TRY(climb(all, race, leader[k], true, threads, best, best_s, err));
        CCL_TRY(climb(all, race, leader[k], false, threads, best, best_s, err));
    }
    return CCL_OK;
}

/*
 * What wins, and the best mix over one channel, with what is handed on apart from what a GPU sends
 * of its own: neither then waits for the other, and the first hop takes no more connections.
 */
static ccl_status_t race_apart(ccl_i_candidates_t *all, race_t *race, uint32_t threads,
                               uint32_t *best, double *best_s, ccl_error_t *err) {
    const ccl_i_candidate_t c = all->items[*best];
    const uint32_t done = race->n, own = ccl_i_candidate_parts(race->space, race->sketches, c.mix);
    const uint32_t channels = c.channels > 1 ? c.channels / 2 : 1;
    const uint32_t cuts = c.parts / (own * ((channels + own - 1) / own)); /* as many parts */

    if (race->space->scatter || c.flow_bytes > 0 || enough(race, *best_s) ||
        !worth_pieces(race, c.mix))
        return CCL_OK;
    for (uint32_t times = 1; times <= 2; times++) {
        if (cuts && times * cuts <= CCL_I_SKETCH_CUTS && times * c.transfers <= POLICY.cheap)
            CCL_TRY(add_made(all, race, c.mix, c.net, channels, times * cuts, APART, err));
    }
    return race->n > done ? race_from(race, done, threads, best, best_s, err) : CCL_OK;
}

/* Where roots differ what wins in the other shapes: where rails lack a GPU short chains and long
   ones differ, which shows in that many cuts only. */
static ccl_status_t race_shapes(ccl_i_candidates_t *all, race_t *race, uint32_t threads,
                                uint32_t *best, double *best_s, ccl_error_t *err) {
    ccl_i_candidate_t c = all->items[*best];
    const uint32_t done = race->n;

    if (race->space->nclasses < 2 || c.flow_bytes > 0 || c.transfers > POLICY.fine ||
        enough(race, *best_s))
        return CCL_OK;
    CCL_TRY(ccl_i_candidate_sign(race->space, race->sketches, &c, true, err));
    for (uint8_t net = CCL_I_SHAPE_DIRECT; net < CCL_I_SHAPES; net++) {
        const uint32_t last = race->n;
        ccl_i_candidate_t *other;

        CCL_TRY(add_made(all, race, c.mix, net, c.channels, c.cuts, PLAIN, err));
        if (race->n == last)
            continue;
        other = &all->items[last];
        CCL_TRY(ccl_i_candidate_sign(race->space, race->sketches, other, true, err));
        if (other->signature == c.signature) { /* solved groups have no shape */
            race->transfers -= other->transfers;
            memmove(other, other + 1, (--all->n - last) * sizeof *other);
            race->n = last;
        }
    }
    return race->n > done ? race_from(race, done, threads, best, best_s, err) : CCL_OK;
}

/* Joins the race in as many cuts as the policy's transfers make, all parts of a cut over channels
   of their own. */
static ccl_status_t add_flow(ccl_i_candidates_t *all, race_t *race, const ccl_i_mix_t *mix,
                             uint8_t net, ccl_error_t *err) {
    const uint32_t own = ccl_i_candidate_parts(race->space, race->sketches, mix);
    const double transfers = race->costs.ways * mix->transfers / mix->parts * own;
    uint32_t cuts = 1;

    while (2 * cuts <= CCL_I_SKETCH_CUTS && 2 * cuts * transfers <= POLICY.flow)
        cuts *= 2;
    if (cuts * transfers > POLICY.flow)
        return CCL_OK;
    race->transfers -= fmin(race->transfers, cuts * transfers); /* beside the others */
    return add_made(all, race, mix, net, own, cuts, FLOWS, err);
}

/* The mix with trees that were balanced for groups which promises most, but those taken already;
   NULL: none. */
static const ccl_i_mix_t *next_balanced(const ccl_i_candidates_t *all, const race_t *race,
                                        const ccl_i_mix_t *const *taken, uint32_t n) {
    const ccl_i_mix_t *next = NULL;
    double next_s = INFINITY;

    for (size_t i = 0; i < all->n; i++) {
        const ccl_i_mix_t *mix = all->items[i].mix;
        double s = mix->depth_s + mix->s_per_byte * race->costs.chunk_bytes;
        bool tried = s >= next_s || !ccl_i_mix_solved(race->sketches, mix) ||
                     mix->s_per_byte * race->costs.chunk_bytes > POLICY.flow_load * race->least_s;

        for (uint32_t t = 0; t < n; t++)
            tried |= taken[t] == mix;
        if (!tried) {
            next = mix;
            next_s = s;
        }
    }
    return next;
}

/* In twice as many pieces, or half, as long as that gains. */
static ccl_status_t climb_flow(ccl_i_candidates_t *all, race_t *race, bool up, uint32_t threads,
                               uint32_t *best, double *best_s, ccl_error_t *err) {
    for (double before_s = INFINITY; *best_s < before_s * (1 - CCL_I_SKETCH_CUT_GAIN);) {
        const ccl_i_candidate_t c = all->items[*best];
        const uint32_t done = race->n, cuts = up ? 2 * c.cuts : c.cuts / 2;

        if (!(c.flow_bytes > 0) || cuts < 1 || cuts > CCL_I_SKETCH_CUTS ||
            (up && 2 * c.transfers > POLICY.flow_climb) || enough(race, *best_s))
            break;
        before_s = *best_s;
        race->transfers -= fmin(race->transfers, 2 * c.transfers); /* beside the others */
        CCL_TRY(add_made(all, race, c.mix, c.net, c.channels, cuts, FLOWS, err));
        if (race->n > done)
            CCL_TRY(race_from(race, done, threads, best, best_s, err));
    }
    return CCL_OK;
}

/*
 * Without micro-batches pieces can be in an order that fills and drains the links: what has far to
 * go first. That of the best, and of trees that were balanced for groups, which are so while all of
 * them flow: side by side they show little.
 */
static ccl_status_t race_flow(ccl_i_candidates_t *all, race_t *race, uint32_t threads,
                              uint32_t *best, double *best_s, ccl_error_t *err) {
    const uint32_t done = race->n;
    const ccl_i_mix_t *taken[FLOW_MIXES + 1] = {all->items[*best].mix};

    if (isfinite(race->space->piece_bytes) || !worth_pieces(race, taken[0]) ||
        enough(race, *best_s))
        return CCL_OK;
    CCL_TRY(add_flow(all, race, taken[0], all->items[*best].net, err));
    for (uint32_t n = 1; n <= FLOW_MIXES; n++) {
        taken[n] = next_balanced(all, race, taken, n);
        if (!taken[n])
            break;
        CCL_TRY(add_flow(all, race, taken[n], CCL_I_SHAPE_DIRECT, err));
    }
    if (race->n == done)
        return CCL_OK;
    CCL_TRY(race_from(race, done, threads, best, best_s, err));
    CCL_TRY(climb_flow(all, race, true, threads, best, best_s, err));
    return climb_flow(all, race, false, threads, best, best_s, err);
}

/*
 * No estimate shows what several channels gain (thread blocks that fill a link, NICs, flows that do
 * not wait for each other): the fastest once more over four, then what wins over other numbers.
 */
static ccl_status_t race_fine(ccl_i_candidates_t *all, race_t *race, const ccl_i_sketch_run_t *run,
                              uint32_t threads, uint32_t *best, double *best_s, ccl_error_t *err) {
    uint32_t done = race->n, leader[FINE_MIXES + 1 + ALIKE];
    uint32_t n = leaders(race, POLICY.fine_within, leader);
    bool four = false;

    leader[n++] = 0; /* the best estimate, which may be held up by its one channel */
    for (uint32_t i = 0; i < done; i++) { /* as a line through few connections is */
        if (all->items[i].line)
            leader[n++] = i;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (worth_pieces(race, all->items[leader[k]].mix))
            CCL_TRY(add_variant(all, race, leader[k], FIRST_CHANNELS, 0, err));
    }
    if (race->n > done)
        CCL_TRY(race_from(race, done, threads, best, best_s, err));
    done = race->n;
    for (int order = 0; order < 2; order++) { /* of reductions in either order */
        uint32_t first = fastest_in(race, order);

        four |= first != CCL_NONE && all->items[first].channels == FIRST_CHANNELS;
    }
    four |= all->items[*best].channels == FIRST_CHANNELS;
    for (size_t f = 0; f < CCL_ARRAY_LEN(FINE_CHANNELS) && !enough(race, *best_s); f++) {
        /* Beyond four only where four were better; fewer also for the second. */
        if (FINE_CHANNELS[f] > FIRST_CHANNELS && !four)
            break;
        n = FINE_CHANNELS[f] > FIRST_CHANNELS ? 1 : leaders(race, POLICY.fine_within, leader);
        leader[0] = *best;
        for (uint32_t k = 0; k < n && k < CUT_MIXES; k++)
            CCL_TRY(add_variant(all, race, leader[k], FINE_CHANNELS[f], 0, err));
    }
    if (race->n > done)
        CCL_TRY(race_from(race, done, threads, best, best_s, err));
    CCL_TRY(race_piped(all, race, threads, best, best_s, err));
    CCL_TRY(race_cuts(all, race, run->within, threads, best, best_s, err));
    CCL_TRY(race_apart(all, race, threads, best, best_s, err));
    CCL_TRY(race_shapes(all, race, threads, best, best_s, err));
    return race_flow(all, race, threads, best, best_s, err);
}

/* Time of the candidate as it will be lowered, all ways that cost little tried; INFINITY: it has
   too many sends, or does not fit. */
static ccl_status_t lowered_time(const race_t *race, const ccl_i_candidate_t *c, double *time_s,
                                 ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_timed_program_t timed = {NULL, NULL};
    ccl_status_t status = ccl_i_candidate_make(race->ctx, race->space, race->sketches, c,
                                               race->cluster, race->want, &schedule, err);

    *time_s = INFINITY;
    lower.order = CCL_ORDER_HPDS;
    lower.allocation = CCL_ALLOCATE_STATE;
    lower.granularity = CCL_GRANULARITY_TASK;
    lower.rough = true;
    lower.topo = race->space->topo;
    lower.routes = race->given;
    lower.size_bytes = race->size_bytes;
    if (status == CCL_OK && sends_of(race, schedule) <= POLICY.lowered) {
        status = ccl_lower(race->ctx, schedule, &lower, &timed.program, err);
        if (status == CCL_OK)
            status = ccl_lower_run(race->ctx, &lower, &timed, 0, err);
        else if (status == CCL_UNSUPPORTED)
            status = CCL_OK;
        if (timed.run)
            *time_s = timed.run->time_s;
    }
    ccl_timed_program_fini(&timed);
    ccl_schedule_destroy(schedule);
    return status;
}

/*
 * Lowering also runs reductions part by part, in steps, over more channels, and what gains most by
 * that is not what was fastest before. Of those that are nearly so in either order, by turns, what
 * is faster once lowered is it.
 */
static ccl_status_t decide(const race_t *race, uint32_t *best, ccl_error_t *err) {
    const ccl_i_candidate_t *c = race->candidates;
    uint32_t tried[FINALISTS];
    double best_s[3], least_s = INFINITY;
    int n = 0;

    if (c[*best].flow_bytes > 0 || !isfinite(c[*best].time_s))
        return CCL_OK;
    find_best(race, race->n, best_s);
    for (int k = 0; n < FINALISTS; k = !k) {
        uint32_t next = CCL_NONE;
        double s;

        for (uint32_t i = 0; i < race->n; i++) {
            bool in = !c[i].late && !(c[i].flow_bytes > 0) &&
                      c[i].order_s[k] <= best_s[k] * POLICY.finalists_within;

            for (int t = 0; t < n; t++)
                in &= tried[t] != i;
            if (in && (next == CCL_NONE || c[i].order_s[k] < c[next].order_s[k]))
                next = i;
        }
        if (next == CCL_NONE && n > 0)
            break;
        if (next == CCL_NONE)
            continue;
        tried[n++] = next;
        CCL_TRY(lowered_time(race, &c[next], &s, err));
        if (!isfinite(s)) /* too many sends: by the times there are */
            break;
        if (s < least_s) {
            least_s = s;
            *best = next;
        }
    }
    return CCL_OK;
}

/* What follows from the run; who races and on what is set. */
static void race_init(race_t *race, const ccl_i_sketch_run_t *run) {
    const ccl_collective_t *want = race->want;

    race->within = fmax(POLICY.fine_within, 1 + run->within);
    race->costs.size_bytes = run->size_bytes;
    race->costs.chunk_bytes = run->size_bytes * (want->nchunks ? want->chunks[0].share : 1);
    if (want->kind == CCL_ALLREDUCE)
        race->costs.chunk_bytes /= race->space->topo->nranks; /* a chunk of every root */
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

/* The winner's schedule, and what it is made of. */
static ccl_status_t take(const race_t *race, const ccl_i_candidate_t *best, ccl_i_chosen_t *chosen,
                         ccl_schedule_t **out, ccl_error_t *err) {
    chosen->mix = best->mix;
    chosen->channels = best->channels;
    chosen->cuts = best->cuts;
    chosen->apart = best->apart;
    chosen->flows = best->flow_bytes > 0;
    memcpy(chosen->shapes, best->shapes, sizeof chosen->shapes);
    CCL_TRY(ccl_i_candidate_make(race->ctx, race->space, race->sketches, best, race->cluster,
                                 race->want, out, err));
    return ccl_i_sketch_origin(race->sketches, best->mix, (*out)->origin, err);
}

ccl_status_t ccl_i_sketch_choose(const ccl_ctx_t *ctx, const ccl_i_space_t *space,
                                 const ccl_i_sketches_t *sketches, const ccl_i_mixes_t *mixes,
                                 ccl_routes_t *routes, const ccl_collective_t *want,
                                 const ccl_i_sketch_run_t *run, ccl_i_chosen_t *chosen,
                                 ccl_schedule_t **out, ccl_error_t *err) {
    ccl_i_candidates_t all = {0};
    race_t race = {.ctx = ctx,
                   .space = space,
                   .sketches = sketches,
                   .want = want,
                   .size_bytes = run->size_bytes,
                   .given = routes,
                   .costs = {.ways = want->kind == CCL_ALLREDUCE ? 2 : 1,
                             .sms = least_sms(space->topo),
                             .fixed = run->channels != 0}};
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    uint32_t channels = run->channels, best = 0;
    double best_s = INFINITY;
    const ccl_i_racer_t *own;
    ccl_status_t status;

    race_init(&race, run);
    CCL_TRY_GOTO(ccl_i_race_racer(&race.rounds, &own, err), status, end);
    race.cluster = own->cluster;
    if (channels == 0)
        channels =
            ccl_i_cluster_channels(race.cluster, race.cluster->max_gpus - 1,
                                   2 * race.cluster->max_gpus, ccl_i_collective_transfers(want));
    CCL_TRY_GOTO(ccl_i_candidates_fill(&all, space, sketches, mixes, channels, &race.costs, err),
                 status, end);
    CCL_TRY_GOTO(worth(&all, &race, run, err), status, end);
    race.candidates = all.items;
    race.least_s = INFINITY;
    for (size_t i = 0; i < mixes->n; i++)
        race.least_s =
            fmin(race.least_s, mixes->items[i].ideal_s_per_byte * race.costs.chunk_bytes);
    if (race.n > 1 || run->fine) /* else there is no choice */
        CCL_TRY_GOTO(race_from(&race, 0, threads, &best, &best_s, err), status, end);
    if (run->fine && !enough(&race, best_s))
        CCL_TRY_GOTO(race_fine(&all, &race, run, threads, &best, &best_s, err), status, end);
    if (reduces(&race))
        CCL_TRY_GOTO(decide(&race, &best, err), status, end);
    if (run->stats)
        run->stats->candidates += all.n;
    status = take(&race, &all.items[best], chosen, out, err);
    for (uint32_t i = 0; status == CCL_OK && i < race.n; i++) {
        (*out)->limited |= all.items[i].late;
        if (run->stats)
            run->stats->simulated += race.n > 1 && !all.items[i].late;
    }
end:
    ccl_i_race_fini(&race.rounds);
    free(all.items);
    return status;
}
