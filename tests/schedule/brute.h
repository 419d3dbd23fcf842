/*
 * A brute-force interpreter of MSCCL programs, to test the verifier with. It shares no code with
 * the library: concrete random numbers in concrete buffers, blocks that take turns at random
 * element by element, FIFOs of some depth, several micro-batches. Any interleaving that hangs,
 * leaves a message over or ends with wrong numbers shows the program wrong. What members of a
 * switch connection offer is added as it was offered in some runs, in others as it is in their
 * memory when it is pulled.
 */
#ifndef TESTS_SCHEDULE_BRUTE_H
#define TESTS_SCHEDULE_BRUTE_H

#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

#define BRUTE_BATCHES 2
#define BRUTE_MAX_COUNT 64
#define BRUTE_MAX_MEMBERS 16

typedef struct brute_tb {
    uint32_t batch, step, elem,
        phase;       /* phase 0: step not begun; 1 receive; 2 read; 3 write; 4 send */
    uint32_t member; /* of a group: the next to take from or to send to */
    uint64_t in, out;
    bool done;
} brute_tb_t;

/** A message: elements pushed so far, elements taken so far. */
typedef struct brute_message {
    uint64_t elems[BRUTE_MAX_COUNT];
    const uint64_t *from[BRUTE_MAX_COUNT]; /* where an offered element lies; NULL: in elems */
    uint32_t len, pushed, taken;
} brute_message_t;

typedef struct brute_fifo {
    uint32_t src, dst, channel, kind; /* 0 plain, 1 of a multicast, 2 of a pull */
    brute_message_t *messages;
    uint32_t first, n, cap; /* first: being received; n: begun to be sent */
} brute_fifo_t;

typedef struct brute {
    const ccl_program_t *p;
    bool in_place, live; /* live: pulls see the members' memory */
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

static brute_fifo_t *brute_fifo(brute_t *b, brute_fifo_t key) {
    for (uint32_t i = 0; i < b->nfifos; i++) {
        const brute_fifo_t *f = &b->fifos[i];
        if (f->src == key.src && f->dst == key.dst && f->channel == key.channel &&
            f->kind == key.kind)
            return &b->fifos[i];
    }
    b->fifos[b->nfifos] = key;
    return &b->fifos[b->nfifos++];
}

/** The FIFOs that a step of block t sends to, or takes from. */
static uint32_t brute_ends(brute_t *b, uint32_t t, uint32_t step, bool sends,
                           brute_fifo_t *out[BRUTE_MAX_MEMBERS]) {
    const ccl_tb_t *tb = &b->p->tbs[t];
    const ccl_peers_t *own = b->p->peers ? &b->p->peers[step] : NULL;
    uint32_t peer =
        sends ? (own ? own->send_peer : tb->send_peer) : (own ? own->recv_peer : tb->recv_peer);
    uint32_t channel = own ? own->channel : tb->channel, n = 1;
    const uint32_t *ranks = &peer, group = peer & 0x80000000u, member = peer & 0x40000000u;
    if (group) {
        ranks = b->p->groups[peer & 0x7fffffffu].ranks;
        n = b->p->groups[peer & 0x7fffffffu].n;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = group ? ranks[i] : peer & 0x3fffffffu;
        out[i] = brute_fifo(b, (brute_fifo_t){.src = sends ? tb->rank : at,
                                              .dst = sends ? at : tb->rank,
                                              .channel = channel,
                                              .kind = group    ? (sends ? 1 : 2)
                                                      : member ? (sends ? 2 : 1)
                                                               : 0});
    }
    return n;
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
    brute_fifo_t *in[BRUTE_MAX_MEMBERS], *out[BRUTE_MAX_MEMBERS];
    if (step->dep_tb != CCL_NONE && step->dep_tb != tb->id) {
        const ccl_tb_t *on = &b->p->tbs[b->p->rank_first_tb[tb->rank] + step->dep_tb];
        if (b->published[on->first_step + step->dep_step] <= s->batch)
            return false;
    }
    if (step->dep_tb == tb->id && step->dep_step >= s->step)
        return false;
    if (brute_sends(step->type)) {
        uint32_t nin =
            brute_receives(step->type) ? brute_ends(b, t, tb->first_step + s->step, false, in) : 0;
        for (uint32_t i = 0; i < nin; i++) { /* what it takes its data from must be there */
            if (in[i]->first == in[i]->n || (step->count && !in[i]->messages[in[i]->first].pushed))
                return false;
        }
        uint32_t nout = brute_ends(b, t, tb->first_step + s->step, true, out);
        for (uint32_t i = 0; i < nout; i++)
            if (out[i]->n - out[i]->first >= b->slots)
                return false;
        for (uint32_t i = 0; i < nout; i++) {
            brute_fifo_t *f = out[i];
            if (f->n == f->cap) {
                f->cap = f->cap ? 2 * f->cap : 16;
                f->messages = realloc(f->messages, f->cap * sizeof *f->messages);
            }
            memset(&f->messages[f->n], 0, sizeof f->messages[0]);
            f->messages[f->n++].len = step->count;
        }
    }
    s->phase = 1;
    s->elem = s->member = 0;
    return true;
}

/** Takes one element of one message; 0: it is not there yet. */
static int brute_take(brute_t *b, brute_tb_t *s, brute_fifo_t *const *in, uint32_t nin) {
    if (s->member == 0)
        s->in = 0;
    if (s->member < nin) {
        brute_message_t *m = &in[s->member]->messages[in[s->member]->first];
        if (m->taken == m->pushed)
            return 0;
        const uint64_t *from = b->live ? m->from[m->taken] : NULL;
        s->in += from ? *from : m->elems[m->taken];
        m->taken++;
        s->member++;
    }
    if (s->member >= nin) {
        s->member = 0;
        s->phase = 2;
    }
    return 1;
}

/** Sends one element to one receiver; an offer says where the element lies. */
static void brute_push(brute_t *b, uint32_t t, brute_tb_t *s, uint32_t type, const uint64_t *src,
                       const uint64_t *dst) {
    brute_fifo_t *out[BRUTE_MAX_MEMBERS];
    uint32_t nout =
        brute_sends(type) ? brute_ends(b, t, b->p->tbs[t].first_step + s->step, true, out) : 0;
    if (s->member < nout) {
        brute_fifo_t *f = out[s->member++];
        brute_message_t *m = &f->messages[f->n - 1];
        if (f->kind == 2 && type != CCL_PRIM_RRS)
            m->from[m->pushed] = type == CCL_PRIM_S ? src : dst;
        m->elems[m->pushed++] = s->out;
    }
    if (s->member < nout)
        return;
    s->member = 0;
    s->phase = 1;
    s->elem++;
}

/** One small thing of block t. 1 done, 0 not now, -1 the program is wrong. */
static int brute_move(brute_t *b, uint32_t t) {
    brute_tb_t *s = &b->tbs[t];
    const ccl_tb_t *tb = &b->p->tbs[t];
    const ccl_step_t *step = &b->p->steps[tb->first_step + s->step];
    uint32_t type = step->type, nin = 0;
    bool reduces = type == CCL_PRIM_RRS || type == CCL_PRIM_RRC || type == CCL_PRIM_RRCS;
    brute_fifo_t *in[BRUTE_MAX_MEMBERS];
    if (s->phase == 0)
        return brute_begin(b, t);
    if (brute_receives(type))
        nin = brute_ends(b, t, tb->first_step + s->step, false, in);
    for (uint32_t i = 0; i < nin; i++) {
        if (in[i]->first == in[i]->n)
            return 0;
        if (in[i]->messages[in[i]->first].len != step->count)
            return -1;
    }
    if (s->elem < step->count && type != CCL_PRIM_NOP) {
        uint64_t *src = brute_at(b, s->batch, tb->rank, step->src_buf, step->src_off + s->elem);
        uint64_t *dst = brute_at(b, s->batch, tb->rank, step->dst_buf, step->dst_off + s->elem);
        switch (s->phase) {
        case 1:
            return brute_take(b, s, in, nin);
        case 2:
            if (type == CCL_PRIM_S || type == CCL_PRIM_CPY)
                s->out = *src;
            else if (reduces)
                s->out = *src + s->in;
            else if (type == CCL_PRIM_RE)
                s->out = *src + *dst;
            else
                s->out = s->in;
            s->phase = 3;
            return 1;
        case 3:
            if (type != CCL_PRIM_S && type != CCL_PRIM_RRS)
                *dst = s->out;
            s->phase = 4;
            return 1;
        default:
            brute_push(b, t, s, type, src, dst);
            return 1;
        }
    }
    for (uint32_t i = 0; i < nin; i++)
        in[i]->first++;
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
    bool sums =
        coll->kind == CCL_ALLREDUCE || coll->kind == CCL_REDUCESCATTER || coll->kind == CCL_REDUCE;
    for (uint32_t k = 0; k < BRUTE_BATCHES; k++) {
        for (uint32_t r = 0; r < n; r++) {
            uint32_t len = sums || coll->kind == CCL_BROADCAST ? c : n * c;
            if (coll->kind == CCL_REDUCE && r != coll->root)
                continue;
            for (uint32_t e = 0; e < len; e++) {
                uint64_t want = 0;
                if (sums) {
                    uint32_t from = coll->kind == CCL_REDUCESCATTER ? r * c + e : e;
                    for (uint32_t q = 0; q < n; q++)
                        want += brute_input(q, from, k);
                } else if (coll->kind == CCL_BROADCAST) {
                    want = brute_input(coll->root, e, k);
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

/** The order in which blocks are asked changes always, often or seldom. */
static void brute_shuffle(brute_t *b, uint32_t *turn, uint32_t mode) {
    const ccl_program_t *p = b->p;
    uint64_t dice = brute_random(b);
    if (!mode || dice % (mode == 1 ? 16 : 256) == 0) {
        uint32_t from = (uint32_t)((dice >> 20) % p->ntbs), to = (uint32_t)((dice >> 42) % p->ntbs);
        uint32_t t = turn[from];
        memmove(turn + from, turn + from + 1, (p->ntbs - 1 - from) * sizeof *turn);
        memmove(turn + to + 1, turn + to, (p->ntbs - 1 - to) * sizeof *turn);
        turn[to] = t;
    }
}

/** Runs once; true when it ends right. Kinds: all but Gather, Scatter, SendRecv and demands. */
static bool brute_run(const ccl_program_t *p, bool in_place, uint32_t slots, uint64_t seed) {
    const ccl_collective_t *coll = p->coll;
    brute_t b = {.p = p, .in_place = in_place, .slots = slots, .seed = seed};
    b.live = seed / 3 % 2;
    b.per_rank = 2 * ((size_t)brute_largest(p, 0) + brute_largest(p, 1) + 2 * coll->nchunks) +
                 brute_largest(p, 2) + BRUTE_MAX_COUNT;
    size_t words = BRUTE_BATCHES * p->nranks * b.per_rank;
    b.memory = malloc(words * sizeof *b.memory);
    b.tbs = calloc(p->ntbs + 1, sizeof *b.tbs);
    b.published = calloc(p->nsteps + 1, sizeof *b.published);
    b.fifos = calloc(2 * (size_t)(p->nsteps + p->ntbs) * p->nranks + 1, sizeof *b.fifos);
    for (size_t i = 0; i < words; i++)
        b.memory[i] = brute_random(&b); /* what nobody wrote */
    uint32_t nin = coll->kind == CCL_REDUCESCATTER || coll->kind == CCL_ALLTOALL
                       ? p->nranks * coll->chunks_per_block
                       : coll->chunks_per_block;
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
        /* The first block of `turn` that can goes. */
        brute_shuffle(&b, turn, mode);
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
