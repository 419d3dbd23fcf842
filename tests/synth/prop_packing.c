// timeout: 120
/* Packed trees: within every link's capacity, at the bound where that is possible, right always. */
#include <math.h>
#include <unistd.h>

#include "bench/random_clusters.h"
#include "common.h"

/* Seconds that the busiest link needs for a message of one byte. */
static double busiest_s(const ccl_topology_t *topo, ccl_routes_t *routes,
                        const ccl_schedule_t *schedule) {
    double *bytes = calloc(topo->nlinks, sizeof *bytes), most = 0;
    ccl_error_t err = CCL_ERROR_INIT;
    for (uint32_t i = 0; i < schedule->ntransfers; i++) {
        const ccl_transfer_t *t = &schedule->transfers[i];
        const ccl_route_t *route;
        ck_assert_msg(ccl_routes_get(routes, t->src, t->dst, t->channel, &route, &err) == CCL_OK,
                      "%s", err.text);
        for (uint32_t l = 0; l < route->nlinks; l++)
            bytes[route->links[l]] += schedule->coll->chunks[t->chunk].share;
    }
    for (uint32_t l = 0; l < topo->nlinks; l++)
        most = fmax(most, bytes[l] / topo->links[l].bandwidth_Bps);
    free(bytes);
    return most;
}

/* Time of the busiest link over the bound (ccl_synthesize verifies the schedule). 0: refused. */
static double pack(const ccl_topology_t *topo, ccl_collective_kind_t kind, uint32_t chunks,
                   uint32_t *steps_out) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = collective(kind, topo->nranks, topo->nranks / 2);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_bound_t bound;
    ccl_error_t err = CCL_ERROR_INIT;
    double ratio = 0;
    options.chunks = chunks;
    ccl_status_t status =
        ccl_synthesize(NULL, "packing", topo, routes, want, &options, &schedule, &err);
    ck_assert_msg(status == CCL_OK, "%s on %s: %s", want->name, topo->name, err.text);
    if (status == CCL_OK) {
        ck_assert_int_eq(ccl_bound(NULL, topo, want, NULL, &bound, &err), CCL_OK);
        ratio = busiest_s(topo, routes, schedule) * bound.bandwidth.Bps;
        if (steps_out)
            *steps_out = schedule->nsteps;
        ccl_bound_fini(&bound);
    }
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    return ratio;
}

static const ccl_collective_kind_t kinds[] = {CCL_ALLGATHER, CCL_REDUCESCATTER, CCL_BROADCAST,
                                              CCL_REDUCE, CCL_ALLREDUCE};

/* GPUs with links to each other only: Edmonds' trees always exist. */
START_TEST(random_gpus) {
    ccl_rng_t rng;
    ccl_rng_init(&rng, 21);
    for (int round = 0; round < 60; round++) {
        ccl_topology_builder_t *b = ccl_topology_builder_create("random");
        ccl_topology_t *topo = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        uint32_t n = 2 + ccl_rng_below(&rng, 6), order[8], joined[8][8] = {{0}};
        for (uint32_t i = 0; i < n; i++) {
            char id[16];
            order[i] = i;
            snprintf(id, sizeof id, "g%u", i);
            ck_assert_int_eq(
                ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, NULL, i, NULL, NULL, &err),
                CCL_OK);
        }
        for (uint32_t i = n; i > 1; i--) {
            uint32_t k = ccl_rng_below(&rng, i), t = order[k];
            order[k] = order[i - 1];
            order[i - 1] = t;
        }
        for (uint32_t i = 0; i < 3 * n; i++) { /* a ring, then whatever */
            uint32_t u = i < n ? order[i] : ccl_rng_below(&rng, n);
            uint32_t v = i < n ? order[(i + 1) % n] : ccl_rng_below(&rng, n);
            if (u == v || joined[u][v]++)
                continue;
            ck_assert_int_eq(ccl_topology_builder_link(b, u, v, "nvlink",
                                                       (1 + ccl_rng_below(&rng, 4)) * 25e9, 1e-6, 1,
                                                       0, &err),
                             CCL_OK);
        }
        ck_assert_msg(ccl_topology_builder_finish(b, &topo, &err) == CCL_OK, "%s", err.text);
        ccl_topology_builder_destroy(b);
        for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
            double ratio = pack(topo, kinds[k], 0, NULL);
            ck_assert_double_ge(ratio, 1 - 1e-9);
            if (kinds[k] != CCL_ALLREDUCE)
                ck_assert_msg(ratio <= 1.006, "%s, round %d: %.6f of the bound",
                              ccl_collective_kind_name(kinds[k]), round, ratio);
        }
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(clusters) {
    static const struct {
        const char *spec;
        double most[CCL_ARRAY_LEN(kinds)]; /* over the bound, by kind */
        const char *why;
    } rows[] = {
        {"dgx1-v100",
         {1.075, 1.075, 1.19, 1.19, 1.075},
         "cuts may use PCIe beside NVLink, routes do not"},
        {"dgx-a100", {1, 1, 1, 1, 1}, "one switch"},
        {"heteccl-h20-4+8", {1, 1, 1, 1, 1}, "mixed servers: roots are weighted"},
        {"syccl-a100-16", {1, 1, 1, 1, 1}, "two GPUs share a NIC"},
        {"servers:3 gpus:4 nvswitch=300GB/s nics:2x25GB/s", {1, 1, 1, 1, 1}, "two NICs a server"},
        {"heteccl-h20-4x2+8", {1, 1, 1, 1, 1}, "AllReduce: phases share links unevenly"},
        {"heteccl-v100-4x2+8", {1, 1, 1, 1, 1.003}, "two ways into PCIe: routes limit pairings"},
        {"syccl-8x4-clos", {1, 1, 1, 1, 1}, "two layers of switches"},
        {"syccl-7x4-rail", {1, 1, 1, 1, 1}, "rails and a spine"},
    };
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology(rows[i].spec);
        for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
            double ratio = pack(topo, kinds[k], 0, NULL);
            ck_assert_msg(ratio >= 1 - 1e-9 && ratio <= rows[i].most[k] * (1 + 1e-6),
                          "%s on %s: %.6f of the bound: %s", ccl_collective_kind_name(kinds[k]),
                          rows[i].spec, ratio, rows[i].why);
        }
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(peers) {
    static const struct {
        const char *name;
        double most;
    } rows[] = {
        {"dgx1_v100_8", 1},
        {"ndv2_2x8", 1},
        {"ndv2_4x8", 1},
        {"dgx2_2x16", 1},
        {"mi250_1x16", 1},
        {"a100_2x8", 1},
        {"a100_4x8", 1},
        {"mesh_4x4", 1},
        {"torus_4x4", 1},
        {"heteccl_h20_4+8", 1},
        {"heteccl_h20_4x3", 1},
        {"heteccl_v100_4+8", 1},
        {"heteccl_v100_4x3", 1},
        {"syccl_a100_16", 1},
        {"syccl_a100_32", 1},
        {"tacos_grid3d_3x3x3", 1},
        {"tacos_torus3d_4x2x3", 1},
        {"tacos_hmesh_5x5", 1.005},
        {"mesh_8x8", 1},
    };
    char path[500];
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = NULL;
        snprintf(path, sizeof path, "%s/peers/topologies/%s.json", CCLLAB_DATA_DIR, rows[i].name);
        topo = topology(path);
        double ratio = pack(topo, CCL_ALLGATHER, 0, NULL);
        ck_assert_msg(ratio >= 1 - 1e-9 && ratio <= rows[i].most * (1 + 1e-6),
                      "%s: %.6f of the bound", rows[i].name, ratio);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* One tree is found and carried to all other roots. */
START_TEST(many_gpus) {
    ccl_topology_t *topo = topology("syccl-h800-512");
    uint32_t steps = 0;
    double ratio = pack(topo, CCL_ALLGATHER, 0, &steps);
    ck_assert_msg(ratio >= 1 - 1e-9 && ratio <= 1.001, "%.6f of the bound", ratio);
    ck_assert_uint_le(steps, 16); /* 64 servers: a tree, no chain */
    ccl_topology_destroy(topo);
}
END_TEST

/* One root has no symmetry to copy by: every tree is searched for among all hops that are kept. */
START_TEST(one_root_of_many_gpus) {
    ccl_topology_t *topo = topology("servers:17 gpus:8 nvswitch=180GB/s nics:8x50GB/s fabric=rail");
    double down = pack(topo, CCL_BROADCAST, 5, NULL), up = pack(topo, CCL_REDUCE, 5, NULL);
    ck_assert_msg(down >= 1 - 1e-9 && down <= 1.03, "Broadcast: %.6f of the bound", down);
    ck_assert_msg(up >= 1 - 1e-9 && up <= 1.03, "Reduce: %.6f of the bound", up);
    ccl_topology_destroy(topo);
}
END_TEST

/* A torus of one kind of link, each way. */
static ccl_topology_t *torus(uint32_t side) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("torus");
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    for (uint32_t v = 0; v < side * side; v++) {
        char id[16];
        uint32_t device;
        snprintf(id, sizeof id, "gpu%u", v);
        ck_assert_int_eq(
            ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, NULL, v, NULL, &device, &err),
            CCL_OK);
    }
    for (uint32_t v = 0; v < side * side; v++) {
        uint32_t x = v % side, y = v / side;
        uint32_t near[] = {y * side + (x + 1) % side, (y + 1) % side * side + x};
        for (size_t i = 0; i < CCL_ARRAY_LEN(near); i++) {
            ccl_topology_builder_link(b, v, near[i], "nvlink", 50e9, 0, 1, 0, &err);
            ccl_topology_builder_link(b, near[i], v, "nvlink", 50e9, 0, 1, 0, &err);
        }
    }
    ck_assert_msg(ccl_topology_builder_finish(b, &topo, &err) == CCL_OK, "%s", err.text);
    ccl_topology_builder_destroy(b);
    return topo;
}

/* Without switches flows are exact at once, and fine pieces make up for deep trees. */
START_TEST(one_root_without_switches) {
    ccl_topology_t *topo = torus(12);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = collective(CCL_BROADCAST, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = 0x1p28;
    ck_assert_int_eq(ccl_synthesize(NULL, "packing", topo, routes, want, &options, &schedule, &err),
                     CCL_OK);
    double load = busiest_s(topo, routes, schedule) * 200e9; /* 4 links leave the root */
    ck_assert_msg(load <= 1 + 1e-9, "load %.4f of the bound", load);
    ck_assert_double_le(schedule->piece_bytes, 0x1p28 / 4 / 512);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* One tree asks for all of NVLink, and a connection moves a tenth of it: as many share the way. */
START_TEST(one_root_over_many_connections) {
    ccl_topology_t *topo = topology("dgx-a100");
    ccl_routes_t *routes = ccl_routes_create(topo);
    for (int k = 0; k < 2; k++) {
        ccl_collective_t *want = collective(k == 0 ? CCL_BROADCAST : CCL_REDUCE, topo->nranks, 0);
        ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
        ccl_schedule_t *schedule = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        uint32_t channels = 0;
        options.size_bytes = 0x1p30;
        ck_assert_int_eq(ccl_synth_find("packing") /* before staggered pieces are tried */
                             ->synthesize(NULL, topo, routes, want, &options, &schedule, &err),
                         CCL_OK);
        for (uint32_t i = 0; i < schedule->ntransfers; i++) {
            const ccl_transfer_t *x = &schedule->transfers[i];
            channels = x->channel + 1U > channels ? x->channel + 1U : channels;
        }
        ck_assert_uint_ge(channels, 8);
        ccl_schedule_destroy(schedule);
        ccl_collective_destroy(want);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* What a piece costs beyond the wire ends the search for finer ones: protocols differ in it. */
START_TEST(coarse_pieces_where_they_cost) {
    ccl_topology_t *topo = with_profile("mi250-x16", "rccl-mi250");
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = 0x1p30;
    ck_assert_int_eq(ccl_synthesize(NULL, "packing", topo, NULL, want, &options, &schedule, &err),
                     CCL_OK);
    ck_assert_double_ge(schedule->piece_bytes, 0x1p30 * schedule->coll->chunks[0].share / 128);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* One server's trees in all of them: as low as they are there, and no link beyond the bound. */
START_TEST(servers_alike) {
    ccl_topology_t *topo = topology("mi250-x16*4");
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_collective_t *want = collective(CCL_REDUCESCATTER, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = 0x1p20;
    ck_assert_int_eq(ccl_synthesize(NULL, "packing", topo, routes, want, &options, &schedule, &err),
                     CCL_OK);
    double load = busiest_s(topo, routes, schedule) * 1024e9 / 3;
    ck_assert_msg(load <= 1 + 1e-9, "load %.4f of the bound", load);
    ck_assert_uint_le(schedule->nsteps, 16);
    ccl_schedule_destroy(schedule);
    options.size_bytes = 0x1p14; /* too small for many trees: one of each root, along rails */
    ck_assert_int_eq(ccl_synthesize(NULL, "packing", topo, routes, want, &options, &schedule, &err),
                     CCL_OK);
    ck_assert_uint_eq(schedule->ntransfers, 64 * 63);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Whole numbers of chunks: one is coarse, the exact number is not. */
START_TEST(chunks) {
    ccl_topology_t *topo = topology("servers:2 gpus:8 nvswitch=300GB/s nics:8x25GB/s");
    uint32_t steps = 0; /* 15 blocks at 325 GB/s are 13 trees over 12 and 1 parts of a link */
    double one = pack(topo, CCL_ALLGATHER, 1, &steps), all = pack(topo, CCL_ALLGATHER, 13, NULL);
    ck_assert_double_gt(one, 1.005);
    ck_assert_double_le(all, 1 + 1e-9);
    ck_assert_uint_ge(steps, 2);
    ccl_topology_destroy(topo);
}
END_TEST

/* Simulated time over the bound. @param known  made for this size; else 256 micro-batches */
static double simulated(const ccl_topology_t *topo, ccl_collective_kind_t kind, double bytes,
                        bool known) {
    ccl_collective_t *want = collective(kind, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_lower_options_t lower = CCL_LOWER_OPTIONS_INIT;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    ccl_bound_t bound;
    ccl_error_t err = CCL_ERROR_INIT;
    options.size_bytes = known ? bytes : 0;
    ck_assert_int_eq(ccl_synthesize(NULL, "packing", topo, NULL, want, &options, &schedule, &err),
                     CCL_OK);
    ck_assert_int_eq(ccl_lower(NULL, schedule, &lower, &program, &err), CCL_OK);
    sim.size_bytes = bytes;
    sim.batches = known ? 0 : 256;
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &sim, &result, &err), CCL_OK);
    ck_assert_int_eq(ccl_bound(NULL, topo, want, NULL, &bound, &err), CCL_OK);
    double gap = result->time_s / ccl_bound_time_s(&bound, bytes);
    ccl_bound_fini(&bound);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    return gap;
}

/* Links alone: pieces of a few hundred bytes cost nothing and fill deep trees sooner. */
START_TEST(fine_pieces_where_they_cost_nothing) {
    ccl_topology_t *topo = torus(4);
    double gap = simulated(topo, CCL_ALLREDUCE, 0x1p20, true);
    ck_assert_msg(gap >= 1 && gap < 1.1, "%.4f of the bound", gap);
    ccl_topology_destroy(topo);
}
END_TEST

static void check_origin(ccl_topology_t *topo, double size_bytes, const char *origin) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_collective_t *want = collective(CCL_ALLREDUCE, topo->nranks, 0);
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_schedule_t *schedule = NULL;
    options.size_bytes = size_bytes;
    ck_assert_int_eq(ccl_synthesize(NULL, "packing", topo, NULL, want, &options, &schedule, &err),
                     CCL_OK);
    ck_assert_msg(strstr(schedule->origin, origin) != NULL, "%s", schedule->origin);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}

/* With transports one tree of each root takes more pieces, and less time here than deeper trees of
   all. */
START_TEST(fewest_trees_where_pieces_cost) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = random_cluster(7, 5, 8, 16, &err); /* a grid of 2 x 2 x 4 */
    ck_assert_msg(topo != NULL, "%s", err.text);
    check_origin(topo, 0x1p24, "16 trees by swaps");
}
END_TEST

/* Not where switches multicast and add: with these trees they would take 4.41 ms, not 3.62. */
START_TEST(rails_where_switches_add) {
    check_origin(with_profile("dgx-h100*2", NULL), 0x1p30, "along rails");
}
END_TEST

START_TEST(many_micro_batches_come_near_the_bound) {
    static const char *const specs[] = {"servers:2 gpus:4 nvswitch=300GB/s nics:4x25GB/s",
                                        "servers:1 gpus:8 nvswitch=300GB/s"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(specs); i++) {
        ccl_topology_t *topo = topology(specs[i]);
        double gap = simulated(topo, CCL_ALLGATHER, 1e9, false);
        ck_assert_msg(gap >= 1 && gap < 1.02, "%s: %.4f of the bound", specs[i], gap);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* A NIC that two flows share is slower by a tenth: one connection at a time fills it. */
START_TEST(few_connections_where_sharing_loses) {
    static const char *const specs[] = {
        "servers:2 gpus:4 nvswitch=300GB/s nics:2x25GB/s contention=0.1",
        "servers:4 gpus:4 nvswitch=300GB/s nics:2x25GB/s contention=0.1",
        "servers:4 gpus:8 nvswitch=300GB/s nics:4x25GB/s contention=0.1"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(specs); i++) {
        ccl_topology_t *topo = topology(specs[i]);
        for (size_t k = 0; k < CCL_ARRAY_LEN(kinds); k++) {
            double gap = simulated(topo, kinds[k], 1e9, false);
            ck_assert_msg(gap >= 1 && gap < 1.02, "%s on %s: %.4f of the bound",
                          ccl_collective_kind_name(kinds[k]), specs[i], gap);
        }
        ccl_topology_destroy(topo);
    }
}
END_TEST

START_TEST(refusals) {
    ccl_topology_t *topo = topology("dgx-a100");
    ccl_collective_t *want = collective(CCL_ALLTOALL, 8, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_synthesize(NULL, "packing", topo, NULL, want, NULL, &schedule, &err),
                     CCL_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "use direct or pxn"));
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("packing");
    TCase *tc = tcase_create("packing");
    tcase_set_timeout(tc, 110);
    tcase_add_test(tc, random_gpus);
    tcase_add_test(tc, clusters);
    if (access(CCLLAB_DATA_DIR "/peers/topologies", R_OK) == 0)
        tcase_add_test(tc, peers);
    tcase_add_test(tc, many_gpus);
    tcase_add_test(tc, one_root_of_many_gpus);
    tcase_add_test(tc, one_root_without_switches);
    tcase_add_test(tc, one_root_over_many_connections);
    tcase_add_test(tc, coarse_pieces_where_they_cost);
    tcase_add_test(tc, servers_alike);
    tcase_add_test(tc, chunks);
    tcase_add_test(tc, fine_pieces_where_they_cost_nothing);
    tcase_add_test(tc, fewest_trees_where_pieces_cost);
    if (!SANITIZED)
        tcase_add_test(tc, rails_where_switches_add);
    tcase_add_test(tc, many_micro_batches_come_near_the_bound);
    tcase_add_test(tc, few_connections_where_sharing_loses);
    tcase_add_test(tc, refusals);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
