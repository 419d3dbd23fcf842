/**
 * @file blocks.h
 * What one thread block of a GPU does in a run: the interpreter of programs, and what generated
 * kernels have in common with it (they define CCL_KERNEL_TYPE). Valid C and C++; who includes it
 * says how a machine does a few things (machine.h for CUDA and HIP, a test for the host):
 *
 * - CCL_GPU_FN: how functions are declared; CCL_KERNEL_CALL: those that are not to be inlined;
 *   CCL_KERNEL_LOOP: before a loop that is not to be unrolled
 * - CCL_GPU_VECTOR: 16 bytes with the members x, y, z, w; CCL_GPU_WORD and CCL_GPU_NARROW: 4 and 2
 *   bytes; any type may lie there
 * - ccl_gpu_load(word), ccl_gpu_store(word, value): acquire and release of 8 bytes, whole system;
 *   ccl_gpu_load32, ccl_gpu_store32: of 4; ccl_gpu_note(word, value): relaxed
 * - ccl_gpu_credit(word, value): like ccl_gpu_note, but behind a barrier after which no lane
 *   reads what it gives back
 * - CCL_GPU_WIDE: 8 bytes, any type may lie there; ccl_gpu_load_ll(line), ccl_gpu_store_ll(line,
 *   data, data, flag): a line of LL, each half of it at once
 * - ccl_gpu_store_ll128(block, at, part, active, lo, hi): 16 bytes of a line of LL128; all lanes of
 *   the block call it together, so that the 8 lanes of a line store it at once, or its flag last
 * - ccl_gpu_look_ll128(at, part, active, flag, lo, hi): loads them; true: the flags of all lines
 *   that the warp looks at are there and what was loaded belongs to them
 * - ccl_gpu_fence(): orders the lane's loads and stores of the device's memory
 * - ccl_gpu_multi_load(type, op, at): 16 bytes of the sum of all parts of multicast memory;
 *   ccl_gpu_multi_store(at, vector): into all parts (the interpreter's alone)
 * - ccl_gpu_any(what): of a lane of the warp; ccl_gpu_barrier_or(block, what): of the block
 * - ccl_gpu_add32(word, value): what was there before; acquire and release
 * - ccl_gpu_barrier(block): all lanes of the block; orders their memory
 * - ccl_gpu_clock(): ticks; ccl_gpu_pause(): in a loop that waits
 * - ccl_gpu_half_to_float, ccl_gpu_half_from_float: of the bits; nearest, ties to even
 *
 * @par Source  NCCL's protocols; the interpreter of MSCCL; ResCCL, section 4.5.
 */
#ifndef CCL_RUNTIME_GPU_BLOCKS_H
#define CCL_RUNTIME_GPU_BLOCKS_H

/** Numbers of ccl_wait_t. */
enum { CCL_GPU_WAIT_DATA, CCL_GPU_WAIT_SLOT, CCL_GPU_WAIT_DEP, CCL_GPU_WAIT_STAGE };
enum { CCL_GPU_LOOKS = 2048, CCL_GPU_TELL_SLICES = 16, CCL_GPU_UNROLL = 4 };
/** Whole lines of both protocols, and of LL128 16 bytes for each of 512 lanes. A block that runs a
    program with lines has two tiles: what came, and what is sent; where it pulls a third one: the
    sum of what came. */
enum {
    CCL_GPU_TILE_BYTES = 64 * CCL_DEVICE_LL128_DATA,
    CCL_GPU_TILES = 2,
    CCL_GPU_TILES_TO_PULL = 3
};

/** Ticks of a unit, in the order of ccl_device_use_t. */
typedef struct ccl_gpu_use {
    uint64_t busy, data, slot, peer, slices;
} ccl_gpu_use_t;

/** A run as its kernel sees it. */
typedef struct ccl_gpu_run {
    const ccl_device_unit_t *units; /* of this load */
    const ccl_device_step_t *steps;
    const ccl_device_piece_t *pieces;
    const ccl_device_conn_t *conns;
    void *const *memory; /* by rank */
    uint64_t *done;      /* [nsteps], zeroed */
    uint32_t nunits, batches, by_task, type, op, item_bytes, protocol;
    uint32_t timed;
    uint32_t *arrived, *left, *go; /* device memory, zeroed; left: units that ended */
    uint32_t *host_ready, *host_gate, *host_stop; /* of the host */
    uint64_t *host_progress;
    uint64_t *start, *end;      /* of the host; ticks */
    ccl_device_place_t *places; /* of the host; [nunits] */
    ccl_gpu_use_t *uses;        /* of the host; [nunits] */
} ccl_gpu_run_t;

/** What lane 0 shares with the other lanes. */
typedef struct ccl_gpu_shared {
    uint64_t in, out; /* slices before this one in the FIFOs */
    uint32_t stop;
} ccl_gpu_shared_t;

/** A lane of a block. */
typedef struct ccl_gpu_block {
    ccl_gpu_shared_t *shared;
    uint32_t lane, lanes;
    void *barrier; /* of a machine that needs one */
    char *tiles;   /* with LL and LL128, aligned to 16; else NULL */
} ccl_gpu_block_t;

#include "runtime/gpu/move.h"

/* ---------------------------------------------------------------- waiting: lane 0 alone */

typedef struct ccl_gpu_watch {
    uint32_t slices, told; /* moved so far, reported to the host */
} ccl_gpu_watch_t;

CCL_GPU_FN void ccl_gpu_tell(const ccl_gpu_run_t *run, ccl_gpu_watch_t *watch) {
    if (watch->told == watch->slices)
        return;
    watch->told = watch->slices;
    /* Any number that was not there before. */
    ccl_gpu_note(run->host_progress, ccl_gpu_clock() | 1u);
}

/** Until *word > least; false when the run is to be given up. */
CCL_GPU_FN bool ccl_gpu_await(const ccl_gpu_run_t *run, ccl_gpu_watch_t *watch,
                              const uint64_t *word, uint64_t least) {
    for (uint32_t looks = 0; ccl_gpu_load(word) <= least;) {
        ccl_gpu_pause();
        if (++looks % CCL_GPU_LOOKS)
            continue;
        ccl_gpu_tell(run, watch);
        if (ccl_gpu_load32(run->host_stop))
            return false;
    }
    return true;
}

CCL_GPU_FN void ccl_gpu_charge(const ccl_gpu_run_t *run, uint64_t *mark, uint64_t *to) {
    if (!run->timed)
        return;
    uint64_t now = ccl_gpu_clock();
    *to += now - *mark;
    *mark = now;
}

/** All blocks are there; all begin together. */
CCL_GPU_FN bool ccl_gpu_gate(const ccl_gpu_run_t *run, uint32_t index) {
    uint32_t looks = 0;
    if (ccl_gpu_add32(run->arrived, 1) + 1 == run->nunits)
        ccl_gpu_store32(run->host_ready, 1);
    if (index == 0) { /* one alone looks at the host's memory, which is far */
        while (!ccl_gpu_load32(run->host_gate) && !ccl_gpu_load32(run->host_stop))
            ccl_gpu_pause();
        *run->start = ccl_gpu_clock();
        ccl_gpu_store32(run->go, 1);
    }
    while (!ccl_gpu_load32(run->go)) {
        ccl_gpu_pause();
        if (++looks % CCL_GPU_LOOKS == 0 && ccl_gpu_load32(run->host_stop))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------- a block */

/** What a block knows of itself; lane 0's is reported. */
typedef struct ccl_gpu_life {
    ccl_device_place_t at;
    ccl_gpu_watch_t watch;
    ccl_gpu_use_t use;
    uint64_t mark;
} ccl_gpu_life_t;

/** False: the run was given up before it began. */
CCL_GPU_FN bool ccl_gpu_life_begin(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                   uint32_t index, ccl_gpu_life_t *life) {
    life->at.step = life->at.batch = life->at.slice = 0;
    life->at.waits = CCL_DEVICE_NONE;
    life->watch.slices = life->watch.told = 0;
    life->use.busy = life->use.data = life->use.slot = life->use.peer = life->use.slices = 0;
    if (b->lane == 0)
        b->shared->stop = !ccl_gpu_gate(run, index);
    ccl_gpu_barrier(b);
    bool go = !b->shared->stop;
    ccl_gpu_barrier(b); /* before lane 0 writes there again */
    life->mark = run->timed ? ccl_gpu_clock() : 0;
    return go;
}

CCL_GPU_FN void ccl_gpu_life_end(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b, uint32_t index,
                                 ccl_gpu_life_t *life) {
    if (b->lane != 0)
        return;
    life->use.slices = life->watch.slices;
    run->places[index] = life->at;
    if (run->timed)
        run->uses[index] = life->use;
    /* The last one to end saw all others end. */
    if (ccl_gpu_add32(run->left, 1) + 1 == run->nunits)
        *run->end = ccl_gpu_clock();
}

/** Lane 0: a slice was moved. */
CCL_GPU_FN void ccl_gpu_moved(const ccl_gpu_run_t *run, ccl_gpu_life_t *life) {
    ccl_gpu_charge(run, &life->mark, &life->use.busy);
    if (++life->watch.slices - life->watch.told >= CCL_GPU_TELL_SLICES)
        ccl_gpu_tell(run, &life->watch);
}

#include "runtime/gpu/lines.h"

#ifdef CCL_KERNEL_TYPE
#include "runtime/gpu/kernel.h"
#elif !defined(CCL_GPU_PARTS) /* of a stand-alone kernel, which has steps of its own */
#include "runtime/gpu/switches.h"

/* ---------------------------------------------------------------- the interpreter */

CCL_GPU_FN uint64_t ccl_gpu_step_items(const ccl_gpu_run_t *run, const ccl_device_step_t *step,
                                       uint64_t batch) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < step->npieces; i++) {
        const ccl_device_piece_t *p = &run->pieces[step->first_piece + i];
        sum += p->n * ccl_gpu_piece_items(p, batch);
    }
    return sum;
}

/** *head of a connection says what has come; else flags do. */
CCL_GPU_FN bool ccl_gpu_counts(const ccl_gpu_run_t *run, const ccl_device_conn_t *c) {
    return run->protocol == CCL_DEVICE_SIMPLE || c->counted;
}

/**
 * Lane 0: wait for all that a slice needs, but for lines. False: the run is given up; place->waits
 * says for what it waited.
 */
CCL_GPU_FN bool ccl_gpu_ready(const ccl_gpu_run_t *run, const ccl_device_unit_t *unit,
                              const ccl_device_step_t *step, ccl_gpu_life_t *life,
                              ccl_gpu_shared_t *shared) {
    ccl_device_place_t *at = &life->at;
    ccl_gpu_watch_t *watch = &life->watch;
    if (at->slice == 0) {
        at->waits = CCL_GPU_WAIT_STAGE;
        if (at->step == 0 && unit->after != CCL_DEVICE_NONE &&
            !ccl_gpu_await(run, watch, &run->done[unit->after], at->batch))
            return false;
        at->waits = CCL_GPU_WAIT_DEP;
        if (step->dep != CCL_DEVICE_NONE &&
            !ccl_gpu_await(run, watch, &run->done[step->dep], at->batch))
            return false;
        ccl_gpu_charge(run, &life->mark, &life->use.peer);
    }
    if (step->recv != CCL_DEVICE_NONE) {
        const ccl_device_conn_t *c = &run->conns[step->recv];
        at->waits = CCL_GPU_WAIT_DATA;
        shared->in = *c->tail; /* this block alone writes it */
        for (uint32_t i = 0; i < step->nrecv; i++)
            if (ccl_gpu_counts(run, &c[i]) && !ccl_gpu_await(run, watch, c[i].head, shared->in))
                return false;
        ccl_gpu_charge(run, &life->mark, &life->use.data);
    }
    if (step->send != CCL_DEVICE_NONE) {
        const ccl_device_conn_t *c = &run->conns[step->send];
        at->waits = CCL_GPU_WAIT_SLOT;
        shared->out = *c->head;
        for (uint32_t i = 0; i < step->nsend && shared->out >= c->slots; i++)
            if (!ccl_gpu_await(run, watch, c[i].tail, shared->out - c->slots))
                return false;
        ccl_gpu_charge(run, &life->mark, &life->use.slot);
    }
    at->waits = CCL_DEVICE_NONE;
    return true;
}

/** Lane 0: what a slice has made possible for others. */
CCL_GPU_FN void ccl_gpu_publish(const ccl_gpu_run_t *run, const ccl_device_step_t *step,
                                uint32_t step_index, const ccl_device_place_t *at, uint64_t bytes,
                                const ccl_gpu_shared_t *shared) {
    for (uint32_t i = 0; i < step->nrecv; i++) {
        if (run->protocol == CCL_DEVICE_SIMPLE)
            ccl_gpu_store(run->conns[step->recv + i].tail, shared->in + 1);
        else
            ccl_gpu_credit(run->conns[step->recv + i].tail, shared->in + 1);
    }
    for (uint32_t i = 0; i < step->nsend; i++) {
        const ccl_device_conn_t *c = &run->conns[step->send + i];
        if (c->lengths)
            c->lengths[shared->out % c->slots] = ccl_gpu_slot_bytes(run->protocol, bytes);
        if (ccl_gpu_counts(run, c))
            ccl_gpu_store(c->head, shared->out + 1);
        else
            *c->head = shared->out + 1; /* its own */
    }
    if (at->slice + 1 == step->slices && step->nwaiters)
        ccl_gpu_store(&run->done[step_index], at->batch + (uint64_t)1);
}

/** The next slice, step or micro-batch of a unit. */
CCL_GPU_FN void ccl_gpu_next(const ccl_gpu_run_t *run, const ccl_device_unit_t *unit,
                             const ccl_device_step_t *step, ccl_device_place_t *at) {
    if (++at->slice < step->slices)
        return;
    at->slice = 0;
    if (run->by_task) {
        if (++at->batch == run->batches) {
            at->batch = 0;
            at->step++;
        }
    } else if (++at->step == unit->nsteps && ++at->batch < run->batches) {
        at->step = 0;
    }
}

CCL_GPU_FN ccl_gpu_lines_t ccl_gpu_lines_of(const ccl_gpu_run_t *run, uint32_t conn,
                                            uint64_t slice) {
    const ccl_device_conn_t *c = &run->conns[conn];
    ccl_gpu_lines_t l = {(char *)c->data + slice % c->slots * c->slot_bytes, slice, c->slot_bytes,
                         c->slots, run->protocol};
    return l;
}

CCL_GPU_FN void ccl_gpu_move_span(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                  const ccl_device_unit_t *unit, const ccl_device_step_t *step,
                                  uint64_t batch, ccl_gpu_span_t *span) {
    for (uint32_t i = 0; i < step->npieces && span->begin < span->end; i++)
        ccl_gpu_move_piece(step->prim, run->type, run->op, b, (char *)run->memory[unit->rank],
                           run->pieces[step->first_piece + i], batch, span);
}

/** Items begin .. end of a step's data in a micro-batch, as they are in slots; begin < end. */
CCL_GPU_FN void ccl_gpu_move_slice(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                   const ccl_device_unit_t *unit, const ccl_device_step_t *step,
                                   uint64_t batch, uint64_t begin, uint64_t end) {
    ccl_gpu_span_t span = {begin, end, (const char *)0, (char *)0};
    ccl_gpu_ends_t e = {run->conns + (step->nrecv ? step->recv : 0),
                        run->conns + (step->nsend ? step->send : 0),
                        step->nrecv,
                        step->nsend,
                        run->type,
                        run->op};
    if (e.nrecv)
        span.in = (const char *)e.recv->data + b->shared->in % e.recv->slots * e.recv->slot_bytes;
    if (e.nsend)
        span.out = (char *)e.send->data + b->shared->out % e.send->slots * e.send->slot_bytes;
    if (e.nrecv <= 1 && e.nsend <= 1) {
        ccl_gpu_move_span(run, b, unit, step, batch, &span);
        return;
    }
    for (uint32_t i = 0; i < step->npieces && span.begin < span.end; i++)
        ccl_gpu_through_piece(step->prim, b, &e, (char *)run->memory[unit->rank],
                              &run->pieces[step->first_piece + i], batch, &span);
}

/**
 * A tile of lines of the slice that comes, n bytes from byte `from` on; of a pull the sum of all
 * members'. False, for all lanes: the run is given up.
 */
CCL_GPU_FN bool ccl_gpu_take_tile(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                  const ccl_device_step_t *step, ccl_gpu_life_t *life,
                                  uint64_t from, uint64_t n) {
    if (step->nrecv == 0)
        return ccl_gpu_tile_begin(run, b, life, (const ccl_gpu_lines_t *)0, from, n);
    for (uint32_t i = 0; i < step->nrecv; i++) {
        ccl_gpu_lines_t in = ccl_gpu_lines_of(run, step->recv + i, b->shared->in);
        if (!ccl_gpu_tile_begin(run, b, life, &in, from, n)) {
            life->at.waits = CCL_GPU_WAIT_DATA;
            return false;
        }
        if (step->nrecv > 1)
            ccl_gpu_add_tile(run, b, i == 0, n);
    }
    return true;
}

/** Items begin .. end of a step. False, for all lanes: the run is given up. */
CCL_GPU_FN bool ccl_gpu_pass(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                             const ccl_device_unit_t *unit, const ccl_device_step_t *step,
                             ccl_gpu_life_t *life, uint64_t begin, uint64_t end) {
    if (run->protocol == CCL_DEVICE_SIMPLE || !(step->nrecv || step->nsend)) {
        if (step->shared)
            ccl_gpu_fence();
        if (begin < end)
            ccl_gpu_move_slice(run, b, unit, step, life->at.batch, begin, end);
        if (step->shared)
            ccl_gpu_fence();
        return true;
    }
    uint64_t size = run->item_bytes, all = (end - begin) * size;
    const char *in = b->tiles + (step->nrecv > 1 ? 2 * CCL_GPU_TILE_BYTES : 0);
    for (uint64_t from = 0; from == 0 || from < all; from += CCL_GPU_TILE_BYTES) {
        uint64_t n = all - from < CCL_GPU_TILE_BYTES ? all - from : CCL_GPU_TILE_BYTES;
        ccl_gpu_span_t span = {begin + from / size, begin + (from + n) / size,
                               step->nrecv ? in : (const char *)0,
                               step->nsend ? b->tiles + CCL_GPU_TILE_BYTES : (char *)0};
        if (!ccl_gpu_take_tile(run, b, step, life, from, n))
            return false;
        if (step->shared)
            ccl_gpu_fence();
        ccl_gpu_move_span(run, b, unit, step, life->at.batch, &span);
        if (step->shared)
            ccl_gpu_fence();
        ccl_gpu_barrier(b);
        for (uint32_t i = 0; i < step->nsend; i++) {
            ccl_gpu_lines_t out = ccl_gpu_lines_of(run, step->send + i, b->shared->out);
            ccl_gpu_lines_pass(b, &out, from, n, all);
        }
    }
    return true;
}

CCL_GPU_FN void ccl_gpu_steps(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                              const ccl_device_unit_t *unit, ccl_gpu_life_t *life) {
    ccl_device_place_t *at = &life->at;
    uint64_t items = 0, slice_items = 0;
    while (at->step < unit->nsteps) {
        uint32_t index = unit->first_step + at->step;
        const ccl_device_step_t *step = &run->steps[index];
        if (at->slice == 0) {
            uint64_t unit_items = 16 / run->item_bytes;
            items = ccl_gpu_step_items(run, step, at->batch);
            slice_items = (items + step->slices - 1) / step->slices;
            slice_items = (slice_items + unit_items - 1) / unit_items * unit_items;
        }
        if (b->lane == 0)
            b->shared->stop = !ccl_gpu_ready(run, unit, step, life, b->shared);
        ccl_gpu_barrier(b);
        if (b->shared->stop)
            return;
        uint64_t begin = at->slice * slice_items, end = begin + slice_items;
        begin = begin < items ? begin : items;
        end = end < items ? end : items;
        if (!ccl_gpu_pass(run, b, unit, step, life, begin, end))
            return;
        ccl_gpu_barrier(b);
        if (b->lane == 0) {
            ccl_gpu_publish(run, step, index, at, (end - begin) * run->item_bytes, b->shared);
            ccl_gpu_moved(run, life);
        }
        ccl_gpu_next(run, unit, step, at);
    }
}

/** The whole life of a block; all its lanes call this. */
CCL_GPU_FN void ccl_gpu_block_run(const ccl_gpu_run_t *run, const ccl_gpu_block_t *b,
                                  uint32_t index) {
    ccl_gpu_life_t life;
    if (ccl_gpu_life_begin(run, b, index, &life))
        ccl_gpu_steps(run, b, &run->units[index], &life);
    ccl_gpu_life_end(run, b, index, &life);
}

#endif
#endif
