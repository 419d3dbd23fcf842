/* The choice of the sketch synthesizer: the best candidates simulated (SyCCL, section 5.2). */
#include "synth/sketch/choose.h"
#include "synth/sketch/solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reductions that are lowered. */
enum { FINALISTS = 6, ALIKE_FINALISTS = 2 };

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
static uint32_t add_lines(ccl_i_sketch_race_t *race, uint32_t n) {
    uint32_t chains = 0;

    for (size_t i = n; race->space->port && i < race->all.n && chains < CCL_I_SKETCH_ALIKE; i++) {
        ccl_i_candidate_t c = race->all.items[i];

        if (c.net != CCL_I_SHAPE_CHAIN || c.wide || c.mix->n > 1 ||
            !in_line(race->space, &race->sketches->items[c.mix->sketch[0]]) ||
            race->transfers + c.transfers > ccl_i_sketch_policy.simulated)
            continue;
        chains++;
        c.line = true;
        race->transfers += c.transfers;
        memmove(race->all.items + n + 1, race->all.items + n, (i - n) * sizeof c);
        race->all.items[n++] = c;
    }
    return n;
}

/*
 * Those worth a simulation come to the front: near the first, few of those whose estimates do not
 * tell them apart, together not too long.
 */
static ccl_status_t worth(ccl_i_sketch_race_t *race, const ccl_i_sketch_run_t *run,
                          ccl_error_t *err) {
    double limit_s, *transfers = &race->transfers;
    uint32_t n = 0, counted = 0, large = 0;

    /* All that the user gave, and as many of the others as ever. */
    while (n < race->all.n && race->all.items[n].mix->given)
        n++;
    const uint32_t given = n;

    limit_s = given < race->all.n ? race->all.items[given].estimate_s * (1 + run->within) : 0;
    for (size_t i = given; i < race->all.n && n - given < run->most; i++) {
        ccl_i_candidate_t c = race->all.items[i];
        bool same = false, trees_alone = c.transfers > ccl_i_sketch_policy.trees_alone &&
                                         !ccl_i_sketch_reduces(race);

        if (c.estimate_s > limit_s)
            continue; /* those that are too wide come last, whatever their estimate */
        if (count_alike(race->sketches, race->all.items, n, &c) >= CCL_I_SKETCH_ALIKE)
            continue;
        CCL_TRY(ccl_i_candidate_sign(race->space, race->sketches, &c, !trees_alone, err));
        for (uint32_t k = 0; k < n; k++)
            same |= race->all.items[k].signature == c.signature && !race->all.items[k].mix->given;
        if (same)
            continue;
        if (c.transfers > CCL_I_SKETCH_LARGE && large > 0)
            continue; /* estimates of that many are no better: rather a few of less */
        if (c.net != CCL_I_SHAPE_DIRECT && race->costs.sms && !c.wide &&
            counted < ccl_i_sketch_policy.counted) {
            bool fit = true;

            CCL_TRY(
                ccl_i_candidate_fits(race->space, race->sketches, &c, race->costs.sms, &fit, err));
            counted++;
            if (!fit) {
                limit_s = n > given ? limit_s : next_limit(&race->all, i + 1, run->within);
                continue;
            }
        }
        if (c.transfers > CCL_I_SKETCH_LARGE)
            large++;
        else if (n > given + 1 && *transfers + c.transfers > ccl_i_sketch_policy.simulated)
            break;
        else
            *transfers += c.transfers;
        memmove(race->all.items + n + 1, race->all.items + n, (i - n) * sizeof c);
        race->all.items[n++] = c;
    }
    race->n = add_lines(race, n);
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

/* Time of the candidate as it will be lowered, all ways that cost little tried; INFINITY: it has
   too many sends, or does not fit. */
static ccl_status_t lowered_time(const ccl_i_sketch_race_t *race, const ccl_i_candidate_t *c,
                                 double *time_s, ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_timed_program_t timed = {NULL, NULL};
    const ccl_i_racer_t with = {race->ctx, race->given, race->cluster};
    ccl_status_t status =
        ccl_i_candidate_make(&with, race->space, race->sketches, c, race->want, &schedule, err);

    *time_s = INFINITY;
    lower.order = CCL_ORDER_HPDS;
    lower.allocation = CCL_ALLOCATE_STATE;
    lower.granularity = CCL_GRANULARITY_TASK;
    lower.rough = true;
    lower.topo = race->space->topo;
    lower.routes = race->given;
    lower.size_bytes = race->size_bytes;
    if (status == CCL_OK && ccl_i_sketch_sends(race, schedule) <= ccl_i_sketch_policy.lowered) {
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

/* Whether two differ in their cuts only: then lowering does much the same to both. */
static bool differ_in_cuts(const ccl_i_candidate_t *a, const ccl_i_candidate_t *b) {
    return a->mix == b->mix && a->channels == b->channels && a->apart == b->apart &&
           memcmp(a->shapes, b->shapes, sizeof a->shapes) == 0;
}

/*
 * Lowering also runs reductions part by part, in steps, over more channels, and what gains most by
 * that is not what was fastest before. Of those that are nearly so in either order, by turns, what
 * is faster once lowered is it. Of a small cluster's long runs two of the same in other cuts do.
 */
static ccl_status_t decide(ccl_i_sketch_race_t *race, ccl_error_t *err) {
    const ccl_i_candidate_t *c = race->all.items;
    uint32_t tried[FINALISTS];
    double best_s[3], least_s = INFINITY;
    int n = 0;

    if (c[race->fastest].flow_bytes > 0 || !isfinite(c[race->fastest].time_s))
        return CCL_OK;
    ccl_i_sketch_find_best(race, race->n, best_s);
    for (int k = 0; n < FINALISTS; k = !k) {
        uint32_t next = CCL_NONE;
        double s;

        for (uint32_t i = 0; i < race->n; i++) {
            bool in = !c[i].late && !(c[i].flow_bytes > 0) &&
                      c[i].order_s[k] <= best_s[k] * ccl_i_sketch_policy.finalists_within;
            int alike = 0;

            for (int t = 0; t < n; t++) {
                in &= tried[t] != i;
                alike += differ_in_cuts(&c[tried[t]], &c[i]);
            }
            in &= alike < ALIKE_FINALISTS || !ccl_i_sketch_is_long(race, &c[i]);
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
            race->fastest = next;
        }
    }
    return CCL_OK;
}

/* The winner's schedule, and what it is made of. */
static ccl_status_t take(const ccl_i_sketch_race_t *race, ccl_i_chosen_t *chosen,
                         ccl_schedule_t **out, ccl_error_t *err) {
    const ccl_i_candidate_t *best = &race->all.items[race->fastest];

    chosen->mix = best->mix;
    chosen->channels = best->channels;
    chosen->cuts = best->cuts;
    chosen->apart = best->apart;
    chosen->flows = best->flow_bytes > 0;
    memcpy(chosen->shapes, best->shapes, sizeof chosen->shapes);
    const ccl_i_racer_t with = {race->ctx, race->given, race->cluster};
    CCL_TRY(ccl_i_candidate_make(&with, race->space, race->sketches, best, race->want, out, err));
    return ccl_i_sketch_origin(race->sketches, best->mix, (*out)->origin, err);
}

ccl_status_t ccl_i_sketch_choose(const ccl_i_asked_t *asked, const ccl_i_sketch_choices_t *among,
                                 const ccl_i_sketch_run_t *run, ccl_i_chosen_t *chosen,
                                 ccl_schedule_t **out, ccl_error_t *err) {
    const ccl_ctx_t *ctx = asked->ctx;
    const ccl_collective_t *want = asked->want;
    const ccl_i_mixes_t *mixes = among->mixes;
    ccl_i_sketch_race_t race = {.ctx = ctx,
                                .space = among->space,
                                .sketches = among->sketches,
                                .want = want,
                                .size_bytes = run->size_bytes,
                                .given = asked->routes,
                                .threads = ctx && ctx->threads ? ctx->threads : ccl_core_count(),
                                .fastest_s = INFINITY,
                                .costs = {.ways = want->kind == CCL_ALLREDUCE ? 2 : 1,
                                          .sms = least_sms(among->space->topo),
                                          .fixed = run->channels != 0}};
    uint32_t channels = run->channels;
    const ccl_i_racer_t *own;
    ccl_status_t status;

    ccl_i_sketch_race_init(&race, run);
    CCL_TRY_GOTO(ccl_i_race_racer(&race.rounds, &own, err), status, end);
    race.cluster = own->cluster;
    if (channels == 0)
        channels =
            ccl_i_cluster_channels(race.cluster, race.cluster->max_gpus - 1,
                                   2 * race.cluster->max_gpus, ccl_i_collective_transfers(want));
    CCL_TRY_GOTO(ccl_i_candidates_fill(&race.all, race.space, race.sketches, mixes, channels,
                                       &race.costs, err),
                 status, end);
    CCL_TRY_GOTO(worth(&race, run, err), status, end);
    race.least_s = INFINITY;
    for (size_t i = 0; i < mixes->n; i++)
        race.least_s =
            fmin(race.least_s, mixes->items[i].ideal_s_per_byte * race.costs.chunk_bytes);
    if (race.n > 1 || run->fine) /* else there is no choice */
        CCL_TRY_GOTO(ccl_i_sketch_race_from(&race, 0, err), status, end);
    if (run->fine && !ccl_i_sketch_enough(&race))
        CCL_TRY_GOTO(ccl_i_sketch_fine(&race, run->within, err), status, end);
    if (ccl_i_sketch_reduces(&race))
        CCL_TRY_GOTO(decide(&race, err), status, end);
    if (run->stats)
        run->stats->candidates += race.all.n;
    status = take(&race, chosen, out, err);
    for (uint32_t i = 0; status == CCL_OK && i < race.n; i++) {
        (*out)->limited |= race.all.items[i].late;
        if (run->stats)
            run->stats->simulated += race.n > 1 && !race.all.items[i].late;
    }
end:
    ccl_i_race_fini(&race.rounds);
    free(race.all.items);
    return status;
}
