/* Fits and diagnoses as text, JSON and CSV. */
#include "report/writer.h"

#include <string.h>

/* ---------------------------------------------------------------- calibration */

static const ccl_i_constants_t log_constants = {"us", 1e6, "determined"};

static ccl_status_t calibration_json(const ccl_report_calibration_t *about, ccl_text_t *out,
                                     ccl_error_t *err) {
    const ccl_calibration_t *made = about->calibration;
    ccl_i_json_t json;
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/calibrate/1");
    ccl_i_json_string(&json, "input", about->input);
    ccl_i_json_string(&json, "output", about->output);
    ccl_i_json_string(&json, "topology", about->topo->name);
    ccl_i_json_string(&json, "collective", ccl_collective_kind_name(made->run->kind));
    ccl_i_json_u64(&json, "nranks", made->run->nranks);
    ccl_i_json_number(&json, "r2", made->r2);
    ccl_i_json_number(&json, "median_error_before", made->median_before);
    ccl_i_json_number(&json, "median_error", made->median_error);
    ccl_i_json_number(&json, "worst_error", made->worst_error);
    ccl_i_json_constants(&json, made->constants, made->nconstants);
    ccl_i_json_array(&json, "points", false);
    for (uint32_t i = 0; i < made->npoints; i++) {
        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_number(&json, "size_bytes", made->sizes_bytes[i]);
        ccl_i_json_number(&json, "measured_s", made->measured_s[i]);
        ccl_i_json_number(&json, "before_s", made->before_s[i]);
        ccl_i_json_number(&json, "fitted_s", made->fitted_s[i]);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_calibration(const ccl_report_calibration_t *about,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err) {
    const ccl_calibration_t *made = about->calibration;
    if (style->format == CCL_REPORT_JSON)
        return calibration_json(about, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_constants_emit(&log_constants, made->constants, made->nconstants,
                                    style->format, out, err);
    ccl_text_printf(out, "%s on %u ranks, %u sizes: R2 %.4f of log(time)\n",
                    ccl_collective_kind_name(made->run->kind), made->run->nranks, made->npoints,
                    made->r2);
    ccl_text_printf(out, "error before: median %.1f %%; after: median %.1f %%, worst %.1f %%\n\n",
                    100 * made->median_before, 100 * made->median_error, 100 * made->worst_error);
    CCL_TRY(ccl_i_constants_emit(&log_constants, made->constants, made->nconstants, style->format,
                                 out, err));
    ccl_text_printf(out, "\nwritten to %s\n", about->output);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- diagnosis */

static ccl_status_t points_table(const ccl_report_diagnosis_t *about, uint32_t first, uint32_t last,
                                 ccl_report_format_t format, ccl_text_t *out, ccl_error_t *err) {
    bool csv = format == CCL_REPORT_CSV;
    ccl_table_t *table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    if (csv) {
        ccl_table_column(table, "collective", CCL_ALIGN_LEFT);
        ccl_table_column(table, "nranks", CCL_ALIGN_RIGHT);
    }
    ccl_table_column(table, csv ? "size_bytes" : "size", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "measured(us)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "expected(us)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "busbw(GB/s)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "expected(GB/s)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "ratio", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "nccl", CCL_ALIGN_LEFT);
    ccl_table_column(table, "limit", CCL_ALIGN_LEFT);
    ccl_table_column(table, "verdict", CCL_ALIGN_LEFT);
    for (uint32_t r = first; r < last; r++) {
        const ccl_diagnosis_run_t *run = about->diagnoses[r];
        for (uint32_t i = 0; i < run->npoints; i++) {
            const ccl_diagnosis_t *d = &run->points[i];
            char a[40], b[40];
            ccl_table_row(table);
            if (csv) {
                ccl_table_cell(table, "%s", ccl_collective_kind_name(run->run->kind));
                ccl_table_cell(table, "%u", run->run->nranks);
                ccl_table_cell(table, "%s", ccl_i_number(d->size_bytes, a, sizeof a));
            } else {
                ccl_table_cell(table, "%s", ccl_format_bytes(d->size_bytes, a, sizeof a));
            }
            ccl_table_cell(table, "%s", ccl_i_us(d->measured_s, a, sizeof a));
            ccl_table_cell(table, "%s", ccl_i_us(d->expected.time_s, b, sizeof b));
            ccl_table_cell(table, "%.2f", d->measured_busbw_GBps);
            ccl_table_cell(table, "%.2f", d->expected.busbw_GBps);
            ccl_table_cell(table, "%.2f", d->ratio);
            ccl_table_cell(table, "%s %s x%u", ccl_nccl_algo_name(d->expected.choice.algo),
                           ccl_nccl_proto_name(d->expected.choice.proto),
                           d->expected.choice.channels);
            if (d->limit == CCL_LIMIT_LINK)
                ccl_table_cell(table, "%s", d->expected.link_kind);
            else
                ccl_table_cell(table, "%s", ccl_limit_name(d->limit));
            ccl_table_cell(table, "%s", d->verdict);
        }
    }
    ccl_status_t status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

static void point_json(ccl_i_json_t *json, const ccl_diagnosis_t *d) {
    ccl_i_json_object(json, NULL, true);
    ccl_i_json_number(json, "size_bytes", d->size_bytes);
    ccl_i_json_number(json, "measured_s", d->measured_s);
    ccl_i_json_number(json, "measured_busbw_GBps", d->measured_busbw_GBps);
    ccl_i_json_number(json, "expected_s", d->expected.time_s);
    ccl_i_json_number(json, "expected_busbw_GBps", d->expected.busbw_GBps);
    ccl_i_json_number(json, "ratio", d->ratio);
    ccl_i_json_string(json, "algo", ccl_nccl_algo_name(d->expected.choice.algo));
    ccl_i_json_string(json, "proto", ccl_nccl_proto_name(d->expected.choice.proto));
    ccl_i_json_u64(json, "channels", d->expected.choice.channels);
    ccl_i_json_number(json, "best_s", d->best.time_s);
    ccl_i_json_string(json, "best_algo", ccl_nccl_algo_name(d->best.choice.algo));
    ccl_i_json_string(json, "best_proto", ccl_nccl_proto_name(d->best.choice.proto));
    ccl_i_json_string(json, "limit", ccl_limit_name(d->limit));
    ccl_i_json_string(json, "link_kind", d->expected.link_kind);
    ccl_i_json_number(json, "link_use", d->expected.link_use);
    ccl_i_json_bool(json, "normal", d->normal);
    ccl_i_json_string(json, "verdict", d->verdict);
    ccl_i_json_close_object(json);
}

static ccl_status_t diagnosis_json(const ccl_report_diagnosis_t *about, ccl_text_t *out,
                                   ccl_error_t *err) {
    ccl_i_json_t json;
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/diagnose/1");
    ccl_i_json_string(&json, "input", about->input);
    ccl_i_json_string(&json, "topology", about->topo->name);
    ccl_i_json_string(&json, "profile", about->profile ? ccl_profile_name(about->profile) : NULL);
    ccl_i_json_array(&json, "runs", false);
    for (uint32_t r = 0; r < about->ndiagnoses; r++) {
        const ccl_diagnosis_run_t *run = about->diagnoses[r];
        ccl_i_json_object(&json, NULL, false);
        ccl_i_json_string(&json, "collective", ccl_collective_kind_name(run->run->kind));
        ccl_i_json_u64(&json, "nranks", run->run->nranks);
        ccl_i_json_string(&json, "gpu", run->run->gpu);
        ccl_i_json_string(&json, "type", run->run->type);
        ccl_i_json_string(&json, "label", run->run->label);
        ccl_i_json_u64(&json, "line", run->run->line);
        ccl_i_json_bool(&json, "in_place", run->in_place);
        ccl_i_json_array(&json, "sizes", false);
        for (uint32_t i = 0; i < run->npoints; i++)
            point_json(&json, &run->points[i]);
        ccl_i_json_close_array(&json);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_diagnosis(const ccl_report_diagnosis_t *about,
                                  const ccl_report_style_t *style, ccl_text_t *out,
                                  ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return diagnosis_json(about, out, err);
    if (style->format == CCL_REPORT_CSV)
        return points_table(about, 0, about->ndiagnoses, style->format, out, err);
    ccl_text_printf(out, "%s with %s%s\n", about->topo->name,
                    about->profile ? "profile " : "the constants of its description",
                    about->profile ? ccl_profile_name(about->profile) : "");
    for (uint32_t r = 0; r < about->ndiagnoses; r++) {
        const ccl_diagnosis_run_t *run = about->diagnoses[r];
        ccl_text_printf(out, "\n%s on %u ranks", ccl_collective_kind_name(run->run->kind),
                        run->run->nranks);
        if (run->run->type[0])
            ccl_text_printf(out, ", %s", run->run->type);
        if (run->run->gpu[0])
            ccl_text_printf(out, ", %s", run->run->gpu);
        if (run->run->label[0])
            ccl_text_printf(out, ", %s", run->run->label);
        ccl_text_printf(out, ", %s\n", run->in_place ? "in place" : "out of place");
        CCL_TRY(points_table(about, r, r + 1, style->format, out, err));
    }
    return ccl_i_text_status(out, err);
}
