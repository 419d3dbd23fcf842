/*
 * The programs that NCCL's kernels are: a ring is one block per channel and rank that sends,
 * forwards and receives in turn; trees come from the tree synthesizer; AllToAll is two halves of a
 * block per channel and pair of peers (sent to, received from), and one that copies the rank's own
 * part.
 */
#include "validate/nccl/nccl.h"
#include "validate/nccl/nvls_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- rings */

/*
 * Who follows whom on each channel, from the ring synthesizer's AllGather: NULL when a walk comes
 * to a rank twice (no ring over all GPUs).
 */
static ccl_status_t ring_order(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, uint32_t channels, uint32_t **next_out,
                               ccl_error_t *err) {
    uint32_t n = topo->nranks;
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    uint32_t *next = NULL;
    *next_out = NULL;
    options.channels = channels;
    CCL_TRY(ccl_collective_create(CCL_ALLGATHER, n, 1, 0, &coll, err));
    ccl_status_t status = ccl_synthesize(ctx, "ring", topo, routes, coll, &options, &schedule, err);
    ccl_collective_destroy(coll);
    CCL_TRY(status);
    next = malloc((size_t)channels * n * sizeof *next);
    if (!next) {
        ccl_schedule_destroy(schedule);
        return ccl_fail_nomem(err);
    }
    for (size_t i = 0; i < (size_t)channels * n; i++)
        next[i] = CCL_NONE;
    bool ring = true;
    for (uint32_t t = 0; t < schedule->ntransfers && ring; t++) {
        const ccl_transfer_t *tr = &schedule->transfers[t];
        uint32_t *at = &next[(size_t)(tr->channel % channels) * n + tr->src];
        ring = *at == CCL_NONE || *at == tr->dst;
        *at = tr->dst;
    }
    ccl_schedule_destroy(schedule);
    for (uint32_t c = 0; c < channels && ring; c++) {
        uint32_t rank = 0, seen = 0;
        do {
            rank = next[(size_t)c * n + rank];
            seen++;
        } while (rank != 0 && rank != CCL_NONE && seen <= n);
        ring = rank == 0 && seen == n;
    }
    if (ring)
        *next_out = next;
    else
        free(next);
    return CCL_OK;
}

typedef struct ring {
    ccl_program_builder_t *b;
    ccl_collective_kind_t kind;
    uint32_t n, channels, root;
} ring_t;

static void add(const ring_t *r, uint32_t tb, ccl_primitive_t type, ccl_buffer_t from,
                uint32_t src_off, ccl_buffer_t to, uint32_t dst_off) {
    ccl_step_t step = {.src_off = src_off,
                       .dst_off = dst_off,
                       .count = 1,
                       .dep_tb = CCL_NONE,
                       .dep_step = CCL_NONE,
                       .type = (uint8_t)type,
                       .src_buf = (uint8_t)from,
                       .dst_buf = (uint8_t)to};
    ccl_program_builder_step(r->b, tb, step);
}

/* Rank at place `at` of the channel's ring; its blocks are named by the rank they belong to. */
static void ring_block(const ring_t *r, const uint32_t *walk, uint32_t at, uint32_t channel) {
    uint32_t n = r->n, rank = walk[at];
    uint32_t after = walk[(at + 1) % n], before = walk[(at + n - 1) % n];
    uint32_t tb;
    ccl_buffer_t in = CCL_BUF_INPUT, io = CCL_BUF_OUTPUT;
#define ELEMENT_(place_) (walk[(place_) % n] * r->channels + channel)
    switch (r->kind) {
    case CCL_ALLGATHER:
        tb = ccl_program_builder_tb(r->b, rank, after, before, channel);
        /* In place: its own part stands in the output already, at the input's address. */
        add(r, tb, CCL_PRIM_S, in, channel, io, ELEMENT_(at));
        for (uint32_t k = 1; k + 1 < n; k++)
            add(r, tb, CCL_PRIM_RCS, io, ELEMENT_(at + n - k), io, ELEMENT_(at + n - k));
        add(r, tb, CCL_PRIM_R, io, ELEMENT_(at + 1), io, ELEMENT_(at + 1));
        break;
    case CCL_REDUCESCATTER:
        tb = ccl_program_builder_tb(r->b, rank, after, before, channel);
        add(r, tb, CCL_PRIM_S, in, ELEMENT_(at + n - 1), in, ELEMENT_(at + n - 1));
        for (uint32_t k = 2; k < n; k++)
            add(r, tb, CCL_PRIM_RRS, in, ELEMENT_(at + n - k), in, ELEMENT_(at + n - k));
        add(r, tb, CCL_PRIM_RRC, in, ELEMENT_(at), io, channel);
        break;
    case CCL_ALLREDUCE:
        tb = ccl_program_builder_tb(r->b, rank, after, before, channel);
        add(r, tb, CCL_PRIM_S, in, ELEMENT_(at + n - 1), in, ELEMENT_(at + n - 1));
        for (uint32_t k = 2; k < n; k++)
            add(r, tb, CCL_PRIM_RRS, in, ELEMENT_(at + n - k), in, ELEMENT_(at + n - k));
        add(r, tb, CCL_PRIM_RRCS, in, ELEMENT_(at), io, ELEMENT_(at));
        for (uint32_t k = 1; k + 1 < n; k++)
            add(r, tb, CCL_PRIM_RCS, io, ELEMENT_(at + n - k), io, ELEMENT_(at + n - k));
        add(r, tb, CCL_PRIM_R, io, ELEMENT_(at + 1), io, ELEMENT_(at + 1));
        break;
    default: { /* Broadcast and Reduce: a chain that begins or ends at the root */
        bool up = r->kind == CCL_REDUCE;
        uint32_t place = 0;
        while (walk[place] != r->root)
            place++;
        uint32_t first = up ? (place + 1) % n : place, last = (first + n - 1) % n;
        tb = ccl_program_builder_tb(r->b, rank, at == last ? CCL_NONE : after,
                                    at == first ? CCL_NONE : before, channel);
        if (at == first)
            add(r, tb, CCL_PRIM_S, in, channel, io, channel);
        else if (at == last)
            add(r, tb, up ? CCL_PRIM_RRC : CCL_PRIM_R, up ? in : io, channel, io, channel);
        else
            add(r, tb, up ? CCL_PRIM_RRS : CCL_PRIM_RCS, up ? in : io, channel, io, channel);
    }
    }
#undef ELEMENT_
}

static ccl_status_t ring_program(const uint32_t *next, uint32_t n, ccl_collective_kind_t kind,
                                 uint32_t root, const ccl_nccl_choice_t *choice,
                                 ccl_program_t **out, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    uint32_t channels = choice->channels;
    bool spread = kind == CCL_ALLREDUCE || kind == CCL_ALLGATHER || kind == CCL_REDUCESCATTER;
    bool per_rank = kind == CCL_ALLGATHER || kind == CCL_REDUCESCATTER;
    uint32_t nchunks = spread ? n * channels : channels;
    CCL_TRY(ccl_collective_create(kind, n, per_rank ? channels : nchunks, root, &coll, err));
    uint32_t *walk = malloc((size_t)n * sizeof *walk);
    ccl_program_builder_t *b =
        ccl_program_builder_create("nccl-ring", coll, nchunks, ccl_nccl_proto_name(choice->proto));
    if (!walk || !b) {
        free(walk);
        ccl_program_builder_destroy(b);
        return ccl_fail_nomem(err);
    }
    ring_t r = {b, kind, n, channels, root};
    ccl_program_builder_place(b, true, false, 0, 0);
    for (uint32_t rank = 0; rank < n; rank++) {
        ccl_program_builder_buffer(b, rank, CCL_BUF_INPUT,
                                   kind == CCL_ALLGATHER ? channels : nchunks);
        ccl_program_builder_buffer(b, rank, CCL_BUF_OUTPUT,
                                   kind == CCL_REDUCESCATTER ? channels : nchunks);
    }
    for (uint32_t c = 0; c < channels; c++) {
        for (uint32_t i = 0, rank = 0; i < n; i++, rank = next[(size_t)c * n + rank])
            walk[i] = rank;
        for (uint32_t i = 0; i < n; i++)
            ring_block(&r, walk, i, c);
    }
    free(walk);
    CCL_TRY(ccl_program_builder_finish(b, out, err));
    ccl_origin_set((*out)->origin, "nccl: ring over %u channels", channels);
    return CCL_OK;
}

/* ---------------------------------------------------------------- grouped sends and receives */

static ccl_status_t alltoall_program(uint32_t n, const ccl_nccl_choice_t *choice,
                                     ccl_program_t **out, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    uint32_t channels = choice->channels;
    CCL_TRY(ccl_collective_create(CCL_ALLTOALL, n, channels, 0, &coll, err));
    ccl_program_builder_t *b = ccl_program_builder_create("nccl-alltoall", coll, n * channels,
                                                          ccl_nccl_proto_name(choice->proto));
    if (!b)
        return ccl_fail_nomem(err);
    ccl_program_builder_place(b, false, true, 0, 0);
    for (uint32_t rank = 0; rank < n; rank++) {
        ccl_program_builder_buffer(b, rank, CCL_BUF_INPUT, n * channels);
        ccl_program_builder_buffer(b, rank, CCL_BUF_OUTPUT, n * channels);
        for (uint32_t c = 0; c < channels; c++) {
            uint32_t tb = ccl_program_builder_tb(b, rank, CCL_NONE, CCL_NONE, c);
            ccl_step_t step = {.src_off = rank * channels + c,
                               .dst_off = rank * channels + c,
                               .count = 1,
                               .dep_tb = CCL_NONE,
                               .dep_step = CCL_NONE,
                               .type = CCL_PRIM_CPY,
                               .src_buf = CCL_BUF_INPUT,
                               .dst_buf = CCL_BUF_OUTPUT};
            ccl_program_builder_step(b, tb, step);
            for (uint32_t k = 1; k < n; k++) {
                uint32_t to = (rank + k) % n, from = (rank + n - k) % n;
                step.type = CCL_PRIM_S;
                step.src_off = to * channels + c;
                step.dst_off = rank * channels + c;
                tb = ccl_program_builder_tb(b, rank, to, CCL_NONE, c);
                ccl_program_builder_step(b, tb, step);
                tb = ccl_program_builder_tb(b, rank, CCL_NONE, from, c);
                step.type = CCL_PRIM_R;
                step.src_off = step.dst_off = from * channels + c;
                step.src_buf = CCL_BUF_OUTPUT;
                ccl_program_builder_step(b, tb, step);
                step.src_buf = CCL_BUF_INPUT;
            }
        }
    }
    CCL_TRY(ccl_program_builder_finish(b, out, err));
    ccl_origin_set((*out)->origin, "nccl: grouped sends and receives over %u channels", channels);
    return CCL_OK;
}

/* ---------------------------------------------------------------- from synthesizers */

/* Where a program is made. */
typedef struct where {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
} where_t;

/* A synthesizer's schedule on these channels, lowered as if there were room for any blocks. */
static ccl_status_t lower_any(where_t at, const char *name, const ccl_collective_t *coll,
                              const ccl_nccl_choice_t *choice, ccl_program_t **out,
                              ccl_error_t *err) {
    const ccl_topology_t *topo = at.topo;
    ccl_schedule_t *schedule = NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_make_options_t make = CCL_MAKE_OPTIONS_INIT;
    ccl_topology_t roomy = *topo;
    options.channels = choice->channels;
    ccl_gpu_model_t *models = malloc((topo->ngpu_models + (size_t)1) * sizeof *models);
    if (!models)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < topo->ngpu_models; i++) {
        models[i] = topo->gpu_models[i];
        models[i].sms = 0;
    }
    roomy.gpu_models = models;
    ccl_status_t status =
        ccl_synthesize(at.ctx, name, topo, at.routes, coll, &options, &schedule, err);
    make.lower.proto = ccl_nccl_proto_name(choice->proto);
    make.no_prove = true; /* the caller does */
    if (status == CCL_OK) {
        schedule->piece_bytes = 0; /* the choice's */
        status = ccl_make_program(at.ctx, &roomy, at.routes, schedule, &make, out, err);
    }
    ccl_schedule_destroy(schedule);
    free(models);
    return status;
}

/* Channels of as many for which every GPU has room; a tree has a partner that is its mirror. */
static uint32_t channels_that_fit(const ccl_topology_t *topo, const ccl_program_t *program,
                                  uint32_t channels) {
    double share = 1;
    for (uint32_t r = 0; r < program->nranks; r++) {
        uint32_t room = ccl_model_gpu(topo, r).sms;
        uint32_t blocks = ccl_program_rank_blocks(program, r, CCL_GRANULARITY_ALGORITHM);
        if (room && blocks > room)
            share = fmin(share, (double)room / blocks);
    }
    if (share == 1)
        return channels;
    uint32_t fit = (uint32_t)(share * channels);
    fit -= fit > 1 && fit % 2;
    return fit < 1 ? 1 : fit;
}

static ccl_status_t lowered(where_t at, const char *name, ccl_collective_kind_t kind, uint32_t root,
                            ccl_nccl_choice_t *choice, ccl_program_t **out, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    CCL_TRY(ccl_collective_create(kind, at.topo->nranks, 1, root, &coll, err));
    ccl_program_t *program = NULL;
    ccl_status_t status = lower_any(at, name, coll, choice, &program, err);
    while (status == CCL_OK && choice->algo == CCL_NCCL_TREE) {
        uint32_t fit = channels_that_fit(at.topo, program, choice->channels);
        if (fit == choice->channels)
            break;
        choice->channels = fit;
        ccl_program_destroy(program);
        program = NULL;
        status = lower_any(at, name, coll, choice, &program, err);
    }
    ccl_collective_destroy(coll);
    if (status == CCL_OK)
        *out = program;
    return status;
}

/* Has every pair a route that no GPU relays? */
static ccl_status_t all_joined(const ccl_topology_t *topo, ccl_routes_t *routes, bool *out,
                               ccl_error_t *err) {
    ccl_error_t none = CCL_ERROR_INIT;
    *out = true;
    for (uint32_t a = 0; *out && a < topo->nranks; a++) {
        for (uint32_t b = 0; *out && b < topo->nranks; b++) {
            const ccl_route_t *route;
            ccl_status_t status = a == b ? CCL_OK : ccl_routes_get(routes, a, b, 0, &route, &none);
            if (status == CCL_ERR_NOMEM)
                return ccl_fail_nomem(err);
            *out = status == CCL_OK;
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_nccl_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              ccl_routes_t *routes, ccl_collective_kind_t kind, uint32_t root,
                              ccl_nccl_choice_t *choice, ccl_program_t **out, ccl_error_t *err) {
    const where_t at = {ctx, topo, routes};
    uint32_t n = topo->nranks;
    if (n < 2)
        return ccl_fail(err, CCL_ERR_INPUT, "one rank has nobody to talk to; 2 or more");
    if (choice->algo == CCL_NCCL_NVLS || choice->algo == CCL_NCCL_NVLS_TREE)
        return ccl_i_nccl_nvls_program(topo, choice, out, err);
    if (choice->algo == CCL_NCCL_P2P) {
        bool joined = false;
        if (kind == CCL_ALLTOALL)
            CCL_TRY(all_joined(topo, routes, &joined, err));
        if (joined)
            return alltoall_program(n, choice, out, err);
        bool rails = kind == CCL_ALLTOALL && topo->nservers > 1;
        return lowered(at, rails ? "pxn" : "direct", kind, root, choice, out, err);
    }
    if (choice->algo == CCL_NCCL_TREE)
        return lowered(at, "tree", kind, root, choice, out, err);
    uint32_t *next = NULL;
    CCL_TRY(ring_order(ctx, topo, routes, choice->channels, &next, err));
    if (!next)
        return lowered(at, "ring", kind, root, choice, out, err);
    ccl_status_t status = ring_program(next, n, kind, root, choice, out, err);
    free(next);
    return status;
}
