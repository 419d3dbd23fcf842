/**
 * @file trace.h
 * Private to sim/trace/: what a trace keeps, and which of it is written.
 */
#ifndef CCL_SIM_TRACE_H
#define CCL_SIM_TRACE_H

#include "sim/internal.h"

struct ccl_trace {
    ccl_trace_span_t *rows;
    size_t n, cap;
    uint64_t max_events, dropped;
    bool no_passes, no_slices;
    bool nomem;
    char (*groups)[64]; /* names of the program's groups of ranks */
    uint32_t ngroups;
};

enum { TRACE_NETWORK = 1000000, TRACE_LINKS, TRACE_OTHERS }; /* numbers of processes */

/** A trace while it is written. */
typedef struct ccl_i_trace_writer {
    const ccl_trace_t *trace;
    const ccl_trace_about_t *about;
    ccl_trace_span_t *rows; /* passes by GPU, block, start, then slices by ends, start */
    size_t npasses, n;
    bool *shown; /* [nranks] */
    uint32_t nranks, nshown;
    double time_s; /* of the last end */
    ccl_text_t *out;
    ccl_arena_t arena;
} ccl_i_trace_writer_t;

/** A name inside quotes of JSON. */
void ccl_i_trace_string(ccl_text_t *out, const char *text);
/** The stage of a pass at stage level, else 0. */
uint32_t ccl_i_trace_stage(const ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass);
/** Row of a pass within its GPU. */
uint32_t ccl_i_trace_row(const ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass);
/** Which GPUs are written in full: w->shown. */
ccl_status_t ccl_i_trace_choose(ccl_i_trace_writer_t *w, ccl_error_t *err);
/** Waits between passes of a block, `before` the pass; `from_s`: where the gap begins. */
void ccl_i_trace_waits(ccl_i_trace_writer_t *w, const ccl_trace_span_t *pass,
                       const ccl_trace_span_t *last, double from_s);
/** Arrows from sends to receives. */
ccl_status_t ccl_i_trace_arrows(ccl_i_trace_writer_t *w, ccl_error_t *err);
/** Counters: rates of links, and busy blocks of GPUs that are not shown. */
ccl_status_t ccl_i_trace_link_counters(ccl_i_trace_writer_t *w, ccl_error_t *err);
ccl_status_t ccl_i_trace_busy_counters(ccl_i_trace_writer_t *w, ccl_error_t *err);

#endif
