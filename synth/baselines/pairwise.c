/*
 * pairwise: n - 1 rounds, in each of which every GPU sends to one GPU and receives from one:
 * partner rank XOR round for powers of two, else rank + round. A GPU starts a round when it has
 * finished the one before (ccl_schedule_t.rounds).
 */
#include "synth/common/plan.h"
#include "synth/registry.h"

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    switch (want->kind) {
    case CCL_ALLTOALL:
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
    case CCL_CUSTOM:
        return true;
    case CCL_ALLREDUCE:
        *why = "rounds of pairs exchange blocks that differ per rank; use ring or recursive";
        return false;
    default:
        *why = "one GPU sends or receives everything, so there are no pairs to form";
        return false;
    }
}

typedef struct pairing {
    uint32_t nranks, channels;
} pairing_t;

static uint32_t round_of(const pairing_t *p, uint32_t src, uint32_t dst) {
    uint32_t n = p->nranks;
    return (n & (n - 1)) == 0 ? src ^ dst : (dst + n - src) % n;
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    const pairing_t *p = user;
    (void)err;
    for (uint32_t i = 0; i < want->ntargets; i++) {
        if (want->targets[i] != want->root)
            ccl_i_tree_add(out, want->root, want->targets[i],
                           round_of(p, want->root, want->targets[i]) - 1, want->part % p->channels);
    }
    return CCL_OK;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    pairing_t pairing = {cluster.nranks, options->channels};
    if (!pairing.channels)
        pairing.channels = ccl_i_cluster_channels(&cluster, 1, 2 * (cluster.nranks - 1),
                                                  ccl_i_collective_transfers(want));
    ccl_i_plan_t plan = {.name = "pairwise",
                         .parts = pairing.channels * (options->chunks ? options->chunks : 1),
                         .spread_roots = true,
                         .tree = tree,
                         .user = &pairing};
    ccl_status_t status = ccl_i_plan_run(ctx, &cluster, want, &plan, out, err);
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "pairwise: %u rounds of pairs, %u channel%s",
                       pairing.nranks - 1, pairing.channels, pairing.channels == 1 ? "" : "s");
    ccl_i_cluster_fini(&cluster);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_pairwise = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "pairwise",
    .summary = "n - 1 ordered rounds of pairs (XOR or shift)",
    .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4 (pairwise exchange)",
    .supports = supports,
    .synthesize = synthesize,
    .ordered = true,
    .few = true,
};
