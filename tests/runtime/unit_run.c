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

int main(void) {
    Suite *suite = suite_create("unit.runtime.run");
    TCase *tcase = tcase_create("run");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_collectives, 0, CCL_CUSTOM);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
