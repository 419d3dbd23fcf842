/*
 * Growing files. A file is known by its device and inode, so that it may be renamed; the one that
 * was named itself stays open, so that what was written before it was renamed is not missed.
 */
#include "validate/watch/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINE_BYTES ((size_t)16 << 20)
#define READ_BYTES 65536
#define HEAD_BYTES 64 /* by which a file differs from one that took its place */

typedef struct followed {
    dev_t dev;
    ino_t inode;
    off_t at; /* of what is read next */
    uint32_t line;
    char head[HEAD_BYTES];
    size_t nhead;
    ccl_text_t rest; /* of a line whose end is not there yet */
    bool skipping;   /* the rest of a line that is too long */
} followed_t;

struct ccl_i_follow {
    bool grows;
    int fd; /* of the file that was named; -1 */
    followed_t *files;
    size_t nfiles, cap;
};

typedef struct reader {
    ccl_i_follow_t *follow;
    const ccl_ctx_t *ctx;
    ccl_i_line_fn fn;
    void *user;
} reader_t;

ccl_i_follow_t *ccl_i_follow_create(bool grows) {
    ccl_i_follow_t *f = calloc(1, sizeof *f);
    if (f) {
        f->grows = grows;
        f->fd = -1;
    }
    return f;
}

void ccl_i_follow_destroy(ccl_i_follow_t *follow) {
    if (!follow)
        return;
    for (size_t i = 0; i < follow->nfiles; i++)
        ccl_text_fini(&follow->files[i].rest);
    if (follow->fd >= 0)
        close(follow->fd);
    free(follow->files);
    free(follow);
}

static ccl_status_t io_error(const char *path, ccl_error_t *err) {
    return ccl_error_set(err, CCL_ERR_IO, path, 0, 0, "cannot read: %s", strerror(errno));
}

static void from_start(followed_t *f) {
    ccl_text_fini(&f->rest);
    f->rest = (ccl_text_t){0};
    f->at = 0;
    f->line = 0;
    f->nhead = 0;
    f->skipping = false;
}

/* The file's entry, made where there is none; from its start where it is not what it was. */
static ccl_status_t entry_of(ccl_i_follow_t *follow, int fd, const char *path, followed_t **out,
                             ccl_error_t *err) {
    struct stat st;
    char head[HEAD_BYTES];
    if (fstat(fd, &st) != 0)
        return io_error(path, err);
    for (size_t i = 0; i < follow->nfiles; i++) {
        followed_t *f = &follow->files[i];
        if (f->dev != st.st_dev || f->inode != st.st_ino)
            continue;
        if (st.st_size < f->at || pread(fd, head, f->nhead, 0) != (ssize_t)f->nhead ||
            memcmp(head, f->head, f->nhead) != 0)
            from_start(f);
        *out = f;
        return CCL_OK;
    }
    if (!ccl_grow(&follow->files, &follow->cap, follow->nfiles + 1, sizeof *follow->files))
        return ccl_fail_nomem(err);
    *out = &follow->files[follow->nfiles++];
    (*out)->dev = st.st_dev;
    (*out)->inode = st.st_ino;
    return CCL_OK;
}

/* A line, or the part of it that ends here. */
static ccl_status_t end_line(const reader_t *r, followed_t *f, const char *path, const char *text,
                             size_t len, ccl_error_t *err) {
    f->line++;
    if (f->skipping) {
        f->skipping = false;
        return CCL_OK;
    }
    if (f->rest.len == 0)
        return r->fn(r->user, path, f->line, text, len, err);
    ccl_text_add(&f->rest, text, len);
    ccl_status_t status = f->rest.nomem
                              ? ccl_fail_nomem(err)
                              : r->fn(r->user, path, f->line, f->rest.data, f->rest.len, err);
    f->rest.len = 0;
    return status;
}

static ccl_status_t take(const reader_t *r, followed_t *f, const char *path, const char *text,
                         size_t len, ccl_error_t *err) {
    for (const char *end; (end = memchr(text, '\n', len)) != NULL;) {
        CCL_TRY(end_line(r, f, path, text, (size_t)(end - text), err));
        len -= (size_t)(end + 1 - text);
        text = end + 1;
    }
    if (f->skipping || len == 0)
        return CCL_OK;
    if (f->rest.len + len > MAX_LINE_BYTES) {
        f->rest.len = 0;
        f->skipping = true;
        ccl_status_t status = ccl_error_set(err, CCL_ERR_INPUT, path, (int)f->line + 1, 0,
                                            "a line of more than 16 MiB");
        if (!r->follow->grows)
            return status;
        ccl_log(r->ctx, CCL_LOG_WARN, "watch", "%s:%u: a line of more than 16 MiB is skipped", path,
                f->line + 1);
        ccl_error_clear(err);
        return CCL_OK;
    }
    ccl_text_add(&f->rest, text, len);
    return f->rest.nomem ? ccl_fail_nomem(err) : CCL_OK;
}

static ccl_status_t read_open(const reader_t *r, int fd, const char *path, ccl_error_t *err) {
    char buffer[READ_BYTES];
    followed_t *f = NULL;
    CCL_TRY(entry_of(r->follow, fd, path, &f, err));
    for (;;) {
        ssize_t n = pread(fd, buffer, sizeof buffer, f->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_error(path, err);
        if (n == 0)
            break;
        for (ssize_t i = 0; i < n && f->nhead < HEAD_BYTES && (off_t)f->nhead == f->at + i; i++)
            f->head[f->nhead++] = buffer[i];
        f->at += n;
        CCL_TRY(take(r, f, path, buffer, (size_t)n, err));
        CCL_TRY(ccl_ctx_poll(r->ctx, NULL));
    }
    return !r->follow->grows && f->rest.len ? end_line(r, f, path, "", 0, err) : CCL_OK;
}

/* While following, a file that went in the meantime has nothing new. */
static ccl_status_t read_file(const reader_t *r, const char *path, ccl_error_t *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return r->follow->grows && errno == ENOENT ? CCL_OK : io_error(path, err);
    ccl_status_t status = read_open(r, fd, path, err);
    close(fd);
    return status;
}

/* The file that was named: first what was still written to it before another took its name. */
static ccl_status_t read_named(const reader_t *r, const char *path, ccl_error_t *err) {
    ccl_i_follow_t *f = r->follow;
    struct stat now, open_one;
    if (f->fd >= 0) {
        CCL_TRY(read_open(r, f->fd, path, err));
        if (stat(path, &now) != 0 ||
            (fstat(f->fd, &open_one) == 0 && now.st_dev == open_one.st_dev &&
             now.st_ino == open_one.st_ino))
            return CCL_OK;
        close(f->fd);
        f->fd = -1;
    }
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0)
        return f->grows && errno == ENOENT ? CCL_OK : io_error(path, err);
    return read_open(r, f->fd, path, err);
}

/* NAME.log, NAME.jsonl, NAME.json, and with a number behind. */
static int is_log(const struct dirent *entry) {
    static const char *const endings[] = {".log", ".jsonl", ".json"};
    const char *name = entry->d_name;
    size_t len = strlen(name);
    while (len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9')
        len--;
    len = name[len] && len > 0 && name[len - 1] == '.' ? len - 1 : strlen(name);
    for (size_t i = 0; i < CCL_ARRAY_LEN(endings); i++) {
        size_t n = strlen(endings[i]);
        if (name[0] != '.' && len > n && memcmp(name + len - n, endings[i], n) == 0)
            return 1;
    }
    return 0;
}

static ccl_status_t read_folder(const reader_t *r, const char *path, ccl_error_t *err) {
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, is_log, alphasort);
    if (n < 0)
        return io_error(path, err);
    ccl_status_t status = CCL_OK;
    for (int i = 0; i < n; i++) {
        char file[4096];
        int len = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (status == CCL_OK && len > 0 && (size_t)len < sizeof file)
            status = read_file(r, file, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

ccl_status_t ccl_i_follow_read(ccl_i_follow_t *follow, const ccl_ctx_t *ctx, const char *path,
                               ccl_i_line_fn fn, void *user, ccl_error_t *err) {
    const reader_t r = {follow, ctx, fn, user};
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return read_folder(&r, path, err);
    return read_named(&r, path, err);
}
