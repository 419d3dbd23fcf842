/**
 * @file page_spread.h
 * Private to report/html: times over samples of a scenario.
 */
#ifndef CCL_REPORT_PAGE_SPREAD_H
#define CCL_REPORT_PAGE_SPREAD_H

#include "report/html/page.h"

/** A distribution for each size of a comparison over samples; nothing of one without. */
ccl_status_t ccl_i_page_spreads(ccl_i_page_t *page, const json_t *comparison, ccl_error_t *err);
/** That of one run's samples. @param spread  NULL, or null: none. */
ccl_status_t ccl_i_page_run_spread(ccl_i_page_t *page, const json_t *spread, const char *name,
                                   ccl_error_t *err);

#endif
