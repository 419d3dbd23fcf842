/* Results in one HTML page: question, cluster, tables, plots, timelines, how to repeat each line.
 */
#include "report/html/page.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    "body{font:14px/1.45 'DejaVu Sans',Verdana,sans-serif;color:#222;background:#fff;margin:0 auto;"
    "max-width:1340px;padding:16px 24px}\n"
    "h1{font-size:22px}h2{font-size:17px;margin-top:32px;border-bottom:1px solid #ddd}"
    "h3{font-size:14px}\n"
    "table{border-collapse:collapse;margin:8px 0}td,th{padding:2px 9px;border:1px solid #ddd;"
    "text-align:left;vertical-align:top}th{background:#f4f4f2}td.n{text-align:right;"
    "font-variant-numeric:tabular-nums}td.win{background:#dcefe7;font-weight:bold}\n"
    ".scroll{overflow-x:auto}.scroll svg{max-width:100%;height:auto}"
    "pre{background:#f6f6f4;padding:8px;overflow-x:auto;font-size:12px}\n"
    ".dim{color:#666}canvas.timeline{width:100%;border:1px solid #ccc;touch-action:none}"
    ".told{min-height:1.5em;color:#444}\n"
    "@media print{canvas.timeline{break-inside:avoid}.told,.hint{display:none}}\n";

void ccl_i_script_string(ccl_text_t *out, const char *text) {
    ccl_text_add(out, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        /* "</script>" and "<!--" would end or change the element. */
        if (*s < 0x20 || *s == '"' || *s == '\\' || *s == '<' || *s == '>' || *s == '&')
            ccl_text_printf(out, "\\u%04x", *s);
        else
            ccl_text_add(out, (const char *)s, 1);
    }
    ccl_text_add(out, "\"", 1);
}

/** A word of a shell's line. */
static void word(ccl_text_t *out, const char *text) {
    bool plain = text[0] != '\0';

    for (const char *s = text; *s; s++)
        plain &= strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_./,:=",
                        *s) != NULL;
    if (plain) {
        ccl_text_add_xml(out, text);
        return;
    }
    ccl_text_add(out, "'", 1);
    for (const char *s = text; *s; s++) {
        char one[2] = {*s, '\0'};

        if (*s == '\'')
            ccl_text_printf(out, "'\\''");
        else
            ccl_text_add_xml(out, one);
    }
    ccl_text_add(out, "'", 1);
}

static const char *string_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void number_cell(ccl_text_t *out, double value, const char *class_name) {
    if (isfinite(value))
        ccl_text_printf(out, "<td class=\"%s\">%.5g</td>", class_name, value);
    else
        ccl_text_printf(out, "<td class=\"%s\">-</td>", class_name);
}

/* ---------------------------------------------------------------- anything */

enum { MOST_ELEMENTS = 60 };

static bool is_flat(const json_t *value) {
    const char *key;
    json_t *member;

    if (!json_is_object(value))
        return false;
    json_object_foreach((json_t *)value, key,
                        member) if (json_is_object(member) || json_is_array(member)) return false;
    return json_object_size(value) > 0;
}

static void scalar(ccl_text_t *out, const json_t *value) {
    if (json_is_string(value))
        ccl_text_add_xml(out, json_string_value(value));
    else if (json_is_integer(value))
        ccl_text_printf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        ccl_text_printf(out, "%.6g", json_real_value(value));
    else
        ccl_text_printf(out, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-");
}

void ccl_i_page_facts(ccl_text_t *out, const json_t *root, const ccl_i_page_fact_t *facts,
                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(root, facts[i].key);

        if (!value)
            continue;
        ccl_text_printf(out, "<tr><th>%s</th><td>", facts[i].told);
        if (facts[i].scale > 0 && json_is_number(value))
            ccl_text_printf(out, "%.6g", json_number_value(value) * facts[i].scale);
        else
            scalar(out, value);
        ccl_text_printf(out, "</td></tr>\n");
    }
}

/** Any value as nested tables; long lists are cut, and say so. Depth is bounded by the reader. */
static void anything(ccl_text_t *out, const json_t *value) {
    size_t n = json_array_size(value);
    const char *key;
    json_t *member;

    if (json_is_array(value) && n > 0 && is_flat(json_array_get(value, 0))) {
        ccl_text_printf(out, "<table><tr>");
        json_object_foreach(json_array_get(value, 0), key, member) {
            ccl_text_printf(out, "<th>");
            ccl_text_add_xml(out, key);
            ccl_text_printf(out, "</th>");
        }
        ccl_text_printf(out, "</tr>\n");
        for (size_t i = 0; i < n && i < MOST_ELEMENTS; i++) {
            ccl_text_printf(out, "<tr>");
            json_object_foreach(json_array_get(value, 0), key, member) {
                ccl_text_printf(out, "<td>");
                anything(out, json_object_get(json_array_get(value, i), key));
                ccl_text_printf(out, "</td>");
            }
            ccl_text_printf(out, "</tr>\n");
        }
        ccl_text_printf(out, "</table>");
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < n && i < MOST_ELEMENTS; i++) {
            const json_t *element = json_array_get(value, i);
            bool simple = !json_is_object(element) && !json_is_array(element);

            ccl_text_printf(out, "%s", i && simple ? ", " : "");
            anything(out, element);
        }
    } else if (json_is_object(value)) {
        ccl_text_printf(out, "<table>");
        json_object_foreach((json_t *)value, key, member) {
            ccl_text_printf(out, "<tr><th>");
            ccl_text_add_xml(out, key);
            ccl_text_printf(out, "</th><td>");
            anything(out, member);
            ccl_text_printf(out, "</td></tr>\n");
        }
        ccl_text_printf(out, "</table>");
    } else {
        scalar(out, value);
    }
    if (n > MOST_ELEMENTS)
        ccl_text_printf(out, " <span class=\"dim\">and %zu more</span>", n - MOST_ELEMENTS);
}

/* ---------------------------------------------------------------- parts */

ccl_status_t ccl_i_page_picture(ccl_picture_t *picture, ccl_text_t *out, ccl_error_t *err) {
    ccl_status_t status;

    ccl_text_printf(out, "<div class=\"scroll\">");
    status = ccl_picture_write_inline(picture, false, out, err);
    ccl_text_printf(out, "</div>\n");
    ccl_picture_destroy(picture);
    return status;
}

static const char *schema_of(const ccl_json_doc_t *doc) {
    const json_t *root = doc->root;

    if (json_is_array(json_object_get(root, "traceEvents")))
        return "trace";
    return string_of(root, "schema");
}

/** The cluster, with how busy its links were in the first run that knows all of them. */
static ccl_status_t cluster(const ccl_report_page_t *page, ccl_text_t *out, ccl_error_t *err) {
    ccl_draw_topology_options_t options = CCL_DRAW_TOPOLOGY_OPTIONS_INIT;
    const ccl_topology_t *topo = page->topo;
    ccl_picture_t *picture = NULL;
    ccl_link_use_t *uses = calloc(topo->nlinks + (size_t)1, sizeof(*uses));
    char about[200];
    ccl_status_t status;

    if (!uses)
        return ccl_fail_nomem(err);
    for (uint32_t d = 0; d < page->ndocs && !options.links; d++) {
        const json_t *root = page->docs[d].root;
        const json_t *links = json_object_get(root, "links");
        bool fits = strcmp(schema_of(&page->docs[d]), "ccllab/simulate/1") == 0 &&
                    json_array_size(links) == topo->nlinks;

        for (uint32_t i = 0; fits && i < topo->nlinks; i++) {
            const json_t *link = json_array_get(links, i);

            uses[i].utilization = number_of(link, "utilization");
            fits = isfinite(uses[i].utilization) &&
                   strcmp(string_of(link, "from"), topo->devices[topo->links[i].from].id) == 0 &&
                   strcmp(string_of(link, "to"), topo->devices[topo->links[i].to].id) == 0;
        }
        if (fits) {
            snprintf(about, sizeof(about), "links coloured by their use in %.120s",
                     string_of(root, "input"));
            options.links = uses;
            options.run = about;
        }
    }
    ccl_text_printf(out, "<h2>The cluster</h2>\n");
    if (topo->source && topo->source[0]) {
        ccl_text_printf(out, "<p class=\"dim\">Source of the numbers: ");
        ccl_text_add_xml(out, topo->source);
        ccl_text_printf(out, "</p>\n");
    }
    status = ccl_draw_topology(topo, &options, &picture, err);
    free(uses);
    return status == CCL_OK ? ccl_i_page_picture(picture, out, err) : status;
}

/** Winner, time, gap, and every contender's busbw by size. */
static void comparison_table(const json_t *comparison, ccl_text_t *out) {
    const json_t *contenders = json_object_get(comparison, "contenders");
    const json_t *sizes = json_object_get(comparison, "sizes");

    ccl_text_printf(out, "<table class=\"comparison\"><tr><th>size</th><th>winner</th>"
                         "<th>time (us)</th><th>of the bound</th>");
    for (size_t c = 0; c < json_array_size(contenders); c++) {
        const json_t *contender = json_array_get(contenders, c);

        if (!json_is_true(json_object_get(contender, "takes_part")))
            continue;
        ccl_text_printf(out, "<th>");
        ccl_text_add_xml(out, string_of(contender, "name"));
        ccl_text_printf(out, "<br><span class=\"dim\">busbw (GB/s)</span></th>");
    }
    ccl_text_printf(out, "</tr>\n");
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *size = json_array_get(sizes, i);
        const json_t *results = json_object_get(size, "results");
        const char *winner = string_of(size, "winner"), *origin = "";
        char bytes[32];
        double time_s = NAN;
        double gap = NAN;

        for (size_t r = 0; r < json_array_size(results); r++) {
            const json_t *result = json_array_get(results, r);

            if (winner[0] && strcmp(string_of(result, "name"), winner) == 0) {
                time_s = number_of(result, "time_s");
                gap = number_of(result, "gap");
                origin = string_of(result, "origin");
            }
        }
        ccl_text_printf(out, "<tr><td class=\"n\">%s</td><td>",
                        ccl_format_bytes(number_of(size, "size_bytes"), bytes, sizeof(bytes)));
        ccl_text_add_xml(out, winner[0] ? winner : "nobody");
        ccl_text_printf(out, "%s<br><span class=\"dim\">",
                        json_is_true(json_object_get(size, "tie")) ? " (tie)" : "");
        ccl_text_add_xml(out, origin);
        ccl_text_printf(out, "</span></td>");
        number_cell(out, time_s * 1e6, "n");
        number_cell(out, gap, "n");
        for (size_t c = 0; c < json_array_size(contenders); c++) {
            const json_t *contender = json_array_get(contenders, c);
            const char *name = string_of(contender, "name");
            double busbw_GBps = NAN;

            if (!json_is_true(json_object_get(contender, "takes_part")))
                continue;
            for (size_t r = 0; r < json_array_size(results); r++)
                if (strcmp(string_of(json_array_get(results, r), "name"), name) == 0)
                    busbw_GBps = number_of(json_array_get(results, r), "busbw_GBps");
            number_cell(out, busbw_GBps, strcmp(name, winner) == 0 ? "n win" : "n");
        }
        ccl_text_printf(out, "</tr>\n");
    }
    ccl_text_printf(out,
                    "</table>\n<p class=\"dim\">of the bound: time over the proven lower bound; "
                    "1 cannot be beaten.</p>\n");
}

static ccl_status_t comparison(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err) {
    const json_t *list = json_object_get(doc->root, "comparisons");
    ccl_picture_t *picture = NULL;

    CCL_TRY(ccl_report_draw_busbw(doc, 1, &picture, err)); /* checks the document too */
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *comparison = json_array_get(list, i);

        ccl_text_printf(out, "<h2>");
        ccl_text_add_xml(out, string_of(comparison, "collective"));
        ccl_text_printf(out, " on ");
        ccl_text_add_xml(out, string_of(doc->root, "topology"));
        ccl_text_printf(out, "</h2>\n<div class=\"scroll\">");
        comparison_table(comparison, out);
        ccl_text_printf(out, "</div>\n");
    }
    return ccl_i_page_picture(picture, out, err);
}

static ccl_status_t simulation(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err) {
    static const ccl_i_page_fact_t facts[] = {
        {"collective", "collective", 0},
        {"nranks", "GPUs", 0},
        {"size_bytes", "size (bytes)", 0},
        {"time_s", "time (us)", 1e6},
        {"bound_s", "bound (us)", 1e6},
        {"gap", "time / bound", 0},
        {"algbw_GBps", "algbw (GB/s)", 0},
        {"busbw_GBps", "busbw (GB/s)", 0},
        {"batches", "micro-batches", 0},
        {"granularity", "level", 0},
        {"transfers", "transfers", 0},
        {"comm_share", "thread blocks busy, mean (%)", 100},
        {"link_utilization", "mean use of links in use (%)", 100},
        {"mean_idle_share", "they idle, mean (%)", 100},
        {"max_idle_share", "the idlest (%)", 100}};
    ccl_picture_t *picture = NULL;

    ccl_text_printf(out, "<h2>Run of ");
    ccl_text_add_xml(out, string_of(doc->root, "input"));
    ccl_text_printf(out, "</h2>\n<div class=\"scroll\"><table>");
    ccl_i_page_facts(out, doc->root, facts, CCL_ARRAY_LEN(facts));
    ccl_text_printf(out, "</table></div>\n");
    if (!json_is_number(json_object_get(doc->root, "time_s")) ||
        json_array_size(json_object_get(doc->root, "thread_blocks")) == 0)
        return CCL_OK; /* refused, a deadlock, or a flow list */
    CCL_TRY(ccl_report_draw_idle(doc, 1, CCL_NONE, &picture, err));
    return ccl_i_page_picture(picture, out, err);
}

static ccl_status_t timeline(const ccl_json_doc_t *doc, uint32_t d, ccl_text_t *out,
                             ccl_error_t *err) {
    ccl_text_t data = {0};
    char name[121];
    double merged_ns = 0;
    size_t spans = 0;
    ccl_status_t status = ccl_i_page_timeline(doc, &data, &merged_ns, &spans, err);

    ccl_file_title(doc->name, name, sizeof(name));
    if (status == CCL_OK) {
        ccl_text_printf(out, "<h2>Timeline of ");
        ccl_text_add_xml(out, name);
        ccl_text_printf(out,
                        "</h2>\n<p class=\"hint\">Wheel or + and -: zoom; drag or arrows: move; "
                        "shift and wheel: rows; double click: all of it.</p>\n"
                        "<p class=\"dim\">%zu events",
                        spans);
        if (merged_ns > 0)
            ccl_text_printf(out, "; of a row, those less than %.3g us apart are drawn as one",
                            merged_ns / 1e3);
        ccl_text_printf(out,
                        ".</p>\n<canvas class=\"timeline\" tabindex=\"0\" data-source=\"data%u\" "
                        "data-told=\"told%u\"></canvas>\n<p class=\"told\" id=\"told%u\"></p>\n"
                        "<script type=\"application/json\" id=\"data%u\">",
                        d, d, d, d);
        ccl_text_add(out, data.data, data.len);
        ccl_text_printf(out, "</script>\n");
    }
    ccl_text_fini(&data);
    return status;
}

static void other(const ccl_json_doc_t *doc, ccl_text_t *out) {
    const char *schema = schema_of(doc);
    char name[121];

    ccl_file_title(doc->name, name, sizeof(name));
    ccl_text_printf(out, "<h2>");
    if (strcmp(schema, "ccllab/bound/1") == 0)
        ccl_text_printf(out, "The limit: ");
    ccl_text_add_xml(out, name);
    ccl_text_printf(out, "</h2>\n<div class=\"scroll\">");
    anything(out, doc->root);
    ccl_text_printf(out, "</div>\n");
}

/* ---------------------------------------------------------------- to repeat it */

void ccl_i_page_option(ccl_text_t *out, const char *name, const char *value) {
    if (!value[0])
        return;
    ccl_text_printf(out, " --%s ", name);
    word(out, value);
}

static void repeat_compare(const json_t *root, ccl_text_t *out) {
    const json_t *list = json_object_get(root, "comparisons");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *comparison = json_array_get(list, i);
        const json_t *contenders = json_object_get(comparison, "contenders");
        const json_t *sizes = json_object_get(comparison, "sizes");

        for (size_t c = 0; c < json_array_size(contenders); c++) {
            const json_t *contender = json_array_get(contenders, c);
            bool own = !json_is_string(json_object_get(contender, "order"));

            if (!json_is_true(json_object_get(contender, "takes_part")))
                continue;
            ccl_text_printf(out, "ccllab compare");
            ccl_i_page_option(out, "topology", string_of(root, "topology"));
            ccl_i_page_option(out, "collective", string_of(comparison, "collective"));
            ccl_i_page_option(out, own ? "program" : "with", string_of(contender, "name"));
            ccl_i_page_option(out, "order", string_of(contender, "order"));
            ccl_i_page_option(out, "allocate", string_of(contender, "allocation"));
            ccl_i_page_option(out, "granularity", string_of(contender, "granularity"));
            ccl_i_page_option(out, "sharing", string_of(root, "sharing"));
            ccl_text_printf(out, " --seed %.0f --sizes ", number_of(root, "seed"));
            for (size_t s = 0; s < json_array_size(sizes); s++)
                ccl_text_printf(out, "%s%.17g", s ? "," : "",
                                number_of(json_array_get(sizes, s), "size_bytes"));
            ccl_text_add(out, "\n", 1);
        }
    }
}

/** A run of `simulate` or `explain`. */
static void repeat_run(const json_t *root, const char *command, ccl_text_t *out) {
    double batches = number_of(root, "batches");
    const char *input = string_of(root, "input");

    ccl_text_printf(out, "ccllab %s", command);
    ccl_i_page_option(out, "topology", string_of(root, "topology"));
    if (strcmp(command, "explain") == 0 && ccl_synth_find(input)) {
        ccl_i_page_option(out, "collective", string_of(root, "collective"));
        ccl_i_page_option(out, "with", input);
    } else {
        ccl_text_add(out, " ", 1);
        word(out, input);
    }
    ccl_text_printf(out, " --size %.17g", number_of(root, "size_bytes"));
    if (isfinite(batches))
        ccl_text_printf(out, " --batches %.0f", batches);
    ccl_i_page_option(out, "granularity", string_of(root, "granularity"));
    ccl_i_page_option(out, "sharing", string_of(root, "sharing"));
    ccl_i_page_option(out, "order", string_of(root, "order"));
    ccl_i_page_option(out, "allocate", string_of(root, "allocation"));
    ccl_text_add(out, "\n", 1);
}

static ccl_status_t settings(const ccl_report_page_t *page, ccl_text_t *out, ccl_error_t *err) {
    ccl_text_printf(out, "<h2>To repeat it</h2>\n<table><tr><th>file</th><th>schema</th>"
                         "<th>written by</th></tr>\n");
    for (uint32_t d = 0; d < page->ndocs; d++) {
        char name[121];

        ccl_file_title(page->docs[d].name, name, sizeof(name));
        ccl_text_printf(out, "<tr><td>");
        ccl_text_add_xml(out, name);
        ccl_text_printf(out, "</td><td>");
        ccl_text_add_xml(out, schema_of(&page->docs[d]));
        ccl_text_printf(out, "</td><td>ccllab ");
        ccl_text_add_xml(out, string_of(page->docs[d].root, "version"));
        ccl_text_printf(out, "</td></tr>\n");
    }
    ccl_text_printf(out, "</table>\n<p>Every line of the tables by itself:</p>\n<pre>");
    for (uint32_t d = 0; d < page->ndocs; d++) {
        const char *schema = schema_of(&page->docs[d]);

        if (strcmp(schema, "ccllab/compare/1") == 0)
            repeat_compare(page->docs[d].root, out);
        else if (strcmp(schema, "ccllab/simulate/1") == 0)
            repeat_run(page->docs[d].root, "simulate", out);
        else if (strcmp(schema, "ccllab/explain/1") == 0)
            repeat_run(page->docs[d].root, "explain", out);
        else if (ccl_i_page_is_search(&page->docs[d]))
            CCL_TRY(ccl_i_page_search_repeat(&page->docs[d], out, err));
    }
    ccl_text_printf(out, "</pre>\n");
    return CCL_OK;
}

/** What was asked, from the results where nobody says it. */
static void question(const ccl_report_page_t *page, ccl_text_t *out) {
    const char *topology = page->topo ? page->topo->name : "";

    for (uint32_t d = 0; d < page->ndocs && !topology[0]; d++)
        topology = string_of(page->docs[d].root, "topology");
    if (page->question) {
        ccl_text_add_xml(out, page->question);
        return;
    }
    ccl_text_printf(out, "Which schedule is fastest%s", topology[0] ? " on " : "");
    ccl_text_add_xml(out, topology);
    ccl_text_printf(out, "?");
}

ccl_status_t ccl_report_page(const ccl_report_page_t *page, ccl_text_t *out, ccl_error_t *err) {
    bool timelines = false;

    ccl_text_printf(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                         "<meta name=\"generator\" content=\"ccllab " CCL_VERSION "\">\n"
                         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                         "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
                         "<title>");
    question(page, out);
    ccl_text_printf(out, "</title>\n<style>%s</style></head><body>\n<h1>", style);
    question(page, out);
    ccl_text_printf(out, "</h1>\n");
    if (page->topo)
        CCL_TRY(cluster(page, out, err));
    for (uint32_t d = 0; d < page->ndocs; d++) {
        const ccl_json_doc_t *doc = &page->docs[d];
        const char *schema = schema_of(doc);

        if (strcmp(schema, "ccllab/compare/1") == 0) {
            CCL_TRY(comparison(doc, out, err));
        } else if (strcmp(schema, "ccllab/simulate/1") == 0) {
            CCL_TRY(simulation(doc, out, err));
        } else if (strcmp(schema, "ccllab/explain/1") == 0) {
            CCL_TRY(ccl_i_page_explanation(doc, out, err));
        } else if (ccl_i_page_is_search(doc)) {
            CCL_TRY(ccl_i_page_search(doc, out, err));
        } else if (strcmp(schema, "trace") == 0) {
            CCL_TRY(timeline(doc, d, out, err));
            timelines = true;
        } else if (strncmp(schema, "ccllab/", 7) == 0) {
            other(doc, out);
        } else {
            ccl_json_at_t root = ccl_json_root(doc);

            return ccl_json_fail(&root, err,
                                 "neither a result of ccllab (\"schema\": \"ccllab/...\") "
                                 "nor a trace (\"traceEvents\")");
        }
    }
    CCL_TRY(settings(page, out, err));
    if (timelines)
        ccl_text_printf(out, "<script>\n%s</script>\n", ccl_i_timeline_js);
    ccl_text_printf(out, "</body></html>\n");
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
