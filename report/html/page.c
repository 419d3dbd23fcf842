/*
 * Results in one HTML page: the answer in a sentence, contents, a section for each result, how to
 * repeat each line.
 */
#include "report/html/page.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ccl_status_t repeat_nothing(const ccl_json_doc_t *doc, ccl_text_t *out, ccl_error_t *err) {
    (void)doc;
    (void)out;
    (void)err;
    return CCL_OK;
}

static const ccl_i_page_kind_t kinds[] = {
    {"ccllab/compare/1", ccl_i_page_comparison, ccl_i_page_repeat_compare},
    {"ccllab/simulate/1", ccl_i_page_simulation, ccl_i_page_repeat_simulate},
    {"ccllab/explain/1", ccl_i_page_explanation, ccl_i_page_repeat_explain},
    {"ccllab/diagnose/1", ccl_i_page_diagnosis, repeat_nothing},
    {"ccllab/sweep/1", ccl_i_page_sweep, repeat_nothing},
    {"ccllab/failover/1", ccl_i_page_failover, repeat_nothing},
    {"ccllab/balance/1", ccl_i_page_balance, repeat_nothing},
    {"ccllab/bound/1", ccl_i_page_bounds, repeat_nothing},
    {"trace", ccl_i_page_trace, repeat_nothing},
};
static const ccl_i_page_kind_t search = {"", ccl_i_page_search, ccl_i_page_search_repeat};
static const ccl_i_page_kind_t other = {"", ccl_i_page_other, repeat_nothing};

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

static const char *schema_of(const ccl_json_doc_t *doc) {
    if (json_is_array(json_object_get(doc->root, "traceEvents")))
        return "trace";
    return ccl_i_page_string(doc->root, "schema");
}

/** NULL: no result. */
static const ccl_i_page_kind_t *kind_of(const ccl_json_doc_t *doc) {
    const char *schema = schema_of(doc);

    for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++)
        if (strcmp(schema, kinds[k].schema) == 0)
            return &kinds[k];
    if (ccl_i_page_is_search(doc))
        return &search;
    return strncmp(schema, "ccllab/", 7) == 0 ? &other : NULL;
}

/* ---------------------------------------------------------------- sections */

static void add_printf(ccl_text_t *out, const char *fmt, va_list args) {
    char text[1200];

    vsnprintf(text, sizeof(text), fmt, args);
    ccl_text_add_xml(out, text);
}

void ccl_i_page_begin(ccl_i_page_t *page, const char *fmt, ...) {
    va_list args, again;
    uint32_t n = ++page->nsections;

    va_start(args, fmt);
    va_copy(again, args);
    ccl_text_printf(&page->contents, "<li><a href=\"#part%u\">", n);
    add_printf(&page->contents, fmt, args);
    ccl_text_printf(&page->contents, "</a></li>\n");
    ccl_text_printf(&page->body,
                    "<section id=\"part%u\" aria-labelledby=\"head%u\">\n<h2 id=\"head%u\">", n, n,
                    n);
    add_printf(&page->body, fmt, again);
    ccl_text_printf(&page->body, "</h2>\n");
    va_end(again);
    va_end(args);
}

void ccl_i_page_end(ccl_i_page_t *page) {
    ccl_text_printf(&page->body, "</section>\n");
}

void ccl_i_page_answer(ccl_i_page_t *page, const char *fmt, ...) {
    va_list args;
    bool first = page->nanswers++ == 0;

    va_start(args, fmt);
    ccl_text_printf(&page->answers, first ? "<p class=\"answer\">" : "%s<li>",
                    page->nanswers == 2 ? "<ul class=\"answers\">\n" : "");
    add_printf(&page->answers, fmt, args);
    ccl_text_printf(&page->answers, first ? "</p>\n" : "</li>\n");
    va_end(args);
}

ccl_status_t ccl_i_page_picture(ccl_picture_t *picture, ccl_text_t *out, ccl_error_t *err) {
    ccl_status_t status;

    ccl_i_page_scroll(out, "picture");
    status = ccl_picture_write_inline(picture, false, out, err);
    ccl_text_printf(out, "</div>\n");
    ccl_picture_destroy(picture);
    return status;
}

/** The cluster, with how busy its links were in the first run that knows all of them. */
static ccl_status_t cluster(ccl_i_page_t *page, ccl_error_t *err) {
    ccl_draw_topology_options_t options = CCL_DRAW_TOPOLOGY_OPTIONS_INIT;
    const ccl_topology_t *topo = page->of->topo;
    ccl_picture_t *picture = NULL;
    ccl_link_use_t *uses = calloc(topo->nlinks + (size_t)1, sizeof(*uses));
    char about[200];
    ccl_status_t status;

    if (!uses)
        return ccl_fail_nomem(err);
    for (uint32_t d = 0; d < page->of->ndocs && !options.links; d++) {
        const json_t *root = page->of->docs[d].root;
        const json_t *links = json_object_get(root, "links");
        bool fits = strcmp(schema_of(&page->of->docs[d]), "ccllab/simulate/1") == 0 &&
                    json_array_size(links) == topo->nlinks;

        for (uint32_t i = 0; fits && i < topo->nlinks; i++) {
            const json_t *link = json_array_get(links, i);

            uses[i].utilization = ccl_i_page_number(link, "utilization");
            fits = isfinite(uses[i].utilization) &&
                   strcmp(ccl_i_page_string(link, "from"), topo->devices[topo->links[i].from].id) ==
                       0 &&
                   strcmp(ccl_i_page_string(link, "to"), topo->devices[topo->links[i].to].id) == 0;
        }
        if (fits) {
            snprintf(about, sizeof(about), "links coloured by their use in %.120s",
                     ccl_i_page_string(root, "input"));
            options.links = uses;
            options.run = about;
        }
    }
    ccl_i_page_begin(page, "The cluster");
    if (topo->source && topo->source[0]) {
        ccl_text_printf(&page->body, "<p class=\"dim\">Source of the numbers: ");
        ccl_text_add_xml(&page->body, topo->source);
        ccl_text_printf(&page->body, "</p>\n");
    }
    status = ccl_draw_topology(topo, &options, &picture, err);
    free(uses);
    if (status == CCL_OK)
        status = ccl_i_page_picture(picture, &page->body, err);
    ccl_i_page_end(page);
    return status;
}

/* ---------------------------------------------------------------- where it comes from */

static ccl_status_t sources(ccl_i_page_t *page, ccl_error_t *err) {
    ccl_text_t lines = {0}, *out = &page->body;
    ccl_status_t status = CCL_OK;

    ccl_i_page_begin(page, "To repeat it");
    ccl_i_page_scroll(out, "files that this page was made of");
    ccl_text_printf(out, "<table><thead><tr><th scope=\"col\">file</th><th scope=\"col\">what</th>"
                         "<th scope=\"col\">written by</th></tr></thead><tbody>\n");
    for (uint32_t d = 0; d < page->of->ndocs; d++) {
        const ccl_json_doc_t *doc = &page->of->docs[d];
        const json_t *tool = json_object_get(json_object_get(doc->root, "otherData"), "tool");
        char name[121];

        ccl_file_title(doc->name, name, sizeof(name));
        ccl_text_printf(out, "<tr><td>");
        ccl_text_add_xml(out, name);
        ccl_text_printf(out, "</td><td>");
        ccl_text_add_xml(out, schema_of(doc));
        ccl_text_printf(out, "</td><td>");
        if (json_is_string(tool)) {
            ccl_text_add_xml(out, json_string_value(tool));
        } else {
            ccl_text_printf(out, "ccllab ");
            ccl_text_add_xml(out, ccl_i_page_string(doc->root, "version"));
        }
        ccl_text_printf(out, "</td></tr>\n");
    }
    ccl_text_printf(out, "</tbody></table></div>\n");
    for (uint32_t d = 0; status == CCL_OK && d < page->of->ndocs; d++)
        status = kind_of(&page->of->docs[d])->repeat(&page->of->docs[d], &lines, err);
    if (status == CCL_OK && lines.len > 0)
        ccl_text_printf(out, "<p>Every line of the tables by itself:</p>\n<pre>%s</pre>\n",
                        lines.data);
    out->nomem |= lines.nomem;
    ccl_text_fini(&lines);
    ccl_i_page_end(page);
    return status;
}

/* ---------------------------------------------------------------- the whole */

/** What was asked, from the results where nobody says it. */
static void question(const ccl_report_page_t *page, ccl_text_t *out) {
    const char *topology = page->topo ? page->topo->name : "", *what = "What ccllab found";

    if (page->question) {
        ccl_text_add_xml(out, page->question);
        return;
    }
    for (uint32_t d = 0; d < page->ndocs; d++) {
        const char *schema = schema_of(&page->docs[d]);

        if (!topology[0])
            topology = ccl_i_page_string(page->docs[d].root, "topology");
        if (strcmp(schema, "ccllab/compare/1") == 0 || strcmp(schema, "ccllab/tune/1") == 0)
            what = "Which schedule is fastest";
    }
    ccl_text_printf(out, "%s%s", what, topology[0] ? " on " : "");
    ccl_text_add_xml(out, topology);
    ccl_text_printf(out, "%s", what[2] == 'i' ? "?" : "");
}

static void head(const ccl_i_page_t *page, ccl_text_t *out) {
    const ccl_report_page_t *of = page->of;

    ccl_text_printf(
        out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
             "<meta name=\"color-scheme\" content=\"light dark\">\n"
             "<meta name=\"generator\" content=\"ccllab " CCL_VERSION "\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
             "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
             "<link rel=\"icon\" href=\"data:,\">\n<title>");
    question(of, out);
    ccl_text_printf(out,
                    "</title>\n<style>\n%s</style></head><body>\n"
                    "<a class=\"skip\" href=\"#part1\">Skip to the results</a>\n<header>\n<h1>",
                    ccl_i_page_css);
    question(of, out);
    ccl_text_printf(out, "</h1>\n");
    if (page->answers.data)
        ccl_text_add(out, page->answers.data, page->answers.len);
    ccl_text_printf(out, "%s<p class=\"made\">Made%s%s by ccllab " CCL_VERSION,
                    page->nanswers > 1 ? "</ul>\n" : "", of->date ? " on " : "",
                    of->date ? of->date : "");
    if (of->command) {
        ccl_text_printf(out, ": <code>");
        ccl_text_add_xml(out, of->command);
        ccl_text_printf(out, "</code>");
    }
    ccl_text_printf(out, "</p>\n</header>\n<nav aria-label=\"Contents\"><ol>\n");
    if (page->contents.data)
        ccl_text_add(out, page->contents.data, page->contents.len);
    ccl_text_printf(out, "</ol></nav>\n<main>\n");
}

static ccl_status_t sections(ccl_i_page_t *page, ccl_error_t *err) {
    const ccl_report_page_t *of = page->of;

    for (uint32_t d = 0; d < of->ndocs; d++) {
        if (!kind_of(&of->docs[d])) {
            ccl_json_at_t root = ccl_json_root(&of->docs[d]);

            return ccl_json_fail(&root, err,
                                 "neither a result of ccllab (\"schema\": \"ccllab/...\") "
                                 "nor a trace (\"traceEvents\")");
        }
    }
    for (uint32_t d = 0; d < of->ndocs; d++)
        CCL_TRY(kind_of(&of->docs[d])->write(page, &of->docs[d], err));
    if (of->topo)
        CCL_TRY(cluster(page, err));
    return sources(page, err);
}

ccl_status_t ccl_report_page(const ccl_report_page_t *of, ccl_text_t *out, ccl_error_t *err) {
    ccl_i_page_t page = {.of = of, .idle = ccl_strmap_create()};
    ccl_status_t status = page.idle ? sections(&page, err) : ccl_fail_nomem(err);

    if (status == CCL_OK) {
        head(&page, out);
        ccl_text_add(out, page.body.data, page.body.len);
        ccl_text_printf(out, "</main>\n");
        if (page.scripted)
            ccl_text_printf(out, "<script>\n%s</script>\n<script>\n%s</script>\n",
                            ccl_i_timeline_js, ccl_i_curves_js);
        ccl_text_printf(out, "</body></html>\n");
        if (out->nomem || page.body.nomem || page.contents.nomem || page.answers.nomem)
            status = ccl_fail_nomem(err);
    }
    ccl_strmap_destroy(page.idle);
    ccl_text_fini(&page.body);
    ccl_text_fini(&page.contents);
    ccl_text_fini(&page.answers);
    return status;
}
