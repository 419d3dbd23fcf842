/* Network profiles after HetCCL (Peking University and BAAI), section 6.1.1: which of NCCL's,
   HetCCL's and Gloo's way is fastest at which size, and by how much they were fitted to differ. */
#include <stdlib.h>

#include "search/compare/compare.h"
#include "tests/topologies/topologies.h"
#include "validate/validate.h"

/* SendRecv between the A800 and the HW-3 of rank 8, seconds. */
static double send_s(const char *name, double size_bytes) {
    ccl_topology_t *whole = NULL, *pair = NULL, *topo = NULL;
    ccl_profile_t *profile = NULL;
    ccl_collective_t *coll = NULL;
    ccl_comparison_t *found = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    bool keep[16] = {[0] = true, [8] = true};
    static const ccl_contender_t direct = {.name = "direct"};
    ccl_compare_options_t options = {.size = sizeof options,
                                     .contenders = &direct,
                                     .ncontenders = 1,
                                     .sizes_bytes = &size_bytes,
                                     .nsizes = 1,
                                     .synth = CCL_SYNTH_OPTIONS_INIT,
                                     .lower = CCL_LOWER_OPTIONS_INIT,
                                     .sim = CCL_SIM_OPTIONS_INIT};
    double time_s;

    whole = topology("hetccl-pku-a800+hw3");
    ck_assert_msg(ccl_topology_keep(whole, keep, &pair, &err) == CCL_OK, "%s", err.text);
    ck_assert_uint_eq(pair->nranks, 2);
    ck_assert_str_eq(pair->devices[pair->rank_device[1]].id, "s1/gpu0");
    ck_assert_msg(ccl_profile_read(name, &profile, &err) == CCL_OK, "%s", err.text);
    ck_assert_msg(ccl_profile_apply(NULL, profile, pair, &topo, &err) == CCL_OK, "%s", err.text);
    ck_assert_int_eq(ccl_collective_create(CCL_SENDRECV, 2, 1, 0, &coll, NULL), CCL_OK);
    ck_assert_msg(ccl_compare(NULL, topo, coll, &options, &found, &err) == CCL_OK, "%s", err.text);
    time_s = found->cells[0].time_s;
    ccl_comparison_destroy(found);
    ccl_collective_destroy(coll);
    ccl_profile_destroy(profile);
    ccl_topology_destroy(topo);
    ccl_topology_destroy(pair);
    ccl_topology_destroy(whole);
    return time_s;
}

START_TEST(test_latency) {
    ck_assert_double_eq_tol(send_s("net-nccl", 8), 0.05e-3, 1e-6);
    ck_assert_double_eq_tol(send_s("net-hetccl", 8), 0.10e-3, 1e-6);
    ck_assert_double_eq_tol(send_s("net-gloo", 8), 1.73e-3, 0.01e-3);
}
END_TEST

START_TEST(test_bandwidth) {
    double size_bytes = 1073741824;
    double nccl_s = send_s("net-nccl", size_bytes), hetccl_s = send_s("net-hetccl", size_bytes);
    double gloo_s = send_s("net-gloo", size_bytes);

    ck_assert_double_eq_tol(nccl_s / hetccl_s, 1.104, 0.002);
    ck_assert_double_gt(gloo_s / hetccl_s, 6);
    ck_assert_double_lt(gloo_s / hetccl_s, 6.4);
    /* In between: at 1 MiB the lower latency still wins. */
    ck_assert_double_lt(send_s("net-nccl", 1048576), send_s("net-hetccl", 1048576));
}
END_TEST

RUN_TESTS(test_latency, test_bandwidth)
