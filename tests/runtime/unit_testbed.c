/*
 * Clusters emulated by namespaces, without any: rates, commands, the emulated cluster, refusals,
 * and jobs whose processes have unequal shares of the ranks.
 */
#include "common.h"

#include <sys/wait.h>
#include <unistd.h>

#define MIXED "servers:2 gpus:1 nics:1x50GB/s + servers:2 gpus:1 nics:1x25GB/s"

static ccl_testbed_plan_t *plan_of(const char *spec, double rate_max_bps) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = topology(spec);
    ccl_testbed_plan_t *plan = NULL;
    ccl_status_t status = ccl_testbed_plan(topo, rate_max_bps, &plan, &err);
    ck_assert_msg(status == CCL_OK, "%s: %s", spec, err.text);
    ccl_topology_destroy(topo);
    return plan;
}

/* ---------------------------------------------------------------- rates */

static const struct {
    const char *why, *spec;
    double rate_max_bps;
    uint32_t nservers;
    double first_bps, last_bps;
} rates[] = {
    {"in proportion", MIXED, 5e8, 4, 5e8, 2.5e8},
    {"the fastest has 1 Gbit/s by default", MIXED, 0, 4, 1e9, 5e8},
    {"at most 4 Gbit/s together", "servers:8 gpus:1 nics:1x25GB/s", 0, 8, 5e8, 5e8},
    {"several NICs count as their sum",
     "servers:1 gpus:4 nvswitch=300GB/s nics:4x25GB/s + servers:1 gpus:2 nvswitch=300GB/s "
     "nics:1x50GB/s",
     8e8, 2, 8e8, 4e8},
    {"the least rate is just possible",
     "servers:1 gpus:1 nics:1x100GB/s + servers:1 gpus:1 nics:1x10GB/s", 0, 2, 1e9, 1e8},
};

START_TEST(test_rates) {
    ccl_testbed_plan_t *p = plan_of(rates[_i].spec, rates[_i].rate_max_bps);
    uint32_t n = rates[_i].nservers;
    ck_assert_msg(p->nservers == n, "%s", rates[_i].why);
    ck_assert_msg(p->servers[0].rate_out_bps == rates[_i].first_bps, "%s", rates[_i].why);
    ck_assert_msg(p->servers[n - 1].rate_in_bps == rates[_i].last_bps, "%s", rates[_i].why);
    ck_assert_uint_eq(p->first_rank[0], 0);
    ck_assert_uint_eq(p->first_rank[n], p->nranks);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(p->first_rank[i + 1] - p->first_rank[i], p->servers[i].nranks);
        ck_assert_double_eq_tol(p->servers[i].rate_out_bps / 8 / p->servers[i].out_Bps, p->scale,
                                1e-9);
    }
    ccl_testbed_plan_destroy(p);
}
END_TEST

static const struct {
    const char *spec, *text;
    double rate_max_bps;
    ccl_status_t status;
} refused[] = {
    {"servers:1 gpus:8 nvswitch=300GB/s", "1 server with GPUs: a testbed is of at least 2", 0,
     CCL_ERR_INPUT},
    {"servers:1 gpus:1 nics:1x100GB/s + servers:1 gpus:1 nics:1x9GB/s",
     "would have 90 Mbit/s: less than 100", 0, CCL_ERR_INPUT},
    {"servers:65 gpus:1 nics:1x25GB/s", "more than 64 servers", 0, CCL_ERR_INPUT},
    {"servers:64 gpus:1 nics:1x25GB/s", "would have 62.5 Mbit/s", 0, CCL_ERR_INPUT},
    {MIXED, "a fastest rate of 2000 Mbit/s: 100 to 1000", 2e9, CCL_ERR_USAGE},
    {MIXED, "a fastest rate of 50 Mbit/s", 5e7, CCL_ERR_USAGE},
    {"{\"format\":\"ccllab-topology-1\",\"name\":\"x\",\"devices\":["
     "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0},{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1}],"
     "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"kind\":\"net\",\"bandwidth\":\"1GB/s\"}]}",
     "GPU a is in no server", 0, CCL_ERR_INPUT},
    {"{\"format\":\"ccllab-topology-1\",\"name\":\"x\",\"devices\":["
     "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0,\"server\":\"s\"},"
     "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1,\"server\":\"t\"},"
     "{\"id\":\"c\",\"kind\":\"gpu\",\"rank\":2,\"server\":\"s\"},"
     "{\"id\":\"w\",\"kind\":\"switch\"}],"
     "\"links\":[{\"from\":\"a\",\"to\":\"w\",\"kind\":\"net\",\"bandwidth\":\"1GB/s\"},"
     "{\"from\":\"b\",\"to\":\"w\",\"kind\":\"net\",\"bandwidth\":\"1GB/s\"},"
     "{\"from\":\"c\",\"to\":\"w\",\"kind\":\"net\",\"bandwidth\":\"1GB/s\"}]}",
     "ranks of server s do not follow each other", 0, CCL_ERR_INPUT},
    {"{\"format\":\"ccllab-topology-1\",\"name\":\"x\",\"devices\":["
     "{\"id\":\"a\",\"kind\":\"gpu\",\"rank\":0,\"server\":\"s\"},"
     "{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1,\"server\":\"t\"}],"
     "\"links\":[{\"from\":\"a\",\"to\":\"b\",\"kind\":\"pcie\",\"bandwidth\":\"1GB/s\"}]}",
     "no net link leaves and enters server s", 0, CCL_ERR_INPUT},
};

START_TEST(test_refused) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_topology_t *topo = NULL;
    ccl_testbed_plan_t *plan = NULL;
    const char *spec = refused[_i].spec;
    if (spec[0] == '{')
        ck_assert_int_eq(ccl_topology_read_text(NULL, "x", spec, strlen(spec), &topo, &err),
                         CCL_OK);
    else
        topo = topology(spec);
    ck_assert_int_eq(ccl_testbed_plan(topo, refused[_i].rate_max_bps, &plan, &err),
                     refused[_i].status);
    ck_assert_msg(strstr(err.text, refused[_i].text) != NULL, "%s, not %s", err.text,
                  refused[_i].text);
    ck_assert_ptr_null(plan);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- commands */

static void expect_commands(const ccl_testbed_plan_t *p, uint32_t server, bool tc,
                            const char *want) {
    static const char *const namespaces[] = {"n0", "n1", "n2", "n3"};
    ccl_text_t text = {0};
    ccl_testbed_commands(p, server, tc, namespaces, &text);
    ck_assert_str_eq(text.data, want);
    ccl_text_fini(&text);
}

START_TEST(test_commands) {
    ccl_testbed_plan_t *p = plan_of(MIXED, 5e8);
    expect_commands(p, 2, false,
                    "link set lo up\naddr add 10.77.0.3/24 dev eth0\n"
                    "link set eth0 gso_max_size 15625\nlink set eth0 up\n");
    expect_commands(p, 0, true,
                    "qdisc add dev eth0 root tbf rate 500000000bit burst 62500b limit 33554432b\n");
    expect_commands(p, 3, true,
                    "qdisc add dev eth0 root tbf rate 250000000bit burst 31250b limit 33554432b\n");
    expect_commands(p, CCL_NONE, true,
                    "qdisc add dev s0 root tbf rate 500000000bit burst 62500b limit 33554432b\n"
                    "qdisc add dev s1 root tbf rate 500000000bit burst 62500b limit 33554432b\n"
                    "qdisc add dev s2 root tbf rate 250000000bit burst 31250b limit 33554432b\n"
                    "qdisc add dev s3 root tbf rate 250000000bit burst 31250b limit 33554432b\n");
    ccl_text_t text = {0};
    static const char *const namespaces[] = {"/a", "/b", "/c", "/d"};
    ccl_testbed_commands(p, CCL_NONE, false, namespaces, &text);
    ck_assert_ptr_nonnull(strstr(text.data, "link add br0 type bridge\nlink set br0 up\n"));
    ck_assert_ptr_nonnull(strstr(text.data, "link add s1 type veth peer name eth0 netns /b\n"
                                            "link set s1 master br0\nlink set s1 up\n"));
    ccl_text_fini(&text);
    ccl_testbed_plan_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- the emulated cluster */

START_TEST(test_topology) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_testbed_plan_t *p =
        plan_of("servers:1 gpus:2 nvswitch=300GB/s nics:2x25GB/s + servers:1 gpus:3 "
                "nvswitch=300GB/s nics:1x25GB/s",
                4e8);
    ccl_testbed_constants_t c = CCL_TESTBED_CONSTANTS_INIT;
    ccl_topology_t *topo = NULL, *again = NULL;
    ccl_text_t text = {0};
    const ccl_route_t *route;
    c.efficiency = 0.5;
    c.latency_s = 3e-6;
    ck_assert_int_eq(ccl_testbed_topology(p, &c, &topo, &err), CCL_OK);
    ck_assert_uint_eq(topo->nranks, 5);
    ck_assert_uint_eq(topo->nservers, 2);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert_int_eq(ccl_routes_get(routes, 0, 1, 0, &route, &err), CCL_OK);
    ck_assert(!route->crosses_net);
    ck_assert_double_eq(route->bottleneck_Bps, c.local_Bps);
    ck_assert_int_eq(ccl_routes_get(routes, 0, 4, 0, &route, &err), CCL_OK);
    ck_assert(route->crosses_net);
    ck_assert_double_eq_tol(route->bottleneck_Bps, 2e8 / 8 * 1448 / 1514 * 0.5, 1e-6);
    ccl_transport_t net = ccl_model_transport(topo, "net", "Simple");
    ck_assert_double_eq(net.latency_s, 3e-6);
    ck_assert(!net.holds_tb);
    ccl_routes_destroy(routes);
    /* It is a description as any other. */
    ck_assert_int_eq(ccl_topology_write_json(topo, &text, &err), CCL_OK);
    ck_assert_int_eq(ccl_topology_read_text(NULL, "again", text.data, text.len, &again, &err),
                     CCL_OK);
    ck_assert_uint_eq(again->nlinks, topo->nlinks);
    ccl_text_fini(&text);
    ccl_topology_destroy(again);
    ccl_topology_destroy(topo);
    ccl_testbed_plan_destroy(p);
}
END_TEST

/* ---------------------------------------------------------------- names */

static const char *const bad_names[] = {"", "a/b", "a b", "x\ny",
                                        "0123456789012345678901234567890123456789012345678901234567"
                                        "890123"};

START_TEST(test_names) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_testbed_entry_t entry;
    ccl_topology_t *topo = topology(MIXED);
    ck_assert_int_eq(ccl_testbed_drop(bad_names[_i], &err), CCL_ERR_USAGE);
    err = (ccl_error_t)CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_testbed_keep(topo, 0, bad_names[_i], &entry, &err), CCL_ERR_USAGE);
    err = (ccl_error_t)CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_testbed_drop("nobody-has-this", &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "no testbed \"nobody-has-this\" is up"));
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- unequal shares */

START_TEST(test_shares) {
    static const uint32_t first[] = {0, 1, 4};
    ccl_program_t *p = program_of("direct", CCL_ALLREDUCE, MIXED, NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    char root[32];
    free_root(root, sizeof root);
    o.size_bytes = 200000;
    o.world = 2;
    o.root = root;
    o.transport = CCL_RUN_TCP;
    o.block_times = true;
    o.first_rank = first;
    pid_t pid = fork();
    if (pid == 0) {
        ccl_run_result_t *other = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        o.rank = 1;
        _exit((int)ccl_run_program(NULL, p, &o, &other, &err));
    }
    ccl_run_result_t *r = run_right(p, &o, "shares of 1 and 3");
    int state = 0;
    ck_assert_int_eq(waitpid(pid, &state, 0), pid);
    ck_assert_int_eq(state, 0);
    for (uint32_t t = 0; t < r->ntbs; t++)
        ck_assert_uint_gt(r->blocks[t].slices, 0);
    ccl_run_result_destroy(r);
    ccl_program_destroy(p);
}
END_TEST

static const struct {
    uint32_t first[4], world;
    const char *text;
} bad_shares[] = {
    {{0, 2, 4}, 0, "for the processes of a job"},
    {{1, 2, 4}, 2, "at least one each, and all of 4"},
    {{0, 0, 4}, 2, "at least one each, and all of 4"},
    {{0, 2, 5}, 2, "at least one each, and all of 4"},
};

START_TEST(test_bad_shares) {
    ccl_program_t *p = program_of("direct", CCL_ALLREDUCE, MIXED, NULL);
    ccl_run_options_t o = CCL_RUN_OPTIONS_INIT;
    ccl_run_result_t *r = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    o.size_bytes = 65536;
    o.world = bad_shares[_i].world;
    o.root = "127.0.0.1:1";
    o.first_rank = bad_shares[_i].first;
    ck_assert_int_eq(ccl_run_program(NULL, p, &o, &r, &err), CCL_ERR_USAGE);
    ck_assert_msg(strstr(err.text, bad_shares[_i].text) != NULL, "%s", err.text);
    ccl_program_destroy(p);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("testbed");
    TCase *tc = tcase_create("testbed");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_rates, 0, (int)CCL_ARRAY_LEN(rates));
    tcase_add_loop_test(tc, test_refused, 0, (int)CCL_ARRAY_LEN(refused));
    tcase_add_test(tc, test_commands);
    tcase_add_test(tc, test_topology);
    tcase_add_loop_test(tc, test_names, 0, (int)CCL_ARRAY_LEN(bad_names));
    tcase_add_test(tc, test_shares);
    tcase_add_loop_test(tc, test_bad_shares, 0, (int)CCL_ARRAY_LEN(bad_shares));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
