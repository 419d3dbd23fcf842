/* JSON Schemas (draft 2020-12) of all results, from the same descriptions that write them. */
#include "report/describe.h"

#include <stdlib.h>
#include <string.h>

static const ccl_i_result_t *const results[] = {
#define CCL_I_RESULT_LISTED(name) &ccl_i_result_##name,
    CCL_I_RESULTS(CCL_I_RESULT_LISTED)
#undef CCL_I_RESULT_LISTED
};

const char *ccl_i_schema_name(const ccl_i_result_t *result, char *out, size_t out_len) {
    snprintf(out, out_len, "ccllab/%s/1", result->name);
    return out;
}

/* ---------------------------------------------------------------- one schema */

/** Name of a type in JSON Schema. */
static const char *type_name(const ccl_i_field_t *field) {
    switch (field->type) {
    case CCL_I_STRING:
    case CCL_I_CHARS:
        return "string";
    case CCL_I_NUMBER:
        return field->whole ? "integer" : "number";
    case CCL_I_U32:
    case CCL_I_U64:
        return "integer";
    case CCL_I_BOOL:
    case CCL_I_MAYBE:
        return "boolean";
    case CCL_I_LIST:
        return "array";
    default:
        return "object";
    }
}

/** "s" of "time_s": a field's name ends in its unit. */
static const char *unit_of(const char *name) {
    static const struct {
        const char *end, *unit;
    } units[] = {{"_GBps", "GB/s"}, {"_Bps", "B/s"},   {"_bps", "bit/s"},
                 {"_bytes", "B"},   {"_per_s", "1/s"}, {"_s", "s"}};
    size_t len = strlen(name);

    for (size_t i = 0; i < CCL_ARRAY_LEN(units); i++) {
        size_t end = strlen(units[i].end);

        if (len > end && strcmp(name + len - end, units[i].end) == 0)
            return units[i].unit;
    }
    return NULL;
}

static void schema_record(ccl_i_json_t *json, const ccl_i_described_t *record, const char *schema);

/** Member "type": one name, or several where it can be null or, bare, one of several fields. */
static void schema_type(ccl_i_json_t *json, const ccl_i_field_t *field, const ccl_i_field_t *also) {
    bool null = field->null || (also && also->null);

    if (!null && !also) {
        ccl_i_json_string(json, "type", type_name(field));
        return;
    }
    ccl_i_json_array(json, "type", true);
    ccl_i_json_string(json, NULL, type_name(field));
    if (also)
        ccl_i_json_string(json, NULL, type_name(also));
    if (null)
        ccl_i_json_string(json, NULL, "null");
    ccl_i_json_close_array(json);
}

static void schema_words(ccl_i_json_t *json, const ccl_i_field_t *field) {
    ccl_i_json_array(json, "enum", true);
    for (const char *const *word = field->words; *word; word++)
        ccl_i_json_string(json, NULL, *word);
    if (field->null)
        ccl_i_json_null(json, NULL);
    ccl_i_json_close_array(json);
}

static void schema_doc(ccl_i_json_t *json, const ccl_i_field_t *field) {
    ccl_text_t doc = {0};

    if (!field->doc && !field->null)
        return;
    ccl_text_printf(&doc, "%s%s%s%s", field->doc ? field->doc : "",
                    field->doc && field->null ? "; " : "", field->null ? "null: " : "",
                    field->null ? field->null : "");
    if (doc.nomem)
        json->out->nomem = true;
    else
        ccl_i_json_string(json, "description", doc.data);
    ccl_text_fini(&doc);
}

/** The schema of a plain value stands on one line. */
static bool fits_line(const ccl_i_field_t *field) {
    return field->type != CCL_I_OBJECT && field->type != CCL_I_PART && field->type != CCL_I_LIST;
}

/** Members of the schema of one field. */
static void schema_members(ccl_i_json_t *json, const ccl_i_field_t *field,
                           const ccl_i_field_t *also) {
    schema_doc(json, field);
    if (field->name && field->type == CCL_I_NUMBER && unit_of(field->name))
        ccl_i_json_string(json, "unit", unit_of(field->name));
    schema_type(json, field, also);
    if (field->words)
        schema_words(json, field);
    if (field->type == CCL_I_OBJECT || field->type == CCL_I_PART)
        schema_record(json, field->of, NULL);
    if (field->type == CCL_I_LIST) {
        const ccl_i_described_t *of = field->of;

        ccl_i_json_object(json, "items", false);
        if (of->bare) {
            schema_members(json, &of->fields[0], of->fields[1].name ? &of->fields[1] : NULL);
        } else {
            ccl_i_json_string(json, "type", "object");
            schema_record(json, of, NULL);
        }
        ccl_i_json_close_object(json);
    }
}

static bool stands_before(const ccl_i_described_t *record, const ccl_i_field_t *field) {
    for (const ccl_i_field_t *f = record->fields; f < field; f++)
        if (!f->hidden && strcmp(f->name, field->name) == 0)
            return true;
    return false;
}

/** "properties" and "required" of an object. @param schema  of a whole document: its name. */
static void schema_record(ccl_i_json_t *json, const ccl_i_described_t *record, const char *schema) {
    ccl_i_json_object(json, "properties", false);
    if (schema) {
        ccl_i_json_object(json, "schema", true);
        ccl_i_json_string(json, "type", "string");
        ccl_i_json_array(json, "enum", true);
        ccl_i_json_string(json, NULL, schema);
        ccl_i_json_close_array(json);
        ccl_i_json_close_object(json);
        ccl_i_json_object(json, "version", true);
        ccl_i_json_string(json, "description", "of ccllab, that wrote it");
        ccl_i_json_string(json, "type", "string");
        ccl_i_json_close_object(json);
    }
    for (const ccl_i_field_t *f = record->fields; f->name; f++) {
        if (f->hidden || stands_before(record, f))
            continue;
        ccl_i_json_object(json, f->name, fits_line(f));
        schema_members(json, f, NULL);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_object(json);
    ccl_i_json_array(json, "required", true);
    if (schema) {
        ccl_i_json_string(json, NULL, "schema");
        ccl_i_json_string(json, NULL, "version");
    }
    for (const ccl_i_field_t *f = record->fields; f->name; f++)
        if (!f->when && !f->hidden)
            ccl_i_json_string(json, NULL, f->name);
    ccl_i_json_close_array(json);
}

static ccl_status_t schema_json(const ccl_i_result_t *result, ccl_text_t *out, ccl_error_t *err) {
    ccl_i_json_t json;
    char schema[80];

    ccl_i_schema_name(result, schema, sizeof(schema));
    ccl_i_json_begin(&json, out);
    ccl_i_json_string(&json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    ccl_i_json_string(&json, "$id", schema);
    ccl_i_json_string(&json, "title", result->command);
    ccl_i_json_string(&json, "description", result->doc);
    ccl_i_json_string(&json, "type", "object");
    schema_record(&json, result->root, schema);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- for people: its keys */

typedef struct key_row {
    char path[160]; /* "sizes[].results[].time_s" */
    char type[24];
    const char *unit;
    char meaning[400];
} key_row_t;

typedef struct keys {
    key_row_t *rows;
    size_t n, cap;
} keys_t;

static uint64_t count_keys(const void *root) {
    return ((const keys_t *)root)->n;
}

static const void *key_at(const void *root, uint64_t i, void *scratch) {
    (void)scratch;
    return &((const keys_t *)root)->rows[i];
}

static const ccl_i_described_t key_record = {
    .fields = (const ccl_i_field_t[]){{"key", CCL_I_AT(key_row_t, path)},
                                      {"type", CCL_I_AT(key_row_t, type)},
                                      {"unit", CCL_I_AT(key_row_t, unit), .null = "none"},
                                      {"meaning", CCL_I_AT(key_row_t, meaning)},
                                      {0}}};
static const ccl_i_described_t keys_record = {
    .fields =
        (const ccl_i_field_t[]){{"keys", CCL_I_LIST_OF(key_record, count_keys, key_at)}, {0}}};

/** What it means, which words it can be, when it is null or absent; "; " between. */
static void meaning_of(const ccl_i_field_t *field, char *out, size_t out_len) {
    size_t len = 0;

    snprintf(out, out_len, "%s", field->doc ? field->doc : "");
    for (const char *const *word = field->words; word && *word; word++) {
        len = strlen(out);
        snprintf(out + len, out_len - len, "%s%s",
                 word != field->words ? ", "
                 : field->doc         ? ": "
                                      : "",
                 *word);
    }
    len = strlen(out);
    if (field->null)
        snprintf(out + len, out_len - len, "%snull: %s", len ? "; " : "", field->null);
    len = strlen(out);
    if (field->when)
        snprintf(out + len, out_len - len, "%snot always there", len ? "; " : "");
}

/** @return false: out of memory. */
static bool add_keys(keys_t *keys, const char *parent, const ccl_i_described_t *record) {
    for (const ccl_i_field_t *f = record->fields; f->name; f++) {
        bool list = f->type == CCL_I_LIST;
        key_row_t *row;
        char path[160];

        if (f->hidden || stands_before(record, f))
            continue;
        if (!ccl_grow(&keys->rows, &keys->cap, keys->n + 1, sizeof(*keys->rows)))
            return false;
        row = &keys->rows[keys->n++];
        snprintf(row->path, sizeof(row->path), "%s%s", parent, f->name);
        snprintf(row->type, sizeof(row->type), "%s", type_name(f));
        if (list && f->of->bare)
            snprintf(row->type, sizeof(row->type), "array of %ss", type_name(f->of->fields));
        row->unit = f->type == CCL_I_NUMBER ? unit_of(f->name) : NULL;
        meaning_of(f, row->meaning, sizeof(row->meaning));
        snprintf(path, sizeof(path), "%.150s%s.", row->path, list ? "[]" : "");
        if (f->of && !f->of->bare && !add_keys(keys, path, f->of))
            return false;
    }
    return true;
}

ccl_status_t ccl_report_schema(const char *name, const ccl_report_style_t *style, ccl_text_t *out,
                               ccl_error_t *err) {
    const ccl_i_result_t *result = NULL;
    ccl_text_t names = {0};
    ccl_status_t status;
    keys_t keys = {0};

    for (size_t i = 0; i < CCL_ARRAY_LEN(results) && !result; i++) {
        if (strcmp(results[i]->name, name) == 0)
            result = results[i];
        ccl_text_printf(&names, "%s%s", i ? ", " : "", results[i]->name);
    }
    if (!result)
        status = ccl_fail(err, CCL_ERR_USAGE, "no result is called \"%s\"; there are %s", name,
                          names.data ? names.data : "none");
    else if (style->format == CCL_REPORT_JSON)
        status = schema_json(result, out, err);
    else if (add_keys(&keys, "", result->root))
        status = ccl_i_rows_emit(&keys_record, "keys", &keys, NULL, style->format, out, err);
    else
        status = ccl_fail_nomem(err);
    ccl_text_fini(&names);
    free(keys.rows);
    return status;
}

/* ---------------------------------------------------------------- all of them */

static uint64_t count_results(const void *row) {
    (void)row;
    return CCL_ARRAY_LEN(results);
}

static const void *result_at(const void *row, uint64_t i, void *scratch) {
    (void)row;
    (void)scratch;
    return results[i];
}

static const ccl_i_described_t result_record = {
    .fields = (const ccl_i_field_t[]){
        {"name", CCL_I_AT(ccl_i_result_t, name), "of the schema \"ccllab/NAME/1\""},
        {"command", CCL_I_AT(ccl_i_result_t, command), "that writes such results with --json"},
        {"content", CCL_I_AT(ccl_i_result_t, doc), "what stands in them"},
        {0}}};

static const ccl_i_field_t schemas_fields[] = {
    {"schemas", CCL_I_LIST_OF(result_record, count_results, result_at), "one row per schema"}, {0}};

const ccl_i_result_t ccl_i_result_schemas = {"schemas", "ccllab schema", "what results there are",
                                             &(const ccl_i_described_t){.fields = schemas_fields}};

ccl_status_t ccl_report_schemas(const ccl_report_style_t *style, ccl_text_t *out,
                                ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_schemas, NULL, out, err);
    return ccl_i_rows_emit(ccl_i_result_schemas.root, "schemas", NULL, NULL, style->format, out,
                           err);
}
