/**
 * @file watch.h
 * Calls of a running job, as NCCL's Inspector logs them, beside what the model expects: read again
 * and again while the files grow, in bounded memory.
 */
#ifndef CCL_VALIDATE_WATCH_H
#define CCL_VALIDATE_WATCH_H

#include "validate/nccl/nccl.h"

CCL_BEGIN_DECLS

/** Not thread-safe. */
typedef struct ccl_watch ccl_watch_t;

typedef struct ccl_watch_options {
    size_t size;
    const ccl_profile_t *profile; /**< NULL: the topology's own constants; borrowed */
    uint32_t channels;            /**< as in ccl_nccl_setup() */
    bool registered;              /**< as in ccl_predictor_nvls() */
    uint32_t window;              /**< the latest calls of a size that count; 0: CCL_WATCH_WINDOW */
    bool follow; /**< the files still grow: a last line without its end is left for later, and a
                      bad line is reported and skipped; else it is an error */
} ccl_watch_options_t;
#define CCL_WATCH_WINDOW 200
/** The defaults. */
#define CCL_WATCH_OPTIONS_INIT                                                                     \
    { sizeof(ccl_watch_options_t), NULL, 0, false, 0, false }

/**
 * @param topo  the cluster of the job; communicators may be smaller. Borrowed while it lives.
 * @param out   destroy with ccl_watch_destroy().
 */
ccl_status_t ccl_watch_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const ccl_watch_options_t *options, ccl_watch_t **out,
                              ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_watch_destroy(ccl_watch_t *watch);
/**
 * Read what is new. Files that were renamed (as logrotate does) go on under their new name; one
 * that became shorter, or begins otherwise than before, is read from its start.
 *
 * @param path     a file, or a folder: all files in it called NAME.log, .jsonl or .json, perhaps
 *                 with a number behind (.log.1). The same at every call.
 * @param new_out  lines of calls that were read.
 * @retval CCL_ERR_IO     a file or the folder cannot be read; while following, a file that is not
 *                        there (yet) has nothing new.
 * @retval CCL_ERR_INPUT  a bad line, with file, line and column; not while following.
 */
ccl_status_t ccl_watch_read(ccl_watch_t *watch, const char *path, uint64_t *new_out,
                            ccl_error_t *err);

typedef enum ccl_watch_state {
    CCL_WATCH_NORMAL, /**< within CCL_NORMAL_LOW to CCL_NORMAL_HIGH of what is expected */
    CCL_WATCH_SLOW,
    CCL_WATCH_FAST,
    CCL_WATCH_UNKNOWN /**< there is no expectation (yet) */
} ccl_watch_state_t;
const char *ccl_watch_state_name(ccl_watch_state_t state); /**< "slow"; static */

/** One size of a communicator. */
typedef struct ccl_watch_row {
    double size_bytes; /**< as nccl-tests counts it */
    uint64_t calls;    /**< that were seen, of all ranks together */
    double measured_s; /**< median of the latest calls; of a call the least time of its ranks */
    double spread;     /**< relative standard deviation, from quartiles; 0: under four calls */
    double busbw_GBps;
    double expected_s, expected_busbw_GBps; /**< with what NCCL chooses; NaN: unknown */
    double bound_s;                         /**< no schedule is faster; NaN: unknown */
    double ratio;                           /**< expected_s / measured_s; NaN: unknown */
    ccl_nccl_choice_t choice;
    const char *link_kind; /**< of the busiest link of the expected run; "" */
    ccl_watch_state_t state;
    const char *suspect; /**< link, rank or setting that the calls point to, in a line; "" */
} ccl_watch_row_t;
/** One collective of a communicator. */
typedef struct ccl_watch_run {
    const char *id;    /**< of the communicator; "" */
    const char *clock; /**< that times come from; "" for the GPU's */
    ccl_collective_kind_t kind;
    uint32_t nranks, nnodes; /**< nnodes 0: not given */
    const char *verdict;     /**< in a line: the most probable cause where a size is slow */
    double probability;      /**< of that cause, 0..1; NaN: none was looked for */
    uint32_t nrows;
    const ccl_watch_row_t *rows; /**< by size */
} ccl_watch_run_t;
typedef struct ccl_watch_table {
    uint32_t nruns, nslow;       /**< nslow: rows that are slow */
    uint64_t calls, bad;         /**< bad: lines that were skipped */
    const ccl_watch_run_t *runs; /**< by communicator and collective */
    ccl_arena_t arena;
} ccl_watch_table_t;
/**
 * All calls so far beside the model. What was computed for a former table is not computed again.
 *
 * The suspect comes from the calls alone: channels whose kernels run longer than the others', with
 * the links that only they use (NCCL_INSPECTOR_DUMP_VERBOSE=1 logs channels); a rank that spends
 * less time than the others, which wait for it; another algorithm than expected. The verdict's
 * cause is that of ccl_diagnose().
 *
 * @param known  compute nothing: what is not known yet is unknown.
 * @param out    borrows from the topology; destroy with ccl_watch_table_destroy().
 */
ccl_status_t ccl_watch_judge(ccl_watch_t *watch, bool known, ccl_watch_table_t **out,
                             ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_watch_table_destroy(ccl_watch_table_t *table);

CCL_END_DECLS
#endif
