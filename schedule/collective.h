/**
 * @file collective.h
 * Collectives and demands: what has to move.
 */
#ifndef CCL_SCHEDULE_COLLECTIVE_H
#define CCL_SCHEDULE_COLLECTIVE_H

#include "models/models.h"

CCL_BEGIN_DECLS

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
/**
 * A custom collective with each chunk cut into parts of sizes of its own.
 * @param first   [nchunks + 1] chunk k becomes first[k] .. first[k + 1] - 1, at least one.
 * @param shares  [first[nchunks]] of the parts, in `size` as the chunks' are.
 */
ccl_status_t ccl_collective_cut(const ccl_collective_t *coll, const uint32_t *first,
                                const double *shares, ccl_collective_t **out, ccl_error_t *err);
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

CCL_END_DECLS
#endif
