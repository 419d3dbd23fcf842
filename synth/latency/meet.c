/*
 * Few GPUs, each chunk in a way of its own. An AllReduce's contributions gather along a tree in a
 * core, GPUs that all reach each other; these exchange theirs, and the result goes back along
 * another tree. One GPU as core is reduce and broadcast, all GPUs are one shot, two are what a
 * chain wants. Cores and trees of all chunks are searched for together, by what the plan takes in
 * time: first for shares as they are, then for halves that begin with what the whole had, and on.
 */
#include "synth/latency/meet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    uint64_t work; /* of plans tried for each number of parts, in moves */
    double heat;   /* part of the time by which a try may be slower at first */
} POLICY = {4000, 0.03};

typedef struct search {
    const ccl_i_meet_net_t *net;
    ccl_i_meet_run_t *run;
    bool fixed;   /* cores are: chunks have a source, or one destination */
    double bytes; /* of a chunk */
    uint32_t nchunks;
    ccl_i_meeting_t now[CCL_I_MEET_CHUNKS], best[CCL_I_MEET_CHUNKS];
    ccl_rng_t rng;
} search_t;

/* ---------------------------------------------------------------- ways of one chunk */

static uint32_t any_of(search_t *s, uint32_t set) {
    for (uint32_t k = ccl_rng_below(&s->rng, (uint32_t)__builtin_popcount(set)); k > 0; k--)
        set &= set - 1;
    return (uint32_t)__builtin_ctz(set);
}

/* v and those whose way to the core, or from there, leads over it. */
static uint32_t behind(const search_t *s, const ccl_i_meeting_t *m, const uint8_t *parent,
                       uint32_t v) {
    uint32_t set = 1u << v;
    for (uint32_t before = 0; before != set;) {
        before = set;
        for (uint32_t w = 0; w < s->net->n; w++)
            if (!(m->core >> w & 1) && (set >> parent[w] & 1))
                set |= 1u << w;
    }
    return set;
}

static bool reach_each_other(const search_t *s, uint32_t set) {
    for (uint32_t v = 0; v < s->net->n; v++)
        if ((set >> v & 1) && (set & ~(1u << v) & ~(s->net->to[v] & s->net->from[v])))
            return false;
    return true;
}

/* Trees along the shortest ways; with `noise` hops seem up to twice as long, at random. */
static void along_shortest(search_t *s, ccl_i_meeting_t *m, bool out, double noise) {
    const ccl_i_meet_net_t *net = s->net;
    uint8_t *parent = out ? m->out : m->in;
    double far_s[CCL_I_MEET_GPUS];
    uint32_t left = (1u << net->n) - 1;
    for (uint32_t v = 0; v < net->n; v++)
        far_s[v] = m->core >> v & 1 ? 0 : INFINITY;
    while (left) {
        uint32_t v = (uint32_t)__builtin_ctz(left);
        for (uint32_t w = v + 1; w < net->n; w++)
            v = (left >> w & 1) && far_s[w] < far_s[v] ? w : v;
        left &= ~(1u << v);
        for (uint32_t w = 0; w < net->n; w++) {
            if (!(left >> w & 1) || !((out ? net->to[v] : net->from[v]) >> w & 1))
                continue;
            uint32_t h = out ? net->hop[v][w] : net->hop[w][v];
            double cost_s = ccl_i_meet_alone_s(&net->hops[h], s->bytes);
            cost_s *= noise > 0 ? 1 + noise * ccl_rng_unit(&s->rng) : 1;
            if (far_s[v] + cost_s < far_s[w]) {
                far_s[w] = far_s[v] + cost_s;
                parent[w] = (uint8_t)v;
            }
        }
    }
}

static void any_way(search_t *s, ccl_i_meeting_t *m) {
    double noise = ccl_rng_below(&s->rng, 2);
    uint32_t core = s->fixed ? m->core : 1u << ccl_rng_below(&s->rng, s->net->n);
    for (uint32_t k = ccl_rng_below(&s->rng, s->net->n); k > 0 && !s->fixed; k--) {
        uint32_t more = core | 1u << ccl_rng_below(&s->rng, s->net->n);
        core = reach_each_other(s, more) ? more : core;
    }
    m->core = (uint8_t)core;
    along_shortest(s, m, false, noise);
    along_shortest(s, m, true, noise);
}

/* Another parent for one GPU in one of the trees. */
static bool change_parent(search_t *s, ccl_i_meeting_t *m, bool out) {
    uint32_t others = ((1u << s->net->n) - 1) & ~m->core;
    uint8_t *parent = out ? m->out : m->in;
    if (!others)
        return false;
    uint32_t v = any_of(s, others);
    uint32_t set = (out ? s->net->from[v] : s->net->to[v]) & ~behind(s, m, parent, v);
    set &= ~(1u << parent[v]);
    if (set)
        parent[v] = (uint8_t)any_of(s, set);
    return set;
}

static bool join_core(search_t *s, ccl_i_meeting_t *m) {
    uint32_t others = ((1u << s->net->n) - 1) & ~m->core;
    uint32_t core = others ? m->core | 1u << any_of(s, others) : 0;
    if (!others || !reach_each_other(s, core))
        return false;
    m->core = (uint8_t)core;
    return true;
}

static bool leave_core(search_t *s, ccl_i_meeting_t *m) {
    if (!(m->core & (m->core - 1)))
        return false;
    uint32_t v = any_of(s, m->core), in, out;
    m->core &= (uint8_t) ~(1u << v);
    m->in[v] = m->out[v] = (uint8_t)v;
    in = s->net->to[v] & ~behind(s, m, m->in, v);
    out = s->net->from[v] & ~behind(s, m, m->out, v);
    if (!in || !out)
        return false;
    m->in[v] = (uint8_t)any_of(s, in);
    m->out[v] = (uint8_t)any_of(s, out);
    return true;
}

static bool change(search_t *s, ccl_i_meeting_t *m) {
    if (s->fixed) {
        if (ccl_rng_below(&s->rng, 8) > 0)
            return change_parent(s, m, s->net->outs);
        any_way(s, m);
        return true;
    }
    switch (ccl_rng_below(&s->rng, 6)) {
    case 0:
        return change_parent(s, m, false);
    case 1:
        return change_parent(s, m, true);
    case 2:
        return join_core(s, m);
    case 3:
        return leave_core(s, m);
    case 4:
        *m = s->now[ccl_rng_below(&s->rng, s->nchunks)];
        return s->nchunks > 1;
    default:
        any_way(s, m);
        return true;
    }
}

/* ---------------------------------------------------------------- all chunks */

/* Of plans that end at the same time the one whose chunks end earlier is better. */
static double rate(search_t *s) {
    double time_s = ccl_i_meet_time(s->run, s->now, s->nchunks, s->bytes);
    return time_s + 1e-3 * s->run->total_s / (s->net->n * s->nchunks);
}

/* Shortest ways to and from the cores there are. */
static double by_shortest(search_t *s) {
    for (uint32_t c = 0; c < s->nchunks; c++) {
        along_shortest(s, &s->now[c], false, 0);
        along_shortest(s, &s->now[c], true, 0);
    }
    return rate(s);
}

/* The best core, where it is not fixed, with shortest ways. */
static void begin(search_t *s) {
    double best_s = INFINITY;
    if (s->fixed) {
        by_shortest(s);
        return;
    }
    for (uint32_t core = 1; core < 1u << s->net->n; core++) {
        if (!reach_each_other(s, core))
            continue;
        s->now[0].core = (uint8_t)core;
        double time_s = by_shortest(s);
        if (time_s < best_s) {
            best_s = time_s;
            s->best[0] = s->now[0];
        }
    }
    s->now[0] = s->best[0];
}

static void anneal(search_t *s) {
    double now_s = rate(s), best_s = now_s;
    const uint64_t first = s->run->work;
    memcpy(s->best, s->now, sizeof s->now);
    while (s->run->work - first < POLICY.work) {
        double left = 1 - (double)(s->run->work - first) / (double)POLICY.work;
        ccl_i_meeting_t *m = &s->now[ccl_rng_below(&s->rng, s->nchunks)], before = *m;
        s->run->work++;
        if (!change(s, m)) {
            *m = before;
            continue;
        }
        double time_s = rate(s);
        if (time_s > now_s &&
            ccl_rng_unit(&s->rng) >= exp((now_s - time_s) / (POLICY.heat * best_s * left))) {
            *m = before;
            continue;
        }
        now_s = time_s;
        if (time_s < best_s) {
            best_s = time_s;
            memcpy(s->best, s->now, sizeof s->now);
        }
    }
    memcpy(s->now, s->best, sizeof s->now);
}

/* ---------------------------------------------------------------- the cluster */

/* Of several routes of a pair the first. */
static bool connect(ccl_i_meet_net_t *net, ccl_i_cluster_t *cluster, const char *proto) {
    const ccl_i_exchange_t *x = &net->x;
    uint32_t *users = calloc(x->nresources + (size_t)1, sizeof *users);
    net->n = x->nranks;
    for (uint32_t i = 0; i < x->nhops && users; i++) {
        const ccl_i_hop_t *h = &x->hops[i];
        const ccl_route_t *route = ccl_i_cluster_route(cluster, h->src, h->dst, h->channel);
        if (!route || net->to[h->src] >> h->dst & 1)
            continue;
        ccl_transport_t t =
            ccl_model_transport(x->topo, ccl_model_route_kind(x->topo, route), proto);
        net->hops[net->nhops] =
            (ccl_i_meet_hop_t){.src = (uint8_t)h->src,
                               .dst = (uint8_t)h->dst,
                               .channel = h->channel,
                               .overhead_s = t.overhead_s,
                               .latency_s = h->alpha_s - t.overhead_s,
                               .most_Bps = fmin(h->link_Bps / t.wire, h->tb_Bps),
                               .first_use = h->first_use,
                               .nuses = h->nuses};
        net->hop[h->src][h->dst] = (uint8_t)net->nhops++;
        net->to[h->src] |= (uint8_t)(1u << h->dst);
        net->from[h->dst] |= (uint8_t)(1u << h->src);
        for (uint32_t u = h->first_use; u < h->first_use + h->nuses; u++)
            users[x->uses[u].resource]++;
    }
    for (uint32_t i = 0; i < net->nhops && users; i++) {
        ccl_i_meet_hop_t *h = &net->hops[i];
        for (uint32_t u = h->first_use; u < h->first_use + h->nuses; u++)
            h->shared |= users[x->uses[u].resource] > 1;
    }
    bool ok = users && !cluster->nomem;
    free(users);
    return ok;
}

bool ccl_i_meet_serves(const ccl_i_cluster_t *cluster, const ccl_collective_t *want) {
    uint32_t n = cluster->nranks;
    if (n < 2 || n > CCL_I_MEET_GPUS)
        return false;
    switch (want->kind) {
    case CCL_ALLREDUCE:
    case CCL_BROADCAST:
    case CCL_REDUCE:
        return want->nchunks == 1;
    case CCL_ALLGATHER:
    case CCL_REDUCESCATTER:
        return want->nchunks == n;
    default:
        return false;
    }
}

void ccl_i_meet_plans_destroy(ccl_i_meet_plans_t *plans) {
    if (plans)
        ccl_i_exchange_fini(&plans->net.x);
    free(plans);
}

/* Twice as many parts of each share, which begin with what half as many had. */
static void cut(search_t *s, uint32_t parts) {
    for (uint32_t c = s->nchunks; c-- > 0;) {
        uint32_t to = c / parts * 2 * parts + c % parts;
        s->now[to] = s->now[to + parts] = s->now[c];
    }
    s->nchunks *= 2;
}

static void search(search_t *s, ccl_i_meet_plans_t *plans) {
    uint32_t most = s->fixed ? CCL_I_MEET_CHUNKS : CCL_I_MEET_CHUNKS / 4;
    s->bytes = plans->share_bytes;
    begin(s);
    for (uint32_t parts = 1; plans->nlevels < CCL_I_MEET_LEVELS; parts *= 2) {
        uint32_t k = plans->nlevels++;
        s->bytes = plans->share_bytes / parts;
        anneal(s);
        plans->levels[k].time_s = ccl_i_meet_time(s->run, s->best, s->nchunks, s->bytes);
        memcpy(plans->levels[k].meetings, s->best, sizeof s->best);
        if (2 * s->nchunks > most)
            return;
        cut(s, parts);
    }
}

ccl_status_t ccl_i_meet_plan(ccl_i_cluster_t *cluster, const ccl_collective_t *want,
                             double size_bytes, const char *proto, ccl_i_meet_plans_t **out,
                             ccl_error_t *err) {
    ccl_i_exchange_options_t options = {.proto = proto, .reduce = want->chunks[0].reduced};
    ccl_i_meet_plans_t *plans = calloc(1, sizeof *plans);
    search_t *s = calloc(1, sizeof *s);
    ccl_status_t status = plans && s ? CCL_OK : ccl_fail_nomem(err);
    if (status == CCL_OK)
        status = ccl_i_exchange_init(&plans->net.x, cluster->topo, cluster->routes, &options, err);
    if (status == CCL_OK) {
        plans->net.ins = want->chunks[0].reduced;
        plans->net.outs = !want->chunks[0].reduced || want->chunks[0].ndests > 1;
        plans->share_bytes = want->chunks[0].share * size_bytes;
        s->net = &plans->net;
        s->fixed = want->kind != CCL_ALLREDUCE;
        s->nchunks = want->nchunks;
        for (uint32_t c = 0; c < want->nchunks && s->fixed; c++) {
            const ccl_chunk_t *chunk = &want->chunks[c];
            s->now[c].core = (uint8_t)(1u << (chunk->reduced ? chunk->dests : chunk->sources)[0]);
        }
        ccl_rng_init(&s->rng, 1);
        if (connect(&plans->net, cluster, proto))
            s->run = ccl_i_meet_run_create(&plans->net);
        if (s->run)
            search(s, plans);
        else
            status = ccl_fail_nomem(err);
        ccl_i_meet_run_destroy(s->run);
    }
    free(s);
    if (status == CCL_OK)
        *out = plans;
    else
        ccl_i_meet_plans_destroy(plans);
    return status;
}
