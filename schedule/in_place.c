/* Which elements of a rank's buffers are one memory when a program runs in place. */
#include "schedule/schedule_i.h"

bool ccl_collective_in_place(const ccl_collective_t *coll, uint32_t rank, uint32_t *input_first,
                             uint32_t *output_first) {
    uint32_t own = rank * coll->chunks_per_block;
    *input_first = *output_first = 0;
    switch (coll->kind) {
    case CCL_ALLGATHER:
        *input_first = own;
        return true;
    case CCL_REDUCESCATTER:
        *output_first = own;
        return true;
    case CCL_GATHER: /* only the root has both buffers */
        *input_first = rank == coll->root ? own : 0;
        return rank == coll->root;
    case CCL_SCATTER:
        *output_first = rank == coll->root ? own : 0;
        return rank == coll->root;
    case CCL_CUSTOM: /* each chunk has a place of its own */
        return false;
    default:
        return true;
    }
}

/** Output element of a custom collective that has the chunk of input element `element`. */
static uint32_t custom_output(const ccl_program_t *p, uint32_t rank, uint32_t element) {
    uint32_t len, out;
    const uint32_t *chunks = ccl_i_collective_custom_list(p->coll, rank, false, &len);
    if (element >= len)
        return CCL_NONE;
    out = ccl_collective_output(p->coll, rank, chunks[element]);
    return out < p->buffer_len[3 * (size_t)rank + CCL_BUF_OUTPUT] ? out : CCL_NONE;
}

bool ccl_program_element(const ccl_program_t *program, uint32_t rank, bool in_place,
                         ccl_buffer_t *buffer, uint32_t *element) {
    const uint32_t *len = program->buffer_len + 3 * (size_t)rank;
    uint32_t first[2], e = *element;
    if (in_place && *buffer != CCL_BUF_SCRATCH && program->coll->kind == CCL_CUSTOM) {
        uint32_t out = *buffer == CCL_BUF_INPUT && e < len[*buffer]
                           ? custom_output(program, rank, e)
                           : CCL_NONE;
        if (out != CCL_NONE) {
            *buffer = CCL_BUF_OUTPUT;
            *element = e = out;
        }
    } else if (in_place && *buffer != CCL_BUF_SCRATCH &&
               ccl_collective_in_place(program->coll, rank, &first[CCL_BUF_INPUT],
                                       &first[CCL_BUF_OUTPUT])) {
        uint64_t at = (uint64_t)first[*buffer] + e;
        ccl_buffer_t one = CCL_BUF_OUTPUT;
        if (at < first[one] || at - first[one] >= len[one])
            one = CCL_BUF_INPUT;
        if (at < first[one])
            return false;
        *buffer = one;
        *element = e = (uint32_t)(at - first[one]);
    }
    return e < len[*buffer];
}
