/* Replay of tuned points: a played device whose constants are known, and the machine's cores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/search.h"
#include "tests/base/main.h"

#define CLUSTER "servers:1 gpus:4 nvswitch=100GB/s,1us"
static const double sizes[] = {65536, 1048576};

typedef struct tuned {
    ccl_topology_t *topo;
    ccl_collective_t *want;
    ccl_tuning_t *tuning;
} tuned_t;

static tuned_t tune(void) {
    static const char *const knobs[] = {"with=ring,direct,recursive", "chunks=auto,1:4",
                                        "order=auto", "allocate=auto", "granularity=auto"};
    ccl_tune_options_t options = CCL_TUNE_OPTIONS_INIT;
    ccl_space_t *space = NULL;
    tuned_t t = {0};
    ck_assert_int_eq(ccl_topology_read(NULL, CLUSTER, &t.topo, NULL), CCL_OK);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &t.want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_space_create(&space, NULL), CCL_OK);
    for (size_t i = 0; i < CCL_ARRAY_LEN(knobs); i++)
        ck_assert_int_eq(ccl_space_set(space, knobs[i], NULL), CCL_OK);
    options.space = space;
    options.strategy = CCL_STRATEGY_GRID;
    options.sizes_bytes = sizes;
    options.nsizes = CCL_ARRAY_LEN(sizes);
    options.gap = 0;
    ck_assert_int_eq(ccl_tune(NULL, t.topo, t.want, &options, &t.tuning, NULL), CCL_OK);
    ccl_space_destroy(space);
    return t;
}

static void tuned_fini(tuned_t *t) {
    ccl_tuning_destroy(t->tuning);
    ccl_collective_destroy(t->want);
    ccl_topology_destroy(t->topo);
}

/* The device: the cluster with other constants. */
typedef struct machine {
    ccl_topology_t *topo;
    uint32_t calls, fails_from;
} machine_t;

static ccl_status_t play(const ccl_program_t *program, const ccl_run_options_t *run, double *time_s,
                         void *user, ccl_error_t *err) {
    machine_t *m = user;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    if (m->calls++ >= m->fails_from)
        return ccl_fail(err, CCL_CHECK, "wrong data, as asked for");
    sim.size_bytes = run->size_bytes;
    sim.batches = run->batches;
    sim.granularity = run->granularity;
    CCL_TRY(ccl_sim_program(NULL, m->topo, NULL, program, &sim, &result, err));
    *time_s = result->time_s * (m->calls <= 8 ? 1.5 : 1); /* busy at first */
    ccl_sim_result_destroy(result);
    return CCL_OK;
}

static machine_t machine_of(const ccl_topology_t *topo) {
    static const char text[] =
        "{\"format\": \"ccllab-profile-1\", \"name\": \"true\","
        " \"links\": {\"nvlink\": {\"efficiency\": 0.2}},"
        " \"transports\": {\"nvlink\": {\"protocols\": {\"Simple\": {\"overhead\": \"6us\"}}}}}";
    machine_t m = {.fails_from = UINT32_MAX};
    ccl_profile_t *profile = NULL;
    ck_assert_int_eq(ccl_profile_read_text("true", text, strlen(text), &profile, NULL), CCL_OK);
    ck_assert_int_eq(ccl_profile_apply(NULL, profile, topo, "Simple", &m.topo, NULL), CCL_OK);
    ccl_profile_destroy(profile);
    return m;
}

/* What the device has is found, and ranks are as measured then: they were not before. */
START_TEST(fits_and_ranks) {
    tuned_t t = tune();
    machine_t m = machine_of(t.topo);
    ccl_replay_options_t options = CCL_REPLAY_OPTIONS_INIT;
    ccl_replay_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.top = 5;
    options.repeats = 4;
    options.measure = play;
    options.measure_user = &m;
    ck_assert_msg(ccl_tune_replay(NULL, t.topo, t.want, t.tuning, &options, &r, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_uint_ge(r->npoints, 6);
    ck_assert_uint_eq(r->nran, r->npoints);
    ck_assert_uint_eq(m.calls, 4 * r->npoints);
    ck_assert_uint_eq(r->nconstants, 2);
    ck_assert_str_eq(r->constants[0].name, "transports/nvlink/overhead");
    ck_assert_double_eq_tol(r->constants[0].value, 6e-6, 0.3e-6);
    ck_assert_str_eq(r->constants[1].name, "links/nvlink/efficiency");
    ck_assert_double_eq_tol(r->constants[1].value, 0.2, 0.01);
    ck_assert_double_gt(r->error_tuned, 0.5);
    ck_assert_double_lt(r->error_fitted, 0.02);
    ck_assert_double_gt(r->tau_fitted, r->tau_tuned);
    uint32_t moved = 0;
    for (uint32_t i = 0; i < r->npoints; i++) {
        const ccl_replayed_t *p = &r->points[i];
        ck_assert_uint_ge(p->measured_rank, 1);
        if (i > 0 && t.tuning->runs[p->run].size == t.tuning->runs[p[-1].run].size)
            ck_assert(p->tuned_s >= p[-1].tuned_s);
        moved += p->fitted_rank != p->tuned_rank;
    }
    ck_assert_uint_gt(moved, 0);
    /* The profile is one that can be laid over the cluster. */
    ccl_profile_t *profile = NULL;
    ck_assert_int_eq(ccl_profile_read_text("r", r->profile, strlen(r->profile), &profile, NULL),
                     CCL_OK);
    ccl_profile_destroy(profile);
    ccl_replay_destroy(r);
    ccl_topology_destroy(m.topo);
    tuned_fini(&t);
}
END_TEST

/* Points that fail are told and left out; when all fail, that is the error. */
START_TEST(failures_are_told) {
    tuned_t t = tune();
    machine_t m = machine_of(t.topo);
    ccl_replay_options_t options = CCL_REPLAY_OPTIONS_INIT;
    ccl_replay_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.repeats = 1;
    options.measure = play;
    options.measure_user = &m;
    m.fails_from = 4;
    ck_assert_int_eq(ccl_tune_replay(NULL, t.topo, t.want, t.tuning, &options, &r, &err), CCL_OK);
    ck_assert_uint_eq(r->nran, 4);
    ck_assert_uint_gt(r->npoints, 4);
    ck_assert_int_eq(r->points[4].status, CCL_CHECK);
    ck_assert_str_eq(r->points[4].why, "wrong data, as asked for");
    ck_assert_uint_eq(r->points[4].fitted_rank, 0);
    ccl_replay_destroy(r);
    m.fails_from = 0;
    ck_assert_int_eq(ccl_tune_replay(NULL, t.topo, t.want, t.tuning, &options, &r, &err),
                     CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "wrong data, as asked for"));
    ccl_topology_destroy(m.topo);
    tuned_fini(&t);
}
END_TEST

/* Four threads of this machine: the data are checked, times are those of a machine. */
START_TEST(runs_on_the_host) {
    tuned_t t = tune();
    ccl_replay_options_t options = CCL_REPLAY_OPTIONS_INIT;
    ccl_replay_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.repeats = 2;
    options.run.threads = 2;
    ck_assert_msg(ccl_tune_replay(NULL, t.topo, t.want, t.tuning, &options, &r, &err) == CCL_OK,
                  "%s", err.text);
    ck_assert_uint_eq(r->npoints, 6);
    ck_assert_uint_eq(r->nran, 6);
    for (uint32_t i = 0; i < r->npoints; i++)
        ck_assert_double_gt(r->points[i].measured_s, 1e-7);
    ck_assert_double_lt(r->error_fitted, r->error_tuned);
    ccl_replay_destroy(r);
    options.run.device = "nowhere";
    ck_assert_int_ne(ccl_tune_replay(NULL, t.topo, t.want, t.tuning, &options, &r, &err), CCL_OK);
    tuned_fini(&t);
}
END_TEST

RUN_TESTS(fits_and_ranks, failures_are_told, runs_on_the_host)
