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
#include "sim/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rates that differ by less than this, relatively, are equal: keeps rounding from moving paths
   to and fro between resources that are tied. */
#define EPS 1e-12

typedef struct entry {
    uint32_t res, weight;
} entry_t;

typedef struct flow {
    double key; /* drained when the path's clock of served volume shows this */
    uint32_t user;
} flow_t;

typedef struct path {
    uint32_t first, n; /* entries */
    uint32_t count;    /* active flows */
    uint32_t own_pos;  /* its place among the bottleneck's own */
    uint32_t other;    /* the other resource of a path of two of weight 1; none: the sentinel;
                          CCL_NONE: look at the entries */
    uint32_t mark;
    uint32_t nheap, cheap;
    double offset;  /* path's clock - bottleneck's clock */
    double cap_Bps; /* what a flow adds to a link's demand in eta(z) */
    flow_t *heap;   /* by key; &one while one suffices */
    flow_t one;
    const ccl_route_t *route;
} path_t;

/* A path among those limited by a resource. */
typedef struct own {
    uint32_t path, other;
    double count;
    double key; /* of its first flow, on the resource's clock */
} own_t;

typedef struct member {
    uint32_t path, slot;
} member_t;

typedef struct resource {
    double vol, vol_t; /* served volume per flow and the time it holds for */
    double next_t, min_key;
    own_t *own; /* a heap by key for cap classes, unordered for others */
    uint32_t nown, cown;
    member_t *list; /* all active paths (not kept for cap classes) */
    uint32_t nlist, clist;
    uint32_t queue_pos; /* in the completion queue */
    uint32_t mark, touched;
    uint32_t age;      /* relaxations since `other` was last summed up afresh */
    bool fixed;        /* a cap class: its level is its rate for ever */
    bool check;        /* paths limited elsewhere may be faster than its level */
    bool min_stale;
    bool dropped;
    double base, kappa, demand; /* links with contention */
    double rem, cnt;            /* filling */
} resource_t;

typedef struct keyed {
    double key;
    uint32_t id;
} keyed_t;

typedef struct started {
    double bytes;
    uint32_t path, user;
} started_t;

struct ccl_i_net {
    const ccl_topology_t *topo;
    bool use_links;
    int force;
    double now;
    resource_t *res;
    uint32_t nres;
    size_t cres;
    uint32_t first_cap; /* resources from here on are cap classes */
    /* [nres + 1], the last for the sentinel that limits nobody */
    double *level;   /* rate of the paths limited here; INFINITY when there are none */
    double *other;   /* load of flows limited elsewhere */
    double *own;     /* weight of flows limited here */
    double *cap;     /* capacity now, B eta(z) */
    double *full;    /* cap (1 + EPS) */
    double *fastest; /* no path limited elsewhere is faster than this */
    uint8_t *dirty;  /* waits in work; always set for cap classes and the sentinel */
    path_t *paths;
    uint32_t npaths;
    size_t cpaths;
    uint32_t *bottle; /* [path] resource that limits it; CCL_NONE when inactive */
    entry_t *entries;
    uint32_t nentries;
    size_t centries;
    uint32_t *path_hash; /* open addressing: path index or CCL_NONE */
    uint32_t path_hash_len;
    uint32_t stride; /* most entries of a path */
    uint32_t *pos;   /* [path][stride]: place in its resources' lists */
    uint32_t active_paths, active_flows;
    started_t *started; /* flows to add at the next solve */
    uint32_t nstarted;
    size_t cstarted;
    uint32_t *ended; /* a path per flow that was taken */
    uint32_t nended;
    size_t cended;
    uint32_t *fresh; /* paths that were inactive */
    uint32_t nfresh;
    size_t cfresh;
    ccl_i_drained_t *drained;
    size_t cdrained;
    uint32_t *queue; /* completion queue: resources by next_t */
    uint32_t nqueue;
    keyed_t *work; /* dirty resources by level */
    uint32_t nwork;
    size_t cwork;
    uint32_t *touched;
    uint32_t ntouched;
    size_t ctouched;
    uint32_t *seeds; /* resources of what changed in this instant */
    uint32_t nseeds;
    size_t cseeds;
    uint32_t *scratch;
    size_t cscratch;
    uint32_t epoch, touch_epoch;
    uint64_t rate_changes, visits;
    bool nomem;
};

/* ---------------------------------------------------------------- a path's flows */

static bool flow_push(path_t *p, flow_t flow) {
    if (p->nheap == p->cheap) {
        flow_t *heap = malloc((size_t)2 * p->cheap * sizeof(*heap));
        if (!heap)
            return false;
        memcpy(heap, p->heap, p->nheap * sizeof(*heap));
        if (p->heap != &p->one)
            free(p->heap);
        p->heap = heap;
        p->cheap *= 2;
    }
    uint32_t at = p->nheap++;
    while (at > 0 && p->heap[(at - 1) / 2].key > flow.key) {
        p->heap[at] = p->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    p->heap[at] = flow;
    return true;
}

static void flow_pop(path_t *p) {
    flow_t item = p->heap[--p->nheap];
    uint32_t at = 0;
    for (;;) {
        uint32_t kid = 2 * at + 1;
        if (kid >= p->nheap)
            break;
        if (kid + 1 < p->nheap && p->heap[kid + 1].key < p->heap[kid].key)
            kid++;
        if (p->heap[kid].key >= item.key)
            break;
        p->heap[at] = p->heap[kid];
        at = kid;
    }
    p->heap[at] = item;
}

/* ---------------------------------------------------------------- a resource's own paths */

static void own_place(ccl_i_net_t *net, resource_t *r, uint32_t at, own_t item) {
    r->own[at] = item;
    net->paths[item.path].own_pos = at;
}

/* Restore the heap of a cap class around one place. */
static void own_fix(ccl_i_net_t *net, resource_t *r, uint32_t at) {
    own_t item = r->own[at];
    while (at > 0 && r->own[(at - 1) / 2].key > item.key) {
        own_place(net, r, at, r->own[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t kid = 2 * at + 1;
        if (kid >= r->nown)
            break;
        if (kid + 1 < r->nown && r->own[kid + 1].key < r->own[kid].key)
            kid++;
        if (r->own[kid].key >= item.key)
            break;
        own_place(net, r, at, r->own[kid]);
        at = kid;
    }
    own_place(net, r, at, item);
}

static void own_add(ccl_i_net_t *net, uint32_t path, uint32_t res) {
    resource_t *r = &net->res[res];
    path_t *p = &net->paths[path];
    if (r->nown == r->cown) {
        uint32_t cap = r->cown ? 2 * r->cown : 4;
        own_t *own = realloc(r->own, cap * sizeof(*own));
        if (!own) {
            net->nomem = true;
            return;
        }
        r->own = own;
        r->cown = cap;
    }
    net->bottle[path] = res;
    own_t item = {path, p->other, p->count, p->nheap ? p->heap[0].key - p->offset : INFINITY};
    if (p->other != CCL_NONE && p->n == 2)
        item.other = net->entries[p->first].res == res ? net->entries[p->first + 1].res
                                                       : net->entries[p->first].res;
    own_place(net, r, r->nown++, item);
    if (r->fixed)
        own_fix(net, r, r->nown - 1);
    else if (item.key < r->min_key)
        r->min_key = item.key;
}

static void own_remove(ccl_i_net_t *net, uint32_t path, resource_t *r) {
    uint32_t at = net->paths[path].own_pos;
    if (r->own[at].key <= r->min_key)
        r->min_stale = true;
    own_t last = r->own[--r->nown];
    if (last.path == path)
        return;
    own_place(net, r, at, last);
    if (r->fixed)
        own_fix(net, r, at);
}

/* Count or first flow of an active path changed. */
static void own_update(ccl_i_net_t *net, uint32_t path) {
    path_t *p = &net->paths[path];
    resource_t *r = &net->res[net->bottle[path]];
    own_t *own = &r->own[p->own_pos];
    double key = p->nheap ? p->heap[0].key - p->offset : INFINITY;
    if (own->key <= r->min_key && key > own->key)
        r->min_stale = true;
    own->count = p->count;
    own->key = key;
    if (r->fixed)
        own_fix(net, r, p->own_pos);
    else if (key < r->min_key)
        r->min_key = key;
}

static double first_key(resource_t *r) {
    if (r->nown == 0) {
        r->min_key = INFINITY;
    } else if (r->fixed) {
        r->min_key = r->own[0].key;
    } else if (r->min_stale) {
        r->min_key = INFINITY;
        for (uint32_t i = 0; i < r->nown; i++)
            if (r->own[i].key < r->min_key)
                r->min_key = r->own[i].key;
    }
    r->min_stale = false;
    return r->min_key;
}

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
        double left = first_key(r) - r->vol;
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
    if (!ccl_grow(&net->res, &net->cres, net->nres + 8u, sizeof(*net->res))) {
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
    if (!ccl_grow(&net->res, &net->cres, net->nres + 1u, sizeof(*net->res)))
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

static bool path_rehash(ccl_i_net_t *net) {
    uint32_t len = net->path_hash_len ? 2 * net->path_hash_len : 64;
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

static bool path_entry(ccl_i_net_t *net, uint32_t first, uint32_t res) {
    for (uint32_t i = first; i < net->nentries; i++)
        if (net->entries[i].res == res) {
            net->entries[i].weight++;
            return true;
        }
    if (!ccl_grow(&net->entries, &net->centries, net->nentries + 1u, sizeof(*net->entries)))
        return false;
    net->entries[net->nentries++] = (entry_t){res, 1};
    return true;
}

uint32_t ccl_i_net_path(ccl_i_net_t *net, const ccl_route_t *route, double cap_Bps) {
    const ccl_topology_t *topo = net->topo;
    /* The links limit to the narrowest anyway; without links as resources the cap must do it. */
    double cap = cap_Bps < route->bottleneck_Bps ? cap_Bps : route->bottleneck_Bps;
    if (net->npaths * 2 >= net->path_hash_len && !path_rehash(net))
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
    if (!ccl_grow(&net->paths, &net->cpaths, net->npaths + 1u, sizeof(*net->paths)))
        return CCL_NONE;
    net->paths[net->npaths] = (path_t){.first = first,
                                       .n = net->nentries - first,
                                       .cap_Bps = cap,
                                       .route = route};
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
        p->other = p->n == 1                                              ? net->nres
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
    if (!net->queue || !net->pos || !net->bottle || !net->level || !net->other || !net->own || !net->cap ||
        !net->fastest || !net->full || !net->dirty)
        return false;
    memset(net->bottle, 0xff, net->npaths * sizeof(*net->bottle));
    for (uint32_t i = 0; i <= net->nres; i++) {
        bool fixed = i == net->nres || net->res[i].fixed;
        net->level[i] = i < net->nres && fixed ? net->res[i].base : INFINITY;
        net->cap[i] = fixed ? INFINITY : net->res[i].base;
        net->full[i] = net->cap[i] * (1 + EPS);
        net->dirty[i] = fixed;
    }
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
    if (!ccl_grow(&net->started, &net->cstarted, net->nstarted + 1u, sizeof(*net->started)))
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
        if (!ccl_grow(&net->drained, &net->cdrained, *n + 1, sizeof(*net->drained)) ||
            !ccl_grow(&net->ended, &net->cended, net->nended + 1u, sizeof(*net->ended))) {
            net->nomem = true;
            return;
        }
        double left = p->heap[0].key - p->offset - r->vol;
        net->drained[(*n)++] =
            (ccl_i_drained_t){r->vol_t + (left > 0 ? left / level : 0), p->heap[0].user};
        net->ended[net->nended++] = path;
        flow_pop(p);
    }
}

size_t ccl_i_net_take(ccl_i_net_t *net, double until_s, const ccl_i_drained_t **out) {
    size_t n = 0;
    while (net->nqueue && net->res[net->queue[0]].next_t <= until_s && !net->nomem) {
        uint32_t index = net->queue[0];
        resource_t *r = &net->res[index];
        /* The first is due by next_t itself: do not let rounding of the volume hide it. */
        double vol = fmax(r->vol + net->level[index] * (until_s - r->vol_t), first_key(r));
        if (r->fixed) {
            while (r->nown && r->own[0].key <= vol && !net->nomem) {
                uint32_t path = r->own[0].path;
                take_path(net, path, vol, &n);
                own_update(net, path);
            }
        } else {
            for (uint32_t i = 0; i < r->nown; i++) {
                if (r->own[i].key > vol)
                    continue;
                take_path(net, r->own[i].path, vol, &n);
                own_update(net, r->own[i].path);
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

/* ---------------------------------------------------------------- relaxing */

/* Bring a resource's clock to now, once per solve, before anything of it changes. */
static void touch(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    if (r->touched == net->touch_epoch)
        return;
    r->touched = net->touch_epoch;
    if (!ccl_grow(&net->touched, &net->ctouched, net->ntouched + 1u, sizeof(*net->touched))) {
        net->nomem = true;
        return;
    }
    net->touched[net->ntouched++] = index;
    if (r->nown == 0) {
        r->vol = 0; /* no key refers to it: keeps the clock precise */
        r->min_key = INFINITY;
        r->min_stale = false;
    } else if (net->level[index] < INFINITY) {
        r->vol += net->level[index] * (net->now - r->vol_t);
    }
    r->vol_t = net->now;
}

static double candidate(const ccl_i_net_t *net, uint32_t r) {
    return net->own[r] > 0 ? (net->cap[r] - net->other[r]) / net->own[r] : 0;
}

static void push_dirty(ccl_i_net_t *net, uint32_t index) {
    if (net->nwork == net->cwork &&
        !ccl_grow(&net->work, &net->cwork, net->nwork + 1u, sizeof(*net->work))) {
        net->nomem = true;
        return;
    }
    net->dirty[index] = 1;
    keyed_t item = {candidate(net, index), index};
    uint32_t at = net->nwork++;
    while (at > 0 && net->work[(at - 1) / 2].key > item.key) {
        net->work[at] = net->work[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    net->work[at] = item;
}

/* Only what has paths of its own to set, or too much load, needs relaxing. */
static inline void mark_dirty(ccl_i_net_t *net, uint32_t r) {
    if (!net->dirty[r] && (net->own[r] > 0 || net->other[r] > net->full[r]))
        push_dirty(net, r);
}

static uint32_t pop_dirty(ccl_i_net_t *net) {
    uint32_t top = net->work[0].id;
    keyed_t item = net->work[--net->nwork];
    uint32_t at = 0;
    for (;;) {
        uint32_t kid = 2 * at + 1;
        if (kid >= net->nwork)
            break;
        if (kid + 1 < net->nwork && net->work[kid + 1].key < net->work[kid].key)
            kid++;
        if (net->work[kid].key >= item.key)
            break;
        net->work[at] = net->work[kid];
        at = kid;
    }
    if (net->nwork)
        net->work[at] = item;
    net->dirty[top] = 0;
    return top;
}

static void leave_own(ccl_i_net_t *net, uint32_t res, double weight) {
    net->own[res] -= weight;
    if (net->res[res].nown == 0 || net->own[res] < 0.5) {
        net->own[res] = 0;
        if (!net->res[res].fixed)
            net->level[res] = INFINITY;
    }
}

/* An inactive path, or one that just left its bottleneck, becomes limited by `to`. clock: the
   path's served volume now. */
static void join_own(ccl_i_net_t *net, uint32_t path, uint32_t to, double weight, double clock) {
    touch(net, to);
    net->paths[path].offset = clock - net->res[to].vol;
    net->own[to] += weight;
    own_add(net, path, to);
}

/* Move a path to another bottleneck; it gets the rate that paths there are accounted for. */
static void move_path(ccl_i_net_t *net, uint32_t path, uint32_t to) {
    path_t *p = &net->paths[path];
    uint32_t from = net->bottle[path];
    const entry_t *e = &net->entries[p->first];
    double was = net->level[from], is = net->level[to];
    touch(net, from);
    double clock = net->res[from].vol + p->offset, weight = 0;
    own_remove(net, path, &net->res[from]);
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t m = e[k].res;
        double w = (double)e[k].weight * p->count;
        if (m == from) {
            leave_own(net, m, w);
            net->other[m] += w * is;
        } else if (m == to) {
            net->other[m] -= w * was;
            weight = w;
            continue;
        } else {
            net->other[m] += w * (is - was);
        }
        if (is > net->fastest[m])
            net->fastest[m] = is;
        mark_dirty(net, m);
    }
    join_own(net, path, to, weight, clock);
}

/* Thousands of small differences added up leave a rounding error; begin anew now and then. */
static void sum_afresh(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    double other = 0;
    for (uint32_t i = 0; i < r->nlist; i++) {
        const path_t *p = &net->paths[r->list[i].path];
        uint32_t bottle = net->bottle[r->list[i].path];
        if (bottle != index)
            other += (double)net->entries[p->first + r->list[i].slot].weight * p->count *
                     net->level[bottle];
    }
    net->other[index] = other;
    r->age = 0;
}

/* Take over paths that are limited elsewhere and now too fast here. */
static bool pull(ccl_i_net_t *net, uint32_t index, double bound) {
    resource_t *r = &net->res[index];
    double fastest = 0;
    bool pulled = false;
    net->visits += r->nlist;
    for (uint32_t i = 0; i < r->nlist; i++) {
        uint32_t path = r->list[i].path;
        uint32_t bottle = net->bottle[path];
        if (bottle == index)
            continue;
        double rate = net->level[bottle];
        if (rate > bound) {
            move_path(net, path, index);
            pulled = true;
        } else if (rate > fastest) {
            fastest = rate;
        }
    }
    net->fastest[index] = fastest;
    return pulled;
}

static double lowest_other(const ccl_i_net_t *net, const path_t *p, uint32_t index,
                           uint32_t *at_out) {
    const entry_t *e = &net->entries[p->first];
    double lowest = INFINITY;
    for (uint32_t k = 0; k < p->n; k++)
        if (e[k].res != index && net->level[e[k].res] < lowest) {
            lowest = net->level[e[k].res];
            *at_out = e[k].res;
        }
    return lowest;
}

/* Hand over own paths that another resource holds below `bound`. */
static bool push(ccl_i_net_t *net, uint32_t index, double bound) {
    resource_t *r = &net->res[index];
    uint32_t n = 0, to = CCL_NONE;
    net->visits += r->nown;
    if (!ccl_grow(&net->scratch, &net->cscratch, r->nown, sizeof(*net->scratch))) {
        net->nomem = r->nown > 0;
        return false;
    }
    for (uint32_t i = 0; i < r->nown; i++) {
        const own_t *own = &r->own[i];
        double level = own->other != CCL_NONE
                           ? net->level[own->other]
                           : lowest_other(net, &net->paths[own->path], index, &to);
        if (level < bound)
            net->scratch[n++] = own->path;
    }
    for (uint32_t i = 0; i < n; i++) {
        lowest_other(net, &net->paths[net->scratch[i]], index, &to);
        move_path(net, net->scratch[i], to);
        mark_dirty(net, to);
    }
    return n > 0;
}

static void apply(ccl_i_net_t *net, uint32_t index, double level) {
    const resource_t *r = &net->res[index];
    double delta = level - net->level[index];
    net->level[index] = level;
    net->rate_changes++;
    net->visits += r->nown;
    if (delta == 0)
        return;
    double *other = net->other, *fastest = net->fastest;
    const double *weight = net->own, *full = net->full;
    const uint8_t *dirty = net->dirty;
    for (const own_t *own = r->own, *end = own + r->nown; own < end; own++) {
        uint32_t o = own->other;
        if (o != CCL_NONE) {
            double load = other[o] + own->count * delta;
            other[o] = load;
            if (level > fastest[o])
                fastest[o] = level;
            if (!dirty[o] && (weight[o] > 0 || load > full[o]))
                push_dirty(net, o);
            continue;
        }
        const path_t *p = &net->paths[own->path];
        const entry_t *e = &net->entries[p->first];
        for (uint32_t k = 0; k < p->n; k++) {
            if (e[k].res == index)
                continue;
            net->other[e[k].res] += e[k].weight * own->count * delta;
            if (level > net->fastest[e[k].res])
                net->fastest[e[k].res] = level;
            mark_dirty(net, e[k].res);
        }
    }
}

static void relax(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    if (net->own[index] <= 0 && net->other[index] <= net->cap[index] * (1 + EPS))
        return;
    if (++r->age > 512)
        sum_afresh(net, index);
    bool fresh = r->check || net->own[index] <= 0;
    double old = fresh ? INFINITY : net->level[index];
    double level = candidate(net, index);
    if (!fresh && fabs(level - old) <= EPS * old)
        return;
    touch(net, index);
    r->check = false;
    if (net->own[index] <= 0)
        net->level[index] = 0; /* what those it pulls are accounted for until apply() */
    bool changed = fresh;
    if (level < old && net->fastest[index] > level * (1 + EPS)) {
        changed = pull(net, index, level * (1 + EPS)) || changed;
        if (net->own[index] <= 0) {
            net->level[index] = INFINITY;
            return;
        }
        level = candidate(net, index);
    }
    /* Each departure can only raise the level, so this ends. */
    if (level > old || changed) {
        while (push(net, index, level * (1 - EPS))) {
            if (net->own[index] <= 0) {
                mark_dirty(net, index);
                return;
            }
            level = candidate(net, index);
        }
    }
    apply(net, index, level > 0 ? level : 0);
}

/* ---------------------------------------------------------------- filling */

static int by_key(const void *a, const void *b) {
    const keyed_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void fill_push(keyed_t *heap, uint32_t *n, keyed_t item) {
    uint32_t at = (*n)++;
    while (at > 0 && by_key(&heap[(at - 1) / 2], &item) > 0) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

static keyed_t fill_pop(keyed_t *heap, uint32_t *n) {
    keyed_t top = heap[0], item = heap[--*n];
    uint32_t at = 0;
    for (;;) {
        uint32_t kid = 2 * at + 1;
        if (kid >= *n)
            break;
        if (kid + 1 < *n && by_key(&heap[kid + 1], &heap[kid]) < 0)
            kid++;
        if (by_key(&heap[kid], &item) >= 0)
            break;
        heap[at] = heap[kid];
        at = kid;
    }
    if (*n)
        heap[at] = item;
    return top;
}

/* During filling `offset` holds the path's own clock until the path is settled. */
static void settle(ccl_i_net_t *net, uint32_t path, uint32_t index, double level) {
    path_t *p = &net->paths[path];
    const entry_t *e = &net->entries[p->first];
    p->mark = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t m = e[k].res;
        double w = (double)e[k].weight * p->count;
        if (m == index) {
            join_own(net, path, index, w, p->offset);
            continue;
        }
        net->other[m] += w * level;
        if (level > net->fastest[m])
            net->fastest[m] = level;
        net->res[m].rem -= w * level;
        net->res[m].cnt -= w;
    }
}

/* What the seeds are connected to: resources, paths, and paths under a cap class. */
typedef struct component {
    uint32_t *res, *paths;
    keyed_t *capped, *heap;
    uint32_t nres, npaths, ncapped, nheap;
    size_t cres, cpaths, ccapped, cheap;
} component_t;

static bool connect(ccl_i_net_t *net, component_t *c) {
    uint32_t epoch = ++net->epoch;
    if (!ccl_grow(&c->res, &c->cres, net->nseeds + 1u, sizeof(*c->res)))
        return false;
    for (uint32_t i = 0; i < net->nseeds; i++) {
        resource_t *r = &net->res[net->seeds[i]];
        if (r->mark != epoch && !r->fixed) {
            r->mark = epoch;
            c->res[c->nres++] = net->seeds[i];
        }
    }
    for (uint32_t i = 0; i < c->nres; i++) {
        resource_t *r = &net->res[c->res[i]];
        touch(net, c->res[i]);
        if (!ccl_grow(&c->paths, &c->cpaths, (size_t)c->npaths + r->nlist + 1, sizeof(*c->paths)))
            return false;
        for (uint32_t k = 0; k < r->nlist; k++) {
            uint32_t path = r->list[k].path;
            path_t *p = &net->paths[path];
            if (p->mark == epoch)
                continue;
            p->mark = epoch;
            c->paths[c->npaths++] = path;
            const entry_t *e = &net->entries[p->first];
            for (uint32_t j = 0; j < p->n; j++) {
                resource_t *m = &net->res[e[j].res];
                if (m->fixed) {
                    if (!ccl_grow(&c->capped, &c->ccapped, c->ncapped + 1u, sizeof(*c->capped)))
                        return false;
                    c->capped[c->ncapped++] = (keyed_t){m->base, path};
                    touch(net, e[j].res);
                } else if (m->mark != epoch) {
                    if (!ccl_grow(&c->res, &c->cres, c->nres + 1u, sizeof(*c->res)))
                        return false;
                    m->mark = epoch;
                    c->res[c->nres++] = e[j].res;
                }
            }
        }
    }
    net->visits += c->npaths;
    return ccl_grow(&c->heap, &c->cheap, c->nres + 1u, sizeof(*c->heap));
}

/* Nobody is limited by anything yet. */
static void clear(ccl_i_net_t *net, component_t *c) {
    for (uint32_t i = 0; i < c->npaths; i++) {
        path_t *p = &net->paths[c->paths[i]];
        uint32_t bottle = net->bottle[c->paths[i]];
        if (bottle == CCL_NONE) {
            p->offset = 0;
            continue;
        }
        resource_t *b = &net->res[bottle];
        p->offset += b->vol; /* the path's clock */
        if (b->fixed) {
            own_remove(net, c->paths[i], b);
            net->own[bottle] -= p->count;
        }
        net->bottle[c->paths[i]] = CCL_NONE;
    }
    for (uint32_t i = 0; i < c->nres; i++) {
        uint32_t index = c->res[i];
        resource_t *r = &net->res[index];
        net->own[index] = net->other[index] = net->fastest[index] = 0;
        net->level[index] = INFINITY;
        r->cnt = r->vol = 0;
        r->nown = r->age = 0;
        r->min_key = INFINITY;
        r->min_stale = r->check = false;
        r->rem = net->cap[index];
        for (uint32_t k = 0; k < r->nlist; k++) {
            const path_t *p = &net->paths[r->list[k].path];
            r->cnt += (double)net->entries[p->first + r->list[k].slot].weight * p->count;
        }
        if (r->cnt > 0)
            fill_push(c->heap, &c->nheap, (keyed_t){r->rem / r->cnt, index});
    }
}

static void fill_levels(ccl_i_net_t *net, component_t *c) {
    uint32_t epoch = net->epoch, next = 0;
    bool sorted = true;
    for (uint32_t i = 1; i < c->ncapped && sorted; i++)
        sorted = by_key(&c->capped[i - 1], &c->capped[i]) <= 0;
    if (!sorted)
        qsort(c->capped, c->ncapped, sizeof(*c->capped), by_key);
    while (!net->nomem) {
        while (next < c->ncapped && net->paths[c->capped[next].id].mark != epoch)
            next++; /* settled already, below its cap */
        if (c->nheap == 0 && next >= c->ncapped)
            return;
        if (c->nheap == 0 || (next < c->ncapped && c->capped[next].key <= c->heap[0].key)) {
            uint32_t path = c->capped[next++].id;
            const path_t *p = &net->paths[path];
            for (uint32_t k = 0; k < p->n; k++)
                if (net->res[net->entries[p->first + k].res].fixed) {
                    settle(net, path, net->entries[p->first + k].res, c->capped[next - 1].key);
                    break;
                }
            continue;
        }
        keyed_t top = fill_pop(c->heap, &c->nheap);
        resource_t *r = &net->res[top.id];
        if (r->cnt < 0.5)
            continue;
        double level = r->rem > 0 ? r->rem / r->cnt : 0;
        if (level > top.key * (1 + EPS)) { /* others took less than their share since */
            fill_push(c->heap, &c->nheap, (keyed_t){level, top.id});
            continue;
        }
        net->level[top.id] = level;
        for (uint32_t k = 0; k < r->nlist; k++)
            if (net->paths[r->list[k].path].mark == epoch)
                settle(net, r->list[k].path, top.id, level);
        r->cnt = 0;
        net->rate_changes++;
    }
}

/* Progressive filling of all that the seeds are connected to. */
static void fill(ccl_i_net_t *net) {
    component_t c = {0};
    if (connect(net, &c)) {
        clear(net, &c);
        fill_levels(net, &c);
    } else {
        net->nomem = true;
    }
    free(c.res);
    free(c.paths);
    free(c.capped);
    free(c.heap);
}

/* ---------------------------------------------------------------- solving an instant */

static void seed(ccl_i_net_t *net, uint32_t res) {
    if (!ccl_grow(&net->seeds, &net->cseeds, net->nseeds + 1u, sizeof(*net->seeds))) {
        net->nomem = true;
        return;
    }
    net->seeds[net->nseeds++] = res;
}

/* A path has `more` flows (or fewer): loads, demand and lists of its resources. */
static void change_count(ccl_i_net_t *net, uint32_t path, int32_t more) {
    path_t *p = &net->paths[path];
    bool was = p->count > 0;
    p->count += (uint32_t)more;
    bool is = p->count > 0;
    uint32_t bottle = net->bottle[path];
    double rate = bottle == CCL_NONE ? 0 : net->level[bottle];
    for (uint32_t k = 0; k < p->n; k++) {
        entry_t e = net->entries[p->first + k];
        resource_t *r = &net->res[e.res];
        touch(net, e.res);
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
        own_update(net, path);
        return;
    }
    own_remove(net, path, &net->res[bottle]);
    leave_own(net, bottle, 0);
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
    join_own(net, path, b, (double)e[best].weight * p->count, 0);
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
            touch(net, bottle);
            clock = net->res[bottle].vol + p->offset;
        } else if (p->count == 0) {
            if (!ccl_grow(&net->fresh, &net->cfresh, net->nfresh + 1u, sizeof(*net->fresh))) {
                net->nomem = true;
                return;
            }
            net->fresh[net->nfresh++] = s.path;
            net->active_paths++;
        }
        if (!flow_push(p, (flow_t){clock + s.bytes, s.user})) {
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
    if (!filling && !net->nomem) {
        for (uint32_t i = 0; i < net->nfresh; i++)
            guess(net, net->fresh[i]);
        for (uint32_t i = 0; i < net->nseeds; i++)
            mark_dirty(net, net->seeds[i]);
        uint64_t limit = net->visits + 40ull * net->active_paths + 4096;
        while (net->nwork > 0 && !net->nomem) {
            if (net->visits > limit && net->force != 1) {
                /* Not settling quickly: start over from what is connected. */
                while (net->nwork > 0)
                    seed(net, pop_dirty(net));
                filling = true;
                break;
            }
            uint32_t r = pop_dirty(net);
            if (net->nwork > 0 && candidate(net, r) > net->work[0].key)
                push_dirty(net, r); /* its level has risen since it was marked: others first */
            else
                relax(net, r);
        }
    }
    if (filling && !net->nomem)
        fill(net);
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
