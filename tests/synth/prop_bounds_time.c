// timeout: 1200
/*
 * No run is faster than the bound: random clusters with transports of their own by protocol,
 * damaged ones, all kinds of collectives, all synthesizers that need no search, small and large
 * messages.
 */
#include <math.h>

#include "bench/small_clusters.h"
#include "common.h"
#include "lower/lower.h"
#include "sim/sim.h"
#include "tests/base/nightly.h"
#include "tests/runtime/random_demand.h"

/* Of the larger ones one for every change: it takes as long as ten small ones. */
enum { CLUSTERS = 4, NIGHTLY_CLUSTERS = 400, EDITED = 1, NIGHTLY_EDITED = 200 };

static uint64_t runs, near;

static void run_one(const ccl_topology_t *topo, ccl_routes_t *routes,
                    const ccl_schedule_t *schedule, const ccl_bound_t *bounds, ccl_rng_t *rng) {
    static const double sizes[] = {8, 1024, 16384, 262144, 4194304, 134217728};
    ccl_protocol_t proto = (ccl_protocol_t)ccl_rng_below(rng, CCL_PROTOCOLS);
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    lower.proto = ccl_protocol_name(proto);
    if (ccl_rng_below(rng, 2))
        lower.topo = topo;
    ccl_status_t status = ccl_lower(NULL, schedule, &lower, &program, &err);
    if (status != CCL_OK)
        return;
    for (size_t s = 0; s < CCL_ARRAY_LEN(sizes) - (nightly() ? 0 : 1); s++) {
        ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
        ccl_sim_result_t *result = NULL;
        sim.size_bytes = sizes[s];
        sim.batches = ccl_rng_below(rng, 2) ? 0 : 1 + ccl_rng_below(rng, 4);
        if (ccl_sim_program(NULL, topo, routes, program, &sim, &result, &err) != CCL_OK)
            continue;                         /* a deadlock */
        for (uint32_t of = 0; of < 2; of++) { /* of its protocol, and of any */
            double bound_s =
                ccl_bound_time_s(&bounds[of ? CCL_PROTOCOLS : (uint32_t)proto], sizes[s]);
            ck_assert_msg(result->time_s >= bound_s * (1 - 1e-9),
                          "%s %s on %s under %s, %g bytes, %u batches: %.9g s, bound %.9g",
                          schedule->origin, schedule->coll->name, topo->name, lower.proto, sizes[s],
                          sim.batches, result->time_s, bound_s);
            near += result->time_s < bound_s * 1.05;
            runs++;
        }
        ccl_sim_result_destroy(result);
    }
    ccl_program_destroy(program);
}

static void check_cluster(const ccl_topology_t *topo, ccl_rng_t *rng) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    for (int kind = 0; kind <= CCL_CUSTOM; kind++) {
        ccl_collective_t *want = kind < CCL_CUSTOM
                                     ? collective((ccl_collective_kind_t)kind, topo->nranks,
                                                  ccl_rng_below(rng, topo->nranks))
                                     : random_demand(rng, topo->nranks);
        ccl_bound_t bounds[CCL_PROTOCOLS + 1];
        for (uint32_t p = 0; p <= CCL_PROTOCOLS; p++) {
            ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
            options.proto = p < CCL_PROTOCOLS ? ccl_protocol_name((ccl_protocol_t)p) : NULL;
            MUST(ccl_bound(NULL, topo, want, &options, &bounds[p], e));
        }
        for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops; ops++) {
            const char *why;
            ccl_schedule_t *schedule = NULL;
            ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
            ccl_error_t err = CCL_ERROR_INIT;
            options.size_bytes = 65536;
            bool quick = !(*ops)->by_size || strcmp((*ops)->name, "greedy") == 0 ||
                         strcmp((*ops)->name, "latency") == 0;
            if (!quick || (*ops)->by_name || !(*ops)->supports(topo, want, &why))
                continue;
            options.channels = ccl_rng_below(rng, 3);
            if (ccl_synthesize(NULL, (*ops)->name, topo, routes, want, &options, &schedule, &err) ==
                    CCL_OK &&
                schedule)
                run_one(topo, routes, schedule, bounds, rng);
            ccl_schedule_destroy(schedule);
        }
        for (uint32_t p = 0; p <= CCL_PROTOCOLS; p++)
            ccl_bound_fini(&bounds[p]);
        ccl_collective_destroy(want);
    }
    ccl_routes_destroy(routes);
}

START_TEST(small_clusters) {
    ccl_rng_t rng;
    const char *seed = getenv("CCL_BOUNDS_SEED");
    uint32_t n = nightly() ? NIGHTLY_CLUSTERS : CLUSTERS;
    ccl_rng_init(&rng, seed ? strtoull(seed, NULL, 10) : 5);
    for (uint32_t i = 0; i < n; i++) {
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_topology_t *topo = small_cluster(ccl_rng_next(&rng), i, &err);
        ck_assert_msg(topo != NULL, "%s", err.text);
        check_cluster(topo, &rng);
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_gt(near, runs / 100); /* it can fail: some are as fast as can be */
}
END_TEST

/* As it was where it has no such part. */
static ccl_topology_t *edited_if_possible(ccl_topology_t *topo, const char *edit) {
    ccl_topology_t *other = NULL;
    if (ccl_topology_edit(topo, edit, &other, NULL) != CCL_OK)
        return topo;
    ccl_topology_destroy(topo);
    return other;
}

/* Clusters of the library, what-ifs among them; switches that multicast and reduce, and not. */
START_TEST(edited_clusters) {
    static const char *const specs[] = {
        "servers:2 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us",
        "servers:3 gpus:2 nvswitch=300GB/s,1us nics:1x25GB/s,2us",
        "servers:3 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us fabric=rail",
        "servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us",
        "dgx-h100",
        "heteccl-h20-4+8",
        "dgx1-v100",
        "mi300x-x8"};
    static const char *const edits[] = {"degrade:server:0=50%",
                                        "degrade:nic:0=20%",
                                        "fail:nic:1",
                                        "fail:gpu:2",
                                        "scale:latency=4",
                                        "scale:bandwidth:net=0.3",
                                        "set:in_switch=true",
                                        "set:in_switch=false",
                                        "set:overhead:net=5us",
                                        "set:slice=inf",
                                        "set:wire:nvlink=1.5",
                                        "scale:launch=3",
                                        "set:message:net=0.5us",
                                        "set:holds_tb:net=false",
                                        "set:mechanism:net=proxy"};
    ccl_rng_t rng;
    const char *seed = getenv("CCL_BOUNDS_SEED");
    uint32_t n = nightly() ? NIGHTLY_EDITED : EDITED;
    ccl_rng_init(&rng, seed ? strtoull(seed, NULL, 10) : 6);
    for (uint32_t i = 0; i < n; i++) {
        ccl_topology_t *topo = topology(specs[(i + ccl_rng_below(&rng, 2)) % CCL_ARRAY_LEN(specs)]);
        topo = edited_if_possible(
            topo, "set:message_size:net=32K"); /* for those whose messages take time */
        for (uint32_t k = ccl_rng_below(&rng, 4); k > 0; k--)
            topo = edited_if_possible(topo, edits[ccl_rng_below(&rng, CCL_ARRAY_LEN(edits))]);
        check_cluster(topo, &rng);
        ccl_topology_destroy(topo);
    }
    ck_assert_uint_gt(near, runs / 100); /* it can fail: some are as fast as can be */
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bounds");
    TCase *tc = tcase_create("bounds");
    tcase_set_timeout(tc, 1200);
    tcase_add_test(tc, small_clusters);
    tcase_add_test(tc, edited_clusters);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
