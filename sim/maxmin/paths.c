/**
 * @file paths.c
 * Set-up of the network of a run: resources, paths over them, which resources matter.
 */
#include "sim/internal.h"
#include "sim/maxmin/rates.h"

#include <math.h>

/* ---------------------------------------------------------------- resources */

/* The groups of every link; none: no arrays. */
static bool list_groups(ccl_i_net_t *net) {
    const ccl_topology_t *topo = net->topo;
    size_t total = 0;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        total += topo->groups[g].nlinks;
    if (total == 0)
        return true;
    net->group_first = calloc(topo->nlinks + 2u, sizeof(*net->group_first));
    net->group_list = malloc(total * sizeof(*net->group_list));
    if (!net->group_first || !net->group_list)
        return false;
    uint32_t *first = net->group_first + 1; /* counts, then ends: one place ahead of the result */
    for (uint32_t g = 0; g < topo->ngroups; g++)
        for (uint32_t k = 0; k < topo->groups[g].nlinks; k++)
            first[topo->groups[g].links[k] + 1]++;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        first[l + 1] += first[l];
    for (uint32_t g = 0; g < topo->ngroups; g++)
        for (uint32_t k = 0; k < topo->groups[g].nlinks; k++)
            net->group_list[first[topo->groups[g].links[k]]++] = g;
    return true;
}

/* The only one of some links whose other end is not `not_device`; CCL_NONE: none, or several. */
static uint32_t only_link(const ccl_topology_t *topo, const uint32_t *list, uint32_t n, bool into,
                          uint32_t not_device) {
    uint32_t found = CCL_NONE;
    for (uint32_t i = 0; i < n; i++) {
        const ccl_link_t *link = &topo->links[list[i]];
        if ((into ? link->from : link->to) == not_device)
            continue;
        if (found != CCL_NONE)
            return CCL_NONE;
        found = list[i];
    }
    return found;
}

/* A link that every route enters from, or leaves to, the same other link (a NIC's PCIe link and
   its port) is full only when that one is, if that one is no wider. A route passes no device twice
   and no GPU, so the topology alone decides. */
static bool drop_implied(ccl_i_net_t *net) {
    const ccl_topology_t *topo = net->topo;
    uint32_t *in_first = calloc(topo->ndevices + 2u, sizeof(*in_first));
    uint32_t *in_links = malloc((topo->nlinks + 1u) * sizeof(*in_links));
    bool ok = in_first && in_links;
    for (uint32_t l = 0; ok && l < topo->nlinks; l++)
        in_first[topo->links[l].to + 2]++;
    for (uint32_t d = 0; ok && d < topo->ndevices; d++)
        in_first[d + 2] += in_first[d + 1];
    for (uint32_t l = 0; ok && l < topo->nlinks; l++)
        in_links[in_first[topo->links[l].to + 1]++] = l;
    for (uint32_t l = 0; ok && l < topo->nlinks; l++) {
        uint32_t from = topo->links[l].from, to = topo->links[l].to, near[2] = {CCL_NONE, CCL_NONE};
        if (topo->devices[from].kind != CCL_DEVICE_GPU)
            near[0] = only_link(topo, &in_links[in_first[from]],
                                in_first[from + 1] - in_first[from], true, to);
        if (topo->devices[to].kind != CCL_DEVICE_GPU)
            near[1] = only_link(topo, &topo->out_links[topo->out_first[to]],
                                topo->out_first[to + 1] - topo->out_first[to], false, from);
        for (int i = 0; i < 2 && !(net->res[l].kappa > 0) && !net->dropped[l]; i++)
            net->dropped[l] = near[i] != CCL_NONE && !net->dropped[near[i]] &&
                              net->res[near[i]].base <= net->res[l].base;
    }
    free(in_first);
    free(in_links);
    return ok;
}

static bool limits_reductions(const ccl_device_t *device) {
    return device->reduce && device->reduce_rate_Bps < INFINITY;
}

uint32_t ccl_i_reducer_res(const ccl_topology_t *topo, uint32_t device) {
    uint32_t res = topo->nlinks + topo->ngroups;
    if (!limits_reductions(&topo->devices[device]))
        return CCL_NONE;
    for (uint32_t d = 0; d < device; d++)
        res += limits_reductions(&topo->devices[d]);
    return res;
}

uint32_t ccl_i_resources(const ccl_topology_t *topo) {
    uint32_t n = topo->nlinks + topo->ngroups;
    for (uint32_t d = 0; d < topo->ndevices; d++)
        n += limits_reductions(&topo->devices[d]);
    return n;
}

static bool grow_resources(ccl_i_net_t *net, uint32_t n) {
    return ccl_i_grow(&net->res, &net->cres, n, sizeof(*net->res)) &&
           ccl_i_grow(&net->dropped, &net->cdropped, n, sizeof(*net->dropped)) &&
           ccl_i_grow(&net->is_used, &net->cis_used, n, sizeof(*net->is_used));
}

ccl_i_net_t *ccl_i_net_create(const ccl_topology_t *topo, bool use_links) {
    ccl_i_net_t *net = calloc(1, sizeof(*net));
    if (!net)
        return NULL;
    net->topo = topo;
    net->use_links = use_links;
    net->nres = ccl_i_resources(topo);
    net->first_cap = net->nres;
    if (!grow_resources(net, net->nres + 8u)) {
        net->nres = 0;
        ccl_i_net_destroy(net);
        return NULL;
    }
    for (uint32_t i = 0; i < net->nres; i++) {
        resource_t *r = &net->res[i];
        if (i < topo->nlinks) {
            r->base = topo->links[i].bandwidth_Bps;
            r->kappa = topo->links[i].contention;
        } else if (i - topo->nlinks < topo->ngroups) {
            r->base = topo->groups[i - topo->nlinks].bandwidth_Bps;
        }
        r->next_t = r->min_key = INFINITY;
        r->queue_pos = CCL_NONE;
    }
    for (uint32_t d = 0, i = topo->nlinks + topo->ngroups; i < net->nres; d++)
        if (limits_reductions(&topo->devices[d]))
            net->res[i++].base = topo->devices[d].reduce_rate_Bps;
    if (!list_groups(net) || (use_links && !drop_implied(net))) {
        ccl_i_net_destroy(net);
        return NULL;
    }
    return net;
}

void ccl_i_net_destroy(ccl_i_net_t *net) {
    if (!net)
        return;
    for (uint32_t i = 0; net->res && i < net->nres; i++) {
        free(net->res[i].own);
        free(net->res[i].loads);
        free(net->res[i].list);
        free(net->res[i].bottles);
    }
    for (uint32_t i = 0; i < net->nrests; i++)
        free(net->rests[i].heap);
    free(net->rests);
    free(net->res);
    free(net->level);
    free(net->other);
    free(net->own);
    free(net->cap);
    free(net->fastest);
    free(net->limit);
    free(net->bins);
    free(net->full);
    free(net->dirty);
    free(net->lazy);
    free(net->all);
    free(net->paths);
    free(net->entries);
    free(net->by_route);
    free(net->caps);
    free(net->group_first);
    free(net->group_list);
    free(net->used);
    free(net->dropped);
    free(net->is_used);
    free(net->pos);
    free(net->bottle);
    free(net->started);
    free(net->ended);
    free(net->fresh);
    free(net->drained);
    free(net->queue);
    free(net->bucket_head);
    free(net->bucket_next);
    free(net->bucket_key);
    free(net->bucket_low);
    free(net->bucket_at);
    free(net->touched);
    free(net->seeds);
    free(net->scratch);
    free(net->component.res);
    free(net->component.paths);
    free(net->component.capped);
    free(net->component.heap);
    free(net->shares);
    ccl_i_net_wide_destroy(net->wide);
    free(net);
}

static uint32_t cap_class(ccl_i_net_t *net, double cap_Bps) {
    for (uint32_t i = net->first_cap; i < net->nres; i++)
        if (net->res[i].base == cap_Bps)
            return i;
    if (!grow_resources(net, net->nres + 1u))
        return CCL_NONE;
    resource_t *r = &net->res[net->nres];
    r->base = cap_Bps;
    r->fixed = true;
    r->next_t = r->min_key = INFINITY;
    r->queue_pos = CCL_NONE;
    return net->nres++;
}

/* ---------------------------------------------------------------- paths */

bool ccl_i_net_reserve(ccl_i_net_t *net, uint32_t npaths) {
    return ccl_i_reserve(&net->paths, &net->cpaths, npaths, sizeof(*net->paths)) &&
           ccl_i_reserve(&net->caps, &net->ccaps, npaths, sizeof(*net->caps)) &&
           ccl_i_reserve(&net->entries, &net->centries, 4 * (size_t)npaths,
                         sizeof(*net->entries)) &&
           ccl_i_reserve(&net->started, &net->cstarted, npaths, sizeof(*net->started)) &&
           ccl_i_reserve(&net->ended, &net->cended, npaths, sizeof(*net->ended)) &&
           ccl_i_reserve(&net->drained, &net->cdrained, npaths, sizeof(*net->drained));
}

static bool path_entry(ccl_i_net_t *net, uint32_t first, uint32_t res, uint32_t weight) {
    if (net->dropped[res])
        return true;
    for (uint32_t i = first; i < net->nentries; i++)
        if (net->entries[i].res == res) {
            net->entries[i].weight += weight;
            return true;
        }
    if (!ccl_i_grow(&net->entries, &net->centries, net->nentries + 1u, sizeof(*net->entries)))
        return false;
    net->entries[net->nentries++] = (entry_t){res, weight};
    if (net->is_used[res])
        return true;
    net->is_used[res] = true;
    if (!ccl_i_grow(&net->used, &net->cused, net->nused + 1u, sizeof(*net->used)))
        return false;
    net->used[net->nused++] = res;
    return true;
}

static bool path_entries(ccl_i_net_t *net, const ccl_route_t *route) {
    uint32_t first = net->nentries, nlinks = net->topo->nlinks;
    for (uint32_t i = 0; net->use_links && i < route->nlinks; i++)
        if (!path_entry(net, first, route->links[i], 1))
            return false;
    for (uint32_t i = 0; net->group_first && i < route->nlinks; i++)
        for (uint32_t k = net->group_first[route->links[i]];
             k < net->group_first[route->links[i] + 1]; k++)
            if (!path_entry(net, first, nlinks + net->group_list[k], 1))
                return false;
    return true;
}

/* One or two entries of weight 1. */
static bool is_simple(const entry_t *e, uint32_t n) {
    return n > 0 && n <= 2 && e[0].weight == 1 && e[n - 1].weight == 1;
}

static bool grow_routes(ccl_i_net_t *net, uint32_t index) {
    size_t was = net->cby_route;
    if (!ccl_i_grow(&net->by_route, &net->cby_route, index + 1u, sizeof(*net->by_route)))
        return false;
    memset(&net->by_route[was], 0xff, (net->cby_route - was) * sizeof(*net->by_route));
    return true;
}

static double narrowest(const ccl_i_net_t *net, const ccl_route_t *route) {
    double least_Bps = INFINITY;
    if (!net->varied)
        return route->bottleneck_Bps;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        double link_Bps = net->topo->links[route->links[i]].bandwidth_Bps;
        least_Bps = link_Bps < least_Bps ? link_Bps : least_Bps;
    }
    return least_Bps;
}

/* The path whose links and groups are the entries from `first` on. @param cap_Bps  at most that of
   the narrowest link. */
static uint32_t path_end(ccl_i_net_t *net, double narrowest_Bps, double cap_Bps, uint32_t first) {
    if (!net->use_links || cap_Bps < narrowest_Bps) {
        uint32_t c = cap_class(net, cap_Bps);
        if (c == CCL_NONE || !path_entry(net, first, c, 1))
            return CCL_NONE;
    }
    if (!ccl_i_grow(&net->paths, &net->cpaths, net->npaths + 1u, sizeof(*net->paths)) ||
        !ccl_i_grow(&net->caps, &net->ccaps, net->npaths + 1u, sizeof(*net->caps)))
        return CCL_NONE;
    uint32_t n = net->nentries - first;
    net->paths[net->npaths] = (path_t){
        .first = first, .n = n, .simple = is_simple(&net->entries[first], n), .rest = CCL_NONE};
    net->caps[net->npaths] = (path_cap_t){cap_Bps, CCL_NONE};
    net->stride = n > net->stride ? n : net->stride;
    return net->npaths++;
}

/* A path of a route, made once per cap. */
static uint32_t route_path(ccl_i_net_t *net, const ccl_route_t *route, double cap_Bps,
                           const uint32_t *reducers, uint32_t nreducers) {
    /* The links limit to the narrowest anyway; without links as resources the cap must do it. */
    double narrowest_Bps = narrowest(net, route);
    double cap = cap_Bps < narrowest_Bps ? cap_Bps : narrowest_Bps;
    if (route->index >= net->cby_route && !grow_routes(net, route->index))
        return CCL_NONE;
    uint32_t path = net->by_route[route->index];
    while (path != CCL_NONE && net->caps[path].cap_Bps != cap)
        path = net->caps[path].next;
    if (path != CCL_NONE)
        return path;
    uint32_t first = net->nentries;
    bool ok = path_entries(net, route);
    for (uint32_t i = 0; i < nreducers && ok; i++) {
        uint32_t res = ccl_i_reducer_res(net->topo, reducers[i]);
        ok = res == CCL_NONE || path_entry(net, first, res, 1);
    }
    path = ok ? path_end(net, narrowest_Bps, cap, first) : CCL_NONE;
    if (path == CCL_NONE)
        return CCL_NONE;
    net->caps[path].next = net->by_route[route->index];
    net->by_route[route->index] = path;
    return path;
}

uint32_t ccl_i_net_path(ccl_i_net_t *net, const ccl_route_t *route, double cap_Bps) {
    return route_path(net, route, cap_Bps, NULL, 0);
}

uint32_t ccl_i_net_tree_path(ccl_i_net_t *net, const ccl_tree_t *tree, double cap_Bps) {
    return route_path(net, &tree->route, cap_Bps, tree->reducers, tree->nreducers);
}

void ccl_i_net_vary(ccl_i_net_t *net) {
    net->varied = true;
}

void ccl_i_net_keep_links(ccl_i_net_t *net) {
    memset(net->dropped, 0, net->nres * sizeof(*net->dropped));
}

uint32_t ccl_i_net_path_of(ccl_i_net_t *net, const ccl_route_t *route, double cap_Bps,
                           const ccl_i_share_t *shares, uint32_t nshares) {
    uint32_t first = net->nentries;
    for (uint32_t i = 0; i < nshares; i++) {
        if (!net->use_links && shares[i].res < net->topo->nlinks)
            continue;
        net->dropped[shares[i].res] = false; /* it stands for others, which may be needed */
        if (!path_entry(net, first, shares[i].res, shares[i].weight))
            return CCL_NONE;
    }
    double narrowest_Bps = narrowest(net, route);
    return path_end(net, narrowest_Bps, cap_Bps < narrowest_Bps ? cap_Bps : narrowest_Bps, first);
}

/* ---------------------------------------------------------------- redundant resources */

/* Resources that every path through one has in common with it and that are never wider: it is full
   only when they are. */
typedef struct common {
    uint32_t n, res[12];
} common_t;
#define UNSEEN UINT32_MAX

/* A flow counts there at least as often as here. */
static bool path_has(const entry_t *e, uint32_t n, uint32_t res, uint32_t weight) {
    for (uint32_t i = 0; i < n; i++)
        if (e[i].res == res)
            return e[i].weight >= weight;
    return false;
}

/* Returns how many resources this path leaves without a candidate. */
static uint32_t narrow_down(const ccl_i_net_t *net, common_t *common, uint32_t path) {
    uint32_t n = net->paths[path].n, less = 0;
    const entry_t *e = &net->entries[net->paths[path].first];
    for (uint32_t i = 0; i < n; i++) {
        const resource_t *r = &net->res[e[i].res];
        common_t *c = &common[e[i].res];
        if (c->n == 0 || r->fixed)
            continue;
        if (c->n == UNSEEN) {
            c->n = 0;
            for (uint32_t j = 0; j < n && c->n < CCL_ARRAY_LEN(c->res); j++) {
                const resource_t *o = &net->res[e[j].res];
                if (j != i && e[i].weight <= e[j].weight && !(r->kappa > 0) && !o->fixed &&
                    o->base <= r->base)
                    c->res[c->n++] = e[j].res;
            }
        } else {
            uint32_t keep = 0;
            for (uint32_t k = 0; k < c->n; k++)
                if (path_has(e, n, c->res[k], e[i].weight))
                    c->res[keep++] = c->res[k];
            c->n = keep;
        }
        less += c->n == 0;
    }
    return less;
}

static bool drop_found(ccl_i_net_t *net, const common_t *common) {
    bool any = false;
    for (uint32_t i = 0; i < net->nused; i++) {
        const resource_t *r = &net->res[net->used[i]];
        const common_t *c = &common[net->used[i]];
        uint8_t *dropped = &net->dropped[net->used[i]];
        for (uint32_t k = 0; !r->fixed && k < c->n && !*dropped; k++)
            *dropped = !net->dropped[c->res[k]];
        any = any || *dropped;
    }
    return any;
}

static void drop_entries(ccl_i_net_t *net) {
    uint32_t out = 0;
    net->stride = 1;
    for (uint32_t p = 0; p < net->npaths; p++) {
        path_t *path = &net->paths[p];
        uint32_t first = out;
        for (uint32_t i = 0; i < path->n; i++) {
            entry_t e = net->entries[path->first + i];
            if (!net->dropped[e.res])
                net->entries[out++] = e;
        }
        path->first = first;
        path->n = out - first;
        path->simple = is_simple(&net->entries[first], path->n);
        net->stride = path->n > net->stride ? path->n : net->stride;
    }
    net->nentries = out;
}

/* Links of which the paths of this run, not the topology, say that they are redundant. */
static bool drop_redundant(ccl_i_net_t *net) {
    common_t *common = malloc((net->nres + 1u) * sizeof(*common));
    if (!common)
        return false;
    uint32_t left = 0;
    for (uint32_t i = 0; i < net->nused; i++) {
        common[net->used[i]].n = UNSEEN;
        left += !net->res[net->used[i]].fixed;
    }
    /* A few paths from all over mostly show that nothing is. */
    for (uint32_t i = 0, at = 0; left > 0 && i < net->npaths / 8; i++) {
        left -= narrow_down(net, common, at);
        at = (uint32_t)((at + 0x9e3779b1ull) % net->npaths);
    }
    for (uint32_t p = 0; left > 0 && p < net->npaths; p++)
        left -= narrow_down(net, common, p);
    if (left > 0 && drop_found(net, common))
        drop_entries(net);
    free(common);
    return true;
}

bool ccl_i_net_freeze(ccl_i_net_t *net) {
    if (!drop_redundant(net))
        return false;
    net->stride = net->stride ? net->stride : 1;
    size_t n = net->nres + 1u;
    net->queue = malloc(n * sizeof(*net->queue));
    net->pos = malloc((size_t)(net->npaths + 1u) * net->stride * sizeof(*net->pos));
    net->bottle = malloc((net->npaths + 1u) * sizeof(*net->bottle));
    net->level = malloc(n * sizeof(double));
    net->other = calloc(n, sizeof(double));
    net->own = calloc(n, sizeof(double));
    net->cap = malloc(n * sizeof(double));
    net->fastest = calloc(n, sizeof(double));
    net->limit = malloc(n * sizeof(double));
    for (net->nbins = 256; net->nbins < 8 * n && net->nbins < 1u << 20;)
        net->nbins *= 2;
    net->bins = malloc(net->nbins * sizeof(*net->bins));
    net->full = malloc(n * sizeof(double));
    net->dirty = calloc(n, 1);
    net->lazy = calloc(n, 1);
    net->all = calloc(n, sizeof(double));
    if (!net->queue || !net->pos || !net->bottle || !net->level || !net->other || !net->own ||
        !net->cap || !net->fastest || !net->limit || !net->bins || !net->full || !net->dirty ||
        !net->lazy || !net->all)
        return false;
    if (!ccl_i_net_buckets_create(net) || (net->force == 0 && !ccl_i_net_wide_create(net)))
        return false;
    memset(net->bottle, 0xff, net->npaths * sizeof(*net->bottle));
    for (uint32_t i = 0; i <= net->nres; i++) {
        bool fixed = i == net->nres || net->res[i].fixed;
        net->level[i] = i < net->nres && fixed ? net->res[i].base : INFINITY;
        net->cap[i] = fixed ? INFINITY : net->res[i].base;
        net->full[i] = net->cap[i] * (1 + EPS);
        net->dirty[i] = fixed;
        ccl_i_net_watch(net, i);
    }
    net->lazy[net->nres] = 1; /* the sentinel's load does not matter */
    net->all[net->nres] = 1;
    return true;
}
