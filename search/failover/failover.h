/**
 * @file failover.h
 * Plans for single failures: what today's schedule loses, and what to run in its place.
 */
#ifndef CCL_SEARCH_FAILOVER_H
#define CCL_SEARCH_FAILOVER_H

#include "search/compare/compare.h"

CCL_BEGIN_DECLS

/** What fails. */
typedef enum ccl_failure_kind {
    CCL_FAILURE_NIC,   /**< a NIC, with its links */
    CCL_FAILURE_LINK,  /**< all links between two devices, both ways */
    CCL_FAILURE_GPU,   /**< a GPU; the others are the ranks that are left, in their order */
    CCL_FAILURE_SERVER /**< all links of a server have half their bandwidth */
} ccl_failure_kind_t;
#define CCL_FAILURE_KINDS 4
const char *ccl_failure_kind_name(ccl_failure_kind_t kind); /**< "nic", "link"; static */

/** Failures that are alike. */
typedef struct ccl_failure {
    ccl_failure_kind_t kind;
    const char *edit;         /**< of the first, ccl_topology_edit(): "fail:nic:s0/nic0" */
    const char *name;         /**< of the first: "s0/nic0", "s0/gpu0-s0/switch" */
    const char *const *alike; /**< [nalike] names of all */
    uint32_t nalike;
} ccl_failure_t;
typedef struct ccl_failures {
    uint32_t n, nall; /**< classes; failures */
    const ccl_failure_t *items;
    ccl_arena_t arena;
} ccl_failures_t;
/**
 * All single failures of a cluster, by kind and then in the cluster's order.
 * @param kinds  1 << CCL_FAILURE_*, a bit each; 0: all.
 * @param want   the collective, which says what symmetry there is.
 * @param out    destroy with ccl_failures_destroy().
 */
ccl_status_t ccl_failures_find(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               const ccl_collective_t *want, unsigned kinds, ccl_failures_t **out,
                               ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_failures_destroy(ccl_failures_t *failures);

/** What to do after one failure at one size. Strings belong to the result. */
typedef struct ccl_failover_plan {
    double stays_s; /**< today's winner on what is left; INFINITY: it cannot run; NaN: not known
                     */
    double nccl_stays_s;   /**< the same of the library's program */
    const char *stays_why; /**< why it cannot run; NULL: it can */
    const char *best;      /**< who made the plan's schedule; NULL: nobody can */
    bool same;             /**< it is today's */
    const char *proto;     /**< "LL" */
    const char *origin;    /**< of the program */
    double best_s;         /**< NaN: nobody can */
    double nccl_s;  /**< what the library would choose now; NaN: it cannot run, or was not asked */
    double bound_s; /**< no schedule is faster on what is left */
} ccl_failover_plan_t;

/** One class of failures. */
typedef struct ccl_failover_case {
    ccl_failure_t failure;
    ccl_status_t
        status;       /**< CCL_OK; CCL_INFEASIBLE: no cluster is left; CCL_INTERRUPTED: not done */
    const char *why;  /**< then one line; NULL: CCL_OK */
    uint32_t nranks;  /**< that are left; 0: none */
    uint32_t same_as; /**< an earlier case that leaves the same cluster, NICs that lead nowhere
                           apart: these are its plans, and programs; CCL_NONE: there is none */
    ccl_failover_plan_t *plans; /**< [nsizes] */
} ccl_failover_case_t;

/** The whole cluster at one size. */
typedef struct ccl_failover_today {
    const char *winner, *proto, *origin; /**< NULL: nobody can */
    double time_s, nccl_s, bound_s;      /**< NaN: it has no time */
} ccl_failover_today_t;

typedef struct ccl_failover {
    uint32_t nsizes, ncases;
    double *sizes_bytes;         /**< [nsizes] */
    ccl_failover_today_t *today; /**< [nsizes] */
    ccl_failover_case_t *cases;  /**< [ncases] */
    uint32_t nfailures;          /**< of all cases */
    uint32_t finished;           /**< cases with an answer */
    const char *library;         /**< "nccl", "rccl"; NULL: was not asked */
    ccl_failures_t *failures;
    ccl_arena_t arena;
} ccl_failover_t;

/**
 * A program to be kept: proven, valid during the call.
 * @param which  the plan's case; CCL_NONE: today's.
 * @return a status other than CCL_OK ends the work.
 */
typedef ccl_status_t (*ccl_failover_fn)(const ccl_failover_t *failover, uint32_t which,
                                        uint32_t size, const ccl_program_t *program, void *user,
                                        ccl_error_t *err);
typedef struct ccl_failover_options {
    size_t size;
    ccl_compare_options_t compare; /**< who is asked, at which sizes; without notebook and draws */
    bool all;                      /**< all are asked again, however slow on the whole cluster */
    unsigned kinds;                /**< as of ccl_failures_find() */
    ccl_failover_fn program; /**< called for every program as soon as it is chosen; NULL: no */
    void *user;
} ccl_failover_options_t;
/** The defaults. */
#define CCL_FAILOVER_OPTIONS_INIT                                                                  \
    { .size = sizeof(ccl_failover_options_t), .compare = CCL_COMPARE_OPTIONS_INIT }

/**
 * Compare on the whole cluster, then on what each single failure leaves of it. Every program is
 * proven, and every time simulated.
 * @param topo  as timed; options->compare.machine (or NULL) is the same without a profile.
 * @param out   destroy with ccl_failover_destroy().
 * @retval CCL_INTERRUPTED  *out has the cases that were finished, and is NULL where none was.
 * @retval CCL_INFEASIBLE   nobody can run on the whole cluster.
 * @par Determinism  the same for any number of threads.
 */
ccl_status_t ccl_failover(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                          const ccl_collective_t *want, const ccl_failover_options_t *options,
                          ccl_failover_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_failover_destroy(ccl_failover_t *failover);

CCL_END_DECLS
#endif
