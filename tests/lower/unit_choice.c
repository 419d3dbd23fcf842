/* Passes of lowering's choice, each with a cluster where it gains at least 2 %. */
#include "tests/synth/passes.h"

static const pass_row_t rows[] = {
    {"order given", "cegis",
     "servers:2 gpus:4 nvlink=ring,100GB/s,0us nics:2x25GB/s,9us fabric=rail,spine", NULL,
     CCL_REDUCESCATTER, 1 << 26, 699},
    {"order without followers", "recursive", "mi300x-x8", NULL, CCL_ALLTOALL, 1 << 14, 25},
    {"mirrored order, followers apart", "recursive", "h20-x4", NULL, CCL_REDUCESCATTER, 1 << 23,
     39.5},
    {"mirrored order with followers", "sketch",
     "servers:2 gpus:2 nvswitch=20GB/s,2us nics:2x100GB/s,0us", NULL, CCL_REDUCE, 1 << 17, 3.198},
    {"connections spread", "greedy", "servers:5 gpus:2 nvlink=mesh,50GB/s,0us nics:2x100GB/s,5us",
     NULL, CCL_ALLGATHER, 1 << 25, 210},
    {"order given, spread", "cegis", "v100-x4", NULL, CCL_REDUCESCATTER, 1 << 25, 221.5},
    {"parts", "packing", "dgx1-v100", NULL, CCL_BROADCAST, 1 << 29, 4600},
    {"ever more parts", "packing", "dgx1-v100", NULL, CCL_BROADCAST, 1 << 29, 4110},
    {"parts instead of spread connections", "hm", "profiled:resccl-topo2", NULL, CCL_REDUCESCATTER,
     1 << 29, 3923},
    {"parts of the order that is not mirrored", "hpds", "profiled:resccl-topo1", NULL,
     CCL_ALLREDUCE, 1 << 28, 7184},
    {"parts of the order given", "packing", "small:512:2", NULL, CCL_REDUCE, 1 << 23, 141},
};

START_TEST(test_gains) {
    check_pass(&rows[_i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.lower.choice");
    TCase *tcase = tcase_create("choice");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_gains, 0, (int)CCL_ARRAY_LEN(rows));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
