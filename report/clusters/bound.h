/* Private to report: the bound over time, within that of a collective. */
#ifndef CCL_REPORT_CLUSTERS_BOUND_H
#define CCL_REPORT_CLUSTERS_BOUND_H

#include "report/describe.h"

/** What gives a bound, ended by NULL. */
extern const char *const ccl_i_bound_by_words[];
/** A bound at one size; of a cut also where it is. */
typedef struct ccl_i_bound_point {
    const ccl_topology_t *topo;
    const ccl_time_cut_t *cut; /**< NULL: there is none */
    const char *by, *proto;    /**< proto NULL: protocols have no constants of their own */
    double size_bytes, time_s, latency_s, bandwidth_s, over_time_s;
    double messages, partials, fixed_bytes; /**< of the cut; NaN: none */
} ccl_i_bound_point_t;
ccl_i_bound_point_t ccl_i_bound_point(const ccl_topology_t *topo, const ccl_bound_t *bound,
                                      double size_bytes);
/** The cut of a point: who sends to whom, over which links, from when to when. */
extern const ccl_i_described_t ccl_i_bound_cut_record;
/** A point without its cut. */
extern const ccl_i_described_t ccl_i_bound_point_record;
/** Sizes of a curve: powers of four from 1 KiB. */
enum { CCL_I_BOUND_SIZES = 11 };
double ccl_i_bound_size(uint64_t i);
/** The cut of a point as text; at most `rows` links. */
void ccl_i_bound_cut_text(const ccl_i_bound_point_t *point, uint32_t rows, ccl_text_t *out);

#endif
