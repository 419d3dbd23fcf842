/* What blocks and links of a run were used for, from results made by hand. */
#include "sim/sim.h"
#include "tests/base/main.h"

#include <stdlib.h>

/* Rank 0 has two blocks, rank 1 one. */
static ccl_tb_t tbs[] = {{.rank = 0, .id = 0, .first_step = 0, .nsteps = 1},
                         {.rank = 0, .id = 1, .first_step = 1, .nsteps = 1},
                         {.rank = 1, .id = 0, .first_step = 2, .nsteps = 3}};
static ccl_step_t steps[] = {{.stage = 0}, {.stage = 0}, {.stage = 0}, {.stage = 1}, {.stage = 2}};
static uint32_t rank_first_tb[] = {0, 2, 3};
static const ccl_program_t program = {.nranks = 2,
                                      .ntbs = 3,
                                      .nsteps = 5,
                                      .tbs = tbs,
                                      .steps = steps,
                                      .rank_first_tb = rank_first_tb};

START_TEST(test_blocks) {
    /* Idle 1/2, 1/4, 3/4; the second block lives longest, which does not weigh. */
    ccl_tb_use_t uses[] = {{0, 4, 2, 1, 0.5, 0.5}, {0, 100, 75, 25, 0, 0}, {2, 6, 1, 0, 1, 2}};
    ccl_link_use_t links[] = {{10, 0.5}, {0, 0}, {30, 1}};
    ccl_sim_result_t result = {.ntbs = 3, .tbs = uses, .nlinks = 3, .links = links};
    ccl_sim_usage_t usage;
    ccl_sim_usage(&program, &result, &usage);
    ck_assert_uint_eq(usage.thread_blocks, 2);
    ck_assert_double_eq_tol(usage.comm_share, 0.5, 1e-15);
    ck_assert_double_eq_tol(usage.mean_idle_share, 0.5, 1e-15);
    ck_assert_double_eq_tol(usage.max_idle_share, 0.75, 1e-15);
    ck_assert_double_eq_tol(usage.link_utilization, 0.75, 1e-15); /* the idle link does not count */
}
END_TEST

START_TEST(test_stages) {
    /* At stage level each stage is a block: the sums of the blocks are not looked at. */
    ccl_tb_use_t sums[3] = {{0}};
    ccl_stage_use_t stages[] = {{0, 0, {0, 2, 2, 0, 0, 0}},
                                {1, 0, {0, 2, 1, 1, 0, 0}},
                                {2, 0, {0, 2, 2, 0, 0, 0}},
                                {2, 1, {0, 4, 1, 0, 3, 0}},
                                {2, 2, {0, 2, 2, 0, 0, 0}}};
    ccl_sim_result_t result = {.ntbs = 3, .tbs = sums, .stages = stages, .nstages = 5};
    ccl_sim_usage_t usage;
    ccl_sim_usage(&program, &result, &usage);
    ck_assert_uint_eq(usage.thread_blocks, 3);
    ck_assert_double_eq_tol(usage.mean_idle_share, 0.25, 1e-15);
    ck_assert_double_eq_tol(usage.comm_share, 0.75, 1e-15);
    ck_assert_double_eq_tol(usage.max_idle_share, 0.75, 1e-15);
    ck_assert_double_eq(usage.link_utilization, 0); /* no links: nothing carried */
}
END_TEST

START_TEST(test_never_lived) {
    ccl_tb_use_t uses[] = {{0, 0, 0, 0, 0, 0}, {0, 2, 1, 1, 0, 0}, {5, 5, 0, 0, 0, 0}};
    ccl_sim_result_t result = {.ntbs = 3, .tbs = uses};
    ccl_sim_usage_t usage;
    ck_assert_double_eq(ccl_sim_idle_share(&uses[0]), 0);
    ccl_sim_usage(&program, &result, &usage);
    ck_assert_double_eq(usage.mean_idle_share, 0.5);
    ck_assert_uint_eq(usage.thread_blocks, 2);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("usage");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, test_blocks);
    tcase_add_test(tcase, test_stages);
    tcase_add_test(tcase, test_never_lived);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
