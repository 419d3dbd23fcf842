#include "schedule/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ccl_epoch_flows_t *flows = NULL;
    ccl_schedule_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_epoch_flows_read_text("fuzz", (const char *)data, size, &flows, &err);
    if (status == CCL_OK)
        status = ccl_epoch_flows_schedule(flows, &out, &err);
    ccl_epoch_flows_destroy(flows);
    if (status == CCL_OK)
        ccl_schedule_destroy(out);
    else if (!err.text[0] || out)
        __builtin_trap(); /* refused without a word, or with an output */
    return 0;
}
