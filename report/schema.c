/* JSON Schemas (draft 2020-12) of all results, from the same descriptions that write them. */
#include "report/describe.h"

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

ccl_status_t ccl_report_schema(const char *name, ccl_text_t *out, ccl_error_t *err) {
    const ccl_i_result_t *result = NULL;
    ccl_text_t names = {0};
    ccl_status_t status;
    ccl_i_json_t json;
    char schema[80];

    for (size_t i = 0; i < CCL_ARRAY_LEN(results) && !result; i++) {
        if (strcmp(results[i]->name, name) == 0)
            result = results[i];
        ccl_text_printf(&names, "%s%s", i ? ", " : "", results[i]->name);
    }
    if (!result) {
        status = ccl_fail(err, CCL_ERR_USAGE, "no result is called \"%s\"; there are %s", name,
                          names.data);
        ccl_text_fini(&names);
        return status;
    }
    ccl_text_fini(&names);
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
