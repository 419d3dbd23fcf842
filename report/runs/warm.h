/* Private to report: what a schedule took over from a former one. */
#ifndef CCL_REPORT_WARM_H
#define CCL_REPORT_WARM_H

#include "report/describe.h"
#include "synth/synth.h"

typedef struct ccl_i_warm_row {
    ccl_warm_stats_t of;
    const ccl_topology_t *topo;
} ccl_i_warm_row_t;

/** Of a ccl_i_warm_row_t. */
extern const ccl_i_described_t ccl_i_warm_record;
void ccl_i_warm_text(const ccl_warm_stats_t *s, const ccl_topology_t *topo, ccl_text_t *out);

#endif
