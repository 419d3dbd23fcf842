/**
 * @file testbed_net.c
 * The namespaces of a testbed, and jobs in them. A namespace has no name: it lives as long as a
 * process holds it open or is in it, so nothing is left behind however that process ends.
 */
#define _GNU_SOURCE
#include "runtime/testbed/testbed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

ccl_testbed_t *ccl_i_testbed_create(const ccl_testbed_plan_t *plan) {
    ccl_testbed_t *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->plan = plan;
    memset(t->fds, 0xff, sizeof t->fds);
    return t;
}

void ccl_testbed_close(ccl_testbed_t *testbed) {
    if (!testbed)
        return;
    for (uint32_t i = 0; i <= testbed->plan->nservers; i++)
        if (testbed->fds[i] >= 0)
            close(testbed->fds[i]);
    free(testbed);
}

const ccl_testbed_plan_t *ccl_testbed_get_plan(const ccl_testbed_t *testbed) {
    return testbed->plan;
}

/* ---------------------------------------------------------------- namespaces */

typedef struct making {
    ccl_testbed_t *testbed;
    ccl_status_t status;
    ccl_error_t err;
} making_t;

static bool write_setting(const char *path, const char *value) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
    if (fd >= 0)
        close(fd);
    return good;
}

/** Settings of the namespace that this thread is in. */
static ccl_status_t settle(ccl_error_t *err) {
    static const struct {
        const char *path, *value;
        bool needed;
    } settings[] = {
        /* Windows follow losses, of which there are none: no model of the path to be learned. */
        {"/proc/sys/net/ipv4/tcp_congestion_control", "reno", true},
        {"/proc/sys/net/ipv4/tcp_slow_start_after_idle", "0", true},
        {"/proc/sys/net/ipv4/tcp_no_metrics_save", "1", false},
        {"/proc/sys/net/ipv6/conf/all/disable_ipv6", "1", false}, /* and its chatter */
        {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1", false},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(settings); i++)
        if (!write_setting(settings[i].path, settings[i].value) && settings[i].needed)
            return ccl_fail(err, CCL_ERR_MISSING, "%s cannot be set in a namespace: %s",
                            settings[i].path, strerror(errno));
    return CCL_OK;
}

/** A thread of its own: it is left in the last namespace, and ends. */
static void *make_namespaces(void *arg) {
    making_t *m = arg;
    for (uint32_t i = 0; i <= m->testbed->plan->nservers && m->status == CCL_OK; i++) {
        if (unshare(CLONE_NEWNET)) {
            m->status =
                errno == EPERM
                    ? ccl_fail(&m->err, CCL_ERR_MISSING,
                               "a testbed needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN) for its "
                               "network namespaces")
                    : ccl_fail(&m->err, CCL_ERR_MISSING,
                               "no network namespace can be made here: %s", strerror(errno));
            break;
        }
        m->status = settle(&m->err);
        m->testbed->fds[i] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
        if (m->testbed->fds[i] < 0 && m->status == CCL_OK)
            m->status =
                ccl_fail(&m->err, CCL_ERR_IO, "/proc/thread-self/ns/net: %s", strerror(errno));
    }
    return NULL;
}

/* ---------------------------------------------------------------- ip and tc */

/** The child's life: in the namespace, commands from `in`, complaints to `out`. */
static void become_tool(const ccl_testbed_t *t, int namespace, bool tc, int in, int out) {
    static const char *const folders[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
    static char *const empty[] = {"LC_ALL=C", NULL};
    char name[] = "ip", path[32], batch[] = "-batch", dash[] = "-";
    char *const argv[] = {tc ? "tc" : name, batch, dash, NULL};
    for (uint32_t i = 0; i < t->plan->nservers; i++)
        fcntl(t->fds[i], F_SETFD, 0); /* ip reaches them as /proc/self/fd/N */
    if (setns(namespace, CLONE_NEWNET) == 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 &&
        dup2(out, 2) == 2)
        for (size_t i = 0; i < CCL_ARRAY_LEN(folders); i++) {
            snprintf(path, sizeof path, "%s/%s", folders[i], argv[0]);
            execve(path, argv, empty);
        }
    syscall(SYS_exit_group, 127);
}

static ccl_status_t run_tool(const ccl_testbed_t *t, uint32_t server, bool tc,
                             const ccl_text_t *commands, ccl_error_t *err) {
    const char *tool = tc ? "tc" : "ip";
    char said[160] = "";
    size_t len = 0;
    int pipes[2] = {-1, -1}, state = 0;
    if (commands->nomem)
        return ccl_fail_nomem(err);
    int in = memfd_create("commands", MFD_CLOEXEC);
    if (in < 0 || write(in, commands->data, commands->len) != (ssize_t)commands->len ||
        lseek(in, 0, SEEK_SET) || pipe2(pipes, O_CLOEXEC)) {
        if (in >= 0)
            close(in);
        return ccl_fail(err, CCL_ERR_IO, "commands for %s cannot be written: %s", tool,
                        strerror(errno));
    }
    uint32_t at = server == CCL_NONE ? t->plan->nservers : server;
    pid_t pid = fork();
    if (pid == 0)
        become_tool(t, t->fds[at], tc, in, pipes[1]);
    close(in);
    close(pipes[1]);
    for (ssize_t n = 1; n > 0 && pid > 0;) {
        char rest[160];
        bool room = len + 1 < sizeof said;
        n = read(pipes[0], room ? said + len : rest, room ? sizeof said - 1 - len : sizeof rest);
        len += room && n > 0 ? (size_t)n : 0;
    }
    close(pipes[0]);
    while (pid > 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0)
        return CCL_OK;
    if (pid > 0 && WIFEXITED(state) && WEXITSTATUS(state) == 127)
        return ccl_fail(err, CCL_ERR_MISSING, "%s is not here: a testbed needs iproute2", tool);
    said[strcspn(said, "\n")] = '\0';
    return ccl_fail(err, CCL_ERR_IO, "%s -batch failed: %s", tool,
                    pid < 0 ? "no more processes" : said);
}

static ccl_status_t set_up(const ccl_testbed_t *t, ccl_error_t *err) {
    uint32_t n = t->plan->nservers;
    char paths[CCL_TESTBED_MAX_SERVERS][32];
    const char *namespaces[CCL_TESTBED_MAX_SERVERS];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d", t->fds[i]);
        namespaces[i] = paths[i];
    }
    for (int tc = 0; tc < 2; tc++) {
        for (uint32_t i = 0; i <= n; i++) { /* the bridge first: it makes all links */
            ccl_text_t text = {0};
            uint32_t server = i == 0 ? CCL_NONE : i - 1;
            ccl_testbed_commands(t->plan, server, tc, namespaces, &text);
            ccl_status_t status = run_tool(t, server, tc, &text, err);
            ccl_text_fini(&text);
            CCL_TRY(status);
        }
    }
    return CCL_OK;
}

ccl_status_t ccl_testbed_open(const ccl_testbed_plan_t *plan, ccl_testbed_t **out,
                              ccl_error_t *err) {
    making_t m = {.testbed = ccl_i_testbed_create(plan), .err = CCL_ERROR_INIT};
    pthread_t thread;
    if (!m.testbed)
        return ccl_fail_nomem(err);
    ccl_status_t status = CCL_OK;
    if (pthread_create(&thread, NULL, make_namespaces, &m)) {
        status = ccl_fail(err, CCL_ERR_IO, "no more threads can be had");
    } else {
        pthread_join(thread, NULL);
        status =
            m.status == CCL_OK ? set_up(m.testbed, err) : ccl_fail(err, m.status, "%s", m.err.text);
    }
    if (status != CCL_OK) {
        ccl_testbed_close(m.testbed);
        return status;
    }
    *out = m.testbed;
    return CCL_OK;
}

/* ---------------------------------------------------------------- jobs */

typedef struct job {
    const ccl_ctx_t *ctx;
    const ccl_testbed_t *testbed;
    const ccl_program_t *program;
    ccl_run_options_t options;
    ccl_run_result_t *result;
    ccl_status_t status;
    ccl_error_t err;
    pid_t pids[CCL_TESTBED_MAX_SERVERS];
} job_t;

static ccl_status_t enter(const job_t *j, uint32_t server, ccl_error_t *err) {
    if (setns(j->testbed->fds[server], CLONE_NEWNET))
        return ccl_fail(err, CCL_ERR_IO, "the namespace of server %s: %s",
                        j->testbed->plan->servers[server].name, strerror(errno));
    return CCL_OK;
}

/** The child's life: ends with its parent, and without the caller's exit handlers. */
static void serve(job_t *j, uint32_t server, pid_t parent) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_run_result_t *result = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && enter(j, server, &err) == CCL_OK) {
        j->options.rank = server;
        ccl_run_program(NULL, j->program, &j->options, &result, &err);
    }
    syscall(SYS_exit_group, 0);
}

/** Who does not end by itself is ended: at once when process 0 has failed. */
static void end_processes(job_t *j) {
    double limit_s = ccl_now_s() + (j->status == CCL_OK ? 5 : 0.5);
    for (uint32_t i = 1; i < j->options.world; i++) {
        while (j->pids[i] > 0) {
            int state;
            pid_t pid = waitpid(j->pids[i], &state, WNOHANG);
            if (pid == j->pids[i] || (pid < 0 && errno != EINTR))
                break;
            if (ccl_now_s() > limit_s)
                kill(j->pids[i], SIGKILL);
            usleep(500);
        }
    }
}

/** Process 0, in a thread of its own: this one stays in the first server's namespace. */
static void *lead(void *arg) {
    job_t *j = arg;
    pid_t self = getpid();
    for (uint32_t i = 1; i < j->options.world && j->status == CCL_OK; i++) {
        j->pids[i] = fork();
        if (j->pids[i] == 0)
            serve(j, i, self);
        if (j->pids[i] < 0)
            j->status = ccl_fail(&j->err, CCL_ERR_IO, "process %u cannot be started: %s", i,
                                 strerror(errno));
    }
    if (j->status == CCL_OK)
        j->status = enter(j, 0, &j->err);
    if (j->status == CCL_OK)
        j->status = ccl_run_program(j->ctx, j->program, &j->options, &j->result, &j->err);
    end_processes(j);
    return NULL;
}

ccl_status_t ccl_testbed_run(const ccl_ctx_t *ctx, const ccl_testbed_t *testbed,
                             const ccl_program_t *program, const ccl_run_options_t *options,
                             ccl_run_result_t **out, ccl_error_t *err) {
    CCL_OPTIONS_TRY(ccl_run_options_t, options, err);
    static const ccl_run_options_t defaults = CCL_RUN_OPTIONS_INIT;
    char root[40];
    pthread_t thread;
    job_t j = {.ctx = ctx,
               .testbed = testbed,
               .program = program,
               .options = options ? *options : defaults,
               .err = CCL_ERROR_INIT};
    if (!j.options.first_rank) {
        j.options.first_rank = testbed->plan->first_rank;
        j.options.world = testbed->plan->nservers;
    }
    if (j.options.world < 2 || j.options.world > testbed->plan->nservers)
        return ccl_fail(err, CCL_ERR_USAGE, "a job on %u of %u servers: at least 2 are needed",
                        j.options.world, testbed->plan->nservers);
    if (program->nranks != j.options.first_rank[j.options.world])
        return ccl_fail(err, CCL_ERR_INPUT, "a program for %u ranks, but the testbed has %u",
                        program->nranks, j.options.first_rank[j.options.world]);
    snprintf(root, sizeof root, CCL_I_TESTBED_NET "1:%d", CCL_I_TESTBED_PORT);
    j.options.root = root;
    j.options.rank = 0;
    j.options.ranks = CCL_RANKS_THREADS;
    j.options.transport = CCL_RUN_TCP;
    if (pthread_create(&thread, NULL, lead, &j))
        return ccl_fail(err, CCL_ERR_IO, "no more threads can be had");
    pthread_join(thread, NULL);
    if (j.status != CCL_OK)
        ccl_fail(err, j.status, "%s", j.err.text);
    *out = j.result;
    return j.status;
}
