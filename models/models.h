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
/** Transport kind of a route: "net" if it crosses a net link, else "pcie", else its first link's.
 */
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

/* ---------------------------------------------------------------- symmetry */

/**
 * One dimension of a cluster: a kind of connection, and the groups of GPUs that it joins (SyCCL,
 * SIGCOMM 2025, sections 3.1 and 4; docs/symmetry.md).
 */
typedef struct ccl_dimension {
    const char *name;            /**< "nvlink", "pcie, 4 links", "net, 2 hops" */
    const char *kind;            /**< transport of its routes: "nvlink", "pcie", "net", ... */
    uint32_t ngroups;            /**< of two GPUs or more */
    uint32_t nclasses;           /**< of groups */
    uint32_t min_gpus, max_gpus; /**< of a group */
    double min_Bps, max_Bps;     /**< narrowest link of its routes */
    double min_latency_s, max_latency_s; /**< sum of the links' latencies */
    const uint32_t *first;               /**< [ngroups + 1] into ranks */
    const uint32_t *ranks;               /**< GPUs of each group, ascending */
    const uint32_t *group_of;            /**< [nranks] group of a rank; CCL_NONE: in none */
    const uint32_t *class_of; /**< [ngroups] classes by their lowest group: groups of one class are
                                   carried to each other by automorphisms */
    const uint8_t *complete;  /**< [ngroups] every two of its GPUs have a route of this dimension */
} ccl_dimension_t;

typedef struct ccl_symmetry {
    uint32_t nranks, ndimensions;
    uint32_t ngpu_classes;
    uint32_t ngenerators;              /**< of the automorphism group, as found */
    double log10_automorphisms;        /**< log10 of the group's order, approximate */
    const ccl_dimension_t *dimensions; /**< from the fastest and nearest to the widest */
    const uint32_t *gpu_class;         /**< [nranks] GPUs that an automorphism carries to each
                                            other have the same; numbered by lowest rank */
    ccl_arena_t arena;
} ccl_symmetry_t;

/**
 * Dimensions, groups and automorphism classes of a topology. An automorphism keeps devices' kinds
 * and GPU models, servers, links with all their constants, and groups of links; names and the
 * numbers of ranks do not matter. It is exact: classes are orbits of the automorphism group.
 *
 * A dimension is a kind of route between two GPUs: by transport; inside servers by its number of
 * links, and by bandwidth where a link is at least twice as fast as others and joins fewer
 * GPUs (the slower one joins with both); over the network by its number of net links. Its groups
 * are the connected components of the GPUs that such routes join. Where a part failed or is slower,
 * groups stay and fall into classes.
 *
 * @param routes  borrowed.
 * @retval CCL_ERR_NOMEM
 * @par Source  SyCCL (SIGCOMM 2025), section 3.1; search: Junttila, Kaski (ALENEX 2007), bliss.
 */
ccl_status_t ccl_symmetry_find(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, ccl_symmetry_t **out, ccl_error_t *err);
void ccl_symmetry_destroy(ccl_symmetry_t *symmetry);

#ifdef __cplusplus
}
#endif
#endif
