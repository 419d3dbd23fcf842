/* The host: predictions against sums of work, fits to synthetic runs, ranking, refusals. */
#include "common.h"

#include <unistd.h>

static ccl_host_model_t truth(uint32_t workers) {
    ccl_host_model_t m = {.workers = workers,
                          .overhead_s = 300e-9,
                          .latency_s = 150e-9,
                          .launch_s = 3e-6,
                          .nknots = 2,
                          .footprint_bytes = {1 << 20, 16 << 20}};
    static const double per_byte[CCL_HOST_PASSES] = {0.10, 0.10, 0.17, 0.13,
                                                     0.21, 0.24, 0.12, 0.16};
    for (uint32_t k = 0; k < 2; k++) {
        m.pool[k] = workers;
        for (uint32_t i = 0; i < CCL_HOST_PASSES; i++)
            m.s_per_byte[i][k] = per_byte[i] * 1e-9 * (1 + k);
    }
    return m;
}

/* The model itself as the machine, with noise that only slows runs down. */
typedef struct machine {
    ccl_host_model_t model;
    ccl_rng_t rng;
    double noise, contention;
    uint32_t calls;
} machine_t;

static ccl_status_t play(const ccl_program_t *program, const ccl_run_options_t *options,
                         double *time_s, void *user, ccl_error_t *err) {
    machine_t *m = user;
    m->calls++;
    CCL_TRY(ccl_host_predict(NULL, program, options, &m->model, time_s, err));
    *time_s *= 1 + m->noise * ccl_rng_unit(&m->rng);
    if (strcmp(program->name, "blocks") == 0)
        *time_s *= 1 + m->contention * (program->ntbs / 2.0 - 1);
    return CCL_OK;
}

/* One worker: the time is the sum of all passes, whatever the order. */
START_TEST(one_worker_sums_work) {
    ccl_host_model_t m = truth(1);
    ccl_program_t *p = NULL;
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    double time_s = 0, size = (1 << 20) / 4.0, e = size / 6;
    m.latency_s = 0;
    o.size_bytes = size;
    o.slice_bytes = 64 << 10; /* an element is one */
    OK(ccl_host_micro(CCL_HOST_MICRO_PAIRS, 4, &p, &err));
    ck_assert_double_eq_tol(ccl_host_footprint(p, &o), 1 << 20, 1);
    OK(ccl_host_predict(NULL, p, &o, &m, &time_s, &err));
    double want = 3e-6 + 12 * (2 * 300e-9 + 2 * e * 0.10e-9);
    ck_assert_double_eq_tol(time_s / want, 1, 1e-6);
    ccl_program_destroy(p);
    OK(ccl_host_micro(CCL_HOST_MICRO_LOCAL_REDUCE, 4, &p, &err));
    OK(ccl_host_predict(NULL, p, &o, &m, &time_s, &err));
    want = 3e-6 + 12 * (300e-9 + e * 0.16e-9);
    ck_assert_double_eq_tol(time_s / want, 1, 1e-6);
    ccl_program_destroy(p);
}
END_TEST

/* Two workers halve what can be halved, and nothing else. */
START_TEST(two_workers_share_work) {
    ccl_host_model_t m = truth(2);
    ccl_program_t *many = NULL, *one = NULL;
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    double t_many = 0, t_one = 0, size = (1 << 20) / 4.0, e = size / 6;
    m.latency_s = 0;
    o.size_bytes = size;
    OK(ccl_host_micro(CCL_HOST_MICRO_COPY, 4, &many, &err));
    OK(ccl_host_micro(CCL_HOST_MICRO_ONE, 4, &one, &err));
    OK(ccl_host_predict(NULL, many, &o, &m, &t_many, &err));
    OK(ccl_host_predict(NULL, one, &o, &m, &t_one, &err));
    double pass = 300e-9 + e * 0.12e-9;
    ck_assert_double_eq_tol(t_many / (3e-6 + 6 * pass), 1, 1e-6);
    ck_assert_double_eq_tol(t_one / (3e-6 + 3 * pass), 1, 1e-6);
    ccl_program_destroy(many);
    ccl_program_destroy(one);
}
END_TEST

/* Data that are used again soon cost what little memory costs: what a rank sends five times is read
   from afar once. */
START_TEST(reuse_costs_less) {
    ccl_host_model_t m = truth(1);
    ccl_program_t *p = NULL;
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    double time_s = 0, e = 512 << 10, s = 0.10e-9;
    m.latency_s = 0;
    m.footprint_bytes[0] = 4 << 20;
    m.footprint_bytes[1] = 12 << 20; /* of the run; costs are twice as high there */
    o.size_bytes = 6 * e;
    OK(ccl_host_micro(CCL_HOST_MICRO_FANOUT, 4, &p, &err));
    OK(ccl_host_predict(NULL, p, &o, &m, &time_s, &err));
    double want = 3e-6 + 40 * 16 * 300e-9 + e * (20 * 2 * s + 4 * 2 * s + 16 * s);
    ck_assert_double_eq_tol(time_s / want, 1, 1e-6);
    ccl_program_destroy(p);
    OK(ccl_host_micro(CCL_HOST_MICRO_PAIRS, 4, &p, &err));
    OK(ccl_host_predict(NULL, p, &o, &m, &time_s, &err));
    ck_assert_double_eq_tol(time_s / (3e-6 + 24 * 16 * 300e-9 + e * 24 * 2 * s), 1, 1e-6);
    ccl_program_destroy(p);
}
END_TEST

/* What goes to another process costs more: of a ring of four in two processes, every second. */
START_TEST(processes_cost_more) {
    ccl_host_model_t m = truth(1);
    ccl_program_t *p = NULL;
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    double with = 0, without = 0, e = 10000;
    m.latency_s = 0;
    o.size_bytes = 6 * e;
    o.ranks = CCL_RANKS_PROCESSES;
    o.processes = 2;
    OK(ccl_host_micro(CCL_HOST_MICRO_PAIRS, 4, &p, &err));
    OK(ccl_host_predict(NULL, p, &o, &m, &without, &err));
    m.across_s = 5e-6;
    m.across_s_per_byte[0] = m.across_s_per_byte[1] = 1e-9;
    OK(ccl_host_predict(NULL, p, &o, &m, &with, &err));
    ck_assert_double_eq_tol((with - without) / (6 * (5e-6 + e * 1e-9)), 1, 1e-6);
    ccl_program_destroy(p);
}
END_TEST

static ccl_host_calibration_t *calibrated(machine_t *machine, uint32_t workers) {
    static const double footprints[] = {1 << 20, 16 << 20};
    ccl_host_calibrate_options_t o = CCL_HOST_CALIBRATE_OPTIONS_INIT;
    ccl_host_calibration_t *c = NULL;
    o.run.threads = workers;
    o.rounds = 3;
    o.footprints = footprints;
    o.nfootprints = 2;
    o.measure = play;
    o.measure_user = machine;
    o.name = "synthetic \"machine\"";
    OK(ccl_host_calibrate(NULL, &o, &c, &err));
    return c;
}

START_TEST(fit_recovers_constants) {
    machine_t machine = {.model = truth(1), .noise = 0.04};
    ccl_rng_init(&machine.rng, 7);
    ccl_host_calibration_t *c = calibrated(&machine, 1);
    ck_assert_double_eq_tol(c->model.overhead_s / machine.model.overhead_s, 1, 0.15);
    ck_assert_double_eq_tol(c->model.launch_s / machine.model.launch_s, 1, 0.15);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < CCL_HOST_PASSES; i++)
            ck_assert_double_eq_tol(c->model.s_per_byte[i][k] / machine.model.s_per_byte[i][k], 1,
                                    0.15);
    ck_assert(c->r2 > 0.99);
    ck_assert(c->median_error < 0.03);
    for (uint32_t i = 0; i < c->nconstants; i++) {
        ck_assert(c->constants[i].low <= c->constants[i].value);
        ck_assert(c->constants[i].value <= c->constants[i].high);
    }
    ccl_host_calibration_destroy(c);
}
END_TEST

static const ccl_constant_t *named(const ccl_host_calibration_t *c, const char *name) {
    for (uint32_t i = 0; i < c->nconstants; i++)
        if (strcmp(c->constants[i].name, name) == 0)
            return &c->constants[i];
    ck_abort_msg("no constant %s", name);
    return NULL;
}

START_TEST(contention_is_measured) {
    static const double footprints[] = {1 << 20};
    machine_t machine = {.model = truth(1), .contention = 0.01};
    ccl_host_calibrate_options_t o = CCL_HOST_CALIBRATE_OPTIONS_INIT;
    ccl_host_calibration_t *c = NULL;
    o.run.threads = 1;
    o.rounds = 1;
    o.footprints = footprints;
    o.nfootprints = 1;
    o.measure = play;
    o.measure_user = &machine;
    machine.model.latency_s = 0; /* blocks hide it: less of it is no contention */
    OK(ccl_host_calibrate(NULL, &o, &c, &err));
    const ccl_constant_t *k = named(c, "host/contention");
    ck_assert_double_eq_tol(k->value, 0.01, 0.001);
    ck_assert(k->low < 0.01 && k->high > 0.01 && k->determined);
    ccl_host_calibration_destroy(c);
}
END_TEST

START_TEST(fit_tells_processes) {
    static const double footprints[] = {1 << 20, 16 << 20};
    machine_t machine = {.model = truth(2)};
    ccl_host_calibrate_options_t o = CCL_HOST_CALIBRATE_OPTIONS_INIT;
    ccl_host_calibration_t *c = NULL;
    machine.model.across_s = 5e-6;
    machine.model.across_s_per_byte[0] = machine.model.across_s_per_byte[1] = 1e-9;
    o.run.threads = 1;
    o.run.ranks = CCL_RANKS_PROCESSES;
    o.run.processes = 2;
    o.rounds = 1;
    o.footprints = footprints;
    o.nfootprints = 2;
    o.measure = play;
    o.measure_user = &machine;
    OK(ccl_host_calibrate(NULL, &o, &c, &err));
    ck_assert_double_eq_tol(c->model.across_s / 5e-6, 1, 0.1);
    if (c->model.workers > 1) /* one core has a pool of one */
        for (uint32_t k = 0; k < 2; k++)
            ck_assert_double_eq_tol(c->model.across_s_per_byte[k] / 1e-9, 1, 0.15);
    ccl_host_calibration_destroy(c);
}
END_TEST

/* host:4 with the profile: what all flows share is what the workers hand over together. */
static void lies_over_host(const char *path, const ccl_host_model_t *m) {
    ccl_topology_t *topo = with_profile("host:4", path);
    uint32_t k = m->nknots / 2, shared = CCL_NONE;
    ck_assert_uint_eq(topo->nranks, 4);
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (shared == CCL_NONE || topo->links[l].bandwidth_Bps < topo->links[shared].bandwidth_Bps)
            shared = l;
    double hand_over = m->s_per_byte[CCL_PRIM_S][k] + m->s_per_byte[CCL_PRIM_R][k];
    ck_assert_double_eq_tol(topo->links[shared].bandwidth_Bps * hand_over / m->pool[k], 1, 1e-4);
    ck_assert_double_eq_tol(topo->gpu_models[0].launch_s / m->launch_s, 1, 1e-4);
    ccl_topology_destroy(topo);
}

START_TEST(profile_reads_back) {
    machine_t machine = {.model = truth(1)};
    ccl_host_model_t model;
    ccl_run_options_t options;
    char path[] = "/tmp/ccl_host_profile_XXXXXX";
    ccl_host_calibration_t *c = calibrated(&machine, 1);
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, c->profile, strlen(c->profile)), (int)strlen(c->profile));
    close(fd);
    OK(ccl_host_model_read(path, &model, &options, &err));
    ck_assert_uint_eq(model.nknots, 2);
    ck_assert_uint_eq(options.threads, 1);
    ck_assert_double_eq_tol(model.overhead_s / c->model.overhead_s, 1, 1e-5);
    for (uint32_t i = 0; i < CCL_HOST_PASSES; i++)
        ck_assert_double_eq_tol(model.s_per_byte[i][1] / c->model.s_per_byte[i][1], 1, 1e-5);
    lies_over_host(path, &model);
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_host_model_read("nccl-h100", &model, &options, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "is of GPU model \"H100\", not of a host"));
    unlink(path);
    ccl_host_calibration_destroy(c);
}
END_TEST

START_TEST(validation_judges_and_keeps) {
    static const char lines[] = "# two of a kind\nallgather ring 4\nallgather direct 4\n"
                                "allreduce ring 4 2\nalltoall direct 4\n";
    static const double sizes[] = {256 << 10, 4 << 20};
    char suite_path[] = "/tmp/ccl_suite_XXXXXX", keep[] = "/tmp/ccl_keep_XXXXXX";
    machine_t machine = {.model = truth(1)};
    ccl_validate_options_t o = CCL_VALIDATE_OPTIONS_INIT;
    ccl_validation_t *v = NULL;
    ccl_suite_t *suite = NULL;
    int fd = mkstemp(suite_path);
    ck_assert_int_eq((int)write(fd, lines, strlen(lines)), (int)strlen(lines));
    close(fd);
    close(mkstemp(keep));
    OK(ccl_suite_read(NULL, suite_path, &suite, &err));
    ck_assert_uint_eq(suite->ncases, 4);
    ck_assert_str_eq(suite->cases[2].schedule, "ring/2");
    o.repeats = 3;
    o.keep = keep;
    o.measure = play;
    o.measure_user = &machine;
    ccl_host_model_t model = truth(1);
    OK(ccl_validate_host(NULL, &model, suite->cases, 4, sizes, 2, &o, &v, &err));
    ck_assert_uint_eq(v->npoints, 8);
    ck_assert_uint_eq(machine.calls, 24);
    ck_assert(v->worst_error < 1e-6);
    ck_assert_double_eq_tol(v->tau, 1, 1e-12);
    ck_assert_uint_eq(v->nranked, v->npairs);
    ck_assert_uint_eq(v->nrivals, 2);
    ccl_validation_destroy(v);
    /* All is kept: nothing runs again, though the machine has become slower. */
    machine.model.launch_s *= 100;
    OK(ccl_validate_host(NULL, &model, suite->cases, 4, sizes, 2, &o, &v, &err));
    ck_assert_uint_eq(machine.calls, 24);
    ck_assert(v->worst_error < 1e-6);
    ccl_validation_destroy(v);
    /* Costs twice as high are an error of +100 %. */
    o.keep = NULL;
    machine.model = truth(1);
    model.launch_s *= 2;
    model.overhead_s *= 2;
    model.latency_s *= 2;
    for (uint32_t i = 0; i < CCL_HOST_PASSES; i++)
        for (uint32_t k = 0; k < 2; k++)
            model.s_per_byte[i][k] *= 2;
    OK(ccl_validate_host(NULL, &model, suite->cases, 4, sizes, 2, &o, &v, &err));
    ck_assert_double_eq_tol(v->median_error, 1, 1e-6);
    ccl_validation_destroy(v);
    ccl_suite_destroy(suite);
    unlink(suite_path);
    unlink(keep);
}
END_TEST

START_TEST(calibration_programs_are_refused) {
    ccl_validate_options_t o = CCL_VALIDATE_OPTIONS_INIT;
    ccl_host_model_t model = truth(1);
    ccl_validation_t *v = NULL;
    double size = 1 << 20;
    for (int m = 0; m < CCL_HOST_MICROS; m++) {
        ccl_program_t *p = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        OK(ccl_host_micro((ccl_host_micro_t)m, 3, &p, &err));
        ccl_validate_case_t c = {"allreduce", "mine", p, CCL_GRANULARITY_ALGORITHM};
        ck_assert_int_eq(ccl_validate_host(NULL, &model, &c, 1, &size, 1, &o, &v, &err),
                         CCL_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(err.text, "fitted to"));
        ccl_program_destroy(p);
    }
    ccl_suite_t *suite = NULL;
    OK(ccl_suite_read(NULL, "default", &suite, &err));
    for (uint32_t i = 0; i < suite->ncases; i++) {
        bool fitted = true;
        OK(ccl_host_is_calibration(suite->cases[i].program, &fitted, &err));
        ck_assert(!fitted);
    }
    ccl_suite_destroy(suite);
}
END_TEST

/* The device itself: programs of the suite run, their data are right, times are times. */
START_TEST(runs_on_the_host) {
    ccl_validate_options_t o = CCL_VALIDATE_OPTIONS_INIT;
    ccl_host_model_t model = truth(1);
    ccl_suite_t *suite = NULL;
    ccl_validation_t *v = NULL;
    double size = 10000;
    OK(ccl_suite_read(NULL, "default", &suite, &err));
    o.repeats = 1;
    o.run.threads = 1;
    OK(ccl_validate_host(NULL, &model, suite->cases, suite->ncases, &size, 1, &o, &v, &err));
    for (uint32_t i = 0; i < v->npoints; i++)
        ck_assert(v->points[i].min_s > 0 && v->points[i].predicted_s > 0);
    ccl_validation_destroy(v);
    ccl_suite_destroy(suite);
}
END_TEST

RUN_TESTS(one_worker_sums_work, two_workers_share_work, reuse_costs_less, processes_cost_more,
          fit_recovers_constants, contention_is_measured, fit_tells_processes, profile_reads_back,
          validation_judges_and_keeps, calibration_programs_are_refused, runs_on_the_host)
