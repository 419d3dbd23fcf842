/* Emulated clusters as text, JSON and CSV. */
#include "report/describe.h"

/* ---------------------------------------------------------------- rows */

typedef struct entry_row {
    const ccl_testbed_entry_t *of;
    const ccl_testbed_plan_t *plan; /* NULL in lists */
    const char *name, *cluster;
    bool mine;
    uint32_t pid, nranks, nservers;
    double scale, head_start_s;
} entry_row_t;

typedef struct list {
    const ccl_testbed_entry_t *entries;
    uint32_t n;
} list_t;

static entry_row_t entry_row(const ccl_testbed_entry_t *e, const ccl_testbed_plan_t *plan) {
    entry_row_t row = {e,         plan,        e->name, e->cluster, e->mine, (uint32_t)e->pid,
                       e->nranks, e->nservers, 0,       0};

    if (plan) {
        row.scale = plan->scale;
        row.head_start_s = plan->head_start_s;
    }
    return row;
}

typedef struct path_row {
    char path[40];
} path_row_t;

static uint64_t count_namespaces(const void *row) {
    const entry_row_t *entry = row;

    return entry->nservers;
}

static const void *namespace_at(const void *row, uint64_t i, void *scratch) {
    const entry_row_t *entry = row;
    path_row_t *out = scratch;

    snprintf(out->path, sizeof out->path, "/proc/%d/fd/%d", entry->of->pid, entry->of->fds[i]);
    return out;
}

static uint64_t count_servers(const void *row) {
    const entry_row_t *entry = row;

    return entry->plan->nservers;
}

static const void *server_at(const void *row, uint64_t i, void *scratch) {
    const entry_row_t *entry = row;

    (void)scratch;
    return &entry->plan->servers[i];
}

static uint64_t count_entries(const void *root) {
    const list_t *list = root;

    return list->n;
}

static const void *entry_at(const void *root, uint64_t i, void *scratch) {
    const list_t *list = root;
    entry_row_t *out = scratch;

    *out = entry_row(&list->entries[i], NULL);
    return out;
}

/* ---------------------------------------------------------------- what they hold */

static const ccl_i_described_t path_record = {
    .size = sizeof(path_row_t),
    .fields = (const ccl_i_field_t[]){{"path", CCL_I_AT(path_row_t, path)}, {0}},
    .bare = true};

typedef ccl_testbed_server_t server_t;
static const ccl_i_described_t server_record = {
    .fields = (const ccl_i_field_t[]){
        {"server", CCL_I_AT(server_t, name)},
        {"first_rank", CCL_I_AT(server_t, first_rank)},
        {"nranks", CCL_I_AT(server_t, nranks)},
        {"out_Bps", CCL_I_AT(server_t, out_Bps), "of its NICs in the cluster together"},
        {"in_Bps", CCL_I_AT(server_t, in_Bps)},
        {"rate_out_bps", CCL_I_AT(server_t, rate_out_bps), "that the emulation lets through"},
        {"rate_in_bps", CCL_I_AT(server_t, rate_in_bps)},
        {0}}};

#define AT(member) CCL_I_AT(entry_row_t, member)
#define MINE .when = CCL_I_WHEN(entry_row_t, mine)
#define ENTRY_FIELDS                                                                               \
    {"name", AT(name)}, {"mine", AT(mine), "false: of another user; nothing else is known"},       \
        {"pid", AT(pid), "of the process that keeps it", MINE}, {"cluster", AT(cluster), MINE},    \
        {"nranks", AT(nranks), MINE}, {                                                            \
        "namespaces", CCL_I_LIST_OF(path_record, count_namespaces, namespace_at), "per server",    \
            MINE, .line = true                                                                     \
    }

static const ccl_i_described_t entry_record = {
    .size = sizeof(entry_row_t),
    .fields = (const ccl_i_field_t[]){ENTRY_FIELDS,
                                      {"nservers", AT(nservers), MINE, .hidden = true},
                                      {0}},
    .tall = true};
static const ccl_i_described_t testbed_record = {
    .fields =
        (const ccl_i_field_t[]){ENTRY_FIELDS,
                                {"scale", AT(scale), "emulated rate / the cluster's"},
                                {"head_start_s", AT(head_start_s), "that the token buckets give"},
                                {"servers", CCL_I_LIST_OF(server_record, count_servers, server_at)},
                                {0}}};
#undef AT
const ccl_i_result_t ccl_i_result_testbed = {"testbed", "ccllab testbed up",
                                             "an emulated cluster that is up", &testbed_record};
const ccl_i_result_t ccl_i_result_testbeds = {
    "testbeds", "ccllab testbed list", "all emulated clusters that are up",
    &(const ccl_i_described_t){
        .fields = (const ccl_i_field_t[]){
            {"testbeds", CCL_I_LIST_OF(entry_record, count_entries, entry_at)}, {0}}}};

/* ---------------------------------------------------------------- one */

static const char *show_Mbit(double bps, char *out, size_t out_len) {
    snprintf(out, out_len, "%.1f", bps / 1e6);
    return out;
}

static const ccl_i_column_t csv_columns[] = {CCL_I_COLUMN("server"),
                                             CCL_I_COLUMN("first_rank"),
                                             CCL_I_COLUMN("nranks"),
                                             CCL_I_COLUMN("out_Bps", "nic_Bps"),
                                             CCL_I_COLUMN("rate_out_bps", NULL, ccl_i_show_0),
                                             CCL_I_COLUMN("rate_in_bps", NULL, ccl_i_show_0),
                                             CCL_I_COLUMNS_END};
static const ccl_i_column_t text_columns[] = {
    CCL_I_COLUMN("server"),
    CCL_I_COLUMN("first_rank", "first rank"),
    CCL_I_COLUMN("nranks", "ranks"),
    CCL_I_COLUMN("out_Bps", "NICs", ccl_format_rate),
    CCL_I_COLUMN("rate_out_bps", "out(Mbit/s)", show_Mbit),
    CCL_I_COLUMN("rate_in_bps", "in(Mbit/s)", show_Mbit),
    CCL_I_COLUMNS_END};

ccl_status_t ccl_report_testbed(const ccl_testbed_plan_t *plan, const ccl_testbed_entry_t *entry,
                                const ccl_report_style_t *style, ccl_text_t *out,
                                ccl_error_t *err) {
    const entry_row_t root = entry_row(entry, plan);

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_testbed, &root, out, err);
    if (style->format == CCL_REPORT_TEXT)
        ccl_text_printf(out, "testbed %s of %s: %u servers, %u ranks, held by process %d\n\n",
                        entry->name, plan->cluster, plan->nservers, plan->nranks, entry->pid);
    return ccl_i_rows_emit(&testbed_record, "servers", &root,
                           style->format == CCL_REPORT_CSV ? csv_columns : text_columns,
                           style->format, out, err);
}

/* ---------------------------------------------------------------- all */

ccl_status_t ccl_report_testbeds(const ccl_testbed_entry_t *entries, uint32_t n,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    static const ccl_i_column_t columns[] = {CCL_I_COLUMN("name"),
                                             CCL_I_COLUMN("pid"),
                                             CCL_I_COLUMN("nservers", "servers"),
                                             CCL_I_COLUMN("nranks", "ranks"),
                                             CCL_I_COLUMN("cluster", NULL, NULL, "another user's"),
                                             CCL_I_COLUMNS_END};
    const list_t list = {entries, n};

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_testbeds, &list, out, err);
    return ccl_i_rows_emit(ccl_i_result_testbeds.root, "testbeds", &list, columns, style->format,
                           out, err);
}
