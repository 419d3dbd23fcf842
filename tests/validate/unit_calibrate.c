/* A curve made by the simulator itself: the fit finds the constants that made it; its profile is
 * read back and gives the fitted times. */
#include "tests/validate/common.h"

static const char truth[] =
    "{\"format\": \"ccllab-profile-1\", \"name\": \"truth\", \"links\": {\"nvlink\": "
    "{\"efficiency\": 0.77}}, \"transports\": {\"nvlink\": {\"direct\": false, \"protocols\": "
    "{\"LL\": {\"tb_rate\": \"6GB/s\"}}}}, \"gpu_models\": {\"H100\": {\"protocols\": "
    "{\"LL\": {\"launch\": \"4us\"}, \"LL128\": {\"launch\": \"9us\"}, "
    "\"Simple\": {\"launch\": \"15us\"}}}}}";

/* As nccl-tests would print it. */
static ccl_measured_log_t *curve(const ccl_topology_t *topo, const char *profile_text,
                                 double outlier) {
    ccl_profile_t *profile = NULL;
    ccl_predictor_t *predictor = NULL;
    ccl_text_t text = {0};
    OK(ccl_profile_read_text("truth", profile_text, strlen(profile_text), &profile, &err));
    OK(ccl_predictor_create(NULL, topo, profile, 0, &predictor, &err));
    ccl_text_printf(&text, "# Collective test starting: all_gather_perf\n# nThread 1 nGpus %u\n",
                    topo->nranks);
    for (double size = 1024; size <= 536870912; size *= 2) {
        ccl_prediction_t p;
        OK(ccl_predictor_run(predictor, CCL_ALLGATHER, 0, size, NULL, &p, &err));
        double us = p.time_s * 1e6 * (size == 65536 || size == 67108864 ? outlier : 1);
        ccl_text_printf(&text, "%.0f %.0f half none -1 %.5f 1 1 0 %.5f 1 1 0\n", size, size / 2, us,
                        2 * us);
    }
    ccl_measured_log_t *log = log_of(text.data);
    ccl_text_fini(&text);
    ccl_predictor_destroy(predictor);
    ccl_profile_destroy(profile);
    return log;
}

static const ccl_constant_t *constant(const ccl_calibration_t *c, const char *name) {
    for (uint32_t i = 0; i < c->nconstants; i++)
        if (strcmp(c->constants[i].name, name) == 0)
            return &c->constants[i];
    ck_abort_msg("no constant %s", name);
    return NULL;
}

static void holds(const ccl_calibration_t *c, const char *name, double want, double tolerance) {
    const ccl_constant_t *k = constant(c, name);
    ck_assert_msg(fabs(k->value / want - 1) <= tolerance, "%s: %g, wanted %g", name, k->value,
                  want);
    ck_assert_msg(k->low <= want && want <= k->high, "%s: %g not in %g .. %g", name, want, k->low,
                  k->high);
}

static void check_fit(double outlier) {
    ccl_topology_t *topo = part("dgx-h100", 8);
    ccl_measured_log_t *log = curve(topo, truth, outlier);
    const ccl_measured_source_t source = source_of(topo, &log->runs[0]);
    ccl_calibrate_options_t options = CCL_CALIBRATE_OPTIONS_INIT;
    ccl_calibration_t *c = NULL;
    options.name = "again";
    options.source = "a \"quoted\" run";
    OK(ccl_calibrate(NULL, &source, 1, &options, &c, &err));
    ck_assert_uint_eq(c->npoints, 20);
    ck_assert_msg(c->median_error < 0.01, "median error %g", c->median_error);
    ck_assert(c->median_error < c->median_before / 4);
    ck_assert(outlier != 1 || c->r2 > 0.999);
    holds(c, "links/nvlink/efficiency", 0.77, 0.03);
    holds(c, "gpu_models/H100/LL/launch", 4e-6, 0.1);
    holds(c, "transports/nvlink/LL/tb_rate", 6e9, 0.1);
    ck_assert(constant(c, "links/nvlink/efficiency")->determined);
    ck_assert(constant(c, "transports/nvlink/LL/tb_rate")->determined);
    /* Links limit: what a block could move nobody sees. */
    ck_assert(!constant(c, "transports/nvlink/Simple/tb_rate")->determined);

    /* What was written is what was fitted. */
    ccl_profile_t *profile = NULL;
    ccl_predictor_t *predictor = NULL;
    OK(ccl_profile_read_text("again", c->profile, strlen(c->profile), &profile, &err));
    ck_assert_str_eq(ccl_profile_name(profile), "again");
    ck_assert_str_eq(ccl_profile_source(profile), "a \"quoted\" run");
    OK(ccl_predictor_create(NULL, topo, profile, 0, &predictor, &err));
    for (uint32_t i = 0; i < c->npoints; i++) {
        ccl_prediction_t p;
        OK(ccl_predictor_run(predictor, CCL_ALLGATHER, 0, c->sizes_bytes[i], NULL, &p, &err));
        ck_assert_double_eq_tol(p.time_s, c->fitted_s[i], 1e-9 * p.time_s);
    }
    ccl_predictor_destroy(predictor);
    ccl_profile_destroy(profile);
    ccl_calibration_destroy(c);
    ccl_measured_log_destroy(log);
    ccl_topology_destroy(topo);
}

/* A network whose large messages wait for each other: AllGather's are eight times AllToAll's, so
 * the two together tell that from a slow link. */
static const char slow_messages[] =
    "{\"format\": \"ccllab-profile-1\", \"name\": \"truth\", \"links\": {\"net\": "
    "{\"efficiency\": 0.85}}, \"transports\": {\"nvlink\": {\"direct\": false}, \"net\": "
    "{\"direct\": false, \"message\": \"5us\", \"message_size\": \"1MiB\", \"protocols\": "
    "{\"LL\": {\"message\": \"0.4us\", \"message_size\": \"32KiB\"}, "
    "\"LL128\": {\"message_size\": \"512KiB\"}}}}}";
#define MESSAGE_ROWS 9

START_TEST(test_messages) {
    static const ccl_collective_kind_t kinds[2] = {CCL_ALLGATHER, CCL_ALLTOALL};
    if (SANITIZED) /* the fit is that of the tests above */
        return;
    ccl_topology_t *topo = part("a100-x4-2nic*2", 8);
    ccl_profile_t *profile = NULL;
    ccl_predictor_t *predictor = NULL;
    ccl_measurement_t rows[2][MESSAGE_ROWS];
    ccl_measured_run_t runs[2];
    OK(ccl_profile_read_text("truth", slow_messages, strlen(slow_messages), &profile, &err));
    OK(ccl_predictor_create(NULL, topo, profile, 0, &predictor, &err));
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < MESSAGE_ROWS; i++) {
            ccl_prediction_t p;
            double size = 4096 << 2 * i;
            OK(ccl_predictor_run(predictor, kinds[k], 0, size, NULL, &p, &err));
            rows[k][i] = (ccl_measurement_t){.size_bytes = size, .time_s = p.time_s};
        }
        runs[k] = run_of(kinds[k], topo, MESSAGE_ROWS, rows[k]);
    }
    const ccl_measured_source_t sources[2] = {source_of(topo, &runs[0]), source_of(topo, &runs[1])};
    const ccl_calibrate_options_t options = CCL_CALIBRATE_OPTIONS_INIT;
    ccl_calibration_t *c = NULL;
    OK(ccl_calibrate(NULL, sources, 2, &options, &c, &err));
    ck_assert_msg(c->median_error < 0.01, "median error %g", c->median_error);
    holds(c, "transports/net/Simple/message", 5e-6, 0.1);
    holds(c, "transports/net/LL/message", 0.4e-6, 0.1);
    holds(c, "links/net/efficiency", 0.85, 0.03);
    ck_assert(constant(c, "transports/net/Simple/message")->determined);
    ck_assert(constant(c, "transports/net/LL/message")->determined);
    ccl_calibration_destroy(c);
    ccl_predictor_destroy(predictor);
    ccl_profile_destroy(profile);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_found) {
    check_fit(1);
}
END_TEST

START_TEST(test_found_among_outliers) {
    check_fit(2.5);
}
END_TEST

START_TEST(test_in_place_and_refusals) {
    ccl_topology_t *topo = part("dgx-h100", 8), *four = part("dgx-h100", 4);
    ccl_measured_log_t *log = curve(topo, truth, 1);
    ccl_measured_source_t source = source_of(topo, &log->runs[0]);
    ccl_calibrate_options_t options = CCL_CALIBRATE_OPTIONS_INIT;
    ccl_calibration_t *c = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.in_place = true; /* twice the time */
    OK(ccl_calibrate(NULL, &source, 1, &options, &c, &err));
    for (uint32_t i = 0; i < c->npoints; i++)
        ck_assert_double_eq_tol(c->measured_s[i], 2 * log->runs[0].points[i].time_s, 1e-9);
    ck_assert(c->median_error < c->median_before / 2);
    ccl_calibration_destroy(c);
    c = NULL;
    options.min_bytes = 200e6; /* two sizes */
    ck_assert_int_eq(ccl_calibrate(NULL, &source, 1, &options, &c, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "needs 3 or more") != NULL, "%s", err.text);
    ccl_error_clear(&err);
    source.topo = four;
    ck_assert_int_eq(ccl_calibrate(NULL, &source, 1, &options, &c, &err), CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "8 ranks on a cluster of 4") != NULL, "%s", err.text);
    ccl_error_clear(&err);
    ccl_measured_run_t unknown = log->runs[0];
    unknown.known = false;
    source = source_of(topo, &unknown);
    ck_assert_int_eq(ccl_calibrate(NULL, &source, 1, &options, &c, &err), CCL_ERR_INPUT);
    ck_assert_ptr_null(c);
    ccl_measured_log_destroy(log);
    ccl_topology_destroy(topo);
    ccl_topology_destroy(four);
}
END_TEST

RUN_TESTS(test_found, test_found_among_outliers, test_messages, test_in_place_and_refusals)
