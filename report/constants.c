/* The constants of a calibration: one table and one JSON array for logs and for the host. */
#include "report/writer.h"

#include <string.h>

static void value_text(const ccl_i_constants_t *how, const char *unit, double value, char *out,
                       size_t out_len) {
    if (strcmp(unit, "s") == 0)
        snprintf(out, out_len, "%.3g %s", value * how->per_s, how->time_unit);
    else if (strcmp(unit, "B/s") == 0)
        snprintf(out, out_len, "%.3g GB/s", value / 1e9);
    else
        snprintf(out, out_len, "%.3g", value);
}

ccl_status_t ccl_i_constants_emit(const ccl_i_constants_t *how, const ccl_constant_t *list,
                                  uint32_t n, ccl_report_format_t format, ccl_text_t *out,
                                  ccl_error_t *err) {
    bool csv = format == CCL_REPORT_CSV;
    ccl_table_t *table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "constant", CCL_ALIGN_LEFT);
    if (csv)
        ccl_table_column(table, "unit", CCL_ALIGN_LEFT);
    ccl_table_column(table, "value", CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "low" : "from (95 %)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "high" : "to", CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "prior" : "before", CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "determined" : how->told, CCL_ALIGN_LEFT);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_constant_t *c = &list[i];
        const double values[] = {c->value, c->low, c->high, c->prior};
        ccl_table_row(table);
        ccl_table_cell(table, "%s", c->name);
        if (csv)
            ccl_table_cell(table, "%s", c->unit);
        for (size_t k = 0; k < CCL_ARRAY_LEN(values); k++) {
            char text[40];
            if (csv)
                ccl_i_number(values[k], text, sizeof text);
            else
                value_text(how, c->unit, values[k], text, sizeof text);
            ccl_table_cell(table, "%s", text);
        }
        ccl_table_cell(table, "%s", c->determined ? "yes" : "no");
    }
    ccl_status_t status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

void ccl_i_json_constants(ccl_i_json_t *json, const ccl_constant_t *list, uint32_t n) {
    ccl_i_json_array(json, "constants", false);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_constant_t *c = &list[i];
        ccl_i_json_object(json, NULL, true);
        ccl_i_json_string(json, "name", c->name);
        ccl_i_json_string(json, "unit", c->unit);
        ccl_i_json_number(json, "value", c->value);
        ccl_i_json_number(json, "low", c->low);
        ccl_i_json_number(json, "high", c->high);
        ccl_i_json_number(json, "prior", c->prior);
        ccl_i_json_bool(json, "determined", c->determined);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}
