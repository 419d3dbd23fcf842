/**
 * @file wide.c
 * Rates of flows over very many links: multicasts and reductions in large switches.
 *
 * Every such flow of a switch of n GPUs loads nearly all n ports one way. Links that nearly the
 * same paths load are a bundle, and a path is stored as parts: how often it loads a whole bundle,
 * and where it loads a member more, or less, than that: a multicast to all but its own GPU is a
 * link, a bundle and a member less. What a link carries is what its bundle does and what it alone
 * does, so filling from scratch at every instant costs a few parts for each path. Local relaxation,
 * which updates every link of a path that moves, is far slower here: one flow that ends changes
 * what limits nearly all others.
 */
#include "sim/internal.h"
#include "sim/maxmin/rates.h"

/* Paths of at least as many resources are wide. Without one there are no bundles: in servers of 8
   GPUs they gain nothing (bench_sim_wide). */
#define WIDE 16
/* Of the paths through a resource and the first of a bundle at most this share may differ. */
#define DIFFER (1.0 / 4)
/* Bundles pay where they leave at most this share of all entries. */
#define PAYS (1.0 / 2)
enum { MOST_BUNDLES = 64 };

typedef struct part {
    uint32_t at;    /* a resource, or nres + a bundle */
    int32_t weight; /* of a flow, beside what it has by a bundle */
} part_t;

typedef struct user {
    uint32_t path;
    int32_t weight;
} user_t;

/* Of a resource beside its bundle, or of a bundle. */
typedef struct sum {
    double used, cnt;      /* by settled flows, and the weight of the others */
    double demand;         /* under contention */
    uint32_t first, nlist; /* paths: ccl_i_wide.list */
} sum_t;

struct ccl_i_wide {
    part_t *parts;
    uint32_t *first;     /* [npaths + 1] into parts */
    uint32_t *bundle_of; /* [nres] nres + its bundle, or nres + nbundles: none, a sum of nothing */
    uint32_t nbundles;
    sum_t *sums;      /* [nres + nbundles + 1] */
    user_t *list;     /* [parts of active paths] */
    size_t clist;
    uint32_t *active; /* [npaths] */
    uint32_t nactive, nleft; /* nleft: not settled yet */
    uint32_t *caps; /* [ncaps] cap classes, the lowest first */
    uint32_t ncaps;
    uint32_t *passed, pass; /* [npaths] the last full resource that it does not load */
};

void ccl_i_net_wide_destroy(struct ccl_i_wide *w) {
    if (!w)
        return;
    free(w->parts);
    free(w->first);
    free(w->bundle_of);
    free(w->sums);
    free(w->list);
    free(w->active);
    free(w->caps);
    free(w->passed);
    free(w);
}

/* ---------------------------------------------------------------- which links are alike */

/* Which wide paths load a resource, a bit each. */
typedef struct loads {
    uint64_t *bits; /* [nres][words] */
    size_t words;
} loads_t;

static uint64_t *loads_at(const loads_t *l, uint32_t res) {
    return &l->bits[res * l->words];
}

static bool loads_make(const ccl_i_net_t *net, loads_t *l) {
    size_t n = 0;
    for (uint32_t p = 0; p < net->npaths; p++)
        n += net->paths[p].n >= WIDE;
    l->words = n / 64 + 1;
    l->bits = calloc(net->nres + (size_t)1, l->words * sizeof *l->bits);
    for (uint32_t p = 0, bit = 0; l->bits && p < net->npaths; p++) {
        const path_t *path = &net->paths[p];
        for (uint32_t i = 0; path->n >= WIDE && i < path->n; i++)
            loads_at(l, net->entries[path->first + i].res)[bit / 64] |= (uint64_t)1 << (bit % 64);
        bit += path->n >= WIDE;
    }
    return l->bits != NULL;
}

static uint32_t count_bits(const uint64_t *a, const uint64_t *b, size_t words) {
    uint32_t n = 0;
    for (size_t i = 0; i < words; i++)
        n += (uint32_t)__builtin_popcountll(b ? a[i] ^ b[i] : a[i]);
    return n;
}

/* Each resource joins the first bundle whose first member is like it. @return false: no memory. */
static bool find_bundles(const ccl_i_net_t *net, struct ccl_i_wide *w) {
    loads_t l;
    uint32_t of[MOST_BUNDLES];
    if (!loads_make(net, &l))
        return false;
    memset(w->bundle_of, 0xff, net->nres * sizeof *w->bundle_of);
    for (uint32_t i = 0; i < net->nused; i++) {
        uint32_t res = net->used[i], b = 0;
        const uint64_t *bits = loads_at(&l, res);
        uint32_t n = count_bits(bits, NULL, l.words);
        if (n < 2 || net->res[res].fixed || net->dropped[res])
            continue;
        while (b < w->nbundles && count_bits(bits, loads_at(&l, of[b]), l.words) > DIFFER * n)
            b++;
        if (b == MOST_BUNDLES)
            continue;
        if (b == w->nbundles)
            of[w->nbundles++] = res;
        w->bundle_of[res] = net->nres + b;
    }
    free(l.bits);
    return true;
}

/* ---------------------------------------------------------------- paths as parts */

/* What a path loads of each bundle. */
typedef struct use {
    uint32_t n, like, weight; /* its members, those of them with the first one's weight */
    bool whole;               /* it is stored as a load of the whole bundle */
} use_t;

static void find_uses(const ccl_i_net_t *net, const struct ccl_i_wide *w, const path_t *path,
                      const uint32_t *size, use_t *uses) {
    memset(uses, 0, (w->nbundles + (size_t)1) * sizeof *uses);
    for (uint32_t i = 0; i < path->n; i++) {
        entry_t e = net->entries[path->first + i];
        use_t *use = &uses[w->bundle_of[e.res] - net->nres];
        use->weight = use->n++ == 0 ? e.weight : use->weight;
        use->like += e.weight == use->weight;
    }
    for (uint32_t b = 0; b < w->nbundles; b++)
        uses[b].whole = 1 + size[b] - uses[b].like < uses[b].n;
}

/* @return how many there are; parts NULL: only counts. */
static uint32_t make_parts(const ccl_i_net_t *net, const struct ccl_i_wide *w, const path_t *path,
                           const use_t *uses, int32_t *weights, part_t *parts) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < path->n; i++)
        weights[net->entries[path->first + i].res] = (int32_t)net->entries[path->first + i].weight;
    for (uint32_t b = 0; b < w->nbundles; b++) {
        if (uses[b].whole && parts)
            parts[n] = (part_t){net->nres + b, (int32_t)uses[b].weight};
        n += uses[b].whole;
    }
    for (uint32_t i = 0; i < net->nused; i++) {
        uint32_t res = net->used[i];
        const use_t *use = &uses[w->bundle_of[res] - net->nres];
        int32_t weight = weights[res] - (use->whole ? (int32_t)use->weight : 0);
        if (weight != 0 && parts)
            parts[n] = (part_t){res, weight};
        n += weight != 0;
        weights[res] = 0;
    }
    return n;
}

static bool store_paths(const ccl_i_net_t *net, struct ccl_i_wide *w, bool *pays) {
    uint32_t *size = calloc(w->nbundles + (size_t)1, sizeof *size);
    use_t *uses = calloc(w->nbundles + (size_t)1, sizeof *uses);
    int32_t *weights = calloc(net->nres + (size_t)1, sizeof *weights);
    bool ok = size && uses && weights;
    for (uint32_t r = 0; ok && r < net->nres; r++)
        size[w->bundle_of[r] - net->nres]++;
    for (int store = 0; ok && store < 2; store++) {
        uint32_t n = 0;
        for (uint32_t p = 0; p < net->npaths; p++) {
            find_uses(net, w, &net->paths[p], size, uses);
            w->first[p] = n;
            n += make_parts(net, w, &net->paths[p], uses, weights, store ? &w->parts[n] : NULL);
        }
        w->first[net->npaths] = n;
        *pays = n <= PAYS * net->nentries;
        if (!*pays)
            break;
        w->parts = store ? w->parts : malloc((n + (size_t)1) * sizeof *w->parts);
        ok = w->parts != NULL;
    }
    free(size);
    free(uses);
    free(weights);
    return ok;
}

static void sort_caps(const ccl_i_net_t *net, struct ccl_i_wide *w) {
    for (uint32_t cap = net->first_cap; cap < net->nres; cap++) {
        uint32_t at = w->ncaps++;
        for (; at > 0 && net->res[w->caps[at - 1]].base > net->res[cap].base; at--)
            w->caps[at] = w->caps[at - 1];
        w->caps[at] = cap;
    }
}

static bool tables(const ccl_i_net_t *net, struct ccl_i_wide *w) {
    w->first = malloc((net->npaths + (size_t)1) * sizeof *w->first);
    w->bundle_of = malloc((net->nres + (size_t)1) * sizeof *w->bundle_of);
    w->active = malloc((net->npaths + (size_t)1) * sizeof *w->active);
    w->caps = malloc((net->nres + (size_t)1) * sizeof *w->caps);
    w->passed = calloc(net->npaths + (size_t)1, sizeof *w->passed);
    return w->first && w->bundle_of && w->active && w->caps && w->passed;
}

bool ccl_i_net_wide_create(ccl_i_net_t *net) {
    if (net->stride < WIDE)
        return true;
    struct ccl_i_wide *w = calloc(1, sizeof *w);
    bool pays = false, ok = w && tables(net, w) && find_bundles(net, w);
    for (uint32_t r = 0; ok && r < net->nres; r++)
        if (w->bundle_of[r] == CCL_NONE)
            w->bundle_of[r] = net->nres + w->nbundles;
    if (ok)
        sort_caps(net, w);
    ok = ok && store_paths(net, w, &pays);
    if (ok && pays) {
        w->sums = calloc(net->nres + w->nbundles + (size_t)1, sizeof *w->sums);
        ok = w->sums != NULL;
    }
    if (ok && pays)
        net->wide = w;
    else
        ccl_i_net_wide_destroy(w);
    return ok;
}

/* ---------------------------------------------------------------- filling */

/* Flows leave and come; afterwards the `offset` of a path is its own clock. */
static void change_flows(ccl_i_net_t *net, struct ccl_i_wide *w) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->nactive; i++) {
        uint32_t path = w->active[i];
        net->paths[path].offset += net->res[net->bottle[path]].vol;
        net->bottle[path] = CCL_NONE;
    }
    for (uint32_t i = 0; i < net->nended; i++)
        net->paths[net->ended[i]].count--;
    for (uint32_t i = 0; i < w->nactive; i++) {
        w->active[n] = w->active[i];
        n += net->paths[w->active[i]].count > 0;
    }
    for (uint32_t i = 0; i < net->nstarted; i++) {
        started_t s = net->started[i];
        path_t *p = &net->paths[s.path];
        if (p->count++ == 0) {
            p->offset = 0;
            w->active[n++] = s.path;
        }
        if (!ccl_i_path_push(net, p, (flow_t){p->offset + s.bytes, s.user}))
            net->nomem = true;
    }
    w->nactive = w->nleft = net->active_paths = n;
    net->visits += n;
}

static bool add_up(ccl_i_net_t *net, struct ccl_i_wide *w, component_t *c) {
    uint32_t epoch = ++net->epoch, n = 0, nsums = net->nres + w->nbundles;
    memset(w->sums, 0, (nsums + (size_t)1) * sizeof *w->sums);
    for (uint32_t i = 0; i < w->nactive; i++) {
        uint32_t path = w->active[i];
        net->paths[path].mark = epoch;
        double count = net->paths[path].count;
        for (uint32_t k = w->first[path]; k < w->first[path + 1]; k++) {
            sum_t *sum = &w->sums[w->parts[k].at];
            sum->cnt += w->parts[k].weight * count;
            sum->demand += w->parts[k].weight * count * net->caps[path].cap_Bps;
            sum->nlist++;
        }
    }
    for (uint32_t i = 0; i < nsums; i++) {
        w->sums[i].first = n;
        n += w->sums[i].nlist;
        w->sums[i].nlist = 0;
    }
    if (!ccl_i_grow(&w->list, &w->clist, n + 1u, sizeof *w->list) ||
        !ccl_i_grow(&c->heap, &c->cheap, net->nused + 1u, sizeof *c->heap))
        return false;
    for (uint32_t i = 0; i < w->nactive; i++) {
        uint32_t path = w->active[i];
        for (uint32_t k = w->first[path]; k < w->first[path + 1]; k++) {
            sum_t *sum = &w->sums[w->parts[k].at];
            w->list[sum->first + sum->nlist++] = (user_t){path, w->parts[k].weight};
        }
    }
    return true;
}

static double weight_left(const struct ccl_i_wide *w, uint32_t res) {
    return w->sums[res].cnt + w->sums[w->bundle_of[res]].cnt;
}

static double room_left(const ccl_i_net_t *net, const struct ccl_i_wide *w, uint32_t res) {
    return net->cap[res] - (w->sums[res].used + w->sums[w->bundle_of[res]].used);
}

/* Nobody is limited by anything yet. */
static void clear(ccl_i_net_t *net, struct ccl_i_wide *w, component_t *c) {
    for (uint32_t i = 0; i < net->nused; i++) {
        uint32_t res = net->used[i];
        resource_t *r = &net->res[res];
        net->own[res] = 0;
        r->nown = r->nwide = r->nlazy = 0;
        r->vol = 0;
        r->min_key = INFINITY;
        r->min_stale = false;
        if (r->fixed)
            continue;
        ccl_i_net_set_level(net, res, INFINITY);
        if (r->kappa > 0) {
            double demand = w->sums[res].demand + w->sums[w->bundle_of[res]].demand;
            net->cap[res] = r->base * ccl_model_eta(r->kappa, demand / r->base);
        }
        double weight = weight_left(w, res);
        if (weight > 0.5)
            ccl_i_fill_push(c, (keyed_t){net->cap[res] / weight, res});
    }
}

static void settle(ccl_i_net_t *net, struct ccl_i_wide *w, uint32_t path, uint32_t res,
                   double level) {
    path_t *p = &net->paths[path];
    p->mark = 0;
    w->nleft--;
    for (uint32_t k = w->first[path]; k < w->first[path + 1]; k++) {
        sum_t *sum = &w->sums[w->parts[k].at];
        double weight = (double)w->parts[k].weight * p->count;
        sum->used += weight * level;
        sum->cnt -= weight;
    }
    ccl_i_net_join(net, path, res, p->count, p->offset);
}

/* Whether a path that is stored at a resource by itself does not load it: a bundle's load less. */
static bool passes_by(const struct ccl_i_wide *w, user_t user, uint32_t bundle) {
    for (uint32_t k = w->first[user.path]; k < w->first[user.path + 1]; k++)
        if (w->parts[k].at == bundle)
            return w->parts[k].weight + user.weight == 0;
    return false;
}

/* All that load a full resource and are not settled yet. */
static void settle_all(ccl_i_net_t *net, struct ccl_i_wide *w, uint32_t res, double level) {
    uint32_t epoch = net->epoch, bundle = w->bundle_of[res], keep = 0;
    sum_t *alone = &w->sums[res], *all = &w->sums[bundle];
    w->pass++;
    for (uint32_t i = alone->first; i < alone->first + alone->nlist; i++) {
        user_t user = w->list[i];
        if (net->paths[user.path].mark != epoch)
            continue;
        if (passes_by(w, user, bundle))
            w->passed[user.path] = w->pass;
        else
            settle(net, w, user.path, res, level);
    }
    for (uint32_t i = all->first; i < all->first + all->nlist; i++) {
        user_t user = w->list[i];
        if (net->paths[user.path].mark != epoch)
            continue;
        if (w->passed[user.path] == w->pass)
            w->list[all->first + keep++] = user;
        else
            settle(net, w, user.path, res, level);
    }
    all->nlist = keep;
}

/* All paths whose caps are at most this level and lower than what they could get. */
static void settle_capped(ccl_i_net_t *net, struct ccl_i_wide *w, uint32_t *next, double level) {
    for (; *next < w->ncaps && net->res[w->caps[*next]].base <= level; ++*next) {
        uint32_t cap = w->caps[*next];
        const sum_t *sum = &w->sums[cap];
        for (uint32_t i = sum->first; i < sum->first + sum->nlist; i++)
            if (net->paths[w->list[i].path].mark == net->epoch)
                settle(net, w, w->list[i].path, cap, net->res[cap].base);
    }
}

static void fill(ccl_i_net_t *net, struct ccl_i_wide *w, component_t *c) {
    uint32_t next = 0;
    while (!net->nomem && c->nheap > 0 && w->nleft > 0) {
        settle_capped(net, w, &next, c->heap[0].key);
        keyed_t top = ccl_i_fill_pop(c);
        double weight = weight_left(w, top.id);
        if (weight < 0.5)
            continue;
        double level = fmax(0, room_left(net, w, top.id) / weight);
        if (level > top.key * (1 + EPS)) { /* others took less than their share since */
            ccl_i_fill_push(c, (keyed_t){level, top.id});
            continue;
        }
        ccl_i_net_set_level(net, top.id, level);
        settle_all(net, w, top.id, level);
        net->rate_changes++;
    }
    settle_capped(net, w, &next, INFINITY); /* those that no link limits */
}

void ccl_i_net_wide_solve(ccl_i_net_t *net) {
    struct ccl_i_wide *w = net->wide;
    component_t *c = ccl_i_fill_begin(net);
    for (uint32_t i = 0; i < net->nused; i++)
        ccl_i_net_touch(net, net->used[i]);
    change_flows(net, w);
    if (net->nomem || !add_up(net, w, c)) {
        net->nomem = true;
        return;
    }
    clear(net, w, c);
    fill(net, w, c);
}
