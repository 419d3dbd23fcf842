/*
 * A schedule of many small pieces for links alone, so that it fills and drains well: the order by
 * list scheduling, and connections such that this order is kept. A link that one pair of GPUs has
 * to itself is one queue: pieces go over several channels in turn only because a FIFO holds few of
 * them. Links that pairs share are divided fairly among connections, so these are as many for each
 * queue as it has to carry.
 */
#include "lower/lower_i.h"
#include "lower/order/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LANES = 16 };

typedef struct flow {
    const ccl_schedule_t *schedule;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_dag_t dag;
    ccl_i_conns_t conns; /* conn_of becomes the queue: the first connection of those that are one */
    double *chunk_bytes; /* [nchunks] */
    uint32_t *order;     /* [nunits] */
    const ccl_transfer_t **first; /* [nconns] a transfer of it */
    uint32_t *queue;              /* [nconns] connection that stands for it */
    uint8_t *alone;               /* [nconns] no other pair of GPUs uses its links */
    double *bytes;                /* [nconns] of a queue */
    uint32_t *pieces, *sent;      /* [nconns] transfers of a queue, and those given a lane */
    uint32_t *lanes;              /* [nconns] channels of a queue */
} flow_t;

static ccl_status_t flow_init(flow_t *f, double size_bytes, ccl_error_t *err) {
    const ccl_collective_t *coll = f->schedule->coll;
    size_t n;

    CCL_TRY(ccl_i_dag_init(&f->dag, f->schedule, false, err));
    CCL_TRY(ccl_i_conns_init(&f->conns, f->schedule, &f->dag, f->topo, f->routes, err));
    n = f->conns.nconns + (size_t)1;
    f->chunk_bytes = calloc(coll->nchunks + (size_t)1, sizeof *f->chunk_bytes);
    f->order = calloc(f->dag.nunits + (size_t)1, sizeof *f->order);
    f->first = calloc(n, sizeof(const ccl_transfer_t *));
    f->queue = calloc(n, sizeof *f->queue);
    f->alone = calloc(n, sizeof *f->alone);
    f->bytes = calloc(n, sizeof *f->bytes);
    f->pieces = calloc(n, sizeof *f->pieces);
    f->sent = calloc(n, sizeof *f->sent);
    f->lanes = calloc(n, sizeof *f->lanes);
    if (!f->chunk_bytes || !f->order || !f->first || !f->queue || !f->alone || !f->bytes ||
        !f->pieces || !f->sent || !f->lanes)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < coll->nchunks; c++)
        f->chunk_bytes[c] = coll->chunks[c].share * size_bytes;
    for (uint32_t m = f->dag.nmembers; m-- > 0;)
        f->first[f->conns.conn_of[m]] = &f->schedule->transfers[f->dag.transfer[m]];
    return CCL_OK;
}

static void flow_fini(flow_t *f) {
    ccl_i_dag_fini(&f->dag);
    ccl_i_conns_fini(&f->conns);
    free(f->chunk_bytes);
    free(f->order);
    free(f->first);
    free(f->queue);
    free(f->alone);
    free(f->bytes);
    free(f->pieces);
    free(f->sent);
    free(f->lanes);
}

static bool same_pair(const flow_t *f, uint32_t a, uint32_t b) {
    return f->first[a]->src == f->first[b]->src && f->first[a]->dst == f->first[b]->dst;
}

/* Which connections have their links to themselves. */
static ccl_status_t find_alone(flow_t *f, ccl_error_t *err) {
    const ccl_i_conns_t *c = &f->conns;
    uint32_t *user = malloc((c->nresources + (size_t)1) * sizeof *user);
    uint8_t *shared = calloc(c->nresources + (size_t)1, 1);

    if (!user || !shared) {
        free(user);
        free(shared);
        return ccl_fail_nomem(err);
    }
    memset(user, 0xff, c->nresources * sizeof *user);
    for (uint32_t k = 0; k < c->nconns; k++) {
        for (uint32_t i = c->use_first[k]; i < c->use_first[k + 1]; i++) {
            uint32_t *first = &user[c->uses[i]];

            *first = *first == CCL_NONE ? k : *first;
            shared[c->uses[i]] |= !same_pair(f, *first, k);
        }
    }
    for (uint32_t k = 0; k < c->nconns; k++) {
        f->alone[k] = 1;
        for (uint32_t i = c->use_first[k]; i < c->use_first[k + 1]; i++)
            f->alone[k] &= !shared[c->uses[i]];
    }
    free(user);
    free(shared);
    return CCL_OK;
}

/* Of equal routes that of a channel. */
static uint32_t route_of(const flow_t *f, const ccl_transfer_t *t) {
    uint32_t width = ccl_routes_width(f->routes, t->src, t->dst);

    return width > 1 ? t->channel % width : 0;
}

typedef struct way {
    uint32_t src, dst, route, conn;
} way_t;

static int by_way(const void *a, const void *b) {
    const way_t *x = a, *y = b;

    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    if (x->route != y->route)
        return x->route < y->route ? -1 : 1;
    return x->conn < y->conn ? -1 : x->conn > y->conn;
}

/* Connections that have their links to themselves are, over one route, one queue. */
static ccl_status_t find_queues(flow_t *f, ccl_error_t *err) {
    uint32_t n = f->conns.nconns;
    way_t *ways = calloc(n + (size_t)1, sizeof *ways);

    if (!ways)
        return ccl_fail_nomem(err);
    for (uint32_t k = 0; k < n; k++)
        ways[k] = (way_t){f->first[k]->src, f->first[k]->dst, route_of(f, f->first[k]), k};
    qsort(ways, n, sizeof *ways, by_way);
    for (uint32_t i = 0; i < n; i++) {
        const way_t *w = &ways[i], *before = i ? &ways[i - 1] : NULL;
        bool same =
            before && before->src == w->src && before->dst == w->dst && before->route == w->route;

        f->queue[w->conn] = same && f->alone[w->conn] ? f->queue[before->conn] : w->conn;
    }
    free(ways);
    for (uint32_t m = 0; m < f->dag.nmembers; m++) {
        uint32_t q = f->queue[f->conns.conn_of[m]];

        f->conns.conn_of[m] = q;
        f->bytes[q] += f->chunk_bytes[f->dag.unit_chunk[f->dag.unit_of[m]]];
        f->pieces[q]++;
    }
    return CCL_OK;
}

/* As many lanes as hold in their slots what is under way when the link is busy. */
static ccl_status_t lanes_alone(const flow_t *f, uint32_t q, double *out, ccl_error_t *err) {
    const ccl_route_t *route;
    ccl_transport_t transport;

    CCL_TRY(ccl_routes_get(f->routes, f->first[q]->src, f->first[q]->dst, f->first[q]->channel,
                           &route, err));
    transport = ccl_model_transport(f->topo, ccl_model_route_kind(f->topo, route), "Simple");
    *out = 1;
    if (transport.slots && f->bytes[q] > 0)
        *out =
            ceil((1 + 2 * f->conns.delay_s[q] * f->conns.peak_Bps[q] * f->pieces[q] / f->bytes[q]) /
                 transport.slots * (1 - 1e-9));
    return CCL_OK;
}

static ccl_status_t find_lanes(flow_t *f, ccl_error_t *err) {
    double least = INFINITY, most = 0;

    for (uint32_t q = 0; q < f->conns.nconns; q++) {
        if (f->pieces[q] && !f->alone[q]) {
            least = fmin(least, f->bytes[q]);
            most = fmax(most, f->bytes[q]);
        }
    }
    least = fmax(least, most / MOST_LANES);
    for (uint32_t q = 0; q < f->conns.nconns; q++) {
        double lanes = least > 0 ? round(f->bytes[q] / least) : 1;

        if (f->alone[q] && f->pieces[q])
            CCL_TRY(lanes_alone(f, q, &lanes, err));
        lanes = fmax(1, fmin(lanes, fmin(MOST_LANES, f->pieces[q])));
        f->lanes[q] = (uint32_t)lanes;
    }
    return CCL_OK;
}

/* The channel of a queue's next transfer: lanes in turn, all of them over the same route. Those of
   a queue that has its links to itself need not differ from another queue's. */
static uint16_t next_channel(flow_t *f, uint32_t q, uint32_t stride) {
    const ccl_transfer_t *t = f->first[q];
    uint32_t lane = f->sent[q]++ % f->lanes[q], width;

    if (!f->alone[q])
        return (uint16_t)(t->channel + lane * stride);
    width = ccl_routes_width(f->routes, t->src, t->dst);
    return (uint16_t)(route_of(f, t) + lane * (width ? width : 1));
}

/* From a lane to the next: above all channels, and no other choice among equal routes. */
static uint32_t lane_stride(const flow_t *f) {
    uint32_t all = 1, nchannels = f->schedule->nchannels;

    for (uint32_t q = 0; q < f->conns.nconns; q++) {
        uint32_t width = ccl_routes_width(f->routes, f->first[q]->src, f->first[q]->dst);

        if (width > 1 && all / (uint32_t)ccl_gcd(all, width) * width <= 64)
            all = all / (uint32_t)ccl_gcd(all, width) * width;
    }
    return (nchannels + all - 1) / all * all;
}

static ccl_status_t rebuild(flow_t *f, ccl_schedule_t **out, ccl_error_t *err) {
    const uint32_t stride = lane_stride(f);
    ccl_collective_t *coll;
    ccl_schedule_builder_t *b;

    CCL_TRY(ccl_collective_clone(f->schedule->coll, &coll, err));
    b = ccl_schedule_builder_create(f->schedule->name, coll);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < f->dag.nunits; i++) {
        uint32_t u = f->order[i];

        for (uint32_t m = f->dag.unit_first[u]; m < f->dag.unit_first[u + 1]; m++) {
            ccl_transfer_t t = f->schedule->transfers[f->dag.transfer[m]];

            t.step = i;
            t.channel = next_channel(f, f->conns.conn_of[m], stride);
            ccl_schedule_builder_add(b, t);
        }
    }
    CCL_TRY(ccl_schedule_builder_finish(b, out, err));
    (*out)->limited = f->schedule->limited;
    (*out)->piece_bytes = f->schedule->piece_bytes;
    return CCL_OK;
}

ccl_status_t ccl_schedule_order_list(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                     const ccl_topology_t *topo, ccl_routes_t *routes,
                                     double size_bytes, ccl_schedule_t **out, ccl_error_t *err) {
    flow_t f = {.schedule = schedule, .topo = topo, .routes = routes};
    CCL_TRY(ccl_schedule_refuse_groups(schedule, "list scheduling", err));
    ccl_status_t status = flow_init(&f, size_bytes, err);

    if (status == CCL_OK)
        status = find_alone(&f, err);
    if (status == CCL_OK)
        status = find_queues(&f, err);
    if (status == CCL_OK)
        status = ccl_i_order_list(ctx, &f.dag, &f.conns, f.chunk_bytes, f.order, err);
    if (status == CCL_OK)
        status = find_lanes(&f, err);
    if (status == CCL_OK)
        status = rebuild(&f, out, err);
    flow_fini(&f);
    return status;
}
