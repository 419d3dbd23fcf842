/**
 * @file job.h
 * One process's part of a run: its ranks, its memory, the device. Shared by the files of the run.
 */
#ifndef CCL_RUNTIME_JOB_H
#define CCL_RUNTIME_JOB_H

#include "runtime/wire/group.h"
#include "runtime/host/host.h"
#include "runtime/kinds.h"
#include "runtime/plan.h"
#include "runtime/wire/reach.h"
#include "runtime/host/values.h"

struct ccl_i_wire;
struct ccl_i_vendor;
struct ccl_i_hom_run;

/** Words that host and device share during a run. */
typedef struct ccl_i_words {
    uint32_t ready, gate, stop, over;
    uint32_t kernel_ready, kernel_over, reached; /* of a kernel among a library's calls */
    uint64_t progress;
    double start_s, end_s;
} ccl_i_words_t;

/** A device of this process, and the ranks that it runs. The host is one part of all ranks. */
typedef struct ccl_i_job_part {
    uint32_t index;                /* of the device */
    uint32_t first_rank, end_rank; /* a contiguous share of the process's */
    ccl_device_properties_t properties;
    ccl_device_handle_t *device;
    ccl_device_stream_t *stream;
    ccl_device_plan_t plan; /* the job's, with the units of these ranks */
    ccl_device_program_t *loaded;
    ccl_text_t kernel;    /* of the program's own; empty: it is interpreted */
    char *region;         /* FIFOs and flags in the device's memory (reach.c) */
    ccl_i_words_t *words; /* `gate`, `stop` and `progress` are those of the first part */
    ccl_device_launch_t how;
} ccl_i_job_part_t;

typedef struct ccl_i_job {
    const ccl_ctx_t *ctx;         /* NULL in children */
    const ccl_program_t *program; /* with `hom`, and so is the plan: what libraries leave of it */
    const ccl_run_options_t *options; /* with defaults filled in */
    ccl_i_run_plan_t *plan;
    ccl_i_group_t *group;
    uint32_t self, nprocesses, first_rank, end_rank, threads;
    char kind[CCL_I_KIND_LEN]; /* of this process's device */
    bool mixed;                /* not all processes have the same */
    /* memory of the FIFOs, flags and marks; shared by all processes with shm */
    char *region;
    size_t region_bytes;
    bool region_is_shared;
    /* device */
    const ccl_device_ops_t *ops;
    void *module;
    ccl_i_job_part_t *parts;
    uint32_t nparts;
    ccl_i_wire_reach_t reach; /* devices whose memory is not the host's */
    void **memory;            /* [nranks] of own ranks */
    void **staging; /* [nranks] host copies; the same where the device's memory is the host's */
    ccl_i_words_t *words; /* [nparts] */
    ccl_device_place_t *places;
    ccl_device_use_t *uses;
    ccl_i_host_t host; /* scheds of the host only */
    ccl_i_sched_t **scheds;
    uint32_t *unit_process;
    struct ccl_i_wire *wire;     /* TCP; NULL: none */
    struct ccl_i_vendor *vendor; /* NULL: the program itself is run */
    struct ccl_i_hom_run *hom;   /* libraries inside clusters; NULL: none was asked for */
} ccl_i_job_t;

/** First rank of a process; `process` may be the number of processes. */
static inline uint32_t ccl_i_first_rank(const ccl_i_run_plan_t *plan, uint32_t nprocesses,
                                        uint32_t process) {
    return plan->first_rank ? plan->first_rank[process]
                            : (uint32_t)((uint64_t)plan->dev.nranks * process / nprocesses);
}

/** Bytes of the region that holds FIFOs, flags and marks (memory.c). */
size_t ccl_i_region_bytes(const ccl_i_run_plan_t *plan, uint32_t nprocesses);
/** Device, memory, connections; the job's inputs must be set. */
ccl_status_t ccl_i_job_open(ccl_i_job_t *job, ccl_error_t *err);
/** @param together  all went well, so all processes close now. */
void ccl_i_job_close(ccl_i_job_t *job, bool together);
/** All runs of this process; fills the result's times and findings. */
ccl_status_t ccl_i_job_run(ccl_i_job_t *job, ccl_run_result_t *result, ccl_error_t *err);
/** The cycle of who waits for whom, from places of all units. */
void ccl_i_job_blame(const ccl_i_job_t *job, const ccl_device_place_t *places, ccl_deadlock_t *out);

/** The part that runs a rank of this process. */
static inline ccl_i_job_part_t *ccl_i_part_of(const ccl_i_job_t *job, uint32_t rank) {
    uint32_t k = 0;
    while (k + 1 < job->nparts && rank >= job->parts[k].end_rank)
        k++;
    return &job->parts[k];
}

/** Finds a device by name; the module must be closed (NULL for built-in ones). */
ccl_status_t ccl_i_device_find(const char *name, const ccl_device_ops_t **ops_out,
                               void **module_out, ccl_error_t *err);
void ccl_i_device_release(void *module);

#endif
