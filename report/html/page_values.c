/* Values of results in words and units, and tables of them. */
#include "report/html/page.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *ccl_i_page_string(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

double ccl_i_page_number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *ccl_i_page_digits(double value, char *out, size_t out_len) {
    if (!isfinite(value))
        snprintf(out, out_len, isnan(value) ? "-" : "infinite");
    else if (fabs(value) >= 999.95)
        snprintf(out, out_len, "%.0f", value);
    else if (value != 0 && fabs(value) < 1e-4)
        snprintf(out, out_len, "%.1e", value);
    else
        snprintf(out, out_len, "%.4g", value);
    return out;
}

const char *ccl_i_page_time(double time_s, char *out, size_t out_len) {
    static const struct {
        double s;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    size_t u = 0;
    char digits[40];

    while (u + 1 < CCL_ARRAY_LEN(units) && fabs(time_s) < units[u].s)
        u++;
    if (time_s == 0)
        u = 0;
    ccl_i_page_digits(time_s / units[u].s, digits, sizeof(digits));
    snprintf(out, out_len, isfinite(time_s) ? "%s %s" : "%s", digits, units[u].name);
    return out;
}

/** A setting as the command line has it. */
static void setting(ccl_text_t *out, const char *name, const char *value) {
    for (uint32_t k = 0; k < CCL_KNOBS; k++) {
        const ccl_option_t *o = ccl_knob_option((ccl_knob_t)k);

        const char *own = ccl_knob_name((ccl_knob_t)k);

        if (!own || strcmp(name, own) != 0)
            continue;
        if (k == CCL_KNOB_WITH)
            break;
        if (k == CCL_KNOB_IMPROVE || o->flags & CCL_OPTION_KNOB_ONLY)
            ccl_text_printf(out, " --knob %s=", o->knob);
        else if (k >= CCL_KNOB_LATENCY)
            ccl_text_printf(out, " --scale %s=", o->name);
        else if (k >= CCL_KNOB_BLOCKS)
            ccl_text_printf(out, " --set %s=", k == CCL_KNOB_FIFO ? "slots" : o->name);
        else
            ccl_text_printf(out, " --%s ", o->name);
        ccl_text_add_xml(out, value);
        return;
    }
    ccl_text_printf(out, " --");
    ccl_text_add_xml(out, name);
    ccl_text_add(out, " ", 1);
    ccl_text_add_xml(out, value);
}

void ccl_i_page_settings(ccl_text_t *out, const char *settings) {
    json_t *root = settings[0] == '{' ? json_loads(settings, 0, NULL) : NULL;
    const char *with = json_string_value(json_object_get(root, "with")), *name;
    json_t *value;

    if (!root) {
        ccl_text_add_xml(out, settings);
        return;
    }
    if (with) {
        ccl_text_printf(out, "--with ");
        ccl_text_add_xml(out, with);
    }
    json_object_foreach(root, name, value) {
        char digits[64];

        if (strcmp(name, "with") == 0)
            continue;
        if (json_is_string(value))
            setting(out, name, json_string_value(value));
        else if (json_is_integer(value)) {
            snprintf(digits, sizeof(digits), "%lld", (long long)json_integer_value(value));
            setting(out, name, digits);
        } else {
            snprintf(digits, sizeof(digits), "%.6g", json_number_value(value));
            setting(out, name, json_is_number(value) ? digits : json_is_true(value) ? "yes" : "no");
        }
    }
    json_decref(root);
}

/* ---------------------------------------------------------------- tables */

void ccl_i_page_scroll(ccl_text_t *out, const char *label) {
    ccl_text_printf(out, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"");
    ccl_text_add_xml(out, label);
    ccl_text_printf(out, "\">");
}

static void text_of(ccl_text_t *out, const json_t *value) {
    char digits[40];

    if (json_is_string(value))
        ccl_i_page_settings(out, json_string_value(value));
    else if (json_is_integer(value))
        ccl_text_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        ccl_text_printf(out, "%s",
                        ccl_i_page_digits(json_real_value(value), digits, sizeof(digits)));
    else
        ccl_text_printf(out, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-");
}

static void cell_text(ccl_text_t *out, const json_t *value, ccl_i_page_as_t as) {
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    char text[64];

    switch (as) {
    case PAGE_TEXT:
    case PAGE_WORDS:
    case PAGE_SETTINGS:
        text_of(out, value);
        return;
    case PAGE_NUMBER:
        ccl_text_printf(out, "%s", ccl_i_page_digits(number, text, sizeof(text)));
        return;
    case PAGE_SIZE:
        ccl_text_printf(out, "%s",
                        isnan(number) ? "-" : ccl_format_bytes(number, text, sizeof(text)));
        return;
    case PAGE_US:
        ccl_text_printf(out, "%s", ccl_i_page_digits(number * 1e6, text, sizeof(text)));
        return;
    case PAGE_TIME:
        ccl_text_printf(out, "%s", ccl_i_page_time(number, text, sizeof(text)));
        return;
    case PAGE_PERCENT:
        if (isnan(number))
            ccl_text_printf(out, "-");
        else
            ccl_text_printf(out, "%.3g %%", 100 * number);
        return;
    case PAGE_TIMES:
        if (isnan(number))
            ccl_text_printf(out, "-");
        else
            ccl_text_printf(out, "%.2f&times;", number);
        return;
    }
}

static const char *class_of(ccl_i_page_as_t as) {
    return as == PAGE_TEXT                           ? ""
           : as == PAGE_WORDS || as == PAGE_SETTINGS ? " class=\"words\""
                                                     : " class=\"n\"";
}

/** Has some row more than null there? */
static bool is_there(const json_t *rows, const char *key) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *value = json_object_get(json_array_get(rows, i), key);

        if (value && !json_is_null(value) && !(json_is_string(value) && !*json_string_value(value)))
            return true;
    }
    return false;
}

void ccl_i_page_table(ccl_text_t *out, const char *caption, const json_t *rows,
                      const ccl_i_page_column_t *columns, size_t n) {
    if (json_array_size(rows) == 0)
        return;
    ccl_i_page_scroll(out, caption);
    ccl_text_printf(out, "<table%s><caption>", n > 7 ? " class=\"wide\"" : "");
    ccl_text_add_xml(out, caption);
    ccl_text_printf(out, "</caption><thead><tr>");
    for (size_t c = 0; c < n; c++)
        if (is_there(rows, columns[c].key))
            ccl_text_printf(out, "<th scope=\"col\"%s>%s</th>", class_of(columns[c].as),
                            columns[c].head);
    ccl_text_printf(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        ccl_text_printf(out, "<tr>");
        for (size_t c = 0; c < n; c++) {
            const json_t *value = json_object_get(json_array_get(rows, i), columns[c].key);

            if (!is_there(rows, columns[c].key))
                continue;
            ccl_text_printf(out, "<td%s>%s", class_of(columns[c].as),
                            columns[c].as == PAGE_SETTINGS ? "<code>" : "");
            cell_text(out, value, columns[c].as);
            ccl_text_printf(out, "%s</td>", columns[c].as == PAGE_SETTINGS ? "</code>" : "");
        }
        ccl_text_printf(out, "</tr>\n");
    }
    ccl_text_printf(out, "</tbody></table></div>\n");
}

void ccl_i_page_facts(ccl_text_t *out, const json_t *root, const ccl_i_page_column_t *facts,
                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(root, facts[i].key);

        if (!value || json_is_null(value))
            continue;
        ccl_text_printf(out, "<tr><th scope=\"row\">%s</th><td>", facts[i].head);
        cell_text(out, value, facts[i].as);
        ccl_text_printf(out, "</td></tr>\n");
    }
}

/* ---------------------------------------------------------------- anything */

enum { MOST_ELEMENTS = 60 };

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/** What the unit at a key's end says of its values. */
static ccl_i_page_as_t as_of(const char *key, const json_t *value) {
    if (!json_is_number(value))
        return PAGE_TEXT;
    if (ends_with(key, "_bytes"))
        return PAGE_SIZE;
    if (ends_with(key, "_s") && !ends_with(key, "per_s"))
        return PAGE_TIME;
    if (ends_with(key, "share") || ends_with(key, "utilization") || ends_with(key, "probability"))
        return PAGE_PERCENT;
    return json_is_integer(value) ? PAGE_TEXT : PAGE_NUMBER;
}

/** "size_bytes" is "size", "busbw_GBps" is "busbw (GB/s)". */
static void name_of(ccl_text_t *out, const char *key) {
    static const char *const ends[][2] = {
        {"_bytes", ""},          {"_GBps", " (GB/s)"}, {"_Bps", " (bytes/s)"},
        {"per_s", "per second"}, {"_s", ""},           {"_", ""}};
    char name[120];
    size_t n = strlen(key), e = 0;

    while (e + 1 < CCL_ARRAY_LEN(ends) && !ends_with(key, ends[e][0]))
        e++;
    if (e + 1 < CCL_ARRAY_LEN(ends))
        n -= strlen(ends[e][0]);
    snprintf(name, sizeof(name), "%.*s", (int)n, key);
    for (char *s = name; *s; s++)
        if (*s == '_')
            *s = ' ';
    ccl_text_add_xml(out, name);
    if (e + 1 < CCL_ARRAY_LEN(ends))
        ccl_text_printf(out, "%s", ends[e][1]);
}

static bool is_flat(const json_t *value) {
    const char *key;
    json_t *member;

    if (!json_is_object(value))
        return false;
    json_object_foreach((json_t *)value, key,
                        member) if (json_is_object(member) || json_is_array(member)) return false;
    return json_object_size(value) > 0;
}

static void flat_rows(ccl_text_t *out, const json_t *rows) {
    const char *key;
    json_t *member;

    ccl_text_printf(out, "<table><thead><tr>");
    json_object_foreach(json_array_get(rows, 0), key, member) {
        if (!is_there(rows, key))
            continue;
        ccl_text_printf(out, "<th scope=\"col\">");
        name_of(out, key);
        ccl_text_printf(out, "</th>");
    }
    ccl_text_printf(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < json_array_size(rows) && i < MOST_ELEMENTS; i++) {
        ccl_text_printf(out, "<tr>");
        json_object_foreach(json_array_get(rows, 0), key, member) {
            const json_t *value = json_object_get(json_array_get(rows, i), key);

            if (!is_there(rows, key))
                continue;
            ccl_text_printf(out, "<td>");
            if (json_is_object(value) || json_is_array(value))
                ccl_i_page_anything(out, value);
            else
                cell_text(out, value, as_of(key, value));
            ccl_text_printf(out, "</td>");
        }
        ccl_text_printf(out, "</tr>\n");
    }
    ccl_text_printf(out, "</tbody></table>");
}

static void members(ccl_text_t *out, const json_t *value) {
    const char *key;
    json_t *member;

    ccl_text_printf(out, "<table><tbody>");
    json_object_foreach((json_t *)value, key, member) {
        bool hidden = strcmp(key, "schema") == 0 || strcmp(key, "version") == 0 ||
                      json_is_null(member) ||
                      (json_is_array(member) && json_array_size(member) == 0);

        if (hidden)
            continue;
        ccl_text_printf(out, "<tr><th scope=\"row\">");
        name_of(out, key);
        ccl_text_printf(out, "</th><td>");
        if (json_is_object(member) || json_is_array(member))
            ccl_i_page_anything(out, member);
        else
            cell_text(out, member, as_of(key, member));
        ccl_text_printf(out, "</td></tr>\n");
    }
    ccl_text_printf(out, "</tbody></table>");
}

/* Depth is bounded by the reader; long lists are cut, and say so. */
void ccl_i_page_anything(ccl_text_t *out, const json_t *value) {
    size_t n = json_array_size(value);

    if (json_is_array(value) && n > 0 && is_flat(json_array_get(value, 0))) {
        flat_rows(out, value);
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < n && i < MOST_ELEMENTS; i++) {
            const json_t *element = json_array_get(value, i);
            bool simple = !json_is_object(element) && !json_is_array(element);

            ccl_text_printf(out, "%s", i && simple ? ", " : "");
            ccl_i_page_anything(out, element);
        }
    } else if (json_is_object(value)) {
        members(out, value);
    } else {
        text_of(out, value);
    }
    if (n > MOST_ELEMENTS)
        ccl_text_printf(out, " <span class=\"dim\">and %zu more</span>", n - MOST_ELEMENTS);
}
