/*
 * Private to synth/latency: GPUs as places of a grid, and schedules of few steps along its digits.
 */
#ifndef CCL_SYNTH_LATENCY_H
#define CCL_SYNTH_LATENCY_H

#include "synth/common/plan.h"

/** Most digits of a place: 2^12 GPUs. */
#define CCL_I_GRID_DIGITS 12u

/**
 * GPUs in groups (servers, or sets). A place is group x inner + lane; groups of fewer than `inner`
 * GPUs have their GPUs at several lanes. Where all reach each other or form a grid of wires there
 * is one group.
 */
typedef struct ccl_i_grid {
    uint32_t ngroups, inner; /* inner: GPUs of the largest group */
    bool even;               /* all groups have as many GPUs */
    bool sets;               /* groups are no servers, but GPUs joined by fast hops */
    uint32_t *first;         /* [ngroups + 1] into ranks */
    uint32_t *ranks;         /* by group and lane */
    uint32_t *place;         /* [nranks] the least of the rank's places */
} ccl_i_grid_t;

/** How a GPU's steps follow each other. */
typedef enum ccl_i_form_order {
    CCL_I_FORM_AS_MADE,  /* phase by phase */
    CCL_I_FORM_BY_LINKS, /* as HPDS has it: links that share are used in turn */
    CCL_I_FORM_BY_WAYS   /* longest way first, on channels of its own */
} ccl_i_form_order_t;

/** A schedule along the digits of places. */
typedef struct ccl_i_form {
    const ccl_i_grid_t *grid; /* NULL: along shortest ways */
    /* Digits in the order in which a sum gathers; their factors multiply to the number of places. A
       digit's peers are the places that differ in it alone, all of which exchange in one step. */
    uint32_t factor[CCL_I_GRID_DIGITS], stride[CCL_I_GRID_DIGITS];
    uint32_t ndigits;
    /* AllReduce, Broadcast, Reduce: the first of them in which each GPU has a share of its own; in
       the others all have the whole of it. */
    uint32_t shared;
    /* First places of the first digit that have ways to other groups, 0: all. Only these own shares
       of what all have; in the others what is of the rest goes by these. */
    uint32_t owners;
    uint32_t channels, parts; /* chunks of a share: channels x parts */
    uint32_t across;          /* channels between groups, at most `channels` */
    bool joined;              /* chunks that lie side by side travel as one */
    bool row;                 /* all take a share's parts in the same order, not in turn */
    /* AllGather, ReduceScatter: what a GPU passes on for each of the others has channels of its
     * own.
     */
    bool apart;
    bool planned; /* chunks go as a plan of `parts` says (meet.h) */
    ccl_i_form_order_t order;
} ccl_i_form_t;

/** Do all GPUs have, or get, the whole of what is asked for? It goes in shares (`shared`). */
static inline bool ccl_i_form_is_whole(ccl_collective_kind_t kind) {
    return kind == CCL_ALLREDUCE || kind == CCL_BROADCAST || kind == CCL_REDUCE;
}

/** Shares of what all have, each with an owner. */
uint32_t ccl_i_form_shares(const ccl_i_form_t *form);
/** Thread blocks that the busiest GPU needs. */
uint32_t ccl_i_form_blocks(const ccl_i_form_t *form, ccl_collective_kind_t kind);
/** Transfers, about. */
double ccl_i_form_transfers(const ccl_i_form_t *form, const ccl_collective_t *want);
/** "shares of 8, all of 4 servers" */
void ccl_i_form_print(const ccl_i_form_t *form, ccl_collective_kind_t kind, ccl_text_t *out);

/**
 * The schedule. AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, AllToAll.
 * @retval CCL_UNSUPPORTED  two GPUs that the form joins have no route.
 */
ccl_status_t ccl_i_form_make(const ccl_i_cluster_t *cluster, const ccl_collective_t *want,
                             const ccl_i_form_t *form, ccl_schedule_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- shortest.c */

/** Along shortest ways, AllReduce from and to GPUs in the middle; of the form only channels and
    parts count. */
ccl_status_t ccl_i_shortest_make(const ccl_ctx_t *ctx, ccl_i_cluster_t *cluster,
                                 const ccl_collective_t *want, const ccl_i_form_t *form,
                                 ccl_schedule_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- grid.c */

/** Servers as groups. Memory is the arena's. */
ccl_status_t ccl_i_grid_servers(const ccl_i_cluster_t *cluster, ccl_arena_t *arena,
                                ccl_i_grid_t *out, ccl_error_t *err);
/**
 * Where no servers are named: sets of GPUs joined by fast hops (ccl_i_pods_find()).
 * @retval CCL_UNSUPPORTED  there are none.
 */
ccl_status_t ccl_i_grid_sets(const ccl_i_cluster_t *cluster, ccl_routes_t *routes,
                             ccl_arena_t *arena, ccl_i_grid_t *out, ccl_error_t *err);
/** All GPUs as one group, in the servers' order. */
ccl_status_t ccl_i_grid_whole(const ccl_i_cluster_t *cluster, ccl_arena_t *arena, ccl_i_grid_t *out,
                              ccl_error_t *err);
/**
 * Where some lanes of groups of one size have no way to each other (a dead NIC): those that have
 * first.
 * @param alive  how many these are.
 * @retval CCL_UNSUPPORTED  all are, or none.
 */
ccl_status_t ccl_i_grid_alive(const ccl_i_cluster_t *cluster, ccl_arena_t *arena,
                              const ccl_i_grid_t *from, ccl_i_grid_t *out, uint32_t *alive,
                              ccl_error_t *err);
/**
 * The GPUs of every group in an order in which those that differ in one digit reach each other.
 * @retval CCL_UNSUPPORTED  none was found.
 */
ccl_status_t ccl_i_grid_wired(const ccl_i_cluster_t *cluster, ccl_arena_t *arena,
                              const ccl_i_grid_t *from, const uint32_t *factor, uint32_t ndigits,
                              ccl_i_grid_t *out, ccl_error_t *err);

#endif
