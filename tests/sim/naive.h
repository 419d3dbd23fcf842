/*
 * A second simulator, for comparison: written from the text of docs/model.md alone, shares nothing
 * with the engine. No event queue: after every event all conditions are looked at again, and all
 * rates are filled progressively from scratch.
 */
#ifndef CCL_TESTS_SIM_NAIVE_H
#define CCL_TESTS_SIM_NAIVE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

/* Sanitized tests are built without optimisation; here they would spend their time. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O1")
#endif

/* ---------------------------------------------------------------- rates */

/** A route as resources: link l is resource l, group g is nlinks + g, the reductions of device d
 * are nlinks + ngroups + d; w: how often it is used. */
typedef struct naive_path {
    uint32_t nres, res[48];
    double w[48];
    double narrowest_Bps, latency_s;
    const ccl_route_t *route;
} naive_path_t;

static inline void naive_path_set(naive_path_t *p, const ccl_topology_t *topo,
                                  const ccl_route_t *route) {
    memset(p, 0, sizeof *p);
    p->route = route;
    p->narrowest_Bps = INFINITY;
    for (uint32_t i = 0; i < route->nlinks; i++) {
        const ccl_link_t *link = &topo->links[route->links[i]];
        p->narrowest_Bps = fmin(p->narrowest_Bps, link->bandwidth_Bps);
        p->latency_s += link->latency_s;
        p->res[p->nres] = route->links[i];
        p->w[p->nres++] = 1;
    }
    for (uint32_t g = 0; g < topo->ngroups; g++) {
        uint32_t times = 0;
        for (uint32_t j = 0; j < topo->groups[g].nlinks; j++)
            for (uint32_t i = 0; i < route->nlinks; i++)
                times += topo->groups[g].links[j] == route->links[i];
        if (times && p->nres < CCL_ARRAY_LEN(p->res)) {
            p->res[p->nres] = topo->nlinks + g;
            p->w[p->nres++] = times;
        }
    }
}

/** Of a tree's links those of the members' ways: in a multicast the single GPU's way comes first,
 * in a reduction last. */
static inline void naive_tree_parts(const ccl_topology_t *topo, const ccl_tree_t *tree,
                                    bool reduces, uint32_t *first, uint32_t *end) {
    const uint32_t *links = tree->route.links;
    *first = 0;
    *end = tree->route.nlinks;
    if (reduces)
        while (topo->links[links[--*end]].from != tree->root)
            ;
    else
        while (topo->links[links[(*first)++]].to != tree->root)
            ;
}

/** The reductions of every switch that several links of the members' ways enter. */
static inline void naive_path_reduces(naive_path_t *p, const ccl_topology_t *topo,
                                      const ccl_tree_t *tree) {
    uint32_t first, end;
    naive_tree_parts(topo, tree, true, &first, &end);
    for (uint32_t d = 0; d < topo->ndevices; d++) {
        uint32_t enter = 0;
        for (uint32_t i = first; i < end; i++)
            enter += topo->links[p->route->links[i]].to == d;
        if (enter > 1 && p->nres < CCL_ARRAY_LEN(p->res)) {
            p->res[p->nres] = topo->nlinks + topo->ngroups + d;
            p->w[p->nres++] = 1;
        }
    }
}

static inline uint32_t naive_resources(const ccl_topology_t *topo) {
    return topo->nlinks + topo->ngroups + topo->ndevices;
}

typedef struct naive_flow {
    const naive_path_t *path;
    double left_bytes, cap_Bps, rate_Bps; /* cap: R, at most the narrowest link */
    uint32_t user;
    uint32_t fixed; /* round of the filling in which it stopped; 0: not yet */
} naive_flow_t;

/** Progressive filling. room, weight: scratch of naive_resources(). */
static inline void naive_fill(const ccl_topology_t *topo, naive_flow_t *flows, uint32_t n,
                              bool use_links, double *room, double *weight) {
    uint32_t nres = naive_resources(topo), unfixed = n;
    memset(weight, 0, nres * sizeof *weight); /* first the sums of caps, for z */
    for (uint32_t f = 0; f < n; f++) {
        flows[f].fixed = 0;
        for (uint32_t i = 0; i < flows[f].path->nres; i++)
            weight[flows[f].path->res[i]] += flows[f].cap_Bps;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++) {
        const ccl_link_t *link = &topo->links[l];
        double z = weight[l] / link->bandwidth_Bps;
        double eta = z <= 1 ? 1 : 1 / (1 + link->contention * (z - 1));
        room[l] = use_links ? link->bandwidth_Bps * eta : INFINITY;
    }
    for (uint32_t g = 0; g < topo->ngroups; g++)
        room[topo->nlinks + g] = topo->groups[g].bandwidth_Bps;
    for (uint32_t d = 0; d < topo->ndevices; d++)
        room[topo->nlinks + topo->ngroups + d] =
            topo->devices[d].reduce ? topo->devices[d].reduce_rate_Bps : INFINITY;
    for (uint32_t round = 1; unfixed; round++) {
        double level = INFINITY;
        memset(weight, 0, nres * sizeof *weight);
        for (uint32_t f = 0; f < n; f++) {
            if (flows[f].fixed)
                continue;
            level = fmin(level, flows[f].cap_Bps);
            for (uint32_t i = 0; i < flows[f].path->nres; i++)
                weight[flows[f].path->res[i]] += flows[f].path->w[i];
        }
        for (uint32_t r = 0; r < nres; r++) {
            if (weight[r] > 0)
                level = fmin(level, room[r] / weight[r]);
        }
        for (uint32_t f = 0; f < n; f++) {
            naive_flow_t *flow = &flows[f];
            if (flow->fixed)
                continue;
            bool stop = flow->cap_Bps <= level * (1 + 1e-13);
            for (uint32_t i = 0; i < flow->path->nres && !stop; i++) {
                uint32_t r = flow->path->res[i];
                stop = room[r] <= weight[r] * level * (1 + 1e-13);
            }
            if (stop) {
                flow->rate_Bps = level;
                flow->fixed = round;
                unfixed--;
            }
        }
        for (uint32_t f = 0; f < n; f++) {
            for (uint32_t i = 0; flows[f].fixed == round && i < flows[f].path->nres; i++)
                room[flows[f].path->res[i]] -= level * flows[f].path->w[i];
        }
    }
}

/* ---------------------------------------------------------------- programs */

static inline double naive_ceil(double q) {
    return fmax(0, ceil(q * (1 - 1e-9)));
}

typedef enum naive_phase {
    NAIVE_LAUNCH, /* until its GPU's launch time */
    NAIVE_DEP,
    NAIVE_DATA,
    NAIVE_SLOT,
    NAIVE_OVERHEAD,
    NAIVE_BUSY, /* until `until_s` */
    NAIVE_FLOW, /* until its slice has drained */
    NAIVE_PULL, /* until the slice is in, and the one that it sends meanwhile has drained */
    NAIVE_DONE
} naive_phase_t;

typedef struct naive_slice {
    double bytes, cap_Bps;
    double drain_s;  /* INFINITY: not yet */
    double arrive_s; /* INFINITY: not drained yet */
    double credit_s; /* when the sender sees its slot free; INFINITY: not yet */
    bool held;       /* until T: it goes with a pull */
    uint64_t turn;   /* in the order in which slices were handed over */
} naive_slice_t;

typedef enum naive_kind {
    NAIVE_PLAIN,
    NAIVE_MULTICAST, /* the flows of one; peer: the group */
    NAIVE_PULLS,     /* the flows of pulls */
    NAIVE_TAKES,     /* FIFO of a member of a multicast */
    NAIVE_OFFERS     /* FIFO of a member that offers */
} naive_kind_t;

/** A connection; of a switch connection its flows, or the FIFO of one member. */
typedef struct naive_conn {
    naive_kind_t kind;
    uint32_t fifo[16], nfifos;         /* of its members, where the flows are */
    uint32_t src, dst, channel, stage; /* a group's index in place of its rank */
    naive_path_t path;
    ccl_transport_t transport;
    double delay_s;
    naive_slice_t *slices;
    uint32_t cap;
    uint32_t begun;  /* slices that took a slot */
    uint32_t handed; /* slices handed to the network */
    uint32_t drained, taken;
    bool flowing, wanting; /* the slice `drained` drains; waits for links (exclusive) */
    uint64_t turn;         /* exclusive: order of the request */
    uint32_t block;        /* that sends */
} naive_conn_t;

typedef struct naive_block {
    uint32_t rank, tb, stage, prev; /* prev: block of the previous stage or CCL_NONE */
    uint32_t *steps, nsteps;        /* indices into the program's steps */
    uint64_t pos;
    uint32_t slice, my_slice, my_pull;
    bool granted; /* exclusive: one of the two flows of a pull that sends */
    naive_phase_t phase;
    double until_s, since_s, done_s;
    double busy_s, wait_data_s, wait_peer_s, wait_slot_s;
} naive_block_t;

typedef struct naive_result {
    bool deadlock;
    double time_s;
    uint64_t flows, transfers, events;
    double *link_bytes;  /* [nlinks] */
    ccl_tb_use_t *tbs;   /* [ntbs] (sums over stages) */
    double *flow_done_s; /* flow lists */
} naive_result_t;

static inline void naive_result_fini(naive_result_t *r) {
    free(r->link_bytes);
    free(r->tbs);
    free(r->flow_done_s);
}

typedef struct naive_sim {
    const ccl_topology_t *topo;
    const ccl_program_t *program;
    double size_bytes;
    uint32_t batches;
    bool task, exclusive;
    naive_conn_t *conns;
    uint32_t nconns;
    naive_block_t *blocks;
    uint32_t nblocks;
    uint32_t *step_send, *step_recv; /* connections or CCL_NONE */
    uint32_t *step_block;            /* [nsteps] */
    double *step_done_s;             /* [nsteps][batches] */
    uint32_t *step_k;                /* [nsteps] */
    double *step_bytes;              /* [nsteps] */
    double now_s, eps_s;
    uint64_t turns, hands;
    naive_flow_t *flows; /* active, one per connection at most */
    uint32_t nflows;
    double *room, *weight;
    naive_result_t *out;
} naive_sim_t;

/** Own transport resolution: a kind's keys, then the protocol's over them. A tree's kind has a
 * transport of its own where one is named so. */
static inline ccl_transport_t naive_transport(const ccl_topology_t *topo, const ccl_route_t *route,
                                              bool tree, const char *proto) {
    const char *kind = NULL;
    char own[64];
    for (uint32_t i = 0; i < route->nlinks && !kind; i++)
        if (strcmp(topo->kinds[topo->links[route->links[i]].kind], "net") == 0)
            kind = "net";
    for (uint32_t i = 0; i < route->nlinks && !kind; i++)
        if (strcmp(topo->kinds[topo->links[route->links[i]].kind], "pcie") == 0)
            kind = "pcie";
    if (!kind)
        kind = topo->kinds[topo->links[route->links[0]].kind];
    bool holds = strcmp(kind, "net") != 0;
    snprintf(own, sizeof own, "%s-switch", kind);
    for (uint32_t i = 0; i < topo->ntransports && tree; i++)
        kind = strcmp(topo->transports[i].kind, own) == 0 ? own : kind;
    ccl_transport_t t = {0,     0, INFINITY, INFINITY, INFINITY, 1, 8,       true,
                         holds, 0, INFINITY, INFINITY, 1,        0, INFINITY};
    uint32_t given = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < topo->ntransports; i++) {
            const ccl_transport_spec_t *s = &topo->transports[i];
            if (strcmp(s->kind, kind) != 0 || (pass == 1) != (s->protocol != NULL) ||
                (s->protocol && strcmp(s->protocol, proto) != 0))
                continue;
            t.overhead_s = s->given & CCL_TRANSPORT_OVERHEAD ? s->value.overhead_s : t.overhead_s;
            t.latency_s = s->given & CCL_TRANSPORT_LATENCY ? s->value.latency_s : t.latency_s;
            t.tb_rate_Bps = s->given & CCL_TRANSPORT_TB_RATE ? s->value.tb_rate_Bps : t.tb_rate_Bps;
            t.slice_bytes = s->given & CCL_TRANSPORT_SLICE ? s->value.slice_bytes : t.slice_bytes;
            t.slices = s->given & CCL_TRANSPORT_SLICES ? s->value.slices : t.slices;
            t.slots = s->given & CCL_TRANSPORT_SLOTS ? s->value.slots : t.slots;
            t.direct = s->given & CCL_TRANSPORT_DIRECT ? s->value.direct : t.direct;
            t.holds_tb = s->given & CCL_TRANSPORT_HOLDS_TB ? s->value.holds_tb : t.holds_tb;
            t.mechanism = s->given & CCL_TRANSPORT_MECHANISM ? s->value.mechanism : t.mechanism;
            t.copy_in_Bps = s->given & CCL_TRANSPORT_COPY_IN ? s->value.copy_in_Bps : t.copy_in_Bps;
            t.copy_out_Bps =
                s->given & CCL_TRANSPORT_COPY_OUT ? s->value.copy_out_Bps : t.copy_out_Bps;
            t.wire = s->given & CCL_TRANSPORT_WIRE ? s->value.wire : t.wire;
            t.message_s = s->given & CCL_TRANSPORT_MESSAGE ? s->value.message_s : t.message_s;
            if (s->given & CCL_TRANSPORT_MESSAGE_SIZE)
                t.message_bytes = s->value.message_bytes;
            given |= s->given;
        }
    }
    if (t.mechanism != CCL_MECHANISM_DEVICE) { /* the block's passes are copies by engines */
        t.holds_tb = false;
        t.slice_bytes = given & CCL_TRANSPORT_SLICE ? t.slice_bytes : 4 << 20;
        t.slots = given & CCL_TRANSPORT_SLOTS ? t.slots : 16;
    }
    return t;
}

static inline ccl_gpu_model_t naive_gpu(const ccl_topology_t *topo, uint32_t rank) {
    uint32_t m = topo->devices[topo->rank_device[rank]].model;
    ccl_gpu_model_t none = {"", "", 0, INFINITY, INFINITY, 0, 0, 0, 0, {0}};
    return m == CCL_NONE ? none : topo->gpu_models[m];
}

static inline double naive_launch_s(const ccl_topology_t *topo, const ccl_program_t *program,
                                    uint32_t rank) {
    static const char *const names[] = {"Simple", "LL", "LL128"};
    ccl_gpu_model_t m = naive_gpu(topo, rank);
    for (uint32_t p = 0; p < 3; p++)
        if (m.launches >> p & 1 && strcmp(names[p], program->proto) == 0)
            return m.protocol_launch_s[p];
    return m.launch_s;
}

static inline uint32_t naive_find(naive_sim_t *s, naive_kind_t kind, uint32_t src, uint32_t dst,
                                  uint32_t channel, uint32_t stage) {
    for (uint32_t i = 0; i < s->nconns; i++) {
        naive_conn_t *c = &s->conns[i];
        if (c->kind == kind && c->src == src && c->dst == dst && c->channel == channel &&
            c->stage == stage)
            return i;
    }
    naive_conn_t *c = &s->conns[s->nconns];
    memset(c, 0, sizeof *c);
    c->kind = kind, c->src = src, c->dst = dst, c->channel = channel, c->stage = stage;
    c->block = CCL_NONE;
    return s->nconns++;
}

static inline uint32_t naive_conn(naive_sim_t *s, ccl_routes_t *routes, uint32_t src, uint32_t dst,
                                  uint32_t channel, uint32_t stage) {
    uint32_t i = naive_find(s, NAIVE_PLAIN, src, dst, channel, stage);
    naive_conn_t *c = &s->conns[i];
    const ccl_route_t *route;
    if (c->path.route)
        return i;
    if (ccl_routes_get(routes, src, dst, channel, &route, NULL) != CCL_OK)
        abort();
    naive_path_set(&c->path, s->topo, route);
    c->transport = naive_transport(s->topo, route, false, s->program->proto);
    c->delay_s = c->path.latency_s + c->transport.latency_s;
    return i;
}

/** Latency of a member's way: its own to or from the root, and the single GPU's. */
static inline double naive_way_s(const ccl_topology_t *topo, const ccl_tree_t *tree, bool reduces,
                                 uint32_t member) {
    uint32_t at = topo->rank_device[member], first, end;
    double sum_s = 0;
    naive_tree_parts(topo, tree, reduces, &first, &end);
    for (uint32_t i = 0; i < tree->route.nlinks; i++)
        if (i < first || i >= end)
            sum_s += topo->links[tree->route.links[i]].latency_s;
    while (at != tree->root) { /* one link leaves every device, or enters it */
        uint32_t i = first;
        while (i < end && (reduces ? topo->links[tree->route.links[i]].from
                                   : topo->links[tree->route.links[i]].to) != at)
            i++;
        if (i == end)
            abort();
        const ccl_link_t *link = &topo->links[tree->route.links[i]];
        sum_s += link->latency_s;
        at = reduces ? link->to : link->from;
    }
    return sum_s;
}

/** The flows of a switch connection and the FIFOs of all its members. */
static inline uint32_t naive_switch(naive_sim_t *s, ccl_routes_t *routes, bool reduces,
                                    uint32_t single, uint32_t peer, uint32_t channel,
                                    uint32_t stage) {
    const ccl_peer_group_t *group = ccl_program_group(s->program, peer);
    uint32_t index = peer & ~CCL_PEER_GROUP;
    uint32_t flows = reduces ? naive_find(s, NAIVE_PULLS, index, single, channel, stage)
                             : naive_find(s, NAIVE_MULTICAST, single, index, channel, stage);
    const ccl_tree_t *tree;
    if (s->conns[flows].path.route)
        return flows;
    if (ccl_routes_tree(routes, reduces, single, group->ranks, group->n, channel, &tree, NULL) !=
        CCL_OK)
        abort();
    naive_conn_t *c = &s->conns[flows];
    naive_path_set(&c->path, s->topo, &tree->route);
    if (reduces)
        naive_path_reduces(&c->path, s->topo, tree);
    c->transport = naive_transport(s->topo, &tree->route, true, s->program->proto);
    for (uint32_t i = 0; i < group->n; i++) {
        uint32_t src = reduces ? group->ranks[i] : single, dst = reduces ? single : group->ranks[i];
        uint32_t f = naive_find(s, reduces ? NAIVE_OFFERS : NAIVE_TAKES, src, dst, channel, stage);
        naive_conn_t *fifo = &s->conns[f];
        fifo->transport = s->conns[flows].transport;
        fifo->delay_s =
            naive_way_s(s->topo, tree, reduces, group->ranks[i]) + fifo->transport.latency_s;
        c->delay_s = fmax(c->delay_s, fifo->delay_s);
        c->fifo[c->nfifos++] = f;
    }
    return flows;
}

static inline naive_slice_t *naive_new_slice(naive_conn_t *c) {
    if (c->handed == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 16;
        c->slices = realloc(c->slices, c->cap * sizeof *c->slices);
    }
    naive_slice_t *slice = &c->slices[c->handed++];
    *slice = (naive_slice_t){0, 0, INFINITY, INFINITY, INFINITY, false, 0};
    return slice;
}

/** A slice comes to a member, or is offered by one: nothing flows in its FIFO. */
static inline void naive_put(naive_sim_t *s, uint32_t fifo) {
    naive_conn_t *c = &s->conns[fifo];
    naive_new_slice(c)->arrive_s = s->now_s + c->delay_s;
    c->drained++;
}

/** One of k slices of a primitive. */
static inline void naive_hand(naive_sim_t *s, naive_conn_t *c, double bytes, uint32_t k,
                              double cap_Bps) {
    naive_slice_t *slice = naive_new_slice(c);
    slice->turn = ++s->hands;
    slice->bytes = bytes * c->transport.wire;
    double messages = fmax(1, naive_ceil(k * bytes / c->transport.message_bytes));
    if (bytes > 0)
        slice->bytes += messages * c->transport.message_s * c->path.narrowest_Bps / k;
    slice->cap_Bps = fmin(cap_Bps * c->transport.wire, c->path.narrowest_Bps);
}

static inline void naive_where(const naive_sim_t *s, const naive_block_t *b, uint32_t *step,
                               uint32_t *batch) {
    *step = b->steps[s->task ? b->pos / s->batches : b->pos % b->nsteps];
    *batch = (uint32_t)(s->task ? b->pos % s->batches : b->pos / b->nsteps);
}

static inline double naive_arrival_s(const naive_conn_t *c) {
    return c->taken < c->drained ? c->slices[c->taken].arrive_s : INFINITY;
}

/** When a FIFO has room for its slice number `k`. */
static inline double naive_slot_s(const naive_conn_t *c, uint32_t k) {
    if (k < c->transport.slots)
        return -INFINITY;
    return k - c->transport.slots < c->handed ? c->slices[k - c->transport.slots].credit_s
                                              : INFINITY;
}

/** A pull whose block is held by what it sends, too: both flows at once. */
static inline bool naive_both(const naive_sim_t *s, uint32_t step) {
    uint32_t out = s->step_send[step];
    return out != CCL_NONE && s->conns[out].kind != NAIVE_OFFERS &&
           s->conns[out].transport.holds_tb;
}

/** When the waiting of this phase ends, as far as known; INFINITY: not known yet. */
static inline double naive_wake_s(const naive_sim_t *s, const naive_block_t *b) {
    if (b->phase == NAIVE_LAUNCH || b->phase == NAIVE_OVERHEAD || b->phase == NAIVE_BUSY)
        return b->until_s;
    if (b->phase == NAIVE_DONE)
        return INFINITY;
    uint32_t step, batch;
    naive_where(s, b, &step, &batch);
    const ccl_step_t *st = &s->program->steps[step];
    if (b->phase == NAIVE_DEP) {
        double at = -INFINITY, flag_s = naive_gpu(s->topo, b->rank).flag_s;
        if (b->prev != CCL_NONE && step == b->steps[0]) {
            const naive_block_t *p = &s->blocks[b->prev];
            at = s->step_done_s[(size_t)p->steps[p->nsteps - 1] * s->batches + batch] + flag_s;
        }
        if (st->dep_tb != CCL_NONE) {
            const ccl_tb_t *on = &s->program->tbs[s->program->rank_first_tb[b->rank] + st->dep_tb];
            uint32_t dep = on->first_step + st->dep_step;
            bool own = s->step_block[dep] == s->step_block[step];
            at = fmax(at, s->step_done_s[(size_t)dep * s->batches + batch] + (own ? 0 : flag_s));
        }
        return at;
    }
    if (b->phase == NAIVE_DATA) {
        if (!ccl_primitive_receives(st->type))
            return -INFINITY;
        const naive_conn_t *c = &s->conns[s->step_recv[step]];
        if (c->kind != NAIVE_PULLS)
            return naive_arrival_s(c);
        double last_s = -INFINITY;
        for (uint32_t i = 0; i < c->nfifos; i++)
            last_s = fmax(last_s, naive_arrival_s(&s->conns[c->fifo[i]]));
        return last_s;
    }
    const naive_conn_t *c = s->step_send[step] == CCL_NONE ? NULL : &s->conns[s->step_send[step]];
    if (b->phase == NAIVE_SLOT) {
        if (!ccl_primitive_sends(st->type))
            return -INFINITY;
        if (c->kind != NAIVE_MULTICAST)
            return naive_slot_s(c, c->begun);
        double last_s = -INFINITY;
        for (uint32_t i = 0; i < c->nfifos; i++)
            last_s = fmax(last_s, naive_slot_s(&s->conns[c->fifo[i]], c->begun));
        return last_s;
    }
    if (b->phase == NAIVE_PULL) {
        double in_s = s->conns[s->step_recv[step]].slices[b->my_pull].arrive_s;
        return naive_both(s, step) ? fmax(in_s, c->slices[b->my_slice].drain_s) : in_s;
    }
    return b->my_slice < c->drained ? -INFINITY : INFINITY; /* NAIVE_FLOW */
}

static inline void naive_enter(naive_sim_t *s, naive_block_t *b, naive_phase_t phase) {
    double spent = s->now_s - b->since_s;
    if (b->phase == NAIVE_DEP)
        b->wait_peer_s += spent;
    else if (b->phase == NAIVE_DATA)
        b->wait_data_s += spent;
    else if (b->phase == NAIVE_SLOT)
        b->wait_slot_s += spent;
    else if (b->phase != NAIVE_LAUNCH)
        b->busy_s += spent;
    b->since_s = s->now_s;
    b->phase = phase;
}

static inline void naive_next_step(naive_sim_t *s, naive_block_t *b) {
    bool end = b->pos == (uint64_t)b->nsteps * s->batches;
    naive_enter(s, b, end ? NAIVE_DONE : NAIVE_DEP);
    if (end)
        b->done_s = s->now_s;
}

/** A slice is on its way from now on. */
static inline void naive_arrives(naive_sim_t *s, naive_conn_t *c, naive_slice_t *slice) {
    slice->arrive_s = s->now_s + c->delay_s;
    for (uint32_t i = 0; i < c->nfifos && c->kind == NAIVE_MULTICAST; i++)
        naive_put(s, c->fifo[i]);
}

/** One move of a block whose waiting is over. */
static inline void naive_move(naive_sim_t *s, naive_block_t *b) {
    if (b->phase == NAIVE_LAUNCH) {
        naive_next_step(s, b);
        return;
    }
    uint32_t step, batch;
    naive_where(s, b, &step, &batch);
    const ccl_step_t *st = &s->program->steps[step];
    bool sends = ccl_primitive_sends(st->type), receives = ccl_primitive_receives(st->type);
    naive_conn_t *out = sends ? &s->conns[s->step_send[step]] : NULL;
    naive_conn_t *in = receives ? &s->conns[s->step_recv[step]] : NULL;
    ccl_gpu_model_t gpu = naive_gpu(s->topo, b->rank);
    double x = s->step_bytes[step] / s->step_k[step], pass_Bps = INFINITY;
    bool engines_in = receives && in->transport.mechanism != CCL_MECHANISM_DEVICE;
    bool engines_out = sends && out->transport.mechanism != CCL_MECHANISM_DEVICE;
    bool pulls = receives && in->kind == NAIVE_PULLS, offers = sends && out->kind == NAIVE_OFFERS;
    if (engines_in)
        pass_Bps = fmin(pass_Bps, in->transport.copy_out_Bps);
    else if (pulls || (receives && !in->transport.direct))
        pass_Bps = fmin(pass_Bps, in->transport.tb_rate_Bps);
    if (engines_out)
        pass_Bps = fmin(pass_Bps, out->transport.copy_in_Bps);
    else if (sends && !(offers && out->transport.direct))
        pass_Bps = fmin(pass_Bps, out->transport.tb_rate_Bps);
    if (ccl_primitive_reduces(st->type))
        pass_Bps = fmin(pass_Bps, gpu.reduce_rate_Bps);
    if (st->type == CCL_PRIM_CPY)
        pass_Bps = fmin(pass_Bps, gpu.copy_rate_Bps);
    switch (b->phase) {
    case NAIVE_DEP:
        naive_enter(s, b, NAIVE_DATA);
        return;
    case NAIVE_DATA:
        naive_enter(s, b, NAIVE_SLOT);
        return;
    case NAIVE_SLOT:
        naive_enter(s, b, NAIVE_OVERHEAD);
        b->until_s = s->now_s;
        if (sends)
            out->begun++;
        if (b->slice == 0) {
            if (sends)
                b->until_s += out->transport.overhead_s;
            else if (receives)
                b->until_s += in->transport.overhead_s;
            else if (st->type != CCL_PRIM_NOP)
                b->until_s += gpu.overhead_s;
        }
        return;
    case NAIVE_OVERHEAD:
        if (pulls) {
            b->my_pull = in->handed;
            naive_hand(s, in, x, s->step_k[step], pass_Bps);
            b->granted = false;
            if (naive_both(s, step)) {
                b->my_slice = out->handed;
                naive_hand(s, out, x, s->step_k[step], pass_Bps);
                out->slices[b->my_slice].held = true;
            }
            naive_enter(s, b, NAIVE_PULL);
        } else if (sends && !offers && out->transport.holds_tb) {
            b->my_slice = out->handed;
            naive_hand(s, out, x, s->step_k[step], pass_Bps);
            naive_enter(s, b, NAIVE_FLOW);
        } else {
            naive_enter(s, b, NAIVE_BUSY);
            b->until_s = s->now_s + (isinf(pass_Bps) ? 0 : x / pass_Bps);
        }
        return;
    default:
        break;
    }
    /* End of the pass. */
    if (offers)
        naive_put(s, s->step_send[step]);
    else if (sends && !out->transport.holds_tb)
        naive_hand(s, out, x, s->step_k[step], INFINITY);
    else if (pulls && sends)
        naive_arrives(s, out, &out->slices[b->my_slice]);
    for (uint32_t i = 0; receives && i < (pulls ? in->nfifos : 1); i++) {
        naive_conn_t *fifo = pulls ? &s->conns[in->fifo[i]] : in;
        fifo->slices[fifo->taken].credit_s = s->now_s + fifo->delay_s;
        fifo->taken++;
    }
    if (++b->slice < s->step_k[step]) {
        naive_enter(s, b, NAIVE_DATA);
        return;
    }
    if (sends)
        s->out->transfers++;
    s->step_done_s[(size_t)step * s->batches + batch] = s->now_s;
    s->out->time_s = fmax(s->out->time_s, s->now_s);
    b->slice = 0;
    b->pos++;
    naive_next_step(s, b);
}

static inline void naive_drain(naive_sim_t *s, naive_conn_t *c) {
    naive_slice_t *slice = &c->slices[c->drained++];
    slice->drain_s = s->now_s;
    if (!slice->held)
        naive_arrives(s, c, slice);
    c->flowing = false;
    s->out->flows++;
    for (uint32_t i = 0; i < c->path.route->nlinks; i++)
        s->out->link_bytes[c->path.route->links[i]] += slice->bytes;
}

static inline void naive_start(naive_sim_t *s, naive_conn_t *c) {
    naive_slice_t *slice = &c->slices[c->drained];
    if (!(slice->bytes > 0)) {
        naive_drain(s, c);
        return;
    }
    c->flowing = true;
    s->flows[s->nflows++] =
        (naive_flow_t){&c->path, slice->bytes, slice->cap_Bps, 0, (uint32_t)(c - s->conns), 0};
}

static inline bool naive_share_link(const naive_path_t *a, const naive_path_t *b) {
    for (uint32_t i = 0; i < a->route->nlinks; i++)
        for (uint32_t j = 0; j < b->route->nlinks; j++)
            if (a->route->links[i] == b->route->links[j])
                return true;
    return false;
}

/** Everything that can happen at now_s without a flow starting. */
static inline void naive_settle(naive_sim_t *s) {
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < s->nblocks; i++) {
            while (naive_wake_s(s, &s->blocks[i]) <= s->now_s + s->eps_s) {
                naive_move(s, &s->blocks[i]);
                moved = true;
            }
        }
    }
}

/** Requests of one block: its pull's first, its sends' in the order of its slices. */
static inline bool naive_sooner(const naive_conn_t *c, const naive_conn_t *d) {
    if ((c->kind == NAIVE_PULLS) != (d->kind == NAIVE_PULLS))
        return c->kind == NAIVE_PULLS;
    return c->slices[c->drained].turn < d->slices[d->drained].turn;
}

/** Starts whatever may start now; true when something drained at once or started. */
static inline bool naive_starts(naive_sim_t *s) {
    bool any = false;
    for (uint32_t i = 0; i < s->nconns; i++) {
        naive_conn_t *c = &s->conns[i];
        while (!c->flowing && !c->wanting && c->drained < c->handed &&
               (!s->exclusive || c->slices[c->drained].bytes == 0)) {
            naive_start(s, c);
            any = true;
        }
    }
    if (!s->exclusive || any)
        return any;
    /* Requests of this instant, ordered by rank, thread block, stage. */
    for (;;) {
        naive_conn_t *first = NULL;
        for (uint32_t i = 0; i < s->nconns; i++) {
            naive_conn_t *c = &s->conns[i];
            if (c->flowing || c->wanting || c->drained == c->handed)
                continue;
            const naive_block_t *a = &s->blocks[c->block];
            const naive_block_t *b = first ? &s->blocks[first->block] : NULL;
            if (!b || a->rank < b->rank || (a->rank == b->rank && a->tb < b->tb) ||
                (a->rank == b->rank && a->tb == b->tb && a->stage < b->stage) ||
                (a == b && naive_sooner(c, first)))
                first = c;
        }
        if (!first)
            break;
        first->wanting = true;
        first->turn = ++s->turns;
    }
    for (uint32_t i = 0; i < s->nconns; i++) {
        naive_conn_t *c = &s->conns[i];
        bool free_links = c->wanting;
        for (uint32_t j = 0; j < s->nconns && free_links; j++) {
            const naive_conn_t *d = &s->conns[j];
            if (j != i && ((d->flowing || d->wanting) && d->turn < c->turn))
                free_links = !naive_share_link(&c->path, &d->path);
        }
        if (free_links) {
            naive_block_t *b = &s->blocks[c->block];
            bool both = b->phase == NAIVE_PULL; /* waits until one of its flows has its links */
            if ((c->kind == NAIVE_PULLS || c->transport.holds_tb) && !(both && b->granted)) {
                b->wait_slot_s += s->now_s - b->since_s;
                b->since_s = s->now_s;
                b->granted = true;
            }
            /* wanting is cleared after the scan, so that turns of this scan still block others. */
            naive_start(s, c);
            c->wanting = false;
            any = true;
        }
    }
    return any;
}

static inline void naive_run(naive_sim_t *s) {
    s->now_s = 0;
    for (;;) {
        do
            naive_settle(s);
        while (naive_starts(s));
        naive_fill(s->topo, s->flows, s->nflows, !s->exclusive, s->room, s->weight);
        double next_s = INFINITY, dt_s = INFINITY;
        for (uint32_t i = 0; i < s->nblocks; i++)
            next_s = fmin(next_s, naive_wake_s(s, &s->blocks[i]));
        for (uint32_t f = 0; f < s->nflows; f++)
            dt_s = fmin(dt_s, s->flows[f].left_bytes / s->flows[f].rate_Bps);
        if (isinf(next_s) && isinf(dt_s))
            break;
        bool drains = dt_s <= next_s - s->now_s;
        if (!drains)
            dt_s = next_s - s->now_s;
        s->now_s = drains ? s->now_s + dt_s : next_s;
        s->out->events++;
        for (uint32_t f = 0; f < s->nflows;) {
            naive_flow_t *flow = &s->flows[f];
            naive_conn_t *c = &s->conns[flow->user];
            flow->left_bytes -= dt_s * flow->rate_Bps;
            if (flow->left_bytes <= 1e-13 * c->slices[c->drained].bytes ||
                flow->left_bytes <= s->eps_s * flow->rate_Bps) {
                naive_drain(s, c);
                *flow = s->flows[--s->nflows];
            } else {
                f++;
            }
        }
    }
}

/** What a block sends or receives on. */
static inline uint32_t naive_end(naive_sim_t *s, ccl_routes_t *routes, uint32_t rank, bool sends,
                                 ccl_peers_t peers, uint32_t stage) {
    uint32_t peer = sends ? peers.send_peer : peers.recv_peer, of = ccl_peer_rank(peer);
    if (ccl_peer_is_group(peer))
        return naive_switch(s, routes, !sends, rank, peer, peers.channel, stage);
    if (ccl_peer_is_member(peer))
        return sends ? naive_find(s, NAIVE_OFFERS, rank, of, peers.channel, stage)
                     : naive_find(s, NAIVE_TAKES, of, rank, peers.channel, stage);
    return sends ? naive_conn(s, routes, rank, peer, peers.channel, stage)
                 : naive_conn(s, routes, peer, rank, peers.channel, stage);
}

static inline void naive_setup_blocks(naive_sim_t *s, ccl_routes_t *routes, bool by_stage) {
    const ccl_program_t *p = s->program;
    for (uint32_t t = 0; t < p->ntbs; t++) {
        const ccl_tb_t *tb = &p->tbs[t];
        uint32_t prev = CCL_NONE;
        uint32_t stages = by_stage ? 65536 : 1;
        for (uint32_t stage = 0; stage < stages; stage++) {
            naive_block_t *b = &s->blocks[s->nblocks];
            uint32_t later = 65536;
            memset(b, 0, sizeof *b);
            b->steps = malloc((tb->nsteps + 1) * sizeof *b->steps);
            for (uint32_t i = 0; i < tb->nsteps; i++) {
                uint32_t at = tb->first_step + i;
                if (by_stage && p->steps[at].stage > stage && p->steps[at].stage < later)
                    later = p->steps[at].stage;
                if (by_stage && p->steps[at].stage != stage)
                    continue;
                b->steps[b->nsteps++] = at;
                s->step_block[at] = s->nblocks;
            }
            if (b->nsteps || !by_stage) {
                b->rank = tb->rank, b->tb = t, b->stage = stage, b->prev = prev;
                for (uint32_t i = 0; i < b->nsteps; i++) {
                    uint32_t at = b->steps[i];
                    uint8_t type = p->steps[at].type;
                    ccl_peers_t peers = ccl_program_peers(p, tb, at);
                    s->step_send[at] = s->step_recv[at] = CCL_NONE;
                    if (ccl_primitive_sends(type)) {
                        s->step_send[at] = naive_end(s, routes, tb->rank, true, peers, stage);
                        s->conns[s->step_send[at]].block = s->nblocks;
                    }
                    if (ccl_primitive_receives(type))
                        s->step_recv[at] = naive_end(s, routes, tb->rank, false, peers, stage);
                    if (ccl_primitive_receives(type) && ccl_peer_is_group(peers.recv_peer))
                        s->conns[s->step_recv[at]].block = s->nblocks;
                }
                b->until_s = b->since_s = naive_launch_s(s->topo, p, tb->rank);
                prev = s->nblocks++;
            } else {
                free(b->steps);
            }
            stage = by_stage && later < 65536 ? later - 1 : stages;
        }
    }
}

/** @param out  fini with naive_result_fini(). */
static inline void naive_program(const ccl_topology_t *topo, ccl_routes_t *routes,
                                 const ccl_program_t *p, const ccl_sim_options_t *options,
                                 naive_result_t *out) {
    double size_bytes = options->size_bytes;
    uint32_t batches = options->batches;
    bool exclusive = options->sharing == CCL_SHARING_EXCLUSIVE;
    naive_sim_t s = {.topo = topo, .program = p, .size_bytes = size_bytes, .batches = batches};
    s.task = options->granularity == CCL_GRANULARITY_TASK;
    s.exclusive = exclusive;
    s.eps_s = exclusive ? 1e-12 : 0; /* requests within 1 ps are one instant */
    s.out = out;
    memset(out, 0, sizeof *out);
    out->link_bytes = calloc(topo->nlinks + 1, sizeof(double));
    out->tbs = calloc(p->ntbs + 1, sizeof *out->tbs);
    /* Of a step: a connection, and of a switch connection a FIFO of every member. */
    size_t most = (p->ngroups ? p->coll->nranks + 2 : 2) * (size_t)p->nsteps + 1;
    s.conns = calloc(most, sizeof *s.conns);
    s.blocks = calloc(p->ntbs + p->nsteps + 1, sizeof *s.blocks);
    s.step_send = calloc(p->nsteps + 1, sizeof *s.step_send);
    s.step_recv = calloc(p->nsteps + 1, sizeof *s.step_recv);
    s.step_block = calloc(p->nsteps + 1, sizeof *s.step_block);
    s.step_k = calloc(p->nsteps + 1, sizeof *s.step_k);
    s.step_bytes = calloc(p->nsteps + 1, sizeof *s.step_bytes);
    s.step_done_s = calloc((size_t)p->nsteps * batches + 1, sizeof *s.step_done_s);
    s.flows = calloc(most, sizeof *s.flows);
    s.room = calloc(naive_resources(topo) + 1, sizeof *s.room);
    s.weight = calloc(naive_resources(topo) + 1, sizeof *s.weight);
    for (size_t i = 0; i < (size_t)p->nsteps * batches; i++)
        s.step_done_s[i] = INFINITY;
    naive_setup_blocks(&s, routes, options->granularity == CCL_GRANULARITY_STAGE);
    for (uint32_t t = 0; t < p->ntbs; t++) {
        for (uint32_t i = 0; i < p->tbs[t].nsteps; i++) {
            uint32_t at = p->tbs[t].first_step + i;
            const ccl_step_t *st = &p->steps[at];
            s.step_bytes[at] = ccl_program_step_share(p, &p->tbs[t], st) * size_bytes / batches;
            s.step_k[at] = 1;
            if (!ccl_primitive_sends(st->type) && !ccl_primitive_receives(st->type))
                continue;
            for (uint32_t c = 0; c < s.nconns; c++) {
                const ccl_transport_t *tr = &s.conns[c].transport;
                double k = fmax(naive_ceil(s.step_bytes[at] / tr->slice_bytes), tr->slices);
                s.step_k[at] = (uint32_t)fmax(s.step_k[at], k);
            }
        }
    }
    naive_run(&s);
    for (uint32_t t = 0; t < p->ntbs; t++) /* of blocks without steps */
        out->tbs[t].start_s = out->tbs[t].done_s = naive_launch_s(topo, p, p->tbs[t].rank);
    for (uint32_t i = 0; i < s.nblocks; i++) {
        naive_block_t *b = &s.blocks[i];
        ccl_tb_use_t *use = &out->tbs[b->tb];
        out->deadlock = out->deadlock || b->phase != NAIVE_DONE;
        use->done_s = fmax(use->done_s, b->done_s);
        use->busy_s += b->busy_s;
        use->wait_data_s += b->wait_data_s;
        use->wait_peer_s += b->wait_peer_s;
        use->wait_slot_s += b->wait_slot_s;
        free(b->steps);
    }
    for (uint32_t c = 0; c < s.nconns; c++)
        free(s.conns[c].slices);
    free(s.conns);
    free(s.blocks);
    free(s.step_send);
    free(s.step_recv);
    free(s.step_block);
    free(s.step_k);
    free(s.step_bytes);
    free(s.step_done_s);
    free(s.flows);
    free(s.room);
    free(s.weight);
}

/* ---------------------------------------------------------------- flow lists */

/** No thread blocks, no connections: a flow starts when the one it waits for has arrived. */
static inline void naive_flow_list(const ccl_topology_t *topo, ccl_routes_t *routes,
                                   const ccl_flow_list_t *list, bool exclusive,
                                   naive_result_t *out) {
    uint32_t n = list->nflows, nflows = 0, left = n;
    naive_path_t *paths = calloc(n + 1, sizeof *paths);
    naive_flow_t *flows = calloc(n + 1, sizeof *flows);
    uint8_t *state =
        calloc(n + 1, 1); /* 0 waits for its dependency, 1 for links, 2 flows, 3 done */
    uint64_t *turn = calloc(n + 1, sizeof *turn), turns = 0;
    double *room = calloc(naive_resources(topo) + 1, sizeof *room);
    double *weight = calloc(naive_resources(topo) + 1, sizeof *weight);
    double now_s = 0, eps_s = exclusive ? 1e-12 : 0;
    memset(out, 0, sizeof *out);
    out->flow_done_s = calloc(n + 1, sizeof(double));
    out->link_bytes = calloc(topo->nlinks + 1, sizeof(double));
    for (uint32_t i = 0; i < n; i++) {
        const ccl_route_t *route;
        if (ccl_routes_get(routes, list->src[i], list->dst[i], 0, &route, NULL) != CCL_OK)
            abort();
        naive_path_set(&paths[i], topo, route);
        out->flow_done_s[i] = INFINITY;
    }
    while (left) {
        bool any = true;
        while (any) {
            any = false;
            /* Requests of the instant by rank, then as in the list. */
            for (uint32_t r = 0; r < list->nranks; r++) {
                for (uint32_t i = 0; i < n; i++) {
                    uint32_t dep = list->dep[i];
                    if (list->src[i] != r || state[i] != 0 ||
                        (dep != CCL_NONE && !(out->flow_done_s[dep] <= now_s + eps_s)))
                        continue;
                    state[i] = 1;
                    turn[i] = ++turns;
                }
            }
            for (uint32_t i = 0; i < n; i++) {
                bool go = state[i] == 1;
                for (uint32_t j = 0; exclusive && go && j < n; j++)
                    go = !(j != i && (state[j] == 1 || state[j] == 2) && turn[j] < turn[i] &&
                           naive_share_link(&paths[i], &paths[j]));
                if (!go)
                    continue;
                any = true;
                state[i] = 2;
                flows[nflows++] =
                    (naive_flow_t){&paths[i], list->bytes[i], paths[i].narrowest_Bps, 0, i, 0};
            }
            for (uint32_t f = 0; f < nflows;) {
                uint32_t i = flows[f].user;
                if (flows[f].left_bytes > 1e-13 * list->bytes[i] &&
                    !(flows[f].rate_Bps > 0 && flows[f].left_bytes <= eps_s * flows[f].rate_Bps)) {
                    f++;
                    continue;
                }
                any = true;
                left--;
                state[i] = 3;
                out->flow_done_s[i] = now_s + paths[i].latency_s;
                out->time_s = fmax(out->time_s, out->flow_done_s[i]);
                for (uint32_t l = 0; l < paths[i].route->nlinks; l++)
                    out->link_bytes[paths[i].route->links[l]] += list->bytes[i];
                flows[f] = flows[--nflows];
            }
        }
        naive_fill(topo, flows, nflows, !exclusive, room, weight);
        double next_s = INFINITY, dt_s = INFINITY;
        for (uint32_t i = 0; i < n; i++) {
            if (state[i] == 0 && list->dep[i] != CCL_NONE)
                next_s = fmin(next_s, out->flow_done_s[list->dep[i]]);
        }
        for (uint32_t f = 0; f < nflows; f++)
            dt_s = fmin(dt_s, flows[f].left_bytes / flows[f].rate_Bps);
        if (isinf(next_s) && isinf(dt_s))
            break;
        bool drains = dt_s <= next_s - now_s;
        if (!drains)
            dt_s = next_s - now_s;
        now_s = drains ? now_s + dt_s : next_s;
        for (uint32_t f = 0; f < nflows; f++)
            flows[f].left_bytes -= dt_s * flows[f].rate_Bps;
    }
    out->deadlock = left > 0;
    free(paths);
    free(flows);
    free(state);
    free(turn);
    free(room);
    free(weight);
}

#endif
