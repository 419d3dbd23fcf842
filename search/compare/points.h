/* Private to search: points of the notebook, for comparisons and tunings alike. */
#ifndef CCL_SEARCH_POINTS_H
#define CCL_SEARCH_POINTS_H

#include "search/compare/compare.h"

/** Keep cluster and collective, and return their hashes. @param notebook  NULL: only the hashes. */
ccl_status_t ccl_i_point_inputs(ccl_notebook_t *notebook, const ccl_topology_t *topo,
                                const ccl_collective_t *want, ccl_content_t topology_out,
                                ccl_content_t demand_out, ccl_error_t *err);
/** A demand as the notebook keeps it. @param out  destroy with ccl_collective_destroy(). */
ccl_status_t ccl_i_point_demand(const char *text, ccl_collective_t **out, ccl_error_t *err);
/** Whether what the notebook keeps of them reads as the same again, so that others can work on it.
 */
ccl_status_t ccl_i_point_again(const ccl_topology_t *topo, const ccl_collective_t *want,
                               bool *same_out, ccl_error_t *err);
/** Log, once for a notebook, that all it knows of these inputs is of other builds of ccllab. */
ccl_status_t ccl_i_notebook_tell(const ccl_ctx_t *ctx, ccl_notebook_t *notebook,
                                 const ccl_content_t topology, const ccl_content_t demand,
                                 ccl_error_t *err);
/** Settings of a synthesizer in a comparison, as those of a tuning; malloc'ed, NULL: no memory. */
char *ccl_i_compare_settings(const ccl_compare_options_t *options,
                             const ccl_contender_t *contender);

#endif
