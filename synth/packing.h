/*
 * Private to synth: spanning trees packed into a cluster's links (packing*.c).
 */
#ifndef CCL_SYNTH_PACKING_H
#define CCL_SYNTH_PACKING_H

#include "synth/plan.h"

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

/**
 * Take the switches out of a capacity graph: what enters one and what leaves it become direct
 * capacities, so that every GPU can still get all of every root's trees.
 *
 * @param units     [narcs] trees that each arc carries.
 * @param roots     [nranks] trees rooted at each.
 * @param reversed  trees will run against the links' direction (reductions).
 * @param out       finish by freeing pieces.
 * @retval CCL_INFEASIBLE  not with routes that the model takes.
 * @par Source  Bang-Jensen, Frank, Jackson 1995; ForestColl (arXiv 2402.06787), edge splitting.
 */
ccl_status_t ccl_i_pack_split(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                              const ccl_capacity_t *capacity, const int64_t *units,
                              const int64_t *roots, bool reversed, ccl_i_pack_net_t *out,
                              ccl_error_t *err);

/** So many equal trees from one root: parent and place of every rank. */
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

/** Can every rank get all trees? Arcs of `flow` are set; source arcs are its arcs `first` + rank.
 */
bool ccl_i_pack_feasible(ccl_maxflow_t *flow, uint32_t source, const uint32_t *vertex, uint32_t n,
                         int64_t total, int64_t *missing_out);

#endif
