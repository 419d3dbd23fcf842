/**
 * @file bound.h
 * Times that no schedule of a collective can beat.
 */
#ifndef CCL_SCHEDULE_BOUND_H
#define CCL_SCHEDULE_BOUND_H

#include "schedule/collective.h"

CCL_BEGIN_DECLS

typedef struct ccl_bound_options {
    size_t size;
    double size_bytes;    /**< nccl-tests' size; 0: only rates are wanted */
    const char *proto;    /**< of the programs: "Simple", "LL", "LL128"; NULL: any */
    ccl_routes_t *routes; /**< borrowed; NULL: made for the call */
    bool no_latency;      /**< leave the latency bound 0: quicker where only bandwidth is wanted */
} ccl_bound_options_t;
/** The defaults. */
#define CCL_BOUND_OPTIONS_INIT                                                                     \
    { sizeof(ccl_bound_options_t), 0, NULL, NULL, false }

/** No schedule that copies and adds is faster. */
typedef struct ccl_bound {
    ccl_latency_bound_t latency;
    ccl_bandwidth_bound_t bandwidth; /**< Bps is algbw: size / time */
    double size_bytes;
    double bandwidth_s; /**< size / Bps */
    double time_s;      /**< the greater of the two */
} ccl_bound_t;
/**
 * Lower bounds of a collective on a topology (docs/bounds.md): what the farthest GPUs are apart,
 * and the tightest cut, partition or flow program over the physical links. Thread blocks, slots and
 * contention are left out; so a bound holds for every program.
 *
 * @param options  NULL: defaults.
 * @param out      set on success; finish with ccl_bound_fini().
 * @retval CCL_ERR_INPUT  the topology has another number of ranks.
 * @par Determinism  the same bytes each time, but where a flow program meets its time limit.
 */
ccl_status_t ccl_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                       const ccl_collective_t *coll, const ccl_bound_options_t *options,
                       ccl_bound_t *out, ccl_error_t *err);
/** The bound for another size of the same collective, seconds. */
double ccl_bound_time_s(const ccl_bound_t *bound, double size_bytes);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_bound_fini(ccl_bound_t *bound);

CCL_END_DECLS
#endif
