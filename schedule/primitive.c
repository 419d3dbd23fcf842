/* MSCCL's primitives: names and what they do. Source: MSCCL's runtime interpreter. */
#include "schedule/schedule.h"

#include <stdio.h>

typedef struct primitive_facts {
    const char *name;
    bool sends, receives, reduces;
} primitive_facts_t;

static const primitive_facts_t facts[] = {
    [CCL_PRIM_S] = {"s", true, false, false},      [CCL_PRIM_R] = {"r", false, true, false},
    [CCL_PRIM_RCS] = {"rcs", true, true, false},   [CCL_PRIM_RRS] = {"rrs", true, true, true},
    [CCL_PRIM_RRC] = {"rrc", false, true, true},   [CCL_PRIM_RRCS] = {"rrcs", true, true, true},
    [CCL_PRIM_CPY] = {"cpy", false, false, false}, [CCL_PRIM_RE] = {"re", false, false, true},
    [CCL_PRIM_NOP] = {"nop", false, false, false},
};

static const primitive_facts_t *facts_of(ccl_primitive_t prim) {
    static const primitive_facts_t unknown = {"?", false, false, false};
    return (size_t)prim < CCL_ARRAY_LEN(facts) ? &facts[prim] : &unknown;
}

const char *ccl_primitive_name(ccl_primitive_t prim) {
    return facts_of(prim)->name;
}

bool ccl_primitive_sends(ccl_primitive_t prim) {
    return facts_of(prim)->sends;
}

bool ccl_primitive_receives(ccl_primitive_t prim) {
    return facts_of(prim)->receives;
}

bool ccl_primitive_reduces(ccl_primitive_t prim) {
    return facts_of(prim)->reduces;
}

/** Element `off` of a buffer that holds a block of elements for each rank. */
static void block_text(const char *whose, uint32_t off, uint32_t count, uint32_t each, char *out,
                       size_t len) {
    uint32_t first = off / each, part = off % each, last = (off + count - 1) / each;

    if (last > first)
        snprintf(out, len, "data %s GPUs %u-%u", whose, first, last);
    else if (each == count)
        snprintf(out, len, "data %s GPU %u", whose, first);
    else if (count == 1)
        snprintf(out, len, "data %s GPU %u, part %u of %u", whose, first, part + 1, each);
    else
        snprintf(out, len, "data %s GPU %u, parts %u-%u of %u", whose, first, part + 1,
                 part + count, each);
}

void ccl_step_data_text(const ccl_program_t *program, uint32_t step, char *out, size_t len) {
    const ccl_step_t *s = &program->steps[step];
    const ccl_collective_t *coll = program->coll;
    bool sends_only = ccl_primitive_sends((ccl_primitive_t)s->type) &&
                      !ccl_primitive_receives((ccl_primitive_t)s->type);
    uint32_t off = sends_only ? s->src_off : s->dst_off;
    uint8_t buffer = sends_only ? s->src_buf : s->dst_buf;
    uint32_t n = coll->nranks, count = s->count > 0 ? s->count : 1;
    uint32_t each = program->nchunks % n == 0 ? program->nchunks / n : 0;
    bool whole = buffer != CCL_BUF_SCRATCH && each > 0 && off + count <= program->nchunks;

    if (buffer == CCL_BUF_SCRATCH) {
        snprintf(out, len, count > 1 ? "scratch %u-%u" : "scratch %u", off, off + count - 1);
    } else if (whole && (coll->kind == CCL_ALLGATHER || coll->kind == CCL_GATHER) &&
               buffer == CCL_BUF_OUTPUT) {
        block_text("of", off, count, each, out, len);
    } else if (whole && (coll->kind == CCL_REDUCESCATTER || coll->kind == CCL_SCATTER) &&
               buffer == CCL_BUF_INPUT) {
        block_text("for", off, count, each, out, len);
    } else if (whole && coll->kind == CCL_ALLTOALL) {
        block_text(buffer == CCL_BUF_INPUT ? "for" : "from", off, count, each, out, len);
    } else if (count > 1) {
        snprintf(out, len, "chunks %u-%u of %u", off, off + count - 1, program->nchunks);
    } else {
        snprintf(out, len, "chunk %u of %u", off, program->nchunks);
    }
}
