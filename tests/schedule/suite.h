/* Running a few libcheck tests, and tables of inputs that must be refused. */
#ifndef CCL_TESTS_SCHEDULE_SUITE_H
#define CCL_TESTS_SCHEDULE_SUITE_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"
#include "tests/base/main.h"

static inline int suite_run(const char *name, const TTest *const *tests, size_t ntests) {
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    for (size_t i = 0; i < ntests; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}

#define SUITE_MAIN(name_, ...)                                                                     \
    int main(void) {                                                                               \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        return suite_run(name_, tests, CCL_ARRAY_LEN(tests));                                      \
    }

/** One input that a reader must refuse with CCL_ERR_INPUT. */
typedef struct bad_row {
    const char *why, *input;
    int line, column; /* of the error; 0: none expected */
    const char *text; /* part of the message */
} bad_row_t;

#define check_bad(row_, status_, err_)                                                             \
    do {                                                                                           \
        ck_assert_msg((status_) == CCL_ERR_INPUT, "%s: status %d (%s)", (row_)->why, (status_),    \
                      (err_)->text);                                                               \
        ck_assert_msg(strstr((err_)->text, (row_)->text), "%s: '%s' lacks '%s'", (row_)->why,      \
                      (err_)->text, (row_)->text);                                                 \
        ck_assert_msg((err_)->line == (row_)->line && (err_)->column == (row_)->column,            \
                      "%s: at %d:%d instead of %d:%d (%s)", (row_)->why, (err_)->line,             \
                      (err_)->column, (row_)->line, (row_)->column, (err_)->text);                 \
        ck_assert_str_eq((err_)->where, "in");                                                     \
        ck_assert_msg(!strchr((err_)->text, '\n'), "%s: more than one line", (row_)->why);         \
    } while (0)

#define check_ok(status_, err_)                                                                    \
    ck_assert_msg((status_) == CCL_OK, "line %d: %s", (err_)->line, (err_)->text)

#endif
