/**
 * @file constants.h
 * Private to report/: constants that calibrations fitted.
 */
#ifndef CCL_REPORT_CONSTANTS_H
#define CCL_REPORT_CONSTANTS_H

#include "report/describe.h"

/** Member `constants` of a result's root row. */
typedef struct ccl_i_constants {
    const ccl_constant_t *list;
    uint32_t n;
    bool priors;           /**< they have values from before the fit */
    const char *time_unit; /**< for people */
    double per_s;          /**< of these in a second */
    int digits;            /**< of values for people */
    const char *says;      /**< heading of the column that says whether the runs determine it */
} ccl_i_constants_t;

uint64_t ccl_i_count_constants(const void *constants);
const void *ccl_i_constant_at(const void *constants, uint64_t i, void *scratch);
extern const ccl_i_described_t ccl_i_constant_record; /**< of logs and of the host */
extern const ccl_i_described_t ccl_i_gpu_constant_record;
extern const ccl_i_described_t ccl_i_replay_constant_record;
/** The field "constants" of a root of struct `T`. */
#define CCL_I_CONSTANTS(T, record)                                                                 \
    { "constants", CCL_I_LIST_IN(T, constants, record, ccl_i_count_constants, ccl_i_constant_at) }
/** The table of a root's field "constants". */
ccl_status_t ccl_i_constants_emit(const ccl_i_described_t *root, const void *row,
                                  const ccl_i_constants_t *of, ccl_report_format_t format,
                                  ccl_text_t *out, ccl_error_t *err);

#endif
