/* Right programs of switch connections, made at random. */
#ifndef CCL_TESTS_SCHEDULE_SWITCHES_H
#define CCL_TESTS_SCHEDULE_SWITCHES_H

#include "tests/schedule/share.h"

typedef struct switches {
    ccl_program_builder_t *b;
    ccl_rng_t *rng;
    uint32_t n, c, nchannels;
    bool self;                      /* the single GPU is a member of its group */
    bool scratch;                   /* what is offered is copied into scratch before */
    bool fused;                     /* one primitive pulls and multicasts */
    bool split;                     /* a step per element */
    bool in_place;                  /* and never otherwise: nothing need be copied to the output */
    uint32_t first, count, channel; /* elements of each part that this channel works on */
    uint32_t ids[16];               /* blocks of each rank so far */
} switches_t;

static inline uint32_t switches_block(switches_t *w, uint32_t rank, uint32_t send, uint32_t recv) {
    w->ids[rank]++;
    return ccl_program_builder_tb(w->b, rank, send, recv, w->channel);
}

/** All ranks, or all but one. */
static inline uint32_t switches_group(switches_t *w, uint32_t rank, bool self) {
    uint32_t ranks[16], n = 0;
    for (uint32_t r = 0; r < w->n; r++)
        if (r != rank || self)
            ranks[n++] = r;
    return ccl_program_builder_group(w->b, ranks, n);
}

typedef struct switches_place {
    uint8_t buffer;
    uint32_t part;
} switches_place_t;

/** The elements of this channel in a part, in one step or one each; waits for another block
 * that made as many. */
static inline void switches_steps(switches_t *w, uint32_t block, ccl_primitive_t type,
                                  switches_place_t src, switches_place_t dst, uint32_t dep) {
    uint32_t each = w->split ? 1 : w->count;
    for (uint32_t e = 0; e < w->count; e += each) {
        ccl_step_t s = {.type = (uint8_t)type,
                        .src_buf = src.buffer,
                        .src_off = src.part * w->c + w->first + e,
                        .dst_buf = dst.buffer,
                        .dst_off = dst.part * w->c + w->first + e,
                        .count = each,
                        .dep_tb = dep,
                        .dep_step = dep == CCL_NONE ? CCL_NONE : e / each};
        ccl_program_builder_step(w->b, block, s);
    }
}

/** The members of `single` offer a part of their input. */
static inline void switches_offers(switches_t *w, uint32_t single, uint32_t part) {
    for (uint32_t r = 0; r < w->n; r++) {
        uint32_t copied = CCL_NONE;
        if (r == single && !w->self)
            continue;
        if (w->scratch) {
            copied = w->ids[r];
            switches_steps(w, switches_block(w, r, CCL_NONE, CCL_NONE), CCL_PRIM_CPY,
                           (switches_place_t){CCL_BUF_INPUT, part},
                           (switches_place_t){CCL_BUF_SCRATCH, part}, CCL_NONE);
        }
        uint32_t block = switches_block(w, r, CCL_PEER_MEMBER | single, CCL_NONE);
        switches_steps(w, block, CCL_PRIM_S,
                       (switches_place_t){w->scratch ? CCL_BUF_SCRATCH : CCL_BUF_INPUT, part},
                       (switches_place_t){CCL_BUF_INPUT, part}, copied);
    }
}

/** They take what it multicasts. */
static inline void switches_takes(switches_t *w, uint32_t single, uint32_t part, bool self) {
    for (uint32_t r = 0; r < w->n; r++)
        if (r != single || self)
            switches_steps(w, switches_block(w, r, CCL_NONE, CCL_PEER_MEMBER | single), CCL_PRIM_R,
                           (switches_place_t){CCL_BUF_OUTPUT, part},
                           (switches_place_t){CCL_BUF_OUTPUT, part}, CCL_NONE);
}

/** `single` pulls a part, adds its own where it is no member, and multicasts the sum. */
static inline void switches_allreduce(switches_t *w, uint32_t single) {
    uint32_t group = switches_group(w, single, w->self), part = single, pulled;
    switches_offers(w, single, part);
    if (w->fused) { /* its own result is what the pull writes */
        uint32_t others = switches_group(w, single, false);
        switches_steps(w, switches_block(w, single, others, group),
                       w->self ? CCL_PRIM_RCS : CCL_PRIM_RRCS,
                       (switches_place_t){CCL_BUF_INPUT, part},
                       (switches_place_t){CCL_BUF_OUTPUT, part}, CCL_NONE);
        switches_takes(w, single, part, false);
        return;
    }
    pulled = w->ids[single]; /* by a block; another one multicasts, with itself through scratch */
    uint8_t between = w->self ? CCL_BUF_SCRATCH : CCL_BUF_OUTPUT;
    uint32_t at = w->self ? w->n : part;
    switches_steps(w, switches_block(w, single, CCL_NONE, group),
                   w->self ? CCL_PRIM_R : CCL_PRIM_RRC, (switches_place_t){CCL_BUF_INPUT, part},
                   (switches_place_t){between, at}, CCL_NONE);
    switches_steps(w, switches_block(w, single, group, CCL_NONE), CCL_PRIM_S,
                   (switches_place_t){between, at}, (switches_place_t){CCL_BUF_OUTPUT, part},
                   pulled);
    switches_takes(w, single, part, w->self);
}

static inline void switches_rank(switches_t *w, ccl_collective_kind_t kind, uint32_t r) {
    uint32_t group = switches_group(w, r, w->self);
    switch (kind) {
    case CCL_ALLREDUCE:
        switches_allreduce(w, r);
        break;
    case CCL_REDUCESCATTER:
    case CCL_REDUCE:
        switches_offers(w, r, kind == CCL_REDUCE ? 0 : r);
        switches_steps(w, switches_block(w, r, CCL_NONE, group),
                       w->self ? CCL_PRIM_R : CCL_PRIM_RRC,
                       (switches_place_t){CCL_BUF_INPUT, kind == CCL_REDUCE ? 0 : r},
                       (switches_place_t){CCL_BUF_OUTPUT, 0}, CCL_NONE);
        break;
    default: /* AllGather, Broadcast */
        switches_steps(w, switches_block(w, r, group, CCL_NONE), CCL_PRIM_S,
                       (switches_place_t){CCL_BUF_INPUT, 0},
                       (switches_place_t){CCL_BUF_OUTPUT, kind == CCL_BROADCAST ? 0 : r}, CCL_NONE);
        switches_takes(w, r, kind == CCL_BROADCAST ? 0 : r, w->self);
        if (!w->self && !w->in_place)
            switches_steps(w, switches_block(w, r, CCL_NONE, CCL_NONE), CCL_PRIM_CPY,
                           (switches_place_t){CCL_BUF_INPUT, 0},
                           (switches_place_t){CCL_BUF_OUTPUT, kind == CCL_BROADCAST ? 0 : r},
                           CCL_NONE);
    }
}

/**
 * AllReduce, AllGather, ReduceScatter, Broadcast or Reduce of 3 or 4 ranks, each part pulled and
 * multicast by its owner (or by the root), on 1 to 3 channels, one way or the other.
 */
static inline ccl_program_t *switch_program(ccl_rng_t *rng) {
    static const ccl_collective_kind_t kinds[] = {CCL_ALLREDUCE, CCL_ALLGATHER, CCL_REDUCESCATTER,
                                                  CCL_BROADCAST, CCL_REDUCE};
    static const char *const protos[] = {"Simple", "LL", "LL128"};
    ccl_collective_kind_t kind = kinds[ccl_rng_below(rng, 5)];
    bool rooted = kind == CCL_BROADCAST || kind == CCL_REDUCE;
    switches_t w = {.rng = rng,
                    .n = 3 + ccl_rng_below(rng, 2),
                    .c = 1 + ccl_rng_below(rng, 4),
                    .self = ccl_rng_below(rng, 2),
                    .scratch = ccl_rng_below(rng, 3) == 0,
                    .fused = ccl_rng_below(rng, 3) > 0,
                    .split = ccl_rng_below(rng, 2)};
    uint32_t root = rooted ? ccl_rng_below(rng, w.n) : 0;
    uint32_t per_shard = kind == CCL_ALLREDUCE ? w.n * w.c : w.c;
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_collective_create(kind, w.n, per_shard, root, &coll, NULL), CCL_OK);
    uint32_t nchunks = rooted || kind == CCL_ALLREDUCE ? per_shard : w.n * w.c;
    w.b = ccl_program_builder_create("switch", coll, nchunks, protos[ccl_rng_below(rng, 3)]);
    uint32_t ways = 1 + ccl_rng_below(rng, 3);
    w.in_place = ways == 1;
    ccl_program_builder_place(w.b, ways & 1, ways & 2, 0, 0);
    for (uint32_t r = 0; r < w.n; r++)
        ccl_program_builder_buffer(w.b, r, CCL_BUF_SCRATCH, (w.n + 1) * w.c);
    w.nchannels = 1 + ccl_rng_below(rng, w.c < 3 ? w.c : 3);
    for (w.channel = 0; w.channel < w.nchannels; w.channel++) {
        w.first = w.channel * w.c / w.nchannels;
        w.count = (w.channel + 1) * w.c / w.nchannels - w.first;
        for (uint32_t r = rooted ? root : 0; r < (rooted ? root + 1 : w.n); r++)
            switches_rank(&w, kind, r);
    }
    ccl_program_t *p = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_program_builder_finish(w.b, &p, &err) == CCL_OK, "%s", err.text);
    return p;
}

#endif
