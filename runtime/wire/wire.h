/**
 * @file wire.h
 * Slices between processes that share no memory: a thread of each process passes on slices of
 * connections whose other end is in another process, with credits, so that a FIFO has the same
 * depth as in shared memory. TCP or RDMA carries them.
 */
#ifndef CCL_RUNTIME_WIRE_H
#define CCL_RUNTIME_WIRE_H

#include "runtime/wire/group.h"
#include "runtime/host/host.h"
#include "runtime/plan.h"

typedef struct ccl_i_wire ccl_i_wire_t;
struct ccl_i_verbs;
struct ccl_i_job;

/** Connections of devices, which cannot ring: the wire looks at them all the time. */
typedef struct ccl_i_wire_staged {
    ccl_device_conn_t *conns; /* [nconns] as the host sees them, with `lengths` */
    const bool *carried;      /* [nconns] */
    void *memory;             /* all their slots lie in it, at the same offsets everywhere */
    size_t memory_bytes;
} ccl_i_wire_staged_t;

typedef struct ccl_i_wire_how {
    ccl_i_group_t *group;
    uint32_t *stop;                    /* set when a connection breaks */
    const ccl_i_wire_staged_t *staged; /* NULL: of the host, all that cross processes */
    struct ccl_i_verbs *verbs;         /* RDMA through it, owned by the wire; NULL: TCP */
    const struct ccl_i_job *devices;   /* of a job with devices whose memory is not the host's */
} ccl_i_wire_how_t;

/**
 * Of the host: sets the connections' `lengths`, and with RDMA where their slots lie; both live as
 * long as the wire.
 *
 * @param fds   [nprocesses] sockets to the others, taken also on failure; own one -1.
 */
ccl_status_t ccl_i_wire_create(ccl_i_run_plan_t *plan, const ccl_i_host_t *host,
                               const ccl_i_wire_how_t *how, uint32_t nprocesses, const int *fds,
                               ccl_i_wire_t **out, ccl_error_t *err);
/** When all processes have one: connects them, and begins. */
ccl_status_t ccl_i_wire_start(ccl_i_wire_t *wire, ccl_error_t *err);
/** The process to which the connection broke; CCL_NONE: all are well. */
uint32_t ccl_i_wire_broken(const ccl_i_wire_t *wire);
/** Why, one line; "" when nothing more is known. */
const char *ccl_i_wire_why(const ccl_i_wire_t *wire);
bool ccl_i_wire_is_rdma(const ccl_i_wire_t *wire);
/**
 * How RDMA gets at slices of devices, of all processes, each once: "dmabuf", "peer", "host",
 * "dmabuf+host"; "" where there are none. @param why_out  one line: why not better; "".
 */
const char *ccl_i_wire_device_memory(const ccl_i_wire_t *wire, const char **why_out);
void ccl_i_wire_destroy(ccl_i_wire_t *wire);
/** host->proxy. */
void ccl_i_wire_ring(void *wire, uint32_t conn, bool data);

#endif
