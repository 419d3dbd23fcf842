/** @file json.c JSON documents whose values know their line and column. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/clocale.h"

/* A value takes 20 times its text in memory; no file of ours comes near this. */
#define JSON_MAX_BYTES ((size_t)256 << 20)

static void set_name(ccl_json_doc_t *doc, const char *name) {
    name = name && *name ? name : "<text>";
    size_t len = strlen(name);
    if (len >= sizeof doc->name)
        len = sizeof doc->name - 1;
    memcpy(doc->name, name, len);
    doc->name[len] = 0;
}

/* jansson ends syntax errors with " near '...'", quoting any amount of input: keep it short. */
static void shorten_near(char *text) {
    char *near = strstr(text, " near '");
    if (near && strlen(near) > 48)
        memcpy(near + 44, "...'", 5);
}

/* Line and column, in characters, of a place in the text. */
static void place_of(const ccl_json_doc_t *doc, const char *place, int *line, int *column) {
    *line = *column = 1;
    for (const char *p = doc->text; p < place; p++) {
        if (*p == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)*p & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

static ccl_status_t parse_owned(const char *name, char *text, size_t len, ccl_json_doc_t *out,
                                ccl_error_t *err) {
    ccl_json_doc_t doc = {.text = text, .len = len};
    set_name(&doc, name);
    if (len > JSON_MAX_BYTES) {
        free(text);
        return ccl_error_set(err, CCL_ERR_INPUT, doc.name, 0, 0,
                             "larger than %zu bytes, the most JSON that is read", JSON_MAX_BYTES);
    }
    /* jansson overlooks a zero byte behind a number; nothing below expects one. */
    const char *zero = len ? memchr(text, 0, len) : NULL;
    if (zero) {
        int line, column;
        place_of(&doc, zero, &line, &column);
        free(text);
        return ccl_error_set(err, CCL_ERR_INPUT, doc.name, line, column,
                             "not valid JSON: zero byte");
    }
    json_error_t error;
    doc.root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!doc.root) {
        free(text);
        /* jansson says nothing at all when its own buffers cannot be had. */
        if (!error.text[0] || json_error_code(&error) == json_error_out_of_memory)
            return ccl_fail_nomem(err);
        char reason[JSON_ERROR_TEXT_LENGTH + 1];
        snprintf(reason, sizeof reason, "%s", error.text);
        shorten_near(reason);
        return ccl_error_set(err, CCL_ERR_INPUT, doc.name, error.line, error.column,
                             "not valid JSON: %s", reason);
    }
    *out = doc;
    return CCL_OK;
}

ccl_status_t ccl_json_parse(const char *name, const char *text, size_t len, ccl_json_doc_t *out,
                            ccl_error_t *err) {
    char *copy = malloc(len + 1);
    if (!copy)
        return ccl_fail_nomem(err);
    if (len)
        memcpy(copy, text, len);
    copy[len] = 0;
    return parse_owned(name, copy, len, out, err);
}

ccl_status_t ccl_json_read(const char *path, ccl_json_doc_t *out, ccl_error_t *err) {
    char *text;
    size_t len;
    CCL_TRY(ccl_file_read(path, JSON_MAX_BYTES, &text, &len, err));
    return parse_owned(strcmp(path, "-") == 0 ? "<stdin>" : path, text, len, out, err);
}

void ccl_json_fini(ccl_json_doc_t *doc) {
    if (!doc)
        return;
    json_decref(doc->root);
    free(doc->text);
    ccl_arena_fini(&doc->names);
    *doc = (ccl_json_doc_t){0};
}

/* ---------------------------------------------------------------- pointers */

ccl_json_at_t ccl_json_root(const ccl_json_doc_t *doc) {
    return (ccl_json_at_t){.doc = doc, .value = doc->root};
}

/* Append one step to a JSON pointer (RFC 6901); one that does not fit becomes "/...". */
static void push_step(char *pointer, size_t cap, const char *step) {
    size_t start = strlen(pointer), len = start;
    if (len + 5 > cap) /* full already */
        return;
    pointer[len++] = '/';
    for (const char *p = step; *p; p++) {
        size_t need = *p == '~' || *p == '/' ? 2 : 1;
        if (len + need + 5 > cap) { /* keeps room for a last "/..." */
            memcpy(pointer + start, "/...", 5);
            return;
        }
        if (need == 2) {
            pointer[len++] = '~';
            pointer[len++] = *p == '~' ? '0' : '1';
        } else {
            pointer[len++] = *p;
        }
    }
    pointer[len] = 0;
}

ccl_json_at_t ccl_json_member(const ccl_json_at_t *at, const char *key) {
    ccl_json_at_t out = *at;
    out.value = json_object_get(at->value, key); /* NULL for what is no object */
    push_step(out.pointer, sizeof out.pointer, key);
    return out;
}

ccl_json_at_t ccl_json_element(const ccl_json_at_t *at, size_t index) {
    ccl_json_at_t out = *at;
    out.value = json_array_get(at->value, index);
    char digits[24];
    size_t i = sizeof digits - 1;
    digits[i] = 0;
    do
        digits[--i] = (char)('0' + index % 10);
    while (index /= 10);
    push_step(out.pointer, sizeof out.pointer, digits + i);
    return out;
}

/* ---------------------------------------------------------------- positions */

/* Scans text that jansson has accepted, so it only has to stay inside it. */
typedef struct scan {
    const char *p, *end;
} scan_t;

static void skip_blanks(scan_t *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static void skip_string(scan_t *s) {
    s->p++;
    while (s->p < s->end && *s->p != '"')
        s->p += *s->p == '\\' && s->end - s->p > 1 ? 2 : 1;
    if (s->p < s->end)
        s->p++;
}

static void skip_value(scan_t *s) {
    size_t depth = 0;
    do {
        skip_blanks(s);
        if (s->p >= s->end)
            return;
        char c = *s->p;
        if (c == '"') {
            skip_string(s);
        } else if (c == '{' || c == '[') {
            depth++;
            s->p++;
        } else if (c == '}' || c == ']') {
            depth--;
            s->p++;
        } else if (c == ',' || c == ':') {
            s->p++;
        } else {
            while (s->p < s->end && !strchr(" \t\r\n,:]}", *s->p))
                s->p++;
        }
    } while (depth);
}

/* Does the string token at [text, text + len), quotes included, spell `key`? */
static bool key_is(const char *text, size_t len, const char *key) {
    if (!memchr(text, '\\', len))
        return len == strlen(key) + 2 && memcmp(text + 1, key, len - 2) == 0;
    json_t *decoded = json_loadb(text, len, JSON_DECODE_ANY, NULL);
    bool same = decoded && strcmp(json_string_value(decoded), key) == 0;
    json_decref(decoded);
    return same;
}

/* Move from a value to its child named by the step; `key_out` gets the place of its key. */
static bool enter(scan_t *s, const char *step, const char **key_out) {
    skip_blanks(s);
    if (s->p >= s->end || (*s->p != '{' && *s->p != '['))
        return false;
    bool object = *s->p++ == '{';
    char *step_end;
    unsigned long long index = object ? 0 : strtoull(step, &step_end, 10);
    for (unsigned long long i = 0;; i++) {
        skip_blanks(s);
        if (s->p >= s->end || *s->p == '}' || *s->p == ']')
            return false;
        const char *key = s->p;
        bool found = !object && i == index;
        if (object) {
            skip_string(s);
            found = key_is(key, (size_t)(s->p - key), step);
            skip_blanks(s);
            s->p++; /* colon */
            skip_blanks(s);
        }
        if (found) {
            *key_out = key;
            return true;
        }
        skip_value(s);
        skip_blanks(s);
        if (s->p < s->end && *s->p == ',')
            s->p++;
    }
}

/* Line and column (in characters) of the pointer's value, or of its deepest parent that is there.
 */
static void locate(const ccl_json_doc_t *doc, const char *pointer, bool want_key, int *line,
                   int *column) {
    scan_t s = {doc->text, doc->text + doc->len};
    skip_blanks(&s);
    const char *found = s.p;
    char step[sizeof((ccl_json_at_t *)0)->pointer];
    while (*pointer == '/') {
        size_t len = 0;
        for (pointer++; *pointer && *pointer != '/'; pointer++) {
            char c = *pointer;
            if (c == '~' && pointer[1])
                c = *++pointer == '0' ? '~' : '/';
            step[len++] = c;
        }
        step[len] = 0;
        const char *key;
        if (!enter(&s, step, &key))
            break;
        found = want_key && !*pointer ? key : s.p;
    }
    place_of(doc, found, line, column);
}

static ccl_status_t fail_at(const ccl_json_at_t *at, bool at_key, ccl_error_t *err,
                            const char *text) {
    if (!err || err->status != CCL_OK)
        return CCL_ERR_INPUT;
    int line, column;
    locate(at->doc, at->pointer, at_key, &line, &column);
    return ccl_error_set(err, CCL_ERR_INPUT, at->doc->name, line, column, "%s%s%s", at->pointer,
                         at->pointer[0] ? ": " : "", text);
}

ccl_status_t ccl_json_fail(const ccl_json_at_t *at, ccl_error_t *err, const char *fmt, ...) {
    char text[sizeof((ccl_error_t *)0)->text];
    va_list args;
    va_start(args, fmt);
    ccl_i_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return fail_at(at, false, err, text);
}

/* ---------------------------------------------------------------- typed reads */

static const char *type_name(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "a boolean";
    }
}

/* CCL_OK with *use false: absent and not required. */
static ccl_status_t present(const ccl_json_at_t *at, bool required, bool *use, ccl_error_t *err) {
    *use = at->value != NULL;
    return at->value || !required ? CCL_OK : ccl_json_fail(at, err, "missing");
}

static ccl_status_t wrong_type(const ccl_json_at_t *at, const char *want, ccl_error_t *err) {
    return ccl_json_fail(at, err, "expected %s, got %s", want, type_name(at->value));
}

ccl_status_t ccl_json_only(const ccl_json_at_t *at, const char *const *allowed, ccl_error_t *err) {
    CCL_TRY(ccl_json_object(at, true, err));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)at->value, key, value) {
        const char *const *a = allowed;
        while (*a && strcmp(*a, key) != 0)
            a++;
        if (*a)
            continue;
        ccl_json_at_t member = ccl_json_member(at, key);
        char text[512];
        const char *nearest = ccl_nearest(key, allowed);
        size_t len = 0;
        if (nearest) {
            snprintf(text, sizeof text, "unknown key \"%.60s\", did you mean \"%s\"?", key,
                     nearest);
            return fail_at(&member, true, err, text);
        }
        len = (size_t)snprintf(text, sizeof text, "unknown key \"%.60s\"; known keys:", key);
        for (a = allowed; *a && len < sizeof text; a++)
            len += (size_t)snprintf(text + len, sizeof text - len, " %s", *a);
        return fail_at(&member, true, err, text);
    }
    return CCL_OK;
}

ccl_status_t ccl_json_string(const ccl_json_at_t *at, bool required, const char **out,
                             ccl_error_t *err) {
    bool use;
    CCL_TRY(present(at, required, &use, err));
    if (!use)
        return CCL_OK;
    if (json_is_integer(at->value))
        return ccl_json_fail(at, err,
                             "expected a string, got a number; write \"%" JSON_INTEGER_FORMAT "\"",
                             json_integer_value(at->value));
    if (!json_is_string(at->value))
        return wrong_type(at, "a string", err);
    *out = json_string_value(at->value);
    return CCL_OK;
}

ccl_status_t ccl_json_name(const ccl_json_at_t *at, bool required, const char **out,
                           ccl_error_t *err) {
    if (!at->value || !json_is_integer(at->value) || json_integer_value(at->value) < 0)
        return ccl_json_string(at, required, out, err);
    char text[32];
    snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(at->value));
    /* Documents are the callers' own and never const themselves. */
    char *name = ccl_arena_strdup(&((ccl_json_doc_t *)at->doc)->names, text);
    if (!name)
        return ccl_fail_nomem(err);
    *out = name;
    return CCL_OK;
}

ccl_status_t ccl_json_u32(const ccl_json_at_t *at, bool required, uint32_t max, uint32_t *out,
                          ccl_error_t *err) {
    bool use;
    CCL_TRY(present(at, required, &use, err));
    if (!use)
        return CCL_OK;
    if (!json_is_number(at->value))
        return wrong_type(at, "a whole number", err);
    json_int_t value = json_integer_value(at->value);
    if (!json_is_integer(at->value) || value < 0 || value > (json_int_t)max)
        return ccl_json_fail(at, err, "%.10g is not a whole number from 0 to %u",
                             json_number_value(at->value), max);
    *out = (uint32_t)value;
    return CCL_OK;
}

ccl_status_t ccl_json_bool(const ccl_json_at_t *at, bool required, bool *out, ccl_error_t *err) {
    bool use;
    CCL_TRY(present(at, required, &use, err));
    if (!use)
        return CCL_OK;
    if (!json_is_boolean(at->value))
        return wrong_type(at, "true or false", err);
    *out = json_is_true(at->value);
    return CCL_OK;
}

ccl_status_t ccl_json_number(const ccl_json_at_t *at, bool required, double *out,
                             ccl_error_t *err) {
    bool use;
    CCL_TRY(present(at, required, &use, err));
    if (!use)
        return CCL_OK;
    if (!json_is_number(at->value))
        return wrong_type(at, "a number", err);
    *out = json_number_value(at->value); /* finite: jansson refuses what overflows */
    return CCL_OK;
}

typedef ccl_status_t (*parse_fn)(const char *text, double *out, ccl_error_t *err);

static ccl_status_t read_quantity(const ccl_json_at_t *at, bool required, parse_fn parse,
                                  const char *want, double *out, ccl_error_t *err) {
    bool use;
    CCL_TRY(present(at, required, &use, err));
    if (!use)
        return CCL_OK;
    if (json_is_number(at->value))
        return ccl_json_fail(at, err, "%.10g has no unit: write %s", json_number_value(at->value),
                             want);
    if (!json_is_string(at->value))
        return wrong_type(at, want, err);
    ccl_error_t inner = CCL_ERROR_INIT;
    if (parse(json_string_value(at->value), out, &inner) != CCL_OK)
        return ccl_json_fail(at, err, "%s", inner.text);
    return CCL_OK;
}

ccl_status_t ccl_json_rate_Bps(const ccl_json_at_t *at, bool required, double *out,
                               ccl_error_t *err) {
    return read_quantity(at, required, ccl_parse_rate_Bps,
                         "a rate such as \"25GB/s\", \"200Gbit/s\" or \"50GiB/s\"", out, err);
}

ccl_status_t ccl_json_time_s(const ccl_json_at_t *at, bool required, double *out,
                             ccl_error_t *err) {
    return read_quantity(at, required, ccl_parse_time_s,
                         "a time in s, ms, us or ns such as \"2us\"", out, err);
}

ccl_status_t ccl_json_bytes(const ccl_json_at_t *at, bool required, double *out, ccl_error_t *err) {
    if (!json_is_number(at->value))
        return read_quantity(at, required, ccl_parse_bytes,
                             "a size such as \"64M\", \"64MB\" or a number of bytes", out, err);
    double bytes = json_number_value(at->value);
    if (bytes < 0)
        return ccl_json_fail(at, err, "%.10g bytes is negative", bytes);
    *out = bytes;
    return CCL_OK;
}

ccl_status_t ccl_json_array(const ccl_json_at_t *at, bool required, size_t *len_out,
                            ccl_error_t *err) {
    bool use;
    CCL_TRY(present(at, required, &use, err));
    if (!use)
        return CCL_OK;
    if (!json_is_array(at->value))
        return wrong_type(at, "an array", err);
    *len_out = json_array_size(at->value);
    return CCL_OK;
}

ccl_status_t ccl_json_object(const ccl_json_at_t *at, bool required, ccl_error_t *err) {
    bool use;
    CCL_TRY(present(at, required, &use, err));
    return use && !json_is_object(at->value) ? wrong_type(at, "an object", err) : CCL_OK;
}
