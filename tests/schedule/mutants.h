/*
 * Mutants of programs: one thing changed that matters, in blocks and steps (mutate) or in where
 * data lie and when steps run (mutate_places).
 */
#ifndef TESTS_SCHEDULE_MUTANTS_H
#define TESTS_SCHEDULE_MUTANTS_H

#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

typedef enum mutation {
    DROP_DEP,
    DROP_FLAG,
    SWAP_STEPS,
    OFFSET,
    COUNT,
    PEER,
    CHANNEL,
    DROP_STEP,
    TYPE,
    BUFFER,
    MUTATIONS
} mutation_t;

__attribute__((unused)) static const char *const mutation_names[] = {
    "drop dependency", "drop flag", "swap steps", "offset", "count", "peer",
    "channel",         "drop step", "type",       "buffer"};

static inline bool uses_src(uint32_t t) {
    return t != CCL_PRIM_R && t != CCL_PRIM_RCS && t != CCL_PRIM_NOP;
}

static inline bool uses_dst(uint32_t t) {
    return t != CCL_PRIM_S && t != CCL_PRIM_RRS && t != CCL_PRIM_NOP;
}

static inline void *mutant_dup(const void *data, size_t n, size_t size) {
    void *copy = malloc(n * size + 1);
    if (n)
        memcpy(copy, data, n * size);
    return copy;
}

/** Ranks of a group, with room for all. */
static inline uint32_t *mutant_group(const ccl_peer_group_t *group, uint32_t nranks) {
    uint32_t *ranks = malloc(nranks * sizeof *ranks);
    memcpy(ranks, group->ranks, group->n * sizeof *ranks);
    return ranks;
}

/** A copy of p whose blocks, steps and buffers may be changed; borrows the rest. */
static inline ccl_program_t mutant_of(const ccl_program_t *p) {
    ccl_program_t m = *p;
    size_t nbuffers = 3 * (size_t)p->nranks;
    m.tbs = mutant_dup(p->tbs, p->ntbs, sizeof *m.tbs);
    m.steps = mutant_dup(p->steps, p->nsteps, sizeof *m.steps);
    m.peers = p->peers ? mutant_dup(p->peers, p->nsteps, sizeof *m.peers) : NULL;
    if (p->ngroups) {
        ccl_peer_group_t *groups = mutant_dup(p->groups, p->ngroups, sizeof *groups);
        for (uint32_t g = 0; g < p->ngroups; g++)
            groups[g].ranks = mutant_group(&p->groups[g], p->nranks);
        m.groups = groups;
    }
    m.buffer_len = mutant_dup(p->buffer_len, nbuffers, sizeof *m.buffer_len);
    if (p->shares) {
        const double **shares = malloc(nbuffers * sizeof *shares);
        for (size_t i = 0; i < nbuffers; i++)
            shares[i] = mutant_dup(p->shares[i], p->buffer_len[i], sizeof **shares);
        m.shares = shares;
    }
    return m;
}

static inline void mutant_free(ccl_program_t *m) {
    for (size_t i = 0; m->shares && i < 3 * (size_t)m->nranks; i++)
        free((void *)m->shares[i]);
    free((void *)m->shares);
    for (uint32_t g = 0; g < m->ngroups; g++)
        free((void *)(uintptr_t)m->groups[g].ranks);
    free((void *)(uintptr_t)(m->ngroups ? m->groups : NULL));
    free((void *)m->peers);
    free(m->buffer_len);
    free(m->tbs);
    free(m->steps);
}

/** Deletes a step; waits for later steps of its block move along, waits for itself go. */
static inline void drop_step(ccl_program_t *m, uint32_t t, uint32_t i) {
    ccl_tb_t *tb = &m->tbs[t];
    uint32_t at = tb->first_step + i;
    memmove(&m->steps[at], &m->steps[at + 1], (m->nsteps - at - 1) * sizeof *m->steps);
    ccl_peers_t *peers = (ccl_peers_t *)m->peers;
    if (peers)
        memmove(&peers[at], &peers[at + 1], (m->nsteps - at - 1) * sizeof *peers);
    m->nsteps--;
    tb->nsteps--;
    for (uint32_t q = t + 1; q < m->ntbs; q++)
        m->tbs[q].first_step--;
    for (uint32_t q = m->rank_first_tb[tb->rank]; q < m->rank_first_tb[tb->rank + 1]; q++) {
        for (uint32_t k = 0; k < m->tbs[q].nsteps; k++) {
            ccl_step_t *s = &m->steps[m->tbs[q].first_step + k];
            if (s->dep_tb != tb->id)
                continue;
            if (s->dep_step == i)
                s->dep_tb = s->dep_step = CCL_NONE;
            else if (s->dep_step > i)
                s->dep_step--;
        }
    }
}

static inline bool same_step(const ccl_step_t *a, const ccl_step_t *b) {
    bool src = uses_src(a->type), dst = uses_dst(a->type);
    return a->type == b->type && a->count == b->count &&
           (!src || (a->src_buf == b->src_buf && a->src_off == b->src_off)) &&
           (!dst || (a->dst_buf == b->dst_buf && a->dst_off == b->dst_off)) &&
           a->dep_tb == b->dep_tb && a->dep_step == b->dep_step;
}

static inline bool overlap(uint8_t buf_a, uint32_t off_a, uint32_t len_a, uint8_t buf_b,
                           uint32_t off_b, uint32_t len_b) {
    return buf_a == buf_b && off_a < off_b + len_b && off_b < off_a + len_a;
}

/**
 * Whether swapping two steps of a block plainly changes nothing: they use different directions of
 * the connection and different elements, or add to the same sum.
 */
static inline bool commute(const ccl_step_t *a, const ccl_step_t *b) {
    if ((ccl_primitive_sends(a->type) && ccl_primitive_sends(b->type)) ||
        (ccl_primitive_receives(a->type) && ccl_primitive_receives(b->type)))
        return false;
    if (a->type == CCL_PRIM_RE && b->type == CCL_PRIM_RE && a->dst_buf == b->dst_buf &&
        a->dst_off == b->dst_off)
        return true;
    bool ws = uses_dst(a->type), wt = uses_dst(b->type);
    return !(ws && wt &&
             overlap(a->dst_buf, a->dst_off, a->count, b->dst_buf, b->dst_off, b->count)) &&
           !(ws && uses_src(b->type) &&
             overlap(a->dst_buf, a->dst_off, a->count, b->src_buf, b->src_off, b->count)) &&
           !(wt && uses_src(a->type) &&
             overlap(b->dst_buf, b->dst_off, b->count, a->src_buf, a->src_off, a->count));
}

/** Whether another block waits for step i of block t. */
static inline bool awaited(const ccl_program_t *m, uint32_t t, uint32_t i) {
    const ccl_tb_t *tb = &m->tbs[t];
    for (uint32_t q = m->rank_first_tb[tb->rank]; q < m->rank_first_tb[tb->rank + 1]; q++)
        for (uint32_t k = 0; k < m->tbs[q].nsteps && q != t; k++) {
            const ccl_step_t *s = &m->steps[m->tbs[q].first_step + k];
            if (s->dep_tb == tb->id && s->dep_step == i)
                return true;
        }
    return false;
}

/** Steps of different connections may often come in any order. */
static inline bool same_peers(const ccl_program_t *m, const ccl_step_t *a, const ccl_step_t *b) {
    return !m->peers ||
           memcmp(&m->peers[a - m->steps], &m->peers[b - m->steps], sizeof *m->peers) == 0;
}

/** A rank; of a program with groups also an end of a switch connection. */
static inline uint32_t mutant_peer(const ccl_program_t *m, ccl_rng_t *rng) {
    uint32_t rank = ccl_rng_below(rng, m->nranks);
    switch (m->ngroups ? ccl_rng_below(rng, 3) : 0) {
    case 1:
        return CCL_PEER_MEMBER | rank;
    case 2:
        return CCL_PEER_GROUP | ccl_rng_below(rng, m->ngroups);
    default:
        return rank;
    }
}

/** Takes a rank out of a group, or puts one in; false: it would be empty. */
static inline bool mutate_group(ccl_program_t *m, ccl_rng_t *rng) {
    ccl_peer_group_t *group =
        (ccl_peer_group_t *)(uintptr_t)&m->groups[ccl_rng_below(rng, m->ngroups)];
    uint32_t *ranks = (uint32_t *)(uintptr_t)group->ranks, rank = ccl_rng_below(rng, m->nranks);
    uint32_t at = 0;
    while (at < group->n && ranks[at] < rank)
        at++;
    if (at < group->n && ranks[at] == rank) {
        if (group->n == 1)
            return false;
        memmove(&ranks[at], &ranks[at + 1], (--group->n - at) * sizeof *ranks);
        return true;
    }
    memmove(&ranks[at + 1], &ranks[at], (group->n++ - at) * sizeof *ranks);
    ranks[at] = rank;
    return true;
}

static inline bool swap_steps(ccl_program_t *m, ccl_step_t *s, ccl_step_t *q) {
    ccl_step_t keep = *s;
    if (same_step(s, q) || commute(s, q) || !same_peers(m, s, q))
        return false;
    *s = *q;
    *q = keep;
    ccl_peers_t *peers = (ccl_peers_t *)m->peers, at;
    if (peers) {
        at = peers[s - m->steps];
        peers[s - m->steps] = peers[q - m->steps];
        peers[q - m->steps] = at;
    }
    uint8_t flag = s->has_dep; /* who waits, waits for the place */
    s->has_dep = q->has_dep;
    q->has_dep = flag;
    return true;
}

static inline bool change_peer(ccl_program_t *m, ccl_tb_t *tb, ccl_step_t *s, ccl_rng_t *rng) {
    ccl_peers_t *own = m->peers ? (ccl_peers_t *)&m->peers[s - m->steps] : NULL;
    bool sends = ccl_rng_below(rng, 2);
    uint32_t *peer =
        sends ? (own ? &own->send_peer : &tb->send_peer) : (own ? &own->recv_peer : &tb->recv_peer);
    uint32_t was = *peer;
    *peer = mutant_peer(m, rng);
    return was != CCL_NONE && *peer != was &&
           (!own || (sends ? ccl_primitive_sends(s->type) : ccl_primitive_receives(s->type)));
}

static inline bool change_channel(ccl_program_t *m, ccl_tb_t *tb, ccl_step_t *s, ccl_rng_t *rng) {
    ccl_peers_t *own = m->peers ? (ccl_peers_t *)&m->peers[s - m->steps] : NULL;
    uint32_t *channel = own ? &own->channel : &tb->channel;
    uint32_t was = *channel;
    *channel = ccl_rng_below(rng, m->nchannels + 1);
    return *channel != was && (own ? ccl_primitive_sends(s->type) || ccl_primitive_receives(s->type)
                                   : tb->send_peer != CCL_NONE || tb->recv_peer != CCL_NONE);
}

/** Changes one thing that matters; false when the dice named nothing to change. */
static inline bool mutate(ccl_program_t *m, mutation_t how, ccl_rng_t *rng) {
    uint32_t t = ccl_rng_below(rng, m->ntbs);
    ccl_tb_t *tb = &m->tbs[t];
    if (!tb->nsteps)
        return false;
    uint32_t i = ccl_rng_below(rng, tb->nsteps);
    ccl_step_t *s = &m->steps[tb->first_step + i];
    bool pick_src = uses_src(s->type) && (!uses_dst(s->type) || ccl_rng_below(rng, 2));
    uint32_t was;
    switch (how) {
    case DROP_DEP:
        was = s->dep_tb;
        s->dep_tb = s->dep_step = CCL_NONE;
        return was != CCL_NONE && was != tb->id;
    case DROP_FLAG:
        was = s->has_dep && awaited(m, t, i);
        s->has_dep = 0;
        return was;
    case SWAP_STEPS:
        return swap_steps(m, s, &m->steps[tb->first_step + ccl_rng_below(rng, tb->nsteps)]);
    case OFFSET: {
        uint32_t *off = pick_src ? &s->src_off : &s->dst_off;
        was = *off;
        uint32_t len = m->buffer_len[3 * tb->rank + (pick_src ? s->src_buf : s->dst_buf)];
        *off = ccl_rng_below(rng, len + 1);
        return s->type != CCL_PRIM_NOP && *off != was;
    }
    case COUNT:
        was = s->count;
        s->count = ccl_rng_below(rng, was + 3);
        return s->type != CCL_PRIM_NOP && s->count != was;
    case PEER:
        return change_peer(m, tb, s, rng);
    case CHANNEL:
        return change_channel(m, tb, s, rng);
    case DROP_STEP:
        was = s->type;
        drop_step(m, t, i);
        return was != CCL_PRIM_NOP;
    case TYPE:
        was = s->type;
        s->type = (uint8_t)ccl_rng_below(rng, CCL_PRIM_NOP + 1);
        return s->type != was && was != CCL_PRIM_NOP;
    default: {
        uint8_t *buffer = pick_src ? &s->src_buf : &s->dst_buf;
        was = *buffer;
        *buffer = (uint8_t)ccl_rng_below(rng, 3);
        bool alias = m->in_place && !m->out_of_place && *buffer != CCL_BUF_SCRATCH &&
                     was != CCL_BUF_SCRATCH &&
                     (m->coll->kind == CCL_ALLREDUCE || m->coll->kind == CCL_BROADCAST ||
                      m->coll->kind == CCL_REDUCE);
        return s->type != CCL_PRIM_NOP && *buffer != was && !alias;
    }
    }
}

/** Shares for all elements, as a program has them that needs none. */
static inline void mutant_shares(ccl_program_t *m) {
    size_t nbuffers = 3 * (size_t)m->nranks;
    const double **shares = malloc(nbuffers * sizeof *shares);
    for (size_t i = 0; i < nbuffers; i++) {
        double *of = malloc(m->buffer_len[i] * sizeof *of + 1);
        for (uint32_t e = 0; e < m->buffer_len[i]; e++)
            of[e] = 1.0 / m->nchunks;
        shares[i] = of;
    }
    m->shares = shares;
}

/** Another length of buffer i; what is new has the size of what was last. */
static inline void mutant_resize(ccl_program_t *m, size_t i, uint32_t len) {
    uint32_t old = m->buffer_len[i];
    if (m->shares) {
        double *of = malloc(len * sizeof *of + 1);
        for (uint32_t e = 0; e < len; e++)
            of[e] = e < old ? m->shares[i][e] : old ? m->shares[i][old - 1] : 0;
        free((void *)m->shares[i]);
        ((const double **)(void *)(uintptr_t)m->shares)[i] = of;
    }
    m->buffer_len[i] = len;
}

/** In place, one buffer for both at each rank where the other one's elements lie in it. */
static inline void mutant_fold(ccl_program_t *m, ccl_buffer_t keep) {
    ccl_buffer_t drop = keep == CCL_BUF_INPUT ? CCL_BUF_OUTPUT : CCL_BUF_INPUT;
    m->in_place = true;
    m->out_of_place = false;
    for (uint32_t r = 0; r < m->nranks && !m->shares; r++) {
        uint32_t first[2], *len = &m->buffer_len[3 * (size_t)r];
        if (!ccl_collective_in_place(m->coll, r, &first[CCL_BUF_INPUT], &first[CCL_BUF_OUTPUT]) ||
            first[drop] < first[keep])
            continue;
        uint32_t shift = first[drop] - first[keep];
        for (uint32_t t = m->rank_first_tb[r]; t < m->rank_first_tb[r + 1]; t++) {
            for (uint32_t i = 0; i < m->tbs[t].nsteps; i++) {
                ccl_step_t *s = &m->steps[m->tbs[t].first_step + i];
                s->src_off += s->src_buf == drop ? shift : 0;
                s->src_buf = s->src_buf == drop ? (uint8_t)keep : s->src_buf;
                s->dst_off += s->dst_buf == drop ? shift : 0;
                s->dst_buf = s->dst_buf == drop ? (uint8_t)keep : s->dst_buf;
            }
        }
        len[keep] = len[drop] + shift > len[keep] ? len[drop] + shift : len[keep];
        len[drop] = 0;
    }
}

typedef enum place_mutation {
    LENGTH,
    NO_BUFFER,
    FOLD,
    SHARE,
    SHARES,
    WAYS,
    STAGE,
    PLACE_MUTATIONS
} place_mutation_t;

/** Changes lengths or sizes of buffers, how the program is called, or the stage of a step. */
static inline void mutate_places(ccl_program_t *m, place_mutation_t how, ccl_rng_t *rng) {
    static const double factors[] = {0, 0.5, 1 + 1e-13, 1 + 1e-10, 1 - 1e-10, 1 + 1e-6};
    size_t i = ccl_rng_below(rng, 3 * m->nranks);
    uint32_t buffer = ccl_rng_below(rng, 2); /* input or output */
    double factor = factors[ccl_rng_below(rng, (uint32_t)CCL_ARRAY_LEN(factors))];
    switch (how) {
    case LENGTH:
        mutant_resize(m, i, ccl_rng_below(rng, m->buffer_len[i] + 3));
        break;
    case NO_BUFFER: /* of all ranks: in place it may be the other one */
        for (uint32_t r = 0; r < m->nranks; r++)
            mutant_resize(m, 3 * (size_t)r + buffer, 0);
        break;
    case FOLD:
        mutant_fold(m, (ccl_buffer_t)buffer);
        break;
    case SHARE:
    case SHARES:
        if (!m->shares)
            mutant_shares(m);
        for (size_t k = how == SHARES ? 0 : i; k < (how == SHARES ? 3 * (size_t)m->nranks : i + 1);
             k++)
            for (uint32_t e = 0; e < m->buffer_len[k]; e++)
                if (how == SHARES || ccl_rng_below(rng, 2))
                    ((double *)(uintptr_t)m->shares[k])[e] *= factor;
        break;
    case STAGE:
        m->steps[ccl_rng_below(rng, m->nsteps)].stage = (uint16_t)ccl_rng_below(rng, 4);
        break;
    default:
        m->in_place = ccl_rng_below(rng, 2);
        m->out_of_place = ccl_rng_below(rng, 2);
    }
}

#endif
