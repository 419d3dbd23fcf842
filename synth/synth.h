/**
 * @file synth.h
 * Synthesizers behind one interface.
 */
#ifndef CCL_SYNTH_SYNTH_H
#define CCL_SYNTH_SYNTH_H

#include "lower/lower.h"
#include "synth/alltoallv/planner.h"

CCL_BEGIN_DECLS

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
    double overlap_gain; /**< the sum of phase_s, which is the least that one phase after the other
                              takes, over together_s: what overlapping them gains at least where it
                              fills the links. 1 where one link is the busiest in all phases, up to
                              3 where each has links of its own; 0: nothing moves */
} ccl_c2c_stats_t;

/** A link, and how long it is busy with two schedules: bytes over bandwidth. */
typedef struct ccl_warm_link {
    uint32_t link; /**< of the topology */
    double before_s, after_s;
} ccl_warm_link_t;
#define CCL_WARM_LINKS 5
/** What `alltoallv` made of a former schedule (ccl_synth_options_t.warm). */
typedef struct ccl_warm_stats {
    uint32_t runs;                 /**< 0: there was none */
    uint32_t blocks, blocks_again; /**< blocks with bytes; of these some transfer is other */
    uint32_t changed;              /**< blocks with other bytes than before, also none */
    double bytes_before, bytes;    /**< of all blocks that move */
    double bytes_changed;          /**< more or less, block by block */
    uint32_t kept, added, dropped; /**< transfers, of a block from one GPU to another on a channel:
                                        in both schedules, only in this one, only in the former */
    double load_before_s, load_s;  /**< of the busiest link or group */
    uint32_t nlinks;               /**< whose load changed most, at most CCL_WARM_LINKS */
    ccl_warm_link_t links[CCL_WARM_LINKS];
} ccl_warm_stats_t;

/** What a search did, summed over its parts; zeroed by the caller. */
typedef struct ccl_synth_stats {
    uint32_t parts;           /**< searches that filled this: 0, 1, for AllReduce 2 */
    uint32_t start_steps;     /**< steps of the start */
    uint32_t steps;           /**< steps in the end */
    uint32_t bound_steps;     /**< proven: no schedule of this discretisation has fewer */
    uint32_t counterexamples; /**< violations found in candidates */
    uint32_t solver_calls;
    uint32_t solver_steps;   /**< of the schedule: fewer than without the solver */
    uint32_t solver_spreads; /**< of its parts: whose load the solver spread */
    double solver_s;         /**< wall time in the solver */
    uint64_t solver_work;    /**< by Z3's own count (rlimit), the same on every machine */
    uint64_t dropped; /**< candidates given up for lack of memory, or where a solver (GLPK, Z3)
                           failed: without them the schedule may be worse, so it is marked
                           limited */
    ccl_sketch_stats_t sketch; /**< of `sketch` alone; `parts` stays 0 */
    ccl_c2c_stats_t c2c;       /**< of `c2c` and `c2c-sequential` alone; `parts` stays 0 */
    ccl_warm_stats_t warm;     /**< of `alltoallv` alone; `parts` stays 0 */
} ccl_synth_stats_t;

/** Of `sketch`: limits of its search. SyCCL's three prunings are switched off one by one. */
typedef struct ccl_sketch_options {
    bool keep_isomorphic;   /**< 1: sketches that an automorphism makes of others */
    bool keep_inconsistent; /**< 2: groups of a dimension may differ in a stage */
    bool keep_relayed;      /**< 3: chunks of AllToAll, Scatter, Gather over any number of relays */
    uint32_t max_relays;    /**< of pruning 3; CCL_NONE: dimensions - 1 */
    uint32_t max_stages;    /**< of a sketch, at most 10; 0: dimensions + 1 */
    uint32_t max_sketches;  /**< 0: 200; partial ones: 30 times as many */
    /** The user's sketches and mixes (docs/formats.md) in place of a search, and where it has mixes
        these only; NULL: none. Borrowed; may be shared by threads. */
    const ccl_json_doc_t *file;
    const ccl_json_doc_t *added; /**< the same besides what a search finds; not with `file` */
    ccl_text_t *write; /**< sketches and the mix that was chosen are added, in that format */
    double within;     /**< R1: candidates estimated slower by this share are dropped; 0: 0.2 */
    uint32_t most_simulated; /**< R2: of the others at most this many are simulated; 0: 8 */
    double coarse;           /**< E1: coarse epochs, in a chunk's times on the fastest link; 0: 3 */
    double fine;             /**< E2: fine epochs; 0: 0.5 */
    bool no_shapes;          /**< ask the solver also where a shape is proven */
    const char *borrow;      /**< "packing,ring": whose trees join the sketches that are found;
                                  "none"; NULL, "all": those of packing, ring, greedy and hm */
    const char *cache;       /**< directory of solved sub-demands, "auto": the user's; NULL, "none":
                                  none */
} ccl_sketch_options_t;

/** Of `c2c`. */
typedef struct ccl_c2c_options {
    uint32_t clusters; /**< number of clusters, each of one vendor; 0: one per vendor, or as many as
                          make their bandwidths about equal, whichever is faster */
    const char *inner; /**< synthesizer for collectives inside clusters; NULL: the fastest of
                            direct, hm and ring */
} ccl_c2c_options_t;

/** How the late GPU of `straggler` joins. */
typedef enum ccl_straggler_join {
    CCL_STRAGGLER_AUTO,    /**< the faster by simulation */
    CCL_STRAGGLER_ROUNDS,  /**< as StragglAR (arXiv 2505.23523); powers of two */
    CCL_STRAGGLER_STRAIGHT /**< contributions to all owners at once, results to all GPUs */
} ccl_straggler_join_t;
/** Of `straggler`. */
typedef struct ccl_straggler_options {
    uint32_t rank; /**< who is late; CCL_NONE: the last */
    double late_s; /**< how late, seconds; 0: as late that the others are done */
    ccl_straggler_join_t join;
} ccl_straggler_options_t;

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
 * @param clusters   how many; 0: one per vendor.
 * @param of_out     [nranks] cluster, by lowest rank.
 * @param border_out [nranks] next to a NIC.
 * @retval CCL_UNSUPPORTED  fewer than two clusters, or than asked for.
 */
ccl_status_t ccl_c2c_clusters(const ccl_topology_t *topo, uint32_t clusters, uint32_t *of_out,
                              bool *border_out, uint32_t *nclusters_out, ccl_error_t *err);

/** Of the options of all added synthesizers together: most of them, and room for their values. */
enum { CCL_SYNTH_OWN_OPTIONS = 32, CCL_SYNTH_OWN = 64 };

typedef struct ccl_synth_options {
    size_t size;
    double size_bytes;      /**< message size the schedule is for; 0: any */
    uint32_t channels;      /**< 0: as many as the synthesizer thinks best */
    uint32_t chunks;        /**< chunks a shard is cut into, per channel; 0: synthesizer's choice */
    double time_limit_s;    /**< 0: none; after it the best so far is returned, marked limited */
    uint32_t restarts;      /**< times that a random synthesizer begins again; 0: its choice */
    uint32_t steps, rounds; /**< of `sccl`; 0: as few as can be, as cheap as can be */
    double epoch_s;         /**< of `milp`; 0: its choice */
    bool uniform_roots; /**< AllReduce: as many chunks reduced at each GPU, whatever it can carry */
    ccl_compose_t compose;    /**< for synthesizers that are `composable` */
    uint32_t effort;          /**< cegis: times the usual solver work (1); 0: none */
    double tau_ref_s;         /**< cegis: length of a step; 0: its choice */
    bool ceiling;             /**< cegis: capacities rounded up as HeteCCL's equation 1 has them */
    bool plain_start;         /**< cegis: start from links filled at random */
    ccl_text_t *trace;        /**< cegis: a JSON line per snapshot is added; NULL: none */
    ccl_synth_stats_t *stats; /**< filled by who searches; NULL: not wanted */
    ccl_sketch_options_t sketch;
    bool part;  /**< for a part of a composition: cegis neither slices nor simulates it, greedy does
                     not weigh its latency */
    bool plain; /**< its schedule need not run through switches (ccl_synth_ops_t.through_switches),
                     but on executors without switch connections */
    bool no_switches; /**< nor through switches, for it is for programs of LL or LL128
                           (ccl_protocol_switches()) */
    ccl_c2c_options_t c2c;
    ccl_straggler_options_t straggler;
    const ccl_schedule_t *warm; /**< alltoallv: the schedule of a like demand on this cluster;
                                     blocks keep its ways where that costs at most 1 %; NULL: none.
                                     Borrowed; may be shared by threads */
    double hope_s; /**< a schedule that takes longer, a block per connection in the order of steps
                        and with any protocol, is of no use: synthesizers return what they have as
                        soon as they see that, and do not look for the best; 0: any is of use */
    double in_switch_bytes; /**< of a message through switches: the schedule is only of use as the
                                 trees of that one; 0: as it is */
    double own[CCL_SYNTH_OWN]; /**< what added synthesizers declare: ccl_synth_own() */
} ccl_synth_options_t;
/** The defaults. */
#define CCL_SYNTH_OPTIONS_INIT                                                                     \
    {                                                                                              \
        .size = sizeof(ccl_synth_options_t), .effort = 1, .sketch = {.max_relays = CCL_NONE},      \
        .straggler = {                                                                             \
            .rank = CCL_NONE                                                                       \
        }                                                                                          \
    }

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
     * @param want  borrowed; `chunks_per_block` 1 for built-in kinds. The schedule's own collective
     *              may split its chunks (ccl_collective_split).
     */
    ccl_status_t (*synthesize)(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                               ccl_routes_t *routes, const ccl_collective_t *want,
                               const ccl_synth_options_t *options, ccl_schedule_t **out,
                               ccl_error_t *err);
    bool ordered; /**< its steps are rounds (ccl_schedule_t.rounds) */
    /** Its schedules depend on options->size_bytes: compare asks for one per size. */
    bool by_size;
    /** May be asked for pods and rails, whose schedules are put together (options->compose). */
    bool composable;
    /** A solver's baseline, minutes on larger clusters, or for a case that comparisons do not have
        (a late GPU): they have it only where it is named. */
    bool by_name;
    /** Tables of the options that it looks at besides the common ones, by their place in
        ccl_synth_options_t; ends with NULL. NULL: none. A table may be several synthesizers'. Of an
        added one: by their place in a struct of its own, which ccl_synth_own() returns; names begin
        with that of the synthesizer, "biring-right", knobs are the same with _ for -, files are
        not possible, and what nobody gives is 0. */
    const ccl_option_t *const *options;
    /** How its schedules are lowered and run where nobody says otherwise (ccl_way_choose); NULL:
        step order, a block per connection, algorithm level. */
    const ccl_way_t *way;
    /** Needs switches that multicast or reduce: comparisons over all synthesizers do not have it on
        clusters without one. */
    bool in_switch;
    /** Where switches can multicast and reduce, its trees inside their reach become switch
        connections if that is faster by simulation; such schedules have groups. */
    bool through_switches;
    /** Its schedules are small however large the cluster: two transfers for each two ranks at most.
        Comparisons make them beside large ones. */
    bool few;
    /** Of Broadcast and Reduce for a size it has stars or chains in staggered pieces
        (ccl_schedule_t.stagger) where these are faster by simulation. */
    bool staggers;
} ccl_synth_ops_t;

/** All synthesizers, in the order they are compared, those `by_name` last; ends with NULL. */
const ccl_synth_ops_t *const *ccl_synth_all(void);
const ccl_synth_ops_t *ccl_synth_find(const char *name);
/**
 * Add a synthesizer to those of this process: ccl_synth_all() and everything that takes a name have
 * it from now on. It comes before the first `by_name`, or at the end if it is one of them.
 *
 * Call it before other functions of the library run in other threads. One that is there already is
 * left as it is.
 *
 * @param ops      borrowed to the end of the process, with its tables; ccl_synth_find() returns a
 *                 copy where it has options.
 * @param version  changes whenever its schedules may change: the notebook keeps points by it; 1 to
 *                 23 characters; copied.
 * @retval CCL_ERR_INPUT  it lacks something, its name is taken, or a row of its tables cannot be.
 */
ccl_status_t ccl_synth_register(const ccl_synth_ops_t *ops, const char *version, ccl_error_t *err);
/** Its version; "" where it is built in. Lives to the end of the process. */
const char *ccl_synth_version(const ccl_synth_ops_t *ops);
/**
 * The options of an added synthesizer by its name: the struct that its tables describe, as far as
 * the last of their members; inside `options`. NULL: it has none.
 */
const void *ccl_synth_own(const ccl_synth_options_t *options, const char *name);

/** Whether comparisons over all synthesizers have it on a cluster (by_name, in_switch). */
bool ccl_synth_takes_part(const ccl_synth_ops_t *ops, const ccl_topology_t *topo);

/**
 * Whether a schedule can be ccl_synth_options_t.warm for a demand on a cluster.
 * @retval CCL_ERR_INPUT  it is wrong, of another cluster, or not of a demand like this.
 */
ccl_status_t ccl_alltoallv_warm_check(const ccl_topology_t *topo, ccl_routes_t *routes,
                                      const ccl_schedule_t *former, const ccl_collective_t *want,
                                      ccl_error_t *err);

/** What a plugin holds, under the symbol `ccllab_plugin`. */
typedef struct ccl_plugin {
    size_t size;         /**< sizeof this struct */
    const char *version; /**< CCL_VERSION of the headers that it was compiled with */
    const ccl_synth_ops_t *synth;
} ccl_plugin_t;
/** Makes a shared object a plugin: CCL_PLUGIN(biring); at file scope, `biring` a ccl_synth_ops_t.
 */
#define CCL_PLUGIN(synth_)                                                                         \
    __attribute__((visibility("default"))) extern const ccl_plugin_t ccllab_plugin;                \
    const ccl_plugin_t ccllab_plugin = {sizeof(ccl_plugin_t), CCL_VERSION, &(synth_)}
/**
 * Load a plugin, a shared object with CCL_PLUGIN(), and ccl_synth_register() what it holds; its
 * version is a hash of the file. It stays loaded. The functions of the library that it calls are
 * those of the program that loads it: a plugin is linked against nothing.
 *
 * @param path  of the file; a second time does nothing.
 * @retval CCL_ERR_IO     the file cannot be read.
 * @retval CCL_ERR_INPUT  it cannot be loaded, is no plugin, or was compiled for another version of
 *                        the library; or as ccl_synth_register().
 */
ccl_status_t ccl_plugin_load(const char *path, ccl_error_t *err);
/**
 * All tables of options by index: first the one that every synthesizer has, then each that some
 * have, in the order of ccl_synth_all(); NULL: there are no more.
 */
const ccl_option_t *ccl_synth_option_table(uint32_t index);
/** Whether a synthesizer looks at the options of a table. */
bool ccl_synth_has_options(const ccl_synth_ops_t *ops, const ccl_option_t *table);
/** "greedy, cegis": who has a table; "" of the common one. Returns out. */
const char *ccl_synth_option_owners(const ccl_option_t *table, char *out, size_t out_len);
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
    uint32_t count;      /**< how many are alike */
    uint32_t lanes;
    double alpha_s, rate_Bps;
    double tau_s;        /**< of one chunk alone */
    double exact_chunks; /**< that fit into a step, not rounded */
    uint32_t chunks;     /**< C(u,v), C_g */
} ccl_chunk_capacity_t;
typedef struct ccl_chunk_capacities {
    double chunk_bytes, tau_ref_s;
    double stretch; /**< tau_ref over the slowest hop's tau; 0: it was given */
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
/** Frees it and all it owns; NULL is fine. */
void ccl_chunk_capacities_destroy(ccl_chunk_capacities_t *capacities);

CCL_END_DECLS
#endif
