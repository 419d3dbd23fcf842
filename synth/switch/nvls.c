/* nvls, nvls-pull, nvlstree, collnet: what they support, and the fastest of a few schedules. */
#include "synth/common/race.h"
#include "synth/registry.h"
#include "synth/switch/switch.h"

#include <math.h>
#include <stdlib.h>

/** Whether a chunk goes from one GPU or all to one or all (with or without its source). */
static bool whole(const ccl_collective_t *want, const ccl_chunk_t *c) {
    return c->share <= 0 || ((!c->reduced || c->nsources == want->nranks) &&
                             (c->ndests == 1 || c->ndests + 1 >= want->nranks));
}

/** What switches have to do for a collective. */
static void needs(const ccl_collective_t *want, bool *multicast, bool *reduce, bool *whole_out) {
    *multicast = *reduce = false;
    *whole_out = want->kind != CCL_BROADCAST && want->kind != CCL_REDUCE;
    for (uint32_t k = 0; k < want->nchunks; k++) {
        const ccl_chunk_t *c = &want->chunks[k];
        *reduce = *reduce || (c->reduced && c->nsources > 1);
        *multicast = *multicast || c->ndests > 1;
        *whole_out = *whole_out && whole(want, c);
    }
}

static bool kind_fits(const ccl_collective_t *want, const char **why) {
    bool multicast, reduce, all;
    needs(want, &multicast, &reduce, &all);
    if (want->kind == CCL_ALLTOALL || want->kind == CCL_SENDRECV || want->kind == CCL_GATHER ||
        want->kind == CCL_SCATTER || (!multicast && !reduce)) {
        *why = "nothing is added and nothing goes to several GPUs; use direct";
        return false;
    }
    return true;
}

/** Ranks of the first server, ascending: topologies name servers by their lowest rank. */
static bool first_server_fits(const ccl_topology_t *topo, const ccl_collective_t *want,
                              uint32_t *nservers, const char **why) {
    bool multicast, reduce, all, fits = false;
    ccl_i_cluster_t cluster;
    needs(want, &multicast, &reduce, &all);
    if (ccl_i_cluster_init(&cluster, topo, NULL, NULL) != CCL_OK) {
        *why = "there is not enough memory";
        return false;
    }
    *nservers = cluster.nservers;
    uint32_t n = ccl_i_cluster_gpus(&cluster, 0);
    if (n < 2)
        *why = "a server has one GPU";
    else if (multicast && !ccl_topology_in_switch(topo, false, cluster.ranks, n))
        *why = "no switch of a server can multicast to its GPUs";
    else if (reduce && !ccl_topology_in_switch(topo, true, cluster.ranks, n))
        *why = "no switch of a server can add what its GPUs hold";
    else if (cluster.nservers > 1 && cluster.min_gpus != cluster.max_gpus)
        *why = "servers have different numbers of GPUs";
    else if (cluster.nservers > 1 && !all)
        *why = "over several servers a chunk must go from one GPU or all to one or all";
    else
        fits = true;
    ccl_i_cluster_fini(&cluster);
    return fits;
}

static bool supports_one(const ccl_topology_t *topo, const ccl_collective_t *want,
                         const char **why) {
    uint32_t nservers;
    if (!kind_fits(want, why) || !first_server_fits(topo, want, &nservers, why))
        return false;
    *why = "several servers: use nvlstree, collnet or nvls-pull";
    return nservers == 1;
}

static bool supports_any(const ccl_topology_t *topo, const ccl_collective_t *want,
                         const char **why) {
    uint32_t nservers;
    return kind_fits(want, why) && first_server_fits(topo, want, &nservers, why);
}

static bool supports_several(const ccl_topology_t *topo, const ccl_collective_t *want,
                             const char **why) {
    uint32_t nservers;
    if (!kind_fits(want, why) || !first_server_fits(topo, want, &nservers, why))
        return false;
    *why = "one server: use nvls";
    return nservers > 1;
}

/** Whether switches join the GPUs of the first rail. */
static bool rail_in_switch(const ccl_i_cluster_t *c, const ccl_collective_t *want, bool *out) {
    bool multicast, reduce, all;
    uint32_t *rail = malloc((c->nservers + (size_t)1) * sizeof *rail);
    needs(want, &multicast, &reduce, &all);
    *out = c->nservers > 2 && rail;
    for (uint32_t v = 0; rail && v < c->nservers; v++)
        rail[v] = ccl_i_cluster_rank(c, v, 0);
    *out = *out && (!multicast || ccl_topology_in_switch(c->topo, false, rail, c->nservers)) &&
           (!reduce || ccl_topology_in_switch(c->topo, true, rail, c->nservers));
    bool enough = rail != NULL;
    free(rail);
    return enough;
}

/** The candidates of a race. */
typedef struct family {
    const ccl_collective_t *want;
    ccl_i_switch_how_t how[48];
    uint32_t n, from; /* from: the first that races now */
} family_t;

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    const family_t *f = user;
    static const char *const between[] = {"straight", "in rings", "in trees", "in switches",
                                          "by exchange"};
    const ccl_i_switch_how_t *how = &f->how[f->from + index];
    CCL_TRY(ccl_i_switch_make(with->cluster, f->want, how, out, err));
    ccl_origin_set((*out)->origin, "%s: %u channel%s", how->name, how->channels,
                   how->channels == 1 ? "" : "s");
    if (with->cluster->nservers > 1)
        ccl_origin_add((*out)->origin, "between servers %s", between[how->between]);
    (*out)->piece_bytes = how->piece_bytes;
    if (how->piece_bytes > 0)
        ccl_origin_add((*out)->origin, "pieces of %.0f KB", how->piece_bytes / 1024);
    return CCL_OK;
}

/** Bytes that are not worth being cut. */
#define LEAST_PART_BYTES 65536.0
#define MOST_PIECE_BYTES 1048576.0
#define LEAST_PIECE_BYTES 16384.0
/** Parts of a channel's data in one domain, where copies, pulls and stores work on parts in turn.
 */
#define MOST_PARTS 64
/** Numbers of channels that are tried in one domain in any case: 1, 2, 4, 8. */
enum { FEW_CHANNELS = 4 };
/** Offers and takes of a candidate: about a second's work. */
#define MOST_OPERATIONS 1048576.0

static bool small_enough(const ccl_i_cluster_t *c, const ccl_i_switch_how_t *how) {
    return 2.0 * c->nranks * c->nranks * how->channels * how->parts <= MOST_OPERATIONS;
}

/* In one domain parts are tried when the channels are known: they help where data are staged. */
static void add_ways(family_t *f, const ccl_i_cluster_t *c, const ccl_synth_options_t *options,
                     ccl_i_switch_how_t how) {
    uint32_t parts = options->chunks ? options->chunks : c->nservers > 1 ? 8 : 1;
    uint32_t most = options->channels ? options->channels : c->nservers > 1 ? 16 : 32;
    double bytes = options->size_bytes > 0 ? options->size_bytes : INFINITY;
    how.parts = parts;
    for (how.channels = options->channels ? options->channels : 1; how.channels <= most;
         how.channels *= 2) {
        while (!options->chunks && how.parts > 1 &&
               bytes / c->nranks / how.channels / how.parts < LEAST_PART_BYTES)
            how.parts /= 2;
        if (f->n < CCL_ARRAY_LEN(f->how) &&
            (how.channels == 1 || options->channels || small_enough(c, &how)))
            f->how[f->n++] = how;
    }
}

/** The best, with more and with fewer parts. */
static void add_cuts(family_t *f, const ccl_i_cluster_t *c, const ccl_synth_options_t *options,
                     ccl_i_switch_how_t how) {
    double bytes = options->size_bytes > 0 ? options->size_bytes : INFINITY;
    uint32_t channels = how.channels, parts = how.parts;
    f->n = 0;
    if (options->chunks)
        return;
    uint32_t most = c->nservers > 1 ? 4 * parts : MOST_PARTS;
    for (how.parts = 1; how.parts <= most; how.parts *= 2) {
        for (how.channels = channels > 1 && !options->channels ? channels / 2 : channels;
             how.channels <= channels; how.channels *= 2) {
            if (f->n < CCL_ARRAY_LEN(f->how) && (how.parts >= 2 * parts || how.parts == 1) &&
                small_enough(c, &how) && (how.parts != parts || how.channels != channels) &&
                (how.parts == 1 ||
                 bytes / c->nranks / how.channels / how.parts >= LEAST_PART_BYTES))
                f->how[f->n++] = how;
        }
    }
}

/*
 * Over several servers: the best, in pieces. A part costs every GPU a step for each root, a piece
 * nothing but its overheads; so pieces can be smaller, and less waits for the first of them.
 */
static void add_pieces(family_t *f, const ccl_i_cluster_t *c, const ccl_synth_options_t *options,
                       ccl_i_switch_how_t how) {
    static const uint32_t npieces[] = {2, 4, 8, 16, 32, 64, 96, 120};
    uint32_t roots = how.between == CCL_I_BETWEEN_EXCHANGE ? c->nranks / c->nservers : c->nranks;
    f->n = 0;
    if (options->chunks || c->nservers == 1 || !(options->size_bytes > 0))
        return;
    how.parts = 1;
    how.channels = options->channels || how.channels > 1 ? how.channels : 2; /* in turn */
    for (uint32_t k = 0; k < CCL_ARRAY_LEN(npieces) && small_enough(c, &how); k++) {
        how.piece_bytes = options->size_bytes / roots / how.channels / npieces[k];
        if (how.piece_bytes >= LEAST_PIECE_BYTES && how.piece_bytes <= MOST_PIECE_BYTES)
            f->how[f->n++] = how;
    }
}

/**
 * All ways; in one domain, where they are by channels, more than FEW_CHANNELS only as long as that
 * is faster: most are not, and each takes twice the work of the one before.
 */
static ccl_status_t race_ways(family_t *f, ccl_i_race_t *race, bool one_domain,
                              ccl_i_switch_how_t *best, ccl_error_t *err) {
    uint32_t n = one_domain && f->n > FEW_CHANNELS ? FEW_CHANNELS : f->n;
    bool last = true;
    for (; f->from < f->n && last; f->from += n, n = 1) {
        CCL_TRY(ccl_i_race_run(race, n, err));
        if (race->best.index != CCL_NONE)
            *best = f->how[f->from + race->best.index];
        last = race->best.index + 1 == n;
    }
    f->from = 0;
    return CCL_OK;
}

/** A synthesizer of this file. */
typedef struct kind {
    const char *name;
    bool own;
    unsigned between; /**< a bit for each ccl_i_between_t */
} kind_t;

static ccl_status_t fastest(const ccl_i_asked_t *asked, const kind_t *kind, ccl_schedule_t **out,
                            ccl_error_t *err) {
    const ccl_collective_t *want = asked->want;
    const ccl_synth_options_t *options = asked->options;
    unsigned between = kind->between;
    ccl_i_cluster_t cluster;
    family_t f = {.want = want};
    CCL_TRY(ccl_i_cluster_init(&cluster, asked->topo, asked->routes, err));
    bool in_switch = false;
    bool enough = cluster.nservers == 1 || rail_in_switch(&cluster, want, &in_switch);
    if (cluster.nservers == 1)
        between = 1u << CCL_I_BETWEEN_DIRECT;
    else if (!in_switch)
        between &= ~(1u << CCL_I_BETWEEN_SWITCH);
    else if (kind->own && between >> CCL_I_BETWEEN_SWITCH & 1)
        between = 1u << CCL_I_BETWEEN_SWITCH; /* NCCL takes what the fabric offers */
    if (cluster.nservers != 2)
        between &= ~(1u << CCL_I_BETWEEN_EXCHANGE);
    for (unsigned k = 0; k <= CCL_I_BETWEEN_EXCHANGE; k++) {
        if (between >> k & 1)
            add_ways(&f, &cluster, options,
                     (ccl_i_switch_how_t){
                         .name = kind->name, .own = kind->own, .between = (ccl_i_between_t)k});
    }
    ccl_i_race_t race = {.ctx = asked->ctx,
                         .topo = asked->topo,
                         .routes = asked->routes,
                         .clusters = true,
                         .make = make,
                         .user = &f,
                         .size_bytes =
                             options->size_bytes > 0 ? options->size_bytes : CCL_LOWER_SIZE_BYTES,
                         .most_s = CCL_I_SYNTH_CARE * options->hope_s,
                         .skip_lone = true};
    ccl_i_switch_how_t best = f.how[0];
    ccl_status_t status =
        enough ? race_ways(&f, &race, cluster.nservers == 1, &best, err) : ccl_fail_nomem(err);
    bool hope = !(options->hope_s > 0) || race.best.time_s < INFINITY;
    if (status == CCL_OK && race.best.schedule && f.n > 1 && hope) {
        add_cuts(&f, &cluster, options, best);
        if (f.n > 0)
            status = ccl_i_race_run(&race, f.n, err);
        add_pieces(&f, &cluster, options, best);
        if (status == CCL_OK && f.n > 0)
            status = ccl_i_race_run(&race, f.n, err);
    }
    if (status == CCL_OK)
        status = ccl_i_race_take(&race, out, err);
    ccl_i_race_fini(&race);
    ccl_i_cluster_fini(&cluster);
    return status;
}

#define SYNTHESIZE(function_, name_, own_, between_)                                               \
    static ccl_status_t function_(const ccl_ctx_t *ctx, const ccl_topology_t *topo,                \
                                  ccl_routes_t *routes, const ccl_collective_t *want,              \
                                  const ccl_synth_options_t *options, ccl_schedule_t **out,        \
                                  ccl_error_t *err) {                                              \
        const ccl_i_asked_t asked = {ctx, topo, routes, want, options};                            \
        const kind_t kind = {name_, own_, between_};                                               \
        return fastest(&asked, &kind, out, err);                                                   \
    }
SYNTHESIZE(nvls, "nvls", true, 1u << CCL_I_BETWEEN_DIRECT)
SYNTHESIZE(nvls_pull, "nvls-pull", false,
           1u << CCL_I_BETWEEN_DIRECT | 1u << CCL_I_BETWEEN_RING | 1u << CCL_I_BETWEEN_SWITCH |
               1u << CCL_I_BETWEEN_EXCHANGE)
SYNTHESIZE(nvlstree, "nvlstree", true, 1u << CCL_I_BETWEEN_TREE)
SYNTHESIZE(collnet, "collnet", true, 1u << CCL_I_BETWEEN_RING | 1u << CCL_I_BETWEEN_SWITCH)

const ccl_synth_ops_t ccl_i_synth_nvls = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "nvls",
    .summary = "multicast and reduction in the switch of one NVLink domain, own parts too",
    .source = "NCCL 2.17, NVLS",
    .supports = supports_one,
    .synthesize = nvls,
    .by_size = true,
    .in_switch = true,
};

const ccl_synth_ops_t ccl_i_synth_nvls_pull = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "nvls-pull",
    .summary = "the same without own parts, which reaches the bound; over servers by rails",
    .source = "docs/bounds.md, AllReduce on one switch",
    .supports = supports_any,
    .synthesize = nvls_pull,
    .by_size = true,
    .in_switch = true,
};

const ccl_synth_ops_t ccl_i_synth_nvlstree = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "nvlstree",
    .summary = "multicast and reduction in the servers' switches, trees between servers by rails",
    .source = "NCCL 2.18, NVLSTree",
    .supports = supports_several,
    .synthesize = nvlstree,
    .by_size = true,
    .in_switch = true,
};

const ccl_synth_ops_t ccl_i_synth_collnet = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "collnet",
    .summary = "the same with SHARP between servers where the fabric adds, else with rings",
    .source = "NCCL, CollNet over NVLS",
    .supports = supports_several,
    .synthesize = collnet,
    .by_size = true,
    .in_switch = true,
};
