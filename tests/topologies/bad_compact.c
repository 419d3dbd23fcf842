/* Every refusal of the compact form, with its place. */
#include "tests/topologies/cluster_helpers.h"

#define C "{\"format\":\"ccllab-cluster-1\",\n"
#define S "{\"format\":\"ccllab-server-1\",\n"
#define G "{\"id\":\"g\",\"kind\":\"gpu\"}"
#define ONE                                                                                        \
    "{\"server\":{\"devices\":[" G "],\"ports\":[{\"device\":\"g\",\"bandwidth\":\"1GB/s\"}]}"
#define TWO "\"servers\":[" ONE ",\"count\":2}],\n"
#define LINK(rest_)                                                                                \
    S "\"devices\":[" G ",{\"id\":\"h\",\"kind\":\"gpu\"}],\n\"links\":[\n{\"from\":\"g\"," rest_  \
      "}]}"

START_TEST(clusters) {
    static const bad_row_t rows[] = {
        {C "\"servers\":[{\"type\":\"h20-x44\"}]}", 2, 20, "did you mean \"h20-x4\"",
         "a type of the library, misspelt"},
        {C "\"servers\":[{\"type\":\"qqqqqqqqqq\"}]}", 2, 20, "topology list", "nothing near"},
        {C "\"servers\":[{\"type\":\"syccl-a100-16\"}]}", 2, 20, "no server but a cluster",
         "a cluster is no server"},
        {C "\"servers\":[{\"type\":7}]}", 2, 20, "expected a string", "wrong type"},
        {C "\"servers\":[{\"count\":2}]}", 2, 12, "either", "neither type nor server"},
        {C "\"servers\":[{\"type\":\"h20-x4\",\"server\":{}}]}", 2, 12, "either", "both"},
        {C "\"servers\":[]}", 2, 11, "no servers", "empty"},
        {C "\"fabric\":{\"kind\":\"single\"}}", 1, 1, "missing", "no servers at all"},
        {C "\"servers\":[{\"type\":\"h20-x4\",\"count\":0}]}", 2, 37, "1 or more", "count of 0"},
        {C "\"servers\":[{\"type\":\"h20-x4\",\"count\":-1}]}", 2, 37, "whole number", "negative"},
        {C "\"servers\":[{\"type\":\"h20-x4\",\"count\":1.5}]}", 2, 37, "whole number", "fraction"},
        {C "\"servers\":[{\"type\":\"h20-x4\",\"count\":5000}]}", 2, 37, "4096", "too many"},
        {C "\"servers\":[{\"type\":\"h20-x4\",\"count\":4096},{\"type\":\"h20-x4\"}]}", 2, 43,
         "more than 4096", "too many together"},
        {C "\"servers\":[{\"type\":\"dgx-2\",\"count\":4096}],\n\"fabric\":{\"kind\":\"single\"}}",
         3, 10, "too large", "more GPUs than the bound"},
        {C "\"servers\":[{\"type\":\"h20-x4\",\"counts\":2}]}", 2, 29, "did you mean \"count\"",
         "unknown key"},
        {C "\"server\":[]}", 2, 1, "did you mean \"servers\"", "unknown key"},
        {C "\"servers\":[{\"type\":\"h20-x4\",\"count\":2}]}", 1, 1, "nothing joins them",
         "two servers need a fabric"},
        {C "\"servers\":[{\"type\":\"h20-x4\"},{\"type\":\"v100-x4\"}],\n"
           "\"fabric\":{\"kind\":\"single\"}}",
         2, 38, "differ in transport", "constants that disagree need the cluster's own"},
        {C "\"servers\":[{\"type\":\"h20-x4\"}],\n\"gpu_models\":{\"H20\":{\"sms\":0}}}", 3, 28,
         "0 sms", "a constant of the cluster"},
        {C "\"servers\":[{\"type\":\"h20-x4\"}],\n\"transports\":{\"net\":{\"tb_rate\":5}}}", 3, 32,
         "has no unit", "missing unit in a constant"},
        {C "\"servers\":[{\"type\":\"h20-x4\"}],\n\"transports\":{\"net\":{\"protocols\":"
           "{\"LL64\":{}}}}}",
         3, 35, "did you mean", "unknown protocol"},
        {C "\"servers\":[{\"type\":\"h20-x4\"}],\n\"transports\":[]}", 3, 14, "an object", "type"},
        {"{\"format\":\"ccllab-cluster-2\"}", 1, 11, "ccllab-cluster-1", "unknown version"},
    };
    check_bad(rows, CCL_ARRAY_LEN(rows));
}
END_TEST

START_TEST(fabrics) {
    static const bad_row_t rows[] = {
        {C TWO "\"fabric\":{\"kind\":\"rial\"}}", 3, 18, "did you mean \"rail\"", "misspelt"},
        {C TWO "\"fabric\":{}}", 3, 10, "missing", "no kind"},
        {C TWO "\"fabric\":\"single\"}", 3, 10, "expected an object", "no object"},
        {C TWO "\"fabric\":{\"kind\":\"single\",\"spines\":2}}", 3, 27, "unknown key",
         "a key of another fabric"},
        {C TWO "\"fabric\":{\"kind\":\"single\",\"bandwidth\":25}}", 3, 39, "has no unit", "unit"},
        {C TWO "\"fabric\":{\"kind\":\"single\",\"bandwidth\":\"0GB/s\"}}", 3, 39, "", "zero"},
        {C TWO "\"fabric\":{\"kind\":\"single\",\"contention\":-1}}", 3, 40, "negative", "kappa"},
        {C TWO "\"fabric\":{\"kind\":\"rail\",\"rails\":0}}", 3, 33, "1 or more", "no rails"},
        {C TWO "\"fabric\":{\"kind\":\"rail\",\"rails\":4097}}", 3, 33, "4096", "too many rails"},
        {C TWO "\"fabric\":{\"kind\":\"rail\",\"spine\":{\"cuont\":1}}}", 3, 34, "count", "key"},
        {C TWO "\"fabric\":{\"kind\":\"clos\"}}", 3, 10, "servers_per_leaf", "no leaves given"},
        {C TWO "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":1,\"ports_per_leaf\":1}}", 3, 10,
         "one of", "both given"},
        {C TWO "\"fabric\":{\"kind\":\"clos\",\"ports_per_leaf\":1,\"rails\":2}}", 3, 10,
         "servers_per_leaf", "rails without servers_per_leaf"},
        {C TWO "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":1,\"oversubscription\":0}}", 3,
         65, "non-blocking", "no uplinks at all"},
        {C TWO "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":1,\"oversubscription\":2,"
               "\"uplink_bandwidth\":\"1GB/s\"}}",
         3, 86, "give one", "said twice"},
        {C "\"servers\":[{\"server\":{\"devices\":[" G "]},\"count\":2}],\n"
           "\"fabric\":{\"kind\":\"single\"}}",
         3, 10, "no ports", "nothing to attach"},
        {C TWO "\"fabric\":{\"kind\":\"direct\",\"links\":[]}}", 3, 10, "no path",
         "servers that nothing joins"},
        {C TWO "\"fabric\":{\"kind\":\"direct\",\"links\":[{\"from\":\"0:0\",\"to\":\"s1:0\"}]}}",
         3, 44, "s0:1", "no port name"},
        {C TWO "\"fabric\":{\"kind\":\"direct\",\"links\":[{\"from\":\"s2:0\",\"to\":\"s1:0\"}]}}",
         3, 44, "no server s2", "no such server"},
        {C TWO "\"fabric\":{\"kind\":\"direct\",\"links\":[{\"from\":\"s0:1\",\"to\":\"s1:0\"}]}}",
         3, 44, "no port 1", "no such port"},
        {C TWO "\"fabric\":{\"kind\":\"direct\",\"links\":[{\"from\":\"s0:0\",\"to\":\"s0:0\"}]}}",
         3, 36, "two servers", "a server to itself"},
        {C "\"servers\":[{\"count\":2,\"server\":{\"devices\":[" G "],\"ports\":["
           "{\"device\":\"g\",\"bandwidth\":\"1GB/s\",\"direction\":\"in\"}]}}],\n"
           "\"fabric\":{\"kind\":\"direct\",\"links\":[{\"from\":\"s0:0\",\"to\":\"s1:0\","
           "\"duplex\":false}]}}",
         3, 44, "out of its server", "against its direction"},
        {C "\"servers\":[{\"count\":4096,\"server\":{\"devices\":[" G "],\"ports\":["
           "{\"device\":\"g\",\"bandwidth\":\"1GB/s\"}]}}],\n"
           "\"fabric\":{\"kind\":\"clos\",\"servers_per_leaf\":1,\"spines\":4096}}",
         3, 10, "links", "4096 x 4096 uplinks"},
    };
    check_bad(rows, CCL_ARRAY_LEN(rows));
}
END_TEST

START_TEST(servers) {
    static const bad_row_t rows[] = {
        {S "\"devices\":[]}", 2, 11, "no gpu", "no devices"},
        {S "\"devices\":[{\"id\":\"n\",\"kind\":\"nic\"}]}", 2, 11, "no gpu", "no gpus"},
        {S "\"devices\":[" G "," G "]}", 2, 42, "duplicate device id", "twice the same id"},
        {S "\"devices\":[{\"id\":\"\",\"kind\":\"gpu\"}]}", 2, 18, "empty", "empty id"},
        {S "\"devices\":[{\"id\":\"g\",\"kind\":\"tpu\"}]}", 2, 29, "gpu, switch, nic or host",
         "unknown kind"},
        {S "\"devices\":[{\"id\":\"g\",\"kind\":\"gpu\",\"rank\":0}]}", 2, 35, "unknown key",
         "ranks follow the order"},
        {S "\"devices\":[" G ",{\"id\":\"n\",\"kind\":\"nic\",\"model\":\"A\"}]}", 2, 67,
         "only gpus", "a NIC with a model"},
        {LINK("\"to\":\"k\",\"kind\":\"pcie\",\"bandwidth\":\"1GB/s\""), 4, 18, "no device \"k\"",
         "unknown end"},
        {LINK("\"to\":\"h\",\"kind\":\"pcie\",\"bandwidth\":\"0GB/s\""), 4, 48, "", "zero rate"},
        {LINK("\"to\":\"h\",\"kind\":\"pcie\",\"bandwidth\":\"-1GB/s\""), 4, 48, "", "negative"},
        {LINK("\"to\":\"h\",\"kind\":\"pcie\",\"bandwidth\":1e9"), 4, 48, "has no unit", "unit"},
        {LINK("\"to\":\"h\",\"kind\":\"pcie\""), 4, 1, "missing", "no rate"},
        {LINK("\"to\":\"g\",\"kind\":\"pcie\",\"bandwidth\":\"1GB/s\""), 4, 1, "itself",
         "to itself"},
        {LINK("\"to\":\"h\",\"kind\":\"pcie\",\"bandwidth\":\"1GB/s\",\"lanes\":0"), 4, 1, "lanes",
         "no lanes"},
        {LINK("\"to\":\"h\",\"kind\":\"pcie\",\"bandwidth\":\"1GB/s\",\"latency\":\"2\""), 4, 66,
         "", "latency without unit"},
        {LINK("\"to\":\"h\",\"kind\":\"pcie\",\"bandwidth\":\"1GB/s\",\"speed\":1"), 4, 56,
         "unknown key", "unknown key"},
        {S "\"devices\":[" G "],\n\"groups\":[{\"name\":\"x\",\"bandwidth\":\"1GB/s\","
           "\"links\":[[\"g\",\"g\"]]}]}",
         3, 52, "no link from", "a pair without a link"},
        {S "\"devices\":[" G "],\n\"groups\":[{\"name\":\"x\",\"bandwidth\":\"1GB/s\","
           "\"links\":[[\"g\"]]}]}",
         3, 52, "a pair is", "half a pair"},
        {S "\"devices\":[" G "],\n\"groups\":[{\"name\":\"x\",\"bandwidth\":\"1GB/s\","
           "\"links\":[]}]}",
         3, 11, "no links", "an empty group"},
        {S "\"devices\":[" G "],\n\"ports\":[{\"device\":\"nic0\",\"bandwidth\":\"1GB/s\"}]}", 3,
         20, "no device", "port on nothing"},
        {S "\"devices\":[" G "],\n\"ports\":[{\"device\":\"g\",\"bandwidth\":\"1GB/s\","
           "\"direction\":\"up\"}]}",
         3, 56, "both, out or in", "unknown direction"},
        {S "\"devices\":[" G "],\n\"chosen\":[1]}", 3, 11, "expected a string", "chosen is text"},
        {S "\"devices\":[" G ",{\"id\":\"h\",\"kind\":\"gpu\"}]}", 1, 1, "no path",
         "GPUs that nothing joins"},
    };
    check_bad(rows, CCL_ARRAY_LEN(rows));
}
END_TEST

/* Clashing constants of servers given inside the cluster are told at the second of them. */
START_TEST(clash_is_resolved_by_the_cluster) {
    ccl_topology_t *t = topology_of(
        C "\"servers\":[{\"type\":\"h20-x4\"},{\"type\":\"v100-x4\"}],"
          "\"fabric\":{\"kind\":\"single\"},\"transports\":{\"net\":{},\"nvlink\":{}}}");
    ck_assert_uint_eq(t->nranks, 8);
    ck_assert_uint_eq(t->ngpu_models, 2);
    ccl_topology_destroy(t);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad compact");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, clusters);
    tcase_add_test(tc, fabrics);
    tcase_add_test(tc, servers);
    tcase_add_test(tc, clash_is_resolved_by_the_cluster);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
