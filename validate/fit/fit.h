/**
 * @file fit.h
 * Measured runs as logs have them, constants fitted to any number of them, and predictions beside
 * them.
 */
#ifndef CCL_VALIDATE_FIT_H
#define CCL_VALIDATE_FIT_H

#include "validate/nccl/nccl.h"

CCL_BEGIN_DECLS

/* ---------------------------------------------------------------- measured runs */

/** One row of a table. */
typedef struct ccl_measurement {
    double size_bytes;      /**< nccl-tests' size, > 0 */
    double time_s;          /**< out of place; 0: not measured */
    double in_place_time_s; /**< 0: not measured */
    double spread;          /**< relative standard deviation of its repeats; 0: not given */
    uint32_t line;          /**< of the file */
} ccl_measurement_t;

/** A setting of NCCL that a log names. */
typedef struct ccl_measured_setting {
    const char *name;  /**< "NCCL_ALGO" */
    const char *value; /**< "Ring" */
} ccl_measured_setting_t;

/** One table: a collective on `nranks` ranks. */
typedef struct ccl_measured_run {
    ccl_collective_kind_t kind; /**< meaningful when `known` */
    bool known;                 /**< the log says, or leaves no doubt, which collective it is */
    uint32_t root;
    uint32_t nranks;     /**< 0: not given */
    uint32_t nhosts;     /**< 0: not given */
    uint32_t channels;   /**< channels NCCL said it uses, or was set to use at most; 0: not given */
    uint32_t version;    /**< of NCCL, 22703 for 2.27.3; 0: not given */
    bool no_nvls;        /**< NCCL said that it has no NVLS, or it was switched off */
    const char *gpu;     /**< model, "" when not given */
    const char *type;    /**< element type, "" when not given */
    const char *label;   /**< what tells runs of one file apart ("kernel 3", a source); "" */
    const char *program; /**< file of the program that was run, as written; "": NCCL's own */
    const char *proto;   /**< "LL", that the program ran under; "": its own */
    uint32_t line;       /**< where it begins */
    double factor;       /**< busbw / algbw of its rows; 0: not given */
    double factor_error; /**< what digits cut off may make of it */
    int reduces, rooted; /**< 1, 0 by the columns redop and root; -1: they do not say */
    double average_GBps; /**< "Avg bus bandwidth" as printed; 0: not given */
    double rows_GBps;    /**< the mean busbw of the rows, both placements; 0: not given */
    uint32_t nsettings;
    const ccl_measured_setting_t *settings; /**< NCCL_ variables that the log names, as last set */
    uint32_t npoints;
    const ccl_measurement_t *points; /**< in the order of the file */
} ccl_measured_run_t;

typedef struct ccl_measured_log {
    uint32_t nruns;
    const ccl_measured_run_t *runs;
    uint32_t nskipped;      /**< rows of a table cut short by other output */
    uint32_t first_skipped; /**< line of the first; 0: none */
    ccl_arena_t arena;
} ccl_measured_log_t;

/**
 * Read measured runs: nccl-tests and rccl-tests output, old and new columns, behind any launcher's
 * prefix, several tables a file; CSV with a header line (op or op_name, ranks or num_gpus,
 * size_bytes or message_size in elements, latency in ms or oop_us and ip_us in us); JSON, an object
 * a line ("name", "ranks", "size" in bytes, "time" in us), also as NCCL's Inspector writes it
 * ("header", "coll_perf"). Told apart by content.
 *
 * @param out  destroy with ccl_measured_log_destroy().
 * @retval CCL_ERR_INPUT  no row of measurements in it.
 */
ccl_status_t ccl_measured_read(const char *path, ccl_measured_log_t **out, ccl_error_t *err);
/** The same from memory; `name` is for messages. */
ccl_status_t ccl_measured_read_text(const char *name, const char *text, size_t len,
                                    ccl_measured_log_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_measured_log_destroy(ccl_measured_log_t *log);
/**
 * The collectives that the rows of a run may be of, by busbw / algbw and the columns redop and
 * root, whatever the run says it is.
 * @return a bit (1 << kind) each; 0: none fits, or the ratio or the number of ranks is not given.
 */
uint32_t ccl_measured_candidates(const ccl_measured_run_t *run);
/** The value of a setting that the log names, such as "NCCL_ALGO"; NULL: it does not. */
const char *ccl_measured_setting(const ccl_measured_run_t *run, const char *name);
/* ---------------------------------------------------------------- fits */

/** Predicted over measured, as its logarithm, of every point, from the parameters. */
typedef ccl_status_t (*ccl_fit_fn)(const double *parameters, double *residuals, void *user,
                                   ccl_error_t *err);
typedef struct ccl_fit_parameter {
    double value;     /**< in: prior; out: fitted. Logarithms make positive constants */
    double spread;    /**< in: standard deviation of the prior, > 0 */
    double error;     /**< out: standard deviation after the fit */
    double low, high; /**< in: bounds; equal: there are none */
    bool at_bound;    /**< out: the points would have it beyond a bound */
} ccl_fit_parameter_t;
typedef struct ccl_fit_result {
    uint32_t iterations;
    double scale; /**< robust standard deviation of the residuals (1.4826 x median of |r|) */
} ccl_fit_result_t;
/**
 * Robust least squares with a normal prior on every parameter: iteratively reweighted (Huber, 1.345
 * scales), damped Gauss-Newton with numerical derivatives. What the points do not determine stays
 * at the prior, and its error stays the prior's.
 *
 * @param start  [nparameters] where to begin; NULL: at the priors.
 * @param noise  least standard deviation of a residual that is believed (0.03: 3 %), > 0.
 *
 * A parameter with bounds stays within them; one that ends at a bound and that the points push on
 * is marked, and its error is the prior's.
 */
ccl_status_t ccl_fit(uint32_t nparameters, ccl_fit_parameter_t *parameters, const double *start,
                     uint32_t npoints, double noise, ccl_fit_fn fn, void *user,
                     ccl_fit_result_t *out, ccl_error_t *err);

/** A constant of a calibrated profile. */
typedef struct ccl_constant {
    const char *name;        /**< where it stands: "transports/nvlink/LL/latency" */
    const char *unit;        /**< "s", "B/s", "1" */
    double value, low, high; /**< 95 % confidence interval */
    double prior;            /**< the topology's */
    bool determined; /**< the runs determine it: the interval is at most half of the prior's, and
                          it is not at a bound */
    bool at_bound;   /**< the runs would have it beyond what physics allows: something else is not
                          in the model */
} ccl_constant_t;

/** Runs of one program, or of one collective by NCCL, on one cluster. */
typedef struct ccl_measured_source {
    const char *name;           /**< of its file */
    const ccl_topology_t *topo; /**< of the run's ranks (ccl_topology_take()); sources of one
                                     cluster have the same pointer */
    const ccl_measured_run_t *run;
    const ccl_program_t *program; /**< that was run; NULL: what NCCL runs for the collective */
} ccl_measured_source_t;
/** Errors |predicted / measured - 1| of some points. */
typedef struct ccl_error_stats {
    uint32_t n; /**< 0: the rest is NAN */
    double median, mean, worst;
} ccl_error_stats_t;
/** Which points are not fitted, and show how well others are predicted. */
typedef enum ccl_hold_out {
    CCL_HOLD_OUT_NONE,
    CCL_HOLD_OUT_HALF,  /**< each with probability 1/2, by the context's seed */
    CCL_HOLD_OUT_SIZES, /**< every second size of a source */
    CCL_HOLD_OUT_RUNS   /**< every second source */
} ccl_hold_out_t;
/** "none", "50%", "sizes", "runs". @retval CCL_ERR_USAGE  it is none of these. */
ccl_status_t ccl_hold_out_parse(const char *text, ccl_hold_out_t *out, ccl_error_t *err);
typedef struct ccl_calibrate_options {
    size_t size;
    uint32_t channels; /**< 0: what the log says, else as in ccl_nccl_setup() */
    bool in_place;     /**< fit the in-place columns */
    double min_bytes;  /**< points below are left out; 0: none */
    const char *name, *date, *command, *source; /**< for the profile; NULL: "" */
    ccl_hold_out_t hold_out;
} ccl_calibrate_options_t;
/** The defaults. */
#define CCL_CALIBRATE_OPTIONS_INIT                                                                 \
    { sizeof(ccl_calibrate_options_t), 0, false, 0, NULL, NULL, NULL, NULL, CCL_HOLD_OUT_NONE }
typedef struct ccl_calibration {
    uint32_t nsources;
    const ccl_measured_source_t *sources; /**< borrowed */
    uint32_t nconstants, npoints;
    const ccl_constant_t *constants;
    const uint32_t *source_of;                                    /**< [npoints] */
    const double *sizes_bytes, *measured_s, *before_s, *fitted_s; /**< [npoints]; before: with the
                                       topology's own constants. NAN: the program cannot finish */
    const double *interpolated_s; /**< [npoints] from the fitted points of the same source; NAN */
    const double *predicted_s;    /**< [npoints] fitted_s times what the curve of its run says */
    uint32_t ncurves;
    const ccl_curve_t *curves; /**< what the fitted points are off by, also in the profile */
    const bool *held_out;      /**< [npoints] */
    const ccl_error_stats_t *by_source; /**< [nsources] after the fit, held out or not */
    double r2;                          /**< of log(time) of what was fitted */
    double median_error, worst_error;   /**< |predicted / measured - 1| of it, after the fit */
    double median_before;               /**< with the topology's own constants */
    ccl_error_stats_t held, held_constants, held_interpolated; /**< of what was held out, where
                                       all have times: predicted_s, fitted_s, interpolated_s */
    uint32_t nrepeats; /**< pairs of points that measure the same thing */
    double noise;      /**< of one of them, relative standard deviation; NAN: there is no pair */
    uint32_t nstuck;   /**< points left out: their programs cannot finish in the model */
    char *profile;     /**< JSON, "ccllab-profile-1" */
    ccl_arena_t arena;
} ccl_calibration_t;
/**
 * Fit one set of constants to any number of measured runs: launch, overhead and latency, and
 * thread-block rate per protocol, efficiency of the links, each a factor on the first topology's
 * own with a prior and bounds; what the points do not determine stays at the prior. With several
 * sources overhead and latency are told apart, thread-block rates by kind of connection, and the
 * rate of reductions is fitted, too. Runs that NCCL makes as NVLS determine constants of switch
 * connections. Points weigh by their spread. Simulations use the context's threads; what comes out
 * does not depend on their number.
 *
 * @param sources  borrowed while the result lives.
 * @param out      destroy with ccl_calibration_destroy().
 * @retval CCL_ERR_INPUT  fewer than three points, or a collective that is not known.
 */
ccl_status_t ccl_calibrate(const ccl_ctx_t *ctx, const ccl_measured_source_t *sources,
                           uint32_t nsources, const ccl_calibrate_options_t *options,
                           ccl_calibration_t **out, ccl_error_t *err);
/**
 * Fit the constants of switch connections alone: overhead, latency, thread-block rate and wire of
 * "nvlink-switch", from the sizes of an AllReduce at which NCCL takes NVLS.
 *
 * @param source  of NCCL, on the cluster as described; borrowed while the result lives.
 * @param base    everything else; the profile that comes out is this one with these constants
 * added.
 * @param out     destroy with ccl_calibration_destroy().
 * @retval CCL_ERR_INPUT  fewer than three such sizes.
 */
ccl_status_t ccl_calibrate_switch(const ccl_ctx_t *ctx, const ccl_measured_source_t *source,
                                  const ccl_profile_t *base, const ccl_calibrate_options_t *options,
                                  ccl_calibration_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_calibration_destroy(ccl_calibration_t *calibration);

/** A measured size beside predictions. Every second size of a source is a test of what the others
 * say: `interpolated_s`, `tuned_s`, `line_s` and `corrected_s` are from these alone. */
typedef struct ccl_measured_point {
    uint32_t source;
    bool tested; /**< it is one of the tests */
    double size_bytes, measured_s;
    double constants_s; /**< by the model; NAN: the program cannot finish there */
    double predicted_s; /**< times what the profile's curve of such runs says, where it has one */
    double corrected_s; /**< times what that was off by at the others, interpolated */
    double interpolated_s; /**< of times, in log-log; NAN: fewer than two others */
    double
        tuned_s;   /**< NCCL's own tuning model: a constant, its latencies and its transfers with a
                        factor each, fitted to the others of all sources; NAN: it has no estimate */
    double line_s; /**< alpha + beta bytes, fitted to the others of the source; NAN: as above */
} ccl_measured_point_t;
/** Errors over the tests of a group, each where it has a time. */
typedef struct ccl_measured_errors {
    char what[48]; /**< "all", "up to 64K", "allreduce" */
    ccl_error_stats_t predicted, corrected, interpolated, tuned, line;
} ccl_measured_errors_t;
typedef struct ccl_measured_validation {
    uint32_t nsources, npoints, ngroups;
    const ccl_measured_source_t *sources; /**< borrowed */
    const ccl_measured_point_t *points;
    const ccl_measured_errors_t *groups; /**< all, by size, by collective */
    ccl_error_stats_t predicted;         /**< over all points, tests or not */
    double tau; /**< Kendall's, over programs of one collective, cluster and size; NAN: none */
    uint32_t nrivals; /**< pairs of these */
    uint32_t nstuck;  /**< points without a prediction */
    uint32_t ncurved; /**< points that a curve of the profile is of */
    ccl_arena_t arena;
} ccl_measured_validation_t;
/**
 * Predictions beside measured runs, without a device, and three baselines.
 * @param sources  borrowed while the result lives.
 * @param profile  NULL: the topologies' own constants.
 * @param options  channels, in_place and min_bytes count.
 * @param out      destroy with ccl_measured_validation_destroy().
 * @retval CCL_ERR_INPUT  nothing was measured, or a collective is not known.
 */
ccl_status_t ccl_validate_measured(const ccl_ctx_t *ctx, const ccl_measured_source_t *sources,
                                   uint32_t nsources, const ccl_profile_t *profile,
                                   const ccl_calibrate_options_t *options,
                                   ccl_measured_validation_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_measured_validation_destroy(ccl_measured_validation_t *validation);

CCL_END_DECLS
#endif
