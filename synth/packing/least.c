/*
 * What no trees over the model's routes can do better: with a price on every link, what the
 * cheapest trees cost bounds the load of the busiest link from below (the dual of packing). Prices
 * as the local search ends with them are nearly the best ones.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

typedef struct arc {
    uint32_t from, to;
    double cost;
} arc_t;

typedef struct least {
    arc_t *arcs;     /* [narcs] */
    double *in;      /* [n] cheapest into a vertex */
    uint32_t *from;  /* [n] where that comes from */
    uint32_t *name;  /* [n] after circles became vertices */
    uint32_t *round; /* [n] walk that came by */
} least_t;

/* Cost of the cheapest spanning out-tree (Chu, Liu 1965; Edmonds 1967): circles of cheapest arcs
 * become vertices until there is none. The arcs are spent. INFINITY: there is no tree. */
static double cheapest(least_t *s, uint32_t n, uint32_t narcs, uint32_t root) {
    double sum = 0;
    for (;;) {
        uint32_t named = 0, kept = 0;
        for (uint32_t v = 0; v < n; v++) {
            s->in[v] = INFINITY;
            s->name[v] = s->round[v] = CCL_NONE;
        }
        for (uint32_t i = 0; i < narcs; i++) {
            if (s->arcs[i].cost < s->in[s->arcs[i].to]) {
                s->in[s->arcs[i].to] = s->arcs[i].cost;
                s->from[s->arcs[i].to] = s->arcs[i].from;
            }
        }
        s->in[root] = 0;
        bool circles = false;
        for (uint32_t v = 0; v < n; v++) {
            if (isinf(s->in[v]))
                return INFINITY;
            sum += s->in[v];
            uint32_t u = v;
            while (u != root && s->round[u] != v && s->name[u] == CCL_NONE) {
                s->round[u] = v;
                u = s->from[u];
            }
            if (u == root || s->name[u] != CCL_NONE)
                continue;
            circles = true;
            for (uint32_t w = s->from[u]; w != u; w = s->from[w])
                s->name[w] = named;
            s->name[u] = named++;
        }
        if (!circles)
            return sum;
        for (uint32_t v = 0; v < n; v++) {
            if (s->name[v] == CCL_NONE)
                s->name[v] = named++;
        }
        for (uint32_t i = 0; i < narcs; i++) {
            arc_t a = s->arcs[i];
            if (s->name[a.from] != s->name[a.to])
                s->arcs[kept++] = (arc_t){s->name[a.from], s->name[a.to], a.cost - s->in[a.to]};
        }
        narcs = kept;
        n = named;
        root = s->name[root];
    }
}

/* The same for trees of hops that are paid for by class. */
static double tree_cost(least_t *s, const ccl_i_pack_hops_t *x, const double *price, uint32_t root,
                        bool up) {
    uint32_t narcs = 0;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_pack_hop_t *hop = &x->hops[h];
        double cost = 0;
        for (uint32_t i = 0; i < hop->nuses; i++)
            cost += price[x->uses[hop->first_use + i]];
        uint32_t from = up ? hop->dst : hop->src, to = up ? hop->src : hop->dst;
        if (to != root)
            s->arcs[narcs++] = (arc_t){from, to, cost};
    }
    return cheapest(s, x->n, narcs, root);
}

ccl_status_t ccl_i_pack_least(const ccl_ctx_t *ctx, const ccl_i_pack_hops_t *x,
                              const ccl_i_pack_request_t *ask, const double *price,
                              double *least_s_out, ccl_error_t *err) {
    const int64_t *roots = ask->roots;
    const bool down = ask->down, up = ask->up;
    double paid = 0, cost = 0, least = INFINITY, trees = 0;
    ccl_arena_t arena;
    ccl_status_t status = CCL_OK;
    ccl_arena_init(&arena);
    least_t s = {ccl_arena_alloc(&arena, x->nhops + (size_t)1, sizeof *s.arcs),
                 ccl_arena_alloc(&arena, x->n, sizeof *s.in),
                 ccl_arena_alloc(&arena, x->n, sizeof *s.from),
                 ccl_arena_alloc(&arena, x->n, sizeof *s.name),
                 ccl_arena_alloc(&arena, x->n, sizeof *s.round)};
    if (!s.arcs || !s.in || !s.from || !s.name || !s.round) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t i = 0; i < x->nclasses; i++)
        paid += price[i] * x->class_Bps[i];
    for (uint32_t r = 0; r < x->n; r++) {
        if (x->class_root[r] != r || (roots[r] == 0 && !(down && up)))
            continue;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        double one = (down ? tree_cost(&s, x, price, r, false) : 0) +
                     (up ? tree_cost(&s, x, price, r, true) : 0);
        least = fmin(least, one);
        cost += one * (double)roots[r];
        trees += (double)roots[r];
    }
    /* The roots of reductions may be chosen. */
    *least_s_out = (down && up ? least * trees : cost) / paid;
end:
    ccl_arena_fini(&arena);
    return status;
}
