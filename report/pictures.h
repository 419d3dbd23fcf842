/**
 * @file pictures.h
 * Private to report/: results that are read back from their JSON.
 */
#ifndef CCL_REPORT_PICTURES_H
#define CCL_REPORT_PICTURES_H

#include "report/report.h"

/** Member "schema" of a result, "ccllab/compare/1"; borrowed. */
ccl_status_t ccl_i_result_schema(const ccl_json_doc_t *doc, const char **out, ccl_error_t *err);

#endif
