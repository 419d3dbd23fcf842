/**
 * @file engine.c
 * Event loop and exclusive links (docs/model.md "Flows").
 */
#include "sim/engine.h"

#include <math.h>
#include <stdlib.h>

#define KIND_EMPTY 0xffffffffu
/* Width of an instant, relative: far above rounding, far below anything that is told apart. */
#define INSTANT 2e-13

/* How many events ahead what they need is fetched into the cache, by stage. */
static const uint32_t SOON[3] = {18, 12, 6};

/* A request for all links of a route; it runs when it heads every link's queue. */
typedef struct request {
    double bytes;
    const ccl_route_t *route;
    uint32_t path, flow, heads;
    uint32_t next_free;
} request_t;

/* Requests of one instant queue up in this order. */
typedef struct fresh {
    uint32_t rank, tb, seq, request;
} fresh_t;

typedef struct node {
    uint32_t request, next;
} node_t;

typedef struct link_queue {
    uint32_t head, tail; /* nodes */
} link_queue_t;

typedef struct queued {
    uint32_t kind, id, next;
} queued_t;

typedef struct list {
    double time_s; /* NAN: free */
    uint32_t head, tail;
} list_t;

struct ccl_i_engine {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_i_engine_ops_t *ops;
    void *user;
    ccl_sharing_t sharing;
    ccl_i_net_t *net;
    /* Timers that fire at exactly one time are common (symmetric programs): they share one place in
       the heap, a list in order of insertion. */
    ccl_i_event_t *heap; /* .id: the list; .kind unused */
    size_t nheap, cheap;
    list_t *lists;
    uint32_t nlists, free_list;
    size_t clists;
    queued_t *timers;
    uint32_t ntimers, free_timer, live_timers;
    size_t ctimers;
    uint32_t recent[4], next_recent; /* lists that were added to last */
    ccl_i_event_t *pending;
    size_t cpending;
    uint64_t seq, events;
    bool nomem;
    /* exclusive sharing */
    link_queue_t *links;
    request_t *requests;
    uint32_t nrequests, free_request;
    size_t crequests;
    node_t *nodes;
    uint32_t nnodes, free_node;
    size_t cnodes;
    fresh_t *fresh; /* requests of this instant */
    uint32_t nfresh;
    size_t cfresh;
    uint32_t *ready; /* requests that may run when the instant is over */
    uint32_t nready;
    size_t cready;
};

ccl_i_engine_t *ccl_i_engine_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                    ccl_sharing_t sharing, const ccl_i_engine_ops_t *ops,
                                    void *user) {
    ccl_i_engine_t *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    *e = (ccl_i_engine_t){.ctx = ctx,
                          .topo = topo,
                          .ops = ops,
                          .user = user,
                          .sharing = sharing,
                          .free_request = CCL_NONE,
                          .free_list = CCL_NONE,
                          .free_timer = CCL_NONE,
                          .recent = {CCL_NONE, CCL_NONE, CCL_NONE, CCL_NONE},
                          .free_node = CCL_NONE};
    e->net = ccl_i_net_create(topo, sharing == CCL_SHARING_FAIR);
    bool ok = e->net != NULL;
    if (ok && sharing == CCL_SHARING_EXCLUSIVE) {
        e->links = malloc((topo->nlinks + 1u) * sizeof(*e->links));
        ok = e->links != NULL;
        for (uint32_t i = 0; ok && i < topo->nlinks; i++)
            e->links[i] = (link_queue_t){CCL_NONE, CCL_NONE};
    }
    if (!ok) {
        ccl_i_engine_destroy(e);
        return NULL;
    }
    return e;
}

void ccl_i_engine_destroy(ccl_i_engine_t *e) {
    if (!e)
        return;
    ccl_i_net_destroy(e->net);
    free(e->heap);
    free(e->lists);
    free(e->timers);
    free(e->pending);
    free(e->links);
    free(e->requests);
    free(e->nodes);
    free(e->fresh);
    free(e->ready);
    free(e);
}

ccl_i_net_t *ccl_i_engine_net(ccl_i_engine_t *e) {
    return e->net;
}

uint64_t ccl_i_engine_events(const ccl_i_engine_t *e) {
    return e->events;
}

/* ---------------------------------------------------------------- timers */

static inline bool before(const ccl_i_event_t *a, const ccl_i_event_t *b) {
    return a->time_s < b->time_s || (a->time_s == b->time_s && a->seq < b->seq);
}

/* A list for this time: one added to lately, or a new one in the heap. */
static uint32_t list_at(ccl_i_engine_t *e, double time_s) {
    for (int i = 0; i < 4; i++)
        if (e->recent[i] != CCL_NONE && e->lists[e->recent[i]].time_s == time_s)
            return e->recent[i];
    if (!ccl_i_grow(&e->heap, &e->cheap, e->nheap + 1, sizeof(*e->heap)))
        return CCL_NONE;
    uint32_t list = e->free_list;
    if (list != CCL_NONE) {
        e->free_list = e->lists[list].head;
    } else {
        if (!ccl_i_grow(&e->lists, &e->clists, e->nlists + 1u, sizeof(*e->lists)))
            return CCL_NONE;
        list = e->nlists++;
    }
    e->lists[list] = (list_t){time_s, CCL_NONE, CCL_NONE};
    e->recent[e->next_recent++ & 3] = list;
    ccl_i_event_t item = {time_s, e->seq++, 0, list};
    size_t at = e->nheap++;
    while (at > 0) {
        size_t up = (at - 1) / 4;
        if (!before(&item, &e->heap[up]))
            break;
        e->heap[at] = e->heap[up];
        at = up;
    }
    e->heap[at] = item;
    return list;
}

void ccl_i_engine_at(ccl_i_engine_t *e, double time_s, uint32_t kind, uint32_t id) {
    uint32_t t = e->free_timer;
    if (t != CCL_NONE) {
        e->free_timer = e->timers[t].next;
    } else {
        if (!ccl_i_grow(&e->timers, &e->ctimers, e->ntimers + 1u, sizeof(*e->timers))) {
            e->nomem = true;
            return;
        }
        t = e->ntimers++;
    }
    uint32_t list = list_at(e, time_s);
    if (list == CCL_NONE) {
        e->nomem = true;
        return;
    }
    list_t *l = &e->lists[list];
    e->timers[t] = (queued_t){kind, id, CCL_NONE};
    if (l->head == CCL_NONE)
        l->head = t;
    else
        e->timers[l->tail].next = t;
    l->tail = t;
    e->live_timers++;
}

/* Drop the heap's first list, which is empty. */
static void drop_first(ccl_i_engine_t *e) {
    uint32_t list = e->heap[0].id;
    e->lists[list] = (list_t){NAN, e->free_list, CCL_NONE};
    e->free_list = list;
    ccl_i_event_t item = e->heap[--e->nheap];
    size_t at = 0;
    for (;;) {
        size_t kid = 4 * at + 1, best, end;
        if (kid >= e->nheap)
            break;
        end = kid + 4 < e->nheap ? kid + 4 : e->nheap;
        for (best = kid++; kid < end; kid++)
            if (before(&e->heap[kid], &e->heap[best]))
                best = kid;
        if (!before(&e->heap[best], &item))
            break;
        e->heap[at] = e->heap[best];
        at = best;
    }
    if (e->nheap)
        e->heap[at] = item;
}

/* Timers are mostly set one after another, and fire in that order. */
static void soon_timers(const ccl_i_engine_t *e, uint32_t t) {
    for (int i = 0; i < 3; i++)
        if (t + SOON[i] < e->ntimers)
            e->ops->soon(e->user, e->timers[t + SOON[i]].kind, e->timers[t + SOON[i]].id, i);
}

static ccl_i_event_t pop(ccl_i_engine_t *e) {
    list_t *l = &e->lists[e->heap[0].id];
    uint32_t t = l->head;
    ccl_i_event_t top = {e->heap[0].time_s, e->heap[0].seq, e->timers[t].kind, e->timers[t].id};
    l->head = e->timers[t].next;
    e->timers[t].next = e->free_timer;
    e->free_timer = t;
    e->live_timers--;
    if (e->ops->soon)
        soon_timers(e, t);
    if (l->head == CCL_NONE)
        drop_first(e);
    return top;
}

const ccl_i_event_t *ccl_i_engine_pending(ccl_i_engine_t *e, size_t *len_out) {
    *len_out = 0;
    if (e->live_timers == 0 ||
        !ccl_i_grow(&e->pending, &e->cpending, e->live_timers, sizeof(*e->pending)))
        return NULL;
    for (size_t i = 0; i < e->nheap; i++)
        for (uint32_t t = e->lists[e->heap[i].id].head; t != CCL_NONE; t = e->timers[t].next)
            e->pending[(*len_out)++] = (ccl_i_event_t){e->heap[i].time_s, e->heap[i].seq,
                                                       e->timers[t].kind, e->timers[t].id};
    return e->pending;
}

void ccl_i_engine_shift(ccl_i_engine_t *e, double shift_s) {
    for (size_t i = 0; i < e->nheap; i++) { /* adding the same keeps the heap's order */
        e->heap[i].time_s += shift_s;
        e->lists[e->heap[i].id].time_s = e->heap[i].time_s;
    }
    ccl_i_net_shift(e->net, shift_s);
}

/* ---------------------------------------------------------------- flows */

void ccl_i_engine_flow(ccl_i_engine_t *e, double time_s, const ccl_i_engine_flow_t *f) {
    if (!(f->bytes > 0)) { /* drains at once, needs no links */
        ccl_i_engine_at(e, time_s, KIND_EMPTY, f->flow);
        return;
    }
    if (e->sharing == CCL_SHARING_FAIR) {
        if (!ccl_i_net_start(e->net, f->path, f->bytes, f->flow))
            e->nomem = true;
        return;
    }
    uint32_t r = e->free_request;
    if (r != CCL_NONE) {
        e->free_request = e->requests[r].next_free;
    } else {
        if (!ccl_i_grow(&e->requests, &e->crequests, e->nrequests + 1u, sizeof(*e->requests))) {
            e->nomem = true;
            return;
        }
        r = e->nrequests++;
    }
    if (!ccl_i_grow(&e->fresh, &e->cfresh, e->nfresh + 1u, sizeof(*e->fresh))) {
        e->nomem = true;
        return;
    }
    e->requests[r] = (request_t){f->bytes, f->route, f->path, f->flow, 0, CCL_NONE};
    e->fresh[e->nfresh] = (fresh_t){f->rank, f->tb, e->nfresh, r};
    e->nfresh++;
}

static void make_ready(ccl_i_engine_t *e, uint32_t r) {
    if (++e->requests[r].heads < e->requests[r].route->nlinks)
        return;
    if (!ccl_i_grow(&e->ready, &e->cready, e->nready + 1u, sizeof(*e->ready))) {
        e->nomem = true;
        return;
    }
    e->ready[e->nready++] = r;
}

static void enqueue(ccl_i_engine_t *e, uint32_t r) {
    const ccl_route_t *route = e->requests[r].route;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        link_queue_t *q = &e->links[route->links[i]];
        uint32_t n = e->free_node;
        if (n != CCL_NONE) {
            e->free_node = e->nodes[n].next;
        } else {
            if (!ccl_i_grow(&e->nodes, &e->cnodes, e->nnodes + 1u, sizeof(*e->nodes))) {
                e->nomem = true;
                return;
            }
            n = e->nnodes++;
        }
        e->nodes[n] = (node_t){r, CCL_NONE};
        if (q->head == CCL_NONE)
            q->head = n;
        else
            e->nodes[q->tail].next = n;
        q->tail = n;
        if (q->head == n)
            make_ready(e, r);
    }
}

static void release(ccl_i_engine_t *e, uint32_t r) {
    const ccl_route_t *route = e->requests[r].route;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        link_queue_t *q = &e->links[route->links[i]];
        uint32_t n = q->head;
        q->head = e->nodes[n].next;
        e->nodes[n].next = e->free_node;
        e->free_node = n;
        if (q->head != CCL_NONE)
            make_ready(e, e->nodes[q->head].request);
    }
    e->requests[r].next_free = e->free_request;
    e->free_request = r;
}

static int by_rank(const void *a, const void *b) {
    const fresh_t *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->tb != y->tb)
        return x->tb < y->tb ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The instant is over: its requests queue up, and whoever heads all its queues starts. */
static void grant(ccl_i_engine_t *e, double time_s) {
    qsort(e->fresh, e->nfresh, sizeof(*e->fresh), by_rank);
    for (uint32_t i = 0; i < e->nfresh; i++)
        enqueue(e, e->fresh[i].request);
    e->nfresh = 0;
    for (uint32_t i = 0; i < e->nready; i++) {
        uint32_t r = e->ready[i];
        if (e->ops->granted)
            e->ops->granted(e->user, e->requests[r].flow, time_s);
        if (!ccl_i_net_start(e->net, e->requests[r].path, e->requests[r].bytes, r))
            e->nomem = true;
    }
    e->nready = 0;
}

static void drained(ccl_i_engine_t *e, uint32_t id, double time_s) {
    uint32_t flow = id;
    e->events++;
    if (e->sharing == CCL_SHARING_EXCLUSIVE) {
        flow = e->requests[id].flow;
        release(e, id);
    }
    e->ops->drained(e->user, flow, time_s);
}

/* ---------------------------------------------------------------- the loop */

ccl_status_t ccl_i_engine_run(ccl_i_engine_t *e, ccl_error_t *err) {
    uint64_t rounds = 0;
    for (;;) {
        double now = ccl_i_net_next_s(e->net);
        if (e->nheap && e->heap[0].time_s < now)
            now = e->heap[0].time_s;
        if (e->nomem)
            return ccl_fail_nomem(err);
        if (now == INFINITY) {
            if (ccl_i_net_active(e->net) > 0)
                return ccl_fail(err, CCL_ERR_INTERNAL, "%u flows without bandwidth at the end",
                                ccl_i_net_active(e->net));
            return CCL_OK;
        }
        double until = now * (1 + INSTANT);
        if (e->sharing == CCL_SHARING_EXCLUSIVE && until < now + 1e-12)
            until = now + 1e-12;
        for (;;) {
            while (e->nheap && e->heap[0].time_s <= until) {
                ccl_i_event_t ev = pop(e);
                e->events++;
                if (ev.kind == KIND_EMPTY)
                    e->ops->drained(e->user, ev.id, now);
                else
                    e->ops->event(e->user, ev.kind, ev.id, now);
            }
            const ccl_i_drained_t *list;
            size_t n = ccl_i_net_take(e->net, until, &list);
            bool soon = e->ops->soon && e->sharing == CCL_SHARING_FAIR;
            for (size_t i = 0; i < n; i++) {
                for (int k = 0; soon && k < 3; k++)
                    if (i + SOON[k] < n)
                        e->ops->soon(e->user, CCL_I_DRAINED, list[i + SOON[k]].user, k);
                drained(e, list[i].user, now);
            }
            if (!e->nheap || e->heap[0].time_s > until)
                break;
        }
        if (e->nfresh > 0 || e->nready > 0)
            grant(e, now);
        if (ccl_i_net_changed(e->net) && !ccl_i_net_solve(e->net, now))
            return ccl_fail_nomem(err);
        if (e->ops->between && !e->ops->between(e->user, now))
            return CCL_OK;
        if ((++rounds & 1023) == 0)
            CCL_TRY(ccl_ctx_poll(e->ctx, NULL));
    }
}
