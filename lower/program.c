/*
 * Lowering of a schedule to a thread-block program: values, blocks, then the program itself with
 * dependencies thinned out (order inside a block is free; what a block has waited for once it need
 * not wait for again).
 */
#include "lower/lower_i.h"

#include <stdlib.h>
#include <string.h>

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
            ccl_i_waits_t *o = &l->waits[op];
            size_t first = total;
            for (uint32_t i = 0; i < o->ndeps; i++) {
                if (!ccl_grow_raw(&deps, &cap, total + 1, sizeof *deps))
                    goto nomem;
                deps[total++] = l->deps[o->first_dep + i];
            }
            for (uint32_t d = before; op % 2 == 0 && d != before_end; d = next[d]) {
                if (l->transfers[d / 2].channel != l->transfers[op / 2].channel)
                    continue;
                if (!ccl_grow_raw(&deps, &cap, total + 1, sizeof *deps))
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
        const ccl_i_waits_t *o = &l->waits[op];
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
        ccl_i_waits_t *o = &l->waits[op];
        size_t first = len;
        uint32_t mine = after[op];
        for (uint32_t i = 0; i < o->ndeps; i++) {
            uint32_t dep = l->deps[o->first_dep + i];
            if (op % 2 && same_group(l, op, dep)) {
                mine = mine == CCL_NONE || l->place[dep] > l->place[mine] ? dep : mine;
                continue;
            }
            if (!ccl_grow_raw(&deps, &cap, len + 1, sizeof *deps))
                goto nomem;
            deps[len++] = dep;
        }
        if (mine != CCL_NONE) { /* last, so that it is the primitive's own wait */
            if (!ccl_grow_raw(&deps, &cap, len + 1, sizeof *deps))
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
    size_t ndeps, deps_cap, nsteps;
    ccl_step_t *prims; /* [nitems] and whether it is one with the item before it; NULL: none is */
    uint8_t *joined;
    uint32_t *chunk; /* [nsteps] of the program's steps; NULL: nobody asks */
} emission_t;

static ccl_status_t emission_init(emission_t *e, const ccl_i_lblocks_t *blocks, ccl_error_t *err) {
    size_t nb = blocks->nblocks + (size_t)1, ni = blocks->nitems + (size_t)1;
    memset(e, 0, sizeof *e);
    e->first_dep = ccl_array_alloc(ni, sizeof *e->first_dep);
    e->step = ccl_array_alloc(ni, sizeof *e->step);
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
    free(e->prims);
    free(e->joined);
    free(e->chunk);
}

/* Keep of an operation's dependencies what nothing else implies. */
static ccl_status_t thin_out(emission_t *e, const ccl_i_lowering_t *l, uint32_t op, uint32_t block,
                             size_t first, ccl_error_t *err) {
    for (uint32_t i = 0; i < l->waits[op].ndeps; i++) {
        uint32_t dep = l->deps[l->waits[op].first_dep + i];
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
            if (!ccl_grow_raw(&e->deps, &e->deps_cap, e->ndeps + 1, sizeof *e->deps))
                return ccl_fail_nomem(err);
            e->ndeps++;
        }
        e->deps[at] = dep;
    }
    return CCL_OK;
}

/* Operations of items ahead, the last the nearest: how each waits, its first wait, that operation.
 */
static void prefetch_ops(const ccl_i_lowering_t *l, uint32_t far, uint32_t mid, uint32_t near) {
    if (far != CCL_NONE)
        __builtin_prefetch(&l->waits[far]);
    if (mid != CCL_NONE)
        __builtin_prefetch(&l->deps[l->waits[mid].first_dep]);
    if (near != CCL_NONE && l->waits[near].ndeps > 0)
        __builtin_prefetch(&l->ops[l->deps[l->waits[near].first_dep]]);
}

/* What items a little further on wait for comes into the cache. */
static void prefetch_waits(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks, uint32_t i) {
    enum { WAITS = 32, DEPS = 20, OPS = 8 };
    if (i + WAITS >= blocks->nitems)
        return;
    const ccl_i_item_t *item = &blocks->items[i];
    prefetch_ops(l, item[WAITS].recv, item[DEPS].recv, item[OPS].recv);
    prefetch_ops(l, item[WAITS].send, item[DEPS].send, item[OPS].send);
}

static ccl_status_t find_steps(emission_t *e, const ccl_i_lowering_t *l,
                               const ccl_i_lblocks_t *blocks, ccl_error_t *err) {
    for (uint32_t b = 0; b < blocks->nblocks; b++) {
        const ccl_i_lblock_t *block = &blocks->blocks[b];
        uint32_t step = 0, end = block->first + block->nitems;
        for (uint32_t i = block->first, next; i < end; i = next) {
            size_t first = e->ndeps;
            e->first_dep[i] = (uint32_t)first;
            for (next = i; next == i || (e->joined && next < end && e->joined[next]); next++) {
                const ccl_i_item_t *item = &blocks->items[next];
                prefetch_waits(l, blocks, next);
                if (item->recv != CCL_NONE)
                    CCL_TRY(thin_out(e, l, item->recv, b, first, err));
                if (item->send != CCL_NONE)
                    CCL_TRY(thin_out(e, l, item->send, b, first, err));
            }
            size_t ndeps = e->ndeps - first;
            step += ndeps > 1 ? (uint32_t)ndeps - 1 : 0;
            for (uint32_t k = i; k < next; k++) {
                e->first_dep[k] = (uint32_t)(k == i ? first : e->ndeps);
                e->step[k] = step;
            }
            step++;
        }
        e->nsteps += step;
    }
    e->first_dep[blocks->nitems] = (uint32_t)e->ndeps;
    uint32_t *deps =
        realloc(e->deps, (e->ndeps + 1) * sizeof *deps); /* the program needs the room */
    e->deps = deps ? deps : e->deps;
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

/* Operations of items a little further on come into the cache. */
static void prefetch(const ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks, uint32_t i) {
    enum { AHEAD = 12 };
    if (i + AHEAD >= blocks->nitems)
        return;
    const ccl_i_item_t *item = &blocks->items[i + AHEAD];
    uint32_t op = item->recv != CCL_NONE ? item->recv : item->send;
    __builtin_prefetch(&l->ops[op], 1);
    __builtin_prefetch(&l->transfers[op / 2]);
    if (l->history_of)
        __builtin_prefetch(&l->history_of[op]);
}

static ccl_step_t primitive(ccl_i_lowering_t *l, const ccl_i_item_t *item) {
    ccl_step_t s = {.count = 1, .dep_tb = CCL_NONE, .dep_step = CCL_NONE};
    uint32_t any = item->recv != CCL_NONE ? item->recv : item->send;
    s.stage = (uint16_t)ccl_i_stage(l, any / 2);
    ccl_i_loc_t src, dst;
    if (item->recv == CCL_NONE) {
        s.type = CCL_PRIM_S;
        src = dst = resolve(l, item->send, ccl_i_op_src(&l->ops[item->send]));
    } else {
        const ccl_i_op_t *op = &l->ops[item->recv];
        bool reduce = l->transfers[item->recv / 2].reduce, send = item->send != CCL_NONE;
        if (reduce && send && op->readers == 1 && !op->kept) {
            s.type = CCL_PRIM_RRS; /* no other step reads the result: it is not written */
            src = dst = resolve(l, item->recv, ccl_i_op_src(op));
        } else {
            s.type = reduce ? send ? CCL_PRIM_RRCS : CCL_PRIM_RRC
                     : send ? CCL_PRIM_RCS
                            : CCL_PRIM_R;
            dst = resolve(l, item->recv, ccl_i_op_dst(op));
            src = reduce ? resolve(l, item->recv, ccl_i_op_src(op)) : dst;
        }
    }
    s.src_buf = src.buf;
    s.src_off = src.off;
    s.dst_buf = dst.buf;
    s.dst_off = dst.off;
    return s;
}

/* All scratch in the order of the program. After that nobody asks for histories, unless elements
   have sizes of their own. */
static void place_scratch(ccl_i_lowering_t *l, const ccl_i_lblocks_t *blocks) {
    for (uint32_t i = 0; i < blocks->nitems; i++) {
        const ccl_i_item_t *item = &blocks->items[i];
        prefetch(l, blocks, i);
        ccl_step_t s = primitive(l, item);
        ccl_i_op_t *op = &l->ops[item->recv != CCL_NONE ? item->recv : item->send];
        ccl_i_op_place(op, (ccl_i_loc_t){s.src_off, s.src_buf},
                       (ccl_i_loc_t){s.dst_off, s.dst_buf});
    }
    if (l->coll->kind == CCL_CUSTOM)
        return;
    free(l->history_of);
    free(l->scratch_off);
    l->history_of = l->scratch_off = NULL;
}

/* The step of an operation in its block, instead of its item. */
static void number_steps(ccl_i_lowering_t *l, emission_t *e, const ccl_i_lblocks_t *blocks) {
    for (uint32_t i = 0; i < blocks->nitems; i++) {
        const ccl_i_item_t *item = &blocks->items[i];
        prefetch(l, blocks, i);
        if (item->recv != CCL_NONE)
            l->ops[item->recv].item = e->step[i];
        if (item->send != CCL_NONE)
            l->ops[item->send].item = e->step[i];
    }
    free(e->step);
    e->step = NULL;
}

/* Joined primitives: scratch in the order of sends, so that what goes together lies together. */
static ccl_status_t find_joined(ccl_i_lowering_t *l, emission_t *e, const ccl_i_lblocks_t *blocks,
                                ccl_error_t *err) {
    e->prims = ccl_array_alloc(blocks->nitems + (size_t)1, sizeof *e->prims);
    e->joined = calloc(blocks->nitems + (size_t)1, sizeof *e->joined);
    if (!e->prims || !e->joined)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < blocks->nitems; i++) {
        if (blocks->items[i].send != CCL_NONE && blocks->items[i].recv == CCL_NONE)
            resolve(l, blocks->items[i].send, ccl_i_op_src(&l->ops[blocks->items[i].send]));
    }
    for (uint32_t i = 0; i < blocks->nitems; i++)
        e->prims[i] = primitive(l, &blocks->items[i]);
    return ccl_i_lower_join(l, blocks, e->prims, e->joined, err);
}

static void emit(ccl_i_lowering_t *l, const emission_t *e, const ccl_i_lblocks_t *blocks,
                 ccl_program_builder_t *b) {
    enum { AHEAD = 12 };
    uint32_t at = 0;
    size_t copy = 0, step = 0;
    ccl_program_builder_reserve(b, blocks->nblocks + l->nranks, e->nsteps + l->ncopies);
    for (uint32_t rank = 0; rank < l->nranks; rank++) {
        const uint32_t first = at;
        for (; at < blocks->nblocks && blocks->blocks[at].rank == rank; at++) {
            const ccl_i_lblock_t *block = &blocks->blocks[at];
            uint32_t tb =
                ccl_program_builder_tb(b, rank, block->send_peer, block->recv_peer, block->channel);
            uint32_t end = block->first + block->nitems;
            for (uint32_t i = block->first, next; i < end; i = next) {
                prefetch(l, blocks, i);
                ccl_step_t main = e->prims ? e->prims[i] : primitive(l, &blocks->items[i]);
                for (next = i + 1; e->joined && next < end && e->joined[next];)
                    next++;
                main.count = next - i;
                const ccl_i_item_t *item = &blocks->items[i];
                uint32_t op = item->recv != CCL_NONE ? item->recv : item->send;
                uint32_t chunk = e->chunk ? l->transfers[op / 2].chunk : 0;
                for (uint32_t d = e->first_dep[i]; d < e->first_dep[i + 1]; d++) {
                    if (d + AHEAD < e->ndeps)
                        __builtin_prefetch(&l->ops[e->deps[d + AHEAD]]);
                    const ccl_i_op_t *on = &l->ops[e->deps[d]];
                    ccl_step_t nop = {.type = CCL_PRIM_NOP,
                                      .stage = main.stage,
                                      .dep_tb = e->local[on->block],
                                      .dep_step = on->item};
                    if (d + 1 < e->first_dep[i + 1]) {
                        ccl_program_builder_step(b, tb, nop);
                        if (e->chunk)
                            e->chunk[step++] = chunk;
                    } else {
                        main.dep_tb = nop.dep_tb;
                        main.dep_step = nop.dep_step;
                    }
                }
                ccl_program_builder_step(b, tb, main);
                if (e->chunk)
                    e->chunk[step++] = chunk;
            }
        }
        if (copy < l->ncopies && l->copies[copy].rank == rank)
            ccl_i_emit_copies(l, blocks, first, at, &copy, b);
    }
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
        ccl_status_t status = ccl_i_emit_scratch_shares(l, b, err);
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
            const ccl_i_waits_t *op = &l->waits[l->by_place[i]];
            uint16_t *mine = &stage[ccl_i_original(l, l->by_place[i] / 2)];
            for (uint32_t k = 0; k < op->ndeps; k++) {
                uint16_t theirs = stage[ccl_i_original(l, l->deps[op->first_dep + k] / 2)];
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
    uint64_t *keys = malloc((2 * n + 1) * sizeof *keys);
    uint32_t *items_tmp = malloc((n + 1) * sizeof *items_tmp);
    ccl_status_t status = keys && items_tmp ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        for (size_t i = 0; i < n; i++) {
            keys[i] = ccl_i_stage(l, l->by_place[i] / 2);
        }
        ccl_i_radix_sort(keys, l->by_place, keys + n, items_tmp, n);
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
    l->topo = how->topo;
    l->max_blocks = how->max_blocks;
    l->stage = how->stage;
    l->forwards = how->forwards;
    l->ntransfers = schedule->ntransfers;
    l->nranks = l->coll->nranks;
    l->scratch_len = ccl_arena_alloc(&l->arena, l->nranks + (size_t)1, sizeof *l->scratch_len);
    if (!l->scratch_len)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_ctx_poll(ctx, NULL));
    CCL_TRY(ccl_i_lower_values(l, err));
    ccl_i_copies_sort(l->copies, l->ncopies);
    if (l->ordered)
        CCL_TRY(add_rounds(l, err));
    if (l->task) {
        CCL_TRY(ccl_i_lower_places(l, err));
        CCL_TRY(chain_group(l, err));
    }
    return CCL_OK;
}

/* What only blocks and dependencies are made of. */
static void end_places(ccl_i_lowering_t *l) {
    free(l->by_place);
    free(l->place);
    l->by_place = l->place = NULL;
}

static void end_waits(ccl_i_lowering_t *l) {
    free(l->waits);
    free(l->deps);
    l->waits = NULL;
    l->deps = NULL;
}

void ccl_i_lowering_end(ccl_i_lowering_t *l) {
    end_places(l);
    end_waits(l);
    free(l->history_of);
    free(l->scratch_off);
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
    if (!how->joined)
        end_places(&l);
    CCL_TRY_GOTO(ccl_i_lower_unblock(&l, &blocks, err), status, end);
    CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
    CCL_TRY_GOTO(emission_init(&e, &blocks, err), status, end);
    if (how->joined)
        CCL_TRY_GOTO(find_joined(&l, &e, &blocks, err), status, end);
    end_places(&l);
    CCL_TRY_GOTO(find_steps(&e, &l, &blocks, err), status, end);
    end_waits(&l);
    number_steps(&l, &e, &blocks);
    if (!e.prims)
        place_scratch(&l, &blocks);
    bool staggered = how->stagger > 0 && l.ncopies == 0;
    if (staggered && !(e.chunk = ccl_array_alloc(e.nsteps + 1, sizeof *e.chunk))) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    CCL_TRY_GOTO(build(&l, &e, &blocks, how->proto, out, err), status, end);
    (*out)->piece_bytes = how->piece_bytes;
    if (staggered)
        status = ccl_i_lower_stagger(how, e.chunk, out, err);
end:
    emission_fini(&e);
    ccl_i_lowering_end(&l);
    return status;
}
