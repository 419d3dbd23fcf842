/* Tuned points over samples of a scenario. */
#include "report/search/sampled.h"
#include "report/runs/spread.h"

#include <math.h>

typedef struct point_row {
    double size_bytes, tuned_s, rank_s, regret_s;
    uint32_t rank, tuned_rank;
    const char *settings;
    ccl_i_spread_row_t spread;
    char options[300];
} point_row_t;

static uint64_t count_points(const void *row) {
    return ((const ccl_i_sampled_row_t *)row)->of->npoints;
}

static uint32_t size_of(const ccl_i_sampled_row_t *s, uint64_t i) {
    return s->tuning->runs[s->of->points[i].run].size;
}

static const void *point_at(const void *row, uint64_t i, void *scratch) {
    const ccl_i_sampled_row_t *s = row;
    const ccl_sampled_t *p = &s->of->points[i];
    const ccl_tune_run_t *run = &s->tuning->runs[p->run];
    point_row_t *out = scratch;

    *out = (point_row_t){.size_bytes = s->tuning->sizes_bytes[run->size],
                         .tuned_s = run->result.time_s,
                         .rank_s = p->rank_s,
                         .regret_s = p->regret_s,
                         .rank = 1,
                         .tuned_rank = p->tuned_rank,
                         .settings = s->tuning->points[run->point].settings};
    for (uint64_t k = i; k > 0 && size_of(s, k - 1) == run->size; k--)
        out->rank++;
    ccl_i_spread_row(&p->spread, &out->spread);
    ccl_i_options_text(&s->tuning->points[run->point], out->options, sizeof(out->options));
    return out;
}

void ccl_i_sampled_row(const ccl_report_tuning_t *about, ccl_i_sampled_row_t *row) {
    *row = (ccl_i_sampled_row_t){.of = about->sampled,
                                 .tuning = about->tuning,
                                 .scenario = about->scenario,
                                 .samples = about->sampled->samples};
    row->rank = ccl_i_rank_text(about->sampled->rank, row->rank_text, sizeof(row->rank_text));
}

#define LOST "lost samples count as longer than any time"
#define AT(member) CCL_I_AT(point_row_t, member)
static const ccl_i_described_t point_record = {
    .size = sizeof(point_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"size_bytes", AT(size_bytes)},
            {"rank", AT(rank), "from 1 among those of its size, over the samples"},
            {"tuned_rank", AT(tuned_rank), "by the time on the cluster as drawn"},
            {"tuned_s", AT(tuned_s), "on the cluster as drawn"},
            {"rank_s", AT(rank_s), "what it is ranked by", .null = LOST},
            {"regret_s", AT(regret_s), "most that it is behind the fastest of a sample",
             .null = LOST},
            {"spread", CCL_I_PART_IN(point_row_t, spread, ccl_i_spread_record), "over the samples"},
            {"settings", AT(settings), "JSON as a string"},
            {"median_s", AT(spread.p50_s), .hidden = true},
            {"p95_s", AT(spread.p95_s), .hidden = true},
            {"p99_s", AT(spread.p99_s), .hidden = true},
            {"mean_s", AT(spread.mean_s), .hidden = true},
            {"lost", AT(spread.lost), .hidden = true},
            {"options", AT(options), .hidden = true},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(ccl_i_sampled_row_t, member)
const ccl_i_described_t ccl_i_sampled_record = {
    .size = sizeof(ccl_i_sampled_row_t),
    .fields =
        (const ccl_i_field_t[]){{"scenario", AT(scenario), "file, or what varies"},
                                {"samples", AT(samples)},
                                {"rank", AT(rank), "what the best is chosen by",
                                 .null = "the time on the cluster as drawn"},
                                {"points", CCL_I_LIST_OF(point_record, count_points, point_at),
                                 "the fastest of each size, the best by rank first"},
                                {0}}};
#undef AT

static const ccl_i_column_t text_columns[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("rank"),
    CCL_I_COLUMN("tuned_rank", "as drawn"),
    CCL_I_COLUMN("tuned_s", "drawn(us)", ccl_i_us),
    CCL_I_COLUMN("mean_s", "mean(us)", ccl_i_us, "-"),
    CCL_I_COLUMN("median_s", "p50(us)", ccl_i_us, "lost"),
    CCL_I_COLUMN("p95_s", "p95(us)", ccl_i_us, "lost"),
    CCL_I_COLUMN("p99_s", "p99(us)", ccl_i_us, "lost"),
    CCL_I_COLUMN("regret_s", "regret(us)", ccl_i_us, "lost"),
    CCL_I_COLUMN("lost"),
    CCL_I_COLUMN("options", "settings"),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t csv_columns[] = {
    CCL_I_COLUMN("size_bytes"), CCL_I_COLUMN("rank"),   CCL_I_COLUMN("tuned_rank"),
    CCL_I_COLUMN("tuned_s"),    CCL_I_COLUMN("rank_s"), CCL_I_COLUMN("mean_s"),
    CCL_I_COLUMN("median_s"),   CCL_I_COLUMN("p95_s"),  CCL_I_COLUMN("p99_s"),
    CCL_I_COLUMN("regret_s"),   CCL_I_COLUMN("lost"),   CCL_I_COLUMN("settings"),
    CCL_I_COLUMNS_END};

ccl_status_t ccl_i_sampled_points(const ccl_i_sampled_row_t *row, ccl_report_format_t format,
                                  ccl_text_t *out, ccl_error_t *err) {
    bool csv = format == CCL_REPORT_CSV;

    return ccl_i_rows_emit(&ccl_i_sampled_record, "points", row, csv ? csv_columns : text_columns,
                           format, out, err);
}

void ccl_i_sampled_head(const ccl_i_sampled_row_t *row, ccl_text_t *out) {
    ccl_text_printf(
        out, "\nthe fastest of each size over %u samples of %s; the best is chosen by %s\n",
        row->samples, row->scenario, row->rank ? row->rank : "the time on the cluster as drawn");
}
