/* Which parts of a cluster are alike: orbits of its automorphism group on devices, servers and
   pairs of devices with a link between them. */
#include <stdlib.h>
#include <string.h>

#include "models/symmetry.h"

/* What a generator is looked at with; in the child process of bliss. */
typedef struct parts {
    const ccl_topology_t *topo;
    uint32_t npairs;
    uint32_t (*pairs)[2]; /* ascending */
} parts_t;

static int by_ends(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    int first = (x[0] > y[0]) - (x[0] < y[0]);
    return first ? first : (x[1] > y[1]) - (x[1] < y[1]);
}

static uint32_t find_pair(const parts_t *p, uint32_t a, uint32_t b) {
    uint32_t key[2] = {a < b ? a : b, a < b ? b : a};
    const uint32_t(*at)[2] = bsearch(key, p->pairs, p->npairs, sizeof *p->pairs, by_ends);
    return at ? (uint32_t)(at - (const uint32_t(*)[2])p->pairs) : CCL_NONE;
}

static bool find_pairs(parts_t *p, ccl_arena_t *arena) {
    const ccl_topology_t *topo = p->topo;
    uint32_t n = 0;
    p->pairs = ccl_arena_alloc(arena, topo->nlinks + (size_t)1, sizeof *p->pairs);
    if (!p->pairs)
        return false;
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        uint32_t a = topo->links[l].from, b = topo->links[l].to;
        p->pairs[l][0] = a < b ? a : b;
        p->pairs[l][1] = a < b ? b : a;
    }
    qsort(p->pairs, topo->nlinks, sizeof *p->pairs, by_ends);
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (n == 0 || by_ends(p->pairs[n - 1], p->pairs[l]) != 0)
            memmove(p->pairs[n++], p->pairs[l], sizeof *p->pairs);
    p->npairs = n;
    return true;
}

/* @param state  disjoint sets of devices, then servers, then pairs */
static void on_generator(const uint32_t *image, void *state, const void *user) {
    const parts_t *p = user;
    uint32_t nd = p->topo->ndevices, ns = p->topo->nservers, *sets = state;
    for (uint32_t v = 0; v < nd; v++)
        ccl_set_join(sets, v, image[v]);
    for (uint32_t s = 0; s < ns; s++)
        ccl_set_join(sets + nd, s, image[nd + s] - nd);
    for (uint32_t k = 0; k < p->npairs; k++) {
        uint32_t to = find_pair(p, image[p->pairs[k][0]], image[p->pairs[k][1]]);
        if (to != CCL_NONE) /* always: automorphisms carry links to links */
            ccl_set_join(sets + nd + ns, k, to);
    }
}

/* Each set's lowest member. */
static uint32_t *lowest(uint32_t *sets, uint32_t n, ccl_arena_t *arena) {
    uint32_t *out = ccl_arena_alloc(arena, n + (size_t)1, sizeof *out);
    uint32_t *first = ccl_arena_alloc(arena, n + (size_t)1, sizeof *first);
    if (!out || !first)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        first[i] = CCL_NONE;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t root = ccl_set_find(sets, i);
        if (first[root] == CCL_NONE)
            first[root] = i;
        out[i] = first[root];
    }
    return out;
}

static ccl_status_t find(const ccl_ctx_t *ctx, const ccl_topology_t *topo, uint32_t fixed,
                         ccl_undirected_t *graph, ccl_alike_t *a, ccl_error_t *err) {
    uint32_t nd = topo->ndevices, ns = topo->nservers;
    ccl_undirected_group_t about;
    parts_t p = {topo, 0, NULL};
    if (!find_pairs(&p, &a->arena) || !ccl_i_symmetry_graph(graph, topo, fixed, &a->arena))
        return ccl_fail_nomem(err);
    uint32_t n = nd + ns + p.npairs;
    uint32_t *sets = ccl_arena_alloc(&a->arena, n + (size_t)1, sizeof *sets);
    if (!sets)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < n; i++)
        sets[i] = i < nd ? i : i < nd + ns ? i - nd : i - nd - ns;
    CCL_TRY(ccl_undirected_automorphisms(ctx, graph, on_generator, &p, sets, n * sizeof *sets,
                                         &about, err));
    a->npairs = p.npairs;
    a->pairs = (const uint32_t(*)[2])p.pairs;
    a->device_class = lowest(sets, nd, &a->arena);
    a->server_class = lowest(sets + nd, ns, &a->arena);
    a->pair_class = lowest(sets + nd + ns, p.npairs, &a->arena);
    return a->device_class && a->server_class && a->pair_class ? CCL_OK : ccl_fail_nomem(err);
}

ccl_status_t ccl_alike_find(const ccl_ctx_t *ctx, const ccl_topology_t *topo, uint32_t fixed,
                            ccl_alike_t **out, ccl_error_t *err) {
    ccl_alike_t *a = calloc(1, sizeof *a);
    ccl_undirected_t graph = {0};
    if (!a)
        return ccl_fail_nomem(err);
    ccl_arena_init(&a->arena);
    ccl_status_t status = find(ctx, topo, fixed, &graph, a, err);
    ccl_undirected_fini(&graph);
    if (status == CCL_OK)
        *out = a;
    else
        ccl_alike_destroy(a);
    return status;
}

void ccl_alike_destroy(ccl_alike_t *alike) {
    if (!alike)
        return;
    ccl_arena_fini(&alike->arena);
    free(alike);
}
