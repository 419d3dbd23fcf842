/**
 * @file models.h
 * Costs: transports resolved per protocol, contention, the alpha-beta-gamma cost of one transfer.
 */
#ifndef CCL_MODELS_MODELS_H
#define CCL_MODELS_MODELS_H

#include "graph/graph.h"
#include "topologies/topologies.h"

CCL_BEGIN_DECLS

/**
 * The transport of link kind `kind` under protocol `proto` (docs/model.md "Connections"). Of
 * mechanisms "host" and "proxy" tb_rate_Bps is copy_in's, and direct and holds_tb are false.
 */
ccl_transport_t ccl_model_transport(const ccl_topology_t *topo, const char *kind,
                                    const char *proto);
/** Who gives `slots` of that transport: its protocol's override, else the kind's own; NULL: nobody,
 * it is the default. */
const ccl_transport_spec_t *ccl_model_slots_spec(const ccl_topology_t *topo, const char *kind,
                                                 const char *proto);
/** What a receiving pass is limited to: copy_out, tb_rate, or no limit where it is direct. */
double ccl_model_receive_Bps(const ccl_transport_t *transport);
/** Transport kind of a route: "net" if it crosses a net link, else "pcie", else its first link's.
 */
const char *ccl_model_route_kind(const ccl_topology_t *topo, const ccl_route_t *route);
/** Transport kind of a switch connection: its tree's kind as a route's, followed by "-switch" where
 * the topology has a transport of that name ("nvlink-switch"). @param route  a tree's union. */
const char *ccl_model_tree_kind(const ccl_topology_t *topo, const ccl_route_t *route);
/** GPU model of a rank; a default without limits or costs when none is given. */
ccl_gpu_model_t ccl_model_gpu(const ccl_topology_t *topo, uint32_t rank);
/** When the GPU of a rank starts the thread blocks of programs of protocol `proto`; NULL: the least
 * of any protocol. */
double ccl_model_launch_s(const ccl_topology_t *topo, uint32_t rank, const char *proto);
/** Has the topology constants of that protocol: a transport's, or a launch? */
bool ccl_model_has_protocol(const ccl_topology_t *topo, const char *proto);
/** Least bytes on links per byte of data, over all kinds of links and, where switches multicast or
 * reduce, of connections through them; proto NULL: of any protocol. */
double ccl_model_wire(const ccl_topology_t *topo, const char *proto);
/**
 * Contention factor eta(z): 1 for z <= 1, else 1 / (1 + kappa (z - 1)).
 * @par Source  ResCCL (SIGCOMM 2025) equation 1, figure 4; kappa = 0 is HeteCCL's linear sharing.
 */
double ccl_model_eta(double kappa, double z);
/** ceil(q (1 - 1e-9)), at least 0: every ceiling of the model. q finite. */
double ccl_model_ceil(double q);
/**
 * tau = alpha + bytes beta (+ bytes gamma when reducing) of one direct transfer, seconds.
 *
 * alpha: the transport's overhead and latency and the links' latency; beta: one over the smaller of
 * the route's bottleneck over the transport's wire and the transport's tb_rate; gamma: one over the
 * receiver's reduce_rate.
 * @par Source  HeteCCL (NSDI 2026) section 4.2, cost of one primitive on one chunk.
 */
double ccl_model_tau(const ccl_topology_t *topo, const ccl_route_t *route, const char *proto,
                     uint32_t dst_rank, double bytes, bool reduce);

/* ---------------------------------------------------------------- symmetry */

/**
 * One dimension of a cluster: a kind of connection, and the groups of GPUs that it joins (SyCCL,
 * SIGCOMM 2025, sections 3.1 and 4; docs/symmetry.md).
 */
typedef struct ccl_dimension {
    const char *name;            /**< "nvlink", "pcie, 4 links", "net, 2 hops" */
    const char *kind;            /**< transport of its routes: "nvlink", "pcie", "net", ... */
    uint32_t hops;               /**< links of its routes; over the network net links */
    uint32_t ngroups;            /**< of two GPUs or more */
    uint32_t nclasses;           /**< of groups */
    uint32_t min_gpus, max_gpus; /**< of a group */
    double min_Bps, max_Bps;     /**< narrowest link of its routes */
    double min_latency_s, max_latency_s; /**< sum of the links' latencies */
    const uint32_t *first;               /**< [ngroups + 1] into ranks */
    const uint32_t *ranks;               /**< GPUs of each group, ascending */
    const uint32_t *group_of;            /**< [nranks] group of a rank; CCL_NONE: in none */
    const uint32_t *class_of; /**< [ngroups] classes by their lowest group: groups of one class are
                                   carried to each other by automorphisms */
    const uint8_t *complete;  /**< [ngroups] every two of its GPUs have a route of this dimension */
} ccl_dimension_t;

typedef struct ccl_symmetry {
    uint32_t nranks, ndimensions;
    uint32_t ngpu_classes;
    uint32_t ngenerators;              /**< of the automorphism group, as found */
    double log10_automorphisms;        /**< log10 of the group's order, approximate */
    const ccl_dimension_t *dimensions; /**< from the fastest and nearest to the widest */
    const uint32_t *gpu_class;         /**< [nranks] GPUs that an automorphism carries to each
                                            other have the same; numbered by lowest rank */
    ccl_arena_t arena;
} ccl_symmetry_t;

/**
 * Dimensions, groups and automorphism classes of a topology. An automorphism keeps devices' kinds
 * and GPU models, servers, links with all their constants, and groups of links; names and the
 * numbers of ranks do not matter. It is exact: classes are orbits of the automorphism group.
 *
 * A dimension is a kind of route between two GPUs: by transport; inside servers by its number of
 * links, and by bandwidth where a link is at least twice as fast as others and joins fewer
 * GPUs (the slower one joins with both); over the network by its number of net links. Its groups
 * are the connected components of the GPUs that such routes join. Where a part failed or is slower,
 * groups stay and fall into classes.
 *
 * @param routes  borrowed.
 * @retval CCL_ERR_NOMEM  also where the child process died that bliss runs in.
 * @par Source  SyCCL (SIGCOMM 2025), section 3.1; search: Junttila, Kaski (ALENEX 2007), bliss.
 */
ccl_status_t ccl_symmetry_find(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, ccl_symmetry_t **out, ccl_error_t *err);
/** Whether a route is one of those that make groups of dimension `dimension`. */
bool ccl_dimension_has(const ccl_topology_t *topo, const ccl_dimension_t *dimension,
                       const ccl_route_t *route);
/** Frees it and all it owns; NULL is fine. */
void ccl_symmetry_destroy(ccl_symmetry_t *symmetry);

/**
 * Which parts of a cluster are alike: those that an automorphism (ccl_symmetry_find()) carries to
 * each other have one class, its lowest member. A failure of one of them is like that of another.
 */
typedef struct ccl_alike {
    uint32_t npairs;
    const uint32_t (*pairs)[2];   /**< [npairs] devices with a link between them, either way; the
                                       lower first, ascending */
    const uint32_t *device_class; /**< [ndevices] */
    const uint32_t *server_class; /**< [nservers] */
    const uint32_t *pair_class;   /**< [npairs] */
    ccl_arena_t arena;
} ccl_alike_t;
/**
 * @param fixed  a device that stays where it is, such as a collective's root; CCL_NONE: none.
 * @param out    destroy with ccl_alike_destroy().
 * @retval CCL_ERR_NOMEM  also where the child process died that bliss runs in.
 */
ccl_status_t ccl_alike_find(const ccl_ctx_t *ctx, const ccl_topology_t *topo, uint32_t fixed,
                            ccl_alike_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_alike_destroy(ccl_alike_t *alike);

/* ---------------------------------------------------------------- capacities and cuts */

/** One arc: a link, or a group of links that share a capacity. */
typedef struct ccl_capacity_arc {
    uint32_t from, to;
    uint32_t link;  /**< CCL_NONE: a group's */
    uint32_t group; /**< CCL_NONE: a link's */
    int64_t units;
} ccl_capacity_arc_t;
/** A topology's bandwidths in whole units. */
typedef struct ccl_capacity {
    const ccl_topology_t *topo; /**< borrowed */
    uint32_t nvertices;         /**< devices first, then groups */
    uint32_t narcs;
    ccl_capacity_arc_t *arcs;
    double unit_Bps;
    bool exact; /**< every rate is a whole number of units, unit_num / unit_den B/s; else rounded up
                 */
    int64_t unit_num, unit_den;
    uint32_t nleft_groups; /**< groups that no vertex stands for: their links do not all leave, or
                                all enter, one device, or overlap with another group there */
    uint32_t *left_groups;
    ccl_graph_t graph; /**< the same vertices and arcs: colours keep device kinds and GPU models,
                            link kinds, latencies, contention and capacities; places are ranks */
    ccl_arena_t arena;
} ccl_capacity_t;
/** @param out  borrows the topology; destroy with ccl_capacity_destroy(). */
ccl_status_t ccl_capacity_create(const ccl_topology_t *topo, ccl_capacity_t **out,
                                 ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_capacity_destroy(ccl_capacity_t *capacity);

/** A partition of the GPUs, and what the links of each part's border carry. */
typedef struct ccl_cut_level {
    const char *what; /**< a part is ...: "a GPU", "a server", "servers behind the same switches" */
    uint32_t nparts;
    uint32_t *part_of;        /**< [nranks] CCL_NONE: in no part */
    uint32_t *device_part;    /**< [ndevices] the same of every device */
    double *out_Bps, *in_Bps; /**< [nparts] of all links that leave, and enter, the part */
} ccl_cut_level_t;
/** Partitions whose parts have narrow borders: cuts that a look at the demand is enough for. */
typedef struct ccl_cut_levels {
    uint32_t nlevels;
    ccl_cut_level_t levels[3];
    ccl_arena_t arena;
} ccl_cut_levels_t;
/**
 * GPUs; servers, where there are two or more; servers with links to the same switches, together
 * with these, where that is neither all nor each alone. Groups of links are left out.
 * @param out  finish with ccl_cut_levels_fini(). @par Complexity  links + servers squared.
 */
ccl_status_t ccl_cut_levels_init(ccl_cut_levels_t *out, const ccl_topology_t *topo,
                                 ccl_error_t *err);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_cut_levels_fini(ccl_cut_levels_t *levels);

/* ---------------------------------------------------------------- lower bounds */

/** What must move, in a shape that a bound is known for; sizes in parts of the message. */
typedef enum ccl_bound_shape {
    CCL_BOUND_SPREAD, /**< every rank's shard to all (AllGather); `weights`: the shards */
    CCL_BOUND_GATHER, /**< the ranks' blocks to the rank `root` */
    CCL_BOUND_PAIRS,  /**< a block per pair of ranks (AllToAll): `pairs` */
    CCL_BOUND_ALLREDUCE,
    CCL_BOUND_ENDS /**< what each rank needs of each other: `pairs`; what it must send to each:
                        `sent`; only for bounds over time */
} ccl_bound_shape_t;
struct ccl_bandwidth_bound;
typedef struct ccl_bound_demand {
    ccl_bound_shape_t shape;
    bool reversed;           /**< every transfer the other way round: ReduceScatter for AllGather,
                                  Scatter for Gather, Reduce for Broadcast */
    uint32_t root;           /**< GATHER */
    const uint32_t *weights; /**< SPREAD, GATHER: [nranks] whole parts of each rank's shard */
    const uint32_t *pairs; /**< PAIRS, ENDS: [nranks * nranks] whole parts from s to d at s nranks +
                              d; NULL: 1 for each two */
    const uint32_t *sent;  /**< ENDS: [nranks * nranks] likewise */
    uint64_t parts;        /**< the message has this many parts */
    const struct ccl_bandwidth_bound *flows; /**< for bounds over time: where it has lengths they
                                                are taken with windows; NULL: none */
    const double
        *entering;         /**< ENDS: what must enter each part of ccl_cut_levels_init()'s levels,
                                one level after the other, in parts of the message; NULL: unknown */
    const double *leaving; /**< ENDS: likewise */
} ccl_bound_demand_t;

/** A fraction; den 0: none. */
typedef struct ccl_fraction {
    uint64_t num, den;
} ccl_fraction_t;

/** Where a bound on bandwidth comes from. */
typedef enum ccl_bound_proof {
    CCL_BOUND_NOTHING,   /**< nothing has to move */
    CCL_BOUND_CUT,       /**< what must leave a set of GPUs over what can */
    CCL_BOUND_PARTITION, /**< AllReduce: 2 (k - 1) times the message must pass between k parts,
                              or come to them from switches that multicast or reduce */
    CCL_BOUND_LENGTHS,   /**< pairs: bytes times distance over capacity times length of the links */
    CCL_BOUND_SERVERS,   /**< the same with every server as one node, its inside without limits */
    CCL_BOUND_DOMAINS    /**< AllReduce where switches multicast or reduce: messages of an element
                              over what GPUs and such switches can send, messages past them weigh more
                          */
} ccl_bound_proof_t;
const char *ccl_bound_proof_name(ccl_bound_proof_t proof); /**< "cut", ... static */

/** No schedule moves a message faster than at `Bps` (algbw). */
typedef struct ccl_bandwidth_bound {
    ccl_bound_proof_t proof;
    double Bps;               /**< INFINITY when nothing must move */
    ccl_fraction_t exact_Bps; /**< the same as a fraction of B/s */
    bool tight;               /**< schedules come as near to it as one likes (many micro-batches) */
    uint32_t nparts;          /**< of a partition; 2 of a cut */
    uint32_t *part;           /**< [ndevices] part of a device: in a cut 1 is the side that sends.
                                   NULL: no cut is the proof */
    uint32_t nlinks;
    uint32_t *links;  /**< links that such a schedule saturates, ascending */
    double *lengths;  /**< of LENGTHS, DOMAINS: [nlinks + ngroups] of links, then groups, also where
                           DOMAINS was not the tightest in the end; else NULL */
    double distance;  /**< then the sum over pairs of parts times distance; of DOMAINS the least sum
                           of lengths that an element passes */
    double trees_Bps; /**< AllReduce: best of reduce-scatter and all-gather along trees, with as
                           much rooted at each GPU as is best; else 0 */
    ccl_arena_t arena;
} ccl_bandwidth_bound_t;
/**
 * Bound by bandwidth alone: links and groups at their full rates, no latency, no thread blocks.
 *
 * SPREAD and GATHER are exact: the tightest cut by maximum flows and Newton's method, which
 * packings of trees (SPREAD) and flows (GATHER) meet. PAIRS is exact up to the tolerance of a
 * linear program whose dual is checked in whole numbers. ALLREDUCE is the tightest of some cuts and
 * partitions; switches that multicast or reduce are within parts or apart. Groups whose links do
 * not all leave or all enter one device only count where a cut meets them.
 * @param out  finish with ccl_bandwidth_bound_fini().
 * @par Source  Edmonds 1973; Zhao et al., ForestColl, arXiv 2402.06787, section 4 (binary search
 * there).
 */
ccl_status_t ccl_model_bandwidth_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                       const ccl_bound_demand_t *demand, ccl_bandwidth_bound_t *out,
                                       ccl_error_t *err);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_bandwidth_bound_fini(ccl_bandwidth_bound_t *bound);

/**
 * Least seconds before anything that is at `sources` can be at all of `dests`: hops over the
 * model's routes, or any links where switches multicast or reduce; GPUs relay. A hop costs its
 * links' and its transport's latency and the overhead of a send; the first also the launch of the
 * source, the last the least overhead of a receive.
 */
typedef struct ccl_latency_bound {
    double latency_s;
    uint32_t from, to; /**< ranks farthest apart; CCL_NONE: nothing moves */
    uint32_t hops;     /**< transfers on the fastest way between them */
} ccl_latency_bound_t;
/**
 * The farthest pair among those that `moves` names.
 * @param moves  [nranks * nranks] something goes from s to d at s nranks + d; NULL: between all.
 * @param proto  "Simple", "LL", "LL128"; NULL: the least over the three.
 */
ccl_status_t ccl_model_latency_bound(const ccl_topology_t *topo, ccl_routes_t *routes,
                                     const uint8_t *moves, const char *proto,
                                     ccl_latency_bound_t *out, ccl_error_t *err);

/** A link by which a set is left, and when what must cross can be on it. */
typedef struct ccl_time_link {
    uint32_t link;  /**< CCL_NONE: a group's capacity */
    uint32_t group; /**< CCL_NONE: a link's */
    double from_s;  /**< no earlier than this */
    double upto_s;  /**< no later than this long before the end */
    double Bps;
} ccl_time_link_t;
/** Capacity that counts from a time on. */
typedef struct ccl_time_steps {
    uint32_t n;
    double *after_s; /**< [n] ascending */
    double *Bps;     /**< [n] that come at each */
} ccl_time_steps_t;
/**
 * A cut over time: by time T at most `fixed_bytes` and the sum over `all` of Bps (T - after_s)
 * have crossed; at least `share` of the message must. Where partial results may cross (AllReduce),
 * `least` is enough once `partials` of the message crosses as such, and those only cross as
 * `joined` says; between, it falls in proportion.
 */
typedef struct ccl_time_cut {
    double share, least, partials; /**< in messages' sizes */
    bool lengths; /**< not a cut but a flow program's lengths: bytes and Bps count times those */
    double fixed_bytes;
    ccl_time_steps_t all, joined;
    uint32_t nlinks;
    ccl_time_link_t *links;   /**< those of `all` */
    uint8_t *sources, *dests; /**< [nranks] whose data, and who needs it */
} ccl_time_cut_t;
/** Cuts over time of one collective and protocol: each is the best known one at some size. */
typedef struct ccl_time_bound {
    uint32_t ncuts;
    ccl_time_cut_t *cuts;
    ccl_arena_t arena;
} ccl_time_bound_t;
/**
 * Bound by flows over time: links at their full rates, latencies of links and transports, overheads
 * of sends, launches; no thread blocks, slots or contention.
 *
 * @param routes  borrowed; NULL: made for the call.
 * @param proto   "Simple", "LL", "LL128": constants of this protocol; NULL: of none.
 * @param out     finish with ccl_time_bound_fini().
 * @par Source  Ford, Fulkerson 1958 (flows over time); Hoppe, Tardos 2000 (several sources).
 */
ccl_status_t ccl_model_time_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_bound_demand_t *demand,
                                  const char *proto, ccl_time_bound_t *out, ccl_error_t *err);
/** Least time of a message of that size, s. @param cut_out  which cut says so; NULL: not asked. */
double ccl_time_bound_s(const ccl_time_bound_t *bound, double size_bytes,
                        const ccl_time_cut_t **cut_out);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_time_bound_fini(ccl_time_bound_t *bound);

CCL_END_DECLS
#endif
