/**
 * @file bootstrap.h
 * How the processes of a job find each other.
 */
#ifndef CCL_RUNTIME_BOOTSTRAP_H
#define CCL_RUNTIME_BOOTSTRAP_H

#include "runtime/wire/group.h"
#include "runtime/plan.h"

/** Process 0 listens at its root, or where the bootstrap says; the others come; some 30 s. */
ccl_status_t ccl_i_bootstrap_join(const ccl_run_options_t *options, ccl_i_group_t *out,
                                  ccl_error_t *err);
/** Every process gives `len` bytes and gets all of them in order: all[world * len]. */
ccl_status_t ccl_i_bootstrap_exchange(ccl_bootstrap_t *bootstrap, const void *mine, size_t len,
                                      void *all, double limit_s, ccl_error_t *err);
/**
 * A socket to every other process: fds[world], own one -1.
 * @param local  all are on this machine: over its loopback.
 */
ccl_status_t ccl_i_bootstrap_mesh(ccl_i_group_t *group, bool local, int *fds, ccl_error_t *err);
/** The same only for processes with the same plan and the same number of runs. */
uint64_t ccl_i_bootstrap_fingerprint(const ccl_i_run_plan_t *plan,
                                     const ccl_run_options_t *options);
/** The same only for processes on one machine. */
uint64_t ccl_i_bootstrap_machine(void);

#endif
