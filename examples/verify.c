/* Does an MSCCL program compute its collective? Usage: verify PROGRAM.xml ("-": standard input) */
#include <schedule/schedule.h>

#include <stdio.h>

int main(int argc, char **argv) {
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_verify_options_t options = CCL_VERIFY_OPTIONS_INIT;
    ccl_program_t *program = NULL;
    static ccl_verdict_t verdict; /* large: it holds the warnings */
    ccl_status_t status = ccl_program_read(argc > 1 ? argv[1] : "-", &program, &err);
    if (status == CCL_OK)
        status = ccl_program_verify(NULL, program, &options, &verdict, &err);
    if (status != CCL_OK) {
        fprintf(stderr, "%s\n", err.text);
    } else if (verdict.valid) {
        printf("%s: right for %s on %u ranks\n", program->name, program->coll->name,
               program->nranks);
    } else {
        printf("%s: %s: %s\n", program->name, verdict.fault.kind, verdict.fault.text);
        status = CCL_CHECK;
    }
    ccl_program_destroy(program);
    return ccl_status_exit_code(status);
}
