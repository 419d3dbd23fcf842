/*
 * Private to synth: the exchange graph. Who can send to whom in one hop, that is over a route of
 * the model, with no GPU in between, and what hops share: links and groups, those merged that the
 * same hops use. Switches and NICs are gone; what is left is what a search needs.
 */
#ifndef CCL_SYNTH_EXCHANGE_H
#define CCL_SYNTH_EXCHANGE_H

#include "synth/common/asked.h"

/** Most equal routes of a pair that become hops of their own. */
#define CCL_I_EXCHANGE_ROUTES 32u

/** A link or a group that hops use: of all with the same users the tightest. */
typedef struct ccl_i_resource {
    double Bps;
    uint32_t link, group; /* index in the topology, the other CCL_NONE */
} ccl_i_resource_t;

/** A flow on the hop counts `times` on the resource. */
typedef struct ccl_i_use {
    uint32_t resource, times;
} ccl_i_use_t;

typedef struct ccl_i_hop {
    uint32_t src, dst;         /* ranks, as the schedule will have them */
    uint16_t channel;          /* lowest channel whose connection takes this route */
    double alpha_s;            /* links' latency + transport's latency and overhead */
    double link_Bps;           /* narrowest link of the route */
    double tb_Bps;             /* what one thread block moves; reducing: no more than it adds */
    uint32_t lanes;            /* of its narrowest link */
    uint32_t first_use, nuses; /* into uses: links and groups of the route */
} ccl_i_hop_t;

typedef struct ccl_i_exchange {
    const ccl_topology_t *topo;
    uint32_t nranks, nhops, nresources;
    ccl_i_hop_t *hops; /* by src, dst, channel */
    ccl_i_use_t *uses; /* a hop's by resource, each once */
    ccl_i_resource_t *resources;
    uint32_t *out_first;          /* [nranks + 1] into hops, by src */
    uint32_t *in_first, *in_hops; /* [nranks + 1], hop indices by dst */
    ccl_arena_t arena;
} ccl_i_exchange_t;

typedef struct ccl_i_exchange_options {
    const char *proto; /* NULL: "Simple" */
    /* Hop u -> v is the route v -> u: a schedule made on it, time-reversed, is
       one of reductions (turn.h). */
    bool reversed;
    bool reduce; /* receivers add: thread blocks at no more than their reduce_rate */
} ccl_i_exchange_options_t;

/**
 * All hops of a topology.
 *
 * @param routes   of the same topology.
 * @param options  NULL: Simple, as the routes go, copies.
 * @par Complexity  pairs of GPUs times length of a route; equal routes of a pair (several NICs) are
 * hops of their own, at most CCL_I_EXCHANGE_ROUTES.
 */
ccl_status_t ccl_i_exchange_init(ccl_i_exchange_t *x, const ccl_topology_t *topo,
                                 ccl_routes_t *routes, const ccl_i_exchange_options_t *options,
                                 ccl_error_t *err);
void ccl_i_exchange_fini(ccl_i_exchange_t *x);

#endif
