/*
 * tree: NCCL's double binary tree. Servers are the nodes of two binary trees, each of which has
 * the other's leaves as inner nodes and carries half of the data; inside a server the GPUs form a
 * chain in the ring's order that starts at the GPU that talks to the parent; children are fed by
 * the first GPUs of the chain. Channels start at different GPUs so that all NICs are used.
 * Without servers every GPU is a node. Broadcast and Reduce: both trees hang off the root.
 *
 * Which GPU feeds a child: NCCL's rule (src/graph/connect.cc, connectTrees) is the first GPU of the
 * chain for the first child and the second for the second. On rails that are alike it treats all
 * of them alike, and the simulator then needs to run one. An AllReduce takes it where GPUs of a
 * server reach each other alike and it costs nothing (turns()). Elsewhere the links that the
 * channels before left emptiest are taken.
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

/* GPUs at the beginning of a chain that may feed children: NCCL's; a third finds freer NICs. */
#define NCCL_HEADS 2u
#define MAX_HEADS 3u

typedef struct forest {
    ccl_i_cluster_t *c;
    ccl_i_rings_t rings;
    uint32_t channels, most_channels; /* that it has; that it may have */
    bool nodes_are_gpus;              /* no servers: every GPU is a node */
    bool in_turn;                     /* NCCL's rule for who feeds a child, else by load */
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
    uint32_t most = f->in_turn ? NCCL_HEADS : MAX_HEADS, nheads = gpus < most ? gpus : most;
    uint32_t n = f->cfirst[child + 1] - f->cfirst[child], head = 0;
    uint32_t turn = f->nchildren[parent]++ + by_second, from = heads[turn % nheads];
    double least = INFINITY;
    for (uint32_t i = 0; i < (f->in_turn ? 1 : nheads); i++) {
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
    if (!f->in_turn)
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
    f->most_channels = options->channels ? options->channels : CCL_I_MAX_AUTO_CHANNELS;
    f->chain = ccl_arena_alloc(&c->arena, c->nranks, sizeof *f->chain);
    f->cfirst = ccl_arena_alloc(&c->arena, f->nnodes + (size_t)1, sizeof *f->cfirst);
    f->depth = ccl_arena_alloc(&c->arena, c->nranks, sizeof *f->depth);
    f->queue = ccl_arena_alloc(&c->arena, f->nnodes, sizeof *f->queue);
    f->nchildren = ccl_arena_alloc(&c->arena, f->nnodes, sizeof *f->nchildren);
    f->parent = ccl_arena_alloc(&c->arena, f->nnodes, sizeof *f->parent);
    f->load = ccl_arena_alloc(&c->arena, c->topo->nlinks + (size_t)1, sizeof *f->load);
    f->kept = ccl_arena_alloc(&c->arena, f->most_channels, sizeof *f->kept);
    if (!f->load || !f->kept || !f->chain || !f->cfirst || !f->depth || !f->queue ||
        !f->nchildren || !f->parent)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < c->nranks; r++)
        f->cfirst[node_of(f, r) + 1]++;
    for (uint32_t v = 0; v < f->nnodes; v++)
        f->cfirst[v + 1] += f->cfirst[v];
    return CCL_OK;
}

/* The schedule by one rule, on as many of `channels` as there are blocks for: left in *f. */
static ccl_status_t plan(const ccl_ctx_t *ctx, forest_t *f, const ccl_collective_t *want,
                         const ccl_synth_options_t *options, uint32_t channels,
                         ccl_schedule_t **out, ccl_error_t *err) {
    f->channels = channels;
    memset(f->kept, 0, channels * sizeof *f->kept);
    memset(f->load, 0, f->c->topo->nlinks * sizeof *f->load);
    ccl_i_plan_t plan = {.name = "tree",
                         .parts = channels * (options->chunks ? options->chunks : 1),
                         .root = want->kind == CCL_ALLREDUCE ? root_of : NULL,
                         .tree = tree,
                         .user = f};
    return options->channels ? ccl_i_plan_run(ctx, f->c, want, &plan, out, err)
                             : ccl_i_plan_fit(ctx, f->c, want, &plan, &f->channels, out, err);
}

/* What a schedule of equal chunks asks for. */
typedef struct cost {
    double busiest_s; /* per byte of all chunks, of a link or group */
    uint32_t steps;
    bool alike; /* GPUs of a server send and receive as much to and from other servers */
} cost_t;

static ccl_status_t find_cost(forest_t *f, const ccl_schedule_t *s, cost_t *out, ccl_error_t *err) {
    const ccl_topology_t *topo = f->c->topo;
    uint32_t *crossings = f->depth; /* free between plans */
    *out = (cost_t){.steps = s->nsteps, .alike = true};
    memset(f->load, 0, topo->nlinks * sizeof *f->load);
    memset(crossings, 0, f->c->nranks * sizeof *crossings);
    for (uint32_t t = 0; t < s->ntransfers; t++) {
        const ccl_transfer_t *x = &s->transfers[t];
        const ccl_route_t *route = ccl_i_cluster_route(f->c, x->src, x->dst, x->channel);
        if (!route)
            return ccl_fail_nomem(err);
        for (uint32_t i = 0; i < route->nlinks; i++)
            f->load[route->links[i]]++;
        crossings[x->src] += node_of(f, x->src) != node_of(f, x->dst);
        crossings[x->dst] += node_of(f, x->src) != node_of(f, x->dst);
    }
    for (uint32_t r = 0; r < f->c->nranks; r++)
        out->alike &= crossings[r] == crossings[f->c->ranks[f->c->first[node_of(f, r)]]];
    out->busiest_s = ccl_i_busiest_seconds(topo, f->load) / s->coll->nchunks;
    return CCL_OK;
}

/* Least slice that a chunk meets on its way; 0: no limit. */
static double least_slice(forest_t *f, const ccl_schedule_t *s) {
    const ccl_topology_t *topo = f->c->topo;
    double least = INFINITY;
    for (uint32_t t = 0; t < s->ntransfers; t++) {
        const ccl_transfer_t *x = &s->transfers[t];
        const ccl_route_t *route = ccl_i_cluster_route(f->c, x->src, x->dst, x->channel);
        if (route)
            least = fmin(
                least,
                ccl_model_transport(topo, ccl_model_route_kind(topo, route), "Simple").slice_bytes);
    }
    return isfinite(least) ? least : 0;
}

/*
 * NCCL's rule where it makes rails alike and costs nothing: no busier link, no more steps, no fewer
 * channels. Both trees begin at every GPU of a server as often where an eighth more channels do
 * that. More channels mean larger micro-batches, which go down a tree later; NCCL passes on slice
 * by slice.
 */
static ccl_status_t turns(const ccl_ctx_t *ctx, forest_t *f, const ccl_collective_t *want,
                          const ccl_synth_options_t *options, const cost_t *by_load,
                          ccl_schedule_t **out, ccl_error_t *err) {
    uint32_t round = 2 * f->c->max_gpus, least = f->channels;
    uint32_t channels = (least + round - 1) / round * round;
    ccl_schedule_t *made = NULL;
    ccl_status_t status = CCL_OK;
    cost_t cost;
    f->in_turn = true;
    if (!options->channels && channels <= f->most_channels && 8 * channels <= 9 * least)
        status = plan(ctx, f, want, options, channels, &made, err);
    if (status == CCL_OK && (!made || f->channels < channels)) {
        ccl_schedule_destroy(made);
        made = NULL;
        status = plan(ctx, f, want, options, least, &made, err);
    }
    if (status == CCL_OK)
        status = find_cost(f, made, &cost, err);
    if (status == CCL_OK && cost.alike && f->channels >= least && cost.steps <= by_load->steps &&
        cost.busiest_s <= by_load->busiest_s * (1 + 1e-9)) {
        made->piece_bytes = least_slice(f, made);
        *out = made;
        return CCL_OK;
    }
    ccl_schedule_destroy(made);
    f->in_turn = false;
    f->channels = least;
    return status;
}

/* GPUs of every server reach each other alike: chains may begin at any of them. */
static bool even_inside(const forest_t *f) {
    const ccl_i_cluster_t *c = f->c;
    const ccl_route_t *first = NULL;
    if (c->min_gpus != c->max_gpus)
        return false;
    for (uint32_t a = 0; a < c->nranks; a++) {
        for (uint32_t i = c->first[c->server[a]]; i < c->first[c->server[a] + 1]; i++) {
            const ccl_route_t *route =
                c->ranks[i] == a ? first : ccl_i_cluster_route(f->c, a, c->ranks[i], 0);
            first = first ? first : route;
            if (c->ranks[i] != a && (!route || route->nlinks != first->nlinks ||
                                     route->bottleneck_Bps != first->bottleneck_Bps ||
                                     fabs(route->latency_s - first->latency_s) > 1e-15))
                return false;
        }
    }
    return true;
}

static ccl_status_t choose(const ccl_ctx_t *ctx, forest_t *f, const ccl_collective_t *want,
                           const ccl_synth_options_t *options, ccl_schedule_t **out,
                           ccl_error_t *err) {
    ccl_schedule_t *by_load = NULL, *in_turn = NULL;
    cost_t cost;
    CCL_TRY(plan(ctx, f, want, options, f->channels, &by_load, err));
    /* A root makes rails different whatever the rule, and so do unequal links inside. */
    if (want->kind != CCL_ALLREDUCE || f->nodes_are_gpus || f->nnodes < 2 || !even_inside(f)) {
        *out = by_load;
        return CCL_OK;
    }
    ccl_status_t status = find_cost(f, by_load, &cost, err);
    if (status == CCL_OK)
        status = turns(ctx, f, want, options, &cost, &in_turn, err);
    if (status == CCL_OK && !in_turn) {
        *out = by_load;
        return CCL_OK;
    }
    ccl_schedule_destroy(by_load);
    if (status == CCL_OK)
        *out = in_turn;
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    forest_t forest = {0};
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    ccl_status_t status = init(&forest, ctx, &cluster, options, err);
    if (status == CCL_OK)
        status = choose(ctx, &forest, want, options, out, err);
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "tree: %s over %u %s, %u channel%s",
                       forest.nnodes > 1 ? "double binary tree" : "chains", forest.nnodes,
                       forest.nodes_are_gpus ? "GPUs"
                       : forest.nnodes > 1   ? "servers"
                                             : "server",
                       forest.channels, forest.channels == 1 ? "" : "s");
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
    .few = true,
};
