/* Private to models: what the bounds on bandwidth share. */
#ifndef CCL_MODELS_BOUNDS_H
#define CCL_MODELS_BOUNDS_H

#include "models/models.h"

/** What a cut takes a switch for. */
enum { CCL_I_HELD_NOT, CCL_I_HELD_SENDS, CCL_I_HELD_RECEIVES, CCL_I_HELD_OUT /**< is left out */ };

/** Cuts of a capacity graph, by maximum flows from a source that feeds every rank. */
typedef struct ccl_i_cutter {
    const ccl_capacity_t *c;
    bool reversed; /**< arcs lead the other way */
    ccl_maxflow_t *flow;
    uint32_t source;
    bool *side;           /**< [nvertices + 1] of the last cut found */
    const uint8_t *held;  /**< [ndevices] CCL_I_HELD_... for ccl_i_cut_between(); borrowed, NULL:
                             no switch is held */
    bool alone;           /**< with held: no way leads through GPUs that neither send nor receive */
    int64_t *group_units; /**< [ngroups] of groups without a vertex, else -1 */
    int64_t *group_left;  /**< [ngroups] scratch */
    int64_t total_units;
} ccl_i_cutter_t;
ccl_status_t ccl_i_cutter_init(ccl_i_cutter_t *cutter, const ccl_capacity_t *c, bool reversed,
                               ccl_error_t *err);
void ccl_i_cutter_fini(ccl_i_cutter_t *cutter);
/** Capacity out of `side` ([nvertices], true within). */
int64_t ccl_i_cut_units(ccl_i_cutter_t *cutter, const bool *side);
/** Units that can go from the ranks of `from` to those of `to` ([nranks] each) at once; fills side.
 */
int64_t ccl_i_cut_between(ccl_i_cutter_t *cutter, const uint8_t *from, const uint8_t *to);

/** Whether the cut has no way through `v`: a switch that is left out, or with `alone` a GPU that
 * neither sends nor receives. */
bool ccl_i_cut_shuns(const ccl_i_cutter_t *cutter, uint32_t v, const uint8_t *from,
                     const uint8_t *to);

/** The tightest cut so far: `parts` must leave `side`, `units` can in a second and unit. */
typedef struct ccl_i_cut {
    int64_t parts, units; /**< units 0: none */
    bool *side;           /**< [nvertices] */
} ccl_i_cut_t;
/**
 * Tighten `cut` until no set without `sink` holds weights beyond parts / units times what can leave
 * it.
 */
ccl_status_t ccl_i_cut_tighten(ccl_i_cutter_t *cutter, const uint32_t *weights, uint32_t sink,
                               ccl_i_cut_t *cut, ccl_error_t *err);

/** Bps = parts units / moved, in the capacity's unit, as number and fraction. */
void ccl_i_bound_rate(const ccl_capacity_t *c, uint64_t parts, uint64_t units, uint64_t moved,
                      ccl_bandwidth_bound_t *out);
/** Mark in `crosses` ([nlinks]) the links, members of groups too, by which `side` is left. */
void ccl_i_bound_crossing(const ccl_capacity_t *c, bool reversed, const bool *side,
                          uint8_t *crosses);
/** The marked links as those of the bound. */
ccl_status_t ccl_i_bound_links(const ccl_topology_t *topo, const uint8_t *crosses,
                               ccl_bandwidth_bound_t *out, ccl_error_t *err);
/** part and links of a cut; `side` as the cutter has it. */
ccl_status_t ccl_i_bound_witness(const ccl_capacity_t *c, bool reversed, const bool *side,
                                 ccl_bandwidth_bound_t *out, ccl_error_t *err);
/** Every vertex that is no GPU can send as much as it can receive, so that trees need no switch. */
bool ccl_i_capacity_balanced(const ccl_capacity_t *c);

/** Least overhead of the primitive that receives at the end, of any transport: of the one that it
 * receives from or one that it sends on to. @param proto  NULL: the least of the three. */
double ccl_i_bound_receive_s(const ccl_topology_t *topo, const char *proto);

ccl_status_t ccl_i_bound_pairs(const ccl_ctx_t *ctx, const ccl_capacity_t *c,
                               const ccl_bound_demand_t *demand, ccl_bandwidth_bound_t *out,
                               ccl_error_t *err);
/** @param trees  what plain trees reach, too, which takes longest. @param out  empty, Bps INFINITY.
 */
ccl_status_t ccl_i_bound_allreduce(const ccl_ctx_t *ctx, const ccl_capacity_t *c, bool trees,
                                   ccl_bandwidth_bound_t *out, ccl_error_t *err);
/**
 * AllReduce where switches multicast (leave) or reduce (enter), if that is a tighter bound.
 * @param leave  cuts of what leaves, @param enter  of what enters; the other way round where
 * switches reduce. @param able  [ndevices] those switches.
 */
ccl_status_t ccl_i_bound_domains(const ccl_ctx_t *ctx, ccl_i_cutter_t *leave, ccl_i_cutter_t *enter,
                                 const uint8_t *able, ccl_bandwidth_bound_t *out, ccl_error_t *err);
/** Bytes per second that the best reduce-scatter and all-gather along plain trees reach; 0: not
 * found in time. */
ccl_status_t ccl_i_bound_trees(const ccl_ctx_t *ctx, const ccl_capacity_t *c,
                               const ccl_automorphisms_t *symmetry, double *Bps_out,
                               ccl_error_t *err);

#endif
