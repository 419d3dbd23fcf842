/*
 * Trees of servers that are alike: those of one server, packed alone, stand in all of them, and a
 * root sends to the GPU at its place in every other server. The trees of roots at one place use the
 * same hops in all servers, so they share connections there, and thread blocks are as many as one
 * server's trees need.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/compose/compose.h"
#include "synth/packing/packing.h"

/* Trees times GPUs, at most. */
#define MOST_PLACES 4e6
enum { MOST_CHANNELS = 64 };

/* A server alone, and where its GPUs and routes are in the whole. */
typedef struct server {
    ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_cluster_t cluster;
    ccl_capacity_t *capacity;
    ccl_collective_t *want;
    ccl_i_packing_t pack;
} server_t;

static void server_fini(server_t *s) {
    ccl_i_pack_forest_fini(&s->pack.down);
    ccl_i_pack_forest_fini(&s->pack.up);
    free(s->pack.weight);
    free(s->pack.roots);
    free(s->pack.units);
    ccl_collective_destroy(s->want);
    ccl_capacity_destroy(s->capacity);
    if (s->routes)
        ccl_i_cluster_fini(&s->cluster);
    ccl_routes_destroy(s->routes);
    ccl_topology_destroy(s->topo);
}

/* Does a pair of the first server's GPUs reach each other over what is outside alone, or not? */
static bool open_inside(ccl_i_cluster_t *c) {
    const ccl_topology_t *topo = c->topo;
    uint32_t home = topo->devices[topo->rank_device[c->ranks[0]]].server;
    for (uint32_t i = 0; i < c->min_gpus; i++) {
        for (uint32_t k = 0; k < c->min_gpus; k++) {
            const ccl_route_t *r =
                i == k ? NULL : ccl_i_cluster_route(c, c->ranks[i], c->ranks[k], 0);
            bool leaves = i != k && !r;
            for (uint32_t l = 0; r && l < r->nlinks; l++)
                leaves = leaves || topo->devices[topo->links[r->links[l]].to].server != home;
            if (leaves)
                return true;
        }
    }
    return false;
}

/*
 * All servers have as many GPUs, and each GPU a route to those at its place; inside, some have
 * none. (Where all have one, trees go from the GPU of a rail to all others at once.)
 */
static bool alike(ccl_i_cluster_t *c) {
    if (c->min_gpus != c->max_gpus || c->min_gpus < 2 || c->nservers < 2 || !open_inside(c))
        return false;
    for (uint32_t v = 0; v < c->nranks; v++) {
        for (uint32_t s = 0; s < c->nservers; s++) {
            uint32_t u = ccl_i_cluster_rank(c, s, c->local[v]);
            if (u != v && !ccl_i_cluster_reaches(c, u, v))
                return false;
        }
    }
    return true;
}

static ccl_status_t server_init(server_t *s, const ccl_i_packing_t *p, ccl_error_t *err) {
    const ccl_i_cluster_t *c = p->cluster;
    uint32_t m = c->min_gpus;
    memset(s, 0, sizeof *s);
    CCL_TRY(ccl_i_topology_server(c->topo, c->routes, c->ranks, m, &s->topo, err));
    s->routes = ccl_routes_create(s->topo);
    if (!s->routes)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_cluster_init(&s->cluster, s->topo, s->routes, err));
    CCL_TRY(ccl_capacity_create(s->topo, &s->capacity, err));
    CCL_TRY(ccl_collective_create(p->want->kind, m, 1, 0, &s->want, err));
    s->pack = (ccl_i_packing_t){.ctx = p->ctx,
                                .cluster = &s->cluster,
                                .c = s->capacity,
                                .want = s->want,
                                .n = m,
                                .has_up = p->has_up,
                                .has_down = p->has_down};
    s->pack.weight = calloc(m, sizeof *s->pack.weight);
    s->pack.roots = calloc(m, sizeof *s->pack.roots);
    s->pack.units = calloc(s->capacity->narcs + (size_t)1, sizeof *s->pack.units);
    if (!s->pack.weight || !s->pack.roots || !s->pack.units)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l < m; l++)
        s->pack.weight[l] = 1;
    return CCL_OK;
}

/* The whole's channel of the first server's route. */
static ccl_status_t channel_of(const server_t *s, const ccl_i_packing_t *p, uint32_t src,
                               uint32_t dst, uint32_t channel, uint16_t *out, ccl_error_t *err) {
    const ccl_topology_t *whole = p->c->topo;
    const ccl_route_t *want, *r;
    CCL_TRY(ccl_routes_get(s->routes, src, dst, channel, &want, err));
    for (uint32_t i = 0; i < MOST_CHANNELS; i++) {
        uint32_t k = i == 0 ? channel : i - 1;
        CCL_TRY(ccl_routes_get(p->cluster->routes, p->cluster->ranks[src], p->cluster->ranks[dst],
                               k, &r, err));
        bool same = r->nlinks == want->nlinks;
        for (uint32_t l = 0; same && l < r->nlinks; l++)
            same = strcmp(whole->devices[whole->links[r->links[l]].to].id,
                          s->topo->devices[s->topo->links[want->links[l]].to].id) == 0;
        if (same) {
            *out = (uint16_t)k;
            return CCL_OK;
        }
    }
    return ccl_fail(err, CCL_INFEASIBLE, "packing: a server's routes are others in the cluster");
}

/* Tree `k` of the server's forest for the root at that place in server `home`. */
static ccl_status_t place_tree(const server_t *s, ccl_i_packing_t *p, bool up, size_t k,
                               uint32_t home, size_t t, ccl_error_t *err) {
    const ccl_i_cluster_t *c = p->cluster;
    const ccl_i_pack_forest_t *from = up ? &s->pack.up : &s->pack.down;
    ccl_i_pack_forest_t *f = up ? &p->up : &p->down;
    const ccl_i_pack_batch_t *tree = &from->trees.batches[from->tree[k]];
    uint32_t m = s->pack.n, at = 0, root = ccl_i_cluster_rank(c, home, tree->root);
    ccl_i_pack_batch_t *b = &f->trees.batches[t];
    *b = (ccl_i_pack_batch_t){root, 1, ccl_arena_alloc(&f->trees.arena, p->n, sizeof *b->order),
                              ccl_arena_alloc(&f->trees.arena, p->n, sizeof *b->parent)};
    if (!b->order || !b->parent)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < m; i++) {
        uint32_t dst = tree->order[i], src = tree->parent[dst];
        uint16_t channel = 0;
        if (i > 0)
            CCL_TRY(channel_of(s, p, from->reversed ? dst : src, from->reversed ? src : dst,
                               from->channel[k * m + dst], &channel, err));
        for (uint32_t j = 0; j < c->nservers; j++) { /* the nearest behind the root's first */
            uint32_t x = (home + j) % c->nservers, v = ccl_i_cluster_rank(c, x, dst);
            b->order[at++] = v;
            b->parent[v] = i > 0 ? ccl_i_cluster_rank(c, x, src) : x == home ? CCL_NONE : root;
            f->channel[t * p->n + v] = channel;
        }
    }
    return CCL_OK;
}

static ccl_status_t place(const server_t *s, ccl_i_packing_t *p, bool up, ccl_error_t *err) {
    const ccl_i_pack_forest_t *from = up ? &s->pack.up : &s->pack.down;
    ccl_i_pack_forest_t *f = up ? &p->up : &p->down;
    size_t t = 0;
    CCL_TRY(ccl_i_pack_forest_init(p, up, f, err));
    for (uint32_t r = 0; r < p->n; r++) { /* all trees of a rank stand together */
        uint32_t l = p->cluster->local[r];
        for (size_t k = from->first[l]; k < from->first[l + 1]; k++, t++) {
            p->lane[t] = (uint32_t)k;
            CCL_TRY(place_tree(s, p, up, k, p->cluster->server[r], t, err));
        }
    }
    return ccl_i_pack_index_trees(p, f, err);
}

/* Seconds of the busiest link or group for a message of a byte. */
static ccl_status_t busiest(const ccl_i_packing_t *p, double *out, ccl_error_t *err) {
    const ccl_topology_t *topo = p->c->topo;
    double *trees = calloc(topo->nlinks + (size_t)1, sizeof *trees);
    ccl_status_t status = trees ? CCL_OK : ccl_fail_nomem(err);
    *out = 0;
    for (int up = 0; up < 2; up++) {
        const ccl_i_pack_forest_t *f = up ? &p->up : &p->down;
        for (size_t t = 0; t < f->trees.nbatches; t++) {
            for (uint32_t v = 0; status == CCL_OK && v < p->n; v++) {
                uint32_t u = f->trees.batches[t].parent[v];
                const ccl_route_t *r = NULL;
                if (u == CCL_NONE)
                    continue;
                status = ccl_routes_get(p->cluster->routes, up ? v : u, up ? u : v,
                                        f->channel[t * p->n + v], &r, err);
                for (uint32_t i = 0; status == CCL_OK && i < r->nlinks; i++)
                    trees[r->links[i]]++;
            }
        }
    }
    if (status == CCL_OK)
        *out = ccl_i_busiest_seconds(topo, trees);
    *out /= (double)p->total;
    free(trees);
    return status;
}

ccl_status_t ccl_i_pack_apart(ccl_i_packing_t *p, bool *found, ccl_error_t *err) {
    ccl_i_packing_t ways[2] = {*p, *p};
    ccl_collective_t *want[2] = {NULL, NULL};
    ccl_status_t status = CCL_OK;
    for (int up = 0; up < 2 && status == CCL_OK; up++) {
        ccl_i_packing_t *x = &ways[up];
        memset(&x->down, 0, sizeof x->down);
        memset(&x->up, 0, sizeof x->up);
        x->roots = calloc(p->n, sizeof *x->roots);
        x->has_up = up == 1;
        x->has_down = up == 0;
        status = ccl_collective_create(up ? CCL_REDUCESCATTER : CCL_ALLGATHER, p->n, 1, 0,
                                       &want[up], err);
        x->want = want[up];
        if (status == CCL_OK && !x->roots)
            status = ccl_fail_nomem(err);
        if (status == CCL_OK)
            status = ccl_i_pack_anywhere(x, up ? (uint32_t)(ways[0].total / p->n) : 0, err);
    }
    *found = status == CCL_OK && ways[0].total == ways[1].total &&
             memcmp(ways[0].roots, ways[1].roots, p->n * sizeof *p->roots) == 0;
    if (*found) {
        memcpy(p->roots, ways[0].roots, p->n * sizeof *p->roots);
        p->total = ways[0].total;
        p->down = ways[0].down;
        p->up = ways[1].up;
        p->bound = fmax(ways[0].bound, ways[1].bound);
        p->seconds = fmax(ways[0].seconds, ways[1].seconds);
        p->by_flows = ways[0].by_flows || ways[1].by_flows;
    }
    for (int up = 0; up < 2; up++) {
        if (!*found) {
            ccl_i_pack_forest_fini(&ways[up].down);
            ccl_i_pack_forest_fini(&ways[up].up);
        }
        free(ways[up].roots);
        ccl_collective_destroy(want[up]);
    }
    return status == CCL_INFEASIBLE ? CCL_OK : status;
}

/* The trees of one server. */
static ccl_status_t pack_server(server_t *s, ccl_error_t *err) {
    bool found = false;
    if (s->pack.has_up && s->pack.has_down)
        CCL_TRY(ccl_i_pack_apart(&s->pack, &found, err));
    return found ? CCL_OK : ccl_i_pack_anywhere(&s->pack, 0, err);
}

ccl_status_t ccl_i_pack_by_servers(ccl_i_packing_t *p, double bound_s, ccl_error_t *err) {
    server_t s;
    double busiest_s = 0;
    if (!alike(p->cluster))
        return ccl_fail(err, CCL_INFEASIBLE, "packing: servers are not alike");
    ccl_status_t status = server_init(&s, p, err);
    if (status == CCL_OK)
        status = pack_server(&s, err);
    if (status == CCL_OK) {
        p->total = s.pack.total * p->cluster->nservers;
        for (uint32_t r = 0; r < p->n; r++)
            p->roots[r] = s.pack.roots[p->cluster->local[r]];
        p->nlanes = (uint32_t)s.pack.total;
        p->lane = calloc((size_t)p->total + 1, sizeof *p->lane);
        if (!p->lane)
            status = ccl_fail_nomem(err);
        else if ((double)p->total * p->n > MOST_PLACES)
            status = ccl_fail(err, CCL_INFEASIBLE, "packing: too many trees");
    }
    for (int up = 0; up < 2 && status == CCL_OK; up++) {
        if (up ? p->has_up : p->has_down)
            status = place(&s, p, up == 1, err);
    }
    if (status == CCL_OK)
        status = busiest(p, &busiest_s, err);
    if (status == CCL_OK) {
        p->bound = bound_s * p->c->unit_Bps * (double)p->total / (p->has_up && p->has_down ? 2 : 1);
        p->seconds = p->bound * busiest_s / bound_s;
        ccl_log(p->ctx, CCL_LOG_INFO, "packing",
                "%lld trees of a server's %lld: %.4f of the bound on trees", (long long)p->total,
                (long long)s.pack.total, busiest_s / bound_s);
    }
    server_fini(&s);
    return status;
}
