/*
 * Lowering of a schedule to a thread-block program: values, blocks, then the program itself with
 * dependencies thinned out (order inside a block is free; what a block has waited for once it need
 * not wait for again).
 */
#include "synth/lower.h"
#include "synth/registry.h"

#include <stdlib.h>
#include <string.h>

/* FIFO depth in primitives of the poorest executor: MSCCL under Simple. */
enum { LEAST_SLOTS = 2 };

/* Rounds: a rank's sends of a step wait for its operations of its step before on that channel. */
static ccl_status_t add_rounds(ccl_i_lowering_t *l, ccl_error_t *err) {
    size_t n = 2 * (size_t)l->ntransfers, total = 0, cap = 0;
    uint32_t *next = NULL, *deps = NULL;
    uint32_t *head = malloc(l->nranks * sizeof *head); /* per rank: its operations, in order */
    uint32_t *tail = malloc(l->nranks * sizeof *tail);
    ccl_status_t status = CCL_OK;
    next = malloc((n + 1) * sizeof *next);
    if (!head || !tail || !next)
        goto nomem;
    memset(head, 0xff, l->nranks * sizeof *head);
    for (size_t i = 0; i < n; i++) {
        uint32_t op = l->by_place[i], rank = ccl_i_op_rank(l, op);
        next[op] = CCL_NONE;
        if (head[rank] == CCL_NONE)
            head[rank] = op;
        else
            next[tail[rank]] = op;
        tail[rank] = op;
    }
    for (uint32_t rank = 0; rank < l->nranks; rank++) {
        uint32_t before = CCL_NONE, before_end = CCL_NONE, now = head[rank];
        for (uint32_t op = head[rank]; op != CCL_NONE; op = next[op]) {
            if (l->transfers[op / 2].step != l->transfers[now / 2].step) {
                before = now;
                before_end = now = op;
            }
            ccl_i_op_t *o = &l->ops[op];
            size_t first = total;
            for (uint32_t i = 0; i < o->ndeps; i++) {
                if (!ccl_grow(&deps, &cap, total + 1, sizeof *deps))
                    goto nomem;
                deps[total++] = l->deps[o->first_dep + i];
            }
            for (uint32_t d = before; op % 2 == 0 && d != before_end; d = next[d]) {
                if (l->transfers[d / 2].channel != l->transfers[op / 2].channel)
                    continue;
                if (!ccl_grow(&deps, &cap, total + 1, sizeof *deps))
                    goto nomem;
                deps[total++] = d;
            }
            o->first_dep = (uint32_t)first;
            o->ndeps = (uint32_t)(total - first);
        }
    }
    free(l->deps);
    l->deps = deps;
    deps = NULL;
    l->ndeps = total;
    l->deps_cap = cap;
    goto end;
nomem:
    status = ccl_fail_nomem(err);
end:
    free(head);
    free(tail);
    free(next);
    free(deps);
    return status;
}

/* A dependency between operations of one step can only be one of their group (lower_values.c). */
static bool same_group(const ccl_i_lowering_t *l, uint32_t a, uint32_t b) {
    return l->transfers[a / 2].step == l->transfers[b / 2].step;
}

/*
 * A receive that waits for several sends of its group: each of them waits for the one before, the
 * receive for the last. Then no operation waits for more than one of its group, which need not
 * become a nop.
 */
static ccl_status_t chain_group(ccl_i_lowering_t *l, ccl_error_t *err) {
    uint32_t n = 2 * l->ntransfers, *after = malloc((n + (size_t)1) * sizeof *after);
    uint32_t *deps = NULL;
    size_t len = 0, cap = 0;
    if (!after)
        return ccl_fail_nomem(err);
    memset(after, 0xff, (n + (size_t)1) * sizeof *after); /* the send before it in its chain */
    for (uint32_t op = 1; op < n; op += 2) {
        const ccl_i_op_t *o = &l->ops[op];
        uint32_t last = CCL_NONE;
        for (uint32_t i = 0; i < o->ndeps; i++) {
            uint32_t dep = l->deps[o->first_dep + i];
            if (dep % 2 || !same_group(l, op, dep))
                continue;
            after[dep] = last; /* reads of a value are in order */
            last = dep;
        }
    }
    for (uint32_t op = 0; op < n; op++) {
        ccl_i_op_t *o = &l->ops[op];
        size_t first = len;
        uint32_t mine = after[op];
        for (uint32_t i = 0; i < o->ndeps; i++) {
            uint32_t dep = l->deps[o->first_dep + i];
            if (op % 2 && same_group(l, op, dep)) {
                mine = mine == CCL_NONE || l->ops[dep].place > l->ops[mine].place ? dep : mine;
                continue;
            }
            if (!ccl_grow(&deps, &cap, len + 1, sizeof *deps))
                goto nomem;
            deps[len++] = dep;
        }
        if (mine != CCL_NONE) { /* last, so that it is the primitive's own wait */
            if (!ccl_grow(&deps, &cap, len + 1, sizeof *deps))
                goto nomem;
            deps[len++] = mine;
        }
        o->first_dep = (uint32_t)first;
        o->ndeps = (uint32_t)(len - first);
    }
    free(after);
    free(l->deps);
    l->deps = deps;
    l->ndeps = len;
    l->deps_cap = cap;
    return CCL_OK;
nomem:
    free(after);
    free(deps);
    return ccl_fail_nomem(err);
}

/** What emission needs per item. */
typedef struct emission {
    uint32_t *first_dep;        /* [nitems + 1] into deps */
    uint32_t *deps;             /* operations that the item really waits for */
    uint32_t *step;             /* [nitems] index of its primitive in its block */
    uint32_t *local;            /* [nblocks] id within the rank */
    uint32_t *seen, *seen_item; /* [nblocks] last item of it that the block in hand waited for */
    size_t ndeps, deps_cap;
} emission_t;

static ccl_status_t emission_init(emission_t *e, const ccl_i_lblocks_t *blocks, ccl_error_t *err) {
    size_t nb = blocks->nblocks + (size_t)1, ni = blocks->nitems + (size_t)1;
    memset(e, 0, sizeof *e);
    e->first_dep = calloc(ni, sizeof *e->first_dep);
    e->step = calloc(ni, sizeof *e->step);
    e->local = calloc(nb, sizeof *e->local);
    e->seen = calloc(nb, sizeof *e->seen);
    e->seen_item = calloc(nb, sizeof *e->seen_item);
    if (!e->first_dep || !e->step || !e->local || !e->seen || !e->seen_item)
        return ccl_fail_nomem(err);
    for (uint32_t b = 1; b < blocks->nblocks; b++)
        e->local[b] =
            blocks->blocks[b].rank == blocks->blocks[b - 1].rank ? e->local[b - 1] + 1 : 0;
    return CCL_OK;
}

static void emission_fini(emission_t *e) {
    free(e->first_dep);
    free(e->deps);
    free(e->step);
    free(e->local);
    free(e->seen);
    free(e->seen_item);
}

/* Keep of an operation's dependencies what nothing else implies. */
static ccl_status_t thin_out(emission_t *e, const ccl_i_lowering_t *l, uint32_t op, uint32_t block,
                             size_t first, ccl_error_t *err) {
    for (uint32_t i = 0; i < l->ops[op].ndeps; i++) {
        uint32_t dep = l->deps[l->ops[op].first_dep + i];
        uint32_t on = l->ops[dep].block, item = l->ops[dep].item;
        if (on == block || (e->seen[on] == block + 1 && e->seen_item[on] >= item))
            continue;
        size_t at = first;
        if (e->seen[on] == block + 1) { /* an earlier item of the same block in this list? */
            while (at < e->ndeps && l->ops[e->deps[at]].block != on)
                at++;
        } else
            at = e->ndeps;
        e->seen[on] = block + 1;
        e->seen_item[on] = item;
        if (l->task && at < e->ndeps) { /* the last one stays the last (chain_group) */
            memmove(e->deps + at, e->deps + at + 1, (e->ndeps - at - 1) * sizeof *e->deps);
            at = --e->ndeps;
        }
        if (at == e->ndeps) {
            if (!ccl_grow(&e->deps, &e->deps_cap, e->ndeps + 1, sizeof *e->deps))
                return ccl_fail_nomem(err);
            e->ndeps++;
        }
        e->deps[at] = dep;
    }
    return CCL_OK;
}

static ccl_status_t find_steps(emission_t *e, const ccl_i_lowering_t *l,
                               const ccl_i_lblocks_t *blocks, ccl_error_t *err) {
    for (uint32_t b = 0; b < blocks->nblocks; b++) {
        const ccl_i_lblock_t *block = &blocks->blocks[b];
        uint32_t step = 0;
        for (uint32_t i = block->first; i < block->first + block->nitems; i++) {
            const ccl_i_item_t *item = &blocks->items[i];
            size_t first = e->ndeps;
            e->first_dep[i] = (uint32_t)first;
            if (item->recv != CCL_NONE)
                CCL_TRY(thin_out(e, l, item->recv, b, first, err));
            if (item->send != CCL_NONE)
                CCL_TRY(thin_out(e, l, item->send, b, first, err));
            size_t ndeps = e->ndeps - first;
            step += ndeps > 1 ? (uint32_t)ndeps - 1 : 0;
            e->step[i] = step++;
        }
    }
    e->first_dep[blocks->nitems] = (uint32_t)e->ndeps;
    return CCL_OK;
}

/* Scratch elements are made when first needed. */
static ccl_i_loc_t resolve(ccl_i_lowering_t *l, uint32_t op, ccl_i_loc_t loc) {
    if (loc.buf != CCL_BUF_SCRATCH || loc.off != CCL_NONE)
        return loc;
    uint32_t *off = &l->scratch_off[l->history_of[op]];
    if (*off == CCL_NONE)
        *off = l->scratch_len[ccl_i_op_rank(l, op)]++;
    return (ccl_i_loc_t){*off, CCL_BUF_SCRATCH};
}

static ccl_step_t primitive(ccl_i_lowering_t *l, const ccl_i_item_t *item) {
    ccl_step_t s = {.count = 1, .dep_tb = CCL_NONE, .dep_step = CCL_NONE};
    uint32_t any = item->recv != CCL_NONE ? item->recv : item->send;
    s.stage = (uint16_t)ccl_i_stage(l, any / 2);
    ccl_i_loc_t src, dst;
    if (item->recv == CCL_NONE) {
        s.type = CCL_PRIM_S;
        src = dst = resolve(l, item->send, l->ops[item->send].src);
    } else {
        const ccl_i_op_t *op = &l->ops[item->recv];
        bool reduce = l->transfers[item->recv / 2].reduce, send = item->send != CCL_NONE;
        if (reduce && send && op->readers == 1 && !op->kept) {
            s.type = CCL_PRIM_RRS; /* nobody else needs the sum: it is not written */
            src = dst = resolve(l, item->recv, op->src);
        } else {
            s.type = reduce ? send ? CCL_PRIM_RRCS : CCL_PRIM_RRC
                     : send ? CCL_PRIM_RCS
                            : CCL_PRIM_R;
            dst = resolve(l, item->recv, op->dst);
            src = reduce ? resolve(l, item->recv, op->src) : dst;
        }
    }
    s.src_buf = src.buf;
    s.src_off = src.off;
    s.dst_buf = dst.buf;
    s.dst_off = dst.off;
    return s;
}

/** Copies of a rank are a block of their own behind the others. */
static void emit_copies(const ccl_i_lowering_t *l, uint32_t rank, size_t *at,
                        ccl_program_builder_t *b) {
    if (*at >= l->ncopies || l->copies[*at].rank != rank)
        return;
    uint32_t tb = ccl_program_builder_tb(b, rank, CCL_NONE, CCL_NONE, 0);
    for (; *at < l->ncopies && l->copies[*at].rank == rank; (*at)++) {
        const ccl_i_copy_t *c = &l->copies[*at];
        ccl_program_builder_step(b, tb,
                                 (ccl_step_t){.type = CCL_PRIM_CPY,
                                              .count = 1,
                                              .src_buf = c->src.buf,
                                              .src_off = c->src.off,
                                              .dst_buf = c->dst.buf,
                                              .dst_off = c->dst.off,
                                              .dep_tb = CCL_NONE,
                                              .dep_step = CCL_NONE});
    }
}

static void emit(ccl_i_lowering_t *l, const emission_t *e, const ccl_i_lblocks_t *blocks,
                 ccl_program_builder_t *b) {
    uint32_t at = 0;
    size_t copy = 0;
    for (uint32_t rank = 0; rank < l->nranks; rank++) {
        for (; at < blocks->nblocks && blocks->blocks[at].rank == rank; at++) {
            const ccl_i_lblock_t *block = &blocks->blocks[at];
            uint32_t tb =
                ccl_program_builder_tb(b, rank, block->send_peer, block->recv_peer, block->channel);
            for (uint32_t i = block->first; i < block->first + block->nitems; i++) {
                ccl_step_t main = primitive(l, &blocks->items[i]);
                for (uint32_t d = e->first_dep[i]; d < e->first_dep[i + 1]; d++) {
                    const ccl_i_op_t *on = &l->ops[e->deps[d]];
                    uint32_t on_item = blocks->blocks[on->block].first + on->item;
                    ccl_step_t nop = {.type = CCL_PRIM_NOP,
                                      .stage = main.stage,
                                      .dep_tb = e->local[on->block],
                                      .dep_step = e->step[on_item]};
                    if (d + 1 < e->first_dep[i + 1]) {
                        ccl_program_builder_step(b, tb, nop);
                    } else {
                        main.dep_tb = nop.dep_tb;
                        main.dep_step = nop.dep_step;
                    }
                }
                ccl_program_builder_step(b, tb, main);
            }
        }
        emit_copies(l, rank, &copy, b);
    }
}

/* Scratch elements of a demand's chunks have different sizes. */
static ccl_status_t emit_scratch_shares(const ccl_i_lowering_t *l, ccl_program_builder_t *b,
                                        ccl_error_t *err) {
    size_t total = 0;
    for (uint32_t r = 0; r < l->nranks; r++)
        total += l->scratch_len[r];
    double *shares = calloc(total + 1, sizeof *shares);
    size_t *first = calloc(l->nranks + (size_t)1, sizeof *first);
    if (!shares || !first) {
        free(shares);
        free(first);
        return ccl_fail_nomem(err);
    }
    for (uint32_t r = 0; r < l->nranks; r++)
        first[r + 1] = first[r] + l->scratch_len[r];
    for (uint32_t op = 0; op < 2 * l->ntransfers; op++) {
        uint32_t off = l->scratch_off[l->history_of[op]];
        if (off != CCL_NONE)
            shares[first[ccl_i_op_rank(l, op)] + off] =
                l->coll->chunks[l->transfers[op / 2].chunk].share;
    }
    for (uint32_t r = 0; r < l->nranks; r++)
        ccl_program_builder_shares(b, r, CCL_BUF_SCRATCH, shares + first[r]);
    free(shares);
    free(first);
    return CCL_OK;
}

static ccl_status_t build(ccl_i_lowering_t *l, const emission_t *e, const ccl_i_lblocks_t *blocks,
                          const char *proto, ccl_program_t **out, ccl_error_t *err) {
    ccl_collective_t *coll;
    uint32_t nchunks = 1;
    CCL_TRY(ccl_collective_clone(l->coll, &coll, err));
    for (uint32_t r = 0; r < l->nranks; r++) {
        uint32_t in = ccl_collective_input_len(coll, r), o = ccl_collective_output_len(coll, r);
        nchunks = in > nchunks ? in : nchunks;
        nchunks = o > nchunks ? o : nchunks;
    }
    ccl_program_builder_t *b = ccl_program_builder_create(l->schedule->name, coll, nchunks, proto);
    if (!b)
        return ccl_fail_nomem(err);
    ccl_program_builder_place(b, l->in_place, !l->in_place, 0, 0);
    emit(l, e, blocks, b);
    for (uint32_t r = 0; r < l->nranks; r++) {
        ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, ccl_collective_input_len(coll, r));
        ccl_program_builder_buffer(b, r, CCL_BUF_OUTPUT, ccl_collective_output_len(coll, r));
        ccl_program_builder_buffer(b, r, CCL_BUF_SCRATCH, l->scratch_len[r]);
    }
    if (coll->kind == CCL_CUSTOM) {
        ccl_status_t status = emit_scratch_shares(l, b, err);
        if (status != CCL_OK) {
            ccl_program_builder_destroy(b);
            return status;
        }
    }
    return ccl_program_builder_finish(b, out, err);
}

/* Kinds that NCCL runs in place as well: the output is, or lies in, the input or the other way. */
static bool can_be_in_place(ccl_collective_kind_t kind) {
    return kind != CCL_ALLTOALL && kind != CCL_SENDRECV && kind != CCL_CUSTOM;
}

static int by_rank(const void *a, const void *b) {
    const ccl_i_copy_t *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->dst.off < y->dst.off ? -1 : x->dst.off > y->dst.off;
}

void ccl_lower_options_fit(ccl_lower_options_t *options, const ccl_topology_t *topo) {
    uint32_t slots = UINT32_MAX, slices = 1;
    for (uint32_t k = 0; k < topo->nkinds; k++) {
        ccl_transport_t t =
            ccl_model_transport(topo, topo->kinds[k], options->proto ? options->proto : "Simple");
        slots = t.slots < slots ? t.slots : slots;
        slices = t.slices > slices ? t.slices : slices;
    }
    slots /= slices;
    if (slots == 0)
        options->no_fuse = true;
    if (options->slots == 0)
        options->slots = slots < 1 ? 1 : slots > LEAST_SLOTS ? LEAST_SLOTS : slots;
}

/*
 * Stages were found on the schedule's own channels. On others its operations may have further
 * dependencies, from memory that is used again: what waits comes no sooner than what it waits for.
 */
static ccl_status_t raise_stages(ccl_i_lowering_t *l, ccl_error_t *err) {
    size_t n = 2 * (size_t)l->ntransfers;
    uint16_t *stage = ccl_arena_alloc(&l->arena, l->ntransfers + (size_t)1, sizeof *stage);
    bool raised = true;
    if (!stage)
        return ccl_fail_nomem(err);
    memcpy(stage, l->stage, l->ntransfers * sizeof *stage);
    while (raised) { /* up to the last stage at most */
        raised = false;
        for (size_t i = 0; i < n; i++) {
            const ccl_i_op_t *op = &l->ops[l->by_place[i]];
            uint16_t *mine = &stage[l->original[l->by_place[i] / 2]];
            for (uint32_t k = 0; k < op->ndeps; k++) {
                uint16_t theirs = stage[l->original[l->deps[op->first_dep + k] / 2]];
                raised |= theirs > *mine;
                *mine = theirs > *mine ? theirs : *mine;
            }
        }
    }
    l->stage = stage;
    return CCL_OK;
}

/* Places by stage first. Dependencies never lead to a later stage, so they still go forward. */
static ccl_status_t order_by_stage(ccl_i_lowering_t *l, ccl_error_t *err) {
    size_t n = 2 * (size_t)l->ntransfers;
    uint64_t *keys = malloc((2 * n + 1) * sizeof *keys), max_key = 0;
    uint32_t *items_tmp = malloc((n + 1) * sizeof *items_tmp);
    ccl_status_t status = keys && items_tmp ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        for (size_t i = 0; i < n; i++) {
            keys[i] = ccl_i_stage(l, l->by_place[i] / 2);
            max_key = keys[i] > max_key ? keys[i] : max_key;
        }
        ccl_i_radix_sort(keys, l->by_place, keys + n, items_tmp, n, max_key);
        for (size_t i = 0; i < n; i++)
            l->ops[l->by_place[i]].place = (uint32_t)i;
    }
    free(keys);
    free(items_tmp);
    return status;
}

ccl_status_t ccl_i_lowering_begin(ccl_i_lowering_t *l, const ccl_ctx_t *ctx,
                                  const ccl_schedule_t *schedule, const ccl_i_lower_how_t *how,
                                  ccl_error_t *err) {
    *l = (ccl_i_lowering_t){.ctx = ctx, .schedule = schedule, .coll = schedule->coll};
    ccl_arena_init(&l->arena);
    l->in_place = !how->out_of_place && can_be_in_place(l->coll->kind);
    l->no_fuse = how->no_fuse;
    l->ordered = how->ordered;
    l->task = how->task;
    l->slots = how->slots;
    l->stage = how->stage;
    l->forwards = how->forwards;
    l->ntransfers = schedule->ntransfers;
    l->nranks = l->coll->nranks;
    l->scratch_len = ccl_arena_alloc(&l->arena, l->nranks + (size_t)1, sizeof *l->scratch_len);
    if (!l->scratch_len)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_ctx_poll(ctx, NULL));
    CCL_TRY(ccl_i_lower_values(l, err));
    if (l->ncopies)
        qsort(l->copies, l->ncopies, sizeof *l->copies, by_rank);
    if (l->ordered)
        CCL_TRY(add_rounds(l, err));
    return l->task ? chain_group(l, err) : CCL_OK;
}

void ccl_i_lowering_end(ccl_i_lowering_t *l) {
    free(l->deps);
    free(l->copies);
    ccl_arena_fini(&l->arena);
}

ccl_status_t ccl_i_lower_program(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                 const ccl_i_lower_how_t *how, ccl_program_t **out,
                                 ccl_error_t *err) {
    ccl_i_lowering_t l;
    ccl_i_lblocks_t blocks;
    emission_t e = {0};
    ccl_status_t status = ccl_i_lowering_begin(&l, ctx, schedule, how, err);
    if (status != CCL_OK)
        goto end;
    if (l.stage) {
        CCL_TRY_GOTO(raise_stages(&l, err), status, end);
        CCL_TRY_GOTO(order_by_stage(&l, err), status, end);
    }
    CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
    CCL_TRY_GOTO(ccl_i_lower_blocks(&l, &blocks, err), status, end);
    CCL_TRY_GOTO(ccl_i_lower_unblock(&l, &blocks, err), status, end);
    CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
    CCL_TRY_GOTO(emission_init(&e, &blocks, err), status, end);
    CCL_TRY_GOTO(find_steps(&e, &l, &blocks, err), status, end);
    status = build(&l, &e, &blocks, how->proto, out, err);
end:
    emission_fini(&e);
    ccl_i_lowering_end(&l);
    return status;
}

/* ---------------------------------------------------------------- passes */

/** The last pass: everything behind the schedule's channels. */
typedef struct maker {
    const ccl_ctx_t *ctx;
    const ccl_lower_options_t *options;
    const ccl_i_lower_how_t *how;
} maker_t;

static ccl_status_t make(const void *user, const ccl_schedule_t *schedule, ccl_program_t **out,
                         ccl_error_t *err) {
    const maker_t *m = user;
    CCL_TRY(ccl_i_lower_program(m->ctx, schedule, m->how, out, err));
    if (m->options->allocation == CCL_ALLOCATE_STATE && !m->options->rough)
        return ccl_i_allocate_state(m->ctx, m->options, out, NULL, err);
    return CCL_OK;
}

/* Each GPU runs all its blocks at once, so it must have room for them. */
static ccl_status_t check_blocks(const ccl_program_t *program, const ccl_lower_options_t *options,
                                 ccl_error_t *err) {
    for (uint32_t r = 0; options->topo && r < program->nranks; r++) {
        ccl_gpu_model_t gpu = ccl_model_gpu(options->topo, r);
        uint32_t blocks = ccl_program_rank_blocks(program, r, options->granularity);
        if (gpu.sms && blocks > gpu.sms)
            return ccl_fail(err, CCL_ERR_UNSUPPORTED,
                            "%s: rank %u needs %u thread blocks; its %s has room for %u",
                            program->name, r, blocks, gpu.name, gpu.sms);
    }
    return CCL_OK;
}

/** Channels of a connection. */
typedef struct width {
    uint32_t most;
    bool wider; /* more than one for some connection, or the schedule is refused */
} width_t;

/* From the schedule in its order to the program. */
static ccl_status_t lower_spread(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                 const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                                 width_t width, uint32_t *spread_out, ccl_program_t **out,
                                 ccl_error_t *err) {
    const ccl_executor_limits_t *limits = ccl_executor_limits(options->executor);
    ccl_schedule_t *spread = NULL;
    ccl_program_t *program = NULL;
    ccl_i_lower_how_t plain = *how;
    maker_t user = {ctx, options, &plain};
    ccl_i_maker_t maker = {make, &user};
    ccl_status_t status = CCL_OK;
    *spread_out = 1;
    if (width.most > 1) {
        ccl_i_capacity_t capacity = {.topo = options->topo,
                                     .routes = options->routes,
                                     .proto = how->proto,
                                     .stage = how->stage,
                                     .size_bytes = options->size_bytes,
                                     .batches = options->batches,
                                     .max_channels = width.most,
                                     .all_channels = limits->channels,
                                     .max_blocks = limits->tbs,
                                     .copies = options->out_of_place};
        CCL_TRY_GOTO(ccl_i_channels_capacity(schedule, &capacity, spread_out, &spread, err), status,
                     end);
        schedule = spread;
    }
    if (width.wider && *spread_out == 1) {
        status = ccl_fail(err, CCL_ERR_UNSUPPORTED, "no connection is spread");
        goto end;
    }
    if (options->executor == CCL_EXECUTOR_ANY)
        status = make(&user, schedule, &program, err);
    else {
        plain.stage = NULL; /* stages are channels then */
        status = ccl_i_executor_fit(ctx, schedule, options->executor, options->granularity,
                                    how->stage, options->routes, &maker, &program, err);
    }
    if (status == CCL_OK)
        status = check_blocks(program, options, err);
    if (status == CCL_OK) {
        *out = program;
        program = NULL;
    }
end:
    ccl_program_destroy(program);
    ccl_schedule_destroy(spread);
    return status;
}

/* What does not fit when fast connections are spread may fit when they are spread less. */
static ccl_status_t lower_fitting(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                  const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                                  width_t width, ccl_program_t **out, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    for (uint32_t spread; width.most >= 1; width.most = spread / 2) {
        status = lower_spread(ctx, schedule, options, how, width, &spread, out, err);
        if (status != CCL_ERR_UNSUPPORTED || spread <= 1)
            break;
    }
    return status;
}

/* What more blocks must bring; parts cost none. */
static const double WIDE = 0.02, PARTS = 0.005;

/** The best program so far of state allocation at task level, blocks not merged yet. */
typedef struct choice {
    const ccl_ctx_t *ctx;
    const ccl_lower_options_t *options; /* a block per connection */
    const ccl_i_lower_how_t *how;
    ccl_i_timed_t best;
    uint32_t most; /* channels that it may spread a connection over */
} choice_t;

/* Takes the program of this schedule when it is faster by more than `gain`; *taken_out then. */
static ccl_status_t consider(choice_t *c, const ccl_schedule_t *schedule, width_t width,
                             double gain, bool *taken_out, ccl_error_t *err) {
    ccl_i_timed_t timed = {NULL, NULL};
    double below_s = c->best.program ? (1 - gain) * c->best.run->time_s : 0;
    ccl_status_t status =
        lower_fitting(c->ctx, schedule, c->options, c->how, width, &timed.program, NULL);
    if (status == CCL_INTERRUPTED || status == CCL_ERR_NOMEM)
        return ccl_fail(err, status, "%s", ccl_status_meaning(status));
    if (status != CCL_OK) /* it does not fit */
        return CCL_OK;
    status = ccl_i_state_run(c->ctx, c->options, &timed, below_s, err);
    if (status == CCL_OK && (!c->best.program || timed.run->time_s < below_s)) {
        ccl_i_timed_fini(&c->best);
        c->best = timed;
        c->most = width.most;
        *taken_out = true;
        return CCL_OK;
    }
    ccl_i_timed_fini(&timed);
    return status;
}

/* Every chunk cut into parts, the schedule done for one part after the other. */
static ccl_status_t in_parts(const ccl_schedule_t *schedule, uint32_t parts, ccl_schedule_t **out,
                             ccl_error_t *err) {
    ccl_collective_t *coll;
    CCL_TRY(ccl_collective_split(schedule->coll, parts, &coll, err));
    ccl_schedule_builder_t *b = ccl_schedule_builder_create(schedule->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t part = 0; part < parts; part++) {
        for (uint32_t i = 0; i < schedule->ntransfers; i++) {
            ccl_transfer_t t = schedule->transfers[i];
            t.chunk = t.chunk * parts + part;
            t.step += part * schedule->nsteps;
            ccl_schedule_builder_add(b, t);
        }
    }
    return ccl_schedule_builder_finish(b, out, err);
}

/*
 * State allocation at task level. Task level does the transfers of a connection one after the
 * other, each for all micro-batches. That costs where several have their data at the same time
 * (when servers differ in size): they wait in line; and where what comes last in a micro-batch
 * could run beside what comes first in the next (an AllReduce's two phases). So beside the order
 * found, these are simulated: fast connections spread over channels (ResCCL looks at primitives,
 * not connections: section 4.1); and the whole done part by part, so that parts overlap as
 * micro-batches do at algorithm level. The fastest is merged.
 *
 * @param unturned  NULL, or an order that may suit parts better, in which sums are not mirrored.
 */
static ccl_status_t lower_state(const ccl_ctx_t *ctx, const ccl_schedule_t *given,
                                const ccl_schedule_t *ordered, const ccl_schedule_t *unturned,
                                const ccl_lower_options_t *options, const ccl_i_lower_how_t *how,
                                ccl_i_timed_t *known, ccl_program_t **out, uint32_t *pipelines,
                                ccl_error_t *err) {
    enum { MOST_PARTS = 16 };
    ccl_lower_options_t plain = *options;
    choice_t c = {.ctx = ctx, .options = &plain, .how = how, .most = 1};
    ccl_schedule_t *split = NULL;
    const width_t one = {.most = 1}, any = {.most = UINT16_MAX},
                  wider = {.most = UINT16_MAX, .wider = true};
    bool hpds = options->order == CCL_ORDER_HPDS, taken = false;
    bool differ = hpds && !ccl_schedule_equal(given, ordered);
    double bytes, batches = options->batches;
    ccl_status_t status = CCL_OK;
    plain.allocation = CCL_ALLOCATE_CONNECTION;
    if (!options->batches)
        batches =
            ccl_i_likely_batches(given, options->topo, how->proto, options->size_bytes, &bytes);
    if (known->run && check_blocks(known->program, &plain, NULL) == CCL_OK) {
        c.best = *known;
        *known = (ccl_i_timed_t){NULL, NULL};
    } else if (!known->run) {
        CCL_TRY_GOTO(consider(&c, ordered, one, 0, &taken, err), status, end);
    }
    bool few = batches * given->ntransfers <= ccl_i_lower_most_sends(options);
    if (few || !options->rough)
        CCL_TRY_GOTO(consider(&c, ordered, wider, WIDE, &taken, err), status, end);
    if (hpds && few) {
        const ccl_schedule_t *best = ordered;
        uint32_t fewest = batches < 4 ? 2 : 4;
        taken = false;
        if (differ)
            CCL_TRY_GOTO(consider(&c, given, any, WIDE, &taken, err), status, end);
        best = taken ? given : best;
        for (uint32_t parts = fewest; parts <= MOST_PARTS && parts <= batches; parts *= 4) {
            bool better = false;
            for (int k = 0; k < 3; k++) {
                const ccl_schedule_t *whole = k == 0 ? ordered : k == 1 ? given : unturned;
                if (!whole || (whole == given && !differ) ||
                    (parts > fewest && whole != best)) /* the first tell which order suits */
                    continue;
                taken = false;
                CCL_TRY_GOTO(in_parts(whole, parts, &split, err), status, end);
                width_t same = {.most = c.most};
                CCL_TRY_GOTO(consider(&c, split, same, PARTS, &taken, err), status, end);
                if (parts == fewest && c.most > 1) /* parts may do what spreading did */
                    CCL_TRY_GOTO(consider(&c, split, one, PARTS, &taken, err), status, end);
                ccl_schedule_destroy(split);
                split = NULL;
                best = taken ? whole : best;
                better = better || taken;
            }
            if (!better)
                break;
        }
        *pipelines = best == ordered ? *pipelines : 0;
    }
    if (!c.best.program) { /* merged it may fit */
        status = lower_fitting(ctx, ordered, options, how, one, out, err);
        goto end;
    }
    if (!options->rough)
        CCL_TRY_GOTO(ccl_i_allocate_state(ctx, options, &c.best.program, c.best.run, err), status,
                     end);
    *out = c.best.program;
    c.best.program = NULL;
end:
    ccl_schedule_destroy(split);
    ccl_i_timed_fini(&c.best);
    return status;
}

/* State allocation of a program that is simulated already. */
static ccl_status_t merge_known(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                                ccl_i_timed_t *known, ccl_program_t **out, ccl_error_t *err) {
    if (!options->rough)
        CCL_TRY(ccl_i_allocate_state(ctx, options, &known->program, known->run, err));
    CCL_TRY(check_blocks(known->program, options, err));
    *out = known->program;
    known->program = NULL;
    return CCL_OK;
}

static ccl_status_t check_options(const ccl_schedule_t *schedule,
                                  const ccl_lower_options_t *options, ccl_error_t *err) {
    bool stages = options->granularity == CCL_GRANULARITY_STAGE;
    const char *what = options->order != CCL_ORDER_STEP                 ? "this order"
                       : options->allocation != CCL_ALLOCATE_CONNECTION ? "this allocation"
                       : stages && options->stages == CCL_STAGES_AUTO   ? "cutting into stages"
                                                                        : NULL;
    if (what && !options->topo)
        return ccl_fail(err, CCL_ERR_INPUT, "lowering: %s needs a topology", what);
    if (options->topo && options->topo->nranks != schedule->coll->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the schedule has %u ranks, the topology %u",
                        schedule->coll->nranks, options->topo->nranks);
    if (options->allocation == CCL_ALLOCATE_STATE && options->executor != CCL_EXECUTOR_ANY)
        return ccl_fail(err, CCL_ERR_UNSUPPORTED,
                        "lowering: state allocation makes blocks that connections share; %s runs "
                        "none: take another allocation",
                        ccl_executor_limits(options->executor)->name);
    if (!(options->size_bytes >= 0) || options->size_bytes > 1e300)
        return ccl_fail(err, CCL_ERR_INPUT, "lowering: the size is no number of bytes");
    return CCL_OK;
}

ccl_status_t ccl_lower(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                       const ccl_lower_options_t *options, ccl_program_t **out, ccl_error_t *err) {
    const ccl_lower_options_t defaults = CCL_LOWER_OPTIONS_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(schedule->name);
    ccl_lower_stats_t stats = {0};
    ccl_routes_t *own_routes = NULL;
    const ccl_schedule_t *given = schedule;
    ccl_schedule_t *ordered = NULL, *unturned = NULL;
    uint16_t *stage = NULL;
    uint8_t *forwards = NULL;
    ccl_status_t status = CCL_OK;
    ccl_i_timed_t timed = {NULL, NULL};
    double start_s = ccl_now_s();
    width_t width = {.most = 1};
    options = options ? options : &defaults;
    ccl_i_lower_how_t how = {.proto = options->proto ? options->proto : "Simple",
                             .out_of_place = options->out_of_place,
                             .no_fuse = options->no_fuse,
                             .ordered = options->ordered || (ops && ops->ordered),
                             .task = options->granularity == CCL_GRANULARITY_TASK,
                             .slots = options->slots ? options->slots : LEAST_SLOTS};
    how.no_fuse = how.no_fuse || how.task;
    if (options->executor != CCL_EXECUTOR_ANY && how.slots > LEAST_SLOTS)
        how.slots = LEAST_SLOTS;
    CCL_TRY(check_options(schedule, options, err));
    ccl_lower_options_t full = *options;
    if (full.topo && !full.routes) {
        full.routes = own_routes = ccl_routes_create(full.topo);
        if (!own_routes)
            return ccl_fail_nomem(err);
    }
    options = &full;
    if (options->allocation == CCL_ALLOCATE_CAPACITY)
        width.most = UINT16_MAX;
    if (options->order != CCL_ORDER_STEP) {
        how.ordered = false; /* steps are no rounds any more */
        CCL_TRY_GOTO(ccl_i_lower_order(ctx, schedule, options, &how, &ordered, &timed, &unturned,
                                       &stats, err),
                     status, end);
        schedule = ordered;
    }
    if (options->granularity == CCL_GRANULARITY_STAGE) {
        stage = calloc(schedule->ntransfers + (size_t)1, sizeof *stage);
        if (!stage) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        CCL_TRY_GOTO(
            ccl_i_stages_find(ctx, schedule, &how, options->stages, options->routes, stage, err),
            status, end);
        how.stage = stage;
    }
    if (!how.no_fuse &&
        (options->allocation == CCL_ALLOCATE_CAPACITY || options->executor != CCL_EXECUTOR_ANY)) {
        forwards = calloc(schedule->ntransfers + (size_t)1, 2);
        if (!forwards) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        CCL_TRY_GOTO(ccl_i_find_forwarding(schedule, forwards, err), status, end);
        how.forwards = forwards;
    }
    if (options->allocation == CCL_ALLOCATE_STATE && how.task)
        status = lower_state(ctx, given, schedule, unturned, options, &how, &timed, out,
                             &stats.pipelines, err);
    else if (timed.run && options->granularity == CCL_GRANULARITY_ALGORITHM)
        status = merge_known(ctx, options, &timed, out, err);
    else
        status = lower_fitting(ctx, schedule, options, &how, width, out, err);
    if (status != CCL_OK)
        goto end;
    stats.lower_s = ccl_now_s() - start_s - stats.analyse_s - stats.order_s;
    if (options->stats)
        *options->stats = stats;
end:
    free(stage);
    free(forwards);
    ccl_i_timed_fini(&timed);
    ccl_schedule_destroy(ordered);
    ccl_schedule_destroy(unturned);
    ccl_routes_destroy(own_routes);
    return status;
}
