/* Compositions: schedules of a pod and of a rail as trees, found once for each kind of pod. */
#include "synth/compose/compose.h"
#include "synth/registry.h"
#include "synth/common/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rails are to have this much less to do than pods: what comes in must still be passed on. */
#define RAIL_SLACK 1.12
/* Parts of a buffer in a tree from one root: both of `tree`'s, or some of the synthesizer's. */
#define TREES 2u
#define ROOTED_PARTS 16u

void ccl_i_compose_trees_fini(ccl_i_part_trees_t *t) {
    free(t->first);
    free(t->hops);
    memset(t, 0, sizeof *t);
}

/* ---------------------------------------------------------------- trees */

static ccl_status_t trees_alloc(ccl_i_part_trees_t *t, uint32_t nchunks, uint32_t nhops,
                                ccl_error_t *err) {
    t->first = calloc(nchunks + (size_t)2, sizeof *t->first);
    t->hops = calloc(nhops + (size_t)1, sizeof *t->hops);
    return t->first && t->hops ? CCL_OK : ccl_fail_nomem(err);
}

/* By chunk; time-reversed schedules backward. A rank that is reached twice is so once. */
static ccl_status_t trees_init(ccl_i_part_trees_t *t, const ccl_schedule_t *s, bool turned,
                               ccl_error_t *err) {
    uint32_t nk = s->coll->nchunks, n = s->coll->nranks, nt = s->ntransfers;
    uint64_t *reached = calloc((size_t)nk * n / 64 + 1, sizeof *reached);
    ccl_status_t status = reached ? trees_alloc(t, nk, nt, err) : ccl_fail_nomem(err);
    for (int pass = 0; status == CCL_OK && pass < 2; pass++) {
        for (uint32_t i = 0; i < nt; i++) {
            const ccl_transfer_t *x = &s->transfers[turned ? nt - 1 - i : i];
            double step = turned ? s->nsteps - 1 - x->step : x->step;
            ccl_i_part_hop_t hop = {turned ? x->dst : x->src, turned ? x->src : x->dst, x->channel,
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
    t->nsteps = s->nsteps;
    free(reached);
    return status;
}

/* What a part is asked for. */
typedef struct part {
    const ccl_topology_t *topo;
    ccl_collective_kind_t kind;
    uint32_t parts;
    double size_bytes;
    ccl_i_part_shape_t shape;
    bool rail;
} part_t;

static ccl_status_t ask(ccl_i_composer_t *c, const part_t *part, ccl_routes_t *routes,
                        const ccl_collective_t *want, ccl_schedule_t **out, ccl_error_t *err) {
    const char *why = NULL;
    const ccl_synth_ops_t *ops = part->shape == CCL_I_PART_TREE    ? &ccl_i_synth_tree
                                 : part->shape == CCL_I_PART_INNER ? c->inner
                                 : part->rail                      ? &ccl_i_synth_ring
                                                                   : &ccl_i_synth_direct;
    bool supports = ops->supports(part->topo, want, &why);
    ccl_synth_options_t options = *c->options;
    options.chunks = part->parts;
    options.part = true;
    options.size_bytes = part->size_bytes;
    options.time_limit_s /= 4;
    if (!supports && part->shape == CCL_I_PART_INNER)
        return ccl_fail(err, CCL_UNSUPPORTED, "%s cannot do %s on a part: %s", ops->name,
                        want->name, why);
    if (part->shape == CCL_I_PART_INNER)
        return ops->synthesize(c->ctx, part->topo, routes, want, &options, out, err);
    if (!supports)
        return ccl_fail(err, CCL_UNSUPPORTED, "no %s for %s here: %s", ops->name, want->name, why);
    options.channels = 1;
    if (part->shape == CCL_I_PART_TREE)
        options.channels = TREES, options.chunks = 1;
    return ops->synthesize(c->ctx, part->topo, routes, want, &options, out, err);
}

static ccl_status_t solve(ccl_i_composer_t *c, const part_t *part, ccl_i_part_trees_t *out,
                          ccl_error_t *err) {
    bool turned = part->kind == CCL_REDUCESCATTER || part->kind == CCL_REDUCE;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_routes_t *routes = NULL;
    if (!part->topo) { /* nobody to send to */
        out->parts = out->stride = out->nsteps = 1;
        return trees_alloc(out, 1, 0, err);
    }
    ccl_status_t status = ccl_collective_create(part->kind, part->topo->nranks, 1, 0, &want, err);
    if (status == CCL_OK) {
        routes = ccl_routes_create(part->topo);
        status = routes ? ask(c, part, routes, want, &schedule, err) : ccl_fail_nomem(err);
    }
    if (status == CCL_OK) {
        out->parts = schedule->coll->nchunks / want->nchunks;
        out->stride = out->parts % part->parts == 0 ? out->parts / part->parts : 1;
        ccl_origin_set(out->origin, "%s", schedule->origin);
        status = trees_init(out, schedule, turned, err);
    }
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    return status;
}

ccl_status_t ccl_i_compose_trees(ccl_i_composer_t *c, uint32_t kind, bool rail,
                                 ccl_i_part_shape_t shape, const ccl_i_part_trees_t **out,
                                 ccl_error_t *err) {
    ccl_i_pod_kind_t *k = &c->kinds[kind];
    ccl_i_part_trees_t *trees = rail ? &k->on_rail[c->up][shape] : &k->in_pod[c->up][shape];
    double block_bytes = c->size_bytes / c->topo->nranks;
    bool rooted = c->want->kind == CCL_BROADCAST || c->want->kind == CCL_REDUCE;
    *out = trees;
    if (trees->first)
        return CCL_OK;
    part_t part = {.topo = rail ? k->rail : k->pod, .shape = shape, .rail = rail};
    part.kind = c->up ? CCL_REDUCESCATTER : CCL_ALLGATHER;
    part.parts = rooted ? ROOTED_PARTS : c->parts;
    if (c->want->kind == CCL_ALLTOALL)
        part.kind = CCL_ALLTOALL;
    else if (rail && rooted && shape != CCL_I_PART_PLAIN)
        part.kind = c->up ? CCL_REDUCE : CCL_BROADCAST;
    else if (shape == CCL_I_PART_PLAIN)
        part.parts = 1; /* all are alike */
    if (part.topo)
        part.size_bytes = rooted ? c->size_bytes : block_bytes * part.topo->nranks;
    ccl_status_t status = solve(c, &part, trees, err);
    if (status != CCL_OK)
        ccl_i_compose_trees_fini(trees);
    return status;
}

/* ---------------------------------------------------------------- rails side by side */

/* What can flow into a pod; into a GPU from its pod. */
static ccl_status_t find_rates(const ccl_i_exchange_t *x, const ccl_i_pods_t *pods, uint32_t pod,
                               uint8_t *inside, double *into_pod_Bps, ccl_error_t *err) {
    for (uint32_t i = 0; i < ccl_i_pod_size(pods, pod); i++)
        inside[ccl_i_pod_rank(pods, pod, i)] = 1;
    ccl_status_t status = ccl_i_exchange_inflow(x, inside, false, into_pod_Bps, err);
    memset(inside, 0, x->nranks);
    return status;
}

static ccl_status_t find_gpu_rate(const ccl_topology_t *pod, double *into_gpu_Bps,
                                  ccl_error_t *err) {
    ccl_i_exchange_t x;
    *into_gpu_Bps = INFINITY;
    if (!pod)
        return CCL_OK;
    ccl_routes_t *routes = ccl_routes_create(pod);
    if (!routes)
        return ccl_fail_nomem(err);
    ccl_status_t status = ccl_i_exchange_init(&x, pod, routes, NULL, err);
    if (status == CCL_OK) {
        uint8_t *one = calloc(pod->nranks, 1);
        status = one ? CCL_OK : ccl_fail_nomem(err);
        if (one) {
            one[0] = 1;
            status = ccl_i_exchange_inflow(&x, one, false, into_gpu_Bps, err);
        }
        free(one);
        ccl_i_exchange_fini(&x);
    }
    ccl_routes_destroy(routes);
    return status;
}

/*
 * With one rail a part, links inside pods carry (size - 1) of every size chunks; each further rail
 * takes one away and loads the links between. The number for which the slower of both is fastest.
 */
static ccl_status_t choose_heads(ccl_i_composer_t *c, const ccl_i_exchange_t *x, uint32_t kind,
                                 uint8_t *inside, ccl_error_t *err) {
    ccl_i_pod_kind_t *k = &c->kinds[kind];
    uint32_t g = k->pod ? k->pod->nranks : 1, np = ccl_i_kind_size(&c->pods, kind);
    double best_s = INFINITY, into_pod_Bps, into_gpu_Bps;
    CCL_TRY(find_rates(x, &c->pods, ccl_i_kind_pod(&c->pods, kind, 0), inside, &into_pod_Bps, err));
    CCL_TRY(find_gpu_rate(k->pod, &into_gpu_Bps, err));
    k->heads = c->variants;
    for (uint32_t heads = c->variants; heads <= c->variants * g; heads++) {
        double rails = (double)heads / c->variants; /* of a block, on average */
        double outside_s = RAIL_SLACK * (np - 1) * rails / (into_pod_Bps / g);
        double inside_s = ((g - 1) + (np - 1) * (g - rails)) / into_gpu_Bps;
        if (fmax(outside_s, inside_s) < best_s * (1 - 1e-9)) {
            best_s = fmax(outside_s, inside_s);
            k->heads = heads;
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_i_compose_heads(ccl_i_composer_t *c, ccl_error_t *err) {
    ccl_i_exchange_t x;
    CCL_TRY(ccl_i_exchange_init(&x, c->topo, c->routes, NULL, err));
    uint8_t *inside = calloc(c->topo->nranks, 1);
    ccl_status_t status = inside ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t k = 0; status == CCL_OK && k < c->pods.nkinds; k++)
        status = choose_heads(c, &x, k, inside, err);
    ccl_i_exchange_fini(&x);
    free(inside);
    return status;
}
