/*
 * pxn: rail-relayed. Data for a GPU of another server first goes over NVLink to the local GPU on
 * the destination's rail (the same place in its server), which sends it across. So every NIC talks
 * to its own rail only, and messages of a server's GPUs to one GPU share a connection.
 */
#include "synth/common/plan.h"
#include "synth/registry.h"

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    if (topo->nservers < 2) {
        *why = "the topology has one server, so there are no rails";
        return false;
    }
    switch (want->kind) {
    case CCL_GATHER:
        *why = "everything would cross at the root's NIC; use hm";
        return false;
    case CCL_ALLTOALL:
    case CCL_SCATTER:
    case CCL_SENDRECV:
        return true;
    case CCL_CUSTOM:
        for (uint32_t k = 0; k < want->nchunks; k++) {
            if (want->chunks[k].reduced) {
                *why = "the demand reduces, and relays only pass data on";
                return false;
            }
        }
        return true;
    default:
        *why = "every rank needs all data, so a relay per destination would repeat it; use hm";
        return false;
    }
}

typedef struct rails {
    ccl_i_cluster_t *cluster;
    uint32_t channels;
} rails_t;

/*
 * The GPU of src's server that sends to dst across: at dst's place, in a bigger server than dst's
 * the one in src's own part of it, or the next one with a route.
 */
static uint32_t relay_for(const ccl_i_cluster_t *c, uint32_t src, uint32_t dst) {
    uint32_t server = c->server[src], gpus = ccl_i_cluster_gpus(c, c->server[dst]);
    uint32_t place = c->local[src] / gpus * gpus + c->local[dst];
    for (uint32_t i = 0; i < ccl_i_cluster_gpus(c, server); i++) {
        uint32_t relay = ccl_i_cluster_rank(c, server, place + i);
        if (ccl_i_cluster_reaches(c, relay, dst))
            return relay;
    }
    return src;
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    const rails_t *rails = user;
    const ccl_i_cluster_t *c = rails->cluster;
    uint32_t channel = want->part % rails->channels;
    (void)err;
    for (uint32_t i = 0; i < want->ntargets; i++) {
        uint32_t dst = want->targets[i];
        if (dst == want->root)
            continue;
        if (c->server[dst] == c->server[want->root]) {
            ccl_i_tree_add(out, want->root, dst, 0, channel);
            continue;
        }
        uint32_t relay = relay_for(c, want->root, dst);
        if (relay != want->root)
            ccl_i_tree_add(out, want->root, relay, 0, channel);
        ccl_i_tree_add(out, relay, dst, 1, channel);
    }
    return CCL_OK;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    rails_t rails = {&cluster, options->channels};
    if (!rails.channels)
        rails.channels = ccl_i_cluster_channels(&cluster, cluster.max_gpus - 1,
                                                2 * (cluster.max_gpus + cluster.nservers - 2),
                                                2 * ccl_i_collective_transfers(want));
    ccl_i_plan_t plan = {.name = "pxn",
                         .parts = rails.channels * (options->chunks ? options->chunks : 1),
                         .tree = tree,
                         .user = &rails};
    ccl_status_t status = ccl_i_plan_run(ctx, &cluster, want, &plan, out, err);
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "pxn: relays on the destinations' rails, %u channel%s",
                       rails.channels, rails.channels == 1 ? "" : "s");
    ccl_i_cluster_fini(&cluster);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_pxn = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "pxn",
    .summary = "over NVLink to the local GPU on the destination's rail, then across",
    .source = "NCCL 2.12 PXN (PCI x NVLink)",
    .supports = supports,
    .synthesize = synthesize,
};
