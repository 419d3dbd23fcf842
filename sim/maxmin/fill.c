/**
 * @file fill.c
 * Progressive filling: raise all rates together, fix those of each resource as it fills up.
 */
#include "sim/maxmin/rates.h"

static int by_key(const void *a, const void *b) {
    const keyed_t *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

#define KEYED_BEFORE(x_, a_, b_) ((a_).key != (b_).key ? (a_).key < (b_).key : (a_).id < (b_).id)
CCL_HEAP(fill, keyed_t, void *, KEYED_BEFORE, CCL_HEAP_PUT)

void ccl_i_fill_push(component_t *c, keyed_t item) {
    fill_push(NULL, c->heap, c->nheap++, item);
}

keyed_t ccl_i_fill_pop(component_t *c) {
    return fill_pop(NULL, c->heap, c->nheap--);
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
            ccl_i_net_join(net, path, index, w, p->offset);
            continue;
        }
        net->other[m] += w * level;
        ccl_i_net_meet(net, m, level);
        net->res[m].rem -= w * level;
        net->res[m].cnt -= w;
    }
}

static bool connect(ccl_i_net_t *net, component_t *c) {
    uint32_t epoch = ++net->epoch;
    if (!ccl_i_grow(&c->res, &c->cres, net->nseeds + 1u, sizeof(*c->res)))
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
        ccl_i_net_touch(net, c->res[i]);
        if (!ccl_i_grow(&c->paths, &c->cpaths, (size_t)c->npaths + r->nlist + 1, sizeof(*c->paths)))
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
                    if (!ccl_i_grow(&c->capped, &c->ccapped, c->ncapped + 1u, sizeof(*c->capped)))
                        return false;
                    c->capped[c->ncapped++] = (keyed_t){m->base, path};
                    ccl_i_net_touch(net, e[j].res);
                } else if (m->mark != epoch) {
                    if (!ccl_i_grow(&c->res, &c->cres, c->nres + 1u, sizeof(*c->res)))
                        return false;
                    m->mark = epoch;
                    c->res[c->nres++] = e[j].res;
                }
            }
        }
    }
    net->visits += c->npaths;
    return ccl_i_grow(&c->heap, &c->cheap, c->nres + 1u, sizeof(*c->heap));
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
            ccl_i_net_own_remove(net, c->paths[i], b);
            net->own[bottle] -= p->count;
        }
        net->bottle[c->paths[i]] = CCL_NONE;
    }
    for (uint32_t i = 0; i < c->nres; i++) {
        uint32_t index = c->res[i];
        resource_t *r = &net->res[index];
        net->own[index] = net->other[index] = net->fastest[index] = 0;
        ccl_i_net_set_level(net, index, INFINITY);
        r->cnt = r->vol = 0;
        r->nown = r->nwide = r->nlazy = r->age = r->calm = 0;
        net->lazy[index] = net->dirty[index] = 0;
        net->limit[index] = net->full[index];
        r->min_key = INFINITY;
        r->min_stale = r->check = r->listed = false;
        r->rem = net->cap[index];
        for (uint32_t k = 0; k < r->nlist; k++) {
            const path_t *p = &net->paths[r->list[k].path];
            r->cnt += (double)net->entries[p->first + r->list[k].slot].weight * p->count;
        }
        if (r->cnt > 0)
            fill_push(NULL, c->heap, c->nheap++, (keyed_t){r->rem / r->cnt, index});
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
        keyed_t top = fill_pop(NULL, c->heap, c->nheap--);
        resource_t *r = &net->res[top.id];
        if (r->cnt < 0.5)
            continue;
        double level = r->rem > 0 ? r->rem / r->cnt : 0;
        if (level > top.key * (1 + EPS)) { /* others took less than their share since */
            fill_push(NULL, c->heap, c->nheap++, (keyed_t){level, top.id});
            continue;
        }
        ccl_i_net_set_level(net, top.id, level);
        for (uint32_t k = 0; k < r->nlist; k++) {
            if (k + AHEAD < r->nlist)
                __builtin_prefetch(&net->paths[r->list[k + AHEAD].path], 1);
            if (net->paths[r->list[k].path].mark == epoch)
                settle(net, r->list[k].path, top.id, level);
        }
        r->cnt = 0;
        net->rate_changes++;
    }
}

component_t *ccl_i_fill_begin(ccl_i_net_t *net) {
    component_t *c = &net->component;
    c->nres = c->npaths = c->ncapped = c->nheap = 0;
    return c;
}

void ccl_i_net_fill(ccl_i_net_t *net) {
    component_t *c = ccl_i_fill_begin(net);
    if (connect(net, c)) {
        clear(net, c);
        fill_levels(net, c);
    } else {
        net->nomem = true;
    }
}

/* ---------------------------------------------------------------- most flows change at once */

/* Flows leave and come; afterwards the `offset` of a path is its own clock. */
static void change_flows(ccl_i_net_t *net) {
    for (uint32_t i = 0; net->active_paths > 0 && i < net->npaths; i++)
        if (net->bottle[i] != CCL_NONE)
            net->paths[i].offset += net->res[net->bottle[i]].vol;
    for (uint32_t i = 0; i < net->nended; i++) {
        if (i + AHEAD < net->nended)
            __builtin_prefetch(&net->paths[net->ended[i + AHEAD]], 1);
        net->paths[net->ended[i]].count--;
    }
    for (uint32_t i = 0; i < net->nstarted; i++) {
        started_t s = net->started[i];
        if (i + AHEAD < net->nstarted)
            __builtin_prefetch(&net->paths[net->started[i + AHEAD].path], 1);
        path_t *p = &net->paths[s.path];
        if (p->count++ == 0)
            p->offset = 0;
        if (!ccl_i_path_push(net, p, (flow_t){p->offset + s.bytes, s.user}))
            net->nomem = true;
    }
}

static void clear_all(ccl_i_net_t *net) {
    for (uint32_t i = 0; i < net->nused; i++) {
        uint32_t index = net->used[i];
        resource_t *r = &net->res[index];
        net->own[index] = net->other[index] = net->fastest[index] = net->all[index] = 0;
        r->nown = r->nwide = r->nlazy = r->age = r->calm = r->nlist = 0;
        r->vol = r->demand = 0;
        r->min_key = INFINITY;
        r->min_stale = r->check = r->listed = false;
        if (r->fixed)
            continue;
        ccl_i_net_set_level(net, index, INFINITY);
        net->lazy[index] = net->dirty[index] = 0;
        net->limit[index] = net->full[index];
    }
}

static bool list_flows(ccl_i_net_t *net, component_t *c) {
    uint32_t epoch = ++net->epoch, active = 0;
    memset(net->bottle, 0xff, net->npaths * sizeof(*net->bottle));
    for (uint32_t i = 0; i < net->npaths; i++) {
        path_t *p = &net->paths[i];
        if (p->count == 0)
            continue;
        active++;
        p->mark = epoch;
        for (uint32_t k = 0; k < p->n; k++) {
            entry_t e = net->entries[p->first + k];
            resource_t *r = &net->res[e.res];
            net->all[e.res] += (double)e.weight * p->count;
            if (r->kappa > 0)
                r->demand += (double)e.weight * net->caps[i].cap_Bps * p->count;
            if (!r->fixed) {
                ccl_i_net_member_add(net, i, k, e.res);
                continue;
            }
            if (!ccl_i_grow(&c->capped, &c->ccapped, c->ncapped + 1u, sizeof(*c->capped)))
                return false;
            c->capped[c->ncapped++] = (keyed_t){r->base, i};
        }
    }
    net->active_paths = active;
    net->visits += active;
    return ccl_i_grow(&c->heap, &c->cheap, net->nused + 1u, sizeof(*c->heap));
}

void ccl_i_net_rebuild(ccl_i_net_t *net) {
    component_t *c = ccl_i_fill_begin(net);
    for (uint32_t i = 0; i < net->nused; i++)
        ccl_i_net_touch(net, net->used[i]);
    change_flows(net);
    clear_all(net);
    if (net->nomem || !list_flows(net, c)) {
        net->nomem = true;
        return;
    }
    for (uint32_t i = 0; i < net->nused; i++) {
        uint32_t index = net->used[i];
        resource_t *r = &net->res[index];
        if (r->kappa > 0) {
            net->cap[index] = r->base * ccl_model_eta(r->kappa, r->demand / r->base);
            net->full[index] = net->cap[index] * (1 + EPS);
            ccl_i_net_watch(net, index);
        }
        r->rem = net->cap[index];
        r->cnt = net->all[index];
        if (!r->fixed && r->cnt > 0)
            fill_push(NULL, c->heap, c->nheap++, (keyed_t){r->rem / r->cnt, index});
    }
    fill_levels(net, c);
}
