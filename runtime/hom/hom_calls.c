/**
 * @file hom_calls.c
 * What a start or an end does to a cluster's memory as few calls of a library: broadcasts, sends
 * and reductions of elements, neighbours put together, then those of all ranks in turn as one
 * AllGather or ReduceScatter.
 */
#include "runtime/hom/hom.h"

#include <stdlib.h>
#include <string.h>

/** Calls in the making. */
typedef struct builder {
    ccl_i_hom_t *hom;
    const ccl_i_hom_cluster_t *cluster;
    uint32_t cluster_index;
    ccl_i_hom_part_t *part;
    ccl_i_hom_call_t *calls;
    size_t ncalls, cap;
} builder_t;

static ccl_status_t cannot(builder_t *b, const char *why) {
    snprintf(b->part->why, sizeof b->part->why, "%s", why);
    return CCL_UNSUPPORTED;
}

/** A call of no one yet. */
static ccl_i_hom_call_t *add(builder_t *b, ccl_run_call_t call, uint32_t root, uint64_t items) {
    uint32_t n = b->cluster->nranks;
    uint64_t *at = ccl_arena_alloc(&b->hom->arena, 2 * (size_t)n, sizeof *at);
    if (!at || !ccl_grow(&b->calls, &b->cap, b->ncalls + 1, sizeof *b->calls))
        return NULL;
    memset(at, 0xff, 2 * (size_t)n * sizeof *at);
    b->calls[b->ncalls] = (ccl_i_hom_call_t){call, root, root, items, at, at + n};
    return &b->calls[b->ncalls++];
}

/* ---------------------------------------------------------------- elements */

typedef struct copy {
    uint32_t from, to; /* places */
} copy_t;

static int by_source(const void *a, const void *b) {
    const copy_t *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static uint32_t local_of(const builder_t *b, uint32_t place) {
    return b->hom->local[b->hom->flow.rank[place]];
}

/** All copies of one place: a broadcast if every rank of the cluster gets one, else sends. */
static ccl_status_t add_copies(builder_t *b, const copy_t *copies, uint32_t n, ccl_error_t *err) {
    const ccl_i_hom_flow_t *f = &b->hom->flow;
    uint32_t src = copies[0].from, root = local_of(b, src), others = 0, last = CCL_NONE;
    bool once = true;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t to = local_of(b, copies[i].to);
        once &= to != last; /* places are by rank */
        last = to;
        others += to != root;
    }
    if (once && others > 0 && others + 1 == b->cluster->nranks) {
        ccl_i_hom_call_t *c = add(b, CCL_CALL_BROADCAST, root, f->items[src]);
        if (!c)
            return ccl_fail_nomem(err);
        c->from[root] = c->to[root] = f->at[src];
        for (uint32_t i = 0; i < n; i++)
            c->to[local_of(b, copies[i].to)] = f->at[copies[i].to];
        return CCL_OK;
    }
    for (uint32_t i = 0; i < n; i++) {
        ccl_i_hom_call_t *c = add(b, CCL_CALL_SENDRECV, root, f->items[src]);
        if (!c)
            return ccl_fail_nomem(err);
        c->peer = local_of(b, copies[i].to);
        c->from[root] = f->at[src];
        c->to[c->peer] = f->at[copies[i].to];
    }
    return CCL_OK;
}

static ccl_status_t add_sum(builder_t *b, const ccl_i_hom_move_t *m, ccl_error_t *err) {
    const ccl_i_hom_flow_t *f = &b->hom->flow;
    uint32_t root = local_of(b, m->place);
    ccl_i_hom_call_t *c = add(b, CCL_CALL_REDUCE, root, f->items[m->place]);
    if (!c)
        return ccl_fail_nomem(err);
    c->to[root] = f->at[m->place];
    for (uint32_t i = 0; i < m->nleaves; i++) {
        uint32_t leaf = f->leaves[m->first_leaf + i];
        uint64_t *from = &c->from[local_of(b, leaf)];
        if (m->nleaves != b->cluster->nranks || *from != CCL_I_NOWHERE)
            return cannot(b, "it adds what is not one value of every rank");
        *from = f->at[leaf];
    }
    return CCL_OK;
}

/** A library works on all elements at once: what one of them writes no other may read. */
static ccl_status_t check_overwrites(builder_t *b, ccl_error_t *err) {
    const ccl_i_hom_flow_t *f = &b->hom->flow;
    uint32_t part = (uint32_t)(b->part - b->cluster->part), n = f->nmoves[part];
    uint8_t *readers = calloc(f->nplaces + (size_t)1, sizeof *readers); /* 0, 1, more */
    ccl_status_t status = readers ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        const ccl_i_hom_move_t *m = &f->moves[part][i];
        for (uint32_t k = 0; k < m->nleaves; k++) {
            uint8_t *r = &readers[f->leaves[m->first_leaf + k]];
            *r = *r < 2 ? *r + 1 : 2;
        }
    }
    for (uint32_t i = 0; i < n && status == CCL_OK; i++) {
        const ccl_i_hom_move_t *m = &f->moves[part][i];
        bool own = false;
        if (b->hom->of[f->rank[m->place]] != b->cluster_index)
            continue;
        for (uint32_t k = 0; k < m->nleaves; k++)
            own |= f->leaves[m->first_leaf + k] == m->place;
        if (readers[m->place] > own)
            status = cannot(b, "it overwrites what it also reads");
    }
    free(readers);
    return status;
}

static ccl_status_t add_moves(builder_t *b, ccl_error_t *err) {
    const ccl_i_hom_flow_t *f = &b->hom->flow;
    uint32_t part = (uint32_t)(b->part - b->cluster->part), n = 0;
    copy_t *copies = malloc((f->nmoves[part] + (size_t)1) * sizeof *copies);
    ccl_status_t status = copies ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t i = 0; i < f->nmoves[part] && status == CCL_OK; i++) {
        const ccl_i_hom_move_t *m = &f->moves[part][i];
        if (b->hom->of[f->rank[m->place]] != b->cluster_index)
            continue;
        if (m->nleaves == 1)
            copies[n++] = (copy_t){f->leaves[m->first_leaf], m->place};
        else
            status = add_sum(b, m, err);
    }
    if (status == CCL_OK)
        qsort(copies, n, sizeof *copies, by_source);
    for (uint32_t first = 0, end; first < n && status == CCL_OK; first = end) {
        for (end = first + 1; end < n && copies[end].from == copies[first].from;)
            end++;
        status = add_copies(b, copies + first, end - first, err);
    }
    free(copies);
    return status;
}

/* ---------------------------------------------------------------- fewer calls */

static uint64_t key_of(const ccl_i_hom_call_t *c) {
    return c->from[c->root];
}

static int by_kind(const void *a, const void *b) {
    const ccl_i_hom_call_t *x = a, *y = b;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    if (x->root != y->root)
        return x->root < y->root ? -1 : 1;
    if (x->peer != y->peer)
        return x->peer < y->peer ? -1 : 1;
    return key_of(x) < key_of(y) ? -1 : key_of(x) > key_of(y);
}

static bool goes_on(uint64_t at, uint64_t items, uint64_t next) {
    return at == CCL_I_NOWHERE ? next == CCL_I_NOWHERE : next == at + items;
}

/** The second's elements follow the first's everywhere. */
static bool follows(const ccl_i_hom_call_t *a, const ccl_i_hom_call_t *b, uint32_t nranks) {
    bool same = a->call == b->call && a->root == b->root && a->peer == b->peer;
    for (uint32_t q = 0; q < nranks && same; q++)
        same = goes_on(a->from[q], a->items, b->from[q]) && goes_on(a->to[q], a->items, b->to[q]);
    return same;
}

static void merge(builder_t *b) {
    size_t n = 0;
    qsort(b->calls, b->ncalls, sizeof *b->calls, by_kind);
    for (size_t i = 0; i < b->ncalls; i++) {
        if (n > 0 && follows(&b->calls[n - 1], &b->calls[i], b->cluster->nranks))
            b->calls[n - 1].items += b->calls[i].items;
        else
            b->calls[n++] = b->calls[i];
    }
    b->ncalls = n;
}

/** Where rank 0 has what all ranks have of the call: what a broadcast writes, a sum reads. */
static uint64_t *of_all(const ccl_i_hom_call_t *c) {
    return c->call == CCL_CALL_BROADCAST ? c->to : c->from;
}

static int by_place(const void *a, const void *b) {
    const ccl_i_hom_call_t *x = a, *y = b;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    if (x->call == CCL_CALL_SENDRECV)
        return by_kind(a, b);
    uint64_t p = of_all(x)[0], q = of_all(y)[0];
    return p < q ? -1 : p > q;
}

/** Calls first to first + nranks - 1 are one of every rank in turn, of equal blocks. */
static bool is_turn(const builder_t *b, size_t first) {
    uint32_t n = b->cluster->nranks;
    const ccl_i_hom_call_t *c = &b->calls[first];
    if (first + n > b->ncalls || c->call == CCL_CALL_SENDRECV)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        if (c[k].call != c->call || c[k].root != k || c[k].items != c->items)
            return false;
        for (uint32_t q = 0; q < n; q++)
            if (of_all(&c[k])[q] != of_all(c)[q] + k * c->items)
                return false;
    }
    return true;
}

/** One of every rank in turn becomes an AllGather, or a ReduceScatter. */
static void take_turns(builder_t *b) {
    uint32_t nranks = b->cluster->nranks;
    size_t n = 0;
    qsort(b->calls, b->ncalls, sizeof *b->calls, by_place);
    for (size_t i = 0; i < b->ncalls;) {
        ccl_i_hom_call_t c = b->calls[i];
        bool turn = is_turn(b, i);
        for (uint32_t k = 0; k < nranks && turn; k++) {
            if (c.call == CCL_CALL_BROADCAST)
                c.from[k] = b->calls[i + k].from[k];
            else
                c.to[k] = b->calls[i + k].to[k];
        }
        i += turn ? nranks : 1;
        if (turn)
            c.call = c.call == CCL_CALL_BROADCAST ? CCL_CALL_ALLGATHER : CCL_CALL_REDUCESCATTER;
        b->calls[n++] = c;
    }
    b->ncalls = n;
}

ccl_status_t ccl_i_hom_calls(ccl_i_hom_t *hom, uint32_t cluster, uint32_t part, ccl_error_t *err) {
    ccl_i_hom_cluster_t *k = &hom->clusters[cluster];
    builder_t b = {
        .hom = hom, .cluster = k, .cluster_index = cluster, .part = &k->part[part], .calls = NULL};
    ccl_status_t status = check_overwrites(&b, err);
    if (status == CCL_OK)
        status = add_moves(&b, err);
    if (status == CCL_OK) {
        merge(&b);
        take_turns(&b);
        b.part->calls = ccl_arena_alloc(&hom->arena, b.ncalls + 1, sizeof *b.part->calls);
        if (!b.part->calls)
            status = ccl_fail_nomem(err);
    }
    if (status == CCL_OK && b.ncalls) {
        memcpy(b.part->calls, b.calls, b.ncalls * sizeof *b.calls);
        b.part->ncalls = (uint32_t)b.ncalls;
    }
    free(b.calls);
    return status == CCL_UNSUPPORTED ? CCL_OK : status;
}
