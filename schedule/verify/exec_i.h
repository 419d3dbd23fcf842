/*
 * The symbolic execution of a program by the verifier; private to program.c, ahead.c, races.c,
 * sent.c and result.c.
 */
#ifndef CCL_SCHEDULE_VERIFY_EXEC_I_H
#define CCL_SCHEDULE_VERIFY_EXEC_I_H

#include "schedule/verify/verify.h"

typedef struct ccl_i_value {
    uint32_t chunk; /* CCL_NONE: nothing was written */
    uint32_t sum;   /* ccl_i_sums_t id */
} ccl_i_value_t;

typedef struct ccl_i_reader {
    uint32_t step, elem, next;
} ccl_i_reader_t;

/** An element of a buffer. */
typedef struct ccl_i_elem {
    ccl_i_value_t value;
    uint32_t writer, writer_elem; /* last step that wrote it, its element; CCL_NONE: none */
    uint32_t readers;             /* list of reads since */
} ccl_i_elem_t;

typedef struct ccl_i_exec {
    const ccl_program_t *program;
    const ccl_collective_t *coll;
    const ccl_i_links_t *links;
    ccl_i_order_t *order;
    ccl_verdict_t *verdict;
    ccl_error_t *err;
    bool in_place;
    const char *prefix;  /* of fault texts */
    uint32_t *base;      /* [3 nranks] place of element 0 of each buffer */
    uint32_t *input_map; /* in place of a custom collective: place of each input element */
    uint32_t *input_first;
    uint32_t nelems;
    ccl_i_elem_t *elems;
    ccl_i_reader_t *reader_pool;
    size_t nreaders, readers_cap;
    uint32_t free_reader;    /* list of entries of reader_pool in no other; CCL_NONE: none */
    ccl_i_value_t *messages; /* on the way; where one value is free, chunk is the next such */
    size_t nmessages, messages_cap;
    uint32_t free_message;
    uint8_t *nsent; /* [nranks][nchunks] elements of a chunk that a rank has sent: 0, 1, more; NULL:
                       nobody counts */
    ccl_i_sums_t sums;
} ccl_i_exec_t;

static inline uint32_t ccl_i_exec_place_of(const ccl_i_exec_t *x, uint32_t rank, uint8_t buffer,
                                           uint32_t elem) {
    if (x->input_map && buffer == CCL_BUF_INPUT)
        return x->input_map[x->input_first[rank] + elem];
    return x->base[3 * (size_t)rank + buffer] + elem;
}
/** Place of a chunk's element if the rank has it; CCL_NONE: it has not. */
uint32_t ccl_i_exec_place(const ccl_i_exec_t *x, uint32_t rank, ccl_buffer_t buffer, uint32_t elem);
/** Where the message of a step that has run begins: kept where the order named it. */
static inline uint32_t *ccl_i_exec_message(const ccl_i_exec_t *x, uint32_t step) {
    return &x->links->nodes[x->links->nodes[step].pos].order;
}
/** Memory for the steps behind the one at place `at` of the order comes into the cache. */
void ccl_i_exec_prefetch(const ccl_i_exec_t *x, uint32_t at);
/** Number of a step in its block, and how faults name it. */
uint32_t ccl_i_exec_index(const ccl_i_exec_t *x, uint32_t step);
ccl_i_place_t ccl_i_exec_text(const ccl_i_exec_t *x, uint32_t step);

const char *ccl_i_exec_buffer(uint8_t buffer);
/** Fault at a step: `kind`, and "place: text". */
void ccl_i_exec_fault(ccl_i_exec_t *x, const char *kind, uint32_t step, uint32_t chunk,
                      const char *text);
/** What a step does to an element. */
typedef struct ccl_i_doing {
    uint32_t step;
    bool writes;
    uint8_t buffer;
    uint32_t elem;
} ccl_i_doing_t;
/** Nothing orders what a did and what b does. */
void ccl_i_exec_fault_race(ccl_i_exec_t *x, uint32_t a, bool a_writes, ccl_i_doing_t b,
                           uint32_t chunk);
/**
 * What a wrong value comes from: a write of the same element by another block that should have come
 * before, or should not have, if there is one that nothing orders. @return false when out of
 * memory.
 */
bool ccl_i_exec_blame(ccl_i_exec_t *x, uint32_t step, uint8_t buffer, uint32_t elem, uint32_t at,
                      uint32_t chunk);
/**
 * A step's elements are moved in any order, so none may be read and another written in one place:
 * in place, input and output that overlap otherwise than element by element. False: they do.
 */
bool ccl_i_exec_keeps_apart(ccl_i_exec_t *x, uint32_t step, uint32_t e, uint8_t buffer,
                            uint32_t elem, uint32_t at);

/**
 * Counts of sends begin, where something is added up and most ranks have most chunks. A switch
 * reads what is not its own, and would count for no rank. False: no memory.
 */
bool ccl_i_exec_count_sends(ccl_i_exec_t *x);
/** A step of a rank sends an element of a chunk. */
static inline void ccl_i_exec_sent(const ccl_i_exec_t *x, uint32_t rank, uint32_t chunk) {
    if (!x->nsent || chunk == CCL_NONE)
        return;
    uint8_t *n = &x->nsent[(size_t)rank * x->coll->nchunks + chunk];
    *n += *n < 2;
}
/**
 * Whether what a rank has sent is over as it comes back: a step of the rank sent a chunk, nobody
 * else there did up to now, and the value that is received contains what the rank gave to it. So
 * that came by way of the send, from access to access, each after the one before it.
 */
bool ccl_i_exec_comes_back(const ccl_i_exec_t *x, uint32_t send, uint32_t step, uint32_t at,
                           ccl_i_value_t value);

/** At the end: every destination has its chunks; whether ranks add them up in different orders. */
void ccl_i_exec_result(ccl_i_exec_t *x);
void ccl_i_exec_orders(ccl_i_exec_t *x);

#endif
