/* Calibration of devices: known constants are found again, also the slope of contention; real runs
 * with the host in a device's place; profiles that lay over a cluster. */
#include "common.h"

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
        return ccl_fail(err, CCL_ERR_UNSUPPORTED, "too many blocks");
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
    OK(ccl_profile_apply(NULL, p, topo, NULL, &laid, &err));
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

RUN_TESTS(finds_constants, few_blocks, profile_lays_over, runs_on_host)
