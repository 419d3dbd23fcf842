/*
 * Is a cluster described well enough to choose NCCL's protocols? Without rates of thread blocks LL
 * is as fast as a link, without costs of its own it is Simple: a table made of that would slow the
 * cluster down.
 */
#include "search/export/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Has this protocol a transport of its own over that kind of link? */
static bool own_costs(const ccl_topology_t *topo, const char *kind, const char *proto) {
    for (uint32_t i = 0; i < topo->ntransports; i++) {
        const ccl_transport_spec_t *spec = &topo->transports[i];
        if (spec->protocol && strcmp(spec->protocol, proto) == 0 && strcmp(spec->kind, kind) == 0)
            return true;
    }
    return false;
}

/* What connections of that kind lack; NULL: nothing. */
static const char *lacking(const ccl_topology_t *topo, const char *kind) {
    static const char *const protos[] = {"Simple", "LL"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(protos); i++) {
        ccl_transport_t t = ccl_model_transport(topo, kind, protos[i]);
        if (!(t.tb_rate_Bps < INFINITY))
            return "a thread block's rate (tb_rate)";
        if (!(t.overhead_s + t.latency_s > 0))
            return "overhead or latency";
    }
    return own_costs(topo, kind, "LL") ? NULL : "costs of protocol LL";
}

/* The kinds of connections from rank to rank, around and from the first. */
static ccl_status_t check(const ccl_topology_t *topo, ccl_routes_t *routes, ccl_error_t *err) {
    for (uint32_t r = 0; r < 2 * topo->nranks; r++) {
        uint32_t src = r < topo->nranks ? r : 0, dst = r < topo->nranks ? r + 1 : r;
        const ccl_route_t *route = NULL;
        dst %= topo->nranks;
        if (src == dst || ccl_routes_get(routes, src, dst, 0, &route, NULL) != CCL_OK)
            continue; /* it goes through other GPUs */
        const char *kind = ccl_model_route_kind(topo, route), *what = lacking(topo, kind);
        if (what)
            return ccl_fail(
                err, CCL_UNSUPPORTED,
                "no table for NCCL's tuner: %.80s does not know %s over %s, and a choice of "
                "protocols without it would slow the cluster down; a profile of these GPUs "
                "has it (--profile P, ccllab calibrate)",
                topo->name, what, kind);
    }
    return CCL_OK;
}

bool ccl_export_nccl_asks(ccl_collective_kind_t kind) {
    return kind <= CCL_REDUCESCATTER || kind == CCL_BROADCAST || kind == CCL_REDUCE;
}

ccl_status_t ccl_export_nccl_tuner_check(const ccl_topology_t *topo, const ccl_profile_t *profile,
                                         ccl_error_t *err) {
    ccl_topology_t *laid = NULL;
    if (profile)
        CCL_TRY(ccl_profile_apply(NULL, profile, topo, &laid, err));
    const ccl_topology_t *as = laid ? laid : topo;
    ccl_routes_t *routes = ccl_routes_create(as);
    ccl_status_t status = routes ? check(as, routes, err) : ccl_fail_nomem(err);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(laid);
    return status;
}
