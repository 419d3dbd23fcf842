/*
 * Private to ordering. Transfers that must share a step are one unit; a unit's data dependencies
 * follow from the histories of the ranks and chunks that it reads and writes (dag.c), its
 * communication dependencies from the links and groups of its routes (links.c). order.c and hpds.c
 * put the units in a row.
 */
#ifndef CCL_LOWER_ORDER_ORDER_H
#define CCL_LOWER_ORDER_ORDER_H

#include "lower/lower.h"

/**
 * All chunks' dependency graphs. A rank's accesses of one chunk form a history, a row of groups:
 * all accesses of a group wait for all those of the group before, and for nothing else. No edges
 * are stored: a direct AllReduce of n ranks has n^2 of them per chunk.
 */
typedef struct ccl_i_dag {
    uint32_t nmembers, nunits, nchunks, ngroups;
    uint32_t *transfer;    /* [nmembers] index in the schedule; by chunk, then step, then unit */
    uint32_t *unit_of;     /* [nmembers] */
    uint32_t *unit_first;  /* [nunits + 1] into members; units by chunk, then step */
    uint32_t *unit_chunk;  /* [nunits] */
    uint32_t *unit_step;   /* [nunits] as given */
    uint32_t *unit_wait;   /* [nunits] accesses whose group is not open yet */
    uint32_t *chunk_first; /* [nchunks + 1] into units */
    uint32_t *group_of;    /* [2 nmembers] by access: 2 m reads at the source, 2 m + 1 writes */
    uint32_t *group_first; /* [ngroups + 1] into accesses */
    uint32_t *group_left;  /* [ngroups] accesses not done */
    uint8_t *group_starts; /* [ngroups + 1] 1: first of its history */
    uint32_t *group_units; /* [2 nmembers] by group: the unit of each access */
    const uint8_t *past;   /* [nunits] 1: taken already, not to be ordered; NULL: none is */
    uint32_t npast;
} ccl_i_dag_t;

/**
 * The schedule's transfers as units with their dependencies. Fini also after a failure.
 * @param commute  reductions that come to a rank one after the other may come in any order; else as
 * given.
 */
ccl_status_t ccl_i_dag_init(ccl_i_dag_t *dag, const ccl_schedule_t *schedule, bool commute,
                            ccl_error_t *err);
void ccl_i_dag_fini(ccl_i_dag_t *dag);
/** As after init: nothing is done. */
void ccl_i_dag_rewind(ccl_i_dag_t *dag);
/** Whatever waited is waited for, last steps first; nothing is done. Twice: as it was. */
void ccl_i_dag_reverse(ccl_i_dag_t *dag);
/** All units, each behind what it waits for. @param row_out  [nunits] */
ccl_status_t ccl_i_dag_walk(const ccl_i_dag_t *dag, uint32_t *row_out, uint32_t *nrow_out,
                            ccl_error_t *err);
/**
 * The unit is done: units that waited for it alone are given to `ready` (ascending order is not
 * promised). Units that wait for nothing from the start have unit_wait 0 after init.
 */
typedef void (*ccl_i_ready_fn)(uint32_t unit, void *user);
void ccl_i_dag_take(ccl_i_dag_t *dag, uint32_t unit, ccl_i_ready_fn ready, void *user);

/** Connections and the resources (links, then groups) that their routes use. */
typedef struct ccl_i_conns {
    uint32_t nconns, nresources;
    uint32_t *conn_of;    /* [nmembers of the DAG] */
    double *peak_Bps;     /* [nconns] most that one transfer moves: its block, its narrowest link */
    double *delay_s;      /* [nconns] of one slice, beside its bytes */
    uint8_t *crosses_net; /* [nconns] */
    uint32_t *use_first;  /* [nconns + 1] into uses */
    uint32_t *uses;       /* resources; a group once for each of its links on the route */
    double *capacity_Bps; /* [nresources] */
    double *full_Bps;     /* [nresources] INFINITY: sharing it loses nothing, it never conflicts */
} ccl_i_conns_t;

/** @retval CCL_ERR_INPUT  two ranks have no route. Fini also after a failure. */
ccl_status_t ccl_i_conns_init(ccl_i_conns_t *conns, const ccl_schedule_t *schedule,
                              const ccl_i_dag_t *dag, const ccl_topology_t *topo,
                              ccl_routes_t *routes, ccl_error_t *err);
void ccl_i_conns_fini(ccl_i_conns_t *conns);

/** Place of an open unit in the order: least urgency first, then least rank. */
typedef struct ccl_i_entry {
    uint64_t urgency;
    uint32_t rank;
    uint32_t chunk; /* of the unit: looked up often; or what else the entry is of */
} ccl_i_entry_t;
static inline bool ccl_i_entry_before(const ccl_i_entry_t *a, const ccl_i_entry_t *b) {
    return a->urgency != b->urgency ? a->urgency < b->urgency : a->rank < b->rank;
}
#define CCL_I_ENTRY_BEFORE(x_, a_, b_) ccl_i_entry_before(&(a_), &(b_))
CCL_HEAP(ccl_i_entries, ccl_i_entry_t, void *, CCL_I_ENTRY_BEFORE, CCL_HEAP_PUT)

/** Round robin. @param order_out [nunits]. */
ccl_status_t ccl_i_order_rr(const ccl_ctx_t *ctx, ccl_i_dag_t *dag, uint32_t *order_out,
                            ccl_error_t *err);
/** An order of units with its sub-pipelines. */
typedef struct ccl_i_row {
    uint32_t *units, *pipelines; /* [nunits] the unit that comes i-th; its sub-pipeline */
    uint32_t npipelines;
} ccl_i_row_t;

/**
 * Algorithm 1. @param flowing  a task may follow its predecessor in the same sub-pipeline.
 * @param begin  progress before it: what is done, and the total.
 * @param out    has room.
 */
ccl_status_t ccl_i_order_hpds(const ccl_ctx_t *ctx, ccl_i_dag_t *dag, const ccl_i_conns_t *conns,
                              bool flowing, ccl_progress_t begin, ccl_i_row_t *out,
                              ccl_error_t *err);
/**
 * List scheduling: longest way first, each connection's transfers one after the other.
 * @param chunk_bytes  [nchunks]
 * @param order_out    [nunits] as they start.
 * @par Source  Hu 1961 (highest level first).
 */
ccl_status_t ccl_i_order_list(const ccl_ctx_t *ctx, ccl_i_dag_t *dag, const ccl_i_conns_t *conns,
                              const double *chunk_bytes, uint32_t *order_out, ccl_error_t *err);
/**
 * Algorithm 1 time-reversed (`turned.c`): all reductions and what they wait for, in the mirrored
 * order of the copies that they are when time runs backwards; then the rest in its order.
 * @param dag  reductions commute; rewound. Parameters as above.
 */
ccl_status_t ccl_i_order_turned(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                ccl_i_dag_t *dag, const ccl_i_conns_t *conns, bool flowing,
                                ccl_i_row_t *out, ccl_error_t *err);

/**
 * Estimate of a run in this order at task level, seconds. @param chunk_bytes of a micro-batch.
 */
ccl_status_t ccl_i_order_pace(const ccl_i_dag_t *dag, const ccl_i_conns_t *conns,
                              const uint32_t *order, double chunk_bytes, double batches,
                              double *seconds_out, ccl_error_t *err);

#endif
