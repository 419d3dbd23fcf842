/* The builder: what it keeps, what it derives, what it refuses. */
#include <check.h>
#include <math.h>

#include "topology_helpers.h"

START_TEST(derived_parts) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    /* Devices in an order that is not the rank order; "lone" has no server. */
    uint32_t g2 = add_device(b, "g2", CCL_DEVICE_GPU, "east", 2);
    uint32_t sw = add_device(b, "sw", CCL_DEVICE_SWITCH, NULL, CCL_NONE);
    uint32_t g0 = add_device(b, "g0", CCL_DEVICE_GPU, "east", 0);
    uint32_t lone = add_device(b, "lone", CCL_DEVICE_GPU, NULL, 3);
    uint32_t g1 = add_device(b, "g1", CCL_DEVICE_GPU, "west", 1);
    uint32_t g4 = add_device(b, "g4", CCL_DEVICE_GPU, "east", 4);
    uint32_t ends[] = {g0, g1, g2, lone, g4};
    for (size_t i = 0; i < CCL_ARRAY_LEN(ends); i++)
        add_duplex(b, ends[i], sw, i % 2 ? "net" : "nvlink", 10, 1);
    uint32_t links[] = {9, 1, 5};
    MUST(ccl_topology_builder_group(b, "g", 5e9, links, 3, e));
    ck_assert_uint_eq(ccl_topology_builder_find(b, "lone"), lone);
    ck_assert_uint_eq(ccl_topology_builder_find(b, "nobody"), CCL_NONE);
    ccl_topology_t *t = finish(b);
    ck_assert_uint_eq(t->nranks, 5);
    ck_assert_uint_eq(t->nservers, 2);
    ck_assert_str_eq(t->servers[0], "east");
    ck_assert_uint_eq(t->devices[lone].server, CCL_NONE);
    /* Position among the server's GPUs in rank order; the rank where there is no server. */
    const uint32_t local[] = {0, 0, 1, 3, 2};
    for (uint32_t r = 0; r < 5; r++) {
        ck_assert_uint_eq(t->rank_device[r], ends[r]);
        ck_assert_uint_eq(t->rank_local_index[r], local[r]);
    }
    ck_assert_uint_eq(t->nlinks, 10);
    ck_assert_uint_eq(t->links[3].from, sw);
    ck_assert_uint_eq(t->links[3].to, g1);
    ck_assert_str_eq(t->kinds[t->links[3].kind], "net");
    /* The switch's links out, ascending. */
    ck_assert_uint_eq(t->out_first[sw + 1] - t->out_first[sw], 5);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(t->out_links[t->out_first[sw] + i], 2 * i + 1);
    ck_assert_uint_eq(t->out_first[t->ndevices], t->nlinks);
    /* A group is a set: ascending whatever the order it was given in. */
    ck_assert(t->groups[0].links[0] == 1 && t->groups[0].links[1] == 5 &&
              t->groups[0].links[2] == 9);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(models_and_transports) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    MUST(ccl_topology_builder_device(b, "a", CCL_DEVICE_GPU, NULL, 0, "late", NULL, e));
    MUST(ccl_topology_builder_device(b, "b", CCL_DEVICE_GPU, NULL, 1, "never", NULL, e));
    MUST(ccl_topology_builder_duplex(b, 0, 1, "net", 1e9, 0, 1, 0, e));
    ccl_gpu_model_t late = ccl_gpu_model_default("late");
    late.sms = 7;
    MUST(ccl_topology_builder_gpu_model(b, &late, e));
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_topology_builder_gpu_model(b, &late, &err), CCL_ERR_INPUT);
    ccl_transport_spec_t spec = {
        .kind = "net",
        .given = CCL_TRANSPORT_SLOTS,
        .value = {.slots = 3, .latency_s = -1 /* not given, so not looked at */}};
    MUST(ccl_topology_builder_transport(b, &spec, e));
    ck_assert_int_eq(ccl_topology_builder_transport(b, &spec, NULL), CCL_ERR_INPUT);
    spec.protocol = "LL";
    MUST(ccl_topology_builder_transport(b, &spec, e));
    ck_assert_int_eq(ccl_topology_builder_transport(b, &spec, NULL), CCL_ERR_INPUT);
    spec.protocol = "LL32";
    ck_assert_int_eq(ccl_topology_builder_transport(b, &spec, NULL), CCL_ERR_INPUT);
    ccl_topology_t *t = finish(b);
    ck_assert_uint_eq(t->gpu_models[t->devices[0].model].sms, 7);
    ck_assert_str_eq(t->gpu_models[t->devices[1].model].name, "never");
    ck_assert(isinf(t->gpu_models[t->devices[1].model].copy_rate_Bps));
    ck_assert_uint_eq(t->ntransports, 2);
    ck_assert_uint_eq(t->transports[0].value.slots, 3);
    ck_assert(t->transports[0].value.latency_s == 0 && !t->transports[0].value.holds_tb);
    ccl_topology_destroy(t);
}
END_TEST

typedef struct link_row {
    const char *why;
    uint32_t from, to;
    const char *kind;
    double bandwidth_Bps, latency_s;
    uint32_t lanes;
    double contention;
    ccl_status_t expect;
} link_row_t;

static const link_row_t link_rows[] = {
    {"fine", 0, 1, "net", 1, 0, 1, 0, CCL_OK},
    {"end beyond", 0, 2, "net", 1, 0, 1, 0, CCL_ERR_INPUT},
    {"no end", CCL_NONE, 1, "net", 1, 0, 1, 0, CCL_ERR_INPUT},
    {"to itself", 1, 1, "net", 1, 0, 1, 0, CCL_ERR_INPUT},
    {"no rate", 0, 1, "net", 0, 0, 1, 0, CCL_ERR_INPUT},
    {"negative rate", 0, 1, "net", -1, 0, 1, 0, CCL_ERR_INPUT},
    {"endless rate", 0, 1, "net", INFINITY, 0, 1, 0, CCL_ERR_INPUT},
    {"rate is no number", 0, 1, "net", NAN, 0, 1, 0, CCL_ERR_INPUT},
    {"negative latency", 0, 1, "net", 1, -1e-9, 1, 0, CCL_ERR_INPUT},
    {"latency is no number", 0, 1, "net", 1, NAN, 1, 0, CCL_ERR_INPUT},
    {"no lanes", 0, 1, "net", 1, 0, 0, 0, CCL_ERR_INPUT},
    {"negative contention", 0, 1, "net", 1, 0, 1, -0.1, CCL_ERR_INPUT},
    {"no kind", 0, 1, "", 1, 0, 1, 0, CCL_ERR_INPUT},
    {"broken UTF-8", 0, 1, "n\xc3(t", 1, 0, 1, 0, CCL_ERR_INPUT},
    {"overlong UTF-8", 0, 1, "n\xc0\xaf", 1, 0, 1, 0, CCL_ERR_INPUT},
    {"good UTF-8", 0, 1, "\xc3\xa9\xe2\x82\xac", 1, 0, 1, 0, CCL_OK},
};

START_TEST(links) {
    const link_row_t *row = &link_rows[_i];
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    add_device(b, "a", CCL_DEVICE_GPU, NULL, 0);
    add_device(b, "b", CCL_DEVICE_GPU, NULL, 1);
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status =
        ccl_topology_builder_link(b, row->from, row->to, row->kind, row->bandwidth_Bps,
                                  row->latency_s, row->lanes, row->contention, &err);
    ck_assert_msg(status == row->expect, "%s: %s", row->why, ccl_status_name(status));
    ck_assert_msg((err.text[0] != 0) == (status != CCL_OK), "%s: %s", row->why, err.text);
    ccl_topology_builder_destroy(b);
}
END_TEST

START_TEST(refused_groups_leave_no_trace) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("t");
    add_device(b, "a", CCL_DEVICE_GPU, NULL, 0);
    add_device(b, "b", CCL_DEVICE_GPU, NULL, 1);
    add_duplex(b, 0, 1, "net", 1, 0);
    const uint32_t twice[] = {0, 1, 0}, beyond[] = {0, 2}, fine[] = {1, 0};
    ck_assert_int_eq(ccl_topology_builder_group(b, "g", 1, twice, 3, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_topology_builder_group(b, "g", 1, beyond, 2, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_topology_builder_group(b, "g", 0, fine, 2, NULL), CCL_ERR_INPUT);
    ck_assert_int_eq(ccl_topology_builder_group(b, "g", 1, fine, 0, NULL), CCL_ERR_INPUT);
    MUST(ccl_topology_builder_group(b, "g", 1, fine, 2, e));
    ck_assert_int_eq(ccl_topology_builder_group(b, "g", 1, fine, 2, NULL), CCL_ERR_INPUT);
    ccl_topology_t *t = finish(b);
    ck_assert_uint_eq(t->ngroups, 1);
    ccl_topology_destroy(t);
}
END_TEST

START_TEST(reachability_may_relay) {
    /* a -> b -> c -> a, one way each: every GPU reaches every other only through a third. */
    ccl_topology_builder_t *b = ccl_topology_builder_create("ring");
    const char *ids[] = {"a", "b", "c"};
    for (uint32_t i = 0; i < 3; i++)
        add_device(b, ids[i], CCL_DEVICE_GPU, NULL, i);
    MUST(ccl_topology_builder_link(b, 0, 1, "net", 1, 0, 1, 0, e));
    MUST(ccl_topology_builder_link(b, 1, 2, "net", 1, 0, 1, 0, e));
    ccl_topology_t *t = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ck_assert_int_eq(ccl_topology_builder_finish(b, &t, &err), CCL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(err.text, "no path from gpu \"b\""));
    ck_assert_ptr_null(t);
    MUST(ccl_topology_builder_link(b, 2, 0, "net", 1, 0, 1, 0, e)); /* still open after a refusal */
    t = finish(b);
    ccl_topology_destroy(t);
    ccl_topology_destroy(NULL);
    ccl_topology_builder_destroy(NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("unit.topologies.builder");
    TCase *tc = tcase_create("builder");
    tcase_add_test(tc, derived_parts);
    tcase_add_test(tc, models_and_transports);
    tcase_add_loop_test(tc, links, 0, (int)CCL_ARRAY_LEN(link_rows));
    tcase_add_test(tc, refused_groups_leave_no_trace);
    tcase_add_test(tc, reachability_may_relay);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
