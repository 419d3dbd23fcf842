/*
 * Out of memory at every single allocation in turn, while reading, editing, routing and writing:
 * each time CCL_ERR_NOMEM, nothing written to outputs, nothing leaked. malloc and friends are
 * wrapped by the linker. jansson's own calls are left alone: it ignores some failures inside
 * strings and hands out shorter ones.
 */
#include <check.h>
#include <stdlib.h>

#include "topology_helpers.h"

#include "tests/base/failing_malloc.h"

static ccl_topology_t *subject;
static char *subject_json;

static ccl_status_t scenario_read(ccl_error_t *err) {
    ccl_topology_t *t = NULL;
    ccl_status_t status =
        ccl_topology_read_text(NULL, "f", subject_json, strlen(subject_json), &t, err);
    armed = false;
    ck_assert((t != NULL) == (status == CCL_OK));
    ccl_topology_destroy(t);
    return status;
}

static ccl_status_t scenario_write(ccl_error_t *err) {
    ccl_text_t out = {0};
    ccl_status_t status = ccl_topology_write_json(subject, &out, err);
    ccl_text_fini(&out);
    return status;
}

static ccl_status_t scenario_edit(ccl_error_t *err) {
    ccl_topology_t *t = NULL;
    ccl_status_t status = ccl_topology_edit(subject, "fail:gpu:1", &t, err);
    armed = false;
    ck_assert((t != NULL) == (status == CCL_OK));
    ccl_topology_destroy(t);
    return status;
}

static ccl_status_t scenario_routes(ccl_error_t *err) {
    ccl_routes_t *r = ccl_routes_create(subject);
    if (!r)
        return CCL_ERR_NOMEM;
    ccl_status_t status = CCL_OK;
    bool outputs_fit = true;
    for (uint32_t channel = 0; channel < 12 && status == CCL_OK; channel++) {
        const ccl_route_t *p = NULL;
        status = ccl_routes_get(r, 0, 2, channel, &p, err);
        outputs_fit &= (p != NULL) == (status == CCL_OK);
    }
    armed = false;
    ck_assert(outputs_fit);
    for (uint32_t channel = 0; channel < 12; channel++) { /* having run out once spoils nothing */
        const ccl_route_t *p = NULL;
        ck_assert_int_eq(ccl_routes_get(r, 0, 2, channel, &p, NULL), CCL_OK);
        ck_assert_uint_eq(subject->links[p->links[0]].to, 3 + channel % 8);
    }
    ccl_routes_destroy(r);
    return status;
}

typedef ccl_status_t (*scenario_fn)(ccl_error_t *err);
static const struct {
    const char *why;
    scenario_fn run;
    long least; /* allocations that it must make, or the row tests little */
} scenarios[] = {
    {"read", scenario_read, 40},
    {"write", scenario_write, 2},
    {"edit", scenario_edit, 20},
    {"routes", scenario_routes, 15},
};

START_TEST(every_allocation) {
    for (long n = 0;; n++) {
        ccl_error_t err = CCL_ERROR_INIT;
        fail_in = n;
        armed = true;
        ccl_status_t status = scenarios[_i].run(&err);
        bool struck = fail_in < 0;
        armed = false;
        if (status == CCL_OK && !struck) {
            ck_assert_msg(n >= scenarios[_i].least, "%s: only %ld allocations", scenarios[_i].why,
                          n);
            break;
        }
        ck_assert_msg(status == CCL_ERR_NOMEM, "%s: allocation %ld: %s %s", scenarios[_i].why, n,
                      ccl_status_name(status), err.text);
        ck_assert_int_lt(n, 100000);
    }
}
END_TEST

/* Three GPUs, two of them joined over eight NICs, with groups, transports and models. */
START_TEST(make_subject) {
    ccl_topology_builder_t *b = ccl_topology_builder_create("subject");
    ccl_gpu_model_t model = ccl_gpu_model_default("M");
    model.vendor = "v";
    MUST(ccl_topology_builder_gpu_model(b, &model, e));
    for (uint32_t i = 0; i < 3; i++) {
        char id[8];
        snprintf(id, sizeof id, "g%u", i);
        MUST(ccl_topology_builder_device(b, id, CCL_DEVICE_GPU, "s", i, "M", NULL, e));
    }
    add_duplex(b, 0, 1, "nvlink", 100, 1);
    for (uint32_t i = 0; i < 8; i++) {
        char id[8];
        snprintf(id, sizeof id, "n%u", i);
        uint32_t nic = add_device(b, id, CCL_DEVICE_NIC, "s", CCL_NONE);
        add_duplex(b, 0, nic, "pcie", 25, 1);
        add_duplex(b, nic, 2, "net", 25, 1);
    }
    const uint32_t links[] = {2, 6};
    MUST(ccl_topology_builder_group(b, "g", 1e9, links, 2, e));
    ccl_transport_spec_t spec = {
        .kind = "net", .protocol = "LL", .given = CCL_TRANSPORT_SLOTS, .value = {.slots = 2}};
    MUST(ccl_topology_builder_transport(b, &spec, e));
    subject = finish(b);
    ccl_text_t out = {0};
    MUST(ccl_topology_write_json(subject, &out, e));
    subject_json = out.data;
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bad.topologies.memory");
    TCase *tc = tcase_create("memory");
    tcase_add_test(tc, make_subject);
    tcase_add_loop_test(tc, every_allocation, 0, (int)CCL_ARRAY_LEN(scenarios));
    suite_add_tcase(suite, tc);
    int rc = run_suite(suite);
    ccl_topology_destroy(subject);
    free(subject_json);
    return rc;
}
