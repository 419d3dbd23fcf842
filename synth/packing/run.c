/*
 * Packed trees as a schedule. A rank at the bottom of a tree waits while whole chunks come down at
 * the share of a NIC that one of many flows has: cut chunks come sooner. How far to cut, and
 * whether connections are many for all hops or by load, is simulated.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/common/race.h"
#include "synth/packing/packing.h"

/* How far trees are cut. bench/cases/synth_small.c runs it; tests/synth/prop_unequal.c falls
 * without what is for parts. */
typedef struct policy {
    uint64_t transfers; /* of a schedule, at most */
    uint32_t cuts;      /* of a tree into chunks, at most */
    uint32_t pieces;   /* of a tree, at most, but where they cost nothing and more promise a gain */
    uint32_t fine;     /* of a tree, at most, then */
    double promise;    /* share of the time that they must promise */
    double work;       /* transfers times pieces, at most, then */
    uint32_t least;    /* logarithm of the pieces of a root's part, at least */
    uint32_t first;    /* that is tried first */
    uint32_t most;     /* at most */
    double alike;      /* share of the time by which the same program differs */
    double cut_bytes;  /* no smaller chunks, nor pieces that cost something */
    double fine_bytes; /* no smaller pieces where they cost nothing and `work` is not exceeded */
    double piece_bytes; /* no smaller pieces where they are not simulated */
    double same;        /* share of the time by which chunks and pieces that are alike differ */
    double near;        /* times what the trees need of links: no chunks after pieces */
    double gain;        /* times other connections that are tried as well, of trees behind others */
    double worse;       /* times the best: cuts end with one that is slower than that: half as long
                           chunks may be worse, and quarters better */
} policy_t;

static const policy_t POLICY = {.transfers = 200000,
                                .cuts = 32,
                                .pieces = 128,
                                .fine = 2048,
                                .promise = 0.005,
                                .work = 3e6,
                                .piece_bytes = 32768,
                                .same = 1e-3,
                                .near = 1.02,
                                .least = 3,
                                .first = 5,
                                .most = 9,
                                .alike = 1e-6,
                                .cut_bytes = 8192,
                                .fine_bytes = 256,
                                .gain = 0.99,
                                .worse = 1.1};

enum { SMALL_END = 2 }; /* parts of each of the last two pieces, where these are cut */

/* One way of making the schedule. */
typedef struct run {
    const ccl_ctx_t *ctx;
    ccl_i_cluster_t *cluster;
    const ccl_collective_t *want;
    const ccl_i_packed_t *packed;
    uint32_t cuts; /* chunks that each tree carries, one after the other */
    ccl_i_pack_edge_t *edges;
    uint16_t *channel[2]; /* [total][nranks] down, up: of the connection to a rank */
    uint32_t *depth[2];   /* [nbatches][nranks] */
    uint32_t *root_of;    /* [total] root of a tree */
    ccl_i_race_t race;    /* one candidate a round */
    ccl_schedule_t *made; /* the next candidate, where it is made already */
    uint32_t given, try_cuts, fewest;
    double size_bytes;
    bool in_chunks; /* the program will run where micro-batches are not ours to choose */
    enum { BY_RANK, BY_RAIL, IN_TURN, NORDERS } order; /* of parts: pieces_of_parts() */
    bool small_end;  /* the last two pieces are halved; in turn, roots of a rail lie side by side */
    uint32_t period; /* in turn: channels from a connection to the next */
    bool by_load, limited;       /* limited: some hops have fewer connections than wanted */
    bool cheap;                  /* pieces cost nothing, however small */
    double tried_s[NORDERS][16]; /* times of pieces, of chunks, or of orders, by the logarithm of
                                    their number; 0: not tried with these connections */
} run_t;

static const ccl_i_pack_forest_t *forest(const run_t *r, int up) {
    return up ? r->packed->up : r->packed->down;
}

static ccl_status_t run_init(run_t *r, ccl_error_t *err) {
    uint32_t n = r->cluster->nranks, total = r->packed->total;
    size_t cells = (size_t)total * n + 1;
    r->edges = malloc(2 * cells * sizeof *r->edges);
    r->root_of = calloc(total + (size_t)1, sizeof *r->root_of);
    bool ok = r->edges && r->root_of;
    for (int up = 0; up < 2; up++) {
        size_t nbatches = forest(r, up)->trees.nbatches;
        r->channel[up] = calloc(cells, sizeof **r->channel);
        r->depth[up] = calloc(nbatches * n + 1, sizeof **r->depth);
        ok = ok && r->channel[up] && r->depth[up];
    }
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

/* The roots of all trees, by rank or, where what goes the same way is to lie side by side, by rail.
 */
static void set_roots(run_t *r) {
    uint32_t n = r->cluster->nranks, m = r->cluster->nservers;
    for (uint32_t k = 0, i = 0; k < n; k++) {
        bool by_rail = r->order == BY_RAIL || (r->order == IN_TURN && r->small_end);
        uint32_t rank = by_rail ? ccl_i_cluster_rank(r->cluster, k % m, k / m) : k;
        for (int64_t t = 0; t < r->packed->roots[rank]; t++)
            r->root_of[i++] = rank;
    }
}

static void run_fini(run_t *r) {
    for (int up = 0; up < 2; up++) {
        free(r->channel[up]);
        free(r->depth[up]);
    }
    free(r->edges);
    free(r->root_of);
    ccl_schedule_destroy(r->made);
    ccl_i_race_fini(&r->race);
}

/*
 * Sums as early as they can be: below a rank stands its height instead of its depth, so that time
 * reversed all leaves come first. Else what a root adds of its own server stands last, before what
 * comes from far, and all wait for it.
 */
static void sum_early(run_t *r) {
    const ccl_i_pack_forest_t *f = forest(r, 1);
    uint32_t n = r->cluster->nranks, most = 0;
    for (size_t k = 0; k < f->trees.nbatches * n; k++)
        most = r->depth[1][k] > most ? r->depth[1][k] : most;
    for (size_t b = 0; b < f->trees.nbatches; b++) {
        const ccl_i_pack_batch_t *batch = &f->trees.batches[b];
        uint32_t *depth = r->depth[1] + b * n;
        for (uint32_t v = 0; v < n; v++)
            depth[v] = most;
        for (uint32_t i = n - 1; i > 0; i--) {
            uint32_t v = batch->order[i], u = batch->parent[v];
            depth[u] = depth[v] - 1 < depth[u] ? depth[v] - 1 : depth[u];
        }
    }
}

/* All edges, on the channels of their routes. */
static size_t all_edges(run_t *r) {
    uint32_t n = r->cluster->nranks;
    size_t count = 0;
    for (int up = 0; up < 2; up++) {
        const ccl_i_pack_forest_t *f = forest(r, up);
        if (!f->first)
            continue;
        memcpy(r->channel[up], f->channel, (size_t)f->first[n] * n * sizeof **r->channel);
        memcpy(r->depth[up], f->depth, f->trees.nbatches * n * sizeof **r->depth);
        if (up && r->packed->sums_early)
            sum_early(r);
        for (uint32_t t = 0; t < f->first[n]; t++) {
            const ccl_i_pack_batch_t *b = &f->trees.batches[f->tree[t]];
            for (uint32_t i = 1; i < n; i++) {
                uint32_t dst = b->order[i], src = b->parent[dst];
                ccl_i_pack_edge_t edge = {.src = src, .dst = dst, .tree = t, .up = up == 1};
                if (f->reversed)
                    edge.src = dst, edge.dst = src;
                edge.part = t - f->first[b->root];
                edge.lane = r->packed->lane ? r->packed->lane[t] : t;
                edge.channel = &r->channel[up][(size_t)t * n + dst];
                edge.depth = &r->depth[up][(size_t)f->tree[t] * n + dst];
                edge.ways = 1;
                r->edges[count++] = edge;
            }
        }
    }
    return count;
}

/* Chunks of a tree follow each other by a step. */
static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    const run_t *r = user;
    const ccl_i_pack_forest_t *f = forest(r, want->up);
    uint32_t n = r->cluster->nranks, part = want->part / r->cuts, cut = want->part % r->cuts;
    (void)err;
    if (!f->first)
        return CCL_OK; /* a sum that stays at its root */
    if (want->kind == CCL_ALLREDUCE) {
        /* part counts all trees; those of a root stand together. */
        uint32_t first = part;
        while (first > 0 && r->root_of[first - 1] == r->root_of[part])
            first--;
        part -= first;
    }
    size_t t = f->first[want->root] + (size_t)part, b = f->tree[t];
    const ccl_i_pack_batch_t *batch = &f->trees.batches[b];
    if (r->order == IN_TURN) {
        const ccl_i_pack_turn_t turn = {
            r->cluster,      batch,   r->depth[want->up] + b * n, r->channel[want->up] + t * n,
            r->period * cut, want->up};
        ccl_i_pack_in_turn(&turn, out);
        return CCL_OK;
    }
    uint32_t later = want->up ? r->cuts - 1 - cut : cut;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t dst = batch->order[i];
        ccl_i_tree_add(out, batch->parent[dst], dst, r->depth[want->up][b * n + dst] - 1 + later,
                       r->channel[want->up][t * n + dst]);
    }
    return CCL_OK;
}

static uint32_t root_of(void *user, const ccl_i_want_t *want) {
    const run_t *r = user;
    return r->root_of[want->part / r->cuts];
}

/* Connections of parts, and cuts of what goes in turn: as many as a sum has connections. */
static ccl_status_t part_channels(run_t *r, size_t nedges, uint32_t *channels_out,
                                  ccl_error_t *err) {
    ccl_i_pack_ways_t ways = {.nparts = r->packed->nparts, .side_by_side = r->order == IN_TURN};
    CCL_TRY(ccl_i_pack_part_channels(r->cluster, r->edges, nedges, &ways, err));
    if (r->order == IN_TURN)
        r->cuts = ways.ways;
    r->period = ways.period;
    *channels_out = ways.channels;
    return CCL_OK;
}

static ccl_status_t make(void *user, uint32_t index, const ccl_i_racer_t *with,
                         ccl_schedule_t **out, ccl_error_t *err) {
    run_t *r = user;
    const ccl_i_packed_t *p = r->packed;
    ccl_i_plan_t plan = {.name = "packing", .tree = tree, .user = r};
    const ccl_i_pack_lanes_t lanes = {p->lane ? p->nlanes : p->total, p->tree_Bps, r->given,
                                      r->by_load};
    uint32_t channels = 0;
    (void)index;
    (void)with;
    *out = r->made;
    r->made = NULL;
    if (*out)
        return CCL_OK;
    set_roots(r);
    size_t nedges = all_edges(r);
    r->cuts = r->in_chunks ? r->try_cuts : 1;
    if (p->nparts > 0)
        CCL_TRY(part_channels(r, nedges, &channels, err));
    else
        CCL_TRY(
            ccl_i_pack_channels(r->cluster, r->edges, nedges, &lanes, &channels, &r->limited, err));
    if (p->paced)
        CCL_TRY(ccl_i_pack_pace(r->cluster, r->edges, nedges, p->total, err));
    plan.parts = p->total * r->cuts;
    if (r->want->kind == CCL_ALLGATHER || r->want->kind == CCL_REDUCESCATTER)
        plan.parts /= r->cluster->nranks;
    if (r->want->kind == CCL_ALLREDUCE) {
        plan.root = root_of;
        plan.down_channels = channels;
    }
    CCL_TRY(ccl_i_plan_run(r->ctx, r->cluster, r->want, &plan, out, err));
    (*out)->joined = p->nparts > 0;
    if (!r->in_chunks && r->try_cuts > 1)
        (*out)->piece_bytes = ceil(r->size_bytes / p->total / r->try_cuts / r->cuts);
    (*out)->stagger = r->small_end ? SMALL_END : 0;
    ccl_origin_set((*out)->origin, "packing: %u tree%s %s, %u %s%s each%s", p->total,
                   p->total == 1 ? "" : "s", p->how, r->try_cuts, r->in_chunks ? "chunk" : "piece",
                   r->try_cuts == 1 ? "" : "s", r->order == IN_TURN ? ", reductions in turn" : "");
    if (r->small_end)
        ccl_origin_add((*out)->origin, "the last two in halves");
    return CCL_OK;
}

static ccl_status_t try_cuts(run_t *r, bool by_load, uint32_t cuts, double *time_out,
                             ccl_error_t *err) {
    r->by_load = by_load;
    r->try_cuts = cuts;
    CCL_TRY(ccl_i_race_run(&r->race, 1, err));
    *time_out = r->race.results[0].time_s;
    ccl_log(r->ctx, CCL_LOG_DEBUG, "packing", "%u chunks a tree, connections %s: %.2f us", cuts,
            by_load ? "by load" : "alike", 1e6 * *time_out);
    return CCL_OK;
}

/* The fewest pieces that are more than the micro-batches which the cluster asks for anyway. */
static uint32_t fewest_pieces(const run_t *r) {
    double bytes;
    double batches = ccl_lower_batches(r->made, r->cluster->topo, "Simple", r->size_bytes, &bytes);
    uint32_t cuts = 2;
    while (cuts < 2 * batches && cuts < POLICY.pieces)
        cuts *= 2;
    return cuts;
}

/* Primitives take no time beyond what links need: small pieces are as good as large ones. */
static bool costs_nothing(const ccl_topology_t *topo) {
    for (uint32_t t = 0; t < topo->ntransports; t++) {
        if (ccl_model_transport(topo, topo->transports[t].kind, "Simple").overhead_s > 0)
            return false;
    }
    return true;
}

/* Two numbers of pieces, the last ones tried, and their times. */
typedef struct last {
    uint32_t pieces[2];
    double time_s[2];
} last_t;

/*
 * The number of pieces that is worth one more simulation, 0: none. Filling the trees takes a time
 * that falls with the number of pieces.
 */
static uint32_t promising(const run_t *r, uint64_t transfers, const last_t *l) {
    double links_s = r->size_bytes / ((double)r->packed->total * r->packed->tree_Bps);
    double fill_s = (l->time_s[0] - l->time_s[1]) / (1.0 / l->pieces[0] - 1.0 / l->pieces[1]);
    uint32_t now = l->pieces[1];
    double most = fmin(POLICY.fine, POLICY.work / (double)transfers);
    uint32_t more = 4 * now <= most ? 4 * now : 2 * now;
    double gain_s = fill_s * (1.0 / now - 1.0 / more);
    bool gains = l->time_s[1] > POLICY.near * links_s && gain_s > POLICY.promise * l->time_s[1];
    return more <= most && gains ? more : 0;
}

/* Pieces or chunks of a tree are not too small for a try. */
static bool large_enough(const run_t *r, uint32_t cuts, uint64_t transfers) {
    bool fine = r->cheap && !r->in_chunks && (double)transfers * cuts <= POLICY.work;
    double least_bytes = fine ? POLICY.fine_bytes : POLICY.cut_bytes;
    return r->size_bytes / r->packed->total / cuts >= least_bytes;
}

/* More pieces than usual, as long as they promise it. */
static ccl_status_t refine(run_t *r, bool by_load, uint64_t transfers, last_t *l,
                           ccl_error_t *err) {
    double bytes = r->size_bytes / r->packed->total;
    uint32_t more = l->pieces[0] > 0 ? promising(r, transfers, l) : 0;
    while (more > 0 && bytes / more >= POLICY.cut_bytes) {
        double time_s = 0;
        CCL_TRY(try_cuts(r, by_load, more, &time_s, err));
        *l = (last_t){{l->pieces[1], more}, {l->time_s[1], time_s}};
        more = promising(r, transfers, l);
    }
    return CCL_OK;
}

/* The time of that many pieces or chunks. */
static ccl_status_t time_of(run_t *r, bool by_load, uint32_t cuts, double *time_out,
                            ccl_error_t *err) {
    uint32_t log = 0;
    while (cuts >> log > 1)
        log++;
    double *tried_s = &r->tried_s[r->in_chunks][log];
    if (*tried_s == 0)
        CCL_TRY(try_cuts(r, by_load, cuts, tried_s, err));
    *time_out = *tried_s;
    return CCL_OK;
}

/* Nothing yet is faster than what was made before. */
static bool is_behind(const run_t *r) {
    return r->packed->beat_s > 0 && !(r->race.best.time_s < r->packed->beat_s);
}

/* Trees cut further and further, as long as that is not much worse; of those that are behind, as
   long as it is faster. */
static ccl_status_t climb(run_t *r, bool by_load, bool chunks, uint64_t transfers, double whole_s,
                          ccl_error_t *err) {
    double time_s = 0, best_s = whole_s;
    bool only = r->in_chunks;
    uint32_t most = chunks ? POLICY.cuts : POLICY.pieces, cuts = chunks ? 2 : r->fewest;
    ccl_status_t status = CCL_OK;
    last_t last = {0};
    r->in_chunks = chunks;
    for (; cuts <= most && (!chunks || cuts * transfers <= POLICY.transfers) &&
           large_enough(r, cuts, transfers) && time_s <= (is_behind(r) ? 1 : POLICY.worse) * best_s;
         cuts *= chunks || cuts < 8 || cuts == 64 ? 2 : 4) {
        r->race.most_s = is_behind(r) ? best_s * (1 + POLICY.alike) : 0;
        status = time_of(r, by_load, cuts, &time_s, err);
        if (status != CCL_OK)
            break;
        best_s = fmin(best_s, time_s);
        last = (last_t){{last.pieces[1], cuts}, {last.time_s[1], time_s}};
    }
    if (status == CCL_OK && r->cheap && !chunks && last.pieces[1] == POLICY.pieces)
        status = refine(r, by_load, transfers, &last, err);
    r->in_chunks = only;
    r->race.most_s = 0;
    return status;
}

/*
 * Do chunks take the time of pieces? They do where no trees wait for each other at a connection.
 * Then there is nothing to learn from chunks but a number of pieces that was left out.
 */
static ccl_status_t chunks_as_pieces(run_t *r, bool by_load, uint64_t transfers, bool *out,
                                     ccl_error_t *err) {
    enum { LEFT_OUT = 4 }; /* 16, between 8 and 32 */
    const double *piece_s = r->tried_s[0];
    double chunk_s = 0, bytes = r->size_bytes / r->packed->total;
    uint32_t log = 0, best = 0;
    while (r->fewest >> log > 1)
        log++;
    *out = false;
    if (piece_s[log] == 0 || r->fewest > POLICY.cuts || r->fewest * transfers > POLICY.transfers ||
        bytes / r->fewest < POLICY.cut_bytes)
        return CCL_OK;
    r->in_chunks = true;
    ccl_status_t status = time_of(r, by_load, r->fewest, &chunk_s, err);
    *out = status == CCL_OK && fabs(chunk_s - piece_s[log]) <= POLICY.same * chunk_s;
    for (uint32_t i = 1; i < CCL_ARRAY_LEN(r->tried_s[0]); i++)
        best = piece_s[i] > 0 && (best == 0 || piece_s[i] < piece_s[best]) ? i : best;
    if (*out && piece_s[LEFT_OUT] == 0 && (best == LEFT_OUT - 1 || best == LEFT_OUT + 1) &&
        transfers << LEFT_OUT <= POLICY.transfers && bytes / (1 << LEFT_OUT) >= POLICY.cut_bytes)
        status = time_of(r, by_load, 1 << LEFT_OUT, &chunk_s, err);
    r->in_chunks = false;
    return status;
}

/* That many pieces, as far as it is not much slower than others. @param log  logarithm */
static ccl_status_t try_pieces(run_t *r, uint32_t log, ccl_error_t *err) {
    r->race.most_s = r->race.begun ? POLICY.worse * r->race.best.time_s : 0;
    return try_cuts(r, false, 1u << log, &r->tried_s[r->order][log], err);
}

/* Parts in more and more pieces as long as that is faster, of many much faster; else in fewer and
 * fewer. @param first  logarithm of the pieces to begin with; best_out: of the best */
static ccl_status_t climb_parts(run_t *r, uint64_t transfers, uint32_t first, uint32_t *best_out,
                                ccl_error_t *err) {
    double *tried_s = r->tried_s[r->order];
    uint32_t log = first;
    *best_out = first;
    CCL_TRY(try_pieces(r, log, err));
    if (r->order == BY_RAIL &&
        fabs(tried_s[log] - r->tried_s[BY_RANK][log]) <= POLICY.alike * tried_s[log])
        return CCL_OK; /* no two of a rail share a connection */
    for (double gain = 1; log < POLICY.most && gain > 0 &&
                          (double)(transfers * r->cuts << (log + 1)) <= POLICY.work;) {
        log++;
        CCL_TRY(try_pieces(r, log, err));
        *best_out = tried_s[log] < tried_s[*best_out] ? log : *best_out;
        gain = tried_s[log - 1] - tried_s[log];
        gain -= 1u << log >= POLICY.pieces ? POLICY.promise * tried_s[log] : 0;
    }
    for (log = first; *best_out == log && log > POLICY.least;) {
        log--;
        CCL_TRY(try_pieces(r, log, err));
        *best_out = tried_s[log] < tried_s[log + 1] ? log : *best_out;
    }
    return CCL_OK;
}

/*
 * With the last two pieces halved: of as many as the best, then of fewer as long as that is faster,
 * for what fewer lost was at the end. @param pieces  of the best
 */
static ccl_status_t end_small(run_t *r, uint32_t pieces, ccl_error_t *err) {
    double time_s, best_s = r->race.best.time_s;
    r->small_end = true;
    for (; pieces >= 3; pieces -= pieces / 4) {
        r->race.most_s = best_s;
        CCL_TRY(try_cuts(r, false, pieces, &time_s, err));
        if (!(time_s < best_s))
            break;
        best_s = time_s;
    }
    r->race.most_s = 0;
    return CCL_OK;
}

/*
 * Parts of a root are one to primitives inside servers, and so are all roots of a rail where their
 * chunks lie side by side: that takes fewer primitives and more pieces, for each waits for all of
 * another. Reductions in turn take more primitives and fewer pieces. Then half as many pieces again
 * as the best, or three quarters, on the side of what comes second.
 */
static ccl_status_t pieces_of_parts(run_t *r, uint64_t transfers, ccl_schedule_t **out,
                                    ccl_error_t *err) {
    uint32_t best[NORDERS], order = BY_RANK;
    double time_s;
    ccl_schedule_destroy(r->made);
    r->made = NULL;
    memset(r->tried_s, 0, sizeof r->tried_s);
    for (r->order = BY_RANK; r->order < NORDERS; r->order++) {
        uint32_t first = POLICY.first;
        if (r->order != BY_RANK && best[BY_RANK] < first)
            first = best[BY_RANK];
        first -= r->order == IN_TURN && first > POLICY.least;
        CCL_TRY(climb_parts(r, transfers, first, &best[r->order], err));
        if (r->tried_s[r->order][best[r->order]] < r->tried_s[order][best[order]])
            order = r->order;
    }
    r->order = order;
    uint32_t log = best[order];
    const double *tried_s = r->tried_s[order];
    bool more = tried_s[log + 1] > 0 && tried_s[log + 1] < tried_s[log - 1];
    uint32_t pieces = 1u << log, between = 3u << (more ? log - 1 : log - 2);
    if (tried_s[log - 1] > 0 && log < POLICY.most) {
        CCL_TRY(try_cuts(r, false, between, &time_s, err));
        pieces = time_s < tried_s[log] ? between : pieces;
    }
    r->race.most_s = 0;
    bool alike = r->packed->total == r->cluster->nranks; /* there others may be as fast */
    if (order == IN_TURN && !r->cheap && !alike)
        CCL_TRY(end_small(r, pieces, err));
    return ccl_i_race_take(&r->race, out, err);
}

/*
 * Whole trees with connections for all hops alike and, where blocks do not suffice for all trees,
 * by load; then what is not far behind is cut further and further.
 */
static ccl_status_t choose(run_t *r, double size_bytes, ccl_schedule_t **out, ccl_error_t *err) {
    double whole_s[2] = {INFINITY, INFINITY};
    uint64_t transfers = r->made->ntransfers;
    bool limited = r->limited;
    r->fewest = fewest_pieces(r);
    r->race = (ccl_i_race_t){.ctx = r->ctx,
                             .topo = r->cluster->topo,
                             .routes = r->cluster->routes,
                             .phase = "simulate",
                             .make = make,
                             .in_turn = true, /* edges and channels are for one at a time */
                             .user = r,
                             .level = CCL_GRANULARITY_ALGORITHM,
                             .size_bytes = size_bytes};
    if (r->packed->nparts > 0)
        return pieces_of_parts(r, transfers, out, err);
    CCL_TRY(try_cuts(r, false, 1, &whole_s[0], err));
    if (limited)
        CCL_TRY(try_cuts(r, true, 1, &whole_s[1], err));
    double least_s = r->race.best.time_s;
    double trees_s = size_bytes / ((double)r->packed->total * r->packed->tree_Bps);
    for (int by_load = 0; by_load < 2; by_load++) {
        if (!(whole_s[by_load] <= POLICY.worse * least_s))
            continue;
        if (by_load == 1 && is_behind(r) && !(whole_s[1] < POLICY.gain * whole_s[0]))
            continue;
        memset(r->tried_s, 0, sizeof r->tried_s);
        /* Pieces cost no transfers. Chunks take turns where trees share connections or blocks. */
        if (!r->in_chunks)
            CCL_TRY(climb(r, by_load == 1, false, transfers, whole_s[by_load], err));
        bool more = r->in_chunks || (r->race.best.time_s > POLICY.near * trees_s && !is_behind(r));
        bool alike = false;
        if (more && !r->in_chunks)
            CCL_TRY(chunks_as_pieces(r, by_load == 1, transfers, &alike, err));
        if (more && !alike)
            CCL_TRY(climb(r, by_load == 1, true, transfers, whole_s[by_load], err));
    }
    return ccl_i_race_take(&r->race, out, err);
}

ccl_status_t ccl_i_pack_run(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                            const ccl_i_packed_t *packed, const ccl_synth_options_t *options,
                            ccl_schedule_t **out, double *time_out, ccl_error_t *err) {
    run_t r = {.ctx = ctx,
               .cluster = cluster,
               .want = packed->want,
               .packed = packed,
               .given = options->channels,
               .size_bytes = options->size_bytes,
               .in_chunks = options->plain,
               .cheap = costs_nothing(cluster->topo),
               .try_cuts = 1};
    ccl_status_t status = run_init(&r, err);
    if (status == CCL_OK)
        status = make(&r, 0, NULL, &r.made, err);
    bool open = options->size_bytes > 0 && !options->chunks && !options->part;
    *time_out = INFINITY;
    if (status == CCL_OK && open && 2 * (uint64_t)r.made->ntransfers <= POLICY.transfers) {
        status = choose(&r, options->size_bytes, out, err);
        *time_out = r.race.best.time_s;
    } else if (status == CCL_OK) {
        double least_bytes = packed->total * (r.cheap ? POLICY.cut_bytes : POLICY.piece_bytes);
        while (open && !r.in_chunks && r.try_cuts < (r.cheap ? 2 : 1) * POLICY.pieces &&
               options->size_bytes / r.try_cuts >= 2 * least_bytes)
            r.try_cuts *= 2;
        r.by_load = r.limited;
        if (r.try_cuts > 1) {
            ccl_schedule_destroy(r.made);
            r.made = NULL;
            status = make(&r, 0, NULL, &r.made, err);
        }
        *out = r.made;
        r.made = NULL;
    }
    run_fini(&r);
    return status;
}
