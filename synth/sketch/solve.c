/*
 * Sketches with solved sub-demands: which groups have one, answers of several kinds, each for all
 * groups that are alike, on all cores; what comes of them joins the sketches that mixes are made
 * of.
 */
#include "synth/sketch/solve.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "synth/compose/compose.h"
#include "synth/registry.h"

enum {
    MOST_GPUS = 32,      /* of a group */
    MOST_SHAPE_GPUS = 8, /* of a group with all hops, where shapes are switched off */
    FEW_TREES = 8,
    MOST_SKETCHES = 12 /* that get solved forms */
};
/* GLPK's: what it does in a second or so. Should its simplex stall all the same, the clock ends it,
   and the schedule is marked. */
#define STALLED_S 30.0
/* No epoch is longer than this many chunks take on the fastest link. */
#define MOST_EPOCHS 1e6
static const ccl_i_part_limits_t LIMITS = {
    .nodes = 100, .tries = 5, .epochs = 24, .variables = 3000};
/* Of a small group the root of the search has the answer, or the other ways do as well. */
enum { SMALL_GPUS = 8, SMALL_NODES = 2 };

/* Ways to answer a sub-demand. */
typedef struct kind {
    const ccl_synth_ops_t *ops; /* whose trees; NULL: the epoch MILP */
    bool fine;
    uint32_t chunks;
    uint32_t
        cut;    /* chunks to ask for; 0: as many as suit, CCL_I_MOST_CUTS if these make no trees */
    bool whole; /* only of all GPUs */
} kind_t;
static const kind_t KINDS[] = {
    {NULL, false, 1, 0, false},
    {NULL, true, 1, 0, false},
    {NULL, true, 2, 0, false},
    {&ccl_i_synth_packing, false, 0, 0, false},
    {&ccl_i_synth_ring, false, 0, 0, false},
    {&ccl_i_synth_greedy, false, 0, CCL_I_MOST_CUTS, false}, /* all cuts take ten times as long */
    {&ccl_i_synth_hm, false, 0, 0, true},                    /* few steps, for small messages */
    {&ccl_i_synth_packing, false, 0, FEW_TREES, true},       /* pieces that flow want few */
};
enum { NKINDS = CCL_ARRAY_LEN(KINDS) };
const char *const ccl_i_solver_names[] = {
    "coarse epochs", "fine epochs", "fine epochs, halves", "packing", "ring",
    "greedy",        "hm",          "packing, few trees",  NULL};
_Static_assert(CCL_ARRAY_LEN(ccl_i_solver_names) == NKINDS + 1, "a name for each");

const ccl_synth_ops_t *ccl_i_solver_ops(uint32_t kind) {
    return KINDS[kind].ops;
}

/* A group that is solved. */
typedef struct group {
    uint32_t dimension, group;    /* of the space; group CCL_NONE: all of the dimension, as one */
    bool whole;                   /* all GPUs: it is a sketch by itself */
    ccl_i_part_t part[NKINDS];    /* part_of() says which */
    uint32_t first[NKINDS];       /* lowest group whose part is the same */
    ccl_i_trees_t *trees[NKINDS]; /* of that group only */
    ccl_topology_t *topo;         /* of its GPUs, canonically numbered; for other synthesizers */
} group_t;

typedef struct job {
    uint32_t group, kind;
    bool dropped; /* for lack of memory, or GLPK failed */
    char why[160];
} job_t;

typedef struct solver {
    const ccl_ctx_t *ctx;
    ccl_i_space_t *space;
    ccl_routes_t *routes;
    const ccl_collective_t *want;
    const ccl_i_solve_options_t *options;
    double chunk_bytes;
    bool wanted[NKINDS];
    group_t *groups;
    size_t ngroups, cap;
    job_t *jobs;
    uint32_t njobs;
    atomic_uint shapes, milps, cached;
    atomic_bool limited;
} solver_t;

static uint32_t chunks_of(uint32_t kind) {
    return KINDS[kind].chunks ? KINDS[kind].chunks : 1;
}

/* Kinds with the same epochs and chunks share a part. */
static ccl_i_part_t *part_of(group_t *group, uint32_t kind) {
    uint32_t k = 0;

    while (KINDS[k].fine != KINDS[kind].fine || chunks_of(k) != chunks_of(kind))
        k++;
    return &group->part[k];
}

/* ---------------------------------------------------------------- which groups */

/* @param ranks  [n] ascending; @param dimensions  bits of those whose hops are used */
static ccl_status_t add_group(solver_t *s, uint32_t d, uint32_t g, const uint32_t *ranks,
                              uint32_t n, uint32_t dimensions, ccl_error_t *err) {
    group_t *group;

    if (!ccl_grow(&s->groups, &s->cap, s->ngroups + 1, sizeof *s->groups))
        return ccl_fail_nomem(err);
    group = &s->groups[s->ngroups++];
    *group = (group_t){.dimension = d, .group = g, .whole = n == s->space->topo->nranks};
    for (uint32_t k = 0; k < NKINDS; k++) {
        const kind_t *kind = &KINDS[k];
        ccl_error_t why = CCL_ERROR_INIT;
        uint32_t chunks = chunks_of(k);
        ccl_i_part_want_t want = {.ranks = ranks,
                                  .n = n,
                                  .chunks = chunks,
                                  .root = group->whole ? s->space->root : CCL_NONE,
                                  .dimensions = dimensions,
                                  .chunk_bytes = s->chunk_bytes / chunks,
                                  .epochs = kind->fine ? s->options->fine : s->options->coarse};
        ccl_status_t status;

        if (part_of(group, k) != &group->part[k])
            continue;
        status = ccl_i_part_init(s->ctx, &group->part[k], s->space, &want, &why);

        /* Latencies of too many epochs: not this way, but others need one part. */
        while (status == CCL_ERR_USAGE && group->whole && k == 0 && want.epochs < MOST_EPOCHS) {
            ccl_i_part_fini(&group->part[k]);
            ccl_error_clear(&why);
            want.epochs *= 4;
            status = ccl_i_part_init(s->ctx, &group->part[k], s->space, &want, &why);
        }
        if (status == CCL_ERR_NOMEM) {
            ccl_log(s->ctx, CCL_LOG_INFO, "sketch", "a group was dropped: %s", why.text);
            ccl_i_part_fini(&group->part[k]);
            ++*s->options->dropped;
        }
        if (status == CCL_ERR_USAGE || status == CCL_ERR_NOMEM) {
            group->part[k].least = CCL_NONE;
            status = CCL_OK;
        }
        if (status != CCL_OK) {
            if (err)
                *err = why;
            return status;
        }
    }
    return CCL_OK;
}

/*
 * Where no dimension joins all GPUs (GPUs of other servers are reached by some of each only): all
 * GPUs together, in the nearest dimension that has each of them in a group.
 */
static ccl_status_t add_all(solver_t *s, ccl_error_t *err) {
    const ccl_i_space_t *space = s->space;
    uint32_t n = space->topo->nranks, *ranks = ccl_arena_alloc(&s->space->arena, n, sizeof *ranks);

    if (!ranks)
        return ccl_fail_nomem(err);
    for (uint32_t r = 0; r < n; r++)
        ranks[r] = r;
    for (uint32_t d = 0; d < space->ndimensions; d++) {
        const ccl_dimension_t *dim = &space->symmetry->dimensions[space->dimension[d]];

        if (dim->first[dim->ngroups] == n)
            return add_group(s, d, CCL_NONE, ranks, n, (2u << space->ndimensions) - 1, err);
    }
    return CCL_OK;
}

static ccl_status_t choose_groups(solver_t *s, ccl_error_t *err) {
    const ccl_i_space_t *space = s->space;
    bool whole = false;

    for (uint32_t d = 0; d < space->ndimensions && !whole; d++) {
        const ccl_dimension_t *dim = &space->symmetry->dimensions[space->dimension[d]];

        for (uint32_t g = 0; g < dim->ngroups; g++) {
            uint32_t n = dim->first[g + 1] - dim->first[g];

            whole |= n == space->topo->nranks;
            /* With all hops all send to all, in proven shape: a sketch as it is. */
            if (n <= MOST_GPUS && n > 2 &&
                (!dim->complete[g] || (s->options->no_shapes && n <= MOST_SHAPE_GPUS)))
                CCL_TRY(add_group(s, d, g, dim->ranks + dim->first[g], n, (2u << d) - 1, err));
        }
    }
    return whole || space->topo->nranks > MOST_GPUS ? CCL_OK : add_all(s, err);
}

/* ---------------------------------------------------------------- answers */

static bool alike(const ccl_i_part_t *a, const ccl_i_part_t *b) {
    return a->content.len == b->content.len && a->content.len > 0 &&
           memcmp(a->content.data, b->content.data, a->content.len) == 0;
}

static ccl_status_t choose_jobs(solver_t *s, ccl_error_t *err) {
    s->jobs = calloc(s->ngroups * NKINDS + 1, sizeof *s->jobs);
    if (!s->jobs)
        return ccl_fail_nomem(err);
    for (uint32_t g = 0; g < s->ngroups; g++) {
        group_t *group = &s->groups[g];
        bool own = false;

        for (uint32_t k = 0; k < NKINDS; k++) {
            group->first[k] = g;
            for (uint32_t i = 0; i < g && group->first[k] == g; i++) {
                if (alike(part_of(&s->groups[i], k), part_of(group, k)))
                    group->first[k] = i;
            }
            if (group->first[k] != g || part_of(group, k)->least == CCL_NONE || !s->wanted[k] ||
                (KINDS[k].whole && !group->whole))
                continue;
            s->jobs[s->njobs++] = (job_t){.group = g, .kind = k};
            own |= KINDS[k].ops != NULL;
        }
        if (own && !group->whole)
            CCL_TRY(ccl_i_topology_part(s->space->topo, s->routes, group->part[0].rank,
                                        group->part[0].n, 1, &group->topo, err));
    }
    return CCL_OK;
}

static ccl_status_t ask_milp(solver_t *s, const ccl_ctx_t *ctx, ccl_i_part_t *part,
                             ccl_i_trees_t **out, ccl_error_t *err) {
    ccl_i_part_limits_t limits = LIMITS;
    bool none = false, limited = false, askable = false;

    limits.nodes = part->n <= SMALL_GPUS ? SMALL_NODES : limits.nodes;
    if (!s->options->no_shapes) {
        CCL_TRY(ccl_i_part_shape(part, out, err));
        if (*out) {
            atomic_fetch_add(&s->shapes, 1);
            return CCL_OK;
        }
    }
    CCL_TRY(ccl_i_part_askable(part, &limits, &askable, err));
    if (!askable)
        return CCL_OK;
    if (s->options->cache) {
        CCL_TRY(ccl_i_cache_get(ctx, s->options->cache, part, out, &none, err));
        if (*out || none) {
            atomic_fetch_add(&s->cached, 1);
            return CCL_OK;
        }
    }
    limits.time_s = STALLED_S;
    if (s->options->until_s > 0) {
        limits.time_s = fmin(STALLED_S, s->options->until_s - ccl_now_s());
        if (limits.time_s <= 0) {
            atomic_store(&s->limited, true);
            return CCL_OK;
        }
    }
    atomic_fetch_add(&s->milps, 1);
    CCL_TRY(ccl_i_part_milp(ctx, part, &limits, out, &limited, err));
    if (limited)
        atomic_store(&s->limited, true);
    else if (s->options->cache)
        ccl_i_cache_put(ctx, s->options->cache, part, *out);
    return CCL_OK;
}

static ccl_status_t run_job(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    solver_t *s = user;
    job_t *job = &s->jobs[index];
    group_t *group = &s->groups[job->group];
    uint32_t k = job->kind;
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_status_t status;
    ccl_ctx_t ctx = s->ctx ? *s->ctx : (ccl_ctx_t)CCL_CTX_INIT;
    ccl_progress_t progress = {"sub-demands", index, s->njobs, 0, 0};

    if (worker != 0)
        ctx.progress = NULL;
    CCL_TRY(ccl_ctx_poll(&ctx, &progress));
    ctx.progress = NULL;
    ctx.threads = 1;
    if (KINDS[k].ops) {
        ctx.log = NULL; /* its order would depend on the threads */
        ccl_i_trees_ask_t ask = {.ops = KINDS[k].ops,
                                 .topo = group->whole ? s->space->topo : group->topo,
                                 .whole = group->whole,
                                 .cut = KINDS[k].cut,
                                 .size_bytes = s->options->size_bytes};
        status = ccl_i_trees_ask(&ctx, &ask, part_of(group, k), &group->trees[k], &why);
    } else {
        status = ask_milp(s, &ctx, part_of(group, k), &group->trees[k], &why);
    }
    job->dropped = status == CCL_ERR_NOMEM || status == CCL_UNSUPPORTED;
    if (status == CCL_OK || job->dropped) {
        snprintf(job->why, sizeof job->why, "%.159s", why.text);
        return CCL_OK;
    }
    if (err)
        *err = why;
    return status;
}

static void count_dropped(const solver_t *s) {
    for (uint32_t i = 0; i < s->njobs; i++) {
        if (!s->jobs[i].dropped)
            continue;
        ++*s->options->dropped;
        ccl_log(s->ctx, CCL_LOG_INFO, "sketch", "a sub-demand was dropped: %s", s->jobs[i].why);
    }
}

/* ---------------------------------------------------------------- sketches */

/* The answer for a group, in its own ranks and hops; NULL: none, or a hop is missing. */
static ccl_status_t make_sub(solver_t *s, group_t *group, uint32_t k, ccl_i_sub_t **out,
                             ccl_error_t *err) {
    const ccl_i_part_t *part = part_of(group, k);
    const ccl_i_trees_t *trees = s->groups[group->first[k]].trees[k];
    const ccl_i_exchange_t *x = &s->space->x;
    ccl_arena_t *arena = &s->space->arena;
    size_t cells;
    uint32_t *rank, *place, *parent, *step, *via;
    ccl_i_sub_t *sub;

    *out = NULL;
    if (!trees)
        return CCL_OK;
    cells = (size_t)trees->n * trees->variants * trees->n;
    sub = ccl_arena_alloc(arena, 1, sizeof *sub);
    rank = ccl_arena_alloc(arena, trees->n, sizeof *rank);
    place = ccl_arena_alloc(arena, x->nranks, sizeof *place);
    parent = ccl_arena_alloc(arena, cells, sizeof *parent);
    step = ccl_arena_alloc(arena, cells, sizeof *step);
    via = ccl_arena_alloc(arena, cells, sizeof *via);
    if (!sub || !rank || !place || !parent || !step || !via)
        return ccl_fail_nomem(err);
    *sub = (ccl_i_sub_t){trees->n, trees->variants, 1, rank, place, parent, step, via};
    memset(place, 0xff, x->nranks * sizeof *place);
    for (uint32_t i = 0; i < trees->n; i++) {
        rank[i] = part->rank[i];
        place[rank[i]] = i;
    }
    memcpy(parent, trees->parent, cells * sizeof *parent);
    memcpy(step, trees->step, cells * sizeof *step);
    for (size_t i = 0; i < cells; i++) {
        uint32_t src = parent[i], dst = (uint32_t)(i % trees->n), h = part->x.out_first[0];

        if (src == CCL_NONE)
            continue;
        sub->steps = step[i] + 1 > sub->steps ? step[i] + 1 : sub->steps;
        if (KINDS[k].ops) { /* over the route of its channel */
            via[i] = ccl_i_space_hop(s->space, CCL_NONE, rank[src], rank[dst], trees->channel[i]);
            if (via[i] == CCL_NONE)
                return CCL_OK;
            continue;
        }
        while (h < part->x.nhops && (part->x.hops[h].src != src || part->x.hops[h].dst != dst))
            h++;
        via[i] = part->hop[h + trees->channel[i]]; /* checked when it was solved */
    }
    *out = sub;
    return CCL_OK;
}

/* Variants, steps and ways of a sketch with sub-demands; false: it does not reach all. */
static ccl_status_t measure(solver_t *s, ccl_i_sketch_t *sketch, bool *whole_out,
                            ccl_error_t *err) {
    const ccl_i_space_t *space = s->space;
    ccl_i_grower_t g;

    sketch->variants = 1;
    sketch->depth_s = 0;
    for (size_t i = 0; i < (size_t)sketch->nstages * space->ngroups; i++) {
        const ccl_i_sub_t *sub = sketch->sub[i];

        if (!sub)
            continue;
        sketch->variants = sub->variants > sketch->variants ? sub->variants : sketch->variants;
        sketch->sub_steps = sub->steps > sketch->sub_steps ? sub->steps : sketch->sub_steps;
    }
    CCL_TRY(ccl_i_grower_init(&g, space, err));
    *whole_out = true;
    for (uint32_t r = 0; r < space->topo->nranks && *whole_out; r++) {
        double depth_s = 0;
        uint32_t relays = 0;

        if (space->root != CCL_NONE && r != space->root)
            continue;
        *whole_out = ccl_i_grow(&g, sketch, NULL, r, 0);
        ccl_i_grower_measure(&g, &relays, &depth_s);
        sketch->depth_s = fmax(sketch->depth_s, depth_s);
    }
    ccl_i_grower_fini(&g);
    return CCL_OK;
}

/*
 * The sketch with answers where it leaves a group to itself; *some_out false when there are none,
 * or it does not reach all.
 */
static ccl_status_t attach(solver_t *s, ccl_i_sketch_t *sketch, ccl_i_sub_t *const *sub_of_group,
                           uint32_t k, bool *some_out, ccl_error_t *err) {
    size_t cells = (size_t)sketch->nstages * s->space->ngroups;
    const ccl_i_sub_t **subs = ccl_arena_alloc(&s->space->arena, cells, sizeof *subs);
    bool some = false;

    *some_out = false;
    if (!subs)
        return ccl_fail_nomem(err);
    for (size_t i = 0; i < cells; i++) {
        if (sketch->reach[i] != CCL_I_REACH_FLOOD && sketch->reach[i] != CCL_I_REACH_ALL)
            continue;
        subs[i] = sub_of_group[i % s->space->ngroups];
        some |= subs[i] != NULL;
    }
    sketch->sub = subs;
    sketch->solved = (uint8_t)(k + 1);
    return some ? measure(s, sketch, some_out, err) : CCL_OK;
}

static ccl_status_t add_sketch(solver_t *s, ccl_i_sketch_t sketch, ccl_i_sub_t *const *sub_of_group,
                               uint32_t k, ccl_i_sketches_t *sketches, ccl_error_t *err) {
    ccl_text_t name = {0};
    bool some = false;

    CCL_TRY(attach(s, &sketch, sub_of_group, k, &some, err));
    if (!some)
        return CCL_OK;
    ccl_text_printf(&name, "%s, by %s", sketch.name, ccl_i_solver_names[k]);
    sketch.name = name.nomem ? NULL : ccl_arena_strdup(&s->space->arena, name.data);
    ccl_text_fini(&name);
    if (!sketch.name ||
        !ccl_grow(&sketches->items, &sketches->cap, sketches->n + 1, sizeof *sketches->items))
        return ccl_fail_nomem(err);
    sketches->items[sketches->n++] = sketch;
    return CCL_OK;
}

/* Groups of the space that a group is, from first to before last. */
static uint32_t first_of(const solver_t *s, const group_t *group) {
    return s->space->first_group[group->dimension] + (group->group == CCL_NONE ? 0 : group->group);
}

static uint32_t last_of(const solver_t *s, const group_t *group) {
    return group->group == CCL_NONE ? s->space->first_group[group->dimension + 1]
                                    : first_of(s, group) + 1;
}

/* All GPUs are one group: one stage. */
static ccl_status_t add_whole(solver_t *s, const group_t *group, ccl_i_sub_t *const *subs,
                              uint32_t k, ccl_i_sketches_t *sketches, ccl_error_t *err) {
    uint8_t *reach = ccl_arena_alloc(&s->space->arena, s->space->ngroups, 1);
    ccl_i_sketch_t sketch = {.nstages = 1, .reach = reach};

    if (!reach)
        return ccl_fail_nomem(err);
    for (uint32_t i = first_of(s, group); i < last_of(s, group); i++)
        reach[i] = s->space->reach_limit[group->dimension];
    sketch.name =
        group->group == CCL_NONE
            ? ccl_arena_strdup(&s->space->arena, "all GPUs")
            : ccl_i_sketch_name(s->space, &(ccl_i_sketch_t){.nstages = 1, .reach = reach});
    if (!sketch.name)
        return ccl_fail_nomem(err);
    return add_sketch(s, sketch, subs, k, sketches, err);
}

/* One stage in which the group of all GPUs does something, and no other. */
static bool single(const solver_t *s, const ccl_i_sketch_t *sketch) {
    bool some = false;

    for (uint32_t g = 0; g < s->ngroups && !some; g++) {
        const group_t *group = &s->groups[g];

        some = group->whole && sketch->nstages == 1;
        for (uint32_t i = 0; i < s->space->ngroups; i++)
            some &= (sketch->reach[i] != CCL_I_REACH_NONE) ==
                    (i >= first_of(s, group) && i < last_of(s, group));
    }
    return some;
}

/* Those of the user's that ask for answers of this kind; the group of all GPUs only by itself. */
static ccl_status_t attach_given(solver_t *s, ccl_i_sketch_t *sketches, size_t n, uint32_t k,
                                 ccl_i_sub_t *const *all, ccl_i_sub_t *const *inner,
                                 ccl_error_t *err) {
    for (size_t i = 0; i < n; i++) {
        bool some = false;

        if (sketches[i].solved != k + 1)
            continue;
        CCL_TRY(attach(s, &sketches[i], single(s, &sketches[i]) ? all : inner, k, &some, err));
        if (!some && *s->options->dropped)
            return ccl_fail_nomem(err);
        if (!some)
            return ccl_fail(err, CCL_ERR_INPUT,
                            "sketch \"%.80s\": solved by %s it does not reach all GPUs, or it has "
                            "no group to solve; leave \"solved\" out",
                            sketches[i].name, ccl_i_solver_names[k]);
    }
    return CCL_OK;
}

/* @param given  sketches that are the user's; @param search  others get solved forms */
static ccl_status_t add_sketches(solver_t *s, ccl_i_sketches_t *sketches, size_t given, bool search,
                                 ccl_error_t *err) {
    uint32_t ngroups = s->space->ngroups;
    size_t found = sketches->n;
    ccl_i_sub_t **all = calloc(2 * (ngroups + (size_t)1), sizeof *all);
    ccl_i_sub_t **inner = all + ngroups; /* but groups of all GPUs */
    ccl_status_t status = all ? CCL_OK : ccl_fail_nomem(err);

    for (uint32_t k = 0; k < NKINDS && status == CCL_OK; k++) {
        const group_t *whole = NULL;
        size_t before = 0;

        if (!s->wanted[k])
            continue;
        memset(all, 0, 2 * (size_t)ngroups * sizeof(ccl_i_sub_t *));
        for (uint32_t g = 0; g < s->ngroups && status == CCL_OK; g++) {
            group_t *group = &s->groups[g];
            ccl_i_sub_t *sub = NULL;

            status = make_sub(s, group, k, &sub, err);
            whole = group->whole && sub ? group : whole;
            for (uint32_t i = first_of(s, group); sub && i < last_of(s, group); i++) {
                all[i] = sub;
                inner[i] = group->whole ? inner[i] : sub;
            }
        }
        if (status == CCL_OK)
            status = attach_given(s, sketches->items, given, k, all, inner, err);
        if (status == CCL_OK && whole && search)
            status = add_whole(s, whole, all, k, sketches, err);
        before = sketches->n;
        for (size_t i = given; search && i < found && status == CCL_OK; i++) {
            if (sketches->n < before + MOST_SKETCHES)
                status = add_sketch(s, sketches->items[i], inner, k, sketches, err);
        }
    }
    free(all);
    return status;
}

ccl_status_t ccl_i_sketch_solve(const ccl_i_asked_t *asked, ccl_i_space_t *space,
                                const ccl_i_solve_options_t *options, ccl_i_sketches_t *sketches,
                                bool *limited_out, ccl_error_t *err) {
    const ccl_ctx_t *ctx = asked->ctx;
    solver_t s = {.ctx = ctx, .space = space, .want = asked->want, .options = options};
    uint32_t threads = ctx && ctx->threads ? ctx->threads : ccl_core_count();
    bool some = false;
    ccl_status_t status;
    *limited_out = false;
    s.routes = asked->routes;
    s.chunk_bytes = ccl_i_sketch_chunk_bytes(s.want, options->size_bytes);
    for (size_t i = 0; i < options->given; i++) {
        if (sketches->items[i].solved)
            s.wanted[sketches->items[i].solved - 1] = some = true;
    }
    for (uint32_t k = 0; k < NKINDS && options->search; k++)
        if (!KINDS[k].ops || ccl_i_sketch_borrows(options->borrow, KINDS[k].ops->name))
            s.wanted[k] = some = true;
    if (!(s.chunk_bytes > 0) || !some)
        return CCL_OK;
    CCL_TRY_GOTO(choose_groups(&s, err), status, end);
    CCL_TRY_GOTO(choose_jobs(&s, err), status, end);
    if (s.njobs)
        CCL_TRY_GOTO(ccl_parallel_for(s.njobs, threads, run_job, &s, err), status, end);
    *limited_out = atomic_load(&s.limited);
    count_dropped(&s);
    if (options->stats) {
        for (uint32_t i = 0; i < s.njobs; i++)
            options->stats->sub_demands += KINDS[s.jobs[i].kind].ops == NULL;
        options->stats->shapes += atomic_load(&s.shapes);
        options->stats->milps += atomic_load(&s.milps);
        options->stats->cached += atomic_load(&s.cached);
    }
    const size_t found = sketches->n;
    status = add_sketches(&s, sketches, options->given, options->search, err);
    if (options->stats)
        options->stats->solved += sketches->n - found;
end:
    for (size_t g = 0; g < s.ngroups; g++) {
        for (uint32_t k = 0; k < NKINDS; k++) {
            ccl_i_part_fini(&s.groups[g].part[k]);
            ccl_i_trees_destroy(s.groups[g].trees[k]);
        }
        ccl_topology_destroy(s.groups[g].topo);
    }
    free(s.groups);
    free(s.jobs);
    return status;
}
