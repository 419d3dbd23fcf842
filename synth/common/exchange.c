/*
 * The exchange graph: routes of all pairs, then resources. Two links or groups are one resource
 * when the same hops use them as often: such sets are recognized by a 128-bit sum of the hops'
 * hashes.
 */
#include "synth/common/exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Set of users of a link (index below nlinks) or a group (from nlinks on). */
typedef struct users {
    uint64_t sum[2];
    double Bps;
    uint32_t index;
} users_t;

typedef struct maker {
    ccl_i_exchange_t *x;
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_exchange_options_t options;
    size_t hops_cap, uses_cap, nuses;
    uint32_t *group_first, *groups; /* of a link */
    users_t *users;                 /* [nlinks + ngroups] */
    uint32_t *resource;             /* [nlinks + ngroups] */
    ccl_transport_t *transports;    /* [nkinds] */
    double *reduce_Bps;             /* [nranks] */
} maker_t;

static bool maker_init(maker_t *m) {
    const ccl_topology_t *topo = m->topo;
    size_t nitems = (size_t)topo->nlinks + topo->ngroups;
    uint32_t members = 0;
    for (uint32_t g = 0; g < topo->ngroups; g++)
        members += topo->groups[g].nlinks;
    m->group_first = calloc(topo->nlinks + (size_t)2, sizeof *m->group_first);
    m->groups = calloc(members + (size_t)1, sizeof *m->groups);
    m->users = calloc(nitems + 1, sizeof *m->users);
    m->resource = calloc(nitems + 1, sizeof *m->resource);
    m->transports = calloc(topo->nkinds + (size_t)1, sizeof *m->transports);
    m->reduce_Bps = calloc(topo->nranks, sizeof *m->reduce_Bps);
    if (!m->group_first || !m->groups || !m->users || !m->resource || !m->transports ||
        !m->reduce_Bps)
        return false;
    /* Groups of every link: counted two places on, so that filling leaves the starts. */
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            m->group_first[topo->groups[g].links[i] + 2]++;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        m->group_first[l + 2] += m->group_first[l + 1];
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            m->groups[m->group_first[topo->groups[g].links[i] + 1]++] = g;
    }
    for (size_t i = 0; i < nitems; i++) {
        m->users[i].index = (uint32_t)i;
        m->users[i].Bps = i < topo->nlinks ? topo->links[i].bandwidth_Bps
                                           : topo->groups[i - topo->nlinks].bandwidth_Bps;
    }
    for (uint32_t k = 0; k < topo->nkinds; k++)
        m->transports[k] = ccl_model_transport(topo, topo->kinds[k], m->options.proto);
    for (uint32_t r = 0; r < topo->nranks; r++)
        m->reduce_Bps[r] = ccl_model_gpu(topo, r).reduce_rate_Bps;
    return true;
}

static void maker_fini(maker_t *m) {
    free(m->group_first);
    free(m->groups);
    free(m->users);
    free(m->resource);
    free(m->transports);
    free(m->reduce_Bps);
}

/* Uses hold items (links, groups) until resources are known. */
static bool add_use(maker_t *m, ccl_i_hop_t *hop, uint32_t item) {
    ccl_i_exchange_t *x = m->x;
    for (size_t i = hop->first_use; i < m->nuses; i++) {
        if (x->uses[i].resource == item) {
            x->uses[i].times++;
            return true;
        }
    }
    if (!ccl_grow(&x->uses, &m->uses_cap, m->nuses + 1, sizeof *x->uses))
        return false;
    x->uses[m->nuses++] = (ccl_i_use_t){item, 1};
    hop->nuses++;
    return true;
}

static const ccl_transport_t *transport_of(const maker_t *m, const ccl_route_t *route) {
    const char *kind = ccl_model_route_kind(m->topo, route);
    uint32_t k = 0;
    while (k < m->topo->nkinds && m->topo->kinds[k] != kind && strcmp(m->topo->kinds[k], kind) != 0)
        k++;
    return &m->transports[k < m->topo->nkinds ? k : route->first_kind];
}

static ccl_status_t add_hop(maker_t *m, uint32_t src, uint32_t dst, uint32_t channel,
                            const ccl_route_t *route, ccl_error_t *err) {
    ccl_i_exchange_t *x = m->x;
    const ccl_topology_t *topo = m->topo;
    const ccl_transport_t *t = transport_of(m, route);
    if (x->nhops >= CCL_NONE - 1 || m->nuses >= CCL_NONE - 2 * (size_t)topo->nlinks ||
        !ccl_grow(&x->hops, &m->hops_cap, x->nhops + (size_t)1, sizeof *x->hops))
        return ccl_fail_nomem(err);
    ccl_i_hop_t *hop = &x->hops[x->nhops];
    uint32_t adder = m->options.reversed ? src : dst;
    *hop = (ccl_i_hop_t){.src = src,
                         .dst = dst,
                         .channel = (uint16_t)channel,
                         .alpha_s = route->latency_s + t->latency_s + t->overhead_s,
                         .link_Bps = route->bottleneck_Bps,
                         .tb_Bps = t->tb_rate_Bps,
                         .first_use = (uint32_t)m->nuses};
    if (m->options.reduce)
        hop->tb_Bps = fmin(hop->tb_Bps, m->reduce_Bps[adder]);
    for (uint32_t i = 0; i < route->nlinks; i++) {
        uint32_t l = route->links[i];
        if (topo->links[l].bandwidth_Bps == route->bottleneck_Bps && hop->lanes == 0)
            hop->lanes = topo->links[l].lanes;
        if (!add_use(m, hop, l))
            return ccl_fail_nomem(err);
        for (uint32_t g = m->group_first[l]; g < m->group_first[l + 1]; g++) {
            if (!add_use(m, hop, topo->nlinks + m->groups[g]))
                return ccl_fail_nomem(err);
        }
    }
    for (uint32_t i = hop->first_use; i < m->nuses; i++) {
        users_t *u = &m->users[x->uses[i].resource];
        uint64_t mark = ((uint64_t)x->nhops << 8) + x->uses[i].times;
        u->sum[0] += ccl_mix64(mark);
        u->sum[1] += ccl_mix64(~mark);
    }
    x->nhops++;
    return CCL_OK;
}

/* The different routes of a pair, by lowest channel. */
static ccl_status_t add_pair(maker_t *m, uint32_t src, uint32_t dst, ccl_error_t *err) {
    uint32_t from = m->options.reversed ? dst : src, to = m->options.reversed ? src : dst;
    const ccl_route_t *seen[CCL_I_EXCHANGE_ROUTES];
    uint32_t nseen = 0;
    for (uint32_t channel = 0; channel < CCL_I_EXCHANGE_ROUTES; channel++) {
        const ccl_route_t *route;
        bool known = false;
        CCL_TRY(ccl_routes_get(m->routes, from, to, channel, &route, err));
        if (channel > 0 && route == seen[0]) /* channels repeat from here */
            break;
        for (uint32_t i = 0; i < nseen && !known; i++)
            known = seen[i]->nlinks == route->nlinks &&
                    memcmp(seen[i]->links, route->links, route->nlinks * sizeof *route->links) == 0;
        if (known)
            continue;
        seen[nseen++] = route;
        CCL_TRY(add_hop(m, src, dst, channel, route, err));
    }
    return CCL_OK;
}

/* Ranks that `from`'s links lead to without passing a third GPU. */
static void reach(const maker_t *m, uint32_t from, uint32_t *queue, uint32_t *stamp,
                  uint8_t *reached) {
    const ccl_topology_t *topo = m->topo;
    uint32_t head = 0, tail = 0, device = topo->rank_device[from];
    queue[tail++] = device;
    stamp[device] = from + 1;
    while (head < tail) {
        uint32_t d = queue[head++];
        if (d != device && topo->devices[d].kind == CCL_DEVICE_GPU)
            continue;
        for (uint32_t i = topo->out_first[d]; i < topo->out_first[d + 1]; i++) {
            uint32_t to = topo->links[topo->out_links[i]].to;
            if (stamp[to] == from + 1)
                continue;
            stamp[to] = from + 1;
            queue[tail++] = to;
            if (topo->devices[to].rank != CCL_NONE)
                reached[topo->devices[to].rank] = 1;
        }
    }
}

static ccl_status_t make_hops(maker_t *m, ccl_error_t *err) {
    ccl_i_exchange_t *x = m->x;
    uint32_t n = m->topo->nranks;
    uint32_t *queue = calloc(m->topo->ndevices, sizeof *queue);
    uint32_t *stamp = calloc(m->topo->ndevices, sizeof *stamp);
    uint8_t *reached = calloc((size_t)n * n, 1); /* [from][to] */
    ccl_status_t status = CCL_OK;
    if (!queue || !stamp || !reached) {
        status = ccl_fail_nomem(err);
        goto end;
    }
    for (uint32_t r = 0; r < n; r++)
        reach(m, r, queue, stamp, reached + (size_t)r * n);
    for (uint32_t src = 0; src < n; src++) {
        x->out_first[src] = x->nhops;
        for (uint32_t dst = 0; dst < n; dst++) {
            size_t pair = m->options.reversed ? (size_t)dst * n + src : (size_t)src * n + dst;
            if (dst != src && reached[pair])
                CCL_TRY_GOTO(add_pair(m, src, dst, err), status, end);
        }
    }
    x->out_first[n] = x->nhops;
end:
    free(queue);
    free(stamp);
    free(reached);
    return status;
}

static int by_users(const void *a, const void *b) {
    const users_t *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->sum[i] != y->sum[i])
            return x->sum[i] < y->sum[i] ? -1 : 1;
    if (x->Bps != y->Bps)
        return x->Bps < y->Bps ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int by_index(const void *a, const void *b) {
    uint32_t x = ((const users_t *)a)->index, y = ((const users_t *)b)->index;
    return (x > y) - (x < y);
}

static int by_resource(const void *a, const void *b) {
    uint32_t x = ((const ccl_i_use_t *)a)->resource, y = ((const ccl_i_use_t *)b)->resource;
    return (x > y) - (x < y);
}

/* One resource per set of users, numbered in the order of the topology. */
static ccl_status_t make_resources(maker_t *m, ccl_error_t *err) {
    ccl_i_exchange_t *x = m->x;
    uint32_t nlinks = m->topo->nlinks;
    size_t nitems = (size_t)nlinks + m->topo->ngroups, nkept = 0;
    uint32_t *stands_for = calloc(nitems + 1, sizeof *stands_for);
    if (!stands_for)
        return ccl_fail_nomem(err);
    qsort(m->users, nitems, sizeof *m->users, by_users);
    for (size_t i = 0; i < nitems; i++) {
        const users_t *u = &m->users[i];
        bool unused = u->sum[0] == 0 && u->sum[1] == 0;
        if (unused)
            continue;
        if (nkept == 0 || m->users[nkept - 1].sum[0] != u->sum[0] ||
            m->users[nkept - 1].sum[1] != u->sum[1])
            m->users[nkept++] = *u; /* the tightest comes first */
        stands_for[u->index] = m->users[nkept - 1].index;
    }
    qsort(m->users, nkept, sizeof *m->users, by_index);
    x->resources = ccl_arena_alloc(&x->arena, nkept ? nkept : 1, sizeof *x->resources);
    if (!x->resources) {
        free(stands_for);
        return ccl_fail_nomem(err);
    }
    for (size_t i = 0; i < nkept; i++) {
        uint32_t item = m->users[i].index;
        bool link = item < nlinks;
        m->resource[item] = (uint32_t)i;
        x->resources[i] = (ccl_i_resource_t){m->users[i].Bps, link ? item : CCL_NONE,
                                             link ? CCL_NONE : item - nlinks};
    }
    x->nresources = (uint32_t)nkept;
    /* Merged ones count once in a hop; lists become shorter and move up. */
    size_t kept = 0;
    for (uint32_t h = 0; h < x->nhops; h++) {
        ccl_i_hop_t *hop = &x->hops[h];
        size_t first = kept;
        for (uint32_t i = 0; i < hop->nuses; i++) {
            ccl_i_use_t use = x->uses[hop->first_use + i];
            if (stands_for[use.resource] == use.resource)
                x->uses[kept++] = (ccl_i_use_t){m->resource[use.resource], use.times};
        }
        hop->first_use = (uint32_t)first;
        hop->nuses = (uint32_t)(kept - first);
        qsort(x->uses + first, hop->nuses, sizeof *x->uses, by_resource);
    }
    free(stands_for);
    return CCL_OK;
}

static void list_arrivals(ccl_i_exchange_t *x) {
    for (uint32_t h = 0; h < x->nhops; h++)
        x->in_first[x->hops[h].dst + 1]++;
    for (uint32_t r = 0; r < x->nranks; r++)
        x->in_first[r + 1] += x->in_first[r];
    for (uint32_t h = x->nhops; h-- > 0;) /* backward: ends become starts */
        x->in_hops[--x->in_first[x->hops[h].dst + 1]] = h;
    memmove(x->in_first, x->in_first + 1, x->nranks * sizeof *x->in_first);
    x->in_first[x->nranks] = x->nhops;
}

ccl_status_t ccl_i_exchange_init(ccl_i_exchange_t *x, const ccl_topology_t *topo,
                                 ccl_routes_t *routes, const ccl_i_exchange_options_t *options,
                                 ccl_error_t *err) {
    maker_t m = {.x = x, .topo = topo, .routes = routes};
    memset(x, 0, sizeof *x);
    ccl_arena_init(&x->arena);
    if (options)
        m.options = *options;
    if (!m.options.proto)
        m.options.proto = "Simple";
    x->topo = topo;
    x->nranks = topo->nranks;
    x->out_first = ccl_arena_alloc(&x->arena, x->nranks + (size_t)1, sizeof *x->out_first);
    x->in_first = ccl_arena_alloc(&x->arena, x->nranks + (size_t)1, sizeof *x->in_first);
    ccl_status_t status = CCL_OK;
    if (!x->out_first || !x->in_first || !maker_init(&m))
        status = ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = make_hops(&m, err);
    if (status == CCL_OK)
        status = make_resources(&m, err);
    if (status == CCL_OK) {
        x->in_hops = ccl_arena_alloc(&x->arena, x->nhops + (size_t)1, sizeof *x->in_hops);
        if (!x->in_hops)
            status = ccl_fail_nomem(err);
        else
            list_arrivals(x);
    }
    maker_fini(&m);
    if (status != CCL_OK)
        ccl_i_exchange_fini(x);
    return status;
}

void ccl_i_exchange_fini(ccl_i_exchange_t *x) {
    free(x->hops);
    free(x->uses);
    x->hops = NULL;
    x->uses = NULL;
    ccl_arena_fini(&x->arena);
}
