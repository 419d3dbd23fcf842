/* What `export` has chosen for NCCL, and the files that it wrote. */
#include "report/rows.h"

#include <math.h>
#include <string.h>

/** One range of sizes: what NCCL gets, and what it takes by itself. */
typedef struct choice_row {
    const char *collective;
    double min_bytes, max_bytes, at_bytes, time_s, stock_s, speedup;
    uint32_t force;
    char function[40], choice[64], stock[64], selection[40];
} choice_row_t;

/** "ncclAllReduceConfig". */
static const char *function_of(ccl_collective_kind_t kind) {
    switch (kind) {
    case CCL_ALLREDUCE:
        return "ncclAllReduceConfig";
    case CCL_ALLGATHER:
        return "ncclAllGatherConfig";
    case CCL_REDUCESCATTER:
        return "ncclReduceScatterConfig";
    case CCL_BROADCAST:
        return "ncclBroadcastConfig";
    default:
        return "ncclReduceConfig";
    }
}

static uint64_t count_choices(const void *root) {
    const ccl_report_export_t *about = root;

    return about->table ? about->table->nrows : 0;
}

static const void *choice_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_export_t *about = root;
    const ccl_export_choice_t *c = &about->table->rows[i];
    choice_row_t *row = scratch;

    *row = (choice_row_t){.collective = ccl_collective_kind_name(c->kind),
                          .min_bytes = c->min_bytes,
                          .max_bytes = c->max_bytes,
                          .at_bytes = c->at_bytes,
                          .time_s = c->time_s,
                          .stock_s = c->stock_s,
                          .speedup = c->stock_s / c->time_s};
    snprintf(row->function, sizeof(row->function), "%s", function_of(c->kind));
    ccl_nccl_choice_text(&c->choice, row->choice, sizeof(row->choice));
    ccl_nccl_choice_text(&c->stock, row->stock, sizeof(row->stock));
    ccl_export_selection(&c->choice, row->selection, sizeof(row->selection));
    return row;
}

static uint64_t count_files(const void *root) {
    const ccl_report_export_t *about = root;

    return about->nfiles;
}

static const void *file_at(const void *root, uint64_t i, void *scratch) {
    const ccl_report_export_t *about = root;

    (void)scratch;
    return &about->files[i];
}

#define CONFIG(member) CCL_I_AT(choice_row_t, member)
static const ccl_i_described_t config_record = {
    .fields =
        (const ccl_i_field_t[]){{"algSelection", CONFIG(selection), "what the call may take"},
                                {"forceAlgSelection", CONFIG(force),
                                 "0: where the communicator has none of it NCCL chooses itself"},
                                {0}}};
static const ccl_i_described_t choice_record = {
    .size = sizeof(choice_row_t),
    .fields = (const ccl_i_field_t[]){
        {"collective", CONFIG(collective)},
        {"function", CONFIG(function), "of NCCL, which takes the configuration"},
        {"min_bytes", CONFIG(min_bytes), "of the largest buffer of a rank", .whole = true},
        {"max_bytes", CONFIG(max_bytes), "both included", .whole = true},
        {"config", CCL_I_PART_OF(config_record), "members of ncclCollConfig_t; others stay unset"},
        {"choice", CONFIG(choice), "the same in words, with the number of channels"},
        {"at_bytes", CONFIG(at_bytes), "the size at which the times are", .whole = true},
        {"time_s", CONFIG(time_s), "by the model"},
        {"nccl", CONFIG(stock), "what NCCL takes there by itself"},
        {"nccl_s", CONFIG(stock_s), "by the model"},
        {"speedup", CONFIG(speedup), "nccl_s / time_s"},
        {0}}};
#undef CONFIG
static const ccl_i_described_t file_record = {
    .fields = (const ccl_i_field_t[]){{"path", CCL_I_AT(ccl_report_file_t, path)},
                                      {"what", CCL_I_AT(ccl_report_file_t, what), "what it is"},
                                      {0}}};

#define AT(member) CCL_I_AT(ccl_report_export_t, member)
const ccl_i_result_t ccl_i_result_export = {
    "export", "ccllab export", "choices for calls of NCCL, and files for other libraries",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"topology", AT(topology), "the cluster"},
            CCL_I_PROFILE(AT(profile)),
            {"topology_hash", AT(hash), "of its description", .null = "no choices were made"},
            {"nranks", AT(nranks)},
            {"nnodes", AT(nnodes), "as NCCL counts them", .null = "no choices were made"},
            {"registered", AT(registered), "for registered buffers"},
            {"choices", CCL_I_LIST_OF(choice_record, count_choices, choice_at),
             "by collective, then by size; outside of them nothing is learned"},
            {"files", CCL_I_LIST_OF(file_record, count_files, file_at), "that were written"},
            {0}}}};
#undef AT

static const ccl_i_column_t text_columns[] = {CCL_I_COLUMN("collective"),
                                              CCL_I_COLUMN("min_bytes", "from", ccl_format_bytes),
                                              CCL_I_COLUMN("max_bytes", "to", ccl_format_bytes),
                                              CCL_I_COLUMN("choice"),
                                              CCL_I_COLUMN("time_s", "time(us)", ccl_i_us),
                                              CCL_I_COLUMN("nccl", "nccl takes"),
                                              CCL_I_COLUMN("nccl_s", "time(us)", ccl_i_us),
                                              CCL_I_COLUMN("speedup", NULL, ccl_i_show_2),
                                              CCL_I_COLUMNS_END};

ccl_status_t ccl_report_export(const ccl_report_export_t *about, const ccl_report_style_t *style,
                               ccl_text_t *out, ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_export, about, out, err);
    if (style->format == CCL_REPORT_CSV)
        return ccl_i_rows_emit(ccl_i_result_export.root, "choices", about, NULL, style->format, out,
                               err);
    if (about->table) {
        ccl_text_printf(out, "%s: %u GPUs on %u servers, topology %s (by the model)\n\n",
                        about->topology, about->nranks, about->nnodes, about->hash);
        CCL_TRY(ccl_i_rows_emit(ccl_i_result_export.root, "choices", about, text_columns,
                                style->format, out, err));
        ccl_text_printf(out, "\n  times at the largest size of a range that was looked at\n");
    }
    for (uint32_t i = 0; i < about->nfiles; i++)
        ccl_text_printf(out, "%s: %s\n", about->files[i].path, about->files[i].what);
    return ccl_i_text_status(out, err);
}
