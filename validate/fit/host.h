/** @file host.h Private to validate/: what calibration and validation on the host share. */
#ifndef CCL_VALIDATE_HOST_H
#define CCL_VALIDATE_HOST_H

#include "validate/validate.h"
#include "base/json.h"

#define CCL_I_HOST_SLICE_BYTES (32.0 * 1024) /* the runtime's own limit where there is memory */
#define CCL_I_HOST_REPEATS 3u                /* runs of one round; the least counts */

/** Least time of a few runs: the given function, or the device. */
ccl_status_t ccl_i_host_measure(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                const ccl_run_options_t *options, ccl_host_measure_fn measure,
                                void *user, double *time_s_out, ccl_error_t *err);
/** Workers of all processes of a run of `nranks`. */
uint32_t ccl_i_host_workers(const ccl_run_options_t *options, uint32_t nranks);
/** Processes that run `nranks`. */
uint32_t ccl_i_host_processes(const ccl_run_options_t *options, uint32_t nranks);
/** Runs before one that is measured. */
uint32_t ccl_i_host_warmups(const ccl_run_options_t *options);
/** The profile's text. */
void ccl_i_host_profile(const ccl_host_calibration_t *made,
                        const ccl_host_calibrate_options_t *options, ccl_text_t *out);
/** One of a model's tables at `bytes`: interpolated over their logarithm. */
double ccl_i_host_at(const ccl_host_model_t *model, const double *values, double bytes);
/**
 * What the data of every step of a run cost in a micro-batch.
 * @param work_ns  [nsteps], of zeros.
 */
ccl_status_t ccl_i_host_data_work(const ccl_program_t *program, const ccl_run_options_t *options,
                                  const ccl_host_model_t *model, double *work_ns, ccl_error_t *err);
/** kappa with its interval, measured. */
ccl_status_t ccl_i_host_contention(const ccl_ctx_t *ctx,
                                   const ccl_host_calibrate_options_t *options, uint32_t workers,
                                   uint32_t rounds, ccl_constant_t *out, ccl_error_t *err);
/** A member of a profile's text. */
void ccl_i_profile_string(ccl_text_t *out, const char *key, const char *text);
/** A profile's last member, and its end. */
void ccl_i_profile_constants(ccl_text_t *out, const ccl_constant_t *constants, uint32_t n);
/** A profile's document: a file, or one of the library's. */
ccl_status_t ccl_i_profile_open(const char *spec, ccl_json_doc_t *out, ccl_error_t *err);
/** It has no member `host` or `device`. @param wanted  "a host". @param kind  that writes one. */
ccl_status_t ccl_i_profile_other(const ccl_json_at_t *root, const char *spec, const char *wanted,
                                 const char *kind, ccl_error_t *err);
/** "ranks", "processes", "transport", "type", "op" of the runs that a profile is of; both ways. */
ccl_status_t ccl_i_run_settings_read(const ccl_json_at_t *at, ccl_run_options_t *out,
                                     ccl_error_t *err);
void ccl_i_run_settings_write(const ccl_run_options_t *options, ccl_text_t *out);
/** Member "device" of a profile. @param devices  1, or 2: each rank had one. */
void ccl_i_gpu_machine_write(const ccl_gpu_constants_t *constants, const ccl_run_options_t *run,
                             double slice_bytes, uint32_t devices, ccl_text_t *out);
/** Ascending; n at least 1. */
double ccl_i_host_median(double *values, uint32_t n);

#endif
