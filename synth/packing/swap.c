/*
 * Trees over the model's routes by local search, where flows (split.c, trees.c) cannot help: routes
 * may be what limits, groups may overlap, or GPUs be too many. A rank's parent changes as long as
 * the sum over links of exp(time of the link) falls, which tends to the time of the busiest.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

enum { MOST_PASSES = 24, FLAT_PASSES = 3, KEPT = 64 };
/* Links up to this share of the busiest one's load may take more for lower trees. */
#define FLAT_SHARE 0.8

typedef struct swapper {
    const ccl_i_pack_hops_t *x;
    const ccl_i_pack_request_t *ask;
    ccl_i_pack_swaps_t *out;
    double *load;   /* [nclasses] hops over it */
    double *asked;  /* [nclasses] z of docs/model.md: caps of all connections over its rate */
    double *weight; /* [nclasses] exp(sharp (load / rate / level - 1)) */
    double *growth; /* [nclasses] what one hop more multiplies weight by */
    double *gain;   /* [nclasses] what one hop more adds to weight, where none is lost by sharing */
    double *weights; /* [nclasses][KEPT] weight by load, where none is lost; NAN: not known */
    double level, sharp;
    uint32_t *used[2]; /* [nhops] by orbit: ranks that are reached over it, in trees out and in */
    uint32_t *depth;   /* [n] of the tree in hand */
    uint32_t *queue;   /* [n] */
    uint8_t *joined;   /* [n] */
    double *price;     /* [n] of the cheapest hop to a rank */
    uint32_t banned;   /* orbit that no tree may be grown over; CCL_NONE */
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

/* Seconds of a class with `load` hops over it when all its connections are busy at once. */
static double seconds(const swapper_t *s, uint32_t class, double load, double asked) {
    double lost = asked > 1 + 1e-9 ? s->x->class_kappa[class] * (asked - 1) : 0;
    return load / s->x->class_Bps[class] * (1 + lost);
}

static double weight_of(const swapper_t *s, uint32_t class, double load, double asked) {
    return bounded_exp(s->sharp * (seconds(s, class, load, asked) / s->level - 1));
}

/* What the thread block of a hop's connection weighs with `trees` over it, as a link does. */
static double block_weight(const swapper_t *s, uint32_t orbit, bool up, double trees) {
    return bounded_exp(s->sharp * (trees * s->x->block_s[up][orbit] / s->level - 1));
}

static void weigh(swapper_t *s, uint32_t class) {
    double load = s->load[class], *kept = NULL;
    if (s->x->class_kappa[class] <= 0 && load >= 0 && load < KEPT) /* whole hops */
        kept = &s->weights[(size_t) class * KEPT + (size_t)load];
    if (kept && *kept == *kept) {
        s->weight[class] = *kept;
    } else {
        s->weight[class] = weight_of(s, class, load, s->asked[class]);
        if (kept)
            *kept = s->weight[class];
    }
    s->gain[class] = s->weight[class] * (s->growth[class] - 1);
}

static void set_level(swapper_t *s, double level, double sharp) {
    s->level = level;
    s->sharp = sharp;
    memset(s->weights, 0xff, (size_t)s->x->nclasses * KEPT * sizeof *s->weights); /* NAN */
    for (uint32_t i = 0; i < s->x->nclasses; i++) {
        s->growth[i] = bounded_exp(sharp / s->x->class_Bps[i] / level);
        weigh(s, i);
    }
}

/* True: a connection on a link with a contention slope is new, or gone. */
static bool use(swapper_t *s, uint32_t hop, bool up, int times) {
    const ccl_i_pack_hop_t *h = &s->x->hops[hop];
    bool was = s->used[up][h->orbit] > 0;
    s->used[up][h->orbit] += (uint32_t)times;
    int opened = (s->used[up][h->orbit] > 0) - was;
    bool changed = false;
    for (uint32_t i = 0; i < h->nuses; i++) {
        uint32_t class = s->x->uses[h->first_use + i];
        s->load[class] += times;
        if (s->x->class_kappa[class] > 0 && opened != 0) {
            s->asked[class] += opened * h->cap_Bps / s->x->class_Bps[class];
            changed = true;
        }
        weigh(s, class);
    }
    return changed;
}

/* May a tree of this root take the hop? */
static bool on_rails(const ccl_i_pack_rails_t *r, uint32_t root, const ccl_i_pack_hop_t *h) {
    uint32_t rail = r->rail[root], a = r->server[h->src], b = r->server[h->dst];
    bool from = r->rail[h->src] == rail, to = r->rail[h->dst] == rail;
    bool strays = r->stray[a * r->nrails + rail], lost = r->stray[b * r->nrails + rail];
    uint32_t far = (b + r->nservers - a) % r->nservers;
    if (a == b)
        return from || to || strays;
    return (from || strays) && (to || lost) &&
           (far <= r->stride || far % r->stride == 0 || strays || lost);
}

static bool may(const swapper_t *s, const ccl_i_pack_swap_tree_t *t, uint32_t hop) {
    return !s->x->rails || on_rails(s->x->rails, t->root, &s->x->hops[hop]);
}

/* What the sum grows by with this hop, more for a new one, where links may lose by sharing. */
static double contended_cost(const swapper_t *s, uint32_t hop, bool up) {
    const ccl_i_pack_hop_t *h = &s->x->hops[hop];
    double sum = 0;
    if (h->orbit == s->banned || (s->ask->open && !s->ask->open[up][h->orbit]))
        return INFINITY;
    for (uint32_t i = 0; i < h->nuses; i++) {
        uint32_t class = s->x->uses[h->first_use + i];
        if (s->x->class_kappa[class] > 0) {
            double more = s->used[up][h->orbit] > 0 ? 0 : h->cap_Bps / s->x->class_Bps[class];
            sum +=
                weight_of(s, class, s->load[class] + 1, s->asked[class] + more) - s->weight[class];
        } else {
            sum += s->gain[class];
        }
    }
    if (s->x->block_s[up])
        sum += block_weight(s, h->orbit, up, s->used[up][h->orbit] + 1.0) -
               block_weight(s, h->orbit, up, s->used[up][h->orbit]);
    return s->used[up][h->orbit] > 0 ? sum : sum * s->ask->fresh;
}

static inline double cost(const swapper_t *s, uint32_t hop, bool up) {
    const ccl_i_pack_hop_t *h = &s->x->hops[hop];
    const uint32_t *uses = s->x->uses + h->first_use;
    double sum = 0;
    if (s->x->contended || s->ask->open || s->x->block_s[up] || s->banned != CCL_NONE)
        return contended_cost(s, hop, up);
    for (uint32_t i = 0; i < h->nuses; i++)
        sum += s->gain[uses[i]];
    return s->ask->fresh == 1 || s->used[up][h->orbit] > 0 ? sum : sum * s->ask->fresh;
}

static double busiest(const swapper_t *s) {
    double most = 0;
    for (uint32_t i = 0; i < s->x->nclasses; i++)
        most = fmax(most, seconds(s, i, s->load[i], s->asked[i]));
    for (uint32_t up = 0; up < 2 && s->x->block_s[up]; up++) {
        for (uint32_t i = 0; i < s->x->norbits; i++)
            most = fmax(most, s->used[up][i] * s->x->block_s[up][i]);
    }
    return most;
}

/* Prices of the hops of a rank that has joined. */
static void offer(swapper_t *s, ccl_i_pack_swap_tree_t *t, uint32_t at) {
    const ccl_i_pack_hops_t *x = s->x;
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
}

/* The same for all that have joined: a connection more has changed prices. */
static void offer_again(swapper_t *s, ccl_i_pack_swap_tree_t *t) {
    for (uint32_t v = 0; v < s->x->n; v++)
        s->price[v] = s->joined[v] ? s->price[v] : INFINITY;
    for (uint32_t u = 0; u < s->x->n; u++) {
        if (s->joined[u])
            offer(s, t, u);
    }
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
    bool again = false;
    for (uint32_t count = 1; count < n; count++) {
        if (again)
            offer_again(s, t);
        else
            offer(s, t, at);
        at = CCL_NONE;
        for (uint32_t v = 0; v < n; v++) {
            if (s->joined[v] || isinf(s->price[v]))
                continue;
            if (at == CCL_NONE || s->price[v] < s->price[at] * (1 - 1e-9) ||
                (s->price[v] <= s->price[at] * (1 + 1e-9) && s->depth[v] < s->depth[at]))
                at = v;
        }
        if (at == CCL_NONE)
            break;
        s->joined[at] = 1;
        again = x->contended && use(s, t->hop[at], t->up, 1);
    }
    for (uint32_t v = 0; v < n; v++) {
        if (v != t->root && s->joined[v] && (at == CCL_NONE) == x->contended)
            use(s, t->hop[v], t->up, at == CCL_NONE ? -1 : 1);
    }
    if (at == CCL_NONE)
        return ccl_fail(err, CCL_INFEASIBLE, "packing: rank %u does not reach all others", t->root);
    return CCL_OK;
}

/* A level after the other from the root, each rank by the cheapest hop. */
static ccl_status_t grow_low(swapper_t *s, ccl_i_pack_swap_tree_t *t, ccl_error_t *err) {
    uint32_t n = s->x->n, count = 1;
    for (uint32_t v = 0; v < n; v++) {
        t->hop[v] = CCL_NONE;
        s->joined[v] = v == t->root;
    }
    for (uint32_t level = 1, before = 0; count > before && count < n; level++) {
        before = count;
        for (uint32_t v = 0; v < n; v++) {
            double least = INFINITY;
            for (uint32_t i = 0; i < nways(s, t, v) && !s->joined[v]; i++) {
                uint32_t h = way(s, t, v, i), u = t->up ? s->x->hops[h].dst : s->x->hops[h].src;
                if (s->joined[u] == 0 || s->joined[u] > level || !may(s, t, h))
                    continue;
                double now = cost(s, h, t->up);
                if (now < least * (1 - 1e-9)) {
                    least = now;
                    t->hop[v] = h;
                }
            }
            if (s->joined[v] || t->hop[v] == CCL_NONE)
                continue;
            s->joined[v] = (uint8_t)(level < UINT8_MAX ? level + 1 : UINT8_MAX);
            use(s, t->hop[v], t->up, 1);
            count++;
        }
    }
    if (count == n)
        return CCL_OK;
    return ccl_fail(err, CCL_INFEASIBLE, "packing: rank %u does not reach all others by rails",
                    t->root);
}

static void use_tree(swapper_t *s, const ccl_i_pack_swap_tree_t *t, int times) {
    for (uint32_t v = 0; v < s->x->n; v++) {
        if (v != t->root)
            use(s, t->hop[v], t->up, times);
    }
}

static double sum_of_weights(const swapper_t *s) {
    double sum = 0;
    for (uint32_t i = 0; i < s->x->nclasses; i++)
        sum += s->weight[i];
    return sum;
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

/* The hop of a tree from u to v, away from the root; CCL_NONE. */
static uint32_t hop_between(const swapper_t *s, const ccl_i_pack_swap_tree_t *t, uint32_t u,
                            uint32_t v) {
    for (uint32_t i = 0; i < nways(s, t, v); i++) {
        uint32_t h = way(s, t, v, i);
        if ((t->up ? s->x->hops[h].dst : s->x->hops[h].src) == u && may(s, t, h))
            return h;
    }
    return CCL_NONE;
}

/* Where a tree enters a server: by a GPU below the one it enters by now, which comes below that?
   One change of a parent alone would enter twice. */
static uint32_t enter_elsewhere(swapper_t *s, ccl_i_pack_swap_tree_t *t) {
    const uint32_t *server = s->x->rails->server;
    uint32_t changed = 0;
    for (uint32_t w = 0; w < s->x->n; w++) {
        uint32_t v = w == t->root ? t->root : parent_of(s, t, w);
        if (v == t->root || server[v] != server[w] || server[parent_of(s, t, v)] == server[v])
            continue;
        uint32_t was[2] = {t->hop[v], t->hop[w]};
        uint32_t now[2] = {hop_between(s, t, w, v), hop_between(s, t, parent_of(s, t, v), w)};
        if (now[0] == CCL_NONE || now[1] == CCL_NONE)
            continue;
        for (int k = 0; k < 2; k++)
            use(s, was[k], t->up, -1);
        double before = cost(s, was[0], t->up) + cost(s, was[1], t->up);
        bool better = cost(s, now[0], t->up) + cost(s, now[1], t->up) < before * (1 - 1e-6);
        for (int k = 0; k < 2; k++)
            use(s, better ? now[k] : was[k], t->up, 1);
        if (!better)
            continue;
        t->hop[v] = now[0];
        t->hop[w] = now[1];
        changed++;
    }
    return changed;
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
            if (h == old || !may(s, t, h))
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
    return changed + (s->x->rails ? enter_elsewhere(s, t) : 0);
}

/*
 * A connection less: every tree over one that shares a link which loses by it is grown again
 * without. One move is too little, as all trees must leave it before the link gains. True: better
 * now.
 */
static ccl_status_t close_connection(swapper_t *s, uint32_t orbit, bool up, bool *better_out,
                                     ccl_error_t *err) {
    size_t n = s->x->n, nsaved = 0;
    uint32_t *saved = malloc((s->used[up][orbit] + (size_t)1) * (n + 1) * sizeof *saved);
    double before = sum_of_weights(s);
    bool grown = true;
    if (!saved)
        return ccl_fail_nomem(err);
    s->banned = orbit;
    for (size_t i = 0; grown && i < s->out->ntrees; i++) {
        ccl_i_pack_swap_tree_t *t = &s->out->trees[i];
        bool over = false;
        for (uint32_t v = 0; t->up == up && v < n; v++)
            over |= v != t->root && s->x->hops[t->hop[v]].orbit == orbit;
        if (!over)
            continue;
        uint32_t *to = saved + nsaved++ * (n + 1);
        to[0] = (uint32_t)i;
        memcpy(to + 1, t->hop, n * sizeof *t->hop);
        use_tree(s, t, -1);
        grown = grow(s, t, NULL) == CCL_OK;
    }
    s->banned = CCL_NONE;
    *better_out = grown && sum_of_weights(s) < before * (1 - 1e-6);
    for (size_t k = *better_out ? 0 : nsaved; k-- > 0;) {
        ccl_i_pack_swap_tree_t *t = &s->out->trees[saved[k * (n + 1)]];
        if (grown || k + 1 < nsaved)
            use_tree(s, t, -1);
        memcpy(t->hop, saved + k * (n + 1) + 1, n * sizeof *t->hop);
        use_tree(s, t, 1);
    }
    free(saved);
    return CCL_OK;
}

/* Does the hop share a link that loses by it? */
static bool crowds(const swapper_t *s, uint32_t hop) {
    const ccl_i_pack_hop_t *h = &s->x->hops[hop];
    for (uint32_t i = 0; i < h->nuses; i++) {
        uint32_t class = s->x->uses[h->first_use + i];
        if (s->x->class_kappa[class] > 0 && s->asked[class] > 1 + 1e-9)
            return true;
    }
    return false;
}

static ccl_status_t close_connections(const ccl_ctx_t *ctx, swapper_t *s, uint32_t *closed_out,
                                      ccl_error_t *err) {
    for (uint32_t h = 0; h < s->x->nhops; h++) {
        for (int up = 0; up < 2; up++) {
            bool better = false;
            uint32_t orbit = s->x->hops[h].orbit;
            if (s->used[up][orbit] == 0 || !crowds(s, h))
                continue;
            CCL_TRY(ccl_ctx_poll(ctx, NULL));
            CCL_TRY(close_connection(s, orbit, up == 1, &better, err));
            *closed_out += better;
        }
    }
    return CCL_OK;
}

/* Prices as they are now, as a bound. */
static ccl_status_t bound(const ccl_ctx_t *ctx, swapper_t *s, ccl_error_t *err) {
    double least = 0;
    for (uint32_t i = 0; i < s->x->nclasses; i++)
        s->growth[i] = s->weight[i] / s->x->class_Bps[i];
    CCL_TRY(ccl_i_pack_least(ctx, s->x, s->ask, s->growth, &least, err));
    s->out->least_s = fmax(s->out->least_s, least);
    return CCL_OK;
}

static ccl_status_t search(const ccl_ctx_t *ctx, swapper_t *s, ccl_error_t *err) {
    const double enough_s = s->ask->enough_s;
    static const double sharp[] = {3, 6, 12, 25, 60, 200, 600};
    for (size_t k = 0; k < CCL_ARRAY_LEN(sharp) && busiest(s) > enough_s; k++) {
        for (int pass = 0; pass < MOST_PASSES; pass++) {
            uint32_t changed = 0;
            set_level(s, busiest(s), sharp[k]);
            for (size_t i = 0; i < s->out->ntrees; i++) {
                CCL_TRY(ccl_ctx_poll(ctx, NULL));
                changed += improve(s, &s->out->trees[i]);
            }
            if (s->x->contended && s->x->order == 1 && pass % 4 == 0)
                CCL_TRY(close_connections(ctx, s, &changed, err));
            if (changed == 0 || busiest(s) <= enough_s)
                break;
        }
        if (busiest(s) > enough_s)
            CCL_TRY(bound(ctx, s, err));
        if (busiest(s) <= s->out->least_s * (1 + 1e-9))
            break;
    }
    return CCL_OK;
}

/* Can the links of a hop, which is open, take a tree more without being among the busiest? */
static bool spare(const swapper_t *s, uint32_t hop, bool up, double most_s) {
    const ccl_i_pack_hop_t *h = &s->x->hops[hop];
    bool fits = s->used[up][h->orbit] > 0;
    for (uint32_t i = 0; i < h->nuses && fits; i++) {
        uint32_t class = s->x->uses[h->first_use + i];
        fits = seconds(s, class, s->load[class] + 1, s->asked[class]) <= most_s;
    }
    return fits;
}

/* Lower trees where links are idle anyway: with few connections chunks wait for each other. */
static void flatten(swapper_t *s, ccl_i_pack_swap_tree_t *t, double most_s) {
    for (uint32_t v = 0; v < s->x->n; v++) {
        if (v == t->root)
            continue;
        measure(s, t);
        uint32_t old = t->hop[v], best = old, depth = s->depth[v];
        for (uint32_t i = 0; i < nways(s, t, v); i++) {
            uint32_t h = way(s, t, v, i), u = t->up ? s->x->hops[h].dst : s->x->hops[h].src;
            if (s->depth[u] + 1 < depth && spare(s, h, t->up, most_s)) {
                best = h;
                depth = s->depth[u] + 1;
            }
        }
        if (best != old) {
            use(s, old, t->up, -1);
            use(s, best, t->up, 1);
            t->hop[v] = best;
        }
    }
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

static bool make_room(swapper_t *s, ccl_arena_t *arena) {
    size_t n = s->x->n, most = s->x->nclasses + (size_t)1;
    s->load = ccl_arena_alloc(arena, most, sizeof *s->load);
    s->asked = ccl_arena_alloc(arena, most, sizeof *s->asked);
    s->weight = ccl_arena_alloc(arena, most, sizeof *s->weight);
    s->growth = ccl_arena_alloc(arena, most, sizeof *s->growth);
    s->gain = ccl_arena_alloc(arena, most, sizeof *s->gain);
    s->weights = ccl_arena_alloc(arena, most, KEPT * sizeof *s->weights);
    s->depth = ccl_arena_alloc(arena, n, sizeof *s->depth);
    s->queue = ccl_arena_alloc(arena, n, sizeof *s->queue);
    s->joined = ccl_arena_alloc(arena, n, sizeof *s->joined);
    s->price = ccl_arena_alloc(arena, n, sizeof *s->price);
    for (int k = 0; k < 2; k++)
        s->used[k] = ccl_arena_alloc(arena, s->x->norbits + (size_t)1, sizeof *s->used[k]);
    return s->load && s->asked && s->weight && s->growth && s->gain && s->weights && s->depth &&
           s->queue && s->joined && s->price && s->used[0] && s->used[1];
}

ccl_status_t ccl_i_pack_swap(const ccl_ctx_t *ctx, const ccl_i_pack_hops_t *x,
                             const ccl_i_pack_request_t *ask, ccl_i_pack_swaps_t *out,
                             ccl_error_t *err) {
    ccl_arena_t arena;
    swapper_t s = {.x = x, .ask = ask, .out = out, .banned = CCL_NONE};
    ccl_status_t status = CCL_OK;
    size_t n = x->n, total = 0;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    ccl_arena_init(&arena);
    for (uint32_t r = 0; r < n; r++)
        total += x->class_root[r] == r ? (size_t)ask->roots[r] * (ask->down + ask->up) : 0;
    out->trees = ccl_arena_alloc(&out->arena, total + 1, sizeof *out->trees);
    if (!make_room(&s, &arena) || !out->trees) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    /* A tree of each root after the other, so that what is left is even. */
    for (int64_t round = 0; out->ntrees < total; round++) {
        for (uint32_t r = 0; r < n; r++) {
            for (int k = 0; k < 2; k++) {
                if (x->class_root[r] != r || round >= ask->roots[r] || !(k ? ask->up : ask->down))
                    continue;
                ccl_i_pack_swap_tree_t *t = &out->trees[out->ntrees];
                *t = (ccl_i_pack_swap_tree_t){r, k == 1,
                                              ccl_arena_alloc(&out->arena, n, sizeof *t->hop)};
                if (!t->hop) {
                    status = ccl_fail_nomem(err);
                    goto end;
                }
                double share = (double)(out->ntrees + 1) / (double)total;
                set_level(&s, fmax(busiest(&s), ask->enough_s * share), 20);
                CCL_TRY_GOTO((x->rails ? grow_low : grow)(&s, t, err), status, end);
                out->ntrees++;
            }
        }
    }
    CCL_TRY_GOTO(search(ctx, &s, err), status, end);
    for (int pass = 0; x->contended && pass < FLAT_PASSES; pass++) {
        double most_s = busiest(&s) * FLAT_SHARE;
        for (size_t i = 0; i < out->ntrees; i++)
            flatten(&s, &out->trees[i], most_s);
    }
    out->busiest_s = busiest(&s);
    out->blocks = most_blocks(&s);
end:
    ccl_arena_fini(&arena);
    if (status != CCL_OK)
        ccl_i_pack_swaps_fini(out);
    return status;
}
