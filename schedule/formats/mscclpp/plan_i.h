/*
 * Private to the schedule module: an execution plan of MSCCL++ in memory, between programs and
 * JSON.
 */
#ifndef CCL_SCHEDULE_MSCCLPP_I_H
#define CCL_SCHEDULE_MSCCLPP_I_H

#include "base/json.h"
#include "schedule/schedule_i.h"

/* What its executor has room for (src/core/include/execution_common.hpp). */
#define CCL_I_MPP_OPS 64u        /* operations of a block */
#define CCL_I_MPP_CHANNELS 16u   /* channels, and remote buffers, of a type and block */
#define CCL_I_MPP_OP_CHANNELS 8u /* channels of an operation */
#define CCL_I_MPP_OP_SEMAPHORES 16u

typedef enum ccl_i_mpp_kind {
    CCL_I_MPP_NOP,
    CCL_I_MPP_SIGNAL,
    CCL_I_MPP_WAIT,
    CCL_I_MPP_FLUSH,
    CCL_I_MPP_RELEASE,
    CCL_I_MPP_ACQUIRE,
    CCL_I_MPP_PUT,
    CCL_I_MPP_COPY,
    CCL_I_MPP_REDUCE,     /* dst = a + b */
    CCL_I_MPP_PULL_STORE, /* dst of all of a group = sum of src of all of a group */
    CCL_I_MPP_STORE,      /* dst of all of a group = src */
    /* Of plans of packets (LL). Packets lie in scratch, and hold a flag beside each payload. */
    CCL_I_MPP_PUT_PACKETS,    /* a to another GPU's packets */
    CCL_I_MPP_UNPACK,         /* dst = packets a */
    CCL_I_MPP_REDUCE_PACKETS, /* dst = a + packets b */
    CCL_I_MPP_PACK,           /* packets dst = a */
    CCL_I_MPP_PASS_PACKETS    /* packets a to another GPU's packets */
} ccl_i_mpp_kind_t;

enum { CCL_I_MPP_MEMORY, CCL_I_MPP_PORT, CCL_I_MPP_NTYPES };

typedef struct ccl_i_mpp_place {
    uint32_t buffer, at; /* ccl_buffer_t, element */
} ccl_i_mpp_place_t;

typedef struct ccl_i_mpp_op {
    uint8_t kind, type;     /* ccl_i_mpp_kind_t; memory or port */
    uint32_t first, n;      /* into ids: channels of the GPU, or semaphores */
    uint32_t peer;          /* puts: whose buffer dst is; its channel is ids[first] or none */
    uint32_t from, to;      /* switch channels of the GPU */
    ccl_i_mpp_place_t a, b; /* sources */
    ccl_i_mpp_place_t dst;
    uint32_t count;
    uint32_t block, where; /* read: the file's operation, by index into blocks and in the block */
} ccl_i_mpp_op_t;

/** Memory at one place in one buffer of all GPUs of a group. */
typedef struct ccl_i_mpp_switch {
    uint32_t buffer;
    uint32_t *ranks; /* [n] ascending, owned */
    uint32_t n;
} ccl_i_mpp_switch_t;

typedef struct ccl_i_mpp_gpu {
    uint32_t *peers[CCL_I_MPP_NTYPES]; /* owned: by channel */
    uint32_t nchannels[CCL_I_MPP_NTYPES];
    ccl_i_mpp_switch_t *switches;
    uint32_t nswitches, nsemaphores;
    uint32_t len[3];               /* elements of its buffers */
    uint32_t first_block, nblocks; /* into blocks */
} ccl_i_mpp_gpu_t;

typedef struct ccl_i_mpp_block {
    uint32_t rank, id;
    uint32_t first, nops; /* into ops */
} ccl_i_mpp_block_t;

typedef struct ccl_i_mpp {
    ccl_i_mpp_gpu_t *gpus;
    ccl_i_mpp_block_t *blocks;
    ccl_i_mpp_op_t *ops;
    uint32_t *ids;
    size_t ngpus, nblocks, nops, nids;
    size_t blocks_cap, ops_cap, ids_cap;
    bool packets; /* LL: messages are packets, and need no signals */
    bool nomem;
} ccl_i_mpp_t;
/** Whether an operation goes to another GPU's memory. */
static inline bool ccl_i_mpp_puts(const ccl_i_mpp_op_t *op) {
    return op->kind == CCL_I_MPP_PUT || op->kind == CCL_I_MPP_PUT_PACKETS ||
           op->kind == CCL_I_MPP_PASS_PACKETS;
}

ccl_status_t ccl_i_mpp_init(ccl_i_mpp_t *plan, uint32_t ngpus, ccl_error_t *err);
void ccl_i_mpp_fini(ccl_i_mpp_t *plan);
/** A new block of a GPU; operations are added to the last one. */
void ccl_i_mpp_block(ccl_i_mpp_t *plan, uint32_t rank);
/** Add an operation with its ids. Failures leave nomem. */
void ccl_i_mpp_add(ccl_i_mpp_t *plan, ccl_i_mpp_op_t op, const uint32_t *ids, uint32_t n);
/** A new channel of a GPU; its number there. */
uint32_t ccl_i_mpp_channel(ccl_i_mpp_t *plan, uint32_t rank, uint32_t type, uint32_t peer);
/** The switch channel of a GPU for a buffer and a group (ranks copied), made where it is missing.
 */
uint32_t ccl_i_mpp_switch(ccl_i_mpp_t *plan, uint32_t rank, uint32_t buffer, const uint32_t *ranks,
                          uint32_t n);
/**
 * The other end of a channel: the n-th of a GPU to a peer meets the n-th of that peer to the GPU.
 * @return CCL_NONE: the peer has too few.
 */
uint32_t ccl_i_mpp_partner(const ccl_i_mpp_t *plan, uint32_t rank, uint32_t type, uint32_t channel);
/**
 * Runs signals, waits and semaphores alone: every block must come to its end.
 * @param stuck  the block that does not; CCL_NONE: all do.
 * @param at     [nblocks] operations that each has done; NULL: not wanted.
 * @retval CCL_ERR_NOMEM
 */
ccl_status_t ccl_i_mpp_ends(const ccl_i_mpp_t *plan, uint32_t *stuck, uint32_t *at,
                            ccl_error_t *err);
/**
 * Adds the nops at which all threads of a block meet, and cuts blocks that have more operations
 * than MSCCL++ has room for: the rest is a block that acquires what the first releases at its end.
 */
ccl_status_t ccl_i_mpp_sync(ccl_i_mpp_t *plan, ccl_error_t *err);

/**
 * Blocks that use more channels of a type than MSCCL++ has room for get helpers: blocks that wait
 * and signal on the rest of their channels, and meet them by semaphores.
 */
ccl_status_t ccl_i_mpp_spread(ccl_i_mpp_t *plan, ccl_error_t *err);

/** What stands at the head of a plan. */
typedef struct ccl_i_mpp_head {
    const char *name, *origin; /* of the document */
    ccl_collective_t *coll;    /* owned */
    uint32_t nchunks;          /* of the largest buffer */
    bool in_place, packets;    /* packets: protocol LL */
    double min_bytes, max_bytes;
} ccl_i_mpp_head_t;

/** Reads a plan; operations that MSCCL++ has fused come apart, nops and flushes are left out. */
ccl_status_t ccl_i_mpp_parse(const ccl_json_doc_t *doc, ccl_i_mpp_head_t *head, ccl_i_mpp_t *plan,
                             ccl_error_t *err);
/** Packets become puts and signals, in a second half of scratch; a part of ccl_i_mpp_parse(). */
ccl_status_t ccl_i_mpp_unpack(const ccl_json_doc_t *doc, ccl_i_mpp_t *plan, ccl_error_t *err);
/** What blocks without data do for another block (ccl_i_mpp_spread()) goes back into that one. */
ccl_status_t ccl_i_mpp_join_helpers(ccl_i_mpp_t *plan, ccl_error_t *err);
/** CCL_ERR_INPUT at an operation of the file. */
ccl_status_t ccl_i_mpp_fail(const ccl_json_doc_t *doc, const ccl_i_mpp_t *plan, uint32_t op,
                            ccl_error_t *err, const char *fmt, ...) CCL_PRINTF(5, 6);

#endif
