/*
 * What joins the race of the sketch synthesizer when it is known who leads: the same over more
 * channels, in other cuts and shapes, as pieces that flow.
 */
#include "synth/sketch/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Channels: the best over four, and what wins over as many as these. */
static const uint32_t FINE_CHANNELS[] = {2, 8, 16};
enum { FINE_MIXES = 4, CUT_MIXES = 2, FIRST_CHANNELS = 4 };
/* Mixes beside the best whose pieces flow. */
enum { FLOW_MIXES = 2 };

/* How a candidate is made. */
typedef enum how { PLAIN, FLOWS, APART } how_t;

/* A candidate in another shape, over other channels, or in other cuts, joins the race, if it fits
   and was not there yet. */
static ccl_status_t add_made(ccl_i_sketch_race_t *race, ccl_i_variant_t as, how_t how,
                             ccl_error_t *err) {
    ccl_i_candidates_t one = {0};
    bool ok;

    if (as.mix->given)
        return CCL_OK; /* as it was given */
    ok = ccl_i_candidates_add(&one, race->space, race->sketches, &race->costs, as);
    if (how != FLOWS && one.n &&
        one.items[0].transfers >
            fmax(race->all.items[race->fastest].transfers,
                 ccl_i_sketch_of_pairs(race, ccl_i_sketch_policy.small_fine, INFINITY)))
        one.n = 0;
    for (uint32_t i = 0; ok && one.n && i < race->n; i++) {
        const ccl_i_candidate_t *c = &race->all.items[i];

        if (c->mix == as.mix && c->channels == as.channels && c->cuts == one.items[0].cuts &&
            (c->flow_bytes > 0) == (how == FLOWS) && c->apart == (how == APART) &&
            memcmp(c->shapes, one.items[0].shapes, sizeof c->shapes) == 0)
            one.n = 0;
    }
    if (ok && one.n && !one.items[0].hopeless &&
        race->transfers + one.items[0].transfers <= ccl_i_sketch_policy.simulated) {
        ok = ccl_grow(&race->all.items, &race->all.cap, race->all.n + 1, sizeof *race->all.items);
        if (ok) { /* behind those raced so far */
            memmove(race->all.items + race->n + 1, race->all.items + race->n,
                    (race->all.n - race->n) * sizeof *race->all.items);
            one.items[0].flow_bytes = how == FLOWS ? race->size_bytes : 0;
            one.items[0].apart = how == APART;
            race->all.items[race->n++] = one.items[0];
            race->all.n++;
            race->transfers += one.items[0].transfers;
        }
    }
    free(one.items);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t add_variant(ccl_i_sketch_race_t *race, uint32_t from_index, uint32_t channels,
                                uint32_t cuts, ccl_error_t *err) {
    const ccl_i_candidate_t from = race->all.items[from_index];

    return add_made(race, (ccl_i_variant_t){from.mix, channels, cuts, (ccl_i_shape_t)from.net},
                    PLAIN, err);
}

/* Where latency counts most there is nothing to gain. */
static bool worth_pieces(const ccl_i_sketch_race_t *race, const ccl_i_mix_t *mix) {
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

/* The fastest so far, one candidate a mix, as long as they are not slower by more than `within`;
   how many there are. */
static uint32_t leaders(const ccl_i_sketch_race_t *race, double within, uint32_t out[FINE_MIXES]) {
    const ccl_i_candidate_t *c = race->all.items;
    double best_s[3];
    uint32_t n = 0;

    ccl_i_sketch_find_best(race, race->n, best_s);
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
static ccl_status_t race_piped(ccl_i_sketch_race_t *race, ccl_error_t *err) {
    uint32_t leader[FINE_MIXES], n = leaders(race, ccl_i_sketch_policy.fine_within, leader),
                                 done = race->n;

    for (uint32_t k = 0; k < n; k++) {
        const ccl_i_candidate_t c = race->all.items[leader[k]];
        uint32_t times = ccl_i_sketch_policy.piped_times;

        if (!worth_pieces(race, c.mix))
            continue;
        if (times * c.cuts <= CCL_I_SKETCH_CUTS && times * c.transfers <= ccl_i_sketch_policy.piped)
            CCL_TRY(add_variant(race, leader[k], c.channels, times * c.cuts, err));
        /* Parts that are as long as a micro-batch's gain nothing by it, quarters of them may. */
        times *= 4;
        if (times * c.cuts <= CCL_I_SKETCH_CUTS &&
            times * c.transfers <= ccl_i_sketch_policy.piped &&
            race->costs.chunk_bytes / c.parts / ccl_i_sketch_policy.piped_times >=
                race->space->piece_bytes / 2)
            CCL_TRY(add_variant(race, leader[k], c.channels, times * c.cuts, err));
    }
    return race->n > done ? ccl_i_sketch_race_from(race, done, err) : CCL_OK;
}

/* The candidate in ever more cuts, or ever fewer, as long as that gains; where it costs little, one
   step without a gain is not the last: twice the connections may come before the flow. */
static ccl_status_t climb(ccl_i_sketch_race_t *race, uint32_t now, bool up, ccl_error_t *err) {
    uint32_t missed = 0;

    for (double before_s = INFINITY; !ccl_i_sketch_enough(race);) {
        const ccl_i_candidate_t c = race->all.items[now];
        uint32_t done = race->n, cuts = up ? 2 * c.cuts : c.cuts / 2;

        missed = c.time_s > before_s * (1 - CCL_I_SKETCH_CUT_GAIN) ? missed + 1 : 0;
        if (missed > (c.transfers <= ccl_i_sketch_policy.cheap && !ccl_i_sketch_is_long(race, &c)))
            break;
        before_s = fmin(before_s, c.time_s);
        if (cuts && cuts <= CCL_I_SKETCH_CUTS &&
            (!up || 2 * c.transfers <= ccl_i_sketch_policy.fine))
            CCL_TRY(add_variant(race, now, c.channels, cuts, err));
        if (race->n == done)
            break;
        race->keep_s = before_s;
        CCL_TRY(ccl_i_sketch_race_from(race, done, err));
        race->keep_s = 0;
        now = done;
    }
    return CCL_OK;
}

/* The fastest of reductions in an order, its own or the mirrored one; CCL_NONE: none. */
static uint32_t fastest_in(const ccl_i_sketch_race_t *race, int order) {
    const ccl_i_candidate_t *c = race->all.items;
    uint32_t best = CCL_NONE;

    for (uint32_t i = 0; i < race->n && ccl_i_sketch_reduces(race); i++) {
        if (!c[i].late && !(c[i].flow_bytes > 0) && isfinite(c[i].order_s[order]) &&
            (best == CCL_NONE || c[i].order_s[order] < c[best].order_s[order]))
            best = i;
    }
    return best;
}

/* The fastest two mixes in more cuts, and in fewer; of reductions the fastest in either order. */
static ccl_status_t race_cuts(ccl_i_sketch_race_t *race, double within, ccl_error_t *err) {
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
        CCL_TRY(climb(race, leader[k], true, err));
        CCL_TRY(climb(race, leader[k], false, err));
    }
    return CCL_OK;
}

/*
 * What wins, and the best mix over one channel, with what is handed on apart from what a GPU sends
 * of its own: neither then waits for the other, and the first hop takes no more connections.
 */
static ccl_status_t race_apart(ccl_i_sketch_race_t *race, ccl_error_t *err) {
    const ccl_i_candidate_t c = race->all.items[race->fastest];
    const uint32_t done = race->n, own = ccl_i_candidate_parts(race->space, race->sketches, c.mix);
    const uint32_t channels = c.channels > 1 ? c.channels / 2 : 1;
    const uint32_t cuts = c.parts / (own * ((channels + own - 1) / own)); /* as many parts */

    if (race->space->scatter || c.flow_bytes > 0 || ccl_i_sketch_enough(race) ||
        !worth_pieces(race, c.mix))
        return CCL_OK;
    for (uint32_t times = 1; times <= 2; times++) {
        if (cuts && times * cuts <= CCL_I_SKETCH_CUTS &&
            times * c.transfers <= ccl_i_sketch_policy.cheap)
            CCL_TRY(add_made(race,
                             (ccl_i_variant_t){c.mix, channels, times * cuts, (ccl_i_shape_t)c.net},
                             APART, err));
    }
    return race->n > done ? ccl_i_sketch_race_from(race, done, err) : CCL_OK;
}

/* Where roots differ what wins in the other shapes: where rails lack a GPU short chains and long
   ones differ, which shows in that many cuts only. */
static ccl_status_t race_shapes(ccl_i_sketch_race_t *race, ccl_error_t *err) {
    ccl_i_candidate_t c = race->all.items[race->fastest];
    const uint32_t done = race->n;

    if (race->space->nclasses < 2 || c.flow_bytes > 0 || c.transfers > ccl_i_sketch_policy.fine ||
        ccl_i_sketch_enough(race))
        return CCL_OK;
    CCL_TRY(ccl_i_candidate_sign(race->space, race->sketches, &c, true, err));
    for (uint8_t net = CCL_I_SHAPE_DIRECT; net < CCL_I_SHAPES; net++) {
        const uint32_t last = race->n;
        ccl_i_candidate_t *other;

        CCL_TRY(add_made(race, (ccl_i_variant_t){c.mix, c.channels, c.cuts, (ccl_i_shape_t)net},
                         PLAIN, err));
        if (race->n == last)
            continue;
        other = &race->all.items[last];
        CCL_TRY(ccl_i_candidate_sign(race->space, race->sketches, other, true, err));
        if (other->signature == c.signature) { /* solved groups have no shape */
            race->transfers -= other->transfers;
            memmove(other, other + 1, (--race->all.n - last) * sizeof *other);
            race->n = last;
        }
    }
    return race->n > done ? ccl_i_sketch_race_from(race, done, err) : CCL_OK;
}

/* Joins the race in as many cuts as the policy's transfers make, all parts of a cut over channels
   of their own. */
static ccl_status_t add_flow(ccl_i_sketch_race_t *race, const ccl_i_mix_t *mix, uint8_t net,
                             ccl_error_t *err) {
    const uint32_t own = ccl_i_candidate_parts(race->space, race->sketches, mix);
    const double transfers = race->costs.ways * mix->transfers / mix->parts * own;
    const double most =
        ccl_i_sketch_of_pairs(race, ccl_i_sketch_policy.small_flow, ccl_i_sketch_policy.flow);
    uint32_t cuts = 1;

    while (2 * cuts <= CCL_I_SKETCH_CUTS && 2 * cuts * transfers <= most)
        cuts *= 2;
    if (cuts * transfers > ccl_i_sketch_policy.flow)
        return CCL_OK;
    race->transfers -= fmin(race->transfers, cuts * transfers); /* beside the others */
    return add_made(race, (ccl_i_variant_t){mix, own, cuts, (ccl_i_shape_t)net}, FLOWS, err);
}

/* The mix with trees that were balanced for groups which promises most, but those taken already;
   NULL: none. */
static const ccl_i_mix_t *next_balanced(const ccl_i_sketch_race_t *race,
                                        const ccl_i_mix_t *const *taken, uint32_t n) {
    const ccl_i_mix_t *next = NULL;
    double next_s = INFINITY;

    for (size_t i = 0; i < race->all.n; i++) {
        const ccl_i_mix_t *mix = race->all.items[i].mix;
        double s = mix->depth_s + mix->s_per_byte * race->costs.chunk_bytes;
        bool tried = s >= next_s || !ccl_i_mix_solved(race->sketches, mix) ||
                     mix->s_per_byte * race->costs.chunk_bytes >
                         ccl_i_sketch_policy.flow_load * race->least_s;

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
static ccl_status_t climb_flow(ccl_i_sketch_race_t *race, bool up, ccl_error_t *err) {
    const double most = ccl_i_sketch_of_pairs(race, 2 * ccl_i_sketch_policy.small_flow,
                                              ccl_i_sketch_policy.flow_climb);

    for (double before_s = INFINITY; race->fastest_s < before_s * (1 - CCL_I_SKETCH_CUT_GAIN);) {
        const ccl_i_candidate_t c = race->all.items[race->fastest];
        const uint32_t done = race->n, cuts = up ? 2 * c.cuts : c.cuts / 2;

        if (!(c.flow_bytes > 0) || cuts < 1 || cuts > CCL_I_SKETCH_CUTS ||
            (up && 2 * c.transfers > most) || ccl_i_sketch_enough(race))
            break;
        before_s = race->fastest_s;
        race->transfers -= fmin(race->transfers, 2 * c.transfers); /* beside the others */
        CCL_TRY(add_made(race, (ccl_i_variant_t){c.mix, c.channels, cuts, (ccl_i_shape_t)c.net},
                         FLOWS, err));
        if (race->n > done)
            CCL_TRY(ccl_i_sketch_race_from(race, done, err));
    }
    return CCL_OK;
}

/*
 * Without micro-batches pieces can be in an order that fills and drains the links: what has far to
 * go first. That of the best, and of trees that were balanced for groups, which are so while all of
 * them flow: side by side they show little.
 */
static ccl_status_t race_flow(ccl_i_sketch_race_t *race, ccl_error_t *err) {
    const uint32_t done = race->n;
    const ccl_i_mix_t *taken[FLOW_MIXES + 1] = {race->all.items[race->fastest].mix};

    if (isfinite(race->space->piece_bytes) || !worth_pieces(race, taken[0]) ||
        ccl_i_sketch_enough(race))
        return CCL_OK;
    CCL_TRY(add_flow(race, taken[0], race->all.items[race->fastest].net, err));
    for (uint32_t n = 1; n <= FLOW_MIXES; n++) {
        taken[n] = next_balanced(race, taken, n);
        if (!taken[n])
            break;
        CCL_TRY(add_flow(race, taken[n], CCL_I_SHAPE_DIRECT, err));
    }
    if (race->n == done)
        return CCL_OK;
    CCL_TRY(ccl_i_sketch_race_from(race, done, err));
    CCL_TRY(climb_flow(race, true, err));
    return climb_flow(race, false, err);
}

ccl_status_t ccl_i_sketch_fine(ccl_i_sketch_race_t *race, double within, ccl_error_t *err) {
    uint32_t done = race->n, leader[FINE_MIXES + 1 + CCL_I_SKETCH_ALIKE];
    uint32_t n = leaders(race, ccl_i_sketch_policy.fine_within, leader);
    bool four = false;

    leader[n++] = 0; /* the best estimate, which may be held up by its one channel */
    for (uint32_t i = 0; i < done; i++) { /* as a line through few connections is */
        if (race->all.items[i].line)
            leader[n++] = i;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (worth_pieces(race, race->all.items[leader[k]].mix))
            CCL_TRY(add_variant(race, leader[k], FIRST_CHANNELS, 0, err));
    }
    if (race->n > done)
        CCL_TRY(ccl_i_sketch_race_from(race, done, err));
    done = race->n;
    for (int order = 0; order < 2; order++) { /* of reductions in either order */
        uint32_t first = fastest_in(race, order);

        four |= first != CCL_NONE && race->all.items[first].channels == FIRST_CHANNELS;
    }
    four |= race->all.items[race->fastest].channels == FIRST_CHANNELS;
    for (size_t f = 0; f < CCL_ARRAY_LEN(FINE_CHANNELS) && !ccl_i_sketch_enough(race); f++) {
        /* Beyond four only where four were better; fewer also for the second. */
        if (FINE_CHANNELS[f] > FIRST_CHANNELS && !four)
            break;
        n = FINE_CHANNELS[f] > FIRST_CHANNELS
                ? 1
                : leaders(race, ccl_i_sketch_policy.fine_within, leader);
        leader[0] = race->fastest;
        for (uint32_t k = 0; k < n && k < CUT_MIXES; k++)
            CCL_TRY(add_variant(race, leader[k], FINE_CHANNELS[f], 0, err));
    }
    if (race->n > done)
        CCL_TRY(ccl_i_sketch_race_from(race, done, err));
    CCL_TRY(race_piped(race, err));
    CCL_TRY(race_cuts(race, within, err));
    CCL_TRY(race_apart(race, err));
    CCL_TRY(race_shapes(race, err));
    return race_flow(race, err);
}
