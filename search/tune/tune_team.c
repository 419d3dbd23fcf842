/*
 * Tuning by the processes of a team. Process 0 asks: schedules first, which stay where they are
 * made, then all runs of a program at once; the others answer with plain records. What one that
 * ended has not answered is asked of another, and what somebody is late with too; the first answer
 * counts.
 */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { ASK_MAKE, ASK_RUN, ASK_END } kind_t;

typedef struct header {
    uint64_t identity, id; /* of who tunes what; of the question, from 1 */
    uint32_t kind, n, parting;
    ccl_status_t status; /* of an answer: what stops all, with err */
    ccl_error_t err;
} header_t;

typedef struct item {
    double values[CCL_KNOBS];
    uint32_t size, estimate;
} item_t;

typedef struct made_record {
    ccl_status_t status;
    ccl_error_t err;
    double synth_s;
    ccl_content_t content;
    bool scarce;
} made_record_t;

/* Answers are read as if they were of this machine and build. */
static uint64_t identity_of(const ccl_i_tuner_t *t) {
    const uint64_t numbers[] = {t->ctx ? t->ctx->seed : 1,
                                CCL_KNOBS,
                                sizeof(header_t),
                                t->options->turn,
                                sizeof(ccl_point_result_t),
                                sizeof(item_t),
                                UINT64_C(0x0102030405060708)};
    uint64_t h = ccl_hash64(numbers, sizeof numbers, 1);
    h = ccl_hash64(ccl_notebook_tool(), strlen(ccl_notebook_tool()), h);
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops; ops++) {
        const char *version = ccl_synth_version(*ops);
        h = ccl_hash64((*ops)->name, strlen((*ops)->name), h);
        h = ccl_hash64(version, strlen(version), h);
    }
    h = ccl_hash64(t->topology, sizeof t->topology, h);
    h = ccl_hash64(t->demand, sizeof t->demand, h);
    return ccl_hash64(t->out->sizes_bytes, t->out->nsizes * sizeof *t->out->sizes_bytes, h);
}

static bool send(ccl_team_t *team, uint32_t to, const header_t *h, const void *rest, size_t len) {
    char *data = malloc(sizeof *h + len);
    if (!data)
        return false;
    memcpy(data, h, sizeof *h);
    if (len)
        memcpy(data + sizeof *h, rest, len);
    bool sent = ccl_team_send(team, to, data, sizeof *h + len);
    free(data);
    return sent;
}

/* ---------------------------------------------------------------- process 0 */

typedef struct task {
    uint32_t index; /* made: in t->made; runs: in t->lowered */
    uint32_t owner; /* who has its schedule; CCL_NONE */
    double synth_s; /* that making the schedule again takes */
    double given_s; /* when it was last handed out */
    bool done;
} task_t;

typedef struct phase {
    kind_t kind;
    task_t *tasks;
    uint32_t n, left;
    uint64_t first_id;
    double start_s;
} phase_t;

ccl_status_t ccl_i_team_init(ccl_i_tuner_t *t, ccl_error_t *err) {
    ccl_i_team_t *team = &t->team;
    team->world = ccl_team_world(t->options->team);
    team->doing = calloc(team->world, sizeof *team->doing);
    team->here = calloc(team->world, sizeof *team->here);
    if (!team->doing || !team->here)
        return ccl_fail_nomem(err);
    for (uint32_t w = 1; w < team->world; w++)
        team->here[w] = true;
    team->nhere = team->world - 1;
    team->next_id = 1;
    return CCL_OK;
}

void ccl_i_team_fini(ccl_i_team_t *team) {
    free(team->doing);
    free(team->here);
    *team = (ccl_i_team_t){0};
}

bool ccl_i_team_idle(const ccl_i_team_t *team) {
    for (uint32_t w = 1; w < team->world; w++)
        if (!team->here[w] || team->doing[w])
            return false;
    return true;
}

static void lose(ccl_i_tuner_t *t, uint32_t w) {
    ccl_i_team_t *team = &t->team;
    if (!team->here[w])
        return;
    team->here[w] = false;
    team->doing[w] = 0;
    team->nhere--;
    ccl_log(t->ctx, CCL_LOG_WARN, "tune", "process %u of %u ended: %s", w, team->world,
            team->nhere ? "the others do its points" : "process 0 goes on alone");
}

static bool is_held(const ccl_i_team_t *team, uint64_t id) {
    for (uint32_t w = 1; w < team->world; w++)
        if (team->doing[w] == id)
            return true;
    return false;
}

/* What process w should do next; CCL_NONE: wait. */
static uint32_t choose(const ccl_i_team_t *team, const phase_t *p, uint32_t w) {
    double now_s = ccl_now_s(), least_s = 0;
    uint32_t best = CCL_NONE;
    for (uint32_t i = 0; i < p->n; i++) {
        const task_t *k = &p->tasks[i];
        bool owned = k->owner != CCL_NONE && team->here[k->owner];
        double cost_s = owned ? k->synth_s : 0;
        if (k->done || is_held(team, p->first_id + i))
            continue;
        if (k->owner == w)
            return i;
        /* Another one's schedule is made again only after as long a wait. */
        if (now_s - p->start_s >= cost_s && (best == CCL_NONE || cost_s < least_s)) {
            best = i;
            least_s = cost_s;
        }
    }
    if (best != CCL_NONE)
        return best;
    for (uint32_t i = 0; i < p->n; i++)
        if (!p->tasks[i].done && now_s - p->tasks[i].given_s > 2 + 4 * team->longest_s &&
            (best == CCL_NONE || p->tasks[i].given_s < p->tasks[best].given_s) &&
            is_held(team, p->first_id + i))
            best = i;
    return best;
}

static item_t item_of(const ccl_i_tuner_t *t, const ccl_tune_run_t *run) {
    item_t item;
    memset(&item, 0, sizeof item);
    memcpy(item.values, t->out->points[run->point].values, sizeof item.values);
    item.size = run->size;
    item.estimate = run->estimate;
    return item;
}

/* The items of a task; how many. @param out  [CCL_I_ROUND] */
static uint32_t items_of(const ccl_i_tuner_t *t, const phase_t *p, const task_t *k, item_t *out) {
    uint32_t n = 0;
    if (p->kind == ASK_MAKE) {
        ccl_tune_run_t run = {.point = t->made[k->index]->run_point,
                              .size = t->made[k->index]->run_size};
        out[n++] = item_of(t, &run);
        return n;
    }
    for (uint32_t i = t->lowered[k->index]->first_run; i != CCL_NONE;
         i = t->next_of[i - t->first_run])
        out[n++] = item_of(t, &t->out->runs[i]);
    return n;
}

static void hand_out(ccl_i_tuner_t *t, phase_t *p) {
    ccl_i_team_t *team = &t->team;
    item_t items[CCL_I_ROUND];
    for (uint32_t w = 1; w < team->world; w++) {
        uint32_t i = team->here[w] && !team->doing[w] ? choose(team, p, w) : CCL_NONE;
        if (i == CCL_NONE)
            continue;
        header_t h;
        memset(&h, 0, sizeof h);
        h.identity = identity_of(t);
        h.id = p->first_id + i;
        h.kind = p->kind;
        h.n = items_of(t, p, &p->tasks[i], items);
        if (!send(t->options->team, w, &h, items, h.n * sizeof *items)) {
            lose(t, w);
            continue;
        }
        team->doing[w] = h.id;
        p->tasks[i].given_s = ccl_now_s();
    }
}

static void take_made(ccl_i_tuner_t *t, ccl_i_made_t *m, const made_record_t *r, uint32_t from,
                      ccl_status_t *status, ccl_error_t *err) {
    m->tried = true;
    m->owner = from;
    m->status = r->status;
    m->err = r->err;
    m->synth_s = r->synth_s;
    m->scarce = r->scarce;
    if (r->status != CCL_OK)
        return;
    m->shared = calloc(1, sizeof *m->shared); /* its schedule stays there */
    if (!m->shared) {
        *status = ccl_fail_nomem(err);
        return;
    }
    m->shared->users = 1;
    memcpy(m->shared->content, r->content, sizeof m->shared->content);
    (void)t;
}

static ccl_status_t take_runs(ccl_i_tuner_t *t, const ccl_i_lowered_t *l,
                              const ccl_point_result_t *results, ccl_error_t *err) {
    uint32_t k = 0;
    for (uint32_t i = l->first_run; i != CCL_NONE; i = t->next_of[i - t->first_run]) {
        ccl_tune_run_t *run = &t->out->runs[i];
        ccl_point_result_t result = results[k++];
        result.synth_s = run->result.synth_s; /* of who made it first */
        result.bound_s = run->result.bound_s;
        run->result = result;
        CCL_TRY(ccl_i_tune_keep(t, run, result.status, err));
    }
    return CCL_OK;
}

static ccl_status_t take(ccl_i_tuner_t *t, phase_t *p, const ccl_team_message_t *m,
                         ccl_error_t *err) {
    header_t h;
    item_t items[CCL_I_ROUND];
    ccl_status_t status = CCL_OK;
    if (m->len < sizeof h)
        return ccl_fail(err, CCL_ERR_IO, "process %u answers what was not asked", m->from);
    memcpy(&h, m->data, sizeof h);
    if (h.identity != identity_of(t)) /* late: of a tuning before */
        return CCL_OK;
    t->team.doing[m->from] = 0;
    if (h.id < p->first_id) /* late: another one has done it */
        return CCL_OK;
    uint64_t i = h.id - p->first_id;
    size_t each = p->kind == ASK_MAKE ? sizeof(made_record_t) : sizeof(ccl_point_result_t);
    if (i >= p->n || h.kind != p->kind)
        return ccl_fail(err, CCL_ERR_IO, "process %u answers what was not asked", m->from);
    task_t *k = &p->tasks[i];
    if (k->done)
        return CCL_OK;
    if (h.status != CCL_OK)
        return ccl_fail(err, h.status, "process %u: %.200s", m->from, h.err.text);
    if (m->len != sizeof h + items_of(t, p, k, items) * each)
        return ccl_fail(err, CCL_ERR_IO, "process %u answers what was not asked", m->from);
    t->team.longest_s = fmax(t->team.longest_s, ccl_now_s() - k->given_s);
    k->done = true;
    p->left--;
    const char *rest = (const char *)m->data + sizeof h;
    if (p->kind == ASK_RUN) {
        ccl_point_result_t results[CCL_I_ROUND];
        memcpy(results, rest, m->len - sizeof h);
        return take_runs(t, t->lowered[k->index], results, err);
    }
    made_record_t record;
    memcpy(&record, rest, sizeof record);
    take_made(t, t->made[k->index], &record, m->from, &status, err);
    return status;
}

/* Until all is done, or nobody else is left. */
static ccl_status_t work_off(ccl_i_tuner_t *t, phase_t *p, ccl_error_t *err) {
    p->start_s = ccl_now_s();
    p->left = p->n;
    p->first_id = t->team.next_id;
    t->team.next_id += p->n;
    while (p->left > 0 && t->team.nhere > 0) {
        ccl_team_message_t m;
        CCL_TRY(ccl_i_tune_poll(t, p->kind == ASK_MAKE ? "synthesize" : "tune", NULL, 0));
        hand_out(t, p);
        CCL_TRY(ccl_team_receive(t->options->team, 0.05, &m, err));
        if (m.from == CCL_NONE)
            continue;
        ccl_status_t status = CCL_OK;
        if (m.gone)
            lose(t, m.from);
        else
            status = take(t, p, &m, err);
        free(m.data);
        CCL_TRY(status);
    }
    return CCL_OK;
}

ccl_status_t ccl_i_team_make(ccl_i_tuner_t *t, ccl_error_t *err) {
    phase_t p = {.kind = ASK_MAKE, .n = t->nmade - t->first_new};
    if (p.n == 0)
        return CCL_OK;
    p.tasks = calloc(p.n, sizeof *p.tasks);
    if (!p.tasks)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < p.n; i++)
        p.tasks[i] = (task_t){.index = t->first_new + i, .owner = CCL_NONE};
    ccl_status_t status = work_off(t, &p, err);
    free(p.tasks);
    return status;
}

ccl_status_t ccl_i_team_run(ccl_i_tuner_t *t, ccl_error_t *err) {
    phase_t p = {.kind = ASK_RUN, .n = t->ngroups};
    uint32_t left = 0;
    if (p.n == 0)
        return CCL_OK;
    p.tasks = calloc(p.n, sizeof *p.tasks);
    if (!p.tasks)
        return ccl_fail_nomem(err);
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; i < p.n && status == CCL_OK; i++) {
        const ccl_i_made_t *m = NULL;
        uint32_t at = t->groups[i];
        status = ccl_i_made_of(t, &t->out->runs[t->lowered[at]->first_run], &m, err);
        if (status == CCL_OK)
            p.tasks[i] = (task_t){.index = at, .owner = m->owner, .synth_s = m->synth_s};
    }
    if (status == CCL_OK)
        status = work_off(t, &p, err);
    for (uint32_t i = 0; i < p.n; i++)
        if (!p.tasks[i].done)
            t->groups[left++] = p.tasks[i].index;
    t->ngroups = left;
    free(p.tasks);
    return status;
}

void ccl_tune_team_end(ccl_team_t *team, ccl_team_parting_t parting) {
    header_t h;
    memset(&h, 0, sizeof h);
    h.kind = ASK_END;
    h.parting = parting;
    for (uint32_t w = 1; team && w < ccl_team_world(team); w++)
        send(team, w, &h, NULL, 0);
}

/* ---------------------------------------------------------------- the others */

/* Only the runs of this question are there. */
static ccl_status_t set_runs(ccl_i_tuner_t *t, const item_t *items, uint32_t n, ccl_error_t *err) {
    ccl_tuning_t *r = t->out;
    r->nruns = t->first_run = 0;
    if (!ccl_grow(&r->runs, &r->runs_cap, n, sizeof *r->runs))
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++) {
        ccl_tune_run_t run = {.size = items[i].size, .estimate = items[i].estimate};
        if (run.size >= r->nsizes)
            return ccl_fail(err, CCL_ERR_INPUT, "process 0 asks for size %u of %u", run.size,
                            r->nsizes);
        CCL_TRY(ccl_i_tune_point(t, items[i].values, &run.point, err));
        run.result.status = CCL_INTERRUPTED;
        r->runs[r->nruns++] = run;
        t->missing[i] = i;
    }
    t->first_new = t->nmade;
    ccl_i_clusters_forget(t);
    for (uint32_t i = 0; i < n; i++) {
        CCL_TRY(ccl_i_cluster_want(t, r->points[r->runs[i].point].values, err));
        CCL_TRY(ccl_i_made_want(t, &r->runs[i], err));
    }
    return ccl_i_made_all(t, err);
}

static ccl_status_t answer(ccl_i_tuner_t *t, header_t *h, const item_t *items, ccl_error_t *err) {
    made_record_t made;
    ccl_point_result_t results[CCL_I_ROUND];
    const ccl_i_made_t *m = NULL;
    memset(&made, 0, sizeof made);
    memset(results, 0, sizeof results);
    ccl_status_t status = set_runs(t, items, h->n, &h->err);
    if (status == CCL_OK && h->kind == ASK_RUN)
        status = ccl_i_tune_evaluate(t, h->n, &h->err);
    if (status == CCL_OK)
        status = ccl_i_made_of(t, &t->out->runs[0], &m, &h->err);
    if (status == CCL_OK) {
        made.status = m->status;
        made.err = m->err;
        made.synth_s = m->synth_s;
        made.scarce = m->scarce;
        if (m->shared)
            memcpy(made.content, m->shared->content, sizeof made.content);
        for (uint32_t i = 0; i < h->n; i++)
            results[i] = t->out->runs[i].result;
        status = ccl_i_made_forget(t, &h->err);
    }
    h->status = status;
    bool run = h->kind == ASK_RUN;
    size_t len = run ? h->n * sizeof *results : sizeof made;
    if (status == CCL_INTERRUPTED)
        return status;
    if (!send(t->options->team, 0, h, run ? (const void *)results : &made, len))
        return ccl_fail(err, CCL_ERR_IO, "process 0 ended before the tuning was over");
    return CCL_OK;
}

static ccl_status_t check(const ccl_i_tuner_t *t, const ccl_team_message_t *m, header_t *h,
                          item_t *items, ccl_error_t *err) {
    if (m->len < sizeof *h)
        return ccl_fail(err, CCL_ERR_IO, "process 0 sends what is no question");
    memcpy(h, m->data, sizeof *h);
    if (h->kind == ASK_END)
        return CCL_OK;
    if (h->identity != identity_of(t))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "process 0 tunes something else than process %u: all want the same "
                        "program, options and files",
                        ccl_team_rank(t->options->team));
    if (h->n < 1 || h->n > CCL_I_ROUND || m->len != sizeof *h + h->n * sizeof *items)
        return ccl_fail(err, CCL_ERR_IO, "process 0 sends what is no question");
    memcpy(items, (const char *)m->data + sizeof *h, h->n * sizeof *items);
    return CCL_OK;
}

ccl_status_t ccl_i_team_work(ccl_i_tuner_t *t, ccl_team_parting_t *parting_out, ccl_error_t *err) {
    for (;;) {
        ccl_team_message_t m;
        header_t h;
        item_t items[CCL_I_ROUND];
        CCL_TRY(ccl_i_tune_poll(t, "wait", NULL, 0));
        CCL_TRY(ccl_team_receive(t->options->team, 0.2, &m, err));
        if (m.gone)
            return ccl_fail(err, CCL_ERR_IO, "process 0 ended before the tuning was over");
        if (m.from == CCL_NONE)
            continue;
        ccl_status_t status = check(t, &m, &h, items, err);
        free(m.data);
        CCL_TRY(status);
        if (h.kind == ASK_END) {
            *parting_out = (ccl_team_parting_t)h.parting;
            return CCL_OK;
        }
        CCL_TRY(answer(t, &h, items, err));
    }
}
