/*
 * Working for tunings of others: tasks of a notebook's queue, each a schedule or the runs of one
 * program, from what the notebook says of them. Schedules are kept from task to task.
 */
#include "search/tune/tuner.h"

#include <stdlib.h>
#include <string.h>

/* What stays from task to task, while these are of one tuning. */
typedef struct bench {
    char *topology, *demand, *sizes; /* of the tasks; NULL: there is none */
    ccl_topology_t *topo;
    ccl_collective_t *want;
    double *sizes_bytes;
    ccl_space_t space; /* everything */
    ccl_ctx_t ctx;
    ccl_tune_options_t options;
    char profile[256];
    ccl_i_tuner_t *tuner;
} bench_t;

static void bench_fini(bench_t *b) {
    ccl_tuning_t *unused = b->tuner ? b->tuner->out : NULL;
    ccl_i_tuner_destroy(b->tuner);
    ccl_tuning_destroy(unused);
    ccl_topology_destroy(b->topo);
    ccl_collective_destroy(b->want);
    free(b->sizes_bytes);
    free(b->topology);
    free(b->demand);
    free(b->sizes);
    *b = (bench_t){0};
}

static bool fits(const bench_t *b, const ccl_i_task_t *task) {
    return b->tuner && strcmp(b->topology, task->topology) == 0 &&
           strcmp(b->demand, task->demand) == 0 && strcmp(b->sizes, task->sizes) == 0 &&
           b->ctx.seed == task->seed && strcmp(b->profile, task->profile ? task->profile : "") == 0;
}

static ccl_status_t read_inputs(bench_t *b, ccl_lab_t *lab, const ccl_i_task_t *task,
                                ccl_error_t *err) {
    char *topology = NULL, *demand = NULL;
    ccl_status_t status = ccl_i_lab_input(lab, task->topology, &topology, err);
    if (status == CCL_OK)
        status = ccl_i_lab_input(lab, task->demand, &demand, err);
    if (status == CCL_OK)
        status = ccl_topology_read_text(NULL, "a cluster of the lab notebook", topology,
                                        strlen(topology), &b->topo, err);
    if (status == CCL_OK)
        status = ccl_i_point_demand(demand, &b->want, err);
    free(topology);
    free(demand);
    return status;
}

static ccl_status_t read_sizes(bench_t *b, ccl_error_t *err) {
    size_t cap = 0;
    char *p = b->sizes, *end = p;
    for (uint32_t n = 0; *p; n++, p = end) {
        if (!ccl_grow(&b->sizes_bytes, &cap, n + 1u, sizeof *b->sizes_bytes))
            return ccl_fail_nomem(err);
        b->sizes_bytes[n] = strtod(p, &end);
        if (end == p)
            return ccl_fail(err, CCL_ERR_INPUT, "a task of the lab notebook has no sizes");
        b->options.nsizes = n + 1;
    }
    b->options.sizes_bytes = b->sizes_bytes;
    return CCL_OK;
}

static ccl_status_t bench_set_up(bench_t *b, const ccl_ctx_t *ctx, ccl_lab_t *lab,
                                 const ccl_i_task_t *task, ccl_error_t *err) {
    if (fits(b, task))
        return CCL_OK;
    bench_fini(b);
    b->options = (ccl_tune_options_t)CCL_TUNE_OPTIONS_INIT;
    b->topology = strdup(task->topology);
    b->demand = strdup(task->demand);
    b->sizes = strdup(task->sizes);
    if (!b->topology || !b->demand || !b->sizes)
        return ccl_fail_nomem(err);
    snprintf(b->profile, sizeof b->profile, "%s", task->profile ? task->profile : "");
    b->ctx = *ctx;
    b->ctx.seed = task->seed;
    b->ctx.threads = 1;
    CCL_TRY(read_inputs(b, lab, task, err));
    CCL_TRY(read_sizes(b, err));
    b->options.space = &b->space;
    b->options.notebook = ccl_i_lab_notebook(lab);
    b->options.profile = b->profile[0] ? b->profile : NULL;
    CCL_TRY(ccl_i_tuner_create(&b->ctx, b->topo, b->want, &b->options, &b->tuner, err));
    b->tuner->lazy = true;
    if (strcmp(b->tuner->topology, task->topology) != 0 ||
        strcmp(b->tuner->demand, task->demand) != 0)
        return ccl_fail(err, CCL_ERR_INTERNAL,
                        "a cluster or demand of the lab notebook reads differently here");
    return CCL_OK;
}

/* Its runs; those that the notebook has by now are not asked for. */
static ccl_status_t set_runs(ccl_i_tuner_t *t, const ccl_i_task_t *task, uint32_t *nmissing_out,
                             ccl_error_t *err) {
    ccl_tuning_t *r = t->out;
    uint32_t n = 0;
    r->nruns = t->first_run = 0;
    t->first_new = t->nmade;
    ccl_i_clusters_forget(t);
    if (task->nitems > CCL_I_ROUND)
        return ccl_fail(err, CCL_ERR_INPUT, "a task of the lab notebook has too many runs");
    if (!ccl_grow(&r->runs, &r->runs_cap, task->nitems + 1u, sizeof *r->runs))
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < task->nitems; i++) {
        const ccl_i_task_item_t *item = &task->items[i];
        ccl_tune_run_t run = {.estimate = item->estimate};
        double values[CCL_KNOBS];
        while (run.size < r->nsizes && r->sizes_bytes[run.size] != item->size_bytes)
            run.size++;
        if (run.size == r->nsizes)
            return ccl_fail(err, CCL_ERR_INPUT, "a task of the lab notebook is of no size");
        CCL_TRY(ccl_i_space_values(item->settings, values, err));
        CCL_TRY(ccl_i_tune_point(t, values, &run.point, err));
        run.result.status = CCL_INTERRUPTED;
        r->runs[r->nruns++] = run;
        ccl_point_t point = ccl_i_tune_notebook_point(t, &run);
        bool found = false;
        if (strcmp(task->kind, "run") == 0)
            CCL_TRY(ccl_notebook_find(t->options->notebook, &point, &run.result, &found, err));
        if (found)
            continue;
        CCL_TRY(ccl_i_cluster_want(t, values, err));
        CCL_TRY(ccl_i_made_want(t, &r->runs[i], err));
        t->missing[n++] = i;
    }
    *nmissing_out = n;
    return CCL_OK;
}

static ccl_status_t do_task(ccl_i_tuner_t *t, const ccl_i_task_t *task, ccl_i_task_answer_t *a,
                            ccl_error_t *err) {
    uint32_t nmissing = 0;
    CCL_TRY(set_runs(t, task, &nmissing, err));
    CCL_TRY(ccl_i_made_all(t, err));
    if (strcmp(task->kind, "make") == 0) {
        const ccl_i_made_t *m = NULL;
        if (t->out->nruns == 0) /* others have taken it over */
            return CCL_OK;
        CCL_TRY(ccl_i_made_of(t, &t->out->runs[0], &m, err));
        ccl_i_made_answer(m, a);
    } else {
        CCL_TRY(ccl_i_tune_evaluate(t, nmissing, err));
        for (uint32_t i = 0; i < nmissing; i++)
            a->scarce |= t->out->runs[t->missing[i]].scarce;
    }
    return ccl_i_made_forget(t, err);
}

static ccl_status_t take_task(bench_t *b, const ccl_ctx_t *ctx, ccl_lab_t *lab,
                              const ccl_i_task_t *task, ccl_error_t *err) {
    ccl_i_task_answer_t a = {.status = CCL_OK};
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status = bench_set_up(b, ctx, lab, task, &why);
    if (status == CCL_OK)
        status = do_task(b->tuner, task, &a, &why);
    /* A task that cannot be done is reported; what befalls this process is not the task's fault. */
    if (status == CCL_ERR_INTERNAL || status == CCL_ERR_INPUT) {
        a.status = CCL_ERR_INTERNAL;
        snprintf(a.why, sizeof a.why, "%.255s", why.text);
        bench_fini(b);
        status = CCL_OK;
    }
    if (status == CCL_OK)
        status = ccl_i_lab_answer(lab, task->id, &a, &why);
    else
        ccl_i_lab_release(lab, task->id);
    if (status != CCL_OK && err)
        *err = why;
    return status;
}

/* Nothing is free: is there still anything to wait for? */
static ccl_status_t may_wait(ccl_lab_t *lab, const ccl_tune_work_options_t *o, double idle_s,
                             bool *over_out, ccl_error_t *err) {
    bool there = false, ended = false;
    *over_out = o->idle_s > 0 && idle_s >= o->idle_s;
    if (!o->launched)
        return CCL_OK;
    CCL_TRY(ccl_i_lab_asker(lab, &there, &ended, err));
    *over_out = ended;
    if (!there && idle_s > 60)
        return ccl_fail(err, CCL_ERR_IO,
                        "process 0 of this launch does not come to the lab notebook: all want the "
                        "same --notebook");
    return CCL_OK;
}

ccl_status_t ccl_tune_work(const ccl_ctx_t *ctx, ccl_lab_t *lab,
                           const ccl_tune_work_options_t *options, uint64_t *tasks_out,
                           ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_tune_work_options_t, options, err);
    bench_t bench = {0};
    ccl_status_t status = CCL_OK;
    double wait_s = 0, since_s = ccl_now_s();
    bool over = false;
    *tasks_out = 0;
    while (!over) {
        ccl_i_task_t task = {0};
        bool found = false;
        ccl_progress_t progress = {"wait for work", *tasks_out, 0, 0, 0};
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, &progress), status, end);
        CCL_TRY_GOTO(ccl_i_lab_next(lab, &task, &found, err), status, end);
        if (found) {
            status = take_task(&bench, ctx, lab, &task, err);
            ccl_i_task_fini(&task);
            CCL_TRY_GOTO(status, status, end);
            ++*tasks_out;
            wait_s = 0;
            since_s = ccl_now_s();
            continue;
        }
        CCL_TRY_GOTO(may_wait(lab, options, ccl_now_s() - since_s, &over, err), status, end);
        if (!over)
            ccl_i_lab_wait(&wait_s, 0.1);
    }
end:
    bench_fini(&bench);
    return status;
}
