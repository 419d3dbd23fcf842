/**
 * @file training.h
 * Training on heterogeneous GPUs: training micro-batches by speed, and the time of a step from
 * simulated collectives.
 */
#ifndef CCL_TRAINING_TRAINING_H
#define CCL_TRAINING_TRAINING_H

#include "make/make.h"

CCL_BEGIN_DECLS

/* ---------------------------------------------------------------- training micro-batches */

typedef enum ccl_balance_rule {
    CCL_BALANCE_REMAINDER, /**< in proportion to speed, leftovers by largest remainder */
    CCL_BALANCE_MAKESPAN,  /**< the slowest is done as early as can be */
    CCL_BALANCE_EQUAL      /**< as many for every GPU, speeds do not count */
} ccl_balance_rule_t;
const char *ccl_balance_rule_name(ccl_balance_rule_t rule); /**< "remainder", ...; static */
/** As a limit: none. */
#define CCL_BALANCE_ANY UINT64_MAX
/** The most micro-batches of a step. */
#define CCL_BALANCE_MOST_TOTAL UINT32_MAX

/**
 * Split `total` micro-batches over n workers: in proportion to their speeds, b_i = B s_i / sum s_j.
 * Who has a limit below its share takes the limit, the others share the rest; fractions become
 * whole by the rule. Equal remainders (or times) go to the lowest worker.
 *
 * @param speeds_per_s  [n] micro-batches a second, finite, > 0.
 * @param most          [n] limits, or CCL_BALANCE_ANY; NULL: none.
 * @param total         at most CCL_BALANCE_MOST_TOTAL.
 * @param out           [n] adds up to total; at most `most`.
 * @retval CCL_INFEASIBLE  all limits together are less than total.
 * @par Source  HetCCL (Seoul National University, Samsung), section 4.5. The paper has no limits
 * and no rounding; the least makespan: smallest T with sum floor(s_i T) >= B.
 */
ccl_status_t ccl_balance(const double *speeds_per_s, const uint64_t *most, uint32_t n,
                         uint64_t total, ccl_balance_rule_t rule, uint64_t *out, ccl_error_t *err);
/** The longest b_i / s_i, seconds. */
double ccl_balance_makespan_s(const double *speeds_per_s, const uint64_t *batches, uint32_t n);

/* ---------------------------------------------------------------- plans */

/** GPUs that hold some of the layers. Worker w of it is ranks[w * tensor] and the next ones. */
typedef struct ccl_training_stage {
    uint32_t nranks;
    uint32_t *ranks; /**< ascending */
    double layers;
} ccl_training_stage_t;

/** What is trained, and how it is spread over the GPUs of one cluster. */
typedef struct ccl_training {
    const char *name, *source;
    uint32_t nranks;         /**< of the cluster */
    uint64_t total;          /**< micro-batches of a step; 0: not said yet */
    double *speeds_per_s;    /**< [nranks] micro-batches of the whole model; 0: not said */
    uint64_t *most;          /**< [nranks] micro-batches; CCL_BALANCE_ANY: no limit */
    double *memory_bytes;    /**< [nranks] INFINITY: no limit */
    bool has_model;          /**< false: only compute time is known */
    double parameters;       /**< of the model */
    double layers;           /**< of all stages */
    double hidden;           /**< width of activations between layers; 0: not said */
    double sequence;         /**< tokens of a sample; 0: not said */
    double samples;          /**< of a micro-batch */
    double bytes;            /**< of a parameter, gradient or activation */
    double optimizer_bytes;  /**< per parameter, unsharded */
    double activation_bytes; /**< of a micro-batch, that all layers hold for the way back */
    bool recompute;          /**< the way forward is done again on the way back */
    uint32_t tensor;         /**< GPUs that share every layer */
    uint32_t zero;           /**< 0: plain data parallelism; ZeRO's stage 1, 2 or 3 */
    uint32_t passes;         /**< of one stage: a worker's micro-batches are done in this many */
    double overlap;          /**< share of compute time behind which gradients may hide */
    uint32_t nstages;
    ccl_training_stage_t *stages;
    ccl_arena_t arena;
} ccl_training_t;

/** One stage of all GPUs, no model, no speeds. */
ccl_status_t ccl_training_create(const ccl_topology_t *topo, ccl_training_t **out,
                                 ccl_error_t *err);
/** A file in format ccllab-training-1 (docs/formats.md), for this cluster. */
ccl_status_t ccl_training_read(const char *path, const ccl_topology_t *topo, ccl_training_t **out,
                               ccl_error_t *err);
/** The same from memory; `name` is for messages. */
ccl_status_t ccl_training_read_text(const char *name, const char *text, size_t len,
                                    const ccl_topology_t *topo, ccl_training_t **out,
                                    ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_training_destroy(ccl_training_t *training);
/**
 * "nvidia=4.2,amd=2": takes the place of these GPUs' speeds. Who: all, a vendor, a GPU model, a
 * server, a GPU; the narrower counts, whatever the order.
 */
ccl_status_t ccl_training_speeds(ccl_training_t *training, const ccl_topology_t *topo,
                                 const char *text, ccl_error_t *err);
/** The same of limits in micro-batches. */
ccl_status_t ccl_training_most(ccl_training_t *training, const ccl_topology_t *topo,
                               const char *text, ccl_error_t *err);

/* ---------------------------------------------------------------- a step */

typedef struct ccl_training_options {
    size_t size;
    ccl_balance_rule_t rule;
    const char *const *with; /**< [nwith] synthesizers that collectives are asked of, or "nccl":
                                  what stock NCCL runs, RCCL on AMD; NULL: ring, tree, hm, direct,
                                  c2c */
    uint32_t nwith;
    bool no_others; /**< only the step itself, neither an equal split nor vendors alone */
    const ccl_topology_t *machine; /**< by which NCCL chooses: the cluster without a profile; NULL:
                                        the cluster itself */
} ccl_training_options_t;
/** The defaults. */
#define CCL_TRAINING_OPTIONS_INIT                                                                  \
    { sizeof(ccl_training_options_t), CCL_BALANCE_REMAINDER, NULL, 0, false, NULL }

/** GPUs that work on the same micro-batches of a stage: one, or `tensor` of them. */
typedef struct ccl_training_worker {
    uint32_t stage, rank, nranks; /**< the first of its ranks */
    double speed_per_s;           /**< of the whole model */
    uint64_t most;                /**< what memory and limits leave */
    uint64_t batches, equal;      /**< of the balanced and of the equal split */
    double compute_s;             /**< of its batches in the balanced split */
} ccl_training_worker_t;

/** A collective of the step, in all its groups at once. */
typedef struct ccl_training_collective {
    const char *part;         /**< "tensor", "pipeline", "data"; static */
    const char *what;         /**< "gradients", "parameters", "activations"; static */
    const char *name;         /**< "allreduce", ... or "send" */
    const char *by;           /**< synthesizer, or "nccl" or "rccl" */
    uint32_t stage;           /**< of pipeline: the one that sends forward */
    uint32_t ngroups, nranks; /**< groups, ranks of each; of pipeline: pairs, 2 */
    double size_bytes, time_s;
    double times; /**< that it is done in a step */
} ccl_training_collective_t;

/** One way to spread the step. */
typedef struct ccl_training_step {
    const char *name;    /**< "balanced", "equal", or the vendor */
    ccl_status_t status; /**< CCL_OK, or CCL_INFEASIBLE: limits do not let it */
    uint64_t total;
    double time_s;    /**< compute_s + tensor_s + pipeline_s + data_s */
    double compute_s; /**< with all communication free; stages wait for one another */
    double tensor_s, pipeline_s, data_s; /**< what each adds: exposed */
    double per_s;                        /**< total / time_s */
} ccl_training_step_t;

typedef struct ccl_training_result {
    uint32_t nworkers, ncollectives, nsteps;
    ccl_training_worker_t *workers;
    ccl_training_collective_t *collectives; /**< of the balanced step */
    size_t collectives_cap;
    ccl_training_step_t *steps;         /**< balanced, equal, then each vendor */
    double makespan_s, best_makespan_s; /**< compute of the slowest; of the best split */
    double speedup;                     /**< time of equal / balanced; NAN: no equal split */
    double efficiency; /**< per_s / sum of vendors' per_s; NAN: not two vendors in one stage */
    ccl_arena_t arena;
} ccl_training_result_t;

/**
 * Split the micro-batches and estimate what a step takes; beside it with an equal split and, where
 * a stage has several vendors, of each vendor alone with the micro-batches that its GPUs have here.
 * docs/training.md has the terms.
 *
 * @param out  destroy with ccl_training_result_destroy().
 * @retval CCL_INFEASIBLE  memory or limits do not let it (err says where).
 * @retval CCL_ERR_INPUT   a total or a speed is missing; the plan asks for what does not go
 * together.
 * @par Determinism  the same for any number of threads.
 * @par Source  table 3 of HetCCL (Seoul National University, Samsung) for ZeRO; Megatron-LM (arXiv
 * 1909.08053) for tensor, GPipe's fill for pipeline parallelism.
 */
ccl_status_t ccl_training_estimate(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   const ccl_training_t *training,
                                   const ccl_training_options_t *options,
                                   ccl_training_result_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_training_result_destroy(ccl_training_result_t *result);

CCL_END_DECLS
#endif
