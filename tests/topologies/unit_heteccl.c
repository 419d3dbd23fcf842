/* HeteCCL's topology language: figure 10 as printed, its balanced form, and each rule by hand. */
#include "import_helpers.h"

static ccl_topology_t *read_dsl(const char *text, ccl_text_t *log) {
    return import_logged(ccl_topology_read_heteccl, text, log);
}

/* As printed: line numbers, one "]" and one ")" missing. */
static const char figure10[] = "1 define nodenum = 2\n"
                               "2 define node1 = 2\n"
                               "3 define bandwidth = {direct => [( (0,1) -> (25,2) )\n"
                               ", ( (1,0) -> (25,2) ) ]}\n"
                               "4 define node2 = 4\n"
                               "5 define bandwidth = {switch => [( ( (0,1) , (2,3)\n"
                               ">-> (16,1) ) ) , direct => [( (0,1) -> (25,2) )\n"
                               ", ( (1,0) -> (25,2) ) , ( (2,3) -> (25,2) ) , ( (3,2)\n"
                               "-> (25,2) ) ]}\n"
                               "6 define internode = (node1, node2)\n"
                               "7 define interbandwidth = {switch => [( ( (0,1)\n"
                               ", (0,1,2,3) >-> (8,1) ) ]}\n";

static const char balanced[] =
    "# the same, balanced\n"
    "define nodenum=2 define node1=2 // two gpus\n"
    "define bandwidth={direct=>[((0,1)->(25,2)),((1,0)->(25,2))]}\n"
    "define node2=4\n"
    "define bandwidth={switch=>[(((0,1),(2,3))>->(16,1))]}\n"
    "define bandwidth={direct=>[((0,1)->(25,2)),((1,0)->(25,2)),((2,3)->(25,2)),((3,2)->(25,2))]}\n"
    "define internode=(node1,node2)\n"
    "define interbandwidth={switch=>[((0,1),(0,1,2,3)>->(8,1))]}";

static void check_figure10(const ccl_topology_t *t) {
    static const struct {
        const char *a, *b, *kind;
        double GBps;
        uint32_t lanes;
    } links[] = {
        {"node1/gpu0", "node1/gpu1", "nvlink", 50, 2},
        {"node2/gpu0", "node2/gpu1", "nvlink", 50, 2},
        {"node2/gpu2", "node2/gpu3", "nvlink", 50, 2},
        {"node2/gpu0", "node2/switch0", "pcie", 16, 1},
        {"node2/gpu1", "node2/switch0", "pcie", 16, 1},
        {"node2/gpu2", "node2/switch1", "pcie", 16, 1},
        {"node2/gpu3", "node2/switch1", "pcie", 16, 1},
        {"node2/switch0", "node2/host0", "pcie", 16, 1},
        {"node2/switch1", "node2/host0", "pcie", 16, 1},
        {"node1/gpu0", "node1/nic0", "pcie", 8, 1},
        {"node1/gpu1", "node1/nic0", "pcie", 8, 1},
        {"node2/host0", "node2/nic0", "pcie", 8, 1},
        {"node1/nic0", "fabric", "net", 8, 1},
        {"node2/nic0", "fabric", "net", 8, 1},
    };
    ck_assert_uint_eq(t->nranks, 6);
    ck_assert_uint_eq(t->nservers, 2);
    ck_assert_uint_eq(t->nlinks, 2 * CCL_ARRAY_LEN(links));
    for (size_t i = 0; i < CCL_ARRAY_LEN(links); i++)
        check_duplex(t, links[i].a, links[i].b, links[i].kind, links[i].GBps, links[i].lanes);
    for (uint32_t l = 0; l < t->nlinks; l++)
        ck_assert(t->links[l].latency_s == 0 && t->links[l].contention == 0);
    for (uint32_t r = 0; r < 6; r++) /* node by node */
        ck_assert_uint_eq(
            t->rank_device[r],
            device_of(t, (const char *const[]){"node1/gpu0", "node1/gpu1", "node2/gpu0",
                                               "node2/gpu1", "node2/gpu2", "node2/gpu3"}[r]));
    check_all_routes(t);
    /* Between nodes all share one NIC a side; pairs of a node without NVLink go over the host. */
    ccl_routes_t *routes = ccl_routes_create(t);
    const ccl_route_t *route = NULL;
    ck_assert(ccl_routes_get(routes, 0, 5, 0, &route, NULL) == CCL_OK);
    ck_assert(route->crosses_net && route->bottleneck_Bps == 8 * GB);
    ck_assert(ccl_routes_get(routes, 2, 4, 0, &route, NULL) == CCL_OK);
    ck_assert(route->nlinks == 4 && route->bottleneck_Bps == 16 * GB);
    ck_assert(ccl_routes_get(routes, 2, 3, 0, &route, NULL) == CCL_OK);
    ck_assert(route->nlinks == 1 && route->bottleneck_Bps == 50 * GB);
    ccl_routes_destroy(routes);
}

START_TEST(test_figure_10) {
    ccl_text_t log = {0};
    ccl_topology_t *t = read_dsl(figure10, &log);
    check_figure10(t);
    ccl_topology_destroy(t);
    /* Both slips of the figure are named, with their places. */
    ck_assert_ptr_nonnull(strstr(log.data, "t.in:7:16: \"]\" missing"));
    ck_assert_ptr_nonnull(strstr(log.data, "t.in:12:25: 1 \")\" missing"));
    ccl_text_fini(&log);
}
END_TEST

START_TEST(test_balanced_form) {
    ccl_text_t log = {0};
    ccl_topology_t *t = read_dsl(balanced, &log);
    check_figure10(t);
    ck_assert_msg(log.len == 0, "%s", log.data);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_read_by_content) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *t = NULL;
    ck_assert_msg(ccl_topology_read_text(NULL, "f.dsl", figure10, strlen(figure10), &t, &err) ==
                      CCL_OK,
                  "%s", err.text);
    ck_assert_str_eq(t->name, "f");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_one_switch_is_nvswitch) {
    ccl_topology_t *t = read_dsl("define nodenum = 1 define node1 = 3\n"
                                 "define bandwidth = {switch => [((0,1,2) >-> (25,18))]}",
                                 NULL);
    check_duplex(t, "node1/gpu2", "node1/switch0", "nvlink", 450, 18);
    ck_assert_uint_eq(count_kind(t, CCL_DEVICE_HOST), 0);
    check_all_routes(t);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(test_direct_is_one_way) {
    ccl_topology_t *t =
        read_dsl("define nodenum = 1 define node1 = 3 define bandwidth = {direct => "
                 "[((0,1)->(2.5,4)),((1,2)->(1,1)),((2,0)->(1,1))]}",
                 NULL);
    ck_assert_uint_eq(t->nlinks, 3);
    check_link(t, "node1/gpu0", "node1/gpu1", "nvlink", 10, 4);
    ccl_topology_destroy(t);
}
END_TEST

/* NICs: below the switch that has all their GPUs, below the host, or on links of their own. */
START_TEST(test_nic_places) {
    ccl_topology_t *t = read_dsl(
        "define nodenum = 3\n"
        "define node1 = 4 define bandwidth = {switch => [((0,1),(2,3) >-> (16,1))]}\n"
        "define node2 = 4 define bandwidth = {switch => [((0,1),(2,3) >-> (16,1))]}\n"
        "define node3 = 2 define bandwidth = {direct => [((0,1)->(25,1)),((1,0)->(25,1))]}\n"
        "define internode = (node1, node2)\n"
        "define interbandwidth = {switch => [((0,1),(0,1) >-> (12.5,1)), ((2,3),(2,3) >-> "
        "(12.5,1))]}\n"
        "define internode = (node2, node3)\n"
        "define interbandwidth = {switch => [((1,0),(0,1) >-> (12.5,1)), ((2,3),(0,1) >-> "
        "(12.5,1))]}\n"
        "define internode = (node1, node3)\n"
        "define interbandwidth = {switch => [((0,1,2,3),(0,1) >-> (12.5,1))]}\n"
        "define latency = {net => 1.3us, pcie => 0.5us, nvlink => 700ns}\n",
        NULL);
    check_duplex(t, "node1/nic0", "node1/switch0", "pcie", 12.5, 1);
    check_duplex(t, "node1/nic1", "node1/switch1", "pcie", 12.5, 1);
    check_duplex(t, "node1/nic2", "node1/host0", "pcie", 12.5, 1);
    check_duplex(t, "node3/nic0", "node3/gpu0", "pcie", 12.5, 1);
    check_duplex(t, "node3/nic1", "node3/gpu1", "pcie", 12.5, 1);
    /* node2's (0,1) and (2,3) are the same NICs in both statements; node3's two (0,1) of one
     * statement are two NICs, and the first of them serves the third statement. */
    ck_assert_uint_eq(count_kind(t, CCL_DEVICE_NIC), 3 + 2 + 2);
    for (uint32_t l = 0; l < t->nlinks; l++) {
        const char *kind = t->kinds[t->links[l].kind];
        double latency_s = strcmp(kind, "net") == 0    ? 1.3e-6
                           : strcmp(kind, "pcie") == 0 ? 0.5e-6
                                                       : 0.7e-6;
        ck_assert(fabs(t->links[l].latency_s - latency_s) < 1e-15);
    }
    check_all_routes(t);
    ccl_topology_destroy(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("heteccl");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, test_figure_10);
    tcase_add_test(tc, test_balanced_form);
    tcase_add_test(tc, test_read_by_content);
    tcase_add_test(tc, test_one_switch_is_nvswitch);
    tcase_add_test(tc, test_direct_is_one_way);
    tcase_add_test(tc, test_nic_places);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
