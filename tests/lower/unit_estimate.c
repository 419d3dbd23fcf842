/*
 * The choices of a lowering take less than runs in full where runs of many micro-batches do not
 * become periodic; the run that a lowering hands out is none of the extrapolated ones.
 */
#include "bench/small_clusters.h"
#include "lower/lower.h"
#include "tests/synth/common.h"

START_TEST(test_work) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = small_cluster(1, 90, &err); /* bench_synth_small --from 90 */
    ck_assert_msg(topo != NULL, "%s", err.text);
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *full = NULL, *given = NULL;
    ccl_work_t work = {0};
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ck_assert_int_eq(ccl_synthesize(NULL, "hm", topo, NULL, want, &synth, &schedule, &err), CCL_OK);
    ctx.work = &work;
    lower.topo = topo;
    lower.size_bytes = sim.size_bytes = 128 << 20;
    lower.order = CCL_ORDER_HPDS;
    lower.allocation = CCL_ALLOCATE_STATE;
    lower.granularity = sim.granularity = CCL_GRANULARITY_TASK;
    lower.run_out = &given;
    ck_assert_int_eq(ccl_lower(&ctx, schedule, &lower, &program, &err), CCL_OK);
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &sim, &full, &err), CCL_OK);
    /* 10.3 runs in full without estimates */
    ck_assert_double_le((double)work.events, 8.5 * (double)full->events);
    ck_assert(!given || given->time_s == full->time_s);
    ccl_sim_result_destroy(full);
    ccl_sim_result_destroy(given);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lower.estimate");
    TCase *tcase = tcase_create("estimate");
    tcase_add_test(tcase, test_work);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
