/*
 * Closed-form costs: contention (ResCCL, SIGCOMM 2025, equation 1 and figure 4) and the
 * alpha-beta-gamma cost of one transfer (HeteCCL, NSDI 2026, section 4.2).
 */
#include <math.h>

#include "models/models.h"

double ccl_model_eta(double kappa, double z) {
    return z <= 1 ? 1 : 1 / (1 + kappa * (z - 1));
}

double ccl_model_ceil(double q) {
    double up = ceil(q * (1 - 1e-9));
    return up > 0 ? up : 0; /* never -0 */
}

double ccl_model_tau(const ccl_topology_t *topo, const ccl_route_t *route, const char *proto,
                     uint32_t dst_rank, double bytes, bool reduce) {
    ccl_transport_t t = ccl_model_transport(topo, ccl_model_route_kind(topo, route), proto);
    double rate_Bps = fmin(route->bottleneck_Bps / t.wire, t.tb_rate_Bps);
    double tau_s = t.overhead_s + route->latency_s + t.latency_s + bytes / rate_Bps;
    if (reduce)
        tau_s += bytes / ccl_model_gpu(topo, dst_rank).reduce_rate_Bps;
    return tau_s;
}
