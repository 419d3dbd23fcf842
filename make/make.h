/**
 * @file make.h
 * Make and prove: the one way from a topology, a collective and settings to a proven program and
 * its run.
 */
#ifndef CCL_MAKE_MAKE_H
#define CCL_MAKE_MAKE_H

#include "synth/synth.h"

CCL_BEGIN_DECLS

/** From a schedule to its program. */
typedef struct ccl_make_options {
    size_t size;
    ccl_way_t way;             /**< order, allocation and level; those of `lower` do not count */
    ccl_lower_options_t lower; /**< the rest. Topology, routes, size_bytes and batches are filled
                                  in; `size` 0: defaults */
    double size_bytes;         /**< of the run that lowering looks at; 0: 256 MiB */
    uint32_t batches;          /**< its micro-batches; 0: as many as the model says */
    bool no_prove;             /**< the program is not verified */
    ccl_status_t wrong;        /**< status where it does not compute the collective: CCL_CHECK for a
                                  schedule of the user's; CCL_OK: CCL_ERR_INTERNAL, for one that a
                                  synthesizer made and that was proven before */
} ccl_make_options_t;
/** The defaults. */
#define CCL_MAKE_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(ccl_make_options_t),                                                                \
            {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_ALGORITHM},                  \
            CCL_LOWER_OPTIONS_INIT, 0, 0, false, CCL_OK                                            \
    }

/**
 * Lower a schedule for a cluster, and verify the program. It is not executed here: that its FIFOs
 * do not block at the depth the cluster has is for ccl_sim_program() to find.
 *
 * @param routes   of the topology; borrowed; NULL: made for the call.
 * @param options  NULL: defaults.
 * @param out      destroy with ccl_program_destroy().
 * @retval CCL_ERR_INPUT        the schedule has other ranks than the topology.
 * @retval CCL_UNSUPPORTED  what ccl_lower() says.
 * @retval options->wrong       the program does not compute the collective.
 */
ccl_status_t ccl_make_program(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              ccl_routes_t *routes, const ccl_schedule_t *schedule,
                              const ccl_make_options_t *options, ccl_program_t **out,
                              ccl_error_t *err);
/**
 * Verify a program, but for deadlock, which the simulator finds with the cluster's FIFOs.
 *
 * @param wrong  the status where it does not compute the collective; CCL_OK: CCL_ERR_INTERNAL.
 */
ccl_status_t ccl_make_proven(const ccl_ctx_t *ctx, const ccl_program_t *program,
                             ccl_granularity_t granularity, ccl_executor_t executor,
                             ccl_status_t wrong, ccl_error_t *err);

/** What ccl_make() made; finish with ccl_made_fini(). */
typedef struct ccl_made {
    ccl_schedule_t *schedule;
    ccl_program_t *program;
    ccl_way_t way;         /**< how it was lowered */
    ccl_sim_result_t *run; /**< NULL where no run was asked for */
} ccl_made_t;
/** Frees what it owns; the struct itself is the caller's. */
void ccl_made_fini(ccl_made_t *made);
/**
 * Synthesize, lower the synthesizer's own way (ccl_synth_ops_t.way) and prove.
 *
 * @param name    of the synthesizer.
 * @param synth   NULL: defaults. Its size_bytes is also that of the run.
 * @param lower   NULL: defaults; as in ccl_make_options_t.
 * @param run     true: the program is simulated as well; of synth->size_bytes, which must be > 0.
 * @retval CCL_ERR_INPUT        no such synthesizer.
 * @retval CCL_UNSUPPORTED  the synthesizer or lowering cannot do this here.
 * @retval CCL_DEADLOCK         with `run`: the program cannot finish with the cluster's FIFOs.
 */
ccl_status_t ccl_make(const ccl_ctx_t *ctx, const char *name, const ccl_topology_t *topo,
                      ccl_routes_t *routes, const ccl_collective_t *want,
                      const ccl_synth_options_t *synth, const ccl_lower_options_t *lower, bool run,
                      ccl_made_t *out, ccl_error_t *err);

CCL_END_DECLS
#endif
