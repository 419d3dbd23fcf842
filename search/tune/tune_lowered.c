/*
 * The tuner's programs: one for all runs, of any size, fidelity and round, that lowering makes the
 * same of; lowered and proven once, kept while all that are kept are not too many.
 */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Steps of all programs that are kept (some 200 MB). */
static const double KEPT_STEPS = 4e6;

void ccl_i_lowered_destroy(ccl_i_lowered_t *l) {
    if (!l)
        return;
    ccl_program_destroy(l->program);
    ccl_sim_result_destroy(l->run);
    free(l);
}

/* What a program depends on; malloc'ed. */
static char *key_of(const ccl_i_tuner_t *t, const ccl_tune_run_t *run, const ccl_i_made_t *m) {
    const double *v = t->out->points[run->point].values;
    ccl_way_t way = ccl_i_point_way(v);
    bool improved = !run->estimate && !isnan(v[CCL_KNOB_IMPROVE]);
    bool rough =
        run->estimate && (way.order == CCL_ORDER_HPDS || way.allocation == CCL_ALLOCATE_STATE);
    ccl_text_t text = {0};
    ccl_text_printf(&text, "%s %d %d %d %.17g %.17g %.17g", m->shared->content, way.order,
                    way.allocation, way.granularity, v[CCL_KNOB_FUSE], v[CCL_KNOB_SLOTS],
                    v[CCL_KNOB_PROTO]);
    ccl_i_cluster_key(v, &text);
    /* These look at the run itself (ccl_lower_options_t.size_bytes). */
    if (improved || way.order == CCL_ORDER_HPDS || way.allocation != CCL_ALLOCATE_CONNECTION)
        ccl_text_printf(&text, " %u %.17g %d", run->size, v[CCL_KNOB_BATCHES], rough);
    if (improved)
        ccl_text_printf(&text, " %.17g", v[CCL_KNOB_IMPROVE]);
    if (!text.nomem)
        return text.data;
    ccl_text_fini(&text);
    return NULL;
}

static ccl_status_t find(ccl_i_tuner_t *t, const ccl_tune_run_t *run, const ccl_i_made_t *m,
                         uint32_t *out, ccl_error_t *err) {
    char *key = key_of(t, run, m);
    if (!key)
        return ccl_fail_nomem(err);
    *out = ccl_strmap_get(t->by_program, key);
    if (*out == CCL_NONE) {
        ccl_i_lowered_t *l = calloc(1, sizeof *l);
        if (!l || !ccl_grow(&t->lowered, &t->lowered_cap, t->nlowered + 1u, sizeof *t->lowered) ||
            !ccl_strmap_put(t->by_program, key, t->nlowered)) {
            free(l);
            free(key);
            return ccl_fail_nomem(err);
        }
        l->first_run = CCL_NONE;
        *out = t->nlowered;
        t->lowered[t->nlowered++] = l;
    }
    free(key);
    return CCL_OK;
}

/* Steps that are looked at, more or less: ways of ordering, of merging. */
static double work_of(const ccl_i_tuner_t *t, const ccl_tune_run_t *run, const ccl_i_made_t *m) {
    ccl_way_t way = ccl_i_point_way(t->out->points[run->point].values);
    double work = m->shared->schedule ? m->shared->schedule->ntransfers : 0;
    work *= (way.order == CCL_ORDER_HPDS ? 2 : 1) * (way.allocation == CCL_ALLOCATE_STATE ? 3 : 1);
    return run->estimate ? work / 2 : work;
}

/* The longest first, so that no worker is left with one at the end. */
static void sort_groups(ccl_i_tuner_t *t) {
    for (uint32_t i = 1; i < t->ngroups; i++) { /* a round is short */
        uint32_t group = t->groups[i], at = i;
        for (; at > 0 && t->lowered[t->groups[at - 1]]->work < t->lowered[group]->work; at--)
            t->groups[at] = t->groups[at - 1];
        t->groups[at] = group;
    }
}

/* Runs with one program stand together. What has no schedule is over. */
static ccl_status_t group(ccl_i_tuner_t *t, uint32_t nmissing, ccl_error_t *err) {
    t->ngroups = 0;
    for (uint32_t i = 0; i < nmissing; i++) {
        ccl_tune_run_t *run = &t->out->runs[t->missing[i]];
        const ccl_i_made_t *m = NULL;
        ccl_i_tune_cluster_t *cluster = NULL;
        uint32_t at;
        CCL_TRY(ccl_i_made_of(t, run, &m, err));
        run->result.synth_s = m->synth_s;
        run->scarce = m->scarce;
        CCL_TRY(ccl_i_cluster_of(t, t->out->points[run->point].values, &cluster, err));
        run->result.bound_s = cluster->bound_s[run->size];
        if (m->status != CCL_OK) {
            snprintf(run->result.why, sizeof run->result.why, "%.255s", m->err.text);
            CCL_TRY(ccl_i_tune_keep(t, run, m->status, err));
            continue;
        }
        CCL_TRY(find(t, run, m, &at, err));
        ccl_i_lowered_t *l = t->lowered[at];
        t->next_of[t->missing[i] - t->first_run] = CCL_NONE;
        if (l->first_run == CCL_NONE) {
            t->groups[t->ngroups++] = at;
            l->first_run = t->missing[i];
            l->work = work_of(t, run, m);
        } else {
            t->next_of[l->last_run - t->first_run] = t->missing[i];
        }
        l->last_run = t->missing[i];
    }
    sort_groups(t);
    return CCL_OK;
}

/* Lowered, and where a run is in full proven: an estimate only ranks. */
static ccl_status_t prepare(ccl_i_tuner_t *t, const ccl_topology_t *topo, ccl_routes_t *routes,
                            ccl_i_lowered_t *l, ccl_error_t *err) {
    const ccl_tune_run_t *first = &t->out->runs[l->first_run];
    ccl_ctx_t ctx = ccl_i_worker_ctx(t->ctx);
    const ccl_i_made_t *m = NULL;
    bool prove = false;
    for (uint32_t i = l->first_run; i != CCL_NONE; i = t->next_of[i - t->first_run])
        prove |= !t->out->runs[i].estimate;
    if (!l->program) {
        CCL_TRY(ccl_i_made_of(t, first, &m, err));
        CCL_TRY(ccl_i_tune_lower(t, topo, routes, m, first, l, err));
    }
    if (!prove || l->proven)
        return CCL_OK;
    ccl_way_t way = ccl_i_point_way(t->out->points[first->point].values);
    CCL_TRY(ccl_make_proven(&ctx, l->program, way.granularity, CCL_EXECUTOR_ANY, CCL_ERR_INTERNAL,
                            err));
    l->proven = true;
    return CCL_OK;
}

/* Only time depends on what is kept. */
static void release(ccl_i_tuner_t *t, ccl_i_lowered_t *l, bool was_kept) {
    ccl_sim_result_destroy(l->run); /* has served the runs that are of its size */
    l->run = NULL;
    if (!l->program || was_kept)
        return;
    uint64_t before = atomic_fetch_add(&t->kept_steps, l->program->nsteps);
    if ((double)before + l->program->nsteps <= KEPT_STEPS)
        return;
    atomic_fetch_sub(&t->kept_steps, l->program->nsteps);
    ccl_program_destroy(l->program);
    l->program = NULL;
}

/* On the cluster that it was made for, or on another one as the point has that. */
static ccl_status_t simulate(ccl_i_tuner_t *t, const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_i_lowered_t *l, uint32_t worker, ccl_tune_run_t *run,
                             ccl_error_t *err) {
    ccl_topology_t *own = NULL;
    if (!t->again)
        return ccl_i_tune_simulate(t, topo, routes, l->program, l->run, run, err);
    CCL_TRY(ccl_tune_cluster(t->again, t->out->points[run->point].values, &own, err));
    ccl_routes_t *own_routes = own ? ccl_routes_create(own) : NULL;
    if (!own && !t->again_routes[worker])
        t->again_routes[worker] = ccl_routes_create(t->again);
    routes = own ? own_routes : t->again_routes[worker];
    ccl_status_t status =
        routes ? ccl_i_tune_simulate(t, own ? own : t->again, routes, l->program, NULL, run, err)
               : ccl_fail_nomem(err);
    ccl_routes_destroy(own_routes);
    ccl_topology_destroy(own);
    return status;
}

/* Those that there is no memory for beside others wait: l->waits. */
static ccl_status_t run_all(ccl_i_tuner_t *t, const ccl_topology_t *topo, ccl_routes_t *routes,
                            ccl_i_lowered_t *l, uint32_t worker, double start_s, ccl_error_t *err) {
    double simulate_s = ccl_i_tune_spend(&t->lower_ns, start_s);
    for (uint32_t i = l->first_run; i != CCL_NONE; i = t->next_of[i - t->first_run]) {
        ccl_tune_run_t *run = &t->out->runs[i];
        ccl_error_t why = l->err;
        ccl_status_t status = l->status;
        if (run->result.status != CCL_INTERRUPTED)
            continue; /* done before others had to wait */
        CCL_TRY(ccl_i_tune_poll(t, "simulate", t->out->points[run->point].values, worker));
        if (status == CCL_OK)
            status = simulate(t, topo, routes, l, worker, run, &why);
        if (ccl_i_stops_all(status)) {
            if (err)
                *err = why;
            return status;
        }
        l->waits = status == CCL_ERR_NOMEM && !t->alone;
        if (l->waits)
            return CCL_OK;
        double end_s = ccl_i_tune_spend(&t->simulate_ns, simulate_s);
        run->result.eval_s = end_s - start_s; /* the first one's with lowering and proof */
        snprintf(run->result.why, sizeof run->result.why, "%.255s", why.text);
        CCL_TRY(ccl_i_tune_keep(t, run, status, err));
        start_s = simulate_s = ccl_now_s();
    }
    return CCL_OK;
}

ccl_status_t ccl_i_lowered_one(ccl_i_tuner_t *t, uint32_t index, uint32_t worker,
                               ccl_error_t *err) {
    ccl_i_lowered_t *l = t->lowered[index];
    ccl_routes_t *routes = NULL;
    ccl_i_tune_cluster_t *cluster = NULL;
    bool was_kept = l->program != NULL;
    const double *values = t->out->points[t->out->runs[l->first_run].point].values;
    if (l->waits) {
        l->waits = false;
        l->status = CCL_OK;
        ccl_error_clear(&l->err);
    }
    CCL_TRY(ccl_i_tune_poll(t, "lower", values, worker));
    CCL_TRY(ccl_i_cluster_of(t, values, &cluster, err)); /* all its runs have the same */
    double start_s = ccl_now_s();
    if (l->status == CCL_OK)
        l->status = ccl_i_cluster_routes(cluster, worker, &routes, &l->err);
    if (l->status == CCL_OK)
        l->status = prepare(t, cluster->topo, routes, l, &l->err);
    ccl_status_t status = run_all(t, cluster->topo, routes, l, worker, start_s, err);
    release(t, l, was_kept);
    return status;
}

static ccl_status_t evaluate(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ccl_i_tuner_t *t = user;
    return ccl_i_lowered_one(t, t->groups[index], worker, err);
}

/* By itself: what there was no memory for beside others. */
static ccl_status_t evaluate_alone(ccl_i_tuner_t *t, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    t->alone = true;
    for (uint32_t i = 0; i < t->ngroups && status == CCL_OK; i++)
        if (t->lowered[t->groups[i]]->waits)
            status = evaluate(i, 0, t, err);
    t->alone = false;
    return status;
}

/* A later round may have more. */
static void forgive(ccl_i_tuner_t *t) {
    for (uint32_t i = 0; i < t->ngroups; i++) {
        ccl_i_lowered_t *l = t->lowered[t->groups[i]];
        if (l->status != CCL_ERR_NOMEM)
            continue;
        l->status = CCL_OK;
        ccl_error_clear(&l->err);
    }
}

ccl_status_t ccl_i_tune_evaluate(ccl_i_tuner_t *t, uint32_t nmissing, ccl_error_t *err) {
    ccl_status_t status = group(t, nmissing, err);
    if (status == CCL_OK && t->queued)
        status = ccl_i_queue_run(t, err);
    for (uint32_t i = 0; i < t->ngroups && status == CCL_OK; i++) /* others may have some */
        status = ccl_i_made_here(t, &t->out->runs[t->lowered[t->groups[i]]->first_run], 0, err);
    if (status == CCL_OK)
        status = ccl_parallel_for(t->ngroups, t->threads, evaluate, t, err);
    if (status == CCL_OK)
        status = evaluate_alone(t, err);
    forgive(t);
    for (uint32_t i = 0; i < t->nlowered; i++)
        t->lowered[i]->first_run = CCL_NONE;
    return status;
}
