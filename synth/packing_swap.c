/*
 * Trees over the model's routes by local search. Where switches can be taken out, trees that meet
 * the bound are found by flows (packing_split.c, packing_trees.c); here routes may be what limits,
 * groups may overlap, or GPUs be too many: a rank's parent is changed for another as long as the
 * sum over links of exp(time of the link) falls, which tends to the time of the busiest.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing.h"

enum { MOST_PASSES = 24 };

typedef struct swapper {
    const ccl_i_pack_hops_t *x;
    ccl_i_pack_swaps_t *out;
    double *load;   /* [nclasses] hops over it */
    double *weight; /* [nclasses] exp(sharp (load / rate / level - 1)) */
    double *growth; /* [nclasses] what one hop more multiplies weight by */
    double level, sharp, fresh;
    uint32_t *used[2]; /* [nhops] by orbit: ranks that hang on it, in trees out and in */
    uint32_t *depth; /* [n] of the tree in hand */
    uint32_t *queue; /* [n] */
    uint8_t *joined; /* [n] */
    double *price;   /* [n] of the cheapest hop to a rank */
} swapper_t;

static uint32_t parent_of(const swapper_t *s, const ccl_i_pack_swap_tree_t *t, uint32_t v) {
    const ccl_i_pack_hop_t *h = &s->x->hops[t->hop[v]];
    return t->up ? h->dst : h->src;
}

/* Hops that may lead to v in a tree: by index, into or out of it. */
static uint32_t nways(const swapper_t *s, const ccl_i_pack_swap_tree_t *t, uint32_t v) {
    const ccl_i_pack_hops_t *x = s->x;
    return t->up ? x->first[v + 1] - x->first[v] : x->in_first[v + 1] - x->in_first[v];
}

static uint32_t way(const swapper_t *s, const ccl_i_pack_swap_tree_t *t, uint32_t v, uint32_t i) {
    const ccl_i_pack_hops_t *x = s->x;
    return t->up ? x->first[v] + i : x->in[x->in_first[v] + i];
}

/* Far beyond what counts; products stay finite. */
static double bounded_exp(double x) {
    return exp(x < 300 ? x : 300);
}

static void weigh(swapper_t *s, uint32_t class) {
    s->weight[class] =
        bounded_exp(s->sharp * (s->load[class] / s->x->class_Bps[class] / s->level - 1));
}

static void set_level(swapper_t *s, double level, double sharp) {
    s->level = level;
    s->sharp = sharp;
    for (uint32_t i = 0; i < s->x->nclasses; i++) {
        s->growth[i] = bounded_exp(sharp / s->x->class_Bps[i] / level);
        weigh(s, i);
    }
}

static void use(swapper_t *s, uint32_t hop, bool up, int times) {
    const ccl_i_pack_hop_t *h = &s->x->hops[hop];
    s->used[up][h->orbit] += (uint32_t)times;
    for (uint32_t i = 0; i < h->nuses; i++) {
        uint32_t class = s->x->uses[h->first_use + i];
        s->load[class] += times;
        weigh(s, class);
    }
}

/* What the sum grows by with this hop, more for a new one. */
static double cost(const swapper_t *s, uint32_t hop, bool up) {
    const ccl_i_pack_hop_t *h = &s->x->hops[hop];
    double sum = 0;
    for (uint32_t i = 0; i < h->nuses; i++) {
        uint32_t class = s->x->uses[h->first_use + i];
        sum += s->weight[class] * (s->growth[class] - 1);
    }
    return s->used[up][h->orbit] > 0 ? sum : sum * s->fresh;
}

static double busiest(const swapper_t *s) {
    double most = 0;
    for (uint32_t i = 0; i < s->x->nclasses; i++)
        most = fmax(most, s->load[i] / s->x->class_Bps[i]);
    return most;
}

/* Cheapest hops first from the root (Prim), low ranks of the tree first where hops cost as much. */
static ccl_status_t grow(swapper_t *s, ccl_i_pack_swap_tree_t *t, ccl_error_t *err) {
    const ccl_i_pack_hops_t *x = s->x;
    uint32_t n = x->n, at = t->root;
    for (uint32_t v = 0; v < n; v++) {
        t->hop[v] = CCL_NONE;
        s->price[v] = INFINITY;
        s->depth[v] = 0;
        s->joined[v] = v == t->root;
    }
    for (uint32_t count = 1; count < n; count++) {
        uint32_t first = t->up ? x->in_first[at] : x->first[at];
        uint32_t last = t->up ? x->in_first[at + 1] : x->first[at + 1];
        for (uint32_t i = first; i < last; i++) {
            uint32_t h = t->up ? x->in[i] : i, v = t->up ? x->hops[h].src : x->hops[h].dst;
            double price = s->joined[v] ? INFINITY : cost(s, h, t->up);
            if (price < s->price[v] * (1 - 1e-9) ||
                (price <= s->price[v] * (1 + 1e-9) && s->depth[at] + 1 < s->depth[v])) {
                s->price[v] = price;
                t->hop[v] = h;
                s->depth[v] = s->depth[at] + 1;
            }
        }
        at = CCL_NONE;
        for (uint32_t v = 0; v < n; v++) {
            if (s->joined[v] || isinf(s->price[v]))
                continue;
            if (at == CCL_NONE || s->price[v] < s->price[at] * (1 - 1e-9) ||
                (s->price[v] <= s->price[at] * (1 + 1e-9) && s->depth[v] < s->depth[at]))
                at = v;
        }
        if (at == CCL_NONE)
            return ccl_fail(err, CCL_INFEASIBLE, "packing: rank %u does not reach all others",
                            t->root);
        s->joined[at] = 1;
    }
    for (uint32_t v = 0; v < n; v++) {
        if (v != t->root)
            use(s, t->hop[v], t->up, 1);
    }
    return CCL_OK;
}

/* Depth of every rank of a tree, each on the way of the one asked for. */
static void measure(swapper_t *s, const ccl_i_pack_swap_tree_t *t) {
    uint32_t n = s->x->n;
    memset(s->depth, 0xff, n * sizeof *s->depth);
    s->depth[t->root] = 0;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t len = 0;
        for (uint32_t u = v; s->depth[u] == CCL_NONE; u = parent_of(s, t, u))
            s->queue[len++] = u;
        while (len > 0) {
            uint32_t u = s->queue[--len];
            s->depth[u] = s->depth[parent_of(s, t, u)] + 1;
        }
    }
}

static bool below(const swapper_t *s, const ccl_i_pack_swap_tree_t *t, uint32_t u, uint32_t v) {
    while (s->depth[u] > s->depth[v])
        u = parent_of(s, t, u);
    return u == v;
}

/* Better parents in one tree; how many changed. */
static uint32_t improve(swapper_t *s, ccl_i_pack_swap_tree_t *t) {
    uint32_t changed = 0;
    measure(s, t);
    for (uint32_t v = 0; v < s->x->n; v++) {
        if (v == t->root)
            continue;
        uint32_t old = t->hop[v], best = old, depth = s->depth[v];
        use(s, old, t->up, -1);
        double least = cost(s, old, t->up);
        for (uint32_t i = 0; i < nways(s, t, v); i++) {
            uint32_t h = way(s, t, v, i), u = t->up ? s->x->hops[h].dst : s->x->hops[h].src;
            if (h == old)
                continue;
            double now = cost(s, h, t->up);
            bool better = now < least * (1 - 1e-6);
            if (!(better || (now <= least * (1 + 1e-9) && s->depth[u] + 1 < depth)) ||
                below(s, t, u, v))
                continue;
            least = now;
            best = h;
            depth = s->depth[u] + 1;
        }
        use(s, best, t->up, 1);
        if (best != old) {
            t->hop[v] = best;
            changed++;
            measure(s, t);
        }
    }
    return changed;
}

/* Prices as they are now, as a bound. */
static ccl_status_t bound(const ccl_ctx_t *ctx, swapper_t *s, const int64_t *roots, bool down,
                          bool up, ccl_error_t *err) {
    double least = 0;
    for (uint32_t i = 0; i < s->x->nclasses; i++)
        s->growth[i] = s->weight[i] / s->x->class_Bps[i];
    CCL_TRY(ccl_i_pack_least(ctx, s->x, roots, down, up, s->growth, &least, err));
    s->out->least_s = fmax(s->out->least_s, least);
    return CCL_OK;
}

static ccl_status_t search(const ccl_ctx_t *ctx, swapper_t *s, const int64_t *roots, bool down,
                           bool up, double enough_s, ccl_error_t *err) {
    static const double sharp[] = {3, 6, 12, 25, 60, 200, 600};
    for (size_t k = 0; k < CCL_ARRAY_LEN(sharp) && busiest(s) > enough_s; k++) {
        for (int pass = 0; pass < MOST_PASSES; pass++) {
            uint32_t changed = 0;
            set_level(s, busiest(s), sharp[k]);
            for (size_t i = 0; i < s->out->ntrees; i++) {
                CCL_TRY(ccl_ctx_poll(ctx, NULL));
                changed += improve(s, &s->out->trees[i]);
            }
            if (changed == 0 || busiest(s) <= enough_s)
                break;
        }
        if (busiest(s) > enough_s)
            CCL_TRY(bound(ctx, s, roots, down, up, err));
        if (busiest(s) <= s->out->least_s * (1 + 1e-9))
            break;
    }
    return CCL_OK;
}

/* Ends of connections at the GPU with most; depth is scratch. */
static uint32_t most_blocks(swapper_t *s) {
    const ccl_i_pack_hops_t *x = s->x;
    uint32_t most = 0;
    memset(s->depth, 0, x->n * sizeof *s->depth);
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_pack_hop_t *hop = &x->hops[h];
        uint32_t times = (s->used[0][hop->orbit] > 0) + (s->used[1][hop->orbit] > 0);
        s->depth[hop->src] += times;
        s->depth[hop->dst] += times;
    }
    for (uint32_t r = 0; r < x->n; r++)
        most = s->depth[r] > most ? s->depth[r] : most;
    return most;
}

ccl_status_t ccl_i_pack_swap(const ccl_ctx_t *ctx, const ccl_i_pack_hops_t *x,
                             const int64_t *roots, bool down, bool up, double enough_s,
                             double fresh, ccl_i_pack_swaps_t *out, ccl_error_t *err) {
    ccl_arena_t arena;
    swapper_t s = {.x = x, .out = out, .fresh = fresh};
    ccl_status_t status = CCL_OK;
    size_t n = x->n, most = x->nclasses + (size_t)1, total = 0;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    ccl_arena_init(&arena);
    s.load = ccl_arena_alloc(&arena, most, sizeof *s.load);
    s.weight = ccl_arena_alloc(&arena, most, sizeof *s.weight);
    s.growth = ccl_arena_alloc(&arena, most, sizeof *s.growth);
    s.depth = ccl_arena_alloc(&arena, n, sizeof *s.depth);
    s.queue = ccl_arena_alloc(&arena, n, sizeof *s.queue);
    s.joined = ccl_arena_alloc(&arena, n, sizeof *s.joined);
    s.price = ccl_arena_alloc(&arena, n, sizeof *s.price);
    for (int k = 0; k < 2; k++)
        s.used[k] = ccl_arena_alloc(&arena, x->norbits + (size_t)1, sizeof *s.used[k]);
    for (uint32_t r = 0; r < n; r++)
        total += x->class_root[r] == r ? (size_t)roots[r] * (down + up) : 0;
    out->trees = ccl_arena_alloc(&out->arena, total + 1, sizeof *out->trees);
    if (!s.load || !s.weight || !s.growth || !s.depth || !s.queue || !s.joined || !s.price ||
        !s.used[0] || !s.used[1] || !out->trees) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    /* A tree of each root after the other, so that what is left is even. */
    for (int64_t round = 0; out->ntrees < total; round++) {
        for (uint32_t r = 0; r < n; r++) {
            for (int k = 0; k < 2; k++) {
                if (x->class_root[r] != r || round >= roots[r] || !(k ? up : down))
                    continue;
                ccl_i_pack_swap_tree_t *t = &out->trees[out->ntrees];
                *t = (ccl_i_pack_swap_tree_t){
                    r, k == 1, ccl_arena_alloc(&out->arena, n, sizeof *t->hop)};
                if (!t->hop) {
                    status = ccl_fail_nomem(err);
                    goto end;
                }
                double share = (double)(out->ntrees + 1) / (double)total;
                set_level(&s, fmax(busiest(&s), enough_s * share), 20);
                CCL_TRY_GOTO(grow(&s, t, err), status, end);
                out->ntrees++;
            }
        }
    }
    CCL_TRY_GOTO(search(ctx, &s, roots, down, up, enough_s, err), status, end);
    out->busiest_s = busiest(&s);
    out->blocks = most_blocks(&s);
end:
    ccl_arena_fini(&arena);
    if (status != CCL_OK)
        ccl_i_pack_swaps_fini(out);
    return status;
}

void ccl_i_pack_swaps_fini(ccl_i_pack_swaps_t *swaps) {
    ccl_arena_fini(&swaps->arena);
    memset(swaps, 0, sizeof *swaps);
}
