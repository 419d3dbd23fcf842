/**
 * @file c2c_plan.h
 * Plans between clusters of several vendors, as FlagCX reads them.
 */
#ifndef CCL_SCHEDULE_C2C_PLAN_H
#define CCL_SCHEDULE_C2C_PLAN_H

#include "schedule/transfers.h"

CCL_BEGIN_DECLS

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

CCL_END_DECLS
#endif
