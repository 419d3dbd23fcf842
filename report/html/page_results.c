/* Sections for results of diagnose, sweep, failover, balance and bound, and for any other one. */
#include "report/html/page_curves.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

static void paragraph(ccl_text_t *out, const char *text) {
    if (!text[0])
        return;
    ccl_text_printf(out, "<p>");
    ccl_text_add_xml(out, text);
    ccl_text_printf(out, "</p>\n");
}

/* ---------------------------------------------------------------- diagnose */

static void diagnosed_run(ccl_i_page_t *page, const json_t *run) {
    static const ccl_i_page_column_t causes[] = {{"probability", "probability", PAGE_PERCENT},
                                                 {"claim", "cause", PAGE_WORDS},
                                                 {"evidence", "evidence", PAGE_WORDS},
                                                 {"next", "test next", PAGE_WORDS}};
    static const ccl_i_page_column_t rows[] = {
        {"size_bytes", "size", PAGE_SIZE},
        {"measured_s", "measured (us)", PAGE_US},
        {"expected_s", "expected (us)", PAGE_US},
        {"measured_busbw_GBps", "measured busbw (GB/s)", PAGE_NUMBER},
        {"expected_busbw_GBps", "expected busbw (GB/s)", PAGE_NUMBER},
        {"ratio", "measured / expected", PAGE_NUMBER},
        {"algo", "algorithm", PAGE_TEXT},
        {"proto", "protocol", PAGE_TEXT},
        {"verdict", "verdict", PAGE_WORDS}};
    const json_t *settings = json_object_get(run, "settings");
    ccl_text_t *out = &page->body;

    ccl_text_printf(out, "<h3>");
    ccl_text_add_xml(out, ccl_i_page_string(run, "collective"));
    ccl_text_printf(out, " on %.0f GPUs%s</h3>\n", ccl_i_page_number(run, "nranks"),
                    json_is_true(json_object_get(run, "in_place")) ? ", in place" : "");
    paragraph(out, ccl_i_page_string(run, "verdict"));
    ccl_i_page_table(out, "Causes, the likeliest first", json_object_get(run, "causes"), causes,
                     CCL_ARRAY_LEN(causes));
    if (json_array_size(settings) > 0) {
        ccl_text_printf(out, "<p>Settings that matter here:</p>\n");
        ccl_i_page_scroll(out, "settings that matter");
        ccl_i_page_anything(out, settings);
        ccl_text_printf(out, "</div>\n");
    }
    ccl_i_page_table(out, "Rows of the log beside the model", json_object_get(run, "sizes"), rows,
                     CCL_ARRAY_LEN(rows));
}

ccl_status_t ccl_i_page_diagnosis(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    const json_t *runs = json_object_get(doc->root, "runs");
    const char *verdict = ccl_i_page_string(doc->root, "verdict");

    (void)err;
    if (verdict[0])
        ccl_i_page_answer(page, "%s.", verdict);
    ccl_i_page_begin(page, "Diagnosis of %s on %s", ccl_i_page_string(doc->root, "input"),
                     ccl_i_page_string(doc->root, "topology"));
    if (verdict[0])
        ccl_text_printf(&page->body, "<p><strong>");
    ccl_text_add_xml(&page->body, verdict);
    if (verdict[0])
        ccl_text_printf(&page->body, "</strong></p>\n");
    for (size_t i = 0; i < json_array_size(runs); i++)
        diagnosed_run(page, json_array_get(runs, i));
    ccl_i_page_end(page);
    return CCL_OK;
}

/* ---------------------------------------------------------------- sweep */

/** The case that gains most at a case's largest size. */
static void sweep_answer(ccl_i_page_t *page, const json_t *cases, const char *collective) {
    const json_t *best = NULL, *best_size = NULL;
    double most = 1 + 1e-9;
    char size[32];

    for (size_t c = 1; c < json_array_size(cases); c++) {
        const json_t *sizes = json_object_get(json_array_get(cases, c), "sizes");

        for (size_t i = 0; i < json_array_size(sizes); i++) {
            double speedup = ccl_i_page_number(json_array_get(sizes, i), "speedup");

            if (!(speedup > most))
                continue;
            most = speedup;
            best = json_array_get(cases, c);
            best_size = json_array_get(sizes, i);
        }
    }
    if (best)
        ccl_i_page_answer(
            page, "%s helps most: %s of %s is %.2f times as fast as on the first cluster.",
            ccl_i_page_string(best, "name"), collective,
            ccl_format_bytes(ccl_i_page_number(best_size, "size_bytes"), size, sizeof(size)), most);
    else
        ccl_i_page_answer(page, "None of %zu other clusters makes %s faster than the first one.",
                          json_array_size(cases) - 1, collective);
}

/** busbw of the cases over the sizes of the first one. */
static ccl_status_t sweep_curves(ccl_i_page_t *page, const json_t *cases, const char *collective,
                                 ccl_arena_t *arena, ccl_error_t *err) {
    const json_t *first = json_object_get(json_array_get(cases, 0), "sizes");
    size_t n = json_array_size(cases), nsizes = json_array_size(first);
    double *sizes = ccl_arena_alloc(arena, nsizes + 1, sizeof(*sizes));
    double *busbw = ccl_arena_alloc(arena, n * nsizes + 1, sizeof(*busbw));
    ccl_draw_curve_t *curves = ccl_arena_alloc(arena, n + 1, sizeof(*curves));
    ccl_draw_busbw_t plot = {.title = collective, .nsizes = (uint32_t)nsizes};

    if (!sizes || !busbw || !curves)
        return ccl_fail_nomem(err);
    for (size_t c = 0; c < n; c++) {
        const json_t *one = json_array_get(cases, c), *list = json_object_get(one, "sizes");

        for (size_t i = 0; i < nsizes; i++) {
            const json_t *size = json_array_get(list, i);
            double bytes = ccl_i_page_number(size, "size_bytes");
            double time_s = ccl_i_page_number(size, "time_s");

            busbw[c * nsizes + i] = ccl_i_page_number(size, "busbw_GBps");
            if (c == 0)
                sizes[i] = bytes;
            if (time_s > 0 && bytes > 0 && plot.factor == 0)
                plot.factor = busbw[c * nsizes + i] * 1e9 * time_s / bytes;
        }
        curves[c] = (ccl_draw_curve_t){ccl_i_page_string(one, "name"), &busbw[c * nsizes]};
    }
    for (size_t i = 0; i < nsizes; i++)
        if (!(sizes[i] > 0))
            return CCL_OK;
    plot.ncurves = (uint32_t)n;
    plot.sizes_bytes = sizes;
    plot.curves = curves;
    return nsizes > 0 ? ccl_i_page_curves(page, &plot, err) : CCL_OK;
}

ccl_status_t ccl_i_page_sweep(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    static const ccl_i_page_column_t columns[] = {
        {"size_bytes", "size", PAGE_SIZE},           {"time_s", "time (us)", PAGE_US},
        {"bound_s", "bound (us)", PAGE_US},          {"busbw_GBps", "busbw (GB/s)", PAGE_NUMBER},
        {"speedup", "beside the first", PAGE_TIMES}, {"settings", "settings", PAGE_SETTINGS},
        {"origin", "how it came about", PAGE_WORDS}};
    const json_t *cases = json_object_get(doc->root, "cases");
    const char *collective = ccl_i_page_string(doc->root, "collective");
    ccl_arena_t arena;
    ccl_status_t status;

    if (json_array_size(cases) > 1)
        sweep_answer(page, cases, collective);
    ccl_i_page_begin(page, "What if: %s on %zu clusters", collective, json_array_size(cases));
    ccl_arena_init(&arena);
    status = sweep_curves(page, cases, collective, &arena, err);
    ccl_arena_fini(&arena);
    CCL_TRY(status);
    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *one = json_array_get(cases, c);
        char caption[300];

        snprintf(caption, sizeof(caption), "%.200s, %.0f GPUs%s", ccl_i_page_string(one, "name"),
                 ccl_i_page_number(one, "nranks"), c == 0 ? " (the first one)" : "");
        ccl_i_page_table(&page->body, caption, json_object_get(one, "sizes"), columns,
                         CCL_ARRAY_LEN(columns));
        paragraph(&page->body, ccl_i_page_string(one, "unchanged"));
    }
    ccl_i_page_end(page);
    return CCL_OK;
}

/* ---------------------------------------------------------------- failover */

/** The failure that costs most with its best plan, at its largest size. */
static void failover_answer(ccl_i_page_t *page, const json_t *root, const char *collective) {
    const json_t *cases = json_object_get(root, "cases"), *worst = NULL, *at = NULL;
    double most = -1;
    char size[32];

    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *plans = json_object_get(json_array_get(cases, c), "plans");
        const json_t *plan = json_array_get(plans, json_array_size(plans) - 1);
        double loss = ccl_i_page_number(plan, "loss");

        if (!(loss > most))
            continue;
        most = loss;
        worst = json_array_get(cases, c);
        at = plan;
    }
    if (!worst)
        return;
    ccl_i_page_answer(
        page,
        "Of %.0f single failures %s %s costs most: %s of %s takes %.0f %% longer with "
        "the best plan, %s.",
        ccl_i_page_number(root, "failures"), ccl_i_page_string(worst, "kind"),
        ccl_i_page_string(worst, "name"), collective,
        ccl_format_bytes(ccl_i_page_number(at, "size_bytes"), size, sizeof(size)), 100 * most,
        ccl_i_page_string(at, "best"));
}

ccl_status_t ccl_i_page_failover(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    static const ccl_i_page_column_t today[] = {
        {"size_bytes", "size", PAGE_SIZE},    {"winner", "winner", PAGE_TEXT},
        {"time_s", "time (us)", PAGE_US},     {"bound_s", "bound (us)", PAGE_US},
        {"gap", "time / bound", PAGE_NUMBER}, {"nccl_s", "NCCL (us)", PAGE_US}};
    static const ccl_i_page_column_t plans[] = {{"size_bytes", "size", PAGE_SIZE},
                                                {"stays_s", "today's stays (us)", PAGE_US},
                                                {"stays_loss", "longer (%)", PAGE_PERCENT},
                                                {"best", "best", PAGE_TEXT},
                                                {"time_s", "time (us)", PAGE_US},
                                                {"loss", "longer (%)", PAGE_PERCENT},
                                                {"bound_s", "bound (us)", PAGE_US},
                                                {"gap", "time / bound", PAGE_NUMBER},
                                                {"nccl_stays_s", "NCCL stays (us)", PAGE_US},
                                                {"nccl_s", "NCCL now (us)", PAGE_US},
                                                {"stays_why", "why not stay", PAGE_WORDS}};
    const json_t *cases = json_object_get(doc->root, "cases");
    const char *collective = ccl_i_page_string(doc->root, "collective");

    (void)err;
    failover_answer(page, doc->root, collective);
    ccl_i_page_begin(page, "Failover: %s on %s", collective,
                     ccl_i_page_string(doc->root, "topology"));
    ccl_i_page_table(&page->body, "the whole cluster", json_object_get(doc->root, "today"), today,
                     CCL_ARRAY_LEN(today));
    for (size_t c = 0; c < json_array_size(cases); c++) {
        const json_t *one = json_array_get(cases, c);
        char caption[400];

        snprintf(caption, sizeof(caption), "%s %.200s (%.0f alike), %.0f GPUs left",
                 ccl_i_page_string(one, "kind"), ccl_i_page_string(one, "name"),
                 ccl_i_page_number(one, "alike"), ccl_i_page_number(one, "nranks"));
        ccl_i_page_table(&page->body, caption, json_object_get(one, "plans"), plans,
                         CCL_ARRAY_LEN(plans));
        paragraph(&page->body, ccl_i_page_string(one, "why"));
    }
    ccl_i_page_end(page);
    return CCL_OK;
}

/* ---------------------------------------------------------------- balance */

ccl_status_t ccl_i_page_balance(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    static const ccl_i_page_column_t facts[] = {
        {"plan", "plan", PAGE_TEXT},
        {"rule", "rule", PAGE_TEXT},
        {"micro_batches", "micro-batches of a step", PAGE_NUMBER},
        {"makespan_s", "compute time of a step", PAGE_TIME},
        {"best_makespan_s", "the least possible", PAGE_TIME},
        {"speedup", "as fast as an equal split", PAGE_TIMES},
        {"efficiency", "efficiency", PAGE_PERCENT}};
    static const ccl_i_page_column_t steps[] = {{"step", "step", PAGE_TEXT},
                                                {"status", "status", PAGE_TEXT},
                                                {"micro_batches", "micro-batches", PAGE_NUMBER},
                                                {"time_s", "time", PAGE_TIME},
                                                {"compute_s", "compute", PAGE_TIME},
                                                {"tensor_s", "tensor", PAGE_TIME},
                                                {"pipeline_s", "pipeline", PAGE_TIME},
                                                {"data_s", "data", PAGE_TIME},
                                                {"per_s", "micro-batches per second", PAGE_NUMBER}};
    static const ccl_i_page_column_t workers[] = {
        {"gpu", "GPU", PAGE_TEXT},
        {"model", "model", PAGE_TEXT},
        {"stage", "stage", PAGE_NUMBER},
        {"speed_per_s", "speed (per second)", PAGE_NUMBER},
        {"balanced", "micro-batches", PAGE_NUMBER},
        {"equal", "equal split", PAGE_NUMBER},
        {"limit", "limit", PAGE_TEXT},
        {"compute_s", "compute", PAGE_TIME}};
    const json_t *collectives = json_object_get(doc->root, "collectives");
    ccl_text_t *out = &page->body;
    char time[40];

    (void)err;
    ccl_i_page_answer(
        page,
        "Balanced by speed, a step's compute takes %s on %s, %.2f times as fast as an equal split.",
        ccl_i_page_time(ccl_i_page_number(doc->root, "makespan_s"), time, sizeof(time)),
        ccl_i_page_string(doc->root, "topology"), ccl_i_page_number(doc->root, "speedup"));
    ccl_i_page_begin(page, "Training micro-batches on %s",
                     ccl_i_page_string(doc->root, "topology"));
    ccl_i_page_scroll(out, "the balance");
    ccl_text_printf(out, "<table><tbody>");
    ccl_i_page_facts(out, doc->root, facts, CCL_ARRAY_LEN(facts));
    ccl_text_printf(out, "</tbody></table></div>\n");
    ccl_i_page_table(out, "Time of a step", json_object_get(doc->root, "steps"), steps,
                     CCL_ARRAY_LEN(steps));
    if (json_array_size(collectives) > 0) {
        ccl_i_page_scroll(out, "collectives of a step");
        ccl_i_page_anything(out, collectives);
        ccl_text_printf(out, "</div>\n");
    }
    ccl_i_page_table(out, "Workers", json_object_get(doc->root, "workers"), workers,
                     CCL_ARRAY_LEN(workers));
    ccl_i_page_end(page);
    return CCL_OK;
}

/* ---------------------------------------------------------------- bound */

ccl_status_t ccl_i_page_bounds(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    static const ccl_i_page_column_t columns[] = {{"collective", "collective", PAGE_TEXT},
                                                  {"size_bytes", "size", PAGE_SIZE},
                                                  {"time_s", "bound (us)", PAGE_US},
                                                  {"latency_s", "of latency (us)", PAGE_US},
                                                  {"bandwidth_s", "of bandwidth (us)", PAGE_US},
                                                  {"algbw_GBps", "algbw (GB/s)", PAGE_NUMBER},
                                                  {"busbw_GBps", "busbw (GB/s)", PAGE_NUMBER},
                                                  {"proof", "proof", PAGE_TEXT}};
    static const ccl_i_page_column_t links[] = {{"from", "from", PAGE_TEXT},
                                                {"to", "to", PAGE_TEXT},
                                                {"kind", "kind", PAGE_TEXT},
                                                {"bandwidth_GBps", "GB/s", PAGE_NUMBER}};
    const json_t *list = json_object_get(doc->root, "bounds");
    const json_t *first = json_array_get(list, 0);
    char size[32], time[40];

    (void)err;
    if (first)
        ccl_i_page_answer(
            page, "No schedule can do %s of %s on %s in less than %s.",
            ccl_i_page_string(first, "collective"),
            ccl_format_bytes(ccl_i_page_number(first, "size_bytes"), size, sizeof(size)),
            ccl_i_page_string(doc->root, "topology"),
            ccl_i_page_time(ccl_i_page_number(first, "time_s"), time, sizeof(time)));
    ccl_i_page_begin(page, "The limit on %s", ccl_i_page_string(doc->root, "topology"));
    ccl_i_page_table(&page->body, "Bounds: no schedule is faster", list, columns,
                     CCL_ARRAY_LEN(columns));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *bound = json_array_get(list, i);
        char caption[200];

        snprintf(caption, sizeof(caption), "Links that limit %.80s of %s",
                 ccl_i_page_string(bound, "collective"),
                 ccl_format_bytes(ccl_i_page_number(bound, "size_bytes"), size, sizeof(size)));
        ccl_i_page_table(&page->body, caption, json_object_get(bound, "links"), links,
                         CCL_ARRAY_LEN(links));
    }
    ccl_i_page_end(page);
    return CCL_OK;
}

/* ---------------------------------------------------------------- any other one */

ccl_status_t ccl_i_page_other(ccl_i_page_t *page, const ccl_json_doc_t *doc, ccl_error_t *err) {
    const char *schema = ccl_i_page_string(doc->root, "schema");
    char name[121];

    (void)err;
    ccl_file_title(doc->name, name, sizeof(name));
    ccl_i_page_begin(page, "%.*s: %s", (int)strcspn(schema + strlen("ccllab/"), "/"),
                     schema + strlen("ccllab/"), name);
    ccl_i_page_scroll(&page->body, name);
    ccl_i_page_anything(&page->body, doc->root);
    ccl_text_printf(&page->body, "</div>\n");
    ccl_i_page_end(page);
    return CCL_OK;
}
