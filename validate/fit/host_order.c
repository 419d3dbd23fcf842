/*
 * What the data of every step cost, by how long ago they were used, in the order in which one
 * worker of the host takes the passes (ccl_run_order()); data that n bytes were used after
 * cost what a footprint of n bytes costs, and data used for the first time that of the
 * whole run's, as in the calibration.
 */
#include "validate/fit/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_GRANULE 1024u
#define MOST_GRANULE 32768u
#define GRANULES 8192.0

/* Granules by their last use: a Fenwick tree over time counts those used since. */
typedef struct history {
    uint32_t *last; /* [ngranules] when; 0: not yet */
    uint32_t *tree; /* [cap + 1] */
    uint32_t *at;   /* [cap + 1] granule used then, CCL_NONE: used again since */
    uint32_t ngranules, cap, now, live;
} history_t;

typedef struct order {
    const ccl_program_t *program;
    const ccl_host_model_t *model;
    double footprint;
    uint32_t granule, batches;
    history_t history;
    double *work_ns; /* [steps of the program] of all micro-batches */
} order_t;

/* ---------------------------------------------------------------- time since the last use */

static void count(history_t *h, uint32_t time, int by) {
    for (uint32_t i = time; i <= h->cap; i += i & -i)
        h->tree[i] += (uint32_t)by;
}

static uint32_t used_until(const history_t *h, uint32_t time) {
    uint32_t sum = 0;
    for (uint32_t i = time; i > 0; i -= i & -i)
        sum += h->tree[i];
    return sum;
}

/* Times again from 1 on. */
static void renumber(history_t *h) {
    uint32_t n = 0;
    for (uint32_t t = 1; t <= h->now; t++)
        if (h->at[t] != CCL_NONE) {
            h->at[++n] = h->at[t];
            h->last[h->at[n]] = n;
        }
    memset(h->tree, 0, (h->cap + (size_t)1) * sizeof *h->tree);
    h->now = n;
    for (uint32_t t = 1; t <= n; t++)
        count(h, t, 1);
}

/** Use a granule. @return granules used since its last use; UINT32_MAX: it is the first. */
static uint32_t use(history_t *h, uint32_t granule) {
    uint32_t last = h->last[granule], since = UINT32_MAX;
    if (last) {
        since = h->live - used_until(h, last);
        count(h, last, -1);
        h->at[last] = CCL_NONE;
    } else {
        h->live++;
    }
    if (h->now == h->cap)
        renumber(h);
    h->last[granule] = ++h->now;
    h->at[h->now] = granule;
    count(h, h->now, 1);
    return since;
}

/** Seconds per byte times bytes of an operand of a step. */
static double operand_s(order_t *o, uint32_t prim, uint64_t at, uint64_t bytes) {
    double sum = 0;
    for (uint64_t end = at + bytes; at < end;) {
        uint64_t next = (at / o->granule + 1) * o->granule, n = (next < end ? next : end) - at;
        uint32_t since = use(&o->history, (uint32_t)(at / o->granule));
        double distance = since == UINT32_MAX ? o->footprint : (double)since * o->granule;
        sum += (double)n *
               ccl_i_host_at(o->model, o->model->s_per_byte[prim], fmin(distance, o->footprint));
        at += n;
    }
    return sum;
}

static ccl_status_t begin(void *user, uint64_t bytes, uint32_t batches, ccl_error_t *err) {
    order_t *o = user;
    history_t *h = &o->history;
    o->batches = batches;
    o->granule = LEAST_GRANULE;
    while (o->granule < MOST_GRANULE && o->footprint / o->granule > GRANULES)
        o->granule *= 2;
    if (bytes / o->granule >= UINT32_MAX / 4)
        return ccl_fail(err, CCL_ERR_INPUT, "buffers of %g bytes: too much to predict",
                        o->footprint);
    h->ngranules = (uint32_t)(bytes / o->granule + 1);
    h->cap = 2 * h->ngranules + 64;
    h->last = calloc(h->ngranules + (size_t)1, sizeof *h->last);
    h->tree = calloc(h->cap + (size_t)1, sizeof *h->tree);
    h->at = calloc(h->cap + (size_t)1, sizeof *h->at);
    return h->last && h->tree && h->at ? CCL_OK : ccl_fail_nomem(err);
}

static void use_memory(void *user, const ccl_run_use_t *use) {
    order_t *o = user;
    uint32_t prim = o->program->steps[use->step].type;
    bool reads = use->src_at != CCL_RUN_NOWHERE, writes = use->dst_at != CCL_RUN_NOWHERE;
    if (prim >= CCL_HOST_PASSES || (!reads && !writes))
        return;
    if (reads && use->src_at == use->dst_at)
        writes = false; /* one use */
    double each = 1e9 / (reads + writes);
    if (reads)
        o->work_ns[use->step] += each * operand_s(o, prim, use->src_at, use->bytes);
    if (writes)
        o->work_ns[use->step] += each * operand_s(o, prim, use->dst_at, use->bytes);
}

ccl_status_t ccl_i_host_data_work(const ccl_program_t *program, const ccl_run_options_t *options,
                                  const ccl_host_model_t *model, double *work_ns,
                                  ccl_error_t *err) {
    static const ccl_run_order_ops_t ops = {begin, use_memory};
    order_t o = {.program = program,
                 .model = model,
                 .footprint = ccl_host_footprint(program, options),
                 .batches = 1,
                 .work_ns = work_ns};
    ccl_status_t status = ccl_run_order(program, options, &ops, &o, err);
    for (uint32_t i = 0; i < program->nsteps && status == CCL_OK; i++)
        work_ns[i] /= o.batches;
    free(o.history.last);
    free(o.history.tree);
    free(o.history.at);
    return status;
}
