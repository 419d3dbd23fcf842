/* What cegis makes of a cluster: chunks that hops, links and groups carry in a step. */
#include "report/describe.h"

#include <math.h>

typedef struct capacities {
    const ccl_chunk_capacities_t *of;
    const char *topology, *rounding;
    double chunk_bytes, tau_ref_s, stretch;
    bool reduce;
} capacities_t;

static uint64_t count_rows(const void *root) {
    const capacities_t *c = root;

    return c->of->nrows;
}

static const void *row_at(const void *root, uint64_t i, void *scratch) {
    const capacities_t *c = root;

    (void)scratch;
    return &c->of->rows[i];
}

typedef ccl_chunk_capacity_t row_t;
static const ccl_i_described_t row_record = {
    .fields = (const ccl_i_field_t[]){
        {"what", CCL_I_AT(row_t, what), "what carries the chunks",
         .words = (const char *const[]){"hop", "link", "group", NULL}},
        {"like", CCL_I_AT(row_t, example), "the first of those alike"},
        {"kind", CCL_I_AT(row_t, kind), "of the link, or of the hop's slowest link"},
        {"alike", CCL_I_AT(row_t, count), "how many have these values"},
        {"lanes", CCL_I_AT(row_t, lanes)},
        {"alpha_s", CCL_I_AT(row_t, alpha_s), "until the first byte arrives"},
        {"rate_Bps", CCL_I_AT(row_t, rate_Bps)},
        {"tau_s", CCL_I_AT(row_t, tau_s), "of one chunk alone"},
        {"exact_chunks", CCL_I_AT(row_t, exact_chunks), "that fit into a step, not rounded"},
        {"chunks", CCL_I_AT(row_t, chunks), "that a step carries"},
        {0}}};

static const ccl_i_field_t fields[] = {
    {"topology", CCL_I_AT(capacities_t, topology)},
    {"chunk_bytes", CCL_I_AT(capacities_t, chunk_bytes)},
    {"tau_ref_s", CCL_I_AT(capacities_t, tau_ref_s), "length of a step"},
    {"stretch", CCL_I_AT(capacities_t, stretch), "tau_ref_s / tau of the slowest hop",
     .null = "the step's length was given"},
    {"rounding", CCL_I_AT(capacities_t, rounding),
     .words = (const char *const[]){"floor", "ceiling", NULL}},
    {"reduce", CCL_I_AT(capacities_t, reduce), "receivers reduce"},
    {"rows", CCL_I_LIST_OF(row_record, count_rows, row_at), "hops first, fast ones first"},
    {0}};
const ccl_i_result_t ccl_i_result_capacities = {
    "capacities", "ccllab synth --with cegis --explain-capacities",
    "chunks that hops, links and groups carry in a step of cegis",
    &(const ccl_i_described_t){.fields = fields}};

static const ccl_i_column_t columns[] = {CCL_I_COLUMN("what"),
                                         CCL_I_COLUMN("like"),
                                         CCL_I_COLUMN("kind"),
                                         CCL_I_COLUMN("alike"),
                                         CCL_I_COLUMN("lanes"),
                                         CCL_I_COLUMN("alpha_s", "alpha(us)", ccl_i_us),
                                         CCL_I_COLUMN("rate_Bps", "rate(GB/s)", ccl_i_GBps),
                                         CCL_I_COLUMN("tau_s", "tau(us)", ccl_i_us),
                                         CCL_I_COLUMN("exact_chunks", "that fit", ccl_i_show_2),
                                         CCL_I_COLUMN("chunks"),
                                         CCL_I_COLUMNS_END};

ccl_status_t ccl_report_capacities(const ccl_topology_t *topo,
                                   const ccl_chunk_capacities_t *capacities,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err) {
    const capacities_t root = {capacities,
                               topo->name,
                               capacities->ceiling ? "ceiling" : "floor",
                               capacities->chunk_bytes,
                               capacities->tau_ref_s,
                               capacities->stretch > 0 ? capacities->stretch : NAN,
                               capacities->reduce};
    char bytes[64], tau[64];

    if (style->format == CCL_REPORT_JSON)
        return ccl_i_result_json(&ccl_i_result_capacities, &root, out, err);
    if (style->format == CCL_REPORT_TEXT)
        ccl_text_printf(out, "%s: a step of %s us for chunks of %s, capacities rounded %s%s\n\n",
                        topo->name, ccl_i_us(capacities->tau_ref_s, tau, sizeof tau),
                        ccl_format_bytes(capacities->chunk_bytes, bytes, sizeof bytes),
                        capacities->ceiling ? "up" : "down",
                        capacities->reduce ? ", receivers reduce" : "");
    return ccl_i_rows_emit(ccl_i_result_capacities.root, "rows", &root, columns, style->format, out,
                           err);
}
