/**
 * @file models.h
 * Costs: transports resolved per protocol, contention, the alpha-beta-gamma cost of one transfer.
 */
#ifndef CCL_MODELS_MODELS_H
#define CCL_MODELS_MODELS_H

#include "topologies/topologies.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The transport of link kind `kind` under protocol `proto` (docs/model.md "Connections"). */
ccl_transport_t ccl_model_transport(const ccl_topology_t *topo, const char *kind,
                                    const char *proto);
/** Transport kind of a route: "net" if it crosses a net link, else "pcie", else its first link's. */
const char *ccl_model_route_kind(const ccl_topology_t *topo, const ccl_route_t *route);
/** GPU model of a rank; a default without limits or costs when none is given. */
ccl_gpu_model_t ccl_model_gpu(const ccl_topology_t *topo, uint32_t rank);
/**
 * Contention factor eta(z): 1 for z <= 1, else 1 / (1 + kappa (z - 1)).
 * @par Source  ResCCL (SIGCOMM 2025) equation 1, figure 4; kappa = 0 is HeteCCL's linear sharing.
 */
double ccl_model_eta(double kappa, double z);
/** ceil(q (1 - 1e-9)), at least 0: every ceiling of the model. q finite. */
double ccl_model_ceil(double q);
/**
 * tau = alpha + bytes beta (+ bytes gamma when reducing) of one direct transfer, seconds.
 *
 * alpha: the transport's overhead and latency and the links' latency; beta: one over the smaller of
 * the route's bottleneck and the transport's tb_rate; gamma: one over the receiver's reduce_rate.
 * @par Source  HeteCCL (NSDI 2026) section 4.2, cost of one primitive on one chunk.
 */
double ccl_model_tau(const ccl_topology_t *topo, const ccl_route_t *route, const char *proto,
                     uint32_t dst_rank, double bytes, bool reduce);

#ifdef __cplusplus
}
#endif
#endif
