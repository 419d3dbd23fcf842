/**
 * @file measured.h
 * Collects measured runs while a file is read; private to validate.
 */
#ifndef CCL_VALIDATE_MEASURED_H
#define CCL_VALIDATE_MEASURED_H

#include "validate/validate.h"
#include "base/json.h"

/** Bounds on what a file may hold. */
#define CCL_I_MAX_LOG_BYTES ((size_t)256 << 20)
#define CCL_I_MAX_RUNS 65536u
#define CCL_I_MAX_RANKS ((uint32_t)1 << 20)

/** A run that grows. */
typedef struct ccl_i_log_run {
    ccl_measured_run_t about;
    ccl_measurement_t *points;
    size_t npoints, cap;
} ccl_i_log_run_t;

typedef struct ccl_i_measured {
    const char *name; /**< of the file */
    ccl_arena_t arena;
    ccl_i_log_run_t *runs;
    size_t nruns, cap;
    ccl_strmap_t *keys; /**< of runs told apart by columns */
    uint32_t nskipped, first_skipped;
    bool nomem;
} ccl_i_measured_t;

void ccl_i_measured_init(ccl_i_measured_t *m, const char *name);
void ccl_i_measured_fini(ccl_i_measured_t *m);
/** A new run; NULL when there are too many or no memory (m->nomem). */
ccl_i_log_run_t *ccl_i_measured_add(ccl_i_measured_t *m, uint32_t line);
/** The run of that key, made where there is none; NULL as above. */
ccl_i_log_run_t *ccl_i_measured_key(ccl_i_measured_t *m, const char *key, uint32_t line);
void ccl_i_measured_point(ccl_i_measured_t *m, ccl_i_log_run_t *run, ccl_measurement_t point);
const char *ccl_i_measured_text(ccl_i_measured_t *m, const char *text, size_t len);
/** Names as nccl-tests and others write them, "alltoall_perf", "all_reduce". */
bool ccl_i_collective_named(const char *text, size_t len, ccl_collective_kind_t *out);
/** Freeze; runs without points go. Takes what m holds. */
ccl_status_t ccl_i_measured_finish(ccl_i_measured_t *m, ccl_measured_log_t **out, ccl_error_t *err);

/* Readers of one form each, from text of `len` bytes. */
ccl_status_t ccl_i_read_nccl_tests(ccl_i_measured_t *m, const char *text, size_t len,
                                   ccl_error_t *err);
ccl_status_t ccl_i_read_csv(ccl_i_measured_t *m, const char *text, size_t len, ccl_error_t *err);
ccl_status_t ccl_i_read_json_lines(ccl_i_measured_t *m, const char *text, size_t len,
                                   ccl_error_t *err);

ccl_status_t ccl_i_read_kineto(ccl_i_measured_t *m, const char *text, size_t len, ccl_error_t *err);
/** Is this text a trace of PyTorch's profiler? */
bool ccl_i_kineto_is(const char *text, size_t len);

/** A call that NCCL's Inspector or PyTorch's profiler wrote. */
typedef struct ccl_i_call {
    size_t run;                         /**< place in the list of runs */
    double size_bytes, number, time_us; /**< calls of one number are one call, of several ranks */
    uint32_t line;
} ccl_i_call_t;
/** Calls, until ccl_i_inspector_finish(). */
typedef struct ccl_i_inspector {
    ccl_i_call_t *items;
    size_t n, cap;
} ccl_i_inspector_t;
#define CCL_I_MAX_CHANNELS 256u
/** One call as one rank saw it; texts are the document's. */
typedef struct ccl_i_inspector_record {
    const char *id;                   /**< of the communicator; "" */
    const char *clock, *algo, *proto; /**< as written; NULL: not given */
    uint32_t rank;                    /**< CCL_NONE: not given */
    uint32_t nranks, nnodes;          /**< nnodes 0: not given */
    ccl_collective_kind_t kind;
    double size_bytes; /**< as nccl-tests counts it; 0: nothing was moved */
    double time_us;    /**< 0: too short for the clock */
    double number;     /**< calls of one number are one call; NAN: not given */
    uint32_t nchannels;
    uint32_t channels[CCL_I_MAX_CHANNELS];  /**< [nchannels], in the order of the file */
    double channels_us[CCL_I_MAX_CHANNELS]; /**< how long their kernels ran */
} ccl_i_inspector_record_t;
/** An object with "coll_perf". @retval CCL_ERR_INPUT  with line and column. */
ccl_status_t ccl_i_inspector_parse(const ccl_json_at_t *root, ccl_i_inspector_record_t *out,
                                   ccl_error_t *err);
/** Is this object of JSON one of the Inspector's? */
bool ccl_i_inspector_is(const json_t *row);
/** One line of it. @retval CCL_ERR_INPUT  with line and column. */
ccl_status_t ccl_i_inspector_row(ccl_i_measured_t *m, ccl_i_inspector_t *calls, const char *text,
                                 size_t len, uint32_t line, ccl_error_t *err);
ccl_status_t ccl_i_inspector_add(ccl_i_inspector_t *calls, ccl_i_call_t call, ccl_error_t *err);
/** All calls become points of their runs, and are freed. */
void ccl_i_inspector_finish(ccl_i_measured_t *m, ccl_i_inspector_t *calls);

/** A number at most `len` bytes long and all of them; finite. */
bool ccl_i_parse_number(const char *text, size_t len, double *out);

#endif
