/*
 * Spanning out-trees in a network of GPUs (Edmonds 1973), grown edge by edge in batches of equal
 * trees (Berczi, Frank 2010; ForestColl, arXiv 2402.06787): an edge may join as long as what is
 * left still carries all other trees, which one maximum flow from the edge's tail to its head
 * decides. A batch splits where an edge carries a part of it only.
 */
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

typedef struct batch {
    ccl_i_pack_batch_t out;
    uint32_t joined; /* ranks in it */
    uint8_t *inside; /* [n] */
} batch_t;

typedef struct grower {
    const ccl_i_pack_net_t *net;
    uint32_t n;
    uint32_t nedges;
    uint32_t *src, *dst, *first; /* edges by src; [n + 1] */
    int64_t *left;               /* [nedges] trees still free */
    batch_t *batches;
    size_t nbatches, cap_batches;
    uint8_t *seen; /* [nedges] */
    ccl_maxflow_t *flow;
    int64_t *waiting; /* [n] trees not begun, by root */
    int64_t others;   /* trees behind the batch in hand */
    ccl_arena_t *arena;
} grower_t;

static bool new_batch(grower_t *g, size_t now, uint32_t root, int64_t trees, const batch_t *like) {
    if (!ccl_grow(&g->batches, &g->cap_batches, g->nbatches + 2, sizeof *g->batches))
        return false;
    batch_t b = {.out = {.root = root, .trees = trees}, .joined = 1};
    b.out.order = ccl_arena_alloc(g->arena, g->n, sizeof *b.out.order);
    b.out.parent = ccl_arena_alloc(g->arena, g->n, sizeof *b.out.parent);
    b.inside = ccl_arena_alloc(g->arena, g->n, 1);
    if (!b.out.order || !b.out.parent || !b.inside)
        return false;
    b.out.order[0] = root;
    b.out.parent[root] = CCL_NONE;
    b.inside[root] = 1;
    if (like) {
        b.joined = like->joined;
        memcpy(b.out.order, like->out.order, g->n * sizeof *b.out.order);
        memcpy(b.out.parent, like->out.parent, g->n * sizeof *b.out.parent);
        memcpy(b.inside, like->inside, g->n);
    }
    /* What is begun goes on first: few batches begun keep the network small. */
    g->batches[g->nbatches] = b;
    if (like) {
        g->batches[g->nbatches] = g->batches[now + 1];
        g->batches[now + 1] = b;
    }
    g->nbatches++;
    return true;
}

/*
 * The network of what is left and of all trees behind batch `now`: a source with, for each of them,
 * a way to all that it has reached. False: out of memory.
 */
static bool build(grower_t *g, size_t now) {
    uint32_t begun = 0, source = g->n;
    for (size_t i = now + 1; i < g->nbatches; i++)
        begun += g->batches[i].joined > 1;
    ccl_maxflow_destroy(g->flow);
    ccl_maxflow_t *f = g->flow = ccl_maxflow_create(g->n + 1 + begun);
    bool ok = f != NULL;
    g->others = 0;
    memset(g->waiting, 0, g->n * sizeof *g->waiting);
    for (size_t i = now + 1; i < g->nbatches; i++) {
        g->others += g->batches[i].out.trees;
        if (g->batches[i].joined == 1)
            g->waiting[g->batches[i].out.root] += g->batches[i].out.trees;
    }
    for (uint32_t k = 0; ok && k < g->nedges; k++)
        ok = ccl_maxflow_arc(f, g->src[k], g->dst[k], g->left[k]) != CCL_NONE;
    for (uint32_t r = 0; ok && r < g->n; r++) /* and as much as one likes from the edge's tail */
        ok = ccl_maxflow_arc(f, source, r, g->waiting[r]) != CCL_NONE;
    uint32_t vertex = g->n + 1;
    for (size_t i = now + 1; ok && i < g->nbatches; i++) {
        const batch_t *b = &g->batches[i];
        if (b->joined == 1)
            continue;
        ok = ccl_maxflow_arc(f, source, vertex, b->out.trees) != CCL_NONE;
        for (uint32_t k = 0; ok && k < b->joined; k++)
            ok = ccl_maxflow_arc(f, vertex, b->out.order[k], b->out.trees) != CCL_NONE;
        vertex++;
    }
    return ok;
}

/*
 * How many of batch `now`'s trees may take edge e: all other trees must still get from x to y, over
 * what is left and, for each of them, from x to all that it has reached.
 */
static int64_t room(grower_t *g, size_t now, uint32_t e) {
    uint32_t x = g->src[e], y = g->dst[e];
    int64_t m = g->batches[now].out.trees;
    int64_t most = g->left[e] < m ? g->left[e] : m;
    ccl_maxflow_reset(g->flow);
    ccl_maxflow_capacity(g->flow, g->nedges + x, g->others + most);
    int64_t got = ccl_maxflow_run(g->flow, g->n, y, g->others + most);
    ccl_maxflow_reset(g->flow);
    ccl_maxflow_capacity(g->flow, g->nedges + x, g->waiting[x]);
    int64_t room = got - g->others;
    return room < 0 ? 0 : room > most ? most : room;
}

/* Grow batch `now` to all ranks; parts of it that must go another way become batches behind. */
static ccl_status_t grow(const ccl_ctx_t *ctx, grower_t *g, size_t now, ccl_error_t *err) {
    memset(g->seen, 0, g->nedges);
    if (!build(g, now))
        return ccl_fail_nomem(err);
    while (g->batches[now].joined < g->n) {
        bool found = false;
        CCL_TRY(ccl_ctx_poll(ctx, NULL));
        /* The ranks nearest to the root first, so that trees stay low. */
        for (int again = 0; again < 2 && !found; again++) {
            for (uint32_t i = 0; i < g->batches[now].joined && !found; i++) {
                uint32_t x = g->batches[now].out.order[i];
                for (uint32_t e = g->first[x]; e < g->first[x + 1] && !found; e++) {
                    batch_t *b = &g->batches[now];
                    uint32_t y = g->dst[e];
                    if (b->inside[y] || g->left[e] == 0 || (again == 0 && g->seen[e]))
                        continue;
                    int64_t trees = room(g, now, e);
                    g->seen[e] = trees == 0; /* until nothing else is left */
                    if (trees == 0)
                        continue;
                    if (trees < b->out.trees) {
                        batch_t like = *b; /* the array may move */
                        g->batches[now].out.trees = trees;
                        if (!new_batch(g, now, like.out.root, like.out.trees - trees, &like) ||
                            !build(g, now))
                            return ccl_fail_nomem(err);
                        b = &g->batches[now];
                    }
                    g->left[e] -= trees;
                    ccl_maxflow_capacity(g->flow, e, g->left[e]);
                    b->out.parent[y] = x;
                    b->out.order[b->joined++] = y;
                    b->inside[y] = 1;
                    found = true;
                }
            }
        }
        if (!found)
            return ccl_fail(err, CCL_INFEASIBLE, "packing: no tree of rank %u goes on from rank %u",
                            g->batches[now].out.root,
                            g->batches[now].out.order[g->batches[now].joined - 1]);
    }
    return CCL_OK;
}

static int widest_first(const void *a, const void *b) {
    const ccl_i_pack_piece_t *x = a, *y = b;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->trees != y->trees)
        return x->trees > y->trees ? -1 : 1;
    return x->dst < y->dst ? -1 : x->dst > y->dst;
}

/* Pairs, whatever the channel, by source; wide ones first, then as far behind the source. */
static bool edges_of(grower_t *g, const ccl_i_pack_net_t *net) {
    ccl_i_pack_piece_t *pairs = ccl_arena_alloc(g->arena, net->npieces + 1, sizeof *pairs);
    uint32_t n = 0;
    if (!pairs)
        return false;
    for (size_t i = 0; i < net->npieces; i++) {
        const ccl_i_pack_piece_t *p = &net->pieces[i];
        if (n > 0 && pairs[n - 1].src == p->src && pairs[n - 1].dst == p->dst)
            pairs[n - 1].trees += p->trees;
        else
            pairs[n++] = *p;
    }
    if (n > 1)
        qsort(pairs, n, sizeof *pairs, widest_first);
    g->nedges = n;
    g->src = ccl_arena_alloc(g->arena, n + (size_t)1, sizeof *g->src);
    g->dst = ccl_arena_alloc(g->arena, n + (size_t)1, sizeof *g->dst);
    g->left = ccl_arena_alloc(g->arena, n + (size_t)1, sizeof *g->left);
    g->seen = ccl_arena_alloc(g->arena, n + (size_t)1, 1);
    g->waiting = ccl_arena_alloc(g->arena, g->n, sizeof *g->waiting);
    g->first = ccl_arena_alloc(g->arena, g->n + (size_t)2, sizeof *g->first);
    if (!g->src || !g->dst || !g->left || !g->seen || !g->waiting || !g->first)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        g->src[i] = pairs[i].src;
        g->dst[i] = pairs[i].dst;
        g->left[i] = pairs[i].trees;
        g->first[pairs[i].src + 1]++;
    }
    for (uint32_t r = 0; r < g->n; r++)
        g->first[r + 1] += g->first[r];
    return true;
}

ccl_status_t ccl_i_pack_grow(const ccl_ctx_t *ctx, const ccl_i_pack_net_t *net,
                             const int64_t *roots, ccl_i_pack_trees_t *out, ccl_error_t *err) {
    grower_t g = {.net = net, .n = net->nranks, .arena = &out->arena};
    ccl_status_t status = CCL_OK;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    if (!edges_of(&g, net)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < g.n; r++) {
        if (roots[r] > 0 && !new_batch(&g, 0, r, roots[r], NULL)) {
            status = ccl_fail_nomem(err);
            goto end;
        }
    }
    for (size_t i = 0; i < g.nbatches; i++)
        CCL_TRY_GOTO(grow(ctx, &g, i, err), status, end);
    out->batches = ccl_arena_alloc(&out->arena, g.nbatches + 1, sizeof *out->batches);
    if (!out->batches) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (size_t i = 0; i < g.nbatches; i++)
        out->batches[i] = g.batches[i].out;
    out->nbatches = g.nbatches;
end:
    ccl_maxflow_destroy(g.flow);
    free(g.batches);
    if (status != CCL_OK)
        ccl_i_pack_trees_fini(out);
    return status;
}

void ccl_i_pack_trees_fini(ccl_i_pack_trees_t *trees) {
    ccl_arena_fini(&trees->arena);
    memset(trees, 0, sizeof *trees);
}
