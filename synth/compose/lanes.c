/*
 * One root's data over all rails at once. Each GPU of the root's pod heads a lane: the root deals
 * it a part of the data, which goes on to the lane's GPU of every other pod as the rail's own
 * schedule says, and from each of these to the rest of its pod. So a chunk takes one hop before the
 * rail and one behind it, and all rails carry as much.
 */
#include "synth/compose/compose.h"
#include "synth/common/race.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>

/* Of all lanes: beyond that lowering takes too long. */
#define MOST_TRANSFERS 70000u
/* On more GPUs all are lowered in step order. */
#define MOST_OWN_RANKS 128u
/* Of larger messages Simple decides: runs of others take several times as long. */
#define MOST_LINES_BYTES 16777216.0

typedef struct lanes {
    const ccl_i_asked_t *asked;
    ccl_i_pods_t pods;
    uint32_t n;                 /* lanes */
    uint32_t *heads;            /* [n][npods] ranks */
    bool reduce;                /* all is time-reversed */
    ccl_schedule_t *rail;       /* by number of pod */
    uint32_t nsteps;            /* of it */
    uint32_t *arrives, *begins; /* [npods][chunks of the rail], [chunks]: steps */
    ccl_i_move_t *moves;
    size_t nmoves, cap;
} lanes_t;

/* As many as the smallest pod has GPUs; larger pods head them by GPUs that are as far apart as
   fits, the root's by the root too. */
static ccl_status_t place_heads(lanes_t *l, ccl_error_t *err) {
    const uint32_t root = l->asked->want->root;
    l->n = UINT32_MAX;
    for (uint32_t p = 0; p < l->pods.npods; p++) {
        uint32_t g = ccl_i_pod_size(&l->pods, p);
        l->n = g < l->n ? g : l->n;
    }
    if (l->n < 2)
        return ccl_fail(err, CCL_UNSUPPORTED, "a pod has one GPU");
    l->heads = calloc((size_t)l->n * l->pods.npods, sizeof *l->heads);
    if (!l->heads)
        return ccl_fail_nomem(err);
    for (uint32_t p = 0; p < l->pods.npods; p++) {
        uint32_t far = ccl_i_pod_size(&l->pods, p) / l->n;
        uint32_t skip = p == l->pods.pod[root] ? l->pods.place[root] % far : 0;
        if (p == l->pods.pod[root] && l->pods.place[root] / far >= l->n)
            return ccl_fail(err, CCL_UNSUPPORTED, "the root heads no lane");
        for (uint32_t k = 0; k < l->n; k++)
            l->heads[k * l->pods.npods + p] = ccl_i_pod_rank(&l->pods, p, k * far + skip);
    }
    return CCL_OK;
}

/* In fewer parts, where all lanes would have too many. */
static ccl_status_t ask(lanes_t *l, const ccl_synth_ops_t *inner, const ccl_topology_t *topo,
                        ccl_routes_t *routes, const ccl_collective_t *want,
                        ccl_synth_options_t *options, ccl_error_t *err) {
    const uint32_t most = MOST_TRANSFERS / (l->asked->topo->nranks * l->n);
    const char *why = NULL;
    if (!inner->supports(topo, want, &why))
        return ccl_fail(err, CCL_UNSUPPORTED, "%s", why);
    CCL_TRY(inner->synthesize(l->asked->ctx, topo, routes, want, options, &l->rail, err));
    if (l->rail->coll->nchunks > most && most > 0) {
        ccl_schedule_destroy(l->rail);
        l->rail = NULL;
        options->chunks = most;
        CCL_TRY(inner->synthesize(l->asked->ctx, topo, routes, want, options, &l->rail, err));
    }
    return l->rail->coll->nchunks <= most ? CCL_OK
                                          : ccl_fail(err, CCL_UNSUPPORTED, "too many transfers");
}

/* The rail of the root's own lane; others are taken to be like it: what is not shows in time. */
static ccl_status_t solve_rail(lanes_t *l, const ccl_synth_ops_t *inner, ccl_error_t *err) {
    const ccl_i_asked_t *a = l->asked;
    const uint32_t np = l->pods.npods, pod = l->pods.pod[a->want->root];
    const uint32_t *heads = l->heads;
    ccl_synth_options_t options = *a->options;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_routes_t *routes = NULL;
    while (heads[pod] != a->want->root)
        heads += np;
    options.size_bytes =
        (options.size_bytes > 0 ? options.size_bytes : CCL_LOWER_SIZE_BYTES) / l->n;
    options.stats = NULL;
    options.hope_s = 0;
    options.time_limit_s /= 4; /* as parts of compositions */
    ccl_status_t status = ccl_i_topology_part(a->topo, a->routes, heads, np, 1, &topo, err);
    if (status == CCL_OK)
        status = ccl_collective_create(a->want->kind, np, 1, pod, &want, err);
    if (status == CCL_OK) {
        routes = ccl_routes_create(topo);
        status = routes ? ask(l, inner, topo, routes, want, &options, err) : ccl_fail_nomem(err);
    }
    ccl_routes_destroy(routes);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return status;
}

/* Steps of the rail: when a chunk leaves the root, and reaches the others. */
static ccl_status_t time_rail(lanes_t *l, ccl_error_t *err) {
    const ccl_schedule_t *r = l->rail;
    const uint32_t n = r->coll->nchunks;
    l->arrives = calloc((size_t)l->pods.npods * n, sizeof *l->arrives);
    l->begins = malloc(n * sizeof *l->begins);
    if (!l->arrives || !l->begins)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < n; c++)
        l->begins[c] = UINT32_MAX;
    for (uint32_t i = 0; i < r->ntransfers; i++)
        l->nsteps = r->transfers[i].step < l->nsteps ? l->nsteps : r->transfers[i].step + 1;
    for (uint32_t i = 0; i < r->ntransfers; i++) {
        const ccl_transfer_t *t = &r->transfers[i];
        uint32_t step = l->reduce ? l->nsteps - 1 - t->step : t->step;
        uint32_t dst = l->reduce ? t->src : t->dst;
        l->arrives[dst * n + t->chunk] = step + 1;
        l->begins[t->chunk] = step < l->begins[t->chunk] ? step : l->begins[t->chunk];
    }
    return CCL_OK;
}

static ccl_status_t add_move(lanes_t *l, uint32_t src, uint32_t dst, uint32_t chunk,
                             uint16_t channel, uint32_t step, ccl_error_t *err) {
    uint32_t from = l->reduce ? dst : src, to = l->reduce ? src : dst;
    if (ccl_routes_width(l->asked->routes, from, to) == 0)
        return ccl_fail(err, CCL_UNSUPPORTED, "no route leads from rank %u to rank %u", from, to);
    if (!ccl_grow(&l->moves, &l->cap, l->nmoves + 1, sizeof *l->moves))
        return ccl_fail_nomem(err);
    l->moves[l->nmoves++] = (ccl_i_move_t){src, dst, chunk, channel, step, step + 1};
    return CCL_OK;
}

/* A lane's chunk from its head in a pod to the rest of it. */
static ccl_status_t to_pod(lanes_t *l, uint32_t lane, uint32_t pod, uint32_t chunk, uint32_t step,
                           ccl_error_t *err) {
    uint32_t head = l->heads[lane * l->pods.npods + pod];
    for (uint32_t k = 0; k < ccl_i_pod_size(&l->pods, pod); k++) {
        uint32_t rank = ccl_i_pod_rank(&l->pods, pod, k);
        if (rank != head && rank != l->asked->want->root)
            CCL_TRY(add_move(l, head, rank, chunk, 0, step, err));
    }
    return CCL_OK;
}

/* Dealt out when the rail begins with a chunk, on the rail a step later, to pods once it is
   there. */
static ccl_status_t lane_moves(lanes_t *l, uint32_t lane, ccl_error_t *err) {
    const ccl_schedule_t *r = l->rail;
    const uint32_t *heads = l->heads + lane * l->pods.npods, root = l->asked->want->root;
    const uint32_t n = r->coll->nchunks;
    for (uint32_t c = 0; c < n; c++) {
        uint32_t chunk = c * l->n + lane, head = heads[l->pods.pod[root]];
        if (head != root)
            CCL_TRY(add_move(l, root, head, chunk, 0, l->begins[c], err));
        for (uint32_t p = 0; p < l->pods.npods; p++) {
            uint32_t step = p == l->pods.pod[root] ? l->begins[c] : l->arrives[p * n + c];
            CCL_TRY(to_pod(l, lane, p, chunk, step + 1, err));
        }
    }
    for (uint32_t i = 0; i < r->ntransfers; i++) {
        const ccl_transfer_t *t = &r->transfers[i];
        uint32_t step = l->reduce ? l->nsteps - 1 - t->step : t->step;
        uint32_t src = heads[l->reduce ? t->dst : t->src], dst = heads[l->reduce ? t->src : t->dst];
        CCL_TRY(add_move(l, src, dst, t->chunk * l->n + lane, t->channel, step + 1, err));
    }
    return CCL_OK;
}

static ccl_status_t make(lanes_t *l, const char *name, ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    for (uint32_t lane = 0; lane < l->n; lane++)
        CCL_TRY(lane_moves(l, lane, err));
    CCL_TRY(ccl_collective_split(l->asked->want, l->n * l->rail->coll->nchunks, &coll, err));
    const ccl_i_turn_t turn = {.name = name,
                               .up = l->moves,
                               .nup = l->reduce ? l->nmoves : 0,
                               .down = l->moves,
                               .ndown = l->reduce ? 0 : l->nmoves};
    return ccl_i_turn_schedule(&turn, coll, out, err);
}

static ccl_status_t make_lanes(lanes_t *l, const ccl_synth_ops_t *inner, const char *name,
                               ccl_schedule_t **out, ccl_error_t *err) {
    CCL_TRY(solve_rail(l, inner, err));
    CCL_TRY(time_rail(l, err));
    CCL_TRY(make(l, name, out, err));
    (*out)->limited |= l->rail->limited;
    ccl_origin_set((*out)->origin, "%s: %u lanes over %u pods, rails by %s in %u part%s", name,
                   l->n, l->pods.npods, inner->name, l->rail->coll->nchunks,
                   l->rail->coll->nchunks == 1 ? "" : "s");
    return CCL_OK;
}

static void forget_rail(lanes_t *l) {
    ccl_schedule_destroy(l->rail);
    free(l->arrives);
    free(l->begins);
    l->rail = NULL;
    l->arrives = l->begins = NULL;
    l->nsteps = 0;
    l->nmoves = 0;
}

/* ---------------------------------------------------------------- are they faster? */

/* What lanes must beat, and how both are lowered. */
typedef struct contest {
    const ccl_i_asked_t *asked;
    ccl_way_t way;
    double size_bytes, best_s;
} contest_t;

/* As its maker has it: in step order pieces of different lanes wait for each other. But that makes
   a dozen runs. */
static contest_t against(const ccl_i_asked_t *asked, const ccl_synth_ops_t *ops) {
    const ccl_synth_options_t *o = asked->options;
    contest_t c = {.asked = asked,
                   .size_bytes = o->size_bytes > 0 ? o->size_bytes : CCL_LOWER_SIZE_BYTES,
                   .best_s = o->hope_s > 0 ? CCL_I_SYNTH_CARE * o->hope_s : INFINITY};
    if (asked->topo->nranks <= MOST_OWN_RANKS)
        c.way = ccl_way_choose(ops->way, (ccl_way_t){0}, 0);
    return c;
}

static ccl_status_t time_of(const contest_t *c, const ccl_schedule_t *schedule, double *out,
                            ccl_error_t *err) {
    const ccl_i_asked_t *a = c->asked;
    ccl_i_timing_t timing = {.size_bytes = c->size_bytes,
                             .way = c->way,
                             .give_up_s = isfinite(c->best_s) ? c->best_s : 0};
    if (c->size_bytes > MOST_LINES_BYTES)
        CCL_TRY(ccl_i_time_schedule(a->ctx, a->topo, a->routes, schedule, &timing, err));
    else
        CCL_TRY(ccl_i_time_protocols(a->ctx, a->topo, a->routes, schedule, &timing, err));
    *out = timing.time_s;
    return CCL_OK;
}

static ccl_status_t try_rail(lanes_t *l, contest_t *c, const ccl_synth_ops_t *ops,
                             const ccl_synth_ops_t *inner, ccl_schedule_t **best,
                             ccl_error_t *err) {
    ccl_schedule_t *lanes = NULL;
    double time_s = INFINITY;
    ccl_status_t status = make_lanes(l, inner, ops->name, &lanes, err);
    forget_rail(l);
    if (status == CCL_OK)
        status = time_of(c, lanes, &time_s, err);
    if (status == CCL_OK && time_s < c->best_s) {
        c->best_s = time_s;
        ccl_schedule_destroy(*best);
        *best = lanes;
        lanes = NULL;
    }
    ccl_schedule_destroy(lanes);
    return status;
}

static ccl_status_t try_all(lanes_t *l, const ccl_synth_ops_t *ops, ccl_schedule_t **best,
                            ccl_error_t *err) {
    const ccl_synth_ops_t *const inners[] = {&ccl_i_synth_greedy, &ccl_i_synth_sketch};
    contest_t c = against(l->asked, ops);
    double time_s;
    CCL_TRY(time_of(&c, *best, &time_s, err));
    c.best_s = fmin(c.best_s, time_s);
    for (size_t i = 0; i < CCL_ARRAY_LEN(inners); i++) {
        ccl_error_t why = CCL_ERROR_INIT;
        ccl_status_t status = try_rail(l, &c, ops, inners[i], best, &why);
        if (status != CCL_OK && status != CCL_UNSUPPORTED) {
            if (err)
                *err = why;
            return status;
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_lanes_if_faster(const ccl_i_asked_t *asked, const ccl_synth_ops_t *ops,
                                   ccl_schedule_t **schedule, ccl_error_t *err) {
    const ccl_collective_kind_t kind = asked->want->kind;
    lanes_t l = {.asked = asked, .reduce = kind == CCL_REDUCE};
    ccl_error_t why = CCL_ERROR_INIT;
    if ((kind != CCL_BROADCAST && kind != CCL_REDUCE) || asked->options->part ||
        asked->options->chunks)
        return CCL_OK;
    ccl_status_t status = ccl_i_pods_find(asked->topo, asked->routes, &l.pods, &why);
    if (status == CCL_OK)
        status = place_heads(&l, &why);
    if (status == CCL_OK)
        status = try_all(&l, ops, schedule, &why);
    ccl_i_pods_fini(&l.pods);
    free(l.heads);
    free(l.moves);
    if (status == CCL_UNSUPPORTED) /* no pods */
        return CCL_OK;
    if (status != CCL_OK && err)
        *err = why;
    return status;
}
