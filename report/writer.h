/**
 * @file writer.h
 * Private to report/: a streaming JSON writer and small helpers shared by its files. Results can
 * have hundreds of thousands of rows, so no tree is built.
 */
#ifndef CCL_REPORT_WRITER_H
#define CCL_REPORT_WRITER_H

#include "report/report.h"

#define CCL_I_JSON_DEPTH 16

/** Fixed key order; rows of arrays that are opened with `flat` stand on one line each. */
typedef struct ccl_i_json {
    ccl_text_t *out;
    uint32_t depth;
    bool some[CCL_I_JSON_DEPTH]; /**< something was written at this depth */
    bool flat[CCL_I_JSON_DEPTH]; /**< members of this depth stay on one line */
} ccl_i_json_t;

void ccl_i_json_begin(ccl_i_json_t *json, ccl_text_t *out); /**< opens the root object */
void ccl_i_json_end(ccl_i_json_t *json);                    /**< closes it, with a newline */
/* `key` NULL within arrays. `flat`: all members on one line. */
void ccl_i_json_object(ccl_i_json_t *json, const char *key, bool flat);
void ccl_i_json_array(ccl_i_json_t *json, const char *key, bool flat);
void ccl_i_json_close_object(ccl_i_json_t *json);
void ccl_i_json_close_array(ccl_i_json_t *json);
void ccl_i_json_string(ccl_i_json_t *json, const char *key, const char *value); /**< NULL: null */
void ccl_i_json_number(ccl_i_json_t *json, const char *key, double value); /**< not finite: null */
void ccl_i_json_u64(ccl_i_json_t *json, const char *key, uint64_t value);
void ccl_i_json_bool(ccl_i_json_t *json, const char *key, bool value);
void ccl_i_json_null(ccl_i_json_t *json, const char *key);
/** "schema" and "version", the first members of every result. */
void ccl_i_json_schema(ccl_i_json_t *json, const char *schema);

/** Shortest text that reads back to the same double; "" when not finite. Returns out. */
const char *ccl_i_number(double value, char *out, size_t out_len);
/** An index, or "" for CCL_NONE. Returns out. */
const char *ccl_i_index(uint32_t value, char *out, size_t out_len);
/** "GB/s" text with three significant digits for tables. Returns out. */
const char *ccl_i_GBps(double Bps, char *out, size_t out_len);
/** `digits` significant digits, but all before the point, and never an exponent: "0.0012", "1.25",
    "12345", "<0.0001". Returns out. */
const char *ccl_i_digits(double value, int digits, char *out, size_t out_len);
/** "4096", "131.3 million": for people. Returns out. */
const char *ccl_i_count(uint64_t n, char *out, size_t out_len);
/** Microseconds for tables, nccl-tests' two decimals, more below 1 us. Returns out. */
const char *ccl_i_us(double seconds, char *out, size_t out_len);

/** Append a table in the style's form (text or CSV). */
ccl_status_t ccl_i_table_emit(const ccl_table_t *table, ccl_report_format_t format, ccl_text_t *out,
                              ccl_error_t *err);
/** CCL_OK, or CCL_ERR_NOMEM when the buffer ran out of memory. */
ccl_status_t ccl_i_text_status(const ccl_text_t *out, ccl_error_t *err);
/** Is `table` the wanted CSV table? An unknown name is an error that lists them. */
ccl_status_t ccl_i_table_choice(const char *const *tables, const char *wanted, size_t *out,
                                ccl_error_t *err);

const char *ccl_i_order_name(ccl_order_t order);
const char *ccl_i_allocation_name(ccl_allocation_t allocation);
const char *ccl_i_granularity_name(ccl_granularity_t granularity);
const char *ccl_i_status_word(ccl_status_t status); /**< "ok", "invalid", ... of a contender */
/** Percent with two digits; little is not nothing. Returns out. */
const char *ccl_i_percent(double share, char *out, size_t out_len);
const char *ccl_i_sharing_name(ccl_sharing_t sharing);
/** On what a deadlock depends, one line; nothing where that is not known. */
void ccl_i_text_cause(const ccl_deadlock_cause_t *cause, ccl_text_t *out);
/** Devices of a link as "from->to". Returns out. */
const char *ccl_i_link_name(const ccl_topology_t *topo, uint32_t link, char *out, size_t out_len);
/** What words say of a cause of the critical path: "bytes on a link". */
const char *ccl_i_path_cause_text(ccl_path_cause_t cause);
/** And of why it had to be done: "the next one waited for the data". */
const char *ccl_i_path_wait_text(ccl_path_wait_t wait);
/** time / bound, NaN without a bound; "-" then. */
double ccl_i_gap(double time_s, double bound_s);
const char *ccl_i_gap_text(double time_s, double bound_s, char *out, size_t out_len);

#endif
