/**
 * @file sampled.h
 * Private to report/: tuned points over samples of a scenario, a part of a tuning's result.
 */
#ifndef CCL_REPORT_SAMPLED_H
#define CCL_REPORT_SAMPLED_H

#include "report/rows.h"

typedef struct ccl_i_sampled_row {
    const ccl_tune_samples_t *of;
    const ccl_tuning_t *tuning;
    const char *scenario, *rank;
    uint32_t samples;
    char rank_text[32];
} ccl_i_sampled_row_t;

/** Fills *row, which must not move. */
void ccl_i_sampled_row(const ccl_report_tuning_t *about, ccl_i_sampled_row_t *row);
extern const ccl_i_described_t ccl_i_sampled_record;
ccl_status_t ccl_i_sampled_points(const ccl_i_sampled_row_t *row, ccl_report_format_t format,
                                  ccl_text_t *out, ccl_error_t *err);
/** The line above them, for people. */
void ccl_i_sampled_head(const ccl_i_sampled_row_t *row, ccl_text_t *out);

#endif
