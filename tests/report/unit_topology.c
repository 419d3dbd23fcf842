/* A cluster at a glance: counts, classes of routes, refusals. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "base/json.h"
#include "tests/topologies/topologies.h"

static const struct {
    const char *spec;
    uint64_t nvlink, net, none; /* ordered pairs of GPUs by transport; none: relayed */
    const char *why;
} rows[] = {
    {"servers:1 gpus:4 nvswitch=300GB/s,1us", 12, 0, 0, "one server"},
    {"servers:2 gpus:4 nvswitch=300GB/s,1us nics:4x25GB/s,2us fabric=rail", 24, 8, 24,
     "rails: GPUs of other servers only on the same rail, the rest by relaying"},
    {"heteccl-h20-4+8", 4 * 3 + 8 * 7, 2 * 4 * 8, 0, "4 and 8 GPUs"},
    {"dgx1-v100", 32, 0, 0, "hybrid cube mesh: four neighbours each, the rest over PCIe"},
};

START_TEST(route_classes) {
    ccl_topology_t *topo = NULL;
    ccl_routes_t *routes;
    ccl_route_class_t *classes = NULL;
    uint32_t n = 0, sources = 0;
    uint64_t nvlink = 0, net = 0, none = 0, all = 0;
    ccl_error_t err = CCL_ERROR_INIT;

    topo = topology(rows[_i].spec);
    routes = ccl_routes_create(topo);
    ck_assert_ptr_nonnull(routes);
    ck_assert_int_eq(ccl_report_route_classes(topo, routes, 0, &classes, &n, &sources, &err),
                     CCL_OK);
    ck_assert_uint_eq(sources, topo->nranks);
    for (uint32_t i = 0; i < n; i++) {
        all += classes[i].pairs;
        if (classes[i].transport && strcmp(classes[i].transport, "nvlink") == 0)
            nvlink = classes[i].pairs;
        if (classes[i].transport && strcmp(classes[i].transport, "net") == 0)
            net = classes[i].pairs;
        if (!classes[i].transport)
            none = classes[i].pairs;
    }
    ck_assert_msg(nvlink == rows[_i].nvlink, "%s: %llu nvlink pairs", rows[_i].why,
                  (unsigned long long)nvlink);
    ck_assert_msg(net == rows[_i].net, "%s: %llu net pairs", rows[_i].why, (unsigned long long)net);
    ck_assert_msg(none == rows[_i].none, "%s: %llu pairs without a route", rows[_i].why,
                  (unsigned long long)none);
    ck_assert_uint_eq(all, (uint64_t)topo->nranks * (topo->nranks - 1));
    free(classes);
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(forms) {
    ccl_topology_t *topo = topology(rows[_i].spec);
    ccl_routes_t *routes;
    ccl_error_t err = CCL_ERROR_INIT;
    routes = ccl_routes_create(topo);
    for (int f = 0; f < 3; f++) {
        ccl_report_style_t style = {(ccl_report_format_t)f, NULL, 0, 0};
        ccl_text_t text = {0};

        ck_assert_int_eq(ccl_report_topology(topo, routes, &style, &text, &err), CCL_OK);
        if (f == CCL_REPORT_JSON) {
            json_t *root = json_loads(text.data, JSON_REJECT_DUPLICATES, NULL);

            ck_assert_ptr_nonnull(root);
            ck_assert_int_eq((int)json_integer_value(json_object_get(root, "nranks")),
                             (int)topo->nranks);
            json_decref(root);
        } else {
            ck_assert_ptr_nonnull(strstr(text.data, "gpu"));
        }
        ccl_text_t again = {0};
        ck_assert_int_eq(ccl_report_topology(topo, NULL, &style, &again, &err), CCL_OK);
        ck_assert_str_eq(text.data, again.data);
        ccl_text_fini(&again);
        ccl_text_fini(&text);
    }
    ccl_routes_destroy(routes);
    ccl_topology_destroy(topo);
}
END_TEST

START_TEST(refused) {
    ccl_error_t why = CCL_ERROR_INIT;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_report_style_t style = {CCL_REPORT_JSON, NULL, 0, 0};
    ccl_text_t text = {0};
    json_t *root;

    ccl_error_set(&why, CCL_ERR_INPUT, "a.json", 3, 14, "bandwidth \"25\" has no unit");
    ck_assert_int_eq(ccl_report_topology_check("a.json", NULL, &why, &style, &text, &err), CCL_OK);
    root = json_loads(text.data, JSON_REJECT_DUPLICATES, NULL);
    ck_assert(json_is_false(json_object_get(root, "valid")));
    ck_assert_str_eq(json_string_value(json_object_get(root, "error")),
                     "a.json:3:14: bandwidth \"25\" has no unit");
    json_decref(root);
    ccl_text_fini(&text);
}
END_TEST

int main(void) {
    const int n = (int)(sizeof(rows) / sizeof(rows[0]));
    Suite *suite = suite_create("topology");
    TCase *cases = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(cases, route_classes, 0, n);
    tcase_add_loop_test(cases, forms, 0, n);
    tcase_add_test(cases, refused);
    suite_add_tcase(suite, cases);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
