/*
 * Runs in a testbed beside the simulator. What is measured of the testbed are few constants; the
 * rates of its NICs are known. Calibration programs have a rank per server and are none of a suite.
 */
#include "validate/fit/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 5u
#define REPEATS 5u
#define NOISE 0.03
#define WIDE_Bps 1.2e9 /* of a veth without a bucket, about: the cores' limit */
#define LOCAL_BYTES (4.0 * 1024 * 1024)
#define NPARAMETERS 5u

/* ---------------------------------------------------------------- prediction */

static ccl_status_t simulate(const ccl_ctx_t *ctx, const ccl_topology_t *topo,
                             const ccl_program_t *program, const ccl_run_options_t *options,
                             double *time_s_out, ccl_error_t *err) {
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    sim.size_bytes = options->size_bytes;
    sim.granularity = options->granularity;
    sim.batches = ccl_host_batches(program, options);
    ccl_status_t status = ccl_sim_program(ctx, topo, NULL, program, &sim, &result, err);
    if (status == CCL_OK)
        *time_s_out = result->time_s;
    ccl_sim_result_destroy(result);
    return status;
}

/** The same cluster with NICs that never limit; borrows all but its links. */
static ccl_status_t widen(const ccl_topology_t *topo, ccl_topology_t *out, ccl_error_t *err) {
    ccl_link_t *links = malloc((topo->nlinks + (size_t)1) * sizeof *links);
    if (!links)
        return ccl_fail_nomem(err);
    memcpy(links, topo->links, topo->nlinks * sizeof *links);
    for (uint32_t l = 0; l < topo->nlinks; l++)
        if (strcmp(topo->kinds[links[l].kind], "net") == 0)
            links[l].bandwidth_Bps = fmax(links[l].bandwidth_Bps, WIDE_Bps);
    *out = *topo;
    out->links = links;
    return CCL_OK;
}

ccl_status_t ccl_testbed_predict(const ccl_ctx_t *ctx, const ccl_testbed_plan_t *plan,
                                 const ccl_topology_t *topo, const ccl_program_t *program,
                                 const ccl_run_options_t *options, double *time_s_out,
                                 ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    double shaped_s = 0, free_s = 0;
    ccl_topology_t wide;
    CCL_TRY(simulate(ctx, topo, program, options, &shaped_s, err));
    CCL_TRY(widen(topo, &wide, err));
    ccl_status_t status = simulate(ctx, &wide, program, options, &free_s, err);
    free((void *)wide.links);
    if (status == CCL_OK)
        *time_s_out = fmax(free_s, shaped_s - plan->head_start_s);
    return status;
}

/* ---------------------------------------------------------------- calibration */

typedef struct point {
    ccl_host_micro_t micro;
    bool all; /* servers; else the first two */
    double size_bytes;
    double time_s;
} point_t;

/* No ping-pong of large messages: buckets fill up again while an end waits, and let it pass. */
static const point_t points[] = {
    {CCL_HOST_MICRO_EMPTY, true, 1536, 0},          {CCL_HOST_MICRO_PING, false, 1536, 0},
    {CCL_HOST_MICRO_STREAM, false, 393216, 0},      {CCL_HOST_MICRO_STREAM, false, 1536, 0},
    {CCL_HOST_MICRO_PAIRS, true, 1536, 0},          {CCL_HOST_MICRO_PAIRS, true, 2 << 20, 0},
    {CCL_HOST_MICRO_PAIRS, true, 8 << 20, 0},       {CCL_HOST_MICRO_FORWARD, true, 2 << 20, 0},
    {CCL_HOST_MICRO_FORWARD, true, 8 << 20, 0},     {CCL_HOST_MICRO_REDUCE, true, 2 << 20, 0},
    {CCL_HOST_MICRO_REDUCE_COPY, true, 8 << 20, 0}, {CCL_HOST_MICRO_REDUCE_PAIRS, true, 4 << 20, 0},
};
#define NPOINTS CCL_ARRAY_LEN(points)

typedef struct calibration {
    const ccl_ctx_t *ctx;
    const ccl_testbed_t *testbed;
    ccl_run_options_t run;
    ccl_host_measure_fn measure;
    void *user;
    ccl_testbed_plan_t plans[2]; /* a rank per server: two servers, all */
    uint32_t first_rank[CCL_TESTBED_MAX_SERVERS + 1];
    ccl_program_t *programs[NPOINTS];
    double time_s[NPOINTS], fitted_s[NPOINTS];
    ccl_testbed_constants_t values;
} calibration_t;

static ccl_run_options_t options_of(const calibration_t *c, uint32_t i) {
    ccl_run_options_t o = c->run;
    o.size_bytes = points[i].size_bytes;
    o.repeats = 3;
    o.warmups = 2;
    o.slice_bytes = CCL_I_HOST_SLICE_BYTES;
    o.no_check = true; /* they compute nothing that is wanted */
    o.first_rank = c->first_rank;
    o.world = c->plans[points[i].all].nservers;
    return o;
}

/** Hook of the default: in the testbed when there are several processes. */
static ccl_status_t measure_there(const ccl_program_t *program, const ccl_run_options_t *options,
                                  double *time_s, void *user, ccl_error_t *err) {
    const calibration_t *c = user;
    ccl_run_result_t *result = NULL;
    ccl_status_t status = options->world > 1
                              ? ccl_testbed_run(c->ctx, c->testbed, program, options, &result, err)
                              : ccl_run_program(c->ctx, program, options, &result, err);
    if (status == CCL_OK)
        *time_s = result->min_s;
    ccl_run_result_destroy(result);
    return status;
}

static ccl_status_t measure(calibration_t *c, uint32_t rounds, ccl_error_t *err) {
    for (uint32_t i = 0; i < NPOINTS; i++)
        c->time_s[i] = INFINITY;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < NPOINTS; i++) {
            ccl_progress_t progress = {"calibrate", (uint64_t)round * NPOINTS + i,
                                       (uint64_t)rounds * NPOINTS, 0, 0};
            ccl_run_options_t o = options_of(c, i);
            double time_s = 0;
            CCL_TRY(ccl_ctx_poll(c->ctx, &progress));
            CCL_TRY(c->measure(c->programs[i], &o, &time_s, c->user, err));
            if (!(time_s > 0))
                return ccl_fail(err, CCL_ERR_INPUT, "program %s took %g s",
                                ccl_host_micro_name(points[i].micro), time_s);
            c->time_s[i] = fmin(c->time_s[i], time_s);
        }
    }
    return CCL_OK;
}

/** Two ranks of one server, which share its process's worker. */
static ccl_status_t measure_local(calibration_t *c, uint32_t rounds, ccl_error_t *err) {
    static const ccl_host_micro_t micros[] = {CCL_HOST_MICRO_PING, CCL_HOST_MICRO_PAIRS,
                                              CCL_HOST_MICRO_LOCAL_REDUCE};
    double least_s[3] = {INFINITY, INFINITY, INFINITY};
    for (int k = 0; k < 3; k++) {
        ccl_program_t *program = NULL;
        ccl_run_options_t o = c->run;
        o.size_bytes = k ? LOCAL_BYTES : 1536;
        o.repeats = 3;
        o.warmups = 8;
        o.threads = 1;
        o.slice_bytes = CCL_I_HOST_SLICE_BYTES;
        o.no_check = true;
        CCL_TRY(ccl_host_micro(micros[k], 2, &program, err));
        ccl_status_t status = CCL_OK;
        for (uint32_t i = 0; i < rounds && status == CCL_OK; i++) {
            double time_s = INFINITY;
            status = c->measure(program, &o, &time_s, c->user, err);
            least_s[k] = fmin(least_s[k], time_s);
        }
        ccl_program_destroy(program);
        CCL_TRY(status);
    }
    c->values.local_overhead_s = c->values.local_latency_s = least_s[0] / 64 / 2;
    c->values.local_Bps = LOCAL_BYTES / 2 / least_s[1];
    c->values.reduce_rate_Bps = LOCAL_BYTES / least_s[2];
    return CCL_OK;
}

static void set(calibration_t *c, const double *v) {
    c->values.launch_s = exp(v[0]);
    c->values.overhead_s = exp(v[1]);
    c->values.latency_s = exp(v[2]);
    c->values.tb_rate_Bps = exp(v[3]);
    c->values.efficiency = fmin(1, exp(v[4]));
}

static ccl_status_t residuals(const double *v, double *r, void *user, ccl_error_t *err) {
    calibration_t *c = user;
    ccl_topology_t *topos[2] = {NULL, NULL};
    ccl_status_t status = CCL_OK;
    set(c, v);
    for (int all = 0; all < 2 && status == CCL_OK; all++)
        status = ccl_testbed_topology(&c->plans[all], &c->values, &topos[all], err);
    for (uint32_t i = 0; i < NPOINTS && status == CCL_OK; i++) {
        ccl_run_options_t o = options_of(c, i);
        status = ccl_testbed_predict(c->ctx, &c->plans[points[i].all], topos[points[i].all],
                                     c->programs[i], &o, &c->fitted_s[i], err);
        if (status == CCL_OK)
            r[i] = log(c->fitted_s[i] / c->time_s[i]);
    }
    ccl_topology_destroy(topos[0]);
    ccl_topology_destroy(topos[1]);
    return status;
}

static ccl_status_t fit(calibration_t *c, ccl_testbed_calibration_t *made, ccl_error_t *err) {
    static const struct {
        const char *name, *unit;
    } what[NPARAMETERS] = {{"launch", "s"},
                           {"transports/net/overhead", "s"},
                           {"transports/net/latency", "s"},
                           {"transports/net/tb_rate", "B/s"},
                           {"efficiency", "1"}};
    const double prior[NPARAMETERS] = {50e-6, 10e-6, 50e-6, c->values.local_Bps, 0.97};
    const double spread[NPARAMETERS] = {1, 2, 1, 1, 0.1};
    ccl_fit_parameter_t p[NPARAMETERS];
    ccl_fit_result_t result;
    double v[NPARAMETERS], r[NPOINTS], errors[NPOINTS];
    ccl_constant_t *list = ccl_arena_alloc(&made->arena, NPARAMETERS + 3, sizeof *list);
    if (!list)
        return ccl_fail_nomem(err);
    for (uint32_t i = 0; i < NPARAMETERS; i++)
        p[i] = (ccl_fit_parameter_t){.value = log(prior[i]), .spread = spread[i]};
    CCL_TRY(ccl_fit(NPARAMETERS, p, NULL, NPOINTS, NOISE, residuals, c, &result, err));
    for (uint32_t i = 0; i < NPARAMETERS; i++)
        v[i] = p[i].value;
    CCL_TRY(residuals(v, r, c, err));
    for (uint32_t i = 0; i < NPARAMETERS; i++)
        list[i] = (ccl_constant_t){.name = what[i].name,
                                   .unit = what[i].unit,
                                   .value = exp(v[i]),
                                   .low = exp(v[i] - 1.96 * p[i].error),
                                   .high = exp(v[i] + 1.96 * p[i].error),
                                   .prior = prior[i],
                                   .determined = p[i].error <= 0.5 * p[i].spread};
    const double local[] = {c->values.local_overhead_s, c->values.local_Bps,
                            c->values.reduce_rate_Bps};
    static const char *const names[] = {"transports/shm/overhead", "transports/shm/tb_rate",
                                        "reduce_rate"};
    for (uint32_t i = 0; i < 3; i++)
        list[NPARAMETERS + i] = (ccl_constant_t){.name = names[i],
                                                 .unit = i ? "B/s" : "s",
                                                 .value = local[i],
                                                 .low = local[i] / 1.1,
                                                 .high = local[i] * 1.1,
                                                 .prior = local[i],
                                                 .determined = true};
    for (uint32_t i = 0; i < NPOINTS; i++) {
        errors[i] = fabs(c->fitted_s[i] / c->time_s[i] - 1);
        made->worst_error = fmax(made->worst_error, errors[i]);
    }
    made->median_error = ccl_i_host_median(errors, NPOINTS);
    made->npoints = NPOINTS;
    made->values = c->values;
    made->constants = list;
    made->nconstants = NPARAMETERS + 3;
    return CCL_OK;
}

/** The plan with one rank per server, of the first `nservers`. */
static ccl_testbed_plan_t thin(const ccl_testbed_plan_t *plan, uint32_t nservers,
                               ccl_testbed_server_t *servers) {
    ccl_testbed_plan_t out = *plan;
    out.nservers = out.nranks = nservers;
    for (uint32_t i = 0; i < plan->nservers; i++) {
        servers[i] = plan->servers[i];
        servers[i].first_rank = i;
        servers[i].nranks = 1;
    }
    out.servers = servers;
    return out;
}

ccl_status_t ccl_testbed_calibrate(const ccl_ctx_t *ctx, const ccl_testbed_plan_t *plan,
                                   const ccl_testbed_t *testbed, const ccl_run_options_t *run,
                                   uint32_t rounds, ccl_host_measure_fn measure_fn, void *user,
                                   ccl_testbed_calibration_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, run, err);
    static const ccl_testbed_constants_t defaults = CCL_TESTBED_CONSTANTS_INIT;
    ccl_testbed_server_t servers[CCL_TESTBED_MAX_SERVERS];
    calibration_t c = {.ctx = ctx, .testbed = testbed, .run = *run, .values = defaults};
    ccl_testbed_calibration_t *made = calloc(1, sizeof *made);
    if (!made)
        return ccl_fail_nomem(err);
    ccl_arena_init(&made->arena);
    c.measure = measure_fn ? measure_fn : measure_there;
    c.user = measure_fn ? user : &c;
    rounds = rounds ? rounds : ROUNDS;
    c.plans[0] = thin(plan, 2, servers);
    c.plans[1] = thin(plan, plan->nservers, servers);
    for (uint32_t i = 0; i <= plan->nservers; i++)
        c.first_rank[i] = i;
    ccl_status_t status = CCL_OK;
    for (uint32_t i = 0; i < NPOINTS && status == CCL_OK; i++)
        status =
            ccl_host_micro(points[i].micro, c.plans[points[i].all].nranks, &c.programs[i], err);
    if (status == CCL_OK)
        status = measure_local(&c, rounds, err);
    if (status == CCL_OK)
        status = measure(&c, rounds, err);
    if (status == CCL_OK)
        status = fit(&c, made, err);
    for (uint32_t i = 0; i < NPOINTS; i++)
        ccl_program_destroy(c.programs[i]);
    if (status != CCL_OK) {
        ccl_testbed_calibration_destroy(made);
        return status;
    }
    *out = made;
    return CCL_OK;
}

void ccl_testbed_calibration_destroy(ccl_testbed_calibration_t *calibration) {
    if (!calibration)
        return;
    ccl_arena_fini(&calibration->arena);
    free(calibration);
}

/* ---------------------------------------------------------------- validation */

typedef struct validating {
    const ccl_ctx_t *ctx;
    const ccl_testbed_t *testbed;
    const ccl_topology_t *topo;
} validating_t;

static ccl_status_t predict(const ccl_program_t *program, const ccl_run_options_t *options,
                            double *time_s, void *user, ccl_error_t *err) {
    const validating_t *v = user;
    return ccl_testbed_predict(v->ctx, ccl_testbed_get_plan(v->testbed), v->topo, program, options,
                               time_s, err);
}

/** Windows have grown after a run or two; a third run is what is meant. */
static ccl_status_t measure_case(const ccl_program_t *program, const ccl_run_options_t *options,
                                 double *time_s, void *user, ccl_error_t *err) {
    const validating_t *v = user;
    ccl_run_options_t o = *options;
    ccl_run_result_t *result = NULL;
    o.warmups = 2;
    ccl_status_t status = ccl_testbed_run(v->ctx, v->testbed, program, &o, &result, err);
    if (status == CCL_OK)
        *time_s = result->min_s;
    ccl_run_result_destroy(result);
    return status;
}

ccl_status_t ccl_validate_testbed(const ccl_ctx_t *ctx, const ccl_testbed_t *testbed,
                                  const ccl_topology_t *topo, const ccl_validate_case_t *cases,
                                  uint32_t ncases, const double *sizes_bytes, uint32_t nsizes,
                                  const ccl_validate_options_t *options, ccl_validation_t **out,
                                  ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_validate_options_t, options, err);
    CCL_OPTIONS_TRY(ccl_run_options_t, &options->run, err);
    validating_t v = {ctx, testbed, topo};
    const ccl_testbed_plan_t *plan = ccl_testbed_get_plan(testbed);
    ccl_validate_options_t o = *options;
    ccl_text_t setting = {0};
    for (uint32_t s = 0; s < plan->nservers; s++)
        ccl_text_printf(&setting, "%u@%.0f/%.0f,", plan->servers[s].nranks,
                        plan->servers[s].rate_out_bps, plan->servers[s].rate_in_bps);
    if (setting.nomem)
        return ccl_fail_nomem(err);
    o.repeats = o.repeats ? o.repeats : REPEATS;
    o.measure = measure_case;
    o.predict = predict;
    o.measure_user = o.predict_user = &v;
    o.setting = setting.data;
    ccl_status_t status =
        ccl_validate_host(ctx, NULL, cases, ncases, sizes_bytes, nsizes, &o, out, err);
    ccl_text_fini(&setting);
    return status;
}
