#include "topologies/topologies.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ccl_topology_t *topo = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status =
        ccl_topology_read_smi(NULL, "fuzz", (const char *)data, size, &topo, &err);
    if (status == CCL_OK)
        ccl_topology_destroy(topo);
    else if (!err.text[0] || topo)
        __builtin_trap(); /* refused without a word, or with an output */
    return 0;
}
