/*
 * Ranks in processes: children over shared memory and TCP, a job of processes that were started
 * apart, and what happens when one of them dies or is not like the others.
 */
#include "common.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const spec = "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us";

static const struct {
    const char *with;
    ccl_collective_kind_t kind;
    ccl_run_transport_t transport;
    uint32_t processes;
} cases[] = {
    {"ring", CCL_ALLREDUCE, CCL_RUN_SHM, 0},     {"ring", CCL_ALLREDUCE, CCL_RUN_TCP, 0},
    {"direct", CCL_ALLTOALL, CCL_RUN_SHM, 3},    {"direct", CCL_ALLTOALL, CCL_RUN_TCP, 3},
    {"tree", CCL_REDUCE, CCL_RUN_SHM, 2},        {"tree", CCL_BROADCAST, CCL_RUN_TCP, 5},
    {"hm", CCL_REDUCESCATTER, CCL_RUN_SHM, 100}, {"hm", CCL_ALLGATHER, CCL_RUN_TCP, 2},
};

START_TEST(test_children) {
    ccl_program_t *p = program_of(cases[_i].with, cases[_i].kind, spec, NULL);
    for (uint32_t batches = 1; batches <= 5; batches += 2) {
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        o.size_bytes = 300000;
        o.ranks = CCL_RANKS_PROCESSES;
        o.processes = cases[_i].processes;
        o.transport = cases[_i].transport;
        o.type = (ccl_type_t)(batches % CCL_TYPES);
        o.batches = batches;
        o.repeats = 2;
        o.warmups = 0;
        o.block_times = batches == 3;
        ccl_run_result_t *r = run_right(p, &o, cases[_i].with);
        uint32_t want = cases[_i].processes && cases[_i].processes < p->nranks ? cases[_i].processes
                                                                               : p->nranks;
        ck_assert_uint_eq(r->processes, want);
        ck_assert_uint_gt(r->checked_items, 0);
        for (uint32_t i = 0; i < r->repeats; i++)
            ck_assert_double_gt(r->time_s[i], 0);
        ck_assert(!r->blocks == !o.block_times);
        for (uint32_t t = 0; r->blocks && t < r->ntbs; t++)
            ck_assert_uint_gt(r->blocks[t].slices, 0);
        ccl_run_result_destroy(r);
    }
    ccl_program_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- jobs */

START_TEST(test_job) {
    char root[64];
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, spec, NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    pid_t pids[3];
    free_root(root, sizeof root);
    o.size_bytes = 1 << 18;
    o.repeats = 2;
    o.type = CCL_TYPE_BF16;
    o.world = 3;
    o.root = root;
    o.transport = (ccl_run_transport_t)_i; /* over memory too: all are on this machine */
    for (uint32_t i = 1; i < 3; i++)
        pids[i] = start(p, &o, i, false);
    ccl_run_result_t *r = run_right(p, &o, "job of 3");
    ck_assert_uint_eq(r->processes, 3);
    ck_assert_int_eq(r->transport, _i);
    ck_assert_uint_gt(r->checked_items, 0);
    ccl_run_result_destroy(r);
    for (uint32_t i = 1; i < 3; i++)
        ck_assert_int_eq(status_of(pids[i]), CCL_OK);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_unlike) {
    char root[64];
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, spec, NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT, other;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    free_root(root, sizeof root);
    o.size_bytes = 1 << 18;
    o.world = 2;
    o.root = root;
    other = o;
    other.type = CCL_TYPE_FP16;
    pid_t pid = start(p, &other, 1, false);
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_USAGE);
    ck_assert_msg(strstr(err.text, "other options"), "%s", err.text);
    ck_assert_int_eq(status_of(pid), CCL_ERR_USAGE);
    ccl_program_destroy(p);
}
END_TEST

/* A process that is killed is an error at all others within seconds. */
START_TEST(test_dead_peer) {
    char root[64];
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, spec, NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    pid_t pids[3];
    free_root(root, sizeof root);
    o.size_bytes = 1 << 20;
    o.repeats = 1000000; /* until it dies */
    o.world = 3;
    o.root = root;
    pids[1] = start(p, &o, 1, false);
    pids[2] = start(p, &o, 2, true);
    double before_s = ccl_now_s();
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_IO);
    ck_assert_msg(strstr(err.text, "process 2"), "%s", err.text);
    ck_assert_int_eq(status_of(pids[1]), CCL_ERR_IO);
    ck_assert_int_eq(status_of(pids[2]), -1);
    ck_assert_double_lt(ccl_now_s() - before_s, 10);
    ccl_program_destroy(p);
}
END_TEST

/** Kills (or halts) the first child of this process in the third run. */
static int strike(const ccl_progress_t *progress, void *user) {
    char path[64], text[32] = "";
    if (progress->done != 2)
        return 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, file));
    fclose(file);
    ck_assert_int_eq(kill((pid_t)atoi(text), *(const int *)user), 0);
    return 0;
}

static const struct {
    ccl_run_transport_t transport;
    int signal;
} strikes[] = {
    {CCL_RUN_SHM, SIGKILL}, {CCL_RUN_TCP, SIGKILL}, {CCL_RUN_SHM, SIGSTOP}, {CCL_RUN_TCP, SIGSTOP}};

/* A child that dies or stands still is an error soon, not a hang; nobody is left behind. */
START_TEST(test_struck_child) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, spec, NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    int signal_number = strikes[_i].signal;
    ctx.progress = strike;
    ctx.progress_user = &signal_number;
    o.size_bytes = 1 << 20;
    o.ranks = CCL_RANKS_PROCESSES;
    o.transport = strikes[_i].transport;
    o.processes = 4;
    o.watchdog_s = 0.5;
    double before_s = ccl_now_s();
    ck_assert_int_eq(ccl_run_program(&ctx, p, &o, &r, &err), CCL_ERR_IO);
    ck_assert_msg(strstr(err.text, "process 1 of 4"), "%s", err.text);
    ck_assert_double_lt(ccl_now_s() - before_s, 15);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_environment) {
    uint32_t rank = 9, world = 9;
    unsetenv("SLURM_PROCID");
    unsetenv("PMI_RANK");
    unsetenv("OMPI_COMM_WORLD_RANK");
    ck_assert(!ccl_run_place_from_environment(&rank, &world));
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    ck_assert(!ccl_run_place_from_environment(&rank, &world));
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    ck_assert(ccl_run_place_from_environment(&rank, &world));
    ck_assert_uint_eq(rank, 2);
    ck_assert_uint_eq(world, 4);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.processes");
    TCase *tcase = tcase_create("processes");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_children, 0, (int)CCL_ARRAY_LEN(cases));
    tcase_add_loop_test(tcase, test_job, 0, 2);
    tcase_add_test(tcase, test_unlike);
    tcase_add_test(tcase, test_dead_peer);
    tcase_add_loop_test(tcase, test_struck_child, 0, (int)CCL_ARRAY_LEN(strikes));
    tcase_add_test(tcase, test_environment);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
