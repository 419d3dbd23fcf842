/**
 * @file program.h
 * Programs: thread blocks and primitives, one to one with MSCCL XML; their formats.
 */
#ifndef CCL_SCHEDULE_PROGRAM_H
#define CCL_SCHEDULE_PROGRAM_H

#include "schedule/collective.h"
#include "schedule/groups.h"
#include "schedule/origin.h"

CCL_BEGIN_DECLS

typedef enum ccl_executor {
    CCL_EXECUTOR_ANY,
    CCL_EXECUTOR_MSCCL,
    CCL_EXECUTOR_RCCL,
    CCL_EXECUTOR_MSCCL_OLD
} ccl_executor_t;

typedef enum ccl_granularity {
    CCL_GRANULARITY_ALGORITHM,
    CCL_GRANULARITY_STAGE,
    CCL_GRANULARITY_TASK
} ccl_granularity_t;

typedef enum ccl_primitive {
    CCL_PRIM_S,
    CCL_PRIM_R,
    CCL_PRIM_RCS,
    CCL_PRIM_RRS,
    CCL_PRIM_RRC,
    CCL_PRIM_RRCS,
    CCL_PRIM_CPY,
    CCL_PRIM_RE,
    CCL_PRIM_NOP
} ccl_primitive_t;
const char *ccl_primitive_name(ccl_primitive_t prim); /**< "s", "r", ... */
bool ccl_primitive_sends(ccl_primitive_t prim);       /**< s rcs rrs rrcs */
bool ccl_primitive_receives(ccl_primitive_t prim);    /**< r rrc rcs rrs rrcs */
bool ccl_primitive_reduces(ccl_primitive_t prim);     /**< rrc rrs rrcs re */

typedef enum ccl_buffer { CCL_BUF_INPUT, CCL_BUF_OUTPUT, CCL_BUF_SCRATCH } ccl_buffer_t;

typedef struct ccl_step {
    uint32_t src_off, dst_off, count; /**< in chunks */
    uint32_t dep_tb;   /**< id of the block of the same GPU to wait for; CCL_NONE: none */
    uint32_t dep_step; /**< index (not attribute `s` of files) of its step; CCL_NONE: none */
    uint16_t stage;
    uint8_t type;             /**< ccl_primitive_t */
    uint8_t src_buf, dst_buf; /**< ccl_buffer_t */
    uint8_t has_dep;          /**< 1: others may wait for this step */
} ccl_step_t;

/** What a file says of a step beside what it does. */
typedef struct ccl_step_mark {
    uint32_t s;    /**< attribute `s` */
    uint32_t line; /**< 0: none */
} ccl_step_mark_t;

typedef struct ccl_tb {
    uint32_t rank, id;             /**< id: dense from 0 within the rank */
    uint32_t send_peer, recv_peer; /**< ranks, ends of switch connections (ccl_peer_group_t) or
                                        CCL_NONE */
    uint32_t channel;
    uint32_t first_step, nsteps; /**< into steps */
} ccl_tb_t;

/** Connections of one step: it sends to send_peer and receives from recv_peer. */
typedef struct ccl_peers {
    uint32_t send_peer, recv_peer; /**< as ccl_tb_t has them */
    uint32_t channel;
} ccl_peers_t;

/** Attributes of `algo` that older MSCCL files lack; bits of ccl_program_t.missing_attributes. */
enum { CCL_ATTRIBUTE_OUTOFPLACE = 1, CCL_ATTRIBUTE_MINBYTES = 2, CCL_ATTRIBUTE_MAXBYTES = 4 };

/** MSCCL program. Bytes of an element of any buffer: size / nchunks unless `shares` is given. */
typedef struct ccl_program {
    const char *name;
    ccl_origin_t origin;    /**< of its schedule, and what lowering chose; no part of equality */
    const char *proto;      /**< "Simple", "LL" or "LL128" */
    ccl_collective_t *coll; /**< owned; nchunks of MSCCL = elements of its largest buffer */
    uint32_t nranks, nchunks, nchannels, ntbs, nsteps;
    bool in_place, out_of_place; /**< what the file claims to be run as */
    double min_bytes, max_bytes; /**< 0 max: no limit */
    double piece_bytes; /**< most chunk bytes of a micro-batch, besides what transports say; 0: no
                             limit. Executors of MSCCL XML have a rule of their own */
    uint32_t missing_attributes; /**< CCL_ATTRIBUTE_*: what the file read did not say. New executors
                                      skip such a file. 0 for a built program; not part of equality;
                                      the writer writes them all */
    ccl_tb_t *tbs;               /**< by rank, then id */
    uint32_t *rank_first_tb;     /**< [nranks + 1] into tbs */
    ccl_step_t *steps;           /**< by tb */
    const ccl_peers_t *peers; /**< NULL: every block has the connections of its tb. Else [nsteps],
                                   those of each step: a block that several connections share has
                                   no peers of its own (ResCCL's merged blocks, section 4.4). No
                                   executor of MSCCL XML knows such blocks; ours writes `send`,
                                   `recv` and `chan` at their steps */
    const ccl_peer_group_t *groups; /**< [ngroups] in order of first use by the builder */
    uint32_t ngroups;               /**< 0: no switch connections */
    bool algorithm_only;  /**< lowered so that only algorithm level is sure to finish: it runs at
                             that  level, whatever is asked for (ccl_program_level()). Files do not
                             keep  it; no part of equality */
    uint32_t *buffer_len; /**< [3 nranks]: elements of buffer b of rank r at 3 r + b */
    const double *const *shares;  /**< NULL, or [3 nranks]: share of `size` of each element */
    ccl_step_t *own_steps;        /**< the steps where they are not the arena's; else NULL */
    const ccl_step_mark_t *marks; /**< [nsteps] of a file's steps; NULL: they count from 0 */
    ccl_arena_t arena;
} ccl_program_t;

/** The level at which a program runs where one is asked for. */
ccl_granularity_t ccl_program_level(const ccl_program_t *program, ccl_granularity_t asked);

typedef struct ccl_program_builder ccl_program_builder_t;
/** Takes ownership of coll. @param nchunks nchunksperloop. */
ccl_program_builder_t *ccl_program_builder_create(const char *name, ccl_collective_t *coll,
                                                  uint32_t nchunks, const char *proto);
/** Frees it and all it owns; NULL is fine. */
void ccl_program_builder_destroy(ccl_program_builder_t *b);
void ccl_program_builder_place(ccl_program_builder_t *b, bool in_place, bool out_of_place,
                               double min_bytes, double max_bytes);
void ccl_program_builder_buffer(ccl_program_builder_t *b, uint32_t rank, ccl_buffer_t buffer,
                                uint32_t len);
/** Shares of all elements of one buffer ([len], copied); all buffers or none. */
void ccl_program_builder_shares(ccl_program_builder_t *b, uint32_t rank, ccl_buffer_t buffer,
                                const double *shares);
/**
 * The peer that stands for a group of ranks, for blocks and steps of this builder; an equal group
 * gets the same. Ranks in any order, each once; faults are reported by finish.
 * @param ranks  [n], copied; n >= 1.
 */
uint32_t ccl_program_builder_group(ccl_program_builder_t *b, const uint32_t *ranks, uint32_t n);
/** Room for all blocks and steps, where their numbers are known. */
void ccl_program_builder_reserve(ccl_program_builder_t *b, size_t ntbs, size_t nsteps);
/** A new block of `rank`; returns its builder-wide handle (ids are dense in order of creation). */
uint32_t ccl_program_builder_tb(ccl_program_builder_t *b, uint32_t rank, uint32_t send_peer,
                                uint32_t recv_peer, uint32_t channel);
/** Append a step to block `tb`; its index in the block is returned. dep_tb is an id, as in
   ccl_step_t. has_dep of the awaited steps is set by finish. Out of memory is reported by
   finish. */
uint32_t ccl_program_builder_step(ccl_program_builder_t *b, uint32_t tb, ccl_step_t step);
/** The same for a block that several connections share; its own peers must be CCL_NONE. */
uint32_t ccl_program_builder_step_peers(ccl_program_builder_t *b, uint32_t tb, ccl_step_t step,
                                        ccl_peers_t peers);
/** Checks indices and ranges, freezes, destroys the builder, also on failure. */
ccl_status_t ccl_program_builder_finish(ccl_program_builder_t *b, ccl_program_t **out,
                                        ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_program_destroy(ccl_program_t *program);
/** The same program in every field but its origin and the lines of its file (shares to 1e-12). */
bool ccl_program_equal(const ccl_program_t *a, const ccl_program_t *b);
/**
 * The data that a step works on, in words: "data of GPU 3, part 2 of 4", "chunk 5 of 16", "data for
 * GPU 2", "scratch 7"; several elements as "chunks 4-7 of 16". Of a step that sends without
 * receiving it is what is read, of any other one what is written.
 * @param step  index into program->steps.
 */
void ccl_step_data_text(const ccl_program_t *program, uint32_t step, char *out, size_t len);
/** A peer in words: "3", of a group its ranks, "0-3,6"; cut with "..." where it is too long. */
void ccl_peer_text(const ccl_program_t *program, uint32_t peer, char *out, size_t len);
/** Connections of step `step` (index into program->steps) of block tb. */
static inline ccl_peers_t ccl_program_peers(const ccl_program_t *program, const ccl_tb_t *tb,
                                            uint32_t step) {
    return program->peers ? program->peers[step]
                          : (ccl_peers_t){tb->send_peer, tb->recv_peer, tb->channel};
}
/** The group that a peer is; NULL: it is a rank or CCL_NONE. */
static inline const ccl_peer_group_t *ccl_program_group(const ccl_program_t *program,
                                                        uint32_t peer) {
    return ccl_peer_is_group(peer) ? &program->groups[peer & ~CCL_PEER_GROUP] : NULL;
}
/** How files number step `step` of block tb, and its line there; 0: none. */
static inline ccl_step_mark_t ccl_program_mark(const ccl_program_t *program, const ccl_tb_t *tb,
                                               uint32_t step) {
    return program->marks ? program->marks[step] : (ccl_step_mark_t){step - tb->first_step, 0};
}
/** The block has no connections of its own, its steps have. */
static inline bool ccl_program_tb_shared(const ccl_program_t *program, const ccl_tb_t *tb) {
    if (!program->peers || tb->send_peer != CCL_NONE || tb->recv_peer != CCL_NONE)
        return false;
    for (uint32_t s = tb->first_step; s < tb->first_step + tb->nsteps; s++)
        if (program->peers[s].send_peer != CCL_NONE || program->peers[s].recv_peer != CCL_NONE)
            return true;
    return false;
}
/**
 * Which element of which buffer has this memory. In place an element of the input may be one of the
 * output, and files often have only one of the two buffers (`i_chunks` or `o_chunks` 0), in which
 * the elements of the other lie.
 * @param buffer, element  in: what is looked for; the element may be beyond its buffer's end. Out:
 *                         an element that the program has; of the output where both have it.
 * @return false: there is no such memory.
 */
bool ccl_program_element(const ccl_program_t *program, uint32_t rank, bool in_place,
                         ccl_buffer_t *buffer, uint32_t *element);
/** Bytes / size that a step moves or works on (0 for nop). */
double ccl_program_step_share(const ccl_program_t *program, const ccl_tb_t *tb,
                              const ccl_step_t *step);

/**
 * Thread blocks that a rank runs at a granularity: its blocks; at stage level one per block and
 * stage.
 */
uint32_t ccl_program_rank_blocks(const ccl_program_t *program, uint32_t rank,
                                 ccl_granularity_t granularity);

/** MSCCL XML, either dialect (docs/formats.md). "-" is stdin. Its origin is the file where that
   does not say one. */
ccl_status_t ccl_program_read(const char *path, ccl_program_t **out, ccl_error_t *err);
ccl_status_t ccl_program_read_xml(const char *name, const char *text, size_t len,
                                  ccl_program_t **out, ccl_error_t *err);
/** Every attribute that any executor needs; reads back to an equal program. */
ccl_status_t ccl_program_write_xml(const ccl_program_t *program, ccl_text_t *out, ccl_error_t *err);
/**
 * An execution plan of MSCCL++ (JSON) that does what a proven program does: messages go to slots of
 * the receiver's scratch, one each, so it needs scratch for all that a GPU receives; what switches
 * add or multicast lies in the buffers themselves. One pass over the buffers: no micro-batches.
 * Between servers channels are ports, inside memory. Blocks of more than 64 operations are cut.
 * @param topo  NULL: all GPUs in one server.
 * @retval CCL_UNSUPPORTED  chunks of unequal size; a block with more than 16 channels of a type;
 *                          or what its executor cannot do through switches, and which step does it.
 * @par Source  MSCCL++'s executor (src/core/executor) and the plans of its tests.
 */
ccl_status_t ccl_program_write_mscclpp(const ccl_program_t *program, const ccl_topology_t *topo,
                                       ccl_text_t *out, ccl_error_t *err);
/**
 * ccl_program_write_mscclpp() with the name that MSCCL++ keeps the plan by, which no other plan of
 * a job may have.
 * @param name  NULL: the program's.
 */
ccl_status_t ccl_program_write_mscclpp_as(const ccl_program_t *program, const ccl_topology_t *topo,
                                          const char *name, ccl_text_t *out, ccl_error_t *err);
/** Whether a text looks like an execution plan of MSCCL++: it has the keys gpus and threadblocks.
 */
bool ccl_program_is_mscclpp(const char *text, size_t len);
/**
 * An execution plan of MSCCL++ as a program: a plan of ccl_program_write_mscclpp() gives a program
 * that does the same, other plans are read where they put, copy, add, signal, wait and use
 * semaphores and switch channels (docs/formats.md). Channels get numbers of their own.
 * @param name  for messages, "file:line:column: what is wrong".
 * @retval CCL_ERR_INPUT, CCL_UNSUPPORTED
 */
ccl_status_t ccl_program_read_mscclpp(const char *name, const char *text, size_t len,
                                      ccl_program_t **out, ccl_error_t *err);

CCL_END_DECLS
#endif
