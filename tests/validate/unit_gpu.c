/* Calibration of devices: known constants are found again, also the slope of contention; real runs
 * with the host in a device's place; profiles that lay over a cluster. */
#include "common.h"

#include <unistd.h>

typedef struct machine {
    ccl_gpu_constants_t truth;
    ccl_rng_t rng;
    double noise;
    uint32_t calls, most_blocks;
} machine_t;

static machine_t machine_of(double contention) {
    machine_t m = {.truth = {.launch_s = 4e-6,
                             .overhead_s = 0.7e-6,
                             .latency_s = 1.3e-6,
                             .tb_rate_Bps = 25e9,
                             .link_Bps = 180e9,
                             .contention = contention,
                             .copy_Bps = 33e9,
                             .reduce_Bps = {21e9, 22e9, 14e9, 12e9}},
                   .noise = 0.02};
    ccl_rng_init(&m.rng, 11);
    return m;
}

/* From the program alone: what it does, not which point of the calibration it is. */
static ccl_status_t play(const ccl_program_t *p, const ccl_run_options_t *o, double *time_s,
                         void *user, ccl_error_t *err) {
    machine_t *m = user;
    const ccl_gpu_constants_t *c = &m->truth;
    uint32_t n = 0, first = p->steps[0].type;
    m->calls++;
    for (uint32_t t = 0; t < p->ntbs; t++)
        n += p->tbs[t].rank == 0;
    if (m->most_blocks && p->ntbs > m->most_blocks)
        return ccl_fail(err, CCL_UNSUPPORTED, "too many blocks");
    double bytes = o->size_bytes / p->nchunks, slices = fmax(1, ceil(bytes / o->slice_bytes));
    double each = fmin(c->tb_rate_Bps, c->link_Bps), z = n * each / c->link_Bps;
    double all = z > 1 ? c->link_Bps / (1 + c->contention * (z - 1)) : n * each;
    if (first == CCL_PRIM_NOP)
        *time_s = c->launch_s;
    else if (first == CCL_PRIM_CPY || first == CCL_PRIM_RE)
        *time_s = c->launch_s + c->overhead_s +
                  bytes / (first == CCL_PRIM_CPY ? c->copy_Bps : c->reduce_Bps[o->type]);
    else if (p->tbs[0].nsteps == 64 && p->steps[1].type == CCL_PRIM_R) /* ping */
        *time_s = c->launch_s + 64 * (c->latency_s + 2 * c->overhead_s);
    else if (p->tbs[0].nsteps == 64)
        *time_s = c->launch_s + c->latency_s + 65 * c->overhead_s;
    else
        *time_s = c->launch_s + c->latency_s + (slices + 1) * c->overhead_s +
                  n * bytes * (1 + 1 / slices) / all;
    *time_s *= 1 + m->noise * ccl_rng_unit(&m->rng);
    if (m->noise > 0 && ccl_rng_below(&m->rng, 20) == 0)
        *time_s *= 3; /* somebody else was there */
    return CCL_OK;
}

static ccl_gpu_calibration_t *calibrated(machine_t *m) {
    ccl_gpu_calibrate_options_t o = CCL_GPU_CALIBRATE_OPTIONS_INIT;
    ccl_gpu_calibration_t *c = NULL;
    o.measure = play;
    o.measure_user = m;
    o.model = "H100";
    o.link = "nvlink";
    o.name = "synthetic \"device\"";
    OK(ccl_gpu_calibrate(NULL, &o, &c, &err));
    return c;
}

START_TEST(finds_constants) {
    static const double slopes[] = {0.004, 0.03, 0.2};
    for (size_t i = 0; i < 3; i++) {
        machine_t m = machine_of(slopes[i]);
        ccl_gpu_calibration_t *c = calibrated(&m);
        const ccl_gpu_constants_t *a = &c->model, *b = &m.truth;
        const double ratios[] = {
            a->launch_s / b->launch_s,           a->overhead_s / b->overhead_s,
            a->latency_s / b->latency_s,         a->tb_rate_Bps / b->tb_rate_Bps,
            a->link_Bps / b->link_Bps,           a->copy_Bps / b->copy_Bps,
            a->reduce_Bps[0] / b->reduce_Bps[0], a->reduce_Bps[3] / b->reduce_Bps[3]};
        for (size_t k = 0; k < CCL_ARRAY_LEN(ratios); k++)
            ck_assert_msg(fabs(ratios[k] - 1) < 0.05, "%zu: %g", k, ratios[k]);
        ck_assert_msg(fabs(a->contention - b->contention) < 0.1 * b->contention + 0.002,
                      "contention %g, not %g", a->contention, b->contention);
        ck_assert(c->r2 > 0.999 && c->median_error < 0.03);
        ck_assert_uint_eq(c->lanes, 64);
        for (uint32_t k = 0; k < c->nconstants; k++) {
            const ccl_constant_t *x = &c->constants[k];
            ck_assert(x->low <= x->value && x->value <= x->high);
            ck_assert(x->determined || slopes[i] < 0.01);
        }
        ccl_gpu_calibration_destroy(c);
    }
}
END_TEST

/* A device that holds 32 blocks: fewer lanes, the same constants where they tell. */
START_TEST(few_blocks) {
    machine_t m = machine_of(0.1);
    m.most_blocks = 32;
    ccl_gpu_calibration_t *c = calibrated(&m);
    ck_assert_uint_eq(c->lanes, 16);
    ck_assert_double_eq_tol(c->model.tb_rate_Bps / m.truth.tb_rate_Bps, 1, 0.05);
    ccl_gpu_calibration_destroy(c);
}
END_TEST

START_TEST(profile_lays_over) {
    machine_t m = machine_of(0.05);
    m.noise = 0;
    ccl_gpu_calibration_t *c = calibrated(&m);
    ccl_profile_t *p = NULL;
    ccl_topology_t *topo = topology("dgx-h100"), *laid = NULL;
    OK(ccl_profile_read_text("made", c->profile, strlen(c->profile), &p, &err));
    OK(ccl_profile_apply(NULL, p, topo, &laid, &err));
    ccl_text_t text = {0};
    OK(ccl_topology_write_json(laid, &text, &err));
    ck_assert_ptr_nonnull(strstr(text.data, "contention"));
    ccl_text_fini(&text);
    ccl_topology_destroy(laid);
    ccl_topology_destroy(topo);
    ccl_profile_destroy(p);
    ccl_gpu_calibration_destroy(c);
}
END_TEST

/* Through the ordinary runtime, the host standing in. */
START_TEST(runs_on_host) {
    ccl_gpu_calibrate_options_t o = CCL_GPU_CALIBRATE_OPTIONS_INIT;
    ccl_gpu_calibration_t *c = NULL;
    ccl_error_t failed = CCL_ERROR_INIT;
    o.run.device = "host";
    o.rounds = 1;
    o.most_lanes = 4;
    o.lane_bytes = 256 << 10;
    OK(ccl_gpu_calibrate(NULL, &o, &c, &err));
    ck_assert_uint_eq(c->lanes, 4);
    ck_assert_uint_eq(c->npoints, 3 + 3 * 2 + 2 * 5);
    ck_assert(c->model.copy_Bps > 1e7 && c->model.copy_Bps < 1e13);
    ck_assert(c->model.overhead_s > 0 && c->model.launch_s > 0);
    ccl_gpu_calibration_destroy(c);
    o.run.device = "nothing";
    ck_assert_int_eq(ccl_gpu_calibrate(NULL, &o, &c, &failed), CCL_ERR_USAGE);
}
END_TEST

static void write_file(const char *path, const char *text) {
    ck_assert_int_eq(ccl_file_write(path, text, strlen(text), NULL), CCL_OK);
}

/* What a profile says is what was found, and a hand-made one of several devices is read too. */
START_TEST(machine_from_profile) {
    machine_t m = machine_of(0.05);
    m.noise = 0;
    ccl_gpu_calibration_t *c = calibrated(&m);
    ccl_gpu_machine_t read;
    char path[] = "/tmp/ccllab_machine_XXXXXX";
    ck_assert_int_ge(mkstemp(path), 0);
    write_file(path, c->profile);
    OK(ccl_gpu_machine_read(path, &read, &err));
    ck_assert_str_eq(read.kind, "host"); /* what was asked to run it */
    ck_assert_str_eq(read.run.device, "host");
    ck_assert_uint_eq(read.devices, 2);
    ck_assert_double_eq(read.run.slice_bytes, 32768);
    const double ratios[] = {read.constants.launch_s / c->model.launch_s,
                             read.constants.overhead_s / c->model.overhead_s,
                             read.constants.latency_s / c->model.latency_s,
                             read.constants.tb_rate_Bps / c->model.tb_rate_Bps,
                             read.constants.link_Bps / c->model.link_Bps,
                             read.constants.contention / c->model.contention,
                             read.constants.copy_Bps / c->model.copy_Bps,
                             read.constants.reduce_Bps[2] / c->model.reduce_Bps[2]};
    for (size_t k = 0; k < CCL_ARRAY_LEN(ratios); k++)
        ck_assert_double_eq_tol(ratios[k], 1, 1e-5);
    ccl_topology_t *topo = NULL;
    ccl_error_t failed = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_gpu_topology(&read, 3, 8, 32768, 0, &topo, &failed), CCL_ERR_MISSING);
    char *at = strstr(c->profile, "\"launch_s\": ");
    ck_assert_ptr_nonnull(at);
    at += strlen("\"launch_s\": ");
    *at = '0';
    memset(at + 1, ' ', strcspn(at + 1, ","));
    ccl_error_clear(&failed);
    write_file(path, c->profile);
    ck_assert_int_eq(ccl_gpu_machine_read(path, &read, &failed), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(failed.text, "more than 0"));
    unlink(path);
    ccl_gpu_calibration_destroy(c);
}
END_TEST

/* Blocks that send at the same time through the device's memory; receivers copy the last slice out
 * when all else is over. */
static double closed_form_s(const ccl_gpu_constants_t *c, uint32_t lanes, double bytes,
                            uint32_t slices) {
    double fixed_s = c->launch_s + c->latency_s;
    double moved_s = 0.5 * (ccl_gpu_lanes_s(c, lanes, bytes, bytes) - fixed_s - 2 * c->overhead_s);
    return fixed_s + (slices + 1) * c->overhead_s + moved_s + bytes / slices / c->tb_rate_Bps;
}

START_TEST(predicts) {
    machine_t m = machine_of(0.05);
    ccl_gpu_machine_t device = {.constants = m.truth, .devices = 1, .kind = "cuda"};
    static const ccl_run_options_t init = CCL_RUN_OPTIONS_INIT;
    device.run = init;
    device.run.device = device.kind;
    device.run.slice_bytes = 32768;
    for (uint32_t lanes = 1; lanes <= 32; lanes *= 4) {
        for (uint32_t slices = 1; slices <= 4; slices++) {
            ccl_program_t *p = NULL;
            ccl_run_options_t o = device.run;
            double time_s = 0,
                   expected_s = closed_form_s(&m.truth, lanes, slices * 32768.0, slices);
            OK(ccl_gpu_micro(CCL_GPU_MICRO_LANES, lanes, &p, &err));
            o.size_bytes = lanes * slices * 32768.0;
            OK(ccl_gpu_predict(NULL, p, &o, &device, &time_s, &err));
            /* Overheads of blocks that wait for the memory anyway cost nothing. */
            bool full = lanes * m.truth.tb_rate_Bps > m.truth.link_Bps;
            double hidden_s = slices == 1 ? 1e-12 : (full ? slices : 1) * m.truth.overhead_s;
            double late_s = slices == 1 ? 1e-12 : m.truth.overhead_s; /* of the last slice */
            ck_assert_msg(time_s < expected_s + late_s && time_s > expected_s - 1.01 * hidden_s,
                          "%u lanes, %u slices: %g s, not %g s", lanes, slices, time_s, expected_s);
            ccl_program_destroy(p);
        }
    }
}
END_TEST

typedef struct beside {
    const ccl_gpu_machine_t *machine;
    double factor;
    uint32_t runs;
} beside_t;

/* A device that is as predicted but for a factor. */
static ccl_status_t play_beside(const ccl_program_t *p, const ccl_run_options_t *o, double *time_s,
                                void *user, ccl_error_t *err) {
    beside_t *b = user;
    ck_assert_str_eq(o->device, "cuda");
    ck_assert_int_eq((int)o->kernel, CCL_KERNEL_GENERATED);
    ck_assert_double_eq(o->slice_bytes, 32768);
    b->runs++;
    CCL_TRY(ccl_gpu_predict(NULL, p, o, b->machine, time_s, err));
    *time_s *= b->factor;
    return CCL_OK;
}

START_TEST(validates) {
    machine_t m = machine_of(0.05);
    ccl_gpu_machine_t device = {.constants = m.truth, .devices = 1, .kind = "cuda"};
    static const ccl_run_options_t init = CCL_RUN_OPTIONS_INIT;
    static const double sizes[] = {65536, 16 << 20};
    ccl_suite_t *suite = NULL;
    ccl_validation_t *v = NULL;
    ccl_validate_options_t o = CCL_VALIDATE_OPTIONS_INIT;
    device.run = init;
    device.run.device = device.kind;
    device.run.slice_bytes = 32768;
    device.run.kernel = CCL_KERNEL_GENERATED;
    beside_t beside = {&device, 1.25, 0};
    o.measure = play_beside;
    o.measure_user = &beside;
    o.repeats = 2;
    OK(ccl_suite_read(NULL, "default", &suite, &err));
    OK(ccl_validate_gpu(NULL, &device, suite->cases, suite->ncases, sizes, 2, &o, &v, &err));
    ck_assert_uint_eq(v->npoints, 2 * suite->ncases);
    ck_assert_uint_eq(beside.runs, 2 * v->npoints);
    for (uint32_t i = 0; i < v->npoints; i++)
        ck_assert_double_eq_tol(v->points[i].error, 1 / 1.25 - 1, 1e-9);
    ck_assert_uint_eq(v->nranked, v->npairs);
    ck_assert_uint_gt(v->npairs, 10);
    ccl_validation_destroy(v);
    ccl_suite_destroy(suite);
}
END_TEST

RUN_TESTS(finds_constants, few_blocks, profile_lays_over, runs_on_host, machine_from_profile,
          predicts, validates)
