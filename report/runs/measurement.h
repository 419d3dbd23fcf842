/**
 * @file measurement.h
 * Private to report/: a measured run, for its rows and its text.
 */
#ifndef CCL_REPORT_MEASUREMENT_H
#define CCL_REPORT_MEASUREMENT_H

#include "report/rows.h"

/** Root of the result. */
typedef struct ccl_i_measurement {
    const ccl_report_measurement_t *of;
    const ccl_run_result_t *last; /* NULL: no size ran */
    const char *input, *collective, *device, *type, *op, *granularity, *transport, *protocol,
        *rdma_memory, *rdma_why, *origin;
    uint32_t nranks, warmups;
    const bool *valid;
    const void *fault;
    ccl_i_fault_row_t fault_row;
    double devices, processes, threads, slots, repeats, switch_connections, in_switch;
} ccl_i_measurement_t;

/** How processes reach each other. */
const char *ccl_i_measurement_transport(const ccl_run_result_t *result);
ccl_status_t ccl_i_measurement_text(const ccl_i_measurement_t *root, ccl_text_t *out,
                                    ccl_error_t *err);

#endif
