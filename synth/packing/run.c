/*
 * Packed trees as a schedule. A tree over links alone is a pipeline of many micro-batches. With
 * thread blocks micro-batches are few, and a rank at the bottom waits while whole chunks come down
 * the tree at the share of a NIC that one of many flows has: cut chunks come sooner. How far to
 * cut, and whether connections are many for all hops or by load, is simulated.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

/* Cuts make no more transfers than that and no smaller chunks; they end where one takes longer than
 * the best so far by this factor: half as long chunks may be worse, and quarters better. */
enum { MOST_CUT_TRANSFERS = 200000, MOST_CUTS = 32, CUT_BYTES = 8192 };
#define WORSE 1.1

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
} run_t;

static const ccl_i_pack_forest_t *forest(const run_t *r, int up) {
    return up ? r->packed->up : r->packed->down;
}

static ccl_status_t run_init(run_t *r, ccl_error_t *err) {
    uint32_t n = r->cluster->nranks, total = r->packed->total;
    size_t cells = (size_t)total * n + 1;
    r->edges = malloc((2 * cells) * sizeof *r->edges);
    r->root_of = calloc(total + (size_t)1, sizeof *r->root_of);
    bool ok = r->edges && r->root_of;
    for (int up = 0; up < 2; up++) {
        size_t nbatches = forest(r, up)->trees.nbatches;
        r->channel[up] = calloc(cells, sizeof **r->channel);
        r->depth[up] = calloc(nbatches * n + 1, sizeof **r->depth);
        ok = ok && r->channel[up] && r->depth[up];
    }
    if (!ok)
        return ccl_fail_nomem(err);
    for (uint32_t rank = 0, i = 0; rank < n; rank++) {
        for (int64_t t = 0; t < r->packed->roots[rank]; t++)
            r->root_of[i++] = rank;
    }
    return CCL_OK;
}

static void run_fini(run_t *r) {
    for (int up = 0; up < 2; up++) {
        free(r->channel[up]);
        free(r->depth[up]);
    }
    free(r->edges);
    free(r->root_of);
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
        for (uint32_t t = 0; t < f->first[n]; t++) {
            const ccl_i_pack_batch_t *b = &f->trees.batches[f->tree[t]];
            for (uint32_t i = 1; i < n; i++) {
                uint32_t dst = b->order[i], src = b->parent[dst];
                r->edges[count++] = (ccl_i_pack_edge_t){f->reversed ? dst : src,
                                                        f->reversed ? src : dst,
                                                        t,
                                                        up == 1,
                                                        &r->channel[up][(size_t)t * n + dst],
                                                        &r->depth[up][(size_t)f->tree[t] * n + dst],
                                                        0,
                                                        0};
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

static ccl_status_t make(run_t *r, uint32_t given, bool by_load, uint32_t cuts, bool *limited_out,
                         ccl_schedule_t **out, ccl_error_t *err) {
    const ccl_i_packed_t *p = r->packed;
    ccl_i_plan_t plan = {.name = "packing", .parts = p->total * cuts, .tree = tree, .user = r};
    uint32_t channels = 0;
    size_t nedges = all_edges(r);
    CCL_TRY(ccl_i_pack_channels(r->cluster, r->edges, nedges, p->total, p->tree_Bps, given, by_load,
                                &channels, limited_out, err));
    if (p->paced)
        CCL_TRY(ccl_i_pack_pace(r->cluster, r->edges, nedges, p->total, err));
    r->cuts = cuts;
    if (r->want->kind == CCL_ALLGATHER || r->want->kind == CCL_REDUCESCATTER)
        plan.parts /= r->cluster->nranks;
    if (r->want->kind == CCL_ALLREDUCE) {
        plan.root = root_of;
        plan.down_channels = channels;
    }
    return ccl_i_plan_run(r->ctx, r->cluster, r->want, &plan, out, err);
}

/* The fastest so far. */
typedef struct chosen {
    ccl_schedule_t *schedule;
    double time_s;
} chosen_t;

/* Simulate `now` and keep it where it is faster, else free it. */
static ccl_status_t consider(const run_t *r, double size_bytes, ccl_schedule_t *now, chosen_t *best,
                             double *time_out, ccl_error_t *err) {
    ccl_status_t status = ccl_i_time_schedule(r->ctx, r->cluster->topo, r->cluster->routes, now,
                                              size_bytes, CCL_GRANULARITY_ALGORITHM, time_out, err);
    if (status == CCL_OK && (*time_out < best->time_s || !best->schedule)) {
        ccl_schedule_destroy(best->schedule);
        *best = (chosen_t){now, *time_out};
        return CCL_OK;
    }
    ccl_schedule_destroy(now);
    return status;
}

static ccl_status_t try_cuts(run_t *r, const ccl_synth_options_t *options, bool by_load,
                             uint32_t cuts, chosen_t *best, double *time_out, ccl_error_t *err) {
    ccl_schedule_t *now = NULL;
    bool limited;
    CCL_TRY(make(r, options->channels, by_load, cuts, &limited, &now, err));
    CCL_TRY(consider(r, options->size_bytes, now, best, time_out, err));
    ccl_log(r->ctx, CCL_LOG_DEBUG, "packing", "%u chunks a tree, connections %s: %.2f us", cuts,
            by_load ? "by load" : "alike", 1e6 * *time_out);
    return CCL_OK;
}

/*
 * Whole trees with connections for all hops alike and, where blocks do not suffice for all trees,
 * by load; then what is not far behind is cut further and further.
 */
static ccl_status_t choose(run_t *r, const ccl_synth_options_t *options, ccl_schedule_t *plain,
                           bool limited, ccl_schedule_t **out, ccl_error_t *err) {
    double whole_s[2] = {INFINITY, INFINITY};
    uint64_t transfers = plain->ntransfers;
    chosen_t best = {NULL, INFINITY};
    ccl_status_t status = consider(r, options->size_bytes, plain, &best, &whole_s[0], err);
    if (status == CCL_OK && limited)
        status = try_cuts(r, options, true, 1, &best, &whole_s[1], err);
    double least_s = best.time_s;
    for (int by_load = 0; status == CCL_OK && by_load < 2; by_load++) {
        double bytes = options->size_bytes / r->packed->total, time_s = 0;
        if (!(whole_s[by_load] <= WORSE * least_s))
            continue;
        for (uint32_t cuts = 2;
             cuts <= MOST_CUTS && cuts * transfers <= MOST_CUT_TRANSFERS &&
             bytes / cuts >= CUT_BYTES && time_s <= WORSE * best.time_s && status == CCL_OK;
             cuts *= 2)
            status = try_cuts(r, options, by_load == 1, cuts, &best, &time_s, err);
    }
    if (status != CCL_OK)
        ccl_schedule_destroy(best.schedule);
    else
        *out = best.schedule;
    return status;
}

ccl_status_t ccl_i_pack_run(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                            const ccl_collective_t *want, const ccl_i_packed_t *packed,
                            const ccl_synth_options_t *options, ccl_schedule_t **out,
                            ccl_error_t *err) {
    const ccl_topology_t *topo = cluster->topo;
    run_t r = {.ctx = ctx, .cluster = cluster, .want = want, .packed = packed};
    ccl_schedule_t *plain = NULL;
    bool limited = false;
    ccl_status_t status = run_init(&r, err);
    if (status == CCL_OK)
        status = make(&r, options->channels, false, 1, &limited, &plain, err);
    bool open = options->size_bytes > 0 && !options->chunks && !options->part &&
                (topo->ntransports > 0 || topo->ngpu_models > 0);
    if (status == CCL_OK && open && 2 * (uint64_t)plain->ntransfers <= MOST_CUT_TRANSFERS)
        status = choose(&r, options, plain, limited, out, err);
    else if (status == CCL_OK)
        *out = plain;
    run_fini(&r);
    return status;
}
