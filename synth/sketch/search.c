/*
 * All sketches of a cluster (SyCCL, section 4.1), those of few stages first, with its three
 * prunings.
 */
#include "synth/sketch/sketch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Servers from which on a tree over them is worth it: of fewer a line is as short. */
enum { LEAST_TREE = 5 };

typedef struct search {
    const ccl_ctx_t *ctx;
    ccl_i_space_t *space;
    const ccl_i_sketch_limits_t *limits;
    ccl_i_sketches_t *out;
    ccl_i_sketch_stats_t *stats;
    ccl_i_grower_t grower;
    uint32_t max_stages, max_relays;
    uint32_t root;
    uint8_t *reach; /* [CCL_I_SKETCH_STAGES][ngroups] of the sketch in hand */
    ccl_strmap_t *seen;
} search_t;

/*
 * What a sketch looks like up to automorphism: for every GPU class and class of group how many are
 * reached how, in which stage. Sketches from one root whose trees differ only in which of several
 * equal GPUs they pick read the same.
 */
static bool signature(const search_t *s, const ccl_i_sketch_t *sketch, ccl_text_t *out) {
    const ccl_i_grower_t *g = &s->grower;
    const ccl_i_space_t *space = s->space;
    uint32_t nranks = space->topo->nranks;
    uint64_t *label = calloc(nranks, sizeof *label), sum = 0;

    if (!label)
        return false;
    /* Labels down the tree, then a sum that does not depend on order. */
    for (uint32_t i = 0; i < g->norder; i++) {
        uint32_t r = g->order[i];
        const uint64_t key[4] = {space->symmetry->gpu_class[r], g->got[r],
                                 g->got[r] == 1 ? 0 : label[g->parent[r]],
                                 g->got[r] == 1 ? 0 : g->used[g->parent[r]]};
        uint64_t kind[3] = {0, 0, 0};

        if (g->got[r] != 1) {
            const ccl_i_hop_t *hop = &space->x.hops[g->via[r]];

            memcpy(&kind[0], &hop->link_Bps, sizeof hop->link_Bps);
            memcpy(&kind[1], &hop->alpha_s, sizeof hop->alpha_s);
            kind[2] = hop->nuses;
        }
        label[r] = ccl_hash64(key, sizeof key, ccl_hash64(kind, sizeof kind, 7));
        sum += ccl_mix64(label[r]);
    }
    free(label);
    ccl_text_printf(out, "%u %016llx", sketch->nstages, (unsigned long long)sum);
    return !out->nomem;
}

/* Was a sketch with such a tree as the one in hand met before? */
static ccl_status_t meet(const search_t *s, const ccl_i_sketch_t *sketch, bool *known,
                         ccl_error_t *err) {
    ccl_text_t text = {0};
    bool ok = signature(s, sketch, &text);

    *known = ok && ccl_strmap_get(s->seen, text.data) != CCL_NONE;
    ok = ok && (*known || ccl_strmap_put(s->seen, text.data, 1));
    ccl_text_fini(&text);
    return ok ? CCL_OK : ccl_fail_nomem(err);
}

char *ccl_i_sketch_name(ccl_i_space_t *space, const ccl_i_sketch_t *sketch) {
    const uint8_t *reach = sketch->reach;
    const uint32_t nstages = sketch->nstages;
    ccl_text_t text = {0};
    char *name;

    for (uint32_t k = 0; k < nstages; k++) {
        bool some = false;

        for (uint32_t d = 0; d < space->ndimensions; d++) {
            const uint8_t *how = reach + (size_t)k * space->ngroups + space->first_group[d];
            uint32_t n = space->first_group[d + 1] - space->first_group[d], one = 0, all = 0,
                     flood = 0, each = 0;

            for (uint32_t i = 0; i < n; i++) {
                one += how[i] == CCL_I_REACH_ONE;
                all += how[i] >= CCL_I_REACH_ALL;
                flood += how[i] == CCL_I_REACH_FLOOD;
                each += how[i] == CCL_I_REACH_EACH;
            }
            if (one + all + each == 0)
                continue;
            ccl_text_printf(&text, "%s%s%s", some ? " + " : (k ? " > " : ""),
                            space->symmetry->dimensions[space->dimension[d]].name,
                            (one > 0) + (all > 0) + (each > 0) > 1 ? " (mixed)"
                            : one                                  ? " (one each)"
                            : each                                 ? " (one a server)"
                            : flood                                ? " (on and on)"
                                                                   : "");
            if (one + all + each < n)
                ccl_text_printf(&text, " in %u of %u groups", one + all + each, n);
            some = true;
        }
    }
    if (sketch->line)
        ccl_text_printf(&text, sketch->tree ? ", in a tree" : ", in a line");
    name = text.nomem ? NULL : ccl_arena_strdup(&space->arena, text.data ? text.data : "");
    ccl_text_fini(&text);
    return name;
}

/* The tree in hand, if it is new. */
static ccl_status_t keep_tree(search_t *s, const ccl_i_sketch_t *grown, ccl_error_t *err) {
    const uint32_t nstages = grown->nstages;
    ccl_i_sketch_t sketch = {.nstages = nstages,
                             .reach = s->reach,
                             .line = grown->line,
                             .tree = grown->tree,
                             .variants = 1};
    size_t bytes = (size_t)nstages * s->space->ngroups;
    uint8_t *reach;

    ccl_i_grower_measure(&s->grower, &sketch.relays, &sketch.depth_s);
    /* What a relay hands on comes on top of its own only where every GPU has chunks of its own. */
    if (s->limits->prune_relays && s->space->scatter && sketch.relays > s->max_relays) {
        s->stats->relayed++;
        return CCL_OK;
    }
    if (s->limits->prune_isomorphic) {
        bool known = false;

        CCL_TRY(meet(s, &sketch, &known, err));
        if (known) {
            s->stats->isomorphic++;
            return CCL_OK;
        }
    }
    if (s->out->n >= s->limits->sketches) {
        s->stats->capped = true;
        return CCL_OK;
    }
    reach = ccl_arena_alloc(&s->space->arena, bytes, 1);
    sketch.name = ccl_i_sketch_name(s->space, &sketch);
    if (!reach || !sketch.name ||
        !ccl_grow(&s->out->items, &s->out->cap, s->out->n + 1, sizeof *s->out->items))
        return ccl_fail_nomem(err);
    memcpy(reach, s->reach, bytes);
    for (size_t i = 0; i < bytes; i++)
        sketch.uses_one |= reach[i] == CCL_I_REACH_ONE || reach[i] == CCL_I_REACH_EACH;
    sketch.reach = reach;
    s->out->items[s->out->n++] = sketch;
    s->stats->found++;
    return CCL_OK;
}

/* The sketch whose tree is in hand; from a single root also in a line and in a tree of servers. */
static ccl_status_t keep(search_t *s, uint32_t nstages, ccl_error_t *err) {
    ccl_i_sketch_t sketch = {.nstages = nstages, .reach = s->reach, .variants = 1};

    CCL_TRY(keep_tree(s, &sketch, err));
    sketch.line = true;
    if (s->space->root == CCL_NONE || s->space->scatter ||
        !ccl_i_grow(&s->grower, &sketch, NULL, s->root, 0))
        return CCL_OK;
    CCL_TRY(keep_tree(s, &sketch, err));
    sketch.tree = true;
    if (s->space->symmetry->dimensions[s->space->dimension[0]].ngroups < LEAST_TREE ||
        !ccl_i_grow(&s->grower, &sketch, NULL, s->root, 0))
        return CCL_OK;
    return keep_tree(s, &sketch, err);
}

static ccl_status_t extend(search_t *s, uint32_t stage, ccl_error_t *err);

/* The stage in hand is complete: does it reach any new GPU, and all of them? */
static ccl_status_t complete_stage(search_t *s, uint32_t stage, ccl_error_t *err) {
    const ccl_i_sketch_t partial = {.nstages = stage + 1, .reach = s->reach, .variants = 1};
    ccl_i_grower_t *g = &s->grower;
    uint32_t fresh = 0;
    bool whole;

    if (++s->stats->visited % 64 == 0) {
        ccl_progress_t progress = {"sketches", s->stats->found, 0, 0, 0};

        CCL_TRY(ccl_ctx_poll(s->ctx, &progress));
    }
    whole = ccl_i_grow(g, &partial, NULL, s->root, 0);
    for (uint32_t i = 0; i < g->norder; i++)
        fresh += g->got[g->order[i]] == stage + 2;
    if (fresh == 0)
        return CCL_OK;
    if (whole) /* with fewer stages: known from before */
        return stage + 1 == s->max_stages ? keep(s, stage + 1, err) : CCL_OK;
    return extend(s, stage + 1, err);
}

static bool full(search_t *s) {
    s->stats->capped |= s->out->n >= s->limits->sketches ||
                        (s->limits->visits && s->stats->visited >= s->limits->visits);
    return s->stats->capped;
}

/* Every group's reach in this stage, group by group (rule 2 switched off). */
static ccl_status_t each_group(search_t *s, uint32_t stage, uint32_t group, ccl_error_t *err) {
    uint8_t *reach = s->reach + (size_t)stage * s->space->ngroups;

    if (full(s))
        return CCL_OK;
    if (group == s->space->ngroups)
        return complete_stage(s, stage, err);
    uint32_t d = 0;

    while (s->space->first_group[d + 1] <= group)
        d++;
    for (uint8_t how = CCL_I_REACH_NONE; how <= s->space->reach_limit[d]; how++) {
        if (how == CCL_I_REACH_EACH && d == 0)
            continue;
        reach[group] = how;
        CCL_TRY(each_group(s, stage, group + 1, err));
    }
    return CCL_OK;
}

/* Every dimension's reach, the same for all its groups (rule 2). */
static ccl_status_t each_dimension(search_t *s, uint32_t stage, uint32_t d, ccl_error_t *err) {
    const ccl_i_space_t *space = s->space;
    uint8_t *reach = s->reach + (size_t)stage * space->ngroups;

    if (full(s))
        return CCL_OK;
    if (d == space->ndimensions)
        return complete_stage(s, stage, err);
    for (uint8_t how = CCL_I_REACH_NONE; how <= space->reach_limit[d]; how++) {
        if (how == CCL_I_REACH_EACH && d == 0)
            continue;
        memset(reach + space->first_group[d], how,
               space->first_group[d + 1] - space->first_group[d]);
        CCL_TRY(each_dimension(s, stage, d + 1, err));
    }
    return CCL_OK;
}

static ccl_status_t extend(search_t *s, uint32_t stage, ccl_error_t *err) {
    if (stage >= s->max_stages)
        return CCL_OK;
    if (full(s))
        return CCL_OK;
    if (!s->limits->prune_inconsistent)
        return each_group(s, stage, 0, err);
    if (stage + 1 == s->max_stages)
        s->stats->inconsistent += pow(3, s->space->ngroups) - pow(3, s->space->ndimensions);
    return each_dimension(s, stage, 0, err);
}

/* Where flows that share a NIC lose: across to one GPU of every server, then inside, even if
   another sketch has such a tree, since as a chain it has not (sketch_grow.c). */
static ccl_status_t keep_line(search_t *s, ccl_error_t *err) {
    ccl_i_space_t *space = s->space;
    const ccl_i_sketch_limits_t limits = {.sketches = s->limits->sketches + 1};
    const ccl_i_sketch_t line = {.nstages = 2, .reach = s->reach, .variants = 1};
    uint32_t last = space->ndimensions - 1;
    search_t one = *s;

    one.limits = &limits;
    memset(s->reach, CCL_I_REACH_NONE, 2 * (size_t)space->ngroups);
    memset(s->reach + space->first_group[last], CCL_I_REACH_EACH,
           space->first_group[last + 1] - space->first_group[last]);
    memset(s->reach + space->ngroups, CCL_I_REACH_ALL, space->first_group[1]);
    for (size_t i = 0; i < s->out->n; i++) {
        if (s->out->items[i].nstages == 2 &&
            memcmp(s->out->items[i].reach, s->reach, 2 * (size_t)space->ngroups) == 0)
            return CCL_OK;
    }
    return ccl_i_grow(&s->grower, &line, NULL, s->root, 0) ? keep_tree(&one, &line, err) : CCL_OK;
}

/* Where roots are not alike: from each at once to all, over every dimension. From the first root a
   sketch of fewer dimensions may have the same tree, and not reach all from others. */
static ccl_status_t keep_direct(search_t *s, ccl_error_t *err) {
    ccl_i_space_t *space = s->space;
    const ccl_i_sketch_limits_t limits = {.sketches = s->limits->sketches + 2};
    const ccl_i_sketch_t direct = {.nstages = 1, .reach = s->reach, .variants = 1};
    search_t one = *s;
    bool whole = true;

    one.limits = &limits;
    memset(s->reach, CCL_I_REACH_ALL, space->ngroups);
    for (size_t i = 0; i < s->out->n; i++) {
        if (s->out->items[i].nstages == 1 &&
            memcmp(s->out->items[i].reach, s->reach, space->ngroups) == 0)
            return CCL_OK;
    }
    for (uint32_t r = 0; r < space->topo->nranks && whole; r++)
        whole = ccl_i_grow(&s->grower, &direct, NULL, r, 0);
    whole = whole && ccl_i_grow(&s->grower, &direct, NULL, s->root, 0);
    return whole ? keep_tree(&one, &direct, err) : CCL_OK;
}

ccl_status_t ccl_i_sketch_search(const ccl_ctx_t *ctx, ccl_i_space_t *space,
                                 const ccl_i_sketch_limits_t *limits, ccl_i_sketches_t *out,
                                 ccl_i_sketch_stats_t *stats, ccl_error_t *err) {
    search_t s = {.ctx = ctx, .space = space, .limits = limits, .out = out, .stats = stats};
    ccl_status_t status;
    uint32_t stages;

    memset(stats, 0, sizeof *stats);
    s.root = space->root == CCL_NONE ? 0 : space->root;
    stages = limits->stages ? limits->stages : space->ndimensions + 1;
    if (stages > CCL_I_SKETCH_STAGES)
        stages = CCL_I_SKETCH_STAGES;
    s.max_relays = limits->relays != CCL_NONE ? limits->relays
                   : space->ndimensions       ? space->ndimensions - 1
                                              : 0;
    CCL_TRY(ccl_i_grower_init(&s.grower, space, err));
    s.reach = calloc((size_t)CCL_I_SKETCH_STAGES * (space->ngroups + 1), 1);
    s.seen = ccl_strmap_create();
    status = s.reach && s.seen ? CCL_OK : ccl_fail_nomem(err);
    for (size_t i = 0; status == CCL_OK && i < out->n; i++) { /* those given */
        bool known;

        ccl_i_grow(&s.grower, &out->items[i], NULL, s.root, 0);
        status = meet(&s, &out->items[i], &known, err);
    }
    /* Few stages first, so that a limit leaves out the longest. */
    for (s.max_stages = 1; status == CCL_OK && s.max_stages <= stages; s.max_stages++)
        status = extend(&s, 0, err);
    if (status == CCL_OK && space->port && !space->scatter && space->ndimensions > 1)
        status = keep_line(&s, err);
    if (status == CCL_OK && space->nclasses > 1)
        status = keep_direct(&s, err);
    free(s.reach);
    ccl_strmap_destroy(s.seen);
    ccl_i_grower_fini(&s.grower);
    return status;
}
