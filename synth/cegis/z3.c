/*
 * The loop of cegis with Z3 (HeteCCL, NSDI 2026, section 5.2 and appendix H, algorithm 1).
 *
 * A candidate is verified; its earliest violation is the checkpoint; what lies before stays as it
 * is, and Z3 finds the rest: causality and the goal always, capacities only where counterexamples
 * have shown that they are needed, each then for all steps. Its answer is the next candidate. When
 * the rest has no solution, the lock is moved back; when nothing is locked any more and there is
 * none, that number of steps is proven to be too small.
 *
 * Runs in a child process: Z3 overruns its limits. What it may spend is counted in its own unit of
 * work, so the result does not depend on the machine.
 */
#include "synth/cegis/z3.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ccl_i_cegis_run_fini(ccl_i_cegis_run_t *run) {
    ccl_i_cegis_plan_fini(&run->plan);
    free(run->snapshots);
    memset(run, 0, sizeof *run);
}

/* ---------------------------------------------------------------- what goes through the pipe */

typedef struct answer {
    uint32_t answer, nsnapshots, nsends, nsteps;
    uint64_t effort; /* left */
} answer_t;

typedef ccl_i_cegis_search_t search_t;
typedef ccl_i_cegis_variable_t variable_t;
typedef ccl_i_cegis_window_t window_t;

static bool put(search_t *s, ccl_i_cegis_answer_t answer) {
    bool found = answer == CCL_I_CEGIS_FOUND;
    answer_t head = {answer, (uint32_t)s->nsnapshots, found ? (uint32_t)s->plan.len : 0,
                     found ? s->plan.nsteps : 0, s->effort};
    const struct iovec parts[] = {{&head, sizeof head},
                                  {s->snapshots, s->nsnapshots * sizeof *s->snapshots},
                                  {s->plan.sends, head.nsends * sizeof *s->plan.sends}};
    return ccl_child_put_parts(s->pipe, parts, 3);
}

/** Counterexamples become constraints: of that hop, group or kind, for every step. */
static void learn(search_t *s) {
    for (size_t i = 0; i < s->examples.len; i++) {
        const ccl_i_cegis_example_t *e = &s->examples.items[i];
        if (e->kind == CCL_I_CEGIS_LINK)
            s->tight_hop[e->index] = 1;
        else if (e->kind == CCL_I_CEGIS_GROUP)
            s->tight_resource[e->index] = 1;
        else if (e->kind == CCL_I_CEGIS_BUDGET)
            s->tight_budget[e->index] = 1;
        else if (e->kind == CCL_I_CEGIS_SENDER)
            s->tight_sender = true;
    }
}

/* ---------------------------------------------------------------- solving */

/** @param limit  work this check may do; 0: as much as it likes. Takes it from the search's. */
static int check(window_t *w, uint64_t limit, uint64_t *used, double *wall_s) {
    double start_s = ccl_now_s();
    ccl_i_z3_answer_t answer = ccl_i_z3_check(w->z3, limit, used);
    *wall_s = ccl_now_s() - start_s;
    return answer == CCL_I_Z3_SAT ? 1 : answer == CCL_I_Z3_UNSAT ? 0 : -1;
}

/** The candidate: prefix and what the model sends; of two arrivals in a step one is dropped. */
static bool decode(window_t *w) {
    search_t *s = w->s;
    const ccl_i_exchange_t *x = s->p->x;
    size_t pairs = (size_t)s->p->nchunks * w->n, kept = 0;
    uint32_t *got = malloc((pairs + 1) * sizeof *got);
    if (!got)
        return false;
    memset(got, 0, pairs * sizeof *got);
    for (size_t i = 0; i < s->plan.len; i++) {
        if (s->plan.sends[i].step < w->from)
            s->plan.sends[kept++] = s->plan.sends[i];
    }
    s->plan.len = kept;
    bool ok = true;
    for (size_t i = 0; ok && i < w->nvars; i++) {
        const variable_t *var = &w->vars[i];
        size_t to = (size_t)var->chunk * w->n + x->hops[var->hop].dst;
        if (got[to] || !ccl_i_z3_is_true(w->z3, var->ast))
            continue;
        got[to] = 1;
        ok = ccl_grow(&s->plan.sends, &s->plan.cap, s->plan.len + 1, sizeof *s->plan.sends);
        if (ok)
            s->plan.sends[s->plan.len++] = (ccl_i_cegis_send_t){var->chunk, var->hop, var->step};
    }
    free(got);
    ok = ok && ccl_i_cegis_plan_sort(&s->plan);
    s->plan.nsteps = s->nsteps;
    return ok;
}

static bool snapshot(search_t *s, ccl_i_cegis_snapshot_t shot) {
    if (!ccl_grow(&s->snapshots, &s->snapshots_cap, s->nsnapshots + 1, sizeof *s->snapshots))
        return false;
    s->snapshots[s->nsnapshots++] = shot;
    return true;
}

static uint32_t earliest(const search_t *s) {
    uint32_t step = s->nsteps;
    for (size_t i = 0; i < s->examples.len; i++)
        step = s->examples.items[i].step < step ? s->examples.items[i].step : step;
    return step;
}

static bool mark_sent(const window_t *w, uint8_t *sent) {
    const search_t *s = w->s;
    memset(sent, 0, w->nvars);
    for (size_t i = 0; i < s->plan.len; i++) {
        const ccl_i_cegis_send_t *send = &s->plan.sends[i];
        if (send->step < w->from)
            continue;
        size_t low = w->hop_first[send->hop], high = w->hop_first[send->hop + 1];
        while (low < high) {
            size_t mid = low + (high - low) / 2;
            const variable_t *var = &w->vars[mid];
            if (var->chunk < send->chunk || (var->chunk == send->chunk && var->step < send->step))
                low = mid + 1;
            else
                high = mid;
        }
        if (low < w->hop_first[send->hop + 1] && w->vars[low].chunk == send->chunk &&
            w->vars[low].step == send->step)
            sent[low] = 1;
    }
    return true;
}

static uint64_t allowance(const search_t *s, uint64_t share) {
    if (s->endless)
        return 0;
    return s->effort / share > 1000 ? s->effort / share : 1000;
}

static void spend(search_t *s, uint64_t used) {
    s->effort = s->effort > used ? s->effort - used : 0;
}

/** What a candidate leaves wrong, in the snapshot; without any it is filled up. */
static ccl_status_t judge(window_t *w, uint32_t locked, ccl_i_cegis_snapshot_t *shot,
                          ccl_error_t *err) {
    search_t *s = w->s;
    CCL_TRY(ccl_i_cegis_check(s->p, &s->plan, &s->examples, err));
    shot->examples = (uint32_t)s->examples.len;
    shot->checkpoint = earliest(s);
    if (s->examples.len == 0)
        return ccl_i_cegis_fill(s->p, &s->plan, locked < s->nsteps ? locked : w->from,
                                &shot->filled, err);
    shot->first = s->examples.items[0];
    for (size_t i = 1; i < s->examples.len; i++) {
        if (s->examples.items[i].step < shot->first.step)
            shot->first = s->examples.items[i];
    }
    return CCL_OK;
}

/** One question, and the candidate that its answer is. */
static ccl_status_t ask(window_t *w, uint32_t locked, uint64_t share, const uint8_t *sent,
                        ccl_i_cegis_snapshot_t *shot, ccl_error_t *err) {
    search_t *s = w->s;
    bool is_locked = locked > w->from;
    uint64_t used;
    double wall_s;
    if (!ccl_i_cegis_window_tighten(w))
        return ccl_fail_nomem(err);
    if (is_locked) {
        ccl_i_z3_push(w->z3);
        ccl_i_cegis_window_lock(w, locked, sent);
    }
    shot->locked = locked;
    shot->constraints = w->nconstraints;
    shot->sat = check(w, allowance(s, is_locked ? 2 * share : share), &used, &wall_s);
    shot->solver_s = wall_s;
    spend(s, used);
    bool decoded = shot->sat != 1 || decode(w);
    if (is_locked)
        ccl_i_z3_pop(w->z3);
    CCL_TRY(ccl_i_z3_status(w->z3, err));
    return decoded ? CCL_OK : ccl_fail_nomem(err);
}

/** The loop in one window. @param found_out  1 found, 0 none with this prefix, -1 unknown. */
static ccl_status_t repair(window_t *w, uint64_t share, uint8_t *sent, int *found_out,
                           ccl_error_t *err) {
    search_t *s = w->s;
    uint32_t locked = w->from;
    while (s->endless || s->effort) {
        ccl_i_cegis_snapshot_t shot = {
            .nsteps = s->nsteps, .checkpoint = s->nsteps, .variables = (uint32_t)w->nvars};
        CCL_TRY(ask(w, locked, share, sent, &shot, err));
        s->examples.len = 0;
        if (shot.sat == 1)
            CCL_TRY(judge(w, locked, &shot, err));
        if (!snapshot(s, shot) || !put(s, CCL_I_CEGIS_UNKNOWN))
            return ccl_fail_nomem(err);
        if (shot.sat == 1 && s->examples.len == 0) {
            *found_out = 1;
            break;
        }
        if (shot.sat == 1) {
            learn(s);
            locked = shot.checkpoint > w->from ? shot.checkpoint : w->from;
            mark_sent(w, sent);
        } else if (locked > w->from) {
            locked = w->from;
        } else {
            *found_out = shot.sat;
            break;
        }
    }
    return CCL_OK;
}

static ccl_status_t solve_window(window_t *w, uint64_t share, int *found_out, ccl_error_t *err) {
    w->z3 = ccl_i_z3_create(0);
    if (!w->z3)
        return ccl_fail_nomem(err);
    spend(w->s, (uint64_t)w->nvars * CCL_I_CEGIS_WORK_PER_VARIABLE);
    if (!ccl_i_cegis_window_model(w))
        return ccl_fail_nomem(err);
    uint8_t *sent = malloc(w->nvars + 1);
    if (!sent)
        return ccl_fail_nomem(err);
    ccl_status_t status = repair(w, share, sent, found_out, err);
    free(sent);
    return status;
}

static ccl_status_t try_window(search_t *s, uint32_t from, uint64_t share, int *found_out,
                               bool *pruned_out, ccl_error_t *err) {
    window_t w = {.s = s, .from = from, .steps = s->nsteps - from, .n = s->p->x->nranks};
    ccl_status_t status = CCL_OK;
    *found_out = -1;
    if (!ccl_i_cegis_window_init(&w))
        status = ccl_fail_nomem(err);
    *pruned_out = w.pruned;
    if (status == CCL_OK && !s->endless &&
        w.nvars * (uint64_t)CCL_I_CEGIS_WORK_PER_VARIABLE > s->effort)
        s->effort = 0; /* not even the model can be afforded */
    else if (status == CCL_OK)
        status = solve_window(&w, share, found_out, err);
    if (*found_out == 1 || from == 0) /* the last: a context takes long to destroy */
        w.z3 = NULL;
    ccl_i_cegis_window_fini(&w);
    return status;
}

static bool index_users(search_t *s) {
    const ccl_i_exchange_t *x = s->p->x;
    uint32_t nuses = 0;
    for (uint32_t h = 0; h < x->nhops; h++)
        nuses += x->hops[h].nuses;
    s->users_first = calloc(x->nresources + (size_t)2, sizeof *s->users_first);
    s->users = calloc(nuses + (size_t)1, sizeof *s->users);
    if (!s->users_first || !s->users)
        return false;
    for (uint32_t h = 0; h < x->nhops; h++) {
        for (uint32_t u = x->hops[h].first_use; u < x->hops[h].first_use + x->hops[h].nuses; u++)
            s->users_first[x->uses[u].resource + 2]++;
    }
    for (uint32_t r = 0; r < x->nresources; r++)
        s->users_first[r + 1] += s->users_first[r];
    for (uint32_t h = 0; h < x->nhops; h++) {
        for (uint32_t u = x->hops[h].first_use; u < x->hops[h].first_use + x->hops[h].nuses; u++)
            s->users[s->users_first[x->uses[u].resource + 1]++] = h;
    }
    return true;
}

/** Algorithm 1, in the child. The process ends behind it, so nothing is freed. */
static ccl_status_t search(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    search_t *s = user;
    const ccl_i_exchange_t *x = s->p->x;
    ccl_i_cegis_answer_t answer = CCL_I_CEGIS_UNKNOWN;
    s->pipe = pipe;
    s->tight_hop = calloc(x->nhops + (size_t)1, 1);
    s->tight_resource = calloc(x->nresources + (size_t)1, 1);
    s->tight_budget = calloc(x->nresources + (size_t)1, 1);
    if (!s->tight_hop || !s->tight_resource || !s->tight_budget || !index_users(s))
        return ccl_fail_nomem(err);
    ccl_i_cegis_plan_t squeezed = {0};
    CCL_TRY(ccl_i_cegis_squeeze(s->p, s->start, s->nsteps, &squeezed, err));
    s->plan = squeezed;
    CCL_TRY(ccl_i_cegis_check(s->p, &s->plan, &s->examples, err));
    uint32_t from = earliest(s);
    ccl_i_cegis_snapshot_t shot = {
        .nsteps = s->nsteps, .checkpoint = from, .examples = (uint32_t)s->examples.len, .sat = -2};
    if (s->examples.len) {
        shot.first = s->examples.items[0];
        for (size_t i = 1; i < s->examples.len; i++) {
            if (s->examples.items[i].step < shot.first.step)
                shot.first = s->examples.items[i];
        }
    }
    if (!snapshot(s, shot))
        return ccl_fail_nomem(err);
    learn(s);
    if (s->examples.len == 0)
        answer = CCL_I_CEGIS_FOUND;
    /* Moving the lock back: a step, then two, then four ... */
    for (uint32_t back = 1; answer == CCL_I_CEGIS_UNKNOWN && (s->endless || s->effort);) {
        ccl_i_cegis_plan_t kept = {0};
        bool pruned = false;
        if (!ccl_i_cegis_plan_copy(&kept, &squeezed))
            return ccl_fail_nomem(err);
        s->plan = kept;
        from = from > s->nsteps - 1 ? s->nsteps - 1 : from;
        int found;
        CCL_TRY(try_window(s, from, from ? 4 : 1, &found, &pruned, err));
        if (found == 1)
            answer = CCL_I_CEGIS_FOUND;
        else if (from == 0)
            answer = found == 0 && !pruned ? CCL_I_CEGIS_NONE : CCL_I_CEGIS_UNKNOWN;
        if (from == 0)
            break;
        from = from > back ? from - back : 0;
        back *= 2;
    }
    (void)put(s, answer);
    return CCL_OK;
}

ccl_status_t ccl_i_cegis_search(const ccl_ctx_t *ctx, const ccl_i_cegis_ask_t *ask,
                                ccl_i_cegis_run_t *run, ccl_error_t *err) {
    const uint64_t effort = ask->effort;
    search_t s = {.p = ask->p,
                  .start = ask->start,
                  .nsteps = ask->nsteps,
                  .effort = effort,
                  .endless = effort == 0};
    ccl_child_limits_t limits = {ask->time_left_s, 0, "cegis"};
    ccl_child_answer_t answer;
    memset(run, 0, sizeof *run);
    run->answer = CCL_I_CEGIS_UNKNOWN;
    ccl_status_t status = ccl_child_run(ctx, &limits, search, &s, &answer, err);
    run->limited = answer.limited;
    if (status == CCL_OK && answer.data && answer.len >= sizeof(answer_t)) {
        answer_t head;
        memcpy(&head, answer.data, sizeof head);
        const char *at = (const char *)answer.data + sizeof head;
        bool ok = ccl_grow(&run->snapshots, &run->cap, head.nsnapshots + (size_t)1,
                           sizeof *run->snapshots) &&
                  ccl_grow(&run->plan.sends, &run->plan.cap, head.nsends + (size_t)1,
                           sizeof *run->plan.sends);
        if (ok) {
            run->answer = (ccl_i_cegis_answer_t)head.answer;
            run->len = head.nsnapshots;
            memcpy(run->snapshots, at, head.nsnapshots * sizeof *run->snapshots);
            at += head.nsnapshots * sizeof *run->snapshots;
            run->plan.len = head.nsends;
            run->plan.nsteps = head.nsteps;
            run->spent = effort > head.effort ? effort - head.effort : 0;
            memcpy(run->plan.sends, at, head.nsends * sizeof *run->plan.sends);
        } else {
            status = ccl_fail_nomem(err);
        }
    }
    free(answer.data);
    if (status != CCL_OK)
        ccl_i_cegis_run_fini(run);
    return status;
}
