/*
 * Out of memory at every allocation in turn, in one process and in several: an error and nothing
 * leaked, or a run that is right all the same. malloc and friends are wrapped by the linker.
 */
#include "common.h"

#include "tests/base/failing_malloc.h"

static const struct {
    ccl_run_ranks_t ranks;
    ccl_run_transport_t transport;
    ccl_granularity_t granularity;
    long step;
} rows[] = {
    {CCL_RANKS_THREADS, CCL_RUN_SHM, CCL_GRANULARITY_ALGORITHM, 1},
    {CCL_RANKS_THREADS, CCL_RUN_SHM, CCL_GRANULARITY_STAGE, 1},
    {CCL_RANKS_PROCESSES, CCL_RUN_SHM, CCL_GRANULARITY_ALGORITHM, 3},
    {CCL_RANKS_PROCESSES, CCL_RUN_TCP, CCL_GRANULARITY_ALGORITHM, 3},
};

START_TEST(test_every_allocation) {
    ccl_program_t *p =
        program_of("ring", CCL_ALLREDUCE, "servers:1 gpus:3 nvswitch=3GB/s,1us", NULL);
    for (long n = 0;; n += rows[_i].step) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        ccl_run_result_t *r = NULL;
        o.size_bytes = 1000;
        o.ranks = rows[_i].ranks;
        o.transport = rows[_i].transport;
        o.granularity = rows[_i].granularity;
        o.repeats = 1;
        o.warmups = 0;
        o.block_times = true;
        o.threads = 1; /* so that all allocations are this thread's */
        fail_in = n;
        armed = true;
        ccl_status_t status = ccl_run_program(NULL, p, &o, &r, &err);
        bool struck = fail_in < 0;
        armed = false;
        /* Children are out of memory too: some of them end, some tell. */
        ck_assert_msg(status == CCL_OK || status == CCL_ERR_NOMEM || status == CCL_ERR_IO,
                      "allocation %ld: %s %s", n, ccl_status_name(status), err.text);
        ck_assert(status != CCL_OK || r->checked_items > 0);
        ck_assert(status == CCL_OK || err.text[0]);
        ccl_run_result_destroy(r);
        if (!struck && status == CCL_OK) { /* nor was a child, which may allocate more */
            ck_assert_int_gt(n, 40);
            break;
        }
        ck_assert_int_lt(n, 2000);
    }
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad.runtime.memory");
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_every_allocation, 0, (int)CCL_ARRAY_LEN(rows));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
