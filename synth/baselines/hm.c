/*
 * hm: hierarchical mesh. AllGather: each GPU sends its chunk to all GPUs of its server and around
 * a ring of aligned GPUs, one per server; what comes in from outside goes on to all local GPUs.
 * ReduceScatter is the reverse (a full-mesh reduction inside every server first), AllReduce both.
 *
 * Servers may differ: GPU j of a server with G GPUs is aligned with GPU (j + part G) mod G' of one
 * with G', so parts of a small server's chunks land on different GPUs of a big one.
 * Broadcast: the root hands a part to every local GPU, each of which does the above with it.
 */
#include "synth/common/plan.h"
#include "synth/registry.h"

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    if (topo->nservers < 2) {
        *why = "the topology has one server; there hm is direct";
        return false;
    }
    if (want->kind == CCL_ALLTOALL || want->kind == CCL_SENDRECV) {
        *why = "every chunk has one destination, so there is nothing to share; use pxn";
        return false;
    }
    if (want->kind == CCL_CUSTOM) {
        for (uint32_t k = 0; k < want->nchunks; k++) {
            if (want->chunks[k].reduced || want->chunks[k].ndests > 1)
                return true;
        }
        *why = "every chunk has one destination, so there is nothing to share; use pxn";
        return false;
    }
    return true;
}

typedef struct mesh {
    const ccl_i_cluster_t *cluster;
    uint32_t channels;
    bool spread;      /* Broadcast, Reduce: parts go by local GPUs of the root first */
    uint32_t *wanted; /* [nservers] stamp */
    uint32_t stamp;
} mesh_t;

/* To all wanted GPUs of head's server. */
static void add_local(const mesh_t *m, const ccl_i_want_t *want, uint32_t head, uint32_t step,
                      uint32_t channel, ccl_i_tree_t *out) {
    const ccl_i_cluster_t *c = m->cluster;
    uint32_t server = c->server[head], lo = 0, n = want->ntargets;
    bool all = n == c->nranks;
    if (all) {
        for (uint32_t i = c->first[server]; i < c->first[server + 1]; i++) {
            if (c->ranks[i] != head && c->ranks[i] != want->root)
                ccl_i_tree_add(out, head, c->ranks[i], step, channel);
        }
        return;
    }
    for (lo = 0; lo < n; lo++) {
        uint32_t dst = want->targets[lo];
        if (c->server[dst] == server && dst != head && dst != want->root)
            ccl_i_tree_add(out, head, dst, step, channel);
    }
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    mesh_t *m = user;
    const ccl_i_cluster_t *c = m->cluster;
    uint32_t channel = want->part % m->channels, home = c->server[want->root];
    uint32_t gpus = ccl_i_cluster_gpus(c, home), ns = c->nservers;
    (void)err;
    if (want->kind == CCL_GATHER || want->kind == CCL_SCATTER) {
        /* Over a local GPU of the root's server, another one per peer, so that all NICs take part.
         */
        uint32_t dst = want->targets[0], relay = want->root;
        if (dst == want->root)
            return CCL_OK;
        uint32_t root = want->kind == CCL_SCATTER ? want->root : dst;
        uint32_t peer = want->kind == CCL_SCATTER ? dst : want->root;
        if (c->server[root] != c->server[peer])
            relay = ccl_i_cluster_rank(c, c->server[root],
                                       c->local[peer] + want->part % m->channels *
                                                            ccl_i_cluster_gpus(c, c->server[peer]));
        if (relay != want->root && relay != dst)
            ccl_i_tree_add(out, want->root, relay, 0, channel);
        ccl_i_tree_add(out, relay == dst ? want->root : relay, dst, 1, channel);
        return CCL_OK;
    }
    uint32_t head = want->root, lead = 0;
    if (m->spread) {
        head = ccl_i_cluster_rank(c, home, want->part / m->channels);
        if (head != want->root)
            ccl_i_tree_add(out, want->root, head, 0, channel);
        lead = 1;
    }
    m->stamp++;
    for (uint32_t i = 0; i < want->ntargets; i++)
        m->wanted[c->server[want->targets[i]]] = m->stamp;
    add_local(m, want, head, lead, channel, out);
    uint32_t part = want->part % m->channels, at = head, hop = lead;
    for (uint32_t i = 1; i < ns; i++) {
        uint32_t server = (home + (want->up ? ns - i : i)) % ns;
        if (m->wanted[server] != m->stamp)
            continue;
        uint32_t next = ccl_i_cluster_rank(c, server, c->local[head] + part * gpus);
        ccl_i_tree_add(out, at, next, hop++, channel);
        add_local(m, want, next, hop, channel, out);
        at = next;
    }
    return CCL_OK;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t c;
    CCL_TRY(ccl_i_cluster_init(&c, topo, routes, err));
    mesh_t m = {.cluster = &c, .channels = options->channels};
    ccl_status_t status = CCL_OK;
    uint32_t down = 0;
    m.wanted = ccl_arena_alloc(&c.arena, c.nservers, sizeof *m.wanted);
    if (!m.wanted) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    m.spread = want->kind == CCL_BROADCAST || want->kind == CCL_REDUCE;
    if (!m.channels) {
        double transfers = ccl_i_collective_transfers(want);
        uint32_t blocks = 2 * c.max_gpus;
        uint32_t uneven = (c.max_gpus + c.min_gpus - 1) / c.min_gpus;
        m.channels = ccl_i_cluster_channels(&c, c.max_gpus - 1, blocks, transfers);
        if (m.channels < uneven && uneven <= 8 && uneven * transfers <= CCL_I_AUTO_TRANSFERS)
            m.channels = uneven;
        down = ccl_i_cluster_down_channels(&c, m.channels, blocks);
    }
    ccl_i_plan_t plan = {.name = "hm",
                         .parts = m.channels * (options->chunks ? options->chunks : 1),
                         .spread_roots = true,
                         .down_channels = down,
                         .tree = tree,
                         .user = &m};
    if (m.spread)
        plan.parts = m.channels * ccl_i_cluster_gpus(&c, c.server[want->root]);
    status = ccl_i_plan_run(ctx, &c, want, &plan, out, err);
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "hm: hierarchical mesh, %u channel%s", m.channels,
                       m.channels == 1 ? "" : "s");
end:
    ccl_i_cluster_fini(&c);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_hm = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "hm",
    .summary = "hierarchical mesh: mesh inside servers, rings of aligned GPUs across",
    .source = "ResCCL (SIGCOMM 2025), appendix A",
    .supports = supports,
    .synthesize = synthesize,
};
