/**
 * @file schedule.h
 * Collectives and demands, schedules (what moves where, in what order), programs (thread blocks and
 * primitives, one to one with MSCCL XML), flow lists; their formats; the verifier.
 *
 * The verifier shares no code with the synthesizers.
 */
#ifndef CCL_SCHEDULE_SCHEDULE_H
#define CCL_SCHEDULE_SCHEDULE_H

#include "models/models.h"

CCL_BEGIN_DECLS

/* ---------------------------------------------------------------- collectives */

typedef enum ccl_collective_kind {
    CCL_ALLREDUCE,
    CCL_ALLGATHER,
    CCL_REDUCESCATTER,
    CCL_ALLTOALL,
    CCL_BROADCAST,
    CCL_REDUCE,
    CCL_GATHER,
    CCL_SCATTER,
    CCL_SENDRECV, /**< nccl-tests': rank r sends its buffer to r + 1 (mod n) */
    CCL_CUSTOM    /**< a demand file */
} ccl_collective_kind_t;
#define CCL_COLLECTIVE_KINDS 10

/** One chunk of a collective: who contributes it, who must hold it after. */
typedef struct ccl_chunk {
    double share;            /**< bytes of the chunk / `size`; 0 allowed in demands */
    const uint32_t *sources; /**< ascending; one unless reduced */
    const uint32_t *dests;   /**< ascending, at least one unless share is 0 */
    uint32_t nsources, ndests;
    bool reduced; /**< the result is the reduction of all sources' contributions */
} ccl_chunk_t;

/**
 * What has to be moved. `size` is nccl-tests': the largest of a rank's buffers. Chunks of the
 * built-in kinds, with c = `chunks_per_block` (of a shard) and n = nranks, all of equal share:
 *
 * - allreduce, broadcast, reduce: c chunks, share 1/c; chunk k is element k of every buffer.
 * - allgather, gather: n c chunks; chunk r c + j from rank r; output element r c + j.
 * - reducescatter, scatter: n c chunks; chunk r c + j to rank r; input element r c + j.
 * - alltoall: n n c chunks; chunk (s n + d) c + j from s (input element d c + j) to d (output
 *   element s c + j), share 1/(n c).
 * - sendrecv: n c chunks; chunk r c + j from r to (r + 1) mod n, share 1/c.
 * - custom: a rank's input is the chunks that it is a source of, ascending; its output those that
 *   it is a destination of, ascending.
 *
 * Sources are among the destinations wherever the operation leaves them a copy: every rank of an
 * allgather, the root of a broadcast, gather or scatter, rank s of an alltoall's chunk (s, s).
 */
typedef struct ccl_collective {
    ccl_collective_kind_t kind;
    uint32_t nranks, nchunks, chunks_per_block, root;
    const ccl_chunk_t *chunks;
    double
        natural_bytes; /**< custom: `size` at which chunks have the bytes the file gives; else 0 */
    const char *name;  /**< "allgather", ...; the demand's name for custom */
    const uint32_t *custom_first; /**< custom only: see collective.c; else NULL */
    const uint32_t *custom_chunks;
    ccl_arena_t arena;
} ccl_collective_t;

const char *ccl_collective_kind_name(ccl_collective_kind_t kind); /**< "allreduce", ... "custom" */
/** Accepts any case, '-' and '_' ("all_reduce", "AllReduce", "reduce_scatter"). */
ccl_status_t ccl_collective_kind_parse(const char *text, ccl_collective_kind_t *out,
                                       ccl_error_t *err);
/** Broadcast, reduce, gather, scatter: do they have a root? */
bool ccl_collective_kind_is_rooted(ccl_collective_kind_t kind);
/** A built-in collective. @param chunks_per_block of a shard, >= 1. @param root used by rooted
 * kinds. */
ccl_status_t ccl_collective_create(ccl_collective_kind_t kind, uint32_t nranks,
                                   uint32_t chunks_per_block, uint32_t root, ccl_collective_t **out,
                                   ccl_error_t *err);
/** Every chunk cut into `parts` equal ones: chunk k becomes k parts + 0 .. k parts + parts - 1. */
ccl_status_t ccl_collective_split(const ccl_collective_t *coll, uint32_t parts,
                                  ccl_collective_t **out, ccl_error_t *err);
ccl_status_t ccl_collective_clone(const ccl_collective_t *coll, ccl_collective_t **out,
                                  ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_collective_destroy(ccl_collective_t *coll);
/** Same kind, ranks, chunks (sizes to 1e-12) and, for custom ones, name. */
bool ccl_collective_equal(const ccl_collective_t *a, const ccl_collective_t *b);
/** Element of `rank`'s input buffer that holds its contribution to `chunk`; CCL_NONE: none. */
uint32_t ccl_collective_input(const ccl_collective_t *coll, uint32_t rank, uint32_t chunk);
/** Element of `rank`'s output buffer where `chunk` must be at the end; CCL_NONE: none. */
uint32_t ccl_collective_output(const ccl_collective_t *coll, uint32_t rank, uint32_t chunk);
uint32_t ccl_collective_input_len(const ccl_collective_t *coll, uint32_t rank);
uint32_t ccl_collective_output_len(const ccl_collective_t *coll, uint32_t rank);
/**
 * Whether a rank's input and output are one memory when the collective runs in place, as
 * nccl-tests has them: one of the two begins at the rank's own block of the other.
 * @param input_first, output_first  where in that memory each begins, in elements.
 * @return false: of a custom collective, and where a rank has only one of them.
 */
bool ccl_collective_in_place(const ccl_collective_t *coll, uint32_t rank, uint32_t *input_first,
                             uint32_t *output_first);
/**
 * busbw / algbw. AllReduce 2(n-1)/n; AllGather, ReduceScatter, AllToAll, Gather, Scatter (n-1)/n;
 * else 1.  @par Source nccl-tests doc/PERFORMANCE.md.
 */
double ccl_collective_busbw_factor(ccl_collective_kind_t kind, uint32_t nranks);
/** A demand file (JSON): chunks with source(s), destinations, reduced or not, bytes. */
ccl_status_t ccl_demand_read(const char *path, ccl_collective_t **out, ccl_error_t *err);
ccl_status_t ccl_demand_read_text(const char *name, const char *text, size_t len,
                                  ccl_collective_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- lower bounds */

typedef struct ccl_bound_options {
    size_t size;
    double size_bytes;    /**< nccl-tests' size; 0: only rates are wanted */
    const char *proto;    /**< of the programs: "Simple", "LL", "LL128"; NULL: any */
    ccl_routes_t *routes; /**< borrowed; NULL: made for the call */
    bool no_latency;      /**< leave the latency bound 0: quicker where only bandwidth is wanted */
} ccl_bound_options_t;
/** The defaults. */
#define CCL_BOUND_OPTIONS_INIT                                                                     \
    { sizeof(ccl_bound_options_t), 0, NULL, NULL, false }

/** No schedule that copies and adds is faster. */
typedef struct ccl_bound {
    ccl_latency_bound_t latency;
    ccl_bandwidth_bound_t bandwidth; /**< Bps is algbw: size / time */
    double size_bytes;
    double bandwidth_s; /**< size / Bps */
    double time_s;      /**< the greater of the two */
} ccl_bound_t;
/**
 * Lower bounds of a collective on a topology (docs/bounds.md): what the farthest GPUs are apart,
 * and the tightest cut, partition or flow program over the physical links. Thread blocks, slots and
 * contention are left out; so a bound holds for every program.
 *
 * @param options  NULL: defaults.
 * @param out      set on success; finish with ccl_bound_fini().
 * @retval CCL_ERR_INPUT  the topology has another number of ranks.
 * @par Determinism  the same bytes each time, but where a flow program meets its time limit.
 */
ccl_status_t ccl_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                       const ccl_collective_t *coll, const ccl_bound_options_t *options,
                       ccl_bound_t *out, ccl_error_t *err);
/** The bound for another size of the same collective, seconds. */
double ccl_bound_time_s(const ccl_bound_t *bound, double size_bytes);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_bound_fini(ccl_bound_t *bound);

/* ---------------------------------------------------------------- schedules */

/**
 * One movement of one chunk. Transfers of a step read what their source holds after all earlier
 * steps. `reduce`: the destination adds what arrives to what it holds of the chunk; else it
 * replaces.
 */
typedef struct ccl_transfer {
    uint32_t src, dst, chunk, step;
    uint16_t channel;
    uint8_t reduce; /**< 0 copy, 1 reduce */
    uint8_t phase;  /**< 0.. : phase of a composed algorithm, e.g. 0 reduce-scatter, 1 all-gather */
} ccl_transfer_t;

typedef struct ccl_schedule {
    const char *name;          /**< synthesizer or file */
    ccl_collective_t *coll;    /**< owned */
    ccl_transfer_t *transfers; /**< sorted by step (stable) */
    uint32_t ntransfers, nsteps, nchannels;
    bool limited; /**< a limit was reached; this is the best so far */
    bool rounds;  /**< steps are rounds: lowered in their own order, a rank starts a step's sends
                     only  when its sends and receives of its step before, on the same channel, are
                     done */
    ccl_arena_t arena;
} ccl_schedule_t;

/** Collects transfers in any order. Takes ownership of coll (also when it returns NULL). */
typedef struct ccl_schedule_builder ccl_schedule_builder_t;
ccl_schedule_builder_t *ccl_schedule_builder_create(const char *name, ccl_collective_t *coll);
/** Frees it and all it owns; NULL is fine. */
void ccl_schedule_builder_destroy(ccl_schedule_builder_t *b);
/** Out of memory is remembered and reported by finish. */
void ccl_schedule_builder_add(ccl_schedule_builder_t *b, ccl_transfer_t transfer);
/** Checks ranges, sorts by step (stable), destroys the builder, also on failure. */
ccl_status_t ccl_schedule_builder_finish(ccl_schedule_builder_t *b, ccl_schedule_t **out,
                                         ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_schedule_destroy(ccl_schedule_t *schedule);
/** Same name, collective and transfers in the same order. */
bool ccl_schedule_equal(const ccl_schedule_t *a, const ccl_schedule_t *b);

/** Our JSON, TE-CCL's, SCCL's, a ResCCLang program, told apart by content. "-" is stdin. */
ccl_status_t ccl_schedule_read(const char *path, ccl_schedule_t **out, ccl_error_t *err);
/** Any of the three JSON forms, told apart by their first key. */
ccl_status_t ccl_schedule_read_json(const char *name, const char *text, size_t len,
                                    ccl_schedule_t **out, ccl_error_t *err);
ccl_status_t ccl_schedule_read_resccl(const char *name, const char *text, size_t len,
                                      ccl_schedule_t **out, ccl_error_t *err);
/**
 * An algorithm of SCCL or msccl-tools (PPoPP 2021): steps of sends (address, source, destination).
 * Chunks of one address are contributions to one reduced chunk; a send adds what the destination
 * lacks, or replaces what the source has more of. Names of chunks follow the built-in collective
 * that it is, else a custom one of a byte per chunk.
 */
ccl_status_t ccl_schedule_read_sccl(const char *name, const char *text, size_t len,
                                    ccl_schedule_t **out, ccl_error_t *err);
ccl_status_t ccl_schedule_write_json(const ccl_schedule_t *schedule, ccl_text_t *out,
                                     ccl_error_t *err);

/* ---------------------------------------------------------------- epoch flows */

/** A chunk, or a part of it, on its way from GPU to GPU, straight or through switches. */
typedef struct ccl_epoch_flow {
    uint32_t src, dst; /**< ranks */
    uint32_t chunk, epoch;
    uint32_t first_via, nvias; /**< into vias */
    double part;               /**< of the chunk, 0 < part <= 1 */
} ccl_epoch_flow_t;

/** What TE-CCL writes: which chunk crosses which links in which epoch. */
typedef struct ccl_epoch_flows {
    const char *name;
    ccl_collective_t *coll; /**< owned; allgather or alltoall */
    uint32_t nranks, nflows, nvias, nswitches;
    const uint32_t *rank_node;     /**< [nranks] the file's number of each GPU, ascending */
    const uint32_t *switch_node;   /**< [nswitches] and of each switch, ascending */
    const ccl_epoch_flow_t *flows; /**< by epoch, in an epoch as in the file */
    const uint32_t *vias;          /**< indices into switch_node */
    double epoch_s, finish_s;      /**< as the file claims */
    ccl_arena_t arena;
} ccl_epoch_flows_t;
/**
 * TE-CCL's schedule JSON (SIGCOMM 2024). GPUs are the nodes that have or want chunks, ranks go by
 * their numbers; switches are the nodes that flows go through.
 * @param out  destroy with ccl_epoch_flows_destroy().
 */
ccl_status_t ccl_epoch_flows_read_text(const char *name, const char *text, size_t len,
                                       ccl_epoch_flows_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_epoch_flows_destroy(ccl_epoch_flows_t *flows);
/** As a schedule: a step per epoch; parts become chunks of their own, the first to arrive leave
 * first. @retval CCL_ERR_INPUT  more of a chunk leaves a GPU than came. */
ccl_status_t ccl_epoch_flows_schedule(const ccl_epoch_flows_t *flows, ccl_schedule_t **out,
                                      ccl_error_t *err);

/* ---------------------------------------------------------------- programs */

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
    uint32_t dep_step; /**< index (not attribute `s`) of its step; CCL_NONE: none */
    uint32_t s;        /**< attribute `s` */
    uint32_t line;     /**< of the file; 0: none */
    uint16_t stage;
    uint8_t type;             /**< ccl_primitive_t */
    uint8_t src_buf, dst_buf; /**< ccl_buffer_t */
    uint8_t has_dep;          /**< 1: others may wait for this step */
} ccl_step_t;

typedef struct ccl_tb {
    uint32_t rank, id;             /**< id: dense from 0 within the rank */
    uint32_t send_peer, recv_peer; /**< ranks or CCL_NONE */
    uint32_t channel;
    uint32_t first_step, nsteps; /**< into steps */
} ccl_tb_t;

/** Connections of one step: it sends to send_peer and receives from recv_peer. */
typedef struct ccl_peers {
    uint32_t send_peer, recv_peer; /**< ranks or CCL_NONE */
    uint32_t channel;
} ccl_peers_t;

/** Attributes of `algo` that older MSCCL files lack; bits of ccl_program_t.missing_attributes. */
enum { CCL_ATTRIBUTE_OUTOFPLACE = 1, CCL_ATTRIBUTE_MINBYTES = 2, CCL_ATTRIBUTE_MAXBYTES = 4 };

/** MSCCL program. Bytes of an element of any buffer: size / nchunks unless `shares` is given. */
typedef struct ccl_program {
    const char *name;
    const char *proto;      /**< "Simple", "LL" or "LL128" */
    ccl_collective_t *coll; /**< owned; nchunks of MSCCL = elements of its largest buffer */
    uint32_t nranks, nchunks, nchannels, ntbs, nsteps;
    bool in_place, out_of_place; /**< what the file claims to be run as */
    double min_bytes, max_bytes; /**< 0 max: no limit */
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
    uint32_t *buffer_len;     /**< [3 nranks]: elements of buffer b of rank r at 3 r + b */
    const double *const *shares; /**< NULL, or [3 nranks]: share of `size` of each element */
    ccl_arena_t arena;
} ccl_program_t;

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
/** A new block of `rank`; returns its builder-wide handle (ids are dense in order of creation). */
uint32_t ccl_program_builder_tb(ccl_program_builder_t *b, uint32_t rank, uint32_t send_peer,
                                uint32_t recv_peer, uint32_t channel);
/** Append a step to block `tb`; its index in the block is returned. dep_tb is an id, as in
   ccl_step_t. has_dep of the awaited steps and `s` are set by finish. Out of memory is reported by
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
/** The same program in every field but the lines of its file (shares to 1e-12). */
bool ccl_program_equal(const ccl_program_t *a, const ccl_program_t *b);
/** Connections of step `step` (index into program->steps) of block tb. */
static inline ccl_peers_t ccl_program_peers(const ccl_program_t *program, const ccl_tb_t *tb,
                                            uint32_t step) {
    return program->peers ? program->peers[step]
                          : (ccl_peers_t){tb->send_peer, tb->recv_peer, tb->channel};
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

/** MSCCL XML, either dialect (docs/formats.md). "-" is stdin. */
ccl_status_t ccl_program_read(const char *path, ccl_program_t **out, ccl_error_t *err);
ccl_status_t ccl_program_read_xml(const char *name, const char *text, size_t len,
                                  ccl_program_t **out, ccl_error_t *err);
/** Every attribute that any executor needs; reads back to an equal program. */
ccl_status_t ccl_program_write_xml(const ccl_program_t *program, ccl_text_t *out, ccl_error_t *err);
/**
 * An execution plan of MSCCL++ (JSON) that does what a proven program does: messages go to slots of
 * the receiver's scratch, one each, so it needs scratch for all that a GPU receives. One pass over
 * the buffers: no micro-batches. Between servers channels are ports, inside memory.
 * @param topo  NULL: all GPUs in one server.
 * @retval CCL_UNSUPPORTED  blocks that connections share, or chunks of unequal size.
 * @par Source  MSCCL++'s executor and the plans of its tests.
 */
ccl_status_t ccl_program_write_mscclpp(const ccl_program_t *program, const ccl_topology_t *topo,
                                       ccl_text_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- plans between clusters */

/** Operations of a plan, by FlagCX's numbers; others have no place in the plans written here. */
enum {
    CCL_C2C_BROADCAST = 2,
    CCL_C2C_REDUCE = 5,
    CCL_C2C_ALLREDUCE = 6,
    CCL_C2C_ALLGATHER = 7,
    CCL_C2C_REDUCESCATTER = 8,
    CCL_C2C_OPS = 12
};
enum { CCL_C2C_SUM = 0, CCL_C2C_NO_OP = 5 }; /**< reductions of a plan, by FlagCX's numbers */

/** A collective inside a cluster (HomoFunc): by the vendor's own library. */
typedef struct ccl_c2c_call {
    uint32_t step;               /**< of its list */
    int32_t root;                /**< position in the cluster; -1: the collective's own, or none */
    uint32_t send_buf, recv_buf; /**< 0 input, 1 output, 2 scratch */
    uint32_t send_off, recv_off, count; /**< in chunks; of an allgather what one rank sends */
    uint32_t scope;                     /**< 0 before, 1 among border ranks, 2 behind */
    uint32_t op;                        /**< CCL_C2C_* */
} ccl_c2c_call_t;

/** A message to or from another cluster (P2pOp). */
typedef struct ccl_c2c_message {
    uint32_t step, peer, offset, count; /**< the last two in chunks */
    bool receives;
} ccl_c2c_message_t;

/** What becomes zero before a reduction (RefreshFunc): of `total` chunks all but `count`. */
typedef struct ccl_c2c_refresh {
    int32_t buffer;                       /**< 1 output, 2 scratch; -1: FlagCX's choice */
    uint32_t start, offset, count, total; /**< in chunks; offset from start */
    uint32_t op;                          /**< CCL_C2C_SUM; another: nothing becomes zero */
} ccl_c2c_refresh_t;

/**
 * What one rank does in a collective of mixed vendors, as FlagCX reads it
 * (FLAGCX_C2C_ALGO=XML_INPUT). First the calls of seq_pre steps; pipe_pre steps of calls, each
 * beside a step of messages; seq_inter steps of messages; pipe_post steps of messages, each beside
 * calls of `post`; the last seq_post steps of calls.
 */
typedef struct ccl_c2c_plan {
    uint32_t rank, nchunks;
    uint32_t seq_pre, pipe_pre, seq_inter, pipe_post, seq_post;
    uint32_t npre, ninter, npost, nmessages;
    ccl_c2c_call_t *pre, *inter, *post; /**< by step */
    ccl_c2c_message_t *messages;        /**< by step */
    ccl_c2c_refresh_t refresh; /**< behind seq_pre; without pipelined steps before each other too */
    ccl_arena_t arena;
} ccl_c2c_plan_t;

/** Which ranks form clusters, and which are next to a NIC (ccl_c2c_clusters()). */
typedef struct ccl_c2c_groups {
    uint32_t nranks, nclusters;
    const uint32_t *of;  /**< [nranks] cluster, numbered by lowest rank */
    const bool *borders; /**< [nranks] */
} ccl_c2c_groups_t;

/**
 * The plan of one rank that sends between clusters what the schedule sends there, and leaves the
 * rest to collectives inside: all of a cluster before (AllGather, or Broadcast in the root's
 * cluster), a Broadcast from each border rank behind each step.
 *
 * With a reduction (allreduce, reduce, reducescatter of two clusters): Reduces to the ranks that
 * send or keep the results, zeros elsewhere, what crosses, one call that adds it (AllReduce of what
 * is reduced in the cluster, Reduce, ReduceScatter), and for allreduce the results back and a
 * Broadcast of them.
 *
 * @retval CCL_UNSUPPORTED  another collective; a reduction and more than two clusters, or chunks
 * whose results are not consecutive, or a rank that reduces itself; clusters whose ranks are not
 *         consecutive; a chunk that does not enter every other cluster once, or leaves one again by
 *         another rank than it came in by.
 * @par Source  FlagCX's planner and its XML reader, which take a plan per rank.
 */
ccl_status_t ccl_c2c_plan_create(const ccl_schedule_t *schedule, const ccl_c2c_groups_t *groups,
                                 uint32_t rank, ccl_c2c_plan_t **out, ccl_error_t *err);
ccl_status_t ccl_c2c_plan_write_xml(const ccl_c2c_plan_t *plan, ccl_text_t *out, ccl_error_t *err);
/** Such a file, of any origin. @param rank  as in the file's name: PREFIX_RANK.xml. */
ccl_status_t ccl_c2c_plan_read_xml(const char *name, const char *text, size_t len, uint32_t rank,
                                   ccl_c2c_plan_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_c2c_plan_destroy(ccl_c2c_plan_t *plan);
/**
 * Do the plans of all ranks cross borders exactly as the schedule does, with each receive met by
 * its send, and do all ranks have all chunks in the end?
 * @param plans  [groups->nranks], of ranks in order.
 * @retval CCL_CHECK  they do not; err names the first fault.
 */
ccl_status_t ccl_c2c_plans_verify(const ccl_schedule_t *schedule, const ccl_c2c_groups_t *groups,
                                  const ccl_c2c_plan_t *const *plans, ccl_error_t *err);

/* ---------------------------------------------------------------- flow lists */

/** Plain network runs: "nranks nflows gpus_per_server", then "id src dst bytes dep" a line. */
typedef struct ccl_flow_list {
    uint32_t nranks, nflows, gpus_per_server;
    uint32_t *src, *dst, *dep; /**< [nflows]; dep: index of a flow or CCL_NONE */
    double *bytes;             /**< [nflows] */
} ccl_flow_list_t;
ccl_status_t ccl_flow_list_read(const char *path, ccl_flow_list_t **out, ccl_error_t *err);
ccl_status_t ccl_flow_list_read_text(const char *name, const char *text, size_t len,
                                     ccl_flow_list_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_flow_list_destroy(ccl_flow_list_t *list);

/* ---------------------------------------------------------------- verifier */

/** What an executor's fixed arrays hold; UINT32_MAX: no limit. */
typedef struct ccl_executor_limits {
    const char *name;         /**< "msccl"; "" for CCL_EXECUTOR_ANY */
    uint32_t steps;           /**< of a block, nops included */
    uint32_t tbs;             /**< blocks of a rank */
    uint32_t channels;        /**< of the program */
    uint32_t count;           /**< chunks of a step */
    uint32_t tbs_per_channel; /**< blocks of a rank that send (that receive) on one channel */
} ccl_executor_limits_t;
/** Static. @par Source MSCCL's parser as RCCL and msccl-executor-nccl carry it. */
const ccl_executor_limits_t *ccl_executor_limits(ccl_executor_t executor);

typedef struct ccl_verify_options {
    size_t size;
    ccl_executor_t executor; /**< also check this executor's limits */
    ccl_granularity_t granularity;
    uint32_t slots;     /**< FIFO depth; 0: by protocol, Simple 2, LL and LL128 8 */
    uint32_t batches;   /**< micro-batches for the deadlock check; 0: 4 */
    bool skip_deadlock; /**< leave the deadlock check to the simulator, which knows the FIFOs */
    bool limits_only;   /**< structure and the executor's limits, nothing else */
} ccl_verify_options_t;
/** The defaults. */
#define CCL_VERIFY_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(ccl_verify_options_t), CCL_EXECUTOR_ANY, CCL_GRANULARITY_ALGORITHM, 0, 0, false,    \
            false                                                                                  \
    }

/** Shares that differ by less, relatively, are one size: they come from decimals and quotients. */
#define CCL_SHARE_TOLERANCE 1e-9

/** The first fault found. Fields that do not apply are CCL_NONE. */
typedef struct ccl_fault {
    const char
        *kind; /**< static: "missing", "twice", "mixed", "unread", "race", "mismatch", "alias",
                    "deadlock", "range", "limit", "order", ... docs/formats.md lists them */
    uint32_t rank, tb, step, chunk;
    char text[640];
    uint32_t slots;       /**< of a deadlock: the FIFO depth of the check; else 0, or no limit */
    uint32_t least_slots; /**< least depth with which it finishes; 0: it deadlocks at any */
} ccl_fault_t;

#define CCL_MAX_WARNINGS 8
typedef struct ccl_verdict {
    bool valid;
    ccl_fault_t fault; /**< when not valid */
    uint32_t nwarnings;
    char warnings[CCL_MAX_WARNINGS][256];
} ccl_verdict_t;

/**
 * What a program must be so that it can run at all, whatever its data become: elements, peers and
 * awaited steps that exist, one block at each end of a connection, sends and receives that match, a
 * place for every chunk at each rank that must have it, of one size wherever the chunk is. The
 * first part of ccl_program_verify, and asked before every run: what one refuses the other refuses
 * with the same fault.
 * @return CCL_OK when the verdict is known, valid or not.
 * @retval CCL_UNSUPPORTED  more elements than are verified or run.
 */
ccl_status_t ccl_program_check(const ccl_program_t *program, ccl_granularity_t granularity,
                               ccl_verdict_t *out, ccl_error_t *err);
/**
 * Execute a schedule symbolically: sources hold what they send, every reduction holds each
 * contribution exactly once, every destination ends with its chunks.
 * @return CCL_OK when the verdict is known, valid or not.
 */
ccl_status_t ccl_schedule_verify(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                 ccl_verdict_t *out, ccl_error_t *err);
/** The same for a program, with races, FIFO matching, aliasing, deadlock (docs/formats.md
 * "Verifier"). */
ccl_status_t ccl_program_verify(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                const ccl_verify_options_t *options, ccl_verdict_t *out,
                                ccl_error_t *err);

/** How a run blocks; times do not matter (a network of FIFOs is determinate). */
typedef struct ccl_blocking {
    ccl_granularity_t granularity;
    uint32_t batches;           /**< >= 1 */
    const uint32_t *step_slots; /**< [nsteps] depth of the connection that a sending step uses;
                                     NULL: slots */
    uint32_t slots;
    const uint32_t *step_slices; /**< [nsteps] slices of a sending or receiving step; NULL: 1 */
} ccl_blocking_t;

typedef enum ccl_wait { CCL_WAIT_DATA, CCL_WAIT_SLOT, CCL_WAIT_DEP, CCL_WAIT_STAGE } ccl_wait_t;
/** One block of a cycle of blocks that wait for each other. */
typedef struct ccl_deadlock_wait {
    uint32_t rank, tb, step, batch, slice;
    ccl_wait_t wait;
    uint32_t on_rank, on_tb; /**< whom it waits for; CCL_NONE: nobody ever does it */
} ccl_deadlock_wait_t;
/** On what a deadlock depends. Without pointers: results pass between processes. */
typedef struct ccl_deadlock_cause {
    bool known;           /**< it was looked for; else the rest is 0 */
    char transport[32];   /**< whose FIFOs: a kind of link; "": all of the program */
    char protocol[16];    /**< whose `slots` those are; "": the transport's own, or the default */
    char from[160];       /**< what gives `slots`: slots_from of the transport, "library NAME" of an
                               entry; "": the default */
    uint32_t slots;       /**< depth of these FIFOs, in slices */
    double slice_bytes;   /**< most bytes of a slice; 0: no limit, or not known */
    uint32_t least_slots; /**< least depth of these with which the program finishes in as many
                               micro-batches; 0: it deadlocks at any depth */
    uint32_t batches;     /**< micro-batches with which it finishes as the FIFOs are: the least, at
                               task level the most; 0: none, or not looked for */
} ccl_deadlock_cause_t;
typedef struct ccl_deadlock {
    uint32_t nwaits;               /**< length of the cycle; 0: no deadlock */
    uint32_t stuck;                /**< blocks that cannot finish */
    ccl_deadlock_wait_t waits[64]; /**< first 64 of the cycle */
    ccl_deadlock_cause_t cause;    /**< of callers that look for it */
} ccl_deadlock_t;
/**
 * Run a program untimed and find whether it finishes. At algorithm and stage level one micro-batch
 * decides for all (a run that ends with empty FIFOs can be repeated, and FIFO networks are
 * determinate); at task level all batches are run.
 */
ccl_status_t ccl_program_deadlock(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                  const ccl_blocking_t *blocking, ccl_deadlock_t *out,
                                  ccl_error_t *err);
/**
 * The least depth of FIFOs with which a program finishes (deeper ones never hinder it), by trying.
 *
 * @param deepen  [nsteps] the sending steps whose FIFOs grow; NULL: all.
 * @param out     0: not even without a limit. At least what the shallowest of these has now.
 */
ccl_status_t ccl_program_least_slots(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                     const ccl_blocking_t *blocking, const uint8_t *deepen,
                                     uint32_t *out, ccl_error_t *err);
const char *ccl_wait_name(ccl_wait_t wait); /**< "data", "slot", "dependency", "stage" */

CCL_END_DECLS
#endif
