/* The line about progress: share, rate, time left, what runs now; never wider than the terminal. */
#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "tests/base/main.h"

static const struct {
    const char *why, *line;
    ccl_progress_t p;
    double elapsed_s;
    size_t columns;
} rows[] = {
    {"all of it",
     " 37% 37 of 100, 3.7/s, about 18 s left: cegis at 64M; best 123 us; bound 100 us",
     {"cegis at 64M", 37, 100, 123e-6, 100e-6},
     10,
     200},
    {"too early for a rate", "  0% 0 of 9: ring at 1K", {"ring at 1K", 0, 9, 0, 0}, 0.2, 80},
    {"nothing done yet",
     "  0% 0 of 9, 30 s so far: cegis at 1G",
     {"cegis at 1G", 0, 9, 0, 0},
     30,
     80},
    {"no total", "5000, 50/s, 2 min so far: candidates", {"candidates", 5000, 0, 0, 0}, 100, 80},
    {"minutes", " 50% 5 of 10, 3.0/min, about 2 min left", {"", 5, 10, 0, 0}, 100, 80},
    {"hours", " 10% 1 of 10, 0.1/min, about 2.5 h left", {NULL, 1, 10, 0, 0}, 1000, 80},
    {"done", "100% 10 of 10, 10/s, about 1 s left", {NULL, 10, 10, 0, 0}, 1, 80},
    {"cut", " 50% 5 of 10,...", {"cegis at 64M", 5, 10, 0, 0}, 100, 17},
};

START_TEST(test_lines) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_text_t out = {0};
        ccl_i_progress_line(&rows[i].p, rows[i].elapsed_s, rows[i].columns, &out);
        ck_assert(!out.nomem && out.len < rows[i].columns);
        ck_assert_msg(strlen(rows[i].line) == out.len &&
                          strncmp(out.data, rows[i].line, out.len) == 0,
                      "%s: \"%.*s\"", rows[i].why, (int)out.len, out.data);
        ccl_text_fini(&out);
    }
}
END_TEST

START_TEST(test_left) {
    const ccl_progress_t half = {"", 50, 100, 0, 0}, none = {"", 0, 100, 0, 0},
                         odd = {"", 5, 0, 0, 0};
    ck_assert(ccl_i_progress_left_s(&half, 20) == 20);
    ck_assert(isnan(ccl_i_progress_left_s(&half, 0.5)));
    ck_assert(isnan(ccl_i_progress_left_s(&none, 20)));
    ck_assert(isnan(ccl_i_progress_left_s(&odd, 20)));
}
END_TEST

RUN_TESTS(test_lines, test_left)
