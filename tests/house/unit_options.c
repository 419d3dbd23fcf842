/* Every function that takes a struct of options refuses one of another size before it looks at
   anything else. headers.sh checks that none is missing here. */
#include "draw/draw.h"
#include "search/search.h"
#include "tests/base/main.h"
#include "training/training.h"

#include <string.h>

/* The defaults of each. */
static const ccl_alltoallv_options_t default_ccl_alltoallv_options_t = CCL_ALLTOALLV_OPTIONS_INIT;
static const ccl_bound_options_t default_ccl_bound_options_t = CCL_BOUND_OPTIONS_INIT;
static const ccl_calibrate_options_t default_ccl_calibrate_options_t = CCL_CALIBRATE_OPTIONS_INIT;
static const ccl_compare_options_t default_ccl_compare_options_t = CCL_COMPARE_OPTIONS_INIT;
static const ccl_draw_timeline_options_t default_ccl_draw_timeline_options_t =
    CCL_DRAW_TIMELINE_OPTIONS_INIT;
static const ccl_draw_topology_options_t default_ccl_draw_topology_options_t =
    CCL_DRAW_TOPOLOGY_OPTIONS_INIT;
static const ccl_explain_options_t default_ccl_explain_options_t = CCL_EXPLAIN_OPTIONS_INIT;
static const ccl_failover_options_t default_ccl_failover_options_t = CCL_FAILOVER_OPTIONS_INIT;
static const ccl_gpu_calibrate_options_t default_ccl_gpu_calibrate_options_t =
    CCL_GPU_CALIBRATE_OPTIONS_INIT;
static const ccl_host_calibrate_options_t default_ccl_host_calibrate_options_t =
    CCL_HOST_CALIBRATE_OPTIONS_INIT;
static const ccl_improve_options_t default_ccl_improve_options_t = CCL_IMPROVE_OPTIONS_INIT;
static const ccl_lab_options_t default_ccl_lab_options_t = CCL_LAB_OPTIONS_INIT;
static const ccl_lower_options_t default_ccl_lower_options_t = CCL_LOWER_OPTIONS_INIT;
static const ccl_lower_ways_options_t default_ccl_lower_ways_options_t =
    CCL_LOWER_WAYS_OPTIONS_INIT;
static const ccl_make_options_t default_ccl_make_options_t = CCL_MAKE_OPTIONS_INIT;
static const ccl_moe_options_t default_ccl_moe_options_t = CCL_MOE_OPTIONS_INIT;
static const ccl_order_options_t default_ccl_order_options_t = CCL_ORDER_OPTIONS_INIT;
static const ccl_replay_options_t default_ccl_replay_options_t = CCL_REPLAY_OPTIONS_INIT;
static const ccl_run_options_t default_ccl_run_options_t = CCL_RUN_OPTIONS_INIT;
static const ccl_standalone_options_t default_ccl_standalone_options_t =
    CCL_STANDALONE_OPTIONS_INIT;
static const ccl_sim_options_t default_ccl_sim_options_t = CCL_SIM_OPTIONS_INIT;
static const ccl_synth_options_t default_ccl_synth_options_t = CCL_SYNTH_OPTIONS_INIT;
static const ccl_topology_join_options_t default_ccl_topology_join_options_t =
    CCL_TOPOLOGY_JOIN_OPTIONS_INIT;
static const ccl_thresholds_options_t default_ccl_thresholds_options_t =
    CCL_THRESHOLDS_OPTIONS_INIT;
static const ccl_training_options_t default_ccl_training_options_t = CCL_TRAINING_OPTIONS_INIT;
static const ccl_tune_options_t default_ccl_tune_options_t = CCL_TUNE_OPTIONS_INIT;
static const ccl_tune_sample_options_t default_ccl_tune_sample_options_t =
    CCL_TUNE_SAMPLE_OPTIONS_INIT;
static const ccl_tune_work_options_t default_ccl_tune_work_options_t = CCL_TUNE_WORK_OPTIONS_INIT;
static const ccl_validate_options_t default_ccl_validate_options_t = CCL_VALIDATE_OPTIONS_INIT;
static const ccl_verify_options_t default_ccl_verify_options_t = CCL_VERIFY_OPTIONS_INIT;
static const ccl_watch_options_t default_ccl_watch_options_t = CCL_WATCH_OPTIONS_INIT;

/* `call` uses `&options` and `&err`; `member` is the struct of `type` whose size is wrong. */
#define REFUSES_MEMBER(outer_, type_, member_, call_)                                              \
    do {                                                                                           \
        const size_t wrong[] = {0, sizeof(type_) - sizeof(void *),                                 \
                                sizeof(type_) + sizeof(void *)};                                   \
        outer_ options = default_##outer_;                                                         \
        for (size_t i = 0; i < CCL_ARRAY_LEN(wrong); i++) {                                        \
            ccl_error_t err = CCL_ERROR_INIT;                                                      \
            options.member_ = wrong[i];                                                            \
            ck_assert_msg(call_ == CCL_ERR_INPUT, "%s, %zu", #call_, wrong[i]);                    \
            ck_assert_msg(strncmp(err.text, #type_ " ", strlen(#type_) + 1) == 0, "%s", err.text); \
        }                                                                                          \
    } while (0)
#define REFUSES(type_, call_) REFUSES_MEMBER(type_, type_, size, call_)
#define REFUSES_LOWER(type_, call_)                                                                \
    REFUSES_MEMBER(type_, ccl_lower_options_t, lower.size, call_);                                 \
    REFUSES_MEMBER(type_, ccl_sim_options_t, sim.size, call_)
#define REFUSES_RUN(type_, call_)                                                                  \
    REFUSES(type_, call_);                                                                         \
    REFUSES_MEMBER(type_, ccl_run_options_t, run.size, call_)

START_TEST(test_made) {
    REFUSES(ccl_topology_join_options_t, ccl_topology_join(NULL, NULL, 1, &options, NULL, &err));
    REFUSES(ccl_alltoallv_options_t, ccl_alltoallv_create(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_moe_options_t, ccl_moe_demand(NULL, &options, NULL, NULL, &err));
    REFUSES(ccl_bound_options_t, ccl_bound(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_verify_options_t, ccl_program_verify(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_synth_options_t,
            ccl_synthesize(NULL, "ring", NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_synth_options_t,
            ccl_synth_capacities(NULL, NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_order_options_t, ccl_schedule_order(NULL, NULL, &options, NULL, NULL, NULL, &err));
    REFUSES(ccl_lower_options_t, ccl_lower(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_lower_options_t, ccl_lower_run(NULL, &options, NULL, 0, &err));
    REFUSES(ccl_make_options_t, ccl_make_program(NULL, NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_synth_options_t,
            ccl_make(NULL, "ring", NULL, NULL, NULL, &options, NULL, false, NULL, &err));
    REFUSES(ccl_lower_options_t,
            ccl_make(NULL, "ring", NULL, NULL, NULL, NULL, &options, false, NULL, &err));
}
END_TEST

START_TEST(test_run) {
    REFUSES(ccl_sim_options_t, ccl_sim_program(NULL, NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_sim_options_t, ccl_sim_flows(NULL, NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_run_program(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_run_order(NULL, &options, NULL, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_run_kernel_text(NULL, &options, NULL, &err));
    REFUSES(ccl_standalone_options_t, ccl_standalone_write(NULL, &options, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_bootstrap_open(NULL, CCL_BOOTSTRAP_AUTO, &options, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_testbed_run(NULL, NULL, NULL, &options, NULL, &err));
}
END_TEST

START_TEST(test_searched) {
    REFUSES(ccl_compare_options_t, ccl_compare(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES_MEMBER(ccl_compare_options_t, ccl_synth_options_t, synth.size,
                   ccl_compare(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES_LOWER(ccl_compare_options_t, ccl_compare(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_lower_ways_options_t, ccl_lower_ways(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES_LOWER(ccl_lower_ways_options_t, ccl_lower_ways(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_tune_options_t, ccl_tune(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_tune_work_options_t, ccl_tune_work(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_lab_options_t, ccl_lab_join(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_tune_sample_options_t,
            ccl_tune_sample(NULL, NULL, NULL, NULL, &options, NULL, &err));
    REFUSES_RUN(ccl_replay_options_t,
                ccl_tune_replay(NULL, NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_improve_options_t, ccl_improve(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES_LOWER(ccl_improve_options_t, ccl_improve(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_explain_options_t, ccl_explain(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_failover_options_t, ccl_failover(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES_MEMBER(ccl_explain_options_t, ccl_synth_options_t, synth.size,
                   ccl_explain(NULL, NULL, &options, NULL, &err));
    REFUSES_LOWER(ccl_explain_options_t, ccl_explain(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_training_options_t, ccl_training_estimate(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_draw_topology_options_t, ccl_draw_topology(NULL, &options, NULL, &err));
    REFUSES(ccl_draw_timeline_options_t,
            ccl_draw_timeline(NULL, NULL, NULL, NULL, &options, NULL, &err));
}
END_TEST

START_TEST(test_measured) {
    REFUSES(ccl_watch_options_t, ccl_watch_create(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_thresholds_options_t, ccl_thresholds_make(NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_calibrate_options_t, ccl_calibrate(NULL, NULL, 0, &options, NULL, &err));
    REFUSES(ccl_calibrate_options_t,
            ccl_validate_measured(NULL, NULL, 0, NULL, &options, NULL, &err));
    REFUSES(ccl_calibrate_options_t, ccl_calibrate_switch(NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_host_program(NULL, &options, NULL, 1, NULL, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_host_predict(NULL, NULL, &options, NULL, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_gpu_predict(NULL, NULL, &options, NULL, NULL, &err));
    REFUSES(ccl_run_options_t, ccl_testbed_predict(NULL, NULL, NULL, NULL, &options, NULL, &err));
    REFUSES(ccl_run_options_t,
            ccl_testbed_calibrate(NULL, NULL, NULL, &options, 0, NULL, NULL, NULL, &err));
    REFUSES_RUN(ccl_host_calibrate_options_t, ccl_host_calibrate(NULL, &options, NULL, &err));
    REFUSES_RUN(ccl_gpu_calibrate_options_t, ccl_gpu_calibrate(NULL, &options, NULL, &err));
    REFUSES_RUN(ccl_validate_options_t,
                ccl_validate_host(NULL, NULL, NULL, 0, NULL, 0, &options, NULL, &err));
    REFUSES_RUN(ccl_validate_options_t,
                ccl_validate_gpu(NULL, NULL, NULL, 0, NULL, 0, &options, NULL, &err));
    REFUSES_RUN(ccl_validate_options_t,
                ccl_validate_testbed(NULL, NULL, NULL, NULL, 0, NULL, 0, &options, NULL, &err));
}
END_TEST

/* What each kind of error says; the right size and no options at all pass. */
START_TEST(test_texts) {
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_error_t none = CCL_ERROR_INIT, other = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_options_check("x_t", NULL, sizeof options, NULL), CCL_OK);
    ck_assert_int_eq(ccl_options_check("x_t", &options, sizeof options, NULL), CCL_OK);
    ck_assert_int_eq(ccl_options_check("x_t", &options, options.size + 8, &other), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(
        strstr(other.text, ": compile with the headers of libccllab " CCL_VERSION));
    options.size = 0;
    ck_assert_int_eq(ccl_options_check("x_t", &options, sizeof options, &none), CCL_ERR_INPUT);
    ck_assert_str_eq(none.text, "x_t has no size: initialise it with its _INIT macro");
}
END_TEST

RUN_TESTS(test_made, test_run, test_searched, test_measured, test_texts)
