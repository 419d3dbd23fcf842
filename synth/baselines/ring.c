/*
 * ring: NCCL's ring, one per channel (rings.c). Every chunk goes around its channel's ring;
 * reductions the same way round before, so that a channel needs one connection per GPU. Rooted
 * collectives are chains that start or end at the root.
 */
#include "synth/common/plan.h"
#include "synth/registry.h"

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    if (want->kind == CCL_ALLTOALL || want->kind == CCL_SENDRECV) {
        *why = "every chunk has one destination, a ring would carry it past all others; use direct";
        return false;
    }
    if (want->kind == CCL_CUSTOM) {
        for (uint32_t k = 0; k < want->nchunks; k++) {
            const ccl_chunk_t *c = &want->chunks[k];
            if (c->share > 0 && !c->reduced && 2 * c->ndests < want->nranks) {
                *why = "a chunk goes to fewer than half of the ranks, a ring would carry it past "
                       "the others; use direct";
                return false;
            }
        }
    }
    return true;
}

typedef struct ring {
    uint32_t nranks, channels;
    ccl_i_rings_t rings;
    uint32_t **place; /* [channels][nranks] first place of a rank in the walk */
    uint32_t *wanted; /* [nranks] stamp */
    uint32_t stamp;
} ring_t;

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    ring_t *r = user;
    uint32_t channel = want->part % r->channels, loop = want->part / r->channels;
    const uint32_t *walk = r->rings.walk[channel];
    uint32_t len = r->rings.len[channel], left = 0, at = r->place[channel][want->root];
    uint32_t first_edge = (uint32_t)out->len;
    (void)err;
    r->stamp += 2;
    for (uint32_t i = 0; i < want->ntargets; i++) {
        if (want->targets[i] != want->root) {
            r->wanted[want->targets[i]] = r->stamp;
            left++;
        }
    }
    r->wanted[want->root] = r->stamp + 1; /* reached */
    /* Later loops of a channel come behind the earlier ones; the farthest chunk of a scatter first.
     */
    uint32_t step = loop * len;
    for (uint32_t hop = 0; left && hop < 2 * len; hop++, step++) {
        uint32_t next = want->up ? (at + len - 1) % len : (at + 1) % len;
        if (r->wanted[walk[next]] != r->stamp + 1) {
            ccl_i_tree_add(out, walk[at], walk[next], step, channel);
            left -= r->wanted[walk[next]] == r->stamp;
            r->wanted[walk[next]] = r->stamp + 1;
        }
        at = next;
    }
    if (want->kind == CCL_SCATTER && !out->nomem) {
        uint32_t behind = (loop + 1) * len - step;
        for (size_t i = first_edge; i < out->len; i++)
            out->edges[i].step += behind;
    }
    return CCL_OK;
}

static ccl_status_t init(ring_t *r, const ccl_ctx_t *ctx, ccl_i_cluster_t *c,
                         const ccl_collective_t *want, const ccl_synth_options_t *options,
                         ccl_error_t *err) {
    uint32_t most = options->channels, sms = 0;
    bool reduces =
        want->kind == CCL_ALLREDUCE || want->kind == CCL_REDUCESCATTER || want->kind == CCL_REDUCE;
    if (!most) {
        most = CCL_I_MAX_AUTO_CHANNELS;
        for (uint32_t rank = 0; rank < c->nranks; rank++) {
            uint32_t mine = ccl_model_gpu(c->topo, rank).sms;
            sms = mine && (!sms || mine < sms) ? mine : sms;
        }
        most = sms && sms < most ? sms : most;
        double room = CCL_I_AUTO_TRANSFERS / ccl_i_collective_transfers(want);
        most = room < 1 ? 1 : room < most ? (uint32_t)room : most;
    }
    CCL_TRY(ccl_i_rings_init(ctx, c, most, reduces, &r->rings, err));
    r->nranks = c->nranks;
    r->channels = options->channels ? options->channels : r->rings.best;
    r->wanted = ccl_arena_alloc(&c->arena, c->nranks, sizeof *r->wanted);
    r->place = ccl_arena_alloc(&c->arena, r->channels, sizeof *r->place);
    if (!r->wanted || !r->place)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < r->channels; i++) {
        r->place[i] = ccl_arena_alloc(&c->arena, c->nranks, sizeof **r->place);
        if (!r->place[i])
            return ccl_fail_nomem(err);
        for (uint32_t k = r->rings.len[i]; k-- > 0;)
            r->place[i][r->rings.walk[i][k]] = k;
    }
    return CCL_OK;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    ring_t ring = {0};
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    ccl_status_t status = init(&ring, ctx, &cluster, want, options, err);
    if (status == CCL_OK) {
        ccl_i_plan_t plan = {.name = "ring",
                             .parts = ring.channels * (options->chunks ? options->chunks : 1),
                             .spread_roots = true,
                             .tree = tree,
                             .user = &ring};
        status = ccl_i_plan_run(ctx, &cluster, want, &plan, out, err);
        if (status == CCL_OK)
            ccl_origin_set((*out)->origin, "ring: %u ring%s over the cluster's links",
                           ring.channels, ring.channels == 1 ? "" : "s");
    }
    ccl_i_rings_fini(&ring.rings);
    ccl_i_cluster_fini(&cluster);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_ring = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "ring",
    .summary = "rings over all GPUs, as many channels as fill the NICs and links",
    .source = "NCCL 2, ring algorithm and graph search",
    .supports = supports,
    .synthesize = synthesize,
};
