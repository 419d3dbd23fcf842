/* Times over samples: distributions of all contenders at a size, and the tables below them. */
#include "report/html/page_spread.h"

#include "base/json.h"
#include <math.h>

/** One curve; *out has no quantiles where the result has none. */
static ccl_status_t read_curve(const json_t *spread, const char *name, ccl_arena_t *arena,
                               ccl_draw_spread_t *out, ccl_error_t *err) {
    const json_t *list = json_object_get(spread, "quantiles_s");
    double *quantile_s = ccl_arena_alloc(arena, CCL_SPREAD_QUANTILES, sizeof(*quantile_s));

    if (!quantile_s)
        return ccl_fail_nomem(err);
    *out = (ccl_draw_spread_t){name, NULL};
    if (json_array_size(list) != CCL_SPREAD_QUANTILES)
        return CCL_OK;
    for (size_t i = 0; i < CCL_SPREAD_QUANTILES; i++) {
        const json_t *value = json_array_get(list, i);

        quantile_s[i] = json_is_number(value) ? json_number_value(value) : INFINITY;
    }
    out->quantile_s = quantile_s;
    return CCL_OK;
}

static ccl_status_t add_plot(ccl_i_page_t *page, const char *title, const ccl_draw_spread_t *curves,
                             uint32_t n, ccl_error_t *err) {
    ccl_draw_spreads_t plot = {title, CCL_SPREAD_QUANTILES, n, curves};
    ccl_picture_t *picture = NULL;

    if (n == 0)
        return CCL_OK;
    CCL_TRY(ccl_draw_spreads(&plot, 1, &picture, err));
    ccl_text_printf(&page->body, "<figure class=\"spread\">\n");
    CCL_TRY(ccl_i_page_picture(picture, &page->body, err));
    ccl_text_printf(&page->body, "</figure>\n");
    return CCL_OK;
}

static ccl_status_t size_spread(ccl_i_page_t *page, const json_t *size, ccl_arena_t *arena,
                                ccl_error_t *err) {
    static const ccl_i_page_column_t columns[] = {{"name", "contender", PAGE_TEXT},
                                                  {"mean_s", "mean (us)", PAGE_US},
                                                  {"p50_s", "median (us)", PAGE_US},
                                                  {"p95_s", "p95 (us)", PAGE_US},
                                                  {"p99_s", "p99 (us)", PAGE_US},
                                                  {"behind_s", "behind the winner (us)", PAGE_US},
                                                  {"fastest", "fastest in (%)", PAGE_PERCENT}};
    const json_t *rows = json_object_get(size, "spread");
    size_t n = json_array_size(rows);
    ccl_draw_spread_t *curves = ccl_arena_alloc(arena, n + 1, sizeof(*curves));
    uint32_t used = 0;
    char title[100], bytes[32];

    if (!curves)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i);

        CCL_TRY(read_curve(row, ccl_i_page_string(row, "name"), arena, &curves[used], err));
        used += curves[used].quantile_s != NULL;
    }
    if (n == 0)
        return CCL_OK;
    snprintf(title, sizeof(title), "%s over samples",
             ccl_format_bytes(ccl_i_page_number(size, "size_bytes"), bytes, sizeof(bytes)));
    CCL_TRY(add_plot(page, title, curves, used, err));
    ccl_i_page_table(&page->body, title, rows, columns, CCL_ARRAY_LEN(columns));
    return CCL_OK;
}

ccl_status_t ccl_i_page_spreads(ccl_i_page_t *page, const json_t *comparison, ccl_error_t *err) {
    const json_t *sizes = json_object_get(comparison, "sizes");
    ccl_arena_t arena;
    ccl_status_t status = CCL_OK;

    ccl_arena_init(&arena);
    for (size_t i = 0; i < json_array_size(sizes) && status == CCL_OK; i++)
        status = size_spread(page, json_array_get(sizes, i), &arena, err);
    ccl_arena_fini(&arena);
    return status;
}

ccl_status_t ccl_i_page_run_spread(ccl_i_page_t *page, const json_t *spread, const char *name,
                                   ccl_error_t *err) {
    ccl_draw_spread_t curve = {name, NULL};
    ccl_arena_t arena;
    char title[200];

    ccl_arena_init(&arena);
    ccl_status_t status = read_curve(spread, name, &arena, &curve, err);
    snprintf(title, sizeof(title), "%.100s: %.0f samples", name,
             ccl_i_page_number(spread, "samples"));
    if (status == CCL_OK)
        status = add_plot(page, title, &curve, curve.quantile_s != NULL, err);
    ccl_arena_fini(&arena);
    return status;
}
