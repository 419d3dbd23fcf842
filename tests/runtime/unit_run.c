/* Runs on the host: every collective, type, reduction, granularity; results and times. */
#include "common.h"

static const char *const spec = "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us";

START_TEST(test_collectives) {
    static const char *const with[CCL_CUSTOM] = {"ring", "ring",   "ring",   "direct", "tree",
                                                 "tree", "direct", "direct", "direct"};
    ccl_program_t *p = program_of(with[_i], (ccl_collective_kind_t)_i, spec, NULL);
    for (uint32_t type = 0; type < CCL_TYPES; type++) {
        for (uint32_t op = 0; op < CCL_REDUCTIONS; op++) {
            ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
            o.size_bytes = 1 << 16;
            o.type = (ccl_type_t)type;
            o.op = (ccl_reduction_t)op;
            o.repeats = 2;
            o.warmups = 0;
            o.batches = 1 + op;
            ccl_run_result_t *r = run_right(p, &o, ccl_collective_kind_name(p->coll->kind));
            ck_assert_uint_gt(r->checked_items, 0);
            ck_assert_double_gt(r->min_s, 0);
            ck_assert_double_le(r->min_s, r->median_s);
            ccl_run_result_destroy(r);
        }
    }
    ccl_program_destroy(p);
}
END_TEST

/*
 * Two shares that the verifier takes for one get one number of items, also where rounding up would
 * part them: 1000 items, but for the 1e-9 that is left to rounding.
 */
START_TEST(test_sizes) {
    static const double shares[][2] = {{1, 1}, {1, 1 + 5e-10}, {1 + 5e-10, 1}, {1 - 5e-10, 1}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(shares); i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_program_t *p = NULL;
        ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
        ccl_program_builder_t *b =
            ccl_program_builder_create("sizes", collective(CCL_SENDRECV, 2, 0), 1, "Simple");
        ccl_program_builder_place(b, false, true, 0, 0);
        for (uint32_t r = 0; r < 2; r++) {
            ccl_step_t step = {.dep_tb = CCL_NONE, .dep_step = CCL_NONE, .count = 1};
            for (uint32_t k = 0; k < 2; k++) {
                ccl_program_builder_buffer(b, r, (ccl_buffer_t)k, 1);
                ccl_program_builder_shares(b, r, (ccl_buffer_t)k, &shares[i][k]);
            }
            ccl_program_builder_shares(b, r, CCL_BUF_SCRATCH, NULL);
            uint32_t tb = ccl_program_builder_tb(b, r, 1 - r, 1 - r, 0);
            step.type = CCL_PRIM_S;
            step.src_buf = step.dst_buf = CCL_BUF_INPUT;
            ccl_program_builder_step(b, tb, step);
            step.type = CCL_PRIM_R;
            step.src_buf = step.dst_buf = CCL_BUF_OUTPUT;
            ccl_program_builder_step(b, tb, step);
        }
        ck_assert_msg(ccl_program_builder_finish(b, &p, &err) == CCL_OK, "%s", err.text);
        o.type = CCL_TYPE_FP32;
        for (uint32_t k = 0; k <= 20; k++) {
            o.size_bytes = 4000 * (1 + 1e-10 * k);
            ccl_run_result_t *r = run_right(p, &o, "sizes");
            ck_assert_uint_eq(r->checked_items % 2, 0);
            ccl_run_result_destroy(r);
        }
        ccl_program_destroy(p);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.runtime.run");
    TCase *tcase = tcase_create("run");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_collectives, 0, CCL_CUSTOM);
    tcase_add_test(tcase, test_sizes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
