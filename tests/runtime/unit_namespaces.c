/*
 * Testbeds in namespaces: data through them is right and as slow as it should be, they are kept,
 * found, used and dropped, and SIGKILL leaves nothing behind. Skipped where namespaces, bridges or
 * token buckets are not permitted.
 */
#define _GNU_SOURCE
#include "common.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPEC                                                                                       \
    "servers:1 gpus:2 nvswitch=300GB/s nics:1x50GB/s + servers:1 gpus:1 nics:1x25GB/s + "          \
    "servers:1 gpus:1 nics:1x25GB/s"
#define RATE_BPS 2e8

/** All that a testbed needs, tried in a child. @return false: the reason is printed. */
static bool permitted(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNET))
            _exit(1);
        int code =
            system("PATH=$PATH:/usr/sbin:/sbin; (ip link add br0 type bridge && "
                   "ip link add v0 type veth peer name w0 && ip link set v0 gso_max_size 8192 "
                   "&& tc qdisc add dev v0 root tbf rate 1mbit burst 10kb limit 10kb) "
                   ">/dev/null 2>&1");
        int fd = open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY);
        _exit(code ? 2 : fd < 0 || write(fd, "reno", 4) != 4 ? 3 : 0);
    }
    int state = 0;
    waitpid(pid, &state, 0);
    int code = WIFEXITED(state) ? WEXITSTATUS(state) : 9;
    if (code)
        printf("skipped: %s\n", code == 1   ? "network namespaces are not permitted"
                                : code == 2 ? "no ip and tc with bridge, veth and tbf"
                                            : "settings of a namespace cannot be written");
    return code == 0;
}

static const char *own_name(void) {
    static char name[40];
    snprintf(name, sizeof name, "test-%d", (int)getpid());
    return name;
}

static bool is_listed(const char *name) {
    ccl_testbed_entry_t *list = NULL;
    uint32_t n = 0;
    bool found = false;
    ck_assert_int_eq(ccl_testbed_list(&list, &n, NULL), CCL_OK);
    for (uint32_t i = 0; i < n; i++)
        found = found || (list[i].mine && strcmp(list[i].name, name) == 0);
    free(list);
    return found;
}

/* ---------------------------------------------------------------- runs */

START_TEST(test_run) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = topology(SPEC);
    ccl_testbed_plan_t *plan = NULL;
    ccl_testbed_t *t = NULL;
    ccl_run_result_t *r = NULL;
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    struct stat before, after;
    ccl_program_t *p = program_of("direct", CCL_ALLTOALL, SPEC, NULL);
    ck_assert_int_eq(stat("/proc/self/ns/net", &before), 0);
    ck_assert_int_eq(ccl_testbed_plan(topo, RATE_BPS, &plan, &err), CCL_OK);
    ck_assert_msg(ccl_testbed_open(plan, &t, &err) == CCL_OK, "%s", err.text);
    o.size_bytes = 1 << 20;
    o.repeats = 2;
    ck_assert_msg(ccl_testbed_run(NULL, t, p, &o, &r, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(r->processes, 3);
    ck_assert_uint_gt(r->checked_items, 0);
    ck_assert_uint_eq(r->wrong_items, 0);
    /* The slowest server sends 3/4 MiB through 100 Mbit/s, which is 63 ms; without buckets it were
       a few. */
    ck_assert_double_gt(r->min_s, 0.055);
    ccl_run_result_destroy(r);
    r = NULL;
    /* A program of another size, and one that cannot finish, end with an error at once. */
    ccl_program_t *small =
        program_of("direct", CCL_ALLTOALL, "servers:1 gpus:2 nvswitch=9GB/s", NULL);
    ck_assert_int_eq(ccl_testbed_run(NULL, t, small, &o, &r, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "a program for 2 ranks, but the testbed has 4"));
    ck_assert_int_eq(stat("/proc/self/ns/net", &after), 0);
    ck_assert(before.st_ino == after.st_ino); /* we have not moved */
    ccl_program_destroy(small);
    ccl_testbed_close(t);
    ccl_testbed_plan_destroy(plan);
    ccl_program_destroy(p);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- kept ones */

/** How many processes hold a namespace open or are in it. */
static uint32_t holders(const uint64_t *inodes, uint32_t n) {
    uint32_t found = 0;
    DIR *proc = opendir("/proc");
    ck_assert_ptr_nonnull(proc);
    for (struct dirent *e; (e = readdir(proc)) != NULL;) {
        char path[600];
        struct stat s;
        if (e->d_name[0] < '0' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/ns/net", e->d_name);
        bool here = stat(path, &s) == 0;
        for (uint32_t i = 0; here && i < n; i++)
            found += s.st_ino == inodes[i];
        snprintf(path, sizeof path, "/proc/%s/fd", e->d_name);
        DIR *fds = opendir(path);
        for (struct dirent *f; fds && (f = readdir(fds)) != NULL;) {
            snprintf(path, sizeof path, "/proc/%s/fd/%s", e->d_name, f->d_name);
            here = f->d_name[0] != '.' && stat(path, &s) == 0;
            for (uint32_t i = 0; here && i < n; i++)
                found += s.st_ino == inodes[i];
        }
        if (fds)
            closedir(fds);
    }
    closedir(proc);
    return found;
}

static ccl_testbed_entry_t keep(uint64_t *inodes) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = topology(SPEC);
    ccl_testbed_entry_t e;
    ck_assert_msg(ccl_testbed_keep(topo, RATE_BPS, own_name(), &e, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(e.nservers, 3);
    ck_assert_uint_eq(e.nranks, 4);
    for (uint32_t i = 0; i <= e.nservers; i++) {
        char path[64];
        struct stat s;
        snprintf(path, sizeof path, "/proc/%d/fd/%d", e.pid, e.fds[i]);
        ck_assert_int_eq(stat(path, &s), 0);
        inodes[i] = s.st_ino;
    }
    ck_assert_uint_ge(holders(inodes, e.nservers + 1), e.nservers + 1);
    ccl_topology_destroy(topo);
    return e;
}

static void expect_gone(const ccl_testbed_entry_t *e, const uint64_t *inodes, int want_signal) {
    int state = 0;
    ck_assert_int_eq(waitpid(e->pid, &state, 0), e->pid);
    ck_assert_int_eq(WIFSIGNALED(state) ? WTERMSIG(state) : 0, want_signal);
    ck_assert(!is_listed(own_name()));
    ck_assert_uint_eq(holders(inodes, e->nservers + 1), 0);
}

START_TEST(test_kept) {
    ccl_error_t err = CCL_ERROR_INIT;
    uint64_t inodes[CCL_TESTBED_MAX_SERVERS + 1];
    ccl_testbed_entry_t e = keep(inodes), twice;
    ccl_topology_t *topo = topology(SPEC);
    ccl_testbed_t *t = NULL;
    ccl_testbed_plan_t *plan = NULL;
    ccl_run_result_t *r = NULL;
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_program_t *p = program_of("direct", CCL_ALLREDUCE, SPEC, NULL);
    ck_assert(is_listed(own_name()));
    ck_assert_int_eq(ccl_testbed_keep(topo, RATE_BPS, own_name(), &twice, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "is up already"));
    ck_assert_int_eq(ccl_testbed_attach(NULL, own_name(), &t, &plan, &err), CCL_OK);
    ck_assert_double_eq(plan->servers[0].rate_out_bps, RATE_BPS);
    o.size_bytes = 1 << 18;
    o.repeats = 1;
    ck_assert_msg(ccl_testbed_run(NULL, t, p, &o, &r, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_gt(r->checked_items, 0);
    ccl_run_result_destroy(r);
    ccl_testbed_close(t);
    ccl_testbed_plan_destroy(plan);
    ck_assert_int_eq(ccl_testbed_drop(own_name(), &err), CCL_OK);
    expect_gone(&e, inodes, 0);
    err = (ccl_error_t)CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_testbed_attach(NULL, own_name(), &t, &plan, &err), CCL_ERR_INPUT);
    ccl_program_destroy(p);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_killed) {
    uint64_t inodes[CCL_TESTBED_MAX_SERVERS + 1];
    ccl_testbed_entry_t e = keep(inodes);
    ck_assert_int_eq(kill(e.pid, SIGKILL), 0);
    expect_gone(&e, inodes, SIGKILL);
    e = keep(inodes); /* the name is free again */
    ck_assert_int_eq(kill(e.pid, SIGTERM), 0);
    expect_gone(&e, inodes, SIGTERM);
}
END_TEST

/** Processes in the namespaces end with the one that runs the job. */
START_TEST(test_killed_run) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = topology(SPEC);
    ccl_testbed_plan_t *plan = NULL;
    ccl_testbed_t *t = NULL;
    uint64_t inodes[4];
    struct stat s;
    int pipes[2], state;
    char byte = 0;
    ck_assert_int_eq(ccl_testbed_plan(topo, RATE_BPS, &plan, &err), CCL_OK);
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        ccl_run_result_t *r = NULL;
        ccl_program_t *p = program_of("direct", CCL_ALLREDUCE, SPEC, NULL);
        o.size_bytes = 1 << 26;
        if (ccl_testbed_open(plan, &t, &err) != CCL_OK || write(pipes[1], &byte, 1) != 1)
            _exit(1);
        ccl_testbed_run(NULL, t, p, &o, &r, &err);
        _exit(2);
    }
    ck_assert_int_eq(read(pipes[0], &byte, 1), 1);
    uint32_t n = 0;
    for (int fd = 3; fd < 64 && n < 4; fd++) { /* its namespaces, by what they are */
        char path[64], link[64] = "";
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t len = readlink(path, link, sizeof link - 1);
        if (len > 0 && strncmp(link, "net:[", 5) == 0 && stat(path, &s) == 0)
            inodes[n++] = s.st_ino;
    }
    ck_assert_uint_eq(n, 4);
    while (holders(inodes, n) < 12) /* the processes are there */
        usleep(20000);
    usleep(200000); /* and at work */
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &state, 0), pid);
    ck_assert(WIFSIGNALED(state));
    for (int i = 0; i < 200 && holders(inodes, n) > 0; i++)
        usleep(20000);
    ck_assert_uint_eq(holders(inodes, n), 0);
    close(pipes[0]);
    close(pipes[1]);
    ccl_testbed_plan_destroy(plan);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    if (!permitted())
        return 77;
    Suite *suite = suite_create("namespaces");
    TCase *tc = tcase_create("namespaces");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_run);
    tcase_add_test(tc, test_kept);
    tcase_add_test(tc, test_killed);
    tcase_add_test(tc, test_killed_run);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
