/* Parts that are alike: clusters whose automorphisms are known by hand. */
#include "models/models.h"
#include "tests/topologies/topologies.h"

static ccl_alike_t *alike_of(const ccl_topology_t *topo, uint32_t fixed) {
    ccl_alike_t *a = NULL;
    MUST(ccl_alike_find(NULL, topo, fixed, &a, e));
    return a;
}

static uint32_t classes(const uint32_t *class_of, uint32_t n) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_le(class_of[i], i);
        ck_assert_uint_eq(class_of[class_of[i]], class_of[i]); /* the lowest member */
        count += class_of[i] == i;
    }
    return count;
}

#define SERVERS "servers:3 gpus:2 nvswitch=300GB/s,1us nics:2x25GB/s,2us"

START_TEST(all_servers_alike) {
    ccl_topology_t *topo = topology(SERVERS);
    ccl_alike_t *a = alike_of(topo, CCL_NONE);
    /* GPUs, NVSwitches, NICs, the fabric's switch */
    ck_assert_uint_eq(classes(a->device_class, topo->ndevices), 4);
    ck_assert_uint_eq(classes(a->server_class, topo->nservers), 1);
    /* GPU to NVSwitch, GPU to NIC, NIC to fabric; six of each */
    ck_assert_uint_eq(a->npairs, 18);
    ck_assert_uint_eq(classes(a->pair_class, a->npairs), 3);
    for (uint32_t k = 0; k < a->npairs; k++)
        ck_assert_uint_lt(a->pairs[k][0], a->pairs[k][1]);
    ccl_alike_destroy(a);
    ccl_topology_destroy(topo);
}
END_TEST

/* What stays where it is sets its server apart, and in it itself. */
START_TEST(a_root_stays) {
    ccl_topology_t *topo = topology(SERVERS);
    ccl_alike_t *a = alike_of(topo, topo->rank_device[2]);
    ck_assert_uint_eq(classes(a->server_class, topo->nservers), 2);
    /* GPUs and NICs: the root and its own, the other of its server, those of other servers; two
       kinds of NVSwitches, the fabric's switch */
    ck_assert_uint_eq(classes(a->device_class, topo->ndevices), 3 + 3 + 2 + 1);
    ck_assert_uint_eq(a->device_class[topo->rank_device[0]], a->device_class[topo->rank_device[5]]);
    ck_assert_uint_ne(a->device_class[topo->rank_device[2]], a->device_class[topo->rank_device[3]]);
    ccl_alike_destroy(a);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(a_slow_server_is_another) {
    ccl_topology_t *whole = topology(SERVERS), *topo = edited(whole, "degrade:server:1=50%");
    ccl_alike_t *a = alike_of(topo, CCL_NONE);
    ck_assert_uint_eq(classes(a->server_class, topo->nservers), 2);
    ck_assert_uint_eq(a->server_class[0], a->server_class[2]);
    ck_assert_uint_eq(classes(a->pair_class, a->npairs), 6);
    ccl_alike_destroy(a);
    ccl_topology_destroy(topo);
    ccl_topology_destroy(whole);
}
END_TEST

RUN_TESTS(all_servers_alike, a_root_stays, a_slow_server_is_another)
