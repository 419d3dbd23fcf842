// timeout: 600
/* No simulated schedule of any synthesizer is faster than the bound; some come near it. */
#include <math.h>

#include "common.h"
#include "tests/base/nightly.h"

enum { ROUNDS = 1, NIGHTLY_ROUNDS = 40 };

static double simulate(const ccl_topology_t *topo, ccl_routes_t *routes,
                       const ccl_schedule_t *schedule, const char *proto, double size_bytes,
                       uint32_t batches) {
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    lower.topo = topo;
    lower.proto = proto;
    ccl_status_t status = ccl_lower(NULL, schedule, &lower, &program, &err);
    if (status ==
        CCL_UNSUPPORTED) { /* the bound also holds for more blocks than a GPU has room for */
        lower.topo = NULL;
        status = ccl_lower(NULL, schedule, &lower, &program, &err);
    }
    ck_assert_msg(status == CCL_OK, "%s", err.text);
    sim.size_bytes = size_bytes;
    sim.batches = batches;
    ck_assert_msg(ccl_sim_program(NULL, topo, routes, program, &sim, &result, &err) == CCL_OK, "%s",
                  err.text);
    double time_s = result->time_s;
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    return time_s;
}

static ccl_bound_t bound_of(const ccl_topology_t *topo, const ccl_collective_t *coll,
                            const char *proto, double size_bytes) {
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    ccl_error_t err = CCL_ERROR_INIT;
    options.proto = proto;
    options.size_bytes = size_bytes;
    ck_assert_msg(ccl_bound(NULL, topo, coll, &options, &bound, &err) == CCL_OK, "%s", err.text);
    return bound;
}

static void check_topology(const ccl_topology_t *topo) {
    static const double sizes[] = {1, 65536, 16e6};
    static const char *const protos[] = {"LL", "Simple", "Simple"};
    ccl_routes_t *routes = ccl_routes_create(topo);
    for (int kind = 0; kind < CCL_CUSTOM; kind++) {
        ccl_collective_t *want = collective((ccl_collective_kind_t)kind, topo->nranks, 0);
        ccl_bound_t bounds[CCL_ARRAY_LEN(sizes)];
        for (size_t s = 0; s < CCL_ARRAY_LEN(sizes); s++)
            bounds[s] = bound_of(topo, want, protos[s], sizes[s]);
        for (const ccl_synth_ops_t *const *ops = ccl_synth_all(); *ops && !(*ops)->by_name; ops++) {
            const char *why;
            ccl_schedule_t *schedule = NULL;
            ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
            ccl_error_t err = CCL_ERROR_INIT;
            options.sketch.cache = solved_once();
            if (only_plain(*ops, want->kind) || !(*ops)->supports(topo, want, &why))
                continue;
            ccl_status_t status =
                ccl_synthesize(NULL, (*ops)->name, topo, routes, want, &options, &schedule, &err);
            if (status != CCL_OK || !schedule)
                continue; /* other tests look at that */
            for (size_t s = 0; s < CCL_ARRAY_LEN(sizes); s++) {
                const ccl_bound_t *b = &bounds[s];
                double time_s = simulate(topo, routes, schedule, protos[s], sizes[s], 0);
                ck_assert_msg(time_s >= b->time_s * (1 - 1e-9),
                              "%s %s on %s, %g bytes: %.9g s, bound %.9g (latency %.9g)",
                              (*ops)->name, want->name, topo->name, sizes[s], time_s, b->time_s,
                              b->latency.latency_s);
            }
            ccl_schedule_destroy(schedule);
        }
        for (size_t s = 0; s < CCL_ARRAY_LEN(sizes); s++)
            ccl_bound_fini(&bounds[s]);
        ccl_collective_destroy(want);
    }
    ccl_routes_destroy(routes);
}

/** Servers with a switch; some GPUs reach the fabric. */
static ccl_topology_t *random_servers(ccl_rng_t *rng) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("random");
    uint32_t servers = 1 + ccl_rng_below(rng, 3), rank = 0;
    uint32_t fabric = add_device(b, "fabric", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    for (uint32_t s = 0; s < servers; s++) {
        char name[16], id[32];
        uint32_t gpus = 2 + ccl_rng_below(rng, 3);
        snprintf(name, sizeof name, "s%u", s);
        snprintf(id, sizeof id, "s%u/sw", s);
        uint32_t sw = add_device(b, id, CCL_DEVICE_SWITCH, name, CCL_NONE);
        for (uint32_t g = 0; g < gpus; g++) {
            snprintf(id, sizeof id, "s%u/g%u", s, g);
            uint32_t gpu = add_device(b, id, CCL_DEVICE_GPU, name, rank++);
            add_duplex(b, gpu, sw, "nvlink", (1 + ccl_rng_below(rng, 9)) * 10, 1);
            if (g == 0 || ccl_rng_below(rng, 2))
                add_duplex(b, gpu, fabric, "net", (1 + ccl_rng_below(rng, 4)) * 5, 2);
        }
    }
    return finish(b);
}

START_TEST(nobody_is_faster) {
    static const char *const specs[] = {"mi300x-x8", "dgx1-v100",
                                        "servers:1 gpus:2 nvlink=mesh,100GB/s nics:1x10GB/s + "
                                        "servers:1 gpus:3 nvswitch=200GB/s nics:3x20GB/s",
                                        "servers:2 gpus:3 nvswitch=100GB/s nics:2x10GB/s"};
    ccl_rng_t rng;
    ccl_rng_init(&rng, 3);
    for (size_t i = 2 * SANITIZED; i < CCL_ARRAY_LEN(specs); i++) {
        ccl_topology_t *topo = topology(specs[i]);
        check_topology(topo);
        ccl_topology_destroy(topo);
    }
    for (int round = 0; round < (nightly() ? NIGHTLY_ROUNDS : ROUNDS); round++) {
        ccl_topology_t *topo = random_servers(&rng);
        check_topology(topo);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* Where a schedule is known to be the best one the bound is met. */
START_TEST(met_where_the_best_is_known) {
    static const struct {
        const char *spec, *synthesizer;
        ccl_collective_kind_t kind;
        uint32_t batches;
        double within;
        const char *why;
    } rows[] = {
        {"servers:1 gpus:4 nvswitch=100GB/s,0us", "direct", CCL_ALLGATHER, 1, 1e-9,
         "every GPU receives three blocks at its port's rate"},
        {"servers:1 gpus:4 nvswitch=100GB/s,0us", "direct", CCL_ALLTOALL, 1, 1e-9, "so too"},
        {"servers:1 gpus:4 nvswitch=100GB/s,0us", "direct", CCL_SCATTER, 1, 1e-9,
         "the root's port"},
        {"servers:1 gpus:5 nvswitch=100GB/s,0us", "ring", CCL_ALLGATHER, 1, 1e-9,
         "four steps of a block"},
        {"servers:1 gpus:5 nvswitch=100GB/s,0us", "ring", CCL_ALLREDUCE, 200, 0.02,
         "two passes of the ring"},
        {"servers:1 gpus:4 nvswitch=100GB/s,0us", "direct", CCL_REDUCESCATTER, 1, 1e-9, "reversed"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].spec);
        ccl_routes_t *routes = ccl_routes_create(topo);
        ccl_collective_t *want = collective(rows[i].kind, topo->nranks, 0);
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_schedule_t *schedule = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        options.channels = 1;
        ck_assert_int_eq(ccl_synthesize(NULL, rows[i].synthesizer, topo, routes, want, &options,
                                        &schedule, &err),
                         CCL_OK);
        double time_s = simulate(topo, routes, schedule, "Simple", 1e9, rows[i].batches);
        ccl_bound_t b = bound_of(topo, want, "Simple", 1e9);
        ck_assert_msg(time_s >= b.time_s * (1 - 1e-9) && time_s <= b.time_s * (1 + rows[i].within),
                      "%s %s: %.9g s, bound %.9g: %s", rows[i].synthesizer, want->name, time_s,
                      b.time_s, rows[i].why);
        ccl_bound_fini(&b);
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bounds");
    TCase *tc = tcase_create("bounds");
    tcase_set_timeout(tc, 110);
    tcase_add_test(tc, nobody_is_faster);
    tcase_add_test(tc, met_where_the_best_is_known);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
