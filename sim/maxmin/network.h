/**
 * @file network.h
 * The network of a run: flows on paths of shared resources, max-min fair rates, next completion.
 *
 * A resource is a link, a group, the reductions of a switch, or a class of equal rate caps. Every
 * flow belongs to the resource that limits it (its bottleneck); all flows of a resource have the
 * same rate, its level. So one clock of served volume per resource orders the completions of its
 * flows, and a change of level costs nothing per flow. Changes are relaxed locally in ascending
 * order of level until every flow is limited where its own rate is highest: the condition that
 * makes an allocation max-min fair, and the allocation unique. Instants that change much are solved
 * by progressive filling instead.
 */
#ifndef CCL_SIM_NETWORK_H
#define CCL_SIM_NETWORK_H

#include "sim/sim.h"

/** ccl_grow() without a call while there is room. */
static inline bool ccl_i_grow(void *array, size_t *capacity, size_t need, size_t elem_size) {
    return need <= *capacity || ccl_grow(array, capacity, need, elem_size);
}

typedef struct ccl_i_net ccl_i_net_t;

/** One flow that drained. */
typedef struct ccl_i_drained {
    double time_s;
    uint32_t user;
} ccl_i_drained_t;

/** @param use_links false: links limit nobody (exclusive sharing), groups, reducers and caps still
 * do. */
ccl_i_net_t *ccl_i_net_create(const ccl_topology_t *topo, bool use_links);
void ccl_i_net_destroy(ccl_i_net_t *net);

/**
 * Register a path: a route and a rate cap (INFINITY: none but the links'). All routes of a network
 * come from one ccl_routes_t.
 * All paths must be registered before the first flow. Returns CCL_NONE when out of memory.
 */
uint32_t ccl_i_net_path(ccl_i_net_t *net, const ccl_route_t *route, double cap_Bps);
/** A link, a group (numbered after the links), or a reducer (after these), and how often a flow
 * counts on it. */
typedef struct ccl_i_share {
    uint32_t res, weight;
} ccl_i_share_t;
/** The same for the tree of a switch connection, which also loads the `reduce_rate` of the switches
 * where it joins; call ccl_i_net_keep_links() before any path. */
uint32_t ccl_i_net_tree_path(ccl_i_net_t *net, const ccl_tree_t *tree, double cap_Bps);
/** Before any path: links are not those that routes were found with, so their narrowest may differ.
 */
void ccl_i_net_vary(ccl_i_net_t *net);
/** Before any path: paths are not all routes from one GPU to another. */
void ccl_i_net_keep_links(ccl_i_net_t *net);
/** Number of the resource that is a switch's `reduce_rate`, behind links and groups; CCL_NONE: it
 * has no limit. */
uint32_t ccl_i_reducer_res(const ccl_topology_t *topo, uint32_t device);
/** Links, groups and limited reducers of a topology. */
uint32_t ccl_i_resources(const ccl_topology_t *topo);
/** Register a path that stands for several: one flow on it loads `shares`. Never shared. */
uint32_t ccl_i_net_path_of(ccl_i_net_t *net, const ccl_route_t *route, double cap_Bps,
                           const ccl_i_share_t *shares, uint32_t nshares);
/** Room for this many paths, if the number is known; paths beyond it are fine. */
bool ccl_i_net_reserve(ccl_i_net_t *net, uint32_t npaths);
/** After the last path: drops resources that can never be the tightest. */
bool ccl_i_net_freeze(ccl_i_net_t *net);

/** Start a flow at the next solve. bytes > 0. False when out of memory. */
bool ccl_i_net_start(ccl_i_net_t *net, uint32_t path, double bytes, uint32_t user);
/** Time of the next completion; INFINITY when nothing flows. */
double ccl_i_net_next_s(const ccl_i_net_t *net);
/** Take all flows that drain no later than until_s. The array is valid until the next call. */
size_t ccl_i_net_take(ccl_i_net_t *net, double until_s, const ccl_i_drained_t **out);
/** Make the rates max-min fair again for what started and drained. False when out of memory. */
bool ccl_i_net_solve(ccl_i_net_t *net, double now_s);
/** True when flows were started or taken since the last solve. */
bool ccl_i_net_changed(const ccl_i_net_t *net);

uint32_t ccl_i_net_active(const ccl_i_net_t *net);
uint64_t ccl_i_net_rate_changes(const ccl_i_net_t *net);
/** Bytes that the active flow `user` on `path` still has to drain at now_s (for snapshots). */
typedef void (*ccl_i_net_visit_fn)(uint32_t user, double left_bytes, void *ctx);
void ccl_i_net_visit(const ccl_i_net_t *net, double now_s, ccl_i_net_visit_fn fn, void *ctx);
/** Move the network's clock by shift_s without serving anything (skipping whole periods). */
void ccl_i_net_shift(ccl_i_net_t *net, double shift_s);
/** Link, group (numbered after the links), or reducer (after these) that limits the flows of a path
   by the last solve; CCL_NONE: only their cap does, or it has none. */
uint32_t ccl_i_net_limit(const ccl_i_net_t *net, uint32_t path);
/** Rate of the active flow of `user`, for tests; O(flows). */
double ccl_i_net_rate(const ccl_i_net_t *net, uint32_t user);
/** Force a solver, for tests: 0 automatic, 1 relax, 2 fill, 3 rebuild. */
void ccl_i_net_force(ccl_i_net_t *net, int solver);

#endif
