/*
 * Routes between GPUs as they are kept; private to routes*.c.
 */
#ifndef CCL_TOPOLOGIES_ROUTES_H
#define CCL_TOPOLOGIES_ROUTES_H

#include "topologies/topologies.h"

/* What one source sees over one set of links. */
typedef struct ccl_i_routes_pass {
    uint32_t *hops;       /* [ndevices], CCL_NONE: not reached */
    double *wide_Bps;     /* [ndevices] widest bottleneck over hop-shortest routes */
    uint32_t *pred_first; /* [ndevices], end in pred_end: links on hop-shortest routes, by target */
    uint32_t *pred_end;
    uint32_t *pred;
    size_t bytes;
} ccl_i_routes_pass_t;

typedef struct ccl_i_routes_source {
    ccl_i_routes_pass_t *pass[2];    /* nvlink and xgmi alone, all links */
    struct ccl_i_routes_pair *pairs; /* [nranks]; NULL until asked for */
    uint32_t next, ahead;            /* the destination after the last new one; new ones in a row */
} ccl_i_routes_source_t;

struct ccl_routes {
    const ccl_topology_t *topo;
    ccl_arena_t arena;
    ccl_i_routes_source_t *sources; /* [nranks] */
    bool *fast_kind;                /* [nkinds] nvlink or xgmi */
    bool any_fast;
    uint32_t net_kind, pcie_kind; /* CCL_NONE: no such link */
    uint32_t nroutes;
    /* Kept passes, oldest first, in a ring of 2 nranks places. */
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

/** The pass of a GPU over nvlink and xgmi alone, or over all links; made when it is not kept. NULL:
 * no memory. */
ccl_i_routes_pass_t *ccl_i_routes_pass(ccl_routes_t *r, uint32_t src_rank, bool fast_only);
void ccl_i_routes_pass_destroy(ccl_i_routes_pass_t *pass);

#endif
