/*
 * Private to synth: a function in a child process with a hard time limit. Solvers (GLPK, Z3)
 * overrun their own limits, keep global state and may end their process; a child can always be
 * killed.
 */
#ifndef CCL_SYNTH_SOLVER_CHILD_H
#define CCL_SYNTH_SOLVER_CHILD_H

#include "synth/synth.h"

/** The child's way back to its parent. */
typedef struct ccl_i_solver_pipe ccl_i_solver_pipe_t;

/**
 * Hand an answer to the parent. Only the last complete one counts, so that what is found on the way
 * survives the limit. Flat bytes: pointers mean nothing in the other process.
 * @return false when the parent no longer listens; then the function should return.
 */
bool ccl_i_solver_put(ccl_i_solver_pipe_t *pipe, const void *data, size_t len);
/** What the parent's progress callback shall see: `done` and `total` of its phase. */
bool ccl_i_solver_tell(ccl_i_solver_pipe_t *pipe, uint64_t done, uint64_t total);

/**
 * Runs in the child, on a copy of the parent's memory, in its only thread. Output to stdout goes
 * nowhere. It must not take locks that another thread may have held at the fork.
 */
typedef ccl_status_t (*ccl_i_solver_fn)(ccl_i_solver_pipe_t *pipe, void *user, ccl_error_t *err);

typedef struct ccl_i_solver_limits {
    double time_s;       /**< wall time; 0: none */
    double memory_bytes; /**< of address space beyond what there is at the fork; 0: none. Not
                              under sanitizers, which need terabytes of it */
    const char *phase;   /**< for progress; static */
} ccl_i_solver_limits_t;

typedef struct ccl_i_solver_answer {
    void *data; /**< last answer, malloc'ed, caller frees; NULL: none */
    size_t len;
    bool limited; /**< stopped at the time limit */
    double wall_s;
} ccl_i_solver_answer_t;

/**
 * Run fn(user) in a child and wait for it. Several threads may do so at a time.
 *
 * @param out  filled whatever the return value: at the limit and when interrupted it holds the last
 *             answer put.
 * @retval CCL_OK               the function returned CCL_OK, or the limit was reached (`limited`).
 * @retval CCL_INTERRUPTED      ctx asks to stop; the child is gone.
 * @retval CCL_ERR_IO           no process could be started.
 * @retval CCL_ERR_INTERNAL     the child died of itself (a solver's abort, lack of memory).
 * @return else what fn returned, with its error text.
 */
ccl_status_t ccl_i_solver_run(const ccl_ctx_t *ctx, const ccl_i_solver_limits_t *limits,
                              ccl_i_solver_fn fn, void *user, ccl_i_solver_answer_t *out,
                              ccl_error_t *err);

#endif
