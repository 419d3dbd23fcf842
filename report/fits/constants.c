/* The constants of a calibration: one table and one JSON array for logs, the host and devices. */
#include "report/fits/constants.h"

#include <string.h>

typedef struct constant_row {
    const char *name, *unit;
    double value, low, high, prior;
    bool determined, at_bound;
    const char *determined_text;
    char value_text[40], low_text[40], high_text[40], prior_text[40];
} constant_row_t;

uint64_t ccl_i_count_constants(const void *row) {
    const ccl_i_constants_t *of = row;

    return of->n;
}

static void value_text(const ccl_i_constants_t *of, const char *unit, double value, char *out,
                       size_t out_len) {
    if (strcmp(unit, "s") == 0)
        snprintf(out, out_len, "%.*g %s", of->digits, value * of->per_s, of->time_unit);
    else if (strcmp(unit, "B/s") == 0)
        snprintf(out, out_len, "%.*g GB/s", of->digits, value / 1e9);
    else
        snprintf(out, out_len, "%.*g", of->digits, value);
}

const void *ccl_i_constant_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_constants_t *of = row;
    const ccl_constant_t *c = &of->list[i];
    constant_row_t *out = scratch;

    *out = (constant_row_t){.name = c->name,
                            .unit = c->unit,
                            .value = c->value,
                            .low = c->low,
                            .high = c->high,
                            .prior = c->prior,
                            .determined = c->determined,
                            .at_bound = c->at_bound,
                            .determined_text = c->at_bound     ? "no, at bound"
                                               : c->determined ? "yes"
                                                               : "no"};
    value_text(of, c->unit, c->value, out->value_text, sizeof(out->value_text));
    value_text(of, c->unit, c->low, out->low_text, sizeof(out->low_text));
    value_text(of, c->unit, c->high, out->high_text, sizeof(out->high_text));
    value_text(of, c->unit, c->prior, out->prior_text, sizeof(out->prior_text));
    return out;
}

#define AT(member) CCL_I_AT(constant_row_t, member)
#define NAMES                                                                                      \
    {"name", AT(name), "where it stands in a profile"}, {                                          \
        "unit", AT(unit)                                                                           \
    }
#define INTERVAL                                                                                   \
    {"value", AT(value)}, {"low", AT(low), "95 % confidence", .null = "no interval"}, {            \
        "high", AT(high), .null = "no interval"                                                    \
    }
#define DETERMINED                                                                                 \
    { "determined", AT(determined), "the runs determine it" }
#define TEXTS                                                                                      \
    {"determined_text", AT(determined_text), .hidden = true},                                      \
        {"value_text", AT(value_text), .hidden = true},                                            \
        {"low_text", AT(low_text), .hidden = true}, {"high_text", AT(high_text), .hidden = true},  \
    {                                                                                              \
        "prior_text", AT(prior_text), .hidden = true                                               \
    }
const ccl_i_described_t ccl_i_constant_record = {
    .size = sizeof(constant_row_t),
    .fields = (const ccl_i_field_t[]){
        NAMES,
        INTERVAL,
        {"prior", AT(prior), "before the fit", .null = "there is none"},
        DETERMINED,
        {"at_bound", AT(at_bound), "the runs would have it beyond what physics allows"},
        TEXTS,
        {0}}};
const ccl_i_described_t ccl_i_gpu_constant_record = {
    .size = sizeof(constant_row_t),
    .fields = (const ccl_i_field_t[]){NAMES, INTERVAL, DETERMINED, TEXTS, {0}}};
const ccl_i_described_t ccl_i_replay_constant_record = {
    .size = sizeof(constant_row_t), .fields = (const ccl_i_field_t[]){NAMES, INTERVAL, {0}}};

#define SHOWN_VALUES(low, high)                                                                    \
    CCL_I_COLUMN("value_text", "value", .right = true),                                            \
        CCL_I_COLUMN("low_text", low, .right = true),                                              \
        CCL_I_COLUMN("high_text", high, .right = true)

ccl_status_t ccl_i_constants_emit(const ccl_i_described_t *record, const void *row,
                                  const ccl_i_constants_t *of, ccl_report_format_t format,
                                  ccl_text_t *out, ccl_error_t *err) {
    static const ccl_i_column_t csv[] = {CCL_I_COLUMN("name", "constant"),
                                         CCL_I_COLUMN("unit"),
                                         CCL_I_COLUMN("value"),
                                         CCL_I_COLUMN("low"),
                                         CCL_I_COLUMN("high"),
                                         CCL_I_COLUMN("prior"),
                                         CCL_I_COLUMN("determined_text", "determined"),
                                         CCL_I_COLUMNS_END};
    static const ccl_i_column_t csv_no_prior[] = {CCL_I_COLUMN("name", "constant"),
                                                  CCL_I_COLUMN("value"),
                                                  CCL_I_COLUMN("low"),
                                                  CCL_I_COLUMN("high"),
                                                  CCL_I_COLUMN("determined_text", "determined"),
                                                  CCL_I_COLUMN("unit"),
                                                  CCL_I_COLUMNS_END};
    const ccl_i_column_t determined = CCL_I_COLUMN("determined_text", of->says, .left = true);
    const ccl_i_column_t text[] = {
        CCL_I_COLUMN("name", "constant"), SHOWN_VALUES("from (95 %)", "to"),
        CCL_I_COLUMN("prior_text", "before", .right = true), determined, CCL_I_COLUMNS_END};
    const ccl_i_column_t text_no_prior[] = {CCL_I_COLUMN("name", "constant"),
                                            SHOWN_VALUES("from (95 %)", "to"), determined,
                                            CCL_I_COLUMNS_END};
    const ccl_i_column_t *columns = of->priors ? text : text_no_prior;

    if (format == CCL_REPORT_CSV)
        columns = of->priors ? csv : csv_no_prior;
    return ccl_i_rows_emit(record, "constants", row, columns, format, out, err);
}
