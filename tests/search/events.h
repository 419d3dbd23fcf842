/* The work of a comparison on one thread. */
#ifndef CCL_TESTS_SEARCH_EVENTS_H
#define CCL_TESTS_SEARCH_EVENTS_H

#include <check.h>

#include "search/compare/compare.h"

/** Events that a comparison of one contender simulates; it must run at every size. */
static inline uint64_t events_of(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                                 const ccl_contender_t *contender, const double *sizes,
                                 uint32_t nsizes) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *want = NULL;
    ccl_comparison_t *made = NULL;
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ctx.threads = 1;
    ctx.work = &work;
    options.contenders = contender;
    options.ncontenders = 1;
    options.sizes_bytes = sizes;
    options.nsizes = nsizes;
    ck_assert_int_eq(ccl_collective_create(kind, topo->nranks, 1, 0, &want, &err), CCL_OK);
    ck_assert_msg(ccl_compare(&ctx, topo, want, &options, &made, &err) == CCL_OK, "%s", err.text);
    for (uint32_t k = 0; k < nsizes; k++)
        ck_assert_int_eq(made->cells[k].status, CCL_OK);
    ccl_comparison_destroy(made);
    ccl_collective_destroy(want);
    return work.events;
}

#endif
