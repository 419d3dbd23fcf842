/* Plans for single failures: what today's schedules lose, and what the best repaired ones reach. */
#include "report/rows.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- rows */

/** Today's winner at one size. */
typedef struct today_row {
    const char *winner, *proto, *origin, *program;
    double size_bytes, time_s, nccl_s, bound_s, gap;
} today_row_t;

/** One failure at one size. */
typedef struct plan_row {
    const char *stays_why, *best, *proto, *origin, *program;
    bool same;
    double size_bytes, stays_s, stays_loss, nccl_stays_s, time_s, loss, nccl_s, bound_s, gap;
    /* of its case, for tables */
    const char *kind, *edit, *why;
    uint32_t nalike, nranks;
    char failure[400], gap_text[40], stays_text[40];
} plan_row_t;

typedef struct case_row {
    const ccl_report_failover_t *about;
    const ccl_failover_case_t *of;
    uint32_t at;
    const char *kind, *name, *edit, *why;
    uint32_t nalike, nranks, same_as;
} case_row_t;

typedef struct root {
    const ccl_report_failover_t *about;
    const char *topology, *profile, *collective, *library;
    uint32_t nranks, nfailures, ncases, finished;
} root_t;

static const char *file_of(const ccl_report_failover_t *about, uint32_t which, uint32_t size) {
    uint32_t at = which == CCL_NONE ? about->failover->ncases : which;

    if (which != CCL_NONE && about->failover->cases[which].same_as != CCL_NONE)
        at = about->failover->cases[which].same_as; /* its programs */

    return about->programs ? about->programs[(size_t)at * about->failover->nsizes + size] : NULL;
}

static uint64_t count_sizes(const void *row) {
    const root_t *root = row;

    return root->about->failover->nsizes;
}

static const void *today_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
    const ccl_failover_today_t *t = &root->about->failover->today[i];
    today_row_t *out = scratch;

    *out = (today_row_t){.winner = t->winner,
                         .proto = t->winner ? t->proto : NULL,
                         .origin = t->origin,
                         .program = file_of(root->about, CCL_NONE, (uint32_t)i),
                         .size_bytes = root->about->failover->sizes_bytes[i],
                         .time_s = t->time_s,
                         .nccl_s = t->nccl_s,
                         .bound_s = t->bound_s,
                         .gap = ccl_i_gap(t->time_s, t->bound_s)};
    return out;
}

static const void *fill_plan(const ccl_report_failover_t *about, uint32_t which, uint32_t size,
                             plan_row_t *out) {
    const ccl_failover_case_t *c = &about->failover->cases[which];
    const ccl_failover_plan_t *p = &c->plans[size];
    double today_s = about->failover->today[size].time_s;

    *out = (plan_row_t){.stays_why = p->stays_why,
                        .best = p->best,
                        .proto = p->best ? p->proto : NULL,
                        .origin = p->origin,
                        .program = file_of(about, which, size),
                        .same = p->same,
                        .size_bytes = about->failover->sizes_bytes[size],
                        .stays_s = p->stays_s,
                        .stays_loss = p->stays_s / today_s - 1,
                        .nccl_stays_s = p->nccl_stays_s,
                        .time_s = p->best_s,
                        .loss = p->best_s / today_s - 1,
                        .nccl_s = p->nccl_s,
                        .bound_s = p->bound_s,
                        .gap = ccl_i_gap(p->best_s, p->bound_s),
                        .kind = ccl_failure_kind_name(c->failure.kind),
                        .edit = c->failure.edit,
                        .why = c->why,
                        .nalike = c->failure.nalike,
                        .nranks = c->nranks};
    snprintf(out->failure, sizeof(out->failure), "%s %.380s", out->kind, c->failure.name);
    ccl_i_gap_text(out->time_s, out->bound_s, out->gap_text, sizeof(out->gap_text));
    if (p->stays_s < INFINITY)
        ccl_i_us(p->stays_s, out->stays_text, sizeof(out->stays_text));
    else
        snprintf(out->stays_text, sizeof(out->stays_text), "%s",
                 c->status == CCL_OK ? "cannot" : "-");
    return out;
}

static const void *plan_at(const void *row, uint64_t i, void *scratch) {
    const case_row_t *c = row;

    return fill_plan(c->about, c->at, (uint32_t)i, scratch);
}

static uint64_t count_plans(const void *row) {
    const case_row_t *c = row;

    return c->of->status == CCL_OK ? c->about->failover->nsizes : 0;
}

static uint64_t count_alike(const void *row) {
    const case_row_t *c = row;

    return c->of->failure.nalike;
}

static const void *alike_at(const void *row, uint64_t i, void *scratch) {
    const case_row_t *c = row;

    (void)scratch;
    return &c->of->failure.alike[i];
}

/* Cases that an interruption left out are at the end. */
static uint64_t count_cases(const void *row) {
    const root_t *root = row;

    return root->finished;
}

static const void *case_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
    const ccl_failover_case_t *c = &root->about->failover->cases[i];
    case_row_t *out = scratch;

    *out = (case_row_t){.about = root->about,
                        .of = c,
                        .at = (uint32_t)i,
                        .kind = ccl_failure_kind_name(c->failure.kind),
                        .name = c->failure.name,
                        .edit = c->failure.edit,
                        .why = c->why,
                        .nalike = c->failure.nalike,
                        .nranks = c->nranks,
                        .same_as = c->same_as};
    return out;
}

/** All cases, and of each all sizes. */
static uint64_t count_rows(const void *row) {
    const root_t *root = row;

    return (uint64_t)root->finished * root->about->failover->nsizes;
}

static const void *row_at(const void *row, uint64_t i, void *scratch) {
    const root_t *root = row;
    uint32_t nsizes = root->about->failover->nsizes;

    return fill_plan(root->about, (uint32_t)(i / nsizes), (uint32_t)(i % nsizes), scratch);
}

static const char *const kind_words[] = {"nic", "link", "gpu", "server", NULL};
#define NOBODY "nobody can run"
#define NOT_ASKED "it cannot run, or was not asked"
#define NOT_EXPORTED "without --export, or where nobody can run"
#define AT(member) CCL_I_AT(today_row_t, member)
static const ccl_i_described_t today_record = {
    .size = sizeof(today_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size_bytes", AT(size_bytes)},
        {"winner", AT(winner), "whose schedule is the fastest", .null = NOBODY},
        {"proto", AT(proto), .null = NOBODY},
        {"origin", AT(origin), "who made it, and how", .null = NOBODY},
        {"time_s", AT(time_s), .null = NOBODY},
        {"nccl_s", AT(nccl_s), "of what stock software runs", .null = NOT_ASKED},
        {"bound_s", AT(bound_s), "no schedule is faster"},
        {"gap", AT(gap), "time_s / bound_s", .null = NOBODY},
        {"program", AT(program), "its file in the folder of --export", .null = NOT_EXPORTED},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(plan_row_t, member)
static const ccl_i_described_t plan_record = {
    .size = sizeof(plan_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size_bytes", AT(size_bytes)},
        {"stays_s", AT(stays_s), "today's winner on what is left", .null = "it cannot run"},
        {"stays_loss", AT(stays_loss), "stays_s / its time on the whole cluster - 1",
         .null = "it cannot run"},
        {"stays_why", AT(stays_why), "why it cannot run", .null = "it can, or ranks are gone"},
        {"nccl_stays_s", AT(nccl_stays_s), "the same of what stock software runs today",
         .null = NOT_ASKED},
        {"best", AT(best), "whose schedule is the fastest on what is left", .null = NOBODY},
        {"same", AT(same), "that is today's, over other routes"},
        {"proto", AT(proto), .null = NOBODY},
        {"origin", AT(origin), "who made it, and how", .null = NOBODY},
        {"time_s", AT(time_s), "of the best", .null = NOBODY},
        {"loss", AT(loss), "time_s / the winner's on the whole cluster - 1", .null = NOBODY},
        {"nccl_s", AT(nccl_s), "of what stock software would choose on what is left",
         .null = NOT_ASKED},
        {"bound_s", AT(bound_s), "no schedule is faster on what is left"},
        {"gap", AT(gap), "time_s / bound_s", .null = NOBODY},
        {"program", AT(program), "its file in the folder of --export", .null = NOT_EXPORTED},
        {"kind", AT(kind), .hidden = true},
        {"edit", AT(edit), .hidden = true},
        {"failure", AT(failure), .hidden = true},
        {"why", AT(why), .hidden = true, .null = "there are plans"},
        {"alike", AT(nalike), .hidden = true},
        {"nranks", AT(nranks), .hidden = true},
        {"gap_text", AT(gap_text), .hidden = true},
        {"stays_text", AT(stays_text), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(case_row_t, member)
static const ccl_i_described_t case_record = {
    .size = sizeof(case_row_t),
    .fields =
        (const ccl_i_field_t[]){
            {"kind", AT(kind), "what fails; a server has half its bandwidth", .words = kind_words},
            {"name", AT(name), "of the first of them"},
            {"edit", AT(edit), "that makes this failure of the whole cluster"},
            {"alike", AT(nalike), "failures that symmetry makes alike, this one included"},
            {"names", CCL_I_LIST_OF(ccl_i_bare_string, count_alike, alike_at), "of them all",
             .line = true},
            {"nranks", AT(nranks), "that are left"},
            {"same_as", AT(same_as),
             "case, from 0, that leaves the same cluster but for NICs that lead nowhere: the plans "
             "are its",
             .null = "there is none"},
            {"why", AT(why), "why there are no plans", .null = "there are"},
            {"plans", CCL_I_LIST_OF(plan_record, count_plans, plan_at), "by size"},
            {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(root_t, member)
const ccl_i_result_t ccl_i_result_failover = {
    "failover", "ccllab failover", "plans for every single failure of a cluster",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"topology", AT(topology), "the whole cluster"},
            CCL_I_PROFILE(AT(profile)),
            {"nranks", AT(nranks)},
            {"collective", AT(collective)},
            {"library", AT(library), "stock software that the plans stand beside",
             .null = "it was not asked"},
            {"failures", AT(nfailures), "single failures that there are"},
            {"classes", AT(ncases), "of them, each of which is looked at once"},
            {"finished", AT(finished), "classes below; fewer where the command was interrupted"},
            {"today", CCL_I_LIST_OF(today_record, count_sizes, today_at), "on the whole cluster"},
            {"cases", CCL_I_LIST_OF(case_record, count_cases, case_at), "the failures"},
            {"rows", CCL_I_LIST_OF(plan_record, count_rows, row_at), .hidden = true},
            {0}}}};
#undef AT

/* ---------------------------------------------------------------- tables */

static const ccl_i_column_t csv_columns[] = {
    CCL_I_COLUMN("kind"),       CCL_I_COLUMN("edit"),       CCL_I_COLUMN("alike"),
    CCL_I_COLUMN("nranks"),     CCL_I_COLUMN("size_bytes"), CCL_I_COLUMN("stays_s"),
    CCL_I_COLUMN("stays_loss"), CCL_I_COLUMN("best"),       CCL_I_COLUMN("same"),
    CCL_I_COLUMN("proto"),      CCL_I_COLUMN("time_s"),     CCL_I_COLUMN("loss"),
    CCL_I_COLUMN("bound_s"),    CCL_I_COLUMN("gap"),        CCL_I_COLUMN("nccl_stays_s"),
    CCL_I_COLUMN("nccl_s"),     CCL_I_COLUMN("program"),    CCL_I_COLUMN("why"),
    CCL_I_COLUMN("stays_why"),  CCL_I_COLUMN("origin"),     CCL_I_COLUMNS_END};
static const ccl_i_column_t today_columns[] = {CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
                                               CCL_I_COLUMN("winner", NULL, NULL, "nobody"),
                                               CCL_I_COLUMN("time_s", "time(us)", ccl_i_us, "-"),
                                               CCL_I_COLUMN("bound_s", "bound(us)", ccl_i_us, "-"),
                                               CCL_I_COLUMN("gap", NULL, ccl_i_show_gap, "-"),
                                               CCL_I_COLUMN("nccl_s", "nccl(us)", ccl_i_us, "-"),
                                               CCL_I_COLUMNS_END};
static const ccl_i_column_t text_columns[] = {
    CCL_I_COLUMN("failure"),
    CCL_I_COLUMN("alike"),
    CCL_I_COLUMN("nranks", "GPUs"),
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("stays_text", "stays(us)", .right = true),
    CCL_I_COLUMN("stays_loss", "loss(%)", ccl_i_show_percent, "-"),
    CCL_I_COLUMN("best", NULL, NULL, "nobody"),
    CCL_I_COLUMN("time_s", "time(us)", ccl_i_us, "-"),
    CCL_I_COLUMN("loss", "loss(%)", ccl_i_show_percent, "-"),
    CCL_I_COLUMN("bound_s", "bound(us)", ccl_i_us, "-"),
    CCL_I_COLUMN("gap_text", "gap", .right = true),
    CCL_I_COLUMN("nccl_stays_s", "nccl stays(us)", ccl_i_us, "-"),
    CCL_I_COLUMN("nccl_s", "nccl(us)", ccl_i_us, "-"),
    CCL_I_COLUMNS_END};

/* Reasons, each once, with whom they hold for. */
static void tell_reasons(const root_t *root, ccl_text_t *out) {
    const ccl_failover_t *f = root->about->failover;

    for (uint32_t i = 0; i < root->finished; i++) {
        const ccl_failover_case_t *c = &f->cases[i];
        const char *kind = ccl_failure_kind_name(c->failure.kind);

        if (c->status != CCL_OK) {
            ccl_text_printf(out, "  %s %s: no plan: %s\n", kind, c->failure.name, c->why);
            continue;
        }
        if (c->same_as != CCL_NONE) {
            ccl_text_printf(out, "  %s %s: leaves what %s %s leaves\n", kind, c->failure.name,
                            ccl_failure_kind_name(f->cases[c->same_as].failure.kind),
                            f->cases[c->same_as].failure.name);
            continue;
        }
        if (c->nranks < root->nranks) {
            ccl_text_printf(out, "  %s %s: %u ranks go on; today's schedule needs all %u\n", kind,
                            c->failure.name, c->nranks, root->nranks);
            continue;
        }
        for (uint32_t s = 0; s < f->nsizes; s++) {
            const char *why = c->plans[s].stays_why;
            char size[32];

            if (!why || (s > 0 && c->plans[s - 1].stays_why &&
                         strcmp(f->today[s].winner, f->today[s - 1].winner) == 0))
                continue;
            ccl_text_printf(out, "  %s %s: %s of %s cannot stay: %s\n", kind, c->failure.name,
                            f->today[s].winner,
                            ccl_format_bytes(f->sizes_bytes[s], size, sizeof(size)), why);
        }
    }
}

static ccl_status_t text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_report_failover_t *about = root->about;
    char with[300];

    ccl_text_printf(out, "%s on %s: %u GPUs, %u single failures, %u of them different",
                    root->collective, root->topology, root->nranks, root->nfailures, root->ncases);
    if (root->finished < root->ncases)
        ccl_text_printf(out, ", %u looked at", root->finished);
    ccl_text_printf(out, "\nwith %s\n\nThe whole cluster\n",
                    ccl_i_constants_text(about->topo, with, sizeof(with)));
    CCL_TRY(ccl_i_rows_emit(ccl_i_result_failover.root, "today", root, today_columns,
                            CCL_REPORT_TEXT, out, err));
    ccl_text_printf(out,
                    "\nAfter one failure: its winner if it stays, and the best of what is left\n");
    CCL_TRY(ccl_i_rows_emit(ccl_i_result_failover.root, "rows", root, text_columns, CCL_REPORT_TEXT,
                            out, err));
    ccl_text_printf(
        out, "\n  alike  failures that are the same by symmetry; the first of them is named and "
             "looked at\n"
             "  server  all its links have half their bandwidth\n"
             "  stays  today's winner, over the routes that are left\n"
             "  loss   time / the winner's on the whole cluster - 1\n"
             "  bound  no schedule is faster on what is left; gap: time / bound\n"
             "  nccl stays, nccl  stock software as it runs today, and as it would choose now\n");
    tell_reasons(root, out);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_failover(const ccl_report_failover_t *about,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    const ccl_failover_t *f = about->failover;
    root_t root = {.about = about,
                   .topology = about->topo->name,
                   .profile = ccl_i_profile_name(about->topo),
                   .collective = about->want->name,
                   .library = f->library,
                   .nranks = about->want->nranks,
                   .nfailures = f->nfailures,
                   .ncases = f->ncases,
                   .finished = f->finished};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_failover, &root, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_rows_emit(ccl_i_result_failover.root, "rows", &root, csv_columns,
                               style->format, out, err);
    return text(&root, out, err);
}
