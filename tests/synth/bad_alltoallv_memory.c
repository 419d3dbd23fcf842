/*
 * The planner that is kept: once it has its size, plans of the same or fewer blocks allocate
 * nothing; and where an allocation fails, a plan is refused, nothing leaks, and the next one is
 * right. malloc and friends are wrapped by the linker.
 */
#include "common.h"

#include "tests/base/failing_malloc.h"

static const struct {
    const char *spec;
    bool searched;
} rows[] = {
    {"dgx-h100*4", false},
    {"h20-x4*2+h20-x8", false},
    {"mi300x-x8*2", true},
    {"dgx1-v100", true},
    {"servers:3 gpus:8 nvswitch=200GB/s nics:4x25GB/s", false},
};

/* kind 0: all blocks differ; 1: fewer blocks; 2: the first again, a little changed. */
static void fill(double *m, uint32_t n, uint32_t kind, uint64_t seed) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, seed);
    for (size_t i = 0; i < (size_t)n * n; i++) {
        double u = ccl_rng_unit(&rng);
        m[i] = kind == 1 && u < 0.3 ? 0 : 1e6 / (u + 0.003) * (kind == 2 && i % 7 == 0 ? 1.01 : 1);
    }
}

/* Allocations of a plan; none fails. */
static long allocations(ccl_alltoallv_t *p, const double *m, ccl_alltoallv_report_t *r) {
    const ccl_schedule_t *s = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    const long most = 1L << 40;
    fail_in = most;
    armed = true;
    ccl_status_t status = ccl_alltoallv_plan(p, m, 0, &s, r, &err);
    armed = false;
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    return most - fail_in;
}

START_TEST(plans_of_a_like_size_allocate_nothing) {
    ccl_topology_t *topo = topology(rows[_i].spec);
    uint32_t n = topo->nranks;
    double *m = calloc((size_t)n * n, sizeof *m);
    ccl_alltoallv_t *p = NULL;
    ccl_alltoallv_report_t r;
    bool searched = false;
    ck_assert(ccl_alltoallv_create(NULL, topo, NULL, &p, NULL) == CCL_OK);
    fill(m, n, 0, 1);
    ck_assert_int_gt(allocations(p, m, &r), 0);
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (uint32_t kind = 0; kind < 3; kind++) {
            fill(m, n, kind, 1);
            if (turn == 2)
                ccl_alltoallv_forget(p);
            long count = allocations(p, m, &r);
            searched |= r.searched;
            ck_assert_msg(turn == 0 || count == 0, "%s: turn %u, matrix %u: %ld allocations",
                          rows[_i].spec, turn, kind, count);
        }
    }
    ck_assert(searched == rows[_i].searched);
    ccl_alltoallv_destroy(p);
    free(m);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(every_allocation_may_fail) {
    ccl_topology_t *topo = topology(rows[_i].spec);
    uint32_t n = topo->nranks;
    double *m = calloc((size_t)n * n, sizeof *m);
    fill(m, n, 0, 1);
    for (long at = 0;; at++) {
        ccl_alltoallv_t *p = NULL;
        const ccl_schedule_t *s = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_verdict_t verdict;
        ck_assert(ccl_alltoallv_create(NULL, topo, NULL, &p, NULL) == CCL_OK);
        fail_in = at;
        armed = true;
        ccl_status_t status = ccl_alltoallv_plan(p, m, 0, &s, NULL, &err);
        bool struck = fail_in < 0;
        armed = false;
        ck_assert(status == (struck ? CCL_ERR_NOMEM : CCL_OK));
        ck_assert(ccl_alltoallv_plan(p, m, 0, &s, NULL, &err) == CCL_OK);
        ck_assert(ccl_schedule_verify(NULL, s, &verdict, &err) == CCL_OK && verdict.valid);
        ccl_alltoallv_destroy(p);
        if (!struck)
            break;
    }
    free(m);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad.synth.alltoallv_memory");
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, plans_of_a_like_size_allocate_nothing, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_loop_test(tcase, every_allocation_may_fail, 2, 4);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
