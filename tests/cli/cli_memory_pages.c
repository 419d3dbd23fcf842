/* Programs that are made one after another take the pages that others left: the system gives none
 * of them twice. */
#include <sys/resource.h>

#include "tests/base/main.h"
#include "tests/cli/program.h"

START_TEST(pages_are_kept) {
    struct rusage before, after;
    if (SANITIZED) /* another allocator */
        return;
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &before), 0);
    said_t said = run("compare -t 'dgx-h100*4' -c allreduce --with nvls-pull --sizes 64M "
                      "--threads 1");
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &after), 0);
    ck_assert_msg(said.rc == 0, "%s", said.err);
    long faults = after.ru_minflt - before.ru_minflt;
    ck_assert_msg(faults <= 7000, "%ld pages", faults);
    said_free(&said);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory");
    TCase *cases = tcase_create("pages");

    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, pages_are_kept);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
