/**
 * @file kernel.h
 * What generated kernels are made of (runtime/generate.c writes them): waiting, handing over and
 * moving, with all that a step has as constants, so that after inlining nothing is looked up. Part
 * of blocks.h; C++ alone.
 *
 * @par Source  ResCCL, section 4.5: kernels by rank, thread block and pipeline index.
 */
#ifndef CCL_RUNTIME_GPU_KERNEL_H
#define CCL_RUNTIME_GPU_KERNEL_H

/** A connection as one of its ends sees it. */
typedef struct ccl_kernel_end {
    char *data;
    uint64_t *head, *tail, *lengths;
    uint64_t at;     /* slices before the next one */
    uint32_t counts; /* *head says what has come; else flags do */
} ccl_kernel_end_t;

CCL_GPU_FN uint32_t ccl_kernel_counts(const ccl_device_conn_t *c) {
    return CCL_KERNEL_PROTOCOL == CCL_DEVICE_SIMPLE || c->counted;
}

CCL_GPU_FN ccl_kernel_end_t ccl_kernel_sender(const ccl_device_conn_t *c) {
    ccl_kernel_end_t e = {(char *)c->data, c->head,  c->tail,
                          c->lengths,      *c->head, ccl_kernel_counts(c)};
    return e;
}

CCL_GPU_FN ccl_kernel_end_t ccl_kernel_receiver(const ccl_device_conn_t *c) {
    ccl_kernel_end_t e = {(char *)c->data, c->head,  c->tail,
                          (uint64_t *)0,   *c->tail, ccl_kernel_counts(c)};
    return e;
}

/** Items of one element in a micro-batch. */
CCL_GPU_FN uint64_t ccl_kernel_left(uint64_t items, uint64_t batch_items, uint64_t batch) {
    uint64_t begin = batch * batch_items;
    return begin >= items ? 0 : items - begin < batch_items ? items - begin : batch_items;
}

/** Items of all but the last slices of n. */
CCL_GPU_FN uint64_t ccl_kernel_slice(uint64_t n, uint64_t slices, uint64_t unit) {
    return ((n + slices - 1) / slices + unit - 1) / unit * unit;
}

/** Lane 0. A call: waiting takes longer, and there are many places. */
CCL_KERNEL_CALL bool ccl_kernel_await(const ccl_gpu_run_t *run, ccl_gpu_life_t *life,
                                      const uint64_t *word, uint64_t least, uint64_t *use) {
    bool came = ccl_gpu_await(run, &life->watch, word, least);
    ccl_gpu_charge(run, &life->mark, use);
    return came;
}

CCL_KERNEL_CALL void ccl_kernel_moved(const ccl_gpu_run_t *run, ccl_gpu_life_t *life) {
    ccl_gpu_moved(run, life);
}

/** Lane 0 waits for what is not 0; then all lanes go on, or none (true). */
CCL_GPU_FN bool ccl_kernel_wait(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                ccl_gpu_life_t *life, uint32_t step, uint64_t batch, uint32_t slice,
                                const uint64_t *stage, const uint64_t *dep,
                                const ccl_kernel_end_t *recv, const ccl_kernel_end_t *send) {
    if (b->lane == 0) {
        uint32_t waits = CCL_DEVICE_NONE;
        if (stage && !ccl_kernel_await(run, life, stage, batch, &life->use.peer))
            waits = CCL_GPU_WAIT_STAGE;
        else if (dep && !ccl_kernel_await(run, life, dep, batch, &life->use.peer))
            waits = CCL_GPU_WAIT_DEP;
        else if (recv && recv->counts &&
                 !ccl_kernel_await(run, life, recv->head, recv->at, &life->use.data))
            waits = CCL_GPU_WAIT_DATA;
        else if (send && send->at >= CCL_KERNEL_SLOTS &&
                 !ccl_kernel_await(run, life, send->tail, send->at - CCL_KERNEL_SLOTS,
                                   &life->use.slot))
            waits = CCL_GPU_WAIT_SLOT;
        b->shared->stop = waits != CCL_DEVICE_NONE;
        life->at.waits = waits;
    }
    ccl_gpu_barrier(b);
    if (!b->shared->stop)
        return false;
    life->at.step = step;
    life->at.batch = (uint32_t)batch;
    life->at.slice = slice;
    return true;
}

CCL_GPU_FN ccl_gpu_span_t ccl_kernel_span(uint64_t n, uint64_t x, uint32_t slice,
                                          const ccl_kernel_end_t *recv, uint64_t recv_slot_bytes,
                                          const ccl_kernel_end_t *send, uint64_t send_slot_bytes) {
    ccl_gpu_span_t s = {slice * x, slice * x + x, (const char *)0, (char *)0};
    s.begin = s.begin < n ? s.begin : n;
    s.end = s.end < n ? s.end : n;
    if (recv)
        s.in = recv->data + recv->at % CCL_KERNEL_SLOTS * recv_slot_bytes;
    if (send)
        s.out = send->data + send->at % CCL_KERNEL_SLOTS * send_slot_bytes;
    return s;
}

CCL_GPU_FN ccl_gpu_lines_t ccl_kernel_lines(const ccl_kernel_end_t *e, uint64_t slot_bytes) {
    ccl_gpu_lines_t l = {e->data + e->at % CCL_KERNEL_SLOTS * slot_bytes, e->at, slot_bytes,
                         CCL_KERNEL_SLOTS, CCL_KERNEL_PROTOCOL};
    return l;
}

/** Bytes of the tile that begins at byte `from` of a slice. */
CCL_GPU_FN uint64_t ccl_kernel_tile(uint64_t from, uint64_t bytes) {
    uint64_t most = CCL_GPU_TILE_BYTES;
    return bytes - from < most ? bytes - from : most;
}

/** A tile of a slice into `span`, with what came for it; true, for all lanes: given up. */
CCL_GPU_FN bool ccl_kernel_begin(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                 ccl_gpu_life_t *life, uint32_t step, uint64_t batch,
                                 uint32_t slice, const ccl_gpu_span_t *all,
                                 const ccl_kernel_end_t *recv, uint64_t slot_bytes, bool sends,
                                 uint64_t from, ccl_gpu_span_t *span) {
    uint64_t bytes = ccl_kernel_tile(from, (all->end - all->begin) * CCL_KERNEL_SIZE);
    ccl_gpu_lines_t lines = {(char *)0, 0, 0, 0, 0};
    if (recv)
        lines = ccl_kernel_lines(recv, slot_bytes);
    span->begin = all->begin + from / CCL_KERNEL_SIZE;
    span->end = span->begin + bytes / CCL_KERNEL_SIZE;
    span->in = recv ? b->tiles : (const char *)0;
    span->out = sends ? b->tiles + CCL_GPU_TILE_BYTES : (char *)0;
    if (ccl_gpu_tile_begin(run, b, life, recv ? &lines : (const ccl_gpu_lines_t *)0, from, bytes))
        return false;
    life->at.step = step;
    life->at.batch = (uint32_t)batch;
    life->at.slice = slice;
    life->at.waits = CCL_GPU_WAIT_DATA;
    return true;
}

CCL_GPU_FN void ccl_kernel_end(const ccl_gpu_block_t *b, const ccl_kernel_end_t *send,
                               uint64_t slot_bytes, uint64_t from, uint64_t all) {
    ccl_gpu_lines_t lines = {(char *)0, 0, 0, 0, 0};
    if (send)
        lines = ccl_kernel_lines(send, slot_bytes);
    ccl_gpu_tile_end(b, send ? &lines : (const ccl_gpu_lines_t *)0, from,
                     ccl_kernel_tile(from, all), all);
}

/** Items that follow each other: an element, or several without gaps. */
CCL_GPU_FN void ccl_kernel_one(uint32_t prim, const ccl_gpu_block_t *b, char *memory, uint64_t src,
                               uint64_t dst, uint64_t all, ccl_gpu_span_t *span) {
    const uint64_t size = CCL_KERNEL_TYPE <= CCL_GPU_FP32 ? 4 : 2;
    uint64_t stop = span->end < all ? span->end : all, n = 0;
    if (span->begin < stop) {
        n = stop - span->begin;
        ccl_gpu_task_t t =
            ccl_gpu_task(prim, span->in, span->out, memory + (src + span->begin) * size,
                         memory + (dst + span->begin) * size, n * size);
        if (prim != CCL_DEVICE_CPY || src != dst)
            ccl_gpu_move(CCL_KERNEL_TYPE, CCL_KERNEL_OP, b, &t);
        span->in = span->in ? span->in + n * size : span->in;
        span->out = span->out ? span->out + n * size : span->out;
        span->begin += n;
    }
    span->begin -= all < span->begin ? all : span->begin;
    span->end -= all < span->end ? all : span->end;
}

/** Elements with gaps between what a micro-batch has of them. */
CCL_GPU_FN void ccl_kernel_many(uint32_t prim, const ccl_gpu_block_t *b, char *memory, uint64_t src,
                                uint64_t dst, uint64_t items, uint64_t batch_items, uint64_t n,
                                uint64_t batch, ccl_gpu_span_t *span) {
    ccl_device_piece_t piece = {src, dst, items, batch_items, n};
    ccl_gpu_move_piece(prim, CCL_KERNEL_TYPE, CCL_KERNEL_OP, b, memory, piece, batch, span);
}

/** All lanes have moved: lane 0 hands over. `done`: of the step, after its last slice; else 0. */
CCL_GPU_FN void ccl_kernel_pass(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                ccl_gpu_life_t *life, ccl_kernel_end_t *recv,
                                ccl_kernel_end_t *send, uint64_t bytes, uint64_t *done,
                                uint64_t batch) {
    ccl_gpu_barrier(b);
    if (b->lane == 0) {
        if (recv && CCL_KERNEL_PROTOCOL == CCL_DEVICE_SIMPLE)
            ccl_gpu_store(recv->tail, recv->at + 1);
        else if (recv)
            ccl_gpu_credit(recv->tail, recv->at + 1);
        if (send) {
            if (send->lengths)
                send->lengths[send->at % CCL_KERNEL_SLOTS] =
                    ccl_gpu_slot_bytes(CCL_KERNEL_PROTOCOL, bytes);
            if (send->counts)
                ccl_gpu_store(send->head, send->at + 1);
            else
                *send->head = send->at + 1; /* its own */
        }
        if (done)
            ccl_gpu_store(done, batch + 1);
        ccl_kernel_moved(run, life);
    }
    if (recv)
        recv->at++;
    if (send)
        send->at++;
}

#endif
