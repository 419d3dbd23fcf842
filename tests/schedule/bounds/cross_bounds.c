/* Bounds of the peers' topologies: ForestColl's optima as fractions, and how long they take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schedule/schedule.h"
#include "tests/topologies/topologies.h"

/* AllGather, GB/s = num / den. ForestColl (arXiv 2402.06787), its own code on these topologies. */
static const struct {
    const char *name;
    uint64_t num, den;
    double most_s; /* a generous limit: sanitizers and busy machines */
} rows[] = {
    {"dgx1_v100_8", 1200, 7, 1},
    {"ndv2_2x8", 25, 1, 1},
    {"ndv2_4x8", 50, 3, 1},
    {"dgx2_2x16", 4000, 31, 1},
    {"mi250_1x16", 2400, 7, 1},
    {"mi250_2x16", 5312, 15, 1},
    {"a100_2x8", 1040, 3, 1},
    {"a100_4x8", 800, 3, 1},
    {"a100_8x8", 1600, 7, 5},
    {"mesh_4x4", 320, 3, 1},
    {"torus_4x4", 640, 3, 1},
    {"mesh_8x8", 6400, 63, 5},
    {"torus_8x8", 12800, 63, 5},
    {"mesh_16x16", 5120, 51, 20},
    {"heteccl_h20_4+8", 300, 1, 1},
    {"heteccl_h20_4x2+8", 800, 3, 1},
    {"heteccl_h20_4x3", 300, 1, 1},
    {"heteccl_h20_4x3+8", 250, 1, 1},
    {"heteccl_h20_8x2+4", 250, 1, 1},
    {"heteccl_v100_4+8", 48, 1, 1},
    {"heteccl_v100_4x2+8", 128, 3, 1},
    {"heteccl_v100_4x3", 48, 1, 1},
    {"heteccl_v100_4x3+8", 40, 1, 1},
    {"heteccl_v100_4x2+8x2", 192, 5, 1},
    {"syccl_a100_16", 200, 1, 1},
    {"syccl_a100_32", 400, 3, 1},
    {"syccl_h800_64", 14720, 63, 5},
};

static bool same(ccl_fraction_t Bps, uint64_t num, uint64_t den) {
    return (unsigned __int128)Bps.num * den == (unsigned __int128)num * 1000000000u * Bps.den;
}

static ccl_bound_t bound_of(const ccl_topology_t *t, ccl_collective_kind_t kind) {
    ccl_collective_t *coll = NULL;
    ccl_bound_t bound;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(kind, t->nranks, 1, 0, &coll, &err), CCL_OK);
    ccl_status_t status = ccl_bound(NULL, t, coll, NULL, &bound, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", t->name, err.text);
    ccl_collective_destroy(coll);
    return bound;
}

START_TEST(optima) {
    char path[500];
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *t = NULL;
        snprintf(path, sizeof path, "%s/peers/topologies/%s.json", CCLLAB_DATA_DIR, rows[i].name);
        t = topology(path);
        double start = ccl_now_s();
        ccl_bound_t b = bound_of(t, CCL_ALLGATHER);
        ck_assert_msg(ccl_now_s() - start < rows[i].most_s, "%s takes too long", rows[i].name);
        ck_assert_msg(same(b.bandwidth.exact_Bps, rows[i].num, rows[i].den),
                      "%s: %.12g GB/s, not %.12g", rows[i].name, b.bandwidth.Bps / 1e9,
                      (double)rows[i].num / (double)rows[i].den);
        ck_assert_msg(b.bandwidth.tight, "%s", rows[i].name);
        ccl_bandwidth_bound_t gather = b.bandwidth;
        ccl_bound_t s = bound_of(t, CCL_REDUCESCATTER);
        ck_assert_msg(fabs(s.bandwidth.Bps / gather.Bps - 1) < 1e-12,
                      "%s: links are alike both ways, ReduceScatter is not", rows[i].name);
        ccl_bound_fini(&b);
        ccl_bound_fini(&s);
        ccl_topology_destroy(t);
    }
}
END_TEST

/* AllToAll where the answer is known: TE-CCL's cut bound of DGX-1, one NIC a GPU. */
START_TEST(pairs) {
    static const struct {
        const char *name;
        double GBps;
        const char *why;
    } pairs[] = {
        {"a100_8x8", 200.0 / 7, "56 of 64 blocks leave over one NIC of 25 GB/s a GPU"},
        {"syccl_h800_64", 400.0 / 7, "the same with 50 GB/s"},
        {"mesh_4x4", 50, "half of it crosses the middle: 4 links of 50 GB/s"},
        {"torus_8x8", 50, "half of it crosses two middles: 16 links of 50 GB/s"},
    };
    char path[500];
    for (size_t i = 0; i < CCL_ARRAY_LEN(pairs); i++) {
        ccl_topology_t *t = NULL;
        snprintf(path, sizeof path, "%s/peers/topologies/%s.json", CCLLAB_DATA_DIR, pairs[i].name);
        t = topology(path);
        ccl_bound_t b = bound_of(t, CCL_ALLTOALL);
        ck_assert_msg(fabs(b.bandwidth.Bps / 1e9 / pairs[i].GBps - 1) < 1e-9, "%s: %.12g: %s",
                      pairs[i].name, b.bandwidth.Bps / 1e9, pairs[i].why);
        ck_assert(b.bandwidth.tight);
        ccl_bound_fini(&b);
        ccl_topology_destroy(t);
    }
}
END_TEST

/* 512 GPUs of the library: 511 blocks over 180 + 50 GB/s. */
START_TEST(large) {
    ccl_topology_t *t = topology("syccl-h800-512");
    ccl_bound_t b = bound_of(t, CCL_ALLGATHER);
    ck_assert(same(b.bandwidth.exact_Bps, 230 * 512, 511));
    ccl_bound_fini(&b);
    ccl_topology_destroy(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bounds");
    TCase *tc = tcase_create("bounds");
    tcase_set_timeout(tc, 110);
    if (access(CCLLAB_DATA_DIR "/peers/topologies", R_OK) == 0) {
        tcase_add_test(tc, optima);
        tcase_add_test(tc, pairs);
    }
    tcase_add_test(tc, large);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
