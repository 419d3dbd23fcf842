/*
 * Private to synth: what every baseline needs to know about a cluster, and the planner that turns
 * "an out-tree per chunk" into a schedule for any collective.
 */
#ifndef CCL_SYNTH_PLAN_H
#define CCL_SYNTH_PLAN_H

#include "synth/common/asked.h"

/** Most channels a baseline takes by itself (NCCL's MAXCHANNELS is 32 as well). */
#define CCL_I_MAX_AUTO_CHANNELS 32u
/** Automatic choices keep the schedule below this many transfers. */
#define CCL_I_AUTO_TRANSFERS (3u << 20)

/* ---------------------------------------------------------------- cluster (cluster.c) */

/**
 * GPUs by server. Without servers in the topology all GPUs form one; in a mixed one a GPU without a
 * server is a server of its own.
 */
typedef struct ccl_i_cluster {
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    uint32_t nranks, nservers;
    uint32_t min_gpus, max_gpus; /* of a server */
    uint32_t *server;            /* [nranks] 0.. in order of their lowest rank */
    uint32_t *local;             /* [nranks] position in its server */
    uint32_t *first;             /* [nservers + 1] into ranks */
    uint32_t *ranks;             /* [nranks] by server, ascending */
    uint64_t *reach;             /* bitmap [nranks][words]: a route without relaying GPUs */
    uint32_t words;
    bool full;       /* every pair has a route */
    bool nomem;      /* a route could not be made */
    uint16_t **hops; /* [nranks] GPU hops to every rank, made when asked for */
    ccl_arena_t arena;
} ccl_i_cluster_t;

ccl_status_t ccl_i_cluster_init(ccl_i_cluster_t *cluster, const ccl_topology_t *topo,
                                ccl_routes_t *routes, ccl_error_t *err);
void ccl_i_cluster_fini(ccl_i_cluster_t *cluster);
static inline bool ccl_i_cluster_reaches(const ccl_i_cluster_t *c, uint32_t src, uint32_t dst) {
    return c->reach[(size_t)src * c->words + dst / 64] >> (dst % 64) & 1;
}
static inline uint32_t ccl_i_cluster_gpus(const ccl_i_cluster_t *c, uint32_t server) {
    return c->first[server + 1] - c->first[server];
}
/** Rank of GPU `local` (modulo their number) of `server`. */
static inline uint32_t ccl_i_cluster_rank(const ccl_i_cluster_t *c, uint32_t server,
                                          uint32_t local) {
    return c->ranks[c->first[server] + local % ccl_i_cluster_gpus(c, server)];
}
/**
 * Shortest way over GPUs, each with a route to the next: path[0] = src .. path[*hops_out] = dst.
 * Among equals the widest; then spread by src + dst. @param path room for nranks entries.
 */
ccl_status_t ccl_i_cluster_path(ccl_i_cluster_t *cluster, uint32_t src, uint32_t dst,
                                uint32_t *path, uint32_t *hops_out, ccl_error_t *err);
/** The route, NULL when there is none (or no memory: c->nomem). */
const ccl_route_t *ccl_i_cluster_route(ccl_i_cluster_t *cluster, uint32_t src, uint32_t dst,
                                       uint32_t channel);
/** What the links that routes leave a GPU by carry together, the least of all GPUs. */
double ccl_i_cluster_least_Bps(ccl_i_cluster_t *cluster);
/** Are there 32 ranks or more, in one server, each with one port by which it reaches all others
    alike? */
bool ccl_i_cluster_large_domain(ccl_i_cluster_t *cluster);
/** Narrowest link of the route, 0 when there is none. */
double ccl_i_cluster_width_Bps(ccl_i_cluster_t *cluster, uint32_t src, uint32_t dst,
                               uint32_t channel);
/**
 * Channels that a schedule with one connection per pair needs: so that the GPUs of every server
 * use all of its equal NICs, and so that `peers` thread blocks of a GPU fill its links inside the
 * server. At least 1, at most CCL_I_MAX_AUTO_CHANNELS.
 *
 * @param blocks     thread blocks per GPU and channel: together at most the GPU's sms.
 * @param transfers  per channel: together at most CCL_I_AUTO_TRANSFERS.
 */
uint32_t ccl_i_cluster_channels(ccl_i_cluster_t *cluster, uint32_t peers, uint32_t blocks,
                                double transfers);
/** `channels` where twice as many, of `blocks` thread blocks each, fit every GPU's sms; else 0. */
uint32_t ccl_i_cluster_down_channels(const ccl_i_cluster_t *cluster, uint32_t channels,
                                     uint32_t blocks);
/** Seconds that the busiest link or group needs. @param load  [nlinks] bytes over each. */
double ccl_i_busiest_seconds(const ccl_topology_t *topo, const double *load);
/** Transfers of a schedule in which every chunk goes to each destination once. */
double ccl_i_collective_transfers(const ccl_collective_t *want);

/* ---------------------------------------------------------------- plans (plan.c) */

/** One hop of a chunk's out-tree. A chunk reaches `dst` at `step` over `channel`. */
typedef struct ccl_i_edge {
    uint32_t src, dst, step;
    uint16_t channel;
} ccl_i_edge_t;

/** Out-tree of one chunk; edges may come in any order. */
typedef struct ccl_i_tree {
    ccl_i_edge_t *edges;
    size_t len, cap;
    bool nomem;
} ccl_i_tree_t;
void ccl_i_tree_add(ccl_i_tree_t *tree, uint32_t src, uint32_t dst, uint32_t step,
                    uint32_t channel);

/** What a tree is asked for. */
typedef struct ccl_i_want {
    ccl_collective_kind_t kind;
    uint32_t chunk; /* of the uncut collective */
    uint32_t part;  /* 0 .. parts - 1 */
    uint32_t root;
    const uint32_t *targets; /* ascending, may hold the root */
    uint32_t ntargets;
    bool up; /* the edges will be time-reversed, towards the root */
} ccl_i_want_t;

typedef struct ccl_i_plan {
    const char *name;
    uint32_t parts;    /* every chunk (AllReduce with roots: every root's) is cut into this many */
    bool spread_roots; /* AllReduce: parts chunks per rank, reduced there, then sent to all */
    /* Results go out on channels higher by this than those that inputs came in on: thread blocks of
       their own, so that the next micro-batch's reduction need not wait for them. 0: the same
       channels.
     */
    uint32_t down_channels;
    /** Root of a reduced chunk when roots are not spread; NULL: its first destination. */
    uint32_t (*root)(void *user, const ccl_i_want_t *want);
    /** Adds edges, each rank reached at most once, sources reached (at an earlier step) before. */
    ccl_status_t (*tree)(void *user, const ccl_i_want_t *want, ccl_i_tree_t *tree,
                         ccl_error_t *err);
    void *user;
} ccl_i_plan_t;

/**
 * Ask for a tree per chunk and make the schedule: copies go down the tree from the source;
 * reductions come up a time-reversed tree. A hop between GPUs that have no route goes over relaying
 * GPUs.
 */
ccl_status_t ccl_i_plan_run(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                            const ccl_collective_t *want, const ccl_i_plan_t *plan,
                            ccl_schedule_t **out, ccl_error_t *err);

/**
 * The same with as many channels as every GPU has room for thread blocks (fit.c): a block per end
 * of a connection, one for both ends where a rank passes on.
 *
 * @param plan      parts is a multiple of *channels.
 * @param channels  what the synthesizer chose, which `tree` reads; becomes less where it must.
 */
ccl_status_t ccl_i_plan_fit(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                            const ccl_collective_t *want, const ccl_i_plan_t *plan,
                            uint32_t *channels, ccl_schedule_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- rings (rings.c) */

/** Closed walks over all GPUs, one per channel. */
typedef struct ccl_i_rings {
    uint32_t nrings;
    uint32_t *len;         /* [nrings] steps of the walk; nranks when no rank comes twice */
    uint32_t **walk;       /* [nrings][len] */
    double *predicted_Bps; /* [nrings] rings 0 .. i together: their number times the slowest one */
    double *usable_Bps; /* [nrings] the same, with thread blocks at what they reach in practice */
    double *links_Bps;  /* [nrings] what links alone allow them */
    double across_Bps;  /* the most that links allow any number of them between servers */
    uint32_t *nics;     /* [nrings] NICs that rings 0 .. i use */
    uint32_t best;      /* smallest number of rings that gets (nearly) the best of all */
    ccl_arena_t arena;
} ccl_i_rings_t;

ccl_status_t ccl_i_rings_init(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster, uint32_t max_rings,
                              bool reduces, ccl_i_rings_t *out, ccl_error_t *err);
void ccl_i_rings_fini(ccl_i_rings_t *rings);

/* ---------------------------------------------------------------- time (timed.c) */

/** How a run is timed, and what came of it. */
typedef struct ccl_i_timing {
    double size_bytes;
    ccl_way_t way;      /**< lowered and run so; {0}: a thread block for each connection, sharing
                             blocks costs it little */
    double give_up_s;   /**< slower runs are ended early; 0: none */
    unsigned protocols; /**< of ccl_i_time_each(): bits by ccl_protocol_t */
    double time_s;      /**< INFINITY where it is unfit or the run was given up */
    bool gave_up;       /**< slower than give_up_s */
    bool unfit;         /**< more than a GPU's thread blocks, or it cannot finish (another schedule
                             may) */
    double work;        /**< what that cost, in transfers of a plain run: from what was counted, not
                             from a clock, so the same on every machine */
} ccl_i_timing_t;
/**
 * What a schedule takes, simulated with one protocol.
 * @param routes  of the topology, used by nobody else meanwhile; NULL: made for the call.
 * @param proto  NULL is Simple.
 */
ccl_status_t ccl_i_time_proto(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              ccl_routes_t *routes, const ccl_schedule_t *schedule,
                              const char *proto, ccl_i_timing_t *timing, ccl_error_t *err);
/** The same with Simple. */
ccl_status_t ccl_i_time_schedule(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 ccl_routes_t *routes, const ccl_schedule_t *schedule,
                                 ccl_i_timing_t *timing, ccl_error_t *err);
/**
 * The same with each of the protocols.
 * @param times_out  [CCL_PROTOCOLS] INFINITY also where it is not wanted or the cluster lacks it,
 * and may be where another protocol is faster.
 */
ccl_status_t ccl_i_time_each(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_schedule_t *schedule, ccl_i_timing_t *timing,
                             double *times_out, ccl_error_t *err);
/** The same with the fastest of all that the cluster has. */
ccl_status_t ccl_i_time_protocols(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_schedule_t *schedule,
                                  ccl_i_timing_t *timing, ccl_error_t *err);

#endif
