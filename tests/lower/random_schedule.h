/* Random valid schedules: trees that no synthesizer would make, and exchanges in one step. */
#ifndef CCL_TESTS_SYNTH_RANDOM_SCHEDULE_H
#define CCL_TESTS_SYNTH_RANDOM_SCHEDULE_H

#include "tests/synth/common.h"

static inline void shuffle(ccl_rng_t *rng, uint32_t *items, uint32_t n) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = ccl_rng_below(rng, i), item = items[k];
        items[k] = items[i - 1];
        items[i - 1] = item;
    }
}

typedef struct random_schedule {
    ccl_rng_t *rng;
    ccl_schedule_builder_t *b;
    uint32_t nranks, channels, phases;
} random_schedule_t;

static inline void random_add(random_schedule_t *s, uint32_t src, uint32_t dst, uint32_t chunk,
                              uint32_t step, bool reduce) {
    ccl_schedule_builder_add(
        s->b, (ccl_transfer_t){.src = src,
                               .dst = dst,
                               .chunk = chunk,
                               .step = step,
                               .channel = (uint16_t)ccl_rng_below(s->rng, s->channels),
                               .reduce = reduce,
                               .phase = (uint8_t)ccl_rng_below(s->rng, s->phases)});
}

/* A random tree over ranks[0 .. n), ranks[0] its root. @return the last step + 1 */
static inline uint32_t random_tree(random_schedule_t *s, const uint32_t *ranks, uint32_t n,
                                   uint32_t chunk, uint32_t step, bool up) {
    uint32_t at[64], parent[64], last = step;
    at[0] = step;
    parent[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        /* Behind the newest (a chain), at the root (a star), or anywhere. */
        uint32_t how = ccl_rng_below(s->rng, 3);
        parent[i] = how == 0 ? i - 1 : how == 1 ? 0 : ccl_rng_below(s->rng, i);
        at[i] = at[parent[i]] + 1 + ccl_rng_below(s->rng, 3);
        last = at[i] > last ? at[i] : last;
    }
    for (uint32_t i = 1; i < n; i++) {
        if (up)
            random_add(s, ranks[i], ranks[parent[i]], chunk, step + last - at[i], true);
        else
            random_add(s, ranks[parent[i]], ranks[i], chunk, at[i] - 1, false);
    }
    return last + 1;
}

/* All ranks of a row of a grid give each other what they hold in one step; then all of a column. */
static inline void random_exchange(random_schedule_t *s, uint32_t *ranks, uint32_t chunk) {
    uint32_t width = 1 + ccl_rng_below(s->rng, s->nranks), step = ccl_rng_below(s->rng, 3);
    while (s->nranks % width)
        width--;
    shuffle(s->rng, ranks, s->nranks);
    for (uint32_t i = 0; i < s->nranks; i++) {
        for (uint32_t k = 0; k < s->nranks; k++) {
            if (i != k && i / width == k / width)
                random_add(s, ranks[i], ranks[k], chunk, step, true);
            else if (i != k && i % width == k % width)
                random_add(s, ranks[i], ranks[k], chunk, step + 1, true);
        }
    }
}

/** Valid, of the kind given (AllGather, ReduceScatter, AllReduce, Broadcast or Reduce). */
static inline ccl_schedule_t *random_schedule(ccl_rng_t *rng, ccl_collective_kind_t kind,
                                              uint32_t nranks) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t ranks[64], parts = 1 + ccl_rng_below(rng, 3);
    ck_assert_uint_le(nranks, 64);
    if (kind == CCL_ALLREDUCE || kind == CCL_BROADCAST || kind == CCL_REDUCE)
        parts = 1 + ccl_rng_below(rng, 2 * nranks);
    ck_assert_int_eq(
        ccl_collective_create(kind, nranks, parts, ccl_rng_below(rng, nranks), &coll, NULL),
        CCL_OK);
    random_schedule_t s = {rng, NULL, nranks, 1 + ccl_rng_below(rng, 3), 1 + ccl_rng_below(rng, 4)};
    const ccl_chunk_t *chunks = coll->chunks;
    uint32_t nchunks = coll->nchunks;
    s.b = ccl_schedule_builder_create("random", coll);
    ck_assert_ptr_nonnull(s.b);
    for (uint32_t k = 0; k < nchunks; k++) {
        const ccl_chunk_t *c = &chunks[k];
        uint32_t root = c->reduced ? c->dests[ccl_rng_below(rng, c->ndests)] : c->sources[0];
        uint32_t step = ccl_rng_below(rng, 4);
        for (uint32_t r = 0; r < nranks; r++)
            ranks[r] = r;
        if (kind == CCL_ALLREDUCE && ccl_rng_below(rng, 3) == 0) {
            random_exchange(&s, ranks, k);
            continue;
        }
        ranks[root] = 0;
        ranks[0] = root;
        shuffle(rng, ranks + 1, nranks - 1);
        if (c->reduced)
            step = random_tree(&s, ranks, nranks, k, step, true) + ccl_rng_below(rng, 2);
        shuffle(rng, ranks + 1, nranks - 1);
        if (c->ndests > 1)
            random_tree(&s, ranks, nranks, k, step, false);
    }
    ck_assert_msg(ccl_schedule_builder_finish(s.b, &schedule, &err) == CCL_OK, "%s", err.text);
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ck_assert_int_eq(ccl_schedule_verify(NULL, schedule, verdict, &err), CCL_OK);
    ck_assert_msg(verdict->valid, "%s", verdict->fault.text);
    free(verdict);
    return schedule;
}

#endif
