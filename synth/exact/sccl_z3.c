/*
 * One query of sccl for Z3 (SCCL, PPoPP 2021, section 3): has a GPU a chunk after a step, is a
 * chunk sent over a hop in a step. Booleans and cardinalities instead of SCCL's integer times: Z3
 * is much faster at them. Runs in a child process only.
 */
#include "synth/exact/sccl.h"

#include "synth/solvers/solver_z3.h"

#include <stdlib.h>
#include <string.h>

typedef struct model {
    const ccl_i_sccl_query_t *q;
    ccl_i_z3_t *z3;
    uint32_t n, nhops, nchunks, steps, order;
    ccl_i_circles_t circles;
    ccl_i_z3_term_t *has;   /* [nchunks][n][steps + 1]; NULL: false */
    ccl_i_z3_term_t *send;  /* [nchunks][nhops][steps]; NULL: never */
    ccl_i_z3_term_t *extra; /* [steps][rounds - steps] the step has one more round */
    ccl_i_z3_term_t *list;  /* [most] scratch */
    int *weight;
} model_t;

static uint32_t source_of(const ccl_i_sccl_query_t *q, uint32_t chunk) {
    return q->coll->chunks[chunk].sources[0];
}

static ccl_i_z3_term_t has_of(const model_t *m, uint32_t chunk, uint32_t rank, uint32_t t) {
    uint32_t r = ccl_i_circles_rank(&m->circles, chunk, rank);
    return m->has[((size_t)m->circles.rep[chunk] * m->n + r) * (m->steps + 1) + t];
}

static ccl_i_z3_term_t send_of(const model_t *m, uint32_t chunk, uint32_t hop, uint32_t t) {
    uint32_t h = ccl_i_circles_hop(&m->circles, chunk, hop);
    return m->send[((size_t)m->circles.rep[chunk] * m->nhops + h) * m->steps + t];
}

static void must(model_t *m, ccl_i_z3_term_t what) {
    ccl_i_z3_demand(m->z3, what);
}

/* ---------------------------------------------------------------- variables */

/** Least hops from a rank to one of a chunk's destinations. */
static uint32_t to_dest(const ccl_i_sccl_query_t *q, uint32_t chunk, uint32_t rank) {
    const ccl_chunk_t *c = &q->coll->chunks[chunk];
    uint32_t best = UINT16_MAX;
    for (uint32_t i = 0; i < c->ndests; i++) {
        uint32_t hops = q->hops_between[(size_t)rank * q->coll->nranks + c->dests[i]];
        best = hops < best ? hops : best;
    }
    return best;
}

static void make_variables(model_t *m) {
    const ccl_i_sccl_query_t *q = m->q;
    for (uint32_t c = 0; c < m->nchunks; c++) {
        if (m->circles.rep[c] != c)
            continue;
        uint32_t src = source_of(q, c);
        const uint16_t *from = &q->hops_between[(size_t)src * m->n];
        for (uint32_t r = 0; r < m->n; r++)
            for (uint32_t t = 0; t <= m->steps; t++)
                if (r == src)
                    m->has[((size_t)c * m->n + r) * (m->steps + 1) + t] =
                        ccl_i_z3_constant(m->z3, true);
                else if (t >= from[r])
                    m->has[((size_t)c * m->n + r) * (m->steps + 1) + t] = ccl_i_z3_variable(m->z3);
        for (uint32_t h = 0; h < m->nhops; h++) {
            const ccl_i_hop_t *hop = &q->x->hops[h];
            uint32_t rest = to_dest(q, c, hop->dst);
            for (uint32_t t = from[hop->src]; t < m->steps && hop->dst != src; t++)
                if (t + 1 + rest <= m->steps)
                    m->send[((size_t)c * m->nhops + h) * m->steps + t] = ccl_i_z3_variable(m->z3);
        }
    }
    for (uint32_t i = 0; i < m->steps * (q->rounds - m->steps); i++)
        m->extra[i] = ccl_i_z3_variable(m->z3);
}

/* ---------------------------------------------------------------- constraints */

/** What is sent is there; what is there came; it comes once; who must have it has it. */
static void constrain_chunk(model_t *m, uint32_t c) {
    const ccl_i_exchange_t *x = m->q->x;
    const ccl_chunk_t *chunk = &m->q->coll->chunks[c];
    for (uint32_t r = 0; r < m->n; r++) {
        unsigned came = 0;
        if (r == source_of(m->q, c))
            continue;
        for (uint32_t t = 0; t < m->steps; t++) {
            unsigned now = 0, first = came;
            for (uint32_t i = x->in_first[r]; i < x->in_first[r + 1]; i++) {
                uint32_t h = x->in_hops[i];
                ccl_i_z3_term_t send = send_of(m, c, h, t), had = has_of(m, c, x->hops[h].src, t);
                if (!send)
                    continue;
                must(m, had ? ccl_i_z3_implies(m->z3, send, had) : ccl_i_z3_not(m->z3, send));
                m->list[came++] = send;
                now++;
            }
            ccl_i_z3_term_t after = has_of(m, c, r, t + 1), before = has_of(m, c, r, t);
            if (!after)
                continue;
            ccl_i_z3_term_t why[2] = {before,
                                      now ? ccl_i_z3_or(m->z3, now, &m->list[first]) : NULL};
            if (!before || !why[1])
                why[0] = before ? before : why[1] ? why[1] : ccl_i_z3_constant(m->z3, false);
            else
                why[0] = ccl_i_z3_or(m->z3, 2, why);
            must(m, ccl_i_z3_implies(m->z3, after, why[0]));
        }
        if (came > 1)
            must(m, ccl_i_z3_most(m->z3, came, m->list, NULL, 1));
    }
    for (uint32_t i = 0; i < chunk->ndests; i++) {
        ccl_i_z3_term_t has = has_of(m, c, chunk->dests[i], m->steps);
        must(m, has ? has : ccl_i_z3_constant(m->z3, false));
    }
}

/** Rounds beyond one per step are spread over the steps; in a step they come one by one. */
static void constrain_rounds(model_t *m) {
    uint32_t more = m->q->rounds - m->steps;
    if (!more)
        return;
    must(m, ccl_i_z3_most(m->z3, m->steps * more, m->extra, NULL, (int)more));
    for (uint32_t t = 0; t < m->steps; t++)
        for (uint32_t i = 0; i + 1 < more; i++)
            must(m, ccl_i_z3_implies(m->z3, m->extra[t * more + i + 1], m->extra[t * more + i]));
}

static void constrain_resource(model_t *m, uint32_t r, const uint32_t *first, const uint32_t *users,
                               const uint32_t *times) {
    uint32_t more = m->q->rounds - m->steps;
    int capacity = (int)m->q->capacity[r];
    for (uint32_t t = 0; t < m->steps; t++) {
        unsigned len = 0;
        long total = 0;
        for (uint32_t i = first[r]; i < first[r + 1]; i++)
            for (uint32_t c = 0; c < m->nchunks; c++) {
                ccl_i_z3_term_t send = send_of(m, c, users[i], t);
                if (!send)
                    continue;
                m->list[len] = send;
                m->weight[len++] = (int)times[i];
                total += times[i];
            }
        if (total <= capacity)
            continue;
        for (uint32_t i = 0; i < more; i++) {
            m->list[len] = m->extra[t * more + i];
            m->weight[len++] = -capacity;
        }
        must(m, ccl_i_z3_most(m->z3, len, m->list, m->weight, capacity));
    }
}

static bool constrain_resources(model_t *m) {
    const ccl_i_exchange_t *x = m->q->x;
    size_t nuses = 0;
    for (uint32_t h = 0; h < m->nhops; h++)
        nuses += x->hops[h].nuses;
    uint32_t *first = calloc(x->nresources + (size_t)2, sizeof *first);
    uint32_t *users = malloc((nuses + 1) * sizeof *users);
    uint32_t *times = malloc((nuses + 1) * sizeof *times);
    bool ok = first && users && times;
    for (uint32_t pass = 0; ok && pass < 2; pass++) {
        for (uint32_t h = 0; h < m->nhops; h++)
            for (uint32_t u = 0; u < x->hops[h].nuses; u++) {
                const ccl_i_use_t *use = &x->uses[x->hops[h].first_use + u];
                if (pass) {
                    users[first[use->resource + 1]] = h;
                    times[first[use->resource + 1]] = use->times;
                }
                first[use->resource + (pass ? 1 : 2)]++;
            }
        for (uint32_t r = 0; !pass && r <= x->nresources; r++)
            first[r + 1] += first[r];
    }
    for (uint32_t r = 0; ok && r < x->nresources; r++) {
        bool lowest = true; /* of its circle; the others follow */
        uint32_t at = r;
        for (uint32_t k = 1; k < m->order; k++) {
            at = m->q->rotation->resource[at];
            lowest = lowest && at >= r;
        }
        if (lowest)
            constrain_resource(m, r, first, users, times);
    }
    free(first);
    free(users);
    free(times);
    return ok;
}

/* ---------------------------------------------------------------- answer */

/** Sends that nobody needs, which the solver is free to make, are left out, from the end. */
static bool keep_needed(const model_t *m, ccl_i_sccl_send_t *sends, size_t *nsends) {
    size_t kept = *nsends;
    bool *needed = calloc((size_t)m->nchunks * m->n, sizeof *needed);
    if (!needed)
        return false;
    for (uint32_t c = 0; c < m->nchunks; c++)
        for (uint32_t i = 0; i < m->q->coll->chunks[c].ndests; i++)
            needed[(size_t)c * m->n + m->q->coll->chunks[c].dests[i]] = true;
    for (size_t i = *nsends; i-- > 0;) { /* they come by step */
        const ccl_i_hop_t *hop = &m->q->x->hops[sends[i].hop];
        size_t base = (size_t)sends[i].chunk * m->n;
        if (needed[base + hop->dst]) {
            needed[base + hop->src] = true;
            sends[--kept] = sends[i];
        }
    }
    memmove(sends, sends + kept, (*nsends - kept) * sizeof *sends);
    *nsends -= kept;
    free(needed);
    return true;
}

static ccl_status_t read_model(const model_t *m, ccl_i_sccl_send_t **out, size_t *nout,
                               ccl_error_t *err) {
    size_t cap = 0, n = 0;
    ccl_i_sccl_send_t *sends = NULL;
    for (uint32_t t = 0; t < m->steps; t++)
        for (uint32_t c = 0; c < m->nchunks; c++)
            for (uint32_t h = 0; h < m->nhops; h++) {
                if (!ccl_i_z3_is_true(m->z3, send_of(m, c, h, t)))
                    continue;
                if (!ccl_grow(&sends, &cap, n + 1, sizeof *sends)) {
                    free(sends);
                    return ccl_fail_nomem(err);
                }
                sends[n++] = (ccl_i_sccl_send_t){c, h, t};
            }
    ccl_status_t status = ccl_i_z3_status(m->z3, err);
    if (status == CCL_OK && !keep_needed(m, sends, &n))
        status = ccl_fail_nomem(err);
    if (status != CCL_OK) {
        free(sends);
        return status;
    }
    *out = sends;
    *nout = n;
    return CCL_OK;
}

static bool allocate(model_t *m) {
    const ccl_i_sccl_query_t *q = m->q;
    size_t most = (size_t)m->nchunks * m->nhops + (size_t)m->steps * m->nhops + q->rounds + 16;
    m->has = calloc((size_t)m->nchunks * m->n * (m->steps + 1), sizeof *m->has);
    m->send = calloc((size_t)m->nchunks * m->nhops * m->steps + 1, sizeof *m->send);
    m->extra = calloc((size_t)m->steps * (q->rounds - m->steps) + 1, sizeof *m->extra);
    m->list = malloc(most * sizeof *m->list);
    m->weight = malloc(most * sizeof *m->weight);
    return m->has && m->send && m->extra && m->list && m->weight;
}

static ccl_status_t ask(model_t *m, ccl_i_sccl_answer_t *answer, ccl_i_sccl_send_t **sends,
                        size_t *nsends, ccl_error_t *err) {
    make_variables(m);
    for (uint32_t c = 0; c < m->nchunks; c++)
        if (m->circles.rep[c] == c)
            constrain_chunk(m, c);
    constrain_rounds(m);
    if (!constrain_resources(m))
        return ccl_fail_nomem(err);
    switch (ccl_i_z3_check(m->z3, m->q->effort, NULL)) {
    case CCL_I_Z3_SAT:
        *answer = CCL_I_SCCL_FOUND;
        return read_model(m, sends, nsends, err);
    case CCL_I_Z3_UNSAT:
        *answer = CCL_I_SCCL_NONE;
        return CCL_OK;
    default:
        *answer = CCL_I_SCCL_UNKNOWN;
        return ccl_i_z3_status(m->z3, err);
    }
}

ccl_status_t ccl_i_sccl_ask(const ccl_i_sccl_query_t *query, ccl_i_sccl_answer_t *answer,
                            ccl_i_sccl_send_t **sends, size_t *nsends, ccl_error_t *err) {
    model_t m = {.q = query,
                 .z3 = ccl_i_z3_create(0),
                 .n = query->coll->nranks,
                 .nhops = query->x->nhops,
                 .nchunks = query->coll->nchunks,
                 .steps = query->steps,
                 .order = query->rotation->order};
    *sends = NULL;
    *nsends = 0;
    ccl_status_t status = m.z3 && allocate(&m) ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_circles_init(query->rotation, query->x, query->coll, &m.circles, err);
    if (status == CCL_OK)
        status = ask(&m, answer, sends, nsends, err);
    ccl_i_circles_fini(&m.circles);
    ccl_i_z3_destroy(m.z3);
    void *const all[] = {m.has, m.send, m.extra, m.list, m.weight};
    for (size_t i = 0; i < CCL_ARRAY_LEN(all); i++)
        free(all[i]);
    return status;
}
