/*
 * Rings for the channelled ring algorithm, one after the other, each over the links that are left
 * widest by those before it (bandwidth-ordered). With servers: between servers the pair of GPUs
 * (exit, entry) whose route has most left, different GPUs per channel, so that all NICs are used;
 * inside a server the widest path from entry to exit. Without servers: Hamiltonian cycles, the
 * other way round as well where links are duplex; where there is none, a closed walk with few
 * repeats.
 *
 * Rings that share no link are not always enough: the six links of a full mesh of four GPUs hold
 * one cycle both ways, and a third of them stays idle. Where links are left over like that, rings
 * are also packed: each takes the emptiest of the widest ways, so that several share every link
 * evenly. Kept when that is faster.
 */
#include "synth/common/cycle.h"
#include "synth/common/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Packing goes on until the rings take this share of what they could at most, or a number of trials
 * in a row found nothing better, or a number of steps of ccl_i_path_small() is done (0.05 s).
 * Between two servers with full meshes of six GPUs 8 futile trials in place of 40 would leave 3 %.
 */
#define PACK_ENOUGH 0.999
#define PACK_FUTILE_TRIALS 40
#define PACK_WORK 4e7

/** Which rings to look for. */
typedef struct how {
    uint32_t max_rings;
    bool reduces;
    bool packed;      /* so that they share links evenly */
    uint64_t variant; /* other choices among equals */
} how_t;

typedef struct maker {
    ccl_i_cluster_t *c;
    double *link_load;       /* [nlinks] flows of the rings so far */
    double *group_load;      /* [ngroups] */
    double *across_load;     /* [nlinks] of link_load, flows between servers */
    uint32_t *lg_first, *lg; /* groups of a link */
    uint8_t *nic_used;
    uint32_t nics;
    ccl_i_graph_t graph;
    uint32_t *nodes, *path, *best_path;
    uint32_t max_nodes;
    double most_Bps; /* width of the last ring found by search */
    bool alike;      /* the servers */
    how_t how;
    ccl_arena_t arena;
} maker_t;

static ccl_status_t maker_init(maker_t *m, ccl_i_cluster_t *c, const how_t *how, ccl_error_t *err) {
    const ccl_topology_t *topo = c->topo;
    memset(m, 0, sizeof *m);
    ccl_arena_init(&m->arena);
    m->c = c;
    m->how = *how;
    m->most_Bps = INFINITY;
    m->max_nodes = c->nservers > 1 ? c->max_gpus : c->nranks;
    size_t nodes = m->max_nodes;
    m->link_load = ccl_arena_alloc(&m->arena, topo->nlinks + (size_t)1, sizeof *m->link_load);
    m->group_load = ccl_arena_alloc(&m->arena, topo->ngroups + (size_t)1, sizeof *m->group_load);
    m->across_load = ccl_arena_alloc(&m->arena, topo->nlinks + (size_t)1, sizeof *m->across_load);
    m->lg_first = ccl_arena_alloc(&m->arena, topo->nlinks + (size_t)2, sizeof *m->lg_first);
    m->nic_used = ccl_arena_alloc(&m->arena, topo->ndevices, 1);
    m->graph.weight = ccl_arena_alloc(&m->arena, nodes * nodes, sizeof *m->graph.weight);
    m->nodes = ccl_arena_alloc(&m->arena, nodes, sizeof *m->nodes);
    m->path = ccl_arena_alloc(&m->arena, 2 * nodes, sizeof *m->path);
    m->best_path = ccl_arena_alloc(&m->arena, 2 * nodes, sizeof *m->best_path);
    if (!m->link_load || !m->group_load || !m->across_load || !m->lg_first || !m->nic_used ||
        !m->graph.weight || !m->nodes || !m->path || !m->best_path)
        return ccl_fail_nomem(err);
    uint32_t total = 0;
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++, total++)
            m->lg_first[topo->groups[g].links[i] + 2]++;
    }
    m->lg = ccl_arena_alloc(&m->arena, total + (size_t)1, sizeof *m->lg);
    if (!m->lg)
        return ccl_fail_nomem(err);
    for (uint32_t l = 0; l <= topo->nlinks; l++)
        m->lg_first[l + 1] += m->lg_first[l];
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        for (uint32_t i = 0; i < topo->groups[g].nlinks; i++)
            m->lg[m->lg_first[topo->groups[g].links[i] + 1]++] = g;
    }
    return CCL_OK;
}

static const ccl_route_t *route_of(const maker_t *m, uint32_t a, uint32_t b, uint32_t channel) {
    return ccl_i_cluster_route(m->c, a, b, channel);
}

/* Rate that a further flow would get, all flows alike; 0: no route. */
static double left_Bps(const maker_t *m, uint32_t a, uint32_t b, uint32_t channel) {
    const ccl_topology_t *topo = m->c->topo;
    const ccl_route_t *route = route_of(m, a, b, channel);
    double rate = INFINITY;
    if (!route)
        return 0;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        uint32_t l = route->links[i];
        rate = fmin(rate, topo->links[l].bandwidth_Bps / (m->link_load[l] + 1));
        for (uint32_t k = m->lg_first[l]; k < m->lg_first[l + 1]; k++)
            rate = fmin(rate, topo->groups[m->lg[k]].bandwidth_Bps / (m->group_load[m->lg[k]] + 1));
    }
    return rate;
}

static void load(maker_t *m, uint32_t a, uint32_t b, uint32_t channel, double by) {
    const ccl_topology_t *topo = m->c->topo;
    const ccl_route_t *route = route_of(m, a, b, channel);
    for (uint32_t i = 0; route && i < route->nlinks; i++) {
        uint32_t l = route->links[i];
        m->link_load[l] += by;
        for (uint32_t k = m->lg_first[l]; k < m->lg_first[l + 1]; k++)
            m->group_load[m->lg[k]] += by;
        for (int end = 0; end < 2 && by > 0; end++) {
            uint32_t d = end ? topo->links[l].to : topo->links[l].from;
            if (topo->devices[d].kind == CCL_DEVICE_NIC && !m->nic_used[d])
                m->nic_used[d] = 1, m->nics++;
        }
    }
}

/*
 * Rate of a ring's slowest hop under the loads of all rings. *usable_out: what to count on when
 * choosing the number of rings. Blocks that wait for each other never run at their full rate, and
 * where receivers must copy out, a ring's last receive is a pass more. Inside one server all blocks
 * do that pass at about the same time, so the links idle; more rings make it shorter.
 */
static double ring_rate(const maker_t *m, const uint32_t *walk, uint32_t len, uint32_t channel,
                        double *usable_out) {
    const ccl_topology_t *topo = m->c->topo;
    double rate = INFINITY, usable = INFINITY, n = m->c->nranks, copy_out_s = 0;
    double sends = m->how.reduces ? 2 * (n - 1) : n - 1;
    for (uint32_t i = 0; i < len; i++) {
        uint32_t b = walk[(i + 1) % len];
        const ccl_route_t *route = route_of(m, walk[i], b, channel);
        if (!route)
            continue;
        ccl_transport_t transport =
            ccl_model_transport(topo, ccl_model_route_kind(topo, route), "Simple");
        double pass = transport.tb_rate_Bps;
        if (m->how.reduces)
            pass = fmin(pass, ccl_model_gpu(topo, b).reduce_rate_Bps);
        rate = fmin(rate, pass);
        /* What a flow asks for decides how much contention costs (eta of docs/model.md). */
        double cap = transport.holds_tb ? fmin(pass, route->bottleneck_Bps) : route->bottleneck_Bps;
        if (!transport.direct) {
            copy_out_s = fmax(copy_out_s, 1 / ccl_model_receive_Bps(&transport));
            pass *= sends / (sends + 1);
        }
        usable = fmin(usable, 0.9 * pass);
        for (uint32_t k = 0; k < route->nlinks; k++) {
            uint32_t l = route->links[k];
            const ccl_link_t *link = &topo->links[l];
            double flows = fmax(m->link_load[l], 1);
            double eta = ccl_model_eta(link->contention, flows * cap / link->bandwidth_Bps);
            rate = fmin(rate, link->bandwidth_Bps * eta / flows);
            for (uint32_t g = m->lg_first[l]; g < m->lg_first[l + 1]; g++)
                rate = fmin(rate, topo->groups[m->lg[g]].bandwidth_Bps /
                                      fmax(m->group_load[m->lg[g]], 1));
        }
    }
    *usable_out = fmin(rate, usable);
    if (m->c->nservers == 1 && sends > 0)
        *usable_out = 1 / (1 / *usable_out + copy_out_s / sends);
    return rate;
}

/* What links and groups alone allow the rings together; of crossings, links alone. */
static double links_Bps(const maker_t *m, const double *load, uint32_t nrings) {
    const ccl_topology_t *topo = m->c->topo;
    double rate = INFINITY;
    for (uint32_t l = 0; l < topo->nlinks; l++)
        rate = fmin(rate, topo->links[l].bandwidth_Bps / load[l]);
    for (uint32_t g = 0; g < topo->ngroups && load == m->link_load; g++)
        rate = fmin(rate, topo->groups[g].bandwidth_Bps / m->group_load[g]);
    return rate * nrings;
}

/* ---------------------------------------------------------------- inside a server */

static void make_graph(maker_t *m, uint32_t server, uint32_t channel) {
    const ccl_i_cluster_t *c = m->c;
    uint32_t n = ccl_i_cluster_gpus(c, server);
    m->graph.m = n;
    for (uint32_t i = 0; i < n; i++)
        m->nodes[i] = c->ranks[c->first[server] + i];
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++)
            m->graph.weight[(size_t)i * n + j] = left_Bps(m, m->nodes[i], m->nodes[j], channel);
    }
}

/* In m->path: the first that the search finds, or where rings are packed the emptiest. */
static ccl_status_t find_path(maker_t *m, uint32_t start, uint32_t end, bool cycle, double most_Bps,
                              double *width_out, ccl_error_t *err) {
    ccl_i_path_want_t want = {start, end, cycle, m->how.variant, most_Bps};
    return (m->how.packed ? ccl_i_path_small : ccl_i_path_find)(&m->graph, &want, m->path,
                                                                width_out, err);
}

/* Entry, the others in order, exit: hops without a route will be relayed. */
static void plain_path(uint32_t n, uint32_t entry, uint32_t exit, uint32_t *path) {
    uint32_t at = 0;
    path[at++] = entry;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t v = (entry + i) % n;
        if (v != exit)
            path[at++] = v;
    }
    if (entry != exit)
        path[at] = exit;
}

static ccl_status_t server_path(maker_t *m, uint32_t server, uint32_t entry, uint32_t exit,
                                uint32_t channel, uint32_t *out, ccl_error_t *err) {
    const ccl_i_cluster_t *c = m->c;
    uint32_t n = ccl_i_cluster_gpus(c, server);
    double width;
    make_graph(m, server, channel);
    if (n > 1)
        CCL_TRY(find_path(m, c->local[entry], c->local[exit], false, INFINITY, &width, err));
    else
        width = 1, m->path[0] = 0;
    if (width == 0)
        plain_path(n, c->local[entry], c->local[exit], m->path);
    for (uint32_t i = 0; i < n; i++)
        out[i] = m->nodes[m->path[i]];
    return CCL_OK;
}

/* ---------------------------------------------------------------- between servers */

typedef struct crossing {
    uint32_t exit, entry;
    double left_Bps;
} crossing_t;

/* How wide the path inside from `entry` to `exit` could be. */
static ccl_status_t inner_width(maker_t *m, uint32_t server, uint32_t entry, uint32_t exit,
                                uint32_t channel, double *out, ccl_error_t *err) {
    const ccl_i_cluster_t *c = m->c;
    *out = INFINITY;
    if (ccl_i_cluster_gpus(c, server) < 2)
        return CCL_OK;
    make_graph(m, server, channel);
    ccl_i_path_want_t want = {c->local[entry], c->local[exit], false, 0, INFINITY};
    return ccl_i_path_find(&m->graph, &want, m->path, out, err);
}

/*
 * x[s]: the exit of server s and entry of the next server t with most left. Ties: the exit that
 * leaves the widest path inside s, then GPUs in turn by channel, entry and exit at the same place
 * (a rail).
 */
static ccl_status_t cross(maker_t *m, uint32_t s, uint32_t channel, crossing_t *x,
                          ccl_error_t *err) {
    const ccl_i_cluster_t *c = m->c;
    crossing_t *out = &x[s];
    uint32_t t = (s + 1) % c->nservers;
    uint32_t entry_s = s ? x[s - 1].entry : CCL_NONE, exit_t = t == 0 ? x[0].exit : CCL_NONE;
    uint32_t gs = ccl_i_cluster_gpus(c, s), gt = ccl_i_cluster_gpus(c, t);
    double best = -1, best_inner = -1;
    for (uint32_t i = 0; i < gs; i++) {
        uint32_t a = ccl_i_cluster_rank(c, s, channel + i);
        double inner = -1;
        if (a == entry_s && gs > 1)
            continue;
        for (uint32_t j = 0; j < gt; j++) {
            uint32_t b = ccl_i_cluster_rank(c, t, c->local[a] + j);
            if (b == exit_t && gt > 1)
                continue;
            double left = left_Bps(m, a, b, channel);
            if (left < best * (1 - 1e-9))
                continue;
            bool better = left > best * (1 + 1e-9);
            if (!better && a == out->exit)
                continue; /* the earlier place wins */
            if (gs <= 16 && gs > 2 && entry_s != CCL_NONE && inner < 0)
                CCL_TRY(inner_width(m, s, entry_s, a, channel, &inner, err));
            if (better || inner > best_inner * (1 + 1e-9)) {
                best = left;
                best_inner = inner;
                *out = (crossing_t){a, b, left};
            }
        }
    }
    return CCL_OK;
}

/* Servers whose GPUs have the same links to each other. */
static bool alike(const maker_t *m) {
    const ccl_i_cluster_t *c = m->c;
    uint32_t n = ccl_i_cluster_gpus(c, 0);
    for (uint32_t s = 1; s < c->nservers; s++) {
        if (ccl_i_cluster_gpus(c, s) != n)
            return false;
        for (uint32_t i = 0; i < n * n; i++) {
            if (i / n == i % n)
                continue;
            const ccl_route_t *a =
                route_of(m, c->ranks[c->first[0] + i / n], c->ranks[c->first[0] + i % n], 0);
            const ccl_route_t *b =
                route_of(m, c->ranks[c->first[s] + i / n], c->ranks[c->first[s] + i % n], 0);
            if (!a != !b || (a && (a->bottleneck_Bps != b->bottleneck_Bps ||
                                   a->latency_s != b->latency_s || a->nlinks != b->nlinks)))
                return false;
        }
    }
    return true;
}

/*
 * Every second server does the same when all are alike: how the ring begins and closes, which the
 * first and last servers could not know, leaves no trace. Blocks of equal servers then do equal
 * work, and the simulator needs to see only one of each kind. Kept when no crossing gets narrower.
 */
static void make_even(maker_t *m, uint32_t channel, crossing_t *x) {
    const ccl_i_cluster_t *c = m->c;
    uint32_t ns = c->nservers;
    if (!m->alike || ns % 2 || ns < 4 || c->local[x[ns - 2].entry] != c->local[x[ns - 4].entry])
        return;
    for (uint32_t s = 0; s < ns; s++)
        load(m, x[s].exit, x[s].entry, channel, -1);
    double before = INFINITY, after = INFINITY;
    for (uint32_t s = 0; s < ns; s++) {
        const crossing_t *like = &x[s % 2 ? ns - 3 : ns - 2];
        uint32_t exit = ccl_i_cluster_rank(c, s, c->local[like->exit]);
        uint32_t entry = ccl_i_cluster_rank(c, (s + 1) % ns, c->local[like->entry]);
        before = fmin(before, left_Bps(m, x[s].exit, x[s].entry, channel));
        after = fmin(after, left_Bps(m, exit, entry, channel));
    }
    crossing_t even = x[ns - 2], odd = x[ns - 3];
    for (uint32_t s = 0; s < ns; s++) {
        if (after >= before * (1 - 1e-9)) {
            const crossing_t *like = s % 2 ? &odd : &even;
            x[s].exit = ccl_i_cluster_rank(c, s, c->local[like->exit]);
            x[s].entry = ccl_i_cluster_rank(c, (s + 1) % ns, c->local[like->entry]);
        }
        load(m, x[s].exit, x[s].entry, channel, 1);
    }
}

static ccl_status_t ring_of_servers(maker_t *m, uint32_t channel, uint32_t *walk,
                                    ccl_error_t *err) {
    ccl_i_cluster_t *c = m->c;
    uint32_t ns = c->nservers;
    crossing_t *x = malloc(ns * sizeof *x);
    ccl_status_t status = CCL_OK;
    uint32_t at = 0;
    if (!x)
        return ccl_fail_nomem(err);
    for (uint32_t s = 0; s < ns && status == CCL_OK; s++) {
        x[s] = (crossing_t){CCL_NONE, CCL_NONE, 0};
        status = cross(m, s, channel, x, err);
        if (status == CCL_OK)
            load(m, x[s].exit, x[s].entry, channel, 1);
    }
    if (status == CCL_OK)
        make_even(m, channel, x);
    for (uint32_t s = 0; s < ns && status == CCL_OK; s++) {
        const ccl_route_t *route = route_of(m, x[s].exit, x[s].entry, channel);
        for (uint32_t i = 0; route && i < route->nlinks; i++)
            m->across_load[route->links[i]]++;
    }
    for (uint32_t s = 0; s < ns && status == CCL_OK; s++) {
        status = server_path(m, s, x[(s + ns - 1) % ns].entry, x[s].exit, channel, walk + at, err);
        uint32_t n = ccl_i_cluster_gpus(c, s);
        for (uint32_t i = 0; status == CCL_OK && i + 1 < n; i++)
            load(m, walk[at + i], walk[at + i + 1], channel, 1);
        at += n;
    }
    free(x);
    return status;
}

/* ---------------------------------------------------------------- without servers */

/* Any closed walk when nothing better is found; hops without a route are relayed. */
static uint32_t in_order(const ccl_i_cluster_t *c, uint32_t *walk) {
    for (uint32_t i = 0; i < c->nranks; i++)
        walk[i] = c->ranks[i];
    return c->nranks;
}

static ccl_status_t flat_ring(maker_t *m, uint32_t channel, const ccl_i_rings_t *rings,
                              uint32_t *walk, uint32_t *len_out, ccl_error_t *err) {
    ccl_i_cluster_t *c = m->c;
    uint32_t n = c->nranks, len = 0;
    double width = 0;
    if (n > 320 && c->full) { /* a large switched fabric: any order is as good */
        *len_out = in_order(c, walk);
        goto loads;
    }
    make_graph(m, 0, channel);
    CCL_TRY(find_path(m, 0, 0, true, m->most_Bps, &width, err));
    if (width > 0) {
        len = n;
        m->most_Bps = width; /* later rings find more load, so are no wider */
    }
    /* The ring before it, the other way round, when that is at least as wide. */
    if (channel > 0 && n > 2) {
        const uint32_t *before = rings->walk[channel - 1];
        uint32_t blen = rings->len[channel - 1];
        double back = INFINITY;
        for (uint32_t i = 0; i < blen; i++)
            back = fmin(back, left_Bps(m, before[(i + 1) % blen], before[i], channel));
        if (back > 0 && back > width * (1 - 1e-9) && (channel % 2 == 1 || back > width)) {
            for (uint32_t i = 0; i < blen; i++)
                walk[i] = before[blen - 1 - i];
            *len_out = blen;
            goto loads;
        }
    }
    if (len == 0) {
        double threshold = INFINITY; /* all links count */
        for (uint32_t i = 0; i < n * n; i++)
            threshold = m->graph.weight[i] > 0 ? fmin(threshold, m->graph.weight[i]) : threshold;
        uint32_t shortest = 0;
        for (uint64_t trial = 0; trial < 8; trial++) {
            CCL_TRY(ccl_i_walk_find(&m->graph, threshold, m->how.variant * 8 + trial + 1, m->path,
                                    &len, err));
            if (len && (shortest == 0 || len < shortest)) {
                shortest = len;
                memcpy(m->best_path, m->path, len * sizeof *m->path);
            }
        }
        len = shortest;
        memcpy(m->path, m->best_path, len * sizeof *m->path);
    }
    for (uint32_t i = 0; i < len; i++)
        walk[i] = m->nodes[m->path[i]];
    *len_out = len ? len : in_order(c, walk);
loads:
    for (uint32_t i = 0; i < *len_out; i++)
        load(m, walk[i], walk[(i + 1) % *len_out], channel, 1);
    return CCL_OK;
}

/* ---------------------------------------------------------------- all */

static ccl_status_t add_ring(maker_t *m, ccl_i_rings_t *out, ccl_error_t *err) {
    uint32_t i = out->nrings;
    out->walk[i] = ccl_arena_alloc(&out->arena, 2 * (size_t)m->c->nranks, sizeof **out->walk);
    if (!out->walk[i])
        return ccl_fail_nomem(err);
    if (m->c->nservers > 1) {
        out->len[i] = m->c->nranks;
        CCL_TRY(ring_of_servers(m, i, out->walk[i], err));
    } else if (m->c->nranks == 1) {
        out->len[i] = 1;
        out->walk[i][0] = m->c->ranks[0];
    } else
        CCL_TRY(flat_ring(m, i, out, out->walk[i], &out->len[i], err));
    out->nrings++;
    double slowest = INFINITY, usable = INFINITY;
    for (uint32_t k = 0; k < out->nrings; k++) {
        double mine;
        slowest = fmin(slowest, ring_rate(m, out->walk[k], out->len[k], k, &mine));
        usable = fmin(usable, mine);
    }
    out->predicted_Bps[i] = isfinite(slowest) ? slowest * out->nrings : 0;
    out->usable_Bps[i] = isfinite(usable) ? usable * out->nrings : 0;
    out->links_Bps[i] = links_Bps(m, m->link_load, out->nrings);
    out->across_Bps = fmax(out->across_Bps, links_Bps(m, m->across_load, out->nrings));
    out->nics[i] = m->nics;
    return m->c->nomem ? ccl_fail_nomem(err) : CCL_OK;
}

/* The last few percent of copying out are not worth any number of thread blocks. */
static void choose_best(ccl_i_rings_t *r) {
    double most = 0, enough = 0.995;
    uint32_t nics = 0;
    for (uint32_t i = 0; i < r->nrings; i++)
        most = fmax(most, r->usable_Bps[i]);
    if (r->nrings && most < 0.995 * r->predicted_Bps[r->nrings - 1])
        enough = 0.97;
    for (uint32_t i = 0; i < r->nrings; i++) {
        if (r->usable_Bps[i] >= enough * most && r->nics[i] > nics)
            nics = r->nics[i];
    }
    r->best = r->nrings;
    for (uint32_t i = r->nrings; i-- > 0;) {
        if (r->usable_Bps[i] >= enough * most && r->nics[i] >= nics)
            r->best = i + 1;
    }
}

static ccl_status_t make_all(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster, const how_t *how,
                             ccl_i_rings_t *out, ccl_error_t *err) {
    maker_t m;
    uint32_t max_rings = how->max_rings;
    memset(out, 0, sizeof *out);
    ccl_arena_init(&out->arena);
    ccl_status_t status = maker_init(&m, cluster, how, err);
    m.alike = status == CCL_OK && cluster->nservers > 1 && alike(&m);
    out->len = ccl_arena_alloc(&out->arena, max_rings, sizeof *out->len);
    out->walk = ccl_arena_alloc(&out->arena, max_rings, sizeof *out->walk);
    out->predicted_Bps = ccl_arena_alloc(&out->arena, max_rings, sizeof *out->predicted_Bps);
    out->usable_Bps = ccl_arena_alloc(&out->arena, max_rings, sizeof *out->usable_Bps);
    out->links_Bps = ccl_arena_alloc(&out->arena, max_rings, sizeof *out->links_Bps);
    out->nics = ccl_arena_alloc(&out->arena, max_rings, sizeof *out->nics);
    if (status == CCL_OK && (!out->len || !out->walk || !out->predicted_Bps || !out->usable_Bps ||
                             !out->links_Bps || !out->nics))
        status = ccl_fail_nomem(err);
    while (status == CCL_OK && out->nrings < max_rings) {
        status = ccl_ctx_poll(ctx, NULL);
        if (status == CCL_OK)
            status = add_ring(&m, out, err);
    }
    ccl_arena_fini(&m.arena);
    if (status != CCL_OK) {
        ccl_i_rings_fini(out);
        return status;
    }
    choose_best(out);
    return CCL_OK;
}

/* Other rings in place of what is there where they are faster; that they are is in *better_out. */
static ccl_status_t try_rings(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster, const how_t *how,
                              ccl_i_rings_t *rings, bool *better_out, ccl_error_t *err) {
    ccl_i_rings_t other;
    CCL_TRY(make_all(ctx, cluster, how, &other, err));
    *better_out = other.usable_Bps[other.best - 1] > rings->usable_Bps[rings->best - 1] * 1.0001;
    if (*better_out) {
        ccl_i_rings_fini(rings);
        *rings = other;
    } else
        ccl_i_rings_fini(&other);
    return CCL_OK;
}

/*
 * Rings that share links evenly, while the ones there leave something of what all GPUs have links
 * for and crossings between servers allow, and trials find better.
 */
static ccl_status_t pack_rings(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster, how_t how,
                               ccl_i_rings_t *rings, ccl_error_t *err) {
    uint32_t nodes = cluster->nservers > 1 ? cluster->max_gpus : cluster->nranks;
    if (nodes < 3 || nodes > CCL_I_SMALL_GRAPH)
        return CCL_OK;
    double paths = (double)how.max_rings * cluster->nservers;
    double trials = floor(PACK_WORK / (paths * nodes * nodes * (1u << nodes)));
    double gpus_Bps = cluster->nservers > 1 ? INFINITY : ccl_i_cluster_least_Bps(cluster);
    how.packed = true;
    for (uint32_t futile = 0; futile < PACK_FUTILE_TRIALS && how.variant < trials; how.variant++) {
        bool better = false;
        double most = fmin(gpus_Bps, rings->across_Bps);
        if (rings->links_Bps[rings->best - 1] > PACK_ENOUGH * most)
            break;
        CCL_TRY(try_rings(ctx, cluster, &how, rings, &better, err));
        futile = better ? 0 : futile + 1;
    }
    return CCL_OK;
}

ccl_status_t ccl_i_rings_init(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster, uint32_t max_rings,
                              bool reduces, ccl_i_rings_t *out, ccl_error_t *err) {
    how_t how = {.max_rings = max_rings, .reduces = reduces};
    CCL_TRY(make_all(ctx, cluster, &how, out, err));
    /* Sparse graphs: the first rings decide what is left for the others; other choices are tried.
     */
    uint32_t trials = cluster->nservers > 1 || cluster->full || max_rings < 2 ? 0
                      : cluster->nranks <= 16                                 ? 120
                      : cluster->nranks <= 64                                 ? 4
                                                                              : 0;
    ccl_status_t status = CCL_OK;
    while (status == CCL_OK && how.variant < trials) {
        bool better = false;
        how.variant++;
        status = try_rings(ctx, cluster, &how, out, &better, err);
    }
    how.variant = 0;
    if (status == CCL_OK)
        status = pack_rings(ctx, cluster, how, out, err);
    if (status != CCL_OK)
        ccl_i_rings_fini(out);
    return status;
}

void ccl_i_rings_fini(ccl_i_rings_t *rings) {
    ccl_arena_fini(&rings->arena);
}
