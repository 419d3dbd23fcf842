/* The reader of training plans, on a small cluster; what it takes is estimated without a model. */
#include "training/training.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static ccl_topology_t *topo;
    ccl_training_t *training = NULL;

    if (!topo && ccl_topology_read(NULL, "servers:2 gpus:2 nvswitch=100GB/s nics:1x10GB/s", &topo,
                                   NULL) != CCL_OK)
        return 0;
    if (ccl_training_read_text("fuzz", (const char *)data, len, topo, &training, NULL) != CCL_OK) {
        if (training)
            __builtin_trap();
        return 0;
    }
    training->has_model = false; /* collectives are not the reader's */
    ccl_training_options_t options = CCL_TRAINING_OPTIONS_INIT;
    ccl_training_result_t *result = NULL;
    if (ccl_training_estimate(NULL, topo, training, &options, &result, NULL) == CCL_OK) {
        uint64_t sum = 0;
        for (uint32_t w = 0; w < result->nworkers; w++)
            sum += result->workers[w].stage == 0 ? result->workers[w].batches : 0;
        if (sum != training->total)
            __builtin_trap();
    }
    ccl_training_result_destroy(result);
    ccl_training_destroy(training);
    return 0;
}
