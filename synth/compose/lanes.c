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
    uint32_t n;      /* lanes */
    uint32_t *heads; /* [n][npods] ranks */
    bool reduce;     /* all is time-reversed */
    /* The rail of the root's own lane, ranks by number of pod. Others are taken to be like it: what
       is not shows in time. */
    ccl_i_asked_t on_rail;
    ccl_schedule_t *rail;       /* in hand */
    uint32_t *arrives, *begins; /* [npods][its chunks], [its chunks]: steps of the lane */
    ccl_i_move_t *moves;
    size_t nmoves, cap;
    ccl_way_t way; /* how all are lowered */
    double best_s; /* what lanes must beat */
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
static ccl_status_t solve_rail(lanes_t *l, const ccl_synth_ops_t *inner, ccl_error_t *err) {
    const ccl_i_asked_t *a = &l->on_rail;
    const uint32_t most = MOST_TRANSFERS / (l->asked->topo->nranks * l->n);
    ccl_synth_options_t options = *a->options;
    const char *why = NULL;
    if (!inner->supports(a->topo, a->want, &why))
        return ccl_fail(err, CCL_UNSUPPORTED, "%s", why);
    CCL_TRY(inner->synthesize(a->ctx, a->topo, a->routes, a->want, &options, &l->rail, err));
    if (l->rail->coll->nchunks > most && most > 0) {
        ccl_schedule_destroy(l->rail);
        l->rail = NULL;
        options.chunks = most;
        CCL_TRY(inner->synthesize(a->ctx, a->topo, a->routes, a->want, &options, &l->rail, err));
    }
    return l->rail->coll->nchunks <= most ? CCL_OK
                                          : ccl_fail(err, CCL_UNSUPPORTED, "too many transfers");
}

/* Of a Reduce's rail what it is time-reversed: a Broadcast's. */
static void turn_rail(ccl_schedule_t *r) {
    uint32_t nsteps = 0;
    for (uint32_t i = 0; i < r->ntransfers; i++)
        nsteps = r->transfers[i].step < nsteps ? nsteps : r->transfers[i].step + 1;
    for (uint32_t i = 0; i < r->ntransfers; i++) {
        ccl_transfer_t *t = &r->transfers[i];
        uint32_t src = t->dst;
        t->step = nsteps - 1 - t->step;
        t->dst = t->src;
        t->src = src;
    }
}

/* When a chunk is dealt out and goes onto the rail, and from where to a pod. */
static ccl_status_t time_rail(lanes_t *l, ccl_error_t *err) {
    const ccl_schedule_t *r = l->rail;
    const uint32_t n = r->coll->nchunks;
    l->arrives = calloc((size_t)l->pods.npods * n, sizeof *l->arrives);
    l->begins = malloc(n * sizeof *l->begins);
    if (!l->arrives || !l->begins)
        return ccl_fail_nomem(err);
    for (uint32_t c = 0; c < n; c++)
        l->begins[c] = UINT32_MAX;
    for (uint32_t i = 0; i < r->ntransfers; i++) {
        const ccl_transfer_t *t = &r->transfers[i];
        l->arrives[t->dst * n + t->chunk] = t->step + 1;
        l->begins[t->chunk] = t->step < l->begins[t->chunk] ? t->step : l->begins[t->chunk];
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
        CCL_TRY(add_move(l, heads[t->src], heads[t->dst], t->chunk * l->n + lane, t->channel,
                         t->step + 1, err));
    }
    return CCL_OK;
}

static ccl_status_t make(lanes_t *l, const ccl_synth_ops_t *inner, ccl_schedule_t **out,
                         ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    CCL_TRY(solve_rail(l, inner, err));
    if (l->reduce)
        turn_rail(l->rail);
    CCL_TRY(time_rail(l, err));
    for (uint32_t lane = 0; lane < l->n; lane++)
        CCL_TRY(lane_moves(l, lane, err));
    const uint32_t parts = l->rail->coll->nchunks;
    CCL_TRY(ccl_collective_split(l->asked->want, l->n * parts, &coll, err));
    const ccl_i_turn_t turn = {.name = ccl_i_synth_greedy.name,
                               .up = l->moves,
                               .nup = l->reduce ? l->nmoves : 0,
                               .down = l->moves,
                               .ndown = l->reduce ? 0 : l->nmoves};
    CCL_TRY(ccl_i_turn_schedule(&turn, coll, out, err));
    (*out)->limited |= l->rail->limited;
    ccl_origin_set((*out)->origin, "%s: %u lanes over %u pods, rails by %s in %u part%s", turn.name,
                   l->n, l->pods.npods, inner->name, parts, parts == 1 ? "" : "s");
    return CCL_OK;
}

static void forget_rail(lanes_t *l) {
    ccl_schedule_destroy(l->rail);
    free(l->arrives);
    free(l->begins);
    l->rail = NULL;
    l->arrives = l->begins = NULL;
    l->nmoves = 0;
}

/* ---------------------------------------------------------------- are they faster? */

static ccl_status_t time_of(const lanes_t *l, const ccl_schedule_t *schedule, double *out,
                            ccl_error_t *err) {
    const ccl_i_asked_t *a = l->asked;
    ccl_i_timing_t timing = {.size_bytes = a->options->size_bytes,
                             .way = l->way,
                             .give_up_s = isfinite(l->best_s) ? l->best_s : 0};
    if (timing.size_bytes > MOST_LINES_BYTES)
        CCL_TRY(ccl_i_time_schedule(a->ctx, a->topo, a->routes, schedule, &timing, err));
    else
        CCL_TRY(ccl_i_time_protocols(a->ctx, a->topo, a->routes, schedule, &timing, err));
    *out = timing.time_s;
    return CCL_OK;
}

static ccl_status_t try_rail(lanes_t *l, const ccl_synth_ops_t *inner, ccl_schedule_t **best,
                             ccl_error_t *err) {
    ccl_schedule_t *lanes = NULL;
    double time_s = INFINITY;
    ccl_status_t status = make(l, inner, &lanes, err);
    forget_rail(l);
    if (status == CCL_OK)
        status = time_of(l, lanes, &time_s, err);
    const bool faster = status == CCL_OK && time_s < l->best_s;
    ccl_schedule_destroy(faster ? *best : lanes);
    if (faster) {
        l->best_s = time_s;
        *best = lanes;
    }
    return status;
}

static ccl_status_t try_rails(lanes_t *l, ccl_schedule_t **best, ccl_error_t *err) {
    const ccl_synth_ops_t *const inners[] = {&ccl_i_synth_greedy, &ccl_i_synth_sketch};
    double time_s;
    CCL_TRY(time_of(l, *best, &time_s, err));
    l->best_s = fmin(l->best_s, time_s);
    for (size_t i = 0; i < CCL_ARRAY_LEN(inners); i++) {
        ccl_error_t why = CCL_ERROR_INIT;
        ccl_status_t status = try_rail(l, inners[i], best, &why);
        if (status != CCL_OK && status != CCL_UNSUPPORTED) {
            if (err)
                *err = why;
            return status;
        }
    }
    return CCL_OK;
}

static ccl_status_t compete(lanes_t *l, ccl_schedule_t **best, ccl_error_t *err) {
    const ccl_i_asked_t *a = l->asked;
    const uint32_t np = l->pods.npods, pod = l->pods.pod[a->want->root];
    const uint32_t *heads = l->heads;
    ccl_synth_options_t options = *a->options;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_routes_t *routes = NULL;
    while (heads[pod] != a->want->root)
        heads += np;
    options.size_bytes /= l->n;
    options.stats = NULL;
    options.hope_s = 0;
    options.time_limit_s /= 4; /* as parts of compositions */
    ccl_status_t status = ccl_i_topology_part(a->topo, a->routes, heads, np, 1, &topo, err);
    if (status == CCL_ERR_INPUT) /* a rail's GPUs do not reach each other but by GPUs elsewhere */
        status = CCL_UNSUPPORTED;
    if (status == CCL_OK)
        status = ccl_collective_create(a->want->kind, np, 1, pod, &want, err);
    if (status == CCL_OK) {
        routes = ccl_routes_create(topo);
        l->on_rail = (ccl_i_asked_t){a->ctx, topo, routes, want, &options};
        status = routes ? try_rails(l, best, err) : ccl_fail_nomem(err);
    }
    ccl_routes_destroy(routes);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    return status;
}

/* Over servers, or over equal sets where servers differ in size. */
static ccl_status_t over_pods(lanes_t *l, bool equal, ccl_schedule_t **best, ccl_error_t *err) {
    const ccl_i_asked_t *a = l->asked;
    const uint32_t before = l->pods.npods;
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_i_pods_fini(&l->pods);
    ccl_status_t status = ccl_i_pods_find(a->topo, a->routes, equal, &l->pods, &why);
    if (status == CCL_OK && l->pods.npods != before) {
        status = place_heads(l, &why);
        if (status == CCL_OK)
            status = compete(l, best, &why);
        free(l->heads);
        l->heads = NULL;
    }
    if (status == CCL_UNSUPPORTED) /* no pods */
        return CCL_OK;
    if (status != CCL_OK && err)
        *err = why;
    return status;
}

ccl_status_t ccl_i_lanes_if_faster(const ccl_i_asked_t *asked, ccl_schedule_t **schedule,
                                   ccl_error_t *err) {
    const ccl_collective_kind_t kind = asked->want->kind;
    ccl_synth_options_t options = *asked->options;
    ccl_i_asked_t sized = *asked;
    lanes_t l = {.asked = &sized, .reduce = kind == CCL_REDUCE, .best_s = INFINITY};
    if ((kind != CCL_BROADCAST && kind != CCL_REDUCE) || options.part || options.chunks)
        return CCL_OK;
    if (options.size_bytes <= 0)
        options.size_bytes = CCL_LOWER_SIZE_BYTES;
    sized.options = &options;
    if (options.hope_s > 0)
        l.best_s = CCL_I_SYNTH_CARE * options.hope_s;
    /* As greedy has it: in step order pieces of different lanes wait for each other. But that
       makes a dozen runs. */
    if (asked->topo->nranks <= MOST_OWN_RANKS)
        l.way = ccl_way_choose(ccl_i_synth_greedy.way, (ccl_way_t){0}, 0);
    ccl_status_t status = over_pods(&l, false, schedule, err);
    if (status == CCL_OK && l.n < l.pods.most)
        status = over_pods(&l, true, schedule, err);
    ccl_i_pods_fini(&l.pods);
    free(l.moves);
    return status;
}
