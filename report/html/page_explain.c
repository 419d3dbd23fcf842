/* A result of `explain` in the page: critical path, waits, the links of the bound, what helps. */
#include "report/html/page.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

enum { TOLD_CHANGES = 12 };

/** Index of a name among those of an enumeration. */
typedef const char *(*name_fn_t)(uint32_t index);

static const char *cause_name(uint32_t i) {
    return ccl_path_cause_name((ccl_path_cause_t)i);
}

static const char *wait_name(uint32_t i) {
    return ccl_path_wait_name((ccl_path_wait_t)i);
}

static const char *remedy_name(uint32_t i) {
    return ccl_remedy_name((ccl_remedy_t)i);
}

static ccl_status_t read_name(const ccl_json_at_t *at, const char *key, name_fn_t name, uint32_t n,
                              uint32_t *out, ccl_error_t *err) {
    ccl_json_at_t member = ccl_json_member(at, key);
    const char *text;

    CCL_TRY(ccl_json_string(&member, true, &text, err));
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(text, name(i)) == 0) {
            *out = i;
            return CCL_OK;
        }
    }
    return ccl_json_fail(&member, err, "\"%s\" is no %s that `ccllab explain` knows", text, key);
}

/** A time or a share, not negative. */
static ccl_status_t read_amount(const ccl_json_at_t *at, const char *key, double *out,
                                ccl_error_t *err) {
    CCL_TRY(ccl_i_read_number(at, key, out, err));
    if (!(*out >= 0)) {
        ccl_json_at_t member = ccl_json_member(at, key);

        return ccl_json_fail(&member, err, "%s must not be negative", key);
    }
    return CCL_OK;
}

static int by_time(const void *a, const void *b) {
    const ccl_draw_piece_t *x = a, *y = b;

    return x->time_s < y->time_s ? 1 : x->time_s > y->time_s ? -1 : strcmp(x->name, y->name);
}

/** Pieces of the critical path, the longest first; those of no time are left out. */
static ccl_status_t read_pieces(const ccl_json_at_t *root, bool causes, ccl_arena_t *arena,
                                const ccl_draw_piece_t **out, uint32_t *n_out, ccl_error_t *err) {
    ccl_json_at_t list = ccl_json_member(root, causes ? "causes" : "waits");
    ccl_draw_piece_t *pieces;
    size_t n = 0;

    CCL_TRY(ccl_json_array(&list, true, &n, err));
    pieces = ccl_arena_alloc(arena, n + 1, sizeof(*pieces));
    if (!pieces)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&list, i);
        ccl_json_at_t kind = ccl_json_member(&at, "kind");
        ccl_draw_piece_t *piece = &pieces[*n_out];
        const char *of = NULL;
        char name[200];

        CCL_TRY(read_amount(&at, "time_s", &piece->time_s, err));
        if (causes)
            CCL_TRY(read_name(&at, "cause", cause_name, CCL_PATH_CAUSES, &piece->colour, err));
        else
            CCL_TRY(read_name(&at, "wait", wait_name, CCL_PATH_WAITS, &piece->colour, err));
        if (kind.value && !json_is_null(kind.value))
            CCL_TRY(ccl_json_string(&kind, true, &of, err));
        snprintf(name, sizeof(name), "%s%s%.100s",
                 causes ? ccl_i_path_cause_text((ccl_path_cause_t)piece->colour)
                        : ccl_i_path_wait_text((ccl_path_wait_t)piece->colour),
                 of ? ", " : "", of ? of : "");
        piece->name = ccl_arena_strdup(arena, name);
        if (!piece->name)
            return ccl_fail_nomem(err);
        *n_out += piece->time_s > 0;
    }
    qsort(pieces, *n_out, sizeof(*pieces), by_time);
    *out = pieces;
    return CCL_OK;
}

/** What the links of the bound did; nothing where the bound has none. */
static ccl_status_t read_cut(const ccl_json_at_t *root, ccl_arena_t *arena,
                             ccl_draw_explanation_t *out, ccl_error_t *err) {
    ccl_json_at_t cut = ccl_json_member(root, "cut");
    ccl_json_at_t parts = ccl_json_member(&cut, "parts");
    double carried_bytes, least_bytes, nlinks, capacity_Bps, path_share;
    double *busy;
    uint32_t *on;
    size_t n = 0;
    char line[300];

    if (!cut.value || json_is_null(cut.value))
        return CCL_OK;
    CCL_TRY(ccl_json_object(&cut, true, err));
    CCL_TRY(read_amount(&cut, "nlinks", &nlinks, err));
    CCL_TRY(read_amount(&cut, "capacity_Bps", &capacity_Bps, err));
    CCL_TRY(read_amount(&cut, "carried_bytes", &carried_bytes, err));
    CCL_TRY(ccl_i_read_maybe(&cut, "least_bytes", &least_bytes, err));
    CCL_TRY(ccl_i_read_maybe(&cut, "path_share", &path_share, err)); /* earlier results have none */
    CCL_TRY(read_amount(&cut, "busy", &out->cut_busy, err));
    CCL_TRY(ccl_json_array(&parts, true, &n, err));
    busy = ccl_arena_alloc(arena, n + 1, sizeof(*busy));
    on = ccl_arena_alloc(arena, n + 1, sizeof(*on));
    if (!busy || !on)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&parts, i);

        CCL_TRY(read_amount(&at, "busy", &busy[i], err));
        busy[i] = fmin(busy[i], 1);
        CCL_TRY(read_name(&at, "cause", cause_name, CCL_PATH_CAUSES, &on[i], err));
    }
    snprintf(line, sizeof(line), "%.0f, %.4g GB/s together; they carried %.4g MB", nlinks,
             capacity_Bps / 1e9, carried_bytes / 1e6);
    if (least_bytes > 0)
        snprintf(line + strlen(line), sizeof(line) - strlen(line),
                 ", %.3f times what is needed at least", carried_bytes / least_bytes);
    snprintf(line + strlen(line), sizeof(line) - strlen(line), "; busy %.3g %% of the time",
             100 * out->cut_busy);
    if (isfinite(path_share))
        snprintf(line + strlen(line), sizeof(line) - strlen(line),
                 "; the critical path passes bytes over them, or cuts alike, for %.3g %%",
                 100 * path_share);
    out->cut = ccl_arena_strdup(arena, line);
    out->busy = busy;
    out->on = on;
    out->nparts = (uint32_t)n;
    return out->cut ? CCL_OK : ccl_fail_nomem(err);
}

/** Changes that ran, in their order. */
static ccl_status_t read_changes(const ccl_json_at_t *root, ccl_arena_t *arena,
                                 ccl_draw_explanation_t *out, ccl_error_t *err) {
    ccl_json_at_t list = ccl_json_member(root, "changes");
    ccl_draw_change_t *changes;
    size_t n = 0;

    CCL_TRY(ccl_json_array(&list, true, &n, err));
    changes = ccl_arena_alloc(arena, n + 1, sizeof(*changes));
    if (!changes)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        ccl_json_at_t at = ccl_json_element(&list, i);
        ccl_draw_change_t *c = &changes[out->nchanges];
        static const ccl_draw_change_of_t as[CCL_REMEDIES] = {
            [CCL_REMEDY_PROGRAM] = CCL_DRAW_CHANGE_PROGRAM,
            [CCL_REMEDY_SETTING] = CCL_DRAW_CHANGE_SETTING,
            [CCL_REMEDY_HARDWARE] = CCL_DRAW_CHANGE_HARDWARE,
        };
        uint32_t of = 0;

        CCL_TRY(ccl_i_read_string(&at, "what", &c->what, err));
        CCL_TRY(read_name(&at, "of", remedy_name, CCL_REMEDIES, &of, err));
        CCL_TRY(ccl_i_read_maybe(&at, "time_s", &c->time_s, err));
        c->of = as[of];
        out->nchanges += c->time_s >= 0;
    }
    out->changes = changes;
    return CCL_OK;
}

ccl_status_t ccl_report_draw_explanation(const ccl_json_doc_t *doc, ccl_picture_t **out,
                                         ccl_error_t *err) {
    ccl_json_at_t root = ccl_json_root(doc);
    ccl_draw_explanation_t about = {0};
    ccl_status_t status = CCL_OK;
    ccl_arena_t arena;
    const char *input, *topology, *collective;
    char name[121], size[32], title[400];
    double size_bytes;

    ccl_arena_init(&arena);
    CCL_TRY_GOTO(ccl_i_want_schema(doc, "ccllab/explain/1", "explain", err), status, done);
    CCL_TRY_GOTO(ccl_i_read_string(&root, "input", &input, err), status, done);
    CCL_TRY_GOTO(ccl_i_read_string(&root, "topology", &topology, err), status, done);
    CCL_TRY_GOTO(ccl_i_read_string(&root, "collective", &collective, err), status, done);
    CCL_TRY_GOTO(ccl_i_read_number(&root, "size_bytes", &size_bytes, err), status, done);
    CCL_TRY_GOTO(read_amount(&root, "time_s", &about.time_s, err), status, done);
    CCL_TRY_GOTO(ccl_i_read_maybe(&root, "bound_s", &about.bound_s, err), status, done);
    CCL_TRY_GOTO(read_pieces(&root, true, &arena, &about.causes, &about.ncauses, err), status,
                 done);
    CCL_TRY_GOTO(read_pieces(&root, false, &arena, &about.waits, &about.nwaits, err), status, done);
    CCL_TRY_GOTO(read_cut(&root, &arena, &about, err), status, done);
    CCL_TRY_GOTO(read_changes(&root, &arena, &about, err), status, done);
    ccl_file_title(input, name, sizeof(name));
    snprintf(title, sizeof(title), "%s: %.100s of %s on %.120s", name, collective,
             ccl_format_bytes(size_bytes, size, sizeof(size)), topology);
    about.title = title;
    status = ccl_draw_explanation(&about, out, err);
done:
    ccl_arena_fini(&arena);
    return status;
}

/* ---------------------------------------------------------------- the section */

/** What of the command line, or of the cluster, has to be said for a change. */
static void told_as(ccl_text_t *out, const json_t *change) {
    const json_t *edits = json_object_get(change, "edits");
    const char *options = json_string_value(json_object_get(change, "options"));

    ccl_text_printf(out, "<code>");
    for (size_t i = 0; i < json_array_size(edits); i++) {
        const char *edit = json_string_value(json_array_get(edits, i));
        const char *colon = edit ? strchr(edit, ':') : NULL;

        ccl_text_printf(out, "%s--scale '", i ? " " : "");
        ccl_text_add_xml(out, colon ? colon + 1 : "");
        ccl_text_printf(out, "'");
    }
    ccl_text_add_xml(out, options ? options : "");
    ccl_text_printf(out, "</code>");
}

/** The best changes and how to say them; reading the picture has checked them. */
static void change_table(const json_t *root, ccl_text_t *out) {
    const json_t *list = json_object_get(root, "changes");
    double time_s = json_number_value(json_object_get(root, "time_s"));
    size_t told = 0;

    if (json_array_size(list) == 0)
        return; /* none was tried */
    ccl_text_printf(
        out, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"changes tried\">"
             "<table class=\"changes\"><caption>What would help</caption><tr>"
             "<th scope=\"col\" class=\"words\">change</th><th scope=\"col\">time (us)</th>"
             "<th scope=\"col\">change (%%)</th><th scope=\"col\">of</th>"
             "<th scope=\"col\" class=\"words\">said as</th></tr>\n");
    for (size_t i = 0; i < json_array_size(list) && told < TOLD_CHANGES; i++) {
        const json_t *change = json_array_get(list, i);
        const json_t *ran = json_object_get(change, "time_s");

        if (!json_is_number(ran) || !(json_number_value(ran) < time_s))
            continue;
        told++;
        ccl_text_printf(out, "<tr><td>");
        ccl_text_add_xml(out, json_string_value(json_object_get(change, "what")));
        ccl_text_printf(out, "</td><td class=\"n\">%.5g</td><td class=\"n\">%+.1f</td><td>",
                        json_number_value(ran) * 1e6, 100 * (json_number_value(ran) / time_s - 1));
        ccl_text_add_xml(out, json_string_value(json_object_get(change, "of")));
        ccl_text_printf(out, "</td><td>");
        told_as(out, change);
        ccl_text_printf(out, "</td></tr>\n");
    }
    ccl_text_printf(out, "</table></div>\n");
    if (!told)
        ccl_text_printf(out, "<p>None of the %zu changes tried helps.</p>\n",
                        json_array_size(list));
}

/** Parts that are slower than others of their kind; nothing where there are none. */
static void slow_table(const json_t *root, ccl_text_t *out) {
    static const ccl_i_page_column_t columns[] = {
        {"part", "part", PAGE_WORDS},           {"alike", "alike", PAGE_NUMBER},
        {"bandwidth", "bandwidth", PAGE_WORDS}, {"time_s", "time if as fast (us)", PAGE_US},
        {"change", "change (%)", PAGE_PERCENT}, {"bound_s", "bound then (us)", PAGE_US}};
    const json_t *list = json_object_get(root, "slow_parts");

    if (json_array_size(list) > 0)
        ccl_i_page_table(out, "Parts slower than others of their kind", list, columns,
                         CCL_ARRAY_LEN(columns));
}

/** "; server s0 decides (25 of 50 GB/s): 33 % less if it were as fast as the others". */
static void slow_text(const json_t *root, char *out, size_t out_len) {
    const json_t *list = json_object_get(root, "slow_parts");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *part = json_array_get(list, i);

        if (!json_is_true(json_object_get(part, "decides")))
            continue;
        snprintf(out, out_len, "; a slow part decides: %.100s (%.0f %% less if as fast as others)",
                 ccl_i_page_string(part, "part"), -100 * ccl_i_page_number(part, "change"));
        return;
    }
}

/** The greatest cause and the best change. */
static void answer(ccl_i_page_t *page, const json_t *root) {
    const json_t *cause = NULL, *list = json_object_get(root, "causes");
    const json_t *change = json_array_get(json_object_get(root, "changes"), 0);
    double time_s = ccl_i_page_number(root, "time_s");
    double with_s = ccl_i_page_number(change, "time_s");
    char size[32], time[40], name[160] = "", best[400] = "", slow[200] = "";

    for (size_t i = 0; i < json_array_size(list); i++)
        if (!cause || ccl_i_page_number(json_array_get(list, i), "time_s") >
                          ccl_i_page_number(cause, "time_s"))
            cause = json_array_get(list, i);
    for (uint32_t i = 0; cause && i < CCL_PATH_CAUSES; i++)
        if (strcmp(ccl_i_page_string(cause, "cause"), cause_name(i)) == 0)
            snprintf(name, sizeof(name), "%s%s%.60s", ccl_i_path_cause_text((ccl_path_cause_t)i),
                     ccl_i_page_string(cause, "kind")[0] ? ", " : "",
                     ccl_i_page_string(cause, "kind"));
    if (with_s < time_s)
        snprintf(best, sizeof(best), "; of what was tried, this helps most: %.250s (%.0f %% less)",
                 ccl_i_page_string(change, "what"), 100 * (1 - with_s / time_s));
    slow_text(root, slow, sizeof(slow));
    ccl_i_page_answer(page,
                      "%s of %s takes %s; what limits: %s (%.0f %% of its critical path)%s%s.",
                      ccl_i_page_string(root, "input"),
                      ccl_format_bytes(ccl_i_page_number(root, "size_bytes"), size, sizeof(size)),
                      ccl_i_page_time(time_s, time, sizeof(time)), name,
                      100 * ccl_i_page_number(cause, "time_s") / time_s, slow, best);
}

ccl_status_t ccl_i_page_explanation(ccl_i_page_t *page, const ccl_json_doc_t *doc,
                                    ccl_error_t *err) {
    static const ccl_i_page_column_t facts[] = {
        {"time_s", "time", PAGE_TIME},
        {"bound_s", "bound", PAGE_TIME},
        {"gap", "time / bound", PAGE_NUMBER},
        {"busbw_GBps", "busbw (GB/s)", PAGE_NUMBER},
        {"speedup_over_nccl", "as fast as NCCL's choice", PAGE_TIMES},
        {"granularity", "level", PAGE_TEXT},
        {"batches", "micro-batches", PAGE_NUMBER},
        {"path_transfers", "transfers on the critical path", PAGE_NUMBER}};
    static const ccl_i_page_column_t on_cut = {
        "path_share", "share of the critical path on the links of the bound, or of cuts alike",
        PAGE_PERCENT};
    const json_t *cut = json_object_get(doc->root, "cut");
    ccl_text_t *out = &page->body;
    ccl_picture_t *picture = NULL;
    char name[121];

    CCL_TRY(ccl_report_draw_explanation(doc, &picture, err)); /* checks the document too */
    answer(page, doc->root);
    ccl_file_title(ccl_i_page_string(doc->root, "input"), name, sizeof(name));
    ccl_i_page_begin(page, "Why %s takes its time", name);
    ccl_i_page_scroll(out, "figures of the run");
    ccl_text_printf(out, "<table><tbody>");
    ccl_i_page_facts(out, doc->root, facts, CCL_ARRAY_LEN(facts));
    ccl_i_page_facts(out, cut, &on_cut, 1);
    ccl_text_printf(out, "</tbody></table></div>\n");
    slow_table(doc->root, out);
    change_table(doc->root, out);
    CCL_TRY(ccl_i_page_picture(picture, out, err));
    CCL_TRY(ccl_i_page_idle(page, doc, err));
    ccl_i_page_end(page);
    return CCL_OK;
}
