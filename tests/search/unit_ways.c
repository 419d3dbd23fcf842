/* One schedule lowered many ways: rows, failures, threads; ways of contenders in a comparison. */
#include "search/compare/compare.h"
#include "search/compare/ways.h"
#include "tests/topologies/topologies.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static ccl_topology_t *topo;
static ccl_collective_t *want;
static ccl_schedule_t *schedule;

static void make(void) {
    ccl_error_t err = CCL_ERROR_INIT;
    topo = topology("servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us "
                    "fabric=rail");
    ck_assert_int_eq(ccl_collective_create(CCL_ALLREDUCE, 8, 1, 0, &want, NULL), CCL_OK);
    ck_assert_msg(ccl_synthesize(NULL, "hm", topo, NULL, want, NULL, &schedule, &err) == CCL_OK,
                  "%s", err.text);
}

static void clean(void) {
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}

static const ccl_way_t every[] = {
    {CCL_ORDER_STEP, CCL_ALLOCATE_CONNECTION, CCL_GRANULARITY_ALGORITHM},
    {CCL_ORDER_RR, CCL_ALLOCATE_CAPACITY, CCL_GRANULARITY_STAGE},
    {CCL_ORDER_HPDS, CCL_ALLOCATE_STATE, CCL_GRANULARITY_TASK},
    {CCL_ORDER_STEP, CCL_ALLOCATE_STATE, CCL_GRANULARITY_ALGORITHM},
};
enum { NWAYS = CCL_ARRAY_LEN(every) };

static ccl_lowered_t *lower(uint32_t threads, bool keep) {
    ccl_lower_ways_options_t options = {sizeof options,       every, NWAYS, CCL_LOWER_OPTIONS_INIT,
                                        CCL_SIM_OPTIONS_INIT, keep};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_lowered_t *rows = NULL;
    ctx.threads = threads;
    options.sim.size_bytes = 16 << 20;
    ccl_status_t status = ccl_lower_ways(&ctx, topo, schedule, &options, &rows, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    return rows;
}

START_TEST(test_rows) {
    ccl_lowered_t *a = lower(1, true), *b = lower(4, false);
    for (uint32_t i = 0; i < NWAYS; i++) {
        ck_assert_msg(a[i].status == CCL_OK, "way %u: %s", i, a[i].why);
        ck_assert_int_eq(a[i].way.order, every[i].order);
        ck_assert_double_gt(a[i].time_s, 0);
        ck_assert_ptr_nonnull(a[i].program);
        ck_assert_ptr_nonnull(a[i].result);
        ck_assert_double_eq(a[i].result->time_s, a[i].time_s);
        ck_assert((a[i].result->stages != NULL) == (every[i].granularity == CCL_GRANULARITY_STAGE));
        ck_assert_ptr_null(b[i].program);
        ck_assert_ptr_null(b[i].result);
        ck_assert_double_eq(a[i].time_s, b[i].time_s);
        ck_assert_double_eq(a[i].usage.mean_idle_share, b[i].usage.mean_idle_share);
        ck_assert_uint_eq(a[i].usage.thread_blocks, b[i].usage.thread_blocks);
        ck_assert((a[i].stats.pipelines > 0) == (every[i].order == CCL_ORDER_HPDS));
    }
    ccl_lowered_destroy(a, NWAYS);
    ccl_lowered_destroy(b, NWAYS);
}
END_TEST

/* What is no collective of these ranks, what is wrong, and nothing at all. */
START_TEST(test_refused) {
    ccl_lower_ways_options_t options = {sizeof options,       every, 0, CCL_LOWER_OPTIONS_INIT,
                                        CCL_SIM_OPTIONS_INIT, false};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_lowered_t *rows = NULL;
    ccl_topology_t *small = NULL;
    options.sim.size_bytes = 1 << 20;
    ck_assert_int_eq(ccl_lower_ways(NULL, topo, schedule, &options, &rows, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "no way"));
    ccl_error_clear(&err);
    options.nways = 1;
    small = topology("servers:1 gpus:4 nvswitch=1GB/s,1us");
    ck_assert_int_eq(ccl_lower_ways(NULL, small, schedule, &options, &rows, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "8 ranks"));
    ccl_error_clear(&err);
    schedule->transfers[0].chunk ^= 1; /* one transfer brings what its source does not hold */
    ck_assert_int_eq(ccl_lower_ways(NULL, topo, schedule, &options, &rows, &err), CCL_CHECK);
    schedule->transfers[0].chunk ^= 1;
    ck_assert_ptr_null(rows);
    ccl_topology_destroy(small);
}
END_TEST

static double time_of(const ccl_contender_t *contender, unsigned bits, ccl_way_t *way_out) {
    static const double size_bytes = 16 << 20;
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = contender,
                                     .ncontenders = 1,
                                     .sizes_bytes = &size_bytes,
                                     .nsizes = 1,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT,
                                     .way_bits = bits};
    ccl_comparison_t *c = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_compare(NULL, topo, want, &options, &c, &err);
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    ck_assert_msg(c->cells[0].status == CCL_OK, "%s", c->why_not[0]);
    ck_assert_uint_eq(c->thread_blocks[0], c->cells[0].usage.thread_blocks);
    ck_assert(c->lowered[0]);
    ck_assert_double_eq(c->best[0]->time_s, c->cells[0].time_s);
    double time_s = c->cells[0].time_s;
    *way_out = c->ways[0];
    ccl_comparison_destroy(c);
    return time_s;
}

START_TEST(test_contenders) {
    ccl_contender_t hpds = {.name = "hpds"};
    ccl_contender_t mine = {.name = "mine", .schedule = schedule, .way = &ccl_way_hpds};
    ccl_contender_t plain = {.name = "plain", .schedule = schedule};
    ccl_lowered_t *rows = lower(1, false);
    ccl_way_t way;
    ck_assert_double_eq(time_of(&hpds, 0, &way), rows[2].time_s);
    ck_assert(memcmp(&way, &ccl_way_hpds, sizeof way) == 0);
    ck_assert_double_eq(time_of(&mine, 0, &way), rows[2].time_s);
    ck_assert_double_eq(time_of(&plain, 0, &way), rows[0].time_s);
    /* The caller's word counts where it is given, and only there. */
    ck_assert_double_eq(time_of(&mine, 7, &way), rows[0].time_s);
    time_of(&mine, CCL_WAY_GRANULARITY, &way);
    ck_assert_int_eq(way.order, CCL_ORDER_HPDS);
    ck_assert_int_eq(way.allocation, CCL_ALLOCATE_STATE);
    ck_assert_int_eq(way.granularity, CCL_GRANULARITY_ALGORITHM);
    ccl_lowered_destroy(rows, NWAYS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ways");
    TCase *tcase = tcase_create("all");
    tcase_add_unchecked_fixture(tcase, make, clean);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_rows);
    tcase_add_test(tcase, test_refused);
    tcase_add_test(tcase, test_contenders);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
