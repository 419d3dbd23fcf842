/*
 * Private to synth/alltoallv: the cluster as the planner sees it, what has to move on it, and the
 * parts that it becomes.
 */
#ifndef CCL_SYNTH_ALLTOALLV_NET_H
#define CCL_SYNTH_ALLTOALLV_NET_H

#include "synth/alltoallv/planner.h"
#include "synth/common/plan.h"

/** Links and groups that a way takes: into ccl_i_av_net_t.uses. */
typedef struct ccl_i_av_uses {
    uint32_t first, n;
    double slowest; /* most seconds of a byte on one of them */
} ccl_i_av_uses_t;

/** A hop between servers, over one pair of their NICs. */
typedef struct ccl_i_av_lane {
    uint32_t src, dst;
    uint16_t channel;
    uint16_t period;          /* channels after which its route comes again */
    uint16_t first, channels; /* of a searched way's hop: connections that share its bytes */
    double tb_Bps;            /* what one thread block moves */
    ccl_i_av_uses_t uses;
} ccl_i_av_lane_t;

/** The way between two GPUs of a server: one hop, or over other GPUs of it. */
typedef struct ccl_i_av_inner {
    uint32_t first, nhops; /* into ccl_i_av_net_t.path: ranks behind the first */
    double tb_Bps;
    ccl_i_av_uses_t uses;
} ccl_i_av_inner_t;

/** Most GPU hops of a way inside a server. */
enum { CCL_I_AV_INNER = 3, CCL_I_AV_LANES = 64 };

typedef struct ccl_i_av_net {
    const ccl_topology_t *topo;
    ccl_routes_t *routes;
    ccl_i_cluster_t cluster;
    bool reversed;   /* hop u -> v takes the route v -> u */
    bool relayed;    /* some inner way has several hops */
    bool contiguous; /* ranks of a server follow each other */
    bool lacking;    /* some servers have no lane between them: only a search knows the way */
    uint32_t n, nservers, nresources;
    double *slow;         /* [nresources] seconds of a byte: links, then groups */
    uint32_t *lane_first; /* [nservers^2 + 1] */
    ccl_i_av_lane_t *lanes;
    uint32_t *inner_first; /* [nservers] place of its first pair; (i, j) of g GPUs at i g + j */
    ccl_i_av_inner_t *inner;
    uint32_t *uses, *path;
    uint32_t *group_first, *group_of; /* groups of a link */
    size_t nlanes, ninner, nuses, npath, clanes, cinner, cuses, cpath;
    ccl_cut_levels_t levels;
} ccl_i_av_net_t;

ccl_status_t ccl_i_av_net_init(ccl_i_av_net_t *net, const ccl_topology_t *topo, bool reversed,
                               ccl_error_t *err);
/** The hop from a to b over route `channel`; there must be one. */
ccl_status_t ccl_i_av_hop(ccl_i_av_net_t *net, uint32_t a, uint32_t b, uint32_t channel,
                          ccl_i_av_lane_t *out, ccl_error_t *err);
void ccl_i_av_net_fini(ccl_i_av_net_t *net);
static inline const ccl_i_av_inner_t *ccl_i_av_inner(const ccl_i_av_net_t *net, uint32_t a,
                                                     uint32_t b) {
    uint32_t s = net->cluster.server[a], gpus = net->cluster.first[s + 1] - net->cluster.first[s];
    return &net->inner[net->inner_first[s] + net->cluster.local[a] * gpus + net->cluster.local[b]];
}
static inline void ccl_i_av_add(const ccl_i_av_net_t *net, const ccl_i_av_uses_t *uses,
                                double bytes, double *load_s) {
    for (uint32_t i = 0; i < uses->n; i++)
        load_s[net->uses[uses->first + i]] += bytes * net->slow[net->uses[uses->first + i]];
}
static inline double ccl_i_av_level(const ccl_i_av_net_t *net, const ccl_i_av_uses_t *uses,
                                    const double *load_s) {
    double most = 0;
    for (uint32_t i = 0; i < uses->n; i++) {
        double s = load_s[net->uses[uses->first + i]];
        most = s > most ? s : most;
    }
    return most;
}

#endif
