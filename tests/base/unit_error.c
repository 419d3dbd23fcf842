#include "base/base.h"

#include <string.h>

#include "tests/base/main.h"

START_TEST(status_table) {
    static const struct {
        ccl_status_t status;
        int exit_code;
        const char *name, *why;
    } rows[] = {
        {CCL_OK, 0, "CCL_OK", "done"},
        {CCL_CHECK, 1, "CCL_CHECK", "an answer of no"},
        {CCL_INFEASIBLE, 1, "CCL_INFEASIBLE", "an answer of no"},
        {CCL_DEADLOCK, 1, "CCL_DEADLOCK", "an answer of no"},
        {CCL_UNSUPPORTED, 1, "CCL_UNSUPPORTED", "an answer of no"},
        {CCL_ERR_USAGE, 2, "CCL_ERR_USAGE", "usage"},
        {CCL_ERR_INPUT, 2, "CCL_ERR_INPUT", "bad input"},
        {CCL_TIMEOUT, 3, "CCL_TIMEOUT", "limit reached"},
        {CCL_ERR_IO, 4, "CCL_ERR_IO", "I/O"},
        {CCL_ERR_MISSING, 4, "CCL_ERR_MISSING", "device missing"},
        {CCL_ERR_NOMEM, 4, "CCL_ERR_NOMEM", "memory"},
        {CCL_ERR_INTERNAL, 70, "CCL_ERR_INTERNAL", "bug"},
        {CCL_INTERRUPTED, 130, "CCL_INTERRUPTED", "128 + SIGINT"},
    };
#define COUNT_(status_, exit_, meaning_) +1
    ck_assert_uint_eq(CCL_ARRAY_LEN(rows), 0 CCL_STATUS_MAP(COUNT_));
#undef COUNT_
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ck_assert_msg(ccl_status_exit_code(rows[i].status) == rows[i].exit_code, "%s: got %d",
                      rows[i].why, ccl_status_exit_code(rows[i].status));
        ck_assert_str_eq(ccl_status_name(rows[i].status), rows[i].name);
        ck_assert_msg(ccl_status_meaning(rows[i].status)[0], "%s has no meaning", rows[i].name);
    }
    ck_assert_int_eq(ccl_status_exit_code((ccl_status_t)99), 70);
    ck_assert_str_eq(ccl_status_name((ccl_status_t)-1), "CCL_STATUS_UNKNOWN");
}
END_TEST

START_TEST(format_table) {
    static const struct {
        ccl_error_t error;
        const char *want, *why;
    } rows[] = {
        {{CCL_ERR_INPUT, 3, 7, "a.json", "bad"}, "a.json:3:7: bad", "everything known"},
        {{CCL_ERR_INPUT, 3, 0, "a.json", "bad"}, "a.json:3: bad", "no column"},
        {{CCL_ERR_INPUT, 0, 7, "a.json", "bad"},
         "a.json: bad",
         "a column without line says nothing"},
        {{CCL_ERR_INPUT, 3, 7, "", "bad"}, "3:7: bad", "no file"},
        {{CCL_ERR_INPUT, 0, 0, "", "bad"}, "bad", "text only"},
        {{CCL_INFEASIBLE, 0, 0, "", ""}, "there is no solution", "no text: what the status means"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char out[128];
        ccl_error_format(&rows[i].error, out, sizeof out);
        ck_assert_msg(strcmp(out, rows[i].want) == 0, "%s: got \"%s\"", rows[i].why, out);
    }
    char small[6], untouched = 'x';
    ccl_error_format(&rows[0].error, small, sizeof small);
    ck_assert_str_eq(small, "a.jso");
    ccl_error_format(&rows[0].error, &untouched, 0);
    ck_assert_int_eq(untouched, 'x');
}
END_TEST

START_TEST(first_writer_wins) {
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_fail(&err, CCL_ERR_INPUT, "first %d", 1), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_error_set(&err, CCL_ERR_IO, "f", 1, 1, "second"), CCL_ERR_IO);
    ck_assert_str_eq(err.text, "first 1");
    ck_assert_int_eq(err.status, CCL_ERR_INPUT);
    ccl_error_clear(&err);
    ccl_fail_nomem(&err);
    ck_assert_int_eq(err.status, CCL_ERR_NOMEM);
    ck_assert_int_eq(ccl_fail(NULL, CCL_CHECK, "no one listens"), CCL_CHECK);
    ccl_error_clear(NULL);
}
END_TEST

START_TEST(always_one_bounded_line) {
    char huge[3000];
    memset(huge, 'a', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    huge[3] = '\n';
    huge[4] = '\033';
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_error_set(&err, CCL_ERR_INPUT, huge, -4, -1, "%s", huge);
    ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
    ck_assert_uint_eq(strlen(err.where), sizeof err.where - 1);
    ck_assert_msg(!strpbrk(err.text, "\n\033") && !strpbrk(err.where, "\n\033"),
                  "control characters of input reach the terminal");
    ck_assert_int_eq(err.line, 0);
    ck_assert_int_eq(err.column, 0);
    ccl_error_t again = CCL_ERROR_INIT; /* quoting an error inside another */
    ccl_fail(&again, CCL_ERR_INPUT, "in: %s", err.text);
    ck_assert_msg(strncmp(again.text, "in: aaa?", 8) == 0, "%s", again.text);
}
END_TEST

static int stop_after(const ccl_progress_t *progress, void *user) {
    return progress->done >= *(uint64_t *)user;
}

static void count_log(ccl_log_level_t level, const char *subsystem, const char *text, void *user) {
    ck_assert_int_eq(level, CCL_LOG_WARN);
    ck_assert_str_eq(subsystem, "sim");
    ck_assert_str_eq(text, "link 3");
    ++*(int *)user;
}

START_TEST(context) {
    ccl_progress_t progress = {.phase = "x", .done = 1, .total = 3};
    ck_assert_int_eq(ccl_ctx_poll(NULL, &progress), CCL_OK);
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ck_assert_int_eq(ccl_ctx_poll(&ctx, &progress), CCL_OK);
    uint64_t limit = 2;
    ctx.progress = stop_after;
    ctx.progress_user = &limit;
    ck_assert_int_eq(ccl_ctx_poll(&ctx, &progress), CCL_OK);
    progress.done = 2;
    ck_assert_int_eq(ccl_ctx_poll(&ctx, &progress), CCL_INTERRUPTED);
    ck_assert_int_eq(ccl_ctx_poll(&ctx, NULL), CCL_OK);
    int cancel = 1;
    ctx.cancel = &cancel;
    ck_assert_int_eq(ccl_ctx_poll(&ctx, NULL), CCL_INTERRUPTED);
    int logged = 0;
    ccl_log(NULL, CCL_LOG_WARN, "sim", "link %d", 3);
    ccl_log(&ctx, CCL_LOG_WARN, "sim", "link %d", 3);
    ctx.log = count_log;
    ctx.log_user = &logged;
    ccl_log(&ctx, CCL_LOG_WARN, "sim", "link %d", 3);
    ck_assert_int_eq(logged, 1);
}
END_TEST

RUN_TESTS(status_table, format_table, first_writer_wins, always_one_bounded_line, context)
