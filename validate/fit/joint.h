/**
 * @file joint.h
 * The joint fit's state, shared by what fits and what writes the result; private to validate/fit.
 */
#ifndef CCL_VALIDATE_JOINT_H
#define CCL_VALIDATE_JOINT_H

#include "validate/fit/bench.h"

/** Prior and bounds of a factor; the spread is of its logarithm. */
typedef struct ccl_i_fit_about {
    double prior, spread, low, high;
    const char *name, *unit;
} ccl_i_fit_about_t;
extern const ccl_i_fit_about_t ccl_i_fit_about[]; /**< by ccl_i_fit_what_t */

/** A fit at work. */
typedef struct ccl_i_fit_job {
    ccl_i_bench_t *bench;
    uint32_t np, n; /* n: points that are fitted */
    ccl_i_fit_param_t params[CCL_I_FIT_PARAMETERS];
    ccl_fit_parameter_t fit[CCL_I_FIT_PARAMETERS];
    double noise;    /* that every point has */
    bool *training;  /* [npoints] */
    uint32_t *train; /* [n] points */
    /* The last evaluation at which more than one parameter moved. */
    bool based;
    double base_p[CCL_I_FIT_PARAMETERS], *base_s, *time_s; /* [npoints] */
    bool *wanted;
} ccl_i_fit_job_t;

/** What a parameter multiplies, of a kind; CCL_NONE: of the GPU. */
double ccl_i_fit_own(const ccl_i_fit_job_t *job, const ccl_i_fit_param_t *p, uint32_t kind);
/** Whether the parameter is of this kind of connection. */
bool ccl_i_fit_is_of(const ccl_i_fit_job_t *job, const ccl_i_fit_param_t *p, uint32_t kind);
/** The constants that these logarithms of factors stand for. @param p  [np]. */
void ccl_i_fit_constants(const ccl_i_fit_job_t *job, const double *p, ccl_i_constants_set_t *out);
/** List of constants, errors, profile. The calibration has its points. */
ccl_status_t ccl_i_fit_result(const ccl_i_fit_job_t *job, const ccl_fit_parameter_t *fit,
                              const ccl_calibrate_options_t *options, ccl_calibration_t *c,
                              ccl_error_t *err);

#endif
