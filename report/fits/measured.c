/* Predictions beside measured runs, and baselines. */
#include "report/describe.h"

typedef struct validated {
    const ccl_measured_validation_t *of;
    const char *profile;
    ccl_error_stats_t predicted;
    double tau;
    uint32_t rivals, stuck, curved;
} validated_t;

typedef struct point_row {
    const char *input, *collective, *program, *type, *proto;
    uint32_t nranks, line;
    double size_bytes, measured_s, constants_s, predicted_s, error, corrected_s, interpolated_s;
    double tuned_s, line_s;
    bool tested;
} point_row_t;

typedef struct group_row {
    ccl_error_stats_t predicted, corrected, interpolated, tuned, fitted_line;
    const char *what;
} group_row_t;

static uint64_t count_points(const void *root) {
    return ((const validated_t *)root)->of->npoints;
}

static const void *point_at(const void *root, uint64_t i, void *scratch) {
    const ccl_measured_validation_t *v = ((const validated_t *)root)->of;
    const ccl_measured_point_t *p = &v->points[i];
    const ccl_measured_source_t *s = &v->sources[p->source];
    point_row_t *out = scratch;

    *out = (point_row_t){
        .input = s->name,
        .collective = ccl_collective_kind_name(s->program ? s->program->coll->kind : s->run->kind),
        .program = s->program ? s->run->program : NULL,
        .type = s->run->type,
        .proto = s->run->proto,
        .nranks = s->topo->nranks,
        .line = s->run->line,
        .size_bytes = p->size_bytes,
        .measured_s = p->measured_s,
        .constants_s = p->constants_s,
        .predicted_s = p->predicted_s,
        .error = p->predicted_s / p->measured_s - 1,
        .corrected_s = p->corrected_s,
        .interpolated_s = p->interpolated_s,
        .tuned_s = p->tuned_s,
        .line_s = p->line_s,
        .tested = p->tested};
    return out;
}

static uint64_t count_groups(const void *root) {
    return ((const validated_t *)root)->of->ngroups;
}

static const void *group_at(const void *root, uint64_t i, void *scratch) {
    const ccl_measured_errors_t *g = &((const validated_t *)root)->of->groups[i];
    group_row_t *out = scratch;

    *out = (group_row_t){g->predicted, g->corrected, g->interpolated, g->tuned, g->line, g->what};
    return out;
}

#define NO_OTHERS "fewer than two other sizes"
#define AT(member) CCL_I_AT(point_row_t, member)
static const ccl_i_described_t point_record = {
    .size = sizeof(point_row_t),
    .fields = (const ccl_i_field_t[]){
        {"input", AT(input), "its file"},
        {"line", AT(line), "where its run begins there"},
        {"collective", AT(collective)},
        {"program", AT(program), "that was run", .null = "NCCL's own"},
        {"proto", AT(proto), "that the program ran under, as the file says"},
        {"type", AT(type), "of the elements, as the file says"},
        {"nranks", AT(nranks)},
        {"size_bytes", AT(size_bytes)},
        {"measured_s", AT(measured_s)},
        {"constants_s", AT(constants_s), "by the model",
         .null = "the program cannot finish in the model"},
        {"predicted_s", AT(predicted_s),
         "constants_s times what the profile's curve of such runs says, where it has one",
         .null = "as above"},
        {"error", AT(error), "predicted_s / measured_s - 1", .null = "as above"},
        {"tested", AT(tested), "every second size: what follows is from the others alone"},
        {"corrected_s", AT(corrected_s),
         "predicted_s times what it is off by at the others of its run, interpolated",
         .null = "as above"},
        {"interpolated_s", AT(interpolated_s), "times in log-log", .null = NO_OTHERS},
        {"tuned_s", AT(tuned_s), "NCCL's own tuning model with three fitted constants",
         .null = "it has no estimate"},
        {"line_s", AT(line_s), "alpha + beta bytes", .null = NO_OTHERS},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_error_stats_t, member)
#define NO_POINT "no point has it"
static const ccl_i_described_t stats_record = {
    .fields = (const ccl_i_field_t[]){{"points", AT(n)},
                                      {"median", AT(median), .null = NO_POINT},
                                      {"mean", AT(mean), .null = NO_POINT},
                                      {"worst", AT(worst), .null = NO_POINT},
                                      {0}}};
#undef AT
#define AT(member) CCL_I_AT(group_row_t, member)
#define STATS(member) CCL_I_PART_IN(group_row_t, member, stats_record)
static const ccl_i_described_t group_record = {
    .size = sizeof(group_row_t),
    .fields =
        (const ccl_i_field_t[]){{"what", AT(what), "which of the tested points"},
                                {"predicted", STATS(predicted), "errors"},
                                {"corrected", STATS(corrected)},
                                {"interpolated", STATS(interpolated)},
                                {"tuned", STATS(tuned)},
                                {"line", STATS(fitted_line)},
                                {"points", AT(predicted.n), .hidden = true},
                                {"predicted_median", AT(predicted.median), .hidden = true},
                                {"predicted_mean", AT(predicted.mean), .hidden = true},
                                {"predicted_worst", AT(predicted.worst), .hidden = true},
                                {"corrected_median", AT(corrected.median), .hidden = true},
                                {"corrected_mean", AT(corrected.mean), .hidden = true},
                                {"interpolated_median", AT(interpolated.median), .hidden = true},
                                {"interpolated_mean", AT(interpolated.mean), .hidden = true},
                                {"tuned_median", AT(tuned.median), .hidden = true},
                                {"tuned_mean", AT(tuned.mean), .hidden = true},
                                {"line_median", AT(fitted_line.median), .hidden = true},
                                {"line_mean", AT(fitted_line.mean), .hidden = true},
                                {0}},
    .tall = true};
#undef STATS
#undef AT
#define AT(member) CCL_I_AT(validated_t, member)
const ccl_i_result_t ccl_i_result_validate_measured = {
    "validate-measured", "ccllab validate --measured", "predictions beside measured runs",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"profile", AT(profile), .null = "the topology's own constants"},
            {"predicted", CCL_I_PART_IN(validated_t, predicted, stats_record),
             "errors |predicted / measured - 1| of all points"},
            {"tau", AT(tau), "Kendall's, of programs of one collective, cluster and size",
             .null = "nothing to order"},
            {"rivals", AT(rivals), "pairs of such programs"},
            {"stuck", AT(stuck), "points whose programs cannot finish in the model"},
            {"curved", AT(curved), "points that a curve of the profile is of"},
            {"groups", CCL_I_LIST_OF(group_record, count_groups, group_at),
             "errors of every second size, by size and by collective"},
            {"points", CCL_I_LIST_OF(point_record, count_points, point_at)},
            {0}}}};
#undef AT

#define PERCENT(field, heading) CCL_I_COLUMN(field, heading, ccl_i_show_percent, "-")

ccl_status_t ccl_report_measured(const ccl_measured_validation_t *made,
                                 const ccl_profile_t *profile, const ccl_report_style_t *style,
                                 ccl_text_t *out, ccl_error_t *err) {
    static const ccl_i_column_t columns[] = {CCL_I_COLUMN("what", "error (%), median mean"),
                                             CCL_I_COLUMN("points"),
                                             PERCENT("predicted_median", "predicted"),
                                             PERCENT("predicted_mean", ""),
                                             PERCENT("corrected_median", "corrected"),
                                             PERCENT("corrected_mean", ""),
                                             PERCENT("interpolated_median", "interpolated"),
                                             PERCENT("interpolated_mean", ""),
                                             PERCENT("tuned_median", "NCCL's model"),
                                             PERCENT("tuned_mean", ""),
                                             PERCENT("line_median", "alpha-beta"),
                                             PERCENT("line_mean", ""),
                                             CCL_I_COLUMNS_END};
    const ccl_i_result_t *result = &ccl_i_result_validate_measured;
    const validated_t root = {made,
                              profile ? ccl_profile_name(profile) : NULL,
                              made->predicted,
                              made->tau,
                              made->nrivals,
                              made->nstuck,
                              made->ncurved};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(result, &root, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_rows_emit(result->root, "points", &root, NULL, style->format, out, err);
    if (profile)
        ccl_text_printf(out, "profile %s (%s)\n", ccl_profile_name(profile),
                        ccl_profile_summary(profile));
    else
        ccl_text_printf(out, "constants of the clusters' descriptions\n");
    ccl_text_printf(out, "%u runs, %u sizes: median error %.1f %%, mean %.1f %%, worst %.1f %%\n",
                    made->nsources, made->predicted.n, 100 * made->predicted.median,
                    100 * made->predicted.mean, 100 * made->predicted.worst);
    if (made->ncurved)
        ccl_text_printf(out,
                        "%u of %u sizes are of runs that the profile was fitted to: predicted has "
                        "its curves of what they were off by\n",
                        made->ncurved, made->npoints);
    if (made->nrivals)
        ccl_text_printf(out, "order of programs: Kendall's tau %.3f over %u pairs\n", made->tau,
                        made->nrivals);
    if (made->nstuck)
        ccl_text_printf(out, "%u sizes left out: their programs cannot finish in the model\n",
                        made->nstuck);
    ccl_text_printf(out, "every second size, and what the others of its run say of it:\n\n");
    CCL_TRY(ccl_i_rows_emit(result->root, "groups", &root, columns, style->format, out, err));
    return ccl_i_text_status(out, err);
}
