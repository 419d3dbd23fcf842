/* What a replay of tuned points found: times, ranks before and after the fit, constants. */
#include "report/writer.h"

#include <math.h>

static const ccl_tune_run_t *run_of(const ccl_tuning_t *t, const ccl_replayed_t *p) {
    return &t->runs[p->run];
}

static double or_nan(const ccl_replayed_t *p, double value) {
    return p->status == CCL_OK ? value : NAN;
}

/* ---------------------------------------------------------------- all points, ranked again */

/** Of the size of the point at `first`: how many, and how many of them changed rank. */
static uint32_t of_size(const ccl_tuning_t *t, const ccl_replay_t *r, uint32_t first,
                        uint32_t *moved_out) {
    uint32_t n = 0, size = t->runs[r->ranked[first].run].size;

    *moved_out = 0;
    for (; first + n < r->nranked && t->runs[r->ranked[first + n].run].size == size; n++)
        *moved_out += r->ranked[first + n].tuned_rank != r->ranked[first + n].fitted_rank;
    return n;
}

static double measured(const ccl_replay_t *r, const ccl_reranked_t *p) {
    return p->replayed == CCL_NONE ? NAN : r->points[p->replayed].measured_s;
}

static const char *settings(const ccl_tuning_t *t, const ccl_reranked_t *p) {
    return t->points[t->runs[p->run].point].settings;
}

static void json_ranked(ccl_i_json_t *json, const char *key, const ccl_tuning_t *t,
                        const ccl_replay_t *r, const ccl_reranked_t *p) {
    ccl_i_json_object(json, key, true);
    ccl_i_json_number(json, "size_bytes", t->sizes_bytes[t->runs[p->run].size]);
    ccl_i_json_number(json, "tuned_s", p->tuned_s);
    ccl_i_json_number(json, "fitted_s", p->fitted_s);
    ccl_i_json_number(json, "measured_s", measured(r, p));
    ccl_i_json_u64(json, "tuned_rank", p->tuned_rank);
    ccl_i_json_u64(json, "fitted_rank", p->fitted_rank);
    ccl_i_json_string(json, "settings", settings(t, p));
    ccl_i_json_close_object(json);
}

static void json_ranks(ccl_i_json_t *json, const ccl_tuning_t *t, const ccl_replay_t *r) {
    uint32_t n, moved;

    ccl_i_json_u64(json, "unranked", r->nunranked);
    ccl_i_json_array(json, "sizes", false);
    for (uint32_t i = 0; i < r->nranked; i += n) {
        n = of_size(t, r, i, &moved);
        ccl_i_json_object(json, NULL, false);
        ccl_i_json_number(json, "size_bytes", t->sizes_bytes[t->runs[r->ranked[i].run].size]);
        ccl_i_json_u64(json, "points", n);
        ccl_i_json_u64(json, "moved", moved);
        json_ranked(json, "best", t, r, &r->ranked[i]);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "ranks", false);
    for (uint32_t i = 0; i < r->nranked; i++)
        json_ranked(json, NULL, t, r, &r->ranked[i]);
    ccl_i_json_close_array(json);
}

static void csv_ranks(const ccl_tuning_t *t, const ccl_replay_t *r, ccl_table_t *table) {
    char text[40];

    for (uint32_t i = 0; i < r->nranked; i++) {
        const ccl_reranked_t *p = &r->ranked[i];
        const double values[] = {t->sizes_bytes[t->runs[p->run].size], p->tuned_s, p->fitted_s,
                                 measured(r, p)};

        ccl_table_row(table);
        for (size_t c = 0; c < CCL_ARRAY_LEN(values); c++)
            ccl_table_cell(table, "%s", ccl_i_number(values[c], text, sizeof(text)));
        ccl_table_cell(table, "%u", p->tuned_rank);
        ccl_table_cell(table, "%u", p->fitted_rank);
        ccl_table_cell(table, "%s", settings(t, p));
    }
}

/** One row per size: what is best now. */
static void text_ranks(const ccl_tuning_t *t, const ccl_replay_t *r, ccl_table_t *table) {
    uint32_t n, moved;
    char text[40];

    for (uint32_t i = 0; i < r->nranked; i += n) {
        const ccl_reranked_t *p = &r->ranked[i];

        n = of_size(t, r, i, &moved);
        ccl_table_row(table);
        ccl_table_cell(table, "%s",
                       ccl_format_bytes(t->sizes_bytes[t->runs[p->run].size], text, sizeof(text)));
        ccl_table_cell(table, "%u", n);
        ccl_table_cell(table, "%u", moved);
        ccl_table_cell(table, "%u", p->tuned_rank);
        ccl_table_cell(table, "%s", ccl_i_us(p->fitted_s, text, sizeof(text)));
        ccl_table_cell(table, "%s",
                       p->replayed == CCL_NONE ? "not run"
                                               : ccl_i_us(measured(r, p), text, sizeof(text)));
        ccl_table_cell(table, "%s", settings(t, p));
    }
}

static void columns_of(const char *const *columns, ccl_report_format_t format, ccl_table_t *table) {
    for (uint32_t c = 0; columns[c]; c++)
        ccl_table_column(table, columns[c],
                         columns[c + 1] && format != CCL_REPORT_CSV ? CCL_ALIGN_RIGHT
                                                                    : CCL_ALIGN_LEFT);
}

ccl_status_t ccl_i_ranks_table(const ccl_tuning_t *t, const ccl_replay_t *r,
                               ccl_report_format_t format, ccl_table_t *table, ccl_error_t *err) {
    static const char *const csv[] = {"size_bytes", "tuned_s",     "fitted_s", "measured_s",
                                      "tuned_rank", "fitted_rank", "settings", NULL};
    static const char *const heads[] = {"size",       "points",       "moved",    "rank as tuned",
                                        "fitted(us)", "measured(us)", "best now", NULL};

    if (!r)
        return ccl_fail(err, CCL_ERR_USAGE, "there are no new ranks without --replay");
    columns_of(format == CCL_REPORT_CSV ? csv : heads, format, table);
    if (format == CCL_REPORT_CSV)
        csv_ranks(t, r, table);
    else
        text_ranks(t, r, table);
    return CCL_OK;
}

void ccl_i_ranks_head(const ccl_replay_t *r, ccl_text_t *out) {
    ccl_text_printf(out, "\nall points ranked again with these constants");
    if (r->nunranked)
        ccl_text_printf(out, " but %u, the slowest as tuned: the budget is spent", r->nunranked);
    ccl_text_printf(out, "\n");
}

/* ---------------------------------------------------------------- those that ran */

void ccl_i_replay_json(ccl_i_json_t *json, const char *device, const ccl_tuning_t *t,
                       const ccl_replay_t *r) {
    ccl_i_json_object(json, "replay", false);
    ccl_i_json_string(json, "device", device);
    ccl_i_json_number(json, "error_tuned", r->error_tuned);
    ccl_i_json_number(json, "error_fitted", r->error_fitted);
    ccl_i_json_number(json, "tau_tuned", r->tau_tuned);
    ccl_i_json_number(json, "tau_fitted", r->tau_fitted);
    ccl_i_json_array(json, "points", false);
    for (uint32_t i = 0; i < r->npoints; i++) {
        const ccl_replayed_t *p = &r->points[i];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_number(json, "size_bytes", t->sizes_bytes[run_of(t, p)->size]);
        ccl_i_json_number(json, "tuned_s", p->tuned_s);
        ccl_i_json_number(json, "fitted_s", or_nan(p, p->fitted_s));
        ccl_i_json_number(json, "measured_s", or_nan(p, p->measured_s));
        ccl_i_json_u64(json, "tuned_rank", p->tuned_rank);
        ccl_i_json_u64(json, "fitted_rank", p->fitted_rank);
        ccl_i_json_u64(json, "measured_rank", p->measured_rank);
        ccl_i_json_string(json, "status", ccl_status_name(p->status));
        ccl_i_json_string(json, "why", p->why);
        ccl_i_json_string(json, "settings", t->points[run_of(t, p)->point].settings);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_array(json, "constants", false);
    for (uint32_t i = 0; i < r->nconstants; i++) {
        const ccl_constant_t *c = &r->constants[i];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "name", c->name);
        ccl_i_json_string(json, "unit", c->unit);
        ccl_i_json_number(json, "value", c->value);
        ccl_i_json_number(json, "low", c->low);
        ccl_i_json_number(json, "high", c->high);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
    ccl_i_json_string(json, "profile", r->profile);
    json_ranks(json, t, r);
    ccl_i_json_close_object(json);
}

static void csv_row(const ccl_tuning_t *t, const ccl_replayed_t *p, ccl_table_t *table) {
    const double values[] = {t->sizes_bytes[run_of(t, p)->size], p->tuned_s, or_nan(p, p->fitted_s),
                             or_nan(p, p->measured_s)};
    char text[40];

    for (size_t c = 0; c < CCL_ARRAY_LEN(values); c++)
        ccl_table_cell(table, "%s", ccl_i_number(values[c], text, sizeof(text)));
    ccl_table_cell(table, "%u", p->tuned_rank);
    ccl_table_cell(table, "%u", p->fitted_rank);
    ccl_table_cell(table, "%u", p->measured_rank);
    ccl_table_cell(table, "%s", ccl_status_name(p->status));
}

static void text_row(const ccl_tuning_t *t, const ccl_replayed_t *p, ccl_table_t *table) {
    char text[40];

    ccl_table_cell(table, "%s",
                   ccl_format_bytes(t->sizes_bytes[run_of(t, p)->size], text, sizeof(text)));
    ccl_table_cell(table, "%s", ccl_i_us(p->tuned_s, text, sizeof(text)));
    if (p->status != CCL_OK) {
        for (int c = 0; c < 3; c++)
            ccl_table_cell(table, "-");
        ccl_table_cell(table, "%s", p->why);
        return;
    }
    ccl_table_cell(table, "%s", ccl_i_us(p->fitted_s, text, sizeof(text)));
    ccl_table_cell(table, "%s", ccl_i_us(p->measured_s, text, sizeof(text)));
    ccl_table_cell(table, "%u > %u, %u", p->tuned_rank, p->fitted_rank, p->measured_rank);
}

ccl_status_t ccl_i_replay_table(const ccl_tuning_t *t, const ccl_replay_t *r,
                                ccl_report_format_t format, ccl_table_t *table, ccl_error_t *err) {
    static const char *const csv[] = {"size_bytes", "tuned_s",     "fitted_s",      "measured_s",
                                      "tuned_rank", "fitted_rank", "measured_rank", "status",
                                      "settings",   NULL};
    static const char *const heads[] = {
        "size",     "tuned(us)", "fitted(us)", "measured(us)", "rank > fitted, measured",
        "settings", NULL};

    if (!r)
        return ccl_fail(err, CCL_ERR_USAGE, "there is no table of a replay without --replay");
    columns_of(format == CCL_REPORT_CSV ? csv : heads, format, table);
    for (uint32_t i = 0; i < r->npoints; i++) {
        const ccl_replayed_t *p = &r->points[i];

        ccl_table_row(table);
        if (format == CCL_REPORT_CSV)
            csv_row(t, p, table);
        else
            text_row(t, p, table);
        if (format == CCL_REPORT_CSV || p->status == CCL_OK)
            ccl_table_cell(table, "%s", t->points[run_of(t, p)->point].settings);
    }
    return CCL_OK;
}

void ccl_i_replay_head(const char *device, const ccl_replay_t *r, ccl_text_t *out) {
    ccl_text_printf(out,
                    "\nreplay on %s: %u of %u points ran; median error %.1f%% as tuned, %.1f%% "
                    "fitted",
                    device, r->nran, r->npoints, 100 * r->error_tuned, 100 * r->error_fitted);
    if (!isnan(r->tau_tuned))
        ccl_text_printf(out, "; Kendall's tau %.2f, %.2f", r->tau_tuned, r->tau_fitted);
    ccl_text_printf(out, "\n");
}

void ccl_i_replay_constants(const ccl_replay_t *r, ccl_text_t *out) {
    for (uint32_t i = 0; i < r->nconstants; i++) {
        const ccl_constant_t *c = &r->constants[i];

        ccl_text_printf(out, "%s%s %.3g%s (%.3g to %.3g)", i ? ", " : "fitted: ", c->name, c->value,
                        c->unit[0] == 's' ? " s" : "", c->low, c->high);
    }
    ccl_text_printf(out, "\n");
}
