/**
 * @file ways.h
 * One schedule lowered in many ways.
 */
#ifndef CCL_SEARCH_WAYS_H
#define CCL_SEARCH_WAYS_H

#include "lower/lower.h"

CCL_BEGIN_DECLS

/** One schedule lowered one way, and one run of the program. */
typedef struct ccl_lowered {
    ccl_way_t way;
    ccl_status_t status; /**< CCL_OK, or why there is no time */
    char why[768];       /**< then one line */
    ccl_origin_t origin; /**< of the program; "": none was made, or nobody said */
    ccl_lower_stats_t stats;
    double time_s, algbw_GBps, busbw_GBps;
    uint32_t batches;
    ccl_sim_usage_t usage;
    uint32_t ntbs, nsteps;    /**< of the program */
    ccl_program_t *program;   /**< when kept */
    ccl_sim_result_t *result; /**< when kept */
} ccl_lowered_t;

typedef struct ccl_lower_ways_options {
    size_t size;
    const ccl_way_t *ways;
    uint32_t nways;
    ccl_lower_options_t lower; /**< all but the way, the topology and the run */
    ccl_sim_options_t sim;     /**< the run: size_bytes > 0; granularity is the way's */
    bool keep;                 /**< programs and results stay, for tables of thread blocks */
} ccl_lower_ways_options_t;
/** The defaults. */
#define CCL_LOWER_WAYS_OPTIONS_INIT                                                                \
    {                                                                                              \
        .size = sizeof(ccl_lower_ways_options_t), .lower = CCL_LOWER_OPTIONS_INIT,                 \
        .sim = CCL_SIM_OPTIONS_INIT                                                                \
    }

/**
 * Lower a schedule every way given, prove each program at its level (with options->lower.executor's
 * limits), and simulate it, in parallel. A way that fails says so in its row; the schedule itself
 * must be right.
 *
 * @param out  array [nways], freed with ccl_lowered_destroy().
 * @retval CCL_CHECK  the schedule is wrong (err names its first fault).
 * @par Determinism  all but stats is the same for any number of threads; the wall times of stats
 * are undisturbed with one.
 */
ccl_status_t ccl_lower_ways(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                            const ccl_schedule_t *schedule, const ccl_lower_ways_options_t *options,
                            ccl_lowered_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_lowered_destroy(ccl_lowered_t *lowered, uint32_t n);

CCL_END_DECLS
#endif
