/* greedy: figures with known optima, determinism, roots by what servers carry, limits. */
#include "common.h"
#include "synth/common/turn.h"

#include <math.h>

/* Lowered and simulated. */
static double time_of(const ccl_topology_t *topo, const ccl_schedule_t *schedule) {
    return timed_s(topo, schedule, 1e9, (ccl_way_t){0});
}

static ccl_schedule_t *make(const ccl_topology_t *topo, ccl_collective_kind_t kind,
                            const ccl_synth_options_t *options, uint64_t seed, uint32_t threads) {
    ccl_ctx_t ctx = CCL_CTX_INIT;
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ctx.seed = seed;
    ctx.threads = threads;
    ck_assert_msg(ccl_synthesize(&ctx, "greedy", topo, NULL, want, options, &schedule, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ccl_collective_destroy(want);
    return schedule;
}

/* Optima: ForestColl (arXiv 2402.06787), GB/s of output; TACOS 1.3 (arXiv 2304.05301), its best. */
static const struct {
    const char *name;
    double optimum_GBps, tacos_us, within;
} figures[] = {{"dgx1_v100_8", 1200.0 / 7, 5977, 0.01}, {"ndv2_2x8", 25, 40439, 0.01},
               {"mesh_4x4", 1e3 / 9.375, 9382.5, 0.01}, {"torus_4x4", 1e3 / 4.6875, 4710, 0.01},
               {"mi250_1x16", 2400.0 / 7, 3251, 0.02},  {"a100_2x8", 1040.0 / 3, 3459.5, 0.02},
               {"a100_4x8", 800.0 / 3, 5637, 0.02},     {"torus_8x8", 1e3 / 4.921875, 5032, 0.01},
               {"mesh_8x8", 1e3 / 9.84375, 9907, 0.01}};

START_TEST(test_figures) {
    char path[300];
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    snprintf(path, sizeof path, CCLLAB_DATA_DIR "/peers/topologies/%s.json", figures[_i].name);
    ccl_topology_t *topo = topology(path);
    options.size_bytes = 1e9;
    options.chunks = topo->nranks >= 32 ? 16 : 24;
    ccl_schedule_t *schedule = make(topo, CCL_ALLGATHER, &options, 1, 0);
    double time_s = time_of(topo, schedule), least_s = 1 / figures[_i].optimum_GBps;
    ck_assert_msg(time_s >= least_s * (1 - 1e-9), "%s: %g us beats the bound", path, time_s * 1e6);
    ck_assert_msg(time_s <= least_s * (1 + figures[_i].within), "%s: %g us, bound %g us", path,
                  time_s * 1e6, least_s * 1e6);
    ck_assert_msg(time_s <= figures[_i].tacos_us * 1e-6, "%s: %g us", path, time_s * 1e6);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_small) {
    /* 1 MB on two NDv2: TE-CCL's schedule takes 46.45 us when it is replayed (SIGCOMM 2024). */
    ccl_topology_t *topo = topology(CCLLAB_DATA_DIR "/peers/topologies/ndv2_2x8.json");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.size_bytes = 1e6;
    ccl_schedule_t *schedule = make(topo, CCL_ALLGATHER, &options, 1, 0);
    ck_assert_double_le(timed_s(topo, schedule, 1e6, (ccl_way_t){0}), 46.45e-6);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_deterministic) {
    ccl_topology_t *topo = topology("heteccl-v100-4+8");
    static const ccl_collective_kind_t kinds[] = {CCL_ALLGATHER, CCL_ALLREDUCE, CCL_ALLTOALL};
    for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        options.chunks = 2;
        options.restarts = 3;
        ccl_schedule_t *one = make(topo, kinds[k], &options, 7, 1);
        ccl_schedule_t *four = make(topo, kinds[k], &options, 7, 4);
        ccl_schedule_t *other = make(topo, kinds[k], &options, 8, 2);
        ck_assert(ccl_schedule_equal(one, four));
        ck_assert(!ccl_schedule_equal(one, other));
        ccl_schedule_destroy(one);
        ccl_schedule_destroy(four);
        ccl_schedule_destroy(other);
    }
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_ring_is_found) {
    /* Four GPUs in a one-way ring: nothing but the ring is possible, n - 1 steps of a block each.
     */
    static const char ring[] =
        "{\"format\":\"ccllab-topology-1\",\"name\":\"ring\",\"devices\":["
        "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1},"
        "{\"id\":\"c\",\"kind\":\"gpu\",\"rank\":2},{\"id\":\"d\",\"kind\":\"gpu\",\"rank\":3}],"
        "\"links\":["
        "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\",\"latency\":"
        "\"1us\",\"duplex\":false},"
        "{\"from\":\"b\",\"to\":\"c\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\",\"latency\":"
        "\"1us\",\"duplex\":false},"
        "{\"from\":\"c\",\"to\":\"d\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\",\"latency\":"
        "\"1us\",\"duplex\":false},"
        "{\"from\":\"d\",\"to\":\"a\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\",\"latency\":"
        "\"1us\",\"duplex\":false}]}";
    ccl_topology_t *topo = NULL;
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    topo = topology_of(ring);
    options.size_bytes = 1e9;
    options.chunks = 1;
    ccl_schedule_t *schedule = make(topo, CCL_ALLGATHER, &options, 1, 1);
    ck_assert_uint_eq(schedule->ntransfers, 12);
    ck_assert_double_eq_tol(time_of(topo, schedule), 3 * (0.25 + 1e-6), 1e-9);
    ccl_schedule_destroy(schedule);
    /* Reductions go the same way round: ReduceScatter in as many steps. */
    schedule = make(topo, CCL_REDUCESCATTER, &options, 1, 1);
    ck_assert_uint_eq(schedule->ntransfers, 12);
    ck_assert_double_eq_tol(time_of(topo, schedule), 3 * (0.25 + 1e-6), 1e-9);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

static void roots(const char *spec, bool uniform, uint32_t nchunks, uint32_t *count) {
    ccl_topology_t *topo = topology(spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_i_exchange_t x;
    uint32_t *owner = calloc(nchunks, sizeof *owner);
    ck_assert(routes && owner);
    ck_assert_int_eq(ccl_i_exchange_init(&x, topo, routes, NULL, NULL), CCL_OK);
    ck_assert_int_eq(ccl_i_turn_roots(&x, nchunks, uniform, owner, NULL), CCL_OK);
    for (uint32_t k = 0; k < nchunks; k++)
        count[owner[k]]++;
    free(owner);
    ccl_i_exchange_fini(&x);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}

START_TEST(test_roots) {
    /* Two servers with equal NICs: each is root of a half, however many GPUs it has. */
    uint32_t count[12] = {0};
    roots("heteccl-h20-4+8", false, 48, count);
    for (uint32_t r = 0; r < 12; r++)
        ck_assert_uint_eq(count[r], r < 4 ? 6 : 3);
    memset(count, 0, sizeof count);
    roots("heteccl-h20-4+8", true, 48, count);
    for (uint32_t r = 0; r < 12; r++)
        ck_assert_uint_eq(count[r], 4);
    /* Alike GPUs: even. */
    memset(count, 0, sizeof count);
    roots("servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us", false, 32, count);
    for (uint32_t r = 0; r < 8; r++)
        ck_assert_uint_eq(count[r], 4);
}
END_TEST

START_TEST(test_time_limit) {
    ccl_topology_t *topo = topology("heteccl-h20-4+8");
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    options.restarts = 50;
    options.time_limit_s = 1e-6;
    ccl_schedule_t *schedule = make(topo, CCL_ALLGATHER, &options, 1, 1);
    ck_assert(schedule->limited);
    ccl_schedule_destroy(schedule);
    options.restarts = 1;
    options.chunks = 1;
    options.time_limit_s = 0;
    schedule = make(topo, CCL_ALLGATHER, &options, 1, 1);
    ck_assert(!schedule->limited);
    ccl_schedule_destroy(schedule);
    ccl_topology_destroy(topo);
}
END_TEST

/* Every collective on clusters of every make, by every way of lowering. */
static const char *const specs[] = {"heteccl-v100-4+8", "dgx1-v100", "resccl-topo1",
                                    "servers:2 gpus:2 nvswitch=1GB/s,1us nics:2x1GB/s,1us "
                                    "fabric=rail",
                                    "servers:1 gpus:3 nvswitch=300GB/s,1us"};

START_TEST(test_collectives) {
    ccl_topology_t *topo = topology(specs[_i]);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    for (int kind = 0; kind < CCL_CUSTOM; kind++) {
        ccl_collective_t *want =
            collective((ccl_collective_kind_t)kind, topo->nranks, topo->nranks - 1);
        options.chunks = kind % 2 + 1;
        ck_assert(check_all("greedy", topo, routes, want, &options, 15, specs[_i]));
        ccl_collective_destroy(want);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(test_demand) {
    /* Unequal chunks, some reduced, with relays that have nothing to add. */
    static const char text[] =
        "{\"format\":\"ccllab-demand-1\",\"name\":\"mix\",\"nranks\":8,\"chunks\":["
        "{\"source\":0,\"destinations\":[3,5,6],\"bytes\":\"1MiB\"},"
        "{\"source\":[1,2,6,7],\"destinations\":[4],\"reduced\":true,\"bytes\":\"3MiB\"},"
        "{\"source\":[0,7],\"destinations\":[2,3,5],\"reduced\":true,\"bytes\":\"64KiB\"},"
        "{\"source\":7,\"destinations\":[0,1,2,3,4,5,6],\"bytes\":\"2MiB\"}]}";
    ccl_collective_t *want = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_demand_read_text("mix", text, sizeof text - 1, &want, &err) == CCL_OK, "%s",
                  err.text);
    ccl_topology_t *topo = topology("dgx1-v100");
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert(check_all("greedy", topo, routes, want, NULL, 15, "dgx1-v100"));
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    ccl_collective_destroy(want);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("greedy");
    TCase *tc = tcase_create("greedy");
    tcase_set_timeout(tc, 300);
    if (access(CCLLAB_DATA_DIR "/peers/topologies", R_OK) == 0) {
        tcase_add_loop_test(tc, test_figures, 0, CCL_ARRAY_LEN(figures));
        tcase_add_test(tc, test_small);
    }
    tcase_add_test(tc, test_deterministic);
    tcase_add_test(tc, test_ring_is_found);
    tcase_add_test(tc, test_roots);
    tcase_add_test(tc, test_time_limit);
    tcase_add_loop_test(tc, test_collectives, 0, CCL_ARRAY_LEN(specs));
    tcase_add_test(tc, test_demand);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
