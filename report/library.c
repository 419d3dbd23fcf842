/* What there is to choose from: servers, clusters, synthesizers. */
#include "report/describe.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry_row {
    const char *name, *kind, *summary;
} entry_row_t;

static uint64_t count_entries(const void *none) {
    const ccl_library_entry_t *all = ccl_topology_library();
    uint64_t n = 0;

    (void)none;
    while (all[n].name)
        n++;
    return n;
}

static const void *entry_at(const void *none, uint64_t i, void *scratch) {
    const ccl_library_entry_t *e = &ccl_topology_library()[i];
    entry_row_t *row = scratch;

    (void)none;
    *row = (entry_row_t){e->name, e->is_server ? "server" : "cluster", e->summary};
    return row;
}

static const ccl_i_described_t entry_record = {
    .size = sizeof(entry_row_t),
    .fields =
        (const ccl_i_field_t[]){{"name", CCL_I_AT(entry_row_t, name), "what --topology takes"},
                                {"kind", CCL_I_AT(entry_row_t, kind),
                                 .words = (const char *const[]){"server", "cluster", NULL}},
                                {"summary", CCL_I_AT(entry_row_t, summary), "one line"},
                                {0}}};

static const ccl_i_field_t library_fields[] = {
    {"entries", CCL_I_LIST_OF(entry_record, count_entries, entry_at), "servers and clusters"}, {0}};
const ccl_i_result_t ccl_i_result_library = {"library", "ccllab topology list",
                                             "the built-in servers and clusters",
                                             &(const ccl_i_described_t){.fields = library_fields}};

ccl_status_t ccl_report_library(const ccl_report_style_t *style, ccl_text_t *out,
                                ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_library, NULL, out, err);
    return ccl_i_rows_emit(ccl_i_result_library.root, "entries", NULL, NULL, style->format, out,
                           err);
}

/* ---------------------------------------------------------------- synthesizers */

typedef struct algos {
    const char *topology; /* NULL: not asked for one */
    uint32_t n;
    uint32_t *kinds; /* [n] one bit per collective kind that it may be tried for; NULL: not asked */
} algos_t;

typedef struct algo_row {
    const char *name, *summary, *source;
    bool asked;
    uint32_t kinds;
    char kinds_text[300];
} algo_row_t;

/** One bit per built-in collective kind that `ops` may be tried for on `topo`. */
static ccl_status_t supported(const ccl_topology_t *topo, const ccl_synth_ops_t *ops,
                              uint32_t *kinds_out, ccl_error_t *err) {
    uint32_t kinds = 0;

    for (int k = 0; k < CCL_CUSTOM; k++) {
        ccl_collective_t *coll = NULL;
        const char *why = NULL;

        CCL_TRY(ccl_collective_create((ccl_collective_kind_t)k, topo->nranks, 1, 0, &coll, err));
        if (!ops->supports || ops->supports(topo, coll, &why))
            kinds |= 1u << k;
        ccl_collective_destroy(coll);
    }
    *kinds_out = kinds;
    return CCL_OK;
}

/** "allgather allreduce"; "-" for none. */
static void kinds_text(uint32_t kinds, char *out, size_t out_len) {
    size_t len = 0;

    snprintf(out, out_len, "-");
    for (int k = 0; k < CCL_CUSTOM; k++) {
        if (!(kinds >> k & 1u))
            continue;
        snprintf(out + len, out_len - len, "%s%s", len ? " " : "",
                 ccl_collective_kind_name((ccl_collective_kind_t)k));
        len += strlen(out + len);
    }
}

static uint64_t count_kinds(const void *row) {
    (void)row;
    return CCL_CUSTOM;
}

static const void *kind_at(const void *row, uint64_t i, void *scratch) {
    const algo_row_t *algo = row;
    const char **name = scratch;

    *name = ccl_collective_kind_name((ccl_collective_kind_t)i);
    return algo->kinds >> i & 1u ? name : NULL;
}

static uint64_t count_algos(const void *root) {
    const algos_t *algos = root;

    return algos->n;
}

static const void *algo_at(const void *root, uint64_t i, void *scratch) {
    const algos_t *algos = root;
    const ccl_synth_ops_t *ops = ccl_synth_all()[i];
    algo_row_t *row = scratch;

    row->name = ops->name;
    row->summary = ops->summary;
    row->source = ops->source;
    row->asked = algos->kinds != NULL;
    row->kinds = row->asked ? algos->kinds[i] : 0;
    kinds_text(row->kinds, row->kinds_text, sizeof(row->kinds_text));
    return row;
}

static const ccl_i_described_t algo_record = {
    .size = sizeof(algo_row_t),
    .fields = (const ccl_i_field_t[]){
        {"name", CCL_I_AT(algo_row_t, name), "what --with takes"},
        {"summary", CCL_I_AT(algo_row_t, summary), "one line"},
        {"source", CCL_I_AT(algo_row_t, source), "where it is published"},
        {"collectives", CCL_I_LIST_OF(ccl_i_bare_string, count_kinds, kind_at),
         "that it can be tried for on the cluster", .when = CCL_I_WHEN(algo_row_t, asked),
         .line = true},
        {"kinds", CCL_I_AT(algo_row_t, kinds_text), .when = CCL_I_WHEN(algo_row_t, asked),
         .hidden = true},
        {0}}};

static const ccl_i_field_t algos_fields[] = {
    {"topology", CCL_I_AT(algos_t, topology), "the cluster", .null = "none was named"},
    {"synthesizers", CCL_I_LIST_OF(algo_record, count_algos, algo_at), "all of them"},
    {0}};
const ccl_i_result_t ccl_i_result_algos = {"algos", "ccllab algos",
                                           "the synthesizers with their sources",
                                           &(const ccl_i_described_t){.fields = algos_fields}};

/** For people: a paragraph each, as summaries and sources do not fit one line. */
static void algos_text(const algos_t *algos, ccl_text_t *out) {
    algo_row_t row;

    for (uint32_t i = 0; i < algos->n; i++) {
        algo_at(algos, i, &row);
        ccl_text_printf(out, "%s\n  %s\n  source: %s\n", row.name, row.summary, row.source);
        if (row.asked)
            ccl_text_printf(out, "  on %s: %s\n", algos->topology, row.kinds_text);
    }
}

ccl_status_t ccl_report_algos(const ccl_topology_t *topo, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err) {
    const ccl_i_column_t columns[] = {
        CCL_I_COLUMN("name"), CCL_I_COLUMN("summary"), CCL_I_COLUMN("source"),
        CCL_I_COLUMN(topo ? "kinds" : NULL, "collectives"), CCL_I_COLUMNS_END};
    const ccl_synth_ops_t *const *all = ccl_synth_all();
    algos_t algos = {topo ? topo->name : NULL, 0, NULL};
    ccl_status_t status = CCL_OK;

    while (all[algos.n])
        algos.n++;
    if (topo && !(algos.kinds = calloc(algos.n + 1u, sizeof(*algos.kinds))))
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; topo && status == CCL_OK && i < algos.n; i++)
        status = supported(topo, all[i], &algos.kinds[i], err);
    if (status == CCL_OK && style->format == CCL_REPORT_JSON) {
        status = ccl_i_result_json(&ccl_i_result_algos, &algos, out, err);
    } else if (status == CCL_OK && style->format == CCL_REPORT_CSV) {
        status = ccl_i_rows_emit(ccl_i_result_algos.root, "synthesizers", &algos, columns,
                                 style->format, out, err);
    } else if (status == CCL_OK) {
        algos_text(&algos, out);
        status = ccl_i_text_status(out, err);
    }
    free(algos.kinds);
    return status;
}
