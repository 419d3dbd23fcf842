// timeout: 600
/*
 * One job on unlike devices: some ranks on the host, some on two pretended vendors' GPUs
 * (gpublocks.c as cuda and as hip), each process with its own module; the data are right across
 * the border.
 */
#include "random_programs.h"
#include "tests/base/nightly.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS = SANITIZED ? 8 : 20, NIGHTLY_PROGRAMS = 1000, MOST_PROCESSES = 5 };

static const char *const kinds[] = {"host", "cuda", "hip"};
static const char four[] = "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us";

static void pretend(void) {
    setenv("CCL_DEVICE_PATH", FAKE_GPU, 1);
    setenv("CCL_TEST_DEVICES", "2", 1);
}

/** Equal shares of the ranks, each on one kind; returns how many kinds there are. */
static uint32_t random_devices(ccl_rng_t *rng, uint32_t nranks, uint32_t processes, char *out,
                               size_t len) {
    bool seen[3] = {false};
    size_t used = 0;
    for (uint32_t p = 0; p < processes; p++) {
        uint32_t k = ccl_rng_below(rng, 3);
        uint32_t n = (uint32_t)((uint64_t)nranks * (p + 1) / processes) -
                     (uint32_t)((uint64_t)nranks * p / processes);
        seen[k] = true;
        used += (size_t)snprintf(out + used, len - used, "%s%s*%u", p ? "," : "", kinds[k], n);
    }
    return seen[0] + seen[1] + seen[2];
}

START_TEST(test_programs) {
    uint32_t programs = nightly() ? NIGHTLY_PROGRAMS : PROGRAMS, done = 0, mixed = 0;
    ccl_rng_t rng;
    random_world_t world;
    ccl_rng_init(&rng, 99);
    random_world_init(&world);
    pretend();
    while (done < programs) {
        random_case_t c = {0};
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_result_t *r = NULL;
        char devices[128];
        if (!random_case(&rng, &world, &c))
            continue;
        if (c.program->ntbs <= (nightly() ? 48 : 24)) { /* more would only wait for each other */
            uint32_t n = 2 + ccl_rng_below(&rng, MOST_PROCESSES - 1);
            c.options.processes = n < c.program->nranks ? n : c.program->nranks;
            c.options.ranks = CCL_RANKS_PROCESSES;
            c.options.transport = ccl_rng_below(&rng, 2) ? CCL_RUN_TCP : CCL_RUN_SHM;
            uint32_t several = random_devices(&rng, c.program->nranks, c.options.processes, devices,
                                              sizeof devices);
            c.options.device = devices;
            ccl_status_t status = ccl_run_program(NULL, c.program, &c.options, &r, &err);
            ck_assert_msg(status == CCL_OK || foreseen(status, &err), "%s on %s: %s", c.what,
                          devices, err.text);
            if (status == CCL_OK) {
                ck_assert_uint_eq(several > 1, strchr(r->device, '+') != NULL);
                ck_assert(several == 1 || r->transport == CCL_RUN_TCP);
                ck_assert(several == 1 || !r->ipc);
                mixed += several > 1;
                done++;
            }
        }
        ccl_run_result_destroy(r);
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
    ck_assert_uint_gt(mixed, programs / 2);
}
END_TEST

static ccl_run_options_t options(const char *devices) {
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    pretend();
    o.size_bytes = 100000;
    o.repeats = 2;
    o.warmups = 0;
    o.ranks = CCL_RANKS_PROCESSES;
    o.device = devices;
    return o;
}

/* An AllReduce over all three, blocks timed, at every level; kinds in the order of ranks. */
START_TEST(test_three) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options("cuda*2,host,hip");
    o.granularity = (ccl_granularity_t)_i;
    o.block_times = true;
    ccl_run_result_t *r = run_right(p, &o, "three kinds");
    ck_assert_str_eq(r->device, "cuda+host+hip");
    ck_assert_uint_eq(r->processes, 4);
    for (uint32_t t = 0; t < r->ntbs; t++)
        ck_assert_uint_gt(r->blocks[t].slices, 0);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* Found automatically: cuda where its module has a device, else hip, else the host. */
START_TEST(test_auto) {
    ccl_program_t *p = program_of("direct", CCL_ALLTOALL, four, NULL);
    ccl_run_options_t o = options("auto");
    ccl_run_result_t *r = run_right(p, &o, "auto");
    ck_assert_str_eq(r->device, "cuda");
    ccl_run_result_destroy(r);
    setenv("CCL_TEST_DEVICES", "0", 1);
    r = run_right(p, &o, "auto without devices");
    ck_assert_str_eq(r->device, "host");
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

static const struct {
    const char *devices;
    ccl_run_ranks_t ranks;
    uint32_t processes;
    const char *say;
} wrong[] = {
    {"cuda*4,host", CCL_RANKS_PROCESSES, 0, "names devices of 5 ranks, there are 4"},
    {"cuda*2,host*2", CCL_RANKS_THREADS, 0, "--ranks processes"},
    {"cuda*1,host*3", CCL_RANKS_PROCESSES, 2, "ranks 0 to 1 would be in one process"},
    {"cuda*0,host*4", CCL_RANKS_PROCESSES, 0, "unknown device \"cuda*0,host*4\""},
    {"cuda,,host", CCL_RANKS_PROCESSES, 0, "unknown device"},
    {"cuda*2,host*2,", CCL_RANKS_PROCESSES, 0, "unknown device"},
    {"cuda*2,rocm*2", CCL_RANKS_PROCESSES, 0, "unknown device"},
};

START_TEST(test_wrong) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options(wrong[_i].devices);
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.ranks = wrong[_i].ranks;
    o.processes = wrong[_i].processes;
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_USAGE);
    ck_assert_msg(strstr(err.text, wrong[_i].say), "%s", err.text);
    ccl_program_destroy(p);
}
END_TEST

/* A vendor's module that is missing in one process ends all. */
START_TEST(test_missing) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options("host*3,cuda");
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    setenv("CCL_TEST_DEVICES", "0", 1);
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_MISSING);
    ck_assert_msg(strstr(err.text, "no cuda device is here"), "%s", err.text);
    ccl_program_destroy(p);
}
END_TEST

/* Processes started apart, each on a device of its own choice; then one of them dies. */
START_TEST(test_job) {
    char root[64];
    pid_t pids[3];
    ccl_program_t *p = program_of("hm", CCL_ALLREDUCE, four, NULL);
    ccl_run_options_t o = options(NULL);
    free_root(root, sizeof root);
    o.ranks = CCL_RANKS_THREADS;
    o.world = 3;
    o.root = root;
    o.repeats = _i ? 1000000 : 3;
    for (uint32_t i = 1; i < 3; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            ccl_run_result_t *r = NULL;
            o.rank = i;
            o.device = kinds[i];
            if (_i && i == 2) { /* without a word */
                signal(SIGALRM, SIG_DFL);
                alarm(1);
            }
            _exit((int)ccl_run_program(NULL, p, &o, &r, NULL));
        }
    }
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
    ck_assert_msg(status == (_i ? CCL_ERR_IO : CCL_OK), "%s", err.text);
    if (!_i)
        ck_assert_str_eq(r->device, "host+cuda+hip");
    for (uint32_t i = 1; i < 3; i++) {
        int state;
        ck_assert_int_eq(waitpid(pids[i], &state, 0), pids[i]);
        ck_assert(_i && i == 2 ? WIFSIGNALED(state)
                               : WIFEXITED(state) && WEXITSTATUS(state) == (int)status);
    }
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.runtime.mixed");
    TCase *tcase = tcase_create("mixed");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_programs);
    tcase_add_loop_test(tcase, test_three, 0, 3);
    tcase_add_test(tcase, test_auto);
    tcase_add_loop_test(tcase, test_wrong, 0, (int)CCL_ARRAY_LEN(wrong));
    tcase_add_test(tcase, test_missing);
    tcase_add_loop_test(tcase, test_job, 0, 2);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
