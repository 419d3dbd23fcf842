/*
 * tree: NCCL's double binary tree. Servers are the nodes of two binary trees, each of which has
 * the other's leaves as inner nodes and carries half of the data; inside a server the GPUs form a
 * chain in the ring's order that starts at the GPU that talks to the parent; children are fed by
 * the first GPUs of the chain. Channels start at different GPUs so that all NICs are used.
 * Without servers every GPU is a node. Broadcast and Reduce: both trees hang off the root.
 */
#include "synth/common/plan.h"
#include "synth/registry.h"

#include <math.h>
#include <string.h>

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    switch (want->kind) {
    case CCL_ALLREDUCE:
    case CCL_BROADCAST:
    case CCL_REDUCE:
        return true;
    default:
        *why = "a tree carries the same data to or from every rank: AllReduce, Broadcast, Reduce";
        return false;
    }
}

/* GPUs at the beginning of a chain that may feed children (NCCL: 2; a third finds freer NICs). */
#define MAX_HEADS 3u

typedef struct forest {
    ccl_i_cluster_t *c;
    ccl_i_rings_t rings;
    uint32_t channels;
    bool nodes_are_gpus; /* no servers: every GPU is a node */
    uint32_t nnodes;
    uint32_t *chain;     /* [nranks] by node: its GPUs, first the one that talks to the parent */
    uint32_t *cfirst;    /* [nnodes + 1] */
    uint32_t *depth;     /* [nranks] step at which a GPU has the chunk */
    uint32_t *queue;     /* [nnodes] */
    uint32_t *nchildren; /* [nnodes] fed so far */
    uint32_t *parent;    /* [nnodes] */
    double *load;        /* [nlinks] flows of the trees so far between servers */
    ccl_i_edge_t **kept; /* [channels] [nranks - 1] a channel's tree once it is made */
} forest_t;

/* Parent in NCCL's binary tree over 0 .. n-1 rooted at 0; CCL_NONE for the root. */
static uint32_t btree_parent(uint32_t n, uint32_t v) {
    if (v == 0)
        return CCL_NONE;
    uint32_t bit = v & (0u - v);
    uint32_t up = (v ^ bit) | (bit << 1);
    return up < n ? up : v ^ bit;
}

/* Second tree: mirrored for even n, shifted by one for odd n. */
static uint32_t dtree_parent(uint32_t n, uint32_t v, bool second) {
    if (!second)
        return btree_parent(n, v);
    if (n % 2 == 0) {
        uint32_t up = btree_parent(n, n - 1 - v);
        return up == CCL_NONE ? CCL_NONE : n - 1 - up;
    }
    uint32_t up = btree_parent(n, (v + n - 1) % n);
    return up == CCL_NONE ? CCL_NONE : (up + 1) % n;
}

static uint32_t node_of(const forest_t *f, uint32_t rank) {
    return f->nodes_are_gpus ? rank : f->c->server[rank];
}

/* Chains of all nodes in the order of the channel's ring; the root first in its own. */
static void make_chains(forest_t *f, uint32_t channel, uint32_t root) {
    const ccl_i_cluster_t *c = f->c;
    uint32_t ring = channel / 2 % f->rings.nrings;
    if (c->nservers == 1 && !f->nodes_are_gpus)
        ring = channel % f->rings.nrings;
    const uint32_t *walk = f->rings.walk[ring];
    uint32_t len = f->rings.len[ring], start = 0;
    /* A segment of the walk per server: begin where one begins, or at the root. */
    if (c->nservers > 1) {
        while (start + 1 < len &&
               c->server[walk[start]] == c->server[walk[(start + len - 1) % len]])
            start++;
    } else if (root != CCL_NONE) {
        while (walk[start] != root)
            start++;
    } else
        start = channel % len; /* the chain's ends differ per channel */
    memset(f->nchildren, 0, f->nnodes * sizeof *f->nchildren);
    for (uint32_t r = 0; r < c->nranks; r++)
        f->depth[r] = CCL_NONE;
    for (int pass = root == CCL_NONE; pass < 2; pass++) {
        for (uint32_t i = 0; i < len; i++) {
            uint32_t rank = walk[(start + i) % len], node = node_of(f, rank);
            if ((pass == 0 && rank != root) || f->depth[rank] != CCL_NONE)
                continue;
            f->chain[f->cfirst[node] + f->nchildren[node]++] = rank;
            f->depth[rank] = 0;
        }
    }
}

static void add_chain(forest_t *f, uint32_t node, uint32_t channel, ccl_i_tree_t *out) {
    for (uint32_t i = f->cfirst[node] + 1; i < f->cfirst[node + 1]; i++) {
        ccl_i_tree_add(out, f->chain[i - 1], f->chain[i], f->depth[f->chain[i - 1]], channel);
        f->depth[f->chain[i]] = f->depth[f->chain[i - 1]] + 1;
    }
}

static void reverse(uint32_t *list, uint32_t n) {
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t rank = list[i];
        list[i] = list[n - 1 - i];
        list[n - 1 - i] = rank;
    }
}

/* Time per byte on the busiest link between two GPUs, both ways, with one flow more. */
static double crowding(const forest_t *f, uint32_t a, uint32_t b, uint32_t channel) {
    double worst = 0;
    for (int back = 0; back < 2; back++) {
        const ccl_route_t *route = ccl_i_cluster_route(f->c, back ? b : a, back ? a : b, channel);
        if (!route)
            return INFINITY;
        for (uint32_t i = 0; i < route->nlinks; i++)
            worst = fmax(worst, (f->load[route->links[i]] + 1) /
                                    f->c->topo->links[route->links[i]].bandwidth_Bps);
    }
    return worst;
}

static void add_load(forest_t *f, uint32_t a, uint32_t b, uint32_t channel) {
    for (int back = 0; back < 2; back++) {
        const ccl_route_t *route = ccl_i_cluster_route(f->c, back ? b : a, back ? a : b, channel);
        for (uint32_t i = 0; route && i < route->nlinks; i++)
            f->load[route->links[i]]++;
    }
}

/* Begin a chain at its place `head`; the order stays the ring's, or is reversed. */
static void turn_chain(uint32_t *chain, uint32_t n, uint32_t head) {
    if (head == n - 1)
        reverse(chain, n);
    else if (head > 0) {
        reverse(chain, head);
        reverse(chain + head, n - head);
        reverse(chain, n);
    }
}

/*
 * From one of the first GPUs of the parent's chain to the child's GPU whose links to it the
 * channels before left emptiest: on rails that is the same rail, elsewhere every NIC in turn. Ties:
 * the parent's GPUs in turn (a root leaves it to the second), the same place, the ring's order.
 */
static void add_child(forest_t *f, uint32_t parent, uint32_t child, bool by_second,
                      uint32_t channel, ccl_i_tree_t *out) {
    const uint32_t *heads = f->chain + f->cfirst[parent];
    uint32_t *chain = f->chain + f->cfirst[child];
    uint32_t gpus = f->cfirst[parent + 1] - f->cfirst[parent];
    uint32_t nheads = gpus < MAX_HEADS ? gpus : MAX_HEADS;
    uint32_t n = f->cfirst[child + 1] - f->cfirst[child], head = 0;
    uint32_t turn = f->nchildren[parent]++ + by_second, from = heads[turn % nheads];
    double least = INFINITY;
    for (uint32_t i = 0; i < nheads; i++) {
        uint32_t a = heads[(turn + i) % nheads];
        for (uint32_t k = 0; k < n; k++) {
            double mine = crowding(f, a, chain[k], channel);
            bool same_place = a == from && f->c->local[chain[k]] == f->c->local[a] &&
                              f->c->local[chain[head]] != f->c->local[a];
            if (mine < least * (1 - 1e-9) || (mine <= least * (1 + 1e-9) && same_place)) {
                least = mine;
                from = a;
                head = k;
            }
        }
    }
    turn_chain(chain, n, head);
    add_load(f, from, chain[0], channel);
    ccl_i_tree_add(out, from, chain[0], f->depth[from], channel);
    f->depth[chain[0]] = f->depth[from] + 1;
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    forest_t *f = user;
    uint32_t channel = want->part % f->channels, n = f->nnodes;
    bool rooted = want->kind != CCL_ALLREDUCE, second = channel % 2;
    ccl_i_edge_t **kept = &f->kept[channel];
    if (*kept) { /* the same tree up and down */
        for (uint32_t i = 0; i + 1 < f->c->nranks; i++)
            ccl_i_tree_add(out, (*kept)[i].src, (*kept)[i].dst, (*kept)[i].step, channel);
        return CCL_OK;
    }
    make_chains(f, channel, rooted ? want->root : CCL_NONE);
    memset(f->nchildren, 0, n * sizeof *f->nchildren);
    /* Rooted: the root's node stands above a tree of the others. */
    uint32_t apart = rooted ? node_of(f, want->root) : CCL_NONE, inner = rooted ? n - 1 : n;
    uint32_t head = 0, tail = 0;
    for (uint32_t v = 0; v < n; v++) {
        uint32_t place = rooted ? (v + n - apart - 1) % n : v; /* the root's place is n - 1 */
        uint32_t up = place < inner ? dtree_parent(inner, place, second) : CCL_NONE;
        if (up == CCL_NONE)
            f->parent[v] = rooted && v != apart ? apart : CCL_NONE;
        else
            f->parent[v] = rooted ? (up + apart + 1) % n : up;
        if (f->parent[v] == CCL_NONE)
            f->queue[tail++] = v;
    }
    f->depth[f->chain[f->cfirst[f->queue[0]]]] = 0;
    while (head < tail) {
        uint32_t node = f->queue[head++];
        add_chain(f, node, channel, out);
        for (uint32_t v = 0; v < n; v++) {
            if (f->parent[v] == node) {
                add_child(f, node, v, node == apart, channel, out);
                f->queue[tail++] = v;
            }
        }
    }
    if (out->nomem || out->len == 0)
        return CCL_OK;
    *kept = ccl_arena_alloc(&f->c->arena, out->len, sizeof **kept);
    if (!*kept)
        return ccl_fail_nomem(err);
    memcpy(*kept, out->edges, out->len * sizeof **kept);
    return f->c->nomem ? ccl_fail_nomem(err) : CCL_OK;
}

static uint32_t root_of(void *user, const ccl_i_want_t *want) {
    forest_t *f = user;
    uint32_t channel = want->part % f->channels;
    if (want->kind == CCL_REDUCE)
        return want->root;
    make_chains(f, channel, CCL_NONE);
    for (uint32_t v = 0; v < f->nnodes; v++) {
        if (dtree_parent(f->nnodes, v, channel % 2) == CCL_NONE)
            return f->chain[f->cfirst[v]];
    }
    return 0;
}

static ccl_status_t init(forest_t *f, const ccl_ctx_t *ctx, ccl_i_cluster_t *c,
                         const ccl_synth_options_t *options, ccl_error_t *err) {
    CCL_TRY(ccl_i_rings_init(ctx, c, CCL_I_MAX_AUTO_CHANNELS, true, &f->rings, err));
    f->c = c;
    f->nodes_are_gpus = c->topo->nservers == 0 && c->full;
    f->nnodes = f->nodes_are_gpus ? c->nranks : c->nservers;
    f->channels = options->channels;
    if (!f->channels) {
        f->channels = c->nservers > 1 || f->nodes_are_gpus ? 2 * f->rings.best : f->rings.best;
        if (f->channels > CCL_I_MAX_AUTO_CHANNELS)
            f->channels = CCL_I_MAX_AUTO_CHANNELS;
    }
    f->chain = ccl_arena_alloc(&c->arena, c->nranks, sizeof *f->chain);
    f->cfirst = ccl_arena_alloc(&c->arena, f->nnodes + (size_t)1, sizeof *f->cfirst);
    f->depth = ccl_arena_alloc(&c->arena, c->nranks, sizeof *f->depth);
    f->queue = ccl_arena_alloc(&c->arena, f->nnodes, sizeof *f->queue);
    f->nchildren = ccl_arena_alloc(&c->arena, f->nnodes, sizeof *f->nchildren);
    f->parent = ccl_arena_alloc(&c->arena, f->nnodes, sizeof *f->parent);
    f->load = ccl_arena_alloc(&c->arena, c->topo->nlinks + (size_t)1, sizeof *f->load);
    f->kept = ccl_arena_alloc(&c->arena, f->channels, sizeof *f->kept);
    if (!f->load || !f->kept || !f->chain || !f->cfirst || !f->depth || !f->queue ||
        !f->nchildren || !f->parent)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < c->nranks; r++)
        f->cfirst[node_of(f, r) + 1]++;
    for (uint32_t v = 0; v < f->nnodes; v++)
        f->cfirst[v + 1] += f->cfirst[v];
    return CCL_OK;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    forest_t forest = {0};
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    ccl_status_t status = init(&forest, ctx, &cluster, options, err);
    if (status == CCL_OK) {
        ccl_i_plan_t plan = {.name = "tree",
                             .parts = forest.channels * (options->chunks ? options->chunks : 1),
                             .root = want->kind == CCL_ALLREDUCE ? root_of : NULL,
                             .tree = tree,
                             .user = &forest};
        status = ccl_i_plan_run(ctx, &cluster, want, &plan, out, err);
        if (status == CCL_OK)
            ccl_origin_set((*out)->origin, "tree: %s over %u %s, %u channel%s",
                           forest.nnodes > 1 ? "double binary tree" : "chains", forest.nnodes,
                           forest.nodes_are_gpus ? "GPUs"
                           : forest.nnodes > 1   ? "servers"
                                                 : "server",
                           forest.channels, forest.channels == 1 ? "" : "s");
    }
    ccl_i_rings_fini(&forest.rings);
    ccl_i_cluster_fini(&cluster);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_tree = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "tree",
    .summary = "double binary tree between servers, chains inside",
    .source = "NCCL 2.4; Sanders, Speck, Traff, Parallel Computing 2009",
    .supports = supports,
    .synthesize = synthesize,
};
