/**
 * @file lower.h
 * Lowering: a schedule becomes a thread-block program. Orders, allocation of thread blocks, and the
 * choice among ways of lowering by simulation.
 */
#ifndef CCL_LOWER_LOWER_H
#define CCL_LOWER_LOWER_H

#include "sim/sim.h"

CCL_BEGIN_DECLS

/** Of a message where the caller gives no size: 256 MiB. */
#define CCL_LOWER_SIZE_BYTES 268435456.0

/** Order in which a rank's operations run. */
typedef enum ccl_order {
    CCL_ORDER_STEP, /**< the schedule's own steps */
    CCL_ORDER_RR,   /**< round robin over chunks: ResCCL's baseline (SIGCOMM 2025, section 5.3) */
    CCL_ORDER_HPDS, /**< priority-based sub-pipelines (ResCCL, section 4.3, algorithm 1), their
                         variants and the order given: what simulation finds fastest */
    CCL_ORDER_HPDS_PRINTED /**< algorithm 1 as printed, and nothing else is tried: an ablation */
} ccl_order_t;

/** Which connections a thread block serves. */
typedef enum ccl_allocation {
    CCL_ALLOCATE_CONNECTION, /**< one per connection and channel: NCCL, MSCCL */
    CCL_ALLOCATE_STATE,      /**< connections never active together share one (ResCCL, 4.4) */
    CCL_ALLOCATE_CAPACITY    /**< several channels where a link is fast (HeteCCL, 5.3) */
} ccl_allocation_t;

/** One way of lowering a schedule, and the level at which the program runs. */
typedef struct ccl_way {
    ccl_order_t order;
    ccl_allocation_t allocation;
    ccl_granularity_t granularity;
} ccl_way_t;
/** Members of a way, as bits. */
enum { CCL_WAY_ORDER = 1, CCL_WAY_ALLOCATION = 2, CCL_WAY_GRANULARITY = 4 };

/** A preset, NULL for the default way, with those members of `given` that `given_bits` names. */
ccl_way_t ccl_way_choose(const ccl_way_t *preset, ccl_way_t given, unsigned given_bits);
/** Hierarchical mesh or any other schedule "+ HPDS": its order, state allocation, task level. */
extern const ccl_way_t ccl_way_hpds;

typedef enum ccl_stages {
    CCL_STAGES_AUTO, /**< cut where data passes between links inside servers and the network */
    CCL_STAGES_PHASE /**< the transfers' `phase` as given */
} ccl_stages_t;

/** Wall time of each part of lowering (ResCCL figure 10a; parsing is the caller's), and counts. */
typedef struct ccl_lower_stats {
    double analyse_s, order_s, lower_s; /**< dependency DAG; ordering; the rest */
    uint32_t pipelines;                 /**< sub-pipelines of CCL_ORDER_HPDS, else 0 */
} ccl_lower_stats_t;

/**
 * What lowerings of one schedule on one topology know of each other: how long its orders and cuts
 * take to run, so that what is slower is not made and simulated again by those that differ in
 * allocation, or are rough. Their programs are the same without. For several threads at once.
 */
typedef struct ccl_lower_memo ccl_lower_memo_t;
ccl_lower_memo_t *ccl_lower_memo_create(void); /**< NULL: out of memory */
/** Frees it and all it owns; NULL is fine. */
void ccl_lower_memo_destroy(ccl_lower_memo_t *memo);

typedef struct ccl_lower_options {
    size_t size;
    const char *proto; /**< "Simple" (default), "LL", "LL128" */
    bool no_fuse;      /**< keep receive and forward apart, in blocks of their own */
    bool out_of_place; /**< AllReduce and its like: separate output buffer (default in place) */
    bool ordered;   /**< steps are rounds (ccl_schedule_t.rounds), whatever the schedule says. Only
                         with CCL_ORDER_STEP. */
    uint32_t slots; /**< FIFO depth, in whole primitives, for which the program must finish;
                         0: 2. With 1 a ring's blocks forward less in one primitive. */
    ccl_order_t order;
    ccl_allocation_t allocation;
    ccl_granularity_t granularity; /**< level at which it will run and must finish: stage writes
                                        stages, task does not fuse */
    ccl_stages_t stages;           /**< at stage level */
    bool asked; /**< somebody asked for order, allocation and granularity: schedules with groups,
                   for which there is only `step`, `connection` and algorithm level, are refused
                   where one is another. Else they are lowered so whatever is set */
    ccl_executor_t executor;    /**< blocks are cut over channels to keep its limits */
    const ccl_topology_t *topo; /**< borrowed; needed by every order but `step`, every
                                     allocation but `connection`, and automatic stages */
    ccl_routes_t *routes;       /**< borrowed; NULL: made for the call */
    double size_bytes;        /**< the run whose timeline `state` looks at; 0: CCL_LOWER_SIZE_BYTES
                               */
    uint32_t batches;         /**< its micro-batches; 0: as many as the model says */
    ccl_lower_stats_t *stats; /**< filled when not NULL */
    bool rough; /**< to look at its time only, order `hpds` and allocation `state` soon: of more
                   than 100,000 sends not all ways are simulated; what state would merge, at a cost
                   of at most 1 %, stays in blocks of its own */
    ccl_lower_memo_t *memo;     /**< borrowed; of this schedule and topology; NULL: none */
    ccl_sim_result_t **run_out; /**< NULL, or gets the program's run of size_bytes and batches at
                                     `granularity` where lowering made it anyway, else NULL; to be
                                     destroyed by the caller */
} ccl_lower_options_t;
/** The defaults. */
#define CCL_LOWER_OPTIONS_INIT                                                                     \
    { .size = sizeof(ccl_lower_options_t), .proto = "Simple" }
/** The options of lowering, by their place in ccl_lower_options_t; ends without a name. The level,
    `granularity`, is the run's (ccl_sim_option_table). */
extern const ccl_option_t ccl_lower_option_table[];

/** May a transfer stand in the sub-pipeline of what it waits for? */
typedef enum ccl_order_flow {
    CCL_ORDER_FLOW_BY_PACE, /**< whichever gives the better pace */
    CCL_ORDER_FLOW_YES,
    CCL_ORDER_FLOW_NO,
    CCL_ORDER_FLOW_REVERSED,      /**< yes, with reductions in the mirrored order of copies */
    CCL_ORDER_FLOW_REVERSED_APART /**< no, likewise */
} ccl_order_flow_t;

/** The order that is wanted, and on what. */
typedef struct ccl_order_options {
    size_t size;
    const ccl_topology_t *topo; /**< may be NULL for CCL_ORDER_STEP */
    ccl_routes_t *routes;       /**< of the topology; NULL: its own */
    ccl_order_t order;
    ccl_order_flow_t flow; /**< of CCL_ORDER_HPDS */
    uint32_t batches;      /**< micro-batches of the run; 0: many */
} ccl_order_options_t;
/** The defaults. */
#define CCL_ORDER_OPTIONS_INIT                                                                     \
    { .size = sizeof(ccl_order_options_t) }

/**
 * The same schedule in another order: steps are renumbered so that every transfer has a step of its
 * own (transfers that exchange one chunk's values in one step keep sharing one); what it computes
 * stays the same. CCL_ORDER_STEP copies.
 *
 * Data dependencies follow from chunks and steps. Communication dependencies: no connection is used
 * twice in a sub-pipeline, and no link with a contention slope and no group beyond what its
 * transfers' peak rates (Simple protocol) need to fill it. Rounds of a synthesizer marked `ordered`
 * do not survive: steps are no rounds any more.
 *
 * In algorithm 1 as printed a transfer may stand in the sub-pipeline of the transfer that it waits
 * for. With few micro-batches that leaves connections idle; then it comes into a later one, and
 * among equals the transfer with the longest way behind it first. Unless the options say which,
 * both ways are tried; an estimate of their pace chooses. Beyond 2^20 transfers it is the first way
 * from 8 micro-batches on. ccl_lower() simulates both, where that takes no longer than a second or
 * so.
 *
 * @param pipeline_out  NULL, or [ntransfers], freed by the caller: sub-pipeline of each transfer of
 *                      *out (0 but for CCL_ORDER_HPDS).
 * @param stats         NULL, or analyse_s, order_s and pipelines are filled.
 * @retval CCL_ERR_INPUT  the topology has another number of ranks, or two ranks have no route.
 * @retval CCL_ERR_USAGE  no topology, unless the order is CCL_ORDER_STEP.
 * @par Source ResCCL (SIGCOMM 2025), section 4.3, algorithm 1; round robin: section 5.3.
 */
ccl_status_t ccl_schedule_order(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                const ccl_order_options_t *options, ccl_schedule_t **out,
                                uint32_t **pipeline_out, ccl_lower_stats_t *stats,
                                ccl_error_t *err);

/** Whether some transfer reduces. */
bool ccl_schedule_reduces(const ccl_schedule_t *schedule);

/**
 * The schedule as it drains best in a run of one micro-batch of this many bytes: in the order of
 * list scheduling, longest way first, a step for each transfer. Channels are new: a hop with links
 * of its own is one queue, served over as many channels as its FIFOs need to keep the link busy;
 * hops that share links keep their channels, each as many times as it carries more than another.
 * @param routes  of the topology.
 */
ccl_status_t ccl_schedule_order_list(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                     const ccl_topology_t *topo, ccl_routes_t *routes,
                                     double size_bytes, ccl_schedule_t **out, ccl_error_t *err);

/**
 * Lower a schedule to thread blocks, one per connection and channel (NCCL's and MSCCL's way); a
 * block that only forwards along one channel gets both ends and fused primitives. The program
 * computes what the schedule computes, is free of races, and finishes at algorithm level for any
 * FIFO depth >= options->slots in primitives: a primitive of k slices takes k slots, and by default
 * a micro-batch's are at most half of them.
 *
 * At stage level steps carry their stages and the program also finishes at algorithm level; at task
 * level it finishes for any FIFO depth >= 1 and any number of micro-batches. With an executor its
 * limits are kept, stages are channels, and slots above 2 count as 2.
 *
 * @retval CCL_ERR_INPUT        options lack the topology, or it has other ranks; a rank sends what
 * it does not have.
 * @retval CCL_UNSUPPORTED  more thread blocks than a GPU's sms, or beyond the executor's
 * limits; names the limit and the rank.
 * @par Source  capacity: HeteCCL (NSDI 2026), section 5.3; stages: ResCCL (SIGCOMM 2025),
 * section 2.1.
 */
ccl_status_t ccl_lower(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                       const ccl_lower_options_t *options, ccl_program_t **out, ccl_error_t *err);

/* ---------------------------------------------------------------- for who compares candidates */

/** Most bytes of a chunk in a micro-batch by default, counting all transports of the topology;
    INFINITY where nothing limits it: then there is one micro-batch. */
double ccl_lower_most_chunk_bytes(const ccl_topology_t *topo, const char *proto);

/**
 * Micro-batches that a run of `size_bytes` (0: CCL_LOWER_SIZE_BYTES) has by default, counting all
 * transports of the topology. @param chunk_bytes_out  bytes of the greatest chunk over all of them.
 */
double ccl_lower_batches(const ccl_schedule_t *schedule, const ccl_topology_t *topo,
                         const char *proto, double size_bytes, double *chunk_bytes_out);

/** A program and its run (NULL: not known). */
typedef struct ccl_timed_program {
    ccl_program_t *program;
    ccl_sim_result_t *run;
} ccl_timed_program_t;

/** Frees what it owns; the struct itself is the caller's. */
void ccl_timed_program_fini(ccl_timed_program_t *timed);

/**
 * timed->run: of timed->program as the options describe, with times of steps (state.c), but for
 * rough ones, whose run may be one that is known.
 * @param give_up_s  > 0: a longer run ends there, its time_s is INFINITY.
 */
ccl_status_t ccl_lower_run(const ccl_ctx_t *ctx, const ccl_lower_options_t *options,
                           ccl_timed_program_t *timed, double give_up_s, ccl_error_t *err);

CCL_END_DECLS
#endif
