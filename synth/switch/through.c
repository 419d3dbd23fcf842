/* Trees inside the reach of a switch, as switch connections. */
#include "synth/switch/through.h"
#include "synth/common/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ranks that one switch may join: of a server, or of a rail over all servers. */
typedef struct reach {
    uint32_t *part, *place; /* [nranks] of each rank, and which of its part's it is */
    uint32_t most;          /* ranks of a part */
    bool *adds, *multicast; /* [nranks] whether switches can, by part */
} reach_t;

/* Transfers of one kind of one chunk, from a GPU to a GPU of its part. */
typedef struct forest {
    bool adds;
    uint32_t *edges; /* [ntransfers] */
    uint32_t n;
    uint32_t *tree;  /* [nranks] union-find */
    uint8_t *once;   /* [nranks] the end that a tree has once has a transfer; 2: inside the part */
    uint32_t *group; /* [nranks] */
} forest_t;

/* Groups of one GPU have no channel in common: to a member, its channel says which it is. */
enum { MOST_GROUPS = 4 };
typedef struct ends {
    uint32_t group[MOST_GROUPS], used[MOST_GROUPS], n;
} ends_t;

typedef struct pass {
    const ccl_schedule_t *from;
    reach_t reach;
    forest_t forest;
    uint32_t *first, *list; /* transfers by chunk */
    bool *gone;             /* [ntransfers] */
    ends_t *ends;           /* [2 nranks] multicasts of each rank, then pulls */
    ccl_i_through_way_t way;
    uint64_t made;
    ccl_schedule_builder_t *b;
} pass_t;

static void pass_fini(pass_t *p) {
    free(p->reach.part);
    free(p->reach.place);
    free(p->reach.adds);
    free(p->reach.multicast);
    free(p->forest.edges);
    free(p->forest.tree);
    free(p->forest.once);
    free(p->forest.group);
    free(p->first);
    free(p->list);
    free(p->gone);
    free(p->ends);
    ccl_schedule_builder_destroy(p->b);
}

static bool pass_init(pass_t *p) {
    const ccl_schedule_t *s = p->from;
    size_t nranks = s->coll->nranks + (size_t)1, n = s->ntransfers + (size_t)1;
    p->reach = (reach_t){.part = malloc(nranks * sizeof(uint32_t)),
                         .place = calloc(nranks, sizeof(uint32_t)),
                         .adds = calloc(nranks, sizeof(bool)),
                         .multicast = calloc(nranks, sizeof(bool))};
    p->forest.edges = malloc(n * sizeof(uint32_t));
    p->forest.tree = malloc(nranks * sizeof(uint32_t));
    p->forest.once = calloc(nranks, 1);
    p->forest.group = malloc(nranks * sizeof(uint32_t));
    p->first = calloc(s->coll->nchunks + (size_t)2, sizeof(uint32_t));
    p->list = malloc(n * sizeof(uint32_t));
    p->gone = calloc(n, sizeof(bool));
    p->ends = calloc(2 * nranks, sizeof(ends_t));
    return p->reach.part && p->reach.place && p->reach.adds && p->reach.multicast &&
           p->forest.edges && p->forest.tree && p->forest.once && p->forest.group && p->first &&
           p->list && p->gone && p->ends;
}

static void list_by_chunk(pass_t *p) {
    const ccl_schedule_t *s = p->from;
    for (uint32_t i = 0; i < s->ntransfers; i++)
        p->first[s->transfers[i].chunk + 2]++;
    for (uint32_t c = 0; c < s->coll->nchunks; c++)
        p->first[c + 2] += p->first[c + 1];
    for (uint32_t i = 0; i < s->ntransfers; i++)
        p->list[p->first[s->transfers[i].chunk + 1]++] = i;
}

/* ---------------------------------------------------------------- trees */

static uint32_t find(uint32_t *tree, uint32_t rank) {
    while (tree[rank] != rank)
        rank = tree[rank] = tree[tree[rank]];
    return rank;
}

static bool is_plain(const ccl_transfer_t *t) {
    return !ccl_peer_is_group(t->src) && !ccl_peer_is_group(t->dst);
}

/* The end of a transfer that its tree has only once: a leaf sends, or receives, no second time. */
static uint32_t leaf_of(const forest_t *f, const ccl_transfer_t *t) {
    return f->adds ? t->src : t->dst;
}

/* False: the chunk's transfers of this kind are no trees, or none is inside a part. */
static bool find_forest(pass_t *p, uint32_t chunk) {
    forest_t *f = &p->forest;
    const bool *able = f->adds ? p->reach.adds : p->reach.multicast;
    bool trees = true;
    f->n = 0;
    for (uint32_t i = p->first[chunk]; i < p->first[chunk + 1]; i++) {
        const ccl_transfer_t *t = &p->from->transfers[p->list[i]];
        if (t->reduce != f->adds || !is_plain(t))
            continue;
        uint8_t *once = &f->once[leaf_of(f, t)];
        trees = trees && !*once;
        *once = 1;
        if (p->reach.part[t->src] != p->reach.part[t->dst] || !able[p->reach.part[t->src]])
            continue;
        *once = 2;
        f->edges[f->n++] = p->list[i];
        f->tree[t->src] = t->src;
        f->tree[t->dst] = t->dst;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        const ccl_transfer_t *t = &p->from->transfers[f->edges[i]];
        f->tree[find(f->tree, t->src)] = find(f->tree, t->dst);
    }
    return trees && f->n > 1;
}

static void forget_forest(pass_t *p, uint32_t chunk) {
    for (uint32_t i = p->first[chunk]; i < p->first[chunk + 1]; i++) {
        const ccl_transfer_t *t = &p->from->transfers[p->list[i]];
        if (is_plain(t))
            p->forest.once[t->src] = p->forest.once[t->dst] = 0;
    }
}

/* The next channel of a GPU's connections with that group; false: it has too many groups. */
static bool next_channel(pass_t *p, uint32_t root, uint32_t group, uint16_t *out) {
    ends_t *e = &p->ends[2 * (size_t)root + p->forest.adds];
    uint32_t at = 0;
    while (at < e->n && e->group[at] != group)
        at++;
    if (at == MOST_GROUPS)
        return false;
    e->n += at == e->n;
    e->group[at] = group;
    *out = (uint16_t)(at * p->way.channels + e->used[at]++ % p->way.channels);
    return true;
}

/* In turn, blocks of a channel serve one GPU after the other, each channel beginning with another
   one: so all GPUs have something to send on from the start. */
static uint32_t turn_of(const pass_t *p, uint32_t root, uint32_t channel) {
    uint32_t n = p->reach.most;
    if (!p->way.in_turn)
        return 0;
    return (p->reach.place[root] + n - channel % n) % n;
}

/* All transfers of one tree as one: a pull when the last of them is due, a multicast with the
   first. */
static void replace_tree(pass_t *p, uint32_t top) {
    forest_t *f = &p->forest;
    ccl_transfer_t all = {0};
    uint32_t n = 0, root = CCL_NONE;
    for (uint32_t i = 0; i < f->n; i++) {
        const ccl_transfer_t *t = &p->from->transfers[f->edges[i]];
        if (find(f->tree, t->src) != top)
            continue;
        uint32_t near = f->adds ? t->dst : t->src; /* nearer to the root */
        root = f->once[near] == 2 ? root : near;
        bool other = n > 0 && (f->adds ? all.step > t->step : all.step < t->step);
        all = other ? all : *t;
        f->group[n++] = leaf_of(f, t);
    }
    if (n < 2 || root == CCL_NONE)
        return;
    uint32_t group = ccl_schedule_builder_group(p->b, f->group, n);
    all.src = f->adds ? group : root;
    all.dst = f->adds ? root : group;
    for (uint32_t q = 0; q < p->way.parts; q++) {
        ccl_transfer_t part = all;
        part.chunk = all.chunk * p->way.parts + q;
        if (!next_channel(p, root, group, &part.channel))
            return;
        part.step = all.step * p->reach.most + turn_of(p, root, part.channel);
        ccl_schedule_builder_add(p->b, part);
    }
    p->made++;
    for (uint32_t i = 0; i < f->n; i++)
        if (find(f->tree, p->from->transfers[f->edges[i]].src) == top)
            p->gone[f->edges[i]] = true;
}

static void replace_forest(pass_t *p, uint32_t chunk, bool adds) {
    forest_t *f = &p->forest;
    f->adds = adds;
    if (find_forest(p, chunk))
        for (uint32_t i = 0; i < f->n; i++) {
            uint32_t top = find(f->tree, p->from->transfers[f->edges[i]].src);
            if (!p->gone[f->edges[i]])
                replace_tree(p, top);
        }
    forget_forest(p, chunk);
}

/* ---------------------------------------------------------------- a pass */

/* Parts, and what switches can do for them. @return some switch can do something. */
static bool find_reach(pass_t *p, const ccl_i_cluster_t *c, bool rails) {
    uint32_t *ranks = p->forest.group;
    uint32_t nparts = rails ? ccl_i_cluster_gpus(c, 0) : c->nservers;
    bool any = false;
    for (uint32_t r = 0; r < c->nranks; r++)
        p->reach.part[r] = rails ? c->local[r] : c->server[r];
    for (uint32_t k = 0; k < nparts; k++) {
        uint32_t n = 0;
        for (uint32_t r = 0; r < c->nranks; r++) {
            if (p->reach.part[r] != k)
                continue;
            p->reach.place[r] = n;
            ranks[n++] = r;
        }
        p->reach.most = n > p->reach.most ? n : p->reach.most;
        p->reach.adds[k] = n > 2 && ccl_topology_in_switch(c->topo, true, ranks, n);
        p->reach.multicast[k] = n > 2 && ccl_topology_in_switch(c->topo, false, ranks, n);
        any = any || p->reach.adds[k] || p->reach.multicast[k];
    }
    return any;
}

/* What is left, and the groups that the schedule has already. */
static void add_kept(pass_t *p) {
    const ccl_schedule_t *s = p->from;
    for (uint32_t i = 0; i < s->ntransfers; i++) {
        ccl_transfer_t t = s->transfers[i];
        if (p->gone[i])
            continue;
        uint32_t *end = ccl_peer_is_group(t.src)   ? &t.src
                        : ccl_peer_is_group(t.dst) ? &t.dst
                                                   : NULL;
        if (end) {
            const ccl_peer_group_t *g = &s->groups[*end & ~CCL_PEER_GROUP];
            *end = ccl_schedule_builder_group(p->b, g->ranks, g->n);
        }
        t.step *= p->reach.most;
        for (uint32_t q = 0; q < p->way.parts; q++) {
            t.chunk = s->transfers[i].chunk * p->way.parts + q;
            ccl_schedule_builder_add(p->b, t);
        }
    }
}

static ccl_status_t run_pass(const ccl_i_cluster_t *c, const ccl_schedule_t *from,
                             ccl_i_through_way_t way, bool rails, ccl_schedule_t **out,
                             ccl_error_t *err) {
    pass_t p = {.from = from, .way = way};
    ccl_collective_t *coll = NULL;
    ccl_status_t status = pass_init(&p) ? CCL_OK : ccl_fail_nomem(err);
    *out = NULL;
    if (status == CCL_OK && find_reach(&p, c, rails)) {
        status = ccl_collective_split(from->coll, way.parts, &coll, err);
        p.b = status == CCL_OK ? ccl_schedule_builder_create(from->name, coll) : NULL;
        if (status == CCL_OK && !p.b)
            status = ccl_fail_nomem(err);
        if (status == CCL_OK) {
            list_by_chunk(&p);
            for (uint32_t k = 0; k < from->coll->nchunks; k++) {
                replace_forest(&p, k, true);
                replace_forest(&p, k, false);
            }
            add_kept(&p);
        }
        if (status == CCL_OK && p.made > 0) {
            status = ccl_schedule_builder_finish(p.b, out, err);
            p.b = NULL;
        }
    }
    if (*out) {
        ccl_origin_set((*out)->origin, "%s", from->origin);
        (*out)->limited = from->limited;
        (*out)->piece_bytes = from->piece_bytes;
    }
    pass_fini(&p);
    return status;
}

ccl_status_t ccl_i_through_switches(const ccl_topology_t *topo, ccl_routes_t *routes,
                                    const ccl_schedule_t *schedule, const ccl_i_through_way_t *way,
                                    ccl_schedule_t **out, ccl_error_t *err) {
    ccl_i_cluster_t cluster;
    ccl_schedule_t *between = NULL;
    CCL_TRY(ccl_i_cluster_init(&cluster, topo, routes, err));
    ccl_status_t status = run_pass(&cluster, schedule, *way, false, out, err);
    ccl_i_through_way_t between_way = *way;
    if (*out)
        between_way.parts = 1;
    if (status == CCL_OK && cluster.nservers > 2 && cluster.min_gpus == cluster.max_gpus)
        status = run_pass(&cluster, *out ? *out : schedule, between_way, true, &between, err);
    if (between || status != CCL_OK) {
        ccl_schedule_destroy(*out);
        *out = between;
    }
    if (*out && way->piece_bytes > 0)
        (*out)->piece_bytes = way->piece_bytes;
    ccl_i_cluster_fini(&cluster);
    return status;
}
