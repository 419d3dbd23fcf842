/* The latency bound: shortest ways over GPUs, each hop one transfer without bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/bounds/bounds.h"

/* Overhead and latency of a hop over one kind of transport. */
static double transport_s(const ccl_topology_t *topo, const char *kind, const char *proto) {
    double least = INFINITY;
    for (uint32_t p = 0; p < CCL_PROTOCOLS; p++) {
        ccl_transport_t t =
            ccl_model_transport(topo, kind, proto ? proto : ccl_protocol_name((ccl_protocol_t)p));
        least = fmin(least, t.overhead_s + t.latency_s);
    }
    return least;
}

double ccl_i_bound_receive_s(const ccl_topology_t *topo, const char *proto) {
    double least = INFINITY;
    for (uint32_t k = 0; k < topo->nkinds + topo->ntransports; k++) {
        const char *kind =
            k < topo->nkinds ? topo->kinds[k] : topo->transports[k - topo->nkinds].kind;
        for (uint32_t p = 0; p < CCL_PROTOCOLS; p++)
            least =
                fmin(least, ccl_model_transport(
                                topo, kind, proto ? proto : ccl_protocol_name((ccl_protocol_t)p))
                                .overhead_s);
    }
    return isfinite(least) ? least : 0;
}

static double hop_s(ccl_routes_t *routes, const double *by_kind, double net_s, double pcie_s,
                    uint32_t s, uint32_t d) {
    const ccl_route_t *route = NULL;
    if (ccl_routes_width(routes, s, d) == 0 ||
        ccl_routes_get(routes, s, d, 0, &route, NULL) != CCL_OK)
        return INFINITY;
    return route->latency_s + (route->crosses_net    ? net_s
                               : route->crosses_pcie ? pcie_s
                                                     : by_kind[route->first_kind]);
}

/* Least seconds of a hop by a switch connection: any links through devices other than GPUs, by the
 * transport of least overhead and latency. A tree's ways need not be routes. */
static bool switch_hops(const ccl_topology_t *topo, const char *proto, double *hop) {
    double least = INFINITY, *at = malloc((topo->ndevices + (size_t)1) * sizeof *at);
    const bool able = ccl_topology_able(topo);
    for (uint32_t k = 0; able && k < topo->ntransports; k++)
        least = fmin(least, transport_s(topo, topo->transports[k].kind, proto));
    for (uint32_t k = 0; able && k < topo->nkinds; k++)
        least = fmin(least, transport_s(topo, topo->kinds[k], proto));
    for (uint32_t s = 0; at && able && s < topo->nranks; s++) {
        for (uint32_t v = 0; v < topo->ndevices; v++)
            at[v] = INFINITY;
        at[topo->rank_device[s]] = 0;
        for (bool more = true; more;) {
            more = false;
            for (uint32_t l = 0; l < topo->nlinks; l++) {
                const ccl_link_t *link = &topo->links[l];
                bool relays = topo->devices[link->from].kind != CCL_DEVICE_GPU ||
                              link->from == topo->rank_device[s];
                if (relays && at[link->from] + link->latency_s < at[link->to]) {
                    at[link->to] = at[link->from] + link->latency_s;
                    more = true;
                }
            }
        }
        for (uint32_t d = 0; d < topo->nranks; d++) {
            double *h = &hop[(size_t)s * topo->nranks + d];
            *h = d == s ? *h : fmin(*h, at[topo->rank_device[d]] + least);
        }
    }
    bool made = at != NULL;
    free(at);
    return made;
}

/* Earliest arrivals from one GPU, by Dijkstra's algorithm on a matrix. It ends where one more hop,
   however short, comes too late everywhere: most GPUs are a hop or two away. @param hop  [n][n]
   seconds, none less than shortest_s
   @param time  [n] out; in: time[s], when it starts   @param hops  [n] out   @param done  [n]
   scratch */
static void arrivals(uint32_t n, const double *hop, double shortest_s, uint32_t s, double *time,
                     uint32_t *hops, uint8_t *done) {
    double start_s = time[s];
    for (uint32_t v = 0; v < n; v++) {
        time[v] = INFINITY;
        hops[v] = 0;
        done[v] = 0;
    }
    time[s] = start_s;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t u = CCL_NONE;
        double last_s = -INFINITY;
        for (uint32_t v = 0; v < n; v++) {
            if (done[v])
                continue;
            last_s = fmax(last_s, time[v]);
            if (time[v] < INFINITY && (u == CCL_NONE || time[v] < time[u]))
                u = v;
        }
        if (u == CCL_NONE || time[u] + shortest_s >= last_s)
            break;
        done[u] = 1;
        const double *row = hop + (size_t)u * n;
        for (uint32_t v = 0; v < n; v++) {
            if (time[u] + row[v] < time[v]) {
                time[v] = time[u] + row[v];
                hops[v] = hops[u] + 1;
            }
        }
    }
}

ccl_status_t ccl_model_latency_bound(const ccl_topology_t *topo, ccl_routes_t *routes,
                                     const uint8_t *moves, const char *proto,
                                     ccl_latency_bound_t *out, ccl_error_t *err) {
    uint32_t n = topo->nranks;
    size_t nn = (size_t)n * n;
    ccl_routes_t *own = NULL;
    double *hop = malloc(nn * sizeof *hop),
           *by_kind = calloc(topo->nkinds + (size_t)1, sizeof *hop);
    double *time = malloc(n * sizeof *time);
    uint32_t *hops = malloc(n * sizeof *hops);
    uint8_t *done = malloc(n);
    ccl_status_t status = CCL_OK;
    *out = (ccl_latency_bound_t){0, CCL_NONE, CCL_NONE, 0};
    if (!routes)
        routes = own = ccl_routes_create(topo);
    if (!hop || !by_kind || !time || !hops || !done || !routes) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t k = 0; k < topo->nkinds; k++)
        by_kind[k] = transport_s(topo, topo->kinds[k], proto);
    double net_s = transport_s(topo, "net", proto), pcie_s = transport_s(topo, "pcie", proto);
    double last_s = ccl_i_bound_receive_s(topo, proto);
    for (uint32_t s = 0; s < n; s++) {
        for (uint32_t d = 0; d < n; d++)
            hop[(size_t)s * n + d] =
                s == d ? INFINITY : hop_s(routes, by_kind, net_s, pcie_s, s, d);
    }
    if (!switch_hops(topo, proto, hop)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    double shortest_s = INFINITY;
    for (size_t i = 0; i < nn; i++)
        shortest_s = fmin(shortest_s, hop[i]);
    for (uint32_t s = 0; s < n; s++) {
        bool any = false;
        for (uint32_t d = 0; d < n && !any; d++)
            any = d != s && (!moves || moves[(size_t)s * n + d]);
        if (!any)
            continue;
        time[s] = ccl_model_launch_s(topo, s, proto);
        arrivals(n, hop, shortest_s, s, time, hops, done);
        for (uint32_t d = 0; d < n; d++) {
            if (d != s && (!moves || moves[(size_t)s * n + d]) && time[d] < INFINITY &&
                (out->from == CCL_NONE || time[d] + last_s > out->latency_s))
                *out = (ccl_latency_bound_t){time[d] + last_s, s, d, hops[d]};
        }
    }
end:
    free(hop);
    free(by_kind);
    free(time);
    free(hops);
    free(done);
    ccl_routes_destroy(own);
    return status;
}
