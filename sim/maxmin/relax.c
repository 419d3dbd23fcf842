/**
 * @file relax.c
 * Local relaxation: set one resource's level, notify those its paths also use, lowest level first.
 */
#include "sim/maxmin/rates.h"

/* The dirty resources lie in buckets by the level they would get. Bounds are taken from the levels
   of all resources, so that as many lie in each; two bitmaps show which buckets are not empty. The
   order saves work, no more: ties and bounds grown old do no harm. */
enum { MOST_BUCKETS = 4096, LOOK = 8 };

bool ccl_i_net_buckets_create(ccl_i_net_t *net) {
    size_t n = net->nres + 1u;
    net->nbuckets = 1;
    net->bucket_low = malloc((n < MOST_BUCKETS ? n : MOST_BUCKETS) * sizeof(*net->bucket_low));
    net->bucket_head = malloc((n < MOST_BUCKETS ? n : MOST_BUCKETS) * sizeof(*net->bucket_head));
    net->bucket_next = malloc(n * sizeof(*net->bucket_next));
    net->bucket_at = calloc(n, sizeof(*net->bucket_at));
    net->bucket_key = malloc(n * sizeof(*net->bucket_key));
    return net->bucket_low && net->bucket_head && net->bucket_next && net->bucket_at &&
           net->bucket_key;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Whether to keep bins: where passes over paths are short they are not worth it. */
static void set_bins(ccl_i_net_t *net) {
    bool binned = net->scanned > 12 * net->scans;
    if (binned && !net->binned) {
        memset(net->bins, 0, net->nbins * sizeof(*net->bins));
        for (uint32_t r = 0; r < net->nres; r++)
            net->bins[ccl_i_net_bin(net->level[r]) & (net->nbins - 1)]++;
    }
    net->binned = binned;
    net->scans = net->scanned = 0;
}

static void set_bounds(ccl_i_net_t *net) {
    double *levels = net->bucket_key;
    uint32_t n = 0, used = 1, most = net->nres + 1 < MOST_BUCKETS ? net->nres + 1 : MOST_BUCKETS;
    for (uint32_t i = 0; i < net->nused; i++)
        if (net->own[net->used[i]] > 0 && !net->res[net->used[i]].fixed)
            levels[n++] = net->level[net->used[i]];
    qsort(levels, n, sizeof(*levels), by_size);
    for (uint32_t i = 1; i < most && n > 0; i++) {
        double low = levels[(uint64_t)i * n / most];
        if (used == 1 || low > net->bucket_low[used - 1])
            net->bucket_low[used++] = low;
    }
    net->nbuckets = used;
    net->looks = 0;
    set_bins(net);
    memset(net->bucket_at, 0, (net->nres + 1u) * sizeof(*net->bucket_at));
}

/* low[0] is not read. */
static uint32_t bucket_of(const ccl_i_net_t *net, double key, uint32_t at) {
    const double *low = net->bucket_low;
    uint32_t n = net->nbuckets, first = 0;
    for (int i = 0; i < 4; i++) {
        if (at > 0 && key < low[at])
            at--;
        else if (at + 1 < n && key >= low[at + 1])
            at++;
        else
            return at;
    }
    while (n > 1) {
        uint32_t half = n / 2;
        if (key >= low[first + half])
            first += half;
        n -= half;
    }
    return first;
}

static uint32_t lowest_bucket(const ccl_i_net_t *net) {
    uint32_t word = (uint32_t)__builtin_ctzll(net->bucket_words);
    return 64 * word + (uint32_t)__builtin_ctzll(net->bucket_used[word]);
}

static void push_at(ccl_i_net_t *net, uint32_t index, double key) {
    if (net->nwork == 0 && net->looks > 8ull * net->nused + 256)
        set_bounds(net);
    uint32_t at = bucket_of(net, key, net->bucket_at[index]), word = at / 64;
    bool used = net->bucket_used[word] >> (at % 64) & 1;
    net->dirty[index] = 1;
    net->limit[index] = INFINITY;
    net->bucket_at[index] = at;
    net->bucket_key[index] = key;
    net->bucket_next[index] = used ? net->bucket_head[at] : CCL_NONE;
    net->bucket_head[at] = index;
    net->bucket_used[word] |= (uint64_t)1 << (at % 64);
    net->bucket_words |= (uint64_t)1 << word;
    net->nwork++;
}

void ccl_i_net_push_dirty(ccl_i_net_t *net, uint32_t index) {
    /* What is overloaded by paths limited elsewhere will not limit them to less than equal shares;
       those with lower levels go first and may end the overload. */
    push_at(net, index,
            net->own[index] > 0 ? ccl_i_net_candidate(net, index)
                                : net->cap[index] / net->all[index]);
}

uint32_t ccl_i_net_pop_dirty(ccl_i_net_t *net) {
    uint32_t at = lowest_bucket(net), word = at / 64;
    uint32_t top = net->bucket_head[at], *next = net->bucket_next;
    if (next[top] != CCL_NONE) { /* the lowest of the first few; of ties the oldest */
        uint32_t before = CCL_NONE, prev = top, look = LOOK;
        double key = net->bucket_key[top];
        for (uint32_t r = next[top]; r != CCL_NONE && look > 0; prev = r, r = next[r], look--)
            if (net->bucket_key[r] <= key) {
                key = net->bucket_key[r];
                before = prev;
            }
        net->looks += LOOK - look;
        if (before == CCL_NONE) {
            net->bucket_head[at] = next[top];
        } else {
            top = next[before];
            next[before] = next[top];
        }
    } else {
        net->bucket_used[word] &= ~((uint64_t)1 << (at % 64));
        if (net->bucket_used[word] == 0)
            net->bucket_words &= ~((uint64_t)1 << word);
    }
    net->nwork--;
    net->dirty[top] = 0;
    ccl_i_net_watch(net, top);
    return top;
}

/* Its level has risen since it was marked: others may come first. */
static bool put_back(ccl_i_net_t *net, uint32_t index, double candidate) {
    if (net->nwork == 0 || candidate <= net->bucket_key[index])
        return false;
    uint32_t at = bucket_of(net, candidate, net->bucket_at[index]), first = lowest_bucket(net);
    if (at < first)
        return false;
    if (at == first) {
        uint32_t r = net->bucket_head[at], look = LOOK;
        while (r != CCL_NONE && net->bucket_key[r] >= candidate && --look > 0)
            r = net->bucket_next[r];
        if (r == CCL_NONE || look == 0)
            return false;
    }
    push_at(net, index, candidate);
    return true;
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
        ccl_i_net_meet(net, m, is);
        ccl_i_net_mark_dirty(net, m);
    }
    ccl_i_net_join(net, path, to, weight, clock);
}

/* Thousands of small differences added up leave a rounding error; start again now and then. */
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

/* The paths of a long list are all over memory: have what limits them in one place. */
static bool list_bottles(ccl_i_net_t *net, resource_t *r) {
    if (r->listed || r->nlist < 64)
        return true;
    if (!ccl_i_grow(&r->bottles, &r->cbottles, r->nlist, sizeof(*r->bottles))) {
        net->nomem = true;
        return false;
    }
    for (uint32_t i = 0; i < r->nlist; i++)
        r->bottles[i] = net->bottle[r->list[i].path];
    r->listed = net->lists = true;
    return true;
}

/* Take over paths that are limited elsewhere and now too fast here. */
static bool pull(ccl_i_net_t *net, uint32_t index, double bound) {
    resource_t *r = &net->res[index];
    double fastest = 0;
    bool pulled = false;
    net->visits += r->nlist;
    net->scanned += r->nlist;
    net->scans++;
    if (!list_bottles(net, r))
        return false;
    for (uint32_t i = 0; i < r->nlist; i++) {
        uint32_t bottle = r->listed ? r->bottles[i] : net->bottle[r->list[i].path];
        if (bottle == index)
            continue;
        double rate = net->level[bottle];
        if (rate > bound) {
            move_path(net, r->list[i].path, index);
            pulled = true;
        } else if (rate > fastest) {
            fastest = rate;
        }
    }
    net->fastest[index] = ccl_i_net_step_end(fastest);
    return pulled;
}

/* Level at which the paths of a resource that limits none of them fill it; INFINITY when they do
   not. From equal shares upwards: what those that need less leave is shared by the others. */
static double overload_level(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    if (!ccl_i_grow(&net->shares, &net->cshares, r->nlist, sizeof(*net->shares))) {
        net->nomem = true;
        return INFINITY;
    }
    double load = 0, room = net->cap[index], weight = 0;
    uint32_t n = r->nlist;
    for (uint32_t i = 0; i < n; i++) {
        const path_t *p = &net->paths[r->list[i].path];
        double w = (double)net->entries[p->first + r->list[i].slot].weight * p->count;
        double rate = net->level[net->bottle[r->list[i].path]];
        net->shares[i] = (share_t){rate, w};
        load += rate * w;
        weight += w;
    }
    net->visits += n;
    net->other[index] = load;
    r->age = 0;
    if (load <= net->full[index])
        return INFINITY;
    for (uint32_t before = n + 1; n < before && n > 0;) {
        double level = room > 0 ? room / weight : 0;
        before = n;
        n = 0;
        for (uint32_t i = 0; i < before; i++) {
            share_t s = net->shares[i];
            if (s.rate > level) {
                net->shares[n++] = s;
            } else {
                room -= s.rate * s.weight;
                weight -= s.weight;
            }
        }
    }
    return n > 0 && room > 0 ? room / weight : 0;
}

/* A resource that limited nobody takes over the paths that are too fast. Their other resources
   have no lower levels: none goes back. */
static bool take_over(ccl_i_net_t *net, uint32_t index) {
    double level = overload_level(net, index);
    if (level == INFINITY)
        return false;
    ccl_i_net_touch(net, index);
    net->res[index].check = false;
    ccl_i_net_set_level(net, index, 0); /* what those it pulls are accounted for until apply() */
    pull(net, index, level * (1 + EPS));
    if (net->own[index] > 0)
        return true;
    ccl_i_net_set_level(net, index, INFINITY);
    return false;
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
    net->scanned += r->nown;
    net->scans++;
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

/* Paths of more resources do not stand among the lazy ones of what limits them: look at all they
 * pass. */
static void wake_wide(ccl_i_net_t *net, uint32_t index, double level) {
    const resource_t *r = &net->res[index];
    for (uint32_t i = 0; i < r->nown; i++) {
        if (r->loads[i].other != CCL_NONE)
            continue;
        const path_t *p = &net->paths[r->own[i].path];
        const entry_t *e = &net->entries[p->first];
        for (uint32_t k = 0; k < p->n; k++)
            if (net->lazy[e[k].res] && level > ccl_i_net_safe(net, e[k].res))
                ccl_i_net_wake(net, e[k].res);
    }
}

/* Paths of two resources: `load` is the only thing to change at the other one. */
static inline void spread(ccl_i_net_t *net, const resource_t *r, double delta, bool one_each) {
    double *restrict other = net->other;
    const double *limit = net->limit;
    const load_t *loads = r->loads;
    for (uint32_t i = r->nlazy, n = r->nown; i < n; i++) {
        uint32_t o = loads[i].other;
        double load = other[o] + (one_each ? delta : loads[i].count * delta);
        other[o] = load;
        if (load > limit[o])
            ccl_i_net_push_dirty(net, o);
    }
}

static void spread_wide(ccl_i_net_t *net, uint32_t index, double delta) {
    const resource_t *r = &net->res[index];
    for (uint32_t i = r->nlazy; i < r->nown; i++) {
        uint32_t o = r->loads[i].other;
        if (o != CCL_NONE) {
            net->other[o] += r->loads[i].count * delta;
            ccl_i_net_mark_dirty(net, o);
            continue;
        }
        const path_t *p = &net->paths[r->own[i].path];
        const entry_t *e = &net->entries[p->first];
        for (uint32_t k = 0; k < p->n; k++) {
            if (e[k].res == index)
                continue;
            net->other[e[k].res] += (double)e[k].weight * r->loads[i].count * delta;
            ccl_i_net_mark_dirty(net, e[k].res);
        }
    }
}

/* Own paths are this fast now. */
static void raise_fastest(ccl_i_net_t *net, uint32_t index, double rate) {
    const resource_t *r = &net->res[index];
    double *fastest = net->fastest;
    for (uint32_t i = r->nlazy; i < r->nown; i++) {
        uint32_t o = r->loads[i].other;
        if (o != CCL_NONE) {
            fastest[o] = fastest[o] > rate ? fastest[o] : rate;
            continue;
        }
        const path_t *p = &net->paths[r->own[i].path];
        const entry_t *e = &net->entries[p->first];
        for (uint32_t k = 0; k < p->n; k++)
            if (e[k].res != index && rate > fastest[e[k].res])
                fastest[e[k].res] = rate;
    }
}

static void apply(ccl_i_net_t *net, uint32_t index, double level) {
    const resource_t *r = &net->res[index];
    if (r->nlazy > 0 && level > r->min_safe)
        wake_endangered(net, index, level);
    double was = net->level[index], delta = level - was;
    if (r->nwide > 0 && delta > 0)
        wake_wide(net, index, level);
    ccl_i_net_set_level(net, index, level);
    net->rate_changes++;
    net->visits += r->nown - r->nlazy;
    if (delta == 0)
        return;
    if (level > ccl_i_net_step_end(was))
        raise_fastest(net, index, ccl_i_net_step_end(level));
    if (r->nwide > 0)
        spread_wide(net, index, delta);
    else if (net->own[index] == r->nown)
        spread(net, r, delta, true);
    else
        spread(net, r, delta, false);
}

/* Whether resources other than the one that moves have levels in this interval. */
static bool may_cross(const ccl_i_net_t *net, double low, double high) {
    uint64_t first = ccl_i_net_bin(low), last = ccl_i_net_bin(high);
    uint32_t n = 0;
    if (!net->binned || last - first >= 16)
        return true;
    for (; first <= last; first++)
        n += net->bins[first & (net->nbins - 1)];
    return n > 1;
}

void ccl_i_net_relax(ccl_i_net_t *net, uint32_t index) {
    resource_t *r = &net->res[index];
    if (net->own[index] <= 0) {
        if (net->other[index] > net->full[index] && take_over(net, index))
            apply(net, index, fmax(ccl_i_net_candidate(net, index), 0));
        return;
    }
    double level = ccl_i_net_candidate(net, index), old = net->level[index];
    if (put_back(net, index, level))
        return;
    if (++r->age > 512) {
        sum_afresh(net, index);
        level = ccl_i_net_candidate(net, index);
    }
    bool changed = r->check;
    if (!changed && fabs(level - old) <= EPS * old)
        return;
    ccl_i_net_touch(net, index);
    r->check = false;
    if ((changed || level < old) && net->fastest[index] > level * (1 + EPS) &&
        (changed || may_cross(net, level, old * (1 + 4 * EPS)))) {
        changed = pull(net, index, level * (1 + EPS)) || changed;
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
