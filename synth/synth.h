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

typedef struct ccl_synth_options {
    size_t size;
    double size_bytes;   /**< message size the schedule is for; 0: any */
    uint32_t channels;   /**< 0: as many as the synthesizer thinks best */
    uint32_t chunks;     /**< chunks a block is cut into, per channel; 0: synthesizer's choice */
    double time_limit_s; /**< 0: none; after it the best so far is returned, marked limited */
} ccl_synth_options_t;
#define CCL_SYNTH_OPTIONS_INIT                                                                     \
    { sizeof(ccl_synth_options_t), 0, 0, 0, 0 }

typedef struct ccl_synth_ops {
    size_t size;
    const char *name;    /**< "ring" */
    const char *summary; /**< one line */
    const char *source;  /**< paper or product, section */
    /** May be tried for this collective on this topology? `why` says why not (one line). */
    bool (*supports)(const ccl_topology_t *topo, const ccl_collective_t *want, const char **why);
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
} ccl_synth_ops_t;

/** All synthesizers, in the order they are compared; ends with NULL. */
const ccl_synth_ops_t *const *ccl_synth_all(void);
const ccl_synth_ops_t *ccl_synth_find(const char *name);
/** Find, check supports(), synthesize, verify the schedule (a wrong one is CCL_ERR_INTERNAL). */
ccl_status_t ccl_synthesize(const ccl_ctx_t *ctx, const char *name, const ccl_topology_t *topo,
                            ccl_routes_t *routes, const ccl_collective_t *want,
                            const ccl_synth_options_t *options, ccl_schedule_t **out,
                            ccl_error_t *err);

typedef struct ccl_lower_options {
    size_t size;
    const char *proto; /**< "Simple" (default), "LL", "LL128" */
    bool no_fuse;      /**< keep receive and forward apart, in blocks of their own */
    bool out_of_place; /**< AllReduce and its like: separate output buffer (default in place) */
    bool ordered;      /**< steps are rounds (ccl_synth_ops_t.ordered); also so when the schedule
                            has the name of such a synthesizer */
    uint32_t slots;    /**< FIFO depth, in whole primitives, for which the program must finish;
                            0: 2. With 1 a ring's blocks forward less in one primitive. */
} ccl_lower_options_t;
#define CCL_LOWER_OPTIONS_INIT                                                                     \
    { sizeof(ccl_lower_options_t), "Simple", false, false, false, 0 }

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
 */
ccl_status_t ccl_lower(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                       const ccl_lower_options_t *options, ccl_program_t **out, ccl_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
