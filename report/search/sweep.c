/* The same tuning on several clusters: their best beside the first one's. */
#include "report/search/sweep.h"

#include <math.h>
#include <stdlib.h>

const ccl_tune_run_t *ccl_i_sweep_best(const ccl_report_sweep_case_t *c, uint32_t size) {
    uint32_t best = c->tuning->best[size];

    return best == CCL_NONE ? NULL : &c->tuning->runs[best];
}

/* How many times as fast as the first cluster; NaN: one has no time. */
static double speedup(const ccl_report_sweep_t *about, uint32_t at, uint32_t size) {
    const ccl_tune_run_t *base = ccl_i_sweep_best(&about->cases[0], size),
                         *run = ccl_i_sweep_best(&about->cases[at], size);

    return base && run ? base->result.time_s / run->result.time_s : NAN;
}

/* ---------------------------------------------------------------- why nothing changes */

/* Times that differ by less are the same. */
static const double same = 0.005;
enum { MOST_LINKS = 4 };

bool ccl_report_sweep_same(const ccl_report_sweep_t *about, uint32_t at) {
    uint32_t known = 0;

    for (uint32_t i = 0; at > 0 && i < about->cases[0].tuning->nsizes; i++) {
        double ratio = speedup(about, at, i);

        if (fabs(ratio - 1) > same)
            return false;
        known += isfinite(ratio);
    }
    return known > 0;
}

/** Links that bind, and what the bound of the largest size says of the change. */
static void tell_why(const ccl_report_sweep_t *about, uint32_t at, ccl_text_t *out) {
    const ccl_report_sweep_case_t *c = &about->cases[at];
    const ccl_bandwidth_bound_t *b = &c->bound->bandwidth;
    uint32_t last = c->tuning->nsizes - 1;
    double ratio = about->cases[0].tuning->bound_s[last] / c->tuning->bound_s[last];
    char name[300], rate[40], bytes[40];

    ccl_text_printf(out, "%s changes nothing: ", c->name);
    if (fabs(ratio - 1) > same)
        ccl_text_printf(out,
                        "at %s its links allow a time %.2f times as short, but what was found is "
                        "held up elsewhere (ccllab explain says where)",
                        ccl_format_bytes(c->tuning->sizes_bytes[last], bytes, sizeof(bytes)),
                        ratio);
    else
        ccl_text_printf(out, "the time that no schedule beats is the same");
    if (b->nlinks)
        ccl_text_printf(out, "; the links that bind now:");
    for (uint32_t i = 0; i < b->nlinks && i < MOST_LINKS; i++)
        ccl_text_printf(
            out, "%s %s (%s, %s)", i ? "," : "",
            ccl_i_link_name(c->topo, b->links[i], name, sizeof(name)),
            c->topo->kinds[c->topo->links[b->links[i]].kind],
            ccl_format_rate(c->topo->links[b->links[i]].bandwidth_Bps, rate, sizeof(rate)));
    if (b->nlinks > MOST_LINKS)
        ccl_text_printf(out, " and %u more", b->nlinks - MOST_LINKS);
}

/* ---------------------------------------------------------------- rows */

/** The best of one cluster at one size. */
typedef struct size_row {
    const char *cluster, *settings, *origin;
    uint32_t nranks;
    double size_bytes, time_s, busbw_GBps, bound_s, speedup;
    char gap[40], options[300];
} size_row_t;

typedef struct case_row {
    const ccl_report_sweep_t *about;
    uint32_t at;
    const char *name, *profile, *stopped, *unchanged; /* NULL: something changes */
    uint32_t nranks;
    char why[2000];
} case_row_t;

static const void *size_of(const ccl_report_sweep_t *about, uint32_t at, uint32_t size,
                           size_row_t *out) {
    const ccl_report_sweep_case_t *c = &about->cases[at];
    const ccl_tune_run_t *run = ccl_i_sweep_best(c, size);

    out->cluster = c->name;
    out->settings = run ? c->tuning->points[run->point].settings : NULL;
    out->options[0] = '\0';
    if (run)
        ccl_i_options_text(&c->tuning->points[run->point], out->options, sizeof(out->options));
    out->origin = run && run->result.origin[0] ? run->result.origin : NULL;
    out->nranks = c->topo->nranks;
    out->size_bytes = c->tuning->sizes_bytes[size];
    out->time_s = run ? run->result.time_s : NAN;
    out->busbw_GBps = run ? run->result.busbw_GBps : NAN;
    out->bound_s = c->tuning->bound_s[size];
    out->speedup = speedup(about, at, size);
    ccl_i_gap_text(out->time_s, out->bound_s, out->gap, sizeof(out->gap));
    return out;
}

static uint64_t count_sizes(const void *row) {
    const case_row_t *c = row;

    return c->about->cases[c->at].tuning->nsizes;
}

static const void *size_at(const void *row, uint64_t i, void *scratch) {
    const case_row_t *c = row;

    return size_of(c->about, c->at, (uint32_t)i, scratch);
}

static uint64_t count_cases(const void *root) {
    const ccl_report_sweep_t *about = root;

    return about->ncases;
}

static const void *case_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_sweep_t *about = root;
    const ccl_report_sweep_case_t *c = &about->cases[i];
    case_row_t *out = scratch;

    *out = (case_row_t){.about = about,
                        .at = (uint32_t)i,
                        .name = c->name,
                        .profile = ccl_i_profile_name(c->topo),
                        .stopped = c->tuning->stopped,
                        .nranks = c->topo->nranks};
    if (c->bound) {
        ccl_text_t text = {0};

        tell_why(about, (uint32_t)i, &text);
        snprintf(out->why, sizeof(out->why), "%s", text.data ? text.data : "");
        ccl_text_fini(&text);
        out->unchanged = out->why;
    }
    return out;
}

/** All sizes, and at each all clusters. */
static uint64_t count_rows(const void *root) {
    const ccl_report_sweep_t *about = root;

    return (uint64_t)about->cases[0].tuning->nsizes * about->ncases;
}

static const void *row_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_sweep_t *about = root;

    return size_of(about, (uint32_t)(i % about->ncases), (uint32_t)(i / about->ncases), scratch);
}

#define AT(member) CCL_I_AT(size_row_t, member)
#define NOBODY "nothing has run to its end"
static const ccl_i_described_t size_record = {
    .size = sizeof(size_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size_bytes", AT(size_bytes)},
        {"time_s", AT(time_s), "the best", .null = NOBODY},
        {"busbw_GBps", AT(busbw_GBps), .null = NOBODY},
        {"bound_s", AT(bound_s), "no schedule is faster", .null = "there is none"},
        {"speedup", AT(speedup), "time of the first cluster / time", .null = NOBODY},
        {"settings", AT(settings), "of the best, JSON as a string", .null = NOBODY},
        {"origin", AT(origin), "who made the best schedule, and how", .null = NOBODY},
        {"case", AT(cluster), .hidden = true},
        {"nranks", AT(nranks), .hidden = true},
        {"gap", AT(gap), .hidden = true},
        {"options", AT(options), .hidden = true},
        {0}}};
#undef AT
static const ccl_i_described_t case_record = {
    .size = sizeof(case_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"name", CCL_I_AT(case_row_t, name), "of the cluster, with its edits"},
            CCL_I_PROFILE(CCL_I_AT(case_row_t, profile)),
            {"nranks", CCL_I_AT(case_row_t, nranks)},
            {"stopped", CCL_I_AT(case_row_t, stopped), "why the tuning ended",
             .words = ccl_i_stopped_words},
            {"unchanged", CCL_I_AT(case_row_t, unchanged),
             "why it is as fast as the first cluster at every size", .null = "it is not"},
            {"sizes", CCL_I_LIST_OF(size_record, count_sizes, size_at)},
            {0}},
    .tall = true};
const ccl_i_result_t ccl_i_result_sweep = {
    "sweep", "ccllab sweep", "the same tuning on several clusters",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"collective", CCL_I_AT(ccl_report_sweep_t, collective)},
            {"cases", CCL_I_LIST_OF(case_record, count_cases, case_at), "the clusters"},
            {"rows", CCL_I_LIST_OF(size_record, count_rows, row_at), .hidden = true},
            {0}}}};

/* ---------------------------------------------------------------- tables */

static const ccl_i_column_t csv_columns[] = {CCL_I_COLUMN("case"),       CCL_I_COLUMN("nranks"),
                                             CCL_I_COLUMN("size_bytes"), CCL_I_COLUMN("time_s"),
                                             CCL_I_COLUMN("busbw_GBps"), CCL_I_COLUMN("bound_s"),
                                             CCL_I_COLUMN("speedup"),    CCL_I_COLUMN("settings"),
                                             CCL_I_COLUMN("origin"),     CCL_I_COLUMNS_END};
static const ccl_i_column_t text_columns[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("case", "cluster"),
    CCL_I_COLUMN("nranks", "GPUs"),
    CCL_I_COLUMN("time_s", "time(us)", ccl_i_us, NOBODY, .last = true),
    CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("gap", .right = true),
    CCL_I_COLUMN("speedup", NULL, ccl_i_show_2, "-"),
    CCL_I_COLUMN("options", "settings"),
    CCL_I_COLUMNS_END};

static const char *case_origin(const void *of, uint32_t size, const char **name_out) {
    const ccl_report_sweep_case_t *c = of;
    const ccl_tune_run_t *run = ccl_i_sweep_best(c, size);

    *name_out = NULL;
    return run ? run->result.origin : NULL;
}

ccl_status_t ccl_report_sweep(const ccl_report_sweep_t *about, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_sweep, about, out, err);
    bool csv = style->format == CCL_REPORT_CSV;

    for (uint32_t i = 0; !csv && i < about->ncases; i++) {
        char with[300];

        ccl_text_printf(out, "%s with %s\n", about->cases[i].name,
                        ccl_i_constants_text(about->cases[i].topo, with, sizeof(with)));
    }
    if (!csv)
        ccl_text_printf(out, "\n");
    CCL_TRY(ccl_i_rows_emit(ccl_i_result_sweep.root, "rows", about,
                            csv ? csv_columns : text_columns, style->format, out, err));
    for (uint32_t i = 0; i < about->ncases && !csv; i++) {
        const ccl_report_sweep_case_t *c = &about->cases[i];
        char title[300];

        snprintf(title, sizeof(title), "  how the best came about on %.200s:", c->name);
        ccl_i_text_origins(title, c->tuning->sizes_bytes, c->tuning->nsizes, case_origin, c, out);
    }
    for (uint32_t i = 0; i < about->ncases && !csv; i++) {
        if (!about->cases[i].bound)
            continue;
        ccl_text_printf(out, "\n");
        tell_why(about, i, out);
        ccl_text_printf(out, "\n");
    }
    return ccl_i_text_status(out, err);
}
