/**
 * @file trace.c
 * Chrome trace events
 * (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): complete
 * events ("ph":"X"), times in microseconds.
 */
#include "sim/internal.h"

#include <stdio.h>
#include <stdlib.h>

typedef ccl_trace_span_t row_t;

struct ccl_trace {
    row_t *rows;
    size_t n, cap;
    uint64_t max_events, dropped;
    bool no_passes, no_slices;
    bool nomem;
    char (*groups)[64]; /* names of the program's groups of ranks */
    uint32_t ngroups;
};

ccl_trace_t *ccl_trace_create(uint64_t max_events) {
    ccl_trace_t *t = calloc(1, sizeof(*t));
    if (t)
        t->max_events = max_events ? max_events : UINT64_MAX;
    return t;
}

void ccl_trace_destroy(ccl_trace_t *trace) {
    if (!trace)
        return;
    free(trace->rows);
    free(trace->groups);
    free(trace);
}

void ccl_i_trace_groups(ccl_trace_t *trace, const ccl_program_t *program) {
    free(trace->groups);
    trace->ngroups = 0;
    trace->groups = malloc((program->ngroups + (size_t)1) * sizeof(*trace->groups));
    for (; trace->groups && trace->ngroups < program->ngroups; trace->ngroups++)
        ccl_peer_text(program, CCL_PEER_GROUP | trace->ngroups, trace->groups[trace->ngroups],
                      sizeof(*trace->groups));
    trace->nomem = trace->nomem || !trace->groups;
}

/* One end of a slice. */
static const char *end_name(const ccl_trace_t *t, uint32_t end, char *out, size_t len) {
    if (ccl_peer_is_group(end) && (end & ~CCL_PEER_GROUP) < t->ngroups)
        return t->groups[end & ~CCL_PEER_GROUP];
    snprintf(out, len, "%u", end);
    return out;
}

static void add(ccl_trace_t *t, const row_t *row) {
    if (t->n >= t->max_events) {
        t->dropped++;
    } else if (!ccl_i_grow(&t->rows, &t->cap, t->n + 1, sizeof(*t->rows))) {
        t->nomem = true;
    } else {
        t->rows[t->n++] = *row;
    }
}

const ccl_trace_span_t *ccl_trace_spans(const ccl_trace_t *trace, uint64_t *n_out,
                                        uint64_t *dropped_out) {
    *n_out = trace->n;
    *dropped_out = trace->dropped;
    return trace->rows;
}

void ccl_trace_keep(ccl_trace_t *trace, bool passes, bool slices) {
    trace->no_passes = !passes;
    trace->no_slices = !slices;
}

void ccl_i_trace_tb(ccl_trace_t *trace, const ccl_trace_span_t *pass) {
    if (!trace->no_passes)
        add(trace, pass);
}

void ccl_i_trace_flow(ccl_trace_t *trace, const ccl_trace_span_t *slice) {
    if (!trace->no_slices)
        add(trace, slice);
}

static int by_place(const void *a, const void *b) {
    const row_t *x = a, *y = b;
    int dx = (x->name == NULL) - (y->name == NULL);
    if (dx)
        return dx;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->other != y->other)
        return x->other < y->other ? -1 : 1;
    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return x->end_s < y->end_s ? -1 : x->end_s > y->end_s;
}

ccl_status_t ccl_trace_write(const ccl_trace_t *trace, ccl_text_t *out, ccl_error_t *err) {
    row_t *rows = malloc((trace->n + 1) * sizeof(*rows));
    if (!rows || trace->nomem) {
        free(rows);
        return ccl_fail_nomem(err);
    }
    for (size_t i = 0; i < trace->n; i++)
        rows[i] = trace->rows[i];
    qsort(rows, trace->n, sizeof(*rows), by_place);
    ccl_text_printf(out,
                    "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tool\":\"ccllab " CCL_VERSION
                    "\",\"dropped\":%llu},\"traceEvents\":[\n",
                    (unsigned long long)trace->dropped);
    ccl_text_printf(out, "{\"ph\":\"M\",\"pid\":1000000,\"name\":\"process_name\","
                         "\"args\":{\"name\":\"connections\"}}");
    uint32_t last_rank = CCL_NONE;
    uint64_t last_row = UINT64_MAX;
    uint32_t tid = 0;
    for (size_t i = 0; i < trace->n; i++) {
        const row_t *r = &rows[i];
        double ts = r->start_s * 1e6, dur = (r->end_s - r->start_s) * 1e6;
        if (r->name) {
            if (r->rank != last_rank)
                ccl_text_printf(out,
                                ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\","
                                "\"args\":{\"name\":\"GPU %u\"}}",
                                r->rank, r->rank);
            last_rank = r->rank;
            ccl_text_printf(
                out,
                ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"ts\":%.15g,"
                "\"dur\":%.15g,\"args\":{\"step\":%u,\"batch\":%u,\"slice\":%u,\"bytes\":%.17g}}",
                r->rank, r->other, r->name, ts, dur, r->at, r->batch, r->slice, r->bytes);
            continue;
        }
        uint64_t row = (uint64_t)r->rank << 32 | r->other;
        if (row != last_row) {
            char from[16], to[16];
            tid++;
            ccl_text_printf(out,
                            ",\n{\"ph\":\"M\",\"pid\":1000000,\"tid\":%u,\"name\":\"thread_name\","
                            "\"args\":{\"name\":\"%s -> %s\"}}",
                            tid, end_name(trace, r->rank, from, sizeof(from)),
                            end_name(trace, r->other, to, sizeof(to)));
        }
        last_row = row;
        ccl_text_printf(out,
                        ",\n{\"ph\":\"X\",\"pid\":1000000,\"tid\":%u,\"name\":\"channel %u\","
                        "\"ts\":%.15g,\"dur\":%.15g,\"args\":{\"bytes\":%.17g}}",
                        tid, r->channel, ts, dur, r->bytes);
    }
    ccl_text_printf(out, "\n]}\n");
    free(rows);
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
