/* The same tuning on several clusters: their best beside the first one's. */
#include "report/writer.h"

#include <math.h>
#include <stdlib.h>

static const ccl_tune_run_t *best_of(const ccl_report_sweep_case_t *c, uint32_t size) {
    uint32_t best = c->tuning->best[size];

    return best == CCL_NONE ? NULL : &c->tuning->runs[best];
}

/* How many times as fast as the first cluster; NaN: one has no time. */
static double speedup(const ccl_report_sweep_t *about, uint32_t at, uint32_t size) {
    const ccl_tune_run_t *base = best_of(&about->cases[0], size),
                         *run = best_of(&about->cases[at], size);

    return base && run ? base->result.time_s / run->result.time_s : NAN;
}

static ccl_status_t json(const ccl_report_sweep_t *about, ccl_text_t *out, ccl_error_t *err) {
    ccl_i_json_t json;

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/sweep/1");
    ccl_i_json_string(&json, "collective", about->collective);
    ccl_i_json_array(&json, "cases", false);
    for (uint32_t i = 0; i < about->ncases; i++) {
        const ccl_report_sweep_case_t *c = &about->cases[i];

        ccl_i_json_object(&json, NULL, false);
        ccl_i_json_string(&json, "name", c->name);
        ccl_i_json_u64(&json, "nranks", c->topo->nranks);
        ccl_i_json_string(&json, "stopped", c->tuning->stopped);
        ccl_i_json_array(&json, "sizes", false);
        for (uint32_t s = 0; s < c->tuning->nsizes; s++) {
            const ccl_tune_run_t *run = best_of(c, s);

            ccl_i_json_object(&json, NULL, true);
            ccl_i_json_number(&json, "size_bytes", c->tuning->sizes_bytes[s]);
            ccl_i_json_number(&json, "time_s", run ? run->result.time_s : NAN);
            ccl_i_json_number(&json, "busbw_GBps", run ? run->result.busbw_GBps : NAN);
            ccl_i_json_number(&json, "bound_s", c->tuning->bound_s[s]);
            ccl_i_json_number(&json, "speedup", speedup(about, i, s));
            if (run)
                ccl_i_json_string(&json, "settings", c->tuning->points[run->point].settings);
            else
                ccl_i_json_null(&json, "settings");
            ccl_i_json_close_object(&json);
        }
        ccl_i_json_close_array(&json);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

static void csv_row(const ccl_report_sweep_t *about, uint32_t at, uint32_t size,
                    ccl_table_t *table) {
    const ccl_report_sweep_case_t *c = &about->cases[at];
    const ccl_tune_run_t *run = best_of(c, size);
    const double values[] = {c->topo->nranks,
                             c->tuning->sizes_bytes[size],
                             run ? run->result.time_s : NAN,
                             run ? run->result.busbw_GBps : NAN,
                             c->tuning->bound_s[size],
                             speedup(about, at, size)};
    char text[40];

    ccl_table_row(table);
    ccl_table_cell(table, "%s", c->name);
    for (size_t v = 0; v < CCL_ARRAY_LEN(values); v++)
        ccl_table_cell(table, "%s", ccl_i_number(values[v], text, sizeof(text)));
    ccl_table_cell(table, "%s", run ? c->tuning->points[run->point].settings : "");
}

static void text_row(const ccl_report_sweep_t *about, uint32_t at, uint32_t size,
                     ccl_table_t *table) {
    const ccl_report_sweep_case_t *c = &about->cases[at];
    const ccl_tune_run_t *run = best_of(c, size);
    char text[40];

    ccl_table_row(table);
    ccl_table_cell(table, "%s", ccl_format_bytes(c->tuning->sizes_bytes[size], text, sizeof(text)));
    ccl_table_cell(table, "%s", c->name);
    ccl_table_cell(table, "%u", c->topo->nranks);
    if (!run) {
        ccl_table_cell(table, "nobody could run");
        return;
    }
    ccl_table_cell(table, "%s", ccl_i_us(run->result.time_s, text, sizeof(text)));
    ccl_table_cell(table, "%s", ccl_i_GBps(run->result.busbw_GBps * 1e9, text, sizeof(text)));
    ccl_table_cell(
        table, "%s",
        ccl_i_gap_text(run->result.time_s, c->tuning->bound_s[size], text, sizeof(text)));
    if (isnan(speedup(about, at, size)))
        ccl_table_cell(table, "-");
    else
        ccl_table_cell(table, "%.2f", speedup(about, at, size));
    ccl_table_cell(table, "%s", c->tuning->points[run->point].settings);
}

ccl_status_t ccl_report_sweep(const ccl_report_sweep_t *about, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err) {
    static const char *const csv_heads[] = {"case",    "nranks",     "size_bytes",
                                            "time_s",  "busbw_GBps", "bound_s",
                                            "speedup", "settings",   NULL};
    static const char *const text_heads[] = {
        "size", "cluster", "GPUs", "time(us)", "busbw(GB/s)", "gap", "speedup", "settings", NULL};
    bool csv = style->format == CCL_REPORT_CSV;
    const char *const *heads = csv ? csv_heads : text_heads;
    uint32_t nsizes = about->cases[0].tuning->nsizes;
    ccl_table_t *table;

    if (style->format == CCL_REPORT_JSON)
        return json(about, out, err);
    table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    for (size_t h = 0; heads[h]; h++)
        ccl_table_column(table, heads[h],
                         csv || h == 1 || !heads[h + 1] ? CCL_ALIGN_LEFT : CCL_ALIGN_RIGHT);
    for (uint32_t s = 0; s < nsizes; s++)
        for (uint32_t i = 0; i < about->ncases; i++)
            (csv ? csv_row : text_row)(about, i, s, table);
    ccl_status_t status = ccl_i_table_emit(table, style->format, out, err);
    ccl_table_destroy(table);
    return status == CCL_OK ? ccl_i_text_status(out, err) : status;
}

ccl_status_t ccl_report_draw_sweep(const ccl_report_sweep_t *about, ccl_picture_t **out,
                                   ccl_error_t *err) {
    uint32_t nsizes = about->cases[0].tuning->nsizes, n = about->ncases;
    ccl_draw_curve_t *curves = calloc(n, sizeof(*curves));
    double *values = calloc((size_t)n * nsizes, sizeof(*values));
    char title[200];
    ccl_status_t status = curves && values ? CCL_OK : ccl_fail_nomem(err);

    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        for (uint32_t s = 0; s < nsizes; s++) {
            const ccl_tune_run_t *run = best_of(&about->cases[i], s);

            values[(size_t)i * nsizes + s] = run ? run->result.busbw_GBps : NAN;
        }
        curves[i] = (ccl_draw_curve_t){about->cases[i].name, values + (size_t)i * nsizes};
    }
    snprintf(title, sizeof(title), "%.60s, tuned: %.80s and others", about->collective,
             about->cases[0].name);
    if (status == CCL_OK) {
        ccl_draw_busbw_t plot = {title,  nsizes, n, about->cases[0].tuning->sizes_bytes,
                                 curves, NULL};
        status = ccl_draw_busbw(&plot, 1, out, err);
    }
    free(curves);
    free(values);
    return status;
}
