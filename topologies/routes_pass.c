/* What one GPU sees over one set of links: breadth first, kept while there is room (routes.c has
 * the idea). */
#include "topologies/routes.h"

#include <math.h>
#include <stdlib.h>

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

/* Breadth first from a GPU, never on through another GPU. */
static pass_t *pass_create(ccl_routes_t *r, uint32_t src_device, bool fast_only) {
    const ccl_topology_t *topo = r->topo;
    const ccl_link_t *links = topo->links;
    size_t nd = topo->ndevices;
    pass_t *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->hops = malloc(nd * sizeof *p->hops);
    p->wide_Bps = calloc(nd, sizeof *p->wide_Bps);
    p->pred_first = calloc(nd, sizeof *p->pred_first);
    p->pred_end = calloc(nd, sizeof *p->pred_end);
    if (!p->hops || !p->wide_Bps || !p->pred_first || !p->pred_end)
        goto fail;
    for (size_t v = 0; v < nd; v++)
        p->hops[v] = CCL_NONE;
    uint32_t head = 0, tail = 0;
    p->hops[src_device] = 0;
    p->wide_Bps[src_device] = INFINITY;
    r->queue[tail++] = src_device;
    /* pred_end counts first; a device is complete before it is taken from the queue. */
    while (head < tail) {
        uint32_t v = r->queue[head++];
        if (v != src_device && topo->devices[v].kind == CCL_DEVICE_GPU)
            continue;
        for (uint32_t i = topo->out_first[v]; i < topo->out_first[v + 1]; i++) {
            const ccl_link_t *link = &links[topo->out_links[i]];
            uint32_t w = link->to;
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
    uint32_t npred = 0;
    for (uint32_t i = 0; i < tail; i++) {
        uint32_t v = r->queue[i];
        p->pred_first[v] = npred;
        npred += p->pred_end[v];
        p->pred_end[v] = p->pred_first[v];
    }
    p->pred = malloc(((size_t)npred + 1) * sizeof *p->pred);
    if (!p->pred)
        goto fail;
    for (uint32_t k = 0; k < tail; k++) {
        uint32_t v = r->queue[k];
        if (v != src_device && topo->devices[v].kind == CCL_DEVICE_GPU)
            continue;
        for (uint32_t i = topo->out_first[v]; i < topo->out_first[v + 1]; i++) {
            uint32_t l = topo->out_links[i], w = links[l].to;
            if (!(fast_only && !r->fast_kind[links[l].kind]) && p->hops[w] == p->hops[v] + 1)
                p->pred[p->pred_end[w]++] = l;
        }
    }
    p->bytes = sizeof *p + nd * (sizeof *p->hops + sizeof *p->wide_Bps + 2 * sizeof *p->pred_end) +
               npred * sizeof *p->pred;
    return p;
fail:
    ccl_i_routes_pass_destroy(p);
    return NULL;
}

pass_t *ccl_i_routes_pass(ccl_routes_t *r, uint32_t src_rank, bool fast_only) {
    pass_t **slot = &r->sources[src_rank].pass[fast_only ? 0 : 1];
    if (*slot)
        return *slot;
    pass_t *pass = pass_create(r, r->topo->rank_device[src_rank], fast_only);
    if (!pass)
        return NULL;
    uint32_t places = r->topo->nranks * 2;
    while (r->ring_len > 0 && r->pass_bytes + pass->bytes > PASS_CACHE_BYTES) {
        uint32_t oldest = r->ring[r->ring_head];
        pass_t **old = &r->sources[oldest / 2].pass[oldest % 2];
        r->pass_bytes -= (*old)->bytes;
        ccl_i_routes_pass_destroy(*old);
        *old = NULL;
        r->ring_head = (r->ring_head + 1) % places;
        r->ring_len--;
    }
    r->ring[(r->ring_head + r->ring_len++) % places] = src_rank * 2 + (fast_only ? 0 : 1);
    r->pass_bytes += pass->bytes;
    *slot = pass;
    return pass;
}
