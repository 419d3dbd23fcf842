/*
 * Lowering: pieces of different sizes to begin with, or to end with.
 *
 * Thread blocks that share links and pass on pieces of one size keep step: all pay the overhead of
 * their next piece at the same time, while the links stand still. Where they begin with pieces of
 * different sizes, some send while others pay. So a micro-batch's pieces become steps of the
 * program: of a group's elements first a part of a piece, then whole ones, then the rest of one.
 *
 * An AllReduce ends with small pieces: after its last reductions nothing is left to do meanwhile,
 * and the smaller the last copies are, the sooner they are passed on. Its elements are all alike,
 * so those of a piece lie side by side, and steps of several elements stay steps.
 */
#include "lower/lower_i.h"

#include <stdlib.h>

/* What a group does in a round: units of an element, `stagger` of which are a piece. */
typedef struct part {
    uint32_t first, n;
} part_t;

static part_t part_of(const ccl_i_lower_how_t *how, uint32_t group, uint32_t round) {
    uint32_t begin = group + 1, whole = how->pieces - 2;
    if (how->small_end)
        return round < whole ? (part_t){round * how->stagger, how->stagger}
                             : (part_t){whole * (how->stagger - 1) + round, 1};
    if (round == 0)
        return (part_t){0, begin};
    uint32_t first = begin + (round - 1) * how->stagger, end = how->pieces * how->stagger;
    return (part_t){first, first + how->stagger <= end ? how->stagger : end - first};
}

static uint32_t rounds_of(const ccl_i_lower_how_t *how) {
    return how->small_end ? how->pieces - 2 + 2 * how->stagger : how->pieces + 1;
}

/* A step's part in a round. @param rank_tbs  the blocks of its rank; len: [3] of its buffers */
static ccl_step_t step_of(const ccl_i_lower_how_t *how, const ccl_tb_t *rank_tbs,
                          const uint32_t *len, ccl_step_t s, part_t part, uint32_t round) {
    uint32_t units = how->pieces * how->stagger;
    if (part.n == 0) /* a group without a rest */
        return (ccl_step_t){.type = CCL_PRIM_NOP, .dep_tb = CCL_NONE, .dep_step = CCL_NONE};
    if (s.dep_tb != CCL_NONE)
        s.dep_step += round * rank_tbs[s.dep_tb].nsteps;
    if (s.type == CCL_PRIM_NOP)
        return s;
    s.count *= part.n;
    s.src_off = how->small_end ? part.first * len[s.src_buf] + s.src_off * part.n
                               : s.src_off * units + part.first;
    s.dst_off = how->small_end ? part.first * len[s.dst_buf] + s.dst_off * part.n
                               : s.dst_off * units + part.first;
    return s;
}

ccl_status_t ccl_i_lower_stagger(const ccl_i_lower_how_t *how, const uint32_t *chunk,
                                 ccl_program_t **program, ccl_error_t *err) {
    ccl_program_t *p = *program;
    uint32_t units = how->pieces * how->stagger;
    ccl_collective_t *coll = NULL;
    *program = NULL;
    ccl_status_t status = ccl_collective_split(p->coll, units, &coll, err);
    if (status != CCL_OK)
        goto end;
    ccl_program_builder_t *b =
        ccl_program_builder_create(p->name, coll, p->nchunks * units, p->proto);
    if (!b) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    ccl_program_builder_place(b, p->in_place, p->out_of_place, p->min_bytes, p->max_bytes);
    ccl_program_builder_reserve(b, p->ntbs, (size_t)p->nsteps * rounds_of(how));
    for (uint32_t i = 0; i < 3 * p->nranks; i++)
        ccl_program_builder_buffer(b, i / 3, (ccl_buffer_t)(i % 3), p->buffer_len[i] * units);
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t], *rank_tbs = &p->tbs[p->rank_first_tb[tb->rank]];
        uint32_t handle =
            ccl_program_builder_tb(b, tb->rank, tb->send_peer, tb->recv_peer, tb->channel);
        for (uint32_t round = 0; round < rounds_of(how); round++) {
            for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++) {
                uint32_t group = (uint32_t)((uint64_t)chunk[s] * how->stagger / p->coll->nchunks);
                ccl_program_builder_step(b, handle,
                                         step_of(how, rank_tbs,
                                                 p->buffer_len + 3 * (size_t)tb->rank, p->steps[s],
                                                 part_of(how, group, round), round));
            }
        }
    }
    status = ccl_program_builder_finish(b, program, err);
    if (status == CCL_OK)
        (*program)->piece_bytes = how->piece_bytes / how->stagger;
end:
    ccl_program_destroy(p);
    return status;
}
