/*
 * Routes between GPUs as they are kept; private to routes*.c.
 */
#ifndef CCL_TOPOLOGIES_ROUTES_H
#define CCL_TOPOLOGIES_ROUTES_H

#include "topologies/topologies.h"

/* What one device sees over one set of links: where its routes lead or, reversed, from which
   routes lead to it. */
typedef struct ccl_i_routes_pass {
    uint32_t *hops;       /* [ndevices], CCL_NONE: not reached */
    double *wide_Bps;     /* [ndevices] widest bottleneck over hop-shortest routes */
    uint32_t *pred_first; /* [ndevices], end in pred_end: links on hop-shortest routes, by target;
                             reversed: by source */
    uint32_t *pred_end;
    uint32_t *pred;
    size_t bytes;
    bool reverse, fast;
} ccl_i_routes_pass_t;

typedef struct ccl_i_routes_source {
    struct ccl_i_routes_pair *pairs; /* [nranks]; NULL until asked for */
    uint32_t next, ahead;            /* the destination after the last new one; new ones in a row */
} ccl_i_routes_source_t;

struct ccl_routes {
    const ccl_topology_t *topo;
    ccl_arena_t arena;
    ccl_i_routes_source_t *sources;   /* [nranks] */
    ccl_i_routes_pass_t **passes;     /* [CCL_I_PASSES * ndevices] by ccl_i_routes_slot() */
    uint32_t *in_first, *in_links;    /* links by target; NULL until a reversed pass is made */
    struct ccl_i_routes_tree **trees; /* [ntree_buckets] hashed by what was asked for */
    uint32_t ntrees, ntree_buckets;
    bool *fast_kind; /* [nkinds] nvlink or xgmi */
    bool any_fast;
    uint32_t net_kind, pcie_kind; /* CCL_NONE: no such link */
    uint32_t nroutes;
    /* Kept passes, oldest first, in a ring of CCL_I_PASSES ndevices places. */
    uint32_t *ring;
    uint32_t ring_head, ring_len;
    size_t pass_bytes;
    /* Scratch of one pass or pair. */
    uint32_t *queue; /* [ndevices] */
    uint32_t *stamp; /* [ndevices] */
    uint32_t stamp_now;
    double *to_dst_s, *from_src_s;    /* [ndevices] */
    uint32_t *fork_head, *fork_count; /* [ndevices] */
    uint32_t *equal, *fork_next;      /* [nlinks] links on equal routes; next of the same device */
    uint32_t *path;                   /* [ndevices] */
    uint32_t nequal;
};

/* Where the pass of a device is kept: all links or nvlink and xgmi alone, onward or reversed. */
enum { CCL_I_PASS_ALL = 0, CCL_I_PASS_FAST = 1, CCL_I_PASS_REVERSE = 2, CCL_I_PASSES = 4 };
static inline size_t ccl_i_routes_slot(uint32_t device, uint32_t which) {
    return (size_t)device * CCL_I_PASSES + which;
}

/** The pass of a device, `which` of CCL_I_PASS_*; made when it is not kept. NULL: no memory. */
ccl_i_routes_pass_t *ccl_i_routes_pass(ccl_routes_t *r, uint32_t device, uint32_t which);
void ccl_i_routes_pass_destroy(ccl_i_routes_pass_t *pass);
/** Fill r->equal with the links on equal routes and the forks per device; `far` is reached in the
 * pass of `origin` (the source; reversed: the destination). */
void ccl_i_routes_solve(ccl_routes_t *r, const ccl_i_routes_pass_t *p, uint32_t origin,
                        uint32_t far);
/** The link that a solved route takes from `v` on. @param turn  number that chooses at forks. */
uint32_t ccl_i_routes_next(const ccl_routes_t *r, uint32_t v, uint64_t turn);
/** Least common multiple of the solved forks (CCL_I_PERIOD_UNLIMITED: too large) and the widest. */
void ccl_i_routes_forks(const ccl_routes_t *r, uint32_t *period_out, uint32_t *width_out);
#define CCL_I_PERIOD_UNLIMITED UINT32_MAX
#define CCL_I_LATENCY_EQUAL_S 1e-15
/** Sums and flags of a route whose links are set. */
void ccl_i_routes_sum(const ccl_routes_t *r, ccl_route_t *route);

#endif
