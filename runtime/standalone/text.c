/**
 * @file text.c
 * The thread blocks of a program as straight code: a function for each, in it a call for every
 * primitive, in the loops of its granularity. What is called is in block.h.
 *
 * @par Source  ResCCL, section 4.5: a function per rank and thread block, in it the primitives by
 *              pipeline index, each in its loop over micro-batches.
 */
#include "runtime/standalone/standalone.h"

#include <inttypes.h>

typedef struct writer {
    const ccl_i_standalone_t *s;
    const char *prefix;
    ccl_text_t *out;
} writer_t;

static const char *const prims[] = {"CCL_DEVICE_S",   "CCL_DEVICE_R",   "CCL_DEVICE_RCS",
                                    "CCL_DEVICE_RRS", "CCL_DEVICE_RRC", "CCL_DEVICE_RRCS",
                                    "CCL_DEVICE_CPY", "CCL_DEVICE_RE",  "CCL_DEVICE_NOP"};
static const char *const buffers[] = {"CCL_SA_INPUT", "CCL_SA_OUTPUT", "CCL_SA_SCRATCH",
                                      "CCL_SA_BUFFERS"};

/* ---------------------------------------------------------------- a step */

typedef struct piece {
    ccl_i_standalone_at_t src, dst;
    uint32_t n;
} piece_t;

static ccl_i_standalone_at_t place(const writer_t *w, bool used, uint32_t rank, uint32_t buffer,
                                   uint32_t element) {
    if (!used)
        return (ccl_i_standalone_at_t){CCL_BUF_SCRATCH + 1, 0};
    return ccl_i_standalone_place(w->s, rank, buffer, element);
}

/** Element `next` follows the n ones at `at`, in the same shard. */
static bool follows(const writer_t *w, ccl_i_standalone_at_t at, uint32_t n,
                    ccl_i_standalone_at_t next) {
    uint32_t parts = w->s->program->coll->chunks_per_block;
    if (at.buffer > CCL_BUF_SCRATCH || next.buffer != at.buffer)
        return at.buffer == next.buffer;
    return next.element == at.element + n &&
           (at.buffer == CCL_BUF_SCRATCH || next.element / parts == at.element / parts);
}

static void write_piece(const writer_t *w, const piece_t *p) {
    ccl_text_printf(w->out, "\n                {%s, %" PRIu32 ", %s, %" PRIu32 ", %" PRIu32 "},",
                    buffers[p->src.buffer], p->src.element, buffers[p->dst.buffer], p->dst.element,
                    p->n);
}

/** Elements that follow each other on both sides are one piece. @return how many there are. */
static uint32_t write_pieces(const writer_t *w, uint32_t rank, const ccl_step_t *s) {
    bool reads = ccl_i_prim_reads(s->type), writes = ccl_i_prim_writes(s->type);
    uint32_t n = 0;
    piece_t piece = {.n = 0};
    if (!reads && !writes)
        return 0;
    for (uint32_t e = 0; e < s->count; e++) {
        ccl_i_standalone_at_t src = place(w, reads, rank, s->src_buf, s->src_off + e);
        ccl_i_standalone_at_t dst = place(w, writes, rank, s->dst_buf, s->dst_off + e);
        if (piece.n && follows(w, piece.src, piece.n, src) && follows(w, piece.dst, piece.n, dst)) {
            piece.n++;
            continue;
        }
        if (piece.n)
            write_piece(w, &piece);
        else
            ccl_text_printf(w->out, "            const ccl_sa_piece_t p[] = {");
        piece = (piece_t){src, dst, 1};
        n++;
    }
    if (n) {
        write_piece(w, &piece);
        ccl_text_printf(w->out, "};\n");
    }
    return n;
}

static const char *mark_of(uint32_t mark, char *out, size_t len) {
    if (mark == CCL_NONE)
        return "CCL_DEVICE_NONE";
    snprintf(out, len, "%" PRIu32, mark);
    return out;
}

static const char *end_of(uint32_t conn, char letter, char *out, size_t len) {
    if (conn == CCL_NONE)
        return "0";
    snprintf(out, len, "&%c%" PRIu32, letter, conn);
    return out;
}

/** @param at  of the unit. */
static void write_step(const writer_t *w, const ccl_device_unit_t *unit, uint32_t at) {
    const ccl_i_standalone_t *s = w->s;
    uint32_t index = unit->first_step + at;
    const ccl_device_step_t *d = &s->plan.steps[index];
    const ccl_step_t *step = &s->program->steps[s->plan.program_step[index]];
    uint32_t after = at == 0 && unit->after != CCL_NONE ? s->mark[unit->after] : CCL_NONE;
    char text[5][16];
    if (s->plan.dev.by_task)
        ccl_text_printf(w->out, "    CCL_KERNEL_LOOP\n"
                                "    for (uint64_t j = 0; j < run->batches; j++)\n");
    ccl_text_printf(w->out, "        { /* step %" PRIu32 " */\n", at);
    uint32_t n = write_pieces(w, unit->rank, step);
    ccl_text_printf(
        w->out,
        "            const ccl_sa_step_t s = {%" PRIu32 ", %s, %s, %s, %s, %" PRIu32 ", %" PRIu32
        ", %s};\n"
        "            if (ccl_sa_step(run, b, life, j, &s, %s, %s))\n"
        "                return;\n"
        "        }\n",
        at, prims[d->prim], mark_of(after, text[0], sizeof text[0]),
        mark_of(d->dep == CCL_NONE ? CCL_NONE : s->mark[d->dep], text[1], sizeof text[1]),
        mark_of(s->mark[index], text[2], sizeof text[2]), d->shared, n, n ? "p" : "0",
        end_of(d->recv, 'r', text[3], sizeof text[3]),
        end_of(d->send, 's', text[4], sizeof text[4]));
}

/* ---------------------------------------------------------------- a thread block */

/** The ends of connections that a unit has: taken before its steps, or given back behind them. */
static void write_ends(const writer_t *w, uint32_t u, bool over) {
    const ccl_i_standalone_t *s = w->s;
    for (uint32_t c = 0; c < s->plan.dev.nconns; c++) {
        for (int k = 0; k < 2; k++) {
            if ((k ? s->plan.conns[c].sender : s->plan.conns[c].receiver) != u)
                continue;
            if (over)
                ccl_text_printf(w->out, "    ccl_sa_over(b, &%c%" PRIu32 ");\n", k ? 's' : 'r', c);
            else
                ccl_text_printf(w->out,
                                "    ccl_sa_end_t %c%" PRIu32 " = ccl_sa_%s(run, %" PRIu32
                                ", %" PRIu64 "u, %" PRIu64 "u, %" PRIu32 ", %" PRIu32 ");\n",
                                k ? 's' : 'r', c, k ? "sender" : "receiver",
                                k ? s->plan.conn_dst[c] : s->plan.conn_src[c], s->in_at[c],
                                s->out_at[c], k ? s->out_signal[c] : s->in_signal[c],
                                k ? s->in_signal[c] : s->out_signal[c]);
        }
    }
}

static void write_unit(const writer_t *w, uint32_t u) {
    const ccl_i_run_plan_t *plan = &w->s->plan;
    const ccl_device_unit_t *unit = &plan->units[u];
    ccl_text_printf(w->out,
                    "\n/* rank %" PRIu32 ", thread block %" PRIu32 " of the program */\n"
                    "CCL_KERNEL_CALL void %s_unit_%" PRIu32
                    "(const ccl_sa_run_t *run, const ccl_gpu_block_t *b,\n"
                    "        ccl_gpu_life_t *life) {\n",
                    unit->rank, unit->tb - w->s->program->rank_first_tb[unit->rank], w->prefix, u);
    write_ends(w, u, false);
    if (!plan->dev.by_task)
        ccl_text_printf(w->out, "    CCL_KERNEL_LOOP\n"
                                "    for (uint64_t j = 0; j < run->batches; j++) {\n");
    for (uint32_t i = 0; i < unit->nsteps; i++)
        write_step(w, unit, i);
    if (!plan->dev.by_task)
        ccl_text_printf(w->out, "    }\n");
    write_ends(w, u, true);
    ccl_text_printf(w->out, "    life->at.step = %" PRIu32 ";\n}\n", unit->nsteps);
}

/** Which function thread block `index` of a rank is. */
static void write_block(const writer_t *w) {
    ccl_text_printf(w->out,
                    "\n/* thread block `index` */\n"
                    "CCL_GPU_FN void %s_block(const ccl_sa_run_t *run, const ccl_gpu_block_t *b,\n"
                    "        uint32_t index) {\n"
                    "    ccl_gpu_life_t life;\n"
                    "    ccl_sa_begin(&life);\n"
                    "    switch (run->first_unit + index) {\n",
                    w->prefix);
    for (uint32_t u = 0; u < w->s->plan.dev.nunits; u++)
        ccl_text_printf(w->out,
                        "    case %" PRIu32 ":\n        %s_unit_%" PRIu32
                        "(run, b, &life);\n        break;\n",
                        u, w->prefix, u);
    ccl_text_printf(w->out, "    default:\n        break;\n    }\n"
                            "    ccl_sa_end_block(run, b, index, &life);\n}\n");
}

/* ---------------------------------------------------------------- tables of the host */

static void write_table(const writer_t *w, const char *type, const char *name, const void *values,
                        uint32_t n) {
    ccl_text_printf(w->out, "static const %s %s_%s[] = {", type, w->prefix, name);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t v = type[4] == '6'   ? ((const uint64_t *)values)[i]
                     : type[4] == '3' ? ((const uint32_t *)values)[i]
                                      : ((const uint8_t *)values)[i];
        ccl_text_printf(w->out, "%s%" PRIu64 "%s", i % 12 ? " " : "\n    ", v,
                        type[4] == '6' ? "u," : ",");
    }
    ccl_text_printf(w->out, "\n};\n");
}

static void write_tables(const writer_t *w) {
    const ccl_i_standalone_t *s = w->s;
    uint32_t n = s->program->nranks;
    ccl_text_printf(w->out, "\n/* tables of the host */\n");
    write_table(w, "uint32_t", "first_unit", s->plan.rank_first_unit, n + 1);
    write_table(w, "uint32_t", "marks", s->marks, n);
    write_table(w, "uint32_t", "scratch", s->scratch, n);
    write_table(w, "uint8_t", "writes_input", s->writes_input, n);
    write_table(w, "uint64_t", "region", s->region, n);
    write_table(w, "uint32_t", "signals", s->signals, n);
    ccl_text_printf(w->out,
                    "static const ccl_sa_program_t %s_program = {\n"
                    "    %" PRIu32 ", %" PRIu32 ", %" PRIu32 ", %" PRIu32 ", %d, %d,\n"
                    "    %s_first_unit, %s_marks, %s_scratch, %s_writes_input, %s_region, "
                    "%s_signals};\n",
                    w->prefix, (uint32_t)s->program->coll->kind, n, s->program->coll->root,
                    s->program->coll->chunks_per_block, s->in_place, s->whole, w->prefix, w->prefix,
                    w->prefix, w->prefix, w->prefix, w->prefix);
}

void ccl_i_standalone_units(const ccl_i_standalone_t *s, const char *prefix, ccl_text_t *out) {
    writer_t w = {s, prefix, out};
    for (uint32_t u = 0; u < s->plan.dev.nunits; u++)
        write_unit(&w, u);
    write_block(&w);
    write_tables(&w);
}
