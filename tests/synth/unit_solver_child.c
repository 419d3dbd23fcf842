/* A solver's process: what it hands over, its limit, its death, interruption, several at a time. */
#include "common.h"
#include "synth/common/solver_child.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIG ((size_t)3 << 20) /* more than a pipe holds */

typedef struct job {
    uint32_t answers; /* to put before what follows */
    size_t len;       /* of each */
    enum { RETURN, FAIL, HANG, DIE, PRINT } then;
    uint8_t mark;
} job_t;

static ccl_status_t solve(ccl_i_solver_pipe_t *pipe, void *user, ccl_error_t *err) {
    const job_t *job = user;
    for (uint32_t i = 0; i < job->answers; i++) {
        uint8_t *data = malloc(job->len);
        if (!data)
            return ccl_fail_nomem(err);
        memset(data, job->mark + (int)i, job->len);
        bool heard = ccl_i_solver_put(pipe, data, job->len);
        free(data);
        if (!heard)
            return CCL_INTERRUPTED;
        ccl_i_solver_tell(pipe, i + 1, job->answers);
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
    case PRINT:
        printf("a solver's chatter\n");
        fflush(stdout);
        break;
    }
    return CCL_OK;
}

static ccl_status_t run(const ccl_ctx_t *ctx, job_t job, double limit_s,
                        ccl_i_solver_answer_t *answer, ccl_error_t *err) {
    ccl_i_solver_limits_t limits = {limit_s, 0, "test"};
    return ccl_i_solver_run(ctx, &limits, solve, &job, answer, err);
}

static bool all_are(const ccl_i_solver_answer_t *a, uint8_t mark) {
    for (size_t i = 0; i < a->len; i++)
        if (((uint8_t *)a->data)[i] != mark)
            return false;
    return a->data != NULL;
}

static void no_child_left(void) {
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}

START_TEST(last_answer_counts) {
    ccl_i_solver_answer_t a;
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
    ccl_i_solver_answer_t a;
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
    ccl_i_solver_answer_t a;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(run(NULL, (job_t){1, 4, FAIL, 1}, 60, &a, &err), CCL_INFEASIBLE);
    ck_assert_str_eq(err.text, "nothing fits 7");
    free(a.data);
    ccl_error_clear(&err);
    ck_assert_int_eq(run(NULL, (job_t){1, 4, DIE, 1}, 60, &a, &err), CCL_ERR_INTERNAL);
    ck_assert_str_ne(err.text, "");
    ck_assert(all_are(&a, 1));
    free(a.data);
    no_child_left();
}
END_TEST

static int stop_after_tell(const ccl_progress_t *progress, void *user) {
    ck_assert_str_eq(progress->phase, "test");
    *(uint64_t *)user = progress->total;
    return progress->done > 0;
}

START_TEST(interrupts) {
    ccl_i_solver_answer_t a;
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
    int ends[2], saved;
    char text[64];
    ccl_i_solver_answer_t a;
    ck_assert_int_eq(pipe(ends), 0);
    fflush(stdout);
    saved = dup(STDOUT_FILENO);
    ck_assert_int_ge(dup2(ends[1], STDOUT_FILENO), 0);
    ccl_status_t status = run(NULL, (job_t){0, 0, PRINT, 0}, 60, &a, NULL);
    ck_assert_int_ge(dup2(saved, STDOUT_FILENO), 0);
    close(saved);
    close(ends[1]);
    ck_assert_int_eq(status, CCL_OK);
    ck_assert_int_eq(read(ends[0], text, sizeof text), 0);
    close(ends[0]);
}
END_TEST

static ccl_status_t one_of_many(uint32_t index, uint32_t worker, void *user, ccl_error_t *err) {
    uint8_t *marks = user;
    ccl_i_solver_answer_t a;
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
    Suite *suite = suite_create("synth.solver_child");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 100);
    tcase_add_test(all, last_answer_counts);
    tcase_add_test(all, limit_is_hard_and_keeps_the_best);
    tcase_add_test(all, failures_are_told);
    tcase_add_test(all, interrupts);
    tcase_add_test(all, stdout_stays_ours);
    tcase_add_test(all, several_at_a_time);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
