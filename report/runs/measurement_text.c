/* A measured run for people. */
#include "report/runs/measurement.h"

/** Some size was run with both kernels. */
static bool both(const ccl_report_measurement_t *m) {
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].generated)
            return true;
    return false;
}

/** Name of the library that ran some size; NULL: none did. */
static const char *library_name(const ccl_report_measurement_t *m) {
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].library)
            return m->sizes[i].library->library;
    return NULL;
}

static const char *show_percent(double share, char *out, size_t out_len) {
    snprintf(out, out_len, "%.1f %%", 100 * share);
    return out;
}

static const ccl_i_column_t text_sizes[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("timed_batches", "batches"),
    CCL_I_COLUMN("median_s", "median(us)", ccl_i_us),
    CCL_I_COLUMN("min_s", "min(us)", ccl_i_us),
    CCL_I_COLUMN("max_s", "max(us)", ccl_i_us),
    CCL_I_COLUMN("algbw_GBps", "algbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("data", .right = true),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_kernels[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("median_s", "interpreter(us)", ccl_i_us),
    CCL_I_COLUMN("interpreter_spread", "spread", show_percent),
    CCL_I_COLUMN("generated_s", "generated(us)", ccl_i_us),
    CCL_I_COLUMN("generated_spread", "spread", show_percent),
    CCL_I_COLUMN("gain", "ratio", ccl_i_show_3),
    CCL_I_COLUMN("generated_compile_s", "compile(s)", ccl_i_show_2),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_library[] = {
    CCL_I_COLUMN("size_bytes", "size", ccl_format_bytes),
    CCL_I_COLUMN("median_s", "program(us)", ccl_i_us),
    CCL_I_COLUMN("busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("library_s", "library(us)", ccl_i_us),
    CCL_I_COLUMN("library_busbw_GBps", "busbw(GB/s)", ccl_i_show_GBps),
    CCL_I_COLUMN("library_ratio", "ratio", ccl_i_show_3),
    CCL_I_COLUMN("library_data", "data", .right = true),
    CCL_I_COLUMNS_END};
static const ccl_i_column_t text_blocks[] = {CCL_I_COLUMN("rank"),
                                             CCL_I_COLUMN("id"),
                                             CCL_I_COLUMN("slices"),
                                             CCL_I_COLUMN("busy_s", "busy(us)", ccl_i_us),
                                             CCL_I_COLUMN("wait_data_s", "data(us)", ccl_i_us),
                                             CCL_I_COLUMN("wait_peer_s", "peer(us)", ccl_i_us),
                                             CCL_I_COLUMN("wait_slot_s", "slot(us)", ccl_i_us),
                                             CCL_I_COLUMN("wait_core_s", "core(us)", ccl_i_us),
                                             CCL_I_COLUMNS_END};

static ccl_status_t emit(const ccl_i_measurement_t *root, const char *list,
                         const ccl_i_column_t *columns, ccl_text_t *out, ccl_error_t *err) {
    return ccl_i_rows_emit(ccl_i_result_run.root, list, root, columns, CCL_REPORT_TEXT, out, err);
}

static ccl_status_t library_text(const ccl_i_measurement_t *root, ccl_text_t *out,
                                 ccl_error_t *err) {
    const ccl_report_measurement_t *m = root->of;
    char text[40];

    CCL_TRY(emit(root, "beside", text_library, out, err));
    for (uint32_t i = 0; i < m->nsizes; i++)
        if (m->sizes[i].library_why)
            ccl_text_printf(out, "\n%s by %s: %s\n",
                            ccl_format_bytes(m->sizes[i].size_bytes, text, sizeof(text)),
                            library_name(m), m->sizes[i].library_why);
    return CCL_OK;
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

ccl_status_t ccl_i_measurement_text(const ccl_i_measurement_t *root, ccl_text_t *out,
                                    ccl_error_t *err) {
    const ccl_report_measurement_t *m = root->of;
    const ccl_run_result_t *r = root->last;

    if (m->verdict && !m->verdict->valid) {
        ccl_text_printf(out, "%s is not run, it is wrong: %s: %s\n", m->input,
                        m->verdict->fault.kind, m->verdict->fault.text);
        return ccl_i_text_status(out, err);
    }
    ccl_text_printf(out, "%s: %s, %u ranks", m->input, m->program->coll->name, m->program->nranks);
    if (r && r->processes) /* 0: refused before it began */
        ccl_text_printf(out, " on %s, %u process%s%s%s with %u worker%s", r->device, r->processes,
                        r->processes == 1 ? "" : "es", r->processes == 1 ? "" : " over ",
                        r->processes == 1 ? "" : ccl_i_measurement_transport(r), r->threads,
                        r->threads == 1 ? "" : "s");
    if (r && r->devices > 1)
        ccl_text_printf(out, ", %u devices", r->devices);
    ccl_text_printf(out, "; %s %s, %s%s%s level\n", ccl_type_name(m->options->type),
                    ccl_reduction_name(m->options->op), root->protocol ? root->protocol : "",
                    root->protocol ? ", " : "", ccl_i_granularity_name(m->options->granularity));
    if (root->origin)
        ccl_text_printf(out, "  origin %s\n", root->origin);
    ccl_text_printf(out, "\n");
    CCL_TRY(emit(root, "sizes", text_sizes, out, err));
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
        CCL_TRY(emit(root, "both", text_kernels, out, err));
    }
    if (r && r->clusters)
        clusters_text(r, out);
    if (library_name(m)) {
        ccl_text_printf(out, "\nbeside %s: medians, library / program\n", library_name(m));
        CCL_TRY(library_text(root, out, err));
    }
    if (r && r->blocks) {
        ccl_text_printf(out, "\nthread blocks in one run more: busy, and waiting for\n");
        CCL_TRY(emit(root, "thread_blocks", text_blocks, out, err));
    }
    return ccl_i_text_status(out, err);
}
