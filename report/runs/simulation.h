/**
 * @file simulation.h
 * Private to report/: the text of a simulated run.
 */
#ifndef CCL_REPORT_SIMULATION_H
#define CCL_REPORT_SIMULATION_H

#include "report/rows.h"

/** @param rows  of each table. */
ccl_status_t ccl_i_run_text(const ccl_report_run_t *run, uint32_t rows, ccl_text_t *out,
                            ccl_error_t *err);

#endif
