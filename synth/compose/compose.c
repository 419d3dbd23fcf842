/*
 * Hierarchical composition (HeteCCL, NSDI 2026, section 7): schedules of one pod and of one rail of
 * every kind of pod make the schedule of the whole. Several ways to put them together are made and
 * simulated.
 */
#include "synth/compose/compose.h"
#include "synth/common/race.h"
#include "synth/registry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * How much is tried, and what parts of a GPU collectives get. bench/cases/synth_composed.c runs
 * it.
 */
typedef struct policy {
    double transfers;   /* of a schedule, up to which shards are cut into parts */
    double chunks;      /* of one root's buffer, at most, */
    double chunk_bytes; /* none smaller than this */
    uint32_t variants;  /* ways that parts of one root's buffer take in turn */
    double simulated;   /* transfers of all ways that are made; the first is made in any case */
    double margin;      /* part of the time by which a later way must be faster */
    double pod_sms, rail_sms; /* part of thread blocks for moves inside pods and between them; the
                                 rest copies */
    double size;              /* bytes, where the user gives none */
} policy_t;

static const policy_t POLICY = {.transfers = 1.2e6,
                                .chunks = 4096,
                                .chunk_bytes = 65536,
                                .variants = 16,
                                .simulated = 1e7,
                                .margin = 1e-6,
                                .pod_sms = 0.7,
                                .rail_sms = 0.25,
                                .size = CCL_LOWER_SIZE_BYTES};

/* Parts of a shard, most first. */
static const uint32_t parts_tried[] = {16, 8, 4, 2};
#define MOST_WAYS 8u

static bool is_rooted(const ccl_i_composer_t *c) {
    return c->want->kind == CCL_BROADCAST || c->want->kind == CCL_REDUCE;
}

/* ---------------------------------------------------------------- one way */

static ccl_status_t make(ccl_i_composer_t *c, const char *name, const ccl_i_composition_t *how,
                         ccl_schedule_t **out, ccl_error_t *err) {
    ccl_collective_kind_t kind = c->want->kind;
    bool up = kind == CCL_ALLREDUCE || kind == CCL_REDUCESCATTER || kind == CCL_REDUCE;
    bool down = kind != CCL_REDUCESCATTER && kind != CCL_REDUCE;
    bool whole = kind == CCL_ALLREDUCE || is_rooted(c);
    ccl_collective_t *coll = NULL;
    ccl_i_turn_t turn = {.name = name};
    ccl_i_move_t *ups = NULL;
    c->how = *how;
    CCL_TRY(ccl_collective_split(c->want, whole ? how->nchunks : c->parts, &coll, err));
    c->how.nchunks = coll->nchunks;
    ccl_status_t status = CCL_OK;
    if (up) {
        c->up = true;
        CCL_TRY_GOTO(ccl_i_compose_moves(c, err), status, end);
        turn.up = ups = c->moves;
        turn.nup = c->nmoves;
        c->moves = NULL;
        c->cap = 0;
    }
    if (down) {
        c->up = false;
        CCL_TRY_GOTO(ccl_i_compose_moves(c, err), status, end);
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

/* ---------------------------------------------------------------- the fastest */

/* Those that may be good, the likeliest first. */
static uint32_t list_ways(const ccl_i_composer_t *c, ccl_i_composition_t *ways) {
    uint32_t n = 0, nchunks = c->parts * c->topo->nranks;
    if (c->want->kind == CCL_ALLTOALL) {
        ways[n++] = (ccl_i_composition_t){CCL_I_PART_INNER, CCL_I_PART_INNER, nchunks};
        return n;
    }
    if (!is_rooted(c)) {
        ways[n++] = (ccl_i_composition_t){CCL_I_PART_PLAIN, CCL_I_PART_PLAIN, nchunks};
        ways[n++] = (ccl_i_composition_t){CCL_I_PART_INNER, CCL_I_PART_PLAIN, nchunks};
        ways[n++] = (ccl_i_composition_t){CCL_I_PART_INNER, CCL_I_PART_INNER, nchunks};
        return n;
    }
    double most = fmin(POLICY.chunks, POLICY.transfers / c->topo->nranks);
    most = fmax(fmin(most, c->size_bytes / POLICY.chunk_bytes), 2 * c->pods.most);
    uint32_t nroot = c->options->chunks ? nchunks : (uint32_t)most;
    ways[n++] = (ccl_i_composition_t){CCL_I_PART_PLAIN, CCL_I_PART_PLAIN, nroot};
    ways[n++] = (ccl_i_composition_t){CCL_I_PART_PLAIN, CCL_I_PART_TREE, nroot};
    ways[n++] = (ccl_i_composition_t){CCL_I_PART_INNER, CCL_I_PART_INNER, nroot};
    return n;
}

typedef struct ways {
    ccl_i_composer_t *c;
    const char *name;
    ccl_i_composition_t all[MOST_WAYS];
    double transfers; /* of the first schedule that was made */
} ways_t;

static double expect(void *user, uint32_t index) {
    const ways_t *ways = user;
    (void)index;
    return ways->transfers;
}

static ccl_status_t make_way(void *user, uint32_t index, const ccl_i_racer_t *with,
                             ccl_schedule_t **out, ccl_error_t *err) {
    ways_t *ways = user;
    (void)with;
    CCL_TRY(make(ways->c, ways->name, &ways->all[index], out, err));
    if (ways->transfers == 0)
        ways->transfers = (*out)->ntransfers;
    return CCL_OK;
}

/* Who made pods and rails; of the composing synthesizer also how it did. */
static void tell_origin(const ccl_i_composer_t *c, const char *name, const ccl_i_composition_t *of,
                        ccl_schedule_t *schedule) {
    const char *rails = of->rail == CCL_I_PART_INNER  ? name
                        : of->rail == CCL_I_PART_TREE ? "tree"
                                                      : "ring";
    const char *pods = of->pod == CCL_I_PART_INNER ? name : "direct";
    bool up = c->want->kind == CCL_REDUCESCATTER || c->want->kind == CCL_REDUCE;
    const char *how = c->kinds[0].in_pod[up][of->pod].origin;
    char size[64], kinds[32] = "";

    snprintf(size, sizeof(size), "%u", c->pods.most);
    if (c->pods.nkinds > 1)
        snprintf(kinds, sizeof(kinds), " of %u kinds", c->pods.nkinds);
    ccl_origin_set(schedule->origin, "compose: %u pods%s of%s %s by %s, rails by %s", c->pods.npods,
                   kinds, kinds[0] ? " up to" : "", size, pods, rails);
    if (of->pod == CCL_I_PART_INNER && how[0])
        ccl_origin_add(schedule->origin, "in pods %s", how);
}

/* Ways that a part's synthesizer cannot do are passed over. */
static ccl_status_t run(ccl_i_composer_t *c, const char *name, ccl_schedule_t **out,
                        ccl_error_t *err) {
    ways_t ways = {.c = c, .name = name};
    ccl_i_race_t race = {.ctx = c->ctx,
                         .topo = c->topo,
                         .make = make_way,
                         .in_turn = true, /* the composer's memory is for one at a time */
                         .user = &ways,
                         .level = CCL_GRANULARITY_TASK,
                         .size_bytes = c->size_bytes,
                         .skip_lone = true,
                         .margin = POLICY.margin,
                         .expect = expect,
                         .unit = CCL_I_RACE_TRANSFERS,
                         .left = POLICY.simulated};
    if (c->options->time_limit_s > 0)
        race.make_until_s = ccl_now_s() + c->options->time_limit_s / 2;
    ccl_status_t status = ccl_i_race_run(&race, list_ways(c, ways.all), err);
    if (status == CCL_OK)
        status = ccl_i_race_take(&race, out, err);
    if (status == CCL_OK) {
        const ccl_i_composition_t *of = &ways.all[race.best.index];
        (*out)->limited |= race.late;
        tell_origin(c, name, of, *out);
        ccl_log(c->ctx, CCL_LOG_INFO, "compose", "%u pods of %u kinds; pods %s, rails %s",
                c->pods.npods, c->pods.nkinds, of->pod == CCL_I_PART_INNER ? name : "direct",
                of->rail == CCL_I_PART_INNER  ? name
                : of->rail == CCL_I_PART_TREE ? "in trees"
                                              : "in rings");
    }
    ccl_i_race_fini(&race);
    return status;
}

/* ---------------------------------------------------------------- what there is */

static ccl_status_t make_parts(ccl_i_composer_t *c, ccl_error_t *err) {
    uint32_t *rail = calloc(c->pods.npods, sizeof *rail);
    c->kinds = calloc(c->pods.nkinds, sizeof *c->kinds);
    ccl_status_t status = rail && c->kinds ? CCL_OK : ccl_fail_nomem(err);
    for (uint32_t k = 0; status == CCL_OK && k < c->pods.nkinds; k++) {
        uint32_t np = ccl_i_kind_size(&c->pods, k), pod = ccl_i_kind_pod(&c->pods, k, 0);
        uint32_t g = ccl_i_pod_size(&c->pods, pod);
        for (uint32_t i = 0; i < np; i++)
            rail[i] = ccl_i_pod_rank(&c->pods, ccl_i_kind_pod(&c->pods, k, i), 0);
        if (g > 1)
            status = ccl_i_topology_part(c->topo, c->routes, c->pods.ranks + c->pods.first[pod], g,
                                         POLICY.pod_sms, &c->kinds[k].pod, err);
        if (status == CCL_OK && np > 1)
            status = ccl_i_topology_part(c->topo, c->routes, rail, np, POLICY.rail_sms,
                                         &c->kinds[k].rail, err);
    }
    free(rail);
    return status;
}

static ccl_status_t find_roots(ccl_i_composer_t *c, ccl_error_t *err) {
    uint32_t nchunks = c->parts * c->topo->nranks;
    ccl_i_exchange_t x;
    c->owner = calloc(nchunks, sizeof *c->owner);
    if (!c->owner)
        return ccl_fail_nomem(err);
    CCL_TRY(ccl_i_exchange_init(&x, c->topo, c->routes, NULL, err));
    /* Where all pods are alike all GPUs carry as much. */
    bool uniform = c->options->uniform_roots || c->pods.nkinds == 1;
    ccl_status_t status = ccl_i_turn_roots(&x, nchunks, uniform, c->owner, err);
    ccl_i_exchange_fini(&x);
    return status;
}

static ccl_status_t init(ccl_i_composer_t *c, ccl_error_t *err) {
    uint32_t n = c->topo->nranks;
    CCL_TRY(ccl_i_pods_find(c->topo, c->routes, false, &c->pods, err));
    if (2 * c->pods.nkinds > c->pods.npods)
        return ccl_fail(err, CCL_UNSUPPORTED, "pods differ: %u are of %u kinds", c->pods.npods,
                        c->pods.nkinds);
    if (!c->pods.rails)
        return ccl_fail(err, CCL_UNSUPPORTED,
                        "pods cannot be composed: no route leads from place to place");
    if (c->want->kind == CCL_ALLTOALL && c->pods.nkinds > 1)
        return ccl_fail(err, CCL_UNSUPPORTED, "pods differ: %u kinds, and alltoall wants one",
                        c->pods.nkinds);
    CCL_TRY(make_parts(c, err));
    c->arrived = calloc(c->pods.most, sizeof *c->arrived);
    c->at_head = calloc((size_t)c->pods.npods * c->pods.most, sizeof *c->at_head);
    c->given = calloc(n, sizeof *c->given);
    c->entered = calloc(n, sizeof *c->entered);
    c->sent = calloc(c->pods.npods, sizeof *c->sent);
    if (!c->arrived || !c->at_head || !c->given || !c->entered || !c->sent)
        return ccl_fail_nomem(err);
    c->parts = c->options->chunks ? c->options->chunks : 1;
    for (size_t i = 0; i < CCL_ARRAY_LEN(parts_tried) && !c->options->chunks && !is_rooted(c);
         i++) {
        double blocks = (double)n * n * (c->want->kind == CCL_ALLTOALL ? 4 : 1);
        if (parts_tried[i] > c->parts && blocks * parts_tried[i] <= POLICY.transfers)
            c->parts = parts_tried[i];
    }
    c->variants = is_rooted(c) ? POLICY.variants : c->parts;
    if (c->want->kind == CCL_ALLREDUCE)
        CCL_TRY(find_roots(c, err));
    return ccl_i_compose_heads(c, err);
}

static void fini(ccl_i_composer_t *c) {
    for (uint32_t k = 0; c->kinds && k < c->pods.nkinds; k++) {
        for (uint32_t i = 0; i < 2 * CCL_I_PART_SHAPES; i++) {
            ccl_i_compose_trees_fini(&c->kinds[k].in_pod[i % 2][i / 2]);
            ccl_i_compose_trees_fini(&c->kinds[k].on_rail[i % 2][i / 2]);
        }
        ccl_topology_destroy(c->kinds[k].pod);
        ccl_topology_destroy(c->kinds[k].rail);
    }
    free(c->kinds);
    ccl_i_pods_fini(&c->pods);
    free(c->moves);
    free(c->arrived);
    free(c->at_head);
    free(c->given);
    free(c->entered);
    free(c->sent);
    free(c->owner);
}

ccl_status_t ccl_i_compose(const ccl_i_asked_t *asked, const ccl_synth_ops_t *inner,
                           ccl_schedule_t **out, ccl_error_t *err) {
    ccl_i_composer_t c = {.ctx = asked->ctx,
                          .topo = asked->topo,
                          .routes = asked->routes,
                          .want = asked->want,
                          .options = asked->options,
                          .inner = inner};
    switch (c.want->kind) {
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
    case CCL_ALLREDUCE:
    case CCL_BROADCAST:
    case CCL_REDUCE:
    case CCL_ALLTOALL:
        break;
    default:
        return ccl_fail(err, CCL_UNSUPPORTED, "%s is not composed of pods' schedules",
                        c.want->name);
    }
    c.size_bytes = c.options->size_bytes > 0 ? c.options->size_bytes : POLICY.size;
    ccl_status_t status = init(&c, err);
    if (status == CCL_OK)
        status = run(&c, inner->name, out, err);
    fini(&c);
    if (status == CCL_OK && inner == &ccl_i_synth_greedy)
        status = ccl_i_lanes_if_faster(asked, out, err);
    return status;
}
