/*
 * Lowering, first part: what every rank holds where. For each rank and chunk the history of sends
 * and receives in the total order gives buffers and what must wait for what on the same GPU: reads
 * for the write before them, writes for the reads before them.
 */
#include "lower/lower_i.h"

#include <stdlib.h>
#include <string.h>

typedef struct sorter {
    uint64_t *keys, *keys_tmp;
    uint32_t *items, *items_tmp;
    size_t room;
} sorter_t;

static void sorter_fini(sorter_t *s) {
    free(s->keys);
    free(s->keys_tmp);
    free(s->items);
    free(s->items_tmp);
    *s = (sorter_t){0};
}

/* Room for n; what was in it is lost. */
static ccl_status_t sorter_room(sorter_t *s, size_t n, ccl_error_t *err) {
    if (s->keys && n <= s->room)
        return CCL_OK;
    sorter_fini(s);
    n = n ? n : 1;
    s->keys = ccl_array_alloc(n, sizeof *s->keys);
    s->keys_tmp = ccl_array_alloc(n, sizeof *s->keys_tmp);
    s->items = ccl_array_alloc(n, sizeof *s->items);
    s->items_tmp = ccl_array_alloc(n, sizeof *s->items_tmp);
    s->room = n;
    return s->keys && s->keys_tmp && s->items && s->items_tmp ? CCL_OK : ccl_fail_nomem(err);
}

static void sorter_run(sorter_t *s, size_t n) {
    ccl_i_radix_sort(s->keys, s->items, s->keys_tmp, s->items_tmp, n);
}

static uint64_t place_key(const ccl_i_lowering_t *l, uint32_t op) {
    return (uint64_t)ccl_i_op_rank(l, op) << 32 | l->transfers[op / 2].chunk;
}

/* Transfers by step, then chunk, or as they are listed. */
static ccl_status_t sort_transfers(ccl_i_lowering_t *l, sorter_t *s, ccl_error_t *err) {
    const ccl_schedule_t *schedule = l->schedule;
    uint32_t n = l->ntransfers;
    bool sorted = true;
    CCL_TRY(sorter_room(s, n, err));
    for (uint32_t i = 0; i < n; i++) {
        s->keys[i] = (uint64_t)schedule->transfers[i].step << 32;
        s->keys[i] |= schedule->listed ? 0 : schedule->transfers[i].chunk;
        s->items[i] = i;
        sorted = sorted && (i == 0 || s->keys[i - 1] <= s->keys[i]);
    }
    sorter_run(s, n);
    ccl_transfer_t *copy = sorted ? NULL : ccl_arena_alloc(&l->arena, n + (size_t)1, sizeof *copy);
    l->transfers = sorted ? schedule->transfers : copy;
    l->by_place = ccl_array_alloc(2 * (size_t)n + 1, sizeof *l->by_place);
    l->history_of = ccl_array_alloc(2 * (size_t)n + 1, sizeof *l->history_of);
    if (!sorted)
        l->original = ccl_arena_alloc(&l->arena, n + (size_t)1, sizeof *l->original);
    if ((!sorted && !copy) || !l->by_place || !l->history_of || (!sorted && !l->original))
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; !sorted && i < n; i++) {
        copy[i] = schedule->transfers[s->items[i]];
        l->original[i] = s->items[i];
    }
    return CCL_OK;
}

/* By sorting. */
static ccl_status_t number_sorted(ccl_i_lowering_t *l, sorter_t *s, ccl_error_t *err) {
    size_t n = 2 * (size_t)l->ntransfers;
    CCL_TRY(sorter_room(s, n, err));
    for (uint32_t op = 0; op < n; op++) {
        s->keys[op] = place_key(l, op);
        s->items[op] = op;
    }
    sorter_run(s, n);
    for (size_t i = 0; i < n; i++) {
        l->nhistories += i == 0 || s->keys[i] != s->keys[i - 1];
        l->history_of[s->items[i]] = l->nhistories - 1;
    }
    return CCL_OK;
}

/* By a table of all ranks and chunks. */
static ccl_status_t number_in_table(ccl_i_lowering_t *l, ccl_error_t *err) {
    size_t n = 2 * (size_t)l->ntransfers, nchunks = l->coll->nchunks;
    uint32_t *table = calloc(l->nranks * nchunks + 1, sizeof *table);
    if (!table)
        return ccl_fail_nomem(err);
    for (uint32_t op = 0; op < n; op++)
        table[ccl_i_op_rank(l, op) * nchunks + l->transfers[op / 2].chunk] = 1;
    for (size_t i = 0; i < l->nranks * nchunks; i++)
        if (table[i])
            table[i] = l->nhistories++;
    for (uint32_t op = 0; op < n; op++)
        l->history_of[op] = table[ccl_i_op_rank(l, op) * nchunks + l->transfers[op / 2].chunk];
    free(table);
    return CCL_OK;
}

/* Numbers the pairs of rank and chunk that occur, ascending. */
static ccl_status_t number_histories(ccl_i_lowering_t *l, sorter_t *s, uint64_t **keys_out,
                                     ccl_error_t *err) {
    size_t n = 2 * (size_t)l->ntransfers;
    bool dense = (uint64_t)l->nranks * l->coll->nchunks <= n + 1024; /* most ranks have most */
    CCL_TRY(dense ? number_in_table(l, err) : number_sorted(l, s, err));
    uint64_t *keys = malloc((l->nhistories + (size_t)1) * sizeof *keys);
    if (!keys)
        return ccl_fail_nomem(err);
    for (uint32_t op = 0; op < n; op++)
        keys[l->history_of[op]] = place_key(l, op);
    *keys_out = keys;
    return CCL_OK;
}

/* Place in its connection of every transfer among those of one step, into nth[]. */
static ccl_status_t number_in_step(const ccl_i_lowering_t *l, uint32_t *nth, ccl_error_t *err) {
    uint32_t n = l->ntransfers;
    ccl_i_numbering_t conns = {0};
    uint32_t *last = NULL; /* transfer of a connection */
    ccl_status_t status = CCL_OK;
    for (uint32_t t = 0; t < n && status == CCL_OK; t++)
        if (!ccl_i_numbering_add(&conns, ccl_i_connection(&l->transfers[t]), &nth[t]))
            status = ccl_fail_nomem(err);
    last = malloc((conns.n + (size_t)1) * sizeof *last);
    if (status == CCL_OK && !last)
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        memset(last, 0xff, (conns.n + (size_t)1) * sizeof *last);
    for (uint32_t t = 0; t < n && status == CCL_OK; t++) {
        uint32_t *before = &last[nth[t]];
        bool more = *before != CCL_NONE && l->transfers[*before].step == l->transfers[t].step;
        nth[t] = more ? nth[*before] + 1 : 0;
        *before = t;
    }
    ccl_i_numbering_fini(&conns);
    free(last);
    return status;
}

/* Whether some rank sends and receives one chunk in the step of transfers[first .. end). */
static bool exchanges(const ccl_i_lowering_t *l, uint32_t first, uint32_t end, uint32_t *sent) {
    uint32_t stamp = l->transfers[first].step + 1;
    for (uint32_t t = first; t < end; t++)
        sent[l->history_of[2 * t]] = stamp;
    for (uint32_t t = first; t < end; t++) {
        if (sent[l->history_of[2 * t + 1]] == stamp)
            return true;
    }
    return false;
}

/*
 * The total order. Within a step: the first transfer of every connection, sends before receives,
 * then the second ones ...; so a block that forwards sends what came in the step before, then
 * receives, and the two fuse with their neighbours. Where a rank sends and receives the same chunk
 * in a step that order could put the receive first: there it is by chunk, sends before receives.
 */
static ccl_status_t order(ccl_i_lowering_t *l, sorter_t *s, ccl_error_t *err) {
    uint32_t n = l->ntransfers, place = 0;
    uint32_t *nth = calloc(n + (size_t)1, sizeof *nth);
    uint32_t *sent = calloc(l->nhistories + (size_t)1, sizeof *sent);
    ccl_status_t status = nth && sent ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = number_in_step(l, nth, err);
    if (status == CCL_OK)
        status = sorter_room(s, n, err);
    for (uint32_t i = 0, end; status == CCL_OK && i < n; i = end) {
        uint32_t same = 0;
        for (end = i + 1; end < n && l->transfers[end].step == l->transfers[i].step;)
            end++;
        bool by_chunk = exchanges(l, i, end, sent);
        for (uint32_t t = i; t < end; t++) {
            s->keys[t - i] = by_chunk ? l->transfers[t].chunk : nth[t];
            s->items[t - i] = t;
        }
        sorter_run(s, end - i);
        for (uint32_t k = 0; k < end - i; k = same) {
            for (same = k + 1; same < end - i && s->keys[same] == s->keys[k];)
                same++;
            for (uint32_t kind = 0; kind < 2; kind++) {
                for (uint32_t m = k; m < same; m++) {
                    l->by_place[place++] = 2 * s->items[m] + kind;
                }
            }
        }
    }
    free(nth);
    free(sent);
    return status;
}

/** The history of one rank and chunk as it is walked. */
typedef struct walk {
    uint32_t rank, chunk;
    ccl_i_loc_t now;     /* where the value is; .off CCL_NONE: none held */
    ccl_i_loc_t home;    /* where received values go; scratch is made when needed */
    uint32_t last_write; /* operation or CCL_NONE */
    uint32_t nsends;     /* all so far */
    bool own;            /* its own contribution is part of what it sent */
} walk_t;

/* Reads of home since the last write. */
typedef struct reads {
    uint32_t *ops;
    size_t len, cap;
} reads_t;

/* Input and output element are the same memory in place; each kind is named by one of them. */
static ccl_i_loc_t element(const ccl_i_lowering_t *l, uint32_t rank, uint32_t chunk, bool output) {
    const ccl_collective_t *coll = l->coll;
    uint32_t in = ccl_collective_input(coll, rank, chunk);
    uint32_t out = ccl_collective_output(coll, rank, chunk);
    if (l->in_place && in != CCL_NONE && out != CCL_NONE) {
        bool by_output =
            coll->kind == CCL_ALLGATHER || coll->kind == CCL_BROADCAST || coll->kind == CCL_GATHER;
        return by_output ? (ccl_i_loc_t){out, CCL_BUF_OUTPUT} : (ccl_i_loc_t){in, CCL_BUF_INPUT};
    }
    return output ? (ccl_i_loc_t){out, CCL_BUF_OUTPUT} : (ccl_i_loc_t){in, CCL_BUF_INPUT};
}

static void walk_begin(const ccl_i_lowering_t *l, walk_t *w, uint32_t rank, uint32_t chunk) {
    *w = (walk_t){.rank = rank, .chunk = chunk, .last_write = CCL_NONE};
    w->now = element(l, rank, chunk, false);
    w->own = w->now.off != CCL_NONE;
    w->home = element(l, rank, chunk, true);
    if (w->home.off == CCL_NONE && l->in_place && l->coll->kind == CCL_REDUCESCATTER)
        w->home = w->now; /* partial results may gather in the input, as NCCL in place allows */
    if (w->home.off == CCL_NONE)
        w->home = (ccl_i_loc_t){CCL_NONE, CCL_BUF_SCRATCH};
}

static bool same_loc(ccl_i_loc_t a, ccl_i_loc_t b) {
    return a.buf == b.buf && a.off == b.off;
}

static void add_reader(ccl_i_lowering_t *l, uint32_t op) {
    if (l->ops[op].readers < 2)
        l->ops[op].readers++;
}

static ccl_status_t add_dep(ccl_i_lowering_t *l, uint32_t op, uint32_t on, ccl_error_t *err) {
    if (!ccl_grow_raw(&l->deps, &l->deps_cap, l->ndeps + 1, sizeof *l->deps))
        return ccl_fail_nomem(err);
    l->deps[l->ndeps++] = on;
    l->waits[op].ndeps++;
    return CCL_OK;
}

static ccl_status_t walk_send(ccl_i_lowering_t *l, walk_t *w, uint32_t id, reads_t *reads,
                              ccl_error_t *err) {
    ccl_i_op_t *op = &l->ops[id];
    const ccl_transfer_t *t = &l->transfers[id / 2];
    if (w->now.off == CCL_NONE && w->last_write == CCL_NONE)
        return ccl_fail(err, CCL_ERR_INPUT,
                        "rank %u sends chunk %u to rank %u at step %u before it has it", t->src,
                        t->chunk, t->dst, t->step);
    ccl_i_op_place(op, w->now, w->now);
    if (w->last_write != CCL_NONE) {
        CCL_TRY(add_dep(l, id, w->last_write, err));
        add_reader(l, w->last_write);
    }
    w->nsends++;
    if (w->last_write != CCL_NONE || same_loc(w->now, w->home)) {
        if (!ccl_grow_raw(&reads->ops, &reads->cap, reads->len + 1, sizeof *reads->ops))
            return ccl_fail_nomem(err);
        reads->ops[reads->len++] = id;
    }
    return CCL_OK;
}

/*
 * @param complete  what arrives is the final result. If this rank's own part left it by one send
 * only, that send is over before the result comes back, and need not be waited for.
 */
static ccl_status_t walk_receive(ccl_i_lowering_t *l, walk_t *w, uint32_t id, bool complete,
                                 reads_t *reads, ccl_error_t *err) {
    ccl_i_op_t *op = &l->ops[id];
    const ccl_transfer_t *t = &l->transfers[id / 2];
    if (t->reduce) {
        if (w->now.off == CCL_NONE && w->last_write == CCL_NONE)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "rank %u reduces chunk %u at step %u into nothing: it holds none",
                            t->dst, t->chunk, t->step);
        if (w->last_write != CCL_NONE)
            add_reader(l, w->last_write);
    }
    bool over = !t->reduce && complete && w->own && w->nsends == 1;
    if (reads->len && !over) {
        for (size_t i = 0; i < reads->len; i++)
            CCL_TRY(add_dep(l, id, reads->ops[i], err));
    } else if (!reads->len && w->last_write != CCL_NONE)
        CCL_TRY(add_dep(l, id, w->last_write, err));
    reads->len = 0;
    ccl_i_op_place(op, t->reduce ? w->now : w->home, w->home);
    w->now = w->home;
    w->last_write = id;
    return CCL_OK;
}

/* A destination ends with what it received last. */
static void walk_end(ccl_i_lowering_t *l, const walk_t *w) {
    if (w->last_write != CCL_NONE && ccl_collective_output(l->coll, w->rank, w->chunk) != CCL_NONE)
        l->ops[w->last_write].kept = 1;
}

/* Whether a rank's receive brings the complete result: contributions are counted along the order.
 */
static ccl_status_t count_contributions(const ccl_i_lowering_t *l, const uint64_t *keys,
                                        uint8_t *complete, ccl_error_t *err) {
    uint32_t n = l->ntransfers;
    uint32_t *held = calloc(l->nhistories ? l->nhistories : 1, sizeof *held);
    uint32_t *sent = calloc(n ? n : 1, sizeof *sent);
    if (!held || !sent) {
        free(held);
        free(sent);
        return ccl_fail_nomem(err);
    }
    for (uint32_t h = 0; h < l->nhistories; h++)
        held[h] =
            ccl_collective_input(l->coll, (uint32_t)(keys[h] >> 32), (uint32_t)keys[h]) != CCL_NONE;
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t op = l->by_place[i], h = l->history_of[op];
        const ccl_transfer_t *t = &l->transfers[op / 2];
        if (op % 2 == 0) {
            sent[op / 2] = held[h];
            continue;
        }
        held[h] = t->reduce ? held[h] + sent[op / 2] : sent[op / 2];
        complete[op / 2] =
            l->coll->chunks[t->chunk].reduced && sent[op / 2] == l->coll->chunks[t->chunk].nsources;
    }
    free(held);
    free(sent);
    return CCL_OK;
}

/* @param ops  by history. */
static ccl_status_t walk_all(ccl_i_lowering_t *l, const uint32_t *ops, const uint8_t *complete,
                             ccl_error_t *err) {
    enum { AHEAD = 16 };
    size_t n = 2 * (size_t)l->ntransfers;
    walk_t w = {.rank = CCL_NONE};
    reads_t reads = {NULL, 0, 0};
    ccl_status_t status = CCL_OK;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = ops[i];
        const ccl_transfer_t *t = &l->transfers[id / 2];
        if (i + AHEAD < n) {
            uint32_t soon = ops[i + AHEAD];
            __builtin_prefetch(&l->transfers[soon / 2]);
            __builtin_prefetch(&l->ops[soon], 1);
            __builtin_prefetch(&l->waits[soon], 1);
            __builtin_prefetch(&l->history_of[soon]);
        }
        if (i == 0 || l->history_of[id] != l->history_of[ops[i - 1]]) {
            if (i)
                walk_end(l, &w);
            walk_begin(l, &w, ccl_i_op_rank(l, id), t->chunk);
            reads.len = 0;
        }
        l->waits[id] = (ccl_i_waits_t){(uint32_t)l->ndeps, 0};
        status = id % 2 ? walk_receive(l, &w, id, complete[id / 2], &reads, err)
                        : walk_send(l, &w, id, &reads, err);
        if (status != CCL_OK)
            goto end;
    }
    if (n)
        walk_end(l, &w);
end:
    free(reads.ops);
    return status;
}

/* Destinations that have the chunk from the start and get it from nobody. */
static ccl_status_t find_copies(ccl_i_lowering_t *l, const uint64_t *keys, ccl_error_t *err) {
    const ccl_collective_t *coll = l->coll;
    size_t n = 2 * (size_t)l->ntransfers;
    if (l->in_place)
        return CCL_OK;
    uint8_t *written = calloc(l->nhistories + (size_t)1, 1);
    if (!written)
        return ccl_fail_nomem(err);
    for (size_t op = 1; op < n; op += 2)
        written[l->history_of[op]] = 1;
    ccl_status_t status = CCL_OK;
    for (uint32_t k = 0; k < coll->nchunks && status == CCL_OK; k++) {
        const ccl_chunk_t *c = &coll->chunks[k];
        if (c->reduced && c->nsources > 1)
            continue; /* a reduction has to be received */
        for (uint32_t i = 0; i < c->nsources; i++) {
            uint32_t rank = c->sources[i], out = ccl_collective_output(coll, rank, k);
            uint32_t in = ccl_collective_input(coll, rank, k);
            if (out == CCL_NONE || in == CCL_NONE)
                continue;
            uint64_t key = (uint64_t)rank << 32 | k;
            size_t lo = 0, hi = l->nhistories;
            while (lo < hi) {
                size_t mid = lo + (hi - lo) / 2;
                if (keys[mid] < key)
                    lo = mid + 1;
                else
                    hi = mid;
            }
            if (lo < l->nhistories && keys[lo] == key && written[lo])
                continue;
            if (!ccl_grow(&l->copies, &l->copies_cap, l->ncopies + 1, sizeof *l->copies)) {
                status = ccl_fail_nomem(err);
                break;
            }
            l->copies[l->ncopies++] =
                (ccl_i_copy_t){rank, c->share, {in, CCL_BUF_INPUT}, {out, CCL_BUF_OUTPUT}};
        }
    }
    free(written);
    return status;
}

/* Operations by history, in each by place. */
static ccl_status_t sort_by_history(const ccl_i_lowering_t *l, uint32_t **out, ccl_error_t *err) {
    enum { AHEAD = 16 };
    size_t n = 2 * (size_t)l->ntransfers;
    uint32_t *ops = ccl_array_alloc(n + 1, sizeof *ops);
    uint32_t *next = calloc(l->nhistories + (size_t)2, sizeof *next);
    if (!ops || !next) {
        free(ops);
        free(next);
        return ccl_fail_nomem(err);
    }
    for (size_t op = 0; op < n; op++)
        next[l->history_of[op] + 2]++;
    for (uint32_t h = 2; h < l->nhistories + 2; h++)
        next[h] += next[h - 1];
    for (size_t i = 0; i < n; i++) {
        uint32_t op = l->by_place[i];
        if (i + AHEAD < n)
            __builtin_prefetch(&l->history_of[l->by_place[i + AHEAD]]);
        ops[next[l->history_of[op] + 1]++] = op;
    }
    free(next);
    *out = ops;
    return CCL_OK;
}

ccl_status_t ccl_i_lower_places(ccl_i_lowering_t *l, ccl_error_t *err) {
    enum { AHEAD = 16 };
    size_t n = 2 * (size_t)l->ntransfers;
    l->place = l->place ? l->place : ccl_array_alloc(n + 1, sizeof *l->place);
    if (!l->place)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(&l->place[l->by_place[i + AHEAD]], 1);
        l->place[l->by_place[i]] = (uint32_t)i;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_lower_values(ccl_i_lowering_t *l, ccl_error_t *err) {
    sorter_t s = {0};
    uint8_t *complete = NULL;
    uint64_t *keys = NULL; /* [nhistories] rank and chunk */
    uint32_t *ops = NULL;
    size_t n = 2 * (size_t)l->ntransfers;
    ccl_status_t status = CCL_OK;
    CCL_TRY_GOTO(sort_transfers(l, &s, err), status, end);
    CCL_TRY_GOTO(number_histories(l, &s, &keys, err), status, end);
    CCL_TRY_GOTO(order(l, &s, err), status, end);
    sorter_fini(&s);
    CCL_TRY_GOTO(sort_by_history(l, &ops, err), status, end);
    l->ops = ccl_arena_alloc(&l->arena, n + 1, sizeof *l->ops);
    l->waits = ccl_array_alloc(n + 1, sizeof *l->waits);
    l->scratch_off = malloc((l->nhistories + (size_t)1) * sizeof(uint32_t));
    complete = calloc(l->ntransfers ? l->ntransfers : 1, 1);
    if (!l->ops || !l->waits || !l->scratch_off || !complete) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    memset(l->scratch_off, 0xff, (l->nhistories + (size_t)1) * sizeof(uint32_t));
    CCL_TRY_GOTO(count_contributions(l, keys, complete, err), status, end);
    CCL_TRY_GOTO(find_copies(l, keys, err), status, end);
    free(keys);
    keys = NULL;
    status = walk_all(l, ops, complete, err);
end:
    sorter_fini(&s);
    free(ops);
    free(complete);
    free(keys);
    return status;
}
