/*
 * c2c: collectives of mixed vendors (HetCCL of Peking University and BAAI, sections 4.2 to 4.4,
 * algorithm 1). Ranks are grouped by vendor into clusters; a start collective inside each, data
 * between border ranks of different clusters, an end collective inside each. Pipelined (figure 9)
 * or, as c2c-sequential, one phase after the other.
 */
#include "synth/c2c/moves.h"
#include "synth/common/options.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts of a block are a multiple of what collectives inside clusters make of it, up to this. */
enum { MOST_PARTS = 16 };
/* Parts are halved while a schedule would have more transfers. */
#define MOST_TRANSFERS 2.5e5
/* Of a GPU's thread blocks; the rest connects clusters. */
#define HOM_SMS 0.7

static bool supports_kind(const ccl_collective_t *want, const char **why) {
    if (want->kind != CCL_SENDRECV && want->kind != CCL_CUSTOM)
        return true;
    *why = "it is not one of the eight collectives between clusters; use direct";
    return false;
}

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    if (!supports_kind(want, why))
        return false;
    if (ccl_i_c2c_vendors(topo) > 1)
        return true;
    *why = "all GPUs are of one vendor; --clusters N splits them";
    return false;
}

static bool supports_with(const ccl_topology_t *topo, const ccl_collective_t *want,
                          const ccl_synth_options_t *options, const char **why) {
    return options->c2c.clusters > 1 ? supports_kind(want, why) : supports(topo, want, why);
}

/* ---------------------------------------------------------------- collectives inside clusters */

/** Which of them a collective needs. */
typedef struct needs {
    bool gather, scatter, pairs, root;
} needs_t;

static needs_t needs_of(ccl_collective_kind_t kind) {
    switch (kind) {
    case CCL_ALLGATHER:
        return (needs_t){.gather = true};
    case CCL_REDUCESCATTER:
        return (needs_t){.scatter = true};
    case CCL_ALLREDUCE:
        return (needs_t){.gather = true, .scatter = true};
    case CCL_BROADCAST:
        return (needs_t){.gather = true, .root = true};
    case CCL_REDUCE:
        return (needs_t){.scatter = true, .root = true};
    default:
        return (needs_t){.pairs = true};
    }
}

static ccl_status_t make_hom(ccl_i_c2c_t *b, uint32_t j, ccl_collective_kind_t kind, uint32_t root,
                             const ccl_synth_options_t *options, double share, ccl_i_c2c_hom_t *out,
                             ccl_error_t *err) {
    double size = options->size_bytes > 0 ? options->size_bytes : 268435456.0;
    ccl_i_c2c_hom_want_t want = {kind, root,  b->inner,
                                 size, share, b->sequential ? 1 : options->channels};
    return ccl_i_c2c_hom_init(b->ctx, b->topo, b->cluster->routes, &b->map->clusters[j], &want,
                              options, out, err);
}

static ccl_status_t make_homs(ccl_i_c2c_t *b, const ccl_synth_options_t *options,
                              ccl_error_t *err) {
    needs_t needs = needs_of(b->want->kind);
    uint32_t nc = b->map->nclusters, root = b->want->root, channels = 0;
    double share = needs.gather && needs.scatter ? HOM_SMS / 2 : HOM_SMS;
    b->gather = ccl_arena_alloc(&b->arena, nc, sizeof *b->gather);
    b->scatter = ccl_arena_alloc(&b->arena, nc, sizeof *b->scatter);
    b->pairs = ccl_arena_alloc(&b->arena, nc, sizeof *b->pairs);
    if (!b->gather || !b->scatter || !b->pairs)
        return ccl_fail_nomem(err);
    for (uint32_t j = 0; j < nc; j++) {
        if (needs.gather)
            CCL_TRY(make_hom(b, j, CCL_ALLGATHER, 0, options, share, &b->gather[j], err));
        if (needs.scatter)
            CCL_TRY(make_hom(b, j, CCL_REDUCESCATTER, 0, options, share, &b->scatter[j], err));
        if (needs.pairs)
            CCL_TRY(make_hom(b, j, CCL_ALLTOALL, 0, options, share, &b->pairs[j], err));
    }
    if (needs.root)
        CCL_TRY(make_hom(b, b->map->of[root], b->want->kind, b->map->local[root], options, share,
                         &b->root, err));
    for (uint32_t j = 0; j < nc; j++) {
        uint32_t start = needs.scatter ? b->scatter[j].nchannels : b->gather[j].nchannels;
        channels = start > channels ? start : channels;
        uint32_t steps[] = {b->gather[j].nsteps, b->scatter[j].nsteps, b->pairs[j].nsteps,
                            b->root.nsteps};
        for (size_t i = 0; i < CCL_ARRAY_LEN(steps); i++)
            b->start_steps = steps[i] > b->start_steps ? steps[i] : b->start_steps;
    }
    if (!b->sequential) {
        b->end_channels = needs.gather && needs.scatter ? channels : 0;
        b->sum_channel = channels + b->end_channels;
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- parts */

/* Parts of a block: a multiple of what inner collectives make, so that all their ways are used. */
static uint32_t inner_parts(const ccl_i_c2c_t *b) {
    uint32_t parts = 1;
    for (uint32_t j = 0; j < b->map->nclusters; j++) {
        const ccl_i_c2c_hom_t *homs[] = {&b->gather[j], &b->scatter[j], &b->pairs[j]};
        for (size_t i = 0; i < CCL_ARRAY_LEN(homs); i++) {
            uint32_t p = homs[i]->nchunks ? homs[i]->parts : 1;
            uint32_t both = parts / (uint32_t)ccl_gcd(parts, p) * p;
            parts = both <= MOST_PARTS ? both : p > parts && p <= MOST_PARTS ? p : parts;
        }
    }
    return parts;
}

/* What a chunk of the uncut collective is cut into. */
static uint32_t choose_parts(const ccl_i_c2c_t *b, uint32_t chunks) {
    uint32_t nc = b->map->nclusters, borders = 1, parts = chunks ? chunks : inner_parts(b),
             unit = 1;
    double n = b->want->nranks, blocks = ccl_i_collective_transfers(b->want);
    for (uint32_t j = 0; j < nc; j++)
        borders = b->map->clusters[j].nborders > borders ? b->map->clusters[j].nborders : borders;
    switch (b->want->kind) {
    case CCL_ALLREDUCE:
        unit = borders * nc; /* every border of every cluster sums as much */
        blocks = 2 * n;
        break;
    case CCL_BROADCAST:
    case CCL_REDUCE:
        unit = borders;
        break;
    default:
        break;
    }
    while (!chunks && parts > 1 && parts * unit * blocks > MOST_TRANSFERS)
        parts /= 2;
    return parts * unit;
}

/* ---------------------------------------------------------------- one way */

/** What may differ between the schedules that are compared. */
typedef struct way {
    uint32_t clusters;  /* of ccl_i_c2c_map_init */
    bool same_channels; /* end collectives share the start collectives' thread blocks */
    const char *inner;  /* who makes them; NULL: whoever is fastest by itself */
} way_t;

static void fini(ccl_i_c2c_t *b) {
    for (uint32_t j = 0; b->map && j < b->map->nclusters; j++) {
        if (b->gather)
            ccl_i_c2c_hom_fini(&b->gather[j]);
        if (b->scatter)
            ccl_i_c2c_hom_fini(&b->scatter[j]);
        if (b->pairs)
            ccl_i_c2c_hom_fini(&b->pairs[j]);
    }
    ccl_i_c2c_hom_fini(&b->root);
    ccl_collective_destroy(b->coll);
    free(b->moves);
    ccl_arena_fini(&b->arena);
}

static ccl_status_t build(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                          const ccl_collective_t *want, const ccl_synth_options_t *options,
                          bool sequential, way_t way, uint32_t *nclusters_out, ccl_schedule_t **out,
                          ccl_error_t *err) {
    const char *name = sequential ? ccl_i_synth_c2c_sequential.name : ccl_i_synth_c2c.name;
    ccl_i_c2c_map_t map;
    CCL_TRY(ccl_i_c2c_map_init(cluster, way.clusters, &map, err));
    ccl_i_c2c_t b = {.ctx = ctx,
                     .topo = cluster->topo,
                     .cluster = cluster,
                     .map = &map,
                     .want = want,
                     .inner = way.inner,
                     .sequential = sequential};
    ccl_arena_init(&b.arena);
    b.arrived = ccl_arena_alloc(&b.arena, want->nranks, sizeof *b.arrived);
    b.stamp = ccl_arena_alloc(&b.arena, want->nranks, sizeof *b.stamp);
    ccl_status_t status = b.arrived && b.stamp ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = make_homs(&b, options, err);
    if (status == CCL_OK) {
        if (way.same_channels) {
            b.sum_channel -= b.end_channels;
            b.end_channels = 0;
        }
        b.parts = choose_parts(&b, options->chunks);
        status = ccl_collective_split(want, b.parts, &b.coll, err);
    }
    if (status == CCL_OK)
        status = ccl_i_c2c_collective(&b, err);
    if (status == CCL_OK)
        status = ccl_i_c2c_schedule(&b, name, out, err);
    if (status == CCL_OK)
        (*out)->rounds = sequential;
    *nclusters_out = map.nclusters;
    fini(&b);
    ccl_i_c2c_map_fini(&map);
    return status;
}

/* ---------------------------------------------------------------- the fastest */

/* Who may make what is inside clusters. Which is best cannot be decided from the inside alone: what
   comes over the border goes on while more comes, and start and end share links with it. */
static const char *const inners[] = {"hm", "direct", "recursive", "sketch"};
/* sketch takes its time on more GPUs; of the others none is begun that would make simulations cost
   more than this (ccl_i_time_schedule_work: counted, so that every machine does the same). */
enum { MOST_SKETCH_RANKS = 16 };
#define MOST_WORK 2e6

typedef struct race {
    const ccl_ctx_t *ctx;
    ccl_i_cluster_t *cluster;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    double size;
    bool sequential;
    ccl_schedule_t *best;
    double best_s, work, last_work;
    way_t best_way;
    uint32_t nclusters; /* of the last way */
    ccl_error_t why;    /* of the first that was not made */
} race_t;

/* Other errors than that a way cannot be end the race. */
static ccl_status_t try_way(race_t *r, way_t way) {
    ccl_schedule_t *made = NULL;
    double time_s = 0;
    ccl_error_t at = CCL_ERROR_INIT;
    ccl_status_t status = build(r->ctx, r->cluster, r->want, r->options, r->sequential, way,
                                &r->nclusters, &made, &at);
    r->last_work = 0;
    if (status == CCL_OK)
        status =
            ccl_i_time_schedule_work(r->ctx, r->cluster->topo, r->cluster->routes, made, r->size,
                                     CCL_GRANULARITY_ALGORITHM, &time_s, &r->last_work, &at);
    r->work += r->last_work;
    if (status == CCL_OK && (!r->best || time_s < r->best_s)) {
        ccl_schedule_destroy(r->best);
        r->best = made;
        r->best_s = time_s;
        r->best_way = way;
        made = NULL;
    }
    ccl_schedule_destroy(made);
    if (status != CCL_OK && !r->why.status)
        r->why = at;
    return status == CCL_UNSUPPORTED ? CCL_OK : status;
}

/* Start and end may share thread blocks, where there are both. */
static bool may_share(const race_t *r) {
    return r->want->kind == CCL_ALLREDUCE && !r->sequential;
}

/* Clusters by vendor, and balanced ones where those are others. */
static ccl_status_t try_clusters(race_t *r) {
    const ccl_synth_options_t *o = r->options;
    uint32_t shared = may_share(r) ? 2 : 1, vendors = 0;
    ccl_i_c2c_map_t map;
    ccl_error_t err = CCL_ERROR_INIT;
    for (uint32_t same = 0; same < shared; same++) {
        CCL_TRY(try_way(r, (way_t){o->c2c.clusters, same, o->c2c.inner}));
        vendors = r->nclusters;
    }
    if (o->c2c.clusters)
        return CCL_OK;
    ccl_status_t status = ccl_i_c2c_map_init(r->cluster, CCL_I_C2C_BALANCED, &map, &err);
    if (status != CCL_OK)
        return status == CCL_UNSUPPORTED ? CCL_OK : status;
    bool again = map.nclusters == vendors;
    ccl_i_c2c_map_fini(&map);
    for (uint32_t same = 0; same < shared && !again; same++)
        CCL_TRY(try_way(r, (way_t){CCL_I_C2C_BALANCED, same, o->c2c.inner}));
    return CCL_OK;
}

/* The fastest of these with every other synthesizer inside. */
static ccl_status_t try_inners(race_t *r) {
    way_t way = r->best_way;
    if (r->options->c2c.inner || needs_of(r->want->kind).pairs || !r->best)
        return CCL_OK;
    uint32_t shared = may_share(r) ? 2 : 1;
    for (size_t i = 0; i < shared * CCL_ARRAY_LEN(inners); i++) {
        way.inner = inners[i / shared];
        way.same_channels = i % shared;
        if ((strcmp(way.inner, "sketch") == 0 && r->want->nranks > MOST_SKETCH_RANKS) ||
            r->work + r->last_work > MOST_WORK)
            continue;
        CCL_TRY(try_way(r, way));
    }
    return CCL_OK;
}

static ccl_status_t synthesize_any(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   ccl_routes_t *routes, const ccl_collective_t *want,
                                   const ccl_synth_options_t *options, bool sequential,
                                   ccl_schedule_t **out, ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    race_t r = {.ctx = ctx,
                .cluster = &cluster,
                .want = want,
                .options = options,
                .size = options->size_bytes > 0 ? options->size_bytes : 268435456.0,
                .sequential = sequential};
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    ccl_status_t status = try_clusters(&r);
    if (status == CCL_OK)
        status = try_inners(&r);
    if (status == CCL_OK && !r.best)
        status = CCL_UNSUPPORTED;
    if (status == CCL_OK && options->stats)
        status = ccl_c2c_load(topo, cluster.routes, r.best, r.size, &options->stats->c2c, &r.why);
    if (status != CCL_OK) {
        ccl_schedule_destroy(r.best);
        if (err)
            *err = r.why;
    } else {
        *out = r.best;
    }
    ccl_i_cluster_fini(&cluster);
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    return synthesize_any(ctx, topo, routes, want, options, false, out, err);
}

static ccl_status_t synthesize_sequential(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                          ccl_routes_t *routes, const ccl_collective_t *want,
                                          const ccl_synth_options_t *options, ccl_schedule_t **out,
                                          ccl_error_t *err) {
    return synthesize_any(ctx, topo, routes, want, options, true, out, err);
}

/* A name of a synthesizer. */
static ccl_status_t check_inner(const char *text, ccl_error_t *err) {
    if (ccl_synth_find(text))
        return CCL_OK;
    return ccl_fail(err, CCL_ERR_INPUT, "unknown synthesizer \"%.40s\" (ccllab algos lists them)",
                    text);
}

static const ccl_option_t own_options[] = {
    {.name = "clusters",
     .type = CCL_OPTION_COUNT,
     .offset = CCL_I_SYNTH_AT(c2c.clusters),
     .value = "N",
     .min = 2,
     .doc = "number of clusters, servers of one vendor each",
     .otherwise = "a cluster per vendor, or as many as make their bandwidths equal, whichever is "
                  "faster",
     .knob = "clusters",
     .knob_max = 1024},
    {.name = "inner",
     .type = CCL_OPTION_TEXT,
     .offset = CCL_I_SYNTH_AT(c2c.inner),
     .value = "SYNTHESIZER",
     .doc = "for collectives inside clusters",
     .otherwise = "the fastest of direct, hm and ring",
     .check = check_inner,
     .knob = "inner",
     .knob_words = CCL_OPTION_WORDS("direct", "hm", "ring")},
    {.name = NULL},
};
static const ccl_option_t *const options[] = {own_options, NULL};

const ccl_synth_ops_t ccl_i_synth_c2c = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "c2c",
    .summary = "mixed vendors: collectives inside each vendor's cluster, border ranks between",
    .source = "HetCCL (Peking University, BAAI), sections 4.2 to 4.4, algorithm 1, table 7",
    .supports = supports,
    .supports_with = supports_with,
    .synthesize = synthesize,
    .by_size = true,
    .options = options,
};

const ccl_synth_ops_t ccl_i_synth_c2c_sequential = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "c2c-sequential",
    .summary = "c2c with its phases one behind the other, for comparison",
    .source = "HetCCL (Peking University, BAAI), figure 9",
    .supports = supports,
    .supports_with = supports_with,
    .synthesize = synthesize_sequential,
    .ordered = true,
    .by_size = true,
    .by_name = true,
    .options = options,
};
