/* A child process: what it hands over, its limits, its death, interruption, several at a time. */
#include "base/base.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/base/main.h"
#include "tests/base/scarce.h"

#define BIG ((size_t)3 << 20) /* more than a pipe holds */

typedef struct job {
    uint32_t answers; /* to put before what follows */
    size_t len;       /* of each */
    enum { RETURN, FAIL, HANG, DIE, ABORT, LEAVE, PRINT, FILL } then;
    uint8_t mark;
} job_t;

static ccl_status_t solve(ccl_child_pipe_t *pipe, void *user, ccl_error_t *err) {
    const job_t *job = user;
    for (uint32_t i = 0; i < job->answers; i++) {
        uint8_t *data = malloc(job->len);
        if (!data)
            return ccl_fail_nomem(err);
        memset(data, job->mark + (int)i, job->len);
        const struct iovec parts[] = {{data, 5}, {NULL, 0}, {data + 5, job->len - 5}};
        bool heard = i % 2 && job->len > 5 ? ccl_child_put_parts(pipe, parts, 3)
                                           : ccl_child_put(pipe, data, job->len);
        free(data);
        if (!heard)
            return CCL_INTERRUPTED;
        ccl_child_tell(pipe, i + 1, job->answers);
    }
    switch (job->then) {
    case RETURN:
        break;
    case FAIL:
        return ccl_fail(err, CCL_INFEASIBLE, "nothing fits %d", 7);
    case HANG:
        for (;;)
            pause();
    case DIE:
        (void)kill(getpid(), SIGKILL);
        break;
    case ABORT:
        fprintf(stderr, "a library's last words\n");
        abort();
    case LEAVE:
        exit(3);
    case PRINT:
        printf("a library's chatter\n");
        fflush(stdout);
        break;
    case FILL:
        for (;;) {
            char *data = malloc(BIG);
            if (!data)
                return ccl_fail_nomem(err);
            memset(data, 1, BIG);
        }
    }
    return CCL_OK;
}

static ccl_status_t run(const ccl_ctx_t *ctx, job_t job, double limit_s, ccl_child_answer_t *answer,
                        ccl_error_t *err) {
    ccl_child_limits_t limits = {limit_s, job.then == FILL ? 4 * BIG : 0, "test"};
    return ccl_child_run(ctx, &limits, solve, &job, answer, err);
}

static bool all_are(const ccl_child_answer_t *a, uint8_t mark) {
    for (size_t i = 0; i < a->len; i++)
        if (((uint8_t *)a->data)[i] != mark)
            return false;
    return a->data != NULL;
}

static void no_child_left(void) {
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}

START_TEST(last_answer_counts) {
    ccl_child_answer_t a;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(run(NULL, (job_t){3, BIG, RETURN, 10}, 60, &a, &err), CCL_OK);
    ck_assert_uint_eq(a.len, BIG);
    ck_assert(all_are(&a, 12) && !a.limited);
    free(a.data);
    ck_assert_int_eq(run(NULL, (job_t){0, 0, RETURN, 0}, 0, &a, &err), CCL_OK);
    ck_assert(!a.data && !a.limited);
    no_child_left();
}
END_TEST

START_TEST(limit_is_hard_and_keeps_the_best) {
    ccl_child_answer_t a;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(run(NULL, (job_t){2, 5000, HANG, 20}, 0.3, &a, &err), CCL_OK);
    ck_assert(a.limited && a.len == 5000 && all_are(&a, 21));
    ck_assert_double_ge(a.wall_s, 0.3);
    ck_assert_double_le(a.wall_s, 10);
    free(a.data);
    no_child_left();
}
END_TEST

START_TEST(failures_are_told) {
    ccl_child_answer_t a;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(run(NULL, (job_t){1, 4, FAIL, 1}, 60, &a, &err), CCL_INFEASIBLE);
    ck_assert_str_eq(err.text, "nothing fits 7");
    free(a.data);
    ccl_error_clear(&err);
    no_child_left();
}
END_TEST

/* A stream to a file without a name while fn runs; what came to it. */
static void watch_stream(FILE *stream, int number, char text[64], void (*fn)(void *), void *user) {
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    fflush(stream);
    int saved = dup(number);
    ck_assert_int_ge(dup2(fileno(file), number), 0);
    fn(user);
    fflush(stream);
    ck_assert_int_ge(dup2(saved, number), 0);
    close(saved);
    ssize_t n = pread(fileno(file), text, 63, 0);
    text[n > 0 ? n : 0] = 0;
    fclose(file);
}

typedef struct death {
    job_t job;
    int code; /* of ccl_child_run() */
    ccl_child_answer_t answer;
    ccl_error_t err;
} death_t;

static void die(void *user) {
    death_t *d = user;
    d->code = (int)run(NULL, d->job, 60, &d->answer, &d->err);
}

/* Whatever a library does to its process: an error, what came before is there, and not a word. */
START_TEST(deaths_are_errors) {
    static const struct {
        int then;
        const char *text;
    } rows[] = {
        {DIE, "test: signal 9 ended"}, {ABORT, "test: signal 6 ended"}, {LEAVE, "too early"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        death_t d = {.job = {1, 4, rows[i].then, 1}, .err = CCL_ERROR_INIT};
        char text[64];
        watch_stream(stderr, STDERR_FILENO, text, die, &d);
        ck_assert_int_eq(d.code, CCL_ERR_NOMEM);
        ck_assert_msg(strstr(d.err.text, rows[i].text) != NULL, "%s", d.err.text);
        ck_assert(all_are(&d.answer, 1));
        if (SCARCE_MEMORY)
            ck_assert_str_eq(text, "");
        free(d.answer.data);
    }
    no_child_left();
}
END_TEST

START_TEST(memory_limit) {
    ccl_child_answer_t a;
    ccl_error_t err = CCL_ERROR_INIT;
    if (!SCARCE_MEMORY)
        return; /* there is none */
    ck_assert_int_eq(run(NULL, (job_t){1, 4, FILL, 1}, 60, &a, &err), CCL_ERR_NOMEM);
    ck_assert_str_eq(err.text, "out of memory");
    ck_assert(all_are(&a, 1));
    free(a.data);
}
END_TEST

/* The parent's limit of processes, or of files, is reached. */
START_TEST(no_process_to_be_had) {
    static const struct {
        int resource;
        const char *text;
    } rows[] = {{RLIMIT_NOFILE, "test: no pipe"}, {RLIMIT_NPROC, "test: no child process"}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        struct rlimit before, none;
        ccl_child_answer_t a;
        ccl_error_t err = CCL_ERROR_INIT;
        if (rows[i].resource == RLIMIT_NPROC && getuid() == 0)
            continue; /* root has as many as it likes */
        ck_assert_int_eq(getrlimit(rows[i].resource, &before), 0);
        none = before;
        none.rlim_cur = rows[i].resource == RLIMIT_NOFILE ? (rlim_t)(dup(0) + 1) : 0;
        ck_assert_int_eq(setrlimit(rows[i].resource, &none), 0);
        ccl_status_t status = run(NULL, (job_t){1, 4, RETURN, 1}, 60, &a, &err);
        ck_assert_int_eq(setrlimit(rows[i].resource, &before), 0);
        if (rows[i].resource == RLIMIT_NOFILE)
            close((int)none.rlim_cur - 1);
        ck_assert_int_eq(status, CCL_ERR_NOMEM);
        ck_assert_msg(strstr(err.text, rows[i].text) == err.text, "%s", err.text);
        ck_assert_ptr_null(a.data);
    }
}
END_TEST

static int stop_after_tell(const ccl_progress_t *progress, void *user) {
    ck_assert_str_eq(progress->phase, "test");
    *(uint64_t *)user = progress->total;
    return progress->done > 0;
}

START_TEST(interrupts) {
    ccl_child_answer_t a;
    ccl_error_t err = CCL_ERROR_INIT;
    volatile int stop = 1;
    uint64_t total = 0;
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ctx.cancel = &stop;
    ck_assert_int_eq(run(&ctx, (job_t){0, 0, HANG, 0}, 0, &a, &err), CCL_INTERRUPTED);
    ctx.cancel = NULL;
    ctx.progress = stop_after_tell;
    ctx.progress_user = &total;
    ck_assert_int_eq(run(&ctx, (job_t){5, 9, HANG, 0}, 0, &a, &err), CCL_INTERRUPTED);
    ck_assert_uint_eq(total, 5);
    free(a.data);
    no_child_left();
}
END_TEST

START_TEST(stdout_stays_ours) {
    death_t d = {.job = {0, 0, PRINT, 0}, .err = CCL_ERROR_INIT};
    char text[64];
    watch_stream(stdout, STDOUT_FILENO, text, die, &d);
    ck_assert_int_eq(d.code, CCL_OK);
    ck_assert_str_eq(text, "");
}
END_TEST

static ccl_status_t one_of_many(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    uint8_t *marks = user;
    ccl_child_answer_t a;
    (void)worker;
    job_t job = {2, 70000, index % 3 ? RETURN : HANG, (uint8_t)index};
    ccl_status_t status = run(NULL, job, index % 3 ? 60 : 0.2, &a, err);
    if (status == CCL_OK && all_are(&a, (uint8_t)(index + 1)) && a.limited == (index % 3 == 0))
        marks[index] = 1;
    free(a.data);
    return status;
}

START_TEST(several_at_a_time) {
    enum { N = 24 };
    uint8_t marks[N] = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_parallel_for(N, 4, one_of_many, marks, &err) == CCL_OK, "%s", err.text);
    for (uint32_t i = 0; i < N; i++)
        ck_assert_uint_eq(marks[i], 1);
    no_child_left();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("base.child");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 100);
    tcase_add_test(all, last_answer_counts);
    tcase_add_test(all, limit_is_hard_and_keeps_the_best);
    tcase_add_test(all, failures_are_told);
    tcase_add_test(all, deaths_are_errors);
    tcase_add_test(all, memory_limit);
    tcase_add_test(all, no_process_to_be_had);
    tcase_add_test(all, interrupts);
    tcase_add_test(all, stdout_stays_ours);
    tcase_add_test(all, several_at_a_time);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
