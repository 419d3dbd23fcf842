/* Dimensions, groups and automorphism classes of a cluster (docs/symmetry.md). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/symmetry.h"

/* A link must be this much faster than the next to make a dimension of its own in a server. */
#define SPEED_STEP 2.0

/* ---------------------------------------------------------------- disjoint sets */

static uint32_t *singletons(ccl_arena_t *arena, uint32_t n) {
    uint32_t *parent = ccl_arena_alloc(arena, n ? n : 1, sizeof(*parent));

    for (uint32_t i = 0; parent && i < n; i++)
        parent[i] = i;
    return parent;
}

/* Numbers sets by their lowest member; returns how many there are. */
static uint32_t number_sets(uint32_t *parent, uint32_t n, uint32_t *number) {
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t root = ccl_set_find(parent, i);

        number[i] = root == i ? count++ : number[root];
    }
    return count;
}

/* ---------------------------------------------------------------- dimensions */

/* Routes of one kind. */
typedef struct family {
    const char *kind; /* transport */
    uint32_t hops;    /* links, or net links */
    double min_Bps, max_Bps, min_latency_s, max_latency_s;
    uint32_t *parent; /* [nranks] GPUs joined */
} family_t;

typedef struct families {
    family_t *items;
    size_t n, cap;
} families_t;

/* One (kind, hops, bandwidth): what families are made of. */
typedef struct relation {
    const char *kind;
    uint32_t hops;
    double Bps;
    double min_latency_s, max_latency_s;
    uint32_t *parent;
} relation_t;

typedef struct relations {
    relation_t *items;
    size_t n, cap;
} relations_t;

static uint32_t route_hops(const ccl_topology_t *topo, const ccl_route_t *route) {
    uint32_t hops = 0;

    if (!route->crosses_net)
        return route->nlinks;
    for (uint32_t i = 0; i < route->nlinks; i++)
        hops += strcmp(topo->kinds[topo->links[route->links[i]].kind], "net") == 0;
    return hops;
}

static relation_t *relation_of(relations_t *all, const char *kind, uint32_t hops, double Bps,
                               ccl_arena_t *arena, uint32_t nranks) {
    relation_t *r;

    for (size_t i = 0; i < all->n; i++) {
        r = &all->items[i];
        if (r->Bps == Bps && r->hops == hops && strcmp(r->kind, kind) == 0)
            return r;
    }
    if (!ccl_grow(&all->items, &all->cap, all->n + 1, sizeof(*all->items)))
        return NULL;
    r = &all->items[all->n];
    *r = (relation_t){kind, hops, Bps, INFINITY, 0, singletons(arena, nranks)};
    if (!r->parent)
        return NULL;
    all->n++;
    return r;
}

static ccl_status_t relate(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                           ccl_arena_t *arena, relations_t *all, ccl_error_t *err) {
    for (uint32_t src = 0; src < topo->nranks; src++) {
        CCL_TRY(ccl_ctx_poll(ctx, NULL));
        for (uint32_t dst = 0; dst < topo->nranks; dst++) {
            const ccl_route_t *route = NULL;
            ccl_error_t why = CCL_ERROR_INIT;
            ccl_status_t status;
            relation_t *r;

            if (src == dst)
                continue;
            status = ccl_routes_get(routes, src, dst, 0, &route, &why);
            if (status == CCL_ERR_INPUT)
                continue; /* no route without relaying GPUs */
            if (status != CCL_OK) {
                if (err)
                    *err = why;
                return status;
            }
            r = relation_of(all, ccl_model_route_kind(topo, route), route_hops(topo, route),
                            route->bottleneck_Bps, arena, topo->nranks);
            if (!r)
                return ccl_fail_nomem(err);
            ccl_set_join(r->parent, src, dst);
            r->min_latency_s = fmin(r->min_latency_s, route->latency_s);
            r->max_latency_s = fmax(r->max_latency_s, route->latency_s);
        }
    }
    return CCL_OK;
}

/* Inside servers before pcie before net; then near before far; then fast before slow. */
static int kind_rank(const char *kind) {
    return strcmp(kind, "net") == 0 ? 2 : strcmp(kind, "pcie") == 0;
}

static int compare_relations(const void *a, const void *b) {
    const relation_t *x = a, *y = b;
    int order = kind_rank(x->kind) - kind_rank(y->kind);

    if (order == 0)
        order = strcmp(x->kind, y->kind);
    if (order == 0)
        order = (x->hops > y->hops) - (x->hops < y->hops);
    return order ? order : (x->Bps < y->Bps) - (x->Bps > y->Bps);
}

/* Whether r joins GPUs of one of family f's groups with others. */
static bool grows(const family_t *f, const relation_t *r, uint32_t nranks, uint8_t *grouped) {
    memset(grouped, 0, nranks);
    for (uint32_t i = 0; i < nranks; i++) {
        uint32_t root = ccl_set_find(f->parent, i);

        if (root != i)
            grouped[i] = grouped[root] = 1;
    }
    for (uint32_t i = 0; i < nranks; i++) {
        uint32_t j = ccl_set_find(r->parent, i);

        if (i != j && ccl_set_find(f->parent, i) != ccl_set_find(f->parent, j) &&
            (grouped[i] || grouped[j]))
            return true;
    }
    return false;
}

static void absorb(family_t *f, const relation_t *r, uint32_t nranks) {
    f->min_Bps = fmin(f->min_Bps, r->Bps);
    f->max_Bps = fmax(f->max_Bps, r->Bps);
    f->min_latency_s = fmin(f->min_latency_s, r->min_latency_s);
    f->max_latency_s = fmax(f->max_latency_s, r->max_latency_s);
    for (uint32_t i = 0; i < nranks; i++)
        ccl_set_join(f->parent, i, ccl_set_find(r->parent, i));
}

static bool gather(const relations_t *all, families_t *out, ccl_arena_t *arena, uint32_t nranks) {
    uint8_t *grouped = ccl_arena_alloc(arena, nranks, 1);

    if (!grouped)
        return false;
    for (size_t i = 0; i < all->n; i++) {
        const relation_t *r = &all->items[i];
        family_t *last = out->n ? &out->items[out->n - 1] : NULL;
        bool same = last && last->hops == r->hops && strcmp(last->kind, r->kind) == 0;

        if (same && (kind_rank(r->kind) == 2 || r->Bps * SPEED_STEP > last->min_Bps ||
                     !grows(last, r, nranks, grouped))) {
            absorb(last, r, nranks);
            continue;
        }
        if (!ccl_grow(&out->items, &out->cap, out->n + 1, sizeof(*out->items)))
            return false;
        last = &out->items[out->n++];
        *last = (family_t){r->kind, r->hops, r->Bps, 0, INFINITY, 0, singletons(arena, nranks)};
        if (!last->parent)
            return false;
        for (uint32_t i = 0; same && i < nranks; i++) /* what is faster joins as well */
            ccl_set_join(last->parent, i, ccl_set_find(last[-1].parent, i));
        absorb(last, r, nranks);
    }
    return true;
}

/* ---------------------------------------------------------------- groups */

static const char *dimension_name(ccl_arena_t *arena, const families_t *all, size_t i) {
    const family_t *f = &all->items[i];
    bool speeds = false, lengths = false;
    ccl_text_t text = {0};
    char rate[32];
    char *name;

    for (size_t k = 0; k < all->n; k++) {
        if (k == i || strcmp(all->items[k].kind, f->kind) != 0)
            continue;
        speeds |= all->items[k].hops == f->hops;
        lengths |= all->items[k].hops != f->hops;
    }
    ccl_text_printf(&text, "%s", f->kind);
    if (lengths)
        ccl_text_printf(&text, ", %u %s", f->hops, kind_rank(f->kind) == 2 ? "hops" : "links");
    if (speeds)
        ccl_text_printf(&text, ", %s", ccl_format_rate(f->max_Bps, rate, sizeof rate));
    name = text.nomem ? NULL : ccl_arena_strdup(arena, text.data);
    ccl_text_fini(&text);
    return name;
}

/* Groups of a family: sets of two GPUs or more, by their lowest rank. */
static bool fill_groups(ccl_dimension_t *d, const family_t *f, uint32_t nranks,
                        ccl_arena_t *arena) {
    uint32_t *size = ccl_arena_alloc(arena, nranks, sizeof(*size));
    uint32_t *number = ccl_arena_alloc(arena, nranks, sizeof(*number));
    uint32_t *group_of = ccl_arena_alloc(arena, nranks, sizeof(*group_of));
    uint32_t *ranks = ccl_arena_alloc(arena, nranks, sizeof(*ranks));
    uint32_t *first;
    uint32_t nranks_in = 0;

    if (!size || !number || !group_of || !ranks)
        return false;
    for (uint32_t i = 0; i < nranks; i++)
        size[ccl_set_find(f->parent, i)]++;
    for (uint32_t i = 0; i < nranks; i++)
        number[i] = ccl_set_find(f->parent, i) == i && size[i] > 1 ? d->ngroups++ : CCL_NONE;
    first = ccl_arena_alloc(arena, d->ngroups + 1, sizeof(*first));
    if (!first)
        return false;
    for (uint32_t i = 0; i < nranks; i++) {
        if (number[i] == CCL_NONE)
            continue;
        first[number[i]] = nranks_in;
        d->min_gpus = d->min_gpus && d->min_gpus < size[i] ? d->min_gpus : size[i];
        d->max_gpus = size[i] > d->max_gpus ? size[i] : d->max_gpus;
        nranks_in += size[i];
    }
    first[d->ngroups] = nranks_in;
    memset(size, 0, nranks * sizeof(*size));
    for (uint32_t i = 0; i < nranks; i++) {
        uint32_t g = number[ccl_set_find(f->parent, i)];

        group_of[i] = g;
        if (g != CCL_NONE)
            ranks[first[g] + size[g]++] = i;
    }
    d->first = first;
    d->ranks = ranks;
    d->group_of = group_of;
    return true;
}

/* Counts a group's ordered pairs that have a route of this dimension. */
static bool fill_complete(ccl_dimension_t *d, const ccl_topology_t *topo, ccl_routes_t *routes,
                          ccl_arena_t *arena, ccl_status_t *status, ccl_error_t *err) {
    uint8_t *complete = ccl_arena_alloc(arena, d->ngroups ? d->ngroups : 1, 1);

    if (!complete)
        return false;
    for (uint32_t g = 0; g < d->ngroups; g++) {
        const uint32_t *ranks = d->ranks + d->first[g];
        uint32_t n = d->first[g + 1] - d->first[g];

        complete[g] = 1;
        for (uint32_t k = 0; k < n * n && complete[g]; k++) {
            const ccl_route_t *route = NULL;
            ccl_error_t why = CCL_ERROR_INIT;

            if (k / n == k % n)
                continue;
            *status = ccl_routes_get(routes, ranks[k / n], ranks[k % n], 0, &route, &why);
            if (*status != CCL_OK && *status != CCL_ERR_INPUT) {
                if (err)
                    *err = why;
                return true;
            }
            complete[g] = *status == CCL_OK && ccl_dimension_has(topo, d, route);
            *status = CCL_OK;
        }
    }
    d->complete = complete;
    return true;
}

/* ---------------------------------------------------------------- orbits */

typedef struct orbits {
    const ccl_topology_t *topo;
    const ccl_dimension_t *dimensions;
    uint32_t ndimensions;
    const uint32_t
        *first; /* [ndimensions + 1] of a dimension's groups in the sets; GPUs come first */
} orbits_t;

/* A generator carries GPUs to GPUs, and with them groups to groups. @param state  disjoint sets */
static void on_generator(const uint32_t *image, void *state, const void *user) {
    const orbits_t *o = user;
    uint32_t *sets = state;

    for (uint32_t r = 0; r < o->topo->nranks; r++)
        ccl_set_join(sets, r, o->topo->devices[image[o->topo->rank_device[r]]].rank);
    for (uint32_t d = 0; d < o->ndimensions; d++) {
        const ccl_dimension_t *dim = &o->dimensions[d];

        for (uint32_t g = 0; g < dim->ngroups; g++) {
            uint32_t device = o->topo->rank_device[dim->ranks[dim->first[g]]];
            uint32_t to = dim->group_of[o->topo->devices[image[device]].rank];

            if (to != CCL_NONE) /* always: automorphisms keep routes' kinds */
                ccl_set_join(sets + o->first[d], g, to);
        }
    }
}

/* @param sets  as bliss's generators left them */
static bool fill_classes(ccl_symmetry_t *s, ccl_dimension_t *dimensions, uint32_t *sets,
                         const uint32_t *first) {
    uint32_t *gpu_class = ccl_arena_alloc(&s->arena, s->nranks, sizeof(*gpu_class));

    if (!gpu_class)
        return false;
    s->ngpu_classes = number_sets(sets, s->nranks, gpu_class);
    s->gpu_class = gpu_class;
    for (uint32_t d = 0; d < s->ndimensions; d++) {
        uint32_t *class_of =
            ccl_arena_alloc(&s->arena, dimensions[d].ngroups + 1, sizeof(*class_of));

        if (!class_of)
            return false;
        dimensions[d].nclasses = number_sets(sets + first[d], dimensions[d].ngroups, class_of);
        dimensions[d].class_of = class_of;
    }
    return true;
}

static ccl_status_t find_orbits(const ccl_ctx_t *ctx, ccl_symmetry_t *s,
                                ccl_dimension_t *dimensions, const ccl_topology_t *topo,
                                ccl_error_t *err) {
    ccl_arena_t arena;
    ccl_undirected_t graph = {0};
    ccl_undirected_group_t about;
    ccl_status_t status = CCL_ERR_NOMEM;
    uint32_t *first, *sets;

    ccl_arena_init(&arena);
    first = ccl_arena_alloc(&arena, s->ndimensions + 1, sizeof(*first));
    if (!first)
        goto end;
    first[0] = topo->nranks;
    for (uint32_t d = 0; d < s->ndimensions; d++)
        first[d + 1] = first[d] + dimensions[d].ngroups;
    sets = ccl_arena_alloc(&arena, first[s->ndimensions], sizeof(*sets));
    if (!sets || !ccl_i_symmetry_graph(&graph, topo, CCL_NONE, &arena))
        goto end;
    for (uint32_t i = 0; i < topo->nranks; i++)
        sets[i] = i;
    for (uint32_t d = 0; d < s->ndimensions; d++) {
        for (uint32_t g = 0; g < dimensions[d].ngroups; g++)
            sets[first[d] + g] = g;
    }
    const orbits_t o = {topo, dimensions, s->ndimensions, first};
    status = ccl_undirected_automorphisms(ctx, &graph, on_generator, &o, sets,
                                          first[s->ndimensions] * sizeof(*sets), &about, err);
    if (status != CCL_OK)
        goto end;
    s->ngenerators = about.ngenerators;
    s->log10_automorphisms = about.log10_order;
    status = fill_classes(s, dimensions, sets, first) ? CCL_OK : CCL_ERR_NOMEM;
end:
    ccl_undirected_fini(&graph);
    ccl_arena_fini(&arena);
    return status == CCL_ERR_NOMEM ? ccl_fail_nomem(err) : status;
}

/* ---------------------------------------------------------------- all of it */

bool ccl_dimension_has(const ccl_topology_t *topo, const ccl_dimension_t *dimension,
                       const ccl_route_t *route) {
    return route_hops(topo, route) == dimension->hops &&
           route->bottleneck_Bps >= dimension->min_Bps &&
           strcmp(ccl_model_route_kind(topo, route), dimension->kind) == 0;
}

ccl_status_t ccl_symmetry_find(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, ccl_symmetry_t **out, ccl_error_t *err) {
    ccl_symmetry_t *s = calloc(1, sizeof(*s));
    ccl_dimension_t *dimensions = NULL;
    ccl_arena_t arena;
    relations_t relations = {0};
    families_t families = {0};
    ccl_status_t status;

    *out = NULL;
    if (!s)
        return ccl_fail_nomem(err);
    ccl_arena_init(&arena);
    ccl_arena_init(&s->arena);
    CCL_TRY_GOTO(relate(ctx, topo, routes, &arena, &relations, err), status, out);
    if (relations.n)
        qsort(relations.items, relations.n, sizeof(*relations.items), compare_relations);
    status = CCL_ERR_NOMEM;
    if (!gather(&relations, &families, &arena, topo->nranks))
        goto out;
    dimensions = ccl_arena_alloc(&s->arena, families.n + 1, sizeof(*dimensions));
    if (!dimensions)
        goto out;
    s->nranks = topo->nranks;
    s->ndimensions = (uint32_t)families.n;
    s->dimensions = dimensions;
    for (size_t i = 0; i < families.n; i++) {
        const family_t *f = &families.items[i];
        ccl_dimension_t *d = &dimensions[i];

        d->name = dimension_name(&s->arena, &families, i);
        d->kind = ccl_arena_strdup(&s->arena, f->kind);
        d->hops = f->hops;
        d->min_Bps = f->min_Bps;
        d->max_Bps = f->max_Bps;
        d->min_latency_s = f->min_latency_s;
        d->max_latency_s = f->max_latency_s;
        status = CCL_ERR_NOMEM;
        if (!d->name || !d->kind || !fill_groups(d, f, topo->nranks, &s->arena))
            goto out;
        status = CCL_OK;
        if (!fill_complete(d, topo, routes, &s->arena, &status, err))
            status = CCL_ERR_NOMEM;
        if (status != CCL_OK)
            goto out;
    }
    status = find_orbits(ctx, s, dimensions, topo, err);
out:
    if (status == CCL_ERR_NOMEM)
        ccl_fail_nomem(err);
    free(relations.items);
    free(families.items);
    ccl_arena_fini(&arena);
    if (status == CCL_OK)
        *out = s;
    else
        ccl_symmetry_destroy(s);
    return status;
}

void ccl_symmetry_destroy(ccl_symmetry_t *symmetry) {
    if (!symmetry)
        return;
    ccl_arena_fini(&symmetry->arena);
    free(symmetry);
}
