/*
 * What a one-liner says; private to synthetic*.c.
 */
#ifndef CCL_TOPOLOGIES_SYNTHETIC_H
#define CCL_TOPOLOGIES_SYNTHETIC_H

#include "topologies/cluster.h"

typedef enum ccl_i_mesh_shape {
    SHAPE_NONE,
    SHAPE_SWITCH,
    SHAPE_MESH,
    SHAPE_RING
} ccl_i_mesh_shape_t;

/* One kind of server, as its words say. */
typedef struct ccl_i_synthetic_part {
    size_t at; /* where it begins, for messages */
    uint32_t servers, gpus, nics;
    ccl_i_mesh_shape_t shape;
    const char *kind; /* of the links between GPUs */
    double mesh_Bps, mesh_s;
    double nic_Bps, nic_s;
    double pcie_Bps, pcie_s;
    const char *model;
    double copy_Bps, reduce_Bps, launch_s;
    uint32_t sms;
    bool nvls;     /* the switch can multicast and reduce */
    uint32_t seen; /* bit per key */
} ccl_i_synthetic_part_t;

typedef struct ccl_i_synthetic_parser {
    const ccl_ctx_t *ctx;
    ccl_error_t *err;
    const char *text;
    ccl_arena_t arena;
    ccl_i_synthetic_part_t *parts;
    size_t nparts, cparts;
    ccl_i_fabric_t fabric;
    size_t fabric_at;
    ccl_transport_t transport; /* the same for every kind of link */
    uint32_t given;            /* of it */
    uint32_t seen;
} ccl_i_synthetic_parser_t;

/** Refuse the text at position `at`. */
ccl_status_t ccl_i_synthetic_refuse(const ccl_i_synthetic_parser_t *p, size_t at, const char *fmt,
                                    ...) CCL_PRINTF(3, 4);
/**
 * The library's first server with the GPU model of this part.
 * @param out  destroy with ccl_topology_destroy(); NULL: there is none.
 */
ccl_status_t ccl_i_synthetic_known(ccl_i_synthetic_parser_t *p, size_t part, ccl_topology_t **out);
/** Constants of a part's GPUs: its words', else those of `known`, which may be NULL. */
void ccl_i_synthetic_gpu(const ccl_topology_t *known, const ccl_i_synthetic_part_t *part,
                         ccl_gpu_model_t *out);
/** Transports of these kinds of links as that server has them, where it is the same for all parts.
 */
ccl_status_t ccl_i_synthetic_transports(ccl_i_synthetic_parser_t *p, ccl_topology_builder_t *b,
                                        const char *const *kinds, size_t nkinds);
/** The cluster that the words describe. */
ccl_status_t ccl_i_synthetic_build(ccl_i_synthetic_parser_t *p, ccl_topology_builder_t *b,
                                   ccl_topology_t **out);

#endif
