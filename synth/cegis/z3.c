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
#include "synth/cegis/cegis.h"
#include "synth/common/solver_z3.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A problem with more variables leaves out ways that are unlikely to be needed. */
#define MOST_VARIABLES 120000u
#define WORK_PER_VARIABLE 30u /* of making the model, in Z3's unit */
#define MOST_SOURCES 4u       /* hops from other zones into a rank, then */

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

typedef struct search {
    const ccl_i_cegis_problem_t *p;
    const ccl_i_cegis_plan_t *start;
    uint32_t nsteps;
    uint64_t effort; /* left; 0 with `endless` */
    bool endless;
    /* child */
    ccl_child_pipe_t *pipe;
    ccl_i_cegis_plan_t plan; /* candidate */
    ccl_i_cegis_examples_t examples;
    ccl_i_cegis_snapshot_t *snapshots;
    size_t nsnapshots, snapshots_cap;
    uint8_t *tight_hop, *tight_resource; /* counterexamples' constraints, kept for good */
    uint8_t *tight_budget;
    bool tight_sender;
    uint32_t *users_first, *users; /* hops of a resource */
} search_t;

static bool put(search_t *s, ccl_i_cegis_answer_t answer) {
    bool found = answer == CCL_I_CEGIS_FOUND;
    answer_t head = {answer, (uint32_t)s->nsnapshots, found ? (uint32_t)s->plan.len : 0,
                     found ? s->plan.nsteps : 0, s->effort};
    size_t snapshots = s->nsnapshots * sizeof *s->snapshots;
    size_t sends = head.nsends * sizeof *s->plan.sends;
    char *data = malloc(sizeof head + snapshots + sends);
    if (!data)
        return false;
    memcpy(data, &head, sizeof head);
    if (snapshots)
        memcpy(data + sizeof head, s->snapshots, snapshots);
    if (sends)
        memcpy(data + sizeof head + snapshots, s->plan.sends, sends);
    bool ok = ccl_child_put(s->pipe, data, sizeof head + snapshots + sends);
    free(data);
    return ok;
}

/* ---------------------------------------------------------------- the model of a window */

typedef struct variable {
    uint32_t chunk, hop, step;
    ccl_i_z3_term_t ast;
} variable_t;

/** Steps from..nsteps-1 of the plan, after a locked prefix. */
typedef struct window {
    search_t *s;
    uint32_t from, steps, n;
    bool pruned;
    ccl_i_z3_t *z3;
    variable_t *vars; /* by hop, then step, then chunk */
    size_t nvars, vars_cap;
    size_t *hop_first;    /* [nhops + 1] into vars */
    uint16_t *at;         /* [nchunks * nranks] step from which it is there; UINT16_MAX: not yet */
    uint16_t *soon;       /* the same, at the earliest */
    ccl_i_z3_term_t *has; /* [nchunks * nranks * (steps + 1)] NULL: impossible */
    uint32_t nconstraints;
    uint8_t *tight_hop, *tight_resource, *tight_budget; /* asserted in this window */
    bool tight_sender;
} window_t;

static void demand(window_t *w, ccl_i_z3_term_t term) {
    ccl_i_z3_demand(w->z3, term);
}

static ccl_i_z3_term_t negated(window_t *w, ccl_i_z3_term_t term) {
    return ccl_i_z3_not(w->z3, term);
}

static void clause(window_t *w, uint32_t n, const ccl_i_z3_term_t *literals) {
    demand(w, n == 1 ? literals[0] : ccl_i_z3_or(w->z3, n, literals));
}

/** Who has what when the window opens, and the earliest they could have it. */
static bool find_times(window_t *w) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    size_t pairs = (size_t)p->nchunks * w->n;
    memset(w->at, 0xff, pairs * sizeof *w->at);
    for (uint32_t k = 0; k < p->nchunks; k++)
        w->at[(size_t)k * w->n + p->chunks[k].root] = 0;
    for (size_t i = 0; i < w->s->plan.len; i++) {
        const ccl_i_cegis_send_t *send = &w->s->plan.sends[i];
        if (send->step < w->from)
            w->at[(size_t)send->chunk * w->n + p->x->hops[send->hop].dst] =
                (uint16_t)(send->step + 1);
    }
    for (uint32_t k = 0; k < p->nchunks; k++) {
        const uint16_t *at = w->at + (size_t)k * w->n;
        uint16_t *soon = w->soon + (size_t)k * w->n;
        for (uint32_t v = 0; v < w->n; v++) {
            uint32_t best = UINT16_MAX;
            for (uint32_t u = 0; u < w->n; u++) {
                uint32_t far = w->from + p->distance[(size_t)u * w->n + v];
                if (at[u] != UINT16_MAX && far < best)
                    best = far;
            }
            soon[v] = (uint16_t)best;
        }
    }
    return true;
}

/** The latest step in which v may receive k so that it is of use. CCL_NONE: never. */
static uint32_t latest(const window_t *w, uint32_t k, uint32_t v) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    uint32_t near = UINT16_MAX;
    if (ccl_i_cegis_wants(p, k, v))
        return w->s->nsteps - 1;
    if (!p->relays)
        return CCL_NONE;
    for (uint32_t i = 0; i < p->chunks[k].ntargets; i++) {
        uint32_t d = p->chunks[k].targets[i];
        uint32_t far = p->distance[(size_t)v * w->n + d];
        if (w->at[(size_t)k * w->n + d] == UINT16_MAX && far < near)
            near = far;
    }
    return near + 1 > w->s->nsteps ? CCL_NONE : w->s->nsteps - 1 - near;
}

static uint32_t common_level(const ccl_i_cegis_problem_t *p, uint32_t u, uint32_t v) {
    uint32_t l = 1;
    while (l + 1 < p->nlevels && p->levels[l].zone[u] != p->levels[l].zone[v])
        l++;
    return l;
}

/** Whether a hop stays inside a zone of the level below the last. */
static bool is_near(const ccl_i_cegis_problem_t *p, uint32_t u, uint32_t v) {
    return common_level(p, u, v) < p->nlevels - 1;
}

/** Ways into a rank from afar, from holders of the chunk: [nchunks * nranks]. */
static void count_far(const window_t *w, uint16_t *far) {
    const ccl_i_exchange_t *x = w->s->p->x;
    memset(far, 0, (size_t)w->s->p->nchunks * w->n * sizeof *far);
    for (uint32_t h = 0; h < x->nhops; h++) {
        uint32_t u = x->hops[h].src, v = x->hops[h].dst;
        if (is_near(w->s->p, u, v))
            continue;
        for (size_t k = 0; k < w->s->p->nchunks; k++)
            far[k * w->n + v] += w->at[k * w->n + u] != UINT16_MAX;
    }
}

/** With many ways into (k, v) those from afar are thinned out, by a fixed shuffle. */
static bool taken(uint32_t k, uint32_t h, uint32_t ncross) {
    uint64_t dice = ccl_hash64(&(uint32_t[2]){k, h}, 8, 1);
    return ncross <= MOST_SOURCES || dice % ncross < MOST_SOURCES;
}

static bool add_variable(window_t *w, uint32_t k, uint32_t h, uint32_t step) {
    if (!ccl_grow(&w->vars, &w->vars_cap, w->nvars + 1, sizeof *w->vars))
        return false;
    w->vars[w->nvars++] = (variable_t){k, h, step, NULL};
    return true;
}

/** No more than `most`: beyond that the model is of no use, w->nvars says so. */
static bool find_variables(window_t *w, size_t most) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    const ccl_i_exchange_t *x = p->x;
    uint16_t *far = w->pruned ? malloc(((size_t)p->nchunks * w->n + 1) * sizeof *far) : NULL;
    bool ok = !w->pruned || far;
    w->nvars = 0;
    if (far)
        count_far(w, far);
    for (uint32_t h = 0; ok && h < x->nhops && w->nvars <= most; h++) {
        uint32_t u = x->hops[h].src, v = x->hops[h].dst;
        bool thin = w->pruned && !is_near(p, u, v);
        w->hop_first[h] = w->nvars;
        for (uint32_t k = 0; k < p->nchunks; k++) {
            size_t from = (size_t)k * w->n + u, to = (size_t)k * w->n + v;
            uint32_t first = w->soon[from], last = latest(w, k, v);
            if (w->at[to] != UINT16_MAX || last == CCL_NONE || w->soon[from] == UINT16_MAX)
                continue;
            if (thin && (w->at[from] == UINT16_MAX || !taken(k, h, far[to])))
                continue;
            for (uint32_t t = first; ok && t <= last && t < w->s->nsteps; t++)
                ok = add_variable(w, k, h, t);
        }
    }
    w->hop_first[x->nhops] = w->nvars;
    free(far);
    return ok;
}

static ccl_i_z3_term_t *has_slot(const window_t *w, uint32_t k, uint32_t v, uint32_t t) {
    return &w->has[((size_t)k * w->n + v) * (w->steps + 1) + (t - w->from)];
}

/** Equations 2 and 3, and the goal. */
static bool build(window_t *w) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    const ccl_i_exchange_t *x = p->x;
    uint32_t end = w->s->nsteps;
    for (size_t i = 0; i < w->nvars; i++) {
        variable_t *var = &w->vars[i];
        var->ast = ccl_i_z3_variable(w->z3);
        ccl_i_z3_term_t *slot = has_slot(w, var->chunk, x->hops[var->hop].dst, var->step + 1);
        if (!*slot)
            *slot = ccl_i_z3_variable(w->z3);
    }
    /* What is there stays. */
    for (uint32_t k = 0; k < p->nchunks; k++) {
        for (uint32_t v = 0; v < w->n; v++) {
            if (w->at[(size_t)k * w->n + v] != UINT16_MAX)
                continue;
            for (uint32_t t = w->from + 1; t < end; t++) {
                ccl_i_z3_term_t now = *has_slot(w, k, v, t), *next = has_slot(w, k, v, t + 1);
                if (!now)
                    continue;
                if (!*next)
                    *next = ccl_i_z3_variable(w->z3);
                clause(w, 2, (ccl_i_z3_term_t[2]){negated(w, now), *next});
            }
        }
    }
    size_t most = 2;
    for (uint32_t v = 0; v < w->n; v++)
        most = x->in_first[v + 1] - x->in_first[v] + 2 > most
                   ? x->in_first[v + 1] - x->in_first[v] + 2
                   : most;
    ccl_i_z3_term_t *any = malloc(most * sizeof *any);
    size_t *next = malloc((x->nhops + (size_t)1) * sizeof *next);
    bool ok = any && next;
    for (size_t i = 0; ok && i < w->nvars; i++) {
        variable_t *var = &w->vars[i];
        const ccl_i_hop_t *hop = &x->hops[var->hop];
        ccl_i_z3_term_t not_sent = negated(w, var->ast);
        if (w->at[(size_t)var->chunk * w->n + hop->src] == UINT16_MAX) {
            ccl_i_z3_term_t held = *has_slot(w, var->chunk, hop->src, var->step);
            if (held)
                clause(w, 2, (ccl_i_z3_term_t[2]){not_sent, held});
            else
                demand(w, not_sent);
        }
        clause(w, 2,
               (ccl_i_z3_term_t[2]){not_sent, *has_slot(w, var->chunk, hop->dst, var->step + 1)});
        ccl_i_z3_term_t before = *has_slot(w, var->chunk, hop->dst, var->step);
        if (before && var->step > w->from)
            clause(w, 2, (ccl_i_z3_term_t[2]){not_sent, negated(w, before)});
    }
    /* Variables of a hop are by chunk, then step: walk all hops into v side by side. */
    for (uint32_t v = 0; ok && v < w->n; v++) {
        for (uint32_t i = x->in_first[v]; i < x->in_first[v + 1]; i++)
            next[x->in_hops[i]] = w->hop_first[x->in_hops[i]];
        for (uint32_t k = 0; k < p->nchunks; k++) {
            if (w->at[(size_t)k * w->n + v] != UINT16_MAX)
                continue;
            for (uint32_t t = w->from; t < end; t++) {
                ccl_i_z3_term_t now = *has_slot(w, k, v, t + 1);
                ccl_i_z3_term_t before = t > w->from ? *has_slot(w, k, v, t) : NULL;
                uint32_t nany = 0;
                for (uint32_t i = x->in_first[v]; i < x->in_first[v + 1]; i++) {
                    uint32_t h = x->in_hops[i];
                    if (next[h] < w->hop_first[h + 1] && w->vars[next[h]].chunk == k &&
                        w->vars[next[h]].step == t)
                        any[nany++] = w->vars[next[h]++].ast;
                }
                if (!now)
                    continue;
                if (before)
                    any[nany++] = before;
                any[nany++] = negated(w, now);
                clause(w, nany, any);
            }
            ccl_i_z3_term_t last = *has_slot(w, k, v, end);
            if (ccl_i_cegis_wants(p, k, v)) {
                if (last)
                    demand(w, last);
                else
                    demand(w, ccl_i_z3_constant(w->z3, false));
            }
        }
    }
    free(any);
    free(next);
    return ok;
}

/* ---------------------------------------------------------------- constraints of counterexamples
 */

typedef struct terms {
    ccl_i_z3_term_t *items;
    int *weights;
    size_t len, items_cap, weights_cap;
} terms_t;

static bool add_term(terms_t *terms, ccl_i_z3_term_t ast, uint32_t weight) {
    if (!ccl_grow(&terms->items, &terms->items_cap, terms->len + 1, sizeof *terms->items) ||
        !ccl_grow(&terms->weights, &terms->weights_cap, terms->len + 1, sizeof *terms->weights))
        return false;
    terms->items[terms->len] = ast;
    terms->weights[terms->len++] = (int)weight;
    return true;
}

static void at_most(window_t *w, const terms_t *terms, uint32_t most) {
    bool plain = true;
    uint64_t sum = 0;
    for (size_t i = 0; i < terms->len; i++) {
        plain &= terms->weights[i] == 1;
        sum += (uint32_t)terms->weights[i];
    }
    if (sum <= most)
        return;
    demand(w, ccl_i_z3_most(w->z3, (uint32_t)terms->len, terms->items,
                            plain ? NULL : terms->weights, (int)most));
    w->nconstraints++;
}

static bool gather(const window_t *w, terms_t *terms, uint32_t h, uint32_t step, uint32_t weight) {
    for (size_t i = w->hop_first[h]; i < w->hop_first[h + 1]; i++) {
        if (w->vars[i].step == step && !add_term(terms, w->vars[i].ast, weight))
            return false;
    }
    return true;
}

static uint32_t times_of(const ccl_i_exchange_t *x, uint32_t h, uint32_t r) {
    for (uint32_t u = x->hops[h].first_use; u < x->hops[h].first_use + x->hops[h].nuses; u++) {
        if (x->uses[u].resource == r)
            return x->uses[u].times;
    }
    return 0;
}

/** Equation 8. */
static bool forbid_two_sends(window_t *w, terms_t *terms) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    const ccl_i_exchange_t *x = p->x;
    for (uint32_t u = 0; u < w->n; u++) {
        for (uint32_t k = 0; k < p->nchunks; k++) {
            for (uint32_t t = w->from; t < w->s->nsteps; t++) {
                terms->len = 0;
                for (uint32_t h = x->out_first[u]; h < x->out_first[u + 1]; h++) {
                    size_t low = w->hop_first[h], high = w->hop_first[h + 1];
                    while (low < high) {
                        size_t mid = low + (high - low) / 2;
                        const variable_t *var = &w->vars[mid];
                        if (var->chunk < k || (var->chunk == k && var->step < t))
                            low = mid + 1;
                        else
                            high = mid;
                    }
                    if (low < w->hop_first[h + 1] && w->vars[low].chunk == k &&
                        w->vars[low].step == t && !add_term(terms, w->vars[low].ast, 1))
                        return false;
                }
                at_most(w, terms, 1);
            }
        }
    }
    return true;
}

/** Assert what counterexamples so far have shown to be needed and is not in force here yet. */
static bool tighten(window_t *w) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    terms_t terms = {0};
    bool ok = true;
    if (w->s->tight_sender && !w->tight_sender) {
        w->tight_sender = true;
        ok = forbid_two_sends(w, &terms);
    }
    for (uint32_t h = 0; ok && h < p->x->nhops; h++) {
        if (!w->s->tight_hop[h] || w->tight_hop[h])
            continue;
        w->tight_hop[h] = 1;
        for (uint32_t t = w->from; ok && t < w->s->nsteps; t++) {
            terms.len = 0;
            ok = gather(w, &terms, h, t, 1);
            at_most(w, &terms, p->capacity->hop_chunks[h]);
        }
    }
    for (uint32_t r = 0; ok && r < p->x->nresources; r++) {
        if (!w->s->tight_resource[r] || w->tight_resource[r])
            continue;
        w->tight_resource[r] = 1;
        for (uint32_t t = w->from; ok && t < w->s->nsteps; t++) {
            terms.len = 0;
            for (uint32_t i = w->s->users_first[r]; ok && i < w->s->users_first[r + 1]; i++) {
                uint32_t h = w->s->users[i];
                ok = gather(w, &terms, h, t, times_of(p->x, h, r));
            }
            at_most(w, &terms, p->capacity->resource_chunks[r]);
        }
    }
    for (uint32_t r = 0; ok && p->budget && r < p->x->nresources; r++) {
        if (!w->s->tight_budget[r] || w->tight_budget[r])
            continue;
        w->tight_budget[r] = 1;
        uint32_t spent_before = 0;
        for (size_t i = 0; i < w->s->plan.len; i++) {
            const ccl_i_cegis_send_t *send = &w->s->plan.sends[i];
            spent_before += send->step < w->from ? times_of(p->x, send->hop, r) : 0;
        }
        terms.len = 0;
        for (uint32_t i = w->s->users_first[r]; ok && i < w->s->users_first[r + 1]; i++) {
            uint32_t h = w->s->users[i], times = times_of(p->x, h, r);
            for (size_t v = w->hop_first[h]; ok && v < w->hop_first[h + 1]; v++)
                ok = add_term(&terms, w->vars[v].ast, times);
        }
        at_most(w, &terms, p->budget[r] > spent_before ? p->budget[r] - spent_before : 0);
    }
    free(terms.items);
    free(terms.weights);
    return ok;
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

/** Steps from..checkpoint-1 as in the candidate, until the next pop. */
static void lock(window_t *w, uint32_t checkpoint, const uint8_t *sent) {
    for (size_t i = 0; i < w->nvars; i++) {
        if (w->vars[i].step < checkpoint)
            demand(w, sent[i] ? w->vars[i].ast : negated(w, w->vars[i].ast));
    }
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
    if (!tighten(w))
        return ccl_fail_nomem(err);
    if (is_locked) {
        ccl_i_z3_push(w->z3);
        lock(w, locked, sent);
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

static bool window_init(window_t *w) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    size_t pairs = (size_t)p->nchunks * w->n;
    w->at = malloc((pairs + 1) * sizeof *w->at);
    w->soon = malloc((pairs + 1) * sizeof *w->soon);
    w->has = calloc(pairs * (w->steps + 1) + 1, sizeof *w->has);
    w->hop_first = calloc(p->x->nhops + (size_t)2, sizeof *w->hop_first);
    w->tight_hop = calloc(p->x->nhops + (size_t)1, 1);
    w->tight_resource = calloc(p->x->nresources + (size_t)1, 1);
    w->tight_budget = calloc(p->x->nresources + (size_t)1, 1);
    if (!w->at || !w->soon || !w->has || !w->hop_first || !w->tight_hop || !w->tight_resource ||
        !w->tight_budget)
        return false;
    find_times(w);
    size_t most = w->s->endless ? SIZE_MAX : w->s->effort / WORK_PER_VARIABLE;
    if (!find_variables(w, p->nlevels > 2 ? MOST_VARIABLES : most))
        return false;
    w->pruned = w->nvars > MOST_VARIABLES && p->nlevels > 2;
    return !w->pruned || find_variables(w, most);
}

static void window_fini(window_t *w) {
    ccl_i_z3_destroy(w->z3);
    free(w->at);
    free(w->soon);
    free(w->has);
    free(w->hop_first);
    free(w->tight_hop);
    free(w->tight_resource);
    free(w->tight_budget);
    free(w->vars);
}

static ccl_status_t solve_window(window_t *w, uint64_t share, int *found_out, ccl_error_t *err) {
    w->z3 = ccl_i_z3_create(0);
    if (!w->z3)
        return ccl_fail_nomem(err);
    spend(w->s, (uint64_t)w->nvars * WORK_PER_VARIABLE);
    if (!build(w))
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
    if (!window_init(&w))
        status = ccl_fail_nomem(err);
    *pruned_out = w.pruned;
    if (status == CCL_OK && !s->endless && w.nvars * (uint64_t)WORK_PER_VARIABLE > s->effort)
        s->effort = 0; /* not even the model can be afforded */
    else if (status == CCL_OK)
        status = solve_window(&w, share, found_out, err);
    window_fini(&w);
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

ccl_status_t ccl_i_cegis_search(const ccl_ctx_t *ctx, const ccl_i_cegis_problem_t *p,
                                const ccl_i_cegis_plan_t *start, uint32_t nsteps, uint64_t effort,
                                double time_left_s, ccl_i_cegis_run_t *run, ccl_error_t *err) {
    search_t s = {
        .p = p, .start = start, .nsteps = nsteps, .effort = effort, .endless = effort == 0};
    ccl_child_limits_t limits = {time_left_s, 0, "cegis"};
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
