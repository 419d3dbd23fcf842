/**
 * @file spread.h
 * Private to report/: times over samples of a scenario.
 */
#ifndef CCL_REPORT_SPREAD_H
#define CCL_REPORT_SPREAD_H

#include "report/rows.h"

/** One contender at one size, or one program. */
typedef struct ccl_i_spread_row {
    const char *topology, *collective, *name;
    double size_bytes;
    uint32_t samples, lost;
    double mean_s, mean_ci_s, sd_s, min_s, max_s, p50_s, p50_low_s, p50_high_s, p95_s, p95_low_s,
        p95_high_s, p99_s, p99_low_s, p99_high_s, cvar95_s;
    double rank_s, regret_s, behind_s, behind_ci_s, beats, fastest; /**< of a comparison */
    bool winner;
    const double *quantile_s;                                /**< [CCL_SPREAD_QUANTILES] */
    char mean[80], p50[120], p95[120], p99[120], behind[80]; /**< with how sure they are */
} ccl_i_spread_row_t;
void ccl_i_spread_row(const ccl_spread_t *spread, ccl_i_spread_row_t *out);
extern const ccl_i_described_t ccl_i_spread_record, ccl_i_compare_spread_record;
/** The tables of one collective's comparison over samples, for people. */
ccl_status_t ccl_i_compare_spread_text(const ccl_report_comparison_t *r, uint32_t i,
                                       ccl_text_t *out, ccl_error_t *err);
/** Contender k of comparison i at size s; NULL: it has no time. */
const ccl_i_spread_row_t *ccl_i_compare_spread_row(const ccl_report_comparison_t *r, uint32_t i,
                                                   uint32_t s, uint32_t k, ccl_i_spread_row_t *out);
/** The table of one program's samples, for people. */
ccl_status_t ccl_i_run_spread_text(const ccl_report_run_t *run, ccl_text_t *out, ccl_error_t *err);
/** "p99", "mean": what a comparison is ranked by; NULL: by times on the cluster as drawn. */
const char *ccl_i_rank_text(ccl_rank_t rank, char *out, size_t out_len);

#endif
