/**
 * @file sim.h
 * The simulator: times a program or a flow list on a topology by the model of docs/model.md.
 */
#ifndef CCL_SIM_SIM_H
#define CCL_SIM_SIM_H

#include "schedule/schedule.h"

CCL_BEGIN_DECLS

typedef enum ccl_sharing {
    CCL_SHARING_FAIR,     /**< max-min fair rates */
    CCL_SHARING_EXCLUSIVE /**< a flow holds all links of its route until drained */
} ccl_sharing_t;

/* ---------------------------------------------------------------- critical path */

/** What an instant of the critical path is spent on (docs/explain.md). */
typedef enum ccl_path_cause {
    CCL_PATH_LINK,       /**< bytes at the rate of the narrowest link or group, were it alone */
    CCL_PATH_SHARING,    /**< beyond that, because other flows (or contention) slow the flow down */
    CCL_PATH_BLOCK_RATE, /**< beyond that, because one thread block moves no more (tb_rate) */
    CCL_PATH_REDUCE,   /**< the same because of reduce_rate, and all of a pass that sends nothing */
    CCL_PATH_COPY,     /**< the same because of copy_rate */
    CCL_PATH_OVERHEAD, /**< of a primitive */
    CCL_PATH_LATENCY,  /**< of a link; where the wait is for a slot, on the way back */
    CCL_PATH_TRANSPORT,  /**< latency of a transport */
    CCL_PATH_FLAG,       /**< from a primitive that is done to a block that depends on it */
    CCL_PATH_LINKS_HELD, /**< exclusive sharing: others hold links of the route */
    CCL_PATH_LAUNCH      /**< before thread blocks start */
} ccl_path_cause_t;
#define CCL_PATH_CAUSES 11
const char *ccl_path_cause_name(ccl_path_cause_t cause); /**< "link", "sharing", ... static */

/** Why the run, or what comes next on the path, could not go on before a segment was over. */
typedef enum ccl_path_wait {
    CCL_PATH_END,        /**< it is the last work of the run */
    CCL_PATH_DATA,       /**< the next one waited for these data */
    CCL_PATH_SLOT,       /**< for the FIFO slot that this freed */
    CCL_PATH_DEPENDENCY, /**< for this step of another block (or stage) of its GPU */
    CCL_PATH_BLOCK,      /**< its thread block was busy with this */
    CCL_PATH_CONNECTION  /**< it had left its block, but this drained first on their connection */
} ccl_path_wait_t;
#define CCL_PATH_WAITS 6
const char *ccl_path_wait_name(ccl_path_wait_t wait); /**< "end", "data", "slot", ... static */

/** Some time of the critical path, all of it with one cause. */
typedef struct ccl_path_segment {
    double start_s, end_s;
    uint8_t cause, wait; /**< ccl_path_cause_t, ccl_path_wait_t */
    uint32_t tb, step;   /**< whose work: indices into the program's blocks and steps */
    uint32_t batch, slice;
    uint32_t for_tb, for_step; /**< who waited for it; CCL_NONE: the end of the run */
    uint32_t peer;             /**< rank that the work sends to, or a peer of a switch connection;
                                    CCL_NONE: it does not send */
    uint32_t resource;         /**< link, or the topology's nlinks + group; CCL_NONE: none */
    uint32_t kind; /**< of the link or the transport, index into kinds; CCL_NONE: none */
} ccl_path_segment_t;

/** Written while the run goes on (Chrome trace event format, readable by Perfetto). */
typedef struct ccl_trace ccl_trace_t;
/** @param max_events 0: no limit; beyond it events are counted, not written. */
ccl_trace_t *ccl_trace_create(uint64_t max_events);
/** Frees it and all it owns; NULL is fine. */
void ccl_trace_destroy(ccl_trace_t *trace);
/** What a trace keeps: one pass of a thread block, or one slice on the network. */
typedef struct ccl_trace_span {
    double start_s, end_s, bytes;
    /** Of a pass: seconds that its block (at stage level, its stage of it) had waited since the run
        began, for data, for another block and for a slot. */
    double data_s, peer_s, slot_s;
    const char *name; /**< primitive of a pass, static; NULL: a slice on the network */
    uint32_t rank; /**< of the block; source of a slice: a rank, or the group that is pulled from */
    uint32_t
        other; /**< id of the block; destination of a slice: a rank or a group (schedule/groups.h)
                */
    uint32_t step;    /**< index into the program's steps; of a flow list, the flow */
    uint32_t at;      /**< of a pass: number of the step in its block */
    uint32_t channel; /**< of a slice */
    uint32_t batch, slice;
} ccl_trace_span_t;
/** What was kept, in order of the ends. @param dropped_out  what came beyond max_events. */
const ccl_trace_span_t *ccl_trace_spans(const ccl_trace_t *trace, uint64_t *n_out,
                                        uint64_t *dropped_out);
/** Keep passes, slices on the network, or both (at first). */
void ccl_trace_keep(ccl_trace_t *trace, bool passes, bool slices);
/** What ran, for the words of a trace. */
typedef struct ccl_trace_about {
    size_t size;
    const ccl_topology_t *topo;   /**< names of GPUs and links; NULL: ranks alone, no counters */
    const ccl_program_t *program; /**< NULL: a flow list */
    const struct ccl_sim_result *result; /**< NULL: waits before a first pass are not known */
    uint64_t most_bytes; /**< of text, roughly; where all would be more, some GPUs are written; 0:
                              no limit */
} ccl_trace_about_t;
/** Nothing is known. */
#define CCL_TRACE_ABOUT_INIT                                                                       \
    { .size = sizeof(ccl_trace_about_t) }
/**
 * {"traceEvents": [...]} in Chrome's format, which Perfetto reads: a process per GPU with a row
 * per thread block (at stage level, per stage); its passes in words, with category "send",
 * "receive", "forward" or "local", and between them its waits ("wait data", "wait block", "wait
 * slot"); arrows from a send to the receive that takes its data; a row per pair of GPUs with the
 * slices that cross the network; a counter per link, GB/s over time, for the 256 busiest.
 *
 * Where the text would be longer than `most_bytes`, the GPUs of the first server and one of each
 * further one, as many as there is room for, are written in full; of every other one, a counter
 * says how many of its blocks are busy. "otherData" and the name of a process say which.
 *
 * @param about  NULL: nothing is known.
 */
ccl_status_t ccl_trace_write(const ccl_trace_t *trace, const ccl_trace_about_t *about,
                             ccl_text_t *out, ccl_error_t *err);

/**
 * How one run differs from its cluster as drawn (docs/model.md, "Variations"). Routes, groups and
 * what synthesizers and lowering knew stay. Each array may be NULL: no difference.
 */
typedef struct ccl_sim_variation {
    const double *link_rate;      /**< [nlinks] > 0: factor of each link's bandwidth */
    const double *link_latency_s; /**< [nlinks] >= 0: added to each link's latency */
    const double *block_rate;     /**< [nranks] > 0: factor of what the GPU's thread blocks pass,
                                       reduce and copy a second */
    const double *late_s;         /**< [nranks] >= 0: added to the launch of the GPU's blocks */
} ccl_sim_variation_t;

typedef struct ccl_sim_options {
    size_t size;
    double size_bytes; /**< nccl-tests' size, > 0; flow lists ignore it */
    uint32_t batches;  /**< micro-batches; 0: the model's default */
    ccl_granularity_t granularity;
    ccl_sharing_t sharing;
    bool no_skip;       /**< simulate every micro-batch even when periodic */
    ccl_trace_t *trace; /**< NULL: none; a traced run never skips or folds */
    bool step_times;    /**< fill step_start_s and step_end_s of the result */
    bool no_fold;       /**< simulate every thread block, also those that are alike */
    bool path;          /**< fill path of the result; such a run does not skip */
    uint32_t intervals; /**< with path: fill link_bytes of the result, this many equal parts of the
                             run */
    double give_up_s;   /**< > 0: a run that takes longer may end there, or as soon as what its
                             blocks and links have left takes too long: then its time_s is INFINITY,
                             and of the rest only the sizes, events and rate_changes are set (a
                             search needs no more of what is slower than what it has) */
    bool estimate; /**< a run of many micro-batches that does not become periodic is extrapolated
                        from shorter ones; see ccl_sim_program() */
    bool cause;    /**< of a deadlock, fill its cause, too: tens of untimed runs with other FIFOs */
    const ccl_sim_variation_t *variation; /**< NULL: the cluster as drawn */
} ccl_sim_options_t;
/** The defaults. */
#define CCL_SIM_OPTIONS_INIT                                                                       \
    { .size = sizeof(ccl_sim_options_t) }
/** The options of a run, by their place in ccl_sim_options_t; ends without a name. */
extern const ccl_option_t ccl_sim_option_table[];

/**
 * How the runs are timed that synthesis and lowering choose by, in a context that has one:
 * something else than one run on the cluster as drawn, such as a quantile over samples
 * (scenario.h).
 */
typedef struct ccl_judge {
    const ccl_topology_t *topo; /**< runs on others, such as parts of it, are timed plainly */
    /** @param ctx  without a judge. @param time_s  out; INFINITY: it cannot run where it should.
     * Called from several threads. */
    ccl_status_t (*time)(void *user, const ccl_ctx_t *ctx, ccl_routes_t *routes,
                         const ccl_program_t *program, const ccl_sim_options_t *options,
                         double *time_s, ccl_error_t *err);
    void *user;
} ccl_judge_t;

/** Use of one directed link. */
typedef struct ccl_link_use {
    double bytes;
    double utilization; /**< bytes / (bandwidth * time of the run) */
} ccl_link_use_t;

/** Seconds that a thread block spent in each state; they add up to done_s - start_s. At stage level
    each is the sum over the blocks of its stages. */
typedef struct ccl_tb_use {
    double start_s, done_s; /**< launch; end of its last primitive */
    double busy_s;
    double wait_data_s; /**< for a slice to arrive */
    double wait_peer_s; /**< for another block of its GPU (dependency or stage) */
    double wait_slot_s; /**< for a free FIFO slot, or for links (exclusive sharing) */
} ccl_tb_use_t;

/** One stage of a thread block, which runs as a block of its own at stage level. */
typedef struct ccl_stage_use {
    uint32_t tb, stage; /**< index into the program's blocks */
    ccl_tb_use_t use;
} ccl_stage_use_t;

typedef struct ccl_sim_result {
    double time_s, algbw_GBps, busbw_GBps;
    double size_bytes, chunk_bytes;
    uint32_t batches;
    uint32_t nlinks, ntbs;
    ccl_link_use_t *links;   /**< [nlinks], as in the topology */
    ccl_tb_use_t *tbs;       /**< [ntbs], as in the program; NULL for flow lists */
    ccl_stage_use_t *stages; /**< [nstages] at stage level, by block, then stage; else NULL */
    uint32_t nstages;
    /** [nsteps] when asked for, of the program's steps: start of the first pass in the first
        micro-batch, end in the last. A step of which nothing was done: both 0. */
    double *step_start_s, *step_end_s;
    double *flow_done_s; /**< flow lists: [nflows] arrival; else NULL */
    /** [npath] when asked for: the critical path, which ends with what was done last and leads back
        to time 0. Segments follow one another without a gap, so their lengths add up to time_s. */
    ccl_path_segment_t *path;
    uint32_t npath;
    /** [nlinks][intervals] when asked for: bytes carried in each part of the run, every slice at
        its mean rate. */
    double *link_bytes;
    uint32_t intervals;
    uint64_t transfers; /**< primitives that sent, over all micro-batches; flows of a flow list */
    uint64_t flows;     /**< slices that crossed the network */
    uint64_t events; /**< of the engine, without skipped ones; blocks that are alike count once */
    uint64_t skipped_batches; /**< micro-batches passed over in steady state, summed over skips (at
                                   task level each skip is within one step) */
    uint64_t rate_changes;    /**< link levels recomputed, links that are alike once */
    bool estimated;           /**< extrapolated: time_s, bandwidths, step times and sizes are those
                                   of the run asked for, within about 1 %; events and rate_changes
                                   of all shorter runs; the rest is the longest one's */
    bool known; /**< taken from ctx->runs: of it only time_s, sizes, events and rate_changes are
                   set, the latter two as the run counted them that was made */
    ccl_deadlock_t *deadlock; /**< set when the program cannot finish (status CCL_DEADLOCK) */
    ccl_arena_t arena;
} ccl_sim_result_t;

/**
 * Micro-batches by default: the smallest number with chunk bytes <= 1/2 (fewest slots) (smallest
 * slice) and <= piece over the transports used; 1 if nothing limits.
 */
ccl_status_t ccl_sim_default_batches(const ccl_topology_t *topo, ccl_routes_t *routes,
                                     const ccl_program_t *program, double size_bytes, uint32_t *out,
                                     ccl_error_t *err);
/**
 * Simulate a program.
 *
 * With `estimate` a run of many micro-batches is stopped when a sixteenth of its primitives have
 * been simulated and it has not become periodic. Then runs of n, 2n and 4n micro-batches of the
 * same bytes are made, n doubled until the times that two pairs of them extrapolate to are within
 * 0.3 % of each other; where that takes a third of the whole, or a shorter run cannot finish, it is
 * run in full. A search compares candidates by such times; what it reports it runs in full.
 *
 * Where ctx->judge is of this cluster, a run without variation, trace and path gets the judge's
 * time (INFINITY: it cannot run where it should), and nothing gives up.
 *
 * Where ctx->runs knows its time, a run with `estimate`, without trace, path or step times, is not
 * made again (ccl_sim_result_t.known); nor one with `give_up_s` that is known to take longer; nor
 * one with step times that was the fastest of its size: that is kept whole, and not `known`.
 *
 * @param routes  of the same topology; NULL: made for the call.
 * @param out     set on success and on CCL_DEADLOCK; destroy with ccl_sim_result_destroy().
 * @retval CCL_DEADLOCK     the program cannot finish; (*out)->deadlock names the cycle.
 * @retval CCL_UNSUPPORTED  a path is asked for of a run of more than 2^24 slices.
 * @par Determinism  equal inputs give bit-equal results.
 */
ccl_status_t ccl_sim_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                             const ccl_program_t *program, const ccl_sim_options_t *options,
                             ccl_sim_result_t **out, ccl_error_t *err);
/**
 * Times of runs on one topology that were simulated, for ccl_ctx_t.runs: what compares many
 * programs meets the same one again. Only runs with `estimate` of programs without switch
 * connections are kept. For several threads at once; no time depends on which of them was first.
 */
typedef struct ccl_runs ccl_runs_t;
/** @param topo  borrowed, while it is used; runs on another one are not kept. NULL: no memory. */
ccl_runs_t *ccl_runs_create(const ccl_topology_t *topo);
/** Frees it; NULL is fine. */
void ccl_runs_destroy(ccl_runs_t *runs);
/** Whether ctx->runs has the time of a run, whatever its give_up_s. @param time_out  set then. */
bool ccl_sim_known(const ccl_ctx_t *ctx, const ccl_topology_t *topo, const ccl_program_t *program,
                   const ccl_sim_options_t *options, double *time_out);
/**
 * Route of what flows from `src` to `dst`, of which one may be a peer of a switch connection: to a
 * group (a multicast) or from one (a pull) it is the union of the tree's ways.
 * @param out  NULL: nothing flows between a member and a single GPU, whose own block says what
 * does.
 */
ccl_status_t ccl_sim_flow_route(const ccl_program_t *program, ccl_routes_t *routes, uint32_t src,
                                uint32_t dst, uint32_t channel, const ccl_route_t **out,
                                ccl_error_t *err);
/** Simulate a flow list: no thread blocks, transports ignored, channel 0, caps only by links. */
ccl_status_t ccl_sim_flows(const ccl_ctx_t *ctx, const ccl_topology_t *topo, ccl_routes_t *routes,
                           const ccl_flow_list_t *list, const ccl_sim_options_t *options,
                           ccl_sim_result_t **out, ccl_error_t *err);
/**
 * Replay epoch flows in continuous time: every link sends what the plan puts on it one by one, in
 * the order of the epochs and as soon as it is there; switches forward while they receive. A plan
 * that says more than one epoch per chunk, or waits for the next, is faster than it claims. No
 * transports, thread blocks or sharing: the plan's own view of the network.
 *
 * @param topo       its GPUs are the plan's in rank order, its switches the plan's in order.
 * @param multicast  a switch copies: what several flows of one epoch share of their way is sent
 *                   once (TE-CCL's assumption); else once per flow.
 * @param out        time_s, links, flow_done_s (by flow), flows (transmissions on links).
 * @retval CCL_CHECK  the order cannot happen: a GPU sends what does not come to it before.
 */
ccl_status_t ccl_sim_epoch_flows(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_epoch_flows_t *flows, double size_bytes, bool multicast,
                                 ccl_sim_result_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_sim_result_destroy(ccl_sim_result_t *result);

/** What a finished run made of its thread blocks and links. */
typedef struct ccl_sim_usage {
    uint32_t thread_blocks; /**< most of any GPU; at stage level a block per stage counts */
    /* Means over all blocks that lived, 0..1; the first two add up to 1. A block lives from its
       launch to the end of its last primitive (early release). */
    double comm_share;       /**< busy / lifetime */
    double mean_idle_share;  /**< waiting for data, a peer or a slot / lifetime */
    double max_idle_share;   /**< of the idlest block */
    double link_utilization; /**< mean over the links that carried data, 0..1 */
} ccl_sim_usage_t;
/** @par Source ResCCL (SIGCOMM 2025), section 5.4; tables 3 (blocks) and 1 (links). */
void ccl_sim_usage(const ccl_program_t *program, const ccl_sim_result_t *result,
                   ccl_sim_usage_t *out);
/** Waiting / lifetime of one block; 0 for a block that never lived. */
double ccl_sim_idle_share(const ccl_tb_use_t *use);

/** Where the time of a critical path goes. */
typedef struct ccl_path_sum {
    double time_s;
    double cause_s[CCL_PATH_CAUSES];
    double wait_s[CCL_PATH_WAITS];
    double *kind_s;     /**< [nkinds + 1][CCL_PATH_CAUSES]; the last row: no kind of link */
    double *resource_s; /**< [nlinks + ngroups][CCL_PATH_CAUSES] */
    double *tb_s;       /**< [ntbs] while the block's work was on the path */
    uint64_t transfers; /**< slices that the path passes over the network */
    ccl_arena_t arena;
} ccl_path_sum_t;
/** @param out  finish with ccl_path_sum_fini().  @retval CCL_ERR_INPUT  the run kept no path. */
ccl_status_t ccl_path_sum(const ccl_topology_t *topo, const ccl_sim_result_t *result,
                          ccl_path_sum_t *out, ccl_error_t *err);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_path_sum_fini(ccl_path_sum_t *sum);

CCL_END_DECLS
#endif
