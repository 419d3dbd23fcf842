/*
 * The symbolic execution of a program by the verifier; private to program.c and result.c.
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
    ccl_i_value_t *values;
    uint32_t *writer, *writer_elem; /* last step that wrote it, its element; CCL_NONE: none */
    uint32_t *readers;              /* list of reads since */
    ccl_i_reader_t *reader_pool;
    size_t nreaders, readers_cap;
    uint32_t free_reader;    /* list of entries of reader_pool in no other; CCL_NONE: none */
    ccl_i_value_t *messages; /* on the way; where one value is free, chunk is the next such */
    size_t nmessages, messages_cap;
    uint32_t free_message;
    ccl_i_sums_t sums;
} ccl_i_exec_t;

/** Place of a chunk's element if the rank has it; CCL_NONE: it has not. */
uint32_t ccl_i_exec_place(const ccl_i_exec_t *x, uint32_t rank, ccl_buffer_t buffer, uint32_t elem);
/** Number of a step in its block, and how faults name it. */
uint32_t ccl_i_exec_index(const ccl_i_exec_t *x, uint32_t step);
ccl_i_place_t ccl_i_exec_text(const ccl_i_exec_t *x, uint32_t step);

/** At the end: every destination has its chunks; whether ranks add them up in different orders. */
void ccl_i_exec_result(ccl_i_exec_t *x);
void ccl_i_exec_orders(ccl_i_exec_t *x);

#endif
