#include "schedule/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ccl_schedule_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_schedule_read_sccl("fuzz", (const char *)data, size, &out, &err);
    if (status == CCL_OK)
        ccl_schedule_destroy(out);
    else if (!err.text[0] || out)
        __builtin_trap(); /* refused without a word, or with an output */
    return 0;
}
