/*
 * Work follows the size of the question: events that comparisons simulate on small random clusters,
 * for one synthesizer at two sizes. bench_synth_small counts the same on a hundred.
 */
#include "bench/small_clusters.h"
#include "tests/search/events.h"
#include "tests/topologies/topologies.h"

typedef struct question {
    uint32_t number; /* of bench_synth_small, whose sizes and collectives these are */
    ccl_collective_kind_t kind;
    double sizes[2];
    const char *synthesizer;
    double events; /* at most; 3 % above what there are */
    double before; /* as long as nothing was known of runs made before; of cegis, as long as its
                      races were run to their ends, and long schedules lowered in every order; of
                      the last rows, without what their ends say */
} question_t;

static const question_t QUESTIONS[] = {
    {12, CCL_REDUCESCATTER, {4096, 134217728}, "hpds", 15600, 30147},
    {12, CCL_REDUCESCATTER, {4096, 134217728}, "greedy", 33700, 50178},
    {12, CCL_REDUCESCATTER, {4096, 134217728}, "sketch", 119500, 257626},
    {12, CCL_REDUCESCATTER, {4096, 134217728}, "cegis", 81700, 236410},
    {72, CCL_REDUCESCATTER, {1048576, 2097152}, "cegis", 339000, 766789},
    {67, CCL_REDUCESCATTER, {131072, 134217728}, "cegis", 3928000, 5843791},
    {51, CCL_ALLGATHER, {32768, 16777216}, "hpds", 11200, 21300},
    {51, CCL_ALLGATHER, {32768, 16777216}, "greedy", 37700, 45753},
    {51, CCL_ALLGATHER, {32768, 16777216}, "sketch", 27300, 62814},
    /* a climb that goes on; 1049308 without long_within, 1861744 small_long */
    {7, CCL_REDUCESCATTER, {524288, 33554432}, "sketch", 1020000, 1053304},
    {15, CCL_ALLREDUCE, {1048576, 2097152}, "sketch", 910000, 939350},  /* an order's best so far */
    {63, CCL_BROADCAST, {1024, 134217728}, "sketch", 378000, 740036},   /* small_flow */
    {65, CCL_ALLREDUCE, {65536, 16777216}, "sketch", 1538000, 1962174}, /* small_fine */
    {67, CCL_REDUCESCATTER, {131072, 134217728}, "sketch", 2850000, 2978551}, /* ALIKE_FINALISTS */
    /* small_behind; of what lowering compares each time of steps: 11230384 */
    {80, CCL_ALLREDUCE, {32768, 268435456}, "sketch", 11190000, 13722730},
    /* the winner's order run once more for its times of steps: 2268047 */
    {79, CCL_ALLTOALL, {32768, 134217728}, "sketch", 2167000, 2268047},
};

START_TEST(test_events) {
    const question_t *q = &QUESTIONS[_i];
    const ccl_contender_t contender = {.name = q->synthesizer};
    ccl_error_t err = CCL_ERROR_INIT;
    if (SANITIZED && q->events > 2e6) /* more of the same code */
        return;
    ccl_topology_t *topo = small_cluster(1, q->number, &err);
    ck_assert_msg(topo != NULL, "%s", err.text);
    uint64_t events = events_of(topo, q->kind, &contender, q->sizes, 2);
    ck_assert_msg((double)events <= q->events, "%s on small-%u: %llu events, %.0f before",
                  q->synthesizer, q->number, (unsigned long long)events, q->before);
    ccl_topology_destroy(topo);
}
END_TEST

/* Where chains do not reach all GPUs of a group lacking hops, the other candidates go on. */
START_TEST(test_chains_that_end) {
    static const double sizes[] = {1048576, 2097152};
    const ccl_contender_t contender = {.name = "sketch"};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = small_cluster(501, 18, &err);
    ck_assert_msg(topo != NULL, "%s", err.text);
    ck_assert_uint_gt(events_of(topo, CCL_BROADCAST, &contender, sizes, 2), 0);
    ccl_topology_destroy(topo);
}
END_TEST

/* Of pairs of 89 sketches those that may come near the best: 4006 programs without that. */
START_TEST(test_few_mixes) {
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_synth_stats_t stats = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = SANITIZED ? NULL : small_cluster(1, 79, &err);
    ccl_collective_t *want = NULL;
    ccl_schedule_t *made = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    if (SANITIZED) /* more of the same code */
        return;
    ctx.threads = 1;
    options.size_bytes = 134217728;
    options.stats = &stats;
    ck_assert_msg(topo != NULL, "%s", err.text);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLTOALL, topo->nranks, 1, 0, &want, &err), CCL_OK);
    ck_assert_msg(ccl_synthesize(&ctx, "sketch", topo, NULL, want, &options, &made, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_uint_gt(stats.sketch.mixes_tried, 0);
    ck_assert_uint_le(stats.sketch.mixes_tried, 2000);
    ccl_schedule_destroy(made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* The run that lowering for a protocol makes is the cell's. */
START_TEST(test_lowered_again) {
    static const double sizes[] = {67108864};
    const ccl_contender_t contender = {.name = "hpds"};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = topology("dgx-h100*2");
    ccl_collective_t *want = NULL;
    ccl_comparison_t *made = NULL;
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_compare_options_t options = CCL_COMPARE_OPTIONS_INIT;
    ctx.threads = 1;
    ctx.work = &work;
    options.contenders = &contender;
    options.ncontenders = 1;
    options.sizes_bytes = sizes;
    options.nsizes = 1;
    options.protocols = true;
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, 16, 1, 0, &want, &err), CCL_OK);
    ck_assert_msg(ccl_compare(&ctx, topo, want, &options, &made, &err) == CCL_OK, "%s", err.text);
    ck_assert_str_ne(made->cells[0].proto, "Simple");
    ck_assert_uint_le(work.events, 440000); /* 492,000 where it is run once more */
    ccl_comparison_destroy(made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.search.small_work");
    TCase *tcase = tcase_create("events");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_events, 0, CCL_ARRAY_LEN(QUESTIONS));
    tcase_add_test(tcase, test_chains_that_end);
    tcase_add_test(tcase, test_few_mixes);
    tcase_add_test(tcase, test_lowered_again);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
