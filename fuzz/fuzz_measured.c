#include "validate/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ccl_measured_log_t *out = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_measured_read_text("fuzz", (const char *)data, size, &out, &err);
    if (status == CCL_OK) {
        for (uint32_t r = 0; r < out->nruns; r++)
            if (out->runs[r].npoints == 0 || !(out->runs[r].points[0].size_bytes > 0))
                __builtin_trap(); /* an empty run, or a row that is no measurement */
        ccl_measured_log_destroy(out);
    } else if (!err.text[0] || out) {
        __builtin_trap(); /* refused without a word, or with an output */
    }
    return 0;
}
