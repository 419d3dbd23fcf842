/*
 * The ring against its own closed form, (n - 1)/n size / (rings x rate of the slowest hop) for
 * AllGather and twice that for AllReduce, at 1 GB: at least 95 %, never above 100 %. Every NIC of
 * every server takes part, and in both directions.
 */
#include "common.h"
#include "synth/common/plan.h"

static const struct {
    const char *spec;
    ccl_collective_kind_t kind;
    double total_GBps; /* of all rings together, by hand; 0: not given */
    double least;      /* of the closed form */
    const char *why;
} rows[] = {
    {"heteccl-h20-4+8", CCL_ALLGATHER, 200, 0.95, "4 NICs of 50 on either side"},
    {"heteccl-h20-4+8", CCL_ALLREDUCE, 200, 0.95, "the same twice"},
    {"heteccl-h20-4x3+8", CCL_ALLGATHER, 200, 0.95, "four servers"},
    {"heteccl-v100-4+8", CCL_ALLGATHER, 32, 0.95, "4 NICs of 8 (64 Gbit/s behind PCIe)"},
    {"forestcoll-a100-2x8", CCL_ALLGATHER, 200, 0.95, "8 NICs of 25"},
    {"forestcoll-a100-2x8", CCL_ALLREDUCE, 200, 0.95, "8 NICs of 25"},
    {"servers:2 gpus:8 nvswitch=300GB/s,0.7us nics:4x25GB/s,2us", CCL_ALLGATHER, 100, 0.99,
     "GPUs share NICs"},
    {"servers:4 gpus:8 nvswitch=300GB/s,0.7us nics:8x25GB/s,2us fabric=rail", CCL_ALLGATHER, 200,
     0.99, "rails, even number of servers"},
    {"servers:3 gpus:8 nvswitch=300GB/s,0.7us nics:8x25GB/s,2us fabric=rail", CCL_ALLREDUCE, 200,
     0.99, "rails, odd number of servers"},
    {"servers:3 gpus:4 nvswitch=300GB/s,0.7us nics:8x25GB/s,2us", CCL_ALLGATHER, 200, 0.99,
     "more NICs than GPUs"},
    {"servers:1 gpus:8 nvswitch=300GB/s,0.7us", CCL_ALLGATHER, 300, 0.99, "one switch"},
    {"gpus:4 nvlink=mesh,150GB/s,0.7us", CCL_ALLGATHER, 450, 0.99,
     "full mesh of 4: no three cycles without a link in common, six at half its rate"},
    {"gpus:4 nvlink=mesh,150GB/s,0.7us", CCL_ALLREDUCE, 450, 0.99, "the same twice"},
    {"gpus:5 nvlink=mesh,50GB/s,0.7us", CCL_ALLGATHER, 200, 0.99, "two cycles, both ways"},
    {"gpus:6 nvlink=mesh,50GB/s,0.7us", CCL_ALLGATHER, 250, 0.99, "ten at half of a link's rate"},
    {"gpus:8 nvlink=mesh,50GB/s,0.7us", CCL_ALLGATHER, 350, 0.99, "all links"},
    {"servers:2 gpus:4 nvlink=mesh,25GB/s,0.7us nics:4x25GB/s,2us", CCL_ALLGATHER, 100, 0.99,
     "four paths without a link in common, each GPU at an end of two"},
    {"servers:2 gpus:6 nvlink=mesh,25GB/s,0.7us nics:6x25GB/s,2us", CCL_ALLGATHER, 150, 0.99,
     "six such paths"},
    {"servers:4 gpus:4 nvlink=mesh,25GB/s,0.7us nics:4x25GB/s,2us fabric=rail", CCL_ALLREDUCE, 100,
     0.99, "rails; links inside servers and NICs all full"},
    {"dgx1-v100", CCL_ALLGATHER, 150, 0.95, "hybrid cube mesh: six NVLinks of 25 into every GPU"},
    {"dgx1-v100", CCL_ALLREDUCE, 150, 0.95, "hybrid cube mesh"},
    {"mi300x-x8", CCL_ALLGATHER, 0, 0.91, "full mesh; blocks copy out in step, 7 sends to a copy"},
    {"dgx-a100", CCL_ALLREDUCE, 300, 0.95, "thread blocks limit a ring"},
    {"h20-x8", CCL_ALLGATHER, 450, 0.95, "thread blocks limit a ring"},
    {"v100-pcie-x4", CCL_ALLREDUCE, 12, 0.94, "blocks copy out in step over shared PCIe"},
};

START_TEST(test_closed_form) {
    ccl_topology_t *topo = topology(rows[_i].spec);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_i_cluster_t cluster;
    ccl_i_rings_t rings;
    bool reduces = rows[_i].kind == CCL_ALLREDUCE;
    double size_bytes = 1e9, n = topo->nranks;
    ck_assert_int_eq(ccl_i_cluster_init(&cluster, topo, routes, &err), CCL_OK);
    ck_assert_int_eq(
        ccl_i_rings_init(NULL, &cluster, CCL_I_MAX_AUTO_CHANNELS, reduces, &rings, &err), CCL_OK);
    double total_Bps = rings.predicted_Bps[rings.best - 1];
    if (rows[_i].total_GBps > 0)
        ck_assert_double_eq_tol(total_Bps / 1e9, rows[_i].total_GBps, 1e-6);

    ccl_collective_t *want = collective(rows[_i].kind, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    sim.size_bytes = size_bytes;
    ck_assert_int_eq(ccl_synthesize(NULL, "ring", topo, routes, want, NULL, &schedule, &err),
                     CCL_OK);
    ck_assert_uint_eq(schedule->nchannels, rings.best);
    ck_assert_int_eq(ccl_lower(NULL, schedule, NULL, &program, &err), CCL_OK);
    ccl_status_t status = ccl_sim_program(NULL, topo, routes, program, &sim, &result, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", rows[_i].spec, err.text);
    double closed_s = (reduces ? 2 : 1) * (n - 1) / n * size_bytes / total_Bps;
    ck_assert_msg(closed_s / result->time_s >= rows[_i].least, "%s (%s): %.4f of the closed form",
                  rows[_i].spec, rows[_i].why, closed_s / result->time_s);
    ck_assert_msg(closed_s / result->time_s <= 1 + 1e-9, "%s: above its closed form",
                  rows[_i].spec);
    for (uint32_t l = 0; l < topo->nlinks && cluster.nservers > 1; l++) {
        const ccl_link_t *link = &topo->links[l];
        if (topo->devices[link->from].kind == CCL_DEVICE_NIC &&
            strcmp(topo->kinds[link->kind], "net") == 0)
            ck_assert_msg(result->links[l].bytes > 0, "%s: %s sends nothing", rows[_i].spec,
                          topo->devices[link->from].id);
        if (topo->devices[link->to].kind == CCL_DEVICE_NIC &&
            strcmp(topo->kinds[link->kind], "net") == 0)
            ck_assert_msg(result->links[l].bytes > 0, "%s: %s receives nothing", rows[_i].spec,
                          topo->devices[link->to].id);
    }
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_i_rings_fini(&rings);
    ccl_i_cluster_fini(&cluster);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Full meshes, each link of which is wanted: against the lower bound, which knows nothing of rings.
 */
static const char *const meshes[] = {
    "gpus:4 nvlink=mesh,150GB/s,0.7us",
    "gpus:6 nvlink=mesh,50GB/s,0.7us",
    "gpus:8 xgmi=mesh,48GB/s,0.7us",
    "servers:2 gpus:4 nvlink=mesh,25GB/s,0.7us nics:4x25GB/s,2us",
    "servers:2 gpus:6 nvlink=mesh,25GB/s,0.7us nics:6x25GB/s,2us",
    "servers:4 gpus:4 nvlink=mesh,25GB/s,0.7us nics:4x25GB/s,2us",
};

START_TEST(test_meshes) {
    ccl_topology_t *topo = topology(meshes[_i]);
    ccl_collective_t *want = collective(CCL_ALLGATHER, topo->nranks, 0);
    ccl_schedule_t *schedule = NULL;
    ccl_program_t *program = NULL;
    ccl_sim_result_t *result = NULL;
    ccl_bound_t bound;
    ccl_sim_options_t sim = CCL_SIM_OPTIONS_INIT;
    sim.size_bytes = 1e9;
    ck_assert_int_eq(ccl_bound(NULL, topo, want, NULL, &bound, NULL), CCL_OK);
    ck_assert_int_eq(ccl_synthesize(NULL, "ring", topo, NULL, want, NULL, &schedule, NULL), CCL_OK);
    ck_assert_int_eq(ccl_lower(NULL, schedule, NULL, &program, NULL), CCL_OK);
    ck_assert_int_eq(ccl_sim_program(NULL, topo, NULL, program, &sim, &result, NULL), CCL_OK);
    double share = ccl_bound_time_s(&bound, sim.size_bytes) / result->time_s;
    ck_assert_msg(share >= 0.97 && share <= 1 + 1e-9, "%s: %.4f of the bound", meshes[_i], share);
    ccl_bound_fini(&bound);
    ccl_sim_result_destroy(result);
    ccl_program_destroy(program);
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
}
END_TEST

/* A graph without servers: a name in the peers' data and what its rings reach. */
static const struct {
    const char *file;
    double total_GBps;
    const char *why;
} graphs[] = {
    {"mesh_4x4", 100, "a corner has two links in: both directions of one Hamiltonian cycle"},
    {"mesh_8x8", 100, "the same, larger"},
    {"torus_4x4", 200, "four links in: two disjoint cycles, both ways"},
    {"dgx1_v100_8", 150, "six NVLinks in"},
    {"ndv2_2x8", 12.5, "one link between the servers"},
};

START_TEST(test_graphs) {
    char path[600];
    snprintf(path, sizeof path, "%s/peers/topologies/%s.json", CCLLAB_DATA_DIR, graphs[_i].file);
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_msg(ccl_topology_read(NULL, path, &topo, &err) == CCL_OK, "%s", err.text);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_i_cluster_t cluster;
    ccl_i_rings_t rings;
    ck_assert_int_eq(ccl_i_cluster_init(&cluster, topo, routes, &err), CCL_OK);
    ck_assert_int_eq(ccl_i_rings_init(NULL, &cluster, 8, false, &rings, &err), CCL_OK);
    ck_assert_double_eq_tol(rings.predicted_Bps[rings.best - 1] / 1e9, graphs[_i].total_GBps, 1e-6);
    ccl_i_rings_fini(&rings);
    ccl_i_cluster_fini(&cluster);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model.synth.ring");
    TCase *tcase = tcase_create("closed form");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test_closed_form, 0, (int)CCL_ARRAY_LEN(rows));
    tcase_add_loop_test(tcase, test_meshes, 0, (int)CCL_ARRAY_LEN(meshes));
    if (access(CCLLAB_DATA_DIR "/peers/topologies", R_OK) == 0)
        tcase_add_loop_test(tcase, test_graphs, 0, (int)CCL_ARRAY_LEN(graphs));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
