/*
 * Hierarchical priority-based dynamic scheduling: sub-pipelines in which no connection is used
 * twice and no contended link beyond what fills it.
 *
 * Algorithm 1 visits the chunk of highest priority whose flag is up, again and again, and scans all
 * its open tasks. What decides is the connection alone: open tasks of one connection fit or do not
 * fit together, and once a link is full they do not fit for the rest of the sub-pipeline. So open
 * tasks wait in a heap per connection, connections in a heap per resource (the link or group of
 * their route with most to do), resources in one heap. A full resource leaves it at once with all
 * that waits there, and a visit is what comes out with the same chunk and priority. Flags need not
 * be kept: a chunk with nothing that fits does not come out.
 *
 * Tasks that were open in an earlier sub-pipeline come first; then priority decides, as printed;
 * what has the same priority goes by step where many micro-batches flow, else by the longest way
 * that is still behind the task. docs/decisions.md says why.
 *
 * Source: ResCCL (SIGCOMM 2025) section 4.3, algorithm 1.
 */
#include "lower/lower_i.h"
#include "lower/order/order.h"

#include <stdlib.h>
#include <string.h>

/** Heap of items, least key[item] first; at[item] is its place or CCL_NONE. */
typedef struct queue {
    uint32_t *items;
    uint32_t len;
} queue_t;

typedef struct places {
    ccl_i_entry_t *key;
    uint32_t *at;
} places_t;

/* A queue's items by their keys; `at` notes their places. */
#define ITEM_BEFORE(p_, a_, b_) ccl_i_entry_before(&(p_)->key[a_], &(p_)->key[b_])
#define ITEM_PUT(p_, heap_, at_, item_) ((p_)->at[item_] = (uint32_t)(at_), (heap_)[at_] = (item_))
CCL_HEAP(items, uint32_t, const places_t *, ITEM_BEFORE, ITEM_PUT)

/* The item at `place` has a new key or is new there. */
static void queue_settle(queue_t *q, const places_t *p, uint32_t place) {
    items_fix(p, q->items, q->len, place);
}

static void queue_add(queue_t *q, const places_t *p, uint32_t item) {
    q->items[q->len++] = item;
    queue_settle(q, p, q->len - 1);
}

static void queue_remove(queue_t *q, const places_t *p, uint32_t item) {
    uint32_t place = p->at[item], last = q->items[--q->len];
    p->at[item] = CCL_NONE;
    if (last == item)
        return;
    q->items[place] = last;
    queue_settle(q, p, place);
}

/** Units that fit or do not fit together: those of a connection, or one exchange. */
typedef struct hpds {
    ccl_i_dag_t *dag;
    const ccl_i_conns_t *conns;
    uint32_t nclasses;
    uint32_t *class_of;     /* [nunits] */
    uint32_t *class_first;  /* [nclasses + 1] into waiting */
    ccl_i_entry_t *waiting; /* heaps of open units by class: urgency is opened << 32 | visits */
    uint32_t *nwaiting;     /* [nclasses] */
    uint32_t *resource_of;  /* [nclasses] where it queues */
    places_t class_place;   /* [nclasses]; key: that of its first unit */
    uint32_t *deferred;     /* [nclasses] last sub-pipeline + 1 that it has no place in any more */
    queue_t *queues;        /* [nresources] of classes */
    uint32_t *queue_items;
    places_t resource_place; /* [nresources]; key: that of its first class */
    queue_t resources;
    uint32_t *dropped; /* [nresources] last sub-pipeline + 1 that filled it */
    double *load_Bps;  /* [nresources] in sub-pipeline load_in - 1 */
    uint32_t *load_in; /* [nresources] */
    uint32_t *taken;   /* [nconns] last sub-pipeline + 1 that uses it */
    uint32_t *visits;  /* [nchunks] priority, downwards */
    uint32_t *rank;    /* [nunits] among equals */
    uint32_t *by_rank; /* [nunits] */
    uint32_t *late;    /* units that open with the next sub-pipeline */
    uint32_t nlate;
    uint32_t *back;        /* classes to put back at the end of the sub-pipeline */
    uint32_t *back_queues; /* resources likewise */
    uint32_t nback, nback_queues;
    uint32_t now;                /* sub-pipeline + 1 */
    uint32_t visiting, priority; /* chunk in hand, CCL_NONE: none */
} hpds_t;

static void *take_bytes(bool *ok, size_t count, size_t size) {
    void *p = calloc(count + 1, size);
    *ok = *ok && p;
    return p;
}

static ccl_status_t hpds_init(hpds_t *h, ccl_error_t *err) {
    const ccl_i_dag_t *d = h->dag;
    uint32_t nr = h->conns->nresources + 1;
    bool ok = true;
    h->nclasses = h->conns->nconns;
    for (uint32_t u = 0; u < d->nunits; u++)
        h->nclasses += d->unit_first[u + 1] - d->unit_first[u] > 1;
    uint32_t nc = h->nclasses;
    h->class_of = take_bytes(&ok, d->nunits, sizeof(uint32_t));
    h->waiting = take_bytes(&ok, d->nunits, sizeof(ccl_i_entry_t));
    h->class_first = take_bytes(&ok, nc + (size_t)1, sizeof(uint32_t));
    h->nwaiting = take_bytes(&ok, nc, sizeof(uint32_t));
    h->resource_of = take_bytes(&ok, nc, sizeof(uint32_t));
    h->class_place.key = take_bytes(&ok, nc, sizeof(ccl_i_entry_t));
    h->class_place.at = take_bytes(&ok, nc, sizeof(uint32_t));
    h->deferred = take_bytes(&ok, nc, sizeof(uint32_t));
    h->back = take_bytes(&ok, nc, sizeof(uint32_t));
    h->queue_items = take_bytes(&ok, nc, sizeof(uint32_t));
    h->queues = take_bytes(&ok, nr, sizeof(queue_t));
    h->resource_place.key = take_bytes(&ok, nr, sizeof(ccl_i_entry_t));
    h->resource_place.at = take_bytes(&ok, nr, sizeof(uint32_t));
    h->resources.items = take_bytes(&ok, nr, sizeof(uint32_t));
    h->dropped = take_bytes(&ok, nr, sizeof(uint32_t));
    h->load_Bps = take_bytes(&ok, nr, sizeof(double));
    h->load_in = take_bytes(&ok, nr, sizeof(uint32_t));
    h->back_queues = take_bytes(&ok, nr, sizeof(uint32_t));
    h->taken = take_bytes(&ok, h->conns->nconns, sizeof(uint32_t));
    h->visits = take_bytes(&ok, d->nchunks, sizeof(uint32_t));
    h->rank = take_bytes(&ok, d->nunits, sizeof(uint32_t));
    h->by_rank = take_bytes(&ok, d->nunits, sizeof(uint32_t));
    h->late = take_bytes(&ok, d->nunits, sizeof(uint32_t));
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

static void hpds_fini(hpds_t *h) {
    free(h->class_of);
    free(h->waiting);
    free(h->class_first);
    free(h->nwaiting);
    free(h->resource_of);
    free(h->class_place.key);
    free(h->class_place.at);
    free(h->deferred);
    free(h->back);
    free(h->queue_items);
    free(h->queues);
    free(h->resource_place.key);
    free(h->resource_place.at);
    free(h->resources.items);
    free(h->dropped);
    free(h->load_Bps);
    free(h->load_in);
    free(h->back_queues);
    free(h->taken);
    free(h->visits);
    free(h->rank);
    free(h->by_rank);
    free(h->late);
}

/* Transfers of figure 4's clusters take at least 2.5 times as long between servers (section 4.3).
 */
enum { LOCAL_COST = 2, NET_COST = 5 };

static uint32_t unit_cost(const hpds_t *h, uint32_t unit) {
    for (uint32_t m = h->dag->unit_first[unit]; m < h->dag->unit_first[unit + 1]; m++) {
        if (h->conns->crosses_net[h->conns->conn_of[m]])
            return NET_COST;
    }
    return LOCAL_COST;
}

/* way_out[unit]: cost of the longest chain of transfers that it begins. */
static ccl_status_t find_ways(const hpds_t *h, uint32_t *way_out, ccl_error_t *err) {
    const ccl_i_dag_t *d = h->dag;
    bool ok = true;
    uint32_t n = 0;
    uint32_t *row = take_bytes(&ok, d->nunits, sizeof *row);
    uint32_t *group_way = take_bytes(&ok, d->ngroups, sizeof *group_way);
    ccl_status_t status = ok ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_dag_walk(d, row, &n, err);
    while (status == CCL_OK && n-- > 0) {
        uint32_t unit = row[n], begin = 2 * d->unit_first[unit], end = 2 * d->unit_first[unit + 1];
        uint32_t way = 0;
        for (uint32_t a = begin; a < end; a++) {
            uint32_t next = d->group_of[a] + 1;
            if (!d->group_starts[next] && group_way[next] > way)
                way = group_way[next];
        }
        way += unit_cost(h, unit);
        way_out[unit] = way;
        for (uint32_t a = begin; a < end; a++) {
            if (group_way[d->group_of[a]] < way)
                group_way[d->group_of[a]] = way;
        }
    }
    free(row);
    free(group_way);
    return status;
}

/* Ranks by step, then chunk; where they do not flow the longest way first. */
static ccl_status_t rank_units(hpds_t *h, bool flowing, ccl_error_t *err) {
    uint32_t n = h->dag->nunits;
    bool ok = true;
    uint64_t *keys = take_bytes(&ok, n, sizeof *keys), *keys_tmp = take_bytes(&ok, n, sizeof *keys);
    uint32_t *tmp = take_bytes(&ok, n, sizeof *tmp), *way = take_bytes(&ok, n, sizeof *way);
    ccl_status_t status = ok ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK && !flowing)
        status = find_ways(h, way, err);
    for (uint32_t u = 0; status == CCL_OK && u < n; u++) {
        /* Ways fit in 31 bits: at most NET_COST for each of 2^24 transfers. */
        keys[u] = (uint64_t)(INT32_MAX - way[u]) << 32 | h->dag->unit_step[u];
        h->by_rank[u] = u;
    }
    if (status == CCL_OK)
        ccl_i_radix_sort(keys, h->by_rank, keys_tmp, tmp, n);
    for (uint32_t i = 0; status == CCL_OK && i < n; i++)
        h->rank[h->by_rank[i]] = i;
    free(keys);
    free(keys_tmp);
    free(tmp);
    free(way);
    return status;
}

/*
 * The resource of the connection with most to do over the whole schedule, by time; the one behind
 * all others, which is never full, where it shares none.
 */
static uint32_t busiest(const hpds_t *h, uint32_t conn, const double *work_s) {
    const ccl_i_conns_t *c = h->conns;
    uint32_t best = c->nresources;
    for (uint32_t i = c->use_first[conn]; i < c->use_first[conn + 1]; i++) {
        if (work_s[c->uses[i]] > work_s[best])
            best = c->uses[i];
    }
    return best;
}

static ccl_status_t make_classes(hpds_t *h, ccl_error_t *err) {
    const ccl_i_dag_t *d = h->dag;
    const ccl_i_conns_t *c = h->conns;
    double *work_s = calloc(c->nresources + (size_t)1, sizeof *work_s); /* per byte of a chunk */
    if (!work_s)
        return ccl_fail_nomem(err);
    for (uint32_t m = 0; m < d->nmembers; m++) {
        uint32_t conn = c->conn_of[m];
        for (uint32_t i = c->use_first[conn]; i < c->use_first[conn + 1]; i++)
            work_s[c->uses[i]] += 1 / c->full_Bps[c->uses[i]];
    }
    for (uint32_t conn = 0; conn < c->nconns; conn++)
        h->resource_of[conn] = busiest(h, conn, work_s);
    for (uint32_t u = 0, class = c->nconns; u < d->nunits; u++) {
        uint32_t m = d->unit_first[u];
        if (d->unit_first[u + 1] - m > 1) {
            h->class_of[u] = class;
            h->resource_of[class ++] = h->resource_of[c->conn_of[m]];
        } else {
            h->class_of[u] = c->conn_of[m];
        }
        h->class_first[h->class_of[u] + 1]++;
    }
    for (uint32_t k = 0; k < h->nclasses; k++) {
        h->class_first[k + 1] += h->class_first[k];
        h->queues[h->resource_of[k]].len++;
        h->class_place.at[k] = CCL_NONE;
    }
    for (uint32_t r = 0, at = 0; r <= c->nresources; r++) {
        h->queues[r].items = h->queue_items + at;
        at += h->queues[r].len;
        h->queues[r].len = 0;
        h->resource_place.at[r] = CCL_NONE;
    }
    free(work_s);
    return CCL_OK;
}

/* The first class of the queue, or its key, has changed. */
static void renew_resource(hpds_t *h, uint32_t r) {
    const queue_t *q = &h->queues[r];
    bool in = h->resource_place.at[r] != CCL_NONE, want = q->len && h->dropped[r] != h->now;
    if (want) {
        h->resource_place.key[r] = h->class_place.key[q->items[0]];
        if (in)
            queue_settle(&h->resources, &h->resource_place, h->resource_place.at[r]);
        else
            queue_add(&h->resources, &h->resource_place, r);
    } else if (in) {
        queue_remove(&h->resources, &h->resource_place, r);
    }
}

/* Its first unit has changed, or the sub-pipeline has no place for it any more or again. */
static void renew_class(hpds_t *h, uint32_t class) {
    queue_t *q = &h->queues[h->resource_of[class]];
    bool in = h->class_place.at[class] != CCL_NONE;
    bool want = h->nwaiting[class] && h->deferred[class] != h->now;
    if (want) {
        h->class_place.key[class] = h->waiting[h->class_first[class]];
        if (in)
            queue_settle(q, &h->class_place, h->class_place.at[class]);
        else
            queue_add(q, &h->class_place, class);
    } else if (in) {
        queue_remove(q, &h->class_place, class);
    }
    if (in || want)
        renew_resource(h, h->resource_of[class]);
}

static void defer(hpds_t *h, uint32_t class) {
    h->deferred[class] = h->now;
    h->back[h->nback++] = class;
    renew_class(h, class);
}

/* An open unit. In the visit that opened it its chunk does not take it. */
static void add_open(uint32_t unit, void *user) {
    hpds_t *h = user;
    uint32_t chunk = h->dag->unit_chunk[unit], class = h->class_of[unit];
    uint32_t visits = h->visits[chunk] + (chunk == h->visiting);
    ccl_i_entries_push(NULL, h->waiting + h->class_first[class], h->nwaiting[class]++,
                       (ccl_i_entry_t){(uint64_t)h->now << 32 | visits, h->rank[unit], chunk});
    renew_class(h, class);
}

static void add_late(uint32_t unit, void *user) {
    hpds_t *h = user;
    h->late[h->nlate++] = unit;
}

static bool is_full(const hpds_t *h, uint32_t resource) {
    return resource < h->conns->nresources && h->load_in[resource] == h->now &&
           h->load_Bps[resource] >= h->conns->full_Bps[resource];
}

static bool fits(const hpds_t *h, uint32_t unit) {
    const ccl_i_conns_t *c = h->conns;
    for (uint32_t m = h->dag->unit_first[unit]; m < h->dag->unit_first[unit + 1]; m++) {
        uint32_t conn = c->conn_of[m];
        if (h->taken[conn] == h->now)
            return false;
        for (uint32_t i = c->use_first[conn]; i < c->use_first[conn + 1]; i++) {
            if (is_full(h, c->uses[i]))
                return false;
        }
    }
    return true;
}

static void load(hpds_t *h, uint32_t unit) {
    const ccl_i_conns_t *c = h->conns;
    for (uint32_t m = h->dag->unit_first[unit]; m < h->dag->unit_first[unit + 1]; m++) {
        uint32_t conn = c->conn_of[m];
        h->taken[conn] = h->now;
        for (uint32_t i = c->use_first[conn]; i < c->use_first[conn + 1]; i++) {
            uint32_t r = c->uses[i];
            h->load_Bps[r] = (h->load_in[r] == h->now ? h->load_Bps[r] : 0) + c->peak_Bps[conn];
            h->load_in[r] = h->now;
        }
    }
}

static void end_visit(hpds_t *h) {
    if (h->visiting != CCL_NONE)
        h->visits[h->visiting]++;
    h->visiting = CCL_NONE;
}

/* Chunks were visited since: new keys for a resource's first classes and their first units. */
static void refresh(hpds_t *h, uint32_t r) {
    queue_t *q = &h->queues[r];
    for (bool stale = true; stale;) {
        uint32_t class = q->items[0];
        ccl_i_entry_t *heap = h->waiting + h->class_first[class];
        for (stale = false; (uint32_t)heap->urgency < h->visits[heap->chunk]; stale = true) {
            heap->urgency = heap->urgency >> 32 << 32 | h->visits[heap->chunk];
            ccl_i_entries_fix(NULL, heap, h->nwaiting[class], 0);
        }
        h->class_place.key[class] = *heap;
        queue_settle(q, &h->class_place, 0);
    }
    renew_resource(h, r);
}

/* One look at the first unit; the unit, if it was taken, else CCL_NONE. */
static uint32_t look(hpds_t *h) {
    uint32_t r = h->resources.items[0], class = h->queues[r].items[0];
    ccl_i_entry_t *heap = h->waiting + h->class_first[class];
    uint32_t chunk = heap->chunk, visits = (uint32_t)heap->urgency, unit = h->by_rank[heap->rank];
    if (visits < h->visits[chunk]) { /* visited since */
        refresh(h, r);
        return CCL_NONE;
    }
    if (h->visiting != CCL_NONE && (chunk != h->visiting || visits != h->priority)) {
        end_visit(h);
        return CCL_NONE;
    }
    if (is_full(h, r)) {
        h->dropped[r] = h->now;
        h->back_queues[h->nback_queues++] = r;
        renew_resource(h, r);
        return CCL_NONE;
    }
    if (!fits(h, unit)) {
        defer(h, class);
        return CCL_NONE;
    }
    h->visiting = chunk;
    h->priority = visits;
    load(h, unit);
    ccl_i_entries_pop(NULL, heap, h->nwaiting[class]--);
    defer(h, class); /* its connection is taken */
    return unit;
}

static void next_pipeline(hpds_t *h) {
    end_visit(h);
    h->now++;
    for (uint32_t i = 0; i < h->nback; i++)
        renew_class(h, h->back[i]);
    for (uint32_t i = 0; i < h->nback_queues; i++)
        renew_resource(h, h->back_queues[i]);
    h->nback = h->nback_queues = 0;
    for (uint32_t i = 0; i < h->nlate; i++)
        add_open(h->late[i], h);
    h->nlate = 0;
}

ccl_status_t ccl_i_order_hpds(const ccl_ctx_t *ctx, ccl_i_dag_t *dag, const ccl_i_conns_t *conns,
                              bool flowing, ccl_progress_t begin, ccl_i_row_t *out,
                              ccl_error_t *err) {
    hpds_t h = {.dag = dag, .conns = conns, .now = 1, .visiting = CCL_NONE};
    uint32_t done = 0, n = dag->nunits - dag->npast;
    ccl_progress_t progress = begin;
    ccl_status_t status = hpds_init(&h, err);
    if (status == CCL_OK)
        status = make_classes(&h, err);
    if (status == CCL_OK)
        status = rank_units(&h, flowing, err);
    for (uint32_t u = 0; status == CCL_OK && u < dag->nunits; u++) {
        if (dag->unit_wait[u] == 0 && !(dag->past && dag->past[u]))
            add_open(u, &h);
    }
    while (status == CCL_OK && done < n) {
        uint32_t before = done;
        progress.done = begin.done + done;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, &progress), status, end);
        while (h.resources.len) {
            uint32_t unit = look(&h);
            if (unit == CCL_NONE)
                continue;
            out->units[done] = unit;
            out->pipelines[done++] = h.now - 1;
            ccl_i_dag_take(dag, unit, flowing ? add_open : add_late, &h);
        }
        if (done == before)
            status = ccl_fail(err, CCL_ERR_INTERNAL, "transfers wait for each other in a cycle");
        else
            next_pipeline(&h);
    }
    if (status == CCL_OK)
        out->npipelines = h.now - 1;
end:
    hpds_fini(&h);
    return status;
}
