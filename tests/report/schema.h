/* Holds JSON to a JSON Schema: the keywords that ccllab's schemas use, and stricter, as keys that a
 * schema does not name are refused. */
#ifndef TESTS_REPORT_SCHEMA_H
#define TESTS_REPORT_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct schema_fault {
    char text[600]; /* "": there is none */
} schema_fault_t;

static inline void schema_says(schema_fault_t *fault, const char *at, const char *what,
                               const char *which) {
    if (!fault->text[0])
        snprintf(fault->text, sizeof(fault->text), "%.300s: %s%.200s", at[0] ? at : "/", what,
                 which);
}

static inline bool schema_is(const json_t *value, const char *type) {
    if (strcmp(type, "object") == 0)
        return json_is_object(value);
    if (strcmp(type, "array") == 0)
        return json_is_array(value);
    if (strcmp(type, "string") == 0)
        return json_is_string(value);
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value);
    if (strcmp(type, "null") == 0)
        return json_is_null(value);
    if (strcmp(type, "integer") == 0)
        return json_is_integer(value);
    return strcmp(type, "number") == 0 && json_is_number(value);
}

static inline bool schema_has_type(const json_t *value, const json_t *types) {
    size_t i;
    json_t *type;

    if (json_is_string(types))
        return schema_is(value, json_string_value(types));
    json_array_foreach(types, i, type) if (schema_is(value, json_string_value(type))) return true;
    return false;
}

/** A keyword that this validator passes over would be one that nothing holds. */
static inline void schema_known(const json_t *schema, const char *at, schema_fault_t *fault) {
    static const char *const known[] = {"$schema", "$id",        "title",    "description", "unit",
                                        "type",    "properties", "required", "items",       "enum"};
    const char *key;
    json_t *member;

    json_object_foreach((json_t *)schema, key, member) {
        bool found = false;

        for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
            found = found || strcmp(key, known[i]) == 0;
        if (!found)
            schema_says(fault, at, "the schema has an unknown keyword ", key);
    }
}

static inline void schema_check(const json_t *value, const json_t *schema, const char *at,
                                schema_fault_t *fault) {
    const json_t *properties = json_object_get(schema, "properties"),
                 *words = json_object_get(schema, "enum");
    char path[400];
    const char *key;
    json_t *member;
    size_t i;

    schema_known(schema, at, fault);
    if (!schema_has_type(value, json_object_get(schema, "type"))) {
        schema_says(fault, at, "of another type than the schema has", "");
        return;
    }
    if (words) {
        bool found = false;

        json_array_foreach(words, i, member) found = found || json_equal(value, member);
        if (!found)
            schema_says(fault, at, "not one of the schema's words: ",
                        json_is_string(value) ? json_string_value(value) : "");
    }
    if (properties && json_is_object(value)) {
        json_array_foreach(json_object_get(schema, "required"), i, member) {
            if (!json_object_get(value, json_string_value(member)))
                schema_says(fault, at, "it lacks ", json_string_value(member));
        }
        json_object_foreach((json_t *)value, key, member) {
            snprintf(path, sizeof(path), "%.300s/%.60s", at, key);
            if (!json_object_get(properties, key))
                schema_says(fault, path, "the schema does not name it", "");
            else
                schema_check(member, json_object_get(properties, key), path, fault);
        }
    }
    if (json_is_array(value)) {
        json_array_foreach(value, i, member) {
            snprintf(path, sizeof(path), "%.300s/%zu", at, i);
            schema_check(member, json_object_get(schema, "items"), path, fault);
        }
    }
}

#endif
