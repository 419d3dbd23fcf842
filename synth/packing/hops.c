/*
 * The hops of a cluster as trees use them, and symmetries that carry trees from root to root. A
 * symmetry counts if it takes every route of the model to a route of the model; together they are a
 * group in which no GPU stays where it is, so that the images of one tree load all links that are
 * alike by as much.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/packing/packing.h"

/* Symmetries looked for before the group is taken as it is. */
enum { MOST_SEARCHES = 48 };

typedef struct finder {
    ccl_i_pack_hops_t *out;
    const ccl_capacity_t *c;
    uint32_t **links;     /* [nhops] arcs of the route, in order */
    uint16_t *nlinks;     /* [nhops] */
    uint32_t *arc_set;    /* [narcs + left groups] disjoint sets */
    uint32_t *hop_set;    /* [nhops] */
    uint32_t *arc_image;  /* [narcs] of the symmetry in hand */
    uint32_t *vertex;     /* [nvertices] */
    uint32_t *rank, *hop; /* [n], [nhops] images */
    ccl_arena_t scratch;
} finder_t;

static ccl_status_t take_hops(finder_t *f, ccl_i_cluster_t *cluster, const ccl_i_exchange_t *x,
                              ccl_error_t *err) {
    ccl_i_pack_hops_t *out = f->out;
    uint32_t n = x->nranks, nl = f->c->topo->nlinks;
    out->n = n;
    out->nhops = out->norbits = x->nhops;
    out->hops = ccl_arena_alloc(&out->arena, x->nhops + (size_t)1, sizeof *out->hops);
    f->links = ccl_arena_alloc(&f->scratch, x->nhops + (size_t)1, sizeof *f->links);
    f->nlinks = ccl_arena_alloc(&f->scratch, x->nhops + (size_t)1, sizeof *f->nlinks);
    if (!out->hops || !f->links || !f->nlinks)
        return ccl_fail_nomem(err);
    for (uint32_t h = 0; h < x->nhops; h++) {
        const ccl_i_hop_t *hop = &x->hops[h];
        const ccl_route_t *route = NULL;
        CCL_TRY(ccl_routes_get(cluster->routes, hop->src, hop->dst, hop->channel, &route, err));
        out->hops[h] = (ccl_i_pack_hop_t){
            hop->src, hop->dst, hop->channel, h, ccl_i_pack_flow_Bps(f->c->topo, route), 0, 0};
        f->links[h] = ccl_arena_alloc(&f->scratch, route->nlinks + (size_t)1, sizeof **f->links);
        if (!f->links[h])
            return ccl_fail_nomem(err);
        f->nlinks[h] = (uint16_t)route->nlinks;
        for (uint32_t i = 0; i < route->nlinks; i++)
            f->links[h][i] = f->c->narcs - nl + route->links[i];
    }
    return CCL_OK;
}

static bool index_hops(ccl_i_pack_hops_t *out) {
    uint32_t n = out->n;
    out->first = ccl_arena_alloc(&out->arena, n + (size_t)1, sizeof *out->first);
    out->in_first = ccl_arena_alloc(&out->arena, n + (size_t)2, sizeof *out->in_first);
    out->in = ccl_arena_alloc(&out->arena, out->nhops + (size_t)1, sizeof *out->in);
    if (!out->first || !out->in_first || !out->in)
        return false;
    for (uint32_t h = 0; h < out->nhops; h++) {
        out->first[out->hops[h].src + 1]++;
        out->in_first[out->hops[h].dst + 2]++;
    }
    for (uint32_t r = 0; r < n; r++) {
        out->first[r + 1] += out->first[r];
        out->in_first[r + 2] += out->in_first[r + 1];
    }
    for (uint32_t h = 0; h < out->nhops; h++)
        out->in[out->in_first[out->hops[h].dst + 1]++] = h;
    return true;
}

/* First hop from src to dst. */
static uint32_t pair(const ccl_i_pack_hops_t *x, uint32_t src, uint32_t dst) {
    uint32_t low = x->first[src], high = x->first[src + 1];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (x->hops[middle].dst < dst)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Images of all hops; false: a route goes where the model has none. */
static bool map_hops(finder_t *f) {
    const ccl_i_pack_hops_t *x = f->out;
    for (uint32_t h = 0; h < x->nhops; h++) {
        uint32_t src = f->rank[x->hops[h].src], dst = f->rank[x->hops[h].dst];
        bool found = false;
        for (uint32_t k = pair(x, src, dst);
             k < x->first[src + 1] && x->hops[k].dst == dst && !found; k++) {
            found = f->nlinks[k] == f->nlinks[h];
            for (uint32_t i = 0; i < f->nlinks[h] && found; i++)
                found = f->arc_image[f->links[h][i]] == f->links[k][i];
            f->hop[h] = k;
        }
        if (!found)
            return false;
    }
    return true;
}

/*
 * The group with one more generator, if still no GPU stays where it is. The generators' products
 * are made from the identity on; two that agree on rank 0 must be the same.
 */
static bool extend(finder_t *f, uint32_t **generators, uint32_t ngenerators) {
    ccl_i_pack_hops_t *x = f->out;
    size_t n = x->n;
    uint32_t *made = malloc(n * n * sizeof *made), *at = malloc(n * sizeof *at), nmade = 1;
    bool free_action = made && at;
    if (free_action) {
        memset(at, 0xff, n * sizeof *at);
        for (uint32_t r = 0; r < n; r++)
            made[r] = r;
        at[0] = 0;
    }
    for (uint32_t i = 0; free_action && i < nmade; i++) {
        for (uint32_t g = 0; free_action && g < ngenerators; g++) {
            const uint32_t *a = made + i * n, *b = generators[g];
            uint32_t known = at[b[a[0]]];
            uint32_t *to = made + (known == CCL_NONE ? nmade : known) * n;
            for (uint32_t r = 0; r < n; r++) {
                if (known == CCL_NONE)
                    to[r] = b[a[r]];
                else
                    free_action = free_action && to[r] == b[a[r]];
            }
            for (uint32_t r = 0; r < n && known == CCL_NONE; r++)
                free_action = free_action && to[r] != r;
            if (known == CCL_NONE)
                at[to[0]] = nmade++;
        }
    }
    if (free_action) {
        uint32_t *image = ccl_arena_alloc(&x->arena, nmade * n, sizeof *image);
        free_action = image != NULL;
        if (image) {
            memcpy(image, made, nmade * n * sizeof *image);
            x->image = image;
            x->order = nmade;
        }
    }
    free(made);
    free(at);
    return free_action;
}

static ccl_status_t find_group(const ccl_ctx_t *ctx, finder_t *f, ccl_error_t *err) {
    ccl_i_pack_hops_t *x = f->out;
    const ccl_topology_t *topo = f->c->topo;
    ccl_shift_search_t *search = NULL;
    uint32_t *generators[32], ngenerators = 0, searches = 0;
    uint8_t *reached = ccl_arena_alloc(&f->scratch, x->n, 1);
    ccl_status_t status = reached ? CCL_OK : ccl_fail_nomem(err);
    CCL_TRY(status);
    CCL_TRY(ccl_shift_search_create(&f->c->graph, &search, err));
    for (uint32_t to = 1; to < x->n && x->order < x->n && ngenerators < CCL_ARRAY_LEN(generators) &&
                          searches < MOST_SEARCHES;
         to++) {
        for (uint32_t g = 0; g < x->order; g++)
            reached[x->image[(size_t)g * x->n]] = 1;
        if (reached[to])
            continue;
        CCL_TRY_GOTO(ccl_ctx_poll(ctx, NULL), status, end);
        searches++;
        if (!ccl_shift_search_run(search, 0, to, f->vertex, f->arc_image))
            continue;
        for (uint32_t r = 0; r < x->n; r++)
            f->rank[r] = topo->devices[f->vertex[topo->rank_device[r]]].rank;
        generators[ngenerators] = ccl_arena_alloc(&f->scratch, x->n, sizeof **generators);
        if (!generators[ngenerators]) {
            status = ccl_fail_nomem(err);
            goto end;
        }
        memcpy(generators[ngenerators], f->rank, x->n * sizeof *f->rank);
        if (!map_hops(f) || !extend(f, generators, ngenerators + 1))
            continue;
        ngenerators++;
        for (uint32_t h = 0; h < x->nhops; h++)
            ccl_set_join(f->hop_set, h, f->hop[h]);
        for (uint32_t a = 0; a < f->c->narcs; a++)
            ccl_set_join(f->arc_set, a, f->arc_image[a]);
    }
end:
    ccl_shift_search_destroy(search);
    return status;
}

/* Groups of each link l, as items: group[first[l]] to group[first[l + 1] - 1].
   @param first  [nlinks + 2] zeros */
static ccl_status_t list_groups(finder_t *f, uint32_t *first, uint32_t **group_out,
                                ccl_error_t *err) {
    const ccl_capacity_t *c = f->c;
    const ccl_topology_t *topo = c->topo;
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            first[topo->groups[g].links[i] + 2]++;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        first[l + 2] += first[l + 1];
    uint32_t *group =
        ccl_arena_alloc(&f->scratch, first[topo->nlinks + 1] + (size_t)1, sizeof *group);
    uint32_t *item = ccl_arena_alloc(&f->scratch, topo->ngroups + (size_t)1, sizeof *item);
    if (!group || !item)
        return ccl_fail_nomem(err);
    for (uint32_t a = 0; a < c->narcs; a++) {
        if (c->arcs[a].group != CCL_NONE)
            item[c->arcs[a].group] = a;
    }
    for (uint32_t i = 0; i < c->nleft_groups; i++)
        item[c->left_groups[i]] = c->narcs + i;
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            group[first[topo->groups[g].links[i] + 1]++] = item[g];
    }
    *group_out = group;
    return CCL_OK;
}

/* What a class carries, and how much it loses where flows share it. */
static void rate_classes(finder_t *f, const uint32_t *class_of) {
    ccl_i_pack_hops_t *x = f->out;
    const ccl_capacity_t *c = f->c;
    const ccl_topology_t *topo = c->topo;
    uint32_t nitems = c->narcs + c->nleft_groups;
    for (uint32_t i = 0; i < nitems; i++) {
        double Bps = i >= c->narcs ? topo->groups[c->left_groups[i - c->narcs]].bandwidth_Bps
                                   : (c->arcs[i].link != CCL_NONE
                                          ? topo->links[c->arcs[i].link].bandwidth_Bps
                                          : topo->groups[c->arcs[i].group].bandwidth_Bps);
        x->class_Bps[class_of[i]] += Bps / x->order;
        if (i < c->narcs && c->arcs[i].link != CCL_NONE &&
            ccl_i_pack_loses(topo, c->arcs[i].link)) {
            x->class_kappa[class_of[i]] = topo->links[c->arcs[i].link].contention;
            x->contended = true;
        }
    }
}

/* The classes that each hop uses: those of its links and of their groups. */
static ccl_status_t list_uses(finder_t *f, const uint32_t *class_of, const uint32_t *first,
                              const uint32_t *group, ccl_error_t *err) {
    ccl_i_pack_hops_t *x = f->out;
    const ccl_capacity_t *c = f->c;
    size_t most = 0, at = 0;
    uint32_t nl = c->topo->nlinks;
    for (uint32_t h = 0; h < x->nhops; h++) {
        for (uint32_t i = 0; i < f->nlinks[h]; i++) {
            uint32_t l = f->links[h][i] - (c->narcs - nl);
            most += 1 + first[l + 1] - first[l];
        }
    }
    x->uses = ccl_arena_alloc(&x->arena, most + 1, sizeof *x->uses);
    if (!x->uses)
        return ccl_fail_nomem(err);
    for (uint32_t h = 0; h < x->nhops; h++) {
        x->hops[h].first_use = (uint32_t)at;
        for (uint32_t i = 0; i < f->nlinks[h]; i++) {
            uint32_t l = f->links[h][i] - (c->narcs - nl);
            x->uses[at++] = class_of[f->links[h][i]];
            for (uint32_t k = first[l]; k < first[l + 1]; k++)
                x->uses[at++] = class_of[group[k]];
        }
        x->hops[h].nuses = (uint32_t)at - x->hops[h].first_use;
    }
    return CCL_OK;
}

/* Classes of arcs (and of groups without a vertex), and what each hop uses of them. */
static ccl_status_t classify(finder_t *f, ccl_error_t *err) {
    ccl_i_pack_hops_t *x = f->out;
    const ccl_capacity_t *c = f->c;
    const ccl_topology_t *topo = c->topo;
    uint32_t nitems = c->narcs + c->nleft_groups;
    uint32_t *group = NULL,
             *class_of = ccl_arena_alloc(&f->scratch, nitems + (size_t)1, sizeof *class_of);
    uint32_t *first = ccl_arena_alloc(&f->scratch, topo->nlinks + (size_t)2, sizeof *first);
    if (!class_of || !first)
        return ccl_fail_nomem(err);
    /* Items: arcs of links and groups first, then groups without a vertex. */
    CCL_TRY(list_groups(f, first, &group, err));
    for (uint32_t i = 0; i < nitems; i++) {
        uint32_t lowest = ccl_set_find(f->arc_set, i);
        class_of[i] = lowest == i ? x->nclasses++ : class_of[lowest];
    }
    x->class_Bps = ccl_arena_alloc(&x->arena, x->nclasses + (size_t)1, sizeof *x->class_Bps);
    x->class_kappa = ccl_arena_alloc(&x->arena, x->nclasses + (size_t)1, sizeof *x->class_kappa);
    if (!x->class_Bps || !x->class_kappa)
        return ccl_fail_nomem(err);
    rate_classes(f, class_of);
    return list_uses(f, class_of, first, group, err);
}

/* Do two hops use the same classes? */
static bool alike(const ccl_i_pack_hops_t *x, uint32_t a, uint32_t b) {
    return x->hops[a].nuses == x->hops[b].nuses &&
           memcmp(x->uses + x->hops[a].first_use, x->uses + x->hops[b].first_use,
                  x->hops[a].nuses * sizeof *x->uses) == 0;
}

/* Of the hops of a GPU that are alike only the first, second, fourth ... stay, with their images.
 */
static bool thin_out(finder_t *f) {
    ccl_i_pack_hops_t *x = f->out;
    uint8_t *keep = ccl_arena_alloc(&f->scratch, x->nhops + (size_t)1, 1);
    uint32_t *number = ccl_arena_alloc(&f->scratch, x->nhops + (size_t)1, sizeof *number);
    if (!keep || !number)
        return false;
    for (uint32_t r = 0; r < x->n; r++) {
        if (x->class_root[r] != r)
            continue;
        for (uint32_t h = x->first[r]; h < x->first[r + 1]; h++) {
            for (uint32_t k = h; k-- > x->first[r] && number[h] == 0;) {
                if (alike(x, h, k))
                    number[h] = number[k] + 1;
            }
            /* number: alike ones before it */
            keep[x->hops[h].orbit] = (number[h] & (number[h] + 1)) == 0;
        }
    }
    uint32_t kept = 0;
    for (uint32_t h = 0; h < x->nhops; h++) {
        if (keep[x->hops[h].orbit])
            x->hops[kept++] = x->hops[h];
    }
    x->thinned = kept < x->nhops;
    x->nhops = kept;
    return true;
}

ccl_status_t ccl_i_pack_hops_init(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                                  const ccl_capacity_t *c, bool symmetric, uint32_t spread,
                                  ccl_i_pack_hops_t *out, ccl_error_t *err) {
    finder_t f = {.out = out, .c = c};
    ccl_i_exchange_t x = {0};
    ccl_status_t status = CCL_OK;
    uint32_t n = cluster->nranks, nitems = c->narcs + c->nleft_groups;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    ccl_arena_init(&f.scratch);
    CCL_TRY_GOTO(ccl_i_exchange_init(&x, cluster->topo, cluster->routes, NULL, err), status, end);
    CCL_TRY_GOTO(take_hops(&f, cluster, &x, err), status, end);
    f.arc_set = ccl_arena_alloc(&f.scratch, nitems + (size_t)1, sizeof *f.arc_set);
    f.hop_set = ccl_arena_alloc(&f.scratch, x.nhops + (size_t)1, sizeof *f.hop_set);
    f.arc_image = ccl_arena_alloc(&f.scratch, c->narcs + (size_t)1, sizeof *f.arc_image);
    f.vertex = ccl_arena_alloc(&f.scratch, c->nvertices + (size_t)1, sizeof *f.vertex);
    f.rank = ccl_arena_alloc(&f.scratch, n, sizeof *f.rank);
    f.hop = ccl_arena_alloc(&f.scratch, x.nhops + (size_t)1, sizeof *f.hop);
    out->image = ccl_arena_alloc(&out->arena, n, sizeof *out->image);
    out->class_root = ccl_arena_alloc(&out->arena, n, sizeof *out->class_root);
    if (!f.arc_set || !f.hop_set || !f.arc_image || !f.vertex || !f.rank || !f.hop || !out->image ||
        !out->class_root || !index_hops(out)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t i = 0; i < nitems; i++)
        f.arc_set[i] = i;
    for (uint32_t i = 0; i < x.nhops; i++)
        f.hop_set[i] = i;
    for (uint32_t r = 0; r < n; r++)
        out->image[r] = r;
    out->order = 1;
    if (symmetric && c->nleft_groups == 0)
        CCL_TRY_GOTO(find_group(ctx, &f, err), status, end);
    for (uint32_t h = 0; h < x.nhops; h++)
        out->hops[h].orbit = ccl_set_find(f.hop_set, h);
    for (uint32_t r = 0; r < n; r++) {
        out->class_root[r] = r;
        for (uint32_t g = 0; g < out->order; g++)
            out->class_root[r] = out->image[(size_t)g * n + r] < out->class_root[r]
                                     ? out->image[(size_t)g * n + r]
                                     : out->class_root[r];
    }
    CCL_TRY_GOTO(classify(&f, err), status, end);
    for (uint32_t r = 0; r < n && spread > 0; r++) {
        if (out->first[r + 1] - out->first[r] <= spread)
            continue;
        if (!thin_out(&f) || !index_hops(out))
            status = ccl_fail_nomem(err);
        break;
    }
end:
    ccl_i_exchange_fini(&x);
    ccl_arena_fini(&f.scratch);
    if (status != CCL_OK)
        ccl_i_pack_hops_fini(out);
    return status;
}

void ccl_i_pack_hops_fini(ccl_i_pack_hops_t *hops) {
    ccl_arena_fini(&hops->arena);
    memset(hops, 0, sizeof *hops);
}

uint32_t ccl_i_pack_hops_image(const ccl_i_pack_hops_t *x, uint32_t g, uint32_t h) {
    const uint32_t *image = x->image + (size_t)g * x->n;
    uint32_t src = image[x->hops[h].src], dst = image[x->hops[h].dst];
    for (uint32_t k = pair(x, src, dst); k < x->first[src + 1] && x->hops[k].dst == dst; k++) {
        if (x->hops[k].orbit == x->hops[h].orbit)
            return k;
    }
    return CCL_NONE;
}
