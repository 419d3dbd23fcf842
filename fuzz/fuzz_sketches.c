#include "synth/synth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char spec[] = "servers:2 gpus:2 nvswitch=100GB/s,1us nics:2x20GB/s,2us";
    ccl_synth_options_t options = CCL_SYNTH_OPTIONS_INIT;
    ccl_topology_t *topo = NULL;
    ccl_collective_t *want = NULL;
    ccl_schedule_t *schedule = NULL;
    ccl_json_doc_t doc;
    ccl_error_t err = CCL_ERROR_INIT;
    if (ccl_json_parse("fuzz", (const char *)data, size, &doc, &err) != CCL_OK)
        return 0;
    options.sketch.file = &doc;
    if (ccl_topology_read(NULL, spec, &topo, &err) == CCL_OK &&
        ccl_collective_create(CCL_ALLGATHER, topo->nranks, 1, 0, &want, &err) == CCL_OK) {
        ccl_status_t status =
            ccl_synthesize(NULL, "sketch", topo, NULL, want, &options, &schedule, &err);
        if (status == CCL_ERR_INTERNAL || (status != CCL_OK && (!err.text[0] || schedule)))
            __builtin_trap(); /* a wrong schedule; refused without a word, or with an output */
    }
    ccl_schedule_destroy(schedule);
    ccl_collective_destroy(want);
    ccl_topology_destroy(topo);
    ccl_json_fini(&doc);
    return 0;
}
