/*
 * recursive: doubling and halving in ceil(log2 n) steps, farthest partner first, so that the big
 * steps stay inside a server. Every rank's shard spreads over a binomial tree in offsets from it:
 * offset o hears from o without its lowest bit. Offsets are XORs for powers of two (recursive
 * doubling), else sums modulo n (dissemination, works for any n). Servers of equal size are two
 * levels: first over servers at the same place, then inside the server.
 */
#include "synth/common/plan.h"
#include "synth/registry.h"

#include <stdlib.h>
#include <string.h>

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    switch (want->kind) {
    case CCL_SENDRECV:
        *why = "each rank has one peer, so there is nothing to double";
        return false;
    case CCL_CUSTOM:
        *why = "doubling needs blocks of every rank for every rank; use direct, ring or pairwise";
        return false;
    default:
        return true;
    }
}

/** Rank = (major, minor) in `minors`-sized groups of the server order. */
typedef struct levels {
    const ccl_i_cluster_t *cluster;
    uint32_t *place; /* [nranks] position of a rank in cluster->ranks */
    uint32_t majors, minors, major_steps;
    uint32_t channels;
} levels_t;

static uint32_t log2_up(uint32_t n) {
    uint32_t k = 0;
    while ((1ull << k) < n)
        k++;
    return k;
}

static bool is_pow2(uint32_t n) {
    return (n & (n - 1)) == 0;
}

static uint32_t offset_of(uint32_t from, uint32_t to, uint32_t n) {
    return is_pow2(n) ? from ^ to : (to + n - from) % n;
}

static uint32_t at_offset(uint32_t from, uint32_t offset, uint32_t n) {
    return is_pow2(n) ? from ^ offset : (from + offset) % n;
}

/* The hop by which `dst` hears of root's block. */
static ccl_i_edge_t hop_to(const levels_t *l, uint32_t root, uint32_t dst, uint32_t channel) {
    uint32_t rp = l->place[root], dp = l->place[dst];
    uint32_t major = offset_of(rp / l->minors, dp / l->minors, l->majors);
    uint32_t minor = offset_of(rp % l->minors, dp % l->minors, l->minors);
    uint32_t bits, steps, place;
    if (minor) {
        bits = log2_up(l->minors);
        steps = l->major_steps;
        place =
            dp / l->minors * l->minors + at_offset(rp % l->minors, minor & (minor - 1), l->minors);
        steps += bits - 1 - (uint32_t)__builtin_ctz(minor);
    } else {
        bits = l->major_steps;
        steps = bits - 1 - (uint32_t)__builtin_ctz(major);
        place =
            at_offset(rp / l->minors, major & (major - 1), l->majors) * l->minors + rp % l->minors;
    }
    return (ccl_i_edge_t){l->cluster->ranks[place], dst, steps, (uint16_t)channel};
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    const levels_t *l = user;
    uint32_t channel = want->part % l->channels;
    (void)err;
    if (want->ntargets > 1) { /* all ranks */
        for (uint32_t i = 0; i < want->ntargets; i++) {
            if (want->targets[i] == want->root)
                continue;
            ccl_i_edge_t e = hop_to(l, want->root, want->targets[i], channel);
            ccl_i_tree_add(out, e.src, e.dst, e.step, channel);
        }
        return CCL_OK;
    }
    for (uint32_t at = want->targets[0]; at != want->root;) { /* the way to one rank */
        ccl_i_edge_t e = hop_to(l, want->root, at, channel);
        ccl_i_tree_add(out, e.src, e.dst, e.step, channel);
        at = e.src;
    }
    return CCL_OK;
}

/* Where the chunk's tree begins, or ends. */
static uint32_t root_of(const ccl_schedule_t *s, uint32_t chunk, uint32_t parts) {
    const ccl_chunk_t *c = &s->coll->chunks[chunk];
    return c->reduced ? c->dests[chunk / parts % c->ndests] : c->sources[0];
}

/* How far from its root the hop ends; in reductions, which are reversed, how near. */
static uint32_t turn_of(const levels_t *l, const ccl_schedule_t *s, const ccl_transfer_t *t,
                        uint32_t parts) {
    bool up = s->coll->chunks[t->chunk].reduced && t->phase == 0;
    uint32_t root = l->place[root_of(s, t->chunk, parts)], at = l->place[up ? t->src : t->dst];
    uint32_t major = offset_of(root / l->minors, at / l->minors, l->majors);
    uint32_t minor = offset_of(root % l->minors, at % l->minors, l->minors);
    uint32_t offset = major * l->minors + minor;
    return up ? l->majors * l->minors - 1 - offset : offset;
}

/*
 * Chunks of a step in turns by offset, not by number: every rank does the same in its own terms, so
 * none waits for what another does last, and runs fold.
 */
static ccl_status_t take_turns(const levels_t *l, uint32_t parts, ccl_schedule_t *s,
                               ccl_error_t *err) {
    uint32_t n = s->ntransfers, nturns = l->majors * l->minors;
    uint32_t *turn = malloc((n + (size_t)1) * sizeof *turn);
    uint32_t *next = malloc((nturns + (size_t)1) * sizeof *next);
    ccl_transfer_t *to = malloc((n + (size_t)1) * sizeof *to);
    bool ok = turn && next && to;
    for (uint32_t i = 0, end = 0; ok && i < n; i = end) {
        memset(next, 0, (nturns + (size_t)1) * sizeof *next);
        for (; end < n && s->transfers[end].step == s->transfers[i].step; end++) {
            turn[end] = turn_of(l, s, &s->transfers[end], parts);
            next[turn[end] + 1]++;
        }
        for (uint32_t k = 0; k < nturns; k++)
            next[k + 1] += next[k];
        for (uint32_t k = i; k < end; k++)
            to[i + next[turn[k]]++] = s->transfers[k];
    }
    if (ok && n > 0)
        memcpy(s->transfers, to, n * sizeof *to);
    s->listed = true;
    free(turn);
    free(next);
    free(to);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* Where ranks are alike. An AllReduce in sums of offsets comes down other ways than it went up, and
   is faster by number. */
static bool takes_turns(const levels_t *l, bool even, ccl_collective_kind_t kind) {
    return even && (kind != CCL_ALLREDUCE || (is_pow2(l->majors) && is_pow2(l->minors)));
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t c;
    CCL_TRY(ccl_i_cluster_init(&c, topo, routes, err));
    levels_t l = {.cluster = &c, .channels = options->channels};
    bool even = c.min_gpus == c.max_gpus;
    ccl_status_t status = CCL_OK;
    l.minors = even ? c.max_gpus : c.nranks;
    l.majors = even ? c.nservers : 1;
    l.major_steps = log2_up(l.majors);
    l.place = ccl_arena_alloc(&c.arena, c.nranks, sizeof *l.place);
    if (!l.place) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t i = 0; i < c.nranks; i++)
        l.place[c.ranks[i]] = i;
    uint32_t rounds = l.major_steps + log2_up(l.minors), down = 0;
    if (!l.channels) {
        l.channels = ccl_i_cluster_channels(&c, 1, 2 * rounds,
                                            ccl_i_collective_transfers(want) *
                                                (want->kind == CCL_ALLTOALL ? 0.5 * rounds : 1));
        down = ccl_i_cluster_down_channels(&c, l.channels, 2 * rounds);
    }
    ccl_i_plan_t plan = {.name = "recursive",
                         .parts = l.channels * (options->chunks ? options->chunks : 1),
                         .spread_roots = true,
                         .down_channels = down,
                         .tree = tree,
                         .user = &l};
    status = options->channels ? ccl_i_plan_run(ctx, &c, want, &plan, out, err)
                               : ccl_i_plan_fit(ctx, &c, want, &plan, &l.channels, out, err);
    if (status == CCL_OK && takes_turns(&l, even, want->kind))
        status = take_turns(&l, l.channels * (options->chunks ? options->chunks : 1), *out, err);
    if (status == CCL_OK)
        ccl_origin_set((*out)->origin, "recursive: doubling and halving in %u rounds, %u channel%s",
                       rounds, l.channels, l.channels == 1 ? "" : "s");
end:
    ccl_i_cluster_fini(&c);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_recursive = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "recursive",
    .summary = "recursive doubling and halving, log2 n steps",
    .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005; Bruck et al., TPDS 1997",
    .supports = supports,
    .synthesize = synthesize,
};
