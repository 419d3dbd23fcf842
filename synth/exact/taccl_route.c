/*
 * TACCL's first stage (NSDI 2023, section 5.1): routes on which chunks do not wait for each other.
 * A binary variable says that a chunk goes over a hop; T is the time of the busiest hop, link or
 * group and no less than that of the longest way. Shortest paths alone have no circles and known
 * lengths; other ways need a variable for the time at which a chunk is at a GPU, with a big M.
 */
#include "synth/exact/taccl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Paths as short as the shortest, within rounding. */
#define SAME 1e-9
/* Of routes with the same T those with less to carry. */
#define SPARING 1e-3
/* Routes are better where T is less by this share. */
#define LESS 1e-4

typedef struct router {
    const ccl_i_taccl_t *t;
    ccl_i_glpk_t lp;
    ccl_i_circles_t circles;
    uint32_t n, nhops, nchunks;
    const ccl_i_taccl_question_t *ask;
    double *away;    /* [n][n] seconds from GPU to GPU */
    uint32_t *steps; /* [n][n] hops from GPU to GPU; CCL_NONE: no way */
    int *column;     /* [nchunks][nhops] of chunks with variables; 0: never */
    int *start;      /* [n] of the chunk in hand, wide: microseconds; 0: it has none */
    double *summed;  /* [ncolumns + 1] of the row in hand */
    int *touched;    /* columns of the row in hand */
    size_t ntouched; /* each once */
    int busiest;     /* T */
} router_t;

static int column_of(const router_t *r, uint32_t chunk, uint32_t hop) {
    return r->column[(size_t)r->circles.rep[chunk] * r->nhops +
                     ccl_i_circles_hop(&r->circles, chunk, hop)];
}

static void distances(router_t *r) {
    const ccl_i_exchange_t *x = r->t->x;
    for (uint32_t s = 0; s < r->n; s++) {
        double *away = r->away + (size_t)s * r->n;
        for (uint32_t v = 0; v < r->n; v++)
            away[v] = v == s ? 0 : INFINITY;
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t h = 0; h < r->nhops; h++) {
                double at = away[x->hops[h].src] + r->t->cost_s[h];
                if (at >= away[x->hops[h].dst] * (1 - SAME))
                    continue;
                away[x->hops[h].dst] = at;
                changed = true;
            }
        }
    }
}

static void count_steps(router_t *r) {
    const ccl_i_exchange_t *x = r->t->x;
    memset(r->steps, 0xff, (size_t)r->n * r->n * sizeof *r->steps);
    for (uint32_t s = 0; s < r->n; s++) {
        uint32_t *steps = r->steps + (size_t)s * r->n;
        steps[s] = 0;
        for (uint32_t k = 0, changed = 1; changed; k++) {
            changed = 0;
            for (uint32_t h = 0; h < r->nhops; h++)
                if (steps[x->hops[h].src] == k && steps[x->hops[h].dst] == CCL_NONE) {
                    steps[x->hops[h].dst] = k + 1;
                    changed = 1;
                }
        }
    }
}

/* Is the hop on a shortest path of the chunk to one of its destinations? */
static bool on_path(const router_t *r, const ccl_chunk_t *chunk, uint32_t h) {
    const ccl_i_hop_t *hop = &r->t->x->hops[h];
    const double *from = r->away + (size_t)chunk->sources[0] * r->n,
                 *on = r->away + (size_t)hop->dst * r->n;
    double there = from[hop->src] + r->t->cost_s[h];
    if (!(there <= from[hop->dst] * (1 + SAME)))
        return false;
    for (uint32_t i = 0; i < chunk->ndests; i++)
        if (there + on[chunk->dests[i]] <= from[chunk->dests[i]] * (1 + 2 * SAME))
            return true;
    return false;
}

/* Is the GPU on a way of the fewest hops to a destination? */
static bool in_set(const router_t *r, const ccl_chunk_t *chunk, uint32_t v) {
    const uint32_t *from = r->steps + (size_t)chunk->sources[0] * r->n,
                   *on = r->steps + (size_t)v * r->n;
    for (uint32_t i = 0; i < chunk->ndests; i++)
        if (from[v] != CCL_NONE && on[chunk->dests[i]] != CCL_NONE &&
            from[v] + on[chunk->dests[i]] == from[chunk->dests[i]])
            return true;
    return false;
}

static bool useful(const router_t *r, const ccl_chunk_t *chunk, uint32_t h) {
    const ccl_i_hop_t *hop = &r->t->x->hops[h];
    if (!r->ask->wide)
        return on_path(r, chunk, h);
    return hop->dst != chunk->sources[0] && in_set(r, chunk, hop->src) &&
           in_set(r, chunk, hop->dst);
}

static bool wants(const ccl_chunk_t *chunk, uint32_t rank) {
    for (uint32_t i = 0; i < chunk->ndests; i++)
        if (chunk->dests[i] == rank)
            return true;
    return false;
}

/* It comes to a destination once; to others at most once, and only from there it goes on. */
static void constrain_chunk(router_t *r, uint32_t c) {
    const ccl_i_exchange_t *x = r->t->x;
    const ccl_chunk_t *chunk = &r->t->coll->chunks[c];
    const int *column = r->column + (size_t)c * r->nhops;
    for (uint32_t v = 0; v < r->n; v++) {
        bool wanted = wants(chunk, v), any = false;
        if (v == chunk->sources[0])
            continue;
        for (uint32_t i = x->in_first[v]; i < x->in_first[v + 1]; i++)
            if (column[x->in_hops[i]]) {
                ccl_i_glpk_term(&r->lp, column[x->in_hops[i]], 1);
                any = true;
            }
        if (any)
            ccl_i_glpk_row(&r->lp, wanted, 1);
        for (uint32_t h = x->out_first[v]; any && !wanted && h < x->out_first[v + 1]; h++) {
            if (!column[h])
                continue;
            ccl_i_glpk_term(&r->lp, column[h], 1);
            for (uint32_t i = x->in_first[v]; i < x->in_first[v + 1]; i++)
                if (column[x->in_hops[i]])
                    ccl_i_glpk_term(&r->lp, column[x->in_hops[i]], -1);
            ccl_i_glpk_row(&r->lp, false, 0);
        }
    }
}

/* Wide: it is at a GPU no earlier than its hop takes from the one before, and at last by T. */
static void constrain_times(router_t *r, uint32_t c) {
    const ccl_i_exchange_t *x = r->t->x;
    const ccl_chunk_t *chunk = &r->t->coll->chunks[c];
    const int *column = r->column + (size_t)c * r->nhops;
    double most_us = 1e6 * r->ask->busiest_s;
    memset(r->start, 0, r->n * sizeof *r->start);
    for (uint32_t v = 0; v < r->n; v++)
        if (v != chunk->sources[0] && in_set(r, chunk, v)) {
            r->start[v] = ccl_i_glpk_column(&r->lp, CCL_I_GLPK_POSITIVE, 0);
            ccl_i_glpk_term(&r->lp, r->start[v], 1);
            ccl_i_glpk_term(&r->lp, r->busiest, -1);
            ccl_i_glpk_row(&r->lp, false, 0);
        }
    for (uint32_t h = 0; h < r->nhops; h++) {
        if (!column[h])
            continue;
        if (r->start[x->hops[h].src])
            ccl_i_glpk_term(&r->lp, r->start[x->hops[h].src], 1);
        ccl_i_glpk_term(&r->lp, r->start[x->hops[h].dst], -1);
        ccl_i_glpk_term(&r->lp, column[h], most_us + 1e6 * r->t->cost_s[h]);
        ccl_i_glpk_row(&r->lp, false, most_us);
    }
}

static void load(router_t *r, int column, double seconds) {
    if (!column)
        return;
    if (r->summed[column] == 0)
        r->touched[r->ntouched++] = column;
    r->summed[column] += seconds;
}

/* What was loaded takes no longer than T. */
static void at_most_busiest(router_t *r) {
    for (size_t i = 0; i < r->ntouched; i++) {
        ccl_i_glpk_term(&r->lp, r->touched[i], r->summed[r->touched[i]]);
        r->summed[r->touched[i]] = 0;
    }
    if (r->ntouched) {
        ccl_i_glpk_term(&r->lp, r->busiest, -1);
        ccl_i_glpk_row(&r->lp, false, 0);
    }
    r->ntouched = 0;
}

static bool lowest(const uint32_t *image, uint32_t order, uint32_t of) {
    for (uint32_t k = 1, at = of; k < order; k++) {
        at = image[at];
        if (at < of)
            return false;
    }
    return true;
}

static void constrain_loads(router_t *r) {
    const ccl_i_exchange_t *x = r->t->x;
    const ccl_i_rotation_t *rotation = r->t->rotation;
    for (uint32_t h = 0; h < r->nhops; h++) {
        if (!lowest(rotation->hop, rotation->order, h))
            continue;
        for (uint32_t c = 0; c < r->nchunks; c++)
            load(r, column_of(r, c, h), r->t->cost_s[h] * 1e6);
        at_most_busiest(r);
    }
    for (uint32_t q = 0; q < x->nresources; q++) {
        if (!lowest(rotation->resource, rotation->order, q))
            continue;
        double us = 1e6 * r->t->chunk_bytes / x->resources[q].Bps;
        for (uint32_t h = 0; h < r->nhops; h++)
            for (uint32_t u = 0; u < x->hops[h].nuses; u++) {
                const ccl_i_use_t *use = &x->uses[x->hops[h].first_use + u];
                for (uint32_t c = 0; use->resource == q && c < r->nchunks; c++)
                    load(r, column_of(r, c, h), us * use->times);
            }
        at_most_busiest(r);
    }
}

/* T: no less than the longest way, less than what is known. */
static ccl_status_t constrain_busiest(router_t *r, ccl_error_t *err) {
    const ccl_collective_t *coll = r->t->coll;
    double longest = 0;
    r->busiest = ccl_i_glpk_column(&r->lp, CCL_I_GLPK_POSITIVE, 1);
    for (uint32_t c = 0; c < r->nchunks; c++)
        for (uint32_t i = 0; i < coll->chunks[c].ndests; i++) {
            uint32_t from = coll->chunks[c].sources[0], to = coll->chunks[c].dests[i];
            longest = fmax(longest, r->away[(size_t)from * r->n + to]);
            if (isinf(longest))
                return ccl_fail(err, CCL_INFEASIBLE, "GPU %u cannot be reached from GPU %u", to,
                                from);
        }
    ccl_i_glpk_term(&r->lp, r->busiest, -1);
    ccl_i_glpk_row(&r->lp, false, -1e6 * longest);
    if (r->ask->wide) {
        ccl_i_glpk_term(&r->lp, r->busiest, 1);
        ccl_i_glpk_row(&r->lp, false, 1e6 * r->ask->busiest_s * (1 - LESS));
    }
    return CCL_OK;
}

static ccl_status_t build(router_t *r, ccl_error_t *err) {
    const ccl_collective_t *coll = r->t->coll;
    CCL_TRY(constrain_busiest(r, err));
    for (uint32_t c = 0; c < r->nchunks; c++) {
        if (r->circles.rep[c] != c)
            continue;
        for (uint32_t h = 0; h < r->nhops; h++)
            if (useful(r, &coll->chunks[c], h))
                r->column[(size_t)c * r->nhops + h] = ccl_i_glpk_column(
                    &r->lp, CCL_I_GLPK_BINARY, SPARING * 1e6 * r->t->cost_s[h] / r->nhops);
        constrain_chunk(r, c);
        if (r->ask->wide)
            constrain_times(r, c);
    }
    r->summed = calloc(r->lp.ncolumns + 1, sizeof *r->summed);
    r->touched = malloc((r->lp.ncolumns + 1) * sizeof *r->touched);
    if (!r->summed || !r->touched)
        return ccl_fail_nomem(err);
    constrain_loads(r);
    return CCL_OK;
}

/* Trees from the sources on: each send behind the one before it. */
static ccl_status_t read_routes(const router_t *r, const double *value, ccl_i_taccl_sends_t *out,
                                ccl_error_t *err) {
    const ccl_i_exchange_t *x = r->t->x;
    for (uint32_t c = 0; c < r->nchunks; c++) {
        uint32_t queue[64], by[64], first = 0, last = 1;
        uint64_t here = (uint64_t)1 << r->t->coll->chunks[c].sources[0];
        queue[0] = r->t->coll->chunks[c].sources[0];
        by[0] = CCL_NONE;
        for (; first < last; first++)
            for (uint32_t h = x->out_first[queue[first]]; h < x->out_first[queue[first] + 1]; h++) {
                int column = column_of(r, c, h);
                uint32_t dst = x->hops[h].dst;
                if (!column || value[column] < 0.5 || here >> dst & 1)
                    continue;
                if (!ccl_grow(&out->sends, &out->cap, out->n + 1, sizeof *out->sends))
                    return ccl_fail_nomem(err);
                out->sends[out->n] = (ccl_i_taccl_send_t){c, h, by[first], 0, 0};
                here |= (uint64_t)1 << dst;
                queue[last] = dst;
                by[last++] = (uint32_t)out->n++;
            }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_taccl_route(const ccl_i_taccl_t *t, ccl_i_taccl_question_t *ask,
                               ccl_i_taccl_sends_t *out, ccl_error_t *err) {
    const ccl_i_glpk_options_t how = {.integer = true, .nodes = ask->nodes, .best = &ask->best};
    router_t r = {
        .t = t, .ask = ask, .n = t->x->nranks, .nhops = t->x->nhops, .nchunks = t->coll->nchunks};
    double *value = NULL;
    CCL_TRY(ccl_i_circles_init(t->rotation, t->x, t->coll, &r.circles, err));
    r.away = malloc((size_t)r.n * r.n * sizeof *r.away);
    r.steps = malloc((size_t)r.n * r.n * sizeof *r.steps);
    r.start = malloc(r.n * sizeof *r.start);
    r.column = calloc((size_t)r.nchunks * r.nhops + 1, sizeof *r.column);
    ccl_status_t status = r.away && r.steps && r.start && r.column ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        distances(&r);
        count_steps(&r);
        status = build(&r, err);
    }
    value = malloc((r.lp.ncolumns + 1) * sizeof *value);
    if (status == CCL_OK && !value)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_glpk_solve(&r.lp, &how, value, NULL, &ask->answer, err);
    if (status == CCL_OK && ask->answer == CCL_I_GLPK_FOUND) {
        ask->busiest_s = value[r.busiest] / 1e6;
        out->n = 0;
        status = read_routes(&r, value, out, err);
    }
    void *const all[] = {value, r.away, r.steps, r.start, r.column, r.summed, r.touched};
    for (size_t i = 0; i < CCL_ARRAY_LEN(all); i++)
        free(all[i]);
    ccl_i_glpk_fini(&r.lp);
    ccl_i_circles_fini(&r.circles);
    return status;
}
