/*
 * Private to synth: hierarchical composition. A cluster of equal pods (servers, as a rule) is
 * solved once inside a pod and once between pods, whatever its size; the two are put together.
 */
#ifndef CCL_SYNTH_COMPOSE_H
#define CCL_SYNTH_COMPOSE_H

#include "synth/synth.h"

/** Solves a part: a pod, or the GPUs of one place in all pods (a rail). */
typedef ccl_status_t (*ccl_i_inner_fn)(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                       ccl_routes_t *routes, const ccl_collective_t *want,
                                       const ccl_synth_options_t *options, ccl_schedule_t **out,
                                       ccl_error_t *err, void *user);

/** GPUs by pod; a GPU's place in its pod is its place among the rails. */
typedef struct ccl_i_pods {
    uint32_t npods, size;  /* GPUs of a pod */
    uint32_t *ranks;       /* [npods][size] */
    uint32_t *pod, *place; /* [nranks] */
} ccl_i_pods_t;

/**
 * Pods of a topology: its servers; without servers the sets of GPUs that hang together over faster
 * hops.
 * @retval CCL_ERR_UNSUPPORTED  there are none, or they differ; says how.
 */
ccl_status_t ccl_i_pods_find(const ccl_topology_t *topo, ccl_routes_t *routes, ccl_i_pods_t *out,
                             ccl_error_t *err);
void ccl_i_pods_fini(ccl_i_pods_t *pods);
/**
 * The GPUs `ranks` (new ranks in that order) and whatever lies on routes between them.
 * @param sms_share  of a GPU's thread blocks that the part may use.
 */
ccl_status_t ccl_i_topology_part(const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const uint32_t *ranks, uint32_t nranks, double sms_share,
                                 ccl_topology_t **out, ccl_error_t *err);

/**
 * A schedule for all pods. AllGather: a chunk goes to its pod's GPUs as the pod's schedule says; at
 * its place's rail to the other pods as the rail's says; there on as in its own pod. Where links
 * inside pods would take longer than those between, part of the chunks goes over several rails.
 * ReduceScatter is found turned round, AllReduce is both. Broadcast and Reduce: chunks are dealt
 * out over the root's rails. AllToAll: inside the pod to the place of the destination, then along
 * the rail.
 *
 * @param name  of the schedule; @param inner  must do the collective itself on a pod and on a rail.
 * @retval CCL_ERR_UNSUPPORTED  no equal pods, or another collective; says why.
 * @par Source  HeteCCL (NSDI 2026), section 7.
 * @par Differs  a pod is no single node between pods: each of its rails is one; the rails' schedule
 * is that of the first.
 */
ccl_status_t ccl_i_compose(const ccl_ctx_t *ctx, const char *name, const ccl_topology_t *topo,
                           ccl_routes_t *routes, const ccl_collective_t *want,
                           const ccl_synth_options_t *options, ccl_i_inner_fn inner, void *user,
                           ccl_schedule_t **out, ccl_error_t *err);

#endif
