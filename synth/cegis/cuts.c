/* The plans of one run of cegis: for one and for more cuts of a chunk, in steps of several lengths.
 */
#include "synth/cegis/job.h"
#include "synth/common/turn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef ccl_i_cegis_job_t cegis_t;
typedef ccl_i_cegis_side_t side_t;
typedef ccl_i_cegis_cut_t cut_t;

/* More cuts of a block that are tried: the last ones where fewer divide badly, without a solver. */
static const uint32_t more_cuts[] = {2, 3, 4, 6, 8, 12};
#define EASY_CUTS 6u
#define MOST_STRETCH 3u
/* Other lengths of a step that are tried without a solver, and cuts: the estimate that chooses
   knows little of latency. */
static const struct {
    double stretch;
    uint32_t cuts;
} others[CCL_I_CEGIS_OTHERS] = {{1, 1}, {1.5, 1}, {1.5, 3}, {2, 1}, {3, 1}};
_Static_assert(2 * (2 + CCL_ARRAY_LEN(more_cuts) + CCL_ARRAY_LEN(others)) <= CCL_I_CEGIS_PLANS,
               "up and down a cut may have two plans");

/* ---------------------------------------------------------------- trees */

/** Root of the cut of a chunk. */
uint32_t ccl_i_cegis_root(const cegis_t *c, uint32_t chunk, uint32_t cut) {
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
        uint32_t root = ccl_i_cegis_root(c, k, t % c->cuts);
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

double ccl_i_cegis_size(const cegis_t *c) {
    return c->options->size_bytes > 0 ? c->options->size_bytes : ccl_i_cegis_policy.size;
}

static ccl_status_t discretise(cegis_t *c, side_t *side, double stretch, ccl_error_t *err) {
    double share = 0, bytes;
    ccl_i_cegis_problem_fini(&side->problem);
    ccl_i_chunking_fini(&side->capacity);
    memset(&side->problem, 0, sizeof side->problem);
    for (uint32_t k = 0; k < c->want->nchunks; k++)
        share = fmax(share, c->want->chunks[k].share);
    bytes = ccl_i_cegis_size(c) * share / c->cuts;
    CCL_TRY(ccl_i_chunking_init(
        &side->capacity, &side->x, bytes > 0 ? bytes : 1,
        (ccl_i_chunking_step_t){c->options->tau_ref_s, stretch, c->options->ceiling}, side->up,
        err));
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

ccl_status_t ccl_i_cegis_discretise(cegis_t *c, side_t *side, ccl_error_t *err) {
    ccl_i_exchange_options_t options = {NULL, side->up, side->up};
    CCL_TRY(list_chunks(c, side, err));
    if (!side->used)
        return CCL_OK;
    CCL_TRY(ccl_i_exchange_init(&side->x, c->topo, c->routes, &options, err));
    return choose_stretch(c, side, err);
}

static ccl_status_t make_side(cegis_t *c, side_t *side, ccl_error_t *err) {
    CCL_TRY(ccl_i_cegis_discretise(c, side, err));
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
    slices = fmin(slices, ccl_i_cegis_policy.transfers / fmax(sends, 1));
    c->slices = 1;
    while (2 * c->slices <= slices && 2 * c->slices <= CCL_I_CEGIS_SLICES)
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

void ccl_i_cegis_side_fini(side_t *side) {
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
        ccl_i_cegis_side_fini(&c->sides[0]);
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

void ccl_i_cegis_take(cegis_t *c, uint32_t i) {
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
    if (!side->used || latency_share(c, side) < ccl_i_cegis_policy.other_latency)
        return CCL_OK;
    for (size_t i = 0; i < CCL_ARRAY_LEN(others) && chosen > 0 && !c->options->ceiling; i++) {
        uint32_t cuts = c->options->chunks ? 1 : others[i].cuts;
        if (c->task.limited || (others[i].stretch == chosen && cuts == 1) ||
            (cuts == 1 && others[i].cuts > 1) ||
            (double)cuts * one * c->want->nchunks > ccl_i_cegis_policy.trees)
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

ccl_status_t ccl_i_cegis_cuts(cegis_t *c, ccl_error_t *err) {
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
        if (c->task.limited || (double)n * one * c->want->nchunks > ccl_i_cegis_policy.trees ||
            (n > EASY_CUTS && !uneven))
            break;
        c->cuts = n * one;
        c->task.start_only = true;
        CCL_TRY(make_cut(c, false, &uneven, err));
    }
    return CCL_OK;
}
