/**
 * @file page.h
 * Private to report/: what the files of the HTML page share.
 */
#ifndef CCL_REPORT_PAGE_H
#define CCL_REPORT_PAGE_H

#include "report/pictures.h"
#include "base/json.h"
#include "report/writer.h"

extern const char ccl_i_timeline_js[]; /**< timeline.js */

/** A string of JSON that may stand inside an element `script`. */
void ccl_i_script_string(ccl_text_t *out, const char *text);
/**
 * A Chrome trace as the data of timeline.js.
 * @param merged_ns_out  spans that were nearer than this were put together; 0: none.
 * @param spans_out      how many there were.
 */
ccl_status_t ccl_i_page_timeline(const ccl_json_doc_t *doc, ccl_text_t *out, double *merged_ns_out,
                                 size_t *spans_out, ccl_error_t *err);
/** A member of a result as a page shows it. */
typedef struct ccl_i_page_fact {
    const char *key, *told; /**< shown with its unit */
    double scale;           /**< that a number is multiplied by; 0: 1 */
} ccl_i_page_fact_t;
/** A table of two columns without its end; no row for what `root` does not have. */
void ccl_i_page_facts(ccl_text_t *out, const json_t *root, const ccl_i_page_fact_t *facts,
                      size_t n);
/** The picture inside the page; it is destroyed. */
ccl_status_t ccl_i_page_picture(ccl_picture_t *picture, ccl_text_t *out, ccl_error_t *err);
/** " --NAME VALUE" as a shell reads it; nothing where the value is "". */
void ccl_i_page_option(ccl_text_t *out, const char *name, const char *value);
/** Is it a result of `tune`, or all points of a lab notebook (`notebook export --json`)? */
bool ccl_i_page_is_search(const ccl_json_doc_t *doc);
/** What was tried, a section for each cluster and collective. */
ccl_status_t ccl_i_page_search(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err);
/** The command that repeats the best of each size. */
ccl_status_t ccl_i_page_search_repeat(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err);
/** A result of `explain`: where the time goes, what waits, the links of the bound, what helps. */
ccl_status_t ccl_i_page_explanation(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err);

#endif
