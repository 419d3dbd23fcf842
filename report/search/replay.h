/**
 * @file replay.h
 * Private to report/: what a replay of tuned points on a device found, a part of a tuning's result.
 */
#ifndef CCL_REPORT_REPLAY_H
#define CCL_REPORT_REPLAY_H

#include "report/fits/constants.h"
#include "report/rows.h"

typedef struct ccl_i_replay_row {
    ccl_i_constants_t constants;
    const ccl_replay_t *of;
    const ccl_tuning_t *tuning;
    const char *device, *profile;
    double error_tuned, error_fitted, tau_tuned, tau_fitted;
    uint32_t unranked;
} ccl_i_replay_row_t;

ccl_i_replay_row_t ccl_i_replay_row(const char *device, const ccl_tuning_t *tuning,
                                    const ccl_replay_t *replay);
extern const ccl_i_described_t ccl_i_replay_record;
/** Those that ran. */
ccl_status_t ccl_i_replay_points(const ccl_i_replay_row_t *row, ccl_report_format_t format,
                                 ccl_text_t *out, ccl_error_t *err);
/** All points with what was fitted: CSV a row per point, text the best of each size. */
ccl_status_t ccl_i_replay_ranks(const ccl_i_replay_row_t *row, ccl_report_format_t format,
                                ccl_text_t *out, ccl_error_t *err);

/* Lines for people, before and behind. */
void ccl_i_replay_head(const char *device, const ccl_replay_t *replay, ccl_text_t *out);
void ccl_i_replay_constants(const ccl_replay_t *replay, ccl_text_t *out);
void ccl_i_ranks_head(const ccl_replay_t *replay, ccl_text_t *out);

#endif
