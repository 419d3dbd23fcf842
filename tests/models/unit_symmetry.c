/* Dimensions and classes of clusters whose structure is known by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/models.h"
#include "tests/base/scarce.h"
#include "tests/topologies/topologies.h"

static ccl_symmetry_t *symmetry_of(const ccl_topology_t *topo) {
    ccl_routes_t *routes = ccl_routes_create(topo);
    ccl_symmetry_t *s = NULL;

    ck_assert_ptr_nonnull(routes);
    MUST(ccl_symmetry_find(NULL, topo, routes, &s, e));
    ccl_routes_destroy(routes);
    return s;
}

static ccl_symmetry_t *symmetry(const char *spec, const char *fail) {
    ccl_topology_t *topo = topology(spec);
    ccl_symmetry_t *s;

    if (fail) {
        ccl_topology_t *less = edited(topo, fail);

        ccl_topology_destroy(topo);
        topo = less;
    }
    s = symmetry_of(topo);
    ccl_topology_destroy(topo);
    return s;
}

static void expect(const ccl_symmetry_t *s, uint32_t i, const char *name, uint32_t groups,
                   uint32_t min_gpus, uint32_t max_gpus, uint32_t classes) {
    const ccl_dimension_t *d = &s->dimensions[i];

    ck_assert_uint_lt(i, s->ndimensions);
    ck_assert_str_eq(d->name, name);
    ck_assert_uint_eq(d->ngroups, groups);
    ck_assert_uint_eq(d->min_gpus, min_gpus);
    ck_assert_uint_eq(d->max_gpus, max_gpus);
    ck_assert_uint_eq(d->nclasses, classes);
}

START_TEST(rails_and_a_spine) {
    ccl_symmetry_t *s = symmetry("syccl-7x4-rail", NULL);

    ck_assert_uint_eq(s->ndimensions, 3);
    expect(s, 0, "nvlink", 7, 4, 4, 1);
    expect(s, 1, "net, 2 hops", 4, 7, 7, 1);
    expect(s, 2, "net, 4 hops", 1, 28, 28, 1);
    ck_assert_uint_eq(s->ngpu_classes, 1);
    ck_assert(s->dimensions[0].complete[6] && s->dimensions[1].complete[0]);
    ck_assert_msg(!s->dimensions[2].complete[0], "GPUs of a rail do not meet over the spine");
    ck_assert_uint_eq(s->dimensions[1].ranks[s->dimensions[1].first[1] + 2], 9);
    /* 7 servers may change places, and so may the 4 rails */
    ck_assert(fabs(s->log10_automorphisms - log10(5040.0 * 24)) < 1e-6);
    ccl_symmetry_destroy(s);
}
END_TEST

/* 8 servers of 4, two to a leaf, two leaves to a spine, a core: SyCCL, appendix B, figure 20. */
static ccl_topology_t *clos(double last_GBps) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("clos");
    uint32_t core = add_device(b, "core", CCL_DEVICE_SWITCH, NULL, CCL_NONE), spine[2], leaf[4];
    char id[32];

    for (uint32_t i = 0; i < 2; i++) {
        snprintf(id, sizeof id, "spine%u", i);
        spine[i] = add_device(b, id, CCL_DEVICE_SWITCH, NULL, CCL_NONE);
        add_duplex(b, spine[i], core, "net", 50, 1);
    }
    for (uint32_t i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "leaf%u", i);
        leaf[i] = add_device(b, id, CCL_DEVICE_SWITCH, NULL, CCL_NONE);
        add_duplex(b, leaf[i], spine[i / 2], "net", 50, 1);
    }
    for (uint32_t server = 0; server < 8; server++) {
        char name[16];

        snprintf(name, sizeof name, "s%u", server);
        snprintf(id, sizeof id, "s%u/nvswitch", server);
        uint32_t crossbar = add_device(b, id, CCL_DEVICE_SWITCH, name, CCL_NONE);
        for (uint32_t i = 0; i < 4; i++) {
            snprintf(id, sizeof id, "s%u/gpu%u", server, i);
            uint32_t gpu = add_device(b, id, CCL_DEVICE_GPU, name, server * 4 + i);
            snprintf(id, sizeof id, "s%u/nic%u", server, i);
            uint32_t nic = add_device(b, id, CCL_DEVICE_NIC, name, CCL_NONE);
            add_duplex(b, gpu, crossbar, "nvlink", 300, 1);
            add_duplex(b, gpu, nic, "pcie", 32, 1);
            add_duplex(b, nic, leaf[server / 2], "net", server == 7 && i == 3 ? last_GBps : 25, 1);
        }
    }
    return finish(b);
}

START_TEST(a_clos_network_has_a_dimension_per_tier) {
    ccl_topology_t *topo = clos(25);
    ccl_symmetry_t *s = symmetry_of(topo);

    ck_assert_uint_eq(s->ndimensions, 4);
    expect(s, 0, "nvlink", 8, 4, 4, 1);
    expect(s, 1, "net, 2 hops", 4, 8, 8, 1);
    expect(s, 2, "net, 4 hops", 2, 16, 16, 1);
    expect(s, 3, "net, 6 hops", 1, 32, 32, 1);
    ck_assert_uint_eq(s->ngpu_classes, 1);
    /* any two children of any switch may change places, and GPUs within a server */
    ck_assert(fabs(s->log10_automorphisms - (8 * log10(24) + 7 * log10(2))) < 1e-6);
    ccl_symmetry_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(a_slow_nic_leaves_the_rest_alike) {
    ccl_topology_t *topo = clos(12.5);
    ccl_symmetry_t *s = symmetry_of(topo);

    /* The groups stay; server 7, its leaf, its spine are not like the others any more. */
    ck_assert_uint_eq(s->ndimensions, 4);
    expect(s, 0, "nvlink", 8, 4, 4, 4);
    expect(s, 1, "net, 2 hops", 4, 8, 8, 3);
    expect(s, 2, "net, 4 hops", 2, 16, 16, 2);
    ck_assert_uint_eq(s->dimensions[0].class_of[0], s->dimensions[0].class_of[3]);
    ck_assert_uint_ne(s->dimensions[0].class_of[6], s->dimensions[0].class_of[7]);
    /* far away, under its spine, in its server's neighbour, its server's others, itself */
    ck_assert_uint_eq(s->ngpu_classes, 5);
    ck_assert_uint_eq(s->gpu_class[0], s->gpu_class[15]);
    ck_assert_uint_ne(s->gpu_class[30], s->gpu_class[31]);
    ccl_symmetry_destroy(s);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(a_failed_gpu_leaves_the_rest_alike) {
    ccl_symmetry_t *s = symmetry("syccl-h800-64", "fail:gpu:3");

    ck_assert_uint_eq(s->nranks, 63);
    expect(s, 0, "nvlink", 8, 7, 8, 2);
    for (uint32_t g = 1; g < 8; g++)
        ck_assert_uint_eq(s->dimensions[0].class_of[g], 1);
    expect(s, 1, "net", 8, 7, 8, 2);
    /* its server, its rail, all others */
    ck_assert_uint_eq(s->ngpu_classes, 3);
    ccl_symmetry_destroy(s);
}
END_TEST

START_TEST(fast_pairs_are_a_dimension) {
    ccl_symmetry_t *s = symmetry("mi250-x16", NULL);

    /* the halves of a package, then links of 100, then of 50 GB/s; faster links join as well */
    expect(s, 0, "xgmi, 200GB/s", 8, 2, 2, 2);
    expect(s, 1, "xgmi, 100GB/s", 4, 4, 4, 1);
    expect(s, 2, "xgmi, 50GB/s", 1, 16, 16, 1);
    ck_assert_uint_eq(s->dimensions[2].min_Bps, 50e9);
    ccl_symmetry_destroy(s);
}
END_TEST

START_TEST(mixed_servers_fall_into_classes) {
    ccl_symmetry_t *s = symmetry("heteccl-h20-4x2+8x2", NULL);

    expect(s, 0, "nvlink", 4, 4, 8, 2);
    ck_assert_uint_eq(s->dimensions[0].class_of[0], s->dimensions[0].class_of[1]);
    ck_assert_uint_eq(s->dimensions[0].class_of[2], s->dimensions[0].class_of[3]);
    ck_assert_uint_ne(s->dimensions[0].class_of[0], s->dimensions[0].class_of[2]);
    ck_assert_uint_eq(s->ngpu_classes, 2);
    ccl_symmetry_destroy(s);
}
END_TEST

/* One way only, and a shared capacity: both break what plain adjacency would call equal. */
START_TEST(direction_and_groups_count) {
    for (int variant = 0; variant < 3; variant++) {
        ccl_topology_builder_t *b = ccl_topology_builder_create("ring");
        ccl_topology_t *topo = NULL;
        ccl_symmetry_t *s;
        uint32_t gpu[4];
        char id[8];
        const uint32_t pair[] = {0, 2};

        for (uint32_t i = 0; i < 4; i++) {
            snprintf(id, sizeof id, "g%u", i);
            MUST(ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, NULL, i, NULL, &gpu[i], e));
        }
        for (uint32_t i = 0; i < 4; i++) {
            if (variant == 1)
                MUST(ccl_topology_builder_link(b, gpu[i], gpu[(i + 1) % 4], "nvlink", 25e9, 0, 1, 0,
                                               e));
            else
                MUST(ccl_topology_builder_duplex(b, gpu[i], gpu[(i + 1) % 4], "nvlink", 25e9, 0, 1,
                                                 0, e));
        }
        if (variant == 2)
            MUST(ccl_topology_builder_group(b, "shared", 30e9, pair, 2, e));
        MUST(ccl_topology_builder_finish(b, &topo, e));
        ccl_topology_builder_destroy(b);
        s = symmetry_of(topo);
        /* the square's 8; only turning it; 0->1 and 1->2 share, so 0, 1, 2, 3 all differ */
        ck_assert(fabs(s->log10_automorphisms - log10((double[]){8, 4, 1}[variant])) < 1e-6);
        ck_assert_uint_eq(s->ngpu_classes, variant == 2 ? 4 : 1);
        ccl_symmetry_destroy(s);
        ccl_topology_destroy(topo);
    }
}
END_TEST

enum { RING = 100000 }; /* vertices: bliss wants tens of megabytes for them */

static ccl_status_t label_ring(uint32_t *labels, ccl_error_t *err) {
    static uint32_t colour[RING];
    static uint32_t edges[RING][2];

    for (uint32_t i = 0; i < RING; i++) {
        colour[i] = i == 0; /* nothing to search for */
        edges[i][0] = i;
        edges[i][1] = (i + 1) % RING;
    }
    return ccl_graph_canonical(NULL, RING, colour, RING, (const uint32_t(*)[2])edges, labels, err);
}

/* bliss dereferences what malloc did not give, or throws: an error here, and no output. */
START_TEST(without_memory) {
    ccl_error_t err = CCL_ERROR_INIT;
    uint32_t *labels = calloc(RING, sizeof *labels);
    ccl_topology_t *topo = NULL;
    ccl_routes_t *routes;
    ccl_symmetry_t *s = NULL;

    ck_assert_ptr_nonnull(labels);
    MUST(label_ring(labels, e));
    ck_assert_uint_ne(labels[0], labels[1]);
    if (!SCARCE_MEMORY) {
        free(labels);
        return;
    }
    memset(labels, 0, RING * sizeof *labels);
    struct rlimit before = scarce_begin((size_t)3 << 20);
    ccl_status_t status = label_ring(labels, &err);
    scarce_end(before);
    ck_assert_int_eq(status, CCL_ERR_NOMEM);
    ck_assert_msg(strstr(err.text, "out of memory") != NULL, "%s", err.text);
    for (uint32_t i = 0; i < RING; i++)
        ck_assert_uint_eq(labels[i], 0);
    free(labels);

    /* From nothing left to enough: never more than an error. */
    topo = topology("syccl-h800-64");
    routes = ccl_routes_create(topo);
    ck_assert_ptr_nonnull(routes);
    MUST(ccl_symmetry_find(NULL, topo, routes, &s, e)); /* routes are known from now on */
    ccl_symmetry_destroy(s);
    uint32_t failed = 0;
    for (size_t kilobytes = 64;; kilobytes *= 2) {
        s = NULL;
        ccl_error_clear(&err);
        before = scarce_begin(kilobytes << 10);
        status = ccl_symmetry_find(NULL, topo, routes, &s, &err);
        scarce_end(before);
        if (status == CCL_OK)
            break;
        ck_assert_int_eq(status, CCL_ERR_NOMEM);
        ck_assert_ptr_null(s);
        failed++;
    }
    ck_assert_uint_gt(failed, 0);
    ccl_symmetry_destroy(s);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("symmetry");
    TCase *tcase = tcase_create("all");

    tcase_add_test(tcase, rails_and_a_spine);
    tcase_add_test(tcase, a_clos_network_has_a_dimension_per_tier);
    tcase_add_test(tcase, a_slow_nic_leaves_the_rest_alike);
    tcase_add_test(tcase, a_failed_gpu_leaves_the_rest_alike);
    tcase_add_test(tcase, fast_pairs_are_a_dimension);
    tcase_add_test(tcase, mixed_servers_fall_into_classes);
    tcase_add_test(tcase, direction_and_groups_count);
    tcase_add_test(tcase, without_memory);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
