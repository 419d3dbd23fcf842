/*
 * All points of a tuning ranked again on the cluster as a replay fitted it: the same programs, from
 * what the tuner kept, in rounds as before. The tuner works on a tuning of its own meanwhile.
 */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdlib.h>

/* A run of the tuning and its time on the other cluster. */
typedef struct again {
    uint32_t run;
    double time_s; /* NAN: not simulated */
} again_t;

/* ---------------------------------------------------------------- the tuner once more */

/* What belongs to one tuning is put aside, and back. */
typedef struct aside {
    ccl_tuning_t *out;
    ccl_strmap_t *by_run, *by_work;
    const ccl_tune_options_t *options;
    uint32_t first_run;
} aside_t;

static ccl_status_t put_aside(ccl_i_tuner_t *t, const ccl_tune_options_t *options, aside_t *old,
                              ccl_error_t *err) {
    *old = (aside_t){t->out, t->by_run, t->by_work, t->options, t->first_run};
    t->out = NULL;
    t->by_run = ccl_strmap_create();
    t->by_work = ccl_strmap_create();
    t->again_routes = calloc(t->threads, sizeof(ccl_routes_t *));
    t->options = options;
    t->first_run = 0;
    if (!t->by_run || !t->by_work || !t->again_routes)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_tuning_create(t, &t->out, err));
    t->out->points = old->out->points;
    t->out->npoints = old->out->npoints;
    return CCL_OK;
}

static void put_back(ccl_i_tuner_t *t, const aside_t *old) {
    if (t->out) {
        t->out->points = NULL; /* the other one's */
        t->out->npoints = 0;
    }
    ccl_tuning_destroy(t->out);
    ccl_strmap_destroy(t->by_run);
    ccl_strmap_destroy(t->by_work);
    for (uint32_t i = 0; t->again_routes && i < t->threads; i++)
        ccl_routes_destroy(t->again_routes[i]);
    free(t->again_routes);
    t->again_routes = NULL;
    t->again = NULL;
    t->out = old->out;
    t->by_run = old->by_run;
    t->by_work = old->by_work;
    t->options = old->options;
    t->first_run = old->first_run;
}

static ccl_status_t run_list(ccl_i_tuner_t *t, const ccl_tuning_t *tuning, double most_s,
                             const again_t *list, uint32_t n, ccl_error_t *err) {
    double start_s = ccl_now_s();
    for (uint32_t i = 0; i < n; i++) {
        const ccl_tune_run_t *run = &tuning->runs[list[i].run];
        if (most_s > 0 && i % CCL_I_ROUND == 0 && ccl_now_s() - start_s >= most_s)
            break;
        CCL_TRY(ccl_i_tune_extra(t, run->point, run->size, err));
    }
    return ccl_i_tune_flush(t, err);
}

/* Runs are in the order of the list, but for those that did not end. */
static void take_times(const ccl_tuning_t *tuning, const ccl_tuning_t *again, again_t *list,
                       uint32_t n) {
    for (uint32_t i = 0, k = 0; i < n && k < again->nruns; i++) {
        const ccl_tune_run_t *run = &tuning->runs[list[i].run], *now = &again->runs[k];
        if (now->point != run->point || now->size != run->size)
            continue;
        if (now->result.status == CCL_OK)
            list[i].time_s = now->result.time_s;
        k++;
    }
}

/* @param most_s  wall time after which no round is begun; 0: none. */
static ccl_status_t simulate_again(const ccl_tuning_t *tuning, const ccl_topology_t *topo,
                                   double most_s, again_t *list, uint32_t n, ccl_error_t *err) {
    ccl_i_tuner_t *t = tuning->kept;
    ccl_tune_options_t options = *t->options;
    aside_t old;
    options.notebook = NULL; /* it knows only clusters as they were tuned */
    options.budget_runs = n; /* of progress */
    options.lab = NULL;
    t->queued = false;
    atomic_store(&t->done, 0);
    for (uint32_t i = 0; i < n; i++)
        list[i].time_s = NAN;
    ccl_status_t status = put_aside(t, &options, &old, err);
    t->again = topo;
    if (status == CCL_OK)
        status = run_list(t, tuning, most_s, list, n, err);
    if (status == CCL_OK)
        take_times(tuning, t->out, list, n);
    put_back(t, &old);
    return status;
}

/* ---------------------------------------------------------------- ranks */

static int by_time(const void *a, const void *b) {
    const ccl_i_tune_candidate_t *x = a, *y = b;
    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->run < y->run ? -1 : x->run > y->run;
}

uint32_t ccl_i_tune_candidates(const ccl_tuning_t *t, uint32_t size, ccl_i_tune_candidate_t *list) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->nruns; i++)
        if (t->runs[i].size == size && !t->runs[i].estimate && t->runs[i].result.status == CCL_OK &&
            ccl_tune_can_be_had(t->points[t->runs[i].point].values))
            list[n++] = (ccl_i_tune_candidate_t){t->runs[i].result.time_s, i};
    qsort(list, n, sizeof *list, by_time);
    return n;
}

/* A point and where it stands among those of its size. */
typedef struct turn {
    again_t again;
    uint32_t nth;
} turn_t;

static int by_turn(const void *a, const void *b) {
    const turn_t *x = a, *y = b;
    if (x->nth != y->nth)
        return x->nth < y->nth ? -1 : 1;
    return x->again.run < y->again.run ? -1 : x->again.run > y->again.run;
}

/* All points of all sizes, the fastest of each first, then the second of each ...: a budget's end
   cuts all sizes alike. */
static ccl_status_t in_turn(const ccl_tuning_t *t, again_t **out, uint32_t *n_out,
                            ccl_error_t *err) {
    ccl_i_tune_candidate_t *list = malloc(((size_t)t->nruns + 1) * sizeof *list);
    turn_t *turns = malloc(((size_t)t->nruns + 1) * sizeof *turns);
    again_t *all = malloc(((size_t)t->nruns + 1) * sizeof *all);
    uint32_t n = 0;
    for (uint32_t s = 0; list && turns && s < t->nsizes; s++) {
        uint32_t of_size = ccl_i_tune_candidates(t, s, list);
        for (uint32_t i = 0; i < of_size; i++)
            turns[n++] = (turn_t){{list[i].run, NAN}, i};
    }
    if (list && turns && all) {
        qsort(turns, n, sizeof *turns, by_turn);
        for (uint32_t i = 0; i < n; i++)
            all[i] = turns[i].again;
    }
    bool there = list && turns && all;
    free(list);
    free(turns);
    if (!there) {
        free(all);
        return ccl_fail_nomem(err);
    }
    *out = all;
    *n_out = n;
    return CCL_OK;
}

static int by_fitted(const void *a, const void *b) {
    const ccl_reranked_t *x = a, *y = b;
    if (x->fitted_s != y->fitted_s)
        return x->fitted_s < y->fitted_s ? -1 : 1;
    if (x->tuned_s != y->tuned_s)
        return x->tuned_s < y->tuned_s ? -1 : 1;
    return x->run < y->run ? -1 : x->run > y->run;
}

static int by_tuned(const void *a, const void *b) {
    const ccl_reranked_t *x = a, *y = b;
    if (x->tuned_s != y->tuned_s)
        return x->tuned_s < y->tuned_s ? -1 : 1;
    return x->run < y->run ? -1 : x->run > y->run;
}

/* Of one size: ranks before and after, in the end the fastest with what was fitted first. */
static void rank(ccl_reranked_t *list, uint32_t n) {
    qsort(list, n, sizeof *list, by_tuned);
    for (uint32_t i = 0; i < n; i++)
        list[i].tuned_rank =
            i > 0 && list[i].tuned_s == list[i - 1].tuned_s ? list[i - 1].tuned_rank : i + 1;
    qsort(list, n, sizeof *list, by_fitted);
    for (uint32_t i = 0; i < n; i++)
        list[i].fitted_rank =
            i > 0 && list[i].fitted_s == list[i - 1].fitted_s ? list[i - 1].fitted_rank : i + 1;
}

static uint32_t replayed_of(const ccl_replay_t *r, uint32_t run) {
    for (uint32_t i = 0; i < r->npoints; i++)
        if (r->points[i].run == run)
            return r->points[i].status == CCL_OK ? i : CCL_NONE;
    return CCL_NONE;
}

static ccl_status_t keep_ranks(const ccl_tuning_t *t, const again_t *all, uint32_t n,
                               ccl_replay_t *r, ccl_error_t *err) {
    r->ranked = ccl_arena_alloc(&r->arena, (size_t)n + 1, sizeof *r->ranked);
    if (!r->ranked)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < t->nsizes; s++) {
        uint32_t first = r->nranked;
        for (uint32_t i = 0; i < n; i++)
            if (t->runs[all[i].run].size == s && !isnan(all[i].time_s))
                r->ranked[r->nranked++] =
                    (ccl_reranked_t){.run = all[i].run,
                                     .replayed = replayed_of(r, all[i].run),
                                     .tuned_s = t->runs[all[i].run].result.time_s,
                                     .fitted_s = all[i].time_s};
        rank(r->ranked + first, r->nranked - first);
    }
    r->nunranked = n - r->nranked;
    return CCL_OK;
}

ccl_status_t ccl_i_tune_rerank(const ccl_tuning_t *tuning, const ccl_topology_t *topo,
                               double most_s, ccl_replay_t *r, ccl_error_t *err) {
    again_t *all = NULL;
    uint32_t n = 0;
    CCL_TRY(in_turn(tuning, &all, &n, err));
    ccl_status_t status = simulate_again(tuning, topo, most_s, all, n, err);
    if (status == CCL_OK)
        status = keep_ranks(tuning, all, n, r, err);
    free(all);
    return status;
}
