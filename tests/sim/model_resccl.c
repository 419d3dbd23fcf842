/*
 * ResCCL's equations 2 to 6 (SIGCOMM 2025, section 3) as closed forms of the model, and the time
 * stamps of steps and stages that allocation works from.
 *
 * Link 0 -> 1 carries two tasks a micro-batch; the second waits for an answer to the first, which
 * rank 1 sends back on link 1 -> 0. alpha is the transport's overhead, once per primitive at both
 * ends; c beta = C / B; latencies are 0, so that the bubble of the second task is
 * B2 = 3 alpha + c beta: receive, answer, receive.
 */
#include "tests/sim/small.h"

#define ALPHA 2e-6
#define C 1e6        /* bytes */
#define T (C / 10e9) /* c beta */
#define TASK (ALPHA + T)
#define BUBBLE (3 * ALPHA + T)

#define LINK "0-1:nvlink,10,0"
#define DEEP "\"nvlink\":{\"overhead\":\"2us\",\"slots\":100000}"
#define ANSWER "0>1: s1 s1@1.0 | 0<1: r1 | 1<0: r1 r1 | 1>0: s1@0.0"

static ccl_sim_result_t *run(const small_system_t *on, const char *text, uint32_t batches,
                             ccl_granularity_t granularity, ccl_program_t **program_out) {
    ccl_topology_t *topo = small_topology(on);
    ccl_program_t *program = small_program(text, topo->nranks, "Simple", NULL);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.batches = batches;
    options.size_bytes = 4 * C * batches;
    options.granularity = granularity;
    options.step_times = true;
    ck_assert_msg(ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err) == CCL_OK,
                  "%s", err.text);
    if (program_out)
        *program_out = program;
    else
        ccl_program_destroy(program);
    ccl_topology_destroy(topo);
    return result;
}

static double time_of(const small_system_t *on, const char *text, uint32_t batches,
                      ccl_granularity_t granularity) {
    ccl_sim_result_t *r = run(on, text, batches, granularity, NULL);
    double time_s = r->time_s;
    ccl_sim_result_destroy(r);
    return time_s;
}

static void same(double got_s, double want_s, const char *what) {
    ck_assert_msg(fabs(got_s - want_s) <= 1e-9 * want_s, "%s: %.12g us, expected %.12g us", what,
                  got_s * 1e6, want_s * 1e6);
}

/** T_algo = max over links of T_i: two links that never meet, n x 3 and n x 1 tasks. */
START_TEST(equation_2) {
    small_system_t on = {.links = LINK " 2-3:nvlink,10,0 1-2:nvlink,10,0", .transports = DEEP};
    for (uint32_t n = 1; n <= 5; n++)
        same(time_of(&on, "0>1: s1 s1 s1 | 1<0: r1 r1 r1 | 2>3: s1 | 3<2: r1", n,
                     CCL_GRANULARITY_ALGORITHM),
             n * 3 * TASK + ALPHA, "the longer link");
}
END_TEST

/** T_A = n sum_j (alpha + c beta + B_j), and the last receive's alpha. */
START_TEST(equation_3) {
    small_system_t on = {.links = LINK, .transports = DEEP};
    for (uint32_t n = 1; n <= 40; n += 3)
        same(time_of(&on, ANSWER, n, CCL_GRANULARITY_ALGORITHM), n * (2 * TASK + BUBBLE) + ALPHA,
             "algorithm level");
}
END_TEST

/**
 * T_S = max_k n sum_j [z_k (alpha + c beta) + gamma L(z_k) + B_j]: two stages on one link, alpha 0.
 * From the second micro-batch to the last but one both are busy: z = 2 flows that each could fill
 * the link, and kappa is the penalty: z c beta (1 + kappa (z - 1)), gamma L(z) = z (z - 1) kappa c
 * beta. The first and the last micro-batch of a stage run alone.
 */
START_TEST(equation_4) {
    static const double kappas[] = {0, 0.1, 0.5};
    for (size_t k = 0; k < CCL_ARRAY_LEN(kappas); k++) {
        char links[64];
        double kappa = kappas[k], z = 2;
        snprintf(links, sizeof links, "0-1:nvlink,10,0,%g", kappa);
        small_system_t on = {.links = links, .transports = "\"nvlink\":{\"slots\":100000}"};
        for (uint32_t n = 1; n <= 40; n += 3)
            same(time_of(&on, "0>1: s1/0 s1/1 | 1<0: r1/0 r1/1", n, CCL_GRANULARITY_STAGE),
                 2 * T + (n - 1) * (z * T + z * (z - 1) * kappa * T), "stage level");
    }
}
END_TEST

/** T_P = t_load + n m (alpha + c beta): with enough micro-batches no bubble is left. */
START_TEST(equation_5) {
    small_system_t on = {.links = LINK, .transports = DEEP};
    for (uint32_t n = 4; n <= 40; n += 3)
        same(time_of(&on, ANSWER, n, CCL_GRANULARITY_TASK), ALPHA + n * 2 * TASK, "task level");
    /* One micro-batch leaves nothing to hide the bubble behind. */
    same(time_of(&on, ANSWER, 1, CCL_GRANULARITY_TASK), 2 * TASK + BUBBLE + ALPHA, "one");
}
END_TEST

/**
 * Equation 6 prints the limit of T_A : T_P as the ratio of the bubbles alone, which here would be
 * infinite. The common term m (alpha + c beta) stays: the ratio tends to (2 TASK + BUBBLE) / 2
 * TASK.
 */
START_TEST(equation_6) {
    small_system_t on = {.links = LINK, .transports = DEEP};
    double a_s = time_of(&on, ANSWER, 4000, CCL_GRANULARITY_ALGORITHM);
    double p_s = time_of(&on, ANSWER, 4000, CCL_GRANULARITY_TASK);
    ck_assert_double_eq_tol(a_s / p_s, (2 * TASK + BUBBLE) / (2 * TASK), 1e-3);
}
END_TEST

START_TEST(step_times) {
    small_system_t on = {.links = LINK, .transports = DEEP};
    ccl_program_t *p;
    ccl_sim_result_t *r = run(&on, ANSWER, 10, CCL_GRANULARITY_TASK, &p);
    const ccl_tb_t *sender = &p->tbs[small_tb(p, "0.0")], *answer = &p->tbs[small_tb(p, "1.1")];
    same(r->step_start_s[sender->first_step] + 1, 1, "the first task starts at 0");
    same(r->step_end_s[sender->first_step], 10 * TASK, "and has run all micro-batches");
    same(r->step_start_s[sender->first_step + 1], 10 * TASK, "then the second");
    same(r->step_end_s[sender->first_step + 1], 20 * TASK, "without a gap");
    same(r->step_start_s[answer->first_step], TASK + ALPHA, "the answer follows the first one");
    same(r->step_end_s[answer->first_step], 10 * TASK + ALPHA + TASK, "to the last");
    ck_assert_ptr_null(r->stages);
    ccl_sim_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

START_TEST(stage_uses) {
    small_system_t on = {.links = LINK, .transports = "\"nvlink\":{\"slots\":100000}"};
    ccl_sim_result_t *r =
        run(&on, "0>1: s1/0 s1/1 | 1<0: r1/0 r1/1", 3, CCL_GRANULARITY_STAGE, NULL);
    ck_assert_uint_eq(r->nstages, 4);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(r->stages[i].tb, i / 2);
        ck_assert_uint_eq(r->stages[i].stage, i % 2);
    }
    /* alone, then two micro-batches at half the rate; the second stage one T later, the same */
    same(r->stages[0].use.busy_s, 5 * T, "the first stage's block is busy");
    same(r->stages[1].use.busy_s, 5 * T, "the second's too");
    same(r->stages[0].use.done_s, 5 * T, "and released early");
    same(r->stages[1].use.wait_peer_s, T, "it waited for the first stage's first micro-batch");
    ccl_sim_result_destroy(r);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model.sim.resccl");
    TCase *tcase = tcase_create("equations");
    tcase_add_test(tcase, equation_2);
    tcase_add_test(tcase, equation_3);
    tcase_add_test(tcase, equation_4);
    tcase_add_test(tcase, equation_5);
    tcase_add_test(tcase, equation_6);
    tcase_add_test(tcase, step_times);
    tcase_add_test(tcase, stage_uses);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
