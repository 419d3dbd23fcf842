/* Trees of switch connections on graphs made by hand, and what switches say they can do. */
#include <check.h>
#include <math.h>

#include "tests/topologies/topology_helpers.h"

static const ccl_device_t both = {.multicast = true, .reduce = true, .reduce_rate_Bps = INFINITY};

static uint32_t add_switch(ccl_topology_builder_t *b, const char *id, bool able) {
    uint32_t device = add_device(b, id, CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    if (able)
        MUST(ccl_topology_builder_abilities(b, device, &both, e));
    return device;
}

static const ccl_tree_t *tree_of(ccl_routes_t *routes, bool reduces, uint32_t single,
                                 const uint32_t *members, uint32_t n, uint32_t channel) {
    const ccl_tree_t *tree = NULL;
    MUST(ccl_routes_tree(routes, reduces, single, members, n, channel, &tree, e));
    return tree;
}

static const char *refusal(ccl_routes_t *routes, bool reduces, uint32_t single,
                           const uint32_t *members, uint32_t n) {
    static ccl_error_t err;
    const ccl_tree_t *tree = NULL;
    err = (ccl_error_t)CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_routes_tree(routes, reduces, single, members, n, 0, &tree, &err),
                     CCL_UNSUPPORTED);
    ck_assert_ptr_null(tree);
    return err.text;
}

static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};

/* Four GPUs on one switch: links 2r up, 2r + 1 down; GPU 3 is slower and further. */
START_TEST(one_switch) {
    ccl_topology_builder_t *b = with_gpus("one", 4);
    uint32_t sw = add_switch(b, "sw", true);
    for (uint32_t r = 0; r < 4; r++)
        add_duplex(b, r, sw, "nvlink", r == 3 ? 50 : 100, r + 1);
    ccl_topology_t *topo = finish(b);
    ccl_routes_t *routes = ccl_routes_create(topo);
    const ccl_tree_t *t = tree_of(routes, false, 1, ranks, 4, 0);
    const uint32_t copies[] = {2, 1, 3, 5, 7};
    ck_assert_uint_eq(t->root, sw);
    ck_assert_uint_eq(t->route.nlinks, 5);
    ck_assert_int_eq(memcmp(t->route.links, copies, sizeof copies), 0);
    ck_assert_uint_eq(t->ncopiers, 1);
    ck_assert_uint_eq(t->copiers[0], sw);
    ck_assert_uint_eq(t->nreducers, 0);
    for (uint32_t r = 0; r < 4; r++)
        ck_assert_double_eq_tol(t->latency_s[r], (2 + r + 1) * 1e-6, 1e-15);
    ck_assert_double_eq_tol(t->route.latency_s, 6e-6, 1e-15);
    ck_assert(t->route.bottleneck_Bps == 50e9);
    const ccl_tree_t *pull = tree_of(routes, true, 1, ranks, 3, 0);
    const uint32_t sums[] = {0, 2, 4, 3};
    ck_assert_uint_eq(pull->route.nlinks, 4);
    ck_assert_int_eq(memcmp(pull->route.links, sums, sizeof sums), 0);
    ck_assert_uint_eq(pull->nreducers, 1);
    ck_assert_uint_eq(pull->ncopiers, 0);
    ck_assert(pull->route.bottleneck_Bps == 100e9);
    /* No fork: a channel changes nothing; routes and trees are numbered together. */
    ck_assert_ptr_eq(t, tree_of(routes, false, 1, ranks, 4, 9));
    ck_assert_uint_ne(t->route.index, pull->route.index);
    const ccl_tree_t *own = tree_of(routes, false, 2, &ranks[2], 1, 0);
    ck_assert_uint_eq(own->route.nlinks, 2);
    ck_assert_uint_eq(own->ncopiers, 0);
    ck_assert_double_eq_tol(own->latency_s[0], 6e-6, 1e-15);
    ck_assert(ccl_topology_in_switch(topo, true, ranks, 4));
    ck_assert(ccl_topology_in_switch(topo, false, ranks, 4));
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Two leaves of two GPUs each, one spine or two, through a NIC each. */
static ccl_topology_t *two_levels(bool leaves_can, bool spines_can, uint32_t spines,
                                  double second_GBps) {
    ccl_topology_builder_t *b = with_gpus("fabric", 4);
    uint32_t leaf[2] = {add_switch(b, "leaf0", leaves_can), add_switch(b, "leaf1", leaves_can)};
    for (uint32_t r = 0; r < 4; r++) {
        char id[8];
        snprintf(id, sizeof id, "nic%u", r);
        uint32_t nic = add_device(b, id, CCL_DEVICE_NIC, NULL, CCL_NONE);
        add_duplex(b, r, nic, "pcie", 64, 0.5);
        add_duplex(b, nic, leaf[r / 2], "net", 50, 1);
    }
    for (uint32_t s = 0; s < spines; s++) {
        char id[16];
        snprintf(id, sizeof id, "spine%u", s);
        uint32_t spine = add_switch(b, id, spines_can);
        add_duplex(b, leaf[0], spine, "net", s ? second_GBps : 100, 1);
        add_duplex(b, leaf[1], spine, "net", s ? second_GBps : 100, 1);
    }
    return finish(b);
}

START_TEST(levels) {
    ccl_topology_t *topo = two_levels(true, true, 1, 0);
    ccl_routes_t *routes = ccl_routes_create(topo);
    /* Any of the three switches would do; from leaf0 the union is the same, and it comes first. */
    const ccl_tree_t *t = tree_of(routes, true, 0, ranks, 4, 0);
    ck_assert_uint_eq(t->root, device_of(topo, "leaf0"));
    ck_assert_uint_eq(t->route.nlinks, 4 * 2 + 2 + 2);
    ck_assert_uint_eq(t->nreducers, 2);
    ck_assert_uint_eq(t->reducers[0], device_of(topo, "leaf0"));
    ck_assert_uint_eq(t->reducers[1], device_of(topo, "leaf1"));
    ck_assert_double_eq_tol(t->latency_s[0], 3e-6, 1e-15);
    ck_assert_double_eq_tol(t->latency_s[3], 5e-6, 1e-15);
    ck_assert(t->route.crosses_net);
    ck_assert(ccl_topology_in_switch(topo, true, ranks, 4));
    /* A multicast to the other leaf's GPUs branches there only. */
    t = tree_of(routes, false, 0, &ranks[2], 2, 0);
    ck_assert_uint_eq(t->ncopiers, 1);
    ck_assert_uint_eq(t->copiers[0], device_of(topo, "leaf1"));
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(root_that_cannot) {
    ccl_topology_t *topo = two_levels(false, true, 1, 0);
    ccl_routes_t *routes = ccl_routes_create(topo);
    ck_assert_str_eq(refusal(routes, true, 0, ranks, 4),
                     "no switch reduces ranks 0-3 to rank 0; switch \"leaf1\" has no \"reduce\"");
    ck_assert(!ccl_topology_in_switch(topo, true, ranks, 4));
    ck_assert(strstr(refusal(routes, false, 1, &ranks[2], 2),
                     "rank 1 to ranks 2-3; switch \"leaf1\" has no \"multicast\"") != NULL);
    /* The spine serves one GPU a leaf, the single GPU's leaf on the way up and again down. */
    const uint32_t apart[] = {0, 2};
    const ccl_tree_t *t = tree_of(routes, false, 1, apart, 2, 0);
    ck_assert_uint_eq(t->root, device_of(topo, "spine0"));
    ck_assert_uint_eq(t->copiers[0], t->root);
    ck_assert_uint_eq(t->route.nlinks, 3 + 3 + 3);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
    topo = topology("gpus:4 nvlink=mesh,50GB/s,1us");
    routes = ccl_routes_create(topo);
    ck_assert_str_eq(refusal(routes, false, 0, ranks, 2),
                     "no switch multicasts rank 0 to ranks 0-1; there is no switch");
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* Equal spines alternate by channel, the same for every branch; a narrow one is left alone. */
START_TEST(spines) {
    for (int narrow = 0; narrow < 2; narrow++) {
        ccl_topology_t *topo = two_levels(true, true, 2, narrow ? 30 : 100);
        ccl_routes_t *routes = ccl_routes_create(topo);
        uint32_t used[2] = {0, 0};
        for (uint32_t c = 0; c < 4; c++) {
            const ccl_tree_t *t = tree_of(routes, true, 1, ranks, 4, c);
            ck_assert_uint_eq(t->route.nlinks, 12);
            for (uint32_t i = 0; i < t->route.nlinks; i++)
                for (uint32_t s = 0; s < 2; s++)
                    used[s] += topo->links[t->route.links[i]].to ==
                               device_of(topo, s ? "spine1" : "spine0");
            ck_assert_ptr_eq(t, tree_of(routes, true, 1, ranks, 4, c + 2));
        }
        ck_assert_uint_eq(used[0], narrow ? 4 : 2);
        ck_assert_uint_eq(used[1], narrow ? 0 : 2);
        ccl_routes_destroy(routes);
        ccl_topology_destroy(topo);
    }
}
END_TEST

/* A switch that cannot, between two GPUs and one that can. */
START_TEST(past_a_switch) {
    ccl_topology_builder_t *b = with_gpus("merge", 3);
    uint32_t far = add_switch(b, "far", true), mid = add_switch(b, "mid", false);
    add_duplex(b, 0, mid, "nvlink", 100, 1);
    add_duplex(b, 1, mid, "nvlink", 100, 1);
    add_duplex(b, mid, far, "nvlink", 100, 1);
    add_duplex(b, far, 2, "nvlink", 100, 1);
    ccl_topology_t *topo = finish(b);
    ccl_routes_t *routes = ccl_routes_create(topo);
    /* The data pass "mid" on their way to "far", which copies them, and one copy comes back. */
    const ccl_tree_t *t = tree_of(routes, false, 0, &ranks[1], 2, 0);
    ck_assert_uint_eq(t->root, far);
    ck_assert_uint_eq(t->route.nlinks, 5);
    ck_assert_uint_eq(t->ncopiers, 1);
    ck_assert_uint_eq(t->copiers[0], far);
    ck_assert_double_eq_tol(t->latency_s[0], 4e-6, 1e-15);
    /* From rank 2 both copies part at "mid", and only there. */
    ck_assert_str_eq(
        refusal(routes, false, 2, ranks, 2),
        "no switch multicasts rank 2 to ranks 0-1; switch \"mid\" has no \"multicast\"");
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* All trees of a rack of 72 GPUs: 144, whatever the channel, and kept. */
START_TEST(rack) {
    ccl_topology_t *topo = topology("gb200-nvl72");
    ccl_routes_t *routes = ccl_routes_create(topo);
    uint32_t all[72], most = 0;
    for (uint32_t r = 0; r < 72; r++)
        all[r] = r;
    for (uint32_t c = 0; c < 16; c++) {
        for (uint32_t r = 0; r < 72; r++) {
            const ccl_tree_t *copies = tree_of(routes, false, r, all, 72, c);
            const ccl_tree_t *sums = tree_of(routes, true, r, all, 72, c);
            ck_assert_uint_eq(copies->route.nlinks, 73);
            ck_assert_uint_eq(sums->nreducers, 1);
            most = sums->route.index > most ? sums->route.index : most;
        }
    }
    ck_assert_uint_eq(most, 2 * 72 - 1);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(bad_questions) {
    ccl_topology_t *topo = topology("gpus:4 nvswitch=450GB/s,0.7us,nvls");
    ccl_routes_t *routes = ccl_routes_create(topo);
    const uint32_t back[] = {1, 0}, twice[] = {1, 1}, beyond[] = {1, 4};
    const ccl_tree_t *tree = NULL;
    ck_assert_int_eq(ccl_routes_tree(routes, true, 0, back, 2, 0, &tree, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_routes_tree(routes, true, 0, twice, 2, 0, &tree, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_routes_tree(routes, true, 0, beyond, 2, 0, &tree, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_routes_tree(routes, true, 4, ranks, 2, 0, &tree, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_routes_tree(routes, true, 0, ranks, 0, 0, &tree, NULL), CCL_ERR_INPUT);
    ck_assert_ptr_null(tree);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

/* ---------------------------------------------------------------- what a switch says */

#define EXPLICIT_(device_)                                                                         \
    "{\"format\": \"ccllab-topology-1\", \"devices\": [\n{\"id\": \"g\", \"kind\": \"gpu\", "      \
    "\"rank\": 0},\n{\"id\": \"d\", " device_ "}]}"
#define SERVER_(device_)                                                                           \
    "{\"format\": \"ccllab-server-1\", \"devices\": [\n{\"id\": \"g\", \"kind\": \"gpu\"},\n"      \
    "{\"id\": \"d\", " device_ "}]}"

static const struct {
    const char *why, *keys, *text;
} bad_rows[] = {
    {"only switches", "\"kind\": \"nic\", \"multicast\": true",
     "nic \"d\" has \"multicast\", but only switches have it"},
    {"groups of nothing", "\"kind\": \"switch\", \"groups\": 4",
     "switch \"d\" has \"groups\", but neither \"multicast\" nor \"reduce\""},
    {"a rate of nothing", "\"kind\": \"switch\", \"multicast\": true, \"reduce_rate\": \"1GB/s\"",
     "switch \"d\" has \"reduce_rate\", but not \"reduce\""},
    {"types of nothing", "\"kind\": \"switch\", \"multicast\": true, \"types\": [\"bf16\"]",
     "switch \"d\" has \"types\", but not \"reduce\""},
    {"no group", "\"kind\": \"switch\", \"reduce\": true, \"groups\": 0",
     "0 groups; 1 or more, or leave it out for no limit"},
    {"no type", "\"kind\": \"switch\", \"reduce\": true, \"types\": []",
     "no type; a switch that sums none has no \"reduce\""},
    {"a type twice",
     "\"kind\": \"switch\", \"reduce\": true, \"types\": [\"bf16\", \"fp32\", \"bf16\"]",
     "switch \"d\" has type \"bf16\" twice"},
    {"no word", "\"kind\": \"switch\", \"reduce\": true, \"types\": [\"bf 16\"]",
     "type \"bf 16\" holds a blank"},
    {"no word either", "\"kind\": \"switch\", \"reduce\": true, \"types\": [\"bf-16\"]",
     "types of switch \"d\" are no words such as bf16"},
};

START_TEST(bad_keys) {
    for (int form = 0; form < 2; form++) {
        char text[600];
        ccl_topology_t *topo = NULL;
        ccl_error_t err = CCL_ERROR_INIT;
        if (form)
            snprintf(text, sizeof text, SERVER_("%s"), bad_rows[_i].keys);
        else
            snprintf(text, sizeof text, EXPLICIT_("%s"), bad_rows[_i].keys);
        ck_assert_int_eq(ccl_topology_read_text(NULL, "t", text, strlen(text), &topo, &err),
                         CCL_ERR_INPUT);
        const char *place =
            strncmp(err.text, "/devices/1", 10) == 0 ? strstr(err.text, ": ") : NULL;
        ck_assert_msg(place && strcmp(place + 2, bad_rows[_i].text) == 0, "%s: \"%s\"",
                      bad_rows[_i].why, err.text);
        ck_assert_int_gt(err.line, 0);
    }
}
END_TEST

static const ccl_device_t *device(const ccl_topology_t *topo, const char *id) {
    uint32_t d = device_of(topo, id);
    ck_assert_msg(d != CCL_NONE, "%s", id);
    return &topo->devices[d];
}

START_TEST(keys) {
    ccl_topology_t *topo = topology_of(
        "{\"format\": \"ccllab-cluster-1\", \"servers\": [{\"count\": 2, \"server\": {\"devices\": "
        "["
        "{\"id\": \"g\", \"kind\": \"gpu\"}, {\"id\": \"h\", \"kind\": \"gpu\"}, "
        "{\"id\": \"sw\", \"kind\": \"switch\", \"multicast\": true, \"reduce\": true, \"groups\": "
        "12, "
        "\"reduce_rate\": \"400GB/s\", \"types\": [\"bf16\", \"fp32\"]}], \"links\": ["
        "{\"from\": \"g\", \"to\": \"sw\", \"kind\": \"nvlink\", \"bandwidth\": \"450GB/s\"}, "
        "{\"from\": \"h\", \"to\": \"sw\", \"kind\": \"nvlink\", \"bandwidth\": \"450GB/s\"}], "
        "\"ports\": [{\"device\": \"g\", \"bandwidth\": \"50GB/s\"}]}}], "
        "\"fabric\": {\"kind\": \"single\", \"reduce\": true}}");
    const ccl_device_t *sw = device(topo, "s1/sw"), *fabric = device(topo, "fabric/switch");
    ck_assert(sw->multicast && sw->reduce && sw->groups == 12 && sw->reduce_rate_Bps == 400e9);
    ck_assert_str_eq(sw->types, "bf16 fp32");
    ck_assert(ccl_device_sums(sw, "fp32") && ccl_device_sums(sw, "bf16"));
    ck_assert(!ccl_device_sums(sw, "fp3") && !ccl_device_sums(sw, "int32"));
    ck_assert(fabric->reduce && !fabric->multicast && !fabric->types && fabric->groups == 0);
    ck_assert(isinf(fabric->reduce_rate_Bps) && ccl_device_sums(fabric, "int32"));
    ck_assert(!ccl_device_sums(device(topo, "s0/g"), "fp32"));
    /* Edits keep them, and switch them off. */
    ccl_topology_t *less = edited(topo, "fail:gpu:1");
    ck_assert_str_eq(device(less, "s1/sw")->types, "bf16 fp32");
    ccl_topology_t *off = edited(topo, "set:in_switch:nvlink=false");
    sw = device(off, "s0/sw");
    ck_assert(!sw->multicast && !sw->reduce && !sw->groups && !sw->types);
    ck_assert(isinf(sw->reduce_rate_Bps) && device(off, "fabric/switch")->reduce);
    ccl_topology_t *copies = edited(topo, "set:reduce=false");
    sw = device(copies, "s0/sw");
    ck_assert(sw->multicast && !sw->reduce && sw->groups == 12 && !sw->types);
    ck_assert(!device(copies, "fabric/switch")->reduce);
    ccl_topology_t *on = edited(off, "set:multicast:nvlink=true");
    ck_assert(device(on, "s0/sw")->multicast && !device(on, "fabric/switch")->multicast);
    ccl_topology_destroy(on);
    ccl_topology_destroy(copies);
    ccl_topology_destroy(off);
    ccl_topology_destroy(less);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(words) {
    ccl_topology_t *topo =
        topology("servers:2 gpus:4 nvswitch=450GB/s,0.7us,nvls nics:4x50GB/s,2us "
                 "fabric=rail,spine,sharp");
    ck_assert(device(topo, "s1/nvswitch0")->reduce && device(topo, "s1/nvswitch0")->multicast);
    for (uint32_t d = 0; d < topo->ndevices; d++)
        ck_assert_int_eq(topo->devices[d].reduce, topo->devices[d].kind == CCL_DEVICE_SWITCH);
    ck_assert(ccl_topology_in_switch(topo, true, ranks, 4));
    ccl_topology_destroy(topo);
    topo = topology("gpus:4 nvswitch=450GB/s,nvls");
    ck_assert(device(topo, "s0/nvswitch0")->multicast);
    ck_assert(topo->links[0].latency_s == 0);
    ccl_topology_destroy(topo);
    topo = topology("dgx-a100*2,fabric=single,sharp");
    ck_assert(device(topo, "fabric")->reduce);
    const uint32_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    ck_assert(ccl_topology_in_switch(topo, true, all, 16));
    ccl_topology_destroy(topo);
    topo = topology("dgx-a100*2,fabric=rail");
    ck_assert(!device(topo, "fabric/rail0")->reduce);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.topologies.trees");
    TCase *tc = tcase_create("trees");
    tcase_add_test(tc, one_switch);
    tcase_add_test(tc, levels);
    tcase_add_test(tc, root_that_cannot);
    tcase_add_test(tc, spines);
    tcase_add_test(tc, past_a_switch);
    tcase_add_test(tc, rack);
    tcase_add_test(tc, bad_questions);
    tcase_add_loop_test(tc, bad_keys, 0, (int)CCL_ARRAY_LEN(bad_rows));
    tcase_add_test(tc, keys);
    tcase_add_test(tc, words);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
