/*
 * What GPUs run (runtime/gpu/blocks.h), on threads of the host (gpublocks.c): random programs in
 * all types, reductions and granularities, timed blocks, and a program that hangs.
 */
#include "random_programs.h"
#include "tests/base/nightly.h"

/* Two threads per block: large programs would only wait for each other. */
enum { MOST_BLOCKS = 24 };
/* At least, and until every type was there with every reduction. */
#define PROGRAMS (nightly() ? 80u : SANITIZED ? 18u : 36u)

START_TEST(test_random) {
    ccl_rng_t rng;
    random_world_t world;
    uint32_t seen[CCL_TYPES][CCL_REDUCTIONS] = {0}, unseen = CCL_TYPES * CCL_REDUCTIONS;
    setenv("CCL_DEVICE_PATH", FAKE_GPU, 1);
    ccl_rng_init(&rng, 23);
    random_world_init(&world);
    for (uint32_t done = 0, tried = 0; done < PROGRAMS || unseen > 0; tried++) {
        ck_assert_uint_lt(tried, 1000);
        random_case_t c = {0};
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_run_result_t *r = NULL;
        if (!random_case(&rng, &world, &c))
            continue;
        c.options.device = "cuda";
        c.options.type = (ccl_type_t)(tried % CCL_TYPES);
        c.options.op = (ccl_reduction_t)(tried / CCL_TYPES % CCL_REDUCTIONS);
        c.options.block_times = tried % 3 == 0;
        if (c.program->ntbs <= MOST_BLOCKS) {
            ccl_status_t status = ccl_run_program(NULL, c.program, &c.options, &r, &err);
            ck_assert_msg(status == CCL_OK || foreseen(status, &err), "%s: %s", c.what, err.text);
            if (status == CCL_OK) {
                ck_assert_uint_gt(r->checked_items, 0);
                unseen -= seen[c.options.type][c.options.op]++ == 0;
                done++;
            }
        }
        ccl_run_result_destroy(r);
        ccl_program_destroy(c.program);
    }
    random_world_fini(&world);
}
END_TEST

/* Slices of several tiles, of which the first is sent while the next comes. */
START_TEST(test_tiles) {
    static const char *const with[] = {"ring", "direct", "tree"};
    static const ccl_collective_kind_t kinds[] = {CCL_ALLREDUCE, CCL_ALLTOALL, CCL_BROADCAST};
    ccl_program_t *p = program_of(with[_i], kinds[_i], random_specs[0], NULL);
    setenv("CCL_DEVICE_PATH", FAKE_GPU, 1);
    for (ccl_run_protocol_t k = CCL_RUN_SIMPLE; k <= CCL_RUN_LL128; k++) {
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        o.device = "cuda";
        o.protocol = k;
        o.size_bytes = 300001;
        o.type = (ccl_type_t)((_i + k) % CCL_TYPES);
        o.repeats = 2;
        o.warmups = 0;
        ccl_run_result_t *r = run_right(p, &o, with[_i]);
        ck_assert_int_eq(r->protocol, k);
        ccl_run_result_destroy(r);
    }
    ccl_program_destroy(p);
}
END_TEST

START_TEST(test_times) {
    ccl_program_t *p = program_of("ring", CCL_ALLREDUCE, random_specs[0], NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    setenv("CCL_DEVICE_PATH", FAKE_GPU, 1);
    o.device = "cuda";
    o.size_bytes = 1 << 20;
    o.repeats = 2;
    o.block_times = true;
    ccl_run_result_t *r = run_right(p, &o, "timed");
    uint64_t slices = 0;
    ck_assert(r->min_s > 0);
    for (uint32_t t = 0; t < r->ntbs; t++) {
        ck_assert(r->blocks[t].busy_s > 0);
        slices += r->blocks[t].slices;
    }
    ck_assert_uint_ge(slices, r->transfers);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

/* What the watchdog tells of blocks that wait on a GPU. */
START_TEST(test_hang) {
    ccl_program_t *p = stuck();
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    setenv("CCL_DEVICE_PATH", FAKE_GPU, 1);
    o.device = "cuda";
    o.size_bytes = 4096;
    o.no_static_check = true;
    o.watchdog_s = 0.3;
    o.protocol = (ccl_run_protocol_t)_i;
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_DEADLOCK);
    ck_assert_msg(strstr(err.text, "nothing moved for 0.3 s"), "%s", err.text);
    ck_assert_ptr_nonnull(r->deadlock);
    ck_assert_uint_eq(r->deadlock->stuck, 2);
    ck_assert_uint_eq(r->deadlock->nwaits, 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(r->deadlock->waits[i].wait, CCL_WAIT_DATA);
        ck_assert_uint_eq(r->deadlock->waits[i].on_rank, 1 - r->deadlock->waits[i].rank);
    }
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prop.runtime.gpublocks");
    TCase *tcase = tcase_create("gpublocks");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, test_random);
    tcase_add_loop_test(tcase, test_tiles, 0, 3);
    tcase_add_test(tcase, test_times);
    tcase_add_loop_test(tcase, test_hang, CCL_RUN_SIMPLE, CCL_RUN_LL128 + 1);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
