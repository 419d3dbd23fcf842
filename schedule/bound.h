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
    bool no_latency;      /**< latency 0 and no cuts over time: quicker where only bandwidth is
                               wanted */
    bool any_switches;    /**< also of programs of LL and LL128 that go through switches: lowering
                               makes none (ccl_protocol_switches()), but files may have some */
} ccl_bound_options_t;
/** The defaults. */
#define CCL_BOUND_OPTIONS_INIT                                                                     \
    { sizeof(ccl_bound_options_t), 0, NULL, NULL, false, false }

/** What gives the bound at a size. */
typedef enum ccl_bound_by {
    CCL_BOUND_BY_LATENCY,
    CCL_BOUND_BY_BANDWIDTH,
    CCL_BOUND_BY_TIME /**< a cut over time */
} ccl_bound_by_t;
const char *
ccl_bound_by_name(ccl_bound_by_t by); /**< "latency", "bandwidth", "over time"; static */

/** The bound of programs of one protocol. */
typedef struct ccl_bound_proto {
    const char *proto; /**< static; NULL: protocols have no constants of their own */
    double latency_s;
    double Bps; /**< algbw of the bandwidth bound with what this protocol puts on the wire */
    ccl_time_bound_t time;
} ccl_bound_proto_t;

/** No schedule that copies and adds is faster. */
typedef struct ccl_bound {
    ccl_latency_bound_t latency;     /**< least of the protocols */
    ccl_bandwidth_bound_t bandwidth; /**< Bps is algbw: size / time; greatest of the protocols */
    uint32_t nprotos;
    ccl_bound_proto_t protos[CCL_PROTOCOLS];
    double size_bytes;
    double bandwidth_s; /**< size / Bps */
    double time_s;      /**< least over the protocols of the greatest of the three */
    ccl_bound_by_t by;  /**< what gives time_s */
} ccl_bound_t;
/**
 * Lower bounds of a collective on a topology (docs/bounds.md): what the farthest GPUs are apart,
 * the tightest cut, partition or flow program over the physical links, and cuts over time. Thread
 * blocks, slots and contention are left out; so a bound holds for every program.
 *
 * @param options  NULL: defaults.
 * @param out      set on success; finish with ccl_bound_fini().
 * @retval CCL_ERR_INPUT  the topology has another number of ranks.
 * @par Determinism  the same bytes each time, but where a flow program meets its time limit.
 */
ccl_status_t ccl_bound(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                       const ccl_collective_t *coll, const ccl_bound_options_t *options,
                       ccl_bound_t *out, ccl_error_t *err);
/** What bounds a size. */
typedef struct ccl_bound_at {
    double time_s;
    ccl_bound_by_t by;
    const ccl_bound_proto_t *proto; /**< the fastest protocol; borrowed from the bound */
    const ccl_time_cut_t *cut;      /**< its best cut over time; NULL: none */
    double cut_s;                   /**< what that cut alone proves */
} ccl_bound_at_t;
/** The bound for another size of the same collective. */
ccl_bound_at_t ccl_bound_at(const ccl_bound_t *bound, double size_bytes);
/** Its seconds alone. */
double ccl_bound_time_s(const ccl_bound_t *bound, double size_bytes);
/** Frees what it owns; the struct itself is the caller's. */
void ccl_bound_fini(ccl_bound_t *bound);

CCL_END_DECLS
#endif
