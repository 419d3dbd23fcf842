/**
 * @file sweep.h
 * Private to report/: the best of a sweep.
 */
#ifndef CCL_REPORT_SWEEP_H
#define CCL_REPORT_SWEEP_H

#include "report/rows.h"

/** The best run at a size; NULL: none has ended. */
const ccl_tune_run_t *ccl_i_sweep_best(const ccl_report_sweep_case_t *c, uint32_t size);

#endif
