/* What cegis makes of a cluster: chunks that hops, links and groups carry in a step. */
#include "report/writer.h"

static ccl_status_t capacity_table(const ccl_chunk_capacities_t *c, ccl_report_format_t format,
                                   ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"what",     "like",      "kind",       "alike",
                                          "lanes",    "alpha(us)", "rate(GB/s)", "tau(us)",
                                          "that fit", "chunks"};
    ccl_table_t *table = ccl_table_create();
    char text[64];
    ccl_status_t status;

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 3);
    for (uint32_t i = 0; i < c->nrows; i++) {
        const ccl_chunk_capacity_t *row = &c->rows[i];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", row->what);
        ccl_table_cell(table, "%s", row->example);
        ccl_table_cell(table, "%s", row->kind);
        ccl_table_cell(table, "%u", row->count);
        ccl_table_cell(table, "%u", row->lanes);
        ccl_table_cell(table, "%s", ccl_i_us(row->alpha_s, text, sizeof text));
        ccl_table_cell(table, "%s", ccl_i_GBps(row->rate_Bps, text, sizeof text));
        ccl_table_cell(table, "%s", ccl_i_us(row->tau_s, text, sizeof text));
        ccl_table_cell(table, "%.2f", row->exact_chunks);
        ccl_table_cell(table, "%u", row->chunks);
    }
    status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

static void capacity_json(const ccl_topology_t *topo, const ccl_chunk_capacities_t *c,
                          ccl_text_t *out) {
    ccl_i_json_t json;

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/capacities/1");
    ccl_i_json_string(&json, "topology", topo->name);
    ccl_i_json_number(&json, "chunk_bytes", c->chunk_bytes);
    ccl_i_json_number(&json, "tau_ref_s", c->tau_ref_s);
    if (c->stretch > 0)
        ccl_i_json_number(&json, "stretch", c->stretch);
    else
        ccl_i_json_null(&json, "stretch");
    ccl_i_json_string(&json, "rounding", c->ceiling ? "ceiling" : "floor");
    ccl_i_json_bool(&json, "reduce", c->reduce);
    ccl_i_json_array(&json, "rows", false);
    for (uint32_t i = 0; i < c->nrows; i++) {
        const ccl_chunk_capacity_t *row = &c->rows[i];

        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "what", row->what);
        ccl_i_json_string(&json, "like", row->example);
        ccl_i_json_string(&json, "kind", row->kind);
        ccl_i_json_u64(&json, "alike", row->count);
        ccl_i_json_u64(&json, "lanes", row->lanes);
        ccl_i_json_number(&json, "alpha_s", row->alpha_s);
        ccl_i_json_number(&json, "rate_Bps", row->rate_Bps);
        ccl_i_json_number(&json, "tau_s", row->tau_s);
        ccl_i_json_number(&json, "exact_chunks", row->exact_chunks);
        ccl_i_json_u64(&json, "chunks", row->chunks);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
}

ccl_status_t ccl_report_capacities(const ccl_topology_t *topo,
                                   const ccl_chunk_capacities_t *capacities,
                                   const ccl_report_style_t *style, ccl_text_t *out,
                                   ccl_error_t *err) {
    char bytes[64], tau[64];

    if (style->format == CCL_REPORT_JSON) {
        capacity_json(topo, capacities, out);
        return ccl_i_text_status(out, err);
    }
    if (style->format == CCL_REPORT_TEXT)
        ccl_text_printf(out, "%s: a step of %s us for chunks of %s, capacities rounded %s%s\n\n",
                        topo->name, ccl_i_us(capacities->tau_ref_s, tau, sizeof tau),
                        ccl_format_bytes(capacities->chunk_bytes, bytes, sizeof bytes),
                        capacities->ceiling ? "up" : "down",
                        capacities->reduce ? ", receivers reduce" : "");
    return capacity_table(capacities, style->format, out, err);
}
