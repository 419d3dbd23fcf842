/* Sections for results of compare: the winner at each size, busbw of all contenders. */
#include "report/html/page_curves.h"
#include "report/html/page_spread.h"
#include "base/json.h"
#include "validate/nccl/nccl.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 9 }; /* of a table of busbw: as many as paper has room for */

static const json_t *result_of(const json_t *size, const char *name) {
    const json_t *results = json_object_get(size, "results");

    for (size_t r = 0; name[0] && r < json_array_size(results); r++)
        if (strcmp(ccl_i_page_string(json_array_get(results, r), "name"), name) == 0)
            return json_array_get(results, r);
    return NULL;
}

/* ---------------------------------------------------------------- the answer */

/** "the net links: the busiest is 88 % busy", or that it is no link. */
static void limits_text(const json_t *size, char *out, size_t out_len) {
    const json_t *classes = json_object_get(size, "link_classes");
    const char *kind = "";
    double most = -1;

    for (size_t i = 0; i < json_array_size(classes); i++) {
        double use = ccl_i_page_number(json_array_get(classes, i), "max_utilization");

        if (use > most) {
            most = use;
            kind = ccl_i_page_string(json_array_get(classes, i), "kind");
        }
    }
    if (most >= 0.7)
        snprintf(out, out_len, "; what limits: the %.60s links, the busiest is %.0f %% busy", kind,
                 100 * most);
    else if (most >= 0.35)
        snprintf(out, out_len,
                 "; what limits: the %.60s links in part (the busiest is %.0f %% busy), and waits",
                 kind, 100 * most);
    else if (most >= 0)
        snprintf(out, out_len,
                 "; what limits: latency and overheads, as no link is more than %.0f %% busy",
                 100 * most);
    else
        out[0] = '\0';
}

/** The size that the answer is about: 64M, or the largest one. */
static const json_t *asked_size(const json_t *sizes) {
    const json_t *best = NULL;

    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *size = json_array_get(sizes, i);

        if (!ccl_i_page_string(size, "winner")[0])
            continue;
        best = size;
        if (ccl_i_page_number(size, "size_bytes") == 0x1p26)
            break;
    }
    return best;
}

/** "1.42 times as fast as NCCL's choice (nccl), 14 % above the bound". */
static void gain_text(const json_t *size, const json_t *winner, char *out, size_t out_len) {
    const char *name = ccl_i_page_string(winner, "name");
    double speedup = ccl_i_page_number(size, "speedup_over_nccl");
    double gap = ccl_i_page_number(winner, "gap");
    size_t n = 0;

    if (ccl_nccl_stock(name))
        n = (size_t)snprintf(out, out_len, ": stock software's own choice, which nothing beats");
    else if (isfinite(speedup) && fabs(speedup - 1) < 0.005)
        n = (size_t)snprintf(out, out_len, ": as fast as %s's choice (%s)",
                             result_of(size, "rccl") ? "RCCL" : "NCCL",
                             result_of(size, "rccl") ? "rccl" : "nccl");
    else if (isfinite(speedup))
        n = (size_t)snprintf(out, out_len, ": %.2f times as fast as %s's choice (%s)", speedup,
                             result_of(size, "rccl") ? "RCCL" : "NCCL",
                             result_of(size, "rccl") ? "rccl" : "nccl");
    if (isfinite(gap))
        snprintf(out + n, out_len - n, "%s%.0f %% above the bound", n ? ", " : ": ",
                 100 * (gap - 1));
    else if (n == 0)
        out[0] = '\0';
}

static void answer(ccl_i_page_t *page, const json_t *comparison, const char *topology) {
    const json_t *size = asked_size(json_object_get(comparison, "sizes"));
    const json_t *winner;
    char bytes[32], limits[200], gain[200], time[40];

    if (!size)
        return;
    winner = result_of(size, ccl_i_page_string(size, "winner"));
    limits_text(size, limits, sizeof(limits));
    gain_text(size, winner, gain, sizeof(gain));
    ccl_i_page_answer(page, "%s on %s: at %s use %s%s%s (%s, busbw %.4g GB/s).",
                      ccl_i_page_string(comparison, "collective"), topology,
                      ccl_format_bytes(ccl_i_page_number(size, "size_bytes"), bytes, sizeof(bytes)),
                      ccl_i_page_string(size, "winner"), gain, limits,
                      ccl_i_page_time(ccl_i_page_number(winner, "time_s"), time, sizeof(time)),
                      ccl_i_page_number(winner, "busbw_GBps"));
}

/* ---------------------------------------------------------------- tables */

static void number_cell(ccl_text_t *out, double value, const char *class_name) {
    char digits[40];

    ccl_text_printf(out, "<td class=\"%s\">%s</td>", class_name,
                    ccl_i_page_digits(value, digits, sizeof(digits)));
}

static void winners(const json_t *sizes, ccl_text_t *out) {
    ccl_i_page_scroll(out, "winner at each size");
    ccl_text_printf(
        out, "<table class=\"comparison\"><caption>The winner at each size</caption><thead><tr>"
             "<th scope=\"col\" class=\"n\">size</th><th scope=\"col\">winner</th>"
             "<th scope=\"col\" class=\"n\">time (us)</th>"
             "<th scope=\"col\" class=\"n\">time / bound</th>"
             "<th scope=\"col\" class=\"n\">busbw (GB/s)</th>"
             "<th scope=\"col\" class=\"n\">as fast as nccl</th>"
             "<th scope=\"col\" class=\"words\">how it came about</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *size = json_array_get(sizes, i);
        const char *winner = ccl_i_page_string(size, "winner");
        const json_t *result = result_of(size, winner);
        double speedup = ccl_i_page_number(size, "speedup_over_nccl");
        char bytes[32];

        ccl_text_printf(
            out, "<tr><td class=\"n\">%s</td><td>",
            ccl_format_bytes(ccl_i_page_number(size, "size_bytes"), bytes, sizeof(bytes)));
        ccl_text_add_xml(out, winner[0] ? winner : "nobody");
        ccl_text_printf(out, "%s</td>", json_is_true(json_object_get(size, "tie")) ? " (tie)" : "");
        number_cell(out, ccl_i_page_number(result, "time_s") * 1e6, "n");
        number_cell(out, ccl_i_page_number(result, "gap"), "n");
        number_cell(out, ccl_i_page_number(result, "busbw_GBps"), "n");
        if (isfinite(speedup))
            ccl_text_printf(out, "<td class=\"n\">%.2f&times;</td>", speedup);
        else
            ccl_text_printf(out, "<td class=\"n\">-</td>");
        ccl_text_printf(out, "<td class=\"words\">");
        ccl_text_add_xml(out, ccl_i_page_string(result, "origin"));
        ccl_text_printf(out, "</td></tr>\n");
    }
    ccl_text_printf(out,
                    "</tbody></table></div>\n<p class=\"dim\">bound: a time that no schedule can "
                    "beat, proven; time / bound 1 cannot be beaten.</p>\n");
}

/** Contenders from the `from`-th that took part, as many as there is room for. @return the next. */
static size_t everyone(const json_t *contenders, const json_t *sizes, size_t from,
                       ccl_text_t *out) {
    size_t to = from, n = 0;

    ccl_i_page_scroll(out, "busbw of everyone");
    ccl_text_printf(out, "<table class=\"everyone\"><caption>busbw (GB/s), the winner "
                         "marked</caption><thead><tr><th scope=\"col\" class=\"n\">size</th>");
    for (; to < json_array_size(contenders) && n < COLUMNS; to++) {
        const json_t *contender = json_array_get(contenders, to);

        if (!json_is_true(json_object_get(contender, "takes_part")))
            continue;
        n++;
        ccl_text_printf(out, "<th scope=\"col\" class=\"n\">");
        ccl_text_add_xml(out, ccl_i_page_string(contender, "name"));
        ccl_text_printf(out, "</th>");
    }
    ccl_text_printf(out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *size = json_array_get(sizes, i);
        char bytes[32];

        ccl_text_printf(
            out, "<tr><td class=\"n\">%s</td>",
            ccl_format_bytes(ccl_i_page_number(size, "size_bytes"), bytes, sizeof(bytes)));
        for (size_t c = from; c < to; c++) {
            const json_t *contender = json_array_get(contenders, c);
            const char *name = ccl_i_page_string(contender, "name");

            if (json_is_true(json_object_get(contender, "takes_part")))
                number_cell(out, ccl_i_page_number(result_of(size, name), "busbw_GBps"),
                            strcmp(name, ccl_i_page_string(size, "winner")) == 0 ? "n win" : "n");
        }
        ccl_text_printf(out, "</tr>\n");
    }
    ccl_text_printf(out, "</tbody></table></div>\n");
    while (to < json_array_size(contenders) &&
           !json_is_true(json_object_get(json_array_get(contenders, to), "takes_part")))
        to++;
    return to;
}

/** Who did not take part, and why not. */
static void absent(const json_t *contenders, ccl_text_t *out) {
    bool some = false;

    for (size_t c = 0; c < json_array_size(contenders); c++) {
        const char *why = ccl_i_page_string(json_array_get(contenders, c), "why_not");

        if (!why[0])
            continue;
        ccl_text_printf(out, "%s<li>",
                        some ? "" : "<p>Did not take part:</p>\n<ul class=\"dim\">\n");
        some = true;
        ccl_text_add_xml(out, why);
        ccl_text_printf(out, "</li>\n");
    }
    if (some)
        ccl_text_printf(out, "</ul>\n");
}

static ccl_status_t section(ccl_i_page_t *page, const json_t *comparison,
                            const ccl_draw_busbw_t *plot, const char *topology, ccl_error_t *err) {
    const json_t *contenders = json_object_get(comparison, "contenders");
    const json_t *sizes = json_object_get(comparison, "sizes");

    answer(page, comparison, topology);
    ccl_i_page_begin(page, "%s on %s", ccl_i_page_string(comparison, "collective"), topology);
    winners(sizes, &page->body);
    CCL_TRY(ccl_i_page_curves(page, plot, err));
    CCL_TRY(ccl_i_page_spreads(page, comparison, err));
    for (size_t c = 0; c < json_array_size(contenders);)
        c = everyone(contenders, sizes, c, &page->body);
    absent(contenders, &page->body);
    ccl_i_page_end(page);
    return CCL_OK;
}

ccl_status_t ccl_i_page_comparison(ccl_i_page_t *page, const ccl_json_doc_t *doc,
                                   ccl_error_t *err) {
    const char *topology = ccl_i_page_string(doc->root, "topology");
    ccl_draw_busbw_t *plots = NULL;
    ccl_arena_t arena;
    uint32_t n = 0;
    ccl_status_t status;

    ccl_arena_init(&arena);
    status = ccl_i_read_comparisons(doc, &arena, &plots, &n, err); /* checks the document too */
    for (uint32_t i = 0; status == CCL_OK && i < n; i++)
        status = section(page, json_array_get(json_object_get(doc->root, "comparisons"), i),
                         &plots[i], topology, err);
    ccl_arena_fini(&arena);
    return status;
}
