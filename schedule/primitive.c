/*
 * MSCCL's primitives: names and what they do. Source: MSCCL's runtime interpreter. And what the
 * steps of a program amount to: shares of the size, level, thread blocks of a rank.
 */
#include "schedule/schedule.h"

#include <stdio.h>
#include <string.h>

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

double ccl_program_step_share(const ccl_program_t *program, const ccl_tb_t *tb,
                              const ccl_step_t *step) {
    if (step->type == CCL_PRIM_NOP)
        return 0;
    if (!program->shares)
        return (double)step->count / program->nchunks;
    /* Where the rank's own data lies: rcs, r and reductions into place name it as destination. */
    bool by_dst = step->type == CCL_PRIM_R || step->type == CCL_PRIM_RCS;
    uint32_t buffer = by_dst ? step->dst_buf : step->src_buf;
    uint32_t off = by_dst ? step->dst_off : step->src_off;
    size_t at = 3 * (size_t)tb->rank + buffer;
    uint32_t len = program->buffer_len[at];
    double share = 0;
    for (uint32_t i = 0; i < step->count && (uint64_t)off + i < len; i++)
        share += program->shares[at][off + i];
    return share;
}

ccl_granularity_t ccl_program_level(const ccl_program_t *program, ccl_granularity_t asked) {
    return program->algorithm_only ? CCL_GRANULARITY_ALGORITHM : asked;
}

uint32_t ccl_program_rank_blocks(const ccl_program_t *program, uint32_t rank,
                                 ccl_granularity_t granularity) {
    uint64_t seen[1024]; /* a bit per stage */
    uint32_t first = program->rank_first_tb[rank], end = program->rank_first_tb[rank + 1], n = 0;
    if (granularity != CCL_GRANULARITY_STAGE)
        return end - first;
    for (uint32_t t = first; t < end; t++) {
        const ccl_tb_t *tb = &program->tbs[t];
        uint32_t before = CCL_NONE;
        bool clear = false;
        for (uint32_t i = 0; i < tb->nsteps; i++) {
            uint32_t stage = program->steps[tb->first_step + i].stage;
            if (stage == before)
                continue;
            if (!clear && before != CCL_NONE && stage < before) { /* not in order: count as a set */
                memset(seen, 0, sizeof seen);
                clear = true;
                for (uint32_t k = 0; k < i; k++) {
                    uint32_t had = program->steps[tb->first_step + k].stage;
                    seen[had / 64] |= (uint64_t)1 << (had % 64);
                }
            }
            if (!clear || !(seen[stage / 64] >> (stage % 64) & 1))
                n++;
            if (clear)
                seen[stage / 64] |= (uint64_t)1 << (stage % 64);
            before = stage;
        }
        n += tb->nsteps == 0;
    }
    return n;
}
