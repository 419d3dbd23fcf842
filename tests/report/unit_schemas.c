/* Results that need a GPU or rights of root pass their schemas as well; the program's own results
 * are held to theirs in cli.json.schemas. */
#include "report/report.h"
#include "base/json.h"
#include "schema.h"
#include "tests/base/main.h"

/** The text is JSON that names a schema and passes it. */
static void passes(const char *name, const ccl_text_t *text) {
    static const ccl_report_style_t style = {CCL_REPORT_JSON, NULL, 0, 0};
    json_t *root = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, NULL), *schema;
    ccl_error_t err = CCL_ERROR_INIT;
    schema_fault_t fault = {""};
    ccl_text_t of = {0};
    char id[80];

    ck_assert_msg(root != NULL, "not JSON: %s", text->data);
    ck_assert_int_eq(ccl_report_schema(name, &style, &of, &err), CCL_OK);
    schema = json_loadb(of.data, of.len, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(schema);
    snprintf(id, sizeof(id), "ccllab/%s/1", name);
    ck_assert_str_eq(json_string_value(json_object_get(schema, "$id")), id);
    ck_assert_str_eq(json_string_value(json_object_get(root, "schema")), id);
    schema_check(root, schema, "", &fault);
    ck_assert_msg(!fault.text[0], "%s: %s", id, fault.text);
    json_decref(root);
    json_decref(schema);
    ccl_text_fini(&of);
}

START_TEST(device) {
    static const ccl_report_style_t style = {CCL_REPORT_JSON, NULL, 0, 0};
    const ccl_constant_t constants[] = {
        {.name = "gpu_models/x/overhead",
         .unit = "s",
         .value = 1e-6,
         .low = 0.9e-6,
         .high = 1.1e-6,
         .determined = true},
        {.name = "gpu_models/x/copy", .unit = "B/s", .value = 1e11, .high = 1e12}};
    ccl_gpu_calibration_t made = {0};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t text = {0};

    made.npoints = 7;
    made.lanes = 4;
    made.constants = (ccl_constant_t *)constants;
    made.nconstants = 2;
    ck_assert_int_eq(ccl_report_gpu_calibration(&made, "gpu.json", &style, &text, &err), CCL_OK);
    passes("calibrate-device", &text);
    ccl_text_fini(&text);
}
END_TEST

START_TEST(testbed) {
    static const ccl_report_style_t style = {CCL_REPORT_JSON, NULL, 0, 0};
    const ccl_testbed_server_t servers[] = {{"s0", 0, 2, 1e9, 1e9, 8e9, 8e9},
                                            {"s1", 2, 2, 1e9, 1e9, 8e9, 8e9}};
    ccl_testbed_plan_t plan = {.cluster = "two", .nservers = 2, .nranks = 4, .servers = servers};
    ccl_testbed_entry_t entries[2] = {{.name = "bed",
                                       .mine = true,
                                       .pid = 17,
                                       .cluster = "two",
                                       .nservers = 2,
                                       .nranks = 4,
                                       .fds = {3, 4, 5}},
                                      {.name = "theirs"}};
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_text_t text = {0};

    ck_assert_int_eq(ccl_report_testbed(&plan, &entries[0], &style, &text, &err), CCL_OK);
    passes("testbed", &text);
    ck_assert_ptr_nonnull(strstr(text.data, "[\"/proc/17/fd/3\", \"/proc/17/fd/4\"]"));
    ccl_text_fini(&text);
    memset(&text, 0, sizeof(text));
    ck_assert_int_eq(ccl_report_testbeds(entries, 2, &style, &text, &err), CCL_OK);
    passes("testbeds", &text);
    ccl_text_fini(&text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schemas");
    TCase *cases = tcase_create("all");

    tcase_add_test(cases, device);
    tcase_add_test(cases, testbed);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
