/*
 * The contention slope of the host: the same slices over one connection's two ranks by 1 to 64
 * blocks a side. kappa is what time grows by for every further block per worker (HeteCCL figure 4,
 * ResCCL equation 1 and figure 4).
 */
#include "validate/fit/host.h"

#include <math.h>

#define SLICES 64u
#define COUNTS 7u /* 1, 2, 4, ... 64 blocks */
#define NOISE 0.03

ccl_status_t ccl_host_blocks_program(uint32_t nblocks, ccl_program_t **out, ccl_error_t *err) {
    ccl_collective_t *coll = NULL;
    if (nblocks < 1 || nblocks > SLICES || SLICES % nblocks)
        return ccl_fail(err, CCL_ERR_INPUT, "%u blocks: a divisor of %u is needed", nblocks,
                        SLICES);
    CCL_TRY(ccl_collective_create(CCL_ALLREDUCE, 2, SLICES, 0, &coll, err));
    ccl_program_builder_t *b = ccl_program_builder_create("blocks", coll, SLICES, "Simple");
    if (!b)
        return ccl_fail_nomem(err);
    ccl_program_builder_place(b, true, false, 0, 0);
    for (uint32_t rank = 0; rank < 2; rank++) {
        ccl_program_builder_buffer(b, rank, CCL_BUF_INPUT, SLICES);
        for (uint32_t n = 0; n < nblocks; n++) {
            uint32_t tb =
                ccl_program_builder_tb(b, rank, rank ? CCL_NONE : 1, rank ? 0 : CCL_NONE, n);
            for (uint32_t e = n; e < SLICES; e += nblocks)
                ccl_program_builder_step(b, tb,
                                         (ccl_step_t){.src_off = e,
                                                      .dst_off = e,
                                                      .count = 1,
                                                      .dep_tb = CCL_NONE,
                                                      .dep_step = CCL_NONE,
                                                      .type = rank ? CCL_PRIM_R : CCL_PRIM_S});
        }
    }
    return ccl_program_builder_finish(b, out, err);
}

typedef struct points {
    uint32_t workers;
    double time_s[COUNTS];
} points_t;

/* Fewer blocks than workers do not contend. */
static ccl_status_t residuals(const double *v, double *r, void *user, ccl_error_t *err) {
    const points_t *p = user;
    (void)err;
    uint32_t n = 0;
    for (uint32_t i = 0; i < COUNTS; i++) {
        double z = ldexp(1, (int)i) / p->workers;
        if (z >= 1)
            r[n++] = v[0] + log(fmax(1e-3, 1 + v[1] * (z - 1))) - log(p->time_s[i]);
    }
    return CCL_OK;
}

static ccl_status_t measure(const ccl_ctx_t *ctx, const ccl_host_calibrate_options_t *o,
                            uint32_t rounds, points_t *p, ccl_error_t *err) {
    ccl_program_t *programs[COUNTS] = {NULL};
    ccl_run_options_t run = o->run;
    ccl_status_t status = CCL_OK;
    run.slice_bytes = run.slice_bytes > 0 ? run.slice_bytes : CCL_I_HOST_SLICE_BYTES;
    run.size_bytes = SLICES * run.slice_bytes;
    run.repeats = CCL_I_HOST_REPEATS;
    run.warmups = ccl_i_host_warmups(&run);
    run.batches = 1;
    run.no_check = true;
    for (uint32_t i = 0; i < COUNTS && status == CCL_OK; i++) {
        p->time_s[i] = INFINITY;
        status = ccl_host_blocks_program(1u << i, &programs[i], err);
    }
    for (uint32_t k = 0; k < rounds * COUNTS && status == CCL_OK; k++) {
        double time_s = 0;
        status = ccl_ctx_poll(ctx, NULL);
        if (status == CCL_OK)
            status = ccl_i_host_measure(ctx, programs[k % COUNTS], &run, o->measure,
                                        o->measure_user, &time_s, err);
        p->time_s[k % COUNTS] = fmin(p->time_s[k % COUNTS], time_s);
    }
    for (uint32_t i = 0; i < COUNTS; i++)
        ccl_program_destroy(programs[i]);
    return status;
}

ccl_status_t ccl_i_host_contention(const ccl_ctx_t *ctx, const ccl_host_calibrate_options_t *o,
                                   uint32_t workers, uint32_t rounds, ccl_constant_t *out,
                                   ccl_error_t *err) {
    points_t p = {.workers = workers};
    uint32_t n = 0;
    CCL_TRY(measure(ctx, o, rounds, &p, err));
    for (uint32_t i = 0; i < COUNTS; i++)
        n += ldexp(1, (int)i) >= workers;
    ccl_fit_parameter_t fit[2] = {{.value = log(p.time_s[COUNTS - 1]), .spread = 1},
                                  {.value = 0, .spread = 0.05, .error = 0.05}};
    ccl_fit_result_t result;
    if (n > 0) /* else as many workers as blocks: nothing contends */
        CCL_TRY(ccl_fit(2, fit, NULL, n, NOISE, residuals, &p, &result, err));
    *out = (ccl_constant_t){.name = "host/contention",
                            .unit = "1",
                            .value = fmax(0, fit[1].value),
                            .low = fmax(0, fit[1].value - 1.96 * fit[1].error),
                            .high = fmax(0, fit[1].value + 1.96 * fit[1].error),
                            .prior = 0,
                            .determined = n > 1 && fit[1].error <= 0.5 * fit[1].spread};
    return CCL_OK;
}
