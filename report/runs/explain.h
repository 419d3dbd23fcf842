/**
 * @file explain.h
 * Private to report/: what a result of `explain` holds.
 */
#ifndef CCL_REPORT_EXPLAIN_H
#define CCL_REPORT_EXPLAIN_H

#include "report/rows.h"

/** Which of ccl_report_explanation_tables; text has these. */
enum {
    CCL_I_EXPLAIN_CAUSES = 1,
    CCL_I_EXPLAIN_WAITS,
    CCL_I_EXPLAIN_LINKS,
    CCL_I_EXPLAIN_PATH,
    CCL_I_EXPLAIN_CUT,
    CCL_I_EXPLAIN_SLOW = CCL_I_EXPLAIN_CUT + 2
};

/** Root of the result. */
typedef struct ccl_i_explain {
    const ccl_report_explanation_t *of;
    ccl_i_keyed_t *resources, *causes; /* of the path, most of it first; of all time, likewise */
    uint32_t nresources, ncauses;
    ccl_text_t *edits; /* of the change at hand */
    uint32_t most;     /* links of text */
    ccl_text_t room;   /* of `edits` */
    bool path;
    const void *cut; /* NULL, or what stands behind */
    const char *input, *topology, *profile, *collective, *proto, *order, *allocation, *granularity,
        *sharing, *origin;
    uint32_t nranks, batches, untried;
    uint64_t path_transfers;
    double size_bytes, time_s, algbw_GBps, busbw_GBps, bound_s, gap;
    ccl_i_nccl_row_t nccl;
    struct {
        const struct ccl_i_explain *root;
        const char *proof;
        double least_bytes, path_share;
        ccl_cut_use_t of;
    } cut_row;
} ccl_i_explain_t;

/** @param most  links of text. End it with ccl_i_explain_fini(); it must not move meanwhile. */
ccl_status_t ccl_i_explain_init(const ccl_report_explanation_t *about, uint32_t most,
                                ccl_i_explain_t *out, ccl_error_t *err);
void ccl_i_explain_fini(ccl_i_explain_t *root);
ccl_status_t ccl_i_explain_table(ccl_i_explain_t *root, size_t which, ccl_report_format_t format,
                                 ccl_text_t *out, ccl_error_t *err);
/** Of the run's time. */
double ccl_i_explain_share(const ccl_report_explanation_t *about, double time_s);
/** What a change adds to the time, relative: -0.31. */
double ccl_i_explain_change(const ccl_report_explanation_t *about, const ccl_counterfactual_t *c);
/** Name of a link or group; "" for CCL_NONE. Returns out. */
const char *ccl_i_explain_resource(const ccl_report_explanation_t *about, uint32_t resource,
                                   char *out, size_t out_len);
double ccl_i_explain_resource_Bps(const ccl_report_explanation_t *about, uint32_t resource);
/** Links and groups on the path, most of it first. @param out  malloc'ed. */
ccl_status_t ccl_i_explain_resources(const ccl_report_explanation_t *about, ccl_i_keyed_t **out,
                                     uint32_t *n_out, ccl_error_t *err);
/** All time by cause and kind, most of it first. @param out  malloc'ed. */
ccl_status_t ccl_i_explain_causes(const ccl_report_explanation_t *about, ccl_i_keyed_t **out,
                                  uint32_t *n_out, ccl_error_t *err);
/** Edits as options of the command line. */
void ccl_i_explain_scales(const char *const *edits, uint32_t n, ccl_text_t *out);
/** A change likewise. */
void ccl_i_explain_edits(const ccl_counterfactual_t *c, ccl_text_t *out);

/* explain_slow.c: rows of ccl_i_explain_t. */
extern const ccl_i_described_t ccl_i_slow_record;
extern const ccl_i_column_t ccl_i_slow_csv[], ccl_i_slow_text[];
uint64_t ccl_i_explain_count_slow(const void *root);
const void *ccl_i_explain_slow_at(const void *root, uint64_t i, void *scratch);
/** The line that says which slow part decides; nothing where none is slow. */
void ccl_i_explain_slow_verdict(const ccl_report_explanation_t *about, ccl_text_t *out);

#endif
