/**
 * @file describe.h
 * Private to report/: what a result holds, described once.
 *
 * A record describes one kind of row: the struct that holds its values and its fields with name,
 * type, meaning, and when they are null or absent. From it come
 *   - the JSON of a row: all fields, in order;
 *   - the cells of tables for people and in CSV: the columns that a table picks by name;
 *   - the JSON Schema (ccl_report_schema()).
 * A name may stand twice where the places of both are never there at once.
 * A field's name holds its unit ("time_s", "bandwidth_Bps"). Rows of a list are asked for one by
 * one, as results can have hundreds of thousands: `at` returns a row of the library or fills the
 * scratch row that it is handed.
 */
#ifndef CCL_REPORT_DESCRIBE_H
#define CCL_REPORT_DESCRIBE_H

#include "report/writer.h"

#include <stddef.h>

typedef enum ccl_i_type {
    CCL_I_STRING, /**< const char *; NULL: null */
    CCL_I_CHARS,  /**< char[] in the row */
    CCL_I_NUMBER, /**< double; not finite: null */
    CCL_I_U32,    /**< with `null`: CCL_NONE is null */
    CCL_I_U64,    /**< with `null`: UINT64_MAX is null */
    CCL_I_BOOL,
    CCL_I_MAYBE,  /**< const bool *; NULL: null */
    CCL_I_OBJECT, /**< const void *, a row of `of`; NULL: null */
    CCL_I_PART,   /**< an object whose values stand in the same row, from `offset` on */
    CCL_I_LIST    /**< rows of `of` by `count` and `at`; a count of CCL_I_NO_LIST: null */
} ccl_i_type_t;
#define CCL_I_NO_LIST UINT64_MAX

typedef struct ccl_i_described ccl_i_described_t;

typedef struct ccl_i_field {
    const char *name;
    ccl_i_type_t type;
    const ccl_i_described_t *of; /**< of objects and lists */
    uint64_t (*count)(const void *row);
    /** Row i of the list. @param scratch  of->size bytes. @return NULL: there is none, go on. */
    const void *(*at)(const void *row, uint64_t i, void *scratch);
    size_t offset;
    const char *doc;
    const char *null; /**< when it is null; NULL: never */
    size_t when;      /**< 1 + offset of a bool: absent where it is false; 0: always there */
    const char *const *words; /**< of a string: all that it can be, ended by NULL; NULL: any */
    bool whole;               /**< of a number: it has no fraction */
    bool line;                /**< of a list: on one line of JSON */
    bool hidden;              /**< not in JSON, for tables only */
} ccl_i_field_t;

struct ccl_i_described {
    size_t size;                 /**< bytes of a scratch row; 0: `at` needs none */
    const ccl_i_field_t *fields; /**< ended by one without type and name */
    bool tall;                   /**< JSON: a line per member */
    bool bare;                   /**< JSON: its first field that is there, in place of an object */
};

/* clang-format off */
/** Type and offset of a field, from the member of struct `T` that holds it. Its doc follows. */
#define CCL_I_AT(T, m)                     \
    .type = _Generic(((T *)0)->m,          \
                     const char *: CCL_I_STRING, \
                     char *: CCL_I_CHARS,  \
                     double: CCL_I_NUMBER, \
                     uint32_t: CCL_I_U32,  \
                     uint64_t: CCL_I_U64,  \
                     bool: CCL_I_BOOL,     \
                     const bool *: CCL_I_MAYBE, \
                     const void *: CCL_I_OBJECT), \
    .offset = offsetof(T, m)
/** A list of rows. Its doc follows. */
#define CCL_I_LIST_OF(record, count_fn, at_fn) \
    .type = CCL_I_LIST, .of = &(record), .count = (count_fn), .at = (at_fn), .offset = 0
/** The same of a member of struct `T`, which `count_fn` and `at_fn` get in place of the row. */
#define CCL_I_LIST_IN(T, m, record, count_fn, at_fn) \
    .type = CCL_I_LIST, .of = &(record), .count = (count_fn), .at = (at_fn), .offset = offsetof(T, m)
/** An object whose values stand in the row itself, or in a member of it. Its doc follows. */
#define CCL_I_PART_OF(record) .type = CCL_I_PART, .of = &(record), .offset = 0
#define CCL_I_PART_IN(T, m, record) .type = CCL_I_PART, .of = &(record), .offset = offsetof(T, m)
#define CCL_I_WHEN(T, m) (offsetof(T, m) + 1)
/* clang-format on */

/** A number as people read it. Returns out. */
typedef const char *(*ccl_i_show_fn)(double value, char *out, size_t out_len);

/** One column of a table; text stands left, all else right. */
typedef struct ccl_i_column {
    const char *field;
    const char *heading; /**< NULL: the field's name */
    ccl_i_show_fn show;  /**< NULL: as programs read it */
    const char *none;    /**< for null; NULL: "" */
    bool right, left;    /**< where cells stand in any case */
    bool last;           /**< a row where it is null ends here */
    bool spread;         /**< of a list: a column for each of its rows, whose first field is the
                              heading, the same in all rows of the table, and whose second is shown */
} ccl_i_column_t;
/** Field, then what else there is in order. */
#define CCL_I_COLUMN(...)                                                                          \
    { .field = __VA_ARGS__ }
#define CCL_I_COLUMNS_END                                                                          \
    { .field = NULL }

/** A kind of result: one JSON document. */
typedef struct ccl_i_result {
    const char *name;    /**< "compare": its schema is "ccllab/compare/1" */
    const char *command; /**< that writes it */
    const char *doc;
    const ccl_i_described_t *root;
} ccl_i_result_t;

/** "ccllab/compare/1". Returns out. */
const char *ccl_i_schema_name(const ccl_i_result_t *result, char *out, size_t out_len);
/** A whole document, with "schema" and "version" before the root's fields. */
ccl_status_t ccl_i_result_json(const ccl_i_result_t *result, const void *root, ccl_text_t *out,
                               ccl_error_t *err);
/**
 * The rows of a list as a table.
 * @param list     name of the list among the record's fields.
 * @param row      whose list it is, of `record`.
 * @param columns  ended by one without a field; NULL: all of JSON that fit a cell.
 */
ccl_status_t ccl_i_rows_emit(const ccl_i_described_t *record, const char *list, const void *row,
                             const ccl_i_column_t *columns, ccl_report_format_t format,
                             ccl_text_t *out, ccl_error_t *err);
/** The same into a table that its caller makes. */
ccl_status_t ccl_i_rows_table(const ccl_i_described_t *record, const char *list, const void *row,
                              const ccl_i_column_t *columns, ccl_table_t *table, ccl_error_t *err);
/** One row as a table. */
ccl_status_t ccl_i_row_emit(const ccl_i_described_t *record, const void *row,
                            const ccl_i_column_t *columns, ccl_report_format_t format,
                            ccl_text_t *out, ccl_error_t *err);
/* Numbers in tables. ccl_i_us(), ccl_i_GBps(), ccl_i_percent() and ccl_format_bytes() fit, too. */
const char *ccl_i_show_0(double value, char *out, size_t out_len);       /**< 1 */
const char *ccl_i_show_2(double value, char *out, size_t out_len);       /**< 1.25 */
const char *ccl_i_show_3(double value, char *out, size_t out_len);       /**< 1.250 */
const char *ccl_i_show_percent(double share, char *out, size_t out_len); /**< 12.5 */
const char *ccl_i_show_us0(double seconds, char *out, size_t out_len);   /**< 12 */
const char *ccl_i_show_yes(double truth, char *out, size_t out_len);     /**< yes, no */
const char *ccl_i_show_GBps(double GBps, char *out, size_t out_len); /**< ccl_i_GBps() of GB/s */
const char *ccl_i_show_gap(double gap, char *out, size_t out_len);   /**< 1.25 */

/* Every result; schema.c lists them for the schemas. */
#define CCL_I_RESULTS(X)                                                                           \
    X(algos)                                                                                       \
    X(balance)                                                                                     \
    X(bound)                                                                                       \
    X(calibrate)                                                                                   \
    X(calibrate_device)                                                                            \
    X(calibrate_host)                                                                              \
    X(capacities)                                                                                  \
    X(compare)                                                                                     \
    X(devices)                                                                                     \
    X(diagnose)                                                                                    \
    X(doctor)                                                                                      \
    X(explain)                                                                                     \
    X(export)                                                                                      \
    X(failover)                                                                                    \
    X(library)                                                                                     \
    X(lower)                                                                                       \
    X(notebook)                                                                                    \
    X(notebook_gc)                                                                                 \
    X(run)                                                                                         \
    X(schemas)                                                                                     \
    X(simulate)                                                                                    \
    X(sweep)                                                                                       \
    X(symmetry)                                                                                    \
    X(synth)                                                                                       \
    X(testbed)                                                                                     \
    X(testbeds)                                                                                    \
    X(thresholds)                                                                                  \
    X(thresholds_check)                                                                            \
    X(topology_check)                                                                              \
    X(topology_summary)                                                                            \
    X(tune)                                                                                        \
    X(validate)                                                                                    \
    X(validate_measured)                                                                           \
    X(verify)                                                                                      \
    X(watch)

#define CCL_I_RESULT_DECLARE(name) extern const ccl_i_result_t ccl_i_result_##name;
CCL_I_RESULTS(CCL_I_RESULT_DECLARE)
#undef CCL_I_RESULT_DECLARE

/* Words of fields, ended by NULL. */
extern const char *const ccl_i_order_words[],
    *const ccl_i_allocation_words[], *const ccl_i_granularity_words[],
                                         *const ccl_i_status_words[], *const ccl_i_stopped_words[];

/* Lists of plain values: `at` returns where one stands. */
extern const ccl_i_described_t ccl_i_bare_u32, ccl_i_bare_number, ccl_i_bare_string,
    ccl_i_bare_chars;

/** Whose constants a result was timed with: a name, NULL: the description's. */
#define CCL_I_PROFILE(of)                                                                          \
    { "profile", of, "whose constants were laid over the cluster", .null = "its own hold" }
/** "profile NAME (what it was fitted to)", or "the constants of its description". */
const char *ccl_i_constants_text(const ccl_topology_t *topo, char *out, size_t out_len);
/** The profile's name; NULL: none. */
static inline const char *ccl_i_profile_name(const ccl_topology_t *topo) {
    return *topo->profile ? topo->profile : NULL;
}

#endif
