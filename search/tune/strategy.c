/*
 * What is tried: grid, random points, successive halving. All begin with every synthesizer as it
 * is.
 *
 * Halving, coarse to fine: every second value of what schedules depend on, lowered as they are, is
 * estimated from one micro-batch at a few sizes, small schedules first, costlier ones where these
 * were near the best; around the best the values between; of the best of these every way of
 * lowering; the best of all run in full at the sizes around; then the neighbours of each size's
 * best, one knob a step aside, until nothing improves.
 */
#include "search/tune/strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRID_MAX = 1000000,
    WHOLE_SPACE = 2000, /* halving looks at all of a coarse grid up to this, else at a sample */
    WAYS = 64,          /* at all ways of lowering up to this, else at one knob at a time */
    FEW_VALUES = 3,     /* no fewer of a number are left out */
    STRIDE = 4,         /* estimates at every fourth size */
    LEAST_KEPT = 4,
    CLIMBS = 20,
    EARLY_CLIMBS = 2
};
/* Of what is estimated at a size: the values between are looked at, all ways of lowering are, it is
   run in full. */
static const double REFINED_SHARE = 0.1, LOWERED_SHARE = 0.05, KEPT_SHARE = 0.05;
/* Of the budget, before anything else than what was not tuned: other ways of lowering that. */
static const double EARLY_SHARE = 0.5;

typedef struct search {
    ccl_i_tuner_t *tuner;
    const ccl_space_t *space;
    ccl_tuning_t *out;
    double with[128];     /* synthesizers */
    uint32_t nwith, nown; /* nown: knobs that only some synthesizers have */
    ccl_rng_t rng;
} search_t;

/* ---------------------------------------------------------------- points */

static ccl_status_t choose_synthesizers(search_t *s, ccl_error_t *err) {
    const ccl_synth_ops_t *const *all = ccl_synth_all();
    const ccl_topology_t *topo = ccl_i_tuner_topology(s->tuner);
    const ccl_collective_t *want = ccl_i_tuner_collective(s->tuner);
    const char *why = NULL;
    for (uint32_t i = 0; all[i] && s->nwith < CCL_ARRAY_LEN(s->with); i++) {
        bool named = false;
        for (uint32_t v = 0; v < s->space->nvalues[CCL_KNOB_WITH]; v++)
            named |= s->space->values[CCL_KNOB_WITH][v] == i;
        if (s->space->nvalues[CCL_KNOB_WITH] ? !named : all[i]->by_name)
            continue;
        if (all[i]->supports(topo, want, &why))
            s->with[s->nwith++] = i;
    }
    if (s->nwith > 0)
        return CCL_OK;
    return ccl_fail(err, CCL_UNSUPPORTED, "no synthesizer of the space can do this: %.300s",
                    why ? why : "none is named");
}

static uint32_t choices_of(const search_t *s, uint32_t knob) {
    return knob == CCL_KNOB_WITH         ? s->nwith
           : s->space->nvalues[knob] > 0 ? s->space->nvalues[knob]
                                         : 1;
}

static double choice_of(const search_t *s, uint32_t knob, uint32_t index) {
    return knob == CCL_KNOB_WITH         ? s->with[index]
           : s->space->nvalues[knob] > 0 ? s->space->values[knob][index]
                                         : NAN;
}

/* A draw for each knob that there is, so that room left for others changes nothing. */
static uint32_t drawn(search_t *s, uint32_t knob, uint32_t n) {
    bool room = knob >= CCL_KNOB_OWN + s->nown && knob < CCL_KNOB_ORDER;
    return room ? 0 : ccl_rng_below(&s->rng, n);
}

/* Point number `index` of the grid; the last knob changes fastest, so that a schedule's points
   stand together. */
static void grid_point(const search_t *s, uint64_t index, double values[CCL_KNOBS]) {
    for (uint32_t k = CCL_KNOBS; k-- > 0;) {
        uint32_t n = choices_of(s, k);
        values[k] = choice_of(s, k, (uint32_t)(index % n));
        index /= n;
    }
}

static ccl_status_t add_grid(search_t *s, ccl_error_t *err) {
    for (uint64_t i = 0; i < (uint64_t)s->out->space_points; i++) {
        double values[CCL_KNOBS];
        uint32_t point;
        grid_point(s, i, values);
        CCL_TRY(ccl_i_tune_point(s->tuner, values, &point, err));
    }
    return CCL_OK;
}

/* What a point costs: steps of channels and of chunks above auto. */
static uint32_t level_of(const search_t *s, const double values[CCL_KNOBS]) {
    static const ccl_knob_t cutting[] = {CCL_KNOB_CHANNELS, CCL_KNOB_CHUNKS};
    uint32_t level = 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(cutting); i++) {
        ccl_knob_t k = cutting[i];
        for (uint32_t v = 0; v < s->space->nvalues[k]; v++)
            level += s->space->values[k][v] <= values[k]; /* NAN: never */
    }
    return level;
}

/* Up to `most` points in all, none that costs more than `level`. */
static ccl_status_t add_random(search_t *s, double most, uint32_t level, ccl_error_t *err) {
    /* A small space is soon drawn out: give up when nothing new comes. */
    for (uint32_t stale = 0; s->out->npoints < most && stale < 1000;) {
        double values[CCL_KNOBS];
        uint32_t before = s->out->npoints, point;
        for (uint32_t k = 0; k < CCL_KNOBS; k++)
            values[k] = choice_of(s, k, drawn(s, k, choices_of(s, k)));
        if (level_of(s, values) <= level)
            CCL_TRY(ccl_i_tune_point(s->tuner, values, &point, err));
        stale = s->out->npoints > before ? 0 : stale + 1;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- grid, random */

static ccl_status_t untuned(search_t *s, ccl_error_t *err) {
    for (uint32_t i = 0; i < s->nwith; i++) {
        double values[CCL_KNOBS];
        uint32_t point;
        for (uint32_t k = 0; k < CCL_KNOBS; k++)
            values[k] = NAN;
        values[CCL_KNOB_WITH] = s->with[i];
        CCL_TRY(ccl_i_tune_point(s->tuner, values, &point, err));
    }
    s->out->nuntuned = s->out->npoints;
    /* What is made for each size takes longest: an interrupted tuning has the others. */
    for (int last = 0; last <= 1; last++) {
        for (uint32_t p = 0; p < s->out->nuntuned; p++) {
            const ccl_synth_ops_t *ops = ccl_synth_all()[(size_t)s->with[p]];
            for (uint32_t z = 0; z < s->out->nsizes && ops->by_size == (last == 1); z++)
                CCL_TRY(ccl_i_tune_run(s->tuner, p, z, false, err));
        }
        CCL_TRY(ccl_i_tune_flush(s->tuner, err));
    }
    return CCL_OK;
}

static ccl_status_t run_points(search_t *s, ccl_error_t *err) {
    for (uint32_t p = s->out->nuntuned; p < s->out->npoints; p++) {
        for (uint32_t z = 0; z < s->out->nsizes; z++)
            CCL_TRY(ccl_i_tune_run(s->tuner, p, z, false, err));
        if (ccl_i_tune_spent(s->tuner, 1))
            break;
    }
    return ccl_i_tune_flush(s->tuner, err);
}

/* ---------------------------------------------------------------- halving */

typedef struct ranked {
    double time_s;
    uint32_t point;
} ranked_t;

static int by_time(const void *a, const void *b) {
    const ranked_t *x = a, *y = b;
    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->point < y->point ? -1 : x->point > y->point;
}

/* The best of a size's estimates and runs; malloc'ed. */
static ccl_status_t rank(const search_t *s, uint32_t size, ranked_t **out, uint32_t *n_out,
                         ccl_error_t *err) {
    ranked_t *list = malloc(((size_t)s->out->nruns + 1) * sizeof *list);
    uint32_t n = 0;
    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < s->out->nruns; i++) {
        const ccl_tune_run_t *run = &s->out->runs[i];
        if (run->size == size && run->estimate && run->result.status == CCL_OK)
            list[n++] = (ranked_t){run->result.time_s, run->point};
    }
    qsort(list, n, sizeof *list, by_time);
    /* Equal to the last bit: one program under several settings. */
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || list[i].time_s != list[kept - 1].time_s)
            list[kept++] = list[i];
    *out = list;
    *n_out = kept;
    return CCL_OK;
}

/* The best of a size; malloc'ed. */
static ccl_status_t best_of(const search_t *s, uint32_t size, double share, ranked_t **out,
                            uint32_t *n_out, ccl_error_t *err) {
    CCL_TRY(rank(s, size, out, n_out, err));
    uint32_t keep = (uint32_t)ceil(*n_out * share);
    keep = keep < LEAST_KEPT ? LEAST_KEPT : keep;
    *n_out = *n_out < keep ? *n_out : keep;
    return CCL_OK;
}

static uint32_t anchor_after(const search_t *s, uint32_t size) {
    uint32_t at = (size + STRIDE - 1) / STRIDE * STRIDE;
    return at < s->out->nsizes ? at : s->out->nsizes - 1;
}

static bool is_anchor(const search_t *s, uint32_t size) {
    return size % STRIDE == 0 || size == s->out->nsizes - 1;
}

/* ---- coarse grid of what schedules depend on, and protocols; of lowering the first values */

static uint32_t coarse_choices(const search_t *s, uint32_t knob) {
    uint32_t n = choices_of(s, knob);
    /* Which schedule is best depends on the protocol: its latencies say how finely to cut. */
    if (knob >= CCL_KNOB_ORDER && knob != CCL_KNOB_PROTO)
        return 1;
    return knob == CCL_KNOB_WITH || n <= FEW_VALUES ? n : (n + 1) / 2;
}

static double coarse_choice(const search_t *s, uint32_t knob, uint32_t index) {
    bool all = coarse_choices(s, knob) == choices_of(s, knob);
    return choice_of(s, knob, all ? index : 2 * index);
}

static ccl_status_t add_coarse(search_t *s, double most, ccl_error_t *err) {
    double all = 1, values[CCL_KNOBS];
    uint32_t point;
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        all *= coarse_choices(s, k);
    if (all <= fmin(WHOLE_SPACE, most)) {
        for (uint64_t i = 0; i < (uint64_t)all; i++) {
            uint64_t index = i;
            for (uint32_t k = CCL_KNOBS; k-- > 0; index /= coarse_choices(s, k))
                values[k] = coarse_choice(s, k, (uint32_t)(index % coarse_choices(s, k)));
            CCL_TRY(ccl_i_tune_point(s->tuner, values, &point, err));
        }
        return CCL_OK;
    }
    most = s->out->npoints + fmin(ceil(most), WHOLE_SPACE);
    for (uint32_t stale = 0; s->out->npoints < most && stale < 1000;) {
        uint32_t before = s->out->npoints;
        for (uint32_t k = 0; k < CCL_KNOBS; k++)
            values[k] = coarse_choice(s, k, drawn(s, k, coarse_choices(s, k)));
        CCL_TRY(ccl_i_tune_point(s->tuner, values, &point, err));
        stale = s->out->npoints > before ? 0 : stale + 1;
    }
    return CCL_OK;
}

/* Where a point's value stands among the values of a knob; CCL_NONE: nowhere. */
static uint32_t at_of(const search_t *s, uint32_t knob, double value) {
    for (uint32_t i = 0; i < choices_of(s, knob); i++) {
        double other = choice_of(s, knob, i);
        if (value == other || (isnan(value) && isnan(other)))
            return i;
    }
    return CCL_NONE;
}

static ccl_status_t estimate_at(search_t *s, const double values[CCL_KNOBS], uint32_t size,
                                ccl_error_t *err) {
    uint32_t point;
    CCL_TRY(ccl_i_tune_point(s->tuner, values, &point, err));
    return ccl_i_tune_run(s->tuner, point, size, true, err);
}

/* The values that the coarse grid left out, beside those of a point. */
static ccl_status_t between(search_t *s, const double best[CCL_KNOBS], uint32_t size,
                            ccl_error_t *err) {
    for (uint32_t k = CCL_KNOB_WITH + 1; k < CCL_KNOB_ORDER; k++) {
        uint32_t n = choices_of(s, k), at = at_of(s, k, best[k]);
        for (uint32_t i = 0; i < n && at != CCL_NONE && coarse_choices(s, k) < n; i++) {
            double values[CCL_KNOBS];
            if (i + 1 != at && i != at + 1)
                continue;
            memcpy(values, best, sizeof values);
            values[k] = choice_of(s, k, i);
            CCL_TRY(estimate_at(s, values, size, err));
        }
    }
    return CCL_OK;
}

/* Every way of lowering a point's schedule; where they are many, one knob at a time. */
static ccl_status_t every_way(search_t *s, const double best[CCL_KNOBS], uint32_t size,
                              ccl_error_t *err) {
    double values[CCL_KNOBS], all = 1;
    memcpy(values, best, sizeof values);
    for (uint32_t k = CCL_KNOB_ORDER; k < CCL_KNOBS; k++)
        all *= choices_of(s, k);
    for (uint64_t i = 0; all <= WAYS && i < (uint64_t)all; i++) {
        uint64_t index = i;
        for (uint32_t k = CCL_KNOBS; k-- > CCL_KNOB_ORDER; index /= choices_of(s, k))
            values[k] = choice_of(s, k, (uint32_t)(index % choices_of(s, k)));
        CCL_TRY(estimate_at(s, values, size, err));
    }
    for (uint32_t k = CCL_KNOB_ORDER; all > WAYS && k < CCL_KNOBS; k++) {
        for (uint32_t i = 0; i < choices_of(s, k); i++) {
            memcpy(values, best, sizeof values);
            values[k] = choice_of(s, k, i);
            CCL_TRY(estimate_at(s, values, size, err));
        }
    }
    return CCL_OK;
}

typedef ccl_status_t (*around_fn)(search_t *s, const double best[CCL_KNOBS], uint32_t size,
                                  ccl_error_t *err);
/* Around the best of each anchor. */
static ccl_status_t refine(search_t *s, around_fn around, double kept, double share,
                           ccl_error_t *err) {
    for (uint32_t z = 0; z < s->out->nsizes; z++) {
        ranked_t *list = NULL;
        uint32_t n = 0;
        ccl_status_t status = CCL_OK;
        if (!is_anchor(s, z) || s->out->done[z])
            continue;
        CCL_TRY(best_of(s, z, kept, &list, &n, err));
        for (uint32_t i = 0; i < n && status == CCL_OK && !ccl_i_tune_spent(s->tuner, share); i++) {
            double best[CCL_KNOBS];
            memcpy(best, s->out->points[list[i].point].values, sizeof best);
            status = around(s, best, z, err);
        }
        free(list);
        CCL_TRY(status);
    }
    return ccl_i_tune_flush(s->tuner, err);
}

/* Points from `first` on. @param share  of the budget, at most. */
static ccl_status_t estimate_all(search_t *s, uint32_t first, double share, ccl_error_t *err) {
    for (uint32_t p = first; p < s->out->npoints && !ccl_i_tune_spent(s->tuner, share); p++)
        for (uint32_t z = 0; z < s->out->nsizes; z++)
            if (is_anchor(s, z))
                CCL_TRY(ccl_i_tune_run(s->tuner, p, z, true, err));
    return ccl_i_tune_flush(s->tuner, err);
}

/* What a synthesizer did at a size in the race. */
typedef struct racer {
    double last_s, wave_s; /* its best in the last wave with a time; in this one */
    uint32_t waves;
} racer_t;

/* Its last wave was near the best of all: within 2 times at first, then 1.5 times, 1.33 times ...
 */
static bool still_runs(const racer_t *r, double best_s) {
    return r->waves == 0 || r->last_s <= (1 + 1.0 / r->waves) * best_s;
}

static void end_wave(const search_t *s, racer_t *racers, double *best_s, uint32_t first_run) {
    uint32_t ns = s->out->nsizes;
    for (uint32_t i = 0; i < s->nwith * ns; i++)
        racers[i].wave_s = INFINITY;
    for (uint32_t i = first_run; i < s->out->nruns; i++) {
        const ccl_tune_run_t *run = &s->out->runs[i];
        uint32_t w = at_of(s, CCL_KNOB_WITH, s->out->points[run->point].values[CCL_KNOB_WITH]);
        if (run->result.status != CCL_OK)
            continue;
        racer_t *r = &racers[w * ns + run->size];
        r->wave_s = fmin(r->wave_s, run->result.time_s);
        best_s[run->size] = fmin(best_s[run->size], run->result.time_s);
    }
    for (uint32_t i = 0; i < s->nwith * ns; i++) {
        racers[i].waves += racers[i].wave_s < INFINITY;
        racers[i].last_s = racers[i].wave_s < INFINITY ? racers[i].wave_s : racers[i].last_s;
    }
}

/* The coarse points in waves, the cheapest first; at each size a synthesizer goes on to costlier
   ones only while it is near the best. */
static ccl_status_t race(search_t *s, double share, ccl_error_t *err) {
    uint32_t ns = s->out->nsizes, npoints = s->out->npoints, dearest = 0;
    racer_t *racers = calloc((size_t)s->nwith * ns, sizeof *racers);
    double *best_s = calloc(ns, sizeof *best_s);
    ccl_status_t status = racers && best_s ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t z = 0; status == CCL_OK && z < ns; z++)
        best_s[z] = INFINITY;
    for (uint32_t p = 0; p < npoints; p++) {
        uint32_t level = level_of(s, s->out->points[p].values);
        dearest = level > dearest ? level : dearest;
    }
    for (uint32_t level = 0; status == CCL_OK && level <= dearest; level++) {
        uint32_t first_run = s->out->nruns;
        for (uint32_t p = 0; p < npoints && !ccl_i_tune_spent(s->tuner, share); p++) {
            const double *values = s->out->points[p].values;
            uint32_t w = at_of(s, CCL_KNOB_WITH, values[CCL_KNOB_WITH]);
            for (uint32_t z = 0; level_of(s, values) == level && z < ns && status == CCL_OK; z++)
                if (is_anchor(s, z) && still_runs(&racers[w * ns + z], best_s[z]))
                    status = ccl_i_tune_run(s->tuner, p, z, true, err);
            if (status != CCL_OK)
                break;
        }
        if (status == CCL_OK)
            status = ccl_i_tune_flush(s->tuner, err);
        if (status == CCL_OK)
            end_wave(s, racers, best_s, first_run);
    }
    free(racers);
    free(best_s);
    return status;
}

/* Best of the anchors on both sides, in turn, so that a budget's end cuts all sizes alike. */
static ccl_status_t run_best(search_t *s, double share, ccl_error_t *err) {
    uint32_t ns = s->out->nsizes, most = 0;
    ranked_t **lists = calloc(ns, sizeof *lists);
    uint32_t *n = calloc(ns, sizeof *n);
    ccl_status_t status = lists && n ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t z = 0; z < ns && status == CCL_OK; z++) {
        if (!is_anchor(s, z))
            continue;
        status = best_of(s, z, KEPT_SHARE, &lists[z], &n[z], err);
        most = n[z] > most ? n[z] : most;
    }
    for (uint32_t k = 0; k < most && status == CCL_OK && !ccl_i_tune_spent(s->tuner, share); k++) {
        for (uint32_t z = 0; z < ns && status == CCL_OK; z++) {
            uint32_t sides[] = {z / STRIDE * STRIDE, anchor_after(s, z)};
            for (uint32_t i = 0; i < 2 && status == CCL_OK; i++)
                if (k < n[sides[i]])
                    status = ccl_i_tune_run(s->tuner, lists[sides[i]][k].point, z, false, err);
        }
    }
    for (uint32_t z = 0; lists && z < ns; z++)
        free(lists[z]);
    free(lists);
    free(n);
    CCL_TRY(status);
    return ccl_i_tune_flush(s->tuner, err);
}

/* One knob from `first` on a step aside: the next values on both sides of a number, all others of a
   word. */
static ccl_status_t run_neighbours(search_t *s, uint32_t size, uint32_t first, ccl_error_t *err) {
    double best[CCL_KNOBS], values[CCL_KNOBS];
    if (s->out->best[size] == CCL_NONE)
        return CCL_OK;
    memcpy(best, s->out->points[s->out->runs[s->out->best[size]].point].values, sizeof best);
    for (uint32_t k = first; k < CCL_KNOBS; k++) {
        uint32_t n = choices_of(s, k), at = at_of(s, k, best[k]);
        bool words = k == CCL_KNOB_WITH || n <= FEW_VALUES;
        for (uint32_t i = 0; i < n && k != CCL_KNOB_WITH; i++) {
            bool near = words || at == CCL_NONE || i + 1 == at || i == at + 1;
            uint32_t point;
            if (i == at || !near)
                continue;
            memcpy(values, best, sizeof values);
            values[k] = choice_of(s, k, i);
            CCL_TRY(ccl_i_tune_point(s->tuner, values, &point, err));
            CCL_TRY(ccl_i_tune_run(s->tuner, point, size, false, err));
        }
    }
    return CCL_OK;
}

/* From neighbour to neighbour, by the knobs from `first` on. */
static ccl_status_t climb(search_t *s, uint32_t first, uint32_t most, double share,
                          ccl_error_t *err) {
    for (uint32_t i = 0; i < most && !ccl_i_tune_spent(s->tuner, share); i++) {
        uint32_t before = s->out->nruns;
        for (uint32_t z = 0; z < s->out->nsizes; z++)
            if (!s->out->done[z])
                CCL_TRY(run_neighbours(s, z, first, err));
        CCL_TRY(ccl_i_tune_flush(s->tuner, err));
        if (s->out->nruns == before)
            return CCL_OK;
    }
    return CCL_OK;
}

/* The highest level of all sizes' best. */
static uint32_t best_level(const search_t *s) {
    uint32_t most = 0;
    for (uint32_t z = 0; z < s->out->nsizes; z++) {
        if (s->out->best[z] == CCL_NONE)
            continue;
        uint32_t point = s->out->runs[s->out->best[z]].point;
        uint32_t level = level_of(s, s->out->points[point].values);
        most = level > most ? level : most;
    }
    return most;
}

/* Once coarse to fine; then with random points, as many again, while there are some and budget is
   left. */
static ccl_status_t halving(search_t *s, ccl_error_t *err) {
    uint64_t runs = ccl_i_tuner_options(s->tuner)->budget_runs;
    bool limited = runs > 0 || ccl_i_tuner_options(s->tuner)->budget_s > 0;
    uint32_t anchors = 0, before;
    for (uint32_t z = 0; z < s->out->nsizes; z++)
        anchors += is_anchor(s, z);
    double share = runs ? (double)runs / 3 / anchors : WHOLE_SPACE;
    if (limited) /* what costs no synthesis first: a small budget may end before its turn comes */
        CCL_TRY(climb(s, CCL_KNOB_ORDER, EARLY_CLIMBS, EARLY_SHARE, err));
    CCL_TRY(add_coarse(s, share, err));
    CCL_TRY(race(s, 0.4, err));
    CCL_TRY(refine(s, between, REFINED_SHARE, 0.5, err));
    CCL_TRY(refine(s, every_way, LOWERED_SHARE, 0.7, err));
    CCL_TRY(run_best(s, 0.9, err));
    CCL_TRY(climb(s, 0, CLIMBS, 1, err));
    if (!limited)
        return CCL_OK;
    do {
        before = s->out->npoints;
        CCL_TRY(add_random(s, before + ceil(share), best_level(s) + 2, err));
        CCL_TRY(estimate_all(s, before, 1, err));
        CCL_TRY(run_best(s, 1, err));
        CCL_TRY(climb(s, 0, CLIMBS, 1, err));
    } while (s->out->npoints > before && !ccl_i_tune_spent(s->tuner, 1));
    return CCL_OK;
}

/* ---------------------------------------------------------------- all */

/* Each size's best, its schedule improved. */
static ccl_status_t improve(search_t *s, ccl_error_t *err) {
    uint32_t tries = ccl_i_tuner_options(s->tuner)->improve;
    for (uint32_t z = 0; tries > 0 && z < s->out->nsizes; z++) {
        double values[CCL_KNOBS];
        uint32_t point;
        if (s->out->best[z] == CCL_NONE || s->out->done[z])
            continue;
        memcpy(values, s->out->points[s->out->runs[s->out->best[z]].point].values, sizeof values);
        values[CCL_KNOB_IMPROVE] = tries;
        CCL_TRY(ccl_i_tune_point(s->tuner, values, &point, err));
        CCL_TRY(ccl_i_tune_extra(s->tuner, point, z, err));
    }
    return ccl_i_tune_flush(s->tuner, err);
}

static ccl_status_t search(search_t *s, ccl_error_t *err) {
    const ccl_tune_options_t *o = ccl_i_tuner_options(s->tuner);
    CCL_TRY(untuned(s, err));
    if (ccl_i_tune_spent(s->tuner, 1))
        return CCL_OK;
    switch (o->strategy) {
    case CCL_STRATEGY_GRID:
        CCL_TRY(add_grid(s, err));
        CCL_TRY(run_points(s, err));
        break;
    case CCL_STRATEGY_RANDOM:
        CCL_TRY(add_random(s,
                           o->budget_runs ? ceil((double)o->budget_runs / s->out->nsizes)
                                          : fmin(s->out->space_points, GRID_MAX),
                           UINT32_MAX, err));
        CCL_TRY(run_points(s, err));
        break;
    case CCL_STRATEGY_HALVING:
        CCL_TRY(halving(s, err));
        break;
    }
    s->out->stopped = "space";
    ccl_i_tune_spent(s->tuner, 1);
    return CCL_OK;
}

ccl_status_t ccl_i_tune_search(ccl_i_tuner_t *tuner, ccl_error_t *err) {
    const ccl_tune_options_t *o = ccl_i_tuner_options(tuner);
    search_t s = {.tuner = tuner, .space = o->space, .out = ccl_i_tuner_result(tuner)};
    ccl_rng_init(&s.rng, ccl_i_tuner_seed(tuner));
    CCL_TRY(choose_synthesizers(&s, err));
    while (s.nown < CCL_KNOBS_OWN && ccl_knob_option((ccl_knob_t)(CCL_KNOB_OWN + s.nown)))
        s.nown++;
    s.out->space_points = 1;
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        s.out->space_points *= choices_of(&s, k);
    if (o->strategy == CCL_STRATEGY_GRID && s.out->space_points > GRID_MAX)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "the grid has %.4g points, more than %d: fewer values, or the strategy "
                        "halving or random",
                        s.out->space_points, GRID_MAX);
    CCL_TRY(search(&s, err));
    const char *stopped = s.out->stopped;
    CCL_TRY(improve(&s, err));
    s.out->stopped = stopped;
    return CCL_OK;
}
