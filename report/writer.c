#include "report/describe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- JSON */

static void add(ccl_text_t *out, const char *text) {
    ccl_text_add(out, text, strlen(text));
}

/** Length of the valid UTF-8 sequence at p (of n bytes), 0 when it is not one. */
static size_t utf8_len(const unsigned char *p, size_t n) {
    size_t len = 0;
    uint32_t code = 0;
    uint32_t least = 0;

    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        len = 2;
        code = p[0] & 0x1fu;
        least = 0x80;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        len = 3;
        code = p[0] & 0x0fu;
        least = 0x800;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        len = 4;
        code = p[0] & 0x07u;
        least = 0x10000;
    } else {
        return 0;
    }
    if (len > n)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return len;
}

/** A JSON string; bytes that are not UTF-8 become U+FFFD, so that every reader takes the result. */
static void quote(ccl_text_t *out, const char *value) {
    const unsigned char *p = (const unsigned char *)value;
    size_t n = strlen(value);

    add(out, "\"");
    while (n > 0) {
        size_t len = utf8_len(p, n);

        if (len == 0) {
            add(out, "\\ufffd");
            len = 1;
        } else if (*p == '"' || *p == '\\') {
            ccl_text_printf(out, "\\%c", *p);
        } else if (*p < 0x20 || *p == 0x7f) {
            ccl_text_printf(out, "\\u%04x", *p);
        } else {
            ccl_text_add(out, (const char *)p, len);
        }
        p += len;
        n -= len;
    }
    add(out, "\"");
}

/** Comma, line break and key of the next member. */
static void member(ccl_i_json_t *json, const char *key) {
    uint32_t d = json->depth;

    if (json->some[d])
        add(json->out, json->flat[d] ? ", " : ",");
    json->some[d] = true;
    if (!json->flat[d]) {
        add(json->out, "\n");
        for (uint32_t i = 0; i < d; i++)
            add(json->out, "  ");
    }
    if (key) {
        quote(json->out, key);
        add(json->out, ": ");
    }
}

static void open_level(ccl_i_json_t *json, const char *bracket, bool flat) {
    bool outer = json->flat[json->depth];

    add(json->out, bracket);
    if (json->depth + 1 < CCL_I_JSON_DEPTH)
        json->depth++;
    json->some[json->depth] = false;
    json->flat[json->depth] = flat || outer;
}

static void close_level(ccl_i_json_t *json, const char *bracket) {
    uint32_t d = json->depth;

    json->depth = d > 0 ? d - 1 : 0;
    if (json->some[d] && !json->flat[d]) {
        add(json->out, "\n");
        for (uint32_t i = 0; i + 1 < d; i++)
            add(json->out, "  ");
    }
    add(json->out, bracket);
}

void ccl_i_json_begin(ccl_i_json_t *json, ccl_text_t *out) {
    memset(json, 0, sizeof(*json));
    json->out = out;
    open_level(json, "{", false);
}

void ccl_i_json_end(ccl_i_json_t *json) {
    close_level(json, "}\n");
}

void ccl_i_json_object(ccl_i_json_t *json, const char *key, bool flat) {
    member(json, key);
    open_level(json, "{", flat);
}

void ccl_i_json_array(ccl_i_json_t *json, const char *key, bool flat) {
    member(json, key);
    open_level(json, "[", flat);
}

void ccl_i_json_close_object(ccl_i_json_t *json) {
    close_level(json, "}");
}

void ccl_i_json_close_array(ccl_i_json_t *json) {
    close_level(json, "]");
}

void ccl_i_json_string(ccl_i_json_t *json, const char *key, const char *value) {
    member(json, key);
    if (value)
        quote(json->out, value);
    else
        add(json->out, "null");
}

void ccl_i_json_number(ccl_i_json_t *json, const char *key, double value) {
    char text[40];

    member(json, key);
    add(json->out, isfinite(value) ? ccl_i_number(value, text, sizeof(text)) : "null");
}

void ccl_i_json_u64(ccl_i_json_t *json, const char *key, uint64_t value) {
    member(json, key);
    ccl_text_printf(json->out, "%llu", (unsigned long long)value);
}

void ccl_i_json_bool(ccl_i_json_t *json, const char *key, bool value) {
    member(json, key);
    add(json->out, value ? "true" : "false");
}

void ccl_i_json_null(ccl_i_json_t *json, const char *key) {
    member(json, key);
    add(json->out, "null");
}

void ccl_i_json_schema(ccl_i_json_t *json, const char *schema) {
    ccl_i_json_string(json, "schema", schema);
    ccl_i_json_string(json, "version", CCL_VERSION);
}

/* ---------------------------------------------------------------- numbers and names */

/** A host program may have set a locale with another decimal point. */
static const char *c_locale(char *out) {
    for (char *p = out; *p; p++) {
        if ((*p < '0' || *p > '9') && !strchr("+-eE.", *p))
            *p = '.';
    }
    return out;
}

const char *ccl_i_number(double value, char *out, size_t out_len) {
    out[0] = '\0';
    if (!isfinite(value))
        return out;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, out_len, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return c_locale(out);
}

const char *ccl_i_index(uint32_t value, char *out, size_t out_len) {
    if (value == CCL_NONE)
        out[0] = '\0';
    else
        snprintf(out, out_len, "%u", value);
    return out;
}

const char *ccl_i_GBps(double Bps, char *out, size_t out_len) {
    double value = Bps / 1e9;

    snprintf(out, out_len, value != 0 && value < 0.095 ? "%.4f" : "%.2f", value);
    return c_locale(out);
}

const char *ccl_i_digits(double value, int digits, char *out, size_t out_len) {
    double size = fabs(value);

    if (size > 0 && size < 1e-4)
        snprintf(out, out_len, value < 0 ? ">-0.0001" : "<0.0001");
    else if (size >= pow(10, digits) - 0.5)
        snprintf(out, out_len, "%.0f", value);
    else
        snprintf(out, out_len, "%.*g", digits, value);
    return c_locale(out);
}

const char *ccl_i_count(uint64_t n, char *out, size_t out_len) {
    static const struct {
        double of;
        const char *name;
    } units[] = {{1e9, "billion"}, {1e6, "million"}};
    char digits[32];

    for (size_t u = 0; u < CCL_ARRAY_LEN(units); u++)
        if ((double)n >= 0.99995 * units[u].of) {
            snprintf(out, out_len, "%s %s",
                     ccl_i_digits((double)n / units[u].of, 4, digits, sizeof(digits)),
                     units[u].name);
            return out;
        }
    snprintf(out, out_len, "%llu", (unsigned long long)n);
    return out;
}

const char *ccl_i_us(double seconds, char *out, size_t out_len) {
    double value = seconds * 1e6;

    snprintf(out, out_len, value != 0 && value < 0.95 ? "%.4f" : "%.2f", value);
    return c_locale(out);
}

const char *const ccl_i_order_words[] = {"step", "rr", "hpds", "hpds-printed", NULL};

const char *ccl_i_order_name(ccl_order_t order) {
    return (size_t)order + 1 < CCL_ARRAY_LEN(ccl_i_order_words) ? ccl_i_order_words[order] : "?";
}

const char *const ccl_i_allocation_words[] = {"connection", "state", "capacity", NULL};

const char *ccl_i_allocation_name(ccl_allocation_t allocation) {
    return (size_t)allocation + 1 < CCL_ARRAY_LEN(ccl_i_allocation_words)
               ? ccl_i_allocation_words[allocation]
               : "?";
}

const char *const ccl_i_granularity_words[] = {"algorithm", "stage", "task", NULL};

const char *ccl_i_granularity_name(ccl_granularity_t granularity) {
    return (size_t)granularity + 1 < CCL_ARRAY_LEN(ccl_i_granularity_words)
               ? ccl_i_granularity_words[granularity]
               : "?";
}

const char *ccl_i_sharing_name(ccl_sharing_t sharing) {
    return sharing == CCL_SHARING_EXCLUSIVE ? "exclusive" : "fair";
}

const char *ccl_i_link_name(const ccl_topology_t *topo, uint32_t link, char *out, size_t out_len) {
    const ccl_link_t *l = &topo->links[link];

    snprintf(out, out_len, "%s->%s", topo->devices[l->from].id, topo->devices[l->to].id);
    return out;
}

const char *const ccl_i_status_words[] = {"ok",    "invalid",     "infeasible", "deadlock",
                                          "limit", "interrupted", "failed",     NULL};
const char *const ccl_i_stopped_words[] = {"space", "budget", "gap", "interrupted", NULL};

const char *ccl_i_status_word(ccl_status_t status) {
    switch (status) {
    case CCL_OK:
        return "ok";
    case CCL_CHECK:
        return "invalid";
    case CCL_INFEASIBLE:
        return "infeasible";
    case CCL_DEADLOCK:
        return "deadlock";
    case CCL_UNSUPPORTED:
        return "unsupported";
    case CCL_TIMEOUT:
        return "limit";
    case CCL_INTERRUPTED:
        return "interrupted";
    default:
        return "failed";
    }
}

const char *ccl_i_percent(double share, char *out, size_t out_len) {
    double value = 100 * share;

    if (value == 0)
        snprintf(out, out_len, "0");
    else if (value < 0.1)
        snprintf(out, out_len, "<0.1");
    else
        snprintf(out, out_len, value < 9.95 ? "%.1f" : "%.0f", value);
    return out;
}

/* ---------------------------------------------------------------- tables and faults */

ccl_status_t ccl_i_text_status(const ccl_text_t *out, ccl_error_t *err) {
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}

/** Cells may end in blanks, lines of the result do not. */
static void add_trimmed(const char *text, ccl_text_t *out) {
    while (text && *text) {
        size_t len = strcspn(text, "\n");
        size_t keep = len;

        while (keep > 0 && text[keep - 1] == ' ')
            keep--;
        ccl_text_add(out, text, keep);
        ccl_text_add(out, "\n", 1);
        text += len + (text[len] == '\n');
    }
}

ccl_status_t ccl_i_table_emit(const ccl_table_t *table, ccl_report_format_t format, ccl_text_t *out,
                              ccl_error_t *err) {
    ccl_text_t text = {.columns = out->columns};
    ccl_status_t status =
        format == CCL_REPORT_CSV ? ccl_table_csv(table, out) : ccl_table_text(table, &text);

    if (status == CCL_OK)
        add_trimmed(text.data, out);
    ccl_text_fini(&text);
    if (status == CCL_ERR_NOMEM)
        return ccl_fail_nomem(err);
    if (status != CCL_OK)
        return ccl_fail(err, status, "a table was filled wrongly");
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_i_table_choice(const char *const *tables, const char *wanted, size_t *out,
                                ccl_error_t *err) {
    ccl_text_t list = {0};
    ccl_status_t status;

    *out = 0;
    if (!wanted)
        return CCL_OK;
    for (size_t i = 0; tables[i]; i++) {
        if (strcmp(tables[i], wanted) == 0) {
            *out = i;
            return CCL_OK;
        }
    }
    for (size_t i = 0; tables[i]; i++)
        ccl_text_printf(&list, "%s%s", i ? ", " : "", tables[i]);
    status = ccl_fail(err, CCL_ERR_USAGE, "unknown table \"%s\", there are %s", wanted,
                      list.data ? list.data : "none");
    ccl_text_fini(&list);
    return status;
}

void ccl_i_text_cause(const ccl_deadlock_cause_t *c, ccl_text_t *out) {
    char slice[40] = "";
    char text[40];

    if (!c->known)
        return;
    if (!c->least_slots) {
        ccl_text_printf(out, "no depth of FIFOs helps: it deadlocks at any\n");
        return;
    }
    if (c->slice_bytes > 0)
        snprintf(slice, sizeof(slice), " of at most %s",
                 ccl_format_bytes(c->slice_bytes, text, sizeof(text)));
    ccl_text_printf(out,
                    "it depends on slots%s%s%s%s%s, %u%s (from %s): with %u it finishes in as many "
                    "micro-batches",
                    c->transport[0] ? " of " : "", c->transport, c->protocol[0] ? " (" : "",
                    c->protocol, c->protocol[0] ? ")" : "", c->slots, slice,
                    c->from[0] ? c->from : "the default", c->least_slots);
    if (c->batches)
        ccl_text_printf(out, "; as it is in %u", c->batches);
    ccl_text_printf(out, "\n");
}

const char *ccl_i_path_cause_text(ccl_path_cause_t cause) {
    static const char *const texts[CCL_PATH_CAUSES] = {"bytes on a link",
                                                       "link shared with other flows",
                                                       "thread block slower than the link",
                                                       "reducing",
                                                       "copying",
                                                       "overhead of primitives",
                                                       "latency of links",
                                                       "latency of transports",
                                                       "flags between blocks",
                                                       "links held by others",
                                                       "launch"};

    return texts[cause];
}

const char *ccl_i_path_wait_text(ccl_path_wait_t wait) {
    static const char *const texts[CCL_PATH_WAITS] = {
        "the last work of the run",         "the next one waited for the data",
        "the next one waited for the slot", "another block waited for the step",
        "the thread block was busy",        "an earlier slice drained first"};

    return texts[wait];
}
