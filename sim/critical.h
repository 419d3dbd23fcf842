/**
 * @file critical.h
 * What a run keeps to find its critical path: a node for every slice that a thread block worked on,
 * another for every slice that left its block before it drained; each knows what released it.
 */
#ifndef CCL_SIM_CRITICAL_H
#define CCL_SIM_CRITICAL_H

#include "sim/program.h"

typedef struct ccl_i_node {
    double start_s;    /* the last wait was over; a flow that left its block: handed over */
    double flow_s;     /* its flow began to drain */
    double end_s;      /* of the pass, or of the flow */
    uint32_t unit, at; /* at: which of the unit's steps */
    uint32_t batch, slice;
    uint32_t own;   /* the unit's node before it; of a flow that left its block: its pass */
    uint32_t pred;  /* what it waited for */
    uint32_t next;  /* the next flow of its connection */
    uint32_t freed; /* the next node that received on the same connection */
    uint32_t res;   /* link or group that limited its flow; CCL_NONE: none */
    uint8_t wait;   /* ccl_path_wait_t */
    bool left;      /* a flow that left its block */
    /* The node of a pull's flow follows that of the slice that its block works on. */
} ccl_i_node_t;

/** Nodes of a connection that are on their way: next to drain, to arrive; last that did. */
typedef struct ccl_i_conn_nodes {
    uint32_t first, last, draining, arriving;
    uint32_t drained, arrived;
    uint32_t last_freed, freeing, freed;
} ccl_i_conn_nodes_t;

typedef struct ccl_i_unit_nodes {
    uint32_t now, before; /* the slice in hand; the last that was done */
    uint32_t pred;
    uint8_t wait;
} ccl_i_unit_nodes_t;

typedef struct ccl_i_record {
    ccl_i_node_t *nodes;
    uint64_t cap;
    uint32_t n;
    ccl_i_unit_nodes_t *units; /* [nunits] */
    ccl_i_conn_nodes_t *conns; /* [nconns] */
    uint32_t *done;            /* [nsteps] last node that finished the step */
    uint32_t final;            /* node that ended the run */
    double end_s;
    uint32_t *begun; /* [nconns] flows that began in this instant */
    uint32_t nbegun;
    /* of a folded run, kept when it is unfolded; NULL: every unit was simulated */
    uint32_t *unit_of, *conn_of;
    uint32_t nunits, nconns; /* simulated */
} ccl_i_record_t;

/** Call when the run's tables stand, folded or not. */
ccl_status_t ccl_i_record_create(ccl_i_run_t *run, ccl_error_t *err);
void ccl_i_record_destroy(ccl_i_record_t *record);
/** Before the run is unfolded; run->nomem when out of memory. */
void ccl_i_record_keep(ccl_i_run_t *run);
/** After it: the path, and what links carried in each of this many intervals (0: not wanted). */
ccl_status_t ccl_i_record_path(const ccl_i_run_t *run, uint32_t intervals, ccl_sim_result_t *r,
                               ccl_error_t *err);

/* What happens, in the executor's order. */
void ccl_i_record_waited(ccl_i_run_t *run, uint32_t unit, ccl_path_wait_t wait);
void ccl_i_record_start(ccl_i_run_t *run, uint32_t unit, double time_s);
void ccl_i_record_done(ccl_i_run_t *run, uint32_t unit, double time_s);
void ccl_i_record_handed(ccl_i_run_t *run, uint32_t conn, double time_s);
void ccl_i_record_flow(ccl_i_run_t *run, uint32_t conn, double time_s);
/** The flow of a pull begins. */
void ccl_i_record_pull(ccl_i_run_t *run, uint32_t conn, double time_s);
void ccl_i_record_granted(ccl_i_run_t *run, uint32_t conn, double time_s);
void ccl_i_record_drained(ccl_i_run_t *run, uint32_t conn, double time_s);
void ccl_i_record_arrived(ccl_i_run_t *run, uint32_t conn);
void ccl_i_record_credit(ccl_i_run_t *run, uint32_t conn);
/** A slice was offered on a member's connection. */
void ccl_i_record_offered(ccl_i_run_t *run, uint32_t conn);
/** A trunk moved on with this member: in arrived slices, else in freed slots. */
void ccl_i_record_trunk(ccl_i_run_t *run, uint32_t member, bool arrived);
/** The instant's rates are solved. */
void ccl_i_record_instant(ccl_i_run_t *run);

#endif
