/*
 * TACCL's second and third stages (NSDI 2023, sections 5.1 and 5.2): in which order sends go, then
 * which of them go together and when.
 */
#include "synth/exact/taccl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- order */

typedef struct lister {
    const ccl_i_taccl_t *t;
    ccl_i_taccl_sends_t *s;
    double *ahead;              /* [n] seconds from a send's arrival to that of its last */
    double *hop_free, *free_at; /* [nhops], [nresources] seconds */
    uint32_t *order;            /* [n] sends as they were placed */
    bool *placed;               /* [n] */
} lister_t;

static double use_s(const ccl_i_taccl_t *t, const ccl_i_use_t *use) {
    return t->chunk_bytes * use->times / t->x->resources[use->resource].Bps;
}

static double earliest(const lister_t *l, const ccl_i_taccl_send_t *send) {
    const ccl_i_exchange_t *x = l->t->x;
    const ccl_i_hop_t *hop = &x->hops[send->hop];
    double at = l->hop_free[send->hop];
    if (send->parent != CCL_NONE)
        at = fmax(at, l->s->sends[send->parent].arrive_s);
    for (uint32_t u = 0; u < hop->nuses; u++)
        at = fmax(at, l->free_at[x->uses[hop->first_use + u].resource]);
    return at;
}

static void place(lister_t *l, uint32_t i, double at) {
    const ccl_i_exchange_t *x = l->t->x;
    ccl_i_taccl_send_t *send = &l->s->sends[i];
    const ccl_i_hop_t *hop = &x->hops[send->hop];
    send->start_s = at;
    send->arrive_s = l->hop_free[send->hop] = at + l->t->cost_s[send->hop];
    for (uint32_t u = 0; u < hop->nuses; u++) {
        const ccl_i_use_t *use = &x->uses[hop->first_use + u];
        l->free_at[use->resource] = at + use_s(l->t, use);
    }
    l->placed[i] = true;
}

static void list(lister_t *l) {
    for (size_t k = 0; k < l->s->n; k++) {
        uint32_t best = CCL_NONE;
        double soonest = INFINITY;
        for (uint32_t i = 0; i < l->s->n; i++) {
            const ccl_i_taccl_send_t *send = &l->s->sends[i];
            if (l->placed[i] || (send->parent != CCL_NONE && !l->placed[send->parent]))
                continue;
            double at = earliest(l, send);
            if (at < soonest || (at == soonest && l->ahead[i] > l->ahead[best])) {
                soonest = at;
                best = i;
            }
        }
        place(l, best, soonest);
        l->order[k] = best;
    }
}

/* As they were placed, so that what shares something stands in the order in which it goes. */
static ccl_status_t sort(lister_t *l, ccl_error_t *err) {
    size_t n = l->s->n;
    ccl_i_taccl_send_t *sorted = malloc((n + 1) * sizeof *sorted);
    uint32_t *place = malloc((n + 1) * sizeof *place);
    if (sorted && place) {
        for (size_t k = 0; k < n; k++) {
            sorted[k] = l->s->sends[l->order[k]];
            place[l->order[k]] = (uint32_t)k;
        }
        for (size_t k = 0; k < n; k++)
            if (sorted[k].parent != CCL_NONE)
                sorted[k].parent = place[sorted[k].parent];
        memcpy(l->s->sends, sorted, n * sizeof *sorted);
    }
    bool done = sorted && place;
    free(sorted);
    free(place);
    return done ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_i_taccl_order(const ccl_i_taccl_t *t, ccl_i_taccl_sends_t *s, ccl_error_t *err) {
    size_t n = s->n;
    lister_t l = {.t = t,
                  .s = s,
                  .ahead = calloc(n + 1, sizeof *l.ahead),
                  .hop_free = calloc(t->x->nhops + (size_t)1, sizeof *l.hop_free),
                  .free_at = calloc(t->x->nresources + (size_t)1, sizeof *l.free_at),
                  .order = malloc((n + 1) * sizeof *l.order),
                  .placed = calloc(n + 1, sizeof *l.placed)};
    ccl_status_t status = CCL_OK;
    if (l.ahead && l.hop_free && l.free_at && l.order && l.placed) {
        for (size_t i = n; i-- > 0;) { /* children stand behind their parents */
            uint32_t parent = s->sends[i].parent;
            if (parent != CCL_NONE)
                l.ahead[parent] = fmax(l.ahead[parent], l.ahead[i] + t->cost_s[s->sends[i].hop]);
        }
        list(&l);
        status = sort(&l, err);
    } else {
        status = ccl_fail_nomem(err);
    }
    free(l.ahead);
    free(l.hop_free);
    free(l.free_at);
    free(l.order);
    free(l.placed);
    return status;
}

/* ---------------------------------------------------------------- contiguity and times */

/* Columns of a send: when it starts and is there, in microseconds; how many it and those before it
 * in its message are; and whether it goes together with the next on its hop (0: never). */
typedef struct columns {
    int start, there, count, together;
    uint32_t next; /* send on its hop; CCL_NONE */
} columns_t;

typedef struct dating {
    const ccl_i_taccl_t *t;
    const ccl_i_taccl_sends_t *s;
    ccl_i_glpk_t lp;
    columns_t *columns; /* [n] */
    double most_us;     /* no start is later */
    int end;
} dating_t;

/* a - b <= limit, with more terms before it. */
static void no_later(dating_t *m, int a, int b, double limit) {
    ccl_i_glpk_term(&m->lp, a, 1);
    ccl_i_glpk_term(&m->lp, b, -1);
    ccl_i_glpk_row(&m->lp, false, limit);
}

static void count_term(dating_t *m, const columns_t *c, double us, double *limit) {
    if (c->count)
        ccl_i_glpk_term(&m->lp, c->count, us);
    else
        *limit -= us;
}

/* A send is there after its hop's latency and the bytes of its message so far. */
static void constrain_send(dating_t *m, uint32_t i) {
    const ccl_i_taccl_send_t *send = &m->s->sends[i];
    const columns_t *c = &m->columns[i];
    double alpha_us = 1e6 * m->t->x->hops[send->hop].alpha_s;
    double limit = -alpha_us;
    count_term(m, c, 1e6 * m->t->cost_s[send->hop] - alpha_us, &limit);
    no_later(m, c->start, c->there, limit);
    no_later(m, c->there, m->end, 0);
    if (send->parent != CCL_NONE)
        no_later(m, m->columns[send->parent].there, c->start, 0);
    if (c->count) { /* at least itself */
        ccl_i_glpk_term(&m->lp, c->count, -1);
        ccl_i_glpk_row(&m->lp, false, -1);
    }
}

/* The next on the hop: after it, or in one message with it. */
static void constrain_pair(dating_t *m, uint32_t i) {
    const columns_t *a = &m->columns[i], *b = &m->columns[a->next];
    double most = 2 * m->most_us, many = (double)m->s->n;
    no_later(m, a->start, b->start, 0);
    if (!a->together) {
        no_later(m, a->there, b->start, 0);
        return;
    }
    ccl_i_glpk_term(&m->lp, a->together, -most);
    no_later(m, a->there, b->start, 0);
    ccl_i_glpk_term(&m->lp, a->together, most);
    no_later(m, b->start, a->start, most);
    ccl_i_glpk_term(&m->lp, a->together, most);
    no_later(m, b->there, a->there, most);
    ccl_i_glpk_term(&m->lp, a->together, many);
    no_later(m, a->count, b->count, many - 1);
}

/* What shares a link or a group goes one after the other, in the order found. */
static ccl_status_t constrain_shared(dating_t *m, ccl_error_t *err) {
    const ccl_i_exchange_t *x = m->t->x;
    uint32_t *last = malloc((x->nresources + (size_t)1) * sizeof *last);
    if (!last)
        return ccl_fail_nomem(err);
    memset(last, 0xff, (x->nresources + (size_t)1) * sizeof *last);
    for (uint32_t i = 0; i < m->s->n; i++) {
        const ccl_i_hop_t *hop = &x->hops[m->s->sends[i].hop];
        for (uint32_t u = 0; u < hop->nuses; u++) {
            const ccl_i_use_t *use = &x->uses[hop->first_use + u];
            uint32_t before = last[use->resource];
            last[use->resource] = i;
            if (before == CCL_NONE || m->s->sends[before].hop == m->s->sends[i].hop)
                continue;
            const ccl_i_hop_t *other = &x->hops[m->s->sends[before].hop];
            double limit = 0;
            for (uint32_t v = 0; v < other->nuses; v++)
                if (x->uses[other->first_use + v].resource == use->resource)
                    count_term(m, &m->columns[before],
                               1e6 * use_s(m->t, &x->uses[other->first_use + v]), &limit);
            no_later(m, m->columns[before].start, m->columns[i].start, limit);
        }
    }
    free(last);
    return CCL_OK;
}

/* Between servers, or anywhere where there is one server, a latency is worth saving. */
static bool may_join(const ccl_i_taccl_t *t, uint32_t hop) {
    const ccl_i_hop_t *h = &t->x->hops[hop];
    bool one = true;
    for (uint32_t r = 1; r < t->x->nranks; r++)
        one = one && t->server[r] == t->server[0];
    return h->alpha_s > 0 && (one || t->server[h->src] != t->server[h->dst]);
}

static ccl_status_t build(dating_t *m, ccl_error_t *err) {
    uint32_t n = (uint32_t)m->s->n, nhops = m->t->x->nhops;
    uint32_t *next = malloc((nhops + (size_t)1) * sizeof *next);
    bool *joins = malloc((nhops + (size_t)1) * sizeof *joins);
    if (!next || !joins) {
        free(next);
        free(joins);
        return ccl_fail_nomem(err);
    }
    for (uint32_t h = 0; h < nhops; h++) {
        next[h] = CCL_NONE;
        joins[h] = may_join(m->t, h);
    }
    m->end = ccl_i_glpk_column(&m->lp, CCL_I_GLPK_POSITIVE, 1);
    for (uint32_t i = n; i-- > 0;) {
        columns_t *c = &m->columns[i];
        uint32_t hop = m->s->sends[i].hop;
        *c = (columns_t){.next = next[hop]};
        next[hop] = i;
        c->start = ccl_i_glpk_column(&m->lp, CCL_I_GLPK_POSITIVE, 0);
        c->there = ccl_i_glpk_column(&m->lp, CCL_I_GLPK_POSITIVE, 0);
        if (joins[hop])
            c->count = ccl_i_glpk_column(&m->lp, CCL_I_GLPK_POSITIVE, 0);
        if (joins[hop] && c->next != CCL_NONE)
            c->together = ccl_i_glpk_column(&m->lp, CCL_I_GLPK_BINARY, 0);
        m->most_us = fmax(m->most_us, 1e6 * m->s->sends[i].arrive_s);
    }
    for (uint32_t i = 0; i < n; i++) {
        constrain_send(m, i);
        if (m->columns[i].next != CCL_NONE)
            constrain_pair(m, i);
    }
    free(next);
    free(joins);
    return constrain_shared(m, err);
}

/* The times without the solver's rounding: an order remains one. */
static void read_times(const dating_t *m, const double *value, ccl_i_taccl_sends_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        ccl_i_taccl_send_t *send = &s->sends[i];
        send->start_s = value[m->columns[i].start] / 1e6;
        send->arrive_s = value[m->columns[i].there] / 1e6;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const columns_t *c = &m->columns[i];
        if (!c->together || value[c->together] < 0.5)
            continue;
        s->sends[c->next].start_s = s->sends[i].start_s;
        s->sends[c->next].arrive_s = s->sends[i].arrive_s;
    }
}

ccl_status_t ccl_i_taccl_times(const ccl_i_taccl_t *t, uint32_t nodes, ccl_i_taccl_sends_t *s,
                               ccl_i_glpk_answer_t *answer, bool *best_out, ccl_error_t *err) {
    const ccl_i_glpk_options_t how = {.integer = true, .nodes = nodes, .best = best_out};
    dating_t m = {.t = t, .s = s, .columns = calloc(s->n + 1, sizeof *m.columns)};
    ccl_status_t status = m.columns ? build(&m, err) : ccl_fail_nomem(err);
    double *value = malloc((m.lp.ncolumns + 1) * sizeof *value);
    if (status == CCL_OK && !value)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_glpk_solve(&m.lp, &how, value, NULL, answer, err);
    if (status == CCL_OK && *answer == CCL_I_GLPK_FOUND)
        read_times(&m, value, s);
    free(value);
    free(m.columns);
    ccl_i_glpk_fini(&m.lp);
    return status;
}
