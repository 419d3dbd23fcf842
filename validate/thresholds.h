/**
 * @file thresholds.h
 * Acceptance tests of clusters: the bandwidth that a collective has to reach at each size, written
 * once, and measured runs held against it.
 */
#ifndef CCL_VALIDATE_THRESHOLDS_H
#define CCL_VALIDATE_THRESHOLDS_H

#include "validate/fit/fit.h"

CCL_BEGIN_DECLS

/** One collective at one size, on all ranks of the cluster. */
typedef struct ccl_threshold {
    ccl_collective_kind_t kind;
    uint32_t nranks;
    double size_bytes;                      /**< as nccl-tests counts it */
    double expected_s, expected_busbw_GBps; /**< with what NCCL chooses */
    double bound_s;                         /**< no schedule is faster */
    double most_s, least_busbw_GBps;        /**< a run that takes longer is not accepted */
    ccl_nccl_choice_t choice;
} ccl_threshold_t;
typedef struct ccl_thresholds {
    const char *topology, *profile; /**< names; profile NULL: the cluster's own constants */
    double share;                   /**< least over expected bandwidth, 0..1 */
    uint32_t n;
    const ccl_threshold_t *items; /**< by collective and size */
    ccl_arena_t arena;
} ccl_thresholds_t;
typedef struct ccl_thresholds_options {
    size_t size;
    const ccl_profile_t *profile;       /**< NULL: the topology's own constants */
    uint32_t channels;                  /**< as in ccl_nccl_setup() */
    bool registered;                    /**< as in ccl_predictor_nvls() */
    double share;                       /**< 0: CCL_NORMAL_LOW */
    const ccl_collective_kind_t *kinds; /**< [nkinds], none of them CCL_CUSTOM */
    uint32_t nkinds;
    const double *sizes_bytes; /**< [nsizes] */
    uint32_t nsizes;
} ccl_thresholds_options_t;
/** The defaults. */
#define CCL_THRESHOLDS_OPTIONS_INIT                                                                \
    { sizeof(ccl_thresholds_options_t), NULL, 0, false, 0, NULL, 0, NULL, 0 }
/**
 * Simulate what NCCL runs for every collective and size.
 * @param topo  as described, without the profile.
 * @param out   destroy with ccl_thresholds_destroy().
 * @retval CCL_ERR_INPUT  a cluster of one GPU.
 */
ccl_status_t ccl_thresholds_make(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_thresholds_options_t *options, ccl_thresholds_t **out,
                                 ccl_error_t *err);
/**
 * A file that was written before (JSON, "ccllab/thresholds/1"), or thresholds.json of a folder.
 * @param out  destroy with ccl_thresholds_destroy().
 * @retval CCL_ERR_INPUT  another document, or a value that cannot be, with line and column.
 */
ccl_status_t ccl_thresholds_read(const char *path, ccl_thresholds_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_thresholds_destroy(ccl_thresholds_t *thresholds);

/** A measured size beside its threshold. */
typedef struct ccl_accepted {
    uint32_t run, line; /**< index among the runs, line of its log */
    ccl_collective_kind_t kind;
    uint32_t nranks;
    double size_bytes, measured_s, measured_busbw_GBps;
    double least_busbw_GBps, expected_busbw_GBps;
    bool accepted;
} ccl_accepted_t;
typedef struct ccl_acceptance {
    uint32_t n, nrefused;
    uint32_t nothers; /**< sizes for which there is no threshold: another collective or number of
                           ranks, or beyond the sizes that thresholds have */
    const ccl_accepted_t *items; /**< in the order of the runs */
    ccl_arena_t arena;
} ccl_acceptance_t;
/**
 * Hold measured runs against thresholds. Between two sizes the threshold is interpolated: the
 * logarithm of the time over the logarithm of the size.
 * @param runs  [nruns]; a run whose collective is not known has no thresholds.
 * @param out   destroy with ccl_acceptance_destroy().
 * @retval CCL_ERR_INPUT  not one size has a threshold.
 */
ccl_status_t ccl_thresholds_check(const ccl_thresholds_t *thresholds,
                                  const ccl_measured_run_t *const *runs, uint32_t nruns,
                                  bool in_place, ccl_acceptance_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_acceptance_destroy(ccl_acceptance_t *acceptance);

CCL_END_DECLS
#endif
