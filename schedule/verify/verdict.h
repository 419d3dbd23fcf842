/**
 * @file verdict.h
 * The verifier and the deadlock check. They share no code with the synthesizers, nor with what
 * builds schedules and programs.
 */
#ifndef CCL_SCHEDULE_VERDICT_H
#define CCL_SCHEDULE_VERDICT_H

#include "schedule/program.h"
#include "schedule/transfers.h"

CCL_BEGIN_DECLS

/** What an executor's fixed arrays hold; UINT32_MAX: no limit. */
typedef struct ccl_executor_limits {
    const char *name;         /**< "msccl"; "" for CCL_EXECUTOR_ANY */
    uint32_t steps;           /**< of a block, nops included */
    uint32_t tbs;             /**< blocks of a rank */
    uint32_t channels;        /**< of the program */
    uint32_t count;           /**< chunks of a step */
    uint32_t tbs_per_channel; /**< blocks of a rank that send (that receive) on one channel */
} ccl_executor_limits_t;
/** Static. @par Source MSCCL's parser as RCCL and msccl-executor-nccl carry it. */
const ccl_executor_limits_t *ccl_executor_limits(ccl_executor_t executor);

typedef struct ccl_verify_options {
    size_t size;
    ccl_executor_t executor; /**< also check this executor's limits */
    ccl_granularity_t granularity;
    uint32_t slots;     /**< FIFO depth; 0: by protocol, Simple 2, LL and LL128 8 */
    uint32_t batches;   /**< micro-batches for the deadlock check; 0: 4 */
    bool skip_deadlock; /**< leave the deadlock check to the simulator, which knows the FIFOs */
    bool limits_only;   /**< structure and the executor's limits, nothing else */
} ccl_verify_options_t;
/** The defaults. */
#define CCL_VERIFY_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(ccl_verify_options_t), CCL_EXECUTOR_ANY, CCL_GRANULARITY_ALGORITHM, 0, 0, false,    \
            false                                                                                  \
    }

/** Shares that differ by less, relatively, are one size: they come from decimals and quotients. */
#define CCL_SHARE_TOLERANCE 1e-9

/** The first fault found. Fields that do not apply are CCL_NONE. */
typedef struct ccl_fault {
    const char
        *kind; /**< static: "missing", "twice", "mixed", "unread", "race", "mismatch", "alias",
                    "deadlock", "range", "limit", "order", ... docs/formats.md lists them */
    uint32_t rank, tb, step, chunk;
    char text[640];
    uint32_t slots;       /**< of a deadlock: the FIFO depth of the check; else 0, or no limit */
    uint32_t least_slots; /**< least depth with which it finishes; 0: it deadlocks at any */
} ccl_fault_t;

#define CCL_MAX_WARNINGS 8
typedef struct ccl_verdict {
    bool valid;
    ccl_fault_t fault; /**< when not valid */
    uint32_t nwarnings;
    char warnings[CCL_MAX_WARNINGS][256];
} ccl_verdict_t;

/**
 * What a program must be so that it can run at all, whatever its data become: elements, peers and
 * awaited steps that exist, one block at each end of a connection, sends and receives that match, a
 * place for every chunk at each rank that must have it, of one size wherever the chunk is. The
 * first part of ccl_program_verify, and asked before every run: what one refuses the other refuses
 * with the same fault.
 * @return CCL_OK when the verdict is known, valid or not.
 * @retval CCL_UNSUPPORTED  more elements than are verified or run.
 */
ccl_status_t ccl_program_check(const ccl_program_t *program, ccl_granularity_t granularity,
                               ccl_verdict_t *out, ccl_error_t *err);
/**
 * Execute a schedule symbolically: sources hold what they send, every reduction holds each
 * contribution exactly once, every destination ends with its chunks.
 * @return CCL_OK when the verdict is known, valid or not.
 */
ccl_status_t ccl_schedule_verify(const ccl_ctx_t *ctx, const ccl_schedule_t *schedule,
                                 ccl_verdict_t *out, ccl_error_t *err);
/** uint32_t that ccl_schedule_moves_right() wants of `room`. */
size_t ccl_schedule_moves_room(const ccl_schedule_t *schedule);
/**
 * The same quickly, and without memory of its own, for schedules that only copy: chunks of one
 * source that is not reduced, no transfer through a switch, at most 96 ranks that hold a chunk.
 * @param room  [ccl_schedule_moves_room()]
 * @return true: ccl_schedule_verify() finds it valid, without a warning. false: it is wrong, or not
 * of this kind; ccl_schedule_verify() says which.
 */
bool ccl_schedule_moves_right(const ccl_schedule_t *schedule, uint32_t *room);
/** The same for a program, with races, FIFO matching, aliasing, deadlock (docs/formats.md
 * "Verifier"). */
ccl_status_t ccl_program_verify(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                const ccl_verify_options_t *options, ccl_verdict_t *out,
                                ccl_error_t *err);

/** How a run blocks; times do not matter (a network of FIFOs is determinate). */
typedef struct ccl_blocking {
    ccl_granularity_t granularity;
    uint32_t batches;           /**< >= 1 */
    const uint32_t *step_slots; /**< [nsteps] depth of the connection that a sending step uses;
                                     NULL: slots */
    uint32_t slots;
    const uint32_t *step_slices; /**< [nsteps] slices of a sending or receiving step; NULL: 1 */
} ccl_blocking_t;

typedef enum ccl_wait { CCL_WAIT_DATA, CCL_WAIT_SLOT, CCL_WAIT_DEP, CCL_WAIT_STAGE } ccl_wait_t;
/** One block of a cycle of blocks that wait for each other. */
typedef struct ccl_deadlock_wait {
    uint32_t rank, tb, step, batch, slice;
    ccl_wait_t wait;
    uint32_t on_rank, on_tb; /**< whom it waits for; CCL_NONE: nobody ever does it */
} ccl_deadlock_wait_t;
/** On what a deadlock depends. Without pointers: results pass between processes. */
typedef struct ccl_deadlock_cause {
    bool known;           /**< it was looked for; else the rest is 0 */
    char transport[32];   /**< whose FIFOs: a kind of link; "": all of the program */
    char protocol[16];    /**< whose `slots` those are; "": the transport's own, or the default */
    char from[160];       /**< what gives `slots`: slots_from of the transport, "library NAME" of an
                               entry; "": the default */
    uint32_t slots;       /**< depth of these FIFOs, in slices */
    double slice_bytes;   /**< most bytes of a slice; 0: no limit, or not known */
    uint32_t least_slots; /**< least depth of these with which the program finishes in as many
                               micro-batches; 0: it deadlocks at any depth */
    uint32_t batches;     /**< micro-batches with which it finishes as the FIFOs are: the least, at
                               task level the most; 0: none, or not looked for */
} ccl_deadlock_cause_t;
typedef struct ccl_deadlock {
    uint32_t nwaits;               /**< length of the cycle; 0: no deadlock */
    uint32_t stuck;                /**< blocks that cannot finish */
    ccl_deadlock_wait_t waits[64]; /**< first 64 of the cycle */
    ccl_deadlock_cause_t cause;    /**< of callers that look for it */
} ccl_deadlock_t;
/**
 * Run a program untimed and find whether it finishes. At algorithm and stage level one micro-batch
 * decides for all (a run that ends with empty FIFOs can be repeated, and FIFO networks are
 * determinate); at task level all batches are run.
 */
ccl_status_t ccl_program_deadlock(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                  const ccl_blocking_t *blocking, ccl_deadlock_t *out,
                                  ccl_error_t *err);
/**
 * The least depth of FIFOs with which a program finishes (deeper ones never hinder it), by trying.
 *
 * @param deepen  [nsteps] the sending steps whose FIFOs grow; NULL: all.
 * @param out     0: not even without a limit. At least what the shallowest of these has now.
 */
ccl_status_t ccl_program_least_slots(const ccl_ctx_t *ctx, const ccl_program_t *program,
                                     const ccl_blocking_t *blocking, const uint8_t *deepen,
                                     uint32_t *out, ccl_error_t *err);
const char *ccl_wait_name(ccl_wait_t wait); /**< "data", "slot", "dependency", "stage" */

CCL_END_DECLS
#endif
