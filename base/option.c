/* Options by table: read from text, got and set as numbers. */
#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clocale.h"

ccl_status_t ccl_options_check(const char *type, const void *options, size_t known,
                               ccl_error_t *err) {
    size_t size = options ? *(const size_t *)options : known; /* the first member */
    if (size == known)
        return CCL_OK;
    if (size == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "%s has no size: initialise it with its _INIT macro",
                        type);
    return ccl_fail(err, CCL_ERR_INPUT,
                    "%s has %zu bytes, not %zu: compile with the headers of libccllab " CCL_VERSION,
                    type, size, known);
}

const ccl_option_t *ccl_option_find(const ccl_option_t *table, const char *name, size_t len) {
    for (; table->name; table++)
        if (strlen(table->name) == len && strncmp(table->name, name, len) == 0)
            return table;
    return NULL;
}

uint32_t ccl_option_word(const char *const *words, const char *text, size_t len) {
    for (uint32_t i = 0; words[i]; i++)
        if (strlen(words[i]) == len && strncmp(words[i], text, len) == 0)
            return i;
    return CCL_NONE;
}

const char *ccl_option_join(const char *const *words, uint32_t skip, const char *between, char *out,
                            size_t out_len) {
    size_t len = 0;

    out[0] = '\0';
    for (uint32_t i = skip; words[i] && len < out_len; i++)
        len +=
            (size_t)snprintf(out + len, out_len - len, "%s%s", i > skip ? between : "", words[i]);
    return out;
}

/* ---------------------------------------------------------------- text */

static ccl_status_t parse_count(const ccl_option_t *o, const char *text, uint32_t *out,
                                ccl_error_t *err) {
    char *end = NULL;
    double max = o->max > 0 ? o->max : CCL_NONE - 1;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || (double)value < o->min ||
        (double)value > max)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --%s wants a whole number from %.0f to %.0f, not \"%.60s\"",
                        o->name, o->min, max, text);
    *out = (uint32_t)value;
    return CCL_OK;
}

static ccl_status_t parse_number(const ccl_option_t *o, const char *text, double *out,
                                 ccl_error_t *err) {
    char *end = NULL;
    double unit = o->type == CCL_OPTION_PERCENT ? 100 : 1;
    double max = o->max > 0 ? o->max * unit : INFINITY, value = ccl_i_strtod(text, &end);

    if (end == text || *end || !(value >= o->min * unit && value <= max))
        return ccl_fail(err, CCL_ERR_USAGE,
                        "option --%s wants a number from %g to %g, not \"%.60s\"", o->name,
                        o->min * unit, max, text);
    *out = value / unit;
    return CCL_OK;
}

/* Errors of the parsers of units name the option, too. */
static ccl_status_t parse_quantity(const ccl_option_t *o, const char *text, double *out,
                                   ccl_error_t *err) {
    ccl_error_t inner = CCL_ERROR_INIT;
    double value = 0;
    ccl_status_t status = o->type == CCL_OPTION_TIME ? ccl_parse_time_s(text, &value, &inner)
                                                     : ccl_parse_bytes(text, &value, &inner);

    if (status != CCL_OK)
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s: %.400s", o->name, inner.text);
    if (o->type == CCL_OPTION_BYTES && !(value > 0))
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s: must be more than 0", o->name);
    *out = value;
    return CCL_OK;
}

static bool same_word(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if ((*a | 0x20) != (*b | 0x20)) /* letters and digits only */
            return false;
    return *a == *b;
}

static ccl_status_t parse_word(const ccl_option_t *o, const char *text, uint32_t *out,
                               ccl_error_t *err) {
    char list[200];
    uint32_t i = ccl_option_word(o->words, text, strlen(text));

    for (uint32_t w = 0; i == CCL_NONE && o->type == CCL_OPTION_WORD && o->words[w]; w++)
        if (same_word(o->words[w], text))
            i = w;
    if (i == CCL_NONE)
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s wants one of %s, not \"%.60s\"", o->name,
                        ccl_option_join(o->words, 0, ",", list, sizeof list), text);
    *out = i;
    return CCL_OK;
}

static ccl_status_t parse_text(const ccl_option_t *o, const char *text, const char **out,
                               ccl_error_t *err) {
    ccl_error_t inner = CCL_ERROR_INIT;

    if (!*text)
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s wants %s, not \"\"", o->name, o->value);
    if (o->check && o->check(text, &inner) != CCL_OK)
        return ccl_fail(err, CCL_ERR_USAGE, "option --%s: %.400s", o->name, inner.text);
    *out = text;
    return CCL_OK;
}

ccl_status_t ccl_option_parse(const ccl_option_t *o, const char *text, void *options,
                              ccl_error_t *err) {
    void *at = (char *)options + o->offset;
    uint32_t index = 0;

    switch (o->type) {
    case CCL_OPTION_FLAG:
        *(bool *)at = true;
        return CCL_OK;
    case CCL_OPTION_EITHER:
        CCL_TRY(parse_word(o, text, &index, err));
        *(bool *)at = index == 1;
        return CCL_OK;
    case CCL_OPTION_CHOICE:
        return parse_word(o, text, at, err);
    case CCL_OPTION_WORD:
        CCL_TRY(parse_word(o, text, &index, err));
        *(const char **)at = o->words[index];
        return CCL_OK;
    case CCL_OPTION_COUNT:
        return parse_count(o, text, at, err);
    case CCL_OPTION_TIME:
    case CCL_OPTION_BYTES:
        return parse_quantity(o, text, at, err);
    case CCL_OPTION_NUMBER:
    case CCL_OPTION_PERCENT:
        return parse_number(o, text, at, err);
    case CCL_OPTION_TEXT:
        return parse_text(o, text, at, err);
    case CCL_OPTION_INPUT:
    case CCL_OPTION_OUTPUT:
    case CCL_OPTION_SCHEDULE:
        return CCL_OK;
    }
    return ccl_fail(err, CCL_ERR_INTERNAL, "option --%s has no type", o->name);
}

/* ---------------------------------------------------------------- values */

const char *const *ccl_option_knob_words(const ccl_option_t *o) {
    return o->knob_words ? o->knob_words : o->words;
}

/* Of texts NULL is automatic, as is words[automatic]. */
static bool get_text(const ccl_option_t *o, const char *text, double *out) {
    const char *const *words = ccl_option_knob_words(o);
    uint32_t index = text && words ? ccl_option_word(words, text, strlen(text)) : CCL_NONE;

    *out = index == CCL_NONE || (o->type == CCL_OPTION_WORD && index == o->automatic) ? NAN : index;
    return !text || index != CCL_NONE;
}

bool ccl_option_get(const ccl_option_t *o, const void *options, double *out) {
    const void *at = (const char *)options + o->offset;
    double most = o->knob_max > 0 ? o->knob_max : o->max > 0 ? o->max : INFINITY, value = 0;

    switch (o->type) {
    case CCL_OPTION_FLAG:
    case CCL_OPTION_EITHER:
        value = *(const bool *)at;
        break;
    case CCL_OPTION_CHOICE:
    case CCL_OPTION_COUNT:
        value = *(const uint32_t *)at;
        break;
    case CCL_OPTION_TIME:
    case CCL_OPTION_BYTES:
    case CCL_OPTION_NUMBER:
    case CCL_OPTION_PERCENT:
        value = *(const double *)at;
        break;
    case CCL_OPTION_TEXT:
    case CCL_OPTION_WORD:
        return get_text(o, *(const char *const *)at, out);
    case CCL_OPTION_INPUT:
    case CCL_OPTION_OUTPUT:
    case CCL_OPTION_SCHEDULE:
        *out = NAN;
        return !*(const void *const *)at;
    }
    *out = value == o->automatic ? NAN : value;
    bool number = o->type >= CCL_OPTION_COUNT;
    return isnan(*out) || (o->knob && !(number && (value <= 0 || value > most)));
}

bool ccl_option_is_set(const ccl_option_t *o, const void *options) {
    double value = NAN;

    return !ccl_option_get(o, options, &value) || !isnan(value);
}

void ccl_option_put(const ccl_option_t *o, double value, void *options) {
    void *at = (char *)options + o->offset;

    if (isnan(value))
        return;
    switch (o->type) {
    case CCL_OPTION_FLAG:
    case CCL_OPTION_EITHER:
        *(bool *)at = value == 1;
        return;
    case CCL_OPTION_CHOICE:
    case CCL_OPTION_COUNT:
        *(uint32_t *)at = (uint32_t)value;
        return;
    case CCL_OPTION_TIME:
    case CCL_OPTION_BYTES:
    case CCL_OPTION_NUMBER:
    case CCL_OPTION_PERCENT:
        *(double *)at = value;
        return;
    case CCL_OPTION_TEXT:
    case CCL_OPTION_WORD:
        *(const char **)at = ccl_option_knob_words(o)[(uint32_t)value];
        return;
    case CCL_OPTION_INPUT:
    case CCL_OPTION_OUTPUT:
    case CCL_OPTION_SCHEDULE:
        return;
    }
}
