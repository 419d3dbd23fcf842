/**
 * @file tiny_fluid.h
 * How much can be done in a time on a tiny cluster, when data may be cut as finely as one likes and
 * rates may change at any moment: a linear program over trees in time, column by column. Where
 * latencies and the time are whole numbers of a unit, steps of one unit lose nothing: averaged over
 * each step, the rates of any schedule are one of steps (docs/bounds.md, "Optima").
 */
#ifndef CCL_BENCH_TINY_FLUID_H
#define CCL_BENCH_TINY_FLUID_H

#include "bench/tiny_trees.h"
#include "graph/graph.h"
#include "schedule/schedule.h"

enum { TINY_WANTS = TINY_GPUS * TINY_GPUS, TINY_ROUNDS = 400 };

/** Data that all go the same way: copies of a source's, or the sum for a destination. */
typedef struct tiny_want {
    uint8_t sum, from, to; /**< sets of GPUs; sum: `from` has many; both many: joined */
} tiny_want_t;

typedef struct tiny_fluid {
    double bytes;      /**< of each want, that can be done in the time: there is a schedule */
    double most_bytes; /**< and no more than that: the dual program's proof; INFINITY: none */
    uint32_t columns, rounds;
} tiny_fluid_t;

typedef struct tiny_program {
    const tiny_net_t *net;
    tiny_trees_t *trees;
    tiny_want_t wants[TINY_WANTS];
    uint32_t nwants, nrows;
    double scale;         /* bytes that count as one */
    double *column, *cap; /* [nrows]: a link in a step, l nsteps + t; then the wants */
    ccl_lp_t *lp;
} tiny_program_t;

/** What a collective wants; at most TINY_WANTS. 0: no tree does it. */
static inline uint32_t tiny_wants(ccl_collective_kind_t kind, uint32_t n, uint32_t root,
                                  tiny_want_t *wants) {
    uint8_t all = (uint8_t)((1u << n) - 1);
    uint32_t nwants = 0;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t d = 0; d < n; d++) {
            uint8_t from = (uint8_t)(1u << s), to = (uint8_t)(1u << d);
            bool once = d == 0, own = s == d;
            if (kind == CCL_ALLGATHER ? once : kind == CCL_BROADCAST && once && s == root)
                wants[nwants++] = (tiny_want_t){0, from, all};
            if (kind == CCL_REDUCESCATTER ? once : kind == CCL_REDUCE && once && s == root)
                wants[nwants++] = (tiny_want_t){1, all, from};
            if (!own && (kind == CCL_ALLTOALL || (kind == CCL_SCATTER && s == root) ||
                         (kind == CCL_GATHER && d == root)))
                wants[nwants++] = (tiny_want_t){0, from, to};
            if (kind == CCL_ALLREDUCE && once && s == 0)
                wants[nwants++] = (tiny_want_t){1, all, all};
        }
    return nwants;
}

/** Size (docs/model.md) of a collective whose wants are of `bytes` each. */
static inline double tiny_size(ccl_collective_kind_t kind, uint32_t n, double bytes) {
    bool whole = kind == CCL_BROADCAST || kind == CCL_REDUCE || kind == CCL_ALLREDUCE;
    return whole ? bytes : n * bytes;
}

static inline uint32_t tiny_gpu_of(uint8_t set) {
    return (uint32_t)__builtin_ctz(set);
}

/* The cheapest way of one want at the prices; its uses, if wanted, are added. */
static inline double tiny_cheapest(const tiny_trees_t *x, tiny_want_t w, tiny_use_t use) {
    uint32_t last = x->nsteps - 1;
    bool many = (w.to & (w.to - 1)) != 0;
    if (w.sum && many) {
        if (use)
            tiny_use_join(x, w.from, w.to, use);
        return x->join[w.from][w.to].price;
    }
    if (w.sum) {
        if (use)
            tiny_use_in(x, last, tiny_gpu_of(w.to), w.from, use);
        return x->in[last][tiny_gpu_of(w.to)][w.from].price;
    }
    if (use)
        tiny_use_out(x, 0, tiny_gpu_of(w.from), w.to, use);
    return x->out[0][tiny_gpu_of(w.from)][w.to].price;
}

/* The best trees at what links cost in each step, cost[l nsteps + t]. */
static inline void tiny_price(tiny_program_t *p, const double *cost) {
    tiny_trees_t *x = p->trees;
    bool sums = p->wants[0].sum, copies = !sums || (p->wants[0].to & (p->wants[0].to - 1)) != 0;
    for (uint32_t a = 0; a < p->net->narcs; a++)
        for (uint32_t t = 0; t < x->nsteps; t++) {
            x->price[a][t] = 0;
            for (uint32_t i = 0; i < p->net->arcs[a].nlinks; i++)
                x->price[a][t] += cost[p->net->arcs[a].links[i] * x->nsteps + t];
        }
    if (copies)
        tiny_outs(x);
    if (sums)
        tiny_ins(x);
    if (sums && copies)
        tiny_joins(x);
}

/* One more way for want w: the cheapest one now. */
static inline bool tiny_add(tiny_program_t *p, uint32_t w) {
    tiny_use_t use = {{0}};
    uint32_t nsteps = p->trees->nsteps;
    tiny_cheapest(p->trees, p->wants[w], use);
    memset(p->column, 0, p->nrows * sizeof *p->column);
    for (uint32_t a = 0; a < p->net->narcs; a++)
        for (uint32_t t = 0; t < nsteps; t++)
            for (uint32_t i = 0; use[a][t] > 0 && i < p->net->arcs[a].nlinks; i++)
                p->column[p->net->arcs[a].links[i] * nsteps + t] += use[a][t];
    p->column[p->nrows - p->nwants + w] = -1;
    return ccl_lp_column(p->lp, 0, p->column) != CCL_NONE;
}

/* Slack of each row, and what is to be made great: the same amount of each want. */
static inline bool tiny_begin(tiny_program_t *p) {
    bool ok = true;
    memset(p->column, 0, p->nrows * sizeof *p->column);
    for (uint32_t i = 0; ok && i < p->nrows; i++) {
        p->column[i] = 1;
        ok = ccl_lp_column(p->lp, 0, p->column) != CCL_NONE;
        p->column[i] = 0;
    }
    for (uint32_t w = 0; w < p->nwants; w++)
        p->column[p->nrows - p->nwants + w] = 1;
    return ok && ccl_lp_column(p->lp, -1, p->column) != CCL_NONE;
}

/* Prices of the links that prove: each way costs at least `least`, and all links are worth
 * `worth`, so no more than their quotient can be done. False: some want cannot be done at all. */
static inline bool tiny_prove(tiny_program_t *p, double *cost, tiny_fluid_t *out) {
    double worth = 0, least = 0;
    for (uint32_t i = 0; i < p->nrows - p->nwants; i++) {
        cost[i] = cost[i] > 0 ? cost[i] : 0;
        worth += cost[i] * p->cap[i];
    }
    tiny_price(p, cost);
    for (uint32_t w = 0; w < p->nwants; w++)
        least += tiny_cheapest(p->trees, p->wants[w], NULL);
    if (!(least < INFINITY))
        return false;
    if (least > 0 && worth / least * p->scale < out->most_bytes)
        out->most_bytes = worth / least * p->scale;
    return true;
}

static inline ccl_status_t tiny_columns(tiny_program_t *p, tiny_fluid_t *out, ccl_error_t *err) {
    double *cost = calloc(p->nrows, sizeof *cost);
    bool ok = cost && tiny_begin(p), possible = true;
    *out = (tiny_fluid_t){.most_bytes = INFINITY};
    for (uint32_t i = 0; ok && i < p->nrows - p->nwants; i++)
        cost[i] = 1 / p->cap[i]; /* at first links cost what they take */
    for (; ok && possible && out->rounds < TINY_ROUNDS; out->rounds++) {
        const double *duals = ccl_lp_duals(p->lp);
        uint32_t added = 0;
        possible = tiny_prove(p, cost, out);
        if (!possible || out->most_bytes <= out->bytes * (1 + 1e-7))
            break;
        for (uint32_t w = 0; ok && w < p->nwants; w++) {
            double price = tiny_cheapest(p->trees, p->wants[w], NULL);
            if (out->rounds == 0 || price < -duals[p->nrows - p->nwants + w] - 1e-10) {
                ok = tiny_add(p, w);
                added++;
            }
        }
        out->columns += added;
        if (!added || !ok || !ccl_lp_solve(p->lp))
            break;
        out->bytes = -ccl_lp_value(p->lp) * p->scale;
        for (uint32_t i = 0; i < p->nrows - p->nwants; i++)
            cost[i] = -ccl_lp_duals(p->lp)[i];
    }
    free(cost);
    out->most_bytes = possible ? out->most_bytes : 0;
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/**
 * How many bytes of each want of a collective can be done in `nsteps` units. Of an AllReduce
 * `bytes` is what trees that are joined reach, and most_bytes proves nothing.
 */
static inline ccl_status_t tiny_fluid(const tiny_net_t *net, ccl_collective_kind_t kind,
                                      uint32_t root, uint32_t nsteps, tiny_fluid_t *out,
                                      ccl_error_t *err) {
    tiny_program_t p = {.net = net, .trees = calloc(1, sizeof *p.trees)};
    p.nwants = tiny_wants(kind, net->ngpus, root, p.wants);
    p.nrows = net->nlinks * nsteps + p.nwants;
    p.column = calloc(p.nrows, sizeof *p.column);
    p.cap = calloc(p.nrows, sizeof *p.cap);
    p.scale = 25e9 * TINY_UNIT_S;
    for (uint32_t i = 0; p.cap && i < net->nlinks * nsteps; i++)
        p.cap[i] = net->rate_Bps[i / nsteps] * TINY_UNIT_S / p.scale;
    p.lp = p.cap ? ccl_lp_create(p.nrows, p.cap, 1e3) : NULL;
    ccl_status_t status = p.trees && p.column && p.lp ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        p.trees->net = net;
        p.trees->nsteps = nsteps;
        p.trees->nsets = 1u << net->ngpus;
        status = tiny_columns(&p, out, err);
    }
    ccl_lp_destroy(p.lp);
    free(p.trees);
    free(p.column);
    free(p.cap);
    return status;
}

#endif
