/**
 * @file tiny_clusters.h
 * Random clusters of 3 to 6 GPUs whose latencies are whole numbers of one unit, and the connections
 * of their GPUs. Links alone: no GPU models, transports only so that FIFOs are no limit.
 */
#ifndef CCL_BENCH_TINY_CLUSTERS_H
#define CCL_BENCH_TINY_CLUSTERS_H

#include "topologies/topologies.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TINY_GPUS = 6, TINY_LINKS = 48, TINY_ARCS = 64, TINY_HOPS = 6 };

/** A latency of one, s. */
#define TINY_UNIT_S 0.25e-6

/** A connection: it takes all of its links at once, and what it brings arrives `steps` units later.
 */
typedef struct tiny_arc {
    uint32_t from, to, steps, nlinks, links[TINY_HOPS];
    double bottleneck_Bps;
} tiny_arc_t;

typedef struct tiny_net {
    uint32_t ngpus, nlinks, narcs;
    double rate_Bps[TINY_LINKS];
    tiny_arc_t arcs[TINY_ARCS];
    bool apart; /**< no link is in two connections */
} tiny_net_t;

typedef struct tiny_maker {
    ccl_rng_t rng;
    ccl_topology_builder_t *b;
    uint32_t kinds; /**< how many of the latencies below it draws from: small ones alone or all */
    uint8_t joined[TINY_GPUS][TINY_GPUS];
    ccl_status_t status;
    ccl_error_t *err;
} tiny_maker_t;

static inline uint32_t tiny_device(tiny_maker_t *m, const char *prefix, uint32_t number,
                                   ccl_device_kind_t kind, uint32_t server, uint32_t rank) {
    char id[16], name[16];
    uint32_t index = 0;
    snprintf(id, sizeof id, "%s%u", prefix, number);
    snprintf(name, sizeof name, "s%u", server);
    if (m->status == CCL_OK)
        m->status = ccl_topology_builder_device(m->b, id, kind, server == CCL_NONE ? NULL : name,
                                                rank, NULL, &index, m->err);
    return index;
}

/* One link in eight cannot be used on the way back, or is slower there. */
static inline void tiny_link(tiny_maker_t *m, uint32_t from, uint32_t to, const char *kind,
                             bool both) {
    static const double rates_GBps[] = {6, 12, 12, 25, 25, 50, 100, 300};
    static const uint32_t latencies[] = {2, 3, 4, 1, 6, 8, 0, 12};
    double GBps = rates_GBps[ccl_rng_below(&m->rng, CCL_ARRAY_LEN(rates_GBps))];
    double back = ccl_rng_below(&m->rng, 8) == 0 ? GBps / 2 : GBps;
    double latency_s = TINY_UNIT_S * latencies[ccl_rng_below(&m->rng, m->kinds)];
    if (m->status == CCL_OK)
        m->status = ccl_topology_builder_link(m->b, from, to, kind, GBps * 1e9, latency_s, 1, 0,
                                              m->err);
    if (m->status == CCL_OK && both)
        m->status = ccl_topology_builder_link(m->b, to, from, kind, back * 1e9, latency_s, 1, 0,
                                              m->err);
}

/* A tree of links that go both ways, and more links, some of which go one way. */
static inline void tiny_joined(tiny_maker_t *m, uint32_t n) {
    uint32_t more = ccl_rng_below(&m->rng, n * (n - 1) / 2);
    for (uint32_t a = 1; a < n; a++) {
        uint32_t b = ccl_rng_below(&m->rng, a);
        tiny_link(m, a, b, "nvlink", true);
        m->joined[a][b] = m->joined[b][a] = 1;
    }
    for (uint32_t i = 0; i < more; i++) {
        uint32_t a = ccl_rng_below(&m->rng, n), b = ccl_rng_below(&m->rng, n);
        bool both = ccl_rng_below(&m->rng, 4) > 0;
        if (a == b || m->joined[a][b] || (both && m->joined[b][a]))
            continue;
        tiny_link(m, a, b, "nvlink", both);
        m->joined[a][b] = 1;
        m->joined[b][a] |= both;
    }
}

/* All GPUs on a switch, or some on each of two that are joined. */
static inline void tiny_switched(tiny_maker_t *m, uint32_t n, uint32_t switches) {
    uint32_t split = switches == 2 ? 1 + ccl_rng_below(&m->rng, n - 1) : n, at[2];
    for (uint32_t s = 0; s < switches; s++)
        at[s] = tiny_device(m, "sw", s, CCL_DEVICE_SWITCH, CCL_NONE, CCL_NONE);
    for (uint32_t g = 0; g < n; g++)
        tiny_link(m, g, at[g >= split], "nvlink", true);
    if (switches == 2)
        tiny_link(m, at[0], at[1], "nvlink", true);
}

/* Two servers; the GPUs of each on a switch, and one NIC for two of them. */
static inline void tiny_servers(tiny_maker_t *m, uint32_t n, uint32_t split) {
    uint32_t fabric = tiny_device(m, "fabric", 0, CCL_DEVICE_SWITCH, CCL_NONE, CCL_NONE);
    for (uint32_t s = 0; s < 2; s++) {
        uint32_t first = s ? split : 0, last = s ? n : split, nic = 0;
        uint32_t sw = last - first > 1
                          ? tiny_device(m, "sw", s, CCL_DEVICE_SWITCH, s, CCL_NONE)
                          : CCL_NONE;
        for (uint32_t g = first; g < last; g++) {
            if (sw != CCL_NONE)
                tiny_link(m, g, sw, "nvlink", true);
            if ((g - first) % 2 == 0) {
                nic = tiny_device(m, "nic", g, CCL_DEVICE_NIC, s, CCL_NONE);
                tiny_link(m, nic, fabric, "net", true);
            }
            tiny_link(m, g, nic, "pcie", true);
        }
    }
}

/* FIFOs that hold all that can be on the way. */
static inline void tiny_transports(tiny_maker_t *m) {
    static const char *const kinds[] = {"nvlink", "pcie", "net"};
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(kinds) && m->status == CCL_OK; k++) {
        ccl_transport_spec_t spec = {.kind = kinds[k], .given = CCL_TRANSPORT_SLOTS};
        spec.value = ccl_transport_default(kinds[k]);
        spec.value.slots = 10000;
        m->status = ccl_topology_builder_transport(m->b, &spec, m->err);
    }
}

/** The cluster of a number: the same one whatever was made before. NULL: `err` says why. */
static inline ccl_topology_t *tiny_cluster(uint64_t seed, uint32_t number, ccl_error_t *err) {
    tiny_maker_t m = {.err = err, .status = CCL_OK};
    ccl_topology_t *topo = NULL;
    char name[32];
    snprintf(name, sizeof name, "tiny-%u", number);
    ccl_rng_init(&m.rng, seed * 0x9e3779b97f4a7c15u + number);
    uint32_t n = 3 + ccl_rng_below(&m.rng, TINY_GPUS - 2), shape = ccl_rng_below(&m.rng, 8);
    uint32_t split = shape == 7 ? 1 + ccl_rng_below(&m.rng, n - 1) : n;
    m.kinds = ccl_rng_below(&m.rng, 2) ? 4 : 8;
    m.b = ccl_topology_builder_create(name);
    if (!m.b)
        return NULL;
    for (uint32_t g = 0; g < n; g++)
        tiny_device(&m, "g", g, CCL_DEVICE_GPU, shape == 7 ? (uint32_t)(g >= split) : CCL_NONE, g);
    if (shape < 5)
        tiny_joined(&m, n);
    else if (shape < 7)
        tiny_switched(&m, n, shape - 4);
    else
        tiny_servers(&m, n, split);
    tiny_transports(&m);
    if (m.status == CCL_OK)
        m.status = ccl_topology_builder_finish(m.b, &topo, err);
    ccl_topology_builder_destroy(m.b);
    return m.status == CCL_OK ? topo : NULL;
}

/* The route of each channel, once. */
static inline bool tiny_connect(tiny_net_t *net, ccl_routes_t *routes, uint32_t from, uint32_t to) {
    uint32_t first = net->narcs, period = ccl_routes_width(routes, from, to) > 0
                                              ? ccl_routes_period(routes, from, to)
                                              : 0; /* no route */
    for (uint32_t channel = 0; channel < period; channel++) {
        const ccl_route_t *route;
        if (ccl_routes_get(routes, from, to, channel, &route, NULL) != CCL_OK)
            return false;
        bool there = false;
        for (uint32_t a = first; a < net->narcs && !there; a++)
            there = net->arcs[a].nlinks == route->nlinks &&
                    memcmp(net->arcs[a].links, route->links, route->nlinks * sizeof(uint32_t)) == 0;
        if (there)
            continue;
        if (net->narcs == TINY_ARCS || route->nlinks > TINY_HOPS)
            return false;
        tiny_arc_t *arc = &net->arcs[net->narcs++];
        double steps = route->latency_s / TINY_UNIT_S;
        *arc = (tiny_arc_t){.from = from, .to = to, .steps = (uint32_t)lround(steps)};
        arc->nlinks = route->nlinks;
        arc->bottleneck_Bps = route->bottleneck_Bps;
        memcpy(arc->links, route->links, route->nlinks * sizeof(uint32_t));
        if (fabs(steps - arc->steps) > 1e-6)
            return false;
    }
    return true;
}

/** @return false: the cluster is too large, or a latency is no whole number of units. */
static inline bool tiny_net(const ccl_topology_t *topo, tiny_net_t *net) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    uint32_t used[TINY_LINKS] = {0};
    *net = (tiny_net_t){.ngpus = topo->nranks, .nlinks = topo->nlinks, .apart = true};
    bool ok = routes && topo->nranks <= TINY_GPUS && topo->nlinks <= TINY_LINKS && !topo->ngroups;
    for (uint32_t l = 0; ok && l < topo->nlinks; l++)
        net->rate_Bps[l] = topo->links[l].bandwidth_Bps;
    for (uint32_t from = 0; from < topo->nranks; from++)
        for (uint32_t to = 0; to < topo->nranks; to++)
            ok = ok && (from == to || tiny_connect(net, routes, from, to));
    for (uint32_t a = 0; ok && a < net->narcs; a++)
        for (uint32_t i = 0; i < net->arcs[a].nlinks; i++)
            net->apart = net->apart && ++used[net->arcs[a].links[i]] == 1;
    ccl_routes_destroy(routes);
    return ok;
}

#endif
