/** @file program.h State of a program run, shared by the executor and steady-state skipping. */
#ifndef CCL_SIM_PROGRAM_H
#define CCL_SIM_PROGRAM_H

#include "models/models.h"
#include "sim/internal.h"

#include <math.h>

/** What a thread block is doing; waiting phases come before busy ones. */
typedef enum ccl_i_phase {
    PHASE_LAUNCH,
    PHASE_DEP,      /* at the start of a primitive: dependency, previous stage */
    PHASE_DATA,     /* for the next slice */
    PHASE_SLOT,     /* for room in the send FIFO */
    PHASE_OVERHEAD, /* timer */
    PHASE_PASS,     /* timer */
    PHASE_FLOW,     /* until its flow has drained */
    PHASE_PULL,     /* until the slice that it pulls is in, and its own flow has drained */
    PHASE_DONE
} ccl_i_phase_t;

enum { EV_UNIT, EV_ARRIVE, EV_CREDIT, EV_FLAG, EV_LAUNCH, EV_PULLED, EV_ARRIVE_ALL, EV_CREDIT_ALL };

/** Of a unit in PHASE_PULL. */
enum {
    PULL_IN = 1,     /* the slice is in */
    PULL_SENT = 2,   /* the flow that it sends meanwhile has drained */
    PULL_GRANTED = 4 /* exclusive sharing: one of its flows has got its links */
};

/** A thread block, or one stage of one. */
typedef struct ccl_i_unit {
    uint32_t tb;            /* index into the program's */
    uint32_t first, nsteps; /* places (ccl_i_step_at) */
    uint32_t send, recv;    /* connections (of the step in hand), CCL_NONE */
    uint32_t stage_dep;     /* last step of the block's previous stage; CCL_NONE */
    uint32_t pc, batch, slice;
    uint32_t next_waiter;
    uint8_t phase;
    uint8_t pull;  /* PULL_*; 0 in other phases */
    bool ready;    /* in the ready list */
    double mark_s; /* accounted until here; when done: the end */
    double use_s[4];
} ccl_i_unit_t;
enum { USE_BUSY, USE_DATA, USE_PEER, USE_SLOT };

/** Slices that were handed over and wait for an earlier one to drain: a ring of steps. */
typedef struct ccl_i_queue {
    uint32_t head, tail, len;
    uint32_t steps[];
} ccl_i_queue_t;

enum { DRAINS_NOT, DRAINS, DRAINS_WITH_PULL };

/**
 * A FIFO. Those of a switch connection's members come with a trunk, which the single GPU's block
 * sends or receives on as on any connection: a free slot of a multicasting trunk is one in every
 * member's FIFO, a slice that arrived on a reducing one has arrived in every member's. Flows of
 * switch connections are those of their trunks.
 */
typedef struct ccl_i_conn {
    uint32_t sender, receiver; /* units; CCL_NONE when nobody is there, or it is at the trunk, or at
                                  the members */
    uint32_t slots;
    uint32_t sent, freed, arrived, taken; /* slices, modulo 2^32; only differences count */
    uint32_t step;                        /* of the draining slice */
    uint8_t draining;                     /* DRAINS_* */
    bool holds;           /* its sender is busy until a slice drains; of a reducing trunk too */
    bool roomy;           /* all slices of the run fit into the FIFO: nobody waits for its slots */
    uint8_t kind;         /* of transport, in the order of set-up */
    uint32_t trunk;       /* into run->trunks, of a trunk and of its members; CCL_NONE: plain */
    ccl_i_queue_t *queue; /* NULL: none has waited yet */
    double delay_s;       /* links and transport; of a trunk the largest of its members' */
    const ccl_route_t *route; /* of a trunk, and its members: the tree */
} ccl_i_conn_t;

/** What a trunk has beyond its connection. */
typedef struct ccl_i_trunk {
    const ccl_tree_t *tree;
    uint32_t conn;     /* the trunk itself */
    uint32_t first, n; /* its members: run->members; folded, one of each colour */
    uint32_t least;    /* of them as far as the trunk: in freed slots, reducing in arrived slices */
    bool reduces;
    bool even; /* all members have the same delay */
} ccl_i_trunk_t;

static inline uint32_t ccl_i_conn_waiting(const ccl_i_conn_t *conn) {
    return conn->queue ? conn->queue->tail - conn->queue->head : 0;
}
static inline uint32_t ccl_i_conn_step(const ccl_i_conn_t *conn, uint32_t i) {
    return conn->queue->steps[(conn->queue->head + i) % conn->queue->len];
}

/** What a step does in this run. */
typedef struct ccl_i_work {
    double bytes;    /* of a slice */
    double rate_Bps; /* of a pass, P */
    double overhead_s;
    uint32_t slices;
    uint32_t path; /* when it sends */
    uint32_t dep;  /* step it waits for; CCL_NONE */
    bool sends, receives;
    bool pulls;   /* receives on a reducing trunk */
    bool awaited; /* something depends on the step */
} ccl_i_work_t;

/** Transports that a program uses, by number of kind, and what the model takes over all of them. */
typedef struct ccl_i_fifos {
    struct {
        const char *name;
        ccl_transport_t transport;
    } kind[64];
    uint32_t n;
    double slice_bytes;     /* smallest */
    uint32_t slots, slices; /* fewest, most */
} ccl_i_fifos_t;

/** The whole program's tables, while a run simulates one block of each kind (fold.c). */
typedef struct ccl_i_fold {
    ccl_i_unit_t *units;
    ccl_i_conn_t *conns;
    uint32_t *order, *step_conns;
    double *step_start_s, *step_end_s;
    uint32_t nunits, nconns;
    ccl_i_trunk_t *trunks;
    uint32_t *members, ntrunks;
    uint32_t *unit_of;     /* [nunits] the simulated unit that stands for it */
    uint32_t *conn_of;     /* [nconns] and the connection */
    uint32_t *first_share; /* [simulated connections + 1] into shares */
    ccl_i_share_t *shares; /* links, groups, reducers that flows of a simulated connection load */
} ccl_i_fold_t;

typedef struct ccl_i_run {
    const ccl_ctx_t *ctx;
    const ccl_topology_t *topo;           /* with what `variation` makes of its links */
    const ccl_sim_variation_t *variation; /* NULL: none */
    const ccl_program_t *program;
    const ccl_i_fifos_t *fifos; /* transports by ccl_i_conn_t.kind */
    ccl_granularity_t granularity;
    uint32_t batches;
    ccl_i_engine_t *engine;
    ccl_trace_t *trace;
    double *slice_start_s, *flow_start_s; /* [nunits], [nconns] for the trace; NULL: none */
    ccl_i_unit_t *units;
    uint32_t nunits, nleft;
    uint32_t *rank_units; /* [nranks + 1] units are by rank */
    ccl_i_conn_t *conns;  /* trunks last */
    uint32_t nconns;
    ccl_i_trunk_t *trunks; /* [ntrunks] NULL: no switch connections */
    uint32_t ntrunks;
    uint32_t *members;   /* connections, by trunk */
    uint32_t *pull_path; /* [nsteps] of those that pull; NULL: none does */
    uint32_t nsteps;     /* that are simulated */
    ccl_i_fold_t *fold;  /* NULL: every block is simulated */
    ccl_i_work_t *work;  /* [nsteps] of those that are simulated; NULL: not yet, or not any more */
    ccl_i_work_t *works; /* [nworks] all different, without their paths and what they wait for */
    uint32_t nworks;
    size_t works_cap;
    uint32_t *work_of; /* [steps of the program] into works */
    uint32_t *order;   /* [nsteps] steps by unit; NULL: that is their order */
    /* [2 nsteps] what a step sends and receives on, when units have several connections */
    uint32_t *step_conns;
    double *step_start_s, *step_end_s; /* [nsteps] of the result; NULL: not asked for */
    uint32_t *done;                    /* [nsteps] micro-batches that dependents may see */
    uint32_t *waiters;                 /* [nsteps] first unit that waits for the step */
    double *flag_s;                    /* [nranks] */
    uint32_t *ready;                   /* ring of nunits + 1: units to go on with */
    uint32_t ready_head, ready_tail;
    bool nomem, gave_up;
    double end_s;
    double give_up_s;     /* INFINITY: never */
    double *rest_s;       /* [nsteps] by order: least time of a unit's steps from this one on,
                             of a micro-batch; NULL: never gives up */
    double *unsent_bytes; /* [links] of flows that have not begun; NULL: not known */
    uint64_t primitives;  /* done so far, skipped ones too */
    uint64_t passed;      /* of them skipped */
    uint64_t most;        /* gives up beyond as many that are not skipped */
    uint64_t total;       /* of the run */
    uint32_t rounds;      /* instants since progress was last reported */
    ccl_status_t status;  /* why the run was stopped */
    uint64_t skipped;     /* micro-batches passed over */
    struct ccl_i_steady *steady; /* NULL: no skipping */
    struct ccl_i_record *record; /* NULL: no critical path is wanted */
    uint32_t wrapped; /* unit that finished a primitive it repeats every micro-batch; CCL_NONE */
} ccl_i_run_t;

/** The step at a place of all units'. */
static inline uint32_t ccl_i_step_at(const ccl_i_run_t *run, uint32_t place) {
    return run->order ? run->order[place] : place;
}

/** A run in full that stops where extrapolation is cheaper (estimate.c). */
typedef struct ccl_i_trial {
    uint32_t first; /* set: micro-batches of the shortest run to extrapolate from */
    bool stopped;   /* set: it did stop, and its time is INFINITY */
} ccl_i_trial_t;
/** Sets when the run stops. @param slots  most of any FIFO. */
void ccl_i_trial_begin(struct ccl_i_run *run, ccl_i_trial_t *trial, uint32_t slots);
/** setup.c: one run of all micro-batches. @param trial  NULL: to its end. */
ccl_status_t ccl_i_sim_run(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                           const ccl_program_t *program, const ccl_sim_options_t *options,
                           ccl_i_trial_t *trial, ccl_sim_result_t **out, ccl_error_t *err);

/* known.c */
/** What a run depends on, hashed but for its level, of which a run of one micro-batch is
    independent. */
typedef struct ccl_i_run_key {
    uint64_t a, b;
    ccl_granularity_t level;
} ccl_i_run_key_t;
/** False: such a run is not kept. */
bool ccl_i_run_key(const ccl_ctx_t *ctx, const ccl_topology_t *topo, const ccl_program_t *program,
                   const ccl_sim_options_t *options, ccl_i_run_key_t *out);
/** *out stays as it is where the run has to be made. */
ccl_status_t ccl_i_runs_get(const ccl_ctx_t *ctx, const ccl_i_run_key_t *key,
                            const ccl_topology_t *topo, const ccl_program_t *program,
                            const ccl_sim_options_t *options, ccl_sim_result_t **out,
                            ccl_error_t *err);
/** Whether such a run is to record the times of its steps, so that it can be kept whole. */
bool ccl_i_runs_keeps(const ccl_program_t *program);
void ccl_i_runs_put(const ccl_ctx_t *ctx, const ccl_i_run_key_t *key, const ccl_program_t *program,
                    const ccl_sim_result_t *r, double give_up_s);
/** How often a run was not made again. */
uint64_t ccl_i_runs_hits(const ccl_runs_t *runs);

/** deadlock.c: r->deadlock of a run that is stuck; with `cause` also on what it depends. */
ccl_status_t ccl_i_run_deadlock(const ccl_i_run_t *run, const ccl_i_fifos_t *fifos, bool cause,
                                ccl_sim_result_t *r, ccl_error_t *err);
/** One line: how many blocks are stuck, and the cause where it is known. */
void ccl_i_deadlock_text(const ccl_deadlock_t *d, char *out, size_t len);

/**
 * setup.c: the topology with other links; the rest is borrowed.
 * @param links_out  [nlinks] malloc'ed.
 * @retval CCL_ERR_INPUT  a value out of its range.
 */
ccl_status_t ccl_i_vary(const ccl_topology_t *topo, const ccl_sim_variation_t *variation,
                        ccl_topology_t *out, ccl_link_t **links_out, ccl_error_t *err);
/** Sum of a way's latencies, and the narrowest of its links, as they are in the run. */
double ccl_i_way_latency_s(const ccl_topology_t *topo, const uint32_t *links, uint32_t n);
double ccl_i_way_bottleneck_Bps(const ccl_topology_t *topo, const uint32_t *links, uint32_t n);
/** When a rank's blocks start. */
double ccl_i_launch_s(const ccl_i_run_t *run, uint32_t rank);
/** Factor of what the blocks of a rank move a second. */
static inline double ccl_i_block_rate(const ccl_i_run_t *run, uint32_t rank) {
    return run->variation && run->variation->block_rate ? run->variation->block_rate[rank] : 1;
}
/** Links of the way to or from the member at `rank`, into links (room for the tree's); how many. */
uint32_t ccl_i_member_way(const ccl_topology_t *topo, const ccl_i_trunk_t *t, uint32_t rank,
                          uint32_t *links);

ccl_i_engine_t *ccl_i_run_engine(ccl_i_run_t *run, ccl_sharing_t sharing);

/** A unit with several connections takes up those of its step in hand. */
static inline void ccl_i_unit_conns(const ccl_i_run_t *run, ccl_i_unit_t *u) {
    uint32_t step = ccl_i_step_at(run, u->first + u->pc);
    u->send = run->step_conns[2 * (size_t)step];
    u->recv = run->step_conns[2 * (size_t)step + 1];
}

/** Whether the trunk's end itself, not a member's FIFO. */
static inline bool ccl_i_conn_is_trunk(const ccl_i_run_t *run, uint32_t c) {
    return c >= run->nconns - run->ntrunks;
}
/** Whether a block offers on it: a member's FIFO of a reducing switch connection. */
static inline bool ccl_i_conn_offers(const ccl_i_run_t *run, uint32_t c) {
    uint32_t trunk = run->ntrunks > 0 ? run->conns[c].trunk : CCL_NONE;
    return trunk != CCL_NONE && run->trunks[trunk].reduces && !ccl_i_conn_is_trunk(run, c);
}

static inline const ccl_transport_t *ccl_i_conn_transport(const ccl_i_run_t *run,
                                                          const ccl_i_conn_t *conn) {
    return &run->fifos->kind[conn->kind].transport;
}

/** Bytes on links that a message takes besides its own. */
static inline double ccl_i_message_bytes(const ccl_i_run_t *run, const ccl_i_conn_t *conn) {
    double message_s = ccl_i_conn_transport(run, conn)->message_s;
    if (!(message_s > 0))
        return 0;
    return message_s * (run->variation ? ccl_i_way_bottleneck_Bps(run->topo, conn->route->links,
                                                                  conn->route->nlinks)
                                       : conn->route->bottleneck_Bps);
}

/** Bytes on links of one of a primitive's slices, with its share of what messages take. */
static inline double ccl_i_flow_bytes(const ccl_i_run_t *run, const ccl_i_conn_t *conn,
                                      double slice_bytes, uint32_t slices) {
    const ccl_transport_t *t = ccl_i_conn_transport(run, conn);
    double bytes = slice_bytes * t->wire;
    if (!(t->message_s > 0) || !(slice_bytes > 0))
        return bytes;
    double messages = fmax(1, ccl_model_ceil(slice_bytes * slices / t->message_bytes));
    return bytes + ccl_i_message_bytes(run, conn) * messages / slices;
}

static inline double ccl_i_work_bytes(const ccl_i_run_t *run, const ccl_i_conn_t *conn,
                                      const ccl_i_work_t *w) {
    return ccl_i_flow_bytes(run, conn, w->bytes, w->slices);
}

/** What a unit's only connections are: kinds of transport, if it has them. */
typedef struct ccl_i_ends {
    uint8_t send, recv;
} ccl_i_ends_t;

/** Transports by kind, resolved once. */
typedef struct ccl_i_kinds {
    const ccl_topology_t *topo;
    const char *proto;
    ccl_i_ends_t *ends; /* [units] */
    double piece_bytes; /* smallest over those used */
    ccl_i_fifos_t fifos;
} ccl_i_kinds_t;

/* conns.c */
ccl_i_kinds_t ccl_i_kinds_init(const ccl_topology_t *topo, const ccl_program_t *program);
/** Micro-batches by default. */
ccl_status_t ccl_i_kinds_batches(const ccl_i_kinds_t *k, const ccl_program_t *program,
                                 double size_bytes, uint32_t *out, ccl_error_t *err);
/** Units, connections and trunks of the run's program, and the transports that they use. */
ccl_status_t ccl_i_run_wiring(ccl_i_run_t *run, ccl_i_kinds_t *kinds, ccl_routes_t *routes,
                              ccl_error_t *err);
/* work.c */
/** What every step of the program does: work_of; flows and bytes of links come to r. */
ccl_status_t ccl_i_work_make(ccl_i_run_t *run, const ccl_i_kinds_t *kinds, double size_bytes,
                             ccl_sim_result_t *r, ccl_error_t *err);
/** The step that a step of an unfolded unit waits for; CCL_NONE: none, or order is enough. */
uint32_t ccl_i_work_dep(const ccl_i_run_t *run, uint32_t unit, uint32_t step);
/** Of each step whether another, or a stage, waits for it. */
void ccl_i_work_mark(ccl_i_work_t *work, uint32_t nsteps, const ccl_i_unit_t *units,
                     uint32_t nunits);
/** `work` of an unfolded run. False: no memory. */
bool ccl_i_work_table(ccl_i_run_t *run);
/** Report progress; CCL_INTERRUPTED when the run must stop. */
ccl_status_t ccl_i_run_progress(const ccl_i_run_t *run);

/**
 * Find blocks that are alike and leave one of each kind in the run's tables (nothing when few are).
 * Call when the tables stand and nothing has run. @param slices that the run is going to send.
 * False when out of memory.
 */
bool ccl_i_fold(ccl_i_run_t *run, uint64_t slices);
/** Put the whole program's tables back, with what the run found; nothing when it was not folded. */
void ccl_i_unfold(ccl_i_run_t *run);

/** least.c: the run cannot end by give_up_s; before folding. */
bool ccl_i_least_exceeds(const ccl_i_run_t *run, const ccl_sim_result_t *r);
/** After folding. @param r  has the bytes of links. False when out of memory. */
bool ccl_i_least_init(ccl_i_run_t *run, const ccl_sim_result_t *r);
void ccl_i_least_fini(ccl_i_run_t *run);
/** A unit begins a micro-batch of a step: gives up when what it has left takes too long. */
void ccl_i_least_step(ccl_i_run_t *run, const ccl_i_unit_t *u, double time_s);
/** Likewise of the links of a flow that begins. */
void ccl_i_least_flow(ccl_i_run_t *run, const ccl_route_t *route, double bytes, double time_s);

/** Steady-state detection and skipping (steady.c). Called between instants. */
struct ccl_i_steady *ccl_i_steady_create(const ccl_i_run_t *run);
void ccl_i_steady_destroy(struct ccl_i_steady *steady);
/** Looks for a period and skips whole ones; returns micro-batches skipped (0 mostly). */
uint32_t ccl_i_steady_step(ccl_i_run_t *run, double now_s);
/** A unit finished a primitive (cheap test whether a snapshot is due). */
bool ccl_i_steady_wants(const ccl_i_run_t *run, uint32_t unit);

#endif
