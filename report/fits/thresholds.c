/* Thresholds for acceptance tests, and runs that were held against them. */
#include "report/describe.h"

/* ---------------------------------------------------------------- thresholds */

typedef struct thresholds_root {
    const ccl_thresholds_t *of;
    const char *topology, *profile;
    double share;
} thresholds_root_t;

typedef struct threshold_row {
    const char *collective, *algo, *proto;
    uint32_t nranks, channels;
    double size_bytes, least_busbw_GBps, most_s, expected_busbw_GBps, expected_s, bound_s;
    char nccl[80];
} threshold_row_t;

static uint64_t count_thresholds(const void *root) {
    return ((const thresholds_root_t *)root)->of->n;
}

static const void *threshold_at(const void *root, uint64_t i, void *scratch) {
    const ccl_threshold_t *t = &((const thresholds_root_t *)root)->of->items[i];
    threshold_row_t *out = scratch;

    *out = (threshold_row_t){.collective = ccl_collective_kind_name(t->kind),
                             .nranks = t->nranks,
                             .size_bytes = t->size_bytes,
                             .least_busbw_GBps = t->least_busbw_GBps,
                             .most_s = t->most_s,
                             .expected_busbw_GBps = t->expected_busbw_GBps,
                             .expected_s = t->expected_s,
                             .bound_s = t->bound_s,
                             .algo = ccl_nccl_algo_name(t->choice.algo),
                             .proto = ccl_nccl_proto_name(t->choice.proto),
                             .channels = t->choice.channels};
    snprintf(out->nccl, sizeof(out->nccl), "%s %s x%u", out->algo, out->proto, out->channels);
    return out;
}

#define AT(member) CCL_I_AT(threshold_row_t, member)
static const ccl_i_described_t threshold_record = {
    .size = sizeof(threshold_row_t),
    .fields = (const ccl_i_field_t[]){
        {"collective", AT(collective)},
        {"nranks", AT(nranks)},
        {"size_bytes", AT(size_bytes), "as nccl-tests counts it"},
        {"least_busbw_GBps", AT(least_busbw_GBps), "a run with less is not accepted"},
        {"most_s", AT(most_s), "the time that it takes then"},
        {"expected_busbw_GBps", AT(expected_busbw_GBps), "with what NCCL chooses"},
        {"expected_s", AT(expected_s), "with what NCCL chooses"},
        {"bound_s", AT(bound_s), "no schedule is faster"},
        {"algo", AT(algo), "that NCCL chooses"},
        {"proto", AT(proto), "that NCCL chooses"},
        {"channels", AT(channels), "that NCCL uses"},
        {"nccl", AT(nccl), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(thresholds_root_t, member)
const ccl_i_result_t ccl_i_result_thresholds = {
    "thresholds", "ccllab thresholds", "bandwidths that a cluster has to reach to be accepted",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"topology", AT(topology)},
            {"profile", AT(profile), .null = "the topology's own constants"},
            {"share", AT(share), "least over expected bandwidth"},
            {"thresholds", CCL_I_LIST_OF(threshold_record, count_thresholds, threshold_at),
             "by collective and size"},
            {0}}}};
#undef AT

static const ccl_i_column_t threshold_columns[] = {
    CCL_I_COLUMN("collective"),
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("least_busbw_GBps", "least(GB/s)", ccl_i_show_2),
    CCL_I_COLUMN("most_s", "most(us)", ccl_i_us),
    CCL_I_COLUMN("expected_busbw_GBps", "expected(GB/s)", ccl_i_show_2),
    CCL_I_COLUMN("expected_s", "expected(us)", ccl_i_us),
    CCL_I_COLUMN("bound_s", "bound(us)", ccl_i_us),
    CCL_I_COLUMN("nccl"),
    CCL_I_COLUMNS_END};

ccl_status_t ccl_report_thresholds(const ccl_thresholds_t *thresholds,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err) {
    const thresholds_root_t root = {thresholds, thresholds->topology, thresholds->profile,
                                    thresholds->share};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_thresholds, &root, out, err);
    if (style->format == CCL_REPORT_TEXT)
        ccl_text_printf(out, "%s on %u ranks with %s: at least %.0f %% of the expected busbw\n",
                        root.topology, thresholds->n ? thresholds->items[0].nranks : 0,
                        root.profile ? root.profile : "the constants of its description",
                        100 * root.share);
    return ccl_i_rows_emit(ccl_i_result_thresholds.root, "thresholds", &root,
                           style->format == CCL_REPORT_TEXT ? threshold_columns : NULL,
                           style->format, out, err);
}

/* ---------------------------------------------------------------- held against */

typedef struct check_root {
    const ccl_report_acceptance_t *about;
    const char *thresholds, *topology;
    uint32_t nsizes, nrefused, nothers;
    bool accepted;
} check_root_t;

typedef struct check_row {
    const char *input, *collective, *verdict;
    uint32_t nranks, line;
    double size_bytes, measured_s, measured_busbw_GBps, least_busbw_GBps, expected_busbw_GBps;
    bool accepted;
} check_row_t;

static uint64_t count_sizes(const void *root) {
    return ((const check_root_t *)root)->about->acceptance->n;
}

static const void *size_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_acceptance_t *about = ((const check_root_t *)root)->about;
    const ccl_accepted_t *a = &about->acceptance->items[i];
    check_row_t *out = scratch;

    *out = (check_row_t){.input = about->inputs[a->run],
                         .collective = ccl_collective_kind_name(a->kind),
                         .nranks = a->nranks,
                         .line = a->line,
                         .size_bytes = a->size_bytes,
                         .measured_s = a->measured_s,
                         .measured_busbw_GBps = a->measured_busbw_GBps,
                         .least_busbw_GBps = a->least_busbw_GBps,
                         .expected_busbw_GBps = a->expected_busbw_GBps,
                         .accepted = a->accepted,
                         .verdict = a->accepted ? "pass" : "fail"};
    return out;
}

#define AT(member) CCL_I_AT(check_row_t, member)
static const ccl_i_described_t check_record = {
    .size = sizeof(check_row_t),
    .fields =
        (const ccl_i_field_t[]){{"input", AT(input), "the log"},
                                {"line", AT(line), "of the log"},
                                {"collective", AT(collective)},
                                {"nranks", AT(nranks)},
                                {"size_bytes", AT(size_bytes)},
                                {"measured_s", AT(measured_s)},
                                {"measured_busbw_GBps", AT(measured_busbw_GBps)},
                                {"least_busbw_GBps", AT(least_busbw_GBps), "that is accepted"},
                                {"expected_busbw_GBps", AT(expected_busbw_GBps)},
                                {"accepted", AT(accepted)},
                                {"verdict", AT(verdict), .hidden = true},
                                {0}}};
#undef AT
#define AT(member) CCL_I_AT(check_root_t, member)
const ccl_i_result_t ccl_i_result_thresholds_check = {
    "thresholds-check", "ccllab thresholds --check", "measured runs held against thresholds",
    &(const ccl_i_described_t){.fields = (const ccl_i_field_t[]){
                                   {"thresholds", AT(thresholds), "their file or folder"},
                                   {"topology", AT(topology), "that they were made for"},
                                   {"accepted", AT(accepted), "every size is"},
                                   {"nsizes", AT(nsizes), "that have a threshold"},
                                   {"nrefused", AT(nrefused), "of them, below it"},
                                   {"nothers", AT(nothers), "measured sizes without a threshold"},
                                   {"sizes", CCL_I_LIST_OF(check_record, count_sizes, size_at)},
                                   {0}}}};
#undef AT

static const ccl_i_column_t check_columns[] = {
    CCL_I_COLUMN("input"),
    CCL_I_COLUMN("collective"),
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("measured_s", "measured(us)", ccl_i_us),
    CCL_I_COLUMN("measured_busbw_GBps", "busbw(GB/s)", ccl_i_show_2),
    CCL_I_COLUMN("least_busbw_GBps", "least(GB/s)", ccl_i_show_2),
    CCL_I_COLUMN("expected_busbw_GBps", "expected(GB/s)", ccl_i_show_2),
    CCL_I_COLUMN("verdict"),
    CCL_I_COLUMNS_END};

ccl_status_t ccl_report_acceptance(const ccl_report_acceptance_t *about,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err) {
    const ccl_acceptance_t *a = about->acceptance;
    const check_root_t root = {.about = about,
                               .thresholds = about->path,
                               .topology = about->thresholds->topology,
                               .nsizes = a->n,
                               .nrefused = a->nrefused,
                               .nothers = a->nothers,
                               .accepted = a->nrefused == 0};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_thresholds_check, &root, out, err);
    if (style->format == CCL_REPORT_TEXT && a->nrefused)
        ccl_text_printf(out, "FAIL: %u of %u sizes below the threshold of %s", a->nrefused, a->n,
                        root.topology);
    else if (style->format == CCL_REPORT_TEXT)
        ccl_text_printf(out, "PASS: all %u sizes reach the threshold of %s", a->n, root.topology);
    if (style->format == CCL_REPORT_TEXT && a->nothers)
        ccl_text_printf(out, "; %u others have none", a->nothers);
    if (style->format == CCL_REPORT_TEXT)
        ccl_text_printf(out, "\n");
    return ccl_i_rows_emit(ccl_i_result_thresholds_check.root, "sizes", &root,
                           style->format == CCL_REPORT_TEXT ? check_columns : NULL, style->format,
                           out, err);
}
