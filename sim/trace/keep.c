/* What a trace keeps while a run goes on. */
#include "sim/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>

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

static void add(ccl_trace_t *t, const ccl_trace_span_t *row) {
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
