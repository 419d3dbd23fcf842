/**
 * @file tiny_program.h
 * The program of a plan of whole chunks: a thread block for each end of each connection, which
 * keeps the plan's order; a chunk goes on when it has arrived, a sum when all of it has.
 */
#ifndef CCL_BENCH_TINY_PROGRAM_H
#define CCL_BENCH_TINY_PROGRAM_H

#include "bench/tiny_chunks.h"

/* Where a rank keeps a chunk, and the last step that changed it there. */
typedef struct tiny_place {
    uint32_t off, tb, step;
    uint8_t buf;
    bool own; /* its contribution, in its input; nothing has come yet */
} tiny_place_t;

typedef struct tiny_writer {
    const tiny_net_t *net;
    const ccl_collective_t *coll;
    ccl_program_builder_t *b;
    bool sums;
    uint32_t sends[TINY_ARCS], receives[TINY_ARCS]; /* blocks by arc; CCL_NONE: unused */
    uint32_t ids[TINY_GPUS], id_of[2 * TINY_ARCS];
    tiny_place_t at[TINY_CHUNKS][TINY_GPUS];
} tiny_writer_t;

static inline uint32_t tiny_block(tiny_writer_t *w, uint32_t rank, uint32_t send, uint32_t recv) {
    uint32_t tb = ccl_program_builder_tb(w->b, rank, send, recv, 0);
    if (tb < CCL_ARRAY_LEN(w->id_of))
        w->id_of[tb] = w->ids[rank]++;
    return tb;
}

static inline ccl_step_t tiny_step(const tiny_writer_t *w, ccl_primitive_t type,
                                   const tiny_place_t *src, const tiny_place_t *dst) {
    ccl_step_t step = {.count = 1, .dep_tb = CCL_NONE, .dep_step = CCL_NONE};
    step.type = (uint8_t)type;
    step.src_buf = src->buf;
    step.src_off = src->off;
    step.dst_buf = dst->buf;
    step.dst_off = dst->off;
    if (src->tb != CCL_NONE) {
        step.dep_tb = w->id_of[src->tb];
        step.dep_step = src->step;
    }
    return step;
}

/* Where a rank puts a chunk that comes: its output, or scratch. */
static inline tiny_place_t tiny_put(const tiny_writer_t *w, uint32_t rank, uint32_t chunk) {
    uint32_t out = ccl_collective_output(w->coll, rank, chunk);
    return (tiny_place_t){.off = out == CCL_NONE ? chunk : out,
                          .buf = out == CCL_NONE ? CCL_BUF_SCRATCH : CCL_BUF_OUTPUT,
                          .tb = CCL_NONE};
}

static inline void tiny_write_move(tiny_writer_t *w, const tiny_move_t *m) {
    const tiny_arc_t *arc = &w->net->arcs[m->arc];
    tiny_place_t *src = &w->at[m->chunk][arc->from], *dst = &w->at[m->chunk][arc->to];
    tiny_place_t to = tiny_put(w, arc->to, m->chunk);
    if (w->sends[m->arc] == CCL_NONE) {
        w->sends[m->arc] = tiny_block(w, arc->from, arc->to, CCL_NONE);
        w->receives[m->arc] = tiny_block(w, arc->to, CCL_NONE, arc->from);
    }
    ccl_program_builder_step(w->b, w->sends[m->arc], tiny_step(w, CCL_PRIM_S, src, src));
    ccl_step_t step = w->sums ? tiny_step(w, CCL_PRIM_RRC, dst, &to)
                              : tiny_step(w, CCL_PRIM_R, &to, &to);
    to.step = ccl_program_builder_step(w->b, w->receives[m->arc], step);
    to.tb = w->receives[m->arc];
    *dst = to;
}

/* A rank's copies of its own chunks. */
static inline void tiny_copies(tiny_writer_t *w) {
    for (uint32_t r = 0; r < w->net->ngpus; r++) {
        uint32_t tb = CCL_NONE;
        for (uint32_t c = 0; c < w->coll->nchunks && !w->sums; c++) {
            tiny_place_t *src = &w->at[c][r], to = tiny_put(w, r, c);
            if (!src->own || to.buf != CCL_BUF_OUTPUT)
                continue;
            if (tb == CCL_NONE)
                tb = ccl_program_builder_tb(w->b, r, CCL_NONE, CCL_NONE, 0);
            tiny_place_t from = *src;
            from.tb = CCL_NONE;
            ccl_program_builder_step(w->b, tb, tiny_step(w, CCL_PRIM_CPY, &from, &to));
        }
    }
}

/** The program; takes no ownership. Its simulated time, links alone, is the plan's or less. */
static inline ccl_status_t tiny_write(const tiny_net_t *net, const ccl_collective_t *coll,
                                      const tiny_plan_t *plan, ccl_program_t **out,
                                      ccl_error_t *err) {
    tiny_writer_t w = {.net = net, .coll = coll, .sums = tiny_backward(coll->kind)};
    ccl_collective_t *own = NULL;
    uint32_t most = 0;
    CCL_TRY(ccl_collective_clone(coll, &own, err));
    for (uint32_t r = 0; r < net->ngpus; r++) {
        uint32_t in = ccl_collective_input_len(coll, r), to = ccl_collective_output_len(coll, r);
        most = in > most ? in : most;
        most = to > most ? to : most;
    }
    w.b = ccl_program_builder_create("tiny", own, most, "Simple");
    if (!w.b)
        return ccl_fail_nomem(err);
    ccl_program_builder_place(w.b, false, true, 0, 0);
    for (uint32_t r = 0; r < net->ngpus; r++) {
        ccl_program_builder_buffer(w.b, r, CCL_BUF_INPUT, ccl_collective_input_len(coll, r));
        ccl_program_builder_buffer(w.b, r, CCL_BUF_OUTPUT, ccl_collective_output_len(coll, r));
        ccl_program_builder_buffer(w.b, r, CCL_BUF_SCRATCH, coll->nchunks);
        for (uint32_t c = 0; c < coll->nchunks; c++) {
            uint32_t in = ccl_collective_input(coll, r, c);
            w.at[c][r] =
                in == CCL_NONE
                    ? tiny_put(&w, r, c)
                    : (tiny_place_t){.off = in, .buf = CCL_BUF_INPUT, .tb = CCL_NONE, .own = true};
        }
    }
    for (uint32_t a = 0; a < net->narcs; a++)
        w.sends[a] = w.receives[a] = CCL_NONE;
    /* A reduction's plan lists what is last first; receives must be in the order of arrival. */
    for (uint32_t i = 0; i < plan->nmoves; i++)
        tiny_write_move(&w, &plan->moves[w.sums ? plan->nmoves - 1 - i : i]);
    tiny_copies(&w);
    return ccl_program_builder_finish(w.b, out, err);
}

#endif
