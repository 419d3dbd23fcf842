/*
 * cegis: HeteCCL's synthesizer (Hei et al., NSDI 2026, sections 4 and 5, appendices H and I).
 *
 * The cluster is chunked (chunking.h), a greedy plan in steps is the start, and
 * counterexample-guided search with Z3 takes steps away until a bound, a proof or a limit stops it.
 * ReduceScatter is AllGather time-reversed, AllReduce one after the other.
 *
 * The schedule is the plan for several slices of every chunk, each a round later than the one
 * before at every hop, so that all hops of the plan are busy at the same time. How many, into how
 * many parts shards are cut and how many connections hops get is decided by simulation.
 */
#include "synth/cegis/job.h"
#include "synth/common/options.h"
#include "synth/common/race.h"
#include "synth/registry.h"
#include "synth/common/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ccl_i_cegis_job_t cegis_t;
typedef ccl_i_cegis_side_t side_t;
typedef ccl_i_cegis_cut_t cut_t;
typedef ccl_i_cegis_trial_t trial_t;

#define FEWEST_TREES 8u
#define MOST_SLICES CCL_I_CEGIS_SLICES
/* More cuts of a block that are tried: the last ones where fewer divide badly, without a solver. */
static const uint32_t more_cuts[] = {2, 3, 4, 6, 8, 12};
#define EASY_CUTS 6u
#define MOST_STRETCH 3u
/* Other lengths of a step that are tried without a solver, and cuts: the estimate that chooses
   knows little of latency. */
static const struct {
    double stretch;
    uint32_t cuts;
} others[] = {{1, 1}, {1.5, 1}, {1.5, 3}, {2, 1}, {3, 1}};
_Static_assert(2 * (2 + CCL_ARRAY_LEN(more_cuts) + CCL_ARRAY_LEN(others)) <= CCL_I_CEGIS_PLANS,
               "up and down a cut may have two plans");

/*
 * How much is made and simulated. Work is in transfers (slices of transports) of simulations.
 * bench/cases/synth_small.c and synth_allgather.c run it.
 */
typedef struct policy {
    double size;          /* bytes, where the user gives none */
    double transfers;     /* of a schedule: twice as many slices gain less than 1 % there, and cost
                             every user of it twice the time */
    double trees;         /* of a plan in more cuts than needed */
    double other_worth;   /* part of the best time below which another length of a step is taken */
    double other_latency; /* part of a shard's time on the slowest hop that latency must have:
                             below, load decides, which no length of a step changes */
    double other_rough;   /* times the best estimate up to which other lengths are simulated */
    double other_work;    /* part of all work that they get beside the others */
    double rival_work;    /* the same, of a plan as it was before Z3 changed it */
    double pair_work;     /* work to choose cuts, slices and connections, for each pair of ranks: */
    double least_work[2]; /* at least (one way; up and down), */
    double work;          /* at most */
    double shares;        /* no first try costs more than 1 / this of all work */
    double least_factor;  /* factor by which a round lowers expected work, at least */
    double near;          /* times the best estimate up to which cuts are simulated */
    double rough;         /* the same, of at most half as many cuts as the best one, on GPUs whose
                             thread blocks count, which the estimate does not */
    double margin;        /* part of the time by which a later trial must be faster */
} policy_t;

static const policy_t POLICY = {.size = 256.0 * 1024 * 1024,
                                .transfers = 3e5,
                                .trees = 400,
                                .other_worth = 0.98,
                                .other_latency = 0.06,
                                .other_rough = 2,
                                .other_work = 0.5,
                                .rival_work = 0.5,
                                .pair_work = 400,
                                .least_work = {280000, 300000},
                                .work = 2e6,
                                .shares = 8,
                                .least_factor = 0.25,
                                .near = 1.03,
                                .rough = 1.4,
                                .margin = 1e-6};
/* Cuts that are simulated: by their estimates, and with those of fewer cuts. */
#define FINALISTS 3u
#define MOST_FINALISTS 7u

static bool supports(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why) {
    if (topo->nranks > UINT16_MAX) {
        *why = "more than 65535 GPUs";
        return false;
    }
    (void)want;
    return true;
}

/* ---------------------------------------------------------------- trees */

/** Root of the cut of a chunk. */
static uint32_t root_of(const cegis_t *c, uint32_t chunk, uint32_t cut) {
    const ccl_chunk_t *k = &c->want->chunks[chunk];
    if (!k->reduced)
        return k->sources[0];
    if (c->want->kind == CCL_ALLREDUCE)
        return c->owner ? c->owner[cut] : k->dests[cut % k->ndests]; /* equation 7 */
    return c->want->kind == CCL_CUSTOM ? k->dests[chunk % k->ndests] : k->dests[0];
}

static ccl_status_t list_chunks(cegis_t *c, side_t *side, ccl_error_t *err) {
    uint64_t ntrees = (uint64_t)c->want->nchunks * c->cuts;
    if (ntrees >= 1u << 20)
        return ccl_fail(err, CCL_UNSUPPORTED, "cegis: more than a million chunks");
    side->chunks = ccl_arena_alloc(&c->arena, ntrees + 1, sizeof *side->chunks);
    if (!side->chunks)
        return ccl_fail_nomem(err);
    for (uint32_t t = 0; t < ntrees; t++) {
        uint32_t k = t / c->cuts, ntargets = 0;
        const ccl_chunk_t *chunk = &c->want->chunks[k];
        uint32_t len = side->up ? chunk->nsources : chunk->ndests;
        const uint32_t *all = side->up ? chunk->sources : chunk->dests;
        if (chunk->ndests == 0 || chunk->nsources == 0)
            continue;
        uint32_t root = root_of(c, k, t % c->cuts);
        uint32_t *targets = ccl_arena_alloc(&c->arena, len + (size_t)1, sizeof *targets);
        if (!targets)
            return ccl_fail_nomem(err);
        for (uint32_t i = 0; i < len && (chunk->reduced || !side->up); i++) {
            if (all[i] != root)
                targets[ntargets++] = all[i];
        }
        side->used |= ntargets > 0;
        side->chunks[t] = (ccl_i_cegis_chunk_t){root, ntargets, targets};
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- one side */

static double size_of(const cegis_t *c) {
    return c->options->size_bytes > 0 ? c->options->size_bytes : POLICY.size;
}

static ccl_status_t discretise(cegis_t *c, side_t *side, double stretch, ccl_error_t *err) {
    double share = 0, bytes;
    ccl_i_cegis_problem_fini(&side->problem);
    ccl_i_chunking_fini(&side->capacity);
    memset(&side->problem, 0, sizeof side->problem);
    for (uint32_t k = 0; k < c->want->nchunks; k++)
        share = fmax(share, c->want->chunks[k].share);
    bytes = size_of(c) * share / c->cuts;
    CCL_TRY(ccl_i_chunking_init(&side->capacity, &side->x, bytes > 0 ? bytes : 1,
                                c->options->tau_ref_s, stretch, c->options->ceiling, side->up,
                                side->up, err));
    return ccl_i_cegis_problem_init(&side->problem, &side->x, &side->capacity, side->chunks,
                                    c->want->nchunks * c->cuts, side->one_send, err);
}

/** Longer steps lose less by rounding; taken where the bound on the time says that it pays. */
static ccl_status_t choose_stretch(cegis_t *c, side_t *side, ccl_error_t *err) {
    uint32_t best = 1;
    double best_s = INFINITY;
    if (c->stretch > 0)
        return discretise(c, side, c->stretch, err);
    for (uint32_t m = 1; m <= MOST_STRETCH && c->options->tau_ref_s == 0; m++) {
        CCL_TRY(discretise(c, side, m, err));
        double time_s = side->problem.bound * side->capacity.tau_ref_s;
        if (time_s < best_s * 0.99) {
            best_s = time_s;
            best = m;
        }
        if (c->options->ceiling)
            break;
    }
    return discretise(c, side, best, err);
}

static ccl_status_t index_plan(cegis_t *c, side_t *side, ccl_error_t *err) {
    uint32_t ntrees = c->want->nchunks * c->cuts;
    side->first = ccl_arena_alloc(&c->arena, ntrees + (size_t)2, sizeof *side->first);
    side->order = ccl_arena_alloc(&c->arena, side->plan.len + 1, sizeof *side->order);
    if (!side->first || !side->order)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < side->plan.len; i++)
        side->first[side->plan.sends[i].chunk + 2]++;
    for (uint32_t k = 0; k < ntrees; k++)
        side->first[k + 1] += side->first[k];
    side->serial = ccl_arena_alloc(&c->arena, side->plan.len + 1, sizeof *side->serial);
    side->sends_of = ccl_arena_alloc(&c->arena, side->x.nhops + (size_t)1, sizeof(uint32_t));
    if (!side->serial || !side->sends_of)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < side->plan.len; i++) {
        side->order[side->first[side->plan.sends[i].chunk + 1]++] = (uint32_t)i;
        side->serial[i] = side->sends_of[side->plan.sends[i].hop]++;
    }
    return CCL_OK;
}

static ccl_status_t discretise_side(cegis_t *c, side_t *side, ccl_error_t *err) {
    ccl_i_exchange_options_t options = {NULL, side->up, side->up};
    CCL_TRY(list_chunks(c, side, err));
    if (!side->used)
        return CCL_OK;
    CCL_TRY(ccl_i_exchange_init(&side->x, c->topo, c->routes, &options, err));
    return choose_stretch(c, side, err);
}

static ccl_status_t make_side(cegis_t *c, side_t *side, ccl_error_t *err) {
    CCL_TRY(discretise_side(c, side, err));
    if (!side->used)
        return CCL_OK;
    c->task.side = side->up ? "reduce" : "gather";
    if (c->given && !side->up) {
        c->stats = c->given_stats;
        if (!ccl_i_cegis_plan_copy(&side->plan, c->given))
            return ccl_fail_nomem(err);
    } else {
        CCL_TRY(ccl_i_cegis_solve(&c->task, &side->problem, &side->plan, err));
    }
    if (!side->up)
        c->given_stats = c->stats;
    return index_plan(c, side, err);
}

/** Slices of the plan in hand. @return what the schedule will take, roughly. */
static double choose_slices(cegis_t *c) {
    double slices = 1, sends = 0;
    for (int i = 0; i < 2; i++) {
        const side_t *side = &c->sides[i];
        sends += (double)side->plan.len;
        if (side->used)
            slices = fmax(slices, ccl_i_cegis_slices(&side->problem, &side->plan));
    }
    slices = fmin(slices, POLICY.transfers / fmax(sends, 1));
    c->slices = 1;
    while (2 * c->slices <= slices && 2 * c->slices <= MOST_SLICES)
        c->slices *= 2;
    double time_s = 0;
    for (int i = 0; i < 2; i++) {
        const side_t *side = &c->sides[i];
        if (side->used)
            time_s += ccl_i_cegis_load_s(&side->problem, &side->plan) +
                      side->plan.nsteps * side->capacity.tau_ref_s / c->slices;
    }
    return time_s;
}

static void side_fini(side_t *side) {
    bool up = side->up, one_send = side->one_send;
    ccl_i_cegis_plan_fini(&side->plan);
    ccl_i_cegis_problem_fini(&side->problem);
    ccl_i_chunking_fini(&side->capacity);
    ccl_i_exchange_fini(&side->x);
    memset(side, 0, sizeof *side);
    side->up = up;
    side->one_send = one_send;
}

/** Whether a part is held up by how its chunks divide over links rather than by what these carry.
 */
static bool is_uneven(const side_t *side) {
    return side->used &&
           ccl_i_cegis_load_s(&side->problem, &side->plan) > 1.02 * side->problem.load_s;
}

static ccl_status_t make_sides(cegis_t *c, ccl_error_t *err) {
    c->owner = NULL;
    if (c->want->kind == CCL_ALLREDUCE && !c->options->uniform_roots) {
        CCL_TRY(ccl_i_exchange_init(&c->sides[0].x, c->topo, c->routes, NULL, err));
        c->owner = ccl_arena_alloc(&c->arena, c->cuts, sizeof *c->owner);
        if (!c->owner)
            return ccl_fail_nomem(err);
        CCL_TRY(ccl_i_turn_roots(&c->sides[0].x, c->cuts, false, c->owner, err));
        side_fini(&c->sides[0]);
    }
    for (int i = 0; i < 2; i++)
        CCL_TRY(make_side(c, &c->sides[i], err));
    return CCL_OK;
}

/** The plan in hand is set aside, or brought back (pointers inside it point to c->sides). */
static void keep(cegis_t *c) {
    cut_t *cut = &c->cut[c->ncuts++];
    double estimate_s = choose_slices(c);
    *cut = (cut_t){.cuts = c->cuts,
                   .slices = c->slices,
                   .owner = c->owner,
                   .estimate_s = estimate_s,
                   .other = c->stretch > 0,
                   .stats = c->stats};
    memcpy(cut->sides, c->sides, sizeof cut->sides);
    memset(c->sides, 0, sizeof c->sides);
    c->sides[1].up = true;
}

static void take(cegis_t *c, uint32_t i) {
    const cut_t *cut = &c->cut[i];
    c->cuts = cut->cuts;
    c->slices = cut->slices;
    c->owner = cut->owner;
    memcpy(c->sides, cut->sides, sizeof c->sides);
}

/** A plan for c->cuts cuts. @param free  without equation 8: slices are not in step anyway. */
static ccl_status_t make_cut(cegis_t *c, bool free, bool *uneven_out, ccl_error_t *err) {
    c->sides[1].one_send = !free;
    memset(&c->stats, 0, sizeof c->stats);
    CCL_TRY(make_sides(c, err));
    *uneven_out = is_uneven(&c->sides[0]) || is_uneven(&c->sides[1]);
    bool up = is_uneven(&c->sides[1]);
    keep(c);
    if (!up || free || c->task.limited)
        return CCL_OK;
    const ccl_i_cegis_plan_t *down = &c->cut[c->ncuts - 1].sides[0].plan;
    bool other;
    c->given = down->len ? down : NULL;
    c->given_stats.counterexamples = c->given_stats.solver_calls = 0; /* counted once */
    c->given_stats.solver_s = 0;
    c->given_stats.solver_work = 0;
    ccl_status_t status = make_cut(c, true, &other, err);
    c->given = NULL;
    return status;
}

/** Part that latency has of the time of a GPU's block on the slowest hop. */
static double latency_share(const cegis_t *c, const side_t *side) {
    double blocks = c->options->chunks ? c->options->chunks : 1, slowest_s = 0, alpha_s = 0;
    for (uint32_t h = 0; h < side->x.nhops; h++) {
        if (side->capacity.hop_tau_s[h] <= slowest_s)
            continue;
        slowest_s = side->capacity.hop_tau_s[h];
        alpha_s = side->x.hops[h].alpha_s;
    }
    return slowest_s > 0 ? alpha_s / (alpha_s + (slowest_s - alpha_s) * blocks) : 0;
}

/** Steps of other lengths than the first plan's. */
static ccl_status_t make_others(cegis_t *c, ccl_error_t *err) {
    const side_t *side = &c->cut[0].sides[!c->cut[0].sides[0].used];
    double chosen = side->capacity.stretch;
    uint32_t one = c->cuts;
    bool uneven;
    if (!side->used || latency_share(c, side) < POLICY.other_latency)
        return CCL_OK;
    for (size_t i = 0; i < CCL_ARRAY_LEN(others) && chosen > 0 && !c->options->ceiling; i++) {
        uint32_t cuts = c->options->chunks ? 1 : others[i].cuts;
        if (c->task.limited || (others[i].stretch == chosen && cuts == 1) ||
            (cuts == 1 && others[i].cuts > 1) ||
            (double)cuts * one * c->want->nchunks > POLICY.trees)
            continue;
        c->stretch = others[i].stretch;
        c->cuts = cuts * one;
        c->task.start_only = true;
        CCL_TRY(make_cut(c, false, &uneven, err));
    }
    c->stretch = 0;
    c->cuts = one;
    return CCL_OK;
}

/** Plans for one and for more cuts of a chunk; the solver works on the first. */
static ccl_status_t make_cuts(cegis_t *c, ccl_error_t *err) {
    uint32_t one = c->cuts;
    bool uneven = false;
    CCL_TRY(make_cut(c, false, &uneven, err));
    c->solved = c->task.solved;
    if (c->solved && !c->task.limited) {
        /* Fewer steps may take longer, which simulation shows. */
        bool ignored;
        uint32_t first = c->ncuts;
        c->task.start_only = true;
        CCL_TRY(make_cut(c, false, &ignored, err));
        for (uint32_t k = first; k < c->ncuts; k++)
            c->cut[k].rival = true;
    }
    CCL_TRY(make_others(c, err));
    for (size_t i = 0; !c->options->chunks && i < CCL_ARRAY_LEN(more_cuts); i++) {
        uint32_t n = more_cuts[i];
        if (c->task.limited || (double)n * one * c->want->nchunks > POLICY.trees ||
            (n > EASY_CUTS && !uneven))
            break;
        c->cuts = n * one;
        c->task.start_only = true;
        CCL_TRY(make_cut(c, false, &uneven, err));
    }
    return CCL_OK;
}

/* ---------------------------------------------------------------- the schedule */

static uint32_t root(void *user, const ccl_i_want_t *want) {
    const cegis_t *c = user;
    return root_of(c, want->chunk, want->part / c->slices);
}

static ccl_status_t tree(void *user, const ccl_i_want_t *want, ccl_i_tree_t *out,
                         ccl_error_t *err) {
    cegis_t *c = user;
    side_t *side = &c->sides[want->up];
    uint32_t slice = want->part % c->slices;
    uint32_t k = want->chunk * c->cuts + want->part / c->slices;
    (void)err;
    if (!side->used)
        return CCL_OK;
    if (want->up) /* time-reversed, the last comes first; results shall go out in the order of
                     slices */
        slice = c->slices - 1 - slice;
    c->depth[want->root] = 0;
    for (size_t i = side->first[k]; i < side->first[k + 1]; i++) {
        const ccl_i_cegis_send_t *send = &side->plan.sends[side->order[i]];
        const ccl_i_hop_t *hop = &side->x.hops[send->hop];
        uint32_t round = c->slices > 1 ? slice + c->depth[hop->src] : 0, h = send->hop;
        uint32_t serial = side->serial[side->order[i]] + slice * side->sends_of[h];
        c->depth[hop->dst] = c->depth[hop->src] + 1;
        ccl_i_tree_add(out, hop->src, hop->dst, round * side->plan.nsteps + send->step,
                       side->lane_channel[side->lane_first[h] + serial % side->lanes[h]]);
    }
    return CCL_OK;
}

static ccl_status_t make(cegis_t *c, ccl_i_cluster_t *cluster, ccl_schedule_t **out,
                         ccl_error_t *err) {
    ccl_i_plan_t plan = {.name = "cegis",
                         .parts = c->cuts * c->slices,
                         .spread_roots = c->want->kind == CCL_CUSTOM,
                         .down_channels = c->down_channels,
                         .root = root,
                         .tree = tree,
                         .user = c};
    return ccl_i_plan_run(c->ctx, cluster, c->want, &plan, out, err);
}

/* ---------------------------------------------------------------- the fastest by simulation */

static double sends_of(const cut_t *cut) {
    return (double)cut->sides[0].plan.len + (double)cut->sides[1].plan.len;
}

/** Of a simulation: transfers, or slices that transports cut them into. */
static double work_of(const cegis_t *c, const cut_t *cut, uint32_t slices) {
    double bytes = 0, least = INFINITY;
    for (int i = 0; i < 2; i++)
        if (cut->sides[i].used)
            bytes += (double)cut->sides[i].plan.len * cut->sides[i].capacity.chunk_bytes;
    for (uint32_t t = 0; t < c->topo->ntransports; t++) {
        const ccl_transport_spec_t *spec = &c->topo->transports[t];
        if (!spec->protocol || strcmp(spec->protocol, "Simple") == 0)
            least = fmin(least, spec->value.slice_bytes);
    }
    return fmax(sends_of(cut) * slices, bytes / least);
}

/** Whether another trial is the same schedule. */
static bool same(const cegis_t *c, const trial_t *a, const trial_t *b) {
    bool same = a->cut == b->cut && a->slices == b->slices;
    for (int i = 0; i < 2 && same; i++) {
        const side_t *side = &c->cut[a->cut].sides[i];
        if (side->used)
            same = memcmp(a->lanes_of[i], b->lanes_of[i], side->x.nhops * sizeof(uint32_t)) == 0;
    }
    return same;
}

static double expect(void *user, uint32_t index) {
    const cegis_t *c = user;
    const trial_t *trial = &c->trials[index];
    return work_of(c, &c->cut[trial->cut], trial->slices) * c->cost_factor;
}

/** Dropped where another one is the same. */
static ccl_status_t make_trial(void *user, uint32_t index, const ccl_i_racer_t *with,
                               ccl_schedule_t **out, ccl_error_t *err) {
    cegis_t *c = user;
    trial_t *trial = &c->trials[index];
    take(c, trial->cut);
    c->slices = trial->slices;
    CCL_TRY(ccl_i_cegis_channels(c, trial->lanes, err));
    for (int k = 0; k < 2; k++) {
        c->cut[trial->cut].sides[k].contended = c->sides[k].contended;
        trial->lanes_of[k] = c->sides[k].lanes;
    }
    bool again = c->race.best.schedule && same(c, trial, c->best);
    for (uint32_t k = 0; k < index; k++)
        again |= c->race.results[k].made && same(c, trial, &c->trials[k]);
    if (again)
        return ccl_fail(err, CCL_UNSUPPORTED, "it is the same as another one");
    return make(c, with->cluster, out, err);
}

/** Make trials, as far as there is work left, and simulate them; the best so far is c->best. */
static ccl_status_t race(cegis_t *c, trial_t *trials, uint32_t n, ccl_error_t *err) {
    ccl_i_race_t *r = &c->race;
    c->trials = trials;
    if (c->task.deadline_s > 0 && ccl_now_s() > c->task.deadline_s)
        c->task.limited = true;
    r->time_until_s = c->task.deadline_s;
    r->make_until_s = c->task.limited ? -1 : c->task.deadline_s;
    ccl_status_t status = ccl_i_race_run(r, n, err);
    memset(c->sides, 0, sizeof c->sides); /* they are c->cut's */
    CCL_TRY(status);
    c->task.limited |= r->late;
    if (r->counted > 0)
        c->cost_factor *= fmax(r->counted / r->expected, POLICY.least_factor);
    if (r->best.index != CCL_NONE) {
        *c->best = trials[r->best.index];
        c->best->time_s = r->best.time_s;
    }
    return CCL_OK;
}

static int by_estimate(const void *a, const void *b) {
    const cut_t *x = a, *y = b;
    int later = (x->estimate_s > y->estimate_s) - (x->estimate_s < y->estimate_s);
    if (x->other != y->other)
        return x->other - y->other;
    return later ? later : (x->cuts > y->cuts) - (x->cuts < y->cuts);
}

/**
 * The best cut with other connections and with more or fewer slices; then on in the direction that
 * helped, as long as it does.
 */
static ccl_status_t refine(cegis_t *c, ccl_error_t *err) {
    const trial_t *best = c->best;
    trial_t trials[CCL_I_LANES_KINDS + 1];
    uint32_t tried[2] = {best->slices, best->slices}; /* the fewest and the most */
    for (bool first = true;; first = false) {
        trial_t from = *best;
        uint32_t len = 0, fewer = from.slices / 2, more = 2 * from.slices;
        bool many = more > MOST_SLICES || more * sends_of(&c->cut[from.cut]) > POLICY.transfers;
        if (!many && more > tried[1])
            trials[len] = from, trials[len++].slices = tried[1] = more;
        for (uint32_t k = 0; first && k < CCL_I_LANES_KINDS; k++) {
            if (k == from.lanes)
                continue;
            if (k == CCL_I_LANES_LINK) /* where it is not the fastest, it is hardly ever far off */
                c->race.lead = len;
            trials[len] = from, trials[len++].lanes = (ccl_i_cegis_lanes_t)k;
        }
        if (fewer && fewer < tried[0])
            trials[len] = from, trials[len++].slices = tried[0] = fewer;
        CCL_TRY(race(c, trials, len, err));
        if (best->lanes != from.lanes)
            tried[0] = tried[1] = best->slices;
        else if (best->slices == from.slices)
            return CCL_OK;
    }
}

/** A plan as it is tried first: as many slices as there is work for. */
static trial_t first_trial(const cegis_t *c, uint32_t k) {
    const cut_t *cut = &c->cut[k];
    uint32_t slices = cut->slices;
    while (slices > 1 && sends_of(cut) * slices > c->race.left / POLICY.shares)
        slices /= 2;
    return (trial_t){.cut = k, .slices = slices, .lanes = CCL_I_LANES_RATE};
}

/** Steps of other lengths, with work of their own: what was found is not lost for them. */
static ccl_status_t choose_other(cegis_t *c, double work, uint32_t first, ccl_error_t *err) {
    trial_t trials[2 * CCL_ARRAY_LEN(others)], other = {.time_s = INFINITY}, *best = c->best;
    uint32_t len = 0;
    c->race.left = fmax(c->race.left, 0) + POLICY.other_work * work;
    for (uint32_t k = first; k < c->ncuts; k++)
        if (c->cut[k].estimate_s <= POLICY.other_rough * c->cut[0].estimate_s)
            trials[len++] = first_trial(c, k);
    if (!len)
        return CCL_OK;
    ccl_i_race_best_t last = ccl_i_race_set_aside(&c->race);
    c->best = &other;
    c->race.most_s = POLICY.rough * best->time_s;
    ccl_status_t status = race(c, trials, len, err);
    if (status == CCL_OK && c->race.best.schedule && other.time_s <= POLICY.rough * best->time_s)
        status = refine(c, err);
    c->best = best;
    if (status == CCL_OK && other.time_s < POLICY.other_worth * best->time_s) {
        *best = other;
        ccl_schedule_destroy(last.schedule);
    } else {
        ccl_schedule_destroy(c->race.best.schedule);
        c->race.best = last;
    }
    return status;
}

/** Cuts, slices and connections: the best cuts as estimated are lowered and simulated. */
static ccl_status_t choose(cegis_t *c, ccl_error_t *err) {
    trial_t only = {.cut = 0, .slices = 1, .lanes = CCL_I_LANES_PLAIN}, trials[MOST_FINALISTS];
    double n = c->nranks, work;
    c->cost_factor = 1;
    if (c->options->part)
        return race(c, &only, 1, err);
    bool two_ways = c->cut[0].sides[0].used && c->cut[0].sides[1].used;
    work = fmin(fmax(POLICY.pair_work * n * n, POLICY.least_work[two_ways]), POLICY.work);
    if (c->options->effort > 0)
        work *= c->options->effort;
    c->race.left = work * (c->solved ? 1 + POLICY.rival_work : 1);
    qsort(c->cut, c->ncuts, sizeof *c->cut, by_estimate);
    uint32_t ncuts = 0;
    while (ncuts < c->ncuts && !c->cut[ncuts].other)
        ncuts++;
    /* The best one, those with few cuts, then others that are near: the last ones go first where
       there is not enough work. */
    uint32_t len = 0, most = MOST_FINALISTS - FINALISTS - (c->solved ? 0 : 1);
    for (uint32_t i = 0; i < 2 * ncuts && len < MOST_FINALISTS - (c->solved ? 0 : 2); i++) {
        uint32_t k = i % ncuts;
        double worse = c->cut[k].estimate_s / c->cut[0].estimate_s;
        bool few = ccl_model_gpu(c->topo, 0).sms && 2 * c->cut[k].cuts <= c->cut[0].cuts;
        bool first = k == 0 || ((few || c->cut[k].rival) && worse <= POLICY.rough && len < most);
        if (i < ncuts ? !first
                      : k == 0 || few || c->cut[k].rival || k >= FINALISTS || worse > POLICY.near)
            continue;
        trials[len++] = first_trial(c, k);
    }
    CCL_TRY(race(c, trials, len, err));
    CCL_TRY(refine(c, err));
    return choose_other(c, work, ncuts, err);
}

/** Which start the plan that was taken has, and what the solver changed of it. */
static void tell_origin(const cegis_t *c, const cut_t *best, ccl_schedule_t *schedule) {
    const char *start = c->options->plain_start ? "plain" : "greedy";
    const ccl_synth_stats_t *own = &best->stats;
    uint32_t calls = 0;

    for (uint32_t k = 0; k < c->ncuts; k++)
        calls += c->cut[k].stats.solver_calls;
    ccl_origin_set(schedule->origin, "cegis: %s start, ", start);
    char *end = schedule->origin + strlen(schedule->origin);
    size_t room = (size_t)(schedule->origin + CCL_ORIGIN_LEN - end);
    if (own->solver_steps)
        snprintf(end, room, "Z3 took %u step%s away%s", own->solver_steps,
                 own->solver_steps == 1 ? "" : "s",
                 own->solver_spreads ? " and spread the load" : "");
    else if (own->solver_spreads)
        snprintf(end, room, "Z3 spread the load");
    else if (own->solver_calls)
        snprintf(end, room, "Z3 asked in vain");
    else
        snprintf(end, room, calls ? "Z3 asked about another plan only" : "Z3 not asked");
}

static ccl_status_t run(cegis_t *c, ccl_schedule_t **out, ccl_error_t *err) {
    trial_t best = {.time_s = INFINITY};
    c->best = &best;
    c->race = (ccl_i_race_t){.ctx = c->ctx,
                             .topo = c->topo,
                             .routes = c->routes,
                             .clusters = true,
                             .make = make_trial,
                             .in_turn = true, /* the plan in hand is one */
                             .user = c,
                             .level = CCL_GRANULARITY_TASK,
                             .size_bytes = size_of(c),
                             .skip_lone = c->options->part,
                             .margin = POLICY.margin,
                             .give_up = true,
                             .expect = expect};
    c->depth = ccl_arena_alloc(&c->arena, c->nranks, sizeof *c->depth);
    ccl_status_t status = c->depth ? make_cuts(c, err) : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = choose(c, err);
    if (status == CCL_OK)
        status = ccl_i_race_take(&c->race, out, err);
    ccl_i_race_fini(&c->race);
    if (status != CCL_OK)
        return status;
    ccl_log(c->ctx, CCL_LOG_INFO, "cegis", "%u cuts of a block, %u slices, connections by %s",
            c->cut[best.cut].cuts, best.slices,
            best.lanes == CCL_I_LANES_PLAIN  ? "chunk"
            : best.lanes == CCL_I_LANES_RATE ? "what they carry"
                                             : "what links carry");
    tell_origin(c, &c->cut[best.cut], *out);
    if (c->options->stats) {
        ccl_synth_stats_t *all = c->options->stats;
        all->dropped += c->task.dropped;
        const ccl_synth_stats_t *own = &c->cut[best.cut].stats;
        all->parts += own->parts;
        all->start_steps += own->start_steps;
        all->steps += own->steps;
        all->bound_steps += own->bound_steps;
        all->solver_steps += own->solver_steps;
        all->solver_spreads += own->solver_spreads;
        for (uint32_t k = 0; k < c->ncuts; k++) { /* what was asked on the way there, too */
            all->counterexamples += c->cut[k].stats.counterexamples;
            all->solver_calls += c->cut[k].stats.solver_calls;
            all->solver_s += c->cut[k].stats.solver_s;
            all->solver_work += c->cut[k].stats.solver_work;
        }
    }
    (*out)->limited = c->task.limited || c->task.dropped;
    return CCL_OK;
}

static void cegis_init(cegis_t *c, const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                       ccl_routes_t *routes, const ccl_collective_t *want,
                       const ccl_synth_options_t *options) {
    uint32_t trees = want->kind == CCL_ALLREDUCE ? want->nranks : want->nchunks;
    memset(c, 0, sizeof *c);
    c->ctx = ctx;
    c->options = options;
    c->want = want;
    c->topo = topo;
    c->routes = routes;
    c->nranks = topo->nranks;
    c->cuts = options->chunks ? options->chunks : 1;
    if (!options->chunks && trees && trees < FEWEST_TREES)
        c->cuts = (FEWEST_TREES + trees - 1) / trees;
    if (want->kind == CCL_ALLREDUCE)
        c->cuts *= want->nranks;
    c->sides[1].up = true;
    c->sides[1].one_send = true;
    c->task =
        (ccl_i_cegis_task_t){.ctx = ctx, .options = options, .stats = &c->stats, .balance = true};
    if (options->time_limit_s > 0)
        c->task.deadline_s = ccl_now_s() + options->time_limit_s;
}

static void cegis_fini(cegis_t *c) {
    for (int i = 0; i < 2; i++) {
        side_fini(&c->sides[i]);
        for (uint32_t k = 0; k < c->ncuts; k++)
            side_fini(&c->cut[k].sides[i]);
    }
    ccl_arena_fini(&c->arena);
}

static ccl_status_t synthesize(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err) {
    cegis_t c;
    cegis_init(&c, ctx, topo, routes, want, options);
    ccl_status_t status = run(&c, out, err);
    cegis_fini(&c);
    return status;
}

ccl_status_t ccl_synth_capacities(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_collective_t *want,
                                  const ccl_synth_options_t *options, ccl_chunk_capacities_t **out,
                                  ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_synth_options_t, options, err);
    const ccl_synth_options_t defaults = CCL_SYNTH_OPTIONS_INIT;
    cegis_t c;
    if (want->nranks != topo->nranks)
        return ccl_fail(err, CCL_ERR_INPUT, "the collective has %u ranks, topology %.80s has %u",
                        want->nranks, topo->name, topo->nranks);
    cegis_init(&c, ctx, topo, routes, want, options ? options : &defaults);
    ccl_status_t status = discretise_side(&c, &c.sides[0], err);
    side_t *side = &c.sides[0];
    if (status == CCL_OK && !side->used) {
        side = &c.sides[1];
        status = discretise_side(&c, side, err);
    }
    if (status == CCL_OK && !side->used)
        status = ccl_fail(err, CCL_ERR_INPUT, "%.80s moves nothing", want->name);
    if (status == CCL_OK)
        status = ccl_i_chunking_explain(&side->capacity, &side->x, out, err);
    cegis_fini(&c);
    return status;
}

static const ccl_option_t own_options[] = {
    {.name = "effort",
     .type = CCL_OPTION_COUNT,
     .offset = CCL_I_SYNTH_AT(effort),
     .value = "N",
     .automatic = 1,
     .doc = "times the usual work of solver and simulation; 0: the start alone",
     .otherwise = "1",
     .knob = "effort",
     .knob_max = 1000},
    {.name = "tau-ref",
     .type = CCL_OPTION_TIME,
     .offset = CCL_I_SYNTH_AT(tau_ref_s),
     .value = "TIME",
     .doc = "length of a step",
     .otherwise = "a multiple of what the slowest hop needs for a chunk",
     .knob = "tau_ref"},
    {.name = "capacity",
     .type = CCL_OPTION_EITHER,
     .offset = CCL_I_SYNTH_AT(ceiling),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("floor", "ceiling"),
     .doc = "chunks that a link carries in a step are rounded down, or up as in HeteCCL's "
            "equation 1",
     .otherwise = "floor",
     .knob = "capacity"},
    {.name = "start",
     .type = CCL_OPTION_EITHER,
     .offset = CCL_I_SYNTH_AT(plain_start),
     .value = "HOW",
     .words = CCL_OPTION_WORDS("zones", "plain"),
     .doc = "the greedy start looks at zones and rarity, or fills links at random",
     .otherwise = "zones",
     .knob = "start"},
    {.name = "search-trace",
     .type = CCL_OPTION_OUTPUT,
     .offset = CCL_I_SYNTH_AT(trace),
     .value = "FILE",
     .doc = "write a JSON line per snapshot of the search",
     .alias = "trace",
     .flags = CCL_OPTION_NEUTRAL},
    {.name = NULL},
};
static const ccl_option_t *const options[] = {ccl_i_rooted_options, ccl_i_compose_options,
                                              own_options, NULL};

const ccl_synth_ops_t ccl_i_synth_cegis = {
    .size = sizeof(ccl_synth_ops_t),
    .name = "cegis",
    .summary = "chunked steps, greedy start, counterexample-guided repair with Z3",
    .source = "HeteCCL (NSDI 2026), sections 4 and 5, appendices H and I",
    .supports = supports,
    .synthesize = synthesize,
    .by_size = true,
    .through_switches = true,
    .way = &ccl_way_hpds,
    .composable = true,
    .options = options,
};
