/*
 * packing: spanning trees packed into the links, as many as the tightest cut allows (ForestColl,
 * Zhao et al., arXiv 2402.06787). Every shard is cut into equal chunks, each of which spreads along
 * a tree of its own; the trees together use every link no more than its bandwidth. Reductions are
 * trees time-reversed; AllReduce has as much rooted at each GPU as cuts allow.
 */
#include "synth/packing/packing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/registry.h"
#include "synth/switch/through.h"

enum { MOST_PARTS = 64, MOST_RANKS = 1024 };
/* Up to this size the other protocols count. */
#define SMALL_BYTES 0x1p26
/* From this size on trees from one root are shared out among connections; up to UNSURE_BYTES it is
 * simulated whether that is faster, and up to SMALL_BYTES where two share. */
#define SHARED_BYTES 0x1p20
#define UNSURE_BYTES 0x1p24
/* From this size on, and where trees take this many times what they need of links, an AllReduce is
 * tried along one tree of each root as well. */
#define FEWEST_BYTES 0x1p24
#define FEWEST_GAP 1.05
/* More GPUs than this are packed by local search alone, more than a few where that comes within
 * CCL_I_PACK_BEYOND of the bound. */
enum { FEW_RANKS = 24, MOST_FLOW_RANKS = 128 };

/* Where slower schedules than another's are of no use, on more GPUs than QUICK_RANKS low trees are
 * all for messages of less than QUICK_BYTES: a search takes many seconds, and latency decides. */
#define QUICK_BYTES 0x1p25
enum { QUICK_RANKS = 32 };

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    switch (want->kind) {
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
    case CCL_ALLREDUCE:
    case CCL_BROADCAST:
    case CCL_REDUCE:
        break;
    default:
        *why = "no data are shared by several GPUs, so trees gain nothing; use direct or pxn";
        return false;
    }
    if (topo->nranks < 2) {
        *why = "there is one GPU, and nothing to pack; use direct";
        return false;
    }
    if (topo->nranks > MOST_RANKS) {
        *why = "more than 1024 GPUs take too long; use hm or hpds";
        return false;
    }
    return true;
}

typedef ccl_i_pack_forest_t forest_t;
typedef ccl_i_packing_t packing_t;

ccl_status_t ccl_i_pack_forest_init(const packing_t *p, bool up, forest_t *out, ccl_error_t *err) {
    size_t total = (size_t)p->total;
    out->reversed = up;
    ccl_arena_init(&out->trees.arena);
    out->trees.nbatches = total;
    out->trees.batches = ccl_arena_alloc(&out->trees.arena, total + 1, sizeof *out->trees.batches);
    out->channel = calloc(total * p->n + 1, sizeof *out->channel);
    return out->trees.batches && out->channel ? CCL_OK : ccl_fail_nomem(err);
}

void ccl_i_pack_forest_fini(forest_t *f) {
    free(f->net.pieces);
    ccl_i_pack_trees_fini(&f->trees);
    free(f->first);
    free(f->tree);
    free(f->channel);
    free(f->depth);
    memset(f, 0, sizeof *f);
}

static void set_units(packing_t *p, double seconds) {
    for (uint32_t a = 0; a < p->c->narcs; a++) {
        double trees = floor(seconds * (double)p->c->arcs[a].units * (1 + 1e-12) + 1e-9);
        p->units[a] = trees < (double)p->total ? (int64_t)trees : p->total;
    }
}

/* Do cuts allow the trees with links that carry what they can in `seconds`? */
static bool enough(packing_t *p, ccl_maxflow_t *flow, double seconds) {
    set_units(p, seconds);
    for (uint32_t a = 0; a < p->c->narcs; a++)
        ccl_maxflow_capacity(flow, a, p->units[a]);
    for (uint32_t r = 0; r < p->n; r++)
        ccl_maxflow_capacity(flow, p->c->narcs + r, p->roots[r]);
    return ccl_i_pack_feasible(flow, p->c->nvertices, p->c->topo->rank_device, p->n, p->total,
                               NULL);
}

/* Fewest seconds for the roots as they are, both ways where both are needed. */
static double search(packing_t *p, ccl_maxflow_t *const flows[2], double least) {
    double narrow = INFINITY, low = least, high;
    for (uint32_t a = 0; a < p->c->narcs; a++)
        narrow = fmin(narrow, (double)p->c->arcs[a].units);
    high = least + 1 / narrow;
    for (int round = 0; round < 40 && high > low * (1 + 1e-9); round++) {
        double middle = round == 0 ? low : (low + high) / 2;
        bool ok = true;
        for (int k = 0; k < 2 && ok; k++)
            ok = !flows[k] || enough(p, flows[k], middle);
        if (ok)
            high = middle;
        else
            low = middle;
        if (ok && round == 0)
            return least;
    }
    return high;
}

/* ---------------------------------------------------------------- how much is rooted where */

/* What may be lost to whole chunks: the more, the more transfers there are. */
double ccl_i_pack_allowed(const packing_t *p) {
    double many = (double)p->total * (p->n - 1) / CCL_I_PACK_MANY_TRANSFERS;
    return 1e-9 + fmin(CCL_I_PACK_PRICE, CCL_I_PACK_PRICE * many * many);
}

/* Trees at each rank for `parts` of the average one. */
void ccl_i_pack_set_roots(packing_t *p, uint32_t parts) {
    double sum = 0, some = 0;
    p->total = 0;
    for (uint32_t r = 0; r < p->n; r++) {
        sum += p->weight[r];
        some += p->weight[r] > 0;
    }
    for (uint32_t r = 0; r < p->n; r++) {
        p->roots[r] = (int64_t)llround(p->weight[r] / sum * some * parts);
        p->total += p->roots[r];
    }
}

/*
 * Number of trees: exact where that takes few, else the fewest within the price. With equal roots
 * the bound p / q seconds per block gives the exact one: q over what it shares with all links.
 */
static ccl_status_t choose(packing_t *p, uint32_t given, ccl_error_t *err) {
    ccl_maxflow_t *flows[2] = {p->has_down ? ccl_i_pack_network(p, false) : NULL,
                               p->has_up ? ccl_i_pack_network(p, true) : NULL};
    double some = 0, sum = 0, most = 0, best = INFINITY;
    uint32_t best_parts = 1;
    ccl_status_t status = CCL_OK;
    if ((p->has_down && !flows[0]) || (p->has_up && !flows[1])) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < p->n; r++) {
        sum += p->weight[r];
        some += p->weight[r] > 0;
        most = fmax(most, p->weight[r]);
    }
    /* Seconds per tree with average weights, if trees were as fine as one likes. */
    uint32_t *parts = calloc(p->n, sizeof *parts);
    if (!parts) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    double fine = 0;
    for (uint32_t r = 0; r < p->n; r++)
        parts[r] = (uint32_t)llround(p->weight[r] / most * (1 << 12));
    for (int k = 0; k < 2 && status == CCL_OK; k++) {
        double seconds = 0;
        if (flows[k])
            status = ccl_i_pack_bound_of(p, parts, k == 1, &seconds, err);
        fine = fmax(fine, seconds / (1 << 12) * most * some / sum);
    }
    free(parts);
    if (status != CCL_OK)
        goto end;
    for (uint32_t k = given ? given : 1; k <= (given ? given : MOST_PARTS); k++) {
        CCL_TRY_GOTO(ccl_ctx_poll(p->ctx, NULL), status, end);
        ccl_i_pack_set_roots(p, k);
        if (p->total == 0)
            continue;
        double average = (double)p->total / some;
        double seconds = search(p, flows, fine * average * (1 - 1e-12)), price;
        price = seconds / (fine * average);
        if (price < best * (1 - 1e-9)) {
            best = price;
            best_parts = k;
        }
        double many = (double)p->total * (p->n - 1) / CCL_I_PACK_MANY_TRANSFERS;
        if (best <= 1 + ccl_i_pack_allowed(p) || (many > 2 && best < 1.05))
            break;
    }
    ccl_i_pack_set_roots(p, best_parts);
    p->bound = fine * (double)p->total / some;
    p->seconds = search(p, flows, p->bound * (1 - 1e-12));
end:
    ccl_maxflow_destroy(flows[0]);
    ccl_maxflow_destroy(flows[1]);
    return status;
}

/* ---------------------------------------------------------------- trees to chunks */

ccl_status_t ccl_i_pack_index_trees(packing_t *p, forest_t *f, ccl_error_t *err) {
    uint32_t n = p->n;
    size_t nb = f->trees.nbatches, at = 0;
    f->first = calloc(n + (size_t)1, sizeof *f->first);
    f->tree = calloc((size_t)p->total + 1, sizeof *f->tree);
    f->depth = calloc(nb * n + 1, sizeof *f->depth);
    if (!f->first || !f->tree || !f->depth)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < n; r++) {
        f->first[r] = (uint32_t)at;
        for (size_t b = 0; b < nb; b++) {
            for (int64_t t = 0; f->trees.batches[b].root == r && t < f->trees.batches[b].trees; t++)
                f->tree[at++] = (uint32_t)b;
        }
    }
    f->first[n] = (uint32_t)at;
    for (size_t b = 0; b < nb; b++) {
        const ccl_i_pack_batch_t *batch = &f->trees.batches[b];
        for (uint32_t i = 1; i < n; i++)
            f->depth[b * n + batch->order[i]] =
                f->depth[b * n + batch->parent[batch->order[i]]] + 1;
    }
    return CCL_OK;
}

/* Each tree's edges take what is left of their pair's pieces. */
static ccl_status_t take_pieces(packing_t *p, forest_t *f, ccl_error_t *err) {
    uint32_t n = p->n;
    size_t at = f->first[n];
    f->channel = calloc(at * n + 1, sizeof *f->channel);
    if (!f->channel)
        return ccl_fail_nomem(err);
    for (size_t t = 0; t < at; t++) {
        const ccl_i_pack_batch_t *batch = &f->trees.batches[f->tree[t]];
        for (uint32_t i = 1; i < n; i++) {
            uint32_t dst = batch->order[i], src = batch->parent[dst];
            size_t low = 0, high = f->net.npieces;
            while (low < high) {
                size_t middle = (low + high) / 2;
                const ccl_i_pack_piece_t *x = &f->net.pieces[middle];
                if (x->src < src || (x->src == src && x->dst < dst))
                    low = middle + 1;
                else
                    high = middle;
            }
            while (low < f->net.npieces && f->net.pieces[low].src == src &&
                   f->net.pieces[low].dst == dst && f->net.pieces[low].trees == 0)
                low++;
            if (low == f->net.npieces || f->net.pieces[low].src != src ||
                f->net.pieces[low].dst != dst)
                return ccl_fail(err, CCL_ERR_INTERNAL,
                                "packing: trees use ranks %u to %u beyond what they carry", src,
                                dst);
            f->net.pieces[low].trees--;
            f->channel[t * n + dst] = (uint16_t)f->net.pieces[low].channel;
        }
    }
    return CCL_OK;
}

double ccl_i_pack_seconds(const packing_t *p) {
    return p->seconds / p->c->unit_Bps / (double)p->total * (p->has_up && p->has_down ? 2 : 1);
}

/* What was found by another way in place of what `p` has. */
static void replace(packing_t *p, packing_t *by) {
    packing_t old = *p;
    *p = *by;
    *by = old;
    ccl_i_pack_forest_fini(&by->down);
    ccl_i_pack_forest_fini(&by->up);
    free(by->roots);
    by->roots = NULL;
}

ccl_status_t ccl_i_pack_start(const packing_t *p, packing_t *out, ccl_error_t *err) {
    *out = *p;
    memset(&out->down, 0, sizeof out->down);
    memset(&out->up, 0, sizeof out->up);
    out->few_connections = out->by_flows = false;
    out->roots = calloc(p->n, sizeof *out->roots);
    return out->roots ? CCL_OK : ccl_fail_nomem(err);
}

/*
 * Where links lose by sharing: connections may be slow enough to share them, or few be needed.
 */
static ccl_status_t pack_contended(packing_t *p, double bound_s, uint32_t given,
                                   double *busiest_out, double *least_out, ccl_error_t *err) {
    packing_t few;
    double few_s = INFINITY, least_s = 0;
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status = ccl_i_pack_by_swaps(p, bound_s, given, busiest_out, least_out, err);
    if (status != CCL_OK || *busiest_out <= fmax(bound_s, *least_out) * (1 + CCL_I_PACK_PRICE))
        return status;
    CCL_TRY(ccl_i_pack_start(p, &few, err));
    status = ccl_i_pack_few_connections(&few, bound_s, given, &few_s, &least_s, &why);
    if (status == CCL_OK && few_s < *busiest_out * (1 - CCL_I_PACK_PRICE)) {
        replace(p, &few);
        *busiest_out = few_s;
        *least_out = least_s;
    }
    ccl_i_pack_forest_fini(&few.down);
    ccl_i_pack_forest_fini(&few.up);
    free(few.roots);
    if (status == CCL_INFEASIBLE)
        return CCL_OK;
    if (status != CCL_OK && err)
        *err = why;
    return status;
}

/* Switches taken out and trees grown by flows, for links that carry p->seconds. */
static ccl_status_t pack_by_flows(packing_t *p, ccl_error_t *err) {
    forest_t *forests[2] = {p->has_down ? &p->down : NULL, p->has_up ? &p->up : NULL};
    ccl_status_t status = CCL_OK;
    for (int k = 0; k < 2 && status == CCL_OK; k++) {
        forest_t *f = forests[k];
        if (!f)
            continue;
        f->reversed = k == 1;
        set_units(p, p->seconds);
        status = ccl_i_pack_split(p, f->reversed, &f->net, err);
        if (status == CCL_OK)
            status = ccl_i_pack_grow(p->ctx, &f->net, p->roots, &f->trees, err);
        if (status == CCL_OK)
            status = ccl_i_pack_index_trees(p, f, err);
        if (status == CCL_OK)
            status = take_pieces(p, f, err);
    }
    if (status != CCL_OK) {
        ccl_i_pack_forest_fini(&p->down);
        ccl_i_pack_forest_fini(&p->up);
    }
    return status;
}

/*
 * By local search, which needs fewest trees; where that does not come near the bound by flows,
 * which are exact where the model's routes allow it. What loads the busiest link least is taken.
 * From one root and without switches nothing is split, so flows are quick whatever the number of
 * GPUs; but their trees are deep, so local search comes first there, too.
 */
ccl_status_t ccl_i_pack_anywhere(packing_t *p, uint32_t given, ccl_error_t *err) {
    double bound_s = 0, least_s = 0, have_s = INFINITY;
    ccl_error_t why = CCL_ERROR_INIT;
    bool rooted = p->want->kind == CCL_BROADCAST || p->want->kind == CCL_REDUCE, contended = false;
    bool direct = p->c->nvertices == p->n;
    CCL_TRY(ccl_i_pack_bound_seconds(p, &bound_s, err));
    for (uint32_t l = 0; l < p->c->topo->nlinks && p->n <= MOST_FLOW_RANKS; l++)
        contended = contended || ccl_i_pack_loses(p->c->topo, l);
    ccl_status_t status = (contended ? pack_contended : ccl_i_pack_by_swaps)(
        p, bound_s, given, &have_s, &least_s, &why);
    if (status != CCL_OK && status != CCL_INFEASIBLE)
        goto end;
    if (have_s <= fmax(bound_s, least_s) *
                      (1 + (p->n > FEW_RANKS ? CCL_I_PACK_BEYOND : ccl_i_pack_allowed(p))) ||
        (p->n > MOST_FLOW_RANKS && !(rooted && direct)) || (contended && have_s < INFINITY))
        goto end;
    packing_t flows;
    CCL_TRY(ccl_i_pack_start(p, &flows, err));
    status = choose(&flows, given, err);
    if (status == CCL_OK && ccl_i_pack_seconds(&flows) < have_s * (1 - CCL_I_PACK_PRICE / 10))
        status = pack_by_flows(&flows, &why);
    if (status == CCL_OK && (flows.down.first || flows.up.first)) {
        flows.by_flows = true;
        replace(p, &flows);
    }
    free(flows.roots);
    if (status == CCL_INFEASIBLE && have_s < INFINITY)
        status = CCL_OK;
end:
    if (status != CCL_OK && err && why.status != CCL_OK)
        *err = why;
    return status;
}

ccl_status_t ccl_i_pack_schedule(packing_t *p, bool low, const ccl_synth_options_t *options,
                                 ccl_schedule_t **out, double *time_out, ccl_error_t *err) {
    ccl_i_packed_t packed = {.want = p->want,
                             .total = (uint32_t)p->total,
                             .roots = p->roots,
                             .down = &p->down,
                             .up = &p->up,
                             .tree_Bps = 1 / (ccl_i_pack_seconds(p) * (double)p->total),
                             .sums_early = low,
                             .lane = p->lane,
                             .nlanes = p->nlanes,
                             .nparts = p->nparts,
                             .beat_s = p->beat_s,
                             .paced = p->few_connections,
                             .how = p->nparts            ? "along rails in parts"
                                    : p->lane            ? "of servers alike, along rails"
                                    : low                ? "along rails"
                                    : p->by_flows        ? "by flows"
                                    : p->few_connections ? "by swaps over few connections"
                                                         : "by swaps"};
    ccl_log(p->ctx, CCL_LOG_INFO, "packing",
            "%lld trees, %.3f %% slower than the bound on trees: %s", (long long)p->total,
            100 * (p->seconds / p->bound - 1),
            p->seconds > p->bound * (1 + 1e-9) ? "whole chunks and routes" : "exact");
    CCL_TRY(ccl_i_pack_run(p->ctx, p->cluster, &packed, options, out, time_out, err));
    if (options->in_switch_bytes > 0) {
        const ccl_i_asked_t asked = {
            .ctx = p->ctx, .topo = p->c->topo, .routes = p->cluster->routes};
        return ccl_i_through_look(&asked, *out, options->in_switch_bytes,
                                  p->beat_s > 0 ? p->beat_s : INFINITY, time_out, err);
    }
    if (isinf(*time_out) && p->beat_s > 0) { /* too large for a race: one run says who is faster */
        ccl_i_timing_t timing = {.size_bytes = options->size_bytes,
                                 .way.granularity = CCL_GRANULARITY_ALGORITHM,
                                 .give_up_s = p->beat_s};
        CCL_TRY(ccl_i_time_schedule(p->ctx, p->c->topo, p->cluster->routes, *out, &timing, err));
        *time_out = timing.time_s;
    } else if (isinf(*time_out))
        *time_out = ccl_i_pack_seconds(p) * options->size_bytes;
    else if (options->size_bytes <= SMALL_BYTES) {
        ccl_i_timing_t timing = {.size_bytes = options->size_bytes,
                                 .way.granularity = CCL_GRANULARITY_ALGORITHM};
        CCL_TRY(ccl_i_time_protocols(p->ctx, p->c->topo, p->cluster->routes, *out, &timing, err));
        *time_out = timing.time_s;
    }
    return CCL_OK;
}

/*
 * From one root few trees reach the bound, and each of them asks for more than a connection moves:
 * then several go the same way.
 */
static ccl_status_t run_shared(packing_t *p, const ccl_synth_options_t *options,
                               ccl_schedule_t **out, double *time_out, ccl_error_t *err) {
    ccl_schedule_t *shared = NULL;
    double shared_s = INFINITY, bytes = options->size_bytes;
    uint32_t times = 1;
    bool rooted = p->want->kind == CCL_BROADCAST || p->want->kind == CCL_REDUCE;
    *time_out = INFINITY;
    if (rooted && !options->chunks && !options->part && bytes >= SHARED_BYTES)
        CCL_TRY(ccl_i_pack_shares(p, 1 / (ccl_i_pack_seconds(p) * (double)p->total), &times, err));
    if (times < 2 || bytes <= UNSURE_BYTES || (times == 2 && bytes <= SMALL_BYTES))
        CCL_TRY(ccl_i_pack_schedule(p, false, options, out, time_out, err));
    if (times < 2)
        return CCL_OK;
    ccl_status_t status = ccl_i_pack_share(p, times, err);
    if (status == CCL_OK)
        status = ccl_i_pack_schedule(p, false, options, &shared, &shared_s, err);
    bool better = status == CCL_OK && (!*out || shared_s < *time_out);
    ccl_schedule_destroy(better || status != CCL_OK ? *out : shared);
    if (better || status != CCL_OK)
        *out = shared;
    *time_out = fmin(*time_out, shared_s);
    return status;
}

/*
 * An AllReduce along one tree of each root: they may load links more, but take the fewest
 * primitives, so more pieces. Where the trees that there are leave that to gain, and pieces cost.
 * Not over servers of several GPUs, where rails are the better base of what goes through switches.
 */
static ccl_status_t run_fewest(packing_t *p, const ccl_synth_options_t *options,
                               ccl_schedule_t **out, double *time_s, ccl_error_t *err) {
    packing_t few;
    ccl_schedule_t *made = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    double bound_s = 0, busiest_s = 0, least_s = 0, made_s = INFINITY;
    if (p->want->kind != CCL_ALLREDUCE || p->c->topo->ntransports == 0 || p->total <= p->n ||
        !(options->size_bytes >= FEWEST_BYTES) || options->chunks || options->part ||
        (p->cluster->nservers > 1 && p->cluster->nservers < p->n) ||
        *time_s <= FEWEST_GAP * ccl_i_pack_seconds(p) * options->size_bytes)
        return CCL_OK;
    CCL_TRY(ccl_i_pack_bound_seconds(p, &bound_s, err));
    CCL_TRY(ccl_i_pack_start(p, &few, err));
    few.beat_s = *time_s;
    ccl_status_t status = ccl_i_pack_by_swaps(&few, bound_s, 1, &busiest_s, &least_s, &why);
    if (status == CCL_OK && busiest_s * options->size_bytes < *time_s)
        status = ccl_i_pack_schedule(&few, false, options, &made, &made_s, &why);
    bool better = status == CCL_OK && made_s < *time_s;
    ccl_schedule_destroy(better ? *out : made);
    if (better) {
        *out = made;
        *time_s = made_s;
    }
    ccl_i_pack_forest_fini(&few.down);
    ccl_i_pack_forest_fini(&few.up);
    free(few.roots);
    if (status != CCL_OK && status != CCL_INFEASIBLE && err)
        *err = why;
    return status == CCL_INFEASIBLE ? CCL_OK : status;
}

/* Over any hops. @param time_s  and in less than this, or nothing is put out. */
static ccl_status_t run_anywhere(packing_t *p, const ccl_synth_options_t *options, double time_s,
                                 ccl_schedule_t **out, ccl_error_t *err) {
    ccl_schedule_t *made = NULL;
    double made_s = INFINITY;
    if (p->want->kind == CCL_ALLREDUCE)
        CCL_TRY(ccl_i_pack_fill_weights(p, err));
    CCL_TRY(ccl_i_pack_anywhere(p, options->chunks, err));
    CCL_TRY(run_shared(p, options, &made, &made_s, err));
    ccl_status_t status = run_fewest(p, options, &made, &made_s, err);
    if (status != CCL_OK) {
        ccl_schedule_destroy(made);
        return status;
    }
    if (*out && !(made_s < time_s)) {
        ccl_schedule_destroy(made);
        return CCL_OK;
    }
    ccl_schedule_destroy(*out);
    *out = made;
    return CCL_OK;
}

/* Along rails first: low trees over few connections; others where these leave something to gain.
   Where parts of shards load links evenly that is too little for deeper trees. */
static ccl_status_t run_best(packing_t *p, const ccl_synth_options_t *options, ccl_schedule_t **out,
                             ccl_error_t *err) {
    ccl_schedule_t *made = NULL;
    double time_s = INFINITY;
    bool enough = false, contended = false;
    ccl_status_t status = CCL_OK;
    bool rooted = p->want->kind == CCL_BROADCAST || p->want->kind == CCL_REDUCE;
    bool quick = options->hope_s > 0 && p->n > QUICK_RANKS && options->size_bytes < QUICK_BYTES;
    for (uint32_t l = 0; l < p->c->topo->nlinks; l++)
        contended = contended || ccl_i_pack_loses(p->c->topo, l);
    if (!rooted && !contended && p->cluster->nservers > 1 && options->size_bytes > 0 &&
        (!options->chunks || options->in_switch_bytes > 0) && !options->part)
        status = ccl_i_pack_along_rails(p, options, &made, &time_s, &enough, err);
    if (options->in_switch_bytes > 0 && time_s < INFINITY)
        p->beat_s = time_s;
    if (status == CCL_OK && (!made || (!enough && !p->level && !quick)))
        status = run_anywhere(p, options, time_s, &made, err);
    if (status == CCL_OK)
        *out = made;
    else
        ccl_schedule_destroy(made);
    return status;
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    ccl_capacity_t *c = NULL;
    packing_t p = {.ctx = ctx, .want = want, .n = topo->nranks};
    ccl_status_t status;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    p.cluster = &cluster;
    CCL_TRY_GOTO(ccl_capacity_create(topo, &c, err), status, end);
    p.c = c;
    p.has_up =
        want->kind == CCL_REDUCESCATTER || want->kind == CCL_REDUCE || want->kind == CCL_ALLREDUCE;
    p.has_down = !p.has_up || want->kind == CCL_ALLREDUCE;
    p.weight = calloc(p.n, sizeof *p.weight);
    p.roots = calloc(p.n, sizeof *p.roots);
    p.units = calloc(c->narcs + (size_t)1, sizeof *p.units);
    if (!p.weight || !p.roots || !p.units) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < p.n; r++)
        p.weight[r] = want->kind == CCL_BROADCAST || want->kind == CCL_REDUCE ? r == want->root : 1;
    status = run_best(&p, options, out, err);
end:
    ccl_i_pack_forest_fini(&p.up);
    ccl_i_pack_forest_fini(&p.down);
    free(p.weight);
    free(p.roots);
    free(p.units);
    ccl_capacity_destroy(c);
    ccl_i_cluster_fini(&cluster);
    return status;
}

const ccl_synth_ops_t ccl_i_synth_packing = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "packing",
    .summary = "spanning trees packed into the links, as many as the tightest cut allows",
    .source = "ForestColl (Zhao et al., arXiv 2402.06787); Edmonds 1973",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .through_switches = true,
    .staggers = true,
};
