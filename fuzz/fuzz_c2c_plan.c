/* FlagCX's plans between clusters: what is read is written and read back to the same text. */
#include "schedule/schedule.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ccl_c2c_plan_t *plan = NULL, *again = NULL;
    ccl_text_t text = {0}, copy = {0};
    ccl_error_t err = CCL_ERROR_INIT;

    if (ccl_c2c_plan_read_xml("fuzz", (const char *)data, size, 0, &plan, &err) != CCL_OK) {
        if (plan || !err.text[0])
            __builtin_trap();
        return 0;
    }
    if (ccl_c2c_plan_write_xml(plan, &text, &err) == CCL_OK) {
        if (ccl_c2c_plan_read_xml("again", text.data, text.len, 0, &again, &err) != CCL_OK ||
            ccl_c2c_plan_write_xml(again, &copy, &err) != CCL_OK ||
            strcmp(text.data, copy.data) != 0)
            __builtin_trap();
    }
    ccl_text_fini(&text);
    ccl_text_fini(&copy);
    ccl_c2c_plan_destroy(plan);
    ccl_c2c_plan_destroy(again);
    return 0;
}
