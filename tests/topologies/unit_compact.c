/* Expansion of the compact form: ids, ranks, groups, constants, and every fabric. */
#include "tests/topologies/cluster_helpers.h"

/* Two GPUs with a NIC each, and one GPU with four ports, so that servers are of unequal make. */
#define PAIR                                                                                       \
    "{\"name\":\"pair\",\"devices\":[{\"id\":\"gpu0\",\"kind\":\"gpu\",\"model\":\"A\"},"          \
    "{\"id\":\"gpu1\",\"kind\":\"gpu\",\"model\":\"A\"},{\"id\":\"nic0\",\"kind\":\"nic\"},"       \
    "{\"id\":\"nic1\",\"kind\":\"nic\"}],\"links\":["                                              \
    "{\"from\":\"gpu0\",\"to\":\"gpu1\",\"kind\":\"nvlink\",\"bandwidth\":\"100GB/s\","            \
    "\"latency\":\"1us\",\"lanes\":2,\"contention\":0.5},"                                         \
    "{\"from\":\"gpu0\",\"to\":\"nic0\",\"kind\":\"pcie\",\"bandwidth\":\"20GB/s\"},"              \
    "{\"from\":\"gpu1\",\"to\":\"nic1\",\"kind\":\"pcie\",\"bandwidth\":\"20GB/s\"}],"             \
    "\"groups\":[{\"name\":\"out0\",\"links\":[[\"gpu0\",\"gpu1\"],[\"gpu0\",\"nic0\"]],"          \
    "\"bandwidth\":\"110GB/s\"}],"                                                                 \
    "\"ports\":[{\"device\":\"nic0\",\"bandwidth\":\"10GB/s\",\"latency\":\"2us\"},"               \
    "{\"device\":\"nic1\",\"bandwidth\":\"12GB/s\",\"latency\":\"3us\"}],"                         \
    "\"gpu_models\":{\"A\":{\"launch\":\"5us\"}}}"
#define WIDE                                                                                       \
    "{\"name\":\"wide\",\"devices\":[{\"id\":\"gpu0\",\"kind\":\"gpu\"}],"                         \
    "\"ports\":[{\"device\":\"gpu0\",\"bandwidth\":\"1GB/s\"},"                                    \
    "{\"device\":\"gpu0\",\"bandwidth\":\"2GB/s\"},"                                               \
    "{\"device\":\"gpu0\",\"bandwidth\":\"3GB/s\"},"                                               \
    "{\"device\":\"gpu0\",\"bandwidth\":\"4GB/s\"}]}"
#define CLUSTER(servers_, rest_)                                                                   \
    "{\"format\":\"ccllab-cluster-1\",\"name\":\"t\",\"servers\":[" servers_ "]," rest_ "}"
#define PAIRS(n_) "{\"server\":" PAIR ",\"count\":" n_ "}"

/* Whole numbers where names stand: "s0/0" is GPU 0 of the first server. */
START_TEST(numbers_as_names) {
    ccl_topology_t *t = topology_of(
        "{\"format\":\"ccllab-cluster-1\",\"name\":5,\"servers\":[{\"server\":{\"name\":6,"
        "\"devices\":[{\"id\":0,\"kind\":\"gpu\",\"model\":7},{\"id\":1,\"kind\":\"gpu\"},"
        "{\"id\":2,\"kind\":\"nic\"}],\"links\":[{\"from\":0,\"to\":1,\"kind\":8,"
        "\"bandwidth\":\"1GB/s\"},{\"from\":\"0\",\"to\":2,\"kind\":\"pcie\",\"bandwidth\":\"1GB/"
        "s\"}],"
        "\"groups\":[{\"name\":9,\"links\":[[0,1],[0,\"2\"]],\"bandwidth\":\"1GB/s\"}],"
        "\"ports\":[{\"device\":2,\"bandwidth\":\"1GB/"
        "s\"}],\"gpu_models\":{\"7\":{\"launch\":\"1us\"}}},"
        "\"count\":2}],\"fabric\":{\"kind\":\"single\"}}");
    ck_assert_str_eq(t->name, "5");
    check_link(t, "s1/0", "s1/1", "8", 1, 0, "a kind, too");
    check_link(t, "s0/2", "fabric/switch", "net", 1, 0, "its port");
    ck_assert_str_eq(t->groups[1].name, "s1/9");
    ck_assert_str_eq(t->gpu_models[0].name, "7");
    ck_assert_double_eq(t->gpu_models[0].launch_s, 1e-6);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(single) {
    ccl_topology_t *t =
        topology_of(CLUSTER(PAIRS("2"), "\"fabric\":{\"kind\":\"single\",\"contention\":0.25}"));
    ck_assert_str_eq(t->name, "t");
    ck_assert_uint_eq(t->nranks, 4);
    ck_assert_uint_eq(t->nservers, 2);
    ck_assert_uint_eq(t->ndevices, 9);
    ck_assert_uint_eq(t->nlinks, 2 * 6 + 2 * 4);
    for (uint32_t r = 0; r < 4; r++) {
        char id[32];
        snprintf(id, sizeof id, "s%u/gpu%u", r / 2, r % 2);
        ck_assert_str_eq(t->devices[t->rank_device[r]].id, id);
        ck_assert_uint_eq(t->rank_local_index[r], r % 2);
    }
    check_link(t, "s1/gpu0", "s1/gpu1", "nvlink", 100, 1, "inside a server");
    ck_assert_uint_eq(link_of(t, "s1/gpu1", "s1/gpu0")->lanes, 2);
    ck_assert_double_eq(link_of(t, "s1/gpu1", "s1/gpu0")->contention, 0.5);
    check_link(t, "s0/nic0", "fabric/switch", "net", 10, 2, "port 0 with its own rate");
    check_link(t, "fabric/switch", "s1/nic1", "net", 12, 3, "port 1, into the server");
    ck_assert_double_eq(link_of(t, "s0/nic0", "fabric/switch")->contention, 0.25);
    ck_assert_uint_eq(t->ngroups, 2);
    ck_assert_str_eq(t->groups[1].name, "s1/out0");
    ck_assert_uint_eq(t->groups[1].nlinks, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const ccl_link_t *l = &t->links[t->groups[1].links[i]];
        ck_assert_str_eq(t->devices[l->from].id, "s1/gpu0");
        ck_assert_str_eq(t->devices[l->to].id, i == 0 ? "s1/gpu1" : "s1/nic0");
    }
    ck_assert_uint_eq(t->ngpu_models, 1);
    ck_assert_double_eq(t->gpu_models[0].launch_s, 5e-6);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(ports_can_be_overridden) {
    ccl_topology_t *t = topology_of(
        CLUSTER(PAIRS("2"),
                "\"fabric\":{\"kind\":\"single\",\"bandwidth\":\"7GB/s\",\"latency\":\"0us\"}"));
    check_link(t, "s0/nic0", "fabric/switch", "net", 7, 0, "the fabric's rate and latency");
    check_link(t, "fabric/switch", "s1/nic1", "net", 7, 0, "the fabric's rate and latency");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(rail) {
    ccl_topology_t *t = topology_of(CLUSTER(PAIRS("2"), "\"fabric\":{\"kind\":\"rail\"}"));
    check_link(t, "s0/nic0", "fabric/rail0", "net", 10, 2, "port 0 on rail 0");
    check_link(t, "s1/nic1", "fabric/rail1", "net", 12, 3, "port 1 on rail 1");
    check_link(t, "s0/nic0", "fabric/rail1", "net", 0, 0, "one rail per port");
    ccl_routes_t *routes = ccl_routes_create(t);
    const ccl_route_t *route;
    ck_assert_msg(has_route(routes, 0, 2, &route), "same rail");
    ck_assert_msg(!has_route(routes, 0, 3, &route), "other rails need a relaying GPU");
    ccl_routes_destroy(routes);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(rail_of_unequal_servers) {
    /* The poorest server has two ports: two rails, and ports 2 and 3 of the other wrap around. */
    ccl_topology_t *t =
        topology_of(CLUSTER(PAIRS("1") ",{\"server\":" WIDE "}", "\"fabric\":{\"kind\":\"rail\"}"));
    ck_assert_uint_eq(device_of(t, "fabric/rail2"), CCL_NONE);
    uint32_t rail0 = device_of(t, "fabric/rail0"), wide = device_of(t, "s1/gpu0");
    double rate_Bps = 0;
    for (uint32_t l = 0; l < t->nlinks; l++)
        if (t->links[l].from == wide && t->links[l].to == rail0)
            rate_Bps += t->links[l].bandwidth_Bps;
    ck_assert_double_eq(rate_Bps, 4e9); /* ports 0 and 2: 1 + 3 GB/s */
    ccl_topology_destroy(t);
    t = topology_of(
        CLUSTER(PAIRS("1") ",{\"server\":" WIDE "}", "\"fabric\":{\"kind\":\"rail\",\"rails\":4}"));
    check_link(t, "s1/gpu0", "fabric/rail3", "net", 4, 0, "as many rails as asked for");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(rail_with_spines) {
    ccl_topology_t *t =
        topology_of(CLUSTER(PAIRS("3"), "\"fabric\":{\"kind\":\"rail\",\"spine\":{\"count\":2,"
                                        "\"oversubscription\":3,\"latency\":\"1us\"}}"));
    check_link(t, "fabric/rail0", "fabric/spine1", "net", 5, 1, "3 x 10 GB/s over 3 and 2 spines");
    check_link(t, "fabric/spine0", "fabric/rail1", "net", 6, 1, "3 x 12 GB/s over 3 and 2 spines");
    ccl_routes_t *routes = ccl_routes_create(t);
    const ccl_route_t *route;
    ck_assert_msg(has_route(routes, 0, 3, &route), "the spine joins the rails");
    ck_assert_uint_eq(route->nlinks, 6); /* gpu nic rail spine rail nic gpu */
    ck_assert_msg(has_route(routes, 0, 2, &route), "same rail");
    ck_assert_uint_eq(route->nlinks, 4);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(t);
    t = topology_of(
        CLUSTER(PAIRS("2"), "\"fabric\":{\"kind\":\"rail\",\"spine\":{\"bandwidth\":\"9GB/s\"}}"));
    check_link(t, "fabric/rail1", "fabric/spine0", "net", 9, 3, "given rate, the port's latency");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(clos) {
    /* Three servers, two to a leaf: the second leaf holds one. */
    ccl_topology_t *t = topology_of(
        CLUSTER(PAIRS("3"), "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":2,\"spines\":2,"
                            "\"oversubscription\":2}"));
    check_link(t, "s1/nic1", "fabric/leaf0", "net", 12, 3, "second server of leaf 0");
    check_link(t, "s2/nic0", "fabric/leaf1", "net", 10, 2, "third server on leaf 1");
    check_link(t, "fabric/leaf0", "fabric/spine1", "net", 11, 3, "44 GB/s over 2 and 2 spines");
    check_link(t, "fabric/spine0", "fabric/leaf1", "net", 5.5, 3, "22 GB/s over 2 and 2 spines");
    ccl_topology_destroy(t);
    t = topology_of(CLUSTER(PAIRS("3"),
                            "\"fabric\":{\"kind\":\"clos\",\"ports_per_leaf\":4,"
                            "\"uplink_bandwidth\":\"8GB/s\",\"uplink_latency\":\"0.5us\"}"));
    check_link(t, "s1/nic1", "fabric/leaf0", "net", 12, 3, "ports counted over the servers");
    check_link(t, "s2/nic0", "fabric/leaf1", "net", 10, 2, "port 4 is the next leaf's first");
    check_link(t, "fabric/leaf1", "fabric/spine0", "net", 8, 0.5, "given rate and latency");
    ccl_topology_destroy(t);
    t = topology_of(CLUSTER(PAIRS("2"), "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":2}"));
    ck_assert_uint_eq(device_of(t, "fabric/spine0"), CCL_NONE); /* one leaf needs no spine */
    ccl_topology_destroy(t);
    t = topology_of(
        CLUSTER(PAIRS("4"), "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":2,\"rails\":2}"));
    check_link(t, "s1/nic1", "fabric/leaf1", "net", 12, 3, "rail 1 of the first block");
    check_link(t, "s2/nic0", "fabric/leaf2", "net", 10, 2, "rail 0 of the second block");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(clos_of_three_tiers) {
    ccl_topology_t *t = topology_of(
        CLUSTER(PAIRS("8"), "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":2,\"spines\":1,"
                            "\"leaves_per_pod\":2,\"cores\":2,\"core_oversubscription\":4}"));
    check_link(t, "fabric/leaf1", "fabric/spine0", "net", 44, 3, "pod 0, not oversubscribed");
    check_link(t, "fabric/leaf2", "fabric/spine1", "net", 44, 3, "pod 1");
    check_link(t, "fabric/leaf2", "fabric/spine0", "net", 0, 0, "spines keep to their pod");
    check_link(t, "fabric/spine1", "fabric/core1", "net", 11, 3, "88 GB/s over 4 and 2 cores");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(direct) {
    ccl_topology_t *t = topology_of(
        CLUSTER(PAIRS("2"), "\"fabric\":{\"kind\":\"direct\",\"links\":["
                            "{\"from\":\"s0:0\",\"to\":\"s1:1\",\"duplex\":false},"
                            "{\"from\":\"s1:0\",\"to\":\"s0:0\",\"bandwidth\":\"3GB/s\","
                            "\"latency\":\"4us\"}]}"));
    check_link(t, "s0/nic0", "s1/nic1", "net", 10, 3, "the lesser rate, the larger latency");
    check_link(t, "s1/nic1", "s0/nic0", "net", 0, 0, "one direction");
    check_link(t, "s1/nic0", "s0/nic0", "net", 3, 4, "its own rate and latency");
    check_link(t, "s0/nic0", "s1/nic0", "net", 3, 4, "both directions");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(one_way_ports) {
    ccl_topology_t *t = topology_of(
        CLUSTER("{\"count\":2,\"server\":{\"devices\":[{\"id\":\"g\",\"kind\":\"gpu\"}],\"ports\":["
                "{\"device\":\"g\",\"bandwidth\":\"1GB/s\",\"direction\":\"out\"},"
                "{\"device\":\"g\",\"bandwidth\":\"2GB/s\",\"direction\":\"in\"}]}}",
                "\"fabric\":{\"kind\":\"single\"}"));
    ck_assert_uint_eq(t->nlinks, 4);
    check_link(t, "s0/g", "fabric/switch", "net", 1, 0, "out");
    check_link(t, "fabric/switch", "s1/g", "net", 2, 0, "in");
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(library_types_and_overrides) {
    ccl_topology_t *t = topology_of(
        CLUSTER("{\"type\":\"h20-x4\"},{\"type\":\"h20-x8\",\"count\":2},{\"type\":\"h20-x4\"}",
                "\"fabric\":{\"kind\":\"rail\"},\"source\":\"where\",\"note\":\"what\","
                "\"transports\":{\"net\":{\"tb_rate\":\"1GB/s\",\"slice\":\"1MiB\"}},"
                "\"gpu_models\":{\"H20\":{\"sms\":7}}"));
    ck_assert_uint_eq(t->nranks, 24);
    ck_assert_uint_eq(t->nservers, 4);
    ck_assert_str_eq(t->devices[t->rank_device[4]].id, "s1/gpu0");
    ck_assert_str_eq(t->devices[t->rank_device[23]].id, "s3/gpu3");
    ck_assert_str_eq(t->source, "where");
    ck_assert_str_eq(t->note, "what");
    ck_assert_uint_eq(t->ngpu_models, 1);
    ck_assert_uint_eq(t->gpu_models[0].sms, 7);
    ck_assert_double_eq(t->gpu_models[0].launch_s, 0); /* replaced as a whole */
    bool nvlink = false;
    uint32_t net = 0;
    for (uint32_t i = 0; i < t->ntransports; i++) {
        nvlink = nvlink || strcmp(t->transports[i].kind, "nvlink") == 0;
        if (strcmp(t->transports[i].kind, "net") == 0) {
            net++;
            ck_assert_double_eq(t->transports[i].value.tb_rate_Bps, 1e9);
        }
    }
    ck_assert_msg(nvlink, "the server's other transports stay");
    ck_assert_uint_eq(net, 1); /* with no protocols: the cluster's gives none */
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(server_alone) {
    ccl_topology_t *t = topology_of("{\"format\":\"ccllab-server-1\",\"name\":\"x\","
                                    "\"devices\":[{\"id\":\"g\",\"kind\":\"gpu\"}],"
                                    "\"source\":\"s\",\"chosen\":[\"a\",\"b\"]}");
    ck_assert_str_eq(t->name, "x");
    ck_assert_str_eq(t->source, "s");
    ck_assert_uint_eq(t->nranks, 1);
    ck_assert_str_eq(t->devices[0].id, "s0/g");
    ccl_topology_destroy(t);
    t = topology_of(CLUSTER(PAIRS("1"), "\"note\":\"\""));
    ck_assert_uint_eq(t->nlinks, 6); /* a lone server needs no fabric */
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(groups_take_parallel_links) {
    ccl_topology_t *t =
        topology_of("{\"format\":\"ccllab-server-1\",\"devices\":[{\"id\":\"a\",\"kind\":\"gpu\"},"
                    "{\"id\":\"b\",\"kind\":\"gpu\"}],\"links\":["
                    "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"1GB/s\"},"
                    "{\"from\":\"b\",\"to\":\"a\",\"kind\":\"nvlink\",\"bandwidth\":\"2GB/s\"},"
                    "{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"3GB/s\","
                    "\"duplex\":false}],\"groups\":[{\"name\":\"g\",\"bandwidth\":\"1GB/s\","
                    "\"links\":[[\"a\",\"b\"]]}]}");
    ck_assert_uint_eq(t->groups[0].nlinks, 3); /* all from a to b in that direction */
    double rate_Bps = 0;
    for (uint32_t i = 0; i < 3; i++)
        rate_Bps += t->links[t->groups[0].links[i]].bandwidth_Bps;
    ck_assert_double_eq(rate_Bps, 6e9);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(written_and_read_back) {
    ccl_topology_t *t = topology_of(
        CLUSTER(PAIRS("3") ",{\"server\":" WIDE ",\"count\":2}",
                "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":2,\"contention\":0.1}"));
    ccl_text_t text = {0};
    MUST(ccl_topology_write_json(t, &text, e));
    ccl_topology_t *again = topology_of(text.data);
    const char *difference = topology_difference(t, again);
    ck_assert_msg(!difference, "%s", difference);
    ccl_text_fini(&text);
    ccl_topology_destroy(t);
    ccl_topology_destroy(again);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("compact");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, single);
    tcase_add_test(tc, numbers_as_names);
    tcase_add_test(tc, ports_can_be_overridden);
    tcase_add_test(tc, rail);
    tcase_add_test(tc, rail_of_unequal_servers);
    tcase_add_test(tc, rail_with_spines);
    tcase_add_test(tc, clos);
    tcase_add_test(tc, clos_of_three_tiers);
    tcase_add_test(tc, direct);
    tcase_add_test(tc, one_way_ports);
    tcase_add_test(tc, library_types_and_overrides);
    tcase_add_test(tc, server_alone);
    tcase_add_test(tc, groups_take_parallel_links);
    tcase_add_test(tc, written_and_read_back);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
