/*
 * Private to synth: spanning trees packed into a cluster's links (packing*.c).
 */
#ifndef CCL_SYNTH_PACKING_H
#define CCL_SYNTH_PACKING_H

#include "synth/common/exchange.h"
#include "synth/common/plan.h"

/** What a pair of GPUs may carry over the route of one channel, in trees. */
typedef struct ccl_i_pack_piece {
    uint32_t src, dst; /* ranks */
    uint32_t channel;
    int64_t trees;
} ccl_i_pack_piece_t;

/** A network without switches: GPUs, and what their routes carry. */
typedef struct ccl_i_pack_net {
    uint32_t nranks;
    ccl_i_pack_piece_t *pieces; /* by src, then dst, then channel */
    size_t npieces, cap;
} ccl_i_pack_net_t;

/** Equal trees from one root: parent and place of every rank. */
typedef struct ccl_i_pack_batch {
    uint32_t root;
    int64_t trees;
    uint32_t *order;  /* [nranks] ranks in the order they joined, root first */
    uint32_t *parent; /* [nranks] by rank */
} ccl_i_pack_batch_t;
typedef struct ccl_i_pack_trees {
    ccl_i_pack_batch_t *batches;
    size_t nbatches, cap;
    ccl_arena_t arena;
} ccl_i_pack_trees_t;
/**
 * Spanning out-trees, roots[r] of them at each r, that use no pair more often than it carries.
 *
 * @retval CCL_INFEASIBLE  some cut carries less than it must.
 * @par Source  Edmonds 1973; Berczi, Frank 2010; ForestColl (arXiv 2402.06787), tree construction.
 */
ccl_status_t ccl_i_pack_grow(const ccl_ctx_t *ctx, const ccl_i_pack_net_t *net,
                             const int64_t *roots, ccl_i_pack_trees_t *out, ccl_error_t *err);
void ccl_i_pack_trees_fini(ccl_i_pack_trees_t *trees);

/** One direction of trees. */
typedef struct ccl_i_pack_forest {
    bool reversed;
    ccl_i_pack_net_t net;
    ccl_i_pack_trees_t trees;
    uint32_t *first;   /* [nranks + 1] into tree; NULL: there are none */
    uint32_t *tree;    /* batch of each tree, by root */
    uint16_t *channel; /* [ntrees][nranks] of the route to a rank */
    uint32_t *depth;   /* [nbatches][nranks] */
} ccl_i_pack_forest_t;

/* ---------------------------------------------------------------- trees of hops */

/** A way from one GPU to another over a route of the model, and what it uses. */
typedef struct ccl_i_pack_hop {
    uint32_t src, dst; /* ranks */
    uint32_t channel;
    uint32_t orbit;            /* hops that the group carries to each other */
    double cap_Bps;            /* most that a flow of one connection asks for */
    uint32_t first_use, nuses; /* into uses */
} ccl_i_pack_hop_t;

/**
 * Trees low and alike: a tree enters a server by the GPU of its root's rail, which passes data on
 * to the others there, and goes between servers along that rail.
 */
typedef struct ccl_i_pack_rails {
    uint32_t nservers, nrails;
    const uint32_t *server; /* [n] */
    uint32_t *rail;         /* [n] */
    uint8_t *stray;  /* [nservers][nrails] 1: the server has no such GPU that reaches the rail and
                        all GPUs of the server, and is entered anywhere */
    uint32_t stride; /* between servers: as far as this, and multiples of it */
} ccl_i_pack_rails_t;

/**
 * All hops of a cluster, and a group of symmetries that leaves no GPU where it was (but the
 * identity): what is found for one GPU is carried to all that it can be moved to.
 */
typedef struct ccl_i_pack_hops {
    uint32_t n, nhops;
    uint32_t norbits;        /* orbits are below this */
    ccl_i_pack_hop_t *hops;  /* by src, dst, channel */
    uint32_t *first;         /* [n + 1] into hops, by src */
    uint32_t *in_first, *in; /* [n + 1], hops by dst */
    uint32_t *uses;          /* classes of links and groups; one used twice stands twice */
    uint32_t nclasses;
    double *class_Bps;    /* [nclasses] what all members carry together, over `order` */
    double *class_kappa;  /* [nclasses] contention slope, 0 where two connections lose nothing */
    bool contended;       /* some class has one */
    uint32_t order;       /* symmetries in the group */
    uint32_t *image;      /* [order][n] ranks; the first is the identity */
    uint32_t *class_root; /* [n] least rank that a symmetry takes to this one */
    double *block_s[2];   /* [norbits] that a byte of copies, of reductions takes a hop's thread
                             block;   NULL: blocks have no limit */
    ccl_i_pack_rails_t *rails; /* NULL: trees may go anywhere */
    bool thinned;              /* some hops were left out */
    ccl_arena_t arena;
} ccl_i_pack_hops_t;
/**
 * @param spread  at most this many hops a GPU, if more trees still can be made of fewer: those to
 * the first, second, fourth ... GPU with routes alike. 0: all.
 * @par Complexity  pairs with a route times its links, and a search for every symmetry tried.
 */
ccl_status_t ccl_i_pack_hops_init(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                                  const ccl_capacity_t *capacity, bool symmetric, uint32_t spread,
                                  ccl_i_pack_hops_t *out, ccl_error_t *err);
void ccl_i_pack_hops_fini(ccl_i_pack_hops_t *hops);
/** The hop that symmetry `g` takes hop `h` to. */
uint32_t ccl_i_pack_hops_image(const ccl_i_pack_hops_t *hops, uint32_t g, uint32_t h);

/** A tree of hops for each root that a symmetry may move it to. */
typedef struct ccl_i_pack_swap_tree {
    uint32_t root;
    bool up;       /* data run towards the root */
    uint32_t *hop; /* [n] between a rank and its parent; CCL_NONE at the root */
} ccl_i_pack_swap_tree_t;
typedef struct ccl_i_pack_swaps {
    ccl_i_pack_swap_tree_t *trees;
    size_t ntrees, cap;
    double busiest_s; /* of the busiest link or group, for trees of a byte */
    uint32_t blocks;  /* most ends of connections at a GPU, all on one channel */
    double least_s;   /* no trees over these hops make it less (0: not looked for); sums may be
                         rooted anywhere */
    ccl_arena_t arena;
} ccl_i_pack_swaps_t;
/**
 * Hops that rings over all GPUs take, and all that share no link with a contention slope: as few
 * connections on such links as serve all GPUs.
 *
 * @param apart  reductions take every second ring, copies the others.
 * @param open   [2][norbits] filled: may copies, may reductions go this way?
 */
ccl_status_t ccl_i_pack_open_rings(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                                   const ccl_i_pack_hops_t *hops, bool apart,
                                   uint8_t *const open[2], ccl_error_t *err);
/** Trees of hops that are asked for. */
typedef struct ccl_i_pack_request {
    const int64_t *roots; /* [n] trees rooted at each; those of ranks that a symmetry moves to each
                             other are equal */
    bool down, up;        /* copies, reductions */
    uint8_t *const *open; /* [2][norbits] copies, reductions may only go where this is not 0; NULL:
                             everywhere */
    double enough_s;      /* the search ends where the busiest link needs no more */
    double fresh; /* >= 1: a hop that no tree uses yet costs this many times as much. Above 1 trees
                     share connections, of which GPUs can have few */
} ccl_i_pack_request_t;
/**
 * Spanning trees of hops that load the busiest link as little as a local search finds: each is
 * grown over the hops that are cheapest for the load so far, then ranks change their parents as
 * long as the load, weighted exponentially, falls. No capacity is given: what is asked for comes.
 *
 * @retval CCL_INFEASIBLE  a rank cannot be reached over the hops.
 * @par Complexity  a pass: trees times hops; at most MOST_PASSES.
 */
ccl_status_t ccl_i_pack_swap(const ccl_ctx_t *ctx, const ccl_i_pack_hops_t *hops,
                             const ccl_i_pack_request_t *ask, ccl_i_pack_swaps_t *out,
                             ccl_error_t *err);
void ccl_i_pack_swaps_fini(ccl_i_pack_swaps_t *swaps);
/**
 * Seconds that the busiest link needs at least for such trees of a byte, by prices on the links.
 *
 * @param price  [nclasses] >= 0, not all 0; any are right, some give a better bound.
 * @par Source  Edmonds 1967 (cheapest trees); linear programming duality.
 */
ccl_status_t ccl_i_pack_least(const ccl_ctx_t *ctx, const ccl_i_pack_hops_t *hops,
                              const ccl_i_pack_request_t *ask, const double *price,
                              double *least_s_out, ccl_error_t *err);

/* ---------------------------------------------------------------- connections */

/** An edge of a tree, in the direction in which data go. */
typedef struct ccl_i_pack_edge {
    uint32_t src, dst, tree;
    uint32_t lane; /* edges of one lane on one hop share its connections */
    uint32_t part; /* of its root's trees, from 0 */
    bool up;
    uint16_t *channel; /* of its route; then its own */
    uint32_t *depth; /* of the rank that it leads to, seen from the root; then its place in time */
    uint32_t ways;   /* connections that its data take side by side, a part each */
    uint32_t most, place; /* private */
} ccl_i_pack_edge_t;
/** How edges get their channels. */
typedef struct ccl_i_pack_lanes {
    uint32_t nlanes; /* lanes are below this: a tree each, or the trees of servers that are alike */
    double tree_Bps; /* a tree's data go at this rate */
    uint32_t given;  /* channels for each of the period's; 0: chosen */
    bool by_load;    /* where thread blocks do not suffice for all trees' channels, hops get theirs
                        by what they have to carry, else all as many */
} ccl_i_pack_lanes_t;
/**
 * Channels: those of the routes come again after a period of all forks. Each tree on channels of
 * its own is best, for it then waits for no other; fewer where thread blocks do not suffice, and
 * over links with a contention slope only as many connections as the trees need.
 *
 * @param edges     reordered; their channels are set.
 * @param limited_out  they do not suffice.
 * @param channels_out  all are below this.
 */
ccl_status_t ccl_i_pack_channels(ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges, size_t nedges,
                                 const ccl_i_pack_lanes_t *lanes, uint32_t *channels_out,
                                 bool *limited_out, ccl_error_t *err);
/** Connections of roots' parts that go the same way. */
typedef struct ccl_i_pack_ways {
    uint32_t nparts;   /* of a root, at most */
    bool side_by_side; /* sums inside a server: each takes all of a hop's connections */
    uint32_t ways;     /* out: that many */
    uint32_t period;   /* out: each on a channel higher by this */
    uint32_t channels; /* out: all channels are below this */
} ccl_i_pack_ways_t;
/**
 * Channels of roots' parts that go the same way: between servers one for each part, so that what
 * has more to carry has more flows; inside, parts of a root share one, and connections are as many
 * as thread blocks allow.
 */
ccl_status_t ccl_i_pack_part_channels(ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges,
                                      size_t nedges, ccl_i_pack_ways_t *ways, ccl_error_t *err);
/**
 * When each edge's turn is, where trees wait for each other: a connection moves a tree's data at a
 * time, at its own rate, those first that have the longest way to go.
 *
 * @param edges  with their channels; reordered, their depths are set.
 * @par Complexity  edges times those that are ready at a time.
 */
ccl_status_t ccl_i_pack_pace(ccl_i_cluster_t *cluster, ccl_i_pack_edge_t *edges, size_t nedges,
                             uint32_t ntrees, ccl_error_t *err);
/* ---------------------------------------------------------------- on the way */

/** Rounding to whole chunks may cost this share of the time with this many transfers, less with
 * fewer. */
#define CCL_I_PACK_PRICE 0.005
#define CCL_I_PACK_MANY_TRANSFERS 20000.0
/** What local search finds is near enough to the bound within this share of it. */
#define CCL_I_PACK_BEYOND 0.02

/** A packing while it is made. */
typedef struct ccl_i_packing {
    const ccl_ctx_t *ctx;
    ccl_i_cluster_t *cluster;
    const ccl_capacity_t *c;
    const ccl_collective_t *want;
    uint32_t n;
    double *weight; /* [n] what is rooted at each, relative */
    int64_t *roots; /* [n] trees at each */
    int64_t *units; /* [narcs] trees on each arc */
    int64_t total;
    double seconds; /* a tree of one unit's rate takes this: links carry seconds x units trees */
    double bound;   /* the same without rounding */
    ccl_i_pack_forest_t up, down;
    bool has_up, has_down, few_connections, by_flows;
    uint32_t *lane; /* [total] of each tree, by root; NULL: its own */
    uint32_t nlanes;
    uint32_t nparts; /* parts of a root at most, which go the same way; 0: trees find their own */
    bool even;       /* all that are roots are so of as much */
    double beat_s;   /* what a schedule takes that was made before; 0: there is none */
    bool level;      /* and it loads links nearly as little as can be */
} ccl_i_packing_t;
/**
 * Take the switches out of a capacity graph: what enters one and what leaves it become direct
 * capacities, so that every GPU can still get all of every root's trees.
 *
 * @param p         its cluster, capacities, units and roots count.
 * @param reversed  trees will run against the links' direction (reductions).
 * @param out       finish by freeing pieces.
 * @retval CCL_INFEASIBLE  not with routes that the model takes.
 * @par Source  Bang-Jensen, Frank, Jackson 1995; ForestColl (arXiv 2402.06787), edge splitting.
 */
ccl_status_t ccl_i_pack_split(const ccl_i_packing_t *p, bool reversed, ccl_i_pack_net_t *out,
                              ccl_error_t *err);
/** Room for a packing's trees, which are not set yet. */
ccl_status_t ccl_i_pack_forest_init(const ccl_i_packing_t *p, bool up, ccl_i_pack_forest_t *out,
                                    ccl_error_t *err);
void ccl_i_pack_forest_fini(ccl_i_pack_forest_t *forest);

/** Arcs of the capacity graph, then an arc from the source to each rank; all of no capacity. NULL:
 * out of memory. */
ccl_maxflow_t *ccl_i_pack_network(const ccl_i_packing_t *p, bool reversed);
/** Seconds per part and unit when each rank has `weights` parts, from the bound of that. */
ccl_status_t ccl_i_pack_bound_of(const ccl_i_packing_t *p, const uint32_t *weights, bool reversed,
                                 double *seconds_out, ccl_error_t *err);
/** Seconds that a message of a byte takes at least, links alone. */
ccl_status_t ccl_i_pack_bound_seconds(const ccl_i_packing_t *p, double *out, ccl_error_t *err);
/** Weights of an AllReduce's ranks: all grow alike until a cut is full; its ranks stay, the others
 * grow on. */
ccl_status_t ccl_i_pack_fill_weights(ccl_i_packing_t *p, ccl_error_t *err);
/** Share of the time that rounding may cost here: CCL_I_PACK_PRICE, or less. */
double ccl_i_pack_allowed(const ccl_i_packing_t *p);
/** Roots by weight, for shards of this number of parts. */
void ccl_i_pack_set_roots(ccl_i_packing_t *p, uint32_t parts);
/** A forest's trees by root, and the depth of each rank. */
ccl_status_t ccl_i_pack_index_trees(ccl_i_packing_t *p, ccl_i_pack_forest_t *f, ccl_error_t *err);
/** Over as few connections as serve all GPUs, where links lose when flows share them. */
ccl_status_t ccl_i_pack_few_connections(ccl_i_packing_t *p, double bound_s, uint32_t given,
                                        double *busiest_out, double *least_out, ccl_error_t *err);
/** Over all hops. @param busiest_out  seconds of the busiest link for a message of a byte. */
ccl_status_t ccl_i_pack_by_swaps(ccl_i_packing_t *p, double bound_s, uint32_t given,
                                 double *busiest_out, double *least_out, ccl_error_t *err);

/** How many connections each tree needs for its rate; 1 where a switch copies or adds up. */
ccl_status_t ccl_i_pack_shares(const ccl_i_packing_t *p, double tree_Bps, uint32_t *times_out,
                               ccl_error_t *err);
/** Each tree as that many which go the same way. */
ccl_status_t ccl_i_pack_share(ccl_i_packing_t *p, uint32_t times, ccl_error_t *err);
/** By whatever of local search and flows loads the busiest link least, with roots by weight. */
ccl_status_t ccl_i_pack_anywhere(ccl_i_packing_t *p, uint32_t given, ccl_error_t *err);
/**
 * An AllReduce's copies and reductions each alone, as AllGather and ReduceScatter: where links are
 * alike both ways that loads them no more than both together, and takes fewer trees.
 *
 * @param p      with roots; forests that it has stay its own until others are found.
 * @param found  as many trees both ways.
 */
ccl_status_t ccl_i_pack_apart(ccl_i_packing_t *p, bool *found, ccl_error_t *err);
/** Servers that are alike: one server's trees in all of them, joined along rails. Sets p->lane.
 * @retval CCL_INFEASIBLE  they are not alike. */
ccl_status_t ccl_i_pack_by_servers(ccl_i_packing_t *p, double bound_s, ccl_error_t *err);

/** Over hops inside servers and rails only, for thread blocks as they are: few connections, none
 * of which has more to move than its blocks can. */
ccl_status_t ccl_i_pack_by_rails(ccl_i_packing_t *p, double bound_s, ccl_error_t *err);

/** What GPUs on rails should be root of in an AllReduce. @param Bps  [n] that each moves along its
 * rail. */
ccl_status_t ccl_i_pack_rail_weights(const ccl_i_cluster_t *cluster, const double *Bps,
                                     double *weight, ccl_error_t *err);
/** An AllReduce along rails in parts. Sets p->nparts and p->even.
 * @retval CCL_INFEASIBLE  thread blocks or rails do not suffice. */
ccl_status_t ccl_i_pack_by_parts(ccl_i_packing_t *p, double bound_s, ccl_error_t *err);

/* ---------------------------------------------------------------- schedules */

/** Trees that were found. */
typedef struct ccl_i_packed {
    const ccl_collective_t *want;
    uint32_t total;                       /* trees in all */
    const int64_t *roots;                 /* [nranks] trees rooted at each */
    const ccl_i_pack_forest_t *down, *up; /* AllReduce has both */
    double tree_Bps;                      /* a tree's data go at this rate */
    bool sums_early;                      /* not as late as they may be */
    const uint32_t *lane;                 /* [total]; NULL: every tree has its own */
    uint32_t nlanes;
    uint32_t nparts; /* of a root at most, which go the same way along its rail; 0: they do not */
    bool paced;      /* trees wait for each other: ccl_i_pack_pace() */
    double beat_s;   /* what was made before takes that; 0: nothing was */
    const char *how; /* they were found: of the schedule's origin */
} ccl_i_packed_t;
/**
 * The schedule of these trees. Where thread blocks, overheads or latencies count and the size is
 * known, a tree's data are cut into pieces that follow each other, and connections are many or by
 * load: as simulation at that size finds fastest.
 *
 * @param time_out  of that simulation; INFINITY: there was none.
 */
ccl_status_t ccl_i_pack_run(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                            const ccl_i_packed_t *packed, const ccl_synth_options_t *options,
                            ccl_schedule_t **out, double *time_out, ccl_error_t *err);

/** A tree of parts whose reductions come in turn (turn.c). */
typedef struct ccl_i_pack_turn {
    ccl_i_cluster_t *cluster;
    const ccl_i_pack_batch_t *batch;
    const uint32_t *depth;   /* [nranks] */
    const uint16_t *channel; /* [nranks] of the connection to a rank */
    uint32_t cut_channel;    /* more than that, for a cut of a sum inside a server */
    bool up;
} ccl_i_pack_turn_t;
void ccl_i_pack_in_turn(const ccl_i_pack_turn_t *turn, ccl_i_tree_t *out);

/** Seconds of the busiest link for a message of a byte. */
double ccl_i_pack_seconds(const ccl_i_packing_t *p);
/** A packing that has found nothing yet, with roots of its own. */
ccl_status_t ccl_i_pack_start(const ccl_i_packing_t *p, ccl_i_packing_t *out, ccl_error_t *err);
/** The schedule of what was found, and its time: what links need where that was not simulated. */
ccl_status_t ccl_i_pack_schedule(ccl_i_packing_t *p, bool low, const ccl_synth_options_t *options,
                                 ccl_schedule_t **out, double *time_out, ccl_error_t *err);
/**
 * Parts of shards where servers carry unequally much; trees along rails where these leave something
 * to gain, and one server's for all where rails do not come near the bound.
 *
 * @param out         stays NULL where there are none.
 * @param enough_out  no others need be looked for.
 */
ccl_status_t ccl_i_pack_along_rails(ccl_i_packing_t *p, const ccl_synth_options_t *options,
                                    ccl_schedule_t **out, double *time_out, bool *enough_out,
                                    ccl_error_t *err);

/** Thread blocks of the GPU with fewest; UINT32_MAX: no limit. */
uint32_t ccl_i_pack_fewest_sms(const ccl_topology_t *topo);
/** Has the link a contention slope, and is a thread block fast enough that two already lose by it?
 */
bool ccl_i_pack_loses(const ccl_topology_t *topo, uint32_t link);
/** What a connection's thread blocks move: bytes of a sum also pass the receiver's reduction. */
ccl_status_t ccl_i_pack_connection_Bps(ccl_i_cluster_t *cluster, uint32_t src, uint32_t dst,
                                       uint32_t channel, bool sum, double *out, ccl_error_t *err);
/** What a connection's flow asks for (R of docs/model.md), by Simple's constants. */
double ccl_i_pack_flow_Bps(const ccl_topology_t *topo, const ccl_route_t *route);

/** Can every rank get all trees? Arcs of `flow` are set; source arcs are its arcs `first` + rank.
 */
bool ccl_i_pack_feasible(ccl_maxflow_t *flow, uint32_t source, const uint32_t *vertex, uint32_t n,
                         int64_t total, int64_t *missing_out);

#endif
