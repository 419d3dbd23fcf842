/* The host's calibration and validation as text, JSON and CSV. */
#include "report/fits/constants.h"

/* ---------------------------------------------------------------- calibration */

typedef struct fit {
    ccl_i_constants_t constants;
    const char *output;
    uint32_t workers, runs;
    double r2, median_error, worst_error;
} fit_t;

#define AT(member) CCL_I_AT(fit_t, member)
const ccl_i_result_t ccl_i_result_calibrate_host = {
    "calibrate-host", "ccllab calibrate --device host", "constants fitted to runs on the host",
    &(const ccl_i_described_t){.fields = (const ccl_i_field_t[]){
                                   {"output", AT(output), "file of the constants"},
                                   {"workers", AT(workers), "threads that ran blocks"},
                                   {"runs", AT(runs), "that were fitted to"},
                                   {"r2", AT(r2), "of log(time)"},
                                   {"median_error", AT(median_error), "of |fitted / measured - 1|"},
                                   {"worst_error", AT(worst_error)},
                                   CCL_I_CONSTANTS(fit_t, ccl_i_constant_record),
                                   {0}}}};
#undef AT

ccl_status_t ccl_report_host_calibration(const ccl_host_calibration_t *made, const char *output,
                                         const ccl_report_style_t *style, ccl_text_t *out,
                                         ccl_error_t *err) {
    const fit_t root = {{made->constants, made->nconstants, true, "ns", 1e9, 3, "determined"},
                        output,
                        made->model.workers,
                        made->npoints,
                        made->r2,
                        made->median_error,
                        made->worst_error};
    const ccl_i_described_t *record = ccl_i_result_calibrate_host.root;

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_calibrate_host, &root, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_constants_emit(record, &root, &root.constants, style->format, out, err);
    ccl_text_printf(out,
                    "%u workers, %u runs: R2 %.4f of log(time); error median %.1f %%, worst "
                    "%.1f %%\n\n",
                    made->model.workers, made->npoints, made->r2, 100 * made->median_error,
                    100 * made->worst_error);
    CCL_TRY(ccl_i_constants_emit(record, &root, &root.constants, style->format, out, err));
    ccl_text_printf(out, "\nwritten to %s\n", output);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- validation */

typedef struct run_row {
    const char *collective, *schedule;
    uint32_t nranks;
    double size_bytes, predicted_s, min_s, median_s, spread, error, error_of_median;
} run_row_t;

typedef struct validated {
    const ccl_report_validation_t *of;
    const char *device, *profile, *suite, *type;
    uint32_t repeats, all_pairs, pairs, ranked_right;
    double median_error, p90_error, worst_error, median_error_of_medians, tau;
} validated_t;

static uint64_t count_runs(const void *root) {
    const validated_t *v = root;

    return v->of->validation->npoints;
}

static const void *run_at(const void *root, uint64_t i, void *scratch) {
    const validated_t *v = root;
    const ccl_validate_point_t *p = &v->of->validation->points[i];
    const ccl_validate_case_t *c = &v->of->cases[p->at];
    run_row_t *out = scratch;

    *out =
        (run_row_t){c->collective, c->schedule, c->program->nranks, p->size_bytes, p->predicted_s,
                    p->min_s,      p->median_s, p->spread,          p->error,      p->error_median};
    return out;
}

#define AT(member) CCL_I_AT(run_row_t, member)
static const ccl_i_described_t run_record = {
    .size = sizeof(run_row_t),
    .fields = (const ccl_i_field_t[]){
        {"collective", AT(collective)},
        {"schedule", AT(schedule)},
        {"nranks", AT(nranks)},
        {"size_bytes", AT(size_bytes)},
        {"predicted_s", AT(predicted_s)},
        {"min_s", AT(min_s), "of the repeats"},
        {"median_s", AT(median_s), "of the repeats"},
        {"spread", AT(spread), "(max - min) / median", .null = "the median is 0"},
        {"error", AT(error), "predicted / least time - 1"},
        {"error_of_median", AT(error_of_median), "predicted / median time - 1"},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(validated_t, member)
const ccl_i_result_t ccl_i_result_validate = {
    "validate", "ccllab validate", "predicted and measured times of a suite",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"device", AT(device), .words = (const char *const[]){"host", "testbed", NULL}},
            {"profile", AT(profile), "as given"},
            {"suite", AT(suite), "as given"},
            {"type", AT(type), "of the elements"},
            {"repeats", AT(repeats), "of each run"},
            {"median_error", AT(median_error), "of |predicted / least - 1|"},
            {"p90_error", AT(p90_error), "90th percentile"},
            {"worst_error", AT(worst_error)},
            {"median_error_of_medians", AT(median_error_of_medians), "of |predicted / median - 1|"},
            {"tau", AT(tau), "Kendall's, of the order of schedules", .null = "nothing to order"},
            {"all_pairs", AT(all_pairs), "of schedules of one collective, ranks and size"},
            {"pairs", AT(pairs), "of them that differ by more than 10 %"},
            {"ranked_right", AT(ranked_right), "of these"},
            {"runs", CCL_I_LIST_OF(run_record, count_runs, run_at)},
            {0}}}};
#undef AT

static const char *show_error(double error, char *out, size_t out_len) {
    snprintf(out, out_len, "%+.1f", 100 * error);
    return out;
}

static const char *show_spread(double spread, char *out, size_t out_len) {
    return ccl_i_show_0(100 * spread, out, out_len);
}

static const ccl_i_column_t csv_columns[] = {
    CCL_I_COLUMN("collective"), CCL_I_COLUMN("schedule"),    CCL_I_COLUMN("nranks"),
    CCL_I_COLUMN("size_bytes"), CCL_I_COLUMN("predicted_s"), CCL_I_COLUMN("min_s"),
    CCL_I_COLUMN("median_s"),   CCL_I_COLUMN("spread"),      CCL_I_COLUMN("error"),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_columns[] = {
    CCL_I_COLUMN("collective"),
    CCL_I_COLUMN("schedule"),
    CCL_I_COLUMN("nranks", "ranks"),
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("predicted_s", "predicted(us)", ccl_i_us),
    CCL_I_COLUMN("min_s", "least(us)", ccl_i_us),
    CCL_I_COLUMN("median_s", "median(us)", ccl_i_us),
    CCL_I_COLUMN("spread", "spread(%)", show_spread),
    CCL_I_COLUMN("error", "error(%)", show_error),
    CCL_I_COLUMNS_END};

ccl_status_t ccl_report_validation(const ccl_report_validation_t *about,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err) {
    const ccl_validation_t *v = about->validation;
    const validated_t root = {about,
                              about->device ? about->device : "host",
                              about->profile,
                              about->suite,
                              ccl_type_name(about->run->type),
                              v->repeats,
                              v->nrivals,
                              v->npairs,
                              v->nranked,
                              v->median_error,
                              v->p90_error,
                              v->worst_error,
                              v->median_error_median,
                              v->tau};
    bool csv = style->format == CCL_REPORT_CSV;

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_validate, &root, out, err);
    CCL_TRY(ccl_i_rows_emit(ccl_i_result_validate.root, "runs", &root,
                            csv ? csv_columns : text_columns, style->format, out, err));
    if (csv)
        return CCL_OK;
    ccl_text_printf(out,
                    "\n%u runs, %u repeats, error against the least time: median %.1f %%, 90th "
                    "percentile %.1f %%, worst %.1f %%\n",
                    v->npoints, v->repeats, 100 * v->median_error, 100 * v->p90_error,
                    100 * v->worst_error);
    ccl_text_printf(out, "against the median time: median %.1f %%\n", 100 * v->median_error_median);
    if (!v->nrivals)
        ccl_text_printf(out, "ranking of schedules: no two of one collective and size\n");
    else if (!v->npairs)
        ccl_text_printf(out, "ranking of schedules: no pair of %u differs by more than 10 %%\n",
                        v->nrivals);
    else
        ccl_text_printf(out,
                        "ranking of schedules: %u of %u pairs that differ by more than 10 %% right "
                        "(%.0f %%); of all %u, also those as good as equal, Kendall's tau %.2f\n",
                        v->nranked, v->npairs, 100.0 * v->nranked / v->npairs, v->nrivals, v->tau);
    return ccl_i_text_status(out, err);
}
