/**
 * @file vendor.h
 * A whole collective by a vendor's library (NCCL, RCCL) instead of the program, on the same devices
 * and memory: what a program is compared with (HetCCL, Peking/BAAI, section 3.3: homogeneous
 * collectives are left to the vendor's library).
 */
#ifndef CCL_RUNTIME_VENDOR_H
#define CCL_RUNTIME_VENDOR_H

#include "runtime/job.h"

typedef struct ccl_i_vendor ccl_i_vendor_t;

/**
 * Opens the library and makes a communicator of all ranks; all processes of the job call it, and
 * get the same status.
 * @param name_out  "nccl 2.18.5".
 * @param out       borrows the job; close before its devices.
 * @retval CCL_ERR_MISSING  the library is not here, or the ranks have not the devices that it
 * wants.
 * @retval CCL_UNSUPPORTED  it does not run this collective, or not in these buffers.
 */
ccl_status_t ccl_i_vendor_open(ccl_i_job_t *job, char *name_out, size_t len, ccl_i_vendor_t **out,
                               ccl_error_t *err);
/**
 * Queues the collective on the streams of the job's parts, behind its gate except for the first
 * time (libraries connect then, and must not find the streams shut); sets the parts' `ready`, and
 * when it is done with a part its `over`.
 */
ccl_status_t ccl_i_vendor_launch(ccl_i_vendor_t *vendor, ccl_error_t *err);
/** Times of the last launch, by the devices' clocks, into the parts' words. */
ccl_status_t ccl_i_vendor_times(ccl_i_vendor_t *vendor, ccl_error_t *err);
/** Ends what is queued, wherever the peers are; NULL is fine, and so is doing it again. */
void ccl_i_vendor_abort(ccl_i_vendor_t *vendor);
/** CCL_ERR_IO: it did not finish. */
ccl_status_t ccl_i_vendor_hung(const ccl_i_vendor_t *vendor, ccl_error_t *err);
void ccl_i_vendor_close(ccl_i_vendor_t *vendor);

#endif
