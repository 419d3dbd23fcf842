/**
 * @file testbed_keep.c
 * Testbeds in the background. Each is held by one process, which answers at a socket without a
 * file (abstract, "ccllab-testbed/NAME"): what is up can be listed, used and dropped, and a process
 * that is killed takes name and namespaces with it.
 */
#define _GNU_SOURCE
#include "runtime/testbed/testbed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREFIX "ccllab-testbed/"
#define MAGIC UINT64_C(0x3162742d636363) /* of this form of the answer */
#define LIMIT_S 5
#define MAX_TEXT_BYTES ((uint64_t)64 << 20)

typedef struct answer {
    uint64_t magic, text_bytes;
    double rate_max_bps;
    ccl_testbed_entry_t entry;
} answer_t;

/* ---------------------------------------------------------------- names and sockets */

static ccl_status_t check_name(const char *name, ccl_error_t *err) {
    size_t len = strlen(name);
    if (len == 0 || len > 63 ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != len)
        return ccl_fail(err, CCL_ERR_USAGE,
                        "testbed name \"%.70s\": 1 to 63 letters, digits, \"-\", \"_\" or \".\"",
                        name);
    return CCL_OK;
}

static socklen_t address_of(const char *name, struct sockaddr_un *out) {
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, PREFIX "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static void set_limits(int fd) {
    struct timeval limit = {.tv_sec = LIMIT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static bool put(int fd, const char *data, size_t len) {
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static bool get(int fd, char *data, size_t len) {
    while (len > 0) {
        ssize_t n = recv(fd, data, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/** Who is at the other end? The same user, or root. */
static bool is_friend(int fd) {
    struct ucred who;
    socklen_t len = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len))
        return false;
    return who.uid == geteuid() || who.uid == 0;
}

/* ---------------------------------------------------------------- the process that keeps it */

typedef struct keeper {
    ccl_testbed_t *testbed;
    answer_t answer;
    const ccl_text_t *text; /* the cluster, JSON */
} keeper_t;

static void tell(const keeper_t *k, int fd) {
    uint32_t n = k->answer.entry.nservers + 1;
    union {
        char bytes[CMSG_SPACE((CCL_TESTBED_MAX_SERVERS + 1) * sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {(void *)&k->answer, sizeof k->answer};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(c), k->testbed->fds, n * sizeof(int));
    if (sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)sizeof k->answer)
        put(fd, k->text->data, k->text->len);
}

static void keep(const keeper_t *k, int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        char what = 0;
        if (fd < 0) {
            usleep(10000); /* out of descriptors, perhaps */
            continue;
        }
        set_limits(fd);
        if (is_friend(fd) && get(fd, &what, 1)) {
            if (what == 'd')
                tell(k, fd);
            if (what == 'x')
                syscall(SYS_exit_group, 0); /* closes all: the namespaces go */
        }
        close(fd);
    }
}

static ccl_status_t listen_as(const char *name, int *fd_out, ccl_error_t *err) {
    struct sockaddr_un at;
    socklen_t len = address_of(name, &at);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 16) == 0) {
        *fd_out = fd;
        return CCL_OK;
    }
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (why == EADDRINUSE)
        return ccl_fail(err, CCL_ERR_INPUT, "a testbed \"%s\" is up already", name);
    return ccl_fail(err, CCL_ERR_IO, "no socket for testbed \"%s\": %s", name, strerror(why));
}

typedef struct report {
    ccl_status_t status;
    char text[256];
    ccl_testbed_entry_t entry;
} report_t;

/** The child's life. Nothing of the caller stays open but the pipe. */
static void live(keeper_t *k, const ccl_testbed_plan_t *plan, int pipe_fd) {
    report_t report = {.status = CCL_OK};
    ccl_error_t err = CCL_ERROR_INIT;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    int listener = -1, null = open("/dev/null", O_RDWR);
    setsid();
    for (int s = 1; s < 32; s++)
        sigaction(s, &plain, NULL);
    prctl(PR_SET_NAME, "ccl-testbed");
    dup2(pipe_fd, 3);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    syscall(SYS_close_range, 4, ~0u, 0);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    report.status = listen_as(k->answer.entry.name, &listener, &err);
    if (report.status == CCL_OK)
        report.status = ccl_testbed_open(plan, &k->testbed, &err);
    if (report.status == CCL_OK) {
        k->answer.entry.pid = getpid();
        memcpy(k->answer.entry.fds, k->testbed->fds, sizeof k->testbed->fds);
    }
    snprintf(report.text, sizeof report.text, "%.255s", err.text);
    report.entry = k->answer.entry;
    bool told = write(3, &report, sizeof report) == (ssize_t)sizeof report;
    close(3);
    if (told && report.status == CCL_OK)
        keep(k, listener);
    syscall(SYS_exit_group, 0);
}

static ccl_status_t start(keeper_t *k, const ccl_testbed_plan_t *plan, ccl_testbed_entry_t *out,
                          ccl_error_t *err) {
    int pipes[2], state;
    report_t report;
    if (pipe2(pipes, O_CLOEXEC))
        return ccl_fail(err, CCL_ERR_IO, "no pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        live(k, plan, pipes[1]);
    close(pipes[1]);
    size_t len = 0;
    for (ssize_t n = 1; pid > 0 && n > 0 && len<sizeof report; len += n> 0 ? (size_t)n : 0)
        n = read(pipes[0], (char *)&report + len, sizeof report - len);
    close(pipes[0]);
    if (pid < 0)
        return ccl_fail(err, CCL_ERR_IO, "no process can be started: %s", strerror(errno));
    if (len == sizeof report && report.status == CCL_OK) {
        *out = report.entry;
        return CCL_OK;
    }
    waitpid(pid, &state, 0);
    if (len < sizeof report)
        return ccl_fail(err, CCL_ERR_IO, "the process that keeps the testbed ended");
    return ccl_fail(err, report.status, "%s", report.text);
}

ccl_status_t ccl_testbed_keep(const ccl_topology_t *topo, double rate_max_bps, const char *name,
                              ccl_testbed_entry_t *out, ccl_error_t *err) {
    ccl_testbed_plan_t *plan = NULL;
    ccl_text_t text = {0};
    CCL_TRY(check_name(name, err));
    CCL_TRY(ccl_testbed_plan(topo, rate_max_bps, &plan, err));
    ccl_status_t status = ccl_topology_write_json(topo, &text, err);
    keeper_t k = {
        .text = &text,
        .answer = {.magic = MAGIC,
                   .text_bytes = text.len,
                   .rate_max_bps = plan->rate_max_bps,
                   .entry = {.mine = true, .nservers = plan->nservers, .nranks = plan->nranks}}};
    snprintf(k.answer.entry.name, sizeof k.answer.entry.name, "%s", name);
    snprintf(k.answer.entry.cluster, sizeof k.answer.entry.cluster, "%.127s", plan->cluster);
    if (status == CCL_OK)
        status = start(&k, plan, out, err);
    ccl_text_fini(&text);
    ccl_testbed_plan_destroy(plan);
    return status;
}

/* ---------------------------------------------------------------- those that ask */

static ccl_status_t reach(const char *name, int *fd_out, ccl_error_t *err) {
    struct sockaddr_un at;
    CCL_TRY(check_name(name, err));
    socklen_t len = address_of(name, &at);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, len)) {
        if (fd >= 0)
            close(fd);
        return ccl_fail(err, CCL_ERR_INPUT, "no testbed \"%s\" is up (ccllab testbed list)", name);
    }
    if (!is_friend(fd)) {
        close(fd);
        return ccl_fail(err, CCL_ERR_MISSING, "testbed \"%s\" is another user's", name);
    }
    set_limits(fd);
    *fd_out = fd;
    return CCL_OK;
}

/** What it reports about itself; its namespaces to fds, [CCL_TESTBED_MAX_SERVERS + 1], all or none.
 */
static bool ask(int fd, answer_t *out, int *fds) {
    char question = 'd';
    union {
        char bytes[CMSG_SPACE((CCL_TESTBED_MAX_SERVERS + 1) * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {out, sizeof *out};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    uint32_t n = 0;
    memset(out, 0, sizeof *out);
    if (!put(fd, &question, 1))
        return false;
    ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    for (struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&m) : NULL; c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), n * sizeof(int));
    }
    if (got == (ssize_t)sizeof *out && out->magic == MAGIC && n == out->entry.nservers + 1 &&
        out->text_bytes <= MAX_TEXT_BYTES)
        return true;
    for (uint32_t i = 0; i < n; i++)
        close(fds[i]);
    return false;
}

static ccl_status_t not_ours(const char *name, ccl_error_t *err) {
    return ccl_fail(err, CCL_ERR_IO, "testbed \"%s\" does not answer as this version does", name);
}

static ccl_status_t rebuild(const ccl_ctx_t *ctx, const char *name, int fd, const answer_t *a,
                            ccl_testbed_plan_t **out, ccl_error_t *err) {
    ccl_topology_t *topo = NULL;
    char *text = malloc((size_t)a->text_bytes + 1);
    if (!text)
        return ccl_fail_nomem(err);
    ccl_status_t status = get(fd, text, (size_t)a->text_bytes) ? CCL_OK : not_ours(name, err);
    if (status == CCL_OK)
        status = ccl_topology_read_text(ctx, name, text, (size_t)a->text_bytes, &topo, err);
    if (status == CCL_OK)
        status = ccl_testbed_plan(topo, a->rate_max_bps, out, err);
    ccl_topology_destroy(topo);
    free(text);
    return status;
}

ccl_status_t ccl_testbed_attach(const ccl_ctx_t *ctx, const char *name, ccl_testbed_t **out,
                                ccl_testbed_plan_t **plan_out, ccl_error_t *err) {
    int fd = -1, fds[CCL_TESTBED_MAX_SERVERS + 1];
    answer_t a;
    ccl_testbed_plan_t *plan = NULL;
    ccl_testbed_t *t = NULL;
    CCL_TRY(reach(name, &fd, err));
    if (!ask(fd, &a, fds)) {
        close(fd);
        return not_ours(name, err);
    }
    ccl_status_t status = rebuild(ctx, name, fd, &a, &plan, err);
    close(fd);
    if (status == CCL_OK && plan->nservers != a.entry.nservers)
        status = not_ours(name, err);
    if (status == CCL_OK && !(t = ccl_i_testbed_create(plan)))
        status = ccl_fail_nomem(err);
    if (status != CCL_OK) {
        for (uint32_t i = 0; i <= a.entry.nservers; i++)
            close(fds[i]);
        ccl_testbed_plan_destroy(plan);
        return status;
    }
    memcpy(t->fds, fds, (a.entry.nservers + 1) * sizeof *fds);
    *out = t;
    *plan_out = plan;
    return CCL_OK;
}

ccl_status_t ccl_testbed_drop(const char *name, ccl_error_t *err) {
    int fd = -1;
    char question = 'x', none;
    CCL_TRY(reach(name, &fd, err));
    ssize_t n = put(fd, &question, 1) ? recv(fd, &none, 1, 0) : -1;
    bool gone = n == 0 || (n < 0 && errno == ECONNRESET);
    close(fd);
    return gone ? CCL_OK : ccl_fail(err, CCL_ERR_IO, "testbed \"%s\" does not end", name);
}

/* ---------------------------------------------------------------- what is up */

static int by_name(const void *a, const void *b) {
    return strcmp(((const ccl_testbed_entry_t *)a)->name, ((const ccl_testbed_entry_t *)b)->name);
}

static void describe(ccl_testbed_entry_t *entry) {
    int fd, fds[CCL_TESTBED_MAX_SERVERS + 1];
    char name[64];
    answer_t a;
    ccl_error_t err = CCL_ERROR_INIT;
    snprintf(name, sizeof name, "%s", entry->name);
    if (reach(name, &fd, &err) != CCL_OK)
        return;
    if (ask(fd, &a, fds)) {
        for (uint32_t i = 0; i <= a.entry.nservers; i++)
            close(fds[i]);
        *entry = a.entry;
        snprintf(entry->name, sizeof entry->name, "%s", name);
        entry->cluster[sizeof entry->cluster - 1] = '\0';
    }
    close(fd);
}

ccl_status_t ccl_testbed_list(ccl_testbed_entry_t **out, uint32_t *n_out, ccl_error_t *err) {
    char *text = NULL;
    size_t len = 0, cap = 0;
    uint32_t n = 0;
    ccl_testbed_entry_t *list = NULL;
    CCL_TRY(ccl_file_read("/proc/net/unix", (size_t)256 << 20, &text, &len, err));
    for (char *at = text; (at = strstr(at, " @" PREFIX)) != NULL;) {
        char *end = at + strcspn(at, "\n");
        at += strlen(" @" PREFIX);
        size_t size = (size_t)(end - at);
        bool known = size == 0 || size > 63; /* connections bear the name too */
        for (uint32_t i = 0; i < n && !known; i++)
            known = strlen(list[i].name) == size && memcmp(list[i].name, at, size) == 0;
        if (!known && !ccl_grow(&list, &cap, n + (size_t)1, sizeof *list)) {
            free(text);
            free(list);
            return ccl_fail_nomem(err);
        }
        if (!known) {
            memset(&list[n], 0, sizeof list[n]);
            memcpy(list[n++].name, at, size);
        }
        at = end;
    }
    free(text);
    for (uint32_t i = 0; i < n; i++)
        describe(&list[i]);
    if (n)
        qsort(list, n, sizeof *list, by_name);
    *out = list;
    *n_out = n;
    return CCL_OK;
}
