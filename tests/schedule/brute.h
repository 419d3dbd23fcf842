/*
 * A brute-force interpreter of MSCCL programs, to test the verifier with. It shares no code with
 * the library: concrete random numbers in concrete buffers, blocks that take turns at random
 * element by element, FIFOs of some depth, several micro-batches. Any interleaving that hangs,
 * leaves a message over or ends with wrong numbers shows the program wrong.
 */
#ifndef TESTS_SCHEDULE_BRUTE_H
#define TESTS_SCHEDULE_BRUTE_H

#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

#define BRUTE_BATCHES 2
#define BRUTE_MAX_COUNT 64

typedef struct brute_tb {
    uint32_t batch, step, elem,
        phase; /* phase 0: step not begun; 1 receive; 2 read; 3 write; 4 send */
    uint64_t in, out;
    bool done;
} brute_tb_t;

/** A message: elements pushed so far, elements taken so far. */
typedef struct brute_message {
    uint64_t elems[BRUTE_MAX_COUNT];
    uint32_t len, pushed, taken;
} brute_message_t;

typedef struct brute_fifo {
    uint32_t src, dst, channel;
    brute_message_t *messages;
    uint32_t first, n, cap; /* first: being received; n: begun to be sent */
} brute_fifo_t;

typedef struct brute {
    const ccl_program_t *p;
    bool in_place;
    uint32_t slots;
    uint64_t seed;
    uint64_t *memory; /* [batches][nranks][per_rank] */
    size_t per_rank;
    brute_tb_t *tbs;
    uint32_t *published; /* [nsteps] micro-batches of which the step told that it is done */
    brute_fifo_t *fifos;
    uint32_t nfifos;
} brute_t;

static uint64_t brute_random(brute_t *b) {
    uint64_t z = (b->seed += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/** The input of a rank; element e of micro-batch `batch`. */
static uint64_t brute_input(uint32_t rank, uint32_t e, uint32_t batch) {
    brute_t r = {.seed = ((uint64_t)rank << 40) + ((uint64_t)e << 8) + batch};
    return brute_random(&r);
}

static uint32_t brute_largest(const ccl_program_t *p, uint32_t buffer) {
    uint32_t most = 0;
    for (uint32_t r = 0; r < p->nranks; r++)
        most = p->buffer_len[3 * r + buffer] > most ? p->buffer_len[3 * r + buffer] : most;
    return most;
}

/** [input + output region, 2 (i + o) long][scratch] per rank; NCCL's in-place addresses. */
static uint64_t *brute_at(const brute_t *b, uint32_t batch, uint32_t rank, uint32_t buffer,
                          uint32_t elem) {
    const ccl_collective_t *coll = b->p->coll;
    uint32_t li = brute_largest(b->p, 0) + coll->nchunks,
             lo = brute_largest(b->p, 1) + coll->nchunks;
    size_t at = elem;
    if (buffer == 2)
        at += 2 * (li + lo);
    else if (!b->in_place)
        at += buffer == 1 ? li : 0;
    else if (coll->kind == CCL_ALLGATHER && buffer == 0)
        at += rank * coll->chunks_per_block;
    else if (coll->kind == CCL_REDUCESCATTER && buffer == 1)
        at += rank * coll->chunks_per_block;
    return &b->memory[((size_t)batch * b->p->nranks + rank) * b->per_rank + at];
}

static brute_fifo_t *brute_fifo(brute_t *b, uint32_t src, uint32_t dst, uint32_t channel) {
    for (uint32_t i = 0; i < b->nfifos; i++) {
        if (b->fifos[i].src == src && b->fifos[i].dst == dst && b->fifos[i].channel == channel)
            return &b->fifos[i];
    }
    b->fifos[b->nfifos] = (brute_fifo_t){.src = src, .dst = dst, .channel = channel};
    return &b->fifos[b->nfifos++];
}

static bool brute_sends(uint32_t t) {
    return t == CCL_PRIM_S || t == CCL_PRIM_RCS || t == CCL_PRIM_RRS || t == CCL_PRIM_RRCS;
}

static bool brute_receives(uint32_t t) {
    return t == CCL_PRIM_R || t == CCL_PRIM_RCS || t == CCL_PRIM_RRS || t == CCL_PRIM_RRC ||
           t == CCL_PRIM_RRCS;
}

/** Begins the current step of t if it may; false: not now. */
static bool brute_begin(brute_t *b, uint32_t t) {
    brute_tb_t *s = &b->tbs[t];
    const ccl_tb_t *tb = &b->p->tbs[t];
    const ccl_step_t *step = &b->p->steps[tb->first_step + s->step];
    if (step->dep_tb != CCL_NONE && step->dep_tb != tb->id) {
        const ccl_tb_t *on = &b->p->tbs[b->p->rank_first_tb[tb->rank] + step->dep_tb];
        if (b->published[on->first_step + step->dep_step] <= s->batch)
            return false;
    }
    if (step->dep_tb == tb->id && step->dep_step >= s->step)
        return false;
    if (brute_sends(step->type)) {
        brute_fifo_t *f = brute_fifo(b, tb->rank, tb->send_peer, tb->channel);
        if (brute_receives(step->type)) { /* what it takes its data from must be there */
            brute_fifo_t *in = brute_fifo(b, tb->recv_peer, tb->rank, tb->channel);
            if (in->first == in->n || (step->count && !in->messages[in->first].pushed))
                return false;
        }
        if (f->n - f->first >= b->slots)
            return false;
        if (f->n == f->cap) {
            f->cap = f->cap ? 2 * f->cap : 16;
            f->messages = realloc(f->messages, f->cap * sizeof *f->messages);
        }
        memset(&f->messages[f->n], 0, sizeof f->messages[0]);
        f->messages[f->n++].len = step->count;
    }
    s->phase = 1;
    s->elem = 0;
    return true;
}

/** One small thing of block t. 1 done, 0 not now, -1 the program is wrong. */
static int brute_move(brute_t *b, uint32_t t) {
    brute_tb_t *s = &b->tbs[t];
    const ccl_tb_t *tb = &b->p->tbs[t];
    const ccl_step_t *step = &b->p->steps[tb->first_step + s->step];
    uint32_t type = step->type;
    bool reduces = type == CCL_PRIM_RRS || type == CCL_PRIM_RRC || type == CCL_PRIM_RRCS;
    if (s->phase == 0)
        return brute_begin(b, t);
    brute_message_t *m = NULL;
    brute_fifo_t *in = NULL;
    if (brute_receives(type)) {
        in = brute_fifo(b, tb->recv_peer, tb->rank, tb->channel);
        if (in->first == in->n)
            return 0;
        m = &in->messages[in->first];
        if (m->len != step->count)
            return -1;
    }
    if (s->elem < step->count && type != CCL_PRIM_NOP) {
        uint64_t *src = brute_at(b, s->batch, tb->rank, step->src_buf, step->src_off + s->elem);
        uint64_t *dst = brute_at(b, s->batch, tb->rank, step->dst_buf, step->dst_off + s->elem);
        switch (s->phase++) {
        case 1:
            if (m && m->taken == m->pushed) {
                s->phase = 1;
                return 0;
            }
            if (m)
                s->in = m->elems[m->taken++];
            return 1;
        case 2:
            if (type == CCL_PRIM_S || type == CCL_PRIM_CPY)
                s->out = *src;
            else if (reduces)
                s->out = *src + s->in;
            else if (type == CCL_PRIM_RE)
                s->out = *src + *dst;
            else
                s->out = s->in;
            return 1;
        case 3:
            if (type != CCL_PRIM_S && type != CCL_PRIM_RRS)
                *dst = s->out;
            return 1;
        default:
            if (brute_sends(type)) {
                brute_fifo_t *f = brute_fifo(b, tb->rank, tb->send_peer, tb->channel);
                brute_message_t *to = &f->messages[f->n - 1];
                to->elems[to->pushed++] = s->out;
            }
            s->phase = 1;
            s->elem++;
            return 1;
        }
    }
    if (in)
        in->first++;
    if (step->has_dep)
        b->published[tb->first_step + s->step] = s->batch + 1;
    s->phase = 0;
    if (++s->step == tb->nsteps) {
        s->step = 0;
        s->done = ++s->batch == BRUTE_BATCHES;
    }
    return 1;
}

static bool brute_right(const brute_t *b) {
    const ccl_collective_t *coll = b->p->coll;
    uint32_t n = b->p->nranks, c = coll->chunks_per_block;
    for (uint32_t k = 0; k < BRUTE_BATCHES; k++) {
        for (uint32_t r = 0; r < n; r++) {
            uint32_t len =
                coll->kind == CCL_ALLREDUCE || coll->kind == CCL_REDUCESCATTER ? c : n * c;
            for (uint32_t e = 0; e < len; e++) {
                uint64_t want = 0;
                if (coll->kind == CCL_ALLREDUCE || coll->kind == CCL_REDUCESCATTER) {
                    uint32_t from = coll->kind == CCL_ALLREDUCE ? e : r * c + e;
                    for (uint32_t q = 0; q < n; q++)
                        want += brute_input(q, from, k);
                } else if (coll->kind == CCL_ALLGATHER) {
                    want = brute_input(e / c, e % c, k);
                } else {
                    want = brute_input(e / c, r * c + e % c, k);
                }
                if (*brute_at(b, k, r, 1, e) != want)
                    return false;
            }
        }
    }
    return true;
}

/** Runs once; true when it ends right. Kinds: AllReduce, AllGather, ReduceScatter, AllToAll. */
static bool brute_run(const ccl_program_t *p, bool in_place, uint32_t slots, uint64_t seed) {
    const ccl_collective_t *coll = p->coll;
    brute_t b = {.p = p, .in_place = in_place, .slots = slots, .seed = seed};
    b.per_rank = 2 * ((size_t)brute_largest(p, 0) + brute_largest(p, 1) + 2 * coll->nchunks) +
                 brute_largest(p, 2) + BRUTE_MAX_COUNT;
    size_t words = BRUTE_BATCHES * p->nranks * b.per_rank;
    b.memory = malloc(words * sizeof *b.memory);
    b.tbs = calloc(p->ntbs + 1, sizeof *b.tbs);
    b.published = calloc(p->nsteps + 1, sizeof *b.published);
    b.fifos = calloc(2 * p->ntbs + 1, sizeof *b.fifos);
    for (size_t i = 0; i < words; i++)
        b.memory[i] = brute_random(&b); /* what nobody wrote */
    uint32_t nin = coll->kind == CCL_ALLREDUCE || coll->kind == CCL_ALLGATHER
                       ? coll->chunks_per_block
                       : p->nranks * coll->chunks_per_block;
    for (uint32_t k = 0; k < BRUTE_BATCHES; k++) {
        for (uint32_t r = 0; r < p->nranks; r++) {
            for (uint32_t e = 0; e < nin; e++)
                *brute_at(&b, k, r, 0, e) = brute_input(r, e, k);
        }
    }
    uint32_t left = 0, mode = (uint32_t)(seed % 3);
    uint32_t *turn = malloc((p->ntbs + 1) * sizeof *turn);
    for (uint32_t t = 0; t < p->ntbs; t++) {
        uint32_t at = (uint32_t)(brute_random(&b) % (t + 1));
        turn[t] = turn[at];
        turn[at] = t;
        b.tbs[t].done = !p->tbs[t].nsteps;
        left += !b.tbs[t].done;
    }
    bool ok = true;
    while (left && ok) {
        /* The first block of `turn` that can goes. It changes always, often or seldom. */
        uint64_t dice = brute_random(&b);
        if (!mode || dice % (mode == 1 ? 16 : 256) == 0) {
            uint32_t from = (uint32_t)((dice >> 20) % p->ntbs),
                     to = (uint32_t)((dice >> 42) % p->ntbs);
            uint32_t t = turn[from];
            memmove(turn + from, turn + from + 1, (p->ntbs - 1 - from) * sizeof *turn);
            memmove(turn + to + 1, turn + to, (p->ntbs - 1 - to) * sizeof *turn);
            turn[to] = t;
        }
        bool moved = false;
        for (uint32_t i = 0; i < p->ntbs && !moved && ok; i++) {
            uint32_t t = turn[i];
            if (b.tbs[t].done)
                continue;
            int how = brute_move(&b, t);
            ok = how >= 0;
            moved = how > 0;
            left -= moved && b.tbs[t].done;
        }
        ok = ok && moved;
    }
    free(turn);
    for (uint32_t i = 0; i < b.nfifos; i++) {
        ok = ok && b.fifos[i].first == b.fifos[i].n;
        free(b.fifos[i].messages);
    }
    ok = ok && brute_right(&b);
    free(b.memory);
    free(b.tbs);
    free(b.published);
    free(b.fifos);
    return ok;
}

/** Whether all of `runs` interleavings end right, in every way the program may be called. */
static bool brute_check(const ccl_program_t *p, uint32_t slots, uint32_t runs, uint64_t seed) {
    bool out_of_place = p->out_of_place || !p->in_place;
    for (uint32_t i = 0; i < runs; i++) {
        if (out_of_place && !brute_run(p, false, slots, seed + i))
            return false;
        if (p->in_place && !brute_run(p, true, slots, seed + i))
            return false;
    }
    return true;
}

#endif
