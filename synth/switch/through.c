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
    uint32_t nwaves, cuts;  /* cuts: of a chunk */
    uint32_t *home;         /* [nchunks] in waves: the part in which it is summed up */
    uint16_t *turns;        /* [nchunks parts][nranks] in waves: of pulls */
    uint32_t nparts, ahead; /* in waves: only trees of parts so far before home are in hand */
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
    free(p->home);
    free(p->turns);
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
    p->home = calloc(s->coll->nchunks + (size_t)1, sizeof(uint32_t));
    size_t ncells = p->way.waves.pieces > 0 ? s->coll->nchunks * (size_t)p->way.parts : 0;
    p->turns = calloc(ncells + 1, nranks * sizeof *p->turns);
    return p->reach.part && p->reach.place && p->reach.adds && p->reach.multicast &&
           p->forest.edges && p->forest.tree && p->forest.once && p->forest.group && p->first &&
           p->list && p->gone && p->ends && p->home && p->turns;
}

void ccl_i_through_by_chunk(const ccl_schedule_t *s, uint32_t *first, uint32_t *list) {
    for (uint32_t i = 0; i < s->ntransfers; i++)
        first[s->transfers[i].chunk + 2]++;
    for (uint32_t c = 0; c < s->coll->nchunks; c++)
        first[c + 2] += first[c + 1];
    for (uint32_t i = 0; i < s->ntransfers; i++)
        list[first[s->transfers[i].chunk + 1]++] = i;
}

/* ---------------------------------------------------------------- trees */

static uint32_t find(uint32_t *tree, uint32_t rank) {
    while (tree[rank] != rank)
        rank = tree[rank] = tree[tree[rank]];
    return rank;
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
        if (t->reduce != f->adds || !ccl_i_is_plain(t))
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
        if (ccl_i_is_plain(t))
            p->forest.once[t->src] = p->forest.once[t->dst] = 0;
    }
}

/* The next channel of a GPU's connections with that group, for part `q` of a tree; in waves all of
   a GPU's trees come before their second parts, and what is taken of every second GPU has
   channels of its own. False: it has too many groups. */
static bool next_channel(pass_t *p, uint32_t root, uint32_t group, uint32_t q, uint16_t *out) {
    ends_t *e = &p->ends[2 * (size_t)root + p->forest.adds];
    const ccl_i_through_waves_t *waves = &p->way.waves;
    uint32_t at = 0, n = p->way.channels, each = 1, half = 0;
    while (at < e->n && e->group[at] != group)
        at++;
    if (at == MOST_GROUPS)
        return false;
    e->n += at == e->n;
    e->group[at] = group;
    uint32_t tree = e->used[at];
    uint32_t nth = waves->pieces > 0 ? tree + q * waves->pulls : tree * p->way.parts + q;
    e->used[at] += q + 1 == p->way.parts;
    if (waves->pieces > 0 && !p->forest.adds) {
        each = 2;
        half = p->reach.place[root] % 2;
    }
    *out = (uint16_t)((at * each + half) * n + nth % n);
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

/* ---------------------------------------------------------------- waves */

/* Pieces of a part in a wave, and of all waves before it. */
static uint32_t wave_size(const pass_t *p, uint32_t wave, uint32_t *before) {
    const ccl_i_through_waves_t *w = &p->way.waves;
    uint32_t last = p->nwaves - w->last, pairs = wave > w->first ? wave - w->first : 0;
    pairs = wave > last ? last - w->first : pairs;
    *before = wave + pairs;
    return w->pieces == 0 || wave < w->first || wave >= last ? 1 : 2;
}

/* A transfer's part `q` of its chunk, in all waves; `t.step` is that of the schedule. */
static void add_part(pass_t *p, ccl_transfer_t t, uint32_t q, uint32_t turn) {
    uint32_t chunk = t.chunk * p->cuts, step = t.step;
    for (uint32_t k = 0; k < p->nwaves; k++) {
        uint32_t before, n = wave_size(p, k, &before);
        t.step = (k * p->from->nsteps + step) * p->reach.most + turn;
        for (uint32_t e = 0; e < n; e++) {
            t.chunk = chunk + before * p->way.parts + q * n + e;
            ccl_schedule_builder_add(p->b, t);
        }
    }
}

static uint16_t *turn_at(const pass_t *p, uint32_t chunk, uint32_t q, uint32_t rank) {
    return &p->turns[((size_t)chunk * p->way.parts + q) * p->from->coll->nranks + rank];
}

/* Where each chunk is summed up: there a rank adds and does not send what it has added. */
static void find_homes(pass_t *p) {
    const ccl_schedule_t *s = p->from;
    for (uint32_t c = 0; c < s->coll->nchunks; c++) {
        for (uint32_t i = p->first[c]; i < p->first[c + 1]; i++) {
            const ccl_transfer_t *t = &s->transfers[p->list[i]];
            if (t->reduce && ccl_i_is_plain(t))
                p->forest.once[t->src] = 1;
        }
        for (uint32_t i = p->first[c]; i < p->first[c + 1]; i++) {
            const ccl_transfer_t *t = &s->transfers[p->list[i]];
            if (t->reduce && ccl_i_is_plain(t) && !p->forest.once[t->dst])
                p->home[c] = p->reach.part[t->dst];
        }
        memset(p->forest.once, 0, s->coll->nranks);
    }
}

/* In waves GPUs begin with what is summed up in the next server, and end with their own, so that
   not all send to one at first. */
static bool is_in_hand(const pass_t *p, uint32_t chunk, uint32_t root) {
    uint32_t n = p->nparts;
    return p->way.waves.pieces == 0 ||
           (p->home[chunk] + n - p->reach.part[root]) % n == p->ahead % n;
}

/* ---------------------------------------------------------------- a tree */

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
    if (n < 2 || root == CCL_NONE || !is_in_hand(p, all.chunk, root))
        return;
    uint32_t group = ccl_schedule_builder_group(p->b, f->group, n);
    all.src = f->adds ? group : root;
    all.dst = f->adds ? root : group;
    for (uint32_t q = 0; q < p->way.parts; q++) {
        ccl_transfer_t part = all;
        if (!next_channel(p, root, group, q, &part.channel))
            return;
        uint32_t turn = turn_of(p, root, part.channel);
        if (f->adds && p->way.waves.pieces > 0)
            *turn_at(p, all.chunk, q, root) = (uint16_t)turn;
        add_part(p, part, q, turn);
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
        for (uint32_t q = 0; q < p->way.parts; q++) {
            uint32_t far = t.reduce ? t.src : t.dst;
            bool in_waves = p->way.waves.pieces > 0 && !end;
            add_part(p, t, q, in_waves ? *turn_at(p, t.chunk, q, far) : 0);
        }
    }
}

static void replace_all(pass_t *p) {
    bool in_waves = p->way.waves.pieces > 0;
    ccl_i_through_by_chunk(p->from, p->first, p->list);
    if (in_waves)
        find_homes(p);
    for (p->ahead = 1; p->ahead <= (in_waves ? p->nparts : 1); p->ahead++) {
        for (uint32_t k = 0; k < p->from->coll->nchunks; k++) {
            replace_forest(p, k, true);
            replace_forest(p, k, false);
        }
    }
}

static ccl_status_t run_pass(const ccl_i_cluster_t *c, const ccl_schedule_t *from,
                             ccl_i_through_way_t way, bool rails, ccl_schedule_t **out,
                             ccl_error_t *err) {
    const ccl_i_through_waves_t *r = &way.waves;
    pass_t p = {.from = from,
                .way = way,
                .nparts = c->nservers,
                .nwaves = r->pieces > 0 ? (r->pieces + r->first + r->last) / 2 : 1,
                .cuts = way.parts * (r->pieces > 0 ? r->pieces : 1)};
    ccl_collective_t *coll = NULL;
    ccl_status_t status = pass_init(&p) ? CCL_OK : ccl_fail_nomem(err);
    *out = NULL;
    if (status == CCL_OK && find_reach(&p, c, rails)) {
        status = ccl_collective_split(from->coll, p.cuts, &coll, err);
        p.b = status == CCL_OK ? ccl_schedule_builder_create(from->name, coll) : NULL;
        if (status == CCL_OK && !p.b)
            status = ccl_fail_nomem(err);
        if (status == CCL_OK) {
            replace_all(&p);
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
        (*out)->piece_bytes = r->pieces > 0 ? 0 : from->piece_bytes;
        (*out)->joined = r->pieces > 0;
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
    if (status == CCL_OK && way->waves.pieces == 0 && cluster.nservers > 2 &&
        cluster.min_gpus == cluster.max_gpus)
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
