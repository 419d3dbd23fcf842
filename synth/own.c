/*
 * Options of added synthesizers. Their tables describe a struct of the synthesizer's own; the
 * values stand in ccl_synth_options_t.own, so the tables are copied and the copies say where.
 */
#include "synth/registry.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 40 };

static size_t bytes_of(ccl_option_type_t type) {
    switch (type) {
    case CCL_OPTION_FLAG:
    case CCL_OPTION_EITHER:
        return sizeof(bool);
    case CCL_OPTION_CHOICE:
    case CCL_OPTION_COUNT:
        return sizeof(uint32_t);
    case CCL_OPTION_TIME:
    case CCL_OPTION_BYTES:
    case CCL_OPTION_NUMBER:
    case CCL_OPTION_PERCENT:
        return sizeof(double);
    case CCL_OPTION_WORD:
    case CCL_OPTION_TEXT:
        return sizeof(const char *);
    case CCL_OPTION_INPUT:
    case CCL_OPTION_OUTPUT:
    case CCL_OPTION_SCHEDULE:
        break;
    }
    return 0;
}

/* "SYNTHESIZER-...": no option that there is, or will be, has the same. */
static bool is_name(const char *synthesizer, const char *name) {
    size_t own = strlen(synthesizer), len = strlen(name);
    return len <= LONGEST && len > own + 1 && strncmp(name, synthesizer, own) == 0 &&
           name[own] == '-' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static bool is_taken(const char *name) {
    bool taken = ccl_option_find(ccl_lower_option_table, name, strlen(name)) ||
                 ccl_option_find(ccl_sim_option_table, name, strlen(name));
    for (uint32_t t = 0; !taken && ccl_synth_option_table(t); t++)
        taken = ccl_option_find(ccl_synth_option_table(t), name, strlen(name)) != NULL;
    return taken;
}

static bool is_knob(const ccl_option_t *o) {
    size_t len = strlen(o->name);
    bool same = strlen(o->knob) == len;
    for (size_t i = 0; same && i < len; i++)
        same = o->knob[i] == (o->name[i] == '-' ? '_' : o->name[i]);
    return same;
}

static uint32_t count_words(const char *const *words) {
    uint32_t n = 0;
    while (words && words[n])
        n++;
    return n;
}

/* What help, the parser and the tuner rely on; NULL: all of it holds. */
static const char *fault_of(const ccl_option_t *o) {
    size_t bytes = bytes_of(o->type);
    bool listed =
        o->type == CCL_OPTION_EITHER || o->type == CCL_OPTION_CHOICE || o->type == CCL_OPTION_WORD;
    bool named = o->type == CCL_OPTION_FLAG || o->type == CCL_OPTION_TEXT;
    if (bytes == 0)
        return "is of a type that only built-in ones can have";
    if (o->offset % bytes != 0 || o->offset >= sizeof(((ccl_synth_options_t *)NULL)->own))
        return "has no such offset";
    if (!o->doc || !*o->doc)
        return "does not say what it does (doc)";
    if (!o->value != (o->type == CCL_OPTION_FLAG))
        return "wants a name of its value if it takes one, none if it is a flag (value)";
    if (!o->words == listed || (listed && count_words(o->words) < 2) ||
        (o->type == CCL_OPTION_EITHER && count_words(o->words) != 2))
        return "wants two words or more if it is one of them, none if it is not (words)";
    if (o->letter || o->alias || o->automatic != 0)
        return "has a letter, an alias or an automatic value other than 0";
    if (!(o->min >= 0) || !(o->max >= 0) || (o->max > 0 && o->max < o->min))
        return "has no such range";
    if (o->knob && !is_knob(o))
        return "wants its own name with _ for - (knob)";
    if (o->knob && named && count_words(o->knob_words) < 2)
        return "wants two words or more for the tuner (knob_words)";
    return NULL;
}

static ccl_status_t check(const ccl_synth_ops_t *ops, const ccl_option_t *const *before,
                          const ccl_option_t *o, ccl_error_t *err) {
    if (!is_name(ops->name, o->name))
        return ccl_fail(err, CCL_ERR_INPUT,
                        "synthesizer %s: the name of option --%.60s is not %s-, then a to z, 0 to "
                        "9 and -, at most %d characters in all",
                        ops->name, o->name, ops->name, LONGEST);
    bool taken = is_taken(o->name);
    for (uint32_t t = 0; !taken && before[t]; t++) {
        const ccl_option_t *same = ccl_option_find(before[t], o->name, strlen(o->name));
        taken = same && same != o; /* the first of two rows finds itself */
    }
    if (taken)
        return ccl_fail(err, CCL_ERR_INPUT, "synthesizer %s: there is an option --%s already",
                        ops->name, o->name);
    const char *fault = fault_of(o);
    return fault ? ccl_fail(err, CCL_ERR_INPUT, "synthesizer %s: option --%s %s", ops->name,
                            o->name, fault)
                 : CCL_OK;
}

ccl_status_t ccl_i_own_check(const ccl_synth_ops_t *ops, ccl_i_own_t used, ccl_i_own_t *own,
                             ccl_error_t *err) {
    *own = (ccl_i_own_t){.from = used.from + used.bytes};
    for (; ops->options && ops->options[own->tables]; own->tables++) {
        for (const ccl_option_t *o = ops->options[own->tables]; o->name; o++) {
            CCL_TRY(check(ops, ops->options, o, err));
            size_t end = o->offset + bytes_of(o->type);
            own->bytes = end > own->bytes ? end : own->bytes;
            own->options++;
        }
    }
    own->bytes = (own->bytes + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    if (own->from + own->bytes > sizeof(((ccl_synth_options_t *)NULL)->own) ||
        used.options + own->options > CCL_SYNTH_OWN_OPTIONS)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "synthesizer %s: no room for its options: those of all added ones are at "
                        "most %d, of %zu bytes",
                        ops->name, CCL_SYNTH_OWN_OPTIONS,
                        sizeof(((ccl_synth_options_t *)NULL)->own));
    return CCL_OK;
}

const ccl_option_t *const *ccl_i_own_place(const ccl_synth_ops_t *ops, const ccl_i_own_t *own) {
    size_t rows = own->options + own->tables, at = 0;
    ccl_option_t *all = calloc(rows + 1, sizeof *all);
    const ccl_option_t **tables = calloc(own->tables + 1u, sizeof *tables);
    if (!all || !tables) {
        free(all);
        free(tables);
        return NULL;
    }
    for (uint32_t t = 0; t < own->tables; t++, at++) { /* behind each a row without a name */
        tables[t] = &all[at];
        for (const ccl_option_t *o = ops->options[t]; o->name; o++, at++) {
            all[at] = *o;
            all[at].offset += offsetof(ccl_synth_options_t, own) + own->from;
        }
    }
    return tables;
}
