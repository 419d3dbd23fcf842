/* The program verifier: faults and where they are. */
#include "schedule/verify/exec_i.h"

#include <stdio.h>

typedef ccl_i_exec_t exec_t;

const char *ccl_i_exec_buffer(uint8_t buffer) {
    static const char *const names[] = {"input", "output", "scratch"};
    return buffer <= CCL_BUF_SCRATCH ? names[buffer] : "?";
}

uint32_t ccl_i_exec_index(const exec_t *x, uint32_t step) {
    return step - x->program->tbs[x->links->nodes[step].tb].first_step;
}

ccl_i_place_t ccl_i_exec_text(const exec_t *x, uint32_t step) {
    return ccl_i_place(x->program, x->links->nodes[step].tb, ccl_i_exec_index(x, step));
}

/** Fault at a step: `kind`, and "place: text". */
void ccl_i_exec_fault(exec_t *x, const char *kind, uint32_t step, uint32_t chunk,
                      const char *text) {
    const ccl_tb_t *tb = &x->program->tbs[x->links->nodes[step].tb];
    ccl_i_fault(x->verdict, kind, tb->rank, tb->id, ccl_i_exec_index(x, step), chunk, "%s%s: %s",
                x->prefix, ccl_i_exec_text(x, step).text, text);
}

void ccl_i_exec_fault_race(exec_t *x, uint32_t a, bool a_writes, ccl_i_doing_t b, uint32_t chunk) {
    char text[320];
    snprintf(text, sizeof text,
             "%s %s element %u, which block %u step %u %s; nothing orders the two",
             b.writes ? "writes" : "reads", ccl_i_exec_buffer(b.buffer), b.elem,
             x->program->tbs[x->links->nodes[a].tb].id, ccl_i_exec_index(x, a),
             a_writes ? "writes" : "reads");
    ccl_i_exec_fault(x, "race", b.step, chunk, text);
}

/**
 * What a wrong value comes from: a write of the same element by another block that should have come
 * before, or should not have, if there is one that nothing orders. @return false when out of
 * memory.
 */
bool ccl_i_exec_blame(exec_t *x, uint32_t step, uint8_t buffer, uint32_t elem, uint32_t at,
                      uint32_t chunk) {
    const ccl_program_t *p = x->program;
    uint32_t own = x->links->nodes[step].tb, rank = p->tbs[own].rank;
    if (x->links->shared)
        return true;
    for (uint32_t t = p->rank_first_tb[rank]; t < p->rank_first_tb[rank + 1]; t++) {
        for (uint32_t i = 0; i < p->tbs[t].nsteps && t != own; i++) {
            uint32_t w = p->tbs[t].first_step + i;
            const ccl_step_t *s = &p->steps[w];
            if (!ccl_i_writes_dst(s->type) || x->links->nodes[w].pos < x->links->nodes[step].pos)
                continue;
            for (uint32_t e = 0; e < s->count; e++) {
                if (ccl_i_exec_place_of(x, rank, s->dst_buf, s->dst_off + e) != at)
                    continue;
                bool after;
                const ccl_step_t *own_step = &p->steps[step];
                bool src = buffer == own_step->src_buf && elem >= own_step->src_off &&
                           elem - own_step->src_off < own_step->count;
                uint32_t own_elem = elem - (src ? own_step->src_off : own_step->dst_off);
                if (!ccl_i_order_before(x->order, (ccl_i_access_t){step, own_elem},
                                        (ccl_i_access_t){w, e}, &after))
                    return false;
                if (!after) {
                    ccl_i_exec_fault_race(x, w, true, (ccl_i_doing_t){step, false, buffer, elem},
                                          chunk);
                    return true;
                }
            }
        }
    }
    return true;
}

bool ccl_i_exec_keeps_apart(exec_t *x, uint32_t step, uint32_t e, uint8_t buffer, uint32_t elem,
                            uint32_t at) {
    char text[160];
    uint32_t head = x->elems[at].readers;
    bool written = x->elems[at].writer == step && x->elems[at].writer_elem != e;
    bool read =
        head != CCL_NONE && x->reader_pool[head].step == step && x->reader_pool[head].elem != e;
    if (!written && !read)
        return true;
    snprintf(text, sizeof text, "source and destination overlap in place, at %s element %u",
             ccl_i_exec_buffer(buffer), elem);
    ccl_i_exec_fault(x, "alias", step, x->elems[at].value.chunk, text);
    return false;
}
