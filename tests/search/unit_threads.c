/* A comparison is bit-equal on any number of threads. */
#include <stdlib.h>
#include <string.h>

#include "search/compare/compare.h"
#include "tests/topologies/topologies.h"

START_TEST(test_threads) {
    static const double sizes[] = {65536, 1048576, 16777216};
    ccl_topology_t *topo =
        topology("servers:2 gpus:4 nvswitch=300GB/s,0.7us nics:2x25GB/s,2us fabric=rail");
    ccl_collective_t *want = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &want, NULL), CCL_OK);
    ccl_contender_t contenders[16];
    uint32_t n = 0;
    for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && n < 16; ops++)
        if (!(*ops)->by_name)
            contenders[n++] = (ccl_contender_t){.name = (*ops)->name};
    ccl_comparison_t *results[2] = {NULL, NULL};
    for (uint32_t k = 0; k < 2; k++) {
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ctx.threads = k == 0 ? 1 : 4;
        ccl_compare_options_t options = {.size = sizeof options,
                                         .contenders = contenders,
                                         .ncontenders = n,
                                         .sizes_bytes = sizes,
                                         .nsizes = CCL_ARRAY_LEN(sizes),
                                         .synth = CCL_SYNTH_OPTIONS_INIT,
                                         .lower = CCL_LOWER_OPTIONS_INIT,
                                         .sim = CCL_SIM_OPTIONS_INIT};
        ck_assert_msg(ccl_compare(&ctx, topo, want, &options, &results[k], &err) == CCL_OK, "%s",
                      err.text);
    }
    uint32_t times = 0;
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(sizes); i++) {
        ck_assert_uint_eq(results[0]->winner[i], results[1]->winner[i]);
        ck_assert_int_eq(results[0]->tie[i], results[1]->tie[i]);
        const ccl_sim_result_t *a = results[0]->best[i], *b = results[1]->best[i];
        ck_assert(a->time_s == b->time_s && a->events == b->events && a->ntbs == b->ntbs);
        ck_assert(memcmp(a->links, b->links, a->nlinks * sizeof *a->links) == 0);
        ck_assert(memcmp(a->tbs, b->tbs, a->ntbs * sizeof *a->tbs) == 0);
        for (uint32_t c = 0; c < n; c++) {
            const ccl_compare_cell_t *one = &results[0]->cells[i * n + c];
            const ccl_compare_cell_t *four = &results[1]->cells[i * n + c];
            ck_assert_int_eq(one->status, four->status);
            if (one->status != CCL_OK)
                continue;
            ck_assert(one->time_s == four->time_s && one->low_s == four->low_s &&
                      one->high_s == four->high_s);
            ck_assert_uint_eq(one->batches, four->batches);
            times++;
        }
    }
    ck_assert_uint_ge(times, 9);
    ccl_comparison_destroy(results[0]);
    ccl_comparison_destroy(results[1]);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.search.threads");
    TCase *tcase = tcase_create("threads");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_threads);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
