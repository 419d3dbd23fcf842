/*
 * c2c: collectives of mixed vendors (HetCCL of Peking University and BAAI, sections 4.2 to 4.4,
 * algorithm 1). Ranks are grouped by vendor into clusters; a start collective inside each, data
 * between border ranks of different clusters, an end collective inside each. Pipelined (figure 9)
 * or, as c2c-sequential, one phase after the other.
 */
#include "synth/c2c/moves.h"
#include "synth/common/race.h"
#include "synth/common/options.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is tried, and what parts of a GPU collectives get. bench_synth_small TOPOLOGY runs it on
 * clusters of several vendors.
 */
typedef struct policy {
    uint32_t parts;    /* of a shard at most: a multiple of what collectives inside clusters make */
    double transfers;  /* of a schedule: parts are halved while there are more */
    double hom_sms;    /* part of a GPU's thread blocks; the rest connects clusters */
    uint32_t sketched; /* GPUs up to which `sketch` is tried inside */
    double work; /* transfers of all simulations: no other synthesizer is begun inside that would
                    make them cost more; counted, so that every machine does the same */
    double size; /* bytes, where the user gives none */
} policy_t;

static const policy_t POLICY = {.parts = 16,
                                .transfers = 2.5e5,
                                .hom_sms = 0.7,
                                .sketched = 16,
                                .work = 2e6,
                                .size = CCL_LOWER_SIZE_BYTES};

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
                             const ccl_synth_options_t *options, ccl_i_c2c_hom_t *out,
                             ccl_error_t *err) {
    needs_t needs = needs_of(b->want->kind);
    double share = needs.gather && needs.scatter ? POLICY.hom_sms / 2 : POLICY.hom_sms;
    double size = options->size_bytes > 0 ? options->size_bytes : POLICY.size;
    ccl_i_c2c_hom_want_t want = {kind, root,  b->inner,
                                 size, share, b->sequential ? 1 : options->channels};
    return ccl_i_c2c_hom_init(b->ctx, b->cluster, &b->map->clusters[j], &want, options, out, err);
}

static ccl_status_t make_homs(ccl_i_c2c_t *b, const ccl_synth_options_t *options,
                              ccl_error_t *err) {
    needs_t needs = needs_of(b->want->kind);
    uint32_t nc = b->map->nclusters, root = b->want->root, channels = 0;
    b->gather = ccl_arena_alloc(&b->arena, nc, sizeof *b->gather);
    b->scatter = ccl_arena_alloc(&b->arena, nc, sizeof *b->scatter);
    b->pairs = ccl_arena_alloc(&b->arena, nc, sizeof *b->pairs);
    if (!b->gather || !b->scatter || !b->pairs)
        return ccl_fail_nomem(err);
    for (uint32_t j = 0; j < nc; j++) {
        if (needs.gather)
            CCL_TRY(make_hom(b, j, CCL_ALLGATHER, 0, options, &b->gather[j], err));
        if (needs.scatter)
            CCL_TRY(make_hom(b, j, CCL_REDUCESCATTER, 0, options, &b->scatter[j], err));
        if (needs.pairs)
            CCL_TRY(make_hom(b, j, CCL_ALLTOALL, 0, options, &b->pairs[j], err));
    }
    if (needs.root)
        CCL_TRY(make_hom(b, b->map->of[root], b->want->kind, b->map->local[root], options, &b->root,
                         err));
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
            parts = both <= POLICY.parts ? both : p > parts && p <= POLICY.parts ? p : parts;
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
    while (!chunks && parts > 1 && parts * unit * blocks > POLICY.transfers)
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

typedef struct ways {
    ccl_i_cluster_t *cluster;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    bool sequential;
    ccl_i_race_t race;  /* one way a round */
    way_t way, best;    /* of this round; the fastest */
    uint32_t nclusters; /* of the last way */
} ways_t;

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

/* Clusters, and who made what is inside them. */
static void tell_origin(const ccl_i_c2c_t *b, ccl_schedule_t *schedule) {
    ccl_text_t who = {0};
    const char *last = NULL;

    for (uint32_t j = 0; j < b->map->nclusters; j++) {
        const ccl_i_c2c_hom_t *homs[] = {&b->gather[j], &b->scatter[j], &b->pairs[j]};

        for (size_t i = 0; i < CCL_ARRAY_LEN(homs); i++) {
            if (!homs[i]->by || (last && strcmp(last, homs[i]->by) == 0) ||
                (who.data && strstr(who.data, homs[i]->by)))
                continue;
            last = homs[i]->by;
            ccl_text_printf(&who, "%s%s", who.len ? " and " : "", last);
        }
    }
    ccl_origin_set(schedule->origin, "%s: %u clusters, inside by %s", schedule->name,
                   b->map->nclusters, who.data ? who.data : "nobody: single GPUs");
    ccl_text_fini(&who);
}

static ccl_status_t make_way(void *user, uint32_t index, const ccl_i_racer_t *with,
                             ccl_schedule_t **out, ccl_error_t *err) {
    ways_t *w = user;
    const ccl_collective_t *want = w->want;
    ccl_i_c2c_map_t map;
    (void)index;
    CCL_TRY(ccl_i_c2c_map_init(w->cluster, w->way.clusters, &map, err));
    ccl_i_c2c_t b = {.ctx = with->ctx,
                     .topo = w->cluster->topo,
                     .cluster = w->cluster,
                     .map = &map,
                     .want = want,
                     .inner = w->way.inner,
                     .sequential = w->sequential};
    ccl_arena_init(&b.arena);
    b.arrived = ccl_arena_alloc(&b.arena, want->nranks, sizeof *b.arrived);
    b.stamp = ccl_arena_alloc(&b.arena, want->nranks, sizeof *b.stamp);
    ccl_status_t status = b.arrived && b.stamp ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = make_homs(&b, w->options, err);
    if (status == CCL_OK) {
        if (w->way.same_channels) {
            b.sum_channel -= b.end_channels;
            b.end_channels = 0;
        }
        b.parts = choose_parts(&b, w->options->chunks);
        status = ccl_collective_split(want, b.parts, &b.coll, err);
    }
    if (status == CCL_OK)
        status = ccl_i_c2c_collective(&b, err);
    if (status == CCL_OK)
        status = ccl_i_c2c_schedule(
            &b, w->sequential ? ccl_i_synth_c2c_sequential.name : ccl_i_synth_c2c.name, out, err);
    if (status == CCL_OK) {
        (*out)->rounds = w->sequential;
        tell_origin(&b, *out);
    }
    w->nclusters = map.nclusters;
    fini(&b);
    ccl_i_c2c_map_fini(&map);
    return status;
}

/* ---------------------------------------------------------------- the fastest */

/* Who may make what is inside clusters. Which is best cannot be decided from the inside alone: what
   comes over the border goes on while more comes, and start and end share links with it. */
static const char *const inners[] = {"hm", "direct", "recursive", "sketch"};

static ccl_status_t try_way(ways_t *w, way_t way, ccl_error_t *err) {
    w->way = way;
    CCL_TRY(ccl_i_race_run(&w->race, 1, err));
    if (w->race.best.index == 0)
        w->best = way;
    return CCL_OK;
}

/* Start and end may share thread blocks, where there are both. */
static bool may_share(const ways_t *w) {
    return w->want->kind == CCL_ALLREDUCE && !w->sequential;
}

/* Clusters by vendor, and balanced ones where those are others. */
static ccl_status_t try_clusters(ways_t *w, ccl_error_t *err) {
    const ccl_synth_options_t *o = w->options;
    uint32_t shared = may_share(w) ? 2 : 1, vendors = 0;
    ccl_i_c2c_map_t map;
    ccl_error_t why = CCL_ERROR_INIT;
    for (uint32_t same = 0; same < shared; same++) {
        CCL_TRY(try_way(w, (way_t){o->c2c.clusters, same, o->c2c.inner}, err));
        vendors = w->nclusters;
    }
    if (o->c2c.clusters)
        return CCL_OK;
    ccl_status_t status = ccl_i_c2c_map_init(w->cluster, CCL_I_C2C_BALANCED, &map, &why);
    if (status == CCL_UNSUPPORTED)
        return CCL_OK;
    if (status != CCL_OK) {
        if (err)
            *err = why;
        return status;
    }
    bool again = map.nclusters == vendors;
    ccl_i_c2c_map_fini(&map);
    for (uint32_t same = 0; same < shared && !again; same++)
        CCL_TRY(try_way(w, (way_t){CCL_I_C2C_BALANCED, same, o->c2c.inner}, err));
    return CCL_OK;
}

/* The fastest of these with every other synthesizer inside. */
static ccl_status_t try_inners(ways_t *w, ccl_error_t *err) {
    way_t way = w->best;
    if (w->options->c2c.inner || needs_of(w->want->kind).pairs || !w->race.best.schedule)
        return CCL_OK;
    uint32_t shared = may_share(w) ? 2 : 1;
    for (size_t i = 0; i < shared * CCL_ARRAY_LEN(inners); i++) {
        way.inner = inners[i / shared];
        way.same_channels = i % shared;
        if ((strcmp(way.inner, "sketch") == 0 && w->want->nranks > POLICY.sketched) ||
            w->race.counted > w->race.left)
            continue;
        CCL_TRY(try_way(w, way, err));
    }
    return CCL_OK;
}

static ccl_status_t fastest(ways_t *w, const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                            ccl_routes_t *routes, ccl_schedule_t **out, ccl_error_t *err) {
    const ccl_synth_options_t *options = w->options;
    ccl_i_cluster_t cluster;
    double size = options->size_bytes > 0 ? options->size_bytes : POLICY.size;
    *out = NULL;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    w->cluster = &cluster;
    w->race = (ccl_i_race_t){.ctx = ctx,
                             .topo = topo,
                             .routes = cluster.routes,
                             .phase = "simulate",
                             .make = make_way,
                             .in_turn = true, /* the next way depends on the last one's time */
                             .user = w,
                             .level = CCL_GRANULARITY_ALGORITHM,
                             .size_bytes = size,
                             .left = POLICY.work};
    ccl_status_t status = try_clusters(w, err);
    if (status == CCL_OK)
        status = try_inners(w, err);
    if (status == CCL_OK)
        status = ccl_i_race_take(&w->race, out, err);
    if (status == CCL_OK && options->stats)
        status = ccl_c2c_load(topo, cluster.routes, *out, size, &options->stats->c2c, err);
    if (status != CCL_OK) {
        ccl_schedule_destroy(*out);
        *out = NULL;
    }
    ccl_i_race_fini(&w->race);
    ccl_i_cluster_fini(&cluster);
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ways_t ways = {.want = want, .options = options};
    return fastest(&ways, ctx, topo, routes, out, err);
}

static ccl_status_t synthesize_sequential(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                          ccl_routes_t *routes, const ccl_collective_t *want,
                                          const ccl_synth_options_t *options, ccl_schedule_t **out,
                                          ccl_error_t *err) {
    ways_t ways = {.want = want, .options = options, .sequential = true};
    return fastest(&ways, ctx, topo, routes, out, err);
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
