/* Passes of the race of sketch, each with a cluster where it gains at least 2 %. */
#include "passes.h"

static const pass_row_t rows[] = {
    {"four channels", "sketch", "mi300x-x8", NULL, CCL_ALLGATHER, 1 << 28, 805},
    {"more channels", "sketch", "mi300x-x8", NULL, CCL_ALLGATHER, 1 << 28, 773},
    {"two channels", "sketch", "dgx-a100", NULL, CCL_ALLREDUCE, 1 << 17, 27.2},
    {"more cuts", "sketch", "servers:1 gpus:8 xgmi=mesh,20GB/s,1us", NULL, CCL_ALLREDUCE, 1 << 17,
     3.27},
};

START_TEST(test_gains) {
    check_pass(&rows[_i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.sketch_passes");
    TCase *tcase = tcase_create("sketch_passes");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_gains, 0, (int)CCL_ARRAY_LEN(rows));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
