/** @file main.h One Check suite per test program, without forking so that sanitizers see all of it.
 */
#ifndef CCL_TESTS_BASE_MAIN_H
#define CCL_TESTS_BASE_MAIN_H

#include <check.h>
#include <stdlib.h>

/* Check writes the place of every assertion that holds to a file, for the parent of a child that
   dies. There is no child here, and a test of a million assertions spent a second on it. One that
   fails says its own place. */
#define _mark_point(file, line) ((void)0)

/** The build is sanitized: work takes several times as long, and the plain tests do all of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/** Runs the suite and destroys it. @return main's exit status: 0 where all tests pass */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

#define RUN_TESTS(...)                                                                             \
    int main(void) {                                                                               \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        TCase *cases = tcase_create("all");                                                        \
        Suite *suite = suite_create(__FILE__);                                                     \
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)                                  \
            tcase_add_test(cases, tests[i]);                                                       \
        suite_add_tcase(suite, cases);                                                             \
        return run_suite(suite);                                                                   \
    }

#endif
