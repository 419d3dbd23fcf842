/* Transports, contention and the cost of one transfer, against their closed forms. */
#include <math.h>

#include "models/models.h"
#include "tests/topologies/topologies.h"

static const char text[] =
    "{\"format\":\"ccllab-topology-1\",\"devices\":["
    "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},"
    "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1,\"model\":\"M\"},"
    "{\"id\":\"n\",\"kind\":\"nic\"},{\"id\":\"w\",\"kind\":\"switch\"},"
    "{\"id\":\"c\",\"kind\":\"gpu\",\"rank\":2}],"
    "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"kind\":\"nvlink\",\"bandwidth\":\"100GB/s\","
    "\"latency\":\"1us\"},"
    "{\"from\":\"a\",\"to\":\"n\",\"kind\":\"pcie\",\"bandwidth\":\"50GB/s\",\"latency\":\"2us\"},"
    "{\"from\":\"n\",\"to\":\"c\",\"kind\":\"net\",\"bandwidth\":\"25GB/s\",\"latency\":\"3us\"},"
    "{\"from\":\"b\",\"to\":\"w\",\"kind\":\"upi\",\"bandwidth\":\"20GB/s\"},"
    "{\"from\":\"w\",\"to\":\"c\",\"kind\":\"pcie\",\"bandwidth\":\"40GB/s\"}],"
    "\"transports\":{\"nvlink\":{\"overhead\":\"1us\",\"latency\":\"2us\",\"tb_rate\":\"20GB/s\","
    "\"slice\":\"1M\",\"slots\":4,\"protocols\":{\"LL\":{\"tb_rate\":\"5GB/"
    "s\",\"latency\":\"0.5us\","
    "\"direct\":false,\"slices\":3,\"slots\":2,\"slice\":\"32K\",\"piece\":\"64K\",\"overhead\":"
    "\"0\","
    "\"holds_tb\":false}}},\"net\":{\"latency\":\"4us\"}},"
    "\"gpu_models\":{\"M\":{\"reduce_rate\":\"10GB/s\",\"launch\":\"5us\"}}}";

START_TEST(transports) {
    ccl_topology_t *t = topology_of(text);
    ccl_transport_t simple = ccl_model_transport(t, "nvlink", "Simple");
    ck_assert(simple.overhead_s == 1e-6 && simple.latency_s == 2e-6 && simple.tb_rate_Bps == 20e9);
    ck_assert(simple.slice_bytes == 1048576 && isinf(simple.piece_bytes) && simple.slices == 1);
    ck_assert(simple.slots == 4 && simple.direct && simple.holds_tb);
    ccl_transport_t ll = ccl_model_transport(t, "nvlink", "LL");
    ck_assert(ll.overhead_s == 0 && ll.latency_s == 0.5e-6 && ll.tb_rate_Bps == 5e9);
    ck_assert(ll.slice_bytes == 32768 && ll.piece_bytes == 65536 && ll.slices == 3);
    ck_assert(ll.slots == 2 && !ll.direct && !ll.holds_tb);
    ccl_transport_t none = ccl_model_transport(t, "nvlink", NULL);
    ck_assert(none.tb_rate_Bps == 20e9); /* no protocol: the kind's own keys */
    ccl_transport_t net = ccl_model_transport(t, "net", "LL");
    ck_assert(net.latency_s == 4e-6 && !net.holds_tb && net.slots == 8 && isinf(net.tb_rate_Bps));
    ccl_transport_t other = ccl_model_transport(t, "warp", "LL");
    ck_assert(other.overhead_s == 0 && other.latency_s == 0 && isinf(other.tb_rate_Bps) &&
              isinf(other.slice_bytes) && other.slices == 1 && other.slots == 8 && other.direct &&
              other.holds_tb);
    ccl_topology_destroy(t);
}
END_TEST

/* A protocol listed before its kind still overrides it. */
START_TEST(order_of_the_list_does_not_matter) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    ck_assert_int_eq(ccl_topology_builder_device(b, "a", CCL_DEVICE_GPU, NULL, 0, NULL, NULL, NULL),
                     CCL_OK);
    ccl_transport_spec_t spec = {
        .kind = "net", .protocol = "LL", .given = CCL_TRANSPORT_SLOTS, .value = {.slots = 2}};
    ck_assert_int_eq(ccl_topology_builder_transport(b, &spec, NULL), CCL_OK);
    spec.protocol = NULL;
    spec.value.slots = 5;
    ck_assert_int_eq(ccl_topology_builder_transport(b, &spec, NULL), CCL_OK);
    ccl_topology_t *t = NULL;
    ck_assert_int_eq(ccl_topology_builder_finish(b, &t, NULL), CCL_OK);
    ck_assert_uint_eq(ccl_model_transport(t, "net", "LL").slots, 2);
    ck_assert_uint_eq(ccl_model_transport(t, "net", "Simple").slots, 5);
    ccl_topology_builder_destroy(b);
    ccl_topology_destroy(t);
}
END_TEST

/* A fit adds its constants to the list of a topology: of several the last has its way. */
START_TEST(several_in_turn) {
    ccl_transport_spec_t specs[] = {{.kind = "net", .protocol = "LL", .value = {.slots = 2}},
                                    {.kind = "net", .value = {.slots = 5, .slices = 4}},
                                    {.kind = "net", .protocol = "LL", .value = {.slots = 3}},
                                    {.kind = "net", .value = {.slots = 6}}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(specs); i++)
        specs[i].given = CCL_TRANSPORT_SLOTS;
    specs[1].given |= CCL_TRANSPORT_SLICES;
    const ccl_topology_t t = {.transports = specs, .ntransports = CCL_ARRAY_LEN(specs)};
    ck_assert_uint_eq(ccl_model_transport(&t, "net", "LL").slots, 3);
    ck_assert_uint_eq(ccl_model_transport(&t, "net", "Simple").slots, 6);
    ck_assert_uint_eq(ccl_model_transport(&t, "net", "Simple").slices, 4);
}
END_TEST

START_TEST(route_kinds) {
    static const struct {
        uint32_t src, dst;
        const char *kind, *why;
    } rows[] = {
        {0, 1, "nvlink", "one nvlink"},
        {0, 2, "net", "pcie, then net: net wins"},
        {1, 2, "pcie", "upi, then pcie: pcie wins"},
        {2, 1, "pcie", "pcie, then upi"},
    };
    ccl_topology_t *t = topology_of(text);
    ccl_routes_t *r = ccl_routes_create(t);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        const ccl_route_t *route = NULL;
        ck_assert_int_eq(ccl_routes_get(r, rows[i].src, rows[i].dst, 0, &route, NULL), CCL_OK);
        ck_assert_msg(strcmp(ccl_model_route_kind(t, route), rows[i].kind) == 0, "%s", rows[i].why);
    }
    ccl_routes_destroy(r);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(gpus) {
    ccl_topology_t *t = topology_of(text);
    ccl_gpu_model_t plain = ccl_model_gpu(t, 0), m = ccl_model_gpu(t, 1);
    ck_assert(isinf(plain.reduce_rate_Bps) && isinf(plain.copy_rate_Bps) && plain.launch_s == 0);
    ck_assert(m.reduce_rate_Bps == 10e9 && isinf(m.copy_rate_Bps) && m.launch_s == 5e-6);
    ccl_topology_destroy(t);
}
END_TEST

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * fabs(b);
}

START_TEST(tau) {
    static const struct {
        const char *why;
        uint32_t src, dst;
        const char *proto;
        double bytes;
        bool reduce;
        double tau_s;
    } rows[] = {
        {"overhead 1 + link 1 + transport 2 us, thread block 20 GB/s", 0, 1, "Simple", 1e6, false,
         4e-6 + 50e-6},
        {"LL: link 1 + transport 0.5 us, 5 GB/s", 0, 1, "LL", 1e6, false, 1.5e-6 + 200e-6},
        {"the receiver reduces at 10 GB/s", 0, 1, "Simple", 1e6, true, 4e-6 + 50e-6 + 100e-6},
        {"a receiver without a model reduces at once", 1, 0, "Simple", 1e6, true, 4e-6 + 50e-6},
        {"the narrowest link: net 25 GB/s, 2 + 3 + 4 us", 0, 2, "Simple", 1e6, false, 9e-6 + 40e-6},
        {"nothing to send costs alpha", 0, 2, "Simple", 0, true, 9e-6},
    };
    ccl_topology_t *t = topology_of(text);
    ccl_routes_t *r = ccl_routes_create(t);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        const ccl_route_t *route = NULL;
        ck_assert_int_eq(ccl_routes_get(r, rows[i].src, rows[i].dst, 0, &route, NULL), CCL_OK);
        double tau_s =
            ccl_model_tau(t, route, rows[i].proto, rows[i].dst, rows[i].bytes, rows[i].reduce);
        ck_assert_msg(near(tau_s, rows[i].tau_s), "%s: %.17g, not %.17g", rows[i].why, tau_s,
                      rows[i].tau_s);
    }
    ccl_routes_destroy(r);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(contention) {
    ck_assert(ccl_model_eta(0.5, 0) == 1 && ccl_model_eta(0.5, 1) == 1);
    ck_assert(near(ccl_model_eta(0.5, 3), 0.5)); /* 1 / (1 + 0.5 * 2) */
    ck_assert(near(ccl_model_eta(0.25, 2), 0.8));
    for (double z = 0; z < 50; z += 0.5) {
        ck_assert(ccl_model_eta(0, z) == 1); /* linear sharing */
        ck_assert(ccl_model_eta(0.1, z + 0.5) <= ccl_model_eta(0.1, z));
        /* With kappa <= 1 more blocks never lower the total below one block's worth. */
        ck_assert(z < 1 || z * ccl_model_eta(1, z) >= 1 - 1e-12);
    }
}
END_TEST

START_TEST(ceilings) {
    static const struct {
        double q, up;
    } rows[] = {{0, 0},         {0.3, 1},          {1, 1},
                {1 + 1e-10, 1}, {1 + 1e-8, 2},     {2.5, 3},
                {3 - 1e-12, 3}, {1e6 + 1e-4, 1e6}, {1e6 + 0.1, 1e6 + 1},
                {-0.5, 0},      {1e-12, 1}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ck_assert_msg(ccl_model_ceil(rows[i].q) == rows[i].up, "ceil(%.17g) = %.17g", rows[i].q,
                      ccl_model_ceil(rows[i].q));
        ck_assert(!signbit(ccl_model_ceil(rows[i].q)));
    }
}
END_TEST

/* A switch connection has its kind's transport, or one of its own, which needs no link. */
START_TEST(tree_kinds) {
    static const char *const own[] = {NULL, "nvlink-switch", "net-switch"};
    for (size_t i = 0; i < CCL_ARRAY_LEN(own); i++) {
        const uint32_t members[] = {0, 1};
        const ccl_tree_t *tree = NULL;
        ccl_topology_t *topo = NULL;
        ccl_topology_builder_t *b = with_gpus("switch", 2);
        uint32_t sw = add_device(b, "sw", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
        const ccl_device_t able = {.multicast = true, .reduce_rate_Bps = INFINITY};
        MUST(ccl_topology_builder_abilities(b, sw, &able, e));
        add_duplex(b, 0, sw, "nvlink", 100, 1);
        add_duplex(b, 1, sw, "nvlink", 100, 1);
        ccl_transport_spec_t spec = {
            .kind = own[i], .given = CCL_TRANSPORT_SLOTS, .value = {.slots = 2}};
        if (own[i])
            MUST(ccl_topology_builder_transport(b, &spec, e));
        topo = finish(b);
        ccl_routes_t *routes = ccl_routes_create(topo);
        MUST(ccl_routes_tree(routes, false, 0, members, 2, 0, &tree, e));
        ck_assert_str_eq(ccl_model_tree_kind(topo, &tree->route),
                         i == 1 ? "nvlink-switch" : "nvlink");
        ck_assert(ccl_model_transport(topo, "net-switch", NULL).holds_tb == false);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.models.costs");
    TCase *tc = tcase_create("costs");
    tcase_add_test(tc, tree_kinds);
    tcase_add_test(tc, transports);
    tcase_add_test(tc, order_of_the_list_does_not_matter);
    tcase_add_test(tc, several_in_turn);
    tcase_add_test(tc, route_kinds);
    tcase_add_test(tc, gpus);
    tcase_add_test(tc, tau);
    tcase_add_test(tc, contention);
    tcase_add_test(tc, ceilings);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
