/*
 * The model of a window of steps for Z3: who can have which chunk when, the goal, and the
 * capacities that counterexamples have shown to be needed (z3.c has the loop).
 */
#include "synth/cegis/z3.h"

#include <stdlib.h>
#include <string.h>

/* A problem with more variables leaves out ways that are unlikely to be needed. */
#define MOST_VARIABLES 120000u
#define MOST_SOURCES 4u /* hops from other zones into a rank, then */

typedef ccl_i_cegis_variable_t variable_t;
typedef ccl_i_cegis_window_t window_t;

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

/** What is there stays. */
static void keep(window_t *w) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    uint32_t end = w->s->nsteps;
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
}

/** What is sent is held before, and not yet there. */
static void restrict_sends(window_t *w) {
    const ccl_i_exchange_t *x = w->s->p->x;
    for (size_t i = 0; i < w->nvars; i++) {
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
}

/** What is there has come in a step, or was there before; the goal is that all wanted is there. */
static bool demand_arrivals(window_t *w) {
    const ccl_i_cegis_problem_t *p = w->s->p;
    const ccl_i_exchange_t *x = p->x;
    uint32_t end = w->s->nsteps;
    size_t most = 2;
    for (uint32_t v = 0; v < w->n; v++)
        most = x->in_first[v + 1] - x->in_first[v] + 2 > most
                   ? x->in_first[v + 1] - x->in_first[v] + 2
                   : most;
    ccl_i_z3_term_t *any = malloc(most * sizeof *any);
    size_t *next = malloc((x->nhops + (size_t)1) * sizeof *next);
    bool ok = any && next;
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

/** Equations 2 and 3, and the goal. */
bool ccl_i_cegis_window_model(window_t *w) {
    const ccl_i_exchange_t *x = w->s->p->x;
    for (size_t i = 0; i < w->nvars; i++) {
        variable_t *var = &w->vars[i];
        var->ast = ccl_i_z3_variable(w->z3);
        ccl_i_z3_term_t *slot = has_slot(w, var->chunk, x->hops[var->hop].dst, var->step + 1);
        if (!*slot)
            *slot = ccl_i_z3_variable(w->z3);
    }
    keep(w);
    restrict_sends(w);
    return demand_arrivals(w);
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
bool ccl_i_cegis_window_tighten(window_t *w) {
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

/** Steps from..checkpoint-1 as in the candidate, until the next pop. */
void ccl_i_cegis_window_lock(window_t *w, uint32_t checkpoint, const uint8_t *sent) {
    for (size_t i = 0; i < w->nvars; i++) {
        if (w->vars[i].step < checkpoint)
            demand(w, sent[i] ? w->vars[i].ast : negated(w, w->vars[i].ast));
    }
}

bool ccl_i_cegis_window_init(window_t *w) {
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
    size_t most = w->s->endless ? SIZE_MAX : w->s->effort / CCL_I_CEGIS_WORK_PER_VARIABLE;
    if (!find_variables(w, p->nlevels > 2 ? MOST_VARIABLES : most))
        return false;
    w->pruned = w->nvars > MOST_VARIABLES && p->nlevels > 2;
    return !w->pruned || find_variables(w, most);
}

void ccl_i_cegis_window_fini(window_t *w) {
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
