/*
 * Compositions: every chunk along the trees of pods and rails. Times of moves only order them:
 * along rails 0 to 1 as the rail's steps go, inside pods a pod's share of that behind whatever
 * brought the chunk. From one root chunks follow each other, each as long as its part of the whole.
 */
#include "synth/compose/compose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A chunk on its way. */
typedef struct chunk {
    uint32_t number, variant;
    uint32_t owner;       /* rank */
    uint32_t rail;        /* place by whose rail on it leaves the pod of its owner */
    uint32_t root;        /* from one root: rank that has it as well; else CCL_NONE */
    double from;          /* when it starts from its owner */
    double rail_s, pod_s; /* how long all of a rail, of a pod's schedule, is */
} chunk_t;

static ccl_status_t add_move(ccl_i_composer_t *c, ccl_i_move_t move, ccl_error_t *err) {
    if (!ccl_grow(&c->moves, &c->cap, c->nmoves + 1, sizeof *c->moves))
        return ccl_fail_nomem(err);
    c->moves[c->nmoves++] = move;
    return CCL_OK;
}

static void clear_arrivals(ccl_i_composer_t *c) {
    for (uint32_t i = 0; i < c->pods.most; i++)
        c->arrived[i] = INFINITY;
}

static double *at_head(ccl_i_composer_t *c, uint32_t pod, uint32_t place) {
    return &c->at_head[(size_t)pod * c->pods.most + place];
}

/* The pod's tree of `place` behind what has arrived; who has the chunk already is left out. */
static ccl_status_t in_pod(ccl_i_composer_t *c, const chunk_t *chunk, uint32_t pod, uint32_t place,
                           ccl_error_t *err) {
    const ccl_i_part_trees_t *t;
    CCL_TRY(ccl_i_compose_trees(c, c->pods.kind[pod], false, c->how.pod, &t, err));
    uint32_t tree = place * t->parts + ccl_i_compose_tree(t, chunk->variant);
    double from = c->arrived[place];
    for (uint32_t i = t->first[tree]; i < t->first[tree + 1]; i++) {
        const ccl_i_part_hop_t *h = &t->hops[i];
        if (c->arrived[h->dst] < INFINITY)
            continue;
        double start = fmax(c->arrived[h->src], from + h->at * chunk->pod_s);
        double arrive = start + (h->until - h->at) * chunk->pod_s;
        c->arrived[h->dst] = arrive;
        uint32_t src = ccl_i_pod_rank(&c->pods, pod, h->src);
        uint32_t dst = ccl_i_pod_rank(&c->pods, pod, h->dst);
        CCL_TRY(
            add_move(c, (ccl_i_move_t){src, dst, chunk->number, h->channel, start, arrive}, err));
    }
    return CCL_OK;
}

/* Along the rail of `place` from its GPU in `pod`, where the chunk is at `from`. */
static ccl_status_t on_rail(ccl_i_composer_t *c, const chunk_t *chunk, uint32_t pod, uint32_t place,
                            uint32_t variant, double from, ccl_error_t *err) {
    const ccl_i_part_trees_t *t;
    uint32_t kind = c->pods.kind[pod], np = ccl_i_kind_size(&c->pods, kind);
    uint32_t self = c->pods.index[pod];
    CCL_TRY(ccl_i_compose_trees(c, kind, true, c->how.rail, &t, err));
    /* From one root, trees from the first pod; pods are alike, so turned on to this one. */
    bool turn = chunk->root != CCL_NONE && c->how.rail != CCL_I_PART_PLAIN;
    uint32_t tree = ccl_i_compose_tree(t, variant) + (turn ? 0 : self * t->parts);
    uint32_t by = turn ? self : 0;
    *at_head(c, pod, place) = from;
    for (uint32_t i = t->first[tree]; i < t->first[tree + 1]; i++) {
        const ccl_i_part_hop_t *h = &t->hops[i];
        uint32_t src = ccl_i_kind_pod(&c->pods, kind, (h->src + by) % np);
        uint32_t dst = ccl_i_kind_pod(&c->pods, kind, (h->dst + by) % np);
        double step = chunk->root == CCL_NONE ? chunk->rail_s : chunk->rail_s * t->nsteps;
        double start = fmax(*at_head(c, src, place), from + h->at * step);
        double arrive = start + (h->until - h->at) * step;
        *at_head(c, dst, place) = arrive;
        c->sent[src]++;
        ccl_i_move_t move = {ccl_i_pod_rank(&c->pods, src, place),
                             ccl_i_pod_rank(&c->pods, dst, place),
                             chunk->number,
                             h->channel,
                             start,
                             arrive};
        if (move.dst != chunk->root)
            CCL_TRY(add_move(c, move, err));
    }
    return CCL_OK;
}

/* What has arrived in `pod`, at c->arrived, to all pods of its kind over rails from `place` on. */
static ccl_status_t to_kind(ccl_i_composer_t *c, const chunk_t *chunk, uint32_t pod, uint32_t place,
                            ccl_error_t *err) {
    uint32_t kind = c->pods.kind[pod], g = ccl_i_pod_size(&c->pods, pod);
    uint32_t heads = (c->kinds[kind].heads + chunk->variant) / c->variants; /* sums up to heads */
    for (uint32_t k = 0; k < heads; k++) {
        uint32_t head = (place + k) % g;
        CCL_TRY(on_rail(c, chunk, pod, head, chunk->variant + k, c->arrived[head], err));
    }
    for (uint32_t i = 0; i < ccl_i_kind_size(&c->pods, kind); i++) {
        uint32_t q = ccl_i_kind_pod(&c->pods, kind, i);
        if (q == pod)
            continue;
        clear_arrivals(c);
        for (uint32_t k = 0; k < heads; k++)
            c->arrived[(place + k) % g] = *at_head(c, q, (place + k) % g);
        CCL_TRY(in_pod(c, chunk, q, place, err));
    }
    return CCL_OK;
}

static bool reaches(const ccl_i_composer_t *c, uint32_t a, uint32_t b) {
    return ccl_routes_width(c->routes, a, b) > 0 && ccl_routes_width(c->routes, b, a) > 0;
}

/* Who sends a chunk to other kinds of pods, once it has been to all of its own: its owner; from one
   root, whose pod's links out are what limits, the pod that has sent least. */
static uint32_t sender_of(ccl_i_composer_t *c, const chunk_t *chunk, double *from) {
    uint32_t p = c->pods.pod[chunk->owner], kind = c->pods.kind[p], best = CCL_NONE;
    *from = chunk->from;
    if (chunk->root == CCL_NONE || ccl_i_kind_size(&c->pods, kind) == 1)
        return chunk->owner;
    for (uint32_t i = 0; i < ccl_i_kind_size(&c->pods, kind); i++) {
        uint32_t q = ccl_i_kind_pod(&c->pods, kind, i);
        if (q != p && (best == CCL_NONE || c->sent[q] < c->sent[best]))
            best = q;
    }
    *from = *at_head(c, best, chunk->rail);
    return ccl_i_pod_rank(&c->pods, best, chunk->rail);
}

/* Into one pod of another kind, in proportion to where the sender's is, at the place that was
   entered least; on from there. */
static ccl_status_t to_other_kind(ccl_i_composer_t *c, const chunk_t *chunk, uint32_t src,
                                  double from, uint32_t kind, ccl_error_t *err) {
    uint32_t p = c->pods.pod[src], own = c->pods.kind[p], best = CCL_NONE;
    uint32_t g = ccl_i_pod_size(&c->pods, p), np = ccl_i_kind_size(&c->pods, kind);
    uint64_t at = (uint64_t)c->pods.index[p] * g + c->pods.place[src];
    uint64_t all = (uint64_t)ccl_i_kind_size(&c->pods, own) * g;
    uint32_t q = ccl_i_kind_pod(&c->pods, kind, (uint32_t)(at * np / all));
    uint32_t first = ccl_i_kind_pod(&c->pods, kind, 0);
    for (uint32_t i = 0; i < ccl_i_pod_size(&c->pods, q); i++) {
        /* Counted at the first pod: rails are to be entered alike, not GPUs. */
        if (reaches(c, src, ccl_i_pod_rank(&c->pods, q, i)) &&
            (best == CCL_NONE || c->entered[ccl_i_pod_rank(&c->pods, first, i)] <
                                     c->entered[ccl_i_pod_rank(&c->pods, first, best)]))
            best = i;
    }
    if (best == CCL_NONE)
        return ccl_fail(
            err, CCL_UNSUPPORTED,
            "pods differ: no route leads from rank %u to any GPU of another kind of pod", src);
    c->entered[ccl_i_pod_rank(&c->pods, first, best)]++;
    c->sent[p]++;
    ccl_i_move_t move = {
        src, ccl_i_pod_rank(&c->pods, q, best), chunk->number, 0, from, from + chunk->pod_s};
    CCL_TRY(add_move(c, move, err));
    clear_arrivals(c);
    c->arrived[best] = from + chunk->pod_s;
    CCL_TRY(in_pod(c, chunk, q, best, err));
    return to_kind(c, chunk, q, best, err);
}

/* A chunk from its owner to all ranks. */
static ccl_status_t spread(ccl_i_composer_t *c, const chunk_t *chunk, ccl_error_t *err) {
    uint32_t p = c->pods.pod[chunk->owner], place = c->pods.place[chunk->owner];
    clear_arrivals(c);
    if (chunk->root != CCL_NONE && c->pods.pod[chunk->root] == p)
        c->arrived[c->pods.place[chunk->root]] = chunk->from;
    c->arrived[place] = chunk->from;
    CCL_TRY(in_pod(c, chunk, p, place, err));
    CCL_TRY(to_kind(c, chunk, p, chunk->rail, err));
    for (uint32_t k = 0; k < c->pods.nkinds; k++) {
        double from;
        if (k == c->pods.kind[p])
            continue;
        uint32_t src = sender_of(c, chunk, &from);
        CCL_TRY(to_other_kind(c, chunk, src, from, k, err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- all chunks */

static ccl_status_t spread_blocks(ccl_i_composer_t *c, uint32_t nchunks, ccl_error_t *err) {
    for (uint32_t k = 0; k < nchunks; k++) {
        uint32_t owner = c->owner ? c->owner[k] : k / c->parts;
        chunk_t chunk = {.number = k,
                         .variant = c->given[owner]++ % c->variants,
                         .owner = owner,
                         .rail = c->pods.place[owner],
                         .root = CCL_NONE,
                         .rail_s = 1,
                         .pod_s = 1.0 / c->pods.npods};
        if (k % 64 == 0)
            CCL_TRY(ccl_ctx_poll(c->ctx, NULL));
        CCL_TRY(spread(c, &chunk, err));
    }
    return CCL_OK;
}

/* The root deals its chunks out to the others of its pod, so that each leaves it once inside the
   pod; its own rail is used like all others. */
static ccl_status_t spread_from_root(ccl_i_composer_t *c, uint32_t nchunks, ccl_error_t *err) {
    uint32_t root = c->want->root, p = c->pods.pod[root], g = ccl_i_pod_size(&c->pods, p);
    double turn = 1.0 / nchunks;
    for (uint32_t k = 0; k < nchunks; k++) {
        uint32_t next = g > 1 ? 1 + k % (g - 1) : 0;
        uint32_t owner = ccl_i_pod_rank(&c->pods, p, (c->pods.place[root] + next) % g);
        chunk_t chunk = {.number = k,
                         .variant = k / g % c->variants,
                         .owner = owner,
                         .rail = k % g,
                         .root = root,
                         .from = k * turn,
                         .rail_s = turn,
                         .pod_s = turn};
        if (k % 64 == 0)
            CCL_TRY(ccl_ctx_poll(c->ctx, NULL));
        if (owner != root) {
            CCL_TRY(
                add_move(c, (ccl_i_move_t){root, owner, k, 0, chunk.from, chunk.from + turn}, err));
            chunk.from += turn;
        }
        CCL_TRY(spread(c, &chunk, err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- pairs */

/* Inside a pod, or along a rail. */
typedef struct leg {
    const ccl_i_part_trees_t *trees;
    bool rail;
    uint32_t at; /* the pod; the place */
} leg_t;

static uint32_t leg_rank(const ccl_i_composer_t *c, leg_t leg, uint32_t i) {
    return leg.rail ? ccl_i_pod_rank(&c->pods, i, leg.at) : ccl_i_pod_rank(&c->pods, leg.at, i);
}

static ccl_status_t along(ccl_i_composer_t *c, leg_t leg, uint32_t tree, uint32_t chunk,
                          double turn, ccl_error_t *err) {
    const ccl_i_part_trees_t *t = leg.trees;
    double share = 1.0 / c->pods.npods;
    for (uint32_t i = t->first[tree]; i < t->first[tree + 1]; i++) {
        const ccl_i_part_hop_t *h = &t->hops[i];
        ccl_i_move_t move = {leg_rank(c, leg, h->src), leg_rank(c, leg, h->dst), chunk, h->channel,
                             turn + h->at * share,     turn + h->until * share};
        CCL_TRY(add_move(c, move, err));
    }
    return CCL_OK;
}

/* AllToAll: a pod's chunks for the pod d further on go together, in turn d. */
static ccl_status_t move_pairs(ccl_i_composer_t *c, ccl_error_t *err) {
    const ccl_i_part_trees_t *inside, *rail;
    uint32_t n = c->topo->nranks, g = c->pods.most, np = c->pods.npods;
    CCL_TRY(ccl_i_compose_trees(c, 0, false, c->how.pod, &inside, err));
    CCL_TRY(ccl_i_compose_trees(c, 0, true, c->how.rail, &rail, err));
    for (uint32_t s = 0; s < n; s++) {
        CCL_TRY(ccl_ctx_poll(c->ctx, NULL));
        for (uint32_t i = 0; i < n * c->parts; i++) {
            uint32_t d = i / c->parts, part = i % c->parts, chunk = s * n * c->parts + i;
            uint32_t p = c->pods.pod[s], q = c->pods.pod[d], a = c->pods.place[s],
                     b = c->pods.place[d];
            double turn = (double)((q + np - p) % np) / np;
            if (a != b)
                CCL_TRY(along(c, (leg_t){inside, false, p},
                              (a * g + b) * inside->parts + ccl_i_compose_tree(inside, part), chunk,
                              turn, err));
            if (p != q)
                CCL_TRY(along(c, (leg_t){rail, true, b},
                              (p * np + q) * rail->parts + ccl_i_compose_tree(rail, part), chunk,
                              turn + 1.0 / np, err));
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_compose_moves(ccl_i_composer_t *c, ccl_error_t *err) {
    c->nmoves = 0;
    memset(c->given, 0, c->topo->nranks * sizeof *c->given);
    memset(c->sent, 0, c->pods.npods * sizeof *c->sent);
    memset(c->entered, 0, c->topo->nranks * sizeof *c->entered);
    if (c->want->kind == CCL_ALLTOALL)
        return move_pairs(c, err);
    if (c->want->kind == CCL_BROADCAST || c->want->kind == CCL_REDUCE)
        return spread_from_root(c, c->how.nchunks, err);
    return spread_blocks(c, c->how.nchunks, err);
}
