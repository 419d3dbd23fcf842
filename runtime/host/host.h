/**
 * @file host.h
 * The host as a device: what its scheduler shares with transports and other processes.
 *
 * Every unit (thread block, or stage of one) is a small state machine. A unit that may be able to
 * go on is marked in a bitmap; workers, one per core, take marked units and step them until they
 * must wait. Who makes progress that a unit waits for marks it. A worker that finds nothing parks.
 */
#ifndef CCL_RUNTIME_HOST_H
#define CCL_RUNTIME_HOST_H

#include "runtime/device.h"
#include "runtime/runtime.h"

/** Marks of the units of one process, in memory that all processes of the machine reach. */
typedef struct ccl_i_sched {
    uint32_t epoch; /* futex: changes to wake parked workers */
    char pad0[60];
    uint32_t parked;
    char pad1[60];
    uint32_t first_unit, nunits, nwords;
    uint32_t states_at; /* offset of the states */
    char pad2[48];
    uint64_t bits[]; /* [nwords] marked units, then [nunits] states */
} ccl_i_sched_t;

size_t ccl_i_sched_bytes(uint32_t nunits);
void ccl_i_sched_init(ccl_i_sched_t *sched, uint32_t first_unit, uint32_t nunits);

/** plan->host: where a unit on the host reports its progress. */
typedef struct ccl_i_host {
    uint32_t self;                /* process */
    ccl_i_sched_t *const *scheds; /* by process; NULL where it cannot be reached */
    const uint32_t *unit_process; /* [nunits] */
    /* Connections to processes without a sched: a slice was written (data) or freed. */
    void (*proxy)(void *user, uint32_t conn, bool data);
    void *proxy_user;
} ccl_i_host_t;

/** Mark a unit of a reachable process; wakes a worker there if all sleep. */
void ccl_i_host_ring(const ccl_i_host_t *host, uint32_t unit);

/* Waiting on words of memory, also between processes. */
void ccl_i_futex_wait(uint32_t *word, uint32_t value, double limit_s);
void ccl_i_futex_wake(uint32_t *word, int n);

/** The table (host.c). */
const ccl_device_ops_t *ccl_i_host_ops(void);
/** Program functions (host_exec.c). */
int ccl_i_host_program_load(ccl_device_handle_t *device, const ccl_device_plan_t *plan,
                            uint32_t threads, ccl_device_program_t **out);
int ccl_i_host_program_unload(ccl_device_program_t *program);
/** Runs to the end; called by a stream. */
void ccl_i_host_program_run(ccl_device_program_t *program, const ccl_device_launch_t *launch);

#endif
