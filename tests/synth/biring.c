/* The synthesizer of docs/howto/add-a-synthesizer.md, added to those that a test goes through. */
#include <stdlib.h>

#include "examples/biring.c"

__attribute__((constructor)) static void add_biring(void) {
    ccl_error_t err = CCL_ERROR_INIT;
    if (ccl_synth_register(ccllab_plugin.synth, "example", &err) != CCL_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}
