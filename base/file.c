/** @file file.c Whole files, read bounded and written atomically. */
#define _GNU_SOURCE
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ccl_status_t io_fail(ccl_error_t *err, const char *path, const char *what, int error) {
    char reason[128];
    const char *text = strerror_r(error, reason, sizeof reason);
    return ccl_error_set(err, CCL_ERR_IO, path, 0, 0, "%s: %s", what, text);
}

static ccl_status_t read_all(int fd, const char *name, size_t max_bytes, size_t guess_bytes,
                             char **data_out, size_t *len_out, ccl_error_t *err) {
    char *data = NULL;
    size_t len = 0, cap = 0;
    if (!ccl_grow(&data, &cap, guess_bytes + 2, 1))
        return ccl_fail_nomem(err);
    for (;;) {
        if (len + 1 >= cap && !ccl_grow(&data, &cap, cap + 1, 1)) {
            free(data);
            return ccl_fail_nomem(err);
        }
        ssize_t got = read(fd, data + len, cap - len - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int error = errno;
            free(data);
            return io_fail(err, name, "cannot read", error);
        }
        if (got == 0)
            break;
        len += (size_t)got;
        if (len > max_bytes) {
            free(data);
            return ccl_error_set(err, CCL_ERR_INPUT, name, 0, 0,
                                 "larger than %zu bytes, the most that is read", max_bytes);
        }
    }
    data[len] = 0;
    *data_out = data;
    *len_out = len;
    return CCL_OK;
}

ccl_status_t ccl_file_read(const char *path, size_t max_bytes, char **data_out, size_t *len_out,
                           ccl_error_t *err) {
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, "<stdin>", max_bytes, 4096, data_out, len_out, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return io_fail(err, path, "cannot open", errno);
    struct stat info;
    ccl_status_t status;
    if (fstat(fd, &info) != 0)
        status = io_fail(err, path, "cannot read", errno);
    else if (S_ISDIR(info.st_mode))
        status = io_fail(err, path, "cannot read", EISDIR);
    else if (S_ISREG(info.st_mode) && (uintmax_t)info.st_size > max_bytes)
        status = ccl_error_set(err, CCL_ERR_INPUT, path, 0, 0,
                               "larger than %zu bytes, the most that is read", max_bytes);
    else
        status = read_all(fd, path, max_bytes, S_ISREG(info.st_mode) ? (size_t)info.st_size : 4096,
                          data_out, len_out, err);
    close(fd);
    return status;
}

static int write_all(int fd, const char *data, size_t len) {
    while (len) {
        ssize_t put = write(fd, data, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        data += put;
        len -= (size_t)put;
    }
    return 0;
}

static ccl_status_t write_stdout(const void *data, size_t len, ccl_error_t *err) {
    /* Through stdio: the program may have text waiting in the same stream. */
    errno = 0;
    if (fwrite(data, 1, len, stdout) != len || fflush(stdout) != 0)
        return io_fail(err, "<stdout>", "cannot write", errno ? errno : EIO);
    return CCL_OK;
}

static ccl_status_t write_in_place(const char *path, const void *data, size_t len,
                                   ccl_error_t *err) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return io_fail(err, path, "cannot open", errno);
    int error = write_all(fd, data, len);
    if (close(fd) != 0 && !error)
        error = errno;
    return error ? io_fail(err, path, "cannot write", error) : CCL_OK;
}

/* A new file beside `path`; its name in `temporary`. mkstemp would make it private (mode 0600). */
static int open_temporary(const char *path, mode_t mode, char *temporary, size_t len) {
    for (unsigned i = 0; i < 1000; i++) {
        int need = snprintf(temporary, len, "%s.%ld-%u.tmp", path, (long)getpid(), i);
        if (need < 0 || (size_t)need >= len) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

ccl_status_t ccl_file_write(const char *path, const void *data, size_t len, ccl_error_t *err) {
    if (strcmp(path, "-") == 0)
        return write_stdout(data, len, err);
    char real[PATH_MAX], temporary[PATH_MAX + 64];
    struct stat info;
    mode_t mode = 0666;
    bool exists = stat(path, &info) == 0;
    /* Never rename over a device, pipe or terminal: /dev/stdout and /dev/null are written as such.
     */
    if (exists && S_ISDIR(info.st_mode))
        return io_fail(err, path, "cannot write", EISDIR);
    if (exists && !S_ISREG(info.st_mode))
        return write_in_place(path, data, len, err);
    if (exists)
        mode = info.st_mode & 07777;
    const char *target = exists && realpath(path, real) ? real : path; /* keep symbolic links */
    int fd = open_temporary(target, mode, temporary, sizeof temporary);
    if (fd < 0)
        return io_fail(err, path, "cannot create", errno);
    int error = write_all(fd, data, len);
    if (!error && fsync(fd) != 0 && errno != EINVAL)
        error = errno;
    if (close(fd) != 0 && !error)
        error = errno;
    if (!error && rename(temporary, target) != 0)
        error = errno;
    if (error) {
        unlink(temporary);
        return io_fail(err, path, "cannot write", error);
    }
    return CCL_OK;
}

void ccl_file_title(const char *path, char *out, size_t out_len) {
    const char *slash = strrchr(path, '/');
    const char *base = slash && slash[1] ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t len = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    if (strcmp(path, "-") == 0 || strcmp(path, "<stdin>") == 0)
        base = "stdin", len = 5;
    len = len < out_len ? len : out_len - 1;
    memcpy(out, base, len);
    out[len] = '\0';
}
