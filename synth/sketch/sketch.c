/*
 * sketch: schedules from symmetry (SyCCL, SIGCOMM 2025). Search sketches, mix them so that no link
 * waits, choose among the best mixes by simulation.
 */
#include "synth/sketch/choose.h"

#include <stdlib.h>
#include <string.h>

#include "synth/registry.h"
#include "synth/sketch/solve.h"

/* R1 and R2 of SyCCL's section 5.3: candidates estimated slower than the best by this share are not
   simulated, nor more of them; fewer for a schedule that is for any size. */
static const double WITHIN = 0.20;
/* Estimates of mixes beyond that by this factor join no race: more channels may shorten them. */
static const double FARTHEST = 1.05;
/* E1 and E2 of its appendix A.3. */
static const double COARSE = 3.0, FINE = 0.5;
#define SIMULATED 8u
#define SIMULATED_ANY_SIZE 2u
#define MAX_PARTS 24u
#define MAX_SKETCHES 200u
#define VISITS_PER_SKETCH 30u
#define HOP_TABLE_RANKS 2048u /* 16 MiB */

/* ---------------------------------------------------------------- space */

/* Roots that an automorphism carries to each other are one class; too many classes are as none. */
static ccl_status_t fill_classes(ccl_i_space_t *space, ccl_error_t *err) {
    uint32_t n = space->topo->nranks;
    uint32_t *root_class = ccl_arena_alloc(&space->arena, n, sizeof *root_class);

    if (!root_class)
        return ccl_fail_nomem(err);
    space->nclasses = 1;
    if (space->root == CCL_NONE && space->symmetry->ngpu_classes <= CCL_I_SKETCH_CLASSES) {
        space->nclasses = space->symmetry->ngpu_classes;
        memcpy(root_class, space->symmetry->gpu_class, n * sizeof *root_class);
    }
    space->root_class = root_class;
    return CCL_OK;
}

static ccl_status_t fill_hops(ccl_i_space_t *space, ccl_routes_t *routes, ccl_error_t *err) {
    double *overhead_s =
        ccl_arena_alloc(&space->arena, space->x.nhops + (size_t)1, sizeof *overhead_s);

    double *slot_s = ccl_arena_alloc(&space->arena, space->x.nhops + (size_t)1, sizeof *slot_s);
    uint8_t *dimensions = ccl_arena_alloc(&space->arena, space->x.nhops + (size_t)1, 1);

    if (!overhead_s || !slot_s || !dimensions)
        return ccl_fail_nomem(err);
    for (uint32_t h = 0; h < space->x.nhops; h++) {
        const ccl_i_hop_t *hop = &space->x.hops[h];
        const ccl_route_t *route = NULL;

        CCL_TRY(ccl_routes_get(routes, space->up ? hop->dst : hop->src,
                               space->up ? hop->src : hop->dst, hop->channel, &route, err));
        const ccl_transport_t transport =
            ccl_model_transport(space->topo, ccl_model_route_kind(space->topo, route), "Simple");

        overhead_s[h] = transport.overhead_s;
        slot_s[h] = transport.slots ? 2 * hop->alpha_s / transport.slots : 0;
        for (uint32_t d = 0; d < space->ndimensions; d++) {
            const ccl_dimension_t *dim = &space->symmetry->dimensions[space->dimension[d]];

            dimensions[h] |= (uint8_t)(ccl_dimension_has(space->topo, dim, route) << d);
        }
    }
    space->dimensions = dimensions;
    space->overhead_s = overhead_s;
    space->slot_s = slot_s;
    return CCL_OK;
}

static uint32_t server_of(const ccl_topology_t *topo, uint32_t device) {
    return topo->devices[device].server;
}

/* The link out of its server that a hop fills and that loses when it is shared; CCL_NONE: none. */
static uint32_t contended(const ccl_i_space_t *space, uint32_t h) {
    const ccl_i_hop_t *hop = &space->x.hops[h];

    for (uint32_t u = hop->first_use; u < hop->first_use + hop->nuses; u++) {
        const ccl_i_resource_t *r = &space->x.resources[space->x.uses[u].resource];
        const ccl_link_t *link = r->link != CCL_NONE ? &space->topo->links[r->link] : NULL;

        if (link && link->contention > 0 && r->Bps <= hop->link_Bps &&
            server_of(space->topo, space->up ? link->to : link->from) ==
                server_of(space->topo, space->topo->rank_device[hop->src]))
            return space->x.uses[u].resource;
    }
    return CCL_NONE;
}

/* GPUs of a server whose first contended hop uses the same resource have one port. */
static ccl_status_t fill_ports(ccl_i_space_t *space, ccl_error_t *err) {
    const ccl_topology_t *topo = space->topo;
    uint32_t n = topo->nranks, *port = ccl_arena_alloc(&space->arena, n, sizeof *port);
    uint32_t *first =
        ccl_arena_alloc(&space->arena, space->x.nresources + (size_t)1, sizeof *first);
    bool some = false;

    if (!port || !first)
        return ccl_fail_nomem(err);
    memset(first, 0xff, space->x.nresources * sizeof *first);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t shared = CCL_NONE;

        for (uint32_t h = space->x.out_first[r];
             h < space->x.out_first[r + 1] && shared == CCL_NONE; h++)
            shared = contended(space, h);
        port[r] = r;
        if (shared == CCL_NONE)
            continue;
        some = true;
        if (first[shared] == CCL_NONE)
            first[shared] = r;
        port[r] = first[shared];
    }
    space->port = some ? port : NULL;
    return CCL_OK;
}

/* Growing asks for hops all the time. */
static ccl_status_t fill_hop_table(ccl_i_space_t *space, ccl_error_t *err) {
    size_t n = space->topo->nranks;
    uint32_t *at;

    if (n > HOP_TABLE_RANKS)
        return CCL_OK;
    at = ccl_arena_alloc(&space->arena, n * n, sizeof *at);
    if (!at)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < n * n; i++)
        at[i] = CCL_NONE;
    for (uint32_t h = space->x.nhops; h-- > 0;)
        at[space->x.hops[h].src * n + space->x.hops[h].dst] = h;
    space->hop_at = at;
    return CCL_OK;
}

ccl_status_t ccl_i_space_init(ccl_i_space_t *space, const ccl_topology_t *topo,
                              ccl_routes_t *routes, const ccl_symmetry_t *symmetry,
                              const ccl_collective_t *want, ccl_error_t *err) {
    bool up =
        want->kind == CCL_REDUCESCATTER || want->kind == CCL_REDUCE || want->kind == CCL_GATHER;
    const ccl_i_exchange_options_t options = {.reversed = up, .reduce = up};

    memset(space, 0, sizeof *space);
    ccl_arena_init(&space->arena);
    space->topo = topo;
    space->symmetry = symmetry;
    space->up = up;
    space->scatter =
        want->kind == CCL_ALLTOALL || want->kind == CCL_SCATTER || want->kind == CCL_GATHER;
    space->root = ccl_collective_kind_is_rooted(want->kind) ? want->root : CCL_NONE;
    space->rotations = 1;
    space->piece_bytes = ccl_lower_most_chunk_bytes(topo, "Simple");
    CCL_TRY(fill_classes(space, err));
    for (uint32_t d = 0; d < symmetry->ndimensions && d < CCL_I_SKETCH_DIMENSIONS; d++) {
        const ccl_dimension_t *dim = &symmetry->dimensions[d];

        space->reach_limit[d] = CCL_I_REACH_ALL;
        for (uint32_t g = 0; g < dim->ngroups; g++) {
            if (!dim->complete[g])
                space->reach_limit[d] = CCL_I_REACH_FLOOD;
        }
        space->dimension[space->ndimensions++] = d;
        space->first_group[d + 1] = space->first_group[d] + dim->ngroups;
        if (dim->min_gpus - 1 > space->rotations && dim->min_gpus <= 16)
            space->rotations = dim->min_gpus - 1;
    }
    space->ngroups = space->first_group[space->ndimensions];
    CCL_TRY(ccl_i_exchange_init(&space->x, topo, routes, &options, err));
    CCL_TRY(fill_hop_table(space, err));
    CCL_TRY(fill_ports(space, err));
    return fill_hops(space, routes, err);
}

void ccl_i_space_fini(ccl_i_space_t *space) {
    ccl_i_exchange_fini(&space->x);
    ccl_arena_fini(&space->arena);
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    (void)topo;
    if (want->kind == CCL_CUSTOM || want->kind == CCL_SENDRECV) {
        *why = "only collectives that treat all GPUs alike have symmetry to use";
        return false;
    }
    return true;
}

static ccl_i_sketch_limits_t limits_of(const ccl_sketch_options_t *options) {
    uint32_t sketches = options->max_sketches ? options->max_sketches : MAX_SKETCHES;

    return (ccl_i_sketch_limits_t){!options->keep_isomorphic,
                                   !options->keep_inconsistent,
                                   !options->keep_relayed,
                                   options->max_relays,
                                   options->max_stages,
                                   sketches,
                                   (uint64_t)VISITS_PER_SKETCH * sketches};
}

/* Seconds since *from, which is set to now. */
static double lap(double *from) {
    double now = ccl_now_s(), since = now - *from;

    *from = now;
    return since;
}

static void count(ccl_sketch_stats_t *stats, const ccl_i_space_t *space,
                  const ccl_i_sketch_stats_t *search, const ccl_i_mixes_t *mixes) {
    stats->runs++;
    stats->dimensions = space->ndimensions;
    stats->visited += search->visited;
    stats->found += search->found;
    stats->isomorphic += search->isomorphic;
    stats->inconsistent += search->inconsistent;
    stats->relayed += search->relayed;
    stats->capped |= search->capped;
    stats->unreaching += mixes->unreaching;
    stats->mixes_tried += mixes->tried;
    stats->mixes += mixes->n;
}

static ccl_i_sketch_run_t run_of(const ccl_synth_options_t *options, ccl_sketch_stats_t *stats) {
    return (ccl_i_sketch_run_t){
        .size_bytes = options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES,
        .channels = options->channels,
        .within = options->sketch.within > 0 ? options->sketch.within : WITHIN,
        .most = options->sketch.most_simulated ? options->sketch.most_simulated
                : options->size_bytes > 0      ? SIMULATED
                                               : SIMULATED_ANY_SIZE,
        .fine = options->size_bytes > 0 && options->channels == 0,
        .most_s = CCL_I_SYNTH_CARE * options->hope_s,
        .until_s = options->time_limit_s > 0 ? ccl_now_s() + options->time_limit_s : 0,
        .stats = stats};
}

static ccl_i_solve_options_t solve_of(const ccl_sketch_options_t *options,
                                      const ccl_i_sketch_run_t *run) {
    return (ccl_i_solve_options_t){.size_bytes = run->size_bytes,
                                   .coarse = options->coarse > 0 ? options->coarse : COARSE,
                                   .fine = options->fine > 0 ? options->fine : FINE,
                                   .no_shapes = options->no_shapes,
                                   .borrow = options->borrow,
                                   .until_s = run->until_s,
                                   .stats = run->stats};
}

static void log_counts(const ccl_ctx_t *ctx, const ccl_i_space_t *space, size_t nsketches,
                       const ccl_i_sketch_stats_t *search, const ccl_i_mixes_t *mixes) {
    ccl_log(ctx, CCL_LOG_DEBUG, "sketch",
            "%u dimensions, %zu sketches (%llu visited, %llu isomorphic, %llu relayed), %zu mixes "
            "of %llu",
            space->ndimensions, nsketches, (unsigned long long)search->visited,
            (unsigned long long)search->isomorphic, (unsigned long long)search->relayed, mixes->n,
            (unsigned long long)mixes->tried);
}

/** One synthesis. */
typedef struct work {
    ccl_symmetry_t *symmetry;
    ccl_i_space_t space;
    ccl_i_sketches_t sketches;
    ccl_i_sketch_stats_t search;
    ccl_i_mixes_t mixes;
    size_t given;  /* sketches of the user's, which come first */
    bool searches; /* for more than the user gave */
    bool limited;
    uint64_t dropped;
    ccl_sketch_stats_t *stats;
    double from_s; /* of the lap */
} work_t;

/** The cluster's symmetry, and sketches: the user's, those found, or both. */
static ccl_status_t find_sketches(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_collective_t *want,
                                  const ccl_sketch_options_t *options, work_t *w,
                                  ccl_error_t *err) {
    const ccl_i_sketch_limits_t limits = limits_of(options);
    const ccl_json_doc_t *file = options->added ? options->added : options->file;
    bool with_found = false;

    CCL_TRY(ccl_symmetry_find(ctx, topo, routes, &w->symmetry, err));
    CCL_TRY(ccl_i_space_init(&w->space, topo, routes, w->symmetry, want, err));
    w->stats->symmetry_s += lap(&w->from_s);
    if (file)
        CCL_TRY(ccl_i_sketch_file_read(file, &w->space, &w->sketches, &w->mixes, &with_found, err));
    with_found |= options->added != NULL;
    w->given = w->sketches.n;
    w->stats->given += w->given;
    w->mixes.complete = w->mixes.n > 0 && !with_found;
    w->searches = !file || with_found;
    if (w->searches)
        CCL_TRY(ccl_i_sketch_search(ctx, &w->space, &limits, &w->sketches, &w->search, err));
    w->stats->search_s += lap(&w->from_s);
    return CCL_OK;
}

/** Their sub-demands solved, and mixes of them. */
static ccl_status_t solve_and_mix(const ccl_i_asked_t *asked, const ccl_i_sketch_run_t *run,
                                  work_t *w, ccl_error_t *err) {
    const ccl_ctx_t *ctx = asked->ctx;
    const ccl_synth_options_t *options = asked->options;
    ccl_i_solve_options_t solve = solve_of(&options->sketch, run);
    char *cache = ccl_i_cache_dir(options->sketch.cache);
    ccl_status_t status;

    solve.cache = cache;
    solve.given = w->given;
    solve.search = w->searches;
    solve.dropped = &w->dropped;
    status = ccl_i_sketch_solve(asked, &w->space, &solve, &w->sketches, &w->limited, err);
    free(cache);
    if (status != CCL_OK)
        return status;
    w->stats->solve_s += lap(&w->from_s);
    if (w->space.topo->nranks <= ccl_i_sketch_policy.small && run->fine) {
        w->mixes.chunk_bytes = ccl_i_sketch_chunk_bytes(asked->want, run->size_bytes);
        w->mixes.longest = FARTHEST * (1 + run->within);
    }
    CCL_TRY(ccl_i_sketch_mixes(ctx, &w->space, &w->sketches, w->space.ndimensions,
                               options->chunks ? options->chunks : MAX_PARTS, &w->mixes, err));
    w->stats->combine_s += lap(&w->from_s);
    count(w->stats, &w->space, &w->search, &w->mixes);
    log_counts(ctx, &w->space, w->sketches.n, &w->search, &w->mixes);
    w->dropped += w->mixes.dropped;
    if (w->mixes.n > 0)
        return CCL_OK;
    return w->dropped ? ccl_fail_nomem(err)
                      : ccl_fail(err, CCL_UNSUPPORTED, "sketch: no sketch reaches all %u GPUs",
                                 w->space.topo->nranks);
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_sketch_stats_t unwanted = {0};
    ccl_sketch_stats_t *stats = options->stats ? &options->stats->sketch : &unwanted;
    const ccl_i_sketch_run_t run = run_of(options, stats);
    work_t w = {.stats = stats, .from_s = ccl_now_s()};
    ccl_i_chosen_t chosen = {0};
    const ccl_i_asked_t asked = {ctx, topo, routes, want, options};
    const ccl_i_sketch_choices_t among = {&w.space, &w.sketches, &w.mixes};
    ccl_status_t status = find_sketches(ctx, topo, routes, want, &options->sketch, &w, err);

    if (status == CCL_OK)
        status = solve_and_mix(&asked, &run, &w, err);
    if (status != CCL_OK)
        goto end;
    status = ccl_i_sketch_choose(&asked, &among, &run, &chosen, out, err);
    if (status == CCL_OK && options->sketch.write)
        status = ccl_i_sketch_file_write(&w.space, want, run.size_bytes, &w.sketches, &chosen,
                                         options->sketch.write, err);
    stats->simulate_s += lap(&w.from_s);
    if (status == CCL_OK)
        (*out)->limited |= w.limited || w.dropped;
    if (status == CCL_OK && options->stats)
        options->stats->dropped += w.dropped;
end:
    free(w.mixes.items);
    free(w.sketches.items);
    ccl_i_space_fini(&w.space);
    ccl_symmetry_destroy(w.symmetry);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_sketch = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "sketch",
    .summary = "symmetry: sketches over dimensions, mixed so that no link waits",
    .source = "SyCCL (SIGCOMM 2025), sections 4 and 5",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .through_switches = true,
    .way = &ccl_way_hpds,
    .options = ccl_i_sketch_options,
};
