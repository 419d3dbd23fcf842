/*
 * One problem of cegis from start to end: greedy plans, steps taken away by counterexample-guided
 * search until a bound or a proof says that no more can go, then the load spread. Writes the trace.
 */
#include "synth/cegis/cegis.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Restarts of the greedy start, with the load free and with it bounded: more for small plans. */
#define RESTARTS 8u
#define MOST_RESTARTS 64u
#define RESTARTED_SENDS 60000.0
/* Z3's work (rlimit) by default: some 1.5 million a second. */
#define WORK_LEAST 800000.0
#define WORK_MOST 3000000.0
#define WORK_PER_SEND 1000.0
/* Part of the work that the first questions may take. Of 84 wins on the clusters of
   bench/cases/synth_small.c three in four come within it; who has not won by then hardly ever does.
 */
#define TRIAL_SHARE 8u
/* A busiest link that is so near to its bound is left as it is. */
#define NEAR 1.25

typedef struct solver {
    ccl_i_cegis_task_t *task;
    ccl_i_cegis_problem_t *p;
    ccl_i_cegis_plan_t *best;
    uint64_t effort; /* left */
    uint64_t trial;  /* of a question until one is won */
    bool lost;       /* Z3 did not answer within a trial: it is asked no more */
    uint32_t bound;  /* steps; raised by proofs */
    ccl_synth_stats_t stats;
} solver_t;

static bool late(solver_t *s) {
    ccl_i_cegis_task_t *task = s->task;
    if (task->deadline_s > 0 && ccl_now_s() >= task->deadline_s)
        task->limited = true;
    return task->limited;
}

/* ---------------------------------------------------------------- trace */

static void example_text(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_example_t *e,
                         ccl_text_t *out) {
    static const char *const kinds[] = {"link",   "group", "twice", "sender",
                                        "budget", "cause", "goal"};
    const ccl_i_exchange_t *x = p->x;
    ccl_text_printf(out, ",\"first\":{\"kind\":\"%s\",\"step\":%u,\"over\":%u", kinds[e->kind],
                    e->step, e->over);
    if (e->kind == CCL_I_CEGIS_LINK)
        ccl_text_printf(out, ",\"src\":%u,\"dst\":%u,\"capacity\":%u", x->hops[e->index].src,
                        x->hops[e->index].dst, p->capacity->hop_chunks[e->index]);
    else if (e->kind == CCL_I_CEGIS_GROUP || e->kind == CCL_I_CEGIS_BUDGET)
        ccl_text_printf(out, ",\"resource\":%u,\"capacity\":%u", e->index,
                        e->kind == CCL_I_CEGIS_GROUP || !p->budget
                            ? p->capacity->resource_chunks[e->index]
                            : p->budget[e->index]);
    else
        ccl_text_printf(out, ",\"chunk\":%u,\"rank\":%u", e->index / x->nranks,
                        e->index % x->nranks);
    ccl_text_printf(out, "}");
}

static void trace_state(const solver_t *s, const char *event) {
    ccl_text_t *out = s->task->options->trace;
    if (out)
        ccl_text_printf(out,
                        "{\"event\":\"%s\",\"side\":\"%s\",\"steps\":%u,\"bound\":%u,"
                        "\"load_s\":%.9g,\"load_bound_s\":%.9g}\n",
                        event, s->task->side, s->best->nsteps, s->bound,
                        ccl_i_cegis_load_s(s->p, s->best), s->p->load_s);
}

static void trace_run(const solver_t *s, const ccl_i_cegis_run_t *run) {
    static const char *const answers[] = {"found", "none", "unknown"};
    ccl_text_t *out = s->task->options->trace;
    for (size_t i = 0; out && i < run->len; i++) {
        const ccl_i_cegis_snapshot_t *shot = &run->snapshots[i];
        const char *sat = shot->sat == 1    ? "sat"
                          : shot->sat == 0  ? "unsat"
                          : shot->sat == -1 ? "unknown"
                                            : "start";
        ccl_text_printf(out,
                        "{\"event\":\"snapshot\",\"side\":\"%s\",\"iteration\":%zu,\"steps\":%u,"
                        "\"answer\":\"%s\",\"counterexamples\":%u,\"checkpoint\":%u,\"locked\":%u,"
                        "\"constraints\":%u,\"variables\":%u,\"filled\":%u,\"solver_s\":%.6f",
                        s->task->side, i, shot->nsteps, sat, shot->examples, shot->checkpoint,
                        shot->locked, shot->constraints, shot->variables, shot->filled,
                        shot->solver_s);
        if (shot->examples)
            example_text(s->p, &shot->first, out);
        ccl_text_printf(out, "}\n");
    }
    if (out && run->len)
        ccl_text_printf(out,
                        "{\"event\":\"search\",\"side\":\"%s\",\"steps\":%u,\"answer\":\"%s\"%s}\n",
                        s->task->side, run->snapshots[0].nsteps, answers[run->answer],
                        run->limited ? ",\"limited\":true" : "");
}

/* ---------------------------------------------------------------- plans */

static bool cannot_be_better(const solver_t *s, const ccl_i_cegis_plan_t *plan) {
    return plan->nsteps <= s->bound &&
           (!s->task->balance || ccl_i_cegis_load_s(s->p, plan) <= s->p->least_s * (1 + 1e-6));
}

/** Keep the better of two plans; the other one is freed. */
static void take_better(solver_t *s, ccl_i_cegis_plan_t *other) {
    bool better =
        other->nsteps < s->best->nsteps ||
        (other->nsteps == s->best->nsteps &&
         ccl_i_cegis_load_s(s->p, other) < ccl_i_cegis_load_s(s->p, s->best) * (1 - 1e-9));
    if (better) {
        ccl_i_cegis_plan_t old = *s->best;
        *s->best = *other;
        *other = old;
        s->stats.solver_steps = s->stats.solver_spreads = 0; /* this one is not the solver's */
    }
    ccl_i_cegis_plan_fini(other);
}

/** New starts, on all cores. */
typedef struct restarts {
    const solver_t *s;
    uint32_t n, round;
    ccl_i_cegis_plan_t *plans;    /* [n] */
    ccl_i_cegis_limit_t *reached; /* [n] by plans that are done; nsteps 0: not yet, or given up */
    ccl_lock_t *lock;             /* of `reached` */
    _Atomic uint32_t found;       /* the lowest whose plan cannot be better; n: none */
} restarts_t;

static bool is_better(ccl_i_cegis_limit_t a, ccl_i_cegis_limit_t b) {
    return a.nsteps < b.nsteps || (a.nsteps == b.nsteps && a.load_s < b.load_s * (1 - 1e-9));
}

/** What restart `index` must beat: the best so far, and what is done of those that go first. */
static ccl_i_cegis_limit_t limit_of(const restarts_t *r, uint32_t index) {
    const solver_t *s = r->s;
    ccl_i_cegis_limit_t limit = {s->best->nsteps, ccl_i_cegis_load_s(s->p, s->best)};
    ccl_lock_take(r->lock);
    for (uint32_t i = 0; i < index; i++)
        if (r->reached[i].nsteps && is_better(r->reached[i], limit))
            limit = r->reached[i];
    ccl_lock_release(r->lock);
    return limit;
}

static ccl_status_t start_again(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    restarts_t *r = user;
    const solver_t *s = r->s;
    const ccl_i_cegis_task_t *task = s->task;
    uint64_t seed = task->ctx ? task->ctx->seed : 1;
    uint64_t dice = ccl_hash64(&(uint64_t[3]){seed, r->round, index}, 24, 0);
    (void)worker;
    if (index > atomic_load(&r->found) || (task->deadline_s > 0 && ccl_now_s() >= task->deadline_s))
        return CCL_OK;
    ccl_i_cegis_limit_t limit = limit_of(r, index);
    CCL_TRY(
        ccl_i_cegis_greedy(s->p, task->options->plain_start, dice, &limit, &r->plans[index], err));
    if (r->plans[index].len) {
        ccl_lock_take(r->lock);
        r->reached[index] = (ccl_i_cegis_limit_t){r->plans[index].nsteps,
                                                  ccl_i_cegis_load_s(s->p, &r->plans[index])};
        ccl_lock_release(r->lock);
    }
    uint32_t first = atomic_load(&r->found);
    while (r->plans[index].len && cannot_be_better(s, &r->plans[index]) && index < first &&
           !atomic_compare_exchange_weak(&r->found, &first, index)) {
    }
    return CCL_OK;
}

/** As if one after the other, until one is as good as can be. */
static ccl_status_t restart(solver_t *s, uint32_t round, ccl_error_t *err) {
    double few = RESTARTED_SENDS / fmax((double)s->best->len, 1);
    restarts_t r = {
        .s = s, .n = (uint32_t)fmin(fmax(few, RESTARTS), MOST_RESTARTS), .round = round};
    uint32_t threads = s->task->ctx ? s->task->ctx->threads : 0;
    ccl_progress_t progress = {"cegis", 0, r.n, 0, 0};
    if (cannot_be_better(s, s->best) || late(s))
        return CCL_OK;
    r.plans = calloc(r.n, sizeof *r.plans);
    r.reached = calloc(r.n, sizeof *r.reached);
    r.lock = ccl_lock_create();
    r.found = r.n;
    ccl_status_t status = r.plans && r.reached && r.lock ? ccl_ctx_poll(s->task->ctx, &progress)
                                                         : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_parallel_for(r.n, threads, start_again, &r, err);
    for (uint32_t i = 0; r.plans && i < r.n; i++) {
        if (status == CCL_OK && i <= r.found && r.plans[i].len)
            take_better(s, &r.plans[i]);
        else
            ccl_i_cegis_plan_fini(&r.plans[i]);
    }
    free(r.plans);
    free(r.reached);
    ccl_lock_destroy(r.lock);
    (void)late(s);
    return status;
}

static ccl_status_t repair(solver_t *s, uint32_t steps, ccl_i_cegis_answer_t *answer_out,
                           ccl_error_t *err) {
    ccl_i_cegis_run_t run;
    ccl_error_t why = CCL_ERROR_INIT;
    double left_s = s->task->deadline_s > 0 ? s->task->deadline_s - ccl_now_s() : 0;
    *answer_out = CCL_I_CEGIS_UNKNOWN;
    if (s->effort == 0 || s->lost || s->task->start_only || s->task->options->effort == 0 ||
        (s->task->deadline_s > 0 && left_s <= 0))
        return CCL_OK;
    uint64_t effort = s->task->solved || s->effort < s->trial ? s->effort : s->trial;
    const ccl_i_cegis_ask_t ask = {s->p, s->best, steps, effort, left_s};
    ccl_status_t status = ccl_i_cegis_search(s->task->ctx, &ask, &run, &why);
    if (status == CCL_ERR_NOMEM || status == CCL_UNSUPPORTED) {
        ccl_log(s->task->ctx, CCL_LOG_INFO, "cegis", "a search for %u steps was dropped: %s", steps,
                why.text);
        s->task->dropped++;
        return CCL_OK;
    }
    if (status != CCL_OK) {
        if (err)
            *err = why;
        return status;
    }
    trace_run(s, &run);
    s->effort -= run.spent < s->effort ? run.spent : s->effort;
    s->stats.solver_work += run.spent;
    s->task->limited |= run.limited;
    uint32_t calls = s->stats.solver_calls;
    for (size_t i = 0; i < run.len; i++) {
        s->stats.counterexamples += run.snapshots[i].examples;
        s->stats.solver_calls += run.snapshots[i].sat != -2;
        s->stats.solver_s += run.snapshots[i].solver_s;
    }
    *answer_out = run.answer;
    s->lost = run.answer == CCL_I_CEGIS_UNKNOWN && !s->task->solved;
    if (run.answer == CCL_I_CEGIS_FOUND) {
        s->task->solved = true;
        if (s->stats.solver_calls > calls) { /* else the start could be squeezed */
            s->stats.solver_steps += s->best->nsteps - steps;
            s->stats.solver_spreads |= s->best->nsteps == steps;
        }
        ccl_i_cegis_plan_t old = *s->best;
        *s->best = run.plan;
        s->best->nsteps = steps;
        run.plan = old;
    }
    ccl_i_cegis_run_fini(&run);
    return CCL_OK;
}

/** What a plan takes, slice by slice, roughly. */
static double estimate_s(const ccl_i_cegis_problem_t *p, const ccl_i_cegis_plan_t *plan) {
    double slices = fmin(ccl_i_cegis_slices(p, plan), CCL_I_CEGIS_SLICES);
    return ccl_i_cegis_load_s(p, plan) + plan->nsteps * p->capacity->tau_ref_s / slices;
}

/** Other trees, which may take more steps, where slices overlap them. */
static ccl_status_t relieve(solver_t *s, ccl_error_t *err) {
    ccl_i_cegis_plan_t other = {0};
    ccl_status_t status = CCL_OK;
    if (!s->p->one_send && !s->task->options->plain_start)
        status = ccl_i_cegis_relieve(s->p, s->best, &other, err);
    if (status == CCL_OK && other.len && estimate_s(s->p, &other) < estimate_s(s->p, s->best)) {
        ccl_i_cegis_plan_t old = *s->best;
        *s->best = other;
        other = old;
        s->stats.solver_spreads = 0; /* its trees are others now */
    }
    ccl_i_cegis_plan_fini(&other);
    return status;
}

/**
 * The same number of steps, and nothing busy for longer than it must be, or not much longer; or
 * more steps, where slices overlap them. The solver is asked where that leaves much to gain.
 */
static ccl_status_t balance(solver_t *s, ccl_error_t *err) {
    static const double slacks[] = {1, 1.25, 1.5};
    ccl_i_cegis_answer_t answer;
    CCL_TRY(ccl_i_cegis_problem_balance(s->p, 1, err));
    CCL_TRY(restart(s, 1, err));
    if (!late(s) && !cannot_be_better(s, s->best))
        CCL_TRY(relieve(s, err));
    bool near = !s->p->one_send && !s->task->options->plain_start &&
                ccl_i_cegis_load_s(s->p, s->best) <= NEAR * s->p->load_s;
    for (size_t i = 0; !near && i < CCL_ARRAY_LEN(slacks) && !late(s); i++) {
        if (ccl_i_cegis_load_s(s->p, s->best) <= s->p->load_s * slacks[i] * (1 + 1e-6))
            break;
        CCL_TRY(ccl_i_cegis_problem_balance(s->p, slacks[i], err));
        CCL_TRY(repair(s, s->best->nsteps, &answer, err));
        if (answer == CCL_I_CEGIS_FOUND)
            break;
    }
    s->p->budget = NULL;
    return CCL_OK;
}

ccl_status_t ccl_i_cegis_solve(ccl_i_cegis_task_t *task, ccl_i_cegis_problem_t *p,
                               ccl_i_cegis_plan_t *out, ccl_error_t *err) {
    solver_t s = {.task = task, .p = p, .best = out, .bound = p->bound};
    const ccl_synth_options_t *options = task->options;
    uint64_t seed = task->ctx ? task->ctx->seed : 1;
    ccl_i_cegis_answer_t answer = CCL_I_CEGIS_FOUND;
    CCL_TRY(ccl_i_cegis_greedy(p, options->plain_start, seed, NULL, out, err));
    s.stats.start_steps = out->nsteps;
    trace_state(&s, "start");
    if (!options->plain_start)
        CCL_TRY(restart(&s, 0, err));
    double work = fmin(fmax(WORK_LEAST, WORK_PER_SEND * (double)out->len), WORK_MOST) *
                  (options->effort > 0 ? options->effort : 1);
    uint64_t total = (uint64_t)fmin(work, 1e18);
    s.trial = total / TRIAL_SHARE;
    s.effort = task->balance ? total - total / 2 : total;
    while (out->nsteps > s.bound && answer == CCL_I_CEGIS_FOUND && !late(&s)) {
        uint32_t steps = out->nsteps - 1;
        CCL_TRY(repair(&s, steps, &answer, err));
        if (answer == CCL_I_CEGIS_NONE)
            s.bound = steps + 1;
    }
    s.effort += task->balance ? total / 2 : 0;
    if (!cannot_be_better(&s, s.best) && !late(&s))
        CCL_TRY(balance(&s, err));
    trace_state(&s, "result");
    if (task->stats) {
        ccl_synth_stats_t *stats = task->stats;
        stats->parts++;
        stats->start_steps += s.stats.start_steps;
        stats->steps += out->nsteps;
        stats->bound_steps += s.bound;
        stats->counterexamples += s.stats.counterexamples;
        stats->solver_calls += s.stats.solver_calls;
        stats->solver_steps += s.stats.solver_steps;
        stats->solver_spreads += s.stats.solver_spreads;
        stats->solver_s += s.stats.solver_s;
        stats->solver_work += s.stats.solver_work;
    }
    return CCL_OK;
}
