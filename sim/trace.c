/**
 * @file trace.c
 * Chrome trace events
 * (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): complete
 * events ("ph":"X"), times in microseconds.
 */
#include "sim/internal.h"

#include <stdlib.h>

typedef struct row {
    double start_s, end_s, bytes;
    const char *name; /* static; NULL: a flow */
    uint32_t a, b, c, step, batch, slice;
} row_t;

struct ccl_trace {
    row_t *rows;
    size_t n, cap;
    uint64_t max_events, dropped;
    bool nomem;
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
    free(trace);
}

static void add(ccl_trace_t *t, row_t row) {
    if (t->n >= t->max_events) {
        t->dropped++;
    } else if (!ccl_i_grow(&t->rows, &t->cap, t->n + 1, sizeof(*t->rows))) {
        t->nomem = true;
    } else {
        t->rows[t->n++] = row;
    }
}

void ccl_i_trace_tb(ccl_trace_t *trace, uint32_t rank, uint32_t tb, const char *name,
                    double start_s, double end_s, uint32_t step, uint32_t batch, uint32_t slice,
                    double bytes) {
    add(trace, (row_t){start_s, end_s, bytes, name, rank, tb, 0, step, batch, slice});
}

void ccl_i_trace_flow(ccl_trace_t *trace, uint32_t src, uint32_t dst, uint32_t channel,
                      double start_s, double end_s, double bytes) {
    add(trace, (row_t){start_s, end_s, bytes, NULL, src, dst, channel, 0, 0, 0});
}

static int by_place(const void *a, const void *b) {
    const row_t *x = a, *y = b;
    int dx = (x->name == NULL) - (y->name == NULL);
    if (dx)
        return dx;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    if (x->b != y->b)
        return x->b < y->b ? -1 : 1;
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
            if (r->a != last_rank)
                ccl_text_printf(out,
                                ",\n{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\","
                                "\"args\":{\"name\":\"GPU %u\"}}",
                                r->a, r->a);
            last_rank = r->a;
            ccl_text_printf(
                out,
                ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"ts\":%.15g,"
                "\"dur\":%.15g,\"args\":{\"step\":%u,\"batch\":%u,\"slice\":%u,\"bytes\":%.17g}}",
                r->a, r->b, r->name, ts, dur, r->step, r->batch, r->slice, r->bytes);
            continue;
        }
        uint64_t row = (uint64_t)r->a << 32 | r->b;
        if (row != last_row) {
            tid++;
            ccl_text_printf(out,
                            ",\n{\"ph\":\"M\",\"pid\":1000000,\"tid\":%u,\"name\":\"thread_name\","
                            "\"args\":{\"name\":\"%u -> %u\"}}",
                            tid, r->a, r->b);
        }
        last_row = row;
        ccl_text_printf(out,
                        ",\n{\"ph\":\"X\",\"pid\":1000000,\"tid\":%u,\"name\":\"channel %u\","
                        "\"ts\":%.15g,\"dur\":%.15g,\"args\":{\"bytes\":%.17g}}",
                        tid, r->c, ts, dur, r->bytes);
    }
    ccl_text_printf(out, "\n]}\n");
    free(rows);
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
