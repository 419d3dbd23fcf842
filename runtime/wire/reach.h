/**
 * @file reach.h
 * Devices whose memory is not the host's: which of them run a process's ranks, and how they reach
 * each other's FIFOs: directly, also between processes (IPC), or through memory of the host.
 */
#ifndef CCL_RUNTIME_REACH_H
#define CCL_RUNTIME_REACH_H

#include "runtime/device.h"
#include "runtime/wire/group.h"
#include "runtime/wire/switches.h"
#include "runtime/plan.h"

struct ccl_i_job;

enum { CCL_I_MOST_PARTS = 16 };

/** Parts of all processes and what they can reach. */
typedef struct ccl_i_wire_reach {
    uint32_t nparts;                       /* of all processes */
    uint32_t *first_part;                  /* [nprocesses + 1] */
    uint64_t *machines;                    /* [nprocesses] */
    bool *peers;                           /* [nprocesses] its devices reach each other */
    bool whole_lines;                      /* of LL128, between all devices of the job */
    bool ipc;                              /* processes of a machine reach each other's devices */
    uint32_t *from, *to;                   /* [nconns] parts of its ends */
    uint64_t *head_at, *tail_at, *data_at; /* [nconns] in the regions of to, from, to; a head
                                              that does not count is in that of from */
    uint64_t *region_bytes;                /* [nparts] */
    void **mapped; /* [own parts * nparts] regions of other processes, by own part */
    ccl_i_wire_switches_t switches;
    /* FIFOs in memory of the host */
    bool staged; /* some of this process */
    bool wired;  /* some of the job are carried by TCP */
    char *memory;
    size_t memory_bytes;
    bool memory_is_shared; /* not ours */
    bool registered;
    ccl_device_conn_t *conns; /* [nconns] as the host sees them */
    bool *carried;            /* [nconns] by TCP */
} ccl_i_wire_reach_t;

/** Devices of a process's own, where `processes` of one kind share a machine's; at least one. */
uint32_t ccl_i_reach_share(uint32_t devices, uint32_t processes, uint32_t ranks);
/** Devices of this process by its place on the machine; ranks over them, evenly. */
ccl_status_t ccl_i_reach_parts(struct ccl_i_job *job, uint32_t devices, ccl_error_t *err);
/** Regions and addresses of all connections of this process. @param shared  of all children. */
ccl_status_t ccl_i_reach_connect(struct ccl_i_job *job, char *shared, ccl_error_t *err);
/** Where a connection's slots lie in memory of the host that devices reach; everywhere alike. */
uint64_t ccl_i_reach_staged_at(const ccl_i_run_plan_t *plan, uint32_t conn);
/** @param together  all processes close now: no memory is freed that another one still sees. */
void ccl_i_reach_close(struct ccl_i_job *job, bool together);

#endif
