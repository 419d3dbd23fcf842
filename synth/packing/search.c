/*
 * Packings by local search: trees of hops that swap their edges (swap.c), for links as they are and
 * for links that lose when connections share them.
 */
#include "synth/packing/packing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More transfers than this are made only where fewer do not come near the bound. */
enum {
    MOST_RAIL_TRIES = 3,
    MOST_SHARING = 4,
    MOST_SWAP_TRANSFERS = 300000,
    MOST_CONTENDED_TRANSFERS = 500
};

typedef ccl_i_pack_forest_t forest_t;
typedef ccl_i_packing_t packing_t;

void ccl_i_pack_swaps_fini(ccl_i_pack_swaps_t *swaps) {
    ccl_arena_fini(&swaps->arena);
    memset(swaps, 0, sizeof *swaps);
}

/* One tree of hops as symmetry `g` moves it, as tree `t` of its forest. */
static bool place_tree(const ccl_i_pack_hops_t *x, const ccl_i_pack_swap_tree_t *tree, uint32_t g,
                       forest_t *f, size_t t, uint32_t *depth) {
    uint32_t n = x->n;
    const uint32_t *image = x->image + (size_t)g * n;
    ccl_i_pack_batch_t *b = &f->trees.batches[t];
    *b = (ccl_i_pack_batch_t){image[tree->root], 1,
                              ccl_arena_alloc(&f->trees.arena, n, sizeof *b->order),
                              ccl_arena_alloc(&f->trees.arena, n, sizeof *b->parent)};
    if (!b->order || !b->parent)
        return false;
    b->parent[b->root] = CCL_NONE;
    for (uint32_t v = 0; v < n; v++) {
        if (v == tree->root)
            continue;
        uint32_t h = ccl_i_pack_hops_image(x, g, tree->hop[v]);
        const ccl_i_pack_hop_t *hop = &x->hops[h];
        b->parent[image[v]] = tree->up ? hop->dst : hop->src;
        f->channel[t * n + image[v]] = (uint16_t)hop->channel;
    }
    /* By depth, which counts ranks at each first. */
    uint32_t *count = depth + n;
    memset(count, 0, (n + (size_t)1) * sizeof *count);
    for (uint32_t v = 0; v < n; v++) {
        depth[v] = 0;
        for (uint32_t u = b->parent[v]; u != CCL_NONE; u = b->parent[u])
            depth[v]++;
        count[depth[v] + 1]++;
    }
    for (uint32_t d = 1; d <= n; d++)
        count[d] += count[d - 1];
    for (uint32_t v = 0; v < n; v++)
        b->order[count[depth[v]]++] = v;
    return true;
}

static ccl_status_t place_trees(packing_t *p, const ccl_i_pack_hops_t *x,
                                const ccl_i_pack_swaps_t *swaps, bool up, ccl_error_t *err) {
    forest_t *f = up ? &p->up : &p->down;
    uint32_t *depth = malloc((2 * (size_t)p->n + 1) * sizeof *depth);
    size_t *next = malloc(p->n * sizeof *next);
    ccl_status_t status = ccl_i_pack_forest_init(p, up, f, err);
    if (status == CCL_OK && (!depth || !next))
        status = ccl_fail_nomem(err);
    /* All trees of a rank stand together. */
    for (uint32_t r = 0; r < p->n && status == CCL_OK; r++)
        next[r] = r == 0 ? 0 : next[r - 1] + (size_t)p->roots[r - 1];
    for (uint32_t g = 0; g < x->order && status == CCL_OK; g++) {
        for (size_t i = 0; i < swaps->ntrees && status == CCL_OK; i++) {
            const ccl_i_pack_swap_tree_t *tree = &swaps->trees[i];
            size_t *at = &next[x->image[(size_t)g * p->n + tree->root]];
            if (tree->up == up && !place_tree(x, tree, g, f, (*at)++, depth))
                status = ccl_fail_nomem(err);
        }
    }
    free(depth);
    free(next);
    return status;
}

/* Trees for `k` parts at the average rank; ranks that a symmetry moves to each other have as many.
 */
static void set_even_roots(packing_t *p, const ccl_i_pack_hops_t *x, uint32_t k) {
    ccl_i_pack_set_roots(p, k);
    p->total = 0;
    for (uint32_t r = 0; r < p->n; r++)
        p->total += p->roots[r] = p->roots[x->class_root[r]];
}

/*
 * More and more trees, until they load links no more than the bound's share or there are many. A
 * message of a byte has `bound_s` seconds at least.
 */
static ccl_status_t swap_trees(packing_t *p, const ccl_i_pack_hops_t *x, ccl_i_pack_request_t ask,
                               double bound_s, uint32_t given, ccl_i_pack_swaps_t *out,
                               ccl_error_t *err) {
    static const uint32_t some[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                    13, 14, 15, 16, 17, 20, 24, 28, 32, 40, 48, 64};
    /* Over the bound; transfers have a price. */
    double best = INFINITY, best_score = INFINITY, least = 1;
    uint32_t best_k = 0;
    ccl_status_t status = CCL_OK;
    memset(out, 0, sizeof *out);
    ask.roots = p->roots;
    ask.down = p->has_down;
    ask.up = p->has_up;
    for (size_t i = 0; i < CCL_ARRAY_LEN(some); i++) {
        ccl_i_pack_swaps_t now;
        uint32_t k = given ? given : some[i];
        set_even_roots(p, x, k);
        if (p->total == 0)
            continue;
        double transfers = (double)p->total * (p->n - 1),
               price = CCL_I_PACK_PRICE * transfers / CCL_I_PACK_MANY_TRANSFERS;
        if (best < INFINITY && least + price >= best_score &&
            (best <= least * (1 + CCL_I_PACK_BEYOND) || transfers > MOST_SWAP_TRANSFERS))
            break;
        double one_s = bound_s * (double)p->total;
        ask.enough_s = one_s * (1 + ccl_i_pack_allowed(p) / 2);
        CCL_TRY_GOTO(ccl_i_pack_swap(p->ctx, x, &ask, &now, err), status, end);
        double load = now.busiest_s / one_s;
        least = fmax(least, now.least_s / one_s);
        ccl_log(p->ctx, CCL_LOG_DEBUG, "packing",
                "%lld trees by local search: %.4f of the bound, routes allow no less than %.4f",
                (long long)p->total, load, least);
        if (load + price < best_score ||
            (best > least * (1 + CCL_I_PACK_BEYOND) && load < best * (1 - CCL_I_PACK_BEYOND / 2))) {
            best = load;
            best_score = load + price;
            best_k = k;
            ccl_i_pack_swaps_fini(out);
            *out = now;
        } else {
            ccl_i_pack_swaps_fini(&now);
        }
        bool enough = x->contended && transfers > MOST_CONTENDED_TRANSFERS;
        if (x->rails && i == MOST_RAIL_TRIES)
            break;
        if (given || enough || best <= fmax(1, least) * (1 + ccl_i_pack_allowed(p)))
            break;
    }
    set_even_roots(p, x, best_k);
    out->busiest_s = best * bound_s;
    out->least_s = least * bound_s;
end:
    if (status != CCL_OK)
        ccl_i_pack_swaps_fini(out);
    return status;
}

/* Trees that share connections where a GPU has too few thread blocks for all. */
static ccl_status_t swap_sharing(packing_t *p, const ccl_i_pack_hops_t *x, uint8_t *const open[2],
                                 double bound_s, uint32_t given, ccl_i_pack_swaps_t *out,
                                 ccl_error_t *err) {
    uint32_t sms = ccl_i_pack_fewest_sms(p->c->topo);
    ccl_i_pack_request_t ask = {.open = open, .fresh = 1};
    ccl_status_t status = swap_trees(p, x, ask, bound_s, given, out, err);
    for (int k = 0; k < MOST_SHARING && status == CCL_OK && out->blocks > sms; k++) {
        ask.fresh = k == 0 ? 1.1 : 3 * ask.fresh;
        ccl_i_pack_swaps_fini(out);
        status = swap_trees(p, x, ask, bound_s, given, out, err);
    }
    return status;
}

/* The trees found as the packing's own. */
static ccl_status_t place(packing_t *p, const ccl_i_pack_hops_t *x, const ccl_i_pack_swaps_t *swaps,
                          double bound_s, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    ccl_log(p->ctx, CCL_LOG_INFO, "packing",
            "%lld trees by local search, %u symmetries, %u hops; trees over %s take %.4f of "
            "the bound at least",
            (long long)p->total, x->order, x->nhops,
            x->thinned ? "these hops" : "the model's routes", swaps->least_s / bound_s);
    p->bound = bound_s * p->c->unit_Bps * (double)p->total / (p->has_up && p->has_down ? 2 : 1);
    p->seconds = p->bound * swaps->busiest_s / bound_s;
    for (int k = 0; k < 2 && status == CCL_OK; k++) {
        if (!(k ? p->has_up : p->has_down))
            continue;
        status = place_trees(p, x, swaps, k == 1, err);
        if (status == CCL_OK)
            status = ccl_i_pack_index_trees(p, k ? &p->up : &p->down, err);
    }
    return status;
}

/*
 * Links that lose when flows share them. A symmetry copies a connection to all GPUs, where one of
 * several would do, so none is used; and few connections are found by rings rather than by search.
 */
ccl_status_t ccl_i_pack_few_connections(packing_t *p, double bound_s, uint32_t given,
                                        double *busiest_out, double *least_out, ccl_error_t *err) {
    ccl_i_pack_hops_t x;
    ccl_i_pack_swaps_t swaps = {0};
    CCL_TRY(ccl_i_pack_hops_init(p->ctx, p->cluster, p->c, false, 0, &x, err));
    uint8_t *open[2] = {calloc(x.norbits + (size_t)1, 1), calloc(x.norbits + (size_t)1, 1)};
    ccl_status_t status = open[0] && open[1] ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_pack_open_rings(p->ctx, p->cluster, &x, p->has_up && p->has_down, open, err);
    if (status == CCL_OK)
        status = swap_sharing(p, &x, open, bound_s, given, &swaps, err);
    if (status == CCL_OK) {
        p->few_connections = true;
        *busiest_out = swaps.busiest_s;
        *least_out = swaps.least_s;
        status = place(p, &x, &swaps, bound_s, err);
    }
    free(open[0]);
    free(open[1]);
    ccl_i_pack_swaps_fini(&swaps);
    ccl_i_pack_hops_fini(&x);
    return status;
}

/* Which GPUs lead into their servers, and how far hops between servers go. */
static ccl_status_t lay_rails(const packing_t *p, ccl_i_pack_hops_t *x, ccl_error_t *err) {
    const ccl_i_cluster_t *c = p->cluster;
    ccl_i_pack_rails_t *r = x->rails = ccl_arena_alloc(&x->arena, 1, sizeof *r);
    uint32_t n = x->n, nrails = c->min_gpus, *mates = calloc(n, 2 * sizeof *mates);
    if (r) {
        *r = (ccl_i_pack_rails_t){c->nservers, nrails, c->server, NULL, NULL, 0};
        r->rail = ccl_arena_alloc(&x->arena, n, sizeof *r->rail);
        r->stray = ccl_arena_alloc(&x->arena, (size_t)c->nservers * nrails, 1);
    }
    if (!r || !r->rail || !r->stray || !mates) {
        free(mates);
        return ccl_fail_nomem(err);
    }
    for (uint32_t v = 0; v < n; v++)
        r->rail[v] = c->local[v] % nrails;
    memset(r->stray, 1, (size_t)c->nservers * nrails);
    for (uint32_t h = 0; h < x->nhops; h++) { /* into and out of the GPU: inside, along the rail */
        const ccl_i_pack_hop_t *hop = &x->hops[h];
        bool inside = c->server[hop->src] == c->server[hop->dst];
        mates[2 * hop->src + !inside] += inside || r->rail[hop->src] == r->rail[hop->dst];
        mates[2 * hop->dst + !inside] += inside || r->rail[hop->src] == r->rail[hop->dst];
    }
    for (uint32_t v = 0; v < n; v++) {
        if (mates[2 * v] >= 2 * (ccl_i_cluster_gpus(c, c->server[v]) - 1) && mates[2 * v + 1] > 0)
            r->stray[c->server[v] * nrails + r->rail[v]] = 0;
    }
    free(mates);
    /* Ends of connections at a GPU: with all others of its server and, between servers, in and out,
       of reductions and of copies. */
    uint32_t sms = ccl_i_pack_fewest_sms(p->c->topo), ways = (p->has_up + p->has_down) * 2u;
    uint32_t inside = ways * (c->max_gpus - 1), left = sms > inside ? sms - inside : 0;
    r->stride = c->nservers - 1;
    if (ways * (c->nservers - 1) > left)
        r->stride = (uint32_t)ceil(sqrt(c->nservers));
    return CCL_OK;
}

/* What a GPU sends, or takes in, along its rail: of its widest hop there. */
static ccl_status_t rail_rates(const packing_t *p, const ccl_i_pack_hops_t *x, double *Bps,
                               ccl_error_t *err) {
    const uint32_t *server = x->rails->server, *rail = x->rails->rail;
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_pack_hop_t *hop = &x->hops[h];
        const ccl_route_t *route;
        if (server[hop->src] == server[hop->dst] || rail[hop->src] != rail[hop->dst])
            continue;
        CCL_TRY(ccl_routes_get(p->cluster->routes, hop->src, hop->dst, hop->channel, &route, err));
        Bps[hop->src] = fmax(Bps[hop->src], route->bottleneck_Bps);
        Bps[hop->dst] = fmax(Bps[hop->dst], route->bottleneck_Bps);
    }
    return CCL_OK;
}

/*
 * What each GPU is root of, where a root sends to and takes in from all other servers itself: a
 * server of share x then moves 1 + (n - 2) x of the data in each direction, the x of its results to
 * n - 1 servers and 1 - x of its inputs away. The time T for which the shares (T c - 1) / (n - 2),
 * or 0, of servers that carry c make 1 is found by bisection. In a server they go by GPU.
 */
ccl_status_t ccl_i_pack_rail_weights(const ccl_i_cluster_t *cluster, const double *Bps,
                                     double *weight, ccl_error_t *err) {
    uint32_t n = cluster->nranks, m = cluster->nservers;
    double *all = calloc(m, sizeof *all), low = 0, high = 0;
    ccl_status_t status = all ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t v = 0; v < n && status == CCL_OK; v++)
        all[cluster->server[v]] += Bps[v];
    for (uint32_t s = 0; s < m && status == CCL_OK; s++) {
        if (!(all[s] > 0))
            status = ccl_fail(err, CCL_INFEASIBLE, "packing: server %u is on no rail", s);
        high = fmax(high, (m - 1) / all[s]);
    }
    for (int k = 0; k < 60 && status == CCL_OK; k++) {
        double T = (low + high) / 2, sum = 0;
        for (uint32_t s = 0; s < m; s++)
            sum += fmax(0, T * all[s] - 1) / (m > 2 ? m - 2 : 1);
        *(sum < 1 ? &low : &high) = T;
    }
    for (uint32_t v = 0; v < n && status == CCL_OK && m > 2; v++) {
        double c = all[cluster->server[v]];
        weight[v] = fmax(0, high * c - 1) / (m - 2) * Bps[v] / c;
    }
    free(all);
    return status;
}

static ccl_status_t rail_weights(packing_t *p, const ccl_i_pack_hops_t *x, ccl_error_t *err) {
    double *Bps = calloc(x->n, sizeof *Bps);
    ccl_status_t status = Bps ? rail_rates(p, x, Bps, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_pack_rail_weights(p->cluster, Bps, p->weight, err);
    free(Bps);
    return status;
}

/* What a hop's thread block takes for a byte. */
static ccl_status_t rate_blocks(const packing_t *p, ccl_i_pack_hops_t *x, ccl_error_t *err) {
    for (int up = 0; up < 2; up++) {
        x->block_s[up] = ccl_arena_alloc(&x->arena, x->norbits + (size_t)1, sizeof *x->block_s[up]);
        if (!x->block_s[up])
            return ccl_fail_nomem(err);
        for (uint32_t h = 0; h < x->nhops; h++) {
            const ccl_i_pack_hop_t *hop = &x->hops[h];
            double Bps = 0;
            CCL_TRY(ccl_i_pack_connection_Bps(p->cluster, hop->src, hop->dst, hop->channel, up == 1,
                                              &Bps, err));
            x->block_s[up][hop->orbit] = 1 / Bps;
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_pack_by_rails(packing_t *p, double bound_s, ccl_error_t *err) {
    ccl_i_pack_hops_t x;
    ccl_i_pack_swaps_t swaps = {0};
    CCL_TRY(ccl_i_pack_hops_init(p->ctx, p->cluster, p->c, true, 0, &x, err));
    ccl_status_t status = lay_rails(p, &x, err);
    if (status == CCL_OK)
        status = rate_blocks(p, &x, err);
    if (status == CCL_OK && p->want->kind == CCL_ALLREDUCE)
        status = rail_weights(p, &x, err);
    if (status == CCL_OK)
        status = swap_trees(p, &x, (ccl_i_pack_request_t){.fresh = 1}, bound_s, 0, &swaps, err);
    if (status == CCL_OK)
        status = place(p, &x, &swaps, bound_s, err);
    ccl_i_pack_swaps_fini(&swaps);
    ccl_i_pack_hops_fini(&x);
    return status;
}

/* Trees over the model's routes; seconds of the busiest link for a message of a byte. */
ccl_status_t ccl_i_pack_by_swaps(packing_t *p, double bound_s, uint32_t given, double *busiest_out,
                                 double *least_out, ccl_error_t *err) {
    ccl_i_pack_hops_t x;
    ccl_i_pack_swaps_t swaps = {0};
    bool spread = p->want->kind != CCL_BROADCAST && p->want->kind != CCL_REDUCE;
    uint32_t sms = ccl_i_pack_fewest_sms(p->c->topo), most = sms == UINT32_MAX ? 64 : sms / 4;
    ccl_status_t status = CCL_OK;
    for (int again = 0; again < 2; again++) {
        ccl_error_t why = CCL_ERROR_INIT;
        CCL_TRY(ccl_i_pack_hops_init(p->ctx, p->cluster, p->c, spread, again ? 0 : most, &x, err));
        status = swap_sharing(p, &x, NULL, bound_s, given, &swaps, &why);
        if (status != CCL_INFEASIBLE || again) {
            if (status != CCL_OK && err)
                *err = why;
            break;
        }
        ccl_i_pack_hops_fini(&x); /* too few hops were kept */
    }
    if (status == CCL_OK) {
        *busiest_out = swaps.busiest_s;
        *least_out = x.thinned ? bound_s : swaps.least_s;
        status = place(p, &x, &swaps, bound_s, err);
    }
    ccl_i_pack_swaps_fini(&swaps);
    ccl_i_pack_hops_fini(&x);
    return status;
}
