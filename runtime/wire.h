/**
 * @file wire.h
 * TCP as a transport: a thread of each process passes slices of connections whose other end is in
 * another process, with credits, so that a FIFO has the same depth as in shared memory.
 */
#ifndef CCL_RUNTIME_WIRE_H
#define CCL_RUNTIME_WIRE_H

#include "runtime/host.h"
#include "runtime/plan.h"

typedef struct ccl_i_wire ccl_i_wire_t;

/** Connections of devices, which cannot ring: the wire looks at them all the time. */
typedef struct ccl_i_wire_staged {
    const ccl_device_conn_t *conns; /* [nconns] as the host sees them, with `lengths` */
    const bool *carried;            /* [nconns] */
} ccl_i_wire_staged_t;

/**
 * Of the host: sets the connections' `lengths`, which live as long as the wire.
 *
 * @param staged  NULL: of the host, all that cross processes.
 * @param fds   [nprocesses] sockets to the others, taken also on failure; own one -1.
 * @param stop  set when a socket breaks.
 */
ccl_status_t ccl_i_wire_create(ccl_i_run_plan_t *plan, const ccl_i_host_t *host,
                               const ccl_i_wire_staged_t *staged, uint32_t nprocesses,
                               const int *fds, uint32_t *stop, ccl_i_wire_t **out,
                               ccl_error_t *err);
/** The process to which the connection broke; CCL_NONE: all are well. */
uint32_t ccl_i_wire_broken(const ccl_i_wire_t *wire);
void ccl_i_wire_destroy(ccl_i_wire_t *wire);
/** host->proxy. */
void ccl_i_wire_ring(void *wire, uint32_t conn, bool data);

#endif
