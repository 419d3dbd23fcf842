/**
 * @file export.h
 * Results of a tuning as files for other libraries.
 */
#ifndef CCL_SEARCH_EXPORT_H
#define CCL_SEARCH_EXPORT_H

#include "search/notebook/notebook.h"
#include "search/tune/tune.h"

CCL_BEGIN_DECLS

/** A program and the sizes that it is for (its min_bytes and max_bytes). */
typedef struct ccl_export {
    ccl_program_t *program;
    uint32_t run;  /**< of the tuning: what it was made from */
    double time_s; /**< at that run's size, as lowered for the executor */
} ccl_export_t;
/**
 * The best program of each size that an executor can run, each proven within its limits, for the
 * sizes nearest to it (in the logarithm), from the smallest to the greatest that was tuned; equal
 * neighbours are one. Sizes for which none fits are left out.
 * @param out  freed with ccl_exports_destroy().
 * @retval CCL_ERR_INPUT  the tuning's sizes do not ascend.
 */
ccl_status_t ccl_export_programs(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                 const ccl_collective_t *want, const ccl_tuning_t *tuning,
                                 ccl_executor_t executor, ccl_export_t **out, uint32_t *n_out,
                                 ccl_error_t *err);
/**
 * The same for MSCCL++: of each size the best program that ccl_program_write_mscclpp() can write
 * and the size divides by (ccl_export_plan_multiple()), also through switches, with Simple or LL.
 * @param in_place  programs for one buffer, or for two (its selector tells calls apart by that).
 */
ccl_status_t ccl_export_plans(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                              const ccl_collective_t *want, const ccl_tuning_t *tuning,
                              bool in_place, ccl_export_t **out, uint32_t *n_out, ccl_error_t *err);
/**
 * What sizes of messages are multiples of, for a program as a plan of MSCCL++: 16 bytes of each
 * chunk. Its executor takes no others, and ends the application that calls with one.
 */
uint32_t ccl_export_plan_multiple(const ccl_program_t *program);
/** Frees it and all it owns; NULL is fine. */
void ccl_exports_destroy(ccl_export_t *exports, uint32_t n);
/**
 * The ring orders of one server as a file for NCCL_GRAPH_FILE: a channel per ring that `ring` finds
 * on the cluster, from the NIC where it comes in to the one where it goes out.
 * @param server    index; CCL_NONE: GPUs that have none.
 * @param channels  0: as many as `ring` thinks best.
 * @retval CCL_UNSUPPORTED  no ring passes the server in one go.
 */
ccl_status_t ccl_export_nccl_graph(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   uint32_t server, uint32_t channels, ccl_text_t *out,
                                   ccl_error_t *err);
/** Does NCCL ask its tuner for collectives of this kind? */
bool ccl_export_nccl_asks(ccl_collective_kind_t kind);
/**
 * Does a cluster, with a profile laid over it, know enough for ccl_export_nccl_tuner()? A thread
 * block's rate, overhead or latency, and costs of LL are needed for every kind of link that
 * connections use.
 * @param profile  NULL: the topology's constants.
 * @retval CCL_UNSUPPORTED  something is missing; says what.
 */
ccl_status_t ccl_export_nccl_tuner_check(const ccl_topology_t *topo, const ccl_profile_t *profile,
                                         ccl_error_t *err);
/** What NCCL's kernels are fastest at in a range of sizes, by the model, beside its own choice. */
typedef struct ccl_export_choice {
    ccl_collective_kind_t kind;
    double min_bytes, max_bytes; /**< both included */
    ccl_nccl_choice_t choice;    /**< channels: NCCL's own number of them */
    double at_bytes;             /**< the largest size of the range that was looked at */
    double time_s;               /**< there */
    ccl_nccl_choice_t stock;     /**< what NCCL takes there by itself */
    double stock_s;
} ccl_export_choice_t;
/** Choices for one cluster. */
typedef struct ccl_export_table {
    char *topology;                /**< its name */
    ccl_content_t hash;            /**< of its description */
    uint32_t nranks, nnodes;       /**< as NCCL counts them */
    uint32_t min_local, max_local; /**< ranks of the emptiest and the fullest server */
    bool registered;               /**< for registered buffers */
    ccl_export_choice_t *rows;     /**< [nrows] by kind, in the order asked for, then by size */
    uint32_t nrows;
} ccl_export_table_t;
/**
 * Of ring, tree and those through NVSwitches, each with each protocol that NCCL has for it, the one
 * that the model says is fastest, by size; from the smallest to the greatest size, ranges as in
 * ccl_export_programs().
 * @param profile      NULL: the topology's constants.
 * @param kinds        [nkinds] collectives, each once.
 * @param sizes_bytes  [nsizes] ascending.
 * @param out          destroy with ccl_export_table_destroy().
 * @retval CCL_ERR_INPUT    sizes that do not ascend.
 * @retval CCL_UNSUPPORTED  a collective that NCCL does not ask its tuner for, or what
 *                          ccl_export_nccl_tuner_check() refuses.
 */
ccl_status_t ccl_export_table_create(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                     const ccl_profile_t *profile, bool registered,
                                     const ccl_collective_kind_t *kinds, uint32_t nkinds,
                                     const double *sizes_bytes, uint32_t nsizes,
                                     ccl_export_table_t **out, ccl_error_t *err);
/** Frees it and all it owns; NULL is fine. */
void ccl_export_table_destroy(ccl_export_table_t *table);
/** As the example tuner plugin of NCCL and RCCL reads it (NCCL_TUNER_CONFIG_FILE). */
ccl_status_t ccl_export_table_csv(const ccl_export_table_t *table, ccl_text_t *out,
                                  ccl_error_t *err);
/**
 * As the C source of a tuner plugin (NCCL_TUNER_PLUGIN) that needs nothing but C's library: it
 * makes its choices the cheapest for communicators of as many ranks and nodes, and leaves NCCL's
 * costs as they are otherwise. It has versions 4 to 7 of the interface.
 * @par Source  NVIDIA/nccl, plugins/tuner and src/include/plugin/tuner; ROCm/rccl likewise.
 */
ccl_status_t ccl_export_table_plugin(const ccl_export_table_t *table, ccl_text_t *out,
                                     ccl_error_t *err);
/** A choice as ncclCollConfig_t's algSelection names it (NCCL 2.31): "RING_LL128". */
void ccl_export_selection(const ccl_nccl_choice_t *choice, char *out, size_t out_len);
/**
 * ccl_export_table_create() of one collective, as ccl_export_table_csv() writes it.
 */
ccl_status_t ccl_export_nccl_tuner(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                                   const ccl_profile_t *profile, ccl_collective_kind_t kind,
                                   const double *sizes_bytes, uint32_t nsizes, ccl_text_t *out,
                                   ccl_error_t *err);

CCL_END_DECLS
#endif
