/* The calibration of a device as text, JSON and CSV. */
#include "report/writer.h"

#include <string.h>

static const char *constant_text(const ccl_constant_t *c, double value, char *out, size_t len) {
    if (strcmp(c->unit, "s") == 0)
        snprintf(out, len, "%.4g us", value * 1e6);
    else if (strcmp(c->unit, "B/s") == 0)
        snprintf(out, len, "%.4g GB/s", value / 1e9);
    else
        snprintf(out, len, "%.4g", value);
    return out;
}

static ccl_status_t constants_table(const ccl_gpu_calibration_t *made, ccl_report_format_t format,
                                    ccl_text_t *out, ccl_error_t *err) {
    bool csv = format == CCL_REPORT_CSV;
    const char *const heads[2][5] = {{"constant", "value", "from (95 %)", "to", "determined"},
                                     {"constant", "value", "low", "high", "determined"}};
    ccl_table_t *table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    for (int k = 0; k < 5; k++)
        ccl_table_column(table, heads[csv][k], k && k < 4 ? CCL_ALIGN_RIGHT : CCL_ALIGN_LEFT);
    if (csv)
        ccl_table_column(table, "unit", CCL_ALIGN_LEFT);
    for (uint32_t i = 0; i < made->nconstants; i++) {
        const ccl_constant_t *c = &made->constants[i];
        const double values[] = {c->value, c->low, c->high};
        ccl_table_row(table);
        ccl_table_cell(table, "%s", c->name);
        for (size_t k = 0; k < CCL_ARRAY_LEN(values); k++) {
            char text[40];
            ccl_table_cell(table, "%s",
                           csv ? ccl_i_number(values[k], text, sizeof text)
                               : constant_text(c, values[k], text, sizeof text));
        }
        ccl_table_cell(table, "%s", c->determined ? "yes" : "no");
        if (csv)
            ccl_table_cell(table, "%s", c->unit);
    }
    ccl_status_t status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t calibration_json(const ccl_gpu_calibration_t *made, const char *output,
                                     ccl_text_t *out, ccl_error_t *err) {
    ccl_i_json_t json;
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/calibrate-device/1");
    ccl_i_json_string(&json, "output", output);
    ccl_i_json_u64(&json, "programs", made->npoints);
    ccl_i_json_u64(&json, "lanes", made->lanes);
    ccl_i_json_number(&json, "r2", made->r2);
    ccl_i_json_number(&json, "median_error", made->median_error);
    ccl_i_json_number(&json, "worst_error", made->worst_error);
    ccl_i_json_array(&json, "constants", false);
    for (uint32_t i = 0; i < made->nconstants; i++) {
        const ccl_constant_t *c = &made->constants[i];
        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "name", c->name);
        ccl_i_json_string(&json, "unit", c->unit);
        ccl_i_json_number(&json, "value", c->value);
        ccl_i_json_number(&json, "low", c->low);
        ccl_i_json_number(&json, "high", c->high);
        ccl_i_json_bool(&json, "determined", c->determined);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_gpu_calibration(const ccl_gpu_calibration_t *made, const char *output,
                                        const ccl_report_style_t *style, ccl_text_t *out,
                                        ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return calibration_json(made, output, out, err);
    if (style->format == CCL_REPORT_CSV)
        return constants_table(made, style->format, out, err);
    ccl_text_printf(out,
                    "%u programs, up to %u blocks at a time: R2 %.4f of log(time); error median "
                    "%.1f %%, worst %.1f %%\n\n",
                    made->npoints, made->lanes, made->r2, 100 * made->median_error,
                    100 * made->worst_error);
    CCL_TRY(constants_table(made, style->format, out, err));
    ccl_text_printf(out, "\nwritten to %s\n", output);
    return ccl_i_text_status(out, err);
}
