/*
 * Private to synth: a rotation of an exchange graph, that is an automorphism under which all GPUs
 * move in circles of one length. Imposed on a search it leaves one chunk of each circle.
 */
#ifndef CCL_SYNTH_ROTATION_H
#define CCL_SYNTH_ROTATION_H

#include "synth/common/exchange.h"

typedef struct ccl_i_rotation {
    uint32_t order;     /* length of the circles; 1: none was found */
    uint32_t *rank;     /* [nranks] where a rank goes */
    uint32_t *hop;      /* [nhops] */
    uint32_t *resource; /* [nresources] */
} ccl_i_rotation_t;

/** The longest found within a bounded search. Without any (or none that helps) the identity. */
ccl_status_t ccl_i_rotation_find(const ccl_i_exchange_t *x, ccl_i_rotation_t *out,
                                 ccl_error_t *err);
void ccl_i_rotation_fini(ccl_i_rotation_t *rotation);

/** Chunks in circles: one of each has variables, the others are where the rotation takes it. */
typedef struct ccl_i_circles {
    uint32_t order, nranks, nhops;
    uint32_t *rep, *turns; /* [nchunks] the chunk of its circle that has variables; how often the
                              rotation takes this chunk to it */
    uint32_t *rank;        /* [order][nranks] where the turns take a rank, by their number */
    uint32_t *hop;         /* [order][nhops] */
} ccl_i_circles_t;
/** @param coll  where the rotation's order is above 1 an allgather or alltoall. */
ccl_status_t ccl_i_circles_init(const ccl_i_rotation_t *rotation, const ccl_i_exchange_t *x,
                                const ccl_collective_t *coll, ccl_i_circles_t *out,
                                ccl_error_t *err);
void ccl_i_circles_fini(ccl_i_circles_t *circles);
/** The rank, hop of a chunk's representative that is this one of the chunk. */
static inline uint32_t ccl_i_circles_rank(const ccl_i_circles_t *c, uint32_t chunk, uint32_t rank) {
    return c->rank[c->turns[chunk] * c->nranks + rank];
}
static inline uint32_t ccl_i_circles_hop(const ccl_i_circles_t *c, uint32_t chunk, uint32_t hop) {
    return c->hop[c->turns[chunk] * c->nhops + hop];
}

#endif
