/* From a topology and a collective to a proven program and its run. */
#include "make/make.h"
#include "tests/synth/common.h"
#include "tests/topologies/topologies.h"

#include <malloc.h>
#include <stdlib.h>

/* What is allocated now, and the most since it was asked for. */
static size_t held, most;

static void *note(void *data) {
    size_t now = __atomic_add_fetch(&held, malloc_usable_size(data), __ATOMIC_RELAXED);
    size_t was = __atomic_load_n(&most, __ATOMIC_RELAXED);
    while (now > was &&
           !__atomic_compare_exchange_n(&most, &was, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return data;
}

static void *drop(void *data) {
    __atomic_sub_fetch(&held, malloc_usable_size(data), __ATOMIC_RELAXED);
    return data;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *data, size_t bytes);
void __real_free(void *data);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *data, size_t bytes);
void __wrap_free(void *data);

void *__wrap_malloc(size_t bytes) {
    return note(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes) {
    return note(__real_calloc(n, bytes));
}

void *__wrap_realloc(void *data, size_t bytes) {
    return note(__real_realloc(drop(data), bytes));
}

void __wrap_free(void *data) {
    __real_free(drop(data));
}

#define CLUSTER "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x50GB/s,2us"

/* The same as its steps one by one. */
START_TEST(test_all_steps) {
    static const char *const names[] = {"ring", "hm", "hpds", "greedy"};
    ccl_topology_t *topo = topology(CLUSTER);
    ccl_collective_t *want = collective(CCL_ALLREDUCE, 8, 0);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    synth.size_bytes = 1 << 20;
    for (size_t i = 0; i < CCL_ARRAY_LEN(names); i++) {
        ccl_made_t made = {0};
        ck_assert_msg(ccl_make(NULL, names[i], topo, NULL, want, &synth, NULL, true, &made, &err) ==
                          CCL_OK,
                      "%s", err.text);
        const ccl_way_t *way = ccl_synth_find(names[i])->way;
        ck_assert(!way || memcmp(way, &made.way, sizeof *way) == 0);
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
        ccl_program_t *program = NULL;
        ccl_sim_result_t *run = NULL;
        lower.topo = topo;
        lower.order = made.way.order;
        lower.allocation = made.way.allocation;
        lower.granularity = sim.granularity = made.way.granularity;
        lower.size_bytes = sim.size_bytes = synth.size_bytes;
        ck_assert_int_eq(ccl_lower(NULL, made.schedule, &lower, &program, NULL), CCL_OK);
        ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &sim, &run, NULL), CCL_OK);
        ck_assert(ccl_program_equal(program, made.program));
        ck_assert(made.run->time_s == run->time_s);
        ccl_sim_result_destroy(run);
        ccl_program_destroy(program);
        ccl_made_fini(&made);
    }
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* An AllGather in which one rank never gets one chunk. */
static ccl_schedule_t *without_last(const ccl_topology_t *topo, const ccl_collective_t *want) {
    ccl_schedule_t *whole = NULL, *less = NULL;
    ccl_collective_t *coll = NULL;
    ck_assert_int_eq(ccl_synthesize(NULL, "direct", topo, NULL, want, NULL, &whole, NULL), CCL_OK);
    ck_assert_int_eq(ccl_collective_clone(whole->coll, &coll, NULL), CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("less", coll);
    for (uint32_t i = 0; i + 1 < whole->ntransfers; i++)
        ccl_schedule_builder_add(b, whole->transfers[i]);
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &less, NULL), CCL_OK);
    ccl_schedule_destroy(whole);
    return less;
}

START_TEST(test_wrong_programs) {
    ccl_topology_t *topo = topology(CLUSTER);
    ccl_collective_t *want = collective(CCL_ALLGATHER, 8, 0);
    ccl_schedule_t *schedule = without_last(topo, want);
    ccl_make_options_t make = CCL_MAKE_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_make_program(NULL, topo, NULL, schedule, NULL, &program, &err),
                     CCL_ERR_INTERNAL);
    ck_assert_ptr_null(program);
    ck_assert_msg(strncmp(err.text, "the program is wrong: ", 22) == 0, "%s", err.text);
    make.wrong = CCL_CHECK;
    ck_assert_int_eq(ccl_make_program(NULL, topo, NULL, schedule, &make, &program, NULL),
                     CCL_CHECK);
    ck_assert_ptr_null(program);
    make.no_prove = true;
    ck_assert_int_eq(ccl_make_program(NULL, topo, NULL, schedule, &make, &program, NULL), CCL_OK);
    ck_assert_int_eq(ccl_make_proven(NULL, program, CCL_GRANULARITY_ALGORITHM, CCL_EXECUTOR_ANY,
                                     CCL_CHECK, NULL),
                     CCL_CHECK);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* What LL would run goes through no switch. */
START_TEST(test_no_switches) {
    static const char *const protos[] = {NULL, "Simple", "LL", "LL128"};
    ccl_topology_t *topo = topology("servers:1 gpus:4 nvswitch=450GB/s,0.7us,nvls model=H100");
    ccl_collective_t *want = collective(CCL_ALLREDUCE, 4, 0);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    synth.size_bytes = 64 << 20;
    for (size_t i = 0; i < CCL_ARRAY_LEN(protos); i++) {
        ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
        ccl_made_t made = {0};
        lower.topo = topo;
        lower.proto = protos[i];
        ck_assert_msg(ccl_make(NULL, "packing", topo, NULL, want, &synth, &lower, false, &made,
                               &err) == CCL_OK,
                      "%s", err.text);
        ck_assert_msg((made.program->ngroups > 0) == (i < 2), "%zu: %s", i, made.schedule->origin);
        ccl_made_fini(&made);
    }
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_refused) {
    ccl_topology_t *topo = topology(CLUSTER);
    ccl_collective_t *want = collective(CCL_ALLTOALL, 8, 0);
    ccl_made_t made = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_make(NULL, "rung", topo, NULL, want, NULL, NULL, false, &made, &err),
                     CCL_ERR_INPUT);
    ck_assert_msg(strstr(err.text, "did you mean 'ring'"), "%s", err.text);
    ccl_error_clear(&err);
    ck_assert_int_ne(ccl_make(NULL, "tree", topo, NULL, want, NULL, NULL, false, &made, &err),
                     CCL_OK);
    ck_assert_ptr_null(made.schedule);
    ck_assert_ptr_null(made.program);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Programs of large clusters have millions of steps, most of which are like others': what a run
   costs for each. */
START_TEST(test_memory) {
    ccl_topology_t *topo = topology("dgx-h100*16");
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_made_t made = {0};
    ccl_sim_result_t *run = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    sim.size_bytes = synth.size_bytes = 1 << 20;
    ck_assert_msg(ccl_make(NULL, "recursive", topo, NULL, want, &synth, NULL, false, &made, &err) ==
                      CCL_OK,
                  "%s", err.text);
    size_t before = most = held;
    ck_assert_msg(ccl_sim_program(NULL, topo, NULL, made.program, &sim, &run, &err) == CCL_OK, "%s",
                  err.text);
    ck_assert_msg(most - before < 30 * (size_t)made.program->nsteps, "%zu bytes a step",
                  (most - before) / made.program->nsteps);
    ccl_sim_result_destroy(run);
    ccl_made_fini(&made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* Blocks that do other things in turn, and wait for others at other places, are not taken for
   alike: then none would be folded. */
START_TEST(test_folds) {
    ccl_topology_t *topo = topology("dgx1-v100*2");
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_synth_options_t synth = CCL_SYNTH_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_made_t made = {0};
    ccl_sim_result_t *runs[2] = {NULL, NULL};
    ccl_error_t err = CCL_ERROR_INIT;
    sim.size_bytes = synth.size_bytes = 1 << 30;
    ck_assert_msg(ccl_make(NULL, "recursive", topo, NULL, want, &synth, NULL, false, &made, &err) ==
                      CCL_OK,
                  "%s", err.text);
    for (int i = 0; i < 2; i++) {
        sim.no_fold = i == 1;
        ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, made.program, &sim, &runs[i], &err),
                         CCL_OK);
    }
    ck_assert_double_eq_tol(runs[0]->time_s, runs[1]->time_s, 1e-9 * runs[1]->time_s);
    ck_assert_uint_lt(4 * runs[0]->events, runs[1]->events);
    ccl_sim_result_destroy(runs[0]);
    ccl_sim_result_destroy(runs[1]);
    ccl_made_fini(&made);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

RUN_TESTS(test_all_steps, test_wrong_programs, test_no_switches, test_refused, test_memory,
          test_folds)
