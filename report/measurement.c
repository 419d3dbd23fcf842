/* What a device did: times of a program by size, its thread blocks; what devices there are. */
#include "report/writer.h"

#include <math.h>
#include <string.h>

const char *const ccl_report_measurement_tables[] = {"sizes", "thread_blocks", NULL};

static const ccl_run_result_t *last_result(const ccl_report_measurement_t *m) {
    for (uint32_t i = m->nsizes; i-- > 0;)
        if (m->sizes[i].result)
            return m->sizes[i].result;
    return NULL;
}

/** Some size was run with both kernels. */
static bool both(const ccl_report_measurement_t *m) {
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].generated)
            return true;
    return false;
}

/** How processes reach each other. */
static const char *transport(const ccl_run_result_t *r) {
    return r->ipc ? "ipc" : ccl_run_transport_name(r->transport);
}

static bool timed(const ccl_measured_size_t *s) {
    return s->status == CCL_OK && s->result;
}

/* ---------------------------------------------------------------- JSON */

static void json_fault(ccl_i_json_t *json, const ccl_run_result_t *r) {
    if (!r || !r->wrong_items) {
        ccl_i_json_null(json, "data_fault");
        return;
    }
    ccl_i_json_object(json, "data_fault", true);
    ccl_i_json_u64(json, "rank", r->fault.rank);
    ccl_i_json_u64(json, "chunk", r->fault.chunk);
    ccl_i_json_u64(json, "element", r->fault.element);
    ccl_i_json_u64(json, "item", r->fault.item);
    ccl_i_json_u64(json, "offset_bytes", r->fault.offset_bytes);
    ccl_i_json_number(json, "expected", r->fault.expected);
    ccl_i_json_number(json, "got", r->fault.got);
    ccl_i_json_close_object(json);
}

static void json_blocks(ccl_i_json_t *json, const ccl_program_t *p, const ccl_run_result_t *r) {
    ccl_i_json_array(json, "thread_blocks", false);
    for (uint32_t i = 0; r && r->blocks && i < r->ntbs; i++) {
        const ccl_run_block_t *b = &r->blocks[i];

        ccl_i_json_object(json, NULL, true);
        ccl_i_json_u64(json, "rank", p->tbs[i].rank);
        ccl_i_json_u64(json, "id", p->tbs[i].id);
        ccl_i_json_u64(json, "slices", b->slices);
        ccl_i_json_number(json, "busy_s", b->busy_s);
        ccl_i_json_number(json, "wait_data_s", b->wait_data_s);
        ccl_i_json_number(json, "wait_peer_s", b->wait_peer_s);
        ccl_i_json_number(json, "wait_slot_s", b->wait_slot_s);
        ccl_i_json_number(json, "wait_core_s", b->wait_core_s);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

/** (max - min) / median. */
static double spread(const ccl_run_result_t *r) {
    return r->median_s > 0 ? (r->max_s - r->min_s) / r->median_s : NAN;
}

/** Interpreter over generated: more than 1 is what the kernel of its own gains. */
static double gain(const ccl_measured_size_t *s) {
    return s->generated && s->generated->median_s > 0 ? s->result->median_s / s->generated->median_s
                                                      : NAN;
}

static void json_generated(ccl_i_json_t *json, const ccl_measured_size_t *s) {
    const ccl_run_result_t *g = s->generated;

    if (!timed(s) || !g) {
        ccl_i_json_null(json, "generated");
        return;
    }
    ccl_i_json_object(json, "generated", false);
    ccl_i_json_number(json, "median_s", g->median_s);
    ccl_i_json_number(json, "min_s", g->min_s);
    ccl_i_json_number(json, "max_s", g->max_s);
    ccl_i_json_number(json, "spread", spread(g));
    ccl_i_json_number(json, "compile_s", g->compile_s);
    ccl_i_json_number(json, "interpreter_spread", spread(s->result));
    ccl_i_json_number(json, "ratio", gain(s));
    ccl_i_json_array(json, "times_s", true);
    for (uint32_t i = 0; i < g->repeats; i++)
        ccl_i_json_number(json, NULL, g->time_s[i]);
    ccl_i_json_close_array(json);
    ccl_i_json_close_object(json);
}

/** Library over program: more than 1 is what the program gains. */
static double library_ratio(const ccl_measured_size_t *s) {
    return s->result->median_s > 0 ? s->library->median_s / s->result->median_s : NAN;
}

static void json_library(ccl_i_json_t *json, const ccl_measured_size_t *s) {
    const ccl_run_result_t *l = s->library;
    bool ok = s->library_status == CCL_OK;

    if (!timed(s) || !l) {
        ccl_i_json_null(json, "library");
        return;
    }
    ccl_i_json_object(json, "library", false);
    ccl_i_json_string(json, "name", l->library);
    ccl_i_json_string(json, "status", ccl_i_status_word(s->library_status));
    ccl_i_json_string(json, "why", s->library_why);
    ccl_i_json_number(json, "median_s", ok ? l->median_s : NAN);
    ccl_i_json_number(json, "min_s", ok ? l->min_s : NAN);
    ccl_i_json_number(json, "max_s", ok ? l->max_s : NAN);
    ccl_i_json_number(json, "algbw_GBps", ok ? l->algbw_GBps : NAN);
    ccl_i_json_number(json, "busbw_GBps", ok ? l->busbw_GBps : NAN);
    ccl_i_json_number(json, "checked_items", l->checked ? (double)l->checked_items : NAN);
    ccl_i_json_number(json, "wrong_items", l->checked ? (double)l->wrong_items : NAN);
    ccl_i_json_number(json, "ratio", ok ? library_ratio(s) : NAN);
    ccl_i_json_array(json, "times_s", true);
    for (uint32_t i = 0; ok && i < l->repeats; i++)
        ccl_i_json_number(json, NULL, l->time_s[i]);
    ccl_i_json_close_array(json);
    ccl_i_json_close_object(json);
}

static const char *by_name(const ccl_run_cluster_t *k, ccl_run_by_t by) {
    return by == CCL_RUN_BY_LIBRARY ? k->library : by == CCL_RUN_BY_PROGRAM ? "program" : NULL;
}

static void json_step(ccl_i_json_t *json, const char *name, const ccl_run_cluster_t *k,
                      const ccl_run_cluster_step_t *s) {
    ccl_i_json_object(json, name, true);
    ccl_i_json_string(json, "by", by_name(k, s->by));
    ccl_i_json_string(json, "why", s->by == CCL_RUN_BY_PROGRAM ? s->why : NULL);
    for (uint32_t c = 0; c < CCL_RUN_CALLS; c++)
        ccl_i_json_u64(json, ccl_run_call_name((ccl_run_call_t)c), s->calls[c]);
    ccl_i_json_number(json, "bytes", s->bytes);
    ccl_i_json_close_object(json);
}

static void json_clusters(ccl_i_json_t *json, const ccl_run_result_t *r) {
    if (!r || !r->clusters) {
        ccl_i_json_null(json, "clusters");
        return;
    }
    ccl_i_json_array(json, "clusters", false);
    for (uint32_t i = 0; i < r->nclusters; i++) {
        const ccl_run_cluster_t *k = &r->clusters[i];

        ccl_i_json_object(json, NULL, false);
        ccl_i_json_u64(json, "ranks", k->nranks);
        ccl_i_json_u64(json, "first_rank", k->first_rank);
        ccl_i_json_u64(json, "last_rank", k->last_rank);
        ccl_i_json_string(json, "device", k->device);
        ccl_i_json_string(json, "library", k->library[0] ? k->library : NULL);
        json_step(json, "start", k, &k->start);
        json_step(json, "end", k, &k->end);
        ccl_i_json_close_object(json);
    }
    ccl_i_json_close_array(json);
}

static void json_size(ccl_i_json_t *json, const ccl_report_measurement_t *m,
                      const ccl_measured_size_t *s) {
    const ccl_run_result_t *r = s->result;
    bool ok = timed(s);

    ccl_i_json_object(json, NULL, false);
    ccl_i_json_number(json, "size_bytes", s->size_bytes);
    ccl_i_json_string(json, "status", ccl_i_status_word(s->status));
    ccl_i_json_string(json, "why", s->why);
    ccl_i_json_number(json, "median_s", ok ? r->median_s : NAN);
    ccl_i_json_number(json, "min_s", ok ? r->min_s : NAN);
    ccl_i_json_number(json, "max_s", ok ? r->max_s : NAN);
    ccl_i_json_number(json, "algbw_GBps", ok ? r->algbw_GBps : NAN);
    ccl_i_json_number(json, "busbw_GBps", ok ? r->busbw_GBps : NAN);
    ccl_i_json_number(json, "buffer_bytes", r ? r->buffer_bytes : NAN);
    ccl_i_json_number(json, "batches", r ? r->batches : NAN);
    ccl_i_json_number(json, "chunk_bytes", r ? r->chunk_bytes : NAN);
    ccl_i_json_number(json, "slice_bytes", r ? r->slice_bytes : NAN);
    ccl_i_json_number(json, "transfers", r ? (double)r->transfers : NAN);
    ccl_i_json_number(json, "checked_items", r && r->checked ? (double)r->checked_items : NAN);
    ccl_i_json_number(json, "wrong_items", r && r->checked ? (double)r->wrong_items : NAN);
    json_fault(json, r);
    ccl_i_json_deadlock(json, r ? r->deadlock : NULL);
    ccl_i_json_array(json, "times_s", true);
    for (uint32_t i = 0; ok && i < r->repeats; i++)
        ccl_i_json_number(json, NULL, r->time_s[i]);
    ccl_i_json_close_array(json);
    ccl_i_json_string(json, "kernel",
                      r && r->kernel == CCL_KERNEL_GENERATED ? "generated" : "interpreter");
    ccl_i_json_number(json, "compile_s",
                      r && r->kernel == CCL_KERNEL_GENERATED ? r->compile_s : NAN);
    json_generated(json, s);
    json_library(json, s);
    json_clusters(json, r);
    json_blocks(json, m->program, r);
    ccl_i_json_close_object(json);
}

static ccl_status_t measurement_json(const ccl_report_measurement_t *m, ccl_text_t *out,
                                     ccl_error_t *err) {
    const ccl_run_result_t *r = last_result(m);
    ccl_i_json_t json;

    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/run/1");
    ccl_i_json_string(&json, "input", m->input);
    ccl_i_json_string(&json, "collective", m->program->coll->name);
    ccl_i_json_u64(&json, "nranks", m->program->nranks);
    if (m->verdict)
        ccl_i_json_bool(&json, "valid", m->verdict->valid);
    else
        ccl_i_json_null(&json, "valid");
    ccl_i_json_fault(&json, m->verdict);
    ccl_i_json_string(&json, "device", r ? r->device : m->options->device);
    ccl_i_json_string(&json, "type", ccl_type_name(m->options->type));
    ccl_i_json_string(&json, "op", ccl_reduction_name(m->options->op));
    ccl_i_json_string(&json, "granularity", ccl_i_granularity_name(m->options->granularity));
    ccl_i_json_string(&json, "transport", r && r->processes > 1 ? transport(r) : NULL);
    ccl_i_json_string(&json, "rdma_memory", r && r->rdma_memory[0] ? r->rdma_memory : NULL);
    ccl_i_json_string(&json, "rdma_why", r && r->rdma_why[0] ? r->rdma_why : NULL);
    ccl_i_json_number(&json, "devices", r && r->devices ? r->devices : NAN);
    ccl_i_json_number(&json, "processes", r && r->processes ? r->processes : NAN);
    ccl_i_json_number(&json, "threads", r && r->processes ? r->threads : NAN);
    ccl_i_json_number(&json, "slots", r ? r->slots : NAN);
    ccl_i_json_number(&json, "repeats", r ? r->repeats : NAN);
    ccl_i_json_u64(&json, "warmups", m->options->warmups);
    ccl_i_json_array(&json, "sizes", false);
    for (uint32_t i = 0; i < m->nsizes; i++)
        json_size(&json, m, &m->sizes[i]);
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}

/* ---------------------------------------------------------------- tables */

static ccl_status_t sizes_csv(const ccl_report_measurement_t *m, ccl_text_t *out,
                              ccl_error_t *err) {
    static const char *const headers[] = {
        "size_bytes",    "status",      "median_s", "min_s",       "max_s",
        "algbw_GBps",    "busbw_GBps",  "batches",  "chunk_bytes", "transfers",
        "checked_items", "wrong_items", "why"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[40];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), CCL_ARRAY_LEN(headers));
    for (uint32_t i = 0; i < m->nsizes; i++) {
        const ccl_measured_size_t *s = &m->sizes[i];
        const ccl_run_result_t *r = s->result;
        bool ok = timed(s);
        double values[] = {ok ? r->median_s : NAN,
                           ok ? r->min_s : NAN,
                           ok ? r->max_s : NAN,
                           ok ? r->algbw_GBps : NAN,
                           ok ? r->busbw_GBps : NAN,
                           r ? r->batches : NAN,
                           r ? r->chunk_bytes : NAN,
                           r ? (double)r->transfers : NAN,
                           r && r->checked ? (double)r->checked_items : NAN,
                           r && r->checked ? (double)r->wrong_items : NAN};

        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_i_number(s->size_bytes, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_status_word(s->status));
        for (size_t k = 0; k < CCL_ARRAY_LEN(values); k++)
            ccl_table_cell(table, "%s", ccl_i_number(values[k], text, sizeof(text)));
        ccl_table_cell(table, "%s", s->why ? s->why : "");
    }
    status = ccl_i_table_emit(table, CCL_REPORT_CSV, out, err);
    ccl_table_destroy(table);
    return status;
}

/** Thread blocks of the last size that has them, as seconds (CSV) or microseconds. */
static ccl_status_t blocks_table(const ccl_report_measurement_t *m, ccl_report_format_t format,
                                 ccl_text_t *out, ccl_error_t *err) {
    static const char *const units[] = {"(us)", "_s"};
    static const char *const times[] = {"busy", "wait_data", "wait_peer", "wait_slot", "wait_core"};
    static const char *const words[] = {"busy", "data", "peer", "slot", "core"};
    const ccl_run_result_t *r = last_result(m);
    bool csv = format == CCL_REPORT_CSV;
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[40];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_table_column(table, "rank", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "id", CCL_ALIGN_RIGHT);
    ccl_table_column(table, "slices", CCL_ALIGN_RIGHT);
    for (size_t i = 0; i < CCL_ARRAY_LEN(times); i++) {
        snprintf(text, sizeof(text), "%s%s", csv ? times[i] : words[i], units[csv]);
        ccl_table_column(table, text, CCL_ALIGN_RIGHT);
    }
    for (uint32_t i = 0; r && r->blocks && i < r->ntbs; i++) {
        const ccl_run_block_t *b = &r->blocks[i];
        double values[] = {b->busy_s, b->wait_data_s, b->wait_peer_s, b->wait_slot_s,
                           b->wait_core_s};

        ccl_table_row(table);
        ccl_table_cell(table, "%u", m->program->tbs[i].rank);
        ccl_table_cell(table, "%u", m->program->tbs[i].id);
        ccl_table_cell(table, "%llu", (unsigned long long)b->slices);
        for (size_t k = 0; k < CCL_ARRAY_LEN(values); k++)
            ccl_table_cell(table, "%s",
                           csv ? ccl_i_number(values[k], text, sizeof(text))
                               : ccl_i_us(values[k], text, sizeof(text)));
    }
    status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t sizes_text(const ccl_report_measurement_t *m, ccl_text_t *out,
                               ccl_error_t *err) {
    static const char *const headers[] = {"size",    "batches",     "median(us)",  "min(us)",
                                          "max(us)", "algbw(GB/s)", "busbw(GB/s)", "data"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[6][40];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 0);
    for (uint32_t i = 0; i < m->nsizes; i++) {
        const ccl_measured_size_t *s = &m->sizes[i];
        const ccl_run_result_t *r = s->result;

        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_format_bytes(s->size_bytes, text[0], sizeof(text[0])));
        if (!timed(s)) {
            for (size_t k = 2; k < CCL_ARRAY_LEN(headers); k++)
                ccl_table_cell(table, "%s", "");
            ccl_table_cell(table, "%s",
                           s->status == CCL_CHECK ? "WRONG" : ccl_i_status_word(s->status));
            continue;
        }
        ccl_table_cell(table, "%u", r->batches);
        ccl_table_cell(table, "%s", ccl_i_us(r->median_s, text[1], sizeof(text[1])));
        ccl_table_cell(table, "%s", ccl_i_us(r->min_s, text[2], sizeof(text[2])));
        ccl_table_cell(table, "%s", ccl_i_us(r->max_s, text[3], sizeof(text[3])));
        ccl_table_cell(table, "%s", ccl_i_GBps(r->algbw_GBps * 1e9, text[4], sizeof(text[4])));
        ccl_table_cell(table, "%s", ccl_i_GBps(r->busbw_GBps * 1e9, text[5], sizeof(text[5])));
        ccl_table_cell(table, "%s", r->checked ? "right" : "not looked at");
    }
    status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    ccl_table_destroy(table);
    return status;
}

static ccl_status_t kernels_text(const ccl_report_measurement_t *m, ccl_text_t *out,
                                 ccl_error_t *err) {
    static const char *const headers[] = {"size",   "interpreter(us)", "spread",    "generated(us)",
                                          "spread", "ratio",           "compile(s)"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[40];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 0);
    for (uint32_t i = 0; i < m->nsizes; i++) {
        const ccl_measured_size_t *s = &m->sizes[i];

        if (!timed(s) || !s->generated)
            continue;
        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_format_bytes(s->size_bytes, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(s->result->median_s, text, sizeof(text)));
        ccl_table_cell(table, "%.1f %%", 100 * spread(s->result));
        ccl_table_cell(table, "%s", ccl_i_us(s->generated->median_s, text, sizeof(text)));
        ccl_table_cell(table, "%.1f %%", 100 * spread(s->generated));
        ccl_table_cell(table, "%.3f", gain(s));
        ccl_table_cell(table, "%.2f", s->generated->compile_s);
    }
    status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    ccl_table_destroy(table);
    return status;
}

/** Name of the library that ran some size; NULL: none did. */
static const char *library_name(const ccl_report_measurement_t *m) {
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].library)
            return m->sizes[i].library->library;
    return NULL;
}

static ccl_status_t library_text(const ccl_report_measurement_t *m, ccl_text_t *out,
                                 ccl_error_t *err) {
    static const char *const headers[] = {
        "size", "program(us)", "busbw(GB/s)", "library(us)", "busbw(GB/s)", "ratio", "data"};
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[40];

    if (!table)
        return ccl_fail_nomem(err);
    ccl_i_table_columns(table, headers, CCL_ARRAY_LEN(headers), 0);
    for (uint32_t i = 0; i < m->nsizes; i++) {
        const ccl_measured_size_t *s = &m->sizes[i];
        const ccl_run_result_t *l = s->library;

        if (!timed(s) || !l)
            continue;
        ccl_table_row(table);
        ccl_table_cell(table, "%s", ccl_format_bytes(s->size_bytes, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_us(s->result->median_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_GBps(s->result->busbw_GBps * 1e9, text, sizeof(text)));
        if (s->library_status != CCL_OK) {
            for (size_t k = 4; k < CCL_ARRAY_LEN(headers); k++)
                ccl_table_cell(table, "%s", "");
            ccl_table_cell(table, "%s", "WRONG");
            continue;
        }
        ccl_table_cell(table, "%s", ccl_i_us(l->median_s, text, sizeof(text)));
        ccl_table_cell(table, "%s", ccl_i_GBps(l->busbw_GBps * 1e9, text, sizeof(text)));
        ccl_table_cell(table, "%.3f", library_ratio(s));
        ccl_table_cell(table, "%s", l->checked ? "right" : "not looked at");
    }
    status = ccl_i_table_emit(table, CCL_REPORT_TEXT, out, err);
    ccl_table_destroy(table);
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].library_why)
            ccl_text_printf(out, "\n%s by %s: %s\n",
                            ccl_format_bytes(m->sizes[i].size_bytes, text, sizeof(text)),
                            library_name(m), m->sizes[i].library_why);
    return status;
}

static void text_deadlock(const ccl_deadlock_t *d, ccl_text_t *out) {
    uint32_t shown = d->nwaits < 16 ? d->nwaits : 16;

    for (uint32_t i = 0; i < shown; i++) {
        const ccl_deadlock_wait_t *w = &d->waits[i];

        ccl_text_printf(out, "  rank %u block %u step %u (micro-batch %u, slice %u) waits for %s",
                        w->rank, w->tb, w->step, w->batch, w->slice, ccl_wait_name(w->wait));
        if (w->on_rank != CCL_NONE)
            ccl_text_printf(out, " of rank %u block %u\n", w->on_rank, w->on_tb);
        else
            ccl_text_printf(out, " of nobody\n");
    }
    if (shown < d->nwaits)
        ccl_text_printf(out, "  and %u more\n", d->nwaits - shown);
    ccl_i_text_cause(&d->cause, out);
}

static void step_text(const char *name, const ccl_run_cluster_t *k, const ccl_run_cluster_step_t *s,
                      ccl_text_t *out) {
    const char *before = " (";
    char text[40];

    ccl_text_printf(out, "; %s ", name);
    if (s->by != CCL_RUN_BY_LIBRARY) {
        ccl_text_printf(out, s->by == CCL_RUN_BY_NOBODY ? "nothing to do" : "by the program");
        if (s->by == CCL_RUN_BY_PROGRAM && s->why[0])
            ccl_text_printf(out, " (%s)", s->why);
        return;
    }
    ccl_text_printf(out, "by %s", k->library);
    for (uint32_t c = 0; c < CCL_RUN_CALLS; c++) {
        if (s->calls[c])
            ccl_text_printf(out, "%s%u %s", before, s->calls[c],
                            ccl_run_call_name((ccl_run_call_t)c));
        before = s->calls[c] ? ", " : before;
    }
    ccl_text_printf(out, ": %s)", ccl_format_bytes(s->bytes, text, sizeof(text)));
}

static void clusters_text(const ccl_run_result_t *r, ccl_text_t *out) {
    char text[40];

    ccl_text_printf(out,
                    "\ninside clusters, before and behind what the program carries between them, "
                    "at %s:\n",
                    ccl_format_bytes(r->size_bytes, text, sizeof(text)));
    for (uint32_t i = 0; i < r->nclusters; i++) {
        const ccl_run_cluster_t *k = &r->clusters[i];

        ccl_text_printf(out, "  ranks %u to %u", k->first_rank, k->last_rank);
        if (k->last_rank - k->first_rank + 1 != k->nranks)
            ccl_text_printf(out, " (%u of them)", k->nranks);
        ccl_text_printf(out, " on %s", k->device);
        step_text("start", k, &k->start, out);
        step_text("end", k, &k->end, out);
        ccl_text_printf(out, "\n");
    }
}

static ccl_status_t measurement_text(const ccl_report_measurement_t *m, ccl_text_t *out,
                                     ccl_error_t *err) {
    const ccl_run_result_t *r = last_result(m);

    if (m->verdict && !m->verdict->valid) {
        ccl_text_printf(out, "%s is not run, it is wrong: %s: %s\n", m->input,
                        m->verdict->fault.kind, m->verdict->fault.text);
        return ccl_i_text_status(out, err);
    }
    ccl_text_printf(out, "%s: %s, %u ranks", m->input, m->program->coll->name, m->program->nranks);
    if (r && r->processes) /* 0: refused before it began */
        ccl_text_printf(out, " on %s, %u process%s%s%s with %u worker%s", r->device, r->processes,
                        r->processes == 1 ? "" : "es", r->processes == 1 ? "" : " over ",
                        r->processes == 1 ? "" : transport(r), r->threads,
                        r->threads == 1 ? "" : "s");
    if (r && r->devices > 1)
        ccl_text_printf(out, ", %u devices", r->devices);
    ccl_text_printf(out, "; %s %s, %s level\n\n", ccl_type_name(m->options->type),
                    ccl_reduction_name(m->options->op),
                    ccl_i_granularity_name(m->options->granularity));
    CCL_TRY(sizes_text(m, out, err));
    for (uint32_t i = 0; i < m->nsizes; i++) {
        const ccl_measured_size_t *s = &m->sizes[i];
        char text[40];

        if (s->status == CCL_OK)
            continue;
        ccl_text_printf(out, "\n%s: %s\n", ccl_format_bytes(s->size_bytes, text, sizeof(text)),
                        s->why ? s->why : ccl_i_status_word(s->status));
        if (s->result && s->result->deadlock)
            text_deadlock(s->result->deadlock, out);
    }
    if (r && r->kernel == CCL_KERNEL_GENERATED)
        ccl_text_printf(out, "\na kernel of its own, compiled in %.2f s\n", r->compile_s);
    if (both(m)) {
        ccl_text_printf(out, "\ninterpreted, and with a kernel of its own: medians, (max - min) / "
                             "median, interpreter / generated\n");
        CCL_TRY(kernels_text(m, out, err));
    }
    if (r && r->clusters)
        clusters_text(r, out);
    if (library_name(m)) {
        ccl_text_printf(out, "\nbeside %s: medians, library / program\n", library_name(m));
        CCL_TRY(library_text(m, out, err));
    }
    if (r && r->blocks) {
        ccl_text_printf(out, "\nthread blocks in one run more: busy, and waiting for\n");
        CCL_TRY(blocks_table(m, CCL_REPORT_TEXT, out, err));
    }
    return ccl_i_text_status(out, err);
}

ccl_status_t ccl_report_measurement(const ccl_report_measurement_t *m,
                                    const ccl_report_style_t *style, ccl_text_t *out,
                                    ccl_error_t *err) {
    size_t table = 0;

    if (style->format == CCL_REPORT_JSON)
        return measurement_json(m, out, err);
    if (style->format == CCL_REPORT_TEXT)
        return measurement_text(m, out, err);
    CCL_TRY(ccl_i_table_choice(ccl_report_measurement_tables, style->table, &table, err));
    return table == 0 ? sizes_csv(m, out, err) : blocks_table(m, CCL_REPORT_CSV, out, err);
}

/* ---------------------------------------------------------------- devices */

static ccl_status_t devices_table(const ccl_device_info_t *devices, uint32_t n,
                                  ccl_report_format_t format, ccl_text_t *out, ccl_error_t *err) {
    static const char *const headers[] = {"device", "index",        "available", "units",
                                          "memory", "architecture", "name"};
    bool csv = format == CCL_REPORT_CSV;
    ccl_table_t *table = ccl_table_create();
    ccl_status_t status;
    char text[40];

    if (!table)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < CCL_ARRAY_LEN(headers); i++)
        ccl_table_column(table, csv && i == 4 ? "memory_bytes" : headers[i], CCL_ALIGN_LEFT);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_device_info_t *d = &devices[i];

        ccl_table_row(table);
        ccl_table_cell(table, "%s", d->kind);
        ccl_table_cell(table, "%u", d->index);
        ccl_table_cell(table, "%s",
                       csv            ? d->available ? "true" : "false"
                       : d->available ? "yes"
                                      : "no");
        ccl_table_cell(table, d->units ? "%u" : "%.0u", d->units);
        if (csv)
            ccl_table_cell(table, "%s", ccl_i_number(d->memory_bytes, text, sizeof(text)));
        else if (d->memory_bytes > 0)
            ccl_table_cell(table, "%.1f GiB", d->memory_bytes / 0x1p30);
        else
            ccl_table_cell(table, "%s", "");
        ccl_table_cell(table, "%s", d->architecture);
        ccl_table_cell(table, "%s", d->name);
    }
    status = ccl_i_table_emit(table, format, out, err);
    ccl_table_destroy(table);
    return status;
}

ccl_status_t ccl_report_devices(const ccl_device_info_t *devices, uint32_t n,
                                const ccl_report_style_t *style, ccl_text_t *out,
                                ccl_error_t *err) {
    ccl_i_json_t json;

    if (style->format != CCL_REPORT_JSON)
        return devices_table(devices, n, style->format, out, err);
    ccl_i_json_begin(&json, out);
    ccl_i_json_schema(&json, "ccllab/devices/1");
    ccl_i_json_array(&json, "devices", false);
    for (uint32_t i = 0; i < n; i++) {
        const ccl_device_info_t *d = &devices[i];

        ccl_i_json_object(&json, NULL, true);
        ccl_i_json_string(&json, "device", d->kind);
        ccl_i_json_u64(&json, "index", d->index);
        ccl_i_json_bool(&json, "available", d->available);
        ccl_i_json_string(&json, "name", d->available ? d->name : NULL);
        ccl_i_json_string(&json, "why_not", d->available ? NULL : d->name);
        ccl_i_json_string(&json, "architecture", d->architecture[0] ? d->architecture : NULL);
        ccl_i_json_u64(&json, "units", d->units);
        ccl_i_json_number(&json, "memory_bytes", d->memory_bytes > 0 ? d->memory_bytes : NAN);
        ccl_i_json_close_object(&json);
    }
    ccl_i_json_close_array(&json);
    ccl_i_json_end(&json);
    return ccl_i_text_status(out, err);
}
