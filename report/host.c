/* The host's calibration and validation as text, JSON and CSV. */
#include "report/writer.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- calibration */

static const ccl_i_constants_t host_constants = {"ns", 1e9, "determined"};

static ccl_status_t calibration_json(const ccl_host_calibration_t *made, const char *output,
                                     ccl_text_t *out, ccl_error_t *err) {
    ccl_i_json_t json;
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/calibrate-host/1");
    ccl_i_json_string(&json, "output", output);
    ccl_i_json_u64(&json, "workers", made->model.workers);
    ccl_i_json_u64(&json, "runs", made->npoints);
    ccl_i_json_number(&json, "r2", made->r2);
    ccl_i_json_number(&json, "median_error", made->median_error);
    ccl_i_json_number(&json, "worst_error", made->worst_error);
    ccl_i_json_constants(&json, made->constants, made->nconstants);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_host_calibration(const ccl_host_calibration_t *made, const char *output,
                                         const ccl_report_style_t *style, ccl_text_t *out,
                                         ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return calibration_json(made, output, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_constants_emit(&host_constants, made->constants, made->nconstants,
                                    style->format, out, err);
    ccl_text_printf(out,
                    "%u workers, %u runs: R2 %.4f of log(time); error median %.1f %%, worst "
                    "%.1f %%\n\n",
                    made->model.workers, made->npoints, made->r2, 100 * made->median_error,
                    100 * made->worst_error);
    CCL_TRY(ccl_i_constants_emit(&host_constants, made->constants, made->nconstants, style->format,
                                 out, err));
    ccl_text_printf(out, "\nwritten to %s\n", output);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- validation */

static ccl_status_t runs_table(const ccl_report_validation_t *about, ccl_report_format_t format,
                               ccl_text_t *out, ccl_error_t *err) {
    bool csv = format == CCL_REPORT_CSV;
    static const char *const heads[2][5] = {
        {"size", "predicted(us)", "least(us)", "median(us)", "spread(%)"},
        {"size_bytes", "predicted_s", "min_s", "median_s", "spread"}};
    ccl_table_t *table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "collective", CCL_ALIGN_LEFT);
    ccl_table_column(table, "schedule", CCL_ALIGN_LEFT);
    ccl_table_column(table, csv ? "nranks" : "ranks", CCL_ALIGN_RIGHT);
    for (int k = 0; k < 5; k++)
        ccl_table_column(table, heads[csv][k], CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "error" : "error(%)", CCL_ALIGN_RIGHT);
    for (uint32_t i = 0; i < about->validation->npoints; i++) {
        const ccl_validate_point_t *p = &about->validation->points[i];
        const ccl_validate_case_t *c = &about->cases[p->at];
        char a[40], b[40], d[40], e[40];
        ccl_table_row(table);
        ccl_table_cell(table, "%s", c->collective);
        ccl_table_cell(table, "%s", c->schedule);
        ccl_table_cell(table, "%u", c->program->nranks);
        if (csv) {
            ccl_table_cell(table, "%s", ccl_i_number(p->size_bytes, a, sizeof a));
            ccl_table_cell(table, "%s", ccl_i_number(p->predicted_s, a, sizeof a));
            ccl_table_cell(table, "%s", ccl_i_number(p->min_s, b, sizeof b));
            ccl_table_cell(table, "%s", ccl_i_number(p->median_s, d, sizeof d));
            ccl_table_cell(table, "%s", ccl_i_number(p->spread, e, sizeof e));
            ccl_table_cell(table, "%s", ccl_i_number(p->error, a, sizeof a));
        } else {
            ccl_table_cell(table, "%s", ccl_format_bytes(p->size_bytes, a, sizeof a));
            ccl_table_cell(table, "%s", ccl_i_us(p->predicted_s, a, sizeof a));
            ccl_table_cell(table, "%s", ccl_i_us(p->min_s, b, sizeof b));
            ccl_table_cell(table, "%s", ccl_i_us(p->median_s, d, sizeof d));
            ccl_table_cell(table, "%.0f", 100 * p->spread);
            ccl_table_cell(table, "%+.1f", 100 * p->error);
        }
    }
    ccl_status_t status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t validation_json(const ccl_report_validation_t *about, ccl_text_t *out,
                                    ccl_error_t *err) {
    const ccl_validation_t *v = about->validation;
    ccl_i_json_t json;
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/validate/1");
    ccl_i_json_string(&json, "device", about->device ? about->device : "host");
    ccl_i_json_string(&json, "profile", about->profile);
    ccl_i_json_string(&json, "suite", about->suite);
    ccl_i_json_string(&json, "type", ccl_type_name(about->run->type));
    ccl_i_json_u64(&json, "repeats", v->repeats);
    ccl_i_json_number(&json, "median_error", v->median_error);
    ccl_i_json_number(&json, "p90_error", v->p90_error);
    ccl_i_json_number(&json, "worst_error", v->worst_error);
    ccl_i_json_number(&json, "median_error_of_medians", v->median_error_median);
    ccl_i_json_number(&json, "tau", v->tau);
    ccl_i_json_u64(&json, "pairs", v->npairs);
    ccl_i_json_u64(&json, "ranked_right", v->nranked);
    ccl_i_json_array(&json, "runs", false);
    for (uint32_t i = 0; i < v->npoints; i++) {
        const ccl_validate_point_t *p = &v->points[i];
        const ccl_validate_case_t *c = &about->cases[p->at];
        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "collective", c->collective);
        ccl_i_json_string(&json, "schedule", c->schedule);
        ccl_i_json_u64(&json, "nranks", c->program->nranks);
        ccl_i_json_number(&json, "size_bytes", p->size_bytes);
        ccl_i_json_number(&json, "predicted_s", p->predicted_s);
        ccl_i_json_number(&json, "min_s", p->min_s);
        ccl_i_json_number(&json, "median_s", p->median_s);
        ccl_i_json_number(&json, "spread", p->spread);
        ccl_i_json_number(&json, "error", p->error);
        ccl_i_json_number(&json, "error_of_median", p->error_median);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_validation(const ccl_report_validation_t *about,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err) {
    const ccl_validation_t *v = about->validation;
    if (style->format == CCL_REPORT_JSON)
        return validation_json(about, out, err);
    CCL_TRY(runs_table(about, style->format, out, err));
    if (style->format == CCL_REPORT_CSV)
        return CCL_OK;
    ccl_text_printf(out,
                    "\n%u runs, %u repeats, error against the least time: median %.1f %%, 90th "
                    "percentile %.1f %%, worst %.1f %%\n",
                    v->npoints, v->repeats, 100 * v->median_error, 100 * v->p90_error,
                    100 * v->worst_error);
    ccl_text_printf(out, "against the median time: median %.1f %%\n", 100 * v->median_error_median);
    ccl_text_printf(out, "ranking of schedules: Kendall's tau %.2f; ", v->tau);
    if (v->npairs)
        ccl_text_printf(out, "%u of %u pairs that differ by more than 10 %% right (%.0f %%)\n",
                        v->nranked, v->npairs, 100.0 * v->nranked / v->npairs);
    else
        ccl_text_printf(out, "no pair differs by more than 10 %%\n");
    return ccl_i_text_status(out, err);
}
