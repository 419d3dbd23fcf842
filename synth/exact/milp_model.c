/*
 * The epoch MILP of a whole collective (TE-CCL, SIGCOMM 2024, section 3): F, a chunk is sent over a
 * hop in an epoch, binary; B, a GPU has a chunk at the start of an epoch. With the number of epochs
 * fixed and no objective GLPK finds in a second what takes it minutes with a makespan to minimise.
 * Runs in a child process only: GLPK passes its limits.
 */
#include "synth/exact/milp.h"

#include <stdlib.h>
#include <string.h>

typedef struct model {
    const ccl_i_milp_t *m;
    ccl_i_glpk_t lp;
    uint32_t n, nhops, nchunks, epochs, order;
    ccl_i_circles_t circles;
    int *send;  /* [nchunks][nhops][epochs] column; 0: never */
    int *has;   /* [nchunks][n][epochs + 1] column; 0: no; -1: for sure */
    int *index; /* scratch, from 1 */
    double *value;
    size_t most;
} model_t;

double ccl_i_milp_variables(const ccl_i_milp_t *m, uint32_t epochs) {
    return (double)m->coll->nchunks * (m->x->nhops + m->x->nranks) * epochs / m->rotation->order;
}

static int has_of(const model_t *m, uint32_t chunk, uint32_t rank, uint32_t k) {
    uint32_t r = ccl_i_circles_rank(&m->circles, chunk, rank);
    return m->has[((size_t)m->circles.rep[chunk] * m->n + r) * (m->epochs + 1) + k];
}

static int send_of(const model_t *m, uint32_t chunk, uint32_t hop, uint32_t k) {
    uint32_t h = ccl_i_circles_hop(&m->circles, chunk, hop);
    return m->send[((size_t)m->circles.rep[chunk] * m->nhops + h) * m->epochs + k];
}

/* ---------------------------------------------------------------- the model */

static uint32_t to_dest(const model_t *m, uint32_t chunk, uint32_t rank) {
    const ccl_chunk_t *c = &m->m->coll->chunks[chunk];
    uint32_t best = CCL_NONE;
    for (uint32_t i = 0; i < c->ndests; i++) {
        uint32_t away = m->m->away[(size_t)rank * m->n + c->dests[i]];
        best = away < best ? away : best;
    }
    return best;
}

/** Columns for what can be: nothing before a chunk can have come, nothing that comes too late. */
static void add_columns(model_t *m) {
    for (uint32_t c = 0; c < m->nchunks; c++) {
        if (m->circles.rep[c] != c)
            continue;
        uint32_t src = m->m->coll->chunks[c].sources[0];
        const uint32_t *away = &m->m->away[(size_t)src * m->n];
        for (uint32_t r = 0; r < m->n; r++)
            for (uint32_t k = 0; k <= m->epochs; k++) {
                int *col = &m->has[((size_t)c * m->n + r) * (m->epochs + 1) + k];
                if (r == src) {
                    *col = -1;
                } else if (k >= away[r]) {
                    *col = ccl_i_glpk_column(&m->lp, CCL_I_GLPK_SHARE, 0);
                }
            }
        for (uint32_t h = 0; h < m->nhops; h++) {
            const ccl_i_hop_t *hop = &m->m->x->hops[h];
            uint64_t rest = (uint64_t)m->m->delay[h] + to_dest(m, c, hop->dst);
            for (uint32_t k = away[hop->src]; k < m->epochs && hop->dst != src; k++) {
                if (k + rest > m->epochs)
                    break;
                m->send[((size_t)c * m->nhops + h) * m->epochs + k] =
                    ccl_i_glpk_column(&m->lp, CCL_I_GLPK_BINARY, 0);
            }
        }
    }
}

/** sum(value * column) <= limit */
static void add_row(model_t *m, size_t len, double limit) {
    for (size_t i = 1; i <= len; i++)
        ccl_i_glpk_term(&m->lp, m->index[i], m->value[i]);
    ccl_i_glpk_row(&m->lp, false, limit);
}

static void put(model_t *m, size_t *len, int column, double value) {
    m->index[++*len] = column;
    m->value[*len] = value;
}

static bool add_chunk(model_t *m, uint32_t c) {
    const ccl_i_exchange_t *x = m->m->x;
    const ccl_chunk_t *chunk = &m->m->coll->chunks[c];
    for (uint32_t h = 0; h < m->nhops; h++)
        for (uint32_t k = 0; k < m->epochs; k++) {
            int send = send_of(m, c, h, k), has = has_of(m, c, x->hops[h].src, k);
            size_t len = 0;
            if (!send || has < 0)
                continue;
            put(m, &len, send, 1);
            if (has)
                put(m, &len, has, -1);
            add_row(m, len, 0);
        }
    for (uint32_t r = 0; r < m->n; r++)
        for (uint32_t k = 0; k <= m->epochs; k++) {
            int now = has_of(m, c, r, k), before = k ? has_of(m, c, r, k - 1) : 0;
            size_t len = 0;
            if (now <= 0)
                continue;
            put(m, &len, now, 1);
            if (before > 0)
                put(m, &len, before, -1);
            for (uint32_t i = x->in_first[r]; i < x->in_first[r + 1]; i++) {
                uint32_t h = x->in_hops[i], delay = m->m->delay[h];
                int send = k >= delay ? send_of(m, c, h, k - delay) : 0;
                if (send)
                    put(m, &len, send, -1);
            }
            add_row(m, len, 0);
        }
    for (uint32_t i = 0; i < chunk->ndests; i++) {
        int has = has_of(m, c, chunk->dests[i], m->epochs);
        if (!has)
            return false;
        if (has > 0)
            ccl_i_glpk_fix(&m->lp, has);
    }
    return true;
}

static void add_resource(model_t *m, uint32_t r) {
    const ccl_i_exchange_t *x = m->m->x;
    uint32_t window = m->m->window[r];
    for (uint32_t from = 0; from < m->epochs; from++) {
        size_t len = 0;
        double total = 0;
        for (uint32_t h = 0; h < m->nhops; h++) {
            uint32_t times = 0;
            for (uint32_t u = 0; u < x->hops[h].nuses; u++)
                if (x->uses[x->hops[h].first_use + u].resource == r)
                    times = x->uses[x->hops[h].first_use + u].times;
            for (uint32_t k = from; times && k < from + window && k < m->epochs; k++)
                for (uint32_t c = 0; c < m->nchunks; c++) {
                    int send = send_of(m, c, h, k);
                    if (send && len + 1 < m->most) {
                        put(m, &len, send, times);
                        total += times;
                    }
                }
        }
        if (total > m->m->capacity[r]) {
            /* Chunks of one circle may be one variable: their columns are summed. */
            size_t kept = 0;
            for (size_t i = 1; i <= len; i++) {
                size_t at = 1;
                while (m->order > 1 && at <= kept && m->index[at] != m->index[i])
                    at++;
                if (m->order == 1 || at > kept) {
                    at = ++kept;
                    m->index[at] = m->index[i];
                    m->value[at] = m->value[i];
                } else {
                    m->value[at] += m->value[i];
                }
            }
            add_row(m, kept, m->m->capacity[r]);
        }
    }
}

/* ---------------------------------------------------------------- answer */

/** Of all that bring a chunk to a GPU the one that is there first; of these what is needed. */
static bool keep_needed(const model_t *m, ccl_i_milp_send_t *sends, size_t *nsends) {
    size_t cells = (size_t)m->nchunks * m->n, kept = *nsends;
    size_t *first = malloc(cells * sizeof *first); /* SIZE_MAX: none */
    bool *needed = calloc(cells, sizeof *needed);
    if (!first || !needed) {
        free(first);
        free(needed);
        return false;
    }
    for (size_t i = 0; i < cells; i++)
        first[i] = SIZE_MAX;
    for (size_t i = 0; i < *nsends; i++) {
        const ccl_i_hop_t *hop = &m->m->x->hops[sends[i].hop];
        size_t *at = &first[(size_t)sends[i].chunk * m->n + hop->dst];
        if (*at == SIZE_MAX || sends[i].epoch + m->m->delay[sends[i].hop] <
                                   sends[*at].epoch + m->m->delay[sends[*at].hop])
            *at = i;
    }
    for (uint32_t c = 0; c < m->nchunks; c++)
        for (uint32_t i = 0; i < m->m->coll->chunks[c].ndests; i++)
            needed[(size_t)c * m->n + m->m->coll->chunks[c].dests[i]] = true;
    for (size_t i = *nsends; i-- > 0;) {
        const ccl_i_hop_t *hop = &m->m->x->hops[sends[i].hop];
        size_t base = (size_t)sends[i].chunk * m->n;
        if (first[base + hop->dst] != i || !needed[base + hop->dst])
            continue;
        needed[base + hop->src] = true;
        sends[--kept] = sends[i];
    }
    memmove(sends, sends + kept, (*nsends - kept) * sizeof *sends);
    *nsends -= kept;
    free(first);
    free(needed);
    return true;
}

static ccl_status_t read_answer(const model_t *m, const double *column, ccl_i_milp_send_t **out,
                                size_t *nout, ccl_error_t *err) {
    ccl_i_milp_send_t *sends = NULL;
    size_t n = 0, cap = 0;
    for (uint32_t k = 0; k < m->epochs; k++)
        for (uint32_t c = 0; c < m->nchunks; c++)
            for (uint32_t h = 0; h < m->nhops; h++) {
                int send = send_of(m, c, h, k);
                if (!send || column[send] < 0.5)
                    continue;
                if (!ccl_grow(&sends, &cap, n + 1, sizeof *sends)) {
                    free(sends);
                    return ccl_fail_nomem(err);
                }
                sends[n++] = (ccl_i_milp_send_t){c, h, k};
            }
    if (!keep_needed(m, sends, &n)) {
        free(sends);
        return ccl_fail_nomem(err);
    }
    *out = sends;
    *nout = n;
    return CCL_OK;
}

/** false: some chunk cannot be where it must. */
static bool build(model_t *m) {
    add_columns(m);
    for (uint32_t c = 0; c < m->nchunks; c++)
        if (m->circles.rep[c] == c && !add_chunk(m, c))
            return false;
    for (uint32_t r = 0; r < m->m->x->nresources; r++) {
        bool lowest = true; /* of its circle; the others follow */
        for (uint32_t k = 1, at = r; k < m->order; k++) {
            at = m->m->rotation->resource[at];
            lowest = lowest && at >= r;
        }
        if (lowest)
            add_resource(m, r);
    }
    return true;
}

static ccl_status_t solve(model_t *m, ccl_i_glpk_answer_t *answer, ccl_i_milp_send_t **sends,
                          size_t *nsends, ccl_error_t *err) {
    const ccl_i_glpk_options_t options = {.integer = true, .nodes = m->m->nodes};
    *answer = CCL_I_GLPK_NONE;
    if (!build(m))
        return m->lp.nomem ? ccl_fail_nomem(err) : CCL_OK;
    double *column = malloc((m->lp.ncolumns + 1) * sizeof *column);
    if (!column)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_glpk_solve(&m->lp, &options, column, NULL, answer, err);
    if (status == CCL_OK && *answer == CCL_I_GLPK_FOUND)
        status = read_answer(m, column, sends, nsends, err);
    free(column);
    return status;
}

ccl_status_t ccl_i_milp_ask(const ccl_i_milp_t *milp, uint32_t epochs, ccl_i_glpk_answer_t *answer,
                            ccl_i_milp_send_t **sends, size_t *nsends, ccl_error_t *err) {
    model_t m = {.m = milp,
                 .n = milp->coll->nranks,
                 .nhops = milp->x->nhops,
                 .nchunks = milp->coll->nchunks,
                 .epochs = epochs,
                 .order = milp->rotation->order};
    ccl_status_t status;
    uint32_t widest = 1;
    for (uint32_t r = 0; r < milp->x->nresources; r++)
        widest = milp->window[r] > widest ? milp->window[r] : widest;
    m.most = (size_t)m.nchunks * m.nhops * (widest < epochs ? widest : epochs) + m.nhops + 8;
    *sends = NULL;
    *nsends = 0;
    CCL_TRY(ccl_i_circles_init(milp->rotation, milp->x, milp->coll, &m.circles, err));
    m.send = calloc((size_t)m.nchunks * m.nhops * epochs + 1, sizeof *m.send);
    m.has = calloc((size_t)m.nchunks * m.n * (epochs + 1), sizeof *m.has);
    m.index = malloc(m.most * sizeof *m.index);
    m.value = malloc(m.most * sizeof *m.value);
    if (m.send && m.has && m.index && m.value)
        status = solve(&m, answer, sends, nsends, err);
    else
        status = ccl_fail_nomem(err);
    ccl_i_glpk_fini(&m.lp);
    ccl_i_circles_fini(&m.circles);
    void *const all[] = {m.send, m.has, m.index, m.value};
    for (size_t i = 0; i < CCL_ARRAY_LEN(all); i++)
        free(all[i]);
    return status;
}
