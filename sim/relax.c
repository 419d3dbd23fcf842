/**
 * @file relax.c
 * Local relaxation: set one resource's level, tell those its paths also use, lowest level first.
 */
#include "sim/rates.h"

/* The dirty resources are a heap of four children a node, by the level they would get. */
void ccl_i_net_push_dirty(ccl_i_net_t *net, uint32_t index) {
    if (net->nwork == net->cwork &&
        !ccl_i_grow(&net->work, &net->cwork, net->nwork + 1u, sizeof(*net->work))) {
        net->nomem = true;
        return;
    }
    net->dirty[index] = 1;
    net->limit[index] = INFINITY;
    keyed_t item = {ccl_i_net_candidate(net, index), index};
    keyed_t *work = net->work;
    uint32_t at = net->nwork++;
    while (at > 0 && work[(at - 1) / 4].key > item.key) {
        work[at] = work[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    work[at] = item;
}

uint32_t ccl_i_net_pop_dirty(ccl_i_net_t *net) {
    keyed_t *work = net->work;
    uint32_t top = work[0].id, n = --net->nwork, at = 0;
    keyed_t item = work[n];
    for (;;) {
        uint32_t kid = 4 * at + 1, best = kid;
        if (kid >= n)
            break;
        uint32_t end = kid + 4 < n ? kid + 4 : n;
        while (++kid < end)
            if (work[kid].key < work[best].key)
                best = kid;
        if (work[best].key >= item.key)
            break;
        work[at] = work[best];
        at = best;
    }
    work[at] = item;
    net->dirty[top] = 0;
    ccl_i_net_watch(net, top);
    return top;
}

/* Move a path to another bottleneck; it gets the rate that paths there are accounted for. */
static void move_path(ccl_i_net_t *net, uint32_t path, uint32_t to) {
    path_t *p = &net->paths[path];
    uint32_t from = net->bottle[path];
    const entry_t *e = &net->entries[p->first];
    double was = net->level[from], is = net->level[to];
    for (uint32_t k = 0; k < p->n; k++)
        if (net->lazy[e[k].res] && is > ccl_i_net_safe(net, e[k].res))
            ccl_i_net_wake(net, e[k].res);
    ccl_i_net_touch(net, from);
    double clock = net->res[from].vol + p->offset, weight = 0;
    ccl_i_net_own_remove(net, path, &net->res[from]);
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t m = e[k].res;
        double w = (double)e[k].weight * p->count;
        if (m == from) {
            ccl_i_net_leave(net, m, w);
            net->other[m] += w * is;
        } else if (m == to) {
            net->other[m] -= w * was;
            weight = w;
            continue;
        } else {
            net->other[m] += w * (is - was);
        }
        net->fastest[m] = fmax(net->fastest[m], ccl_i_net_bin_end(is));
        ccl_i_net_mark_dirty(net, m);
    }
    ccl_i_net_join(net, path, to, weight, clock);
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
    net->fastest[index] = ccl_i_net_bin_end(fastest);
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
    if (!ccl_i_grow(&net->scratch, &net->cscratch, r->nown, sizeof(*net->scratch))) {
        net->nomem = r->nown > 0;
        return false;
    }
    for (uint32_t i = r->nlazy; i < r->nown; i++) {
        uint32_t o = r->loads[i].other;
        double level = o != CCL_NONE ? net->level[o]
                                     : lowest_other(net, &net->paths[r->own[i].path], index, &to);
        if (level < bound)
            net->scratch[n++] = r->own[i].path;
    }
    for (uint32_t i = 0; i < n; i++) {
        lowest_other(net, &net->paths[net->scratch[i]], index, &to);
        move_path(net, net->scratch[i], to);
        ccl_i_net_mark_dirty(net, to);
    }
    return n > 0;
}

static void wake_endangered(ccl_i_net_t *net, uint32_t index, double level) {
    resource_t *r = &net->res[index];
    double min_safe = INFINITY;
    net->visits += r->nlazy;
    for (uint32_t i = 0; i < r->nlazy;) {
        double safe = ccl_i_net_safe(net, r->loads[i].other);
        if (level > safe) {
            ccl_i_net_wake(net, r->loads[i].other); /* takes this entry out of the lazy ones */
            continue;
        }
        min_safe = fmin(min_safe, safe);
        i++;
    }
    r->min_safe = min_safe;
}

static void apply(ccl_i_net_t *net, uint32_t index, double level) {
    const resource_t *r = &net->res[index];
    if (r->nlazy > 0 && level > r->min_safe)
        wake_endangered(net, index, level);
    double delta = level - net->level[index];
    bool rises = level > ccl_i_net_bin_end(net->level[index]);
    ccl_i_net_set_level(net, index, level);
    net->rate_changes++;
    net->visits += r->nown - r->nlazy;
    if (delta == 0)
        return;
    double end = ccl_i_net_bin_end(level);
    double *other = net->other, *fastest = net->fastest;
    const double *limit = net->limit;
    const load_t *loads = r->loads;
    for (uint32_t i = r->nlazy, n = r->nown; i < n; i++) {
        uint32_t o = loads[i].other;
        if (o != CCL_NONE) {
            double load = other[o] + loads[i].count * delta;
            other[o] = load;
            if (rises && end > fastest[o])
                fastest[o] = end;
            if (load > limit[o])
                ccl_i_net_push_dirty(net, o);
            continue;
        }
        const path_t *p = &net->paths[r->own[i].path];
        const entry_t *e = &net->entries[p->first];
        for (uint32_t k = 0; k < p->n; k++) {
            if (e[k].res == index)
                continue;
            net->other[e[k].res] += (double)e[k].weight * loads[i].count * delta;
            if (rises && end > fastest[e[k].res])
                fastest[e[k].res] = end;
            ccl_i_net_mark_dirty(net, e[k].res);
        }
    }
}

/* Whether resources other than the one that moves have levels in this interval. */
static bool may_cross(const ccl_i_net_t *net, double low, double high) {
    uint64_t first = ccl_i_net_bin(low), last = ccl_i_net_bin(high);
    uint32_t n = 0;
    if (last - first >= 16)
        return true;
    for (; first <= last; first++)
        n += net->bins[first & (net->nbins - 1)];
    return n > 1;
}

void ccl_i_net_relax(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    if (net->own[index] <= 0 && net->other[index] <= net->cap[index] * (1 + EPS))
        return;
    if (++r->age > 512)
        sum_afresh(net, index);
    bool fresh = r->check || net->own[index] <= 0;
    double old = fresh ? INFINITY : net->level[index];
    double level = ccl_i_net_candidate(net, index);
    if (!fresh && fabs(level - old) <= EPS * old)
        return;
    ccl_i_net_touch(net, index);
    r->check = false;
    if (net->own[index] <= 0)
        ccl_i_net_set_level(net, index,
                            0); /* what those it pulls are accounted for until apply() */
    bool changed = fresh;
    if (level < old && net->fastest[index] > level * (1 + EPS) &&
        (fresh || may_cross(net, level, old * (1 + 4 * EPS)))) {
        changed = pull(net, index, level * (1 + EPS)) || changed;
        if (net->own[index] <= 0) {
            ccl_i_net_set_level(net, index, INFINITY);
            return;
        }
        level = ccl_i_net_candidate(net, index);
    }
    /* Each departure can only raise the level, so this ends. */
    if (changed || (level > old && may_cross(net, old * (1 - 4 * EPS), level))) {
        while (push(net, index, level * (1 - EPS))) {
            if (net->own[index] <= 0) {
                ccl_i_net_mark_dirty(net, index);
                return;
            }
            level = ccl_i_net_candidate(net, index);
        }
    }
    apply(net, index, level > 0 ? level : 0);
}
