/**
 * @file switches.h
 * Slices that come from, or go to, several connections at once (switch connections): one load has
 * the sum of all members' slots and one store reaches them all where a switch does that; else a
 * lane reads or writes one slot after the other. Part of blocks.h; the interpreter's alone.
 *
 * @par Source  PTX ISA, multimem.ld_reduce and multimem.st; NCCL's NVLS.
 */
#ifndef CCL_RUNTIME_GPU_SWITCHES_H
#define CCL_RUNTIME_GPU_SWITCHES_H

/**
 * Both ends of a step. Slots of a switch connection's members are alike: what is at a place in the
 * first one's data is at the same place in the others'.
 */
typedef struct ccl_gpu_ends {
    const ccl_device_conn_t *recv, *send; /* [nrecv], [nsend] */
    uint32_t nrecv, nsend;
    uint32_t type, op;
} ccl_gpu_ends_t;

CCL_GPU_FN char *ccl_gpu_member(const ccl_device_conn_t *conns, uint32_t i, const char *at) {
    return (char *)conns[i].data + (at - (const char *)conns[0].data);
}

/** 16 bytes of what comes. */
CCL_GPU_FN CCL_GPU_VECTOR ccl_gpu_pull(uint32_t type, uint32_t op, const ccl_gpu_ends_t *e,
                                       const char *at) {
    const ccl_device_conn_t *c = e->recv;
    if (e->nrecv > 1 && c->multi)
        return ccl_gpu_multi_load(type, op, (const char *)c->multi + (at - (const char *)c->data));
    CCL_GPU_VECTOR v = *(const CCL_GPU_VECTOR *)(const void *)at;
    for (uint32_t i = 1; i < e->nrecv; i++)
        v = ccl_gpu_vector(type, op, v,
                           *(const CCL_GPU_VECTOR *)(const void *)ccl_gpu_member(c, i, at));
    return v;
}

/** 16 bytes to all that the slice goes to. */
CCL_GPU_FN void ccl_gpu_cast(const ccl_gpu_ends_t *e, char *at, CCL_GPU_VECTOR v) {
    const ccl_device_conn_t *c = e->send;
    if (e->nsend > 1 && c->multi) {
        ccl_gpu_multi_store((char *)c->multi + (at - (const char *)c->data), v);
        return;
    }
    for (uint32_t i = 0; i < e->nsend; i++)
        *(CCL_GPU_VECTOR *)(void *)ccl_gpu_member(c, i, at) = v;
}

CCL_GPU_FN uint32_t ccl_gpu_item(uint32_t type, const char *at) {
    return type <= CCL_GPU_FP32 ? *(const CCL_GPU_WORD *)(const void *)at
                                : *(const CCL_GPU_NARROW *)(const void *)at;
}

CCL_GPU_FN void ccl_gpu_item_to(uint32_t type, char *at, uint32_t v) {
    if (type <= CCL_GPU_FP32)
        *(CCL_GPU_WORD *)(void *)at = v;
    else
        *(CCL_GPU_NARROW *)(void *)at = (uint16_t)v;
}

CCL_GPU_FN uint32_t ccl_gpu_item_with(uint32_t type, uint32_t op, uint32_t x, uint32_t y) {
    return type <= CCL_GPU_FP32 ? ccl_gpu_word(type, op, x, y) : ccl_gpu_narrow(type, op, x, y);
}

/** One item at byte i: what is left of vectors, and odd addresses. */
CCL_GPU_FN void ccl_gpu_through_item(uint32_t type, uint32_t op, const ccl_gpu_ends_t *e,
                                     const ccl_gpu_task_t *t, const char *in, const char *out,
                                     uint64_t i) {
    uint32_t sum = 0;
    for (uint32_t k = 0; in && k < e->nrecv; k++) {
        uint32_t x = ccl_gpu_item(type, ccl_gpu_member(e->recv, k, in + i));
        sum = k ? ccl_gpu_item_with(type, op, sum, x) : x;
    }
    uint32_t v = t->a == in ? sum : ccl_gpu_item(type, t->a + i);
    if (t->b)
        v = ccl_gpu_item_with(type, op, v, sum);
    if (t->o != out)
        ccl_gpu_item_to(type, t->o + i, v);
    for (uint32_t k = 0; out && k < e->nsend; k++)
        ccl_gpu_item_to(type, ccl_gpu_member(e->send, k, out + i), v);
}

/** Type and reduction are constants where it is called. @param in, out  in the first slots. */
CCL_GPU_FN void ccl_gpu_through_as(uint32_t type, uint32_t op, const ccl_gpu_block_t *b,
                                   const ccl_gpu_ends_t *e, const ccl_gpu_task_t *t, const char *in,
                                   char *out) {
    uintptr_t odd = ((uintptr_t)t->a | (uintptr_t)t->b | (uintptr_t)t->o | (uintptr_t)t->o2) & 15;
    uint64_t n = odd ? 0 : t->bytes / 16, size = type <= CCL_GPU_FP32 ? 4 : 2;
    for (uint64_t i = b->lane; i < n; i += CCL_GPU_UNROLL * (uint64_t)b->lanes) {
        CCL_GPU_VECTOR v[CCL_GPU_UNROLL];
        for (uint32_t k = 0; k < CCL_GPU_UNROLL; k++) {
            uint64_t at = 16 * (i + k * (uint64_t)b->lanes);
            if (at >= 16 * n)
                break;
            v[k] = t->a == in ? ccl_gpu_pull(type, op, e, in + at)
                              : *(const CCL_GPU_VECTOR *)(const void *)(t->a + at);
            if (t->b)
                v[k] = ccl_gpu_vector(type, op, v[k], ccl_gpu_pull(type, op, e, in + at));
        }
        for (uint32_t k = 0; k < CCL_GPU_UNROLL; k++) {
            uint64_t at = 16 * (i + k * (uint64_t)b->lanes);
            if (at >= 16 * n)
                break;
            if (t->o != out)
                *(CCL_GPU_VECTOR *)(void *)(t->o + at) = v[k];
            if (out)
                ccl_gpu_cast(e, out + at, v[k]);
        }
    }
    for (uint64_t i = 16 * n + b->lane * size; i < t->bytes; i += b->lanes * size)
        ccl_gpu_through_item(type, op, e, t, in, out, i);
}

#define CCL_GPU_THROUGH(type_)                                                                     \
    (e->op == CCL_GPU_SUM   ? ccl_gpu_through_as(type_, CCL_GPU_SUM, b, e, t, in, out)             \
     : e->op == CCL_GPU_MIN ? ccl_gpu_through_as(type_, CCL_GPU_MIN, b, e, t, in, out)             \
                            : ccl_gpu_through_as(type_, CCL_GPU_MAX, b, e, t, in, out))

CCL_GPU_FN void ccl_gpu_through(const ccl_gpu_block_t *b, const ccl_gpu_ends_t *e,
                                const ccl_gpu_task_t *t, const char *in, char *out) {
    if (e->type == CCL_GPU_INT32)
        CCL_GPU_THROUGH(CCL_GPU_INT32);
    else if (e->type == CCL_GPU_FP32)
        CCL_GPU_THROUGH(CCL_GPU_FP32);
    else if (e->type == CCL_GPU_FP16)
        CCL_GPU_THROUGH(CCL_GPU_FP16);
    else
        CCL_GPU_THROUGH(CCL_GPU_BF16);
}

#undef CCL_GPU_THROUGH

/** ccl_gpu_move_piece() of such a step. */
CCL_GPU_FN void ccl_gpu_through_piece(uint32_t prim, const ccl_gpu_block_t *b,
                                      const ccl_gpu_ends_t *e, char *memory,
                                      const ccl_device_piece_t *piece, uint64_t batch,
                                      ccl_gpu_span_t *span) {
    uint64_t size = e->type <= CCL_GPU_FP32 ? 4 : 2, at = 0, n;
    while ((n = ccl_gpu_next_items(piece, batch, span, &at)) > 0) {
        ccl_gpu_task_t t =
            ccl_gpu_task(prim, span->in, span->out, memory + (piece->src + at) * size,
                         memory + (piece->dst + at) * size, n * size);
        ccl_gpu_through(b, e, &t, span->in, span->out);
        ccl_gpu_span_on(span, n, size);
    }
}

/** What came of a member, in the first tile, into the third one, with what came of others. */
CCL_GPU_FN void ccl_gpu_add_tile(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b, bool first,
                                 uint64_t bytes) {
    char *sum = b->tiles + 2 * CCL_GPU_TILE_BYTES;
    ccl_gpu_task_t t = {first ? b->tiles : sum, first ? (const char *)0 : b->tiles, sum, (char *)0,
                        bytes};
    ccl_gpu_move(run->type, run->op, b, &t);
    ccl_gpu_barrier(b);
}

#endif
