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

/* ---------------------------------------------------------------- is it faster */

/** Over which connections of a GPU are spread at most, as NCCL does. */
#define MOST_CHANNELS 32
/** Pieces that are tried: halves of the schedule's, or of the first, but of no more than the last.
 */
#define MOST_PIECE_BYTES 1048576.0
#define LEAST_PIECE_BYTES 16384.0
/** As ccl_lower() takes. */
#define DEFAULT_SIZE_BYTES 268435456.0
/** Plain ways of lowering are at most this much faster than a block per connection in step order:
 * slower schedules than that are not lowered with care. */
#define CARE 3.0

typedef struct contest {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    double size_bytes;
} contest_t;

/* INFINITY: not below `beat_s`; NAN: it does not fit. */
static ccl_status_t time_plain(const contest_t *c, const ccl_schedule_t *schedule, ccl_way_t way,
                               const char *proto, double beat_s, double *out, ccl_error_t *err) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t why = CCL_ERROR_INIT;
    lower.proto = proto;
    lower.topo = c->topo;
    lower.routes = c->routes;
    lower.size_bytes = sim.size_bytes = c->size_bytes;
    lower.order = way.order;
    lower.allocation = way.allocation;
    lower.granularity = sim.granularity = way.granularity;
    sim.estimate = true;
    sim.give_up_s = beat_s;
    ccl_status_t status = ccl_lower(c->ctx, schedule, &lower, &program, &why);
    if (status == CCL_OK)
        status = ccl_sim_program(c->ctx, c->topo, c->routes, program, &sim, &result, &why);
    *out = status == CCL_OK && result->time_s < beat_s ? result->time_s : INFINITY;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    if (status == CCL_UNSUPPORTED || status == CCL_DEADLOCK) {
        *out = NAN;
        return CCL_OK;
    }
    if (status != CCL_OK && err)
        *err = why;
    return status;
}

/* The busiest link's time at its full rate: no run of the schedule takes less. */
static ccl_status_t least_time(const contest_t *c, const ccl_schedule_t *s, double *out,
                               ccl_error_t *err) {
    double *bytes = calloc(c->topo->nlinks + (size_t)1, sizeof *bytes);
    ccl_status_t status = bytes ? CCL_OK : ccl_fail_nomem(err);
    *out = 0;
    for (uint32_t i = 0; i < s->ntransfers && status == CCL_OK; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        const ccl_route_t *route;
        status = ccl_routes_get(c->routes, t->src, t->dst, t->channel, &route, err);
        for (uint32_t l = 0; status == CCL_OK && l < route->nlinks; l++) {
            uint32_t link = route->links[l];
            bytes[link] += s->coll->chunks[t->chunk].share * c->size_bytes;
            *out = fmax(*out, bytes[link] / c->topo->links[link].bandwidth_Bps);
        }
    }
    free(bytes);
    return status;
}

/* Whether the schedule as it is runs in less. */
static ccl_status_t plain_beats(const contest_t *c, const ccl_synth_ops_t *ops,
                                const ccl_schedule_t *schedule, double time_s, bool *out,
                                ccl_error_t *err) {
    const ccl_way_t simple = ccl_way_choose(NULL, (ccl_way_t){0}, 0);
    const ccl_way_t way = ccl_way_choose(ops->way, (ccl_way_t){0}, 0);
    double least_s, took_s;
    *out = false;
    CCL_TRY(least_time(c, schedule, &least_s, err));
    for (uint32_t k = 0; k < CCL_PROTOCOLS && least_s < time_s && !*out; k++) {
        const char *proto = ccl_protocol_name((ccl_protocol_t)k);
        if (k > 0 && !ccl_model_has_protocol(c->topo, proto))
            continue;
        CCL_TRY(time_plain(c, schedule, simple, proto, CARE * time_s, &took_s, err));
        *out = took_s <= time_s;
        if (*out || took_s == INFINITY || !ops->way) /* its own way may fit where blocks lack */
            continue;
        CCL_TRY(time_plain(c, schedule, way, proto, time_s, &took_s, err));
        *out = took_s <= time_s;
    }
    return CCL_OK;
}

/* Most pulls of one GPU, or multicasts. */
static ccl_status_t most_used(const ccl_schedule_t *s, uint32_t *out, ccl_error_t *err) {
    uint32_t *used = calloc(2 * (s->coll->nranks + (size_t)1), sizeof *used);
    *out = 1;
    for (uint32_t i = 0; used && i < s->ntransfers; i++) {
        const ccl_transfer_t *t = &s->transfers[i];
        bool pulls = ccl_peer_is_group(t->src);
        if (is_plain(t))
            continue;
        uint32_t n = ++used[2 * (pulls ? t->dst : t->src) + pulls];
        *out = n > *out ? n : *out;
    }
    ccl_status_t status = used ? CCL_OK : ccl_fail_nomem(err);
    free(used);
    return status;
}

/** A schedule through switches, and its time. */
typedef struct through {
    ccl_schedule_t *schedule; /* NULL: there is none */
    double time_s;            /* INFINITY: it does not fit, or is wrong */
} through_t;

static ccl_status_t make_through(const contest_t *c, const ccl_schedule_t *schedule,
                                 ccl_i_through_way_t way, through_t *out, ccl_error_t *err) {
    ccl_verdict_t *verdict = calloc(1, sizeof *verdict);
    ccl_status_t status = verdict ? CCL_OK : ccl_fail_nomem(err);
    *out = (through_t){NULL, INFINITY};
    if (status == CCL_OK)
        status = ccl_i_through_switches(c->topo, c->routes, schedule, &way, &out->schedule, err);
    if (status == CCL_OK && out->schedule)
        status = ccl_schedule_verify(c->ctx, out->schedule, verdict, err);
    if (status == CCL_OK && out->schedule && verdict->valid) {
        ccl_i_timing_t timing = {.size_bytes = c->size_bytes, .level = CCL_GRANULARITY_ALGORITHM};
        status = ccl_i_time_schedule(c->ctx, c->topo, c->routes, out->schedule, &timing, err);
        out->time_s = timing.time_s;
        ccl_origin_add(out->schedule->origin, "through switches, %u channel%s", way.channels,
                       way.channels == 1 ? "" : "s");
        if (way.piece_bytes > 0)
            ccl_origin_add(out->schedule->origin, "pieces of %.3g KB", way.piece_bytes / 1024);
    }
    free(verdict);
    return status;
}

/** If it is faster than the best so far it is the best then; with fewer channels, if not slower. */
static ccl_status_t try_through(const contest_t *c, const ccl_schedule_t *schedule,
                                ccl_i_through_way_t way, through_t *best, bool *better,
                                ccl_error_t *err) {
    through_t now;
    ccl_status_t status = make_through(c, schedule, way, &now, err);
    *better = status == CCL_OK && now.time_s < INFINITY &&
              (way.piece_bytes > 0 || way.in_turn ? now.time_s < best->time_s
                                                  : now.time_s <= best->time_s);
    if (*better) {
        ccl_schedule_destroy(best->schedule);
        *best = now;
    } else {
        ccl_schedule_destroy(now.schedule);
    }
    return status;
}

/* The fastest of those through switches: from many channels down, as long as that is no slower;
   then in smaller pieces. A pull hands on nothing before all of a piece has come, so it takes
   smaller ones than the trees that it replaces. */
static ccl_status_t best_through(const contest_t *c, const ccl_schedule_t *schedule,
                                 through_t *best, ccl_error_t *err) {
    ccl_schedule_t *one = NULL;
    ccl_i_through_way_t way = {0}, at = {.channels = 1, .parts = 1};
    uint32_t used = 0;
    bool better = true;
    *best = (through_t){NULL, INFINITY};
    ccl_status_t status = ccl_i_through_switches(c->topo, c->routes, schedule, &at, &one, err);
    if (status == CCL_OK && one)
        status = most_used(one, &used, err);
    ccl_schedule_destroy(one);
    for (uint32_t n = MOST_CHANNELS; n > 0 && used > 0 && status == CCL_OK; n /= 2) {
        at = (ccl_i_through_way_t){.channels = n, .parts = (n + used - 1) / used};
        status = try_through(c, schedule, at, best, &better, err);
        if (better)
            way = at;
        else if (best->schedule)
            break;
    }
    double piece = schedule->piece_bytes > 0 ? schedule->piece_bytes : MOST_PIECE_BYTES;
    if (best->schedule)
        piece = fmin(piece, c->size_bytes / best->schedule->coll->nchunks);
    at = way;
    for (better = best->schedule != NULL; better && status == CCL_OK;) {
        at.piece_bytes = piece /= 2;
        better = false;
        if (piece >= LEAST_PIECE_BYTES)
            status = try_through(c, schedule, at, best, &better, err);
        if (better)
            way = at;
    }
    way.in_turn = true;
    if (best->schedule && status == CCL_OK)
        status = try_through(c, schedule, way, best, &better, err);
    return status;
}

ccl_status_t ccl_i_through_if_faster(const ccl_ctx_t *ctx, const ccl_synth_ops_t *ops,
                                     const ccl_topology_t *topo, ccl_routes_t *routes,
                                     const ccl_synth_options_t *options, ccl_schedule_t **schedule,
                                     ccl_error_t *err) {
    through_t best;
    bool plain = true;
    ccl_ctx_t quiet = ctx ? *ctx : (ccl_ctx_t)CCL_CTX_INIT;
    quiet.progress = NULL;
    quiet.log = NULL;
    const contest_t c = {&quiet, topo, routes,
                         options->size_bytes > 0 ? options->size_bytes : DEFAULT_SIZE_BYTES};
    ccl_status_t status = best_through(&c, *schedule, &best, err);
    if (status == CCL_OK && best.schedule)
        status = plain_beats(&c, ops, *schedule, best.time_s, &plain, err);
    if (status == CCL_OK && best.schedule && !plain) {
        ccl_schedule_destroy(*schedule);
        *schedule = best.schedule;
        best.schedule = NULL;
    }
    ccl_schedule_destroy(best.schedule);
    return status;
}
