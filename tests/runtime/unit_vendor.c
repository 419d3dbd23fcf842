// timeout: 120
/*
 * Collectives by a vendor's library (runtime/hom/vendor.c): a fake one (fakenccl.c) on the fake
 * GPUs, in one process and in several; libraries that do wrong, hang, refuse, or are not what is
 * needed.
 */
#include "common.h"
#include "tests/schedule/mutants.h"

static const char four[] = "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us";

static ccl_run_options_t options(const char *folders, const char *fault) {
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    setenv("CCL_DEVICE_PATH", folders, 1);
    setenv("CCL_TEST_DEVICES", "4", 1);
    unsetenv("CCL_TEST_NCCL_FAULT");
    if (fault)
        setenv("CCL_TEST_NCCL_FAULT", fault, 1);
    o.device = "cuda";
    o.library = CCL_LIBRARY_AUTO;
    o.size_bytes = 50000;
    o.repeats = 3;
    return o;
}

static const struct {
    const char *with;
    ccl_collective_kind_t kind;
    uint32_t processes; /* 0: one */
    bool out_of_place;
} cases[] = {
    {"ring", CCL_ALLREDUCE, 0, false},     {"ring", CCL_ALLREDUCE, 4, true},
    {"ring", CCL_ALLGATHER, 2, false},     {"ring", CCL_ALLGATHER, 0, true},
    {"ring", CCL_REDUCESCATTER, 0, false}, {"ring", CCL_REDUCESCATTER, 4, true},
    {"direct", CCL_ALLTOALL, 2, true},     {"direct", CCL_BROADCAST, 0, false},
    {"direct", CCL_REDUCE, 2, false},      {"direct", CCL_GATHER, 0, false},
    {"direct", CCL_SCATTER, 2, false},     {"direct", CCL_GATHER, 4, true},
    {"direct", CCL_SCATTER, 0, true},      {"direct", CCL_SENDRECV, 0, true},
};

static ccl_program_t *program_for(size_t i) {
    ccl_lower_options_t how = CCL_LOWER_OPTIONS_INIT;
    how.out_of_place = cases[i].out_of_place;
    return program_of(cases[i].with, cases[i].kind, four, &how);
}

static ccl_run_options_t options_for(size_t i, const char *fault) {
    ccl_run_options_t o = options(FAKE_BOTH, fault);
    o.ranks = cases[i].processes ? CCL_RANKS_PROCESSES : CCL_RANKS_THREADS;
    o.processes = cases[i].processes;
    o.out_of_place = cases[i].out_of_place;
    o.type = (ccl_type_t)(i % CCL_TYPES);
    o.op = (ccl_reduction_t)(i % CCL_REDUCTIONS);
    return o;
}

START_TEST(test_right) {
    ccl_program_t *p = program_for((size_t)_i);
    ccl_run_options_t o = options_for((size_t)_i, NULL);
    ccl_run_result_t *r = run_right(p, &o, ccl_collective_kind_name(cases[_i].kind));
    ck_assert_str_eq(r->library, "nccl 2.19.4");
    ck_assert_uint_gt(r->checked_items, 0);
    ck_assert(r->min_s > 0 && r->busbw_GBps > 0);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* In place with one of the two buffers only, as files have it. */
START_TEST(test_one_buffer) {
    if (cases[_i].out_of_place)
        return;
    for (uint32_t keep = CCL_BUF_INPUT; keep <= CCL_BUF_OUTPUT; keep++) {
        ccl_program_t *p = program_for((size_t)_i), m = mutant_of(p);
        ccl_run_options_t o = options_for((size_t)_i, NULL);
        mutant_fold(&m, (ccl_buffer_t)keep);
        ccl_run_result_t *r = run_right(&m, &o, ccl_collective_kind_name(cases[_i].kind));
        ck_assert_str_eq(r->library, "nccl 2.19.4");
        ccl_run_result_destroy(r);
        mutant_free(&m);
        ccl_program_destroy(p);
    }
}
END_TEST

/* What is checked is what the library wrote. */
START_TEST(test_wrong) {
    ccl_program_t *p = program_for((size_t)_i);
    ccl_run_options_t o = options_for((size_t)_i, "wrong");
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_CHECK);
    ck_assert_msg(strncmp(err.text, "wrong data in run 0: rank ", 26) == 0, "%s", err.text);
    ccl_run_result_destroy(r);
    o = options_for((size_t)_i, "wrong");
    o.library = CCL_LIBRARY_NONE; /* the program has nothing to do with it */
    r = run_right(p, &o, "program");
    ck_assert_str_eq(r->library, "");
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

static void must_fail(const ccl_program_t *p, const ccl_run_options_t *o, ccl_status_t want,
                      const char *text) {
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_run_program(NULL, p, o, &r, &err);
    ck_assert_msg(status == want && strstr(err.text, text) && !r, "%s: %s, not: %s",
                  ccl_status_name(status), err.text, text);
}

START_TEST(test_hangs) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options(FAKE_BOTH, "hang");
    o.watchdog_s = 0.3;
    o.ranks = _i ? CCL_RANKS_PROCESSES : CCL_RANKS_THREADS;
    must_fail(p, &o, CCL_ERR_IO, "nccl was not done with allreduce after 0.3 s");
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_refused) {
    static const ccl_run_ranks_t how[] = {CCL_RANKS_THREADS, CCL_RANKS_PROCESSES};
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    for (size_t i = 0; i < 2; i++) {
        ccl_run_options_t o = options(FAKE_BOTH, "refuse");
        o.ranks = how[i];
        must_fail(p, &o, CCL_ERR_IO, "nccl: allreduce: invalid usage (fake)");
        o = options(FAKE_GPU ":" FAKE_OLD_NCCL, NULL);
        o.ranks = how[i];
        must_fail(p, &o, CCL_ERR_MISSING, "libnccl.so.2 has no ncclSend: version 2.7 or later");
        o = options(FAKE_BOTH, NULL);
        o.ranks = how[i];
        o.library = CCL_LIBRARY_RCCL;
        must_fail(p, &o, CCL_ERR_MISSING, "rccl runs on hip devices, this run is on cuda");
        o.device = "host";
        o.library = CCL_LIBRARY_NCCL;
        must_fail(p, &o, CCL_ERR_MISSING, "nccl runs on cuda devices, this run is on host");
    }
    ccl_run_options_t o = options(FAKE_BOTH, NULL);
    setenv("CCL_TEST_DEVICES", "3", 1); /* in one process, then in four that share them */
    must_fail(p, &o, CCL_ERR_MISSING, "nccl wants a device for every rank, process 0 has 4");
    o.ranks = CCL_RANKS_PROCESSES;
    must_fail(p, &o, CCL_ERR_MISSING, "nccl cannot connect the ranks: invalid usage (fake)");
    o.device = "cuda*2,hip*2";
    o.processes = 2;
    must_fail(p, &o, CCL_ERR_MISSING, "nccl runs on cuda devices, this run is on cuda and");
    o = options(FAKE_BOTH, NULL);
    o.block_times = true;
    must_fail(p, &o, CCL_ERR_USAGE, "a library's collective has no thread blocks");
    ccl_program_destroy(p);
}
END_TEST

/* Devices of the other vendor take the other library. */
START_TEST(test_rccl) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options(FAKE_BOTH, NULL);
    o.device = "hip";
    ccl_run_result_t *r = run_right(p, &o, "rccl");
    ck_assert_str_eq(r->library, "rccl 2.19.4");
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("vendor");
    TCase *tests = tcase_create("vendor");
    tcase_set_timeout(tests, 0);
    tcase_add_loop_test(tests, test_right, 0, CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tests, test_one_buffer, 0, CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tests, test_wrong, 0, CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tests, test_hangs, 0, 2);
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_rccl);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
