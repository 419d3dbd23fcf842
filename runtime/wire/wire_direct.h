/**
 * @file wire_direct.h
 * Slots in memory of devices that an RDMA device reaches (direct.h): which connections lie where,
 * the same at all processes, and the memory of this one's devices.
 */
#ifndef CCL_RUNTIME_WIRE_DIRECT_H
#define CCL_RUNTIME_WIRE_DIRECT_H

#include "runtime/wire/direct.h"
#include "runtime/job.h"

typedef struct ccl_i_wire_direct {
    const ccl_i_job_t *job;
    uint64_t *from_at, *to_at; /* [nconns] of slots in the memory of the parts at its two ends */
    uint64_t *part_bytes;      /* [parts of all processes] */
    bool used;                 /* this process's devices have the memory */
    ccl_i_direct_path_t path;  /* the worst of its devices */
    ccl_i_direct_t parts[CCL_I_MOST_PARTS]; /* of this process */
    char why[sizeof((ccl_i_direct_t *)0)->why];
} ccl_i_wire_direct_t;

/** Bytes of a connection's slots, whole cache lines. */
static inline uint64_t ccl_i_wire_slots_bytes(const ccl_device_conn_t *c) {
    return (c->slots * c->slot_bytes + 127) / 128 * 128;
}

/** Offsets of all that is carried between processes. @param job  borrowed. */
ccl_status_t ccl_i_wire_direct_init(const ccl_i_job_t *job, ccl_i_wire_direct_t *out,
                                    ccl_error_t *err);
/** Memory of this process's devices; `used` when all of them that need some have it. */
void ccl_i_wire_direct_open(ccl_i_wire_direct_t *direct, const ccl_i_direct_calls_t *calls);
/** The part of this process at a connection's end; NULL: its slots are elsewhere. */
const ccl_i_direct_t *ccl_i_wire_direct_of(const ccl_i_wire_direct_t *direct, uint32_t conn,
                                           uint64_t *at_out);
/** Nothing may use the memory any more; what was never set up, zeroed, is fine. */
void ccl_i_wire_direct_fini(ccl_i_wire_direct_t *direct);

#endif
