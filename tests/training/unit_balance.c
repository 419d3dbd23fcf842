/* Whole micro-batches by speed: known splits, limits, what is refused. */
#include <stdlib.h>
#include <string.h>

#include "tests/base/main.h"
#include "training/training.h"

#define ANY CCL_BALANCE_ANY

static const struct {
    const char *why;
    uint32_t n;
    double speeds[5];
    uint64_t most[5];
    uint64_t total;
    ccl_balance_rule_t rule;
    uint64_t want[5];
} splits[] = {
    {"proportional",
     4,
     {2, 2, 1, 1},
     {ANY, ANY, ANY, ANY},
     96,
     CCL_BALANCE_REMAINDER,
     {32, 32, 16, 16}},
    {"the largest remainder gets the leftover",
     3,
     {5, 3, 2},
     {ANY, ANY, ANY},
     11,
     CCL_BALANCE_REMAINDER,
     {6, 3, 2}},
    {"equal remainders: the lowest worker",
     3,
     {1, 1, 1},
     {ANY, ANY, ANY},
     10,
     CCL_BALANCE_REMAINDER,
     {4, 3, 3}},
    {"a limit hands its rest to the others",
     3,
     {4, 1, 1},
     {4, ANY, ANY},
     12,
     CCL_BALANCE_REMAINDER,
     {4, 4, 4}},
    {"a limit that only bites after another",
     3,
     {6, 3, 1},
     {2, 5, ANY},
     10,
     CCL_BALANCE_REMAINDER,
     {2, 5, 3}},
    {"limits that are met exactly", 2, {3, 1}, {2, 2}, 4, CCL_BALANCE_REMAINDER, {2, 2}},
    {"a slow worker may get none", 2, {100, 1}, {ANY, ANY}, 3, CCL_BALANCE_REMAINDER, {3, 0}},
    {"equal ignores speed",
     4,
     {9, 1, 1, 1},
     {ANY, ANY, ANY, ANY},
     8,
     CCL_BALANCE_EQUAL,
     {2, 2, 2, 2}},
    {"equal keeps limits", 3, {1, 1, 1}, {1, ANY, ANY}, 7, CCL_BALANCE_EQUAL, {1, 3, 3}},
    {"the leftover goes where it is done first",
     2,
     {10, 1.9},
     {ANY, ANY},
     10,
     CCL_BALANCE_MAKESPAN,
     {9, 1}},
    {"in proportion 8.40 and 1.60", 2, {10, 1.9}, {ANY, ANY}, 10, CCL_BALANCE_REMAINDER, {8, 2}},
    {"nothing to do", 2, {1, 2}, {ANY, ANY}, 0, CCL_BALANCE_REMAINDER, {0, 0}},
};

START_TEST(test_splits) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(splits); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        uint64_t got[5] = {0};

        ck_assert_msg(ccl_balance(splits[i].speeds, splits[i].most, splits[i].n, splits[i].total,
                                  splits[i].rule, got, &err) == CCL_OK,
                      "%s: %s", splits[i].why, err.text);
        for (uint32_t w = 0; w < splits[i].n; w++)
            ck_assert_msg(got[w] == splits[i].want[w], "%s: worker %u has %llu, not %llu",
                          splits[i].why, w, (unsigned long long)got[w],
                          (unsigned long long)splits[i].want[w]);
    }
}
END_TEST

START_TEST(test_refused) {
    static const double speeds[] = {1, 2}, bad[] = {1, 0};
    static const uint64_t most[] = {3, 4};
    ccl_error_t err = CCL_ERROR_INIT;
    uint64_t out[2];

    ck_assert_int_eq(ccl_balance(speeds, most, 2, 8, CCL_BALANCE_REMAINDER, out, &err),
                     CCL_INFEASIBLE);
    ck_assert_ptr_nonnull(strstr(err.text, "room for 7"));
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_balance(bad, NULL, 2, 8, CCL_BALANCE_REMAINDER, out, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "worker 1 has speed 0"));
    ccl_error_clear(&err);
    ck_assert_int_eq(ccl_balance(speeds, NULL, 0, 8, CCL_BALANCE_REMAINDER, out, &err),
                     CCL_ERR_INPUT);
    ccl_error_clear(&err);
    ck_assert_int_eq(
        ccl_balance(speeds, NULL, 2, UINT64_C(1) << 32, CCL_BALANCE_REMAINDER, out, &err),
        CCL_ERR_INPUT);
}
END_TEST

RUN_TESTS(test_splits, test_refused)
