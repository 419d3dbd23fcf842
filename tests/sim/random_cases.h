/* Random clusters and programs, small and awkward, for the property tests of sim; how one is run.
 */
#ifndef CCL_TESTS_SIM_RANDOM_CASES_H
#define CCL_TESTS_SIM_RANDOM_CASES_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "tests/base/main.h"

#define PICK(rng_, array_) ((array_)[ccl_rng_below((rng_), (uint32_t)CCL_ARRAY_LEN(array_))])

static inline double random_rate_Bps(ccl_rng_t *rng) {
    static const double some[] = {25e9, 25e9, 50e9, 12.5e9, 100e9, 300e9, 100e9 / 3, 7e9};
    return ccl_rng_below(rng, 3) ? PICK(rng, some) : 1e9 * (1 + 99 * ccl_rng_unit(rng));
}

static inline double random_latency_s(ccl_rng_t *rng) {
    static const double some[] = {0, 0, 1e-6, 2e-6, 0.7e-6, 5e-6};
    return ccl_rng_below(rng, 3) ? PICK(rng, some) : 4e-6 * ccl_rng_unit(rng);
}

static inline double random_kappa(ccl_rng_t *rng, bool contention) {
    static const double some[] = {0, 0, 0.1, 0.5, 2};
    return contention ? PICK(rng, some) : 0;
}

/** Some transports get a mechanism, with rates of copies or without. */
static bool random_mechanisms;
/** Most switches multicast and reduce, some at a limited rate; some trees have transports of their
 * own. */
static bool random_abilities;
/** Programs have switch connections where the topology of these has trees for them; NULL: none. */
static ccl_routes_t *random_switch_routes;

static inline void random_transport(ccl_rng_t *rng, ccl_topology_builder_t *b, const char *kind,
                                    const char *protocol) {
    ccl_transport_spec_t s = {.kind = kind, .protocol = protocol};
    static const double slices[] = {INFINITY, 65536, 100000, 1048576, 300000};
    static const uint32_t least[] = {1, 1, 2, 3, 4}, slots[] = {8, 1, 2, 2, 3, 4};
    s.value = ccl_transport_default(kind);
    s.given = ccl_rng_below(rng, 512) & ~(uint32_t)CCL_TRANSPORT_PIECE;
    s.value.overhead_s = random_latency_s(rng);
    s.value.latency_s = random_latency_s(rng);
    s.value.tb_rate_Bps = random_rate_Bps(rng) / (1 + ccl_rng_below(rng, 4));
    s.value.slice_bytes = PICK(rng, slices);
    if (isinf(s.value.slice_bytes))
        s.given &= ~(uint32_t)CCL_TRANSPORT_SLICE;
    s.value.slices = PICK(rng, least);
    s.value.slots = PICK(rng, slots);
    s.value.direct = ccl_rng_below(rng, 2);
    s.value.holds_tb = ccl_rng_below(rng, 2);
    if (random_mechanisms) {
        ccl_rng_t own; /* so that the other cases stay the same */
        ccl_rng_init(&own, (uint64_t)s.value.tb_rate_Bps + s.given);
        s.given |= CCL_TRANSPORT_SLOTS | (1 + 2 * ccl_rng_below(&own, 4)) * CCL_TRANSPORT_MECHANISM;
        s.value.mechanism = (ccl_mechanism_t)ccl_rng_below(&own, 3);
        s.value.copy_in_Bps = random_rate_Bps(&own) / (1 + ccl_rng_below(&own, 4));
        s.value.copy_out_Bps = random_rate_Bps(&own) / (1 + ccl_rng_below(&own, 4));
        static const double wires[] = {1, 2, 16.0 / 15, 1.5};
        s.given |= CCL_TRANSPORT_WIRE;
        s.value.wire = PICK(&own, wires);
        static const double messages_s[] = {0, 0, 1e-6, 20e-6};
        s.given |= CCL_TRANSPORT_MESSAGE;
        s.value.message_s = PICK(&own, messages_s);
        static const double sizes[] = {1e3, 65536, 1e6};
        s.given |= ccl_rng_below(&own, 2) * CCL_TRANSPORT_MESSAGE_SIZE;
        s.value.message_bytes = PICK(&own, sizes);
    }
    ck_assert_int_eq(ccl_topology_builder_transport(b, &s, NULL), CCL_OK);
}

typedef struct random_links {
    uint32_t n;
    bool contention;
} random_links_t;

static inline void random_duplex(ccl_rng_t *rng, ccl_topology_builder_t *b, random_links_t *links,
                                 uint32_t from, uint32_t to, const char *kind) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status =
        ccl_topology_builder_duplex(b, from, to, kind, random_rate_Bps(rng), random_latency_s(rng),
                                    1, random_kappa(rng, links->contention), &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    links->n += 2;
}

/* Where a copy of a random cluster hangs. */
typedef struct random_part {
    uint32_t n, copy, hub; /* GPUs; CCL_NONE: alone */
    uint32_t shape, models;
} random_part_t;

typedef struct random_gpu {
    uint32_t rank;
    const char *model;
} random_gpu_t;
static const random_gpu_t random_no_gpu = {CCL_NONE, NULL};

static inline uint32_t random_node(ccl_topology_builder_t *b, const random_part_t *part,
                                   const char *name, uint32_t number, ccl_device_kind_t kind,
                                   const char *server, random_gpu_t gpu) {
    char id[32], of[32];
    uint32_t device = CCL_NONE;
    ccl_error_t err = CCL_ERROR_INIT;
    snprintf(id, sizeof id, "%s%u.%u", name, part->copy, number);
    snprintf(of, sizeof of, "%s.%u", server ? server : "", part->copy);
    ccl_status_t status = ccl_topology_builder_device(b, id, kind, server ? of : NULL, gpu.rank,
                                                      gpu.model, &device, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    if (kind == CCL_DEVICE_SWITCH && random_abilities) {
        ccl_rng_t own; /* alike in all copies */
        ccl_rng_init(&own, (uint64_t)number * 31 + part->n * 7 + part->shape);
        ccl_device_t able = {.multicast = true, .reduce = true, .reduce_rate_Bps = INFINITY};
        if (ccl_rng_below(&own, 8) == 0)
            able.multicast = ccl_rng_below(&own, 2), able.reduce = !able.multicast;
        if (able.reduce && ccl_rng_below(&own, 2))
            able.reduce_rate_Bps = random_rate_Bps(&own);
        ck_assert_int_eq(ccl_topology_builder_abilities(b, device, &able, &err), CCL_OK);
    }
    return device;
}

/** A full mesh, a star, two stars joined by NICs that GPUs may share, or a few switches. */
static inline void random_part(ccl_rng_t *rng, ccl_topology_builder_t *b, random_links_t *links,
                               const random_part_t *part) {
    uint32_t gpus[16], n = part->n;
    static const char *const model_names[] = {"A", "B"};
    static const char *const kinds[] = {"nvlink", "pcie", "xgmi"};
    for (uint32_t g = 0; g < n; g++) {
        uint32_t m = part->models ? ccl_rng_below(rng, part->models + 1) : 0;
        gpus[g] = random_node(
            b, part, "g", g, CCL_DEVICE_GPU,
            part->shape == 2 ? (g < (n + 1) / 2 ? "s0" : "s1") : NULL,
            (random_gpu_t){part->copy * n + g, m < part->models ? model_names[m] : NULL});
    }
    if (part->shape == 0) {
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = i + 1; j < n; j++)
                random_duplex(rng, b, links, gpus[i], gpus[j], PICK(rng, kinds));
    } else if (part->shape == 2) {
        uint32_t sw[2], nics[2][2];
        uint32_t fabric = random_node(b, part, "fabric", 0, CCL_DEVICE_SWITCH, NULL, random_no_gpu);
        for (uint32_t s = 0; s < 2; s++) {
            const char *server = s ? "s1" : "s0";
            sw[s] = random_node(b, part, "sw", s, CCL_DEVICE_SWITCH, server, random_no_gpu);
            for (uint32_t k = 0; k < 2; k++) {
                nics[s][k] =
                    random_node(b, part, "n", 2 * s + k, CCL_DEVICE_NIC, server, random_no_gpu);
                random_duplex(rng, b, links, nics[s][k], fabric, "net");
            }
        }
        bool through_switch = ccl_rng_below(rng, 2);
        for (uint32_t g = 0; g < n; g++) {
            uint32_t s = g < (n + 1) / 2 ? 0 : 1;
            random_duplex(rng, b, links, gpus[g], sw[s], through_switch ? "pcie" : "nvlink");
            if (!through_switch)
                random_duplex(rng, b, links, gpus[g], nics[s][ccl_rng_below(rng, 2)], "pcie");
        }
        for (uint32_t s = 0; s < 2 && through_switch; s++)
            for (uint32_t k = 0; k < 2; k++)
                random_duplex(rng, b, links, sw[s], nics[s][k], "pcie");
    } else {
        uint32_t nsw = part->shape == 1 ? 1 : 2 + ccl_rng_below(rng, 2), sw[3];
        for (uint32_t s = 0; s < nsw; s++) {
            sw[s] = random_node(b, part, "sw", s, CCL_DEVICE_SWITCH, NULL, random_no_gpu);
            for (uint32_t o = 0; o < s; o++)
                random_duplex(rng, b, links, sw[s], sw[o], PICK(rng, kinds));
        }
        for (uint32_t g = 0; g < n; g++)
            random_duplex(rng, b, links, gpus[g], sw[ccl_rng_below(rng, nsw)], PICK(rng, kinds));
    }
    for (uint32_t g = 0; g < n && part->hub != CCL_NONE; g++)
        random_duplex(rng, b, links, gpus[g], part->hub, PICK(rng, kinds));
}

static inline void random_group(ccl_rng_t *rng, ccl_topology_builder_t *b, uint32_t number,
                                uint32_t links, uint32_t copies) {
    uint32_t members[64], chosen[64], count = 0, of = links / copies;
    for (uint32_t l = 0; l < of && count < 64 / copies; l++)
        if (ccl_rng_below(rng, 3) == 0)
            chosen[count++] = l;
    if (!count)
        chosen[count++] = ccl_rng_below(rng, of);
    double rate_Bps = random_rate_Bps(rng) * 2;
    bool across = copies > 1 && ccl_rng_below(rng, 2); /* one over all copies, or one in each */
    for (uint32_t c = 0; c < copies; c++) {
        uint32_t first = across ? c * count : 0;
        for (uint32_t i = 0; i < count; i++)
            members[first + i] = c * of + chosen[i];
        if (across && c + 1 < copies)
            continue;
        char name[32];
        ccl_error_t err = CCL_ERROR_INIT;
        snprintf(name, sizeof name, "group%u.%u", number, c);
        ccl_status_t status = ccl_topology_builder_group(
            b, name, across ? rate_Bps * copies : rate_Bps, members, first + count, &err);
        ck_assert_msg(status == CCL_OK, "%s", err.text);
    }
}

/**
 * GPUs, links between them, groups of links, transports of all kinds, GPU models: `copies` times
 * the same n GPUs, joined by one more switch when there are several.
 */
static inline ccl_topology_t *random_copies(ccl_rng_t *rng, uint32_t n, uint32_t copies) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("random");
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    random_links_t links = {0, ccl_rng_below(rng, 3) == 0};
    random_part_t part = {.n = n, .hub = CCL_NONE, .shape = ccl_rng_below(rng, 4)};
    static const char *const model_names[] = {"A", "B"};
    part.models = ccl_rng_below(rng, 3);
    for (uint32_t m = 0; m < part.models; m++) {
        ccl_gpu_model_t model = ccl_gpu_model_default(model_names[m]);
        if (ccl_rng_below(rng, 2))
            model.copy_rate_Bps = random_rate_Bps(rng);
        if (ccl_rng_below(rng, 2))
            model.reduce_rate_Bps = random_rate_Bps(rng);
        model.overhead_s = random_latency_s(rng);
        model.flag_s = random_latency_s(rng);
        model.launch_s = random_latency_s(rng);
        if (m == 1) { /* LL's and Simple's own */
            model.launches = 1u << CCL_PROTOCOL_LL | 1u << CCL_PROTOCOL_SIMPLE;
            model.protocol_launch_s[CCL_PROTOCOL_LL] = model.launch_s / 2;
            model.protocol_launch_s[CCL_PROTOCOL_SIMPLE] = model.launch_s * 2;
        }
        ck_assert_int_eq(ccl_topology_builder_gpu_model(b, &model, &err), CCL_OK);
    }
    if (copies > 1)
        part.hub = random_node(b, &part, "hub", 0, CCL_DEVICE_SWITCH, NULL, random_no_gpu);
    ccl_rng_t same = *rng;
    for (part.copy = 0; part.copy < copies; part.copy++) {
        *rng = same;
        random_part(rng, b, &links, &part);
    }
    for (uint32_t groups = ccl_rng_below(rng, 4), i = 0; i < groups; i++)
        random_group(rng, b, i, links.n, copies);
    static const char *const all[] = {"nvlink", "pcie", "xgmi", "net"};
    bool plain = ccl_rng_below(rng, 4) == 0;
    for (uint32_t k = 0; k < 4 && !plain; k++) {
        if (ccl_rng_below(rng, 3))
            random_transport(rng, b, all[k], NULL);
        if (ccl_rng_below(rng, 3) == 0)
            random_transport(rng, b, all[k], "LL");
    }
    static const char *const own[] = {"nvlink-switch", "pcie-switch", "xgmi-switch", "net-switch"};
    for (uint32_t k = 0; k < 4 && random_abilities; k++)
        if (ccl_rng_below(rng, 2))
            random_transport(rng, b, own[k], ccl_rng_below(rng, 4) ? NULL : "LL");
    ccl_status_t status = ccl_topology_builder_finish(b, &topo, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    ccl_topology_builder_destroy(b);
    return topo;
}

static inline ccl_topology_t *random_topology(ccl_rng_t *rng, uint32_t n) {
    return random_copies(rng, n, 1);
}

/* ---------------------------------------------------------------- programs */

enum { RANDOM_COPIES = 4 };

typedef struct random_block {
    uint32_t handle[RANDOM_COPIES];
    uint32_t rank, id, channel, out, in; /* out, in: connections or CCL_NONE */
    uint32_t nsteps;
} random_block_t;
typedef struct random_conn {
    uint32_t src, dst, channel, from, to; /* blocks */
    uint32_t shift;                       /* the receiver is so many copies further */
    /* Of a switch connection: from, or reducing to, its single GPU src = dst; members' blocks. */
    uint32_t nmembers, members[16], blocks[16];
    bool reduces;
} random_conn_t;
enum { RANDOM_BUFFER = 6 };

typedef struct random_program {
    ccl_rng_t *rng;
    ccl_program_builder_t *b;
    random_block_t blocks[64];
    random_conn_t conns[32];
    uint32_t nblocks, nconns, ranks_blocks[16], stage, copies;
} random_program_t;

static inline uint32_t random_block(random_program_t *g, uint32_t rank, uint32_t channel) {
    g->blocks[g->nblocks] = (random_block_t){.rank = rank,
                                             .id = g->ranks_blocks[rank]++,
                                             .channel = channel,
                                             .out = CCL_NONE,
                                             .in = CCL_NONE};
    return g->nblocks++;
}

/** Sometimes waits for a step of another block of the GPU that stands already. */
static inline void random_step(random_program_t *g, uint32_t block, uint8_t type, uint32_t off,
                               uint32_t count, uint32_t dep_odds) {
    random_block_t *b = &g->blocks[block];
    ccl_step_t s = {.src_off = off,
                    .dst_off = off,
                    .count = type == CCL_PRIM_NOP ? 0 : count,
                    .dep_tb = CCL_NONE,
                    .dep_step = CCL_NONE,
                    .stage = (uint16_t)g->stage,
                    .type = type,
                    .src_buf = CCL_BUF_SCRATCH,
                    .dst_buf = CCL_BUF_SCRATCH};
    if (ccl_rng_below(g->rng, 100) < dep_odds) {
        uint32_t other = ccl_rng_below(g->rng, g->nblocks);
        random_block_t *o = &g->blocks[other];
        if (o->rank == b->rank && o->nsteps) {
            s.dep_tb = o->id;
            s.dep_step =
                ccl_rng_below(g->rng, 3) ? o->nsteps - 1 : ccl_rng_below(g->rng, o->nsteps);
        }
    }
    for (uint32_t c = 0; c < g->copies; c++)
        ccl_program_builder_step(g->b, b->handle[c], s);
    b->nsteps++;
}

/* A block of the rank with that end free, or a new one. */
static inline uint32_t random_end(random_program_t *g, uint32_t rank, uint32_t channel,
                                  bool sends) {
    uint32_t found = CCL_NONE;
    for (uint32_t k = 0; k < g->nblocks; k++) {
        random_block_t *o = &g->blocks[k];
        if (o->rank == rank && o->channel == channel && ccl_rng_below(g->rng, 3) &&
            (sends ? o->out : o->in) == CCL_NONE)
            found = k;
    }
    return found == CCL_NONE ? random_block(g, rank, channel) : found;
}

static inline bool random_trees(const random_conn_t *c, uint32_t n, uint32_t copies) {
    const ccl_tree_t *tree;
    for (uint32_t copy = 0; copy < copies; copy++) {
        uint32_t ranks[16];
        for (uint32_t i = 0; i < c->nmembers; i++)
            ranks[i] = (copy + c->shift) % copies * n + c->members[i];
        if (ccl_routes_tree(random_switch_routes, c->reduces, copy * n + c->src, ranks, c->nmembers,
                            c->channel, &tree, NULL) != CCL_OK)
            return false;
    }
    return true;
}

/** Switch connections of n GPUs, as far as there are trees for them. */
static inline void random_switches(random_program_t *g, uint32_t n, uint32_t channels) {
    for (uint32_t want = 1 + ccl_rng_below(g->rng, 4), i = 0; i < want; i++) {
        random_conn_t c = {.src = ccl_rng_below(g->rng, n),
                           .channel = ccl_rng_below(g->rng, channels),
                           .shift = g->copies > 1 && ccl_rng_below(g->rng, 3) == 0,
                           .reduces = ccl_rng_below(g->rng, 2)};
        bool all = ccl_rng_below(g->rng, 2), self = ccl_rng_below(g->rng, 2), bad = false;
        for (uint32_t r = 0; r < n; r++)
            if (r == c.src ? self : all || ccl_rng_below(g->rng, 2))
                c.members[c.nmembers++] = r;
        c.dst = c.src;
        for (uint32_t k = 0; k < g->nconns; k++)
            bad = bad || (g->conns[k].nmembers > 0 && g->conns[k].src == c.src &&
                          g->conns[k].channel == c.channel && g->conns[k].reduces == c.reduces);
        if (bad || c.nmembers == 0 || g->nconns == CCL_ARRAY_LEN(g->conns) ||
            g->nblocks + c.nmembers + 1 > CCL_ARRAY_LEN(g->blocks) ||
            !random_trees(&c, n, g->copies))
            continue;
        uint32_t single = random_end(g, c.src, c.channel, !c.reduces);
        *(c.reduces ? &c.to : &c.from) = single;
        *(c.reduces ? &g->blocks[single].in : &g->blocks[single].out) = g->nconns;
        for (uint32_t m = 0; m < c.nmembers; m++) {
            c.blocks[m] = random_end(g, c.members[m], c.channel, c.reduces);
            *(c.reduces ? &g->blocks[c.blocks[m]].out : &g->blocks[c.blocks[m]].in) = g->nconns;
        }
        g->conns[g->nconns++] = c;
    }
}

/** The peer of one end of a switch connection in a copy. */
static inline uint32_t random_peer(random_program_t *g, const random_conn_t *c, bool sends,
                                   uint32_t copy, uint32_t n) {
    uint32_t ranks[16];
    if (sends == c->reduces) /* a member */
        return CCL_PEER_MEMBER | ((copy + g->copies - c->shift) % g->copies * n + c->src);
    for (uint32_t i = 0; i < c->nmembers; i++)
        ranks[i] = (copy + c->shift) % g->copies * n + c->members[i];
    return ccl_program_builder_group(g->b, ranks, c->nmembers);
}

typedef struct random_message {
    uint32_t off, count, dep_odds, left; /* left: blocks that it may still pass */
    bool tangled;
    uint32_t late[256], nlate;
} random_message_t;

static inline void random_sends(random_program_t *g, uint32_t conn, uint32_t begun,
                                random_message_t *m);

/** A block receives, and perhaps sends on at once. */
static inline void random_receives(random_program_t *g, uint32_t block, random_message_t *m) {
    if (m->left > 0 && g->blocks[block].out != CCL_NONE && ccl_rng_below(g->rng, 3)) {
        static const uint8_t forward[] = {CCL_PRIM_RCS, CCL_PRIM_RRS, CCL_PRIM_RRCS};
        m->left--;
        random_step(g, block, PICK(g->rng, forward), m->off, m->count, m->dep_odds);
        random_sends(g, g->blocks[block].out, block, m);
    } else if (m->tangled && m->nlate < CCL_ARRAY_LEN(m->late) && ccl_rng_below(g->rng, 3)) {
        m->late[m->nlate++] = block;
    } else {
        random_step(g, block, ccl_rng_below(g->rng, 2) ? CCL_PRIM_R : CCL_PRIM_RRC, m->off,
                    m->count, m->dep_odds);
    }
}

/** A message runs along a connection. @param begun  a block whose step stands; CCL_NONE: none. */
static inline void random_sends(random_program_t *g, uint32_t conn, uint32_t begun,
                                random_message_t *m) {
    const random_conn_t *c = &g->conns[conn];
    uint32_t senders = c->reduces ? c->nmembers : 1;
    for (uint32_t i = 0; i < senders; i++) {
        uint32_t from = c->reduces ? c->blocks[i] : c->from;
        if (from != begun)
            random_step(g, from, CCL_PRIM_S, m->off, m->count, m->dep_odds);
    }
    for (uint32_t i = 0; i < (c->nmembers && !c->reduces ? c->nmembers : 1); i++)
        random_receives(g, c->nmembers && !c->reduces ? c->blocks[i] : c->to, m);
}

/** Connections, each with a block at either end. */
static inline void random_conns(random_program_t *g, uint32_t n, uint32_t channels) {
    ccl_rng_t *rng = g->rng;
    uint32_t copies = g->copies;
    uint32_t want = 1 + ccl_rng_below(rng, 2 * n);
    for (uint32_t i = 0; i < want && g->nconns < 24; i++) {
        uint32_t src = ccl_rng_below(rng, n), dst = ccl_rng_below(rng, n);
        uint32_t channel = ccl_rng_below(rng, channels);
        bool bad = src == dst;
        for (uint32_t c = 0; c < g->nconns; c++)
            bad = bad || (g->conns[c].src == src && g->conns[c].dst == dst &&
                          g->conns[c].channel == channel);
        if (bad)
            continue;
        uint32_t from = CCL_NONE, to = CCL_NONE;
        for (uint32_t k = 0; k < g->nblocks; k++) {
            random_block_t *o = &g->blocks[k];
            if (o->channel != channel || ccl_rng_below(rng, 3) == 0)
                continue;
            if (o->rank == src && o->out == CCL_NONE)
                from = k;
            if (o->rank == dst && o->in == CCL_NONE)
                to = k;
        }
        from = from == CCL_NONE ? random_block(g, src, channel) : from;
        to = to == CCL_NONE ? random_block(g, dst, channel) : to;
        g->blocks[from].out = g->blocks[to].in = g->nconns;
        uint32_t shift = copies > 1 ? ccl_rng_below(rng, copies) : 0;
        g->conns[g->nconns++] = (random_conn_t){
            .src = src, .dst = dst, .channel = channel, .from = from, .to = to, .shift = shift};
    }
}

/** The blocks of all copies. */
static inline void random_handles(random_program_t *g, uint32_t n) {
    uint32_t copies = g->copies;
    for (uint32_t c = 0; c < copies; c++)
        for (uint32_t k = 0; k < g->nblocks; k++) {
            random_block_t *o = &g->blocks[k];
            const random_conn_t *out = o->out == CCL_NONE ? NULL : &g->conns[o->out];
            const random_conn_t *in = o->in == CCL_NONE ? NULL : &g->conns[o->in];
            uint32_t to = out ? (c + out->shift) % copies * n + out->dst : CCL_NONE;
            uint32_t from = in ? (c + copies - in->shift) % copies * n + in->src : CCL_NONE;
            if (out && out->nmembers)
                to = random_peer(g, out, true, c, n);
            if (in && in->nmembers)
                from = random_peer(g, in, false, c, n);
            o->handle[c] = ccl_program_builder_tb(g->b, c * n + o->rank, to, from, o->channel);
        }
}

/**
 * Blocks with a connection in, one out, or both; messages that run along them, forwarded in fused
 * primitives where a block goes on; local work and waits in between. Appended in one global order,
 * so that it finishes with deep FIFOs; with shallow ones it may not. `copies` of n ranks do the
 * same, with connections within a copy or to one further on.
 */
static inline ccl_program_t *random_copied_program(ccl_rng_t *rng, uint32_t n, uint32_t copies,
                                                   const char *proto) {
    random_program_t *g = calloc(1, sizeof *g);
    ccl_collective_t *coll = NULL;
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    g->rng = rng;
    g->copies = copies;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, n * copies, 1, 0, &coll, &err), CCL_OK);
    uint32_t nchunks = 1 + ccl_rng_below(rng, 8);
    g->b = ccl_program_builder_create("random", coll, nchunks, proto);
    uint32_t channels = 1 + ccl_rng_below(rng, 3);
    random_conns(g, n, channels);
    if (random_switch_routes)
        random_switches(g, n, channels);
    for (uint32_t r = 0; r < n && g->nblocks < CCL_ARRAY_LEN(g->blocks); r++)
        if (ccl_rng_below(rng, 3) == 0)
            random_block(g, r, 0);
    for (uint32_t r = 0; r < n * copies; r++)
        ccl_program_builder_buffer(g->b, r, CCL_BUF_SCRATCH, RANDOM_BUFFER);
    if (ccl_rng_below(rng, 3) == 0) { /* unequal shares, some of them nothing */
        double shares[16];
        for (uint32_t k = 0; k < 16; k++)
            shares[k] = ccl_rng_below(rng, 4) ? ccl_rng_unit(rng) : 0;
        for (uint32_t r = 0; r < n * copies; r++)
            for (uint32_t k = 0; k < 3; k++)
                ccl_program_builder_shares(g->b, r, (ccl_buffer_t)k, shares);
    }
    random_handles(g, n);
    uint32_t messages = 1 + ccl_rng_below(rng, ccl_rng_below(rng, 3) ? 12 : 40),
             stages = 1 + ccl_rng_below(rng, 3);
    uint32_t dep_odds = ccl_rng_below(rng, 2) ? 40 : 0;
    /* Tangled: receives come late and in any order, all of one size; many of these block. */
    random_message_t m = {.dep_odds = dep_odds, .tangled = ccl_rng_below(rng, 3) == 0};
    for (uint32_t k = 0; k < messages && g->nblocks; k++) {
        g->stage = m.tangled ? 0 : k * stages / messages;
        m.count = ccl_rng_below(rng, 12) ? 1 + ccl_rng_below(rng, 3) : 0;
        m.off = ccl_rng_below(rng, RANDOM_BUFFER - m.count + 1);
        m.left = random_switch_routes ? 12 : UINT32_MAX;
        if (m.tangled)
            m.off = 0, m.count = 1;
        if (!g->nconns || ccl_rng_below(rng, 5) == 0) {
            static const uint8_t local[] = {CCL_PRIM_CPY, CCL_PRIM_RE, CCL_PRIM_NOP};
            random_step(g, ccl_rng_below(rng, g->nblocks), PICK(rng, local), m.off, m.count, 50);
            continue;
        }
        random_sends(g, ccl_rng_below(rng, g->nconns), CCL_NONE, &m);
    }
    while (m.nlate > 0) {
        uint32_t k = ccl_rng_below(rng, m.nlate);
        random_step(g, m.late[k], CCL_PRIM_R, 0, 1, dep_odds);
        m.late[k] = m.late[--m.nlate];
    }
    ccl_status_t status = ccl_program_builder_finish(g->b, &program, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    free(g);
    return program;
}

static inline ccl_program_t *random_program(ccl_rng_t *rng, uint32_t n, const char *proto) {
    return random_copied_program(rng, n, 1, proto);
}

/** A program, and how it is run. */
typedef struct setting {
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    const ccl_program_t *program;
    double size_bytes;
    uint32_t batches;
    ccl_granularity_t granularity;
    ccl_sharing_t sharing;
} setting_t;

static inline ccl_sim_options_t options_of(const setting_t *s) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    options.size_bytes = s->size_bytes;
    options.batches = s->batches;
    options.granularity = s->granularity;
    options.sharing = s->sharing;
    return options;
}

#endif
