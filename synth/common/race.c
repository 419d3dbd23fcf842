/* Candidates made, simulated and compared (race.h). */
#include "synth/common/race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_past(double until_s) {
    return until_s != 0 && ccl_now_s() > until_s;
}

/* ---------------------------------------------------------------- what workers have */

static uint32_t threads_of(const ccl_i_race_t *race) {
    if (race->threads)
        return race->threads;
    return race->ctx && race->ctx->threads ? race->ctx->threads : ccl_core_count();
}

/* Room for the workers of a round, more than before perhaps. */
static ccl_status_t reserve_racers(ccl_i_race_t *race, uint32_t n, ccl_error_t *err) {
    if (n <= race->nracers)
        return CCL_OK;
    ccl_i_racer_t *racers = realloc(race->racers, n * sizeof *racers);
    if (!racers)
        return ccl_fail_nomem(err);
    race->racers = racers;
    memset(racers + race->nracers, 0, (n - race->nracers) * sizeof *racers);
    race->nracers = n;
    return CCL_OK;
}

static ccl_status_t make_ready(ccl_i_race_t *race, uint32_t worker, ccl_error_t *err) {
    ccl_i_racer_t *racer = &race->racers[worker];
    if (!racer->routes)
        racer->routes = worker == 0 && race->routes ? race->routes : ccl_routes_create(race->topo);
    if (!racer->routes)
        return ccl_fail_nomem(err);
    if (!race->clusters || racer->cluster)
        return CCL_OK;
    ccl_i_cluster_t *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_cluster_init(cluster, race->topo, racer->routes, err);
    if (status != CCL_OK)
        free(cluster);
    else
        racer->cluster = cluster;
    return status;
}

ccl_status_t ccl_i_race_racer(ccl_i_race_t *race, const ccl_i_racer_t **out, ccl_error_t *err) {
    CCL_TRY(reserve_racers(race, 1, err));
    CCL_TRY(make_ready(race, 0, err));
    race->racers[0].ctx = race->ctx;
    *out = &race->racers[0];
    return CCL_OK;
}

/* ---------------------------------------------------------------- one candidate */

/* Candidates that cannot be are dropped; why is kept by the caller, in order of their indices. */
static ccl_status_t make(const ccl_i_race_t *race, uint32_t index, const ccl_i_racer_t *with,
                         ccl_error_t *why) {
    ccl_i_raced_t *r = &race->results[index];
    ccl_status_t status =
        race->make ? race->make(race->user, index, with, &r->schedule, why) : CCL_OK;
    r->made = status == CCL_OK;
    return status;
}

static ccl_status_t time_one(const ccl_i_race_t *race, uint32_t index, const ccl_i_racer_t *with,
                             ccl_error_t *err) {
    ccl_i_raced_t *r = &race->results[index];
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status;
    if (race->time) {
        status = race->time(race->user, index, with, r->schedule, r, &why);
    } else {
        ccl_i_timing_t timing = {.size_bytes = race->size_bytes,
                                 .way.granularity = race->level,
                                 .give_up_s = race->limit_s < INFINITY ? race->limit_s : 0};
        status =
            ccl_i_time_schedule(with->ctx, race->topo, with->routes, r->schedule, &timing, &why);
        r->time_s = timing.time_s;
        r->work = timing.work;
        r->gave_up = timing.gave_up;
    }
    if (status == CCL_UNSUPPORTED) { /* more thread blocks than a GPU has */
        r->time_s = INFINITY;
        return CCL_OK;
    }
    if (status != CCL_OK && err)
        *err = why;
    return status;
}

/* On a worker: make it, unless that is done, and simulate it. */
static ccl_status_t run_one(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_race_t *race = user;
    ccl_i_raced_t *r = &race->results[index];
    ccl_ctx_t quiet = race->ctx ? *race->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    uint32_t done = __atomic_load_n(&race->done, __ATOMIC_RELAXED);
    ccl_progress_t progress = {race->phase, done, race->total ? race->total : race->n, 0, 0};
    ccl_status_t status = CCL_OK;
    quiet.log = NULL; /* its order would depend on the threads */
    if (worker != 0 || !race->phase)
        quiet.progress = NULL;
    CCL_TRY(ccl_ctx_poll(&quiet, &progress));
    quiet.progress = NULL;
    quiet.threads = 1;
    r->late |= race->in_turn ? r->made && is_past(race->time_until_s)
                             : (race->begun || index > 0) && is_past(race->make_until_s);
    if (r->late || (race->in_turn && !r->made) || index == race->alone)
        return CCL_OK;
    CCL_TRY(make_ready(race, worker, err));
    ccl_i_racer_t with = race->racers[worker];
    with.ctx = &quiet;
    if (!race->in_turn) {
        ccl_error_t why = CCL_ERROR_INIT;
        status = make(race, index, &with, &why);
        if (status != CCL_OK && status != CCL_UNSUPPORTED && err)
            *err = why;
        r->why = status == CCL_UNSUPPORTED ? why : r->why;
    }
    if (status == CCL_OK && race->simulate)
        status = time_one(race, index, &with, err);
    if (race->times_only) {
        ccl_schedule_destroy(r->schedule);
        r->schedule = NULL;
    }
    __atomic_fetch_add(&race->done, 1, __ATOMIC_RELAXED);
    return status == CCL_UNSUPPORTED ? CCL_OK : status;
}

/* ---------------------------------------------------------------- a round */

/* One after the other, as far as there is work and time left. */
static ccl_status_t make_all(ccl_i_race_t *race, uint32_t n, uint32_t *made_out, ccl_error_t *err) {
    const ccl_i_racer_t *with;
    CCL_TRY(ccl_i_race_racer(race, &with, err));
    for (uint32_t i = 0; i < n; i++) {
        ccl_i_raced_t *r = &race->results[i];
        bool first = !race->begun && *made_out == 0;
        double work = race->expect ? race->expect(race->user, i) : 0;
        r->late = !first && is_past(race->make_until_s);
        if (!first && (r->late || (race->expect && work > race->left)))
            continue;
        ccl_error_t why = CCL_ERROR_INIT;
        ccl_status_t status = make(race, i, with, &why);
        r->why = why;
        if (status != CCL_OK && status != CCL_UNSUPPORTED) {
            if (err)
                *err = why;
            return status;
        }
        if (!r->made)
            continue;
        ++*made_out;
        if (race->unit == CCL_I_RACE_TRANSFERS)
            work = r->schedule->ntransfers;
        race->left -= work;
        race->expected += work;
        r->expected = work;
    }
    return CCL_OK;
}

/* On the workers; the leader before all others where these are measured by it. */
static ccl_status_t simulate_all(ccl_i_race_t *race, uint32_t n, uint32_t threads,
                                 ccl_error_t *err) {
    uint32_t first = race->lead < n && race->results[race->lead].made ? race->lead : 0;
    race->lead = 0;
    race->alone = CCL_NONE;
    race->limit_s = race->most_s > 0 ? race->most_s : INFINITY;
    if (race->give_up) {
        race->limit_s = fmin(race->limit_s, race->best.time_s);
        while (first + 1 < n && !race->results[first].made)
            first++;
        CCL_TRY(run_one(first, 0, race, err));
        race->alone = first;
        race->limit_s = fmin(race->limit_s, race->results[first].time_s);
    }
    return ccl_parallel_for(n, threads, run_one, race, err);
}

/* What all would have cost to their ends: what was given up like the others of its round, beside
   what was expected. */
static double whole_work(const ccl_i_race_t *race, uint32_t n) {
    double work = 0, expected = 0, whole = 0;
    for (uint32_t i = 0; i < n; i++) {
        const ccl_i_raced_t *r = &race->results[i];
        work += r->made && !r->gave_up ? r->work : 0;
        expected += r->made && !r->gave_up ? r->expected : 0;
    }
    double factor = work > 0 && expected > 0 ? work / expected : 1;
    for (uint32_t i = 0; i < n; i++) {
        const ccl_i_raced_t *r = &race->results[i];
        whole += r->gave_up ? fmax(r->work, factor * r->expected) : r->work;
    }
    return whole;
}

/* In order of indices: what is slower than the best so far is freed. */
static void choose(ccl_i_race_t *race, uint32_t n) {
    ccl_i_race_best_t *best = &race->best;
    double done = 0;
    race->counted = whole_work(race, n);
    for (uint32_t i = 0; i < n; i++) {
        ccl_i_raced_t *r = &race->results[i];
        done += r->work;
        race->late |= r->late;
        if (r->why.status != CCL_OK && race->why.status == CCL_OK)
            race->why = r->why;
        if ((r->schedule && !best->schedule) || r->time_s < best->time_s * (1 - race->margin)) {
            ccl_schedule_destroy(best->schedule);
            *best = (ccl_i_race_best_t){r->schedule, r->time_s, i};
        } else {
            ccl_schedule_destroy(r->schedule);
        }
        r->schedule = NULL;
    }
    /* Contention means new rates all the time, a steady state hardly any. */
    if (race->unit == CCL_I_RACE_SIMULATED && done > 0)
        race->left -= done - race->expected;
}

ccl_status_t ccl_i_race_run(ccl_i_race_t *race, uint32_t n, ccl_error_t *err) {
    uint32_t threads = threads_of(race), made = n;
    race->best.index = CCL_NONE;
    race->expected = race->counted = 0;
    if (n == 0)
        return CCL_OK;
    if (!ccl_grow(&race->results, &race->cap, n, sizeof *race->results))
        return ccl_fail_nomem(err);
    memset(race->results, 0, n * sizeof *race->results);
    for (uint32_t i = 0; i < n; i++)
        race->results[i].time_s = INFINITY;
    race->n = n;
    race->done = race->total ? race->done : 0;
    if (!race->begun)
        race->best.time_s = INFINITY;
    ccl_status_t status = reserve_racers(race, threads < n ? threads : n, err);
    if (status == CCL_OK && race->in_turn) {
        made = 0;
        status = make_all(race, n, &made, err);
    }
    race->simulate = !(race->skip_lone && made == 1 && !race->best.schedule);
    if (status == CCL_OK && (race->simulate || !race->in_turn))
        status = simulate_all(race, n, threads, err);
    if (status == CCL_OK) {
        choose(race, n);
        race->begun = true;
        return CCL_OK;
    }
    for (uint32_t i = 0; i < n; i++) {
        ccl_schedule_destroy(race->results[i].schedule);
        race->results[i].schedule = NULL;
    }
    return status;
}

ccl_i_race_best_t ccl_i_race_set_aside(ccl_i_race_t *race) {
    ccl_i_race_best_t best = race->best;
    race->best = (ccl_i_race_best_t){NULL, INFINITY, CCL_NONE};
    race->begun = false;
    return best;
}

ccl_status_t ccl_i_race_take(ccl_i_race_t *race, ccl_schedule_t **out, ccl_error_t *err) {
    *out = race->best.schedule;
    race->best.schedule = NULL;
    if (*out)
        return CCL_OK;
    if (race->why.status != CCL_UNSUPPORTED)
        return ccl_fail(err, CCL_UNSUPPORTED, "no schedule can be made");
    if (err)
        *err = race->why;
    return CCL_UNSUPPORTED;
}

void ccl_i_race_fini(ccl_i_race_t *race) {
    ccl_schedule_destroy(race->best.schedule);
    for (uint32_t i = 0; i < race->nracers; i++) {
        ccl_i_racer_t *racer = &race->racers[i];
        if (racer->cluster)
            ccl_i_cluster_fini(racer->cluster);
        free(racer->cluster);
        if (racer->routes != race->routes)
            ccl_routes_destroy(racer->routes);
    }
    free(race->racers);
    free(race->results);
}
