/**
 * @file json.h
 * Values of JSON documents and where they stand. For the modules of the library; not installed, so
 * that public headers need no jansson.
 */
#ifndef CCL_BASE_JSON_H
#define CCL_BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/** One value of a document together with its JSON pointer ("/links/3/bandwidth"). */
typedef struct ccl_json_at {
    const ccl_json_doc_t *doc;
    const json_t *value; /**< NULL when absent */
    char pointer[200];
} ccl_json_at_t;
ccl_json_at_t ccl_json_root(const ccl_json_doc_t *doc);
/** Member or element; .value NULL when absent. */
ccl_json_at_t ccl_json_member(const ccl_json_at_t *at, const char *key);
ccl_json_at_t ccl_json_element(const ccl_json_at_t *at, size_t index);
/** CCL_ERR_INPUT "file:line:column: /pointer: text"; always returns CCL_ERR_INPUT. */
ccl_status_t ccl_json_fail(const ccl_json_at_t *at, ccl_error_t *err, const char *fmt, ...)
    CCL_PRINTF(3, 4);
/** Refuse keys that are not in `allowed` (NULL-terminated), naming the nearest allowed one. */
ccl_status_t ccl_json_only(const ccl_json_at_t *at, const char *const *allowed, ccl_error_t *err);
/* Typed reads. `required` false: absent leaves *out as it is. */
ccl_status_t ccl_json_string(const ccl_json_at_t *at, bool required, const char **out,
                             ccl_error_t *err);
/** A name: a string, or a whole number from 0, whose digits are the name (3 is "3"). Lives as long
 * as the document, which one thread reads at a time. */
ccl_status_t ccl_json_name(const ccl_json_at_t *at, bool required, const char **out,
                           ccl_error_t *err);
ccl_status_t ccl_json_u32(const ccl_json_at_t *at, bool required, uint32_t max, uint32_t *out,
                          ccl_error_t *err);
ccl_status_t ccl_json_bool(const ccl_json_at_t *at, bool required, bool *out, ccl_error_t *err);
ccl_status_t ccl_json_number(const ccl_json_at_t *at, bool required, double *out,
                             ccl_error_t *err); /**< finite */
/** Strings with units; a bare number is refused with the units listed. */
ccl_status_t ccl_json_rate_Bps(const ccl_json_at_t *at, bool required, double *out,
                               ccl_error_t *err);
ccl_status_t ccl_json_time_s(const ccl_json_at_t *at, bool required, double *out, ccl_error_t *err);
ccl_status_t ccl_json_bytes(const ccl_json_at_t *at, bool required, double *out,
                            ccl_error_t *err); /**< a bare number is bytes */
ccl_status_t ccl_json_array(const ccl_json_at_t *at, bool required, size_t *len_out,
                            ccl_error_t *err);
ccl_status_t ccl_json_object(const ccl_json_at_t *at, bool required, ccl_error_t *err);

#endif
