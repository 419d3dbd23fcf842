/**
 * @file values.c
 * Filling, poisoning and checking of buffers.
 */
#include "runtime/host/values.h"

#include "runtime/host/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 2048 };

/* Whole numbers up to 2^n are exact: 24 in fp32, 11 in fp16, 8 in bf16. */
static uint32_t exact_bits(ccl_type_t type) {
    return type == CCL_TYPE_FP32 ? 24 : type == CCL_TYPE_FP16 ? 11 : 8;
}

uint32_t ccl_i_values_bits(ccl_type_t type, ccl_reduction_t op, const ccl_chunk_t *chunk,
                           uint32_t *every_out) {
    *every_out = 1;
    if (type == CCL_TYPE_INT32)
        return 32; /* sums wrap around */
    uint32_t exact = exact_bits(type), terms = chunk->nsources;
    if (!chunk->reduced || op != CCL_OP_SUM || terms < 2)
        return exact + 1;
    /* Where there are too many terms, only some contribute more than 0 at each position. */
    while (terms > 1u << exact) {
        *every_out *= 2;
        terms = (chunk->nsources + *every_out - 1) / *every_out;
    }
    uint32_t bits = 1;
    while (bits <= exact && (uint64_t)terms << bits <= UINT64_C(1) << exact)
        bits++;
    return bits; /* terms * 2^(bits-1) <= 2^exact */
}

static inline uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

static uint32_t seed_of(uint32_t rank, uint32_t chunk, uint32_t run) {
    uint32_t key[3] = {rank, chunk, run};
    uint64_t h = ccl_hash64(key, sizeof key, 0);
    return mix((uint32_t)(h ^ h >> 32));
}

/** One contribution to one chunk. */
typedef struct term {
    uint32_t seed, bits;
    uint32_t every, index; /* of `every` terms one is not 0 */
} term_t;

static inline int32_t term_value(const term_t *t, uint64_t item) {
    uint32_t h = mix(t->seed + (uint32_t)item * 0x9e3779b9u + (uint32_t)(item >> 32));
    return (int32_t)(h >> (32 - t->bits)) - (int32_t)(UINT32_C(1) << (t->bits - 1) & 0x7fffffffu);
}

static void term_tile(const term_t *t, uint64_t begin, size_t n, int32_t *out) {
    if (t->bits == 32) {
        for (size_t i = 0; i < n; i++)
            out[i] = (int32_t)mix(t->seed + (uint32_t)(begin + i) * 0x9e3779b9u +
                                  (uint32_t)((begin + i) >> 32));
        return;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = term_value(t, begin + i);
    for (size_t i = 0; i < n && t->every > 1; i++)
        if ((begin + i + t->index) % t->every)
            out[i] = 0;
}

static term_t term_of(const ccl_i_values_t *v, uint32_t chunk, uint32_t source, uint32_t run) {
    const ccl_chunk_t *c = &v->program->coll->chunks[chunk];
    term_t t = {.seed = seed_of(c->sources[source], chunk, run), .index = source};
    t.bits = ccl_i_values_bits(v->type, v->op, c, &t.every);
    return t;
}

static uint32_t input_of(const ccl_i_values_t *v, uint32_t rank, uint32_t chunk) {
    return ccl_i_layout_find(v->program, v->layout, rank, CCL_BUF_INPUT,
                             ccl_collective_input(v->program->coll, rank, chunk));
}

/** ccl_program_check() has seen that there is one. */
static uint32_t output_of(const ccl_i_values_t *v, uint32_t rank, uint32_t chunk) {
    return ccl_i_layout_find(v->program, v->layout, rank, CCL_BUF_OUTPUT,
                             ccl_collective_output(v->program->coll, rank, chunk));
}

/* ---------------------------------------------------------------- filling */

typedef struct fill {
    const ccl_i_values_t *values;
    uint32_t run;
} fill_t;

/* NaN in the floating types; in int32 a number that no formula favours. */
static const uint32_t int_poison = 0x7fdecea5u;

static void poison(ccl_type_t type, void *memory, uint64_t items) {
    uint32_t *w = memory;
    uint16_t *h = memory;
    uint32_t word = type == CCL_TYPE_INT32 ? int_poison : 0x7fc0deadu;
    uint16_t half = type == CCL_TYPE_FP16 ? 0x7e5a : 0x7fda;
    if (type == CCL_TYPE_INT32 || type == CCL_TYPE_FP32)
        for (uint64_t i = 0; i < items; i++)
            w[i] = word;
    else
        for (uint64_t i = 0; i < items; i++)
            h[i] = half;
}

static ccl_status_t fill_rank(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    const fill_t *f = user;
    const ccl_i_values_t *v = f->values;
    const ccl_collective_t *coll = v->program->coll;
    uint32_t rank = v->first_rank + index;
    char *memory = v->memory[rank];
    int32_t tile[TILE];
    (void)worker;
    (void)err;
    poison(v->type, memory, v->layout->rank_items[rank]);
    for (uint32_t k = 0; k < coll->nchunks; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        uint32_t e = input_of(v, rank, k);
        if (e == CCL_NONE)
            continue;
        uint32_t source = 0, hi = c->nsources;
        while (source + 1 < hi) { /* ascending */
            uint32_t mid = source + (hi - source) / 2;
            if (c->sources[mid] <= rank)
                source = mid;
            else
                hi = mid;
        }
        term_t term = term_of(v, k, source, f->run);
        for (uint64_t at = 0; at < v->layout->items[e]; at += TILE) {
            uint64_t left = v->layout->items[e] - at;
            size_t n = left < TILE ? (size_t)left : TILE;
            term_tile(&term, at, n, tile);
            ccl_i_from_int(v->type, tile, memory + (v->layout->at[e] + at) * v->layout->item_bytes,
                           n);
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_values_fill(const ccl_i_values_t *values, uint32_t run, ccl_error_t *err) {
    fill_t f = {values, run};
    return ccl_parallel_for(values->end_rank - values->first_rank, values->threads, fill_rank, &f,
                            err);
}

/* ---------------------------------------------------------------- checking */

typedef struct worker_result {
    uint64_t checked, wrong;
    ccl_run_fault_t fault;
} worker_result_t;

typedef struct check {
    const ccl_i_values_t *values;
    uint32_t run;
    worker_result_t *results; /* by worker */
} check_t;

static void reduce_tile(ccl_reduction_t op, const int32_t *term, size_t n, int32_t *sum) {
    ccl_i_reduce_get(CCL_TYPE_INT32, op)(sum, sum, term, n);
}

static void expect_tile(const ccl_i_values_t *v, uint32_t chunk, uint32_t run, uint64_t at,
                        size_t n, int32_t *out) {
    const ccl_chunk_t *c = &v->program->coll->chunks[chunk];
    int32_t term[TILE];
    for (uint32_t s = 0; s < c->nsources; s++) {
        term_t t = term_of(v, chunk, s, run);
        term_tile(&t, at, n, s ? term : out);
        if (s)
            reduce_tile(v->op, term, n, out);
        if (!c->reduced)
            break;
    }
}

static void blame(const check_t *x, uint32_t rank, uint32_t chunk, uint64_t item,
                  const void *expected, const void *got, worker_result_t *r) {
    const ccl_i_values_t *v = x->values;
    uint64_t at = v->layout->at[output_of(v, rank, chunk)] + item;
    uint64_t offset = (at - v->layout->output_at[rank]) * v->layout->item_bytes;
    if (r->wrong > 1 &&
        (rank > r->fault.rank || (rank == r->fault.rank && offset > r->fault.offset_bytes)))
        return;
    r->fault = (ccl_run_fault_t){.rank = rank,
                                 .chunk = chunk,
                                 .element = ccl_collective_output(v->program->coll, rank, chunk),
                                 .repeat = x->run,
                                 .item = item,
                                 .offset_bytes = offset,
                                 .expected = ccl_i_item_value(v->type, expected),
                                 .got = ccl_i_item_value(v->type, got)};
    if (v->type == CCL_TYPE_INT32 && memcmp(got, &int_poison, sizeof int_poison) == 0)
        r->fault.got = NAN;
}

static void compare(const check_t *x, uint32_t rank, uint32_t chunk, uint64_t at, size_t n,
                    const char *expected, worker_result_t *r) {
    const ccl_i_values_t *v = x->values;
    uint32_t bytes = v->layout->item_bytes;
    uint64_t first = v->layout->at[output_of(v, rank, chunk)];
    const char *got = (const char *)v->memory[rank] + (first + at) * bytes;
    r->checked += n;
    if (memcmp(expected, got, n * bytes) == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        if (memcmp(expected + i * bytes, got + i * bytes, bytes) == 0)
            continue;
        r->wrong++;
        blame(x, rank, chunk, at + i, expected + i * bytes, got + i * bytes, r);
    }
}

static ccl_status_t check_chunk(uint32_t chunk, uint32_t worker, void *user, ccl_error_t *err) {
    const check_t *x = user;
    const ccl_i_values_t *v = x->values;
    const ccl_collective_t *coll = v->program->coll;
    const ccl_chunk_t *c = &coll->chunks[chunk];
    worker_result_t *r = &x->results[worker];
    int32_t sum[TILE];
    uint32_t typed[TILE];
    (void)err;
    uint64_t items = 0; /* the same wherever the chunk is */
    for (uint32_t i = 0; i < c->ndests && !items && c->share > 0; i++)
        if (c->dests[i] >= v->first_rank && c->dests[i] < v->end_rank)
            items = v->layout->items[output_of(v, c->dests[i], chunk)];
    for (uint64_t at = 0; at < items; at += TILE) {
        size_t n = items - at < TILE ? (size_t)(items - at) : TILE;
        expect_tile(v, chunk, x->run, at, n, sum);
        ccl_i_from_int(v->type, sum, typed, n);
        for (uint32_t i = 0; i < c->ndests; i++) {
            uint32_t rank = c->dests[i];
            if (rank >= v->first_rank && rank < v->end_rank)
                compare(x, rank, chunk, at, n, (const char *)typed, r);
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_values_check(const ccl_i_values_t *values, uint32_t run, uint64_t *checked,
                                uint64_t *wrong, ccl_run_fault_t *fault, ccl_error_t *err) {
    uint32_t threads = values->threads ? values->threads : 1;
    check_t x = {values, run, calloc(threads, sizeof *x.results)};
    if (!x.results)
        return ccl_fail_nomem(err);
    ccl_status_t status =
        ccl_parallel_for(values->program->coll->nchunks, threads, check_chunk, &x, err);
    uint64_t found = 0;
    for (uint32_t i = 0; i < threads; i++) {
        const worker_result_t *r = &x.results[i];
        *checked += r->checked;
        if (r->wrong &&
            (!found || r->fault.rank < fault->rank ||
             (r->fault.rank == fault->rank && r->fault.offset_bytes < fault->offset_bytes)))
            *fault = r->fault;
        found += r->wrong;
    }
    *wrong += found;
    free(x.results);
    return status;
}
