/*
 * Private to lowering. A transfer is two operations, its send and its receive; operations of a
 * rank on one chunk form a history (lower_values.c) from which buffers and dependencies follow;
 * connections become blocks (lower_blocks.c); lower.c writes the program.
 *
 * All order comes from one total order of the operations (lower_values.c): by step, in a step the
 * send of a transfer before its receive, a rank's sends of a chunk before its receives. Blocks,
 * dependencies and messages all go forward in it, so a program without fused operations cannot
 * block for any FIFO depth.
 */
#ifndef CCL_SYNTH_LOWER_H
#define CCL_SYNTH_LOWER_H

#include "synth/synth.h"

/** A place in a rank's buffers. */
typedef struct ccl_i_loc {
    uint32_t off; /* CCL_NONE: none */
    uint8_t buf;  /* ccl_buffer_t */
} ccl_i_loc_t;

/** Operation 2 t is the send of transfer t, 2 t + 1 its receive (t in sorted order). */
typedef struct ccl_i_op {
    ccl_i_loc_t src, dst;
    uint32_t place;     /* in the total order */
    uint32_t first_dep; /* into deps */
    uint32_t ndeps;
    uint32_t readers; /* receives: operations that read the value before it is replaced */
    uint32_t block;   /* of its rank, program-wide */
    uint32_t item;    /* in its block */
    uint8_t kept;     /* receives: a destination ends with this value */
    uint8_t lazy_dst; /* receives: dst is scratch, made when it is really written */
} ccl_i_op_t;

/** Copy from a rank's input to its output of a chunk that nothing else brings there. */
typedef struct ccl_i_copy {
    uint32_t rank;
    ccl_i_loc_t src, dst;
} ccl_i_copy_t;

typedef struct ccl_i_lowering {
    const ccl_ctx_t *ctx;
    const ccl_schedule_t *schedule;
    const ccl_collective_t *coll;
    bool in_place, no_fuse, ordered;
    uint32_t ntransfers, nranks, slots;
    ccl_transfer_t *transfers; /* sorted by step, then chunk */
    uint32_t *by_place;        /* [2 ntransfers] operations in the total order */
    ccl_i_op_t *ops;           /* [2 ntransfers] */
    uint32_t *deps;            /* operations */
    size_t ndeps, deps_cap;
    ccl_i_copy_t *copies; /* by rank */
    size_t ncopies, copies_cap;
    uint32_t *scratch_len; /* [nranks] */
    /* Scratch elements by history: CCL_NONE until written. */
    uint32_t *history_of;  /* [2 ntransfers] */
    uint32_t *scratch_off; /* [histories] */
    uint32_t nhistories;
    ccl_arena_t arena;
} ccl_i_lowering_t;

static inline uint32_t ccl_i_op_rank(const ccl_i_lowering_t *l, uint32_t op) {
    const ccl_transfer_t *t = &l->transfers[op / 2];
    return op % 2 ? t->dst : t->src;
}

/**
 * Stable radix sort of items by keys (both permuted). @param keys, items length n; scratch of the
 * same lengths. Keys up to max_key.
 */
void ccl_i_radix_sort(uint64_t *keys, uint32_t *items, uint64_t *keys_tmp, uint32_t *items_tmp,
                      size_t n, uint64_t max_key);

/** Sorts the transfers, orders the operations, finds buffers and dependencies. */
ccl_status_t ccl_i_lower_values(ccl_i_lowering_t *l, ccl_error_t *err);

/** One primitive of a block: an operation, or a receive and the send it feeds. */
typedef struct ccl_i_item {
    uint32_t recv, send; /* operations or CCL_NONE */
} ccl_i_item_t;

typedef struct ccl_i_lblock {
    uint32_t rank, send_peer, recv_peer, channel;
    uint32_t first, nitems; /* into items */
} ccl_i_lblock_t;

typedef struct ccl_i_lblocks {
    ccl_i_lblock_t *blocks; /* by rank */
    ccl_i_item_t *items;
    uint32_t nblocks, nitems;
} ccl_i_lblocks_t;

/** Groups the operations into blocks and fuses; ops[].block and .item are set. */
ccl_status_t ccl_i_lower_blocks(ccl_i_lowering_t *l, ccl_i_lblocks_t *out, ccl_error_t *err);
/**
 * Run the blocks untimed with FIFOs of `slots` primitives and take fused items apart where all
 * would wait for each other: a ring whose every block forwards needs one free slot.
 */
ccl_status_t ccl_i_lower_unblock(ccl_i_lowering_t *l, ccl_i_lblocks_t *blocks, ccl_error_t *err);

/**
 * State-based allocation (state.c): blocks of *program whose connections are hardly active at the
 * same time in a run of options->size_bytes, ->batches and ->granularity on options->topo become
 * one. *program is replaced (and destroyed) when that saves blocks at no more than 1 % more time.
 */
ccl_status_t ccl_i_allocate_state(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                                  ccl_program_t **program, ccl_error_t *err);

#endif
