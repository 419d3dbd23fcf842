/* Rows of described results as JSON and as cells of tables. */
#include "report/describe.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- values */

static const void *at(const ccl_i_field_t *field, const void *row) {
    return (const char *)row + field->offset;
}

/** Does this row have the field? */
static bool there(const ccl_i_field_t *field, const void *row) {
    return field->when == 0 || *(const bool *)((const char *)row + field->when - 1);
}

/** A string, or NULL. */
static const char *string_of(const ccl_i_field_t *field, const void *row) {
    return field->type == CCL_I_CHARS ? at(field, row) : *(const char *const *)at(field, row);
}

static bool is_string(const ccl_i_field_t *field) {
    return field->type == CCL_I_STRING || field->type == CCL_I_CHARS;
}

/** A whole number; false: null. */
static bool whole_of(const ccl_i_field_t *field, const void *row, uint64_t *out) {
    if (field->type == CCL_I_U64) {
        *out = *(const uint64_t *)at(field, row);
        return !field->null || *out != UINT64_MAX;
    }
    *out = *(const uint32_t *)at(field, row);
    return !field->null || *out != CCL_NONE;
}

#define BARE(name, type_name, bytes)                                                               \
    const ccl_i_described_t name = {                                                               \
        .size = (bytes),                                                                           \
        .fields = (const ccl_i_field_t[]){{"value", .type = (type_name)}, {0}},                    \
        .bare = true}
BARE(ccl_i_bare_u32, CCL_I_U32, 0);
BARE(ccl_i_bare_number, CCL_I_NUMBER, 0);
BARE(ccl_i_bare_string, CCL_I_STRING, sizeof(const char *));
BARE(ccl_i_bare_chars, CCL_I_CHARS, 0);

/* ---------------------------------------------------------------- JSON */

static void json_record(ccl_i_json_t *json, const char *key, const ccl_i_described_t *record,
                        const void *row);

static void json_list(ccl_i_json_t *json, const char *key, const ccl_i_field_t *list,
                      const void *row) {
    const void *parent = at(list, row);
    uint64_t n = list->count(parent);
    void *scratch = NULL;

    if (n == CCL_I_NO_LIST) {
        ccl_i_json_null(json, key);
        return;
    }
    if (list->of->size && n > 0 && !(scratch = calloc(1, list->of->size))) {
        json->out->nomem = true;
        return;
    }
    ccl_i_json_array(json, key, list->line);
    for (uint64_t i = 0; i < n && !json->out->nomem; i++) {
        const void *item = list->at(parent, i, scratch);

        if (item)
            json_record(json, NULL, list->of, item);
    }
    ccl_i_json_close_array(json);
    free(scratch);
}

static void json_field(ccl_i_json_t *json, const char *key, const ccl_i_field_t *field,
                       const void *row) {
    const void *object;
    uint64_t whole;

    switch (field->type) {
    case CCL_I_STRING:
    case CCL_I_CHARS:
        ccl_i_json_string(json, key, string_of(field, row));
        break;
    case CCL_I_NUMBER:
        ccl_i_json_number(json, key, *(const double *)at(field, row));
        break;
    case CCL_I_BOOL:
        ccl_i_json_bool(json, key, *(const bool *)at(field, row));
        break;
    case CCL_I_MAYBE:
        object = *(const void *const *)at(field, row);
        if (object)
            ccl_i_json_bool(json, key, *(const bool *)object);
        else
            ccl_i_json_null(json, key);
        break;
    case CCL_I_U32:
    case CCL_I_U64:
        if (whole_of(field, row, &whole))
            ccl_i_json_u64(json, key, whole);
        else
            ccl_i_json_null(json, key);
        break;
    case CCL_I_OBJECT:
        object = *(const void *const *)at(field, row);
        if (object)
            json_record(json, key, field->of, object);
        else
            ccl_i_json_null(json, key);
        break;
    case CCL_I_PART:
        json_record(json, key, field->of, at(field, row));
        break;
    case CCL_I_LIST:
        json_list(json, key, field, row);
        break;
    }
}

static void json_members(ccl_i_json_t *json, const ccl_i_described_t *record, const void *row) {
    for (const ccl_i_field_t *f = record->fields; f->name; f++)
        if (there(f, row) && !f->hidden)
            json_field(json, f->name, f, row);
}

static void json_record(ccl_i_json_t *json, const char *key, const ccl_i_described_t *record,
                        const void *row) {
    if (record->bare) {
        const ccl_i_field_t *f = record->fields;

        while (!there(f, row))
            f++;
        json_field(json, key, f, row);
        return;
    }
    ccl_i_json_object(json, key, !record->tall);
    json_members(json, record, row);
    ccl_i_json_close_object(json);
}

ccl_status_t ccl_i_result_json(const ccl_i_result_t *result, const void *root, ccl_text_t *out,
                               ccl_error_t *err) {
    ccl_i_json_t json;
    char schema[80];

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, ccl_i_schema_name(result, schema, sizeof(schema)));
    json_members(&json, result->root, root);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- tables */

/** Columns that were found in their record. */
enum { MOST_COLUMNS = 40 };
typedef struct shown {
    uint32_t n;
    const ccl_i_field_t *fields[MOST_COLUMNS];
    ccl_i_column_t columns[MOST_COLUMNS];
} shown_t;

static bool fits_cell(const ccl_i_field_t *field) {
    return field->type != CCL_I_OBJECT && field->type != CCL_I_PART && field->type != CCL_I_LIST;
}

static const ccl_i_field_t *field_named(const ccl_i_described_t *record, const char *name) {
    for (const ccl_i_field_t *f = record->fields; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static bool fits_column(const ccl_i_field_t *field, const ccl_i_column_t *column) {
    return column->spread ? field->type == CCL_I_LIST : fits_cell(field);
}

static ccl_status_t show(const ccl_i_described_t *record, const ccl_i_column_t *columns,
                         shown_t *out, ccl_error_t *err) {
    out->n = 0;
    for (const ccl_i_column_t *c = columns; c && c->field && out->n < MOST_COLUMNS; c++) {
        const ccl_i_field_t *field = field_named(record, c->field);

        if (!field || !fits_column(field, c))
            return ccl_fail(err, CCL_ERR_INTERNAL, "a result has no column \"%s\"", c->field);
        out->columns[out->n] = *c;
        out->fields[out->n++] = field;
    }
    for (const ccl_i_field_t *f = record->fields; !columns && f->name && out->n < MOST_COLUMNS;
         f++) {
        if (f->hidden || !fits_cell(f))
            continue;
        out->columns[out->n] = (ccl_i_column_t){.field = f->name};
        out->fields[out->n++] = f;
    }
    return CCL_OK;
}

static void heading(const ccl_i_field_t *field, const ccl_i_column_t *column, const char *text,
                    ccl_table_t *table) {
    bool left = column->left || (is_string(field) && !column->right);

    ccl_table_column(table, text, left ? CCL_ALIGN_LEFT : CCL_ALIGN_RIGHT);
}

/** Row i of a list in a row; NULL: none, or no memory. */
static const void *part_at(const ccl_i_field_t *list, const void *row, uint64_t i, void **scratch) {
    if (!*scratch && list->of->size)
        *scratch = malloc(list->of->size);
    return *scratch || !list->of->size ? list->at(at(list, row), i, *scratch) : NULL;
}

/** @param row  the first; NULL: there is none. @return false when out of memory */
static bool headings(const shown_t *shown, const void *row, ccl_table_t *table) {
    for (uint32_t c = 0; c < shown->n; c++) {
        const ccl_i_column_t *column = &shown->columns[c];
        const ccl_i_field_t *field = shown->fields[c];
        uint64_t n = column->spread && row ? field->count(at(field, row)) : 0;
        void *scratch = NULL;

        if (!column->spread)
            heading(field, column, column->heading ? column->heading : column->field, table);
        for (uint64_t i = 0; i < n; i++) {
            const ccl_i_field_t *parts = field->of->fields;
            const void *part = part_at(field, row, i, &scratch);

            if (!part) {
                free(scratch);
                return false;
            }
            heading(&parts[1], column, string_of(&parts[0], part), table);
        }
        free(scratch);
    }
    return true;
}

static void number_cell(const ccl_i_column_t *column, double value, ccl_table_t *table) {
    char text[64];

    ccl_table_cell(table, "%s",
                   column->show ? column->show(value, text, sizeof(text))
                                : ccl_i_number(value, text, sizeof(text)));
}

static bool is_null(const ccl_i_field_t *field, const void *row) {
    uint64_t whole;

    if (!there(field, row))
        return true;
    if (is_string(field))
        return !string_of(field, row);
    if (field->type == CCL_I_NUMBER)
        return !isfinite(*(const double *)at(field, row));
    if (field->type == CCL_I_MAYBE)
        return !*(const bool *const *)at(field, row);
    return field->type != CCL_I_BOOL && !whole_of(field, row, &whole);
}

static void cell(const ccl_i_field_t *field, const ccl_i_column_t *column, const void *row,
                 ccl_table_t *table) {
    uint64_t whole = 0;

    if (is_null(field, row)) {
        ccl_table_cell(table, "%s", column->none ? column->none : "");
    } else if (is_string(field)) {
        ccl_table_cell(table, "%s", string_of(field, row));
    } else if (field->type == CCL_I_BOOL || field->type == CCL_I_MAYBE) {
        const void *value = at(field, row);
        bool truth =
            field->type == CCL_I_BOOL ? *(const bool *)value : **(const bool *const *)value;

        if (column->show)
            number_cell(column, truth, table);
        else
            ccl_table_cell(table, "%s", truth ? "true" : "false");
    } else if (field->type == CCL_I_NUMBER) {
        number_cell(column, *(const double *)at(field, row), table);
    } else {
        (void)whole_of(field, row, &whole);
        if (column->show)
            number_cell(column, (double)whole, table);
        else
            ccl_table_cell(table, "%llu", (unsigned long long)whole);
    }
}

/** @return false when out of memory */
static bool add_row(const shown_t *shown, const void *row, ccl_table_t *table) {
    ccl_table_row(table);
    for (uint32_t c = 0; c < shown->n; c++) {
        const ccl_i_field_t *field = shown->fields[c];
        const ccl_i_column_t *column = &shown->columns[c];
        uint64_t n = column->spread ? field->count(at(field, row)) : 0;
        void *scratch = NULL;

        if (!column->spread)
            cell(field, column, row, table);
        for (uint64_t i = 0; i < n; i++) {
            const void *part = part_at(field, row, i, &scratch);

            if (!part) {
                free(scratch);
                return false;
            }
            cell(&field->of->fields[1], column, part, table);
        }
        free(scratch);
        if (column->last && is_null(field, row))
            return true;
    }
    return true;
}

static ccl_status_t fill(const ccl_i_field_t *list, const void *parent,
                         const ccl_i_column_t *columns, ccl_table_t *table, ccl_error_t *err) {
    uint64_t n = list->count(parent);
    void *scratch = NULL;
    bool ok = true, some = false;
    shown_t shown;

    CCL_TRY(show(list->of, columns, &shown, err));
    n = n == CCL_I_NO_LIST ? 0 : n;
    if (list->of->size && n > 0 && !(scratch = calloc(1, list->of->size)))
        return ccl_fail_nomem(err);
    for (uint64_t i = 0; ok && i < n; i++) {
        const void *row = list->at(parent, i, scratch);

        if (row) {
            ok = (some || headings(&shown, row, table)) && add_row(&shown, row, table);
            some = true;
        }
    }
    if (ok && !some)
        ok = headings(&shown, NULL, table);
    free(scratch);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

static ccl_status_t emit(const ccl_i_field_t *list, const void *parent,
                         const ccl_i_column_t *columns, ccl_report_format_t format, ccl_text_t *out,
                         ccl_error_t *err) {
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;

    if (!table)
        return ccl_fail_nomem(err);
    status = fill(list, parent, columns, table, err);
    if (status == CCL_OK)
        status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

ccl_status_t ccl_i_rows_table(const ccl_i_described_t *record, const char *list, const void *row,
                              const ccl_i_column_t *columns, ccl_table_t *table, ccl_error_t *err) {
    const ccl_i_field_t *field = field_named(record, list);

    if (!field || field->type != CCL_I_LIST)
        return ccl_fail(err, CCL_ERR_INTERNAL, "a result has no list \"%s\"", list);
    return fill(field, at(field, row), columns, table, err);
}

ccl_status_t ccl_i_rows_emit(const ccl_i_described_t *record, const char *list, const void *row,
                             const ccl_i_column_t *columns, ccl_report_format_t format,
                             ccl_text_t *out, ccl_error_t *err) {
    const ccl_i_field_t *field = field_named(record, list);

    if (!field || field->type != CCL_I_LIST)
        return ccl_fail(err, CCL_ERR_INTERNAL, "a result has no list \"%s\"", list);
    return emit(field, at(field, row), columns, format, out, err);
}

static uint64_t one_row(const void *row) {
    (void)row;
    return 1;
}

static const void *same_row(const void *row, uint64_t i, void *scratch) {
    (void)i;
    (void)scratch;
    return row;
}

ccl_status_t ccl_i_row_emit(const ccl_i_described_t *record, const void *row,
                            const ccl_i_column_t *columns, ccl_report_format_t format,
                            ccl_text_t *out, ccl_error_t *err) {
    ccl_i_described_t itself = *record;
    ccl_i_field_t list = {.type = CCL_I_LIST, .of = &itself, .count = one_row, .at = same_row};

    itself.size = 0; /* the row is there already */
    return emit(&list, row, columns, format, out, err);
}

/* ---------------------------------------------------------------- numbers for people */

static const char *fixed(double value, int digits, char *out, size_t out_len) {
    snprintf(out, out_len, "%.*f", digits, value);
    return out;
}

const char *ccl_i_show_0(double value, char *out, size_t out_len) {
    return fixed(value, 0, out, out_len);
}

const char *ccl_i_show_2(double value, char *out, size_t out_len) {
    return fixed(value, 2, out, out_len);
}

const char *ccl_i_show_3(double value, char *out, size_t out_len) {
    return fixed(value, 3, out, out_len);
}

const char *ccl_i_show_percent(double share, char *out, size_t out_len) {
    return fixed(100 * share, 1, out, out_len);
}

const char *ccl_i_show_us0(double seconds, char *out, size_t out_len) {
    return fixed(seconds * 1e6, 0, out, out_len);
}

const char *ccl_i_show_yes(double truth, char *out, size_t out_len) {
    snprintf(out, out_len, "%s", truth != 0 ? "yes" : "no");
    return out;
}

const char *ccl_i_show_GBps(double GBps, char *out, size_t out_len) {
    return ccl_i_GBps(GBps * 1e9, out, out_len);
}

const char *ccl_i_show_gap(double gap, char *out, size_t out_len) {
    snprintf(out, out_len, gap < 9.995 ? "%.2f" : gap < 9999.5 ? "%.4g" : "%.0f", gap);
    return out;
}
