/* What a watch sees, per communicator and size. */
#include "report/describe.h"

#include <math.h>

typedef struct root {
    const ccl_report_watch_t *about;
    const char *input, *topology, *profile;
    uint32_t nslow;
    uint64_t calls, bad;
} root_t;

typedef struct run_row {
    const ccl_watch_run_t *of;
    const char *communicator, *clock, *collective, *verdict;
    uint32_t nranks, nnodes;
    double probability;
} run_row_t;

typedef struct size_row {
    const char *communicator, *collective, *algo, *proto, *link_kind, *state, *suspect;
    uint32_t nranks, channels;
    uint64_t calls;
    double size_bytes, measured_s, spread, busbw_GBps, expected_s, expected_busbw_GBps, bound_s,
        ratio;
    char nccl[80];
} size_row_t;

static uint64_t count_runs(const void *root) {
    return ((const root_t *)root)->about->table->nruns;
}

static const void *run_at(const void *root, uint64_t i, void *scratch) {
    const ccl_watch_run_t *r = &((const root_t *)root)->about->table->runs[i];
    run_row_t *out = scratch;

    *out = (run_row_t){
        r,          r->id,     r->clock[0] ? r->clock : NULL,    ccl_collective_kind_name(r->kind),
        r->verdict, r->nranks, r->nnodes ? r->nnodes : CCL_NONE, r->probability};
    return out;
}

static uint64_t count_sizes(const void *row) {
    return ((const run_row_t *)row)->of->nrows;
}

static const void *size_of_run(const ccl_watch_run_t *run, uint64_t i, size_row_t *out) {
    const ccl_watch_row_t *r = &run->rows[i];
    bool known = r->state != CCL_WATCH_UNKNOWN;

    *out = (size_row_t){.communicator = run->id,
                        .collective = ccl_collective_kind_name(run->kind),
                        .nranks = run->nranks,
                        .size_bytes = r->size_bytes,
                        .calls = r->calls,
                        .measured_s = r->measured_s,
                        .spread = r->spread,
                        .busbw_GBps = r->busbw_GBps,
                        .expected_s = r->expected_s,
                        .expected_busbw_GBps = r->expected_busbw_GBps,
                        .bound_s = r->bound_s,
                        .ratio = r->ratio,
                        .algo = known ? ccl_nccl_algo_name(r->choice.algo) : NULL,
                        .proto = known ? ccl_nccl_proto_name(r->choice.proto) : NULL,
                        .channels = known ? r->choice.channels : CCL_NONE,
                        .link_kind = r->link_kind[0] ? r->link_kind : NULL,
                        .state = ccl_watch_state_name(r->state),
                        .suspect = r->suspect[0] ? r->suspect : NULL};
    if (known)
        snprintf(out->nccl, sizeof(out->nccl), "%s %s x%u", out->algo, out->proto, out->channels);
    return out;
}

static const void *size_at(const void *row, uint64_t i, void *scratch) {
    return size_of_run(((const run_row_t *)row)->of, i, scratch);
}

/** The sizes of all runs. */
static uint64_t count_all(const void *root) {
    const ccl_watch_table_t *table = ((const root_t *)root)->about->table;
    uint64_t n = 0;

    for (uint32_t r = 0; r < table->nruns; r++)
        n += table->runs[r].nrows;
    return n;
}

static const void *any_size_at(const void *root, uint64_t i, void *scratch) {
    const ccl_watch_run_t *run = ((const root_t *)root)->about->table->runs;

    for (; i >= run->nrows; run++)
        i -= run->nrows;
    return size_of_run(run, i, scratch);
}

static const char *const state_words[] = {"normal", "slow", "fast", "unknown", NULL};

#define AT(member) CCL_I_AT(size_row_t, member)
static const ccl_i_described_t size_record = {
    .size = sizeof(size_row_t),
    .fields = (const ccl_i_field_t[]){
        {"size_bytes", AT(size_bytes), "as nccl-tests counts it"},
        {"calls", AT(calls), "lines of calls that were read, of all ranks"},
        {"measured_s", AT(measured_s),
         "median of the latest calls; of a call the least of its ranks"},
        {"spread", AT(spread), "relative standard deviation of these, from quartiles"},
        {"busbw_GBps", AT(busbw_GBps), "as measured"},
        {"expected_s", AT(expected_s), "with what NCCL chooses", .null = "unknown"},
        {"expected_busbw_GBps", AT(expected_busbw_GBps), .null = "unknown"},
        {"bound_s", AT(bound_s), "no schedule is faster", .null = "unknown"},
        {"ratio", AT(ratio), "expected_s / measured_s", .null = "unknown"},
        {"algo", AT(algo), "that NCCL chooses", .null = "unknown"},
        {"proto", AT(proto), "that NCCL chooses", .null = "unknown"},
        {"channels", AT(channels), "that NCCL uses", .null = "unknown"},
        {"link_kind", AT(link_kind), "of the busiest link of the expected run",
         .null = "unknown, or no link carries data"},
        {"state", AT(state), .words = state_words},
        {"suspect", AT(suspect), "link, rank or setting that the calls point to",
         .null = "there is none"},
        {"communicator", AT(communicator), .hidden = true},
        {"collective", AT(collective), .hidden = true},
        {"nranks", AT(nranks), .hidden = true},
        {"nccl", AT(nccl), .hidden = true},
        {0}}};
#undef AT
#define AT(member) CCL_I_AT(run_row_t, member)
static const ccl_i_described_t run_record = {
    .size = sizeof(run_row_t),
    .fields =
        (const ccl_i_field_t[]){{"communicator", AT(communicator), "its id, as logged"},
                                {"clock", AT(clock), "that times come from", .null = "the GPU's"},
                                {"collective", AT(collective)},
                                {"nranks", AT(nranks)},
                                {"nnodes", AT(nnodes), .null = "not logged"},
                                {"verdict", AT(verdict), "in a line"},
                                {"probability", AT(probability), "of the verdict's cause, 0..1",
                                 .null = "no cause was looked for"},
                                {"sizes", CCL_I_LIST_OF(size_record, count_sizes, size_at)},
                                {0}},
    .tall = true};
#undef AT
#define AT(member) CCL_I_AT(root_t, member)
const ccl_i_result_t ccl_i_result_watch = {
    "watch", "ccllab watch", "calls of a running job beside what the model expects",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"input", AT(input), "the file or folder"},
            {"topology", AT(topology)},
            {"profile", AT(profile), .null = "the topology's own constants"},
            {"calls", AT(calls), "lines of calls that were read"},
            {"bad_lines", AT(bad), "that were skipped"},
            {"slow_sizes", AT(nslow), "how many are slow"},
            {"communicators", CCL_I_LIST_OF(run_record, count_runs, run_at),
             "a row per communicator and collective"},
            {"all", CCL_I_LIST_OF(size_record, count_all, any_size_at), .hidden = true},
            {0}}}};
#undef AT

#define SIZE_COLUMNS(none_)                                                                        \
    CCL_I_COLUMN("calls"), CCL_I_COLUMN("measured_s", "measured(us)", ccl_i_us),                   \
        CCL_I_COLUMN("expected_s", "expected(us)", ccl_i_us, none_),                               \
        CCL_I_COLUMN("bound_s", "bound(us)", ccl_i_us, none_),                                     \
        CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_2),                                   \
        CCL_I_COLUMN("expected_busbw_GBps", "expected(GB/s)", ccl_i_show_2, none_),                \
        CCL_I_COLUMN("ratio", NULL, ccl_i_show_2, none_)
static const ccl_i_column_t csv_columns[] = {
    CCL_I_COLUMN("communicator"), CCL_I_COLUMN("collective"), CCL_I_COLUMN("nranks"),
    CCL_I_COLUMN("size_bytes"),   SIZE_COLUMNS(""),           CCL_I_COLUMN("nccl"),
    CCL_I_COLUMN("state"),        CCL_I_COLUMN("suspect"),    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_columns[] = {CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
                                              SIZE_COLUMNS("-"), CCL_I_COLUMN("nccl"),
                                              CCL_I_COLUMN("state"), CCL_I_COLUMNS_END};

/** Suspects under the table: sizes with the same words in one line. */
static void text_suspects(const ccl_watch_run_t *run, ccl_text_t *out) {
    char size[32];

    for (uint32_t i = 0; i < run->nrows; i++) {
        const char *suspect = run->rows[i].suspect;
        if (!suspect[0])
            continue;
        ccl_format_bytes(run->rows[i].size_bytes, size, sizeof(size));
        ccl_text_printf(out, "  %s: %s\n", size, suspect);
    }
}

static ccl_status_t text(const root_t *root, ccl_text_t *out, ccl_error_t *err) {
    const ccl_watch_table_t *table = root->about->table;

    if (root->nslow)
        ccl_text_printf(out, "%u size%s slower than expected", root->nslow,
                        root->nslow > 1 ? "s are" : " is");
    else
        ccl_text_printf(out, "no size is slower than expected");
    ccl_text_printf(out, ": %llu calls on %s with %s\n", (unsigned long long)root->calls,
                    root->topology, root->profile ? root->profile : "its own constants");
    if (root->bad)
        ccl_text_printf(out, "%llu lines could not be read\n", (unsigned long long)root->bad);
    for (uint32_t r = 0; r < table->nruns; r++) {
        const ccl_watch_run_t *run = &table->runs[r];
        run_row_t row;

        run_at(root, r, &row);
        ccl_text_printf(out, "\ncommunicator %s: %s on %u ranks", run->id[0] ? run->id : "?",
                        row.collective, run->nranks);
        if (run->nnodes)
            ccl_text_printf(out, ", %u node%s", run->nnodes, run->nnodes > 1 ? "s" : "");
        if (run->clock[0])
            ccl_text_printf(out, ", times by %s", run->clock);
        ccl_text_printf(out, "\n%s", run->verdict);
        if (isfinite(run->probability))
            ccl_text_printf(out, " (probability %.2f)", run->probability);
        ccl_text_printf(out, "\n");
        CCL_TRY(
            ccl_i_rows_emit(&run_record, "sizes", &row, text_columns, CCL_REPORT_TEXT, out, err));
        text_suspects(run, out);
    }
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_watch(const ccl_report_watch_t *about, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err) {
    const root_t root = {about,
                         about->input,
                         about->topo->name,
                         about->profile ? ccl_profile_name(about->profile) : NULL,
                         about->table->nslow,
                         about->table->calls,
                         about->table->bad};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_watch, &root, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_rows_emit(ccl_i_result_watch.root, "all", &root, csv_columns, style->format,
                               out, err);
    return text(&root, out, err);
}
