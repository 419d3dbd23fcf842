/* Routes of clusters small enough, or regular enough, to know by hand. */
#include <check.h>
#include <stdlib.h>

#include "topology_helpers.h"

static const ccl_route_t *route(ccl_routes_t *r, uint32_t src, uint32_t dst, uint32_t channel) {
    const ccl_route_t *out = NULL;
    MUST(ccl_routes_get(r, src, dst, channel, &out, e));
    return out;
}

START_TEST(nvlink_before_shorter_pcie) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    uint32_t a = add_device(b, "a", CCL_DEVICE_GPU, NULL, 0);
    uint32_t z = add_device(b, "z", CCL_DEVICE_GPU, NULL, 1);
    uint32_t s = add_device(b, "s", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    add_duplex(b, a, z, "pcie", 900, 0); /* 0, 1: shorter, wider, faster, but not nvlink */
    add_duplex(b, a, s, "nvlink", 10, 5);
    add_duplex(b, s, z, "xgmi", 10, 5);
    ccl_topology_t *t = finish(b);
    ccl_routes_t *r = ccl_routes_create(t);
    const ccl_route_t *p = route(r, 0, 1, 0);
    ck_assert_uint_eq(p->nlinks, 2);
    ck_assert(p->links[0] == 2 && p->links[1] == 4);
    ck_assert(p->latency_s == 2 * t->links[2].latency_s && p->bottleneck_Bps == 10e9 &&
              !p->crosses_pcie);
    ccl_routes_destroy(r);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(hops_then_width_then_latency) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    uint32_t a = add_device(b, "a", CCL_DEVICE_GPU, NULL, 0);
    uint32_t z = add_device(b, "z", CCL_DEVICE_GPU, NULL, 1);
    uint32_t s[5];
    char id[8];
    for (uint32_t i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "s%u", i);
        s[i] = add_device(b, id, CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    }
    add_duplex(b, a, s[0], "net", 99, 0); /* 0: wide in, */
    add_duplex(b, s[0], z, "net", 10, 0); /* 2: narrow out */
    add_duplex(b, a, s[1], "net", 20, 1); /* 4 */
    add_duplex(b, s[1], z, "net", 20, 2); /* 6: wide enough, 3 us */
    add_duplex(b, a, s[2], "net", 50, 2); /* 8: wider first link does not matter */
    add_duplex(b, s[2], z, "net", 20, 2); /* 10: 4 us */
    add_duplex(b, a, s[3], "net", 99, 0); /* 12: three hops, whatever the width */
    add_duplex(b, s[3], s[4], "net", 99, 0);
    add_duplex(b, s[4], z, "net", 99, 0);
    ccl_topology_t *t = finish(b);
    ccl_routes_t *r = ccl_routes_create(t);
    for (uint32_t channel = 0; channel < 3; channel++) {
        const ccl_route_t *p = route(r, 0, 1, channel);
        ck_assert_uint_eq(p->nlinks, 2);
        ck_assert(p->links[0] == 4 && p->links[1] == 6);
        ck_assert(p->bottleneck_Bps == 20e9 && p->crosses_net);
    }
    ck_assert_uint_eq(ccl_routes_width(r, 0, 1), 1);
    ccl_routes_destroy(r);
    ccl_topology_destroy(t);
}
END_TEST

/* One server of 8 GPUs over 4 NICs on a PCIe switch, one far GPU: (local index + channel) mod 4. */
START_TEST(spread_over_nics) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    char id[16];
    uint32_t fabric = add_device(b, "fabric", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    uint32_t pcie = add_device(b, "pcie", CCL_DEVICE_SWITCH, "near", CCL_NONE), nic[4];
    uint32_t far = add_device(b, "far", CCL_DEVICE_GPU, "far", 0);
    add_duplex(b, far, fabric, "net", 100, 1);
    for (uint32_t n = 0; n < 4; n++) {
        snprintf(id, sizeof id, "nic%u", n);
        nic[n] = add_device(b, id, CCL_DEVICE_NIC, "near", CCL_NONE);
        add_duplex(b, pcie, nic[n], "pcie", 25, 0.5);
        add_duplex(b, nic[n], fabric, "net", 25, 1);
    }
    for (uint32_t g = 0; g < 8; g++) {
        snprintf(id, sizeof id, "gpu%u", g);
        uint32_t gpu = add_device(b, id, CCL_DEVICE_GPU, "near", g + 1);
        add_duplex(b, gpu, pcie, "pcie", 25, 0.5);
    }
    ccl_topology_t *t = finish(b);
    ccl_routes_t *r = ccl_routes_create(t);
    const ccl_route_t *kept[8][6];
    for (uint32_t g = 0; g < 8; g++) {
        for (uint32_t channel = 0; channel < 6; channel++) {
            const ccl_route_t *p = kept[g][channel] = route(r, g + 1, 0, channel);
            ck_assert_uint_eq(p->nlinks, 4);
            ck_assert_uint_eq(t->links[p->links[2]].from, nic[(g + channel) % 4]);
            ck_assert(p->crosses_net && p->crosses_pcie);
            ck_assert_str_eq(t->kinds[p->first_kind], "pcie");
            /* Channels that fall on the same links share the same route object. */
            if (channel >= 4)
                ck_assert_ptr_eq(p, kept[g][channel - 4]);
        }
        ck_assert_uint_eq(ccl_routes_width(r, g + 1, 0), 4);
        /* From the far side the choice is the far GPU's: local index 0. */
        const ccl_route_t *p = route(r, 0, g + 1, 2);
        ck_assert_uint_eq(t->links[p->links[1]].to, nic[2]);
    }
    for (uint32_t g = 0; g < 8; g++) /* pointers stay valid and keep their meaning */
        ck_assert_ptr_eq(route(r, g + 1, 0, 5), kept[g][5]);
    ccl_routes_destroy(r);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(parallel_links_are_a_fork) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    uint32_t a = add_device(b, "a", CCL_DEVICE_GPU, NULL, 0);
    uint32_t z = add_device(b, "z", CCL_DEVICE_GPU, NULL, 1);
    for (int i = 0; i < 3; i++)
        add_duplex(b, a, z, "xgmi", 50, 1); /* links 0, 2, 4 from a */
    ccl_topology_t *t = finish(b);
    ccl_routes_t *r = ccl_routes_create(t);
    for (uint32_t channel = 0; channel < 40; channel++) {
        ck_assert_uint_eq(route(r, 0, 1, channel)->links[0], 2 * (channel % 3));
        ck_assert_uint_eq(route(r, 1, 0, channel)->links[0], 2 * ((1 + channel) % 3) + 1);
    }
    ck_assert_uint_eq(ccl_routes_width(r, 0, 1), 3);
    ccl_routes_destroy(r);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(refusals) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("line");
    uint32_t a = add_device(b, "left", CCL_DEVICE_GPU, NULL, 0);
    uint32_t m = add_device(b, "mid", CCL_DEVICE_GPU, NULL, 1);
    uint32_t z = add_device(b, "right", CCL_DEVICE_GPU, NULL, 2);
    add_duplex(b, a, m, "nvlink", 1, 0);
    add_duplex(b, m, z, "nvlink", 1, 0);
    ccl_topology_t *t = finish(b);
    ccl_routes_t *r = ccl_routes_create(t);
    const ccl_route_t *p = NULL;
    for (int again = 0; again < 2; again++) { /* the answer is remembered, not spoilt */
        ccl_error_t err = CCL_ERROR_INIT;
        ck_assert_int_eq(ccl_routes_get(r, 0, 2, 0, &p, &err), CCL_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(err.text, "left"));
        ck_assert_ptr_nonnull(strstr(err.text, "right"));
        ck_assert_uint_eq(ccl_routes_width(r, 0, 2), 0);
        ck_assert_uint_eq(ccl_routes_period(r, 0, 2), 0);
    }
    ck_assert_int_eq(ccl_routes_get(r, 1, 1, 0, &p, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_routes_get(r, 0, 3, 0, &p, NULL), CCL_ERR_INPUT);
    ck_assert_uint_eq(ccl_routes_width(r, 3, 0), 0);
    ck_assert_ptr_null(p);
    ccl_routes_destroy(r);
    ccl_routes_destroy(NULL);
    ccl_topology_destroy(t);
}
END_TEST

/*
 * 512 GPUs in servers of 8, a NIC per GPU, one fabric: every route is known. Asked for destination
 * by destination, so that more sources are in use than the pass cache holds.
 */
START_TEST(all_pairs_of_512) {
    enum { SERVERS = 64, GPUS = 8, RANKS = SERVERS * GPUS };
    ccl_topology_builder_t *b = ccl_topology_builder_create("flat");
    char id[32], server[16];
    uint32_t fabric = add_device(b, "fabric", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    uint32_t *up = calloc(RANKS, sizeof *up);
    uint8_t *seen = calloc(RANKS * (RANKS - 1), 1); /* every route has an index of its own */
    for (uint32_t s = 0; s < SERVERS; s++) {
        snprintf(server, sizeof server, "s%u", s);
        snprintf(id, sizeof id, "s%u/nvswitch", s);
        uint32_t nvswitch = add_device(b, id, CCL_DEVICE_SWITCH, server, CCL_NONE);
        for (uint32_t g = 0; g < GPUS; g++) {
            snprintf(id, sizeof id, "s%u/gpu%u", s, g);
            uint32_t gpu = add_device(b, id, CCL_DEVICE_GPU, server, s * GPUS + g);
            snprintf(id, sizeof id, "s%u/nic%u", s, g);
            uint32_t nic = add_device(b, id, CCL_DEVICE_NIC, server, CCL_NONE);
            up[s * GPUS + g] = 6 * (s * GPUS + g);
            add_duplex(b, gpu, nvswitch, "nvlink", 450, 0.5);
            add_duplex(b, gpu, nic, "pcie", 64, 0.25);
            add_duplex(b, nic, fabric, "net", 50, 1.25);
        }
    }
    ccl_topology_t *t = finish(b);
    ccl_routes_t *r = ccl_routes_create(t);
    const ccl_route_t *first = route(r, 0, 511, 0);
    for (uint32_t d = 0; d < RANKS; d++) {
        for (uint32_t s = 0; s < RANKS; s++) {
            if (s == d)
                continue;
            const ccl_route_t *p = NULL;
            bool ok = ccl_routes_get(r, s, d, s % 3, &p, NULL) == CCL_OK;
            if (s / GPUS == d / GPUS)
                ok = ok && p->nlinks == 2 && p->links[0] == up[s] && p->links[1] == up[d] + 1;
            else
                ok = ok && p->nlinks == 4 && p->links[0] == up[s] + 2 && p->links[1] == up[s] + 4 &&
                     p->links[2] == up[d] + 5 && p->links[3] == up[d] + 3;
            ok = ok && p->index < RANKS * (RANKS - 1) && seen[p->index]++ == 0;
            ck_assert_msg(ok, "rank %u to rank %u", s, d);
        }
    }
    ck_assert_ptr_eq(first, route(r, 0, 511, 7));
    ccl_routes_destroy(r);
    ccl_topology_destroy(t);
    free(up);
    free(seen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.topologies.routes");
    TCase *tc = tcase_create("routes");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, nvlink_before_shorter_pcie);
    tcase_add_test(tc, hops_then_width_then_latency);
    tcase_add_test(tc, spread_over_nics);
    tcase_add_test(tc, parallel_links_are_a_fork);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, all_pairs_of_512);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
