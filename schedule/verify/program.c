/*
 * The program verifier: structure, executor limits, deadlock, then a symbolic execution in an order
 * that happens-before allows, in which every buffer element is a sum of contributions to one chunk
 * and every access is held against the last accesses of the same element by other blocks.
 *
 * Without races all orders give the same result, so one order decides. Micro-batches work on
 * different slices of all buffers, scratch included, so one micro-batch decides.
 */
#include "schedule/verify/exec_i.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bounds on memory: elements of all buffers, and elements read, written or on the way. */
#define MAX_ELEMENTS (UINT64_C(1) << 25)
#define MAX_ACCESSES (UINT64_C(1) << 26)

typedef ccl_i_value_t value_t;
typedef ccl_i_reader_t reader_t;
typedef ccl_i_exec_t exec_t;

/* ---------------------------------------------------------------- buffers */

/** Lays the buffers out; in place as NCCL aliases them (one memory, one of them shifted). */
static ccl_status_t lay_out(exec_t *x) {
    const ccl_program_t *p = x->program;
    uint64_t total = 0;
    for (uint32_t r = 0; r < p->nranks; r++) {
        const uint32_t *len = p->buffer_len + 3 * (size_t)r;
        uint32_t in_shift = 0, out_shift = 0;
        bool alias = x->in_place && ccl_collective_in_place(x->coll, r, &in_shift, &out_shift);
        uint64_t in_end = (uint64_t)in_shift + len[CCL_BUF_INPUT];
        uint64_t out_end = (uint64_t)out_shift + len[CCL_BUF_OUTPUT];
        uint64_t both = in_end > out_end ? in_end : out_end;
        uint64_t size = (alias ? both : in_end + out_end) + len[CCL_BUF_SCRATCH];
        if (total + size > MAX_ELEMENTS)
            return ccl_fail(x->err, CCL_UNSUPPORTED,
                            "buffers have more than %llu elements: too many to verify",
                            (unsigned long long)MAX_ELEMENTS);
        uint32_t *base = x->base + 3 * (size_t)r;
        base[CCL_BUF_INPUT] = (uint32_t)(total + in_shift);
        base[CCL_BUF_OUTPUT] = (uint32_t)(total + (alias ? out_shift : in_end));
        base[CCL_BUF_SCRATCH] = (uint32_t)(total + size - len[CCL_BUF_SCRATCH]);
        total += size;
    }
    x->nelems = (uint32_t)total;
    return CCL_OK;
}

/** A demand's chunk that a rank both gives and wants has one place, that of the output. */
static bool lay_out_custom(exec_t *x) {
    const ccl_program_t *p = x->program;
    if (!x->in_place || x->coll->kind != CCL_CUSTOM)
        return true;
    size_t total = 0;
    x->input_first = malloc((p->nranks + (size_t)1) * sizeof *x->input_first);
    for (uint32_t r = 0; r < p->nranks; r++)
        total += p->buffer_len[3 * (size_t)r + CCL_BUF_INPUT];
    x->input_map = malloc((total + 1) * sizeof *x->input_map);
    if (!x->input_first || !x->input_map)
        return false;
    uint32_t at = 0;
    for (uint32_t r = 0; r < p->nranks; r++) {
        x->input_first[r] = at;
        for (uint32_t e = 0; e < p->buffer_len[3 * (size_t)r + CCL_BUF_INPUT]; e++) {
            ccl_buffer_t buffer = CCL_BUF_INPUT;
            uint32_t elem = e;
            ccl_program_element(p, r, true, &buffer, &elem);
            x->input_map[at++] = x->base[3 * (size_t)r + buffer] + elem;
        }
    }
    return true;
}

uint32_t ccl_i_exec_place(const exec_t *x, uint32_t rank, ccl_buffer_t buffer, uint32_t elem) {
    if (elem == CCL_NONE || !ccl_program_element(x->program, rank, x->in_place, &buffer, &elem))
        return CCL_NONE;
    return ccl_i_exec_place_of(x, rank, (uint8_t)buffer, elem);
}

static void fill_inputs(exec_t *x) {
    memset(x->elems, 0xff, (x->nelems + (size_t)1) * sizeof *x->elems);
    for (uint32_t k = 0; k < x->coll->nchunks; k++) {
        const ccl_chunk_t *chunk = &x->coll->chunks[k];
        for (uint32_t i = 0; i < chunk->nsources; i++) {
            uint32_t r = chunk->sources[i];
            uint32_t at =
                ccl_i_exec_place(x, r, CCL_BUF_INPUT, ccl_collective_input(x->coll, r, k));
            if (at != CCL_NONE)
                x->elems[at].value = (value_t){k, r};
        }
    }
}

/** Elements of no bytes hold nothing, and nobody minds. */
static bool is_void(const exec_t *x, uint32_t rank, uint8_t buffer, uint32_t elem) {
    return x->program->shares && x->program->shares[3 * (size_t)rank + buffer][elem] == 0;
}

/* ---------------------------------------------------------------- accesses */

/** Holds what element `own` of a step does at a place against the last write. False: stop. */
static bool after_write(exec_t *x, ccl_i_doing_t b, uint32_t own, uint32_t at) {
    const ccl_i_elem_t *last = &x->elems[at];
    uint32_t a = last->writer;
    if (a == CCL_NONE || x->links->shared || x->links->nodes[a].tb == x->links->nodes[b.step].tb)
        return true;
    bool ordered;
    if (!ccl_i_order_before(x->order, (ccl_i_access_t){a, last->writer_elem},
                            (ccl_i_access_t){b.step, own}, &ordered)) {
        ccl_fail_nomem(x->err);
        return false;
    }
    if (!ordered)
        ccl_i_exec_fault_race(x, a, true, b, last->value.chunk);
    return ordered;
}

/** Element `e` of a step reads an element of a buffer. False: stop (fault or error). */
static bool read_elem_at(exec_t *x, uint32_t rank, uint32_t step, uint32_t e, uint8_t buffer,
                         uint32_t off, value_t *out) {
    uint32_t elem = off + e;
    uint32_t at = ccl_i_exec_place_of(x, rank, buffer, elem);
    *out = x->elems[at].value;
    if (is_void(x, rank, buffer, elem))
        return true;
    if (!ccl_i_exec_keeps_apart(x, step, e, buffer, elem, at))
        return false;
    if (out->chunk == CCL_NONE) {
        char text[160];
        if (!ccl_i_exec_blame(x, step, buffer, elem, at, CCL_NONE)) {
            ccl_fail_nomem(x->err);
            return false;
        }
        snprintf(
            text, sizeof text, "reads %s element %u, which %s", ccl_i_exec_buffer(buffer), elem,
            buffer == CCL_BUF_INPUT ? "holds nothing of this collective" : "nothing has written");
        ccl_i_exec_fault(x, "unread", step, CCL_NONE, text);
        return false;
    }
    if (!after_write(x, (ccl_i_doing_t){step, false, buffer, elem}, e, at))
        return false;
    uint32_t head = x->elems[at].readers;
    if (head != CCL_NONE &&
        x->links->nodes[x->reader_pool[head].step].tb == x->links->nodes[step].tb) {
        x->reader_pool[head].step = step; /* its earlier read is covered by this one */
        x->reader_pool[head].elem = e;
        return true;
    }
    uint32_t i = x->free_reader;
    if (i != CCL_NONE) {
        x->free_reader = x->reader_pool[i].next;
    } else if (ccl_grow_raw(&x->reader_pool, &x->readers_cap, x->nreaders + 1,
                            sizeof *x->reader_pool)) {
        i = (uint32_t)x->nreaders++;
    } else {
        ccl_fail_nomem(x->err);
        return false;
    }
    x->reader_pool[i] = (reader_t){step, e, head};
    x->elems[at].readers = i;
    return true;
}

static bool read_elem(exec_t *x, uint32_t step, uint32_t e, uint8_t buffer, uint32_t off,
                      value_t *out) {
    return read_elem_at(x, x->program->tbs[x->links->nodes[step].tb].rank, step, e, buffer, off,
                        out);
}

/** Holds a write against a read since the last write. False: stop. */
static bool after_read(exec_t *x, const reader_t *r, ccl_i_doing_t b, uint32_t own, uint32_t at,
                       value_t value) {
    bool ordered = true;
    if (x->links->shared || x->links->nodes[r->step].tb == x->links->nodes[b.step].tb ||
        ccl_i_exec_comes_back(x, r->step, b.step, at, value))
        return true;
    if (!ccl_i_order_before(x->order, (ccl_i_access_t){r->step, r->elem},
                            (ccl_i_access_t){b.step, own}, &ordered)) {
        ccl_fail_nomem(x->err);
        return false;
    }
    if (!ordered && after_write(x, b, own, at)) /* of both faults the write's is the worse */
        ccl_i_exec_fault_race(x, r->step, false, b, x->elems[at].value.chunk);
    return ordered;
}

static bool write_elem(exec_t *x, uint32_t step, uint32_t e, uint8_t buffer, uint32_t off,
                       value_t value) {
    uint32_t rank = x->program->tbs[x->links->nodes[step].tb].rank, elem = off + e;
    uint32_t at = ccl_i_exec_place_of(x, rank, buffer, elem);
    if (is_void(x, rank, buffer, elem))
        return true;
    ccl_i_doing_t doing = {step, true, buffer, elem};
    if (!ccl_i_exec_keeps_apart(x, step, e, buffer, elem, at))
        return false;
    /* Reads came after the last write, so that what comes after one of them does, too. */
    if (x->elems[at].readers == CCL_NONE && !after_write(x, doing, e, at))
        return false;
    uint32_t last = CCL_NONE;
    for (uint32_t i = x->elems[at].readers; i != CCL_NONE; i = x->reader_pool[i].next) {
        last = i;
        if (!after_read(x, &x->reader_pool[i], doing, e, at, value))
            return false;
    }
    if (buffer == CCL_BUF_INPUT && !x->in_place && x->program->steps[step].count)
        ccl_i_warn(x->verdict, "%s overwrites the input though it may be run out of place",
                   ccl_i_exec_text(x, step).text);
    if (last != CCL_NONE) { /* the list serves other places */
        x->reader_pool[last].next = x->free_reader;
        x->free_reader = x->elems[at].readers;
    }
    x->elems[at].readers = CCL_NONE;
    x->elems[at].writer = step;
    x->elems[at].writer_elem = e;
    x->elems[at].value = value;
    return true;
}

/** *sum += more; a fault is reported at `step`. @param rank, buffer, elem  where the sum lies. */
static bool add_values(exec_t *x, uint32_t step, uint32_t rank, uint8_t buffer, uint32_t elem,
                       value_t more, value_t *sum) {
    value_t held = *sum;
    char text[200];
    if (held.chunk == CCL_NONE || more.chunk == CCL_NONE) { /* of no bytes */
        *sum = held.chunk == CCL_NONE ? more : held;
        return true;
    }
    uint32_t twice = CCL_NONE;
    if (held.chunk == more.chunk &&
        !ccl_i_sums_add(&x->sums, held.sum, more.sum, &sum->sum, &twice)) {
        ccl_fail_nomem(x->err);
        return false;
    }
    if (held.chunk == more.chunk && twice == CCL_NONE)
        return true;
    uint32_t at = ccl_i_exec_place_of(x, rank, buffer, elem);
    if (!ccl_i_exec_blame(x, step, buffer, elem, at, held.chunk)) {
        ccl_fail_nomem(x->err);
        return false;
    }
    if (held.chunk != more.chunk) {
        snprintf(text, sizeof text, "adds chunk %u to chunk %u", more.chunk, held.chunk);
        ccl_i_exec_fault(x, "mixed", step, held.chunk, text);
    } else {
        snprintf(text, sizeof text, "adds the contribution of rank %u to chunk %u twice", twice,
                 held.chunk);
        ccl_i_exec_fault(x, "twice", step, held.chunk, text);
    }
    return false;
}

/**
 * The sum of what is offered. The switch reads it in the members' memory, so their elements must
 * stay as they are until the pull is over.
 */
static bool pull_elem(exec_t *x, uint32_t step, uint32_t e, value_t *out) {
    const uint32_t *offers = ccl_i_offers(x->links, step);
    for (uint32_t i = 0; i < ccl_i_noffers(x->links, step); i++) {
        const ccl_step_t *s = &x->program->steps[offers[i]];
        bool src = s->type == CCL_PRIM_S;
        uint8_t buffer = src ? s->src_buf : s->dst_buf;
        uint32_t off = src ? s->src_off : s->dst_off;
        uint32_t rank = x->program->tbs[x->links->nodes[offers[i]].tb].rank;
        value_t more = x->messages[*ccl_i_exec_message(x, offers[i]) + e], now;
        if (!read_elem_at(x, rank, step, e, buffer, off, &now))
            return false;
        if (now.chunk != more.chunk || now.sum != more.sum) {
            char text[160];
            snprintf(text, sizeof text,
                     "pulls %s element %u of rank %u, which has changed since "
                     "it was offered",
                     ccl_i_exec_buffer(buffer), off + e, rank);
            ccl_i_exec_fault(x, "offer", step, now.chunk, text);
            return false;
        }
        if (i == 0)
            *out = more;
        else if (!add_values(x, step, rank, buffer, off + e, more, out))
            return false;
    }
    return true;
}

/** One element of one step. False: stop. */
static bool run_elem(exec_t *x, uint32_t step, uint32_t e) {
    const ccl_step_t *s = &x->program->steps[step];
    uint32_t rank = x->program->tbs[x->links->nodes[step].tb].rank;
    value_t in = {CCL_NONE, CCL_NONE}, result = {CCL_NONE, CCL_NONE};
    if (ccl_primitive_receives(s->type) && ccl_i_noffers(x->links, step) > 0) {
        if (!pull_elem(x, step, e, &in))
            return false;
    } else if (ccl_primitive_receives(s->type)) {
        in = x->messages[*ccl_i_exec_message(x, x->links->nodes[step].sender) + e];
    }
    switch ((ccl_primitive_t)s->type) {
    case CCL_PRIM_S:
    case CCL_PRIM_CPY:
        if (!read_elem(x, step, e, s->src_buf, s->src_off, &result))
            return false;
        break;
    case CCL_PRIM_R:
    case CCL_PRIM_RCS:
        result = in;
        break;
    case CCL_PRIM_RRS:
    case CCL_PRIM_RRC:
    case CCL_PRIM_RRCS:
        if (!read_elem(x, step, e, s->src_buf, s->src_off, &result) ||
            !add_values(x, step, rank, s->src_buf, s->src_off + e, in, &result))
            return false;
        break;
    case CCL_PRIM_RE:
        if (!read_elem(x, step, e, s->src_buf, s->src_off, &in) ||
            !read_elem(x, step, e, s->dst_buf, s->dst_off, &result) ||
            !add_values(x, step, rank, s->dst_buf, s->dst_off + e, in, &result))
            return false;
        break;
    case CCL_PRIM_NOP:
        return true;
    }
    if (ccl_primitive_sends(s->type)) {
        x->messages[*ccl_i_exec_message(x, step) + e] = result;
        ccl_i_exec_sent(x, rank, result.chunk);
    }
    if (s->type == CCL_PRIM_CPY && ccl_i_exec_place_of(x, rank, s->src_buf, s->src_off + e) ==
                                       ccl_i_exec_place_of(x, rank, s->dst_buf, s->dst_off + e))
        return true; /* in place: a copy onto itself changes nothing */
    return !ccl_i_writes_dst(s->type) || write_elem(x, step, e, s->dst_buf, s->dst_off, result);
}

/* ---------------------------------------------------------------- all of it */

static ccl_status_t alloc_exec(exec_t *x) {
    const ccl_program_t *p = x->program;
    size_t nbuffers = 3 * (size_t)p->nranks;
    x->base = malloc(nbuffers * sizeof *x->base);
    if (!x->base)
        return ccl_fail_nomem(x->err);
    CCL_TRY(lay_out(x));
    uint64_t accesses = 0; /* as many values are sent at most */
    for (uint32_t s = 0; s < p->nsteps; s++) {
        if (p->steps[s].type != CCL_PRIM_NOP)
            accesses += p->steps[s].count;
        if (accesses > MAX_ACCESSES)
            return ccl_fail(x->err, CCL_UNSUPPORTED,
                            "steps work on more than %llu elements: too many to verify",
                            (unsigned long long)MAX_ACCESSES);
    }
    size_t n = x->nelems + (size_t)1;
    x->elems = ccl_array_alloc(n, sizeof *x->elems);
    if (!x->elems || !lay_out_custom(x) || !ccl_i_sums_init(&x->sums, p->nranks) ||
        !ccl_i_exec_count_sends(x))
        return ccl_fail_nomem(x->err);
    return CCL_OK;
}

static void free_exec(exec_t *x) {
    free(x->base);
    free(x->input_map);
    free(x->input_first);
    free(x->elems);
    free(x->reader_pool);
    free(x->messages);
    free(x->nsent);
    ccl_i_sums_fini(&x->sums);
}

/** Room for what a step sends. */
static bool begin_message(exec_t *x, uint32_t step) {
    uint32_t count = x->program->steps[step].count;
    if (count == 1 && x->free_message != CCL_NONE) {
        *ccl_i_exec_message(x, step) = x->free_message;
        x->free_message = x->messages[x->free_message].chunk;
        return true;
    }
    if (!ccl_grow_raw(&x->messages, &x->messages_cap, x->nmessages + count, sizeof *x->messages))
        return false;
    *ccl_i_exec_message(x, step) = (uint32_t)x->nmessages;
    x->nmessages += count;
    return true;
}

/** The room of what a step has received serves others, where nobody else receives it. */
static void end_message(exec_t *x, uint32_t step) {
    uint32_t send = x->links->nodes[step].sender;
    if (send == CCL_NONE || x->program->steps[send].count != 1)
        return;
    const ccl_tb_t *tb = &x->program->tbs[x->links->nodes[send].tb];
    if (ccl_peer_is_group(ccl_program_peers(x->program, tb, send).send_peer))
        return;
    uint32_t at = *ccl_i_exec_message(x, send);
    x->messages[at].chunk = x->free_message;
    x->free_message = at;
}

/** All elements of one step. */
static void run_step(exec_t *x, uint32_t step) {
    const ccl_step_t *s = &x->program->steps[step];
    if (ccl_primitive_sends(s->type) && !begin_message(x, step)) {
        ccl_fail_nomem(x->err);
        return;
    }
    for (uint32_t e = 0; e < s->count; e++)
        if (!run_elem(x, step, e))
            return;
    if (ccl_primitive_receives(s->type))
        end_message(x, step);
}

static ccl_status_t run_steps(const ccl_ctx_t *ctx, exec_t *x) {
    const ccl_program_t *program = x->program;
    for (uint32_t at = 0; at < program->nsteps && x->verdict->valid; at++) {
        ccl_i_exec_prefetch(x, at);
        run_step(x, x->links->nodes[at].order);
        if (x->err->status != CCL_OK)
            return x->err->status;
        if (!(at & 0xffff)) {
            ccl_progress_t progress = {.phase = "verify", .done = at, .total = program->nsteps};
            CCL_TRY(ccl_ctx_poll(ctx, &progress));
        }
    }
    return CCL_OK;
}

static ccl_status_t execute(const ccl_ctx_t *ctx, exec_t x, ccl_error_t *err) {
    ccl_error_t own_err = CCL_ERROR_INIT; /* its status separates a stop from a fault */
    x.err = &own_err;
    ccl_status_t status = alloc_exec(&x);
    if (status != CCL_OK)
        goto end;
    fill_inputs(&x);
    ccl_i_order_restore(x.order);
    CCL_TRY_GOTO(run_steps(ctx, &x), status, end);
    if (x.verdict->valid)
        ccl_i_exec_result(&x);
    if (x.verdict->valid)
        ccl_i_exec_orders(&x);
end:
    if (own_err.status != CCL_OK)
        ccl_fail(err, own_err.status, "%s", own_err.text);
    free_exec(&x);
    return status;
}

/** Symbolic runs, one for each way the program may be called. */
static ccl_status_t check_places(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                 ccl_i_order_t *order, ccl_verdict_t *verdict, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    bool out_of_place = program->out_of_place || !program->in_place;
    exec_t x = {.program = program,
                .coll = program->coll,
                .links = order->links,
                .order = order,
                .verdict = verdict,
                .prefix = "",
                .free_reader = CCL_NONE,
                .free_message = CCL_NONE};
    if (out_of_place)
        status = execute(ctx, x, err);
    if (status == CCL_OK && program->in_place && verdict->valid) {
        x.in_place = true;
        x.prefix = out_of_place ? "in place: " : "";
        status = execute(ctx, x, err);
        if (status == CCL_OK && out_of_place && !verdict->valid)
            verdict->fault.kind = "alias"; /* right until the buffers are one */
    }
    if (ctx && ctx->work)
        __atomic_fetch_add(&ctx->work->visited, order->search.nvisited, __ATOMIC_RELAXED);
    return status;
}

/** An untimed run, and beside it an order of the steps and the symbolic runs in that order. */
typedef struct runs {
    const ccl_ctx_t *ctx;
    const ccl_program_t *program;
    const ccl_verify_options_t *options;
    const ccl_i_links_t *links;
    ccl_verdict_t *verdict; /* of the untimed run */
    ccl_verdict_t places;   /* of the others: what stood in it before, and what they found */
    ccl_status_t places_status;
    ccl_error_t places_err;
    bool run, ordered; /* each begun */
} runs_t;

static ccl_status_t run_untimed(runs_t *b, const ccl_ctx_t *ctx, ccl_error_t *err) {
    b->run = true;
    return b->links->shared ? CCL_OK
                            : ccl_i_check_deadlock(ctx, b->program, b->options, b->verdict, err);
}

static void run_ordered(runs_t *b) {
    ccl_i_order_t order;
    b->ordered = true;
    b->places_status = ccl_i_order_init(b->program, b->links, &order, &b->places_err);
    if (b->places_status == CCL_OK)
        b->places_status = check_places(b->ctx, b->program, &order, &b->places, &b->places_err);
    ccl_i_order_fini(&order);
}

/** The caller's thread does what takes longer: it shows progress. */
static ccl_status_t do_runs(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    (void)index;
    runs_t *b = user;
    ccl_ctx_t ctx = b->ctx ? *b->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ctx.progress = NULL; /* callbacks come from one thread only */
    if (worker == 0 && !b->ordered)
        run_ordered(b);
    return worker != 0 && !b->run ? run_untimed(b, &ctx, err) : CCL_OK;
}

/** From as many steps on, a second thread is worth its while. */
#define APART (UINT32_C(1) << 18)

/** Side by side where that is worth a thread. Steps that wait for each other have no order, which
    the untimed run says better. */
static ccl_status_t check_runs(runs_t *b, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    b->places = *b->verdict;
    if (b->ctx && b->ctx->threads != 1 && b->program->nsteps >= APART)
        status = ccl_parallel_for(2, 2, do_runs, b, err);
    if (status == CCL_OK && !b->run)
        status = run_untimed(b, b->ctx, err);
    if (status != CCL_OK || !b->verdict->valid)
        return status;
    if (!b->ordered)
        run_ordered(b);
    *b->verdict = b->places;
    if (b->places_status != CCL_OK && err)
        *err = b->places_err;
    return b->places_status;
}

ccl_status_t ccl_program_verify(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                const ccl_verify_options_t *options, ccl_verdict_t *out,
                                ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_verify_options_t, options, err);
    static const ccl_verify_options_t defaults = CCL_VERIFY_OPTIONS_INIT;
    const ccl_verify_options_t *o = options ? options : &defaults;
    ccl_verdict_t verdict = {.valid = true,
                             .fault = {NULL, CCL_NONE, CCL_NONE, CCL_NONE, CCL_NONE, "", 0, 0}};
    ccl_i_links_t links;
    ccl_status_t status = ccl_i_links_init(program, ccl_program_level(program, o->granularity),
                                           &links, &verdict, err);
    if (status != CCL_OK)
        return status;
    if (verdict.valid && o->executor != CCL_EXECUTOR_ANY)
        ccl_i_check_executor(program, o->executor, &verdict);
    if (o->limits_only)
        goto told;
    if (verdict.valid)
        CCL_TRY_GOTO(ccl_i_check_places(program, &verdict, err), status, end);
    if (verdict.valid) {
        runs_t runs = {ctx, program, o, &links, &verdict, .places_err = CCL_ERROR_INIT};
        CCL_TRY_GOTO(check_runs(&runs, err), status, end);
    }
told:
    if (links.shared)
        ccl_i_add_shared(program, &links, &verdict);
    *out = verdict;
end:
    ccl_i_links_fini(&links);
    return status;
}
