/**
 * @file hom.h
 * Collectives inside a vendor's cluster left to the vendor's library (homColl of HetCCL,
 * Peking/BAAI, sections 3.3 and 4.2), while our program carries what crosses borders.
 *
 * Of a program at stage level, the stages in which data pass between different devices are the
 * middle; those before it are the start, those after it the end. Ranks that start or end together
 * are a cluster. What a start or an end does to the cluster's memory is found by running the
 * program untimed, and said as calls of a library; then its steps can be left out of the program.
 */
#ifndef CCL_RUNTIME_HOM_H
#define CCL_RUNTIME_HOM_H

#include "runtime/job.h"
#include "runtime/hom/library.h"

enum { CCL_I_HOM_START, CCL_I_HOM_END, CCL_I_HOM_PARTS };
#define CCL_I_NOWHERE UINT64_MAX

/** What a part leaves in a place that is read later or is a result: the sum of other places. */
typedef struct ccl_i_hom_move {
    uint32_t place;
    uint32_t first_leaf, nleaves; /* places before the part; one: a copy */
} ccl_i_hom_move_t;

/** Elements of all ranks' memory, each once, and what the parts do to them (hom_flow.c). */
typedef struct ccl_i_hom_flow {
    uint32_t nplaces;
    uint32_t *first;      /* [nranks + 1] into places: by rank, ascending in memory */
    uint32_t *rank;       /* [nplaces] */
    uint64_t *at, *items; /* [nplaces] first item from the rank's memory; how many */
    ccl_i_hom_move_t *moves[CCL_I_HOM_PARTS];
    uint32_t nmoves[CCL_I_HOM_PARTS];
    uint32_t *leaves;
    size_t nleaves;
} ccl_i_hom_flow_t;

/** A call of a library by all ranks of a cluster (SENDRECV: by two, or one with itself). */
typedef struct ccl_i_hom_call {
    ccl_run_call_t call;
    uint32_t root, peer; /* positions in the cluster; peer: who receives of SENDRECV */
    uint64_t items;      /* the count, as nccl.h has it */
    uint64_t *from, *to; /* [nranks] first item in a rank's memory; CCL_I_NOWHERE */
} ccl_i_hom_call_t;

typedef struct ccl_i_hom_part {
    uint32_t nsteps; /* of the program */
    uint32_t ncalls;
    ccl_i_hom_call_t *calls;
    bool by_library;
    char why[160]; /* not by a library; "" */
} ccl_i_hom_part_t;

typedef struct ccl_i_hom_cluster {
    uint32_t nranks;
    uint32_t *ranks; /* ascending */
    const char *kind;
    char version[24]; /* of the library: "nccl 2.18.5"; "": none */
    ccl_i_hom_part_t part[CCL_I_HOM_PARTS];
} ccl_i_hom_cluster_t;

typedef struct ccl_i_hom {
    uint32_t nclusters;
    ccl_i_hom_cluster_t *clusters;      /* by lowest rank */
    uint32_t *of, *local;               /* [nranks] cluster, position in it */
    uint16_t first_middle, last_middle; /* stages */
    ccl_i_hom_flow_t flow;
    /* without what libraries do: */
    ccl_program_t program; /* borrows from the whole one */
    ccl_i_run_plan_t plan;
    ccl_arena_t arena;
} ccl_i_hom_t;

/** Part of a stage: start, end, or CCL_I_HOM_PARTS for the middle. */
static inline uint32_t ccl_i_hom_part_of(const ccl_i_hom_t *hom, uint32_t stage) {
    return stage < hom->first_middle  ? CCL_I_HOM_START
           : stage > hom->last_middle ? CCL_I_HOM_END
                                      : CCL_I_HOM_PARTS;
}

/**
 * Clusters of a program, and their starts and ends as calls of a library.
 *
 * @param plan   of the program at stage level.
 * @param kinds  [nranks] device of every rank.
 * @param out    finish with ccl_i_hom_fini(). A part that cannot be said as calls has a `why`.
 * @retval CCL_UNSUPPORTED  nothing crosses between vendors, or there is nothing before
 *                              or behind that.
 */
ccl_status_t ccl_i_hom_find(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                            const char *const *kinds, ccl_i_hom_t *out, ccl_error_t *err);
void ccl_i_hom_fini(ccl_i_hom_t *hom);
/** Runs the program untimed, start, middle and end one after the other. */
ccl_status_t ccl_i_hom_flow(const ccl_program_t *program, const ccl_i_run_plan_t *plan,
                            ccl_i_hom_t *hom, ccl_error_t *err);
/** The moves of one cluster's part as few calls. Sets calls, or why there are none. */
ccl_status_t ccl_i_hom_calls(ccl_i_hom_t *hom, uint32_t cluster, uint32_t part, ccl_error_t *err);
/** hom->program: without the parts that are by_library. Its plan is not made. */
ccl_status_t ccl_i_hom_cut(const ccl_program_t *program, ccl_i_hom_t *hom, ccl_error_t *err);

/* ---------------------------------------------------------------- in a job (hom_run.c) */

typedef struct ccl_i_hom_run ccl_i_hom_run_t;

/**
 * Decides with all processes of the job which clusters have a library for which part, reports the
 * result, and has the job run the rest: job->program and job->plan.
 * @param kinds  [processes] device of every process.
 */
ccl_status_t ccl_i_hom_open(ccl_i_job_t *job, const char *const *kinds, ccl_run_result_t *result,
                            ccl_error_t *err);
/** Communicators; the job is open. */
ccl_status_t ccl_i_hom_connect(ccl_i_hom_run_t *run, ccl_error_t *err);
/** Whether a library has something to do in part `k` of the job. */
bool ccl_i_hom_has(const ccl_i_hom_run_t *run, uint32_t k);
/**
 * The first half queues the gate and the starts on the streams of all such parts; the second,
 * behind the kernels, ends, and sets `ready`; `over` comes when a stream has done all.
 */
ccl_status_t ccl_i_hom_launch(ccl_i_hom_run_t *run, uint32_t part, ccl_error_t *err);
/** Times of the last run, by the devices' clocks, into the parts' words. */
ccl_status_t ccl_i_hom_times(ccl_i_hom_run_t *run, ccl_error_t *err);
/** Ends what is queued, wherever the peers are; NULL is fine, and so is doing it again. */
void ccl_i_hom_abort(ccl_i_hom_run_t *run);
/**
 * After a run that was stopped, by all processes: CCL_ERR_IO if a library was not done, CCL_OK if
 * it was our program.
 */
ccl_status_t ccl_i_hom_hung(const ccl_i_hom_run_t *run, ccl_error_t *err);
/** Before the devices close. */
void ccl_i_hom_disconnect(ccl_i_hom_run_t *run);
/** Frees it, last of all, as job->program and job->plan go with it; NULL is fine. */
void ccl_i_hom_close(ccl_i_hom_run_t *run);

#endif
