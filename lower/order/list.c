/*
 * List scheduling: the transfers run in time, those of a connection one after the other at the rate
 * that it has while all are busy (of every link its share by what it has to carry), and of those
 * that wait for a connection the one with the longest way behind it goes first. So what has far to
 * go leaves early, and what nobody waits for fills the links at the end: a run of trees that flow
 * as pieces drains while all links are busy.
 *
 * Source: Hu 1961 (highest level first).
 */
#include "lower/order/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct list {
    ccl_i_dag_t *dag;
    const ccl_i_conns_t *conns;
    const double *chunk_bytes; /* [nchunks] */
    double *rate_Bps;          /* [nconns] */
    uint32_t *rank, *by_rank;  /* [nunits] longest way first */
    uint32_t *conn_first;      /* [nconns + 1] into waiting, by the unit's first member */
    ccl_i_entry_t *waiting;    /* heaps of ranks */
    uint32_t *nwaiting;        /* [nconns] */
    uint8_t *busy;             /* [nconns] */
    ccl_i_entry_t *events;     /* heap: time as bits; a unit that arrives, or nunits + a
                                  connection that is free */
    uint32_t nevents;
    double now_s;
    ccl_i_entry_t *fresh; /* heap: first units of connections on which one may start */
    uint32_t nfresh;
    uint32_t *touched, ntouched; /* connections with a new unit, or free again */
    uint8_t *is_touched;         /* [nconns] */
    uint32_t *order, done;
} list_t;

static void *take_bytes(bool *ok, size_t count, size_t size) {
    void *p = calloc(count + 1, size);

    *ok = *ok && p;
    return p;
}

static uint64_t bits_of(double s) { /* not negative: as numbers, so as bits */
    uint64_t bits;

    memcpy(&bits, &s, sizeof bits);
    return bits;
}

static double bytes_of(const list_t *l, uint32_t unit) {
    return l->chunk_bytes[l->dag->unit_chunk[unit]];
}

/* What a unit keeps its connection busy, and from its start until what waits for it may go. */
static double send_s(const list_t *l, uint32_t unit) {
    return bytes_of(l, unit) / l->rate_Bps[l->conns->conn_of[l->dag->unit_first[unit]]];
}

static double unit_s(const list_t *l, uint32_t unit) {
    double s = 0;

    for (uint32_t m = l->dag->unit_first[unit]; m < l->dag->unit_first[unit + 1]; m++) {
        uint32_t conn = l->conns->conn_of[m];

        s = fmax(s, bytes_of(l, unit) / l->rate_Bps[conn] + l->conns->delay_s[conn]);
    }
    return s;
}

static ccl_status_t find_rates(list_t *l, ccl_error_t *err) {
    const ccl_i_conns_t *c = l->conns;
    bool ok = true;
    double *load = take_bytes(&ok, c->nresources, sizeof *load);
    double *mine = take_bytes(&ok, c->nconns, sizeof *mine);

    for (uint32_t u = 0; ok && u < l->dag->nunits; u++) {
        for (uint32_t m = l->dag->unit_first[u]; m < l->dag->unit_first[u + 1]; m++)
            mine[c->conn_of[m]] += bytes_of(l, u);
    }
    for (uint32_t k = 0; ok && k < c->nconns; k++) {
        for (uint32_t i = c->use_first[k]; i < c->use_first[k + 1]; i++)
            load[c->uses[i]] += mine[k];
    }
    for (uint32_t k = 0; ok && k < c->nconns; k++) {
        l->rate_Bps[k] = c->peak_Bps[k];
        for (uint32_t i = c->use_first[k]; i < c->use_first[k + 1]; i++)
            l->rate_Bps[k] =
                fmin(l->rate_Bps[k], c->capacity_Bps[c->uses[i]] * mine[k] / load[c->uses[i]]);
    }
    free(load);
    free(mine);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* way_out[unit]: seconds of the longest chain of transfers that it begins. */
static ccl_status_t find_ways(list_t *l, double *way_out, ccl_error_t *err) {
    const ccl_i_dag_t *d = l->dag;
    bool ok = true;
    uint32_t *row = take_bytes(&ok, d->nunits, sizeof *row), n = 0;
    double *group_way = take_bytes(&ok, d->ngroups, sizeof *group_way);
    ccl_status_t status = ok ? ccl_i_dag_walk(d, row, &n, err) : ccl_fail_nomem(err);

    while (status == CCL_OK && n-- > 0) {
        uint32_t unit = row[n];
        uint32_t begin = 2 * d->unit_first[unit], end = 2 * d->unit_first[unit + 1];
        double way = 0;

        for (uint32_t a = begin; a < end; a++) {
            uint32_t next = d->group_of[a] + 1;

            if (!d->group_starts[next])
                way = fmax(way, group_way[next]);
        }
        way_out[unit] = way += unit_s(l, unit);
        for (uint32_t a = begin; a < end; a++)
            group_way[d->group_of[a]] = fmax(group_way[d->group_of[a]], way);
    }
    free(row);
    free(group_way);
    return status;
}

typedef struct by_way {
    double way;
    uint32_t step, unit;
} by_way_t;

static int longest_first(const void *a, const void *b) {
    const by_way_t *x = a, *y = b;

    if (x->way != y->way)
        return x->way > y->way ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static ccl_status_t rank_units(list_t *l, ccl_error_t *err) {
    uint32_t n = l->dag->nunits;
    bool ok = true;
    by_way_t *items = take_bytes(&ok, n, sizeof *items);
    double *way = take_bytes(&ok, n, sizeof *way);
    ccl_status_t status = ok ? find_ways(l, way, err) : ccl_fail_nomem(err);

    for (uint32_t u = 0; status == CCL_OK && u < n;
         u++) /* reductions in another order are one way */
        items[u] = (by_way_t){round(way[u] * 1e12), l->dag->unit_step[u], u};
    if (status == CCL_OK)
        qsort(items, n, sizeof *items, longest_first);
    for (uint32_t i = 0; status == CCL_OK && i < n; i++) {
        l->by_rank[i] = items[i].unit;
        l->rank[items[i].unit] = i;
    }
    free(items);
    free(way);
    return status;
}

static ccl_status_t list_init(list_t *l, ccl_error_t *err) {
    const ccl_i_dag_t *d = l->dag;
    const ccl_i_conns_t *c = l->conns;
    bool ok = true;

    l->rate_Bps = take_bytes(&ok, c->nconns, sizeof(double));
    l->rank = take_bytes(&ok, d->nunits, sizeof(uint32_t));
    l->by_rank = take_bytes(&ok, d->nunits, sizeof(uint32_t));
    l->conn_first = take_bytes(&ok, c->nconns + (size_t)1, sizeof(uint32_t));
    l->waiting = take_bytes(&ok, d->nunits, sizeof(ccl_i_entry_t));
    l->nwaiting = take_bytes(&ok, c->nconns, sizeof(uint32_t));
    l->busy = take_bytes(&ok, c->nconns, 1);
    /* A unit that is under way arrives; a connection is free once at a time. */
    l->events = take_bytes(&ok, d->nunits + (size_t)c->nconns, sizeof(ccl_i_entry_t));
    l->fresh = take_bytes(&ok, c->nconns, sizeof(ccl_i_entry_t));
    l->touched = take_bytes(&ok, c->nconns, sizeof(uint32_t));
    l->is_touched = take_bytes(&ok, c->nconns, 1);
    for (uint32_t u = 0; ok && u < d->nunits; u++)
        l->conn_first[c->conn_of[d->unit_first[u]] + 1]++;
    for (uint32_t k = 0; ok && k < c->nconns; k++)
        l->conn_first[k + 1] += l->conn_first[k];
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

static void list_fini(list_t *l) {
    free(l->rate_Bps);
    free(l->rank);
    free(l->by_rank);
    free(l->conn_first);
    free(l->waiting);
    free(l->nwaiting);
    free(l->busy);
    free(l->events);
    free(l->fresh);
    free(l->touched);
    free(l->is_touched);
}

static void touch(list_t *l, uint32_t conn) {
    if (!l->is_touched[conn])
        l->touched[l->ntouched++] = conn;
    l->is_touched[conn] = 1;
}

static void add_ready(uint32_t unit, void *user) {
    list_t *l = user;
    uint32_t conn = l->conns->conn_of[l->dag->unit_first[unit]];

    ccl_i_entries_push(NULL, l->waiting + l->conn_first[conn], l->nwaiting[conn]++,
                       (ccl_i_entry_t){0, l->rank[unit], 0});
    touch(l, conn);
}

static void add_event(list_t *l, double after_s, uint32_t what) {
    ccl_i_entries_push(NULL, l->events, l->nevents++,
                       (ccl_i_entry_t){bits_of(l->now_s + after_s), what, 0});
}

static void start(list_t *l, uint32_t conn) {
    uint32_t unit =
        l->by_rank[ccl_i_entries_pop(NULL, l->waiting + l->conn_first[conn], l->nwaiting[conn]--)
                       .rank];

    l->order[l->done++] = unit;
    l->busy[conn] = 1;
    add_event(l, send_s(l, unit), l->dag->nunits + conn);
    add_event(l, unit_s(l, unit), unit);
}

/* All that can start now, first the longest way. */
static void start_all(list_t *l) {
    for (uint32_t i = 0; i < l->ntouched; i++) {
        uint32_t conn = l->touched[i];

        l->is_touched[conn] = 0;
        if (!l->busy[conn] && l->nwaiting[conn])
            ccl_i_entries_push(NULL, l->fresh, l->nfresh++,
                               (ccl_i_entry_t){0, l->waiting[l->conn_first[conn]].rank, conn});
    }
    l->ntouched = 0;
    while (l->nfresh)
        start(l, ccl_i_entries_pop(NULL, l->fresh, l->nfresh--).chunk);
}

static void happen(list_t *l, uint32_t what) {
    if (what < l->dag->nunits) {
        ccl_i_dag_take(l->dag, what, add_ready, l);
        return;
    }
    l->busy[what - l->dag->nunits] = 0;
    touch(l, what - l->dag->nunits);
}

/* Fills the order. */
static ccl_status_t run(const ccl_ctx_t *ctx, list_t *l, ccl_error_t *err) {
    enum { TELL = 4096 };
    ccl_progress_t progress = {.phase = "order", .total = l->dag->nunits};

    for (uint32_t u = 0; u < l->dag->nunits; u++) {
        if (l->dag->unit_wait[u] == 0)
            add_ready(u, l);
    }
    for (;;) {
        start_all(l);
        if (l->nevents == 0)
            break;
        memcpy(&l->now_s, &l->events[0].urgency, sizeof l->now_s);
        /* What happens at once happens before anything starts. */
        for (const uint64_t last = bits_of(l->now_s * (1 + 1e-12));
             l->nevents && l->events[0].urgency <= last;)
            happen(l, ccl_i_entries_pop(NULL, l->events, l->nevents--).rank);
        if (l->done - progress.done >= TELL) {
            progress.done = l->done;
            CCL_TRY(ccl_ctx_poll(ctx, &progress));
        }
    }
    if (l->done < l->dag->nunits)
        return ccl_fail(err, CCL_ERR_INTERNAL, "transfers wait for each other in a cycle");
    return CCL_OK;
}

ccl_status_t ccl_i_order_list(const ccl_ctx_t *ctx, ccl_i_dag_t *dag, const ccl_i_conns_t *conns,
                              const double *chunk_bytes, uint32_t *order_out, ccl_error_t *err) {
    list_t l = {.dag = dag, .conns = conns, .chunk_bytes = chunk_bytes, .order = order_out};
    ccl_status_t status = list_init(&l, err);

    if (status == CCL_OK)
        status = find_rates(&l, err);
    if (status == CCL_OK)
        status = rank_units(&l, err);
    if (status == CCL_OK)
        status = run(ctx, &l, err);
    list_fini(&l);
    return status;
}
