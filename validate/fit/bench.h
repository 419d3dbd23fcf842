/**
 * @file bench.h
 * Measured points and their predictions with any constants; private to validate/fit.
 */
#ifndef CCL_VALIDATE_BENCH_H
#define CCL_VALIDATE_BENCH_H

#include "validate/validate.h"

#define CCL_I_FIT_PROTOS 3u /**< in the order of ccl_nccl_proto_t */
#define CCL_I_FIT_KINDS 6u
#define CCL_I_FIT_PARAMETERS 64u

/** What a parameter multiplies. */
typedef enum ccl_i_fit_what {
    CCL_I_FIT_LAUNCH,
    CCL_I_FIT_STEP, /**< overhead and latency of a slice together */
    CCL_I_FIT_OVERHEAD,
    CCL_I_FIT_LATENCY,
    CCL_I_FIT_TB_RATE,
    CCL_I_FIT_MESSAGE,    /**< of networks */
    CCL_I_FIT_EFFICIENCY, /**< of links */
    CCL_I_FIT_WIRE,       /**< of switch connections */
    CCL_I_FIT_REDUCE
} ccl_i_fit_what_t;

/** A factor on constants of the reference topology; its logarithm is fitted. */
typedef struct ccl_i_fit_param {
    ccl_i_fit_what_t what;
    int proto;     /**< ccl_nccl_proto_t; -1: all */
    uint32_t kind; /**< CCL_NONE: all */
} ccl_i_fit_param_t;

/** A kind of connection whose constants are fitted. */
typedef struct ccl_i_fit_kind {
    const char *name; /**< "nvlink", "nvlink-switch" */
    const char *base; /**< of a switch's: the kind of its links; else NULL */
    bool links;       /**< links have this kind */
    ccl_transport_t own[CCL_I_FIT_PROTOS];
    bool used[CCL_I_FIT_PROTOS];
} ccl_i_fit_kind_t;

/** All constants that replace the topologies' own; NAN: not replaced. */
typedef struct ccl_i_constants_set {
    double launch_s[CCL_I_FIT_PROTOS];
    double overhead_s[CCL_I_FIT_KINDS][CCL_I_FIT_PROTOS];
    double latency_s[CCL_I_FIT_KINDS][CCL_I_FIT_PROTOS];
    double tb_rate_Bps[CCL_I_FIT_KINDS][CCL_I_FIT_PROTOS];
    double message_s[CCL_I_FIT_KINDS][CCL_I_FIT_PROTOS];
    double message_bytes[CCL_I_FIT_KINDS][CCL_I_FIT_PROTOS]; /**< where message_s is */
    double efficiency[CCL_I_FIT_KINDS];
    double wire[CCL_I_FIT_KINDS];
    double reduce_Bps;
} ccl_i_constants_set_t;

/** A measured size of a source. */
typedef struct ccl_i_point {
    uint32_t source;
    double size_bytes, measured_s;
    double spread;  /**< relative standard deviation; 0: not known */
    int proto;      /**< under which it runs */
    uint32_t kinds; /**< bit per kind of its connections */
    int algo;       /**< ccl_nccl_algo_t; -1: a program */
    bool stuck;     /**< the program cannot finish at this size in the model */
} ccl_i_point_t;

typedef struct ccl_i_bench ccl_i_bench_t;
struct ccl_i_bench {
    ccl_ctx_t quiet;
    const ccl_measured_source_t *sources;
    uint32_t nsources, npoints, nkinds, workers, ngroups, epoch, channels;
    ccl_i_point_t *points; /**< source by source, in the order of the file */
    ccl_i_fit_kind_t kinds[CCL_I_FIT_KINDS];
    bool of_nccl; /**< a source is: connections copy out of their FIFOs */
    bool used[CCL_I_FIT_PROTOS];
    double own_launch_s[CCL_I_FIT_PROTOS];
    uint32_t *group_of;                     /**< [nsources]: sources of a group share predictors */
    const ccl_topology_t **bases;           /**< [ngroups] with the profile */
    ccl_topology_t **laid;                  /**< [ngroups] the same, where it is ours */
    struct ccl_i_seat *seats;               /**< [ngroups workers] */
    const ccl_i_constants_set_t *constants; /**< of the running evaluation; NULL: the own */
    ccl_arena_t arena;
};

/**
 * Points of all sources, and which kinds of connections and protocols they use.
 * @param profile  laid over the topologies first; NULL: none.
 * @param out      destroy with ccl_i_bench_destroy(); the sources are borrowed.
 */
ccl_status_t ccl_i_bench_create(const ccl_ctx_t *ctx, const ccl_measured_source_t *sources,
                                uint32_t nsources, const ccl_calibrate_options_t *options,
                                const ccl_profile_t *profile, ccl_i_bench_t **out,
                                ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_i_bench_destroy(ccl_i_bench_t *bench);
/**
 * Times of points with these constants, on all threads of the context.
 * @param constants  NULL: the topologies' own.
 * @param wanted     [npoints] false: leave its time; NULL: all.
 * @param time_s     [npoints]; NAN where the program cannot finish.
 */
ccl_status_t ccl_i_bench_run(ccl_i_bench_t *bench, const ccl_i_constants_set_t *constants,
                             const bool *wanted, double *time_s, ccl_error_t *err);
/** A digit string of six is all that is believed, in files and in runs. */
double ccl_i_fit_rounded(double value);
/** Members "links", "transports" and "gpu_models" of a profile. */
void ccl_i_fit_text(const ccl_i_bench_t *bench, const ccl_i_constants_set_t *constants,
                    ccl_text_t *out);
void ccl_i_fit_json(ccl_text_t *out, const char *text);

/** Median, mean and worst of |predicted / measured - 1|. @param errors  [n], sorted by this. */
ccl_error_stats_t ccl_i_error_stats(double *errors, uint32_t n);
/**
 * Interpolation of times in log-log over the training points of the same source; beyond them the
 * nearest two go on.
 * @param training  [npoints]  @param out  [npoints]; NAN where a source has fewer than two.
 */
void ccl_i_interpolate(const ccl_i_bench_t *bench, const bool *training, double *out);
/** Whether a point's size is the second, fourth ... of its source: what every second is held out.
 */
bool ccl_i_second_size(const ccl_i_bench_t *bench, uint32_t point);
/** How a point runs: "ring LL128", of a program "LL128". */
void ccl_i_curve_way(const ccl_i_point_t *p, char *out, size_t out_len);
/**
 * What the training points are off by: a curve of each collective, type, program and numbers of
 * ranks and hosts, over all sources that measured it.
 * @param training, predicted_s  [npoints]  @param out  of the arena.
 */
ccl_status_t ccl_i_curves_make(const ccl_i_bench_t *bench, const bool *training,
                               const double *predicted_s, ccl_arena_t *arena,
                               const ccl_curve_t **out, uint32_t *ncurves, ccl_error_t *err);
/**
 * Predictions times what the curves say that they are off by; the prediction where there is none.
 * @param predicted_s, out  [npoints]; may be the same.
 * @return points that a curve is of.
 */
uint32_t ccl_i_correct(const ccl_i_bench_t *bench, const ccl_curve_t *curves, uint32_t ncurves,
                       const double *predicted_s, double *out);
/** Member "curves" of a profile. */
void ccl_i_curves_text(const ccl_curve_t *curves, uint32_t ncurves, ccl_text_t *out);
/**
 * NCCL's own estimate of a point, latency and transfer apart.
 * @return false: there is none (programs, grouped sends).
 */
bool ccl_i_bench_estimate(const ccl_i_bench_t *bench, uint32_t point, double *latency_s,
                          double *transfer_s);

#endif
