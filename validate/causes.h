/**
 * @file causes.h
 * Probabilities of causes from the rows of a diagnosis; private to validate.
 */
#ifndef CCL_VALIDATE_CAUSES_H
#define CCL_VALIDATE_CAUSES_H

#include "validate/validate.h"

#define CCL_I_ALGOS ((uint32_t)CCL_NCCL_P2P)
#define CCL_I_PROTOS ((uint32_t)CCL_NCCL_SIMPLE + 1)
#define CCL_I_WAYS (CCL_I_ALGOS * CCL_I_PROTOS)

/** What is known of a run's rows, all borrowed. */
typedef struct ccl_i_cause_rows {
    const ccl_measured_run_t *run;
    const ccl_diagnosis_t *points; /**< [n], judged */
    uint32_t n;
    const double *others_s; /**< [n][CCL_I_WAYS] with that algorithm and protocol, seconds; NAN: it
                                 cannot be; INFINITY: more than limit_s */
    const double
        *no_nvls_s;        /**< [n] as NCCL would choose without NVLS; NAN: the same, or as above */
    const double *limit_s; /**< [n] */
    uint32_t nics, nservers; /**< of a server; in all */
    bool rails;              /**< a NIC that does nothing takes its share of the bandwidth away */
    bool fitted;             /**< a profile's constants */
} ccl_i_cause_rows_t;

/**
 * Causes with probabilities, the most likely first, and the verdict of the run.
 * @param arena  owns the texts.
 */
ccl_status_t ccl_i_causes(const ccl_i_cause_rows_t *rows, ccl_arena_t *arena,
                          ccl_diagnosis_run_t *out, ccl_error_t *err);

#endif
