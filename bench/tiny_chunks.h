/**
 * @file tiny_chunks.h
 * The fastest schedule of whole chunks on a tiny cluster, by branch and bound in continuous time:
 * every link carries one chunk at a time, a GPU sends on what has arrived. For clusters no two of
 * whose connections share a link, and all collectives but AllReduce; reductions run backwards in
 * time.
 */
#ifndef CCL_BENCH_TINY_CHUNKS_H
#define CCL_BENCH_TINY_CHUNKS_H

#include "bench/tiny_clusters.h"
#include "schedule/schedule.h"

#include <stdlib.h>

enum { TINY_CHUNKS = 40, TINY_MOVES = 120 };

typedef struct tiny_move {
    uint32_t arc, chunk;
    double start_s, arrival_s;
    double rest_s; /* no schedule that goes on with it is faster */
    bool relay;
} tiny_move_t;

typedef struct tiny_plan {
    double time_s; /**< INFINITY: none was found within the limit */
    bool proven;   /**< all others were ruled out within the limit */
    uint64_t nodes;
    uint32_t nmoves;
    tiny_move_t moves[TINY_MOVES]; /**< by start; of reductions backwards: time_s is their time 0 */
} tiny_plan_t;

typedef struct tiny_search {
    uint32_t ngpus, nchunks, narcs;
    uint8_t from[TINY_CHUNKS], to[TINY_CHUNKS]; /* a GPU; a set, without it */
    tiny_arc_t arcs[TINY_ARCS];                 /* reversed for reductions */
    double take_s[TINY_ARCS], late_s[TINY_ARCS];
    double apart_s[TINY_GPUS][TINY_GPUS];
    double at_s[TINY_CHUNKS][TINY_GPUS], free_s[TINY_ARCS]; /* INFINITY: not there */
    double last_s, least_s; /* moves start in order; nobody is faster than least_s */
    uint32_t last_arc, nmoves;
    tiny_move_t moves[TINY_MOVES];
    uint64_t limit;
    tiny_plan_t *best;
} tiny_search_t;

static inline bool tiny_backward(ccl_collective_kind_t kind) {
    return kind == CCL_REDUCE || kind == CCL_REDUCESCATTER;
}

/* The q-th of jobs that arcs do one after another, from (of = leaves) or to a GPU, is done then. */
static inline double tiny_jobs(const tiny_search_t *s, uint32_t gpu, bool leaves, uint32_t q) {
    double next_s[TINY_ARCS], done_s = 0;
    for (uint32_t a = 0; a < s->narcs; a++) {
        bool counts = (leaves ? s->arcs[a].from : s->arcs[a].to) == gpu;
        next_s[a] = counts ? fmax(s->free_s[a], s->last_s) + s->take_s[a] + s->late_s[a] : INFINITY;
    }
    for (; q > 0; q--) {
        uint32_t least = 0;
        for (uint32_t a = 1; a < s->narcs; a++)
            least = next_s[a] < next_s[least] ? a : least;
        done_s = next_s[least];
        next_s[least] += s->take_s[least];
    }
    return done_s;
}

/* No schedule that goes on from here is faster. */
static inline double tiny_rest(const tiny_search_t *s) {
    double least_s = 0;
    uint32_t wanted[TINY_GPUS] = {0}, only[TINY_GPUS] = {0};
    for (uint32_t c = 0; c < s->nchunks; c++) {
        uint32_t holders = 0, missing = 0, holder = 0;
        for (uint32_t v = 0; v < s->ngpus; v++) {
            bool has = s->at_s[c][v] < INFINITY;
            holders += has;
            holder = has ? v : holder;
            least_s = has && s->to[c] >> v & 1 ? fmax(least_s, s->at_s[c][v]) : least_s;
            if (has || !(s->to[c] >> v & 1))
                continue;
            double there_s = INFINITY;
            for (uint32_t u = 0; u < s->ngpus; u++)
                there_s = fmin(there_s, fmax(s->at_s[c][u], s->last_s) + s->apart_s[u][v]);
            least_s = fmax(least_s, there_s);
            wanted[v]++;
            missing++;
        }
        only[holder] += holders == 1 && missing > 0;
    }
    for (uint32_t v = 0; v < s->ngpus; v++) {
        least_s = fmax(least_s, tiny_jobs(s, v, false, wanted[v]));
        least_s = fmax(least_s, tiny_jobs(s, v, true, only[v]));
    }
    return least_s;
}

/* Of chunks that nothing tells apart the first goes first: is it chunk c's turn? */
static inline bool tiny_turn(const tiny_search_t *s, uint32_t c) {
    bool moved = c == 0 || s->from[c] != s->from[c - 1] || s->to[c] != s->to[c - 1];
    for (uint32_t v = 0; v < s->ngpus && !moved; v++)
        moved = v != s->from[c] && s->at_s[c - 1][v] < INFINITY;
    return moved;
}

/* A chunk for one GPU has a single way: it goes on from where it came last. */
static inline bool tiny_astray(const tiny_search_t *s, uint32_t c, uint32_t from) {
    bool astray = false;
    for (uint32_t v = 0; v < s->ngpus && (s->to[c] & (s->to[c] - 1)) == 0; v++)
        astray |= s->at_s[c][v] < INFINITY && v != s->from[c] && v != from &&
                  (from == s->from[c] || s->at_s[c][v] > s->at_s[c][from]);
    return astray;
}

/* May chunk c go over arc a next, and is it of use? */
static inline bool tiny_may(const tiny_search_t *s, uint32_t a, uint32_t c, tiny_move_t *move) {
    const tiny_arc_t *arc = &s->arcs[a];
    if (!(s->at_s[c][arc->from] < INFINITY) || s->at_s[c][arc->to] < INFINITY ||
        !tiny_turn(s, c) || tiny_astray(s, c, arc->from))
        return false;
    double start_s = fmax(s->at_s[c][arc->from], s->free_s[a]);
    if (start_s < s->last_s || (start_s == s->last_s && a < s->last_arc))
        return false;
    *move = (tiny_move_t){.arc = a, .chunk = c, .start_s = start_s};
    move->arrival_s = start_s + s->take_s[a] + s->late_s[a];
    for (uint32_t d = 0; d < s->ngpus; d++)
        if (s->to[c] >> d & 1 && !(s->at_s[c][d] < INFINITY) &&
            move->arrival_s + s->apart_s[arc->to][d] < s->best->time_s * (1 - 1e-12))
            return true;
    return false;
}

/* What promises most first. */
static inline int tiny_by_promise(const void *a, const void *b) {
    const tiny_move_t *x = a, *y = b;
    if (x->rest_s != y->rest_s)
        return x->rest_s < y->rest_s ? -1 : 1;
    if (x->relay != y->relay)
        return x->relay ? 1 : -1;
    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return x->arc * TINY_CHUNKS + x->chunk < y->arc * TINY_CHUNKS + y->chunk ? -1 : 1;
}

/* Does a move, or takes back the last one; `was` is what the first changed. */
static inline void tiny_do(tiny_search_t *s, const tiny_move_t *m, tiny_move_t *was) {
    *was = (tiny_move_t){.arc = s->last_arc, .start_s = s->last_s, .rest_s = s->free_s[m->arc]};
    s->at_s[m->chunk][s->arcs[m->arc].to] = m->arrival_s;
    s->free_s[m->arc] = m->start_s + s->take_s[m->arc];
    s->last_s = m->start_s;
    s->last_arc = m->arc;
    s->moves[s->nmoves++] = *m;
}

static inline void tiny_undo(tiny_search_t *s, const tiny_move_t *m, const tiny_move_t *was) {
    s->nmoves--;
    s->at_s[m->chunk][s->arcs[m->arc].to] = INFINITY;
    s->free_s[m->arc] = was->rest_s;
    s->last_s = was->start_s;
    s->last_arc = was->arc;
}

static inline bool tiny_whole(const tiny_search_t *s) {
    bool whole = true;
    for (uint32_t c = 0; c < s->nchunks; c++)
        for (uint32_t v = 0; v < s->ngpus; v++)
            whole = whole && (!(s->to[c] >> v & 1) || s->at_s[c][v] < INFINITY);
    return whole;
}

/* @param rest_s  tiny_rest() */
static inline void tiny_branch(tiny_search_t *s, double rest_s) {
    tiny_plan_t *best = s->best;
    if (++best->nodes > s->limit)
        return;
    if (tiny_whole(s)) {
        best->time_s = rest_s;
        best->nmoves = s->nmoves;
        memcpy(best->moves, s->moves, s->nmoves * sizeof *s->moves);
        return;
    }
    tiny_move_t *moves = malloc((size_t)s->narcs * s->nchunks * sizeof *moves), was;
    uint32_t n = 0;
    for (uint32_t i = 0; moves && s->nmoves < TINY_MOVES && i < s->narcs * s->nchunks; i++) {
        if (!tiny_may(s, i / s->nchunks, i % s->nchunks, &moves[n]))
            continue;
        tiny_do(s, &moves[n], &was);
        moves[n].rest_s = tiny_rest(s);
        moves[n].relay = !(s->to[moves[n].chunk] >> s->arcs[moves[n].arc].to & 1);
        tiny_undo(s, &moves[n], &was);
        n++;
    }
    if (moves)
        qsort(moves, n, sizeof *moves, tiny_by_promise);
    for (uint32_t i = 0; i < n && best->nodes <= s->limit; i++) {
        if (moves[i].rest_s >= best->time_s * (1 - 1e-12) ||
            best->time_s <= s->least_s * (1 + 1e-9))
            break;
        tiny_do(s, &moves[i], &was);
        tiny_branch(s, moves[i].rest_s);
        tiny_undo(s, &moves[i], &was);
    }
    free(moves);
}

/* Chunks that have to go somewhere, and how far GPUs are apart for one. */
static inline bool tiny_search_init(tiny_search_t *s, const tiny_net_t *net,
                                    const ccl_collective_t *coll, double size_bytes) {
    bool reversed = tiny_backward(coll->kind);
    if (!net->apart || coll->kind == CCL_ALLREDUCE || coll->nchunks > TINY_CHUNKS)
        return false;
    s->ngpus = net->ngpus;
    s->nchunks = coll->nchunks;
    s->narcs = net->narcs;
    for (uint32_t c = 0; c < s->nchunks; c++) {
        const ccl_chunk_t *chunk = &coll->chunks[c];
        s->from[c] = (uint8_t)(reversed ? chunk->dests : chunk->sources)[0];
        for (uint32_t i = 0; i < (reversed ? chunk->nsources : chunk->ndests); i++)
            s->to[c] |= (uint8_t)(1u << (reversed ? chunk->sources : chunk->dests)[i]);
        s->to[c] &= (uint8_t)~(1u << s->from[c]);
        for (uint32_t v = 0; v < s->ngpus; v++)
            s->at_s[c][v] = v == s->from[c] ? 0 : INFINITY;
    }
    for (uint32_t v = 0; v < s->ngpus; v++)
        for (uint32_t u = 0; u < s->ngpus; u++)
            s->apart_s[u][v] = u == v ? 0 : INFINITY;
    for (uint32_t a = 0; a < s->narcs; a++) {
        tiny_arc_t arc = net->arcs[a];
        s->arcs[a] = arc;
        s->arcs[a].from = reversed ? arc.to : arc.from;
        s->arcs[a].to = reversed ? arc.from : arc.to;
        s->take_s[a] = coll->chunks[0].share * size_bytes / arc.bottleneck_Bps;
        s->late_s[a] = arc.steps * TINY_UNIT_S;
        s->apart_s[s->arcs[a].from][s->arcs[a].to] = s->take_s[a] + s->late_s[a];
    }
    for (uint32_t m = 0; m < s->ngpus; m++)
        for (uint32_t u = 0; u < s->ngpus; u++)
            for (uint32_t v = 0; v < s->ngpus; v++)
                s->apart_s[u][v] = fmin(s->apart_s[u][v], s->apart_s[u][m] + s->apart_s[m][v]);
    return true;
}

/* What led nowhere goes. */
static inline void tiny_prune(const tiny_search_t *s, tiny_plan_t *plan) {
    bool needed[TINY_CHUNKS][TINY_GPUS] = {{false}}, keep[TINY_MOVES] = {false};
    uint32_t n = 0;
    for (uint32_t i = plan->nmoves; i-- > 0;) {
        const tiny_move_t *m = &plan->moves[i];
        uint32_t to = s->arcs[m->arc].to;
        keep[i] = s->to[m->chunk] >> to & 1 || needed[m->chunk][to];
        needed[m->chunk][s->arcs[m->arc].from] |= keep[i];
    }
    for (uint32_t i = 0; i < plan->nmoves; i++)
        if (keep[i])
            plan->moves[n++] = plan->moves[i];
    plan->nmoves = n;
}

/**
 * The best schedule of the collective's chunks.
 * @param least_s  no schedule is faster: the search ends where it has one of that time.
 * @param limit    nodes of the search.
 * @return false: the search is not for these.
 */
static inline bool tiny_chunks(const tiny_net_t *net, const ccl_collective_t *coll,
                               double size_bytes, double least_s, uint64_t limit,
                               tiny_plan_t *out) {
    tiny_search_t *s = calloc(1, sizeof *s);
    *out = (tiny_plan_t){.time_s = INFINITY};
    bool ok = s && tiny_search_init(s, net, coll, size_bytes);
    if (ok) {
        s->limit = limit;
        s->least_s = least_s;
        s->best = out;
        tiny_branch(s, 0);
        out->proven = out->nodes <= limit;
        tiny_prune(s, out);
    }
    free(s);
    return ok;
}

#endif
