/**
 * @file comparison.h
 * Private to report/: what text and rows of a comparison share.
 */
#ifndef CCL_REPORT_COMPARISON_H
#define CCL_REPORT_COMPARISON_H

#include "report/rows.h"

static inline const ccl_compare_cell_t *ccl_i_compare_cell(const ccl_comparison_t *c, uint32_t size,
                                                           uint32_t contender) {
    return &c->cells[(size_t)size * c->ncontenders + contender];
}
/** Is this contender as good as the winner, as far as the model knows? */
bool ccl_i_compare_tied(const ccl_comparison_t *c, uint32_t size, uint32_t contender);
/** Lower bound at a size, seconds; 0: there is none. */
double ccl_i_compare_bound_s(const ccl_comparison_t *c, uint32_t size);
/** For people. @param columns  of the terminal. */
ccl_status_t ccl_i_compare_text(const ccl_report_comparison_t *r, uint32_t columns, ccl_text_t *out,
                                ccl_error_t *err);

#endif
