/**
 * @file generate.c
 * A program as a kernel of its own: straight code for every step of every thread block, in the
 * loops of its granularity. What the code is made of is in gpu/kernel.h.
 *
 * @par Source  ResCCL, section 4.5: a function per rank and thread block, in it the primitives by
 *              pipeline index, each in its loop over micro-batches.
 */
#include "runtime/generate.h"

#include <inttypes.h>

/* A compiler at run time takes about 20 ms a step. */
#define MAX_STEPS (1u << 13)

typedef struct writer {
    const ccl_device_plan_t *plan;
    ccl_text_t *out;
} writer_t;

static const char *const prims[] = {"CCL_DEVICE_S",   "CCL_DEVICE_R",   "CCL_DEVICE_RCS",
                                    "CCL_DEVICE_RRS", "CCL_DEVICE_RRC", "CCL_DEVICE_RRCS",
                                    "CCL_DEVICE_CPY", "CCL_DEVICE_RE",  "CCL_DEVICE_NOP"};

/** A pointer to an end of a connection, or 0. */
static const char *end_of(uint32_t conn, char letter, char *out, size_t len) {
    if (conn == CCL_DEVICE_NONE)
        return "0";
    snprintf(out, len, "&%c%" PRIu32, letter, conn);
    return out;
}

/** The mark of a step, which is waited for before the first slice; or 0. */
static const char *mark_of(uint32_t step, uint32_t slices, char *out, size_t len) {
    if (step == CCL_DEVICE_NONE)
        return "0";
    snprintf(out, len,
             slices > 1 ? "s == 0 ? &run->done[%" PRIu32 "] : 0" : "&run->done[%" PRIu32 "]", step);
    return out;
}

/** Every micro-batch has as much of it as the first one. */
static bool even(const ccl_device_plan_t *plan, const ccl_device_piece_t *p) {
    return p->batch_items * plan->batches == p->items;
}

/** Items of one element of a piece in micro-batch j. */
static void own_items(const writer_t *w, const ccl_device_piece_t *p) {
    if (even(w->plan, p))
        ccl_text_printf(w->out, "%" PRIu64 "u", p->batch_items);
    else
        ccl_text_printf(w->out, "ccl_kernel_left(%" PRIu64 "u, %" PRIu64 "u, j)", p->items,
                        p->batch_items);
}

/** n: items of the step in micro-batch j; x: of a slice. */
static void step_items(const writer_t *w, const ccl_device_step_t *s) {
    const ccl_device_piece_t *p = &w->plan->pieces[s->first_piece];
    uint64_t unit = 16 / w->plan->item_bytes;
    bool constant = true;
    for (uint32_t i = 0; i < s->npieces; i++)
        constant = constant && even(w->plan, &p[i]);
    ccl_text_printf(w->out, "            const uint64_t n = ");
    if (constant) {
        uint64_t n = ccl_i_step_items(w->plan, s, 0);
        ccl_text_printf(w->out, "%" PRIu64 "u, x = %" PRIu64 "u;\n", n,
                        ccl_i_slice_items(n, s->slices, w->plan->item_bytes));
        return;
    }
    for (uint32_t i = 0; i < s->npieces; i++) {
        ccl_text_printf(w->out, "%s", i ? " +\n                               " : "");
        if (p[i].n > 1)
            ccl_text_printf(w->out, "%" PRIu64 "u * ", p[i].n);
        own_items(w, &p[i]);
    }
    ccl_text_printf(w->out,
                    ";\n            const uint64_t x = ccl_kernel_slice(n, %" PRIu32 "u, %" PRIu64
                    "u);\n",
                    s->slices, unit);
}

/** What a slice of the step moves, piece by piece. */
static void moves(const writer_t *w, const ccl_device_step_t *s) {
    if (s->shared)
        ccl_text_printf(w->out, "                ccl_gpu_fence();\n");
    for (uint32_t i = 0; i < s->npieces; i++) {
        const ccl_device_piece_t *p = &w->plan->pieces[s->first_piece + i];
        if (p->n == 1 || w->plan->batches == 1) {
            ccl_text_printf(w->out,
                            "                ccl_kernel_one(%s, b, m, %" PRIu64 "u + j * %" PRIu64
                            "u, %" PRIu64 "u + j * %" PRIu64 "u, ",
                            prims[s->prim], p->src, p->batch_items, p->dst, p->batch_items);
            if (p->n > 1)
                ccl_text_printf(w->out, "%" PRIu64 "u * ", p->n);
            own_items(w, p);
            ccl_text_printf(w->out, ", &span);\n");
        } else {
            ccl_text_printf(w->out,
                            "                ccl_kernel_many(%s, b, m, %" PRIu64 "u, %" PRIu64
                            "u, %" PRIu64 "u, %" PRIu64 "u, %" PRIu64 "u, j, &span);\n",
                            prims[s->prim], p->src, p->dst, p->items, p->batch_items, p->n);
        }
    }
    if (s->shared)
        ccl_text_printf(w->out, "                ccl_gpu_fence();\n");
}

/** A slice with lines: tile by tile. */
static void write_tiles(const writer_t *w, const ccl_device_step_t *s, uint32_t at, const char *in,
                        uint64_t in_bytes, const char *out, uint64_t out_bytes) {
    if (!s->npieces)
        ccl_text_printf(w->out, "                const uint64_t n = 0, x = 0;\n");
    ccl_text_printf(
        w->out,
        "                const ccl_gpu_span_t slice = ccl_kernel_span(n, x, s, 0, 0, 0, 0);\n"
        "                const uint64_t bytes = (slice.end - slice.begin) * CCL_KERNEL_SIZE;\n"
        "                CCL_KERNEL_LOOP\n"
        "                for (uint64_t from = 0; from == 0 || from < bytes; from += "
        "CCL_GPU_TILE_BYTES) {\n"
        "                ccl_gpu_span_t span;\n"
        "                if (ccl_kernel_begin(run, b, life, %" PRIu32 ", j, s, &slice, %s, %" PRIu64
        "u, %s, from, &span))\n"
        "                    return;\n",
        at, in, in_bytes, s->send == CCL_DEVICE_NONE ? "false" : "true");
    moves(w, s);
    ccl_text_printf(w->out,
                    "                ccl_kernel_end(b, %s, %" PRIu64 "u, from, bytes);\n"
                    "                }\n",
                    out, out_bytes);
}

/** @param at  of the unit. */
static void write_step(const writer_t *w, const ccl_device_unit_t *unit, uint32_t at) {
    const ccl_device_plan_t *plan = w->plan;
    uint32_t index = unit->first_step + at;
    const ccl_device_step_t *s = &plan->steps[index];
    char recv[16], send[16], stage[48], dep[48], last[64] = "0";
    const char *in = end_of(s->recv, 'r', recv, sizeof recv);
    const char *out = end_of(s->send, 's', send, sizeof send);
    const char *wait_stage =
        mark_of(at == 0 ? unit->after : CCL_DEVICE_NONE, s->slices, stage, sizeof stage);
    const char *wait_dep = mark_of(s->dep, s->slices, dep, sizeof dep);
    bool waits = s->recv != CCL_DEVICE_NONE || s->send != CCL_DEVICE_NONE ||
                 s->dep != CCL_DEVICE_NONE || (at == 0 && unit->after != CCL_DEVICE_NONE);
    if (s->nwaiters && s->slices > 1)
        snprintf(last, sizeof last, "s + 1 == %" PRIu32 " ? &run->done[%" PRIu32 "] : 0", s->slices,
                 index);
    else if (s->nwaiters)
        snprintf(last, sizeof last, "&run->done[%" PRIu32 "]", index);
    if (plan->by_task)
        ccl_text_printf(w->out,
                        "    CCL_KERNEL_LOOP\n    for (uint64_t j = 0; j < %" PRIu32 "; j++)\n",
                        plan->batches);
    ccl_text_printf(w->out, "        { /* step %" PRIu32 ": %s */\n", at,
                    ccl_primitive_name((ccl_primitive_t)s->prim));
    if (s->npieces)
        step_items(w, s);
    if (s->slices > 1)
        ccl_text_printf(w->out,
                        "            CCL_KERNEL_LOOP\n            for (uint32_t s = 0; s < %" PRIu32
                        "; s++) {\n",
                        s->slices);
    else
        ccl_text_printf(w->out, "            {\n                const uint32_t s = 0;\n");
    if (waits)
        ccl_text_printf(w->out,
                        "                if (ccl_kernel_wait(run, b, life, %" PRIu32
                        ", j, s, %s, %s, %s, %s))\n                    return;\n",
                        at, wait_stage, wait_dep, in, out);
    uint64_t in_bytes = s->recv == CCL_DEVICE_NONE ? 0 : plan->conns[s->recv].slot_bytes;
    uint64_t out_bytes = s->send == CCL_DEVICE_NONE ? 0 : plan->conns[s->send].slot_bytes;
    bool passes = s->recv != CCL_DEVICE_NONE || s->send != CCL_DEVICE_NONE;
    if (passes && plan->protocol != CCL_DEVICE_SIMPLE) {
        write_tiles(w, s, at, in, in_bytes, out, out_bytes);
    } else if (s->npieces) {
        ccl_text_printf(
            w->out,
            "                ccl_gpu_span_t span = ccl_kernel_span(n, x, s, %s, %" PRIu64
            "u, %s, %" PRIu64 "u);\n"
            "                const uint64_t bytes = (span.end - span.begin) * CCL_KERNEL_SIZE;\n",
            in, in_bytes, out, out_bytes);
        moves(w, s);
    } else {
        ccl_text_printf(w->out, "                const uint64_t bytes = 0;\n"
                                "                (void)s;\n");
    }
    ccl_text_printf(w->out,
                    "                ccl_kernel_pass(run, b, life, %s, %s, bytes, %s, j);\n"
                    "            }\n        }\n",
                    in, out, last);
}

/** The ends of connections that a unit has, each once. */
static void write_ends(const writer_t *w, const ccl_device_unit_t *unit) {
    const ccl_device_step_t *s = &w->plan->steps[unit->first_step];
    for (uint32_t i = 0; i < unit->nsteps; i++) {
        for (int k = 0; k < 2; k++) {
            uint32_t conn = k ? s[i].send : s[i].recv;
            bool had = conn == CCL_DEVICE_NONE;
            for (uint32_t before = 0; before < i && !had; before++)
                had = (k ? s[before].send : s[before].recv) == conn;
            if (!had)
                ccl_text_printf(w->out,
                                "    ccl_kernel_end_t %c%" PRIu32
                                " = ccl_kernel_%s(&run->conns[%" PRIu32 "]);\n",
                                k ? 's' : 'r', conn, k ? "sender" : "receiver", conn);
        }
    }
}

static void write_unit(const writer_t *w, uint32_t index) {
    const ccl_device_unit_t *unit = &w->plan->units[w->plan->first_unit + index];
    ccl_text_printf(w->out,
                    "\n/* rank %" PRIu32 ", thread block %" PRIu32 " of the program */\n"
                    "CCL_KERNEL_CALL void ccl_kernel_unit_%" PRIu32
                    "(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,\n"
                    "                                         ccl_gpu_life_t *life) {\n"
                    "    char *const m = (char *)run->memory[%" PRIu32 "];\n    (void)m;\n",
                    unit->rank, unit->tb, index, unit->rank);
    write_ends(w, unit);
    if (!w->plan->by_task)
        ccl_text_printf(w->out,
                        "    CCL_KERNEL_LOOP\n    for (uint64_t j = 0; j < %" PRIu32 "; j++) {\n",
                        w->plan->batches);
    for (uint32_t i = 0; i < unit->nsteps; i++)
        write_step(w, unit, i);
    if (!w->plan->by_task)
        ccl_text_printf(w->out, "    }\n");
    ccl_text_printf(w->out, "    life->at.step = %" PRIu32 ";\n}\n", unit->nsteps);
}

static void write_entry(const writer_t *w) {
    uint32_t n = w->plan->end_unit - w->plan->first_unit;
    ccl_text_printf(w->out,
                    "\nCCL_GPU_FN void ccl_kernel_block_run(const ccl_gpu_run_t *run, const "
                    "ccl_gpu_block_t *b,\n                                     uint32_t index) {\n"
                    "    ccl_gpu_life_t life;\n"
                    "    if (ccl_gpu_life_begin(run, b, index, &life)) {\n"
                    "        switch (index) {\n");
    for (uint32_t i = 0; i < n; i++)
        ccl_text_printf(w->out,
                        "        case %" PRIu32 ":\n            ccl_kernel_unit_%" PRIu32
                        "(run, b, &life);\n            break;\n",
                        i, i);
    ccl_text_printf(w->out,
                    "        default:\n            break;\n        }\n    }\n"
                    "    ccl_gpu_life_end(run, b, index, &life);\n}\n\n"
                    "#ifdef CCL_KERNEL_ON_HOST\n"
                    "extern \"C\" void ccl_kernel_block(const ccl_gpu_run_t *run, const "
                    "ccl_gpu_block_t *b,\n"
                    "                                 uint32_t index) {\n"
                    "    ccl_kernel_block_run(run, b, index);\n}\n"
                    "#else\n"
                    "extern \"C\" __global__ void __launch_bounds__(512) ccl_kernel(ccl_gpu_run_t "
                    "run) {\n"
                    "    __shared__ ccl_gpu_shared_t shared;\n"
                    "    extern __shared__ uint4 ccl_kernel_tiles[];\n"
                    "    ccl_gpu_block_t b = {&shared, threadIdx.x, blockDim.x, (void *)0,\n"
                    "                         (char *)ccl_kernel_tiles};\n"
                    "    ccl_kernel_block_run(&run, &b, blockIdx.x);\n}\n"
                    "#endif\n");
}

ccl_status_t ccl_i_kernel_text(const ccl_device_plan_t *plan, uint32_t slots, ccl_text_t *out,
                               ccl_error_t *err) {
    static const char *const levels[] = {"every step in each micro-batch",
                                         "every micro-batch in each step"};
    writer_t w = {plan, out};
    uint32_t steps = 0;
    for (uint32_t u = plan->first_unit; u < plan->end_unit; u++)
        steps += plan->units[u].nsteps;
    for (uint32_t i = 0; i < plan->nsteps; i++)
        if (plan->steps[i].nsend > 1 || plan->steps[i].nrecv > 1)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "the program has switch connections: kernels are generated without");
    if (steps > MAX_STEPS)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "a kernel of %u steps: at most %u are generated; --kernel interpreter",
                        steps, MAX_STEPS);
    ccl_text_printf(out,
                    "/* Generated by ccllab: a program of %" PRIu32 " ranks, %" PRIu32
                    " micro-batches, %s;\n   %s %s. Compile it for CUDA or HIP, or, with "
                    "CCL_KERNEL_ON_HOST and a machine, for the host. */\n"
                    "#define CCL_KERNEL_TYPE %" PRIu32 "\n#define CCL_KERNEL_OP %" PRIu32
                    "\n#define CCL_KERNEL_PROTOCOL %" PRIu32 "u\n#define CCL_KERNEL_SIZE %" PRIu32
                    "u\n#define CCL_KERNEL_SLOTS %" PRIu32 "u\n\n",
                    plan->nranks, plan->batches, levels[plan->by_task],
                    ccl_type_name((ccl_type_t)plan->type),
                    ccl_reduction_name((ccl_reduction_t)plan->op), plan->type, plan->op,
                    plan->protocol, plan->item_bytes, slots);
    ccl_text_printf(out, "%s", ccl_i_kernel_prelude);
    for (uint32_t i = 0; i < plan->end_unit - plan->first_unit; i++)
        write_unit(&w, i);
    write_entry(&w);
    return out->nomem ? ccl_fail_nomem(err) : CCL_OK;
}
