/**
 * @file network.c
 * Max-min fair rates by local relaxation and progressive filling.
 *
 * Source of the optimality condition: Bertsekas and Gallager, Data Networks, section 6.5.2: an
 * allocation is max-min fair exactly when every flow has a saturated resource on which no other
 * flow is faster. Served-volume clocks are those of generalised processor sharing.
 */
#include "sim/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rates that differ by less than this, relatively, are equal: keeps rounding from moving flows
   to and fro between resources that are tied. */
#define EPS 1e-12

typedef struct entry {
    uint32_t res, weight;
} entry_t;

typedef struct path {
    uint32_t first, n;
    double cap_Bps; /* what it adds to a link's demand in eta(z) */
    const ccl_route_t *route;
} path_t;

typedef struct flow {
    double rate;     /* as accounted for in `other` of its resources */
    double key;      /* volume of the bottleneck's clock at which it is drained */
    uint32_t path;   /* CCL_NONE: free slot */
    uint32_t first;  /* copy of the path's first entry, saves a look-up */
    uint32_t bottle; /* resource; CCL_NONE while new */
    uint32_t heap_pos;
    uint32_t user;
    uint32_t mark;
    uint16_t n;
} flow_t;

typedef struct member {
    uint32_t flow, slot;
} member_t;

typedef struct resource {
    double cap;   /* capacity now, B eta(z) */
    double other; /* load of flows limited elsewhere */
    double own;   /* weight of flows limited here */
    double level; /* their rate; INFINITY when there are none */
    double vol, vol_t; /* served volume per flow and the time it holds for */
    double next_t;
    uint32_t *heap; /* own flows by key */
    uint32_t nheap, cheap;
    member_t *list; /* all flows (not kept for cap classes) */
    uint32_t nlist, clist;
    uint32_t queue_pos; /* in the completion queue */
    uint32_t mark, touched;
    bool fixed; /* a cap class: its level is its rate for ever */
    bool dirty;
    bool check; /* flows limited elsewhere may be faster than its level */
    bool dropped;
    uint32_t age; /* relaxations since `other` was last summed up afresh */
    double base, kappa, demand; /* links with contention */
    double rem, cnt;            /* filling */
} resource_t;

typedef struct keyed {
    double key;
    uint32_t res;
} keyed_t;

struct ccl_i_net {
    const ccl_topology_t *topo;
    bool use_links, frozen;
    int force;
    double now;
    resource_t *res;
    uint32_t nres;
    size_t cres;
    uint32_t first_cap; /* resources from here on are cap classes */
    path_t *paths;
    uint32_t npaths;
    size_t cpaths;
    entry_t *entries;
    uint32_t nentries;
    size_t centries;
    uint32_t *path_hash; /* open addressing: path index or CCL_NONE */
    uint32_t path_hash_len;
    uint32_t stride; /* most entries of a path */
    flow_t *flows;
    uint32_t *pos; /* [flow][stride]: place in its resources' lists */
    uint32_t nflows;
    size_t cflows, cpos;
    uint32_t *free_flows;
    uint32_t nfree;
    size_t cfree;
    uint32_t active;
    uint32_t *started; /* flows to add at the next solve */
    uint32_t nstarted;
    size_t cstarted;
    uint32_t *removed;
    uint32_t nremoved;
    size_t cremoved;
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

/* ---------------------------------------------------------------- own-flow heaps */

static void heap_place(ccl_i_net_t *net, resource_t *r, uint32_t at, uint32_t f) {
    r->heap[at] = f;
    net->flows[f].heap_pos = at;
}

static void heap_up(ccl_i_net_t *net, resource_t *r, uint32_t at) {
    uint32_t f = r->heap[at];
    double key = net->flows[f].key;
    while (at > 0) {
        uint32_t up = (at - 1) / 2;
        if (net->flows[r->heap[up]].key <= key)
            break;
        heap_place(net, r, at, r->heap[up]);
        at = up;
    }
    heap_place(net, r, at, f);
}

static void heap_down(ccl_i_net_t *net, resource_t *r, uint32_t at) {
    uint32_t f = r->heap[at];
    double key = net->flows[f].key;
    for (;;) {
        uint32_t kid = 2 * at + 1;
        if (kid >= r->nheap)
            break;
        if (kid + 1 < r->nheap && net->flows[r->heap[kid + 1]].key < net->flows[r->heap[kid]].key)
            kid++;
        if (net->flows[r->heap[kid]].key >= key)
            break;
        heap_place(net, r, at, r->heap[kid]);
        at = kid;
    }
    heap_place(net, r, at, f);
}

static bool heap_room(resource_t *r) {
    if (r->nheap < r->cheap)
        return true;
    uint32_t cap = r->cheap ? 2 * r->cheap : 4;
    uint32_t *heap = realloc(r->heap, cap * sizeof(*heap));
    if (!heap)
        return false;
    r->heap = heap;
    r->cheap = cap;
    return true;
}

static void heap_push(ccl_i_net_t *net, resource_t *r, uint32_t f) {
    if (!heap_room(r)) {
        net->nomem = true;
        return;
    }
    heap_place(net, r, r->nheap, f);
    heap_up(net, r, r->nheap++);
}

static void heap_remove(ccl_i_net_t *net, resource_t *r, uint32_t f) {
    uint32_t at = net->flows[f].heap_pos;
    uint32_t last = r->heap[--r->nheap];
    if (last == f)
        return;
    heap_place(net, r, at, last);
    heap_up(net, r, at);
    heap_down(net, r, net->flows[last].heap_pos);
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

static double drain_time(const ccl_i_net_t *net, const resource_t *r) {
    double left = net->flows[r->heap[0]].key - r->vol;
    return r->vol_t + (left > 0 ? left / r->level : 0);
}

static void requeue(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    double next = r->nheap && r->level > 0 ? drain_time(net, r) : INFINITY;
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
        r->cap = r->base;
        r->level = INFINITY;
        r->next_t = INFINITY;
        r->queue_pos = CCL_NONE;
    }
    return net;
}

void ccl_i_net_destroy(ccl_i_net_t *net) {
    if (!net)
        return;
    for (uint32_t i = 0; i < net->nres; i++) {
        free(net->res[i].heap);
        free(net->res[i].list);
    }
    free(net->res);
    free(net->paths);
    free(net->entries);
    free(net->path_hash);
    free(net->flows);
    free(net->pos);
    free(net->free_flows);
    free(net->started);
    free(net->removed);
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
        if (net->res[i].level == cap_Bps)
            return i;
    if (!ccl_grow(&net->res, &net->cres, net->nres + 1u, sizeof(*net->res)))
        return CCL_NONE;
    resource_t *r = &net->res[net->nres];
    r->level = cap_Bps;
    r->cap = INFINITY;
    r->fixed = true;
    r->next_t = INFINITY;
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
    net->paths[net->npaths] = (path_t){first, net->nentries - first, cap, route};
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
    for (uint32_t p = 0; p < net->npaths; p++)
        if (net->paths[p].n > net->stride)
            net->stride = net->paths[p].n;
    net->queue = malloc((net->nres + 1u) * sizeof(*net->queue));
    net->frozen = net->queue != NULL;
    return net->frozen;
}

/* ---------------------------------------------------------------- flows come and go */

static void member_add(ccl_i_net_t *net, uint32_t f, uint32_t slot, uint32_t res) {
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
    net->pos[(size_t)f * net->stride + slot] = r->nlist;
    r->list[r->nlist++] = (member_t){f, slot};
}

static void member_remove(ccl_i_net_t *net, uint32_t f, uint32_t slot, uint32_t res) {
    resource_t *r = &net->res[res];
    if (r->fixed)
        return;
    uint32_t at = net->pos[(size_t)f * net->stride + slot];
    member_t last = r->list[--r->nlist];
    r->list[at] = last;
    net->pos[(size_t)last.flow * net->stride + last.slot] = at;
}

bool ccl_i_net_start(ccl_i_net_t *net, uint32_t path, double bytes, uint32_t user) {
    uint32_t f;
    if (net->nfree > 0) {
        f = net->free_flows[--net->nfree];
    } else {
        f = net->nflows;
        if (!ccl_grow(&net->flows, &net->cflows, f + 1u, sizeof(*net->flows)) ||
            !ccl_grow(&net->pos, &net->cpos, (size_t)(f + 1u) * net->stride, sizeof(*net->pos)))
            return false;
        net->nflows++;
    }
    if (!ccl_grow(&net->started, &net->cstarted, net->nstarted + 1u, sizeof(*net->started)))
        return false;
    const path_t *p = &net->paths[path];
    net->flows[f] = (flow_t){.rate = 0,
                             .key = bytes,
                             .path = path,
                             .first = p->first,
                             .bottle = CCL_NONE,
                             .user = user,
                             .n = (uint16_t)p->n};
    net->started[net->nstarted++] = f;
    net->active++;
    return true;
}

double ccl_i_net_next_s(const ccl_i_net_t *net) {
    return net->nqueue ? net->res[net->queue[0]].next_t : INFINITY;
}

size_t ccl_i_net_take(ccl_i_net_t *net, double until_s, const ccl_i_drained_t **out) {
    size_t n = 0;
    while (net->nqueue && net->res[net->queue[0]].next_t <= until_s) {
        uint32_t index = net->queue[0];
        resource_t *r = &net->res[index];
        if (!ccl_grow(&net->drained, &net->cdrained, n + 1, sizeof(*net->drained)) ||
            !ccl_grow(&net->removed, &net->cremoved, net->nremoved + 1u, sizeof(*net->removed))) {
            net->nomem = true;
            break;
        }
        uint32_t f = r->heap[0];
        net->drained[n++] = (ccl_i_drained_t){r->next_t, net->flows[f].user};
        heap_remove(net, r, f);
        net->flows[f].heap_pos = CCL_NONE;
        net->removed[net->nremoved++] = f;
        requeue(net, index);
    }
    *out = net->drained;
    return n;
}

bool ccl_i_net_changed(const ccl_i_net_t *net) {
    return net->nstarted > 0 || net->nremoved > 0;
}

uint32_t ccl_i_net_active(const ccl_i_net_t *net) {
    return net->active;
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
    if (r->nheap == 0) {
        r->vol = 0; /* nobody's key refers to it: keeps the clock precise */
    } else if (r->level < INFINITY) {
        r->vol += r->level * (net->now - r->vol_t);
    }
    r->vol_t = net->now;
}

static double candidate(const resource_t *r) {
    return r->own > 0 ? (r->cap - r->other) / r->own : 0;
}

static void mark_dirty(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    if (r->dirty || r->fixed || (r->own <= 0 && r->other <= r->cap * (1 + EPS)))
        return;
    if (!ccl_grow(&net->work, &net->cwork, net->nwork + 1u, sizeof(*net->work))) {
        net->nomem = true;
        return;
    }
    r->dirty = true;
    keyed_t item = {candidate(r), index};
    uint32_t at = net->nwork++;
    while (at > 0 && net->work[(at - 1) / 2].key > item.key) {
        net->work[at] = net->work[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    net->work[at] = item;
}

static uint32_t pop_dirty(ccl_i_net_t *net) {
    uint32_t top = net->work[0].res;
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
    net->res[top].dirty = false;
    return top;
}

static void leave_own(resource_t *r, double weight) {
    r->own -= weight;
    if (r->nheap == 0)
        r->own = 0;
    if (r->own <= 0 && !r->fixed) {
        r->own = 0;
        r->level = INFINITY;
    }
}

/* Flow f becomes limited by `to` (it is in no heap); left: bytes it has yet to drain. */
static void join_own(ccl_i_net_t *net, uint32_t f, uint32_t to, uint32_t weight, double left) {
    resource_t *r = &net->res[to];
    touch(net, to);
    net->flows[f].bottle = to;
    net->flows[f].key = r->vol + left;
    r->own += weight;
    heap_push(net, r, f);
}

static uint32_t weight_of(const ccl_i_net_t *net, const flow_t *flow, uint32_t res) {
    const entry_t *e = &net->entries[flow->first];
    for (uint32_t i = 0; i < flow->n; i++)
        if (e[i].res == res)
            return e[i].weight;
    return 0;
}

/* Move f from its bottleneck to `to`, at the rate it has. */
static void move_flow(ccl_i_net_t *net, uint32_t f, uint32_t to, uint32_t to_weight) {
    flow_t *flow = &net->flows[f];
    uint32_t from = flow->bottle;
    resource_t *a = &net->res[from], *b = &net->res[to];
    touch(net, from);
    double left = flow->key - a->vol;
    if (left < 0)
        left = 0;
    double w = weight_of(net, flow, from);
    heap_remove(net, a, f);
    leave_own(a, w);
    a->other += w * flow->rate;
    b->other -= to_weight * flow->rate;
    join_own(net, f, to, to_weight, left);
}

/* Thousands of small differences added up leave a rounding error; begin anew now and then. */
static void sum_afresh(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    double other = 0;
    for (uint32_t i = 0; i < r->nlist; i++) {
        const flow_t *flow = &net->flows[r->list[i].flow];
        if (flow->bottle != index)
            other += net->entries[flow->first + r->list[i].slot].weight * flow->rate;
    }
    r->other = other;
    r->age = 0;
}

static void relax(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    touch(net, index);
    if (r->own <= 0 && r->other <= r->cap * (1 + EPS))
        return;
    if (++r->age > 512)
        sum_afresh(net, index);
    double old = r->own > 0 && !r->check ? r->level : INFINITY;
    double level = r->own > 0 ? candidate(r) : 0;
    if (fabs(level - old) <= EPS * old && old < INFINITY)
        return;
    bool pulled = r->check;
    r->check = false;
    if (level < old || r->own <= 0) {
        /* Flows limited elsewhere may now be too fast here. */
        net->visits += r->nlist;
        double bound = level * (1 + EPS);
        for (uint32_t i = 0; i < r->nlist; i++) {
            uint32_t f = r->list[i].flow;
            flow_t *flow = &net->flows[f];
            if (flow->rate > bound && flow->bottle != index) {
                uint32_t from = flow->bottle;
                move_flow(net, f, index, net->entries[flow->first + r->list[i].slot].weight);
                mark_dirty(net, from);
                pulled = true;
            }
        }
        if (r->own <= 0)
            return;
        level = candidate(r);
    }
    /* Own flows that another resource holds below the new level go there; each departure can only
       raise the level, so this ends. */
    if (level > old * (1 + EPS) || pulled) {
        bool moved;
        do {
            moved = false;
            uint32_t n = 0;
            double bound = level * (1 - EPS);
            net->visits += r->nheap;
            for (uint32_t i = 0; i < r->nheap; i++) {
                const flow_t *flow = &net->flows[r->heap[i]];
                const entry_t *e = &net->entries[flow->first];
                for (uint32_t k = 0; k < flow->n; k++)
                    if (e[k].res != index && net->res[e[k].res].level < bound) {
                        if (!ccl_grow(&net->scratch, &net->cscratch, n + 1u,
                                      sizeof(*net->scratch))) {
                            net->nomem = true;
                            return;
                        }
                        net->scratch[n++] = r->heap[i];
                        break;
                    }
            }
            for (uint32_t i = 0; i < n; i++) {
                uint32_t f = net->scratch[i];
                flow_t *flow = &net->flows[f];
                const entry_t *e = &net->entries[flow->first];
                uint32_t to = CCL_NONE, weight = 0;
                double rate = INFINITY;
                for (uint32_t k = 0; k < flow->n; k++)
                    if (e[k].res != index && net->res[e[k].res].level < rate) {
                        rate = net->res[e[k].res].level;
                        to = e[k].res;
                        weight = e[k].weight;
                    }
                move_flow(net, f, to, weight);
                double delta = rate - flow->rate;
                for (uint32_t k = 0; k < flow->n; k++)
                    if (e[k].res != to) {
                        net->res[e[k].res].other += e[k].weight * delta;
                        if (e[k].res != index)
                            mark_dirty(net, e[k].res);
                    }
                flow->rate = rate;
                mark_dirty(net, to);
                moved = true;
            }
            if (r->own <= 0) {
                mark_dirty(net, index);
                return;
            }
            level = candidate(r);
        } while (moved);
    }
    if (level < 0)
        level = 0;
    r->level = level;
    net->rate_changes++;
    net->visits += r->nheap;
    for (uint32_t i = 0; i < r->nheap; i++) {
        flow_t *flow = &net->flows[r->heap[i]];
        double delta = level - flow->rate;
        if (delta == 0)
            continue;
        flow->rate = level;
        const entry_t *e = &net->entries[flow->first];
        for (uint32_t k = 0; k < flow->n; k++) {
            if (e[k].res == index)
                continue;
            net->res[e[k].res].other += e[k].weight * delta;
            mark_dirty(net, e[k].res);
        }
    }
}

/* ---------------------------------------------------------------- filling */

static int by_key(const void *a, const void *b) {
    const keyed_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->res < y->res ? -1 : x->res > y->res;
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

static void settle(ccl_i_net_t *net, uint32_t f, uint32_t index, uint32_t weight, double level) {
    flow_t *flow = &net->flows[f];
    const entry_t *e = &net->entries[flow->first];
    double left = flow->key;
    flow->rate = level;
    flow->bottle = index;
    flow->mark = 0;
    resource_t *r = &net->res[index];
    r->own += weight;
    if (r->fixed) {
        flow->key = r->vol + left;
        heap_push(net, r, f);
    } else if (heap_room(r)) {
        r->heap[r->nheap] = f; /* ordered when the level is known to be final */
        flow->heap_pos = r->nheap++;
    } else {
        net->nomem = true;
    }
    for (uint32_t k = 0; k < flow->n; k++) {
        if (e[k].res == index)
            continue;
        resource_t *m = &net->res[e[k].res];
        m->other += e[k].weight * level;
        m->rem -= e[k].weight * level;
        m->cnt -= e[k].weight;
    }
}

/* Progressive filling of all that the seeds are connected to. */
static void fill(ccl_i_net_t *net) {
    uint32_t epoch = ++net->epoch;
    uint32_t nres = 0, nflows = 0, ncapped = 0;
    uint32_t *list = NULL, *flows = NULL;
    size_t clist = 0, cflows = 0, ccapped = 0, cheap = 0;
    keyed_t *capped = NULL, *heap = NULL;
    if (!ccl_grow(&list, &clist, net->nseeds + 1u, sizeof(*list)))
        goto nomem;
    for (uint32_t i = 0; i < net->nseeds; i++) {
        resource_t *r = &net->res[net->seeds[i]];
        if (r->mark != epoch && !r->fixed) {
            r->mark = epoch;
            list[nres++] = net->seeds[i];
        }
    }
    for (uint32_t i = 0; i < nres; i++) {
        resource_t *r = &net->res[list[i]];
        touch(net, list[i]);
        if (!ccl_grow(&flows, &cflows, (size_t)nflows + r->nlist, sizeof(*flows)))
            goto nomem;
        for (uint32_t k = 0; k < r->nlist; k++) {
            uint32_t f = r->list[k].flow;
            flow_t *flow = &net->flows[f];
            if (flow->mark == epoch)
                continue;
            flow->mark = epoch;
            flows[nflows++] = f;
            const entry_t *e = &net->entries[flow->first];
            for (uint32_t j = 0; j < flow->n; j++) {
                resource_t *m = &net->res[e[j].res];
                if (m->fixed) {
                    if (!ccl_grow(&capped, &ccapped, ncapped + 1u, sizeof(*capped)))
                        goto nomem;
                    capped[ncapped++] = (keyed_t){m->level, f};
                    touch(net, e[j].res);
                } else if (m->mark != epoch) {
                    if (!ccl_grow(&list, &clist, nres + 1u, sizeof(*list)))
                        goto nomem;
                    m->mark = epoch;
                    list[nres++] = e[j].res;
                }
            }
        }
    }
    net->visits += nflows;
    if (!ccl_grow(&heap, &cheap, nres + 1u, sizeof(*heap)))
        goto nomem;
    for (uint32_t i = 0; i < nflows; i++) { /* key becomes what is left to drain */
        flow_t *flow = &net->flows[flows[i]];
        if (flow->bottle == CCL_NONE)
            continue;
        resource_t *b = &net->res[flow->bottle];
        flow->key -= b->vol;
        if (flow->key < 0)
            flow->key = 0;
        if (b->fixed) {
            heap_remove(net, b, flows[i]);
            leave_own(b, weight_of(net, flow, flow->bottle));
        }
    }
    uint32_t nheap = 0;
    for (uint32_t i = 0; i < nres; i++) {
        resource_t *r = &net->res[list[i]];
        r->own = r->other = r->cnt = 0;
        r->vol = 0;
        r->nheap = 0;
        r->level = INFINITY;
        r->check = false;
        r->age = 0;
        r->rem = r->cap;
        for (uint32_t k = 0; k < r->nlist; k++)
            r->cnt += net->entries[net->flows[r->list[k].flow].first + r->list[k].slot].weight;
        if (r->cnt > 0)
            fill_push(heap, &nheap, (keyed_t){r->rem / r->cnt, list[i]});
    }
    bool sorted = true;
    for (uint32_t i = 1; i < ncapped && sorted; i++)
        sorted = by_key(&capped[i - 1], &capped[i]) <= 0;
    if (!sorted)
        qsort(capped, ncapped, sizeof(*capped), by_key);
    uint32_t next = 0;
    while (nheap > 0 || next < ncapped) {
        while (next < ncapped && net->flows[capped[next].res].mark != epoch)
            next++; /* settled already, below its cap */
        if (nheap == 0 && next >= ncapped)
            break;
        if (nheap == 0 || (next < ncapped && capped[next].key <= heap[0].key)) {
            uint32_t f = capped[next++].res;
            const flow_t *flow = &net->flows[f];
            const entry_t *e = &net->entries[flow->first];
            for (uint32_t k = 0; k < flow->n; k++)
                if (net->res[e[k].res].fixed) {
                    settle(net, f, e[k].res, e[k].weight, net->res[e[k].res].level);
                    break;
                }
            continue;
        }
        keyed_t top = fill_pop(heap, &nheap);
        resource_t *r = &net->res[top.res];
        if (r->cnt < 0.5)
            continue;
        double level = r->rem > 0 ? r->rem / r->cnt : 0;
        if (level > top.key * (1 + EPS)) { /* others took less than their share since */
            fill_push(heap, &nheap, (keyed_t){level, top.res});
            continue;
        }
        for (uint32_t k = 0; k < r->nlist; k++) {
            uint32_t f = r->list[k].flow;
            if (net->flows[f].mark == epoch)
                settle(net, f, top.res,
                       net->entries[net->flows[f].first + r->list[k].slot].weight, level);
        }
        r->cnt = 0;
        if (r->own > 0)
            r->level = level;
        net->rate_changes++;
    }
    for (uint32_t i = 0; i < nres; i++) {
        resource_t *r = &net->res[list[i]];
        for (uint32_t k = r->nheap / 2; k-- > 0;)
            heap_down(net, r, k);
    }
    goto done;
nomem:
    net->nomem = true;
done:
    free(list);
    free(flows);
    free(capped);
    free(heap);
}

/* ---------------------------------------------------------------- solving an instant */

static void seed(ccl_i_net_t *net, uint32_t res) {
    if (!ccl_grow(&net->seeds, &net->cseeds, net->nseeds + 1u, sizeof(*net->seeds))) {
        net->nomem = true;
        return;
    }
    net->seeds[net->nseeds++] = res;
}

static void set_demand(resource_t *r, double delta) {
    if (r->kappa <= 0)
        return;
    r->demand += delta;
    if (r->nlist == 0)
        r->demand = 0;
    r->cap = r->base * ccl_model_eta(r->kappa, r->demand / r->base);
}

static void take_out(ccl_i_net_t *net, uint32_t f) {
    flow_t *flow = &net->flows[f];
    const path_t *p = &net->paths[flow->path];
    for (uint32_t k = 0; k < flow->n; k++) {
        entry_t e = net->entries[flow->first + k];
        resource_t *r = &net->res[e.res];
        touch(net, e.res);
        member_remove(net, f, k, e.res);
        set_demand(r, -p->cap_Bps);
        if (e.res == flow->bottle)
            leave_own(r, e.weight); /* its heap entry went when it was taken */
        else
            r->other -= e.weight * flow->rate;
        if (r->nlist == 0 && !r->fixed)
            r->other = 0;
        seed(net, e.res);
    }
    flow->path = CCL_NONE;
    net->active--;
    if (!ccl_grow(&net->free_flows, &net->cfree, net->nfree + 1u, sizeof(*net->free_flows)))
        net->nomem = true;
    else
        net->free_flows[net->nfree++] = f;
}

static void put_in(ccl_i_net_t *net, uint32_t f) {
    flow_t *flow = &net->flows[f];
    const path_t *p = &net->paths[flow->path];
    for (uint32_t k = 0; k < flow->n; k++) {
        entry_t e = net->entries[flow->first + k];
        touch(net, e.res);
        member_add(net, f, k, e.res);
        set_demand(&net->res[e.res], p->cap_Bps);
        seed(net, e.res);
    }
}

/* First guess for a new flow: limited where the level is lowest; where nothing is full yet, by the
   resource with the least room for it. Relaxing does the rest. */
static void guess(ccl_i_net_t *net, uint32_t f) {
    flow_t *flow = &net->flows[f];
    const entry_t *e = &net->entries[flow->first];
    uint32_t best = 0;
    double rate = INFINITY;
    for (uint32_t k = 0; k < flow->n; k++) {
        const resource_t *r = &net->res[e[k].res];
        double x = r->level < INFINITY ? r->level
                                       : (r->cap > r->other ? r->cap - r->other : 0) / e[k].weight;
        if (x < rate) {
            rate = x;
            best = k;
        }
    }
    resource_t *b = &net->res[e[best].res];
    if (!(b->level < INFINITY)) {
        b->level = rate;
        b->check = true;
    }
    double left = flow->key;
    join_own(net, f, e[best].res, e[best].weight, left);
    flow->rate = b->level;
    for (uint32_t k = 0; k < flow->n; k++)
        if (k != best)
            net->res[e[k].res].other += e[k].weight * flow->rate;
}

bool ccl_i_net_solve(ccl_i_net_t *net, double now_s) {
    net->now = now_s;
    net->touch_epoch++;
    net->ntouched = net->nseeds = 0;
    uint64_t changes = (uint64_t)net->nstarted + net->nremoved;
    bool filling = net->force == 2 || (net->force == 0 && changes * 8 > net->active);
    for (uint32_t i = 0; i < net->nremoved; i++)
        take_out(net, net->removed[i]);
    for (uint32_t i = 0; i < net->nstarted; i++)
        put_in(net, net->started[i]);
    if (!filling && !net->nomem) {
        for (uint32_t i = 0; i < net->nstarted; i++)
            guess(net, net->started[i]);
        for (uint32_t i = 0; i < net->nseeds; i++)
            mark_dirty(net, net->seeds[i]);
        uint64_t limit = net->visits + 40ull * net->active + 4096;
        while (net->nwork > 0 && !net->nomem) {
            if (net->visits > limit && net->force != 1) {
                /* Not settling quickly: start over from what is connected. */
                while (net->nwork > 0)
                    seed(net, pop_dirty(net));
                filling = true;
                break;
            }
            relax(net, pop_dirty(net));
        }
    }
    if (filling && !net->nomem)
        fill(net);
    net->nstarted = net->nremoved = 0;
    for (uint32_t i = 0; i < net->ntouched; i++)
        requeue(net, net->touched[i]);
    return !net->nomem;
}

/* ---------------------------------------------------------------- looking in from outside */

void ccl_i_net_visit(const ccl_i_net_t *net, double now_s, ccl_i_net_visit_fn fn, void *ctx) {
    for (uint32_t i = 0; i < net->nflows; i++) {
        const flow_t *flow = &net->flows[i];
        if (flow->path == CCL_NONE || flow->bottle == CCL_NONE)
            continue;
        const resource_t *r = &net->res[flow->bottle];
        double vol = r->vol + (r->level < INFINITY ? r->level * (now_s - r->vol_t) : 0);
        fn(flow->user, flow->key - vol, ctx);
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
    for (uint32_t i = 0; i < net->nflows; i++)
        if (net->flows[i].path != CCL_NONE && net->flows[i].user == user)
            return net->flows[i].rate;
    return 0;
}

void ccl_i_net_force(ccl_i_net_t *net, int solver) {
    net->force = solver;
}
