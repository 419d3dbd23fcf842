/*
 * Collectives of disjoint groups at once: each group's program is made on the cluster without the
 * other GPUs, and all of them together are one program, which runs on the whole cluster, where they
 * share links.
 */
#include "training/groups.h"
#include "validate/nccl/nccl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- one group */

static ccl_status_t group_topology(const ccl_topology_t *topo, const uint32_t *ranks, uint32_t n,
                                   ccl_topology_t **out, ccl_error_t *err) {
    bool *keep = calloc(topo->nranks, sizeof *keep);
    ccl_status_t status;
    if (!keep)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        keep[ranks[i]] = true;
    status = ccl_topology_keep(topo, keep, out, err);
    free(keep);
    return status;
}

/* Synthesized, lowered the synthesizer's way, proven. */
static ccl_status_t group_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_collective_kind_t kind, double size_bytes, const char *by,
                                  ccl_program_t **out, ccl_error_t *err) {
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_collective_t *want = NULL;
    ccl_made_t made = {0};
    synth.size_bytes = size_bytes;
    CCL_TRY(ccl_collective_create(kind, topo->nranks, 1, 0, &want, err));
    ccl_status_t status = ccl_make(ctx, by, topo, NULL, want, &synth, NULL, false, &made, err);
    if (status == CCL_OK) {
        *out = made.program;
        made.program = NULL;
    }
    ccl_made_fini(&made);
    ccl_collective_destroy(want);
    return status;
}

/* ---------------------------------------------------------------- all of them */

/* The group's peer with the cluster's ranks. @param groups  those of its switch connections */
static uint32_t renamed(const uint32_t *ranks, const uint32_t *groups, uint32_t peer) {
    if (peer == CCL_NONE)
        return CCL_NONE;
    return ccl_peer_is_group(peer) ? groups[peer & ~CCL_PEER_GROUP]
                                   : ranks[ccl_peer_rank(peer)] | (peer & CCL_PEER_MEMBER);
}

/* The groups of a program's switch connections with the cluster's ranks. NULL: no memory. */
static uint32_t *rename_groups(ccl_program_builder_t *b, const ccl_program_t *p,
                               const uint32_t *ranks) {
    uint32_t *peers = malloc((p->ngroups + (size_t)p->nranks) * sizeof *peers);
    uint32_t *members = peers ? peers + p->ngroups : NULL;
    for (uint32_t g = 0; peers && g < p->ngroups; g++) {
        for (uint32_t i = 0; i < p->groups[g].n; i++)
            members[i] = ranks[p->groups[g].ranks[i]];
        peers[g] = ccl_program_builder_group(b, members, p->groups[g].n);
    }
    return peers;
}

/* The group's program with the cluster's ranks; its chunks are cut into `factor` parts. False: no
   memory. */
static bool append(ccl_program_builder_t *b, const ccl_program_t *p, const uint32_t *ranks,
                   uint32_t factor) {
    uint32_t *groups = rename_groups(b, p, ranks);
    if (!groups)
        return false;
    for (uint32_t r = 0; r < p->nranks; r++) {
        for (uint32_t k = 0; k < 3; k++)
            ccl_program_builder_buffer(b, ranks[r], (ccl_buffer_t)k,
                                       p->buffer_len[3 * (size_t)r + k] * factor);
    }
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        uint32_t at =
            ccl_program_builder_tb(b, ranks[tb->rank], renamed(ranks, groups, tb->send_peer),
                                   renamed(ranks, groups, tb->recv_peer), tb->channel);
        for (uint32_t i = tb->first_step; i < tb->first_step + tb->nsteps; i++) {
            ccl_step_t step = p->steps[i];
            step.src_off *= factor;
            step.dst_off *= factor;
            step.count *= factor;
            if (p->peers) {
                ccl_peers_t peers = p->peers[i];
                peers.send_peer = renamed(ranks, groups, peers.send_peer);
                peers.recv_peer = renamed(ranks, groups, peers.recv_peer);
                ccl_program_builder_step_peers(b, at, step, peers);
            } else {
                ccl_program_builder_step(b, at, step);
            }
        }
    }
    free(groups);
    return true;
}

static ccl_status_t join(const ccl_topology_t *topo, const ccl_i_rank_groups_t *groups,
                         ccl_program_t *const *programs, ccl_collective_kind_t kind,
                         ccl_program_t **out, ccl_error_t *err) {
    ccl_collective_t *all = NULL;
    ccl_program_builder_t *b;
    uint64_t nchunks = 1;
    for (uint32_t g = 0; g < groups->n; g++) {
        nchunks *= programs[g]->nchunks / ccl_gcd(nchunks, programs[g]->nchunks);
        if (programs[g]->shares || nchunks > 1u << 20 ||
            strcmp(programs[g]->proto, programs[0]->proto) != 0)
            return ccl_fail(err, CCL_UNSUPPORTED,
                            "groups that differ too much to run as one program");
    }
    CCL_TRY(ccl_collective_create(kind, topo->nranks, 1, 0, &all, err));
    b = ccl_program_builder_create("groups", all, (uint32_t)nchunks, programs[0]->proto);
    if (!b)
        return ccl_fail_nomem(err);
    for (uint32_t g = 0; g < groups->n; g++) {
        if (!append(b, programs[g], &groups->ranks[(size_t)g * groups->nranks],
                    (uint32_t)(nchunks / programs[g]->nchunks))) {
            ccl_program_builder_destroy(b);
            return ccl_fail_nomem(err);
        }
    }
    CCL_TRY(ccl_program_builder_finish(b, out, err));
    for (uint32_t g = 0; g < groups->n; g++)
        (*out)->algorithm_only |= programs[g]->algorithm_only;
    return CCL_OK;
}

typedef struct ask {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    const ccl_i_rank_groups_t *groups;
    ccl_topology_t **parts;    /* [groups->n] */
    ccl_topology_t **machines; /* [groups->n] as stock software sees them */
    ccl_collective_kind_t kind;
    double size_bytes;
    const char *const *with;
    double *time_s;   /* [nwith] INFINITY: cannot */
    ccl_error_t *why; /* [nwith] */
} ask_t;

static ccl_status_t run(const ask_t *a, const ccl_ctx_t *ctx, const ccl_synth_ops_t *ops,
                        ccl_program_t **programs, double *time_s, ccl_error_t *err) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *joined = NULL;
    ccl_way_t way = ccl_way_choose(ops->way, (ccl_way_t){0}, 0);
    ccl_status_t status = CCL_OK;
    for (uint32_t g = 0; status == CCL_OK && g < a->groups->n; g++)
        status =
            group_program(ctx, a->parts[g], a->kind, a->size_bytes, ops->name, &programs[g], err);
    if (status == CCL_OK)
        status = join(a->topo, a->groups, programs, a->kind, &joined, err);
    sim.size_bytes = a->size_bytes;
    sim.granularity = way.granularity;
    *time_s = INFINITY;
    for (uint32_t k = 0; status == CCL_OK && k < CCL_PROTOCOLS; k++) {
        ccl_sim_result_t *result = NULL;
        joined->proto = ccl_protocol_name((ccl_protocol_t)k);
        status = ccl_sim_program(ctx, a->topo, NULL, joined, &sim, &result, err);
        if (status == CCL_OK)
            *time_s = fmin(*time_s, result->time_s);
        ccl_sim_result_destroy(result);
    }
    ccl_program_destroy(joined);
    return status;
}

/*
 * Stock software chooses for a group by the group's part of the machine; the run is on the whole
 * cluster with what the first group's kernel does otherwise than a ring.
 */
static ccl_status_t run_stock(const ask_t *a, const ccl_ctx_t *ctx, double *time_s,
                              ccl_error_t *err) {
    uint32_t n = a->groups->n;
    ccl_predictor_t **predictors = calloc(n, sizeof(ccl_predictor_t *));
    ccl_nccl_kernel_t *kernels = calloc(n, sizeof *kernels);
    ccl_program_t **programs = calloc(n, sizeof *programs);
    ccl_sim_result_t *result = NULL;
    ccl_program_t *joined = NULL;
    const char *library;
    ccl_status_t status = predictors && kernels && programs ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t g = 0; status == CCL_OK && g < n; g++) {
        status = ccl_nccl_library(a->parts[g], &library, err);
        if (status == CCL_OK)
            status = ccl_predictor_create(ctx, a->machines[g], NULL, 0, &predictors[g], err);
        if (status != CCL_OK)
            break;
        ccl_predictor_lay(predictors[g], a->topo);
        status =
            ccl_predictor_kernel(predictors[g], a->kind, 0, a->size_bytes, NULL, &kernels[g], err);
        programs[g] = &kernels[g].program;
    }
    if (status == CCL_OK)
        status = join(a->topo, a->groups, programs, a->kind, &joined, err);
    if (status == CCL_OK) {
        ccl_sim_options_t sim = ccl_nccl_kernel_sim(&kernels[0], a->size_bytes);
        status = ccl_sim_program(ctx, kernels[0].topo, NULL, joined, &sim, &result, err);
    }
    if (status == CCL_OK)
        *time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(joined);
    for (uint32_t g = 0; predictors && g < n; g++)
        ccl_predictor_destroy(predictors[g]);
    free(predictors);
    free(kernels);
    free(programs);
    return status;
}

static ccl_status_t one(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    ask_t *a = user;
    ccl_ctx_t ctx = a->ctx ? *a->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    const ccl_synth_ops_t *ops = ccl_synth_find(a->with[index]);
    ccl_program_t **programs = calloc(a->groups->n, sizeof *programs);
    ccl_status_t status;
    (void)worker;
    if (!programs)
        return ccl_fail_nomem(err);
    ctx.log = NULL;
    ctx.progress = NULL;
    ctx.threads = 1;
    status = ops ? run(a, &ctx, ops, programs, &a->time_s[index], &a->why[index])
                 : run_stock(a, &ctx, &a->time_s[index], &a->why[index]);
    for (uint32_t g = 0; g < a->groups->n; g++)
        ccl_program_destroy(programs[g]);
    free(programs);
    if (status == CCL_INTERRUPTED || status == CCL_ERR_INTERNAL) {
        if (err)
            *err = a->why[index];
        return status;
    }
    if (status != CCL_OK)
        a->time_s[index] = INFINITY;
    return CCL_OK;
}

static ccl_status_t choose(const ask_t *a, uint32_t nwith, double *time_s_out, const char **by_out,
                           ccl_error_t *err) {
    uint32_t best = CCL_NONE;
    for (uint32_t w = 0; w < nwith; w++) {
        if (isfinite(a->time_s[w]) && (best == CCL_NONE || a->time_s[w] < a->time_s[best]))
            best = w;
    }
    for (uint32_t w = 0; best == CCL_NONE && w < nwith; w++) {
        if (a->why[w].status == CCL_ERR_NOMEM)
            return ccl_fail_nomem(err);
    }
    if (best == CCL_NONE)
        return ccl_fail(err, CCL_INFEASIBLE, "no synthesizer can do %s in groups of %u: %s: %s",
                        ccl_collective_kind_name(a->kind), a->groups->nranks, a->with[0],
                        a->why[0].text);
    *time_s_out = a->time_s[best];
    *by_out = a->with[best];
    return CCL_OK;
}

ccl_status_t ccl_i_groups_time(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               const ccl_i_rank_groups_t *groups, const ccl_i_groups_ask_t *ask,
                               double *time_s_out, const char **by_out, ccl_error_t *err) {
    uint32_t nwith = ask->nwith;
    bool stock = false;
    ask_t a = {.ctx = ctx,
               .topo = topo,
               .groups = groups,
               .kind = ask->kind,
               .size_bytes = ask->size_bytes,
               .with = ask->with};
    ccl_status_t status = CCL_OK;
    if (groups->nranks < 2 || !(ask->size_bytes > 0)) {
        *time_s_out = 0;
        *by_out = "";
        return CCL_OK;
    }
    for (uint32_t w = 0; w < nwith; w++)
        stock |= ccl_nccl_stock(ask->with[w]);
    a.parts = calloc(groups->n, sizeof(ccl_topology_t *));
    a.machines = calloc(groups->n, sizeof(ccl_topology_t *));
    a.time_s = calloc(nwith, sizeof *a.time_s);
    a.why = calloc(nwith, sizeof *a.why);
    if (!a.parts || !a.machines || !a.time_s || !a.why)
        status = ccl_fail_nomem(err);
    for (uint32_t g = 0; status == CCL_OK && g < groups->n; g++) {
        const uint32_t *ranks = &groups->ranks[(size_t)g * groups->nranks];
        status = group_topology(topo, ranks, groups->nranks, &a.parts[g], err);
        if (status == CCL_OK && stock)
            status = group_topology(ask->machine, ranks, groups->nranks, &a.machines[g], err);
    }
    if (status == CCL_OK)
        status = ccl_parallel_for(nwith, ctx ? ctx->threads : 0, one, &a, err);
    if (status == CCL_OK)
        status = choose(&a, nwith, time_s_out, by_out, err);
    for (uint32_t g = 0; a.parts && a.machines && g < groups->n; g++) {
        ccl_topology_destroy(a.parts[g]);
        ccl_topology_destroy(a.machines[g]);
    }
    free(a.parts);
    free(a.machines);
    free(a.time_s);
    free(a.why);
    return status;
}

/* ---------------------------------------------------------------- messages between pairs */

static ccl_status_t pairs_program(const ccl_topology_t *topo, const uint32_t *pairs, uint32_t n,
                                  uint32_t channels, ccl_program_t **out, ccl_error_t *err) {
    ccl_collective_t *all = NULL;
    ccl_program_builder_t *b;
    uint32_t *received = calloc(topo->nranks, sizeof *received);
    if (!received)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_collective_create(CCL_SENDRECV, topo->nranks, 1, 0, &all, err);
    b = status == CCL_OK ? ccl_program_builder_create("pairs", all, channels, "Simple") : NULL;
    if (!b) {
        free(received);
        return status == CCL_OK ? ccl_fail_nomem(err) : status;
    }
    for (uint32_t r = 0; r < topo->nranks; r++)
        ccl_program_builder_buffer(b, r, CCL_BUF_INPUT, channels);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = pairs[2 * (size_t)i], to = pairs[2 * (size_t)i + 1];
        for (uint32_t c = 0; c < channels; c++) {
            ccl_step_t step = {.src_off = c,
                               .dst_off = received[to] * channels + c,
                               .count = 1,
                               .dep_tb = CCL_NONE,
                               .dep_step = CCL_NONE,
                               .type = CCL_PRIM_S,
                               .src_buf = CCL_BUF_INPUT,
                               .dst_buf = CCL_BUF_OUTPUT};
            ccl_program_builder_step(b, ccl_program_builder_tb(b, from, to, CCL_NONE, c), step);
            step.type = CCL_PRIM_R;
            step.src_buf = CCL_BUF_OUTPUT;
            step.src_off = step.dst_off;
            ccl_program_builder_step(b, ccl_program_builder_tb(b, to, CCL_NONE, from, c), step);
        }
        received[to]++;
    }
    for (uint32_t r = 0; r < topo->nranks; r++)
        ccl_program_builder_buffer(b, r, CCL_BUF_OUTPUT, received[r] * channels);
    free(received);
    return ccl_program_builder_finish(b, out, err);
}

ccl_status_t ccl_i_pairs_time(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const uint32_t *pairs, uint32_t n, double size_bytes,
                              double *time_s_out, ccl_error_t *err) {
    double best_s = INFINITY;
    for (uint32_t channels = 1; channels <= 16; channels *= 2) {
        ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
        ccl_sim_result_t *result = NULL;
        ccl_program_t *program = NULL;
        ccl_status_t status = pairs_program(topo, pairs, n, channels, &program, err);
        sim.size_bytes = size_bytes;
        if (status == CCL_OK)
            status = ccl_sim_program(ctx, topo, NULL, program, &sim, &result, err);
        if (status == CCL_OK && result->time_s < best_s)
            best_s = result->time_s;
        ccl_sim_result_destroy(result);
        ccl_program_destroy(program);
        CCL_TRY(status);
    }
    *time_s_out = best_s;
    return CCL_OK;
}
