/* Programs in which blocks are shared by several connections, made from programs without. */
#ifndef CCL_TESTS_SCHEDULE_SHARE_H
#define CCL_TESTS_SCHEDULE_SHARE_H

#include "schedule/schedule.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/** A peer of a program in a builder of another. */
static inline uint32_t share_peer(ccl_program_builder_t *b, const ccl_program_t *p, uint32_t peer) {
    const ccl_peer_group_t *group = ccl_program_group(p, peer);
    return group ? ccl_program_builder_group(b, group->ranks, group->n) : peer;
}

/** A program like p, without blocks. */
static inline ccl_program_builder_t *share_begin(const ccl_program_t *p) {
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_clone(p->coll, &coll, NULL), CCL_OK);
    ccl_program_builder_t *b = ccl_program_builder_create(p->name, coll, p->nchunks, p->proto);
    ccl_program_builder_place(b, p->in_place, p->out_of_place, p->min_bytes, p->max_bytes);
    for (uint32_t g = 0; g < p->ngroups; g++)
        ccl_program_builder_group(b, p->groups[g].ranks, p->groups[g].n);
    for (uint32_t i = 0; i < 3 * p->nranks; i++) {
        ccl_program_builder_buffer(b, i / 3, (ccl_buffer_t)(i % 3), p->buffer_len[i]);
        if (p->shares)
            ccl_program_builder_shares(b, i / 3, (ccl_buffer_t)(i % 3), p->shares[i]);
    }
    return b;
}

/** into[t]: the first of the blocks that t becomes one with. */
static inline void share_choose(const ccl_program_t *p, ccl_rng_t *rng, uint32_t *into) {
    for (uint32_t t = 0; t < p->ntbs; t++) {
        into[t] = t;
        for (uint32_t q = p->rank_first_tb[p->tbs[t].rank]; q < t && into[t] == t; q++)
            if (into[q] == q && ccl_rng_below(rng, 3) == 0)
                into[t] = q;
    }
}

/**
 * Some blocks of a rank become one that all their connections share, their steps interleaved at
 * random. Destroys p. What it computes stays, but it may block.
 */
static inline ccl_program_t *share_blocks(ccl_program_t *p, ccl_rng_t *rng) {
    size_t nt = p->ntbs + (size_t)1, ns = p->nsteps + (size_t)1;
    uint32_t *into = calloc(nt, sizeof *into), *id = calloc(nt, sizeof *id);
    uint32_t *handle = calloc(nt, sizeof *handle), *next = calloc(nt, sizeof *next);
    uint32_t *at = calloc(ns, sizeof *at), *order = calloc(ns, sizeof *order);
    uint32_t *owner = calloc(ns, sizeof *owner), *ids = calloc(p->nranks, sizeof *ids);
    uint32_t norder = 0;
    share_choose(p, rng, into);
    ccl_program_builder_t *b = share_begin(p);
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        uint32_t end = p->rank_first_tb[tb->rank + 1], left = 0, parts = 0;
        if (into[t] != t)
            continue;
        id[t] = ids[tb->rank]++;
        for (uint32_t q = t; q < end; q++) {
            left += into[q] == t ? p->tbs[q].nsteps : 0;
            parts += into[q] == t;
        }
        for (uint32_t n = 0; n < left;) {
            uint32_t q = t + ccl_rng_below(rng, end - t);
            if (into[q] != t || next[q] == p->tbs[q].nsteps)
                continue;
            uint32_t s = p->tbs[q].first_step + next[q]++;
            at[s] = n++;
            owner[norder] = q;
            order[norder++] = s;
        }
        handle[t] = ccl_program_builder_tb(
            b, tb->rank, parts > 1 ? CCL_NONE : share_peer(b, p, tb->send_peer),
            parts > 1 ? CCL_NONE : share_peer(b, p, tb->recv_peer), tb->channel);
    }
    for (uint32_t i = 0; i < norder; i++) {
        const ccl_tb_t *tb = &p->tbs[owner[i]];
        ccl_step_t step = p->steps[order[i]];
        if (step.dep_tb != CCL_NONE) {
            uint32_t on = p->rank_first_tb[tb->rank] + step.dep_tb;
            step.dep_step = at[p->tbs[on].first_step + step.dep_step];
            step.dep_tb = id[into[on]];
        }
        ccl_program_builder_step_peers(b, handle[into[owner[i]]], step,
                                       (ccl_peers_t){share_peer(b, p, tb->send_peer),
                                                     share_peer(b, p, tb->recv_peer), tb->channel});
    }
    ccl_program_destroy(p);
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
    free(into);
    free(id);
    free(handle);
    free(next);
    free(at);
    free(order);
    free(owner);
    free(ids);
    return p;
}

#endif
