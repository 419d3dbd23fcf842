/**
 * @file cluster.h
 * A cluster before expansion: server types, how many of each in which order, and the fabric between
 * them. Filled by compact.c (JSON) and synthetic.c (one-liners), expanded by fabric.c; private.
 */
#ifndef CCL_TOPOLOGIES_CLUSTER_H
#define CCL_TOPOLOGIES_CLUSTER_H

#include "topologies/topologies.h"

/** Bounds of an expansion: a few lines of input must not ask for the whole memory. */
#define CCL_I_CLUSTER_MAX_SERVERS 4096u
#define CCL_I_CLUSTER_MAX_GPUS 8192u
#define CCL_I_CLUSTER_MAX_DEVICES ((uint64_t)1 << 18)
#define CCL_I_CLUSTER_MAX_LINKS ((uint64_t)1 << 21) /**< directed; also the sum over groups */
#define CCL_I_CLUSTER_MAX_SWITCHES 4096u            /**< of one tier of a fabric */

typedef struct ccl_i_part_device {
    const char *id; /**< inside its server: "gpu3" */
    ccl_device_kind_t kind;
    const char *model;        /**< GPUs; NULL: none */
    const ccl_device_t *able; /**< what a switch can do; NULL: nothing */
} ccl_i_part_device_t;

typedef struct ccl_i_part_link {
    uint32_t from, to; /**< device indices inside the server */
    const char *kind;
    double bandwidth_Bps, latency_s, contention;
    uint32_t lanes;
    bool duplex;
} ccl_i_part_link_t;

typedef struct ccl_i_part_group {
    const char *name;
    double bandwidth_Bps;
    uint32_t *links; /**< directed link numbers inside the server, in the order they are added */
    uint32_t nlinks;
} ccl_i_part_group_t;

/** Where the fabric attaches to a server. */
typedef struct ccl_i_port {
    uint32_t device;
    double bandwidth_Bps, latency_s;
    bool out, in; /**< towards the fabric, from the fabric; at least one */
} ccl_i_port_t;

typedef struct ccl_i_server_type {
    const char *name;
    const char *profile; /**< of the library, that it names as its own; NULL: none */
    ccl_i_part_device_t *devices;
    ccl_i_part_link_t *links;
    ccl_i_part_group_t *groups;
    ccl_i_port_t *ports;
    uint32_t ndevices, nlinks, ngroups, nports;
    uint32_t ngpus;
    uint32_t ndirected;   /**< links counted by direction */
    uint64_t ngrouplinks; /**< sum over groups */
} ccl_i_server_type_t;

typedef enum ccl_i_fabric_kind {
    CCL_I_FABRIC_NONE, /**< one server, its ports lead nowhere */
    CCL_I_FABRIC_SINGLE,
    CCL_I_FABRIC_RAIL,
    CCL_I_FABRIC_CLOS,
    CCL_I_FABRIC_DIRECT
} ccl_i_fabric_kind_t;

/** A wire of the direct fabric: port of one server to port of another. */
typedef struct ccl_i_cable {
    uint32_t from_server, from_port, to_server, to_port;
    double bandwidth_Bps, latency_s;
    bool duplex;
} ccl_i_cable_t;

/** Zero (or 0.0) means "not given" in every member but those that say otherwise. */
typedef struct ccl_i_fabric {
    ccl_i_fabric_kind_t kind;
    double bandwidth_Bps; /**< replaces the ports' own */
    double latency_s;     /**< replaces the ports' own; < 0: not given */
    double contention;    /**< of every link of the fabric */
    uint32_t rails;       /**< rail: default the fewest ports of a server; clos: leaves per block */
    uint32_t spines;      /**< rail: 0 = rails are not joined; clos: at least 1 (per pod) */
    double uplink_Bps;    /**< one link between a leaf (or rail) and a spine */
    double uplink_latency_s;                   /**< < 0: not given, a port's */
    double oversubscription;                   /**< default 1; the leaf's ports to its uplinks */
    uint32_t servers_per_leaf, ports_per_leaf; /**< clos: exactly one of them */
    uint32_t leaves_per_pod;      /**< clos: a third tier joins pods of this many leaves */
    uint32_t cores;               /**< default 1 */
    double core_oversubscription; /**< default 1 */
    double core_Bps;
    double core_latency_s; /**< < 0: not given, a port's */
    const ccl_i_cable_t *wires;
    uint32_t nwires;
    const ccl_device_t *able; /**< what its switches can do; NULL: nothing */
} ccl_i_fabric_t;

typedef struct ccl_i_cluster_spec {
    const ccl_i_server_type_t *types;
    uint32_t ntypes;
    const uint32_t *servers; /**< [nservers] index into types */
    uint32_t nservers;
    ccl_i_fabric_t fabric;
} ccl_i_cluster_spec_t;

#define CCL_I_FABRIC_INIT                                                                          \
    { .latency_s = -1, .uplink_latency_s = -1, .core_latency_s = -1 }

/** Check the bounds above on what `cluster` would expand to. */
ccl_status_t ccl_i_cluster_check(const ccl_i_cluster_spec_t *cluster, ccl_error_t *err);
/**
 * Add every server's devices, links and groups to `b`, which must be empty, then the fabric.
 * Ids are "s0/gpu3" in servers and "fabric/..." in the fabric; ranks count by server, then in the
 * server's order.
 */
ccl_status_t ccl_i_cluster_expand(const ccl_ctx_t *ctx, const ccl_i_cluster_spec_t *cluster,
                                  ccl_topology_builder_t *b, ccl_error_t *err);

#endif
