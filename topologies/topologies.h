/**
 * @file topologies.h
 * Clusters as graphs: devices joined by directed links, groups with one capacity, routes between
 * GPUs; readers for every format a cluster can come in; the library of servers and clusters;
 * what-if edits.
 */
#ifndef CCL_TOPOLOGIES_TOPOLOGIES_H
#define CCL_TOPOLOGIES_TOPOLOGIES_H

#include "base/base.h"

CCL_BEGIN_DECLS

typedef enum ccl_device_kind {
    CCL_DEVICE_GPU,
    CCL_DEVICE_SWITCH,
    CCL_DEVICE_NIC,
    CCL_DEVICE_HOST
} ccl_device_kind_t;

typedef struct ccl_device {
    const char *id;
    ccl_device_kind_t kind;
    uint32_t server; /**< index into servers, CCL_NONE when not given */
    uint32_t rank;   /**< GPUs: 0..nranks-1; others CCL_NONE */
    uint32_t model;  /**< index into gpu_models; CCL_NONE: no limits, no costs */
    /* What a switch can do with data that pass it; other devices have none of it. */
    bool multicast;         /**< one copy in, several out */
    bool reduce;            /**< several parts in, their sum out */
    uint32_t groups;        /**< most multicast groups at a time; 0: no limit */
    double reduce_rate_Bps; /**< of all its reductions, in bytes of results; INFINITY: no limit */
    const char *types;      /**< names of the types it can sum, one blank between; NULL: any */
} ccl_device_t;
/** Whether the switch has `reduce` and can sum a type. @param type  name such as "bf16". */
bool ccl_device_sums(const ccl_device_t *device, const char *type);

/** Directed. A duplex link of a file is two of these, the given direction first. */
typedef struct ccl_link {
    uint32_t from, to; /**< device indices */
    uint32_t kind;     /**< index into kinds */
    uint32_t lanes;    /**< >= 1; bandwidth_Bps is the whole link's */
    double bandwidth_Bps;
    double latency_s;
    double contention; /**< kappa >= 0 (slope of the contention penalty) */
} ccl_link_t;

/** Set of directed links that share one capacity; a flow counts once for each of its links in it.
 */
typedef struct ccl_group {
    const char *name;
    double bandwidth_Bps;
    uint32_t nlinks;
    const uint32_t *links;
} ccl_group_t;

/** How data get from a GPU's memory to the wire (HetCCL, Peking University and BAAI, figure 2). */
typedef enum ccl_mechanism {
    CCL_MECHANISM_DEVICE, /**< (a) "device": the GPU's thread blocks; the other keys say how */
    CCL_MECHANISM_HOST,   /**< (b) "host": copied to host memory, sent, copied to the device */
    CCL_MECHANISM_PROXY   /**< (c) "proxy": the host drives copies to and from buffers on devices */
} ccl_mechanism_t;
const char *ccl_mechanism_name(ccl_mechanism_t mechanism); /**< "device", "host", "proxy" */

/** Constants of a connection, "The model" of docs/model.md. Unlimited is INFINITY. */
typedef struct ccl_transport {
    double overhead_s;  /**< once per primitive and micro-batch; default 0 */
    double latency_s;   /**< added to the links' for every slice; default 0 */
    double tb_rate_Bps; /**< what one thread block moves; default INFINITY */
    double slice_bytes; /**< most bytes of a slice; default INFINITY */
    double piece_bytes; /**< bound on chunk bytes of a micro-batch; default INFINITY */
    uint32_t slices;    /**< least number of slices of a primitive; default 1 */
    uint32_t slots;     /**< FIFO depth in slices; default 8 */
    bool direct;        /**< the receiver need not copy out; default true */
    bool holds_tb;      /**< sender busy until the slice drains; default true, false for "net" and
                             "net-switch" */
    ccl_mechanism_t mechanism; /**< default CCL_MECHANISM_DEVICE */
    /** Of the two other mechanisms: into the buffer that the NIC sends, out of the one that it
        fills. Default INFINITY. */
    double copy_in_Bps, copy_out_Bps;
    double wire;          /**< bytes on links per byte of data, at least 1; default 1 */
    double message_s;     /**< of its narrowest link that a message takes besides; default 0 */
    double message_bytes; /**< most data of a message; default INFINITY, a message per primitive */
} ccl_transport_t;

/** One protocol's override of a transport, or (protocol NULL) the transport itself. */
typedef struct ccl_transport_spec {
    const char *kind;     /**< "nvlink", "pcie", "net", ...; of switch connections, where they have
                               one of their own, "nvlink-switch", "net-switch", ... */
    const char *protocol; /**< "Simple", "LL", "LL128"; NULL: all */
    uint32_t given;       /**< bit per key that was given, CCL_TRANSPORT_* */
    ccl_transport_t value;
    /** What gave `slots`: a file, an entry of the library, "profile NAME" or an edit
       ("set:slots=4"); NULL: not known. */
    const char *slots_from;
} ccl_transport_spec_t;
enum {
    CCL_TRANSPORT_OVERHEAD = 1,
    CCL_TRANSPORT_LATENCY = 2,
    CCL_TRANSPORT_TB_RATE = 4,
    CCL_TRANSPORT_SLICE = 8,
    CCL_TRANSPORT_PIECE = 16,
    CCL_TRANSPORT_SLICES = 32,
    CCL_TRANSPORT_SLOTS = 64,
    CCL_TRANSPORT_DIRECT = 128,
    CCL_TRANSPORT_HOLDS_TB = 256,
    CCL_TRANSPORT_MECHANISM = 512,
    CCL_TRANSPORT_COPY_IN = 1024,
    CCL_TRANSPORT_COPY_OUT = 2048,
    CCL_TRANSPORT_WIRE = 4096,
    CCL_TRANSPORT_MESSAGE = 8192,
    CCL_TRANSPORT_MESSAGE_SIZE = 16384,
    CCL_TRANSPORT_ALL = 32767
};

/** NCCL's protocols: names in files and programs, in this order wherever there is one. */
typedef enum ccl_protocol {
    CCL_PROTOCOL_SIMPLE,
    CCL_PROTOCOL_LL,
    CCL_PROTOCOL_LL128,
    CCL_PROTOCOLS
} ccl_protocol_t;
const char *ccl_protocol_name(ccl_protocol_t protocol); /**< "Simple", "LL", "LL128"; static */
/** @return CCL_PROTOCOLS: there is none of that name. @param name  NULL is none. */
ccl_protocol_t ccl_protocol_find(const char *name);
/**
 * All protocols in the order in which runs under each are best made: the one with fewest
 * micro-batches first, so that runs under the others are soon known to take longer.
 * @param i  0 to CCL_PROTOCOLS - 1
 */
ccl_protocol_t ccl_protocol_turn(uint32_t i);
/** May programs of a protocol go through switches? Simple alone (also NULL): lines of LL and LL128
 * have flags among their data, which a switch would add up; NCCL's NVLS is Simple, too. */
bool ccl_protocol_switches(const char *name);
/** Bytes of a collective; above, schedules that are fast at all are fastest with Simple. */
#define CCL_LINES_BYTES 0x1p26

typedef struct ccl_gpu_model {
    const char *name;
    const char *vendor; /**< "" when not given */
    uint32_t sms;       /**< 0: not given; the most thread blocks */
    double copy_rate_Bps;
    double reduce_rate_Bps; /**< 1/gamma */
    double overhead_s;      /**< of cpy and re */
    double flag_s;          /**< from a done primitive to blocks that depend on it */
    double launch_s;        /**< of programs whose protocol has none of its own */
    uint32_t launches;      /**< bit per ccl_protocol_t that has one of its own */
    double protocol_launch_s[CCL_PROTOCOLS]; /**< where the bit is set */
} ccl_gpu_model_t;

/** Immutable after building. All arrays and strings live in its arena. */
typedef struct ccl_topology {
    const char *name;
    const char *source; /**< where the numbers come from; "" when not given */
    const char *note;
    const char *profile;       /**< name of the profile laid over it; "" when none was */
    const char *profile_about; /**< what that was fitted to, in a line; "" */
    const char *own_profile;   /**< of the library, that its servers name as theirs; "" */
    uint32_t ndevices, nlinks, ngroups, nservers, nranks, nkinds, ntransports, ngpu_models;
    const ccl_device_t *devices;
    const ccl_link_t *links; /**< file order */
    const ccl_group_t *groups;
    const char *const *servers; /**< names */
    const char *const *kinds;   /**< link kinds in order of appearance */
    const ccl_transport_spec_t *transports;
    const ccl_gpu_model_t *gpu_models;
    const uint32_t *rank_device;      /**< [nranks] device of a rank */
    const uint32_t *rank_local_index; /**< [nranks] position among its server's GPUs in rank order;
                                           the rank itself where no server is given */
    const uint32_t *out_first;        /**< [ndevices + 1] into out_links */
    const uint32_t *out_links;        /**< link indices by source device, ascending */
    ccl_arena_t arena;
} ccl_topology_t;

/* ---------------------------------------------------------------- building */

/** Collects parts; ids are checked on the way, the whole on finish. Names are copied. */
typedef struct ccl_topology_builder ccl_topology_builder_t;
ccl_topology_builder_t *ccl_topology_builder_create(const char *name);
/** Frees it and all it owns; NULL is fine. */
void ccl_topology_builder_destroy(ccl_topology_builder_t *b);
void ccl_topology_builder_about(ccl_topology_builder_t *b, const char *source, const char *note);
/** The profile whose constants the topology has. */
void ccl_topology_builder_profile(ccl_topology_builder_t *b, const char *name, const char *about);
/** @param server NULL: none. @param rank CCL_NONE for what is no GPU. @param model NULL: none. */
ccl_status_t ccl_topology_builder_device(ccl_topology_builder_t *b, const char *id,
                                         ccl_device_kind_t kind, const char *server, uint32_t rank,
                                         const char *model, uint32_t *index_out, ccl_error_t *err);
/**
 * Give a device what a switch can do: multicast, reduce, groups, reduce_rate_Bps and types of
 * `like`, whose other members do not count. A device has none of it before.
 * @retval CCL_ERR_INPUT  the device is no switch; groups without an ability; reduce_rate_Bps (other
 *                        than INFINITY) or types without reduce; a rate that is not positive; types
 *                        that are no list of different words.
 */
ccl_status_t ccl_topology_builder_abilities(ccl_topology_builder_t *b, uint32_t device,
                                            const ccl_device_t *like, ccl_error_t *err);
/** One directed link. */
ccl_status_t ccl_topology_builder_link(ccl_topology_builder_t *b, uint32_t from, uint32_t to,
                                       const char *kind, double bandwidth_Bps, double latency_s,
                                       uint32_t lanes, double contention, ccl_error_t *err);
/** Two directed links, from -> to first. */
ccl_status_t ccl_topology_builder_duplex(ccl_topology_builder_t *b, uint32_t from, uint32_t to,
                                         const char *kind, double bandwidth_Bps, double latency_s,
                                         uint32_t lanes, double contention, ccl_error_t *err);
/** Group over directed link indices (in the order they were added). */
ccl_status_t ccl_topology_builder_group(ccl_topology_builder_t *b, const char *name,
                                        double bandwidth_Bps, const uint32_t *links,
                                        uint32_t nlinks, ccl_error_t *err);
ccl_status_t ccl_topology_builder_transport(ccl_topology_builder_t *b,
                                            const ccl_transport_spec_t *spec, ccl_error_t *err);
ccl_status_t ccl_topology_builder_gpu_model(ccl_topology_builder_t *b, const ccl_gpu_model_t *model,
                                            ccl_error_t *err);
uint32_t ccl_topology_builder_find(const ccl_topology_builder_t *b, const char *id);
/** Defaults of every transport key ("net" and "net-switch" do not hold the block). */
ccl_transport_t ccl_transport_default(const char *kind);
ccl_gpu_model_t ccl_gpu_model_default(const char *name);
/**
 * Check the whole (ranks dense from 0, rates positive, every GPU reachable from every other when
 * GPUs may relay, groups over existing links, ...) and freeze it.
 * @param out  destroy with ccl_topology_destroy().
 */
ccl_status_t ccl_topology_builder_finish(ccl_topology_builder_t *b, ccl_topology_t **out,
                                         ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_topology_destroy(ccl_topology_t *topo);

/* ---------------------------------------------------------------- routes */

/** Link indices of one route, in order. Borrowed from the table. */
typedef struct ccl_route {
    const uint32_t *links;
    uint32_t nlinks;
    uint32_t index;        /**< its number among the routes its ccl_routes_t holds, from 0: for
                                tables beside them */
    double latency_s;      /**< sum of L_l */
    double bottleneck_Bps; /**< narrowest B */
    bool crosses_net;      /**< some link is of kind "net" */
    bool crosses_pcie;     /**< some link is of kind "pcie" */
    uint32_t first_kind;   /**< kind index of its first link */
} ccl_route_t;

/** Computes and keeps routes; not thread-safe (one per thread). Borrows the topology. */
typedef struct ccl_routes ccl_routes_t;
ccl_routes_t *ccl_routes_create(const ccl_topology_t *topo);
/** Frees it and all it owns; NULL is fine. */
void ccl_routes_destroy(ccl_routes_t *routes);
/**
 * The route of connection (src, dst, channel), docs/model.md "Routes": never through a third GPU;
 * nvlink/xgmi-only routes first, then fewest links, widest bottleneck, least latency (within
 * 1e-15 s); where m > 1 next links lie on such routes, number (local index of src + channel) mod m.
 *
 * @retval CCL_ERR_INPUT  no route; names both GPUs.
 */
ccl_status_t ccl_routes_get(ccl_routes_t *routes, uint32_t src_rank, uint32_t dst_rank,
                            uint32_t channel, const ccl_route_t **out, ccl_error_t *err);
/** How many distinct next-link choices the (src, dst) routes offer at the widest fork; 0: no route.
 */
uint32_t ccl_routes_width(ccl_routes_t *routes, uint32_t src_rank, uint32_t dst_rank);
/** Channels after which the (src, dst) routes come again in order; 0: no route. */
uint32_t ccl_routes_period(ccl_routes_t *routes, uint32_t src_rank, uint32_t dst_rank);

/**
 * Route of a switch connection: union of the routes between one GPU and several through a root
 * switch. Borrowed from the table.
 */
typedef struct ccl_tree {
    /** The union, every link once: in a multicast the single GPU's way first, then the members' in
        their order; in a reducing one the members' ways, then the single GPU's. latency_s is the
        largest of latency_s[], bottleneck_Bps is over all links. */
    ccl_route_t route;
    uint32_t root;            /**< device */
    const double *latency_s;  /**< [nmembers] sum of L_l on the member's way: single, root, member
                                   (multicast) or member, root, single (reducing) */
    const uint32_t *reducers; /**< [nreducers] devices, ascending: switches where two or more
                                   branches join; none in a multicast */
    const uint32_t *copiers;  /**< [ncopiers] likewise, switches where a multicast branches */
    uint32_t nmembers, nreducers, ncopiers;
} ccl_tree_t;

/**
 * The tree of switch connection (single, members, channel): a multicast from `single` to the
 * members or, with `reduces`, a reduction of the members' data to `single`.
 *
 * Any switch may be the root. The ways from a GPU to the root and from the root to a GPU are chosen
 * as routes are: never through a GPU; over nvlink and xgmi alone where that reaches; fewest links,
 * then widest bottleneck, then least latency (within 1e-15 s); where m > 1 next links lie on such
 * ways, walking from the way's source, all branches take number (local index of `single` + channel)
 * mod m in order of link index.
 *
 * The members' ways must form a tree: in a multicast no device is entered by two of their links, in
 * a reduction none is left by two. Every switch where a multicast branches (two or more of their
 * links leave it) must have `multicast`, every one where a reduction joins (two or more enter it)
 * must have `reduce`; other devices do neither. The single GPU's way is counted apart, as it may
 * pass the same devices the other way (always, when the single GPU is a member too and has the way
 * to the root and back), but no link lies on it and on a member's way.
 *
 * Of the roots that are left the best is the one with, in this order: only nvlink and xgmi links;
 * fewest links in the union; widest bottleneck; least sum of latencies over the union's links
 * (those within 1e-15 s of the least are equal); lowest device index.
 *
 * @param members  ranks, ascending and distinct; may hold `single`. @param nmembers  at least 1.
 * @param out  kept by `routes`; equal questions give the same tree.
 * @retval CCL_ERR_INPUT    a rank that is none, or members that do not ascend.
 * @retval CCL_UNSUPPORTED  no root; says of which switch that is nearest to one why not.
 * @par Complexity  a breadth-first search per switch, kept while there is room, and the links of
 *                  the ways per root that may be best; channels that agree at all forks share a
 *                  tree.
 */
ccl_status_t ccl_routes_tree(ccl_routes_t *routes, bool reduces, uint32_t single,
                             const uint32_t *members, uint32_t nmembers, uint32_t channel,
                             const ccl_tree_t **out, ccl_error_t *err);
/**
 * Whether ccl_routes_tree() has a tree, at channel 0, between each rank of a set and the whole set.
 * @param ranks  ascending and distinct.
 */
bool ccl_topology_in_switch(const ccl_topology_t *topo, bool reduces, const uint32_t *ranks,
                            uint32_t n);
/** Whether some switch multicasts or reduces. */
bool ccl_topology_able(const ccl_topology_t *topo);
/**
 * The same cluster with switches that do neither.
 * @param out  borrows all of `topo` but its devices. @param devices  these: free() them.
 */
ccl_status_t ccl_topology_unable(const ccl_topology_t *topo, ccl_topology_t *out,
                                 ccl_device_t **devices, ccl_error_t *err);

/* ---------------------------------------------------------------- reading and writing */

/**
 * Read a cluster in any form: path of our JSON (explicit or compact), HeteCCL DSL, NCCL/RCCL
 * topology XML, output of nvidia-smi topo -m or rocm-smi --showtopo ("FILE,gpu=H100,nic=400Gbit/s"
 * adds what that does not say); "-" for stdin; "here" for this machine; a name of the library
 * ("dgx-a100", "heteccl-h20-4+8"); or a synthetic one-liner ("servers:4 gpus:8
 * nvswitch=300GB/s,0.7us,nvls nics:4x25GB/s,2us fabric=rail,sharp"). Formats are told apart by
 * content.
 */
ccl_status_t ccl_topology_read(const ccl_ctx_t *ctx, const char *spec, ccl_topology_t **out,
                               ccl_error_t *err);
/**
 * The machine that the program runs on, "here" for ccl_topology_read(): GPUs and their links by
 * NVML or ROCm SMI where their libraries are, else by PCI class; PCI tree, NUMA nodes and RDMA NICs
 * by hwloc. What these do not say is assumed, with a warning each (docs/import.md).
 * @retval CCL_ERR_MISSING  there is no GPU; says where it was looked for.
 */
ccl_status_t ccl_topology_here(const ccl_ctx_t *ctx, ccl_topology_t **out, ccl_error_t *err);
/** The same from memory; `name` is for messages. */
ccl_status_t ccl_topology_read_text(const ccl_ctx_t *ctx, const char *name, const char *text,
                                    size_t len, ccl_topology_t **out, ccl_error_t *err);
/** Explicit JSON, deterministic, one device or link a line. Reads back to an equal topology. */
ccl_status_t ccl_topology_write_json(const ccl_topology_t *topo, ccl_text_t *out, ccl_error_t *err);

/* Format readers behind ccl_topology_read_text; public for tests and fuzzing. The JSON one reads
 * the explicit form only. */
ccl_status_t ccl_topology_read_json(const ccl_ctx_t *ctx, const char *name, const char *text,
                                    size_t len, ccl_topology_t **out, ccl_error_t *err);
ccl_status_t ccl_topology_read_heteccl(const ccl_ctx_t *ctx, const char *name, const char *text,
                                       size_t len, ccl_topology_t **out, ccl_error_t *err);
ccl_status_t ccl_topology_read_nccl_xml(const ccl_ctx_t *ctx, const char *name, const char *text,
                                        size_t len, ccl_topology_t **out, ccl_error_t *err);
/** Output of `nvidia-smi topo -m`, `rocm-smi --showtopo` or `amd-smi topology`, with that of other
    tools around it. */
ccl_status_t ccl_topology_read_smi(const ccl_ctx_t *ctx, const char *name, const char *text,
                                   size_t len, ccl_topology_t **out, ccl_error_t *err);
ccl_status_t ccl_topology_read_synthetic(const ccl_ctx_t *ctx, const char *text,
                                         ccl_topology_t **out, ccl_error_t *err);

/** How ccl_topology_join() wires the nodes. */
typedef enum ccl_join_fabric {
    CCL_JOIN_SINGLE, /**< all net links to one switch */
    CCL_JOIN_RAIL    /**< the i-th net link of every node to switch i; the switches to one spine */
} ccl_join_fabric_t;
typedef struct ccl_topology_join_options {
    size_t size; /**< sizeof this struct */
    ccl_join_fabric_t fabric;
    const char *name; /**< of the result; NULL: made of the nodes' names */
    bool sharp;       /**< the fabric's switches multicast and reduce */
} ccl_topology_join_options_t;
/** The defaults. */
#define CCL_TOPOLOGY_JOIN_OPTIONS_INIT                                                             \
    { sizeof(ccl_topology_join_options_t), CCL_JOIN_SINGLE, NULL, false }
/**
 * One machine whose ranks share its workers: every flow crosses one link of kind "host", from the
 * switch "queue" to the switch "workers".
 *
 * @param core       model of all ranks.
 * @param workers_Bps, latency_s  of that link.
 * @param transport  of kind "host"; NULL: the defaults.
 * @param out        destroy with ccl_topology_destroy().
 */
ccl_status_t ccl_topology_host(const char *name, uint32_t nranks, const ccl_gpu_model_t *core,
                               double workers_Bps, double latency_s,
                               const ccl_transport_spec_t *transport, ccl_topology_t **out,
                               ccl_error_t *err);
/**
 * Put topologies side by side and join them by a fabric through their net links.
 *
 * A node's own fabric (switches outside all servers whose links are all of kind net) is replaced,
 * with what its switches can do:
 * its links keep their bandwidth, latency, lanes and contention, and lead to the new fabric. Ids
 * become "n0/gpu0"; ranks count node by node. A rail switch and the spine are joined with the sum
 * of the rail's NIC bandwidths (non-blocking).
 *
 * @param nodes  borrowed; the same topology may stand in several places.
 * @param options  NULL: defaults.
 * @param out    destroy with ccl_topology_destroy().
 * @retval CCL_ERR_INPUT  a node has no net links to join it by (n > 1), or the result is too large.
 */
ccl_status_t ccl_topology_join(const ccl_ctx_t *ctx, const ccl_topology_t *const *nodes, uint32_t n,
                               const ccl_topology_join_options_t *options, ccl_topology_t **out,
                               ccl_error_t *err);
/**
 * Several nodes in one word: "A.xml*4", "A.xml*2+B.xml", "A.xml*8,fabric=rail",
 * "A.xml*8,fabric=single,sharp"; each part is what
 * ccl_topology_read() takes. A "+" parts nodes only behind ".xml", ".json" or a count.
 */
ccl_status_t ccl_topology_read_nodes(const ccl_ctx_t *ctx, const char *spec, ccl_topology_t **out,
                                     ccl_error_t *err);
/** Whether a word has the form that ccl_topology_read_nodes() takes. */
bool ccl_topology_is_nodes(const char *spec);

/** An entry of the built-in library. */
typedef struct ccl_library_entry {
    const char *name;
    bool is_server;
    const char *summary; /**< one line */
    const char *text;    /**< its JSON */
    size_t len;
} ccl_library_entry_t;
/** All entries, servers first, by name; ends with name NULL. Static. */
const ccl_library_entry_t *ccl_topology_library(void);
const ccl_library_entry_t *ccl_topology_library_find(const char *name);

/* ---------------------------------------------------------------- profiles */

/**
 * Measured constants of one kind of machine, "ccllab-profile-1" (docs/formats.md): keys of
 * transports and GPU models, and the efficiency of links by kind, to be laid over a topology.
 */
typedef struct ccl_profile ccl_profile_t;
/**
 * Read a profile: a file, "-" for stdin, or a name of the library ("nccl-h100").
 * @param out  destroy with ccl_profile_destroy().
 */
ccl_status_t ccl_profile_read(const char *spec, ccl_profile_t **out, ccl_error_t *err);
/** The same from memory; `name` is for messages. */
ccl_status_t ccl_profile_read_text(const char *name, const char *text, size_t len,
                                   ccl_profile_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_profile_destroy(ccl_profile_t *profile);
const char *ccl_profile_name(const ccl_profile_t *profile); /**< borrowed */
/** The profile as JSON, with these constants of one transport put in place of its own.
 * @param kind  "nvlink-switch" ...; NULL: as it is. @param constants  a JSON object; ignored then.
 */
ccl_status_t ccl_profile_write(const ccl_profile_t *profile, const char *kind,
                               const char *constants, ccl_text_t *out, ccl_error_t *err);
const char *ccl_profile_source(const ccl_profile_t *profile); /**< the runs it was fitted to; "" */
/** Whether a command fitted it to runs; others put published figures together (net-gloo). */
bool ccl_profile_is_fitted(const ccl_profile_t *profile);
const char *ccl_profile_summary(const ccl_profile_t *profile); /**< one line; "" */
/**
 * The library's profile for a cluster: the one that its servers name (own_profile), else the first
 * by name of those that a command fitted to runs, that has every GPU model of the cluster, and,
 * where it has constants of links, those of one of its kinds.
 *
 * @param out  destroy with ccl_profile_destroy(); NULL: there is none, or the cluster has a profile
 * already.
 */
ccl_status_t ccl_profile_for(const ccl_topology_t *topo, ccl_profile_t **out, ccl_error_t *err);
/**
 * A new topology with the profile's constants in place of its own, key by key.
 *
 * Transports are taken for every link of their kind, links keep bandwidth times efficiency and take
 * contention, GPU models are matched by name.
 *
 * @param out  destroy with ccl_topology_destroy().
 * @retval CCL_ERR_INPUT  the profile is of GPU models that the topology does not have.
 */
ccl_status_t ccl_profile_apply(const ccl_ctx_t *ctx, const ccl_profile_t *profile,
                               const ccl_topology_t *topo, ccl_topology_t **out, ccl_error_t *err);
/** What a measured size was off by after the fit. */
typedef struct ccl_curve_point {
    double size_bytes;
    double factor;     /**< measured over predicted, > 0 */
    const char *way;   /**< in which it ran in the prediction: "ring LL128" */
    double measured_s; /**< NAN: not known */
} ccl_curve_point_t;
/** What the runs of one kind that a profile was fitted to were off by, member "curves". */
typedef struct ccl_curve {
    const char *collective; /**< "allreduce" */
    const char *type;       /**< of the elements, as the log says; "" */
    const char *program;    /**< file as the table named it; "": NCCL's own */
    uint32_t nranks, nhosts, npoints;
    const ccl_curve_point_t *points; /**< by size */
} ccl_curve_t;
/** A profile's curves. @param out  borrowed. @return how many. */
uint32_t ccl_profile_curves(const ccl_profile_t *profile, const ccl_curve_t **out);
/** The curve of the same collective, type, program and numbers of ranks and hosts; NULL: none. */
const ccl_curve_t *ccl_curve_find(const ccl_curve_t *curves, uint32_t ncurves,
                                  const ccl_curve_t *like);
/**
 * A prediction times what its curve says that it is off by: measured over predicted, interpolated
 * over the logarithm of the size from the nearest points on each side that ran in the same way;
 * where NCCL's own run has none of that way, from the nearest of any. Beyond the ends that of the
 * last point. Where NCCL changes its way between the neighbours, the machine may do so at another
 * size than the model: then it is the geometric mean of this and of the measured times on both
 * sides, interpolated.
 *
 * @param curve        NULL: the prediction as it is.
 * @param predicted_s  > 0.
 * @return s.
 */
double ccl_curve_time(const ccl_curve_t *curve, double size_bytes, const char *way,
                      double predicted_s);

/** A profile of the built-in library. */
typedef struct ccl_profile_entry {
    const char *name;
    const char *summary; /**< one line */
    const char *text;    /**< its JSON */
    size_t len;
} ccl_profile_entry_t;
/** All built-in profiles by name; ends with name NULL. Static. */
const ccl_profile_entry_t *ccl_profile_library(void);

/* ---------------------------------------------------------------- what-if edits */

/**
 * A new topology with one edit applied. Edits: "fail:gpu:3", "fail:rank:3" (rank 3 removed, ranks
 * renumbered), "fail:nic:ID" / "fail:ID" (device and its links removed), "fail:nic:0" (number 0 of
 * its kind, in the topology's order), "fail:server:NAME" / "fail:server:0" (all devices of a
 * server), "fail:A-B" (links removed, "A->B" one direction), "degrade:A-B=18Gbit/s" (links A->B
 * and B->A take this bandwidth; "A->B=..." one direction; "50%" is a share of what each has),
 * "degrade:nic:0=18Gbit/s", "degrade:server:1=50%" (all links of a device or server, those that
 * leave it too; none becomes faster). A name that is an id or a server's goes before a number. A
 * and B are devices named in any of these ways; ids may hold hyphens. Groups keep the links that
 * are left and their own bandwidth, and go when none is left; the whole is checked again.
 *
 * "scale:QUANTITY[:WHERE]=FACTOR" multiplies constants: bandwidth, latency and contention of the
 * links of a kind ("net"), of those of a kind that touch a server ("net@s0"), of "A-B" or "A->B",
 * or of all; a group goes with its links when all of them are meant, "group:NAME" is one alone.
 * Transports, all or by kind: latency (with the links'), overhead (without a kind the GPU models'
 * too), tb_rate, slots. GPU models: reduce_rate, copy_rate, flag, launch. Rates also take "inf".
 *
 * "set:KEY[:KIND]=VALUE" gives transports of a kind of link, or all, another constant, with every
 * protocol: any key of docs/model.md "Connections" ("set:slice:net=512K"). GPU models: blocks (the
 * most thread blocks; not more than their SMs), reduce_rate, copy_rate, flag, launch. Rates and
 * bytes also take "inf", no limit.
 *
 * "set:multicast[:KIND]=BOOL", "set:reduce[:KIND]=BOOL" and, both at once,
 * "set:in_switch[:KIND]=BOOL" say whether switches can do that: those with links of a kind, or all.
 * What is switched on has no limits.
 *
 * @retval CCL_ERR_INPUT  no such device or link, or what is left is no connected cluster;
 *                        err->where is the edit.
 */
ccl_status_t ccl_topology_edit(const ccl_topology_t *topo, const char *edit, ccl_topology_t **out,
                               ccl_error_t *err);

/**
 * What a name stands for: a kind of link ("net"), a device or server ("nic:0", "server:1", "gpu:3",
 * an id), or "A-B", as in edits. Of a device and a server all links that touch them count.
 * @param links  [nlinks] set to true; NULL: not asked for.
 * @param ranks  [nranks] likewise: the GPU, or those of the server; NULL: not asked for.
 * @retval CCL_ERR_INPUT  there is no such thing, or it is not of what is asked for.
 */
ccl_status_t ccl_topology_select(const ccl_topology_t *topo, const char *name, bool *links,
                                 bool *ranks, ccl_error_t *err);

/** The topology without the other GPUs; ranks keep their order. @param keep  [nranks]. */
ccl_status_t ccl_topology_keep(const ccl_topology_t *topo, const bool *keep, ccl_topology_t **out,
                               ccl_error_t *err);
/**
 * The GPUs that a run used: the first `nranks` of a server, or of `nhosts` servers alike; the
 * topology itself, copied, when it has as many.
 * @param nhosts  0: as few servers as hold them.
 * @retval CCL_ERR_INPUT  the topology does not have that many, or not spread that way.
 */
ccl_status_t ccl_topology_take(const ccl_topology_t *topo, uint32_t nranks, uint32_t nhosts,
                               ccl_topology_t **out, ccl_error_t *err);

CCL_END_DECLS
#endif
