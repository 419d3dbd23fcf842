/*
 * NCCL's Inspector plugin (ext-profiler/inspector, and RCCL's): JSON, one object per call, rank and
 * communicator. Ranks wait for each other inside a call, so that of one call the rank that came
 * last, whose time is the least, shows what the call took; of calls of one size the median counts.
 */
#include "validate/logs/measured.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool ccl_i_inspector_is(const json_t *row) {
    return json_object_get(row, "coll_perf") || json_object_get(row, "p2p_perf");
}

/* The run of a call: one per communicator, collective and clock. */
static ccl_i_log_run_t *run_of(ccl_i_measured_t *m, ccl_collective_kind_t kind, const char *id,
                               uint32_t nranks, uint32_t nnodes, const char *clock, uint32_t line) {
    char key[300], label[160];
    bool gpu = !clock || strcmp(clock, "kernel_gpu") == 0;
    snprintf(key, sizeof key, "%d|%.100s|%u|%u|%.60s", (int)kind, id, nranks, nnodes,
             gpu ? "" : clock);
    ccl_i_log_run_t *run = ccl_i_measured_key(m, key, line);
    if (!run || run->about.nranks)
        return run;
    run->about.known = true;
    run->about.kind = kind;
    run->about.nranks = nranks;
    run->about.nhosts = nnodes <= nranks ? nnodes : 0;
    snprintf(label, sizeof label, "communicator %.60s%s%.40s", id, gpu ? "" : ", times by ",
             gpu ? "" : clock);
    run->about.label = ccl_i_measured_text(m, label, strlen(label));
    return run;
}

ccl_status_t ccl_i_inspector_add(ccl_i_inspector_t *calls, ccl_i_call_t call, ccl_error_t *err) {
    if (!ccl_grow(&calls->items, &calls->cap, calls->n + 1, sizeof *calls->items))
        return ccl_fail_nomem(err);
    calls->items[calls->n++] = call;
    return CCL_OK;
}

/* Times of the channels' kernels; what is not in the form of NCCL's Inspector is left out. */
static void read_channels(const ccl_json_at_t *perf, ccl_i_inspector_record_t *out) {
    const json_t *events =
        json_object_get(json_object_get(perf->value, "event_trace_ts"), "kernel_events");
    for (size_t i = 0; i < json_array_size(events) && out->nchannels < CCL_I_MAX_CHANNELS; i++) {
        const json_t *event = json_array_get(events, i);
        const json_t *channel = json_object_get(event, "channel_id");
        double us = json_number_value(json_object_get(event, "kernel_stop_ts")) -
                    json_number_value(json_object_get(event, "kernel_start_ts"));
        if (!json_is_integer(channel) || json_integer_value(channel) < 0 ||
            json_integer_value(channel) >= CCL_I_MAX_CHANNELS || !(us > 0))
            continue;
        out->channels[out->nchannels] = (uint32_t)json_integer_value(channel);
        out->channels_us[out->nchannels++] = us;
    }
}

ccl_status_t ccl_i_inspector_parse(const ccl_json_at_t *root, ccl_i_inspector_record_t *out,
                                   ccl_error_t *err) {
    const char *coll = NULL;
    ccl_json_at_t header = ccl_json_member(root, "header"),
                  perf = ccl_json_member(root, "coll_perf");
    memset(out, 0, sizeof *out);
    out->id = "";
    out->rank = CCL_NONE;
    out->number = NAN;
    CCL_TRY(ccl_json_object(&header, true, err));
    CCL_TRY(ccl_json_object(&perf, true, err));
    ccl_json_at_t v = ccl_json_member(&header, "id");
    CCL_TRY(ccl_json_name(&v, false, &out->id, err));
    v = ccl_json_member(&header, "n_ranks");
    CCL_TRY(ccl_json_u32(&v, true, CCL_I_MAX_RANKS, &out->nranks, err));
    if (out->nranks == 0)
        return ccl_json_fail(&v, err, "a communicator of 0 ranks; at least 1 is needed");
    v = ccl_json_member(&header, "rank");
    if (v.value)
        CCL_TRY(ccl_json_u32(&v, true, out->nranks - 1, &out->rank, err));
    v = ccl_json_member(&header, "nnodes");
    CCL_TRY(ccl_json_u32(&v, false, CCL_I_MAX_RANKS, &out->nnodes, err));
    v = ccl_json_member(&perf, "coll");
    CCL_TRY(ccl_json_string(&v, true, &coll, err));
    if (!ccl_i_collective_named(coll, strlen(coll), &out->kind))
        return ccl_json_fail(&v, err, "\"%.60s\" is no collective", coll);
    v = ccl_json_member(&perf, "coll_timing_source");
    CCL_TRY(ccl_json_string(&v, false, &out->clock, err));
    v = ccl_json_member(&perf, "coll_algo");
    CCL_TRY(ccl_json_string(&v, false, &out->algo, err));
    v = ccl_json_member(&perf, "coll_proto");
    CCL_TRY(ccl_json_string(&v, false, &out->proto, err));
    v = ccl_json_member(&perf, "coll_sn");
    CCL_TRY(ccl_json_number(&v, false, &out->number, err));
    v = ccl_json_member(&perf, "coll_msg_size_bytes");
    CCL_TRY(ccl_json_number(&v, true, &out->size_bytes, err));
    if (!(out->size_bytes >= 0) || out->size_bytes > 1e18)
        return ccl_json_fail(&v, err, "a message of %g bytes; 0 to 1e18", out->size_bytes);
    v = ccl_json_member(&perf, "coll_exec_time_us");
    CCL_TRY(ccl_json_number(&v, true, &out->time_us, err));
    if (!(out->time_us >= 0) || out->time_us > 1e15)
        return ccl_json_fail(&v, err, "a time of %g us; 0 to 1e15", out->time_us);
    /* It counts what a rank gives to AllGather and gets from ReduceScatter; nccl-tests, all. */
    if (out->kind == CCL_ALLGATHER || out->kind == CCL_REDUCESCATTER)
        out->size_bytes *= out->nranks;
    read_channels(&perf, out);
    return CCL_OK;
}

static ccl_status_t read_call(ccl_i_measured_t *m, ccl_i_inspector_t *calls,
                              const ccl_json_at_t *root, uint32_t line, ccl_error_t *err) {
    ccl_i_inspector_record_t r;
    CCL_TRY(ccl_i_inspector_parse(root, &r, err));
    if (r.size_bytes == 0 || r.time_us == 0)
        return CCL_OK; /* nothing was moved, or it was too short for the clock */
    ccl_i_log_run_t *run = run_of(m, r.kind, r.id, r.nranks, r.nnodes, r.clock, line);
    if (!run)
        return CCL_OK; /* reported by the caller, or more runs than are kept */
    double number = isnan(r.number) ? -(double)line : r.number; /* without one: its own call */
    ccl_i_call_t call = {(size_t)(run - m->runs), r.size_bytes, number, r.time_us, line};
    return ccl_i_inspector_add(calls, call, err);
}

ccl_status_t ccl_i_inspector_row(ccl_i_measured_t *m, ccl_i_inspector_t *calls, const char *text,
                                 size_t len, uint32_t line, ccl_error_t *err) {
    ccl_json_doc_t doc;
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status = ccl_json_parse(m->name, text, len, &doc, &why);
    if (status == CCL_OK) {
        ccl_json_at_t root = ccl_json_root(&doc), perf = ccl_json_member(&root, "coll_perf");
        if (perf.value) /* else a send or receive alone, which is no collective */
            status = read_call(m, calls, &root, line, &why);
        ccl_json_fini(&doc);
    }
    if (status != CCL_OK && err) {
        *err = why;
        err->line = (int)line; /* the text is one line of the file */
    }
    return status;
}

static int by_call(const void *a, const void *b) {
    const ccl_i_call_t *x = a, *y = b;
#define LESS_(field)                                                                               \
    if (x->field != y->field)                                                                      \
    return x->field < y->field ? -1 : 1
    LESS_(run);
    LESS_(size_bytes);
    LESS_(number);
    LESS_(time_us);
    LESS_(line);
#undef LESS_
    return 0;
}

static int by_time(const void *a, const void *b) {
    double x = ((const ccl_i_call_t *)a)->time_us, y = ((const ccl_i_call_t *)b)->time_us;
    return x < y ? -1 : x > y;
}

/* Calls of one size, by number: one point. */
static void add_point(ccl_i_measured_t *m, ccl_i_call_t *calls, size_t n) {
    size_t kept = 0;
    uint32_t line = calls[0].line;
    for (size_t i = 0; i < n; i++) { /* the first of a call is its least time */
        line = calls[i].line < line ? calls[i].line : line;
        if (i == 0 || calls[i].number != calls[kept - 1].number)
            calls[kept++] = calls[i];
    }
    double size_bytes = calls[0].size_bytes;
    size_t run = calls[0].run;
    qsort(calls, kept, sizeof *calls, by_time);
    double us = kept % 2 ? calls[kept / 2].time_us
                         : (calls[kept / 2 - 1].time_us + calls[kept / 2].time_us) / 2;
    /* Of a normal distribution two quartiles are 1.349 standard deviations apart. */
    double spread =
        kept >= 4 ? (calls[kept * 3 / 4].time_us - calls[kept / 4].time_us) / 1.349 / us : 0;
    ccl_i_measured_point(
        m, &m->runs[run],
        (ccl_measurement_t){
            .size_bytes = size_bytes, .time_s = us * 1e-6, .spread = spread, .line = line});
}

void ccl_i_inspector_finish(ccl_i_measured_t *m, ccl_i_inspector_t *calls) {
    if (calls->n)
        qsort(calls->items, calls->n, sizeof *calls->items, by_call);
    for (size_t from = 0, to; from < calls->n; from = to) {
        const ccl_i_call_t *first = &calls->items[from];
        for (to = from + 1; to < calls->n && calls->items[to].run == first->run &&
                            calls->items[to].size_bytes == first->size_bytes;)
            to++;
        add_point(m, &calls->items[from], to - from);
    }
    free(calls->items);
    *calls = (ccl_i_inspector_t){0};
}
