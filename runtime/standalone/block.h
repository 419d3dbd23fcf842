/**
 * @file block.h
 * What the thread blocks of a stand-alone kernel are made of: one call a step, for any count, type
 * and reduction. Follows gpu/blocks.h in the text of a kernel and is valid C and C++ like it; the
 * writer defines the macros CCL_SA_PROTOCOL, CCL_SA_SLOTS and CCL_SA_SLICE_BYTES.
 *
 * A rank has a region of memory that its peers reach. Of a connection the receiver's region has, at
 * offset `in`, slices written, a word of the receiver's own, and the slots; the sender's has, at
 * offset `out`, slices freed and a word of the sender's own. So each end waits for a word in memory
 * of its own. Counters go on from call to call.
 *
 * @par Source  NCCL's protocols; ResCCL, section 4.5: a function per rank and thread block, in it a
 *              call per primitive.
 */
#ifndef CCL_RUNTIME_STANDALONE_BLOCK_H
#define CCL_RUNTIME_STANDALONE_BLOCK_H

/** A buffer of a step; in place the first two are one memory. */
enum { CCL_SA_INPUT, CCL_SA_OUTPUT, CCL_SA_SCRATCH, CCL_SA_BUFFERS };
/** Where a word or the slots of a connection lie behind its offset. */
enum { CCL_SA_OWN = 128, CCL_SA_SLOTS_AT = 256 };

/** A call as the blocks of one rank see it. */
typedef struct ccl_sa_run {
    ccl_gpu_run_t gpu; /* of it: type, op, item_bytes, protocol, host_stop, host_progress,
                          places, timed (0) */
    char *buffers[CCL_SA_BUFFERS];
    char *const *bases;          /* [nranks] regions, where they are reached by address */
    const void *reach;           /* of other ways */
    uint64_t *done;              /* [steps of the rank] micro-batches done, in all calls */
    uint64_t base;               /* micro-batches of earlier calls */
    uint64_t given;              /* items of a shard as its caller counts */
    uint64_t count, stride;      /* the same as the kernel does; from a shard to the next */
    uint64_t items, batch_items; /* of an element; of it in a micro-batch */
    uint32_t parts;              /* elements of a shard */
    uint32_t rank, first_unit, nunits, batches;
    uint32_t counted; /* 1: flags in the data are not relied on alone */
} ccl_sa_run_t;

/** n elements that follow each other in both buffers; CCL_SA_BUFFERS: none is read or written. */
typedef struct ccl_sa_piece {
    uint32_t from, src, to, dst, n;
} ccl_sa_piece_t;

/** A step; `after`, `dep` and `done` are marks of steps, CCL_DEVICE_NONE: none. */
typedef struct ccl_sa_step {
    uint32_t step, prim;
    uint32_t after, dep, done; /* end of the block's previous stage; waited for; to be set */
    uint32_t shared, npieces;
    const ccl_sa_piece_t *pieces;
} ccl_sa_step_t;

/** A connection as one of its ends sees it. */
typedef struct ccl_sa_end {
    char *data;
    uint64_t *head, *tail, *own;
    uint64_t at;                   /* slices before the next one */
    uint64_t here, there;          /* offsets of this end's side and of the other's */
    uint32_t counts, peer;         /* counts: *head says what has come; else flags do */
    uint32_t net, signal, signals; /* net: no address reaches the peer; numbers of the signals that
                                      this end waits for and that it raises at its peer */
} ccl_sa_end_t;

/* How peers are reached, by what follows this header, or by address alone:
   ccl_sa_at: offset in a rank's region, of the own rank or of a peer that is not far;
   ccl_sa_far: no address reaches the peer; ccl_sa_signal: the value of a signal of the own rank;
   ccl_sa_put: puts `bytes` of the next slot to a far peer, 0: none, and raises a signal there. */
#ifdef CCL_SA_REACH
CCL_GPU_FN char *ccl_sa_at(const ccl_sa_run_t *run, uint32_t rank, uint64_t offset);
CCL_GPU_FN bool ccl_sa_far(const ccl_sa_run_t *run, uint32_t peer);
CCL_GPU_FN uint64_t ccl_sa_signal(const ccl_sa_run_t *run, uint32_t signal);
CCL_GPU_FN void ccl_sa_put(const ccl_sa_run_t *run, const ccl_sa_end_t *e, uint64_t bytes);
#else
CCL_GPU_FN char *ccl_sa_at(const ccl_sa_run_t *run, uint32_t rank, uint64_t offset) {
    return run->bases[rank] + offset;
}
CCL_GPU_FN bool ccl_sa_far(const ccl_sa_run_t *run, uint32_t peer) {
    (void)run;
    (void)peer;
    return false;
}
CCL_GPU_FN uint64_t ccl_sa_signal(const ccl_sa_run_t *run, uint32_t signal) {
    (void)run;
    (void)signal;
    return 0;
}
CCL_GPU_FN void ccl_sa_put(const ccl_sa_run_t *run, const ccl_sa_end_t *e, uint64_t bytes) {
    (void)run;
    (void)e;
    (void)bytes;
}
#endif

/* ---------------------------------------------------------------- ends */

/** What both ends have in common; `mine` and `theirs`: offsets of the two sides. */
CCL_GPU_FN ccl_sa_end_t ccl_sa_end(const ccl_sa_run_t *run, uint32_t peer, uint64_t mine,
                                   uint64_t theirs) {
    ccl_sa_end_t e = {
        (char *)0, (uint64_t *)0, (uint64_t *)0, (uint64_t *)0, 0, mine, theirs, 0, peer, 0, 0, 0};
    e.net = ccl_sa_far(run, peer);
    e.own = (uint64_t *)(void *)(ccl_sa_at(run, run->rank, mine) + CCL_SA_OWN);
    e.at = *e.own;
    e.counts = CCL_SA_PROTOCOL == CCL_DEVICE_SIMPLE || run->counted || e.net;
    return e;
}

/** @param in, out  offsets of the receiver's side here and of the sender's side at the peer. */
CCL_GPU_FN ccl_sa_end_t ccl_sa_receiver(const ccl_sa_run_t *run, uint32_t peer, uint64_t in,
                                        uint64_t out, uint32_t signal, uint32_t signals) {
    ccl_sa_end_t e = ccl_sa_end(run, peer, in, out);
    e.signal = signal;
    e.signals = signals;
    e.data = ccl_sa_at(run, run->rank, in) + CCL_SA_SLOTS_AT;
    e.head = (uint64_t *)(void *)ccl_sa_at(run, run->rank, in);
    e.tail = e.net ? (uint64_t *)0 : (uint64_t *)(void *)ccl_sa_at(run, peer, out);
    return e;
}

/** Slices for a peer that no address reaches are written here and put there. */
CCL_GPU_FN ccl_sa_end_t ccl_sa_sender(const ccl_sa_run_t *run, uint32_t peer, uint64_t in,
                                      uint64_t out, uint32_t signal, uint32_t signals) {
    ccl_sa_end_t e = ccl_sa_end(run, peer, out, in);
    e.signal = signal;
    e.signals = signals;
    e.data = e.net ? ccl_sa_at(run, run->rank, out) + CCL_SA_SLOTS_AT
                   : ccl_sa_at(run, peer, in) + CCL_SA_SLOTS_AT;
    e.head = e.net ? (uint64_t *)0 : (uint64_t *)(void *)ccl_sa_at(run, peer, in);
    e.tail = (uint64_t *)(void *)ccl_sa_at(run, run->rank, out);
    return e;
}

/** The block has done all its steps. */
CCL_GPU_FN void ccl_sa_over(const ccl_gpu_block_t *b, const ccl_sa_end_t *e) {
    if (b->lane == 0)
        *e->own = e->at;
}

CCL_GPU_FN uint64_t ccl_sa_slot_bytes(void) {
    uint64_t bytes = ccl_gpu_slot_bytes(CCL_SA_PROTOCOL, CCL_SA_SLICE_BYTES);
    return (bytes + CCL_DEVICE_LL128_LINE - 1) / CCL_DEVICE_LL128_LINE * CCL_DEVICE_LL128_LINE;
}

CCL_GPU_FN uint64_t ccl_sa_slot_at(const ccl_sa_end_t *e) {
    return e->at % CCL_SA_SLOTS * ccl_sa_slot_bytes();
}

CCL_GPU_FN ccl_gpu_lines_t ccl_sa_lines(const ccl_sa_end_t *e) {
    ccl_gpu_lines_t l = {e->data + ccl_sa_slot_at(e), e->at, ccl_sa_slot_bytes(), CCL_SA_SLOTS,
                         CCL_SA_PROTOCOL};
    return l;
}

/* ---------------------------------------------------------------- data */

/** Elements at and behind element `at` of a buffer; `there`: the items of them that it has. */
CCL_GPU_FN char *ccl_sa_element(const ccl_sa_run_t *run, uint32_t buffer, uint32_t at,
                                uint64_t *there) {
    uint64_t part = at % run->parts, item = at / run->parts * run->stride + part * run->items;
    if (buffer == CCL_SA_BUFFERS)
        return (char *)0;
    if (buffer == CCL_SA_SCRATCH) {
        item = at * run->items;
    } else {
        uint64_t begin = part * run->items, left = run->count > begin ? run->count - begin : 0;
        *there = left < *there ? left : *there;
    }
    return run->buffers[buffer] + item * run->gpu.item_bytes;
}

/** Items of an element in micro-batch j. */
CCL_GPU_FN uint64_t ccl_sa_batch(const ccl_sa_run_t *run, uint64_t j) {
    uint64_t begin = j * run->batch_items;
    if (begin >= run->items)
        return 0;
    return run->items - begin < run->batch_items ? run->items - begin : run->batch_items;
}

/**
 * Of one piece what a span has of micro-batch j, then the span goes on to the next piece. Messages
 * have the items of whole elements; those that are not in the caller's buffers are skipped there.
 */
CCL_KERNEL_CALL void ccl_sa_move(const ccl_sa_run_t *run, const ccl_gpu_block_t *b, uint32_t prim,
                                 const ccl_sa_piece_t *p, uint64_t j, ccl_gpu_span_t *span) {
    uint64_t own = ccl_sa_batch(run, j), all = p->n * own, size = run->gpu.item_bytes;
    uint64_t stop = span->end < all ? span->end : all, left = ~(uint64_t)0;
    char *const src = ccl_sa_element(run, p->from, p->src, &left);
    char *const dst = ccl_sa_element(run, p->to, p->dst, &left);
    while (span->begin < stop) {
        uint64_t e = span->begin / own, off = span->begin % own, n = stop - span->begin;
        uint64_t at = e * run->items + j * run->batch_items + off;
        if (own != run->items && own - off < n) /* else elements follow each other without gaps */
            n = own - off;
        uint64_t there = at < left ? left - at : 0;
        there = there < n ? there : n;
        ccl_gpu_task_t t =
            ccl_gpu_task(prim, span->in, span->out, src + at * size, dst + at * size, there * size);
        if (there && (prim != CCL_DEVICE_CPY || t.a != t.o))
            ccl_gpu_move(run->gpu.type, run->gpu.op, b, &t);
        span->in = span->in ? span->in + n * size : span->in;
        span->out = span->out ? span->out + n * size : span->out;
        span->begin += n;
    }
    span->begin -= all < span->begin ? all : span->begin;
    span->end -= all < span->end ? all : span->end;
}

CCL_GPU_FN void ccl_sa_moves(const ccl_sa_run_t *run, const ccl_gpu_block_t *b,
                             const ccl_sa_step_t *s, uint64_t j, ccl_gpu_span_t *span) {
    if (s->shared)
        ccl_gpu_fence();
    for (uint32_t i = 0; i < s->npieces && span->begin < span->end; i++)
        ccl_sa_move(run, b, s->prim, &s->pieces[i], j, span);
    if (s->shared)
        ccl_gpu_fence();
}

/* ---------------------------------------------------------------- waiting: lane 0 alone */

/** Until the signal is more than `least`; false: given up. */
CCL_GPU_FN bool ccl_sa_await_signal(const ccl_sa_run_t *run, ccl_gpu_life_t *life, uint32_t signal,
                                    uint64_t least) {
    for (uint32_t looks = 1; ccl_sa_signal(run, signal) <= least; looks++) {
        if (looks % CCL_GPU_LOOKS)
            continue;
        ccl_gpu_tell(&run->gpu, &life->watch);
        if (ccl_gpu_load32(run->gpu.host_stop))
            return false;
    }
    return true;
}

CCL_GPU_FN bool ccl_sa_await(const ccl_sa_run_t *run, ccl_gpu_life_t *life, const ccl_sa_end_t *e,
                             const uint64_t *word, uint64_t least) {
    return e->net ? ccl_sa_await_signal(run, life, e->signal, least)
                  : ccl_gpu_await(&run->gpu, &life->watch, word, least);
}

CCL_GPU_FN bool ccl_sa_mark(const ccl_sa_run_t *run, ccl_gpu_life_t *life, uint32_t mark,
                            uint64_t j) {
    return mark == CCL_DEVICE_NONE ||
           ccl_gpu_await(&run->gpu, &life->watch, &run->done[mark], run->base + j);
}

/** All that slice k of a step needs, but for lines. @return what could not be waited for. */
CCL_GPU_FN uint32_t ccl_sa_ready(const ccl_sa_run_t *run, ccl_gpu_life_t *life,
                                 const ccl_sa_step_t *s, const ccl_sa_end_t *recv,
                                 const ccl_sa_end_t *send) {
    if (life->at.slice == 0 && !ccl_sa_mark(run, life, s->after, life->at.batch))
        return CCL_GPU_WAIT_STAGE;
    if (life->at.slice == 0 && !ccl_sa_mark(run, life, s->dep, life->at.batch))
        return CCL_GPU_WAIT_DEP;
    if (recv && recv->counts && !ccl_sa_await(run, life, recv, recv->head, recv->at))
        return CCL_GPU_WAIT_DATA;
    if (send && send->at >= CCL_SA_SLOTS &&
        !ccl_sa_await(run, life, send, send->tail, send->at - CCL_SA_SLOTS))
        return CCL_GPU_WAIT_SLOT;
    return CCL_DEVICE_NONE;
}

/* ---------------------------------------------------------------- a step */

/** Slice `life->at.slice`: items begin to end of the step. False, for all lanes: given up. */
CCL_GPU_FN bool ccl_sa_slice(const ccl_sa_run_t *run, const ccl_gpu_block_t *b,
                             ccl_gpu_life_t *life, const ccl_sa_step_t *s, ccl_sa_end_t *recv,
                             ccl_sa_end_t *send, ccl_gpu_span_t all) {
    uint64_t size = run->gpu.item_bytes, bytes = (all.end - all.begin) * size, j = life->at.batch;
    if (CCL_SA_PROTOCOL == CCL_DEVICE_SIMPLE || !(recv || send)) {
        all.in = recv ? recv->data + ccl_sa_slot_at(recv) : (const char *)0;
        all.out = send ? send->data + ccl_sa_slot_at(send) : (char *)0;
        ccl_sa_moves(run, b, s, j, &all);
        return true;
    }
    ccl_gpu_lines_t in = {(char *)0, 0, 0, 0, 0}, out = in;
    if (recv)
        in = ccl_sa_lines(recv);
    if (send)
        out = ccl_sa_lines(send);
    for (uint64_t from = 0; from == 0 || from < bytes; from += CCL_GPU_TILE_BYTES) {
        uint64_t most = CCL_GPU_TILE_BYTES, n = bytes - from < most ? bytes - from : most;
        ccl_gpu_span_t span = {all.begin + from / size, all.begin + (from + n) / size,
                               recv ? b->tiles : (const char *)0,
                               send ? b->tiles + CCL_GPU_TILE_BYTES : (char *)0};
        if (!ccl_gpu_tile_begin(&run->gpu, b, life, recv ? &in : (const ccl_gpu_lines_t *)0, from,
                                n)) {
            life->at.waits = CCL_GPU_WAIT_DATA;
            return false;
        }
        ccl_sa_moves(run, b, s, j, &span);
        ccl_gpu_tile_end(b, send ? &out : (const ccl_gpu_lines_t *)0, from, n, bytes);
    }
    return true;
}

/** All lanes have moved a slice, of `bytes`: lane 0 hands over. */
CCL_GPU_FN void ccl_sa_pass(const ccl_sa_run_t *run, const ccl_gpu_block_t *b, ccl_gpu_life_t *life,
                            ccl_sa_end_t *recv, ccl_sa_end_t *send, uint64_t bytes) {
    ccl_gpu_barrier(b);
    if (b->lane == 0) {
        if (recv && recv->net)
            ccl_sa_put(run, recv, 0);
        else if (recv && CCL_SA_PROTOCOL == CCL_DEVICE_SIMPLE)
            ccl_gpu_store(recv->tail, recv->at + 1);
        else if (recv)
            ccl_gpu_credit(recv->tail, recv->at + 1);
        if (send && send->net)
            ccl_sa_put(run, send, ccl_gpu_slot_bytes(CCL_SA_PROTOCOL, bytes));
        else if (send && send->counts)
            ccl_gpu_store(send->head, send->at + 1);
        ccl_gpu_moved(&run->gpu, life);
    }
    if (recv)
        recv->at++;
    if (send)
        send->at++;
}

/** Slices of a step in every micro-batch, and items of all but the last in this one. */
CCL_GPU_FN uint64_t ccl_sa_slices(const ccl_sa_run_t *run, uint64_t elements, uint64_t items,
                                  bool passes, uint64_t *slice_items) {
    uint64_t size = run->gpu.item_bytes, unit = 16 / size;
    uint64_t first = passes ? elements * ccl_sa_batch(run, 0) * size : 0;
    uint64_t n = (first + CCL_SA_SLICE_BYTES - 1) / CCL_SA_SLICE_BYTES;
    n = n ? n : 1;
    *slice_items = ((items + n - 1) / n + unit - 1) / unit * unit;
    return n;
}

/**
 * A step of micro-batch j. @param recv, send  0: it does not receive or send.
 * @return true, for all lanes: the call is to be given up.
 */
CCL_KERNEL_CALL bool ccl_sa_step(const ccl_sa_run_t *run, const ccl_gpu_block_t *b,
                                 ccl_gpu_life_t *life, uint64_t j, const ccl_sa_step_t *s,
                                 ccl_sa_end_t *recv, ccl_sa_end_t *send) {
    uint64_t elements = 0;
    for (uint32_t i = 0; i < s->npieces; i++)
        elements += s->pieces[i].n;
    uint64_t n = elements * ccl_sa_batch(run, j), x = 0;
    uint64_t slices = ccl_sa_slices(run, elements, n, recv || send, &x);
    life->at.step = s->step;
    life->at.batch = (uint32_t)j;
    for (life->at.slice = 0; life->at.slice < slices; life->at.slice++) {
        uint64_t begin = life->at.slice * x, end = begin + x;
        ccl_gpu_span_t span = {begin < n ? begin : n, end < n ? end : n, (const char *)0,
                               (char *)0};
        if (b->lane == 0) {
            life->at.waits = ccl_sa_ready(run, life, s, recv, send);
            b->shared->stop = life->at.waits != CCL_DEVICE_NONE;
        }
        ccl_gpu_barrier(b);
        if (b->shared->stop || !ccl_sa_slice(run, b, life, s, recv, send, span))
            return true;
        ccl_sa_pass(run, b, life, recv, send, (span.end - span.begin) * run->gpu.item_bytes);
    }
    if (b->lane == 0 && s->done != CCL_DEVICE_NONE)
        ccl_gpu_store(&run->done[s->done], run->base + j + 1);
    return false;
}

/* ---------------------------------------------------------------- a block */

CCL_GPU_FN void ccl_sa_begin(ccl_gpu_life_t *life) {
    life->at.step = life->at.batch = life->at.slice = 0;
    life->at.waits = CCL_DEVICE_NONE;
    life->watch.slices = life->watch.told = 0;
    life->use.busy = life->use.data = life->use.slot = life->use.peer = life->use.slices = 0;
    life->mark = 0;
}

/** Where the block stands in the end, for who asks why a call was given up. */
CCL_GPU_FN void ccl_sa_end_block(const ccl_sa_run_t *run, const ccl_gpu_block_t *b, uint32_t index,
                                 const ccl_gpu_life_t *life) {
    if (b->lane == 0 && run->gpu.places)
        run->gpu.places[index] = life->at;
}

#endif
