/**
 * @file own.c
 * Who limits whom: a path's flows by completion, a resource's own paths, clocks of served volume.
 */
#include "sim/maxmin/rates.h"

/* ---------------------------------------------------------------- a path's flows */

#define KEY_BEFORE(x_, a_, b_) ((a_).key < (b_).key)
CCL_HEAP(flows, flow_t, void *, KEY_BEFORE, CCL_HEAP_PUT)

static bool push_rest(ccl_i_net_t *net, path_t *p, flow_t flow) {
    if (p->rest == CCL_NONE) {
        if (!ccl_i_grow(&net->rests, &net->crests, net->nrests + 1u, sizeof(*net->rests)))
            return false;
        p->rest = net->nrests++;
    }
    rest_t *r = &net->rests[p->rest];
    if (!ccl_i_grow(&r->heap, &r->cheap, p->nflows, sizeof(*r->heap)))
        return false;
    flows_push(NULL, r->heap, p->nflows - 1, flow);
    return true;
}

bool ccl_i_path_push(ccl_i_net_t *net, path_t *p, flow_t flow) {
    if (p->nflows > 0) {
        flow_t later = flow;
        if (flow.key < p->flow.key) {
            later = p->flow;
            p->flow = flow;
        }
        if (!push_rest(net, p, later))
            return false;
    } else {
        p->flow = flow;
    }
    p->nflows++;
    return true;
}

void ccl_i_path_pop(ccl_i_net_t *net, path_t *p) {
    if (--p->nflows == 0)
        return;
    flow_t *heap = net->rests[p->rest].heap;
    p->flow = flows_pop(NULL, heap, p->nflows);
}

/* ---------------------------------------------------------------- a resource's own paths */

static void own_place(ccl_i_net_t *net, resource_t *r, uint32_t at, own_t item) {
    r->own[at] = item;
    r->loads[at] = (load_t){item.other, (uint32_t)item.count};
    net->paths[item.path].own_pos = at;
}

typedef struct owner {
    ccl_i_net_t *net;
    resource_t *r;
} owner_t;
#define OWN_PUT(o_, heap_, at_, item_) own_place((o_).net, (o_).r, (uint32_t)(at_), item_)
CCL_HEAP(own, own_t, owner_t, KEY_BEFORE, OWN_PUT)

/* Restore the heap of a cap class around one place. */
static void own_fix_at(ccl_i_net_t *net, resource_t *r, uint32_t at) {
    own_fix((owner_t){net, r}, r->own, r->nown, at);
}

static void own_swap(ccl_i_net_t *net, resource_t *r, uint32_t a, uint32_t b) {
    own_t item = r->own[a];
    own_place(net, r, a, r->own[b]);
    own_place(net, r, b, item);
}

static void own_to_lazy(ccl_i_net_t *net, resource_t *r, uint32_t at) {
    double safe = ccl_i_net_safe(net, r->own[at].other);
    r->min_safe = r->nlazy == 0 || safe < r->min_safe ? safe : r->min_safe;
    own_swap(net, r, at, r->nlazy++);
}

static void own_add(ccl_i_net_t *net, uint32_t path, uint32_t res) {
    resource_t *r = &net->res[res];
    path_t *p = &net->paths[path];
    if (r->nown == r->cown) {
        uint32_t cap = r->cown ? 2 * r->cown : 4;
        own_t *own = realloc(r->own, cap * sizeof(*own));
        if (own)
            r->own = own;
        load_t *loads = realloc(r->loads, cap * sizeof(*loads));
        if (loads)
            r->loads = loads;
        if (!own || !loads) {
            net->nomem = true;
            return;
        }
        r->cown = cap;
    }
    net->bottle[path] = res;
    if (net->lists) {
        for (uint32_t k = 0; k < p->n; k++) {
            const resource_t *m = &net->res[net->entries[p->first + k].res];
            if (m->listed)
                m->bottles[net->pos[(size_t)path * net->stride + k]] = res;
        }
    }
    own_t item = {path, CCL_NONE, p->count, ccl_i_path_key(p)};
    const entry_t *e = &net->entries[p->first];
    if (p->simple) /* alone: the sentinel */
        item.other = p->n == 1 ? net->nres : e[0].res == res ? e[1].res : e[0].res;
    r->nwide += item.other == CCL_NONE;
    own_place(net, r, r->nown++, item);
    if (r->fixed) {
        own_fix_at(net, r, r->nown - 1);
        return;
    }
    if (item.key < r->min_key)
        r->min_key = item.key;
    if (item.other != CCL_NONE && net->lazy[item.other])
        own_to_lazy(net, r, r->nown - 1);
}

void ccl_i_net_own_remove(ccl_i_net_t *net, uint32_t path, resource_t *r) {
    uint32_t at = net->paths[path].own_pos;
    if (r->own[at].key <= r->min_key)
        r->min_stale = true;
    r->nwide -= r->own[at].other == CCL_NONE;
    if (at < r->nlazy) { /* keep the lazy ones together */
        own_swap(net, r, at, --r->nlazy);
        at = r->nlazy;
    }
    own_t last = r->own[--r->nown];
    if (last.path == path)
        return;
    own_place(net, r, at, last);
    if (r->fixed)
        own_fix_at(net, r, at);
}

void ccl_i_net_own_update(ccl_i_net_t *net, uint32_t path) {
    path_t *p = &net->paths[path];
    resource_t *r = &net->res[net->bottle[path]];
    own_t *own = &r->own[p->own_pos];
    double key = ccl_i_path_key(p);
    if (own->key <= r->min_key && key > own->key)
        r->min_stale = true;
    own->count = p->count;
    r->loads[p->own_pos].count = p->count;
    own->key = key;
    if (r->fixed)
        own_fix_at(net, r, p->own_pos);
    else if (key < r->min_key)
        r->min_key = key;
}

double ccl_i_net_first_key(resource_t *r) {
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

void ccl_i_net_touch(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    if (r->touched == net->touch_epoch)
        return;
    r->touched = net->touch_epoch;
    if (!ccl_i_grow(&net->touched, &net->ctouched, net->ntouched + 1u, sizeof(*net->touched))) {
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

void ccl_i_net_leave(ccl_i_net_t *net, uint32_t res, double weight) {
    net->own[res] -= weight;
    if (net->res[res].nown == 0 || net->own[res] < 0.5) {
        net->own[res] = 0;
        if (!net->res[res].fixed)
            ccl_i_net_set_level(net, res, INFINITY);
        ccl_i_net_watch(net, res);
    }
}

/* An inactive path, or one that just left its bottleneck, becomes limited by `to`. clock: the
   path's served volume now. */
void ccl_i_net_join(ccl_i_net_t *net, uint32_t path, uint32_t to, double weight, double clock) {
    ccl_i_net_touch(net, to);
    net->paths[path].offset = clock - net->res[to].vol;
    net->own[to] += weight;
    if (!net->dirty[to])
        net->limit[to] = -INFINITY; /* as ccl_i_net_watch() */
    own_add(net, path, to);
}

/* Own entries of the paths through `index` change sides. */
static void flip(ccl_i_net_t *net, uint32_t index, bool lazy) {
    const resource_t *r = &net->res[index];
    for (uint32_t i = 0; i < r->nlist; i++) {
        uint32_t path = r->list[i].path, bottle = net->bottle[path];
        if (bottle == CCL_NONE || bottle == index || net->res[bottle].fixed)
            continue;
        resource_t *b = &net->res[bottle];
        uint32_t at = net->paths[path].own_pos;
        if (b->own[at].other != index)
            continue;
        if (lazy)
            own_to_lazy(net, b, at);
        else
            own_swap(net, b, at, --b->nlazy);
    }
}

void ccl_i_net_wake(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    double other = 0, fastest = 0;
    for (uint32_t i = 0; i < r->nlist; i++) {
        const path_t *p = &net->paths[r->list[i].path];
        uint32_t bottle = net->bottle[r->list[i].path];
        if (bottle == CCL_NONE)
            continue;
        double rate = net->level[bottle];
        other += (double)net->entries[p->first + r->list[i].slot].weight * p->count * rate;
        fastest = fmax(fastest, rate);
    }
    net->other[index] = other;
    net->fastest[index] = ccl_i_net_step_end(fastest);
    net->lazy[index] = net->dirty[index] = 0;
    ccl_i_net_watch(net, index);
    r->age = r->calm = 0;
    flip(net, index, false);
}

void ccl_i_net_rest(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    /* Looking costs a pass over all paths; once per many flows that ended it does not count. */
    if (net->lazy[index] || net->own[index] > 0 || r->fixed || r->kappa > 0 || r->nlist < 8 ||
        8 * ++r->calm < r->nlist)
        return;
    r->calm = 0;
    double fastest = 0;
    for (uint32_t i = 0; i < r->nlist; i++)
        fastest = fmax(fastest, net->level[net->bottle[r->list[i].path]]);
    if (2 * fastest > ccl_i_net_safe(net, index))
        return;
    net->lazy[index] = net->dirty[index] = 1;
    ccl_i_net_watch(net, index);
    flip(net, index, true);
}
