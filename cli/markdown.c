/* Tables of options for the pages of docs/, made from the tables that declare them. */
#include "cli/command.h"

#include <string.h>

/** Inside a cell: bars do not end it. */
static void cell(ccl_text_t *out, const char *text) {
    for (const char *p = text; *p; p++)
        ccl_text_printf(out, "%s%c", *p == '|' ? "\\" : "", *p);
}

/** "a, b" as `a`, `b`. */
static void names(ccl_text_t *out, const char *list) {
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");

        ccl_text_printf(out, "%s`%.*s`", p == list ? "" : ", ", (int)n, p);
        p += n;
        p += strspn(p, ", ");
    }
}

/* ---------------------------------------------------------------- options */

static void option_rows(const ccl_option_t *table, const char *owners, ccl_text_t *out) {
    char words[200];

    for (const ccl_option_t *o = table; o->name; o++) {
        if (o->flags & CCL_OPTION_KNOB_ONLY)
            continue;
        ccl_text_printf(out, "| `");
        if (o->letter)
            ccl_text_printf(out, "-%c, ", o->letter);
        ccl_text_printf(out, "--%s", o->name);
        if (o->value)
            ccl_text_printf(out, " ");
        if (o->value)
            cell(out, o->words ? ccl_option_join(o->words, 0, "|", words, sizeof words) : o->value);
        ccl_text_printf(out, "` | ");
        if (owners && !*owners)
            ccl_text_printf(out, "all | ");
        else if (owners)
            names(out, owners);
        if (owners && *owners)
            ccl_text_printf(out, " | ");
        cell(out, o->doc);
        if (o->otherwise)
            cell(out, " (");
        if (o->otherwise)
            cell(out, o->otherwise);
        ccl_text_printf(out, "%s |\n", o->otherwise ? ")" : "");
    }
}

static void synthesizers(ccl_text_t *out) {
    const ccl_option_t *table;
    char owners[120];

    ccl_text_printf(out, "| option | of | what |\n| --- | --- | --- |\n");
    for (uint32_t t = 0; (table = ccl_synth_option_table(t)); t++)
        option_rows(table, ccl_synth_option_owners(table, owners, sizeof owners), out);
}

static void lowering(ccl_text_t *out) {
    ccl_text_printf(out, "| option | what |\n| --- | --- |\n");
    option_rows(ccl_lower_option_table, NULL, out);
}

static void runs(ccl_text_t *out) {
    ccl_text_printf(out, "| option | what |\n| --- | --- |\n");
    option_rows(ccl_sim_option_table, NULL, out);
}

/* ---------------------------------------------------------------- knobs */

static void values(const ccl_option_t *o, ccl_text_t *out) {
    const char *const *words = ccl_option_knob_words(o);
    double most = o->knob_max > 0 ? o->knob_max : o->max;
    char list[200];

    if (words)
        names(out, ccl_option_join(words, strcmp(words[0], "auto") == 0, ", ", list, sizeof list));
    else if (o->type == CCL_OPTION_COUNT)
        ccl_text_printf(out, "%.0f to %.0f", o->min > 1 ? o->min : 1, most);
    else if (o->type == CCL_OPTION_TIME)
        ccl_text_printf(out, "time");
    else if (o->type == CCL_OPTION_BYTES)
        ccl_text_printf(out, "size");
    else
        ccl_text_printf(out, "%s %s %g%s %g", o->type == CCL_OPTION_PERCENT ? "share" : "number",
                        o->min > 0 ? "from" : "above", o->min, o->min > 0 ? " to" : ", at most",
                        most);
}

/** Whose option it is. */
static void owner(ccl_knob_t knob, ccl_text_t *out) {
    char list[120];

    if (knob < CCL_KNOB_OWN)
        ccl_text_printf(out, "all");
    else if (knob < CCL_KNOB_ORDER)
        names(out, ccl_knob_owners(knob, list, sizeof list));
    else if (knob < CCL_KNOB_BLOCKS)
        ccl_text_printf(out, knob == CCL_KNOB_BATCHES       ? "the run"
                             : knob == CCL_KNOB_GRANULARITY ? "lowering, and the run"
                                                            : "lowering");
    else
        ccl_text_printf(out, knob == CCL_KNOB_IMPROVE ? "the schedule" : "the cluster");
}

static void knobs(ccl_text_t *out) {
    ccl_text_printf(out, "| knob | values | of | what |\n| --- | --- | --- | --- |\n"
                         "| `with` | synthesizers | | which one; all that can do it, but for those "
                         "that comparisons have only by name, where none is named |\n");
    for (uint32_t k = CCL_KNOB_WITH + 1; k < CCL_KNOBS; k++) {
        const ccl_option_t *o = ccl_knob_option((ccl_knob_t)k);

        if (!o)
            continue;
        ccl_text_printf(out, "| `%s` | ", o->knob);
        values(o, out);
        ccl_text_printf(out, " | ");
        owner((ccl_knob_t)k, out);
        ccl_text_printf(out, " | ");
        cell(out, o->knob_doc ? o->knob_doc : o->doc);
        ccl_text_printf(out, " |\n");
    }
}

bool ccl_i_markdown(const char *what, ccl_text_t *out) {
    static const struct {
        const char *what;
        void (*print)(ccl_text_t *out);
    } tables[] = {
        {"synthesizers", synthesizers}, {"lowering", lowering}, {"runs", runs}, {"knobs", knobs}};

    for (size_t i = 0; i < CCL_ARRAY_LEN(tables); i++) {
        if (strcmp(tables[i].what, what) == 0) {
            tables[i].print(out);
            return true;
        }
    }
    return false;
}
