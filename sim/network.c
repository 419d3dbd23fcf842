/**
 * @file network.c
 * Max-min fair rates by local relaxation and progressive filling.
 *
 * Source of the optimality condition: Bertsekas and Gallager, Data Networks, section 6.5.2: an
 * allocation is max-min fair exactly when every flow has a saturated resource on which no other
 * flow is faster. Served-volume clocks are those of generalised processor sharing.
 *
 * Flows on one path have one rate, so the solver works on paths and a path keeps its flows in a
 * heap. What the inner loops read of resources lies in arrays of its own (level, other, own, cap,
 * fastest): a few kilobytes that stay in the nearest cache.
 */
#include "sim/internal.h"
#include "sim/rates.h"

/* ---------------------------------------------------------------- completion queue */

static void queue_place(ccl_i_net_t *net, uint32_t at, uint32_t r) {
    net->queue[at] = r;
    net->res[r].queue_pos = at;
}

static void queue_fix(ccl_i_net_t *net, uint32_t at) {
    uint32_t r = net->queue[at];
    double key = net->res[r].next_t;
    while (at > 0 && net->res[net->queue[(at - 1) / 2]].next_t > key) {
        queue_place(net, at, net->queue[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t kid = 2 * at + 1;
        if (kid >= net->nqueue)
            break;
        if (kid + 1 < net->nqueue &&
            net->res[net->queue[kid + 1]].next_t < net->res[net->queue[kid]].next_t)
            kid++;
        if (net->res[net->queue[kid]].next_t >= key)
            break;
        queue_place(net, at, net->queue[kid]);
        at = kid;
    }
    queue_place(net, at, r);
}

static void requeue(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    double next = INFINITY, level = net->level[index];
    if (r->nown && level > 0) {
        double left = ccl_i_net_first_key(r) - r->vol;
        next = r->vol_t + (left > 0 ? left / level : 0);
    }
    if (next == INFINITY) {
        r->next_t = INFINITY;
        if (r->queue_pos != CCL_NONE) {
            uint32_t at = r->queue_pos;
            uint32_t last = net->queue[--net->nqueue];
            r->queue_pos = CCL_NONE;
            if (last != index) {
                queue_place(net, at, last);
                queue_fix(net, at);
            }
        }
        return;
    }
    if (r->queue_pos != CCL_NONE && r->next_t == next)
        return;
    r->next_t = next;
    if (r->queue_pos == CCL_NONE)
        queue_place(net, net->nqueue++, index);
    queue_fix(net, r->queue_pos);
}

/* ---------------------------------------------------------------- set-up */

ccl_i_net_t *ccl_i_net_create(const ccl_topology_t *topo, bool use_links) {
    ccl_i_net_t *net = calloc(1, sizeof(*net));
    if (!net)
        return NULL;
    net->topo = topo;
    net->use_links = use_links;
    net->nres = topo->nlinks + topo->ngroups;
    net->first_cap = net->nres;
    if (!ccl_i_grow(&net->res, &net->cres, net->nres + 8u, sizeof(*net->res))) {
        ccl_i_net_destroy(net);
        return NULL;
    }
    for (uint32_t i = 0; i < net->nres; i++) {
        resource_t *r = &net->res[i];
        if (i < topo->nlinks) {
            r->base = topo->links[i].bandwidth_Bps;
            r->kappa = topo->links[i].contention;
        } else {
            r->base = topo->groups[i - topo->nlinks].bandwidth_Bps;
        }
        r->next_t = r->min_key = INFINITY;
        r->queue_pos = CCL_NONE;
    }
    return net;
}

void ccl_i_net_destroy(ccl_i_net_t *net) {
    if (!net)
        return;
    for (uint32_t i = 0; i < net->nres; i++) {
        free(net->res[i].own);
        free(net->res[i].loads);
        free(net->res[i].list);
    }
    for (uint32_t i = 0; i < net->npaths; i++)
        if (net->paths[i].cheap > 1)
            free(net->paths[i].heap);
    free(net->res);
    free(net->level);
    free(net->other);
    free(net->own);
    free(net->cap);
    free(net->fastest);
    free(net->full);
    free(net->dirty);
    free(net->lazy);
    free(net->all);
    free(net->paths);
    free(net->entries);
    free(net->path_hash);
    free(net->pos);
    free(net->bottle);
    free(net->started);
    free(net->ended);
    free(net->fresh);
    free(net->drained);
    free(net->queue);
    free(net->work);
    free(net->touched);
    free(net->seeds);
    free(net->scratch);
    free(net);
}

static uint32_t cap_class(ccl_i_net_t *net, double cap_Bps) {
    for (uint32_t i = net->first_cap; i < net->nres; i++)
        if (net->res[i].base == cap_Bps)
            return i;
    if (!ccl_i_grow(&net->res, &net->cres, net->nres + 1u, sizeof(*net->res)))
        return CCL_NONE;
    resource_t *r = &net->res[net->nres];
    r->base = cap_Bps;
    r->fixed = true;
    r->next_t = r->min_key = INFINITY;
    r->queue_pos = CCL_NONE;
    return net->nres++;
}

static uint64_t path_key(const ccl_route_t *route, double cap_Bps) {
    uint64_t key[2] = {(uint64_t)(uintptr_t)route, 0};
    memcpy(&key[1], &cap_Bps, sizeof(cap_Bps));
    uint64_t h = (key[0] ^ (key[1] * 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 29);
}

static bool path_rehash(ccl_i_net_t *net, uint32_t len) {
    uint32_t *hash = malloc(len * sizeof(*hash));
    if (!hash)
        return false;
    memset(hash, 0xff, len * sizeof(*hash));
    for (uint32_t i = 0; i < net->npaths; i++) {
        uint64_t h = path_key(net->paths[i].route, net->paths[i].cap_Bps) & (len - 1);
        while (hash[h] != CCL_NONE)
            h = (h + 1) & (len - 1);
        hash[h] = i;
    }
    free(net->path_hash);
    net->path_hash = hash;
    net->path_hash_len = len;
    return true;
}

bool ccl_i_net_reserve(ccl_i_net_t *net, uint32_t npaths) {
    uint32_t len = 64;
    while (len < 2ull * npaths)
        len *= 2;
    return path_rehash(net, len) &&
           ccl_i_reserve(&net->paths, &net->cpaths, npaths, sizeof(*net->paths)) &&
           ccl_i_reserve(&net->entries, &net->centries, 8 * (size_t)npaths,
                         sizeof(*net->entries)) &&
           ccl_i_reserve(&net->started, &net->cstarted, npaths, sizeof(*net->started)) &&
           ccl_i_reserve(&net->ended, &net->cended, npaths, sizeof(*net->ended)) &&
           ccl_i_reserve(&net->drained, &net->cdrained, npaths, sizeof(*net->drained)) &&
           ccl_i_reserve(&net->fresh, &net->cfresh, npaths, sizeof(*net->fresh)) &&
           ccl_i_reserve(&net->seeds, &net->cseeds, 8 * (size_t)npaths, sizeof(*net->seeds));
}

static bool path_entry(ccl_i_net_t *net, uint32_t first, uint32_t res) {
    for (uint32_t i = first; i < net->nentries; i++)
        if (net->entries[i].res == res) {
            net->entries[i].weight++;
            return true;
        }
    if (!ccl_i_grow(&net->entries, &net->centries, net->nentries + 1u, sizeof(*net->entries)))
        return false;
    net->entries[net->nentries++] = (entry_t){res, 1};
    return true;
}

uint32_t ccl_i_net_path(ccl_i_net_t *net, const ccl_route_t *route, double cap_Bps) {
    const ccl_topology_t *topo = net->topo;
    /* The links limit to the narrowest anyway; without links as resources the cap must do it. */
    double cap = cap_Bps < route->bottleneck_Bps ? cap_Bps : route->bottleneck_Bps;
    if (net->npaths * 2 >= net->path_hash_len &&
        !path_rehash(net, net->path_hash_len ? 2 * net->path_hash_len : 64))
        return CCL_NONE;
    uint64_t h = path_key(route, cap) & (net->path_hash_len - 1);
    for (; net->path_hash[h] != CCL_NONE; h = (h + 1) & (net->path_hash_len - 1)) {
        const path_t *p = &net->paths[net->path_hash[h]];
        if (p->route == route && p->cap_Bps == cap)
            return net->path_hash[h];
    }
    uint32_t first = net->nentries;
    for (uint32_t i = 0; net->use_links && i < route->nlinks; i++)
        if (!path_entry(net, first, route->links[i]))
            return CCL_NONE;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        for (uint32_t k = 0; k < topo->groups[g].nlinks; k++)
            for (uint32_t i = 0; i < route->nlinks; i++)
                if (route->links[i] == topo->groups[g].links[k] &&
                    !path_entry(net, first, topo->nlinks + g))
                    return CCL_NONE;
    if (!net->use_links || cap < route->bottleneck_Bps) {
        uint32_t c = cap_class(net, cap);
        if (c == CCL_NONE || !path_entry(net, first, c))
            return CCL_NONE;
    }
    if (!ccl_i_grow(&net->paths, &net->cpaths, net->npaths + 1u, sizeof(*net->paths)))
        return CCL_NONE;
    net->paths[net->npaths] =
        (path_t){.first = first, .n = net->nentries - first, .cap_Bps = cap, .route = route};
    net->path_hash[h] = net->npaths;
    return net->npaths++;
}

/* A resource that every path through it shares with one that is never wider is redundant: it is
   full only when the other is. Saves about half the work on
   fabrics where each NIC has its own PCIe link. */
static bool drop_redundant(ccl_i_net_t *net) {
    enum { MOST = 12 };
    uint32_t n = net->first_cap;
    uint32_t(*common)[MOST] = malloc((size_t)n * sizeof(*common));
    uint8_t *ncommon = malloc(n);
    if (!common || !ncommon) {
        free(common);
        free(ncommon);
        return false;
    }
    memset(ncommon, 0xff, n);
    for (uint32_t p = 0; p < net->npaths; p++) {
        const entry_t *e = &net->entries[net->paths[p].first];
        uint32_t len = net->paths[p].n;
        for (uint32_t i = 0; i < len; i++) {
            uint32_t r = e[i].res;
            if (r >= n)
                continue;
            if (ncommon[r] == 0xff) {
                ncommon[r] = 0;
                for (uint32_t j = 0; j < len && ncommon[r] < MOST; j++)
                    if (j != i && e[j].res < n && e[i].weight == 1)
                        common[r][ncommon[r]++] = e[j].res;
                continue;
            }
            uint8_t keep = 0;
            for (uint8_t k = 0; k < ncommon[r]; k++)
                for (uint32_t j = 0; j < len; j++)
                    if (e[j].res == common[r][k] && e[i].weight == 1) {
                        common[r][keep++] = common[r][k];
                        break;
                    }
            ncommon[r] = keep;
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        if (ncommon[r] == 0xff || net->res[r].kappa > 0)
            continue;
        for (uint8_t k = 0; k < ncommon[r]; k++) {
            uint32_t o = common[r][k];
            if (net->res[o].dropped || net->res[o].base > net->res[r].base)
                continue;
            net->res[r].dropped = true;
            break;
        }
    }
    free(common);
    free(ncommon);
    uint32_t out = 0;
    for (uint32_t p = 0; p < net->npaths; p++) {
        uint32_t first = out;
        for (uint32_t i = 0; i < net->paths[p].n; i++) {
            entry_t e = net->entries[net->paths[p].first + i];
            if (!net->res[e.res].dropped)
                net->entries[out++] = e;
        }
        net->paths[p].first = first;
        net->paths[p].n = out - first;
    }
    net->nentries = out;
    return true;
}

bool ccl_i_net_freeze(ccl_i_net_t *net) {
    if (!drop_redundant(net))
        return false;
    net->stride = 1;
    for (uint32_t i = 0; i < net->npaths; i++) {
        path_t *p = &net->paths[i];
        const entry_t *e = &net->entries[p->first];
        if (p->n > net->stride)
            net->stride = p->n;
        p->heap = &p->one;
        p->cheap = 1;
        p->other = p->n == 1                                           ? net->nres
                   : p->n == 2 && e[0].weight == 1 && e[1].weight == 1 ? 0 /* by own_add */
                                                                       : CCL_NONE;
        if (p->n == 1 && e[0].weight != 1)
            p->other = CCL_NONE;
    }
    size_t n = net->nres + 1u;
    net->queue = malloc(n * sizeof(*net->queue));
    net->pos = malloc((size_t)(net->npaths + 1u) * net->stride * sizeof(*net->pos));
    net->bottle = malloc((net->npaths + 1u) * sizeof(*net->bottle));
    net->level = malloc(n * sizeof(double));
    net->other = calloc(n, sizeof(double));
    net->own = calloc(n, sizeof(double));
    net->cap = malloc(n * sizeof(double));
    net->fastest = calloc(n, sizeof(double));
    net->full = malloc(n * sizeof(double));
    net->dirty = calloc(n, 1);
    net->lazy = calloc(n, 1);
    net->all = calloc(n, sizeof(double));
    if (!net->queue || !net->pos || !net->bottle || !net->level || !net->other || !net->own ||
        !net->cap || !net->fastest || !net->full || !net->dirty || !net->lazy || !net->all)
        return false;
    memset(net->bottle, 0xff, net->npaths * sizeof(*net->bottle));
    for (uint32_t i = 0; i <= net->nres; i++) {
        bool fixed = i == net->nres || net->res[i].fixed;
        net->level[i] = i < net->nres && fixed ? net->res[i].base : INFINITY;
        net->cap[i] = fixed ? INFINITY : net->res[i].base;
        net->full[i] = net->cap[i] * (1 + EPS);
        net->dirty[i] = fixed;
    }
    net->lazy[net->nres] = 1; /* the sentinel's load does not matter */
    net->all[net->nres] = 1;
    return true;
}

/* ---------------------------------------------------------------- flows come and go */

static void member_add(ccl_i_net_t *net, uint32_t path, uint32_t slot, uint32_t res) {
    resource_t *r = &net->res[res];
    if (r->fixed)
        return;
    if (r->nlist == r->clist) {
        uint32_t cap = r->clist ? 2 * r->clist : 4;
        member_t *list = realloc(r->list, cap * sizeof(*list));
        if (!list) {
            net->nomem = true;
            return;
        }
        r->list = list;
        r->clist = cap;
    }
    net->pos[(size_t)path * net->stride + slot] = r->nlist;
    r->list[r->nlist++] = (member_t){path, slot};
}

static void member_remove(ccl_i_net_t *net, uint32_t path, uint32_t slot, uint32_t res) {
    resource_t *r = &net->res[res];
    if (r->fixed)
        return;
    uint32_t at = net->pos[(size_t)path * net->stride + slot];
    member_t last = r->list[--r->nlist];
    r->list[at] = last;
    net->pos[(size_t)last.path * net->stride + last.slot] = at;
}

bool ccl_i_net_start(ccl_i_net_t *net, uint32_t path, double bytes, uint32_t user) {
    if (!ccl_i_grow(&net->started, &net->cstarted, net->nstarted + 1u, sizeof(*net->started)))
        return false;
    net->started[net->nstarted++] = (started_t){bytes, path, user};
    net->active_flows++;
    return true;
}

double ccl_i_net_next_s(const ccl_i_net_t *net) {
    return net->nqueue ? net->res[net->queue[0]].next_t : INFINITY;
}

/* All flows of one of a resource's own paths that are due at volume `vol`. */
static void take_path(ccl_i_net_t *net, uint32_t path, double vol, size_t *n) {
    path_t *p = &net->paths[path];
    const resource_t *r = &net->res[net->bottle[path]];
    double level = net->level[net->bottle[path]];
    while (p->nheap && p->heap[0].key - p->offset <= vol) {
        if (!ccl_i_grow(&net->drained, &net->cdrained, *n + 1, sizeof(*net->drained)) ||
            !ccl_i_grow(&net->ended, &net->cended, net->nended + 1u, sizeof(*net->ended))) {
            net->nomem = true;
            return;
        }
        double left = p->heap[0].key - p->offset - r->vol;
        net->drained[(*n)++] =
            (ccl_i_drained_t){r->vol_t + (left > 0 ? left / level : 0), p->heap[0].user};
        net->ended[net->nended++] = path;
        ccl_i_path_pop(p);
    }
}

size_t ccl_i_net_take(ccl_i_net_t *net, double until_s, const ccl_i_drained_t **out) {
    size_t n = 0;
    while (net->nqueue && net->res[net->queue[0]].next_t <= until_s && !net->nomem) {
        uint32_t index = net->queue[0];
        resource_t *r = &net->res[index];
        /* The first is due by next_t itself: do not let rounding of the volume hide it. */
        double vol =
            fmax(r->vol + net->level[index] * (until_s - r->vol_t), ccl_i_net_first_key(r));
        if (r->fixed) {
            while (r->nown && r->own[0].key <= vol && !net->nomem) {
                uint32_t path = r->own[0].path;
                take_path(net, path, vol, &n);
                ccl_i_net_own_update(net, path);
            }
        } else {
            for (uint32_t i = 0; i < r->nown; i++) {
                if (r->own[i].key > vol)
                    continue;
                take_path(net, r->own[i].path, vol, &n);
                ccl_i_net_own_update(net, r->own[i].path);
            }
        }
        requeue(net, index);
    }
    *out = net->drained;
    return n;
}

bool ccl_i_net_changed(const ccl_i_net_t *net) {
    return net->nstarted > 0 || net->nended > 0;
}

uint32_t ccl_i_net_active(const ccl_i_net_t *net) {
    return net->active_flows;
}

uint64_t ccl_i_net_rate_changes(const ccl_i_net_t *net) {
    return net->rate_changes;
}

/* ---------------------------------------------------------------- solving an instant */

static void seed(ccl_i_net_t *net, uint32_t res) {
    if (!ccl_i_grow(&net->seeds, &net->cseeds, net->nseeds + 1u, sizeof(*net->seeds))) {
        net->nomem = true;
        return;
    }
    net->seeds[net->nseeds++] = res;
}

/* A path has `more` flows (or fewer): loads, demand and lists of its resources. */
static void change_count(ccl_i_net_t *net, uint32_t path, int32_t more) {
    path_t *p = &net->paths[path];
    for (uint32_t k = 0; more > 0 && k < p->n; k++)
        if (net->lazy[net->entries[p->first + k].res])
            ccl_i_net_wake(net, net->entries[p->first + k].res);
    bool was = p->count > 0;
    p->count += (uint32_t)more;
    bool is = p->count > 0;
    uint32_t bottle = net->bottle[path];
    double rate = bottle == CCL_NONE ? 0 : net->level[bottle];
    for (uint32_t k = 0; k < p->n; k++) {
        entry_t e = net->entries[p->first + k];
        resource_t *r = &net->res[e.res];
        ccl_i_net_touch(net, e.res);
        net->all[e.res] += (double)e.weight * more;
        if (is && !was)
            member_add(net, path, k, e.res);
        else if (was && !is)
            member_remove(net, path, k, e.res);
        if (r->kappa > 0) {
            r->demand = r->nlist ? r->demand + more * p->cap_Bps : 0;
            net->cap[e.res] = r->base * ccl_model_eta(r->kappa, r->demand / r->base);
            net->full[e.res] = net->cap[e.res] * (1 + EPS);
        }
        if (bottle == e.res)
            net->own[e.res] += (double)e.weight * more;
        else
            net->other[e.res] =
                r->nlist || r->fixed ? net->other[e.res] + (double)e.weight * more * rate : 0;
        seed(net, e.res);
    }
    if (bottle == CCL_NONE)
        return;
    if (is) {
        ccl_i_net_own_update(net, path);
        return;
    }
    ccl_i_net_own_remove(net, path, &net->res[bottle]);
    ccl_i_net_leave(net, bottle, 0);
    net->bottle[path] = CCL_NONE;
    net->active_paths--;
}

/* First guess for a path that was inactive: limited where the level is lowest; where nothing is
   full yet, by the resource with the least room for it. Relaxing does the rest. */
static void guess(ccl_i_net_t *net, uint32_t path) {
    path_t *p = &net->paths[path];
    const entry_t *e = &net->entries[p->first];
    uint32_t best = 0;
    double rate = INFINITY;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t m = e[k].res;
        double room = net->cap[m] > net->other[m] ? net->cap[m] - net->other[m] : 0;
        double x = net->level[m] < INFINITY ? net->level[m] : room / (e[k].weight * p->count);
        if (x < rate) {
            rate = x;
            best = k;
        }
    }
    uint32_t b = e[best].res;
    if (!(net->level[b] < INFINITY)) {
        net->level[b] = rate;
        net->res[b].check = true;
    }
    ccl_i_net_join(net, path, b, (double)e[best].weight * p->count, 0);
    for (uint32_t k = 0; k < p->n; k++) {
        if (k == best)
            continue;
        net->other[e[k].res] += (double)e[k].weight * p->count * rate;
        if (rate > net->fastest[e[k].res])
            net->fastest[e[k].res] = rate;
    }
}

static void add_started(ccl_i_net_t *net) {
    net->nfresh = 0;
    for (uint32_t i = 0; i < net->nstarted; i++) {
        started_t s = net->started[i];
        path_t *p = &net->paths[s.path];
        double clock = 0;
        uint32_t bottle = net->bottle[s.path];
        if (bottle != CCL_NONE) {
            ccl_i_net_touch(net, bottle);
            clock = net->res[bottle].vol + p->offset;
        } else if (p->count == 0) {
            if (!ccl_i_grow(&net->fresh, &net->cfresh, net->nfresh + 1u, sizeof(*net->fresh))) {
                net->nomem = true;
                return;
            }
            net->fresh[net->nfresh++] = s.path;
            net->active_paths++;
        }
        if (!ccl_i_path_push(p, (flow_t){clock + s.bytes, s.user})) {
            net->nomem = true;
            return;
        }
        change_count(net, s.path, 1);
    }
}

bool ccl_i_net_solve(ccl_i_net_t *net, double now_s) {
    net->now = now_s;
    net->touch_epoch++;
    net->ntouched = net->nseeds = 0;
    uint64_t changes = (uint64_t)net->nstarted + net->nended;
    bool filling = net->force == 2 || (net->force == 0 && changes * 8 > net->active_paths);
    for (uint32_t i = 0; i < net->nended && !net->nomem; i++)
        change_count(net, net->ended[i], -1);
    net->active_flows -= net->nended;
    add_started(net);
    for (uint32_t i = 0; i < net->nfresh && !net->nomem; i++) {
        const path_t *p = &net->paths[net->fresh[i]];
        /* Filling starts from links and groups: it does not meet a path that only its cap limits.
         */
        if (!filling || (p->n == 1 && net->res[net->entries[p->first].res].fixed))
            guess(net, net->fresh[i]);
    }
    if (!filling && !net->nomem) {
        for (uint32_t i = 0; i < net->nseeds; i++)
            ccl_i_net_mark_dirty(net, net->seeds[i]);
        uint64_t limit = net->visits + 40ull * net->active_paths + 4096;
        while (net->nwork > 0 && !net->nomem) {
            if (net->visits > limit && net->force != 1) {
                /* Not settling quickly: start over from what is connected. */
                while (net->nwork > 0)
                    seed(net, ccl_i_net_pop_dirty(net));
                filling = true;
                break;
            }
            uint32_t r = ccl_i_net_pop_dirty(net);
            if (net->nwork > 0 && ccl_i_net_candidate(net, r) > net->work[0].key)
                ccl_i_net_push_dirty(net,
                                     r); /* its level has risen since it was marked: others first */
            else
                ccl_i_net_relax(net, r);
        }
    }
    if (filling && !net->nomem)
        ccl_i_net_fill(net);
    for (uint32_t i = 0; net->nended > 0 && !filling && i < net->nseeds; i++)
        ccl_i_net_rest(net, net->seeds[i]);
    net->nstarted = net->nended = 0;
    for (uint32_t i = 0; i < net->ntouched; i++)
        requeue(net, net->touched[i]);
    return !net->nomem;
}

/* ---------------------------------------------------------------- looking in from outside */

void ccl_i_net_visit(const ccl_i_net_t *net, double now_s, ccl_i_net_visit_fn fn, void *ctx) {
    for (uint32_t i = 0; i < net->npaths; i++) {
        const path_t *p = &net->paths[i];
        uint32_t bottle = net->bottle[i];
        if (bottle == CCL_NONE)
            continue;
        const resource_t *r = &net->res[bottle];
        double clock = r->vol + net->level[bottle] * (now_s - r->vol_t) + p->offset;
        for (uint32_t k = 0; k < p->nheap; k++)
            fn(p->heap[k].user, p->heap[k].key - clock, ctx);
    }
}

void ccl_i_net_shift(ccl_i_net_t *net, double shift_s) {
    net->now += shift_s;
    for (uint32_t i = 0; i < net->nres; i++) {
        net->res[i].vol_t += shift_s;
        net->res[i].next_t += shift_s;
    }
}

double ccl_i_net_rate(const ccl_i_net_t *net, uint32_t user) {
    for (uint32_t i = 0; i < net->npaths; i++)
        for (uint32_t k = 0; k < net->paths[i].nheap; k++)
            if (net->paths[i].heap[k].user == user && net->bottle[i] != CCL_NONE)
                return net->level[net->bottle[i]];
    return 0;
}

void ccl_i_net_force(ccl_i_net_t *net, int solver) {
    net->force = solver;
}
