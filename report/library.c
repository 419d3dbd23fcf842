/* What there is to choose from: servers, clusters, synthesizers. */
#include "report/writer.h"

#include <string.h>

static ccl_status_t library_table(ccl_report_format_t format, ccl_text_t *out, ccl_error_t *err) {
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;

    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "name", CCL_ALIGN_LEFT);
    ccl_table_column(table, "kind", CCL_ALIGN_LEFT);
    ccl_table_column(table, "summary", CCL_ALIGN_LEFT);
    for (const ccl_library_entry_t *e = ccl_topology_library(); e->name; e++) {
        ccl_table_row(table);
        ccl_table_cell(table, "%s", e->name);
        ccl_table_cell(table, "%s", e->is_server ? "server" : "cluster");
        ccl_table_cell(table, "%s", e->summary);
    }
    status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

ccl_status_t ccl_report_library(const ccl_report_style_t *style, ccl_text_t *out,
                                ccl_error_t *err) {
    ccl_i_json_t json;

    if (style->format != CCL_REPORT_JSON)
        return library_table(style->format, out, err);
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/library/1");
    ccl_i_json_array(&json, "entries", false);
    for (const ccl_library_entry_t *e = ccl_topology_library(); e->name; e++) {
        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "name", e->name);
        ccl_i_json_string(&json, "kind", e->is_server ? "server" : "cluster");
        ccl_i_json_string(&json, "summary", e->summary);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- synthesizers */

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

static void kinds_text(uint32_t kinds, ccl_text_t *out) {
    bool some = false;

    for (int k = 0; k < CCL_CUSTOM; k++) {
        if (!(kinds >> k & 1u))
            continue;
        ccl_text_printf(out, "%s%s", some ? " " : "",
                        ccl_collective_kind_name((ccl_collective_kind_t)k));
        some = true;
    }
    if (!some)
        ccl_text_printf(out, "-");
}

static ccl_status_t algos_table(const ccl_topology_t *topo, ccl_report_format_t format,
                                ccl_text_t *out, ccl_error_t *err) {
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status = CCL_OK;

    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "name", CCL_ALIGN_LEFT);
    ccl_table_column(table, "summary", CCL_ALIGN_LEFT);
    ccl_table_column(table, "source", CCL_ALIGN_LEFT);
    if (topo)
        ccl_table_column(table, "collectives", CCL_ALIGN_LEFT);
    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all; all++) {
        ccl_table_row(table);
        ccl_table_cell(table, "%s", (*all)->name);
        ccl_table_cell(table, "%s", (*all)->summary);
        ccl_table_cell(table, "%s", (*all)->source);
        if (topo) {
            ccl_text_t kinds = {0};
            uint32_t bits = 0;

            status = supported(topo, *all, &bits, err);
            if (status != CCL_OK)
                break;
            kinds_text(bits, &kinds);
            ccl_table_cell(table, "%s", kinds.data ? kinds.data : "");
            ccl_text_fini(&kinds);
        }
    }
    if (status == CCL_OK)
        status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

/** For people: a paragraph each, as summaries and sources do not fit one line. */
static ccl_status_t algos_text(const ccl_topology_t *topo, ccl_text_t *out, ccl_error_t *err) {
    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all; all++) {
        ccl_text_printf(out, "%s\n  %s\n  source: %s\n", (*all)->name, (*all)->summary,
                        (*all)->source);
        if (topo) {
            uint32_t bits = 0;

            CCL_TRY(supported(topo, *all, &bits, err));
            ccl_text_printf(out, "  on %s: ", topo->name);
            kinds_text(bits, out);
            ccl_text_printf(out, "\n");
        }
    }
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_algos(const ccl_topology_t *topo, const ccl_report_style_t *style,
                              ccl_text_t *out, ccl_error_t *err) {
    ccl_i_json_t json;

    if (style->format == CCL_REPORT_CSV)
        return algos_table(topo, style->format, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return algos_text(topo, out, err);
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/algos/1");
    ccl_i_json_string(&json, "topology", topo ? topo->name : NULL);
    ccl_i_json_array(&json, "synthesizers", false);
    for (const ccl_synth_ops_t *const *all = ccl_synth_all(); *all; all++) {
        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "name", (*all)->name);
        ccl_i_json_string(&json, "summary", (*all)->summary);
        ccl_i_json_string(&json, "source", (*all)->source);
        if (topo) {
            uint32_t bits = 0;

            CCL_TRY(supported(topo, *all, &bits, err));
            ccl_i_json_array(&json, "collectives", true);
            for (int k = 0; k < CCL_CUSTOM; k++) {
                if (bits >> k & 1u)
                    ccl_i_json_string(&json, NULL,
                                      ccl_collective_kind_name((ccl_collective_kind_t)k));
            }
            ccl_i_json_close_array(&json);
        }
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}
