/*
 * hpds: ResCCL's whole workflow as a contender. The schedule is the hierarchical mesh's (on one
 * server the full mesh, which is its part inside a server); what differs is how it is lowered: HPDS
 * order (ResCCL, section 4.3), thread blocks by state (4.4), every primitive over all micro-batches
 * (4.5).
 */
#include "synth/registry.h"

static const ccl_synth_ops_t *base(const ccl_topology_t *topo) {
    return topo->nservers < 2 ? &ccl_i_synth_direct : &ccl_i_synth_hm;
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    return base(topo)->supports(topo, want, why);
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    return base(topo)->synthesize(ctx, topo, routes, want, options, out, err);
}

const ccl_synth_ops_t ccl_i_synth_hpds = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "hpds",
    .summary = "hierarchical mesh in HPDS order, thread blocks by state, task level",
    .source = "ResCCL (SIGCOMM 2025), sections 4.3 to 4.5 and appendix A",
    .supports = supports,
    .synthesize = synthesize,
    .way = &ccl_way_hpds,
};
