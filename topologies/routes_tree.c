/*
 * Trees of switch connections (topologies.h, ccl_routes_tree()).
 *
 * All ways of a tree begin or end at its root, so one pass from the root and one reversed pass to
 * it know every way, whatever the GPUs. The hops alone bound the links of a root's union from
 * below; roots whose bound exceeds the best union so far are not walked.
 */
#include "topologies/routes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "topologies/internal.h"

/* A tree that was asked for. It serves every channel that agrees with its own at all forks that
   were walked to find it. */
typedef struct ccl_i_routes_tree {
    ccl_tree_t tree;
    uint64_t hash;
    const uint32_t *members;
    uint32_t single;
    bool reduces;
    uint32_t period, channel_class;
    struct ccl_i_routes_tree *next;
} kept_t;

/* What makes a root impossible; the furthest along is reported. */
typedef enum fault { FAULT_NONE, FAULT_UNREACHED, FAULT_MERGES, FAULT_ABILITY } fault_t;

/* Of a union: the single GPU's way, the members' ways. */
enum { PART_SINGLE = 1, PART_MEMBERS = 2 };

typedef struct root {
    uint32_t device;
    bool fast;
    uint32_t nlinks; /* of the union; before it is known, at least */
    double wide_Bps, sum_s;
} root_t;

/* One question, and scratch for the union under one root. */
typedef struct asked {
    ccl_routes_t *r;
    bool reduces;
    uint32_t single, nmembers, channel;
    const uint32_t *members;
    uint64_t turn;
    uint32_t period;
    /* The union. */
    uint32_t *links, nlinks;
    uint8_t *part;            /* [nlinks of the topology] 0: not in it, else its PART_* */
    uint32_t first, last;     /* of links: the members' part */
    uint32_t twice;           /* a device where the parts share a link; CCL_NONE: they do not */
    uint32_t *entered, *left; /* [ndevices] by links of the union */
    double *latency_s;        /* [nmembers] */
    root_t *roots, *best;     /* [ndevices] switches that reach all; as good as the best so far */
    uint32_t nroots, nbest;
    fault_t fault;
    uint32_t fault_device;
} asked_t;

/* ---------------------------------------------------------------- one root */

static const ccl_i_routes_pass_t *pass_of(asked_t *a, uint32_t root, bool to_root, uint32_t gpu) {
    uint32_t way = to_root ? CCL_I_PASS_REVERSE : 0;
    const ccl_i_routes_pass_t *pass = NULL;
    if (a->r->any_fast) {
        pass = ccl_i_routes_pass(a->r, root, way | CCL_I_PASS_FAST);
        if (!pass || pass->hops[gpu] != CCL_NONE)
            return pass;
    }
    return ccl_i_routes_pass(a->r, root, way | CCL_I_PASS_ALL);
}

/* Add the hops of a way to *nlinks; *reached false: there is none. @return false: no memory. */
static bool measure(asked_t *a, root_t *root, bool to_root, uint32_t rank, uint32_t *hops,
                    bool *reached) {
    uint32_t gpu = a->r->topo->rank_device[rank];
    const ccl_i_routes_pass_t *pass = pass_of(a, root->device, to_root, gpu);
    if (!pass)
        return false;
    *hops = pass->hops[gpu];
    *reached &= *hops != CCL_NONE;
    root->fast &= pass->fast;
    return true;
}

static void blame(asked_t *a, fault_t fault, uint32_t device) {
    if (fault > a->fault) {
        a->fault = fault;
        a->fault_device = device;
    }
}

/* Whether the ways are all of nvlink and xgmi, and the least links of the union: the single GPU's
   way, the longest of the members', and at each other member a link of its own. */
static bool bound(asked_t *a, root_t *root, bool *reached) {
    uint32_t way, longest = 0;
    root->fast = *reached = true;
    if (!measure(a, root, !a->reduces, a->single, &root->nlinks, reached))
        return false;
    for (uint32_t i = 0; i < a->nmembers && *reached; i++) {
        if (!measure(a, root, a->reduces, a->members[i], &way, reached))
            return false;
        longest = way > longest ? way : longest;
    }
    root->nlinks += longest + a->nmembers - 1;
    return true;
}

static uint32_t common_period(uint32_t a, uint32_t b) {
    uint64_t x = a, y = b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    uint64_t both = (uint64_t)a / x * b;
    return both < CCL_I_PERIOD_UNLIMITED ? (uint32_t)both : CCL_I_PERIOD_UNLIMITED;
}

/* Walk a way and take its links into the union. @return false: no memory. */
static bool add_way(asked_t *a, uint32_t root, uint8_t part, uint32_t rank, double *latency_s) {
    bool to_root = (part == PART_SINGLE) != a->reduces;
    ccl_routes_t *r = a->r;
    uint32_t gpu = r->topo->rank_device[rank], period, width;
    const ccl_i_routes_pass_t *pass = pass_of(a, root, to_root, gpu);
    if (!pass)
        return false;
    ccl_i_routes_solve(r, pass, root, gpu);
    ccl_i_routes_forks(r, &period, &width);
    a->period = common_period(a->period, period);
    uint32_t v = to_root ? gpu : root, end = to_root ? root : gpu;
    while (v != end) {
        uint32_t l = ccl_i_routes_next(r, v, a->turn);
        const ccl_link_t *link = &r->topo->links[l];
        *latency_s += link->latency_s;
        v = link->to;
        if (a->part[l] && a->part[l] != part)
            a->twice = v;
        if (a->part[l])
            continue;
        a->part[l] = part;
        a->links[a->nlinks++] = l;
    }
    return true;
}

/* The union under a root, whose ways all exist. @return false: no memory. */
static bool unite(asked_t *a, uint32_t root) {
    double single_s = 0;
    a->nlinks = 0;
    a->twice = CCL_NONE;
    if (!a->reduces && !add_way(a, root, PART_SINGLE, a->single, &single_s))
        return false;
    a->first = a->nlinks;
    for (uint32_t i = 0; i < a->nmembers; i++) {
        a->latency_s[i] = 0;
        if (!add_way(a, root, PART_MEMBERS, a->members[i], &a->latency_s[i]))
            return false;
    }
    a->last = a->nlinks;
    if (a->reduces && !add_way(a, root, PART_SINGLE, a->single, &single_s))
        return false;
    for (uint32_t i = 0; i < a->nmembers; i++)
        a->latency_s[i] += single_s;
    return true;
}

/* Whether the union is a tree whose switches can do what it asks of them; forgets the marks. Only
   the members' part can merge or branch: the other one is a route. */
static bool check(asked_t *a) {
    const ccl_topology_t *topo = a->r->topo;
    uint32_t merges = a->twice, unable = CCL_NONE;
    for (uint32_t i = a->first; i < a->last; i++) {
        const ccl_link_t *link = &topo->links[a->links[i]];
        a->entered[link->to]++;
        a->left[link->from]++;
    }
    for (uint32_t i = a->first; i < a->last; i++) {
        const ccl_link_t *link = &topo->links[a->links[i]];
        uint32_t v = a->reduces ? link->to : link->from, w = a->reduces ? link->from : link->to;
        const ccl_device_t *branch = &topo->devices[v];
        if ((a->reduces ? a->left[w] : a->entered[w]) > 1)
            merges = w;
        if ((a->reduces ? a->entered[v] : a->left[v]) > 1 &&
            !(a->reduces ? branch->reduce : branch->multicast))
            unable = v;
    }
    for (uint32_t i = 0; i < a->nlinks; i++) {
        const ccl_link_t *link = &topo->links[a->links[i]];
        a->entered[link->to] = a->left[link->from] = 0;
        a->part[a->links[i]] = 0;
    }
    if (merges != CCL_NONE)
        blame(a, FAULT_MERGES, merges);
    else if (unable != CCL_NONE)
        blame(a, FAULT_ABILITY, unable);
    return merges == CCL_NONE && unable == CCL_NONE;
}

/* ---------------------------------------------------------------- the best root */

/* < 0: x is better by what comes before the latencies. */
static int compare(const root_t *x, const root_t *y) {
    if (x->fast != y->fast)
        return x->fast ? -1 : 1;
    if (x->nlinks != y->nlinks)
        return x->nlinks < y->nlinks ? -1 : 1;
    return x->wide_Bps > y->wide_Bps ? -1 : x->wide_Bps < y->wide_Bps;
}

/* The switches that every way reaches, with bounds. @return false: no memory. */
static bool find_roots(asked_t *a) {
    const ccl_topology_t *topo = a->r->topo;
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        root_t *root = &a->roots[a->nroots];
        bool reached;
        if (topo->devices[d].kind != CCL_DEVICE_SWITCH)
            continue;
        *root = (root_t){.device = d, .wide_Bps = INFINITY};
        if (!bound(a, root, &reached))
            return false;
        if (reached)
            a->nroots++;
        else
            blame(a, FAULT_UNREACHED, d);
    }
    return true;
}

static bool try_root(asked_t *a, root_t now) {
    const ccl_topology_t *topo = a->r->topo;
    if (a->nbest > 0 && (now.fast < a->best[0].fast ||
                         (now.fast == a->best[0].fast && now.nlinks > a->best[0].nlinks)))
        return true;
    if (!unite(a, now.device))
        return false;
    if (!check(a))
        return true;
    now.nlinks = a->nlinks;
    for (uint32_t i = 0; i < a->nlinks; i++) {
        now.wide_Bps = fmin(now.wide_Bps, topo->links[a->links[i]].bandwidth_Bps);
        now.sum_s += topo->links[a->links[i]].latency_s;
    }
    int order = a->nbest > 0 ? compare(&now, &a->best[0]) : -1;
    if (order < 0)
        a->nbest = 0;
    if (order <= 0)
        a->best[a->nbest++] = now;
    return true;
}

/* Of equal roots the first whose latencies are least; CCL_NONE: there is none. */
static uint32_t choose(const asked_t *a) {
    double least_s = INFINITY;
    uint32_t first = CCL_NONE;
    for (uint32_t i = 0; i < a->nbest; i++)
        least_s = fmin(least_s, a->best[i].sum_s);
    for (uint32_t i = 0; i < a->nbest; i++)
        if (a->best[i].sum_s <= least_s + CCL_I_LATENCY_EQUAL_S && a->best[i].device < first)
            first = a->best[i].device;
    return first;
}

/* The best root, walked last so that the union is its own; CCL_NONE: there is none. The one with
   the least bound goes first, so that few others have to be walked. @return false: no memory. */
static bool find_best(asked_t *a, uint32_t *out) {
    uint32_t near = 0;
    if (!find_roots(a))
        return false;
    for (uint32_t i = 1; i < a->nroots; i++)
        if (compare(&a->roots[i], &a->roots[near]) < 0)
            near = i;
    if (a->nroots > 0 && !try_root(a, a->roots[near]))
        return false;
    for (uint32_t i = 0; i < a->nroots; i++)
        if (i != near && !try_root(a, a->roots[i]))
            return false;
    *out = choose(a);
    return *out == CCL_NONE || unite(a, *out);
}

/* ---------------------------------------------------------------- what is kept */

static uint64_t hash_of(const asked_t *a) {
    uint64_t h = 1469598103934665603u ^ (a->reduces ? 1u : 0u);
    h = (h ^ a->single) * 1099511628211u;
    for (uint32_t i = 0; i < a->nmembers; i++)
        h = (h ^ a->members[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static bool same_question(const asked_t *a, uint64_t hash, const kept_t *k) {
    return k->hash == hash && k->reduces == a->reduces && k->single == a->single &&
           k->tree.nmembers == a->nmembers &&
           memcmp(k->members, a->members, a->nmembers * sizeof *a->members) == 0;
}

static uint32_t class_of(uint32_t channel, uint32_t period) {
    return period == CCL_I_PERIOD_UNLIMITED ? channel : channel % period;
}

static const kept_t *find_kept(const asked_t *a, uint64_t hash) {
    const ccl_routes_t *r = a->r;
    kept_t *k = r->ntree_buckets ? r->trees[hash % r->ntree_buckets] : NULL;
    while (k && !(same_question(a, hash, k) && class_of(a->channel, k->period) == k->channel_class))
        k = k->next;
    return k;
}

static bool keep(ccl_routes_t *r, kept_t *kept) {
    if (r->ntrees >= r->ntree_buckets) {
        uint32_t n = r->ntree_buckets ? r->ntree_buckets * 4 : 64;
        kept_t **buckets = calloc(n, sizeof(*buckets));
        if (!buckets)
            return false;
        for (uint32_t b = 0; b < r->ntree_buckets; b++) {
            for (kept_t *k = r->trees[b], *next; k; k = next) {
                next = k->next;
                k->next = buckets[k->hash % n];
                buckets[k->hash % n] = k;
            }
        }
        free(r->trees);
        r->trees = buckets;
        r->ntree_buckets = n;
    }
    kept_t **bucket = &r->trees[kept->hash % r->ntree_buckets];
    kept->next = *bucket;
    *bucket = kept;
    r->ntrees++;
    return true;
}

static int u32_compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Devices that two or more links of the members' part enter, or leave; ascending. */
static uint32_t branches(const asked_t *a, uint32_t *out) {
    uint32_t n = 0, nbranches = 0;
    for (uint32_t i = a->first; i < a->last; i++) {
        const ccl_link_t *link = &a->r->topo->links[a->links[i]];
        out[n++] = a->reduces ? link->to : link->from;
    }
    qsort(out, n, sizeof *out, u32_compare);
    for (uint32_t i = 1; i < n; i++)
        if (out[i] == out[i - 1] && (nbranches == 0 || out[nbranches - 1] != out[i]))
            out[nbranches++] = out[i];
    return nbranches;
}

static void *kept_copy(ccl_routes_t *r, const void *from, size_t n, size_t size) {
    void *to = ccl_arena_alloc(&r->arena, n ? n : 1, size);
    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

/* The union of the walked root as a tree of its own. NULL: no memory. */
static const kept_t *keep_union(asked_t *a, uint64_t hash, uint32_t root, uint32_t *scratch) {
    ccl_routes_t *r = a->r;
    kept_t *k = ccl_arena_alloc(&r->arena, 1, sizeof *k);
    uint32_t nbranches = branches(a, scratch);
    if (!k)
        return NULL;
    ccl_tree_t *tree = &k->tree;
    uint32_t *switches = kept_copy(r, scratch, nbranches, sizeof *switches);
    tree->latency_s = kept_copy(r, a->latency_s, a->nmembers, sizeof *a->latency_s);
    tree->route.links = kept_copy(r, a->links, a->nlinks, sizeof *a->links);
    k->members = kept_copy(r, a->members, a->nmembers, sizeof *a->members);
    if (!switches || !tree->latency_s || !tree->route.links || !k->members)
        return NULL;
    tree->route.nlinks = a->nlinks;
    ccl_i_routes_sum(r, &tree->route);
    tree->route.latency_s = 0;
    for (uint32_t i = 0; i < a->nmembers; i++)
        tree->route.latency_s = fmax(tree->route.latency_s, a->latency_s[i]);
    tree->root = root;
    tree->nmembers = a->nmembers;
    tree->reducers = tree->copiers = switches;
    *(a->reduces ? &tree->nreducers : &tree->ncopiers) = nbranches;
    k->hash = hash;
    k->single = a->single;
    k->reduces = a->reduces;
    k->period = a->period;
    k->channel_class = class_of(a->channel, a->period);
    if (!keep(r, k))
        return NULL;
    tree->route.index = r->nroutes++;
    return k;
}

/* ---------------------------------------------------------------- what users ask */

static ccl_status_t question_check(const ccl_topology_t *topo, uint32_t single,
                                   const uint32_t *members, uint32_t n, ccl_error_t *err) {
    if (n == 0)
        return ccl_fail(err, CCL_ERR_INPUT, "switch connection of rank %u with no rank", single);
    for (uint32_t i = 0; i <= n; i++) {
        uint32_t rank = i < n ? members[i] : single;
        if (rank >= topo->nranks)
            return ccl_fail(err, CCL_ERR_INPUT, "switch connection of rank %u, but there are %u",
                            rank, topo->nranks);
        if (i > 0 && i < n && members[i - 1] >= rank)
            return ccl_fail(err, CCL_ERR_INPUT, "ranks %u, %u of a switch connection do not ascend",
                            members[i - 1], rank);
    }
    return CCL_OK;
}

/* "ranks 0-3,5" */
static void name_ranks(const uint32_t *ranks, uint32_t n, ccl_text_t *out) {
    ccl_text_printf(out, n == 1 ? "rank " : "ranks ");
    for (uint32_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && ranks[k] == ranks[k - 1] + 1;)
            k++;
        ccl_text_printf(out, "%s%u", i ? "," : "", ranks[i]);
        if (k - i > 1)
            ccl_text_printf(out, "-%u", ranks[k - 1]);
    }
}

static ccl_status_t refuse(const asked_t *a, ccl_error_t *err) {
    ccl_text_t members = {0};
    char why[300] = "there is no switch";
    const ccl_device_t *at = a->fault == FAULT_NONE ? NULL : &a->r->topo->devices[a->fault_device];
    const char *ability = a->reduces ? "reduce" : "multicast";
    name_ranks(a->members, a->nmembers, &members);
    if (a->fault == FAULT_UNREACHED)
        snprintf(why, sizeof why, "none joins them all without passing a gpu");
    else if (a->fault == FAULT_MERGES)
        snprintf(why, sizeof why, "their ways meet twice at %s \"%.200s\"",
                 ccl_i_device_kind_name(at->kind), at->id);
    else if (a->fault == FAULT_ABILITY)
        snprintf(why, sizeof why, "%s \"%.200s\" has no \"%s\"", ccl_i_device_kind_name(at->kind),
                 at->id, ability);
    const char *list = members.data ? members.data : "";
    ccl_status_t status =
        a->reduces ? ccl_fail(err, CCL_UNSUPPORTED, "no switch reduces %.200s to rank %u; %s", list,
                              a->single, why)
                   : ccl_fail(err, CCL_UNSUPPORTED, "no switch multicasts rank %u to %.200s; %s",
                              a->single, list, why);
    ccl_text_fini(&members);
    return status;
}

static ccl_status_t make_tree(asked_t *a, uint64_t hash, const kept_t **out, ccl_error_t *err) {
    const ccl_topology_t *topo = a->r->topo;
    ccl_arena_t arena;
    uint32_t root;
    ccl_status_t status = CCL_OK;
    ccl_arena_init(&arena);
    a->links = ccl_arena_alloc(&arena, (size_t)topo->nlinks + 1, sizeof *a->links);
    a->part = ccl_arena_alloc(&arena, (size_t)topo->nlinks + 1, sizeof *a->part);
    a->entered = ccl_arena_alloc(&arena, topo->ndevices, sizeof *a->entered);
    a->left = ccl_arena_alloc(&arena, topo->ndevices, sizeof *a->left);
    a->latency_s = ccl_arena_alloc(&arena, a->nmembers, sizeof *a->latency_s);
    a->roots = ccl_arena_alloc(&arena, (size_t)topo->ndevices + 1, sizeof *a->roots);
    a->best = ccl_arena_alloc(&arena, topo->ndevices, sizeof *a->best);
    uint32_t *scratch = ccl_arena_alloc(&arena, (size_t)topo->nlinks + 1, sizeof *scratch);
    if (!a->links || !a->part || !a->entered || !a->left || !a->latency_s || !a->roots ||
        !a->best || !scratch || !find_best(a, &root))
        status = ccl_fail_nomem(err);
    else if (root == CCL_NONE)
        status = refuse(a, err);
    else if (!(*out = keep_union(a, hash, root, scratch)))
        status = ccl_fail_nomem(err);
    ccl_arena_fini(&arena);
    return status;
}

ccl_status_t ccl_routes_tree(ccl_routes_t *routes, bool reduces, uint32_t single,
                             const uint32_t *members, uint32_t nmembers, uint32_t channel,
                             const ccl_tree_t **out, ccl_error_t *err) {
    CCL_TRY(question_check(routes->topo, single, members, nmembers, err));
    asked_t a = {.r = routes,
                 .reduces = reduces,
                 .single = single,
                 .nmembers = nmembers,
                 .channel = channel,
                 .members = members,
                 .turn = (uint64_t)routes->topo->rank_local_index[single] + channel,
                 .period = 1};
    uint64_t hash = hash_of(&a);
    const kept_t *kept = find_kept(&a, hash);
    if (!kept)
        CCL_TRY(make_tree(&a, hash, &kept, err));
    *out = &kept->tree;
    return CCL_OK;
}

bool ccl_topology_in_switch(const ccl_topology_t *topo, bool reduces, const uint32_t *ranks,
                            uint32_t n) {
    const ccl_tree_t *tree;
    bool able = n == 1;
    for (uint32_t d = 0; d < topo->ndevices && !able; d++)
        able = reduces ? topo->devices[d].reduce : topo->devices[d].multicast;
    ccl_routes_t *routes = n > 0 && able ? ccl_routes_create(topo) : NULL;
    bool all = routes != NULL;
    for (uint32_t i = 0; i < n && all; i++)
        all = ccl_routes_tree(routes, reduces, ranks[i], ranks, n, 0, &tree, NULL) == CCL_OK;
    ccl_routes_destroy(routes);
    return all;
}

bool ccl_topology_able(const ccl_topology_t *topo) {
    bool able = false;
    for (uint32_t d = 0; d < topo->ndevices && !able; d++)
        able = topo->devices[d].multicast || topo->devices[d].reduce;
    return able;
}

ccl_status_t ccl_topology_unable(const ccl_topology_t *topo, ccl_topology_t *out,
                                 ccl_device_t **devices, ccl_error_t *err) {
    ccl_device_t *own = malloc((topo->ndevices + (size_t)1) * sizeof *own);
    if (!own)
        return ccl_fail_nomem(err);
    memcpy(own, topo->devices, topo->ndevices * sizeof *own);
    for (uint32_t d = 0; d < topo->ndevices; d++)
        own[d].multicast = own[d].reduce = false;
    *out = *topo;
    out->devices = *devices = own;
    return CCL_OK;
}
