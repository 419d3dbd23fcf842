/**
 * @file engine.h
 * The event loop shared by program and flow-list runs: timers, the network, exclusive links.
 *
 * Everything that happens within a rounding error (2e-13 relative; 1 ps when links are exclusive)
 * is one instant and gets the time of its first event: what is simultaneous by symmetry stays so,
 * instead of drifting apart by rounding. All events of an instant run first, then flows start and
 * the rates are solved once.
 */
#ifndef CCL_SIM_ENGINE_H
#define CCL_SIM_ENGINE_H

#include "sim/maxmin/network.h"

typedef struct ccl_i_event {
    double time_s;
    uint64_t seq; /* order of insertion decides between equal times */
    uint32_t kind, id;
} ccl_i_event_t;

typedef struct ccl_i_engine ccl_i_engine_t;

#define CCL_I_DRAINED 0xfffffffeu

typedef struct ccl_i_engine_ops {
    void (*event)(void *user, uint32_t kind, uint32_t id, double time_s);
    void (*drained)(void *user, uint32_t flow, double time_s);
    /** Exclusive sharing: the flow got its links. May be NULL. */
    void (*granted)(void *user, uint32_t flow, double time_s);
    /** Called between instants; false stops the run. May be NULL. */
    bool (*between)(void *user, double time_s);
    /** This event (or, kind CCL_I_DRAINED, the drained flow `id`) is soon to come: fetch what it
        needs into the cache. Called with stage 0, 1, 2, for what the one before made known. May be
        NULL. */
    void (*soon)(void *user, uint32_t kind, uint32_t id, int stage);
} ccl_i_engine_ops_t;

ccl_i_engine_t *ccl_i_engine_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                    ccl_sharing_t sharing, const ccl_i_engine_ops_t *ops,
                                    void *user);
void ccl_i_engine_destroy(ccl_i_engine_t *engine);
ccl_i_net_t *ccl_i_engine_net(ccl_i_engine_t *engine);
/** Kinds up to 0xfffffffd are the caller's. */
void ccl_i_engine_at(ccl_i_engine_t *engine, double time_s, uint32_t kind, uint32_t id);
typedef struct ccl_i_engine_flow {
    const ccl_route_t *route;
    uint32_t path, flow;
    double bytes;
    uint32_t rank,
        tb; /* exclusive sharing orders requests of an instant by these, then as they come */
} ccl_i_engine_flow_t;
/**
 * Hand over a flow; `drained` is called with its number when it has drained. Zero bytes drain at
 * once.
 */
void ccl_i_engine_flow(ccl_i_engine_t *engine, double time_s, const ccl_i_engine_flow_t *f);
/** Run until nothing is left to happen. */
ccl_status_t ccl_i_engine_run(ccl_i_engine_t *engine, ccl_error_t *err);
uint64_t ccl_i_engine_events(const ccl_i_engine_t *engine);
/** Pending timers in any order, for snapshots; valid until the next call. NULL: none, or no memory.
 */
const ccl_i_event_t *ccl_i_engine_pending(ccl_i_engine_t *engine, size_t *len_out);
/** Shift all pending times (skipping whole periods). */
void ccl_i_engine_shift(ccl_i_engine_t *engine, double shift_s);

#endif
