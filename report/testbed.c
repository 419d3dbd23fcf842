/* Emulated clusters as text, JSON and CSV. */
#include "report/writer.h"

#include <string.h>

/* ---------------------------------------------------------------- one */

static ccl_status_t servers_table(const ccl_testbed_plan_t *plan, ccl_report_format_t format,
                                  ccl_text_t *out, ccl_error_t *err) {
    bool csv = format == CCL_REPORT_CSV;
    ccl_table_t *table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "server", CCL_ALIGN_LEFT);
    ccl_table_column(table, csv ? "first_rank" : "first rank", CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "nranks" : "ranks", CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "nic_Bps" : "NICs", CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "rate_out_bps" : "out(Mbit/s)", CCL_ALIGN_RIGHT);
    ccl_table_column(table, csv ? "rate_in_bps" : "in(Mbit/s)", CCL_ALIGN_RIGHT);
    for (uint32_t i = 0; i < plan->nservers; i++) {
        const ccl_testbed_server_t *s = &plan->servers[i];
        char text[40];
        ccl_table_row(table);
        ccl_table_cell(table, "%s", s->name);
        ccl_table_cell(table, "%u", s->first_rank);
        ccl_table_cell(table, "%u", s->nranks);
        if (csv)
            ccl_table_cell(table, "%s", ccl_i_number(s->out_Bps, text, sizeof text));
        else
            ccl_table_cell(table, "%s", ccl_format_rate(s->out_Bps, text, sizeof text));
        ccl_table_cell(table, csv ? "%.0f" : "%.1f", s->rate_out_bps / (csv ? 1 : 1e6));
        ccl_table_cell(table, csv ? "%.0f" : "%.1f", s->rate_in_bps / (csv ? 1 : 1e6));
    }
    ccl_status_t status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

static void entry_json(ccl_i_json_t *json, const ccl_testbed_entry_t *e) {
    char path[40];
    ccl_i_json_string(json, "name", e->name);
    ccl_i_json_bool(json, "mine", e->mine);
    if (!e->mine)
        return;
    ccl_i_json_u64(json, "pid", (uint64_t)e->pid);
    ccl_i_json_string(json, "cluster", e->cluster);
    ccl_i_json_u64(json, "nranks", e->nranks);
    ccl_i_json_array(json, "namespaces", true);
    for (uint32_t i = 0; i < e->nservers; i++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", e->pid, e->fds[i]);
        ccl_i_json_string(json, NULL, path);
    }
    ccl_i_json_close_array(json);
}

static ccl_status_t testbed_json(const ccl_testbed_plan_t *plan, const ccl_testbed_entry_t *entry,
                                 ccl_text_t *out, ccl_error_t *err) {
    ccl_i_json_t json;
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/testbed/1");
    entry_json(&json, entry);
    ccl_i_json_number(&json, "scale", plan->scale);
    ccl_i_json_number(&json, "head_start_s", plan->head_start_s);
    ccl_i_json_array(&json, "servers", false);
    for (uint32_t i = 0; i < plan->nservers; i++) {
        const ccl_testbed_server_t *s = &plan->servers[i];
        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "server", s->name);
        ccl_i_json_u64(&json, "first_rank", s->first_rank);
        ccl_i_json_u64(&json, "nranks", s->nranks);
        ccl_i_json_number(&json, "out_Bps", s->out_Bps);
        ccl_i_json_number(&json, "in_Bps", s->in_Bps);
        ccl_i_json_number(&json, "rate_out_bps", s->rate_out_bps);
        ccl_i_json_number(&json, "rate_in_bps", s->rate_in_bps);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_testbed(const ccl_testbed_plan_t *plan, const ccl_testbed_entry_t *entry,
                                const ccl_report_style_t *style, ccl_text_t *out,
                                ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return testbed_json(plan, entry, out, err);
    if (style->format == CCL_REPORT_TEXT)
        ccl_text_printf(out, "testbed %s of %s: %u servers, %u ranks, held by process %d\n\n",
                        entry->name, plan->cluster, plan->nservers, plan->nranks, entry->pid);
    return servers_table(plan, style->format, out, err);
}

/* ---------------------------------------------------------------- all */

static ccl_status_t list_json(const ccl_testbed_entry_t *entries, uint32_t n, ccl_text_t *out,
                              ccl_error_t *err) {
    ccl_i_json_t json;
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/testbeds/1");
    ccl_i_json_array(&json, "testbeds", false);
    for (uint32_t i = 0; i < n; i++) {
        ccl_i_json_object(&json, NULL, false);
        entry_json(&json, &entries[i]);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_testbeds(const ccl_testbed_entry_t *entries, uint32_t n,
                                 const ccl_report_style_t *style, ccl_text_t *out,
                                 ccl_error_t *err) {
    if (style->format == CCL_REPORT_JSON)
        return list_json(entries, n, out, err);
    ccl_table_t *table = ccl_table_create();
    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "name", CCL_ALIGN_LEFT);
    ccl_table_column(table, "pid", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "servers", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "ranks", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "cluster", CCL_ALIGN_LEFT);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_testbed_entry_t *e = &entries[i];
        ccl_table_row(table);
        ccl_table_cell(table, "%s", e->name);
        if (e->mine) {
            ccl_table_cell(table, "%d", e->pid);
            ccl_table_cell(table, "%u", e->nservers);
            ccl_table_cell(table, "%u", e->nranks);
            ccl_table_cell(table, "%s", e->cluster);
            continue;
        }
        for (int k = 0; k < 3; k++)
            ccl_table_cell(table, "%s", "");
        ccl_table_cell(table, "another user's");
    }
    ccl_status_t status = ccl_i_table_emit(table, style->format, out, err);
    ccl_table_destroy(table);
    return status;
}
