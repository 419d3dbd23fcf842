/* Passes of the race of sketch, each with a cluster where it gains at least 1.7 %. */
#include "passes.h"
#include "tests/base/nightly.h"

static const pass_row_t rows[] = {
    {"four channels", "sketch", "mi300x-x8", NULL, CCL_ALLGATHER, 1 << 28, 805},
    {"four channels, the best estimate", "sketch", "hetccl-snu", "fail:gpu:1", CCL_ALLGATHER,
     1 << 20, 114.7},
    {"more channels", "sketch", "mi300x-x8", NULL, CCL_ALLGATHER, 1 << 28, 773},
    {"two channels", "sketch", "dgx-a100", NULL, CCL_ALLREDUCE, 1 << 17, 27.2},
    {"two channels, the second mix", "sketch", "resccl-topo1", "scale:bandwidth:net=2",
     CCL_ALLGATHER, 1 << 20, 40.3},
    {"eight times the pieces", "sketch", "w7800-x4", NULL, CCL_REDUCESCATTER, 1 << 25, 1142},
    {"32 times the pieces", "sketch", "heteccl-h20-4x3", "scale:bandwidth:net=2", CCL_REDUCE,
     1 << 28, 1700},
    {"more cuts", "sketch", "servers:1 gpus:8 xgmi=mesh,20GB/s,1us", NULL, CCL_ALLREDUCE, 1 << 17,
     3.27},
    {"fewer cuts", "sketch", "h800-x4", NULL, CCL_REDUCESCATTER, 1 << 23, 52.9},
    {"cuts, a step without gain", "sketch",
     "servers:3 gpus:3 nvswitch=100GB/s,2us nics:1x5GB/s,9us", NULL, CCL_ALLREDUCE, 1 << 16, 36.5},
    {"cuts, two mixes", "sketch", "servers:6 gpus:2 nvlink=mesh,100GB/s,1us nics:1x50GB/s,9us",
     NULL, CCL_BROADCAST, 1 << 18, 31.2},
    {"cuts, the fastest in either order", "sketch", "heteccl-v100-4x3", NULL, CCL_REDUCE, 1 << 16,
     42.7},
    {"more than one order", "sketch", "servers:4 gpus:2 xgmi=mesh,100GB/s,0us nics:2x12GB/s,5us",
     "fail:gpu:0", CCL_ALLREDUCE, 1 << 14, 11.83},
    {"four orders", "sketch",
     "servers:5 gpus:2 nvswitch=300GB/s,0us nics:2x12GB/s,5us fabric=rail,spine", NULL,
     CCL_ALLREDUCE, 1 << 17, 15.34},
    {"mirrored orders", "sketch", "h20-x4", NULL, CCL_ALLREDUCE, 1 << 22, 34.9},
    {"lines", "sketch", "resccl-topo1", NULL, CCL_REDUCE, 1 << 18, 49.95},
    {"a line over four channels", "sketch", "profiled:resccl-topo1", NULL, CCL_ALLGATHER, 1 << 27,
     1641},
    {"flow", "sketch", "servers:2 gpus:4 nvswitch=100GB/s,0us nics:4x25GB/s,9us fabric=rail,spine",
     NULL, CCL_REDUCE, 1 << 20, 20.75},
    {"flow of balanced mixes", "sketch",
     "servers:4 gpus:3 nvlink=mesh,100GB/s,0.7us nics:2x12.5GB/s,2us fabric=rail,spine",
     "fail:gpu:5", CCL_REDUCE, 1 << 17, 22},
    {"flow in fewer pieces", "sketch", "servers:6 gpus:3 nvswitch=20GB/s,2us nics:3x100GB/s,0us",
     NULL, CCL_REDUCE, 1 << 20, 13.15},
    {"apart in twice the cuts", "sketch", "dgx-b300", NULL, CCL_BROADCAST, 1 << 30, 1255},
    {"other shapes", "sketch", "profiled:resccl-topo1", "fail:gpu:4", CCL_ALLGATHER, 1 << 19, 57},
    {"lowered before the choice", "sketch", "nd-a100-v4", NULL, CCL_ALLREDUCE, 1 << 23, 80.2},
};

/* Seconds each. */
static const pass_row_t large[] = {
    {"flow in more pieces", "sketch", "servers:6 gpus:8 nvswitch=20GB/s,2us nics:3x100GB/s,0us",
     NULL, CCL_REDUCE, 1 << 22, 113},
};

START_TEST(test_gains) {
    check_pass(&rows[_i]);
}
END_TEST

START_TEST(test_large) {
    check_pass(&large[_i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.sketch_passes");
    TCase *tcase = tcase_create("sketch_passes");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_gains, 0, SANITIZED ? 6 : (int)CCL_ARRAY_LEN(rows));
    tcase_add_loop_test(tcase, test_large, 0, nightly() ? (int)CCL_ARRAY_LEN(large) : 0);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
