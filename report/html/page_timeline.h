/**
 * @file page_timeline.h
 * Private to report/html: a Chrome trace as the data of timeline.js.
 */
#ifndef CCL_REPORT_PAGE_TIMELINE_H
#define CCL_REPORT_PAGE_TIMELINE_H

#include "report/html/page.h"

typedef struct ccl_i_page_traced {
    size_t spans;     /**< of the trace */
    double merged_ns; /**< those nearer than this were put together; 0: none */
    size_t folded;    /**< rows that stand in others */
} ccl_i_page_traced_t;
/** Append the data; rows that are alike are one. */
ccl_status_t ccl_i_page_timeline(const ccl_json_doc_t *doc, ccl_text_t *out,
                                 ccl_i_page_traced_t *about, ccl_error_t *err);

#endif
