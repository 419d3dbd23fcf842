/* Sections for a run: its figures, its thread blocks, its trace. */
#include "report/html/page_spread.h"
#include "report/html/page_timeline.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ccl_i_page_states(ccl_i_page_t *page) {
    if (page->told_states)
        return;
    page->told_states = true;
    ccl_text_printf(
        &page->body,
        "<ul class=\"legend\" aria-label=\"Colours of thread blocks\">"
        "<li><i style=\"background:#0072b2\"></i>busy</li>"
        "<li><i style=\"background:#e69f00\"></i>waits for data</li>"
        "<li><i style=\"background:#cc79a7\"></i>waits for another block of its GPU</li>"
        "<li><i style=\"background:#009e73\"></i>waits for a free slot</li>"
        "<li><i style=\"background:#56b4e9\"></i>data cross the network</li></ul>\n");
}

/** Blocks of one GPU as text, equal for GPUs that are alike. */
static void blocks_text(ccl_text_t *out, const json_t *list, size_t from, size_t to,
                        double step_ns) {
    static const char *const keys[] = {"start_s",     "done_s",      "busy_s",
                                       "wait_data_s", "wait_peer_s", "wait_slot_s"};

    for (size_t i = from; i < to; i++) {
        const json_t *block = json_array_get(list, i);

        ccl_text_printf(out, "%s[%.0f", i > from ? "," : "", ccl_i_page_number(block, "id"));
        for (size_t k = 0; k < CCL_ARRAY_LEN(keys); k++)
            ccl_text_printf(out, ",%.0f",
                            round(ccl_i_page_number(block, keys[k]) * 1e9 / step_ns) * step_ns);
        ccl_text_printf(out, "]");
    }
}

/** GPUs by what their blocks did: {"time": ns, "groups": [blocks ...], "of": [group of each]}. */
static ccl_status_t idle_data(const json_t *root, ccl_text_t *out, ccl_error_t *err) {
    const json_t *list = json_object_get(root, "thread_blocks");
    ccl_strmap_t *seen = ccl_strmap_create();
    ccl_text_t of = {0};
    size_t n = json_array_size(list);
    /* GPUs that differ by less than a thousandth of the run are alike. */
    double time_ns = ccl_i_page_number(root, "time_s") * 1e9;
    double step_ns = time_ns > 1000 ? pow(10, floor(log10(time_ns / 1000))) : 1;
    uint32_t ngroups = 0;
    bool nomem = !seen;

    ccl_text_printf(out, "{\"time\":%.0f,\"groups\":[", ccl_i_page_number(root, "time_s") * 1e9);
    for (size_t i = 0, end; !nomem && i < n; i = end) {
        double rank = ccl_i_page_number(json_array_get(list, i), "rank");
        ccl_text_t text = {0};
        uint32_t group;

        for (end = i + 1; end < n && ccl_i_page_number(json_array_get(list, end), "rank") == rank;)
            end++;
        blocks_text(&text, list, i, end, step_ns);
        nomem = text.nomem;
        group = nomem ? 0 : ccl_strmap_get(seen, text.data);
        if (!nomem && group == CCL_NONE) {
            group = ngroups++;
            nomem = !ccl_strmap_put(seen, text.data, group);
            ccl_text_printf(out, "%s[%s]", group ? ",\n" : "\n", text.data);
        }
        ccl_text_printf(&of, "%s[%.0f,%u]", i ? "," : "", rank, group);
        ccl_text_fini(&text);
    }
    ccl_text_printf(out, "],\"of\":[%s]}", of.data ? of.data : "");
    nomem |= of.nomem;
    ccl_text_fini(&of);
    ccl_strmap_destroy(seen);
    return nomem ? ccl_fail_nomem(err) : CCL_OK;
}

ccl_status_t ccl_i_page_idle(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    const json_t *root = doc->root;
    ccl_picture_t *picture = NULL;
    ccl_text_t *out = &page->body;
    uint32_t id = page->ids++;
    char key[400];

    if (!json_is_number(json_object_get(root, "time_s")) ||
        json_array_size(json_object_get(root, "thread_blocks")) == 0)
        return CCL_OK; /* refused, a deadlock, or a flow list */
    snprintf(key, sizeof(key), "%.100s %.100s %.17g %.17g", ccl_i_page_string(root, "topology"),
             ccl_i_page_string(root, "collective"), ccl_i_page_number(root, "size_bytes"),
             ccl_i_page_number(root, "time_s"));
    if (ccl_strmap_get(page->idle, key) != CCL_NONE) {
        ccl_text_printf(out, "<p class=\"dim\">What its thread blocks did stands above.</p>\n");
        return CCL_OK;
    }
    if (!ccl_strmap_put(page->idle, key, id))
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_report_draw_idle(doc, 1, CCL_NONE, &picture, err));
    page->scripted = true;
    ccl_text_printf(out, "<h3>What thread blocks did</h3>\n");
    ccl_i_page_states(page);
    ccl_text_printf(out, "<figure class=\"idle\" data-source=\"idle%u\">\n", id);
    CCL_TRY(ccl_i_page_picture(picture, out, err));
    ccl_text_printf(out, "</figure>\n<script type=\"application/json\" id=\"idle%u\">", id);
    CCL_TRY(idle_data(root, out, err));
    ccl_text_printf(out, "</script>\n");
    return CCL_OK;
}

ccl_status_t ccl_i_page_simulation(ccl_i_page_t *page, const ccl_json_doc_t *doc,
                                   ccl_error_t *err) {
    static const ccl_i_page_column_t facts[] = {
        {"collective", "collective", PAGE_TEXT},
        {"nranks", "GPUs", PAGE_NUMBER},
        {"size_bytes", "size", PAGE_SIZE},
        {"time_s", "time", PAGE_TIME},
        {"bound_s", "bound", PAGE_TIME},
        {"gap", "time / bound", PAGE_NUMBER},
        {"algbw_GBps", "algbw (GB/s)", PAGE_NUMBER},
        {"busbw_GBps", "busbw (GB/s)", PAGE_NUMBER},
        {"proto", "protocol", PAGE_TEXT},
        {"batches", "micro-batches", PAGE_NUMBER},
        {"granularity", "level", PAGE_TEXT},
        {"transfers", "transfers", PAGE_NUMBER},
        {"thread_blocks_per_gpu", "thread blocks of the fullest GPU", PAGE_NUMBER},
        {"comm_share", "thread blocks are busy, mean", PAGE_PERCENT},
        {"mean_idle_share", "they idle, mean", PAGE_PERCENT},
        {"max_idle_share", "the idlest", PAGE_PERCENT},
        {"link_utilization", "use of links in use, mean", PAGE_PERCENT},
        {"origin", "how it came about", PAGE_TEXT}};
    const json_t *root = doc->root;
    double gap = ccl_i_page_number(root, "gap");
    char size[32], time[40], above[80] = "";

    if (isfinite(gap))
        snprintf(above, sizeof(above), ", %.0f %% above the bound", 100 * (gap - 1));
    if (json_is_number(json_object_get(root, "time_s")))
        ccl_i_page_answer(
            page, "%s takes %s for %s: busbw %.4g GB/s%s.", ccl_i_page_string(root, "input"),
            ccl_i_page_time(ccl_i_page_number(root, "time_s"), time, sizeof(time)),
            ccl_format_bytes(ccl_i_page_number(root, "size_bytes"), size, sizeof(size)),
            ccl_i_page_number(root, "busbw_GBps"), above);
    else
        ccl_i_page_answer(page, "%s does not run to its end.", ccl_i_page_string(root, "input"));
    ccl_i_page_begin(page, "Run of %s", ccl_i_page_string(root, "input"));
    ccl_i_page_scroll(&page->body, "figures of the run");
    ccl_text_printf(&page->body, "<table><tbody>");
    ccl_i_page_facts(&page->body, root, facts, CCL_ARRAY_LEN(facts));
    ccl_text_printf(&page->body, "</tbody></table></div>\n");
    CCL_TRY(ccl_i_page_run_spread(page, json_object_get(root, "spread"),
                                  ccl_i_page_string(root, "input"), err));
    CCL_TRY(ccl_i_page_idle(page, doc, err));
    ccl_i_page_end(page);
    return CCL_OK;
}

ccl_status_t ccl_i_page_trace(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    const json_t *other = json_object_get(doc->root, "otherData");
    double gpus = ccl_i_page_number(other, "gpus"), full = ccl_i_page_number(other, "gpus_in_full");
    ccl_text_t data = {0}, *out = &page->body;
    ccl_i_page_traced_t about = {0};
    uint32_t id = page->ids++;
    char name[121];
    ccl_status_t status = ccl_i_page_timeline(doc, &data, &about, err);

    ccl_file_title(doc->name, name, sizeof(name));
    if (status == CCL_OK) {
        page->scripted = true;
        ccl_i_page_begin(page, "Timeline of %s", name);
        ccl_i_page_states(page);
        ccl_text_printf(out,
                        "<p class=\"hint\">Wheel or + and -: zoom; drag or arrows: move; shift and "
                        "wheel, page up and down: rows; 0 or double click: all of it.</p>\n"
                        "<p class=\"dim\">%zu events",
                        about.spans);
        if (about.merged_ns > 0)
            ccl_text_printf(out, "; of a row, those less than %.3g us apart are drawn as one",
                            about.merged_ns / 1e3);
        if (about.folded > 0)
            ccl_text_printf(out, "; %zu rows that are like another one are folded into it",
                            about.folded);
        if (full < gpus)
            ccl_text_printf(out, "; a sample: %.0f of %.0f GPUs", full, gpus);
        ccl_text_printf(out,
                        ".</p>\n<div class=\"tools\"><label>Go to <select class=\"goto\" "
                        "data-canvas=\"canvas%u\"></select></label></div>\n"
                        "<canvas class=\"timeline\" id=\"canvas%u\" tabindex=\"0\" role=\"img\" "
                        "aria-label=\"Timeline of thread blocks\" aria-describedby=\"told%u\" "
                        "data-source=\"data%u\" data-told=\"told%u\"></canvas>\n"
                        "<p class=\"told\" id=\"told%u\" aria-live=\"polite\"></p>\n"
                        "<script type=\"application/json\" id=\"data%u\">",
                        id, id, id, id, id, id, id);
        ccl_text_add(out, data.data, data.len);
        ccl_text_printf(out, "</script>\n");
        ccl_i_page_end(page);
    }
    ccl_text_fini(&data);
    return status;
}
