/*
 * Out of memory while logs are read, profiles laid, runs diagnosed and fitted: CCL_ERR_NOMEM, no
 * output, nothing leaked. Reading fails at every allocation in turn, the long ones at some of them.
 */
#include "tests/validate/common.h"

#include "tests/base/failing_malloc.h"

static const char log_text[] =
    "# Collective test starting: all_gather_perf\n"
    "# nThread 1 nGpus 1 minBytes 8\n"
    "#  Rank  0 Group  0 Pid  1 on a device  0 [0x00] X\n"
    "#  Rank  1 Group  0 Pid  2 on b device  0 [0x00] X\n"
    "# size count type redop root time algbw busbw #wrong\n"
    " 4096 256 half none -1 9.0 0.4 0.2 0\n 65536 4096 half none -1 12.0 5.4 2.7 0\n"
    " 1048576 65536 half none -1 31.0 33.8 16.9 0\n";
static const char csv_text[] = "op,ranks,size_bytes,oop_us,gpu\nallreduce,2,1024,3,X\n"
                               "allgather,2,1024,3,X\nallgather,2,2048,3,X\n";
static const char profile_text[] =
    "{\"format\": \"ccllab-profile-1\", \"name\": \"p\", \"links\": {\"nvlink\": {\"efficiency\": "
    "0.8}}, \"transports\": {\"nvlink\": {\"protocols\": {\"LL\": {\"tb_rate\": \"5GB/s\"}}}}}";

static ccl_topology_t *two;
static ccl_measured_log_t *measured;
static ccl_profile_t *profile;

static ccl_status_t scenario_log(ccl_error_t *err) {
    ccl_measured_log_t *log = NULL;
    ccl_status_t status = ccl_measured_read_text("l", log_text, strlen(log_text), &log, err);
    armed = false;
    ck_assert((log != NULL) == (status == CCL_OK));
    ccl_measured_log_destroy(log);
    return status;
}

static ccl_status_t scenario_csv(ccl_error_t *err) {
    ccl_measured_log_t *log = NULL;
    ccl_status_t status = ccl_measured_read_text("l", csv_text, strlen(csv_text), &log, err);
    armed = false;
    ck_assert((log != NULL) == (status == CCL_OK));
    ccl_measured_log_destroy(log);
    return status;
}

static ccl_status_t scenario_profile(ccl_error_t *err) {
    ccl_profile_t *p = NULL;
    ccl_status_t status = ccl_profile_read_text("p", profile_text, strlen(profile_text), &p, err);
    armed = false;
    ck_assert((p != NULL) == (status == CCL_OK));
    ccl_profile_destroy(p);
    return status;
}

static ccl_status_t scenario_apply(ccl_error_t *err) {
    ccl_topology_t *t = NULL;
    ccl_status_t status = ccl_profile_apply(NULL, profile, two, &t, err);
    armed = false;
    ck_assert((t != NULL) == (status == CCL_OK));
    ccl_topology_destroy(t);
    return status;
}

static ccl_status_t scenario_take(ccl_error_t *err) {
    ccl_topology_t *t = NULL;
    ccl_status_t status = ccl_topology_take(two, 2, 2, &t, err);
    armed = false;
    ck_assert((t != NULL) == (status == CCL_OK));
    ccl_topology_destroy(t);
    return status;
}

static ccl_status_t scenario_diagnose(ccl_error_t *err) {
    ccl_diagnosis_run_t *d = NULL;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.threads = 1; /* a thread that cannot be made is done without, which is no failure */
    ccl_status_t status =
        ccl_diagnose(&ctx, two, profile, &measured->runs[0], 1, false, false, &d, err);
    armed = false;
    ck_assert((d != NULL) == (status == CCL_OK));
    ccl_diagnosis_destroy(d);
    return status;
}

static ccl_status_t scenario_calibrate(ccl_error_t *err) {
    ccl_calibrate_options_t options = CCL_CALIBRATE_OPTIONS_INIT;
    ccl_calibration_t *c = NULL;
    options.channels = 1;
    const ccl_measured_source_t source = source_of(two, &measured->runs[0]);
    ccl_status_t status = ccl_calibrate(NULL, &source, 1, &options, &c, err);
    armed = false;
    ck_assert((c != NULL) == (status == CCL_OK));
    ccl_calibration_destroy(c);
    return status;
}

/* @param spread  1: at every allocation; else farther and farther apart. */
static void fail_everywhere(ccl_status_t (*scenario)(ccl_error_t *err), double spread) {
    long at = 0;
    for (;; at = (long)fmax((double)at + 1, (double)at * spread)) {
        ccl_error_t err = CCL_ERROR_INIT;
        fail_in = at;
        armed = true;
        ccl_status_t status = scenario(&err);
        bool reached = fail_in < 0;
        armed = false;
        fail_in = -1;
        if (!reached) { /* it made fewer allocations */
            ck_assert_msg(status == CCL_OK, "%s", err.text);
            ck_assert_int_gt((int)at, 0);
            return;
        }
        ck_assert_msg(status == CCL_ERR_NOMEM, "allocation %ld: status %d, %s", at, (int)status,
                      err.text);
        ck_assert_str_eq(err.text, "out of memory");
    }
}

START_TEST(test_memory) {
    two = topology("servers:2 gpus:1 nvswitch=100GB/s,1us nics:1x25GB/s,2us fabric=single");
    measured = log_of(log_text);
    OK(ccl_profile_read_text("p", profile_text, strlen(profile_text), &profile, &err));
    fail_everywhere(scenario_log, 1);
    fail_everywhere(scenario_csv, 1);
    fail_everywhere(scenario_profile, 1);
    fail_everywhere(scenario_apply, 1);
    fail_everywhere(scenario_take, 1);
    fail_everywhere(scenario_diagnose, 1.05);
    fail_everywhere(scenario_calibrate, 1.3);
    ccl_profile_destroy(profile);
    ccl_measured_log_destroy(measured);
    ccl_topology_destroy(two);
}
END_TEST

RUN_TESTS(test_memory)
