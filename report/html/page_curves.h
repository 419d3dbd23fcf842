/**
 * @file page_curves.h
 * Private to report/html: curves over size that show their values and change their axes.
 */
#ifndef CCL_REPORT_PAGE_CURVES_H
#define CCL_REPORT_PAGE_CURVES_H

#include "report/html/page.h"

/** busbw over size, and time where plot->factor says how they relate. */
ccl_status_t ccl_i_page_curves(ccl_i_page_t *page, const ccl_draw_busbw_t *plot, ccl_error_t *err);

#endif
