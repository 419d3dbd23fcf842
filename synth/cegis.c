/*
 * cegis: HeteCCL's synthesizer (Hei et al., NSDI 2026, sections 4 and 5, appendices H and I).
 *
 * The cluster is chunked (chunking.h), a greedy plan in steps is the start, and
 * counterexample-guided search with Z3 takes steps away until a bound, a proof or a limit stops it.
 * ReduceScatter is AllGather turned round, AllReduce one behind the other.
 *
 * The schedule is the plan for several slices of every chunk, each a round later than the one
 * before at every hop, so that all hops of the plan are busy at the same time.
 */
#include "synth/cegis.h"
#include "synth/plan.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where no size is given. */
#define DEFAULT_BYTES (256.0 * 1024 * 1024)
#define FEWEST_TREES 8u
#define MOST_SLICES 128u
#define MOST_TRANSFERS 300000.0
#define MOST_CUTS 6u
#define MOST_TREES 400.0
#define MOST_STRETCH 3u
/* A link or group with so much of the busiest one's load is worth connections of their own. */
#define BUSY 0.4
#define MOST_LANES 32u

/** One direction: trees that copies go down, or that reductions come up. */
typedef struct side {
    bool used, up;
    ccl_i_exchange_t x;
    ccl_i_chunking_t capacity;
    ccl_i_cegis_problem_t problem;
    ccl_i_cegis_chunk_t *chunks;
    ccl_i_cegis_plan_t plan;
    size_t *first;      /* [ntrees + 1] into order */
    uint32_t *order;    /* sends by chunk */
    uint8_t *contended; /* [nhops] */
    uint16_t *channel;  /* [sends of the plan] */
} side_t;

typedef struct cegis {
    const ccl_ctx_t *ctx;
    const ccl_synth_options_t *options;
    const ccl_collective_t *want;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    uint32_t nranks;
    uint32_t cuts;   /* trees of a chunk of `want` */
    uint32_t slices; /* of what a tree carries */
    uint32_t down_channels;
    side_t sides[2]; /* down, up */
    ccl_i_cegis_task_t task;
    uint32_t *owner; /* [cuts] AllReduce: roots; NULL: in turn */
    uint32_t *depth; /* [nranks] of the tree in hand */
    ccl_arena_t arena;
} cegis_t;

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    if (topo->nranks > UINT16_MAX) {
        *why = "more than 65535 GPUs";
        return false;
    }
    (void)want;
    return true;
}

/* ---------------------------------------------------------------- trees */

/** Root of the cut of a chunk. */
static uint32_t root_of(const cegis_t *c, uint32_t chunk, uint32_t cut) {
    const ccl_chunk_t *k = &c->want->chunks[chunk];
    if (!k->reduced)
        return k->sources[0];
    if (c->want->kind == CCL_ALLREDUCE)
        return c->owner ? c->owner[cut] : k->dests[cut % k->ndests]; /* equation 7 */
    return c->want->kind == CCL_CUSTOM ? k->dests[chunk % k->ndests] : k->dests[0];
}

static ccl_status_t list_chunks(cegis_t *c, side_t *side, ccl_error_t *err) {
    uint64_t ntrees = (uint64_t)c->want->nchunks * c->cuts;
    if (ntrees >= 1u << 20)
        return ccl_fail(err, CCL_ERR_UNSUPPORTED, "cegis: more than a million chunks");
    side->chunks = ccl_arena_alloc(&c->arena, ntrees + 1, sizeof *side->chunks);
    if (!side->chunks)
        return ccl_fail_nomem(err);
    for (uint32_t t = 0; t < ntrees; t++) {
        uint32_t k = t / c->cuts, ntargets = 0;
        const ccl_chunk_t *chunk = &c->want->chunks[k];
        uint32_t len = side->up ? chunk->nsources : chunk->ndests;
        const uint32_t *all = side->up ? chunk->sources : chunk->dests;
        if (chunk->ndests == 0 || chunk->nsources == 0)
            continue;
        uint32_t root = root_of(c, k, t % c->cuts);
        uint32_t *targets = ccl_arena_alloc(&c->arena, len + (size_t)1, sizeof *targets);
        if (!targets)
            return ccl_fail_nomem(err);
        for (uint32_t i = 0; i < len && (chunk->reduced || !side->up); i++) {
            if (all[i] != root)
                targets[ntargets++] = all[i];
        }
        side->used |= ntargets > 0;
        side->chunks[t] = (ccl_i_cegis_chunk_t){root, ntargets, targets};
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- one side */

static ccl_status_t discretise(cegis_t *c, side_t *side, uint32_t stretch, ccl_error_t *err) {
    double share = 0, bytes = c->options->size_bytes;
    ccl_i_cegis_problem_fini(&side->problem);
    ccl_i_chunking_fini(&side->capacity);
    memset(&side->problem, 0, sizeof side->problem);
    for (uint32_t k = 0; k < c->want->nchunks; k++)
        share = fmax(share, c->want->chunks[k].share);
    bytes = (bytes > 0 ? bytes : DEFAULT_BYTES) * share / c->cuts;
    CCL_TRY(ccl_i_chunking_init(&side->capacity, &side->x, bytes > 0 ? bytes : 1,
                                c->options->tau_ref_s, stretch, c->options->ceiling, side->up,
                                side->up, err));
    return ccl_i_cegis_problem_init(&side->problem, &side->x, &side->capacity, side->chunks,
                                    c->want->nchunks * c->cuts, side->up, err);
}

/** Longer steps lose less by rounding; taken where the bound on the time says that it pays. */
static ccl_status_t choose_stretch(cegis_t *c, side_t *side, ccl_error_t *err) {
    uint32_t best = 1;
    double best_s = INFINITY;
    for (uint32_t m = 1; m <= MOST_STRETCH && c->options->tau_ref_s == 0; m++) {
        CCL_TRY(discretise(c, side, m, err));
        double time_s = side->problem.bound * side->capacity.tau_ref_s;
        if (time_s < best_s * 0.99) {
            best_s = time_s;
            best = m;
        }
        if (c->options->ceiling)
            break;
    }
    return discretise(c, side, best, err);
}

static ccl_status_t index_plan(cegis_t *c, side_t *side, ccl_error_t *err) {
    uint32_t ntrees = c->want->nchunks * c->cuts;
    side->first = ccl_arena_alloc(&c->arena, ntrees + (size_t)2, sizeof *side->first);
    side->order = ccl_arena_alloc(&c->arena, side->plan.len + 1, sizeof *side->order);
    if (!side->first || !side->order)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < side->plan.len; i++)
        side->first[side->plan.sends[i].chunk + 2]++;
    for (uint32_t k = 0; k < ntrees; k++)
        side->first[k + 1] += side->first[k];
    for (size_t i = 0; i < side->plan.len; i++)
        side->order[side->first[side->plan.sends[i].chunk + 1]++] = (uint32_t)i;
    return CCL_OK;
}

static ccl_status_t discretise_side(cegis_t *c, side_t *side, ccl_error_t *err) {
    ccl_i_exchange_options_t options = {NULL, side->up, side->up};
    CCL_TRY(list_chunks(c, side, err));
    if (!side->used)
        return CCL_OK;
    CCL_TRY(ccl_i_exchange_init(&side->x, c->topo, c->routes, &options, err));
    return choose_stretch(c, side, err);
}

static ccl_status_t make_side(cegis_t *c, side_t *side, ccl_error_t *err) {
    CCL_TRY(discretise_side(c, side, err));
    if (!side->used)
        return CCL_OK;
    c->task.side = side->up ? "reduce" : "gather";
    CCL_TRY(ccl_i_cegis_solve(&c->task, &side->problem, &side->plan, err));
    return index_plan(c, side, err);
}

/**
 * Slices: as many as balance the time until the last hop starts against the cost of one more.
 * @return what the schedule will take, roughly.
 */
static double choose_slices(cegis_t *c) {
    double slices = 1, sends = 0;
    for (int i = 0; i < 2; i++) {
        const side_t *side = &c->sides[i];
        double alpha_s = 0;
        for (size_t k = 0; k < side->plan.len; k++)
            alpha_s = fmax(alpha_s, side->x.hops[side->plan.sends[k].hop].alpha_s);
        sends += (double)side->plan.len;
        if (side->used)
            slices = fmax(slices, sqrt(ccl_i_cegis_load_s(&side->problem, &side->plan) *
                                       side->plan.nsteps / fmax(alpha_s, 1e-7)));
    }
    slices = fmin(slices, MOST_TRANSFERS / fmax(sends, 1));
    c->slices = 1;
    while (2 * c->slices <= slices && 2 * c->slices <= MOST_SLICES)
        c->slices *= 2;
    double time_s = 0;
    for (int i = 0; i < 2; i++) {
        const side_t *side = &c->sides[i];
        if (side->used)
            time_s += ccl_i_cegis_load_s(&side->problem, &side->plan) +
                      side->plan.nsteps * side->capacity.tau_ref_s / c->slices;
    }
    return time_s;
}

static void side_fini(side_t *side) {
    bool up = side->up;
    ccl_i_cegis_plan_fini(&side->plan);
    ccl_i_cegis_problem_fini(&side->problem);
    ccl_i_chunking_fini(&side->capacity);
    ccl_i_exchange_fini(&side->x);
    memset(side, 0, sizeof *side);
    side->up = up;
}

/** Whether a part is held up by how its chunks divide over links rather than by what these carry.
 */
static bool is_uneven(const cegis_t *c) {
    bool uneven = false;
    for (int i = 0; i < 2; i++) {
        const side_t *side = &c->sides[i];
        uneven |= side->used &&
                  ccl_i_cegis_load_s(&side->problem, &side->plan) > 1.02 * side->problem.load_s;
    }
    return uneven;
}

/**
 * Roots of AllReduce: a server S that is root of the share w takes in 1 - w of the sums and sends
 * out 1 - w of the summands, so it shall be root of at least 1 - T C(S) for the least T that
 * leaves no more than everything; what is left over goes to all alike.
 */
static ccl_status_t weigh_roots(cegis_t *c, ccl_error_t *err) {
    const ccl_i_cegis_problem_t *p = &c->sides[0].problem;
    const ccl_i_cegis_level_t *level = &p->levels[p->nlevels < 2 ? 0 : p->nlevels - 2];
    double low_s = 0, high_s = 0, total = 0;
    uint32_t nz = level->nzones, n = c->nranks, done = 0;
    uint32_t *owner = ccl_arena_alloc(&c->arena, c->cuts, sizeof *owner);
    double *share = ccl_arena_alloc(&c->arena, n, sizeof *share);
    double *given = ccl_arena_alloc(&c->arena, n, sizeof *given);
    if (!owner || !share || !given)
        return ccl_fail_nomem(err);
    for (uint32_t z = 0; z < nz; z++)
        high_s = fmax(high_s, 1 / fmin(level->in_Bps[z], level->out_Bps[z]));
    for (uint32_t i = 0; i < 60; i++) {
        double mid_s = (low_s + high_s) / 2;
        total = 0;
        for (uint32_t z = 0; z < nz; z++)
            total += fmax(0, 1 - mid_s * fmin(level->in_Bps[z], level->out_Bps[z]));
        if (total > 1)
            low_s = mid_s;
        else
            high_s = mid_s;
    }
    for (uint32_t v = 0; v < n; v++) {
        uint32_t z = level->zone[v];
        double least = fmax(0, 1 - high_s * fmin(level->in_Bps[z], level->out_Bps[z]));
        share[v] = least / level->members[z] + fmax(0, 1 - total) / n;
    }
    /* Whoever lacks most of its share is the next root. */
    for (; done < c->cuts; done++) {
        uint32_t next = 0;
        for (uint32_t v = 1; v < n; v++) {
            if (share[v] * c->cuts - given[v] >
                (share[next] * c->cuts - given[next]) * (1 + 1e-9) + 1e-9)
                next = v;
        }
        given[next]++;
        owner[done] = next;
    }
    c->owner = owner;
    return CCL_OK;
}

static ccl_status_t make_sides(cegis_t *c, ccl_error_t *err) {
    c->owner = NULL;
    if (c->want->kind == CCL_ALLREDUCE && !c->options->uniform_roots) {
        CCL_TRY(discretise_side(c, &c->sides[0], err));
        if (c->sides[0].used)
            CCL_TRY(weigh_roots(c, err));
        side_fini(&c->sides[0]);
    }
    for (int i = 0; i < 2; i++)
        CCL_TRY(make_side(c, &c->sides[i], err));
    return CCL_OK;
}

/** As many cuts of a chunk as make the schedule fastest: more only where one divides badly. */
static ccl_status_t make_best_sides(cegis_t *c, ccl_error_t *err) {
    uint32_t one = c->cuts, best = one;
    CCL_TRY(make_sides(c, err));
    double best_s = choose_slices(c);
    for (uint32_t n = 2; !c->options->chunks && n <= MOST_CUTS && is_uneven(c) &&
                         !c->task.limited && (double)n * one * c->want->nchunks <= MOST_TREES;
         n += n < 4 ? 1 : 2) {
        side_t kept[2];
        uint32_t kept_slices = c->slices, *kept_owner = c->owner;
        memcpy(kept, c->sides, sizeof kept);
        memset(c->sides, 0, sizeof c->sides);
        c->sides[1].up = true;
        c->cuts = n * one;
        ccl_status_t status = make_sides(c, err);
        double time_s = status == CCL_OK ? choose_slices(c) : INFINITY;
        if (time_s < 0.99 * best_s) {
            best_s = time_s;
            best = c->cuts;
            for (int i = 0; i < 2; i++)
                side_fini(&kept[i]);
        } else {
            for (int i = 0; i < 2; i++)
                side_fini(&c->sides[i]);
            memcpy(c->sides, kept, sizeof kept);
            c->slices = kept_slices;
            c->owner = kept_owner;
        }
        CCL_TRY(status);
        c->cuts = best;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- channels */

/** Hops that share a busy link or group with others. */
static ccl_status_t find_contended(cegis_t *c, side_t *side, ccl_error_t *err) {
    const ccl_i_exchange_t *x = &side->x;
    double *load_s = calloc(x->nresources + (size_t)1, sizeof *load_s), most_s = 0;
    uint32_t *user = calloc(x->nresources + (size_t)1, sizeof *user); /* hop + 1; several: NONE */
    side->contended = ccl_arena_alloc(&c->arena, x->nhops + (size_t)1, 1);
    side->channel = ccl_arena_alloc(&c->arena, side->plan.len + 1, sizeof *side->channel);
    bool ok = load_s && user && side->contended && side->channel;
    for (size_t i = 0; ok && i < side->plan.len; i++) {
        uint32_t h = side->plan.sends[i].hop;
        const ccl_i_hop_t *hop = &x->hops[h];
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = x->uses[u].resource;
            load_s[r] += x->uses[u].times / x->resources[r].Bps;
            most_s = fmax(most_s, load_s[r]);
            user[r] = user[r] == 0 || user[r] == h + 1 ? h + 1 : CCL_NONE;
        }
    }
    for (uint32_t h = 0; ok && h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
            uint32_t r = x->uses[u].resource;
            side->contended[h] |= user[r] == CCL_NONE && load_s[r] > BUSY * most_s;
        }
    }
    free(load_s);
    free(user);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/** The `lane`-th channel from `from` on whose connection takes the route of hop->channel. */
static ccl_status_t next_channel(cegis_t *c, const side_t *side, const ccl_i_hop_t *hop,
                                 uint32_t from, uint32_t *out, ccl_error_t *err) {
    uint32_t src = side->up ? hop->dst : hop->src, dst = side->up ? hop->src : hop->dst;
    const ccl_route_t *route, *other;
    CCL_TRY(ccl_routes_get(c->routes, src, dst, hop->channel, &route, err));
    uint32_t index = route->index;
    for (*out = from; *out < from + 2 * CCL_I_EXCHANGE_ROUTES; ++*out) {
        CCL_TRY(ccl_routes_get(c->routes, src, dst, *out, &other, err));
        if (other->index == index)
            return CCL_OK;
    }
    *out = hop->channel;
    return CCL_OK;
}

/**
 * Where busy links are shared every chunk has a connection of its own, up to `lanes`, so that
 * max-min sharing gives all chunks the same; elsewhere a connection takes all of them.
 */
static ccl_status_t assign_channels(cegis_t *c, side_t *side, uint32_t lanes, ccl_error_t *err) {
    uint32_t *serial = calloc(side->x.nhops + (size_t)1, sizeof *serial);
    uint16_t *channels = calloc((side->x.nhops + (size_t)1) * lanes, sizeof *channels);
    ccl_status_t status = serial && channels ? CCL_OK : ccl_fail_nomem(err);
    for (size_t i = 0; status == CCL_OK && i < side->plan.len; i++) {
        uint32_t h = side->plan.sends[i].hop, n = serial[h]++, lane = n % lanes, channel;
        const ccl_i_hop_t *hop = &side->x.hops[h];
        if (!side->contended[h] || lane == 0) {
            channels[(size_t)h * lanes] = hop->channel;
            lane = 0;
        } else if (n < lanes) {
            status = next_channel(c, side, hop, channels[(size_t)h * lanes + lane - 1] + 1u,
                                  &channel, err);
            channels[(size_t)h * lanes + lane] = (uint16_t)channel;
        }
        side->channel[i] = channels[(size_t)h * lanes + lane];
    }
    free(serial);
    free(channels);
    return status;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/** Whether connections, a thread block for each end, fit every GPU. `apart`: sides share none. */
static ccl_status_t blocks_fit(const cegis_t *c, bool apart, bool *fit_out, ccl_error_t *err) {
    size_t n = 0, most = c->sides[0].plan.len + c->sides[1].plan.len;
    uint64_t *ends = malloc((2 * most + 1) * sizeof *ends);
    uint32_t *blocks = calloc(c->nranks, sizeof *blocks);
    *fit_out = true;
    if (!ends || !blocks) {
        free(ends);
        free(blocks);
        return ccl_fail_nomem(err);
    }
    for (uint64_t i = 0; i < 2; i++) {
        const side_t *side = &c->sides[i];
        for (size_t k = 0; k < side->plan.len; k++) {
            const ccl_i_hop_t *hop = &side->x.hops[side->plan.sends[k].hop];
            uint64_t src = side->up ? hop->dst : hop->src, dst = side->up ? hop->src : hop->dst;
            ends[n++] = (apart ? i : 0) << 63 | src << 40 | dst << 20 | side->channel[k];
        }
    }
    qsort(ends, n, sizeof *ends, by_value);
    for (size_t k = 0; k < n; k++) {
        if (k == 0 || ends[k] != ends[k - 1]) {
            blocks[ends[k] >> 40 & 0x7fffff]++;
            blocks[ends[k] >> 20 & 0xfffff]++;
        }
    }
    for (uint32_t r = 0; r < c->nranks; r++) {
        uint32_t sms = ccl_model_gpu(c->topo, r).sms;
        *fit_out &= !sms || blocks[r] <= sms;
    }
    free(ends);
    free(blocks);
    return CCL_OK;
}

/** How far down-going sums must be moved up so that no connection is shared with summands. */
static ccl_status_t find_down_channels(cegis_t *c, ccl_error_t *err) {
    const side_t *down = &c->sides[0];
    uint32_t least = 1;
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < c->sides[i].plan.len; k++)
            least = c->sides[i].channel[k] >= least ? c->sides[i].channel[k] + 1u : least;
    }
    for (uint32_t d = least; d < least + CCL_I_EXCHANGE_ROUTES; d++) {
        bool all = true;
        for (size_t k = 0; all && k < down->plan.len; k++) {
            uint32_t channel;
            CCL_TRY(next_channel(c, down, &down->x.hops[down->plan.sends[k].hop],
                                 down->channel[k] + d, &channel, err));
            all = channel == down->channel[k] + d;
        }
        if (all) {
            c->down_channels = d;
            break;
        }
    }
    return CCL_OK;
}

static ccl_status_t choose_channels(cegis_t *c, ccl_error_t *err) {
    bool both = c->sides[0].used && c->sides[1].used, fit = false;
    for (int i = 0; i < 2; i++) {
        if (c->sides[i].used)
            CCL_TRY(find_contended(c, &c->sides[i], err));
    }
    uint32_t lanes = c->options->channels ? c->options->channels : MOST_LANES;
    for (bool apart = both;; apart = false) {
        for (uint32_t most = lanes; most; most /= 2) {
            for (int i = 0; i < 2; i++) {
                if (c->sides[i].used)
                    CCL_TRY(assign_channels(c, &c->sides[i], most, err));
            }
            CCL_TRY(blocks_fit(c, apart, &fit, err));
            if (fit)
                break;
        }
        if (fit && apart)
            CCL_TRY(find_down_channels(c, err));
        if (fit || !apart)
            return CCL_OK;
    }
}

/* ---------------------------------------------------------------- the schedule */

static uint32_t root(void *user, const ccl_i_want_t *want) {
    const cegis_t *c = user;
    return root_of(c, want->chunk, want->part / c->slices);
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    cegis_t *c = user;
    side_t *side = &c->sides[want->up];
    uint32_t slice = want->part % c->slices;
    uint32_t k = want->chunk * c->cuts + want->part / c->slices;
    (void)err;
    if (!side->used)
        return CCL_OK;
    if (want->up) /* turned round, the last comes first; sums shall go out in the order of slices */
        slice = c->slices - 1 - slice;
    c->depth[want->root] = 0;
    for (size_t i = side->first[k]; i < side->first[k + 1]; i++) {
        const ccl_i_cegis_send_t *send = &side->plan.sends[side->order[i]];
        const ccl_i_hop_t *hop = &side->x.hops[send->hop];
        uint32_t round = c->slices > 1 ? slice + c->depth[hop->src] : 0;
        c->depth[hop->dst] = c->depth[hop->src] + 1;
        ccl_i_tree_add(out, hop->src, hop->dst, round * side->plan.nsteps + send->step,
                       side->channel[side->order[i]]);
    }
    return CCL_OK;
}

static ccl_status_t run(cegis_t *c, ccl_i_cluster_t *cluster, ccl_schedule_t **out,
                        ccl_error_t *err) {
    c->depth = ccl_arena_alloc(&c->arena, c->nranks, sizeof *c->depth);
    if (!c->depth)
        return ccl_fail_nomem(err);
    CCL_TRY(make_best_sides(c, err));
    CCL_TRY(choose_channels(c, err));
    ccl_i_plan_t plan = {.name = "cegis",
                         .parts = c->cuts * c->slices,
                         .spread_roots = c->want->kind == CCL_CUSTOM,
                         .down_channels = c->down_channels,
                         .root = root,
                         .tree = tree,
                         .user = c};
    CCL_TRY(ccl_i_plan_run(c->ctx, cluster, c->want, &plan, out, err));
    (*out)->limited = c->task.limited;
    return CCL_OK;
}

static void cegis_init(cegis_t *c, const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                       ccl_routes_t *routes, const ccl_collective_t *want,
                       const ccl_synth_options_t *options) {
    uint32_t trees = want->kind == CCL_ALLREDUCE ? want->nranks : want->nchunks;
    memset(c, 0, sizeof *c);
    c->ctx = ctx;
    c->options = options;
    c->want = want;
    c->topo = topo;
    c->routes = routes;
    c->nranks = topo->nranks;
    c->cuts = options->chunks ? options->chunks : 1;
    if (!options->chunks && trees && trees < FEWEST_TREES)
        c->cuts = (FEWEST_TREES + trees - 1) / trees;
    if (want->kind == CCL_ALLREDUCE)
        c->cuts *= want->nranks;
    c->sides[1].up = true;
    c->task = (ccl_i_cegis_task_t){.ctx = ctx, .options = options, .balance = true};
    if (options->time_limit_s > 0)
        c->task.deadline_s = ccl_now_s() + options->time_limit_s;
}

static void cegis_fini(cegis_t *c) {
    for (int i = 0; i < 2; i++)
        side_fini(&c->sides[i]);
    ccl_arena_fini(&c->arena);
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    cegis_t c;
    ccl_i_cluster_t cluster;
    cegis_init(&c, ctx, topo, routes, want, options);
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    ccl_status_t status = run(&c, &cluster, out, err);
    cegis_fini(&c);
    ccl_i_cluster_fini(&cluster);
    return status;
}

ccl_status_t ccl_synth_capacities(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_collective_t *want,
                                  const ccl_synth_options_t *options, ccl_chunk_capacities_t **out,
                                  ccl_error_t *err) {
    const ccl_synth_options_t defaults = CCL_SYNTH_OPTIONS_INIT;
    cegis_t c;
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    cegis_init(&c, ctx, topo, routes, want, options ? options : &defaults);
    ccl_status_t status = discretise_side(&c, &c.sides[0], err);
    side_t *side = &c.sides[0];
    if (status == CCL_OK && !side->used) {
        side = &c.sides[1];
        status = discretise_side(&c, side, err);
    }
    if (status == CCL_OK && !side->used)
        status = ccl_fail(err, CCL_ERR_INPUT, "%.80s moves nothing", want->name);
    if (status == CCL_OK)
        status = ccl_i_chunking_explain(&side->capacity, &side->x, out, err);
    cegis_fini(&c);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_cegis = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "cegis",
    .summary = "chunked steps, greedy start, counterexample-guided repair with Z3",
    .source = "HeteCCL (NSDI 2026), sections 4 and 5, appendices H and I",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .composable = true,
};
