/**
 * @file move.h
 * Copies and reductions of a block, 16 bytes at a time where all addresses allow. Part of blocks.h.
 */
#ifndef CCL_RUNTIME_GPU_MOVE_H
#define CCL_RUNTIME_GPU_MOVE_H

/** Numbers of ccl_type_t and ccl_reduction_t. */
enum { CCL_GPU_INT32, CCL_GPU_FP32, CCL_GPU_FP16, CCL_GPU_BF16 };
enum { CCL_GPU_SUM, CCL_GPU_MIN, CCL_GPU_MAX };

/** o and o2 = a, or a with b; b and o2 may be NULL, o may be a or b. */
typedef struct ccl_gpu_task {
    const char *a, *b;
    char *o, *o2;
    uint64_t bytes;
} ccl_gpu_task_t;

union ccl_gpu_number {
    uint32_t bits;
    int32_t whole;
    float real;
};

CCL_GPU_FN float ccl_gpu_real(uint32_t bits) {
    union ccl_gpu_number n;
    n.bits = bits;
    return n.real;
}

CCL_GPU_FN uint32_t ccl_gpu_bits(float real) {
    union ccl_gpu_number n;
    n.real = real;
    return n.bits;
}

CCL_GPU_FN float ccl_gpu_combine(uint32_t op, float x, float y) {
    return op == CCL_GPU_SUM ? x + y : op == CCL_GPU_MIN ? (y < x ? y : x) : (y > x ? y : x);
}

CCL_GPU_FN uint32_t ccl_gpu_bfloat_from_float(float f) {
    uint32_t w = ccl_gpu_bits(f), rounded = (w + 0x7fffu + (w >> 16 & 1u)) >> 16;
    return (w & 0x7fffffffu) > 0x7f800000u ? (w >> 16 | 0x40u) : rounded;
}

CCL_GPU_FN uint32_t ccl_gpu_narrow(uint32_t type, uint32_t op, uint32_t x, uint32_t y) {
    if (type == CCL_GPU_BF16)
        return ccl_gpu_bfloat_from_float(
            ccl_gpu_combine(op, ccl_gpu_real(x << 16), ccl_gpu_real(y << 16)));
    return ccl_gpu_half_from_float(
        ccl_gpu_combine(op, ccl_gpu_half_to_float(x), ccl_gpu_half_to_float(y)));
}

/** Four bytes: one item or two. Type and reduction are constants where it is called. */
CCL_GPU_FN uint32_t ccl_gpu_word(uint32_t type, uint32_t op, uint32_t x, uint32_t y) {
    if (type == CCL_GPU_INT32) {
        int32_t p = (int32_t)x, q = (int32_t)y;
        return op == CCL_GPU_SUM ? x + y : (op == CCL_GPU_MIN ? q < p : q > p) ? y : x;
    }
    if (type == CCL_GPU_FP32)
        return ccl_gpu_bits(ccl_gpu_combine(op, ccl_gpu_real(x), ccl_gpu_real(y)));
    return ccl_gpu_narrow(type, op, x & 0xffffu, y & 0xffffu) |
           ccl_gpu_narrow(type, op, x >> 16, y >> 16) << 16;
}

CCL_GPU_FN CCL_GPU_VECTOR ccl_gpu_vector(uint32_t type, uint32_t op, CCL_GPU_VECTOR x,
                                         CCL_GPU_VECTOR y) {
    x.x = ccl_gpu_word(type, op, x.x, y.x);
    x.y = ccl_gpu_word(type, op, x.y, y.y);
    x.z = ccl_gpu_word(type, op, x.z, y.z);
    x.w = ccl_gpu_word(type, op, x.w, y.w);
    return x;
}

/** Items one by one: what is left of vectors, and odd addresses. */
CCL_GPU_FN void ccl_gpu_items(uint32_t type, uint32_t op, const ccl_gpu_block_t *b,
                              const ccl_gpu_task_t *t, uint64_t from) {
    uint32_t size = type <= CCL_GPU_FP32 ? 4 : 2;
    for (uint64_t i = from + (uint64_t)b->lane * size; i < t->bytes;
         i += (uint64_t)b->lanes * size) {
        if (size == 4) {
            uint32_t v = *(const CCL_GPU_WORD *)(t->a + i);
            if (t->b)
                v = ccl_gpu_word(type, op, v, *(const CCL_GPU_WORD *)(t->b + i));
            *(CCL_GPU_WORD *)(t->o + i) = v;
            if (t->o2)
                *(CCL_GPU_WORD *)(t->o2 + i) = v;
        } else {
            uint32_t v = *(const CCL_GPU_NARROW *)(t->a + i);
            if (t->b)
                v = ccl_gpu_narrow(type, op, v, *(const CCL_GPU_NARROW *)(t->b + i));
            *(CCL_GPU_NARROW *)(t->o + i) = (uint16_t)v;
            if (t->o2)
                *(CCL_GPU_NARROW *)(t->o2 + i) = (uint16_t)v;
        }
    }
}

/** `reduces` is a constant, as are type and op. */
CCL_GPU_FN void ccl_gpu_move_as(uint32_t type, uint32_t op, bool reduces, const ccl_gpu_block_t *b,
                                const ccl_gpu_task_t *t) {
    uintptr_t odd = ((uintptr_t)t->a | (uintptr_t)t->b | (uintptr_t)t->o | (uintptr_t)t->o2) & 15;
    uint64_t n = odd ? 0 : t->bytes / 16, i = b->lane, stride = b->lanes;
    const CCL_GPU_VECTOR *x = (const CCL_GPU_VECTOR *)(const void *)t->a;
    const CCL_GPU_VECTOR *y = (const CCL_GPU_VECTOR *)(const void *)t->b;
    CCL_GPU_VECTOR *o = (CCL_GPU_VECTOR *)(void *)t->o;
    CCL_GPU_VECTOR *o2 = (CCL_GPU_VECTOR *)(void *)t->o2;
    /* Several loads on their way at once hide the memory's latency. */
    for (; i + (CCL_GPU_UNROLL - 1) * stride < n; i += CCL_GPU_UNROLL * stride) {
        CCL_GPU_VECTOR v[CCL_GPU_UNROLL], w[CCL_GPU_UNROLL];
        for (uint32_t k = 0; k < CCL_GPU_UNROLL; k++) {
            v[k] = x[i + k * stride];
            if (reduces)
                w[k] = y[i + k * stride];
        }
        for (uint32_t k = 0; k < CCL_GPU_UNROLL; k++) {
            if (reduces)
                v[k] = ccl_gpu_vector(type, op, v[k], w[k]);
            o[i + k * stride] = v[k];
            if (o2)
                o2[i + k * stride] = v[k];
        }
    }
    for (; i < n; i += stride) {
        CCL_GPU_VECTOR v = x[i];
        if (reduces)
            v = ccl_gpu_vector(type, op, v, y[i]);
        o[i] = v;
        if (o2)
            o2[i] = v;
    }
    ccl_gpu_items(type, op, b, t, 16 * n);
}

#ifdef CCL_KERNEL_TYPE /* a generated kernel: its type and reduction alone, in two functions */

CCL_KERNEL_CALL void ccl_kernel_copy(uint32_t lane, uint32_t lanes, ccl_gpu_task_t t) {
    ccl_gpu_block_t b = {(ccl_gpu_shared_t *)0, lane, lanes, (void *)0, (char *)0};
    ccl_gpu_move_as(CCL_KERNEL_TYPE, CCL_GPU_SUM, false, &b, &t);
}

CCL_KERNEL_CALL void ccl_kernel_reduce(uint32_t lane, uint32_t lanes, ccl_gpu_task_t t) {
    ccl_gpu_block_t b = {(ccl_gpu_shared_t *)0, lane, lanes, (void *)0, (char *)0};
    ccl_gpu_move_as(CCL_KERNEL_TYPE, CCL_KERNEL_OP, true, &b, &t);
}

CCL_GPU_FN void ccl_gpu_move(uint32_t, uint32_t, const ccl_gpu_block_t *b,
                             const ccl_gpu_task_t *t) {
    if (t->b)
        ccl_kernel_reduce(b->lane, b->lanes, *t);
    else
        ccl_kernel_copy(b->lane, b->lanes, *t);
}

#else

#define CCL_GPU_OPS(type_)                                                                         \
    (op == CCL_GPU_SUM   ? ccl_gpu_move_as(type_, CCL_GPU_SUM, true, b, t)                         \
     : op == CCL_GPU_MIN ? ccl_gpu_move_as(type_, CCL_GPU_MIN, true, b, t)                         \
                         : ccl_gpu_move_as(type_, CCL_GPU_MAX, true, b, t))

CCL_GPU_FN void ccl_gpu_move(uint32_t type, uint32_t op, const ccl_gpu_block_t *b,
                             const ccl_gpu_task_t *t) {
    if (!t->b && type <= CCL_GPU_FP32)
        ccl_gpu_move_as(CCL_GPU_INT32, CCL_GPU_SUM, false, b, t);
    else if (!t->b)
        ccl_gpu_move_as(CCL_GPU_BF16, CCL_GPU_SUM, false, b, t);
    else if (type == CCL_GPU_INT32)
        CCL_GPU_OPS(CCL_GPU_INT32);
    else if (type == CCL_GPU_FP32)
        CCL_GPU_OPS(CCL_GPU_FP32);
    else if (type == CCL_GPU_FP16)
        CCL_GPU_OPS(CCL_GPU_FP16);
    else
        CCL_GPU_OPS(CCL_GPU_BF16);
}

#undef CCL_GPU_OPS

#endif

/* ---------------------------------------------------------------- slices */

/** Items of one element of a piece in a micro-batch. */
CCL_GPU_FN uint64_t ccl_gpu_piece_items(const ccl_device_piece_t *p, uint64_t batch) {
    uint64_t begin = batch * p->batch_items;
    if (begin >= p->items)
        return 0;
    return p->items - begin < p->batch_items ? p->items - begin : p->batch_items;
}

/** Where a primitive reads and writes; in and out point into slots, src and dst into memory. */
CCL_GPU_FN ccl_gpu_task_t ccl_gpu_task(uint32_t prim, const char *in, char *out, char *src,
                                       char *dst, uint64_t bytes) {
    ccl_gpu_task_t t = {src, (const char *)0, dst, (char *)0, bytes};
    switch (prim) {
    case CCL_DEVICE_S:
        t.o = out;
        break;
    case CCL_DEVICE_RCS:
        t.o2 = out; /* fall through */
    case CCL_DEVICE_R:
        t.a = in;
        break;
    case CCL_DEVICE_RRS:
        t.b = in;
        t.o = out;
        break;
    case CCL_DEVICE_RRCS:
        t.o2 = out; /* fall through */
    case CCL_DEVICE_RRC:
        t.b = in;
        break;
    case CCL_DEVICE_RE:
        t.a = dst;
        t.b = src;
        break;
    default: /* cpy */
        break;
    }
    return t;
}

/** What is left of a slice: items of the step's data, and where they are in the slots. */
typedef struct ccl_gpu_span {
    uint64_t begin, end;
    const char *in;
    char *out;
} ccl_gpu_span_t;

/**
 * The next items of a piece that follow each other in memory, from item *at of it on, as far as the
 * slice goes. 0: there are none; the span is counted from the next piece then.
 */
CCL_GPU_FN uint64_t ccl_gpu_next_items(const ccl_device_piece_t *piece, uint64_t batch,
                                       ccl_gpu_span_t *span, uint64_t *at) {
    uint64_t own = ccl_gpu_piece_items(piece, batch), all = piece->n * own;
    uint64_t stop = span->end < all ? span->end : all;
    if (span->begin < stop) {
        uint64_t e = span->begin / own, off = span->begin % own;
        *at = e * piece->items + batch * piece->batch_items + off;
        if (own == piece->items) /* elements follow each other without gaps */
            return stop - span->begin;
        return own - off < stop - span->begin ? own - off : stop - span->begin;
    }
    span->begin -= all < span->begin ? all : span->begin;
    span->end -= all < span->end ? all : span->end;
    return 0;
}

CCL_GPU_FN void ccl_gpu_span_on(ccl_gpu_span_t *span, uint64_t items, uint64_t size) {
    span->in = span->in ? span->in + items * size : span->in;
    span->out = span->out ? span->out + items * size : span->out;
    span->begin += items;
}

/** What the slice has of one piece; then on to the next. */
CCL_GPU_FN void ccl_gpu_move_piece(uint32_t prim, uint32_t type, uint32_t op,
                                   const ccl_gpu_block_t *b, char *memory, ccl_device_piece_t piece,
                                   uint64_t batch, ccl_gpu_span_t *span) {
    uint64_t size = type <= CCL_GPU_FP32 ? 4 : 2, at = 0, n;
    while ((n = ccl_gpu_next_items(&piece, batch, span, &at)) > 0) {
        ccl_gpu_task_t t = ccl_gpu_task(prim, span->in, span->out, memory + (piece.src + at) * size,
                                        memory + (piece.dst + at) * size, n * size);
        if (prim != CCL_DEVICE_CPY || t.a != t.o)
            ccl_gpu_move(type, op, b, &t);
        ccl_gpu_span_on(span, n, size);
    }
}

/** Bytes in a slot of a slice with `bytes` of data. */
CCL_GPU_FN uint64_t ccl_gpu_slot_bytes(uint32_t protocol, uint64_t bytes) {
    uint64_t line = protocol == CCL_DEVICE_LL ? CCL_DEVICE_LL_LINE : CCL_DEVICE_LL128_LINE;
    uint64_t data = protocol == CCL_DEVICE_LL ? CCL_DEVICE_LL_DATA : CCL_DEVICE_LL128_DATA;
    uint64_t lines = (bytes + data - 1) / data;
    return protocol == CCL_DEVICE_SIMPLE ? bytes : (lines ? lines : 1) * line;
}

#endif
