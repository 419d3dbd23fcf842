/*
 * Chunking: equation 1 of HeteCCL in closed form, rounded down and up; what a cluster becomes; and
 * the start-up penalty of its appendix K, measured in the simulator.
 */
#include "common.h"
#include "synth/cegis/chunking.h"

#include <math.h>

#define LEN(a_) (int)(sizeof(a_) / sizeof((a_)[0]))

static const struct {
    double tau_ref_s, alpha_s, Bps, bytes, gamma_s;
    uint32_t lanes, down, up;
    const char *why;
} fits[] = {
    {1e-3, 0, 8e9, 8e6, 0, 1, 1, 1, "the reference link itself"},
    {1e-3, 0, 12.5e9, 8e6, 0, 1, 1, 2, "1.56 chunks: the paper promises 2"},
    {2e-3, 0, 12.5e9, 8e6, 0, 1, 3, 4, "3.1 in a step twice as long"},
    {1e-3, 0, 50e9, 8e6, 0, 1, 6, 7, "6.25"},
    {1e-3, 0, 50e9, 8e6, 0, 2, 6, 8, "two lanes of 3.1"},
    {1e-3, 0, 4e9, 8e6, 0, 1, 1, 1, "never nothing"},
    {1.1e-3, 1e-4, 8e9, 8e6, 0, 1, 1, 1, "alpha once"},
    {2.1e-3, 1e-4, 8e9, 8e6, 0, 1, 2, 2, "chunks of a step share one alpha: 2, not 1.9"},
    {3e-3, 0, 8e9, 8e6, 1.25e-10, 1, 2, 2, "reducing takes a chunk's time once: 1.5 by equation 1"},
};

START_TEST(test_fit) {
    for (int up = 0; up < 2; up++) {
        uint32_t n = ccl_i_chunking_fit(fits[_i].tau_ref_s, fits[_i].alpha_s, fits[_i].Bps,
                                        fits[_i].lanes, fits[_i].bytes, fits[_i].gamma_s, up);
        ck_assert_msg(n == (up ? fits[_i].up : fits[_i].down), "%s: %u rounded %s", fits[_i].why, n,
                      up ? "up" : "down");
    }
}
END_TEST

static const ccl_chunk_capacity_t *row(const ccl_chunk_capacities_t *c, const char *what,
                                       double GBps) {
    for (uint32_t i = 0; i < c->nrows; i++) {
        if (strcmp(c->rows[i].what, what) == 0 && fabs(c->rows[i].rate_Bps - GBps * 1e9) < 1)
            return &c->rows[i];
    }
    ck_abort_msg("no %s of %g GB/s", what, GBps);
    return NULL;
}

START_TEST(test_v100_cluster) {
    /* 4-GPU servers have NICs of 8 GB/s, 8-GPU servers of 12.5 GB/s; PCIe 16, UPI 48, NVLink 50. */
    ccl_topology_t *topo = topology("heteccl-v100-4+8");
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_chunk_capacities_t *c = NULL;
    options.size_bytes = 1e9;
    ck_assert_int_eq(ccl_synth_capacities(NULL, topo, routes, want, &options, &c, NULL), CCL_OK);
    ck_assert_double_eq_tol(c->chunk_bytes, 1e9 / 12, 1e-3);
    ck_assert_double_eq_tol(c->tau_ref_s, c->chunk_bytes / 8e9 + row(c, "hop", 8)->alpha_s, 1e-12);
    ck_assert_uint_eq(row(c, "hop", 8)->chunks, 1);
    ck_assert_uint_eq(row(c, "link", 12.5)->chunks, 1);
    ck_assert_double_eq_tol(row(c, "link", 12.5)->exact_chunks, 1.5625, 1e-3);
    ck_assert_uint_eq(row(c, "link", 16)->chunks, 2);
    ck_assert_uint_eq(row(c, "link", 48)->chunks, 6);
    ck_assert_uint_eq(row(c, "hop", 50)->chunks, 6);
    ccl_chunk_capacities_destroy(c);
    options.ceiling = true;
    ck_assert_int_eq(ccl_synth_capacities(NULL, topo, routes, want, &options, &c, NULL), CCL_OK);
    ck_assert_uint_eq(row(c, "link", 12.5)->chunks, 2);
    ck_assert_uint_eq(row(c, "hop", 50)->chunks, 8);
    ccl_chunk_capacities_destroy(c);
    /* A given step: three of the reference's. */
    options.ceiling = false;
    options.tau_ref_s = 3.1 * 1e9 / 12 / 8e9;
    ck_assert_int_eq(ccl_synth_capacities(NULL, topo, routes, want, &options, &c, NULL), CCL_OK);
    ck_assert_uint_eq(row(c, "hop", 8)->chunks, 3);
    ck_assert_uint_eq(row(c, "link", 12.5)->chunks, 4);
    ck_assert_uint_eq(c->stretch, 0);
    ccl_chunk_capacities_destroy(c);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- appendix K */

#define LINK_GBPS 1
#define LATENCY_US 2
#define SLICE_BYTES 1e6

static ccl_topology_t *chain(uint32_t hops) {
    ccl_topology_builder_t *b = with_gpus("chain", hops + 1);
    for (uint32_t r = 0; r < hops; r++)
        add_duplex(b, r, r + 1, "nvlink", LINK_GBPS, LATENCY_US);
    return finish(b);
}

/** Broadcast down the chain in slices, `sublinks` of which share a link at a time. */
static double broadcast_s(const ccl_topology_t *topo, uint32_t sublinks, uint32_t slices) {
    ccl_collective_t *coll = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_collective_create(CCL_BROADCAST, topo->nranks, sublinks, 0, &coll, NULL),
                     CCL_OK);
    ccl_schedule_builder_t *b = ccl_schedule_builder_create("chain", coll);
    for (uint32_t k = 0; k < sublinks; k++) {
        for (uint32_t r = 0; r + 1 < topo->nranks; r++)
            ccl_schedule_builder_add(b, (ccl_transfer_t){r, r + 1, k, r, (uint16_t)k, 0, 0});
    }
    ck_assert_int_eq(ccl_schedule_builder_finish(b, &schedule, &err), CCL_OK);
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    lower.granularity = CCL_GRANULARITY_TASK;
    ck_assert_int_eq(ccl_lower(NULL, schedule, &lower, &program, &err), CCL_OK);
    ccl_sim_options_t options = CCL_SIM_OPTIONS_INIT;
    options.size_bytes = slices * SLICE_BYTES;
    options.batches = slices / sublinks;
    options.granularity = CCL_GRANULARITY_TASK;
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &options, &result, &err), CCL_OK);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    return time_s;
}

static const struct {
    uint32_t hops, sublinks, slices;
} penalties[] = {{2, 2, 16}, {4, 4, 32}, {3, 8, 64}, {5, 1, 10}};

START_TEST(test_penalty) {
    uint32_t hops = penalties[_i].hops, k = penalties[_i].sublinks;
    ccl_topology_t *topo = chain(hops);
    double slice_s = SLICE_BYTES / (LINK_GBPS * 1e9), all_s = penalties[_i].slices * slice_s;
    /* Equation 9 with the slice that it lacks, equation 10, and their difference. */
    double sequential_s = hops * (LATENCY_US * 1e-6) + (hops - 1) * slice_s + all_s;
    double chunked_s = hops * (LATENCY_US * 1e-6) + (hops - 1) * k * slice_s + all_s;
    double one_s = broadcast_s(topo, 1, penalties[_i].slices);
    double many_s = broadcast_s(topo, k, penalties[_i].slices);
    ck_assert_double_eq_tol(one_s, sequential_s, 1e-9 * sequential_s);
    ck_assert_double_eq_tol(many_s, chunked_s, 1e-9 * chunked_s);
    ck_assert_double_eq_tol(many_s - one_s, (hops - 1) * slice_s * (k - 1), 1e-9 * all_s);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.synth.chunking");
    TCase *tcase = tcase_create("chunking");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_fit, 0, LEN(fits));
    tcase_add_test(tcase, test_v100_cluster);
    tcase_add_loop_test(tcase, test_penalty, 0, LEN(penalties));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
