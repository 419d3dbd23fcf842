/* Fits as text, JSON and CSV. */
#include "report/fits/constants.h"

/* ---------------------------------------------------------------- calibration */

typedef struct fit {
    ccl_i_constants_t constants;
    const ccl_calibration_t *of;
    const char *output;
    double r2, median_error_before, median_error, worst_error, noise;
    uint32_t repeats, stuck;
    ccl_error_stats_t held, held_constants, held_interpolated;
    bool holds_out;
} fit_t;

typedef struct fit_source {
    const char *input, *collective, *program, *label, *topology;
    uint32_t nranks, line, sizes;
    double median_error, worst_error;
    char title[200];
} fit_source_t;

typedef struct fit_point {
    uint32_t source;
    double size_bytes, measured_s, before_s, fitted_s, interpolated_s, predicted_s;
    bool held_out;
} fit_point_t;

static uint64_t count_fit_sources(const void *root) {
    return ((const fit_t *)root)->of->nsources;
}

static const void *fit_source_at(const void *root, uint64_t i, void *scratch) {
    const ccl_calibration_t *made = ((const fit_t *)root)->of;
    const ccl_measured_source_t *s = &made->sources[i];
    fit_source_t *out = scratch;

    *out = (fit_source_t){
        .input = s->name,
        .collective = ccl_collective_kind_name(s->program ? s->program->coll->kind : s->run->kind),
        .program = s->program ? s->run->program : NULL,
        .label = s->run->label,
        .topology = s->topo->name,
        .nranks = s->topo->nranks,
        .line = s->run->line,
        .sizes = made->by_source[i].n,
        .median_error = made->by_source[i].median,
        .worst_error = made->by_source[i].worst};
    snprintf(out->title, sizeof out->title, "%.100s%s%s%s%.20s",
             s->program ? out->program : out->collective, s->run->type[0] ? ", " : "", s->run->type,
             s->run->proto[0] ? ", " : "", s->run->proto);
    return out;
}

static uint64_t count_fit_points(const void *root) {
    const fit_t *fit = root;

    return fit->of->npoints;
}

static const void *fit_point_at(const void *root, uint64_t i, void *scratch) {
    const ccl_calibration_t *made = ((const fit_t *)root)->of;
    fit_point_t *out = scratch;

    *out = (fit_point_t){made->source_of[i],   made->sizes_bytes[i], made->measured_s[i],
                         made->before_s[i],    made->fitted_s[i],    made->interpolated_s[i],
                         made->predicted_s[i], made->held_out[i]};
    return out;
}

#define STUCK "the program cannot finish in the model"
#define AT(member) CCL_I_AT(fit_point_t, member)
static const ccl_i_described_t fit_point_record = {
    .size = sizeof(fit_point_t),
    .fields = (const ccl_i_field_t[]){
        {"source", AT(source), "place among the sources, from 0"},
        {"size_bytes", AT(size_bytes)},
        {"measured_s", AT(measured_s)},
        {"before_s", AT(before_s), "simulated with the topology's constants", .null = STUCK},
        {"fitted_s", AT(fitted_s), "simulated with the fitted ones", .null = STUCK},
        {"interpolated_s", AT(interpolated_s), "from the fitted points of the same source",
         .null = "fewer than two"},
        {"predicted_s", AT(predicted_s),
         "fitted_s times what the fitted points of such runs are off by, interpolated",
         .null = STUCK},
        {"held_out", AT(held_out), "not fitted"},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(fit_source_t, member)
static const ccl_i_described_t fit_source_record = {
    .size = sizeof(fit_source_t),
    .fields = (const ccl_i_field_t[]){
        {"input", AT(input), "its file"},
        {"line", AT(line), "where it begins there"},
        {"collective", AT(collective)},
        {"program", AT(program), "that was run", .null = "NCCL's own"},
        {"label", AT(label), "as the file says"},
        {"topology", AT(topology)},
        {"nranks", AT(nranks)},
        {"sizes", AT(sizes)},
        {"median_error", AT(median_error), "after the fit, held out or not", .null = "no size"},
        {"worst_error", AT(worst_error), .null = "no size"},
        {"title", AT(title), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_error_stats_t, member)
static const ccl_i_described_t stats_record = {
    .fields = (const ccl_i_field_t[]){{"points", AT(n)},
                                      {"median", AT(median), .null = "no point"},
                                      {"mean", AT(mean), .null = "no point"},
                                      {"worst", AT(worst), .null = "no point"},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(fit_t, member)
const ccl_i_result_t ccl_i_result_calibrate = {
    "calibrate", "ccllab calibrate", "constants fitted to measured runs",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"output", AT(output), "file of the constants"},
            {"held_out", CCL_I_PART_IN(fit_t, held, stats_record),
             "of |predicted / measured - 1| of points that were not fitted",
             .when = CCL_I_WHEN(fit_t, holds_out)},
            {"held_out_constants", CCL_I_PART_IN(fit_t, held_constants, stats_record),
             "the same points, simulated with the constants alone",
             .when = CCL_I_WHEN(fit_t, holds_out)},
            {"held_out_interpolated", CCL_I_PART_IN(fit_t, held_interpolated, stats_record),
             "the same points, interpolated from the fitted ones of their source",
             .when = CCL_I_WHEN(fit_t, holds_out)},
            {"r2", AT(r2), "of log(time)"},
            {"median_error_before", AT(median_error_before), "of |simulated / measured - 1|"},
            {"median_error", AT(median_error), "after the fit"},
            {"worst_error", AT(worst_error), "after the fit"},
            {"noise", AT(noise), "of a measurement, from points that measure the same",
             .null = "there are none"},
            {"repeats", AT(repeats), "pairs of such points"},
            {"stuck", AT(stuck), "points left out, as their programs cannot finish in the model"},
            CCL_I_CONSTANTS(fit_t, ccl_i_constant_record),
            {"sources", CCL_I_LIST_OF(fit_source_record, count_fit_sources, fit_source_at)},
            {"points", CCL_I_LIST_OF(fit_point_record, count_fit_points, fit_point_at),
             "sizes of the sources"},
            {0}}}};
#undef AT

static void stats_text(const char *what, const ccl_error_stats_t *s, ccl_text_t *out) {
    if (s->n)
        ccl_text_printf(out, "%s: median %.1f %%, mean %.1f %%, worst %.1f %%\n", what,
                        100 * s->median, 100 * s->mean, 100 * s->worst);
}

ccl_status_t ccl_report_calibration(const ccl_report_calibration_t *about,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err) {
    static const ccl_i_column_t columns[] = {
        CCL_I_COLUMN("title", "source"),
        CCL_I_COLUMN("nranks", "ranks"),
        CCL_I_COLUMN("sizes"),
        CCL_I_COLUMN("median_error", "median(%)", ccl_i_show_percent),
        CCL_I_COLUMN("worst_error", "worst(%)", ccl_i_show_percent),
        CCL_I_COLUMNS_END};
    const ccl_calibration_t *made = about->calibration;
    const ccl_i_described_t *record = ccl_i_result_calibrate.root;
    uint32_t nheld = 0;
    for (uint32_t i = 0; i < made->npoints; i++)
        nheld += made->held_out[i];
    const fit_t root = {{made->constants, made->nconstants, true, "us", 1e6, 3, "determined"},
                        made,
                        about->output,
                        made->r2,
                        made->median_before,
                        made->median_error,
                        made->worst_error,
                        made->noise,
                        made->nrepeats,
                        made->nstuck,
                        made->held,
                        made->held_constants,
                        made->held_interpolated,
                        nheld > 0};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_calibrate, &root, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_constants_emit(record, &root, &root.constants, style->format, out, err);
    if (nheld) {
        ccl_text_printf(out, "%u of %u points held out\n", nheld, made->npoints);
        stats_text("  predicted", &made->held, out);
        stats_text("  by the constants alone", &made->held_constants, out);
        stats_text("  by interpolation of times", &made->held_interpolated, out);
    }
    ccl_text_printf(out, "%u runs, %u sizes fitted: R2 %.4f of log(time)\n", made->nsources,
                    made->npoints - nheld - made->nstuck, made->r2);
    ccl_text_printf(out, "error before: median %.1f %%; after: median %.1f %%, worst %.1f %%\n",
                    100 * made->median_before, 100 * made->median_error, 100 * made->worst_error);
    if (made->nrepeats)
        ccl_text_printf(out, "noise of a measurement: %.1f %% (%u pairs of the same)%s\n",
                        100 * made->noise, made->nrepeats,
                        made->median_error < made->noise ? "; the error is below it" : "");
    if (made->nstuck)
        ccl_text_printf(out, "%u sizes left out: their programs cannot finish in the model\n",
                        made->nstuck);
    ccl_text_printf(out, "\n");
    CCL_TRY(ccl_i_constants_emit(record, &root, &root.constants, style->format, out, err));
    ccl_text_printf(out, "\n");
    CCL_TRY(ccl_i_rows_emit(record, "sources", &root, columns, style->format, out, err));
    ccl_text_printf(out, "\nwritten to %s\n", about->output);
    return ccl_i_text_status(out, err);
}
