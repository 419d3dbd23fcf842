/*
 * An AllReduce among servers that carry unequally much. Shares that load all alike are odd numbers
 * of parts, more than there are thread blocks for when every part has a tree and connections of its
 * own. Here all trees are alike: from the root to the GPU of its rail in every other server, and
 * from there to the other GPUs. So the parts of a root are one to primitives inside servers, and
 * between servers each has a connection: flows share a NIC evenly, and who is root of twice as much
 * has two. Where a server has no NIC on a rail, its other NICs take the rail's parts in turn. What
 * they copy inside for parts of others is too much where links inside are busy, and the GPU that
 * has no NIC has nothing to copy: there it is a hub, which has a part from its entry and copies it
 * to all.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

/* How finely shares are cut. tests/synth/prop_unequal.c falls without each but `transfers`, beyond
 * which nothing is simulated. */
typedef struct policy {
    uint32_t parts;   /* of the largest share, at most */
    double transfers; /* at most; simulation takes no more (run.c) */
    double exact;     /* share of the bound that shares may miss, or that others must gain */
    uint32_t inside;  /* connections from a GPU to another of its server, at least: one copies too
                         slowly, one for sums and one for copies are too slow as well */
} policy_t;

static const policy_t POLICY = {.parts = 16, .transfers = 100000, .exact = 1e-3, .inside = 4};

typedef struct shares {
    ccl_i_packing_t *p;
    ccl_i_cluster_t *c;
    uint32_t n;
    double *Bps;     /* [n] that a GPU sends, or takes in, along its rail; 0: it is on none */
    double *weight;  /* [n] what it should be root of; the most is 1 */
    int64_t *parts;  /* [n] that it is root of */
    double *trees;   /* [n][n] from one to the other, both ways */
    double *link;    /* [nlinks] of these trees */
    uint32_t *entry; /* [nservers] GPUs by which the tree in hand enters */
    uint32_t *hub;   /* [nservers] and from which it goes on to the others of the server */
    bool spared;     /* some GPU is on no rail */
    bool hubs;       /* such GPUs are hubs of their rails' parts, else entries are */
} shares_t;

static void shares_fini(shares_t *s) {
    free(s->Bps);
    free(s->weight);
    free(s->parts);
    free(s->trees);
    free(s->link);
    free(s->entry);
    free(s->hub);
}

static ccl_status_t shares_init(shares_t *s, ccl_i_packing_t *p, ccl_error_t *err) {
    size_t n = p->n;
    *s = (shares_t){.p = p, .c = p->cluster, .n = p->n};
    s->Bps = calloc(n, sizeof *s->Bps);
    s->weight = calloc(n, sizeof *s->weight);
    s->parts = calloc(n, sizeof *s->parts);
    s->trees = calloc(n * n, sizeof *s->trees);
    s->link = calloc(s->c->topo->nlinks + (size_t)1, sizeof *s->link);
    s->entry = calloc(s->c->nservers, sizeof *s->entry);
    s->hub = calloc(s->c->nservers, sizeof *s->hub);
    bool ok = s->Bps && s->weight && s->parts && s->trees && s->link && s->entry && s->hub;
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* What GPUs move along their rails; all of a server must reach each other. */
static ccl_status_t rate(shares_t *s, ccl_error_t *err) {
    ccl_i_cluster_t *c = s->c;
    for (uint32_t u = 0; u < s->n; u++) {
        for (uint32_t v = 0; v < s->n; v++) {
            bool inside = c->server[u] == c->server[v];
            if (u == v || (!inside && c->local[u] != c->local[v]))
                continue;
            const ccl_route_t *r = ccl_i_cluster_route(c, u, v, 0);
            if (inside && !r)
                return ccl_fail(err, CCL_INFEASIBLE, "packing: ranks %u and %u are apart", u, v);
            if (!inside && r) {
                s->Bps[u] = fmax(s->Bps[u], r->bottleneck_Bps);
                s->Bps[v] = fmax(s->Bps[v], r->bottleneck_Bps);
            }
        }
    }
    for (uint32_t v = 0; v < s->n; v++)
        s->spared = s->spared || !(s->Bps[v] > 0);
    return CCL_OK;
}

static ccl_status_t weigh(shares_t *s, ccl_error_t *err) {
    double most = 0, least = INFINITY;
    CCL_TRY(ccl_i_pack_rail_weights(s->c, s->Bps, s->weight, err));
    for (uint32_t v = 0; v < s->n; v++) {
        most = fmax(most, s->weight[v]);
        least = s->weight[v] > 0 ? fmin(least, s->weight[v]) : least;
    }
    s->p->even = !(least < most * (1 - POLICY.exact));
    for (uint32_t v = 0; v < s->n; v++)
        s->weight[v] /= most;
    return CCL_OK;
}

/* The GPU by which server `x` is on a rail: its own there, or else one of those on rails, by turns
 * of `share` in 0 .. 1. CCL_NONE: none. */
static uint32_t entry_of(const shares_t *s, uint32_t x, uint32_t rail, double share) {
    const ccl_i_cluster_t *c = s->c;
    uint32_t own = ccl_i_cluster_rank(c, x, rail), on = 0;
    if (s->Bps[own] > 0)
        return own;
    for (uint32_t l = 0; l < c->min_gpus; l++)
        on += s->Bps[ccl_i_cluster_rank(c, x, l)] > 0;
    for (uint32_t l = 0, turn = (uint32_t)(share * on); l < c->min_gpus; l++) {
        uint32_t v = ccl_i_cluster_rank(c, x, l);
        if (s->Bps[v] > 0 && turn-- == 0)
            return v;
    }
    return CCL_NONE;
}

/* Entries for part `k` of a root. False: some server is not reached. */
static bool enter(shares_t *s, uint32_t root, int64_t k) {
    const ccl_i_cluster_t *c = s->c;
    uint32_t rail = c->local[root], home = c->server[root];
    int64_t before = 0, all = 0; /* parts of the rail */
    for (uint32_t x = 0; x < c->nservers; x++) {
        int64_t parts = s->parts[ccl_i_cluster_rank(c, x, rail)];
        before += x < home ? parts : 0;
        all += parts;
    }
    for (uint32_t x = 0; x < c->nservers; x++) {
        uint32_t v =
            x == home ? root : entry_of(s, x, rail, ((double)(before + k) + 0.5) / (double)all);
        if (v == CCL_NONE || (x != home && !(ccl_i_cluster_reaches(c, root, v) &&
                                             ccl_i_cluster_reaches(c, v, root))))
            return false;
        s->entry[x] = v;
        s->hub[x] = s->hubs && x != home ? ccl_i_cluster_rank(c, x, rail) : v;
    }
    return true;
}

/* Trees from GPU to GPU. False: some GPU is not reached. */
static bool count_trees(shares_t *s) {
    size_t n = s->n;
    memset(s->trees, 0, n * n * sizeof *s->trees);
    for (uint32_t r = 0; r < n; r++) {
        for (int64_t k = 0; k < s->parts[r]; k++) {
            if (!enter(s, r, k))
                return false;
            for (uint32_t v = 0; v < n; v++) {
                uint32_t e = s->entry[s->c->server[v]], h = s->hub[s->c->server[v]];
                uint32_t u = v == e ? r : v == h ? e : h;
                s->trees[u * n + v] += u != v;
                s->trees[v * n + u] += u != v;
            }
        }
    }
    return true;
}

/* Seconds of the busiest link, both ways together, for a message of a byte in `total` trees. */
static ccl_status_t load_of(shares_t *s, double total, double *out, ccl_error_t *err) {
    memset(s->link, 0, s->c->topo->nlinks * sizeof *s->link);
    for (uint32_t u = 0; u < s->n; u++) {
        for (uint32_t v = 0; v < s->n; v++) {
            const ccl_route_t *r = NULL;
            double trees = s->trees[(size_t)u * s->n + v];
            if (trees == 0)
                continue;
            CCL_TRY(ccl_routes_get(s->c->routes, u, v, 0, &r, err));
            for (uint32_t i = 0; i < r->nlinks; i++)
                s->link[r->links[i]] += trees;
        }
    }
    *out = ccl_i_busiest_seconds(s->c->topo, s->link) / total;
    return CCL_OK;
}

/* Thread blocks of the GPU with most: ends of connections as ccl_i_pack_part_channels() makes them.
 */
static double blocks_of(const shares_t *s) {
    double most = 0;
    for (uint32_t u = 0; u < s->n; u++) {
        double ends = 0;
        for (uint32_t v = 0; v < s->n; v++) {
            double trees = s->trees[(size_t)u * s->n + v]; /* and back as many */
            bool inside = s->c->server[u] == s->c->server[v];
            ends += 2 * (inside ? POLICY.inside * (trees > 0) : trees);
        }
        most = fmax(most, ends);
    }
    return most;
}

/* Parts by weight, of which the largest has `most`; others are rounded, or down. */
static double set_parts(shares_t *s, uint32_t most, bool down) {
    double total = 0;
    for (uint32_t v = 0; v < s->n; v++) {
        s->parts[v] = (int64_t)floor(s->weight[v] * most + (down ? 1e-9 : 0.5));
        total += (double)s->parts[v];
    }
    return total;
}

/* Way `i` of sharing: more and more parts, rounded or down, by entries or hubs. */
static double set_way(shares_t *s, uint32_t i) {
    s->hubs = i % 2 == 1;
    return set_parts(s, i / 4, i / 2 % 2);
}

/* The fewest parts that load links near the bound, or those that load them least, of those for
 * which there are thread blocks. */
static ccl_status_t share(shares_t *s, double bound_s, double *load_out, ccl_error_t *err) {
    uint32_t best = 0, sms = ccl_i_pack_fewest_sms(s->c->topo);
    double best_s = INFINITY;
    uint32_t end = s->p->even ? 8 : 4 * POLICY.parts + 4; /* a part each */
    for (uint32_t i = 4; i < end && best_s > bound_s * (1 + POLICY.exact); i += s->spared ? 1 : 2) {
        double load_s, total = set_way(s, i);
        if (2 * total * (s->n - 1) > POLICY.transfers)
            break;
        if (!count_trees(s))
            return ccl_fail(err, CCL_INFEASIBLE, "packing: rails do not reach all servers");
        if (blocks_of(s) > sms)
            continue;
        CCL_TRY(load_of(s, total, &load_s, err));
        if (load_s < best_s * (1 - POLICY.exact)) {
            best_s = load_s;
            best = i;
        }
    }
    if (best == 0)
        return ccl_fail(err, CCL_INFEASIBLE, "packing: too few thread blocks for parts");
    s->p->total = (int64_t)set_way(s, best);
    for (uint32_t v = 0; v < s->n; v++) {
        s->p->roots[v] = s->parts[v];
        s->p->nparts = s->parts[v] > s->p->nparts ? (uint32_t)s->parts[v] : s->p->nparts;
    }
    *load_out = best_s;
    return CCL_OK;
}

/* The tree whose entries are set. */
static ccl_status_t place_tree(const shares_t *s, ccl_i_pack_forest_t *f, uint32_t root, size_t t,
                               ccl_error_t *err) {
    const ccl_i_cluster_t *c = s->c;
    uint32_t at = 0, home = c->server[root];
    ccl_i_pack_batch_t *b = &f->trees.batches[t];
    *b = (ccl_i_pack_batch_t){root, 1, ccl_arena_alloc(&f->trees.arena, s->n, sizeof *b->order),
                              ccl_arena_alloc(&f->trees.arena, s->n, sizeof *b->parent)};
    if (!b->order || !b->parent)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < c->nservers; i++) { /* the nearest behind the root's first */
        uint32_t v = s->entry[(home + i) % c->nservers];
        b->order[at++] = v;
        b->parent[v] = v == root ? CCL_NONE : root;
    }
    for (uint32_t i = 0; i < c->nservers; i++) {
        uint32_t x = (home + i) % c->nservers;
        if (s->hub[x] == s->entry[x])
            continue;
        b->order[at++] = s->hub[x];
        b->parent[s->hub[x]] = s->entry[x];
    }
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t v = c->ranks[(c->first[home] + i) % s->n], x = c->server[v];
        if (v == s->entry[x] || v == s->hub[x])
            continue;
        b->order[at++] = v;
        b->parent[v] = s->hub[x];
    }
    return CCL_OK;
}

static ccl_status_t place(shares_t *s, bool up, ccl_error_t *err) {
    ccl_i_packing_t *p = s->p;
    ccl_i_pack_forest_t *f = up ? &p->up : &p->down;
    size_t t = 0;
    CCL_TRY(ccl_i_pack_forest_init(p, up, f, err));
    for (uint32_t r = 0; r < s->n; r++) {
        for (int64_t k = 0; k < s->parts[r]; k++) {
            enter(s, r, k);
            CCL_TRY(place_tree(s, f, r, t++, err));
        }
    }
    return ccl_i_pack_index_trees(p, f, err);
}

ccl_status_t ccl_i_pack_by_parts(ccl_i_packing_t *p, double bound_s, ccl_error_t *err) {
    const ccl_i_cluster_t *c = p->cluster;
    shares_t s;
    double load_s = 0;
    if (p->want->kind != CCL_ALLREDUCE || c->min_gpus != c->max_gpus || c->nservers < 3)
        return ccl_fail(err, CCL_INFEASIBLE, "packing: no servers of as many GPUs");
    ccl_status_t status = shares_init(&s, p, err);
    if (status == CCL_OK)
        status = rate(&s, err);
    if (status == CCL_OK)
        status = weigh(&s, err);
    if (status == CCL_OK)
        status = share(&s, bound_s, &load_s, err);
    for (int up = 0; up < 2 && status == CCL_OK; up++)
        status = place(&s, up == 1, err);
    if (status == CCL_OK) {
        p->bound = bound_s * p->c->unit_Bps * (double)p->total / 2;
        p->seconds = p->bound * load_s / bound_s;
    }
    shares_fini(&s);
    return status;
}
