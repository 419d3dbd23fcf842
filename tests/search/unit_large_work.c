/*
 * Work on large clusters: what baselines do alike on every rail is simulated once. Events of
 * comparisons at one size on 64 GPUs; as soon as one rail is treated otherwise there are some
 * times as many.
 */
#include "search/compare/compare.h"
#include "tests/topologies/topologies.h"

typedef struct question {
    const char *cluster, *contender;
    ccl_collective_kind_t kind;
    double size_bytes;
    double events; /* at most; 3 % above what there are */
    double before; /* as long as rails were not treated alike */
} question_t;

static const question_t QUESTIONS[] = {
    {"dgx-h100*8", "tree", CCL_ALLREDUCE, 1073741824, 69800, 1096264},
    {"dgx-h100*8", "nccl", CCL_ALLREDUCE, 67108864, 173500, 2150464},
};

START_TEST(test_events) {
    const question_t *q = &QUESTIONS[_i];
    const ccl_contender_t contender = {.name = q->contender,
                                       .library = strcmp(q->contender, "nccl") == 0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = topology(q->cluster);
    ccl_collective_t *want = NULL;
    ccl_comparison_t *made = NULL;
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.threads = 1;
    ctx.work = &work;
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = &contender,
                                     .ncontenders = 1,
                                     .sizes_bytes = &q->size_bytes,
                                     .nsizes = 1,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT};
    ck_assert_int_eq(ccl_collective_create(q->kind, topo->nranks, 1, 0, &want, &err), CCL_OK);
    ck_assert_msg(ccl_compare(&ctx, topo, want, &options, &made, &err) == CCL_OK, "%s", err.text);
    ck_assert_int_eq(made->cells[0].status, CCL_OK);
    ck_assert_msg((double)work.events <= q->events, "%s at %.0f: %llu events, %.0f before",
                  q->contender, q->size_bytes, (unsigned long long)work.events, q->before);
    ccl_comparison_destroy(made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.search.large_work");
    TCase *tcase = tcase_create("events");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_events, 0, CCL_ARRAY_LEN(QUESTIONS));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
