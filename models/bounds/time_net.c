/*
 * When what leaves a GPU can be where. Data use all links of a route at once and arrive after the
 * latencies of them all; so an arc that enters a GPU carries the whole delay of the shortest route
 * that ends with it, and all other arcs have none.
 */
#include "models/bounds/bounds.h"
#include "models/bounds/time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a way has passed so far; what is passed by neither counts as its first link's kind. */
enum { BY_SWITCH = 1, BY_NET = 2, BY_PCIE = 4, WAYS = 8 };

/* Does any transport cut primitives into slices? */
static bool slices(const ccl_i_time_net_t *net) {
    const ccl_topology_t *topo = net->c->topo;
    bool some = false;
    for (uint32_t k = 0; k < topo->nkinds + topo->ntransports; k++) {
        const char *kind =
            k < topo->nkinds ? topo->kinds[k] : topo->transports[k - topo->nkinds].kind;
        ccl_transport_t t = ccl_model_transport(topo, kind, net->proto);
        some |= t.slices > 1 || isfinite(t.slice_bytes);
    }
    return some;
}

static bool enters_gpu(const ccl_i_time_net_t *net, uint32_t arc) {
    uint32_t link = net->c->arcs[arc].link;
    return link != CCL_NONE &&
           net->c->topo->devices[net->c->topo->links[link].to].kind == CCL_DEVICE_GPU;
}
static bool leaves_gpu(const ccl_i_time_net_t *net, uint32_t arc) {
    uint32_t link = net->c->arcs[arc].link;
    return link != CCL_NONE &&
           net->c->topo->devices[net->c->topo->links[link].from].kind == CCL_DEVICE_GPU;
}

/* Least bytes on links per byte of data: x bytes are x / message_bytes messages or more. */
static double on_wire(const ccl_transport_t *t, double narrowest_Bps) {
    return t->wire + t->message_s * narrowest_Bps / t->message_bytes;
}

/* Entries of tables by arc and GPU: what more would cost more than it proves. */
enum { MOST_ENTRIES = 1 << 16 };

/* Tables of routes; left out where they would be large. A switch connection may take other ways. */
static bool tables(ccl_i_time_net_t *net) {
    size_t n = net->c->topo->nranks, narcs = net->c->narcs;
    if (net->able || n * narcs > MOST_ENTRIES)
        return true;
    net->pair_s = ccl_arena_alloc(&net->arena, n * n + 1, sizeof *net->pair_s);
    net->pair_overhead_s = ccl_arena_alloc(&net->arena, n * n + 1, sizeof *net->pair_overhead_s);
    net->to_s = ccl_arena_alloc(&net->arena, n * narcs + 1, sizeof *net->to_s);
    net->overheads_s = ccl_arena_alloc(&net->arena, n * narcs + 1, sizeof *net->overheads_s);
    if (!net->pair_s || !net->pair_overhead_s || !net->to_s || !net->overheads_s)
        return false;
    for (size_t i = 0; i < n * n; i++)
        net->pair_s[i] = net->pair_overhead_s[i] = INFINITY;
    for (size_t i = 0; i < n * narcs; i++)
        net->to_s[i] = net->overheads_s[i] = INFINITY;
    return true;
}

static void lower(double *value, double to) {
    *value = fmin(*value, to);
}

/* A route counts in the tables. */
static void by_route(ccl_i_time_net_t *net, uint32_t s, uint32_t d, const ccl_route_t *route,
                     const ccl_transport_t *t) {
    uint32_t n = net->c->topo->nranks, base = net->c->narcs - net->c->topo->nlinks;
    double delay = route->latency_s + t->latency_s;
    if (!net->pair_s)
        return;
    lower(&net->pair_s[s * n + d], delay);
    lower(&net->pair_overhead_s[s * n + d], t->overhead_s);
    for (uint32_t i = 0; i < route->nlinks; i++) {
        size_t arc = base + route->links[i];
        lower(&net->to_s[arc * n + d], delay);
        lower(&net->overheads_s[arc * n + s], t->overhead_s);
    }
}

/* Delays, overheads and bytes on the wire of the routes that there are. */
static ccl_status_t by_routes(ccl_i_time_net_t *net, ccl_routes_t *routes, ccl_error_t *err) {
    const ccl_topology_t *topo = net->c->topo;
    uint32_t base = net->c->narcs - topo->nlinks; /* arcs of links come last */
    const char *kind = NULL;
    ccl_transport_t t = {0};
    for (uint32_t s = 0; s < topo->nranks; s++) {
        for (uint32_t d = 0; d < topo->nranks; d++) {
            uint32_t period = s == d ? 0 : ccl_routes_period(routes, s, d);
            for (uint32_t channel = 0; channel < period; channel++) {
                const ccl_route_t *route = NULL;
                CCL_TRY(ccl_routes_get(routes, s, d, channel, &route, err));
                const char *own = ccl_model_route_kind(topo, route);
                if (!kind || strcmp(kind, own) != 0)
                    t = ccl_model_transport(topo, own, net->proto);
                kind = own;
                lower(&net->delay_s[base + route->links[route->nlinks - 1]],
                      route->latency_s + t.latency_s);
                lower(&net->overhead_s[base + route->links[0]], t.overhead_s);
                double wire = on_wire(&t, route->bottleneck_Bps);
                for (uint32_t i = 0; i < route->nlinks; i++)
                    lower(&net->wire[base + route->links[i]], wire);
                by_route(net, s, d, route, &t);
            }
        }
    }
    return CCL_OK;
}

static uint32_t passes(const char *kind) {
    return strcmp(kind, "net") == 0 ? BY_NET : strcmp(kind, "pcie") == 0 ? BY_PCIE : 0;
}

/*
 * Ways of switch connections: any path through devices that are no GPUs, a switch among them.
 * at[v * WAYS + w]: least latency from a GPU to v, or, backward, from v to a GPU.
 */
static void ways(const ccl_topology_t *topo, bool backward, double *at) {
    for (uint32_t i = 0; i < topo->ndevices * WAYS; i++)
        at[i] = i % WAYS == 0 && topo->devices[i / WAYS].kind == CCL_DEVICE_GPU ? 0 : INFINITY;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t l = 0; l < topo->nlinks; l++) {
            const ccl_link_t *link = &topo->links[l];
            uint32_t u = backward ? link->to : link->from, v = backward ? link->from : link->to;
            uint32_t by = passes(topo->kinds[link->kind]);
            if (topo->devices[v].kind == CCL_DEVICE_GPU)
                continue;
            by |= topo->devices[v].kind == CCL_DEVICE_SWITCH ? BY_SWITCH : 0;
            for (uint32_t w = 0; w < WAYS; w++) {
                double s = at[u * WAYS + w] + link->latency_s;
                if (s < at[v * WAYS + (w | by)]) {
                    at[v * WAYS + (w | by)] = s;
                    more = true;
                }
            }
        }
    }
}

/* The least constants of the transports of switch connections of such a way. */
static ccl_transport_t of_way(const ccl_i_time_net_t *net, uint32_t way, double narrowest_Bps) {
    const ccl_topology_t *topo = net->c->topo;
    const char *want = way & BY_NET ? "net" : way & BY_PCIE ? "pcie" : NULL;
    ccl_transport_t least = {.latency_s = INFINITY, .overhead_s = INFINITY, .wire = INFINITY};
    for (uint32_t k = 0; k < topo->nkinds + topo->ntransports; k++) {
        const char *kind =
            k < topo->nkinds ? topo->kinds[k] : topo->transports[k - topo->nkinds].kind;
        if (want && strncmp(kind, want, strlen(want)) != 0)
            continue;
        ccl_transport_t t = ccl_model_transport(topo, kind, net->proto);
        least.latency_s = fmin(least.latency_s, t.latency_s);
        least.overhead_s = fmin(least.overhead_s, t.overhead_s);
        least.wire = fmin(least.wire, on_wire(&t, narrowest_Bps));
    }
    return least;
}

static void by_ways(ccl_i_time_net_t *net, double *at) {
    const ccl_topology_t *topo = net->c->topo;
    uint32_t base = net->c->narcs - topo->nlinks;
    double narrowest_Bps = INFINITY;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        narrowest_Bps = fmin(narrowest_Bps, topo->links[l].bandwidth_Bps);
    ccl_transport_t of[WAYS], any = of_way(net, 0, narrowest_Bps);
    for (uint32_t w = 0; w < WAYS; w++)
        of[w] = of_way(net, w, narrowest_Bps);
    for (int backward = 0; backward < 2; backward++) {
        ways(topo, backward, at);
        for (uint32_t l = 0; l < topo->nlinks; l++) {
            const ccl_link_t *link = &topo->links[l];
            uint32_t arc = base + l, from = backward ? link->to : link->from;
            uint32_t by = passes(topo->kinds[link->kind]);
            /* What passes a net link is of a net transport; PCIe leads to both. */
            double wire = by == BY_NET ? of[BY_NET].wire
                          : by         ? fmin(of[BY_NET].wire, of[BY_PCIE].wire)
                                       : any.wire;
            net->wire[arc] = fmin(net->wire[arc], wire);
            for (uint32_t w = 0; w < WAYS; w++) {
                double s = at[from * WAYS + w] + link->latency_s;
                if (!(w & BY_SWITCH) || !isfinite(s))
                    continue;
                if (!backward && enters_gpu(net, arc))
                    net->delay_s[arc] = fmin(net->delay_s[arc], s + of[w | by].latency_s);
                if (backward && leaves_gpu(net, arc))
                    net->overhead_s[arc] = fmin(net->overhead_s[arc], of[w | by].overhead_s);
            }
        }
    }
}

static ccl_status_t incidence(ccl_i_time_net_t *net, ccl_error_t *err) {
    const ccl_capacity_t *c = net->c;
    for (int in = 0; in < 2; in++) {
        uint32_t *first = ccl_arena_alloc(&net->arena, c->nvertices + (size_t)2, sizeof *first);
        uint32_t *arcs = ccl_arena_alloc(&net->arena, c->narcs + (size_t)1, sizeof *arcs);
        if (!first || !arcs)
            return ccl_fail_nomem(err);
        for (uint32_t v = 0; v <= c->nvertices + 1; v++)
            first[v] = 0;
        for (uint32_t a = 0; a < c->narcs; a++)
            first[(in ? c->arcs[a].to : c->arcs[a].from) + 2]++;
        for (uint32_t v = 2; v <= c->nvertices + 1; v++)
            first[v] += first[v - 1];
        for (uint32_t a = 0; a < c->narcs; a++)
            arcs[first[(in ? c->arcs[a].to : c->arcs[a].from) + 1]++] = a;
        *(in ? &net->in_first : &net->out_first) = first;
        *(in ? &net->in_arcs : &net->out_arcs) = arcs;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_time_net_init(ccl_i_time_net_t *net, const ccl_capacity_t *c,
                                 ccl_routes_t *routes, const char *proto, ccl_error_t *err) {
    const ccl_topology_t *topo = c->topo;
    ccl_routes_t *own = NULL;
    ccl_status_t status = CCL_OK;
    *net = (ccl_i_time_net_t){.c = c, .proto = proto};
    ccl_arena_init(&net->arena);
    net->delay_s = ccl_arena_alloc(&net->arena, c->narcs + (size_t)1, sizeof *net->delay_s);
    net->overhead_s = ccl_arena_alloc(&net->arena, c->narcs + (size_t)1, sizeof *net->overhead_s);
    net->launch_s = ccl_arena_alloc(&net->arena, topo->nranks + (size_t)1, sizeof *net->launch_s);
    net->wire = ccl_arena_alloc(&net->arena, c->narcs + (size_t)1, sizeof *net->wire);
    double *at = ccl_arena_alloc(&net->arena, topo->ndevices * (size_t)WAYS + 1, sizeof *at);
    net->able = ccl_topology_able(topo);
    if (!net->delay_s || !net->overhead_s || !net->launch_s || !net->wire || !at || !tables(net)) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    net->sliced = slices(net);
    for (uint32_t r = 0; r < topo->nranks; r++)
        net->launch_s[r] = ccl_model_launch_s(topo, r, proto);
    for (uint32_t a = 0; a < c->narcs; a++) {
        net->delay_s[a] = enters_gpu(net, a) ? INFINITY : 0;
        net->overhead_s[a] = leaves_gpu(net, a) ? INFINITY : 0;
        net->wire[a] = c->arcs[a].link == CCL_NONE ? ccl_model_wire(topo, proto) : INFINITY;
    }
    net->last_s = net->sliced ? 0 : ccl_i_bound_receive_s(topo, proto);
    if (!routes)
        routes = own = ccl_routes_create(topo);
    if (!routes)
        CCL_TRY_GOTO(ccl_fail_nomem(err), status, end);
    CCL_TRY_GOTO(by_routes(net, routes, err), status, end);
    if (net->able)
        by_ways(net, at);
    status = incidence(net, err);
end:
    ccl_routes_destroy(own);
    if (status != CCL_OK)
        ccl_i_time_net_fini(net);
    return status;
}

void ccl_i_time_net_fini(ccl_i_time_net_t *net) {
    ccl_arena_fini(&net->arena);
    memset(net, 0, sizeof *net);
}

/* What an arc takes of a byte's time, forward (with the overhead that comes before a first slice)
 * or backward. */
static double passage(const ccl_i_time_net_t *net, bool backward, uint32_t arc) {
    return net->delay_s[arc] + (backward && net->sliced ? 0 : net->overhead_s[arc]);
}

static bool joins_at(const ccl_i_time_net_t *net, bool backward, uint32_t v) {
    const ccl_topology_t *topo = net->c->topo;
    if (v >= topo->ndevices)
        return false;
    const ccl_device_t *d = &topo->devices[v];
    return d->kind == CCL_DEVICE_GPU || (backward ? d->multicast : d->reduce);
}

/* A vertex's two earliest times, of different groups. */
typedef struct two {
    double s[2];
    uint32_t group[2];
} two_t;

/* Take a time; true: it is one of the two. */
static bool take(two_t *v, double s, uint32_t group) {
    if (!(s < v->s[0]) && !(s < v->s[1]))
        return false;
    if (group == v->group[0]) {
        if (!(s < v->s[0]))
            return false;
        v->s[0] = s;
    } else if (s < v->s[0]) {
        v->s[1] = v->s[0];
        v->group[1] = v->group[0];
        v->s[0] = s;
        v->group[0] = group;
    } else {
        v->s[1] = s;
        v->group[1] = group;
    }
    return true;
}

/* Least time from GPU s to GPU d by a route, as passage() counts it. */
static double leap(const ccl_i_time_net_t *net, bool backward, uint32_t s, uint32_t d) {
    size_t i = (size_t)s * net->c->topo->nranks + d;
    return net->pair_s[i] + (backward && net->sliced ? 0 : net->pair_overhead_s[i]);
}

/* Where routes are in tables a GPU is reached by them, not along arcs. */
static bool by_tables(const ccl_i_time_net_t *net, uint32_t v) {
    return net->pair_s && v < net->c->topo->ndevices &&
           net->c->topo->devices[v].kind == CCL_DEVICE_GPU;
}

/* From GPU to GPU until nothing changes. */
static void leaps(const ccl_i_time_net_t *net, bool backward, two_t *at) {
    const ccl_topology_t *topo = net->c->topo;
    for (bool more = net->pair_s != NULL; more;) {
        more = false;
        for (uint32_t s = 0; s < topo->nranks; s++) {
            const two_t *from = &at[topo->rank_device[s]];
            for (uint32_t d = 0; d < topo->nranks && from->s[0] < INFINITY; d++) {
                two_t *to = &at[topo->rank_device[d]];
                double by = backward ? leap(net, true, d, s) : leap(net, false, s, d);
                if (from->s[0] + by < to->s[1])
                    more |= take(to, from->s[0] + by, from->group[0]);
                if (from->s[1] + by < to->s[1])
                    more |= take(to, from->s[1] + by, from->group[1]);
            }
        }
    }
}

/* Two groups' data are together where both can be, and behind. */
static void reach_several(const ccl_i_time_net_t *net, bool backward, const two_t *at,
                          double *several) {
    const ccl_capacity_t *c = net->c;
    for (uint32_t v = 0; v < c->nvertices; v++)
        several[v] = joins_at(net, backward, v) ? at[v].s[1] : INFINITY;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t a = 0; a < c->narcs; a++) {
            uint32_t u = backward ? c->arcs[a].to : c->arcs[a].from;
            uint32_t v = backward ? c->arcs[a].from : c->arcs[a].to;
            double s = several[u] + passage(net, backward, a);
            if (s < several[v] && !by_tables(net, v)) {
                several[v] = s;
                more = true;
            }
        }
    }
}

/* On each arc: of the routes that take it, else of the vertex that it leaves or, backward, enters.
 * `gpus`: room for [nranks]. */
static void reach_arcs(const ccl_i_time_net_t *net, bool backward, double *first, double *gpus) {
    const ccl_topology_t *topo = net->c->topo;
    const double *of = backward ? net->to_s : net->overheads_s;
    for (uint32_t r = 0; r < topo->nranks; r++)
        gpus[r] = first[topo->rank_device[r]];
    for (size_t a = 0; a < net->c->narcs; a++) {
        const ccl_capacity_arc_t *arc = &net->c->arcs[a];
        double least = INFINITY;
        if (!of || arc->link == CCL_NONE)
            least =
                backward ? net->delay_s[a] + first[arc->to] : first[arc->from] + net->overhead_s[a];
        for (uint32_t r = 0; r < topo->nranks && of && arc->link != CCL_NONE; r++) {
            double s = gpus[r] + of[a * topo->nranks + r];
            least = s < least ? s : least;
        }
        first[net->c->nvertices + a] = least;
    }
}

/* Room of ccl_i_time_reach(). */
typedef struct rounds {
    two_t *at;              /* [nvertices] */
    uint32_t *queue, *next; /* [nvertices] */
    uint8_t *queued;        /* [nvertices] */
    double *gpus;           /* [nranks] */
} rounds_t;

static bool rounds_init(rounds_t *w, const ccl_i_time_net_t *net) {
    size_t nv = net->c->nvertices + (size_t)1;
    *w = (rounds_t){malloc(nv * sizeof *w->at), malloc(nv * sizeof *w->queue),
                    malloc(nv * sizeof *w->next), calloc(nv, 1),
                    malloc((net->c->topo->nranks + (size_t)1) * sizeof *w->gpus)};
    bool ok = w->at && w->queue && w->next && w->queued && w->gpus;
    for (uint32_t v = 0; v < net->c->nvertices && ok; v++)
        w->at[v] = (two_t){{INFINITY, INFINITY}, {CCL_NONE, CCL_NONE}};
    return ok;
}

static void rounds_fini(rounds_t *w) {
    free(w->at);
    free(w->queue);
    free(w->next);
    free(w->queued);
    free(w->gpus);
}

/* Along arcs from the GPUs that are reached: rounds of corrections, as in Bellman and Ford. */
static void along_arcs(const ccl_i_time_net_t *net, bool backward, rounds_t *w) {
    const ccl_capacity_t *c = net->c;
    const uint32_t *start = backward ? net->in_first : net->out_first;
    const uint32_t *arcs = backward ? net->in_arcs : net->out_arcs;
    size_t nqueue = 0, n;
    for (uint32_t v = 0; v < c->nvertices; v++)
        if (w->at[v].s[0] < INFINITY) {
            w->queue[nqueue++] = v;
            w->queued[v] = 1;
        }
    for (; nqueue > 0; nqueue = n) {
        n = 0;
        for (size_t i = 0; i < nqueue; i++) {
            const two_t *from = &w->at[w->queue[i]];
            w->queued[w->queue[i]] = 0;
            for (uint32_t j = start[w->queue[i]]; j < start[w->queue[i] + 1]; j++) {
                const ccl_capacity_arc_t *arc = &c->arcs[arcs[j]];
                uint32_t v = backward ? arc->from : arc->to;
                double s = passage(net, backward, arcs[j]);
                if (by_tables(net, v) || !isfinite(s))
                    continue;
                bool better = take(&w->at[v], from->s[0] + s, from->group[0]);
                better |=
                    from->s[1] < INFINITY && take(&w->at[v], from->s[1] + s, from->group[1]);
                if (better && !w->queued[v]) {
                    w->queued[v] = 1;
                    w->next[n++] = v;
                }
            }
        }
        memcpy(w->queue, w->next, n * sizeof *w->queue);
    }
}

ccl_status_t ccl_i_time_reach(const ccl_i_time_net_t *net, bool backward, const uint8_t *set,
                              const uint32_t *group_of, double *first, double *several,
                              ccl_error_t *err) {
    const ccl_topology_t *topo = net->c->topo;
    rounds_t w;
    if (!rounds_init(&w, net)) {
        rounds_fini(&w);
        return ccl_fail_nomem(err);
    }
    for (uint32_t r = 0; r < topo->nranks; r++)
        if (set[r])
            take(&w.at[topo->rank_device[r]], backward ? net->last_s : net->launch_s[r],
                 group_of ? group_of[r] : r);
    leaps(net, backward, w.at);
    along_arcs(net, backward, &w);
    for (uint32_t v = 0; v < net->c->nvertices; v++)
        first[v] = w.at[v].s[0];
    reach_arcs(net, backward, first, w.gpus);
    if (several) {
        reach_several(net, backward, w.at, several);
        reach_arcs(net, backward, several, w.gpus);
    }
    rounds_fini(&w);
    return CCL_OK;
}
