/*
 * Ties are looked for at sizes next to the one asked for, where a chunk may have a slice more than
 * the FIFOs hold: a run that hangs there says nothing about the size itself.
 */
#include "bench/small_clusters.h"
#include "search/compare/compare.h"
#include "tests/topologies/topologies.h"

START_TEST(a_deadlock_next_to_a_size) {
    static const ccl_contender_t contenders[] = {{.name = "ring"}, {.name = "greedy"}};
    static const double size = 67108864;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = small_cluster(2026, 11, &err);
    ccl_collective_t *want = NULL;
    ccl_comparison_t *made = NULL;
    options.contenders = contenders;
    options.ncontenders = CCL_ARRAY_LEN(contenders);
    options.sizes_bytes = &size;
    options.nsizes = 1;
    options.protocols = true;
    MUST(ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, e));
    MUST(ccl_compare(NULL, topo, want, &options, &made, e));
    ck_assert_uint_ne(made->winner[0], CCL_NONE);
    for (uint32_t i = 0; i < options.ncontenders; i++)
        ck_assert_int_eq(made->cells[i].status, CCL_OK);
    ccl_comparison_destroy(made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(a_deadlock_next_to_a_size)
