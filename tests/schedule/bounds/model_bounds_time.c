/* Bounds over time in closed form. */
#include <math.h>
#include <stdlib.h>

#include "schedule/schedule.h"
#include "tests/topologies/topologies.h"

#define GPU(id_, rank_) "{\"id\":\"" id_ "\",\"kind\":\"gpu\",\"rank\":" rank_ "}"
#define SERVED(id_, rank_, server_)                                                                \
    "{\"id\":\"" id_ "\",\"kind\":\"gpu\",\"rank\":" rank_ ",\"server\":\"" server_ "\"}"
#define LINK(from_, to_, kind_, GBps_, us_)                                                        \
    "{\"from\":\"" from_ "\",\"to\":\"" to_ "\",\"kind\":\"" kind_ "\",\"bandwidth\":\"" GBps_     \
    "GB/s\",\"latency\":\"" us_ "us\"}"
#define CLUSTER(devices_, links_, rest_)                                                           \
    "{\"format\":\"ccllab-topology-1\",\"name\":\"t\",\"devices\":[" devices_                      \
    "],\"links\":[" links_ "]" rest_ "}"

#define CHAIN                                                                                      \
    CLUSTER(GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2"),                                     \
            LINK("a", "b", "nvlink", "10", "1") "," LINK("b", "c", "nvlink", "10", "1"), "")
#define TWO_WAYS                                                                                   \
    CLUSTER(GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2"),                                     \
            LINK("a", "c", "nvlink", "10", "1") "," LINK("a", "b", "nvlink", "40", "5") "," LINK(  \
                "b", "c", "nvlink", "10", "2"),                                                    \
            "")
#define STAR                                                                                       \
    CLUSTER(                                                                                       \
        GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2") "," GPU(                                 \
            "d", "3") ",{\"id\":\"s\",\"kind\":\"switch\"}",                                       \
        LINK("a", "s", "nvlink", "10", "0.5") "," LINK("b", "s", "nvlink", "10", "0.5") "," LINK(  \
            "c", "s", "nvlink", "10", "0.5") "," LINK("d", "s", "nvlink", "10", "0.5"),            \
        "")
#define SERVERS                                                                                    \
    CLUSTER(                                                                                       \
        SERVED("a", "0", "x") "," SERVED("b", "1", "x") "," SERVED("c", "2", "y") "," SERVED(      \
            "d", "3", "y") ",{\"id\":\"f\",\"kind\":\"switch\"}",                                  \
        LINK("a", "b", "nvlink", "100", "1") "," LINK("c", "d", "nvlink", "100", "1") "," LINK(    \
            "a", "f", "net", "10", "2") "," LINK("b", "f", "net", "10",                            \
                                                 "2") "," LINK("c", "f", "net", "10",              \
                                                               "2") "," LINK("d", "f", "net",      \
                                                                             "10", "2"),           \
        "")
#define EMPTY_SERVER                                                                               \
    CLUSTER(                                                                                       \
        SERVED("a", "0", "x") "," SERVED("b", "1", "x") "," SERVED("c", "2", "y") "," SERVED(      \
            "d", "3", "y") ",{\"id\":\"f\",\"kind\":\"switch\"},{\"id\":\"n\",\"kind\":\"nic\"," \
                           "\"server\":\"z\"}",                                                    \
        LINK("a", "b", "nvlink", "100", "1") "," LINK("c", "d", "nvlink", "100", "1") "," LINK(    \
            "a", "f", "net", "10", "2") "," LINK("b", "f", "net", "10",                            \
                                                 "2") "," LINK("c", "f", "net", "10",              \
                                                               "2") "," LINK("d", "f", "net",      \
                                                                             "10", "2") "," LINK(  \
            "n", "f", "net", "10", "2"),                                                           \
        "")
#define BEHIND                                                                                     \
    CLUSTER(SERVED("a", "0", "x") "," SERVED("b", "1", "y") "," SERVED(                            \
                "c", "2",                                                                          \
                "z") ",{\"id\":\"s\",\"kind\":\"switch\"},{\"id\":\"u\",\"kind\":\"switch\"}",     \
            LINK("a", "s", "net", "10", "1") "," LINK("b", "s", "net", "10", "1") "," LINK(        \
                "c", "s", "net", "10", "1") "," LINK("b", "u", "net", "10",                        \
                                                     "1") "," LINK("c", "u", "net", "10", "1"),    \
            "")
#define PAIR(transport_)                                                                           \
    CLUSTER(GPU("a", "0") "," GPU("b", "1"), LINK("a", "b", "nvlink", "10", "1"),                  \
            ",\"transports\":{\"nvlink\":{" transport_ "}}")
#define SLOW_FIRST                                                                                 \
    CLUSTER(GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2"),                                     \
            LINK("a", "b", "nvlink", "10", "1") "," LINK("b", "c", "nvlink", "40", "1"),           \
            ",\"transports\":{\"nvlink\":{\"overhead\":\"3us\",\"slice\":\"8KiB\"}}")
#define LAUNCHED                                                                                   \
    "{\"format\":\"ccllab-topology-1\",\"name\":\"t\",\"devices\":[{\"id\":\"a\",\"kind\":"        \
    "\"gpu\",\"rank\":0,\"model\":\"A\"},{\"id\":\"b\",\"kind\":\"gpu\",\"rank\":1,\"model\":"     \
    "\"B\"}],\"links\":[" LINK(                                                                    \
        "a", "b", "nvlink", "10",                                                                  \
        "1") "],"                                                                                  \
             "\"gpu_models\":{\"A\":{\"launch\":\"5us\"},\"B\":{\"launch\":\"70us\"}}}"
#define BY_PROTOCOL                                                                                \
    PAIR("\"protocols\":{\"LL\":{\"wire\":2},\"LL128\":{\"latency\":\"90us\"},"                    \
         "\"Simple\":{\"latency\":\"9us\"}}")
#define ABLE                                                                                       \
    CLUSTER(                                                                                       \
        GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2") "," GPU(                                 \
            "d", "3") ",{\"id\":\"s\",\"kind\":\"switch\",\"multicast\":true,\"reduce\":true}", \
        LINK("a", "s", "nvlink", "10", "0") "," LINK("b", "s", "nvlink", "10", "0") "," LINK(      \
            "c", "s", "nvlink", "10", "0") "," LINK("d", "s", "nvlink", "10", "0"),                \
        ",\"transports\":{\"nvlink\":{\"latency\":\"5us\",\"protocols\":{\"LL\":{\"latency\":"     \
        "\"1us\",\"wire\":2},\"LL128\":{\"latency\":\"2us\",\"wire\":1.5}}}}")
#define RING                                                                                       \
    CLUSTER(GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2") "," GPU("d", "3"),                   \
            LINK("a", "b", "nvlink", "10", "1") "," LINK("b", "c", "nvlink", "10", "1") "," LINK(  \
                "c", "d", "nvlink", "10", "1") "," LINK("d", "a", "nvlink", "10", "1"),            \
            "")
#define GPUS6                                                                                      \
    GPU("a", "0")                                                                                  \
    "," GPU("b", "1") "," GPU("c", "2") "," GPU("d", "3") "," GPU("e", "4") "," GPU("f", "5")
#define GPUS7 GPUS6 "," GPU("g", "6")
#define ONE_NARROW                                                                                 \
    CLUSTER(GPUS7,                                                                                 \
            LINK("a", "b", "nvlink", "10", "3") "," LINK("a", "c", "nvlink", "90", "3") "," LINK(  \
                "a", "d", "nvlink", "90", "3") "," LINK("a", "e", "nvlink", "90", "3") "," LINK(   \
                "a", "f", "nvlink", "90", "3") "," LINK("a", "g", "nvlink", "90", "3"),            \
            "")
#define TWO_BEHIND                                                                                 \
    CLUSTER(                                                                                       \
        GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2") "," GPU(                                 \
            "d", "3") ",{\"id\":\"s\",\"kind\":\"switch\"}",                                       \
        LINK("a", "s", "nvlink", "10", "1") "," LINK("s", "b", "nvlink", "90", "2") "," LINK(      \
            "s", "c", "nvlink", "90", "2") "," LINK("a", "d", "nvlink", "90", "3"),                \
        "")
#define TWO_SWITCHES                                                                               \
    CLUSTER(GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2") "," GPU(                             \
            "d", "3") ",{\"id\":\"s\",\"kind\":\"switch\"},{\"id\":\"u\",\"kind\":\"switch\"}", \
            LINK("a", "s", "nvlink", "10", "0.5") "," LINK("b", "s", "nvlink", "10",               \
                                                           "0.5") "," LINK(                        \
                "c", "u", "nvlink", "10", "0.5") "," LINK("d", "u", "nvlink", "10",                \
                                                          "0.5") "," LINK("s", "u", "nvlink",      \
                                                                          "10", "4"),              \
            "")
#define NEAR_OTHER                                                                                 \
    CLUSTER(                                                                                       \
        GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2") ",{\"id\":\"s\",\"kind\":\"switch\"}", \
        LINK("a", "s", "nvlink", "90", "0.5") "," LINK("b", "s", "nvlink", "10",                   \
                                                       "0.75") "," LINK("c", "s", "nvlink", "90",  \
                                                                        "0.25"),                   \
        "")
#define ONE_FAR                                                                                    \
    CLUSTER(GPU("a", "0") "," GPU("b", "1") "," GPU(                                               \
            "c", "2") ",{\"id\":\"s\",\"kind\":\"switch\"},{\"id\":\"u\",\"kind\":\"switch\"}", \
            LINK("a", "s", "nvlink", "50", "3") "," LINK("b", "s", "nvlink", "50", "0") "," LINK(  \
                "c", "u", "nvlink", "50", "0.25") "," LINK("s", "u", "nvlink", "10", "3"),         \
            "")
#define GROUPED                                                                                    \
    CLUSTER(GPU("a", "0") "," GPU("b", "1") "," GPU("c", "2"),                                     \
            LINK("a", "b", "nvlink", "10", "1") "," LINK("a", "c", "nvlink", "10", "3"),           \
            ",\"groups\":[{\"name\":\"g\",\"bandwidth\":\"12GB/s\",\"links\":[[\"a\",\"b\"],"      \
            "[\"a\",\"c\"]]}]")

#define NEAR(a_, b_) LINK(a_, b_, "nvlink", "100", "1")
#define FAR(gpu_) LINK(gpu_, "s", "net", "10", "2")
#define THREE_PAIRS                                                                                \
    CLUSTER(GPUS6 ",{\"id\":\"s\",\"kind\":\"switch\"}",                                           \
            NEAR("a", "b") "," NEAR("c", "d") "," NEAR("e", "f") "," FAR("a") "," FAR("b") "," FAR( \
                "c") "," FAR("d") "," FAR("e") "," FAR("f"),                                       \
            "")

static const struct {
    const char *text;
    ccl_collective_kind_t kind;
    const char *proto;
    double KB, us;
    const char *why;
} rows[] = {
    {CHAIN, CCL_BROADCAST, NULL, 10, 3, "two hops and a message"},
    {CHAIN, CCL_REDUCE, NULL, 10, 3, "reversed"},
    {CHAIN, CCL_SCATTER, NULL, 30, 3, "both blocks over the first link, or the farther one"},
    {CHAIN, CCL_GATHER, NULL, 30, 3, "reversed"},
    {CHAIN, CCL_ALLGATHER, NULL, 15, 2.5, "the far shard: two hops"},
    {CHAIN, CCL_ALLGATHER, NULL, 60, 5, "both shards over one link, from 1 us on"},
    {CHAIN, CCL_REDUCESCATTER, NULL, 15, 2.5, "reversed"},
    {CHAIN, CCL_REDUCESCATTER, NULL, 60, 5, "reversed"},
    {TWO_WAYS, CCL_BROADCAST, NULL, 40, 5.4, "10 (T - 3) + 40 (T - 5) KB reach b"},
    {TWO_WAYS, CCL_BROADCAST, NULL, 200, 14, "10 (T - 1) + 10 (T - 7) KB reach c"},
    {STAR, CCL_ALLREDUCE, NULL, 1, 1.3, "all to all: three messages"},
    {STAR, CCL_ALLREDUCE, NULL, 4, 2 + 1.0 / 15, "some elements by partial results, from 2 us on"},
    {STAR, CCL_ALLREDUCE, NULL, 4000, 601, "six messages out of four GPUs"},
    {STAR, CCL_ALLTOALL, NULL, 4, 1.3, "three blocks"},
    {RING, CCL_ALLTOALL, NULL, 40, 3, "four blocks over two links of each, a GPU between some"},
    {SERVERS, CCL_ALLTOALL, NULL, 200, 14, "200 KB leave a server by 20 GB/s"},
    {SERVERS, CCL_ALLREDUCE, NULL, 40, 7,
     "of an element two messages from 4 us on or a partial result from 5"},
    {THREE_PAIRS, CCL_ALLREDUCE, NULL, 300, 24,
     "four messages between pairs of no server, up to 4 us before the end"},
    {EMPTY_SERVER, CCL_ALLREDUCE, NULL, 40, 7, "a server whose GPUs failed is no part"},
    {SERVERS, CCL_ALLREDUCE, NULL, 0.1, 4.02, "two messages of 0.1 KB by a NIC"},
    {BEHIND, CCL_ALLREDUCE, NULL, 40, 7, "a sends an element twice, or once for both in time"},
    {PAIR("\"overhead\":\"3us\""), CCL_BROADCAST, NULL, 20, 9, "a send, a receive"},
    {PAIR("\"overhead\":\"3us\",\"slice\":\"8KiB\""), CCL_BROADCAST, NULL, 20, 7,
     "the receive's overhead may be over by then"},
    {SLOW_FIRST, CCL_BROADCAST, NULL, 200, 25, "b passes on slices without an overhead each"},
    {SLOW_FIRST, CCL_BROADCAST, NULL, 8, 11, "two sends and a receive: latency"},
    {LAUNCHED, CCL_BROADCAST, NULL, 20, 8, "from when the source starts"},
    {LAUNCHED, CCL_REDUCE, NULL, 20, 73, "which is the other one here"},
    {BY_PROTOCOL, CCL_BROADCAST, NULL, 20, 5, "LL: 1 us and twice the bytes"},
    {BY_PROTOCOL, CCL_BROADCAST, NULL, 200, 30, "Simple: 10 us and the bytes"},
    {BY_PROTOCOL, CCL_BROADCAST, "LL", 200, 41, "by that one alone"},
    {BY_PROTOCOL, CCL_BROADCAST, "LL128", 200, 111, "by that one alone"},
    {ABLE, CCL_ALLREDUCE, "Simple", 400, 45, "once over each link, added up and copied by switches"},
    {ABLE, CCL_ALLREDUCE, "LL", 400, 121, "not through switches: six messages, of twice the bytes"},
    {ABLE, CCL_ALLREDUCE, "LL128", 400, 92, "likewise"},
    {ABLE, CCL_ALLREDUCE, NULL, 400, 45, "Simple"},
    {ABLE, CCL_ALLREDUCE, NULL, 40, 9, "Simple, which would be 11 with LL128"},
    {PAIR("\"message\":\"1us\",\"message_size\":\"40000\""), CCL_BROADCAST, NULL, 200, 26,
     "five messages, each 10 KB more"},
    {PAIR("\"message\":\"1us\""), CCL_BROADCAST, NULL, 200, 21,
     "one message of any size, which is not counted"},
    {ONE_NARROW, CCL_SCATTER, NULL, 70, 4, "b's block, as far as the others"},
    {ONE_NARROW, CCL_GATHER, NULL, 70, 4, "reversed"},
    {TWO_BEHIND, CCL_SCATTER, NULL, 40, 5, "those of b and c by one link, d's is as far"},
    {TWO_SWITCHES, CCL_BROADCAST, NULL, 10, 6.5, "5 us to c and d, for some elements one more"},
    {TWO_SWITCHES, CCL_REDUCE, NULL, 10, 6.5, "reversed"},
    {NEAR_OTHER, CCL_SCATTER, NULL, 15, 1.75, "0.5 us, 1.25 from a; by c, which is nearer, 1.75"},
    {ONE_FAR, CCL_SCATTER, NULL, 90, 7.75, "s-u is used up to 6.25 us before and, by b, from 3 us"},
    {STAR, CCL_BROADCAST, NULL, 4, 2 + 1.0 / 15, "some to two by one message, up to 2 us before"},
    {STAR, CCL_REDUCE, NULL, 4, 2 + 1.0 / 15, "reversed"},
    {GROUPED, CCL_SCATTER, NULL, 180, 34.0 / 3, "120 KB at 12 GB/s, but the last 2 us at b's 10"},
};

START_TEST(closed_forms) {
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        ccl_topology_t *topo = topology_of(rows[i].text);
        ccl_collective_t *coll = NULL;
        ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
        ccl_bound_t bound;
        options.size_bytes = rows[i].KB * 1e3;
        options.proto = rows[i].proto;
        MUST(ccl_collective_create(rows[i].kind, topo->nranks, 1, 0, &coll, e));
        MUST(ccl_bound(NULL, topo, coll, &options, &bound, e));
        ck_assert_msg(fabs(bound.time_s * 1e6 - rows[i].us) < 1e-6 * rows[i].us,
                      "row %zu: %s of %g KB: %.9g us, not %.9g: %s", i, coll->name, rows[i].KB,
                      bound.time_s * 1e6, rows[i].us, rows[i].why);
        ccl_bound_fini(&bound);
        ccl_collective_destroy(coll);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* A Broadcast's message enters five servers: by 20 GB/s of the root's until 1 us before the end, by
   100 GB/s of the others from 1 us on. A Reduce is the reverse. */
START_TEST(roots_send_to_parts) {
    static const char spec[] = "servers:6 gpus:2 nvswitch=1000GB/s,0us nics:2x10GB/s,1us";
    static const ccl_collective_kind_t kinds[] = {CCL_BROADCAST, CCL_REDUCE};
    ccl_topology_t *topo = topology(spec);
    ccl_device_t *nameless = NULL;
    for (size_t i = 0; i < 2 * CCL_ARRAY_LEN(kinds); i++) {
        ccl_collective_t *coll = NULL;
        ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
        ccl_bound_t bound;
        if (i == CCL_ARRAY_LEN(kinds)) /* the parts are found by bandwidth */
            nameless = forget_servers(topo);
        options.size_bytes = 40e3;
        MUST(ccl_collective_create(kinds[i % 2], topo->nranks, 1, 3, &coll, e));
        MUST(ccl_bound(NULL, topo, coll, &options, &bound, e));
        ck_assert_msg(fabs(bound.time_s * 1e6 - 3.5) < 1e-6, "%zu: %.9g us", i, bound.time_s * 1e6);
        ccl_bound_fini(&bound);
        ccl_collective_destroy(coll);
    }
    free(nameless);
    ccl_topology_destroy(topo);
}
END_TEST

/* What several GPUs of a server want, or sum, crosses its border once: 200 KB by 20 GB/s, of use
   from 0 us to 4 us before the end. */
START_TEST(shared_and_reduced_chunks_cross_borders_in_time) {
    static const char *const rows[] = {
        "{\"source\": 0, \"destinations\": [2, 3], \"bytes\": 80000},"
        "{\"source\": 0, \"destinations\": [2], \"bytes\": 60000},"
        "{\"source\": 1, \"destinations\": [3], \"bytes\": 60000}",
        "{\"source\": [2, 3], \"destinations\": [0], \"reduced\": true, \"bytes\": 80000},"
        "{\"source\": 2, \"destinations\": [0], \"bytes\": 60000},"
        "{\"source\": 3, \"destinations\": [1], \"bytes\": 60000}",
    };
    ccl_topology_t *topo = topology_of(SERVERS);
    for (size_t i = 0; i < CCL_ARRAY_LEN(rows); i++) {
        char text[512];
        ccl_collective_t *coll = NULL;
        ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
        ccl_bound_t bound;
        snprintf(text, sizeof text,
                 "{\"format\": \"ccllab-demand-1\", \"nranks\": 4, \"chunks\": [%s]}", rows[i]);
        MUST(ccl_demand_read_text("d", text, strlen(text), &coll, e));
        options.size_bytes = coll->natural_bytes;
        MUST(ccl_bound(NULL, topo, coll, &options, &bound, e));
        ck_assert_msg(fabs(bound.time_s * 1e6 - 14) < 1e-6, "row %zu: %.9g us", i,
                      bound.time_s * 1e6);
        ccl_bound_fini(&bound);
        ccl_collective_destroy(coll);
    }
    ccl_topology_destroy(topo);
}
END_TEST

/* Files may have programs of LL that go through switches. */
START_TEST(programs_of_files) {
    ccl_topology_t *topo = topology_of(ABLE);
    ccl_collective_t *coll = NULL;
    ccl_bound_options_t options = CCL_BOUND_OPTIONS_INIT;
    ccl_bound_t bound;
    options.size_bytes = 400e3;
    options.proto = "LL";
    options.any_switches = true;
    MUST(ccl_collective_create(CCL_ALLREDUCE, topo->nranks, 1, 0, &coll, e));
    MUST(ccl_bound(NULL, topo, coll, &options, &bound, e));
    ck_assert_msg(fabs(bound.time_s * 1e6 - 81) < 1e-6, "%.9g us", bound.time_s * 1e6);
    ccl_bound_fini(&bound);
    ccl_collective_destroy(coll);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bounds over time");
    TCase *tc = tcase_create("closed forms");
    tcase_add_test(tc, closed_forms);
    tcase_add_test(tc, programs_of_files);
    tcase_add_test(tc, roots_send_to_parts);
    tcase_add_test(tc, shared_and_reduced_chunks_cross_borders_in_time);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
