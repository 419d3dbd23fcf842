/*
 * Private to synth: clusters of one vendor, their border ranks, and collectives inside them, the
 * parts that cluster-to-cluster schedules are made of (HetCCL of Peking University and BAAI,
 * sections 4.2 to 4.4).
 */
#ifndef CCL_SYNTH_C2C_H
#define CCL_SYNTH_C2C_H

#include "synth/common/plan.h"

/* ---------------------------------------------------------------- clusters (c2c_clusters.c) */

typedef struct ccl_i_c2c_cluster {
    const char *vendor; /* of its GPUs; the GPU model where no vendor is given; borrowed */
    uint32_t nranks, nborders;
    const uint32_t *ranks;   /* [nranks] ascending */
    const uint32_t *borders; /* [nborders] ranks nearest to a NIC, ascending */
    const double *share;     /* [nborders] of the cluster's NIC bandwidth; together 1 */
    const uint32_t *beside;  /* [nborders] rank next to the border that keeps the result of a
                                reduction; CCL_NONE: a single rank */
    double Bps;              /* of its NICs together, one direction */
} ccl_i_c2c_cluster_t;

typedef struct ccl_i_c2c_map {
    uint32_t nclusters;
    ccl_i_c2c_cluster_t *clusters; /* by lowest rank */
    uint32_t *of, *local;          /* [nranks] cluster, position in it */
    ccl_arena_t arena;
} ccl_i_c2c_map_t;

/** Vendors (else GPU models) of a topology, 1 to nranks. */
uint32_t ccl_i_c2c_vendors(const ccl_topology_t *topo);
/**
 * Ranks by vendor; vendors with more bandwidth to the network split along servers until there are
 * `nclusters` clusters of about equal bandwidth.
 *
 * @param nclusters  0: one per vendor; CCL_I_C2C_BALANCED: as many as give all about the
 *                   bandwidth of the poorest vendor.
 * @retval CCL_UNSUPPORTED  fewer than two clusters, no route out of one, or fewer
 * servers than clusters.
 * @par Source  HetCCL, sections 4.2.1 and 4.4.
 */
ccl_status_t ccl_i_c2c_map_init(ccl_i_cluster_t *cluster, uint32_t nclusters, ccl_i_c2c_map_t *out,
                                ccl_error_t *err);
void ccl_i_c2c_map_fini(ccl_i_c2c_map_t *map);
#define CCL_I_C2C_BALANCED CCL_NONE

/** Who carries what: items of equal size to the border ranks of a cluster, by their shares. */
typedef struct ccl_i_c2c_item {
    uint32_t prefer; /* rank that takes it if it may; CCL_NONE: any */
    uint32_t avoid;  /* rank that must not; CCL_NONE */
    uint32_t peer;   /* rank at the other end; CCL_NONE */
} ccl_i_c2c_item_t;
/**
 * @param outward  items leave for their peers; else they come from there. A border without a route
 *                 takes none.
 * @param border_out  [n] indices into the cluster's borders; CCL_NONE where only the rank to avoid
 *                    could.
 * @retval CCL_UNSUPPORTED  no border has a route to an item's peer.
 */
ccl_status_t ccl_i_c2c_assign(const ccl_i_cluster_t *cluster, const ccl_i_c2c_cluster_t *to,
                              bool outward, uint32_t n, const ccl_i_c2c_item_t *items,
                              uint32_t *border_out, ccl_error_t *err);

/* ---------------------------------------------------------------- inside clusters (c2c_hom.c) */

/** One hop of a chunk inside a cluster, ranks of the whole. */
typedef struct ccl_i_c2c_hop {
    uint32_t src, dst, step;
    uint16_t channel;
    uint8_t reduce;
} ccl_i_c2c_hop_t;

/** A homogeneous collective (homColl) of a cluster, by chunk, in order of steps. */
typedef struct ccl_i_c2c_hom {
    uint32_t nchunks; /* 0: a single rank, nothing to do */
    uint32_t parts;   /* chunks of a block */
    uint32_t nchannels, nsteps;
    const char *by;  /* synthesizer; NULL: nobody */
    uint32_t *first; /* [nchunks + 1] */
    ccl_i_c2c_hop_t *hops;
} ccl_i_c2c_hom_t;

typedef struct ccl_i_c2c_hom_want {
    ccl_collective_kind_t kind;
    uint32_t root;     /* position in the cluster */
    const char *inner; /* synthesizer; NULL: the fastest of a few by simulation */
    double size_bytes; /* of the cluster's collective */
    double sms_share;  /* of a GPU's thread blocks that it may use */
    uint32_t channels; /* 0: the synthesizer's choice */
} ccl_i_c2c_hom_want_t;

/**
 * A cluster's collective by one of our synthesizers.
 * @retval CCL_UNSUPPORTED  the cluster does not hang together, or `inner` cannot do it.
 */
ccl_status_t ccl_i_c2c_hom_init(const ccl_ctx_t *ctx, const ccl_i_cluster_t *whole,
                                const ccl_i_c2c_cluster_t *cluster,
                                const ccl_i_c2c_hom_want_t *want,
                                const ccl_synth_options_t *options, ccl_i_c2c_hom_t *out,
                                ccl_error_t *err);
void ccl_i_c2c_hom_fini(ccl_i_c2c_hom_t *hom);
/** Of a block's chunks the one for part `part` of `parts`. */
static inline uint32_t ccl_i_c2c_hom_chunk(const ccl_i_c2c_hom_t *hom, uint32_t block,
                                           uint32_t part, uint32_t parts) {
    uint32_t stride = hom->parts > parts ? hom->parts / parts : 1;
    return block * hom->parts + (uint32_t)((uint64_t)part * stride % hom->parts);
}

#endif
