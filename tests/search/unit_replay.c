/* Replay of tuned points: a played device whose constants are known, and the machine's cores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search/tune/replay.h"
#include "tests/topologies/topologies.h"

#define CLUSTER "servers:1 gpus:4 nvswitch=100GB/s,1us"
static const double sizes[] = {65536, 1048576};

typedef struct tuned {
    ccl_topology_t *topo;
    ccl_collective_t *want;
    ccl_tuning_t *tuning;
    ccl_space_t *space;
    ccl_tune_options_t options;
} tuned_t;

/* In place: the tuning keeps what it was made with. */
static void tune(tuned_t *t) {
    static const char *const knobs[] = {
        "with=ring,direct,recursive", "chunks=auto,1:4", "order=auto", "allocate=auto",
        "granularity=auto",           "proto=auto,LL128"};
    *t = (tuned_t){.options = CCL_TUNE_OPTIONS_INIT};
    t->topo = topology(CLUSTER);
    ck_assert_int_eq(ccl_collective_create(CCL_ALLGATHER, 4, 1, 0, &t->want, NULL), CCL_OK);
    ck_assert_int_eq(ccl_space_create(&t->space, NULL), CCL_OK);
    for (size_t i = 0; i < CCL_ARRAY_LEN(knobs); i++)
        ck_assert_int_eq(ccl_space_set(t->space, knobs[i], NULL), CCL_OK);
    t->options.space = t->space;
    t->options.strategy = CCL_STRATEGY_GRID;
    t->options.sizes_bytes = sizes;
    t->options.nsizes = CCL_ARRAY_LEN(sizes);
    t->options.gap = 0;
    t->options.keep = true;
    ck_assert_int_eq(ccl_tune(NULL, t->topo, t->want, &t->options, &t->tuning, NULL), CCL_OK);
}

static void tuned_fini(tuned_t *t) {
    ccl_tuning_destroy(t->tuning);
    ccl_space_destroy(t->space);
    ccl_collective_destroy(t->want);
    ccl_topology_destroy(t->topo);
}

/* The device: the cluster with other constants, of all protocols. */
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
        " \"transports\": {\"nvlink\": {\"protocols\": {\"Simple\": {\"overhead\": \"6us\"},"
        " \"LL128\": {\"overhead\": \"6us\"}}}}}";
    machine_t m = {.fails_from = UINT32_MAX};
    ccl_profile_t *profile = NULL;
    ck_assert_int_eq(ccl_profile_read_text("true", text, strlen(text), &profile, NULL), CCL_OK);
    ck_assert_int_eq(ccl_profile_apply(NULL, profile, topo, &m.topo, NULL), CCL_OK);
    ccl_profile_destroy(profile);
    return m;
}

/* What the device has is found, and ranks are as measured then: they were not before. */
START_TEST(fits_and_ranks) {
    tuned_t t;
    tune(&t);
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

/* The time of a point's program on the machine, made here as replays make it. */
static double time_on(const tuned_t *t, const machine_t *m, uint32_t run) {
    const ccl_tune_run_t *r = &t->tuning->runs[run];
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_program_t *program = NULL;
    ccl_way_t way;
    ck_assert_int_eq(ccl_tune_program(NULL, t->topo, t->want, t->tuning->points[r->point].values,
                                      sizes[r->size], &(ccl_tune_target_t){0}, &program, &way, NULL),
                     CCL_OK);
    sim.size_bytes = sizes[r->size];
    sim.batches = r->result.batches;
    sim.granularity = way.granularity;
    ck_assert_int_eq(ccl_sim_program(NULL, m->topo, NULL, program, &sim, &result, NULL), CCL_OK);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return time_s;
}

/* One point per size runs; all have a place with what was fitted, which is the machine's. */
START_TEST(ranks_all) {
    tuned_t t;
    tune(&t);
    machine_t m = machine_of(t.topo);
    ccl_replay_options_t options = CCL_REPLAY_OPTIONS_INIT;
    ccl_replay_t *r = NULL;
    uint32_t timed = 0, first = 0, moved = 0;
    options.top = 1;
    options.repeats = 9;
    options.measure = play;
    options.measure_user = &m;
    ck_assert_int_eq(ccl_tune_replay(NULL, t.topo, t.want, t.tuning, &options, &r, NULL), CCL_OK);
    for (uint32_t i = 0; i < t.tuning->nruns; i++)
        timed += t.tuning->runs[i].result.status == CCL_OK && !t.tuning->runs[i].estimate;
    ck_assert_uint_gt(timed, 4 * r->nran);
    ck_assert_uint_eq(r->nranked, timed);
    ck_assert_uint_eq(r->nunranked, 0);
    for (uint32_t i = 0; i < r->nranked; i++) {
        const ccl_reranked_t *p = &r->ranked[i];
        const ccl_tune_run_t *run = &t.tuning->runs[p->run];
        uint32_t tuned = 1, fitted = 1;
        if (run->size != t.tuning->runs[r->ranked[first].run].size)
            first = i;
        for (uint32_t k = 0; k < r->nranked; k++) {
            bool same = t.tuning->runs[r->ranked[k].run].size == run->size;
            tuned += same && r->ranked[k].tuned_s < p->tuned_s;
            fitted += same && r->ranked[k].fitted_s < p->fitted_s;
        }
        ck_assert(p->tuned_s == run->result.time_s);
        ck_assert_uint_eq(p->tuned_rank, tuned);
        ck_assert_uint_eq(p->fitted_rank, fitted);
        ck_assert(i == first || p->fitted_s >= p[-1].fitted_s);
        ck_assert_double_eq_tol(p->fitted_s, time_on(&t, &m, p->run), 0.05 * p->fitted_s);
        moved += tuned != fitted;
        if (p->replayed != CCL_NONE) {
            ck_assert_uint_eq(r->points[p->replayed].run, p->run);
            ck_assert(r->points[p->replayed].fitted_s == p->fitted_s);
        }
    }
    ck_assert_uint_gt(moved, 4); /* points of LL128 too, none of which ran */
    ccl_replay_destroy(r);
    /* Time is looked at before each round: with none left nothing is ranked, and that is told. */
    options.rank_s = 1e-9;
    m.calls = 0;
    ck_assert_int_eq(ccl_tune_replay(NULL, t.topo, t.want, t.tuning, &options, &r, NULL), CCL_OK);
    ck_assert_uint_eq(r->nranked, 0);
    ck_assert_uint_eq(r->nunranked, timed);
    ccl_replay_destroy(r);
    ccl_topology_destroy(m.topo);
    tuned_fini(&t);
}
END_TEST

/* Points that fail are told and left out; when all fail, the first one's failure is the error. */
START_TEST(failures_are_told) {
    tuned_t t;
    tune(&t);
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
                     CCL_CHECK);
    ck_assert_ptr_nonnull(strstr(err.text, "wrong data, as asked for"));
    ccl_topology_destroy(m.topo);
    tuned_fini(&t);
}
END_TEST

/* Four threads of this machine: the data are checked, times are those of a machine. */
START_TEST(runs_on_the_host) {
    tuned_t t;
    tune(&t);
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

RUN_TESTS(fits_and_ranks, ranks_all, failures_are_told, runs_on_the_host)
