/**
 * @file synth.h
 * Synthesizers behind one interface, and lowering of schedules to thread-block programs.
 */
#ifndef CCL_SYNTH_SYNTH_H
#define CCL_SYNTH_SYNTH_H

#include "sim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Whether a cluster is solved as a whole, or a pod and a rail of it (HeteCCL, section 7). */
typedef enum ccl_compose {
    CCL_COMPOSE_AUTO, /**< pods from 96 GPUs on, where they are equal */
    CCL_COMPOSE_OFF,
    CCL_COMPOSE_ON
} ccl_compose_t;

/** What `sketch` did (SyCCL, SIGCOMM 2025, section 4; phases as in its figure 16b). */
typedef struct ccl_sketch_stats {
    uint32_t runs;        /**< searches that filled this; 0: none */
    uint32_t dimensions;  /**< of the cluster, used */
    uint64_t visited;     /**< partial sketches */
    uint64_t found;       /**< sketches kept */
    uint64_t given;       /**< sketches of the user's */
    uint64_t isomorphic;  /**< dropped by pruning 1 */
    double inconsistent;  /**< ways to fill a stage that pruning 2 left out */
    uint64_t relayed;     /**< dropped by pruning 3 */
    uint64_t unreaching;  /**< dropped: do not work from every root */
    bool capped;          /**< there were more than the limits let in */
    uint64_t mixes_tried; /**< combinations balanced */
    uint64_t mixes;       /**< kept; those without a balance, or like another, are dropped */
    uint64_t candidates;  /**< mixes with channels and shapes: estimated */
    uint32_t simulated;   /**< candidates made into schedules and simulated */
    uint64_t solved;      /**< sketches added whose sub-demands are solved */
    uint32_t sub_demands; /**< different ones: isomorphic groups count once */
    uint32_t shapes;      /**< of these answered by a proven shape */
    uint32_t milps;       /**< asked of GLPK */
    uint32_t cached;      /**< found in the cache */
    double solve_s;       /**< wall time of the sub-demands */
    double symmetry_s, search_s, combine_s, simulate_s; /**< wall time of each phase; simulate: with
                                                              making, and the schedule in the end */
} ccl_sketch_stats_t;

/** How long links are busy with a schedule of `c2c`, whatever the order of its transfers. */
typedef struct ccl_c2c_stats {
    uint32_t runs;     /**< 0: not asked of c2c */
    double size_bytes; /**< for which; nccl-tests' */
    double phase_s[3]; /**< the busiest link or group in the start, between clusters, in the end */
    double together_s; /**< the busiest in all three: no order of these transfers takes less */
    double overlap_gain; /**< the sum of phase_s, which is the least that one phase behind the other
                              takes, over together_s: what overlapping them gains at least where it
                              fills the links. 1 where one link is the busiest in all phases, up to
                              3 where each has links of its own; 0: nothing moves */
} ccl_c2c_stats_t;

/** What a search did, summed over its parts; zeroed by the caller. */
typedef struct ccl_synth_stats {
    uint32_t parts;           /**< searches that filled this: 0, 1, for AllReduce 2 */
    uint32_t start_steps;     /**< steps of the start */
    uint32_t steps;           /**< steps in the end */
    uint32_t bound_steps;     /**< proven: no schedule of this discretisation has fewer */
    uint32_t counterexamples; /**< violations found in candidates */
    uint32_t solver_calls;
    double solver_s;           /**< wall time in the solver */
    ccl_sketch_stats_t sketch; /**< of `sketch` alone; `parts` stays 0 */
    ccl_c2c_stats_t c2c;       /**< of `c2c` and `c2c-sequential` alone; `parts` stays 0 */
} ccl_synth_stats_t;

/** Of `sketch`: limits of its search. SyCCL's three prunings are switched off one by one. */
typedef struct ccl_sketch_options {
    bool keep_isomorphic;   /**< 1: sketches that an automorphism makes of others */
    bool keep_inconsistent; /**< 2: groups of a dimension may differ in a stage */
    bool keep_relayed;      /**< 3: chunks of AllToAll, Scatter, Gather over any number of relays */
    uint32_t max_relays;    /**< of pruning 3; CCL_NONE: dimensions - 1 */
    uint32_t max_stages;    /**< of a sketch, at most 10; 0: dimensions + 1 */
    uint32_t max_sketches;  /**< 0: 200; partial ones: 30 times as many */
    const ccl_json_doc_t *file; /**< the user's sketches and mixes (docs/formats.md); NULL: none.
                                     Borrowed; may be shared by threads. */
    bool with_found;            /**< search as well (the file may say so too); else the file's
                                     sketches only, and where it has mixes these only */
    ccl_text_t *write;       /**< sketches and the mix that was chosen are added, in that format */
    double within;           /**< R1: candidates estimated so much slower are dropped; 0: 0.2 */
    uint32_t most_simulated; /**< R2: of the others at most so many are simulated; 0: 8 */
    double coarse;           /**< E1: coarse epochs, in a chunk's times on the fastest link; 0: 3 */
    double fine;             /**< E2: fine epochs; 0: 0.5 */
    bool no_shapes;          /**< ask the solver also where a shape is proven */
    const char *cache;       /**< directory of solved sub-demands, "auto": the user's; NULL, "none":
                                  none */
} ccl_sketch_options_t;
#define CCL_SKETCH_OPTIONS_INIT                                                                    \
    { false, false, false, CCL_NONE, 0, 0, NULL, false, NULL, 0, 0, 0, 0, false, NULL }

/** Of `c2c`. */
typedef struct ccl_c2c_options {
    uint32_t clusters; /**< so many in all, each of one vendor; 0: one per vendor, or as many as
                          make their bandwidths about equal, whichever is faster */
    const char *inner; /**< synthesizer for collectives inside clusters; NULL: the fastest of
                            direct, hm and ring */
} ccl_c2c_options_t;
#define CCL_C2C_OPTIONS_INIT                                                                       \
    { 0, NULL }

/**
 * Links' times of a schedule of `c2c`: bytes over bandwidth, of links and of groups, without
 * latency, by the transfers' phase (0 start, 1 between clusters, 2 end).
 * @retval CCL_ERR_INPUT  a transfer has no route.
 * @par Source  HetCCL, figure 9: steps overlap that use different links.
 */
ccl_status_t ccl_c2c_load(const ccl_topology_t *topo, ccl_routes_t *routes,
                          const ccl_schedule_t *schedule, double size_bytes, ccl_c2c_stats_t *out,
                          ccl_error_t *err);
/**
 * Clusters and border ranks as `c2c` has them.
 * @param clusters   so many; 0: one per vendor.
 * @param of_out     [nranks] cluster, by lowest rank.
 * @param border_out [nranks] next to a NIC.
 * @retval CCL_UNSUPPORTED  fewer than two clusters, or not so many.
 */
ccl_status_t ccl_c2c_clusters(const ccl_topology_t *topo, uint32_t clusters, uint32_t *of_out,
                              bool *border_out, uint32_t *nclusters_out, ccl_error_t *err);

typedef struct ccl_synth_options {
    size_t size;
    double size_bytes;      /**< message size the schedule is for; 0: any */
    uint32_t channels;      /**< 0: as many as the synthesizer thinks best */
    uint32_t chunks;        /**< chunks a block is cut into, per channel; 0: synthesizer's choice */
    double time_limit_s;    /**< 0: none; after it the best so far is returned, marked limited */
    uint32_t restarts;      /**< times that a random synthesizer begins anew; 0: its choice */
    uint32_t steps, rounds; /**< of `sccl`; 0: as few as can be, as cheap as can be */
    double epoch_s;         /**< of `milp`; 0: its choice */
    bool uniform_roots; /**< AllReduce: as many chunks summed at each GPU, whatever it can carry */
    ccl_compose_t compose;    /**< for synthesizers that are `composable` */
    double effort;            /**< cegis: so many times the usual solver work; 0: 1; < 0: none */
    double tau_ref_s;         /**< cegis: length of a step; 0: its choice */
    bool ceiling;             /**< cegis: capacities rounded up as HeteCCL's equation 1 has them */
    bool plain_start;         /**< cegis: start from links filled at random */
    ccl_text_t *trace;        /**< cegis: a JSON line per snapshot is added; NULL: none */
    ccl_synth_stats_t *stats; /**< filled by who searches; NULL: not wanted */
    ccl_sketch_options_t sketch;
    bool part; /**< for a part of a composition: cegis neither slices nor simulates it, greedy does
                    not weigh its latency */
    ccl_c2c_options_t c2c;
} ccl_synth_options_t;
#define CCL_SYNTH_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(ccl_synth_options_t), 0, 0, 0, 0, 0, 0, 0, 0, false, CCL_COMPOSE_AUTO, 0, 0, false, \
            false, NULL, NULL, CCL_SKETCH_OPTIONS_INIT, false, CCL_C2C_OPTIONS_INIT                \
    }

/** Order in which a rank's operations run. */
typedef enum ccl_order {
    CCL_ORDER_STEP, /**< the schedule's own steps */
    CCL_ORDER_RR,   /**< round robin over chunks: ResCCL's baseline (SIGCOMM 2025, section 5.3) */
    CCL_ORDER_HPDS  /**< priority-based sub-pipelines (ResCCL, section 4.3, algorithm 1) */
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

typedef struct ccl_synth_ops {
    size_t size;
    const char *name;    /**< "ring" */
    const char *summary; /**< one line */
    const char *source;  /**< paper or product, section */
    /** May be tried for this collective on this topology? `why` says why not (one line). */
    bool (*supports)(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why);
    /** The same where options decide; NULL: supports. */
    bool (*supports_with)(const ccl_topology_t *topo, const ccl_collective_t *want,
                          const ccl_synth_options_t *options, const char **why);
    /**
     * @param want  borrowed; chunks_per_block 1 for built-in kinds. The schedule's own collective
     *              may split its chunks (ccl_collective_split).
     */
    ccl_status_t (*synthesize)(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err);
    /**
     * Its steps are rounds: lowering makes a rank start a step's sends only when its sends and
     * receives of its step before, on the same channel, are done.
     */
    bool ordered;
    /** Its schedules depend on options->size_bytes: compare asks for one per size. */
    bool by_size;
    /** May be asked for pods and rails, whose schedules are put together (options->compose). */
    bool composable;
    /** A solver's baseline, minutes on larger clusters: comparisons have it only where it is named.
     */
    bool by_name;
    /** How its schedules are lowered and run where nobody says otherwise (ccl_way_choose); NULL:
        step order, a block per connection, algorithm level. */
    const ccl_way_t *way;
} ccl_synth_ops_t;

/** All synthesizers, in the order they are compared, those `by_name` last; ends with NULL. */
const ccl_synth_ops_t *const *ccl_synth_all(void);
const ccl_synth_ops_t *ccl_synth_find(const char *name);
/** A preset, NULL for the default way, with those members of `given` that `given_bits` names. */
ccl_way_t ccl_way_choose(const ccl_way_t *preset, ccl_way_t given, unsigned given_bits);
/** Hierarchical mesh or any other schedule "+ HPDS": its order, state allocation, task level. */
extern const ccl_way_t ccl_way_hpds;
/** Find, check supports(), synthesize, verify the schedule (a wrong one is CCL_ERR_INTERNAL). */
ccl_status_t ccl_synthesize(const ccl_ctx_t *ctx, const char *name, const ccl_topology_t *topo,
                            ccl_routes_t *routes, const ccl_collective_t *want,
                            const ccl_synth_options_t *options, ccl_schedule_t **out,
                            ccl_error_t *err);

/** Hops, or links and groups, that are alike to cegis. */
typedef struct ccl_chunk_capacity {
    const char *what;    /**< "hop", "link" or "group"; static */
    const char *example; /**< the first of them: "0 -> 1", "s0/gpu0 -> s0/nic0", a group's name */
    const char *kind;    /**< of the link, or of the hop's slowest link; "" for groups */
    uint32_t count;      /**< so many alike */
    uint32_t lanes;
    double alpha_s, rate_Bps;
    double tau_s;        /**< of one chunk alone */
    double exact_chunks; /**< that fit into a step, not rounded */
    uint32_t chunks;     /**< C(u,v), C_g */
} ccl_chunk_capacity_t;
typedef struct ccl_chunk_capacities {
    double chunk_bytes, tau_ref_s;
    double stretch; /**< tau_ref is so many times the slowest hop's tau; 0: it was given */
    bool ceiling, reduce;
    uint32_t nrows;
    ccl_chunk_capacity_t *rows; /**< hops first, fast ones first */
    ccl_arena_t arena;
} ccl_chunk_capacities_t;
/**
 * What cegis makes of a cluster: chunks that hops, links and groups carry in a step (for AllReduce
 * of its gathering half).
 *
 * @param options  NULL: defaults.
 * @param out      destroy with ccl_chunk_capacities_destroy().
 * @par Source     HeteCCL (NSDI 2026), section 4.1, equation 1.
 */
ccl_status_t ccl_synth_capacities(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                  ccl_routes_t *routes, const ccl_collective_t *want,
                                  const ccl_synth_options_t *options, ccl_chunk_capacities_t **out,
                                  ccl_error_t *err);
void ccl_chunk_capacities_destroy(ccl_chunk_capacities_t *capacities);

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
void ccl_lower_memo_destroy(ccl_lower_memo_t *memo);

typedef struct ccl_lower_options {
    size_t size;
    const char *proto; /**< "Simple" (default), "LL", "LL128" */
    bool no_fuse;      /**< keep receive and forward apart, in blocks of their own */
    bool out_of_place; /**< AllReduce and its like: separate output buffer (default in place) */
    bool ordered;      /**< steps are rounds (ccl_synth_ops_t.ordered); also so when the schedule
                            has the name of such a synthesizer. Only with CCL_ORDER_STEP. */
    uint32_t slots;    /**< FIFO depth, in whole primitives, for which the program must finish;
                            0: 2. With 1 a ring's blocks forward less in one primitive. */
    ccl_order_t order;
    ccl_allocation_t allocation;
    ccl_granularity_t granularity; /**< level at which it will run and must finish: stage writes
                                        stages, task does not fuse */
    ccl_stages_t stages;           /**< at stage level */
    ccl_executor_t executor;       /**< blocks are cut over channels to keep its limits */
    const ccl_topology_t *topo;    /**< borrowed; needed by every order but `step`, every
                                        allocation but `connection`, and automatic stages */
    ccl_routes_t *routes;          /**< borrowed; NULL: made for the call */
    double size_bytes;             /**< the run whose timeline `state` looks at; 0: 256 MiB */
    uint32_t batches;              /**< its micro-batches; 0: as many as the model says */
    ccl_lower_stats_t *stats;      /**< filled when not NULL */
    bool rough; /**< to look at its time only, order `hpds` and allocation `state` soon: of more
                   than 100,000 sends not all ways are simulated; what state would merge, at a cost
                   of at most 1 %, stays in blocks of its own */
    ccl_lower_memo_t *memo;     /**< borrowed; of this schedule and topology; NULL: none */
    ccl_sim_result_t **run_out; /**< NULL, or gets the program's run of size_bytes and batches at
                                     `granularity` where lowering made it anyway, else NULL; to be
                                     destroyed by the caller */
} ccl_lower_options_t;
#define CCL_LOWER_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(ccl_lower_options_t), "Simple", false, false, false, 0, CCL_ORDER_STEP,             \
            CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_ALGORITHM, CCL_STAGES_AUTO, CCL_EXECUTOR_ANY, \
            NULL, NULL, 0, 0, NULL, false, NULL, NULL                                              \
    }

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
 * @param pipeline_out  NULL, or [ntransfers], freed by the caller: sub-pipeline of each transfer of
 *                      *out (0 but for CCL_ORDER_HPDS).
 * @param stats         NULL, or analyse_s, order_s and pipelines are filled.
 * @retval CCL_ERR_INPUT  the topology has another number of ranks, or two ranks have no route.
 * @retval CCL_ERR_USAGE  no topology, unless the order is CCL_ORDER_STEP.
 * @par Source ResCCL (SIGCOMM 2025), section 4.3, algorithm 1; round robin: section 5.3.
 */
ccl_status_t ccl_schedule_order(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                const ccl_topology_t *topo, ccl_routes_t *routes, ccl_order_t order,
                                ccl_schedule_t **out, uint32_t **pipeline_out,
                                ccl_lower_stats_t *stats, ccl_error_t *err);

/**
 * ccl_schedule_order() for a run of `batches` micro-batches (0: many). In algorithm 1 as printed a
 * transfer may stand in the sub-pipeline of the transfer that it waits for. With few micro-batches
 * that leaves connections idle; then it comes into a later one, and among equals the transfer with
 * the longest way behind it first. Both ways are tried; an estimate of their pace chooses.
 * Beyond 2^20 transfers it is the first way from 8 micro-batches on. ccl_lower() simulates both,
 * where that takes no longer than a second or so.
 */
ccl_status_t ccl_schedule_order_for(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                    const ccl_topology_t *topo, ccl_routes_t *routes,
                                    ccl_order_t order, uint32_t batches, ccl_schedule_t **out,
                                    uint32_t **pipeline_out, ccl_lower_stats_t *stats,
                                    ccl_error_t *err);

/**
 * Fit options to a topology: `slots`, where it is 0, becomes what its transports' FIFOs hold in
 * primitives under options->proto, the smallest `slots` over the greatest `slices`, but at most 2,
 * MSCCL's least; where not even one primitive fits, no_fuse is set. Call it wherever a schedule is
 * lowered to run on a topology.
 */
void ccl_lower_options_fit(ccl_lower_options_t *options, const ccl_topology_t *topo);
/**
 * Lower a schedule to thread blocks, one per connection and channel (NCCL's and MSCCL's way); a
 * block that only forwards along one channel gets both ends and fused primitives. The program
 * computes what the schedule computes, is free of races, and finishes at algorithm level for any
 * FIFO depth >= options->slots (0: 2, MSCCL's least) in primitives: a primitive of k slices takes
 * k slots, and by default a micro-batch's are at most half of them.
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

#ifdef __cplusplus
}
#endif
#endif
