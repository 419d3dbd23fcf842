/*
 * A topology as the baselines see it: GPUs by server, which pairs have a route, GPU paths for the
 * pairs that have none.
 */
#include "synth/common/plan.h"

#include <math.h>
#include <string.h>

/* Servers in order of their lowest rank. */
static ccl_status_t group_by_server(ccl_i_cluster_t *c, ccl_error_t *err) {
    const ccl_topology_t *topo = c->topo;
    uint32_t n = c->nranks, ns = 0, with_server = 0;
    uint32_t *dense = ccl_arena_alloc(&c->arena, topo->nservers + (size_t)1, sizeof *dense);
    c->server = ccl_arena_alloc(&c->arena, n, sizeof *c->server);
    c->local = ccl_arena_alloc(&c->arena, n, sizeof *c->local);
    c->ranks = ccl_arena_alloc(&c->arena, n, sizeof *c->ranks);
    c->first = ccl_arena_alloc(&c->arena, n + (size_t)1, sizeof *c->first);
    if (!dense || !c->server || !c->local || !c->ranks || !c->first)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < topo->nservers; s++)
        dense[s] = CCL_NONE;
    for (uint32_t r = 0; r < n; r++)
        with_server += topo->devices[topo->rank_device[r]].server != CCL_NONE;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t s = topo->devices[topo->rank_device[r]].server;
        if (with_server == 0)
            c->server[r] = 0, ns = 1;
        else if (s == CCL_NONE)
            c->server[r] = ns++;
        else {
            if (dense[s] == CCL_NONE)
                dense[s] = ns++;
            c->server[r] = dense[s];
        }
    }
    c->nservers = ns;
    for (uint32_t r = 0; r < n; r++)
        c->local[r] = c->first[c->server[r] + 1]++;
    c->min_gpus = n;
    for (uint32_t s = 0; s < ns; s++) {
        uint32_t gpus = c->first[s + 1];
        c->min_gpus = gpus < c->min_gpus ? gpus : c->min_gpus;
        c->max_gpus = gpus > c->max_gpus ? gpus : c->max_gpus;
        c->first[s + 1] += c->first[s];
    }
    for (uint32_t r = 0; r < n; r++)
        c->ranks[c->first[c->server[r]] + c->local[r]] = r;
    return CCL_OK;
}

/* Breadth first over devices from every GPU, never on through another GPU. */
static ccl_status_t find_reach(ccl_i_cluster_t *c, ccl_error_t *err) {
    const ccl_topology_t *topo = c->topo;
    uint32_t n = c->nranks, pairs = 0;
    uint32_t *queue = ccl_arena_alloc(&c->arena, topo->ndevices, sizeof *queue);
    uint32_t *stamp = ccl_arena_alloc(&c->arena, topo->ndevices, sizeof *stamp);
    c->words = (n + 63) / 64;
    c->reach = ccl_arena_alloc(&c->arena, (size_t)n * c->words, sizeof *c->reach);
    c->hops = ccl_arena_alloc(&c->arena, n, sizeof *c->hops);
    if (!queue || !stamp || !c->reach || !c->hops)
        return ccl_fail_nomem(err);
    c->full = true;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t head = 0, tail = 0;
        uint64_t *row = c->reach + (size_t)r * c->words;
        queue[tail++] = topo->rank_device[r];
        stamp[queue[0]] = r + 1;
        pairs = 0;
        while (head < tail) {
            uint32_t d = queue[head++];
            if (topo->devices[d].rank != CCL_NONE && d != topo->rank_device[r])
                continue;
            for (uint32_t i = topo->out_first[d]; i < topo->out_first[d + 1]; i++) {
                uint32_t to = topo->links[topo->out_links[i]].to;
                if (stamp[to] == r + 1)
                    continue;
                stamp[to] = r + 1;
                queue[tail++] = to;
                uint32_t rank = topo->devices[to].rank;
                if (rank != CCL_NONE)
                    row[rank / 64] |= (uint64_t)1 << (rank % 64), pairs++;
            }
        }
        c->full &= pairs == n - 1;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_cluster_init(ccl_i_cluster_t *c, const ccl_topology_t *topo,
                                ccl_routes_t *routes, ccl_error_t *err) {
    memset(c, 0, sizeof *c);
    ccl_arena_init(&c->arena);
    c->topo = topo;
    c->routes = routes;
    c->nranks = topo->nranks;
    ccl_status_t status = group_by_server(c, err);
    if (status == CCL_OK)
        status = find_reach(c, err);
    if (status != CCL_OK)
        ccl_i_cluster_fini(c);
    return status;
}

void ccl_i_cluster_fini(ccl_i_cluster_t *c) {
    ccl_arena_fini(&c->arena);
}

const ccl_route_t *ccl_i_cluster_route(ccl_i_cluster_t *c, uint32_t src, uint32_t dst,
                                       uint32_t channel) {
    const ccl_route_t *route = NULL;
    if (src == dst || !ccl_i_cluster_reaches(c, src, dst))
        return NULL;
    ccl_status_t status = ccl_routes_get(c->routes, src, dst, channel, &route, NULL);
    c->nomem |= status == CCL_ERR_NOMEM;
    return status == CCL_OK ? route : NULL;
}

double ccl_i_cluster_width_Bps(ccl_i_cluster_t *c, uint32_t src, uint32_t dst, uint32_t channel) {
    const ccl_route_t *route = ccl_i_cluster_route(c, src, dst, channel);
    return route ? route->bottleneck_Bps : 0;
}

double ccl_i_cluster_least_Bps(ccl_i_cluster_t *c) {
    const ccl_topology_t *topo = c->topo;
    double least = INFINITY;
    for (uint32_t r = 0; r < c->nranks; r++) {
        uint32_t d = topo->rank_device[r];
        double sum = 0;
        for (uint32_t i = topo->out_first[d]; i < topo->out_first[d + 1]; i++) {
            uint32_t link = topo->out_links[i], to = 0;
            for (; to < c->nranks; to++) {
                const ccl_route_t *route = ccl_i_cluster_route(c, r, to, 0);
                if (route && route->links[0] == link)
                    break;
            }
            sum += to < c->nranks ? topo->links[link].bandwidth_Bps : 0;
        }
        least = fmin(least, sum);
    }
    return least;
}

/* GPU hops from src to every rank. */
static ccl_status_t find_hops(ccl_i_cluster_t *c, uint32_t src, ccl_error_t *err) {
    uint32_t n = c->nranks, head = 0, tail = 0;
    uint16_t *hops = ccl_arena_alloc(&c->arena, n, sizeof *hops);
    uint32_t *queue = ccl_arena_alloc(&c->arena, n, sizeof *queue);
    if (!hops || !queue)
        return ccl_fail_nomem(err);
    memset(hops, 0xff, n * sizeof *hops);
    hops[src] = 0;
    queue[tail++] = src;
    while (head < tail) {
        uint32_t a = queue[head++];
        const uint64_t *row = c->reach + (size_t)a * c->words;
        for (uint32_t w = 0; w < c->words; w++) {
            for (uint64_t bits = row[w]; bits; bits &= bits - 1) {
                uint32_t b = w * 64 + (uint32_t)__builtin_ctzll(bits);
                if (hops[b] == UINT16_MAX)
                    hops[b] = (uint16_t)(hops[a] + 1), queue[tail++] = b;
            }
        }
    }
    c->hops[src] = hops;
    return CCL_OK;
}

ccl_status_t ccl_i_cluster_path(ccl_i_cluster_t *c, uint32_t src, uint32_t dst, uint32_t *path,
                                uint32_t *hops_out, ccl_error_t *err) {
    if (src == dst || ccl_i_cluster_reaches(c, src, dst)) {
        path[0] = src;
        path[1] = dst;
        *hops_out = src != dst;
        return CCL_OK;
    }
    if (!c->hops[src])
        CCL_TRY(find_hops(c, src, err));
    const uint16_t *hops = c->hops[src];
    if (hops[dst] == UINT16_MAX)
        return ccl_fail(err, CCL_ERR_INPUT, "GPU %u cannot reach GPU %u, not even over other GPUs",
                        src, dst);
    *hops_out = hops[dst];
    path[hops[dst]] = dst;
    for (uint32_t h = hops[dst], at = dst; h > 1; h--) {
        double best_Bps = 0;
        uint32_t ties = 0, pick = 0, chosen = CCL_NONE;
        for (int pass = 0; pass < 2; pass++) {
            for (uint32_t r = 0, seen = 0; r < c->nranks; r++) {
                if (hops[r] != h - 1 || !ccl_i_cluster_reaches(c, r, at))
                    continue;
                double Bps = ccl_i_cluster_width_Bps(c, r, at, 0);
                if (h == 2) /* the first hop counts as well */
                    Bps = fmin(Bps, ccl_i_cluster_width_Bps(c, src, r, 0));
                if (pass == 0) {
                    if (Bps > best_Bps)
                        best_Bps = Bps, ties = 0;
                    ties += Bps == best_Bps;
                } else if (Bps == best_Bps && seen++ == pick)
                    chosen = r;
            }
            pick = ties ? (src + dst) % ties : 0;
        }
        path[h - 1] = at = chosen;
    }
    path[0] = src;
    return CCL_OK;
}

/* 0: no GPU says. */
static uint32_t fewest_sms(const ccl_i_cluster_t *c) {
    uint32_t sms = 0;
    for (uint32_t r = 0; r < c->nranks; r++) {
        uint32_t mine = ccl_model_gpu(c->topo, r).sms;
        sms = mine && (sms == 0 || mine < sms) ? mine : sms;
    }
    return sms;
}

uint32_t ccl_i_cluster_down_channels(const ccl_i_cluster_t *c, uint32_t channels, uint32_t blocks) {
    uint32_t sms = fewest_sms(c);
    if (2 * channels > CCL_I_MAX_AUTO_CHANNELS || (sms && 2 * channels * blocks > sms))
        return 0;
    return channels;
}

uint32_t ccl_i_cluster_channels(ccl_i_cluster_t *c, uint32_t peers, uint32_t blocks,
                                double transfers) {
    uint32_t channels = 1, sms = 0;
    peers = peers ? peers : 1;
    /* NICs: the routes of a GPU offer some; its server's GPUs spread over them. */
    for (uint32_t s = 0; c->nservers > 1 && s < c->nservers; s++) {
        uint32_t a = c->ranks[c->first[s]], b = c->ranks[c->first[(s + 1) % c->nservers]];
        uint32_t gpus = ccl_i_cluster_gpus(c, s);
        uint32_t width = ccl_routes_width(c->routes, a, b);
        uint32_t back = ccl_routes_width(c->routes, b, a);
        width = back > width ? back : width;
        uint32_t need = (width + gpus - 1) / gpus;
        channels = need > channels ? need : channels;
    }
    /* Links inside: one block per peer moves tb_rate. */
    const ccl_route_t *inside =
        ccl_i_cluster_gpus(c, 0) > 1 ? ccl_i_cluster_route(c, c->ranks[0], c->ranks[1], 0) : NULL;
    if (inside) {
        const char *kind = ccl_model_route_kind(c->topo, inside);
        double rate = ccl_model_transport(c->topo, kind, "Simple").tb_rate_Bps;
        double need = ceil(inside->bottleneck_Bps / rate / peers * (1 - 1e-9));
        if (need > channels)
            channels = need < CCL_I_MAX_AUTO_CHANNELS ? (uint32_t)need : CCL_I_MAX_AUTO_CHANNELS;
    }
    sms = fewest_sms(c);
    double most = CCL_I_MAX_AUTO_CHANNELS;
    if (sms && blocks)
        most = fmin(most, floor((double)sms / blocks));
    if (transfers > 0)
        most = fmin(most, floor(CCL_I_AUTO_TRANSFERS / transfers));
    return channels <= most ? channels : most < 1 ? 1 : (uint32_t)most;
}

double ccl_i_collective_transfers(const ccl_collective_t *want) {
    double n = want->nranks;
    switch (want->kind) {
    case CCL_ALLREDUCE:
        return 2 * n * n;
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
    case CCL_ALLTOALL:
        return n * n;
    case CCL_CUSTOM: {
        double sum = 0;
        for (uint32_t k = 0; k < want->nchunks; k++)
            sum +=
                want->chunks[k].ndests + (want->chunks[k].reduced ? want->chunks[k].nsources : 0);
        return sum;
    }
    default:
        return n;
    }
}

double ccl_i_busiest_seconds(const ccl_topology_t *topo, const double *load) {
    double most_s = 0;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        most_s = fmax(most_s, load[l] / topo->links[l].bandwidth_Bps);
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        double sum = 0;
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            sum += load[topo->groups[g].links[i]];
        most_s = fmax(most_s, sum / topo->groups[g].bandwidth_Bps);
    }
    return most_s;
}

/* Ranks of a domain from which its size matters to the simulator. */
enum { LARGE_DOMAIN = 32 };

bool ccl_i_cluster_large_domain(ccl_i_cluster_t *c) {
    const ccl_route_t *first = NULL;
    if (c->nservers != 1 || c->nranks < LARGE_DOMAIN || !c->full)
        return false;
    for (uint32_t src = 0; src < c->nranks; src++) {
        uint32_t port = CCL_NONE;
        for (uint32_t dst = 0; dst < c->nranks; dst++) {
            const ccl_route_t *r = src != dst ? ccl_i_cluster_route(c, src, dst, 0) : NULL;
            if (src == dst)
                continue;
            first = first ? first : r;
            if (!r || r->nlinks < 2 || r->nlinks != first->nlinks ||
                r->latency_s != first->latency_s || r->bottleneck_Bps != first->bottleneck_Bps ||
                (port != CCL_NONE && r->links[0] != port))
                return false;
            port = r->links[0];
        }
    }
    return true;
}
