/* A sketch grown from a root: an out-tree over hops. */
#include "synth/sketch/sketch.h"

#include <string.h>

uint32_t ccl_i_space_hop(const ccl_i_space_t *space, uint32_t dimension, uint32_t src, uint32_t dst,
                         uint32_t turn) {
    const ccl_i_exchange_t *x = &space->x;
    uint32_t low = x->out_first[src], high = x->out_first[src + 1], n = 0;

    if (space->hop_at) {
        low = high = space->hop_at[(size_t)src * space->topo->nranks + dst];
        if (low == CCL_NONE)
            return CCL_NONE;
    }
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (x->hops[mid].dst < dst)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == x->out_first[src + 1] || x->hops[low].dst != dst ||
        (dimension != CCL_NONE && !(space->dimensions[low] >> dimension & 1)))
        return CCL_NONE;
    while (low + n < x->out_first[src + 1] && x->hops[low + n].dst == dst)
        n++;
    return n == 1 ? low : low + turn % n;
}

bool ccl_i_space_shapes(const ccl_i_space_t *space, ccl_i_shape_t net, uint8_t *shapes) {
    bool some = false;

    for (uint32_t d = 0; d < space->ndimensions; d++) {
        const ccl_dimension_t *dim = &space->symmetry->dimensions[space->dimension[d]];
        bool wide = strcmp(dim->kind, "net") == 0 && dim->max_gpus > 2;

        shapes[d] = (uint8_t)(wide ? net : CCL_I_SHAPE_DIRECT);
        some |= wide;
    }
    return some;
}

ccl_status_t ccl_i_grower_init(ccl_i_grower_t *g, const ccl_i_space_t *space, ccl_error_t *err) {
    size_t n = space->topo->nranks;

    memset(g, 0, sizeof *g);
    g->space = space;
    ccl_arena_init(&g->arena);
    g->got = ccl_arena_alloc(&g->arena, n, sizeof *g->got);
    g->parent = ccl_arena_alloc(&g->arena, n, sizeof *g->parent);
    g->via = ccl_arena_alloc(&g->arena, n, sizeof *g->via);
    g->step = ccl_arena_alloc(&g->arena, n, sizeof *g->step);
    g->order = ccl_arena_alloc(&g->arena, n, sizeof *g->order);
    g->used = ccl_arena_alloc(&g->arena, n, sizeof *g->used);
    g->sends = ccl_arena_alloc(&g->arena, n * (space->ndimensions + (size_t)1), sizeof *g->sends);
    g->list = ccl_arena_alloc(&g->arena, 2 * n, sizeof *g->list);
    g->heads = ccl_arena_alloc(&g->arena, n, sizeof *g->heads);
    if (g->heads && g->got && g->parent && g->via && g->step && g->order && g->used && g->sends &&
        g->list)
        return CCL_OK;
    ccl_arena_fini(&g->arena);
    return ccl_fail_nomem(err);
}

void ccl_i_grower_fini(ccl_i_grower_t *g) {
    ccl_arena_fini(&g->arena);
}

static void reach(ccl_i_grower_t *g, uint32_t src, uint32_t dst, uint32_t hop, uint32_t step) {
    /* A sub-demand's tree may go on from what another group reached in the same stage. */
    if (g->got[src] != 1 && step <= g->step[src])
        step = g->step[src] + 1;
    g->got[dst] = g->stage + 2;
    g->parent[dst] = src;
    g->via[dst] = hop;
    g->step[dst] = step;
    g->used[src]++;
    g->sends[(size_t)g->dimension * g->space->topo->nranks + src]++;
    g->order[g->norder++] = dst;
}

/* Who serves whom in a group. */
typedef struct serving {
    const uint32_t *ranks;         /* [n] of the group, steps of a round */
    uint32_t *sources, *receivers; /* room for all ranks in sources */
    uint32_t n, ns, nr;
    uint32_t start; /* receivers are served from this one on */
    bool flood;     /* in rounds: those that have it by then serve, too */
} serving_t;

/* Of the group's sources the one that hands on least in this dimension so far and has a hop to dst;
   in a line the newest holder before that. */
static uint32_t best_source(ccl_i_grower_t *g, const serving_t *s, uint32_t dst,
                            uint32_t *hop_out) {
    const uint32_t turn = g->space->topo->rank_local_index[dst] + g->turn, n = s->ns;
    const uint32_t *sends = g->sends + (size_t)g->dimension * g->space->topo->nranks;
    uint32_t best = CCL_NONE;

    for (uint32_t i = 0, at = n ? turn % n : 0; i < n; i++, at = at + 1 < n ? at + 1 : 0) {
        uint32_t src = s->sources[at], hop;

        if (best != CCL_NONE && !(g->line && g->got[src] > g->got[best]) &&
            ((g->line && g->got[src] != g->got[best]) || sends[src] >= sends[best]))
            continue;
        hop = ccl_i_space_hop(g->space, g->dimension, src, dst, turn);
        if (hop == CCL_NONE)
            continue;
        best = src;
        *hop_out = hop;
    }
    return best;
}

/* In rank order from the source on, in chains of `length`; false when a hop is missing (nothing was
   done then). */
static bool grow_chain(ccl_i_grower_t *g, const serving_t *s, uint32_t length, uint32_t step) {
    uint32_t source = s->sources[0], at = source;

    for (uint32_t i = 0; i < s->nr; i++) {
        uint32_t next = s->receivers[(s->start + i) % s->nr];

        at = i % length ? at : source;
        if (ccl_i_space_hop(g->space, g->dimension, at, next, g->turn) == CCL_NONE)
            return false;
        at = next;
    }
    at = source;
    for (uint32_t i = 0; i < s->nr; i++) {
        uint32_t next = s->receivers[(s->start + i) % s->nr];

        at = i % length ? at : source;
        reach(g, at, next, ccl_i_space_hop(g->space, g->dimension, at, next, g->turn),
              step + i / length + i % length);
        at = next;
    }
    return true;
}

static uint32_t server_of(const ccl_i_grower_t *g, uint32_t rank) {
    const ccl_topology_t *topo = g->space->topo;

    return topo->devices[topo->rank_device[rank]].server;
}

/* Every source one receiver: of the GPUs after it, in another server its own place there. */
static void grow_one(ccl_i_grower_t *g, const serving_t *s, uint32_t step) {
    const uint32_t *receivers = s->receivers, nr = s->nr;

    for (uint32_t j = 0; j < s->ns; j++) {
        uint32_t src = s->sources[j], first = 0, skipped = 0, hop = CCL_NONE;

        while (first < nr && receivers[first] < src)
            first++;
        while (skipped < nr && ccl_i_space_hop(g->space, g->dimension, src,
                                               receivers[(first + skipped) % nr], 0) == CCL_NONE)
            skipped++;
        first += skipped;
        if (server_of(g, receivers[first % nr]) != server_of(g, src)) {
            for (uint32_t i = 0; i < s->n && s->ranks[i] != src; i++)
                first += server_of(g, s->ranks[i]) == server_of(g, src);
        }
        for (uint32_t i = 0; i < nr && hop == CCL_NONE; i++) {
            uint32_t dst = receivers[(first + g->turn + i) % nr];

            hop =
                g->got[dst] ? CCL_NONE : ccl_i_space_hop(g->space, g->dimension, src, dst, g->turn);
            if (hop != CCL_NONE)
                reach(g, src, dst, hop, step);
        }
    }
}

/* Chains of different ports take different ones of equal routes: the model counts these by local
   index and channel. The product is the index taken away, modulo any number up to 16. */
static uint32_t port_turn(const ccl_i_grower_t *g, uint32_t port) {
    const ccl_topology_t *topo = g->space->topo;
    uint32_t number = 0;

    for (uint32_t r = 0; r < port; r++)
        number += server_of(g, r) == server_of(g, port) && g->space->port[r] == r;
    return number + topo->rank_local_index[port] * (720720 - 1);
}

/* The holder that chains start from: the port of the only one, which gets it first. */
static uint32_t chain_start(ccl_i_grower_t *g, uint32_t source, uint32_t *step) {
    uint32_t port = g->space->port ? g->space->port[source] : source, hop;

    if (g->got[port])
        return port;
    hop = ccl_i_space_hop(g->space, CCL_NONE, source, port, 0);
    if (hop == CCL_NONE)
        return source;
    reach(g, source, port, hop, (*step)++);
    return port;
}

/*
 * One GPU in every group of the nearest dimension that has none yet, by turns which. In a line the
 * newest holder hands on to the first, that one to the next; in a tree each to two; in chains the
 * only holder to the first of each.
 * @param length  of chains; 0: every holder hands on itself
 */
static void grow_each(ccl_i_grower_t *g, const serving_t *s, uint32_t length, uint32_t step) {
    const uint32_t *sources = s->sources, *receivers = s->receivers, ns = s->ns, nr = s->nr;
    const ccl_dimension_t *near = &g->space->symmetry->dimensions[g->space->dimension[0]];
    const ccl_topology_t *topo = g->space->topo;
    bool chain = length > 0 && ns == 1 && !g->line;
    uint32_t newest = chain ? chain_start(g, sources[0], &step) : sources[0];
    uint32_t head = newest, start = 0, place, reached = 0;

    for (uint32_t i = 1; i < ns && g->line; i++)
        newest = g->got[sources[i]] > g->got[newest] ? sources[i] : newest;
    if (g->line && g->got[newest] != g->stage + 1)
        return; /* another group's GPUs are newer: theirs to do */
    while (start < nr && receivers[start] < newest)
        start++;
    g->heads[0] = newest;
    place = topo->rank_local_index[newest] + (g->line || chain ? 0 : g->turn);
    for (uint32_t i = 0; i < nr; i++) {
        uint32_t dst = receivers[(start + i) % nr], home = near->group_of[dst];
        uint32_t first = 0, n = 0, hop = CCL_NONE, src;
        bool held = g->got[dst] != 0;

        if (home != CCL_NONE) {
            first = near->first[home];
            n = near->first[home + 1] - first;
            for (uint32_t k = 0; k < n; k++)
                held |= g->got[near->ranks[first + k]] != 0;
        }
        if (held)
            continue;
        /* The GPU in its place there, or the next one that a hop leads to. */
        for (uint32_t k = 0; k < (n ? n : 1) && hop == CCL_NONE; k++) {
            uint32_t at = n ? near->ranks[first + (place + k) % n] : dst;

            src = g->line || chain ? newest : CCL_NONE;
            if (chain && reached % length == 0)
                src = head;
            if (g->line && g->tree)
                src = g->heads[reached / 2];
            if (src != CCL_NONE) /* a chain goes on in any dimension */
                hop = ccl_i_space_hop(g->space, chain ? CCL_NONE : g->dimension, src, at,
                                      chain && g->space->port ? port_turn(g, head) : g->turn);
            if (hop == CCL_NONE)
                src = best_source(g, s, at, &hop);
            if (src == CCL_NONE)
                continue;
            reach(g, src, at, hop, step + i);
            newest = at;
            g->heads[++reached] = at;
        }
    }
}

/* Groups of the nearest dimension. */
static uint32_t servers_of(const ccl_i_grower_t *g) {
    uint32_t n = g->space->symmetry->dimensions[g->space->dimension[0]].ngroups;

    return n > 1 ? n : 2;
}

/* As a solved sub-demand says, along the tree of the group's first holder. */
static void grow_sub(ccl_i_grower_t *g, const ccl_i_sub_t *sub, uint32_t source, uint32_t step) {
    uint32_t from = sub->place[source], variant = g->turn % sub->variants;
    size_t base = ((size_t)from * sub->variants + variant) * sub->n;
    bool more = true;

    while (more) {
        more = false;
        for (uint32_t i = 0; i < sub->n; i++) {
            uint32_t parent = sub->parent[base + i], dst = sub->rank[i];

            if (parent == CCL_NONE || g->got[dst] || !g->got[sub->rank[parent]])
                continue;
            reach(g, sub->rank[parent], dst, sub->via[base + i], step + sub->step[base + i]);
            more = true;
        }
    }
}

/* From holders where a hop leads there, else from those that have it by then. */
static void grow_rounds(ccl_i_grower_t *g, serving_t *s, uint32_t step) {
    uint32_t left = s->nr;

    for (uint32_t round = 0; left; round++) {
        uint32_t before = left, holders = s->ns;

        for (uint32_t i = 0; i < s->nr; i++) {
            uint32_t hop = CCL_NONE, dst = s->receivers[(s->start + i) % s->nr], src;

            if (g->got[dst])
                continue;
            src = best_source(g, s, dst, &hop);
            if (src == CCL_NONE)
                continue;
            reach(g, src, dst, hop, step + round * s->n + i);
            left--;
        }
        if (left == before || !s->flood)
            return; /* another dimension's business */
        for (uint32_t i = 0; i < s->nr; i++) {
            uint32_t rank = s->receivers[i];

            if (g->got[rank] == g->stage + 2 && g->step[rank] >= step + round * s->n &&
                holders < g->space->topo->nranks)
                s->sources[holders++] = rank;
        }
        s->ns = holders;
    }
}

static void grow_group(ccl_i_grower_t *g, const uint32_t *ranks, uint32_t n, ccl_i_reach_t how,
                       const ccl_i_sub_t *sub, ccl_i_shape_t shape, uint32_t step) {
    serving_t s = {.ranks = ranks,
                   .sources = g->list,
                   .receivers = g->list + g->space->topo->nranks,
                   .n = n,
                   .flood = how == CCL_I_REACH_FLOOD};

    for (uint32_t i = 0; i < n; i++) {
        uint32_t got = g->got[ranks[i]];

        if (got && got < g->stage + 2)
            s.sources[s.ns++] = ranks[i];
        else if (!got)
            s.receivers[s.nr++] = ranks[i];
    }
    if (s.ns == 0 || s.nr == 0)
        return;
    if (sub) {
        grow_sub(g, sub, s.sources[0], step);
        return;
    }
    /* Receivers are served in rank order from the one after the first source on, so that
       different roots serve different GPUs first. */
    while (s.start < s.nr && s.receivers[s.start] < s.sources[0])
        s.start++;
    if (how == CCL_I_REACH_ONE) {
        grow_one(g, &s, step);
        return;
    }
    if (how == CCL_I_REACH_EACH) {
        grow_each(g, &s,
                  shape == CCL_I_SHAPE_DIRECT ? 0 : ccl_i_chain_length(shape, servers_of(g) - 1),
                  step);
        return;
    }
    if (shape != CCL_I_SHAPE_DIRECT && s.ns == 1 &&
        grow_chain(g, &s, ccl_i_chain_length(shape, s.nr), step))
        return;
    grow_rounds(g, &s, step);
}

bool ccl_i_grow(ccl_i_grower_t *g, const ccl_i_sketch_t *sketch, const uint8_t *shapes,
                uint32_t root, uint32_t rotation) {
    const ccl_i_space_t *s = g->space;
    uint32_t nranks = s->topo->nranks, width = 0;

    memset(g->got, 0, nranks * sizeof *g->got);
    memset(g->used, 0, nranks * sizeof *g->used);
    memset(g->sends, 0, (size_t)nranks * s->ndimensions * sizeof *g->sends);
    g->norder = 0;
    g->turn = rotation;
    g->line = sketch->line;
    g->tree = sketch->tree;
    g->got[root] = 1;
    g->order[g->norder++] = root;
    for (uint32_t d = 0; d < s->ndimensions; d++) {
        const ccl_dimension_t *dim = &s->symmetry->dimensions[s->dimension[d]];

        width = dim->max_gpus > width ? dim->max_gpus : width;
    }
    width *= width > 16 ? 4 : 8; /* rounds of a group without all hops */
    width = sketch->sub_steps > width ? sketch->sub_steps : width;
    for (uint32_t k = 0; k < sketch->nstages && g->norder < nranks; k++) {
        g->stage = k;
        for (uint32_t d = 0; d < s->ndimensions; d++) {
            const ccl_dimension_t *dim = &s->symmetry->dimensions[s->dimension[d]];
            const uint8_t *how = sketch->reach + (size_t)k * s->ngroups + s->first_group[d];

            for (uint32_t i = 0; i < dim->ngroups; i++) {
                const ccl_i_sub_t *sub =
                    sketch->sub ? sketch->sub[(size_t)k * s->ngroups + s->first_group[d] + i]
                                : NULL;

                g->dimension = d;
                if (how[i] != CCL_I_REACH_NONE)
                    grow_group(g, dim->ranks + dim->first[i], dim->first[i + 1] - dim->first[i],
                               (ccl_i_reach_t)how[i], sub,
                               shapes ? (ccl_i_shape_t)shapes[d] : CCL_I_SHAPE_DIRECT, k * width);
            }
        }
    }
    return g->norder == nranks;
}

void ccl_i_grower_measure(const ccl_i_grower_t *g, uint32_t *relays, double *depth_s) {
    const ccl_i_exchange_t *x = &g->space->x;
    double worst_s = 0;
    uint32_t deepest = 0;

    for (uint32_t i = 1; i < g->norder; i++) {
        double s = 0;
        uint32_t stages = 0;

        for (uint32_t r = g->order[i]; g->got[r] != 1; r = g->parent[r]) {
            s += x->hops[g->via[r]].alpha_s;
            stages += g->got[r] != g->got[g->parent[r]];
        }
        worst_s = s > worst_s ? s : worst_s;
        deepest = stages > deepest ? stages : deepest;
    }
    *relays = deepest ? deepest - 1 : 0;
    *depth_s = worst_s;
}
