/**
 * @file switches.h
 * Slots of switch connections in multicast memory, where the members are devices of one process
 * with a part each: a multicast is one store, a pull one load. Elsewhere slots lie as those of any
 * connection, and blocks go through them one by one.
 */
#ifndef CCL_RUNTIME_SWITCHES_H
#define CCL_RUNTIME_SWITCHES_H

#include "runtime/device.h"
#include "runtime/plan.h"

struct ccl_i_job;

/** A switch connection of the plan. */
typedef struct ccl_i_wire_switch {
    uint32_t first, n; /* connections */
    bool pulls;
    uint32_t memory; /* CCL_NONE: its slots lie with those of other connections */
    uint64_t at;     /* of the slots in every part */
} ccl_i_wire_switch_t;

/** One multicast memory for each set of members. */
typedef struct ccl_i_wire_memory {
    uint32_t process, members;      /* bits of its parts */
    uint64_t bytes;                 /* of each part */
    ccl_device_multicast_t *memory; /* of this process; else NULL */
} ccl_i_wire_memory_t;

typedef struct ccl_i_wire_switches {
    ccl_i_wire_switch_t *items;
    ccl_i_wire_memory_t *memories;
    uint32_t n, nmemories;
    uint32_t *of_conn; /* [nconns] its switch connection; CCL_NONE */
} ccl_i_wire_switches_t;

/** What multicast memory of a process's devices does. */
enum { CCL_I_SWITCHES_CAST = 1, CCL_I_SWITCHES_PULL = 2 };
/** Of this process's, for the plan's type and reduction. */
uint32_t ccl_i_switches_can(const struct ccl_i_job *job);
/**
 * Switch connections of the plan, and which of them multicast memory is to hold: every process
 * finds the same. @param can  [nprocesses] of each; 0 where its devices do not reach each other.
 */
ccl_status_t ccl_i_switches_init(struct ccl_i_job *job, const uint32_t *can, ccl_error_t *err);
/** Memories of this process, zeroed. @return false: there are none to be had. */
bool ccl_i_switches_make(struct ccl_i_job *job);
/** All lie as other connections do. */
void ccl_i_switches_drop(struct ccl_i_job *job);
/** Whether its slots lie in multicast memory. */
bool ccl_i_switches_hold(const struct ccl_i_job *job, uint32_t conn);
/** Where they are; of an own connection that one holds. */
void ccl_i_switches_address(struct ccl_i_job *job, uint32_t conn);
/** Of the job's switch connections those in multicast memory. */
uint32_t ccl_i_switches_held(const struct ccl_i_job *job);
void ccl_i_switches_fini(struct ccl_i_job *job);

#endif
