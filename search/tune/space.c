/* What is tuned: knobs, their values, when each applies; from JSON, from the command line. */
#include "search/tune/tuner.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 4096 };

/* ---------------------------------------------------------------- values */

static bool same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static ccl_status_t add_value(ccl_space_t *s, ccl_knob_t knob, double value, ccl_error_t *err) {
    for (uint32_t i = 0; i < s->nvalues[knob]; i++)
        if (same(s->values[knob][i], value))
            return CCL_OK;
    if (s->nvalues[knob] == MAX_VALUES)
        return ccl_fail(err, CCL_ERR_INPUT, "knob %s: more than %d values", ccl_knob_name(knob),
                        MAX_VALUES);
    if (!ccl_grow(&s->values[knob], &s->caps[knob], s->nvalues[knob] + 1u, sizeof *s->values[knob]))
        return ccl_fail_nomem(err);
    s->values[knob][s->nvalues[knob]++] = value;
    return CCL_OK;
}

/* FIRST:LAST[:FACTOR]; writes into the word. */
static ccl_status_t add_range(ccl_space_t *s, ccl_knob_t knob, char *word, ccl_error_t *err) {
    const ccl_option_t *o = ccl_knob_option(knob);
    const char *name = ccl_knob_name(knob);
    char *last_text = strchr(word, ':'), *factor_text = strchr(last_text + 1, ':');
    double first = 0, last = 0, factor = 2;
    if (!o || ccl_option_knob_words(o))
        return ccl_fail(err, CCL_ERR_INPUT, "knob %s has no ranges: its values are words", name);
    *last_text++ = '\0';
    if (factor_text)
        *factor_text++ = '\0';
    CCL_TRY(ccl_i_knob_value(knob, word, &first, err));
    CCL_TRY(ccl_i_knob_value(knob, last_text, &last, err));
    if (isnan(first) || isnan(last) || last < first)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "knob %s: a range goes from a number to a greater one, "
                        "not from \"%.40s\" to \"%.40s\"",
                        name, word, last_text);
    if (factor_text) {
        char *end = NULL;
        factor = strtod(factor_text, &end);
        if (end == factor_text || *end || !isfinite(factor) || !(factor > 1))
            return ccl_fail(err, CCL_ERR_INPUT,
                            "knob %s: factor \"%.40s\" is not a number greater than 1", name,
                            factor_text);
    }
    for (uint32_t i = 0;; i++) {
        double value = first * pow(factor, i);
        if (value > last * (1 + 1e-9))
            return CCL_OK;
        CCL_TRY(add_value(s, knob, ccl_i_knob_whole(knob) ? round(value) : value, err));
    }
}

static ccl_status_t add_words(ccl_space_t *s, ccl_knob_t knob, const char *text, ccl_error_t *err) {
    for (const char *p = text; p;) {
        size_t n = strcspn(p, ",");
        char word[128];
        if (n == 0 || n >= sizeof word)
            return ccl_fail(err, CCL_ERR_INPUT, "knob %s: empty or too long a value in \"%.80s\"",
                            ccl_knob_name(knob), text);
        memcpy(word, p, n);
        word[n] = '\0';
        if (strchr(word, ':')) {
            CCL_TRY(add_range(s, knob, word, err));
        } else {
            double value = 0;
            CCL_TRY(ccl_i_knob_value(knob, word, &value, err));
            CCL_TRY(add_value(s, knob, value, err));
        }
        p = p[n] ? p + n + 1 : NULL;
    }
    return CCL_OK;
}

/* "NAME=VALUES": the knob, and where its values stand. */
static ccl_status_t split(const char *text, ccl_knob_t *knob, const char **values,
                          ccl_error_t *err) {
    size_t len = strcspn(text, "=");
    if (!text[len])
        return ccl_fail(err, CCL_ERR_INPUT,
                        "a knob and its values are wanted, as in "
                        "channels=auto,1:16, not \"%.60s\"",
                        text);
    *values = text + len + 1;
    return ccl_knob_find(text, len, knob, err);
}

/* `knob` applies only where `on` has one of `list`'s values, which are taken over. */
static ccl_status_t add_condition(ccl_space_t *s, ccl_knob_t knob, ccl_knob_t on, ccl_space_t *list,
                                  ccl_error_t *err) {
    if (!ccl_grow(&s->conditions, &s->conditions_cap, s->nconditions + 1u, sizeof *s->conditions))
        return ccl_fail_nomem(err);
    s->conditions[s->nconditions++] = (ccl_space_condition_t){
        .knob = knob, .on = on, .nvalues = list->nvalues[on], .values = list->values[on]};
    list->values[on] = NULL;
    return CCL_OK;
}

static bool can_depend(ccl_knob_t knob, ccl_knob_t on) {
    return on != knob && knob != CCL_KNOB_WITH;
}

static void drop_conditions(ccl_space_t *s, ccl_knob_t knob) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->nconditions; i++) {
        if (s->conditions[i].knob == knob)
            free(s->conditions[i].values);
        else
            s->conditions[kept++] = s->conditions[i];
    }
    s->nconditions = kept;
}

static ccl_status_t set_when(ccl_space_t *s, ccl_knob_t knob, const char *text, ccl_error_t *err) {
    const char *values = NULL;
    ccl_knob_t on;
    CCL_TRY(split(text, &on, &values, err));
    if (!can_depend(knob, on))
        return ccl_fail(err, CCL_ERR_INPUT, "knob %s cannot depend on %s", ccl_knob_name(knob),
                        ccl_knob_name(on));
    ccl_space_t *list = calloc(1, sizeof *list); /* its values are read as any */
    if (!list)
        return ccl_fail_nomem(err);
    ccl_status_t status = add_words(list, on, values, err);
    if (status == CCL_OK) {
        drop_conditions(s, knob);
        status = add_condition(s, knob, on, list, err);
    }
    ccl_space_destroy(list);
    return status;
}

ccl_status_t ccl_space_set(ccl_space_t *space, const char *text, ccl_error_t *err) {
    static const char when[] = " when ";
    const char *values = NULL, *condition;
    ccl_knob_t knob;
    CCL_TRY(split(text, &knob, &values, err));
    condition = strstr(values, when);
    char *words = strndup(values, condition ? (size_t)(condition - values) : strlen(values));
    if (!words)
        return ccl_fail_nomem(err);
    space->nvalues[knob] = 0;
    ccl_status_t status = add_words(space, knob, words, err);
    free(words);
    if (status == CCL_OK && condition)
        status = set_when(space, knob, condition + sizeof when - 1, err);
    return status;
}

/* ---------------------------------------------------------------- JSON */

/* A scalar as the text that the command line would have. */
static ccl_status_t scalar(const ccl_json_at_t *at, char *out, size_t out_len, ccl_error_t *err) {
    if (json_is_integer(at->value))
        snprintf(out, out_len, "%lld", (long long)json_integer_value(at->value));
    else if (json_is_real(at->value))
        snprintf(out, out_len, "%.17g", json_real_value(at->value));
    else if (json_is_string(at->value) && json_string_length(at->value) < out_len)
        snprintf(out, out_len, "%s", json_string_value(at->value));
    else
        return ccl_json_fail(at, err, "a word or a number is wanted");
    return CCL_OK;
}

/* An error of a value, reported at its place. */
static ccl_status_t told_at(const ccl_json_at_t *at, ccl_status_t status, const ccl_error_t *inner,
                            ccl_error_t *err) {
    if (status == CCL_OK)
        return CCL_OK;
    return status == CCL_ERR_NOMEM ? ccl_fail_nomem(err)
                                   : ccl_json_fail(at, err, "%s", inner->text);
}

static ccl_status_t read_values(const ccl_json_at_t *at, ccl_space_t *s, ccl_knob_t knob,
                                ccl_error_t *err) {
    ccl_error_t inner = CCL_ERROR_INIT;
    char word[128];
    if (!json_is_array(at->value)) {
        CCL_TRY(scalar(at, word, sizeof word, err));
        return told_at(at, add_words(s, knob, word, &inner), &inner, err);
    }
    if (json_array_size(at->value) == 0)
        return ccl_json_fail(at, err, "knob %s has no value", ccl_knob_name(knob));
    for (size_t i = 0; i < json_array_size(at->value); i++) {
        ccl_json_at_t element = ccl_json_element(at, i);
        CCL_TRY(scalar(&element, word, sizeof word, err));
        CCL_TRY(told_at(&element, add_words(s, knob, word, &inner), &inner, err));
    }
    return CCL_OK;
}

/* "when": {"tau_ref": {"with": ["cegis"]}} */
static ccl_status_t read_condition(const ccl_json_at_t *at, ccl_space_t *s, ccl_knob_t knob,
                                   const char *on_name, ccl_error_t *err) {
    ccl_json_at_t values = ccl_json_member(at, on_name);
    ccl_error_t inner = CCL_ERROR_INIT;
    ccl_knob_t on;
    CCL_TRY(told_at(&values, ccl_knob_find(on_name, strlen(on_name), &on, &inner), &inner, err));
    if (!can_depend(knob, on))
        return ccl_json_fail(&values, err, "knob %s cannot depend on %s", ccl_knob_name(knob),
                             on_name);
    ccl_space_t *list = calloc(1, sizeof *list); /* its values are read as any */
    if (!list)
        return ccl_fail_nomem(err);
    ccl_status_t status = read_values(&values, list, on, err);
    if (status == CCL_OK)
        status = add_condition(s, knob, on, list, err);
    ccl_space_destroy(list);
    return status;
}

static ccl_status_t read_when(const ccl_json_at_t *at, ccl_space_t *s, ccl_error_t *err) {
    const char *name, *on;
    json_t *value, *ignored;
    CCL_TRY(ccl_json_object(at, false, err));
    if (!at->value)
        return CCL_OK;
    json_object_foreach((json_t *)at->value, name, value) {
        ccl_json_at_t member = ccl_json_member(at, name);
        ccl_error_t inner = CCL_ERROR_INIT;
        ccl_knob_t knob;
        CCL_TRY(told_at(&member, ccl_knob_find(name, strlen(name), &knob, &inner), &inner, err));
        CCL_TRY(ccl_json_object(&member, true, err));
        json_object_foreach(value, on, ignored) CCL_TRY(read_condition(&member, s, knob, on, err));
    }
    return CCL_OK;
}

static ccl_status_t read_space(const ccl_json_doc_t *doc, ccl_space_t *s, ccl_error_t *err) {
    static const char *const members[] = {"format", "knobs", "when", "note", NULL};
    ccl_json_at_t root = ccl_json_root(doc);
    const char *format = NULL, *name;
    json_t *ignored;
    CCL_TRY(ccl_json_object(&root, true, err));
    CCL_TRY(ccl_json_only(&root, members, err));
    ccl_json_at_t at = ccl_json_member(&root, "format");
    CCL_TRY(ccl_json_string(&at, true, &format, err));
    if (strcmp(format, "ccllab/space/1") != 0)
        return ccl_json_fail(&at, err, "\"ccllab/space/1\" is wanted, not \"%.60s\"", format);
    at = ccl_json_member(&root, "knobs");
    CCL_TRY(ccl_json_object(&at, true, err));
    json_object_foreach((json_t *)at.value, name, ignored) {
        ccl_json_at_t member = ccl_json_member(&at, name);
        ccl_error_t inner = CCL_ERROR_INIT;
        ccl_knob_t knob;
        CCL_TRY(told_at(&member, ccl_knob_find(name, strlen(name), &knob, &inner), &inner, err));
        s->nvalues[knob] = 0;
        CCL_TRY(read_values(&member, s, knob, err));
    }
    at = ccl_json_member(&root, "when");
    return read_when(&at, s, err);
}

ccl_status_t ccl_space_read(const char *path, ccl_space_t **out, ccl_error_t *err) {
    ccl_json_doc_t doc;
    ccl_space_t *s = calloc(1, sizeof *s);
    if (!s)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_json_read(path, &doc, err);
    if (status == CCL_OK) {
        status = read_space(&doc, s, err);
        ccl_json_fini(&doc);
    }
    if (status == CCL_OK)
        *out = s;
    else
        ccl_space_destroy(s);
    return status;
}

ccl_status_t ccl_space_create(ccl_space_t **out, ccl_error_t *err) {
    static const char *const usual[] = {"channels=auto,1:32",
                                        "chunks=auto,1:16",
                                        "order=auto,step,hpds",
                                        "allocate=auto,connection,state",
                                        "granularity=auto,algorithm,task",
                                        "proto=auto,LL,LL128"};
    ccl_space_t *s = calloc(1, sizeof *s);
    ccl_status_t status = s ? CCL_OK : ccl_fail_nomem(err);
    for (size_t i = 0; status == CCL_OK && i < CCL_ARRAY_LEN(usual); i++)
        status = ccl_space_set(s, usual[i], err);
    if (status == CCL_OK)
        *out = s;
    else
        ccl_space_destroy(s);
    return status;
}

void ccl_space_destroy(ccl_space_t *space) {
    if (!space)
        return;
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        free(space->values[k]);
    for (uint32_t i = 0; i < space->nconditions; i++)
        free(space->conditions[i].values);
    free(space->conditions);
    free(space);
}

/* ---------------------------------------------------------------- points */

void ccl_space_point(const ccl_space_t *space, double values[CCL_KNOBS]) {
    const ccl_synth_ops_t *ops = ccl_synth_all()[(uint32_t)values[CCL_KNOB_WITH]];
    for (uint32_t k = CCL_KNOB_OWN; k < CCL_KNOB_ORDER; k++)
        if (!isnan(values[k]) && !ccl_i_knob_counts((ccl_knob_t)k, ops))
            values[k] = NAN;
    /* One that does not apply may make another not apply: until nothing changes. */
    for (uint32_t round = 0; round <= space->nconditions; round++) {
        for (uint32_t i = 0; i < space->nconditions; i++) {
            const ccl_space_condition_t *c = &space->conditions[i];
            bool met = false;
            for (uint32_t v = 0; v < c->nvalues; v++)
                met |= same(c->values[v], values[c->on]);
            if (!met)
                values[c->knob] = NAN;
        }
    }
}

char *ccl_space_settings(const double values[CCL_KNOBS]) {
    json_t *object = json_object();
    char text[64];
    bool good = object != NULL;
    for (uint32_t k = 0; good && k < CCL_KNOBS; k++) {
        if (isnan(values[k]))
            continue;
        ccl_knob_text((ccl_knob_t)k, values[k], text, sizeof text);
        good = json_object_set_new(object, ccl_knob_name((ccl_knob_t)k),
                                   ccl_i_knob_whole((ccl_knob_t)k)
                                       ? json_integer((json_int_t)values[k])
                                       : json_string(text)) == 0;
    }
    const char *version = isnan(values[CCL_KNOB_WITH])
                              ? ""
                              : ccl_synth_version(ccl_synth_all()[(uint32_t)values[CCL_KNOB_WITH]]);
    if (good && *version) /* what one version of a plugin made is not another's */
        good = json_object_set_new(object, "version", json_string(version)) == 0;
    char *settings = good ? json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(object);
    return settings;
}

ccl_status_t ccl_i_space_values(const char *settings, double values[CCL_KNOBS], ccl_error_t *err) {
    json_error_t where;
    json_t *object = json_loads(settings, 0, &where), *member;
    const char *name;
    ccl_status_t status = json_is_object(object)
                              ? CCL_OK
                              : ccl_fail(err, CCL_ERR_INPUT, "settings are no JSON object");
    for (uint32_t k = 0; k < CCL_KNOBS; k++)
        values[k] = NAN;
    json_object_foreach(object, name, member) {
        char number[32];
        ccl_knob_t knob;
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(member));
        if (status != CCL_OK || strcmp(name, "version") == 0)
            continue;
        status = ccl_knob_find(name, strlen(name), &knob, err);
        if (status == CCL_OK)
            status =
                ccl_i_knob_value(knob, json_is_string(member) ? json_string_value(member) : number,
                                 &values[knob], err);
    }
    json_decref(object);
    char *again =
        status == CCL_OK && !isnan(values[CCL_KNOB_WITH]) ? ccl_space_settings(values) : NULL;
    if (status == CCL_OK && (!again || strcmp(again, settings) != 0))
        status = ccl_fail(err, CCL_ERR_INPUT, "settings %.200s are none of this build's", settings);
    free(again);
    return status;
}

void ccl_space_options(const double values[CCL_KNOBS], ccl_text_t *out) {
    char text[64];
    for (uint32_t k = 0; k < CCL_KNOBS; k++) {
        const ccl_option_t *o = ccl_knob_option((ccl_knob_t)k);
        const char *before = out->len ? " " : "";
        if (isnan(values[k]))
            continue;
        ccl_knob_text((ccl_knob_t)k, values[k], text, sizeof text);
        if (k == CCL_KNOB_WITH)
            ccl_text_printf(out, "%s--with %s", before, text);
        else if (k == CCL_KNOB_IMPROVE || o->flags & CCL_OPTION_KNOB_ONLY)
            ccl_text_printf(out, "%s--knob %s=%s", before, o->knob, text);
        else if (k >= CCL_KNOB_LATENCY)
            ccl_text_printf(out, "%s--scale %s=%s", before, o->name, text);
        else if (k >= CCL_KNOB_BLOCKS)
            ccl_text_printf(out, "%s--set %s=%s", before, k == CCL_KNOB_FIFO ? "slots" : o->name,
                            text);
        else
            ccl_text_printf(out, "%s--%s %s", before, o->name, text);
    }
}
