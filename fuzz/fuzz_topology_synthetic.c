#include "topologies/topologies.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_topology_read_synthetic(NULL, text, &topo, &err);
    if (status == CCL_OK)
        ccl_topology_destroy(topo);
    else if (!err.text[0] || topo)
        __builtin_trap(); /* refused without a word, or with an output */
    free(text);
    return 0;
}
