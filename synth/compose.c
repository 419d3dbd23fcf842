/*
 * Hierarchical composition (HeteCCL, NSDI 2026, section 7): schedules of one pod and of one rail
 * make the schedule of the whole. Times of moves only order them: along rails 0 to 1 as the rail's
 * steps go, inside pods a pod's share of that behind whatever brought the chunk.
 */
#include "synth/compose.h"
#include "synth/plan.h"
#include "synth/registry.h"
#include "synth/spread.h"
#include "synth/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts of a block, while they make no more transfers than this. */
static const uint32_t parts_tried[] = {16, 8, 4, 2};
#define MOST_TRANSFERS 1.2e6
/* Rails are to have this much less to do than pods: what comes in must still be passed on. */
#define RAIL_SLACK 1.12
/* Thread blocks for moves inside pods and between them; the rest copies. */
#define POD_SMS 0.7
#define RAIL_SMS 0.25

/** One hop of a chunk in a part's schedule; 0 <= at < until <= 1. */
typedef struct hop {
    uint32_t src, dst;
    uint16_t channel;
    double at, until;
} hop_t;

/** A part's schedule by chunk, parents first. */
typedef struct trees {
    uint32_t parts;  /* chunks of a block */
    uint32_t stride; /* from one part that was asked for to the next: slices are alike */
    uint32_t *first;
    hop_t *hops;
    uint32_t nchunks;
} trees_t;

typedef struct composer {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const ccl_collective_t *want;
    const ccl_synth_options_t *options;
    ccl_i_inner_fn inner;
    void *user;
    double size_bytes;
    ccl_i_pods_t pods;
    ccl_topology_t *pod, *rail;
    double inside_s;       /* what links inside pods take at least */
    uint32_t parts, heads; /* of a block; rails that all its parts go over, summed */
    trees_t in_pod, on_rail, from_root, root_rail;
    ccl_i_move_t *moves;
    size_t nmoves, cap;
    double *arrived; /* [size] at the GPUs of the pod in hand; INFINITY: not */
    double *at_head; /* [npods][size] */
} composer_t;

static void trees_fini(trees_t *t) {
    free(t->first);
    free(t->hops);
    memset(t, 0, sizeof *t);
}

/* By chunk; turned schedules backward. A rank that is reached twice is so once. */
static ccl_status_t trees_init(trees_t *t, const ccl_schedule_t *s, bool turned, uint32_t parts,
                               ccl_error_t *err) {
    uint32_t nk = s->coll->nchunks, n = s->coll->nranks, nt = s->ntransfers;
    uint64_t *reached = calloc((size_t)nk * n / 64 + 1, sizeof *reached);
    t->first = calloc(nk + (size_t)2, sizeof *t->first);
    t->hops = calloc(nt + (size_t)1, sizeof *t->hops);
    t->parts = parts;
    t->nchunks = nk;
    if (!reached || !t->first || !t->hops) {
        free(reached);
        return ccl_fail_nomem(err);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < nt; i++) {
            const ccl_transfer_t *x = &s->transfers[turned ? nt - 1 - i : i];
            double step = turned ? s->nsteps - 1 - x->step : x->step;
            hop_t hop = {turned ? x->dst : x->src, turned ? x->src : x->dst, x->channel,
                         step / s->nsteps, (step + 1) / s->nsteps};
            size_t bit = (size_t)x->chunk * n + hop.dst;
            if (pass == 0) {
                t->first[x->chunk + 2] += !(reached[bit / 64] >> (bit % 64) & 1);
                reached[bit / 64] |= (uint64_t)1 << (bit % 64);
            } else if (reached[bit / 64] >> (bit % 64) & 1) {
                t->hops[t->first[x->chunk + 1]++] = hop;
                reached[bit / 64] &= ~((uint64_t)1 << (bit % 64));
            }
        }
        for (uint32_t k = 0; pass == 0 && k < nk; k++)
            t->first[k + 2] += t->first[k + 1];
    }
    free(reached);
    return CCL_OK;
}

/* Of a block's trees the one for a part. */
static uint32_t tree_of(const trees_t *t, uint32_t part) {
    return (uint32_t)((uint64_t)part * t->stride % t->parts);
}

/* ---------------------------------------------------------------- parts solved */

/* The inner synthesizer on a part; on rails, where everybody gets everything, the ring beside it.
 */
static ccl_status_t solve(composer_t *c, const ccl_topology_t *topo, ccl_collective_kind_t kind,
                          uint32_t root, uint32_t parts, double size_bytes, bool with_ring,
                          trees_t *out, ccl_error_t *err) {
    bool turned = kind == CCL_REDUCESCATTER || kind == CCL_REDUCE;
    uint32_t n = topo->nranks;
    ccl_synth_options_t options = *c->options;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL, *ring = NULL;
    ccl_routes_t *routes = ccl_routes_create(topo);
    const char *why = NULL;
    ccl_status_t status = routes ? CCL_OK : ccl_fail_nomem(err);
    options.chunks = parts;
    options.part = true;
    options.size_bytes = size_bytes;
    options.time_limit_s /= 4;
    if (status == CCL_OK)
        status = ccl_collective_create(kind, n, 1, root, &want, err);
    if (status == CCL_OK)
        status = c->inner(c->ctx, topo, routes, want, &options, &schedule, err, c->user);
    if (status == CCL_OK && with_ring && ccl_i_synth_ring.supports(topo, want, &why)) {
        double time_s = INFINITY, ring_s = INFINITY;
        options.channels = 1;
        status = ccl_i_synth_ring.synthesize(c->ctx, topo, routes, want, &options, &ring, err);
        if (status == CCL_OK)
            status = ccl_i_time_schedule(c->ctx, topo, NULL, schedule, size_bytes, &time_s, err);
        if (status == CCL_OK)
            status = ccl_i_time_schedule(c->ctx, topo, NULL, ring, size_bytes, &ring_s, err);
        /* A ring's chunks come in one after the other, so pods have work from the start; where all
           come at once, the first is there when a part of the time is over. */
        if (ring_s <= fmax(time_s * (1 + 1.0 / parts), c->inside_s)) {
            ccl_schedule_destroy(schedule);
            schedule = ring;
            ring = NULL;
        }
    }
    if (status == CCL_OK) {
        uint32_t blocks = want->nchunks;
        uint32_t made = schedule->coll->nchunks / blocks;
        out->stride = made % parts == 0 ? made / parts : 1;
        status = trees_init(out, schedule, turned, made, err);
    }
    ccl_schedule_destroy(schedule);
    ccl_schedule_destroy(ring);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    return status;
}

/* ---------------------------------------------------------------- putting together */

static ccl_status_t add_move(composer_t *c, uint32_t src, uint32_t dst, uint32_t chunk,
                             uint16_t channel, double start, double arrive, ccl_error_t *err) {
    if (!ccl_grow(&c->moves, &c->cap, c->nmoves + 1, sizeof *c->moves))
        return ccl_fail_nomem(err);
    c->moves[c->nmoves++] = (ccl_i_move_t){src, dst, chunk, channel, start, arrive};
    return CCL_OK;
}

static uint32_t rank_of(const composer_t *c, uint32_t pod, uint32_t place) {
    return c->pods.ranks[(size_t)pod * c->pods.size + place];
}

/* A pod's tree `tree` in pod p behind what has arrived; who has the chunk already is left out. */
static ccl_status_t spread_in_pod(composer_t *c, const trees_t *t, uint32_t tree, uint32_t p,
                                  uint32_t chunk, double from, double share, ccl_error_t *err) {
    for (uint32_t i = t->first[tree]; i < t->first[tree + 1]; i++) {
        const hop_t *h = &t->hops[i];
        if (c->arrived[h->dst] < INFINITY)
            continue;
        double start = fmax(c->arrived[h->src], from + h->at * share);
        double arrive = start + (h->until - h->at) * share;
        c->arrived[h->dst] = arrive;
        CCL_TRY(add_move(c, rank_of(c, p, h->src), rank_of(c, p, h->dst), chunk, h->channel, start,
                         arrive, err));
    }
    return CCL_OK;
}

static void clear_arrivals(composer_t *c) {
    for (uint32_t i = 0; i < c->pods.size; i++)
        c->arrived[i] = INFINITY;
}

/* Along the rail of `place` from its GPU in `pod`, where the chunk is at `from`. */
static ccl_status_t spread_on_rail(composer_t *c, const trees_t *t, uint32_t tree, uint32_t pod,
                                   uint32_t place, uint32_t chunk, double from, ccl_error_t *err) {
    c->at_head[(size_t)pod * c->pods.size + place] = from;
    for (uint32_t i = t->first[tree]; i < t->first[tree + 1]; i++) {
        const hop_t *h = &t->hops[i];
        double *here = &c->at_head[(size_t)h->src * c->pods.size + place];
        double start = fmax(*here, from + h->at);
        double arrive = start + (h->until - h->at);
        c->at_head[(size_t)h->dst * c->pods.size + place] = arrive;
        CCL_TRY(add_move(c, rank_of(c, h->src, place), rank_of(c, h->dst, place), chunk, h->channel,
                         start, arrive, err));
    }
    return CCL_OK;
}

/* A GPU's chunk to everybody. */
static ccl_status_t spread_block(composer_t *c, uint32_t rank, uint32_t part, ccl_error_t *err) {
    uint32_t p = c->pods.pod[rank], j = c->pods.place[rank], g = c->pods.size;
    uint32_t chunk = rank * c->parts + part;
    uint32_t tree = j * c->in_pod.parts + tree_of(&c->in_pod, part);
    uint32_t heads = (c->heads + part) / c->parts; /* sums up to c->heads */
    double share = 1.0 / c->pods.npods;
    clear_arrivals(c);
    c->arrived[j] = 0;
    CCL_TRY(spread_in_pod(c, &c->in_pod, tree, p, chunk, 0, share, err));
    for (uint32_t k = 0; k < heads; k++) {
        uint32_t place = (j + k) % g, rail = tree_of(&c->on_rail, part + k);
        CCL_TRY(spread_on_rail(c, &c->on_rail, p * c->on_rail.parts + rail, p, place, chunk,
                               c->arrived[place], err));
    }
    for (uint32_t q = 0; q < c->pods.npods; q++) {
        if (q == p)
            continue;
        clear_arrivals(c);
        for (uint32_t k = 0; k < heads; k++)
            c->arrived[(j + k) % g] = c->at_head[(size_t)q * g + (j + k) % g];
        CCL_TRY(spread_in_pod(c, &c->in_pod, tree, q, chunk, c->arrived[j], share, err));
    }
    return CCL_OK;
}

/* A chunk of the root's buffer to everybody: over rail chunk mod size. */
static ccl_status_t spread_from_root(composer_t *c, uint32_t chunk, uint32_t nchunks,
                                     ccl_error_t *err) {
    uint32_t g = c->pods.size, p = c->pods.pod[c->want->root], place = chunk % g;
    uint32_t tree = place * c->in_pod.parts + tree_of(&c->in_pod, chunk / g);
    double share = (double)g / nchunks;
    clear_arrivals(c);
    c->arrived[c->pods.place[c->want->root]] = 0;
    /* The root deals out its chunks in their order. */
    CCL_TRY(spread_in_pod(c, &c->from_root, chunk % c->from_root.nchunks, p, chunk, 0, 1, err));
    CCL_TRY(spread_on_rail(c, &c->root_rail, chunk / g % c->root_rail.nchunks, p, place, chunk,
                           c->arrived[place], err));
    for (uint32_t q = 0; q < c->pods.npods; q++) {
        if (q == p)
            continue;
        double at = c->at_head[(size_t)q * g + place];
        clear_arrivals(c);
        c->arrived[place] = at;
        CCL_TRY(spread_in_pod(c, &c->in_pod, tree, q, chunk, at, share, err));
    }
    return CCL_OK;
}

/* AllToAll: a pod's chunks for the pod d further on go together, in turn d. */
static ccl_status_t move_pair(composer_t *c, uint32_t src, uint32_t dst, uint32_t part,
                              ccl_error_t *err) {
    uint32_t n = c->topo->nranks, g = c->pods.size, np = c->pods.npods;
    uint32_t p = c->pods.pod[src], q = c->pods.pod[dst], a = c->pods.place[src],
             b = c->pods.place[dst];
    uint32_t chunk = (src * n + dst) * c->parts + part;
    double turn = (double)((q + np - p) % np) / np, share = 1.0 / np;
    if (a != b) {
        const trees_t *t = &c->in_pod;
        uint32_t tree = (a * g + b) * t->parts + tree_of(t, part);
        for (uint32_t i = t->first[tree]; i < t->first[tree + 1]; i++) {
            const hop_t *h = &t->hops[i];
            CCL_TRY(add_move(c, rank_of(c, p, h->src), rank_of(c, p, h->dst), chunk, h->channel,
                             turn + h->at * share, turn + h->until * share, err));
        }
    }
    if (p != q) {
        const trees_t *t = &c->on_rail;
        uint32_t tree = (p * np + q) * t->parts + tree_of(t, part);
        turn += share;
        for (uint32_t i = t->first[tree]; i < t->first[tree + 1]; i++) {
            const hop_t *h = &t->hops[i];
            CCL_TRY(add_move(c, rank_of(c, h->src, b), rank_of(c, h->dst, b), chunk, h->channel,
                             turn + h->at * share, turn + h->until * share, err));
        }
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- the whole */

/*
 * Rails for a block's parts. With one rail a part, links inside pods carry (size - 1) of every size
 * chunks; each further rail takes one away and loads the links between. The number for which the
 * slower of both is fastest.
 */
static ccl_status_t choose_heads(composer_t *c, ccl_error_t *err) {
    uint32_t g = c->pods.size, np = c->pods.npods;
    ccl_i_exchange_t x;
    uint8_t *inside = NULL;
    double into_pod_Bps = 0, into_gpu_Bps = 0, best_s = INFINITY;
    c->heads = c->parts;
    CCL_TRY(ccl_i_exchange_init(&x, c->topo, c->routes, NULL, err));
    inside = calloc(c->topo->nranks, 1);
    ccl_status_t status = inside ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK) {
        for (uint32_t i = 0; i < g; i++)
            inside[rank_of(c, 0, i)] = 1;
        status = ccl_i_exchange_inflow(&x, inside, false, &into_pod_Bps, err);
    }
    ccl_i_exchange_fini(&x);
    free(inside);
    CCL_TRY(status);
    ccl_routes_t *routes = ccl_routes_create(c->pod);
    if (!routes)
        return ccl_fail_nomem(err);
    status = ccl_i_exchange_init(&x, c->pod, routes, NULL, err);
    if (status == CCL_OK) {
        uint8_t *one = calloc(g, 1);
        status = one ? CCL_OK : ccl_fail_nomem(err);
        if (one) {
            one[0] = 1;
            status = ccl_i_exchange_inflow(&x, one, false, &into_gpu_Bps, err);
        }
        free(one);
        ccl_i_exchange_fini(&x);
    }
    ccl_routes_destroy(routes);
    CCL_TRY(status);
    for (uint32_t heads = c->parts; heads <= c->parts * g; heads++) {
        double rails = (double)heads / c->parts; /* of a block, on average */
        double outside_s = RAIL_SLACK * (np - 1) * rails / (into_pod_Bps / g);
        double inside_s = ((g - 1) + (np - 1) * (g - rails)) / into_gpu_Bps;
        if (fmax(outside_s, inside_s) < best_s * (1 - 1e-9)) {
            best_s = fmax(outside_s, inside_s);
            c->heads = heads;
            c->inside_s = inside_s * c->size_bytes / c->topo->nranks;
        }
    }
    return CCL_OK;
}

/* Trees of one direction (reductions: turned), as moves. */
static ccl_status_t spread_all(composer_t *c, bool turned, uint32_t nchunks, ccl_error_t *err) {
    uint32_t n = c->topo->nranks, g = c->pods.size, np = c->pods.npods;
    bool rooted = c->want->kind == CCL_BROADCAST || c->want->kind == CCL_REDUCE;
    double block_bytes = c->size_bytes / n;
    trees_fini(&c->in_pod);
    trees_fini(&c->on_rail);
    c->nmoves = 0;
    uint32_t inner_parts = rooted ? nchunks / g : c->parts;
    inner_parts = inner_parts > 16 ? 16 : inner_parts;
    CCL_TRY(solve(c, c->pod, turned ? CCL_REDUCESCATTER : CCL_ALLGATHER, 0, inner_parts,
                  rooted ? c->size_bytes : block_bytes * g, false, &c->in_pod, err));
    if (rooted) {
        ccl_collective_kind_t kind = turned ? CCL_REDUCE : CCL_BROADCAST;
        CCL_TRY(solve(c, c->pod, kind, c->pods.place[c->want->root], nchunks, c->size_bytes, false,
                      &c->from_root, err));
        CCL_TRY(solve(c, c->rail, kind, c->pods.pod[c->want->root], nchunks / g, c->size_bytes / g,
                      false, &c->root_rail, err));
        for (uint32_t k = 0; k < nchunks; k++)
            CCL_TRY(spread_from_root(c, k, nchunks, err));
        return CCL_OK;
    }
    CCL_TRY(solve(c, c->rail, turned ? CCL_REDUCESCATTER : CCL_ALLGATHER, 0, c->parts,
                  block_bytes * np, true, &c->on_rail, err));
    for (uint32_t r = 0; r < n; r++) {
        CCL_TRY(ccl_ctx_poll(c->ctx, NULL));
        for (uint32_t i = 0; i < c->parts; i++)
            CCL_TRY(spread_block(c, r, i, err));
    }
    return CCL_OK;
}

static ccl_status_t pairs_all(composer_t *c, ccl_error_t *err) {
    uint32_t n = c->topo->nranks;
    double pair_bytes = c->size_bytes / n;
    CCL_TRY(solve(c, c->pod, CCL_ALLTOALL, 0, c->parts, pair_bytes * c->pods.size, false,
                  &c->in_pod, err));
    CCL_TRY(solve(c, c->rail, CCL_ALLTOALL, 0, c->parts, pair_bytes * c->pods.npods, false,
                  &c->on_rail, err));
    for (uint32_t s = 0; s < n; s++) {
        CCL_TRY(ccl_ctx_poll(c->ctx, NULL));
        for (uint32_t d = 0; d < n; d++) {
            for (uint32_t i = 0; s != d && i < c->parts; i++)
                CCL_TRY(move_pair(c, s, d, i, err));
        }
    }
    return CCL_OK;
}

static ccl_status_t run(composer_t *c, const char *name, ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_kind_t kind = c->want->kind;
    bool up = kind == CCL_ALLREDUCE || kind == CCL_REDUCESCATTER || kind == CCL_REDUCE;
    bool down = kind != CCL_REDUCESCATTER && kind != CCL_REDUCE;
    bool rooted = kind == CCL_BROADCAST || kind == CCL_REDUCE;
    ccl_collective_t *coll = NULL;
    ccl_i_turn_t turn = {.name = name};
    ccl_i_move_t *ups = NULL;
    uint32_t split = kind == CCL_ALLREDUCE ? c->parts * c->topo->nranks
                     : rooted              ? c->parts * c->topo->nranks
                                           : c->parts;
    ccl_status_t status = ccl_collective_split(c->want, split, &coll, err);
    if (status != CCL_OK)
        return status;
    if (up) {
        CCL_TRY_GOTO(spread_all(c, true, coll->nchunks, err), status, end);
        turn.up = ups = c->moves;
        turn.nup = c->nmoves;
        c->moves = NULL;
        c->cap = 0;
    }
    if (down) {
        if (kind == CCL_ALLTOALL)
            CCL_TRY_GOTO(pairs_all(c, err), status, end);
        else
            CCL_TRY_GOTO(spread_all(c, false, coll->nchunks, err), status, end);
        turn.down = c->moves;
        turn.ndown = c->nmoves;
    }
    status = ccl_i_turn_schedule(&turn, coll, out, err);
    coll = NULL;
end:
    free(ups);
    ccl_collective_destroy(coll);
    return status;
}

static ccl_status_t init(composer_t *c, ccl_error_t *err) {
    uint32_t n = c->topo->nranks;
    CCL_TRY(ccl_i_pods_find(c->topo, c->routes, &c->pods, err));
    CCL_TRY(ccl_i_topology_part(c->topo, c->routes, c->pods.ranks, c->pods.size, POD_SMS, &c->pod,
                                err));
    uint32_t *rail = calloc(c->pods.npods, sizeof *rail);
    if (!rail)
        return ccl_fail_nomem(err);
    for (uint32_t p = 0; p < c->pods.npods; p++)
        rail[p] = rank_of(c, p, 0);
    ccl_status_t status =
        ccl_i_topology_part(c->topo, c->routes, rail, c->pods.npods, RAIL_SMS, &c->rail, err);
    free(rail);
    CCL_TRY(status);
    c->arrived = calloc(c->pods.size, sizeof *c->arrived);
    c->at_head = calloc(n, sizeof *c->at_head);
    if (!c->arrived || !c->at_head)
        return ccl_fail_nomem(err);
    c->parts = c->options->chunks ? c->options->chunks : 1;
    for (size_t i = 0; i < CCL_ARRAY_LEN(parts_tried) && !c->options->chunks; i++) {
        bool whole = c->want->kind == CCL_BROADCAST || c->want->kind == CCL_REDUCE;
        double blocks = (double)n * n * (c->want->kind == CCL_ALLTOALL ? 4 : 1);
        uint32_t most = whole ? 1 : parts_tried[i];
        if (most > c->parts && blocks * most <= MOST_TRANSFERS)
            c->parts = most;
    }
    return choose_heads(c, err);
}

ccl_status_t ccl_i_compose(const ccl_ctx_t *ctx, const char *name, const ccl_topology_t *topo,
                           ccl_routes_t *routes, const ccl_collective_t *want,
                           const ccl_synth_options_t *options, ccl_i_inner_fn inner, void *user,
                           ccl_schedule_t **out, ccl_error_t *err) {
    composer_t c = {.ctx = ctx,
                    .topo = topo,
                    .routes = routes,
                    .want = want,
                    .options = options,
                    .inner = inner,
                    .user = user};
    switch (want->kind) {
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
    case CCL_ALLREDUCE:
    case CCL_BROADCAST:
    case CCL_REDUCE:
    case CCL_ALLTOALL:
        break;
    default:
        return ccl_fail(err, CCL_ERR_UNSUPPORTED, "%s is not composed of pods' schedules",
                        want->name);
    }
    c.size_bytes = options->size_bytes > 0 ? options->size_bytes : 268435456.0;
    ccl_status_t status = init(&c, err);
    if (status == CCL_OK)
        status = run(&c, name, out, err);
    trees_fini(&c.in_pod);
    trees_fini(&c.on_rail);
    trees_fini(&c.from_root);
    trees_fini(&c.root_rail);
    ccl_i_pods_fini(&c.pods);
    ccl_topology_destroy(c.pod);
    ccl_topology_destroy(c.rail);
    free(c.moves);
    free(c.arrived);
    free(c.at_head);
    return status;
}
