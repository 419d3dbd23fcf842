/**
 * @file plan.h
 * From a program, a size and options to what devices run: items of every element, the ranks'
 * memory, units, pieces, connections. Pure computation: every process of a job gets the same.
 */
#ifndef CCL_RUNTIME_PLAN_H
#define CCL_RUNTIME_PLAN_H

#include "runtime/device.h"
#include "runtime/runtime.h"

/**
 * Where the elements of all buffers lie. Element e of buffer b of rank r: first[3 r + b] + e; that
 * of a chunk is one that ccl_program_element() finds.
 */
typedef struct ccl_i_layout {
    uint32_t nranks, item_bytes;
    bool in_place;
    uint32_t *first;        /* [3 nranks + 1] */
    uint64_t *items;        /* [elements] whole items */
    uint64_t *at;           /* [elements] first item, from the rank's memory */
    uint64_t *rank_items;   /* [nranks] of its memory */
    uint64_t *output_at;    /* [nranks] first item of the output, from the rank's memory */
    uint64_t largest_items; /* of an element */
    double buffer_bytes;    /* largest input or output buffer of a rank */
} ccl_i_layout_t;

/**
 * Items of an element of share s: ceil(s size / item bytes), so that equal shares (to
 * CCL_SHARE_TOLERANCE) get equal items on every rank, and none that is not 0 gets nothing.
 * @param program  one that ccl_program_check() finds nothing wrong with.
 */
ccl_status_t ccl_i_layout_init(const ccl_program_t *program, const ccl_run_options_t *options,
                               ccl_i_layout_t *out, ccl_error_t *err);
void ccl_i_layout_fini(ccl_i_layout_t *layout);
static inline uint32_t ccl_i_layout_element(const ccl_i_layout_t *l, uint32_t rank, uint32_t buffer,
                                            uint32_t element) {
    return l->first[3 * (size_t)rank + buffer] + element;
}

/** Of a collective's element, which in place may lie in the other buffer; CCL_NONE: nowhere. */
static inline uint32_t ccl_i_layout_find(const ccl_program_t *program, const ccl_i_layout_t *l,
                                         uint32_t rank, ccl_buffer_t buffer, uint32_t element) {
    if (element == CCL_NONE || !ccl_program_element(program, rank, l->in_place, &buffer, &element))
        return CCL_NONE;
    return ccl_i_layout_element(l, rank, buffer, element);
}

typedef struct ccl_i_run_plan {
    ccl_device_plan_t dev; /* conns, memory, done and host are filled by the run */
    ccl_i_layout_t layout;
    ccl_device_unit_t *units;
    ccl_device_step_t *steps;
    ccl_device_piece_t *pieces;
    uint32_t *waiters;
    ccl_device_conn_t *conns;
    uint32_t *conn_src, *conn_dst; /* [nconns] ranks */
    uint32_t *program_step;        /* [nsteps] index into program->steps */
    uint32_t *rank_first_unit;     /* [nranks + 1] */
    const uint32_t *first_rank;    /* of every process, as in the options */
    uint64_t *conn_at;             /* [nconns] offset of the slots in a region of fifo_bytes */
    uint64_t fifo_bytes;
    double slice_bytes, chunk_bytes;
    uint32_t slots;
    uint64_t first_slice;
    uint64_t transfers; /* slices handed over in a run */
} ccl_i_run_plan_t;

/** @retval CCL_CHECK  ccl_program_check() finds a fault, which the error names. */
ccl_status_t ccl_i_run_plan_init(const ccl_program_t *program, const ccl_run_options_t *options,
                                 ccl_i_run_plan_t *out, ccl_error_t *err);
void ccl_i_run_plan_fini(ccl_i_run_plan_t *plan);
/** Whether it finishes with these slots and slices. */
ccl_status_t ccl_i_run_plan_deadlock(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                     const ccl_i_run_plan_t *plan, ccl_granularity_t granularity,
                                     ccl_deadlock_t *out, ccl_error_t *err);

/* ---------------------------------------------------------------- arithmetic of pieces */

/** Bytes in a slot of a slice with `bytes` of data. */
static inline uint64_t ccl_i_slot_bytes(uint32_t protocol, uint64_t bytes) {
    uint64_t line = protocol == CCL_DEVICE_LL ? CCL_DEVICE_LL_LINE : CCL_DEVICE_LL128_LINE;
    uint64_t data = protocol == CCL_DEVICE_LL ? CCL_DEVICE_LL_DATA : CCL_DEVICE_LL128_DATA;
    uint64_t lines = (bytes + data - 1) / data;
    return protocol == CCL_DEVICE_SIMPLE ? bytes : (lines ? lines : 1) * line;
}

/** Items of one element of a piece in a micro-batch. */
static inline uint64_t ccl_i_piece_items(const ccl_device_piece_t *p, uint64_t batch) {
    uint64_t begin = batch * p->batch_items;
    if (begin >= p->items)
        return 0;
    return p->items - begin < p->batch_items ? p->items - begin : p->batch_items;
}

static inline uint64_t ccl_i_step_items(const ccl_device_plan_t *plan,
                                        const ccl_device_step_t *step, uint64_t batch) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < step->npieces; i++) {
        const ccl_device_piece_t *p = &plan->pieces[step->first_piece + i];
        sum += p->n * ccl_i_piece_items(p, batch);
    }
    return sum;
}

/** Items of all but the last slices of a step that has n in this micro-batch. */
static inline uint64_t ccl_i_slice_items(uint64_t n, uint32_t slices, uint32_t item_bytes) {
    uint64_t x = (n + slices - 1) / slices, unit = 16 / item_bytes;
    return (x + unit - 1) / unit * unit;
}

#endif
