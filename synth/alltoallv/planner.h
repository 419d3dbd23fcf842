/**
 * @file planner.h
 * Plans of AllToAllv for a cluster whose traffic changes from call to call, as that of experts
 * does.
 *
 * A planner is made once for a cluster. Each plan takes a matrix of bytes and gives a verified
 * schedule, in memory that the planner keeps: from the second plan of like size on nothing is
 * allocated. docs/synthesizers.md "alltoallv" has the method, examples/alltoallv.c the use.
 */
#ifndef CCL_SYNTH_ALLTOALLV_PLANNER_H
#define CCL_SYNTH_ALLTOALLV_PLANNER_H

#include "schedule/schedule.h"

CCL_BEGIN_DECLS

/** One thread at a time. */
typedef struct ccl_alltoallv ccl_alltoallv_t;

typedef struct ccl_alltoallv_options {
    size_t size;
    double cut_bytes; /**< parts that are relayed are not cut below this; 0: 256 KiB */
    double changed;   /**< a changed matrix keeps the last plan's ways, evened out where links need
                           it, while none is loaded by more than this share over what the last plan
                           made from the start reached over the tightest cut; 0: 0.005 */
    uint32_t search_gpus; /**< clusters of at most this many GPUs are searched way by way where the
                               first plan is far from the bound; 0: 64; CCL_NONE: never */
} ccl_alltoallv_options_t;
/** The defaults. */
#define CCL_ALLTOALLV_OPTIONS_INIT                                                                 \
    { sizeof(ccl_alltoallv_options_t), 0, 0, 0 }

/** What a plan is like. */
typedef struct ccl_alltoallv_report {
    double load_s; /**< the busiest link or group: bytes over bandwidth */
    double
        bound_s; /**< the tightest cut around a GPU, a server, servers behind the same switches */
    const char *cut;        /**< which: "a GPU", ...; static */
    bool searched;          /**< ways were searched one by one */
    bool late;              /**< the deadline passed: the plan is right, but balanced less */
    uint32_t parts;         /**< into which the blocks were cut */
    double relayed;         /**< share of the bytes that pass another GPU */
    uint32_t pairs;         /**< of servers, and servers within, that have traffic */
    uint32_t changed_pairs; /**< of these: traffic is another than in the last plan's matrix */
    uint32_t replanned;     /**< of these: some bytes take other ways than in the last plan */
    double changed; /**< bytes that changed, over all bytes; 1 in a first plan, and where other
                         blocks have bytes than before */
} ccl_alltoallv_report_t;

/**
 * Prepare plans for a cluster: ways between servers, what they share, cuts.
 * @param topo     borrowed, outlives the planner.
 * @param options  NULL: defaults.
 * @param out      destroy with ccl_alltoallv_destroy().
 */
ccl_status_t ccl_alltoallv_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  const ccl_alltoallv_options_t *options, ccl_alltoallv_t **out,
                                  ccl_error_t *err);
/** Frees it and all it owns, the schedule of the last plan too; NULL is fine. */
void ccl_alltoallv_destroy(ccl_alltoallv_t *planner);
/**
 * A verified schedule for a matrix.
 *
 * @param bytes       [nranks * nranks] from rank s to d at s nranks + d; at least 0, finite. What a
 *                    rank keeps (s = d) is not moved.
 * @param deadline_s  no more balancing begins this long after the call; 0: none. What must be done
 *                    in any case, making and verifying the schedule, is not cut short.
 * @param out         lives until the next plan or the end of the planner. Its collective is custom:
 *                    blocks in order of s, then d, each cut into parts of their own sizes;
 *                    natural_bytes is the largest buffer.
 * @param report      NULL: not wanted.
 * @retval CCL_ERR_INPUT  a number of bytes that is none, or no bytes at all.
 * @par Determinism  the same bytes each time without a deadline, after the same plans before.
 */
ccl_status_t ccl_alltoallv_plan(ccl_alltoallv_t *planner, const double *bytes, double deadline_s,
                                const ccl_schedule_t **out, ccl_alltoallv_report_t *report,
                                ccl_error_t *err);
/** Forget the last plan: the next one is made from the start. */
void ccl_alltoallv_forget(ccl_alltoallv_t *planner);

CCL_END_DECLS
#endif
