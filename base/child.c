/**
 * @file child.c A function in a child process, its answers over a pipe.
 *
 * The parent trusts messages and waitpid() rather than the end of the pipe: children that other
 * threads fork at the same time hold copies of its ends.
 */
#define _GNU_SOURCE /* pipe2 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 20

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

struct ccl_child_pipe {
    int fd;
};

enum { MESSAGE_ANSWER = 1, MESSAGE_TELL, MESSAGE_END };

typedef struct message {
    uint32_t kind;
    uint64_t len;         /* bytes behind it */
    uint64_t done, total; /* of a progress message */
} message_t;

/* ---------------------------------------------------------------- child */

static bool write_all(int fd, const void *data, size_t len) {
    const char *at = data;
    while (len) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool send_message(int fd, message_t message, const void *data) {
    return write_all(fd, &message, sizeof message) && write_all(fd, data, message.len);
}

bool ccl_child_put(ccl_child_pipe_t *pipe, const void *data, size_t len) {
    const struct iovec whole = {(void *)data, len};
    return ccl_child_put_parts(pipe, &whole, 1);
}

bool ccl_child_put_parts(ccl_child_pipe_t *pipe, const struct iovec *parts, size_t nparts) {
    message_t message;
    memset(&message, 0, sizeof message);
    message.kind = MESSAGE_ANSWER;
    for (size_t i = 0; i < nparts; i++)
        message.len += parts[i].iov_len;
    bool ok = write_all(pipe->fd, &message, sizeof message);
    for (size_t i = 0; ok && i < nparts; i++)
        ok = write_all(pipe->fd, parts[i].iov_base, parts[i].iov_len);
    return ok;
}

bool ccl_child_tell(ccl_child_pipe_t *pipe, uint64_t done, uint64_t total) {
    message_t message;
    memset(&message, 0, sizeof message);
    message.kind = MESSAGE_TELL;
    message.done = done;
    message.total = total;
    return send_message(pipe->fd, message, NULL);
}

/** Address space in use now, from the kernel; 0 when it does not say. */
static double address_space_bytes(void) {
    char text[64];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    return strtod(text, NULL) * (double)sysconf(_SC_PAGESIZE);
}

static void limit_memory(double bytes) {
    double used = address_space_bytes();
    if (bytes > 0 && used > 0 && !SANITIZED) {
        struct rlimit limit;
        limit.rlim_cur = limit.rlim_max = (rlim_t)(bytes + used);
        (void)setrlimit(RLIMIT_AS, &limit);
    }
    /* A library that aborts shall not leave a core behind. */
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
}

/** The child's life. It ends without the caller's exit handlers, which are not its own. */
static void child(int fd, pid_t parent, const ccl_child_limits_t *limits, ccl_child_fn fn,
                  void *user) {
    ccl_child_pipe_t out = {fd};
    ccl_error_t err = CCL_ERROR_INIT;
    message_t message;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    /* The parent's end, however it comes, is the child's. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nowhere >= 0 && getppid() == parent) {
        (void)dup2(nowhere, STDOUT_FILENO);
        if (!SANITIZED) /* what a library says before it aborts: the parent reports in one line */
            (void)dup2(nowhere, STDERR_FILENO);
        limit_memory(limits->memory_bytes);
        err.status = CCL_OK;
        ccl_status_t status = fn(&out, user, &err);
        err.status = status;
        memset(&message, 0, sizeof message);
        message.kind = MESSAGE_END;
        message.len = sizeof err;
        (void)send_message(fd, message, &err);
    }
    syscall(SYS_exit_group, 0);
}

/* ---------------------------------------------------------------- parent */

typedef struct watch {
    const ccl_ctx_t *ctx;
    const ccl_child_limits_t *limits;
    ccl_child_answer_t *out;
    pid_t pid;
    int fd;
    double start_s;
    bool dead;       /* waited for */
    int state;       /* then: as waitpid() has it; -1: it does not say */
    bool ended;      /* its last message is here */
    ccl_error_t end; /* then: what fn said */
    ccl_progress_t progress;
    char *data; /* received, not yet understood */
    size_t len, cap;
} watch_t;

static bool take_message(watch_t *watch, ccl_status_t *status, ccl_error_t *err) {
    message_t message;
    if (watch->len < sizeof message)
        return false;
    memcpy(&message, watch->data, sizeof message);
    if (message.len > watch->len - sizeof message)
        return false;
    const char *body = watch->data + sizeof message;
    if (message.kind == MESSAGE_ANSWER) {
        void *copy = malloc(message.len ? message.len : 1);
        if (!copy) {
            *status = ccl_fail_nomem(err);
            return false;
        }
        memcpy(copy, body, message.len);
        free(watch->out->data);
        watch->out->data = copy;
        watch->out->len = message.len;
    } else if (message.kind == MESSAGE_TELL) {
        watch->progress.done = message.done;
        watch->progress.total = message.total;
    } else if (message.kind == MESSAGE_END && message.len == sizeof watch->end) {
        memcpy(&watch->end, body, sizeof watch->end);
        watch->ended = true;
    }
    watch->len -= sizeof message + message.len;
    memmove(watch->data, body + message.len, watch->len);
    return true;
}

/** Read what is there. */
static ccl_status_t drain(watch_t *watch, ccl_error_t *err) {
    ccl_status_t status = CCL_OK;
    for (;;) {
        if (!ccl_grow(&watch->data, &watch->cap, watch->len + ((size_t)1 << 16), 1))
            return ccl_fail_nomem(err);
        ssize_t n = read(watch->fd, watch->data + watch->len, watch->cap - watch->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return CCL_OK;
        watch->len += (size_t)n;
        while (take_message(watch, &status, err)) {
        }
        CCL_TRY(status);
    }
}

static void reap(watch_t *watch, bool by_force) {
    if (watch->dead)
        return;
    if (by_force)
        (void)kill(watch->pid, SIGKILL);
    for (;;) {
        pid_t pid = waitpid(watch->pid, &watch->state, by_force ? 0 : WNOHANG);
        if (pid < 0 && errno == EINTR)
            continue;
        watch->dead = pid != 0; /* or nobody's child any more */
        if (pid < 0)
            watch->state = -1;
        return;
    }
}

/** A library that aborts does so for lack of memory, as a rule: malloc failed, or an exception. */
static ccl_status_t died(const watch_t *watch, ccl_error_t *err) {
    const char *phase = watch->progress.phase;
    if (watch->state != -1 && WIFSIGNALED(watch->state))
        return ccl_fail(err, CCL_ERR_NOMEM,
                        "%s: signal %d ended the child process: out of memory, or a fault of its "
                        "library",
                        phase, WTERMSIG(watch->state));
    return ccl_fail(err, CCL_ERR_NOMEM,
                    "%s: the child process ended too early: out of memory, or a fault of its "
                    "library",
                    phase);
}

static ccl_status_t wait_for(watch_t *watch, ccl_error_t *err) {
    for (;;) {
        double left_s = watch->start_s + watch->limits->time_s - ccl_now_s();
        struct pollfd poll_fd = {watch->fd, POLLIN, 0};
        if (watch->limits->time_s > 0 && left_s <= 0) {
            reap(watch, true);
            CCL_TRY(drain(watch, err));
            watch->out->limited = !watch->ended;
            return watch->ended ? CCL_OK : CCL_TIMEOUT;
        }
        int ms = POLL_MS;
        if (watch->limits->time_s > 0 && left_s < 1e-3 * POLL_MS)
            ms = (int)(left_s * 1e3) + 1;
        reap(watch, false); /* before reading: then what is read is all */
        if (!watch->dead && poll(&poll_fd, 1, ms) < 0 && errno != EINTR)
            return ccl_fail(err, CCL_ERR_IO, "%s: the child's answer cannot be read: %s",
                            watch->progress.phase, strerror(errno));
        CCL_TRY(drain(watch, err));
        if (watch->ended)
            return CCL_OK;
        if (watch->dead)
            return died(watch, err);
        CCL_TRY(ccl_ctx_poll(watch->ctx, &watch->progress));
        ccl_fork_point();
    }
}

ccl_status_t ccl_child_run(const ccl_ctx_t *ctx, const ccl_child_limits_t *limits, ccl_child_fn fn,
                           void *user, ccl_child_answer_t *out, ccl_error_t *err) {
    static const ccl_child_answer_t nothing;
    watch_t watch = {.ctx = ctx, .limits = limits, .out = out};
    int ends[2];
    *out = nothing;
    watch.progress.phase = limits->phase ? limits->phase : "child";
    if (pipe2(ends, O_CLOEXEC))
        return ccl_fail(err, CCL_ERR_NOMEM, "%s: no pipe to a child process: %s",
                        watch.progress.phase, strerror(errno));
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    watch.start_s = ccl_now_s();
    pid_t parent = getpid();
    watch.pid = ccl_fork();
    int why = errno;
    if (watch.pid == 0) {
        close(ends[0]);
        child(ends[1], parent, limits, fn, user);
    }
    close(ends[1]);
    if (watch.pid < 0) {
        close(ends[0]);
        return ccl_fail(err, CCL_ERR_NOMEM, "%s: no child process: %s", watch.progress.phase,
                        strerror(why));
    }
    watch.fd = ends[0];
    ccl_status_t status = wait_for(&watch, err);
    reap(&watch, true);
    close(watch.fd);
    free(watch.data);
    out->wall_s = ccl_now_s() - watch.start_s;
    if (status == CCL_TIMEOUT)
        return CCL_OK;
    if (status == CCL_OK && watch.end.status != CCL_OK) {
        if (err && err->status == CCL_OK)
            *err = watch.end;
        status = watch.end.status;
    }
    return status;
}
