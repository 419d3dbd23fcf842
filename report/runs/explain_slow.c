/* Parts that are slower than others of their kind, and which of them decides. */
#include "report/runs/explain.h"

#include <math.h>

typedef struct slow_row {
    const ccl_slow_part_t *of;
    const char *what, *bandwidth, *status, *why, *with;
    uint32_t count;
    bool decides;
    double share, time_s, change, bound_s;
} slow_row_t;

static uint64_t count_edits(const void *row) {
    return ((const slow_row_t *)row)->of->nedits;
}

static const void *edit_at(const void *row, uint64_t i, void *scratch) {
    const char **edit = scratch;

    *edit = ((const slow_row_t *)row)->of->edits[i];
    return edit;
}

uint64_t ccl_i_explain_count_slow(const void *root) {
    return ((const ccl_i_explain_t *)root)->of->explanation->nslow;
}

const void *ccl_i_explain_slow_at(const void *of, uint64_t i, void *scratch) {
    const ccl_i_explain_t *root = of;
    const ccl_slow_part_t *part = &root->of->explanation->slow[i];
    ccl_text_t *with = root->edits;
    bool ran = part->status == CCL_OK;
    slow_row_t *out = scratch;

    /* The text is room that the rows share, one after the other. */
    with->len = 0;
    ccl_text_add(with, "", 0);
    ccl_i_explain_scales(part->edits, part->nedits, with);
    *out = (slow_row_t){.of = part,
                        .what = part->what,
                        .bandwidth = part->bandwidth,
                        .status = ccl_i_status_word(part->status),
                        .why = ran ? NULL : part->why,
                        .with = with->data,
                        .count = part->count,
                        .decides = part->decides,
                        .share = part->share,
                        .time_s = ran ? part->time_s : NAN,
                        .change = ran ? ccl_i_explain_share(root->of, part->time_s) - 1 : NAN,
                        .bound_s = ran ? part->bound_s : NAN};
    return out;
}

#define AT(member) CCL_I_AT(slow_row_t, member)
#define NO_RUN "it did not run"
const ccl_i_described_t ccl_i_slow_record = {
    .size = sizeof(slow_row_t),
    .fields = (const ccl_i_field_t[]){
        {"part", AT(what), "of several alike the first; the last of several rows: all together"},
        {"alike", AT(count), "parts that lack the same"},
        {"bandwidth", AT(bandwidth), "the slowest link of each kind, and the fastest elsewhere"},
        {"share", AT(share), "least bandwidth / the fastest's"},
        {"decides", AT(decides), "none gains more, and it is 1 % or more"},
        {"status", AT(status), .words = ccl_i_status_words},
        {"time_s", AT(time_s), "of the same program where they are as fast", .null = NO_RUN},
        {"change", AT(change), "of the time, relative: -0.31", .null = NO_RUN},
        {"bound_s", AT(bound_s), "there", .null = NO_RUN},
        {"why", AT(why), "it did not run", .null = "it did"},
        {"edits", CCL_I_LIST_OF(ccl_i_bare_string, count_edits, edit_at)},
        {"with", AT(with), .hidden = true},
        {0}}};
#undef AT

const ccl_i_column_t ccl_i_slow_csv[] = {CCL_I_COLUMN("part"),
                                         CCL_I_COLUMN("alike"),
                                         CCL_I_COLUMN("bandwidth"),
                                         CCL_I_COLUMN("share"),
                                         CCL_I_COLUMN("status"),
                                         CCL_I_COLUMN("time_s"),
                                         CCL_I_COLUMN("change", "relative"),
                                         CCL_I_COLUMN("bound_s"),
                                         CCL_I_COLUMN("decides"),
                                         CCL_I_COLUMN("with"),
                                         CCL_I_COLUMNS_END};

static const char *signed_percent(double share, char *out, size_t out_len) {
    snprintf(out, out_len, "%+.1f", 100 * share);
    return out;
}

const ccl_i_column_t ccl_i_slow_text[] = {CCL_I_COLUMN("part"),
                                          CCL_I_COLUMN("alike"),
                                          CCL_I_COLUMN("bandwidth", .right = false),
                                          CCL_I_COLUMN("time_s", "time(us)", ccl_i_us, "-"),
                                          CCL_I_COLUMN("change", "change(%)", signed_percent, "-"),
                                          CCL_I_COLUMN("bound_s", "bound(us)", ccl_i_us, "-"),
                                          CCL_I_COLUMNS_END};

void ccl_i_explain_slow_verdict(const ccl_report_explanation_t *a, ccl_text_t *out) {
    const ccl_explanation_t *e = a->explanation;
    const ccl_slow_part_t *part = NULL;
    char time[40];

    for (uint32_t i = 0; i < e->nslow && !part; i++)
        if (e->slow[i].decides)
            part = &e->slow[i];
    if (!e->nslow)
        return;
    if (!part) {
        ccl_text_printf(
            out,
            "  slow   %s is slower than others of its kind, which costs this run less than 1%%\n",
            e->slow[0].what);
        return;
    }
    ccl_text_printf(out, "  slow   %s", part->what);
    if (part->count > 1 && part->bandwidth[0])
        ccl_text_printf(out, " and %u alike", part->count - 1);
    ccl_text_printf(
        out, " decide%s%s%s%s: as fast as the others, the same program takes %s us (%+.1f%%)\n",
        part->count > 1 ? "" : "s", part->bandwidth[0] ? " (" : "", part->bandwidth,
        part->bandwidth[0] ? ")" : "", ccl_i_us(part->time_s, time, sizeof(time)),
        100 * (ccl_i_explain_share(a, part->time_s) - 1));
}
