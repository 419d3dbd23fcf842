// timeout: 900
/*
 * RDMA as a transport. Where there is an RDMA device (tools/rdma-check boots a machine with one):
 * 100 runs of random programs on four ranks in as many processes with the data right, an AllGather
 * and an AllReduce, a killed process that all others report within 5 s. Where there is none: one
 * line, TCP instead, and the data right.
 */
#include "random_programs.h"

#include "runtime/wire/verbs.h"

#include <signal.h>
#include <sys/wait.h>

enum { RUNS = 100, RANKS = 4 };

static const char *const spec = "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us";

static bool device_here(void) {
    ccl_i_verbs_t *verbs = NULL;
    bool here = ccl_i_verbs_open(NULL, &verbs, NULL) == CCL_OK;
    ccl_i_verbs_close(verbs);
    return here;
}

typedef struct said {
    uint32_t lines;
    char text[256];
} said_t;

static void listen_to(ccl_log_level_t level, const char *subsystem, const char *text, void *user) {
    said_t *said = user;
    (void)subsystem;
    if (level != CCL_LOG_WARN)
        return;
    said->lines++;
    snprintf(said->text, sizeof said->text, "%s", text);
}

static ccl_run_options_t in_processes(uint32_t processes) {
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    o.size_bytes = 1 << 18;
    o.ranks = CCL_RANKS_PROCESSES;
    o.processes = processes;
    o.transport = CCL_RUN_VERBS;
    return o;
}

/* ---------------------------------------------------------------- without a device */

START_TEST(test_instead) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, spec, NULL);
    ccl_run_options_t o = in_processes(2);
    ccl_ctx_t ctx = CCL_CTX_INIT;
    said_t said = {0};
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ctx.log = listen_to;
    ctx.log_user = &said;
    ck_assert_msg(ccl_run_program(&ctx, p, &o, &r, &err) == CCL_OK, "%s", err.text);
    ck_assert_int_eq(r->transport, CCL_RUN_TCP);
    ck_assert_uint_gt(r->checked_items, 0);
    ck_assert_uint_eq(said.lines, 1);
    ck_assert_msg(strstr(said.text, "TCP instead") && !strchr(said.text, '\n'), "%s", said.text);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* A device that is not there is another matter than a name that is none. */
START_TEST(test_names) {
    static const char *const bad[] = {"rxe0:", "rxe0:0", "rxe0:1:x", "rxe0:1:2:3", "rxe0:256"};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_verbs_t *verbs = NULL;
    ccl_status_t built = ccl_i_verbs_open("nobody0", &verbs, &err);
    ck_assert_int_eq(built, CCL_ERR_MISSING);
    if (strstr(err.text, "built without"))
        return;
    ck_assert_msg(strstr(err.text, "no RDMA device nobody0"), "%s", err.text);
    for (uint32_t i = 0; i < CCL_ARRAY_LEN(bad); i++) {
        ccl_error_clear(&err);
        ck_assert_int_eq(ccl_i_verbs_open(bad[i], &verbs, &err), CCL_ERR_USAGE);
        ck_assert_msg(strstr(err.text, bad[i]), "%s", err.text);
    }
}
END_TEST

/* ---------------------------------------------------------------- with one */

static bool four_ranks(const random_case_t *c) {
    return c->program->nranks == RANKS && c->options.size_bytes < 1 << 20;
}

START_TEST(test_random_programs) {
    ccl_rng_t rng;
    random_world_t world;
    uint32_t done = 0;
    ccl_rng_init(&rng, 4711);
    random_world_init(&world);
    while (done < RUNS) {
        random_case_t c = {0};
        if (!random_case(&rng, &world, &c))
            continue;
        if (four_ranks(&c)) {
            ccl_error_t err = CCL_ERROR_INIT;
            ccl_run_result_t *r = NULL;
            c.options.ranks = CCL_RANKS_PROCESSES;
            c.options.processes = RANKS;
            c.options.transport = CCL_RUN_VERBS;
            c.options.threads = 1;
            c.options.repeats = 1;
            c.options.slots = c.options.slots > 64 ? c.options.slots : 64;
            ccl_status_t status = ccl_run_program(NULL, c.program, &c.options, &r, &err);
            if (status != CCL_DEADLOCK) { /* too few slots: known before anything runs */
                ck_assert_msg(status == CCL_OK, "%s: %s", c.what, err.text);
                ck_assert_int_eq(r->transport, CCL_RUN_VERBS);
                done++;
            }
            ccl_run_result_destroy(r);
        }
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
    printf("%u random programs on %u ranks by RDMA: the data are right\n", done, RANKS);
}
END_TEST

static const struct {
    const char *with;
    ccl_collective_kind_t kind;
    double size_bytes;
    uint32_t slots; /* with fewer it does not finish in one micro-batch */
} plain[] = {{"ring", CCL_ALLGATHER, 1 << 18, 8},
             {"ring", CCL_ALLREDUCE, 1 << 19, 8},
             {"direct", CCL_ALLTOALL, 1 << 20, 8},
             {"hm", CCL_ALLREDUCE, 100, 8},
             {"ring", CCL_ALLREDUCE, 2 << 20, 16}};

START_TEST(test_collectives) {
    ccl_program_t *p = program_of(plain[_i].with, plain[_i].kind, spec, NULL);
    for (uint32_t batches = 1; batches <= 16; batches *= 4) {
        ccl_run_options_t o = in_processes(RANKS);
        o.size_bytes = plain[_i].size_bytes;
        o.batches = batches;
        o.slots = plain[_i].slots;
        o.repeats = 3;
        ccl_run_result_t *r = run_right(p, &o, plain[_i].with);
        ck_assert_int_eq(r->transport, CCL_RUN_VERBS);
        ck_assert_uint_gt(r->checked_items, 0);
        printf("%s %s of %.0f bytes, %u micro-batches: median %.0f us\n", plain[_i].with,
               ccl_collective_kind_name(plain[_i].kind), plain[_i].size_bytes, batches,
               1e6 * r->median_s);
        ccl_run_result_destroy(r);
    }
    ccl_program_destroy(p);
}
END_TEST

static const struct {
    const char *devices, *how, *memory, *say;
} memories[] = {
    {"cuda", "peer", "peer", "its dmabuf"},
    {"cuda", "refused", "host", "peer memory"},
    {"cuda", "none", "host", "out of memory (fake)"},
    {"host*2,cuda*2", "peer", "peer", "its dmabuf"},
    {"cuda,hip,host*2", "refused", "host", "peer memory"},
};

/* Slices of devices: from their memory where it can be registered, else through the host's; which
   of it is told in one line. */
START_TEST(test_devices) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, spec, NULL);
    setenv("CCL_DEVICE_PATH", FAKE_GPU, 0);
    setenv("CCL_TEST_DEVICES", "4", 1);
    setenv("CCL_TEST_RDMA", memories[_i].how, 1);
    for (uint32_t processes = 4; processes >= 2; processes -= 2) {
        ccl_run_options_t o = in_processes(processes);
        ccl_ctx_t ctx = CCL_CTX_INIT;
        ccl_run_result_t *r = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        if (processes == 2 && strchr(memories[_i].devices, ','))
            break;
        o.device = memories[_i].devices;
        o.repeats = 3;
        ccl_status_t status = ccl_run_program(&ctx, p, &o, &r, &err);
        ck_assert_msg(status == CCL_OK, "%s: %s", memories[_i].devices, err.text);
        ck_assert_int_eq(r->transport, CCL_RUN_VERBS);
        ck_assert_str_eq(r->rdma_memory, memories[_i].memory);
        ck_assert_msg(strstr(r->rdma_why, memories[_i].say), "%s", r->rdma_why);
        ck_assert_uint_gt(r->checked_items, 0);
        printf("%s in %u processes: slices by %s (%s), the data are right\n", memories[_i].devices,
               processes, r->rdma_memory, r->rdma_why);
        ccl_run_result_destroy(r);
    }
    ccl_program_destroy(p);
}
END_TEST

/** Process `rank` of a job that runs until it, or another one, dies: tells what it saw, and when.
 */
static pid_t start_timed(const ccl_program_t *p, const ccl_run_options_t *base, uint32_t rank,
                         int out) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    ccl_run_options_t o = *base;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.rank = rank;
    ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
    double now_s = ccl_now_s();
    bool ok = status == CCL_ERR_IO && write(out, &now_s, sizeof now_s) == sizeof now_s;
    if (!ok)
        fprintf(stderr, "process %u: %s: %s\n", rank, ccl_status_name(status), err.text);
    _exit(!ok);
}

START_TEST(test_killed) {
    char root[64];
    int out[2], state;
    pid_t pids[RANKS];
    double seen_s, latest_s = 0;
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, spec, NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    free_root(root, sizeof root);
    o.size_bytes = 1 << 16;
    o.repeats = 1000000;
    o.world = RANKS;
    o.root = root;
    o.transport = CCL_RUN_VERBS;
    o.threads = 1;
    ck_assert_int_eq(pipe(out), 0);
    for (uint32_t i = 0; i < RANKS; i++)
        pids[i] = start_timed(p, &o, i, out[1]);
    usleep(5 * 1000 * 1000);
    double killed_s = ccl_now_s();
    ck_assert_int_eq(kill(pids[1 + _i], SIGKILL), 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        ck_assert_int_eq(waitpid(pids[i], &state, 0), pids[i]);
        if (i == 1 + (uint32_t)_i)
            ck_assert(WIFSIGNALED(state));
        else
            ck_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    }
    for (uint32_t i = 1; i < RANKS; i++) {
        ck_assert_int_eq(read(out[0], &seen_s, sizeof seen_s), sizeof seen_s);
        latest_s = seen_s > latest_s ? seen_s : latest_s;
    }
    printf("process %u killed: all others told so within %.2f s\n", 1 + _i, latest_s - killed_s);
    ck_assert_double_lt(latest_s - killed_s, 5);
    close(out[0]);
    close(out[1]);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.runtime.verbs");
    TCase *tcase = tcase_create("verbs");
    tcase_set_timeout(tcase, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    tcase_add_test(tcase, test_names);
    if (device_here()) {
        tcase_add_loop_test(tcase, test_collectives, 0, (int)CCL_ARRAY_LEN(plain));
        tcase_add_loop_test(tcase, test_devices, 0, (int)CCL_ARRAY_LEN(memories));
        tcase_add_test(tcase, test_random_programs);
        tcase_add_loop_test(tcase, test_killed, 0, 3);
    } else {
        tcase_add_test(tcase, test_instead);
    }
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
