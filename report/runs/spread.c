/* Times over samples of a scenario: quantiles, means, who wins how often, each with how sure it is.
 */
#include "report/runs/spread.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- cells for people */

static const char *us(double seconds, char *out, size_t out_len) {
    if (seconds == INFINITY)
        snprintf(out, out_len, "lost");
    else if (isnan(seconds))
        snprintf(out, out_len, "-");
    else
        ccl_i_us(seconds, out, out_len);
    return out;
}

/* "101.20 (100.90 to 102.00)"; an open end: more samples would close it. */
static void interval(const ccl_quantile_t *q, char *out, size_t out_len) {
    char value[30], low[30], high[30];

    snprintf(out, out_len, "%s (%s to %s)", us(q->value_s, value, sizeof(value)),
             us(q->low_s, low, sizeof(low)), us(q->high_s, high, sizeof(high)));
}

static void plus_minus(double value_s, double ci_s, char *out, size_t out_len) {
    char value[30], ci[30];

    if (isnan(value_s))
        snprintf(out, out_len, "-");
    else if (isnan(ci_s))
        snprintf(out, out_len, "%s", us(value_s, value, sizeof(value)));
    else
        snprintf(out, out_len, "%s +- %s", us(value_s, value, sizeof(value)),
                 us(ci_s, ci, sizeof(ci)));
}

void ccl_i_spread_row(const ccl_spread_t *s, ccl_i_spread_row_t *out) {
    out->samples = s->n;
    out->lost = s->lost;
    out->mean_s = s->mean_s;
    out->mean_ci_s = s->mean_ci_s;
    out->sd_s = s->sd_s;
    out->min_s = s->min_s;
    out->max_s = s->max_s;
    out->p50_s = s->p50.value_s;
    out->p50_low_s = s->p50.low_s;
    out->p50_high_s = s->p50.high_s;
    out->p95_s = s->p95.value_s;
    out->p95_low_s = s->p95.low_s;
    out->p95_high_s = s->p95.high_s;
    out->p99_s = s->p99.value_s;
    out->p99_low_s = s->p99.low_s;
    out->p99_high_s = s->p99.high_s;
    out->cvar95_s = s->cvar95_s;
    out->quantile_s = s->quantile_s;
    plus_minus(s->mean_s, s->mean_ci_s, out->mean, sizeof(out->mean));
    interval(&s->p50, out->p50, sizeof(out->p50));
    interval(&s->p95, out->p95, sizeof(out->p95));
    interval(&s->p99, out->p99, sizeof(out->p99));
}

const char *ccl_i_rank_text(ccl_rank_t rank, char *out, size_t out_len) {
    switch (rank.kind) {
    case CCL_RANK_NONE:
        return NULL;
    case CCL_RANK_MEAN:
        snprintf(out, out_len, "mean");
        break;
    case CCL_RANK_QUANTILE:
        snprintf(out, out_len, "p%g", 100 * rank.level);
        break;
    case CCL_RANK_CVAR:
        snprintf(out, out_len, "cvar%g", 100 * rank.level);
        break;
    case CCL_RANK_REGRET:
        snprintf(out, out_len, "regret");
        break;
    }
    return out;
}

/* ---------------------------------------------------------------- what they hold */

static uint64_t count_quantiles(const void *row) {
    return ((const ccl_i_spread_row_t *)row)->quantile_s ? CCL_SPREAD_QUANTILES : 0;
}

static const void *quantile_at(const void *row, uint64_t i, void *scratch) {
    (void)scratch;
    return &((const ccl_i_spread_row_t *)row)->quantile_s[i];
}

#define AT(member) CCL_I_AT(ccl_i_spread_row_t, member)
#define FEW "too few samples"
#define LOST "lost samples count as longer than any time"
#define OF_ONE                                                                                     \
    {"samples", AT(samples), "that were run"},                                                     \
        {"lost", AT(lost), "of them without a time: the program cannot run on what is left"},      \
        {"mean_s", AT(mean_s), "of those with a time", .null = "all were lost"},                   \
        {"mean_ci_s", AT(mean_ci_s), "half of a 95 % confidence interval", .null = FEW},           \
        {"sd_s", AT(sd_s), "standard deviation", .null = FEW},                                     \
        {"min_s", AT(min_s), .null = "all were lost"},                                             \
        {"max_s", AT(max_s), .null = "all were lost"}, {"p50_s", AT(p50_s), .null = LOST},         \
        {"p50_low_s", AT(p50_low_s), "of a 95 % confidence interval", .null = FEW},                \
        {"p50_high_s", AT(p50_high_s), .null = FEW}, {"p95_s", AT(p95_s), .null = LOST},           \
        {"p95_low_s", AT(p95_low_s), .null = FEW}, {"p95_high_s", AT(p95_high_s), .null = FEW},    \
        {"p99_s", AT(p99_s), .null = LOST}, {"p99_low_s", AT(p99_low_s), .null = FEW},             \
        {"p99_high_s", AT(p99_high_s), .null = FEW},                                               \
        {"cvar95_s", AT(cvar95_s), "mean of the slowest 5 %", .null = LOST}, {                     \
        "quantiles_s", CCL_I_LIST_OF(ccl_i_bare_number, count_quantiles, quantile_at),             \
            "101 times: what 0, 1 ... 100 % of the samples do not exceed; null: lost",             \
            .line = true                                                                           \
    }
#define SHOWN                                                                                      \
    {"mean", AT(mean), .hidden = true}, {"p50", AT(p50), .hidden = true},                          \
        {"p95", AT(p95), .hidden = true}, {                                                        \
        "p99", AT(p99), .hidden = true                                                             \
    }
const ccl_i_described_t ccl_i_spread_record = {
    .size = sizeof(ccl_i_spread_row_t), .fields = (const ccl_i_field_t[]){OF_ONE, SHOWN, {0}}};
const ccl_i_described_t ccl_i_compare_spread_record = {
    .size = sizeof(ccl_i_spread_row_t),
    .fields = (const ccl_i_field_t[]){
        {"topology", AT(topology), .hidden = true},
        {"collective", AT(collective), .hidden = true},
        {"size_bytes", AT(size_bytes), .hidden = true},
        {"name", AT(name), "of the contender"},
        OF_ONE,
        {"rank_s", AT(rank_s), "what it is ranked by", .null = LOST},
        {"regret_s", AT(regret_s), "most that it is behind the fastest of a sample", .null = LOST},
        {"behind_s", AT(behind_s), "mean difference to the winner in the same samples",
         .null = "they have no sample with a time in common"},
        {"behind_ci_s", AT(behind_ci_s), "half of a 95 % confidence interval", .null = FEW},
        {"beats_winner", AT(beats), "share of samples in which it is faster than the winner"},
        {"fastest", AT(fastest), "share of samples in which nobody is faster"},
        {"winner", AT(winner), .hidden = true},
        {"behind", AT(behind), .hidden = true},
        SHOWN,
        {0}}};
#undef AT

/* ---------------------------------------------------------------- comparisons */

const ccl_i_spread_row_t *ccl_i_compare_spread_row(const ccl_report_comparison_t *r, uint32_t i,
                                                   uint32_t s, uint32_t k,
                                                   ccl_i_spread_row_t *out) {
    const ccl_comparison_t *c = r->comparisons[i];
    const ccl_compare_spread_t *spread;

    if (!c->spreads || c->why_not[k] || c->cells[(size_t)s * c->ncontenders + k].status != CCL_OK)
        return NULL;
    spread = &c->spreads[(size_t)s * c->ncontenders + k];
    *out = (ccl_i_spread_row_t){.topology = r->topo->name,
                                .collective = r->collectives[i]->name,
                                .name = c->names[k],
                                .size_bytes = c->sizes_bytes[s],
                                .rank_s = spread->rank,
                                .regret_s = spread->regret_s,
                                .behind_s = spread->behind.mean_s,
                                .behind_ci_s = spread->behind.ci_s,
                                .beats = spread->behind.wins,
                                .fastest = spread->fastest,
                                .winner = k == c->winner[s]};
    ccl_i_spread_row(&spread->spread, out);
    if (out->winner)
        snprintf(out->behind, sizeof(out->behind), "the winner");
    else
        plus_minus(out->behind_s, out->behind_ci_s, out->behind, sizeof(out->behind));
    return out;
}

/* The rows of one size. */
typedef struct of_size {
    const ccl_report_comparison_t *of;
    uint32_t comparison, size;
} of_size_t;

static uint64_t count_rows(const void *row) {
    const of_size_t *at = row;

    return at->of->comparisons[at->comparison]->ncontenders;
}

static const void *row_at(const void *row, uint64_t i, void *scratch) {
    const of_size_t *at = row;

    return ccl_i_compare_spread_row(at->of, at->comparison, at->size, (uint32_t)i, scratch);
}

static const ccl_i_described_t size_of = {
    .size = sizeof(of_size_t),
    .fields = (const ccl_i_field_t[]){
        {"rows", CCL_I_LIST_OF(ccl_i_compare_spread_record, count_rows, row_at)}, {0}}};

static const ccl_i_column_t columns[] = {
    CCL_I_COLUMN("name", "contender"),
    CCL_I_COLUMN("p50", "p50(us)", .right = true),
    CCL_I_COLUMN("p95", "p95(us)", .right = true),
    CCL_I_COLUMN("p99", "p99(us)", .right = true),
    CCL_I_COLUMN("mean", "mean(us)", .right = true),
    CCL_I_COLUMN("regret_s", "regret(us)", us, .none = "lost"),
    CCL_I_COLUMN("lost"),
    CCL_I_COLUMN("fastest", "fastest in(%)", ccl_i_show_percent),
    CCL_I_COLUMN("behind", "behind the winner(us)", .right = true),
    CCL_I_COLUMNS_END};

ccl_status_t ccl_i_compare_spread_text(const ccl_report_comparison_t *r, uint32_t i,
                                       ccl_text_t *out, ccl_error_t *err) {
    const ccl_comparison_t *c = r->comparisons[i];
    char text[40], rank[40];

    for (uint32_t s = 0; c->spreads && s < c->nsizes; s++) {
        of_size_t at = {r, i, s};

        ccl_text_printf(out, "\nOver %u samples of the scenario at %s\n", c->nsamples,
                        ccl_format_bytes(c->sizes_bytes[s], text, sizeof(text)));
        CCL_TRY(ccl_i_rows_emit(&size_of, "rows", &at, columns, CCL_REPORT_TEXT, out, err));
    }
    if (c->spreads)
        ccl_text_printf(
            out,
            "  in brackets and behind +-: 95 %% confidence intervals; -: more samples are needed\n"
            "  regret  most that it is behind the fastest of a sample\n"
            "  lost    samples in which it cannot run on what is left\n"
            "  winners by %s\n",
            ccl_i_rank_text(c->rank, rank, sizeof(rank))
                ? rank
                : "their time on the cluster as drawn (--rank chooses by samples)");
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- one program */

static uint64_t one(const void *row) {
    (void)row;
    return 1;
}

static const void *itself(const void *row, uint64_t i, void *scratch) {
    (void)i;
    (void)scratch;
    return row;
}

static const ccl_i_described_t run_of = {
    .size = sizeof(ccl_i_spread_row_t),
    .fields =
        (const ccl_i_field_t[]){{"rows", CCL_I_LIST_OF(ccl_i_spread_record, one, itself)}, {0}}};

static const ccl_i_column_t run_columns[] = {CCL_I_COLUMN("p50", "p50(us)", .right = true),
                                             CCL_I_COLUMN("p95", "p95(us)", .right = true),
                                             CCL_I_COLUMN("p99", "p99(us)", .right = true),
                                             CCL_I_COLUMN("mean", "mean(us)", .right = true),
                                             CCL_I_COLUMN("min_s", "least(us)", us),
                                             CCL_I_COLUMN("max_s", "most(us)", us),
                                             CCL_I_COLUMN("lost"),
                                             CCL_I_COLUMNS_END};

ccl_status_t ccl_i_run_spread_text(const ccl_report_run_t *run, ccl_text_t *out, ccl_error_t *err) {
    ccl_i_spread_row_t row = {0};

    if (!run->spread)
        return CCL_OK;
    ccl_i_spread_row(run->spread, &row);
    ccl_text_printf(out, "\nOver %u samples of the scenario\n", row.samples);
    CCL_TRY(ccl_i_rows_emit(&run_of, "rows", &row, run_columns, CCL_REPORT_TEXT, out, err));
    ccl_text_printf(out, "  in brackets and behind +-: 95 %% confidence intervals; -: more samples "
                         "are needed\n");
    return ccl_i_text_status(out, err);
}
