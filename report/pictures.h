/**
 * @file pictures.h
 * Private to report/: results that are read back from their JSON.
 */
#ifndef CCL_REPORT_PICTURES_H
#define CCL_REPORT_PICTURES_H

#include "report/report.h"
#include "base/json.h"

/** Member "schema" of a result, "ccllab/compare/1"; borrowed. */
ccl_status_t ccl_i_result_schema(const ccl_json_doc_t *doc, const char **out, ccl_error_t *err);
/** Is a result what `ccllab COMMAND --json` writes? */
ccl_status_t ccl_i_want_schema(const ccl_json_doc_t *doc, const char *want, const char *command,
                               ccl_error_t *err);
/* Members that must be there, errors with file, line and column. */
ccl_status_t ccl_i_read_number(const ccl_json_at_t *at, const char *key, double *out,
                               ccl_error_t *err);
/** NaN for null and for what is not there. */
ccl_status_t ccl_i_read_maybe(const ccl_json_at_t *at, const char *key, double *out,
                              ccl_error_t *err);
ccl_status_t ccl_i_read_string(const ccl_json_at_t *at, const char *key, const char **out,
                               ccl_error_t *err);

/** Comparisons of a result of compare as plots; all in the arena. */
ccl_status_t ccl_i_read_comparisons(const ccl_json_doc_t *doc, ccl_arena_t *arena,
                                    ccl_draw_busbw_t **out, uint32_t *n_out, ccl_error_t *err);

#endif
