/* Testbeds: predictions, a fit to synthetic runs, suites of a cluster. No namespaces. */
#include "common.h"

#include <unistd.h>

#define FOUR "servers:4 gpus:1 nics:1x25GB/s"
#define TWO "servers:2 gpus:1 nics:1x25GB/s"

static ccl_testbed_plan_t *plan_of(const char *spec) {
    ccl_topology_t *topo = topology(spec);
    ccl_testbed_plan_t *plan = NULL;
    OK(ccl_testbed_plan(topo, 5e8, &plan, &err));
    ccl_topology_destroy(topo);
    return plan;
}

/* ---------------------------------------------------------------- prediction */

START_TEST(head_start) {
    ccl_testbed_plan_t *plan = plan_of(FOUR);
    ccl_testbed_constants_t c = CCL_TESTBED_CONSTANTS_INIT;
    ccl_topology_t *topo = NULL;
    ccl_suite_t *suite = NULL;
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    double time_s = 0, rate = 5e8 / 8 * 1448 / 1514;
    c = (ccl_testbed_constants_t){
        .efficiency = 1, .tb_rate_Bps = 1e15, .local_Bps = 1e15, .reduce_rate_Bps = 1e15};
    OK(ccl_testbed_topology(plan, &c, &topo, &err));
    OK(ccl_suite_read_on(NULL, "default", topo, &suite, &err));
    o.size_bytes = 16 << 20;
    /* AllGather, direct: three quarters of the buffer leave every server, less the head start. */
    uint32_t at = 0;
    while (strcmp(suite->cases[at].schedule, "direct") != 0)
        at++;
    OK(ccl_testbed_predict(NULL, plan, topo, suite->cases[at].program, &o, &time_s, &err));
    ck_assert_double_eq_tol(time_s, 0.75 * o.size_bytes / rate - plan->head_start_s, 1e-4);
    /* What the buckets let pass altogether takes as long as without them. */
    o.size_bytes = 1 << 14;
    OK(ccl_testbed_predict(NULL, plan, topo, suite->cases[at].program, &o, &time_s, &err));
    ck_assert_double_gt(time_s, 0);
    ck_assert_double_lt(time_s, 0.75 * o.size_bytes / rate / 2);
    ccl_suite_destroy(suite);
    ccl_topology_destroy(topo);
    ccl_testbed_plan_destroy(plan);
}
END_TEST

/* ---------------------------------------------------------------- calibration */

typedef struct machine {
    ccl_testbed_plan_t *plans[2];
    ccl_topology_t *topos[2];
    double noise;
    ccl_rng_t rng;
} machine_t;

/* The model itself as the machine, with noise that only slows runs down. */
static ccl_status_t play(const ccl_program_t *program, const ccl_run_options_t *options,
                         double *time_s, void *user, ccl_error_t *error) {
    machine_t *m = user;
    if (options->world <= 1) { /* within a server */
        *time_s = options->size_bytes < 1e5 ? 64 * 2e-7 : options->size_bytes / 2 / 2e9;
        return CCL_OK;
    }
    int all = options->world == 4;
    CCL_TRY(
        ccl_testbed_predict(NULL, m->plans[all], m->topos[all], program, options, time_s, error));
    *time_s *= 1 + m->noise * ccl_rng_unit(&m->rng);
    return CCL_OK;
}

START_TEST(recovers_constants) {
    machine_t m = {.plans = {plan_of(TWO), plan_of(FOUR)}, .noise = 0.02};
    ccl_testbed_constants_t truth = CCL_TESTBED_CONSTANTS_INIT;
    ccl_testbed_calibration_t *made = NULL;
    ccl_run_options_t run = CCL_RUN_OPTIONS_INIT;
    truth.latency_s = 90e-6;
    truth.overhead_s = 30e-6;
    truth.launch_s = 20e-6;
    truth.efficiency = 0.94;
    truth.local_Bps = 2e9;
    for (int i = 0; i < 2; i++)
        OK(ccl_testbed_topology(m.plans[i], &truth, &m.topos[i], &err));
    ccl_rng_init(&m.rng, 1);
    OK(ccl_testbed_calibrate(NULL, m.plans[1], NULL, &run, 9, play, &m, &made, &err));
    ck_assert_double_eq_tol(made->values.efficiency / truth.efficiency, 1, 0.01);
    ck_assert_double_eq_tol(made->values.latency_s / truth.latency_s, 1, 0.15);
    ck_assert_double_eq_tol(made->values.overhead_s / truth.overhead_s, 1, 0.3);
    ck_assert_double_eq_tol(made->values.launch_s / truth.launch_s, 1, 0.1);
    ck_assert_double_eq_tol(made->values.local_overhead_s, 1e-7, 1e-12);
    ck_assert_double_eq_tol(made->values.local_Bps / 2e9, 1, 1e-9);
    ck_assert_double_lt(made->median_error, 0.02);
    ck_assert_uint_eq(made->nconstants, 8);
    for (uint32_t i = 0; i < made->nconstants; i++)
        ck_assert(made->constants[i].low <= made->constants[i].value &&
                  made->constants[i].value <= made->constants[i].high);
    ccl_testbed_calibration_destroy(made);
    for (int i = 0; i < 2; i++) {
        ccl_topology_destroy(m.topos[i]);
        ccl_testbed_plan_destroy(m.plans[i]);
    }
}
END_TEST

/* ---------------------------------------------------------------- suites */

START_TEST(suite_of_a_cluster) {
    ccl_topology_t *topo = NULL;
    ccl_suite_t *suite = NULL;
    char path[] = "/tmp/ccllab_suite_XXXXXX";
    int fd = mkstemp(path);
    topo = topology("servers:3 gpus:1 nics:1x25GB/s");
    OK(ccl_suite_read_on(NULL, "default", topo, &suite, &err));
    ck_assert_uint_gt(suite->ncases, 8);
    for (uint32_t i = 0; i < suite->ncases; i++)
        ck_assert_uint_eq(suite->cases[i].program->nranks, 3);
    ccl_suite_destroy(suite);
    suite = NULL;
    ck_assert_int_ge(fd, 0);
    static const char line[] = "allgather ring 4\n";
    ck_assert_int_eq(write(fd, line, strlen(line)), (int)strlen(line));
    close(fd);
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_suite_read_on(NULL, path, topo, &suite, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "4 ranks, but the cluster has 3"));
    unlink(path);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(head_start, recovers_constants, suite_of_a_cluster)
