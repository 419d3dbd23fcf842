/* Execution plans of MSCCL++: a program that is read is verified, and written where it can be. */
#include "schedule/schedule.h"
#include "schedule/verify/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ccl_program_t *program = NULL;
    ccl_text_t text = {0};
    ccl_verdict_t verdict;
    ccl_error_t err = CCL_ERROR_INIT;

    ccl_program_is_mscclpp((const char *)data, size);
    if (ccl_program_read_mscclpp("fuzz", (const char *)data, size, &program, &err) != CCL_OK) {
        if (program || !err.text[0])
            __builtin_trap();
        return 0;
    }
    if (ccl_program_verify(NULL, program, NULL, &verdict, &err) == CCL_OK && verdict.valid)
        ccl_program_write_mscclpp(program, NULL, &text, &err);
    ccl_text_fini(&text);
    ccl_program_destroy(program);
    return 0;
}
