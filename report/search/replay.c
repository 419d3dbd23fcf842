/* What a replay of tuned points found: times, ranks before and after the fit, constants. */
#include "report/search/replay.h"

#include <math.h>

/* ---------------------------------------------------------------- rows */

typedef struct point_row {
    double size_bytes, tuned_s, fitted_s, measured_s;
    uint32_t tuned_rank, fitted_rank, measured_rank;
    const char *status, *why, *settings, *settings_or_why, *some_ranks;
    char ranks[80], options[300];
} point_row_t;

typedef struct ranked_row {
    double size_bytes, tuned_s, fitted_s, measured_s;
    uint32_t tuned_rank, fitted_rank;
    const char *settings;
    char options[300];
} ranked_row_t;

/** A size: how many points, how many of them changed rank, and the best now. */
typedef struct size_row {
    uint32_t points, moved;
    ranked_row_t best;
} size_row_t;

static uint64_t count_points(const void *row) {
    return ((const ccl_i_replay_row_t *)row)->of->npoints;
}

static const void *point_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_replay_row_t *replay = row;
    const ccl_tuning_t *t = replay->tuning;
    const ccl_replayed_t *p = &replay->of->points[i];
    const ccl_tune_run_t *run = &t->runs[p->run];
    bool ok = p->status == CCL_OK;
    point_row_t *out = scratch;

    *out = (point_row_t){.size_bytes = t->sizes_bytes[run->size],
                         .tuned_s = p->tuned_s,
                         .fitted_s = ok ? p->fitted_s : NAN,
                         .measured_s = ok ? p->measured_s : NAN,
                         .tuned_rank = p->tuned_rank,
                         .fitted_rank = p->fitted_rank,
                         .measured_rank = p->measured_rank,
                         .status = ccl_status_name(p->status),
                         .why = p->why,
                         .settings = t->points[run->point].settings};
    ccl_i_options_text(&t->points[run->point], out->options, sizeof(out->options));
    out->settings_or_why = ok ? out->options : p->why;
    snprintf(out->ranks, sizeof(out->ranks), "%u > %u, %u", p->tuned_rank, p->fitted_rank,
             p->measured_rank);
    out->some_ranks = ok ? out->ranks : NULL;
    return out;
}

static ranked_row_t ranked_row(const ccl_i_replay_row_t *replay, uint32_t i) {
    const ccl_reranked_t *p = &replay->of->ranked[i];
    const ccl_tune_run_t *run = &replay->tuning->runs[p->run];
    ranked_row_t row = {replay->tuning->sizes_bytes[run->size],
                        p->tuned_s,
                        p->fitted_s,
                        p->replayed == CCL_NONE ? NAN : replay->of->points[p->replayed].measured_s,
                        p->tuned_rank,
                        p->fitted_rank,
                        replay->tuning->points[run->point].settings,
                        ""};

    ccl_i_options_text(&replay->tuning->points[run->point], row.options, sizeof(row.options));
    return row;
}

static uint64_t count_ranked(const void *row) {
    return ((const ccl_i_replay_row_t *)row)->of->nranked;
}

static const void *ranked_at(const void *row, uint64_t i, void *scratch) {
    ranked_row_t *out = scratch;

    *out = ranked_row(row, (uint32_t)i);
    return out;
}

/** Sizes begin where the one before ends: the others of a size are no rows. */
static const void *size_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_replay_row_t *replay = row;
    const ccl_reranked_t *ranked = replay->of->ranked;
    const ccl_tune_run_t *runs = replay->tuning->runs;
    uint32_t size = runs[ranked[i].run].size;
    size_row_t *out = scratch;

    if (i > 0 && runs[ranked[i - 1].run].size == size)
        return NULL;
    *out = (size_row_t){0, 0, ranked_row(replay, (uint32_t)i)};
    for (uint64_t k = i; k < replay->of->nranked && runs[ranked[k].run].size == size; k++) {
        out->points++;
        out->moved += ranked[k].tuned_rank != ranked[k].fitted_rank;
    }
    return out;
}

/* ---------------------------------------------------------------- what they hold */

#define NO_RUN "it did not run"
#define AT(member) CCL_I_AT(point_row_t, member)
static const ccl_i_described_t point_record = {
    .size = sizeof(point_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size_bytes", AT(size_bytes)},
        {"tuned_s", AT(tuned_s), "simulated as tuned"},
        {"fitted_s", AT(fitted_s), "simulated with what was fitted", .null = NO_RUN},
        {"measured_s", AT(measured_s), "the least", .null = NO_RUN},
        {"tuned_rank", AT(tuned_rank), "from 1 among those of its size that ran; 0: it did not"},
        {"fitted_rank", AT(fitted_rank)},
        {"measured_rank", AT(measured_rank)},
        {"status", AT(status)},
        {"why", AT(why), "it did not run; empty: it ran"},
        {"settings", AT(settings), "JSON as a string"},
        {"ranks", AT(some_ranks), .hidden = true},
        {"settings_or_why", AT(settings_or_why), .hidden = true},
        {0}}};
#undef AT
#define RANKED_FIELDS(T, m)                                                                        \
    {"size_bytes", CCL_I_AT(T, m size_bytes)},                                                     \
        {"tuned_s", CCL_I_AT(T, m tuned_s), "simulated as tuned"},                                 \
        {"fitted_s", CCL_I_AT(T, m fitted_s), "simulated with what was fitted"},                   \
        {"measured_s", CCL_I_AT(T, m measured_s), "the least", .null = NO_RUN},                    \
        {"tuned_rank", CCL_I_AT(T, m tuned_rank), "from 1 among those of its size"},               \
        {"fitted_rank", CCL_I_AT(T, m fitted_rank)}, {                                             \
        "settings", CCL_I_AT(T, m settings), "JSON as a string"                                    \
    }
static const ccl_i_described_t ranked_record = {
    .size = sizeof(ranked_row_t),
    .fields = (const ccl_i_field_t[]){RANKED_FIELDS(ranked_row_t, ), {0}}};
#define AT(member) CCL_I_AT(size_row_t, member)
static const ccl_i_described_t size_record = {
    .size = sizeof(size_row_t),
    .fields = (const ccl_i_field_t[]){{"size_bytes", AT(best.size_bytes)},
                                      {"points", AT(points), "that were ranked"},
                                      {"moved", AT(moved), "of these, to another rank"},
                                      {"best", CCL_I_PART_IN(size_row_t, best, ranked_record),
                                       "with what was fitted"},
                                      {"tuned_rank", AT(best.tuned_rank), .hidden = true},
                                      {"fitted_s", AT(best.fitted_s), .hidden = true},
                                      {"measured_s", AT(best.measured_s), .hidden = true},
                                      {"options", AT(best.options), .hidden = true},
                                      {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(ccl_i_replay_row_t, member)
#define NO_PAIR "no two of a size"
const ccl_i_described_t ccl_i_replay_record = {
    .fields =
        (const ccl_i_field_t[]){
            {"device", AT(device)},
            {"error_tuned", AT(error_tuned), "median of |predicted / measured - 1|",
             .null = NO_RUN},
            {"error_fitted", AT(error_fitted), .null = NO_RUN},
            {"tau_tuned", AT(tau_tuned), "Kendall's", .null = NO_PAIR},
            {"tau_fitted", AT(tau_fitted), .null = NO_PAIR},
            {"points", CCL_I_LIST_OF(point_record, count_points, point_at), "that were run"},
            CCL_I_CONSTANTS(ccl_i_replay_row_t, ccl_i_replay_constant_record),
            {"profile", AT(profile), "what was fitted, JSON as a string", .null = "there is none"},
            {"unranked", AT(unranked), "points that the budget left out"},
            {"sizes", CCL_I_LIST_OF(size_record, count_ranked, size_at)},
            {"ranks", CCL_I_LIST_OF(ranked_record, count_ranked, ranked_at),
             "all points with what was fitted"},
            {0}},
    .tall = true};
#undef AT

ccl_i_replay_row_t ccl_i_replay_row(const char *device, const ccl_tuning_t *tuning,
                                    const ccl_replay_t *replay) {
    ccl_i_replay_row_t row = {{replay->constants, replay->nconstants, false, "us", 1e6, 3, NULL},
                              replay,
                              tuning,
                              device,
                              replay->profile,
                              replay->error_tuned,
                              replay->error_fitted,
                              replay->tau_tuned,
                              replay->tau_fitted,
                              replay->nunranked};

    return row;
}

/* ---------------------------------------------------------------- tables */

static const ccl_i_column_t csv_points[] = {
    CCL_I_COLUMN("size_bytes"),    CCL_I_COLUMN("tuned_s"),
    CCL_I_COLUMN("fitted_s"),      CCL_I_COLUMN("measured_s"),
    CCL_I_COLUMN("tuned_rank"),    CCL_I_COLUMN("fitted_rank"),
    CCL_I_COLUMN("measured_rank"), CCL_I_COLUMN("status"),
    CCL_I_COLUMN("settings"),      CCL_I_COLUMNS_END};
static const ccl_i_column_t text_points[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("tuned_s", "tuned(us)", ccl_i_us),
    CCL_I_COLUMN("fitted_s", "fitted(us)", ccl_i_us, "-"),
    CCL_I_COLUMN("measured_s", "measured(us)", ccl_i_us, "-"),
    CCL_I_COLUMN("ranks", "rank > fitted, measured", NULL, "-", .right = true),
    CCL_I_COLUMN("settings_or_why", "settings"),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_sizes[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("points"),
    CCL_I_COLUMN("moved"),
    CCL_I_COLUMN("tuned_rank", "rank as tuned"),
    CCL_I_COLUMN("fitted_s", "fitted(us)", ccl_i_us),
    CCL_I_COLUMN("measured_s", "measured(us)", ccl_i_us, "not run"),
    CCL_I_COLUMN("options", "best now"),
    CCL_I_COLUMNS_END};

ccl_status_t ccl_i_replay_points(const ccl_i_replay_row_t *row, ccl_report_format_t format,
                                 ccl_text_t *out, ccl_error_t *err) {
    return ccl_i_rows_emit(&ccl_i_replay_record, "points", row,
                           format == CCL_REPORT_CSV ? csv_points : text_points, format, out, err);
}

ccl_status_t ccl_i_replay_ranks(const ccl_i_replay_row_t *row, ccl_report_format_t format,
                                ccl_text_t *out, ccl_error_t *err) {
    if (format == CCL_REPORT_CSV)
        return ccl_i_rows_emit(&ccl_i_replay_record, "ranks", row, NULL, format, out, err);
    return ccl_i_rows_emit(&ccl_i_replay_record, "sizes", row, text_sizes, format, out, err);
}

void ccl_i_ranks_head(const ccl_replay_t *r, ccl_text_t *out) {
    ccl_text_printf(out, "\nall points ranked again with these constants");
    if (r->nunranked)
        ccl_text_printf(out, " but %u, the slowest as tuned: the budget is spent", r->nunranked);
    ccl_text_printf(out, "\n");
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
