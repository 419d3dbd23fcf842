/* Which knob is which option, and its values as text. */
#include "search/tune/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Knobs that no options of a schedule or a run have: what the cluster is like, and the local
   search. */
static const ccl_option_t cluster_options[] = {
    {.name = "blocks",
     .type = CCL_OPTION_COUNT,
     .doc = "the most thread blocks of a GPU: synthesizers plan with that many, what needs more is "
            "refused",
     .knob = "blocks",
     .knob_max = 1 << 20},
    {.name = "slice",
     .type = CCL_OPTION_BYTES,
     .doc = "most bytes of a slice, of all transports",
     .knob = "slice"},
    {.name = "slices",
     .type = CCL_OPTION_COUNT,
     .doc = "least slices of a primitive, of all transports",
     .knob = "slices",
     .knob_max = 1 << 20},
    {.name = "piece",
     .type = CCL_OPTION_BYTES,
     .doc = "most bytes of a chunk, which sets the number of micro-batches (a chunk also fits half "
            "a FIFO)",
     .knob = "piece"},
    {.name = "fifo",
     .type = CCL_OPTION_COUNT,
     .doc = "FIFO depth in slices, of all transports (their slots)",
     .knob = "fifo",
     .knob_max = 1 << 20},
    {.name = "latency",
     .type = CCL_OPTION_NUMBER,
     .doc = "factor, as --scale latency",
     .knob = "latency",
     .knob_max = 1000},
    {.name = "overhead",
     .type = CCL_OPTION_NUMBER,
     .doc = "factor, as --scale overhead",
     .knob = "overhead",
     .knob_max = 1000},
    {.name = "tb_rate",
     .type = CCL_OPTION_NUMBER,
     .doc = "factor, as --scale tb_rate",
     .knob = "tb_rate",
     .knob_max = 1000},
    {.name = "improve",
     .type = CCL_OPTION_COUNT,
     .doc = "tries of the local search, below",
     .knob = "improve",
     .knob_max = 1e6},
    {.name = NULL},
};
_Static_assert(CCL_ARRAY_LEN(cluster_options) - 1 == CCL_KNOBS - CCL_KNOB_BLOCKS,
               "a row for each knob from blocks on");

/* Of the lowering and the run, from CCL_KNOB_ORDER on. */
static const char *const run_knobs[] = {"order", "allocate", "granularity", "fuse",
                                        "slots", "batches",  "proto"};
_Static_assert(CCL_ARRAY_LEN(run_knobs) == CCL_KNOB_BLOCKS - CCL_KNOB_ORDER,
               "a name for each knob from order to proto");

static const ccl_option_t *of_knob(const ccl_option_t *table, const char *knob) {
    for (; table->name; table++)
        if (table->knob && strcmp(table->knob, knob) == 0)
            return table;
    return NULL;
}

/* The index-th of the tables that only some synthesizers have. @param table_out  NULL, or where. */
static const ccl_option_t *own_option(uint32_t index, const ccl_option_t **table_out) {
    const ccl_option_t *table;

    for (uint32_t t = 1; (table = ccl_synth_option_table(t)); t++) {
        for (const ccl_option_t *o = table; o->name; o++) {
            if (!o->knob || index-- > 0)
                continue;
            if (table_out)
                *table_out = table;
            return o;
        }
    }
    return NULL;
}

const ccl_option_t *ccl_knob_option(ccl_knob_t knob) {
    if (knob == CCL_KNOB_WITH)
        return NULL;
    if (knob < CCL_KNOB_OWN)
        return of_knob(ccl_synth_option_table(0),
                       knob == CCL_KNOB_CHANNELS ? "channels" : "chunks");
    if (knob < CCL_KNOB_ORDER)
        return own_option(knob - CCL_KNOB_OWN, NULL);
    if (knob >= CCL_KNOB_BLOCKS)
        return &cluster_options[knob - CCL_KNOB_BLOCKS];
    const ccl_option_t *o = of_knob(ccl_lower_option_table, run_knobs[knob - CCL_KNOB_ORDER]);
    return o ? o : of_knob(ccl_sim_option_table, run_knobs[knob - CCL_KNOB_ORDER]);
}

bool ccl_i_knob_counts(ccl_knob_t knob, const ccl_synth_ops_t *ops) {
    const ccl_option_t *table = NULL;

    if (knob < CCL_KNOB_OWN || knob >= CCL_KNOB_ORDER)
        return true;
    return own_option(knob - CCL_KNOB_OWN, &table) && ccl_synth_has_options(ops, table);
}

const char *ccl_knob_owners(ccl_knob_t knob, char *out, size_t out_len) {
    const ccl_option_t *table = ccl_synth_option_table(0);

    if (knob >= CCL_KNOB_OWN && knob < CCL_KNOB_ORDER)
        (void)own_option(knob - CCL_KNOB_OWN, &table);
    return ccl_synth_option_owners(table, out, out_len);
}

const char *ccl_knob_name(ccl_knob_t knob) {
    const ccl_option_t *o = ccl_knob_option(knob);

    return knob == CCL_KNOB_WITH ? "with" : o ? o->knob : NULL;
}

ccl_status_t ccl_knob_find(const char *name, size_t len, ccl_knob_t *out, ccl_error_t *err) {
    const char *names[CCL_KNOBS + 1] = {NULL};
    uint32_t n = 0;
    char word[64];

    for (uint32_t k = 0; k < CCL_KNOBS; k++) {
        const char *known = ccl_knob_name((ccl_knob_t)k);

        if (!known)
            continue;
        if (strlen(known) == len && strncmp(known, name, len) == 0) {
            *out = (ccl_knob_t)k;
            return CCL_OK;
        }
        names[n++] = known;
    }
    snprintf(word, sizeof word, "%.*s", (int)(len < 60 ? len : 60), name);
    const char *near = ccl_nearest(word, names);
    return near ? ccl_fail(err, CCL_ERR_INPUT, "unknown knob \"%s\", did you mean \"%s\"?", word,
                           near)
                : ccl_fail(err, CCL_ERR_INPUT, "unknown knob \"%s\" (docs/tuning.md lists them)",
                           word);
}

bool ccl_i_knob_whole(ccl_knob_t knob) {
    const ccl_option_t *o = ccl_knob_option(knob);

    return o && o->type == CCL_OPTION_COUNT;
}

/* ---------------------------------------------------------------- values */

static ccl_status_t word(const ccl_option_t *o, const char *text, double *out, ccl_error_t *err) {
    const char *const *words = ccl_option_knob_words(o);
    uint32_t index = ccl_option_word(words, text, strlen(text));
    char list[200];

    if (index == CCL_NONE)
        return ccl_fail(
            err, CCL_ERR_INPUT, "knob %s wants auto or one of %s, not \"%.60s\"", o->knob,
            ccl_option_join(words, strcmp(words[0], "auto") == 0, ",", list, sizeof list), text);
    *out = index;
    return CCL_OK;
}

static ccl_status_t synthesizer(const char *text, double *out, ccl_error_t *err) {
    const char *names[128];
    uint32_t n = 0;
    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); all[n] && n + 1 < 128; n++) {
        names[n] = all[n]->name;
        if (strcmp(names[n], text) == 0) {
            *out = n;
            return CCL_OK;
        }
    }
    names[n] = NULL;
    const char *near = ccl_nearest(text, names);
    return near ? ccl_fail(err, CCL_ERR_INPUT,
                           "unknown synthesizer \"%.60s\", did you mean "
                           "\"%s\"?",
                           text, near)
                : ccl_fail(err, CCL_ERR_INPUT,
                           "unknown synthesizer \"%.60s\" (ccllab algos lists "
                           "them)",
                           text);
}

static double most_of(const ccl_option_t *o) {
    return o->knob_max > 0 ? o->knob_max : o->max > 0 ? o->max : CCL_NONE - 1;
}

static ccl_status_t count(const ccl_option_t *o, const char *text, double *out, ccl_error_t *err) {
    char *end = NULL;
    size_t digits = strspn(text, "0123456789");
    double value = strtod(text, &end);
    double least = o->min > 1 ? o->min : 1;
    if (digits == 0 || text[digits] || digits > 9 || value < least || value > most_of(o))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "knob %s wants auto or a whole number from %.0f to %.0f, not \"%.60s\"",
                        o->knob, least, most_of(o), text);
    *out = value;
    return CCL_OK;
}

static ccl_status_t real(const ccl_option_t *o, const char *text, double *out, ccl_error_t *err) {
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !(value > 0) || value < o->min || value > most_of(o))
        return ccl_fail(err, CCL_ERR_INPUT,
                        o->min > 0
                            ? "knob %s wants auto or a number from %g to %g, not \"%.60s\""
                            : "knob %s wants auto or a number above %g, at most %g, not \"%.60s\"",
                        o->knob, o->min, most_of(o), text);
    *out = value;
    return CCL_OK;
}

static ccl_status_t quantity(const ccl_option_t *o, const char *text, double *out,
                             ccl_error_t *err) {
    ccl_error_t inner = CCL_ERROR_INIT;
    if ((o->type == CCL_OPTION_TIME ? ccl_parse_time_s : ccl_parse_bytes)(text, out, &inner) !=
        CCL_OK)
        return ccl_fail(err, CCL_ERR_INPUT, "knob %s: %.300s", o->knob, inner.text);
    if (!(*out > 0))
        return ccl_fail(err, CCL_ERR_INPUT, "knob %s wants more than 0", o->knob);
    return CCL_OK;
}

ccl_status_t ccl_i_knob_value(ccl_knob_t knob, const char *text, double *out, ccl_error_t *err) {
    const ccl_option_t *o = ccl_knob_option(knob);

    if (!o)
        return synthesizer(text, out, err);
    if (strcmp(text, "auto") == 0) {
        *out = NAN;
        return CCL_OK;
    }
    if (ccl_option_knob_words(o))
        return word(o, text, out, err);
    if (o->type == CCL_OPTION_COUNT)
        return count(o, text, out, err);
    if (o->type == CCL_OPTION_TIME || o->type == CCL_OPTION_BYTES)
        return quantity(o, text, out, err);
    return real(o, text, out, err);
}

void ccl_knob_text(ccl_knob_t knob, double value, char *out, size_t out_len) {
    const ccl_option_t *o = ccl_knob_option(knob);

    if (isnan(value))
        snprintf(out, out_len, "auto");
    else if (!o)
        snprintf(out, out_len, "%s", ccl_synth_all()[(uint32_t)value]->name);
    else if (ccl_option_knob_words(o))
        snprintf(out, out_len, "%s", ccl_option_knob_words(o)[(uint32_t)value]);
    else if (o->type == CCL_OPTION_TIME)
        ccl_format_time(value, out, out_len);
    else if (o->type == CCL_OPTION_BYTES)
        ccl_format_bytes(value, out, out_len);
    else if (o->type == CCL_OPTION_COUNT)
        snprintf(out, out_len, "%.0f", value);
    else
        snprintf(out, out_len, "%.9g", value);
}
