/* What one device sees over one set of links: breadth first, kept while there is room (routes.c has
 * the idea). */
#include "topologies/routes.h"

#include <math.h>
#include <stdlib.h>

#include "topologies/graph.h"

/* Passes kept over all sources; beyond this the oldest goes and is redone when asked for again. */
#define PASS_CACHE_BYTES ((size_t)24 << 20)

typedef ccl_i_routes_pass_t pass_t;

void ccl_i_routes_pass_destroy(pass_t *pass) {
    if (!pass)
        return;
    free(pass->hops);
    free(pass->wide_Bps);
    free(pass->pred_first);
    free(pass->pred_end);
    free(pass->pred);
    free(pass);
}

/* The links that lead on from a device: out of it, reversed into it. */
typedef struct ways {
    const uint32_t *first, *list;
    bool reverse;
} ways_t;

static bool find_ways(ccl_routes_t *r, bool reverse, ways_t *out) {
    const ccl_topology_t *topo = r->topo;
    if (reverse && !r->in_first) {
        r->in_first = calloc((size_t)topo->ndevices + 1, sizeof *r->in_first);
        r->in_links = calloc((size_t)topo->nlinks + 1, sizeof *r->in_links);
        if (!r->in_first || !r->in_links) {
            free(r->in_first);
            free(r->in_links);
            r->in_first = r->in_links = NULL;
            return false;
        }
        ccl_i_graph_csr(topo->ndevices, topo->links, topo->nlinks, true, r->in_first, r->in_links);
    }
    *out = (ways_t){reverse ? r->in_first : topo->out_first,
                    reverse ? r->in_links : topo->out_links, reverse};
    return true;
}

static pass_t *pass_alloc(size_t nd) {
    pass_t *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->hops = malloc(nd * sizeof *p->hops);
    p->wide_Bps = calloc(nd, sizeof *p->wide_Bps);
    p->pred_first = calloc(nd, sizeof *p->pred_first);
    p->pred_end = calloc(nd, sizeof *p->pred_end);
    if (!p->hops || !p->wide_Bps || !p->pred_first || !p->pred_end) {
        ccl_i_routes_pass_destroy(p);
        return NULL;
    }
    for (size_t v = 0; v < nd; v++)
        p->hops[v] = CCL_NONE;
    return p;
}

/* Hops, widths and, in pred_end, how many links lead to each. @return devices in r->queue. */
static uint32_t flood(ccl_routes_t *r, pass_t *p, const ways_t *ways, uint32_t origin,
                      bool fast_only) {
    const ccl_topology_t *topo = r->topo;
    uint32_t head = 0, tail = 0;
    p->hops[origin] = 0;
    p->wide_Bps[origin] = INFINITY;
    r->queue[tail++] = origin;
    /* A device is complete before it is taken from the queue. */
    while (head < tail) {
        uint32_t v = r->queue[head++];
        if (v != origin && topo->devices[v].kind == CCL_DEVICE_GPU)
            continue;
        for (uint32_t i = ways->first[v]; i < ways->first[v + 1]; i++) {
            const ccl_link_t *link = &topo->links[ways->list[i]];
            uint32_t w = ways->reverse ? link->from : link->to;
            if (fast_only && !r->fast_kind[link->kind])
                continue;
            if (p->hops[w] == CCL_NONE) {
                p->hops[w] = p->hops[v] + 1;
                r->queue[tail++] = w;
            }
            if (p->hops[w] == p->hops[v] + 1) {
                double wide = fmin(p->wide_Bps[v], link->bandwidth_Bps);
                p->wide_Bps[w] = fmax(p->wide_Bps[w], wide);
                p->pred_end[w]++;
            }
        }
    }
    return tail;
}

/* Breadth first from a device, never on through a GPU. */
static pass_t *pass_create(ccl_routes_t *r, uint32_t origin, bool fast_only, bool reverse) {
    const ccl_topology_t *topo = r->topo;
    const ccl_link_t *links = topo->links;
    size_t nd = topo->ndevices;
    ways_t ways;
    pass_t *p = find_ways(r, reverse, &ways) ? pass_alloc(nd) : NULL;
    if (!p)
        return NULL;
    p->reverse = reverse;
    p->fast = fast_only;
    uint32_t tail = flood(r, p, &ways, origin, fast_only), npred = 0;
    for (uint32_t i = 0; i < tail; i++) {
        uint32_t v = r->queue[i];
        p->pred_first[v] = npred;
        npred += p->pred_end[v];
        p->pred_end[v] = p->pred_first[v];
    }
    p->pred = malloc(((size_t)npred + 1) * sizeof *p->pred);
    if (!p->pred) {
        ccl_i_routes_pass_destroy(p);
        return NULL;
    }
    for (uint32_t k = 0; k < tail; k++) {
        uint32_t v = r->queue[k];
        if (v != origin && topo->devices[v].kind == CCL_DEVICE_GPU)
            continue;
        for (uint32_t i = ways.first[v]; i < ways.first[v + 1]; i++) {
            uint32_t l = ways.list[i], w = reverse ? links[l].from : links[l].to;
            if (!(fast_only && !r->fast_kind[links[l].kind]) && p->hops[w] == p->hops[v] + 1)
                p->pred[p->pred_end[w]++] = l;
        }
    }
    p->bytes = sizeof *p + nd * (sizeof *p->hops + sizeof *p->wide_Bps + 2 * sizeof *p->pred_end) +
               npred * sizeof *p->pred;
    return p;
}

pass_t *ccl_i_routes_pass(ccl_routes_t *r, uint32_t device, uint32_t which) {
    pass_t **slot = &r->passes[ccl_i_routes_slot(device, which)];
    if (*slot)
        return *slot;
    pass_t *pass =
        pass_create(r, device, which & CCL_I_PASS_FAST, (which & CCL_I_PASS_REVERSE) != 0);
    if (!pass)
        return NULL;
    uint32_t places = r->topo->ndevices * CCL_I_PASSES;
    while (r->ring_len > 0 && r->pass_bytes + pass->bytes > PASS_CACHE_BYTES) {
        pass_t **old = &r->passes[r->ring[r->ring_head]];
        r->pass_bytes -= (*old)->bytes;
        ccl_i_routes_pass_destroy(*old);
        *old = NULL;
        r->ring_head = (r->ring_head + 1) % places;
        r->ring_len--;
    }
    r->ring[(r->ring_head + r->ring_len++) % places] = (uint32_t)ccl_i_routes_slot(device, which);
    r->pass_bytes += pass->bytes;
    *slot = pass;
    return pass;
}
