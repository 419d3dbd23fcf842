#include "topologies/topologies.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was read must be laid over a cluster, or be refused with a word. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char cluster[] = "gpus:2 nvswitch=300GB/s,0.7us";
    ccl_profile_t *profile = NULL;
    ccl_topology_t *topo = NULL, *laid = NULL;
    ccl_error_t err = CCL_ERROR_INIT;
    ccl_status_t status = ccl_profile_read_text("fuzz", (const char *)data, size, &profile, &err);
    if (status != CCL_OK) {
        if (!err.text[0] || profile)
            __builtin_trap();
        return 0;
    }
    if (ccl_topology_read_synthetic(NULL, cluster, &topo, &err) != CCL_OK)
        __builtin_trap();
    status = ccl_profile_apply(NULL, profile, topo, &laid, &err);
    if (status != CCL_OK && (!err.text[0] || laid))
        __builtin_trap();
    ccl_topology_destroy(laid);
    ccl_topology_destroy(topo);
    ccl_profile_destroy(profile);
    return 0;
}
