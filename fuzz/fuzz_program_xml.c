#include "schedule/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What reads must also be judged, whatever it is. Only small programs: time is for variety. */
static void judge(const ccl_program_t *program) {
    uint64_t elements = 0;
    for (uint32_t i = 0; i < 3 * program->nranks; i++)
        elements += program->buffer_len[i];
    if (program->nranks > 32 || program->nsteps > 2000 || elements > 20000)
        return;
    for (int granularity = 0; granularity <= CCL_GRANULARITY_TASK; granularity++) {
        ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
        options.granularity = (ccl_granularity_t)granularity;
        ccl_verdict_t verdict;
        ccl_error_t err = CCL_ERROR_INIT;
        ccl_status_t status = ccl_program_verify(NULL, program, &options, &verdict, &err);
        if (status == CCL_OK ? !verdict.valid && !verdict.fault.text[0] : !err.text[0])
            __builtin_trap(); /* refused without a word */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ccl_program_t *program = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_program_read_xml("fuzz", (const char *)data, size, &program, &err);
    if (status == CCL_OK) {
        judge(program);
        ccl_program_destroy(program);
    } else if (!err.text[0] || program) {
        __builtin_trap(); /* refused without a word, or with an output */
    }
    return 0;
}
