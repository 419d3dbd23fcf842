/*
 * Tuning beside others: what a round wants is queued in the notebook, schedules first, then all
 * runs of a program at once. Whoever shares the notebook takes what is free, this process too.
 * Schedules stay where they were made; results are points of the notebook. What another tuning has
 * asked for is waited for.
 */
#include "search/tune/tuner.h"

#include <stdlib.h>
#include <string.h>

typedef enum want_state { OPEN, DONE, HERE /* left to this process */ } want_state_t;

typedef struct want {
    uint32_t unit;
    uint32_t index; /* of t->made or of t->out->runs */
    want_state_t state;
} want_t;

/* What is one task: a schedule (t->made) or a program (t->lowered). */
typedef struct unit {
    uint32_t index;
    int64_t task;
    bool free, claimed;
} unit_t;

typedef struct phase {
    ccl_i_tuner_t *t;
    bool make;
    char *sizes;
    uint32_t nwants, nunits;
    want_t *wants;
    ccl_i_task_item_t *items; /* [nwants] */
    unit_t *units;
    ccl_lock_t *lock; /* of schedules that are made again */
    uint32_t *free;   /* [nfree] units */
    uint32_t nfree;
} phase_t;

static void phase_fini(phase_t *p) {
    free(p->sizes);
    free(p->wants);
    free(p->items);
    free(p->units);
    free(p->free);
    ccl_lock_destroy(p->lock);
}

static ccl_status_t phase_init(phase_t *p, uint32_t nunits, uint32_t most, ccl_error_t *err) {
    const ccl_tuning_t *r = p->t->out;
    ccl_text_t sizes = {0};
    for (uint32_t s = 0; s < r->nsizes; s++)
        ccl_text_printf(&sizes, "%s%.17g", s ? " " : "", r->sizes_bytes[s]);
    p->sizes = sizes.data;
    p->wants = calloc(most + 1u, sizeof *p->wants);
    p->items = calloc(most + 1u, sizeof *p->items);
    p->units = calloc(nunits + 1u, sizeof *p->units);
    p->free = calloc(nunits + 1u, sizeof *p->free);
    p->lock = ccl_lock_create();
    bool good = !sizes.nomem && p->wants && p->items && p->units && p->free && p->lock;
    return good ? CCL_OK : ccl_fail_nomem(err);
}

/* @param key  what is asked for, besides cluster, demand, seed and tool. */
static void add_want(phase_t *p, uint32_t index, const ccl_tune_run_t *run, const char *key) {
    const ccl_i_tuner_t *t = p->t;
    ccl_i_task_item_t *item = &p->items[p->nwants];
    const uint64_t numbers[] = {p->make, ccl_i_tuner_seed(t), run->estimate};
    double size_bytes = t->out->sizes_bytes[run->size];
    const char *settings = t->out->points[run->point].settings,
               *tool = ccl_i_lab_tool(t->options->lab);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t h = ccl_hash64(numbers, sizeof numbers, i + 1);
        h = ccl_hash64(t->topology, sizeof t->topology, h);
        h = ccl_hash64(t->demand, sizeof t->demand, h);
        h = ccl_hash64(tool, strlen(tool), h);
        h = ccl_hash64(p->make ? key : settings, strlen(p->make ? key : settings), h);
        h = ccl_hash64(&size_bytes, p->make ? 0 : sizeof size_bytes, h);
        snprintf(item->name + 16 * i, 17, "%016llx", (unsigned long long)h);
    }
    item->settings = settings;
    item->size_bytes = size_bytes;
    item->estimate = run->estimate;
    p->wants[p->nwants++] = (want_t){.unit = p->nunits, .index = index};
}

/* ---------------------------------------------------------------- asking */

/* Queue what is nobody's task yet. */
static ccl_status_t ask(phase_t *p, ccl_error_t *err) {
    ccl_i_tuner_t *t = p->t;
    ccl_i_task_t *tasks = calloc(p->nunits + 1u, sizeof *tasks);
    ccl_i_task_item_t *items = calloc(p->nwants + 1u, sizeof *items);
    uint32_t ntasks = 0, nitems = 0, *unit_of = calloc(p->nunits + 1u, sizeof *unit_of);
    ccl_status_t status = tasks && items && unit_of ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; i < p->nwants && status == CCL_OK; i++) {
        uint32_t u = p->wants[i].unit;
        if (p->wants[i].state != OPEN || p->items[i].task)
            continue;
        if (ntasks == 0 || unit_of[ntasks - 1] != u) {
            const ccl_i_made_t *m = NULL;
            if (!p->make)
                status = ccl_i_made_of(t, &t->out->runs[p->wants[i].index], &m, err);
            unit_of[ntasks] = u;
            tasks[ntasks++] = (ccl_i_task_t){.kind = p->make ? "make" : "run",
                                             .topology = t->topology,
                                             .demand = t->demand,
                                             .profile = t->options->profile,
                                             .sizes = p->sizes,
                                             .seed = ccl_i_tuner_seed(t),
                                             .prefer = m && m->by[0] ? m->by : NULL,
                                             .reserved_s = m ? m->synth_s : 0,
                                             .items = &items[nitems]};
        }
        items[nitems++] = p->items[i];
        tasks[ntasks - 1].nitems++;
    }
    if (status == CCL_OK)
        status = ccl_i_lab_ask(t->options->lab, tasks, ntasks, err);
    for (uint32_t k = 0; k < ntasks && status == CCL_OK; k++)
        p->units[unit_of[k]].task = tasks[k].id;
    for (uint32_t i = 0, k = 0; i < p->nwants && status == CCL_OK; i++)
        if (p->wants[i].state == OPEN && !p->items[i].task)
            p->items[i].task = items[k++].task;
    free(tasks);
    free(items);
    free(unit_of);
    return status;
}

/* ---------------------------------------------------------------- answers */

static ccl_status_t take_made(phase_t *p, want_t *w, const ccl_i_task_answer_t *a,
                              ccl_error_t *err) {
    ccl_i_made_t *m = p->t->made[w->index];
    if (ccl_i_stops_all(a->status))
        return ccl_fail(err, a->status, "%s: %s", a->by, a->why);
    m->tried = true;
    m->status = a->status;
    if (a->status != CCL_OK)
        ccl_fail(&m->err, a->status, "%s", a->why);
    m->synth_s = a->synth_s;
    m->scarce = a->scarce;
    snprintf(m->by, sizeof m->by, "%s", a->by);
    w->state = DONE;
    if (a->status != CCL_OK)
        return CCL_OK;
    m->shared = calloc(1, sizeof *m->shared); /* its schedule stays there */
    if (!m->shared)
        return ccl_fail_nomem(err);
    m->shared->users = 1;
    memcpy(m->shared->content, a->content, sizeof m->shared->content);
    return CCL_OK;
}

static ccl_status_t take_run(phase_t *p, want_t *w, ccl_i_task_item_t *item,
                             const ccl_i_task_answer_t *a, ccl_error_t *err) {
    ccl_i_tuner_t *t = p->t;
    ccl_tune_run_t *run = &t->out->runs[w->index];
    ccl_point_result_t result;
    ccl_point_t point = ccl_i_tune_notebook_point(t, run);
    bool found = false;
    if (a->status != CCL_OK)
        return ccl_fail(err, a->status, "%s: %s", a->by, a->why);
    CCL_TRY(ccl_notebook_find(t->options->notebook, &point, &result, &found, err));
    if (!found) { /* asked for again, unless memory was short there */
        w->state = a->scarce ? HERE : OPEN;
        item->stale = item->task;
        item->task = 0;
        return CCL_OK;
    }
    result.synth_s = run->result.synth_s; /* of who made it first */
    result.bound_s = run->result.bound_s;
    run->result = result;
    w->state = DONE;
    atomic_fetch_add(&t->done, 1);
    return CCL_OK;
}

/* @param left_out  wants that are open. @param moved_out  something has changed. */
static ccl_status_t look(phase_t *p, uint32_t *left_out, bool *moved_out, ccl_error_t *err) {
    uint32_t n = p->nwants;
    int64_t *ids = calloc(n + 1u, sizeof *ids);
    ccl_i_task_state_t *states = calloc(n + 1u, sizeof *states);
    ccl_i_task_answer_t *answers = calloc(n + 1u, sizeof *answers);
    ccl_status_t status = ids && states && answers ? CCL_OK : ccl_fail_nomem(err);
    uint32_t left = 0;
    for (uint32_t i = 0; i < n && status == CCL_OK; i++)
        ids[i] = p->wants[i].state == OPEN ? p->items[i].task : 0;
    if (status == CCL_OK)
        status = ccl_i_lab_look(p->t->options->lab, ids, n, states, answers, err);
    p->nfree = 0;
    *moved_out = false;
    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        unit_t *unit = &p->units[p->wants[i].unit];
        if (p->wants[i].state != OPEN)
            continue;
        if (states[i] == CCL_I_TASK_ANSWERED)
            status = p->make ? take_made(p, &p->wants[i], &answers[i], err)
                             : take_run(p, &p->wants[i], &p->items[i], &answers[i], err);
        else if (states[i] == CCL_I_TASK_GONE || states[i] == CCL_I_TASK_LEFT)
            p->items[i].task = 0;
        else if (states[i] == CCL_I_TASK_FREE && ids[i] == unit->task &&
                 (!p->nfree || p->free[p->nfree - 1] != p->wants[i].unit))
            p->free[p->nfree++] = p->wants[i].unit;
        *moved_out |= p->wants[i].state != OPEN || !p->items[i].task;
        left += p->wants[i].state == OPEN;
    }
    *left_out = left;
    free(ids);
    free(states);
    free(answers);
    return status;
}

/* ---------------------------------------------------------------- a share for this process */

/* The runs of a program that are this process's: of its task, or that no task had memory for. */
static bool chain(phase_t *p, const unit_t *unit, want_state_t state) {
    ccl_i_tuner_t *t = p->t;
    ccl_i_lowered_t *l = t->lowered[unit->index];
    l->first_run = l->last_run = CCL_NONE;
    for (uint32_t i = 0; i < p->nwants; i++) {
        uint32_t run = p->wants[i].index;
        if (&p->units[p->wants[i].unit] != unit || p->wants[i].state != state ||
            (state == OPEN && p->items[i].task != unit->task))
            continue;
        t->next_of[run - t->first_run] = CCL_NONE;
        if (l->first_run == CCL_NONE)
            l->first_run = run;
        else
            t->next_of[l->last_run - t->first_run] = run;
        l->last_run = run;
    }
    return l->first_run != CCL_NONE;
}

static ccl_status_t answer(phase_t *p, const unit_t *unit, ccl_error_t *err) {
    ccl_i_tuner_t *t = p->t;
    ccl_i_task_answer_t a = {.status = CCL_OK};
    if (p->make) {
        ccl_i_made_answer(t->made[unit->index], &a);
        snprintf(t->made[unit->index]->by, sizeof a.by, "%s", ccl_i_lab_name(t->options->lab));
    }
    for (uint32_t i = 0; i < p->nwants; i++) {
        want_t *w = &p->wants[i];
        if (&p->units[w->unit] != unit || p->items[i].task != unit->task || w->state != OPEN)
            continue;
        w->state = DONE;
        a.scarce |= !p->make && t->out->runs[w->index].scarce;
    }
    return ccl_i_lab_answer(t->options->lab, unit->task, &a, err);
}

/* Of t->options->lab; there was memory for it, or nobody else is in the way. */
static ccl_status_t do_unit(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    phase_t *p = user;
    ccl_i_tuner_t *t = p->t;
    unit_t *unit = &p->units[p->free[index]];
    if (!unit->claimed)
        CCL_TRY(ccl_i_lab_claim(t->options->lab, unit->task, &unit->claimed, err));
    if (!unit->claimed)
        return CCL_OK;
    bool waits;
    if (p->make) {
        CCL_TRY(ccl_i_made_one(t, unit->index, worker, err));
        waits = t->made[unit->index]->status == CCL_ERR_NOMEM && !t->alone;
    } else {
        ccl_i_lowered_t *l = t->lowered[unit->index];
        if (l->first_run == CCL_NONE)
            return CCL_OK;
        ccl_lock_take(p->lock);
        ccl_status_t status = ccl_i_made_here(t, &t->out->runs[l->first_run], worker, err);
        ccl_lock_release(p->lock);
        CCL_TRY(status);
        CCL_TRY(ccl_i_lowered_one(t, unit->index, worker, err));
        waits = l->waits;
    }
    if (waits)
        return CCL_OK;
    unit->claimed = false;
    return answer(p, unit, err);
}

static ccl_status_t do_free(phase_t *p, ccl_error_t *err) {
    ccl_i_tuner_t *t = p->t;
    for (uint32_t i = 0; i < p->nfree && !p->make; i++)
        chain(p, &p->units[p->free[i]], OPEN);
    ccl_status_t status = ccl_parallel_for(p->nfree, t->threads, do_unit, p, err);
    t->alone = true; /* what there was no memory for beside others */
    for (uint32_t i = 0; i < p->nfree && status == CCL_OK; i++)
        if (p->units[p->free[i]].claimed)
            status = do_unit(i, 0, p, err);
    t->alone = false;
    return status;
}

static ccl_status_t work_off(phase_t *p, ccl_error_t *err) {
    double wait_s = 0;
    uint32_t left = p->nwants;
    while (left > 0) {
        bool moved = false;
        CCL_TRY(ccl_i_tune_poll(p->t, p->make ? "synthesize" : "tune", NULL, 0));
        CCL_TRY(ask(p, err));
        CCL_TRY(look(p, &left, &moved, err));
        if (p->nfree > 0)
            CCL_TRY(do_free(p, err));
        if (p->nfree > 0 || moved)
            wait_s = 0;
        else if (left > 0)
            ccl_i_lab_wait(&wait_s, 0.1);
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- the two phases */

ccl_status_t ccl_i_queue_make(ccl_i_tuner_t *t, ccl_error_t *err) {
    phase_t p = {.t = t, .make = true};
    uint32_t n = t->nmade - t->first_new;
    if (n == 0)
        return CCL_OK;
    ccl_status_t status = phase_init(&p, n, n, err);
    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        const ccl_i_made_t *m = t->made[t->first_new + i];
        const ccl_tune_run_t run = {.point = m->run_point, .size = m->run_size};
        p.units[i].index = t->first_new + i;
        p.nunits = i;
        add_want(&p, t->first_new + i, &run, m->key);
    }
    p.nunits = n;
    if (status == CCL_OK)
        status = work_off(&p, err);
    phase_fini(&p);
    return status;
}

ccl_status_t ccl_i_queue_run(ccl_i_tuner_t *t, ccl_error_t *err) {
    phase_t p = {.t = t};
    uint32_t n = t->ngroups, left = 0;
    if (n == 0)
        return CCL_OK;
    ccl_status_t status = phase_init(&p, n, CCL_I_ROUND, err);
    for (uint32_t g = 0; g < n && status == CCL_OK; g++) {
        p.units[g].index = t->groups[g];
        p.nunits = g;
        for (uint32_t i = t->lowered[t->groups[g]]->first_run; i != CCL_NONE;
             i = t->next_of[i - t->first_run])
            add_want(&p, i, &t->out->runs[i], NULL);
    }
    p.nunits = n;
    if (status == CCL_OK)
        status = work_off(&p, err);
    for (uint32_t g = 0; g < n && status == CCL_OK; g++)
        if (chain(&p, &p.units[g], HERE))
            t->groups[left++] = p.units[g].index;
    t->ngroups = left;
    phase_fini(&p);
    return status;
}
