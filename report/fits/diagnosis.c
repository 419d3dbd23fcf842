/* Diagnoses as text, JSON and CSV: the verdict, the causes, then the rows. */
#include "report/describe.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SHOWN 0.1 /* of a cause's probability */
#define MOST_SHOWN 4u

typedef struct point_row {
    const char *collective, *algo, *proto, *best_algo, *best_proto, *limit, *link_kind, *verdict;
    const char *limited_by; /* the kind of link, or the limit */
    const char *mark;       /* the verdict in a word */
    const char *cause;      /* of the run */
    double probability;
    uint32_t nranks, channels;
    double size_bytes, measured_s, measured_busbw_GBps, expected_s, expected_busbw_GBps, ratio,
        best_s, link_use;
    bool normal;
    char nccl[80]; /* "ring Simple x16" */
} point_row_t;

typedef struct run_row {
    const ccl_diagnosis_run_t *of;
    const char *collective, *gpu, *type, *label, *verdict, *cause;
    uint32_t nranks, line, normal;
    double probability;
    bool in_place;
} run_row_t;

typedef struct cause_row {
    const char *cause, *claim, *evidence, *next;
    double probability;
} cause_row_t;

typedef struct diagnosed {
    const ccl_report_diagnosis_t *of;
    const char *input, *topology, *profile, *verdict;
} diagnosed_t;

static uint64_t count_causes(const void *row) {
    return ((const run_row_t *)row)->of->ncauses;
}

static const void *cause_at(const void *row, uint64_t i, void *scratch) {
    const ccl_cause_t *c = &((const run_row_t *)row)->of->causes[i];
    cause_row_t *out = scratch;

    *out = (cause_row_t){ccl_cause_name(c->kind), c->claim, c->evidence, c->next, c->probability};
    return out;
}

static uint64_t count_settings(const void *row) {
    return ((const run_row_t *)row)->of->run->nsettings;
}

static const void *setting_at(const void *row, uint64_t i, void *scratch) {
    (void)scratch;
    return &((const run_row_t *)row)->of->run->settings[i];
}

static uint64_t count_points(const void *row) {
    const run_row_t *run = row;

    return run->of->npoints;
}

static const void *point_of(const ccl_diagnosis_run_t *run, uint64_t i, point_row_t *out) {
    const ccl_diagnosis_t *d = &run->points[i];
    const ccl_nccl_choice_t *choice = &d->expected.choice;

    *out = (point_row_t){.collective = ccl_collective_kind_name(run->run->kind),
                         .nranks = run->run->nranks,
                         .size_bytes = d->size_bytes,
                         .measured_s = d->measured_s,
                         .measured_busbw_GBps = d->measured_busbw_GBps,
                         .expected_s = d->expected.time_s,
                         .expected_busbw_GBps = d->expected.busbw_GBps,
                         .ratio = d->ratio,
                         .algo = ccl_nccl_algo_name(choice->algo),
                         .proto = ccl_nccl_proto_name(choice->proto),
                         .channels = choice->channels,
                         .best_s = d->best.time_s,
                         .best_algo = ccl_nccl_algo_name(d->best.choice.algo),
                         .best_proto = ccl_nccl_proto_name(d->best.choice.proto),
                         .limit = ccl_limit_name(d->limit),
                         .link_kind = d->expected.link_kind,
                         .link_use = d->expected.link_use,
                         .normal = d->normal,
                         .verdict = d->verdict,
                         .mark = d->normal      ? "normal"
                                 : d->ratio > 1 ? "fast"
                                                : "slow",
                         .cause = run->ncauses ? ccl_cause_name(run->causes[0].kind) : "",
                         .probability = run->ncauses ? run->causes[0].probability : NAN};
    out->limited_by = d->limit == CCL_LIMIT_LINK ? out->link_kind : out->limit;
    snprintf(out->nccl, sizeof out->nccl, "%s %s x%u", out->algo, out->proto, out->channels);
    return out;
}

static const void *point_at(const void *row, uint64_t i, void *scratch) {
    const run_row_t *run = row;

    return point_of(run->of, i, scratch);
}

static uint64_t count_diagnosed(const void *root) {
    const diagnosed_t *about = root;

    return about->of->ndiagnoses;
}

static const void *diagnosed_at(const void *root, uint64_t i, void *scratch) {
    const ccl_diagnosis_run_t *d = ((const diagnosed_t *)root)->of->diagnoses[i];
    run_row_t *out = scratch;

    *out = (run_row_t){.of = d,
                       .collective = ccl_collective_kind_name(d->run->kind),
                       .gpu = d->run->gpu,
                       .type = d->run->type,
                       .label = d->run->label,
                       .nranks = d->run->nranks,
                       .line = (uint32_t)d->run->line,
                       .in_place = d->in_place,
                       .verdict = d->verdict,
                       .cause = d->ncauses ? ccl_cause_name(d->causes[0].kind) : NULL,
                       .probability = d->ncauses ? d->causes[0].probability : NAN};
    for (uint32_t k = 0; k < d->npoints; k++)
        out->normal += d->points[k].normal;
    return out;
}

/** The points of all runs. */
static uint64_t count_all(const void *root) {
    const diagnosed_t *about = root;
    uint64_t n = 0;

    for (uint32_t r = 0; r < about->of->ndiagnoses; r++)
        n += about->of->diagnoses[r]->npoints;
    return n;
}

static const void *any_point_at(const void *root, uint64_t i, void *scratch) {
    const diagnosed_t *about = root;
    uint32_t r = 0;

    for (; i >= about->of->diagnoses[r]->npoints; r++)
        i -= about->of->diagnoses[r]->npoints;
    return point_of(about->of->diagnoses[r], i, scratch);
}

#define AT(member) CCL_I_AT(point_row_t, member)
static const ccl_i_described_t point_record = {
    .size = sizeof(point_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size_bytes", AT(size_bytes)},
        {"measured_s", AT(measured_s)},
        {"measured_busbw_GBps", AT(measured_busbw_GBps)},
        {"expected_s", AT(expected_s), "with what NCCL chooses"},
        {"expected_busbw_GBps", AT(expected_busbw_GBps)},
        {"ratio", AT(ratio), "measured_s / expected_s"},
        {"algo", AT(algo), "that NCCL chooses"},
        {"proto", AT(proto), "that NCCL chooses"},
        {"channels", AT(channels), "that NCCL uses"},
        {"best_s", AT(best_s), "the fastest of ring and tree with any protocol"},
        {"best_algo", AT(best_algo)},
        {"best_proto", AT(best_proto)},
        {"limit", AT(limit), "what limits the expected time"},
        {"link_kind", AT(link_kind), "of the busiest link", .null = "no link carries data"},
        {"link_use", AT(link_use), "of the busiest link, 0..1"},
        {"normal", AT(normal), "the measured time is as expected"},
        {"verdict", AT(verdict), "in words"},
        {"collective", AT(collective), .hidden = true},
        {"nranks", AT(nranks), .hidden = true},
        {"nccl", AT(nccl), .hidden = true},
        {"limited_by", AT(limited_by), .hidden = true},
        {"mark", AT(mark), .hidden = true},
        {"cause", AT(cause), .hidden = true},
        {"probability", AT(probability), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(cause_row_t, member)
static const ccl_i_described_t cause_record = {
    .size = sizeof(cause_row_t),
    .fields = (const ccl_i_field_t[]){
        {"cause", AT(cause),
         "healthy, rails, network, link, detour, blocks, launch, latency, no-nvls, setting, "
         "faster, "
         "unknown"},
        {"probability", AT(probability), "among all causes, 0..1"},
        {"claim", AT(claim), "in words"},
        {"evidence", AT(evidence)},
        {"next", AT(next), "a measurement or setting that separates it from the others"},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(ccl_measured_setting_t, member)
static const ccl_i_described_t setting_record = {
    .fields = (const ccl_i_field_t[]){{"name", AT(name)}, {"value", AT(value)}, {0}}};
#undef AT
#define AT(member) CCL_I_AT(run_row_t, member)
static const ccl_i_described_t run_record = {
    .size = sizeof(run_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"collective", AT(collective)},
            {"nranks", AT(nranks)},
            {"gpu", AT(gpu), "as the log says"},
            {"type", AT(type), "of the elements, as the log says"},
            {"label", AT(label), "as the log says"},
            {"line", AT(line), "of the log"},
            {"in_place", AT(in_place)},
            {"verdict", AT(verdict), "in a sentence"},
            {"cause", AT(cause), "the most probable", .null = "there is no size"},
            {"probability", AT(probability), "of it", .null = "there is no size"},
            {"normal_sizes", AT(normal), "how many are as expected"},
            {"causes", CCL_I_LIST_OF(cause_record, count_causes, cause_at),
             "from 0.01 on, the most probable first"},
            {"settings", CCL_I_LIST_OF(setting_record, count_settings, setting_at),
             "NCCL's variables that the log names"},
            {"sizes", CCL_I_LIST_OF(point_record, count_points, point_at)},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(diagnosed_t, member)
const ccl_i_result_t ccl_i_result_diagnose = {
    "diagnose", "ccllab diagnose", "measured runs beside what the model expects",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "the log"},
            {"verdict", AT(verdict), "of all runs, in a sentence"},
            {"topology", AT(topology)},
            {"profile", AT(profile), .null = "the topology's own constants"},
            {"runs", CCL_I_LIST_OF(run_record, count_diagnosed, diagnosed_at)},
            {"all", CCL_I_LIST_OF(point_record, count_all, any_point_at), .hidden = true},
            {0}}}};
#undef AT

#define POINT_COLUMNS                                                                              \
    CCL_I_COLUMN("measured_s", "measured(us)", ccl_i_us),                                          \
        CCL_I_COLUMN("expected_s", "expected(us)", ccl_i_us),                                      \
        CCL_I_COLUMN("measured_busbw_GBps", "busbw(GB/s)", ccl_i_show_2),                          \
        CCL_I_COLUMN("expected_busbw_GBps", "expected(GB/s)", ccl_i_show_2),                       \
        CCL_I_COLUMN("ratio", NULL, ccl_i_show_2), CCL_I_COLUMN("nccl"),                           \
        CCL_I_COLUMN("limited_by", "limit")
static const ccl_i_column_t csv_columns[] = {CCL_I_COLUMN("collective"),
                                             CCL_I_COLUMN("nranks"),
                                             CCL_I_COLUMN("size_bytes"),
                                             POINT_COLUMNS,
                                             CCL_I_COLUMN("verdict"),
                                             CCL_I_COLUMN("cause"),
                                             CCL_I_COLUMN("probability", NULL, ccl_i_show_2),
                                             CCL_I_COLUMNS_END};
static const ccl_i_column_t text_columns[] = {CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
                                              POINT_COLUMNS, CCL_I_COLUMN("mark", "verdict"),
                                              CCL_I_COLUMNS_END};

/* ---------------------------------------------------------------- verdicts of rows, grouped */

/** Length of the number that begins here, "17" or "0.48"; 0: none does. */
static size_t number_length(const char *text) {
    size_t n = 0;

    while (isdigit((unsigned char)text[n]) ||
           (n > 0 && text[n] == '.' && isdigit((unsigned char)text[n + 1])))
        n++;
    return n;
}

/** Do two sentences differ in numbers alone? */
static bool same_but_numbers(const char *a, const char *b) {
    while (*a || *b) {
        size_t n = number_length(a), m = number_length(b);
        if ((n > 0) != (m > 0) || (n == 0 && *a != *b))
            return false;
        a += n ? n : 1;
        b += m ? m : 1;
    }
    return true;
}

/** Number k of a sentence. */
static double number_of(const char *text, uint32_t k, size_t *length_out) {
    for (; *text; text++) {
        size_t n = number_length(text);
        if (n > 0 && k == 0) {
            *length_out = n;
            return strtod(text, NULL);
        }
        if (n > 0) {
            text += n - 1;
            k--;
        }
    }
    return NAN;
}

/** The sentence of all points like this one, where numbers differ with both ends: "17 to 25 us". */
static void merged(const ccl_diagnosis_run_t *run, const char *like, ccl_text_t *out) {
    uint32_t k = 0;
    size_t n;

    for (const char *at = like; *at; at += n ? n : 1) {
        n = number_length(at);
        if (n == 0) {
            ccl_text_add(out, at, 1);
            continue;
        }
        double least = INFINITY, most = -INFINITY;
        size_t width = 0;
        for (uint32_t i = 0; i < run->npoints; i++) {
            if (!same_but_numbers(run->points[i].verdict, like))
                continue;
            double value = number_of(run->points[i].verdict, k, &width);
            least = fmin(least, value);
            most = fmax(most, value);
        }
        k++;
        if (least < most)
            ccl_text_printf(out, "%g to %g", least, most);
        else
            ccl_text_add(out, at, n);
    }
}

/** "64K to 8M, 1G", the sizes of all points like this one, and how many. */
static uint32_t sizes_of(const ccl_diagnosis_run_t *run, const char *like, ccl_text_t *out) {
    char first[32], last[32];
    uint32_t n = 0;

    for (uint32_t i = 0, to; i < run->npoints; i = to) {
        to = i + 1;
        if (!same_but_numbers(run->points[i].verdict, like))
            continue;
        while (to < run->npoints && same_but_numbers(run->points[to].verdict, like))
            to++;
        ccl_format_bytes(run->points[i].size_bytes, first, sizeof first);
        ccl_format_bytes(run->points[to - 1].size_bytes, last, sizeof last);
        ccl_text_printf(out, "%s%s%s%s", n ? ", " : "", first, to - i > 1 ? " to " : "",
                        to - i > 1 ? last : "");
        n += to - i;
    }
    return n;
}

static void groups_text(const ccl_diagnosis_run_t *run, ccl_text_t *out) {
    for (uint32_t i = 0; i < run->npoints; i++) {
        const ccl_diagnosis_t *d = &run->points[i];
        bool before = strcmp(d->verdict, "normal") == 0; /* the table says it */
        ccl_text_t sizes = {0}, sentence = {0};
        for (uint32_t k = 0; k < i && !before; k++)
            before = same_but_numbers(run->points[k].verdict, d->verdict);
        if (before)
            continue;
        uint32_t n = sizes_of(run, d->verdict, &sizes);
        merged(run, d->verdict, &sentence);
        ccl_text_printf(out, "  %s (%u size%s): %s\n", sizes.data ? sizes.data : "", n,
                        n > 1 ? "s" : "", sentence.data ? sentence.data : "");
        out->nomem = out->nomem || sizes.nomem || sentence.nomem;
        ccl_text_fini(&sizes);
        ccl_text_fini(&sentence);
    }
}

/* ---------------------------------------------------------------- the whole */

static void causes_text(const ccl_diagnosis_run_t *run, ccl_text_t *out) {
    bool heading = false;

    for (uint32_t i = 0; i < run->ncauses && i < MOST_SHOWN; i++) {
        const ccl_cause_t *c = &run->causes[i];
        if (c->probability < LEAST_SHOWN || (i == 0 && c->kind == CCL_CAUSE_HEALTHY))
            continue;
        if (!heading)
            ccl_text_printf(out, "probability  cause\n");
        heading = true;
        ccl_text_printf(out, "       %.2f  %s: %s", c->probability, c->claim, c->evidence);
        if (c->kind != CCL_CAUSE_HEALTHY)
            ccl_text_printf(out, "\n             next: %s", c->next);
        ccl_text_printf(out, "\n");
    }
}

static void settings_text(const ccl_measured_run_t *run, ccl_text_t *out) {
    for (uint32_t s = 0; s < run->nsettings; s++)
        ccl_text_printf(out, "%s%s=%s%s", s ? ", " : "the log sets ", run->settings[s].name,
                        run->settings[s].value, s + 1 == run->nsettings ? "\n" : "");
}

static ccl_status_t run_text(const ccl_diagnosis_run_t *run, bool alone,
                             const ccl_report_style_t *style, ccl_text_t *out, ccl_error_t *err) {
    const run_row_t row = {.of = run};

    ccl_text_printf(out, "\n%s on %u ranks", ccl_collective_kind_name(run->run->kind),
                    run->run->nranks);
    if (run->run->type[0])
        ccl_text_printf(out, ", %s", run->run->type);
    if (run->run->gpu[0])
        ccl_text_printf(out, ", %s", run->run->gpu);
    if (run->run->label[0])
        ccl_text_printf(out, ", %s", run->run->label);
    ccl_text_printf(out, ", %s\n", run->in_place ? "in place" : "out of place");
    if (!alone)
        ccl_text_printf(out, "%s\n", run->verdict);
    settings_text(run->run, out);
    causes_text(run, out);
    CCL_TRY(ccl_i_rows_emit(&run_record, "sizes", &row, text_columns, style->format, out, err));
    groups_text(run, out);
    return CCL_OK;
}

static ccl_status_t diagnosis_text(const diagnosed_t *root, const ccl_report_style_t *style,
                                   ccl_text_t *out, ccl_error_t *err) {
    const ccl_report_diagnosis_t *about = root->of;

    ccl_text_printf(out, "%s\n", root->verdict);
    if (about->profile)
        ccl_text_printf(out, "%s with profile %s (%s)\n", about->topo->name,
                        ccl_profile_name(about->profile), ccl_profile_summary(about->profile));
    else
        ccl_text_printf(out, "%s with the constants of its description\n", about->topo->name);
    for (uint32_t r = 0; r < about->ndiagnoses; r++)
        CCL_TRY(run_text(about->diagnoses[r], about->ndiagnoses == 1, style, out, err));
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_diagnosis(const ccl_report_diagnosis_t *about,
                                  const ccl_report_style_t *style, ccl_text_t *out,
                                  ccl_error_t *err) {
    ccl_text_t verdict = {0};
    ccl_status_t status = ccl_diagnoses_verdict(about->diagnoses, about->ndiagnoses, &verdict, err);
    const diagnosed_t root = {about, about->input, about->topo->name,
                              about->profile ? ccl_profile_name(about->profile) : NULL,
                              verdict.data ? verdict.data : ""};

    if (status == CCL_OK && style->format == CCL_REPORT_JSON)
        status = ccl_i_result_json(&ccl_i_result_diagnose, &root, out, err);
    else if (status == CCL_OK && style->format == CCL_REPORT_CSV)
        status = ccl_i_rows_emit(ccl_i_result_diagnose.root, "all", &root, csv_columns,
                                 style->format, out, err);
    else if (status == CCL_OK)
        status = diagnosis_text(&root, style, out, err);
    ccl_text_fini(&verdict);
    return status;
}
