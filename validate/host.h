/** @file host.h Private to validate/: what calibration and validation on the host share. */
#ifndef CCL_VALIDATE_HOST_H
#define CCL_VALIDATE_HOST_H

#include "validate/validate.h"

#define CCL_I_HOST_SLICE_BYTES (32.0 * 1024) /* the runtime's own limit where there is memory */
#define CCL_I_HOST_REPEATS 3u                /* runs of one round; the least counts */

/** Least time of a few runs: the given function, or the device. */
ccl_status_t ccl_i_host_measure(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                const ccl_run_options_t *options, ccl_host_measure_fn measure,
                                void *user, double *time_s_out, ccl_error_t *err);
/** Workers of all processes of a run of so many ranks. */
uint32_t ccl_i_host_workers(const ccl_run_options_t *options, uint32_t nranks);
/** Runs before one that is measured. */
uint32_t ccl_i_host_warmups(const ccl_run_options_t *options);
/** The profile's text. */
void ccl_i_host_profile(const ccl_host_calibration_t *made,
                        const ccl_host_calibrate_options_t *options, ccl_text_t *out);
/** Ascending; n at least 1. */
double ccl_i_host_median(double *values, uint32_t n);

#endif
