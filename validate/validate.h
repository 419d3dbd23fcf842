/**
 * @file validate.h
 * Measured runs against the model: calibration and validation of the host and of devices, and
 * diagnosis of a log. Readers of logs and fits to them are in fit/fit.h, what NCCL runs in
 * nccl/nccl.h.
 */
#ifndef CCL_VALIDATE_VALIDATE_H
#define CCL_VALIDATE_VALIDATE_H

#include "runtime/runtime.h"
#include "validate/fit/fit.h"
#include "validate/nccl/nccl.h"
#include "validate/thresholds.h"
#include "validate/watch/watch.h"

CCL_BEGIN_DECLS

/* ---------------------------------------------------------------- the host */

/** Passes that cost time: `s r rrc rcs rrs rrcs cpy re`, by ccl_primitive_t. */
#define CCL_HOST_PASSES 8
#define CCL_HOST_MAX_KNOTS 16
/**
 * What the host's workers cost (docs/runtime.md, "Predicting the host"): every pass of a thread
 * block is work that one of a pool of workers does; what it costs per byte depends on how much
 * memory all ranks use together, because of the caches.
 */
typedef struct ccl_host_model {
    uint32_t workers;  /**< of all processes together */
    double overhead_s; /**< work of a pass besides its bytes */
    double latency_s;  /**< from the end of a pass until the slice is seen elsewhere */
    double launch_s;   /**< once per run */
    uint32_t nknots;   /**< 1..CCL_HOST_MAX_KNOTS; footprints between are interpolated in log */
    double footprint_bytes[CCL_HOST_MAX_KNOTS]; /**< ascending: buffers of all ranks */
    double pool[CCL_HOST_MAX_KNOTS];            /**< passes that really run at a time */
    double s_per_byte[CCL_HOST_PASSES][CCL_HOST_MAX_KNOTS];
    double across_s; /**< further work of a slice that goes to another process; 0: there is one */
    double across_s_per_byte[CCL_HOST_MAX_KNOTS];
} ccl_host_model_t;

/** Bytes of the buffers of all ranks in a run as the runtime lays it out. */
double ccl_host_footprint(const ccl_program_t *program, const ccl_run_options_t *options);
/** Micro-batches that the runtime takes by default. */
uint32_t ccl_host_batches(const ccl_program_t *program, const ccl_run_options_t *options);
/**
 * The program whose simulation on ccl_host_topology() is the run on the host: the same blocks,
 * steps and dependencies, but every slice is a flow of as many bytes as its passes are nanoseconds
 * of work, through one link that moves a byte per nanosecond and worker. Local steps become sends
 * to one more rank.
 *
 * @param batches, slices_out  of the run.
 * @param out  destroy with ccl_program_destroy().
 */
ccl_status_t ccl_host_program(const ccl_program_t *program, const ccl_run_options_t *options,
                              const ccl_host_model_t *model, uint32_t batches, uint32_t *slices_out,
                              ccl_program_t **out, ccl_error_t *err);
/** The pool of workers as a cluster of nranks + 1 GPUs. @param slots, slices  of the run. */
ccl_status_t ccl_host_topology(uint32_t nranks, const ccl_host_model_t *model,
                               double footprint_bytes, uint32_t slots, uint32_t slices,
                               ccl_topology_t **out, ccl_error_t *err);
/** Time of a run on the host, by simulation. */
ccl_status_t ccl_host_predict(const ccl_ctx_t *ctx, const ccl_program_t *program,
                              const ccl_run_options_t *options, const ccl_host_model_t *model,
                              double *time_s_out, ccl_error_t *err);
/** Member "host" of a profile. @retval CCL_ERR_INPUT  the profile is not of a host. */
ccl_status_t ccl_host_model_read(const char *path, ccl_host_model_t *out,
                                 ccl_run_options_t *options_out, ccl_error_t *err);

/** Measures one program: n_out times. NULL stands for ccl_run_program(). */
typedef ccl_status_t (*ccl_host_measure_fn)(const ccl_program_t *program,
                                            const ccl_run_options_t *options, double *time_s,
                                            void *user, ccl_error_t *err);

/** Programs to calibrate with; none of them is in a suite (ccl_host_is_calibration()). */
typedef enum ccl_host_micro {
    CCL_HOST_MICRO_PAIRS,        /**< every rank sends to the next: s, r */
    CCL_HOST_MICRO_FANOUT,       /**< ... the same element five times: r alone misses the cache */
    CCL_HOST_MICRO_FORWARD,      /**< data go five ranks on: rcs */
    CCL_HOST_MICRO_REDUCE,       /**< ... and are reduced on the way: rrs, rrc */
    CCL_HOST_MICRO_REDUCE_PAIRS, /**< every rank reduces into the next: rrc */
    CCL_HOST_MICRO_REDUCE_COPY,  /**< ... reduced and kept: rrcs */
    CCL_HOST_MICRO_COPY,         /**< cpy on every rank */
    CCL_HOST_MICRO_LOCAL_REDUCE, /**< re on every rank */
    CCL_HOST_MICRO_ONE,          /**< cpy on one rank only: a block runs on one worker */
    CCL_HOST_MICRO_ACROSS,       /**< every rank sends half around, to another process */
    CCL_HOST_MICRO_PING,         /**< the first and the last rank in turn, 32 times */
    CCL_HOST_MICRO_STREAM,       /**< one connection, 64 sends back to back */
    CCL_HOST_MICRO_EMPTY         /**< one nop */
} ccl_host_micro_t;
#define CCL_HOST_MICROS 13
const char *ccl_host_micro_name(ccl_host_micro_t micro); /**< "pairs"; static */
/** @param nranks  at least 2. */
ccl_status_t ccl_host_micro(ccl_host_micro_t micro, uint32_t nranks, ccl_program_t **out,
                            ccl_error_t *err);
/**
 * 64 slices from one rank to another by nblocks blocks a side: contention is measured with it.
 * @param nblocks  a divisor of 64.
 */
ccl_status_t ccl_host_blocks_program(uint32_t nblocks, ccl_program_t **out, ccl_error_t *err);
/** Whether a program is one of these, whatever its name. */
ccl_status_t ccl_host_is_calibration(const ccl_program_t *program, bool *out, ccl_error_t *err);

typedef struct ccl_host_calibrate_options {
    size_t size;
    ccl_run_options_t run;       /**< type, ranks, transport, threads */
    uint32_t rounds;             /**< interleaved repeats; 0: 9 */
    const double *footprints;    /**< ascending; NULL: 256K to 64M by 4 */
    uint32_t nfootprints;        /**< at most CCL_HOST_MAX_KNOTS */
    ccl_host_measure_fn measure; /**< NULL: ccl_run_program() */
    void *measure_user;
    const char *name, *machine, *date, *command; /**< for the profile; NULL: "" */
} ccl_host_calibrate_options_t;
/** The defaults. */
#define CCL_HOST_CALIBRATE_OPTIONS_INIT                                                            \
    {                                                                                              \
        sizeof(ccl_host_calibrate_options_t), CCL_RUN_OPTIONS_INIT, 0, NULL, 0, NULL, NULL, NULL,  \
            NULL, NULL, NULL                                                                       \
    }
typedef struct ccl_host_calibration {
    ccl_host_model_t model;
    uint32_t nconstants, npoints;
    const ccl_constant_t *constants;
    double r2, median_error, worst_error; /**< of the fit, on the calibration programs */
    double contention; /**< kappa of blocks that share a connection; for the cluster host:N */
    char *profile;     /**< JSON, "ccllab-profile-1" */
    ccl_arena_t arena;
} ccl_host_calibration_t;
/**
 * Run the calibration programs, interleaved, and fit the host's constants to the least times.
 * @param out  destroy with ccl_host_calibration_destroy().
 */
ccl_status_t ccl_host_calibrate(const ccl_ctx_t *ctx, const ccl_host_calibrate_options_t *options,
                                ccl_host_calibration_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_host_calibration_destroy(ccl_host_calibration_t *calibration);

/* ---------------------------------------------------------------- devices */

/** Constants of a device between two ranks, as the model has them. */
typedef struct ccl_gpu_constants {
    double launch_s; /**< from the common start of the blocks to the end of one that does nothing */
    double overhead_s;  /**< of a primitive, per slice */
    double latency_s;   /**< from a slice written to a slice seen */
    double tb_rate_Bps; /**< of one thread block */
    double link_Bps;    /**< of all blocks between two ranks */
    double contention;  /**< slope kappa of that link */
    double copy_Bps;    /**< local copies of one block */
    double reduce_Bps[CCL_TYPES];
} ccl_gpu_constants_t;
/** Programs to calibrate devices with, besides `ping`, `stream`, `empty` of the host's. */
typedef enum ccl_gpu_micro {
    CCL_GPU_MICRO_LANES, /**< blocks of rank 0 send to as many of rank 1, all at a time */
    CCL_GPU_MICRO_COPY,  /**< one block copies half of its buffer to the other half */
    CCL_GPU_MICRO_REDUCE /**< ... or reduces it there */
} ccl_gpu_micro_t;
/** @param lanes  elements of a buffer: blocks of LANES; 2 of COPY and REDUCE. */
ccl_status_t ccl_gpu_micro(ccl_gpu_micro_t micro, uint32_t lanes, ccl_program_t **out,
                           ccl_error_t *err);
typedef struct ccl_gpu_calibrate_options {
    size_t size;
    ccl_run_options_t run;       /**< device, kernel, ranks; the reduction */
    uint32_t rounds;             /**< interleaved repeats; 0: 5 */
    uint32_t most_lanes;         /**< 0: 64, or as many as the device holds at once */
    double lane_bytes;           /**< of the larger runs of LANES; 0: 1 MiB */
    ccl_host_measure_fn measure; /**< NULL: ccl_run_program() */
    void *measure_user;
    const char *name, *machine, *model, *link, *date, *command; /**< for the profile; NULL: "".
                                     Model and link kind: those that the constants are laid over */
} ccl_gpu_calibrate_options_t;
/** The defaults. */
#define CCL_GPU_CALIBRATE_OPTIONS_INIT                                                             \
    {                                                                                              \
        sizeof(ccl_gpu_calibrate_options_t), CCL_RUN_OPTIONS_INIT, 0, 0, 0, NULL, NULL, NULL,      \
            NULL, NULL, NULL, NULL, NULL                                                           \
    }
typedef struct ccl_gpu_calibration {
    ccl_gpu_constants_t model;
    uint32_t nconstants, npoints, lanes; /**< lanes: most that were run */
    const ccl_constant_t *constants;
    double r2, median_error, worst_error; /**< of the fit, on the calibration programs */
    char *profile;                        /**< JSON, "ccllab-profile-1" */
    ccl_arena_t arena;
} ccl_gpu_calibration_t;
/** Time of a calibration program by the model. @param bytes  of a lane. */
double ccl_gpu_lanes_s(const ccl_gpu_constants_t *c, uint32_t lanes, double bytes,
                       double slice_bytes);
/**
 * Run small programs on a device (any: `host` too), interleaved, and fit its constants to the least
 * times, robustly, with 95 % intervals.
 * @param out  destroy with ccl_gpu_calibration_destroy().
 * @retval CCL_ERR_MISSING  the device is not there.
 */
ccl_status_t ccl_gpu_calibrate(const ccl_ctx_t *ctx, const ccl_gpu_calibrate_options_t *options,
                               ccl_gpu_calibration_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_gpu_calibration_destroy(ccl_gpu_calibration_t *calibration);

/** A calibrated device as its profile has it (member "device"). */
typedef struct ccl_gpu_machine {
    ccl_gpu_constants_t constants;
    ccl_run_options_t run; /**< how it was calibrated; `device` is `kind` */
    char kind[16];         /**< "cuda" */
    uint32_t devices;      /**< 1: both ranks on one device, and what they moved in its memory */
} ccl_gpu_machine_t;
/**
 * @param out  not to be moved: its run options point into it.
 * @retval CCL_ERR_INPUT  the profile is not of a device.
 */
ccl_status_t ccl_gpu_machine_read(const char *path, ccl_gpu_machine_t *out, ccl_error_t *err);
/**
 * The machine as a cluster. One device: all that its ranks send crosses one link, the device's
 * memory. Several: a switch, a rank on each.
 * @param slots, slice_bytes  of the run.
 * @param step_bytes          that a primitive moves at a time: further slices cost overhead too.
 * @retval CCL_ERR_MISSING  more ranks than devices, of which there are several.
 */
ccl_status_t ccl_gpu_topology(const ccl_gpu_machine_t *machine, uint32_t nranks, uint32_t slots,
                              double slice_bytes, double step_bytes, ccl_topology_t **out,
                              ccl_error_t *err);
/** Time of a run on it, by simulation. */
ccl_status_t ccl_gpu_predict(const ccl_ctx_t *ctx, const ccl_program_t *program,
                             const ccl_run_options_t *options, const ccl_gpu_machine_t *machine,
                             double *time_s_out, ccl_error_t *err);

/* ---------------------------------------------------------------- validation */

/** A run to predict and measure. */
typedef struct ccl_validate_case {
    const char *collective, *schedule; /**< "allreduce", "ring" */
    const ccl_program_t *program;
    ccl_granularity_t granularity;
} ccl_validate_case_t;
typedef struct ccl_validate_point {
    uint32_t at; /**< case */
    double size_bytes;
    double predicted_s, min_s, median_s, spread; /**< spread: (median - least) / least */
    double error, error_median;                  /**< predicted / measured - 1 */
} ccl_validate_point_t;
typedef struct ccl_validation {
    uint32_t npoints, repeats;
    ccl_validate_point_t *points;                /**< case by case, size by size */
    double median_error, p90_error, worst_error; /**< of |error| */
    double median_error_median;                  /**< of |error_median| */
    double tau; /**< Kendall's, over pairs of schedules of one collective, ranks and size, also
                     those that are as good as equal; NaN: there is none */
    uint32_t nrivals; /**< these pairs */
    uint32_t npairs;  /**< of them, those that differ by more than 10 % as measured */
    uint32_t nranked; /**< ... and are ranked right */
    ccl_arena_t arena;
} ccl_validation_t;
typedef struct ccl_validate_options {
    size_t size;
    ccl_run_options_t run;
    uint32_t repeats; /**< 0: 9 */
    const char *keep; /**< file of finished measurements, read and added to; NULL: none */
    ccl_host_measure_fn measure;
    void *measure_user;
    ccl_host_measure_fn predict; /**< in place of the host's model, which may be NULL then */
    void *predict_user;
    const char *setting; /**< measurements that are kept are of this setting; NULL: the host */
} ccl_validate_options_t;
/** The defaults. */
#define CCL_VALIDATE_OPTIONS_INIT                                                                  \
    { sizeof(ccl_validate_options_t), CCL_RUN_OPTIONS_INIT, 0, NULL, NULL, NULL, NULL, NULL, NULL }
/**
 * Predicted beside measured: every case at every size, repeats interleaved.
 * @param out  destroy with ccl_validation_destroy().
 * @retval CCL_ERR_INPUT  a case is a program that profiles are fitted to.
 */
ccl_status_t ccl_validate_host(const ccl_ctx_t *ctx, const ccl_host_model_t *model,
                               const ccl_validate_case_t *cases, uint32_t ncases,
                               const double *sizes_bytes, uint32_t nsizes,
                               const ccl_validate_options_t *options, ccl_validation_t **out,
                               ccl_error_t *err);
/** ccl_validate_host() on a calibrated device. The options' run is the machine's, unless `device`
 * is set in it. */
ccl_status_t ccl_validate_gpu(const ccl_ctx_t *ctx, const ccl_gpu_machine_t *machine,
                              const ccl_validate_case_t *cases, uint32_t ncases,
                              const double *sizes_bytes, uint32_t nsizes,
                              const ccl_validate_options_t *options, ccl_validation_t **out,
                              ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_validation_destroy(ccl_validation_t *validation);

/** Programs of a suite; own them. */
typedef struct ccl_suite {
    uint32_t ncases;
    ccl_validate_case_t *cases;
    ccl_arena_t arena;
} ccl_suite_t;
/**
 * "default", or a file: a line is `collective synthesizer ranks [channels]` or the path of a
 * program; `#` begins a comment.
 * @param out  destroy with ccl_suite_destroy().
 */
ccl_status_t ccl_suite_read(const ccl_ctx_t *ctx, const char *spec, ccl_suite_t **out,
                            ccl_error_t *err);
/** The same for a cluster: schedules are made for it, and all must have its number of ranks. */
ccl_status_t ccl_suite_read_on(const ccl_ctx_t *ctx, const char *spec, const ccl_topology_t *topo,
                               ccl_suite_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_suite_destroy(ccl_suite_t *suite);

/* ---------------------------------------------------------------- testbeds */

typedef struct ccl_testbed_calibration {
    ccl_testbed_constants_t values;
    uint32_t nconstants, npoints;
    const ccl_constant_t *constants;
    double median_error, worst_error; /**< of the fit, on the calibration programs */
    ccl_arena_t arena;
} ccl_testbed_calibration_t;
/**
 * Run calibration programs (ccl_host_is_calibration()) in the testbed, interleaved, and fit the
 * constants to the least times, through the simulator.
 * @param rounds  repeats of each; 0: 5.  @param measure  NULL: ccl_testbed_run() and, within a
 *                server, ccl_run_program(). The testbed may be NULL then.
 * @param out  destroy with ccl_testbed_calibration_destroy().
 */
ccl_status_t ccl_testbed_calibrate(const ccl_ctx_t *ctx, const ccl_testbed_plan_t *plan,
                                   const ccl_testbed_t *testbed, const ccl_run_options_t *run,
                                   uint32_t rounds, ccl_host_measure_fn measure, void *user,
                                   ccl_testbed_calibration_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_testbed_calibration_destroy(ccl_testbed_calibration_t *calibration);
/**
 * Time of a run in a testbed: the simulation on its topology, less the head start that full token
 * buckets give, but not less than the simulation without limits of the NICs.
 * @param topo  ccl_testbed_topology(), or one like it.
 */
ccl_status_t ccl_testbed_predict(const ccl_ctx_t *ctx, const ccl_testbed_plan_t *plan,
                                 const ccl_topology_t *topo, const ccl_program_t *program,
                                 const ccl_run_options_t *options, double *time_s_out,
                                 ccl_error_t *err);
/** ccl_validate_host() in a testbed. @param topo  as for ccl_testbed_predict(). */
ccl_status_t ccl_validate_testbed(const ccl_ctx_t *ctx, const ccl_testbed_t *testbed,
                                  const ccl_topology_t *topo, const ccl_validate_case_t *cases,
                                  uint32_t ncases, const double *sizes_bytes, uint32_t nsizes,
                                  const ccl_validate_options_t *options, ccl_validation_t **out,
                                  ccl_error_t *err);

/* ---------------------------------------------------------------- diagnosis */

typedef enum ccl_limit {
    CCL_LIMIT_LINK,   /**< a link is busy most of the time */
    CCL_LIMIT_BLOCK,  /**< thread blocks are */
    CCL_LIMIT_LATENCY /**< launch and hops */
} ccl_limit_t;
const char *ccl_limit_name(ccl_limit_t limit); /**< "link"; static */

/** Measured over expected bandwidth within which a run is taken for normal. */
#define CCL_NORMAL_LOW 0.8
#define CCL_NORMAL_HIGH 1.25

/** One size of a log beside the model. */
typedef struct ccl_diagnosis {
    double size_bytes, measured_s, measured_busbw_GBps;
    ccl_prediction_t expected; /**< what NCCL chooses */
    ccl_prediction_t best;     /**< fastest of ring and tree with any protocol */
    double ratio;              /**< measured over expected bandwidth */
    ccl_limit_t limit;         /**< of the expected run */
    bool normal;
    const char *verdict; /**< one line */
} ccl_diagnosis_t;
/** What may be behind the times of a run. */
typedef enum ccl_cause_kind {
    CCL_CAUSE_HEALTHY,
    CCL_CAUSE_RAILS,   /**< NICs of every server do nothing */
    CCL_CAUSE_NETWORK, /**< it gives less bandwidth */
    CCL_CAUSE_LINK,    /**< links inside servers do */
    CCL_CAUSE_DETOUR,  /**< data take PCIe or shared memory instead */
    CCL_CAUSE_BLOCKS,  /**< thread blocks are slow, or few */
    CCL_CAUSE_LAUNCH,  /**< every call costs the same more */
    CCL_CAUSE_LATENCY, /**< launch and hops take longer */
    CCL_CAUSE_NO_NVLS, /**< NVLS should have been taken and was not */
    CCL_CAUSE_SETTING, /**< another algorithm or protocol than NCCL would choose */
    CCL_CAUSE_FASTER,  /**< the cluster is faster than described */
    CCL_CAUSE_UNKNOWN  /**< none of these */
} ccl_cause_kind_t;
const char *ccl_cause_name(ccl_cause_kind_t kind); /**< "rails"; static */
typedef struct ccl_cause {
    ccl_cause_kind_t kind;
    double probability;   /**< among all causes, 0..1 */
    const char *claim;    /**< "half of the rails idle (4 of 8 NICs a server)" */
    const char *evidence; /**< one line */
    const char *next; /**< a measurement or setting that separates it from the others, one line */
} ccl_cause_t;

typedef struct ccl_diagnosis_run {
    const ccl_measured_run_t *run; /**< borrowed from the log */
    ccl_nccl_setup_t setup;
    bool in_place;
    uint32_t npoints;
    const ccl_diagnosis_t *points;
    const char *verdict; /**< one sentence; "": there is no point */
    uint32_t ncauses;
    const ccl_cause_t *causes; /**< from 0.01 on, the most probable first */
    ccl_arena_t arena;
} ccl_diagnosis_run_t;
/**
 * Measured bandwidth beside the model's expectation, the resource that limits, and a verdict per
 * size by the rules of docs/commands.md; for the run causes with their probabilities.
 * @param topo  of the run (see ccl_topology_take()); borrowed while the result lives.
 * @param channels  as in ccl_nccl_setup(); 0: what the log says.
 * @param registered  as in ccl_predictor_nvls().
 * @param out  destroy with ccl_diagnosis_destroy().
 */
ccl_status_t ccl_diagnose(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                          const ccl_profile_t *profile, const ccl_measured_run_t *run,
                          uint32_t channels, bool in_place, bool registered,
                          ccl_diagnosis_run_t **out, ccl_error_t *err);
/**
 * One sentence about several runs of a log: how many are healthy, and which is surest not to be.
 * @param runs  [n], n at least 1; of one run its own verdict.
 * @param out   appended to.
 */
ccl_status_t ccl_diagnoses_verdict(const ccl_diagnosis_run_t *const *runs, uint32_t n,
                                   ccl_text_t *out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_diagnosis_destroy(ccl_diagnosis_run_t *diagnosis);

CCL_END_DECLS
#endif
