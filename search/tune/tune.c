/*
 * Tuning: points of a space, tried at sizes, in rounds of a fixed number so that threads change
 * nothing. A round: what the notebook has is taken from there; schedules that are missing are
 * synthesized, in parallel; programs are lowered and proven, and their runs simulated, in parallel,
 * each written down at once. Runs that can only come to the same (equal schedules lowered alike)
 * are done once.
 */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double ccl_i_tune_spend(atomic_uint_least64_t *ns, double start_s) {
    double now_s = ccl_now_s();
    atomic_fetch_add(ns, (uint64_t)(1e9 * (now_s - start_s)));
    return now_s;
}

ccl_status_t ccl_i_tune_poll(ccl_i_tuner_t *t, const char *phase, const double *values,
                             uint32_t worker) {
    uint64_t all = t->options->budget_runs;
    char what[120];
    const ccl_tuning_t *r = t->out;
    ccl_progress_t progress = {what, atomic_load(&t->done), all, 0, 0};
    snprintf(what, sizeof what, "%s%s%s", phase, values ? " " : "",
             values ? ccl_synth_all()[(size_t)values[CCL_KNOB_WITH]]->name : "");
    if (r->nsizes == 1 && r->best[0] != CCL_NONE) { /* both change between rounds only */
        progress.best_s = r->runs[r->best[0]].result.time_s;
        progress.bound_s = r->bound_s[0];
    }
    ccl_ctx_t quiet = t->ctx ? *t->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    if (worker != 0) /* callbacks come from one thread only */
        quiet.progress = NULL;
    return ccl_ctx_poll(&quiet, &progress);
}

/* ---------------------------------------------------------------- points */

ccl_status_t ccl_i_tune_point(ccl_i_tuner_t *t, const double values[CCL_KNOBS], uint32_t *out,
                              ccl_error_t *err) {
    ccl_tuning_t *r = t->out;
    ccl_tune_point_t point;
    memcpy(point.values, values, sizeof point.values);
    ccl_space_point(t->options->space, point.values);
    point.settings = ccl_space_settings(point.values);
    if (!point.settings)
        return ccl_fail_nomem(err);
    *out = ccl_strmap_get(t->by_settings, point.settings);
    if (*out != CCL_NONE) {
        free(point.settings);
        return CCL_OK;
    }
    if (!ccl_grow(&r->points, &r->points_cap, r->npoints + 1u, sizeof *r->points) ||
        !ccl_strmap_put(t->by_settings, point.settings, r->npoints)) {
        free(point.settings);
        return ccl_fail_nomem(err);
    }
    *out = r->npoints;
    r->points[r->npoints++] = point;
    return CCL_OK;
}

/* ---------------------------------------------------------------- rounds */

/* Of the round: what the notebook has is taken, schedules of the rest are asked for. */
static ccl_status_t resume(ccl_i_tuner_t *t, uint32_t *nmissing_out, ccl_error_t *err) {
    uint32_t n = 0;
    for (uint32_t i = t->first_run; i < t->out->nruns; i++) {
        ccl_tune_run_t *run = &t->out->runs[i];
        bool found = false;
        if (t->options->notebook) {
            double start_s = ccl_now_s();
            ccl_point_t point = ccl_i_tune_notebook_point(t, run);
            CCL_TRY(ccl_notebook_find(t->options->notebook, &point, &run->result, &found, err));
            ccl_i_tune_spend(&t->notebook_ns, start_s);
        }
        run->resumed = found;
        if (found) {
            atomic_fetch_add(&t->done, 1);
            continue;
        }
        run->result.status = CCL_INTERRUPTED; /* until it is done */
        CCL_TRY(ccl_i_cluster_want(t, t->out->points[run->point].values, err));
        CCL_TRY(ccl_i_made_want(t, run, err));
        t->missing[n++] = i;
    }
    *nmissing_out = n;
    return CCL_OK;
}

static void take_best(ccl_i_tuner_t *t) {
    ccl_tuning_t *r = t->out;
    for (uint32_t i = t->first_run; i < r->nruns; i++) {
        const ccl_tune_run_t *run = &r->runs[i];
        uint32_t *best = &r->best[run->size], *untuned = &r->untuned[run->size];
        if (run->estimate || run->result.status != CCL_OK)
            continue;
        if (*best == CCL_NONE || run->result.time_s < r->runs[*best].result.time_s)
            *best = i;
        if (run->point < r->nuntuned &&
            (*untuned == CCL_NONE || run->result.time_s < r->runs[*untuned].result.time_s))
            *untuned = i;
        r->done[run->size] =
            r->runs[*best].result.time_s <= r->bound_s[run->size] * (1 + t->options->gap);
    }
}

/* Runs that did not come to their end are dropped. */
static void drop_unfinished(ccl_i_tuner_t *t) {
    uint32_t kept = t->first_run;
    for (uint32_t i = t->first_run; i < t->out->nruns; i++)
        if (t->out->runs[i].result.status != CCL_INTERRUPTED)
            t->out->runs[kept++] = t->out->runs[i];
    t->out->nruns = kept;
}

/*
 * Of runs whose work is the same one is done; the others are its copies. Keeps in t->missing what
 * is to be done, in t->copies[run - first_run] of whom a run is a copy.
 */
static ccl_status_t leave_copies(ccl_i_tuner_t *t, uint32_t *nmissing, ccl_error_t *err) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < CCL_I_ROUND; i++)
        t->copies[i] = CCL_NONE;
    for (uint32_t i = 0; i < *nmissing; i++) {
        uint32_t run = t->missing[i], other = CCL_NONE;
        const ccl_i_made_t *m = NULL;
        CCL_TRY(ccl_i_made_of(t, &t->out->runs[run], &m, err));
        if (m->shared) {
            char *work = ccl_i_tune_work(t, &t->out->runs[run], m);
            if (!work)
                return ccl_fail_nomem(err);
            other = ccl_strmap_get(t->by_work, work);
            bool put = other != CCL_NONE || ccl_strmap_put(t->by_work, work, run);
            free(work);
            if (!put)
                return ccl_fail_nomem(err);
        }
        if (other == CCL_NONE)
            t->missing[n++] = run;
        else
            t->copies[run - t->first_run] = other;
    }
    *nmissing = n;
    return CCL_OK;
}

static ccl_status_t write_copies(ccl_i_tuner_t *t, ccl_error_t *err) {
    for (uint32_t i = t->first_run; i < t->out->nruns; i++) {
        ccl_tune_run_t *run = &t->out->runs[i];
        uint32_t other = t->copies[i - t->first_run];
        const ccl_i_made_t *m = NULL;
        if (other == CCL_NONE || t->out->runs[other].result.status == CCL_INTERRUPTED)
            continue;
        CCL_TRY(ccl_i_made_of(t, run, &m, err));
        run->result = t->out->runs[other].result;
        run->scarce = t->out->runs[other].scarce || m->scarce;
        run->result.synth_s = m->synth_s;
        run->result.eval_s = 0;
        CCL_TRY(ccl_i_tune_keep(t, run, t->out->runs[other].result.status, err));
    }
    return CCL_OK;
}

static ccl_status_t finish_round(ccl_i_tuner_t *t, ccl_error_t *err) {
    uint32_t nmissing = 0;
    ccl_status_t status = CCL_OK;
    t->first_new = t->nmade;
    ccl_i_clusters_forget(t);
    if (t->options->lab && !t->alone_here)
        CCL_TRY_GOTO(ccl_i_lab_shared(t->options->lab, &t->queued, err), status, end);
    CCL_TRY_GOTO(resume(t, &nmissing, err), status, end);
    CCL_TRY_GOTO(ccl_i_made_all(t, err), status, end);
    CCL_TRY_GOTO(leave_copies(t, &nmissing, err), status, end);
    status = ccl_i_tune_evaluate(t, nmissing, err);
    if (status == CCL_OK)
        status = write_copies(t, err);
end:
    for (uint32_t i = t->first_run; i < t->out->nruns; i++)
        if (!t->out->runs[i].resumed)
            t->out->eval_s += t->out->runs[i].result.eval_s;
    drop_unfinished(t);
    take_best(t);
    t->first_run = t->out->nruns;
    CCL_TRY(status);
    return ccl_i_made_forget(t, err);
}

bool ccl_i_tune_spent(const ccl_i_tuner_t *t, double share) {
    const ccl_tune_options_t *o = t->options;
    bool all_done = true;
    for (uint32_t s = 0; s < t->out->nsizes; s++)
        all_done &= t->out->done[s];
    if (all_done) {
        t->out->stopped = "gap";
        return true;
    }
    bool spent = (o->budget_runs && t->out->nruns >= ceil(share * (double)o->budget_runs)) ||
                 (o->budget_s > 0 && ccl_now_s() - t->start_s >= share * o->budget_s);
    if (spent)
        t->out->stopped = "budget";
    return spent;
}

static ccl_status_t ask(ccl_i_tuner_t *t, uint32_t point, uint32_t size, bool estimate,
                        ccl_error_t *err) {
    ccl_tuning_t *r = t->out;
    char key[48];
    snprintf(key, sizeof key, "%u %u %d", point, size, estimate);
    if (ccl_strmap_get(t->by_run, key) != CCL_NONE)
        return CCL_OK;
    if (!ccl_strmap_put(t->by_run, key, 0) ||
        !ccl_grow(&r->runs, &r->runs_cap, r->nruns + 1u, sizeof *r->runs))
        return ccl_fail_nomem(err);
    r->runs[r->nruns++] = (ccl_tune_run_t){.point = point, .size = size, .estimate = estimate};
    return r->nruns - t->first_run == CCL_I_ROUND ? finish_round(t, err) : CCL_OK;
}

ccl_status_t ccl_i_tune_run(ccl_i_tuner_t *t, uint32_t point, uint32_t size, bool estimate,
                            ccl_error_t *err) {
    if (t->out->done[size] && point >= t->out->nuntuned)
        return CCL_OK;
    if (t->options->budget_runs && t->out->nruns >= t->options->budget_runs)
        return CCL_OK;
    return ask(t, point, size, estimate, err);
}

ccl_status_t ccl_i_tune_extra(ccl_i_tuner_t *t, uint32_t point, uint32_t size, ccl_error_t *err) {
    return ask(t, point, size, false, err);
}

ccl_status_t ccl_i_tune_flush(ccl_i_tuner_t *t, ccl_error_t *err) {
    return t->out->nruns > t->first_run ? finish_round(t, err) : CCL_OK;
}

/* ---------------------------------------------------------------- set up */

ccl_tuning_t *ccl_i_tuner_result(ccl_i_tuner_t *t) {
    return t->out;
}

const ccl_tune_options_t *ccl_i_tuner_options(const ccl_i_tuner_t *t) {
    return t->options;
}

const ccl_topology_t *ccl_i_tuner_topology(const ccl_i_tuner_t *t) {
    return t->topo;
}

const ccl_collective_t *ccl_i_tuner_collective(const ccl_i_tuner_t *t) {
    return t->want;
}

uint64_t ccl_i_tuner_seed(const ccl_i_tuner_t *t) {
    return t->ctx ? t->ctx->seed : 1;
}

ccl_status_t ccl_i_tuning_create(const ccl_i_tuner_t *t, ccl_tuning_t **out, ccl_error_t *err) {
    uint32_t n = t->options->nsizes;
    ccl_tuning_t *r = *out = calloc(1, sizeof *r);
    if (!r)
        return ccl_fail_nomem(err);
    r->sizes_bytes = calloc(n, sizeof *r->sizes_bytes);
    r->bound_s = calloc(n, sizeof *r->bound_s);
    r->best = calloc(n, sizeof *r->best);
    r->untuned = calloc(n, sizeof *r->untuned);
    r->nccl = calloc(n, sizeof *r->nccl);
    r->done = calloc(n, sizeof *r->done);
    if (!r->sizes_bytes || !r->bound_s || !r->best || !r->untuned || !r->nccl || !r->done)
        return ccl_fail_nomem(err);
    r->nsizes = n;
    r->stopped = "space";
    r->gap = t->options->gap;
    for (uint32_t s = 0; s < n; s++) {
        r->sizes_bytes[s] = t->options->sizes_bytes[s];
        r->best[s] = r->untuned[s] = CCL_NONE;
    }
    return CCL_OK;
}

static ccl_status_t allocate(ccl_i_tuner_t *t, ccl_error_t *err) {
    t->missing = calloc(CCL_I_ROUND, sizeof *t->missing);
    t->by_settings = ccl_strmap_create();
    t->by_run = ccl_strmap_create();
    t->copies = calloc(CCL_I_ROUND, sizeof *t->copies);
    t->by_key = ccl_strmap_create();
    t->by_work = ccl_strmap_create();
    t->by_program = ccl_strmap_create();
    t->groups = calloc(CCL_I_ROUND, sizeof *t->groups);
    t->next_of = calloc(CCL_I_ROUND, sizeof *t->next_of);
    if (!t->missing || !t->copies || !t->by_settings || !t->by_run || !t->by_key || !t->by_work ||
        !t->by_program || !t->groups || !t->next_of)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_tuning_create(t, &t->out, err));
    return ccl_i_clusters_init(t, t->out->bound_s, err);
}

static ccl_status_t check_options(const ccl_topology_t *topo, const ccl_collective_t *want,
                                  const ccl_tune_options_t *o, ccl_error_t *err) {
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    if (o->nsizes == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "nothing to tune: no size");
    for (uint32_t i = 0; i < o->nsizes; i++)
        if (!(o->sizes_bytes[i] > 0) || !isfinite(o->sizes_bytes[i]))
            return ccl_fail(err, CCL_ERR_INPUT, "size %u is %g bytes: more than 0 is needed", i,
                            o->sizes_bytes[i]);
    if (!(o->gap >= 0))
        return ccl_fail(err, CCL_ERR_INPUT, "the gap must be 0 or more");
    return CCL_OK;
}

static void tuner_fini(ccl_i_tuner_t *t) {
    for (uint32_t i = 0; i < t->nmade; i++)
        ccl_i_made_destroy(t->made[i]);
    ccl_i_clusters_fini(t);
    ccl_strmap_destroy(t->by_settings);
    ccl_strmap_destroy(t->by_run);
    ccl_strmap_destroy(t->by_key);
    ccl_strmap_destroy(t->by_work);
    ccl_strmap_destroy(t->by_program);
    for (uint32_t i = 0; i < t->nlowered; i++)
        ccl_i_lowered_destroy(t->lowered[i]);
    free(t->lowered);
    free(t->groups);
    free(t->next_of);
    free(t->made);
    free(t->missing);
    free(t->copies);
}

static ccl_status_t tuner_init(ccl_i_tuner_t *t, ccl_error_t *err) {
    CCL_TRY(check_options(t->topo, t->want, t->options, err));
    t->threads = t->ctx && t->ctx->threads ? t->ctx->threads : ccl_core_count();
    t->start_s = ccl_now_s();
    atomic_init(&t->done, 0);
    atomic_init(&t->kept_steps, 0);
    atomic_init(&t->lower_ns, 0);
    atomic_init(&t->simulate_ns, 0);
    atomic_init(&t->notebook_ns, 0);
    CCL_TRY(allocate(t, err));
    CCL_TRY(
        ccl_i_point_inputs(t->options->notebook, t->topo, t->want, t->topology, t->demand, err));
    return ccl_i_notebook_tell(t->ctx, t->options->notebook, t->topology, t->demand, err);
}

ccl_status_t ccl_i_tuner_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                const ccl_collective_t *want, const ccl_tune_options_t *options,
                                ccl_i_tuner_t **out, ccl_error_t *err) {
    ccl_i_tuner_t *t = *out = calloc(1, sizeof *t);
    if (!t)
        return ccl_fail_nomem(err);
    *t = (ccl_i_tuner_t){.ctx = ctx, .topo = topo, .want = want, .options = options};
    return tuner_init(t, err);
}

void ccl_i_tuner_destroy(ccl_i_tuner_t *t) {
    if (t)
        tuner_fini(t);
    free(t);
}

ccl_scarcity_t ccl_tuning_scarcity(const ccl_tuning_t *tuning) {
    ccl_scarcity_t s = {tuning->nruns, 0, 0, true};
    for (uint32_t i = 0; i < tuning->nruns; i++) {
        const ccl_tune_run_t *run = &tuning->runs[i];
        s.missing += run->result.status == CCL_ERR_NOMEM;
        s.partly += run->scarce && run->result.status != CCL_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < tuning->nsizes; i++)
        s.all &= tuning->best[i] == CCL_NONE;
    s.all = s.all && s.missing;
    return s;
}

/* Last, so that a budget is spent on what is tuned. */
static ccl_status_t time_nccl(ccl_i_tuner_t *t, ccl_error_t *err) {
    return ccl_nccl_baselines(t->ctx, t->options->machine, t->topo, t->want, t->out->sizes_bytes,
                              t->out->nsizes, t->out->nccl, err);
}

/* Others make points of what the notebook says of cluster and demand. */
static ccl_status_t check_shared(ccl_i_tuner_t *t, ccl_error_t *err) {
    bool same = true;
    if (!t->options->lab)
        return CCL_OK;
    CCL_TRY(ccl_i_point_again(t->topo, t->want, &same, err));
    if (!same)
        ccl_log(t->ctx, CCL_LOG_WARN, "tune",
                "this cluster or demand cannot be written down without loss: no other process "
                "helps with it");
    t->alone_here = !same;
    t->lazy = same;
    return CCL_OK;
}

static ccl_status_t tune(ccl_i_tuner_t *t, ccl_error_t *err) {
    CCL_TRY(check_shared(t, err));
    ccl_status_t status = ccl_i_tune_search(t, err);
    if (status == CCL_OK)
        status = time_nccl(t, err);
    if (status == CCL_INTERRUPTED) {
        t->out->interrupted = true;
        t->out->stopped = "interrupted";
    }
    t->out->lower_s = 1e-9 * (double)atomic_load(&t->lower_ns);
    t->out->simulate_s = 1e-9 * (double)atomic_load(&t->simulate_ns);
    t->out->notebook_s = 1e-9 * (double)atomic_load(&t->notebook_ns);
    return status;
}

ccl_status_t ccl_tune(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                      const ccl_collective_t *want, const ccl_tune_options_t *options,
                      ccl_tuning_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_tune_options_t, options, err);
    ccl_i_tuner_t *t = NULL;
    ccl_status_t status = ccl_i_tuner_create(ctx, topo, want, options, &t, err);
    if (status == CCL_OK)
        status = tune(t, err);
    ccl_tuning_t *result = t ? t->out : NULL;
    bool told = status == CCL_OK || (result && result->interrupted);
    if (status == CCL_OK && options->keep)
        result->kept = t;
    else
        ccl_i_tuner_destroy(t);
    if (told)
        *out = result;
    else
        ccl_tuning_destroy(result);
    return status;
}

void ccl_tuning_destroy(ccl_tuning_t *tuning) {
    if (!tuning)
        return;
    ccl_i_tuner_destroy(tuning->kept);
    for (uint32_t i = 0; i < tuning->npoints; i++)
        free(tuning->points[i].settings);
    free(tuning->points);
    free(tuning->runs);
    free(tuning->sizes_bytes);
    free(tuning->bound_s);
    free(tuning->nccl);
    free(tuning->best);
    free(tuning->untuned);
    free(tuning->done);
    free(tuning);
}
