// timeout: 300
/*
 * Ranks of one run on several devices and in several processes (runtime/wire/reach.c), with the
 * fake GPU (gpublocks.c), whose memory other processes can open: handles are exchanged, mapped and
 * unmapped; without them FIFOs lie in memory of the host or go over TCP. Processes that die, hang
 * or find wrong data.
 */
#include "random_programs.h"
#include "tests/base/nightly.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char four[] = "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us";

static ccl_run_options_t options(const char *devices, const char *without) {
    static const char *const switches[] = {"CCL_TEST_NO_IPC", "CCL_TEST_IPC_FAILS",
                                           "CCL_TEST_NO_PEERS", "CCL_TEST_SPLIT_LINES"};
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    setenv("CCL_DEVICE_PATH", FAKE_GPU, 1);
    setenv("CCL_TEST_DEVICES", devices, 1);
    for (size_t i = 0; i < CCL_ARRAY_LEN(switches); i++)
        unsetenv(switches[i]);
    if (without)
        setenv(without, "1", 1);
    o.device = "cuda";
    o.size_bytes = 50000;
    o.repeats = 2;
    o.warmups = 0;
    return o;
}

static const struct {
    const char *with;
    ccl_collective_kind_t kind;
    const char *devices, *without;
    uint32_t processes; /* 0: one */
    ccl_run_transport_t transport;
    uint32_t want_devices; /* of process 0 */
    bool want_ipc;
} cases[] = {
    /* one process over several devices */
    {"ring", CCL_ALLREDUCE, "1", NULL, 0, CCL_RUN_SHM, 1, false},
    {"ring", CCL_ALLREDUCE, "3", NULL, 0, CCL_RUN_SHM, 3, false},
    {"direct", CCL_ALLTOALL, "9", NULL, 0, CCL_RUN_SHM, 4, false},
    {"hm", CCL_ALLGATHER, "2", "CCL_TEST_NO_PEERS", 0, CCL_RUN_SHM, 2, false},
    /* children: each a device, several a device, several devices each */
    {"ring", CCL_ALLREDUCE, "4", NULL, 4, CCL_RUN_SHM, 1, true},
    {"ring", CCL_REDUCESCATTER, "1", NULL, 3, CCL_RUN_SHM, 1, true},
    {"direct", CCL_ALLTOALL, "4", NULL, 2, CCL_RUN_SHM, 2, true},
    {"direct", CCL_ALLREDUCE, "5", "CCL_TEST_NO_PEERS", 2, CCL_RUN_SHM, 2, true},
    /* without IPC through memory of the host, or TCP when it is asked for */
    {"ring", CCL_ALLREDUCE, "4", "CCL_TEST_NO_IPC", 4, CCL_RUN_SHM, 1, false},
    {"direct", CCL_ALLTOALL, "4", "CCL_TEST_IPC_FAILS", 2, CCL_RUN_SHM, 2, false},
    {"tree", CCL_BROADCAST, "2", NULL, 4, CCL_RUN_TCP, 1, false},
    {"direct", CCL_ALLTOALL, "4", NULL, 2, CCL_RUN_TCP, 2, false},
};

START_TEST(test_runs) {
    ccl_program_t *p = program_of(cases[_i].with, cases[_i].kind, four, NULL);
    static const ccl_run_protocol_t protocols[] = {CCL_RUN_SIMPLE, CCL_RUN_LL, CCL_RUN_LL128,
                                                   CCL_RUN_LL128};
    uint32_t step = nightly() ? 1 : SANITIZED ? 4 : 2; /* two of four, in turn, or one */
    for (uint32_t k = ((uint32_t)_i + (uint32_t)_i / 4) % step; k < CCL_ARRAY_LEN(protocols);
         k += step) {
        uint32_t level = k % 2 * 2;
        ccl_run_options_t o = options(cases[_i].devices, cases[_i].without);
        o.protocol = protocols[k];
        if (k == 3) /* links that carry no whole lines */
            setenv("CCL_TEST_SPLIT_LINES", "1", 1);
        o.ranks = cases[_i].processes ? CCL_RANKS_PROCESSES : CCL_RANKS_THREADS;
        o.processes = cases[_i].processes;
        o.transport = cases[_i].transport;
        o.granularity = (ccl_granularity_t)level;
        o.type = (ccl_type_t)((_i + level) % CCL_TYPES);
        o.batches = 1 + level;
        o.slice_bytes = 2048;
        o.block_times = level > 0;
        ccl_run_result_t *r = run_right(p, &o, cases[_i].with);
        ck_assert_uint_eq(r->processes, cases[_i].processes ? cases[_i].processes : 1);
        ck_assert_uint_eq(r->devices, cases[_i].want_devices);
        ck_assert(r->ipc == cases[_i].want_ipc);
        ck_assert_uint_gt(r->checked_items, 0);
        ck_assert(r->min_s > 0);
        ck_assert(!r->blocks == !o.block_times);
        for (uint32_t t = 0; r->blocks && t < r->ntbs; t++)
            ck_assert_uint_gt(r->blocks[t].slices, 0);
        ccl_run_result_destroy(r);
    }
    ccl_program_destroy(p);
}
END_TEST

/* Random programs over children with IPC and without. */
START_TEST(test_random) {
    static const char *const without[] = {NULL, "CCL_TEST_NO_IPC"};
    ccl_rng_t rng;
    random_world_t world;
    ccl_rng_init(&rng, 31 + (uint64_t)_i);
    random_world_init(&world);
    for (uint32_t done = 0; done < (nightly() ? 15u : SANITIZED ? 3u : 5u);) {
        random_case_t c = {0};
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_result_t *r = NULL;
        if (!random_case(&rng, &world, &c))
            continue;
        if (c.program->ntbs <= 16) { /* more would only wait for each other */
            ccl_run_options_t o = options(done % 2 ? "3" : "1", without[_i % 2]);
            c.options.device = o.device;
            c.options.ranks = CCL_RANKS_PROCESSES;
            c.options.processes = 2 + done % 2;
            c.options.transport = _i == 2 ? CCL_RUN_TCP : CCL_RUN_SHM;
            ccl_status_t status = ccl_run_program(NULL, c.program, &c.options, &r, &err);
            ck_assert_msg(status == CCL_OK || foreseen(status, &err), "%s: %s", c.what, err.text);
            done += status == CCL_OK;
        }
        ccl_run_result_destroy(r);
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
}
END_TEST

/* Each process has a kernel of its own blocks. */
START_TEST(test_generated) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options("2", NULL);
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.ranks = CCL_RANKS_PROCESSES;
    o.processes = 2;
    o.kernel = CCL_KERNEL_GENERATED;
    ccl_run_result_destroy(run_right(p, &o, "generated in two processes"));
    /* What a child finds wrong this process learns, with its place. */
    setenv("CCL_TEST_MUTATE", "CCL_DEVICE_RRCS, b=>CCL_DEVICE_RCS, b", 1);
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_CHECK);
    unsetenv("CCL_TEST_MUTATE");
    ck_assert_msg(strstr(err.text, "wrong data in run 0"), "%s", err.text);
    ck_assert_uint_gt(r->wrong_items, 0);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_hang) {
    ccl_program_t *p = stuck();
    ccl_run_options_t o = options("2", NULL);
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.ranks = CCL_RANKS_PROCESSES;
    o.no_static_check = true;
    o.watchdog_s = 0.3;
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_DEADLOCK);
    ck_assert_msg(strstr(err.text, "nothing moved for 0.3 s"), "%s", err.text);
    ck_assert_ptr_nonnull(r->deadlock);
    ck_assert_uint_eq(r->deadlock->nwaits, 2);
    ck_assert_int_eq(r->deadlock->waits[0].wait, CCL_WAIT_DATA);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- jobs */

START_TEST(test_job) {
    static const char *const without[] = {NULL, "CCL_TEST_NO_IPC", "CCL_TEST_IPC_FAILS"};
    char root[64];
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options("2", without[_i]);
    pid_t pids[3];
    free_root(root, sizeof root);
    o.type = CCL_TYPE_BF16;
    o.world = 3;
    o.root = root;
    o.transport = CCL_RUN_TCP;
    for (uint32_t i = 1; i < 3; i++)
        pids[i] = start(p, &o, i, false);
    ccl_run_result_t *r = run_right(p, &o, "job of 3");
    ck_assert_uint_eq(r->processes, 3);
    ck_assert(r->ipc == (_i == 0));
    ccl_run_result_destroy(r);
    for (uint32_t i = 1; i < 3; i++)
        ck_assert_int_eq(status_of(pids[i]), CCL_OK);
    ccl_program_destroy(p);
}
END_TEST

/* A process that dies in the midst of its runs is an error at all others within seconds. */
START_TEST(test_dead_peer) {
    static const char *const without[] = {NULL, "CCL_TEST_NO_IPC"};
    char root[64];
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options("1", without[_i]);
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    pid_t pids[3];
    free_root(root, sizeof root);
    o.repeats = 1000000;
    o.world = 3;
    o.root = root;
    pids[1] = start(p, &o, 1, false);
    pids[2] = start(p, &o, 2, true);
    double before_s = ccl_now_s();
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_IO);
    ck_assert_msg(strstr(err.text, "process"), "%s", err.text);
    ck_assert_int_eq(status_of(pids[1]), CCL_ERR_IO);
    ck_assert_int_eq(status_of(pids[2]), -1);
    ck_assert_double_lt(ccl_now_s() - before_s, 10);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.reach");
    TCase *tcase = tcase_create("reach");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_runs, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tcase, test_random, 0, 3);
    if (strlen(CCL_HOST_CXX) && !strstr(CCL_HOST_CXX, "NOTFOUND"))
        tcase_add_test(tcase, test_generated);
    tcase_add_test(tcase, test_hang);
    tcase_add_loop_test(tcase, test_job, 0, 3);
    tcase_add_loop_test(tcase, test_dead_peer, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
