/*
 * direct: every chunk goes straight to each of its destinations, all at once (a full mesh). Pairs
 * of GPUs without a route relay over the shortest GPU path.
 */
#include "synth/common/plan.h"
#include "synth/registry.h"

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo, (void)want, (void)why;
    return true;
}

typedef struct mesh {
    uint32_t channels;
    bool rotated; /* sums begin with the rank behind their root */
} mesh_t;

/*
 * Contributions are added in the order of the targets. From rank 0 on, each rank's place in them
 * differs; rotated, all ranks do the same, so that none waits longer than others, and the simulator
 * runs one of them for all.
 */
static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    const mesh_t *mesh = user;
    uint32_t n = want->ntargets, first = 0;
    (void)err;
    while (mesh->rotated && want->up && first < n && want->targets[first] <= want->root)
        first++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t target = want->targets[(first + i) % n];
        if (target != want->root)
            ccl_i_tree_add(out, want->root, target, 0, want->part % mesh->channels);
    }
    return CCL_OK;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    bool one_peer = want->kind == CCL_SENDRECV;
    uint32_t channels = options->channels, down = 0;
    uint32_t blocks = one_peer ? 2 : 2 * (cluster.nranks - 1);
    if (!channels) {
        channels = ccl_i_cluster_channels(&cluster, one_peer ? 1 : cluster.max_gpus - 1, blocks,
                                          ccl_i_collective_transfers(want));
        down = ccl_i_cluster_down_channels(&cluster, channels, blocks);
    }
    mesh_t mesh = {channels, ccl_i_cluster_large_domain(&cluster)};
    ccl_i_plan_t plan = {.name = "direct",
                         .parts = channels * (options->chunks ? options->chunks : 1),
                         .spread_roots = true,
                         .down_channels = down,
                         .tree = tree,
                         .user = &mesh};
    ccl_status_t status = ccl_i_plan_run(ctx, &cluster, want, &plan, out, err);
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "direct: full mesh, %u channel%s", channels,
                       channels == 1 ? "" : "s");
    ccl_i_cluster_fini(&cluster);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_direct = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "direct",
    .summary = "full mesh: every chunk straight to every destination at once",
    .source = "MSCCL allpairs; NCCL's grouped sends and receives",
    .supports = supports,
    .synthesize = synthesize,
    .few = true,
};
